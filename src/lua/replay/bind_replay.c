/*
** bind_replay.c: compiled functions as Lua sees them. The object keeps one plan per shapes of the arguments,
** the latest used first; a call that fits none goes to the Lua function that captures (replay.lua), and so
** does a replay that failed before it changed anything: the eager call may take another way, and knows the line.
** A function that finds other values outside than at its capture is captured anew (watch.c).
*/
#include <string.h>
#include "../../autodiff/replay/plan.h"
#include "../../nn/optimiser/optimiser.h"
#include "../message.h"
#include "watch.h"

enum { MOST_PLANS = 64, ARGUMENTS = 64 };
/* The capturing function; f; what it saw outside at the last capture; the same before the capture that goes on */
enum { MISS = 1, FUNCTION = PNI_COMPILED_FUNCTION, SEEN, BEFORE, USER_VALUES = BEFORE };

typedef struct {
  pn_plan *plan;
  int dtype;     /* default dtype that it was captured with */
  bool no_grad;  /* and within no_grad */
  int mode;      /* and in this mode of layers */
  bool validate; /* and where densities refuse values outside their support */
  int nresults;  /* of the function */
} entry;

typedef struct {
  entry plan[MOST_PLANS]; /* latest used first */
  int n, limit;
  int captures;
  bool update; /* the first result is a loss that an optimiser steps on: given back as a number */
} compiled;

static void forget(compiled *f) {
  while (f->n) pn_plan_unref(f->plan[--f->n].plan);
}

static void release(void *object) { forget(object); }

static const pni_object_type kind = {
    "penumbra.compiled", "a compiled function", sizeof(compiled), USER_VALUES, true, release};

bool pni_is_compiled(lua_State *L, int i) { return pni_test_object(L, i, &kind) != NULL; }

static compiled *self_of(lua_State *L) {
  compiled *f = pni_test_object(L, 1, &kind);
  if (!f) pni_error(L, "methods of compiled functions are called with a colon, as in f:plans()");
  return f;
}

/* new_compiled(miss, f, limit, update) */
static int l_new(lua_State *L) {
  lua_settop(L, 4);
  lua_Integer limit = luaL_checkinteger(L, 3);
  if (limit < 1 || limit > MOST_PLANS)
    return pni_error(L, "compile: plans must be 1 to %d, got %I", MOST_PLANS, (LUAI_UACINT)limit);
  compiled *f = pni_new_object(L, &kind);
  f->limit = (int)limit;
  f->update = lua_toboolean(L, 4);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, MISS);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, -2, FUNCTION);
  return 1;
}

/* ---- what f sees outside ---- */

static bool unchanged(lua_State *L) {
  lua_getiuservalue(L, 1, SEEN);
  bool same = pni_watch_same(L, lua_gettop(L));
  lua_pop(L, 1);
  return same;
}

/* Keeps a list of what f sees outside as a user value. */
static void look_around(lua_State *L, int at) {
  lua_getiuservalue(L, 1, FUNCTION);
  pni_watch_list(L, lua_gettop(L));
  lua_setiuservalue(L, 1, at);
  lua_pop(L, 1);
}

/* What f does outside happens at the capture only: that must not matter. */
static void check_outside(lua_State *L) {
  char name[80];
  lua_getiuservalue(L, 1, BEFORE);
  if (pni_watch_changed(L, lua_gettop(L), name))
    pni_error(L,
              "compile: the function gives %s, from outside of it, another value, which a replay would not (return "
              "the value, or pass it as an argument)",
              name);
  lua_getiuservalue(L, 1, SEEN);
  if (pni_watch_holds_result(L, lua_gettop(L), name))
    pni_error(L,
              "compile: the function keeps a tensor that it has computed in %s, outside of it, where replays would "
              "leave the first one (return the tensor)",
              name);
  lua_pop(L, 2);
}

/* ---- calling ---- */

