/*
** smc_gaussian.c: whole sequences of Kalman steps for lua/penumbra/smc/kalman.lua, which gives all operands in order.
*/
#include "../penumbra_lua.h"

enum { MEAN, COV, A, B, Q, Y, C, D, R, OBSERVED, INPUTS };
enum { STEPS = Q + 2, REVERSE }; /* places of the numbers of propagate on the stack */

static pn_kalman_system system_of(pn_tensor *const *in) {
  return (pn_kalman_system){in[MEAN], in[COV], in[A], in[B], in[Q], in[C], in[D], in[R]};
}

static pn_status filter(pn_context *c, pn_tensor *const *in, pn_tensor **out) {
  pn_kalman_system s = system_of(in);
  pn_kalman k = {0};
  if (pn_kalman_filter(c, &s, in[Y], in[OBSERVED], &k) == PN_OK) out[0] = k.mean, out[1] = k.cov, out[2] = k.log_prob;
  return pn_context_status(c);
}
static pn_status root_filter(pn_context *c, pn_tensor *const *in, pn_tensor **out) {
  pn_kalman_system s = system_of(in);
  pn_kalman k = {0};
  if (pn_kalman_root_filter(c, &s, in[Y], in[OBSERVED], &k) == PN_OK)
    out[0] = k.mean, out[1] = k.cov, out[2] = k.log_prob;
  return pn_context_status(c);
}
static pn_status log_prob(pn_context *c, pn_tensor *const *in, pn_tensor **out) {
  pn_kalman_system s = system_of(in);
  out[0] = pn_kalman_log_prob(c, &s, in[Y], in[OBSERVED]);
  return pn_context_status(c);
}

/* The number of steps and the direction ride behind the operands as tensors would. */
typedef struct {
  int64_t steps;
  int reverse;
} course;

static pn_status propagate(pn_context *c, pn_tensor *const *in, pn_tensor **out) {
  const course *way = (const course *)(const void *)in[Q + 1];
  return pn_kalman_propagate(c, way->steps, way->reverse, in[MEAN], in[COV], in[A], in[B], in[Q], &out[0], &out[1]);
}

static void operands(lua_State *L, int n, pn_tensor **in) {
  for (int k = 0; k < n; k++) in[k] = lua_isnoneornil(L, k + 1) ? NULL : pni_check_tensor(L, k + 1);
}

static int filtered(lua_State *L, int n, pni_tensor_action f) {
  pn_tensor *in[INPUTS];
  operands(L, INPUTS, in);
  return pni_tensor_results(L, in, n, f);
}

/* filter(mean, cov, a, b or nil, q, y, c, d or nil, r, observed or nil) -> mean, cov, log_prob */
static int l_filter(lua_State *L) { return filtered(L, 3, filter); }
/* The same on roots. */
static int l_root_filter(lua_State *L) { return filtered(L, 3, root_filter); }
/* The same arguments -> log_prob */
static int l_log_prob(lua_State *L) { return filtered(L, 1, log_prob); }

/* propagate(mean, cov, a, b or nil, q, steps, reverse) -> mean, cov */
static int l_propagate(lua_State *L) {
  pn_tensor *in[Q + 2];
  operands(L, Q + 1, in);
  course way = {luaL_checkinteger(L, STEPS), lua_toboolean(L, REVERSE)};
  in[Q + 1] = (pn_tensor *)(void *)&way;
  return pni_tensor_results(L, in, 2, propagate);
}

/* path(mean, a, offset, reverse) -> x */
static int l_path(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *mean = pni_check_tensor(L, 1), *a = pni_check_tensor(L, 2), *offset = pni_check_tensor(L, 3);
  int reverse = lua_toboolean(L, 4);
  PNI_RETURN(L, c, pn_kalman_path(c, reverse, mean, a, offset));
}

static const luaL_Reg functions[] = {{"filter", l_filter},     {"root_filter", l_root_filter},
                                     {"log_prob", l_log_prob}, {"propagate", l_propagate},
                                     {"path", l_path},         {NULL, NULL}};

void pni_open_smc_gaussian(lua_State *L) {
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "gaussian");
}
