/*
** op_rectified_moments.c: mean and variance of rectified normal numbers, x ~ N(mu, v), sigma = sqrt(v), t = mu / sigma,
** for networks that propagate moments (central limit theorem: sums of many weights are normal):
**   relu_mean       E[max(x, 0)] = mu Phi(t) + sigma phi(t)
**   relu_variance   of max(x, 0)
**   relu_slope      their slopes in mu and v
**   relu_moments    both at once
**   exp_below       S_k = E[e^(k x); x < 0] = e^(k mu + k^2 v / 2) Phi(-(mu + k v) / sigma), k = 0, 1, 2
**   elu_variance    of x where x > 0, a (e^x - 1) elsewhere
** With s = |t|, r the part of x on the other side of 0 than its mean, and Mills' ratio m(s) = Phi(-s) / phi(s),
**   E r = sigma phi(s) (1 - s m),  E r^2 = v phi(s) ((1 + s^2) m - s),  E[max(x, 0)] = max(mu, 0) + E r,
**   variance = E r^2 - (E r)^2 for mu <= 0, v - E r^2 - E r (E r + 2 mu) for mu > 0,
** so that both tails keep their digits. A variance of 0 is a number without doubt: the function itself, variance 0.
*/
#include <math.h>
#include "../../math/special.h"
#include "../recurrent/nn_op.h"
#include "rectified.h"

typedef pn_tensor T;
typedef pn_context C;

static const double root_half = 0.70710678118654752440;
static const double root_two_pi_inverse = 0.39894228040143267794;

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
  double sigma = sqrt(v), t = mu / sigma;
  if (v == 0) return mu == mu ? 0 : mu;
  pni_rectified part;
  pni_rectified_parts_f64(&mu, &v, 1, &part);
  double r = sigma * part.first[0], r2 = v * part.second[0], mean = (mu > 0 ? mu : 0) + r;
  double square = mu > 0 ? v + mu * mu - r2 : r2, s1 = below(mu, v, 1), s2 = below(mu, v, 2);
  if (t > 9) return v - r2 - r * (r + 2 * mu);
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

enum { BLOCK = 256 };
#define MAP(name, N, f)                                                                                                \
  static void name(void *data, int64_t n, char *const *p, const int64_t *s) {                                          \
    const N *mu = (const N *)(const void *)p[1], *v = (const N *)(const void *)p[2];                                   \
    double first[BLOCK], second[BLOCK], out[BLOCK];                                                                    \
    for (int64_t at = 0; at < n; at += BLOCK) {                                                                        \
      int64_t size = n - at < BLOCK ? n - at : BLOCK;                                                                  \
      for (int64_t i = 0; i < size; i++) {                                                                             \
        first[i] = (double)mu[(at + i) * s[1]];                                                                        \
        second[i] = (double)v[(at + i) * s[2]];                                                                        \
      }                                                                                                                \
      f(first, second, out, size, data);                                                                               \
      for (int64_t i = 0; i < size; i++) ((N *)(void *)p[0])[at + i] = (N)out[i];                                      \
    }                                                                                                                  \
  }
#define BOTH(f) MAP(f##_f64, double, f) MAP(f##_f32, float, f)
BOTH(mean_of_exp)
BOTH(variance_of_elu)
#undef MAP
#undef BOTH

#define MAP(name, what)                                                                                                \
  static void name##_f64(void *data, int64_t n, char *const *p, const int64_t *s) {                                    \
    (void)data;                                                                                                        \
    pni_rectified_f64(what, n, p, s);                                                                                  \
  }                                                                                                                    \
  static void name##_f32(void *data, int64_t n, char *const *p, const int64_t *s) {                                    \
    (void)data;                                                                                                        \
    pni_rectified_f32(what, n, p, s);                                                                                  \
  }
MAP(mean_of_relu, PNI_RELU_MEAN)
MAP(variance_of_relu, PNI_RELU_VARIANCE)
MAP(slope_of_relu, PNI_RELU_MEAN_SLOPE + (int)*(const int64_t *)data)
#undef MAP

/* ---- derivatives; in v those of a number without doubt are taken as 0 ---- */

