/*
** op_pool.c: pooling of images [n, channels, rows, columns]. Windows start at -padding and step by stride while
** they lie in the padded image (sizes floor((size + 2 padding - kernel) / stride) + 1, so rows that do not fill a
** window are left out); padding is at most half the kernel, so each window meets the image. What lies beyond the
** edge counts as -inf for the maximum, as 0 for the mean, or, without count_include_pad, not at all.
** attr: kernel, stride (0: the kernel), padding (2 each); avg_pool2d: count_include_pad; avg_unpool2d: image size.
*/
#include "op.h"
#include "../../tensor/image/pool.h"

typedef pn_tensor T;
typedef pn_context C;

enum { KERNEL = 0, STRIDE = 2, PADDING = 4, COUNT = 6, IMAGE = 7, LIMIT = 1 << 24 };

static pn_status plan(C *c, const pni_call *call, const int64_t *image, pni_conv *g) {
  const T *x = call->in[0];
  const int64_t *a = call->attr->i;
  const char *where = call->op->name;
  char s[PNI_SHAPE_TEXT];
  if (x->ndim != 4 || image[0] > LIMIT || image[1] > LIMIT)
    return pni_fail(c, PN_SHAPE, "%s: x must have shape [n, channels, rows, columns], got %s", where,
                    pni_shape_text(x->ndim, x->shape, s));
  *g = (pni_conv){.n = x->shape[0] * x->shape[1]};
  for (int k = 0; k < 2; k++) {
    int64_t kernel = a[KERNEL + k], stride = a[STRIDE + k], padding = a[PADDING + k];
    if (kernel < 1 || kernel > LIMIT)
      return pni_fail(c, PN_DOMAIN, "%s: kernel must be a whole number from 1, got %lld", where, (long long)kernel);
    if (stride < 0 || stride > LIMIT)
      return pni_fail(c, PN_DOMAIN, "%s: stride must be a whole number from 1, got %lld", where, (long long)stride);
    if (padding < 0 || padding > kernel / 2)
      return pni_fail(c, PN_DOMAIN, "%s: padding must lie in 0 .. kernel / 2 = %lld, got %lld", where,
                      (long long)kernel / 2, (long long)padding);
    g->image[k] = image[k];
    g->kernel[k] = kernel;
    g->stride[k] = stride ? stride : kernel;
    g->padding[k] = padding;
    g->out[k] = pni_window_count(image[k], kernel, g->stride[k], padding, 1);
    if (g->out[k] < 1 || image[k] < 1)
      return pni_fail(c, PN_SHAPE, "%s: kernel of size %lld must fit in the padded image, got size %lld", where,
                      (long long)kernel, (long long)(image[k] + 2 * padding));
  }
  return PN_OK;
}

static pn_status infer_pool(C *c, const pni_call *call, pni_spec *out) {
  pni_conv g;
  const T *x = call->in[0];
  if (plan(c, call, x->shape + 2, &g)) return c->status;
  *out = (pni_spec){.dtype = x->dtype, .ndim = 4, .shape = {x->shape[0], x->shape[1], g.out[0], g.out[1]}};
  return PN_OK;
}

static pn_status eval_pool(C *c, const pni_call *call, int what, T *out) {
  pni_conv g;
  if (plan(c, call, call->in[0]->shape + 2, &g)) return c->status;
  T *x = pni_contiguous(c, call->in[0]);
  if (x) pni_pool(c, &g, what, x, out);
  pn_tensor_unref(x);
  return c->status;
}

static pni_attr copy_attr(const T *y, int n) {
  pni_attr a = {.ni = n};
  for (int k = 0; k < n && k < y->attr->ni; k++) a.i[k] = y->attr->i[k];
  return a;
}

static pni_attr attr_of(const int64_t *kernel, const int64_t *stride, const int64_t *padding) {
  pni_attr a = {.ni = 6};
  for (int k = 0; k < 2; k++) {
    a.i[KERNEL + k] = kernel[k];
    a.i[STRIDE + k] = stride ? stride[k] : 0;
    a.i[PADDING + k] = padding ? padding[k] : 0;
  }
  return a;
}

/* ---- maximum ---- */

static pn_status eval_max(C *c, const pni_call *call, T *out) { return eval_pool(c, call, PNI_POOL_MAX, out); }
static pn_status eval_at(C *c, const pni_call *call, T *out) { return eval_pool(c, call, PNI_POOL_MAX_AT, out); }

static pn_status infer_at(C *c, const pni_call *call, pni_spec *out) {
  if (infer_pool(c, call, out)) return c->status;
  out->dtype = PN_INT64;
  return PN_OK;
}

/* [n, channels, rows, columns] -> [n, channels, rows columns] */
static T *flat(C *c, T *x) {
  return x ? pn_reshape(c, x, 3, (int64_t[]){x->shape[0], x->shape[1], x->shape[2] * x->shape[3]}) : NULL;
}

