/*
** arg.c: all conversion between what a user types and what C takes: axes, sizes, dtypes, options.
** Axes are 1-based in Lua and negative from the end; nothing else shifts numbers.
*/
#include <string.h>
#include "message.h"

const char *pni_type_name(lua_State *L, int i) {
  static const char own[] = "penumbra.";
  if (lua_type(L, i) == LUA_TTABLE && luaL_getmetafield(L, i, "own") != LUA_TNIL) { /* as pn.dist.custom makes them */
    lua_pop(L, 1);
    if (luaL_getmetafield(L, i, "__name") == LUA_TSTRING)
      return lua_pushfstring(L, "a script's %s", lua_tostring(L, -1));
  }
  if (lua_type(L, i) != LUA_TUSERDATA || luaL_getmetafield(L, i, "__name") != LUA_TSTRING) return luaL_typename(L, i);
  const char *name = lua_tostring(L, -1);
  return strncmp(name, own, sizeof own - 1) == 0 ? name + sizeof own - 1 : name;
}

/* A string for a message, which has no room for more of a long one. */
static const char *brief(lua_State *L, int i) {
  const char *text = lua_tostring(L, i);
  return memchr(text, '\0', PNI_MESSAGE) ? text : lua_pushlstring(L, text, PNI_MESSAGE);
}

const char *pni_value_text(lua_State *L, int i) {
  switch (lua_type(L, i)) {
  case LUA_TBOOLEAN: return lua_toboolean(L, i) ? "true" : "false";
  case LUA_TNUMBER: lua_pushvalue(L, i); return lua_tostring(L, -1); /* a copy: the argument stays a number */
  case LUA_TSTRING: return brief(L, i);
  default: return pni_type_name(L, i);
  }
}

pn_tensor *pni_test_tensor(lua_State *L, int i) {
  pni_box *b = pni_test_box(L, pni_lua_state(L), i);
  if (b && !b->t) pni_error(L, "tensor was closed");
  return b ? b->t : NULL;
}

pn_tensor *pni_check_tensor(lua_State *L, int i) {
  pn_tensor *t = pni_test_tensor(L, i);
  if (!t) pni_error(L, "argument %d must be a tensor, got %s", i, pni_type_name(L, i));
  return t;
}

pn_tensor *pni_to_tensor(lua_State *L, pn_context *c, int i, const pn_tensor *like) {
  pni_box *b = pni_test_box(L, pni_lua_state(L), i);
  if (b) return b->t;
  pn_dtype d = like ? (pn_dtype)like->dtype : pni_default_dtype(L);
  if (lua_isboolean(L, i)) return pn_scalar(c, PN_BOOL, lua_toboolean(L, i));
  if (d == PN_INT64 && !lua_isinteger(L, i)) d = PN_FLOAT64;
  if (d == PN_BOOL) d = pni_default_dtype(L);
  return pn_scalar(c, d, lua_tonumber(L, i));
}

int pni_check_axis(lua_State *L, int i, const char *where) {
  int ok;
  lua_Integer a = lua_tointegerx(L, i, &ok);
  if (!ok) pni_error(L, "%s: axis must be a whole number, got %s", where, pni_type_name(L, i));
  if (a == 0 || a > 64 || a < -64) pni_error(L, "%s: axes count from 1 (or from -1 backwards), got %d", where, (int)a);
  return (int)(a > 0 ? a - 1 : a);
}

pn_axes pni_check_axes(lua_State *L, int i, const char *where, int ndim) {
  pn_axes out = PN_ALL;
  if (lua_isnoneornil(L, i)) return out;
  int64_t list[PN_MAX_DIMS];
  if (lua_istable(L, i)) {
    out.n = pni_check_sizes(L, i, where, PN_MAX_DIMS, list);
  } else {
    out.n = 1;
    int ok;
    list[0] = lua_tointegerx(L, i, &ok);
    if (!ok) pni_error(L, "%s: axis must be a whole number or a list, got %s", where, pni_type_name(L, i));
  }
  for (int k = 0; k < out.n; k++) {
    int64_t a = list[k] > 0 ? list[k] - 1 : list[k] + ndim;
    if (list[k] == 0 || a < 0 || a >= ndim)
      pni_error(L, "%s: axis must lie in 1 .. %d (or count from -1 backwards), got %d", where, ndim, (int)list[k]);
    out.axis[k] = (int)a;
  }
  return out;
}

int pni_check_one_axis(lua_State *L, int i, const char *where, int ndim) {
  pn_axes axes = pni_check_axes(L, i, where, ndim);
  if (axes.n != 1) pni_error(L, "%s: axis must be one number, got %d", where, axes.n);
  return axes.axis[0];
}

int64_t pni_check_position(lua_State *L, int i, const char *where, int64_t n) {
  int ok;
  lua_Integer p = lua_tointegerx(L, i, &ok);
  if (!ok) pni_error(L, "%s: position must be a whole number, got %s", where, pni_type_name(L, i));
  int64_t at = p > 0 ? p - 1 : p + n;
  if (p == 0 || at < 0 || at >= n)
    pni_error(L, "%s: position must lie in 1 .. %I (or count from -1 backwards), got %I", where, (LUAI_UACINT)n,
              (LUAI_UACINT)p);
  return at;
}

