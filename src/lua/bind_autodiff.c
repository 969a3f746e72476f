/*
** bind_autodiff.c: parameters, gradients, and switching recording off, as Lua sees them.
*/
#include "../autodiff/buffer.h"
#include "../autodiff/nonfinite.h"
#include "penumbra_lua.h"

static int l_param(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  if (!luaL_testudata(L, 1, "penumbra.tensor") && !lua_isnumber(L, 1))
    return pni_error(L, "param: value must be a tensor or a number, got %s", pni_type_name(L, 1));
  pni_test_tensor(L, 1);
  PNI_RETURN(L, c, pn_param(c, pni_to_tensor(L, c, 1, NULL)));
}

/* buffer(tensor or number) -> a tensor that changes but is not trained */
static int l_buffer(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  if (!luaL_testudata(L, 1, "penumbra.tensor") && !lua_isnumber(L, 1))
    return pni_error(L, "buffer: value must be a tensor or a number, got %s", pni_type_name(L, 1));
  pni_test_tensor(L, 1);
  PNI_RETURN(L, c, pn_buffer(c, pni_to_tensor(L, c, 1, NULL)));
}

/* with_update(y, buffer, value, rate) -> y, which carries the update */
static int l_with_update(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *y = pni_check_operand(L, 1, "with_update", "y"), *b = pni_check_operand(L, 2, "with_update", "buffer");
  pn_tensor *v = pni_check_operand(L, 3, "with_update", "value");
  double rate = lua_isnoneornil(L, 4) ? 1 : pni_check_number(L, 4, "with_update", "rate");
  PNI_RETURN(L, c, pn_with_update(c, y, b, v, rate));
}

/* update_buffers(y): commits what y carries */
static int l_update_buffers(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *y = pni_check_operand(L, 1, "update_buffers", "y");
  pni_refuse_finaliser(L, "update_buffers");
  size_t mark = pn_scope_open(c);
  pn_status s = pn_update_buffers(c, y);
  pn_scope_close(c, mark);
  return s ? pni_raise(L, c) : 0;
}

/* carried(y) -> list of buffer, value, rate, buffer, value, rate...: the updates that y carries, in their order */
static int l_carried(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *y = pni_check_operand(L, 1, "carried", "y");
  pni_updates u;
  if (pni_updates_gather(c, y, &u)) return pni_updates_free(c, &u), pni_raise(L, c);
  int n = u.n;
  pni_updates_free(c, &u);
  lua_createtable(L, 3 * n, 0);
  pni_box **box = lua_newuserdatauv(L, 2 * (size_t)(n + 1) * sizeof *box, 0);
  for (int k = 0; k < 2 * n; k++) {
    box[k] = pni_new_box(L);
    lua_rawseti(L, 2, 3 * (k / 2) + k % 2 + 1); /* the list keeps it */
  }
  if (pni_updates_gather(c, y, &u) == PN_OK) { /* the same ones: nothing is held while boxes are made */
    for (int k = 0; k < n; k++) {
      box[2 * k]->t = pn_tensor_ref(u.buffer[k]);
      box[2 * k + 1]->t = pn_tensor_ref(u.value[k]);
    }
    for (int k = 0; k < n; k++) {
      lua_pushnumber(L, u.rate[k]);
      lua_rawseti(L, 2, 3 * k + 3);
    }
  }
  pni_updates_free(c, &u);
  lua_settop(L, 2);
  return pn_context_status(c) ? pni_raise(L, c) : 1;
}

static int l_is_buffer(lua_State *L) {
  lua_pushboolean(L, pn_tensor_is_buffer(pni_check_tensor(L, 1)));
  return 1;
}

static int l_detach(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *x = pni_check_tensor(L, 1);
  PNI_RETURN(L, c, pn_detach(c, x));
}

