/*
** watch.c: finding the places outside of a compiled function that it may read. They are the upvalues of the
** function and of the functions it reaches, and the fields of the tables among these: of networks and lists all
** fields, of others those whose name stands among the constants of a function that was reached, as `beta` of
** `config.beta` does, and `beta` of a global. What belongs to Penumbra or to Lua itself is passed over. New fields
** are noticed by the number of fields, or by the names that are missing where a table is large, and by a list's length.
**
** The places are looked at before every replay, so their values are also kept in the form in which that is quick.
** Where there are more than are watched, nothing is known of the rest: then they never hold what they held.
*/
#include <stdio.h>
#include <string.h>
#include "../../autodiff/replay/replay.h"
#include "watch.h"

enum { MOST_PLACES = 20000, MOST_HOLDERS = 5000, LONGEST_NAME = 126 };
enum { SMALL_TABLE = 64 };
static const char nothing = 0;           /* its address stands for nil in a list */
static const char length = 0, count = 0; /* their addresses stand for keys: of a table's border and number of fields */

typedef struct {
  int type; /* LUA_T... */
  bool integer;
  union {
    lua_Integer i;
    lua_Number n;
    const void *p;
  } v;
} mark;

enum { FIELD, POSITION, UPVALUE, LENGTH, COUNT };

typedef struct {
  int how;
  bool fresh;      /* another holder than that of the place before */
  lua_Integer key; /* not of FIELD */
  mark mark;
} place;

/* Its user value is the list {holder, key, value, holder, key, value, ...}: the holder is a function, with numbers of
 * upvalues as keys, or a table. */
typedef struct {
  int n;
  bool full; /* there are more places than these */
  place place[];
} watched;

/* ---- finding: a walk from function to function ---- */

/* Stack indices of the walk. */
typedef struct {
  lua_State *L;
  int names; /* set of the constants of the functions reached, and of other short pieces of their code */
  int queue; /* list of functions and tables, each once */
  int seen;  /* set of these; of a table: the set of its fields that are in the list */
  int skip;  /* set of tables that are modules */
  int n, done;
  int fields;      /* that are watched */
  bool full;       /* something was left out */
  unsigned pieces; /* of code looked at */
} walk;

/* lua_dump writes each string of its own accord, as one piece. */
static int note_piece(lua_State *L, const void *p, size_t size, void *data) {
  enum { STRIDE = 1024 };
  walk *w = data;
  if (++w->pieces % STRIDE == 0) pni_poll(L, STRIDE);
  if (size == 0 || size > LONGEST_NAME) return 0;
  lua_pushlstring(L, p, size);
  lua_pushboolean(L, 1);
  lua_rawset(L, w->names);
  return 0;
}

/* Is the string at index i a constant of a function that was reached? Of long ones it is not known. */
static bool mentioned(walk *w, int i) {
  if (lua_rawlen(w->L, i) > LONGEST_NAME) return true;
  lua_pushvalue(w->L, i);
  bool found = lua_rawget(w->L, w->names) != LUA_TNIL;
  lua_pop(w->L, 1);
  return found;
}

static bool is_own(lua_State *L, int f) {
  lua_Debug ar;
  lua_pushvalue(L, f);
  lua_getinfo(L, ">S", &ar);
  return pni_is_ours(ar.source);
}

static bool has_mark(lua_State *L, int t, const char *name) {
  if (!luaL_getmetafield(L, t, name)) return false;
  bool yes = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return yes;
}

/* Networks, and what a script has made an operation or a distribution of: all their fields count. */
static bool is_whole(lua_State *L, int t) { return has_mark(L, t, "network") || has_mark(L, t, "own"); }

