/*
** sde_test.c: stochastic differential equations from C: steps made by hand, what does not fit, cancellation within the
** steps, copies for other contexts, no memory from replay to replay, memory by
** steps, and every allocation's failure.
*/
#include <math.h>
#include "../../src/autodiff/sde/op_sde.h"
#include "../../src/autodiff/sde/sde_number.h"
#include "../../src/tensor/tensor.h"
#include "alloc_sweep.h"
#include "fenced.h"

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

enum { PATHS = 10, ROWS = 4 };

typedef struct {
  pn_plan *step, *pullback;
} plans;

/* Euler's step of dy = k y dt + w: y + k y h + w, and its pullback: v (1 + k h), sum v y h. */
static plans make_of(pn_context *c, pn_dtype dtype, int64_t rows) {
  plans p = {NULL, NULL};
  pn_tensor *t = pn_scalar(c, dtype, 0), *y = pn_full(c, dtype, SHAPE(rows, 1), 1), *k = pn_full(c, dtype, SHAPE(1), 1),
            *in[6];
  if (pn_capture_begin(c, 5, (pn_tensor *[]){t, t, y, y, k}, in)) return p;
  pn_tensor *next = pn_add(c, pn_add(c, in[3], in[2]), pn_mul(c, pn_mul(c, in[3], in[4]), in[1]));
  if (!(p.step = pn_capture_end(c, 1, &next))) return p;
  if (pn_capture_begin(c, 6, (pn_tensor *[]){t, t, y, y, k, y}, in)) return p;
  pn_tensor *in_k = pn_sum(c, pn_mul(c, pn_mul(c, in[5], in[3]), in[1]), PN_ALL, 0);
  pn_tensor *back[] = {pn_add(c, in[5], pn_mul(c, pn_mul(c, in[5], in[4]), in[1])), pn_reshape(c, in_k, SHAPE(1))};
  p.pullback = pn_capture_end(c, 2, back);
  return p;
}

static plans make(pn_context *c) { return make_of(c, PN_FLOAT64, ROWS); }

static void forget(plans p) {
  pn_plan_unref(p.step);
  pn_plan_unref(p.pullback);
}

static const pni_sde_config usual = {
    .step = 0.25, .max_steps = 1000, .paths = PATHS, .rows = ROWS, .motions = 1, .states = 1};

static pn_tensor *solve(pn_context *c, plans p, const pni_sde_config *set, pn_tensor *y0, pn_tensor *k) {
  pn_tensor *times = pn_linspace(c, PN_FLOAT64, 0, 3, 4), *none = pn_zeros(c, pn_tensor_dtype(y0), SHAPE(0));
  pn_tensor *key = pn_full(c, PN_INT64, SHAPE(1), 5);
  return pni_sde_apply(c, p.step, p.pullback, set, 1, (bool[]){false}, y0, times, key, k, none);
}

/* The solution's sum as a function of k [1] -> value [1] and gradient [1], captured; without a pullback the value
 * twice. */
static pn_plan *capture(pn_context *c, plans p, const pni_sde_config *set) {
  pn_tensor *zero = pn_param(c, pn_zeros(c, PN_FLOAT64, SHAPE(1))), *z = pn_full(c, PN_FLOAT64, SHAPE(1), -0.7), *in;
  pn_tensor *y0 = pn_full(c, PN_FLOAT64, SHAPE(PATHS, 1), 2);
  if (!y0 || pn_capture_begin(c, 1, &z, &in)) return NULL;
  pn_tensor *k = pn_add(c, in, zero), *gradient;
  pn_tensor *y = pn_sum(c, solve(c, p, set, y0, k), PN_ALL, 0);
  if (y && p.pullback && pn_grad(c, y, 1, &k, 0, &gradient)) y = NULL;
  pn_tensor *value = y ? pn_reshape(c, pn_detach(c, y), SHAPE(1)) : NULL;
  return pn_capture_end(c, 2, (pn_tensor *[]){value, y && p.pullback ? gradient : value});
}

static bool work(pn_context *c, const void *data) {
  plans p = make(c);
  pn_plan *outer = p.pullback ? capture(c, p, data) : NULL, *copy = NULL;
  pn_tensor *z = outer ? pn_full(c, PN_FLOAT64, SHAPE(1), -0.9) : NULL, *out[2];
  forget(p);
  bool done = z && pn_plan_run(c, outer, 1, &z, out) == PN_OK;
  if (done) copy = pn_plan_copy(c, outer);
  done = copy && pn_plan_run(c, copy, 1, &z, out) == PN_OK;
  pn_plan_unref(copy);
  pn_plan_unref(outer);
  return done;
}

/* A copy lives in its own context, past the original's end, and gives the same bits, on more threads too. */
static void copies(bool slopes) {
  pn_context *c = pn_context_new(NULL), *d = pn_context_new(NULL);
  size_t mark = pn_scope_open(c), other = pn_scope_open(d);
  plans p = make(c);
  if (!slopes) pn_plan_unref(p.pullback), p.pullback = NULL;
  pn_context_threads(c, 1);
  pn_context_threads(d, 3);
  pn_plan *outer = capture(c, p, &usual), *copy = pn_plan_copy(d, outer);
  pn_tensor *z = pn_full(c, PN_FLOAT64, SHAPE(1), 0.4), *z2 = pn_full(d, PN_FLOAT64, SHAPE(1), 0.4), *out[2], *out2[2];
  double a[2], b[2];
  forget(p);
  CHECK_STATUS(c, pn_plan_run(c, outer, 1, &z, out), PN_OK);
  for (int i = 0; i < 2; i++) CHECK(pn_tensor_item(c, out[i], &a[i]) == PN_OK);
  pn_plan_unref(outer);
  pn_scope_close(c, mark);
  CHECK(pn_context_objects(c) == 0);
  pn_context_close(c);
  for (int k = 0; k < 2; k++) {
    CHECK_STATUS(d, pn_plan_run(d, copy, 1, &z2, out2), PN_OK);
    for (int i = 0; i < 2; i++) CHECK(pn_tensor_item(d, out2[i], &b[i]) == PN_OK && a[i] == b[i]);
  }
  pn_plan_unref(copy);
  pn_scope_close(d, other);
  CHECK(pn_context_objects(d) == 0);
  pn_context_close(d);
}

