/*
** runtime_array.c: what a host does with a runtime: run scripts, call functions, exchange numbers and
** arrays. Each call checks its own arguments first, then enters Lua once with a job.
*/
#include <stdio.h>
#include <string.h>
#include "runtime.h"

/* ---- names ---- */

/* Pushes the value of "a.b.c", starting from the globals; false if there is no such table on the way. */
static bool push_path(lua_State *L, const char *name) {
  lua_pushglobaltable(L);
  for (;;) {
    const char *dot = strchr(name, '.');
    size_t n = dot ? (size_t)(dot - name) : strlen(name);
    if (!lua_istable(L, -1)) return false;
    lua_pushlstring(L, name, n);
    lua_gettable(L, -2);
    lua_remove(L, -2);
    if (!dot) return true;
    name = dot + 1;
  }
}

void pni_runtime_find(lua_State *L, pni_job *j) {
  j->status = PN_MISSING;
  if (!push_path(L, j->name) || lua_isnil(L, -1)) luaL_error(L, "there is no global '%s'", j->name);
  j->status = PN_OK;
}

/* Pops a value and assigns it to j->name. */
static void assign_global(lua_State *L, pni_job *j) {
  const char *dot = strrchr(j->name, '.');
  int value = lua_gettop(L);
  if (dot) {
    lua_pushlstring(L, j->name, (size_t)(dot - j->name));
    j->status = PN_MISSING;
    if (!push_path(L, lua_tostring(L, -1)) || !lua_istable(L, -1))
      luaL_error(L, "there is no table '%s'", lua_tostring(L, value + 1));
    j->status = PN_OK;
  } else {
    lua_pushglobaltable(L);
  }
  lua_pushvalue(L, value);
  lua_setfield(L, -2, dot ? dot + 1 : j->name);
  lua_settop(L, value - 1);
}

/* ---- arrays in ---- */

static int push_array(lua_State *L, pn_context *c, const pn_array *a) {
  PNI_RETURN(L, c, pn_from_data(c, a->dtype, a->ndim, a->shape, a->data));
}

static pn_status check_input(pn_runtime *rt, const pn_array *a, const char *where, int k) {
  int64_t n = 1;
  if (!a) return pni_runtime_refuse(rt, PN_DOMAIN, "%s: arrays must not be NULL", where);
  if ((unsigned)a->dtype > PN_BOOL)
    return pni_runtime_refuse(rt, PN_DTYPE, "%s: array %d: unknown dtype number %d", where, k, (int)a->dtype);
  if (a->ndim < 0 || a->ndim > PN_MAX_DIMS)
    return pni_runtime_refuse(rt, PN_SHAPE, "%s: array %d: ndim must be 0 to %d, got %d", where, k, PN_MAX_DIMS,
                              a->ndim);
  for (int i = 0; i < a->ndim; i++) {
    if (a->shape[i] < 0 || (a->shape[i] && n > ((int64_t)1 << 44) / a->shape[i]))
      return pni_runtime_refuse(rt, PN_SHAPE, "%s: array %d: size of axis %d is impossible, got %lld", where, k, i,
                                (long long)a->shape[i]);
    n *= a->shape[i];
  }
  if (n && !a->data) return pni_runtime_refuse(rt, PN_DOMAIN, "%s: array %d: data must not be NULL", where, k);
  return PN_OK;
}

/* ---- arrays out ---- */

/* Replaces the number, boolean or list at index i by a tensor of it. */
static pn_tensor *result_tensor(lua_State *L, pni_job *j, int i, int k) {
  i = lua_absindex(L, i);
  if (lua_isinteger(L, i)) {
    lua_Integer v = lua_tointeger(L, i);
    pn_array a = {.dtype = PN_INT64, .ndim = 0, .data = &v};
    push_array(L, j->rt->c, &a);
    lua_replace(L, i);
  } else if (lua_type(L, i) == LUA_TNUMBER) {
    lua_Number v = lua_tonumber(L, i);
    pn_array a = {.dtype = PN_FLOAT64, .ndim = 0, .data = &v};
    push_array(L, j->rt->c, &a);
    lua_replace(L, i);
  } else if (lua_isboolean(L, i) || lua_istable(L, i)) {
    lua_getfield(L, LUA_REGISTRYINDEX, "penumbra.runtime.tensor");
    lua_pushvalue(L, i);
    lua_call(L, 1, 1);
    lua_replace(L, i);
  }
  pn_tensor *t = pni_test_tensor(L, i);
  if (!t)
    luaL_error(L, "%s: result %d must be a tensor, a number or a list of numbers, got %s", j->name, k,
               luaL_typename(L, i));
  return t;
}

/* Which conversions into the host's buffer lose nothing but precision. */
static bool converts(pn_dtype from, pn_dtype to) {
  if (from == to) return true;
  if (to == PN_FLOAT64 || to == PN_FLOAT32) return true;
  return to == PN_INT64 && from == PN_BOOL;
}

