/*
** runtime.c: life of a runtime, its account of memory, the limits of a call, and how a call ended.
** Every use of the Lua state happens inside pni_runtime_enter; outside of it only functions that cannot
** raise are called, so nothing ever reaches Lua's panic function.
*/
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "../message.h"
#include "runtime.h"

/* ---- memory: Lua's blocks are charged to the context's account by their exact size ---- */

/* Blocks from this size on are refused while the call is to end, so that no chain of them delays it. */
enum { LARGE = 1 << 16 };

/* Did the host cancel, has the time passed, or is the call ending anyway? */
static bool overdue(const pn_runtime *rt) { return rt->tripped || pni_is_over(rt->c); }

/* Where strings are long, an instruction (of comparison, arithmetic, concatenation) takes the time of many, and so does
 * a call of a function that takes one for a number. */
static int interval_of(const pn_runtime *rt) {
  size_t times = rt->longest / PNI_LONG;
  return times < 2 ? rt->interval : times >= (size_t)rt->interval ? 1 : rt->interval / (int)times;
}

static void hook(lua_State *L, lua_Debug *ar);

static void watch(lua_State *L, const pn_runtime *rt) {
  lua_sethook(L, hook, LUA_MASKCOUNT | (rt->longest < PNI_LONG ? 0 : LUA_MASKCALL), interval_of(rt));
}

/* From now on there is a string of that size. */
static void note_string(pn_runtime *rt, size_t size) {
  int before = interval_of(rt);
  bool first = rt->longest < PNI_LONG && size >= PNI_LONG;
  rt->longest = size;
  if (rt->running && !rt->tripped && (first || interval_of(rt) != before)) watch(rt->current, rt);
}

/* lua_Alloc. old_size of a new block is a type tag, not a size. Shrinking never fails. */
static void *lua_allocate(void *data, void *block, size_t old_size, size_t new_size) {
  pn_runtime *rt = data;
  size_t old = block ? old_size : 0;
  if (!block && new_size == 0) return NULL;
  if (new_size > old && rt->running && new_size >= LARGE && overdue(rt)) return NULL;
  void *p = pni_reallocate(rt->c, block, old, new_size);
  if (p && !block && old_size == LUA_TSTRING && new_size > rt->longest) note_string(rt, new_size);
  return p;
}

/* Garbage that only finalizers give back (tensors) is invisible to Lua's emergency collection: collect
 * before the account is full, at most once per sixteenth of it. */
static void relieve(lua_State *L, pn_runtime *rt) {
  pn_context *c = rt->c;
  size_t used = pn_context_memory(c, NULL);
  if (!c->limit || used < c->limit - c->limit / 8) return;
  if (used < rt->after_gc + c->limit / 16) return;
  lua_gc(L, LUA_GCCOLLECT, 0);
  rt->after_gc = pn_context_memory(c, NULL);
}

/* Files that nobody holds any more are closed by the collector. */
static void collect(void *data) {
  const pn_runtime *rt = data;
  if (rt->running) lua_gc(rt->current, LUA_GCCOLLECT, 0);
}

/* ---- limits ---- */

/* "script:line: " of the innermost Lua function. */
static void where(lua_State *L, char *out, size_t size) {
  lua_Debug ar;
  *out = '\0';
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline > 0 && strncmp(ar.source, "=penumbra", 9) != 0) {
      snprintf(out, size, "%s:%d: ", ar.short_src, ar.currentline);
      return;
    }
  }
}

static void note_traceback(lua_State *L, pn_runtime *rt, int first);
int pni_runtime_trip(lua_State *L, pn_status status, const char *what) {
  pn_runtime *rt = pni_runtime_of(L);
  if (!rt->tripped) {
    char place[128];
    where(L, place, sizeof place);
    snprintf(rt->message, sizeof rt->message, "%s%s", place, what);
    note_traceback(L, rt, 0);
    rt->tripped = status;
  }
  lua_sethook(L, hook, LUA_MASKCOUNT | LUA_MASKCALL, 1);
  lua_pushliteral(L, "limit reached");
  return lua_error(L);
}

