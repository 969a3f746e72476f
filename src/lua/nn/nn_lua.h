/* nn_lua.h: what bind_nn.c and bind_optim.c share: reading and pushing the options of rows. */
#ifndef PN_LUA_NN_NN_LUA_H
#define PN_LUA_NN_NN_LUA_H

#include "../../nn/layer.h"
#include "../../nn/optimiser/optimiser.h"
#include "../penumbra_lua.h"

/* Pushes a value as Lua has it: a boolean, a word or a number. */
void pni_push_option_value(lua_State *L, const pni_option *o, double v);
/* Pushes a list of {name, doc, default, choices}. */
void pni_push_options(lua_State *L, const pni_option *rows);
/* Adds " lr:n=0.001 bias:b=true init:w=he" to a buffer: the form of op.h with w for a word. */
void pni_add_option_text(luaL_Buffer *B, lua_State *L, const pni_option *rows);
/* The value at index i as an option; raises on a wrong type. */
void pni_read_option(lua_State *L, const char *where, const pni_option *row, int i, pn_option *out);
enum { PNI_OPTION_MORE = 8 };
/* The option table at index i (nil: none) as a list; `more` names keys (PNI_OPTION_MORE at most) that the caller reads
 * itself. `out` has room for PNI_OPTIONS + 1. Raises on unknown keys and wrong types. */
void pni_read_options(lua_State *L, const char *where, const pni_option *rows, int i, const char *const *more,
                      pn_option *out);

/* The layer at index i; raises if it is none. Borrowed. */
const pn_layer *pni_check_layer(lua_State *L, int i);
/* The optimiser at index i; raises if it is none. Borrowed. */
pn_optim *pni_check_optim(lua_State *L, int i);

#endif
