/*
** label_sets.c: the sets that distributions of counts and choices bring along.
*/
#include <math.h>
#include "../constraint.h"

static bool one_hot(double *x, const int64_t *size) {
  int64_t ones = 0;
  for (int64_t i = 0; i < size[0]; i++) {
    if (x[i] != 0 && x[i] != 1) return false;
    ones += x[i] == 1;
  }
  return ones == 1;
}
static void first(double *x, const int64_t *size) { (void)size, x[0] = 1; }

static bool open_simplex(double *x, const int64_t *size) {
  for (int64_t i = 0; i < size[0]; i++)
    if (!(x[i] > 0)) return false;
  return pni_constraint_simplex.holds(x, size);
}
static void uniform(double *x, const int64_t *size) { pni_constraint_simplex.member(x, size); }

static bool count_vector(double *x, const int64_t *size) {
  for (int64_t i = 0; i < size[0]; i++)
    if (!(x[i] >= 0 && x[i] == floor(x[i]) && isfinite(x[i]))) return false;
  return true;
}
static void zeros(double *x, const int64_t *size) { (void)x, (void)size; }

static bool atom(double *x, const int64_t *size) { return (void)size, isfinite(*x); }

/* The distribution tests the sum, and what the values are, in in_support. */
#define ROW(id, text, rank_, discrete_, plain_, member_)                                                               \
  const pni_constraint pni_constraint_##id = {.name = #id,                                                             \
                                              .must = text,                                                            \
                                              .rank = rank_,                                                           \
                                              .discrete = discrete_,                                                   \
                                              .holds = id,                                                             \
                                              .plain = plain_,                                                         \
                                              .member = member_};

ROW(one_hot, "a vector of one 1 and zeros", 1, true, &pni_plain_one_hot, first)
ROW(count_vector, "whole numbers not below 0 that sum to the number of trials", 1, true, &pni_plain_counts, zeros)
ROW(atom, "one of the distribution's values", 0, true, NULL, NULL)
ROW(open_simplex, "positive probabilities that sum to 1", 1, false, &pni_plain_open_simplex, uniform)
