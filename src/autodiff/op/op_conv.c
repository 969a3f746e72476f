/*
** op_conv.c: 2-d convolution (cross-correlation, as everywhere in deep learning), its adjoint in the image
** (transposed convolution) and its adjoint in the weight. The three are the partial products of one trilinear
** form, so each one's gradients are the other two, to any order.
** attr: stride, padding, dilation (2 each), groups; then output_padding (2) of conv_transpose2d, kernel (2) of
** conv2d_weight.
*/
#include "op.h"
#include "../../tensor/image/conv.h"

typedef pn_tensor T;
typedef pn_context C;

enum { STRIDE = 0, PADDING = 2, DILATION = 4, GROUPS = 6, EXTRA = 7, LIMIT = 1 << 24 };

static pn_status check_attr(C *c, const char *where, const int64_t *a) {
  static const struct {
    const char *name;
    int at, least;
  } rule[] = {{"stride", STRIDE, 1},       {"stride", STRIDE + 1, 1}, {"padding", PADDING, 0},
              {"padding", PADDING + 1, 0}, {"dilation", DILATION, 1}, {"dilation", DILATION + 1, 1},
              {"groups", GROUPS, 1}};
  for (size_t k = 0; k < sizeof rule / sizeof rule[0]; k++)
    if (a[rule[k].at] < rule[k].least || a[rule[k].at] > LIMIT)
      return pni_fail(c, PN_DOMAIN, "%s: %s must be a whole number from %d, got %lld", where, rule[k].name,
                      rule[k].least, (long long)a[rule[k].at]);
  return PN_OK;
}

static pn_status needs_images(C *c, const char *where, const char *role, const T *x) {
  char s[PNI_SHAPE_TEXT];
  if (x->ndim == 4 && x->shape[2] <= LIMIT && x->shape[3] <= LIMIT) return PN_OK;
  return pni_fail(c, PN_SHAPE, "%s: %s must have shape [n, channels, rows, columns], got %s", where, role,
                  pni_shape_text(x->ndim, x->shape, s));
}

/* Geometry from images and kernel; in_channels and out_channels are those of all groups. */
static pn_status geometry(C *c, const char *where, const int64_t *a, int64_t n, int64_t in_channels,
                          int64_t out_channels, const int64_t *image, const int64_t *kernel, pni_conv *g) {
  g->n = n;
  g->groups = a[GROUPS];
  if (in_channels % g->groups || out_channels % g->groups)
    return pni_fail(c, PN_SHAPE, "%s: groups must divide the channels %lld and %lld, got %lld", where,
                    (long long)in_channels, (long long)out_channels, (long long)g->groups);
  g->ci = in_channels / g->groups;
  g->co = out_channels / g->groups;
  for (int k = 0; k < 2; k++) {
    g->image[k] = image[k];
    g->kernel[k] = kernel[k];
    g->stride[k] = a[STRIDE + k];
    g->padding[k] = a[PADDING + k];
    g->dilation[k] = a[DILATION + k];
    if (kernel[k] < 1 || kernel[k] > LIMIT)
      return pni_fail(c, PN_SHAPE, "%s: kernel must have sizes from 1, got %lld", where, (long long)kernel[k]);
    g->out[k] = pni_window_count(image[k], kernel[k], g->stride[k], g->padding[k], g->dilation[k]);
    if (g->out[k] < 1)
      return pni_fail(c, PN_SHAPE,
                      "%s: kernel of size %lld (dilation %lld) must fit in the padded image, got size %lld", where,
                      (long long)kernel[k], (long long)g->dilation[k], (long long)(image[k] + 2 * g->padding[k]));
  }
  if (g->image[0] * g->image[1] > INT32_MAX || g->out[0] * g->out[1] > INT32_MAX ||
      g->ci * g->kernel[0] > INT32_MAX / g->kernel[1])
    return pni_fail(c, PN_SHAPE, "%s: images and kernels must have fewer than 2^31 elements", where);
  return PN_OK;
}

