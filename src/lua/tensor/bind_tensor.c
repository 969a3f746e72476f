/*
** bind_tensor.c: the tensor as Lua sees it: making one from tables and sizes, asking about it, taking its
** elements out again. Everything that computes is an operation row (bind_op.c) or a method below that
** composes builders.
*/
#include <string.h>
#include "../message.h"
#include "../penumbra_lua.h"

/* ---- making ---- */

/* Shape, element type and generator of a new tensor. */
typedef struct {
  int ndim;
  int64_t shape[PN_MAX_DIMS];
  pn_dtype dtype;
  pn_rng *rng;
  uint64_t seen; /* elements and lists measured */
} made;

static const char *const options_of_made[] = {"dtype", "generator", NULL};

/* Reads {dtype =, generator =} at index i (absent is fine). The generator stays on the stack. */
static void read_options(lua_State *L, int i, const char *where, made *m) {
  if (lua_isnoneornil(L, i)) return;
  if (!lua_istable(L, i)) pni_error(L, "%s: options must be a table, got %s", where, pni_type_name(L, i));
  i = lua_absindex(L, i);
  pni_check_options(L, i, where, options_of_made);
  pni_get_raw(L, i, "dtype");
  m->dtype = pni_check_dtype(L, -1, where, m->dtype);
  lua_pop(L, 1);
  if (pni_get_raw(L, i, "generator") == LUA_TNIL)
    lua_pop(L, 1);
  else
    m->rng = pni_check_rng(L, -1);
}

/* The arguments from index i on: sizes as numbers or as one list, options in that list or after it.
 */
static made read_made(lua_State *L, int i, const char *where) {
  made m = {.dtype = pni_default_dtype(L)};
  int top = lua_gettop(L);
  if (lua_istable(L, i)) {
    m.ndim = pni_check_sizes(L, i, where, PN_MAX_DIMS, m.shape);
    read_options(L, i, where, &m);
    if (top > i) read_options(L, i + 1, where, &m);
  } else {
    bool options = top >= i && lua_istable(L, top);
    if (options) read_options(L, top, where, &m);
    m.ndim = pni_check_numbers(L, i, options ? top - 1 : top, where, PN_MAX_DIMS, m.shape);
  }
  for (int k = 0; k < m.ndim; k++)
    if (m.shape[k] < 0) pni_error(L, "%s: sizes must not be negative, got %d", where, (int)m.shape[k]);
  return m;
}

static int l_zeros(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  made m = read_made(L, 1, "zeros");
  PNI_RETURN(L, c, pn_zeros(c, m.dtype, m.ndim, m.shape));
}

static int l_ones(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  made m = read_made(L, 1, "ones");
  PNI_RETURN(L, c, pn_full(c, m.dtype, m.ndim, m.shape, 1));
}

/* full(shape, value, options) */
static int l_full(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  made m = {.dtype = pni_default_dtype(L)};
  if (!lua_istable(L, 1)) pni_error(L, "full: shape must be a list of sizes, got %s", pni_type_name(L, 1));
  m.ndim = pni_check_sizes(L, 1, "full", PN_MAX_DIMS, m.shape);
  if (lua_isboolean(L, 2)) m.dtype = PN_BOOL;
  double value = lua_isboolean(L, 2) ? lua_toboolean(L, 2) : pni_check_number(L, 2, "full", "value");
  read_options(L, 3, "full", &m);
  PNI_RETURN(L, c, pn_full(c, m.dtype, m.ndim, m.shape, value));
}

/* arange(stop) or arange(start, stop [, step]), options last; stop is not included */
static int l_arange(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  made m = {.dtype = pni_default_dtype(L)};
  int n = lua_gettop(L);
  if (n && lua_istable(L, n)) read_options(L, n--, "arange", &m);
  double start = n > 1 ? pni_check_number(L, 1, "arange", "start") : 0;
  double stop = pni_check_number(L, n > 1 ? 2 : 1, "arange", "stop");
  double step = n > 2 ? pni_check_number(L, 3, "arange", "step") : 1;
  PNI_RETURN(L, c, pn_arange(c, m.dtype, start, stop, step));
}

