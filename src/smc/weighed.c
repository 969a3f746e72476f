/*
** weighed.c: the numbers of packed weights. Sums are held to 1 as far as float32 keeps them.
*/
#include <math.h>
#include "op/smc_op.h"
#include "weighed.h"

static const double SLACK = 1e-2; /* above the rounding of a float32 sum over the largest number of particles */

typedef struct {
  const void *data;
  bool in_double;
  int64_t filters;
} matrix;

static double at(const matrix *m, int64_t row, int64_t f) {
  int64_t i = row * m->filters + f;
  return m->in_double ? ((const double *)m->data)[i] : (double)((const float *)m->data)[i];
}

/* Comparisons are such that a NaN fails them. */
static bool is_filter(const matrix *m, int64_t n, int64_t f) {
  double sum = 0;
  bool fits = true;
  for (int64_t i = 0; i < n; i++) {
    double w = at(m, n + i, f);
    fits = fits && w >= 0 && at(m, i, f) < INFINITY;
    sum += w;
  }
  double size = at(m, 2 * n + PNI_WEIGHED_SIZE, f), largest = at(m, 2 * n + PNI_WEIGHED_LARGEST, f);
  fits = fits && sum >= 1 - SLACK && sum <= 1 + SLACK && at(m, 2 * n + PNI_WEIGHED_INCREMENT, f) < INFINITY;
  return fits && size >= 1 - SLACK && size <= (double)n * (1 + SLACK) && largest > 0 && largest <= 1 + SLACK;
}

bool pni_is_weighed(pn_context *c, const pn_tensor *t) {
  if (!pni_is_float(t) || t->ndim < 1 || t->numel == 0 || t->shape[0] <= PNI_WEIGHED_ROWS) return false;
  int64_t n = pni_weighed_particles(t);
  if (t->shape[0] != 2 * n + PNI_WEIGHED_ROWS) return false;
  pn_tensor *flat = pni_contiguous(c, t);
  matrix m = {flat ? pni_data(flat) : NULL, t->dtype == PN_FLOAT64, t->numel / t->shape[0]};
  bool fits = flat != NULL;
  for (int64_t f = 0; fits && f < m.filters; f++) fits = is_filter(&m, n, f);
  pn_tensor_unref(flat);
  return fits;
}
