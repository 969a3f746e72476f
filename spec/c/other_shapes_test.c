/*
** other_shapes_test.c: no operation trusts whoever calls it. The operations that captures of everything there is have
** recorded (other_shapes.lua) are done again with their attributes and inputs of other ranks, sizes, dtypes and
** strides, as a plan, a rule or a map over examples might. Each gives an error that names it, or a result that depends
** on its inputs alone: the same whatever lies in memory beside them, near the same for views and copies, with gradients
** of the inputs' shapes. Longer under `make soak`; PN_SEED draws other shapes.
*/
#include <lauxlib.h>
#include <lualib.h>
#include "../../src/autodiff/replay/replay.h"
#include "../../src/lua/operations.h"
#include "../../src/lua/penumbra_lua.h"
#include "poisoned.h"
#include "soak.h"

enum { OPS = 400, SEEN = 4, ROUNDS = 16, INPUTS = 64 };

typedef struct {
  uint64_t random;
  poisoned_memory *memory;
  const pni_op *op[OPS];
  int seen[OPS], nops;
  long done, refused;
  const char *only;
} sweep_state;

static sweep_state sweep;

static int64_t draw(int64_t n) { return (int64_t)soak_random(&sweep.random, (uint64_t)n); }
static bool chance(int percent) { return draw(100) < percent; }

/* ---- inputs ---- */

static int64_t other_size(int64_t n) {
  const int64_t sizes[] = {0, 1, n - 1, n + 1, 2 * n, 2, 3, 5};
  int64_t size = sizes[draw(8)];
  return size < 0 ? 0 : size;
}

static void change(pni_spec *s) {
  int at = s->ndim ? (int)draw(s->ndim) : 0;
  int64_t kept;
  switch (draw(6)) {
  case 0: /* one axis less */
    for (int i = at; i + 1 < s->ndim; i++) s->shape[i] = s->shape[i + 1];
    s->ndim -= s->ndim > 0;
    break;
  case 1: /* one more */
    if (s->ndim == PN_MAX_DIMS) break;
    for (int i = s->ndim++; i > at; i--) s->shape[i] = s->shape[i - 1];
    s->shape[at] = 1 + draw(3);
    break;
  case 2: /* turned */
    if (s->ndim < 2) break;
    at = (int)draw(s->ndim - 1);
    kept = s->shape[at];
    s->shape[at] = s->shape[at + 1];
    s->shape[at + 1] = kept;
    break;
  case 3: s->dtype = (int)draw(4); break;
  default:
    if (s->ndim) s->shape[at] = other_size(s->shape[at]);
  }
}

/* All axes of one size get another. */
static void change_size(pni_spec *s, int n) {
  int64_t old = 1, new;
  for (int k = 0; k < n; k++)
    if (s[k].ndim && chance(60)) old = s[k].shape[draw(s[k].ndim)];
  new = other_size(old);
  for (int k = 0; k < n; k++)
    for (int i = 0; i < s[k].ndim; i++)
      if (s[k].shape[i] == old) s[k].shape[i] = new;
}

static double number(int dtype) {
  const double far[] = {-1, 7, 1e9, -1e15, 9.2e18};
  if (dtype == PN_INT64) return chance(4) ? far[draw(5)] : (double)draw(3);
  if (dtype == PN_BOOL) return (double)draw(2);
  return (double)(1 + draw(1000)) / 1001;
}

/* Numbers of that shape; of square matrices, far from singular. */
static pn_tensor *numbers(pn_context *c, const pni_spec *s) {
  pn_tensor *t = pni_tensor_new(c, s);
  int64_t n = s->ndim ? s->shape[s->ndim - 1] : 0;
  bool square = s->ndim > 1 && s->shape[s->ndim - 2] == n;
  for (int64_t i = 0; t && i < t->numel; i++) {
    double v = number(s->dtype) + (square && s->dtype < PN_INT64 && i / n % n == i % n ? 3 : 0);
    if (s->dtype == PN_FLOAT64) ((double *)pni_data(t))[i] = v;
    if (s->dtype == PN_FLOAT32) ((float *)pni_data(t))[i] = (float)v;
    if (s->dtype == PN_INT64) ((int64_t *)pni_data(t))[i] = (int64_t)v;
    if (s->dtype == PN_BOOL) ((uint8_t *)pni_data(t))[i] = v != 0;
  }
  return pni_scoped(c, t);
}

