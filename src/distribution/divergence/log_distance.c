/*
** log_distance.c: expectations that divergences from laws with heavy tails ask for,
**   E[log(1 + ((x - a) / b)^2)], b > 0, and E[log(1 + e^(-(x - m) / s))].
**   cauchy(l, t)    log(((l - a)^2 + (t + b)^2) / b^2): the logarithm is harmonic
**   logistic(l, t)  2 Re digamma(1/2 + z) - 2 log Re z, z = (b + i (l - a)) / (2 pi t): out of the characteristic
**   function
**                   pi w / sinh(pi w) and the integral of 2 b / (x^2 + b^2) over b
**   uniform(l, h)   (F(h - a) - F(l - a)) / (h - l), F(x) = x log(1 + (x / b)^2) - 2 x + 2 b atan(x / b);
**                   s (S((m - l) / s) - S((m - h) / s)) / (h - l), S(t) = -Li_2(-e^t)
*/
#include "expectation.h"
#include "../formula.h"

enum { A, B };
#define a_ d->param[A]
#define b_ d->param[B]

/* log(1 + x^2), also where the square overflows */
static T *log_one_plus_square(C *c, T *x) {
  T *size = pn_abs(c, x), *large = above(c, size, 1);
  T *small = pn_square(c, pn_where(c, large, pn_reciprocal(c, only(c, large, size, 1)), x));
  return pn_add(c, pn_log1p(c, small), only(c, large, times(c, pn_log(c, only(c, large, size, 1)), 2), 0));
}

/* ---- cauchy ---- */

/* log((1 + r)^2 + x^2), r = t / b, x = (l - a) / b */
T *pni_cauchy_log_distance(C *c, D *d, T *at, T *b) {
  T *r = pn_div(c, b_, b), *x = pn_div(c, pn_sub(c, a_, at), pn_add(c, b, b_));
  return pn_add(c, times(c, pn_log1p(c, r), 2), log_one_plus_square(c, x));
}

/* Re sum_k term[k] w^(k+1), w = x + i y, by Horner's scheme on real and imaginary part */
static T *real_series(C *c, const double *term, int n, T *x, T *y) {
  T *re = times(c, x, 0), *im = re;
  for (int k = n - 1; k >= 0; k--) {
    T *s = plus(c, re, term[k]), *next = pn_sub(c, pn_mul(c, s, x), pn_mul(c, im, y));
    im = pn_add(c, pn_mul(c, s, y), pn_mul(c, im, x));
    re = next;
  }
  return re;
}

/* The same of w = q / z^2, z = x + i y, r2 = |z|^2 */
static T *inverse_square_series(C *c, const double *term, int n, T *q, T *x, T *y, T *r2) {
  T *r = pn_sqrt(c, r2), *u = pn_div(c, x, r), *v = pn_div(c, y, r), *scale = pn_div(c, q, r2);
  T *wr = pn_mul(c, scale, pn_sub(c, pn_square(c, u), pn_square(c, v)));
  return real_series(c, term, n, wr, pn_mul(c, scale, times(c, pn_mul(c, u, v), -2)));
}

/* ---- logistic ---- */

/* Re digamma(1/2 + x + i y) - log x, x > 0, z = x + i y. From |z| = 10 on Re log z - log x - sum c_k / z^2k,
 * c_k = (2^(1-2k) - 1) B_2k / (2k); nearer the recurrence up to 1/2 + z + 10 and log z - 1/(2 z) - sum B_2k / (2k z^2k)
 * from there (DLMF 5.11.2, 5.5.2). */
static T *digamma_near(C *c, T *x, T *y) {
  enum { STEPS_UP = 10, TERMS = 6 };
  static const double term[TERMS] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760};
  T *w = plus(c, x, 0.5), *y2 = pn_square(c, y), *sum = NULL;
  for (int k = 0; k < STEPS_UP; k++) {
    T *at = plus(c, w, k), *t = pn_div(c, at, pn_add(c, pn_square(c, at), y2));
    sum = sum ? pn_add(c, sum, t) : t;
  }
  w = plus(c, w, STEPS_UP);
  T *r2 = pn_add(c, pn_square(c, w), y2), *tail = inverse_square_series(c, term, TERMS, pni_like(c, w, 1), w, y, r2);
  T *lead = pn_sub(c, times(c, pn_log(c, r2), 0.5), times(c, pn_div(c, w, r2), 0.5));
  return pn_sub(c, pn_sub(c, lead, pn_log(c, x)), pn_add(c, tail, sum));
}