/* loss:backward() adds to w:grad() of every parameter below */
static int l_backward(lua_State *L) {
  pn_tensor *y = pni_check_tensor(L, 1);
  pn_context *c = pni_lua_context(L);
  if (pni_refuse_capture(c, "loss:backward()", "use pn.grad, or give the optimiser to compile")) return pni_raise(L, c);
  pni_refuse_finaliser(L, "backward");
  size_t mark = pn_scope_open(c);
  pn_status s = pn_backward(c, y);
  pn_scope_close(c, mark);
  return s ? pni_raise(L, c) : 0;
}

/* Results of pn_grad handed to their boxes. */
static int finish_grads(lua_State *L, pn_context *c, pn_tensor *y, int n, pn_tensor **x, int create_graph, int list) {
  pn_tensor **out = x + n;
  pni_box **box = (pni_box **)(void *)(out + n);
  for (int k = 0; k < n; k++) {
    box[k] = pni_new_box(L);
    lua_rawseti(L, list, k + 1); /* the list keeps it */
  }
  pn_status s;
  int tries = 0;
  do {
    size_t mark = pn_scope_open(c);
    s = pn_grad(c, y, n, x, create_graph, out);
    for (int k = 0; s == PN_OK && k < n; k++) box[k]->t = pn_tensor_ref(out[k]);
    pn_scope_close(c, mark);
  } while (s && pni_again(L, c, &tries));
  if (s) return pni_raise(L, c);
  pni_tell_collector(L);
  lua_pushvalue(L, list);
  return 1;
}

static const char *const grad_options[] = {"create_graph", NULL};

/* grad(y, {x...}, {create_graph = false}) -> list of dy/dx in the same order */
static int l_grad(lua_State *L) {
  pn_tensor *y = pni_check_tensor(L, 1), **x;
  int create_graph = 0;
  if (!lua_istable(L, 2))
    return pni_error(L, "grad: second argument must be a list of tensors, got %s", pni_type_name(L, 2));
  int n = (int)lua_rawlen(L, 2);
  if (!lua_isnoneornil(L, 3)) {
    pni_check_plain_options(L, 3, "grad", grad_options);
    pni_get_raw(L, 3, "create_graph");
    create_graph = lua_toboolean(L, -1);
  }
  lua_settop(L, 2);
  luaL_checkstack(L, n + 5, "too many tensors");
  lua_createtable(L, n, 0);
  x = lua_newuserdatauv(L, (size_t)n * (2 * sizeof *x + sizeof(pni_box *)), 0); /* with room for the results */
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, 2, k + 1);
    x[k] = pni_test_tensor(L, -1);
    if (!x[k]) return pni_error(L, "grad: element %d must be a tensor, got %s", k + 1, pni_type_name(L, -1));
  }
  return finish_grads(L, pni_lua_context(L), y, n, x, create_graph, 3);
}

/* w:grad(): what backward left, or nil */
static int l_gradient(lua_State *L) {
  pn_tensor *g = pn_tensor_grad(pni_check_tensor(L, 1));
  pn_context *c = pni_lua_context(L);
  if (pni_refuse_capture(c, "w:grad()", "use pn.grad")) return pni_raise(L, c);
  if (g)
    pni_push_tensor(L, g);
  else
    lua_pushnil(L);
  return 1;
}

static int l_clear_grad(lua_State *L) {
  pn_tensor *t = pni_check_tensor(L, 1);
  pn_context *c = pni_lua_context(L);
  if (pni_refuse_capture(c, "w:clear_grad()", "use pn.grad")) return pni_raise(L, c);
  pni_refuse_finaliser(L, "clear_grad");
  pn_tensor_clear_grad(t);
  return 0;
}

/* x:requires_grad() -> does it?; x:requires_grad(on) -> x, which from here on does or does not */
static int l_requires_grad(lua_State *L) {
  pn_tensor *x = pni_check_tensor(L, 1);
  pn_context *c = pni_lua_context(L);
  if (lua_isnoneornil(L, 2)) {
    lua_pushboolean(L, pn_tensor_requires_grad(x));
    return 1;
  }
  if (!lua_isboolean(L, 2)) return pni_error(L, "requires_grad: on must be true or false, got %s", pni_type_name(L, 2));
  pni_refuse_finaliser(L, "requires_grad");
  if (pn_tensor_set_requires_grad(c, x, lua_toboolean(L, 2))) return pni_raise(L, c);
  lua_settop(L, 1);
  return 1;
}