/* The same numbers, but not as memory has them. */
static pn_tensor *strided(pn_context *c, pn_tensor *t) {
  int last = t->ndim - 1;
  if (last < 0 || t->numel == 0) return t;
  switch (draw(3)) {
  case 0: return last ? pn_transpose(c, pn_contiguous(c, pn_transpose(c, t, 0, last)), 0, last) : t;
  case 1: return pn_flip(c, pn_contiguous(c, pn_flip(c, t, last)), last);
  default: {
    pn_tensor *both = t->ndim < PN_MAX_DIMS ? pn_stack(c, 2, (pn_tensor *[]){t, t}, last + 1) : NULL;
    return both ? pn_select(c, both, last + 1, 1) : t;
  }
  }
}

/* ---- one call ---- */

static pn_tensor *call(pn_context *c, const pni_note *note, const pni_attr *attr, pn_tensor *const *in) {
  return pni_apply(c, note->op, note->nin, (pn_tensor **)(uintptr_t)in, attr);
}

/* Bits, or (near) rounding: the largest counts. */
static bool same(pn_context *c, pn_tensor *a, pn_tensor *b, bool near) {
  if (a->dtype != b->dtype || a->ndim != b->ndim || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape))
    return false;
  pn_tensor *x = pn_contiguous(c, pn_detach(c, a)), *y = pn_contiguous(c, pn_detach(c, b));
  if (!x || !y) return false;
  if (!near || !pni_is_float(x))
    return !x->numel || !memcmp(pni_data(x), pni_data(y), (size_t)x->numel * pni_itemsize(x));
  double top = 1, rel = x->dtype == PN_FLOAT64 ? 1e-6 : 1e-2;
  for (int64_t i = 0; i < x->numel; i++)
    if (isfinite(pni_element(x, i))) top = fmax(top, fabs(pni_element(x, i)));
  for (int64_t i = 0; i < x->numel; i++) {
    double u = pni_element(x, i), v = pni_element(y, i);
    if (isfinite(u) != isfinite(v) || (isfinite(u) && fabs(u - v) > rel * top)) return false;
  }
  return true;
}

static void say(const char *name, const pni_note *note, pn_tensor *const *in, const char *what) {
  char s[160];
  printf("%s, %s: %s of", name, note->op->name, what);
  for (int k = 0; k < note->nin; k++)
    printf(" %s %s", pn_dtype_name((pn_dtype)in[k]->dtype), pni_shape_text(in[k]->ndim, in[k]->shape, s));
  printf("\n");
}

static bool gradients_fit(pn_context *c, pn_tensor *y, int n, pn_tensor *const *leaf) {
  for (int k = 0; k < n; k++) {
    pn_tensor *d = NULL, *in[] = {leaf[k]};
    if (!(leaf[k]->flags & PNI_PARAM)) continue;
    if (pn_grad(c, y, 1, in, 0, &d) == PN_OK && d &&
        (d->ndim != leaf[k]->ndim || memcmp(d->shape, leaf[k]->shape, (size_t)d->ndim * sizeof *d->shape))) {
      char s[160];
      printf("%d: %s\n", k, pni_shape_text(d->ndim, d->shape, s));
      return false;
    }
    pn_context_clear_error(c);
  }
  return true;
}

/* Calls with the given inputs: a failure, or three times the same. */
static bool check_call(pn_context *c, const char *name, const pni_note *note, const pni_attr *attr, pn_tensor **in) {
  pn_tensor *leaf[INPUTS], *view[INPUTS];
  sweep.memory->fresh = 0x3F;
  pn_tensor *first = call(c, note, attr, in);
  if (!first) {
    bool told = pn_context_status(c) != PN_OK && pn_context_message(c)[0];
    sweep.refused++;
    pn_context_clear_error(c);
    if (!told) say(name, note, in, "no reason");
    return told;
  }
  sweep.memory->fresh = 0xC1;
  for (int k = 0; k < note->nin; k++) {
    view[k] = in[k]->storage->cargo ? in[k] : strided(c, in[k]);
    leaf[k] = pni_is_float(in[k]) && !in[k]->storage->cargo ? pn_param(c, in[k]) : in[k];
    if (!view[k] || !leaf[k]) return false;
  }
  pn_tensor *second = call(c, note, attr, in), *third = call(c, note, attr, view), *fourth = call(c, note, attr, leaf);
  bool good = true;
  pn_context_clear_error(c); /* a parameter may be refused where numbers are taken: an index of whole floats */
  if (!second || !same(c, first, second, false)) good = false, say(name, note, in, "another result");
  if (third && !same(c, first, third, true)) good = false, say(name, note, in, "another result for views");
  pn_context_clear_error(c);
  if (fourth && pn_tensor_requires_grad(fourth) && pni_is_float(fourth)) {
    pn_tensor *sum = pn_sum(c, fourth, PN_ALL, 0);
    if (sum && !gradients_fit(c, sum, note->nin, leaf))
      good = false, say(name, note, in, "a gradient of another shape");
  }
  pn_context_clear_error(c);
  return good;
}

