/*
** bind_distribution.c: distributions as Lua sees them. Constructors, fields and methods are read from the rows; nothing
** here knows a distribution by name.
*/
#include <string.h>
#include "distribution_lua.h"
#include "../message.h"

typedef pni_dist_box box;

static void release(void *object) {
  box *b = object;
  pn_dist *d = b->d;
  b->d = NULL;
  pn_dist_unref(d);
}

const pni_object_type pni_dist_kind = {"penumbra.distribution", "a distribution", sizeof(box), 0, true, release};

bool pni_is_dist(lua_State *L, int i) { return pni_test_object(L, i, &pni_dist_kind) != NULL; }

pn_dist *pni_check_dist(lua_State *L, int i) {
  box *b = pni_test_object(L, i, &pni_dist_kind);
  if (!b) pni_error(L, "argument %d must be a distribution, got %s", i, pni_type_name(L, i));
  if (!b->d) pni_error(L, "distribution was closed");
  return b->d;
}

static pn_dist *self(lua_State *L) {
  if (!pni_is_dist(L, 1)) pni_error(L, "distribution methods are called with a colon, as in d:sample{10}");
  return pni_check_dist(L, 1);
}

pni_dist_box *pni_new_dist_box(lua_State *L) { return pni_new_object(L, &pni_dist_kind); }

/* Fills the box on the stack top, or raises. */
int pni_finish_dist(lua_State *L, pn_context *c, box *b, pn_dist *d) {
  if (!d && pn_context_status(c) == PN_NOMEM) lua_gc(L, LUA_GCCOLLECT, 0);
  if (!d) return pni_raise(L, c);
  b->d = d;
  return 1;
}

/* ---- making ---- */

static void check_names(lua_State *L, const pni_distribution *kind, int i) {
  const char *names[PNI_DIST_PARAMS + 2] = {NULL};
  int k = 0;
  for (; k < PNI_DIST_PARAMS && kind->param[k].name; k++) names[k] = kind->param[k].name;
  names[k] = "validate";
  pni_check_options(L, i, kind->name, names);
}

/* new_distribution(kind, {name = tensor or number}) */
static int l_new(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  const pni_distribution *kind = pni_dist_find(luaL_checkstring(L, 1));
  const char *names[PNI_DIST_PARAMS];
  int place[PNI_DIST_PARAMS], n = 0;
  const pn_tensor *like = NULL;
  if (!kind) return pni_error(L, "dist: there is no distribution '%s'", lua_tostring(L, 1));
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checkstack(L, PNI_DIST_PARAMS + 8, "too many parameters");
  check_names(L, kind, 2);
  for (int k = 0; k < PNI_DIST_PARAMS && kind->param[k].name; k++) {
    const pni_parameter *p = &kind->param[k];
    if (pni_get_raw(L, 2, p->name) == LUA_TNIL) {
      lua_pop(L, 1);
      if (!p->optional || *p->axes) continue; /* only the library knows the sizes */
      lua_pushnumber(L, p->absent);
    }
    place[n] = lua_gettop(L);
    names[n] = p->name;
    const pn_tensor *t = pni_test_tensor(L, place[n]);
    if (!t && lua_type(L, place[n]) != LUA_TNUMBER)
      return pni_error(L, "%s: %s must be a tensor or a number, got %s", kind->name, p->name,
                       pni_type_name(L, place[n]));
    if (t && !like) like = t;
    n++;
  }
  int validate = pni_get_raw(L, 2, "validate");
  if (validate != LUA_TNIL && validate != LUA_TBOOLEAN)
    return pni_error(L, "%s: validate must be true or false, got %s", kind->name, pni_type_name(L, -1));
  int on = lua_toboolean(L, -1);
  box *b = pni_new_dist_box(L);
  size_t mark = pn_scope_open(c);
  pn_tensor *value[PNI_DIST_PARAMS];
  for (int k = 0; k < n; k++) value[k] = pni_to_tensor(L, c, place[k], like);
  pn_dist *d = pn_dist_new(c, kind->name, n, names, value);
  pn_scope_close(c, mark);
  if (d && validate != LUA_TNIL) {
    pn_dist *plain = d;
    d = pn_dist_validate(c, plain, on);
    pn_dist_unref(plain);
  }
  return pni_finish_dist(L, c, b, d);
}

