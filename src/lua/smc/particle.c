/*
** particle.c: the step machine of particle filters as Lua sees it: penumbra.smc.machine puts its methods around it.
*/
#include "../../smc/resampling/resampler.h"
#include "../../smc/step_machine.h"
#include "../message.h"
#include "../penumbra_lua.h"

enum { MOST_PARTS = 64 };

typedef struct {
  pn_smc *s;
} box;

static void release(void *object) {
  box *b = object;
  pn_smc *s = b->s;
  b->s = NULL;
  pn_smc_free(s);
}

static const pni_object_type kind = {"penumbra.smc", "a step machine", sizeof(box), 0, true, release};

static pn_smc *self(lua_State *L) {
  box *b = pni_test_object(L, 1, &kind);
  if (!b) pni_error(L, "smc: methods are called with a colon, as in s:weigh(log_increment)");
  if (!b->s) pni_error(L, "smc: machine was closed");
  if (pni_smc_usable(pni_lua_context(L), b->s)) pni_raise(L, pni_lua_context(L));
  return b->s;
}

static const char *const fields[] = {"num_particles", "resampling", "threshold", "batch",       "gradient", "alpha",
                                     "zero_possible", "trace",      "history",   "conditional", NULL};

/* Text of a field, or NULL; it stays on the stack. */
static const char *text_of(lua_State *L, int table, const char *field) {
  return pni_get_raw(L, table, field) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
}
static double number_of(lua_State *L, int table, const char *field) {
  pni_get_raw(L, table, field);
  return lua_tonumber(L, -1);
}

/* A count: what is none, NaN among it, is -1. */
static int64_t count_of(lua_State *L, int table, const char *field) {
  double v = number_of(L, table, field);
  return v >= 0 && v <= 0x1p53 ? (int64_t)v : -1;
}

static bool truth_of(lua_State *L, int table, const char *field) {
  pni_get_raw(L, table, field);
  return lua_toboolean(L, -1);
}

/* new_smc(options, generator): options checked by the caller */
static int l_new(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  lua_settop(L, 2);
  pni_check_plain_options(L, 1, "smc", fields);
  pn_smc_config config = {.num_particles = count_of(L, 1, "num_particles"),
                          .resampling = text_of(L, 1, "resampling"),
                          .threshold = number_of(L, 1, "threshold"),
                          .gradient = text_of(L, 1, "gradient"),
                          .alpha = number_of(L, 1, "alpha")};
  config.zero_possible = truth_of(L, 1, "zero_possible");
  config.trace = truth_of(L, 1, "trace");
  config.history = truth_of(L, 1, "history");
  config.conditional = truth_of(L, 1, "conditional");
  if (pni_get_raw(L, 1, "batch") == LUA_TTABLE)
    config.nbatch = pni_check_sizes(L, lua_gettop(L), "smc", PN_MAX_DIMS - 2, config.batch);
  pn_rng *rng = pni_check_rng(L, 2);
  box *b = pni_new_object(L, &kind);
  int tries = 0;
  do {
    b->s = pn_smc_new(c, &config, rng);
  } while (!b->s && pni_again(L, c, &tries));
  return b->s ? 1 : pni_raise(L, c);
}

/* A result that may be nil: `t` was made in the scope of `mark`. */
static int finish(lua_State *L, pn_context *c, size_t mark, pni_box *b, pn_tensor *t) {
  if (t || pn_context_status(c)) return pni_finish(L, c, mark, b, t);
  pn_scope_close(c, mark);
  lua_pushnil(L);
  return 1;
}

/* s:resample() -> ancestors or nil */
static int l_resample(lua_State *L) {
  pn_smc *s = self(L);
  pn_context *c = pni_lua_context(L);
  pni_box *b = pni_new_box(L);
  for (int again = 0;; again++) {
    pn_tensor *a = NULL;
    size_t mark = pn_scope_open(c);
    if (pn_smc_resample(c, s, &a) != PN_NOMEM || again) return finish(L, c, mark, b, a);
    pni_forget(L, c, mark);
  }
}

/* s:weigh(log_increment, tilt) -> increment of the log-evidence */
static int l_weigh(lua_State *L) {
  pn_smc *s = self(L);
  pn_context *c = pni_lua_context(L);
  pni_refuse_finaliser(L, "weigh");
  pn_tensor *x = pni_check_operand(L, 2, "weigh", "log_increment");
  bool tilt = lua_toboolean(L, 3);
  PNI_RETURN(L, c, tilt ? pn_smc_tilt(c, s, x) : pn_smc_weigh(c, s, x));
}

