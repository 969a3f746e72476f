/*
** op_density.c: what variational objectives evaluate for every element of large tensors, one pass each.
**
** The log mass of a Bernoulli variable given by logits and its derivative. With x in {0, 1} and s = 2 x - 1,
**   log p(x) = log_sigmoid(s l),  d log p / d l = s sigmoid(-s l) = x - sigmoid(l)
** (the first form of the derivative keeps its digits in both tails). Any other x has log p = -inf (NaN: NaN) and
** derivative 0.
**
** The divergence of normals from one prior around zero, summed over all elements: with log s and prior scale p,
**   KL(normal(m, s) | normal(0, p)) = (s^2 + m^2) / (2 p^2) - log s + log p - 1/2
**
** A variance from the logarithm of a scale, e^(2 log s), and a draw from mean, variance and noise, m + sqrt(v) e.
*/
#include <math.h>
#include <string.h>
#include "density.h"
#include "density_kernel.h"
#include "distribution_op.h"

/* Other x turn l into -inf, whose log_sigmoid is -inf, NaN stays. */
#define KERNELS(T, suffix)                                                                                             \
  PNI_EACH_LEVEL(turn_##suffix, (const T *restrict x, const T *restrict l, T *restrict out, int64_t n),                \
                 (x, l, out, n)) {                                                                                     \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      T v = x[i], e = l[i], d = -e, none = v == v ? -(T)INFINITY : v;                                                  \
      d = v == 0 ? d : none;                                                                                           \
      out[i] = v == 1 ? e : d;                                                                                         \
    }                                                                                                                  \
  }                                                                                                                    \
  static void mass_##suffix(const pni_piece *p, void *out) {                                                           \
    T turned[PNI_KERNEL_PIECE];                                                                                        \
    turn_##suffix(p->in[0], p->in[1], turned, p->n);                                                                   \
    pni_vector_##suffix(PNI_VECTOR_log_sigmoid, turned, 1, out, p->n);                                                 \
  }                                                                                                                    \
  static void score_##suffix(const pni_piece *p, void *out) {                                                          \
    pni_mass_slopes_##suffix(p->in[0], p->in[1], 1, out, p->n);                                                        \
  }
KERNELS(double, f64)
KERNELS(float, f32)
#undef KERNELS

PNI_DENSITY_VALUE(mass, .inputs = 2, .value = {mass_f64, mass_f32})
PNI_DENSITY_VALUE(score, .inputs = 2, .value = {score_f64, score_f32})

/* Without slope in x: between 0 and 1 there is no mass. */
static pn_tensor *vjp_mass(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  if (k == 0) return pni_like(c, y, 0);
  return pn_mul(c, g, pni_apply2(c, &pni_distribution_op_bernoulli_score, pni_in(y, 0), pni_in(y, 1), NULL));
}

/* d score / dl = -sigmoid(l) sigmoid(-l) = -|score| (1 - |score|), also 0 outside */
static pn_tensor *vjp_score(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  if (k == 0) return pn_mul(c, g, pni_like(c, y, 0));
  pn_tensor *size = pn_abs(c, y);
  return pn_mul(c, g, pn_mul(c, size, pn_sub(c, size, pni_like(c, y, 1))));
}

#define ROW(id, f, d, text, ...)                                                                                       \
  const pni_op pni_distribution_op_##id = {.name = #id,                                                                \
                                           .args = "x:t logits:t",                                                     \
                                           .doc = text,                                                                \
                                           .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,                                \
                                           .map = f##_map,                                                             \
                                           .vjp = d,                                                                   \
                                           __VA_ARGS__};
ROW(bernoulli_log_mass, mass, vjp_mass, "log probability of x in {0, 1} with log odds `logits`; elsewhere -inf",
    .advice = PNI_BERNOULLI_ADVICE)
ROW(bernoulli_score, score, vjp_score, "derivative of that in the logits: x - sigmoid(logits); elsewhere 0",
    .advice = NULL)

/* ---- divergence ---- */

