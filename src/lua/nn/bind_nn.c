/*
** bind_nn.c: layers as Lua sees them. A layer is callable and pure; its parameters are boxed once, when it is
** made, so that the same parameter is always the same Lua value.
*/
#include "../message.h"
#include "nn_lua.h"

typedef struct {
  pn_layer *l;
} box;

static void release(void *object) {
  box *b = object;
  pn_layer *l = b->l;
  b->l = NULL;
  pn_layer_unref(l);
}

static const pni_object_type kind = {"penumbra.layer", "a layer", sizeof(box), 1, false, release};

static const pn_layer *check_layer(lua_State *L, int i) {
  box *b = pni_test_object(L, i, &kind);
  if (!b || !b->l) pni_error(L, "layer methods are called with a colon, as in layer:mean(x)");
  return b->l;
}

static const char *const common[] = {"dtype", "generator", NULL};

/* dtype and generator of the option table at index i; the generator stays on the stack. */
static pn_rng *read_common(lua_State *L, int i, const char *where, pn_dtype *dtype) {
  pn_rng *rng = NULL;
  *dtype = pni_default_dtype(L);
  if (!lua_istable(L, i)) return NULL;
  pni_get_raw(L, i, "dtype");
  *dtype = pni_check_dtype(L, -1, where, *dtype);
  pni_get_raw(L, i, "generator");
  rng = pni_check_rng(L, -1);
  return rng;
}

/* Pushes the list of {name, parameter}. */
static void push_pairs(lua_State *L, const pn_layer *l) {
  lua_createtable(L, PNI_LAYER_PARAMS, 0);
  for (int k = 0; k < pn_layer_num_params(l); k++) {
    lua_createtable(L, 2, 0);
    lua_pushstring(L, pn_layer_param_name(l, k));
    lua_rawseti(L, -2, 1);
    pni_push_tensor(L, pn_layer_param(l, k));
    lua_rawseti(L, -2, 2);
    lua_rawseti(L, -2, k + 1);
  }
}

/* layer(type, sizes, options) */
static int l_layer(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  const pni_layer *row = pni_layer_find(luaL_checkstring(L, 1));
  int64_t size[PNI_LAYER_SIZES];
  pn_option options[PNI_OPTIONS + 1];
  pn_dtype dtype;
  if (!row) return pni_error(L, "layer: there is no layer '%s'", lua_tostring(L, 1));
  lua_settop(L, 3);
  int n = lua_isnil(L, 2) ? 0 : pni_check_sizes(L, 2, row->name, PNI_LAYER_SIZES, size);
  pni_read_options(L, row->name, row->options, 3, common, options);
  pn_rng *rng = read_common(L, 3, row->name, &dtype);
  box *b = pni_new_object(L, &kind);
  b->l = pn_layer_new(c, row->name, n, size, dtype, rng, options);
  if (!b->l) return pni_raise(L, c);
  push_pairs(L, b->l);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

static pn_tensor *check_input(lua_State *L, const pn_layer *l, int i) {
  pn_tensor *x = pni_test_tensor(L, i);
  if (!x) pni_error(L, "%s: input must be a tensor, got %s", l->type->name, pni_type_name(L, i));
  return x;
}

/* Pushes what the layer makes of the input at index 2, with the generator at index 3. */
static int forward(lua_State *L, const pn_layer *l) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *x = check_input(L, l, 2);
  if (!lua_isnoneornil(L, 3) && !luaL_testudata(L, 3, "penumbra.generator"))
    return pni_error(L, "%s: generator must be a pn.generator, got %s", pn_layer_type(l), pni_type_name(L, 3));
  pn_rng *rng = pni_check_rng(L, 3);
  PNI_RETURN(L, c, pn_layer_forward(c, l, x, rng));
}

/* layer(x, generator) */
static int l_call(lua_State *L) {
  return forward(L, check_layer(L, 1)); /* a script may take __call out of the metatable */
}

/* The layer on the stack top, or NULL. */
static const pn_layer *top_layer(lua_State *L) {
  const box *b = pni_test_object(L, -1, &kind);
  return b ? b->l : NULL;
}

