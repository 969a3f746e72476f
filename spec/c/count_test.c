/*
** count_test.c: src/math/special_count.c against values of mpmath (spec/golden/math/count.py), each bound the error
** that the function's comment states; the laws of counts give what their one-step samplers give.
*/
#include "../../src/distribution/count/count_kernel.h"
#include "../../src/math/random/generator.h"
#include "../../src/math/random/rng.h"
#include "../../src/math/special.h"
#include "check.h"

typedef struct count_row {
  double x[2], value;
} count_row;

#include "../golden/math/count_golden.h"

#define COUNT(t) (sizeof(t) / sizeof(t)[0])

static double excess(double k, double unused) { return (void)unused, pni_count_excess(k); }

/* relative, below `floor` absolute in its units */
static void sweep(const char *name, double (*f)(double, double), const count_row *row, size_t n, double bound,
                  double floor_) {
  for (size_t i = 0; i < n; i++) {
    double got = f(row[i].x[0], row[i].x[1]), scale = fmax(fabs(row[i].value), floor_);
    if (!check_record(got == row[i].value || fabs(got - row[i].value) <= bound * scale))
      printf("%s(%.17g, %.17g): got %.17g, want %.17g\n", name, row[i].x[0], row[i].x[1], got, row[i].value);
  }
}

static void edges(void) {
  CHECK(pni_count_deviance(3, 0) == INFINITY && pni_count_deviance(3, INFINITY) == INFINITY);
  CHECK(isnan(pni_count_deviance(-1, 2)) && isnan(pni_count_deviance(1, -2)) && isnan(pni_count_deviance(NAN, 2)));
  CHECK(pni_count_deviance_log(3, -INFINITY) == INFINITY && pni_count_deviance_log(0, -INFINITY) == 0);
  CHECK(isnan(pni_count_deviance_log(3, NAN)));
  CHECK(isnan(pni_count_excess(-1)) && isnan(pni_count_excess(NAN)));
}

static void laws(void) {
  static const double rate[] = {1e-8, 0.5, 9, 11, 1e6}, p[] = {1e-9, 0.01, 0.3, 0.5, 0.8, 1};
  for (size_t k = 0; k < COUNT(rate); k++) {
    pni_count_law l;
    pni_poisson_law(&l, rate[k]);
    for (uint64_t i = 0; i < 200; i++) {
      double n = pni_count_from(&l, 3, i, 0.4, 0.3);
      CHECK(n >= 0 && n == floor(n));
    }
  }
  for (size_t k = 0; k < COUNT(p); k++) {
    pni_count_law l;
    pni_binomial_law(&l, 1000, p[k]);
    for (uint64_t i = 0; i < 200; i++) {
      double n = pni_count_from(&l, 3, i, 1, 1); /* a first trial at the edge */
      CHECK(n >= 0 && n <= 1000 && n == floor(n));
    }
  }
}

/* ---- pieces, against the functions above number by number ---- */

enum { MOST = PNI_KERNEL_PIECE };

static double log_sigmoid(double l) { return l < 0 ? l - log1p(exp(l)) : -log1p(exp(-l)); }

/* log mass of x and y among x + y, logarithms of both shares given (Loader's form, at all sizes) */
static double log_binomial(double x, double y, double success, double failure) {
  double n = x + y, apart = pni_count_deviance_log(x, log(n) + success) + pni_count_deviance_log(y, log(n) + failure);
  return pni_count_excess(n) - pni_count_excess(x) - pni_count_excess(y) - apart;
}

static double want_deviance(const double *v) { return pni_count_deviance(v[0], v[1]); }
static double want_deviance_log(const double *v) { return pni_count_deviance_log(v[0], v[1]); }
static double want_excess(const double *v) { return pni_count_excess(v[0]); }
static double want_poisson(const double *v) { return -pni_count_deviance(v[0], v[1]) - pni_count_excess(v[0]); }
static double want_binomial(const double *v) {
  return v[1] == 0 ? 0 : log_binomial(v[0], v[1] - v[0], log_sigmoid(v[2]), log_sigmoid(-v[2]));
}
static double want_negative_binomial(const double *v) {
  return log_binomial(v[0], v[1], log_sigmoid(v[2]), log_sigmoid(-v[2])) - log1p(v[0] / v[1]);
}

/* A body on the first n of `count` rows of arguments, on all but them, and on each alone gives the same bits, the
 * numbers of `want` to `bound` of 1 + their size. */