/* Replays take no memory once the context's pool is warm: neither the solution nor a step. */
static void steady(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  plans p = make(c);
  pn_context_threads(c, 1);
  for (int gradient = PNI_SDE_GRAPH; gradient <= PNI_SDE_CHECKPOINTS; gradient++) {
    pni_sde_config set = usual;
    set.gradient = gradient;
    pn_plan *outer = capture(c, p, &set);
    uint64_t requests = 0;
    for (int k = 0; k < 30; k++) {
      size_t inner = pn_scope_open(c);
      pn_tensor *z = pn_full(c, PN_FLOAT64, SHAPE(1), -0.5 + 0.2 * (k % 3)), *out[2];
      CHECK_STATUS(c, pn_plan_run(c, outer, 1, &z, out), PN_OK);
      pn_scope_close(c, inner);
      if (k == 10) requests = c->requests;
    }
    CHECK(c->requests == requests);
    pn_plan_unref(outer);
  }
  forget(p);
  pn_scope_close(c, mark);
  CHECK(pn_context_objects(c) == 0);
  pn_context_close(c);
}

/* What is in use while a solution of so many steps waits for its gradient, less what was before. */
static double kept(int gradient, int steps) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  plans p = make(c);
  pni_sde_config set = usual;
  set.step = 3.0 / steps;
  set.max_steps = steps;
  set.gradient = gradient;
  pn_tensor *y0 = pn_full(c, PN_FLOAT64, SHAPE(PATHS, 1), 2), *k = pn_full(c, PN_FLOAT64, SHAPE(1), -1);
  size_t before = c->held - c->pooled;
  CHECK(solve(c, p, &set, y0, k));
  double bytes = (double)(c->held - c->pooled - before);
  forget(p);
  pn_scope_close(c, mark);
  pn_context_close(c);
  return bytes;
}

static double growth(int gradient) { return kept(gradient, 30000) / kept(gradient, 3000); }

static void memory(void) {
  double graph = growth(PNI_SDE_GRAPH);
  CHECK(graph > 8 && graph < 10.5);
  CHECK(growth(PNI_SDE_CHECKPOINTS) < 3.5);
  CHECK(growth(PNI_SDE_REVERSIBLE) < 1.1);
}

#define REFUSED(expected, call)                                                                                        \
  do {                                                                                                                 \
    CHECK(!(call) && pn_context_status(c) == (expected));                                                              \
    pn_context_clear_error(c);                                                                                         \
  } while (0)

/* Far more steps than can be done in the time that is given: the end comes within them. */
static void ends(void) {
  for (int threads = 1; threads <= 2; threads++) {
    pn_context *c = pn_context_new(NULL);
    size_t mark = pn_scope_open(c);
    plans p = make(c);
    pn_context_threads(c, threads);
    pni_sde_config set = usual;
    set.step = 1e-10;
    set.max_steps = (int64_t)1 << 40;
    pn_tensor *y0 = pn_full(c, PN_FLOAT64, SHAPE(PATHS, 1), 2), *k = pn_full(c, PN_FLOAT64, SHAPE(1), -1);
    pn_context_set_deadline(c, 0.05);
    pn_plan_unref(p.pullback);
    p.pullback = NULL; /* nothing is kept */
    REFUSED(PN_TIME, solve(c, p, &set, y0, k));
    pn_context_set_deadline(c, 0);
    pn_context_cancel(c);
    REFUSED(PN_CANCELLED, solve(c, p, &usual, y0, k));
    pn_context_uncancel(c);
    CHECK(solve(c, p, &usual, y0, k));
    forget(p);
    pn_scope_close(c, mark);
    CHECK(pn_context_objects(c) == 0);
    pn_context_close(c);
  }
}

static void misuse(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  plans p = make(c), none = {NULL, NULL};
  pn_tensor *y0 = pn_full(c, PN_FLOAT64, SHAPE(PATHS, 1), 2), *k = pn_full(c, PN_FLOAT64, SHAPE(1), -1);
  pn_tensor *wide = pn_full(c, PN_FLOAT64, SHAPE(PATHS, 2), 2), *many = pn_full(c, PN_FLOAT64, SHAPE(3), 2);
  REFUSED(PN_STATE, solve(c, none, &usual, y0, k));
  REFUSED(PN_SHAPE, solve(c, p, &usual, wide, k));
  REFUSED(PN_SHAPE, solve(c, p, &usual, y0, many));
  const pni_sde_config wrong[] = {
      {.step = -1, .max_steps = 9, .paths = PATHS, .rows = ROWS, .motions = 1, .states = 1},
      {.step = NAN, .max_steps = 9, .paths = PATHS, .rows = ROWS, .motions = 1, .states = 1},
      {.max_steps = 0, .paths = PATHS, .rows = ROWS, .motions = 1, .states = 1},
      {.max_steps = 9, .paths = PATHS, .rows = PATHS + 1, .motions = 1, .states = 1},
      {.max_steps = 9, .paths = PATHS, .rows = 0, .motions = 1, .states = 1},
      {.max_steps = 9, .paths = -1, .rows = ROWS, .motions = 1, .states = 1},
      {.max_steps = 9, .paths = PATHS, .rows = ROWS, .motions = 0, .states = 1},
      {.max_steps = 9, .paths = PATHS, .rows = ROWS, .motions = 1, .states = 0},
      {.max_steps = 9, .paths = PATHS, .rows = ROWS, .motions = 1, .states = 1, .gradient = 3},
      {.max_steps = 9, .paths = PATHS, .rows = ROWS, .motions = 1, .states = 1, .tree = true},
      {.max_steps = 9, .paths = PATHS, .rows = ROWS, .motions = 1, .states = 1, .adaptive = true},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) REFUSED(PN_DOMAIN, solve(c, p, &wrong[i], y0, k));
  pni_sde_config set = usual;
  set.motions = 2;
  REFUSED(PN_SHAPE, solve(c, p, &set, y0, k));
  set.motions = 1;
  set.area = true;
  REFUSED(PN_SHAPE, solve(c, p, &set, y0, k));
  set = usual;
  set.max_steps = 11;
  REFUSED(PN_DOMAIN, solve(c, p, &set, y0, k)); /* 12 steps */
  pn_tensor *w = pn_param(c, k);
  plans alone = {p.step, NULL}, turned = {p.step, p.step};
  pn_tensor *loss = pn_sum(c, solve(c, alone, &usual, y0, w), PN_ALL, 0);
  CHECK(loss && pn_backward(c, loss) == PN_STATE);
  pn_context_clear_error(c);
  REFUSED(PN_SHAPE, solve(c, turned, &usual, y0, k));
  pn_tensor *kept = pn_sum(c, solve(c, p, &usual, y0, w), PN_ALL, 0); /* the solution keeps its plans */
  forget(p);
  CHECK_STATUS(c, pn_backward(c, kept), PN_OK);
  pn_scope_close(c, mark);
  CHECK(pn_context_objects(c) == 0);
  pn_context_close(c);
}

