/*
** linalg.h: linear algebra over batches of matrices: the last two axes are the matrix, the leading ones the
** batch. Batches of small matrices go to lane_matrix.h, everything else to lapack.h; both are sharded over the
** context's threads, and which thread does what never changes a result. Shapes were checked by the caller
** and `out` is contiguous. A failure names the first matrix that has no factorisation, 1-based:
** PN_SINGULAR; PN_NAN for a matrix that is not finite. Right sides may hold anything: NaN stays in its column.
*/
#ifndef PN_TENSOR_LAPACK_LINALG_H
#define PN_TENSOR_LAPACK_LINALG_H

#include "../lane/lane_matrix.h"

/* How a batch of small matrices is computed: by its size, or always so (tests and measurements). */
enum { PNI_PATH_CHOICE, PNI_PATH_LAPACK, PNI_PATH_SMALL };

/* The problem `kind` for each matrix of a and b (NULL where none is needed):
 *   PNI_LANE_CHOLESKY        L with L L^T = (a + a^T) / 2
 *   PNI_LANE_TRIANGULAR      op(a)^-1 b; flags PNI_UPPER (else lower), PNI_TRANSPOSE
 *   PNI_LANE_CHOLESKY_SOLVE  (a a^T)^-1 b for a lower triangle a
 *   PNI_LANE_SOLVE, _INVERSE a^-1 b, a^-1
 *   PNI_LANE_TRIA            lower l with l l^T = a a^T, a [n, k], k >= n, n <= PNI_LANE_MAX, k <= PNI_LANE_COLUMNS
 *   PNI_LANE_LOGDET, _DET, _DET_SIGN   log |det a|, det a, its sign; -inf, 0, 0 of a singular matrix
 * `where` begins the message of a failure. */
pn_status pni_linalg(pn_context *c, const char *where, int path, int kind, int flags, const pn_tensor *a,
                     const pn_tensor *b, pn_tensor *out);

/* out = x y as pni_matmul (blas.h) takes them, if the batch is one for the interleaved path; false: it is not. */
bool pni_lane_matmul(pn_context *c, const pn_tensor *x, const pn_tensor *y, pn_tensor *out);

enum { PNI_MATRIX_NAME = 200 };
/* "matrix [2, 3] of the batch" or "matrix" into buf, which is returned. */
const char *pni_matrix_name(int nlead, const int64_t *lead, int64_t i, char buf[PNI_MATRIX_NAME]);

#endif
