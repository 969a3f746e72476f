/*
** core.c: opening the module penumbra.core, the state's context, raising errors, and the
** one place where Lua's collector learns about tensor memory.
*/
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "../tensor/product/gemm.h"
#include "message.h"
#include "operations.h"

static const char state_key = 0, raised_key = 0;

/* The state's own context ends with all its blocks, whoever still holds one: Lua loses the finalisers of what others
** make while the state is closing, and of what it collects where the stack has no room for their call. */
static int state_gc(lua_State *L) {
  pni_state *s = lua_touserdata(L, 1);
  pn_context *own = s->own ? s->c : NULL;
  s->c = NULL;
  s->own = false;
  s->closed = true; /* finalisers of objects older than the module come after this one */
  if (own) pni_context_end(own);
  return 0;
}

pni_state *pni_lua_state(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &state_key);
  pni_state *s = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return s;
}

static pni_state *attach(lua_State *L) {
  pni_state *s = lua_newuserdatauv(L, sizeof *s, 0);
  memset(s, 0, sizeof *s);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, state_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &state_key);
  return s;
}

pn_context *pni_lua_context(lua_State *L) {
  pni_state *s = pni_lua_state(L);
  if (s && s->c) return s->c;
  if (s && s->closed) luaL_error(L, "penumbra: the Lua state is closing");
  if (!s) s = attach(L);
  s->c = pn_context_new(NULL);
  if (!s->c) luaL_error(L, "not enough memory");
  s->own = true;
  if (pn_context_status(s->c)) {
    lua_pushstring(L, pn_context_message(s->c));
    pn_context_close(s->c);
    s->c = NULL;
    lua_error(L);
  }
  return s->c;
}

void pni_lua_set_context(lua_State *L, pn_context *c) {
  pni_state *s = pni_lua_state(L);
  if (!s) s = attach(L);
  if (s->own) pn_context_close(s->c);
  s->c = c;
  s->own = false;
}

pn_dtype pni_default_dtype(lua_State *L) {
  pni_state *s = pni_lua_state(L);
  return s ? (pn_dtype)s->default_dtype : PN_FLOAT64;
}

/* ---- errors ---- */

bool pni_is_ours(const char *source) {
  enum { LONGEST = 80 };
  char name[LONGEST] = "penumbra.";
  if (*source == '=') return pni_embedded(source + 1);
  if (*source != '@') return false;
  /* the last "penumbra/" of the path begins the module's name */
  const char *p = NULL;
  for (const char *q = source; (q = strstr(q, "penumbra/")); q++) p = q;
  if (!p || (p[-1] != '/' && p[-1] != '@')) return false;
  size_t n = strlen("penumbra.");
  for (p += n; *p && n < LONGEST - 1; p++) name[n++] = *p == '/' ? '.' : *p;
  if (n < strlen(".lua") || strncmp(name + n - 4, ".lua", 4) != 0) return false;
  name[n - 4] = '\0';
  if (n >= 9 && strcmp(name, "penumbra.init") == 0) return pni_embedded("penumbra");
  return pni_embedded(name);
}

/* Pushes what is told after the place, which is on the stack top. */
static void push_text(lua_State *L, const char *message) {
  pni_push_named(L, message);
  pni_push_with_own_failure(L, lua_tostring(L, -2), lua_tostring(L, -1));
  lua_remove(L, -2);
}

int pni_error(lua_State *L, const char *format, ...) {
  char text[PNI_MESSAGE];
  va_list ap;
  va_start(ap, format);
  lua_pushvfstring(L, format, ap);
  va_end(ap);
  snprintf(text, sizeof text, "%s", lua_tostring(L, -1));
  pni_push_where(L);
  push_text(L, text);
  lua_concat(L, 2);
  return lua_error(L);
}

/* Takes the pending failure out of the context. In a runtime a cancelled operation ends the call: a pcall that caught
 * it would leave the cancellation to a later, innocent operation. */
static pn_status take_failure(lua_State *L, pn_context *c, char text[PNI_MESSAGE]) {
  const pni_state *s = pni_lua_state(L);
  pn_status status = pn_context_status(c);
  strcpy(text, pn_context_message(c));
  pn_context_clear_error(c);
  if (pni_is_stop(status) && s->trip) s->trip(L, status, text);
  return status;
}

void pni_poll(lua_State *L, uint64_t steps) {
  const pni_state *s = pni_lua_state(L);
  if (s && s->poll)
    s->poll(L, steps);
  else if (s && s->c && pni_check_cancel(s->c))
    pni_raise(L, s->c);
}

/* What fails within a finaliser is no failure of the function under capture, in the middle of which it may have run. */
static void spare_capture(lua_State *L, pn_context *c) {
  if (c->recorder && c->broken[0] && !pni_lua_state(L)->broken_where[0] && pni_in_finaliser(L) &&
      strncmp(c->broken, pn_context_message(c), strlen(c->broken)) == 0)
    c->broken[0] = '\0';
}

