/* sweep_gaussian_test.c: whole sequences of Kalman steps survive the failure of each of their allocations. */
#include "alloc_sweep.h"

enum { T = 3, B = 2, N = 2, P = 1 };

typedef struct {
  pn_kalman_system s;
  pn_tensor *y, *observed;
} series;

static pn_tensor *ones(pn_context *c, int64_t n, double x) {
  return pn_mul(c, pn_eye(c, PN_FLOAT64, n, n), pn_scalar(c, PN_FLOAT64, x));
}

static bool make(pn_context *c, series *x) {
  const int64_t y[] = {T, B, P}, a[] = {B, N, N}, p[] = {T, 1, P};
  x->s = (pn_kalman_system){.mean = pn_zeros(c, PN_FLOAT64, 1, &a[1]),
                            .cov = ones(c, N, 1),
                            .a = pn_param(c, pn_randn(c, NULL, PN_FLOAT64, 3, a)),
                            .q = pn_param(c, ones(c, N, 0.5)),
                            .c = pn_full(c, PN_FLOAT64, 2, (const int64_t[]){P, N}, 1),
                            .d = pn_param(c, pn_randn(c, NULL, PN_FLOAT64, 3, p)),
                            .r = ones(c, P, 0.3)};
  x->y = pn_randn(c, NULL, PN_FLOAT64, 3, y);
  x->observed = x->y ? pn_gt(c, x->y, pn_scalar(c, PN_FLOAT64, -1)) : NULL;
  return x->observed && x->s.r && x->s.d;
}

static bool filter(pn_context *c, const void *data) {
  series x;
  pn_kalman k, root;
  (void)data;
  if (!make(c, &x) || pn_kalman_filter(c, &x.s, x.y, x.observed, &k)) return false;
  pn_tensor *sum = pn_add(c, pn_sum(c, k.mean, PN_ALL, 0), pn_sum(c, k.log_prob, PN_ALL, 0)), *slope;
  if (!sum || pn_grad(c, sum, 1, &x.s.a, 1, &slope)) return false; /* by single steps */
  if (pn_backward(c, pn_sum(c, pn_square(c, slope), PN_ALL, 0))) return false;
  return pn_kalman_root_filter(c, &x.s, x.y, NULL, &root) == PN_OK;
}

static bool density(pn_context *c, const void *data) {
  series x;
  (void)data;
  if (!make(c, &x)) return false;
  pn_tensor *log_prob = pn_kalman_log_prob(c, &x.s, x.y, x.observed), *slope;
  pn_tensor *sum = log_prob ? pn_sum(c, log_prob, PN_ALL, 0) : NULL;
  if (!sum || pn_grad(c, sum, 1, &x.s.d, 1, &slope)) return false;
  return pn_backward(c, sum) == PN_OK;
}

static bool propagate(pn_context *c, const void *data) {
  int reverse = *(const int *)data;
  series x;
  pn_tensor *mean, *cov, *slope;
  if (!make(c, &x)) return false;
  const int64_t batch[] = {B, N};
  x.s.mean = pn_zeros(c, PN_FLOAT64, 2, batch);
  if (pn_kalman_propagate(c, T, reverse, x.s.mean, x.s.cov, x.s.a, NULL, x.s.q, &mean, &cov)) return false;
  pn_tensor *sum = pn_add(c, pn_sum(c, mean, PN_ALL, 0), pn_sum(c, cov, PN_ALL, 0));
  if (!sum || pn_grad(c, sum, 1, &x.s.q, 1, &slope)) return false;
  return pn_backward(c, sum) == PN_OK;
}

static bool path(pn_context *c, const void *data) {
  series x;
  (void)data;
  if (!make(c, &x)) return false;
  const int64_t mean[] = {B, N}, offset[] = {T, B, N};
  pn_tensor *first = pn_param(c, pn_randn(c, NULL, PN_FLOAT64, 2, mean));
  pn_tensor *steps = pn_randn(c, NULL, PN_FLOAT64, 3, offset), *a = pn_unsqueeze(c, x.s.a, 0);
  pn_tensor *y = first && steps && a ? pn_kalman_path(c, 1, first, a, steps) : NULL;
  return y && pn_backward(c, pn_sum(c, y, PN_ALL, 0)) == PN_OK;
}