static void set_spec(pni_spec *out, const T *like, int64_t a, int64_t b, const int64_t *c) {
  *out = (pni_spec){.dtype = like->dtype, .ndim = 4, .shape = {a, b, c[0], c[1]}};
}

/* ---- conv2d ---- */

static pn_status plan_conv2d(C *c, const pni_call *call, pni_conv *g) {
  const T *x = call->in[0], *w = call->in[1];
  const int64_t *a = call->attr->i;
  char s[PNI_SHAPE_TEXT];
  if (check_attr(c, "conv2d", a) || needs_images(c, "conv2d", "x", x)) return c->status;
  if (w->ndim != 4 || w->shape[1] * a[GROUPS] != x->shape[1])
    return pni_fail(c, PN_SHAPE,
                    "conv2d: weight must have shape [out, in / groups, rows, columns] for %lld channels in "
                    "%lld groups, got %s",
                    (long long)x->shape[1], (long long)a[GROUPS], pni_shape_text(w->ndim, w->shape, s));
  return geometry(c, "conv2d", a, x->shape[0], x->shape[1], w->shape[0], x->shape + 2, w->shape + 2, g);
}

static pn_status infer_conv2d(C *c, const pni_call *call, pni_spec *out) {
  pni_conv g;
  if (plan_conv2d(c, call, &g)) return c->status;
  set_spec(out, call->in[0], g.n, g.groups * g.co, g.out);
  return PN_OK;
}

/* Runs f over contiguous copies of both inputs. */
static pn_status on_contiguous(C *c, const pni_call *call, const pni_conv *g, T *out,
                               pn_status (*f)(C *, const pni_conv *, const T *, const T *, T *)) {
  T *x = pni_contiguous(c, call->in[0]), *w = x ? pni_contiguous(c, call->in[1]) : NULL;
  if (w) f(c, g, x, w, out);
  pn_tensor_unref(x);
  pn_tensor_unref(w);
  return c->status;
}

static pn_status eval_conv2d(C *c, const pni_call *call, T *out) {
  pni_conv g;
  return plan_conv2d(c, call, &g) ? c->status : on_contiguous(c, call, &g, out, pni_conv_forward);
}

/* The transposed convolution of g whose result has the rows and columns of x. */
static T *back_to(C *c, T *g, T *w, const T *x, const int64_t *i) {
  pni_attr a = {.ni = 9};
  for (int k = 0; k < EXTRA; k++) a.i[k] = i[k];
  for (int k = 0; k < 2; k++) {
    int64_t least =
        (g->shape[2 + k] - 1) * i[STRIDE + k] - 2 * i[PADDING + k] + i[DILATION + k] * (w->shape[2 + k] - 1) + 1;
    a.i[EXTRA + k] = x->shape[2 + k] - least;
  }
  return pni_apply2(c, &pni_op_conv_transpose2d, g, w, &a);
}

static T *to_weight(C *c, T *x, T *g, const T *w, const int64_t *i) {
  pni_attr a = {.ni = 9};
  for (int k = 0; k < EXTRA; k++) a.i[k] = i[k];
  a.i[EXTRA] = w->shape[2];
  a.i[EXTRA + 1] = w->shape[3];
  return pni_apply2(c, &pni_op_conv2d_weight, x, g, &a);
}

static T *forward_again(C *c, T *x, T *w, const int64_t *i) {
  pni_attr a = {.ni = EXTRA};
  for (int k = 0; k < EXTRA; k++) a.i[k] = i[k];
  return pni_apply2(c, &pni_op_conv2d, x, w, &a);
}

static T *vjp_conv2d(C *c, T *y, T *g, int k) {
  T *x = pni_in(y, 0), *w = pni_in(y, 1);
  return k == 0 ? back_to(c, g, w, x, y->attr->i) : to_weight(c, x, g, w, y->attr->i);
}