static int l_linspace(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  made m = {.dtype = pni_default_dtype(L)};
  double start = pni_check_number(L, 1, "linspace", "start"), stop = pni_check_number(L, 2, "linspace", "stop");
  int64_t n = pni_check_whole(L, 3, "linspace", "n");
  read_options(L, 4, "linspace", &m);
  PNI_RETURN(L, c, pn_linspace(c, m.dtype, start, stop, n));
}

static int l_eye(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  made m = read_made(L, 1, "eye");
  if (m.ndim < 1 || m.ndim > 2) pni_error(L, "eye: needs one or two sizes, got %d", m.ndim);
  PNI_RETURN(L, c, pn_eye(c, m.dtype, m.shape[0], m.shape[m.ndim - 1]));
}

static int l_rand(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  made m = read_made(L, 1, "rand");
  PNI_RETURN(L, c, pn_rand(c, m.rng, m.dtype, m.ndim, m.shape));
}

static int l_randn(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  made m = read_made(L, 1, "randn");
  PNI_RETURN(L, c, pn_randn(c, m.rng, m.dtype, m.ndim, m.shape));
}

/* randint(low, high, shape..., options): low .. high - 1, int64 */
static int l_randint(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  int64_t low = pni_check_whole(L, 1, "randint", "low"), high = pni_check_whole(L, 2, "randint", "high");
  made m = read_made(L, 3, "randint");
  PNI_RETURN(L, c, pn_randint(c, m.rng, low, high, m.ndim, m.shape));
}

/* randperm(n, options): the numbers 0 .. n - 1 in random order, int64 */
static int l_randperm(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  made m = {0};
  int64_t n = pni_check_whole(L, 1, "randperm", "n");
  read_options(L, 2, "randperm", &m);
  PNI_RETURN(L, c, pn_randperm(c, m.rng, n));
}

/* ---- tensor{...} from nested tables ---- */

/* Looks at the limits as elements and lists are counted: a list may stand in many places. */
static inline void watch(lua_State *L, made *m) {
  enum { STRIDE = 4096 };
  if (++m->seen % STRIDE == 0) pni_poll(L, STRIDE);
}

/* Finds the shape of the nested table on the stack top and checks every element. */
static void measure(lua_State *L, made *m, int depth, int *booleans) {
  watch(L, m);
  if (depth >= PN_MAX_DIMS) pni_error(L, "tensor: at most %d levels of tables are possible", PN_MAX_DIMS);
  int64_t n = (int64_t)lua_rawlen(L, -1);
  if (m->ndim == depth) m->shape[m->ndim++] = n;
  if (m->shape[depth] != n)
    pni_error(L, "tensor: lists of one level must have one length, got %d and %d", (int)m->shape[depth], (int)n);
  luaL_checkstack(L, 4, "too deep");
  for (int64_t i = 1; i <= n; i++) {
    int type = lua_rawgeti(L, -1, i);
    watch(L, m);
    bool last = type != LUA_TTABLE;
    if (last && m->ndim > depth + 1)
      pni_error(L, "tensor: element %d must be a list like the others, got %s", (int)i, lua_typename(L, type));
    if (!last && i > 1 && m->ndim == depth + 1)
      pni_error(L, "tensor: element %d must be a number like the others, got a table", (int)i);
    if (!last) {
      measure(L, m, depth + 1, booleans);
    } else if (type == LUA_TBOOLEAN) {
      *booleans |= 1;
    } else if (type == LUA_TNUMBER) {
      *booleans |= 2;
    } else {
      const char *hint = luaL_testudata(L, -1, "penumbra.tensor") ? " (pn.stack joins tensors)" : "";
      pni_error(L, "tensor: elements must be numbers or booleans, got %s%s", pni_type_name(L, -1), hint);
    }
    lua_pop(L, 1);
  }
}

