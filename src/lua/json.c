/*
** json.c: JSON files as Lua tables: objects by name, arrays as lists, null as NaN (a missing number).
*/
#include <cjson/cJSON.h>
#include <math.h>
#include "../file/file.h"
#include "penumbra_lua.h"

enum { DEEPEST = 64 };

/* Holds what is parsed while Lua builds tables from it. */
typedef struct {
  cJSON *json;
} holder;

static void release(void *object) {
  holder *h = object;
  cJSON_Delete(h->json);
  h->json = NULL;
}

static const pni_object_type kind = {"penumbra.json", "a file", sizeof(holder), 0, false, release};

static cJSON *read_json(pn_context *c, const char *path) {
  pni_source s;
  char *text = NULL;
  size_t length = 0, capacity = 0;
  cJSON *json = NULL;
  if (pni_source_open(c, "json", path, &s)) return NULL;
  if (pni_source_all(&s, &text, &length, &capacity) == PN_OK && pni_source_finish(&s) == PN_OK) {
    const char *end = NULL;
    json = cJSON_ParseWithLengthOpts(text, length, &end, 0);
    if (!json) {
      char shown[64];
      size_t at = end && end >= text && end <= text + length ? (size_t)(end - text) : 0;
      pni_source_fail(&s, PN_FORMAT, "is no JSON: at byte %zu, '%s'", at + 1,
                      pni_printable(text + at, length - at, shown));
    }
  }
  pni_free(c, text, capacity);
  pni_source_close(&s);
  return json;
}

static void push(lua_State *L, const cJSON *item, int depth) {
  if (depth > DEEPEST) pni_error(L, "json: lists are nested deeper than %d", DEEPEST);
  luaL_checkstack(L, 4, "json");
  if (cJSON_IsNumber(item)) {
    double v = item->valuedouble;
    if (v == floor(v) && fabs(v) < 9007199254740992.0)
      lua_pushinteger(L, (lua_Integer)v);
    else
      lua_pushnumber(L, v);
  } else if (cJSON_IsString(item)) {
    lua_pushstring(L, item->valuestring);
  } else if (cJSON_IsBool(item)) {
    lua_pushboolean(L, cJSON_IsTrue(item));
  } else if (cJSON_IsArray(item) || cJSON_IsObject(item)) {
    lua_Integer n = 0;
    lua_newtable(L);
    for (const cJSON *child = item->child; child; child = child->next) {
      if (child->string) lua_pushstring(L, child->string);
      push(L, child, depth + 1);
      if (child->string)
        lua_rawset(L, -3);
      else
        lua_rawseti(L, -2, ++n);
    }
  } else {
    lua_pushnumber(L, NAN);
  }
}

/* json(path) -> tables, or nil, message, code */
static int l_json(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  const char *path = luaL_checkstring(L, 1);
  holder *h = pni_new_object(L, &kind);
  h->json = read_json(c, path);
  if (!h->json) return pni_push_failure(L, c);
  push(L, h->json, 0);
  return 1;
}

void pni_add_json(lua_State *L) {
  pni_new_kind(L, &kind);
  lua_pop(L, 1);
  lua_pushcfunction(L, l_json);
  lua_setfield(L, -2, "json");
}