static pni_spec spec_of(const pni_geometry *g) {
  pni_spec s = {.dtype = g->dtype, .ndim = g->ndim};
  memcpy(s.shape, g->shape, sizeof s.shape);
  return s;
}

static bool try_once(pn_context *c, const char *name, const pni_tape *tape, const pni_note *note) {
  pni_spec spec[INPUTS];
  pn_tensor *in[INPUTS];
  for (int k = 0; k < note->nin; k++) spec[k] = spec_of(pni_geometry_of(tape, tape->edge.v[note->first + k]));
  if (chance(40)) change_size(spec, note->nin);
  for (int n = (int)draw(3); n > 0; n--) change(&spec[draw(note->nin)]);
  int64_t most = 0;
  for (int k = 0; k < note->nin; k++) {
    const pni_value *v = &tape->value.v[tape->edge.v[note->first + k]];
    bool cargo = v->outside && v->outside->storage->cargo && chance(80);
    in[k] = cargo ? v->outside : numbers(c, &spec[k]);
    if (!in[k]) return false;
    most += in[k]->numel;
  }
  const pni_attr *attr = note->attr < 0 ? NULL : (const pni_attr *)(const void *)(tape->word.v + note->attr);
  sweep.done++;
  return most > 100000 || check_call(c, name, note, attr, in);
}

static int place_of(const pni_op *op) {
  int k = 0;
  while (k < sweep.nops && sweep.op[k] != op) k++;
  if (k == sweep.nops && k < OPS) sweep.op[sweep.nops++] = op;
  return k;
}

/* again(name): outside of any capture as far as the operations can see. */
static int again(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pni_tape *tape = (pni_tape *)c->recorder;
  const char *name = luaL_checkstring(L, 1);
  pn_context_clear_error(c);
  c->recorder = NULL;
  for (int64_t i = 0; i < tape->note.n; i++) {
    const pni_note *note = &tape->note.v[i];
    if (!note->op || note->nin == 0 || note->nin > INPUTS || (note->op->map && !note->op->infer)) continue;
    int at = place_of(note->op);
    if (sweep.seen[at]++ >= SEEN || (sweep.only && strcmp(sweep.only, note->op->name))) continue;
    for (long k = soak_rounds(ROUNDS); k > 0; k--) {
      size_t mark = pn_scope_open(c);
      check_record(try_once(c, name, tape, note));
      pn_scope_close(c, mark);
      pn_context_clear_error(c);
    }
  }
  c->recorder = &tape->recorder;
  return 0;
}

static bool was_seen(const pni_op *op) {
  int k = 0;
  while (k < sweep.nops && sweep.op[k] != op) k++;
  return k < sweep.nops && sweep.seen[k];
}

/* Each row stood on a tape, but for those whose result depends on values, and kernels over what broadcasts. */
static void every_row(void) {
  for (int k = 0; k < pni_op_count(); k++) {
    const pni_op *op = pni_op_at(k);
    if ((op->map && !op->infer) || op->flags & PNI_OP_DYNAMIC) continue;
    if (!check_record(was_seen(op))) printf("%s was not reached\n", op->name);
  }
}

int main(int argc, char **argv) {
  poisoned_memory *m = calloc(1, sizeof *m);
  pn_context *c = pn_context_new(&(pn_context_config){.allocate = poisoned_allocate,
                                                      .allocator_data = m,
                                                      .memory_limit = 256 << 20,
                                                      .pool_limit = PN_NO_POOL,
                                                      .threads = 1});
  lua_State *L = luaL_newstate();
  sweep = (sweep_state){.random = soak_seed(), .memory = m, .only = argc > 1 ? argv[1] : NULL};
  luaL_openlibs(L);
  CHECK(!luaL_dostring(L, "package.path = 'lua/?.lua;lua/?/init.lua;?.lua;' .. package.path"));
  pni_lua_set_context(L, c);
  luaL_requiref(L, "penumbra.core", luaopen_penumbra_core, 0);
  CHECK(!luaL_loadfile(L, "spec/c/other_shapes.lua"));
  lua_pushcfunction(L, again);
  if (lua_pcall(L, 1, 1, 0)) CHECK_STR(lua_tostring(L, -1), "");
  every_row();
  CHECK_INT(lua_tointeger(L, -1), 0);
  lua_close(L);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  CHECK_INT(poisoned_end(m), 0);
  free(m);
  printf("%d operations, %ld calls, %ld refused\n", sweep.nops, sweep.done, sweep.refused);
  CHECK_DONE();
}
