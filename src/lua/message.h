/*
** message.h: what the files that word errors share: the place and the name that are told, the nearest of known names,
** the last failure.
*/
#ifndef PN_LUA_MESSAGE_H
#define PN_LUA_MESSAGE_H

#include "penumbra_lua.h"

/* ---- place and name: public.c ---- */

/* Pushes "script:line: " of the innermost Lua function that is not the module's own; "" if there is none. */
void pni_push_where(lua_State *L);
/* Pushes the message, which names the public function that the script called. */
void pni_push_named(lua_State *L, const char *message);
/* The name of the function at index f in a namespace or a table of methods, `called` if it is one of several. *kind:
 * is it a method of objects of many kinds (distributions, layers...), whose errors begin with the kind? */
bool pni_find_member(lua_State *L, int f, const char *called, char *name, size_t size, bool *kind);
/* What pni_find_member knows is gathered anew at the next error: a namespace has changed. */
void pni_forget_members(lua_State *L);
/* The functions of the table at index t that are written in Lua become what scripts call. */
void pni_publish(lua_State *L, int t);

/* ---- names that are not there ---- */

/* Raises for the key at index 2, that `what` has no such method or field: in an __index whose first upvalue is the
 * table of methods. more: further names, NULL-terminated, or NULL. */
int pni_no_such(lua_State *L, const char *what, const char *const *more);
/* Missing keys of the table of methods on the stack top raise so; it is the __index of objects called `what`. */
void pni_guard_methods(lua_State *L, const char *what);
/* Fields of the table at index `table` may be suggested as label.name; `names`: index of a list of more, or 0. */
void pni_add_space(lua_State *L, const char *label, int table, int names);

/* ---- nearest names: missing.c ---- */

/* The nearest of the names offered; "" if none is near enough to be a slip of the hand. */
typedef struct pni_near {
  const char *wanted;
  int limit, distance;
  char name[64];
} pni_near;

void pni_near_begin(pni_near *near, const char *wanted);
void pni_near_offer(pni_near *near, const char *name);
/* Pushes ", did you mean 'x'?" or "". */
void pni_push_nearest(lua_State *L, const pni_near *near);
/* Pushes the message of an error, which says more if it is about a name that was not there. */
void pni_push_explained(lua_State *L, const char *message);

/* ---- failures that were returned: failure.c ---- */

/* Notes that the script is given a failure. */
void pni_note_failure(lua_State *L, const char *message);
/* Pushes the message and, if it is about a nil, the last failure. */
void pni_push_with_failure(lua_State *L, const char *message);
/* The same, if that failure arose at the same place `where`. */
void pni_push_with_own_failure(lua_State *L, const char *where, const char *message);

#endif