/* The plan that fits, moved to the front, or NULL. */
static const entry *find(compiled *f, int n, pn_tensor *const *in, const pni_state *s) {
  const pn_context *c = s->c;
  for (int i = 0; i < f->n; i++) {
    if (f->plan[i].dtype != s->default_dtype || f->plan[i].mode != s->mode || f->plan[i].no_grad != c->no_grad ||
        f->plan[i].validate != c->validate)
      continue;
    if (!pn_plan_fits(f->plan[i].plan, n, in)) continue;
    if (i > 0) {
      entry e = f->plan[i];
      memmove(f->plan + 1, f->plan, (size_t)i * sizeof e);
      f->plan[0] = e;
    }
    return f->plan;
  }
  return NULL;
}

/* Calls the function of replay.lua: self, failed, arguments. */
static int miss(lua_State *L, int n, bool failed) {
  lua_settop(L, n + 1);
  lua_pushboolean(L, failed);
  lua_insert(L, 2);
  lua_getiuservalue(L, 1, MISS);
  lua_insert(L, 1);
  lua_call(L, n + 2, LUA_MULTRET);
  return lua_gettop(L);
}

/* A failure that the eager call answers: it comes to the same, or goes another way. */
static bool is_answered(const pn_plan *p, pn_status s) {
  return s != PN_OK && s != PN_NOMEM && !pni_is_stop(s) && !p->changed;
}

/* Runs the plan; results are pushed. */
static int replay(lua_State *L, compiled *f, int n, pn_tensor *const *in) {
  pn_context *c = pni_lua_context(L);
  pn_plan *plan = f->plan[0].plan;
  int nout = f->plan[0].nresults, top = lua_gettop(L);
  pni_box *box[ARGUMENTS];
  luaL_checkstack(L, nout + 4, "too many results");
  if (f->update) lua_pushnumber(L, 0);
  for (int k = f->update; k < nout; k++) box[k] = pni_new_box(L);
  pn_tensor *out[ARGUMENTS];
  double loss = 0;
  size_t mark = pn_scope_open(c);
  pn_plan_ref(plan);
  pn_status s = pn_plan_run(c, plan, n, in, out);
  if (s == PN_OK && f->update) s = pn_tensor_item(c, out[0], &loss);
  for (int k = f->update; s == PN_OK && k < nout; k++) box[k]->t = pn_tensor_ref(out[k]);
  pn_scope_close(c, mark);
  bool again = is_answered(plan, s);
  pn_plan_unref(plan);
  if (again) {
    pn_context_clear_error(c);
    return miss(L, n, true);
  }
  if (s) return pni_raise(L, c);
  if (f->update) {
    lua_pushnumber(L, loss);
    lua_replace(L, top + 1);
  }
  pni_tell_collector(L);
  return nout;
}

/* f(...) */
static int l_call(lua_State *L) {
  compiled *f = self_of(L);
  pn_context *c = pni_lua_context(L);
  int n = lua_gettop(L) - 1;
  pn_tensor *in[ARGUMENTS];
  if (n > ARGUMENTS) return pni_error(L, "compile: at most %d arguments are possible, got %d", ARGUMENTS, n);
  pni_refuse_finaliser(L, "a compiled function");
  for (int k = 0; k < n; k++) {
    in[k] = pni_test_tensor(L, k + 2);
    if (!in[k])
      return pni_error(L, "compile: argument %d must be a tensor, got %s (a number that changes: pn.tensor(v))", k + 1,
                       luaL_typename(L, k + 2));
  }
  if (c->recorder || !unchanged(L) || !find(f, n, in, pni_lua_state(L))) return miss(L, n, false);
  return replay(L, f, n, in);
}

/* ---- capturing ---- */

/* look(compiled) -> name, type: before a capture. Plans whose constants have other values now are forgotten; if there
 * were some, which value it is, and what it was. */
static int l_look(lua_State *L) {
  compiled *f = self_of(L);
  char name[80];
  const char *type = NULL;
  pni_refuse_finaliser(L, "a capture");
  lua_getiuservalue(L, 1, SEEN);
  bool known = pni_watch_first(L, lua_gettop(L), name, &type) && f->n > 0;
  lua_pop(L, 1);
  if (type) forget(f);
  look_around(L, BEFORE);
  if (!known) return 0;
  lua_pushstring(L, name);
  lua_pushstring(L, type);
  return 2;
}