/* Takes the value on the top, which stays, into the queue if it is a function or table not yet there. */
static void reach(walk *w) {
  lua_State *L = w->L;
  bool function = lua_isfunction(L, -1) && !lua_iscfunction(L, -1) && !is_own(L, lua_gettop(L));
  if (!function && !lua_istable(L, -1)) {
    if (!pni_is_compiled(L, -1)) return;
    luaL_checkstack(L, 20, "compile");
    lua_getiuservalue(L, -1, PNI_COMPILED_FUNCTION);
    reach(w);
    lua_pop(L, 1);
    return;
  }
  lua_pushvalue(L, -1);
  bool known = lua_rawget(L, w->seen) != LUA_TNIL;
  lua_pop(L, 1);
  lua_pushvalue(L, -1);
  known |= lua_rawget(L, w->skip) != LUA_TNIL;
  lua_pop(L, 1);
  if (known) return;
  if (w->n >= MOST_HOLDERS) {
    w->full = true;
    return;
  }
  lua_pushvalue(L, -1);
  lua_newtable(L);
  lua_rawset(L, w->seen);
  lua_pushvalue(L, -1);
  lua_rawseti(L, w->queue, ++w->n);
  if (!function) return;
  lua_dump(L, note_piece, w, 1);
}

static void reach_upvalues(walk *w, int f) {
  for (int i = 1; lua_getupvalue(w->L, f, i); i++) {
    reach(w);
    lua_pop(w->L, 1);
  }
}

/* Is the field with the key at -2 and the value at -1 of table t to be watched? */
static bool is_watched(walk *w, bool all) {
  lua_State *L = w->L;
  if (lua_iscfunction(L, -1) || lua_rawequal(L, -1, -1) == 0) return false; /* a NaN never equals itself */
  return all || lua_type(L, -2) != LUA_TSTRING || mentioned(w, -2);
}

/* Reaches what the watched fields of a table hold; true if there were new ones. */
static bool reach_fields(walk *w, int t) {
  lua_State *L = w->L;
  bool fresh = false, all = is_whole(L, t);
  int n = 0;
  lua_pushvalue(L, t);
  lua_rawget(L, w->seen);
  int fields = lua_gettop(L);
  if (luaL_getmetafield(L, t, "__index") != LUA_TNIL) {
    reach(w);
    lua_pop(L, 1);
  }
  lua_pushnil(L);
  while (lua_next(L, t)) {
    if (++n % 64 == 0) pni_poll(L, 64);
    lua_pushvalue(L, -2);
    bool known = lua_rawget(L, fields) != LUA_TNIL;
    lua_pop(L, 1);
    if (!known && is_watched(w, all)) {
      w->full |= ++w->fields > MOST_PLACES;
      if (w->full) break;
      fresh = true;
      lua_pushvalue(L, -2);
      lua_pushboolean(L, 1);
      lua_rawset(L, fields);
      reach(w);
    }
    lua_pop(L, 1);
  }
  lua_settop(L, fields - 1);
  return fresh;
}

