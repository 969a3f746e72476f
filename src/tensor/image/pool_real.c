/*
** pool_real.c: kernels of pooling. Few windows are read one by one, all of a
** row together; windows that overlap much are pooled along one axis, then along the other, and along an axis in a time
** that does not grow with them (van Herk, 1992, "A fast algorithm for local minimum and maximum filters on rectangular
** and octagonal kernels"): the axis is cut into blocks as long as a window, each of which is the end of one block and
** the beginning of the next. Sums are taken that way, too: nothing is ever subtracted, so an inf or NaN stays in its
** windows.
*/
#include <math.h>
#include <string.h>
#include "../../base/span.h"
#include "../../base/type_real.h"
#include "pool.h"

/* Image rows (columns) lo <= i < hi of window p. */
static void window(const pni_conv *g, int axis, int64_t p, int64_t *lo, int64_t *hi) {
  int64_t start = p * g->stride[axis] - g->padding[axis], end = start + g->kernel[axis];
  *lo = start < 0 ? 0 : start;
  *hi = end > g->image[axis] ? g->image[axis] : end;
}

static REAL weight_of(const pni_conv *g, int what, int64_t count) {
  return 1 / (REAL)(what == PNI_POOL_MEAN ? g->kernel[0] * g->kernel[1] : count);
}

/* y[p, q] of one row p times the weights of its means. */
static void weigh(const pni_conv *g, int what, int64_t p, const REAL *x, REAL *y) {
  int64_t i0, i1, j0, j1;
  window(g, 0, p, &i0, &i1);
  for (int64_t q = 0; q < g->out[1]; q++) {
    window(g, 1, q, &j0, &j1);
    y[q] = x[q] * weight_of(g, what, (i1 - i0) * (j1 - j0));
  }
}

/* ---- window by window ---- */

/* The first largest of two places, a the earlier; a NaN counts as the largest. No branch hangs on the values. */
static inline int64_t larger(const REAL *x, int64_t a, int64_t b) {
  REAL best = x[a], v = x[b];
  int more = (best == best) & ((v > best) | (v != v));
  return a ^ ((a ^ b) & -(int64_t)more);
}

/* Place of the first largest element of each window. As below, the windows of a row take their element [i, j]
 * together. */
static void places(pni_watch *watch, const pni_conv *g, const REAL *x, int64_t *at) {
  int64_t w = g->image[1], ow = g->out[1], s = g->stride[1], i0, i1, j0, j1, q0, q1;
  for (int64_t p = 0; p < g->out[0]; p++, at += ow) {
    window(g, 0, p, &i0, &i1);
    for (int64_t q = 0; q < ow; q++) {
      window(g, 1, q, &j0, &j1);
      at[q] = i0 * w + j0;
    }
    for (int64_t i = i0; i < i1; i++)
      for (int64_t j = 0; j < g->kernel[1]; j++) {
        if (pni_watch_leaves(watch, ow + 16)) return;
        pni_conv_inside(j - g->padding[1], s, w, ow, &q0, &q1);
        int64_t place = i * w + j - g->padding[1] + q0 * s;
        for (int64_t q = q0; q < q1; q++, place += s) at[q] = larger(x, at[q], place);
      }
  }
}

static void pool(pni_watch *watch, const pni_conv *g, int what, const void *x_, void *y_) {
  const REAL *x = x_;
  REAL *y = y_;
  int64_t w = g->image[1], ow = g->out[1], s = g->stride[1], i0, i1, q0, q1;
  if (what == PNI_POOL_MAX_AT) {
    places(watch, g, x, y_);
    return;
  }
  for (int64_t p = 0; p < g->out[0]; p++, y += ow) {
    window(g, 0, p, &i0, &i1);
    for (int64_t q = 0; q < ow; q++) y[q] = what == PNI_POOL_MAX ? (REAL)-INFINITY : 0;
    for (int64_t i = i0; i < i1; i++)
      for (int64_t j = 0; j < g->kernel[1]; j++) {
        if (pni_watch_leaves(watch, ow + 16)) return;
        pni_conv_inside(j - g->padding[1], s, w, ow, &q0, &q1);
        const REAL *from = x + i * w + j - g->padding[1];
        if (what == PNI_POOL_MAX)
          for (int64_t q = q0; q < q1; q++)
            y[q] = from[q * s] > y[q] || from[q * s] != from[q * s] ? from[q * s] : y[q];
        else
          for (int64_t q = q0; q < q1; q++) y[q] += from[q * s];
      }
    if (what != PNI_POOL_MAX) weigh(g, what, p, y, y);
  }
}

