/*
** module_path.c: modules in C that came with the command are found wherever it was put: what stands beside it, in the
** folder it was built in or below the prefix it was installed in, comes last in package.cpath.
*/
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <unistd.h>
#include "cli.h"

void cli_add_module_path(lua_State *L) {
  char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  path[n > 0 ? n : 0] = '\0';
  char *slash = strrchr(path, '/');
  if (!slash) return;
  *slash = '\0';
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "cpath");
  lua_pushfstring(L, "%s;%s/lua/?.so;%s/../lib/lua/5.4/?.so", lua_tostring(L, -1), path, path);
  lua_setfield(L, -3, "cpath");
  lua_pop(L, 2);
}