/* Takes the modules of the table on the top, which is popped, into the set. */
static void skip_loaded(walk *w) {
  lua_State *L = w->L;
  static const char *const names[] = {"coroutine", "debug", "io", "math", "os", "package", "string", "table", "utf8"};
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    bool ours = strcmp(name, "penumbra") == 0 || strncmp(name, "penumbra.", 9) == 0;
    for (size_t i = 0; !ours && i < sizeof names / sizeof *names; i++) ours = strcmp(name, names[i]) == 0;
    if (ours && lua_istable(L, -1)) {
      lua_pushvalue(L, -1);
      lua_pushboolean(L, 1);
      lua_rawset(L, w->skip);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void skip_modules(walk *w) {
  luaL_getsubtable(w->L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  skip_loaded(w);
  if (pni_push_own(w->L)) skip_loaded(w);
}

/* From the function at index f on, until nothing new comes. Names of functions found late count for tables
 * found early. */
static void explore(walk *w, int f) {
  lua_State *L = w->L;
  lua_pushvalue(L, f);
  reach(w);
  lua_pop(L, 1);
  bool fresh = true;
  while (fresh) {
    fresh = false;
    for (int i = 1; i <= w->n; i++) {
      lua_rawgeti(L, w->queue, i);
      pni_poll(L, 1);
      int at = lua_gettop(L);
      if (lua_istable(L, at))
        fresh |= reach_fields(w, at);
      else if (i > w->done)
        reach_upvalues(w, at);
      lua_settop(L, at - 1);
    }
    fresh |= w->done < w->n;
    w->done = w->n;
  }
}

/* ---- the list ---- */

/* Modules and functions in C stay as they are. */
static bool is_module(walk *w) {
  lua_State *L = w->L;
  if (lua_isfunction(L, -1)) return lua_iscfunction(L, -1) || is_own(L, lua_gettop(L));
  if (!lua_istable(L, -1)) return lua_rawequal(L, -1, -1) == 0;
  lua_pushglobaltable(L);
  bool yes = lua_rawequal(L, -1, -2);
  lua_pop(L, 1);
  lua_pushvalue(L, -1);
  yes |= lua_rawget(L, w->skip) != LUA_TNIL;
  lua_pop(L, 1);
  return yes;
}

/* Appends the place: holder at index `holder`, key at -2, value at -1, which is popped. */
static void put(walk *w, int list, int holder) {
  lua_State *L = w->L;
  lua_Integer n = (lua_Integer)lua_rawlen(L, list);
  bool left_out = is_module(w);
  if (!left_out && n >= 3 * MOST_PLACES) left_out = w->full = true;
  if (left_out) {
    lua_pop(L, 1);
    return;
  }
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_pushlightuserdata(L, (void *)(uintptr_t)&nothing);
  }
  lua_rawseti(L, list, n + 3); /* the border of the list stays n until all three are there */
  lua_pushvalue(L, -1);
  lua_rawseti(L, list, n + 2);
  lua_pushvalue(L, holder);
  lua_rawseti(L, list, n + 1);
}

static void list_upvalues(walk *w, int f, int list) {
  for (int i = 1; lua_getupvalue(w->L, f, i); i++) {
    lua_pushinteger(w->L, i);
    lua_insert(w->L, -2);
    put(w, list, f);
    lua_pop(w->L, 1);
  }
}

/* The number of fields of the table at index t, as far as `most`; *keyed: are some of these no positions? */
static int count_fields(lua_State *L, int t, int most, bool *keyed) {
  int n = 0;
  t = lua_absindex(L, t);
  for (lua_pushnil(L); lua_next(L, t); lua_pop(L, 1)) {
    *keyed |= !lua_isinteger(L, -2);
    if (++n == most) {
      lua_pop(L, 2);
      break;
    }
  }
  return n;
}

/* The names among the constants that the table at index t has no field of. */
static void list_missing(walk *w, int t, int list) {
  lua_State *L = w->L;
  lua_pushnil(L);
  while (lua_next(L, w->names)) {
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, t) == LUA_TNIL) {
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      put(w, list, t);
    }
    lua_pop(L, 1);
  }
}

/* Where a new field of the table at index t would be seen. */
static void list_shape(walk *w, int t, int list) {
  lua_State *L = w->L;
  bool keyed = false;
  int n = count_fields(L, t, SMALL_TABLE, &keyed);
  lua_pushglobaltable(L);
  bool large = n == SMALL_TABLE || lua_rawequal(L, -1, t);
  lua_pop(L, 1);
  if (keyed && large) list_missing(w, t, list);
  bool counted = n == 0 || (keyed && !large);
  lua_pushlightuserdata(L, (void *)(uintptr_t)(counted ? &count : &length));
  lua_pushinteger(L, counted ? n : (lua_Integer)lua_rawlen(L, t));
  put(w, list, t);
  lua_pop(L, 1);
}

static void list_fields(walk *w, int t, int list) {
  lua_State *L = w->L;
  lua_pushvalue(L, t);
  lua_rawget(L, w->seen);
  int fields = lua_gettop(L);
  lua_pushnil(L);
  while (lua_next(L, fields)) {
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_rawget(L, t);
    put(w, list, t);
  }
  lua_settop(L, fields - 1);
  list_shape(w, t, list);
}

/* ---- the same for a quick look ---- */

