/*
** bind_bijector.c: bijectors as Lua sees them, and the distributions made of distributions. Constructors and fields are
** read from the rows; nothing here knows a bijector by name.
*/
#include <string.h>
#include "../../distribution/composite/composite.h"
#include "../message.h"
#include "distribution_lua.h"

typedef pni_bijector_box box;

static void release(void *object) {
  box *b = object;
  pn_bijector *map = b->b;
  b->b = NULL;
  pn_bijector_unref(map);
}

static const pni_object_type object = {"penumbra.bijector", "a bijector", sizeof(box), 0, true, release};

pn_bijector *pni_check_bijector(lua_State *L, int i) {
  box *b = pni_test_object(L, i, &object);
  if (!b) pni_error(L, "argument %d must be a bijector, got %s", i, pni_type_name(L, i));
  if (!b->b) pni_error(L, "bijector was closed");
  return b->b;
}

static pn_bijector *self(lua_State *L) {
  if (!pni_test_object(L, 1, &object)) pni_error(L, "bijector methods are called with a colon, as in b:forward(x)");
  return pni_check_bijector(L, 1);
}

static box *new_box(lua_State *L) { return pni_new_object(L, &object); }

void pni_push_bijector(lua_State *L, pn_bijector *b) { new_box(L)->b = pn_bijector_ref(b); }

static int finish(lua_State *L, pn_context *c, box *b, pn_bijector *made) {
  if (!made && pn_context_status(c) == PN_NOMEM) lua_gc(L, LUA_GCCOLLECT, 0);
  if (!made) return pni_raise(L, c);
  b->b = made;
  return 1;
}

/* ---- making ---- */

/* new_bijector(kind, {name = tensor or number}) */
static int l_new(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  const pni_bijector *kind = pni_bijector_find(luaL_checkstring(L, 1));
  const char *names[PNI_BIJECTOR_PARAMS + 1] = {NULL};
  int place[PNI_BIJECTOR_PARAMS], n = 0;
  const pn_tensor *like = NULL;
  if (!kind) return pni_error(L, "bijector: there is no bijector '%s'", lua_tostring(L, 1));
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checkstack(L, PNI_BIJECTOR_PARAMS + 8, "too many parameters");
  for (int k = 0; k < PNI_BIJECTOR_PARAMS && kind->param[k].name; k++) names[k] = kind->param[k].name;
  pni_check_options(L, 2, kind->name, names);
  for (int k = 0; k < PNI_BIJECTOR_PARAMS && kind->param[k].name; k++) {
    const char *name = kind->param[k].name;
    if (pni_get_raw(L, 2, name) == LUA_TNIL) {
      lua_pop(L, 1);
      continue;
    }
    place[n] = lua_gettop(L);
    names[n] = name;
    const pn_tensor *t = pni_test_tensor(L, place[n]);
    if (!t && lua_type(L, place[n]) != LUA_TNUMBER)
      return pni_error(L, "%s: %s must be a tensor or a number, got %s", kind->name, name, pni_type_name(L, place[n]));
    if (t && !like && pni_is_float(t)) like = t;
    n++;
  }
  box *b = new_box(L);
  size_t mark = pn_scope_open(c);
  pn_tensor *value[PNI_BIJECTOR_PARAMS];
  for (int k = 0; k < n; k++) value[k] = pni_to_tensor(L, c, place[k], like);
  pn_bijector *made = pn_bijector_new(c, kind->name, n, names, value);
  pn_scope_close(c, mark);
  return finish(L, c, b, made);
}

enum { MOST_PARTS = 64 };

/* compose_bijector(kind, {bijector, ...}) */
static int l_compose(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  const char *kind = luaL_checkstring(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  int n = lua_rawlen(L, 2) > MOST_PARTS ? MOST_PARTS + 1 : (int)lua_rawlen(L, 2);
  if (n > MOST_PARTS)
    return pni_error(L, "%s: at most %d bijectors are possible, got %d", kind, MOST_PARTS, (int)lua_rawlen(L, 2));
  luaL_checkstack(L, n + 8, "too many parts");
  pn_bijector *part[MOST_PARTS];
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 2, i + 1);
    if (!pni_test_object(L, -1, &object))
      return pni_error(L, "%s: part %d must be a bijector, got %s", kind, i + 1, pni_type_name(L, -1));
    part[i] = pni_check_bijector(L, lua_gettop(L));
  }
  box *b = new_box(L);
  return finish(L, c, b, pn_bijector_compose(c, kind, n, part));
}