static void piece(const char *name, void (*body)(const pni_piece *, void *), double (*want)(const double *),
                  double v[3][MOST], int count, double bound) {
  double all[MOST], part[MOST];
  for (int cut = 0; cut < count; cut += cut < 20 ? 1 : 37) {
    pni_piece first = {.n = cut, .dtype = PN_FLOAT64, .in = {v[0], v[1], v[2]}}, rest = first, whole = first,
              one = first;
    rest.n = count - cut, whole.n = count, one.n = 1;
    for (int k = 0; k < 3; k++) rest.in[k] = v[k] + cut, one.in[k] = v[k] + cut;
    body(&whole, all);
    body(&first, part);
    body(&rest, part + cut);
    CHECK(memcmp(all, part, (size_t)count * sizeof *all) == 0);
    body(&one, part);
    CHECK(memcmp(all + cut, part, sizeof *all) == 0);
  }
  for (int i = 0; i < count; i++) {
    double w = want((double[]){v[0][i], v[1][i], v[2][i]});
    bool same = all[i] == w || fabs(all[i] - w) <= bound * (1 + fabs(w)) || (isnan(all[i]) && isnan(w));
    if (!check_record(same))
      printf("%s(%.17g, %.17g, %.17g): got %.17g, want %.17g\n", name, v[0][i], v[1][i], v[2][i], all[i], w);
  }
}

static void pieces(void) {
  static const double k[] = {0,  1e-12, 0.25, 0.4999, 0.5, 0.75, 1,     1.5, 2,   7.3, 15,   15.999, 16,
                             17, 31.5,  99,   100,    199, 200,  201.5, 1e3, 1e6, 1e9, 1e15, -1,     NAN};
  static const double ratio[] = {0,    1e-305, 1e-301, 1e-299, 1e-200, 0.1,   0.749, 0.751, 0.9,     1,
                                 1.01, 1.249,  1.251,  2,      1e10,   1e200, 1e299, 1e301, INFINITY};
  double v[3][MOST] = {{0}};
  for (size_t j = 0; j < COUNT(ratio); j++) {
    for (size_t i = 0; i < COUNT(k); i++) v[0][i] = k[i], v[1][i] = (k[i] == 0 ? 1 : k[i]) * ratio[j];
    piece("deviance", pni_deviance_body, want_deviance, v, (int)COUNT(k), 1e-14);
    for (size_t i = 0; i < COUNT(k); i++) v[1][i] = log(v[1][i]);
    piece("deviance_log", pni_deviance_log_body, want_deviance_log, v, (int)COUNT(k), 1e-12);
    for (size_t i = 0; i + 2 < COUNT(k); i++)
      v[1][i] = 1e-3 * (double)i + (double)(i % 3) * 40 * ratio[j < 5 ? 5 : j < 15 ? j : 9];
    v[1][2] = 200 - v[0][2], v[1][3] = 200.5 - v[0][3];
    piece("poisson", pni_poisson_body, want_poisson, v, (int)COUNT(k) - 2, 1e-12);
  }
  static const double far_log[] = {-1e4, -700, -669, -667, 667, 669, 700, 709.9, 1e4, -INFINITY, NAN};
  for (size_t i = 0; i < COUNT(far_log); i++) v[0][i] = 3 + (double)i, v[1][i] = far_log[i];
  piece("deviance_log", pni_deviance_log_body, want_deviance_log, v, (int)COUNT(far_log), 1e-12);
  for (size_t i = 0; i < COUNT(k); i++) v[0][i] = k[i];
  for (size_t i = COUNT(k); i < MOST; i++) v[0][i] = 0.13 * (double)(i - COUNT(k));
  piece("excess", pni_excess_body, want_excess, v, MOST, 2e-14);
  for (int i = 0; i < MOST; i++) v[0][i] = i % 17; /* whole numbers only, at both sides of 16 */
  piece("excess", pni_excess_body, want_excess, v, MOST, 2e-15);
  for (int far = 0; far < 2; far++) { /* without and with numbers of trials above 200 */
    for (int i = 0; i < MOST; i++) {
      double n = i % 10 == 0 ? 0 : i % 10 == 1 ? 200 : i % 10 == 2 ? 200 + far : far ? pow(10, i % 9) : 1 + i % 199;
      v[1][i] = n, v[0][i] = floor(n * ((i * 7) % 11) / 10), v[2][i] = 3 * sin(i) + (i % 5 == 3 ? 20 * cos(i) : 0);
    }
    piece("binomial", pni_binomial_body, want_binomial, v, MOST, 2e-12);
    for (int i = 0; i < MOST; i++) {
      v[0][i] = i % 7 ? floor((far ? 300 : 90) * fabs(sin(i))) : 0;
      v[1][i] = 0.3 + (far ? 1000 : 100) * fabs(cos(i)) * (i % 3);
    }
    piece("negative_binomial", pni_negative_binomial_body, want_negative_binomial, v, MOST, 2e-12);
  }
}