/* A number as int64, towards zero as `to` does. */
static pn_status put_whole(pn_context *c, double v, int64_t *out) {
  if (!(v >= -0x1p63 && v < 0x1p63)) return pni_fail(c, PN_DOMAIN, "tensor: value must fit into int64, got %g", v);
  *out = (int64_t)v;
  return PN_OK;
}

/* Element `at` of t becomes the number or boolean on the stack top. */
static void put(lua_State *L, pn_tensor *t, int64_t at) {
  bool flag = lua_toboolean(L, -1), boolean = lua_isboolean(L, -1);
  double v = boolean ? flag : lua_tonumber(L, -1);
  switch (t->dtype) {
  case PN_FLOAT64: ((double *)pni_data(t))[at] = v; break;
  case PN_FLOAT32: ((float *)pni_data(t))[at] = (float)v; break;
  case PN_INT64:
    if (lua_isinteger(L, -1))
      ((int64_t *)pni_data(t))[at] = lua_tointeger(L, -1);
    else
      put_whole(t->ctx, v, (int64_t *)pni_data(t) + at);
    break;
  default: ((uint8_t *)pni_data(t))[at] = v != 0;
  }
}

/* Copies the measured table on the stack top into t from position *at on; raises nothing, but records what does not
 * fit. A finaliser may have made another table of it since: what lies outside its measured shape is left out. */
static void fill(lua_State *L, pn_tensor *t, int axis, int64_t *at) {
  bool last = axis == t->ndim - 1;
  for (int64_t i = 1; i <= t->shape[axis] && *at < t->numel; i++) {
    bool list = lua_rawgeti(L, -1, i) == LUA_TTABLE;
    if (list && !last)
      fill(L, t, axis + 1, at);
    else if (!list && last)
      put(L, t, (*at)++);
    lua_pop(L, 1);
  }
}

static pn_tensor *from_table(lua_State *L, pn_context *c, const made *m) {
  pn_tensor *t = pn_zeros(c, m->dtype, m->ndim, m->shape);
  int64_t at = 0;
  lua_pushvalue(L, 1);
  if (t) fill(L, t, 0, &at);
  lua_pop(L, 1);
  return pn_context_status(c) ? NULL : t;
}

/* Parameters are the only tensors that change: they and views of them are copied, others may share their elements. */
static pn_tensor *from_tensor(pn_context *c, pn_tensor *t, pn_dtype dtype) {
  pn_tensor *x = pn_detach(c, t);
  if (x && t->storage->version != 0 && t->dtype == (int)dtype) return pni_apply1(c, &pni_op_contiguous, x, NULL);
  return pn_cast(c, x, dtype);
}

/* tensor(nested table | number | boolean | tensor, options) */
static int l_tensor(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  made m = {.dtype = pni_default_dtype(L)};
  pn_tensor *t = pni_test_tensor(L, 1);
  luaL_checkstack(L, 4 * PN_MAX_DIMS, "too deep");
  if (t) m.dtype = (pn_dtype)t->dtype;
  if (lua_isboolean(L, 1)) m.dtype = PN_BOOL;
  int booleans = 0;
  if (lua_istable(L, 1)) {
    lua_pushvalue(L, 1);
    measure(L, &m, 0, &booleans);
    lua_pop(L, 1);
    if (booleans == 1) m.dtype = PN_BOOL;
    read_options(L, 1, "tensor", &m);
  }
  read_options(L, 2, "tensor", &m);
  lua_settop(L, 1);
  if (t) PNI_RETURN(L, c, from_tensor(c, t, m.dtype));
  if (lua_istable(L, 1)) PNI_RETURN(L, c, from_table(L, c, &m));
  double v = lua_isboolean(L, 1) ? lua_toboolean(L, 1) : pni_check_number(L, 1, "tensor", "value");
  PNI_RETURN(L, c, pn_scalar(c, m.dtype, v));
}

