/*
** reduce.h: kernels that turn rows into numbers. Two layouts only: `rows` reduces each run of `n` adjacent elements;
** `line` is a step down the first axis of an [n, width] block. Short rows go many at a time (lane/short_rows.h).
*/
#ifndef PN_TENSOR_KERNEL_REDUCE_H
#define PN_TENSOR_KERNEL_REDUCE_H

#include "../tensor.h"

typedef struct pni_reducer {
  /* out[i] for each of `rows` runs of n elements, one after the other */
  void (*rows)(const void *x, int64_t rows, int64_t n, void *out);
  /* acc starts as the first line */
  void (*line)(const void *x, int64_t width, void *acc);
} pni_reducer;

/* A sum of a row that is at hand piece by piece, pieces of PNI_PIECE elements (the last may be shorter): parts sums
 * each piece of n elements that begin with one, join the parts of a row of n elements: to the bits of the whole row. */
enum { PNI_PIECE = 256 };
typedef struct pni_pieces {
  void (*parts)(const void *x, int64_t n, void *part);
  void (*join)(const void *part, int64_t n, void *out);
} pni_pieces;
extern const pni_pieces pni_sum_pieces_f64, pni_sum_pieces_f32;

enum { PNI_SUM, PNI_PROD, PNI_MAX, PNI_MIN, PNI_LOGSUMEXP, PNI_REDUCERS };

extern const pni_reducer pni_reducers_f64[PNI_REDUCERS];
extern const pni_reducer pni_reducers_f32[PNI_REDUCERS];
extern const pni_reducer pni_reducers_i64[PNI_REDUCERS];

/* Kernels along one axis: n elements `step` apart; NULL where undefined. They leave the rest when the watch says so. */
typedef struct pni_scanner {
  void (*cumsum)(pni_watch *w, const void *x, void *y, int64_t n, int64_t step);
  void (*softmax)(pni_watch *w, const void *x, void *y, int64_t n, int64_t step);
  void (*log_softmax)(pni_watch *w, const void *x, void *y, int64_t n, int64_t step);
  /* Position of the first largest (smallest) element; a NaN counts as both. */
  int64_t (*argmax)(pni_watch *w, const void *x, int64_t n, int64_t step);
  int64_t (*argmin)(pni_watch *w, const void *x, int64_t n, int64_t step);
} pni_scanner;
extern const pni_scanner pni_scanner_f64, pni_scanner_f32, pni_scanner_i64;

/* Recurrences along one axis: n elements of x and y `step` apart, of a `a_step` apart. */
typedef struct pni_run {
  const void *x, *a;
  void *y;
  int64_t n, step, a_step;
} pni_run;
typedef void pni_run_line(pni_watch *w, const pni_run *r);
/* NULL where undefined. Positions (int64) are those of the latest of equals; a NaN counts as both. */
typedef struct pni_runner {
  pni_run_line *recurrence, *logcumsumexp, *argcummax, *argcummin;
} pni_runner;
extern const pni_runner pni_runner_f64, pni_runner_f32, pni_runner_i64;

#endif
