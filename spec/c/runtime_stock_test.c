/*
** runtime_stock_test.c: where a runtime replaces functions of Lua's libraries, results and messages stay
** those of stock Lua. One script runs under both; what it prints must be the same.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdlib.h>

#include "check.h"

static const char path[] = "spec/c/runtime_stock.lua";

typedef struct {
  char *text;
  size_t n;
} sink;

static void collect(void *data, const char *text, size_t length) {
  sink *s = data;
  char *p = realloc(s->text, s->n + length + 1);
  if (!p) return;
  memcpy(p + s->n, text, length);
  s->text = p;
  s->n += length;
  p[s->n] = '\0';
}

static int print_to(lua_State *L) {
  size_t n;
  const char *text = luaL_tolstring(L, 1, &n);
  collect(lua_touserdata(L, lua_upvalueindex(1)), text, n);
  collect(lua_touserdata(L, lua_upvalueindex(1)), "\n", 1);
  return 0;
}

int main(void) {
  sink stock = {0}, ours = {0};
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  lua_pushlightuserdata(L, &stock);
  lua_pushcclosure(L, print_to, 1);
  lua_setglobal(L, "print");
  CHECK(luaL_dofile(L, path) == LUA_OK);
  lua_close(L);

  pn_runtime_config cfg = {.output = collect, .output_data = &ours};
  pn_runtime *rt = NULL;
  CHECK_INT(pn_runtime_new(&cfg, &rt), PN_OK);
  CHECK_INT(pn_runtime_run_file(rt, path), PN_OK);
  CHECK_STR(pn_runtime_message(rt), "");
  pn_runtime_close(rt);

  CHECK(stock.n > 100000 && stock.n == ours.n);
  size_t line = 1, at = 0;
  while (at < stock.n && at < ours.n && stock.text[at] == ours.text[at]) line += stock.text[at++] == '\n';
  if (!check_record(at == stock.n)) printf("first difference in line %zu of the output\n", line);
  free(stock.text);
  free(ours.text);
  CHECK_DONE();
}
