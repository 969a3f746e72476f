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

/* A number that stands for all, or a list of two or three. */
static void push_list(lua_State *L, const pni_option *o, double v) {
  int64_t p[3];
  int n = pni_option_list(o, v, p);
  if (p[0] == p[1] && p[0] == p[n - 1]) {
    lua_pushinteger(L, p[0]);
    return;
  }
  lua_createtable(L, n, 0);
  for (int k = 0; k < n; k++) {
    lua_pushinteger(L, p[k]);
    lua_rawseti(L, -2, k + 1);
  }
}

/* How many numbers its list has, 0 of what is no list. */
static int list_size(const pni_option *o) {
  int kind = o->choices ? 0 : o->kind & PNI_OPTION_KIND;
  return kind == PNI_OPTION_PAIR ? 2 : kind == PNI_OPTION_TRIPLE ? 3 : 0;
}

void pni_push_option_value(lua_State *L, const pni_option *o, double v) {
  char word[32];
  if (is_switch(o))
    lua_pushboolean(L, v != 0);
  else if (o->choices)
    lua_pushstring(L, pni_option_word(o->choices, (int)v, word));
  else if (list_size(o))
    push_list(L, o, v);
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
    static const char letter[] = {[PNI_OPTION_CLOSED] = 'n',
                                  [PNI_OPTION_OPEN] = 'n',
                                  [PNI_OPTION_WHOLE] = 'i',
                                  [PNI_OPTION_PAIR] = 'p',
                                  [PNI_OPTION_TRIPLE] = 'p'};
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

/* The list of whole numbers at index i as the word "3x5" or "3x5x2", which stays on the stack. */
static const char *read_list(lua_State *L, const char *where, const pni_option *row, int i) {
  lua_Integer p[3] = {0};
  int n = list_size(row), found = 0;
  for (int k = 0; k < n; k++) {
    int whole = 0;
    lua_rawgeti(L, i, k + 1);
    if (lua_type(L, -1) == LUA_TNUMBER) p[k] = lua_tointegerx(L, -1, &whole);
    lua_pop(L, 1);
    found += whole;
  }
  if (found < n || lua_rawlen(L, i) != (lua_Unsigned)n)
    pni_error(L, "%s: %s must be a whole number or a list of %s", where, row->name, n == 2 ? "two" : "three");
  if (n == 2) return lua_pushfstring(L, "%Ix%I", (LUAI_UACINT)p[0], (LUAI_UACINT)p[1]);
  return lua_pushfstring(L, "%Ix%Ix%I", (LUAI_UACINT)p[0], (LUAI_UACINT)p[1], (LUAI_UACINT)p[2]);
}

void pni_read_option(lua_State *L, const char *where, const pni_option *row, int i, pn_option *out) {
  out->name = row->name;
  out->number = 0;
  out->word = NULL;
  if (lua_isboolean(L, i) && is_switch(row))
    out->number = lua_toboolean(L, i);
  else if (lua_istable(L, i) && list_size(row))
    out->word = read_list(L, where, row, i);
  else if (lua_type(L, i) == LUA_TNUMBER && !row->choices)
    out->number = lua_tonumber(L, i);
  else if (lua_type(L, i) == LUA_TSTRING && row->choices && !is_switch(row))
    out->word = lua_tostring(L, i);
  else
    pni_error(L, "%s: %s must be %s, got %s", where, row->name,
              is_switch(row)        ? "true or false"
              : row->choices        ? "a word"
              : list_size(row) == 2 ? "a whole number or a list of two"
              : list_size(row) == 3 ? "a whole number or a list of three"
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
