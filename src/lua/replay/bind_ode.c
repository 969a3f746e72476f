/*
** bind_ode.c: differential equations as Lua sees them. The right-hand side, a Lua function, is captured (ode.lua) into
** plans, which stand here as objects; the solution calls no Lua.
*/
#include "../../autodiff/replay/replay.h"
#include "../penumbra_lua.h"

enum { INPUTS = 64 };

typedef struct {
  pn_plan *p;
} box;

static void release(void *object) {
  box *b = object;
  pn_plan *p = b->p;
  b->p = NULL;
  pn_plan_unref(p);
}

static const pni_object_type kind = {"penumbra.plan", "a plan", sizeof(box), 0, false, release};

static const char refused[] =
    "odeint: f uses a tensor from outside that depends on parameters or differs from call to call: pass it in "
    "{parameters = {...}}";

/* enter(first, last, tensors...) -> what stands for them inside; those of first .. last (from 1) are differentiable */
static int l_enter(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  int64_t first = pni_check_whole(L, 1, "odeint", "first"), last = pni_check_whole(L, 2, "odeint", "last");
  int n = lua_gettop(L) - 2;
  pn_tensor *in[INPUTS], *inside[INPUTS];
  pni_box *b[INPUTS];
  if (first < 1 || last > n || first > last + 1)
    return pni_error(L, "odeint: first and last must lie in 1 .. %d, got %I and %I", n, (LUAI_UACINT)first,
                     (LUAI_UACINT)last);
  if (n > INPUTS) return pni_error(L, "odeint: at most %d tensors are possible, got %d", INPUTS, n);
  pni_refuse_finaliser(L, "a capture");
  luaL_checkstack(L, n + 4, "too many tensors");
  for (int k = 0; k < n; k++) b[k] = pni_new_box(L);
  for (int k = 0; k < n; k++) in[k] = pni_check_tensor(L, k + 3);
  size_t mark = pn_scope_open(c);
  pn_status s = pni_capture_enter(c, refused, n, in, (int)first - 1, (int)last, inside);
  for (int k = 0; s == PN_OK && k < n; k++) b[k]->t = pn_tensor_ref(inside[k]);
  pn_scope_close(c, mark);
  return s ? pni_raise(L, c) : n;
}

/* leave(results...) -> plan */
static int l_leave(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  int n = lua_gettop(L);
  pn_tensor *out[INPUTS];
  if (n < 1 || n > INPUTS) return pni_error(L, "odeint: results must be 1 to %d tensors, got %d", INPUTS, n);
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

static const char *const fields[] = {"rtol", "atol", "max_steps", "first_step", "max_step", NULL};

/* solve(f, pullback or nil, options, y0, times, parameters...) */
static int l_solve(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  double v[5];
  pn_tensor *in[INPUTS];
  int n = lua_gettop(L) - 5;
  if (n < 0 || n > INPUTS || !lua_istable(L, 3))
    return pni_error(L, "odeint: needs plans, options, y0, times and at most %d parameters", INPUTS);
  for (int k = 0; fields[k]; k++) {
    pni_get_raw(L, 3, fields[k]);
    v[k] = lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  pn_ode_config config = {v[0], v[1], v[2] > 1e9 ? 1000000000 : v[2] >= 1 ? (int)v[2] : 0, v[3], v[4]};
  pn_plan *f = plan_at(L, 1), *pullback = plan_at(L, 2);
  if (!f) return pni_error(L, "odeint: the right-hand side must be a plan, got %s", pni_type_name(L, 1));
  pn_tensor *y0 = pni_check_tensor(L, 4), *times = pni_check_tensor(L, 5);
  for (int k = 0; k < n; k++) in[k] = pni_check_tensor(L, k + 6);
  PNI_RETURN(L, c, pn_odeint(c, f, pullback, &config, y0, times, n, in));
}

static const luaL_Reg functions[] = {
    {"enter", l_enter}, {"leave", l_leave}, {"current", l_current}, {"solve", l_solve}, {NULL, NULL}};

void pni_open_ode(lua_State *L) {
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "ode");
  pni_new_kind(L, &kind);
  lua_pop(L, 1);
}
