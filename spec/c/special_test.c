/*
** special_test.c: src/math/special*.c against 50-digit values (spec/golden/math/special.py).
** Each bound is the error that the function's comment states. With -v it prints the largest error of
** every function and where it was; compiled with -DGOLDEN='"dense.h"' it sweeps another table.
*/
#include "../../src/math/special.h"
#include "check.h"

typedef struct golden_row {
  double x[3], value, rest, scale;
} golden_row;

#ifndef GOLDEN
#define GOLDEN "../golden/math/special_golden.h"
#endif
#include GOLDEN

static bool verbose;

typedef double (*call)(const double *x);

static double error_of(const golden_row *r, double got) {
  if (isnan(got) || isnan(r->value)) return isnan(got) && isnan(r->value) ? 0 : INFINITY;
  if (got == r->value && r->rest == 0) return 0;
  if (isinf(got) || isinf(r->value)) return got == r->value ? 0 : INFINITY;
  return r->scale > 0 ? fabs((got - r->value) - r->rest) / r->scale : INFINITY;
}

static void sweep(const char *name, call f, const golden_row *row, size_t n, double bound) {
  double worst = 0;
  const golden_row *at = row;
  for (size_t i = 0; i < n; i++) {
    double got = f(row[i].x), error = error_of(&row[i], got);
    if (error > worst) {
      worst = error;
      at = &row[i];
    }
    if (!check_record(error <= bound))
      printf("%s(%.17g, %.17g, %.17g): got %.17g, want %.17g (error %.3g, allowed %.3g)\n", name, row[i].x[0],
             row[i].x[1], row[i].x[2], got, row[i].value, error, bound);
  }
  if (verbose)
    printf("%-16s %6zu values, max error %8.2e (stated %.2e) at %.17g %.17g %.17g\n", name, n, worst, bound, at->x[0],
           at->x[1], at->x[2]);
}

#define ONE(name)                                                                                                      \
  static double call_##name(const double *x) { return pni_##name(x[0]); }
#define TWO(name)                                                                                                      \
  static double call_##name(const double *x) { return pni_##name(x[0], x[1]); }
#define THREE(name)                                                                                                    \
  static double call_##name(const double *x) { return pni_##name(x[0], x[1], x[2]); }
ONE(log1mexp)
ONE(log1pexp)
ONE(logexpm1)
TWO(logaddexp)
ONE(sigmoid)
ONE(logit)
ONE(log_sigmoid)
TWO(xlogy)
TWO(xlog1py)
ONE(log1p_gap)
ONE(erf)
ONE(erfc)
ONE(erfcx)
ONE(erfinv)
ONE(erfcinv)
ONE(ndtr)
ONE(log_ndtr)
ONE(ndtri)
ONE(lgamma)
ONE(lgamma1p)
ONE(stirling_error)
ONE(digamma)
ONE(trigamma)
static double call_polygamma(const double *x) { return pni_polygamma((int)x[0], x[1]); }
TWO(lbeta)
TWO(gammainc)
TWO(gammaincc)
TWO(gammainc_grad_a)
TWO(gammaincinv)
TWO(log_gamma_slope)
THREE(betainc)
THREE(betaincinv)
static double call_betainc_slope_a(const double *x) {
  double s[2];
  pni_betainc_slopes(x[0], x[1], x[2], s);
  return s[0];
}
static double call_betainc_slope_b(const double *x) {
  double s[2];
  pni_betainc_slopes(x[0], x[1], x[2], s);
  return s[1];
}
ONE(log_i0)
ONE(log_i0e)
static double call_ive(const double *x) { return pni_ive((int)x[0], x[1]); }
static double call_bessel_gap(const double *x) { return pni_bessel_gap((int)x[0], x[1]); }
static double call_ive_slope(const double *x) { return pni_ive_slope((int)x[0], (int)x[1], x[2]); }
ONE(bessel_ratio)
static double call_erfcx_slope(const double *x) { return pni_erfcx_slope((int)x[0], x[1]); }
static double call_stirling_slope(const double *x) { return pni_stirling_slope((int)x[0], x[1]); }
TWO(log_gamma_density)
THREE(log_beta_density)
static double call_von_mises_log_mass(const double *x) {
  double both[2];
  pni_von_mises_log_mass(x[0], x[1], x[2], both);
  return both[0];
}
TWO(von_mises_cdf)
TWO(von_mises_icdf)
TWO(von_mises_slope)
ONE(expintx)
ONE(log_ndtri)
TWO(gammainccinv)

