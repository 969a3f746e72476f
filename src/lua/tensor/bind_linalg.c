/*
** bind_linalg.c: what the generic caller of operations cannot bind: factorisations and filter steps with several
** results, and einsum. A factorisation that does not exist is an operational failure: nil, message, code.
*/
#include "../penumbra_lua.h"

enum { OBSERVED = 6, STEP_OBSERVED = 9, KALMAN_INPUTS };

typedef pni_tensor_action action;

/* Boxes for n results; then the action, twice if memory was lacking; then the boxes are filled. */
int pni_tensor_results(lua_State *L, pn_tensor *const *in, int n, action f) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *out[PNI_TENSOR_RESULTS];
  pni_box *box[PNI_TENSOR_RESULTS];
  for (int k = 0; k < n; k++) box[k] = pni_new_box(L);
  for (int again = 0;; again++) {
    size_t mark = pn_scope_open(c);
    pn_status s = f(c, in, out);
    if (s == PN_OK) {
      for (int k = 0; k < n; k++) pn_tensor_ref(out[k]);
      pn_scope_close(c, mark);
      for (int k = 0; k < n; k++) box[k]->t = out[k];
      pni_tell_collector(L);
      return n;
    }
    if (s == PN_NOMEM && !again) {
      pni_forget(L, c, mark);
      continue;
    }
    pn_scope_close(c, mark);
    return s == PN_SINGULAR ? pni_push_failure(L, c) : pni_raise(L, c);
  }
}

static int of_matrix(lua_State *L, int n, action f) {
  return pni_tensor_results(L, (pn_tensor *[]){pni_check_tensor(L, 1)}, n, f);
}

static pn_status qr(pn_context *c, pn_tensor *const *in, pn_tensor **out) { return pn_qr(c, in[0], &out[0], &out[1]); }
static pn_status eigh(pn_context *c, pn_tensor *const *in, pn_tensor **out) {
  return pn_eigh(c, in[0], &out[0], &out[1]);
}
static pn_status svd(pn_context *c, pn_tensor *const *in, pn_tensor **out) {
  return pn_svd(c, in[0], &out[0], &out[1], &out[2]);
}
static pn_status slogdet(pn_context *c, pn_tensor *const *in, pn_tensor **out) {
  out[0] = pn_det_sign(c, in[0]);
  out[1] = pn_logdet(c, in[0]);
  return pn_context_status(c);
}

/* x:qr() -> q, r */
static int l_qr(lua_State *L) { return of_matrix(L, 2, qr); }
/* x:eigh() -> values, vectors */
static int l_eigh(lua_State *L) { return of_matrix(L, 2, eigh); }
/* x:svd() -> u, s, vt */
static int l_svd(lua_State *L) { return of_matrix(L, 3, svd); }
static pn_status cholesky_update(pn_context *c, pn_tensor *const *in, pn_tensor **out) {
  out[0] = pn_cholesky_update(c, in[0], in[1]);
  return pn_context_status(c);
}
/* l:cholesky_update(x) -> the factor of l l^T + x x^T */
static int l_cholesky_update(lua_State *L) {
  return pni_tensor_results(L, (pn_tensor *[]){pni_check_tensor(L, 1), pni_check_tensor(L, 2)}, 1, cholesky_update);
}
/* x:slogdet() -> sign, log |det x| */
static int l_slogdet(lua_State *L) { return of_matrix(L, 2, slogdet); }

/* ---- Kalman filter ---- */

static pn_status predict(pn_context *c, pn_tensor *const *in, pn_tensor **out) {
  return pn_kalman_predict(c, in[0], in[1], in[2], in[3], in[4], &out[0], &out[1]);
}

static pn_status update(pn_context *c, pn_tensor *const *in, int details, pn_tensor **out) {
  pn_kalman k = {0};
  pn_status s = pn_kalman_update(c, in[0], in[1], in[2], in[3], in[4], in[5], in[OBSERVED], details, &k);
  pn_tensor *all[] = {k.mean, k.cov, k.log_prob, k.innovation, k.innovation_cov, k.gain};
  for (int i = 0; s == PN_OK && i < (details ? 6 : 3); i++) out[i] = all[i];
  return s;
}
static pn_status update_plain(pn_context *c, pn_tensor *const *in, pn_tensor **out) { return update(c, in, 0, out); }
static pn_status update_details(pn_context *c, pn_tensor *const *in, pn_tensor **out) { return update(c, in, 1, out); }

static pn_status both(pn_context *c, pn_tensor *const *in, pn_tensor **out) {
  pn_kalman k = {0};
  pn_status s = pn_kalman_step(c, in[0], in[1], in[2], in[3], in[4], in[5], in[6], in[7], in[8], in[STEP_OBSERVED], &k);
  if (s == PN_OK) out[0] = k.mean, out[1] = k.cov, out[2] = k.log_prob;
  return s;
}

