/*
** failure.c: the last operational failure. Such failures are returned, nil, message, code; a script that goes on with
** the nil meets an error that says nothing of the reason. So the last one is noted, and told where an error speaks of a
** nil.
*/
#include <stdio.h>
#include <string.h>
#include "message.h"

void pni_note_failure(lua_State *L, const char *message) {
  pni_failure *f = &pni_lua_state(L)->failed;
  pni_push_where(L);
  snprintf(f->where, sizeof f->where, "%s", lua_tostring(L, -1));
  snprintf(f->message, sizeof f->message, "%s", message);
  lua_pop(L, 1);
}

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

/* Does the message say that something was nil? Lua's own words, and those of argument checks. */
static bool is_about_nil(const char *message) {
  const char *attempt = strstr(message, "attempt to ");
  if (attempt && (strstr(attempt, " a nil value") || strstr(attempt, " nil with ") || strstr(attempt, " nil values") ||
                  ends_with(attempt, " with nil")))
    return true;
  static const char *const ends[] = {"got nil",     "got nil)",     "got no value", "got no value)",
                                     " is missing", " is required", "got 0 of them"};
  for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
    if (ends_with(message, ends[k])) return true;
  return false;
}

static bool is_to_tell(const pni_failure *f, const char *message) {
  return *f->message && is_about_nil(message) && !strstr(message, f->message);
}

void pni_push_with_failure(lua_State *L, const char *message) {
  const pni_state *s = pni_lua_state(L);
  if (s && is_to_tell(&s->failed, message))
    lua_pushfstring(L, "%s; the last failure was %s%s", message, s->failed.where, s->failed.message);
  else
    lua_pushstring(L, message);
}

void pni_push_with_own_failure(lua_State *L, const char *where, const char *message) {
  const pni_failure *f = &pni_lua_state(L)->failed;
  if (*where && strcmp(where, f->where) == 0 && is_to_tell(f, message))
    lua_pushfstring(L, "%s; the last failure was %s", message, f->message);
  else
    lua_pushstring(L, message);
}
