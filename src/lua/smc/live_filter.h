/*
** live_filter.h: filters online as hosts find them in a script's globals.
*/
#ifndef PN_LUA_SMC_LIVE_FILTER_H
#define PN_LUA_SMC_LIVE_FILTER_H

#include "../penumbra_lua.h"

/* The filter at index i, or NULL. Borrowed. */
const pn_filter *pni_test_filter(lua_State *L, int i);

#endif
