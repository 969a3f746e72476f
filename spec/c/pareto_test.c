/*
** pareto_test.c: Pareto smoothed weights by the formulas of Zhang & Stephens (2009) and of Vehtari et al. (2024),
** written once more: the fit at few and many excesses, quantiles, the length of the tail, and columns of weights in any
** order with ties, with weights of 0 and with relative efficiencies.
*/
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include "../../src/infer/op/pareto_tail.h"
#include "check.h"

typedef pn_tensor T;
typedef pn_context C;

enum { MOST = 1200 };

/* ---- once more ---- */

static double profile(const double *x, int64_t n, double theta) {
  long double k = 0;
  for (int64_t i = 0; i < n; i++) k += log1pl(-(long double)theta * x[i]);
  k /= (long double)n;
  return (double)((long double)n * (logl(-(long double)theta / k) - k - 1));
}

/* w_j = 1 / sum_i exp(l_i - l_j), those below 10 units of rounding left out. */
static pni_pareto fit(const double *x, int64_t n) {
  int m = 30 + (int)floor(sqrt((double)n));
  double theta[600], l[600], w[600], all = 0, mean = 0, k = 0;
  for (int j = 1; j <= m; j++) {
    theta[j - 1] = 1 / x[n - 1] + (1 - sqrt(m / (j - 0.5))) / (3 * x[(int64_t)floor((double)n / 4 + 0.5) - 1]);
    l[j - 1] = profile(x, n, theta[j - 1]);
  }
  for (int j = 0; j < m; j++) {
    double sum = 0;
    for (int i = 0; i < m; i++) sum += exp(l[i] - l[j]);
    w[j] = 1 / sum < 10 * DBL_EPSILON ? 0 : 1 / sum;
    all += w[j];
  }
  for (int j = 0; j < m; j++) mean += w[j] / all * theta[j];
  for (int64_t i = 0; i < n; i++) k += log1p(-mean * x[i]) / (double)n;
  return (pni_pareto){.sigma = -k / mean, .k = ((double)n * k + 5) / ((double)n + 10)};
}

static int rising(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void fits(C *c) {
  static const int64_t sizes[] = {5, 6, 7, 8, 9, 10, 11, 15, 16, 17, 24, 25, 26, 100, 1000};
  static double x[MOST];
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int shape = -1; shape < 3; shape++) {
      int64_t n = sizes[s];
      double k = 0.45 * shape;
      for (int64_t i = 0; i < n; i++) {
        double p = ((double)(i * 7919 % n) + 0.3 + 0.2 * sin(5.0 * (double)i)) / (double)n;
        x[i] = k == 0 ? -log1p(-p) : (pow(1 - p, -k) - 1) / k;
      }
      qsort(x, (size_t)n, sizeof *x, rising);
      pni_pareto got = pni_pareto_fit(c, x, n), want = fit(x, n);
      CHECK_NEAR(got.k, want.k, 1e-10);
      CHECK_NEAR(got.sigma, want.sigma, 1e-10);
    }
  for (int i = 0; i < 40; i++) {
    double p = i / 40.0, k = i % 5 * 0.3 - 0.6;
    k = fabs(k) < 1e-9 ? 0 : k;
    double want = k == 0 ? -2.5 * log1p(-p) : 2.5 * (pow(1 - p, -k) - 1) / k;
    CHECK_NEAR(pni_pareto_quantile((pni_pareto){.k = k, .sigma = 2.5}, p), want, 1e-13);
    CHECK_NEAR(pni_pareto_quantile((pni_pareto){.k = 1e-17, .sigma = 2.5}, p), -2.5 * log1p(-p), 1e-13);
    CHECK_NEAR(pni_pareto_quantile((pni_pareto){.k = 1e-15, .sigma = 2.5}, p), -2.5 * log1p(-p), 1e-13);
  }
  CHECK_INT(pni_pareto_tail(225, 1), 45); /* 0.2 K = 3 sqrt K */
  CHECK_INT(pni_pareto_tail(25, 1), 5);
  CHECK_INT(pni_pareto_tail(26, 1), 6);
  CHECK_INT(pni_pareto_tail(10000, 1), 300);
  CHECK_INT(pni_pareto_tail(10000, 4), 150);
  CHECK_INT(pni_pareto_tail(10000, 0.25), 600);
  CHECK_INT(pni_pareto_tail(10000, 0.01), 2000);
}

/* ---- columns ---- */

typedef struct {
  double w;
  int64_t i;
} ranked;

static int by_weight(const void *a, const void *b) {
  const ranked *x = a, *y = b;
  if (x->w != y->w) return x->w < y->w ? -1 : 1;
  return (x->i > y->i) - (x->i < y->i);
}

/* Smoothed log-weights into w; gives k-hat. */
static double smooth(double *w, int64_t n, double efficiency) {
  static ranked r[MOST];
  static double excess[MOST];
  double top = -INFINITY, k = INFINITY, sum = 0;
  for (int64_t i = 0; i < n; i++) top = fmax(top, w[i]);
  if (top == -INFINITY) return k;
  for (int64_t i = 0; i < n; i++) r[i] = (ranked){w[i] - top, i};
  qsort(r, (size_t)n, sizeof *r, by_weight);
  int64_t tail = (int64_t)ceil(fmin(0.2 * (double)n, 3 * sqrt((double)n / efficiency))), cut = n - tail - 1;
  if (cut >= 0 && tail >= 5 && r[cut].w > -0.01)
    k = 0;
  else if (cut >= 0 && tail >= 5) {
    double low = fmax(r[cut].w, log(DBL_MIN));
    int64_t first = cut;
    while (first < n && r[first].w <= low) first++;
    int64_t m = n - first;
    if (m >= 5) {
      for (int64_t i = 0; i < m; i++) excess[i] = exp(r[first + i].w) - exp(low);
      pni_pareto p = fit(excess, m);
      k = p.k;
      for (int64_t i = 0; i < m; i++) {
        double q = ((double)i + 0.5) / (double)m, x = p.sigma * (pow(1 - q, -p.k) - 1) / p.k;
        r[first + i].w = fmin(log(x + exp(low)), 0);
      }
    }
  }
  for (int64_t i = 0; i < n; i++) sum += exp(r[i].w);
  for (int64_t i = 0; i < n; i++) w[r[i].i] = r[i].w - log(sum);
  return k;
}