/* The elements as `dtype`, row-major. New, or NULL with the context's error set. */
static pn_tensor *plain(pn_context *c, pn_tensor *t, pn_dtype dtype) {
  size_t mark = pn_scope_open(c);
  pn_tensor *cut = pn_detach(c, t);
  pn_tensor *p = (pn_dtype)t->dtype == dtype ? cut : pn_cast(c, cut, dtype);
  pn_tensor *out = p ? pni_contiguous(c, p) : NULL;
  pn_scope_close(c, mark);
  return out;
}

/* Result k (on the stack at index i) as the host wants it, held until it is copied or the next call. */
static void take_result(lua_State *L, pni_job *j, int i, int k, pn_array *out) {
  pn_runtime *rt = j->rt;
  pn_array a = j->out[k];
  pn_tensor *t = result_tensor(L, j, i, k + 1);
  pn_dtype have = (pn_dtype)t->dtype, want = a.capacity ? a.dtype : have;
  j->status = PN_DTYPE;
  if (!converts(have, want))
    luaL_error(L, "%s: result %d must be %s, got %s", j->name, k + 1, pn_dtype_name(want), pn_dtype_name(have));
  j->status = PN_SHAPE;
  if (a.capacity && t->numel > a.capacity)
    luaL_error(L, "%s: result %d has %I elements, the buffer room for %I", j->name, k + 1, (LUAI_UACINT)t->numel,
               (LUAI_UACINT)a.capacity);
  j->status = PN_OK;
  pn_tensor *p = plain(rt->c, t, want);
  if (!p && pn_context_status(rt->c) == PN_NOMEM) {
    pni_forget(L, rt->c, rt->c->scope_len);
    p = plain(rt->c, t, want);
  }
  if (!p) pni_raise(L, rt->c);
  rt->held[rt->nheld++] = p;
  a.dtype = want;
  a.ndim = p->ndim;
  memcpy(a.shape, p->shape, sizeof a.shape);
  if (!a.capacity) a.data = pni_data(p);
  *out = a;
}

static void take_results(lua_State *L, pni_job *j, int first) {
  pn_array taken[PN_MAX_ARRAYS];
  for (int k = 0; k < j->nout; k++) take_result(L, j, first + k, k, &taken[k]);
  pni_runtime_poll(L, 0);             /* what comes too late is late, even if it was not interrupted */
  for (int k = 0; k < j->nout; k++) { /* nothing fails any more */
    const pn_tensor *p = j->rt->held[k];
    if (taken[k].capacity && p->numel)
      memcpy(taken[k].data, pni_data(p), (size_t)p->numel * pn_dtype_size(taken[k].dtype));
    j->out[k] = taken[k];
  }
}

static pn_status check_output(pn_runtime *rt, const pn_array *a, const char *where, int k) {
  if (!a) return pni_runtime_refuse(rt, PN_DOMAIN, "%s: arrays must not be NULL", where);
  if (a->capacity < 0)
    return pni_runtime_refuse(rt, PN_DOMAIN, "%s: result %d: capacity must not be negative, got %lld", where, k,
                              (long long)a->capacity);
  if (a->capacity && !a->data)
    return pni_runtime_refuse(rt, PN_DOMAIN, "%s: result %d: data must not be NULL", where, k);
  if (a->capacity && (unsigned)a->dtype > PN_BOOL)
    return pni_runtime_refuse(rt, PN_DTYPE, "%s: result %d: unknown dtype number %d", where, k, (int)a->dtype);
  return PN_OK;
}

/* ---- run ---- */

static int run_loaded(lua_State *L, pni_job *j, int status) {
  if (status == LUA_ERRFILE) j->status = PN_IO;
  pni_runtime_pass_on(L);
  if (status != LUA_OK) return lua_error(L);
  lua_call(L, 0, 0);
  pni_runtime_poll(L, 0);
  return 0;
}

static int run_string(lua_State *L) {
  pni_job *j = lua_touserdata(L, 1);
  pni_runtime_release(j->rt);
  lua_pushfstring(L, "=%s", j->name);
  return run_loaded(L, j, pni_load_text(L, j->script, j->length, lua_tostring(L, -1)));
}

static int run_file(lua_State *L) {
  pni_job *j = lua_touserdata(L, 1);
  pni_runtime_release(j->rt);
  return run_loaded(L, j, luaL_loadfilex(L, j->name, "t"));
}

pn_status pn_runtime_run_string(pn_runtime *rt, const char *script, size_t length, const char *name) {
  pni_job j = {.rt = rt, .name = name ? name : "script", .script = script, .length = length};
  if (pni_runtime_begin(rt)) return PN_STATE;
  if (!script) return pni_runtime_refuse(rt, PN_DOMAIN, "run_string: script must not be NULL");
  if (length == (size_t)-1) j.length = strlen(script);
  return pni_runtime_enter(rt, run_string, &j);
}

pn_status pn_runtime_run_file(pn_runtime *rt, const char *path) {
  pni_job j = {.rt = rt, .name = path};
  if (pni_runtime_begin(rt)) return PN_STATE;
  if (!path) return pni_runtime_refuse(rt, PN_DOMAIN, "run_file: path must not be NULL");
  return pni_runtime_enter(rt, run_file, &j);
}

