/*
** editline.c: line editing for the REPL on libedit's own interface (its readline imitation keeps
** everything in globals). Lua sees
**   readline(prompt)    a line; nil at end of input; false if interrupted
**   add_history(line)   history_load(path)   history_save(path)
**   complete(f)         f(line up to the cursor) -> list of candidates, number of bytes they replace
**   interrupted()       was there a Ctrl-C since the last call?
** Without a terminal only the last one exists.
*/
#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cli.h"

enum { HISTORY_SIZE = 2000, MAX_SHOWN = 120 };

typedef struct {
  EditLine *el;
  History *history;
  lua_State *L; /* of the running readline */
  const char *prompt;
  int completer; /* registry reference of the function */
} editor;

static char *prompt_of(EditLine *el) {
  editor *e;
  el_get(el, EL_CLIENTDATA, &e);
  return (char *)(uintptr_t)e->prompt;
}

static editor *self(lua_State *L) { return lua_touserdata(L, lua_upvalueindex(1)); }

/* ---- completion ---- */

/* Prints the candidates of the list on the stack top in columns. */
static void show(lua_State *L, lua_Integer n) {
  size_t width = 8;
  for (lua_Integer i = 1; i <= n && i <= MAX_SHOWN; i++) {
    lua_rawgeti(L, -1, i);
    size_t len = lua_rawlen(L, -1);
    width = len + 2 > width ? len + 2 : width;
    lua_pop(L, 1);
  }
  lua_Integer columns = width < 78 ? (lua_Integer)(78 / width) : 1;
  fputc('\n', stdout);
  for (lua_Integer i = 1; i <= n && i <= MAX_SHOWN; i++) {
    lua_rawgeti(L, -1, i);
    const char *s = lua_tostring(L, -1);
    bool last = i % columns == 0 || i == n || i == MAX_SHOWN;
    printf("%-*s%s", last ? 0 : (int)width, s ? s : "?", last ? "\n" : "");
    lua_pop(L, 1);
  }
  if (n > MAX_SHOWN) printf("... %d more\n", (int)(n - MAX_SHOWN));
  fflush(stdout);
}

/* The longest common start of the strings in the list on the stack top, as a length of the first. */
static size_t common(lua_State *L, lua_Integer n, const char *first) {
  size_t len = strlen(first);
  for (lua_Integer i = 2; i <= n; i++) {
    lua_rawgeti(L, -1, i);
    const char *s = lua_tostring(L, -1);
    size_t k = 0;
    while (s && k < len && s[k] == first[k]) k++;
    len = k;
    lua_pop(L, 1);
  }
  return len;
}

/* List and replaced length are on the stack. */
static unsigned char offer(editor *e, lua_State *L) {
  if (!lua_istable(L, -2)) return CC_ERROR;
  size_t replaced = (size_t)lua_tointeger(L, -1);
  lua_pop(L, 1);
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
  lua_rawgeti(L, -1, 1);
  const char *first = lua_tostring(L, -1);
  lua_insert(L, -2); /* keeps `first` alive below the list */
  if (n == 0 || !first) return CC_ERROR;
  size_t len = common(L, n, first);
  if (len > replaced) {
    char text[256];
    size_t added = len - replaced < sizeof text ? len - replaced : sizeof text - 1;
    memcpy(text, first + replaced, added);
    text[added] = '\0';
    return el_insertstr(e->el, text) == -1 ? CC_ERROR : CC_REFRESH;
  }
  if (n == 1) return CC_ERROR;
  show(L, n);
  return CC_REDISPLAY;
}

static unsigned char on_tab(EditLine *el, int key) {
  editor *e;
  (void)key;
  el_get(el, EL_CLIENTDATA, &e);
  lua_State *L = e->L;
  if (e->completer == LUA_NOREF || !lua_checkstack(L, 16)) return CC_ERROR;
  int top = lua_gettop(L);
  const LineInfo *line = el_line(el);
  lua_rawgeti(L, LUA_REGISTRYINDEX, e->completer);
  lua_pushlstring(L, line->buffer, (size_t)(line->cursor - line->buffer));
  unsigned char result = CC_ERROR;
  if (lua_pcall(L, 1, 2, 0) == LUA_OK) result = offer(e, L);
  lua_settop(L, top);
  return result;
}

/* ---- functions ---- */

