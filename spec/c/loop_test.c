/*
** loop_test.c: loops of plans from C: the bits of eager calls, forwards and in gradients; copies for other contexts; no
** allocation per replay; failures and cancellation between turns; failure of every allocation.
*/
#include <math.h>
#include "alloc_sweep.h"

enum { TURNS = 50 };

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

/* h_t = tanh(A h_(t-1) + b x_t c_t + noise), with other constants c_t at each turn; the sum of squares, its gradient in
 * b and the last h. Each turn checks that x_t is positive. */
static bool work_on(pn_context *c, pn_tensor *b, pn_tensor *x, pn_tensor **out) {
  pn_tensor *h = pn_full(c, PN_FLOAT64, SHAPE(3), 0.5), *a = pn_full(c, PN_FLOAT64, SHAPE(3, 3), 0.2);
  pn_tensor *loss = pn_scalar(c, PN_FLOAT64, 0);
  for (int t = 0; t < TURNS; t++) {
    pn_tensor *scale = pn_scalar(c, PN_FLOAT64, 1 + 0.01 * t), *noise = pn_randn(c, NULL, PN_FLOAT64, SHAPE(3));
    pn_tensor *rate = pn_select(c, x, 0, t), *zero = pn_scalar(c, PN_FLOAT64, 0);
    pn_dist *law = pn_dist_new(c, "normal", 2, NULL, (pn_tensor *[]){zero, rate});
    loss = pn_add(c, loss, pn_sum(c, pn_dist_log_prob(c, law, h), PN_ALL, 0));
    pn_dist_unref(law);
    pn_tensor *drive = pn_mul(c, pn_mul(c, b, rate), scale);
    h = pn_tanh(c, pn_add(c, pn_matmul(c, a, h), pn_add(c, drive, noise)));
    loss = pn_add(c, loss, pn_sum(c, pn_square(c, h), PN_ALL, 0));
  }
  out[0] = loss;
  out[1] = h;
  return loss && h && pn_grad(c, loss, 1, &b, 0, &out[2]) == PN_OK;
}

static pn_tensor *weight(pn_context *c) { return pn_param(c, pn_full(c, PN_FLOAT64, SHAPE(3), 0.3)); }

static pn_tensor *input(pn_context *c, double first) {
  double v[TURNS];
  for (int t = 0; t < TURNS; t++) v[t] = first + 0.1 * t;
  return pn_from_data(c, PN_FLOAT64, SHAPE(TURNS), v);
}

static pn_plan *capture(pn_context *c, pn_tensor *b) {
  pn_tensor *x = input(c, 1), *in, *out[3] = {NULL};
  if (!b || !x || pn_capture_begin(c, 1, &x, &in)) return NULL;
  work_on(c, b, in, out);
  return pn_capture_end(c, 3, out);
}

static bool equal(const pn_tensor *a, const pn_tensor *b) {
  return a && b && pn_tensor_numel(a) == pn_tensor_numel(b) &&
         memcmp(pn_tensor_data(a), pn_tensor_data(b), (size_t)pn_tensor_numel(a) * sizeof(double)) == 0;
}

/* A replay of p on an input, against an eager call in the context e, from the same seed. */
static void check_same(pn_context *c, pn_plan *p, pn_context *e, pn_tensor *b, double first) {
  size_t mark = pn_scope_open(c), emark = pn_scope_open(e);
  pn_tensor *x = input(c, first), *out[3], *want[3];
  pn_seed(c, 5);
  pn_seed(e, 5);
  CHECK_STATUS(c, pn_plan_run(c, p, 1, &x, out), PN_OK);
  CHECK(work_on(e, b, input(e, first), want));
  for (int k = 0; k < 3; k++) CHECK(equal(out[k], want[k]));
  pn_scope_close(c, mark);
  pn_scope_close(e, emark);
}