static T *digamma_excess(C *c, T *x, T *y) {
  enum { TERMS = 6 };
  static const double term[TERMS] = {-1.0 / 24,     7.0 / 960,        -31.0 / 8064,
                                     127.0 / 30720, -511.0 / 67584.0, 1414477.0 / 67092480.0};
  T *size = pn_maximum(c, x, pn_abs(c, y)), *far = above(c, size, 10);
  T *u = pn_div(c, x, size), *v = pn_div(c, y, size), *r2 = pn_add(c, pn_square(c, u), pn_square(c, v));
  T *q = pn_square(c, only(c, far, pn_reciprocal(c, only(c, far, size, 1)), 0));
  T *there = times(c, log_one_plus_square(c, pn_div(c, y, x)), 0.5);
  T *series = pn_sub(c, there, inverse_square_series(c, term, TERMS, q, u, v, r2));
  return pn_where(c, far, series, digamma_near(c, but(c, far, 1, x), but(c, far, 0, y)));
}

T *pni_logistic_log_distance(C *c, D *d, T *at, T *b) {
  T *width = times(c, b_, 2 * PI);
  return times(c, digamma_excess(c, pn_div(c, b, width), pn_div(c, pn_sub(c, a_, at), width)), 2);
}

/* ---- uniform ---- */

static T *log_distance_integral(C *c, T *z, T *b) {
  T *angle = times(c, pn_mul(c, b, pn_atan(c, pn_div(c, z, b))), 2);
  return pn_add(c, pn_mul(c, z, plus(c, log_one_plus_square(c, pn_div(c, z, b)), -2)), angle);
}

/* From far away, with w the width, z = (middle - a) + i b: log(|z| / b)^2 - 2 Re sum (w/2)^2k / (2k (2k + 1) z^2k). */
T *pni_uniform_log_distance(C *c, D *d, T *at, T *b) {
  enum { TERMS = 8 };
  double term[TERMS];
  for (int k = 1; k <= TERMS; k++) term[k - 1] = 2.0 / (2 * k * (2 * k + 1));
  T *width = pn_sub(c, b_, a_), *x = pn_sub(c, times(c, pn_add(c, a_, b_), 0.5), at), *half = times(c, width, 0.5);
  T *away = pn_maximum(c, pn_abs(c, x), b), *ratio = pn_div(c, half, away), *far = below(c, ratio, 0.125);
  T *rise = pn_sub(c, log_distance_integral(c, pn_sub(c, b_, at), b), log_distance_integral(c, pn_sub(c, a_, at), b));
  T *u = pn_div(c, x, away), *v = pn_div(c, b, away), *r2 = pn_add(c, pn_square(c, u), pn_square(c, v));
  T *series = inverse_square_series(c, term, TERMS, pn_square(c, but(c, pn_logical_not(c, far), 0, ratio)), u, v, r2);
  return pn_where(c, far, pn_sub(c, log_one_plus_square(c, pn_div(c, x, b)), series), pn_div(c, rise, width));
}

/* -Li_2(-e^-|t|): with u = softplus(-|t|) it is u + u^2/4 + sum B_2k u^(2k+1) / (2k+1)! (DLMF 25.12.1). */
static T *below_zero(C *c, T *t) {
  enum { TERMS = 9 };
  static const double term[TERMS] = {2.7777777777777776e-2,  -2.7777777777777778e-4,  4.7241118669690098e-6,
                                     -9.1857730746619641e-8, 1.8978869988971001e-9,   -4.0647616451442256e-11,
                                     8.9216910204564523e-13, -1.9939295860721074e-14, 4.5189800296199183e-16};
  T *u = pn_softplus(c, pn_neg(c, pn_abs(c, t))), *z = pn_square(c, u), *p = times(c, z, 0);
  for (int k = TERMS - 1; k >= 0; k--) p = pn_mul(c, plus(c, p, term[k]), z);
  return pn_mul(c, u, plus(c, pn_add(c, times(c, u, 0.25), p), 1));
}

/* S(t) = G(t) for t <= 0, t^2/2 + pi^2/6 - G(t) above (DLMF 25.12.4), G as above; the squares apart, by the width. */
T *pni_uniform_softplus(C *c, D *d, T *m, T *s) {
  T *first = pn_div(c, pn_sub(c, m, a_), s), *last = pn_div(c, pn_sub(c, m, b_), s);
  T *width = pn_div(c, pn_sub(c, b_, a_), s), *both = above(c, last, 0);
  T *r = pn_relu(c, first), *q = pn_relu(c, last), *gap = pn_where(c, both, width, pn_sub(c, r, q));
  T *square = times(c, pn_mul(c, gap, pn_add(c, r, q)), 0.5);
  T *low = below_zero(c, last), *high = below_zero(c, first), *crossed = above(c, first, 0);
  T *rest = pn_where(c, crossed, from(c, PI * PI / 6, high), high);
  rest = pn_sub(c, rest, pn_where(c, both, from(c, PI * PI / 6, low), low));
  return pn_div(c, pn_add(c, square, rest), width);
}
