/*
** shape.c: NumPy's broadcasting and the loop nest that every strided kernel runs in. Adjacent axes that
** are one run in memory for all operands are merged, so most nests end as a single inner loop.
*/
#include <string.h>
#include "tensor.h"
#include "../base/processor.h"
#include "../base/span.h"

int pni_axis(pn_context *c, const char *where, int64_t axis, int ndim) {
  int64_t a = axis < 0 ? axis + ndim : axis;
  if (a >= 0 && a < ndim) return (int)a;
  pni_fail(c, PN_SHAPE, "%s: axis must lie in the tensor's %d axes, got number %lld", where, ndim,
           (long long)(axis < 0 ? axis : axis + 1));
  return -1;
}

pn_status pni_broadcast(pn_context *c, const char *where, const pn_tensor *a, const pn_tensor *b, pni_spec *out) {
  int ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
  out->ndim = ndim;
  for (int i = 1; i <= ndim; i++) {
    int64_t m = i <= a->ndim ? a->shape[a->ndim - i] : 1;
    int64_t n = i <= b->ndim ? b->shape[b->ndim - i] : 1;
    if (m != n && m != 1 && n != 1) {
      char x[PNI_SHAPE_TEXT], y[PNI_SHAPE_TEXT];
      return pni_fail(c, PN_SHAPE, "%s: shapes must broadcast, got %s and %s", where,
                      pni_shape_text(a->ndim, a->shape, x), pni_shape_text(b->ndim, b->shape, y));
    }
    out->shape[ndim - i] = m == 1 ? n : m;
  }
  return PN_OK;
}

void pni_broadcast_strides(const pn_tensor *t, int ndim, int64_t *stride) {
  int lead = ndim - t->ndim;
  for (int i = 0; i < ndim; i++) stride[i] = i < lead || t->shape[i - lead] == 1 ? 0 : t->stride[i - lead];
}

/* Drops axes of size 1 and merges axis i into i + 1 where every operand continues its run. */
static void merge(pni_loop *l) {
  int n = 0;
  for (int i = 0; i < l->ndim; i++) {
    if (l->shape[i] == 1) continue;
    bool joins = n > 0;
    for (int k = 0; joins && k < l->nop; k++) joins = l->stride[k][n - 1] == l->stride[k][i] * l->shape[i];
    if (!joins) n++;
    l->shape[n - 1] = joins ? l->shape[n - 1] * l->shape[i] : l->shape[i];
    for (int k = 0; k < l->nop; k++) l->stride[k][n - 1] = l->stride[k][i];
  }
  l->ndim = n; /* at least 1: a single element is one run (below) */
}

/* Whole tensors in one memory order, or single elements: one run without any merging. Gives false where
 * some operand is neither. */
static bool one_run(pni_loop *l, const pn_tensor *out, int nin, pn_tensor *const *in) {
  if (!pni_is_contiguous(out)) return false;
  for (int k = 0; k < nin; k++) {
    if (in[k]->numel == 1)
      l->stride[k + 1][0] = 0;
    else if (in[k]->numel == out->numel && pni_is_contiguous(in[k]))
      l->stride[k + 1][0] = 1;
    else
      return false;
    l->base[k + 1] = pni_data(in[k]);
    l->size[k + 1] = pni_itemsize(in[k]);
  }
  l->ndim = 1;
  l->nop = nin + 1;
  l->shape[0] = out->numel;
  l->stride[0][0] = 1;
  l->base[0] = pni_data(out);
  l->size[0] = pni_itemsize(out);
  return true;
}

void pni_loop_init(pni_loop *l, const pn_tensor *out, int nin, pn_tensor *const *in) {
  l->ndim = l->nop = 0;
  if (nin >= PNI_OPERANDS) return; /* pni_loop_run refuses a nest of no operands */
  if (one_run(l, out, nin, in)) return;
  l->ndim = out->ndim;
  l->nop = nin + 1;
  memcpy(l->shape, out->shape, sizeof l->shape);
  for (int k = 0; k <= nin; k++) {
    const pn_tensor *t = k ? in[k - 1] : out;
    pni_broadcast_strides(t, out->ndim, l->stride[k]);
    l->base[k] = pni_data(t);
    l->size[k] = pni_itemsize(t);
  }
  merge(l);
}