static void unpool(pni_watch *watch, const pni_conv *g, int what, const void *y_, void *x_) {
  const REAL *y = y_;
  REAL *x = x_;
  int64_t w = g->image[1], ow = g->out[1], i0, i1, j0, j1;
  if (!pni_clear_in_shard(watch->c, x, (size_t)(g->image[0] * w) * sizeof *x)) return;
  for (int64_t p = 0; p < g->out[0]; p++, y += ow) {
    window(g, 0, p, &i0, &i1);
    for (int64_t q = 0; q < ow; q++) {
      window(g, 1, q, &j0, &j1);
      REAL v = y[q] * weight_of(g, what, (i1 - i0) * (j1 - j0));
      for (int64_t i = i0; i < i1; i++) {
        for (int64_t k = i * w + j0; k < i * w + j1; k++) x[k] += v;
        if (pni_watch_leaves(watch, j1 - j0 + 4)) return;
      }
    }
  }
}

/* ---- windows that overlap ---- */

#define AT(i) ((i) % l->gap ? NULL : in + (i) / l->gap * l->width)

/* out[p] of each window; JOIN(a, b) of two numbers, a the earlier, NONE what changes nothing. `end` has room for the
 * ends of a block, `begin` for one beginning. Places and windows only ever go upwards. */
#define SLIDE(name, T, NONE, JOIN)                                                                                     \
  static void name(pni_watch *watch, const pni_slide *l, const REAL *x, const T *in, T *out, T *end, T *begin) {       \
    int64_t n = l->n, w = l->width, block = -1, first = 0, last = 0, upto = 0, from = -1;                              \
    (void)x;                                                                                                           \
    for (int64_t p = 0; p < l->windows; p++, out += w) {                                                               \
      int64_t start = p * l->stride - l->padding, lo = start < 0 ? 0 : start, hi = start + l->kernel;                  \
      if (hi > n) hi = n;                                                                                              \
      if (lo >= hi) {                                                                                                  \
        for (int64_t q = 0; q < w; q++) out[q] = NONE;                                                                 \
        continue;                                                                                                      \
      }                                                                                                                \
      if (lo / l->kernel != block) { /* another block: all of its ends */                                              \
        block = lo / l->kernel;                                                                                        \
        first = block * l->kernel;                                                                                     \
        last = first + l->kernel < n ? first + l->kernel : n;                                                          \
        for (int64_t i = last - 1; i >= first; i--) {                                                                  \
          T *to = end + (i - first) * w;                                                                               \
          const T *v = AT(i);                                                                                          \
          for (int64_t q = 0; q < w; q++) {                                                                            \
            T later = i + 1 < last ? to[w + q] : (T)NONE;                                                              \
            to[q] = v ? i + 1 < last ? JOIN(v[q], later) : v[q] : later;                                               \
          }                                                                                                            \
          if (pni_watch_leaves(watch, 2 * w)) return;                                                                  \
        }                                                                                                              \
      }                                                                                                                \
      if (hi == last) { /* an end */                                                                                   \
        memcpy(out, end + (lo - first) * w, (size_t)w * sizeof *out);                                                  \
        continue;                                                                                                      \
      }                                                                                                                \
      int64_t of = hi < last ? first : last; /* the beginning of this block (lo = 0), or of the next */                \
      if (from != of) {                                                                                                \
        from = upto = of;                                                                                              \
        for (int64_t q = 0; q < w; q++) begin[q] = NONE;                                                               \
      }                                                                                                                \
      for (bool none = upto == of; upto < hi; upto++) {                                                                \
        const T *v = AT(upto);                                                                                         \
        for (int64_t q = 0; v && q < w; q++) begin[q] = none ? v[q] : JOIN(begin[q], v[q]);                            \
        none = none && !v;                                                                                             \
        if (pni_watch_leaves(watch, w + 2)) return;                                                                    \
      }                                                                                                                \
      for (int64_t q = 0; q < w; q++) out[q] = of == first ? begin[q] : JOIN(end[(lo - first) * w + q], begin[q]);     \
    }                                                                                                                  \
  }

