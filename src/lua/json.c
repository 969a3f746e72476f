/*
** json.c: JSON files as Lua tables: objects by name, arrays as lists, null as NaN (a missing number); whole files, or one
** value a line.
*/
#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>
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

/*
** NaN as Python writes it, which JSON does not have, becomes an empty text of the same three bytes; pn.data.gluonts reads
** it as missing. Texts in quotes stay as they are.
*/
static void quote_nan(char *text, size_t length) {
  bool quoted = false;
  for (size_t k = 0; k < length; k++) {
    if (quoted && text[k] == '\\')
      k++;
    else if (text[k] == '"')
      quoted = !quoted;
    else if (!quoted && length - k >= 3 && memcmp(text + k, "NaN", 3) == 0) {
      memcpy(text + k, "\"\" ", 3);
      k += 2;
    }
  }
}

static bool is_blank(const char *text, size_t begin, size_t end) {
  while (begin < end && strchr(" \t\r\n", text[begin])) begin++;
  return begin == end;
}

/* The one value in text[begin] ... text[end - 1] of the source s, or NULL. */
static cJSON *parse(pni_source *s, const char *text, size_t begin, size_t end) {
  const char *stop = NULL;
  cJSON *json = cJSON_ParseWithLengthOpts(text + begin, end - begin, &stop, 0);
  size_t at = stop && stop >= text + begin && stop <= text + end ? (size_t)(stop - text) : begin;
  if (!json || !is_blank(text, at, end)) {
    char shown[64];
    cJSON_Delete(json);
    json = NULL;
    pni_source_fail(s, PN_FORMAT, "is no JSON: at byte %zu, '%s'", at + 1, pni_printable(text + at, end - at, shown));
  }
  return json;
}

/* An array of the values of all lines that are not blank, or NULL. */
static cJSON *parse_lines(pn_context *c, pni_source *s, char *text, size_t length) {
  cJSON *list = cJSON_CreateArray();
  if (!list) pni_fail(c, PN_NOMEM, "json: out of memory");
  quote_nan(text, length);
  for (size_t begin = 0, end; list && begin < length; begin = end + 1) {
    const char *newline = memchr(text + begin, '\n', length - begin);
    end = newline ? (size_t)(newline - text) : length;
    if (is_blank(text, begin, end)) continue;
    cJSON *one = parse(s, text, begin, end);
    if (!one) {
      cJSON_Delete(list);
      return NULL;
    }
    cJSON_AddItemToArray(list, one);
  }
  return list;
}

static cJSON *read_json(pn_context *c, const char *path, bool lines) {
  pni_source s;
  char *text = NULL;
  size_t length = 0, capacity = 0;
  cJSON *json = NULL;
  if (pni_source_open(c, "json", path, &s)) return NULL;
  if (pni_source_all(&s, &text, &length, &capacity) == PN_OK && pni_source_finish(&s) == PN_OK)
    json = lines ? parse_lines(c, &s, text, length) : parse(&s, text, 0, length);
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

/* json(path [, lines]) -> tables, or nil, message, code; with lines a list of the value of each line */
static int l_json(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  const char *path = luaL_checkstring(L, 1);
  holder *h = pni_new_object(L, &kind);
  h->json = read_json(c, path, lua_toboolean(L, 2));
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
