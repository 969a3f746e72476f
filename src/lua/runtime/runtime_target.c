/*
** runtime_target.c: from the target of a script's model to that of a host, which needs neither Lua nor the runtime.
*/
#include "runtime.h"

typedef struct {
  pni_job job; /* first: bodies are given this one */
  pn_context *c;
  pn_target *target;
} target_job;

/* A name and a shape of table t into v; the name stays in t. */
static void read_variable(lua_State *L, int t, pn_variable *v) {
  pni_get_raw(L, t, "name");
  pni_get_raw(L, t, "shape");
  pni_get_raw(L, t, "deterministic");
  if (lua_type(L, -3) != LUA_TSTRING || !lua_istable(L, -2))
    luaL_error(L, "a target's variable must have a name and a shape");
  v->name = lua_tostring(L, -3);
  v->deterministic = lua_toboolean(L, -1);
  lua_Unsigned ndim = lua_rawlen(L, -2);
  if (ndim > PN_MAX_DIMS) luaL_error(L, "variable '%s' has too many axes", v->name);
  v->ndim = (int)ndim;
  for (int k = 0; k < v->ndim; k++) {
    lua_rawgeti(L, -2, k + 1);
    v->shape[k] = lua_tointeger(L, -1);
    if (v->shape[k] < 0 || v->shape[k] > INT32_MAX) luaL_error(L, "variable '%s' has no such size", v->name);
    lua_pop(L, 1);
  }
  lua_pop(L, 3);
}

/* The variables of the list at index `list`, in a block on the stack. */
static pn_variable *read_variables(lua_State *L, int list, int n) {
  if (!lua_istable(L, list)) luaL_error(L, "a target's variables must be a list, got %s", luaL_typename(L, list));
  pn_variable *v = lua_newuserdatauv(L, (size_t)n * sizeof *v + 1, 0);
  for (int i = 0; i < n; i++) {
    v[i] = (pn_variable){0};
    if (lua_rawgeti(L, list, i + 1) != LUA_TTABLE) luaL_error(L, "a target's variable must be a table");
    read_variable(L, lua_gettop(L), &v[i]);
    lua_pop(L, 1);
  }
  return v;
}

int pni_runtime_host_failed(lua_State *L, pni_job *j, pn_context *c) {
  if (c == j->rt->c) return pni_raise(L, c);
  j->status = pn_context_status(c);
  lua_pushstring(L, pn_context_message(c));
  pn_context_clear_error(c);
  return lua_error(L);
}

static int take_target(lua_State *L) {
  pni_job *j = lua_touserdata(L, 1);
  target_job *t = (target_job *)j;
  pni_runtime_release(j->rt);
  pni_runtime_find(L, j); /* 2 */
  j->status = PN_DTYPE;
  if (!lua_istable(L, 2) || lua_getfield(L, 2, "for_host") != LUA_TFUNCTION)
    luaL_error(L, "%s must be a target, as model:target(...) gives it, got %s", j->name, luaL_typename(L, 2));
  j->status = PN_OK;
  lua_pushvalue(L, 2);
  lua_call(L, 1, 3); /* 3, 4: compiled functions, 5: the list */
  int n = lua_istable(L, 5) && lua_rawlen(L, 5) < 1000000 ? (int)lua_rawlen(L, 5) : 0;
  const pn_variable *v = read_variables(L, 5, n);
  /* from here on no script runs, which might free the plans */
  pn_plan *density = pni_check_plan(L, 3), *values = pni_check_plan(L, 4);
  t->target = pn_target_new(t->c, density, values, n, v);
  return t->target ? 0 : pni_runtime_host_failed(L, j, t->c);
}

pn_status pn_runtime_target(pn_runtime *rt, const char *name, pn_context *c, pn_target **out) {
  if (pni_runtime_begin(rt)) return PN_STATE;
  if (!name || !out) return pni_runtime_refuse(rt, PN_DOMAIN, "target: name and out must not be NULL");
  target_job t = {.job = {.rt = rt, .name = name}, .c = c ? c : rt->c};
  if (pn_context_status(t.c))
    return pni_runtime_refuse(rt, PN_STATE, "target: an error is pending in the context: %s", pn_context_message(t.c));
  pn_status s = pni_runtime_enter(rt, take_target, &t.job);
  if (s == PN_OK)
    *out = t.target;
  else
    pn_target_free(t.target); /* a limit that tripped on the way out */
  return s;
}
