/*
** bind_set.c: the sets in which parameters and values lie, as the distributions that scripts make (own.lua) need them.
*/
#include "../../distribution/composite/composite.h"
#include "../message.h"
#include "distribution_lua.h"

/* find(name, where) -> {name =, must =, rank =, discrete =}; raises, naming the nearest */
static int l_find(lua_State *L) {
  const pni_constraint *k = pni_check_set(L, 1, luaL_checkstring(L, 2));
  lua_createtable(L, 0, 4);
  pni_set_string(L, "name", k->name);
  pni_set_string(L, "must", k->must);
  lua_pushinteger(L, k->rank);
  lua_setfield(L, -2, "rank");
  lua_pushboolean(L, k->discrete);
  lua_setfield(L, -2, "discrete");
  return 1;
}

/* inside(a, b): does every member of a lie in b? */
static int l_inside(lua_State *L) {
  lua_pushboolean(L, pni_constraint_inside(pni_check_set(L, 1, "set"), pni_check_set(L, 2, "set")));
  return 1;
}

/* require(set, x, where, role): raises "where: role must be ..., got ..." unless each member of x lies in the set; a
 * capture notes the check, under names that outlive the strings: the eager call after a replay that failed has
 * these. */
static int l_require(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  const pni_constraint *k = pni_check_set(L, 1, "set");
  pn_tensor *x = pni_check_tensor(L, 2);
  const char *where = luaL_checkstring(L, 3), *role = luaL_checkstring(L, 4);
  if (x->ndim < k->rank)
    return pni_error(L, "%s: %s must have at least %d %s, got %d", where, role, k->rank, k->rank == 1 ? "axis" : "axes",
                     x->ndim);
  if (c->recorder) where = "distribution", role = "a parameter or value";
  size_t mark = pn_scope_open(c);
  pn_status s = pni_constraint_require(c, k, where, role, x);
  pn_scope_close(c, mark);
  return s ? pni_raise(L, c) : 0;
}

/* member(set, dtype, sizes): some member, of these sizes */
static int l_member(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  const pni_constraint *k = pni_check_set(L, 1, "set");
  pn_dtype dtype = pni_check_dtype(L, 2, "set", PN_FLOAT64);
  int64_t size[PN_MAX_DIMS];
  int n = pni_check_sizes(L, 3, "set", PN_MAX_DIMS, size);
  if (n != k->rank) return pni_error(L, "set: members of '%s' have %d axes, got %d", k->name, k->rank, n);
  PNI_RETURN(L, c, pni_constraint_member(c, k, dtype, size));
}

static const luaL_Reg functions[] = {
    {"find", l_find}, {"inside", l_inside}, {"require", l_require}, {"member", l_member}, {NULL, NULL}};

void pni_open_set(lua_State *L) {
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "set");
}
