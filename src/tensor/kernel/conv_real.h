/*
** conv_real.h: kernels of convolution and pooling for one type, included with REAL, BLAS(name), TABLE, and
** FLUSH(), KEEP(before) around products (subnormal.h).
*/
#include <cblas.h>
#include <math.h>
#include <string.h>
#include "../../base/processor.h"
#include "conv.h"

/* Output places q0 <= q < q1 whose image place start + stride q lies in [0, size). */
static void inside(int64_t start, int64_t stride, int64_t size, int64_t count, int64_t *q0, int64_t *q1) {
  *q0 = start >= 0 ? 0 : (-start + stride - 1) / stride;
  *q1 = start >= size ? 0 : (size - 1 - start) / stride + 1;
  if (*q1 > count) *q1 = count;
  if (*q0 > *q1) *q0 = *q1;
}

static void patches(const pni_conv *g, const void *x_, void *col_, int64_t first, int64_t rows) {
  const REAL *x = x_;
  REAL *col = col_;
  int64_t h = g->image[0], w = g->image[1], ow = g->out[1], s = g->stride[1], q0, q1;
  for (int64_t channel = 0; channel < g->ci; channel++, x += h * w)
    for (int64_t i = 0; i < g->kernel[0]; i++)
      for (int64_t j = 0; j < g->kernel[1]; j++) {
        int64_t start = j * g->dilation[1] - g->padding[1];
        inside(start, s, w, ow, &q0, &q1);
        for (int64_t p = first; p < first + rows; p++, col += ow) {
          int64_t row = p * g->stride[0] + i * g->dilation[0] - g->padding[0];
          if (row < 0 || row >= h) {
            memset(col, 0, (size_t)ow * sizeof *col);
            continue;
          }
          const REAL *from = x + row * w + start;
          for (int64_t q = 0; q < q0; q++) col[q] = 0;
          if (s == 1 && q1 > q0)
            memcpy(col + q0, from + q0, (size_t)(q1 - q0) * sizeof *col);
          else
            for (int64_t q = q0; q < q1; q++) col[q] = from[q * s];
          for (int64_t q = q1; q < ow; q++) col[q] = 0;
        }
      }
}