/* d:validate([on = true]) */
static int l_dist_validate(lua_State *L) {
  pn_dist *d = self(L);
  if (!lua_isnoneornil(L, 2) && !lua_isboolean(L, 2))
    return pni_error(L, "%s: validate: on must be true or false, got %s", pn_dist_name(d), pni_type_name(L, 2));
  int on = lua_isnoneornil(L, 2) || lua_toboolean(L, 2);
  box *b = pni_new_dist_box(L);
  return pni_finish_dist(L, d->ctx, b, pn_dist_validate(d->ctx, d, on));
}

/* validate([on]) -> the previous setting; without argument it only asks */
static int l_validate(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  if (!lua_isnoneornil(L, 1) && !lua_isboolean(L, 1))
    return pni_error(L, "validate: on must be true or false, got %s", pni_type_name(L, 1));
  if (!lua_isnoneornil(L, 1) && pni_refuse_capture(c, "validate", "set it outside")) return pni_raise(L, c);
  int old = pn_set_validate(c, lua_toboolean(L, 1));
  if (lua_isnoneornil(L, 1)) pn_set_validate(c, old);
  return lua_pushboolean(L, old), 1;
}

static int l_independent(lua_State *L) {
  pn_dist *d = self(L);
  int ok;
  lua_Integer k = lua_tointegerx(L, 2, &ok);
  if (!ok || k < 0 || k > PN_MAX_DIMS)
    return pni_error(L, "%s: independent: k must be a number of batch axes, got %s", pn_dist_name(d),
                     pni_value_text(L, 2));
  box *b = pni_new_dist_box(L);
  return pni_finish_dist(L, d->ctx, b, pn_dist_independent(d->ctx, d, (int)k));
}

static int l_expand(lua_State *L) {
  pn_dist *d = self(L);
  int64_t shape[PN_MAX_DIMS];
  char where[96];
  snprintf(where, sizeof where, "%s: expand", pn_dist_name(d));
  int n = pni_check_sizes(L, 2, where, PN_MAX_DIMS, shape);
  box *b = pni_new_dist_box(L);
  return pni_finish_dist(L, d->ctx, b, pn_dist_expand(d->ctx, d, n, shape));
}

/* ---- computing ---- */

#define VALUE(name)                                                                                                    \
  static int l_##name(lua_State *L) {                                                                                  \
    pn_dist *d = self(L);                                                                                              \
    PNI_RETURN(L, d->ctx, pn_dist_##name(d->ctx, d));                                                                  \
  }
VALUE(mean)
VALUE(variance)
VALUE(stddev)
VALUE(mode)
VALUE(entropy)

/* A tensor of the parameters' dtype: the one that numbers take. */
const pn_tensor *pni_dist_like(const pn_dist *d) {
  for (int k = 0; k < PNI_DIST_PARAMS; k++)
    if (d->param[k] && pni_is_float(d->param[k])) return d->param[k];
  return d->nparts ? pni_dist_like(d->part[d->nparts - 1]) : NULL;
}

static pn_dist *with_point(lua_State *L, const char *function) {
  pn_dist *d = self(L);
  pni_list_to_tensor(L, 2, pni_dist_like(d));
  if (!pni_test_tensor(L, 2) && lua_type(L, 2) != LUA_TNUMBER && !lua_isboolean(L, 2))
    pni_error(L, "%s: %s: x must be a tensor, a number or a list, got %s", pn_dist_name(d), function,
              pni_type_name(L, 2));
  return d;
}