int pni_raise(lua_State *L, pn_context *c) {
  char text[PNI_MESSAGE];
  spare_capture(L, c);
  pn_status status = take_failure(L, c, text);
  pni_push_where(L);
  if (c->recorder && c->broken[0]) {
    char *where = pni_lua_state(L)->broken_where;
    if (!where[0]) snprintf(where, sizeof pni_lua_state(L)->broken_where, "%s", lua_tostring(L, -1));
  }
  bool limit = status == PN_NOMEM || pni_is_stop(status);
  if (limit)
    lua_pushstring(L, text);
  else
    push_text(L, text[0] ? text : "unknown failure");
  lua_concat(L, 2);
  pni_lua_state(L)->raised = (int)status;
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &raised_key);
  return lua_error(L);
}

/* The status behind the error value at index i if it is the last that pni_raise raised, else PN_OK. */
static pn_status raised_status(lua_State *L, int i) {
  i = lua_absindex(L, i);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &raised_key);
  bool same = lua_rawequal(L, -1, i) && !lua_isnil(L, -1);
  lua_pop(L, 1);
  return same ? (pn_status)pni_lua_state(L)->raised : PN_OK;
}

pn_status pni_raised(lua_State *L, int i) {
  pn_status s = raised_status(L, i);
  return s == PN_NOMEM || pni_is_stop(s) ? s : PN_OK;
}

/* core.raised_status(message) -> "domain" and the like: the kind of the failure in C that was just raised, or nil. */
static int l_raised_status(lua_State *L) {
  luaL_checkany(L, 1);
  pn_status s = raised_status(L, 1);
  if (s == PN_OK) return 0;
  lua_pushstring(L, pn_status_name(s));
  return 1;
}

int pni_push_failure(lua_State *L, pn_context *c) {
  char text[PNI_MESSAGE];
  pn_status s = pn_context_status(c);
  spare_capture(L, c);
  if (c->recorder && c->broken[0]) { /* the script would go another way, for good */
    snprintf(text, sizeof text, "compile: %.900s (whether this fails may differ from call to call)", c->message);
    pn_context_clear_error(c);
    return pni_error(L, "%s", text);
  }
  s = take_failure(L, c, text);
  pni_note_failure(L, text);
  lua_pushnil(L);
  lua_pushstring(L, text);
  lua_pushstring(L, pn_status_name(s));
  return 3;
}

/* core.error(message): raise at the script's line. */
static int l_error(lua_State *L) { return pni_error(L, "%s", luaL_checkstring(L, 1)); }

/* core.script_line() -> "script:line" of the script's innermost line, "" if there is none. */
static int l_script_line(lua_State *L) {
  size_t n;
  pni_push_where(L);
  const char *text = lua_tolstring(L, -1, &n);
  lua_pushlstring(L, text, n > 2 ? n - 2 : 0);
  return 1;
}

/* ---- boxes ---- */

static void release(void *object) {
  pni_box *b = object;
  pn_tensor *t = b->t;
  b->t = NULL;
  pn_tensor_unref(t);
}

const pni_object_type pni_tensor_kind = {"penumbra.tensor", "a tensor", sizeof(pni_box), 0, true, release};

void pni_new_box_metatable(lua_State *L) {
  pni_new_kind(L, &pni_tensor_kind);
  pni_lua_state(L)->box_metatable = lua_topointer(L, -1);
}

pni_box *pni_test_box(lua_State *L, const pni_state *s, int i) {
  if (lua_type(L, i) != LUA_TUSERDATA || !lua_getmetatable(L, i)) return NULL;
  bool ours = lua_topointer(L, -1) == s->box_metatable;
  lua_pop(L, 1);
  return ours ? lua_touserdata(L, i) : NULL;
}

pni_box *pni_new_box(lua_State *L) { return pni_new_object(L, &pni_tensor_kind); }

/* What Lua has dropped is never the reason why a small thing finds no room: beyond three quarters of the limit
 * everything is collected whenever a sixteenth of it was taken since. (Large ones are tried twice: PNI_RETURN,
 * pni_again.) */
static void relieve(lua_State *L, pni_state *s) {
  size_t limit = s->c->limit, now;
  if (!limit || (now = pn_context_memory(s->c, NULL)) <= limit - limit / 4) return;
  if (now < s->swept) s->swept = now;
  if (now - s->swept < limit / 16) return;
  lua_gc(L, LUA_GCCOLLECT, 0);
  s->swept = s->seen = pn_context_memory(s->c, NULL);
}