static void scatter(const pni_conv *g, const void *col_, void *x_, int64_t first, int64_t rows) {
  const REAL *col = col_;
  REAL *x = x_;
  int64_t h = g->image[0], w = g->image[1], ow = g->out[1], s = g->stride[1], q0, q1;
  for (int64_t channel = 0; channel < g->ci; channel++, x += h * w)
    for (int64_t i = 0; i < g->kernel[0]; i++)
      for (int64_t j = 0; j < g->kernel[1]; j++) {
        int64_t start = j * g->dilation[1] - g->padding[1];
        inside(start, s, w, ow, &q0, &q1);
        for (int64_t p = first; p < first + rows; p++, col += ow) {
          int64_t row = p * g->stride[0] + i * g->dilation[0] - g->padding[0];
          if (row < 0 || row >= h) continue;
          REAL *to = x + row * w;
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

/* The elements are added in the order of `scatter`. */
static void put_back(const int32_t *place, int64_t n, int64_t channels, int64_t plane, const void *col_, void *x_) {
  const REAL *col = col_;
  REAL *x = x_;
  for (int64_t channel = 0; channel < channels; channel++, x += plane, col += n)
    for (int64_t k = 0; k < n; k++)
      if (place[k] >= 0) x[place[k]] += col[k];
}

static void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda, const void *b,
                 int64_t ldb, int beta, void *c, int64_t ldc) {
  unsigned before = FLUSH();
  BLAS(gemm)
  (CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, 1, a,
   (int)lda, b, (int)ldb, (REAL)beta, c, (int)ldc);
  KEEP(before);
}

static void add(void *sum_, const void *x_, int64_t n) {
  REAL *sum = sum_;
  const REAL *x = x_;
  for (int64_t i = 0; i < n; i++) sum[i] += x[i];
}

/* ---- pooling ---- */

/* Image rows (columns) lo <= i < hi of window p. */
static void window(const pni_conv *g, int axis, int64_t p, int64_t *lo, int64_t *hi) {
  int64_t start = p * g->stride[axis] - g->padding[axis], end = start + g->kernel[axis];
  *lo = start < 0 ? 0 : start;
  *hi = end > g->image[axis] ? g->image[axis] : end;
}

static REAL weight_of(const pni_conv *g, int what, int64_t count) {
  return 1 / (REAL)(what == PNI_POOL_MEAN ? g->kernel[0] * g->kernel[1] : count);
}

/* Place of the first largest element of each window; a NaN counts as the largest. As below, the windows of a row take
 * their element [i, j] together; no branch hangs on the values. */
static void places(const pni_conv *g, const REAL *x, int64_t *at) {
  int64_t w = g->image[1], ow = g->out[1], s = g->stride[1], i0, i1, j0, j1, q0, q1;
  for (int64_t p = 0; p < g->out[0]; p++, at += ow) {
    window(g, 0, p, &i0, &i1);
    for (int64_t q = 0; q < ow; q++) {
      window(g, 1, q, &j0, &j1);
      at[q] = i0 * w + j0;
    }
    for (int64_t i = i0; i < i1; i++)
      for (int64_t j = 0; j < g->kernel[1]; j++) {
        inside(j - g->padding[1], s, w, ow, &q0, &q1);
        int64_t place = i * w + j - g->padding[1] + q0 * s;
        for (int64_t q = q0; q < q1; q++, place += s) {
          REAL best = x[at[q]], v = x[place];
          int more = (best == best) & ((v > best) | (v != v));
          at[q] ^= (at[q] ^ place) & -(int64_t)more;
        }
      }
  }
}

/* One output row at a time, all windows of it taking their element [i, j] together. */
static void pool(const pni_conv *g, int what, const void *x_, void *y_) {
  const REAL *x = x_;
  REAL *y = y_;
  int64_t w = g->image[1], ow = g->out[1], s = g->stride[1], i0, i1, j0, j1, q0, q1;
  if (what == PNI_POOL_MAX_AT) {
    places(g, x, y_);
    return;
  }
  for (int64_t p = 0; p < g->out[0]; p++, y += ow) {
    window(g, 0, p, &i0, &i1);
    for (int64_t q = 0; q < ow; q++) y[q] = what == PNI_POOL_MAX ? (REAL)-INFINITY : 0;
    for (int64_t i = i0; i < i1; i++)
      for (int64_t j = 0; j < g->kernel[1]; j++) {
        inside(j - g->padding[1], s, w, ow, &q0, &q1);
        const REAL *from = x + i * w + j - g->padding[1];
        if (what == PNI_POOL_MAX)
          for (int64_t q = q0; q < q1; q++)
            y[q] = from[q * s] > y[q] || from[q * s] != from[q * s] ? from[q * s] : y[q];
        else
          for (int64_t q = q0; q < q1; q++) y[q] += from[q * s];
      }
    for (int64_t q = 0; q < ow && what != PNI_POOL_MAX; q++) {
      window(g, 1, q, &j0, &j1);
      y[q] *= weight_of(g, what, (i1 - i0) * (j1 - j0));
    }
  }
}

static void unpool(const pni_conv *g, int what, const void *y_, void *x_) {
  const REAL *y = y_;
  REAL *x = x_;
  int64_t w = g->image[1], ow = g->out[1], i0, i1, j0, j1;
  memset(x, 0, (size_t)(g->image[0] * w) * sizeof *x);
  for (int64_t p = 0; p < g->out[0]; p++, y += ow) {
    window(g, 0, p, &i0, &i1);
    for (int64_t q = 0; q < ow; q++) {
      window(g, 1, q, &j0, &j1);
      REAL v = y[q] * weight_of(g, what, (i1 - i0) * (j1 - j0));
      for (int64_t i = i0; i < i1; i++)
        for (int64_t k = i * w + j0; k < i * w + j1; k++) x[k] += v;
    }
  }
}

const pni_conv_kernels TABLE = {patches, scatter, gather, put_back, gemm, add, pool, unpool};