void pni_runtime_pass_on(lua_State *L) {
  pn_runtime *rt = pni_runtime_of(L);
  if (rt->tripped) pni_runtime_trip(L, rt->tripped, "");
}

void pni_runtime_poll(lua_State *L, uint64_t steps) {
  pn_runtime *rt = pni_runtime_of(L);
  char text[80];
  rt->steps += steps;
  pni_runtime_pass_on(L);
  if (pni_is_cancelled(rt->c)) pni_runtime_trip(L, PN_CANCELLED, "interrupted");
  if (pni_stop_due(rt->c->stop)) {
    snprintf(text, sizeof text, "time limit reached (%g seconds)", rt->limits.seconds);
    pni_runtime_trip(L, PN_TIME, text);
  }
  if (rt->limits.instructions && rt->steps > rt->limits.instructions) {
    snprintf(text, sizeof text, "instruction limit reached (%llu)", (unsigned long long)rt->limits.instructions);
    pni_runtime_trip(L, PN_LIMIT, text);
  }
}

/* The hook. A thread in which a limit tripped in an earlier call goes back to the usual interval. */
static void hook(lua_State *L, lua_Debug *ar) {
  pn_runtime *rt = pni_runtime_of(L);
  if (!rt->running) return;
  bool count = ar->event == LUA_HOOKCOUNT;
  int passed = rt->tripped || !count ? 0 : lua_gethookcount(L);
  if (count && passed != interval_of(rt) && !rt->tripped) watch(L, rt);
  if (count) relieve(L, rt);
  pni_runtime_poll(L, (uint64_t)passed);
}

/* ---- how a call ended ---- */

/* One line per running function, written without touching Lua's memory. */
static void note_traceback(lua_State *L, pn_runtime *rt, int first) {
  enum { LEVELS = 24 };
  lua_Debug ar;
  size_t at = 0, size = sizeof rt->traceback;
  rt->traceback[0] = '\0';
  for (int level = first; level < LEVELS && at < size && lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sln", &ar);
    if (*ar.what == 'C' && !ar.name) continue;
    int n;
    if (ar.currentline > 0)
      n = snprintf(rt->traceback + at, size - at, "%s:%d: in %s\n", ar.short_src, ar.currentline,
                   ar.name           ? ar.name
                   : *ar.what == 'm' ? "main chunk"
                                     : "function");
    else
      n = snprintf(rt->traceback + at, size - at, "[C]: in %s\n", ar.name ? ar.name : "function");
    at += (size_t)n;
  }
}

/* The message handler of the outermost call: leaves the error value alone. */
static int on_error(lua_State *L) {
  pn_runtime *rt = pni_runtime_of(L);
  if (!rt->tripped) note_traceback(L, rt, 1);
  lua_settop(L, 1);
  return 1;
}

/* describe(error value): its text into the runtime's message. */
static int describe(lua_State *L) {
  pn_runtime *rt = pni_runtime_of(L);
  const char *text;
  if (lua_type(L, 1) != LUA_TSTRING && luaL_getmetafield(L, 1, "__tostring") == LUA_TNIL && !lua_isnumber(L, 1))
    text = lua_pushfstring(L, "error object is a %s value", luaL_typename(L, 1));
  else
    text = luaL_tolstring(L, 1, NULL);
  pni_push_explained(L, text);
  text = lua_tostring(L, -1);
  snprintf(rt->message, sizeof rt->message, "%s", text);
  return 0;
}

static void describe_error(lua_State *L, pn_runtime *rt) {
  const char *kind = luaL_typename(L, -1);
  rt->message[0] = '\0';
  lua_pushcfunction(L, describe);
  lua_insert(L, -2);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK && !rt->tripped)
    snprintf(rt->message, sizeof rt->message, "error object is a %s value that has no text", kind);
  if (!rt->message[0]) snprintf(rt->message, sizeof rt->message, "error without a message");
}

