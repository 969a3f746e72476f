/*
** runtime_sandbox.c: what a script inside a runtime finds. Libraries are granted by flags; functions that
** could wait out the limits, or step around them, are replaced. Hooks do not run inside hooks, message
** handlers of errors raised by hooks, and finalizers; hence xpcall, coroutine.wrap, coroutine.close and
** setmetatable below.
*/
#include <string.h>
#include "runtime.h"

static bool grants(lua_State *L, unsigned library) { return (pni_runtime_of(L)->libraries & library) != 0; }
static bool trusts(lua_State *L) { return pni_runtime_trusts(pni_runtime_of(L)); }

void pni_wrap(lua_State *L, const char *name, lua_CFunction f) {
  lua_getfield(L, -1, name);
  lua_pushcclosure(L, f, 1);
  lua_setfield(L, -2, name);
}

static void drop(lua_State *L, const char *name) {
  lua_pushnil(L);
  lua_setfield(L, -2, name);
}

int pni_original(lua_State *L) { return lua_tocfunction(L, lua_upvalueindex(1))(L); }

static int polling(lua_State *L) {
  pni_runtime_poll(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

void pni_push_polling(lua_State *L, int i) {
  lua_pushvalue(L, i);
  lua_pushcclosure(L, polling, 1);
}

/* ---- base ---- */

void pni_runtime_print(lua_State *L, const char *text, size_t length) {
  pn_runtime *rt = pni_runtime_of(L);
  rt->printed += length;
  if (rt->limits.output && rt->printed > rt->limits.output) pni_runtime_trip(L, PN_LIMIT, "output limit reached");
  if (rt->output) rt->output(rt->output_data, text, length);
}

static int l_print(lua_State *L) {
  luaL_Buffer b;
  int n = lua_gettop(L);
  size_t length;
  luaL_buffinit(L, &b);
  for (int i = 1; i <= n; i++) {
    if (i > 1) luaL_addchar(&b, '\t');
    luaL_tolstring(L, i, NULL);
    luaL_addvalue(&b);
  }
  luaL_addchar(&b, '\n');
  luaL_pushresult(&b);
  const char *text = lua_tolstring(L, -1, &length);
  pni_runtime_print(L, text, length);
  return 0;
}

/* The handler of an error that a limit raised would run unwatched: it is passed over. */
static int handle(lua_State *L) {
  if (pni_runtime_of(L)->tripped) return 1;
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

static int l_xpcall(lua_State *L) {
  if (lua_isfunction(L, 2)) {
    lua_pushvalue(L, 2);
    lua_pushcclosure(L, handle, 1);
    lua_replace(L, 2);
  }
  return pni_original(L);
}

static int l_loadfile(lua_State *L) {
  const char *mode = luaL_optstring(L, 2, "bt");
  bool text = strchr(mode, 't') != NULL;
  if (lua_gettop(L) < 2) lua_settop(L, 2);
  lua_pushstring(L, text ? "t" : "");
  lua_replace(L, 2);
  return pni_original(L);
}

static int l_dofile(lua_State *L) {
  const char *path = pni_check_text(L, 1, "dofile", "path");
  lua_settop(L, 1);
  if (luaL_loadfilex(L, path, "t") != LUA_OK) return lua_error(L);
  lua_call(L, 0, LUA_MULTRET);
  return lua_gettop(L) - 1;
}

static int l_setmetatable(lua_State *L) {
  if (lua_istable(L, 2)) {
    lua_pushliteral(L, "__gc");
    if (lua_rawget(L, 2) != LUA_TNIL)
      return luaL_error(L, "setmetatable: finalizers (__gc) are not available here; use __close");
    lua_pop(L, 1);
  }
  return pni_original(L);
}

static int l_collectgarbage(lua_State *L) {
  pni_runtime_poll(L, PNI_INTERVAL);
  return pni_original(L);
}

void pni_guard_base(lua_State *L) {
  lua_pushcfunction(L, l_print);
  lua_setfield(L, -2, "print");
  pni_wrap(L, "xpcall", l_xpcall);
  pni_guard_load(L);
  pni_guard_number(L);
  pni_wrap(L, "collectgarbage", l_collectgarbage);
  if (!grants(L, PN_LIB_FINALIZERS)) pni_wrap(L, "setmetatable", l_setmetatable);
  if (!trusts(L)) {
    pni_set_loaders(L);
  } else {
    pni_wrap(L, "loadfile", l_loadfile);
    lua_pushcfunction(L, l_dofile);
    lua_setfield(L, -2, "dofile");
  }
}

/* ---- coroutines ---- */

/* A short coroutine ends before its hook counts: each start costs an interval. */
static int l_resume(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  pni_runtime_poll(L, PNI_INTERVAL);
  if (co) pni_runtime_of(L)->current = co;
  int n = pni_original(L);
  pni_runtime_of(L)->current = L;
  pni_runtime_pass_on(L);
  return n;
}

/* A thread that a limit ended inside a hook keeps its hooks switched off; its to-be-closed variables are
 * given up. (Only there the count is 1.) */
static bool is_stopped(lua_State *L, lua_State *co) {
  (void)L;
  return lua_status(co) > LUA_YIELD && lua_gethookcount(co) == 1;
}

static int l_close(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  pni_runtime_poll(L, PNI_INTERVAL);
  if (co && is_stopped(L, co)) {
    lua_pushboolean(L, 0);
    lua_pushliteral(L, "coroutine was stopped by a limit");
    return 2;
  }
  if (co) pni_runtime_of(L)->current = co;
  int n = pni_original(L);
  pni_runtime_of(L)->current = L;
  pni_runtime_pass_on(L);
  return n;
}

/* Raises the error value on top of co as the caller's own, with the caller's position before a string. */
static int propagate(lua_State *L, lua_State *co, int status) {
  if (status > LUA_YIELD && !is_stopped(L, co)) {
    pni_runtime_of(L)->current = co;
    int closed = lua_resetthread(co);
    pni_runtime_of(L)->current = L;
    if (closed == LUA_OK) return luaL_error(L, "coroutine failed");
  }
  pni_runtime_pass_on(L);
  lua_xmove(co, L, 1);
  if (lua_type(L, -1) == LUA_TSTRING && status != LUA_ERRMEM) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

static int step(lua_State *L) {
  lua_State *co = lua_tothread(L, lua_upvalueindex(1));
  int n = lua_gettop(L), results = 0;
  pni_runtime_poll(L, PNI_INTERVAL);
  int before = lua_status(co);
  if ((before == LUA_OK && lua_gettop(co) == 0) || before > LUA_YIELD)
    return luaL_error(L, "cannot resume dead coroutine");
  if (!lua_checkstack(co, n + 1)) return luaL_error(L, "too many arguments to resume");
  lua_xmove(L, co, n);
  pni_runtime_of(L)->current = co;
  int status = lua_resume(co, L, n, &results);
  pni_runtime_of(L)->current = L;
  if (status > LUA_YIELD) return propagate(L, co, lua_status(co));
  if (!lua_checkstack(L, results + 1)) {
    lua_pop(co, results);
    return luaL_error(L, "too many results to resume");
  }
  lua_xmove(co, L, results);
  return results;
}

static int l_wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, step, 1);
  return 1;
}

void pni_guard_coroutine(lua_State *L) {
  pni_wrap(L, "resume", l_resume);
  pni_wrap(L, "close", l_close);
  lua_pushcfunction(L, l_wrap);
  lua_setfield(L, -2, "wrap");
}

/* ---- opening ---- */

static int l_refuse_limit(lua_State *L) { return luaL_error(L, "memory_limit: the host sets the limits"); }

/* threads(): asking is free, setting is the host's. */
static int l_threads(lua_State *L) {
  lua_pushinteger(L, pn_context_threads(pni_lua_context(L), 0));
  return 1;
}

static int open_core(lua_State *L) {
  luaopen_penumbra_core(L);
  lua_pushcfunction(L, l_refuse_limit);
  lua_setfield(L, -2, "memory_limit");
  lua_pushcfunction(L, l_threads);
  lua_setfield(L, -2, "threads");
  drop(L, "reset_peak");                                              /* the host reads the peak of all calls */
  if (!grants(L, PN_LIB_FILES | PN_LIB_TRUSTED_IO)) drop(L, "files"); /* the context refuses as well */
  return 1;
}

/* The loader of a module of Penumbra's own: upvalue 1 is its name, whatever it is called with. */
static int load_own(lua_State *L) {
  pni_require_own(L, lua_tostring(L, lua_upvalueindex(1)));
  return 1;
}

/* A searcher for Penumbra's own modules. What they are made of is for trusted scripts. */
static int search(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  bool core = strcmp(name, "penumbra.core") == 0;
  if (!core && !pni_embedded(name)) {
    lua_pushfstring(L, "no embedded module '%s'", name);
    return 1;
  }
  if (!grants(L, PN_LIB_PACKAGE) && (core || !pni_embedded_public(name)))
    return pni_error(L, "require: '%s' is an inner part of Penumbra, which scripts reach by require 'penumbra' alone",
                     name);
  lua_settop(L, 1);
  lua_pushcclosure(L, load_own, 1);
  lua_pushliteral(L, ":embedded:");
  return 2;
}

/* A searcher: messages of a module that is not there repeat its name for each place where it was looked for. */
static int refuse_long(lua_State *L) {
  enum { LONGEST_NAME = 1024 };
  size_t n;
  luaL_checklstring(L, 1, &n);
  return n > LONGEST_NAME ? luaL_error(L, "name of a module longer than 1024 bytes") : 0;
}

/* Copies fields named in `names` from the table below the top to the one on top. */
static void copy_fields(lua_State *L, const char *const *names) {
  for (int i = 0; names[i]; i++) {
    lua_getfield(L, -2, names[i]);
    lua_setfield(L, -2, names[i]);
  }
}

/* The time of strftime is that of the format, a hundredfold. */
static int l_date(lua_State *L) {
  enum { LONGEST_FORMAT = 1024 };
  size_t n;
  luaL_optlstring(L, 1, "%c", &n);
  luaL_argcheck(L, n <= LONGEST_FORMAT, 1, "format longer than 1024 bytes");
  pni_runtime_charge(L, 64 * n);
  return pni_original(L);
}

static void open_os(lua_State *L) {
  static const char *const time[] = {"time", "clock", "date", "difftime", NULL};
  static const char *const files[] = {"remove", "rename", "tmpname", NULL};
  static const char *const process[] = {"execute", "getenv", NULL};
  lua_pushcfunction(L, luaopen_os);
  lua_call(L, 0, 1);
  lua_newtable(L);
  if (grants(L, PN_LIB_TIME)) {
    copy_fields(L, time);
    pni_wrap(L, "date", l_date);
  }
  if (trusts(L)) copy_fields(L, files);
  if (!trusts(L)) pni_set_os_files(L);
  if (grants(L, PN_LIB_OS)) copy_fields(L, process);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "os");
  lua_pop(L, 1);
  lua_setglobal(L, "os");
  lua_pop(L, 1);
}

/* require and package: stock when granted, else from memory alone. Penumbra's modules do without both. */
static void open_package(lua_State *L) {
  luaL_requiref(L, LUA_LOADLIBNAME, luaopen_package, 1);
  lua_getfield(L, -1, "searchers");
  lua_Integer stock = (lua_Integer)lua_rawlen(L, -1);
  for (lua_Integer i = stock; i > 1; i--) { /* long names, preload, embedded, then the others */
    if (grants(L, PN_LIB_PACKAGE)) {
      lua_rawgeti(L, -1, i);
      lua_rawseti(L, -2, i + 2);
    }
    lua_pushnil(L);
    lua_rawseti(L, -2, i);
  }
  lua_rawgeti(L, -1, 1);
  lua_rawseti(L, -2, 2);
  lua_pushcfunction(L, refuse_long);
  lua_rawseti(L, -2, 1);
  lua_pushcfunction(L, search);
  lua_rawseti(L, -2, 3);
  if (!grants(L, PN_LIB_PACKAGE) && grants(L, PN_LIB_FILES)) {
    lua_pushcfunction(L, pni_search_root);
    lua_rawseti(L, -2, 4);
  }
  lua_pop(L, 1);
  if (!grants(L, PN_LIB_PACKAGE)) {
    drop(L, "loadlib");
    drop(L, "searchpath");
    lua_pushliteral(L, "");
    lua_setfield(L, -2, "path");
    lua_pushliteral(L, "");
    lua_setfield(L, -2, "cpath");
  }
  lua_pop(L, 1);
}

static const struct {
  unsigned flag;
  const char *name;
  lua_CFunction open;
  void (*guard)(lua_State *L);
} libraries[] = {{PN_LIB_BASE, LUA_GNAME, luaopen_base, pni_guard_base},
                 {PN_LIB_STRING, LUA_STRLIBNAME, luaopen_string, pni_guard_string},
                 {PN_LIB_TABLE, LUA_TABLIBNAME, luaopen_table, pni_guard_table},
                 {PN_LIB_MATH, LUA_MATHLIBNAME, luaopen_math, NULL},
                 {PN_LIB_UTF8, LUA_UTF8LIBNAME, luaopen_utf8, pni_guard_utf8},
                 {PN_LIB_COROUTINE, LUA_COLIBNAME, luaopen_coroutine, pni_guard_coroutine},
                 {PN_LIB_FILES, LUA_IOLIBNAME, pni_open_io, NULL},
                 {PN_LIB_TRUSTED_IO, LUA_IOLIBNAME, luaopen_io, NULL},
                 {PN_LIB_DEBUG, LUA_DBLIBNAME, luaopen_debug, NULL}};

int pni_runtime_open(lua_State *L) {
  pn_runtime *rt = pni_runtime_of(L);
  for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
    if (!grants(L, libraries[i].flag) || (libraries[i].open == pni_open_io && trusts(L))) continue;
    luaL_requiref(L, libraries[i].name, libraries[i].open, 1);
    if (libraries[i].guard) libraries[i].guard(L);
    lua_pop(L, 1);
  }
  if (trusts(L) && !grants(L, PN_LIB_OS)) {
    lua_getglobal(L, LUA_IOLIBNAME);
    drop(L, "popen");
    lua_pop(L, 1);
  }
  if (grants(L, PN_LIB_TIME | PN_LIB_FILES | PN_LIB_OS | PN_LIB_TRUSTED_IO)) open_os(L);
  pni_lua_set_context(L, rt->c);
  pni_lua_state(L)->poll = pni_runtime_poll;
  pni_lua_state(L)->trip = pni_runtime_trip;
  /* the class of tensors must be there for arrays to come in; the module itself is only for Penumbra's own */
  lua_pushcfunction(L, open_core);
  lua_call(L, 0, 1);
  if (grants(L, PN_LIB_PENUMBRA | PN_LIB_PACKAGE)) {
    pni_open_own(L);
    open_package(L);
  }
  lua_getfield(L, -1, "tensor");
  lua_setfield(L, LUA_REGISTRYINDEX, "penumbra.runtime.tensor");
  return 0;
}
