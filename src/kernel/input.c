/*
** input.c: what a script reads from standard input is asked for through the channel stdin. io.stdin becomes a file that
** asks for a line whenever C's library wants more of it, so that io.read, io.lines and io.stdin's methods read as ever.
*/
#define _GNU_SOURCE
#include <cjson/cJSON.h>
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../cli/cli.h"
#include "kernel.h"

enum { LOOK = 100 };

/* What is left of the line that was typed last. */
typedef struct kernel_typed {
  kernel *k;
  char *line; /* NULL: none */
  size_t at;
} kernel_typed;

/* The value of an input_reply, or NULL with errno: EINTR after an interruption. The caller frees. */
static char *await(kernel *k) {
  for (;;) {
    kernel_message m;
    if (cli_interrupt_pending() || atomic_load(&k->stopping)) return errno = EINTR, NULL;
    if (!kernel_receive(k, KERNEL_STDIN, LOOK, &m)) continue;
    const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(m.content, "value"));
    bool reply = strcmp(m.type, "input_reply") == 0;
    char *line = reply ? strdup(value ? value : "") : NULL;
    kernel_message_free(&m);
    if (reply) return line;
  }
}

/* Asks the front end for a line. NULL with errno: EOPNOTSUPP if it wants to be asked nothing. */
static char *ask(kernel *k, const char *prompt, bool password) {
  kernel_message m;
  if (!k->asking) return errno = EOPNOTSUPP, NULL;
  kernel_drain(k, false);
  while (kernel_receive(k, KERNEL_STDIN, 0, &m)) kernel_message_free(&m); /* answers that nobody waits for */
  cJSON *content = cJSON_CreateObject();
  cJSON_AddStringToObject(content, "prompt", prompt);
  cJSON_AddBoolToObject(content, "password", password);
  char *json = cJSON_PrintUnformatted(content);
  cJSON_Delete(content);
  if (!json) return errno = ENOMEM, NULL;
  kernel_reply(k, KERNEL_STDIN, k->asking, "input_request", json);
  cJSON_free(json);
  return await(k);
}

static ssize_t read_typed(void *cookie, char *buffer, size_t size) {
  kernel_typed *t = cookie;
  if (!t->line) {
    char *line = ask(t->k, "", false);
    size_t n = line ? strlen(line) : 0;
    char *ended = line ? realloc(line, n + 2) : NULL;
    if (!ended) {
      free(line);
      return -1;
    }
    memcpy(ended + n, "\n", 2);
    t->line = ended;
    t->at = 0;
  }
  size_t left = strlen(t->line + t->at), n = left < size ? left : size;
  memcpy(buffer, t->line + t->at, n);
  t->at += n;
  if (n == left) {
    free(t->line);
    t->line = NULL;
  }
  return (ssize_t)n;
}

/* ask(prompt [, password]) -> the line, or nil and why not */
static int l_ask(lua_State *L) {
  const char *prompt = luaL_optstring(L, 1, "");
  size_t n = lua_rawlen(L, 1);
  char *text = lua_newuserdatauv(L, 3 * n + 1, 0);
  kernel_utf8(prompt, n, true, text);
  char *line = ask(kernel_of(L), text, lua_toboolean(L, 2));
  if (!line) {
    lua_pushnil(L);
    lua_pushstring(L, errno == EOPNOTSUPP ? "this front end does not ask for input" : strerror(errno));
    return 2;
  }
  lua_pushstring(L, line); /* (without memory the line is lost) */
  free(line);
  return 1;
}

void kernel_open_input(lua_State *L) {
  static kernel_typed typed; /* of the one kernel of a process */
  typed.k = kernel_of(L);
  FILE *f = fopencookie(&typed, "r", (cookie_io_functions_t){.read = read_typed});
  lua_getglobal(L, "io");
  if (f && lua_getfield(L, -1, "stdin") == LUA_TUSERDATA) {
    luaL_Stream *s = lua_touserdata(L, -1);
    s->f = f;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  lua_pushcfunction(L, l_ask);
  lua_setfield(L, -2, "ask");
}