/* What a failed lua_pcall means; the error value is on the stack top. */
static pn_status verdict(lua_State *L, pn_runtime *rt, int lua_status, pn_status expected) {
  if (rt->tripped) return rt->tripped;
  pn_status raised = lua_status == LUA_ERRMEM ? PN_NOMEM : pni_raised(L, -1);
  describe_error(L, rt);
  if (rt->tripped) return rt->tripped;
  if (overdue(rt)) return pni_is_cancelled(rt->c) ? PN_CANCELLED : PN_TIME; /* what failed was refused for it */
  if (lua_status == LUA_ERRMEM)
    snprintf(rt->message, sizeof rt->message, "not enough memory: %zu bytes in use, limit %zu",
             pn_context_memory(rt->c, NULL), rt->c->limit);
  if (raised == PN_OK) raised = expected == PN_OK ? PN_SCRIPT : expected;
  return raised;
}

void pni_runtime_release(pn_runtime *rt) {
  while (rt->nheld) pn_tensor_unref(rt->held[--rt->nheld]);
}

pn_status pni_runtime_begin(pn_runtime *rt) {
  if (!rt || rt->running) return PN_STATE;
  pn_context_clear_error(rt->c);
  rt->status = PN_OK;
  rt->message[0] = rt->traceback[0] = '\0';
  return PN_OK;
}

pn_status pni_runtime_refuse(pn_runtime *rt, pn_status status, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  vsnprintf(rt->message, sizeof rt->message, format, ap);
  va_end(ap);
  return rt->status = status;
}

static void arm(pn_runtime *rt) {
  uint64_t most = rt->limits.instructions;
  rt->tripped = PN_OK;
  rt->steps = rt->printed = 0;
  rt->after_gc = 0;
  rt->interval = most && most < PNI_INTERVAL ? (int)most : PNI_INTERVAL;
  rt->unseen = 0;
  size_t heap = ((size_t)lua_gc(rt->L, LUA_GCCOUNT, 0) + 1) << 10;
  if (rt->longest > heap) rt->longest = heap; /* it is gone */
  rt->running = true;
  rt->current = rt->L;
  rt->c->root = pni_runtime_trusts(rt) ? NULL : &rt->root;
  pn_context_set_deadline(rt->c, rt->limits.seconds);
  watch(rt->L, rt);
  lua_gc(rt->L, LUA_GCRESTART);
}

pn_status pni_runtime_enter(pn_runtime *rt, lua_CFunction body, pni_job *job) {
  lua_State *L = rt->L;
  pn_context *c = rt->c;
  size_t mark = pn_scope_open(c);
  bool no_grad = c->no_grad;
  int mode = pni_lua_state(L) ? pni_lua_state(L)->mode : 0;
  arm(rt);
  lua_settop(L, 0);
  lua_pushcfunction(L, on_error);
  lua_pushcfunction(L, body);
  lua_pushlightuserdata(L, job);
  int status = lua_pcall(L, 1, 0, 1);
  if (status != LUA_OK) rt->status = verdict(L, rt, status, job->status);
  if (rt->tripped) rt->status = rt->tripped; /* also when something swallowed it */
  if (rt->status != PN_OK) {
    pn_context_uncancel(c); /* whoever wanted this call to end has got it */
    c->no_grad = no_grad;
    if (pni_lua_state(L)) pni_lua_state(L)->mode = mode;
    pn_capture_cancel(c);
    pni_runtime_release(rt);
  }
  lua_settop(L, 0);
  pn_scope_close(c, mark);
  pn_context_clear_error(c);
  pn_context_set_deadline(c, 0);
  c->root = NULL;
  rt->running = false;
  return rt->status;
}

/* ---- life ---- */

static bool limits_are_sane(const pn_limits *l) { return l->seconds >= 0 && !isnan(l->seconds); }

