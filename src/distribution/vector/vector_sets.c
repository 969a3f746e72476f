/*
** vector_sets.c: the sets that distributions of vectors and matrices bring along.
*/
#include <math.h>
#include "../constraint.h"

static bool real_matrix(double *x, const int64_t *size) {
  for (int64_t i = 0; i < size[0] * size[1]; i++)
    if (!isfinite(x[i])) return false;
  return true;
}

/* A pair. */
static bool mean_and_variance(double *x, const int64_t *size) {
  return size[0] == 2 && isfinite(x[0]) && isfinite(x[1]) && x[1] > 0;
}

static void zero_and_one(double *x, const int64_t *size) { (void)size, x[0] = 0, x[1] = 1; }

/* Rows 1 to n below the mean are the covariance. */
static bool mean_and_covariance(double *x, const int64_t *size) {
  int64_t n = size[1];
  if (size[0] != n + 1) return false;
  for (int64_t i = 0; i < n; i++)
    if (!isfinite(x[i])) return false;
  return pni_constraint_positive_definite.holds(x + n, (const int64_t[]){n, n});
}

static void zero_and_identity(double *x, const int64_t *size) {
  for (int64_t i = 0; i < size[1]; i++) x[(i + 1) * size[1] + i] = 1;
}

/* The tolerance of the rows' lengths allows for matrices computed in float32. */
static bool correlation_cholesky(double *x, const int64_t *size) {
  int64_t n = size[0];
  for (int64_t i = 0; i < n; i++) {
    const double *row = x + i * n;
    double square = 0, last = row[i];
    bool above = false; /* NaN as well */
    for (int64_t j = 0; j < i; j += 2) square += row[j] * row[j] + (j + 1 < i ? row[j + 1] * row[j + 1] : 0);
    for (int64_t j = i + 1; j < n; j++) above |= row[j] != 0;
    if (above || !(last > 0) || !(fabs(square + last * last - 1) <= 1e-5)) return false;
  }
  return true;
}

static void identity(double *x, const int64_t *size) {
  for (int64_t i = 0; i < size[0]; i++) x[i * size[0] + i] = 1;
}

#define ROW(id, text, rank_, member_)                                                                                  \
  const pni_constraint pni_constraint_##id = {.name = #id, .must = text, .rank = rank_, .holds = id, .member = member_};
#define PLAIN(id, text, rank_, plain_)                                                                                 \
  const pni_constraint pni_constraint_##id = {.name = #id, .must = text, .rank = rank_, .holds = id, .plain = plain_};

PLAIN(real_matrix, "a matrix of finite numbers", 2, &pni_plain_real)
ROW(mean_and_variance, "a finite number and a positive one", 1, zero_and_one)
ROW(mean_and_covariance, "a row of finite numbers above a symmetric positive definite matrix", 2, zero_and_identity)
ROW(correlation_cholesky, "a lower triangular matrix with positive diagonal and rows of length 1", 2, identity)