static int l_is_param(lua_State *L) {
  lua_pushboolean(L, pn_tensor_is_param(pni_check_tensor(L, 1)));
  return 1;
}

/* w:set(values) -> w */
static int l_set(lua_State *L) {
  pn_tensor *w = pni_check_tensor(L, 1), *t = pni_check_tensor(L, 2);
  pn_context *c = pni_lua_context(L);
  pni_refuse_finaliser(L, "set");
  if (pn_param_set(c, w, t)) return pni_raise(L, c);
  lua_settop(L, 1);
  return 1;
}

/* set_no_grad(off) -> previous setting */
static int l_set_no_grad(lua_State *L) {
  lua_pushboolean(L, pn_set_no_grad(pni_lua_context(L), lua_toboolean(L, 1)));
  return 1;
}

/* identity(t) -> a value that two Lua values of one tensor share, to be a key of a table */
static int l_identity(lua_State *L) {
  lua_pushlightuserdata(L, pni_check_tensor(L, 1));
  return 1;
}

/* leaf_beyond(t, list) -> a parameter from which t was computed and that is not in the list, or nil */
static int l_leaf_beyond(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  int n = (int)lua_rawlen(L, 2);
  pn_tensor *leaf, **known = lua_newuserdatauv(L, (size_t)(n + 1) * sizeof *known, 0);
  for (int k = 0; k < n; k++, lua_pop(L, 1)) { /* the list keeps them */
    lua_rawgeti(L, 2, k + 1);
    known[k] = pni_check_tensor(L, -1);
  }
  if (pni_leaf_beyond(c, pni_check_tensor(L, 1), n, known, &leaf)) return pni_raise(L, c);
  if (!leaf) return 0;
  pni_push_tensor(L, leaf);
  return 1;
}

/* nonfinite_cause(t) -> which operation below t made the first NaN or infinity, as text */
static int l_nonfinite_cause(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *t = pni_check_tensor(L, 1);
  char text[PNI_CAUSE];
  if (pni_refuse_capture(c, "looking for NaN", "do it outside")) return pni_raise(L, c);
  pni_nonfinite_cause(c, t, text);
  if (pni_check_cancel(c)) return pni_raise(L, c);
  lua_pushstring(L, text);
  return 1;
}

/* trap_nan(on) -> the previous setting: whether an operation that makes the first NaN raises, at the script's line */
static int l_trap_nan(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  lua_pushboolean(L, c->trap_nan);
  c->trap_nan = lua_toboolean(L, 1);
  return 1;
}

static const luaL_Reg functions[] = {{"param", l_param},
                                     {"buffer", l_buffer},
                                     {"with_update", l_with_update},
                                     {"update_buffers", l_update_buffers},
                                     {"carried", l_carried},
                                     {"grad", l_grad},
                                     {"detach", l_detach},
                                     {"set_no_grad", l_set_no_grad},
                                     {"identity", l_identity},
                                     {"leaf_beyond", l_leaf_beyond},
                                     {"nonfinite_cause", l_nonfinite_cause},
                                     {"trap_nan", l_trap_nan},
                                     {NULL, NULL}};

static const luaL_Reg methods[] = {{"backward", l_backward},
                                   {"grad", l_gradient},
                                   {"clear_grad", l_clear_grad},
                                   {"detach", l_detach},
                                   {"requires_grad", l_requires_grad},
                                   {"is_param", l_is_param},
                                   {"is_buffer", l_is_buffer},
                                   {"set", l_set},
                                   {NULL, NULL}};

void pni_open_autodiff(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
  pni_push_methods(L);
  luaL_setfuncs(L, methods, 0);
  lua_pop(L, 1);
}