/* What Lua never asks for, and what is empty. */
static void edges(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  series x;
  pn_kalman k;
  pn_tensor *mean, *cov, *slope;
  CHECK(make(c, &x));
  pn_kalman_system bad = x.s;
  bad.a = NULL;
  CHECK(pn_kalman_filter(c, &bad, x.y, NULL, &k) == PN_STATE);
  pn_context_clear_error(c);
  bad = x.s;
  bad.q = x.y;
  CHECK(pn_kalman_filter(c, &bad, x.y, NULL, &k) == PN_SHAPE);
  pn_context_clear_error(c);
  CHECK(!pn_kalman_log_prob(c, &x.s, x.y, x.y) && pn_context_status(c) == PN_DTYPE);
  pn_context_clear_error(c);
  CHECK(!pn_kalman_log_prob(c, &x.s, x.s.mean, NULL) && pn_context_status(c) == PN_SHAPE);
  pn_context_clear_error(c);
  bad = x.s;
  bad.d = pn_zeros(c, PN_FLOAT64, 3, (const int64_t[]){T + 1, 1, P});
  CHECK(!pn_kalman_log_prob(c, &bad, x.y, NULL) && pn_context_status(c) == PN_SHAPE);
  pn_context_clear_error(c);
  CHECK(pn_kalman_propagate(c, -1, 0, x.s.mean, x.s.cov, x.s.a, NULL, x.s.q, &mean, &cov) == PN_DOMAIN);
  pn_context_clear_error(c);
  CHECK(pn_kalman_propagate(c, 1, 0, x.s.mean, x.s.cov, x.s.a, NULL, x.s.q, &mean, &cov) == PN_SHAPE);
  pn_context_clear_error(c);
  CHECK(!pn_kalman_path(c, 0, x.s.mean, x.s.a, NULL) && pn_context_status(c) == PN_STATE);
  pn_context_clear_error(c);
  CHECK(!pn_kalman_path(c, 0, x.s.mean, x.s.a, x.y) && pn_context_status(c) == PN_SHAPE);
  pn_context_clear_error(c);
  pn_tensor *none = pn_zeros(c, PN_FLOAT64, 3, (const int64_t[]){T, 0, P});
  bad = x.s;
  bad.a = pn_param(c, ones(c, N, 1));
  bad.d = NULL;
  CHECK(pn_kalman_filter(c, &bad, none, NULL, &k) == PN_OK && pn_tensor_numel(k.mean) == 0);
  CHECK(pn_grad(c, pn_sum(c, k.log_prob, PN_ALL, 0), 1, &bad.a, 0, &slope) == PN_OK);
  CHECK(pn_kalman_propagate(c, 0, 0, x.s.mean, x.s.cov, bad.a, NULL, x.s.q, &mean, &cov) == PN_OK);
  CHECK(pn_tensor_numel(cov) == 0);
  pn_scope_close(c, mark);
  CHECK(pn_context_objects(c) == 0);
  pn_context_close(c);
}

/* A single series, which no two threads share, stops in its middle when time is over. */
static void stops(void) {
  enum { LONG = 1000000 };
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  const int64_t shape[] = {LONG, 1};
  pn_tensor *one = ones(c, 1, 1), *y = pn_zeros(c, PN_FLOAT64, 2, shape);
  pn_kalman_system s = {.mean = pn_select(c, one, 0, 0), .cov = one, .a = one, .q = one, .c = one, .r = one};
  pn_kalman k = {0};
  pn_context_set_deadline(c, 1e-3);
  CHECK(pn_kalman_filter(c, &s, y, NULL, &k) == PN_TIME && !k.mean);
  pn_context_set_deadline(c, 0);
  pn_context_clear_error(c);
  CHECK(pn_kalman_filter(c, &s, y, NULL, &k) == PN_OK && pn_tensor_numel(k.mean) == LONG);
  pn_scope_close(c, mark);
  pn_context_close(c);
}

int main(void) {
  const int forward = 0, backward = 1;
  edges();
  stops();
  sweep("kalman_filter", filter, NULL);
  sweep("kalman_log_prob", density, NULL);
  sweep("kalman_path", path, NULL);
  sweep("kalman_propagate", propagate, &forward);
  sweep("kalman_propagate, reverse", propagate, &backward);
  CHECK_DONE();
}
