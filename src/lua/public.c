/*
** public.c: the functions that scripts call, and the place and name that an error tells. A public function written in
** Lua is called through a C function: a tail call, `return f(x)`, gives a Lua function the frame of the one that calls
** it, and with the frame goes the script's line; a C function gets a frame of its own. Names are looked up where an
** error is raised, never before.
*/
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "message.h"

/* ---- entering ---- */

/* nil, message, code is a failure. */
static int leave(lua_State *L, int status, lua_KContext context) {
  int n = lua_gettop(L);
  (void)status, (void)context;
  if (n == 3 && lua_isnil(L, 1) && lua_type(L, 2) == LUA_TSTRING && lua_type(L, 3) == LUA_TSTRING)
    pni_note_failure(L, lua_tostring(L, 2));
  return n;
}

/* Calls upvalue 1, which may yield. */
static int enter(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, leave);
  return leave(L, LUA_OK, 0);
}

static const char entries_key = 0;

/* Pushes the weak table of Lua functions -> their entries. */
static void push_entries(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &entries_key) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &entries_key);
}

/* Replaces the function on the stack top by its entry; C functions stay what they are. */
static void to_entry(lua_State *L) {
  if (!lua_isfunction(L, -1) || lua_iscfunction(L, -1)) return;
  push_entries(L);
  lua_pushvalue(L, -2);
  if (lua_rawget(L, -2) == LUA_TNIL) {
    lua_pop(L, 1);
    lua_pushvalue(L, -2);
    lua_pushcclosure(L, enter, 1);
    lua_pushvalue(L, -3);
    lua_pushvalue(L, -2);
    lua_rawset(L, -4);
  }
  lua_replace(L, -3);
  lua_pop(L, 1);
}

void pni_publish(lua_State *L, int t) {
  t = lua_absindex(L, t);
  lua_pushnil(L);
  while (lua_next(L, t)) { /* assigns to fields that are there */
    if (lua_type(L, -2) == LUA_TSTRING && lua_isfunction(L, -1) && !lua_iscfunction(L, -1)) {
      to_entry(L);
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, t);
    } else {
      lua_pop(L, 1);
    }
  }
}

/* public(f) -> what scripts call in place of the Lua function f; public(t) -> t, with its functions made so */
static int l_public(lua_State *L) {
  lua_settop(L, 1);
  if (lua_istable(L, 1))
    pni_publish(L, 1);
  else
    to_entry(L);
  pni_forget_members(L);
  return 1;
}

/* ---- the place ---- */

/* Finds the innermost Lua function that is not the module's own; false if there is none. *lost: was it that function
 * which called the module, or one that a tail call has replaced? */
static bool find_script(lua_State *L, int level, lua_Debug *ar, bool *lost) {
  *lost = false;
  for (; lua_getstack(L, level, ar); level++) {
    lua_getinfo(L, "Slt", ar);
    if (ar->currentline > 0 && !pni_is_ours(ar->source)) return true;
    *lost = ar->currentline > 0 && ar->istailcall;
  }
  return false;
}

void pni_push_where(lua_State *L) {
  lua_Debug ar;
  bool lost;
  if (!find_script(L, 1, &ar, &lost))
    lua_pushliteral(L, "");
  else if (lost)
    lua_pushfstring(L, "%s:%d: (in a tail call below this line) ", ar.short_src, ar.currentline);
  else
    lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
}

/* ---- the name ---- */

/* The public function that the script called: the outermost between the script and here. *kind: is it the one that
 * runs, a method of objects whose errors begin with their kind? */
static bool find_called(lua_State *L, char *name, size_t size, bool *kind) {
  lua_Debug ar;
  char member[64];
  bool found = false, of_kind = false;
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Slnf", &ar);
    bool c = *ar.what == 'C';
    if (c && pni_find_member(L, -1, ar.name, member, sizeof member, &of_kind)) {
      found = true;
      snprintf(name, size, "%s", member);
      *kind = of_kind && level == 0;
    }
    lua_pop(L, 1);
    if (!c && ar.currentline > 0 && !pni_is_ours(ar.source)) break;
  }
  return found;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Does the text hold the word? */
static bool mentions(const char *text, const char *word) {
  size_t n = strlen(word);
  for (const char *p = text; (p = strstr(p, word)); p += n)
    if ((p == text || !is_word(p[-1])) && !is_word(p[n])) return true;
  return false;
}

/* Does it begin with "kind: " or "kind(...): ", which is not the name of a function of tensors? */
static bool tells_kind(lua_State *L, const char *text) {
  const char *p = text;
  while (is_word(*p)) p++;
  if (p == text || (*p != ':' && *p != '(')) return false;
  pni_push_methods(L);
  lua_pushlstring(L, text, (size_t)(p - text));
  bool function = lua_rawget(L, -2) != LUA_TNIL;
  lua_pop(L, 2);
  return !function;
}

void pni_push_named(lua_State *L, const char *message) {
  char name[64];
  bool kind = false;
  if (!lua_checkstack(L, 16) || !find_called(L, name, sizeof name, &kind) || (kind && tells_kind(L, message)) ||
      mentions(message, name))
    lua_pushstring(L, message);
  else
    lua_pushfstring(L, "%s: %s", name, message);
}

static const luaL_Reg functions[] = {{"public", l_public}, {NULL, NULL}};

void pni_open_public(lua_State *L) { luaL_setfuncs(L, functions, 0); }
