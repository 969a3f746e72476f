/*
** runtime_pattern.c: find, match, gmatch and gsub as the Lua 5.4 manual (section 6.4.1) defines them, by a
** matcher that answers to the limits: backtracking takes exponential time in the pattern, and no hook runs
** inside a C function. Every attempt, item and comparison is a step, one with a set as many as the set is long;
** recursion is bounded, so the C stack is safe.
*/
#include <ctype.h>
#include <string.h>
#include "runtime.h"

enum { CAPTURES = 32, DEPTH = 200, OPEN = -1, POSITION = -2, STEPS = 1024 };

typedef struct {
  lua_State *L;
  const char *src, *send; /* subject */
  const char *pend;       /* end of the pattern */
  int depth;
  unsigned steps;
  int level; /* captures begun */
  struct {
    const char *at;
    ptrdiff_t length; /* or OPEN, POSITION */
  } capture[CAPTURES];
} matcher;

static void tick(matcher *m, size_t n) {
  m->steps += (unsigned)(n < STEPS ? n + 1 : STEPS);
  if (m->steps < STEPS) return;
  pni_runtime_poll(m->L, m->steps);
  m->steps = 0;
}

/* ---- single characters ---- */

static bool in_class(unsigned char c, unsigned char letter) {
  bool in;
  switch (tolower(letter)) {
  case 'a': in = isalpha(c); break;
  case 'c': in = iscntrl(c); break;
  case 'd': in = isdigit(c); break;
  case 'g': in = isgraph(c); break;
  case 'l': in = islower(c); break;
  case 'p': in = ispunct(c); break;
  case 's': in = isspace(c); break;
  case 'u': in = isupper(c); break;
  case 'w': in = isalnum(c); break;
  case 'x': in = isxdigit(c); break;
  case 'z': in = c == 0; break; /* of Lua 5.1, still understood */
  default: return letter == c;
  }
  return in != (isupper(letter) != 0);
}

/* Behind the single-character item that begins at p. */
static const char *item_end(matcher *m, const char *p) {
  if (*p == '%') {
    if (p + 1 == m->pend) luaL_error(m->L, "malformed pattern (ends with '%%')");
    return p + 2;
  }
  const char *set = p;
  if (*p++ != '[') return p;
  if (p < m->pend && *p == '^') p++;
  for (bool first = true;; first = false) { /* a bracket in first place is a member */
    if (p >= m->pend) luaL_error(m->L, "malformed pattern (missing ']')");
    if (*p == ']' && !first) {
      tick(m, (size_t)(p - set) / 4);
      return p + 1;
    }
    p += *p == '%' && p + 1 < m->pend ? 2 : 1;
  }
}

/* Is c in the set from '[' at p to the ']' before end? */
static bool in_set(unsigned char c, const char *p, const char *end) {
  bool negated = p[1] == '^', in = false;
  p += negated ? 2 : 1;
  for (end--; p < end && !in;) {
    if (*p == '%') {
      in = in_class(c, (unsigned char)p[1]);
      p += 2;
    } else if (p + 2 < end && p[1] == '-') {
      in = (unsigned char)p[0] <= c && c <= (unsigned char)p[2];
      p += 3;
    } else {
      in = (unsigned char)*p++ == c;
    }
  }
  return in != negated;
}

/* Does the item p .. end accept the character at s? */
static bool fits(matcher *m, const char *s, const char *p, const char *end) {
  tick(m, (size_t)(end - p) / 4);
  if (s >= m->send) return false;
  unsigned char c = (unsigned char)*s;
  switch (*p) {
  case '.': return true;
  case '%': return in_class(c, (unsigned char)p[1]);
  case '[': return in_set(c, p, end);
  default: return (unsigned char)*p == c;
  }
}

/* ---- what is longer: each gives the end of a match of the pattern's rest, or NULL ---- */

static const char *match(matcher *m, const char *s, const char *p);

static const char *longest(matcher *m, const char *s, const char *p, const char *end, ptrdiff_t least) {
  ptrdiff_t n = 0;
  while (fits(m, s + n, p, end)) n++;
  for (; n >= least; n--) {
    const char *r = match(m, s + n, end + 1);
    if (r) return r;
  }
  return NULL;
}

