/*
** mass_matrix.c: what a mass matrix does to momenta. With M^-1 = R R^T, momenta p = R^-T u; for low rank
** R = diag(s) [I + U^T (L^1/2 - I) U], so that a product costs n k operations.
*/
#include <cblas.h>
#include <math.h>
#include <string.h>
#include "../../base/processor.h"
#include "mass_matrix.h"

enum { MOST_DIRECTIONS = 64 };

int64_t pni_metric_most(int64_t n) { return n < MOST_DIRECTIONS ? n : MOST_DIRECTIONS; }

int64_t pni_metric_room(int64_t n, int kind) {
  int64_t most = pni_metric_most(n);
  if (kind == PN_METRIC_DENSE) return pni_times(2, pni_times(n, n));
  return kind == PN_METRIC_LOW_RANK ? pni_plus(pni_times(n, most + 3), 2 * most) : n;
}

void pni_metric_start(pni_metric *m, int64_t n, int kind, double *memory) {
  *m = (pni_metric){.n = n, .kind = kind, .most = pni_metric_most(n), .inverse = memory};
  if (kind == PN_METRIC_DENSE) {
    m->factor = memory + n * n;
  } else if (kind == PN_METRIC_LOW_RANK) {
    m->scale = memory + n;
    m->direction = m->scale + n;
    m->stretch = m->direction + n * m->most;
    m->scratch = m->stretch + m->most;
  }
  for (int64_t i = 0; i < n; i++) m->inverse[kind == PN_METRIC_DENSE ? i * n + i : i] = 1;
  for (int64_t i = 0; i < n && m->factor; i++) m->factor[i * n + i] = 1;
  for (int64_t i = 0; i < n && m->scale; i++) m->scale[i] = 1;
}

void pni_metric_set_diagonal(pni_metric *m, const double *inverse) {
  int64_t n = m->n;
  m->rank = 0;
  if (m->kind != PN_METRIC_DENSE) {
    memcpy(m->inverse, inverse, (size_t)n * sizeof *inverse);
    for (int64_t i = 0; i < n && m->scale; i++) m->scale[i] = sqrt(inverse[i]);
    return;
  }
  memset(m->inverse, 0, (size_t)(n * n) * sizeof *inverse);
  memset(m->factor, 0, (size_t)(n * n) * sizeof *inverse);
  for (int64_t i = 0; i < n; i++) {
    m->inverse[i * n + i] = inverse[i];
    m->factor[i * n + i] = sqrt(inverse[i]);
  }
}

/* out = s x */
static __attribute__((noinline)) void scaled(int64_t n, const double *restrict s, const double *restrict x,
                                             double *restrict out) {
  for (int64_t i = 0; i < n; i++) out[i] = s[i] * x[i];
}

/* x = (I + U^T (L^power - I) U) x */
static void stretch(const pni_metric *m, double power, double *x) {
  double *part = m->scratch + m->n;
  if (!m->rank) return;
  cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)m->rank, (int)m->n, 1, m->direction, (int)m->n, x, 1, 0, part, 1);
  for (int64_t k = 0; k < m->rank; k++) part[k] *= (power == 1 ? m->stretch[k] : pow(m->stretch[k], power)) - 1;
  cblas_dgemv(CblasRowMajor, CblasTrans, (int)m->rank, (int)m->n, 1, m->direction, (int)m->n, part, 1, 1, x, 1);
}

enum { STRIP = 8, FEW = 32 };

/* Elements at .. at + width - 1 of A x for a symmetric A [n, n]. */
static inline void strip(int64_t n, const double *a, const double *x, double *out, int64_t at, const int width) {
  double sum[STRIP] = {0};
  for (int64_t j = 0; j < n; j++) PNI_UNROLL
  for (int i = 0; i < width; i++) sum[i] += x[j] * a[j * n + at + i];
  for (int i = 0; i < width; i++) out[at + i] = sum[i];
}

/* out = A x for a small A, where a call of BLAS takes longer than its work; in one order on every processor. */
static void small_product(int64_t n, const double *a, const double *x, double *out) {
  int64_t i = 0;
  for (; i + STRIP <= n; i += STRIP) strip(n, a, x, out, i, STRIP);
  for (; i < n; i++) strip(n, a, x, out, i, 1);
}

