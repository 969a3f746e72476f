/*
** live_filter.c: filters online as Lua sees them: numbers in, numbers out, no graph.
*/
#include "live_filter.h"
#include "../message.h"

typedef struct {
  pn_filter *f;
} box;

static void release(void *object) {
  box *b = object;
  pn_filter *f = b->f;
  b->f = NULL;
  pn_filter_free(f);
}

static const pni_object_type kind = {"penumbra.filter", "a filter", sizeof(box), 0, true, release};

const pn_filter *pni_test_filter(lua_State *L, int i) {
  box *b = pni_test_object(L, i, &kind);
  return b ? b->f : NULL;
}

static pn_filter *self(lua_State *L) {
  box *b = pni_test_object(L, 1, &kind);
  pn_context *c = pni_lua_context(L);
  if (!b) pni_error(L, "filter: methods are called with a colon, as in f:observe(y)");
  if (!b->f) pni_error(L, "filter was closed");
  if (pni_refuse_capture(c, "a filter online", "observe outside")) pni_raise(L, c);
  return b->f;
}

/* new_filter(first, step, first_missing, step_missing): compiled functions that have run */
static int l_new(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_plan *p[4];
  lua_settop(L, 4);
  box *b = pni_new_object(L, &kind);
  for (int k = 0; k < 4; k++) p[k] = pni_check_plan(L, k + 1);
  b->f = pn_filter_new(c, p[0], p[1], p[2], p[3]);
  return b->f ? 1 : pni_raise(L, c);
}

static const char *const fields[] = {"mean", "cov", "a", "b", "q", "emission", "d", "r", NULL};

/* new_exact_filter{mean =, cov =, a =, b =, q =, emission =, d =, r =} */
static int l_exact(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *t[8];
  lua_settop(L, 1);
  pni_check_plain_options(L, 1, "exact_filter", fields);
  for (int k = 0; fields[k]; k++) {
    bool optional = k == 3 || k == 6;
    int type = pni_get_raw(L, 1, fields[k]);
    t[k] = optional && type == LUA_TNIL ? NULL : pni_check_operand(L, lua_gettop(L), "exact_filter", fields[k]);
  }
  box *b = pni_new_object(L, &kind);
  pn_filter_model m = {t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]};
  size_t mark = pn_scope_open(c);
  b->f = pn_filter_kalman(c, &m);
  pn_scope_close(c, mark);
  return b->f ? 1 : pni_raise(L, c);
}

/* f:observe(y or nil) -> increment of the log-evidence, a number; y a number, a list of numbers or a tensor */
static int l_observe(lua_State *L) {
  pn_filter *f = self(L);
  pn_context *c = pni_lua_context(L);
  double increment, number = 0;
  pn_status s;
  pni_refuse_finaliser(L, "observe");
  if (lua_istable(L, 2)) pni_list_to_tensor(L, 2, NULL);
  if (lua_isnoneornil(L, 2)) {
    s = pn_filter_observe(c, f, NULL, 0, &increment);
  } else if (lua_type(L, 2) == LUA_TNUMBER) {
    number = lua_tonumber(L, 2);
    s = pn_filter_observe(c, f, &number, 1, &increment);
  } else {
    pn_tensor *given = pni_check_operand(L, 2, "observe", "y");
    size_t mark = pn_scope_open(c);
    pn_tensor *y = pn_contiguous(c, pn_cast(c, given, PN_FLOAT64));
    s = y ? pn_filter_observe(c, f, pn_tensor_data(y), pn_tensor_numel(y), &increment) : pn_context_status(c);
    pn_scope_close(c, mark);
  }
  if (s) return pni_raise(L, c);
  lua_pushnumber(L, increment);
  return 1;
}

/* f:run(ys) -> increments, means, variances */
static int l_run(lua_State *L) {
  pn_filter *f = self(L);
  pn_context *c = pni_lua_context(L);
  pni_refuse_finaliser(L, "run");
  pn_tensor *ys = pni_check_operand(L, 2, "run", "ys"), *out[3];
  pni_box *result[3];
  for (int k = 0; k < 3; k++) result[k] = pni_new_box(L);
  size_t mark = pn_scope_open(c);
  if (pn_tensor_ndim(ys) == 1 && pn_filter_num_observed(f) == 1) ys = pn_unsqueeze(c, ys, 1);
  pn_status s = pn_filter_run(c, f, ys, &out[0], &out[1], &out[2]);
  for (int k = 0; k < 3 && s == PN_OK; k++) result[k]->t = pn_tensor_ref(out[k]);
  pn_scope_close(c, mark);
  if (s) return pni_raise(L, c);
  pni_tell_collector(L);
  return 3;
}

static int vector(lua_State *L, const pn_filter *f, const double *v) {
  pn_context *c = pni_lua_context(L);
  int64_t n = pn_filter_num_states(f);
  PNI_RETURN(L, c, pn_from_data(c, PN_FLOAT64, 1, &n, v));
}

static int l_mean(lua_State *L) {
  const pn_filter *f = self(L);
  return vector(L, f, pn_filter_mean(f));
}
static int l_variance(lua_State *L) {
  const pn_filter *f = self(L);
  return vector(L, f, pn_filter_variance(f));
}
static int l_log_evidence(lua_State *L) { return lua_pushnumber(L, pn_filter_log_evidence(self(L))), 1; }
static int l_size(lua_State *L) { return lua_pushnumber(L, pn_filter_effective_sample_size(self(L))), 1; }
static int l_steps(lua_State *L) { return lua_pushinteger(L, pn_filter_steps(self(L))), 1; }
static int l_reset(lua_State *L) { return pn_filter_reset(self(L)), 0; }

static int l_tostring(lua_State *L) {
  const pn_filter *f = pni_test_filter(L, 1);
  if (f)
    lua_pushfstring(L, "filter at t = %I", (lua_Integer)pn_filter_steps(f));
  else
    lua_pushliteral(L, "closed filter");
  return 1;
}

/* A failure of the file is nil, message, code. */
static int of_file(lua_State *L, pn_context *c, pn_status s) {
  if (s == PN_IO || s == PN_FORMAT) return pni_push_failure(L, c);
  if (s) return pni_raise(L, c);
  lua_pushboolean(L, true);
  return 1;
}

/* f:save(path), f:load(path) -> true, or nil, message, code */
static int l_save(lua_State *L) {
  const pn_filter *f = self(L);
  pn_context *c = pni_lua_context(L);
  return of_file(L, c, pn_filter_save(c, f, pni_check_text(L, 2, "save", "path")));
}
static int l_load(lua_State *L) {
  pn_filter *f = self(L);
  pn_context *c = pni_lua_context(L);
  pni_refuse_finaliser(L, "load");
  return of_file(L, c, pn_filter_load(c, f, pni_check_text(L, 2, "load", "path")));
}

static const luaL_Reg functions[] = {{"new_filter", l_new}, {"new_exact_filter", l_exact}, {NULL, NULL}};

static const luaL_Reg methods[] = {{"observe", l_observe},
                                   {"run", l_run},
                                   {"mean", l_mean},
                                   {"variance", l_variance},
                                   {"log_evidence", l_log_evidence},
                                   {"effective_sample_size", l_size},
                                   {"steps", l_steps},
                                   {"reset", l_reset},
                                   {"save", l_save},
                                   {"load", l_load},
                                   {NULL, NULL}};

void pni_open_live_filter(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
  pni_new_kind(L, &kind);
  luaL_newlib(L, methods);
  pni_add_close(L, &kind);
  pni_guard_methods(L, "a filter");
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, l_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pop(L, 1);
}
