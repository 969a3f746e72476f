/*
** linalg.c: what the generic caller of operations cannot bind: factorisations with several results, and
** einsum. A factorisation that does not exist is an operational failure: nil, message, code.
*/
#include "penumbra_lua.h"

enum { MAX_RESULTS = 3 };

/* Boxes for n results; then the action, twice if memory was lacking; then the boxes are filled. */
typedef pn_status (*action)(pn_context *c, pn_tensor *x, pn_tensor **out);

static int results(lua_State *L, int n, action f) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *x = pni_check_tensor(L, 1), *out[MAX_RESULTS];
  pni_box *box[MAX_RESULTS];
  for (int k = 0; k < n; k++) box[k] = pni_new_box(L);
  for (int again = 0;; again++) {
    size_t mark = pn_scope_open(c);
    pn_status s = f(c, x, out);
    if (s == PN_OK) {
      for (int k = 0; k < n; k++) pn_tensor_ref(out[k]);
      pn_scope_close(c, mark);
      for (int k = 0; k < n; k++) box[k]->t = out[k];
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

static pn_status qr(pn_context *c, pn_tensor *x, pn_tensor **out) { return pn_qr(c, x, &out[0], &out[1]); }
static pn_status eigh(pn_context *c, pn_tensor *x, pn_tensor **out) { return pn_eigh(c, x, &out[0], &out[1]); }
static pn_status svd(pn_context *c, pn_tensor *x, pn_tensor **out) { return pn_svd(c, x, &out[0], &out[1], &out[2]); }
static pn_status slogdet(pn_context *c, pn_tensor *x, pn_tensor **out) {
  out[0] = pn_det_sign(c, x);
  out[1] = pn_logdet(c, x);
  return pn_context_status(c);
}

/* x:qr() -> q, r */
static int l_qr(lua_State *L) { return results(L, 2, qr); }
/* x:eigh() -> values, vectors */
static int l_eigh(lua_State *L) { return results(L, 2, eigh); }
/* x:svd() -> u, s, vt */
static int l_svd(lua_State *L) { return results(L, 3, svd); }
/* x:slogdet() -> sign, log |det x| */
static int l_slogdet(lua_State *L) { return results(L, 2, slogdet); }

static pn_tensor *einsum(lua_State *L, pn_context *c, const char *spec, int first, int n) {
  pn_tensor *x[PNI_OP_INPUTS];
  for (int k = 0; k < n; k++) x[k] = pni_test_tensor(L, first + k);
  return pn_einsum(c, spec, n, x);
}

/* einsum(spec, x, y, ...) or einsum(spec, {x, y, ...}) */
static int l_einsum(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  if (lua_type(L, 1) != LUA_TSTRING)
    return pni_error(L, "einsum: spec must be a string as \"ij,jk->ik\", got %s", luaL_typename(L, 1));
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

/* What help and the README say about these. */
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
     "axes that broadcast, a repeated index is a diagonal"}};

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
    for (int k = 1; k <= 3; k++) {
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
    {"qr", l_qr}, {"eigh", l_eigh}, {"svd", l_svd}, {"slogdet", l_slogdet}, {NULL, NULL}};

void pni_open_linalg(lua_State *L) {
  int core = lua_gettop(L);
  luaL_setfuncs(L, functions, 0);
  pni_push_methods(L);
  luaL_setfuncs(L, functions, 0);
  lua_pushcfunction(L, l_einsum);
  lua_setfield(L, core, "einsum");
  lua_pushcfunction(L, l_linalg_rows);
  lua_setfield(L, core, "linalg_rows");
  lua_settop(L, core);
}
