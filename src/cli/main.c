/*
** main.c: the command. Makes a Lua state with Penumbra's modules inside, runs scripts,
** and turns errors into one message, a short traceback and an exit code.
*/
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../base/processor.h"
#include "../tensor/product/gemm.h"
#include "cli.h"

enum { EXIT_INTERRUPTED = 130 };

/* ---- options ---- */

static bool read_integer(const char *text, const char *option, long long low, long long high, long long *out) {
  char *end;
  errno = 0;
  *out = strtoll(text, &end, 10);
  if (!errno && *text && !*end && *out >= low && *out <= high) return true;
  char what[PNI_SHAPE_TEXT];
  snprintf(what, sizeof what, "%s must be a whole number from %lld to %lld, got '%.40s'", option, low, high, text);
  cli_complain("%s", what);
  return false;
}

static bool apply(lua_State *L, const cli_given *o) {
  long long n;
  pn_context *c = pni_lua_context(L);
  if (o->seed) {
    if (!read_integer(o->seed, "--seed", INT64_MIN, INT64_MAX, &n)) return false;
    pn_seed(c, (uint64_t)n);
  }
  if (o->threads) {
    if (!read_integer(o->threads, "--threads", 1, 256, &n)) return false;
    pn_context_threads(c, (int)n);
  }
  if (o->dtype) {
    lua_getglobal(L, "require");
    lua_pushliteral(L, "penumbra.core");
    lua_call(L, 1, 1);
    lua_getfield(L, -1, "default_dtype");
    lua_pushstring(L, o->dtype);
    lua_call(L, 1, 0);
    lua_pop(L, 1);
  }
  return true;
}

/* ---- running ---- */

static int on_error(lua_State *L) {
  const char *message = lua_tostring(L, 1);
  if (!message) {
    if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING)
      message = lua_tostring(L, -1);
    else
      message = lua_pushfstring(L, "error: the error object is a %s value", luaL_typename(L, 1));
  }
  pni_push_traceback(L, L, message, 1);
  return 1;
}

/* Says the message on the stack top and takes it away. Where there are several ranks it goes to who ends them all
 * (src/mpi), by the registry's field. */
static void tell(lua_State *L) {
  const char *message = lua_tostring(L, -1);
  if (!message) message = "error: no message";
  if (lua_getfield(L, LUA_REGISTRYINDEX, "penumbra.failed") == LUA_TFUNCTION) {
    lua_pushstring(L, message);
    lua_pcall(L, 1, 0, 0);
  } else
    lua_pop(L, 1);
  fprintf(stderr, "%s\n", message);
  lua_pop(L, 1);
}

/* Calls the function below its n arguments; prints what goes wrong. Returns the exit code. */
static int call(lua_State *L, int n) {
  int base = lua_gettop(L) - n;
  lua_pushcfunction(L, on_error);
  lua_insert(L, base);
  int status = lua_pcall(L, n, 0, base);
  bool interrupted = cli_interrupt_clear(L);
  lua_remove(L, base);
  if (status == LUA_OK) return EXIT_SUCCESS;
  fflush(stdout);
  tell(L);
  return interrupted ? EXIT_INTERRUPTED : EXIT_FAILURE;
}

static int load_error(lua_State *L) {
  tell(L);
  return EXIT_FAILURE;
}

/* Calls strict.install() so that undefined globals are errors. */
static int make_strict(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "penumbra.shell.strict");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "install");
  lua_call(L, 0, 0);
  return 0;
}

/* doubts.strict(text, path): what Lua lets pass where tensors are meant. Either may be NULL. */
static void doubt(lua_State *L, const char *text, const char *path) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "penumbra.shell.doubts");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "strict");
  lua_pushstring(L, text);
  lua_pushstring(L, path);
  lua_call(L, 2, 0);
  lua_pop(L, 1);
}

/* An expression may speak of pn, and of help, as the prompt does: they are globals before one that does is run. */
static int name_for_expressions(lua_State *L) {
  lua_pushglobaltable(L);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "penumbra");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "help");
  const char *names[2] = {"help", "pn"};
  for (int k = 0; k < 2; k++) {
    lua_pushstring(L, names[k]);
    if (lua_rawget(L, 1) == LUA_TNIL) {
      lua_pushstring(L, names[k]);
      lua_pushvalue(L, 3 - k);
      lua_rawset(L, 1);
    }
    lua_pop(L, 1);
  }
  return 0;
}

static int run_expression(lua_State *L, const char *code) {
  if (strstr(code, "pn") || strstr(code, "help")) {
    lua_pushcfunction(L, name_for_expressions);
    lua_call(L, 0, 0);
  }
  if (luaL_loadbuffer(L, code, strlen(code), "=(command line)") != LUA_OK) return load_error(L);
  return call(L, 0);
}

/* Addresses in the registry: the script's main function, and the local variables that it ended with, by name. */
static const char script_key = 0, locals_key = 0;

/* Keeps the variables of the function that returns if it is the script. Nothing here runs a script's code. */
static void keep_locals(lua_State *L, lua_Debug *ar) {
  if (!lua_checkstack(L, 6)) return;
  lua_getinfo(L, "f", ar);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &script_key);
  bool is_script = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  if (!is_script) return;
  lua_newtable(L);
  int t = lua_gettop(L);
  const char *name;
  for (int i = 1; (name = lua_getlocal(L, ar, i)) != NULL; i++) {
    lua_pushstring(L, name);
    lua_insert(L, -2);
    if (*name == '(')
      lua_pop(L, 2); /* a temporary value */
    else
      lua_rawset(L, t);
  }
  lua_rawsetp(L, LUA_REGISTRYINDEX, &locals_key);
}