#define POINT(name)                                                                                                    \
  static int l_##name(lua_State *L) {                                                                                  \
    pn_dist *d = with_point(L, #name);                                                                                 \
    PNI_RETURN(L, d->ctx, pn_dist_##name(d->ctx, d, pni_to_tensor(L, d->ctx, 2, pni_dist_like(d))));                   \
  }
POINT(log_prob)
POINT(cdf)
POINT(icdf)
POINT(log_cdf)
POINT(log_survival)

static const char *const draw_options[] = {"generator", NULL};

/* Sizes at index 2 (a list, which may hold `generator`, or numbers) and a generator or options after them. */
static pn_rng *read_draw(lua_State *L, const pn_dist *d, const char *function, int *ndim, int64_t *shape) {
  char where[96];
  pn_rng *rng = NULL;
  snprintf(where, sizeof where, "%s: %s", pn_dist_name(d), function);
  int top = lua_gettop(L); /* options and generators stay on the stack beyond what becomes the last size */
  for (int i = top; i >= 2 && i >= top - 1; i--) {
    if (pni_test_object(L, i, &pni_generator_kind)) rng = pni_check_rng(L, i);
    if (!lua_istable(L, i)) continue;
    pni_check_options(L, i, where, draw_options);
    if (pni_get_raw(L, i, "generator") != LUA_TNIL) rng = pni_check_rng(L, -1);
  }
  while (top > 2 && lua_type(L, top) != LUA_TNUMBER) top--;
  bool list = top >= 2 && lua_istable(L, 2), sizes = list || (top >= 2 && lua_type(L, top) == LUA_TNUMBER);
  *ndim = 0;
  if (list)
    *ndim = pni_check_sizes(L, 2, where, PN_MAX_DIMS, shape);
  else if (sizes)
    *ndim = pni_check_numbers(L, 2, top, where, PN_MAX_DIMS, shape);
  if (!sizes && top == 2 && !rng && !lua_isnil(L, 2))
    pni_error(L, "%s: sizes must be a list of numbers, got %s", where, pni_type_name(L, 2));
  return rng;
}

/* sample(sizes) or sample{sizes, generator = g} or sample(sizes, g) */
#define DRAW(name)                                                                                                     \
  static int l_##name(lua_State *L) {                                                                                  \
    pn_dist *d = self(L);                                                                                              \
    int n;                                                                                                             \
    int64_t shape[PN_MAX_DIMS];                                                                                        \
    pn_rng *rng = read_draw(L, d, #name, &n, shape);                                                                   \
    PNI_RETURN(L, d->ctx, pn_dist_##name(d->ctx, d, rng, n, shape));                                                   \
  }
DRAW(sample)
DRAW(rsample)

/* rsample_log_prob(sizes) -> x, log density of x; arguments as rsample's */
static int l_rsample_log_prob(lua_State *L) {
  pn_dist *d = self(L);
  int n;
  int64_t shape[PN_MAX_DIMS];
  pn_rng *rng = read_draw(L, d, "rsample_log_prob", &n, shape);
  pn_tensor *log_prob;
  PNI_RETURN_TWO(L, d->ctx, log_prob, pn_dist_rsample_log_prob(d->ctx, d, rng, n, shape, &log_prob));
}

static int l_kl(lua_State *L) {
  for (int i = 1; i <= 2; i++)
    if (!pni_is_dist(L, i))
      return pni_error(L, "kl: %s must be a distribution, got %s", i == 1 ? "p" : "q", pni_type_name(L, i));
  pn_dist *p = pni_check_dist(L, 1), *q = pni_check_dist(L, 2);
  PNI_RETURN(L, p->ctx, pn_dist_kl(p->ctx, p, q));
}

const pni_constraint *pni_check_set(lua_State *L, int i, const char *where) {
  if (lua_type(L, i) != LUA_TSTRING)
    pni_error(L, "%s: set must be the name of a set, got %s", where, pni_type_name(L, i));
  const char *name = lua_tostring(L, i);
  pni_near near;
  pni_near_begin(&near, name);
  for (int k = 0; k < pni_constraint_count(); k++) {
    pni_near_offer(&near, pni_constraint_at(k)->name);
    if (strcmp(pni_constraint_at(k)->name, name) == 0) return pni_constraint_at(k);
  }
  pni_push_nearest(L, &near);
  pni_error(L, "%s: there is no set '%s'%s", where, name, lua_tostring(L, -1));
  return NULL;
}

/* within(set, x): bool, which members of x lie in the set */
static int l_within(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  const pni_constraint *k = pni_check_set(L, 1, "within");
  pn_tensor *x = pni_test_tensor(L, 2);
  if (!x && lua_type(L, 2) != LUA_TNUMBER)
    return pni_error(L, "within: x must be a tensor or a number, got %s", pni_type_name(L, 2));
  int ndim = x ? x->ndim : 0;
  if (ndim < k->rank) return pni_error(L, "within: members of '%s' have %d axes, got %d", k->name, k->rank, ndim);
  PNI_RETURN(L, c, pni_constraint_mask(c, k, pni_to_tensor(L, c, 2, NULL)));
}

/* ---- asking ---- */

/* arguments() -> {name = tensor} of those that were given: enough to save and make the distribution again */
static int l_arguments(lua_State *L) {
  pn_dist *d = self(L);
  lua_createtable(L, 0, 4);
  for (int k = 0; k < PNI_DIST_PARAMS; k++) {
    if (!pni_dist_given(d, k)) continue;
    pni_push_tensor(L, d->param[k]);
    lua_setfield(L, -2, d->kind->param[k].name);
  }
  return 1;
}

/* What a composite is made of: distributions, then a bijector, then tensors without a name (a mask). */
static int push_parts(lua_State *L, pn_dist *d) {
  int n = d->nparts;
  lua_createtable(L, n, 0);
  for (int i = 0; i < d->nparts; i++) {
    box *b = pni_new_dist_box(L);
    b->d = pn_dist_ref(d->part[i]);
    lua_rawseti(L, -2, i + 1);
  }
  if (d->map) {
    pni_push_bijector(L, d->map);
    lua_rawseti(L, -2, ++n);
  }
  for (int k = 0; k < PNI_DIST_PARAMS; k++) {
    if (!d->param[k] || d->kind->param[k].name) continue;
    pni_push_tensor(L, d->param[k]);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

/* Is it a parameter of some distribution? A script may ask one that lacks it, and gets nil. */
static bool is_parameter(const char *key) {
  for (int i = 0; i < pni_dist_count(); i++) {
    const pni_parameter *p = pni_dist_at(i)->param;
    for (int k = 0; k < PNI_DIST_PARAMS && p[k].name; k++)
      if (strcmp(key, p[k].name) == 0) return true;
  }
  return false;
}

static int no_such(lua_State *L, const pn_dist *d) {
  const char *names[PNI_DIST_PARAMS + 12] = {
      "name", "parts", "support", "discrete", "dtype", "independent_rank", "batch_shape", "event_shape"};
  int n = 8;
  for (int k = 0; k < PNI_DIST_PARAMS && d->kind->param[k].name; k++) names[n++] = d->kind->param[k].name;
  return pni_no_such(L, d->kind->name, names);
}

/* d.batch_shape, d.loc ... : fields, after the methods in upvalue 1 */
static int l_index(lua_State *L) {
  pn_dist *d = self(L);
  int n;
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strcmp(key, "name") == 0) return lua_pushstring(L, pn_dist_name(d)), 1;
  if (strcmp(key, "parts") == 0) return push_parts(L, d);
  if (strcmp(key, "support") == 0) return lua_pushstring(L, pn_dist_support(d)), 1;
  if (strcmp(key, "discrete") == 0) return lua_pushboolean(L, (d->flags & PNI_DIST_DISCRETE) != 0), 1;
  if (strcmp(key, "dtype") == 0) return lua_pushstring(L, pn_dtype_name((pn_dtype)d->dtype)), 1;
  if (strcmp(key, "independent_rank") == 0) return lua_pushinteger(L, d->moved), 1;
  if (strcmp(key, "own_batch_shape") == 0) return pni_push_sizes(L, pni_dist_base_ndim(d), d->shape), 1;
  if (strcmp(key, "batch_shape") == 0) {
    const int64_t *shape = pn_dist_batch_shape(d, &n);
    return pni_push_sizes(L, n, shape), 1;
  }
  if (strcmp(key, "event_shape") == 0) {
    const int64_t *shape = pn_dist_event_shape(d, &n);
    return pni_push_sizes(L, n, shape), 1;
  }
  for (int k = 0; k < PNI_DIST_PARAMS && d->kind->param[k].name; k++)
    if (strcmp(key, d->kind->param[k].name) == 0) PNI_RETURN(L, d->ctx, pn_dist_param(d->ctx, d, key));
  return is_parameter(key) ? 0 : no_such(L, d);
}

/* ---- text ---- */

int pni_describe(lua_State *L, const char *what) {
  if (!pni_push_own(L)) luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  pni_get_raw(L, -1, "penumbra.core");
  if (!lua_istable(L, -1) || pni_get_raw(L, -1, "describe") != LUA_TTABLE) return lua_pushstring(L, what), 1;
  pni_get_raw(L, -1, what);
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

void pni_check_shown(lua_State *L, pn_context *c, int n, pn_tensor *const *param) {
  enum { FEW = 16 }; /* as in penumbra.describe */
  for (int k = 0; k < n; k++)
    if (param[k] && param[k]->numel <= FEW && pni_check_read(c, param[k], "tostring")) pni_raise(L, c);
}

/* Numbers shown in a text would be frozen there. */
static void check_shown(lua_State *L, const pn_dist *d) {
  pni_check_shown(L, d->ctx, PNI_DIST_PARAMS, d->param);
  for (int i = 0; i < d->nparts; i++) check_shown(L, d->part[i]);
  if (d->map) pni_check_bijector_shown(L, d->map);
}

/* normal{loc = 0, scale = {1, 2}}  batch [2] event [] */
static int l_tostring(lua_State *L) {
  box *b = luaL_checkudata(L, 1, "penumbra.distribution");
  if (!b->d) return lua_pushliteral(L, "closed distribution"), 1;
  check_shown(L, b->d);
  return pni_describe(L, "distribution");
}

/* ---- rows ---- */

void pni_set_string(lua_State *L, const char *key, const char *value) {
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}

/* {name =, constraint =, must =, axes =, size =, choice =, default =} */
void pni_push_parameter(lua_State *L, const pni_parameter *p) {
  lua_createtable(L, 0, 8);
  pni_set_string(L, "name", p->name);
  pni_set_string(L, "constraint", p->constraint->name);
  pni_set_string(L, "must", p->constraint->must);
  pni_set_string(L, "axes", p->axes);
  if (p->constraint->discrete) {
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "discrete");
  }
  if (p->size) {
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "size");
  }
  if (p->choice) {
    lua_pushinteger(L, p->choice);
    lua_setfield(L, -2, "choice");
  }
  if (p->optional) {
    lua_pushnumber(L, p->absent);
    lua_setfield(L, -2, "default");
  }
}

/* {"concentration", "rate = 1"} or {"probs or logits"} */
static void push_args(lua_State *L, const pni_distribution *kind) {
  int n = 0;
  lua_createtable(L, PNI_DIST_PARAMS, 0);
  for (int k = 0; k < PNI_DIST_PARAMS && kind->param[k].name; k++) {
    const pni_parameter *p = &kind->param[k];
    bool other = k && p->choice && p[-1].choice == p->choice;
    if (other) {
      lua_rawgeti(L, -1, n);
      lua_pushfstring(L, "%s or %s", lua_tostring(L, -1), p->name);
      lua_remove(L, -2);
    } else if (p->optional) {
      if (p->absent > -1e9 && p->absent < 1e9 && p->absent == (int)p->absent)
        lua_pushfstring(L, "%s = %d", p->name, (int)p->absent);
      else
        lua_pushfstring(L, "%s = %f", p->name, p->absent);
    } else {
      lua_pushstring(L, p->name);
    }
    lua_rawseti(L, -2, other ? n : ++n);
  }
}

static void push_functions(lua_State *L, const pni_distribution *kind) {
  static const char *const all[] = {"log_prob", "sample",  "rsample", "mean", "variance", "stddev",
                                    "mode",     "entropy", "cdf",     "icdf", "log_cdf",  "log_survival"};
  lua_createtable(L, 0, 13);
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    lua_pushboolean(L, pni_dist_has(kind, all[i]));
    lua_setfield(L, -2, all[i]);
  }
  lua_pushboolean(L, pni_kl_find(kind, kind) != NULL);
  lua_setfield(L, -2, "kl");
}

void pni_push_dist_row(lua_State *L, const pni_distribution *kind) {
  lua_createtable(L, 0, 12);
  pni_set_string(L, "kind", "distribution");
  pni_set_string(L, "name", kind->name);
  pni_set_string(L, "doc", kind->doc);
  pni_set_string(L, "source", kind->source);
  pni_set_string(L, "moments", kind->moments);
  pni_set_string(L, "support", kind->support->name);
  pni_set_string(L, "support_text", kind->support->must);
  push_args(L, kind);
  lua_setfield(L, -2, "args");
  lua_pushinteger(L, (lua_Integer)strlen(kind->event));
  lua_setfield(L, -2, "event_rank");
  lua_pushboolean(L, (kind->flags & PNI_DIST_DISCRETE) != 0);
  lua_setfield(L, -2, "discrete");
  push_functions(L, kind);
  lua_setfield(L, -2, "functions");
  lua_createtable(L, PNI_DIST_PARAMS, 0);
  for (int k = 0; k < PNI_DIST_PARAMS && kind->param[k].name; k++) {
    pni_push_parameter(L, &kind->param[k]);
    lua_rawseti(L, -2, k + 1);
  }
  lua_setfield(L, -2, "parameters");
}

static int l_rows(lua_State *L) {
  lua_createtable(L, pni_dist_count(), 0);
  for (int i = 0; i < pni_dist_count(); i++) {
    pni_push_dist_row(L, pni_dist_at(i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* kl_pairs() -> {{"normal", "normal"}, {"normal", "gamma", infinite = true}, ...} */
static int l_kl_pairs(lua_State *L) {
  int n = 0;
  lua_newtable(L);
  for (int i = 0; i < pni_dist_count() * pni_dist_count(); i++) {
    const pni_distribution *p = pni_dist_at(i / pni_dist_count()), *q = pni_dist_at(i % pni_dist_count());
    pni_kl_state known = pni_kl_known(p, q);
    if (known == PNI_KL_MISSING) continue;
    lua_createtable(L, 2, 1);
    lua_pushstring(L, p->name);
    lua_rawseti(L, -2, 1);
    lua_pushstring(L, q->name);
    lua_rawseti(L, -2, 2);
    if (known == PNI_KL_INFINITE) {
      lua_pushboolean(L, 1);
      lua_setfield(L, -2, "infinite");
    }
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

static const luaL_Reg functions[] = {
    {"new_distribution", l_new}, {"distribution_rows", l_rows}, {"kl", l_kl}, {"validate", l_validate},
    {"kl_pairs", l_kl_pairs},    {"within", l_within},          {NULL, NULL}};

static const luaL_Reg methods[] = {{"log_prob", l_log_prob},
                                   {"cdf", l_cdf},
                                   {"icdf", l_icdf},
                                   {"log_cdf", l_log_cdf},
                                   {"log_survival", l_log_survival},
                                   {"sample", l_sample},
                                   {"rsample", l_rsample},
                                   {"rsample_log_prob", l_rsample_log_prob},
                                   {"mean", l_mean},
                                   {"variance", l_variance},
                                   {"stddev", l_stddev},
                                   {"mode", l_mode},
                                   {"entropy", l_entropy},
                                   {"independent", l_independent},
                                   {"expand", l_expand},
                                   {"arguments", l_arguments},
                                   {"validate", l_dist_validate},
                                   {NULL, NULL}};

static const luaL_Reg events[] = {{"__tostring", l_tostring}, {NULL, NULL}};

void pni_open_dist(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
  pni_new_kind(L, &pni_dist_kind);
  luaL_setfuncs(L, events, 0);
  luaL_newlib(L, methods);
  pni_add_close(L, &pni_dist_kind);
  lua_pushvalue(L, -1);
  lua_setfield(L, -4, "distribution_methods");
  pni_add_space(L, "d:", -1, 0);
  lua_pushcclosure(L, l_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