static void same_bits(void) {
  pn_context *c = pn_context_new(NULL), *e = pn_context_new(NULL), *d = pn_context_new(NULL);
  size_t mark = pn_scope_open(c), emark = pn_scope_open(e);
  pn_plan *p = capture(c, weight(c)), *copy = pn_plan_copy(d, p), *again = pn_plan_copy(c, copy);
  CHECK(pn_plan_num_loops(p) >= 2);
  CHECK(pn_plan_num_steps(p) < TURNS);
  CHECK_INT(pn_plan_num_loops(copy), pn_plan_num_loops(p));
  CHECK_INT(pn_plan_num_steps(again), pn_plan_num_steps(p));
  for (int k = 1; k < 4; k++) {
    check_same(c, p, e, weight(e), k);
    check_same(d, copy, e, weight(e), k);
    check_same(c, again, e, weight(e), k);
  }
  pn_plan_unref(p);
  pn_plan_unref(copy);
  pn_plan_unref(again);
  pn_scope_close(c, mark);
  pn_scope_close(e, emark);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  pn_context_close(d);
  pn_context_close(e);
}

/* A turn that fails leaves the generator where it was, and the plan as it was. */
static void failure(void) {
  pn_context *c = pn_context_new(NULL), *e = pn_context_new(NULL);
  size_t mark = pn_scope_open(c), emark = pn_scope_open(e);
  pn_plan *p = capture(c, weight(c));
  for (int at = 0; at < TURNS; at++) {
    double v[TURNS];
    for (int t = 0; t < TURNS; t++) v[t] = t == at ? -1 : 1;
    pn_tensor *x = pn_from_data(c, PN_FLOAT64, SHAPE(TURNS), v), *out[3];
    pn_seed(c, 5);
    uint64_t before[2], after[2];
    pn_rng_get_state(pn_context_rng(c), before);
    CHECK_STATUS(c, pn_plan_run(c, p, 1, &x, out), PN_DOMAIN);
    pn_context_clear_error(c);
    pn_rng_get_state(pn_context_rng(c), after);
    CHECK(memcmp(before, after, sizeof before) == 0);
  }
  check_same(c, p, e, weight(e), 2);
  pn_context_cancel(c);
  pn_tensor *x = input(c, 1), *out[3];
  CHECK_STATUS(c, pn_plan_run(c, p, 1, &x, out), PN_CANCELLED);
  pn_context_clear_error(c);
  pn_context_uncancel(c);
  check_same(c, p, e, weight(e), 3);
  pn_plan_unref(p);
  pn_scope_close(c, mark);
  pn_scope_close(e, emark);
  pn_context_close(c);
  pn_context_close(e);
}

static void no_allocation(void) {
  sweep_memory mem = {0};
  pn_context *c =
      pn_context_new(&(pn_context_config){.allocate = sweep_allocate, .allocator_data = &mem, .threads = 1});
  size_t mark = pn_scope_open(c);
  pn_plan *p = capture(c, weight(c));
  pn_tensor *x = input(c, 1), *out[3];
  long before = 0;
  for (int k = 0; k < 100; k++) {
    if (k == 5) before = mem.requests;
    size_t inner = pn_scope_open(c);
    CHECK(pn_plan_run(c, p, 1, &x, out) == PN_OK);
    pn_scope_close(c, inner);
  }
  CHECK_INT(mem.requests - before, 0);
  pn_plan_unref(p);
  pn_scope_close(c, mark);
  pn_context_close(c);
  CHECK_INT(mem.blocks, 0);
}

static bool sweep_loop(pn_context *c, const void *data) {
  (void)data;
  pn_plan *p = capture(c, weight(c)), *copy = p ? pn_plan_copy(c, p) : NULL;
  pn_tensor *x = input(c, 1), *out[3];
  bool done = copy && x && pn_plan_run(c, p, 1, &x, out) == PN_OK && pn_plan_run(c, copy, 1, &x, out) == PN_OK;
  pn_plan_unref(p);
  pn_plan_unref(copy);
  return done;
}

int main(void) {
  same_bits();
  failure();
  no_allocation();
  sweep("loops", sweep_loop, NULL);
  CHECK_DONE();
}
