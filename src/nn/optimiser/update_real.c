/*
** update_real.c: bodies of the update kernels.
*/
#include <math.h>
#include <string.h>
#include "../../base/type_real.h"
#include "update.h"

#if PNI_REAL_BITS == 32
#define BITS     uint32_t
#define EXPONENT 0x7F800000u
#else
#define BITS     uint64_t
#define EXPONENT 0x7FF0000000000000u
#endif

/* The gradient as the rows see it: scaled by the norm's limit, then kept within +-limit. */
#define CLIPPED(g) clamped(scale *(g), limit)
static inline REAL clamped(REAL d, REAL limit) {
  d = d < limit ? d : limit;
  return d > -limit ? d : -limit;
}

/* Rows that are taken now and then wait for memory: AVX2 does for AVX-512 as well. */
#if PNI_CPU_X86
#define PLAIN_LEVELS(name)                                                                                             \
  PNI_ANY_LEVEL void name##_any(const pni_update *u);                                                                  \
  PNI_TARGET_AVX2 static void name##_avx2(const pni_update *u) { name##_any(u); }                                      \
  static void name(const pni_update *u) { pni_cpu_level() == PNI_CPU_PORTABLE ? name##_any(u) : name##_avx2(u); }      \
  PNI_ANY_LEVEL void name##_any(const pni_update *u)
#else
#define PLAIN_LEVELS(name) static void name(const pni_update *u)
#endif

/* d = g + decay p;  b = momentum b + d;  p -= lr (nesterov ? d + momentum b : b) */
PNI_EACH_LEVEL(sgd, (const pni_update *u), (u)) {
  REAL *restrict p = u->param, *restrict b = u->slot[0];
  const REAL *restrict g = u->grad;
  const REAL lr = (REAL)u->k[0], momentum = (REAL)u->k[1], decay = (REAL)u->k[2];
  const REAL scale = (REAL)u->scale, limit = (REAL)u->limit;
  const REAL ahead = u->k[3] != 0 ? momentum : 0, now = u->k[3] != 0 ? 1 : 0, past = 1 - now;
  for (int64_t i = 0; i < u->n; i++) {
    REAL d = CLIPPED(g[i]) + decay * p[i];
    REAL v = momentum * b[i] + d;
    b[i] = v;
    p[i] -= lr * (now * d + (past + ahead) * v);
  }
}

/* m and v are the running moments; both corrections are in the scalars. */
PNI_EACH_LEVEL(adam, (const pni_update *u), (u)) {
  REAL *restrict p = u->param, *restrict m = u->slot[0], *restrict v = u->slot[1];
  const REAL *restrict g = u->grad;
  const REAL rate = (REAL)u->k[0], b1 = (REAL)u->k[1], b2 = (REAL)u->k[2], root = (REAL)u->k[3];
  const REAL c1 = (REAL)(1 - u->k[1]), c2 = (REAL)(1 - u->k[2]);
  const REAL eps = (REAL)u->k[4], keep = (REAL)(1 - u->k[5]);
  const REAL scale = (REAL)u->scale, limit = (REAL)u->limit;
  for (int64_t i = 0; i < u->n; i++) {
    REAL d = CLIPPED(g[i]);
    REAL a = b1 * m[i] + c1 * d, s = b2 * v[i] + c2 * d * d;
    m[i] = a;
    v[i] = s;
    p[i] = keep * p[i] - rate * a / (F(sqrt)(s) * root + eps);
  }
}

/* Adam with the largest second moment so far. */
PLAIN_LEVELS(amsgrad) {
  REAL *restrict p = u->param, *restrict m = u->slot[0], *restrict v = u->slot[1], *restrict top = u->slot[2];
  const REAL *restrict g = u->grad;
  const REAL rate = (REAL)u->k[0], b1 = (REAL)u->k[1], b2 = (REAL)u->k[2], root = (REAL)u->k[3];
  const REAL c1 = (REAL)(1 - u->k[1]), c2 = (REAL)(1 - u->k[2]);
  const REAL eps = (REAL)u->k[4], keep = (REAL)(1 - u->k[5]);
  const REAL scale = (REAL)u->scale, limit = (REAL)u->limit;
  for (int64_t i = 0; i < u->n; i++) {
    REAL d = CLIPPED(g[i]);
    REAL a = b1 * m[i] + c1 * d, s = b2 * v[i] + c2 * d * d, most = s > top[i] ? s : top[i];
    m[i] = a;
    v[i] = s;
    top[i] = most;
    p[i] = keep * p[i] - rate * a / (F(sqrt)(most) * root + eps);
  }
}

/* Adam whose mean is taken a step ahead: (ahead m + now g) instead of rate m. */
PLAIN_LEVELS(nadam) {
  REAL *restrict p = u->param, *restrict m = u->slot[0], *restrict v = u->slot[1];
  const REAL *restrict g = u->grad;
  const REAL ahead = (REAL)u->k[0], b1 = (REAL)u->k[1], b2 = (REAL)u->k[2], root = (REAL)u->k[3];
  const REAL c1 = (REAL)(1 - u->k[1]), c2 = (REAL)(1 - u->k[2]);
  const REAL eps = (REAL)u->k[4], keep = (REAL)(1 - u->k[5]), now = (REAL)u->k[6];
  const REAL scale = (REAL)u->scale, limit = (REAL)u->limit;
  for (int64_t i = 0; i < u->n; i++) {
    REAL d = CLIPPED(g[i]);
    REAL a = b1 * m[i] + c1 * d, s = b2 * v[i] + c2 * d * d;
    m[i] = a;
    v[i] = s;
    p[i] = keep * p[i] - (ahead * a + now * d) / (F(sqrt)(s) * root + eps);
  }
}

/* d = g + decay p;  v = a v + (1 - a) d^2;  mean = a mean + (1 - a) d, if centred subtracted from v;
 * b = momentum b + d / (sqrt(v) + eps);  p -= lr b */
PLAIN_LEVELS(rmsprop) {
  REAL *restrict p = u->param, *restrict v = u->slot[0], *restrict mean = u->slot[1], *restrict b = u->slot[2];
  const REAL *restrict g = u->grad;
  const REAL lr = (REAL)u->k[0], a = (REAL)u->k[1], c = (REAL)(1 - u->k[1]), eps = (REAL)u->k[2];
  const REAL momentum = (REAL)u->k[3], centred = (REAL)u->k[4], decay = (REAL)u->k[5];
  const REAL scale = (REAL)u->scale, limit = (REAL)u->limit;
  for (int64_t i = 0; i < u->n; i++) {
    REAL d = CLIPPED(g[i]) + decay * p[i];
    REAL s = a * v[i] + c * d * d, e = a * mean[i] + c * d, spread = s - centred * e * e;
    REAL t = momentum * b[i] + d / (F(sqrt)(spread > 0 ? spread : 0) + eps);
    v[i] = s;
    mean[i] = e;
    b[i] = t;
    p[i] -= lr * t;
  }
}

/* d = g + decay p;  s += d^2;  p -= lr d / (sqrt(s) + eps) */
PLAIN_LEVELS(adagrad) {
  REAL *restrict p = u->param, *restrict sum = u->slot[0];
  const REAL *restrict g = u->grad;
  const REAL lr = (REAL)u->k[0], eps = (REAL)u->k[1], decay = (REAL)u->k[2];
  const REAL scale = (REAL)u->scale, limit = (REAL)u->limit;
  for (int64_t i = 0; i < u->n; i++) {
    REAL d = CLIPPED(g[i]) + decay * p[i];
    REAL s = sum[i] + d * d;
    sum[i] = s;
    p[i] -= lr * d / (F(sqrt)(s) + eps);
  }
}

/* p -= lr (g + decay p) - size z */
PLAIN_LEVELS(sgld) {
  REAL *restrict p = u->param;
  const REAL *restrict g = u->grad, *restrict z = u->noise;
  const REAL lr = (REAL)u->k[0], size = (REAL)u->k[1], decay = (REAL)u->k[2];
  const REAL scale = (REAL)u->scale, limit = (REAL)u->limit;
  for (int64_t i = 0; i < u->n; i++) p[i] -= lr * (CLIPPED(g[i]) + decay * p[i]) - size * z[i];
}

/* d = g + decay p;  v = a v + (1 - a) d^2;  G = 1 / (sqrt(v) + eps);  p -= lr G d - size sqrt(G) z */
PLAIN_LEVELS(psgld) {
  REAL *restrict p = u->param, *restrict v = u->slot[0];
  const REAL *restrict g = u->grad, *restrict z = u->noise;
  const REAL lr = (REAL)u->k[0], size = (REAL)u->k[1], decay = (REAL)u->k[2];
  const REAL a = (REAL)u->k[3], c = (REAL)(1 - u->k[3]), eps = (REAL)u->k[4];
  const REAL scale = (REAL)u->scale, limit = (REAL)u->limit;
  for (int64_t i = 0; i < u->n; i++) {
    REAL d = CLIPPED(g[i]) + decay * p[i];
    REAL s = a * v[i] + c * d * d, metric = 1 / (F(sqrt)(s) + eps);
    v[i] = s;
    p[i] -= lr * metric * d - size * F(sqrt)(metric) * z[i];
  }
}

/* w = keep w - lr (g + decay p) + size z;  p += w */
PLAIN_LEVELS(sghmc) {
  REAL *restrict p = u->param, *restrict w = u->slot[0];
  const REAL *restrict g = u->grad, *restrict z = u->noise;
  const REAL lr = (REAL)u->k[0], size = (REAL)u->k[1], decay = (REAL)u->k[2], keep = (REAL)u->k[3];
  const REAL scale = (REAL)u->scale, limit = (REAL)u->limit;
  for (int64_t i = 0; i < u->n; i++) {
    w[i] = keep * w[i] - lr * (CLIPPED(g[i]) + decay * p[i]) + size * z[i];
    p[i] += w[i];
  }
}

/* Adam without its divisor as long as the second moment says little. */
PLAIN_LEVELS(radam) {
  REAL *restrict p = u->param, *restrict m = u->slot[0], *restrict v = u->slot[1];
  const REAL *restrict g = u->grad;
  const REAL rate = (REAL)u->k[0], b1 = (REAL)u->k[1], b2 = (REAL)u->k[2], on = (REAL)u->k[3], off = 1 - on;
  const REAL c1 = (REAL)(1 - u->k[1]), c2 = (REAL)(1 - u->k[2]);
  const REAL eps = (REAL)u->k[4], keep = (REAL)(1 - u->k[5]);
  const REAL scale = (REAL)u->scale, limit = (REAL)u->limit;
  for (int64_t i = 0; i < u->n; i++) {
    REAL d = CLIPPED(g[i]);
    REAL a = b1 * m[i] + c1 * d, s = b2 * v[i] + c2 * d * d;
    m[i] = a;
    v[i] = s;
    p[i] = keep * p[i] - rate * a / (on * (F(sqrt)(s) + eps) + off);
  }
}

/* d = g + decay p;  m = b1 m + (1 - b1) d;  u = max(b2 u, |d| + eps);  p -= rate m / u */
PLAIN_LEVELS(adamax) {
  REAL *restrict p = u->param, *restrict m = u->slot[0], *restrict top = u->slot[1];
  const REAL *restrict g = u->grad;
  const REAL rate = (REAL)u->k[0], b1 = (REAL)u->k[1], b2 = (REAL)u->k[2], c1 = (REAL)(1 - u->k[1]);
  const REAL eps = (REAL)u->k[3], decay = (REAL)u->k[4];
  const REAL scale = (REAL)u->scale, limit = (REAL)u->limit;
  for (int64_t i = 0; i < u->n; i++) {
    REAL d = CLIPPED(g[i]) + decay * p[i];
    REAL a = b1 * m[i] + c1 * d, size = (d < 0 ? -d : d) + eps, past = b2 * top[i], most = past > size ? past : size;
    m[i] = a;
    top[i] = most;
    p[i] -= rate * a / most;
  }
}

/* d = g + decay p;  v = a v + (1 - a) d^2;  e = sqrt(delta + eps) / sqrt(v + eps) d;  delta = a delta + (1 - a) e^2;
 * p -= lr e */
PLAIN_LEVELS(adadelta) {
  REAL *restrict p = u->param, *restrict v = u->slot[0], *restrict delta = u->slot[1];
  const REAL *restrict g = u->grad;
  const REAL lr = (REAL)u->k[0], a = (REAL)u->k[1], c = (REAL)(1 - u->k[1]), eps = (REAL)u->k[2];
  const REAL decay = (REAL)u->k[3], scale = (REAL)u->scale, limit = (REAL)u->limit;
  for (int64_t i = 0; i < u->n; i++) {
    REAL d = CLIPPED(g[i]) + decay * p[i];
    REAL s = a * v[i] + c * d * d, e = F(sqrt)(delta[i] + eps) / F(sqrt)(s + eps) * d;
    v[i] = s;
    delta[i] = a * delta[i] + c * e * e;
    p[i] -= lr * e;
  }
}

/* The size of a step grows where the gradient keeps its sign; where it turns the size shrinks and the number rests. */
PLAIN_LEVELS(rprop) {
  REAL *restrict p = u->param, *restrict previous = u->slot[0], *restrict size = u->slot[1];
  const REAL *restrict g = u->grad;
  const REAL start = (REAL)u->k[0], first = (REAL)u->k[1], shrink = (REAL)u->k[2], grow = (REAL)u->k[3];
  const REAL least = (REAL)u->k[4], most = (REAL)u->k[5], scale = (REAL)u->scale, limit = (REAL)u->limit;
  for (int64_t i = 0; i < u->n; i++) {
    REAL d = CLIPPED(g[i]), before = previous[i];
    REAL sign = (REAL)(d > 0) - (REAL)(d < 0), turn = sign * ((REAL)(before > 0) - (REAL)(before < 0));
    REAL s = (first > 0 ? start : size[i]) * (turn > 0 ? grow : turn < 0 ? shrink : 1);
    s = s < least ? least : s > most ? most : s;
    size[i] = s;
    previous[i] = turn < 0 ? 0 : d;
    p[i] -= turn < 0 ? 0 : sign * s;
  }
}

/* m = momentum m + (1 - momentum) g;  p = keep p - lr direction; without a direction Adam. */
PLAIN_LEVELS(muon_matrix) {
  REAL *restrict p = u->param, *restrict m = u->slot[0];
  const REAL *restrict g = u->grad, *restrict z = u->noise;
  const REAL lr = (REAL)u->k[6], momentum = (REAL)u->k[7], now = (REAL)(1 - u->k[7]), keep = (REAL)(1 - u->k[8]);
  const REAL scale = (REAL)u->scale, limit = (REAL)u->limit;
  for (int64_t i = 0; i < u->n; i++) {
    m[i] = momentum * m[i] + now * CLIPPED(g[i]);
    p[i] = keep * p[i] - lr * z[i];
  }
}

/* The clones stay static: their dispatchers would be exported. */
void TYPED(pni_update_sgd)(const pni_update *u) { sgd(u); }
void TYPED(pni_update_adam)(const pni_update *u) { adam(u); }
void TYPED(pni_update_amsgrad)(const pni_update *u) { amsgrad(u); }
void TYPED(pni_update_sgld)(const pni_update *u) { sgld(u); }
void TYPED(pni_update_psgld)(const pni_update *u) { psgld(u); }
void TYPED(pni_update_sghmc)(const pni_update *u) { sghmc(u); }
void TYPED(pni_update_nadam)(const pni_update *u) { nadam(u); }
void TYPED(pni_update_rmsprop)(const pni_update *u) { rmsprop(u); }
void TYPED(pni_update_adagrad)(const pni_update *u) { adagrad(u); }
void TYPED(pni_update_radam)(const pni_update *u) { radam(u); }
void TYPED(pni_update_adamax)(const pni_update *u) { adamax(u); }
void TYPED(pni_update_adadelta)(const pni_update *u) { adadelta(u); }
void TYPED(pni_update_rprop)(const pni_update *u) { rprop(u); }
void TYPED(pni_update_muon)(const pni_update *u) { u->noise ? muon_matrix(u) : adam(u); }

/* Sums run in LANES lanes side by side, so they do not depend on the vector width; what is left over is padded with
 * zeros. */
enum { LANES = 64 };

PNI_EACH_LEVEL_OF(double, sum_squares, (const REAL *x, int64_t n), (x, n)) {
  double lane[LANES] = {0};
  REAL rest[LANES] = {0};
  int64_t whole = n / LANES * LANES;
  for (int64_t i = 0; i < whole; i += LANES)
    for (int j = 0; j < LANES; j++) lane[j] += (double)x[i + j] * (double)x[i + j];
  if (whole < n) memcpy(rest, x + whole, (size_t)(n - whole) * sizeof *rest);
  for (int j = 0; j < LANES; j++) lane[j] += (double)rest[j] * (double)rest[j];
  for (int w = LANES / 2; w >= 8; w /= 2)
    for (int j = 0; j < w; j++) lane[j] += lane[j + w];
  return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

/* The lowest bit of the exponent, added to an exponent that is all ones, carries into the sign. */
PNI_EACH_LEVEL_OF(bool, all_finite, (const REAL *x, int64_t n), (x, n)) {
  BITS found = 0;
  for (int64_t i = 0; i < n; i++) {
    BITS b;
    memcpy(&b, x + i, sizeof b);
    found |= (b & EXPONENT) + (EXPONENT & (~EXPONENT + 1));
  }
  return found >> (8 * sizeof found - 1) == 0;
}

double TYPED(pni_sum_squares)(const void *data, int64_t n) { return sum_squares(data, n); }
bool TYPED(pni_finite)(const void *data, int64_t n) { return all_finite(data, n); }