/* Is the value on the stack top a table that is a network? Those take a generator. */
static bool is_network(lua_State *L) {
  if (!lua_istable(L, -1) || !lua_getmetatable(L, -1)) return false;
  lua_pushliteral(L, "network");
  bool network = lua_rawget(L, -2) == LUA_TBOOLEAN && lua_toboolean(L, -1);
  lua_pop(L, 2);
  return network;
}

/* What the stack holds while a network runs; above it the networks around the one in PARTS, each with its place. */
enum { PARTS = 1, INPUT, GENERATOR };

/* Is the value on the top a network of the same kind as the one in PARTS? */
static bool is_inner(lua_State *L) {
  if (!lua_istable(L, -1) || !lua_getmetatable(L, -1)) return false;
  if (!lua_getmetatable(L, PARTS)) return lua_pop(L, 1), false;
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same;
}

/* Pushes the part to call after number *k, or returns false after the last. Networks within are gone through, not
 * called: depth costs no C stack. */
static bool push_next(lua_State *L, lua_KContext *k) {
  while (true) {
    if (lua_rawgeti(L, PARTS, (lua_Integer)++ * k) == LUA_TNIL) {
      lua_pop(L, 1);
      if (lua_gettop(L) == GENERATOR) return false;
      *k = (lua_KContext)lua_tointeger(L, -1);
      lua_pop(L, 1);
      lua_replace(L, PARTS);
    } else if (is_inner(L)) {
      luaL_checkstack(L, 8, "networks within networks");
      lua_pushvalue(L, PARTS);
      lua_pushinteger(L, (lua_Integer)*k);
      lua_rotate(L, -3, -1);
      lua_replace(L, PARTS);
      *k = 0;
    } else {
      return true;
    }
  }
}

/* Goes on after part k, whose output is on the top if it was called. */
static int call_parts(lua_State *L, int status, lua_KContext k) {
  if (status == LUA_YIELD) lua_replace(L, INPUT);
  while (push_next(L, &k)) {
    const pn_layer *l = top_layer(L);
    if (l) {
      forward(L, l);
      lua_replace(L, INPUT);
      lua_pop(L, 1);
    } else {
      bool with_generator = !lua_isnil(L, GENERATOR) && is_network(L);
      lua_pushvalue(L, INPUT);
      if (with_generator) lua_pushvalue(L, GENERATOR);
      lua_callk(L, with_generator ? 2 : 1, 1, k, call_parts);
      lua_replace(L, INPUT);
    }
  }
  lua_pushvalue(L, INPUT);
  return 1;
}

/* call_in_turn(parts, x [, generator]) -> what the last gives: each takes what the one before gave */
static int l_call_in_turn(lua_State *L) {
  lua_settop(L, 3);
  if (!lua_istable(L, 1)) return pni_error(L, "sequential: network must be a table, got %s", pni_type_name(L, 1));
  return call_parts(L, LUA_OK, 0);
}

static int l_mean(lua_State *L) {
  const pn_layer *l = check_layer(L, 1);
  pn_context *c = pni_lua_context(L);
  pn_tensor *x = check_input(L, l, 2);
  PNI_RETURN(L, c, pn_layer_mean(c, l, x));
}

static int l_kl(lua_State *L) {
  const pn_layer *l = check_layer(L, 1);
  pn_context *c = pni_lua_context(L);
  PNI_RETURN(L, c, pn_layer_kl(c, l));
}

/* layer:moments(x) -> mean, variance */
static int l_moments(lua_State *L) {
  const pn_layer *l = check_layer(L, 1);
  pn_context *c = pni_lua_context(L);
  pn_tensor *mean, *variance;
  pn_tensor *x = check_input(L, l, 2);
  pni_box *b[2] = {pni_new_box(L), pni_new_box(L)};
  size_t mark = pn_scope_open(c);
  pn_status s = pn_layer_moments(c, l, x, &mean, &variance);
  if (s == PN_OK) {
    b[0]->t = pn_tensor_ref(mean);
    b[1]->t = pn_tensor_ref(variance);
  }
  pn_scope_close(c, mark);
  if (s) return pni_raise(L, c);
  pni_tell_collector(L);
  return 2;
}

