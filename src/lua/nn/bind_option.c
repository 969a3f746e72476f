/*
** bind_option.c: options of layers, initialisers and optimisers between Lua tables and C, read from the rows.
*/
#include <string.h>
#include "nn_lua.h"

static void push_choices(lua_State *L, const char *choices) {
  char word[32];
  lua_newtable(L);
  for (int k = 0; *pni_option_word(choices, k, word); k++) {
    lua_pushstring(L, word);
    lua_rawseti(L, -2, k + 1);
  }
}

static bool is_switch(const pni_option *o) { return o->choices && strcmp(o->choices, "false true") == 0; }

/* A number that stands for both, or a list of two. */
static void push_pair(lua_State *L, double v) {
  int64_t p[2];
  pni_option_pair(v, p);
  if (p[0] == p[1]) {
    lua_pushinteger(L, p[0]);
    return;
  }
  lua_createtable(L, 2, 0);
  for (int k = 0; k < 2; k++) {
    lua_pushinteger(L, p[k]);
    lua_rawseti(L, -2, k + 1);
  }
}

void pni_push_option_value(lua_State *L, const pni_option *o, double v) {
  char word[32];
  if (is_switch(o))
    lua_pushboolean(L, v != 0);
  else if (o->choices)
    lua_pushstring(L, pni_option_word(o->choices, (int)v, word));
  else if ((o->kind & PNI_OPTION_KIND) == PNI_OPTION_PAIR)
    push_pair(L, v);
  else if ((o->kind & PNI_OPTION_KIND) == PNI_OPTION_WHOLE)
    lua_pushinteger(L, (lua_Integer)v);
  else
    lua_pushnumber(L, v);
}

void pni_push_options(lua_State *L, const pni_option *rows) {
  lua_newtable(L);
  for (int i = 0; rows && rows[i].name; i++) {
    lua_createtable(L, 0, 4);
    lua_pushstring(L, rows[i].name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, rows[i].doc);
    lua_setfield(L, -2, "doc");
    if (!(rows[i].kind & PNI_OPTION_REQUIRED)) {
      pni_push_option_value(L, &rows[i], rows[i].value);
      lua_setfield(L, -2, "default");
    }
    if (rows[i].choices && !is_switch(&rows[i])) {
      push_choices(L, rows[i].choices);
      lua_setfield(L, -2, "choices");
    }
    lua_rawseti(L, -2, i + 1);
  }
}

void pni_add_option_text(luaL_Buffer *B, lua_State *L, const pni_option *rows) {
  for (int i = 0; rows && rows[i].name; i++) {
    static const char letter[] = {
        [PNI_OPTION_CLOSED] = 'n', [PNI_OPTION_OPEN] = 'n', [PNI_OPTION_WHOLE] = 'i', [PNI_OPTION_PAIR] = 'p'};
    char kind = is_switch(&rows[i]) ? 'b' : rows[i].choices ? 'w' : letter[rows[i].kind & PNI_OPTION_KIND];
    if (rows[i].kind & PNI_OPTION_REQUIRED) {
      lua_pushfstring(L, " %s:%c", rows[i].name, kind);
      luaL_addvalue(B);
      continue;
    }
    pni_push_option_value(L, &rows[i], rows[i].value);
    int at = lua_gettop(L);
    const char *value = pni_value_text(L, -1);
    lua_pushfstring(L, " %s:%c=%s", rows[i].name, kind, value);
    lua_replace(L, at);
    lua_settop(L, at);
    luaL_addvalue(B);
  }
}

static bool is_pair(const pni_option *o) { return !o->choices && (o->kind & PNI_OPTION_KIND) == PNI_OPTION_PAIR; }

/* The list of two whole numbers at index i as the word "3x5", which stays on the stack. */
static const char *read_pair(lua_State *L, const char *where, const pni_option *row, int i) {
  lua_Integer p[2] = {0, 0};
  int whole[2] = {0, 0};
  for (int k = 0; k < 2; k++) {
    lua_rawgeti(L, i, k + 1);
    if (lua_type(L, -1) == LUA_TNUMBER) p[k] = lua_tointegerx(L, -1, &whole[k]);
    lua_pop(L, 1);
  }
  if (!whole[0] || !whole[1] || lua_rawlen(L, i) != 2)
    pni_error(L, "%s: %s must be a whole number or a list of two", where, row->name);
  return lua_pushfstring(L, "%Ix%I", (LUAI_UACINT)p[0], (LUAI_UACINT)p[1]);
}

void pni_read_option(lua_State *L, const char *where, const pni_option *row, int i, pn_option *out) {
  out->name = row->name;
  out->number = 0;
  out->word = NULL;
  if (lua_isboolean(L, i) && is_switch(row))
    out->number = lua_toboolean(L, i);
  else if (lua_istable(L, i) && is_pair(row))
    out->word = read_pair(L, where, row, i);
  else if (lua_type(L, i) == LUA_TNUMBER && !row->choices)
    out->number = lua_tonumber(L, i);
  else if (lua_type(L, i) == LUA_TSTRING && row->choices && !is_switch(row))
    out->word = lua_tostring(L, i);
  else
    pni_error(L, "%s: %s must be %s, got %s", where, row->name,
              is_switch(row) ? "true or false"
              : row->choices ? "a word"
              : is_pair(row) ? "a whole number or a list of two"
                             : "a number",
              pni_type_name(L, i));
}

void pni_read_options(lua_State *L, const char *where, const pni_option *rows, int i, const char *const *more,
                      pn_option *out) {
  const char *names[PNI_OPTIONS + PNI_OPTION_MORE + 1];
  int n = 0, given = 0;
  out[0].name = NULL;
  if (lua_isnoneornil(L, i)) return;
  if (!lua_istable(L, i)) pni_error(L, "%s: options must be a table, got %s", where, pni_type_name(L, i));
  luaL_checkstack(L, 2 * PNI_OPTIONS + 20, "too many options");
  for (int k = 0; k < PNI_OPTIONS && rows && rows[k].name; k++) names[n++] = rows[k].name;
  for (int k = 0; k < PNI_OPTION_MORE && more && more[k]; k++) names[n++] = more[k];
  names[n] = NULL;
  pni_check_plain_options(L, i, where, names);
  for (int k = 0; k < PNI_OPTIONS && rows && rows[k].name; k++)
    if (pni_get_raw(L, i, rows[k].name) != LUA_TNIL) pni_read_option(L, where, &rows[k], lua_gettop(L), &out[given++]);
  out[given].name = NULL;
}