/* The search of many laws at once: the number of sums below u, -1 where 200 numbers do not reach it. */
static void searches(void) {
  double start[MOST], slope[MOST], drop[MOST], u[MOST], k[MOST];
  for (int i = 0; i < MOST; i++) {
    double m = 9.9 * (i % 13 + 1) / 13, p = 0.02 + 0.4 * (i % 5) / 5, n = 20;
    bool binomial = i % 2;
    start[i] = binomial ? pow(1 - p, n) : exp(-m);
    drop[i] = binomial ? p / (1 - p) : 0;
    slope[i] = binomial ? (n + 1) * drop[i] : m;
    u[i] = i % 16 == 0 ? 1.5 : i % 16 == 1 ? start[i] : i % 16 == 3 ? 0 : fabs(sin(i)) * (1 - 1e-9);
  }
  for (int n = 0; n <= MOST; n += n < 3 ? 1 : 61) {
    memset(k, 0x7f, sizeof k);
    pni_count_search(n, start, slope, drop, u, k);
    for (int i = 0; i < n; i++) {
      double weight = start[i], sum = weight, want = 0;
      while (want < 200 && u[i] > sum) {
        weight *= slope[i] / ++want - drop[i];
        sum += weight;
      }
      CHECK(k[i] == (want < 200 ? want : -1));
    }
    if (n < MOST) CHECK(k[n] > 1e300);
  }
}

/* Draws of tensors are those of single laws at the positions of their elements, whatever way they take: laws that are
 * searched one by one, side by side, or in a table from 200 draws on; of repeated and of single parameters. */
static void draws(pn_dtype dtype, int threads) {
  static const double rates[] = {1e-3, 1e-8, 0.5, 9.999, 10, 3, 3, 300},
                      probs[] = {0, 0.02, 0.4, 0.5, 0.6, 0.99, 1, 0.3};
  static const int64_t sizes[] = {1, 127, 199, 200, 1025};
  pn_context *c = pn_context_new(&(pn_context_config){.threads = threads});
  static const char *const binomial_names[] = {"total_count", "probs"}, *const poisson_name = "rate";
  for (size_t s = 0; s < COUNT(sizes); s++)
    for (int binomial = 0; binomial < 2; binomial++)
      for (int which = 0; which <= (int)COUNT(rates); which++) { /* one law for all, or each its own */
        size_t mark = pn_scope_open(c);
        int64_t n = sizes[s], own = which == (int)COUNT(rates);
        static double a[1025], b[1025], got[1025];
        for (int64_t i = 0; i < n; i++) {
          int64_t r = own ? (i * 5 + i / 100) % (int64_t)COUNT(rates) : which;
          a[i] = binomial ? (r % 3 ? 20 : 37) : rates[r], b[i] = probs[r];
          if (dtype == PN_FLOAT32) a[i] = (float)a[i], b[i] = (float)b[i];
        }
        int64_t one = 1;
        pn_tensor *v[2] = {pn_cast(c, pn_from_data(c, PN_FLOAT64, own ? 1 : 0, own ? &n : &one, a), dtype),
                           pn_cast(c, pn_from_data(c, PN_FLOAT64, own ? 1 : 0, own ? &n : &one, b), dtype)};
        pn_dist *d = binomial ? pn_dist_new(c, "binomial", 2, binomial_names, v)
                              : pn_dist_new(c, "poisson", 1, &poisson_name, v);
        pn_rng *r[2] = {pn_rng_new(c, 11), pn_rng_new(c, 11)};
        pn_tensor *x = pn_dist_sample(c, d, r[0], own ? 0 : 1, &n);
        pni_philox at = pni_rng_reserve(c, r[1], 1);
        CHECK_STATUS(c, pn_tensor_copy_out(c, x, got, n), PN_OK);
        if (!d) printf("refused %s\n", pn_context_message(c)), pn_context_clear_error(c);
        for (int64_t i = 0; i < n; i++) {
          pni_count_law law;
          double u[2];
          if (binomial)
            pni_binomial_law(&law, a[i], b[i]);
          else
            pni_poisson_law(&law, a[i]);
          pni_fill_uniform_f64(at.key, at.position, 2 * (uint64_t)i, 2 * (uint64_t)i + 2, u);
          CHECK(got[i] == pni_count_from(&law, at.key, at.position + (uint64_t)i, u[0], u[1]));
        }
        pn_rng_free(r[0]);
        pn_rng_free(r[1]);
        pn_dist_unref(d);
        pn_scope_close(c, mark);
      }
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
}

int main(void) {
  sweep("deviance", pni_count_deviance, golden_deviance, COUNT(golden_deviance), 4e-15, 0);
  sweep("deviance_log", pni_count_deviance_log, golden_deviance_log, COUNT(golden_deviance_log), 4e-15, 0);
  sweep("excess", excess, golden_excess, COUNT(golden_excess), 2e-14, 1);
  edges();
  laws();
  pieces();
  searches();
  for (int threads = 1; threads <= 2; threads++) {
    draws(PN_FLOAT64, threads);
    draws(PN_FLOAT32, threads);
  }
  CHECK_DONE();
}
