/*
** bind_infer.c: estimators as Lua sees them: one function for all rows, which tells tensors from options by the names
** of the row.
*/
#include <ctype.h>
#include "../../infer/estimator/estimator.h"
#include "../../infer/sampling/stream.h"
#include "../../distribution/kernel/normal_regression.h"
#include "../message.h"
#include "../nn/nn_lua.h"

enum { VALUES = PNI_ESTIMATOR_INPUTS + PNI_ESTIMATOR_LATENTS };

/* What a call gives: stack places of the tensors (or numbers) and their names. */
typedef struct {
  const pni_estimator *row;
  int n;
  int place[VALUES];
  const char *name[VALUES];
  pn_option option[PNI_OPTIONS + 1];
} gathered;

static void add(lua_State *L, gathered *g, const pni_estimator_input *in, int i) {
  bool number = in->flags & PNI_INPUT_NUMBER && lua_type(L, i) == LUA_TNUMBER;
  if (!number && !pni_test_tensor(L, i))
    pni_error(L, "%s: %s must be a tensor%s, got %s", g->row->name, in->name,
              in->flags & PNI_INPUT_NUMBER ? " or a number" : "", pni_type_name(L, i));
  if (g->n == VALUES) pni_error(L, "%s: too many tensors", g->row->name);
  g->name[g->n] = in->name;
  g->place[g->n++] = i;
}

static bool is_list(lua_State *L, int i) {
  if (!lua_istable(L, i)) return false;
  bool list = lua_rawgeti(L, i, 1) != LUA_TNIL;
  lua_pop(L, 1);
  return list;
}

/* The input at index i: one tensor or, where the row says so, a list of them. */
static void add_input(lua_State *L, gathered *g, const pni_estimator_input *in, int i) {
  if (!(in->flags & PNI_INPUT_LIST) || !is_list(L, i)) {
    add(L, g, in, i);
    return;
  }
  int n = (int)lua_rawlen(L, i);
  luaL_checkstack(L, n + 8, "too many tensors");
  if (n > PNI_ESTIMATOR_LATENTS)
    pni_error(L, "%s: %s may hold at most %d tensors, got %d", g->row->name, in->name, PNI_ESTIMATOR_LATENTS, n);
  for (int k = 1; k <= n; k++) {
    lua_rawgeti(L, i, k);
    add(L, g, in, lua_gettop(L));
  }
}

_Static_assert((int)PNI_ESTIMATOR_INPUTS <= (int)PNI_OPTION_MORE, "names of inputs stand beside options");

/* The table at index i: inputs and options by name. */
static void add_named(lua_State *L, gathered *g, int i) {
  const char *inputs[PNI_ESTIMATOR_INPUTS + 1];
  int n = 0;
  for (; n < PNI_ESTIMATOR_INPUTS && g->row->input[n].name; n++) inputs[n] = g->row->input[n].name;
  inputs[n] = NULL;
  pni_read_options(L, g->row->name, g->row->options, i, inputs, g->option);
  luaL_checkstack(L, n + 8, "too many tensors");
  for (int k = 0; k < n; k++) {
    pni_get_raw(L, i, inputs[k]);
    if (!lua_isnil(L, -1)) add_input(L, g, &g->row->input[k], lua_gettop(L));
  }
}

static void gather(lua_State *L, gathered *g) {
  int top = lua_gettop(L);
  g->n = 0;
  g->option[0].name = NULL;
  for (int i = 1; i <= top; i++) {
    const pni_estimator_input *in = i <= PNI_ESTIMATOR_INPUTS ? &g->row->input[i - 1] : NULL;
    bool list = in && in->name && in->flags & PNI_INPUT_LIST && is_list(L, i);
    if (i == top && lua_istable(L, i) && !list)
      add_named(L, g, i);
    else if (!in || !in->name)
      pni_error(L, "%s: too many arguments", g->row->name);
    else if (!lua_isnil(L, i) || !(in->flags & PNI_INPUT_OPTIONAL))
      add_input(L, g, in, i);
  }
}

static const pn_tensor *first_tensor(lua_State *L, const gathered *g) {
  const pn_tensor *t = NULL;
  for (int k = 0; k < g->n && !t; k++) t = pni_test_tensor(L, g->place[k]);
  return t;
}