#define SWEEP(name, bound) sweep(#name, call_##name, golden_##name, sizeof golden_##name / sizeof *golden_##name, bound)

/* Ends of the incomplete integrals and their inverses are exact; one number outside makes NaN, each by itself. */
static void ends(void) {
  typedef double (*of_three)(double a, double b, double x);
  typedef double (*of_two)(double a, double x);
  static const of_three three[] = {pni_betainc, pni_betaincc, pni_betaincinv};
  static const of_two two[] = {pni_gammaincinv, pni_gammainccinv};
  static const double sizes[] = {1e-5, 0.3, 1, 2.5, 4000}, wrong[] = {0, -1, -INFINITY, INFINITY, NAN};
  static const double outside[] = {-1e-300, 1 + 0x1p-52, INFINITY, -INFINITY, NAN};
  double s[2];
  for (int i = 0; i < 5; i++)
    for (int j = 0; j < 5; j++) {
      double a = sizes[i], b = sizes[j];
      for (int x = 0; x < 2; x++) {
        CHECK(pni_betainc(a, b, x) == x && pni_betaincinv(a, b, x) == x && pni_betaincc(a, b, x) == 1 - x);
        pni_betainc_slopes(a, b, x, s);
        CHECK(s[0] == 0 && s[1] == 0);
      }
      CHECK(pni_gammaincinv(a, 0) == 0 && pni_gammaincinv(a, 1) == INFINITY);
      CHECK(pni_gammainccinv(a, 1) == 0 && pni_gammainccinv(a, 0) == INFINITY);
      for (int k = 0; k < 3; k++)
        CHECK(isnan(three[k](wrong[i], b, 0.4)) && isnan(three[k](b, wrong[i], 0.4)) &&
              isnan(three[k](a, b, outside[j])));
      pni_betainc_slopes(wrong[i], b, 0.4, s);
      CHECK(isnan(s[0]) && isnan(s[1]));
      pni_betainc_slopes(b, wrong[i], 0.4, s);
      CHECK(isnan(s[0]) && isnan(s[1]));
      pni_betainc_slopes(a, b, outside[j], s);
      CHECK(isnan(s[0]) && isnan(s[1]));
      for (int k = 0; k < 2; k++) CHECK(isnan(two[k](wrong[i], 0.4)) && isnan(two[k](a, outside[j])));
      CHECK(isnan(pni_von_mises_cdf(wrong[i], 0.4)) && isnan(pni_von_mises_icdf(wrong[i], 0.4)));
      CHECK(isnan(pni_von_mises_icdf(a, outside[j])) && isnan(pni_von_mises_slope(wrong[i], 0.4)));
    }
  for (double x = 30; x < 1e160; x *= 1.7) CHECK(pni_ndtr(x) == 1 && (x < 38.6 || pni_ndtr(-x) == 0));
  CHECK(pni_erfcx(-400) == INFINITY && pni_erfcx(-1e200) == INFINITY && pni_erfcx(1e308) < 1e-308);
  CHECK(isfinite(pni_von_mises_slope(1, 3.1415927410125733))); /* pi in float32 */
  CHECK(isnan(pni_von_mises_cdf(1, NAN)) && isnan(pni_von_mises_slope(1, 3.2)));
  CHECK(isnan(pni_gammainc_grad_a(INFINITY, 1)) && isnan(pni_gammainc_grad_a(-1, 1)));
  CHECK(isnan(pni_gammainc_grad_a(1, -1)));
  CHECK(isnan(pni_gammainc_grad_a(0, 0)) && pni_gammainc_grad_a(2, 0) == 0 && pni_gammainc_grad_a(2, INFINITY) == 0);
}

