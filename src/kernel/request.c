/*
** request.c: what main does for each message of shell. penumbra.notebook answers; this file moves requests and
** answers between JSON and Lua, says that the kernel is busy, and drops the cells behind one that failed.
*/
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include "../cli/cli.h"
#include "kernel.h"

static const char kernel_address = 0, notebook_address = 0; /* keys of the registry */
enum { QUEUE = 1024 };

kernel *kernel_of(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &kernel_address);
  kernel *k = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return k;
}

/* ---- what Lua sees of the kernel ---- */

/* publish(type, content): a message on iopub */
static int l_publish(lua_State *L) {
  kernel *k = kernel_of(L);
  const char *type = luaL_checkstring(L, 1);
  cJSON *content = kernel_to_json(L, 2);
  char *json = cJSON_PrintUnformatted(content);
  cJSON_Delete(content);
  if (!json) return luaL_error(L, "%s cannot be sent", type);
  kernel_drain(k, false); /* what was printed before comes before */
  kernel_publish(k, k->parent, type, json);
  cJSON_free(json);
  return 0;
}

/* call(f, ...) -> was it interrupted?, and what pcall gives. No instruction goes by between its end and the end of the
 * interruption, which tolerates few. */
static int l_call(lua_State *L) {
  kernel *k = kernel_of(L);
  kernel_call(k, true);
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  kernel_call(k, false);
  bool interrupted = cli_interrupt_clear(L);
  lua_pushboolean(L, status == LUA_OK);
  lua_insert(L, 1);
  lua_pushboolean(L, interrupted);
  lua_insert(L, 1);
  return lua_gettop(L);
}

static int open_lua(lua_State *L) {
  static const luaL_Reg functions[] = {{"publish", l_publish}, {"call", l_call}, {"list", kernel_list}, {NULL, NULL}};
  kernel *k = lua_touserdata(L, 1);
  pni_open_libs(L);
  lua_pushvalue(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kernel_address);
  cli_interrupt_install(L, INT_MAX);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "penumbra.notebook");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "new");
  luaL_newlib(L, functions);
  lua_pushlightuserdata(L, NULL);
  lua_setfield(L, -2, "null");
  kernel_open_input(L);
  lua_call(L, 1, 1);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &notebook_address);
  lua_getfield(L, -1, "info");
  cJSON *info = kernel_to_json(L, -1);
  k->info = cJSON_PrintUnformatted(info);
  cJSON_Delete(info);
  return 0;
}

bool kernel_open_lua(kernel *k) {
  lua_State *L = k->L = luaL_newstate();
  if (!L) return kernel_log(k, "%s", "memory is lacking"), false;
  lua_pushcfunction(L, open_lua);
  lua_pushlightuserdata(L, k);
  bool good = lua_pcall(L, 1, 0, 0) == LUA_OK && k->info;
  if (!good) kernel_log(k, "%s", lua_tostring(L, -1) ? lua_tostring(L, -1) : "memory is lacking");
  return good;
}

/* ---- one request ---- */

/* What a request came to. */
typedef struct kernel_answer_text {
  char *json;  /* content of the reply; NULL: there is none */
  bool failed; /* the cells behind it are not run */
} kernel_answer_text;

/* (message, answer): notebook:answer(type, content) -> content of the reply or nil, has it failed? */
static int ask_notebook(lua_State *L) {
  const kernel_message *m = lua_touserdata(L, 1);
  kernel_answer_text *out = lua_touserdata(L, 2);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &notebook_address);
  lua_getfield(L, -1, "answer");
  lua_insert(L, -2);
  lua_pushstring(L, m->type);
  kernel_push_json(L, m->content);
  lua_call(L, 3, 2);
  out->failed = lua_toboolean(L, -1);
  if (!lua_istable(L, -2)) return 0;
  cJSON *content = kernel_to_json(L, -2);
  out->json = cJSON_PrintUnformatted(content);
  cJSON_Delete(content);
  return 0;
}

