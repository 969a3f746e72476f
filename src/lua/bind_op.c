/*
** bind_op.c: the one function through which Lua calls every operation. What it accepts is read from the
** row's `args` when the module opens; nothing here knows an operation by name.
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "operations.h"
#include "penumbra_lua.h"

typedef struct {
  char kind; /* letter of op.h */
  bool optional;
  double absent; /* value when not given */
  char name[PNI_OP_ARG_NAME];
} argument;

typedef struct {
  const pni_op *op;
  pni_state *state;
  int n;
  bool open_ended; /* the last argument is a list that may be given as numbers */
  argument arg[PNI_OP_ARGS];
} signature;

/* Reads "x:t axes:A keepdim:b=false". */
static void parse(signature *s, const pni_op *op) {
  s->op = op;
  s->n = 0;
  for (const char *p = op->args; *p && s->n < PNI_OP_ARGS;) {
    argument *a = &s->arg[s->n++];
    size_t len = strcspn(p, ":");
    memset(a, 0, sizeof *a);
    memcpy(a->name, p, len < PNI_OP_ARG_NAME ? len : PNI_OP_ARG_NAME - 1);
    p += len + 1;
    a->kind = *p++;
    a->optional = a->kind == 'A';
    if (*p == '=') {
      a->optional = true;
      a->absent = p[1] == 't' ? 1 : p[1] == 'f' ? 0 : strtod(p + 1, NULL);
    }
    p += strcspn(p, " ");
    while (*p == ' ') p++;
  }
  s->open_ended = s->n && strchr("sP", s->arg[s->n - 1].kind);
}

/* Is the value at i a table of named options? */
static bool is_options(lua_State *L, int i) {
  if (i < 1 || !lua_istable(L, i) || lua_rawlen(L, i) > 0) return false;
  lua_pushnil(L);
  if (!lua_next(L, i)) return false;
  bool named = lua_type(L, -2) == LUA_TSTRING;
  lua_pop(L, 2);
  return named;
}

static void check_names(lua_State *L, const signature *s, int options) {
  const char *names[PNI_OP_ARGS + 1];
  for (int k = 0; k < s->n; k++) names[k] = s->arg[k].name;
  names[s->n] = NULL;
  pni_check_options(L, options, s->op->name, names);
}

static double real_argument(lua_State *L, const signature *s, const argument *a, int i) {
  int ok;
  double v = lua_tonumberx(L, i, &ok);
  if (!ok) pni_error(L, "%s: %s must be a number, got %s", s->op->name, a->name, pni_type_name(L, i));
  return v;
}

/* Is it a whole number, of a size that is exact? */
static bool is_whole(double v) { return v == floor(v) && fabs(v) <= 9e15; }

/* A number for both axes of an image, or {rows, columns}. */
static void pair_argument(lua_State *L, const signature *s, const argument *a, int i, int64_t *out) {
  int n = 1;
  out[0] = out[1] = (int64_t)a->absent;
  if (lua_isnoneornil(L, i)) return;
  if (lua_istable(L, i))
    n = pni_check_sizes(L, i, s->op->name, 2, out);
  else if (is_whole(real_argument(L, s, a, i)))
    out[0] = out[1] = (int64_t)lua_tonumber(L, i);
  else
    n = 0;
  if (lua_istable(L, i) ? n == 2 : n == 1) return;
  pni_error(L, "%s: %s must be a whole number or a list of two, got %s", s->op->name, a->name,
            lua_istable(L, i) ? "another list" : pni_value_text(L, i));
}

static int64_t axis_mask(lua_State *L, const signature *s, int i, int ndim) {
  pn_axes axes = pni_check_axes(L, i, s->op->name, ndim);
  int64_t mask = 0;
  for (int k = 0; k < axes.n; k++) mask |= (int64_t)1 << axes.axis[k];
  return mask;
}

static void wrong_tensor(lua_State *L, const signature *s, const argument *a, int i) {
  pni_error(L, "%s: %s must be a tensor or a number, got %s", s->op->name, a->name, pni_type_name(L, i));
}

typedef struct {
  int place;    /* on the stack */
  pni_box *box; /* NULL: a number stands there */
} input;

/* What phase one gathers: stack places of the tensors, and the attributes. */
typedef struct {
  input few[PNI_OP_INPUTS], *input; /* few, or a userdata on the stack where a list is longer */
  pn_tensor *in_few[PNI_OP_INPUTS], **in;
  int n, room;
  pn_tensor *first; /* decides the meaning of axes */
  pn_tensor *like;  /* decides the dtype of numbers: the first float tensor, else int64, else bool */
  pni_attr attr;
} gathered;