/* begin(tensors...) -> what stands for them inside */
static int l_begin(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  int n = lua_gettop(L);
  pn_tensor *in[ARGUMENTS], *inside[ARGUMENTS];
  pni_box *box[ARGUMENTS];
  if (n > ARGUMENTS) return pni_error(L, "compile: at most %d arguments are possible, got %d", ARGUMENTS, n);
  pni_refuse_finaliser(L, "a capture");
  luaL_checkstack(L, n + 4, "too many arguments");
  for (int k = 0; k < n; k++) box[k] = pni_new_box(L);
  for (int k = 0; k < n; k++) in[k] = pni_check_tensor(L, k + 1);
  pni_lua_state(L)->broken_where[0] = '\0';
  size_t mark = pn_scope_open(c);
  pn_status s = pn_capture_begin(c, n, in, inside);
  for (int k = 0; s == PN_OK && k < n; k++) box[k]->t = pn_tensor_ref(inside[k]);
  pn_scope_close(c, mark);
  return s ? pni_raise(L, c) : n;
}

/* The plan becomes the first of f; the one longest unused gives way. */
static void keep(lua_State *L, compiled *f, pn_plan *plan, int nresults) {
  if (f->n == f->limit) pn_plan_unref(f->plan[--f->n].plan);
  memmove(f->plan + 1, f->plan, (size_t)f->n * sizeof *f->plan);
  f->plan[0] = (entry){
      plan, (int)pni_default_dtype(L), plan->ctx->no_grad, pni_lua_state(L)->mode, plan->ctx->validate, nresults};
  f->n++;
  f->captures++;
}

/* Raises the pending error, at the line of the failure that broke the capture if there was one. */
static int raise_broken(lua_State *L, pn_context *c) {
  const char *where = pni_lua_state(L)->broken_where;
  if (!where[0] || pn_context_status(c) != PN_STATE) return pni_raise(L, c);
  lua_pushfstring(L, "%s%s", where, pn_context_message(c));
  pn_context_clear_error(c);
  return lua_error(L);
}

/* Where tensors take much: what is garbage by now, and what waits for reuse, goes. */
static bool tidy(lua_State *L, pn_context *c) {
  enum { LARGE = 8 << 20 }; /* less is not worth a look at all of Lua's objects */
  if (c->held < LARGE) return false;
  lua_gc(L, LUA_GCCOLLECT);
  pni_memory_return(c);
  return true;
}

/* What a capture has computed is not needed beside the plan's memory: the graphs of the n results, from index 2 on. */
static void let_go(lua_State *L, pn_context *c, int n) {
  for (int k = 0; k < n; k++) {
    lua_pushnil(L);
    lua_replace(L, k + 2);
  }
  tidy(L, c);
}

/* finish(compiled, results...) -> the results without graph, the loss as a number */
static int l_finish(lua_State *L) {
  compiled *f = self_of(L);
  pn_context *c = pni_lua_context(L);
  int n = lua_gettop(L) - 1;
  pn_tensor *out[ARGUMENTS];
  pni_box *box[ARGUMENTS];
  if (n < 1 || n > ARGUMENTS)
    return pni_error(L, "compile: the function must return 1 to %d tensors, got %d", ARGUMENTS, n);
  pni_refuse_finaliser(L, "a capture");
  luaL_checkstack(L, n + 4, "too many results");
  look_around(L, SEEN); /* what f itself has changed is no reason to capture anew */
  check_outside(L);
  for (int k = 0; k < n; k++) {
    out[k] = pni_test_tensor(L, k + 2);
    if (!out[k])
      return pni_error(L, "compile: result %d of the function must be a tensor, got %s", k + 1,
                       luaL_typename(L, k + 2));
  }
  for (int k = 0; k < n; k++) box[k] = pni_new_box(L);
  size_t mark = pn_scope_open(c);
  pn_plan *plan = pni_capture_close(c, n, out);
  for (int k = 0; plan && k < n; k++) {
    pn_tensor *t = pn_detach(c, out[k]);
    if (t) box[k]->t = pn_tensor_ref(t);
  }
  pn_scope_close(c, mark);
  if (pn_context_status(c)) {
    pn_plan_unref(plan);
    return raise_broken(L, c);
  }
  let_go(L, c, n);
  if (pni_plan_finish(c, plan)) {
    pn_plan_unref(plan);
    return pni_raise(L, c);
  }
  keep(L, f, plan, n);
  if (!f->update) return n;
  double loss;
  if (pn_tensor_item(c, box[0]->t, &loss)) return pni_raise(L, c);
  lua_pushnumber(L, loss);
  lua_replace(L, -n - 1);
  return n;
}

