/*
** reduce.h: kernels that turn rows into numbers. Two layouts only: `rows` reduces each run of `n`
** adjacent elements; `columns` reduces down the first axis of an [n, width] block into `acc`.
*/
#ifndef PN_TENSOR_REDUCE_H
#define PN_TENSOR_REDUCE_H

#include "tensor.h"

typedef struct pni_reducer {
  void (*row)(const void *x, int64_t n, void *out);
  /* acc starts as the first line */
  void (*line)(const void *x, int64_t width, void *acc);
} pni_reducer;

enum { PNI_SUM, PNI_PROD, PNI_MAX, PNI_MIN, PNI_LOGSUMEXP, PNI_REDUCERS };

extern const pni_reducer pni_reducers_f64[PNI_REDUCERS];
extern const pni_reducer pni_reducers_f32[PNI_REDUCERS];
extern const pni_reducer pni_reducers_i64[PNI_REDUCERS];

/* Kernels along one axis: n elements `step` apart; NULL where undefined. */
typedef struct pni_scanner {
  void (*cumsum)(const void *x, void *y, int64_t n, int64_t step);
  void (*softmax)(const void *x, void *y, int64_t n, int64_t step);
  void (*log_softmax)(const void *x, void *y, int64_t n, int64_t step);
  /* Position of the first largest (smallest) element; a NaN counts as both. */
  int64_t (*argmax)(const void *x, int64_t n, int64_t step);
  int64_t (*argmin)(const void *x, int64_t n, int64_t step);
} pni_scanner;
extern const pni_scanner pni_scanner_f64, pni_scanner_f32, pni_scanner_i64;

#endif
