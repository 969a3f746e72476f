/*
** bind_vmap.c: one computation for a batch of examples, as Lua sees it: begin and end around a call of the script's
** function (vmap.lua).
*/
#include "../penumbra_lua.h"

enum { TENSORS = 64 };

/* Boxes for n results on the stack, before anything can fail. */
static void make_boxes(lua_State *L, int n, pni_box **b) {
  luaL_checkstack(L, n + 4, "too many tensors");
  for (int k = 0; k < n; k++) b[k] = pni_new_box(L);
}

/* begin({mapped...}, tensors...) -> the first example of each */
static int l_begin(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  int n = lua_gettop(L) - 1, mapped[TENSORS];
  pn_tensor *in[TENSORS], *inside[TENSORS];
  pni_box *b[TENSORS];
  luaL_checktype(L, 1, LUA_TTABLE);
  if (n < 1 || n > TENSORS) return pni_error(L, "vmap: tensors must be 1 to %d, got %d", TENSORS, n);
  pni_refuse_finaliser(L, "vmap");
  for (int k = 0; k < n; k++) {
    in[k] = pni_check_tensor(L, k + 2);
    lua_rawgeti(L, 1, k + 1);
    mapped[k] = lua_toboolean(L, -1);
    lua_pop(L, 1);
  }
  make_boxes(L, n, b);
  size_t mark = pn_scope_open(c);
  pn_status s = pn_vmap_begin(c, n, in, mapped, inside);
  for (int k = 0; s == PN_OK && k < n; k++) b[k]->t = pn_tensor_ref(inside[k]);
  pn_scope_close(c, mark);
  return s ? pni_raise(L, c) : n;
}

/* finish(results...) -> those of all examples */
static int l_finish(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  int n = lua_gettop(L);
  pn_tensor *result[TENSORS], *out[TENSORS];
  pni_box *b[TENSORS];
  if (n < 1 || n > TENSORS) return pni_error(L, "vmap: f must return 1 to %d tensors, got %d", TENSORS, n);
  pni_refuse_finaliser(L, "vmap");
  for (int k = 0; k < n; k++) {
    result[k] = pni_test_tensor(L, k + 1);
    if (!result[k])
      return pni_error(L, "vmap: result %d of f must be a tensor, got %s", k + 1, pni_type_name(L, k + 1));
  }
  make_boxes(L, n, b);
  size_t mark = pn_scope_open(c);
  pn_status s = pn_vmap_end(c, n, result, out);
  for (int k = 0; s == PN_OK && k < n; k++) b[k]->t = pn_tensor_ref(out[k]);
  pn_scope_close(c, mark);
  if (s) return pni_raise(L, c);
  pni_tell_collector(L);
  return n;
}

/* current() -> what tells the capture that goes on from others */
static int l_current(lua_State *L) {
  lua_pushlightuserdata(L, pni_lua_context(L)->recorder);
  return 1;
}

static const luaL_Reg functions[] = {{"begin", l_begin}, {"finish", l_finish}, {"current", l_current}, {NULL, NULL}};

void pni_open_vmap(lua_State *L) {
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "examples");
}
