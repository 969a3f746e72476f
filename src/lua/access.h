/*
** access.h: what a module in C beside penumbra.core (src/mpi) may do with tensors. Symbols of core.so are not seen by
** other modules of an interpreter, so they are handed over: the registry's field PNI_ACCESS is the address of one
** constant table of functions.
*/
#ifndef PN_LUA_ACCESS_H
#define PN_LUA_ACCESS_H

#include <lua.h>
#include <stdbool.h>
#include "../penumbra.h"

#define PNI_ACCESS "penumbra.access"

/* A tensor's type and shape, and its elements, row-major. */
typedef struct pni_elements {
  int dtype, ndim; /* pn_dtype */
  int64_t numel, shape[PN_MAX_DIMS];
  size_t bytes;
  const void *data;
} pni_elements;

typedef struct pni_access {
  size_t size;         /* of this struct: */
  const char *version; /* both as the module was compiled, else they do not belong together */
  /* The elements of the tensor at stack index i, the argument `role` of the function `where`; a contiguous copy takes
   * its place on the stack if it is a strided view. The data live as long as the stack holds it. Raises. */
  void (*look)(lua_State *L, int i, const char *where, const char *role, pni_elements *out);
  /* Pushes a tensor of the dtype, ndim and shape of `spec`, fills in the rest of it and returns where its elements are
   * to be written before any other function is called. Raises. */
  void *(*make)(lua_State *L, pni_elements *spec);
  /* Raises `message` (and what) at the script's line. */
  int (*error)(lua_State *L, const char *format, ...);
  /* Has somebody cancelled, or has the deadline passed? */
  bool (*is_over)(lua_State *L);
  /* Raises if so. */
  void (*poll)(lua_State *L);
  /* Raises within a capture: the function `where` has an effect that a plan does not repeat. */
  void (*refuse_capture)(lua_State *L, const char *where);
} pni_access;

#endif