/* biject_to(set [, low, high]): onto the named set */
static int l_biject_to(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  const char *set = pni_check_set(L, 1, "biject_to")->name;
  pn_tensor *end[2] = {NULL, NULL};
  lua_settop(L, 3);
  for (int i = 0; i < 2; i++)
    if (!lua_isnil(L, i + 2) && lua_type(L, i + 2) != LUA_TNUMBER && !pni_test_tensor(L, i + 2))
      return pni_error(L, "biject_to: %s must be a tensor or a number, got %s", i ? "high" : "low",
                       pni_type_name(L, i + 2));
  box *b = new_box(L);
  size_t mark = pn_scope_open(c);
  for (int i = 0; i < 2; i++)
    if (!lua_isnil(L, i + 2)) end[i] = pni_to_tensor(L, c, i + 2, i ? end[0] : NULL);
  pn_bijector *made = pn_biject_to(c, set, end[0], end[1]);
  pn_scope_close(c, mark);
  return finish(L, c, b, made);
}

/* ---- computing ---- */

static const pn_tensor *like(const pn_bijector *b) {
  for (int k = 0; k < PNI_BIJECTOR_PARAMS; k++)
    if (b->param[k] && pni_is_float(b->param[k])) return b->param[k];
  const pn_tensor *found = NULL;
  for (int i = 0; i < b->nparts && !found; i++) found = like(b->part[i]);
  return found;
}

static pn_bijector *with_tensor(lua_State *L, const char *function) {
  pn_bijector *b = self(L);
  pni_list_to_tensor(L, 2, like(b));
  if (!pni_test_tensor(L, 2) && lua_type(L, 2) != LUA_TNUMBER)
    pni_error(L, "%s: %s: argument must be a tensor, a number or a list, got %s", pn_bijector_name(b), function,
              pni_type_name(L, 2));
  return b;
}

