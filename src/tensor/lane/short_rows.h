/*
** short_rows.h: what is done to each of many short rows. A row takes one lane of the processor's vectors: groups of
** them are transposed on the way in and out, and the exponentials and logarithms of a block of rows are one call of the
** vector functions. What a row gives depends on that row alone (and, as all vector functions, on the processor's
** level), not on the rows beside it or on how many there are. Sums of a row run in four parts, elements 0, 4, 8 ..., 1,
** 5, 9 ... and so on, and then (first + third) + (second + fourth).
*/
#ifndef PN_TENSOR_LANE_SHORT_ROWS_H
#define PN_TENSOR_LANE_SHORT_ROWS_H

#include "../tensor.h"

/* The longest short row. */
enum { PNI_SHORT_ROWS_LONGEST = 64 };

/* m is the largest element of the row x, NaN if there is one, p = e^(x - m) / sum e^(x - m). One number per row: */
typedef enum pni_short_rows_problem {
  PNI_SHORT_ROWS_SUM,
  PNI_SHORT_ROWS_MAX,
  PNI_SHORT_ROWS_MIN,
  PNI_SHORT_ROWS_ARGMAX, /* int64: place of the first largest; a NaN is larger than anything */
  PNI_SHORT_ROWS_ARGMIN,
  PNI_SHORT_ROWS_LOGSUMEXP, /* m + log sum e^(x - m); m itself where that is not finite */
  PNI_SHORT_ROWS_PICK,      /* element index[row] of LOG_SOFTMAX */
  PNI_SHORT_ROWS_DOT,       /* sum y LOG_SOFTMAX; terms with y = 0 are 0 */
  /* A row for each row: */
  PNI_SHORT_ROWS_SOFTMAX,           /* p */
  PNI_SHORT_ROWS_LOG_SOFTMAX,       /* (x - m) - log sum e^(x - m): m, which may be far larger, stays apart */
  PNI_SHORT_ROWS_PICK_SLOPE,        /* g (1[j = index[row]] - p) */
  PNI_SHORT_ROWS_DOT_SLOPE,         /* g (y - p sum y) */
  PNI_SHORT_ROWS_SOFTMAX_SLOPE,     /* x (y - sum x y) */
  PNI_SHORT_ROWS_LOG_SOFTMAX_SLOPE, /* y - e^x sum y */
  PNI_SHORT_ROWS_LOGSUMEXP_SLOPE,   /* g e^(x - y), y a number per row; 0 where that is -inf */
  PNI_SHORT_ROWS_KINDS
} pni_short_rows_problem;

/* Rows of n <= PNI_SHORT_ROWS_LONGEST elements; NULL what the kind has no use for. Elements of a row are `inner` apart,
 * 0 or 1 for adjacent ones: the tensors are [rows / inner, n, inner]. Adjacent ones of x may lie x_row from row to row;
 * 0: n. */
typedef struct pni_short_rows {
  pni_short_rows_problem kind;
  int n;
  int64_t inner;
  const void *x, *y;    /* [rows, n] but for the last kind */
  const int64_t *index; /* [rows], 0 .. n - 1 */
  const void *g;        /* [rows] */
  void *out;
  int64_t x_row;
} pni_short_rows;

/* Rows begin .. end - 1 at the level of the processor, or at `level` (lane_matrix.h) at most. */
void pni_short_rows_f64(const pni_short_rows *r, int64_t begin, int64_t end);
void pni_short_rows_f32(const pni_short_rows *r, int64_t begin, int64_t end);
void pni_short_rows_at_f64(int level, const pni_short_rows *r, int64_t begin, int64_t end);
void pni_short_rows_at_f32(int level, const pni_short_rows *r, int64_t begin, int64_t end);
/* All rows of a dtype. */
pn_status pni_short_rows_run(pn_context *c, int dtype, const pni_short_rows *r, int64_t rows);

#endif
