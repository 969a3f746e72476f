/*
** op_gamma.c: quantiles and draws of the gamma distribution as operations. A draw is a node: its gradient is
** implicit, dx/da = -(dP(a, x)/da) / p(x) (Figurnov, Mohamed & Mnih 2018). Second derivatives in a would need
** d^2 P/da^2, for which there is no closed form: a named error.
*/
#include <math.h>
#include "../random_source.h"
#include "../../math/special.h"
#include "../../tensor/kernel/map_loop.h"

typedef pn_tensor T;
typedef pn_context C;

/* ---- gammaincinv ---- */

static PNI_LOOP2(gammaincinv_f64, double, double,
                 pni_gammaincinv(x, y)) static PNI_LOOP2(gammaincinv_f32, float, float,
                                                         pni_gammaincinv((double)x, (double)y))

    /* dx/dp = 1 / p(x), dx/da = -(dP/da) / p(x) */
    static T *vjp_gammaincinv(C *c, T *y, T *g, int k) {
  T *a = pni_in(y, 0), *slope = pn_exp(c, pn_neg(c, pni_apply2(c, &pni_op_log_gamma_density, a, y, NULL)));
  if (k == 0) slope = pn_neg(c, pn_mul(c, slope, pn_gammainc_grad_a(c, a, y)));
  return pn_mul(c, g, slope);
}

pn_tensor *pn_gammaincinv(pn_context *c, pn_tensor *a, pn_tensor *p) {
  return pni_apply2(c, &pni_op_gammaincinv, a, p, NULL);
}

const pni_op pni_op_gammaincinv = {.name = "gammaincinv",
                                   .args = "a:t p:t",
                                   .doc = "x with P(a, x) = p, the quantile of Gamma(a, 1)",
                                   .flags = PNI_OP_ELEMENTWISE | PNI_OP_ONCE,
                                   .domain = {{0.5, 4}, {0.1, 0.9}},
                                   .map = (const pni_map_kernel[4]){gammaincinv_f64, gammaincinv_f32},
                                   .vjp = vjp_gammaincinv};

/* ---- gammaincc and its inverse ---- */

static PNI_LOOP2(gammaincc_f64, double, double,
                 pni_gammaincc(x, y)) static PNI_LOOP2(gammaincc_f32, float, float, pni_gammaincc((double)x, (double)y))

    /* dQ/dx = -density, dQ/da = -dP/da */
    static T *vjp_gammaincc(C *c, T *y, T *g, int k) {
  T *a = pni_in(y, 0), *x = pni_in(y, 1);
  if (k == 0) return pn_neg(c, pn_mul(c, g, pn_gammainc_grad_a(c, a, x)));
  return pn_neg(c, pn_mul(c, g, pn_exp(c, pni_apply2(c, &pni_op_log_gamma_density, a, x, NULL))));
}

pn_tensor *pn_gammaincc(pn_context *c, pn_tensor *a, pn_tensor *x) {
  return pni_apply2(c, &pni_op_gammaincc, a, x, NULL);
}

const pni_op pni_op_gammaincc = {.name = "gammaincc",
                                 .args = "a:t x:t",
                                 .doc = "Q(a, x) = 1 - P(a, x), the regularised upper incomplete gamma function",
                                 .flags = PNI_OP_ELEMENTWISE | PNI_OP_ONCE,
                                 .domain = {{0.3, 4}, {0.2, 5}},
                                 .map = (const pni_map_kernel[4]){gammaincc_f64, gammaincc_f32},
                                 .vjp = vjp_gammaincc};

static PNI_LOOP2(gammainccinv_f64, double, double,
                 pni_gammainccinv(x, y)) static PNI_LOOP2(gammainccinv_f32, float, float,
                                                          pni_gammainccinv((double)x, (double)y))

    /* as of gammaincinv, with dx/dq = -dx/dp */
    static T *vjp_gammainccinv(C *c, T *y, T *g, int k) {
  T *slope = vjp_gammaincinv(c, y, g, k);
  return k ? pn_neg(c, slope) : slope;
}

pn_tensor *pn_gammainccinv(pn_context *c, pn_tensor *a, pn_tensor *q) {
  return pni_apply2(c, &pni_op_gammainccinv, a, q, NULL);
}

