/*
** bind_nn.c: layers as Lua sees them. A layer is callable and pure; its parameters are boxed once, when it is
** made, so that the same parameter is always the same Lua value.
*/
#include <string.h>
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

/* Lists of {name, tensor}. */
enum { PARAMS = 1, BUFFERS };

static const pni_object_type kind = {"penumbra.layer", "a layer", sizeof(box), BUFFERS, false, release};

const pn_layer *pni_check_layer(lua_State *L, int i) {
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

static void push_pair(lua_State *L, const char *name, pn_tensor *t, int k) {
  lua_createtable(L, 2, 0);
  lua_pushstring(L, name);
  lua_rawseti(L, -2, 1);
  pni_push_tensor(L, t);
  lua_rawseti(L, -2, 2);
  lua_rawseti(L, -2, k + 1);
}

/* The lists of parameters and buffers of the layer on the stack top. */
static void keep_pairs(lua_State *L, const pn_layer *l) {
  lua_createtable(L, pn_layer_num_params(l), 0);
  for (int k = 0; k < pn_layer_num_params(l); k++) push_pair(L, pn_layer_param_name(l, k), pn_layer_param(l, k), k);
  lua_setiuservalue(L, -2, PARAMS);
  lua_createtable(L, pn_layer_num_buffers(l), 0);
  for (int k = 0; k < pn_layer_num_buffers(l); k++) push_pair(L, pn_layer_buffer_name(l, k), pn_layer_buffer(l, k), k);
  lua_setiuservalue(L, -2, BUFFERS);
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
  int tries = 0;
  do {
    b->l = pn_layer_new(c, row->name, n, size, dtype, rng, options);
  } while (!b->l && pni_again(L, c, &tries));
  if (!b->l) return pni_raise(L, c);
  keep_pairs(L, b->l);
  return 1;
}

/* ---- calling ---- */

static pn_tensor *check_input(lua_State *L, const pn_layer *l, int k, int i) {
  int n;
  const pni_layer_input *row = pni_layer_inputs(l->type, &n);
  pn_tensor *x = lua_isnoneornil(L, i) && row[k].flags & PNI_LAYER_MAYBE ? NULL : pni_test_tensor(L, i);
  if (!x && !(lua_isnoneornil(L, i) && row[k].flags & PNI_LAYER_MAYBE))
    pni_error(L, "%s: %s must be a tensor, got %s", l->type->name, pni_layer_role(l->type, k), pni_type_name(L, i));
  return x;
}

static bool is_generator(lua_State *L, int i) { return luaL_testudata(L, i, "penumbra.generator") != NULL; }

/* The inputs from index 2 on, of which optional ones may be nil or left out, then the generator. */
static int check_inputs(lua_State *L, const pn_layer *l, pn_tensor **in, pn_rng **rng) {
  int most = pn_layer_num_inputs(l), n = 0, top = lua_gettop(L);
  while (n < most && !(n > 0 && is_generator(L, 2 + n))) {
    in[n] = check_input(L, l, n, 2 + n);
    n++;
  }
  int at = 2 + n;
  if (!lua_isnoneornil(L, at) && !is_generator(L, at))
    pni_error(L, "%s: generator must be a pn.generator, got %s", pn_layer_type(l), pni_type_name(L, at));
  if (top > at) pni_error(L, "%s: inputs must be at most %d, got %d", pn_layer_type(l), most, top - 2);
  *rng = pni_check_rng(L, at);
  return n;
}

/* Pushes what the layer makes of the inputs from index 2 on. */
static int forward(lua_State *L, const pn_layer *l, pn_mode mode) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *in[PNI_LAYER_INPUTS];
  pn_rng *rng;
  int n = check_inputs(L, l, in, &rng);
  PNI_RETURN(L, c, pn_layer_call(c, l, n, in, mode, rng));
}

static pn_mode mode_now(lua_State *L) { return (pn_mode)pni_lua_state(L)->mode; }

static const char *const modes[] = {"training", "evaluation", "mean", NULL};

/* mode([new]) -> the mode that layers are called in, before it is changed */
static int l_mode(lua_State *L) {
  pni_lua_context(L);
  pni_state *s = pni_lua_state(L);
  int before = s->mode;
  if (!lua_isnoneornil(L, 1)) {
    const char *name = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : NULL;
    int k = 0;
    while (name && modes[k] && strcmp(modes[k], name) != 0) k++;
    if (!name || !modes[k])
      return pni_error(L, "mode: mode must be training, evaluation or mean, got %s", pni_value_text(L, 1));
    s->mode = k;
  }
  lua_pushstring(L, modes[before]);
  return 1;
}

