/*
** embedded.h: the Lua modules that came with the library, and the world of their own that they have in a runtime.
*/
#ifndef PN_LUA_EMBEDDED_H
#define PN_LUA_EMBEDDED_H

#include <lua.h>
#include <stdbool.h>

/* Is there an embedded Lua module `name`? */
bool pni_embedded(const char *name);
/* One that scripts in a runtime may require? */
bool pni_embedded_public(const char *name);
/* Makes an embedded module `name` available to require; false if there is none. */
bool pni_push_embedded(lua_State *L, const char *name);
/* From now on embedded modules see globals that are copies of those of now, and a `require` of their own, which knows
 * all of them and, as penumbra.core, the table on the stack top. */
void pni_open_own(lua_State *L);
/* Pushes the value of a module that this `require` knows. */
void pni_require_own(lua_State *L, const char *name);
/* Pushes the table of modules that it has loaded; false, and nothing, where there is none. */
bool pni_push_own(lua_State *L);

#endif