const pni_op pni_op_gammainccinv = {.name = "gammainccinv",
                                    .args = "a:t q:t",
                                    .doc = "x with Q(a, x) = q, exact for small q",
                                    .flags = PNI_OP_ELEMENTWISE | PNI_OP_ONCE,
                                    .domain = {{0.5, 4}, {0.1, 0.9}},
                                    .map = (const pni_map_kernel[4]){gammainccinv_f64, gammainccinv_f32},
                                    .vjp = vjp_gammainccinv};

/* ---- log_gamma_slope: dz/da at z = log x ---- */

static PNI_LOOP2(slope_f64, double, double,
                 pni_log_gamma_slope(x, y)) static PNI_LOOP2(slope_f32, float, float,
                                                             pni_log_gamma_slope((double)x, (double)y))

    /* With s = -(dP/da) / (x p): ds/dz = -(z - digamma a) - s (a - x). */
    static T *vjp_slope(C *c, T *y, T *g, int k) {
  T *a = pni_in(y, 0), *z = pni_in(y, 1);
  if (k == 0) {
    pni_fail(c, PN_MISSING, "log_gamma_slope: has no derivative in a (gamma draws are differentiable once)");
    return NULL;
  }
  T *pull = pn_mul(c, y, pn_sub(c, a, pn_exp(c, z)));
  return pn_neg(c, pn_mul(c, g, pn_add(c, pn_sub(c, z, pn_digamma(c, a)), pull)));
}

const pni_op pni_op_log_gamma_slope = {
    .name = "log_gamma_slope",
    .args = "a:t z:t",
    .doc = "dz/da at fixed P(a, e^z), the implicit derivative of the log of a gamma draw; differentiable in z only",
    .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
    .domain = {{0.3, 4}, {-2, 1.5}},
    .map = (const pni_map_kernel[4]){slope_f64, slope_f32},
    .vjp = vjp_slope};

/* ---- log_gamma_draw: attr i[0] key, i[1] position of element 0 ---- */

typedef struct {
  uint64_t key, position;
  const pn_tensor *a;
  pn_tensor *out;
} draws;

static void draw_shard(void *data, int64_t begin, int64_t end) {
  const draws *w = data;
  const void *a = pni_data(w->a);
  void *out = pni_data(w->out);
  bool in_double = w->out->dtype == PN_FLOAT64;
  if (in_double) {
    pni_fill_gamma(w->key, w->position + (uint64_t)begin, (uint64_t)(end - begin), (const double *)a + begin,
                   (double *)out + begin, false);
    return;
  }
  double z[256];
  for (int64_t i = begin; i < end; i += 256) {
    int64_t n = end - i < 256 ? end - i : 256;
    for (int64_t j = 0; j < n; j++) z[j] = (double)((const float *)a)[i + j];
    pni_fill_gamma(w->key, w->position + (uint64_t)i, (uint64_t)n, z, z, false);
    for (int64_t j = 0; j < n; j++) ((float *)out)[i + j] = (float)z[j];
  }
}

static pn_status eval_draw(pn_context *c, const pni_call *call, pn_tensor *out) {
  draws w = {(uint64_t)call->attr->i[0], (uint64_t)call->attr->i[1], pni_contiguous(c, call->in[0]), out};
  if (!w.a) return c->status;
  pni_parallel(c, out->numel, 1024, draw_shard, &w);
  pn_tensor_unref((pn_tensor *)w.a);
  return c->status;
}

static T *vjp_draw(C *c, T *y, T *g, int k) {
  return pn_mul(c, g, pni_apply2(c, &pni_op_log_gamma_slope, pni_in(y, k), y, NULL));
}

pn_tensor *pn_log_gamma_draw(pn_context *c, pn_rng *rng, pn_tensor *a) {
  if (!PNI_GIVEN(c, "log_gamma_draw", a)) return NULL;
  uint64_t positions = pni_fill_positions(PNI_FILL_SCALAR, (uint64_t)a->numel);
  return pni_draw_apply(c, &pni_op_log_gamma_draw, rng, positions, 1, &a, &(pni_attr){.ni = 2});
}

const pni_op pni_op_log_gamma_draw = {
    .name = "log_gamma_draw",
    .args = "a:t key:i position:i",
    .doc = "log of a Gamma(a, 1) draw per element, Marsaglia & Tsang (2000); implicit gradient in a, once",
    .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN | PNI_OP_ONCE | PNI_OP_DRAW,
    .domain = {{0.3, 4}},
    .eval = eval_draw,
    .vjp = vjp_draw};
