/*
** json_value.c: JSON values as Lua's and back, and any bytes as text that JSON can hold.
*/
#include <cjson/cJSON.h>
#include <lauxlib.h>
#include <lua.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernel.h"

enum { DEEPEST = 100 };
static const char list_name[] = "penumbra.kernel.list";

/* Bytes of the letter at s, of which n are there: 0 if it is none, -1 if its rest has not come. The Unicode Standard,
 * table 3-7. */
static int letter(const unsigned char *s, size_t n) {
  unsigned char low = 0x80, high = 0xbf, first = s[0];
  int size = first < 0x80 ? first != 0 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (first == 0xe0) low = 0xa0;
  if (first == 0xed) high = 0x9f;
  if (first == 0xf0) low = 0x90;
  if (first == 0xf4) high = 0x8f;
  for (int i = 1; i < size; i++, low = 0x80, high = 0xbf) {
    if ((size_t)i >= n) return -1;
    if (s[i] < low || s[i] > high) return 0;
  }
  return size;
}

size_t kernel_utf8(const char *text, size_t n, bool last, char *out) {
  size_t used = 0, i = 0;
  while (i < n) {
    int size = letter((const unsigned char *)text + i, n - i);
    if (size < 0 && !last) break;
    size_t taken = size > 0 ? (size_t)size : 1;
    const char *from = size > 0 ? text + i : "\xef\xbf\xbd";
    memcpy(out + used, from, size > 0 ? taken : 3);
    used += size > 0 ? taken : 3;
    i += taken;
  }
  out[used] = '\0';
  return n - i;
}

static void push(lua_State *L, const cJSON *value, int depth) {
  if (depth > DEEPEST) luaL_error(L, "a message is nested more than %d deep", DEEPEST);
  luaL_checkstack(L, 4, "a message");
  if (cJSON_IsBool(value))
    lua_pushboolean(L, cJSON_IsTrue(value));
  else if (cJSON_IsString(value))
    lua_pushstring(L, value->valuestring);
  else if (cJSON_IsNumber(value)) {
    double v = value->valuedouble;
    if (v == floor(v) && fabs(v) < 9007199254740992.0)
      lua_pushinteger(L, (lua_Integer)v);
    else
      lua_pushnumber(L, v);
  } else if (cJSON_IsArray(value) || cJSON_IsObject(value)) {
    lua_Integer n = 0;
    lua_newtable(L);
    const cJSON *item;
    cJSON_ArrayForEach(item, value) {
      if (item->string)
        lua_pushstring(L, item->string);
      else
        lua_pushinteger(L, ++n);
      push(L, item, depth + 1);
      lua_rawset(L, -3);
    }
  } else
    lua_pushnil(L);
}

void kernel_push_json(lua_State *L, const cJSON *value) { push(L, value, 1); }

int kernel_list(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  luaL_newmetatable(L, list_name);
  lua_setmetatable(L, 1);
  return 1;
}

static cJSON *text_to_json(const char *s, size_t n) {
  char *text = malloc(3 * n + 1);
  if (!text) return NULL;
  kernel_utf8(s, n, true, text);
  cJSON *value = cJSON_CreateString(text);
  free(text);
  return value;
}

static bool is_list(lua_State *L, int i) {
  if (lua_rawlen(L, i) > 0) return true;
  if (!lua_getmetatable(L, i)) return false;
  luaL_getmetatable(L, list_name);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same;
}

static cJSON *to_json(lua_State *L, int i, int depth);

/* Adds the value on the stack top; false without memory. */
static bool add(lua_State *L, cJSON *to, const char *name, int depth) {
  cJSON *item = to_json(L, lua_gettop(L), depth + 1);
  return item && (name ? cJSON_AddItemToObject(to, name, item) : cJSON_AddItemToArray(to, item));
}

/* (Nothing here raises: what was made so far would be lost.) */
static cJSON *table_to_json(lua_State *L, int i, int depth) {
  bool list = is_list(L, i), good = true;
  cJSON *value = list ? cJSON_CreateArray() : cJSON_CreateObject();
  if (list)
    for (lua_Integer k = 1, n = (lua_Integer)lua_rawlen(L, i); k <= n && good; k++) {
      lua_rawgeti(L, i, k);
      good = add(L, value, NULL, depth);
      lua_pop(L, 1);
    }
  else
    for (lua_pushnil(L); lua_next(L, i);) {
      if (lua_type(L, -2) == LUA_TSTRING && good) good = add(L, value, lua_tostring(L, -2), depth);
      lua_pop(L, 1);
    }
  if (good) return value;
  cJSON_Delete(value);
  return NULL;
}

static cJSON *to_json(lua_State *L, int i, int depth) {
  size_t n;
  if (depth > DEEPEST || !lua_checkstack(L, 6)) return NULL;
  switch (lua_type(L, i)) {
  case LUA_TBOOLEAN: return cJSON_CreateBool(lua_toboolean(L, i));
  case LUA_TNUMBER: return cJSON_CreateNumber(lua_tonumber(L, i));
  case LUA_TSTRING: {
    const char *s = lua_tolstring(L, i, &n);
    return text_to_json(s, n);
  }
  case LUA_TTABLE: return table_to_json(L, i, depth);
  default: return cJSON_CreateNull();
  }
}

cJSON *kernel_to_json(lua_State *L, int i) { return to_json(L, lua_absindex(L, i), 1); }