static T *vjp_max(C *c, T *y, T *g, int k) {
  (void)k;
  T *x = pni_in(y, 0);
  pni_attr a = copy_attr(y, 6);
  T *at = flat(c, pni_apply1(c, &pni_op_max_pool2d_index, x, &a));
  T *zero = pn_zeros(c, (pn_dtype)x->dtype, 3, (int64_t[]){x->shape[0], x->shape[1], x->shape[2] * x->shape[3]});
  return pn_reshape(c, pn_scatter_add(c, zero, 2, at, flat(c, g)), 4, x->shape);
}

T *pn_max_pool2d(C *c, T *x, const int64_t kernel[2], const int64_t *stride, const int64_t *padding) {
  if (!PNI_GIVEN(c, "max_pool2d", kernel)) return NULL;
  pni_attr a = attr_of(kernel, stride, padding);
  return pni_apply1(c, &pni_op_max_pool2d, x, &a);
}

T *pni_max_pool2d_at(C *c, T *x, const int64_t kernel[2], const int64_t *stride, const int64_t *padding) {
  pni_attr a = attr_of(kernel, stride, padding);
  return pni_apply1(c, &pni_op_max_pool2d_index, x, &a);
}

/* ---- mean ---- */

static int mean_of(const pni_attr *a) { return a->i[COUNT] ? PNI_POOL_MEAN : PNI_POOL_MEAN_INSIDE; }

static pn_status eval_avg(C *c, const pni_call *call, T *out) { return eval_pool(c, call, mean_of(call->attr), out); }

static T *vjp_avg(C *c, T *y, T *g, int k) {
  (void)k;
  pni_attr a = copy_attr(y, 9);
  a.i[IMAGE] = pni_in(y, 0)->shape[2];
  a.i[IMAGE + 1] = pni_in(y, 0)->shape[3];
  return pni_apply1(c, &pni_op_avg_unpool2d, g, &a);
}

static pn_status infer_unpool(C *c, const pni_call *call, pni_spec *out) {
  pni_conv g;
  const T *y = call->in[0];
  const int64_t *image = call->attr->i + IMAGE;
  if (plan(c, call, image, &g)) return c->status;
  if (y->shape[2] != g.out[0] || y->shape[3] != g.out[1])
    return pni_fail(c, PN_SHAPE, "avg_unpool2d: x must have %lld rows and %lld columns", (long long)g.out[0],
                    (long long)g.out[1]);
  *out = (pni_spec){.dtype = y->dtype, .ndim = 4, .shape = {y->shape[0], y->shape[1], image[0], image[1]}};
  return PN_OK;
}

static pn_status eval_unpool(C *c, const pni_call *call, T *out) {
  pni_conv g;
  if (plan(c, call, call->attr->i + IMAGE, &g)) return c->status;
  T *y = pni_contiguous(c, call->in[0]);
  if (y) pni_unpool(c, &g, mean_of(call->attr), y, out);
  pn_tensor_unref(y);
  return c->status;
}

static T *vjp_unpool(C *c, T *x, T *g, int k) {
  (void)k;
  pni_attr a = copy_attr(x, 7);
  return pni_apply1(c, &pni_op_avg_pool2d, g, &a);
}

T *pn_avg_pool2d(C *c, T *x, const int64_t kernel[2], const int64_t *stride, const int64_t *padding,
                 int count_include_pad) {
  if (!PNI_GIVEN(c, "avg_pool2d", kernel)) return NULL;
  pni_attr a = attr_of(kernel, stride, padding);
  a.ni = 7;
  a.i[COUNT] = count_include_pad != 0;
  return pni_apply1(c, &pni_op_avg_pool2d, x, &a);
}

const pni_op pni_op_max_pool2d = {.name = "max_pool2d",
                                  .args = "x:t kernel:p stride:p=0 padding:p=0",
                                  .doc =
                                      "largest element of each window of images [n, channels, rows, columns]; stride "
                                      "0 is the kernel's size; sizes floor((size + 2 padding - kernel) / stride) + "
                                      "1; beyond the edges is -inf, padding at most kernel / 2",
                                  .infer = infer_pool,
                                  .eval = eval_max,
                                  .vjp = vjp_max};

const pni_op pni_op_max_pool2d_index = {.name = "max_pool2d_index",
                                        .args = "x:t kernel:p stride:p=0 padding:p=0",
                                        .doc = "0-based place in its plane of each element of max_pool2d: int64",
                                        .flags = PNI_OP_NODIFF | PNI_OP_HIDDEN,
                                        .infer = infer_at,
                                        .eval = eval_at};

const pni_op pni_op_avg_pool2d = {.name = "avg_pool2d",
                                  .args = "x:t kernel:p stride:p=0 padding:p=0 count_include_pad:b=true",
                                  .doc =
                                      "mean of each window, as max_pool2d; beyond the edges is 0, or left out of the "
                                      "mean with count_include_pad = false",
                                  .infer = infer_pool,
                                  .eval = eval_avg,
                                  .vjp = vjp_avg};

const pni_op pni_op_avg_unpool2d = {.name = "avg_unpool2d",
                                    .args = "x:t kernel:p stride:p padding:p count_include_pad:b image:p",
                                    .doc = "the adjoint of avg_pool2d: each element spread over its window",
                                    .flags = PNI_OP_HIDDEN,
                                    .infer = infer_unpool,
                                    .eval = eval_unpool,
                                    .vjp = vjp_unpool};
