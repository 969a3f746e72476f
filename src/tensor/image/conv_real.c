/*
** conv_real.c: kernels of convolution.
*/
#include "../product/gemm.h"
#include <math.h>
#include <string.h>
#include "../../base/processor.h"
#include "../../base/subnormal.h"
#include "../../base/type_real.h"
#include "conv.h"

/* Rows first .. last - 1 of col: each stands for a place of the kernel in a channel. */
static void patches(const pni_conv *g, const pni_conv_tile *t, const void *x_, void *col_) {
  const REAL *x = x_;
  REAL *col = col_;
  int64_t h = g->image[0], w = g->image[1], s = g->stride[1], q0, q1, area = g->kernel[0] * g->kernel[1];
  for (int64_t d = t->first; d < t->last; d++) {
    int64_t i = d % area / g->kernel[1], j = d % g->kernel[1];
    int64_t start = j * g->dilation[1] - g->padding[1] + t->column * s;
    const REAL *channel = x + d / area * h * w;
    pni_conv_inside(start, s, w, t->columns, &q0, &q1);
    for (int64_t p = t->row; p < t->row + t->rows; p++, col += t->columns) {
      int64_t row = p * g->stride[0] + i * g->dilation[0] - g->padding[0];
      if (row < 0 || row >= h) {
        memset(col, 0, (size_t)t->columns * sizeof *col);
        continue;
      }
      const REAL *from = channel + row * w + start;
      for (int64_t q = 0; q < q0; q++) col[q] = 0;
      if (s == 1 && q1 > q0)
        memcpy(col + q0, from + q0, (size_t)(q1 - q0) * sizeof *col);
      else
        for (int64_t q = q0; q < q1; q++) col[q] = from[q * s];
      for (int64_t q = q1; q < t->columns; q++) col[q] = 0;
    }
  }
}

static void scatter(const pni_conv *g, const pni_conv_tile *t, const void *col_, void *x_) {
  const REAL *col = col_;
  REAL *x = x_;
  int64_t h = g->image[0], w = g->image[1], s = g->stride[1], q0, q1, area = g->kernel[0] * g->kernel[1];
  for (int64_t d = t->first; d < t->last; d++) {
    int64_t i = d % area / g->kernel[1], j = d % g->kernel[1];
    int64_t start = j * g->dilation[1] - g->padding[1] + t->column * s;
    REAL *channel = x + d / area * h * w;
    pni_conv_inside(start, s, w, t->columns, &q0, &q1);
    for (int64_t p = t->row; p < t->row + t->rows; p++, col += t->columns) {
      int64_t row = p * g->stride[0] + i * g->dilation[0] - g->padding[0];
      if (row < 0 || row >= h) continue;
      REAL *to = channel + row * w;
      for (int64_t q = q0; q < q1; q++) to[start + q * s] += col[q];
    }
  }
}

/* One channel's patches by the places of their elements. */
PNI_EACH_LEVEL(channel_at, (const int32_t *restrict place, int64_t n, const REAL *restrict x, REAL *restrict col),
               (place, n, x, col)) {
  for (int64_t k = 0; k < n; k++) {
    REAL v = x[place[k] < 0 ? 0 : place[k]];
    col[k] = place[k] < 0 ? 0 : v;
  }
}

static void gather(const int32_t *place, int64_t n, int64_t channels, int64_t plane, const void *x_, void *col_) {
  const REAL *x = x_;
  REAL *col = col_;
  for (int64_t channel = 0; channel < channels; channel++) channel_at(place, n, x + channel * plane, col + channel * n);
}

static void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda, const void *b,
                 int64_t ldb, int beta, void *c, int64_t ldc) {
  unsigned before = FLUSH();
  GEMM(ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, 1, a, (int)lda, b,
       (int)ldb, (REAL)beta, c, (int)ldc);
  KEEP(before);
}

static void add(void *sum_, const void *x_, int64_t n) {
  REAL *sum = sum_;
  const REAL *x = x_;
  for (int64_t i = 0; i < n; i++) sum[i] += x[i];
}

const pni_conv_kernels TYPED(pni_conv_kernels) = {patches, scatter, gather, gemm, add};
