/*
** update_real.h: bodies of the update kernels, included once per type by update_f64.c and update_f32.c,
** which define REAL, SQRT and NAME(f).
*/
#include <math.h>
#include "update.h"

/* d = scale g + decay p;  b = momentum b + d;  p -= lr (nesterov ? d + momentum b : b) */
static PNI_VECTOR void sgd(const pni_update *u) {
  REAL *restrict p = u->param, *restrict b = u->slot[0];
  const REAL *restrict g = u->grad;
  const REAL lr = (REAL)u->k[0], momentum = (REAL)u->k[1], decay = (REAL)u->k[2], scale = (REAL)u->scale;
  const REAL ahead = u->k[3] != 0 ? momentum : 0, now = u->k[3] != 0 ? 1 : 0, past = 1 - now;
  for (int64_t i = 0; i < u->n; i++) {
    REAL d = scale * g[i] + decay * p[i];
    REAL v = momentum * b[i] + d;
    b[i] = v;
    p[i] -= lr * (now * d + (past + ahead) * v);
  }
}

/* m and v are the running moments; both corrections are in the scalars. */
static PNI_VECTOR void adam(const pni_update *u) {
  REAL *restrict p = u->param, *restrict m = u->slot[0], *restrict v = u->slot[1];
  const REAL *restrict g = u->grad;
  const REAL rate = (REAL)u->k[0], b1 = (REAL)u->k[1], b2 = (REAL)u->k[2], root = (REAL)u->k[3];
  const REAL c1 = (REAL)(1 - u->k[1]), c2 = (REAL)(1 - u->k[2]);
  const REAL eps = (REAL)u->k[4], keep = (REAL)(1 - u->k[5]), scale = (REAL)u->scale;
  for (int64_t i = 0; i < u->n; i++) {
    REAL d = scale * g[i];
    REAL a = b1 * m[i] + c1 * d, s = b2 * v[i] + c2 * d * d;
    m[i] = a;
    v[i] = s;
    p[i] = keep * p[i] - rate * a / (SQRT(s) * root + eps);
  }
}

/* The clones stay static: their dispatchers would be exported. */
void NAME(pni_update_sgd)(const pni_update *u) { sgd(u); }
void NAME(pni_update_adam)(const pni_update *u) { adam(u); }

double NAME(pni_sum_squares)(const void *data, int64_t n) {
  const REAL *x = data;
  double lane[4] = {0};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int j = 0; j < 4; j++) lane[j] += (double)x[i + j] * (double)x[i + j];
  for (; i < n; i++) lane[0] += (double)x[i] * (double)x[i];
  return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}
