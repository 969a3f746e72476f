/*
** object.c: the userdata through which scripts hold what C made: one maker, one finaliser, one close for every kind.
**
** Lua code may run in the middle of a binding function in one way only: a script's finaliser, when something is
** allocated. (Options are plain data and read raw, and no metamethod is called while a C pointer is held: spec/gates/
** raw.lua.) So what a call works on stays valid until it returns if
**   - every object of it lies on the Lua stack, where no finaliser reaches it, and not only in a script's table, and
**   - a finaliser can neither close nor change anything: pni_in_finaliser is asked by the one `close` below, which then
**     leaves the object to the collector, and pni_refuse_finaliser by what changes parameters, optimisers and plans.
*/
#include <string.h>
#include "penumbra_lua.h"

bool pni_in_finaliser(lua_State *L) {
  int running = lua_gc(L, LUA_GCISRUNNING, 0);
#if LUA_VERSION_RELEASE_NUM >= 50404
  return running < 0; /* no request to the collector is valid within a finaliser */
#else
  return running <= 0; /* the collector is stopped within a finaliser (or by the script) */
#endif
}

void pni_refuse_finaliser(lua_State *L, const char *what) {
  if (pni_in_finaliser(L)) pni_error(L, "%s: is not possible within a finaliser (__gc)", what);
}

void *pni_test_object(lua_State *L, int i, const pni_object_type *kind) {
  if (lua_type(L, i) != LUA_TUSERDATA || !lua_getmetatable(L, i)) return NULL;
  lua_rawgetp(L, LUA_REGISTRYINDEX, kind);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same ? lua_touserdata(L, i) : NULL;
}

void *pni_new_object(lua_State *L, const pni_object_type *kind) {
  if (kind != &pni_tensor_kind) pni_make_room(L); /* tensors are told when they are there */
  void *object = lua_newuserdatauv(L, kind->size, kind->values);
  memset(object, 0, kind->size);
  lua_rawgetp(L, LUA_REGISTRYINDEX, kind);
  lua_setmetatable(L, -2);
  return object;
}

static const pni_object_type *kind_of(lua_State *L) { return lua_touserdata(L, lua_upvalueindex(1)); }

/* (After the context's end nothing is left to release.) */
static int l_gc(lua_State *L) {
  void *object = pni_test_object(L, 1, kind_of(L));
  const pni_state *s = pni_lua_state(L);
  if (object && !(s && s->closed)) kind_of(L)->release(object);
  return 0;
}

static int l_close(lua_State *L) {
  const pni_object_type *kind = kind_of(L);
  void *object = pni_test_object(L, 1, kind);
  if (!object) return pni_error(L, "close: must be called on %s, got %s", kind->noun, pni_type_name(L, 1));
  if (!pni_in_finaliser(L)) kind->release(object);
  return 0;
}

static void push_function(lua_State *L, const pni_object_type *kind, lua_CFunction f) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)kind);
  lua_pushcclosure(L, f, 1);
}

void pni_new_kind(lua_State *L, const pni_object_type *kind) {
  luaL_newmetatable(L, kind->metatable);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, kind);
  push_function(L, kind, l_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushstring(L, kind->metatable);
  lua_setfield(L, -2, "__metatable");
  if (!kind->closes) return;
  push_function(L, kind, l_close);
  lua_setfield(L, -2, "__close");
}

void pni_add_close(lua_State *L, const pni_object_type *kind) {
  push_function(L, kind, l_close);
  lua_setfield(L, -2, "close");
}

/* ---- plain data ---- */

int pni_get_raw(lua_State *L, int i, const char *name) {
  i = lua_absindex(L, i);
  lua_pushstring(L, name);
  return lua_rawget(L, i);
}

void pni_copy_list(lua_State *L, int i, lua_Integer n) {
  i = lua_absindex(L, i);
  lua_createtable(L, n < 1 << 24 ? (int)n : 0, 0);
  for (lua_Integer k = 1; k <= n; k++) {
    lua_rawgeti(L, i, k);
    lua_rawseti(L, -2, k);
  }
}