static void add_tensor(lua_State *L, const signature *s, const argument *a, gathered *g, int i) {
  pni_box *b = pni_test_box(L, s->state, i);
  pn_tensor *t = b ? b->t : NULL;
  if (b && !t) pni_error(L, "%s: tensor was closed", s->op->name);
  if (!t && !lua_isnumber(L, i) && !lua_isboolean(L, i)) wrong_tensor(L, s, a, i);
  if (t && !g->first) g->first = t;
  bool is_float = t && pni_is_float(t);
  if (t && (!g->like || (!pni_is_float(g->like) && (is_float || g->like->dtype > t->dtype)))) g->like = t;
  if (g->n == g->room) pni_error(L, "%s: at most %d tensors are possible", s->op->name, g->room);
  g->input[g->n++] = (input){i, b};
}

/* Makes room for n inputs more; the userdata stays on the stack as long as the call. */
static void make_room(lua_State *L, const signature *s, gathered *g, int n) {
  if (n <= g->room - g->n) return;
  size_t all = (size_t)g->n + (size_t)n;
  input *more = lua_newuserdatauv(L, all * (sizeof *more + sizeof *g->in), 0);
  for (int k = 0; k < g->n; k++) /* a finaliser may have run */
    if (g->input[k].box && !g->input[k].box->t) pni_error(L, "%s: tensor was closed", s->op->name);
  memcpy(more, g->input, (size_t)g->n * sizeof *more);
  g->input = more;
  g->in = (pn_tensor **)(void *)(more + all);
  g->room = (int)all;
}

static void add_list(lua_State *L, const signature *s, const argument *a, gathered *g, int i) {
  if (!lua_istable(L, i))
    pni_error(L, "%s: %s must be a list of tensors, got %s", s->op->name, a->name, pni_type_name(L, i));
  int n = (int)lua_rawlen(L, i);
  luaL_checkstack(L, n + 9, "too many tensors");
  make_room(L, s, g, n);
  for (int k = 1; k <= n; k++) {
    lua_rawgeti(L, i, k);
    add_tensor(L, s, a, g, lua_gettop(L));
  }
}

static void one_argument(lua_State *L, const signature *s, const argument *a, gathered *g, int i, int reals) {
  bool absent = lua_isnoneornil(L, i);
  int ndim = g->first ? g->first->ndim : 0;
  int64_t *slot = &g->attr.i[g->attr.ni];
  if (absent && !a->optional) pni_error(L, "%s: %s is missing", s->op->name, a->name);
  switch (a->kind) {
  case 't': add_tensor(L, s, a, g, i); return;
  case 'T': add_list(L, s, a, g, i); return;
  case 'n': g->attr.r[reals] = absent ? a->absent : real_argument(L, s, a, i); return;
  case 'A': *slot = absent ? 0 : axis_mask(L, s, i, ndim); break;
  case 'a': {
    int axis = absent ? (int)(a->absent > 0 ? a->absent - 1 : a->absent) : pni_check_axis(L, i, s->op->name);
    *slot = axis < 0 ? axis + ndim : axis;
    if (ndim && (*slot < 0 || *slot >= ndim)) /* of 0-d tensors: the operation knows */
      pni_error(L, "%s: axis must lie in the tensor's %d axes, got number %d", s->op->name, ndim,
                axis < 0 ? axis : axis + 1);
    break;
  }
  case 'p':
    pair_argument(L, s, a, i, slot);
    g->attr.ni++;
    break;
  case 'b': *slot = absent ? a->absent != 0 : lua_toboolean(L, i); break;
  case 'i': {
    double v = absent ? a->absent : real_argument(L, s, a, i);
    if (!is_whole(v)) pni_error(L, "%s: %s must be a whole number, got %f", s->op->name, a->name, v);
    *slot = (int64_t)v;
    break;
  }
  default: { /* s, P: a list, the last argument */
    g->attr.ni += pni_check_sizes(L, i, s->op->name, PN_MAX_DIMS, slot);
    for (int k = 0; a->kind == 'P' && k < g->attr.ni; k++) g->attr.i[k] += g->attr.i[k] > 0 ? -1 : ndim;
    return;
  }
  }
  g->attr.ni++;
}

