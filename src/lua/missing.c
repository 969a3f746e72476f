/*
** missing.c: names that do not exist. An object (tensor, distribution, layer...) raises at once and names the nearest.
** A namespace (pn.dist...) gives nil, so that `if pn.dist.foo then` asks whether it is there; what was missed last is
** remembered, and told where calling or indexing that nil fails and the error is reported.
*/
#define _POSIX_C_SOURCE 200809L
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "../distribution/bijector/bijector.h"
#include "../distribution/distribution.h"
#include "../nn/layer.h"
#include "../nn/optimiser/optimiser.h"
#include "message.h"

/* ---- nearness ---- */

enum { LONGEST = 62, STEP = 10, REPLACED = 11, UNDERSCORE = 4, CASE = 1, FAR = 1 << 20 };

static int change(char a, char b) {
  if (a == b) return 0;
  return tolower((unsigned char)a) == tolower((unsigned char)b) ? CASE : REPLACED;
}

static int width(char a) { return a == '_' ? UNDERSCORE : STEP; }

static int least(int a, int b) { return a < b ? a : b; }

/* Ten times the letters to insert, delete, replace, or swap with a neighbour (Damerau 1964); an underscore or another
 * case costs less, another letter a little more. */
static int distance(const char *a, const char *b) {
  int row[3][LONGEST + 1], m = (int)strlen(a), n = (int)strlen(b);
  if (m > LONGEST || n > LONGEST) return FAR;
  row[0][0] = 0;
  for (int j = 0; j < n; j++) row[0][j + 1] = row[0][j] + width(b[j]);
  for (int i = 0; i < m; i++) {
    int *now = row[(i + 1) % 3], *before = row[i % 3], *earlier = row[(i + 2) % 3];
    now[0] = before[0] + width(a[i]);
    for (int j = 0; j < n; j++) {
      int best = least(before[j + 1] + width(a[i]), now[j] + width(b[j]));
      best = least(best, before[j] + change(a[i], b[j]));
      if (i && j && a[i] == b[j - 1] && a[i - 1] == b[j]) best = least(best, earlier[j - 1] + STEP);
      now[j + 1] = best;
    }
  }
  return row[m % 3][n];
}

void pni_near_begin(pni_near *near, const char *wanted) {
  if (memchr(wanted, 0, LONGEST + 1) == NULL) wanted = ""; /* nothing is near a name that is longer than all of them */
  int third = (int)strlen(wanted) / 3;
  near->wanted = wanted;
  near->limit = REPLACED * (third < 1 ? 1 : third > 3 ? 3 : third);
  near->distance = FAR;
  *near->name = '\0';
}

void pni_near_offer(pni_near *near, const char *name) {
  int d = distance(near->wanted, name);
  size_t n = strlen(near->wanted);
  if (d > near->limit && n >= 3 && strncmp(near->wanted, name, n) == 0) d = near->limit;
  if (d > near->limit || d >= STEP * (int)strlen(name)) return;
  if (d > near->distance || (d == near->distance && strcmp(name, near->name) > 0)) return;
  near->distance = d;
  snprintf(near->name, sizeof near->name, "%s", name);
}

/* ---- spaces: label -> {table, list of further names} ---- */

static const char spaces_key = 0;

static void push_spaces(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &spaces_key) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &spaces_key);
}

void pni_add_space(lua_State *L, const char *label, int table, int names) {
  table = lua_absindex(L, table);
  push_spaces(L);
  lua_createtable(L, 2, 0);
  lua_pushvalue(L, table);
  lua_rawseti(L, -2, 1);
  if (names) {
    lua_pushvalue(L, names);
    lua_rawseti(L, -2, 2);
  }
  lua_setfield(L, -2, label);
  lua_pop(L, 1);
  pni_forget_members(L);
}

static void offer_keys(lua_State *L, pni_near *near, int t) {
  t = lua_absindex(L, t);
  lua_pushnil(L);
  while (lua_next(L, t)) {
    if (lua_type(L, -2) == LUA_TSTRING && *lua_tostring(L, -2) != '_') pni_near_offer(near, lua_tostring(L, -2));
    lua_pop(L, 1);
  }
}

static void offer_list(lua_State *L, pni_near *near, int t) {
  t = lua_absindex(L, t);
  for (lua_Integer i = 1; lua_rawgeti(L, t, i) == LUA_TSTRING; i++, lua_pop(L, 1))
    pni_near_offer(near, lua_tostring(L, -1));
  lua_pop(L, 1);
}