/* What each comment says of the ends of a domain and of what is outside, each argument by itself; NaN gives NaN. */
static void outside(void) {
  static const double inf = INFINITY, nan = NAN, less = -0x1p-1022;
  const struct {
    int line;
    double got, want;
  } rows[] = {
#define ROW(got, want) {__LINE__, got, want}
      ROW(pni_log1mexp(0), -inf),
      ROW(pni_log1mexp(-inf), 0),
      ROW(pni_log1mexp(-less), nan),
      ROW(pni_log1mexp(nan), nan),
      ROW(pni_log1pexp(-inf), 0),
      ROW(pni_log1pexp(inf), inf),
      ROW(pni_log1pexp(nan), nan),
      ROW(pni_logexpm1(0), -inf),
      ROW(pni_logexpm1(inf), inf),
      ROW(pni_logexpm1(less), nan),
      ROW(pni_logexpm1(nan), nan),
      ROW(pni_logaddexp(nan, 1), nan),
      ROW(pni_logaddexp(1, nan), nan),
      ROW(pni_logaddexp(nan, inf), nan),
      ROW(pni_logaddexp(-inf, -inf), -inf),
      ROW(pni_logaddexp(-inf, inf), inf),
      ROW(pni_logaddexp(inf, inf), inf),
      ROW(pni_logaddexp(-inf, 2), 2),
      ROW(pni_sigmoid(-inf), 0),
      ROW(pni_sigmoid(inf), 1),
      ROW(pni_logit(0), -inf),
      ROW(pni_logit(1), inf),
      ROW(pni_logit(less), nan),
      ROW(pni_logit(1 + 0x1p-52), nan),
      ROW(pni_xlogy(0, 0), 0),
      ROW(pni_xlogy(0, -1), 0),
      ROW(pni_xlogy(0, inf), 0),
      ROW(pni_xlogy(0, nan), nan),
      ROW(pni_xlogy(nan, 0), nan),
      ROW(pni_xlogy(1, 0), -inf),
      ROW(pni_xlogy(1, -1), nan),
      ROW(pni_xlog1py(0, -1), 0),
      ROW(pni_xlog1py(0, nan), nan),
      ROW(pni_xlog1py(2, -1), -inf),
      ROW(pni_xlog1py(0, -2), 0),
      ROW(pni_ive(-1, 1), nan),
      ROW(pni_ive(-1, 30), nan),
      ROW(pni_ive_slope(1, -1, 30), nan),
      ROW(pni_ive(-3, 5), nan),
      ROW(pni_ive(1, nan), nan),
      ROW(pni_ive(0, 0), 1),
      ROW(pni_ive(1, 0), 0),
      ROW(pni_ive(3, inf), 0),
      ROW(pni_ive(0, -inf), 0),
      ROW(pni_ive_slope(-1, 1, 1), nan),
      ROW(pni_ive_slope(1, -1, 1), nan),
      ROW(pni_ive_slope(1, 1, nan), nan),
      ROW(pni_ive_slope(1, 1, inf), 0),
      ROW(pni_ive_slope(0, 1, inf), 0),
      ROW(pni_ive_slope(0, 1, 0), 0),
      ROW(pni_ive_slope(1, 1, 0), 0.5),
      ROW(pni_ive_slope(2, 0, 0), 0.5),
      ROW(pni_ive_slope(1, 0, 0), 0),
      ROW(pni_ive_slope(1, 2, 0), 0),
      ROW(pni_ive_slope(3, 1, 0), 3 / 8.0),
      ROW(pni_log_i0(inf), inf),
      ROW(pni_log_i0(-inf), inf),
      ROW(pni_log_i0(nan), nan),
      ROW(pni_bessel_gap(0, less), nan),
      ROW(pni_bessel_gap(0, nan), nan),
      ROW(pni_bessel_gap(-1, 1), nan),
      ROW(pni_bessel_gap(4, 1), nan),
      ROW(pni_bessel_gap(0, 0), 1),
      ROW(pni_bessel_gap(1, 0), -0.5),
      ROW(pni_bessel_gap(3, inf), 0),
      ROW(pni_bessel_ratio(inf), 1),
      ROW(pni_bessel_ratio(-inf), -1),
      ROW(pni_von_mises_cdf(1, nan), nan),
      ROW(pni_von_mises_cdf(1, -4), 0),
      ROW(pni_von_mises_cdf(1, 4), 1),
      ROW(pni_von_mises_cdf(7, 0), 0.5),
      ROW(pni_von_mises_icdf(1, nan), nan),
      ROW(pni_von_mises_icdf(1, 0.5), 0),
      ROW(pni_von_mises_slope(1, nan), nan),
      ROW(pni_von_mises_slope(3, 0), 0),
      ROW(pni_von_mises_slope(1, 3.15), nan),
      ROW(pni_von_mises_slope(1, -3.15), nan),
      ROW(pni_count_deviance(0, 3), 3),
      ROW(pni_count_deviance(0, 0), 0),
      ROW(pni_count_deviance(0, inf), inf),
      ROW(pni_count_deviance(2, inf), inf),
      ROW(pni_count_deviance(2, 0), inf),
      ROW(pni_count_deviance(-1, inf), nan),
      ROW(pni_count_deviance(-1, 1), nan),
      ROW(pni_count_deviance(1, -1), nan),
      ROW(pni_count_deviance(0, -1), nan),
      ROW(pni_count_deviance(nan, 1), nan),
      ROW(pni_count_deviance(1, nan), nan),
      ROW(pni_count_deviance(3, 3), 0),
      ROW(pni_count_deviance_log(0, 0), 1),
      ROW(pni_count_deviance_log(2, nan), nan),
      ROW(pni_count_deviance_log(0, -inf), 0),
      ROW(pni_count_deviance_log(2, 1e6), inf),
      ROW(pni_count_excess(less), nan),
      ROW(pni_count_excess(nan), nan),
      ROW(pni_count_excess(0), 0),
      ROW(pni_log_gamma_density(0, 1), nan),
      ROW(pni_log_gamma_density(nan, 1), nan),
      ROW(pni_log_gamma_density(1, less), nan),
      ROW(pni_log_gamma_density(1, nan), nan),
      ROW(pni_log_gamma_density(0.5, 0), inf),
      ROW(pni_log_gamma_density(1, 0), 0),
      ROW(pni_log_gamma_density(1.5, 0), -inf),
      ROW(pni_log_gamma_density(2, inf), -inf),
      ROW(pni_log_gamma_density(0.5, inf), -inf),
      ROW(pni_log_gamma_density(20, inf), -inf),
      ROW(pni_log_beta_density(0, 1, 0.5), nan),
      ROW(pni_log_beta_density(1, 0, 0.5), nan),
      ROW(pni_log_beta_density(1, 1, less), nan),
      ROW(pni_log_beta_density(1, 1, 1 + 0x1p-52), nan),
      ROW(pni_log_beta_density(1, 1, nan), nan),
      ROW(pni_log_beta_density(0.5, 2, 0), inf),
      ROW(pni_log_beta_density(2, 0.5, 1), inf),
      ROW(pni_log_beta_density(2, 0.5, 0), -inf),
      ROW(pni_log_beta_density(0.5, 2, 1), -inf),
      ROW(pni_log_beta_density(1, 3, 0), log(3)),
      ROW(pni_log_beta_density(5, 1, 1), log(5)),
      ROW(pni_bernoulli_kl(less, 0.5), nan),
      ROW(pni_bernoulli_kl(1 + 0x1p-52, 0.5), nan),
      ROW(pni_bernoulli_kl(0.5, less), nan),
      ROW(pni_bernoulli_kl(0.5, 1 + 0x1p-52), nan),
      ROW(pni_bernoulli_kl(nan, 0.5), nan),
      ROW(pni_bernoulli_kl(0.5, nan), nan),
      ROW(pni_bernoulli_kl(0, 0), 0),
      ROW(pni_bernoulli_kl(1, 1), 0),
      ROW(pni_bernoulli_kl(0.5, 0), inf),
      ROW(pni_bernoulli_kl(0.5, 1), inf),
      ROW(pni_bernoulli_kl(0, 1), inf),
      ROW(pni_bernoulli_kl(1, 0), inf),
      ROW(pni_bernoulli_kl_inverse(0, less, 1), nan),
      ROW(pni_bernoulli_kl_inverse(0, 2, 1), nan),
      ROW(pni_bernoulli_kl_inverse(0, 0.5, less), nan),
      ROW(pni_bernoulli_kl_inverse(0, 0.5, nan), nan),
      ROW(pni_bernoulli_kl_inverse(-1, 0.5, 1), nan),
      ROW(pni_bernoulli_kl_inverse(4, 0.5, 1), nan),
      ROW(pni_bernoulli_kl_inverse(0, 1, 1), 1),
      ROW(pni_bernoulli_kl_inverse(1, 0, 1), 0),
      ROW(pni_bernoulli_kl_inverse(2, 0, 1), 0),
      ROW(pni_bernoulli_kl_inverse(3, 1, 1), 1),
      ROW(pni_bernoulli_kl_inverse(1, 0.25, 0), 0.25),
      ROW(pni_erfcx(inf), 0),
      ROW(pni_erfcx(-inf), inf),
      ROW(pni_erfcx(nan), nan),
      ROW(pni_erfcx_slope(-1, 1), nan),
      ROW(pni_erfcx_slope(2, nan), nan),
      ROW(pni_erfcx_slope(0, inf), 0),
      ROW(pni_erfinv(1), inf),
      ROW(pni_erfinv(-1), -inf),
      ROW(pni_erfinv(1 + 0x1p-52), nan),
      ROW(pni_erfinv(-1 - 0x1p-52), nan),
      ROW(pni_erfinv(nan), nan),
      ROW(pni_erfcinv(0), inf),
      ROW(pni_erfcinv(2), -inf),
      ROW(pni_erfcinv(less), nan),
      ROW(pni_erfcinv(2 + 0x1p-51), nan),
      ROW(pni_erfcinv(nan), nan),
      ROW(pni_ndtr(-inf), 0),
      ROW(pni_ndtr(inf), 1),
      ROW(pni_log_ndtr(-inf), -inf),
      ROW(pni_log_ndtr(inf), 0),
      ROW(pni_log_ndtr(nan), nan),
      ROW(pni_ndtri(0), -inf),
      ROW(pni_ndtri(1), inf),
      ROW(pni_ndtri(less), nan),
      ROW(pni_ndtri(1 + 0x1p-52), nan),
      ROW(pni_ndtri(nan), nan),
      ROW(pni_log_ndtri(0), inf),
      ROW(pni_log_ndtri(-inf), -inf),
      ROW(pni_log_ndtri(-less), nan),
      ROW(pni_log_ndtri(nan), nan),
      ROW(pni_expintx(0), inf),
      ROW(pni_expintx(inf), 0),
      ROW(pni_expintx(less), nan),
      ROW(pni_expintx(nan), nan),
      ROW(pni_expint_tail(2, 0), inf),
      ROW(pni_expint_tail(2, inf), 0),
      ROW(pni_expint_tail(2, less), nan),
      ROW(pni_expint_tail(2, nan), nan),
      ROW(pni_digamma(0.0), -inf),
      ROW(pni_digamma(-0.0), inf),
      ROW(pni_digamma(-1), nan),
      ROW(pni_digamma(-0.5) - pni_digamma(1.5), 0),
      ROW(pni_digamma(-inf), nan),
      ROW(pni_digamma(inf), inf),
      ROW(pni_trigamma(0), inf),
      ROW(pni_trigamma(-3), inf),
      ROW(pni_trigamma(inf), 0),
      ROW(pni_trigamma(-inf), nan),
      ROW(pni_polygamma(-1, 1), nan),
      ROW(pni_polygamma(2, nan), nan),
      ROW(pni_polygamma(3, inf), 0),
      ROW(pni_polygamma(3, -inf), nan),
      ROW(pni_polygamma(3, 0), inf),
      ROW(pni_polygamma(3, -2), inf),
      ROW(pni_polygamma(2, 0.0), -inf),
      ROW(pni_polygamma(2, -0.0), inf),
      ROW(pni_polygamma(2, -2), nan),
      ROW(pni_polygamma(0, 1) - pni_digamma(1), 0),
      ROW(pni_polygamma(1, 1) - pni_trigamma(1), 0),
      ROW(pni_stirling_slope(-1, 1), nan),
      ROW(pni_stirling_slope(1, 0), nan),
      ROW(pni_stirling_slope(1, nan), nan),
      ROW(pni_stirling_slope(2, inf), 0),
      ROW(pni_stirling_slope(0, 3) - pni_stirling_error(3), 0),
      ROW(pni_lbeta(0, 2), inf),
      ROW(pni_lbeta(2, 0), inf),
      ROW(pni_lbeta(inf, 2), -inf),
      ROW(pni_lbeta(2, inf), -inf),
      ROW(pni_lbeta(0, inf), nan),
      ROW(pni_lbeta(less, 1), nan),
      ROW(pni_lbeta(1, less), nan),
      ROW(pni_lbeta(nan, 1), nan),
      ROW(pni_lbeta(1, nan), nan),
      ROW(pni_log_gamma_slope(0, 1), nan),
      ROW(pni_log_gamma_slope(nan, 1), nan),
      ROW(pni_log_gamma_slope(1, nan), nan)};
#undef ROW
  double both[2];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    CHECK_NEAR(rows[i].got, rows[i].want, 0);
    if (!check_near(rows[i].got, rows[i].want, 0)) printf("  of line %d\n", rows[i].line);
  }
  CHECK(signbit(pni_log1mexp(-inf)) && signbit(pni_log_ndtr(inf)) && signbit(pni_polygamma(2, inf)));
  static const double wrong[][3] = {{0, 0, 1}, {-1, 0, 1}, {INFINITY, 0, 1}, {NAN, 0, 1}, {1, 1, 0.5}, {1, NAN, 1}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    both[0] = both[1] = 0;
    pni_von_mises_log_mass(wrong[i][0], wrong[i][1], wrong[i][2], both);
    CHECK(isnan(both[0]) && isnan(both[1]));
  }
}