/* Each field at its bounds: what lies outside is refused in these words, what lies within is not. */
static void ranges(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  plans p = make(c);
  pn_tensor *y0 = pn_full(c, PN_FLOAT64, SHAPE(PATHS, 1), 2), *k = pn_full(c, PN_FLOAT64, SHAPE(1), -1);
  const pni_sde_config tree = {.step = 0.25,
                               .max_steps = 1000,
                               .paths = PATHS,
                               .rows = ROWS,
                               .motions = 1,
                               .states = 1,
                               .tree = true,
                               .tolerance = 0.01};
  pni_sde_config by_error = tree;
  by_error.adaptive = by_error.own_start = true;
  by_error.rtol = by_error.atol = 0.5;
  by_error.order = 1;
  enum { CASES = 36 };
  pni_sde_config set[CASES];
  bool fits[CASES];
  int n = 0;
#define CASE(base, field, number, is) (set[n] = (base), set[n].field = (number), fits[n++] = (is))
  CASE(usual, step, 0, true), CASE(usual, step, -1e-300, false), CASE(usual, step, INFINITY, false);
  CASE(usual, max_steps, (int64_t)1 << 40, true), CASE(usual, max_steps, ((int64_t)1 << 40) + 1, false);
  CASE(usual, max_steps, 0, false), CASE(usual, gradient, -1, false), CASE(usual, gradient, 3, false);
  CASE(usual, gradient, PNI_SDE_GRAPH, true), CASE(usual, gradient, PNI_SDE_CHECKPOINTS, true);
  CASE(usual, paths, 0, false), CASE(usual, rows, 0, false), CASE(usual, rows, PATHS + 1, false);
  CASE(usual, rows, PATHS, true), CASE(usual, rows, 1, true), CASE(usual, motions, 0, false);
  CASE(usual, states, 0, false), CASE(usual, adaptive, true, false), CASE(usual, tolerance, -1, true);
  CASE(tree, tolerance, 0, false), CASE(tree, tolerance, NAN, false), CASE(tree, tolerance, INFINITY, false);
  CASE(tree, start, NAN, false), CASE(tree, start, -1, true), CASE(tree, rtol, -1, true);
  CASE(by_error, rtol, 0, false), CASE(by_error, atol, 0, false), CASE(by_error, order, 0, false);
  CASE(by_error, first_step, -1e-300, false), CASE(by_error, first_step, 0.01, true),
      CASE(by_error, tree, false, false);
  CASE(by_error, start, NAN, false), CASE(by_error, tolerance, 0, false), CASE(by_error, step, 0, true);
#undef CASE
  for (int i = 0; i < n; i++) {
    bool taken = solve(c, p, &set[i], y0, k) || !strstr(pn_context_message(c), "outside their range");
    if (taken != fits[i]) printf("configuration %d: %s\n", i, pn_context_message(c));
    CHECK(taken == fits[i]);
    CHECK(taken || pn_context_status(c) == PN_DOMAIN);
    pn_context_clear_error(c);
  }
  forget(p);
  pn_scope_close(c, mark);
  pn_context_close(c);
}

/* The operation by itself, with one of its inputs as it may not be. */
static void altered(void) {
  enum { Y0, TIMES, KEY, SYSTEM, SHARED, OF_PATH, INPUTS };
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  plans p = make(c);
  pn_tensor *y0 = pn_full(c, PN_FLOAT64, SHAPE(PATHS, 1), 2), *k = pn_param(c, pn_full(c, PN_FLOAT64, SHAPE(1), -1));
  pn_tensor *y = solve(c, p, &usual, y0, k), *in[INPUTS + 1], *other[8];
  pn_tensor *fake = pn_zeros(c, PN_BOOL, pn_tensor_ndim(pni_in(y, SYSTEM)), pn_tensor_shape(pni_in(y, SYSTEM)));
  memcpy(pni_data(fake), pni_data(pni_in(y, SYSTEM)), (size_t)fake->numel); /* the bytes of a system are none */
  const struct {
    int k;
    pn_tensor *x;
  } wrong[] = {{Y0, pn_cast(c, y0, PN_FLOAT32)},
               {Y0, pn_zeros(c, PN_FLOAT64, SHAPE(PATHS, 2))},
               {Y0, pn_reshape(c, y0, SHAPE(PATHS, 1, 1, 1, 1, 1, 1, 1))},
               {TIMES, pn_linspace(c, PN_FLOAT32, 0, 3, 4)},
               {TIMES, pn_linspace(c, PN_FLOAT64, 0, 3, 5)},
               {TIMES, pn_reshape(c, pn_linspace(c, PN_FLOAT64, 0, 3, 4), SHAPE(4, 1))},
               {KEY, pn_full(c, PN_FLOAT64, SHAPE(1), 5)},
               {KEY, pn_full(c, PN_INT64, SHAPE(2), 5)},
               {SYSTEM, fake},
               {SHARED, pn_full(c, PN_FLOAT32, SHAPE(1), -1)},
               {SHARED, pn_full(c, PN_FLOAT64, SHAPE(2), -1)},
               {OF_PATH, pn_zeros(c, PN_FLOAT32, SHAPE(0))},
               {OF_PATH, pn_zeros(c, PN_FLOAT64, SHAPE(PATHS))}};
  const char *text = "sde: y0, times, key and parameters must be as the system was made for";
  const char *of_adjoint = "sde_adjoint: y0, times, key and parameters must be as the system was made for";
  for (int i = 0; i < INPUTS; i++) in[i + 1] = other[i + 1] = pni_in(y, i);
  in[0] = pn_full(c, PN_FLOAT64, 3, pn_tensor_shape(y), 1);
  pn_tensor *again = pni_apply(c, y->op, INPUTS, in + 1, NULL), *g = NULL, *all;
  CHECK(again && memcmp(pni_data(again), pni_data(y), (size_t)y->numel * sizeof(double)) == 0);
  CHECK(pn_grad(c, pn_sum(c, y, PN_ALL, 0), 1, &k, 0, &g) == PN_OK);
  CHECK((all = pni_apply(c, &pni_op_sde_adjoint, INPUTS + 1, in, NULL)) && all->numel == PATHS + 1);
  CHECK(all && g && ((double *)pni_data(all))[PATHS] == *(double *)pni_data(g));
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    other[0] = in[0];
    for (int j = 0; j < INPUTS; j++) other[j + 1] = j == wrong[i].k ? wrong[i].x : in[j + 1];
    CHECK(other[1 + wrong[i].k] && !pni_apply(c, y->op, INPUTS, other + 1, NULL));
    CHECK_FAIL(c, PN_SHAPE, text);
    CHECK(!pni_apply(c, &pni_op_sde_adjoint, INPUTS + 1, other, NULL));
    CHECK_FAIL(c, PN_SHAPE, of_adjoint);
  }
  CHECK(!pni_apply(c, y->op, INPUTS - 1, in + 1, NULL));
  CHECK_FAIL(c, PN_SHAPE, text);
  CHECK(!pni_apply(c, &pni_op_sde_adjoint, INPUTS, in, NULL));
  CHECK_FAIL(c, PN_SHAPE, of_adjoint);
  in[0] = pn_full(c, PN_FLOAT64, SHAPE(4, PATHS), 1);
  CHECK(!pni_apply(c, &pni_op_sde_adjoint, INPUTS + 1, in, NULL));
  CHECK_INT(pn_context_status(c), PN_SHAPE);
  pn_context_clear_error(c);
  forget(p);
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
}