static int l_cancel(lua_State *L) {
  pni_refuse_finaliser(L, "a capture");
  pn_capture_cancel(pni_lua_context(L));
  return 0;
}

static int l_going_on(lua_State *L) {
  lua_pushboolean(L, pn_capturing(pni_lua_context(L)));
  return 1;
}

/* update(opt, loss): a step whose loss nobody reads. Where the loss's graph is large and nothing but the capture needs
 * it, each part of it goes when its gradients are there. */
static int l_update(lua_State *L) {
  pn_optim *o = pni_check_optim(L, 1);
  pn_context *c = pni_lua_context(L);
  pn_tensor *loss = pni_test_tensor(L, 2);
  pni_refuse_finaliser(L, "a step");
  if (!loss) return pni_error(L, "compile: the function must return the loss first, got %s", luaL_typename(L, 2));
  bool spend = c->recorder && tidy(L, c);
  size_t mark = pn_scope_open(c);
  pn_status s = spend ? pni_optim_step_spend(c, o, loss) : pn_optim_step(c, o, loss);
  pn_scope_close(c, mark);
  return s ? pni_raise(L, c) : 0;
}

/* map(rows) -> [N, m]: the last plan, of one vector to one vector, for each row */
static int l_map(lua_State *L) {
  compiled *f = self_of(L);
  pn_tensor *rows = pni_check_tensor(L, 2);
  if (!f->n) return pni_error(L, "map: the function must have been called once");
  PNI_RETURN(L, pni_lua_context(L), pn_plan_map(pni_lua_context(L), f->plan[0].plan, rows));
}

pn_plan *pni_check_plan(lua_State *L, int i) {
  compiled *f = pni_test_object(L, i, &kind);
  if (!f || !f->n) pni_error(L, "argument %d must be a compiled function that has been called", i);
  return f->plan[0].plan;
}

/* ---- asking ---- */

static int l_plans(lua_State *L) {
  const compiled *f = self_of(L);
  lua_createtable(L, f->n, 0);
  for (int i = 0; i < f->n; i++) {
    lua_createtable(L, 0, 3);
    lua_pushinteger(L, pn_plan_num_steps(f->plan[i].plan));
    lua_setfield(L, -2, "steps");
    lua_pushinteger(L, pn_plan_num_loops(f->plan[i].plan));
    lua_setfield(L, -2, "loops");
    lua_pushinteger(L, (lua_Integer)pn_plan_memory(f->plan[i].plan));
    lua_setfield(L, -2, "bytes");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int l_captures(lua_State *L) {
  lua_pushinteger(L, self_of(L)->captures);
  return 1;
}

static int l_forget(lua_State *L) {
  compiled *f = self_of(L);
  if (!pni_in_finaliser(L)) forget(f);
  return 0;
}

static const luaL_Reg functions[] = {{"begin", l_begin}, {"finish", l_finish}, {"cancel", l_cancel},
                                     {"new", l_new},     {"update", l_update}, {"going_on", l_going_on},
                                     {"look", l_look},   {NULL, NULL}};

static const luaL_Reg methods[] = {
    {"plans", l_plans}, {"map", l_map}, {"captures", l_captures}, {"forget", l_forget}, {NULL, NULL}};

void pni_open_replay(lua_State *L) {
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "capture");
  pni_new_kind(L, &kind);
  lua_pushcfunction(L, l_call);
  lua_setfield(L, -2, "__call");
  luaL_newlib(L, methods);
  pni_add_close(L, &kind);
  pni_guard_methods(L, "a compiled function");
  lua_setfield(L, -2, "__index");
  lua_pushliteral(L, "compiled function");
  lua_setfield(L, -2, "__name");
  lua_pop(L, 1);
}