/* Terms of a piece in the type, their sum in lanes of double. */
#define DIVERGENCE(T, suffix)                                                                                          \
  PNI_EACH_LEVEL(                                                                                                      \
      terms_##suffix,                                                                                                  \
      (const T *restrict m, const T *restrict log_s, T *restrict e, int64_t n, T half, double *restrict lane),         \
      (m, log_s, e, n, half, lane)) {                                                                                  \
    for (int64_t i = 0; i < n; i++) e[i] = (e[i] + m[i] * m[i]) * half - log_s[i];                                     \
    for (int64_t i = n; i % 8; i++) e[i] = 0;                                                                          \
    for (int64_t i = 0; i < n; i += 8)                                                                                 \
      for (int k = 0; k < 8; k++) lane[k] += (double)e[i + k];                                                         \
  }                                                                                                                    \
  PNI_EACH_LEVEL(twice_##suffix, (const T *x, T *out, int64_t n), (x, out, n)) {                                       \
    for (int64_t i = 0; i < n; i++) out[i] = 2 * x[i];                                                                 \
  }                                                                                                                    \
  PNI_EACH_LEVEL(slope_##suffix, (T * out, int64_t n, T scale), (out, n, scale)) {                                     \
    for (int64_t i = 0; i < n; i++) out[i] = out[i] * scale - 1;                                                       \
  }                                                                                                                    \
  static double divergence_##suffix(const T *m, const T *log_s, int64_t n, double prior) {                             \
    double lane[8] = {0};                                                                                              \
    const T half = (T)(0.5 / (prior * prior));                                                                         \
    for (int64_t at = 0; at < n; at += PNI_KERNEL_PIECE, m += PNI_KERNEL_PIECE, log_s += PNI_KERNEL_PIECE) {           \
      T twice[PNI_KERNEL_PIECE], e[PNI_KERNEL_PIECE + 8];                                                              \
      int64_t size = n - at < PNI_KERNEL_PIECE ? n - at : PNI_KERNEL_PIECE;                                            \
      twice_##suffix(log_s, twice, size);                                                                              \
      pni_vector_##suffix(PNI_VECTOR_exp, twice, 1, e, size);                                                          \
      terms_##suffix(m, log_s, e, size, half, lane);                                                                   \
    }                                                                                                                  \
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));                  \
  }                                                                                                                    \
  static void divergence_slope_##suffix(const pni_piece *p, void *out) {                                               \
    T twice[PNI_KERNEL_PIECE];                                                                                         \
    twice_##suffix(p->in[0], twice, p->n);                                                                             \
    pni_vector_##suffix(PNI_VECTOR_exp, twice, 1, out, p->n);                                                          \
    slope_##suffix(out, p->n, (T)(1 / (*p->real * *p->real)));                                                         \
  }                                                                                                                    \
  static void variance_##suffix(const pni_piece *p, void *out) {                                                       \
    T twice[PNI_KERNEL_PIECE];                                                                                         \
    twice_##suffix(p->in[0], twice, p->n);                                                                             \
    pni_vector_##suffix(PNI_VECTOR_exp, twice, 1, out, p->n);                                                          \
  }
DIVERGENCE(double, f64)
DIVERGENCE(float, f32)
#undef DIVERGENCE

PNI_DENSITY_VALUE(divergence_slope, .inputs = 1, .value = {divergence_slope_f64, divergence_slope_f32})
PNI_DENSITY_VALUE(variance, .inputs = 1, .value = {variance_f64, variance_f32})

static pn_status infer_divergence(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *m = call->in[0], *s = call->in[1];
  char a[PNI_SHAPE_TEXT], b[PNI_SHAPE_TEXT];
  if (m->ndim != s->ndim || memcmp(m->shape, s->shape, (size_t)m->ndim * sizeof *m->shape) != 0)
    return pni_fail(c, PN_SHAPE, "normal_divergence: shapes must be equal, got %s and %s",
                    pni_shape_text(m->ndim, m->shape, a), pni_shape_text(s->ndim, s->shape, b));
  *out = (pni_spec){.dtype = m->dtype};
  return PN_OK;
}

static pn_status eval_divergence(pn_context *c, const pni_call *call, pn_tensor *out) {
  pn_tensor *m = pni_contiguous(c, call->in[0]), *s = pni_contiguous(c, call->in[1]);
  double prior = call->attr->r[0];
  if (m && s) {
    double constant = (double)m->numel * (log(prior) - 0.5);
    if (out->dtype == PN_FLOAT64)
      *(double *)pni_data(out) = constant + divergence_f64(pni_data(m), pni_data(s), m->numel, prior);
    else
      *(float *)pni_data(out) = (float)(constant + divergence_f32(pni_data(m), pni_data(s), m->numel, prior));
  }
  pn_tensor_unref(m);
  pn_tensor_unref(s);
  return c->status;
}

/* d / dm = m / p^2, d / d log s = s^2 / p^2 - 1 */
static pn_tensor *vjp_divergence(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  double prior = y->attr->r[0];
  if (k == 0) return pn_mul(c, pni_in(y, 0), pn_mul(c, g, pni_like(c, g, 1 / (prior * prior))));
  return pn_mul(c, pni_apply1(c, &pni_distribution_op_normal_divergence_slope, pni_in(y, 1), y->attr), g);
}

static pn_tensor *vjp_slope(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  return pn_mul(c, g, pn_mul(c, pn_add(c, y, pni_like(c, y, 1)), pni_like(c, y, 2)));
}

const pni_op pni_distribution_op_normal_divergence = {
    .name = "normal_divergence",
    .args = "loc:t log_scale:t prior:n",
    .doc = "KL(normal(loc, e^log_scale) | normal(0, prior)) summed over all elements",
    .flags = PNI_OP_HIDDEN,
    .infer = infer_divergence,
    .eval = eval_divergence,
    .vjp = vjp_divergence};