static int run_script(lua_State *L, const cli_given *o) {
  const char *name = o->from_stdin ? NULL : o->argv[o->script];
  if (luaL_loadfile(L, name) != LUA_OK) return load_error(L);
  if (o->interactive) {
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &script_key);
    lua_sethook(L, keep_locals, LUA_MASKRET, 0);
  }
  int n = o->argc - o->script - 1;
  luaL_checkstack(L, n + 8, "too many arguments");
  for (int i = 1; i <= n; i++) lua_pushstring(L, o->argv[o->script + i]);
  int code = call(L, n);
  if (lua_gethook(L) == keep_locals) lua_sethook(L, NULL, 0, 0);
  return code;
}

/* run(editor, variables of the script that has run or nil) */
static int run_repl(lua_State *L) {
  cli_interrupt_install(L, 3);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "penumbra.shell");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "run");
  cli_push_editor(L, isatty(STDIN_FILENO) && isatty(STDOUT_FILENO));
  lua_rawgetp(L, LUA_REGISTRYINDEX, &locals_key);
  return call(L, 2);
}

static void push_arg(lua_State *L, const cli_given *o) {
  lua_createtable(L, o->argc - o->script, o->script + 1);
  for (int i = 0; i < o->argc; i++) {
    lua_pushstring(L, o->argv[i]);
    lua_rawseti(L, -2, i - o->script);
  }
  lua_setglobal(L, "arg");
}

static void print_version(void) {
  char blas[PNI_SHAPE_TEXT];
  pni_blas_describe(blas, sizeof blas);
  printf("Penumbra %s, %s, %s, %s vectors\n", pn_version(), LUA_RELEASE, blas, pni_cpu_level_name(pni_cpu_level()));
  if (*pn_context_advice(NULL)) printf("%s\n", pn_context_advice(NULL));
}

/* The whole run, inside one protected call. Upvalue-free; leaves the exit code on the stack. */
static int protected_main(lua_State *L) {
  const cli_given *o = lua_touserdata(L, 1);
  int code = EXIT_SUCCESS;
  pni_open_libs(L);
  push_arg(L, o);
  cli_add_module_path(L);
  cli_interrupt_install(L, 2);
  if (!apply(L, o)) {
    lua_pushinteger(L, EXIT_FAILURE);
    return 1;
  }
  lua_pushcfunction(L, make_strict);
  lua_call(L, 0, 0);
  for (int i = 0; i < o->expressions && code == EXIT_SUCCESS; i++) {
    if (o->strict) doubt(L, o->expression[i], NULL);
    code = run_expression(L, o->expression[i]);
  }
  bool idle = o->expressions == 0 && !o->version;
  if (o->strict && code == EXIT_SUCCESS && o->script > 0) doubt(L, "", o->from_stdin ? NULL : o->argv[o->script]);
  if (code == EXIT_SUCCESS) {
    if (o->script > 0)
      code = run_script(L, o);
    else if (idle && !o->interactive && !isatty(STDIN_FILENO))
      code = luaL_loadfile(L, NULL) == LUA_OK ? call(L, 0) : load_error(L);
    else if (idle)
      code = run_repl(L), idle = false;
  }
  if (o->interactive && !(o->script == 0 && o->expressions == 0)) code = run_repl(L);
  lua_pushinteger(L, code);
  return 1;
}

/* ---- standard files ---- */

/* A closed standard file is replaced by one that fails, lest a script's own file take its number. */
static void hold_standard_files(void) {
  for (int fd = 0; fd < 3; fd++)
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

/* However the process ends: what was printed has arrived, or it ends in failure. */
static void deliver_output(void) {
  bool failed = ferror(stdout) != 0;
  errno = 0;
  if (fclose(stdout) == 0 && !failed) return;
  cli_complain("standard output cannot be written%s", errno == ENOSPC ? ": no space left" : "");
  _exit(EXIT_FAILURE);
}

int main(int argc, char **argv) {
  hold_standard_files();
  atexit(deliver_output);
  if (argc > 1 && strcmp(argv[1], "kernel") == 0) return cli_run_kernel(argv + 1);
  cli_choose_blas(argv);
  cli_given o = {.argc = argc, .argv = argv};
  if (!cli_read_options(&o)) return EXIT_FAILURE;
  if (o.help) return cli_print_usage(stdout), EXIT_SUCCESS;
  if (o.manual) return cli_print_manual(stdout), EXIT_SUCCESS;
  if (o.completion) return cli_print_completion(stdout, o.completion) ? EXIT_SUCCESS : EXIT_FAILURE;
  if (o.version) {
    print_version();
    if (o.script == 0 && o.expressions == 0 && !o.interactive) return EXIT_SUCCESS;
  }
  lua_State *L = luaL_newstate();
  if (!L) return cli_complain("%s", "not enough memory");
  lua_pushcfunction(L, protected_main);
  lua_pushlightuserdata(L, &o);
  int code = EXIT_FAILURE;
  if (lua_pcall(L, 1, 1, 0) == LUA_OK)
    code = (int)lua_tointeger(L, -1);
  else
    load_error(L);
  lua_close(L);
  return code;
}