/* ---- other ways of computing ---- */

/* e^-x I_n(x) for n >= 0 by the recurrence I_(k-1) = I_(k+1) + 2 k I_k / x, downwards, and I_0 + 2 (I_1 + I_2 + ...) =
 * e^x. */
static double bessel_down(int n, double x) {
  long double above = 0, here = 1e-4900L, whole = 0, wanted = 0;
  for (int k = n + 200 + (int)(10 * sqrt(x)); k >= 0; k--) {
    long double below = above + (k + 1) * 2 / (long double)x * here;
    above = here, here = below;
    if (k == n) wanted = here;
    whole += k ? 2 * here : here;
  }
  return (double)(wanted / whole);
}

static void large_orders(void) {
  static const struct {
    int n;
    double x;
  } of[] = {{1001, 801},  {1001, 2000}, {1001, 12345}, {1003, 1e5},
            {1700, 1900}, {2500, 5000}, {4000, 3e4},   {990, 3000}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    CHECK_NEAR(pni_ive(of[i].n, of[i].x), bessel_down(of[i].n, of[i].x), 1e-12);
  for (int n = 0; n < 12; n++)
    for (double x = 0.5; x < 200; x = x < 3 ? x + 0.5 : x * 1.25 + 1)
      CHECK_NEAR(pni_ive(n, x), bessel_down(n, x), n < 11 ? 5e-15 : 1e-12);
  /* n! (x^-(n+1) + (x + 1)^-(n+1) + ...) with the sign of (-1)^(n+1) */
  static const struct {
    int n;
    double x;
  } many[] = {{1001, 380}, {1001, 184}, {1001, 600}, {1500, 560}, {3000, 1104}, {2000, 700}};
  for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
    long double sum = 0, term;
    for (int k = 0; k < 4000; k++) {
      term = expl(lgammal(many[i].n + 1.0L) - (many[i].n + 1) * logl((long double)many[i].x + k));
      sum += term;
    }
    CHECK_NEAR(pni_polygamma(many[i].n, many[i].x), (double)(many[i].n % 2 ? sum : -sum), 2e-13);
  }
}