typedef struct {
  const pni_loop *l;
  pni_map_kernel row;
  void *data;
  int64_t pieces, piece; /* of long rows: how many of what length */
} shard;

/* Inner axis cut into pieces: operands advance by their stride. */
static void run_inner(void *data, int64_t begin, int64_t end) {
  const shard *s = data;
  const pni_loop *l = s->l;
  char *p[PNI_OPERANDS];
  int64_t stride[PNI_OPERANDS];
  for (int k = 0; k < l->nop; k++) {
    stride[k] = l->stride[k][0];
    p[k] = l->base[k] + begin * stride[k] * (int64_t)l->size[k];
  }
  s->row(s->data, end - begin, p, stride);
}

/* Rows begin .. end - 1 of the nest without its inner axis. */
static void run_rows(void *data, int64_t begin, int64_t end) {
  const shard *s = data;
  const pni_loop *l = s->l;
  int outer = l->ndim - 1;
  int64_t at[PN_MAX_DIMS], stride[PNI_OPERANDS];
  char *p[PNI_OPERANDS] = {NULL}, *q[PNI_OPERANDS];
  for (int k = 0; k < l->nop; k++) {
    p[k] = l->base[k];
    stride[k] = l->stride[k][outer];
  }
  int64_t rest = begin;
  for (int i = outer - 1; i >= 0; i--) {
    at[i] = rest % l->shape[i];
    rest /= l->shape[i];
    for (int k = 0; k < l->nop; k++) p[k] += at[i] * l->stride[k][i] * (int64_t)l->size[k];
  }
  for (int64_t r = begin; r < end; r++) {
    memcpy(q, p, sizeof q);
    s->row(s->data, l->shape[outer], q, stride);
    for (int i = outer - 1; i >= 0; i--) {
      for (int k = 0; k < l->nop; k++) p[k] += l->stride[k][i] * (int64_t)l->size[k];
      if (++at[i] < l->shape[i]) break;
      for (int k = 0; k < l->nop; k++) p[k] -= l->shape[i] * l->stride[k][i] * (int64_t)l->size[k];
      at[i] = 0;
    }
  }
}

/* ---- short rows: a block of them is one run of every operand, gathered where it is none ---- */

enum { BLOCK = 512 };

#define GATHER(name, T)                                                                                                \
  PNI_EACH_LEVEL(name, (T *restrict d, const char *src, int64_t rows, int64_t jump, int64_t n, int64_t step),          \
                 (d, src, rows, jump, n, step)) {                                                                      \
    for (int64_t r = 0; r < rows; r++, src += jump, d += n) {                                                          \
      const T *x = (const T *)(const void *)src;                                                                       \
      if (step == 0) {                                                                                                 \
        T v = *x;                                                                                                      \
        for (int64_t i = 0; i < n; i += PNI_GATHER_PAD)                                                                \
          for (int k = 0; k < PNI_GATHER_PAD; k++) d[i + k] = v;                                                       \
      } else {                                                                                                         \
        for (int64_t i = 0; i < n; i++) d[i] = x[i * step];                                                            \
      }                                                                                                                \
    }                                                                                                                  \
  }
GATHER(gather_8, uint64_t)
GATHER(gather_4, uint32_t)
GATHER(gather_1, uint8_t)

void pni_gather_rows(void *dst, const void *src, int64_t rows, int64_t jump, int64_t n, int64_t step, int64_t size) {
  if (size == 8)
    gather_8(dst, src, rows, jump, n, step);
  else if (size == 4)
    gather_4(dst, src, rows, jump, n, step);
  else
    gather_1(dst, src, rows, jump, n, step);
}

