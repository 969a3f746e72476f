/*
** bind_sampler.c: chains of Hamiltonian Monte Carlo as Lua sees them. A script makes the iterations block by block, so
** that it can show how far they are.
*/
#include <limits.h>
#include <string.h>
#include "../../infer/sampling/sampler.h"
#include "../message.h"
#include "../penumbra_lua.h"

typedef struct {
  pn_sampler *s;
} box;

static void release(void *object) {
  box *b = object;
  pn_sampler *s = b->s;
  b->s = NULL;
  pn_sampler_free(s);
}

static const pni_object_type kind = {"penumbra.sampler", "a sampler", sizeof(box), 0, true, release};

static pn_sampler *self(lua_State *L) {
  box *b = pni_test_object(L, 1, &kind);
  if (!b) pni_error(L, "sampler: methods are called with a colon, as in s:run(100)");
  if (!b->s) pni_error(L, "sampler was closed");
  return b->s;
}

static const char *const fields[] = {"chains",    "draws",     "warmup",        "metric",    "estimator", "schedule",
                                     "max_depth", "max_steps", "target_accept", "step_size", "radius",    NULL};

/* What the values of metric, estimator and schedule are called, from 1 on. */
static const char *const metrics[] = {"diagonal", "low_rank", "dense", NULL};
static const char *const estimators[] = {"fisher", "stan", NULL};
static const char *const schedules[] = {"overlapping", "stan", NULL};
static const char *const *const names_of[] = {NULL, NULL, NULL, metrics, estimators, schedules};

/* The value on the top of the stack of one of the options that have names; 0 where it is none of them. */
static int named(lua_State *L, const char *const *names) {
  const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
  for (int k = 0; names[k]; k++)
    if (strcmp(text, names[k]) == 0) return k + 1;
  return lua_isnil(L, -1) ? 0 : -1;
}

static double number_of(lua_State *L, int table, int field) {
  pni_get_raw(L, table, fields[field]);
  const char *const *names = field < 6 ? names_of[field] : NULL;
  double v = names ? named(L, names) : lua_tonumber(L, -1);
  lua_pop(L, 1);
  return v;
}

/* NaN is out of range as well. */
static int whole(double v) { return v > 1e9 ? 1000000000 : v > -1e9 ? (int)v : -1000000000; }

/* new_sampler(compiled, options, start, generator [, first]): first: the chains from this number on, 0-based, of a
 * sampler that stands in several processes */
static int l_new(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  lua_settop(L, 5);
  pn_plan *plan = pni_check_plan(L, 1);
  pni_check_plain_options(L, 2, "sampler", fields);
  double v[11];
  for (int k = 0; fields[k]; k++) v[k] = number_of(L, 2, k);
  pn_sampler_config config = {whole(v[0]), whole(v[1]), whole(v[2]), whole(v[3]), whole(v[4]), whole(v[5]),
                              whole(v[6]), whole(v[7]), v[8],        v[9],        v[10]};
  pn_tensor *start = lua_isnil(L, 3) ? NULL : pni_check_tensor(L, 3);
  pn_rng *rng = pni_check_rng(L, 4);
  box *b = pni_new_object(L, &kind);
  size_t mark = pn_scope_open(c);
  b->s = lua_isnil(L, 5) ? pn_sampler_new(c, plan, &config, start, rng)
                         : pni_sampler_new_part(c, plan, &config, whole(lua_tonumber(L, 5)), start, rng);
  pn_scope_close(c, mark);
  return b->s ? 1 : pni_raise(L, c);
}

/* s:run(n): at most n further iterations */
static int l_run(lua_State *L) {
  pn_sampler *s = self(L);
  pn_context *c = pni_lua_context(L);
  lua_Integer n = luaL_checkinteger(L, 2);
  return pn_sampler_run(c, s, n > INT_MAX ? INT_MAX : n < 0 ? 0 : (int)n) ? pni_raise(L, c) : 0;
}

/* s:judge(windows): s:halted() no more */
static int l_judge(lua_State *L) {
  pn_sampler *s = self(L);
  return pni_sampler_judge(pni_lua_context(L), s, pni_check_tensor(L, 2)) ? pni_raise(L, pni_lua_context(L)) : 0;
}

static int l_halted(lua_State *L) { return lua_pushboolean(L, pni_sampler_halted(self(L))), 1; }
static int l_finished(lua_State *L) { return lua_pushboolean(L, pn_sampler_finished(self(L))), 1; }
static int l_iteration(lua_State *L) { return lua_pushinteger(L, pn_sampler_iteration(self(L))), 1; }
static int l_warmup(lua_State *L) { return lua_pushinteger(L, pn_sampler_warmup(self(L))), 1; }
static int l_gradients(lua_State *L) { return lua_pushinteger(L, pn_sampler_gradients(self(L))), 1; }

static int l_draws(lua_State *L) {
  pn_sampler *s = self(L);
  PNI_RETURN(L, pni_lua_context(L), pn_sampler_draws(pni_lua_context(L), s));
}

static int l_statistics(lua_State *L) {
  pn_sampler *s = self(L);
  PNI_RETURN(L, pni_lua_context(L), pn_sampler_statistics(pni_lua_context(L), s));
}

static int l_metric(lua_State *L) {
  pn_sampler *s = self(L);
  PNI_RETURN(L, pni_lua_context(L), pn_sampler_metric(pni_lua_context(L), s));
}

static int l_windows(lua_State *L) {
  pn_sampler *s = self(L);
  PNI_RETURN(L, pni_lua_context(L), pni_sampler_windows(pni_lua_context(L), s));
}

/* draws_summary(draws [chains, draws, m]) -> [m, 9] */
static int l_summary(lua_State *L) {
  pn_tensor *draws = pni_check_tensor(L, 1);
  PNI_RETURN(L, pni_lua_context(L), pn_draws_summary(pni_lua_context(L), draws));
}

static const luaL_Reg methods[] = {{"run", l_run},         {"finished", l_finished},     {"iteration", l_iteration},
                                   {"draws", l_draws},     {"statistics", l_statistics}, {"metric", l_metric},
                                   {"warmup", l_warmup},   {"gradients", l_gradients},   {"halted", l_halted},
                                   {"windows", l_windows}, {"judge", l_judge},           {NULL, NULL}};

void pni_open_sampler(lua_State *L) {
  lua_pushcfunction(L, l_new);
  lua_setfield(L, -2, "new_sampler");
  lua_pushcfunction(L, l_summary);
  lua_setfield(L, -2, "draws_summary");
  pni_new_kind(L, &kind);
  luaL_newlib(L, methods);
  pni_add_close(L, &kind);
  pni_guard_methods(L, "a sampler");
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