/* ---- conv_transpose2d: x has the place of conv2d's result ---- */

static pn_status plan_transpose(C *c, const pni_call *call, pni_conv *g) {
  const T *x = call->in[0], *w = call->in[1];
  const int64_t *a = call->attr->i;
  char s[PNI_SHAPE_TEXT];
  int64_t image[2];
  if (check_attr(c, "conv_transpose2d", a) || needs_images(c, "conv_transpose2d", "x", x)) return c->status;
  if (w->ndim != 4 || w->shape[0] != x->shape[1])
    return pni_fail(c, PN_SHAPE,
                    "conv_transpose2d: weight must have shape [in, out / groups, rows, columns] for %lld "
                    "channels, got %s",
                    (long long)x->shape[1], pni_shape_text(w->ndim, w->shape, s));
  for (int k = 0; k < 2; k++) {
    int64_t extra = a[EXTRA + k], stride = a[STRIDE + k];
    if (extra < 0 || extra >= stride)
      return pni_fail(c, PN_DOMAIN, "conv_transpose2d: output_padding must lie in 0 .. stride - 1 = %lld, got %lld",
                      (long long)stride - 1, (long long)extra);
    if (w->shape[2 + k] > LIMIT || x->shape[2 + k] < 1)
      return pni_fail(c, PN_SHAPE, "conv_transpose2d: x must have rows and columns, got %s",
                      pni_shape_text(x->ndim, x->shape, s));
    image[k] =
        (x->shape[2 + k] - 1) * stride - 2 * a[PADDING + k] + a[DILATION + k] * (w->shape[2 + k] - 1) + 1 + extra;
    if (image[k] < 0 || image[k] > LIMIT)
      return pni_fail(c, PN_SHAPE, "conv_transpose2d: result would have size %lld", (long long)image[k]);
  }
  return geometry(c, "conv_transpose2d", a, x->shape[0], w->shape[1] * a[GROUPS], x->shape[1], image, w->shape + 2, g);
}

static pn_status infer_transpose(C *c, const pni_call *call, pni_spec *out) {
  pni_conv g;
  if (plan_transpose(c, call, &g)) return c->status;
  set_spec(out, call->in[0], g.n, g.groups * g.ci, g.image);
  return PN_OK;
}

static pn_status eval_transpose(C *c, const pni_call *call, T *out) {
  pni_conv g;
  return plan_transpose(c, call, &g) ? c->status : on_contiguous(c, call, &g, out, pni_conv_image);
}

static T *vjp_transpose(C *c, T *y, T *g, int k) {
  T *x = pni_in(y, 0), *w = pni_in(y, 1);
  return k == 0 ? forward_again(c, g, w, y->attr->i) : to_weight(c, g, x, w, y->attr->i);
}

/* ---- conv2d_weight: from x and a tensor in the place of conv2d's result ---- */

static pn_status plan_weight(C *c, const pni_call *call, pni_conv *g) {
  const T *x = call->in[0], *y = call->in[1];
  const int64_t *a = call->attr->i;
  char s[PNI_SHAPE_TEXT];
  if (check_attr(c, "conv2d_weight", a) || needs_images(c, "conv2d_weight", "x", x) ||
      needs_images(c, "conv2d_weight", "g", y))
    return c->status;
  if (geometry(c, "conv2d_weight", a, x->shape[0], x->shape[1], y->shape[1], x->shape + 2, a + EXTRA, g))
    return c->status;
  if (y->shape[0] != g->n || y->shape[2] != g->out[0] || y->shape[3] != g->out[1])
    return pni_fail(c, PN_SHAPE, "conv2d_weight: g must have shape [%lld, out, %lld, %lld], got %s", (long long)g->n,
                    (long long)g->out[0], (long long)g->out[1], pni_shape_text(y->ndim, y->shape, s));
  return PN_OK;
}

