/*
** read_text.c: functions that read a text of any length, and look at the limits as they go: load, tonumber, and those
** of `utf8` (Lua 5.4 manual, sections 6.1 and 6.5).
*/
#include <ctype.h>
#include <string.h>
#include "runtime.h"

/* ---- load ---- */

enum { PIECE = 1 << 13, TO_COMPILE = 16 }; /* compiling a byte takes so many times longer than reading it */

typedef struct {
  const char *text;
  size_t left;
} source;

static const char *next_piece(lua_State *L, void *data, size_t *size) {
  source *s = data;
  const char *piece = s->text;
  *size = s->left < PIECE ? s->left : PIECE;
  pni_runtime_charge(L, *size * TO_COMPILE);
  s->text += *size;
  s->left -= *size;
  return piece;
}

int pni_load_text(lua_State *L, const char *text, size_t length, const char *name) {
  source s = {text, length};
  return lua_load(L, next_piece, &s, name, "t");
}

static int load_string(lua_State *L, bool text) {
  size_t n;
  const char *s = lua_tolstring(L, 1, &n), *name = luaL_optstring(L, 2, s);
  bool environment = !lua_isnone(L, 4);
  source from = {s, n};
  int status = lua_load(L, next_piece, &from, name, text ? "t" : "");
  pni_runtime_pass_on(L);
  if (status != LUA_OK) {
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
  }
  if (environment) {
    lua_pushvalue(L, 4);
    if (!lua_setupvalue(L, -2, 1)) lua_pop(L, 1);
  }
  return 1;
}

/* Text only, whatever the mode: damaged bytecode crashes the virtual machine. */
static int l_load(lua_State *L) {
  const char *mode = luaL_optstring(L, 3, "bt");
  bool text = strchr(mode, 't') != NULL;
  if (lua_isstring(L, 1)) return load_string(L, text);
  if (lua_gettop(L) < 3) lua_settop(L, 3);
  lua_pushstring(L, text ? "t" : "");
  lua_replace(L, 3);
  if (lua_isfunction(L, 1)) {
    pni_push_polling(L, 1);
    lua_replace(L, 1);
  }
  pni_runtime_poll(L, 1);
  int n = pni_original(L);
  pni_runtime_pass_on(L);
  return n;
}

void pni_guard_load(lua_State *L) { pni_wrap(L, "load", l_load); }

/* ---- tonumber ---- */

static int digit_of(unsigned char c) { return isdigit(c) ? c - '0' : toupper(c) - 'A' + 10; }

/* The end of what is read as a whole number of that base, modulo 2^64, or NULL. */
static const char *read_digits(lua_State *L, const char *s, const char *end, int base, lua_Integer *out) {
  static const char space[] = " \f\n\r\t\v";
  lua_Unsigned n = 0;
  for (; s < end && *s && strchr(space, *s); s++) pni_runtime_charge(L, 1);
  bool negative = s < end && *s == '-';
  if (s < end && (*s == '-' || *s == '+')) s++;
  if (s == end || !isalnum((unsigned char)*s)) return NULL;
  for (; s < end && isalnum((unsigned char)*s); s++) {
    int digit = digit_of((unsigned char)*s);
    if (digit >= base) return NULL;
    n = n * (lua_Unsigned)base + (lua_Unsigned)digit;
    pni_runtime_charge(L, 1);
  }
  for (; s < end && *s && strchr(space, *s); s++) pni_runtime_charge(L, 1);
  *out = (lua_Integer)(negative ? 0u - n : n);
  return s;
}

static int l_tonumber(lua_State *L) {
  if (lua_isnoneornil(L, 2)) {
    if (lua_type(L, 1) == LUA_TSTRING) pni_runtime_charge(L, (size_t)lua_rawlen(L, 1));
    return pni_original(L);
  }
  lua_Integer base = luaL_checkinteger(L, 2), n = 0;
  size_t length;
  luaL_checktype(L, 1, LUA_TSTRING);
  const char *s = lua_tolstring(L, 1, &length);
  luaL_argcheck(L, 2 <= base && base <= 36, 2, "base out of range");
  if (read_digits(L, s, s + length, (int)base, &n) == s + length)
    lua_pushinteger(L, n);
  else
    lua_pushnil(L);
  return 1;
}

void pni_guard_number(lua_State *L) { pni_wrap(L, "tonumber", l_tonumber); }

/* ---- utf8 ---- */

static size_t start_at(lua_Integer i, size_t length) {
  if (i >= 0) return (size_t)i;
  return (size_t)-i > length ? 0 : length - (size_t)-i + 1;
}

static bool continues(const char *s) { return ((unsigned char)*s & 0xC0) == 0x80; }

/* len(s, i, j, lax): by the original, a piece at a time; pieces end before a character. */
static int l_len(lua_State *L) {
  enum { STRETCH = 1 << 14 };
  size_t length;
  const char *s = luaL_checklstring(L, 1, &length);
  lua_Integer from = (lua_Integer)start_at(luaL_optinteger(L, 2, 1), length), total = 0;
  lua_Integer to = (lua_Integer)start_at(luaL_optinteger(L, 3, -1), length);
  if (from < 1 || to - from < STRETCH || to > (lua_Integer)length) {
    pni_runtime_charge(L, STRETCH);
    return pni_original(L);
  }
  for (lua_Integer end; from <= to; from = end + 1) {
    end = from + STRETCH < to ? from + STRETCH : to;
    while (end < to && end > from && continues(s + end)) end--; /* s[end] is the byte behind position `end` */
    pni_runtime_charge(L, STRETCH);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, 1);
    lua_pushinteger(L, from);
    lua_pushinteger(L, end);
    lua_pushboolean(L, lua_toboolean(L, 4));
    lua_call(L, 4, 2);
    if (lua_isnil(L, -2)) return 2;
    total += lua_tointeger(L, -2);
    lua_pop(L, 2);
  }
  lua_pushinteger(L, total);
  return 1;
}

/* offset(s, n, i) goes over n characters. */
static int l_offset(lua_State *L) {
  enum { MOST_BYTES = 6 };
  size_t length;
  luaL_checklstring(L, 1, &length);
  lua_Integer n = luaL_checkinteger(L, 2);
  lua_Unsigned far = n < 0 ? 0u - (lua_Unsigned)n : (lua_Unsigned)n;
  pni_runtime_charge(L, far < length / MOST_BYTES ? (size_t)far * MOST_BYTES : length);
  return pni_original(L);
}

void pni_guard_utf8(lua_State *L) {
  pni_wrap(L, "len", l_len);
  pni_wrap(L, "offset", l_offset);
}