/* dy = (a log y) / k dt + dW with k of each path: y + w + a log y h / k, and its pullback. */
static plans of_rows(pn_context *c, int64_t rows) {
  plans p = {NULL, NULL};
  pn_tensor *t = pn_scalar(c, PN_FLOAT64, 0), *y = pn_full(c, PN_FLOAT64, SHAPE(rows, 1), 1),
            *a = pn_full(c, PN_FLOAT64, SHAPE(1), 1), *in[7];
  if (pn_capture_begin(c, 6, (pn_tensor *[]){t, t, y, y, a, y}, in)) return p;
  pn_tensor *slope = pn_div(c, pn_mul(c, pn_log(c, in[3]), in[1]), in[5]);
  pn_tensor *next = pn_add(c, pn_add(c, in[3], in[2]), pn_mul(c, slope, in[4]));
  if (!(p.step = pn_capture_end(c, 1, &next))) return p;
  if (pn_capture_begin(c, 7, (pn_tensor *[]){t, t, y, y, a, y, y}, in)) return p;
  slope = pn_div(c, pn_mul(c, pn_log(c, in[3]), in[1]), in[5]);
  pn_tensor *of_y = pn_div(c, pn_mul(c, in[4], in[1]), pn_mul(c, in[3], in[5])), *v = in[6];
  pn_tensor *of_k = pn_neg(c, pn_div(c, pn_mul(c, pn_mul(c, v, slope), in[4]), in[5]));
  pn_tensor *back[] = {pn_add(c, v, pn_mul(c, v, of_y)),
                       pn_reshape(c, pn_sum(c, pn_mul(c, v, slope), PN_ALL, 0), SHAPE(1)), of_k};
  p.pullback = pn_capture_end(c, 3, back);
  return p;
}

/* Chunks that are not full, with zeros where a path would be: they take nothing and give nothing, whatever is not a
 * number there. 6 paths one by one are the oracle. */
static void padded(void) {
  enum { N = 6, NUMBERS = 4 * N + 1 + 2 * N };
  static double got[NUMBERS], want[NUMBERS];
  static const int64_t rows[] = {1, 4, 5, 6};
  for (int tree = 0; tree < 3; tree++)
    for (int i = 0; i < 8; i++) {
      pn_context *c = pn_context_new(&(pn_context_config){.threads = 1 + i / 4});
      size_t mark = pn_scope_open(c);
      plans p = of_rows(c, rows[i % 4]);
      pni_sde_config set = usual;
      set.paths = N, set.rows = rows[i % 4], set.tree = tree > 0, set.tolerance = 0.01;
      set.gradient = tree == 2 ? PNI_SDE_CHECKPOINTS : PNI_SDE_GRAPH;
      double start[N], k[N];
      for (int j = 0; j < N; j++) start[j] = 30 + j, k[j] = 0.5 + 0.25 * j;
      pn_tensor *x[] = {pn_param(c, pn_full(c, PN_FLOAT64, SHAPE(1), 0.75)),
                        pn_param(c, pn_from_data(c, PN_FLOAT64, SHAPE(N, 1), start)),
                        pn_param(c, pn_from_data(c, PN_FLOAT64, SHAPE(N, 1), k))};
      pn_tensor *times = pn_linspace(c, PN_FLOAT64, 0, 3, 4), *key = pn_full(c, PN_INT64, SHAPE(1), 5), *g[3];
      pn_tensor *y = pni_sde_apply(c, p.step, p.pullback, &set, 2, (bool[]){false, true}, x[1], times, key, x[0], x[2]);
      CHECK(y && pn_tensor_copy_out(c, y, got, 4 * N) == PN_OK);
      CHECK_STATUS(c, pn_grad(c, pn_sum(c, pn_square(c, y), PN_ALL, 0), 3, x, 0, g), PN_OK);
      int64_t at = 4 * N;
      for (int j = 0; j < 3; at += j ? N : 1, j++) CHECK(pn_tensor_copy_out(c, g[j], got + at, j ? N : 1) == PN_OK);
      if (i == 0) memcpy(want, got, sizeof want);
      for (int j = 0; j < NUMBERS; j++) CHECK_NEAR(got[j], want[j], 1e-12);
      for (int j = 0; j < N && !tree && i == 0; j++) CHECK(got[j] == start[j] && got[3 * N + j] > start[j]);
      forget(p);
      pn_scope_close(c, mark);
      CHECK_INT(pn_context_objects(c), 0);
      pn_context_close(c);
    }
}