void pni_make_room(lua_State *L) {
  pni_state *s = pni_lua_state(L);
  if (s && s->c) relieve(L, s);
}

/* Tells the collector about memory it cannot see: a step of its work per 64 KiB by which the context has grown
 * since the last look. Growth, not the size of results: one result may keep many nodes of a graph alive.
 * Steps alone do not do: in generational mode (that of the `lua` command) a box that survives two of them is old,
 * and old ones wait until Lua's own heap has doubled. So when tensors have doubled, everything is collected; that
 * is paid for by growth of at least Lua's heap. */
void pni_tell_collector(lua_State *L) {
  enum { GRAIN = 65536, FLOOR = 16 << 20 };
  pni_state *s = pni_lua_state(L);
  relieve(L, s);
  size_t now = pn_context_memory(s->c, NULL);
  if (now > s->seen) s->debt += now - s->seen;
  s->seen = now;
  if (s->debt < GRAIN) return;
  size_t kib = s->debt >> 10;
  s->debt = 0;
  if (now > FLOOR && now > s->full) {
    lua_gc(L, LUA_GCCOLLECT, 0);
    s->seen = pn_context_memory(s->c, NULL);
    size_t heap = (size_t)lua_gc(L, LUA_GCCOUNT, 0) << 10;
    s->full = 2 * s->seen + (heap > FLOOR ? heap : FLOOR);
  } else {
    lua_gc(L, LUA_GCSTEP, kib > 1u << 20 ? 1 << 20 : (int)kib);
    s->seen = pn_context_memory(s->c, NULL);
  }
}

void pni_fill_box(lua_State *L, pni_box *b, pn_tensor *t) {
  b->t = pn_tensor_ref(t);
  pni_tell_collector(L);
}

void pni_push_tensor(lua_State *L, pn_tensor *t) { pni_fill_box(L, pni_new_box(L), t); }

int pni_finish(lua_State *L, pn_context *c, size_t mark, pni_box *b, pn_tensor *t) {
  if (t) pn_tensor_ref(t);
  pn_scope_close(c, mark);
  if (!t) {
    if (pn_context_status(c) == PN_NOMEM) lua_gc(L, LUA_GCCOLLECT, 0);
    return pni_raise(L, c);
  }
  b->t = t;
  pni_tell_collector(L);
  return 1;
}

void pni_forget(lua_State *L, pn_context *c, size_t mark) {
  pn_scope_close(c, mark);
  pn_context_clear_error(c);
  lua_gc(L, LUA_GCCOLLECT, 0);
}

bool pni_again(lua_State *L, pn_context *c, int *tries) {
  if (pn_context_status(c) != PN_NOMEM || (*tries)++) return false;
  pn_context_clear_error(c);
  lua_gc(L, LUA_GCCOLLECT, 0);
  return true;
}

/* ---- settings ---- */

static int l_default_dtype(lua_State *L) {
  pni_lua_context(L);
  pn_dtype d = pni_check_dtype(L, 1, "default_dtype", pni_default_dtype(L));
  if (!lua_isnoneornil(L, 1) && pni_refuse_capture(pni_lua_context(L), "default_dtype", "set it outside"))
    return pni_raise(L, pni_lua_context(L));
  if (d > PN_FLOAT32) return pni_error(L, "default_dtype: must be float64 or float32, got %s", pn_dtype_name(d));
  pni_lua_state(L)->default_dtype = (int)d;
  lua_pushstring(L, pn_dtype_name(d));
  return 1;
}

static int l_threads(lua_State *L) {
  lua_Integer n = lua_isnoneornil(L, 1) ? 0 : pni_check_whole(L, 1, "threads", "n");
  if (n < 0 || n > 256) return pni_error(L, "threads: n must be 1 to 256, got %I", (LUAI_UACINT)n);
  if (n && pni_refuse_capture(pni_lua_context(L), "threads", "set them outside"))
    return pni_raise(L, pni_lua_context(L));
  lua_pushinteger(L, pn_context_threads(pni_lua_context(L), (int)n));
  return 1;
}

/* blas() -> name, version and processor type of the BLAS library; advice or nil */
static int l_blas(lua_State *L) {
  char text[PNI_SHAPE_TEXT];
  const char *advice = pn_context_advice(pni_lua_context(L));
  pni_blas_describe(text, sizeof text);
  lua_pushstring(L, text);
  lua_pushstring(L, *advice ? advice : NULL);
  return 2;
}

/* memory() -> bytes in use, peak, live objects, blocks ever taken from the allocator */
static int l_memory(lua_State *L) {
  size_t peak;
  pn_context *c = pni_lua_context(L);
  lua_pushinteger(L, (lua_Integer)pn_context_memory(c, &peak));
  lua_pushinteger(L, (lua_Integer)peak);
  lua_pushinteger(L, (lua_Integer)pn_context_objects(c));
  lua_pushinteger(L, (lua_Integer)c->requests);
  return 4;
}

