/*
** op_affine.c: x_t = m_t x_(t-1) + c_t over a sequence, as one operation. Its gradient is the same recursion backwards
** with the transposed matrices, so gradients of every order are made of it. attr: reverse, axes of the batch.
*/
#include <string.h>
#include "affine_recursion.h"
#include "gaussian_op.h"

typedef pn_tensor T;
typedef pn_context C;

enum { REVERSE, BATCH };
enum { FIRST, MATRIX, OFFSET };

/* ---- value: inputs x [batch..., n], m [T or 1, batch..., n, n], c [T, batch..., n], whose shape is the result's
 * ---- */

static pn_status infer(C *c, const pni_call *call, pni_spec *out) {
  const T *x = call->in[FIRST], *m = call->in[MATRIX], *o = call->in[OFFSET];
  int batch = (int)call->attr->i[BATCH];
  int64_t n = o->ndim ? o->shape[o->ndim - 1] : 0;
  bool fits = o->ndim == batch + 2 && x->ndim == batch + 1 && m->ndim == batch + 3;
  for (int i = 0; fits && i <= batch; i++) fits = x->shape[i] == o->shape[i + 1];
  for (int i = 0; fits && i <= batch; i++) fits = m->shape[i] == 1 || m->shape[i] == o->shape[i];
  fits = fits && m->shape[m->ndim - 1] == n && m->shape[m->ndim - 2] == n && n >= 1;
  char s[3][PNI_SHAPE_TEXT];
  if (!fits)
    return pni_fail(c, PN_SHAPE,
                    "kalman_path: mean must be [batch..., n], a [T or 1, batch..., n, n], offset [T, "
                    "batch..., n], got %s, %s, %s",
                    pni_shape_text(x->ndim, x->shape, s[0]), pni_shape_text(m->ndim, m->shape, s[1]),
                    pni_shape_text(o->ndim, o->shape, s[2]));
  *out = pni_spec_of(o);
  return PN_OK;
}

typedef struct {
  pni_affine s;
  C *c;
  char *scratch;
  int64_t bytes; /* per block */
  bool single;
} job;

static void run(void *data, int64_t begin, int64_t end) {
  job *j = data;
  pni_watch w = {.c = j->c};
  for (int64_t block = begin; block < end; block++) {
    int64_t first = block * PNI_AFFINE_BLOCK, left = j->s.count - first;
    int count = (int)(left < PNI_AFFINE_BLOCK ? left : PNI_AFFINE_BLOCK);
    (j->single ? pni_affine_f32 : pni_affine_f64)(&j->s, &w, first, count, j->scratch + block * j->bytes);
  }
}

/* The operands contiguous, m with its whole batch if it has any of it. New references, NULL for a failure. */
static bool own(C *c, const pni_call *call, T **in, bool *shared) {
  T *m = call->in[MATRIX];
  *shared = true;
  for (int i = 1; i <= (int)call->attr->i[BATCH]; i++) *shared = *shared && m->shape[i] == 1;
  if (!*shared) {
    int64_t shape[PN_MAX_DIMS];
    memcpy(shape, m->shape, sizeof shape);
    memcpy(shape + 1, call->in[OFFSET]->shape + 1, (size_t)call->attr->i[BATCH] * sizeof *shape);
    m = pn_broadcast_to(c, m, m->ndim, shape);
  }
  for (int k = 0; k < 3; k++) in[k] = m && !pni_failed(c) ? pni_contiguous(c, k == MATRIX ? m : call->in[k]) : NULL;
  return in[0] && in[1] && in[2];
}

static pn_status eval(C *c, const pni_call *call, T *out) {
  T *in[3] = {0};
  bool shared;
  int64_t n = out->shape[out->ndim - 1];
  if (out->numel == 0) return PN_OK;
  size_t mark = pn_scope_open(c);
  if (own(c, call, in, &shared)) {
    int64_t count = pni_count(out->ndim - 2, out->shape + 1), steps = out->shape[0];
    int64_t series = shared ? 0 : n * n, blocks = (count + PNI_AFFINE_BLOCK - 1) / PNI_AFFINE_BLOCK;
    job j = {.s = {.n = (int)n,
                   .reverse = call->attr->i[REVERSE] != 0,
                   .steps = steps,
                   .count = count,
                   .m_step = in[MATRIX]->shape[0] == 1 ? 0 : (shared ? 1 : count) * n * n,
                   .m_series = series,
                   .x = pni_data(in[FIRST]),
                   .m = pni_data(in[MATRIX]),
                   .c = pni_data(in[OFFSET]),
                   .out = pni_data(out)},
             .c = c,
             .bytes = 2 * n * PNI_AFFINE_BLOCK * (int64_t)pni_itemsize(out),
             .single = out->dtype == PN_FLOAT32};
    j.scratch = pni_alloc_array(c, blocks, (size_t)j.bytes);
    if (j.scratch) pni_parallel(c, blocks, 100000 / (steps * n * n * PNI_AFFINE_BLOCK) + 1, run, &j);
    pni_free(c, j.scratch);
  }
  for (int k = 0; k < 3; k++) pn_tensor_unref(in[k]);
  pn_scope_close(c, mark);
  return c->status;
}