static void gather(lua_State *L, const signature *s, gathered *g) {
  int top = lua_gettop(L), options = is_options(L, top) ? top : 0, reals = 0;
  if (options) check_names(L, s, options);
  if (!s->open_ended && top - (options != 0) > s->n) {
    if (s->arg[0].kind == 't' && lua_isnil(L, 1)) wrong_tensor(L, s, &s->arg[0], 1); /* a failure was handed on */
    pni_error(L, "%s: at most %d arguments are possible, got %d", s->op->name, s->n, top);
  }
  luaL_checkstack(L, PNI_OP_ARGS + 8, "too many arguments");
  for (int k = 0; k < s->n; k++) {
    const argument *a = &s->arg[k];
    int i = k + 1;
    if (options && i >= options) {
      pni_get_raw(L, options, a->name);
      i = lua_gettop(L);
    } else if (i > top) {
      lua_settop(L, lua_gettop(L) < top ? top : lua_gettop(L));
      lua_pushnil(L);
      i = lua_gettop(L);
      if (strchr("sP", a->kind)) pni_error(L, "%s: %s is missing", s->op->name, a->name);
    }
    one_argument(L, s, a, g, i, reals);
    reals += a->kind == 'n';
  }
}

/* Mistakes raise; a factorisation that does not exist is an operational failure: nil, message, code. */
static int call(lua_State *L) {
  const signature *s = lua_touserdata(L, lua_upvalueindex(1));
  pn_context *c = s->state->c ? s->state->c : pni_lua_context(L);
  gathered g;
  g.n = 0;
  g.room = PNI_OP_INPUTS;
  g.input = g.few;
  g.in = g.in_few;
  g.first = g.like = NULL;
  g.attr.ni = 0;
  g.attr.r[0] = g.attr.r[1] = 0;
  gather(L, s, &g);
  pni_box *b = pni_new_box(L);
  for (int again = 0;; again++) {
    size_t mark = pn_scope_open(c);
    pn_tensor **in = g.in;
    for (int k = 0; k < g.n; k++)
      in[k] = g.input[k].box ? g.input[k].box->t : pni_to_tensor(L, c, g.input[k].place, g.like);
    if (s->op->flags & PNI_OP_AS_FLOAT && in[0] && !pni_is_float(in[0]))
      in[0] = pn_cast(c, in[0], pni_default_dtype(L));
    pn_tensor *t = pni_apply(c, s->op, g.n, in, &g.attr);
    if (!t && pn_context_status(c) == PN_SINGULAR) {
      pn_scope_close(c, mark);
      return pni_push_failure(L, c);
    }
    if (t || again || pn_context_status(c) != PN_NOMEM) return pni_finish(L, c, mark, b, t);
    pni_forget(L, c, mark);
  }
}

static void push_op(lua_State *L, const pni_op *op) {
  signature *s = lua_newuserdatauv(L, sizeof *s, 0);
  parse(s, op);
  s->state = pni_lua_state(L);
  lua_pushcclosure(L, call, 1);
}

/* Calls an operation by name: the metamethods of arithmetic. */
static void set_meta(lua_State *L, int meta, const char *event, const char *op) {
  push_op(L, pni_op_find(op));
  lua_setfield(L, meta, event);
}

/* Unary minus and length get their operand twice. */
static int once(lua_State *L) {
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

static int refuse_order(lua_State *L) {
  return pni_error(L, "tensors are compared element by element with x:lt(y), x:le(y), x:gt(y), x:ge(y)");
}

void pni_open_ops(lua_State *L) {
  int core = lua_gettop(L);
  pni_push_methods(L);
  int methods = lua_gettop(L);
  for (int i = 0; i < pni_op_count(); i++) {
    const pni_op *op = pni_op_at(i);
    if (op->flags & PNI_OP_HIDDEN) continue;
    push_op(L, op);
    lua_pushvalue(L, -1);
    lua_setfield(L, core, op->name);
    lua_setfield(L, methods, op->name);
  }
  luaL_getmetatable(L, "penumbra.tensor");
  int meta = lua_gettop(L);
  set_meta(L, meta, "__add", "add");
  set_meta(L, meta, "__sub", "sub");
  set_meta(L, meta, "__mul", "mul");
  set_meta(L, meta, "__div", "div");
  set_meta(L, meta, "__pow", "pow");
  set_meta(L, meta, "__idiv", "floor_divide");
  set_meta(L, meta, "__mod", "remainder");
  push_op(L, pni_op_find("neg"));
  lua_pushcclosure(L, once, 1);
  lua_setfield(L, meta, "__unm");
  lua_pushcfunction(L, refuse_order);
  lua_pushvalue(L, -1);
  lua_setfield(L, meta, "__lt");
  lua_setfield(L, meta, "__le");
  lua_settop(L, core);
}
