/*
** json.c: JSON files as Lua tables: objects by name, arrays as lists, null as NaN (a missing number); whole files, or
** one value a line. Tables grow as the file is read, so what a file asks for is on the account before more of it is
** read.
*/
#include <math.h>
#include <string.h>
#include "../file/json_reader.h"
#include "penumbra_lua.h"

enum { STRIDE = 1024 };

/* What is open while Lua builds tables from it. */
typedef struct {
  pni_source s;
  pni_json json;
  bool open;
  unsigned seen; /* values since the last look at the limits */
} reader;

static void release(void *object) {
  reader *r = object;
  pni_json_close(&r->json);
  if (r->open) pni_source_close(&r->s);
  r->open = false;
}

static const pni_object_type kind = {"penumbra.json", "a file", sizeof(reader), 0, false, release};

static bool push(lua_State *L, reader *r, pni_json_kind which);

/* Pushes the list or object that has begun. */
static bool push_table(lua_State *L, reader *r) {
  pni_json_kind which;
  lua_Integer n = 0;
  luaL_checkstack(L, 4, "json");
  lua_newtable(L);
  while ((which = pni_json_next(&r->json)) != PNI_JSON_CLOSE) {
    bool named = which == PNI_JSON_KEY;
    if (named) {
      lua_pushlstring(L, r->json.text, r->json.length);
      which = pni_json_next(&r->json);
    }
    if (!push(L, r, which)) return false;
    if (named)
      lua_rawset(L, -3);
    else
      lua_rawseti(L, -2, ++n);
  }
  return true;
}

static void push_number(lua_State *L, double v) {
  if (v == floor(v) && fabs(v) < 9007199254740992.0)
    lua_pushinteger(L, (lua_Integer)v);
  else
    lua_pushnumber(L, v);
}

/* Pushes the value that has come; false if it was none. Lists are nested at most PNI_JSON_DEEPEST deep. */
static bool push(lua_State *L, reader *r, pni_json_kind which) {
  if (++r->seen % STRIDE == 0) pni_poll(L, STRIDE);
  switch (which) {
  case PNI_JSON_NULL: lua_pushnumber(L, NAN); return true;
  case PNI_JSON_FALSE:
  case PNI_JSON_TRUE: lua_pushboolean(L, which == PNI_JSON_TRUE); return true;
  case PNI_JSON_NUMBER: push_number(L, r->json.number); return true;
  case PNI_JSON_TEXT: lua_pushlstring(L, r->json.text, r->json.length); return true;
  case PNI_JSON_LIST:
  case PNI_JSON_OBJECT: return push_table(L, r);
  default: return false;
  }
}

/* Pushes a list of the values of all lines, or the only value. */
static bool push_all(lua_State *L, reader *r, bool lines) {
  pni_json_kind which;
  lua_Integer n = 0;
  if (!lines) return push(L, r, pni_json_next(&r->json)) && pni_json_next(&r->json) == PNI_JSON_END;
  lua_newtable(L);
  while ((which = pni_json_next(&r->json)) != PNI_JSON_END && push(L, r, which)) lua_rawseti(L, -2, ++n);
  return true;
}

/* json(path [, lines]) -> tables, or nil, message, code; with lines a list of the value of each line */
static int l_json(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  const char *path = pni_check_text(L, 1, "json", "path");
  bool lines = lua_toboolean(L, 2);
  reader *r = pni_new_object(L, &kind);
  r->open = pni_source_open(c, "json", path, &r->s) == PN_OK;
  bool good = r->open && pni_json_open(&r->s, INT64_MAX, lines, "is no JSON", &r->json) == PN_OK &&
              push_all(L, r, lines) && !pni_failed(c) && pni_source_finish(&r->s) == PN_OK;
  release(r);
  return good ? 1 : pni_push_failure(L, c);
}

void pni_add_json(lua_State *L) {
  pni_new_kind(L, &kind);
  lua_pop(L, 1);
  lua_pushcfunction(L, l_json);
  lua_setfield(L, -2, "json");
}
