/*
** threads.c: work on 10^6 elements on one thread and on all of the machine's, wall clock. The results are the same
** bits; the program fails if they are not.
*/
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "../../src/autodiff/op/op.h"
#include "../../src/tensor/product/blas.h"

typedef pn_tensor T;
typedef pn_context C;

enum { N = 1000000, SIDE = 768, ROUNDS = 9, MATRIX = 4, MATRICES = 100000 };

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

static T *exponentials(C *c, T *x, T *m) { return (void)m, pn_exp(c, x); }
static T *log_gammas(C *c, T *x, T *m) { return (void)m, pn_lgamma(c, x); }
static T *sums(C *c, T *x, T *m) { return (void)m, pn_sum(c, x, PN_ALL, 0); }
static T *normals(C *c, T *x, T *m) { return (void)x, (void)m, pn_randn(c, NULL, PN_FLOAT64, SHAPE(N)); }
static T *gammas(C *c, T *x, T *m) { return (void)m, pn_log_gamma_draw(c, NULL, x); }
static T *product(C *c, T *x, T *m) { return (void)x, pn_matmul(c, m, m); }
static T *factors(C *c, T *x, T *m) {
  T *eye = pn_eye(c, PN_FLOAT64, MATRIX, MATRIX);
  (void)m;
  return pn_cholesky(c, pn_add(c, pn_reshape(c, pn_slice(c, x, 0, 0, MATRICES, 1), SHAPE(MATRICES, 1, 1)), eye));
}

static const struct {
  const char *name;
  T *(*f)(C *c, T *x, T *m);
} rows[] = {{"exp of 10^6", exponentials},    {"log-gamma of 10^6", log_gammas}, {"sum of 10^6", sums},
            {"10^6 normals", normals},        {"10^6 gamma draws", gammas},      {"product of 768x768", product},
            {"Cholesky of 10^5 4x4", factors}};
enum { ROWS = sizeof rows / sizeof *rows };

/* FNV-1a of the result. */
static uint64_t digest(const T *t) {
  const unsigned char *p = pni_data(t);
  uint64_t h = 14695981039346656037u;
  for (size_t i = 0; i < (size_t)t->numel * pni_itemsize(t); i++) h = (h ^ p[i]) * 1099511628211u;
  return h;
}

/* Milliseconds of each row and the digest of its first result. */
static int measure(int threads, double *ms, uint64_t *sum) {
  C *c = pn_context_new(&(pn_context_config){.seed = 1, .threads = threads});
  if (!c) return 1;
  pni_blas_single_thread();
  T *x = pn_add(c, pn_rand(c, NULL, PN_FLOAT64, SHAPE(N)), pn_scalar(c, PN_FLOAT64, 0.5));
  T *m = pn_randn(c, NULL, PN_FLOAT64, SHAPE(SIDE, SIDE));
  for (int k = 0; k < ROWS; k++) {
    ms[k] = 1e30;
    for (int round = 0; round < ROUNDS; round++) {
      size_t mark = pn_scope_open(c);
      int64_t start = pni_now();
      T *y = rows[k].f(c, x, m);
      double spent = 1e-6 * (double)(pni_now() - start);
      if (round == 0) sum[k] = y ? digest(y) : 0;
      if (spent < ms[k]) ms[k] = spent;
      pn_scope_close(c, mark);
    }
  }
  int bad = pn_context_status(c) != PN_OK;
  if (bad) fprintf(stderr, "%s\n", pn_context_message(c));
  pn_context_close(c);
  return bad;
}

int main(void) {
  int all = (int)sysconf(_SC_NPROCESSORS_ONLN), bad = 0;
  double ms[2][ROWS];
  uint64_t sum[2][ROWS];
  if (measure(1, ms[0], sum[0]) || measure(all, ms[1], sum[1])) return 1;
  for (int k = 0; k < ROWS; k++) {
    printf("%s, float64, 1 thread\t%.3f\tms\t\n", rows[k].name, ms[0][k]);
    printf("%s, float64, %d threads\t%.3f\tms\t\n", rows[k].name, all, ms[1][k]);
    if (sum[0][k] != sum[1][k]) bad = fprintf(stderr, "%s: other bits on %d threads\n", rows[k].name, all);
  }
  return bad != 0;
}
