/*
** gaussian_sequence.h: whole sequences of Kalman steps over a batch, one series per lane of the processor's vectors
** (smc/kalman/kalman.h), and their gradients backwards in time.
*/
#ifndef PN_SMC_GAUSSIAN_GAUSSIAN_SEQUENCE_H
#define PN_SMC_GAUSSIAN_GAUSSIAN_SEQUENCE_H

#include "../../autodiff/op/op.h"
#include "../kalman/kalman.h"

/* Operands in this order: mean [n], cov [n, n] before the first step; a [n, n], b [n], q [n, n]; and, but for the
 * second kind, y [p], c [p, n], d [p], r [p, p] and perhaps what was observed, [p]. Results are packed rows: mean [n],
 * cov [n, n] and, but for the second kind, the log density of y [1]. */
typedef enum pni_sequence_kind {
  PNI_SEQUENCE_FILTER,  /* predict, update; T times */
  PNI_SEQUENCE_PREDICT, /* predict, T times */
  PNI_SEQUENCE_ROOT     /* the filter on roots of cov, q, r; no gradient */
} pni_sequence_kind;

typedef struct pni_sequence {
  const char *where; /* for messages */
  pni_sequence_kind kind;
  bool reverse;  /* from the last place of the time axis to the first */
  int64_t steps; /* T */
  int batch;     /* axes of the batch */
} pni_sequence;

/* The most operands, and those of an adjoint: the gradient and the packed rows come before. */
enum { PNI_SEQUENCE_INPUTS = 10, PNI_SEQUENCE_ADJOINT = PNI_SEQUENCE_INPUTS + 2, PNI_SEQUENCE_Y = 5 };
_Static_assert((int)PNI_SEQUENCE_ADJOINT <= (int)PNI_OP_INPUTS, "backward has room for the inputs of a sequence");

/* Axes of operand k that belong to one step of one series. */
int pni_sequence_rank(int k);
/* How the gradient of operand k comes out of pni_sequence_adjoint: without axes of its own time and batch, with those
 * of the batch, with both. */
typedef enum { PNI_SEQUENCE_SHARED, PNI_SEQUENCE_CONSTANT, PNI_SEQUENCE_VARYING } pni_sequence_extent;
pni_sequence_extent pni_sequence_extent_of(const pni_sequence *s, int k, const pn_tensor *x);

/* The contiguous out [T, batch..., row]. Leading axes of mean and cov broadcast to the batch, those of the others to
 * [T, batch...]; what is constant is not copied. PN_SINGULAR, PN_NAN: an innovation covariance that is not positive
 * definite, not finite; the message names step and series. */
pn_status pni_sequence_run(pn_context *c, const pni_sequence *s, int nin, pn_tensor *const *in, pn_tensor *out);

/* The gradients of the operands `wanted` (bit k) beside each other in the flat `out`, each as its extent says. in: the
 * gradient of the packed rows, or of their last elements alone (one axis less); the packed rows; the operands. */
pn_status pni_sequence_adjoint(pn_context *c, const pni_sequence *s, int wanted, int nin, pn_tensor *const *in,
                               pn_tensor *out);

#endif
