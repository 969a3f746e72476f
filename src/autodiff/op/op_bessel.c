/*
** op_bessel.c: modified Bessel functions and the von Mises distribution around 0 as operations. A draw is a node whose
** gradient is implicit, dz/dk = -(dF/dk) / p(z) (Figurnov, Mohamed & Mnih 2018), by quadrature; once only.
*/
#include <math.h>
#include "../random_source.h"
#include "../../math/special.h"
#include "../../tensor/kernel/map_loop.h"
#include "../../math/vector/vector.h"

typedef pn_tensor T;
typedef pn_context C;
#define IN      pni_in(y, 0)
#define LIKE(v) pni_like(c, y, v)

/* ---- e^-|x| I_n(x) ---- */

static PNI_LOOP1(ive_f64, double, double,
                 pni_ive(pni_whole_order(data), x)) static PNI_LOOP1(ive_f32, float, float,
                                                                     pni_ive(pni_whole_order(data), (double)x))

    /* The derivative of I_n, (I_(n-1) + I_(n+1)) / 2, nearly cancels with the factor's: the slope is a row of its
     * own. */
    static T *ive_slope(C *c, T *x, int64_t n, int64_t order) {
  return pni_apply1(c, &pni_op_ive_slope, x, &(pni_attr){.ni = 2, .i = {n, order}});
}
static T *vjp_ive(C *c, T *y, T *g, int k) {
  return (void)k, pn_mul(c, g, ive_slope(c, IN, y->attr->i[0], y->op == &pni_op_ive ? 1 : y->attr->i[1] + 1));
}

pn_tensor *pn_ive(pn_context *c, int n, pn_tensor *x) {
  if (n < 0) {
    pni_fail(c, PN_DOMAIN, "ive: n must not be negative, got %d", n);
    return NULL;
  }
  return pni_apply1(c, &pni_op_ive, x, &(pni_attr){.ni = 1, .i = {n}});
}

const pni_op pni_op_ive = {.name = "ive",
                           .args = "x:t n:i=0",
                           .doc = "e^-|x| I_n(x), the scaled modified Bessel function of order n >= 0",
                           .flags = PNI_OP_ELEMENTWISE,
                           .domain = {{0.1, 5}},
                           .map = (const pni_map_kernel[4]){ive_f64, ive_f32},
                           .vjp = vjp_ive};

#define ORDER ((const int64_t *)data)
static PNI_LOOP1(ive_slope_f64, double, double,
                 pni_ive_slope((int)ORDER[1], pni_whole_order(data),
                               x)) static PNI_LOOP1(ive_slope_f32, float, float,
                                                    pni_ive_slope((int)ORDER[1], pni_whole_order(data), (double)x))

    const pni_op pni_op_ive_slope = {.name = "ive_slope",
                                     .args = "x:t n:i order:i",
                                     .doc = "derivative of ive(x, n) of an order",
                                     .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                                     .domain = {{0.1, 5}},
                                     .map = (const pni_map_kernel[4]){ive_slope_f64, ive_slope_f32},
                                     .vjp = vjp_ive};

/* ---- log I_0 ---- */

#define VECTOR(name, N, suffix)                                                                                        \
  static void name##_##suffix(void *data, int64_t n, char *const *p, const int64_t *s) {                               \
    (void)data;                                                                                                        \
    pni_vector_##suffix(PNI_VECTOR_##name, (const N *)(const void *)p[1], s[1], (N *)(void *)p[0], n);                 \
  }
VECTOR(log_i0, double, f64)
VECTOR(log_i0, float, f32)
VECTOR(log_i0e, double, f64)
VECTOR(log_i0e, float, f32)
VECTOR(bessel_gap, double, f64)
VECTOR(bessel_gap, float, f32)

/* I_1 / I_0, whose own slope is that of 1 - gap(|x|), exact for large x */
static T *vjp_log_i0(C *c, T *y, T *g, int k) {
  return (void)k, pn_mul(c, g, pni_apply1(c, &pni_op_bessel_ratio, IN, NULL));
}

pn_tensor *pn_log_i0(pn_context *c, pn_tensor *x) { return pni_apply1(c, &pni_op_log_i0, x, NULL); }