/* Paths that depend on each other are refused, by whatever thread it is found out. */
static void coupled(void) {
  for (int threads = 1; threads <= 3; threads++) {
    pn_context *c = pn_context_new(&(pn_context_config){.threads = threads});
    size_t mark = pn_scope_open(c);
    pn_tensor *y = pn_full(c, PN_FLOAT64, SHAPE(ROWS, 1), 1), *t = pn_scalar(c, PN_FLOAT64, 0);
    pn_tensor *k = pn_full(c, PN_FLOAT64, SHAPE(1), 0.5), *in[5];
    CHECK(pn_capture_begin(c, 5, (pn_tensor *[]){t, t, y, y, k}, in) == PN_OK);
    pn_tensor *next = pn_add(c, in[3], pn_mul(c, pn_sum(c, in[3], (pn_axes){1, {0}}, 1), in[4]));
    plans p = {.step = pn_capture_end(c, 1, &next)}, apart = make(c);
    pn_tensor *y0 = pn_full(c, PN_FLOAT64, SHAPE(PATHS, 1), 2);
    for (int turn = 0; turn < 2; turn++) {
      CHECK(!solve(c, p, &usual, y0, k));
      CHECK_FAIL(c, PN_STATE, "sde: drift or diffusion makes a path depend on others");
      CHECK(solve(c, apart, &usual, y0, k));
    }
    forget(p);
    forget(apart);
    pn_scope_close(c, mark);
    CHECK(pn_context_objects(c) == 0);
    pn_context_close(c);
  }
}

/* Over no time nothing moves, wherever the path stands, and it goes on as it would have. */
static void still(void) {
  enum { LANES = 5 };
  static const double at[] = {0, 0.3, 1, 1.5, 2.7};
  pn_context *c = pn_context_new(NULL);
  pni_brownian a, b;
  double w[2][LANES], h[2][LANES];
  CHECK(pni_brownian_open(c, &a, 7, 0, 4, 0.25, 2, LANES) == PN_OK);
  CHECK(pni_brownian_open(c, &b, 7, 0, 4, 0.25, 2, LANES) == PN_OK);
  for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
    pni_brownian_seek(&a, at[k]);
    pni_brownian_seek(&b, at[k]);
    for (int i = 0; i < LANES; i++) w[0][i] = h[0][i] = 7;
    pni_brownian_move(&a, at[k], w[0], h[0]);
    for (int i = 0; i < LANES; i++) CHECK(w[0][i] == 0 && h[0][i] == 0);
    pni_brownian_move(&a, 3.2, w[0], h[0]);
    pni_brownian_move(&b, 3.2, w[1], h[1]);
    CHECK(memcmp(w[0], w[1], sizeof w[0]) == 0 && memcmp(h[0], h[1], sizeof h[0]) == 0);
  }
  pni_brownian_close(c, &a);
  pni_brownian_close(c, &b);
  pn_context_close(c);
}

/* Gradients of each path's own k end where those of the last path do, also where its chunk is not full: those of y0 and
 * k, 12 numbers behind a header of 64 bytes, fill a block of 160. */
static void within(void) {
  enum { N = 6 };
  bool kept = true;
  pn_context *c = pn_context_new(&(pn_context_config){.allocate = fenced, .allocator_data = &kept, .threads = 1});
  size_t mark = pn_scope_open(c);
  pn_tensor *t = pn_scalar(c, PN_FLOAT64, 0), *y = pn_full(c, PN_FLOAT64, SHAPE(ROWS, 1), 1), *in[6];
  CHECK(pn_capture_begin(c, 5, (pn_tensor *[]){t, t, y, y, y}, in) == PN_OK);
  pn_tensor *next = pn_add(c, pn_add(c, in[3], in[2]), pn_mul(c, pn_mul(c, in[3], in[4]), in[1]));
  plans p = {.step = pn_capture_end(c, 1, &next)};
  CHECK(pn_capture_begin(c, 6, (pn_tensor *[]){t, t, y, y, y, y}, in) == PN_OK);
  pn_tensor *back[] = {pn_add(c, in[5], pn_mul(c, pn_mul(c, in[5], in[4]), in[1])),
                       pn_mul(c, pn_mul(c, in[5], in[3]), in[1])};
  p.pullback = pn_capture_end(c, 2, back);
  pni_sde_config set = usual;
  set.paths = N;
  pn_tensor *x[] = {pn_param(c, pn_full(c, PN_FLOAT64, SHAPE(N, 1), 2)),
                    pn_param(c, pn_full(c, PN_FLOAT64, SHAPE(N, 1), -0.5))};
  pn_tensor *times = pn_linspace(c, PN_FLOAT64, 0, 3, 4), *none = pn_zeros(c, PN_FLOAT64, SHAPE(0)), *g[2];
  pn_tensor *key = pn_full(c, PN_INT64, SHAPE(1), 5);
  pn_tensor *z = pni_sde_apply(c, p.step, p.pullback, &set, 1, (bool[]){true}, x[0], times, key, none, x[1]);
  CHECK_STATUS(c, pn_grad(c, pn_sum(c, z, PN_ALL, 0), 2, x, 0, g), PN_OK);
  double slope[N]; /* of the sum over times 0, 1, 2, 3 in y0: steps of 1/4 multiply by 1 - 1/8 */
  CHECK(pn_tensor_copy_out(c, g[0], slope, N) == PN_OK);
  for (int i = 0; i < N; i++) CHECK_NEAR(slope[i], 1 + pow(0.875, 4) + pow(0.875, 8) + pow(0.875, 12), 1e-14);
  forget(p);
  pn_scope_close(c, mark);
  pn_context_close(c);
  CHECK(kept);
}

/* ---- steps and solutions, one number at a time ---- */

enum { TIMES = 4, LONGEST = 1000 };