static bool is_diagonal(const pni_metric *m) { return m->kind != PN_METRIC_DENSE && !m->rank; }

void pni_metric_velocity(const pni_metric *m, const double *p, double *out) {
  if (is_diagonal(m)) {
    scaled(m->n, m->inverse, p, out);
  } else if (m->kind != PN_METRIC_DENSE) {
    scaled(m->n, m->scale, p, m->scratch);
    stretch(m, 1, m->scratch);
    scaled(m->n, m->scale, m->scratch, out);
  } else if (m->n <= FEW) {
    small_product(m->n, m->inverse, p, out);
  } else {
    cblas_dsymv(CblasRowMajor, CblasLower, (int)m->n, 1, m->inverse, (int)m->n, p, 1, 0, out, 1);
  }
}

/* out = y + a x, where out may be y */
static __attribute__((noinline)) void add_scaled(int64_t n, double a, const double *x, const double *y, double *out) {
  for (int64_t i = 0; i < n; i++) out[i] = y[i] + a * x[i];
}

/* The same numbers as below, in one pass. */
static void move_diagonal(int64_t n, const double *restrict inverse, const pni_point *from, double step,
                          double *restrict p, double *restrict z) {
  const double *gradient = from->gradient, *before = from->p, *here = from->z;
  for (int64_t i = 0; i < n; i++) {
    p[i] = before[i] + step / 2 * gradient[i];
    z[i] = here[i] + step * (inverse[i] * p[i]);
  }
}

void pni_metric_move(const pni_metric *m, const pni_point *from, double step, pni_point *to, double *velocity) {
  if (is_diagonal(m)) {
    move_diagonal(m->n, m->inverse, from, step, to->p, to->z);
    return;
  }
  add_scaled(m->n, step / 2, from->gradient, from->p, to->p);
  pni_metric_velocity(m, to->p, velocity);
  add_scaled(m->n, step, velocity, from->z, to->z);
}

static double energy(int64_t n, const double *p, const double *velocity) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += p[i] * velocity[i];
  return sum / 2;
}

static void kick_diagonal(int64_t n, const double *restrict inverse, double kick, const double *restrict gradient,
                          double *restrict p, double *restrict velocity) {
  for (int64_t i = 0; i < n; i++) {
    p[i] += kick * gradient[i];
    velocity[i] = inverse[i] * p[i];
  }
}

void pni_metric_kick(const pni_metric *m, double kick, pni_point *at, double *velocity) {
  if (is_diagonal(m)) {
    kick_diagonal(m->n, m->inverse, kick, at->gradient, at->p, velocity);
  } else {
    add_scaled(m->n, kick, at->gradient, at->p, at->p);
    pni_metric_velocity(m, at->p, velocity);
  }
  at->kinetic = energy(m->n, at->p, velocity);
}

void pni_metric_colour(const pni_metric *m, double *p) {
  if (m->kind == PN_METRIC_DENSE) {
    cblas_dtrsv(CblasRowMajor, CblasLower, CblasTrans, CblasNonUnit, (int)m->n, m->factor, (int)m->n, p, 1);
  } else {
    if (m->kind == PN_METRIC_LOW_RANK) stretch(m, -0.5, p);
    for (int64_t i = 0; i < m->n; i++) p[i] /= sqrt(m->inverse[i]);
  }
}

double pni_metric_kinetic(const pni_metric *m, const double *p, double *velocity) {
  pni_metric_velocity(m, p, velocity);
  return energy(m->n, p, velocity);
}

void pni_metric_matrix(const pni_metric *m, double *out) {
  int64_t n = m->n;
  if (m->kind == PN_METRIC_DENSE) {
    memcpy(out, m->inverse, (size_t)(n * n) * sizeof *out);
    return;
  }
  memset(out, 0, (size_t)(n * n) * sizeof *out);
  for (int64_t i = 0; i < n; i++) out[i * n + i] = m->inverse[i];
  for (int64_t k = 0; k < m->rank; k++) {
    const double *u = m->direction + k * n, *s = m->scale;
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j < n; j++) out[i * n + j] += (m->stretch[k] - 1) * (u[i] * u[j]) * (s[i] * s[j]);
  }
}
