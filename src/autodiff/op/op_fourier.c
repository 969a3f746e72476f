/*
** op_fourier.c: discrete Fourier transforms along one axis, of any length (math/fourier). Complex numbers are tensors
** whose last axis holds real and imaginary part. attr: i[0] axis, i[1] of irfft: how many numbers come out.
*/
#include <string.h>
#include "op.h"
#include "../../math/fourier/fourier.h"

typedef pn_tensor T;
typedef pn_context C;

/* ---- lines: n numbers of one tensor, `step` elements apart ---- */

typedef struct {
  int64_t n, inner, lines, parts; /* of a line; between its numbers; how many; 2 of complex numbers, else 1 */
  char *data;
} lines;

/* The lines of a contiguous tensor along an axis. */
static lines lines_of(const T *t, int axis, bool is_complex) {
  lines l = {.n = t->shape[axis], .parts = is_complex ? 2 : 1, .data = pni_data(t)};
  l.inner = pni_count(t->ndim - axis - 1, t->shape + axis + 1) / l.parts;
  l.lines = t->numel / (l.n * l.parts);
  return l;
}

/* Element of line i with part 0 or 1, and how many elements the next number of the line is away. */
static int64_t place(const lines *l, int64_t i, int part) {
  return (i / l->inner * l->n * l->inner + i % l->inner) * l->parts + part;
}
static int64_t step_of(const lines *l) { return l->inner * l->parts; }

static void copy_numbers(void *to, int64_t to_step, const void *from, int64_t from_step, int64_t n, size_t size) {
  if (size == sizeof(double)) {
    double *y = to;
    const double *x = from;
    for (int64_t i = 0; i < n; i++) y[i * to_step] = x[i * from_step];
  } else {
    float *y = to;
    const float *x = from;
    for (int64_t i = 0; i < n; i++) y[i * to_step] = x[i * from_step];
  }
}

/* Line i into the numbers at `to`, and back. */
static void read_line(const lines *l, int64_t i, int part, void *to, size_t size) {
  copy_numbers(to, 1, l->data + (size_t)place(l, i, part) * size, step_of(l), l->n, size);
}
static void write_line(const lines *l, int64_t i, int part, const void *from, size_t size) {
  copy_numbers(l->data + (size_t)place(l, i, part) * size, step_of(l), from, 1, l->n, size);
}

/* A transform of all lines of x into those of out. */
typedef struct {
  C *c;
  lines x, out;
  size_t size; /* bytes of a number */
  char *re, *im, *real;
  pni_fourier *whole;
  pni_real_fourier *half;
  bool back;
} transform;

static pn_status complex_line(transform *f, int64_t i) {
  read_line(&f->x, i, 0, f->re, f->size);
  read_line(&f->x, i, 1, f->im, f->size);
  pn_status s =
      f->back ? pni_fourier_inverse(f->c, f->whole, f->re, f->im) : pni_fourier_forward(f->c, f->whole, f->re, f->im);
  write_line(&f->out, i, 0, f->re, f->size);
  write_line(&f->out, i, 1, f->im, f->size);
  return s;
}

static pn_status line_to_half(transform *f, int64_t i) {
  read_line(&f->x, i, 0, f->real, f->size);
  pn_status s = pni_real_fourier_forward(f->c, f->half, f->real, f->re, f->im);
  write_line(&f->out, i, 0, f->re, f->size);
  write_line(&f->out, i, 1, f->im, f->size);
  return s;
}

static pn_status half_to_line(transform *f, int64_t i) {
  read_line(&f->x, i, 0, f->re, f->size);
  read_line(&f->x, i, 1, f->im, f->size);
  pn_status s = pni_real_fourier_inverse(f->c, f->half, f->re, f->im, f->real);
  write_line(&f->out, i, 0, f->real, f->size);
  return s;
}

/* Looks at the clock about once in so many numbers. */
enum { LOOK_AFTER = 1 << 14 };

static pn_status each_line(transform *f, pn_status (*one)(transform *f, int64_t i)) {
  int64_t n = f->x.n > f->out.n ? f->x.n : f->out.n, seen = 0;
  for (int64_t i = 0; i < f->x.lines; i++, seen += n) {
    if (seen >= LOOK_AFTER) {
      if (pni_check_cancel(f->c)) return f->c->status;
      seen = 0;
    }
    if (one(f, i)) return f->c->status;
  }
  return PN_OK;
}