/* The steps of some paths; y and dy/dk at the times. */
typedef struct {
  double t[LONGEST], y[TIMES][PATHS], in_k[TIMES][PATHS];
  int given[TIMES], steps, tried;
} course;

typedef struct {
  const pni_sde_config *set;
  pni_brownian path;
  uint64_t key;
  int dtype, first, n; /* paths */
} walker;

/* w over step number `step`. */
static void motion(walker *a, int step, double t, double end, double *w) {
  double h[PATHS];
  float narrow[PATHS];
  uint64_t from = (uint64_t)(step * PATHS + a->first), to = from + (uint64_t)a->n;
  if (a->set->tree) {
    pni_brownian_seek(&a->path, t);
    pni_brownian_move(&a->path, end, w, h);
    return;
  }
  if (a->dtype == PN_FLOAT64)
    pni_fill_normal_f64(a->key, 0, from, to, w);
  else
    pni_fill_normal_f32(a->key, 0, from, to, narrow);
  for (int i = 0; i < a->n; i++) w[i] = (a->dtype == PN_FLOAT64 ? w[i] : (double)narrow[i]) * sqrt(end - t);
}

/* Euler's step of all paths, and that of dy/dk; in the order of the plan's sums, since steps hang on each bit. */
static void euler(walker *a, int step, double t, double end, double k, double *y, double *in_k) {
  double w[PATHS];
  motion(a, step, t, end, w);
  for (int i = 0; i < a->n; i++) {
    in_k[i] += (end - t) * (y[i] + k * in_k[i]);
    y[i] = y[i] + w[i] + y[i] * k * (end - t);
  }
}

/* The largest difference of a step and its halves, in units of the tolerance; the halves are in y. */
static double halves(walker *a, double t, double middle, double end, double k, double *y, double *in_k) {
  double before[PATHS], once[PATHS], of_once[PATHS], most = 0;
  memcpy(before, y, sizeof before), memcpy(once, y, sizeof once), memcpy(of_once, in_k, sizeof of_once);
  euler(a, 0, t, end, k, once, of_once);
  euler(a, 0, t, middle, k, y, in_k);
  euler(a, 0, middle, end, k, y, in_k);
  for (int i = 0; i < a->n; i++) {
    double e = (y[i] - once[i]) / (a->set->atol + a->set->rtol * fmax(fabs(before[i]), fabs(y[i])));
    most = fmax(most, e * e);
  }
  return sqrt(most);
}

/* Steps of at most set->step, even between the times; or as their error has it: both halves of one whose error is 1 at
 * most, and then as long as an error of order + 1/2 allows, a fifth at least and four times at most. */
static void follow(walker *a, const double *times, const double *y0, double k, course *q) {
  double y[PATHS] = {0}, in_k[PATHS] = {0}, h = a->set->first_step;
  memcpy(y, y0 + a->first, (size_t)a->n * sizeof *y);
  if (h == 0) h = (times[TIMES - 1] - times[0]) / 128;
  q->t[0] = times[0];
  q->steps = q->tried = q->given[0] = 0;
  for (int i = 0; i < TIMES; i++) {
    int even = i ? (int)fmax(ceil((times[i] - times[i - 1]) / a->set->step - 1e-9), 1) : 0;
    for (int j = 1; !a->set->adaptive && j <= even; j++, q->steps++) {
      q->t[q->steps + 1] = j == even ? times[i] : times[i - 1] + (times[i] - times[i - 1]) * ((double)j / even);
      euler(a, q->steps, q->t[q->steps], q->t[q->steps + 1], k, y, in_k);
    }
    while (a->set->adaptive && i && q->t[q->steps] != times[i] && q->steps + 2 < LONGEST) {
      double t = q->t[q->steps], left = times[i] - t, try[2][PATHS];
      if (a->set->step > 0) h = fmin(h, a->set->step);
      double end = h * 1.01 >= left ? times[i] : t + fmin(h, left / 2), middle = t + (end - t) / 2;
      memcpy(try[0], y, sizeof y), memcpy(try[1], in_k, sizeof y);
      double error = halves(a, t, middle, end, k, try[0], try[1]);
      h = (end - t) * fmin(fmax(0.8 * pow(fmax(error, 1e-10), -1 / (a->set->order + 0.5)), 0.2), 4);
      q->tried++;
      if (error > 1) continue;
      memcpy(y, try[0], sizeof y), memcpy(in_k, try[1], sizeof y);
      q->t[++q->steps] = middle;
      q->t[++q->steps] = end;
    }
    q->given[i] = q->steps;
    memcpy(q->y[i], y, sizeof y), memcpy(q->in_k[i], in_k, sizeof y);
  }
}

static void check_chunk(const pni_sde *o, const course *q, int chunk, double rel) {
  const pni_sde_grid *g = o->grid ? &o->grid[chunk] : NULL;
  const int64_t *given = g ? g->given : o->given;
  for (int i = 0; i < TIMES; i++) CHECK_INT(given[i], q->given[i]);
  CHECK_INT(g ? g->steps : o->steps, q->steps);
  for (int j = 0; g && j <= q->steps && j <= g->steps; j++) CHECK_NEAR(g->t[j], q->t[j], rel);
  int64_t room = 62;
  while (room < q->steps) room = 2 * room + 1;
  CHECK(!g || g->room == room);
}

/* What is kept: the states of all steps, or of one in as many as the root of their number. */
static void check_kept(const pni_sde *o) {
  int64_t span = o->set.gradient == PNI_SDE_GRAPH ? 1 : (int64_t)ceil(sqrt((double)o->steps));
  int64_t slots = (o->steps + span - 1) / span, item = o->dtype == PN_FLOAT64 ? 8 : 4;
  if (o->set.adaptive) {
    CHECK(!o->kept && o->kept_bytes == 0);
    return;
  }
  CHECK_INT(o->kept_slots, slots);
  CHECK_INT(o->kept_bytes, o->chunks * slots * o->set.rows * item);
}