static pn_status infer_weight(C *c, const pni_call *call, pni_spec *out) {
  pni_conv g;
  if (plan_weight(c, call, &g)) return c->status;
  set_spec(out, call->in[0], g.groups * g.co, g.ci, g.kernel);
  return PN_OK;
}

static pn_status eval_weight(C *c, const pni_call *call, T *out) {
  pni_conv g;
  return plan_weight(c, call, &g) ? c->status : on_contiguous(c, call, &g, out, pni_conv_weight);
}

static T *vjp_weight(C *c, T *w, T *g, int k) {
  T *x = pni_in(w, 0), *y = pni_in(w, 1);
  return k == 0 ? back_to(c, y, g, x, w->attr->i) : forward_again(c, x, g, w->attr->i);
}

/* ---- builders ---- */

static void set_attr(pni_attr *a, const pn_conv2d_options *o) {
  static const pn_conv2d_options none = {.groups = 0};
  if (!o) o = &none;
  *a = (pni_attr){.ni = EXTRA};
  for (int k = 0; k < 2; k++) {
    a->i[STRIDE + k] = o->stride[k] ? o->stride[k] : 1;
    a->i[PADDING + k] = o->padding[k];
    a->i[DILATION + k] = o->dilation[k] ? o->dilation[k] : 1;
    a->i[EXTRA + k] = o->output_padding[k];
  }
  a->i[GROUPS] = o->groups ? o->groups : 1;
}

T *pn_conv2d(C *c, T *x, T *weight, const pn_conv2d_options *options) {
  pni_attr a;
  set_attr(&a, options);
  return pni_apply2(c, &pni_op_conv2d, x, weight, &a);
}

T *pn_conv_transpose2d(C *c, T *x, T *weight, const pn_conv2d_options *options) {
  pni_attr a;
  set_attr(&a, options);
  a.ni = 9;
  return pni_apply2(c, &pni_op_conv_transpose2d, x, weight, &a);
}

T *pn_conv2d_weight(C *c, T *x, T *g, int64_t rows, int64_t columns, const pn_conv2d_options *options) {
  pni_attr a;
  set_attr(&a, options);
  a.ni = 9;
  a.i[EXTRA] = rows;
  a.i[EXTRA + 1] = columns;
  return pni_apply2(c, &pni_op_conv2d_weight, x, g, &a);
}

const pni_op pni_op_conv2d = {
    .name = "conv2d",
    .args = "x:t weight:t stride:p=1 padding:p=0 dilation:p=1 groups:i=1",
    .doc = "cross-correlation of images [n, in, rows, columns] with weight [out, in / groups, kr, kc]; sizes "
           "floor((size + 2 padding - dilation (k - 1) - 1) / stride) + 1; zeros beyond the edges",
    .infer = infer_conv2d,
    .eval = eval_conv2d,
    .vjp = vjp_conv2d};

const pni_op pni_op_conv_transpose2d = {
    .name = "conv_transpose2d",
    .args = "x:t weight:t stride:p=1 padding:p=0 dilation:p=1 groups:i=1 output_padding:p=0",
    .doc = "the adjoint of conv2d: [n, in, rows, columns], weight [in, out / groups, kr, kc]; sizes (size - 1) stride "
           "- 2 padding + dilation (k - 1) + 1 + output_padding",
    .infer = infer_transpose,
    .eval = eval_transpose,
    .vjp = vjp_transpose};

const pni_op pni_op_conv2d_weight = {.name = "conv2d_weight",
                                     .args = "x:t g:t stride:p=1 padding:p=0 dilation:p=1 groups:i=1 kernel:p",
                                     .doc = "gradient of conv2d in its weight from the gradient g of its result",
                                     .flags = PNI_OP_HIDDEN,
                                     .infer = infer_weight,
                                     .eval = eval_weight,
                                     .vjp = vjp_weight};