const pni_op pni_op_log_i0 = {.name = "log_i0",
                              .args = "x:t",
                              .doc = "log of the modified Bessel function I_0(x)",
                              .flags = PNI_OP_ELEMENTWISE,
                              .domain = {{-5, 5}},
                              .map = (const pni_map_kernel[4]){log_i0_f64, log_i0_f32},
                              .vjp = vjp_log_i0};

static T *vjp_log_i0e(C *c, T *y, T *g, int k) { return (void)k, pn_neg(c, pn_mul(c, g, pn_bessel_gap(c, IN))); }

pn_tensor *pn_log_i0e(pn_context *c, pn_tensor *x) { return pni_apply1(c, &pni_op_log_i0e, x, NULL); }

const pni_op pni_op_log_i0e = {.name = "log_i0e",
                               .args = "x:t",
                               .doc = "log(e^-x I_0(x)), x >= 0",
                               .flags = PNI_OP_ELEMENTWISE,
                               .domain = {{0.1, 5}},
                               .map = (const pni_map_kernel[4]){log_i0e_f64, log_i0e_f32},
                               .vjp = vjp_log_i0e};

/* ---- 1 - I_1 / I_0; attr i[0]: the derivative ---- */

static PNI_LOOP1(slope_gap_f64, double, double, pni_bessel_gap((int)*(const int64_t *)data, x)) static PNI_LOOP1(
    slope_gap_f32, float, float, pni_bessel_gap((int)*(const int64_t *)data, (double)x))

    static void gap_f64(void *data, int64_t n, char *const *p, const int64_t *s) {
  (*(const int64_t *)data ? slope_gap_f64 : bessel_gap_f64)(data, n, p, s);
}
static void gap_f32(void *data, int64_t n, char *const *p, const int64_t *s) {
  (*(const int64_t *)data ? slope_gap_f32 : bessel_gap_f32)(data, n, p, s);
}

static T *gap(C *c, T *x, int64_t order) {
  return pni_apply1(c, &pni_op_bessel_gap, x, &(pni_attr){.ni = 1, .i = {order}});
}

static T *vjp_gap(C *c, T *y, T *g, int k) {
  (void)k;
  if (y->attr->i[0] < 3) return pn_mul(c, g, gap(c, IN, y->attr->i[0] + 1));
  pni_fail(c, PN_MISSING, "bessel_gap: has no derivative of order 4");
  return NULL;
}

pn_tensor *pn_bessel_gap(pn_context *c, pn_tensor *x) { return gap(c, x, 0); }

static PNI_LOOP1(ratio_f64, double, double, pni_bessel_ratio(x)) static PNI_LOOP1(ratio_f32, float, float,
                                                                                  pni_bessel_ratio((double)x))

    static T *vjp_ratio(C *c, T *y, T *g, int k) {
  return (void)k, pn_neg(c, pn_mul(c, g, gap(c, pn_abs(c, IN), 1)));
}

const pni_op pni_op_bessel_ratio = {.name = "bessel_ratio",
                                    .args = "x:t",
                                    .doc = "I_1(x) / I_0(x)",
                                    .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                                    .domain = {{0.1, 5}},
                                    .map = (const pni_map_kernel[4]){ratio_f64, ratio_f32},
                                    .vjp = vjp_ratio};

const pni_op pni_op_bessel_gap = {
    .name = "bessel_gap",
    .args = "x:t order:i=0",
    .doc = "1 - I_1(x) / I_0(x), x >= 0, and its derivatives of order 1 to 3: a von Mises distribution's variance",
    .flags = PNI_OP_ELEMENTWISE,
    .domain = {{0.1, 5}},
    .map = (const pni_map_kernel[4]){gap_f64, gap_f32},
    .vjp = vjp_gap};

/* ---- von Mises around 0 ---- */

static PNI_LOOP2(slope_f64, double, double,
                 pni_von_mises_slope(x, y)) static PNI_LOOP2(slope_f32, float, float,
                                                             pni_von_mises_slope((double)x, (double)y))

    static T *slope(C *c, T *concentration, T *z) {
  return pni_apply2(c, &pni_op_von_mises_slope, concentration, z, NULL);
}

/* 2 sin(z / 2)^2 = 1 - cos z */
static T *rise(C *c, T *z) {
  return pn_mul(c, pn_square(c, pn_sin(c, pn_mul(c, z, pni_like(c, z, 0.5)))), pni_like(c, z, 2));
}

