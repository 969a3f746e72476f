/*
** lane_matrix.h: linear algebra for batches of small matrices, n <= PNI_LANE_MAX. A group of matrices,
** one per lane of the processor's vectors, is interleaved (element [i, j] of all of them is one vector), so that every
** step of the textbook algorithm is one vector instruction and no step depends on how small a matrix is.
** Compiled for several instruction sets, of which the processor's best is taken; all do the same operations
** in the same order (no fused multiply-add), so they give the same bits.
*/
#ifndef PN_TENSOR_LANE_LANE_MATRIX_H
#define PN_TENSOR_LANE_LANE_MATRIX_H

#include "../../base/clock.h"
#include "../lapack/lapack.h"

/* Orders: of any problem, of a product, columns of a matrix that is made triangular; lanes at most. */
enum { PNI_LANE_MAX = 32, PNI_LANE_PRODUCT = 16, PNI_LANE_COLUMNS = 64, PNI_LANE_COUNT = 16 };

typedef enum pni_lane_problem {
  PNI_LANE_CHOLESKY,
  PNI_LANE_TRIANGULAR,
  PNI_LANE_CHOLESKY_SOLVE,
  PNI_LANE_SOLVE,
  PNI_LANE_INVERSE,
  PNI_LANE_LOGDET,
  PNI_LANE_DET,
  PNI_LANE_DET_SIGN,
  PNI_LANE_TRIA, /* a [n, inner], inner >= n, becomes l with l l^T = a a^T, diagonal not negative */
  PNI_LANE_KINDS,
  PNI_LANE_MATMUL = PNI_LANE_KINDS, /* a [n, inner] times b [inner, k]; no finite check */
  PNI_LANE_SLOPE                    /* of a Cholesky factor a and its gradient b: that of the matrix; no check */
} pni_lane_problem;

/* What all matrices of a batch share. Strides in elements; out is row-major. */
typedef struct pni_lane_matrix {
  pni_lane_problem kind;
  int flags; /* PNI_UPPER, PNI_TRANSPOSE */
  int n, k;  /* order, right sides */
  int inner; /* of a product; columns of a for PNI_LANE_TRIA */
  int64_t a_row, a_col, b_row, b_col;
} pni_lane_matrix;

/* ALONE: a pivot has no reciprocal or a product of pivots overflows; the lane is of no use (divide_real.h). */
enum { PNI_LANE_NOT_FINITE = -1, PNI_LANE_ALONE = -2 };

/* One group of `count` <= lanes matrices; scratch: pni_lane_scratch vectors of all lanes, aligned; info receives per
 * matrix 0, the order of the failing minor, PNI_LANE_NOT_FINITE or PNI_LANE_ALONE. */
int64_t pni_lane_scratch(const pni_lane_matrix *s);
typedef void (*pni_lane_group)(const pni_lane_matrix *s, void *scratch, int count, const void *const *a,
                               const void *const *b, void *const *out, int *info);
/* The group function of an element type and its number of lanes: the best that this processor has, up to
 * `level` (0: any processor; 1: AVX2; 2: AVX-512). */
enum { PNI_LANE_BEST = 2 };
pni_lane_group pni_lane_f64(int level, int *lanes);
pni_lane_group pni_lane_f32(int level, int *lanes);

#endif
