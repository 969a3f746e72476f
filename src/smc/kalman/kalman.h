/*
** kalman.h: steps of the Kalman filter for batches of small states, interleaved as in lane_matrix.h: one filter per
** lane of the processor's vectors. What all filters share is read once per shard, not copied. Matrices that are
** covariances are read as their symmetric parts and written exactly symmetric.
*/
#ifndef PN_SMC_KALMAN_KALMAN_H
#define PN_SMC_KALMAN_KALMAN_H

#include "../../tensor/lane/lane_matrix.h"

/* Orders of state and observation, and operands of a step, at most. Up to PNI_KALMAN_LANES filters are interleaved; of
 * larger ones each goes alone, with products by BLAS. */
enum { PNI_KALMAN_LANES = 32, PNI_KALMAN_MAX = 4096, PNI_KALMAN_INPUTS = 11 };

/* n: order of the state, m: of what is predicted, p: of the observation. Operands and the elements of a packed row in
 * this order. */
typedef enum pni_kalman_kind {
  /* mean [n], cov [n, n], a [m, n], b [m], q [m, m] -> mean a x + b [m], cov a P a^T + q [m, m]; elsewhere m = n */
  PNI_KALMAN_PREDICT,
  /* mean [n], cov [n, n], y [p], c [p, n], d [p], r [p, p], and if some of y may be missing `observed` [p], 0 for
   * what is -> mean [n], cov [n, n], log density of y [1]; with details also the innovation v [p], its covariance
   * S [p, p] and the gain K [n, p] */
  PNI_KALMAN_UPDATE,
  /* mean, cov, a, b, q, y, c, d, r and perhaps observed -> the update, without details, of the predicted state */
  PNI_KALMAN_STEP,
  /* On roots l, q, r of the covariances: mean, l, a, b, q -> mean, l; mean, l, y, c, d, r and perhaps observed -> mean,
   * l, log density. These have no adjoint. */
  PNI_KALMAN_ROOT_PREDICT,
  PNI_KALMAN_ROOT_UPDATE,
  /* The gradients of the operands from that of a packed row without details: g [m + m m], mean, cov, a; g, mean, cov,
   * y, c, d, r, observed; and g, mean, cov, a, b, q, y, c, d, r, observed. Operand k > 0 has piece k of the result. */
  PNI_KALMAN_PREDICT_ADJOINT,
  PNI_KALMAN_UPDATE_ADJOINT,
  PNI_KALMAN_STEP_ADJOINT
} pni_kalman_kind;

typedef struct pni_kalman_operand {
  int rows, cols;
  int64_t row, col; /* strides in elements */
  bool shared;      /* one for the whole batch */
} pni_kalman_operand;

/* What all filters of a batch have in common. */
typedef struct pni_kalman {
  pni_kalman_kind kind;
  bool details, masked; /* masked: the last operand tells what was observed */
  bool still, unit;     /* a, c is the identity */
  int n, m, p, nin;     /* m: rows of a, n but for predictions; p: 0 without an observation */
  int wanted;           /* of an adjoint: bit k for operand k */
  int64_t size, work;   /* elements of a packed row; vectors of scratch */
  pni_kalman_operand in[PNI_KALMAN_INPUTS];
} pni_kalman;

/* One group of `count` <= lanes filters: in[k][l] is operand k of lane l, in[k][0] of all if it is shared. first, last:
 * of those that use this `scratch` one after the other, `number` counts them from 0. out[k][l] receives piece k of lane
 * l (piece 0 is a packed row); the gradient of a shared operand is summed over all groups and goes to out[k][0] with
 * the last; the order of the terms depends neither on the threads nor on the instruction set. info as in lane_matrix.h,
 * of the innovation's covariance. */
typedef struct pni_kalman_lanes {
  int count;
  bool first, last;
  int64_t number;
  const void *in[PNI_KALMAN_INPUTS][PNI_LANE_COUNT];
  void *out[PNI_KALMAN_INPUTS][PNI_LANE_COUNT];
  void *scratch;
  pni_watch *watch; /* NULL: nobody looks at the clock. Where the rest was left nothing that was computed counts */
  int info[PNI_LANE_COUNT];
} pni_kalman_lanes;
/* Groups come in rounds of this many filters, whose sums of gradients stand apart: the most lanes of a type. */
enum { PNI_KALMAN_ROUND_F64 = 8, PNI_KALMAN_ROUND_F32 = 16 };
typedef void (*pni_kalman_group)(const pni_kalman *s, pni_kalman_lanes *g);
pni_kalman_group pni_kalman_f64(int level, int *lanes);
pni_kalman_group pni_kalman_f32(int level, int *lanes);
extern const pni_kalman_group pni_kalman_alone_f64, pni_kalman_alone_f32; /* of one lane */
/* The group for elements of `size` bytes and these orders. */
pni_kalman_group pni_kalman_choose(int64_t size, int level, int n, int p, int *lanes);
/* How many shards of `bytes` of scratch each there may be; it depends on the problem alone. */
int64_t pni_kalman_shards(int64_t bytes);

/* Vectors of scratch that a group of `s` takes; s->work. */
int64_t pni_kalman_work(const pni_kalman *s);

/* Elements of a packed row. */
int64_t pni_kalman_size(int kind, bool details, int64_t n, int64_t p);
/* The step `kind` for each filter of the batch into the contiguous out [..., size]; leading axes of the operands
 * broadcast to those of out. `level` as in lane_matrix.h. PN_SINGULAR, PN_NAN: an innovation covariance that is not
 * positive definite, not finite; the message begins with `where` and names the filter. */
pn_status pni_kalman_step(pn_context *c, const char *where, int level, int kind, bool details, int nin,
                          pn_tensor *const *in, pn_tensor *out);
/* Is operand x, whose last `rank` axes are its own, one for all filters? */
bool pni_kalman_shared(const pn_tensor *x, int rank);
/* The gradients of the operands `wanted` (bit k: in[k]) of the step behind the adjoint `kind`, beside each other in the
 * flat `out`: [rows, cols] summed over the batch for operands that have no batch axis longer than 1, else one for each
 * filter. in[0] is the gradient of the packed rows, which has all leading axes. */
pn_status pni_kalman_adjoint(pn_context *c, const char *where, int level, int kind, int wanted, int nin,
                             pn_tensor *const *in, pn_tensor *out);

#endif