static void offer_space(lua_State *L, pni_near *near, const char *label) {
  push_spaces(L);
  if (pni_get_raw(L, -1, label) == LUA_TTABLE) {
    lua_rawgeti(L, -1, 1);
    offer_keys(L, near, -1);
    if (lua_rawgeti(L, -2, 2) == LUA_TTABLE) offer_list(L, near, -1);
    lua_pop(L, 2);
  }
  lua_pop(L, 2);
}

/* Where else the very name is: pushes "pn.dist.gamma" or returns false. */
static bool push_elsewhere(lua_State *L, const char *key) {
  const char *home = pni_dist_find(key)        ? "pn.dist"
                     : pni_layer_find(key)     ? "pn.nn"
                     : pni_optimiser_find(key) ? "pn.optim"
                     : pni_bijector_find(key)  ? "pn.dist.bijector"
                                               : NULL;
  if (home) return lua_pushfstring(L, "%s.%s", home, key), true;
  char best[64] = "";
  push_spaces(L);
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    const char *label = lua_tostring(L, -2);
    lua_rawgeti(L, -1, 1);
    lua_pushstring(L, key);
    bool shorter = !*best || strlen(label) < strlen(best) || (strlen(label) == strlen(best) && strcmp(label, best) < 0);
    if (lua_rawget(L, -2) != LUA_TNIL && !strchr(label, ' ') && shorter) snprintf(best, sizeof best, "%s", label);
    lua_pop(L, 3);
  }
  lua_pop(L, 1);
  if (!*best) return false;
  lua_pushfstring(L, best[strlen(best) - 1] == ':' ? "%s%s" : "%s.%s", best, key);
  return true;
}

/* Pushes ", did you mean 'x'?" or "" for a key that is not there. */
static void push_suggestion(lua_State *L, const pni_near *near, const char *key) {
  if (near->distance < STEP)
    lua_pushfstring(L, ", did you mean '%s'?", near->name); /* a matter of case and underscores */
  else if (push_elsewhere(L, key))
    lua_pushfstring(L, ", did you mean '%s'?", lua_tostring(L, -1)), lua_remove(L, -2);
  else if (*near->name)
    lua_pushfstring(L, ", did you mean '%s'?", near->name);
  else
    lua_pushliteral(L, "");
}

void pni_push_nearest(lua_State *L, const pni_near *near) {
  if (*near->name)
    lua_pushfstring(L, ", did you mean '%s'?", near->name);
  else
    lua_pushliteral(L, "");
}

/* ---- functions -> "-name other" or, if they are methods of objects of many kinds, "=name other" ---- */

static const char members_key = 0;

void pni_forget_members(lua_State *L) {
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &members_key);
}

/* Adds the functions of the table at -1 to the table at index `members`. */
static void add_members(lua_State *L, int members, bool kind) {
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "_";
    if (lua_isfunction(L, -1) && *key != '_') {
      lua_pushvalue(L, -1);
      const char *known = lua_rawget(L, members) == LUA_TSTRING ? lua_tostring(L, -1) : "";
      lua_pushvalue(L, -2);
      lua_pushfstring(L, "%s%s%s%s", kind && *known != '-' ? "=" : "-", *known ? known + 1 : "", *known ? " " : "",
                      key);
      lua_rawset(L, members);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
}

/* Pushes the table of members, gathered from all spaces where something has changed. */
static void push_members(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &members_key) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  int members = lua_gettop(L);
  push_spaces(L);
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    const char *label = lua_tostring(L, -2);
    lua_rawgeti(L, -1, 1);
    add_members(L, members, strchr(label, ' ') || strcmp(label, "d:") == 0);
    lua_pop(L, 2);
  }
  lua_pop(L, 1);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &members_key);
}

/* Of the words of `list` the one `called`, else the shortest (of these the first in the alphabet). */
static void choose(const char *list, const char *called, char *name, size_t size) {
  char word[64];
  *name = '\0';
  for (int used; sscanf(list, " %63s%n", word, &used) == 1; list += used) {
    bool shorter = strlen(word) < strlen(name) || (strlen(word) == strlen(name) && strcmp(word, name) < 0);
    if (!*name || shorter) snprintf(name, size, "%s", word);
    if (!called || strcmp(word, called) != 0) continue;
    snprintf(name, size, "%s", word);
    return;
  }
}