/* e^-(k (1 - cos z)) / (2 pi e^-k I_0(k)), and its reciprocal */
static T *log_density(C *c, T *concentration, T *z) {
  T *norm = pn_add(c, pn_log_i0e(c, concentration), pni_like(c, z, 1.83787706640934548356)); /* log(2 pi) */
  return pn_neg(c, pn_add(c, pn_mul(c, concentration, rise(c, z)), norm));
}

/* s = -(dF/dk) / p: ds/dz = -(cos z - I_1/I_0) + s k sin z */
static T *vjp_slope(C *c, T *y, T *g, int k) {
  T *concentration = pni_in(y, 0), *z = pni_in(y, 1);
  if (k == 0) {
    pni_fail(c, PN_MISSING, "von_mises_slope: has no derivative in concentration (draws are differentiable once)");
    return NULL;
  }
  T *pull = pn_mul(c, y, pn_mul(c, concentration, pn_sin(c, z)));
  return pn_mul(c, g, pn_add(c, pn_sub(c, rise(c, z), pn_bessel_gap(c, concentration)), pull));
}

const pni_op pni_op_von_mises_slope = {
    .name = "von_mises_slope",
    .args = "concentration:t z:t",
    .doc = "dz/dk at fixed cdf, the implicit derivative of a von Mises draw; differentiable in z only",
    .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
    .domain = {{0.3, 4}, {-2, 2}},
    .map = (const pni_map_kernel[4]){slope_f64, slope_f32},
    .vjp = vjp_slope};

static PNI_LOOP2(cdf_f64, double, double,
                 pni_von_mises_cdf(x, y)) static PNI_LOOP2(cdf_f32, float, float,
                                                           pni_von_mises_cdf((double)x, (double)y))

    static T *vjp_cdf(C *c, T *y, T *g, int k) {
  T *concentration = pni_in(y, 0), *z = pni_in(y, 1), *density = pn_exp(c, log_density(c, concentration, z));
  return k ? pn_mul(c, g, density) : pn_neg(c, pn_mul(c, g, pn_mul(c, density, slope(c, concentration, z))));
}

pn_tensor *pn_von_mises_cdf(pn_context *c, pn_tensor *concentration, pn_tensor *z) {
  return pni_apply2(c, &pni_op_von_mises_cdf, concentration, z, NULL);
}

const pni_op pni_op_von_mises_cdf = {.name = "von_mises_cdf",
                                     .args = "concentration:t z:t",
                                     .doc = "probability of angles from -pi to z under a von Mises distribution "
                                            "around 0; relative error 5e-13 down to underflow",
                                     .flags = PNI_OP_ELEMENTWISE | PNI_OP_ONCE,
                                     .domain = {{0.3, 4}, {-2, 2}},
                                     .map = (const pni_map_kernel[4]){cdf_f64, cdf_f32},
                                     .vjp = vjp_cdf};

static PNI_LOOP2(icdf_f64, double, double,
                 pni_von_mises_icdf(x, y)) static PNI_LOOP2(icdf_f32, float, float,
                                                            pni_von_mises_icdf((double)x, (double)y))

    static T *vjp_icdf(C *c, T *y, T *g, int k) {
  T *concentration = pni_in(y, 0);
  if (k == 0) return pn_mul(c, g, slope(c, concentration, y));
  return pn_mul(c, g, pn_exp(c, pn_neg(c, log_density(c, concentration, y))));
}

pn_tensor *pn_von_mises_icdf(pn_context *c, pn_tensor *concentration, pn_tensor *p) {
  return pni_apply2(c, &pni_op_von_mises_icdf, concentration, p, NULL);
}

const pni_op pni_op_von_mises_icdf = {.name = "von_mises_icdf",
                                      .args = "concentration:t p:t",
                                      .doc = "angle with von_mises_cdf equal to p",
                                      .flags = PNI_OP_ELEMENTWISE | PNI_OP_ONCE,
                                      .domain = {{0.3, 4}, {0.1, 0.9}},
                                      .map = (const pni_map_kernel[4]){icdf_f64, icdf_f32},
                                      .vjp = vjp_icdf};

/* ---- log probability of an arc; attr i[0]: 0, or 1 for its derivative in the concentration ---- */