static void by_hand(const pni_sde_config *set, int dtype, int threads, double step) {
  static const double at[TIMES] = {0, 1, 2, 3}, start[PATHS] = {2, -1, 0.5, 3, 1, -2, 4, 0, 1.5, -0.5};
  pn_context *c = pn_context_new(&(pn_context_config){.threads = threads});
  size_t mark = pn_scope_open(c);
  plans p = make_of(c, (pn_dtype)dtype, set->rows);
  pni_sde_config s = *set;
  s.step = step;
  pn_tensor *y0 = pn_cast(c, pn_from_data(c, PN_FLOAT64, SHAPE(PATHS, 1), start), (pn_dtype)dtype), *g;
  pn_tensor *k = pn_param(c, pn_full(c, (pn_dtype)dtype, SHAPE(1), -0.5)), *y = solve(c, p, &s, y0, k);
  CHECK(y != NULL);
  const pni_sde *o = y ? pni_in(y, 3)->storage->data : NULL;
  CHECK(!o || !s.own_start || o->set.tolerance == 0x1p-23); /* of 3, the power of 2 below by 2^24 */
  double rel = dtype == PN_FLOAT64 ? 1e-11 : 1e-5, slope = 0;
  int tried = 0;
  static course q;
  for (int chunk = 0; o && chunk < o->chunks; chunk++) {
    walker a = {.set = &o->set, .key = o->key, .dtype = dtype, .first = chunk * (int)s.rows, .n = (int)s.rows};
    if (a.first + a.n > PATHS) a.n = PATHS - a.first;
    if (s.tree)
      CHECK_STATUS(c,
                   pni_brownian_open(c, &a.path, o->key, s.own_start ? 0 : s.start, 3, o->set.tolerance, a.first, a.n),
                   PN_OK);
    follow(&a, at, start, -0.5, &q);
    check_chunk(o, &q, chunk, rel);
    for (int i = 0; i < TIMES; i++)
      for (int j = 0; j < a.n; j++) {
        slope += q.in_k[i][j] * (i + 1);
        CHECK_NEAR(pni_element(y, i * PATHS + a.first + j), q.y[i][j],
                   q.y[i][j] == 0 ? rel : rel * (1 + 3 / fabs(q.y[i][j])));
      }
    if (q.tried > tried) tried = q.tried;
    if (s.tree) pni_brownian_close(c, &a.path);
  }
  if (o) {
    pn_tensor *weight = pn_cast(c, pn_reshape(c, pn_arange(c, PN_FLOAT64, 1, 5, 1), SHAPE(4, 1, 1)), (pn_dtype)dtype);
    check_kept(o);
    CHECK_STATUS(c, pn_grad(c, pn_sum(c, pn_mul(c, y, weight), PN_ALL, 0), 1, &k, 0, &g), PN_OK);
    CHECK_NEAR(pni_element(g, 0), slope, rel * 100);
    if (o->kept) { /* what is kept serves again */
      pni_sde_put(o, o->kept, 1, &(double){NAN}, 1);
      CHECK(pn_grad(c, pn_sum(c, y, PN_ALL, 0), 1, &k, 0, &g) || isnan(pni_element(g, 0)));
      pn_context_clear_error(c);
    }
  }
  s.max_steps = s.adaptive ? tried : q.steps;
  CHECK(solve(c, p, &s, y0, k));
  s.max_steps--;
  REFUSED(PN_DOMAIN, solve(c, p, &s, y0, k));
  forget(p);
  pn_scope_close(c, mark);
  CHECK(pn_context_objects(c) == 0);
  pn_context_close(c);
}

static void courses(void) {
  for (int way = 0; way < 24; way++) {
    pni_sde_config set = usual;
    set.gradient = way % 2 ? PNI_SDE_CHECKPOINTS : PNI_SDE_GRAPH;
    set.rows = way / 2 % 2 ? PATHS : ROWS;
    set.tree = way / 4 % 3 > 0;
    set.tolerance = 0x1p-20;
    set.start = -1.5;
    by_hand(&set, way / 12 ? PN_FLOAT32 : PN_FLOAT64, 1 + way % 2, way % 3 ? 0.25 : 0.023);
    if (way / 4 % 3 < 2 || way / 12) continue;
    set.adaptive = true;
    set.rtol = 0.02, set.atol = 0.003, set.order = 1;
    set.own_start = way % 2;
    by_hand(&set, PN_FLOAT64, 1 + way % 2, 0);
    set.first_step = 2;
    set.order = 1.5;
    by_hand(&set, PN_FLOAT64, 1, 0.3);
    set.own_start = false;
    set.start = 0, set.tolerance = 0.5, set.rtol = 1e3, set.first_step = 1;
    by_hand(&set, PN_FLOAT64, 1, 1); /* halves as short as a cell of the path */
  }
}

/* Steps that do nothing: the limit of time is looked at between them. What is not finite is named by its element and
 * path, whether it is so at first or becomes so. */
static void named(void) {
  enum { TWO = 2 };
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  pn_tensor *t = pn_scalar(c, PN_FLOAT64, 0), *y = pn_full(c, PN_FLOAT64, SHAPE(ROWS, TWO), 1), *in[5];
  pn_tensor *k = pn_full(c, PN_FLOAT64, SHAPE(1), 1), *w = pn_full(c, PN_FLOAT64, SHAPE(ROWS, 1), 1);
  plans p = {NULL, NULL}, roots = {NULL, NULL};
  CHECK_STATUS(c, pn_capture_begin(c, 5, (pn_tensor *[]){t, t, w, y, k}, in), PN_OK);
  p.step = pn_capture_end(c, 1, &in[3]);
  CHECK_STATUS(c, pn_capture_begin(c, 5, (pn_tensor *[]){t, t, w, y, k}, in), PN_OK);
  roots.step = pn_capture_end(c, 1, (pn_tensor *[]){pn_sqrt(c, pn_sub(c, in[3], in[1]))});
  for (int64_t i = 0; i < PATHS * TWO; i++) {
    char text[80];
    double start[PATHS * TWO];
    for (int64_t j = 0; j < PATHS * TWO; j++) start[j] = j < i ? 2 : NAN;
    snprintf(text, sizeof text, "sde: y0 must be finite, element %d of path %d is not", (int)i % TWO + 1,
             (int)i / TWO + 1);
    CHECK(!solve(c, p, &usual, pn_from_data(c, PN_FLOAT64, SHAPE(PATHS, TWO), start), k));
    CHECK_FAIL(c, PN_NAN, text);
    start[i] = 0.1;
    for (int64_t j = i + 1; j < PATHS * TWO; j++) start[j] = 2;
    snprintf(text, sizeof text, "after the step from t = 0 to 0.25: element %d of path %d", (int)i % TWO + 1,
             (int)i / TWO + 1);
    CHECK(!solve(c, roots, &usual, pn_from_data(c, PN_FLOAT64, SHAPE(PATHS, TWO), start), k));
    CHECK_FAIL(c, PN_NAN, text);
  }
  for (int adaptive = 0; adaptive < 2; adaptive++) {
    pni_sde_config set = usual;
    set.step = 1e-9, set.max_steps = (int64_t)1 << 40;
    set.tree = set.adaptive = adaptive;
    set.rtol = set.atol = set.order = 1, set.tolerance = 0x1p-40;
    pn_context_set_deadline(c, 0.01);
    CHECK(!solve(c, p, &set, pn_full(c, PN_FLOAT64, SHAPE(PATHS, TWO), 1), k));
    CHECK_INT(pn_context_status(c), PN_TIME);
    pn_context_set_deadline(c, 0);
    pn_context_clear_error(c);
  }
  forget(p);
  forget(roots);
  pn_scope_close(c, mark);
  pn_context_close(c);
}