/* The reply where Lua itself failed. */
static char *failure(lua_State *L) {
  size_t n = 0;
  const char *message = lua_tolstring(L, -1, &n);
  char *text = malloc(3 * n + 1), *json = NULL;
  if (text) {
    kernel_utf8(message ? message : "", n, true, text);
    cJSON *content = cJSON_CreateObject();
    cJSON_AddStringToObject(content, "status", "error");
    cJSON_AddStringToObject(content, "ename", "Error");
    cJSON_AddStringToObject(content, "evalue", text);
    cJSON_AddArrayToObject(content, "traceback");
    json = cJSON_PrintUnformatted(content);
    cJSON_Delete(content);
  }
  free(text);
  return json;
}

static kernel_answer_text compute(kernel *k, kernel_message *m) {
  kernel_answer_text out = {NULL, false};
  lua_State *L = k->L;
  cli_interrupt_clear(L); /* of what ran before */
  lua_pushcfunction(L, ask_notebook);
  lua_pushlightuserdata(L, m);
  lua_pushlightuserdata(L, &out);
  int status = lua_pcall(L, 2, 0, 0);
  cli_interrupt_clear(L);
  if (status != LUA_OK) {
    cJSON_free(out.json);
    out.json = failure(L);
    lua_pop(L, 1);
  }
  return out;
}

static bool is_true(const cJSON *content, const char *name) {
  return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(content, name));
}

/* What is printed from now on belongs to m, or to nobody. */
static void begin(kernel *k, const kernel_message *m) {
  bool cell = m && strcmp(m->type, "execute_request") == 0;
  pthread_mutex_lock(&k->publishing);
  k->parent = m ? m->header : NULL;
  k->silent = cell && is_true(m->content, "silent");
  pthread_mutex_unlock(&k->publishing);
  k->asking = cell && is_true(m->content, "allow_stdin") ? m : NULL;
}

static void reply(kernel *k, const kernel_message *m, const char *json) {
  char type[80];
  size_t n = strlen(m->type), tail = strlen("_request");
  if (!json || n < tail || n > 70 || strcmp(m->type + n - tail, "_request") != 0) return;
  memcpy(type, m->type, n - tail);
  strcpy(type + n - tail, "_reply");
  kernel_reply(k, KERNEL_SHELL, m, type, json);
}

/* Answers the messages that have come; cells are not run. */
static void drop_cells(kernel *k, kernel_message *list, int n) {
  for (int i = 0; i < n; i++) {
    if (strcmp(list[i].type, "execute_request") == 0) {
      kernel_status(k, list[i].header, "busy");
      reply(k, &list[i], "{\"status\": \"aborted\"}");
      kernel_status(k, list[i].header, "idle");
    } else
      kernel_answer(k, &list[i]);
    kernel_message_free(&list[i]);
  }
}

void kernel_answer(kernel *k, kernel_message *m) {
  kernel_status(k, m->header, "busy");
  begin(k, m);
  if (strcmp(m->type, "shutdown_request") == 0) {
    kernel_shut_down(k, KERNEL_SHELL, m);
  } else if (strcmp(m->type, "kernel_info_request") == 0) {
    reply(k, m, k->info);
  } else {
    kernel_answer_text answer = compute(k, m);
    kernel_drain(k, true);
    kernel_message *waiting = answer.failed ? malloc(QUEUE * sizeof *waiting) : NULL;
    int n = 0; /* those that were sent before anybody knew that this one fails */
    while (waiting && n < QUEUE && kernel_receive(k, KERNEL_SHELL, 0, &waiting[n])) n++;
    reply(k, m, answer.json);
    cJSON_free(answer.json);
    kernel_status(k, m->header, "idle");
    begin(k, NULL);
    drop_cells(k, waiting, n);
    free(waiting);
    return;
  }
  kernel_status(k, m->header, "idle");
  begin(k, NULL);
}