static pn_status root_predict(pn_context *c, pn_tensor *const *in, pn_tensor **out) {
  return pn_kalman_root_predict(c, in[0], in[1], in[2], in[3], in[4], &out[0], &out[1]);
}
static pn_status root_update(pn_context *c, pn_tensor *const *in, pn_tensor **out) {
  pn_kalman k = {0};
  pn_status s = pn_kalman_root_update(c, in[0], in[1], in[2], in[3], in[4], in[5], in[OBSERVED], &k);
  if (s == PN_OK) out[0] = k.mean, out[1] = k.cov, out[2] = k.log_prob;
  return s;
}

/* n tensors from stack index 1 on, of which numbers `optional` and `too` (from 0) may be nil. */
static void operands(lua_State *L, int n, int optional, int too, pn_tensor **in) {
  for (int k = 0; k < n; k++)
    in[k] = (k == optional || k == too) && lua_isnoneornil(L, k + 1) ? NULL : pni_check_tensor(L, k + 1);
}

/* kalman_predict(mean, cov, a, b or nil, q) -> mean, cov */
static int l_kalman_predict(lua_State *L) {
  pn_tensor *in[KALMAN_INPUTS];
  operands(L, 5, 3, 3, in);
  return pni_tensor_results(L, in, 2, predict);
}

/* kalman_update(mean, cov, y, c, d or nil, r, {observed =, details =}) -> mean, cov, log_prob, and with details
 * innovation, innovation_cov, gain */
static int l_kalman_update(lua_State *L) {
  static const char *const names[] = {"observed", "details", NULL};
  pn_tensor *in[KALMAN_INPUTS] = {0};
  bool details = false;
  operands(L, 6, 4, 4, in);
  lua_settop(L, 7);
  if (!lua_isnil(L, 7)) {
    pni_check_plain_options(L, 7, "kalman_update", names);
    pni_get_raw(L, 7, "details");
    if (!lua_isnil(L, -1) && !lua_isboolean(L, -1))
      return pni_error(L, "kalman_update: details must be true or false, got %s", pni_type_name(L, -1));
    details = lua_toboolean(L, -1);
    if (pni_get_raw(L, 7, "observed") != LUA_TNIL)
      in[OBSERVED] = pni_check_operand(L, lua_gettop(L), "kalman_update", "observed");
  }
  return pni_tensor_results(L, in, details ? 6 : 3, details ? update_details : update_plain);
}

/* The option `observed` of the table at index i, which may be nil. */
static pn_tensor *option_observed(lua_State *L, int i, const char *where) {
  static const char *const names[] = {"observed", NULL};
  lua_settop(L, i);
  if (lua_isnil(L, i)) return NULL;
  pni_check_plain_options(L, i, where, names);
  return pni_get_raw(L, i, "observed") == LUA_TNIL ? NULL : pni_check_operand(L, lua_gettop(L), where, "observed");
}

/* kalman_step(mean, cov, a, b or nil, q, y, c, d or nil, r, {observed =}) -> mean, cov, log_prob */
static int l_kalman_step(lua_State *L) {
  pn_tensor *in[KALMAN_INPUTS] = {0};
  operands(L, 9, 3, 7, in);
  in[STEP_OBSERVED] = option_observed(L, 10, "kalman_step");
  return pni_tensor_results(L, in, 3, both);
}

/* kalman_root_predict(mean, l, a, b or nil, q) -> mean, l */
static int l_kalman_root_predict(lua_State *L) {
  pn_tensor *in[KALMAN_INPUTS];
  operands(L, 5, 3, 3, in);
  return pni_tensor_results(L, in, 2, root_predict);
}

/* kalman_root_update(mean, l, y, c, d or nil, r, {observed =}) -> mean, l, log_prob */
static int l_kalman_root_update(lua_State *L) {
  pn_tensor *in[KALMAN_INPUTS] = {0};
  operands(L, 6, 4, 4, in);
  in[OBSERVED] = option_observed(L, 7, "kalman_root_update");
  return pni_tensor_results(L, in, 3, root_update);
}

static pn_tensor *einsum(lua_State *L, pn_context *c, const char *spec, int first, int n) {
  pn_tensor *x[PNI_OP_INPUTS];
  for (int k = 0; k < n; k++) x[k] = pni_test_tensor(L, first + k);
  return pn_einsum(c, spec, n, x);
}

/* einsum(spec, x, y, ...) or einsum(spec, {x, y, ...}) */
static int l_einsum(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  if (lua_type(L, 1) != LUA_TSTRING)
    return pni_error(L, "einsum: spec must be a string as \"ij,jk->ik\", got %s", pni_type_name(L, 1));
  const char *spec = lua_tostring(L, 1);
  int n = lua_gettop(L) - 1, first = 2;
  if (n == 1 && lua_istable(L, 2)) {
    n = (int)lua_rawlen(L, 2);
    first = 3;
    luaL_checkstack(L, (n < PNI_OP_INPUTS ? n : PNI_OP_INPUTS) + 8, "too many tensors");
    for (int k = 1; k <= n && k <= PNI_OP_INPUTS; k++) lua_rawgeti(L, 2, k);
  }
  if (n < 1 || n > PNI_OP_INPUTS) return pni_error(L, "einsum: needs 1 to %d tensors, got %d", PNI_OP_INPUTS, n);
  for (int k = 0; k < n; k++) pni_check_tensor(L, first + k);
  PNI_RETURN(L, c, einsum(L, c, spec, first, n));
}