/* ---- call ---- */

static int call(lua_State *L) {
  pni_job *j = lua_touserdata(L, 1);
  luaL_checkstack(L, j->nin + j->nout + 8, "too many arrays");
  pni_runtime_find(L, j);
  for (int k = 0; k < j->nin; k++) push_array(L, j->rt->c, &j->in[k]);
  pni_runtime_release(j->rt); /* which may have been the inputs */
  lua_call(L, j->nin, j->nout);
  take_results(L, j, 2);
  return 0;
}

pn_status pn_runtime_call(pn_runtime *rt, const char *name, int nin, const pn_array *in, int nout, pn_array *out) {
  pni_job j = {.rt = rt, .name = name, .nin = nin, .in = in, .nout = nout, .out = out};
  if (pni_runtime_begin(rt)) return PN_STATE;
  if (!name) return pni_runtime_refuse(rt, PN_DOMAIN, "call: name must not be NULL");
  if (nin < 0 || nin > PN_MAX_ARRAYS || nout < 0 || nout > PN_MAX_ARRAYS)
    return pni_runtime_refuse(rt, PN_DOMAIN, "%s: between 0 and %d arrays are possible, got %d in and %d out", name,
                              PN_MAX_ARRAYS, nin, nout);
  for (int k = 0; k < nin; k++)
    if (check_input(rt, in ? &in[k] : NULL, name, k + 1)) return rt->status;
  for (int k = 0; k < nout; k++)
    if (check_output(rt, out ? &out[k] : NULL, name, k + 1)) return rt->status;
  return pni_runtime_enter(rt, call, &j);
}

/* ---- globals ---- */

static int set_number(lua_State *L) {
  pni_job *j = lua_touserdata(L, 1);
  pni_runtime_release(j->rt);
  lua_pushnumber(L, j->number);
  assign_global(L, j);
  return 0;
}

static int get_number(lua_State *L) {
  pni_job *j = lua_touserdata(L, 1);
  pni_runtime_release(j->rt);
  pni_runtime_find(L, j);
  pn_tensor *t = pni_test_tensor(L, -1);
  j->status = PN_DTYPE;
  if (t ? t->numel != 1 : lua_type(L, -1) != LUA_TNUMBER)
    luaL_error(L, "%s must be a number or a tensor of one element, got %s", j->name,
               t ? "several" : luaL_typename(L, -1));
  j->status = PN_OK;
  j->number = t ? pni_element(t, 0) : lua_tonumber(L, -1);
  return 0;
}

static int set_array(lua_State *L) {
  pni_job *j = lua_touserdata(L, 1);
  push_array(L, j->rt->c, j->in);
  pni_runtime_release(j->rt);
  assign_global(L, j);
  return 0;
}

static int get_array(lua_State *L) {
  pni_job *j = lua_touserdata(L, 1);
  pni_runtime_release(j->rt);
  pni_runtime_find(L, j);
  if (lua_isfunction(L, -1) || lua_isstring(L, -1) != (lua_type(L, -1) == LUA_TNUMBER)) {
    j->status = PN_DTYPE;
    luaL_error(L, "%s must be a tensor, a number or a list of numbers, got %s", j->name, luaL_typename(L, -1));
  }
  take_results(L, j, lua_gettop(L));
  return 0;
}

pn_status pn_runtime_set_number(pn_runtime *rt, const char *name, double value) {
  pni_job j = {.rt = rt, .name = name, .number = value};
  if (pni_runtime_begin(rt)) return PN_STATE;
  if (!name) return pni_runtime_refuse(rt, PN_DOMAIN, "set_number: name must not be NULL");
  return pni_runtime_enter(rt, set_number, &j);
}

pn_status pn_runtime_get_number(pn_runtime *rt, const char *name, double *value) {
  pni_job j = {.rt = rt, .name = name};
  if (pni_runtime_begin(rt)) return PN_STATE;
  if (!name || !value) return pni_runtime_refuse(rt, PN_DOMAIN, "get_number: name and value must not be NULL");
  if (pni_runtime_enter(rt, get_number, &j) == PN_OK) *value = j.number;
  return rt->status;
}

pn_status pn_runtime_set_array(pn_runtime *rt, const char *name, const pn_array *in) {
  pni_job j = {.rt = rt, .name = name, .nin = 1, .in = in};
  if (pni_runtime_begin(rt)) return PN_STATE;
  if (!name) return pni_runtime_refuse(rt, PN_DOMAIN, "set_array: name must not be NULL");
  if (check_input(rt, in, name, 1)) return rt->status;
  return pni_runtime_enter(rt, set_array, &j);
}

pn_status pn_runtime_get_array(pn_runtime *rt, const char *name, pn_array *out) {
  pni_job j = {.rt = rt, .name = name, .nout = 1, .out = out};
  if (pni_runtime_begin(rt)) return PN_STATE;
  if (!name) return pni_runtime_refuse(rt, PN_DOMAIN, "get_array: name must not be NULL");
  if (check_output(rt, out, name, 1)) return rt->status;
  return pni_runtime_enter(rt, get_array, &j);
}