void pni_list_to_tensor(lua_State *L, int i, const pn_tensor *like) {
  if (!lua_istable(L, i)) return;
  lua_pushcfunction(L, l_tensor);
  lua_pushvalue(L, i);
  lua_createtable(L, 0, 1);
  lua_pushstring(L, pn_dtype_name(like ? (pn_dtype)like->dtype : pni_default_dtype(L)));
  lua_setfield(L, -2, "dtype");
  lua_call(L, 2, 1);
  lua_replace(L, i);
}

/* ---- asking ---- */

static const char sizes_kind[] = "penumbra.sizes";

/* tostring of a list of sizes: "[2, 3]". */
static int sizes_text(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  luaL_addchar(&b, '[');
  for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, 1); i <= n; i++) {
    if (i > 1) luaL_addstring(&b, ", ");
    lua_rawgeti(L, 1, i);
    if (!lua_isnumber(L, -1)) lua_pop(L, 1), lua_pushliteral(L, "?"); /* what a script has put there */
    luaL_addvalue(&b);
  }
  luaL_addchar(&b, ']');
  luaL_pushresult(&b);
  return 1;
}

void pni_push_sizes(lua_State *L, int n, const int64_t *shape) {
  lua_createtable(L, n, 0);
  luaL_setmetatable(L, sizes_kind);
  for (int k = 0; k < n; k++) {
    lua_pushinteger(L, (lua_Integer)shape[k]);
    lua_rawseti(L, -2, k + 1);
  }
}

static int push_sizes(lua_State *L, const pn_tensor *t) {
  pni_push_sizes(L, t->ndim, t->shape);
  return 1;
}

static int l_shape(lua_State *L) { return push_sizes(L, pni_check_tensor(L, 1)); }

static int l_size(lua_State *L) {
  pn_tensor *t = pni_check_tensor(L, 1);
  if (lua_isnoneornil(L, 2)) return push_sizes(L, t);
  int axis = pni_check_one_axis(L, 2, "size", t->ndim);
  lua_pushinteger(L, t->shape[axis]);
  return 1;
}

static int l_dtype(lua_State *L) {
  lua_pushstring(L, pn_dtype_name((pn_dtype)pni_check_tensor(L, 1)->dtype));
  return 1;
}

static int l_numel(lua_State *L) {
  lua_pushinteger(L, pni_check_tensor(L, 1)->numel);
  return 1;
}

static int l_ndim(lua_State *L) {
  lua_pushinteger(L, pni_check_tensor(L, 1)->ndim);
  return 1;
}

static int l_len(lua_State *L) {
  pn_tensor *t = pni_check_tensor(L, 1);
  if (t->ndim == 0) return pni_error(L, "#: a tensor without axes has no length");
  lua_pushinteger(L, t->shape[0]);
  return 1;
}

static void push_at(lua_State *L, const pn_tensor *t, int64_t offset) {
  const void *data = t->storage->data;
  switch (t->dtype) {
  case PN_FLOAT64: lua_pushnumber(L, ((const double *)data)[offset]); break;
  case PN_FLOAT32: lua_pushnumber(L, (double)((const float *)data)[offset]); break;
  case PN_INT64: lua_pushinteger(L, ((const int64_t *)data)[offset]); break;
  default: lua_pushboolean(L, ((const uint8_t *)data)[offset] != 0);
  }
}

static int l_item(lua_State *L) {
  pn_tensor *t = pni_check_tensor(L, 1);
  char text[PNI_SHAPE_TEXT];
  if (t->numel != 1)
    return pni_error(L, "item: tensor must have one element, got shape %s", pni_shape_text(t->ndim, t->shape, text));
  pn_context *c = pni_lua_context(L);
  if (pni_check_read(c, t, "item")) return pni_raise(L, c);
  push_at(L, t, t->offset);
  return 1;
}

static void push_table(lua_State *L, const pn_tensor *t, int axis, int64_t offset) {
  if (axis == t->ndim) {
    push_at(L, t, offset);
    return;
  }
  int64_t n = t->shape[axis];
  luaL_checkstack(L, 4, "too deep");
  lua_createtable(L, n < 1 << 24 ? (int)n : 0, 0);
  for (int64_t i = 0; i < n; i++) {
    if (i % 4096 == 0) pni_poll(L, (uint64_t)(n - i < 4096 ? n - i : 4096) / 16);
    push_table(L, t, axis + 1, offset + i * t->stride[axis]);
    lua_rawseti(L, -2, i + 1);
  }
}

