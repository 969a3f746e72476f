/*
** bijector_sets.c: sets that bijectors bring with them: their ranges and the values of their parameters.
*/
#include <math.h>
#include "bijector.h"

static bool nonzero(double *x, const int64_t *size) { return (void)size, *x != 0 && isfinite(*x); }
static bool symmetric_interval(double *x, const int64_t *size) { return (void)size, *x > -1 && *x < 1; }
static void zero(double *x, const int64_t *size) { (void)size, *x = 0; }

static bool ordered_vector(double *x, const int64_t *size) {
  for (int64_t i = 0; i < size[0]; i++)
    if (!isfinite(x[i]) || (i && !(x[i] > x[i - 1]))) return false;
  return true;
}

static void rising(double *x, const int64_t *size) {
  for (int64_t i = 0; i < size[0]; i++) x[i] = (double)i;
}

/* Every number 0 .. n - 1 once. */
static bool permutation(double *x, const int64_t *size) {
  for (int64_t i = 0; i < size[0]; i++) {
    bool there = false;
    for (int64_t j = 0; j < size[0]; j++) there = there || x[j] == (double)i;
    if (!there) return false;
  }
  return true;
}

const pni_constraint pni_constraint_nonzero = {
    .name = "nonzero", .must = "a finite number other than 0", .holds = nonzero};
const pni_constraint pni_constraint_symmetric_interval = {.name = "symmetric_interval",
                                                          .must = "above -1 and below 1",
                                                          .low = -1,
                                                          .high = 1,
                                                          .holds = symmetric_interval,
                                                          .member = zero};
const pni_constraint pni_constraint_ordered_vector = {.name = "ordered_vector",
                                                      .must = "a vector of rising finite numbers",
                                                      .rank = 1,
                                                      .holds = ordered_vector,
                                                      .member = rising};
const pni_constraint pni_constraint_permutation = {.name = "permutation",
                                                   .must = "the numbers 0 .. n - 1 in some order",
                                                   .rank = 1,
                                                   .discrete = true,
                                                   .holds = permutation,
                                                   .member = rising};