/* Mass from a to b and on to c is that from a to c, near and past pi; its slope in x is that of differences. */
static void masses(void) {
  static const double sizes[] = {0.3, 1, 2.5, 40, 900};
  static const double of[][3] = {{-3, -1, 0.5}, {-2.5, -0.25, 3}, {0.5, 1.5, 4}, {2, 3.5, 5},       {-3.1, 0, 3.1},
                                 {-1, 2, 5},    {3, 3.5, 9},      {-2, 1, 4.25}, {-0.5, -0.1, 0.1}, {0.125, 3.2, 3.5}};
  for (int i = 0; i < 5; i++)
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
      double x = sizes[i], h = 1e-4 * x, whole[2], near[2], rest[2], less[2], more[2];
      double middle = of[k][1] > 3.141592653589793 ? of[k][1] - 6.283185307179586 : of[k][1];
      pni_von_mises_log_mass(x, of[k][0], of[k][2], whole);
      pni_von_mises_log_mass(x, of[k][0], of[k][1], near);
      pni_von_mises_log_mass(x, middle, of[k][2] - of[k][1] + middle, rest);
      CHECK_NEAR(exp(near[0]) + exp(rest[0]), exp(whole[0]), 2e-13);
      pni_von_mises_log_mass(x - h, of[k][0], of[k][2], less);
      pni_von_mises_log_mass(x + h, of[k][0], of[k][2], more);
      double want = (more[0] - less[0]) / (2 * h), noise = 1e-12 * (1 + fabs(whole[0])) / h;
      CHECK(fabs(whole[1] - want) <= 1e-6 * fabs(want) + noise + 1e-300);
      double a = of[k][2] > 3.141592653589793 ? of[k][2] - 6.283185307179586 : of[k][2];
      pni_von_mises_log_mass(x, a, a + 6.283185307179586 - (of[k][2] - of[k][0]), rest);
      CHECK_NEAR(-expm1(whole[0]), exp(rest[0]), whole[0] < -0.1 ? 1e-12 : 1e-9); /* what is left */
    }
}

