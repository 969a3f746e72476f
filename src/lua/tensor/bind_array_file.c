/*
** bind_array_file.c: arrays that stay in their files. They have the methods by which rows are asked of a tensor, so
** that loops over rows take either.
*/
#include <string.h>
#include "../message.h"
#include "../penumbra_lua.h"

typedef struct {
  pn_array_file *file;
  int dtype; /* of what is read */
} box;

static void release(void *object) {
  box *b = object;
  pn_array_close(b->file);
  b->file = NULL;
}

static const pni_object_type kind = {"penumbra.array_file", "an array in a file", sizeof(box), 0, true, release};

static box *self_of(lua_State *L) {
  box *b = pni_test_object(L, 1, &kind);
  if (!b) pni_error(L, "methods of arrays in files are called with a colon, as in a:size(1)");
  if (!b->file) pni_error(L, "the array in a file is closed");
  return b;
}

/* open(path, name or nil, dtype or nil) */
static int l_open(lua_State *L) {
  lua_settop(L, 3);
  const char *path = pni_check_text(L, 1, "open", "path");
  const char *name = pni_check_optional_text(L, 2, "open", "name", NULL);
  pn_context *c = pni_lua_context(L);
  box *b = pni_new_object(L, &kind);
  b->file = pn_array_open(c, path, name);
  if (!b->file) return pni_push_failure(L, c);
  b->dtype = (int)pni_check_dtype(L, 3, "open", pn_array_dtype(b->file));
  return 1;
}

static int l_ndim(lua_State *L) {
  lua_pushinteger(L, pn_array_ndim(self_of(L)->file));
  return 1;
}

static int l_shape(lua_State *L) {
  const pn_array_file *f = self_of(L)->file;
  int n = pn_array_ndim(f);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushinteger(L, pn_array_shape(f)[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int l_size(lua_State *L) {
  const pn_array_file *f = self_of(L)->file;
  int64_t axis = pni_check_whole(L, 2, "size", "axis"), n = pn_array_ndim(f);
  if (axis < 0) axis += n + 1;
  if (axis < 1 || axis > n) return pni_error(L, "size: axis must lie in 1 to %d, got %d", (int)n, (int)axis);
  lua_pushinteger(L, pn_array_shape(f)[axis - 1]);
  return 1;
}

static int l_dtype(lua_State *L) {
  lua_pushstring(L, pn_dtype_name((pn_dtype)self_of(L)->dtype));
  return 1;
}

static int l_type(lua_State *L) {
  lua_pushstring(L, pn_array_type(self_of(L)->file));
  return 1;
}

static void check_first_axis(lua_State *L, const char *where) {
  if (pni_check_whole(L, 2, where, "axis") != 1)
    pni_error(L, "%s: axis must be 1, since an array in a file is read by rows", where);
}

/* a:slice(1, first, last): rows from 1, as those of tensors */
static int l_slice(lua_State *L) {
  const box *b = self_of(L);
  check_first_axis(L, "slice");
  int64_t n = pn_array_shape(b->file)[0];
  int64_t first = pni_check_whole(L, 3, "slice", "first"), last = pni_check_whole(L, 4, "slice", "last");
  first += first < 0 ? n + 1 : 0;
  last += last < 0 ? n + 1 : 0;
  if (first < 1 || last > n || last < first - 1)
    return pni_error(L, "slice: rows must lie in 1 to %I, got %I to %I", (LUAI_UACINT)n, (LUAI_UACINT)first,
                     (LUAI_UACINT)last);
  PNI_RETURN(L, pni_lua_context(L),
             pn_array_rows(pni_lua_context(L), b->file, first - 1, last - first + 1, (pn_dtype)b->dtype));
}

/* a:take(1, index) */
static int l_take(lua_State *L) {
  const box *b = self_of(L);
  check_first_axis(L, "take");
  const pn_tensor *index = pni_check_tensor(L, 3);
  PNI_RETURN(L, pni_lua_context(L), pn_array_take(pni_lua_context(L), b->file, index, (pn_dtype)b->dtype));
}

static int l_tostring(lua_State *L) {
  const box *b = pni_test_object(L, 1, &kind);
  if (!b || !b->file) {
    lua_pushliteral(L, "a closed array in a file");
    return 1;
  }
  luaL_Buffer text;
  luaL_buffinit(L, &text);
  luaL_addstring(&text, pn_array_type(b->file));
  luaL_addstring(&text, " [");
  for (int i = 0; i < pn_array_ndim(b->file); i++) {
    lua_pushfstring(L, i ? ", %I" : "%I", (LUAI_UACINT)pn_array_shape(b->file)[i]);
    luaL_addvalue(&text);
  }
  luaL_addstring(&text, "] in a file, read as ");
  luaL_addstring(&text, pn_dtype_name((pn_dtype)b->dtype));
  luaL_pushresult(&text);
  return 1;
}

static const luaL_Reg methods[] = {{"ndim", l_ndim}, {"shape", l_shape}, {"size", l_size}, {"dtype", l_dtype},
                                   {"type", l_type}, {"slice", l_slice}, {"take", l_take}, {NULL, NULL}};

void pni_open_array_file(lua_State *L) {
  pni_new_kind(L, &kind);
  lua_pushcfunction(L, l_tostring);
  lua_setfield(L, -2, "__tostring");
  luaL_newlib(L, methods);
  pni_add_close(L, &kind);
  pni_guard_methods(L, "an array in a file");
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  lua_pushliteral(L, "files");
  if (lua_rawget(L, -2) == LUA_TTABLE) {
    lua_pushcfunction(L, l_open);
    lua_setfield(L, -2, "open");
  }
  lua_pop(L, 1);
}