/* Room for real and imaginary parts, each as many as the longer line, and for real numbers. */
static pn_status run(C *c, const pni_call *call, T *out, bool from_complex, bool to_complex, bool back) {
  if (out->numel == 0) return PN_OK;
  int axis = (int)call->attr->i[0];
  T *x = pni_contiguous(c, call->in[0]);
  if (!x) return c->status;
  transform f = {.c = c, .x = lines_of(x, axis, from_complex), .out = lines_of(out, axis, to_complex), .back = back};
  int64_t n = f.x.n > f.out.n ? f.x.n : f.out.n;
  bool is_whole = from_complex && to_complex;
  f.size = pni_itemsize(x);
  if (is_whole)
    f.whole = pni_fourier_new(c, x->dtype, n);
  else
    f.half = pni_real_fourier_new(c, x->dtype, n);
  char *room = f.whole || f.half ? pni_alloc_array(c, n, 3 * f.size) : NULL;
  if (room) {
    f.re = room;
    f.im = room + (size_t)n * f.size;
    f.real = f.im + (size_t)n * f.size;
    each_line(&f, is_whole ? complex_line : to_complex ? line_to_half : half_to_line);
    pni_free(c, room);
  }
  pni_fourier_free(c, f.whole);
  pni_real_fourier_free(c, f.half);
  pn_tensor_unref(x);
  return c->status;
}

static pn_status eval_fft(C *c, const pni_call *call, T *out) { return run(c, call, out, true, true, false); }
static pn_status eval_ifft(C *c, const pni_call *call, T *out) { return run(c, call, out, true, true, true); }
static pn_status eval_rfft(C *c, const pni_call *call, T *out) { return run(c, call, out, false, true, false); }
static pn_status eval_irfft(C *c, const pni_call *call, T *out) { return run(c, call, out, true, false, true); }

/* ---- shapes ---- */

static pn_status need_numbers(C *c, const pni_call *call) {
  int axis = (int)call->attr->i[0];
  if (call->in[0]->shape[axis] > 0) return PN_OK;
  return pni_fail(c, PN_SHAPE, "%s: axis %d must have at least one number", call->op->name, axis + 1);
}

static pn_status need_complex(C *c, const pni_call *call) {
  const T *x = call->in[0];
  char got[PNI_SHAPE_TEXT];
  if (x->ndim < 2 || x->shape[x->ndim - 1] != 2)
    return pni_fail(c, PN_SHAPE,
                    "%s: x must end in an axis of 2, real and imaginary part, got %s (rfft takes real numbers)",
                    call->op->name, pni_shape_text(x->ndim, x->shape, got));
  if (call->attr->i[0] == x->ndim - 1)
    return pni_fail(c, PN_SHAPE, "%s: axis must be before the last one, which holds real and imaginary part",
                    call->op->name);
  return need_numbers(c, call);
}

static pn_status infer_same(C *c, const pni_call *call, pni_spec *out) {
  *out = pni_spec_of(call->in[0]);
  return need_complex(c, call);
}

static pn_status infer_rfft(C *c, const pni_call *call, pni_spec *out) {
  int axis = (int)call->attr->i[0];
  *out = pni_spec_of(call->in[0]);
  if (need_numbers(c, call)) return c->status;
  if (out->ndim == PN_MAX_DIMS)
    return pni_fail(c, PN_SHAPE, "rfft: x must have fewer than %d axes: the result has one more", PN_MAX_DIMS);
  out->shape[axis] = out->shape[axis] / 2 + 1;
  out->shape[out->ndim++] = 2;
  return PN_OK;
}

/* How many numbers come out: by default an even number. */
static int64_t whole_length(const pni_call *call) {
  int64_t n = call->attr->i[1];
  return n ? n : 2 * (call->in[0]->shape[call->attr->i[0]] - 1);
}

static pn_status infer_irfft(C *c, const pni_call *call, pni_spec *out) {
  const T *x = call->in[0];
  int axis = (int)call->attr->i[0];
  *out = pni_spec_of(x);
  if (need_complex(c, call)) return c->status;
  int64_t m = x->shape[axis], n = whole_length(call);
  if (n < 1 || n / 2 + 1 != m)
    return pni_fail(c, PN_SHAPE, "irfft: n must be 2 m - 2 or 2 m - 1 and above 0, m = %lld on axis %d, got %lld",
                    (long long)m, axis + 1, (long long)n);
  out->shape[axis] = n;
  out->ndim--;
  return PN_OK;
}

/* ---- gradients: the matrix of a transform is symmetric, so its adjoint is its conjugate ---- */

static int axis_of(const T *y) { return (int)y->attr->i[0]; }
static T *times(C *c, T *t, double factor) { return t ? pn_mul(c, t, pni_like(c, t, factor)) : NULL; }