/* 1 - I_x(a, b) = I_(1-x)(b, a), and I_x(a, b) = x I_x(a - 1, b) + (1 - x) I_x(a, b - 1), in every region. */
static void beta_relations(void) {
  static const double sizes[] = {0.001, 0.5, 1, 3, 9.5, 12, 25, 300, 1e4};
  for (int i = 0; i < 9; i++)
    for (int j = 0; j < 9; j++)
      for (double x = 1 / 64.0; x < 1; x += 1 / 32.0) {
        double a = sizes[i], b = sizes[j], upper = pni_betaincc(a, b, x), turned = pni_betainc(b, a, 1 - x);
        CHECK(fabs(upper - turned) <= 1e-14 * turned * (1 - log(turned + 1e-300)));
        CHECK(fabs(pni_betainc(a, b, x) + upper - 1) <= 1e-14); /* twice what is stated */
      }
  for (double a = 3e8 + 1; a < 2e10; a *= 1.7)
    for (int k = -4; k <= 4; k++) {
      double b = floor(a * 0.6), n = a + b, x = a / n + k / 3.0 * sqrt(a / n * b / n / n), y = 1 - x;
      x = 1 - y;
      CHECK_NEAR(x * pni_betainc(a - 1, b, x) + y * pni_betainc(a, b - 1, x), pni_betainc(a, b, x), 1e-13);
    }
}