#define POINT(name)                                                                                                    \
  static int l_##name(lua_State *L) {                                                                                  \
    pn_bijector *b = with_tensor(L, #name);                                                                            \
    PNI_RETURN(L, b->ctx, pn_bijector_##name(b->ctx, b, pni_to_tensor(L, b->ctx, 2, like(b))));                        \
  }
POINT(forward)
POINT(inverse)
POINT(log_abs_det)

/* forward_log_det(x) -> y, log |det dy/dx|; inverse_log_det(y) -> x, the same */
#define BOTH(name)                                                                                                     \
  static int l_##name(lua_State *L) {                                                                                  \
    pn_bijector *b = with_tensor(L, #name);                                                                            \
    pn_tensor *log_det;                                                                                                \
    PNI_RETURN_TWO(L, b->ctx, log_det, pn_bijector_##name(b->ctx, b, pni_to_tensor(L, b->ctx, 2, like(b)), &log_det)); \
  }
BOTH(forward_log_det)
BOTH(inverse_log_det)

/* ---- asking ---- */

/* arguments() -> {name = tensor} of those that are there; a bijector with parts has a list of such tables */
static void push_arguments(lua_State *L, const pn_bijector *b) {
  luaL_checkstack(L, 6, "too deep");
  lua_newtable(L);
  for (int k = 0; k < PNI_BIJECTOR_PARAMS; k++) {
    if (!b->param[k]) continue;
    pni_push_tensor(L, b->param[k]);
    lua_setfield(L, -2, b->kind->param[k].name);
  }
  for (int i = 0; i < b->nparts; i++) {
    push_arguments(L, b->part[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

static int l_arguments(lua_State *L) { return push_arguments(L, self(L)), 1; }

/* Is it a parameter of some bijector? A script may ask one that lacks it, and gets nil. */
static bool is_parameter(const char *key) {
  for (int i = 0; i < pni_bijector_count(); i++) {
    const pni_parameter *p = pni_bijector_at(i)->param;
    for (int k = 0; k < PNI_BIJECTOR_PARAMS && p[k].name; k++)
      if (strcmp(key, p[k].name) == 0) return true;
  }
  return false;
}

static int no_such(lua_State *L, const pn_bijector *b) {
  const char *names[PNI_BIJECTOR_PARAMS + 8] = {"name", "domain", "codomain", "domain_rank", "codomain_rank", "parts"};
  int n = 6;
  for (int k = 0; k < PNI_BIJECTOR_PARAMS && b->kind->param[k].name; k++) names[n++] = b->kind->param[k].name;
  return pni_no_such(L, b->kind->name, names);
}

static int l_index(lua_State *L) {
  pn_bijector *b = self(L);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strcmp(key, "name") == 0) return lua_pushstring(L, pn_bijector_name(b)), 1;
  if (strcmp(key, "domain") == 0) return lua_pushstring(L, pn_bijector_domain(b)), 1;
  if (strcmp(key, "codomain") == 0) return lua_pushstring(L, pn_bijector_codomain(b)), 1;
  if (strcmp(key, "domain_rank") == 0) return lua_pushinteger(L, pn_bijector_domain_rank(b)), 1;
  if (strcmp(key, "codomain_rank") == 0) return lua_pushinteger(L, pn_bijector_codomain_rank(b)), 1;
  if (strcmp(key, "parts") == 0) {
    lua_createtable(L, b->nparts, 0);
    for (int i = 0; i < b->nparts; i++) {
      pni_push_bijector(L, b->part[i]);
      lua_rawseti(L, -2, i + 1);
    }
    return 1;
  }
  for (int k = 0; k < PNI_BIJECTOR_PARAMS && b->kind->param[k].name; k++)
    if (b->param[k] && strcmp(key, b->kind->param[k].name) == 0) return pni_push_tensor(L, b->param[k]), 1;
  return is_parameter(key) ? 0 : no_such(L, b);
}

void pni_check_bijector_shown(lua_State *L, const pn_bijector *b) {
  pni_check_shown(L, b->ctx, PNI_BIJECTOR_PARAMS, b->param);
  for (int i = 0; i < b->nparts; i++) pni_check_bijector_shown(L, b->part[i]);
}

/* affine{loc = 0, scale = 2} */
static int l_tostring(lua_State *L) {
  box *b = luaL_checkudata(L, 1, "penumbra.bijector");
  if (!b->b) return lua_pushliteral(L, "closed bijector"), 1;
  pni_check_bijector_shown(L, b->b);
  return pni_describe(L, "bijector");
}

/* ---- rows ---- */

/* {"loc = 0", "scale = 1"}; an optional tensor that may be absent: "[bias]" */
static void push_args(lua_State *L, const pni_bijector *kind) {
  lua_createtable(L, PNI_BIJECTOR_PARAMS, 0);
  for (int k = 0; k < PNI_BIJECTOR_PARAMS && kind->param[k].name; k++) {
    const pni_parameter *p = &kind->param[k];
    if (!p->optional)
      lua_pushstring(L, p->name);
    else if (p->absent != p->absent)
      lua_pushfstring(L, "[%s]", p->name);
    else
      lua_pushfstring(L, "%s = %d", p->name, (int)p->absent);
    lua_rawseti(L, -2, k + 1);
  }
  if (kind->parts) {
    lua_pushstring(L, kind->parts < 0 ? "{bijector, ...}" : "bijector");
    lua_rawseti(L, -2, 1);
  }
}

static void push_row(lua_State *L, const pni_bijector *kind) {
  lua_createtable(L, 0, 12);
  pni_set_string(L, "kind", "bijector");
  pni_set_string(L, "name", kind->name);
  pni_set_string(L, "doc", kind->doc);
  pni_set_string(L, "source", kind->source);
  pni_set_string(L, "domain", kind->domain->name);
  pni_set_string(L, "codomain", kind->codomain->name);
  push_args(L, kind);
  lua_setfield(L, -2, "args");
  lua_pushinteger(L, kind->parts);
  lua_setfield(L, -2, "parts");
  lua_createtable(L, PNI_BIJECTOR_PARAMS, 0);
  for (int k = 0; k < PNI_BIJECTOR_PARAMS && kind->param[k].name; k++) {
    pni_push_parameter(L, &kind->param[k]);
    lua_rawseti(L, -2, k + 1);
  }
  lua_setfield(L, -2, "parameters");
}

static int l_rows(lua_State *L) {
  lua_createtable(L, pni_bijector_count(), 0);
  for (int i = 0; i < pni_bijector_count(); i++) {
    push_row(L, pni_bijector_at(i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* ---- distributions made of distributions ---- */

static int l_transformed(lua_State *L) {
  pn_dist *base = pni_check_dist(L, 1);
  pn_bijector *map = pni_check_bijector(L, 2);
  pni_dist_box *b = pni_new_dist_box(L);
  return pni_finish_dist(L, base->ctx, b, pn_dist_transformed(base->ctx, base, map));
}

/* new_mixture(labels, {distribution, ...}) */
static int l_mixture(lua_State *L) {
  pn_dist *labels = pni_check_dist(L, 1), *component[MOST_PARTS];
  luaL_checktype(L, 2, LUA_TTABLE);
  int n = lua_rawlen(L, 2) > MOST_PARTS ? MOST_PARTS + 1 : (int)lua_rawlen(L, 2);
  if (n > MOST_PARTS)
    return pni_error(L, "mixture: at most %d distributions are possible, got %d", MOST_PARTS, (int)lua_rawlen(L, 2));
  luaL_checkstack(L, n + 8, "too many parts");
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 2, i + 1);
    if (!pni_is_dist(L, -1))
      return pni_error(L, "mixture: component %d must be a distribution, got %s", i + 1, pni_type_name(L, -1));
    component[i] = pni_check_dist(L, lua_gettop(L));
  }
  pni_dist_box *b = pni_new_dist_box(L);
  return pni_finish_dist(L, labels->ctx, b, pn_dist_mixture(labels->ctx, labels, n, component));
}

/* b(x): b:forward(x); b(d): the law of b(x) for x from d */
static int l_call(lua_State *L) {
  if (!pni_is_dist(L, 2)) return l_forward(L);
  lua_settop(L, 2);
  lua_insert(L, 1);
  return l_transformed(L);
}

static int l_masked(lua_State *L) {
  pn_dist *base = pni_check_dist(L, 1);
  pn_tensor *mask = pni_check_tensor(L, 2);
  pni_dist_box *b = pni_new_dist_box(L);
  return pni_finish_dist(L, base->ctx, b, pn_dist_masked(base->ctx, base, mask));
}

static int l_composite_rows(lua_State *L) {
  lua_createtable(L, pni_composite_count(), 0);
  for (int i = 0; i < pni_composite_count(); i++) {
    pni_push_dist_row(L, pni_composite_at(i));
    pni_set_string(L, "kind", "composite");
    lua_createtable(L, 1, 0);
    lua_pushstring(L, pni_composite_at(i)->call);
    lua_rawseti(L, -2, 1);
    lua_setfield(L, -2, "args");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static const luaL_Reg functions[] = {
    {"new_bijector", l_new},   {"new_composed_bijector", l_compose}, {"new_biject_to", l_biject_to},
    {"bijector_rows", l_rows}, {"new_transformed", l_transformed},   {"new_mixture", l_mixture},
    {"new_masked", l_masked},  {"composite_rows", l_composite_rows}, {NULL, NULL}};

static const luaL_Reg methods[] = {{"forward", l_forward},
                                   {"inverse", l_inverse},
                                   {"log_abs_det", l_log_abs_det},
                                   {"forward_log_det", l_forward_log_det},
                                   {"inverse_log_det", l_inverse_log_det},
                                   {"arguments", l_arguments},
                                   {NULL, NULL}};

static const luaL_Reg events[] = {{"__tostring", l_tostring}, {"__call", l_call}, {NULL, NULL}};

void pni_open_bijector(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
  pni_new_kind(L, &object);
  luaL_setfuncs(L, events, 0);
  luaL_newlib(L, methods);
  pni_add_close(L, &object);
  lua_pushvalue(L, -1);
  lua_setfield(L, -4, "bijector_methods");
  pni_add_space(L, "a bijector", -1, 0);
  lua_pushcclosure(L, l_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
