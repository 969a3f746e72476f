/*
** interrupt.c: Ctrl-C stops what runs, not the session. The handler cancels the context (tensor work
** ends at its next check) and sets a hook that raises at the next Lua instruction. The hook stays
** armed until cli_interrupt_clear, so that a script's own pcall cannot swallow the interrupt: after the
** first error it grants some instructions, so that __close and handlers can tidy up; if these are used
** up, every further instruction is an error.
*/
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include "cli.h"

/* SOON instructions go by before the hook raises in a sheltered call: what a script does with the result of an
 * operation that had ended is done, too (tensor work that begins meanwhile fails at once). */
enum { SOON = 100, GRACE = 10000, WATCH = 10000 };

/* What a signal handler can reach; it has no argument to carry it. */
static struct {
  lua_State *L;
  pn_context *c;
  atomic_int count;
  volatile sig_atomic_t sheltered; /* calls under way */
  int patience;
  bool graced;
} target;

/* Pushes "script:line: " of the innermost line of the script. */
static void push_where(lua_State *L) {
  lua_Debug ar;
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline > 0 && !pni_is_ours(ar.source)) {
      lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
      return;
    }
  }
  lua_pushliteral(L, "");
}

static void stop(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, stop, LUA_MASKCOUNT, target.graced ? 1 : GRACE);
  target.graced = true;
  push_where(L);
  lua_pushliteral(L, "interrupted");
  lua_concat(L, 2);
  lua_error(L);
}

/* Hook of coroutines, which the handler cannot reach: looks now and then. */
static void watch(lua_State *L, lua_Debug *ar) {
  if (target.count) stop(L, ar);
}

static void on_signal(int number) {
  if (++target.count >= target.patience) {
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  pn_context_cancel(target.c);
  if (target.sheltered)
    lua_sethook(target.L, stop, LUA_MASKCOUNT, SOON);
  else
    lua_sethook(target.L, stop, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
}

/* coroutine.create and coroutine.wrap (upvalue 1): a new thread inherits its maker's hook. */
static int watched(lua_State *L) {
  lua_Hook old = lua_gethook(L);
  int mask = lua_gethookmask(L), count = lua_gethookcount(L);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_sethook(L, watch, LUA_MASKCOUNT, WATCH);
  int status = lua_pcall(L, lua_gettop(L) - 1, 1, 0);
  lua_sethook(L, old, mask, count);
  if (target.count && L == target.L) lua_sethook(L, stop, LUA_MASKCOUNT, 1);
  return status == LUA_OK ? 1 : lua_error(L);
}

static void watch_coroutines(lua_State *L) {
  static const char *const makers[] = {"create", "wrap"};
  lua_getglobal(L, "coroutine");
  for (int i = 0; i < 2; i++) {
    lua_getfield(L, -1, makers[i]);
    lua_pushcclosure(L, watched, 1);
    lua_setfield(L, -2, makers[i]);
  }
  lua_pop(L, 1);
}

/* core.sheltered(f, ...) -> what pcall gives. f runs although an interruption is under way, which goes on afterwards,
 * so that a script can bring its work to safety; one that comes meanwhile ends f, but SOON instructions later. */
static int sheltered(lua_State *L) {
  bool pending = target.count > 0;
  if (pending) {
    lua_sethook(L, NULL, 0, 0);
    pn_context_uncancel(target.c);
  }
  target.sheltered++;
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  target.sheltered--;
  lua_pushboolean(L, status == LUA_OK);
  lua_insert(L, 1);
  if (pending) {
    pn_context_cancel(target.c);
    target.graced = true;
    lua_sethook(L, stop, LUA_MASKCOUNT, GRACE);
  }
  return lua_gettop(L);
}

/* The core with what only the command has. */
static int open_core(lua_State *L) {
  luaopen_penumbra_core(L);
  lua_pushcfunction(L, sheltered);
  lua_setfield(L, -2, "sheltered");
  return 1;
}

static void offer_shelter(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, open_core);
  lua_setfield(L, -2, "penumbra.core");
  lua_pop(L, 1);
}

void cli_interrupt_install(lua_State *L, int patience) {
  if (target.L != L) {
    watch_coroutines(L);
    offer_shelter(L);
  }
  target.L = L;
  target.c = pni_lua_context(L);
  target.patience = patience;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal; /* no SA_RESTART: reading a line ends, too */
  sigaction(SIGINT, &action, NULL);
}

bool cli_interrupt_pending(void) { return target.count > 0; }

/* What functions set for as long as they run and an error may have kept them from setting back. */
static void set_back(lua_State *L) {
  pn_capture_cancel(target.c);
  target.c->no_grad = false;
  if (pni_lua_state(L)) pni_lua_state(L)->mode = PN_MODE_TRAINING;
}

bool cli_interrupt_clear(lua_State *L) {
  lua_sethook(L, NULL, 0, 0);
  pn_context_uncancel(target.c);
  bool was = target.count > 0;
  if (was) set_back(L);
  target.count = 0;
  target.graced = false;
  return was;
}