static const char *shortest(matcher *m, const char *s, const char *p, const char *end) {
  for (;; s++) {
    const char *r = match(m, s, end + 1);
    if (r) return r;
    if (!fits(m, s, p, end)) return NULL;
  }
}

static const char *begin_capture(matcher *m, const char *s, const char *p) {
  bool position = p + 1 < m->pend && p[1] == ')';
  if (m->level == CAPTURES) luaL_error(m->L, "too many captures");
  m->capture[m->level].at = s;
  m->capture[m->level].length = position ? POSITION : OPEN;
  m->level++;
  const char *r = match(m, s, p + (position ? 2 : 1));
  if (!r) m->level--;
  return r;
}

static const char *end_capture(matcher *m, const char *s, const char *p) {
  int k = m->level - 1;
  while (k >= 0 && m->capture[k].length != OPEN) k--;
  if (k < 0) luaL_error(m->L, "invalid pattern capture");
  m->capture[k].length = s - m->capture[k].at;
  const char *r = match(m, s, p + 1);
  if (!r) m->capture[k].length = OPEN;
  return r;
}

/* ---- items that are not repeated: each gives where the subject goes on, or NULL ---- */

/* %bxy: p at x */
static const char *balanced(matcher *m, const char *s, const char *p) {
  if (p + 1 >= m->pend) luaL_error(m->L, "malformed pattern (missing arguments to '%%b')");
  if (s >= m->send || *s != p[0]) return NULL;
  for (ptrdiff_t open = 1; ++s < m->send;) {
    tick(m, 0);
    if (*s == p[1]) {
      if (--open == 0) return s + 1;
    } else if (*s == p[0]) {
      open++;
    }
  }
  return NULL;
}

/* %f[set]: p at the bracket */
static bool at_frontier(matcher *m, const char *s, const char *p, const char *end) {
  tick(m, (size_t)(end - p) / 2);
  unsigned char before = s == m->src ? 0 : (unsigned char)s[-1], here = s < m->send ? (unsigned char)*s : 0;
  return !in_set(before, p, end) && in_set(here, p, end);
}

static const char *repeated_capture(matcher *m, const char *s, char digit) {
  int k = digit - '1';
  if (k < 0 || k >= m->level || m->capture[k].length == OPEN) luaL_error(m->L, "invalid capture index %%%d", k + 1);
  ptrdiff_t n = m->capture[k].length;
  if (n == POSITION || m->send - s < n) return NULL;
  tick(m, (size_t)n / 64);
  return memcmp(m->capture[k].at, s, (size_t)n) == 0 ? s + n : NULL;
}

static const char *walk(matcher *m, const char *s, const char *p) {
  while (s && p < m->pend) {
    tick(m, 0);
    char next = p + 1 < m->pend ? p[1] : '\0';
    if (*p == '(') return begin_capture(m, s, p);
    if (*p == ')') return end_capture(m, s, p);
    if (*p == '$' && p + 1 == m->pend) return s == m->send ? s : NULL;
    if (*p == '%' && next == 'b') {
      s = balanced(m, s, p + 2);
      p += 4;
      continue;
    }
    if (*p == '%' && next == 'f') {
      if (p + 2 >= m->pend || p[2] != '[') luaL_error(m->L, "missing '[' after '%%f' in pattern");
      const char *behind = item_end(m, p + 2);
      if (!at_frontier(m, s, p + 2, behind)) return NULL;
      p = behind;
      continue;
    }
    if (*p == '%' && isdigit((unsigned char)next)) {
      s = repeated_capture(m, s, next);
      p += 2;
      continue;
    }
    const char *end = item_end(m, p);
    switch (end < m->pend ? *end : '\0') {
    case '*': return longest(m, s, p, end, 0);
    case '+': return longest(m, s, p, end, 1);
    case '-': return shortest(m, s, p, end);
    case '?': {
      const char *r = fits(m, s, p, end) ? match(m, s + 1, end + 1) : NULL;
      if (r) return r;
      p = end + 1;
      break;
    }
    default: s = fits(m, s, p, end) ? s + 1 : NULL; p = end;
    }
  }
  return s;
}