/* ---- Brownian paths ---- */

enum { POINTS = 24, SLICE = 11 };

/* w and the integral of the path over its start, from s to t. */
static void over(pni_brownian *b, double s, double t, double *w, double *integral) {
  pni_brownian_seek(b, s);
  pni_brownian_move(b, t, w, integral);
  for (int i = 0; i < SLICE; i++) integral[i] = (t - s) * (w[i] / 2 + integral[i]);
}

/* Intervals that follow one another add up, many ends in one cell or at its bounds; backwards they are the same bits,
 * and lanes those of a wider path. */
static void adds_up(void) {
  static const double at[POINTS] = {0, 0.01, 0.02, 0.1,  0.125, 0.2, 0.25, 0.26, 0.4,  0.75, 0.8, 0.99,
                                    1, 1.01, 1.2,  1.25, 1.3,   1.9, 2,    2.1,  3.99, 4,    9.3, 9.4};
  pn_context *c = pn_context_new(NULL);
  pni_brownian b, wide;
  CHECK_STATUS(c, pni_brownian_open(c, &b, 7, -3, 7, 0.3, 2, SLICE), PN_OK);
  CHECK_STATUS(c, pni_brownian_open(c, &wide, 7, -3, 7, 0.25, 0, SLICE + 4), PN_OK);
  double w[3][SLICE], a[3][SLICE], more[2][SLICE + 4];
  for (int i = 0; i < POINTS; i++)
    for (int j = i + 1; j < POINTS; j++) {
      double s = at[i] - 3, t = at[j] - 3;
      over(&b, s, t, w[0], a[0]);
      pni_brownian_move(&b, s, w[1], a[1]);
      pni_brownian_seek(&wide, t);
      pni_brownian_move(&wide, s, more[0], more[1]);
      for (int k = 0; k < SLICE; k++)
        CHECK(w[0][k] == w[1][k] && w[1][k] == more[0][k + 2] && a[1][k] == more[1][k + 2]);
      for (int l = j + 1; l < POINTS; l++) {
        double u = at[l] - 3;
        over(&b, t, u, w[1], a[1]);
        over(&b, s, u, w[2], a[2]);
        for (int k = 0; k < SLICE; k++)
          CHECK(fabs(w[0][k] + w[1][k] - w[2][k]) < 1e-13 &&
                fabs(a[0][k] + a[1][k] + w[0][k] * (u - t) - a[2][k]) < 1e-12);
      }
    }
  pni_brownian_close(c, &b);
  pni_brownian_close(c, &wide);
  pn_context_close(c);
}

/* Cells are of the power of 2 at or below the tolerance; the last octave has `room` generations, 60 at most. */
static void cells(void) {
  static const struct {
    double start, end, tolerance, cell;
    int room;
  } all[] = {{0, 4, 0.25, 0.25, 5},   {0, 3.9, 0.25, 0.25, 4}, {1, 5, 0.49, 0.25, 5},
             {0, 1, 1, 1, 1},         {0, 0.5, 8, 8, 1},       {0, 0.5, 0.25, 0.25, 3},
             {0, 2, 0.5, 0.5, 3},     {2, 2, 0.5, 0.5, 2},     {0, 0.5, 0x1p-59, 0x1p-59, 60},
             {0, 0.5, 0x1p-60, 0, 0}, {0, 0x1p59, 1, 1, 60},   {0, 0x1p60, 1, 0, 0},
             {0, -1, 1, 0, 0},        {0, INFINITY, 1, 0, 0},  {NAN, 1, 1, 0, 0}};
  pn_context *c = pn_context_new(NULL);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    pni_brownian b;
    bool fits = pni_brownian_open(c, &b, 7, all[i].start, all[i].end, all[i].tolerance, 0, 2) == PN_OK;
    if (fits != (all[i].room > 0) || (fits && (b.room != all[i].room || b.tolerance != all[i].cell)))
      printf("path %zu: %d, %d generations of %g\n", i, fits, b.room, b.tolerance);
    CHECK(fits == (all[i].room > 0) && (!fits || (b.room == all[i].room && b.tolerance == all[i].cell)));
    if (!fits) CHECK_FAIL(c, PN_DOMAIN, "are too many cells of the length");
    pni_brownian_close(c, &b);
  }
  pn_context_close(c);
}

int main(void) {
  courses();
  named();
  adds_up();
  cells();
  misuse();
  ranges();
  altered();
  padded();
  still();
  within();
  coupled();
  copies(true);
  copies(false);
  steady();
  memory();
  ends();
  sweep("sde", work, &usual);
  sweep_threads("sde in threads", work, &usual, 2);
  pni_sde_config set = usual;
  set.gradient = PNI_SDE_CHECKPOINTS;
  set.tree = true;
  set.tolerance = 0.01;
  sweep("sde on a path", work, &set);
  set.adaptive = set.own_start = true;
  set.rtol = set.atol = 0.5;
  set.order = 1;
  set.step = 0;
  sweep("sde by adaptive steps", work, &set);
  CHECK_DONE();
}