#define ADD(a, b)    ((a) + (b))
#define LARGER(a, b) larger(x, a, b)
SLIDE(slide_sum, REAL, 0, ADD)
SLIDE(slide_at, int64_t, 0, LARGER)
#undef SLIDE
#undef ADD
#undef LARGER
#undef AT

static pni_slide forward_axis(const pni_conv *g, int a, int64_t width) {
  return (pni_slide){g->image[a], 1, g->kernel[a], g->stride[a], g->padding[a], g->out[a], width};
}

static void slide_places(pni_watch *w, const pni_conv *g, const REAL *x, int64_t *at, int64_t *room) {
  int64_t width = g->image[1], ow = g->out[1];
  pni_slide along = forward_axis(g, 1, 1), down = forward_axis(g, 0, ow);
  int64_t *rows = room, *line = rows + g->image[0] * ow, *rest = line + width;
  for (int64_t i = 0; i < g->image[0]; i++) {
    for (int64_t k = 0; k < width; k++) line[k] = i * width + k;
    slide_at(w, &along, x, line, rows + i * ow, rest + 1, rest);
    if (pni_watch_leaves(w, width) || pni_has_left(w->c)) return;
  }
  slide_at(w, &down, x, rows, at, line + ow, line);
}

static void slide(pni_watch *w, const pni_conv *g, int what, const void *x_, void *y_, void *room) {
  const REAL *x = x_;
  REAL *y = y_, *rows = room;
  int64_t ow = g->out[1], n = g->out[0] * ow;
  if (what == PNI_POOL_MAX_AT) {
    slide_places(w, g, x, y_, room);
    return;
  }
  if (what == PNI_POOL_MAX) {
    int64_t *at = room;
    slide_places(w, g, x, at, at + n);
    for (int64_t k = 0; k < n && !pni_has_left(w->c); k++) y[k] = x[at[k]];
    return;
  }
  pni_slide along = forward_axis(g, 1, 1), down = forward_axis(g, 0, ow);
  REAL *rest = rows + g->image[0] * ow;
  for (int64_t i = 0; i < g->image[0]; i++) {
    slide_sum(w, &along, x, x + i * g->image[1], rows + i * ow, rest + 1, rest);
    if (pni_watch_leaves(w, ow)) return;
  }
  slide_sum(w, &down, x, rows, y, rest + ow, rest);
  for (int64_t p = 0; p < g->out[0]; p++, y += ow) weigh(g, what, p, y, y);
}

/* Image place i gets the windows p with i + padding - kernel < p stride <= i + padding: sums over places of windows, of
 * which there is one in `stride`. */
static pni_slide backward_axis(const pni_conv *g, int a, int64_t width) {
  return (pni_slide){(g->out[a] - 1) * g->stride[a] + 1, g->stride[a], g->kernel[a], 1,
                     g->kernel[a] - 1 - g->padding[a],   g->image[a],  width};
}

static void slide_back(pni_watch *w, const pni_conv *g, int what, const void *y_, void *x, void *room) {
  const REAL *y = y_;
  int64_t width = g->image[1], ow = g->out[1];
  pni_slide along = backward_axis(g, 1, 1), down = backward_axis(g, 0, width);
  REAL *rows = room, *line = rows + g->out[0] * width, *rest = line + ow;
  for (int64_t p = 0; p < g->out[0]; p++) {
    weigh(g, what, p, y + p * ow, line);
    slide_sum(w, &along, y, line, rows + p * width, rest + 1, rest);
    if (pni_watch_leaves(w, width)) return;
  }
  slide_sum(w, &down, y, rows, x, line + width, line);
}

const pni_pool_kernels TYPED(pni_pool_kernels) = {pool, unpool, slide, slide_back};