#define K(x) (mu ? pni_like(c, mu, x) : NULL)

/* Slope k of the mean, or with 2 + k of the variance, in mu and v. */
static T *slope_of(C *c, T *mu, T *v, int k) {
  return pni_apply2(c, &pni_nn_op_relu_slope, mu, v, &(pni_attr){.ni = 1, .i = {k}});
}
static T *chance_above(C *c, T *mu, T *v) { return slope_of(c, mu, v, 0); }
/* phi(t) / sigma */
static T *density_at_0(C *c, T *mu, T *v) { return pn_mul(c, slope_of(c, mu, v, 1), K(2)); }
/* x / v, where that may be any number if v is 0 */
static T *over(C *c, T *x, T *v) {
  T *sure = pn_eq(c, v, v ? pni_like(c, v, 0) : NULL);
  return pn_div(c, x, pn_where(c, sure, v ? pni_like(c, v, 1) : NULL, v));
}

static T *below_of(C *c, T *mu, T *v, int k) {
  return pni_apply2(c, &pni_nn_op_exp_below, mu, v, &(pni_attr){.r = {k}});
}
static T *relu_mean(C *c, T *mu, T *v) { return pni_apply2(c, &pni_nn_op_relu_mean, mu, v, NULL); }

static T *d_relu_mean(C *c, T *y, T *g, int k) { return pn_mul(c, g, slope_of(c, pni_in(y, 0), pni_in(y, 1), k)); }
static T *d_relu_variance(C *c, T *y, T *g, int k) {
  return pn_mul(c, g, slope_of(c, pni_in(y, 0), pni_in(y, 1), 2 + k));
}

/* With h = p / 2, the slope of Phi(t) in mu is 2 h, in v u = -h mu / v, which is that of h in mu; that of h in v is
 * (-u mu - h) / (2 v). */
static T *d_relu_slope(C *c, T *y, T *g, int k) {
  T *mu = pni_in(y, 0), *v = pni_in(y, 1), *h = slope_of(c, mu, v, 1), *u = pn_neg(c, over(c, pn_mul(c, h, mu), v));
  T *bend = pn_mul(c, K(-0.5), over(c, pn_add(c, pn_mul(c, u, mu), h), v)), *p = pn_mul(c, K(2), h), *d;
  T *above = chance_above(c, mu, v), *below = chance_above(c, pn_neg(c, mu), v), *mean = relu_mean(c, mu, v);
  int what = (int)y->attr->i[0];
  if (what == 0)
    d = k == 0 ? p : u;
  else if (what == 1)
    d = k == 0 ? u : bend;
  else if (what + k == 2) /* 2 (Phi(t) Phi(-t) - E p) */
    d = pn_mul(c, K(2), pn_sub(c, pn_mul(c, above, below), pn_mul(c, mean, p)));
  else if (what + k == 3) /* of 2 E Phi(-t) in v, of Phi(t) - E p in mu: 2 (h Phi(-t) - E u) */
    d = pn_mul(c, K(2), pn_sub(c, pn_mul(c, h, below), pn_mul(c, mean, u)));
  else /* u - h p - 2 E bend */
    d = pn_sub(c, pn_sub(c, u, pn_mul(c, h, p)), pn_mul(c, K(2), pn_mul(c, mean, bend)));
  return pn_mul(c, g, d);
}

/* ---- mean and variance at once ---- */

typedef struct {
  pni_rectified_pair *f;
  const char *mu, *v, *g[2];
  char *out[2];
  int64_t size;
} pair;

static void pair_of(void *data, int64_t begin, int64_t end) {
  const pair *p = data;
  int64_t at = begin * p->size;
  const void *g[2] = {p->g[0] ? p->g[0] + at : NULL, p->g[0] ? p->g[1] + at : NULL};
  p->f(end - begin, p->mu + at, p->v + at, p->g[0] ? g : NULL, (void *[2]){p->out[0] + at, p->out[1] + at});
}

