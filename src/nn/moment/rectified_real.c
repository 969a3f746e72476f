/*
** rectified_real.c: moments of max(x, 0) and their slopes. In float64 Mills' ratio is that of erfcx; of float32 its two
** combinations are polynomials, as m = ((1 + s^2) m - s) + s (1 - s m) is a sum of what is positive.
*/
#include "rectified.h"
#include <math.h>
#include "../../base/processor.h"
#include "../../base/type_real.h"
#include "../../math/vector/polynomial.h"
#include "../../math/vector/vector.h"

enum { BLOCK = PNI_RECTIFIED_BLOCK };
#define ROOT_TWO_PI_INVERSE ((REAL)0.39894228040143267794)

#if PNI_REAL_BITS == 32
#define MOST 20
typedef struct parts {
  PNI_RECTIFIED(float);
} parts;
#else
#define MOST 40
typedef pni_rectified parts;
#endif

/* s of n numbers and -s^2 / 2. */
PNI_EACH_LEVEL(standardise, (const REAL *mu, const REAL *v, REAL *s, REAL *square, int64_t n), (mu, v, s, square, n)) {
  for (int64_t i = 0; i < n; i++) {
    REAL t = F(fabs)(mu[i]) / F(sqrt)(v[i]);
    t = ((v[i] == 0) & (mu[i] == mu[i])) != 0 ? MOST : t;
    s[i] = t > MOST ? MOST : t;
    square[i] = (REAL)-0.5 * s[i] * s[i];
  }
}

#if PNI_REAL_BITS == 32
#define FIRST(c) float p = (c);
#define NEXT(c)  p = p * t + (c);
static inline float first_of(float t) { POLY_RECTIFIED_F32(FIRST, NEXT) return p; }
static inline float second_of(float t) { POLY_RECTIFIED_SQUARE_F32(FIRST, NEXT) return p; }

/* From s and e^(-s^2 / 2). */
PNI_EACH_LEVEL(complete, (parts * o, int64_t n), (o, n)) {
  for (int64_t i = 0; i < n; i++) {
    float d = o->density[i] * ROOT_TWO_PI_INVERSE, s = o->s[i], q = 1 / (s + 4), t = 8 * q - 1;
    float first = q * q * first_of(t), second = q * q * q * second_of(t);
    o->density[i] = d;
    o->first[i] = d * first;
    o->second[i] = d * second;
    o->tail[i] = d * (second + s * first);
  }
}

static void parts_of(const float *mu, const float *v, int64_t n, parts *o) {
  standardise(mu, v, o->s, o->density, n);
  pni_vector_f32(PNI_VECTOR_exp, o->density, 1, o->density, n);
  complete(o, n);
}
#else
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

/* From s, e^(-s^2 / 2) and, in tail, erfcx(s / sqrt 2). */
PNI_EACH_LEVEL(complete, (parts * o, int64_t n), (o, n)) {
  for (int64_t i = 0; i < n; i++) {
    double s = o->s[i], d = o->density[i] * ROOT_TWO_PI_INVERSE, mills = o->tail[i] * 1.25331413731550025121;
    double far = first_part(s), near = 1 - s * mills, far2 = second_part(s), near2 = (1 + s * s) * mills - s;
    o->density[i] = d;
    o->first[i] = d == 0 ? 0 : d * (s > far_out ? far : near);
    o->second[i] = d == 0 ? 0 : d * (s > far_out ? far2 : near2);
    o->tail[i] = d * mills;
  }
}

void pni_rectified_parts_f64(const double *mu, const double *v, int64_t n, parts *o) {
  double half[BLOCK];
  standardise(mu, v, o->s, o->density, n);
  for (int64_t i = 0; i < n; i++) half[i] = o->s[i] * 0.70710678118654752440;
  pni_vector_f64(PNI_VECTOR_exp, o->density, 1, o->density, n);
  pni_vector_f64(PNI_VECTOR_erfcx, half, 1, o->tail, n);
  complete(o, n);
}
#define parts_of pni_rectified_parts_f64
#endif

