/*
** bind_natural.c: Gaussian factors by natural parameters as Lua sees them; the divergence of order a.
*/
#include <string.h>
#include "../message.h"
#include "distribution_lua.h"

typedef struct {
  pn_natural *s;
} box;

static void release(void *object) {
  box *b = object;
  pn_natural *s = b->s;
  b->s = NULL;
  pn_natural_unref(s);
}

static const pni_object_type kind = {"penumbra.natural", "a Gaussian factor", sizeof(box), 0, true, release};

static pn_natural *check(lua_State *L, int i) {
  box *b = pni_test_object(L, i, &kind);
  if (!b) pni_error(L, "argument %d must be a Gaussian factor, got %s", i, pni_type_name(L, i));
  if (!b->s) pni_error(L, "Gaussian factor was closed");
  return b->s;
}

static box *new_box(lua_State *L) { return pni_new_object(L, &kind); }

static int finish(lua_State *L, pn_context *c, box *b, pn_natural *made) {
  if (!made && pn_context_status(c) == PN_NOMEM) lua_gc(L, LUA_GCCOLLECT, 0);
  if (!made) return pni_raise(L, c);
  b->s = made;
  return 1;
}

/* A tensor or number at index i, named in the message; NULL is not returned. */
static void check_value(lua_State *L, int i, const char *where, const char *role) {
  if (!pni_test_tensor(L, i) && lua_type(L, i) != LUA_TNUMBER)
    pni_error(L, "%s: %s must be a tensor or a number, got %s", where, role, pni_type_name(L, i));
}

/* ---- making ---- */

/* new_natural(form, precision_mean, precision) */
static int l_new(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  const char *form = luaL_checkstring(L, 1);
  lua_settop(L, 3);
  check_value(L, 2, "natural", "precision_mean");
  check_value(L, 3, "natural", "precision");
  const pn_tensor *like = pni_test_tensor(L, 2) ? pni_test_tensor(L, 2) : pni_test_tensor(L, 3);
  box *b = new_box(L);
  size_t mark = pn_scope_open(c);
  pn_tensor *eta = pni_to_tensor(L, c, 2, like), *lambda = pni_to_tensor(L, c, 3, like);
  pn_natural *made = pn_natural_new(c, form, eta, lambda);
  pn_scope_close(c, mark);
  return finish(L, c, b, made);
}

static int l_of(lua_State *L) {
  pn_dist *d = pni_check_dist(L, 1);
  box *b = new_box(L);
  return finish(L, d->ctx, b, pn_natural_of(d->ctx, d));
}

/* ---- arithmetic ---- */

static int l_product(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_natural *x = check(L, 1), *y = check(L, 2);
  box *b = new_box(L);
  return finish(L, c, b, pn_natural_product(c, x, y));
}

static int l_quotient(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_natural *x = check(L, 1), *y = check(L, 2);
  box *b = new_box(L);
  return finish(L, c, b, pn_natural_quotient(c, x, y));
}

static int l_power(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_natural *x = check(L, 1);
  check_value(L, 2, "natural", "exponent");
  box *b = new_box(L);
  size_t mark = pn_scope_open(c);
  pn_natural *made = pn_natural_power(c, x, pni_to_tensor(L, c, 2, pn_natural_precision(x)));
  pn_scope_close(c, mark);
  return finish(L, c, b, made);
}

/* ---- values ---- */

static int l_log_factor(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_natural *s = check(L, 1);
  check_value(L, 2, "log_factor", "x");
  PNI_RETURN(L, c, pn_natural_log_factor(c, s, pni_to_tensor(L, c, 2, pn_natural_precision(s))));
}

static int l_log_normaliser(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_natural *s = check(L, 1);
  PNI_RETURN(L, c, pn_natural_log_normaliser(c, s));
}

static int l_expected_log(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_natural *s = check(L, 1);
  pn_dist *q = pni_check_dist(L, 2);
  PNI_RETURN(L, c, pn_natural_expected_log(c, s, q));
}

static int l_to_distribution(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_natural *s = check(L, 1);
  pni_dist_box *b = pni_new_dist_box(L);
  return pni_finish_dist(L, c, b, pn_natural_to_dist(c, s));
}

/* renyi(p, q, order) */
static int l_renyi(lua_State *L) {
  pn_dist *p = pni_check_dist(L, 1), *q = pni_check_dist(L, 2);
  int ok;
  double order = lua_tonumberx(L, 3, &ok);
  if (!ok) return pni_error(L, "renyi: order must be a number, got %s", pni_type_name(L, 3));
  PNI_RETURN(L, p->ctx, pn_dist_renyi(p->ctx, p, q, order));
}

/* ---- asking ---- */

static const char *const fields[] = {"form", "precision", "precision_mean", NULL};

static int l_index(lua_State *L) {
  pn_natural *s = check(L, 1);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strcmp(key, "form") == 0) return lua_pushstring(L, pn_natural_form(s)), 1;
  if (strcmp(key, "precision") == 0) return pni_push_tensor(L, pn_natural_precision(s)), 1;
  if (strcmp(key, "precision_mean") == 0) return pni_push_tensor(L, pn_natural_precision_mean(s)), 1;
  return pni_no_such(L, "a Gaussian factor", fields);
}

static int l_tostring(lua_State *L) {
  box *b = luaL_checkudata(L, 1, "penumbra.natural");
  if (!b->s) return lua_pushliteral(L, "closed Gaussian factor"), 1;
  pn_tensor *value[] = {pn_natural_precision_mean(b->s), pn_natural_precision(b->s)};
  pni_check_shown(L, value[0]->ctx, 2, value);
  return pni_describe(L, "natural");
}

static const luaL_Reg functions[] = {
    {"new_natural", l_new}, {"new_natural_of", l_of}, {"new_renyi", l_renyi}, {NULL, NULL}};

static const luaL_Reg methods[] = {{"log_factor", l_log_factor},
                                   {"log_normaliser", l_log_normaliser},
                                   {"expected_log", l_expected_log},
                                   {"to_distribution", l_to_distribution},
                                   {NULL, NULL}};

static const luaL_Reg events[] = {
    {"__mul", l_product}, {"__div", l_quotient}, {"__pow", l_power}, {"__tostring", l_tostring}, {NULL, NULL}};

void pni_open_natural(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
  pni_new_kind(L, &kind);
  luaL_setfuncs(L, events, 0);
  luaL_newlib(L, methods);
  pni_add_close(L, &kind);
  lua_pushvalue(L, -1);
  lua_setfield(L, -4, "natural_methods");
  pni_add_space(L, "a Gaussian factor", -1, 0);
  lua_pushcclosure(L, l_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