/* estimate(...), the row as upvalue: one result, or two */
static int l_estimate(lua_State *L) {
  gathered g = {.row = pni_estimator_at((int)lua_tointeger(L, lua_upvalueindex(1)))};
  pn_context *c = pni_lua_context(L);
  gather(L, &g);
  const pn_tensor *like = first_tensor(L, &g);
  luaL_checkstack(L, 8, "too many tensors");
  pni_box *b = pni_new_box(L), *b2 = pni_new_box(L);
  for (int again = 0;; again++) {
    size_t mark = pn_scope_open(c);
    pn_tensor *in[VALUES], *second = NULL;
    for (int k = 0; k < g.n; k++) in[k] = pni_to_tensor(L, c, g.place[k], like);
    pn_tensor *t = pn_estimate(c, g.row->name, g.n, g.name, in, g.option, &second);
    if (!t && !again && pn_context_status(c) == PN_NOMEM) {
      pni_forget(L, c, mark);
      continue;
    }
    if (t && second) pni_fill_box(L, b2, second);
    if (!second) lua_pop(L, 1);
    if (!t || !second) return pni_finish(L, c, mark, b, t);
    lua_insert(L, -2); /* the box that is finished stands on top */
    pni_finish(L, c, mark, b, t);
    lua_insert(L, -2);
    return 2;
  }
}

/* " [K, B]" of "KB"; "" where nothing is said */
static void push_shape(lua_State *L, const char *axes) {
  luaL_Buffer B;
  luaL_buffinit(L, &B);
  if (*axes == '?') axes = "kB";
  for (const char *p = axes; *p; p++) {
    luaL_addstring(&B, p == axes ? " [" : ", ");
    if (*p == '.') {
      luaL_addstring(&B, "...");
      break;
    }
    luaL_addchar(&B, (char)toupper((unsigned char)*p));
  }
  if (*axes) luaL_addchar(&B, ']');
  if (*axes == 'k') luaL_addstring(&B, " or [B]");
  luaL_pushresult(&B);
}

static void push_inputs(lua_State *L, const pni_estimator *row) {
  lua_newtable(L);
  for (int k = 0; k < PNI_ESTIMATOR_INPUTS && row->input[k].name; k++) {
    const pni_estimator_input *in = &row->input[k];
    lua_createtable(L, 0, 5);
    lua_pushstring(L, in->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, in->axes);
    lua_setfield(L, -2, "axes");
    push_shape(L, in->axes);
    lua_setfield(L, -2, "shape");
    lua_pushstring(L, in->doc);
    lua_setfield(L, -2, "doc");
    lua_pushboolean(L, (in->flags & PNI_INPUT_OPTIONAL) != 0);
    lua_setfield(L, -2, "optional");
    lua_pushboolean(L, (in->flags & PNI_INPUT_LIST) != 0);
    lua_setfield(L, -2, "list");
    lua_rawseti(L, -2, k + 1);
  }
}

/* "log_p:t log_q:t alpha:n=0.5": the form of op.h */
static void push_args(lua_State *L, const pni_estimator *row) {
  luaL_Buffer B;
  luaL_buffinit(L, &B);
  for (int k = 0; k < PNI_ESTIMATOR_INPUTS && row->input[k].name; k++) {
    bool optional = (row->input[k].flags & PNI_INPUT_OPTIONAL) != 0;
    lua_pushfstring(L, "%s%s:t%s", k ? " " : "", row->input[k].name, optional ? "=nil" : "");
    luaL_addvalue(&B);
  }
  pni_add_option_text(&B, L, row->options);
  luaL_pushresult(&B);
}

