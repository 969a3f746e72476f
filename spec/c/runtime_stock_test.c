/*
** runtime_stock_test.c: where a runtime replaces functions of Lua's libraries, results and messages stay
** those of stock Lua. Scripts run under both; what they print must be the same.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <limits.h>
#include <stdlib.h>

#include "file_fixture.h"

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

/* One script under both, the second time below `root` if that is given; each starts in an empty folder. */
static void compare(const char *path, bool with_files, size_t least) {
  sink stock = {0}, ours = {0};
  char script[PATH_MAX], here[PATH_MAX];
  CHECK(realpath(path, script) && getcwd(here, sizeof here));
  make_folder();
  CHECK(chdir(folder) == 0);
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  lua_pushlightuserdata(L, &stock);
  lua_pushcclosure(L, print_to, 1);
  lua_setglobal(L, "print");
  if (!check_record(luaL_dofile(L, script) == LUA_OK)) printf("stock: %s\n", lua_tostring(L, -1));
  lua_close(L);
  CHECK(chdir(here) == 0);

  pn_runtime_config cfg = {.output = collect, .output_data = &ours, .root_writable = 1};
  if (with_files) cfg.libraries = PN_LIBS_SAFE | PN_LIB_FILES, cfg.root = folder;
  pn_runtime *rt = NULL;
  CHECK_INT(pn_runtime_new(&cfg, &rt), PN_OK);
  CHECK_INT(pn_runtime_run_file(rt, script), PN_OK);
  CHECK_STR(pn_runtime_message(rt), "");
  pn_runtime_close(rt);
  remove_folder(); /* both scripts tidied up */

  CHECK(stock.n > least && stock.n == ours.n);
  size_t line = 1, at = 0;
  while (at < stock.n && at < ours.n && stock.text[at] == ours.text[at]) line += stock.text[at++] == '\n';
  if (!check_record(at == stock.n)) {
    printf("%s: first difference in line %zu of the output\n", path, line);
    printf("stock: %.200s\nours:  %.200s\n", stock.text + (at < 60 ? 0 : at - 60), ours.text + (at < 60 ? 0 : at - 60));
  }
  free(stock.text);
  free(ours.text);
}

int main(void) {
  compare("spec/c/runtime_stock.lua", false, 100000);
  compare("spec/c/io_stock.lua", true, 5000);
  CHECK_DONE();
}
