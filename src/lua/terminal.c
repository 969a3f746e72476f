/*
** terminal.c: what progress lines and the REPL must know about the outside: is a file a terminal, how
** wide is it, what time is it.
*/
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "../base/context.h"
#include "penumbra_lua.h"

/* terminal(file) -> columns if the file is a terminal, else nil */
static int l_terminal(lua_State *L) {
  luaL_Stream *s = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  int fd = s->closef ? fileno(s->f) : -1;
  if (fd < 0 || !isatty(fd)) return 0;
  struct winsize size;
  int columns = 80;
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) columns = size.ws_col;
  lua_pushinteger(L, columns);
  return 1;
}

/* clock() -> seconds of a clock that never goes back, as a float */
static int l_clock(lua_State *L) {
  lua_pushnumber(L, (lua_Number)pni_now() * 1e-9);
  return 1;
}

void pni_open_terminal(lua_State *L) {
  static const luaL_Reg functions[] = {{"terminal", l_terminal}, {"clock", l_clock}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
