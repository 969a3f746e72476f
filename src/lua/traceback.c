/*
** traceback.c: a short traceback for people who write scripts: only frames of Lua functions that are
** theirs, innermost first, the middle of deep ones left out. One frame alone says nothing that the
** message does not.
*/
#include <stdio.h>
#include "message.h"

enum { FIRST = 8, LAST = 3, REACH = 200 };

static void add_frame(luaL_Buffer *b, lua_State *of, int level) {
  lua_Debug ar;
  char line[LUA_IDSIZE + 160];
  lua_getstack(of, level, &ar);
  lua_getinfo(of, "nSlt", &ar);
  if (*ar.what == 'm')
    snprintf(line, sizeof line, "\n  %s:%d: in the main part", ar.short_src, ar.currentline);
  else if (ar.istailcall)
    snprintf(line, sizeof line, "\n  %s:%d: in a function", ar.short_src, ar.currentline);
  else if (ar.name && *ar.namewhat)
    snprintf(line, sizeof line, "\n  %s:%d: in %s '%.80s'", ar.short_src, ar.currentline,
             *ar.namewhat == 'm' && ar.namewhat[3] == 'h' ? "method" : "function", ar.name);
  else
    snprintf(line, sizeof line, "\n  %s:%d: in function <line %d>", ar.short_src, ar.currentline, ar.linedefined);
  luaL_addstring(b, line);
}

/* Is the frame a Lua function of the script? */
static bool is_theirs(lua_State *of, lua_Debug *ar) {
  lua_getinfo(of, "Sl", ar);
  return ar->currentline > 0 && !pni_is_ours(ar->source);
}

/* The outermost level. */
static int outermost(lua_State *of) {
  lua_Debug ar;
  int low = 0, high = 1;
  while (lua_getstack(of, high, &ar)) {
    low = high;
    high *= 2;
  }
  while (low + 1 < high) {
    int middle = (low + high) / 2;
    if (lua_getstack(of, middle, &ar))
      low = middle;
    else
      high = middle;
  }
  return low;
}

void pni_push_traceback(lua_State *L, lua_State *of, const char *message, int level) {
  lua_Debug ar;
  int first[FIRST], last[LAST], nfirst = 0, nlast = 0, end = outermost(of);
  int reach = level + REACH < end ? level + REACH : end; /* lua_getstack counts its way down */
  for (; level <= reach && nfirst < FIRST && lua_getstack(of, level, &ar); level++)
    if (is_theirs(of, &ar)) first[nfirst++] = level;
  for (reach = end - REACH; end >= level && end > reach && nlast < LAST && lua_getstack(of, end, &ar); end--)
    if (is_theirs(of, &ar)) last[nlast++] = end;
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  pni_push_explained(L, message);
  luaL_addvalue(&b);
  for (int i = 0; i < nfirst && nfirst + nlast > 1; i++) add_frame(&b, of, first[i]);
  if (nlast == LAST && end >= level) luaL_addstring(&b, "\n  ...");
  for (int i = nlast - 1; i >= 0; i--) add_frame(&b, of, last[i]);
  luaL_pushresult(&b);
}

/* traceback(message [, level]) -> message and the script's own frames */
static int l_traceback(lua_State *L) {
  const char *message = luaL_optstring(L, 1, "");
  pni_push_traceback(L, L, message, (int)luaL_optinteger(L, 2, 1));
  return 1;
}

void pni_open_traceback(lua_State *L) {
  lua_pushcfunction(L, l_traceback);
  lua_setfield(L, -2, "traceback");
}