static int l_readline(lua_State *L) {
  editor *e = self(L);
  int count = 0;
  e->L = L;
  e->prompt = luaL_optstring(L, 1, "> ");
  fflush(stdout);
  errno = 0;
  const char *line = el_gets(e->el, &count);
  int reason = errno;
  if (cli_interrupt_clear(L) || (!line && count < 0 && reason == EINTR)) {
    el_reset(e->el);
    fputc('\n', stdout);
    lua_pushboolean(L, 0);
    return 1;
  }
  if (!line || count <= 0) {
    lua_pushnil(L);
    return 1;
  }
  size_t len = (size_t)count;
  if (line[len - 1] == '\n') len--;
  lua_pushlstring(L, line, len);
  return 1;
}

static int l_add_history(lua_State *L) {
  HistEvent ev;
  history(self(L)->history, &ev, H_ENTER, luaL_checkstring(L, 1));
  return 0;
}

static int l_history_load(lua_State *L) {
  HistEvent ev;
  lua_pushboolean(L, history(self(L)->history, &ev, H_LOAD, luaL_checkstring(L, 1)) >= 0);
  return 1;
}

/* Makes the directories above a file; what fails shows when the file is opened. */
static void make_parents(const char *path) {
  char dir[1024];
  size_t n = strlen(path);
  if (n >= sizeof dir) return;
  for (size_t i = 1; i < n; i++) {
    if (path[i] != '/') continue;
    memcpy(dir, path, i);
    dir[i] = '\0';
    mkdir(dir, 0700);
  }
}

static int l_history_save(lua_State *L) {
  HistEvent ev;
  make_parents(luaL_checkstring(L, 1));
  lua_pushboolean(L, history(self(L)->history, &ev, H_SAVE, luaL_checkstring(L, 1)) >= 0);
  return 1;
}

static int l_complete(lua_State *L) {
  editor *e = self(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  luaL_unref(L, LUA_REGISTRYINDEX, e->completer);
  lua_settop(L, 1);
  e->completer = luaL_ref(L, LUA_REGISTRYINDEX);
  return 0;
}

static int l_interrupted(lua_State *L) {
  lua_pushboolean(L, cli_interrupt_clear(L));
  return 1;
}

static int close_editor(lua_State *L) {
  editor *e = lua_touserdata(L, 1);
  if (e->el) el_end(e->el);
  if (e->history) history_end(e->history);
  e->el = NULL;
  e->history = NULL;
  return 0;
}

static const luaL_Reg functions[] = {{"readline", l_readline},         {"add_history", l_add_history},
                                     {"history_load", l_history_load}, {"history_save", l_history_save},
                                     {"complete", l_complete},         {NULL, NULL}};

static bool open_editor(editor *e) {
  HistEvent ev;
  setlocale(LC_CTYPE, ""); /* letters beyond ASCII */
  e->el = el_init("penumbra", stdin, stdout, stderr);
  e->history = history_init();
  if (!e->el || !e->history) return false;
  history(e->history, &ev, H_SETSIZE, HISTORY_SIZE);
  history(e->history, &ev, H_SETUNIQUE, 1);
  el_set(e->el, EL_CLIENTDATA, e);
  el_set(e->el, EL_SIGNAL, 1);
  el_set(e->el, EL_PROMPT_ESC, prompt_of, '\1');
  el_set(e->el, EL_EDITOR, "emacs");
  el_set(e->el, EL_HIST, history, e->history);
  el_wset(e->el, EL_ADDFN, L"penumbra-complete", L"completes a name", on_tab); /* el_set would leak copies */
  el_set(e->el, EL_BIND, "^I", "penumbra-complete", NULL);
  el_set(e->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
  el_set(e->el, EL_BIND, "\\e[1;5D", "ed-prev-word", NULL);
  el_set(e->el, EL_BIND, "\\e[1;5C", "em-next-word", NULL);
  el_source(e->el, NULL); /* the user's ~/.editrc */
  return true;
}

int cli_push_editor(lua_State *L, bool terminal) {
  lua_newtable(L);
  lua_pushcfunction(L, l_interrupted);
  lua_setfield(L, -2, "interrupted");
  if (!terminal) return 1;
  editor *e = lua_newuserdatauv(L, sizeof *e, 0);
  *e = (editor){.completer = LUA_NOREF};
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, close_editor);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  if (!open_editor(e)) luaL_error(L, "cannot open the line editor");
  luaL_setfuncs(L, functions, 1);
  return 1;
}
