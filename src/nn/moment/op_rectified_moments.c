/*
** op_rectified_moments.c: mean and variance of rectified normal numbers, x ~ N(mu, v), sigma = sqrt(v), t = mu / sigma,
** for networks that propagate moments (central limit theorem: sums of many weights are normal):
**   relu_mean       E[max(x, 0)] = mu Phi(t) + sigma phi(t)
**   relu_variance   of max(x, 0)
**   exp_below       S_k = E[e^(k x); x < 0] = e^(k mu + k^2 v / 2) Phi(-(mu + k v) / sigma), k = 0, 1, 2
**   elu_variance    of x where x > 0, a (e^x - 1) elsewhere
** With s = |t|, r the part of x on the other side of 0 than its mean, and Mills' ratio m(s) = Phi(-s) / phi(s),
**   E r = sigma phi(s) (1 - s m),  E r^2 = v phi(s) ((1 + s^2) m - s),  E[max(x, 0)] = max(mu, 0) + E r,
**   variance = E r^2 - (E r)^2 for mu <= 0, v - E r^2 - E r (E r + 2 mu) for mu > 0,
** so that both tails keep their digits. A variance of 0 is a number without doubt: the function itself, variance 0.
*/
#include <math.h>
#include "../../base/processor.h"
#include "../../math/special.h"
#include "../../math/vector/vector.h"
#include "../recurrent/nn_op.h"

typedef pn_tensor T;
typedef pn_context C;

enum { BLOCK = 256 };
static const double root_half = 0.70710678118654752440, root_half_pi = 1.25331413731550025121;
static const double root_two_pi_inverse = 0.39894228040143267794;

/* Above this s, where the direct forms lose digits, the asymptotic series of 1 - s m and (1 + s^2) m - s. */
static const double far_out = 20;

static inline double first_part(double s) {
  double r = 1 / (s * s), x = 1 - 15 * r; /* r - 3 r^2 + 15 r^3 - 105 r^4 ... */
  x = 1 - 13 * r * x;
  x = 1 - 11 * r * x;
  x = 1 - 9 * r * x;
  x = 1 - 7 * r * x;
  x = 1 - 5 * r * x;
  x = 1 - 3 * r * x;
  return r * x;
}

static inline double second_part(double s) {
  double r = 1 / (s * s), x = 1891890 - 32432400 * r;
  x = x * r - 124740;
  x = x * r + 9450;
  x = x * r - 840;
  x = x * r + 90;
  x = x * r - 12;
  x = x * r + 2;
  return x * r / s;
}

/* s of n numbers, inf for those without doubt; -s^2 / 2 and s / sqrt 2, of which phi(s) and m(s) come. */
PNI_EACH_LEVEL(standardise, (const double *mu, const double *v, double *s, double *square, double *half, int64_t n),
               (mu, v, s, square, half, n)) {
  for (int64_t i = 0; i < n; i++) {
    double t = fabs(mu[i]) / sqrt(v[i]);
    s[i] = ((v[i] == 0) & (mu[i] == mu[i])) != 0 ? INFINITY : t;
    square[i] = -0.5 * s[i] * s[i];
    half[i] = s[i] * root_half;
  }
}

/* E r / sigma of density e^(-s^2 / 2) and erfcx(s / sqrt 2); likewise E r^2 / v. */
PNI_EACH_LEVEL(first_parts, (const double *s, const double *density, const double *mills, double *out, int64_t n),
               (s, density, mills, out, n)) {
  for (int64_t i = 0; i < n; i++) {
    double d = density[i] * root_two_pi_inverse, far = first_part(s[i]), near = 1 - s[i] * (mills[i] * root_half_pi);
    out[i] = d == 0 ? 0 : d * (s[i] > far_out ? far : near);
  }
}
PNI_EACH_LEVEL(second_parts, (const double *s, const double *density, const double *mills, double *out, int64_t n),
               (s, density, mills, out, n)) {
  for (int64_t i = 0; i < n; i++) {
    double d = density[i] * root_two_pi_inverse, far = second_part(s[i]);
    double near = (1 + s[i] * s[i]) * (mills[i] * root_half_pi) - s[i];
    out[i] = d == 0 ? 0 : d * (s[i] > far_out ? far : near);
  }
}

