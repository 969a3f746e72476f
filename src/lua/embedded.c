/*
** embedded.c: the Lua modules that came with the library. embed.lua packs them when the library is made; each is
** inflated when it is asked for.
*/
#include <string.h>
#include "../file/file.h"
#include "penumbra_lua.h"

/* Made by embed.lua: the text of lua/ as gzip. */
extern const struct pni_module {
  const char *name;
  const unsigned char *packed;
  unsigned packed_size, size;
} pni_modules[];

static const struct pni_module *find(const char *name) {
  for (const struct pni_module *m = pni_modules; m->name; m++)
    if (strcmp(m->name, name) == 0) return m;
  return NULL;
}

bool pni_embedded(const char *name) { return find(name) != NULL; }

/* Pushes the module's text. */
static void push_text(lua_State *L, const struct pni_module *m) {
  luaL_Buffer b;
  char *text = luaL_buffinitsize(L, &b, m->size);
  pn_context *c = pni_lua_context(L);
  z_stream z;
  pni_zlib_memory(&z, c);
  if (inflateInit2(&z, 15 + 16) != Z_OK) pni_raise(L, c);
  z.next_in = (unsigned char *)(uintptr_t)m->packed;
  z.avail_in = m->packed_size;
  z.next_out = (unsigned char *)text;
  z.avail_out = m->size;
  int status = inflate(&z, Z_FINISH);
  inflateEnd(&z);
  if (status != Z_STREAM_END) luaL_error(L, "module '%s' is damaged", m->name);
  luaL_pushresultsize(&b, m->size);
}

/* source(name) -> the text of an embedded module, or nil */
static int l_source(lua_State *L) {
  const struct pni_module *m = find(luaL_checkstring(L, 1));
  if (!m) return 0;
  push_text(L, m);
  return 1;
}

/* modules() -> the names of the embedded modules */
static int l_modules(lua_State *L) {
  lua_newtable(L);
  for (const struct pni_module *m = pni_modules; m->name; m++) {
    lua_pushstring(L, m->name);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  }
  return 1;
}

bool pni_push_embedded(lua_State *L, const char *name) {
  const struct pni_module *m = find(name);
  if (!m) return false;
  push_text(L, m);
  lua_pushfstring(L, "=%s", name);
  int status = luaL_loadbufferx(L, lua_tostring(L, -2), m->size, lua_tostring(L, -1), "t");
  lua_replace(L, -3);
  lua_pop(L, 1);
  if (status != LUA_OK) lua_error(L);
  return true;
}

void pni_open_embedded(lua_State *L) {
  lua_pushcfunction(L, l_source);
  lua_setfield(L, -2, "source");
  lua_pushcfunction(L, l_modules);
  lua_setfield(L, -2, "modules");
}
