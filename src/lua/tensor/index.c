/*
** index.c: x[...] and the methods that address elements. Positions a user types are 1-based and negative
** from the end; ranges include both ends; index tensors are data and hold 0-based numbers.
*/
#include <string.h>
#include "../message.h"
#include "../penumbra_lua.h"

enum { MAX_ENTRIES = 2 * PN_MAX_DIMS };

/* One entry of x[{...}], checked. */
typedef struct {
  enum { ALL, ONE, RANGE, TAKE } kind;
  int64_t start, count, step;
  pn_tensor *index;
} entry;

/* What counts from 1, or from -1 backwards, from 0 on; 0 is one before the first. */
static int64_t position(int64_t v, int64_t n) { return v < 0 ? v + n : v - 1; }

/* {a, b, step} of an axis of n: both ends included; {a} is a range of one; {} is everything; an end one before the
 * start, as in {1, 0} and {n + 1, n}, gives no element. */
static entry read_range(lua_State *L, int i, int64_t n) {
  int64_t v[3], m = pni_check_sizes(L, i, "index", 3, v);
  entry e = {.kind = m ? RANGE : ALL, .step = 1};
  if (m == 0) return e;
  if (m == 1) v[1] = v[0];
  if (m == 3) e.step = v[2];
  if (e.step == 0) pni_error(L, "index: the step of a range must not be 0");
  for (int k = 0; k < 2; k++) {
    int64_t at = position(v[k], n), back = e.step > 0 ? 1 : -1;
    bool empty = k == 0 ? m > 1 && at == n && position(v[1], n) == at - back : at == e.start - back;
    if ((at < 0 || at >= n) && !empty)
      pni_error(L, "index: range must lie in 1 .. %I (or count from -1 backwards), got %I", (LUAI_UACINT)n,
                (LUAI_UACINT)v[k]);
    if (k == 0)
      e.start = at;
    else
      e.count = (at - e.start) / e.step + 1;
    if (k == 1 && (at - e.start) * (e.step > 0 ? 1 : -1) < 0) e.count = 0;
  }
  return e;
}

static entry read_entry(lua_State *L, int i, int64_t n) {
  entry e = {.kind = ONE};
  pn_tensor *t = pni_test_tensor(L, i);
  if (t) {
    if (t->dtype == PN_BOOL)
      pni_error(L, "index: an index tensor must be int64 or whole floats (or a bool mask alone), got %s",
                pn_dtype_name((pn_dtype)t->dtype));
    e.kind = TAKE;
    e.index = t;
  } else if (lua_istable(L, i)) {
    e = read_range(L, i, n);
  } else if (lua_isinteger(L, i) || lua_isnumber(L, i)) {
    e.start = pni_check_position(L, i, "index", n);
  } else {
    pni_error(L,
              "index: entries must be numbers, ranges {first, last, step}, '...' or int64 tensors, "
              "got %s",
              pni_type_name(L, i));
  }
  return e;
}

/* Applies the entries from the first axis on. */
static pn_tensor *apply(pn_context *c, pn_tensor *x, const entry *e, int n) {
  int axis = 0;
  for (int k = 0; k < n && x; k++) {
    switch (e[k].kind) {
    case ALL: axis++; break;
    case ONE: x = pn_select(c, x, axis, e[k].start); break;
    case RANGE: x = pn_slice(c, x, axis++, e[k].start, e[k].count, e[k].step); break;
    case TAKE: x = pn_take(c, x, axis, e[k].index); axis += e[k].index->ndim;
    }
  }
  return x;
}

/* Reads the list at index 2 of x into e; returns how many. */
static int read_list(lua_State *L, const pn_tensor *x, entry *e) {
  int n = lua_rawlen(L, 2) > MAX_ENTRIES ? MAX_ENTRIES : (int)lua_rawlen(L, 2), axis = 0;
  bool dots = false;
  luaL_checkstack(L, MAX_ENTRIES + 8, "too many entries");
  if (n > PN_MAX_DIMS + 1) pni_error(L, "index: at most %d entries are possible, got %d", x->ndim, n);
  int out = 0;
  for (int k = 1; k <= n; k++) {
    lua_rawgeti(L, 2, k);
    if (!dots && lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "...") == 0) {
      dots = true;
      for (int rest = x->ndim - (n - 1); rest > 0; rest--, axis++) e[out++] = (entry){.kind = ALL};
    } else {
      if (axis >= x->ndim) pni_error(L, "index: the tensor has %d axes, got %d entries", x->ndim, n);
      e[out++] = read_entry(L, lua_gettop(L), x->shape[axis++]);
    }
    if (!pni_test_tensor(L, -1)) lua_pop(L, 1); /* an index tensor stays on the stack */
  }
  return out;
}