bool pni_find_member(lua_State *L, int f, const char *called, char *name, size_t size, bool *kind) {
  f = lua_absindex(L, f);
  push_members(L);
  lua_pushvalue(L, f);
  bool found = lua_rawget(L, -2) == LUA_TSTRING;
  if (found) {
    const char *list = lua_tostring(L, -1);
    *kind = *list == '=';
    choose(list + 1, called, name, size);
  }
  lua_pop(L, 2);
  return found;
}

/* ---- objects ---- */

/* What NumPy's and PyTorch's methods of arrays are here; pn.help "arrays" has more. */
static const struct {
  const char *there, *here;
} of_arrays[] = {
    {"T", "x:t()"},
    {"add_", "tensors do not change: x = x + y"},
    {"astype", "x:to \"float32\""},
    {"bmm", "x:matmul(y)"},
    {"clone", "tensors do not change: x itself is as good as a copy, of a parameter x * 1"},
    {"copy", "tensors do not change: x itself is as good as a copy, of a parameter x * 1"},
    {"cpu", "tensors live in the processor's memory"},
    {"cuda", "tensors live in the processor's memory"},
    {"data", "x:detach()"},
    {"device", "tensors live in the processor's memory"},
    {"dim", "x:ndim()"},
    {"double", "x:to \"float64\""},
    {"expand", "x:broadcast_to{sizes}"},
    {"float", "x:to \"float32\""},
    {"int", "x:to \"int64\""},
    {"long", "x:to \"int64\""},
    {"masked_fill", "pn.where(mask, value, x)"},
    {"mm", "x:matmul(y)"},
    {"mul_", "tensors do not change: x = x * y"},
    {"numpy", "x:totable(), pn.data.save_npy(path, x)"},
    {"ravel", "x:flatten()"},
    {"repeat", "x:tile{n, m}"},
    {"tolist", "x:totable()"},
    {"type", "x:dtype(), x:to \"float32\""},
    {"view", "x:reshape{sizes}"},
    {"zero_", "tensors do not change: x = x * 0"},
};

/* What other libraries' methods of networks, optimisers, distributions and posteriors are here. */
static const struct {
  const char *there, *here;
} of_others[] = {
    {"eval", "the call has the mode: net:evaluate(x)"},
    {"get_samples", "p.draws"},
    {"load_state_dict", "net:load_state(t)"},
    {"log_pdf", "d:log_prob(x)"},
    {"logpdf", "d:log_prob(x)"},
    {"logpmf", "d:log_prob(x)"},
    {"pdf", "d:log_prob(x):exp()"},
    {"pmf", "d:log_prob(x):exp()"},
    {"ppf", "d:icdf(p)"},
    {"print_summary", "print(p), p:summary()"},
    {"rvs", "d:sample{n}"},
    {"state_dict", "net:state()"},
    {"to_event", "d:independent(k): the last k batch axes become the event's"},
    {"train", "the call has the mode: net(x), and net:evaluate(x)"},
    {"zero_grad", "opt:step(loss) takes fresh gradients each time"},
};

/* What is called `key` elsewhere, or NULL. */
static const char *elsewhere(const char *what, const char *key) {
  if (strcmp(what, "a tensor") == 0) {
    for (size_t i = 0; i < sizeof of_arrays / sizeof *of_arrays; i++)
      if (strcmp(of_arrays[i].there, key) == 0) return of_arrays[i].here;
    return NULL;
  }
  for (size_t i = 0; i < sizeof of_others / sizeof *of_others; i++)
    if (strcmp(of_others[i].there, key) == 0) return of_others[i].here;
  return NULL;
}

int pni_no_such(lua_State *L, const char *what, const char *const *more) {
  if (lua_type(L, 2) != LUA_TSTRING) return pni_error(L, "%s has no field that is a %s", what, luaL_typename(L, 2));
  const char *key = lua_tostring(L, 2), *here = elsewhere(what, key);
  if (here) return pni_error(L, "%s has no method or field '%s': %s", what, key, here);
  pni_near near;
  pni_near_begin(&near, key);
  for (; more && *more; more++) pni_near_offer(&near, *more);
  if (lua_istable(L, lua_upvalueindex(1))) offer_keys(L, &near, lua_upvalueindex(1));
  push_suggestion(L, &near, key);
  return pni_error(L, "%s has no method or field '%s'%s", what, key, lua_tostring(L, -1));
}

/* __index of a table of methods: upvalues methods, what. */
static int no_method(lua_State *L) { return pni_no_such(L, lua_tostring(L, lua_upvalueindex(2)), NULL); }

