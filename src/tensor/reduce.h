/*
** reduce.h: kernels that turn rows into numbers. Two layouts only: `rows` reduces each run of `n` adjacent elements;
** `line` is a step down the first axis of an [n, width] block. Short rows go many at a time (rows/rows.h).
*/
#ifndef PN_TENSOR_REDUCE_H
#define PN_TENSOR_REDUCE_H

#include "tensor.h"

typedef struct pni_reducer {
  /* out[i] for each of `rows` runs of n elements, one after the other */
  void (*rows)(const void *x, int64_t rows, int64_t n, void *out);
  /* acc starts as the first line */
  void (*line)(const void *x, int64_t width, void *acc);
} pni_reducer;

enum { PNI_SUM, PNI_PROD, PNI_MAX, PNI_MIN, PNI_LOGSUMEXP, PNI_REDUCERS };

extern const pni_reducer pni_reducers_f64[PNI_REDUCERS];
extern const pni_reducer pni_reducers_f32[PNI_REDUCERS];
extern const pni_reducer pni_reducers_i64[PNI_REDUCERS];

/* Kernels along one axis: n elements `step` apart; the last two for `rows` runs of adjacent elements if step is 1, else
 * for one. NULL where undefined. */
typedef struct pni_scanner {
  void (*cumsum)(const void *x, void *y, int64_t n, int64_t step);
  void (*softmax)(const void *x, void *y, int64_t rows, int64_t n, int64_t step);
  void (*log_softmax)(const void *x, void *y, int64_t rows, int64_t n, int64_t step);
  /* Position of the first largest (smallest) element; a NaN counts as both. */
  int64_t (*argmax)(const void *x, int64_t n, int64_t step);
  int64_t (*argmin)(const void *x, int64_t n, int64_t step);
} pni_scanner;
extern const pni_scanner pni_scanner_f64, pni_scanner_f32, pni_scanner_i64;

#endif
