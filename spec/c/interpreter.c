/*
** interpreter.c: the smallest `lua script args` and `lua -e chunk args`, for running the specs in a sanitised process.
** Closes its state before it ends, so that what is left is a leak.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int traceback(lua_State *L) {
  luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
  return 1;
}

static int run(lua_State *L, int argc, char **argv) {
  bool text = strcmp(argv[1], "-e") == 0 && argc > 2;
  if (text) argv++, argc--;
  lua_createtable(L, argc, 1);
  for (int i = 0; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i - 1);
  }
  lua_setglobal(L, "arg");
  lua_pushcfunction(L, traceback);
  int status = text ? luaL_loadstring(L, argv[1]) : luaL_loadfile(L, argv[1]);
  for (int i = 2; status == LUA_OK && i < argc; i++) lua_pushstring(L, argv[i]);
  if (status == LUA_OK) status = lua_pcall(L, argc - 2, 0, 1);
  if (status != LUA_OK) fprintf(stderr, "%s\n", lua_tostring(L, -1));
  return status;
}

int main(int argc, char **argv) {
  lua_State *L = luaL_newstate();
  if (!L || argc < 2) return 1;
  luaL_openlibs(L);
  int status = run(L, argc, argv);
  lua_close(L);
  return status != LUA_OK;
}