/* The states from argument 3 on, NULL where there is nil. */
static void check_states(lua_State *L, const pn_layer *l, const char *where, int count, pn_tensor **state) {
  int n = pn_layer_num_states(l), given = count - 2;
  if (given > n && n > 0)
    pni_error(L, "%s: %s: state must be at most %d tensors, got %d", l->type->name, where, n, given);
  for (int k = 0; k < n; k++) {
    bool absent = k >= given || lua_isnil(L, k + 3);
    state[k] = absent ? NULL : pni_test_tensor(L, k + 3);
    if (!state[k] && !absent)
      pni_error(L, "%s: %s: state must be a tensor, got %s", l->type->name, where, pni_type_name(L, k + 3));
  }
}

/* Outputs of all steps (unless `step`) and the state after them. */
static int advance(lua_State *L, bool step) {
  const pn_layer *l = check_layer(L, 1);
  pn_context *c = pni_lua_context(L);
  const char *where = step ? "step" : "unroll";
  pn_tensor *state[PNI_LAYER_STATES] = {NULL}, *out[PNI_LAYER_STATES + 1] = {NULL};
  pni_box *boxes[PNI_LAYER_STATES + 1];
  int n = pn_layer_num_states(l), first = step ? 1 : 0;
  pn_tensor *x = check_input(L, l, 2);
  int top = lua_gettop(L);
  check_states(L, l, where, top, state);
  luaL_checkstack(L, n + 4, "too many states");
  for (int k = first; k <= n; k++) boxes[k] = pni_new_box(L);
  size_t mark = pn_scope_open(c);
  pn_status s = step ? pn_layer_step(c, l, x, state, out + 1) : pn_layer_unroll(c, l, x, state, out, out + 1);
  for (int k = first; s == PN_OK && k <= n; k++) boxes[k]->t = pn_tensor_ref(out[k]);
  pn_scope_close(c, mark);
  if (s) return pni_raise(L, c);
  pni_tell_collector(L);
  return lua_gettop(L) - top;
}

/* layer:unroll(x, h, c) -> outputs, h, c */
static int l_unroll(lua_State *L) { return advance(L, false); }
/* layer:step(x, h, c) -> h, c */
static int l_step(lua_State *L) { return advance(L, true); }

static int l_type(lua_State *L) {
  lua_pushstring(L, pn_layer_type(check_layer(L, 1)));
  return 1;
}

/* layer:stochastic(): is there a posterior, so that kl() is not zero by definition? */
static int l_stochastic(lua_State *L) {
  lua_pushboolean(L, check_layer(L, 1)->type->kl != NULL);
  return 1;
}

/* layer:own_parameters() -> list of {name, parameter}, the same table every time */
static int l_own_parameters(lua_State *L) {
  check_layer(L, 1);
  lua_getiuservalue(L, 1, 1);
  return 1;
}

/* layer:with(list of tensors) -> a layer that computes with these in place of its parameters, in their order */
static int l_with(lua_State *L) {
  const pn_layer *l = check_layer(L, 1);
  pn_context *c = pni_lua_context(L);
  pn_tensor *value[PNI_LAYER_PARAMS];
  if (!lua_istable(L, 2)) return pni_error(L, "with: tensors must be a list, got %s", pni_type_name(L, 2));
  int n = pn_layer_num_params(l);
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, 2, k + 1);
    value[k] = pni_test_tensor(L, -1);
    if (!value[k])
      return pni_error(L, "with: %s must be a tensor, got %s", pn_layer_param_name(l, k), pni_type_name(L, -1));
  }
  box *b = pni_new_object(L, &kind);
  b->l = pni_layer_with(c, l, value);
  if (!b->l) return pni_raise(L, c);
  push_pairs(L, b->l);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

/* layer:configuration() -> sizes, {option = value} of those that differ from their defaults */
static int l_configuration(lua_State *L) {
  const pn_layer *l = check_layer(L, 1);
  lua_newtable(L);
  for (int k = 0; l->type->size[k]; k++) {
    lua_pushinteger(L, l->size[k]);
    lua_rawseti(L, -2, k + 1);
  }
  lua_newtable(L);
  for (int k = 0; l->type->options[k].name; k++) {
    const pni_option *o = &l->type->options[k];
    if (l->option[k] >= o->value && l->option[k] <= o->value) continue;
    pni_push_option_value(L, o, l->option[k]);
    lua_setfield(L, -2, o->name);
  }
  return 2;
}

