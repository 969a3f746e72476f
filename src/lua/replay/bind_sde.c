/*
** bind_sde.c: stochastic differential equations as Lua sees them. The step of a scheme, made of Lua functions, is
** captured (sde.lua) into plans, which stand here as objects; the solution calls no Lua.
*/
#include <math.h>
#include "../../autodiff/sde/op_sde.h"
#include "../penumbra_lua.h"

typedef struct {
  pn_plan *p;
} box;

static void release(void *object) {
  box *b = object;
  pn_plan *p = b->p;
  b->p = NULL;
  pn_plan_unref(p);
}

static const pni_object_type kind = {"penumbra.step", "the step of a scheme", sizeof(box), 0, false, release};

static const char refused[] =
    "sde: drift or diffusion uses a tensor from outside that depends on parameters or differs from call to call: pass "
    "it in {parameters = {...}}";

enum { MOST = 1000 }; /* inputs of a step: numbers of tensors, not of their elements */

/* enter(first, last, tensors...) -> what stands for them inside; those of first .. last (from 1) are differentiable */
static int l_enter(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  int64_t first = pni_check_whole(L, 1, "sde", "first"), last = pni_check_whole(L, 2, "sde", "last");
  int n = lua_gettop(L) - 2;
  if (first < 1 || last > n || first > last + 1 || n < 1 || n > MOST)
    return pni_error(L, "sde: at most %d tensors, first and last among them, are possible, got %d, %I and %I", MOST, n,
                     (LUAI_UACINT)first, (LUAI_UACINT)last);
  pni_refuse_finaliser(L, "a capture");
  luaL_checkstack(L, 2 * n + 8, "too many tensors");
  pn_tensor **in = lua_newuserdatauv(L, 2 * (size_t)n * sizeof *in, 0), **inside = in + n;
  int top = lua_gettop(L);
  for (int k = 0; k < n; k++) pni_new_box(L);
  for (int k = 0; k < n; k++) in[k] = pni_check_tensor(L, k + 3);
  size_t mark = pn_scope_open(c);
  pn_status s = pni_capture_enter(c, refused, n, in, (int)first - 1, (int)last, inside);
  for (int k = 0; s == PN_OK && k < n; k++) ((pni_box *)lua_touserdata(L, top + 1 + k))->t = pn_tensor_ref(inside[k]);
  pn_scope_close(c, mark);
  return s ? pni_raise(L, c) : n;
}

/* leave(results...) -> plan */
static int l_leave(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  int n = lua_gettop(L);
  if (n < 1 || n > MOST) return pni_error(L, "sde: results must be 1 to %d tensors, got %d", MOST, n);
  pn_tensor **out = lua_newuserdatauv(L, (size_t)n * sizeof *out, 0);
  box *b = pni_new_object(L, &kind);
  for (int k = 0; k < n; k++) out[k] = pni_check_tensor(L, k + 1);
  pni_refuse_finaliser(L, "a capture");
  size_t mark = pn_scope_open(c);
  b->p = pn_capture_end(c, n, out);
  pn_scope_close(c, mark);
  return b->p ? 1 : pni_raise(L, c);
}

/* current() -> what tells the capture that goes on from others */
static int l_current(lua_State *L) {
  lua_pushlightuserdata(L, pni_lua_context(L)->recorder);
  return 1;
}

static pn_plan *plan_at(lua_State *L, int i) {
  box *b = lua_isnil(L, i) ? NULL : pni_test_object(L, i, &kind);
  return b ? b->p : NULL;
}

static double field(lua_State *L, int i, const char *name) {
  pni_get_raw(L, i, name);
  double v = lua_isboolean(L, -1) ? lua_toboolean(L, -1) : lua_tonumber(L, -1);
  lua_pop(L, 1);
  return v;
}

/* Whole numbers beyond the range of any size become one that is refused. */
static int64_t whole(lua_State *L, int i, const char *name) {
  double v = field(L, i, name);
  return v >= 0 && v <= 0x1p52 ? (int64_t)v : -1;
}