static int l_rows(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; i < pni_estimator_count(); i++) {
    const pni_estimator *row = pni_estimator_at(i);
    const char *text[][2] = {{"kind", "estimator"},   {"name", row->name},     {"doc", row->doc},
                             {"source", row->source}, {"result", row->result}, {"gradient", row->objective.gradient}};
    lua_newtable(L);
    for (size_t k = 0; k < sizeof text / sizeof text[0]; k++) {
      lua_pushstring(L, text[k][1]);
      lua_setfield(L, -2, text[k][0]);
    }
    lua_pushboolean(L, row->objective.nonlinear);
    lua_setfield(L, -2, "nonlinear");
    lua_pushinteger(L, row->objective.least);
    lua_setfield(L, -2, "least");
    push_args(L, row);
    lua_setfield(L, -2, "args");
    push_inputs(L, row);
    lua_setfield(L, -2, "inputs");
    pni_push_options(L, row->options);
    lua_setfield(L, -2, "options");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* new_estimator(name): the function of a row */
static int l_new(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  for (int i = 0; i < pni_estimator_count(); i++) {
    if (pni_estimator_at(i) != pni_estimator_find(name)) continue;
    lua_pushinteger(L, i);
    lua_pushcclosure(L, l_estimate, 1);
    return 1;
  }
  return pni_error(L, "estimate: there is no estimator '%s'", name);
}

/* sir(log_w, n, generator) */
static int l_sir(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *x = pni_test_tensor(L, 1);
  int whole;
  lua_Integer n = lua_tointegerx(L, 2, &whole);
  if (!x) return pni_error(L, "sir: log_w must be a tensor, got %s", pni_type_name(L, 1));
  if (!whole) return pni_error(L, "sir: n must be a whole number, got %s", pni_type_name(L, 2));
  pn_rng *rng = pni_check_rng(L, 3);
  PNI_RETURN(L, c, pn_sir(c, rng, x, n));
}

/* new_transport(cost, a, b) -> plan */
static int l_transport(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *cost = pni_check_operand(L, 1, "transport", "cost"), *a = pni_check_operand(L, 2, "transport", "a");
  pn_tensor *b = pni_check_operand(L, 3, "transport", "b");
  PNI_RETURN(L, c, pn_transport(c, cost, a, b));
}

/* new_image_transport(a, b) -> distances */
static int l_image_transport(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *a = pni_check_operand(L, 1, "image_transport", "a");
  pn_tensor *b = pni_check_operand(L, 2, "image_transport", "b");
  PNI_RETURN(L, c, pn_image_transport(c, a, b));
}

/* sum_log_prob(log_prob) -> their sum, in a capture by a shorter way where there is one */
static int l_sum_log_prob(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *log_prob = pni_check_operand(L, 1, "sum_log_prob", "log_prob");
  PNI_RETURN(L, c, pni_sum_log_prob(c, log_prob));
}

/* ---- streams ---- */

typedef struct {
  pn_weight_stream *s;
} stream_box;

static void release(void *object) {
  stream_box *b = object;
  pn_weight_stream *s = b->s;
  b->s = NULL;
  pn_weight_stream_unref(s);
}

static const pni_object_type kind = {"penumbra.stream", "a stream", sizeof(stream_box), 0, true, release};

static pn_weight_stream *check_stream(lua_State *L, int i) {
  stream_box *b = pni_test_object(L, i, &kind);
  if (!b) pni_error(L, "stream methods are called with a colon, as in s:add(log_w)");
  if (!b->s) pni_error(L, "stream: it was closed");
  return b->s;
}

/* new_stream(draws) */
static int l_stream(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  lua_Integer draws = luaL_checkinteger(L, 1);
  stream_box *b = pni_new_object(L, &kind);
  b->s = pn_weight_stream_new(c, draws);
  return b->s ? 1 : pni_raise(L, c);
}

/* s:add(log_w) -> s */
static int l_add(lua_State *L) {
  pn_weight_stream *s = check_stream(L, 1);
  pn_context *c = pni_lua_context(L);
  pni_refuse_finaliser(L, "add");
  pn_tensor *x = pni_test_tensor(L, 2);
  if (!x) return pni_error(L, "add: log_w must be a tensor, got %s", pni_type_name(L, 2));
  if (pn_weight_stream_add(c, s, x)) return pni_raise(L, c);
  lua_settop(L, 1);
  return 1;
}

static int l_count(lua_State *L) {
  const pn_weight_stream *s = check_stream(L, 1);
  pn_context *c = pni_lua_context(L);
  if (pni_refuse_capture(c, "a stream's count", "read it outside")) return pni_raise(L, c);
  lua_pushinteger(L, pn_weight_stream_count(s));
  return 1;
}

/* s:log_mean() and the others, their name as upvalue */
static int l_get(lua_State *L) {
  const pn_weight_stream *s = check_stream(L, 1);
  pn_context *c = pni_lua_context(L);
  const char *what = lua_tostring(L, lua_upvalueindex(1));
  PNI_RETURN(L, c, pn_weight_stream_get(c, s, what));
}

static const luaL_Reg functions[] = {{"new_estimator", l_new},         {"estimator_rows", l_rows},
                                     {"new_stream", l_stream},         {"new_sir", l_sir},
                                     {"new_transport", l_transport},   {"new_image_transport", l_image_transport},
                                     {"sum_log_prob", l_sum_log_prob}, {NULL, NULL}};

static int l_tostring(lua_State *L) {
  const stream_box *b = pni_test_object(L, 1, &kind);
  if (b && b->s)
    lua_pushfstring(L, "stream of %I weights", (lua_Integer)pn_weight_stream_count(b->s));
  else
    lua_pushliteral(L, "closed stream");
  return 1;
}

static const luaL_Reg methods[] = {{"add", l_add}, {"count", l_count}, {NULL, NULL}};

void pni_open_infer(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
  pni_new_kind(L, &kind);
  luaL_newlib(L, methods);
  for (int i = 0; pni_stream_names[i]; i++) {
    lua_pushstring(L, pni_stream_names[i]);
    lua_pushcclosure(L, l_get, 1);
    lua_setfield(L, -2, pni_stream_names[i]);
  }
  pni_add_close(L, &kind);
  pni_guard_methods(L, "a stream");
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, l_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pop(L, 1);
}