/* A value by its address, or by itself if it has none. (The list keeps what has an address alive.) */
static mark mark_of(lua_State *L, int i) {
  mark m = {.type = lua_type(L, i)};
  switch (m.type) {
  case LUA_TNUMBER:
    m.integer = lua_isinteger(L, i);
    if (m.integer)
      m.v.i = lua_tointeger(L, i);
    else
      m.v.n = lua_tonumber(L, i);
    break;
  case LUA_TBOOLEAN: m.v.i = lua_toboolean(L, i); break;
  case LUA_TNIL: m.v.i = 0; break;
  default: m.v.p = lua_topointer(L, i);
  }
  return m;
}

static inline bool is_marked(lua_State *L, int i, const mark *m) {
  if (lua_type(L, i) != m->type) return false;
  if (m->type == LUA_TNUMBER) {
    if (lua_isinteger(L, i) != m->integer) return false;
    return m->integer ? lua_tointeger(L, i) == m->v.i : lua_tonumber(L, i) == m->v.n;
  }
  if (m->type == LUA_TBOOLEAN) return lua_toboolean(L, i) == m->v.i;
  return m->type == LUA_TNIL || lua_topointer(L, i) == m->v.p;
}

/* Pushes the value that is now in the place k of the list; its holder is on the top. */
static inline void push_now(lua_State *L, int list, const place *p, int k) {
  switch (p->how) {
  case UPVALUE: lua_getupvalue(L, -1, (int)p->key); break;
  case POSITION: lua_rawgeti(L, -1, p->key); break;
  case LENGTH: lua_pushinteger(L, (lua_Integer)lua_rawlen(L, -1)); break;
  case COUNT: lua_pushinteger(L, count_fields(L, -1, SMALL_TABLE, &(bool){false})); break;
  default: lua_rawgeti(L, list, 3 * k + 2); lua_rawget(L, -2);
  }
}

/* The places of the list on the top as a userdata, which keeps the list and takes its place. */
static void index_list(lua_State *L, bool full) {
  int list = lua_gettop(L), n = (int)lua_rawlen(L, list) / 3;
  watched *w = lua_newuserdatauv(L, sizeof *w + (size_t)n * sizeof *w->place, 1);
  w->n = n;
  w->full = full;
  for (int k = 0; k < n; k++) {
    place *p = &w->place[k];
    *p = (place){.how = FIELD, .fresh = true};
    bool function = lua_rawgeti(L, list, 3 * k + 1) == LUA_TFUNCTION;
    if (k > 0) {
      lua_rawgeti(L, list, 3 * k - 2);
      p->fresh = !lua_rawequal(L, -1, -2);
      lua_pop(L, 1);
    }
    lua_rawgeti(L, list, 3 * k + 2);
    if (function || lua_isinteger(L, -1)) {
      p->how = function ? UPVALUE : POSITION;
      p->key = lua_tointeger(L, -1);
    } else if (lua_touserdata(L, -1) == (const void *)&length) {
      p->how = LENGTH;
    } else if (lua_touserdata(L, -1) == (const void *)&count) {
      p->how = COUNT;
    }
    lua_rawgeti(L, list, 3 * k + 3);
    if (lua_touserdata(L, -1) == (const void *)&nothing) {
      lua_pop(L, 1);
      lua_pushnil(L);
    }
    p->mark = mark_of(L, -1);
    lua_settop(L, list + 1);
  }
  lua_insert(L, list);
  lua_setiuservalue(L, list, 1);
}

void pni_watch_list(lua_State *L, int f) {
  f = lua_absindex(L, f);
  luaL_checkstack(L, 260, "compile"); /* reach goes on to 200 */
  lua_newtable(L);
  int list = lua_gettop(L);
  walk w = {.L = L, .names = list + 1, .queue = list + 2, .seen = list + 3, .skip = list + 4};
  for (int k = 0; k < 4; k++) lua_newtable(L);
  skip_modules(&w);
  explore(&w, f);
  for (int i = 1; i <= w.n; i++) {
    lua_rawgeti(L, w.queue, i);
    int holder = lua_gettop(L);
    if (lua_istable(L, holder))
      list_fields(&w, holder, list);
    else
      list_upvalues(&w, holder, list);
    lua_settop(L, holder - 1);
  }
  lua_settop(L, list);
  index_list(L, w.full);
}