/* initialise(name, shape, options) */
static int l_initialise(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  const char *name = luaL_checkstring(L, 1);
  const pni_initialiser *row = pni_initialiser_find(name);
  int64_t shape[PN_MAX_DIMS];
  pn_option options[PNI_OPTIONS + 1];
  pn_dtype dtype;
  if (!row) return pni_error(L, "initialise: there is no initialiser '%s'", name);
  if (!lua_istable(L, 2)) return pni_error(L, "%s: shape must be a list of sizes, got %s", name, pni_type_name(L, 2));
  int n = pni_check_sizes(L, 2, name, PN_MAX_DIMS, shape);
  lua_settop(L, 3);
  pni_read_options(L, name, row->options, 3, common, options);
  pn_rng *rng = read_common(L, 3, name, &dtype);
  PNI_RETURN(L, c, pn_initialise(c, row->name, rng, dtype, n, shape, options));
}

/* ---- rows ---- */

static void set_text(lua_State *L, const char *key, const char *text) {
  lua_pushstring(L, text);
  lua_setfield(L, -2, key);
}

/* A list of the names up to NULL. */
static void set_names(lua_State *L, const char *key, const char *const *names) {
  lua_newtable(L);
  for (int k = 0; names[k]; k++) {
    lua_pushstring(L, names[k]);
    lua_rawseti(L, -2, k + 1);
  }
  lua_setfield(L, -2, key);
}

static void set_args(lua_State *L, const char *const *sizes, const pni_option *options) {
  luaL_Buffer B;
  luaL_buffinit(L, &B);
  for (int k = 0; sizes && sizes[k]; k++) {
    lua_pushfstring(L, "%s%s:i", k ? " " : "", sizes[k]);
    luaL_addvalue(&B);
  }
  pni_add_option_text(&B, L, options);
  luaL_pushresult(&B);
  const char *s = lua_tostring(L, -1);
  if (*s == ' ') {
    lua_pushstring(L, s + 1);
    lua_replace(L, -2);
  }
  lua_setfield(L, -2, "args");
}

static int l_layer_rows(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; i < pni_layer_count(); i++) {
    const pni_layer *row = pni_layer_at(i);
    lua_newtable(L);
    set_text(L, "kind", "layer");
    set_text(L, "name", row->name);
    set_text(L, "doc", row->doc);
    set_text(L, "source", row->source);
    set_names(L, "sizes", row->size);
    set_names(L, "parameters", row->param);
    set_args(L, row->size, row->options);
    pni_push_options(L, row->options);
    lua_setfield(L, -2, "options");
    lua_pushboolean(L, row->kl != NULL);
    lua_setfield(L, -2, "stochastic");
    lua_pushinteger(L, row->states);
    lua_setfield(L, -2, "states");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int l_initialiser_rows(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; i < pni_initialiser_count(); i++) {
    const pni_initialiser *row = pni_initialiser_at(i);
    lua_newtable(L);
    set_text(L, "kind", "initialiser");
    set_text(L, "name", row->name);
    set_text(L, "alias", row->alias);
    set_text(L, "doc", row->doc);
    set_text(L, "source", row->source);
    set_args(L, NULL, row->options);
    pni_push_options(L, row->options);
    lua_setfield(L, -2, "options");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static const luaL_Reg functions[] = {{"new_layer", l_layer},
                                     {"initialise", l_initialise},
                                     {"call_in_turn", l_call_in_turn},
                                     {"layer_rows", l_layer_rows},
                                     {"initialiser_rows", l_initialiser_rows},
                                     {NULL, NULL}};

static const luaL_Reg methods[] = {{"mean", l_mean},
                                   {"kl", l_kl},
                                   {"moments", l_moments},
                                   {"unroll", l_unroll},
                                   {"step", l_step},
                                   {"type", l_type},
                                   {"stochastic", l_stochastic},
                                   {"own_parameters", l_own_parameters},
                                   {"with", l_with},
                                   {"configuration", l_configuration},
                                   {NULL, NULL}};

void pni_open_nn(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
  pni_new_kind(L, &kind);
  luaL_newlib(L, methods);
  lua_pushvalue(L, -1);
  lua_setfield(L, -4, "layer_methods");
  pni_guard_methods(L, "a layer");
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, l_call);
  lua_setfield(L, -2, "__call");
  lua_pushliteral(L, "layer");
  lua_setfield(L, -2, "__name");
  lua_pop(L, 1);
}