/* Does operand k run on over all axes of the nest? */
static bool runs_on(const pni_loop *l, int k) {
  int64_t width = 1;
  for (int a = l->ndim - 1; a >= 0; width *= l->shape[a--])
    if (l->stride[k][a] != width) return false;
  return true;
}

static bool is_short(const pni_loop *l, int64_t rows) {
  return l->shape[l->ndim - 1] <= PNI_SHORT_ROW && rows >= 8 && runs_on(l, 0);
}

/* Where row r of operand k begins. */
static char *row_at(const pni_loop *l, int k, int64_t r) {
  int64_t at = 0;
  for (int a = l->ndim - 2; a >= 0; a--) {
    at += r % l->shape[a] * l->stride[k][a];
    r /= l->shape[a];
  }
  return l->base[k] + at * (int64_t)l->size[k];
}

static void run_short(void *data, int64_t begin, int64_t end) {
  const shard *s = data;
  const pni_loop *l = s->l;
  int outer = l->ndim - 2;
  int64_t n = l->shape[outer + 1], most = BLOCK / n, stride[PNI_OPERANDS];
  uint64_t room[PNI_OPERANDS][BLOCK + PNI_GATHER_PAD];
  bool on[PNI_OPERANDS];
  char *p[PNI_OPERANDS];
  for (int k = 0; k < l->nop; k++) {
    on[k] = runs_on(l, k);
    stride[k] = 1;
  }
  for (int64_t r = begin, count; r < end; r += count) {
    count = end - r < most ? end - r : most;
    for (int k = 0; k < l->nop; k++) {
      p[k] = on[k] ? row_at(l, k, r) : (char *)room[k];
      for (int64_t done = 0, run; !on[k] && done < count; done += run) { /* along the last axis but one */
        int64_t left = l->shape[outer] - (r + done) % l->shape[outer], size = (int64_t)l->size[k];
        run = count - done < left ? count - done : left;
        pni_gather_rows(p[k] + done * n * size, row_at(l, k, r + done), run, l->stride[k][outer] * size, n,
                        l->stride[k][outer + 1], size);
      }
    }
    s->row(s->data, count * n, p, stride);
  }
}

/* Rows that are longer than a shard, in pieces. */
static void run_pieces(void *data, int64_t begin, int64_t end) {
  const shard *s = data;
  const pni_loop *l = s->l;
  int inner = l->ndim - 1;
  char *p[PNI_OPERANDS];
  int64_t stride[PNI_OPERANDS];
  for (int64_t i = begin; i < end; i++) {
    int64_t from = i % s->pieces * s->piece, left = l->shape[inner] - from;
    for (int k = 0; k < l->nop; k++) {
      stride[k] = l->stride[k][inner];
      p[k] = row_at(l, k, i / s->pieces) + from * stride[k] * (int64_t)l->size[k];
    }
    s->row(s->data, left < s->piece ? left : s->piece, p, stride);
  }
}

/* What is too small for threads. Some kernels take microseconds for an element, so a deadline is looked for as well. */
static pn_status run_alone(pn_context *c, int64_t n, int64_t fine, pni_shard body, shard *s) {
  if (!pni_deadline(c)) fine = n;
  for (int64_t begin = 0; begin < n; begin += fine) {
    if (begin && pni_check_cancel(c)) return c->status;
    body(s, begin, n - begin < fine ? n : begin + fine);
  }
  return PN_OK;
}

