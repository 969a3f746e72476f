/*
** kalman.c: a step of the Kalman filter, 3200 filters that share a, b, q, c, d and r: nanoseconds per filter on one
** thread, forward, and with the gradients of all eight operands and y from those of mean, covariance and density. In
** one pass, and by a predict and an update.
*/
#include <stdio.h>
#include "../../src/autodiff/op/op.h"
#include "../../src/tensor/product/blas.h"

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

typedef pn_tensor T;
typedef pn_context C;

enum { OPERANDS = 9 };

/* mean, cov, a, b, q, y, c, d, r */
static void make(C *c, pn_dtype dtype, int64_t batch, int64_t n, int64_t p, T **x) {
  T *small = pn_scalar(c, dtype, 0.3), *eye = pn_eye(c, dtype, n, n);
  T *given[] = {pn_randn(c, NULL, dtype, SHAPE(batch, n)),
                pn_add(c, pn_zeros(c, dtype, SHAPE(batch, 1, 1)), eye),
                pn_mul(c, pn_randn(c, NULL, dtype, SHAPE(n, n)), small),
                pn_randn(c, NULL, dtype, SHAPE(n)),
                eye,
                pn_randn(c, NULL, dtype, SHAPE(batch, p)),
                pn_randn(c, NULL, dtype, SHAPE(p, n)),
                pn_randn(c, NULL, dtype, SHAPE(p)),
                pn_eye(c, dtype, p, p)};
  for (int k = 0; k < OPERANDS; k++) x[k] = pn_param(c, given[k]);
}

static pn_status forward(C *c, T *const *x, bool pass, pn_kalman *u) {
  T *mean, *cov;
  if (pass) return pn_kalman_step(c, x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], NULL, u);
  pn_status s = pn_kalman_predict(c, x[0], x[1], x[2], x[3], x[4], &mean, &cov);
  return s ? s : pn_kalman_update(c, mean, cov, x[5], x[6], x[7], x[8], NULL, 0, u);
}

static void step(C *c, T *const *x, bool pass, int gradient) {
  size_t mark = pn_scope_open(c);
  T *g[OPERANDS];
  pn_kalman u;
  int old = pn_set_no_grad(c, !gradient);
  if (forward(c, x, pass, &u) == PN_OK && gradient) {
    T *loss = pn_add(c, pn_sum(c, u.mean, PN_ALL, 0), pn_sum(c, u.cov, PN_ALL, 0));
    pn_grad(c, pn_add(c, loss, pn_sum(c, u.log_prob, PN_ALL, 0)), OPERANDS, x, 0, g);
  }
  pn_set_no_grad(c, old);
  pn_scope_close(c, mark);
}

/* Nanoseconds per filter, the best of several rounds. */
static double measure(C *c, T *const *x, int64_t batch, bool pass, int gradient) {
  double best = 1e30;
  int64_t calls = 5 + 4000 / batch;
  for (int round = 0; round < 40; round++) {
    int64_t start = pni_now();
    for (int64_t k = 0; k < calls; k++) step(c, x, pass, gradient);
    double ns = (double)(pni_now() - start) / (double)(calls * batch);
    if (ns < best) best = ns;
  }
  return best;
}

/* The filter on roots: of the unit matrices that the covariances are, the same ones. */
static double measure_roots(C *c, T *const *x, int64_t batch) {
  double best = 1e30;
  int old = pn_set_no_grad(c, 1);
  for (int round = 0; round < 20; round++) {
    int64_t start = pni_now();
    for (int k = 0; k < 5; k++) {
      size_t mark = pn_scope_open(c);
      T *mean, *l;
      pn_kalman u;
      if (pn_kalman_root_predict(c, x[0], x[1], x[2], x[3], x[4], &mean, &l) == PN_OK)
        pn_kalman_root_update(c, mean, l, x[5], x[6], x[7], x[8], NULL, &u);
      pn_scope_close(c, mark);
    }
    double ns = (double)(pni_now() - start) / (5.0 * (double)batch);
    if (ns < best) best = ns;
  }
  pn_set_no_grad(c, old);
  return best;
}

static void report(C *c, pn_dtype dtype, int64_t batch, int64_t n, int64_t p) {
  size_t mark = pn_scope_open(c);
  T *x[OPERANDS];
  make(c, dtype, batch, n, p, x);
  for (int pass = 1; pass >= 0; pass--)
    for (int k = 0; k < 2; k++)
      printf("Kalman %s, state %lld, observation %lld, %lld %s%s\t%.1f\tns\t\n", pass ? "step" : "predict and update",
             (long long)n, (long long)p, (long long)batch, pn_dtype_name(dtype), k ? ", with gradient" : "",
             measure(c, x, batch, pass, k));
  if (batch > 100)
    printf("Kalman predict and update on roots, state %lld, observation %lld, %lld %s\t%.1f\tns\t\n", (long long)n,
           (long long)p, (long long)batch, pn_dtype_name(dtype), measure_roots(c, x, batch));
  pn_scope_close(c, mark);
}

int main(void) {
  C *c = pn_context_new(&(pn_context_config){.seed = 1, .threads = 1});
  pni_blas_single_thread();
  report(c, PN_FLOAT64, 3200, 4, 2);
  report(c, PN_FLOAT64, 3200, 10, 4);
  report(c, PN_FLOAT32, 3200, 4, 2);
  report(c, PN_FLOAT32, 3200, 10, 4);
  report(c, PN_FLOAT64, 1, 4, 2);
  report(c, PN_FLOAT64, 100, 4, 2);
  if (pn_context_status(c)) printf("%s\n", pn_context_message(c));
  pn_context_close(c);
  return 0;
}