/* E r / sigma and E r^2 / v (NULL: not asked for) of n numbers. */
static void beyond(const double *mu, const double *v, double *first, double *second, int64_t n) {
  double s[BLOCK], density[BLOCK], mills[BLOCK];
  density[0] = mills[0] = 0;
  standardise(mu, v, s, density, mills, n);
  pni_vector_f64(PNI_VECTOR_exp, density, 1, density, n);
  pni_vector_f64(PNI_VECTOR_erfcx, mills, 1, mills, n);
  first_parts(s, density, mills, first, n);
  if (second) second_parts(s, density, mills, second, n);
}

PNI_EACH_LEVEL(add_mean, (const double *mu, const double *v, const double *first, double *out, int64_t n),
               (mu, v, first, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = (mu[i] > 0 ? mu[i] : 0) + sqrt(v[i]) * first[i];
}

static void mean_of_relu(const double *mu, const double *v, double *out, int64_t n, const double *real) {
  double first[BLOCK];
  (void)real;
  beyond(mu, v, first, NULL, n);
  add_mean(mu, v, first, out, n);
}

static inline double variance_from(double mu, double v, double r, double r2) {
  double above = v - r2 - r * (r + 2 * mu), below = r2 - r * r;
  return mu > 0 ? above : below;
}

PNI_EACH_LEVEL(add_variance,
               (const double *mu, const double *v, const double *first, const double *second, double *out, int64_t n),
               (mu, v, first, second, out, n)) {
  for (int64_t i = 0; i < n; i++) out[i] = variance_from(mu[i], v[i], sqrt(v[i]) * first[i], v[i] * second[i]);
}

static void variance_of_relu(const double *mu, const double *v, double *out, int64_t n, const double *real) {
  double first[BLOCK], second[BLOCK];
  (void)real;
  beyond(mu, v, first, second, n);
  add_variance(mu, v, first, second, out, n);
}

/* S_k: with u = (mu + k v) / sigma >= 0 the two exponentials cancel to e^(-t^2 / 2) erfcx(u / sqrt 2) / 2. */
static double below(double mu, double v, int k) {
  if (v == 0) return mu < 0 ? exp(k * mu) : mu == mu ? 0 : mu;
  double sigma = sqrt(v), t = mu / sigma, u = (mu + k * v) / sigma;
  if (u >= 0) return 0.5 * exp(-0.5 * t * t) * pni_erfcx(u * root_half);
  return exp(k * mu + 0.5 * k * k * v) * 0.5 * erfc(u * root_half);
}

static void mean_of_exp(const double *mu, const double *v, double *out, int64_t n, const double *real) {
  for (int64_t i = 0; i < n; i++) out[i] = below(mu[i], v[i], (int)real[0]);
}

/* E[(e^x - 1)^2; x < 0] for small sigma and |t|, by (e^x - 1)^2 = sum (2^n - 2) x^n / n! and the moments of x < 0:
 * M_n = mu M_(n-1) + (n - 1) v M_(n-2), M_0 = Phi(-t), M_1 = mu M_0 - sigma phi(t). */
static double square_below_near(double mu, double v) {
  double sigma = sqrt(v), t = mu / sigma, m0 = 0.5 * erfc(t * root_half);
  double m1 = mu * m0 - sigma * root_two_pi_inverse * exp(-0.5 * t * t), sum = 0, power = 2, factorial = 1;
  for (int n = 2; n < 20; n++) {
    double m = mu * m1 + (n - 1) * v * m0;
    m0 = m1;
    m1 = m;
    power *= 2;
    factorial *= n;
    sum += (power - 2) / factorial * m;
  }
  return sum;
}

static double variance_of_one(double mu, double v, double a) {
  double first, second, sigma = sqrt(v), t = mu / sigma;
  if (v == 0) return mu == mu ? 0 : mu;
  beyond(&mu, &v, &first, &second, 1);
  double r = sigma * first, r2 = v * second, mean = (mu > 0 ? mu : 0) + r;
  double square = mu > 0 ? v + mu * mu - r2 : r2, s1 = below(mu, v, 1), s2 = below(mu, v, 2);
  if (t > 9) return variance_from(mu, v, r, r2);
  if (t < -9 && mu + 2 * v < -9 * sigma) return a * a * exp(2 * mu + v) * expm1(v); /* all of x is below 0 */
  if (mu <= 0 && sigma >= 0.02) { /* of h + a, which is small far below */
    double above = 0.5 * erfc(-t * root_half), e = a * s1 + mean + a * above;
    return a * a * s2 + square + 2 * a * mean + a * a * above - e * e;
  }
  double s0 = below(mu, v, 0), e = a * (s1 - s0) + mean;
  double low = sigma < 0.02 ? square_below_near(mu, v) : s2 - 2 * s1 + s0;
  return a * a * low + square - e * e;
}

static void variance_of_elu(const double *mu, const double *v, double *out, int64_t n, const double *real) {
  for (int64_t i = 0; i < n; i++) out[i] = variance_of_one(mu[i], v[i], real[0]);
}

#define MAP(name, N, f)                                                                                                \
  static void name(void *data, int64_t n, char *const *p, const int64_t *s) {                                          \
    const N *mu = (const N *)(const void *)p[1], *v = (const N *)(const void *)p[2];                                   \
    double first[BLOCK], second[BLOCK], out[BLOCK];                                                                    \
    for (int64_t at = 0; at < n; at += BLOCK) {                                                                        \
      int64_t size = n - at < BLOCK ? n - at : BLOCK;                                                                  \
      if (s[1] == 1 && s[2] == 1)                                                                                      \
        for (int64_t i = 0; i < size; i++) {                                                                           \
          first[i] = (double)mu[at + i];                                                                               \
          second[i] = (double)v[at + i];                                                                               \
        }                                                                                                              \
      else                                                                                                             \
        for (int64_t i = 0; i < size; i++) {                                                                           \
          first[i] = (double)mu[(at + i) * s[1]];                                                                      \
          second[i] = (double)v[(at + i) * s[2]];                                                                      \
        }                                                                                                              \
      f(first, second, out, size, data);                                                                               \
      for (int64_t i = 0; i < size; i++) ((N *)(void *)p[0])[at + i] = (N)out[i];                                      \
    }                                                                                                                  \
  }
#define BOTH(f) MAP(f##_f64, double, f) MAP(f##_f32, float, f)
BOTH(mean_of_relu)
BOTH(variance_of_relu)
BOTH(mean_of_exp)
BOTH(variance_of_elu)
#undef MAP
#undef BOTH

/* ---- derivatives; in v those of a number without doubt are taken as 0 ---- */

#define K(x) pni_like(c, mu, x)

static T *sure(C *c, T *v) { return pn_eq(c, v, v ? pni_like(c, v, 0) : NULL); }
/* mu / sigma, with sigma = 1 where there is no doubt */
static T *ratio(C *c, T *mu, T *v, T **sigma) {
  *sigma = pn_sqrt(c, pn_where(c, sure(c, v), pni_like(c, v, 1), v));
  return pn_div(c, mu, *sigma);
}
static T *chance_above(C *c, T *mu, T *v) {
  if (!mu) return NULL;
  T *sigma, *t = ratio(c, mu, v, &sigma), *step = pn_cast(c, pn_gt(c, mu, K(0)), (pn_dtype)mu->dtype);
  return pn_where(c, sure(c, v), step, pn_ndtr(c, t));
}
/* phi(t) / sigma, the density at 0 */
static T *density_at_0(C *c, T *mu, T *v) {
  T *sigma, *t = ratio(c, mu, v, &sigma), *square = pn_mul(c, pn_square(c, t), K(-0.5));
  T *d = pn_div(c, pn_mul(c, pn_exp(c, square), K(root_two_pi_inverse)), sigma);
  return pn_where(c, sure(c, v), K(0), d);
}

static T *below_of(C *c, T *mu, T *v, int k) {
  return pni_apply2(c, &pni_nn_op_exp_below, mu, v, &(pni_attr){.r = {k}});
}
static T *relu_mean(C *c, T *mu, T *v) { return pni_apply2(c, &pni_nn_op_relu_mean, mu, v, NULL); }

static T *d_relu_mean(C *c, T *y, T *g, int k) {
  T *mu = pni_in(y, 0), *v = pni_in(y, 1);
  if (k == 0) return pn_mul(c, g, chance_above(c, mu, v));
  return pn_mul(c, g, pn_mul(c, K(0.5), density_at_0(c, mu, v)));
}

/* 2 E Phi(-t),  Phi(t) - E phi(t) / sigma */
static T *d_relu_variance(C *c, T *y, T *g, int k) {
  T *mu = pni_in(y, 0), *v = pni_in(y, 1), *mean = relu_mean(c, mu, v);
  if (k == 0) return pn_mul(c, g, pn_mul(c, pn_mul(c, K(2), mean), chance_above(c, pn_neg(c, mu), v)));
  return pn_mul(c, g, pn_sub(c, chance_above(c, mu, v), pn_mul(c, mean, density_at_0(c, mu, v))));
}

/* With p the density at 0:  k S_k - p,  (k^2 S_k - k p + p mu / v) / 2 */
static T *d_exp_below(C *c, T *y, T *g, int i) {
  T *mu = pni_in(y, 0), *v = pni_in(y, 1), *p = density_at_0(c, mu, v);
  double k = y->attr->r[0];
  T *slope = pn_sub(c, pn_mul(c, y, K(k)), p);
  if (i == 0) return pn_mul(c, g, slope);
  T *safe = pn_where(c, sure(c, v), pni_like(c, v, 1), v), *bend = pn_mul(c, p, pn_div(c, mu, safe));
  return pn_mul(c, g, pn_mul(c, K(0.5), pn_add(c, pn_mul(c, K(k), slope), bend)));
}

/* By the theorems of Bonnet and Price, with h + a in place of h: E = a S_1 + E relu + a Phi(t),
 *   in mu:  2 (E relu + a Phi + a^2 S_2) - 2 E (Phi + a S_1)
 *   in v:   Phi + 2 a^2 S_2 + (a - a^2) p - E (a S_1 + (1 - a) p), p the density at 0, where the slope jumps from a to
 *   1 */
static T *d_elu_variance(C *c, T *y, T *g, int k) {
  T *mu = pni_in(y, 0), *v = pni_in(y, 1), *above = chance_above(c, mu, v), *p = density_at_0(c, mu, v);
  double a = y->attr->r[0];
  T *s1 = pn_mul(c, K(a), below_of(c, mu, v, 1)), *s2 = pn_mul(c, K(a * a), below_of(c, mu, v, 2));
  T *r = relu_mean(c, mu, v), *up = pn_mul(c, K(a), above), *mean = pn_add(c, pn_add(c, s1, r), up);
  if (k == 0) {
    T *square = pn_add(c, pn_add(c, r, up), s2);
    return pn_mul(c, g, pn_mul(c, K(2), pn_sub(c, square, pn_mul(c, mean, pn_add(c, above, s1)))));
  }
  T *square = pn_add(c, pn_add(c, above, pn_mul(c, K(2), s2)), pn_mul(c, K(a - a * a), p));
  return pn_mul(c, g, pn_sub(c, square, pn_mul(c, mean, pn_add(c, s1, pn_mul(c, K(1 - a), p)))));
}
#undef K

#define ROW(id, f, d, takes, text)                                                                                     \
  const pni_op pni_nn_op_##id = {.name = #id,                                                                          \
                                 .args = takes,                                                                        \
                                 .doc = text,                                                                          \
                                 .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,                                          \
                                 .domain = {{-2, 2}, {0.2, 3}},                                                        \
                                 .map = (const pni_map_kernel[4]){f##_f64, f##_f32},                                   \
                                 .vjp = d};
ROW(relu_mean, mean_of_relu, d_relu_mean, "mean:t variance:t", "mean of max(x, 0) for normal x")
ROW(relu_variance, variance_of_relu, d_relu_variance, "mean:t variance:t", "variance of max(x, 0) for normal x")
ROW(exp_below, mean_of_exp, d_exp_below, "mean:t variance:t k:n", "E[e^(k x); x < 0] for normal x, k = 0, 1, 2")
ROW(elu_variance, variance_of_elu, d_elu_variance, "mean:t variance:t alpha:n",
    "variance of x where x > 0, alpha (e^x - 1) elsewhere, for normal x")
#undef ROW