/* What the inverses give has the lower tail that was asked for, to their error: of 5e-15 in x, or in the tail. */
static void inverses(void) {
  static const double sizes[] = {0.04, 0.3, 0.5, 0.75, 1, 1.5, 3, 9.5, 11, 13, 60, 700, 1e4};
  static const double tails[] = {1e-200, 1e-30, 1e-6, 0.03, 0.25, 0.5, 0.625, 0.9375, 1 - 0x1p-20, 1 - 0x1p-45};
  for (int i = 0; i < 13; i++)
    for (int k = 0; k < 10; k++) {
      double a = sizes[i], p = tails[k], x = pni_gammaincinv(a, p);
      double size = 2e-14 * (exp(pni_log_gamma_density(a, x)) * x + fmin(p, 1 - p) * (1 - log(p)));
      if (x > 1e-290) CHECK(fabs(p < 0.5 ? pni_gammainc(a, x) - p : pni_gammaincc(a, x) - (1 - p)) <= size);
      double y = pni_gammainccinv(a, p),
             tail = 2e-14 * (exp(pni_log_gamma_density(a, y)) * y + fmin(p, 1 - p) * (1 - log(p)));
      if (y > 1e-290) CHECK(fabs(p < 0.5 ? pni_gammaincc(a, y) - p : pni_gammainc(a, y) - (1 - p)) <= tail);
      for (int j = 0; j < 13; j++) {
        double b = sizes[j], z = pni_betaincinv(a, b, p), least = fmin(z, 1 - z);
        if (least < 1e-290) continue;
        size = 2e-14 * (exp(pni_log_beta_density(a, b, z)) * z + fmin(p, 1 - p) * (1 - log(p)));
        CHECK(fabs(p < 0.5 ? pni_betainc(a, b, z) - p : pni_betaincc(a, b, z) - (1 - p)) <= size);
      }
    }
  /* sizes next to 0: b (x^a / a + x^(a+1) / (a + 1) + ...) for I_x(a, b) */
  CHECK_NEAR(pni_betainc(1e-310, 2, 0.25), 1, 1e-12); /* a subnormal has few digits */
  CHECK(pni_betainc(2, 1e-310, 0.25) < 1e-300);
  for (double a = 0.5; a < 40; a *= 3) {
    double sum = 0;
    for (int k = 2000; k >= 0; k--) sum += pow(0.9, a + k) / (a + k);
    CHECK_NEAR(pni_betainc(a, 1e-300, 0.9) * 1e300, sum, 1e-12);
    CHECK_NEAR(pni_betaincc(1e-300, a, 1 - 0.9) * 1e300, sum, 1e-12);
  }
}

/* dz/da of z = log x where P(a, x) stays: -(dP/da) / (x p(x)). */
static void gamma_slopes(void) {
  static const double sizes[] = {0.4, 3, 11.5, 12, 20, 300}, ratios[] = {0.31, 0.35, 0.39, 0.41, 0.8, 1, 1.5, 3};
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < 8; j++) {
      double a = sizes[i], x = ratios[j] * a, z = log(x);
      double want = -pni_gammainc_grad_a(a, x) / (x * exp(pni_log_gamma_density(a, x)));
      if (isfinite(want) && want != 0) CHECK_NEAR(pni_log_gamma_slope(a, z), want, 1e-11);
    }
}