enum { SPREAD, TIED, EVEN, NEARLY_EVEN, MANY_ZEROS, FEW_ALIVE, ALL_ZEROS, KINDS };

static double weight(int kind, int64_t i, int64_t n) {
  double u = (double)(i * 7919 % n) / (double)n, x = 3 * u * u * u + 0.1 * sin(3.0 * (double)i);
  if (kind == TIED) return floor(6 * x) / 4 - 700;
  if (kind == EVEN) return 0.005 * u + 2;
  if (kind == NEARLY_EVEN) return 0.011 * u + 2;
  if (kind == MANY_ZEROS) return i % 10 < 8 ? -INFINITY : x;
  if (kind == FEW_ALIVE) return i < n - 4 ? -INFINITY : x;
  return kind == ALL_ZEROS ? -INFINITY : 40 * x - 5;
}

static void columns(C *c, pn_dtype dtype, int64_t n, double efficiency) {
  static double x[MOST * KINDS], w[MOST];
  size_t mark = pn_scope_open(c);
  double r[KINDS], near = dtype == PN_FLOAT64 ? 1e-9 : 2e-4;
  for (int b = 0; b < KINDS; b++) {
    r[b] = (double)(float)(efficiency * (1 + 0.1 * b));
    for (int64_t i = 0; i < n; i++) x[i * KINDS + b] = (double)(float)weight(b, i, n);
  }
  T *t = pn_cast(c, pn_from_data(c, PN_FLOAT64, 2, (const int64_t[]){n, KINDS}, x), dtype);
  T *e = pn_cast(c, pn_from_data(c, PN_FLOAT64, 1, (const int64_t[]){KINDS}, r), dtype);
  if (n % 2) t = pn_transpose(c, pn_contiguous(c, pn_transpose(c, t, 0, 1)), 0, 1);
  T *out = pni_pareto_smooth(c, t, efficiency == 1 ? NULL : e);
  CHECK(out && pn_tensor_ndim(out) == 2 && pn_tensor_shape(out)[0] == n + 1 && pn_tensor_shape(out)[1] == KINDS);
  for (int b = 0; out && b < KINDS; b++) {
    for (int64_t i = 0; i < n; i++) w[i] = x[i * KINDS + b];
    double k = smooth(w, n, efficiency == 1 ? 1 : r[b]), got = pni_weight(out, n * KINDS + b);
    bool same = check_near(got, k, near);
    for (int64_t i = 0; i < n; i++) {
      double v = pni_weight(out, i * KINDS + b);
      same = same && (v == w[i] || fabs(v - w[i]) <= near * fmax(1, fabs(w[i])));
    }
    if (!same) printf("%lld draws, kind %d, efficiency %g: k %g, want %g\n", (long long)n, b, efficiency, got, k);
    CHECK(same);
  }
  pn_scope_close(c, mark);
}

static void refusals(C *c) {
  size_t mark = pn_scope_open(c);
  static const double wrong[] = {0, -1, INFINITY, NAN};
  const int64_t two = 2;
  T *x = pn_zeros(c, PN_FLOAT64, 2, (const int64_t[]){30, 2});
  for (int k = 0; k < 4; k++) {
    CHECK(!pni_pareto_smooth(c, x, pn_from_data(c, PN_FLOAT64, 1, &two, (const double[]){1, wrong[k]})));
    CHECK_FAIL(c, PN_DOMAIN, "psis: relative_efficiency must be positive, got");
  }
  double v[60];
  for (int i = 0; i < 60; i++) v[i] = i == 33 ? NAN : 0.1 * i; /* of the second column */
  T *y = pni_pareto_smooth(c, pn_from_data(c, PN_FLOAT64, 2, (const int64_t[]){30, 2}, v), NULL);
  CHECK(y && isfinite(pni_weight(y, 60)) && isnan(pni_weight(y, 33)) && !isnan(pni_weight(y, 32)));
  CHECK(y && pni_weight(y, 61) == INFINITY);
  CHECK(!pni_pareto_smooth(c, NULL, NULL));
  pn_context_clear_error(c);
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
}

int main(void) {
  static const int64_t sizes[] = {1, 2, 5, 20, 21, 24, 25, 26, 30, 99, 100, 224, 225, 226, 500, 1000};
  C *c = pn_context_new(NULL);
  fits(c);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int d = 0; d < 2; d++) {
      columns(c, d ? PN_FLOAT32 : PN_FLOAT64, sizes[s], 1);
      columns(c, d ? PN_FLOAT32 : PN_FLOAT64, sizes[s], 0.35);
      columns(c, d ? PN_FLOAT32 : PN_FLOAT64, sizes[s], 2.5);
    }
  refusals(c);
  pn_context_close(c);
  CHECK_DONE();
}
