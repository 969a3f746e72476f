/*
** bind_ode.c: differential equations as Lua sees them. The right-hand side, a Lua function, is captured (ode.lua) into
** plans, which stand here as objects; the solution calls no Lua.
*/
#include "../../autodiff/replay/replay.h"
#include "../penumbra_lua.h"

enum { INPUTS = PNI_OP_INPUTS };

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

/* Field `key` of the table at i as a number: 0 where it is none. */
static double number_of(lua_State *L, int i, const char *key) {
  pni_get_raw(L, i, key);
  double v = lua_isboolean(L, -1) ? lua_toboolean(L, -1) : lua_tonumber(L, -1);
  lua_pop(L, 1);
  return v;
}

static int whole_of(lua_State *L, int i, const char *key) {
  double v = number_of(L, i, key);
  return v > 1e9 ? 1000000000 : v > -1e9 ? (int)v : -1000000000;
}

static pn_plan *plan_of(lua_State *L, int i, const char *key) {
  pni_get_raw(L, i, key);
  pn_plan *p = plan_at(L, lua_gettop(L));
  lua_pop(L, 1); /* the table keeps it */
  return p;
}

/* Events of the list in field "event" of the options at i. */
static int read_events(lua_State *L, int i, pn_ode_event *event) {
  pni_get_raw(L, i, "event");
  int list = lua_gettop(L), n = lua_istable(L, list) ? (int)lua_rawlen(L, list) : 0;
  if (n > INPUTS) return pni_error(L, "odeint: at most %d events are possible, got %d", INPUTS, n);
  for (int e = 0; e < n; e++) {
    lua_rawgeti(L, list, e + 1);
    int at = lua_gettop(L);
    if (!lua_istable(L, at)) return pni_error(L, "odeint: event %d must be a table", e + 1);
    event[e] = (pn_ode_event){{0}, whole_of(L, at, "direction"), whole_of(L, at, "terminal"), whole_of(L, at, "count")};
    pni_get_raw(L, at, "name");
    const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "?";
    snprintf(event[e].name, sizeof event[e].name, "%s", name);
    lua_settop(L, list);
  }
  lua_pop(L, 1);
  return n;
}

/* solve(f, pullback or nil, options, y0, times, parameters...) */
static int l_solve(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *in[INPUTS];
  pn_ode_event event[INPUTS];
  int n = lua_gettop(L) - 5, steps;
  if (n < 0 || n > INPUTS || !lua_istable(L, 3))
    return pni_error(L, "odeint: needs plans, options, y0, times and at most %d parameters", INPUTS);
  steps = whole_of(L, 3, "max_steps");
  pn_ode_config config = {.rtol = number_of(L, 3, "rtol"),
                          .atol = number_of(L, 3, "atol"),
                          .max_steps = steps < 0 ? 0 : steps,
                          .first_step = number_of(L, 3, "first_step"),
                          .max_step = number_of(L, 3, "max_step"),
                          .method = number_of(L, 3, "rosenbrock") != 0 ? PN_ROSENBROCK : PN_DORMAND_PRINCE,
                          .checkpoints = number_of(L, 3, "checkpoints") != 0,
                          .jacobian = plan_of(L, 3, "jacobian"),
                          .curvature = plan_of(L, 3, "curvature"),
                          .num_events = read_events(L, 3, event),
                          .event = event,
                          .events = plan_of(L, 3, "events"),
                          .events_pullback = plan_of(L, 3, "events_pullback")};
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