/* A root goes with the library that looks there, and with no other way to files. */
static bool files_are_sane(const pn_runtime_config *cfg) {
  if (cfg->libraries & PN_LIB_TRUSTED_IO) return !cfg->root;
  return !!(cfg->libraries & PN_LIB_FILES) == !!cfg->root;
}

pn_status pn_runtime_new(const pn_runtime_config *config, pn_runtime **out) {
  pn_runtime_config cfg = {0};
  if (!out) return PN_DOMAIN;
  if (config) cfg = *config;
  if (!limits_are_sane(&cfg.limits) || (cfg.libraries & ~(unsigned)PN_LIBS_FULL)) return PN_DOMAIN;
  if (!files_are_sane(&cfg)) return PN_DOMAIN;
  if (!cfg.limits.memory) cfg.limits.memory = cfg.context.memory_limit;
  cfg.context.memory_limit = cfg.limits.memory;
  pn_context *c = pn_context_new(&cfg.context);
  if (!c) return PN_NOMEM;
  pn_status refused = pn_context_status(c);
  if (refused) {
    pn_context_close(c);
    return refused;
  }
  pn_runtime *rt = pni_calloc(c, sizeof *rt);
  if (!rt) {
    pn_context_close(c);
    return PN_NOMEM;
  }
  rt->c = c;
  rt->libraries = (cfg.libraries ? cfg.libraries : PN_LIBS_SAFE) | PN_LIB_BASE;
  rt->output = cfg.output;
  rt->output_data = cfg.output_data;
  rt->root.fd = -1;
  rt->root.make_room = collect;
  rt->root.data = rt;
  pn_status s = cfg.root ? pni_root_open(&rt->root, cfg.root, cfg.root_writable) : PN_OK;
  if (s == PN_OK && !(rt->L = lua_newstate(lua_allocate, rt))) s = PN_NOMEM;
  if (rt->L) {
    pni_job job = {.rt = rt};
    memcpy(lua_getextraspace(rt->L), &rt, sizeof rt);
    s = pni_runtime_enter(rt, pni_runtime_open, &job);
    rt->limits = cfg.limits;
  }
  if (s != PN_OK)
    pn_runtime_close(rt);
  else
    *out = rt;
  return s;
}

/* A script can lose finalisers (by emptying a metatable, or when memory lacks for the call of one), and with
 * them what they would have released: the context ends with all its blocks. */
void pn_runtime_close(pn_runtime *rt) {
  if (!rt || rt->running) return;
  pn_context *c = rt->c;
  pni_runtime_release(rt);
  if (rt->L) lua_close(rt->L);
  pni_root_close(&rt->root);
  pni_context_end(c);
}

pn_status pn_runtime_status(const pn_runtime *rt) { return rt ? rt->status : PN_STATE; }
const char *pn_runtime_message(const pn_runtime *rt) { return rt ? rt->message : "runtime must not be NULL"; }
const char *pn_runtime_traceback(const pn_runtime *rt) { return rt ? rt->traceback : ""; }

void pn_runtime_cancel(pn_runtime *rt) {
  if (rt) pn_context_cancel(rt->c);
}

void pn_runtime_uncancel(pn_runtime *rt) {
  if (rt) pn_context_uncancel(rt->c);
}

pn_status pn_runtime_set_limits(pn_runtime *rt, const pn_limits *limits) {
  if (!rt || rt->running) return PN_STATE;
  if (!limits || !limits_are_sane(limits)) return PN_DOMAIN;
  rt->limits = *limits;
  pn_context_set_memory_limit(rt->c, limits->memory);
  return PN_OK;
}

size_t pn_runtime_memory(const pn_runtime *rt, size_t *peak) {
  if (rt) return pn_context_memory(rt->c, peak);
  if (peak) *peak = 0;
  return 0;
}

pn_context *pn_runtime_context(pn_runtime *rt) { return rt ? rt->c : NULL; }