/* Is it ipairs that asks for the position after the last? It goes on until it gets nil, which a position never is. */
static bool is_ipairs(lua_State *L) {
  lua_Debug ar;
  if (!lua_getstack(L, 1, &ar)) return false;
  lua_getinfo(L, "Sn", &ar);
  return *ar.what == 'C' && ar.name && strcmp(ar.name, "for iterator") == 0;
}

int pni_index(lua_State *L) {
  if (lua_type(L, 2) == LUA_TSTRING) {
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TNIL) return pni_no_such(L, "a tensor", NULL);
    return 1;
  }
  pn_tensor *x = pni_check_tensor(L, 1);
  pn_context *c = pni_lua_context(L);
  entry e[MAX_ENTRIES];
  int n = 1;
  pn_tensor *index = pni_test_tensor(L, 2);
  if (index && index->dtype == PN_BOOL) PNI_RETURN(L, c, pn_masked_select(c, x, index));
  if (lua_istable(L, 2)) {
    n = read_list(L, x, e);
  } else {
    if (x->ndim == 0) return pni_error(L, "index: a tensor without axes cannot be indexed; x:item() gives its value");
    if (lua_isinteger(L, 2) && lua_tointeger(L, 2) == x->shape[0] + 1 && is_ipairs(L))
      return pni_error(L, "ipairs: it does not find the end of a tensor; write 'for i, row in x:rows() do'");
    e[0] = read_entry(L, 2, x->shape[0]);
  }
  PNI_RETURN(L, c, apply(c, x, e, n));
}

/* ---- methods ---- */

static int64_t integer(lua_State *L, int i, const char *where, const char *role, int64_t absent) {
  return lua_isnoneornil(L, i) ? absent : pni_check_whole(L, i, where, role);
}

static int l_select(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *x = pni_check_tensor(L, 1);
  int axis = pni_check_one_axis(L, 2, "select", x->ndim);
  int64_t at = pni_check_position(L, 3, "select", x->ndim ? x->shape[axis] : 0);
  PNI_RETURN(L, c, pn_select(c, x, axis, at));
}

/* x:slice(axis, first, last, step): both ends included; absent ends are the axis's own */
static int l_slice(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *x = pni_check_tensor(L, 1);
  if (lua_isnoneornil(L, 2)) pni_error(L, "slice: axis is missing");
  int axis = pni_check_one_axis(L, 2, "slice", x->ndim);
  int64_t step = integer(L, 5, "slice", "step", 1);
  int64_t first = integer(L, 3, "slice", "first", step > 0 ? 1 : -1),
          last = integer(L, 4, "slice", "last", step > 0 ? -1 : 1);
  lua_settop(L, 1);
  lua_createtable(L, 3, 0);
  int64_t v[3] = {first, last, step};
  for (int k = 0; k < 3; k++) {
    lua_pushinteger(L, v[k]);
    lua_rawseti(L, 2, k + 1);
  }
  x = pni_check_tensor(L, 1); /* making the table may have run a finaliser */
  entry e = x->shape[axis] == 0 ? (entry){.kind = RANGE, .step = 1} : read_range(L, 2, x->shape[axis]);
  PNI_RETURN(L, c, pn_slice(c, x, axis, e.start, e.count, e.step));
}

static int l_transpose(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *x = pni_check_tensor(L, 1);
  bool last = lua_isnoneornil(L, 2) && lua_isnoneornil(L, 3);
  if (last && x->ndim < 2)
    return pni_error(L, "transpose: tensor must have at least 2 axes, got %d (x:t() takes any)", x->ndim);
  int a = last ? -2 : pni_check_axis(L, 2, "transpose"), b = last ? -1 : pni_check_axis(L, 3, "transpose");
  PNI_RETURN(L, c, pn_transpose(c, x, a, b));
}

