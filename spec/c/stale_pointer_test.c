/*
** stale_pointer_test.c: nobody holds a pointer into what grows, across a call that makes it grow. Programs of captures,
** replays, maps over examples and own operations run in memory that always moves and whose old places are poisoned
** (poisoned.h), with the scope of the context about to grow at each of its places in turn, and with Lua's collector at
** work all the time. What they compute must be what it is in ordinary memory.
*/
#include <lauxlib.h>
#include <lualib.h>
#include "../../src/lua/penumbra_lua.h"
#include "poisoned.h"

#define BEGIN "local pn = require 'penumbra' pn.seed(1) local w = pn.param(pn.randn(3)) local x = pn.randn(4, 3) "

static const char *const programs[] = {
    BEGIN
    "local f = pn.op{forward = function(a) return a:softplus() end, vjp = function(g, y, a) return g * a:sigmoid() "
    "end} return pn.grad(f(w):sum(), {w})[1]:sum():item()",
    BEGIN "local f = pn.op{forward = function(a, b, c, d) return a * b + c * d end, vjp = function(g, y, a, b, c, d) "
          "return g * b, g * a, g * d, g * c end} local s = 0 for k = 1, 20 do local v = pn.param(pn.randn(k)) "
          "s = s + pn.grad(f(v, v * 2, v:sin(), v):sum(), {v})[1]:sum():item() end return s",
    BEGIN "local f = pn.op{forward = function(a) return a:square() end, vjp = function(g, y, a) return g * a * 2 end} "
          "local step = pn.compile(function(b) return pn.grad((f(w) * b):sum(), {w}, {create_graph = true})[1] end) "
          "return (step(x) + step(x * 2)):sum():item()",
    BEGIN
    "local f = pn.op{forward = function(a) return a:square() end, vjp = function(g, y, a) return g * a * 2 end} "
    "local each = pn.vmap(function(row) return pn.grad(f(w * row):sum(), {w})[1] end) return each(x):sum():item()",
    BEGIN "local net = pn.nn.sequential{pn.nn.linear(3, 8), pn.nn.tanh(), pn.nn.linear(8, 1)} "
          "local opt = pn.optim.adam(net:parameters(), {lr = 0.01}) "
          "local step = pn.compile(function(a) return net(a):square():mean() end, {optimiser = opt}) local s = 0 "
          "for k = 1, 5 do s = s + step(x * k) end return s",
    BEGIN
    "local f = pn.compile(function(a) local s = a for t = 1, 40 do s = (s * 0.9 + a:sin()):tanh() end return s end) "
    "return (f(x) + f(x * 2)):sum():item()",
    BEGIN
    "local y = pn.odeint(function(t, z, v) return -(z * v) end, pn.ones(3), pn.linspace(0, 1, 3), {parameters = {w}}) "
    "return pn.grad(y:sum(), {w})[1]:sum():item()",
    BEGIN "local list = {} for k = 1, 70 do list[k] = (w * k):sin() end return pn.grad(pn.stack(list):sum(), {w})[1]"
          ":sum():item()",
    BEGIN "local d = pn.dist.custom{log_prob = function(d, z) return -z:square() end} "
          "return pn.grad(d{}:log_prob(w):sum(), {w})[1]:sum():item()",
};
enum { PROGRAMS = sizeof programs / sizeof *programs, ROOM = 64 };

static lua_State *start(lua_Alloc allocate, void *data, pn_context *c) {
  lua_State *L = lua_newstate(allocate, data);
  luaL_openlibs(L);
  CHECK(!luaL_dostring(L, "package.path = 'lua/?.lua;lua/?/init.lua;' .. package.path"));
  pni_lua_set_context(L, c);
  luaL_requiref(L, "penumbra.core", luaopen_penumbra_core, 0);
  lua_settop(L, 0);
  return L;
}

static double value_of(lua_State *L, const char *program) {
  double v = NAN;
  if (luaL_dostring(L, program) == LUA_OK)
    v = lua_tonumber(L, -1);
  else
    printf("%s\n", lua_tostring(L, -1));
  lua_settop(L, 0);
  return v;
}

static void ordinary(double *want) {
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1});
  poisoned_memory *m = calloc(1, sizeof *m);
  m->fresh = 0x11; /* another one: what is read without having been written gives other numbers */
  lua_State *L = start(poisoned_allocate, m, c);
  for (int k = 0; k < PROGRAMS; k++) CHECK(isfinite(want[k] = value_of(L, programs[k])));
  lua_close(L);
  pn_context_close(c);
  CHECK_INT(poisoned_end(m), 0);
  free(m);
}

/* The scope's list as that of a new context, with so many tensors in it. */
static void fill_scope(pn_context *c, int n) {
  pni_free(c, c->scope);
  c->scope = NULL;
  c->scope_cap = 0;
  for (int k = 0; k < n; k++) CHECK(pn_scalar(c, PN_FLOAT64, k) != NULL);
}

static void moved(const double *want) {
  poisoned_memory *m = calloc(1, sizeof *m);
  pn_context *c = pn_context_new(
      &(pn_context_config){.allocate = poisoned_allocate, .allocator_data = m, .pool_limit = PN_NO_POOL, .threads = 1});
  lua_State *L = start(poisoned_allocate, m, c);
  lua_gc(L, LUA_GCINC, 10, 400, 8);
  for (int n = ROOM; n >= 0; n -= n > 48 ? 1 : 16)
    for (int k = 0; k < PROGRAMS; k++) {
      fill_scope(c, n);
      CHECK_NEAR(value_of(L, programs[k]), want[k], 1e-12);
      CHECK_INT(m->spoiled, 0);
      pn_scope_close(c, 0);
    }
  lua_close(L);
  pn_context_close(c);
  CHECK_INT(poisoned_end(m), 0);
  free(m);
}

int main(void) {
  double want[PROGRAMS];
  ordinary(want);
  moved(want);
  CHECK_DONE();
}
