/*
** object.h: objects that scripts hold, and data that they hand in: object.c has the rules.
*/
#ifndef PN_LUA_OBJECT_H
#define PN_LUA_OBJECT_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>

/* A kind of userdata; its address is the key of its metatable in the registry. */
typedef struct pni_object_type {
  const char *metatable; /* its name: "penumbra.tensor" */
  const char *noun;      /* "a tensor" */
  size_t size;
  int values;  /* user values */
  bool closes; /* scripts may give it up early */
  /* Gives up what the object holds and leaves it empty; an empty one may come again. */
  void (*release)(void *object);
} pni_object_type;

/* Pushes the metatable, made for the first time, with __gc, __metatable and, if scripts may close it, __close. */
void pni_new_kind(lua_State *L, const pni_object_type *kind);
/* Adds `close` to the table of methods on the stack top. */
void pni_add_close(lua_State *L, const pni_object_type *kind);
/* Pushes an object, all zero. */
void *pni_new_object(lua_State *L, const pni_object_type *kind);
/* The object at index i, or NULL. */
void *pni_test_object(lua_State *L, int i, const pni_object_type *kind);
/* Does a script's finaliser run, perhaps in the middle of a call? */
bool pni_in_finaliser(lua_State *L);
/* Raises if one does: for what changes or frees what a call may be working on. */
void pni_refuse_finaliser(lua_State *L, const char *what);
extern const pni_object_type pni_tensor_kind, pni_generator_kind;

/* ---- plain data ---- */

/* Pushes t[name] of the table t at index i, read raw: it stays on the stack, so that a finaliser that changes the
 * table takes nothing away. Returns its type. */
int pni_get_raw(lua_State *L, int i, const char *name);
/* Pushes a copy of the list (of n elements) at index i that no script reaches. */
void pni_copy_list(lua_State *L, int i, lua_Integer n);

#endif