/* ---- gradient ---- */

/* x without its last place on the time axis and with `end` before it, or with `reverse` the other way about. */
static T *shifted(C *c, T *x, T *end, bool reverse) {
  if (!x || !end) return NULL;
  int64_t steps = x->shape[0];
  if (steps == 1) return end;
  T *rest = pn_slice(c, x, 0, reverse ? 1 : 0, steps - 1, 1);
  return pn_concatenate(c, 2, reverse ? (T *[]){rest, end} : (T *[]){end, rest}, 0);
}

static T *column(C *c, T *x) { return pn_unsqueeze(c, x, -1); }

/* The sums of g x^T over what m is one for. */
static T *of_matrix(C *c, T *g, T *before, const T *m) {
  if (!g || !before) return NULL;
  int64_t n = g->shape[g->ndim - 1], steps = g->shape[0];
  bool shared = true;
  for (int i = 1; i < m->ndim - 2; i++) shared = shared && m->shape[i] == 1;
  if (!shared) return pni_sum_to(c, pn_matmul(c, column(c, g), pn_transpose(c, column(c, before), -2, -1)), m);
  const int64_t rows[] = {m->shape[0] == 1 ? 1 : steps, -1, n};
  T *left = pn_transpose(c, pn_reshape(c, g, 3, rows), -2, -1);
  return pn_reshape(c, pn_matmul(c, left, pn_reshape(c, before, 3, rows)), m->ndim, m->shape);
}

static T *vjp(C *c, T *y, T *g, int k) {
  T *x = pni_in(y, FIRST), *m = pni_in(y, MATRIX);
  bool reverse = y->attr->i[REVERSE] != 0;
  if (y->numel == 0) return pni_sum_to(c, pni_like(c, pni_in(y, k), 0), pni_in(y, k));
  int64_t steps = y->shape[0], first = reverse ? steps - 1 : 0, last = reverse ? 0 : steps - 1;
  T *mt = pn_transpose(c, m, -2, -1);
  if (!mt) return NULL;
  T *back = mt->shape[0] == 1 ? mt : shifted(c, mt, pn_slice(c, mt, 0, last, 1, 1), !reverse);
  pni_attr attr = {.ni = 2, .i = {!reverse, y->attr->i[BATCH]}};
  T *zero = pn_zeros(c, (pn_dtype)y->dtype, x->ndim, x->shape);
  T *l = pni_apply(c, &pni_gaussian_op_kalman_path, 3, (T *[]){zero, back, g}, &attr);
  if (k == OFFSET || !l) return l;
  if (k == MATRIX) return of_matrix(c, l, shifted(c, y, pn_unsqueeze(c, x, 0), reverse), m);
  T *own_m = pn_select(c, mt, 0, mt->shape[0] == 1 ? 0 : first);
  T *d = pn_matmul(c, own_m, column(c, pn_select(c, l, 0, first)));
  return d ? pn_squeeze(c, d, -1) : NULL;
}

pn_tensor *pn_kalman_path(C *c, int reverse, T *mean, T *a, T *offset) {
  if (pni_failed(c)) return NULL;
  if (!mean || !a || !offset) {
    pni_fail(c, PN_STATE, "kalman_path: mean, a and offset must be tensors, got NULL");
    return NULL;
  }
  pni_attr attr = {.ni = 2, .i = {reverse != 0, offset->ndim < 2 ? 0 : offset->ndim - 2}};
  return pni_apply(c, &pni_gaussian_op_kalman_path, 3, (T *[]){mean, a, offset}, &attr);
}

const pni_op pni_gaussian_op_kalman_path = {.name = "kalman_path",
                                            .args = "mean:t a:t offset:t reverse:b batch:i",
                                            .doc = "x_t = a_t x_(t-1) + offset_t from x_0 = mean: [T, batch..., n]",
                                            .flags = PNI_OP_HIDDEN,
                                            .infer = infer,
                                            .eval = eval,
                                            .vjp = vjp};