/* ---- looking ---- */

/* The first place from k on that has changed, or -1. */
static int next_change(lua_State *L, const watched *w, int list, int k) {
  bool fresh = true;
  for (; k < w->n; k++, fresh = false) {
    const place *p = &w->place[k];
    if (p->fresh || fresh) {
      lua_settop(L, list);
      lua_rawgeti(L, list, 3 * k + 1);
    }
    push_now(L, list, p, k);
    if (!is_marked(L, -1, &p->mark)) break;
    lua_pop(L, 1);
  }
  lua_settop(L, list);
  return k < w->n ? k : -1;
}

bool pni_watch_same(lua_State *L, int at) {
  const watched *w = lua_touserdata(L, at);
  if (!w) return true;
  if (w->full) return false;
  lua_getiuservalue(L, at, 1);
  bool same = next_change(L, w, lua_gettop(L), 0) < 0;
  lua_pop(L, 1);
  return same;
}

static void write_name(lua_State *L, const watched *w, int list, int k, char name[80]) {
  const char *text = NULL;
  lua_rawgeti(L, list, 3 * k + 1);
  lua_rawgeti(L, list, 3 * k + 2);
  if (w->place[k].how == UPVALUE && (text = lua_getupvalue(L, -2, (int)w->place[k].key))) lua_pop(L, 1);
  if (w->place[k].how == FIELD && lua_type(L, -1) == LUA_TSTRING) text = lua_tostring(L, -1);
  if (text && *text && *text != '(')
    snprintf(name, 80, "'%.70s'", text);
  else if (w->place[k].how >= LENGTH)
    strcpy(name, "a table");
  else
    strcpy(name, "a place");
  lua_pop(L, 2);
}

bool pni_watch_first(lua_State *L, int at, char name[80], const char **type) {
  const watched *w = lua_touserdata(L, at);
  if (!w) return false;
  lua_getiuservalue(L, at, 1);
  int list = lua_gettop(L), k = next_change(L, w, list, 0);
  if (k >= 0) {
    write_name(L, w, list, k, name);
    lua_rawgeti(L, list, 3 * k + 3);
    bool nil = lua_touserdata(L, -1) == (const void *)&nothing;
    *type = nil ? "nil" : w->place[k].how >= LENGTH ? "table" : pni_type_name(L, -1);
  } else if (w->full) {
    strcpy(name, "what it sees");
    *type = "everything";
  }
  lua_settop(L, list - 1);
  return k >= 0 || w->full;
}

static bool is_scalar(int type) { return type == LUA_TNUMBER || type == LUA_TBOOLEAN || type == LUA_TSTRING; }

bool pni_watch_changed(lua_State *L, int at, char name[80]) {
  const watched *w = lua_touserdata(L, at);
  if (!w) return false;
  lua_getiuservalue(L, at, 1);
  int list = lua_gettop(L), k = -1;
  bool found = false;
  while (!found && (k = next_change(L, w, list, k + 1)) >= 0) {
    if (!is_scalar(w->place[k].mark.type) || w->place[k].how >= LENGTH) continue;
    lua_rawgeti(L, list, 3 * k + 1);
    push_now(L, list, &w->place[k], k);
    found = is_scalar(lua_type(L, -1));
    lua_settop(L, list);
  }
  if (found) write_name(L, w, list, k, name);
  lua_settop(L, list - 1);
  return found;
}

bool pni_watch_holds_result(lua_State *L, int at, char name[80]) {
  pn_context *c = pni_lua_context(L);
  const watched *w = lua_touserdata(L, at);
  if (!w) return false;
  lua_getiuservalue(L, at, 1);
  int list = lua_gettop(L);
  bool found = false;
  for (int k = 0; k < w->n && !found; k++) {
    lua_rawgeti(L, list, 3 * k + 3);
    const pn_tensor *t = pni_test_tensor(L, -1);
    found = t && pni_record_made(c, t);
    lua_settop(L, list);
    if (found) write_name(L, w, list, k, name);
  }
  lua_settop(L, list - 1);
  return found;
}