#define ARC(N, suffix)                                                                                                 \
  static void log_mass_##suffix(void *data, int64_t n, char *const *p, const int64_t *s) {                             \
    N *out = (N *)(void *)p[0];                                                                                        \
    const N *k = (const N *)(const void *)p[1], *a = (const N *)(const void *)p[2],                                    \
            *b = (const N *)(const void *)p[3];                                                                        \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      double both[2];                                                                                                  \
      pni_von_mises_log_mass((double)k[i * s[1]], (double)a[i * s[2]], (double)b[i * s[3]], both);                     \
      out[i] = (N)both[*(const int64_t *)data != 0];                                                                   \
    }                                                                                                                  \
  }
ARC(double, f64)
ARC(float, f32)

static T *log_mass(C *c, T *concentration, T *low, T *high, int64_t which) {
  return pni_apply(c, &pni_op_von_mises_log_mass, 3, (T *[]){concentration, low, high},
                   &(pni_attr){.ni = 1, .i = {which}});
}

/* In an end: the density there as a share of the arc's probability. */
static T *vjp_log_mass(C *c, T *y, T *g, int k) {
  T *concentration = pni_in(y, 0), *end = pni_in(y, k);
  if (y->attr->i[0]) {
    pni_fail(c, PN_MISSING, "von_mises_log_mass: is differentiable once");
    return NULL;
  }
  if (k == 0) return pn_mul(c, g, log_mass(c, concentration, pni_in(y, 1), pni_in(y, 2), 1));
  T *share = pn_mul(c, g, pn_exp(c, pn_sub(c, log_density(c, concentration, end), y)));
  return k == 2 ? share : pn_neg(c, share);
}

const pni_op pni_op_von_mises_log_mass = {
    .name = "von_mises_log_mass",
    .args = "concentration:t low:t high:t which:i",
    .doc = "log probability of angles from low to high under a von Mises distribution around 0, -pi <= low <= high <= "
           "low + 2 pi, or its derivative in the concentration (which = 1); differentiable once",
    .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN | PNI_OP_ONCE,
    .domain = {{0.3, 4}, {-2, -1}, {0, 2}},
    .map = (const pni_map_kernel[4]){log_mass_f64, log_mass_f32},
    .vjp = vjp_log_mass};

/* ---- draws: attr i[0] key, i[1] position of element 0 ---- */

typedef struct {
  uint64_t key, position;
  const pn_tensor *concentration;
  pn_tensor *out;
} draws;

static void draw_shard(void *data, int64_t begin, int64_t end) {
  const draws *w = data;
  const void *x = pni_data(w->concentration);
  void *out = pni_data(w->out);
  bool in_double = w->out->dtype == PN_FLOAT64;
  for (int64_t i = begin; i < end; i++) {
    double z = pni_von_mises_draw(w->key, w->position + (uint64_t)i,
                                  in_double ? ((const double *)x)[i] : (double)((const float *)x)[i]);
    if (in_double)
      ((double *)out)[i] = z;
    else
      ((float *)out)[i] = (float)z;
  }
}

static pn_status eval_draw(pn_context *c, const pni_call *call, pn_tensor *out) {
  draws w = {(uint64_t)call->attr->i[0], (uint64_t)call->attr->i[1], pni_contiguous(c, call->in[0]), out};
  if (!w.concentration) return c->status;
  pni_parallel(c, out->numel, 1024, draw_shard, &w);
  pn_tensor_unref((pn_tensor *)w.concentration);
  return c->status;
}

static T *vjp_draw(C *c, T *y, T *g, int k) { return pn_mul(c, g, slope(c, pni_in(y, k), y)); }

pn_tensor *pn_von_mises_draw(pn_context *c, pn_rng *rng, pn_tensor *concentration) {
  if (!PNI_GIVEN(c, "von_mises_draw", concentration)) return NULL;
  uint64_t positions = pni_fill_positions(PNI_FILL_SCALAR, (uint64_t)concentration->numel);
  return pni_draw_apply(c, &pni_op_von_mises_draw, rng, positions, 1, &concentration, &(pni_attr){.ni = 2});
}

const pni_op pni_op_von_mises_draw = {
    .name = "von_mises_draw",
    .args = "concentration:t key:i position:i",
    .doc = "a von Mises draw around 0 per element, Best & Fisher (1979); implicit gradient in concentration, once",
    .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN | PNI_OP_ONCE | PNI_OP_DRAW,
    .domain = {{0.3, 4}},
    .eval = eval_draw,
    .vjp = vjp_draw};
