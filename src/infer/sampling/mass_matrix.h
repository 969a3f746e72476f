/*
** mass_matrix.h: the inverse of the mass matrix M that momenta are drawn with, an estimate of the covariance of the
** positions: diagonal; low rank, diag(s) [I + U^T (L - I) U] diag(s) with k orthonormal rows of U; or dense.
*/
#ifndef PN_INFER_SAMPLING_MASS_MATRIX_H
#define PN_INFER_SAMPLING_MASS_MATRIX_H

#include "../../base/context.h"

typedef struct pni_metric {
  int64_t n;
  int kind;          /* PN_METRIC_...; 0: diagonal */
  double *inverse;   /* M^-1: [n], or dense [n, n] */
  double *factor;    /* dense: lower Cholesky factor of M^-1 */
  double *scale;     /* low rank: s [n] */
  double *direction; /* low rank: U [most, n], the first `rank` rows */
  double *stretch;   /* low rank: L [most], positive */
  int64_t rank, most;
  double *scratch; /* low rank: [n + most] */
} pni_metric;

/* A point of the phase space and what is known there. Arrays of n numbers. */
typedef struct pni_point {
  double *z, *p, *gradient;
  double log_density;
  double kinetic; /* p^T M^-1 p / 2, after a kick */
} pni_point;

/* Directions that a metric of n numbers has at most. */
int64_t pni_metric_most(int64_t n);
/* Numbers that `memory` of pni_metric_start holds. */
int64_t pni_metric_room(int64_t n, int kind);
/* The identity. */
void pni_metric_start(pni_metric *m, int64_t n, int kind, double *memory);
/* Diagonal: `inverse` [n]; whatever the kind. */
void pni_metric_set_diagonal(pni_metric *m, const double *inverse);
/* out = M^-1 p */
void pni_metric_velocity(const pni_metric *m, const double *p, double *out);
/* p, standard normal, becomes normal(0, M). */
void pni_metric_colour(const pni_metric *m, double *p);
/* Kinetic energy p^T M^-1 p / 2; `velocity` is scratch. */
double pni_metric_kinetic(const pni_metric *m, const double *p, double *velocity);
/* Another point: p + step / 2 gradient, z + step M^-1 of that; `velocity` is scratch. */
void pni_metric_move(const pni_metric *m, const pni_point *from, double step, pni_point *to, double *velocity);
/* p += kick gradient, velocity = M^-1 p */
void pni_metric_kick(const pni_metric *m, double kick, pni_point *at, double *velocity);
/* M^-1 as a matrix [n, n]. */
void pni_metric_matrix(const pni_metric *m, double *out);

#endif
