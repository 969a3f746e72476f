/*
** op_cholesky.c: Cholesky factors over batches. The gradient is that of Murray (2016), "Differentiation of the Cholesky
** decomposition", arXiv:1602.07527: with M = L^T tril(G) and S the symmetric matrix that has the lower triangle of M,
**   dA = L^-T S L^-1 / 2,
** of builders, or of one kernel for small matrices: few by themselves, batches interleaved (tensor/lane).
*/
#include <string.h>
#include "op.h"
#include "../../base/processor.h"
#include "../../tensor/lapack/linalg.h"

typedef pn_tensor T;
typedef pn_context C;

static pn_status infer(C *c, const pni_call *call, pni_spec *out) {
  const T *x = call->in[0];
  char s[PNI_SHAPE_TEXT];
  *out = pni_spec_of(x);
  if (x->ndim >= 2 && x->shape[x->ndim - 1] == x->shape[x->ndim - 2]) return PN_OK;
  return pni_fail(c, PN_SHAPE, "%s: matrix must have shape [..., n, n], got %s", call->op->name,
                  pni_shape_text(x->ndim, x->shape, s));
}

static pn_status eval(C *c, const pni_call *call, T *out) {
  return pni_linalg(c, "cholesky", PNI_PATH_CHOICE, PNI_LANE_CHOLESKY, 0, call->in[0], NULL, out);
}

/* X^T over the last two axes. */
static T *mt(C *c, T *x) { return pn_transpose(c, x, -2, -1); }

static T *vjp(C *c, T *l, T *g, int k) {
  (void)k;
  T *m = pn_matmul(c, mt(c, l), pn_tril(c, g, 0));
  T *s = pn_add(c, pn_tril(c, m, 0), mt(c, pn_tril(c, m, -1)));
  T *half = pn_solve_triangular(c, l, s, 0, 1);
  return pn_mul(c, mt(c, pn_solve_triangular(c, l, mt(c, half), 0, 1)), pni_like(c, l, 0.5));
}

/* ---- one small matrix: rows of whole vectors, whose idle places hold 0 ---- */

enum { LARGEST = 32, FEW = 4, VECTOR = 8 };

typedef double matrix[LARGEST][LARGEST];

/* Rows of `width`; of a triangle the lower one alone. */
static void load(const T *x, int64_t at, int n, int width, bool triangle, matrix out) {
  for (int i = 0; i < n; i++) {
    int64_t from = at + i * n;
    int given = triangle ? i + 1 : n;
    if (x->dtype == PN_FLOAT64)
      memcpy(out[i], (const double *)pni_data(x) + from, (size_t)given * sizeof **out);
    else
      for (int j = 0; j < given; j++) out[i][j] = (double)((const float *)pni_data(x))[from + j];
    memset(out[i] + given, 0, (size_t)(width - given) * sizeof **out);
  }
}

/* What follows goes over vectors of columns, each of which stays in a register while the rows go by. */

/* Row i of m, from column `at` on, is sum over k >= i of l[k, i] g[k]; then m is made symmetric. */
PNI_EACH_LEVEL(product, (const double *restrict l, const double *restrict g, double *restrict m, int n), (l, g, m, n)) {
  for (int i = 0; i < n; i++)
    for (int at = 0; at <= i; at += VECTOR) {
      double sum[VECTOR] = {0};
      for (int k = i; k < n; k++) {
        double f = l[k * LARGEST + i];
        PNI_UNROLL for (int j = 0; j < VECTOR; j++) sum[j] += f * g[k * LARGEST + at + j];
      }
      PNI_UNROLL for (int j = 0; j < VECTOR; j++) m[i * LARGEST + at + j] = sum[j];
    }
}

static void mirror(matrix m, int n, int width) {
  for (int i = 0; i < n; i++) {
    for (int j = i + 1; j < n; j++) m[i][j] = m[j][i];
    for (int j = n; j < width; j++) m[i][j] = 0;
  }
}