/* The slopes of mean and variance are, with p = phi(s) / sigma,
 *   Phi(t),  p / 2;  2 E Phi(-t),  Phi(t) - E p,  E the mean
 * and 0 in v of a number without doubt. */
static void block(int what, const REAL *mu, const REAL *v, const parts *a, int64_t n, REAL *out) {
  const REAL *first = a->first, *second = a->second, *tail = a->tail, *density = a->density;
  switch (what) {
  case PNI_RELU_MEAN:
    for (int64_t i = 0; i < n; i++) out[i] = (mu[i] > 0 ? mu[i] : 0) + F(sqrt)(v[i]) * first[i];
    break;
  case PNI_RELU_VARIANCE:
    for (int64_t i = 0; i < n; i++) {
      REAL r = F(sqrt)(v[i]) * first[i], r2 = v[i] * second[i];
      REAL above = v[i] - r2 - r * (r + 2 * mu[i]), below = r2 - r * r;
      out[i] = mu[i] > 0 ? above : below;
    }
    break;
  case PNI_RELU_MEAN_SLOPE:
    for (int64_t i = 0; i < n; i++) out[i] = mu[i] > 0 ? 1 - tail[i] : tail[i];
    break;
  case PNI_RELU_MEAN_SLOPE + 1:
    for (int64_t i = 0; i < n; i++) {
      REAL p = density[i] / F(sqrt)(v[i]);
      out[i] = v[i] == 0 ? 0 : p / 2;
    }
    break;
  case PNI_RELU_VARIANCE_SLOPE:
    for (int64_t i = 0; i < n; i++) {
      REAL mean = (mu[i] > 0 ? mu[i] : 0) + F(sqrt)(v[i]) * first[i];
      out[i] = 2 * mean * (mu[i] > 0 ? tail[i] : 1 - tail[i]);
    }
    break;
  default:
    for (int64_t i = 0; i < n; i++) {
      REAL above = 1 - tail[i] - (a->s[i] + first[i]) * density[i], below = tail[i] - first[i] * density[i];
      out[i] = mu[i] > 0 ? above : below;
    }
  }
}

void TYPED(pni_rectified)(int what, int64_t n, char *const *p, const int64_t *stride) {
  REAL m[BLOCK], v[BLOCK], *out = (REAL *)(void *)p[0];
  parts a;
  for (int64_t at = 0; at < n; at += BLOCK) {
    int64_t size = n - at < BLOCK ? n - at : BLOCK;
    const REAL *mu = (const REAL *)(const void *)p[1] + at * stride[1];
    const REAL *of = (const REAL *)(const void *)p[2] + at * stride[2];
    for (int64_t i = 0; stride[1] != 1 && i < size; i++) m[i] = mu[i * stride[1]];
    for (int64_t i = 0; stride[2] != 1 && i < size; i++) v[i] = of[i * stride[2]];
    if (stride[1] != 1) mu = m;
    if (stride[2] != 1) of = v;
    parts_of(mu, of, size, &a);
    block(what, mu, of, &a, size, out + at);
  }
}

/* g NULL: mean and variance to out[0] and out[1]; else what g[0] and g[1] of these are in mu and v. */
void TYPED(pni_rectified_pair)(int64_t n, const void *mu_, const void *v_, const void *const *g, void *const *out) {
  const REAL *mu = mu_, *v = v_;
  parts a;
  REAL slope[BLOCK];
  for (int64_t at = 0; at < n; at += BLOCK) {
    int64_t size = n - at < BLOCK ? n - at : BLOCK;
    parts_of(mu + at, v + at, size, &a);
    for (int k = 0; k < 2; k++) {
      REAL *to = (REAL *)out[k] + at;
      block(g ? PNI_RELU_MEAN_SLOPE + k : k, mu + at, v + at, &a, size, to);
      if (!g) continue;
      const REAL *first = (const REAL *)g[0] + at, *second = (const REAL *)g[1] + at;
      block(PNI_RELU_VARIANCE_SLOPE + k, mu + at, v + at, &a, size, slope);
      for (int64_t i = 0; i < size; i++) to[i] = first[i] * to[i] + second[i] * slope[i];
    }
  }
}