/* The last two axes swapped; a vector stays as it is. */
static int l_t(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *x = pni_check_tensor(L, 1);
  PNI_RETURN(L, c, x->ndim < 2 ? x : pn_transpose(c, x, -2, -1));
}

static int l_unsqueeze(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *x = pni_check_tensor(L, 1);
  int a = pni_check_axis(L, 2, "unsqueeze");
  PNI_RETURN(L, c, pn_unsqueeze(c, x, a));
}

/* Drops every axis of size 1. */
static pn_tensor *squeeze_all(pn_context *c, pn_tensor *x) {
  for (int k = x->ndim - 1; k >= 0 && x; k--)
    if (x->shape[k] == 1) x = pn_squeeze(c, x, k);
  return x;
}

static int l_squeeze(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *x = pni_check_tensor(L, 1);
  if (lua_isnoneornil(L, 2)) PNI_RETURN(L, c, squeeze_all(c, x));
  int a = pni_check_one_axis(L, 2, "squeeze", x->ndim);
  PNI_RETURN(L, c, pn_squeeze(c, x, a));
}

static int l_flip(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *x = pni_check_tensor(L, 1);
  int a = pni_check_axis(L, 2, "flip");
  PNI_RETURN(L, c, pn_flip(c, x, a));
}

static int l_masked_select(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *x = pni_check_tensor(L, 1), *mask = pni_check_tensor(L, 2);
  PNI_RETURN(L, c, pn_masked_select(c, x, mask));
}

static pn_tensor *stack(lua_State *L, pn_context *c, int n, pn_tensor **x, int axis) {
  for (int k = 0; k < n; k++) x[k] = pni_to_tensor(L, c, 4 + k, NULL);
  return pn_stack(c, n, x, axis);
}

/* stack(list, axis): a new axis, in front unless said otherwise */
static int l_stack(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  if (!lua_istable(L, 1))
    return pni_error(L, "stack: first argument must be a list of tensors, got %s", pni_type_name(L, 1));
  int axis = lua_isnoneornil(L, 2) ? 0 : pni_check_axis(L, 2, "stack"), n = (int)lua_rawlen(L, 1);
  if (n < 1) return pni_error(L, "stack: list must hold at least one tensor");
  lua_settop(L, 2);
  luaL_checkstack(L, n + 9, "too many tensors");
  pn_tensor **x = lua_newuserdatauv(L, (size_t)n * sizeof *x, 0); /* before the elements: a finaliser may run */
  for (int k = 1; k <= n; k++) {
    lua_rawgeti(L, 1, k);
    if (!pni_test_tensor(L, -1) && !lua_isnumber(L, -1))
      return pni_error(L, "stack: element %d must be a tensor or a number, got %s", k, pni_type_name(L, -1));
  }
  PNI_RETURN(L, c, stack(L, c, n, x, axis));
}

/* ---- rows ---- */

static int next_row(lua_State *L) {
  pn_tensor *x = pni_check_operand(L, 1, "rows", "x");
  int64_t i = pni_check_whole(L, 2, "rows", "position");
  if (x->ndim == 0 || i < 0 || i >= x->shape[0]) return 0;
  pn_context *c = pni_lua_context(L);
  lua_pushinteger(L, i + 1);
  pni_box *b = pni_new_box(L);
  size_t mark = pn_scope_open(c);
  pni_finish(L, c, mark, b, pn_select(c, x, 0, i));
  return 2;
}

/* for i, row in x:rows(): the sub-tensors along the first axis, counted from 1 */
static int l_rows(lua_State *L) {
  pn_tensor *x = pni_check_tensor(L, 1);
  if (x->ndim == 0) return pni_error(L, "rows: a tensor without axes has no rows");
  lua_pushcfunction(L, next_row);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, 0);
  return 3;
}

static int l_pairs(lua_State *L) {
  return pni_error(L, "pairs: a tensor is no table; its rows are 'for i, row in x:rows() do', its numbers x:totable()");
}

/* ---- ordering: values and 0-based positions ---- */