void pni_guard_methods(lua_State *L, const char *what) {
  pni_add_space(L, what, -1, 0);
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, -2);
  lua_pushstring(L, what);
  lua_pushcclosure(L, no_method, 2);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
}

/* ---- namespaces ---- */

/* Remembers that the script asked `label` for `key` in vain. */
static void note(lua_State *L, const char *label, const char *key) {
  pni_missed *m = &pni_lua_state(L)->missed;
  lua_Debug ar;
  m->line = 0;
  for (int level = 1; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline <= 0 || pni_is_ours(ar.source)) continue;
    m->line = ar.currentline;
    snprintf(m->source, sizeof m->source, "%s", ar.short_src);
    snprintf(m->label, sizeof m->label, "%s", label);
    snprintf(m->key, sizeof m->key, "%s", key);
    return;
  }
}

enum { LINE = 512 };

/* The next line of a file, of a long one the beginning. */
static bool next_line(FILE *f, char text[LINE]) {
  if (!fgets(text, LINE, f)) return false;
  for (int ch = strchr(text, '\n') ? '\n' : 0; ch != '\n' && ch != EOF;) ch = getc(f);
  return true;
}

/* The line of the running chunk's source, of its file or of the text that was loaded, into `text`; "" if it is not to
 * be had. A sandbox reads no files. */
static void read_line(lua_State *L, const lua_Debug *ar, char text[LINE]) {
  const char *from = ar->source;
  int line = 1;
  *text = '\0';
  if (*from == '@') {
    struct stat st; /* of a pipe nothing is to be had a second time */
    bool plain = !pni_lua_state(L)->poll && stat(from + 1, &st) == 0 && S_ISREG(st.st_mode);
    FILE *f = plain ? fopen(from + 1, "r") : NULL;
    for (; f && line <= ar->currentline && next_line(f, text); line++) continue;
    if (f) fclose(f);
    if (line <= ar->currentline) *text = '\0';
  } else if (*from != '=') {
    for (; from && line < ar->currentline; line++) from = (from = strchr(from, '\n')) ? from + 1 : NULL;
    if (from) snprintf(text, LINE, "%.*s", (int)strcspn(from, "\n"), from);
  }
}

/* Is a field of that name called wherever the line speaks of one? */
static bool only_calls(const char *line, const char *key) {
  size_t n = strlen(key);
  int calls = 0;
  for (const char *at = line; (at = strstr(at, key)) != NULL; at += n) {
    if (at == line || (at[-1] != '.' && at[-1] != ':') || isalnum((unsigned char)at[n]) || at[n] == '_') continue;
    const char *after = at + n + strspn(at + n, " \t");
    if (!*after || !strchr("({\"'", *after)) return false;
    calls++;
  }
  return calls > 0;
}

static void push_no_such_name(lua_State *L, const pni_missed *m);

/* Nil for a name that is not there; where the line of a script that asks for it calls it, the error that the call would
 * raise, in words that say what is near: also for those who catch it, or whom nobody tells. level: of who asks. */
static int miss(lua_State *L, const char *label, const char *key, int level) {
  char line[LINE];
  lua_Debug ar;
  note(L, label, key);
  if (!lua_getstack(L, level, &ar) || !lua_getinfo(L, "Sl", &ar) || ar.currentline <= 0 || pni_is_ours(ar.source))
    return 0;
  read_line(L, &ar, line);
  if (!only_calls(line, key)) return 0;
  luaL_checkstack(L, 20, "too deep");
  push_no_such_name(L, &pni_lua_state(L)->missed);
  return lua_error(L);
}

/* missed(label, key) -> nil; for an __index in Lua */
static int l_missed(lua_State *L) {
  const char *label = luaL_checkstring(L, 1);
  return lua_type(L, 2) == LUA_TSTRING ? miss(L, label, lua_tostring(L, 2), 2) : 0;
}

static int namespace_index(lua_State *L) {
  return lua_type(L, 2) == LUA_TSTRING ? miss(L, lua_tostring(L, lua_upvalueindex(1)), lua_tostring(L, 2), 1) : 0;
}

/* last_missed() -> what is said of the name that was asked for last and is not there, the source and line that asked;
 * or nothing. */
static int l_last_missed(lua_State *L) {
  const pni_missed *m = &pni_lua_state(L)->missed;
  if (!m->line) return 0;
  push_no_such_name(L, m);
  lua_pushstring(L, m->source);
  lua_pushinteger(L, m->line);
  return 3;
}

