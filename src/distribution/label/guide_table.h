/*
** guide_table.h: the first of running sums that reaches a target, by a guide table (Chen & Asau 1974): entry j is the
** answer for the target total j / size, where a search for any larger one may begin. What is found does not depend
** on whether there is a guide.
*/
#ifndef PN_DISTRIBUTION_LABEL_GUIDE_TABLE_H
#define PN_DISTRIBUTION_LABEL_GUIDE_TABLE_H

#include <stdint.h>

/* First k with sum[k] >= target, n - 1 if there is none. Few are counted rather than searched: no branch is guessed. */
static inline int64_t pni_lookup(const double *sum, int64_t n, double target) {
  int64_t low = 0, high = n - 1;
  if (n <= 16) {
    for (int64_t k = 0; k < high; k++) low += !(sum[k] >= target);
    return low;
  }
  while (low < high) {
    int64_t k = (low + high) / 2;
    if (sum[k] >= target)
      high = k;
    else
      low = k + 1;
  }
  return low;
}

static inline void pni_guide(const double *sum, int64_t n, double total, int32_t *guide, int64_t size) {
  int64_t k = 0;
  for (int64_t j = 0; j < size; j++) {
    double target = (double)j / (double)size * total;
    while (k < n - 1 && sum[k] < target) k++;
    guide[j] = (int32_t)k;
  }
}

/* The same for the target u total, 0 < u <= 1; size is a power of two. */
static inline int64_t pni_lookup_guided(const double *sum, int64_t n, double total, const int32_t *guide, int64_t size,
                                        double u) {
  int64_t j = (int64_t)(u * (double)size);
  int64_t k = guide[j < size ? j : size - 1];
  double target = u * total;
  while (k < n - 1 && sum[k] < target) k++;
  return k;
}

#endif