const pni_op pni_distribution_op_normal_divergence_slope = {
    .name = "normal_divergence_slope",
    .args = "log_scale:t prior:n",
    .doc = "derivative of that in log_scale: e^(2 log_scale) / prior^2 - 1",
    .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
    .map = divergence_slope_map,
    .vjp = vjp_slope};

/* ---- variances and draws ---- */

#define DRAW(T, suffix, root)                                                                                          \
  PNI_EACH_LEVEL(add_noise_##suffix,                                                                                   \
                 (const T *restrict m, const T *restrict v, const T *restrict e, T *restrict out, int64_t n),          \
                 (m, v, e, out, n)) {                                                                                  \
    for (int64_t i = 0; i < n; i++) out[i] = m[i] + root(v[i]) * e[i];                                                 \
  }                                                                                                                    \
  PNI_EACH_LEVEL(share_noise_##suffix,                                                                                 \
                 (const T *restrict g, const T *restrict v, const T *restrict e, T *restrict out, int64_t n),          \
                 (g, v, e, out, n)) {                                                                                  \
    for (int64_t i = 0; i < n; i++) out[i] = g[i] * e[i] / (2 * root(v[i]));                                           \
  }                                                                                                                    \
  static void draw_##suffix(const pni_piece *p, void *out) {                                                           \
    add_noise_##suffix(p->in[0], p->in[1], p->in[2], out, p->n);                                                       \
  }                                                                                                                    \
  static void draw_slope_##suffix(const pni_piece *p, void *out) {                                                     \
    share_noise_##suffix(p->in[0], p->in[1], p->in[2], out, p->n);                                                     \
  }
DRAW(double, f64, sqrt)
DRAW(float, f32, sqrtf)
#undef DRAW

PNI_DENSITY_VALUE(draw, .inputs = 3, .value = {draw_f64, draw_f32})
PNI_DENSITY_VALUE(draw_slope, .inputs = 3, .value = {draw_slope_f64, draw_slope_f32})

static pn_tensor *vjp_variance(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  return pn_mul(c, pn_mul(c, g, y), pni_like(c, y, 2));
}

static pn_status infer_three(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *m = call->in[0];
  char a[PNI_SHAPE_TEXT], b[PNI_SHAPE_TEXT];
  *out = pni_spec_of(m);
  for (int k = 1; k < 3; k++) {
    const pn_tensor *t = call->in[k];
    if (t->ndim != m->ndim || memcmp(t->shape, m->shape, (size_t)m->ndim * sizeof *m->shape) != 0)
      return pni_fail(c, PN_SHAPE, "%s: shapes must be equal, got %s and %s", call->op->name,
                      pni_shape_text(m->ndim, m->shape, a), pni_shape_text(t->ndim, t->shape, b));
  }
  return PN_OK;
}

static pn_tensor *three(pn_context *c, const pni_op *op, pn_tensor *a, pn_tensor *b, pn_tensor *d) {
  return pni_apply(c, op, 3, (pn_tensor *[]){a, b, d}, NULL);
}

static pn_tensor *vjp_draw(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  pn_tensor *v = pni_in(y, 1);
  if (k == 0) return g;
  return k == 1 ? three(c, &pni_distribution_op_normal_draw_slope, g, v, pni_in(y, 2)) : pn_mul(c, g, pn_sqrt(c, v));
}

/* of y = a e / (2 sqrt v), in a, v and e */
static pn_tensor *vjp_draw_slope(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  pn_tensor *v = pni_in(y, 1);
  if (k == 1) return pn_div(c, pn_mul(c, pn_mul(c, g, y), pni_like(c, y, -0.5)), v);
  return three(c, &pni_distribution_op_normal_draw_slope, g, v, pni_in(y, k == 0 ? 2 : 0));
}

const pni_op pni_distribution_op_log_scale_variance = {.name = "log_scale_variance",
                                                       .args = "log_scale:t",
                                                       .doc = "e^(2 log_scale)",
                                                       .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                                                       .map = variance_map,
                                                       .vjp = vjp_variance};

const pni_op pni_distribution_op_normal_draw = {.name = "normal_draw",
                                                .args = "mean:t variance:t noise:t",
                                                .doc = "mean + sqrt(variance) noise, three tensors of one shape",
                                                .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                                                .infer = infer_three,
                                                .map = draw_map,
                                                .vjp = vjp_draw};

const pni_op pni_distribution_op_normal_draw_slope = {
    .name = "normal_draw_slope",
    .args = "g:t variance:t noise:t",
    .doc = "the gradient of that in the variance: g noise / (2 sqrt(variance))",
    .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
    .infer = infer_three,
    .map = draw_slope_map,
    .vjp = vjp_draw_slope};