static const char *match(matcher *m, const char *s, const char *p) {
  if (++m->depth > DEPTH) luaL_error(m->L, "pattern too complex");
  const char *r = walk(m, s, p);
  m->depth--;
  return r;
}

/* One attempt at s. */
static const char *attempt(matcher *m, const char *s, const char *p) {
  m->level = m->depth = 0;
  tick(m, 0);
  return match(m, s, p);
}

static void prepare(lua_State *L, matcher *m, const char *s, size_t length, const char *p, size_t plength) {
  m->L = L;
  m->src = s;
  m->send = s + length;
  m->pend = p + plength;
  m->steps = 0;
}

/* ---- results ---- */

static void push_capture(matcher *m, int k, const char *s, const char *e) {
  if (k >= m->level) {
    if (k != 0) luaL_error(m->L, "invalid capture index %%%d", k + 1);
    lua_pushlstring(m->L, s, (size_t)(e - s));
  } else if (m->capture[k].length == OPEN) {
    luaL_error(m->L, "unfinished capture");
  } else if (m->capture[k].length == POSITION) {
    lua_pushinteger(m->L, m->capture[k].at - m->src + 1);
  } else {
    lua_pushlstring(m->L, m->capture[k].at, (size_t)m->capture[k].length);
  }
}

/* Pushes all captures, or the whole match s .. e if there are none; returns how many. */
static int push_captures(matcher *m, const char *s, const char *e) {
  int n = m->level == 0 && s ? 1 : m->level;
  luaL_checkstack(m->L, n, "too many captures");
  for (int k = 0; k < n; k++) push_capture(m, k, s, e);
  return n;
}

/* The 1-based or negative position at index i as an offset, at least 0. */
static size_t start_at(lua_State *L, int i, size_t length) {
  lua_Integer at = luaL_optinteger(L, i, 1);
  if (at > 0) return (size_t)at - 1;
  if (at == 0 || at < -(lua_Integer)length) return 0;
  return length + (size_t)at;
}

/* ---- the functions ---- */

static bool is_plain(const char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (p[i] && strchr("^$*+?.([%-", p[i])) return false;
  return true;
}

static const char *search_plain(matcher *m, const char *s, const char *p, size_t n) {
  if (n == 0) return s;
  while (m->send - s >= (ptrdiff_t)n) {
    const char *hit = memchr(s, *p, (size_t)(m->send - s) - n + 1);
    tick(m, ((size_t)((hit ? hit : m->send) - s) + n) / 64);
    if (!hit || memcmp(hit, p, n) == 0) return hit;
    s = hit + 1;
  }
  return NULL;
}

static int search(lua_State *L, bool find) {
  size_t length, n;
  const char *s = luaL_checklstring(L, 1, &length), *p = luaL_checklstring(L, 2, &n);
  size_t at = start_at(L, 3, length);
  matcher m;
  prepare(L, &m, s, length, p, n);
  if (at > length) goto nothing;
  tick(&m, n / 8);
  if (find && (lua_toboolean(L, 4) || is_plain(p, n))) {
    const char *hit = search_plain(&m, s + at, p, n);
    if (!hit) goto nothing;
    lua_pushinteger(L, hit - s + 1);
    lua_pushinteger(L, hit - s + (lua_Integer)n);
    return 2;
  }
  bool anchored = n && *p == '^';
  for (const char *from = s + at; from <= m.send; from++) {
    const char *e = attempt(&m, from, p + anchored);
    if (e && !find) return push_captures(&m, from, e);
    if (e) {
      lua_pushinteger(L, from - s + 1);
      lua_pushinteger(L, e - s);
      return push_captures(&m, NULL, NULL) + 2;
    }
    if (anchored) break;
  }
nothing:
  lua_pushnil(L);
  return 1;
}

static int l_find(lua_State *L) { return search(L, true); }
static int l_match(lua_State *L) { return search(L, false); }

