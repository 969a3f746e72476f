/*
** runtime_table.c: the functions of `table` that loop as long as an argument, or a __len, tells them to.
** Each does the table library's work in steps that answer to the limits.
*/
#include <limits.h>
#include "runtime.h"

enum { STRIDE = 64 };

/* Polls once per STRIDE elements. */
static inline void watch(lua_State *L, lua_Unsigned k) {
  if (k % STRIDE == STRIDE - 1) pni_runtime_poll(L, STRIDE);
}

enum { READ = 1, WRITE = 2, LENGTH = 4 };

/* Tables, and what has the metamethods that the use asks for. */
static void check_table(lua_State *L, int i, int use) {
  static const char *const events[] = {"__index", "__newindex", "__len"};
  for (int k = 0; k < 3 && !lua_istable(L, i); k++) {
    if (!(use & 1 << k)) continue;
    if (luaL_getmetafield(L, i, events[k]) == LUA_TNIL) luaL_checktype(L, i, LUA_TTABLE);
    lua_pop(L, 1);
  }
}

static int l_concat(lua_State *L) {
  size_t n;
  check_table(L, 1, READ | LENGTH);
  const char *separator = luaL_optlstring(L, 2, "", &n);
  lua_Integer i = luaL_optinteger(L, 3, 1);
  lua_Integer last = lua_isnoneornil(L, 4) ? luaL_len(L, 1) : luaL_checkinteger(L, 4);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (lua_Unsigned k = 0; i <= last; k++, i++) {
    watch(L, k);
    lua_geti(L, 1, i);
    if (!lua_isstring(L, -1))
      return luaL_error(L, "invalid value (%s) at index %I in table for 'concat'", luaL_typename(L, -1),
                        (LUAI_UACINT)i);
    luaL_addvalue(&b);
    if (i == last) break; /* i + 1 may not exist */
    luaL_addlstring(&b, separator, n);
  }
  luaL_pushresult(&b);
  return 1;
}

static int l_insert(lua_State *L) {
  check_table(L, 1, READ | WRITE | LENGTH);
  lua_Integer end = (lua_Integer)((lua_Unsigned)luaL_len(L, 1) + 1), at = end;
  int n = lua_gettop(L);
  if (n != 2 && n != 3) return luaL_error(L, "wrong number of arguments to 'insert'");
  if (n == 3) {
    at = luaL_checkinteger(L, 2);
    luaL_argcheck(L, (lua_Unsigned)at - 1u < (lua_Unsigned)end, 2, "position out of bounds");
    for (lua_Integer i = end; i > at; i--) {
      watch(L, (lua_Unsigned)i);
      lua_geti(L, 1, i - 1);
      lua_seti(L, 1, i);
    }
  }
  lua_seti(L, 1, at);
  return 0;
}

static int l_remove(lua_State *L) {
  check_table(L, 1, READ | WRITE | LENGTH);
  lua_Integer size = luaL_len(L, 1), at = luaL_optinteger(L, 2, size);
  if (at != size) luaL_argcheck(L, (lua_Unsigned)at - 1u <= (lua_Unsigned)size, 2, "position out of bounds");
  lua_geti(L, 1, at);
  for (; at < size; at++) {
    watch(L, (lua_Unsigned)at);
    lua_geti(L, 1, at + 1);
    lua_seti(L, 1, at);
  }
  lua_pushnil(L);
  lua_seti(L, 1, at);
  return 1;
}

/* move(a, first, last, to [, b]): downwards when the places overlap upwards */
static int l_move(lua_State *L) {
  lua_Integer first = luaL_checkinteger(L, 2), last = luaL_checkinteger(L, 3), to = luaL_checkinteger(L, 4);
  int target = lua_isnoneornil(L, 5) ? 1 : 5;
  check_table(L, 1, READ);
  check_table(L, target, WRITE);
  if (last >= first) {
    luaL_argcheck(L, first > 0 || last < LUA_MAXINTEGER + first, 3, "too many elements to move");
    lua_Integer n = last - first + 1;
    luaL_argcheck(L, to <= LUA_MAXINTEGER - n + 1, 4, "destination wrap around");
    bool down = to > first && to <= last && (target == 1 || lua_compare(L, 1, target, LUA_OPEQ));
    for (lua_Integer k = 0; k < n; k++) {
      lua_Integer i = down ? n - 1 - k : k;
      watch(L, (lua_Unsigned)k);
      lua_geti(L, 1, first + i);
      lua_seti(L, target, to + i);
    }
  }
  lua_pushvalue(L, target);
  return 1;
}

static int less(lua_State *L) {
  pni_runtime_poll(L, 1);
  lua_pushboolean(L, lua_compare(L, 1, 2, LUA_OPLT));
  return 1;
}

/* The library's own sort with an order that polls. */
static int l_sort(lua_State *L) {
  check_table(L, 1, READ | WRITE | LENGTH);
  if (lua_isnoneornil(L, 2)) {
    lua_settop(L, 1);
    lua_pushcfunction(L, less);
  } else if (lua_isfunction(L, 2)) {
    pni_push_polling(L, 2);
    lua_replace(L, 2);
  }
  return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

void pni_guard_table(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"concat", l_concat}, {"insert", l_insert}, {"remove", l_remove}, {"move", l_move}, {NULL, NULL}};
  lua_getfield(L, -1, "sort");
  lua_pushcclosure(L, l_sort, 1);
  lua_setfield(L, -2, "sort");
  luaL_setfuncs(L, functions, 0);
}