/* What help and the manual say about these. */
static const char *const rows[][3] = {
    {"qr", "x:t",
     "q, r with x = q r, q with orthonormal columns, r upper triangular: [..., m, n] -> [..., m, k], "
     "[..., k, n], k = min(m, n)"},
    {"eigh", "x:t",
     "values, vectors of (x + x^T) / 2: [..., n, n] -> [..., n] ascending, [..., n, n] in columns; "
     "vectors of equal values have no gradient"},
    {"svd", "x:t",
     "u, s, vt with x = u diag(s) vt: [..., m, n] -> [..., m, k], [..., k] descending, [..., k, n]; "
     "vectors of equal values have no gradient"},
    {"slogdet", "x:t", "sign and logarithm of |det x|: [..., n, n] -> [...], [...]"},
    {"einsum", "spec:w list:T",
     "sum of products in index notation, einsum(\"bij,bjk->bik\", x, y); '...' are leading "
     "axes that broadcast, a repeated index is a diagonal"},
    {"kalman_predict", "mean:t cov:t a:t b:t q:t",
     "mean, cov of a x + b + N(0, q) for a state N(mean, cov), a [..., p, n]: a mean + b, a cov a^T + q; n and p to "
     "4096; b may be nil; leading axes broadcast and what is shared is not copied"},
    {"kalman_update", "mean:t cov:t y:t c:t d:t r:t options:o",
     "mean, cov (Joseph's form) of a state given y = c x + d + N(0, r), and log_prob of y: y [..., p], c [..., p, n]; "
     "d "
     "may be nil; options: observed (bool [..., p], false where y is missing), details (then also innovation, "
     "innovation_cov, gain); nil, message, code if c cov c^T + r is not positive definite"},
    {"kalman_step", "mean:t cov:t a:t b:t q:t y:t c:t d:t r:t options:o",
     "kalman_predict, then kalman_update without details, in one pass: mean, cov, log_prob; option: observed"},
    {"kalman_root_predict", "mean:t l:t a:t b:t q:t",
     "kalman_predict on square roots: mean, l with l l^T = a l l^T a^T + q q^T, a lower triangle; no digits are lost "
     "where covariances are nearly singular"},
    {"kalman_root_update", "mean:t l:t y:t c:t d:t r:t options:o",
     "kalman_update on square roots l and r of the covariances: mean, l, log_prob; option: observed"},
    {"cholesky_update", "l:t x:t", "the Cholesky factor of l l^T + x x^T: [..., n, n], [..., n, k] -> [..., n, n]"}};

static int l_linalg_rows(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]); i++) {
    lua_newtable(L);
    lua_pushliteral(L, "op");
    lua_setfield(L, -2, "kind");
    lua_pushstring(L, rows[i][0]);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, rows[i][1]);
    lua_setfield(L, -2, "args");
    lua_pushstring(L, rows[i][2]);
    lua_setfield(L, -2, "doc");
    lua_pushboolean(L, true);
    lua_setfield(L, -2, "differentiable");
    lua_newtable(L); /* domain: all reals */
    for (int k = 1; k <= STEP_OBSERVED; k++) {
      lua_newtable(L);
      lua_pushnumber(L, 0);
      lua_rawseti(L, -2, 1);
      lua_pushnumber(L, 0);
      lua_rawseti(L, -2, 2);
      lua_rawseti(L, -2, k);
    }
    lua_setfield(L, -2, "domain");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static const luaL_Reg functions[] = {
    {"qr", l_qr}, {"eigh", l_eigh}, {"svd", l_svd}, {"slogdet", l_slogdet}, {"cholesky_update", l_cholesky_update},
    {NULL, NULL}};

void pni_open_linalg(lua_State *L) {
  int core = lua_gettop(L);
  luaL_setfuncs(L, functions, 0);
  pni_push_methods(L);
  luaL_setfuncs(L, functions, 0);
  lua_pushcfunction(L, l_kalman_predict);
  lua_setfield(L, core, "kalman_predict");
  lua_pushcfunction(L, l_kalman_update);
  lua_setfield(L, core, "kalman_update");
  lua_pushcfunction(L, l_kalman_step);
  lua_setfield(L, core, "kalman_step");
  lua_pushcfunction(L, l_kalman_root_predict);
  lua_setfield(L, core, "kalman_root_predict");
  lua_pushcfunction(L, l_kalman_root_update);
  lua_setfield(L, core, "kalman_root_update");
  lua_pushcfunction(L, l_einsum);
  lua_setfield(L, core, "einsum");
  lua_pushcfunction(L, l_linalg_rows);
  lua_setfield(L, core, "linalg_rows");
  lua_settop(L, core);
}