static int l_totable(lua_State *L) {
  pn_tensor *t = pni_check_tensor(L, 1);
  pn_context *c = pni_lua_context(L);
  if (pni_check_read(c, t, "totable")) return pni_raise(L, c);
  push_table(L, t, 0, t->offset);
  return 1;
}

/* ---- text ---- */

/* One element is shown as its number: ("%s"):format(loss). */
static int l_tostring(lua_State *L) {
  pni_box *b = luaL_checkudata(L, 1, "penumbra.tensor");
  pn_context *c = pni_lua_context(L);
  if (b->t && pni_check_read(c, b->t, "tostring")) return pni_raise(L, c);
  if (!b->t)
    lua_pushliteral(L, "tensor (closed)");
  else if (b->t->numel == 1)
    push_at(L, b->t, b->t->offset), luaL_tolstring(L, -1, NULL);
  else
    pni_push_text(L, b->t);
  return 1;
}

/* text(x) -> what the prompt shows, with dtype and shape also of one element */
static int l_text(lua_State *L) {
  pn_tensor *t = pni_check_tensor(L, 1);
  pn_context *c = pni_lua_context(L);
  if (pni_check_read(c, t, "tostring")) return pni_raise(L, c);
  pni_push_text(L, t);
  return 1;
}

static int l_newindex(lua_State *L) {
  return pni_error(L, "tensors do not change: build a new one with pn.where, x:scatter_add or pn.concatenate "
                      "(parameters: w:set(values))");
}

static int l_concat(lua_State *L) {
  for (int i = 1; i <= 2; i++) luaL_tolstring(L, i, NULL);
  lua_concat(L, 2);
  return 1;
}

static int l_is_tensor(lua_State *L) {
  lua_pushboolean(L, luaL_testudata(L, 1, "penumbra.tensor") != NULL);
  return 1;
}

static const luaL_Reg constructors[] = {{"tensor", l_tensor},     {"zeros", l_zeros},
                                        {"ones", l_ones},         {"full", l_full},
                                        {"arange", l_arange},     {"linspace", l_linspace},
                                        {"eye", l_eye},           {"rand", l_rand},
                                        {"randn", l_randn},       {"randint", l_randint},
                                        {"randperm", l_randperm}, {"is_tensor", l_is_tensor},
                                        {"text", l_text},         {NULL, NULL}};

static const luaL_Reg methods[] = {{"shape", l_shape}, {"size", l_size}, {"dtype", l_dtype},     {"numel", l_numel},
                                   {"ndim", l_ndim},   {"item", l_item}, {"totable", l_totable}, {NULL, NULL}};

static const luaL_Reg events[] = {
    {"__tostring", l_tostring}, {"__newindex", l_newindex}, {"__len", l_len}, {"__concat", l_concat}, {NULL, NULL}};

static const char methods_key = 0;

void pni_push_methods(lua_State *L) { lua_rawgetp(L, LUA_REGISTRYINDEX, &methods_key); }

void pni_open_tensor(lua_State *L) {
  luaL_setfuncs(L, constructors, 0);
  luaL_newlib(L, methods);
  pni_add_close(L, &pni_tensor_kind);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &methods_key);
  lua_setfield(L, -2, "methods");
  pni_new_box_metatable(L);
  luaL_setfuncs(L, events, 0);
  luaL_newmetatable(L, sizes_kind);
  lua_pushcfunction(L, sizes_text);
  lua_setfield(L, -2, "__tostring");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable"); /* getmetatable says false: a plain list */
  lua_pop(L, 1);
  lua_pushliteral(L, "tensor");
  lua_setfield(L, -2, "__name");
  pni_push_methods(L);
  pni_add_space(L, "x:", -1, 0);
  lua_pushcclosure(L, pni_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
