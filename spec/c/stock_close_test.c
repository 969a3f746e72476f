/*
** stock_close_test.c: a stock interpreter's state takes all memory of its context along when it is closed, also what
** belongs to objects whose finalisers Lua never calls: those made while the state is closing, and those collected where
** the stack has no room for the call. (malloc's own count tells; under a sanitiser, which has another malloc, its
** leaks.)
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <malloc.h>
#include "../../src/lua/penumbra_lua.h"
#include "check.h"

static const char *const scripts[] = {
    /* collected at every depth, up to the deepest */
    "local function deep(n) local x = pn.randn(1000) x = nil pcall(collectgarbage) if n > 0 then pcall(deep, n - 1) "
    "end "
    "end pcall(deep, 300)",
    "setmetatable({}, {__gc = function() made = pn.randn(1000) end})",
    "setmetatable({}, {__gc = function() return pn.nn.sequential{pn.nn.linear(30, 40), pn.nn.relu()} end})",
    "setmetatable({}, {__gc = coroutine.wrap(function() made = pn.dist.normal(pn.zeros(1000), 1) end)})",
};

static long held(void) {
  struct mallinfo2 m = mallinfo2();
  return (long)(m.uordblks + m.hblkhd);
}

static void once(const char *script) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  CHECK(!luaL_dostring(L, "package.path = 'lua/?.lua;lua/?/init.lua;' .. package.path"));
  luaL_requiref(L, "penumbra.core", luaopen_penumbra_core, 0);
  CHECK(!luaL_dostring(L, "pn = require 'penumbra'"));
  if (luaL_dostring(L, script)) CHECK_STR(lua_tostring(L, -1), "");
  lua_close(L);
}

int main(void) {
  enum { STATES = 40 };
  for (size_t k = 0; k < sizeof scripts / sizeof scripts[0]; k++) {
    once(scripts[k]);
    long before = held();
    for (int i = 0; i < STATES; i++) once(scripts[k]);
    long grown = held() - before;
    if (!check_record(grown < STATES * 4000L)) printf("%ld bytes more: %s\n", grown, scripts[k]);
  }
  CHECK_DONE();
}