/* Upvalues: subject, pattern, offset to go on at, offset where the last match ended (-1: none). */
static int next_match(lua_State *L) {
  size_t length, n;
  const char *s = lua_tolstring(L, lua_upvalueindex(1), &length), *p = lua_tolstring(L, lua_upvalueindex(2), &n);
  lua_Integer at = lua_tointeger(L, lua_upvalueindex(3)), last = lua_tointeger(L, lua_upvalueindex(4));
  matcher m;
  prepare(L, &m, s, length, p, n);
  for (; at <= (lua_Integer)length; at++) {
    const char *e = attempt(&m, s + at, p);
    if (!e || e - s == last) continue;
    lua_pushinteger(L, e - s);
    lua_pushvalue(L, -1);
    lua_replace(L, lua_upvalueindex(3));
    lua_replace(L, lua_upvalueindex(4));
    return push_captures(&m, s + at, e);
  }
  return 0;
}

static int l_gmatch(lua_State *L) {
  size_t length;
  luaL_checklstring(L, 1, &length);
  luaL_checkstring(L, 2);
  size_t at = start_at(L, 3, length);
  lua_settop(L, 2);
  lua_pushinteger(L, at > length ? (lua_Integer)length + 1 : (lua_Integer)at);
  lua_pushinteger(L, -1);
  lua_pushcclosure(L, next_match, 4);
  return 1;
}

/* The replacement text with its captures. */
static void add_text(matcher *m, luaL_Buffer *b, const char *s, const char *e) {
  size_t n;
  const char *text = lua_tolstring(m->L, 3, &n), *end = text + n;
  for (; text < end; text++) {
    tick(m, 0);
    if (*text != '%') {
      luaL_addchar(b, *text);
    } else if (++text < end && *text == '%') {
      luaL_addchar(b, '%');
    } else if (text < end && *text == '0') {
      luaL_addlstring(b, s, (size_t)(e - s));
    } else if (text < end && isdigit((unsigned char)*text)) {
      push_capture(m, *text - '1', s, e);
      luaL_tolstring(m->L, -1, NULL);
      lua_remove(m->L, -2);
      luaL_addvalue(b);
    } else {
      luaL_error(m->L, "invalid use of '%%' in replacement string");
    }
  }
}

/* Adds what replaces the match s .. e: a text, an entry of a table, a function's result. */
static void add_replacement(matcher *m, luaL_Buffer *b, const char *s, const char *e) {
  lua_State *L = m->L;
  int type = lua_type(L, 3);
  if (type == LUA_TTABLE) {
    push_capture(m, 0, s, e);
    lua_gettable(L, 3);
  } else if (type == LUA_TFUNCTION) {
    lua_pushvalue(L, 3);
    lua_call(L, push_captures(m, s, e), 1);
  } else {
    add_text(m, b, s, e);
    return;
  }
  if (!lua_toboolean(L, -1)) {
    lua_pop(L, 1);
    luaL_addlstring(b, s, (size_t)(e - s));
  } else if (lua_isstring(L, -1)) {
    luaL_addvalue(b);
  } else {
    luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
  }
}

static int l_gsub(lua_State *L) {
  size_t length, n;
  const char *s = luaL_checklstring(L, 1, &length), *p = luaL_checklstring(L, 2, &n), *last = NULL;
  int type = lua_type(L, 3);
  if (type != LUA_TNUMBER && type != LUA_TSTRING && type != LUA_TTABLE && type != LUA_TFUNCTION)
    return luaL_typeerror(L, 3, "string/function/table");
  lua_Integer most = luaL_optinteger(L, 4, (lua_Integer)length + 1), count = 0;
  bool anchored = n && *p == '^';
  matcher m;
  luaL_Buffer b;
  lua_settop(L, 3);
  prepare(L, &m, s, length, p, n);
  luaL_buffinit(L, &b);
  while (count < most) {
    const char *e = attempt(&m, s, p + anchored);
    if (e && e != last) {
      count++;
      add_replacement(&m, &b, s, e);
      s = last = e;
    } else if (s < m.send) {
      luaL_addchar(&b, *s++);
    } else {
      break;
    }
    if (anchored) break;
  }
  luaL_addlstring(&b, s, (size_t)(m.send - s));
  luaL_pushresult(&b);
  lua_pushinteger(L, count);
  return 2;
}

void pni_guard_pattern(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"find", l_find}, {"match", l_match}, {"gmatch", l_gmatch}, {"gsub", l_gsub}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
