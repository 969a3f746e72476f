/*
** inner.h: for tests that try in a sandbox what no script reaches there.
*/
#ifndef PN_SPEC_INNER_H
#define PN_SPEC_INNER_H

#include "../../src/lua/runtime/runtime.h"

/* From now on scripts have `require "penumbra.core"`. */
static inline void give_core(pn_runtime *rt) {
  luaL_getsubtable(rt->L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  pni_require_own(rt->L, "penumbra.core");
  lua_setfield(rt->L, -2, "penumbra.core");
  lua_settop(rt->L, 0);
}

#endif