/* layer(x, generator) */
static int l_call(lua_State *L) {
  return forward(L, pni_check_layer(L, 1), mode_now(L)); /* a script may take __call out of the metatable */
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

/* Pushes what a layer makes of the input at index INPUT. */
static int call_part(lua_State *L, const pn_layer *l) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *x = check_input(L, l, 0, INPUT);
  pn_rng *rng;
  if (!lua_isnil(L, GENERATOR) && !is_generator(L, GENERATOR))
    return pni_error(L, "%s: generator must be a pn.generator, got %s", pn_layer_type(l), pni_type_name(L, GENERATOR));
  rng = pni_check_rng(L, GENERATOR);
  PNI_RETURN(L, c, pn_layer_call(c, l, 1, &x, mode_now(L), rng));
}

/* Goes on after part k, whose output is on the top if it was called. */
static int call_parts(lua_State *L, int status, lua_KContext k) {
  if (status == LUA_YIELD) lua_replace(L, INPUT);
  while (push_next(L, &k)) {
    const pn_layer *l = top_layer(L);
    if (l) {
      call_part(L, l);
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

static int l_mean(lua_State *L) { return forward(L, pni_check_layer(L, 1), PN_MODE_MEAN); }
static int l_evaluate(lua_State *L) { return forward(L, pni_check_layer(L, 1), PN_MODE_EVALUATION); }

static int l_kl(lua_State *L) {
  const pn_layer *l = pni_check_layer(L, 1);
  pn_context *c = pni_lua_context(L);
  PNI_RETURN(L, c, pn_layer_kl(c, l));
}

/* layer:moments(mean, variance or nil) -> mean, variance or nil */
static int l_moments(lua_State *L) {
  const pn_layer *l = pni_check_layer(L, 1);
  pn_context *c = pni_lua_context(L);
  pn_tensor *mean, *variance, *m = check_input(L, l, 0, 2), *v = lua_isnoneornil(L, 3) ? NULL : pni_test_tensor(L, 3);
  if (!v && !lua_isnoneornil(L, 3))
    return pni_error(L, "%s: variance must be a tensor, got %s", l->type->name, pni_type_name(L, 3));
  pni_box *b[2] = {pni_new_box(L), pni_new_box(L)};
  size_t mark = pn_scope_open(c);
  pn_status s = pn_layer_moments(c, l, m, v, mode_now(L), &mean, &variance);
  if (s == PN_OK) {
    b[0]->t = pn_tensor_ref(mean);
    b[1]->t = pn_tensor_ref(variance);
  }
  bool certain = s == PN_OK && !variance;
  pn_scope_close(c, mark);
  if (s) return pni_raise(L, c);
  pni_tell_collector(L);
  if (!certain) return 2;
  lua_pop(L, 1);
  lua_pushnil(L);
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

/* Outputs of all steps (unless `step`) and the state after them. A generator may come last. */
static int advance(lua_State *L, bool step) {
  const pn_layer *l = pni_check_layer(L, 1);
  pn_context *c = pni_lua_context(L);
  const char *where = step ? "step" : "unroll";
  pn_tensor *state[PNI_LAYER_STATES] = {NULL}, *out[PNI_LAYER_STATES + 1] = {NULL};
  pni_box *boxes[PNI_LAYER_STATES + 1];
  int n = pn_layer_num_states(l), first = step ? 1 : 0;
  pn_tensor *x = check_input(L, l, 0, 2);
  int top = lua_gettop(L);
  pn_rng *rng = is_generator(L, top) ? pni_check_rng(L, top) : NULL;
  check_states(L, l, where, is_generator(L, top) ? top - 1 : top, state);
  luaL_checkstack(L, n + 4, "too many states");
  for (int k = first; k <= n; k++) boxes[k] = pni_new_box(L);
  size_t mark = pn_scope_open(c);
  pn_mode mode = mode_now(L);
  pn_status s = step ? pn_layer_step(c, l, x, state, mode, rng, out + 1)
                     : pn_layer_unroll(c, l, x, state, mode, rng, out, out + 1);
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
  lua_pushstring(L, pn_layer_type(pni_check_layer(L, 1)));
  return 1;
}

/* layer:stochastic(): is there a posterior, so that kl() is not zero by definition? */
static int l_stochastic(lua_State *L) {
  lua_pushboolean(L, pni_check_layer(L, 1)->type->kl != NULL);
  return 1;
}

/* layer:own_parameters() -> list of {name, parameter}, the same table every time */
static int l_own_parameters(lua_State *L) {
  pni_check_layer(L, 1);
  lua_getiuservalue(L, 1, PARAMS);
  return 1;
}

/* layer:own_buffers() -> the same of its buffers */
static int l_own_buffers(lua_State *L) {
  pni_check_layer(L, 1);
  lua_getiuservalue(L, 1, BUFFERS);
  return 1;
}

static void check_stand_ins(lua_State *L, const char *where, int i, int n,
                            const char *(*name)(const pn_layer *l, int k), const pn_layer *l, pn_tensor **out) {
  if (!lua_istable(L, i)) pni_error(L, "%s: tensors must be a list, got %s", where, pni_type_name(L, i));
  for (int k = 0; k < n; k++) {
    lua_rawgeti(L, i, k + 1);
    out[k] = pni_test_tensor(L, -1);
    if (!out[k]) pni_error(L, "%s: %s must be a tensor, got %s", where, name(l, k), pni_type_name(L, -1));
  }
}

/* layer:with(parameters [, buffers]) -> a layer that computes with these lists of tensors in the place of its own, in
 * their order */
static int l_with(lua_State *L) {
  const pn_layer *l = pni_check_layer(L, 1);
  pn_context *c = pni_lua_context(L);
  pn_tensor *param[PNI_LAYER_PARAMS], *buffer[PNI_LAYER_BUFFERS];
  lua_settop(L, 3);
  bool buffers = !lua_isnil(L, 3);
  check_stand_ins(L, "with", 2, pn_layer_num_params(l), pn_layer_param_name, l, param);
  if (buffers) check_stand_ins(L, "with", 3, pn_layer_num_buffers(l), pn_layer_buffer_name, l, buffer);
  box *b = pni_new_object(L, &kind);
  int tries = 0;
  do {
    b->l = pni_layer_with(c, l, param, buffers ? buffer : NULL);
  } while (!b->l && pni_again(L, c, &tries));
  if (!b->l) return pni_raise(L, c);
  keep_pairs(L, b->l);
  return 1;
}

/* layer:uncertain(log_scales) -> the layer with normal posteriors around its parameters, of these logarithms of
 * standard deviations, in their order */
static int l_uncertain(lua_State *L) {
  const pn_layer *l = pni_check_layer(L, 1);
  pn_context *c = pni_lua_context(L);
  pn_tensor *log_scale[PNI_LAYER_PARAMS];
  lua_settop(L, 2);
  check_stand_ins(L, "uncertain", 2, pn_layer_num_params(l), pn_layer_param_name, l, log_scale);
  box *b = pni_new_object(L, &kind);
  int tries = 0;
  do {
    b->l = pni_layer_uncertain(c, l, log_scale);
  } while (!b->l && pni_again(L, c, &tries));
  if (!b->l) return pni_raise(L, c);
  keep_pairs(L, b->l);
  return 1;
}

/* layer:configuration() -> sizes, {option = value} of those that differ from their defaults */
static int l_configuration(lua_State *L) {
  const pn_layer *l = pni_check_layer(L, 1);
  lua_newtable(L);
  for (int k = 0; k < l->nsizes; k++) {
    lua_pushinteger(L, l->size[k]);
    lua_rawseti(L, -2, k + 1);
  }
  lua_newtable(L);
  for (int k = 0; l->type->options && l->type->options[k].name; k++) {
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
    size_t n = strcspn(sizes[k], "."); /* "size...": one or more */
    lua_pushlstring(L, sizes[k], n);
    lua_pushfstring(L, "%s%s:%s", k ? " " : "", lua_tostring(L, -1), sizes[k][n] ? "s" : "i");
    lua_remove(L, -2);
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

/* A list of {name, shape, optional} of the row's inputs. */
static void set_inputs(lua_State *L, const pni_layer *row) {
  int n;
  const pni_layer_input *in = pni_layer_inputs(row, &n);
  lua_createtable(L, n, 0);
  for (int k = 0; k < n; k++) {
    lua_createtable(L, 0, 3);
    set_text(L, "name", in[k].name);
    set_text(L, "shape", in[k].shape);
    lua_pushboolean(L, (in[k].flags & PNI_LAYER_MAYBE) != 0);
    lua_setfield(L, -2, "optional");
    lua_rawseti(L, -2, k + 1);
  }
  lua_setfield(L, -2, "inputs");
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
    set_names(L, "buffers", row->buffer);
    set_text(L, "torch", row->torch);
    set_inputs(L, row);
    lua_pushboolean(L, row->moments != NULL);
    lua_setfield(L, -2, "moments");
    lua_pushboolean(L, row->covariance);
    lua_setfield(L, -2, "covariance");
    lua_pushboolean(L, row->activation);
    lua_setfield(L, -2, "activation");
    lua_pushboolean(L, row->slope != NULL);
    lua_setfield(L, -2, "slope");
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
                                     {"mode", l_mode},
                                     {"call_in_turn", l_call_in_turn},
                                     {"layer_rows", l_layer_rows},
                                     {"initialiser_rows", l_initialiser_rows},
                                     {NULL, NULL}};

static const luaL_Reg methods[] = {{"mean", l_mean},
                                   {"evaluate", l_evaluate},
                                   {"kl", l_kl},
                                   {"moments", l_moments},
                                   {"unroll", l_unroll},
                                   {"step", l_step},
                                   {"type", l_type},
                                   {"stochastic", l_stochastic},
                                   {"own_parameters", l_own_parameters},
                                   {"own_buffers", l_own_buffers},
                                   {"with", l_with},
                                   {"uncertain", l_uncertain},
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