/* [2, ...] from mu, v and, of gradients, those of the same shape. */
static pn_status infer_pair(C *c, const pni_call *call, pni_spec *out) {
  const T *mu = call->in[0];
  pni_spec like = pni_spec_of(mu);
  if (pni_require_like(c, call, 1, &like)) return c->status;
  *out = (pni_spec){.dtype = mu->dtype, .ndim = mu->ndim + 1, .shape = {2}};
  for (int i = 0; i < mu->ndim; i++) out->shape[i + 1] = mu->shape[i];
  return call->nin > 2 ? pni_require_like(c, call, 2, out) : PN_OK;
}

static pn_status eval_pair(C *c, const pni_call *call, T *out) {
  enum { GRAIN = 16384 };
  T *in[3] = {NULL};
  for (int k = 0; k < call->nin && !pni_failed(c); k++) in[k] = pni_contiguous(c, call->in[k]);
  if (!pni_failed(c)) {
    pair p = {.f = out->dtype == PN_FLOAT64 ? pni_rectified_pair_f64 : pni_rectified_pair_f32,
              .size = (int64_t)pni_itemsize(out)};
    int64_t half = out->numel / 2 * p.size;
    p.mu = pni_data(in[0]);
    p.v = pni_data(in[1]);
    for (int k = 0; k < 2; k++) {
      p.out[k] = (char *)pni_data(out) + k * half;
      p.g[k] = in[2] ? (const char *)pni_data(in[2]) + k * half : NULL;
    }
    pni_parallel(c, out->numel / 2, GRAIN, pair_of, &p);
  }
  for (int k = 0; k < 3; k++) pn_tensor_unref(in[k]);
  return c->status;
}

static const pni_op pair_slope = {
    .name = "relu_moments_slope", .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF, .infer = infer_pair, .eval = eval_pair};

static pn_status vjps_pair(C *c, T *y, T *g, const bool *wanted, T **out) {
  T *all = pni_apply(c, &pair_slope, 3, (T *[]){pni_in(y, 0), pni_in(y, 1), g}, NULL);
  for (int k = 0; k < 2; k++) out[k] = wanted[k] ? pn_select(c, all, 0, k) : NULL;
  return c->status;
}

static T *vjp_pair(C *c, T *y, T *g, int k) {
  T *mu = pni_in(y, 0), *v = pni_in(y, 1), *of_mean = pn_mul(c, pn_select(c, g, 0, 0), slope_of(c, mu, v, k));
  return pn_add(c, of_mean, pn_mul(c, pn_select(c, g, 0, 1), slope_of(c, mu, v, 2 + k)));
}

const pni_op pni_nn_op_relu_moments = {.name = "relu_moments",
                                       .args = "mean:t variance:t",
                                       .doc = "mean and variance of max(x, 0) for normal x, [2, ...]",
                                       .flags = PNI_OP_HIDDEN,
                                       .domain = {{-2, 2}, {0.2, 3}},
                                       .infer = infer_pair,
                                       .eval = eval_pair,
                                       .vjp = vjp_pair,
                                       .vjps = vjps_pair};

/* With p the density at 0:  k S_k - p,  (k^2 S_k - k p + p mu / v) / 2 */
static T *d_exp_below(C *c, T *y, T *g, int i) {
  T *mu = pni_in(y, 0), *v = pni_in(y, 1), *p = density_at_0(c, mu, v);
  double k = y->attr->r[0];
  T *slope = pn_sub(c, pn_mul(c, y, K(k)), p);
  if (i == 0) return pn_mul(c, g, slope);
  T *bend = pn_mul(c, p, over(c, mu, v));
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
ROW(relu_slope, slope_of_relu, d_relu_slope, "mean:t variance:t of:i",
    "slopes of the mean of max(x, 0) for normal x in its mean and variance (0, 1), and of the variance (2, 3)")
ROW(exp_below, mean_of_exp, d_exp_below, "mean:t variance:t k:n", "E[e^(k x); x < 0] for normal x, k = 0, 1, 2")
ROW(elu_variance, variance_of_elu, d_elu_variance, "mean:t variance:t alpha:n",
    "variance of x where x > 0, alpha (e^x - 1) elsewhere, for normal x")
#undef ROW