/* q log(q / p) + (1 - q) log((1 - q) / (1 - p)); the inverses are the first that reach c, going outwards. */
static void divergences(void) {
  static const double p[] = {1e-310, 1e-9, 0.01, 0.25, 0.3, 0.5, 0.75, 0.99}, c[] = {1e-6, 0.01, 0.3, 2};
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < 8; j++) {
      long double q = p[i], r = p[j], want = q * logl(q / r) + (1 - q) * (log1pl(-q) - log1pl(-r));
      CHECK(fabsl((long double)pni_bernoulli_kl(p[i], p[j]) - want) <= 1.4e-15L * want + 1e-18L * (q + r));
      CHECK_NEAR(pni_bernoulli_kl(0, p[j]), -log1p(-p[j]), 1e-15);
      CHECK_NEAR(pni_bernoulli_kl(1, p[j]), -log(p[j]), 1e-15);
      for (int which = 0; j < 4 && which < 4; which++) {
        double x = p[i], y = pni_bernoulli_kl_inverse(which, x, c[j]), in = nextafter(y, x);
        double at = which < 2 ? pni_bernoulli_kl(x, y) : pni_bernoulli_kl(y, x);
        double inside = which < 2 ? pni_bernoulli_kl(x, in) : pni_bernoulli_kl(in, x), end = which % 2 ? 0 : 1;
        CHECK(which % 2 ? y < x : y > x);
        CHECK((at >= c[j] || y == end) && (inside < c[j] * (1 + 5e-15)));
      }
    }
}

int main(int argc, char **argv) {
  ends();
  outside();
  large_orders();
  masses();
  beta_relations();
  inverses();
  gamma_slopes();
  divergences();
  verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
  SWEEP(log1mexp, 3.1e-16);
  SWEEP(log1pexp, 2.7e-16);
  SWEEP(logexpm1, 5.5e-16);
  SWEEP(logaddexp, 4e-16);
  SWEEP(sigmoid, 3.2e-16);
  SWEEP(logit, 4.4e-16);
  SWEEP(log_sigmoid, 2.7e-16);
  SWEEP(xlogy, 2.3e-16);
  SWEEP(xlog1py, 2.4e-16);
  SWEEP(log1p_gap, 4.1e-16);
  SWEEP(erf, 1.4e-16);
  SWEEP(erfc, 4e-16);
  SWEEP(erfcx, 7.3e-16);
  SWEEP(erfinv, 6.4e-16);
  SWEEP(erfcinv, 8e-16);
  SWEEP(ndtr, 9.9e-16);
  SWEEP(log_ndtr, 6.5e-16);
  SWEEP(ndtri, 6.7e-16);
  SWEEP(lgamma, 1e-15);
  SWEEP(lgamma1p, 8.8e-16);
  SWEEP(stirling_error, 4e-15);
  SWEEP(digamma, 2e-15);
  SWEEP(trigamma, 1.5e-15);
  SWEEP(polygamma, 4.5e-15);
  SWEEP(lbeta, 4.5e-15);
  SWEEP(gammainc, 1.5e-15);
  SWEEP(gammaincc, 1.5e-15);
  SWEEP(gammainc_grad_a, 2.5e-15);
  SWEEP(log_gamma_slope, 7e-15);
  SWEEP(gammaincinv, 3.5e-15);
  SWEEP(betainc, 5e-15);
  SWEEP(betaincinv, 5e-15);
  SWEEP(betainc_slope_a, 1e-12);
  SWEEP(betainc_slope_b, 1e-12);
  SWEEP(log_i0, 2e-15);
  SWEEP(log_i0e, 2e-15);
  SWEEP(ive, 5e-15);
  SWEEP(bessel_gap, 1e-12);
  SWEEP(ive_slope, 1e-11);
  SWEEP(bessel_ratio, 2e-15);
  SWEEP(erfcx_slope, 4e-15);
  SWEEP(stirling_slope, 4e-15);
  SWEEP(log_gamma_density, 4e-15);
  SWEEP(log_beta_density, 4e-15);
  SWEEP(von_mises_log_mass, 1e-13);
  SWEEP(von_mises_cdf, 5e-13);
  SWEEP(von_mises_icdf, 1e-13);
  SWEEP(von_mises_slope, 1e-12);
  SWEEP(expintx, 3e-15);
  SWEEP(log_ndtri, 1e-15);
  SWEEP(gammainccinv, 4e-15);
  CHECK_DONE();
}
