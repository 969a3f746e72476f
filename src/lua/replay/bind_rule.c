/*
** bind_rule.c: gradients that scripts write, as rules that are captured once (own_op.lua) and applied without Lua. What
** the function finds outside is watched as that of compiled functions (watch.c).
*/
#include "../../autodiff/rule/rule.h"
#include "../message.h"
#include "watch.h"

enum { MOST = PNI_RULE_INPUTS + 2 };
/* The function; what it saw outside at the capture; the same before the capture that goes on */
enum { FUNCTION = 1, SEEN, BEFORE, USER_VALUES = BEFORE };

typedef struct {
  pn_tensor *t; /* on which the rule rides; NULL before the end of its capture */
} box;

static void release(void *object) {
  box *b = object;
  pn_tensor *t = b->t;
  b->t = NULL;
  pn_tensor_unref(t);
}

static const pni_object_type kind = {"penumbra.rule", "a rule", sizeof(box), USER_VALUES, false, release};

static const char refused[] =
    "compile: a tensor from outside is used that depends on parameters or differs from call to "
    "call: pass it as an argument";

static box *self_of(lua_State *L) {
  box *b = pni_test_object(L, 1, &kind);
  if (!b) pni_error(L, "op: argument 1 must be a rule, got %s", pni_type_name(L, 1));
  return b;
}

static void look_around(lua_State *L, int at) {
  lua_getiuservalue(L, 1, FUNCTION);
  pni_watch_list(L, lua_gettop(L));
  lua_setiuservalue(L, 1, at);
  lua_pop(L, 1);
}

/* new(f) */
static int l_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  pni_new_object(L, &kind);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, FUNCTION);
  return 1;
}

/* The tensors from stack index `from` on; how many. */
static int read_tensors(lua_State *L, int from, int most, pn_tensor **t) {
  int n = lua_gettop(L) - from + 1;
  if (n < 0 || n > most) return pni_error(L, "op: at most %d tensors are possible, got %d", most, n);
  for (int k = 0; k < n; k++) t[k] = pni_check_tensor(L, from + k);
  return n;
}

/* enter(rule, g, y, x...) -> what stands for them inside */
static int l_enter(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *in[MOST], *inside[MOST];
  pni_box *b[MOST];
  self_of(L);
  pni_refuse_finaliser(L, "a capture");
  int n = read_tensors(L, 2, MOST, in);
  luaL_checkstack(L, 2 * n + 4, "too many tensors");
  look_around(L, BEFORE);
  for (int k = 0; k < n; k++) b[k] = pni_new_box(L);
  for (int k = 0; k < n; k++) in[k] = pni_check_tensor(L, 2 + k); /* a finaliser may have run */
  size_t mark = pn_scope_open(c);
  pn_status s = pni_capture_enter(c, refused, n, in, 0, n, inside);
  for (int k = 0; s == PN_OK && k < n; k++) b[k]->t = pn_tensor_ref(inside[k]);
  pn_scope_close(c, mark);
  return s ? pni_raise(L, c) : n;
}

/* What the function does outside happens at the capture only: that must not matter. */
static void check_outside(lua_State *L) {
  char name[80];
  look_around(L, SEEN);
  lua_getiuservalue(L, 1, BEFORE);
  if (pni_watch_changed(L, lua_gettop(L), name))
    pni_error(L, "compile: it gives %s, from outside of it, another value, which happens once and never again", name);
  lua_getiuservalue(L, 1, SEEN);
  if (pni_watch_holds_result(L, lua_gettop(L), name))
    pni_error(L, "compile: it keeps a tensor that it has computed in %s, outside of it, where there is no number",
              name);
  lua_pop(L, 2);
}

/* leave(rule, gradients...): ends the capture */
static int l_leave(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *out[MOST];
  box *b = self_of(L);
  pni_refuse_finaliser(L, "a capture");
  read_tensors(L, 2, PNI_RULE_INPUTS, out);
  luaL_checkstack(L, MOST, "too many tensors");
  int n = lua_gettop(L) - 1;
  check_outside(L);
  for (int k = 0; k < n; k++) out[k] = pni_check_tensor(L, 2 + k); /* a finaliser may have run */
  release(b);
  size_t mark = pn_scope_open(c);
  b->t = pni_rule_end(c, n, out);
  if (b->t) pn_tensor_ref(b->t);
  pn_scope_close(c, mark);
  return b->t ? 0 : pni_raise(L, c);
}

/* fits(rule) -> has nothing outside changed since its capture? */
static int l_fits(lua_State *L) {
  self_of(L);
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, SEEN);
  lua_pushboolean(L, pni_watch_same(L, 2));
  return 1;
}

/* current() -> what tells the capture that goes on from others */
static int l_current(lua_State *L) {
  lua_pushlightuserdata(L, pni_lua_context(L)->recorder);
  return 1;
}

/* apply(rule, y, x...) -> y with that gradient */
static int l_apply(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *x[MOST];
  box *b = self_of(L);
  pn_tensor *y = pni_check_tensor(L, 2);
  int n = read_tensors(L, 3, PNI_RULE_INPUTS, x);
  if (!b->t) return pni_error(L, "op: the rule was not captured");
  PNI_RETURN(L, c, pni_own_gradient(c, y, b->t, n, x));
}

static const luaL_Reg functions[] = {{"new", l_new},         {"enter", l_enter}, {"leave", l_leave}, {"fits", l_fits},
                                     {"current", l_current}, {"apply", l_apply}, {NULL, NULL}};

void pni_open_rule(lua_State *L) {
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "rule");
  pni_new_kind(L, &kind);
  lua_pop(L, 1);
}