/* s:get(what) -> tensor or nil */
static int l_get(lua_State *L) {
  pn_smc *s = self(L);
  pn_context *c = pni_lua_context(L);
  const char *what = luaL_checkstring(L, 2);
  pni_box *b = pni_new_box(L);
  for (int again = 0;; again++) {
    size_t mark = pn_scope_open(c);
    pn_tensor *t = pn_smc_get(c, s, what);
    if (t || again || pn_context_status(c) != PN_NOMEM) return finish(L, c, mark, b, t);
    pni_forget(L, c, mark);
  }
}

/* s:restore(weighed or nil) */
static int l_restore(lua_State *L) {
  pn_smc *s = self(L);
  pn_context *c = pni_lua_context(L);
  pn_tensor *t = lua_isnoneornil(L, 2) ? NULL : pni_check_operand(L, 2, "restore", "weights");
  return pn_smc_restore(c, s, t) ? pni_raise(L, c) : 0;
}

/* s:trace() -> [T, 6, B...] */
static int l_trace(lua_State *L) {
  pn_smc *s = self(L);
  pn_context *c = pni_lua_context(L);
  PNI_RETURN(L, c, pn_smc_trace(c, s));
}

/* s:keep(part, ...) */
static int l_keep(lua_State *L) {
  pn_smc *s = self(L);
  pn_context *c = pni_lua_context(L);
  pn_tensor *part[MOST_PARTS];
  int n = lua_gettop(L) - 1;
  if (n > MOST_PARTS) return pni_error(L, "keep: a state may have at most %d parts, got %d", MOST_PARTS, n);
  for (int k = 0; k < n; k++) part[k] = pni_check_operand(L, 2 + k, "keep", "state");
  return pn_smc_keep(c, s, n, part) ? pni_raise(L, c) : 0;
}

/* s:paths(part, which or nil) */
static int l_paths(lua_State *L) {
  pn_smc *s = self(L);
  pn_context *c = pni_lua_context(L);
  lua_Integer part = luaL_checkinteger(L, 2);
  pn_tensor *which = lua_isnoneornil(L, 3) ? NULL : pni_check_operand(L, 3, "paths", "particles");
  PNI_RETURN(L, c, pn_smc_paths(c, s, part >= 1 && part <= MOST_PARTS ? (int)part - 1 : MOST_PARTS, which));
}

/* s:nodes() -> number, bytes */
static int l_nodes(lua_State *L) {
  size_t bytes;
  lua_pushinteger(L, pn_smc_nodes(self(L), &bytes));
  lua_pushinteger(L, (lua_Integer)bytes);
  return 2;
}

/* s:assign(ancestor) */
static int l_assign(lua_State *L) {
  pn_smc *s = self(L);
  pn_context *c = pni_lua_context(L);
  return pn_smc_assign(c, s, pni_check_operand(L, 2, "assign", "ancestor")) ? pni_raise(L, c) : 0;
}

static int l_steps(lua_State *L) { return lua_pushinteger(L, pn_smc_steps(self(L))), 1; }
static int l_reset(lua_State *L) { return pn_smc_reset(self(L)), 0; }

/* ---- by themselves ---- */

/* new_ancestors(scheme, log_w, generator) */
static int l_ancestors(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  const char *scheme = luaL_checkstring(L, 1);
  pn_tensor *log_w = pni_check_operand(L, 2, "resample", "log_w");
  pn_rng *rng = pni_check_rng(L, 3);
  PNI_RETURN(L, c, pn_resample(c, scheme, rng, log_w));
}

/* new_selected(x, ancestors) */
static int l_selected(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *x = pni_check_operand(L, 1, "select", "state"), *a = pni_check_operand(L, 2, "select", "ancestors");
  PNI_RETURN(L, c, pn_select_particles(c, x, a));
}

static int l_rows(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; pn_resampler_name(i); i++) {
    const char *text[][2] = {{"kind", "resampler"},
                             {"name", pn_resampler_name(i)},
                             {"doc", pni_resampler_at(i)->doc},
                             {"source", pni_resampler_at(i)->source}};
    lua_newtable(L);
    for (size_t k = 0; k < sizeof text / sizeof text[0]; k++) {
      lua_pushstring(L, text[k][1]);
      lua_setfield(L, -2, text[k][0]);
    }
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static const luaL_Reg functions[] = {{"new_smc", l_new},
                                     {"new_ancestors", l_ancestors},
                                     {"new_selected", l_selected},
                                     {"resampler_rows", l_rows},
                                     {NULL, NULL}};

static const luaL_Reg methods[] = {{"resample", l_resample}, {"weigh", l_weigh},   {"get", l_get},
                                   {"restore", l_restore},   {"steps", l_steps},   {"reset", l_reset},
                                   {"trace", l_trace},       {"keep", l_keep},     {"paths", l_paths},
                                   {"nodes", l_nodes},       {"assign", l_assign}, {NULL, NULL}};

void pni_open_particle(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
  pni_new_kind(L, &kind);
  luaL_newlib(L, methods);
  pni_add_close(L, &kind);
  pni_guard_methods(L, "a step machine");
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
