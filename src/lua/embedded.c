/*
** embedded.c: the Lua modules that came with the library. embed.lua packs them when the library is made; each is
** inflated when it is asked for.
**
** In a runtime they live in a world of their own, so that scripts neither reach nor change what they work with: their
** globals are copies of those that the runtime began with, and their `require` knows all of them and the core. The
** script's own gives it the public ones (runtime_sandbox.c).
*/
#include <string.h>
#include "../file/file.h"
#include "penumbra_lua.h"

/* Made by embed.lua: the text of lua/ as deflate. A line of what help shows stands for each empty line of the code. */
extern const struct pni_pack {
  const unsigned char *at;
  unsigned packed, size;
} pni_packs[];
extern const struct pni_module {
  const char *name;
  unsigned at, help_at, size;
  unsigned char code, help, public;
} pni_modules[];
extern const unsigned pni_module_count;

/* (Each function on the way of an error asks: pni_is_ours.) */
static const struct pni_module *find(const char *name) {
  unsigned first = 0, end = pni_module_count;
  while (first < end) {
    unsigned middle = first + (end - first) / 2;
    int order = strcmp(name, pni_modules[middle].name);
    if (order == 0) return &pni_modules[middle];
    if (order < 0)
      end = middle;
    else
      first = middle + 1;
  }
  return NULL;
}

bool pni_embedded(const char *name) { return find(name) != NULL; }

bool pni_embedded_public(const char *name) {
  const struct pni_module *m = find(name);
  return m && m->public;
}

static const char packs_key = 0; /* in the registry: the packs that are there, until the collector comes */

static void push_packs(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &packs_key) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &packs_key);
}

/* Pushes what the pack holds. */
static const char *push_pack(lua_State *L, int number) {
  push_packs(L);
  if (lua_rawgeti(L, -1, number + 1) == LUA_TNIL) {
    const struct pni_pack *k = &pni_packs[number];
    lua_pop(L, 1);
    unsigned char *text = lua_newuserdatauv(L, k->size, 0);
    pn_context *c = pni_lua_context(L);
    z_stream z;
    pni_zlib_memory(&z, c);
    if (inflateInit2(&z, -15) != Z_OK) pni_raise(L, c);
    z.next_in = (unsigned char *)(uintptr_t)k->at;
    z.avail_in = k->packed;
    z.next_out = text;
    z.avail_out = k->size;
    int status = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    if (status != Z_STREAM_END) luaL_error(L, "the embedded modules are damaged");
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, number + 1);
  }
  lua_remove(L, -2);
  return lua_touserdata(L, -1);
}

static const char *after_line(const char *at) { return strchr(at, '\n') + 1; }

/* source(name) -> the text of an embedded module, or nil */
static int l_source(lua_State *L) {
  const struct pni_module *m = find(luaL_checkstring(L, 1));
  if (!m) return 0;
  const char *at = push_pack(L, m->code) + m->at, *end = at + m->size, *help = push_pack(L, m->help) + m->help_at;
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  while (at < end) {
    const char *next = after_line(at);
    if (*at == '\n') {
      const char *from = help;
      help = after_line(help);
      luaL_addlstring(&b, from, (size_t)(help - from));
    } else {
      luaL_addlstring(&b, at, (size_t)(next - at));
    }
    at = next;
  }
  luaL_pushresult(&b);
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
  const char *text = push_pack(L, m->code) + m->at;
  lua_pushfstring(L, "=%s", name);
  int status = luaL_loadbufferx(L, text, m->size, lua_tostring(L, -1), "t");
  lua_replace(L, -3);
  lua_pop(L, 1);
  if (status != LUA_OK) lua_error(L);
  return true;
}

/* ---- in a runtime ---- */

static const char require_key = 0; /* of own_require in the registry */

/* Upvalues: the modules loaded so far, by name, and their globals. */
static int own_require(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  lua_settop(L, 1);
  lua_pushvalue(L, 1);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  if (!pni_push_embedded(L, name)) return luaL_error(L, "there is no module '%s'", name);
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_setupvalue(L, -2, 1);
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, -2);
  lua_rawset(L, lua_upvalueindex(1));
  return 1;
}

/* Pushes a copy of the table at index t. */
static void push_copy(lua_State *L, int t) {
  lua_newtable(L);
  lua_pushnil(L);
  while (lua_next(L, t)) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -4);
  }
}

/* Pushes a copy of the globals, and of the libraries among them. */
static void push_globals(lua_State *L) {
  lua_pushglobaltable(L);
  int from = lua_gettop(L);
  push_copy(L, from);
  int to = lua_gettop(L);
  lua_pushnil(L);
  while (lua_next(L, from)) {
    if (lua_istable(L, -1)) {
      lua_pushvalue(L, -2);
      if (lua_rawequal(L, -2, from))
        lua_pushvalue(L, to);
      else
        push_copy(L, lua_gettop(L) - 1);
      lua_rawset(L, to);
    }
    lua_pop(L, 1);
  }
  lua_remove(L, from);
}

void pni_open_own(lua_State *L) {
  int core = lua_gettop(L);
  lua_newtable(L);
  lua_pushvalue(L, core);
  lua_setfield(L, -2, "penumbra.core");
  push_globals(L);
  lua_newtable(L);
  lua_pushvalue(L, core + 1);
  lua_setfield(L, -2, "loaded");
  lua_setfield(L, -2, "package");
  lua_pushvalue(L, core + 1);
  lua_pushvalue(L, core + 2);
  lua_pushcclosure(L, own_require, 2);
  lua_pushvalue(L, -1);
  lua_setfield(L, core + 2, "require");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &require_key);
  lua_settop(L, core);
}

void pni_require_own(lua_State *L, const char *name) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &require_key);
  lua_pushstring(L, name);
  lua_call(L, 1, 1);
}

bool pni_push_own(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &require_key) != LUA_TFUNCTION) return lua_pop(L, 1), false;
  lua_getupvalue(L, -1, 1);
  lua_remove(L, -2);
  return true;
}

void pni_open_embedded(lua_State *L) {
  lua_pushcfunction(L, l_source);
  lua_setfield(L, -2, "source");
  lua_pushcfunction(L, l_modules);
  lua_setfield(L, -2, "modules");
}