/* Columns at .. at + width - 1 of m = L^-T m, from row `last` on. */
#define COLUMNS(width)                                                                                                 \
  for (int i = n - 1; i >= last; i--) {                                                                                \
    double row[width];                                                                                                 \
    PNI_UNROLL for (int j = 0; j < width; j++) row[j] = m[i * LARGEST + at + j];                                       \
    for (int k = i + 1; k < n; k++) {                                                                                  \
      double f = l[k * LARGEST + i];                                                                                   \
      PNI_UNROLL for (int j = 0; j < width; j++) row[j] -= f * m[k * LARGEST + at + j];                                \
    }                                                                                                                  \
    PNI_UNROLL for (int j = 0; j < width; j++) m[i * LARGEST + at + j] = row[j] * inverse[i];                          \
  }
/* Two vectors at a time: each waits for what it has just computed. `lower`: rows above the diagonal are not wanted. */
PNI_EACH_LEVEL(divide,
               (const double *restrict l, const double *restrict inverse, double *restrict m, int n, bool lower),
               (l, inverse, m, n, lower)) {
  for (int at = 0; at < n; at += 2 * VECTOR) {
    int last = lower ? at : 0;
    if (at + VECTOR < n)
      COLUMNS(2 * VECTOR)
    else
      COLUMNS(VECTOR)
  }
}
#undef COLUMNS

static void one(const T *l, const T *g, int64_t at, int n, T *out) {
  matrix a, b, m;
  double inverse[LARGEST] = {0};
  int width = (n + VECTOR - 1) / VECTOR * VECTOR;
  load(l, at, n, width, true, a);
  load(g, at, n, width, true, b);
  for (int i = 0; i < n; i++) inverse[i] = 1 / a[i][i];
  product(a[0], b[0], m[0], n);
  mirror(m, n, width);
  divide(a[0], inverse, m[0], n, false);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < width; j++) b[i][j] = j < n ? m[j][i] : 0;
  divide(a[0], inverse, b[0], n, true);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      int64_t k = at + i * n + j;
      if (out->dtype == PN_FLOAT64)
        ((double *)pni_data(out))[k] = 0.5 * (j <= i ? b[i][j] : b[j][i]);
      else
        ((float *)pni_data(out))[k] = (float)(0.5 * (j <= i ? b[i][j] : b[j][i]));
    }
}

static bool is_small(const T *l) {
  int64_t n = l->shape[l->ndim - 1];
  return n <= LARGEST && l->numel;
}

static pn_status infer_slope(C *c, const pni_call *call, pni_spec *out) {
  pni_spec like = pni_spec_of(call->in[0]);
  if (infer(c, call, out) || pni_require_like(c, call, 1, &like)) return c->status;
  return is_small(call->in[0]) || call->in[0]->numel == 0
             ? PN_OK
             : pni_fail(c, PN_SHAPE, "%s: matrices must be of at most %d rows", call->op->name, LARGEST);
}

static pn_status eval_slope(C *c, const pni_call *call, T *out) {
  T *l = pni_contiguous(c, call->in[0]), *g = l ? pni_contiguous(c, call->in[1]) : NULL;
  int n = (int)out->shape[out->ndim - 1];
  if (g && out->numel >= FEW * n * n) pni_linalg(c, "cholesky", PNI_PATH_SMALL, PNI_LANE_SLOPE, 0, l, g, out);
  for (int64_t at = 0; g && at < out->numel && out->numel < FEW * n * n; at += n * n) one(l, g, at, n, out);
  pn_tensor_unref(l);
  pn_tensor_unref(g);
  return c->status;
}

static const pni_op slope = {
    .name = "cholesky_slope", .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF, .infer = infer_slope, .eval = eval_slope};

static pn_status vjps(C *c, T *l, T *g, const bool *wanted, T **out) {
  (void)wanted;
  out[0] = is_small(l) ? pni_apply2(c, &slope, l, g, NULL) : vjp(c, l, g, 0);
  return c->status;
}

/* ---- the row ---- */

T *pn_cholesky(C *c, T *x) { return pni_apply1(c, &pni_op_cholesky, x, NULL); }

const pni_op pni_op_cholesky = {.name = "cholesky",
                                .args = "x:t",
                                .doc =
                                    "lower triangle L with L L^T = (x + x^T) / 2: [..., n, n] -> [..., n, n]; x must "
                                    "be positive definite; nil, message, code if not",
                                .infer = infer,
                                .eval = eval,
                                .vjp = vjp,
                                .vjps = vjps};