pn_status pni_loop_run(pn_context *c, const pni_loop *l, pni_map_kernel row, void *data) {
  enum { GRAIN = 16384, FINE = 2048 };
  shard s = {.l = l, .row = row, .data = data};
  if (l->nop == 0) return pni_fail(c, PN_STATE, "loop: at most %d operands are possible", PNI_OPERANDS);
  int64_t inner = l->shape[l->ndim - 1], grain = pni_deadline(c) ? FINE : GRAIN;
  if (l->ndim == 1) {
    if (inner <= 2 * GRAIN) return run_alone(c, inner, FINE, run_inner, &s);
    return pni_parallel(c, inner, grain, run_inner, &s);
  }
  int64_t rows = pni_count(l->ndim - 1, l->shape);
  if (rows == 0 || inner == 0) return PN_OK;
  pni_shard body = is_short(l, rows) ? run_short : run_rows;
  if (rows * inner <= 2 * GRAIN) return run_alone(c, rows, FINE / inner + 1, body, &s);
  if (inner <= grain) return pni_parallel(c, rows, grain / inner, body, &s);
  s.piece = grain;
  s.pieces = (inner + grain - 1) / grain;
  return pni_parallel(c, rows * s.pieces, 1, run_pieces, &s);
}

/* ---- copying and converting ---- */

#define COPY_ROW(name, D, S, expr)                                                                                     \
  static void name(void *data, int64_t n, char *const *p, const int64_t *s) {                                          \
    (void)data;                                                                                                        \
    D *d = (D *)(void *)p[0];                                                                                          \
    const S *x = (const S *)(const void *)p[1];                                                                        \
    if (s[0] == 1 && s[1] == 1)                                                                                        \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        S v = x[i];                                                                                                    \
        d[i] = expr;                                                                                                   \
      }                                                                                                                \
    else                                                                                                               \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        S v = x[i * s[1]];                                                                                             \
        d[i * s[0]] = expr;                                                                                            \
      }                                                                                                                \
  }

/* Float to int64 truncates; NaN gives 0, values out of range saturate. */
static int64_t truncated(double v) {
  if (v != v) return 0;
  if (v >= 9223372036854775807.0) return INT64_MAX;
  if (v <= -9223372036854775808.0) return INT64_MIN;
  return (int64_t)v;
}

COPY_ROW(f64_f64, double, double, v)
COPY_ROW(f64_f32, double, float, (double)v)
COPY_ROW(f64_i64, double, int64_t, (double)v)
COPY_ROW(f64_b, double, uint8_t, (double)v)
COPY_ROW(f32_f64, float, double, (float)v)
COPY_ROW(f32_f32, float, float, v)
COPY_ROW(f32_i64, float, int64_t, (float)v)
COPY_ROW(f32_b, float, uint8_t, (float)v)
COPY_ROW(i64_f64, int64_t, double, truncated(v))
COPY_ROW(i64_f32, int64_t, float, truncated((double)v))
COPY_ROW(i64_i64, int64_t, int64_t, v)
COPY_ROW(i64_b, int64_t, uint8_t, v)
COPY_ROW(b_f64, uint8_t, double, v != 0)
COPY_ROW(b_f32, uint8_t, float, v != 0)
COPY_ROW(b_i64, uint8_t, int64_t, v != 0)
COPY_ROW(b_b, uint8_t, uint8_t, v)

static const pni_map_kernel copy_row[4][4] = {{f64_f64, f64_f32, f64_i64, f64_b},
                                              {f32_f64, f32_f32, f32_i64, f32_b},
                                              {i64_f64, i64_f32, i64_i64, i64_b},
                                              {b_f64, b_f32, b_i64, b_b}};

pni_map_kernel pni_copy_row(int dst, int src) { return copy_row[dst][src]; }

pn_status pni_copy(pn_context *c, pn_tensor *dst, const pn_tensor *src) {
  if (dst->dtype == src->dtype && dst->numel == src->numel && pni_is_contiguous(src) && pni_is_contiguous(dst)) {
    return pni_copy_bytes(c, pni_data(dst), pni_data(src), (size_t)src->numel * pni_itemsize(src));
  }
  pni_loop l;
  pni_loop_init(&l, dst, 1, (pn_tensor *[]){(pn_tensor *)src});
  return pni_loop_run(c, &l, copy_row[dst->dtype][src->dtype], NULL);
}
