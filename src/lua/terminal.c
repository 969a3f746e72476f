/*
** terminal.c: what progress lines and the REPL must know about the outside: is a file a terminal, how
** wide is it, what does it say of itself, what time is it.
*/
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include "../base/context.h"
#include "penumbra_lua.h"

/* The descriptor of the terminal at argument i, or -1. */
static int terminal_at(lua_State *L, int i) {
  luaL_Stream *s = luaL_checkudata(L, i, LUA_FILEHANDLE);
  int fd = s->closef ? fileno(s->f) : -1;
  return fd >= 0 && isatty(fd) ? fd : -1;
}

/* terminal(file) -> columns if the file is a terminal, else nil */
static int l_terminal(lua_State *L) {
  int fd = terminal_at(L, 1);
  if (fd < 0) return 0;
  struct winsize size;
  int columns = 80;
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) columns = size.ws_col;
  lua_pushinteger(L, columns);
  return 1;
}

enum { ANSWER_SIZE = 128, ANSWER_WAIT = 300 }; /* milliseconds for each byte */

/* Reads what arrives up to the byte `last`. Returns the length, 0 if nothing ended with it. */
static size_t read_answer(int fd, char *buffer, size_t size, char last) {
  struct pollfd wait = {.fd = fd, .events = POLLIN};
  for (size_t n = 0; n < size; n++) {
    if (poll(&wait, 1, ANSWER_WAIT) <= 0 || read(fd, buffer + n, 1) != 1) return 0;
    if (buffer[n] == last) return n + 1;
  }
  return 0;
}

/* terminal_answer(input, output, query, last) -> what the terminal says to a control sequence, up to the byte `last`;
 * nil if one of the files is no terminal, if it says nothing, or if something typed waits to be read, which must not be
 * taken for the answer. */
static int l_terminal_answer(lua_State *L) {
  int in = terminal_at(L, 1), out = terminal_at(L, 2);
  size_t n = 0, length;
  const char *query = luaL_checklstring(L, 3, &length);
  char last = *luaL_checkstring(L, 4), answer[ANSWER_SIZE];
  struct termios before, raw;
  if (in < 0 || out < 0 || tcgetattr(in, &before) != 0) return 0;
  raw = before;
  raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  if (tcsetattr(in, TCSANOW, &raw) != 0) return 0;
  struct pollfd typed = {.fd = in, .events = POLLIN};
  if (poll(&typed, 1, 0) == 0 && write(out, query, length) == (ssize_t)length)
    n = read_answer(in, answer, sizeof answer, last);
  tcsetattr(in, TCSANOW, &before);
  if (n == 0) return 0;
  lua_pushlstring(L, answer, n);
  return 1;
}

/* clock() -> seconds of a clock that never goes back, as a float */
static int l_clock(lua_State *L) {
  lua_pushnumber(L, (lua_Number)pni_now() * 1e-9);
  return 1;
}

void pni_open_terminal(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"terminal", l_terminal}, {"terminal_answer", l_terminal_answer}, {"clock", l_clock}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