static pni_sde_config config_at(lua_State *L, int i) {
  pni_sde_config s = {.step = field(L, i, "step"),
                      .max_steps = whole(L, i, "max_steps"),
                      .gradient = (int)whole(L, i, "gradient"),
                      .paths = whole(L, i, "paths"),
                      .rows = whole(L, i, "rows"),
                      .motions = whole(L, i, "motions"),
                      .states = (int)whole(L, i, "states"),
                      .area = field(L, i, "area") != 0,
                      .tree = field(L, i, "tree") != 0,
                      .start = field(L, i, "start"),
                      .tolerance = field(L, i, "tolerance"),
                      .own_start = field(L, i, "own_start") != 0,
                      .adaptive = field(L, i, "adaptive") != 0,
                      .rtol = field(L, i, "rtol"),
                      .atol = field(L, i, "atol"),
                      .first_step = field(L, i, "first_step"),
                      .order = field(L, i, "order")};
  return s;
}

/* solve(step, pullback or nil, settings, own, y0, times, key, shared, of_path); own: a list of booleans */
static int l_solve(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_plan *step = plan_at(L, 1), *pullback = plan_at(L, 2);
  if (!step || !lua_istable(L, 3) || !lua_istable(L, 4) || lua_rawlen(L, 4) > MOST)
    return pni_error(L, "sde: needs the step's plans, settings, a list of at most %d and five tensors", MOST);
  int n = (int)lua_rawlen(L, 4);
  bool *own = lua_newuserdatauv(L, (size_t)n + 1, 0);
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, 4, k + 1);
    own[k] = lua_toboolean(L, -1);
    lua_pop(L, 1);
  }
  pni_sde_config set = config_at(L, 3);
  pn_tensor *in[5];
  for (int k = 0; k < 5; k++) in[k] = pni_check_tensor(L, 5 + k);
  PNI_RETURN(L, c, pni_sde_apply(c, step, pullback, &set, n, own, in[0], in[1], in[2], in[3], in[4]));
}

/* ---- paths ---- */

static pn_status increments(pn_context *c, int64_t seed, const double *at, pn_tensor *w, pn_tensor *h) {
  pni_brownian b;
  double from = at[2], to = at[3];
  if (pni_brownian_open(c, &b, pni_seed_key((uint64_t)seed), at[0], to, at[1], 0, w->numel)) return c->status;
  pni_brownian_seek(&b, from);
  pni_brownian_move(&b, to, pni_data(w), pni_data(h));
  pni_brownian_close(c, &b);
  return PN_OK;
}

/* increment(seed, start, tolerance, s, t, sizes) -> w, h: float64 */
static int l_increment(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pni_spec spec = {.dtype = PN_FLOAT64};
  double at[4];
  int64_t seed = pni_check_whole(L, 1, "brownian", "seed");
  for (int k = 0; k < 4; k++) at[k] = pni_check_number(L, k + 2, "brownian", "a time");
  spec.ndim = pni_check_sizes(L, 6, "brownian", PN_MAX_DIMS, spec.shape);
  if (!(at[0] <= at[2] && at[2] <= at[3]) || !(at[1] > 0))
    return pni_error(L, "brownian: start, s and t must be in order");
  if (pni_checked_count(c, &spec) < 0) return pni_raise(L, c);
  pni_box *b[2] = {pni_new_box(L), pni_new_box(L)};
  size_t mark = pn_scope_open(c);
  pn_tensor *w = pni_scoped(c, pni_tensor_new(c, &spec)), *h = w ? pni_scoped(c, pni_tensor_new(c, &spec)) : NULL;
  if (!h || increments(c, seed, at, w, h)) {
    pn_scope_close(c, mark);
    return pni_raise(L, c);
  }
  pni_fill_box(L, b[0], w);
  pni_fill_box(L, b[1], h);
  pn_scope_close(c, mark);
  return 2;
}

static const luaL_Reg functions[] = {{"enter", l_enter}, {"leave", l_leave},         {"current", l_current},
                                     {"solve", l_solve}, {"increment", l_increment}, {NULL, NULL}};

void pni_open_sde(lua_State *L) {
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "sde");
  pni_new_kind(L, &kind);
  lua_pop(L, 1);
}