/* n whole numbers: elements of the list at index i, or the arguments from i on. */
static int read_numbers(lua_State *L, int i, bool list, lua_Integer n, const char *where, int max, int64_t *out) {
  if (n > max) pni_error(L, "%s: at most %d numbers are possible, got %I", where, max, (LUAI_UACINT)n);
  for (int k = 0; k < n; k++) {
    int ok;
    if (list)
      lua_rawgeti(L, i, k + 1);
    else
      lua_pushvalue(L, i + k);
    out[k] = lua_tointegerx(L, -1, &ok);
    if (!ok) pni_error(L, "%s: number %d must be a whole number, got %s", where, k + 1, pni_value_text(L, -1));
    lua_pop(L, 1);
  }
  return n < 0 ? 0 : (int)n;
}

int pni_check_numbers(lua_State *L, int i, int last, const char *where, int max, int64_t *out) {
  return read_numbers(L, i, false, last - i + 1, where, max, out);
}

int pni_check_sizes(lua_State *L, int i, const char *where, int max, int64_t *out) {
  if (lua_istable(L, i)) return read_numbers(L, i, true, (lua_Integer)lua_rawlen(L, i), where, max, out);
  return pni_check_numbers(L, i, lua_gettop(L), where, max, out);
}

const char *pni_check_text(lua_State *L, int i, const char *where, const char *role) {
  size_t n;
  if (lua_type(L, i) != LUA_TSTRING) pni_error(L, "%s: %s must be a string, got %s", where, role, pni_type_name(L, i));
  const char *text = lua_tolstring(L, i, &n);
  if (strlen(text) != n) pni_error(L, "%s: %s must not hold a zero byte, got '%s\\0...'", where, role, brief(L, i));
  return text;
}

const char *pni_check_optional_text(lua_State *L, int i, const char *where, const char *role, const char *absent) {
  return lua_isnoneornil(L, i) ? absent : pni_check_text(L, i, where, role);
}

pn_dtype pni_check_dtype(lua_State *L, int i, const char *where, pn_dtype absent) {
  if (lua_isnoneornil(L, i)) return absent;
  const char *s = lua_tostring(L, i);
  for (int d = 0; s && d < 4; d++)
    if (strcmp(s, pn_dtype_name((pn_dtype)d)) == 0) return (pn_dtype)d;
  pni_error(L, "%s: dtype must be 'float64', 'float32', 'int64' or 'bool', got %s", where, pni_value_text(L, i));
  return absent;
}

pn_tensor *pni_check_operand(lua_State *L, int i, const char *where, const char *role) {
  pn_tensor *t = pni_test_tensor(L, i);
  if (!t) pni_error(L, "%s: %s must be a tensor, got %s", where, role, pni_type_name(L, i));
  return t;
}

int64_t pni_check_whole(lua_State *L, int i, const char *where, const char *role) {
  int ok;
  lua_Integer v = lua_tointegerx(L, i, &ok);
  if (!ok) pni_error(L, "%s: %s must be a whole number, got %s", where, role, pni_value_text(L, i));
  return v;
}

double pni_check_number(lua_State *L, int i, const char *where, const char *role) {
  int ok;
  double v = lua_tonumberx(L, i, &ok);
  if (!ok) pni_error(L, "%s: %s must be a number, got %s", where, role, pni_type_name(L, i));
  return v;
}

pn_rng *pni_check_rng(lua_State *L, int i) {
  if (lua_isnoneornil(L, i)) return NULL;
  pni_rng_box *b = pni_test_object(L, i, &pni_generator_kind);
  if (!b || !b->rng) pni_error(L, "generator must be a pn.generator, got %s", pni_type_name(L, i));
  return b->rng;
}

/* Pushes "a, b, c". */
static void push_list(lua_State *L, const char *const *names) {
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (int k = 0; names[k]; k++) {
    if (k) luaL_addstring(&b, ", ");
    luaL_addstring(&b, names[k]);
  }
  luaL_pushresult(&b);
}

static bool is_among(const char *key, const char *const *names) {
  for (int k = 0; names[k]; k++)
    if (strcmp(key, names[k]) == 0) return true;
  return false;
}

/* Raises with the name that is nearest to key, or with all. */
static void unknown_option(lua_State *L, const char *where, const char *key, const char *const *names) {
  pni_near near;
  pni_near_begin(&near, key);
  for (int k = 0; names[k]; k++) pni_near_offer(&near, names[k]);
  if (*near.name) pni_error(L, "%s: unknown option '%s', did you mean '%s'?", where, key, near.name);
  push_list(L, names);
  pni_error(L, "%s: unknown option '%s'; known: %s", where, key, lua_tostring(L, -1));
}

void pni_check_options(lua_State *L, int i, const char *where, const char *const *names) {
  i = lua_absindex(L, i);
  lua_pushnil(L);
  while (lua_next(L, i)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) != LUA_TSTRING) continue;
    if (!is_among(lua_tostring(L, -1), names)) unknown_option(L, where, lua_tostring(L, -1), names);
  }
}

void pni_check_plain_options(lua_State *L, int i, const char *where, const char *const *names) {
  i = lua_absindex(L, i);
  if (!lua_istable(L, i)) pni_error(L, "%s: options must be a table, got %s", where, pni_type_name(L, i));
  lua_pushnil(L);
  while (lua_next(L, i)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING) continue;
    const char *key = pni_value_text(L, -1);
    push_list(L, names);
    pni_error(L, "%s: options have names (%s), got '%s'", where, lua_tostring(L, -1), key);
  }
  pni_check_options(L, i, where, names);
}
