/*
** runtime_string.c: the functions of `string` that can take far longer than their arguments are long.
*/
#include <string.h>
#include "runtime.h"

/* rep(s, n [, sep]): doubles what is there, so the time is that of copying the result once. */
static int l_rep(lua_State *L) {
  size_t l, lsep;
  const char *s = luaL_checklstring(L, 1, &l);
  lua_Integer n = luaL_checkinteger(L, 2);
  const char *sep = luaL_optlstring(L, 3, "", &lsep);
  if (n <= 0 || l + lsep == 0 || (l == 0 && n == 1)) {
    lua_pushliteral(L, "");
    return 1;
  }
  if (n > LUA_MAXINTEGER / (lua_Integer)(l + lsep)) return luaL_error(L, "resulting string too large");
  size_t unit = l + lsep, total = (size_t)n * unit - lsep;
  luaL_Buffer b;
  char *p = luaL_buffinitsize(L, &b, total + lsep);
  pni_runtime_poll(L, total / 1024);
  memcpy(p, s, l);
  memcpy(p + l, sep, lsep);
  for (size_t have = unit; have < total; have *= 2) memcpy(p + have, p, have < total - have ? have : total - have);
  luaL_pushresultsize(&b, total);
  return 1;
}

void pni_guard_string(lua_State *L) {
  static const luaL_Reg functions[] = {{"rep", l_rep}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  pni_guard_pattern(L);
  lua_pushnil(L);
  lua_setfield(L, -2, "dump");
}