/* Gives two results: x's elements at `order` along axis, and `order`. */
static int finish_ordered(lua_State *L, pn_context *c, pn_tensor *x, int axis,
                          pn_tensor *(*order)(pn_context *, pn_tensor *, int, int64_t, int), int64_t k, int flag) {
  pni_box *values = pni_new_box(L), *places = pni_new_box(L);
  size_t mark = pn_scope_open(c);
  pn_tensor *o = order(c, x, axis, k, flag), *v = pn_gather(c, x, axis, o);
  if (!v) {
    pn_scope_close(c, mark);
    return pni_raise(L, c);
  }
  pn_tensor_ref(o), pn_tensor_ref(v);
  pn_scope_close(c, mark);
  values->t = v, places->t = o;
  pni_tell_collector(L);
  return 2;
}

static pn_tensor *by_sort(pn_context *c, pn_tensor *x, int axis, int64_t k, int flag) {
  return (void)k, pn_argsort(c, x, axis, flag);
}
static pn_tensor *by_topk(pn_context *c, pn_tensor *x, int axis, int64_t k, int flag) {
  return pn_argtopk(c, x, k, axis, flag);
}

/* x:sort(axis = -1, descending = false) -> values, positions */
static int l_sort(lua_State *L) {
  pn_tensor *x = pni_check_tensor(L, 1);
  int axis = lua_isnoneornil(L, 2) ? -1 : pni_check_axis(L, 2, "sort"), down = lua_toboolean(L, 3);
  return finish_ordered(L, pni_lua_context(L), x, axis, by_sort, 0, down);
}

/* x:topk(k, axis = -1, largest = true) -> values, positions */
static int l_topk(lua_State *L) {
  pn_tensor *x = pni_check_tensor(L, 1);
  int64_t k = integer(L, 2, "topk", "k", 1);
  int axis = lua_isnoneornil(L, 3) ? -1 : pni_check_axis(L, 3, "topk");
  int largest = lua_isnoneornil(L, 4) ? 1 : lua_toboolean(L, 4);
  return finish_ordered(L, pni_lua_context(L), x, axis, by_topk, k, largest);
}

/* ---- spread ---- */

typedef pn_tensor *spread(pn_context *, pn_tensor *, pn_axes, double, int);

static int spread_of(lua_State *L, const char *where, spread *f) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *x = pni_check_tensor(L, 1);
  pn_axes axes = pni_check_axes(L, 2, where, x->ndim);
  double correction = lua_isnoneornil(L, 3) ? 1 : pni_check_number(L, 3, where, "correction");
  int keepdim = lua_toboolean(L, 4);
  PNI_RETURN(L, c, f(c, x, axes, correction, keepdim));
}

/* x:var(axes, correction = 1, keepdim = false): divisor n - correction */
static int l_var(lua_State *L) { return spread_of(L, "var", pn_var); }
/* Its square root. */
static int l_std(lua_State *L) { return spread_of(L, "std", pn_std); }

/* x:to(dtype) */
static int l_to(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *x = pni_check_tensor(L, 1);
  if (lua_isnoneornil(L, 2)) return pni_error(L, "to: dtype is missing");
  pn_dtype d = pni_check_dtype(L, 2, "to", PN_FLOAT64);
  PNI_RETURN(L, c, pn_cast(c, x, d));
}

static const luaL_Reg functions[] = {{"select", l_select},
                                     {"slice", l_slice},
                                     {"transpose", l_transpose},
                                     {"t", l_t},
                                     {"unsqueeze", l_unsqueeze},
                                     {"squeeze", l_squeeze},
                                     {"flip", l_flip},
                                     {"masked_select", l_masked_select},
                                     {"stack", l_stack},
                                     {"sort", l_sort},
                                     {"topk", l_topk},
                                     {"var", l_var},
                                     {"std", l_std},
                                     {"to", l_to},
                                     {NULL, NULL}};

static const luaL_Reg methods[] = {{"rows", l_rows}, {NULL, NULL}};

void pni_open_index(lua_State *L) {
  int core = lua_gettop(L);
  luaL_setfuncs(L, functions, 0);
  pni_push_methods(L);
  luaL_setfuncs(L, functions, 0);
  luaL_setfuncs(L, methods, 0);
  lua_pushnil(L);
  lua_setfield(L, -2, "stack");
  luaL_getmetatable(L, "penumbra.tensor");
  lua_pushcfunction(L, l_pairs);
  lua_setfield(L, -2, "__pairs");
  lua_settop(L, core);
}