/* namespace(label, table [, names]) -> table, whose functions are public and whose missing names are noted from now on;
 * with a metatable of its own it calls `missed` itself. names: list of what it has beside its fields. */
static int l_namespace(lua_State *L) {
  const char *label = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 3);
  pni_publish(L, 2);
  pni_add_space(L, label, 2, lua_istable(L, 3) ? 3 : 0);
  lua_settop(L, 2);
  if (lua_getmetatable(L, 2)) return lua_pop(L, 1), 1;
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, 1);
  lua_pushcclosure(L, namespace_index, 1);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, 2);
  return 1;
}

/* "script:12: attempt to call a nil value (field 'gama')": does it speak of what was missed? */
static bool is_about(const pni_missed *m, const char *message) {
  enum { REACH = 8 }; /* lines of one expression */
  char tail[96];
  size_t n = strlen(m->source), end;
  int line;
  if (!m->line || strncmp(message, m->source, n) != 0 || sscanf(message + n, ":%d: attempt to", &line) != 1)
    return false;
  if (line > m->line + REACH || line < m->line - REACH) return false;
  for (int method = 0; method < 2; method++) {
    snprintf(tail, sizeof tail, " a nil value (%s '%s')", method ? "method" : "field", m->key);
    end = strlen(tail);
    if (strlen(message) >= end && strcmp(message + strlen(message) - end, tail) == 0) return true;
  }
  return false;
}

/* Lua's own functions take numbers only. */
static bool wants_number(const char *message) {
  static const char end[] = "(number expected, got tensor)";
  size_t n = strlen(message);
  return n >= sizeof end - 1 && strcmp(message + n - (sizeof end - 1), end) == 0;
}

/* What was asked for by the name that it had, and the present one. */
static const struct {
  const char *label, *key, *now;
} renamed[] = {
    {"pn.continual", "load", "pn.restore"},
    {"pn.infer", "hessian", "pn.infer.hessian_matrix"},
    {"pn.infer", "jacobian", "pn.infer.jacobian_matrix"},
    {"pn.infer", "load_posterior", "pn.restore"},
    {"pn.models", "load", "pn.restore"},
    {"pn.train", "standardise", "pn.data.standardise"},
    {"a fit", "load", "pn.restore"},
};

static const char *present_name(const pni_missed *m) {
  for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
    if (strcmp(m->label, renamed[i].label) == 0 && strcmp(m->key, renamed[i].key) == 0) return renamed[i].now;
  return NULL;
}

void pni_push_explained(lua_State *L, const char *message) {
  pni_state *state = pni_lua_state(L);
  const pni_missed *m = state ? &state->missed : NULL;
  if (!lua_checkstack(L, 20)) {
    lua_pushstring(L, message);
    return;
  }
  if (!m || !is_about(m, message)) {
    if (wants_number(message))
      lua_pushfstring(L, "%s; the number of a tensor with one element is x:item()", message);
    else
      pni_push_with_failure(L, message);
    return;
  }
  push_no_such_name(L, m);
}

static void push_no_such_name(lua_State *L, const pni_missed *m) {
  const char *now = present_name(m);
  if (now) {
    lua_pushfstring(L, "%s:%d: %s of %s is called %s", m->source, m->line, m->key, m->label, now);
    return;
  }
  const char *here = elsewhere(m->label, m->key);
  if (here) {
    lua_pushfstring(L, "%s:%d: %s has no '%s': %s", m->source, m->line, m->label, m->key, here);
    return;
  }
  pni_near near;
  pni_near_begin(&near, m->key);
  offer_space(L, &near, m->label);
  push_suggestion(L, &near, m->key);
  const char *text = lua_tostring(L, -1);
  lua_pushfstring(L, "%s:%d: %s has no '%s'%s", m->source, m->line, m->label, m->key, text);
  if (!*text && !strchr(m->label, ' ')) {
    bool whole = strcmp(m->label, "pn") == 0; /* help finds it by idea, and in parts that are not loaded yet */
    lua_pushfstring(L, whole ? "; pn.help \"%s\" looks for it" : "; pn.help \"%s\" lists what there is",
                    whole ? m->key : m->label);
    lua_concat(L, 2);
  }
  lua_remove(L, -2);
}

static const luaL_Reg functions[] = {
    {"missed", l_missed}, {"last_missed", l_last_missed}, {"namespace", l_namespace}, {NULL, NULL}};

void pni_open_missing(lua_State *L) { luaL_setfuncs(L, functions, 0); }
