/*
** conv_real.c: kernels of convolution.
*/
#include "../product/gemm.h"
#include <math.h>
#include <string.h>
#include "../../base/subnormal.h"
#include "../../base/type_real.h"
#include "conv.h"
#include "copy_real.h"

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

static void split(const pni_conv *g, const void *x_, void *planes) {
  const REAL *x = x_;
  REAL *to = planes;
  int64_t h = g->image[0], w = g->image[1], s = g->stride[1], pad = g->padding[0], q0, q1;
  int64_t width = pni_conv_split_width(g);
  for (int64_t channel = 0; channel < g->ci; channel++, x += h * w)
    for (int64_t k = 0; k < s; k++) {
      int64_t start = k - g->padding[1];
      pni_conv_inside(start, s, w, width, &q0, &q1);
      for (int64_t row = -pad; row < h + pad; row++, to += width) {
        bool within = row >= 0 && row < h && q1 > q0;
        const REAL *from = x + row * w + start;
        for (int64_t q = 0; q < (within ? q0 : width); q++) to[q] = 0;
        if (within && s == 2) /* a shuffle of vectors */
          for (int64_t q = q0; q < q1; q++) to[q] = from[q * 2];
        else
          for (int64_t q = q0; within && q < q1; q++) to[q] = from[q * s];
        for (int64_t q = q1; within && q < width; q++) to[q] = 0;
      }
    }
}

static void gather(const pni_conv *g, const void *planes, void *col_) {
  const REAL *channel = planes;
  REAL *col = col_;
  int64_t width = pni_conv_split_width(g), rows = g->image[0] + 2 * g->padding[0], s = g->stride[1];
  for (int64_t k = 0; k < g->ci; k++, channel += s * rows * width)
    for (int64_t i = 0; i < g->kernel[0]; i++)
      for (int64_t j = 0; j < g->kernel[1]; j++) {
        int64_t at = j * g->dilation[1];
        const REAL *from = channel + (at % s * rows + i * g->dilation[0]) * width + at / s;
        for (int64_t p = 0; p < g->out[0]; p++, from += g->stride[0] * width, col += g->out[1])
          copy(col, from, g->out[1]);
      }
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

const pni_conv_kernels TYPED(pni_conv_kernels) = {patches, scatter, split, gather, gemm, add};
