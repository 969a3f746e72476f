/*
** runtime_string.c: the functions of `string` that can take far longer than their arguments are long, and those that
** take as long as these are: they are charged for it. (Patterns: runtime_pattern.c.)
*/
#include <string.h>
#include "runtime.h"

/* Repeats the first `unit` bytes up to `total`: doubles what is there, so the time is that of copying the result
 * once. */
static void fill(lua_State *L, char *p, size_t unit, size_t total) {
  enum { MOST = 1 << 20 };
  const size_t whole = unit < MOST ? MOST / unit * unit : unit;
  for (size_t have = unit, n; have < total; have += n) {
    n = have < whole ? have : whole;
    if (n > total - have) n = total - have;
    memcpy(p + have, p, n);
    pni_runtime_charge(L, n / 8);
  }
}

/* rep(s, n [, sep]) */
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
  pni_runtime_poll(L, 1);
  memcpy(p, s, l);
  memcpy(p + l, sep, lsep);
  fill(L, p, unit, total);
  luaL_pushresultsize(&b, total);
  return 1;
}

/* A function that goes through its strings once. */
static int l_once(lua_State *L) {
  size_t bytes = 0;
  for (int i = lua_gettop(L); i > 0; i--)
    if (lua_type(L, i) == LUA_TSTRING) bytes += (size_t)lua_rawlen(L, i);
  pni_runtime_charge(L, bytes);
  return pni_original(L);
}

/* ---- format ---- */

enum { FEW = 32, LONGEST_SPEC = 40 };

/* The length of the conversion at p, '%' included. */
static size_t conversion(const char *p, const char *end) {
  size_t n = 1;
  while (p + n < end && n < LONGEST_SPEC && p[n] && strchr("-+ #0123456789.", p[n])) n++;
  return p + n < end ? n + 1 : n;
}

/* One conversion after the other: each may measure a long string. */
static int format_long(lua_State *L, const char *p, const char *end) {
  int top = lua_gettop(L), arg = 1;
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  while (p < end) {
    const char *next = memchr(p, '%', (size_t)(end - p));
    luaL_addlstring(&b, p, (size_t)((next ? next : end) - p));
    if (!next) break;
    size_t n = conversion(next, end);
    bool percent = n == 2 && next[1] == '%';
    if (!percent && ++arg > top) return luaL_argerror(L, arg, "no value");
    pni_runtime_charge(L, 64 + (percent || lua_type(L, arg) != LUA_TSTRING ? 0 : (size_t)lua_rawlen(L, arg)));
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushlstring(L, next, n);
    if (!percent) lua_pushvalue(L, arg);
    lua_call(L, percent ? 1 : 2, 1);
    luaL_addvalue(&b);
    p = next + n;
  }
  luaL_pushresult(&b);
  return 1;
}

static int l_format(lua_State *L) {
  size_t n;
  const char *f = luaL_checklstring(L, 1, &n), *end = f + n;
  int conversions = 0;
  for (const char *p = f; conversions <= FEW && (p = memchr(p, '%', (size_t)(end - p))); p++) conversions++;
  return conversions > FEW ? format_long(L, f, end) : l_once(L);
}

/* ---- pack: what a format asks for in one byte may be cheap, but there may be many of them ---- */

static int l_pack(lua_State *L) {
  enum { LONGEST_FORMAT = 1 << 16 };
  size_t n;
  luaL_checklstring(L, 1, &n);
  luaL_argcheck(L, n <= LONGEST_FORMAT, 1, "format longer than 65536 bytes");
  pni_runtime_charge(L, n);
  return pni_original(L);
}

void pni_guard_string(lua_State *L) {
  lua_pushcfunction(L, l_rep);
  lua_setfield(L, -2, "rep");
  pni_wrap(L, "lower", l_once);
  pni_wrap(L, "upper", l_once);
  pni_wrap(L, "reverse", l_once);
  pni_wrap(L, "format", l_format);
  pni_wrap(L, "pack", l_pack);
  pni_wrap(L, "packsize", l_pack);
  pni_wrap(L, "unpack", l_pack);
  pni_guard_pattern(L);
  lua_pushnil(L);
  lua_setfield(L, -2, "dump");
}
