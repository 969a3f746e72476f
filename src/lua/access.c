/*
** access.c: the table of access.h, in the registry.
*/
#include "access.h"
#include <string.h>
#include "penumbra_lua.h"

static void fill(const pn_tensor *t, pni_elements *out) {
  out->dtype = t->dtype;
  out->ndim = t->ndim;
  out->numel = t->numel;
  memcpy(out->shape, t->shape, sizeof out->shape);
  out->bytes = (size_t)t->numel * pni_itemsize(t);
  out->data = pni_data(t);
}

static void look(lua_State *L, int i, const char *where, const char *role, pni_elements *out) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *t = pni_check_operand(L, i, where, role);
  i = lua_absindex(L, i);
  if (pni_check_read(c, t, where)) pni_raise(L, c);
  if (!pni_is_contiguous(t)) {
    pni_box *b = pni_new_box(L);
    int tries = 0;
    do {
      b->t = pni_contiguous(c, t);
    } while (!b->t && pni_again(L, c, &tries));
    if (!b->t) pni_raise(L, c);
    lua_replace(L, i);
    t = b->t;
  }
  fill(t, out);
}

static void *make(lua_State *L, pni_elements *spec) {
  pn_context *c = pni_lua_context(L);
  pni_spec of = {.dtype = spec->dtype, .ndim = spec->ndim};
  int tries = 0;
  memcpy(of.shape, spec->shape, sizeof of.shape);
  pni_box *b = pni_new_box(L);
  if (!pni_shape_given(c, "mpi", spec->ndim, spec->shape) || pni_checked_count(c, &of) < 0) pni_raise(L, c);
  do {
    b->t = pni_tensor_new(c, &of);
  } while (!b->t && pni_again(L, c, &tries));
  if (!b->t) pni_raise(L, c);
  pni_tell_collector(L);
  fill(b->t, spec);
  return pni_data(b->t);
}

static bool is_over(lua_State *L) { return pni_is_over(pni_lua_context(L)); }

static void raise_if_over(lua_State *L) { pni_poll(L, 1); }

static void refuse_capture(lua_State *L, const char *where) {
  pn_context *c = pni_lua_context(L);
  if (pni_refuse_capture(c, where, "do it outside")) pni_raise(L, c);
}

static const pni_access handed = {sizeof(pni_access), PN_VERSION, look,          make,
                                  pni_error,          is_over,    raise_if_over, refuse_capture};

/* core.package() -> the library `package` of this Lua state, which Penumbra's own modules do without; nil if none. */
static int l_package(lua_State *L) {
  lua_pushliteral(L, LUA_LOADED_TABLE);
  if (lua_rawget(L, LUA_REGISTRYINDEX) != LUA_TTABLE) return 0;
  lua_pushliteral(L, LUA_LOADLIBNAME);
  lua_rawget(L, -2);
  return 1;
}

void pni_open_access(lua_State *L) {
  lua_pushcfunction(L, l_package);
  lua_setfield(L, -2, "package");
  lua_pushlightuserdata(L, (void *)&handed);
  lua_setfield(L, LUA_REGISTRYINDEX, PNI_ACCESS);
}