static T *vjp_fft(C *c, T *y, T *g, int k) {
  (void)k;
  return times(c, pn_ifft(c, g, axis_of(y)), (double)y->shape[axis_of(y)]);
}
static T *vjp_ifft(C *c, T *y, T *g, int k) {
  (void)k;
  return times(c, pn_fft(c, g, axis_of(y)), 1 / (double)y->shape[axis_of(y)]);
}

/* The m numbers of half a transform of n, with `edge` where they stand once in the whole (the first, and the last of
 * an even n) and `inside` where they stand twice, in the shape of t's axis `axis`. */
static T *by_number(C *c, const T *t, int axis, int64_t n, double edge, double inside) {
  int64_t m = n / 2 + 1, shape[PN_MAX_DIMS];
  for (int i = 0; i < t->ndim; i++) shape[i] = i == axis ? m : 1;
  int64_t last = n % 2 == 0 && m > 1 ? 1 : 0;
  T *w = pn_full(c, (pn_dtype)t->dtype, 1, (int64_t[]){m - 1 - last}, inside);
  w = pn_pad(c, pn_pad(c, w, 0, 1, 0, edge), 0, 0, last, edge);
  return pn_reshape(c, w, t->ndim, shape);
}

/* y_k = sum_j x_j e^(-2 pi i j k / n), k <= n / 2:  dx_j = Re sum_k g_k e^(2 pi i j k / n), which is irfft but for how
 * often it counts a number. */
static T *vjp_rfft(C *c, T *y, T *g, int k) {
  (void)k;
  int axis = axis_of(y);
  int64_t n = pni_in(y, 0)->shape[axis];
  double whole = (double)n;
  return pn_irfft(c, pn_mul(c, g, by_number(c, y, axis, n, whole, whole / 2)), axis, n);
}
static T *vjp_irfft(C *c, T *y, T *g, int k) {
  (void)k;
  int axis = axis_of(y);
  int64_t n = y->shape[axis];
  double one = 1 / (double)n;
  return pn_mul(c, pn_rfft(c, g, axis), by_number(c, pni_in(y, 0), axis, n, one, 2 * one));
}

/* ---- rows ---- */

T *pn_fft(C *c, T *x, int axis) {
  if (!PNI_GIVEN(c, "fft", x) || (axis = pni_axis(c, "fft", axis, x->ndim)) < 0) return NULL;
  return pni_apply1(c, &pni_op_fft, x, &(pni_attr){.ni = 1, .i = {axis}});
}
T *pn_ifft(C *c, T *x, int axis) {
  if (!PNI_GIVEN(c, "ifft", x) || (axis = pni_axis(c, "ifft", axis, x->ndim)) < 0) return NULL;
  return pni_apply1(c, &pni_op_ifft, x, &(pni_attr){.ni = 1, .i = {axis}});
}
T *pn_rfft(C *c, T *x, int axis) {
  if (!PNI_GIVEN(c, "rfft", x) || (axis = pni_axis(c, "rfft", axis, x->ndim)) < 0) return NULL;
  return pni_apply1(c, &pni_op_rfft, x, &(pni_attr){.ni = 1, .i = {axis}});
}
T *pn_irfft(C *c, T *x, int axis, int64_t n) {
  if (!PNI_GIVEN(c, "irfft", x) || (axis = pni_axis(c, "irfft", axis, x->ndim)) < 0) return NULL;
  return pni_apply1(c, &pni_op_irfft, x, &(pni_attr){.ni = 2, .i = {axis, n}});
}

#define ROW(id, infer_fn, form, text)                                                                                  \
  const pni_op pni_op_##id = {.name = #id,                                                                             \
                              .args = "x:t axis:a=" form,                                                              \
                              .doc = text,                                                                             \
                              .flags = PNI_OP_AXIS | PNI_OP_AS_FLOAT,                                                  \
                              .infer = infer_fn,                                                                       \
                              .eval = eval_##id,                                                                       \
                              .vjp = vjp_##id};

ROW(fft, infer_same, "-2",
    "discrete Fourier transform along axis, X_k = sum_j x_j e^(-2 pi i j k / n), any length; the last axis of x and of "
    "the result, 2, holds real and imaginary part")
ROW(ifft, infer_same, "-2", "inverse of fft: x_j = 1/n sum_k X_k e^(2 pi i j k / n)")
ROW(rfft, infer_rfft, "-1",
    "the first n/2 + 1 numbers of the discrete Fourier transform of n real ones along axis (the others are their "
    "conjugates): [..., n, ...] -> [..., n/2 + 1, ..., 2], real and imaginary part last")
ROW(irfft, infer_irfft, "-2 n:i=0",
    "inverse of rfft: n real numbers, an even number 2 (m - 1) of them unless n says 2 m - 1")