/* reset_peak(): the peak that memory() gives counts from here on */
static int l_reset_peak(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  c->peak = pn_context_memory(c, NULL);
  return 0;
}

static int l_memory_limit(lua_State *L) {
  lua_Integer bytes = pni_check_whole(L, 1, "memory_limit", "bytes");
  if (bytes < 0) return pni_error(L, "memory_limit: bytes must not be negative, got %I", (LUAI_UACINT)bytes);
  if (pni_refuse_capture(pni_lua_context(L), "memory_limit", "set it outside")) return pni_raise(L, pni_lua_context(L));
  pn_context_set_memory_limit(pni_lua_context(L), (size_t)bytes);
  return 0;
}

/* A searcher for package.searchers: modules that came with the library. */
static int search(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  if (pni_push_embedded(L, name)) {
    lua_pushliteral(L, ":embedded:");
    return 2;
  }
  lua_pushfstring(L, "no embedded module '%s'", name);
  return 1;
}

void pni_open_libs(lua_State *L) {
  luaL_openlibs(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_penumbra_core);
  lua_setfield(L, -2, "penumbra.core");
  lua_pop(L, 1);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "searchers");
  for (lua_Integer i = (lua_Integer)lua_rawlen(L, -1); i >= 2; i--) { /* second, after preload */
    lua_rawgeti(L, -1, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushcfunction(L, search);
  lua_rawseti(L, -2, 2);
  lua_pop(L, 2);
}

/* ---- rows: what help, the manual's tables and the batteries read ---- */

static void push_op_row(lua_State *L, const pni_op *op) {
  lua_createtable(L, 0, 8);
  lua_pushliteral(L, "op");
  lua_setfield(L, -2, "kind");
  lua_pushstring(L, op->name);
  lua_setfield(L, -2, "name");
  lua_pushstring(L, op->args);
  lua_setfield(L, -2, "args");
  lua_pushstring(L, op->doc);
  lua_setfield(L, -2, "doc");
  lua_pushboolean(L, op->vjp != NULL);
  lua_setfield(L, -2, "differentiable");
  lua_pushboolean(L, (op->flags & PNI_OP_ELEMENTWISE) != 0);
  lua_setfield(L, -2, "elementwise");
  lua_pushboolean(L, (op->flags & PNI_OP_HIDDEN) != 0);
  lua_setfield(L, -2, "hidden");
  lua_pushboolean(L, (op->flags & PNI_OP_ONCE) != 0);
  lua_setfield(L, -2, "once");
  lua_createtable(L, 3, 0);
  for (int k = 0; k < 3; k++) {
    lua_createtable(L, 2, 0);
    lua_pushnumber(L, op->domain[k].lo);
    lua_rawseti(L, -2, 1);
    lua_pushnumber(L, op->domain[k].hi);
    lua_rawseti(L, -2, 2);
    lua_rawseti(L, -2, k + 1);
  }
  lua_setfield(L, -2, "domain");
}

static int l_op_rows(lua_State *L) {
  lua_createtable(L, pni_op_count(), 0);
  for (int i = 0; i < pni_op_count(); i++) {
    push_op_row(L, pni_op_at(i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* set_tostring(name, f): how values with the metatable `name` are shown. Scripts do not reach the metatable. */
static int l_set_tostring(lua_State *L) {
  static const char *const names[] = {"penumbra.layer", "penumbra.optimiser", NULL};
  const char *name = names[luaL_checkoption(L, 1, NULL, names)];
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  luaL_getmetatable(L, name);
  lua_insert(L, 2);
  lua_setfield(L, 2, "__tostring");
  return 0;
}

static const luaL_Reg functions[] = {{"error", l_error},
                                     {"script_line", l_script_line},
                                     {"raised_status", l_raised_status},
                                     {"default_dtype", l_default_dtype},
                                     {"threads", l_threads},
                                     {"blas", l_blas},
                                     {"memory", l_memory},
                                     {"memory_limit", l_memory_limit},
                                     {"reset_peak", l_reset_peak},
                                     {"op_rows", l_op_rows},
                                     {"set_tostring", l_set_tostring},
                                     {NULL, NULL}};

int luaopen_penumbra_core(lua_State *L) {
  luaL_checkversion(L);
  pni_lua_context(L);
  luaL_newlib(L, functions);
  lua_pushliteral(L, PN_VERSION);
  lua_setfield(L, -2, "version");
  lua_pushnumber(L, 1.8378770664093453); /* log 2 pi, as log of the nearest double has it */
  lua_setfield(L, -2, "log_2pi");
#define X(name) pni_open_##name(L);
#include "parts.def"
#undef X
  return 1;
}
