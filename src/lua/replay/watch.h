/*
** watch.h: what a compiled function sees from outside, as places and the values they had.
*/
#ifndef PN_LUA_REPLAY_WATCH_H
#define PN_LUA_REPLAY_WATCH_H

#include "../nn/nn_lua.h"

/* The user value of a compiled function that is the function itself. */
enum { PNI_COMPILED_FUNCTION = 2 };

/* Is the value at index i a compiled function? */
bool pni_is_compiled(lua_State *L, int i);
/* Pushes what stands for the places that the function at stack index `f` may read. */
void pni_watch_list(lua_State *L, int f);
/* Do all places of those at index `at` hold what they held? Yes if nothing is there. */
bool pni_watch_same(lua_State *L, int at);
/* The first place that holds something else than it did: its name is written, and the name of the type that it held.
 * False if there is none. */
bool pni_watch_first(lua_State *L, int at, char name[80], const char **type);
/* Does a place that held a number, boolean or string hold another one? Its name is written. */
bool pni_watch_changed(lua_State *L, int at, char name[80]);
/* Did a place hold a tensor that the capture that goes on has computed? Its name is written. */
bool pni_watch_holds_result(lua_State *L, int at, char name[80]);

#endif
