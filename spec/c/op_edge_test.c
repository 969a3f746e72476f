/*
** op_edge_test.c: operations at their edges. What a refusal says, every word and number of it; sizes at limits and one
** beyond; slices, views and columns of all kinds against plain loops; long rows, which are done in parts; gradients
** that are added where others are already, and what their graphs are made of.
*/
#include <stdlib.h>
#include "../../src/autodiff/graph.h"
#include "../../src/autodiff/nonfinite.h"
#include "../../src/autodiff/random_source.h"
#include "../../src/autodiff/replay/replay.h"
#include "../../src/math/special.h"
#include "../../src/tensor/kernel/reduce.h"
#include "gradient.h"

typedef pn_tensor T;
typedef pn_context C;

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
#define IN(...)                                                                                                        \
  (int)(sizeof((T *[]){__VA_ARGS__}) / sizeof(T *)), (T *[]) { __VA_ARGS__ }
#define ATTR(n, ...)                                                                                                   \
  &(pni_attr) {                                                                                                        \
    .ni = n, .i = { __VA_ARGS__ }                                                                                      \
  }

static double at(const T *t, int64_t k) { return t ? pni_element(t, k) : NAN; }
static T *zeros(C *c, int ndim, const int64_t *shape) { return pn_zeros(c, PN_FLOAT64, ndim, shape); }
static T *whole(C *c, int ndim, const int64_t *shape) { return pn_zeros(c, PN_INT64, ndim, shape); }
static T *number(C *c, double v) { return pn_scalar(c, PN_FLOAT64, v); }
static pn_axes axis(int a) { return (pn_axes){1, {a}}; }

/* ---- refusals ---- */

static void tells(C *c, int line, bool refused, pn_status status, const char *text) {
  if (!check_record(refused && pn_context_status(c) == status && strcmp(pn_context_message(c), text) == 0))
    printf("line %d: got %s \"%s\", want \"%s\"\n", line, pn_status_name(pn_context_status(c)), pn_context_message(c),
           text);
  pn_context_clear_error(c);
}
#define TELLS(call, status, text) tells(c, __LINE__, (call) == NULL, status, text)
#define FAILS(call, status, text) tells(c, __LINE__, (call) == (status), status, text)

static void index_texts(C *c) {
  T *x = zeros(c, SHAPE(5, 3)), *two = whole(c, SHAPE(2, 3)), *i = whole(c, SHAPE(2));
  T *past = pn_full(c, PN_INT64, SHAPE(2), 5), *b = pn_zeros(c, PN_BOOL, SHAPE(5, 3));
  TELLS(pn_take(c, x, 0, past), PN_DOMAIN, "take: index must lie in 0 to 4, got 5");
  TELLS(pn_take(c, x, 1, pn_full(c, PN_INT64, SHAPE(2), -4)), PN_DOMAIN, "take: index must lie in 0 to 2, got -4");
  TELLS(pn_take_add(c, zeros(c, SHAPE(2, 3)), 0, past, 5), PN_DOMAIN, "take_add: index must lie in 0 to 4, got 5");
  TELLS(pn_gather(c, x, 1, pn_full(c, PN_INT64, SHAPE(1, 1), 3)), PN_DOMAIN, "gather: index must lie in 0 to 2, got 3");
  TELLS(pn_scatter_add(c, x, 1, pn_full(c, PN_INT64, SHAPE(1, 1), 7), zeros(c, SHAPE(1, 1))), PN_DOMAIN,
        "scatter_add: index must lie in 0 to 2, got 7");
  TELLS(pn_take(c, x, 0, number(c, 0x1p53)), PN_DOMAIN, "take: index must be whole numbers, got 9.0072e+15");
  TELLS(pn_take(c, x, 0, number(c, NAN)), PN_DOMAIN, "take: index must be whole numbers, got NaN");
  TELLS(pn_take(c, x, 0, pn_zeros(c, PN_BOOL, SHAPE(1))), PN_DTYPE, "take: index must be int64, got bool");
  TELLS(pn_gather(c, x, 1, whole(c, SHAPE(6, 3))), PN_SHAPE,
        "gather: index must have the axes of x, none larger outside axis 2, got [6, 3] for [5, 3]");
  TELLS(pn_scatter_add(c, x, 0, whole(c, SHAPE(6, 4)), x), PN_SHAPE,
        "scatter_add: index must have the axes of x, none larger outside axis 1, got [6, 4] for [5, 3]");
  TELLS(pn_scatter_add(c, x, 0, two, zeros(c, SHAPE(2, 2))), PN_SHAPE, "scatter_add: src must have the shape of index");
  TELLS(pn_scatter_add(c, x, 0, two, pn_zeros(c, PN_FLOAT32, SHAPE(2, 3))), PN_DTYPE,
        "scatter_add: x and src must have one dtype that is not bool, got float64 and float32");
  TELLS(pn_scatter_add(c, b, 0, two, pn_zeros(c, PN_BOOL, SHAPE(2, 3))), PN_DTYPE,
        "scatter_add: x and src must have one dtype that is not bool, got bool and bool");
  TELLS(pn_take(c, zeros(c, SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), 2, whole(c, SHAPE(1, 1))), PN_SHAPE,
        "take: result would have 9 axes, at most 8 are possible");
  TELLS(pn_take_add(c, x, 1, i, 4), PN_SHAPE, "take_add: g must hold the axes of index from axis 2 on");
  TELLS(pn_take_add(c, x, 0, whole(c, SHAPE(5)), -1), PN_SHAPE,
        "take_add: g must hold the axes of index from axis 1 on");
  TELLS(pn_take_add(c, b, 0, whole(c, SHAPE(5)), 2), PN_SHAPE,
        "take_add: g must hold the axes of index from axis 1 on");
  TELLS(pni_apply(c, &pni_op_take_add, IN(x, whole(c, SHAPE(5))), ATTR(2, 2, 4)), PN_SHAPE,
        "take_add: g must hold the axes of index from axis 3 on");
  TELLS(pni_apply(c, &pni_op_take_add, IN(zeros(c, SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), whole(c, 0, NULL)), ATTR(2, 0, 4)),
        PN_SHAPE, "take_add: g must hold the axes of index from axis 1 on");
  CHECK_INT(pn_tensor_numel(pn_take_add(c, zeros(c, SHAPE(0, 3)), 0, whole(c, SHAPE(0)), 0)), 0);
  CHECK_INT(pn_tensor_ndim(pn_take_add(c, zeros(c, SHAPE(1, 1, 1, 1, 1, 1, 1)), 7, whole(c, 0, NULL), 2)), 8);
  TELLS(pn_masked_select(c, x, zeros(c, SHAPE(5))), PN_SHAPE,
        "masked_select: mask must be bool with the leading axes of [5, 3], got float64 [5]");
  TELLS(pn_masked_select(c, x, pn_zeros(c, PN_BOOL, SHAPE(5, 2))), PN_SHAPE,
        "masked_select: mask must be bool with the leading axes of [5, 3], got bool [5, 2]");
  TELLS(pn_topk(c, x, 4, 1, 1), PN_DOMAIN, "topk: k must lie in 0 to 3, got 4");
  TELLS(pn_topk(c, x, -1, 0, 1), PN_DOMAIN, "topk: k must lie in 0 to 5, got -1");
  CHECK_INT(pn_tensor_numel(pn_topk(c, x, 0, 0, 1)), 0);
  TELLS(pn_bucketize(c, x, x, 0, 0), PN_SHAPE, "bucketize: edges must be [n], got 2 axes");
  TELLS(pn_bucketize(c, x, whole(c, SHAPE(2)), 0, 0), PN_DTYPE,
        "bucketize: x and edges must have one dtype that is not bool, got float64 and int64");
  TELLS(pn_bucketize(c, b, pn_zeros(c, PN_BOOL, SHAPE(2)), 0, 0), PN_DTYPE,
        "bucketize: x and edges must have one dtype that is not bool, got bool and bool");
}

static void shape_texts(C *c) {
  T *x = zeros(c, SHAPE(2, 3)), *w = pn_param(c, x), *eight = zeros(c, SHAPE(1, 1, 1, 1, 1, 1, 1, 1));
  TELLS(pn_reshape(c, x, SHAPE(-1, 4)), PN_SHAPE, "reshape: shape must hold the 6 elements of [2, 3], got [-1, 4]");
  TELLS(pn_permute(c, x, 2, (int[]){0, -3}), PN_SHAPE, "permute: order must name each of the 2 axes once");
  TELLS(pn_permute(c, x, 2, (int[]){1, 2}), PN_SHAPE, "permute: order must name each of the 2 axes once");
  TELLS(pn_permute(c, x, 1, (int[]){0}), PN_SHAPE, "permute: order must name each of the 2 axes once");
  TELLS(pn_permute(c, x, 3, (int[]){0, 1, 0}), PN_SHAPE, "permute: order must name each of the 2 axes once");
  TELLS(pn_broadcast_to(c, x, SHAPE(3)), PN_SHAPE, "broadcast_to: [2, 3] must broadcast to the shape, got [3]");
  TELLS(pn_broadcast_to(c, x, SHAPE(2, 2, 2)), PN_SHAPE,
        "broadcast_to: [2, 3] must broadcast to the shape, got [2, 2, 2]");
  TELLS(pn_broadcast_to(c, x, SHAPE(-1, 2, 3)), PN_SHAPE,
        "broadcast_to: [2, 3] must broadcast to the shape, got [-1, 2, 3]");
  TELLS(pn_slice(c, x, 1, 2, 3, 2), PN_SHAPE, "slice: 3 elements from position 3 by 2 do not lie in axis 2 of size 3");
  TELLS(pni_apply(c, &pni_op_unslice, IN(x), ATTR(5, 1, 0, 2, 1, 9)), PN_SHAPE,
        "unslice: axis 2 must have the 2 elements of the slice, got 3");
  TELLS(pni_apply(c, &pni_op_unslice, IN(x), ATTR(5, 1, 1, 3, 1, 3)), PN_SHAPE,
        "unslice: 3 elements from position 2 by 1 do not lie in axis 2 of size 3");
  TELLS(pn_squeeze(c, x, 1), PN_SHAPE, "squeeze: axis must have size 1, got 3");
  TELLS(pn_select(c, x, 0, 2), PN_SHAPE, "slice: 1 elements from position 3 by 1 do not lie in axis 1 of size 2");
  TELLS(pn_concatenate(c, IN(x, zeros(c, SHAPE(3, 3))), 1), PN_SHAPE,
        "concatenate: shapes must agree outside axis 2, got [2, 3] and [3, 3]");
  TELLS(pn_concatenate(c, IN(x, whole(c, SHAPE(2, 3))), 1), PN_DTYPE,
        "concatenate: tensors must have one dtype, got float64 and int64 (convert with :to)");
  TELLS(pn_stack(c, 0, NULL, 0), PN_DOMAIN, "stack: list must hold at least one tensor");
  TELLS(pni_apply(c, &pni_op_concatenate, 0, NULL, ATTR(1, 0)), PN_DOMAIN,
        "concatenate: list must hold at least one tensor");
  TELLS(pn_pad(c, x, 1, -2, 3, 0), PN_DOMAIN, "pad: before and after must not be negative, got -2 and 3");
  TELLS(pn_pad(c, x, 1, 2, -3, 0), PN_DOMAIN, "pad: before and after must not be negative, got 2 and -3");
  TELLS(pn_pad(c, x, 1, INT64_MAX, 1, 0), PN_NOMEM, "pad: 9223372036854775807 and 1 elements are too many");
  TELLS(pn_pad(c, x, 1, 1, INT64_MAX, 0), PN_NOMEM, "pad: 1 and 9223372036854775807 elements are too many");
  TELLS(pn_tril(c, zeros(c, SHAPE(3)), 0), PN_SHAPE, "tril: tensor must have at least 2 axes, got 1");
  TELLS(pn_diag_embed(c, number(c, 1)), PN_SHAPE, "diag_embed: tensor must have 1 to 7 axes, got 0");
  TELLS(pn_diag_embed(c, eight), PN_SHAPE, "diag_embed: tensor must have 1 to 7 axes, got 8");
  CHECK_INT(pn_tensor_ndim(pn_diag_embed(c, zeros(c, SHAPE(1, 1, 1, 1, 1, 1, 2)))), 8);
  const int64_t most = (int64_t)1 << 44;
  for (int64_t k = -most - 1; k <= most + 1; k += most + 1) {
    if (k == 0) continue;
    char text[80];
    snprintf(text, sizeof text, "diag_embed: k is too large, got %lld", (long long)k);
    TELLS(pn_diag_embed_at(c, zeros(c, SHAPE(2)), k), PN_NOMEM, text);
    CHECK(pn_diag_embed_at(c, zeros(c, SHAPE(2)), k < 0 ? -most : most) == NULL);
    CHECK(strstr(pn_context_message(c), "diag_embed") == NULL); /* the memory for it is what there is not */
    pn_context_clear_error(c);
  }
  TELLS(pn_cast(c, x, (pn_dtype)4), PN_DTYPE, "cast: unknown dtype number 4");
  TELLS(pni_apply(c, &pni_op_sum, IN(x), ATTR(2, 4, 0)), PN_SHAPE, "sum: axes must lie in the tensor's 2 axes");
  TELLS(pni_apply(c, &pni_op_sum, IN(x), ATTR(2, (int64_t)1 << 40, 0)), PN_SHAPE,
        "sum: axes must lie in the tensor's 2 axes");
  TELLS(pn_sum(c, x, (pn_axes){9, {0}}, 0), PN_SHAPE, "sum: number of axes must be 0 to 8, got 9");
  TELLS(pn_sum(c, x, (pn_axes){-1, {0}}, 0), PN_SHAPE, "sum: number of axes must be 0 to 8, got -1");
  CHECK_INT(pn_tensor_numel(pn_sum(c, eight, (pn_axes){8, {0, 1, 2, 3, 4, 5, 6, 7}}, 0)), 1);
  TELLS(pn_logsumexp(c, zeros(c, SHAPE(2, 0)), axis(1), 0), PN_SHAPE,
        "logsumexp: tensor must not be empty along the reduced axes");
  TELLS(pn_cumsum(c, number(c, 1), 0), PN_SHAPE, "cumsum: axis must lie in the tensor's 0 axes, got number 1");
  TELLS(pni_apply(c, &pni_op_cumsum, IN(number(c, 1)), ATTR(1, 0)), PN_SHAPE,
        "cumsum: tensor must have an axis, got a 0-d one");
  TELLS(pni_apply(c, &pni_op_cumsum, IN(x), ATTR(1, 2)), PN_SHAPE,
        "cumsum: axis must lie in the tensor's 2 axes, got number 3");
  TELLS(pni_apply(c, &pni_op_cumsum, IN(x), ATTR(1, -1)), PN_SHAPE,
        "cumsum: axis must lie in the tensor's 2 axes, got number -1");
  T *many[PNI_OPERANDS];
  for (int k = 0; k < PNI_OPERANDS; k++) many[k] = x;
  char text[80];
  snprintf(text, sizeof text, "add: at most %d tensors are possible, got %d", PNI_OPERANDS - 1, PNI_OPERANDS);
  TELLS(pni_apply(c, &pni_op_add, PNI_OPERANDS, many, NULL), PN_DOMAIN, text);
  CHECK(pni_apply(c, &pni_op_add, PNI_OPERANDS - 1, many, NULL) != NULL);
  TELLS(pn_add(c, x, NULL), PN_STATE, "add: input 2 must be a tensor, got NULL");
  TELLS(pn_add(c, x, whole(c, SHAPE(2, 3))), PN_DTYPE,
        "add: tensors must have one dtype, got float64 and int64 (convert with :to)");
  TELLS(pn_exp(c, whole(c, SHAPE(2))), PN_DTYPE,
        "exp: tensor must be float64 or float32, got int64 (convert with :to)");
  TELLS(pn_neg(c, pn_zeros(c, PN_BOOL, SHAPE(2))), PN_DTYPE,
        "neg: tensor must be float64, float32 or int64, got bool (convert with :to)");
  c->trap_nan = true;
  TELLS(pn_log(c, pn_full(c, PN_FLOAT64, SHAPE(2, 1), -1)), PN_DOMAIN,
        "log: gives NaN (result of shape [2, 1]) and no input has one");
  CHECK(pn_log(c, pn_full(c, PN_FLOAT64, SHAPE(2, 1), NAN)) != NULL);
  c->trap_nan = false;
  TELLS(pn_where(c, x, x, x), PN_DTYPE, "where: condition must be bool, got float64");
  TELLS(pn_linear_recurrence(c, x, zeros(c, SHAPE(2)), 0), PN_SHAPE,
        "linear_recurrence: a must broadcast to the shape of x, [2, 3], got [2]");
  TELLS(pn_linear_recurrence(c, x, zeros(c, SHAPE(1, 2, 3)), 0), PN_SHAPE,
        "linear_recurrence: a must broadcast to the shape of x, [2, 3], got [1, 2, 3]");
  FAILS(pn_param_set(c, w, zeros(c, SHAPE(3, 2))), PN_SHAPE, "param_set: shape must be [2, 3], got [3, 2]");
  FAILS(pn_param_set(c, w, whole(c, SHAPE(2, 3))), PN_DTYPE, "param_set: dtype must be float64, got int64");
  T *in[] = {w, x}, *out[2];
  FAILS(pn_grad(c, pn_sum(c, w, PN_ALL, 0), 2, in, 0, out), PN_STATE,
        "grad: input 2 must be a parameter or depend on one, got data (call x:requires_grad(true) before anything is "
        "computed from it)");
  T *y = pn_sum(c, pn_square(c, w), PN_ALL, 0);
  pn_param_set(c, w, pn_full(c, PN_FLOAT64, SHAPE(2, 3), 2));
  FAILS(pn_backward(c, y), PN_STALE,
        "backward: a parameter under 'square' (shape [2, 3]) was changed after the graph was made; compute the loss "
        "again before differentiating");
}

static void image_texts(C *c) {
  enum { MOST = 1 << 24 };
  const int64_t two[2] = {2, 2}, one[2] = {1, 1}, big[2] = {MOST, 1}, over[2] = {MOST + 1, 1};
  T *x = zeros(c, SHAPE(1, 4, 5, 6)), *w = zeros(c, SHAPE(2, 4, 3, 2)), *none = zeros(c, SHAPE(0, 1, 1, MOST));
  pn_conv2d_options o = {.dilation = {1, 3}, .padding = {0, 0}};
  TELLS(pn_conv2d(c, x, zeros(c, SHAPE(2, 4, 3, 4)), &o), PN_SHAPE,
        "conv2d: kernel of size 4 (dilation 3) must fit in the padded image, got size 6");
  o.padding[1] = 1;
  TELLS(pn_conv2d(c, x, zeros(c, SHAPE(2, 4, 3, 4)), &o), PN_SHAPE,
        "conv2d: kernel of size 4 (dilation 3) must fit in the padded image, got size 8");
  TELLS(
      pn_conv2d(c, x, zeros(c, SHAPE(2, 3, 3, 2)), NULL), PN_SHAPE,
      "conv2d: weight must have shape [out, in / groups, rows, columns] for 4 channels in 1 groups, got [2, 3, 3, 2]");
  TELLS(pn_conv2d(c, zeros(c, SHAPE(4, 5, 6)), w, NULL), PN_SHAPE,
        "conv2d: x must have shape [n, channels, rows, columns], got [4, 5, 6]");
  TELLS(pn_conv2d(c, x, zeros(c, SHAPE(2, 4, 0, 2)), NULL), PN_SHAPE, "conv2d: kernel must have sizes from 1, got 0");
  o = (pn_conv2d_options){.groups = -1};
  TELLS(pn_conv2d(c, x, w, &o), PN_DOMAIN, "conv2d: groups must be a whole number from 1, got -1");
  o = (pn_conv2d_options){.padding = {0, -1}};
  TELLS(pn_conv2d(c, x, w, &o), PN_DOMAIN, "conv2d: padding must be a whole number from 0, got -1");
  o = (pn_conv2d_options){.stride = {1, MOST + 1}};
  TELLS(pn_conv2d(c, x, w, &o), PN_DOMAIN, "conv2d: stride must be a whole number from 1, got 16777217");
  o.stride[1] = MOST;
  CHECK(pn_conv2d(c, x, w, &o) != NULL);
  TELLS(pn_conv_transpose2d(c, x, w, NULL), PN_SHAPE,
        "conv_transpose2d: weight must have shape [in, out / groups, rows, columns] for 4 channels, got [2, 4, 3, 2]");
  T *v = zeros(c, SHAPE(4, 2, 1, 2));
  o = (pn_conv2d_options){.stride = {1, 3}, .output_padding = {0, 3}};
  TELLS(pn_conv_transpose2d(c, x, v, &o), PN_DOMAIN,
        "conv_transpose2d: output_padding must lie in 0 .. stride - 1 = 2, got 3");
  o.output_padding[1] = -1;
  TELLS(pn_conv_transpose2d(c, x, v, &o), PN_DOMAIN,
        "conv_transpose2d: output_padding must lie in 0 .. stride - 1 = 2, got -1");
  o = (pn_conv2d_options){.padding = {3, 0}};
  TELLS(pn_conv_transpose2d(c, x, v, &o), PN_SHAPE, "conv_transpose2d: result would have size -1");
  TELLS(pn_conv_transpose2d(c, zeros(c, SHAPE(1, 4, 0, 6)), v, NULL), PN_SHAPE,
        "conv_transpose2d: x must have rows and columns, got [1, 4, 0, 6]");
  TELLS(pn_conv_transpose2d(c, zeros(c, SHAPE(0, 1, 1, MOST)), zeros(c, SHAPE(1, 0, 1, 2)), NULL), PN_SHAPE,
        "conv_transpose2d: result would have size 16777217");
  CHECK(pn_conv_transpose2d(c, zeros(c, SHAPE(0, 1, 1, MOST)), zeros(c, SHAPE(1, 1, 1, 1)), NULL) != NULL);
  TELLS(pn_conv2d_weight(c, x, zeros(c, SHAPE(1, 2, 4, 6)), 3, 2, NULL), PN_SHAPE,
        "conv2d_weight: g must have shape [1, out, 3, 5], got [1, 2, 4, 6]");
  TELLS(pn_conv2d_weight(c, x, zeros(c, SHAPE(1, 2, 3, 4)), 3, 2, NULL), PN_SHAPE,
        "conv2d_weight: g must have shape [1, out, 3, 5], got [1, 2, 3, 4]");
  TELLS(pn_conv2d_weight(c, x, zeros(c, SHAPE(2, 2, 3, 5)), 3, 2, NULL), PN_SHAPE,
        "conv2d_weight: g must have shape [1, out, 3, 5], got [2, 2, 3, 5]");
  TELLS(pn_conv2d_weight(c, x, zeros(c, SHAPE(2, 3, 5)), 3, 2, NULL), PN_SHAPE,
        "conv2d_weight: g must have shape [n, channels, rows, columns], got [2, 3, 5]");
  TELLS(pn_conv2d_weight(c, x, x, MOST + 1, 1, NULL), PN_SHAPE,
        "conv2d_weight: kernel must have sizes from 1, got 16777217");
  /* sizes: of an axis, of an image, of a kernel over its channels; no image takes any memory */
  T *dot = zeros(c, SHAPE(1, 1, 1, 1));
  CHECK(pn_conv2d(c, none, dot, NULL) != NULL);
  CHECK(pn_conv2d(c, zeros(c, SHAPE(0, 1, MOST, 1)), dot, NULL) != NULL);
  TELLS(pn_conv2d(c, zeros(c, SHAPE(0, 1, 1, MOST + 1)), dot, NULL), PN_SHAPE,
        "conv2d: x must have shape [n, channels, rows, columns], got [0, 1, 1, 16777217]");
  TELLS(pn_conv2d(c, zeros(c, SHAPE(0, 1, MOST + 1, 1)), dot, NULL), PN_SHAPE,
        "conv2d: x must have shape [n, channels, rows, columns], got [0, 1, 16777217, 1]");
  TELLS(pn_conv2d(c, zeros(c, SHAPE(0, 1, 1 << 16, 1 << 15)), dot, NULL), PN_SHAPE,
        "conv2d: images and kernels must have fewer than 2^31 elements");
  CHECK(pn_conv2d(c, zeros(c, SHAPE(0, 1, (1 << 16) - 1, 1 << 15)), dot, NULL) != NULL);
  o = (pn_conv2d_options){.padding = {1 << 15, 1 << 15}};
  TELLS(pn_conv2d(c, zeros(c, SHAPE(0, 1, 1, 1)), dot, &o), PN_SHAPE,
        "conv2d: images and kernels must have fewer than 2^31 elements");
  const int64_t half = INT32_MAX / 2, lines = INT32_MAX / 3;
  CHECK(pn_conv2d(c, zeros(c, SHAPE(0, half, 1, 2)), zeros(c, SHAPE(0, half, 1, 2)), NULL) != NULL);
  TELLS(pn_conv2d(c, zeros(c, SHAPE(0, half + 1, 1, 2)), zeros(c, SHAPE(0, half + 1, 1, 2)), NULL), PN_SHAPE,
        "conv2d: images and kernels must have fewer than 2^31 elements");
  TELLS(pn_conv2d(c, zeros(c, SHAPE(0, lines + 1, 3, 1)), zeros(c, SHAPE(0, lines + 1, 3, 1)), NULL), PN_SHAPE,
        "conv2d: images and kernels must have fewer than 2^31 elements");
  TELLS(pn_max_pool2d(c, zeros(c, SHAPE(4, 5, 6)), two, NULL, NULL), PN_SHAPE,
        "max_pool2d: x must have shape [n, channels, rows, columns], got [4, 5, 6]");
  TELLS(pn_max_pool2d(c, x, (int64_t[]){2, 0}, NULL, NULL), PN_DOMAIN,
        "max_pool2d: kernel must be a whole number from 1, got 0");
  TELLS(pn_max_pool2d(c, none, over, NULL, NULL), PN_DOMAIN,
        "max_pool2d: kernel must be a whole number from 1, got 16777217");
  TELLS(pn_max_pool2d(c, x, two, (int64_t[]){1, -1}, NULL), PN_DOMAIN,
        "max_pool2d: stride must be a whole number from 1, got -1");
  TELLS(pn_max_pool2d(c, x, one, over, NULL), PN_DOMAIN,
        "max_pool2d: stride must be a whole number from 1, got 16777217");
  CHECK(pn_max_pool2d(c, x, one, big, NULL) != NULL);
  CHECK(pn_max_pool2d(c, zeros(c, SHAPE(0, 1, MOST, 1)), big, NULL, NULL) != NULL);
  TELLS(pn_max_pool2d(c, zeros(c, SHAPE(0, 1, 1, MOST + 1)), one, NULL, NULL), PN_SHAPE,
        "max_pool2d: x must have shape [n, channels, rows, columns], got [0, 1, 1, 16777217]");
  TELLS(pn_max_pool2d(c, x, (int64_t[]){5, 5}, NULL, (int64_t[]){2, 3}), PN_DOMAIN,
        "max_pool2d: padding must lie in 0 .. kernel / 2 = 2, got 3");
  TELLS(pn_avg_pool2d(c, x, (int64_t[]){3, 3}, NULL, (int64_t[]){0, -1}, 1), PN_DOMAIN,
        "avg_pool2d: padding must lie in 0 .. kernel / 2 = 1, got -1");
  TELLS(pn_avg_pool2d(c, x, (int64_t[]){8, 1}, NULL, (int64_t[]){1, 0}, 1), PN_SHAPE,
        "avg_pool2d: kernel of size 8 must fit in the padded image, got size 7");
  TELLS(pn_avg_pool2d(c, zeros(c, SHAPE(1, 1, 4, 0)), (int64_t[]){1, 2}, NULL, (int64_t[]){0, 1}, 1), PN_SHAPE,
        "avg_pool2d: kernel of size 2 must fit in the padded image, got size 2");
  pni_attr a = {.ni = 9, .i = {2, 2, 2, 2, 0, 0, 1, 10, 12}};
  TELLS(pni_apply1(c, &pni_op_avg_unpool2d, zeros(c, SHAPE(1, 4, 5, 5)), &a), PN_SHAPE,
        "avg_unpool2d: x must have 5 rows and 6 columns");
  TELLS(pni_apply1(c, &pni_op_avg_unpool2d, zeros(c, SHAPE(1, 4, 4, 6)), &a), PN_SHAPE,
        "avg_unpool2d: x must have 5 rows and 6 columns");
  a.i[7] = MOST + 1;
  TELLS(pni_apply1(c, &pni_op_avg_unpool2d, x, &a), PN_SHAPE,
        "avg_unpool2d: x must have shape [n, channels, rows, columns], got [1, 4, 5, 6]");
}

static void other_texts(C *c) {
  T *x = zeros(c, SHAPE(2, 3)), *f = pn_zeros(c, PN_FLOAT32, SHAPE(2, 3)), *q, *r;
  T *seven = zeros(c, SHAPE(1, 1, 1, 1, 1, 1, 3)), *eight = zeros(c, SHAPE(1, 1, 1, 1, 1, 1, 1, 3));
  TELLS(pn_rfft(c, eight, 7), PN_SHAPE, "rfft: x must have fewer than 8 axes: the result has one more");
  CHECK_INT(pn_tensor_ndim(pn_rfft(c, seven, 6)), 8);
  TELLS(pn_fft(c, x, 0), PN_SHAPE,
        "fft: x must end in an axis of 2, real and imaginary part, got [2, 3] (rfft takes real numbers)");
  TELLS(pn_fft(c, zeros(c, SHAPE(3, 2)), 1), PN_SHAPE,
        "fft: axis must be before the last one, which holds real and imaginary part");
  TELLS(pn_fft(c, zeros(c, SHAPE(2)), 0), PN_SHAPE,
        "fft: x must end in an axis of 2, real and imaginary part, got [2] (rfft takes real numbers)");
  TELLS(pn_rfft(c, zeros(c, SHAPE(2, 0)), 1), PN_SHAPE, "rfft: axis 2 must have at least one number");
  TELLS(pn_irfft(c, zeros(c, SHAPE(5, 1, 2)), 1, 0), PN_SHAPE,
        "irfft: n must be 2 m - 2 or 2 m - 1 and above 0, m = 1 on axis 2, got 0");
  TELLS(pn_irfft(c, zeros(c, SHAPE(4, 2)), 0, 8), PN_SHAPE,
        "irfft: n must be 2 m - 2 or 2 m - 1 and above 0, m = 4 on axis 1, got 8");
  CHECK_INT(pn_tensor_numel(pn_irfft(c, zeros(c, SHAPE(1, 2)), 0, 1)), 1);
  TELLS(pn_matmul(c, x, number(c, 1)), PN_SHAPE, "matmul: operands must have an axis, got a 0-d tensor (use *)");
  TELLS(pn_matmul(c, number(c, 1), x), PN_SHAPE, "matmul: operands must have an axis, got a 0-d tensor (use *)");
  TELLS(pn_matmul(c, x, x), PN_SHAPE, "matmul: inner sizes must agree, got [2, 3] and [2, 3]");
  TELLS(pn_linear(c, x, zeros(c, SHAPE(3, 4)), zeros(c, SHAPE(3))), PN_SHAPE,
        "linear: shapes must be [..., n, in], [in, out], [out], got [2, 3], [3, 4], [3]");
  TELLS(pn_linear(c, x, zeros(c, SHAPE(2, 4)), zeros(c, SHAPE(4))), PN_SHAPE,
        "linear: shapes must be [..., n, in], [in, out], [out], got [2, 3], [2, 4], [4]");
  TELLS(pn_tria(c, zeros(c, SHAPE(3, 2))), PN_SHAPE,
        "tria: matrix must have shape [..., n, k] with k at least n, got [3, 2]");
  TELLS(pn_tria(c, zeros(c, SHAPE(100, 99))), PN_SHAPE,
        "tria: matrix must have shape [..., n, k] with k at least n, got [100, 99]");
  TELLS(pn_cholesky(c, x), PN_SHAPE, "cholesky: matrix must have shape [..., n, n], got [2, 3]");
  TELLS(pn_inverse(c, zeros(c, SHAPE(3))), PN_SHAPE, "inverse: matrix must have shape [..., n, n], got [3]");
  TELLS(pn_solve(c, pn_eye(c, PN_FLOAT64, 2, 2), number(c, 1)), PN_SHAPE,
        "solve: right side of a matrix [2, 2] must be [..., 2, k] or [2], got []");
  FAILS(pn_qr(c, zeros(c, SHAPE(3)), &q, &r), PN_SHAPE, "qr: matrix must have at least 2 axes, got [3]");
  FAILS(pn_eigh(c, x, &q, &r), PN_SHAPE, "eigh: matrix must have shape [..., n, n], got [2, 3]");
  TELLS(pn_betainc(c, x, x, f), PN_DTYPE,
        "betainc: tensors must have one dtype, got float64 and float32 (convert with :to)");
  TELLS(pn_betainc(c, zeros(c, SHAPE(2, 1)), zeros(c, SHAPE(3)), zeros(c, SHAPE(2))), PN_SHAPE,
        "betainc: shapes must broadcast, got [2, 3] and [2]");
  TELLS(pni_apply(c, &pni_op_von_mises_log_mass, IN(zeros(c, SHAPE(2, 1)), zeros(c, SHAPE(3)), zeros(c, SHAPE(2))),
                  ATTR(1, 0)),
        PN_SHAPE, "von_mises_log_mass: shapes must broadcast, got [2, 3] and [2]");
  TELLS(pn_ive(c, -2, x), PN_DOMAIN, "ive: n must not be negative, got -2");
  TELLS(pn_polygamma(c, -1, x), PN_DOMAIN, "polygamma: n must not be negative, got -1");
  TELLS(pn_bernoulli_kl_inverse(c, x, x, -1), PN_DOMAIN, "bernoulli_kl_inverse: which must be 0, 1, 2 or 3, got -1");
  TELLS(pn_bernoulli_kl_inverse(c, x, x, 4), PN_DOMAIN, "bernoulli_kl_inverse: which must be 0, 1, 2 or 3, got 4");
  TELLS(pn_einsum(c, "ii->i", IN(x)), PN_SHAPE, "einsum: index 'i' must have one size, got 2 and, in operand 1, 3");
  TELLS(pn_einsum(c, "Zz,zY->ZY", IN(x, x)), PN_SHAPE,
        "einsum: index 'z' must have one size, got 3 and, in operand 2, 2");
  TELLS(pn_einsum(c, "A...,...B->A", IN(x, zeros(c, SHAPE(4, 5)))), PN_SHAPE,
        "einsum: index '.' must have one size, got 3 and, in operand 2, 4");
  TELLS(pn_einsum(c, "abcdefghi->a", IN(x)), PN_DOMAIN,
        "einsum: each term must be at most 8 letters with at most one '...', got 'abcdefghi'");
  TELLS(pn_einsum(c, "......->", IN(x)), PN_DOMAIN,
        "einsum: each term must be at most 8 letters with at most one '...', got '......'");
  TELLS(pn_einsum(c, "...ab,...cd->...abcd", IN(zeros(c, SHAPE(1, 1, 1, 1, 1, 2, 3)), zeros(c, SHAPE(2, 3)))),
        PN_DOMAIN, "einsum: result must be one term of at most 8 indices, got '...abcd'");
  TELLS(pn_einsum(c, "...ab,...cd", IN(zeros(c, SHAPE(1, 1, 1, 1, 1, 2, 3)), zeros(c, SHAPE(2, 3)))), PN_SHAPE,
        "einsum: result must have at most 8 axes");
  CHECK_INT(pn_tensor_ndim(pn_einsum(c, "...ab,...cd", IN(zeros(c, SHAPE(1, 1, 1, 1, 2, 3)), zeros(c, SHAPE(2, 3))))),
            8);
  CHECK_INT(pn_tensor_ndim(
                pn_einsum(c, "...ab,...cd->d...bac", IN(zeros(c, SHAPE(1, 1, 1, 1, 2, 3)), zeros(c, SHAPE(2, 3))))),
            8);
  TELLS(pn_einsum(c, "abcde,fghi->a", IN(zeros(c, SHAPE(1, 1, 1, 1, 1)), zeros(c, SHAPE(1, 1, 1)))), PN_SHAPE,
        "einsum: term 'fghi' must name each of its operand's 3 axes");
  T *ones = zeros(c, SHAPE(1, 1, 1, 1, 1, 1)), *five = zeros(c, SHAPE(1, 1, 1, 1, 1));
  TELLS(pn_einsum(c, "abcdhi,aefghi->abcdefg", IN(ones, ones)), PN_SHAPE,
        "einsum: a product of two operands must have at most 8 indices, got 9");
  CHECK_INT(pn_tensor_ndim(pn_einsum(c, "abcdh,aefgh->abcdefg", IN(five, five))), 7);
  T *list[PNI_OP_INPUTS + 1];
  char spec[2 * PNI_OP_INPUTS + 4];
  for (int k = 0; k <= PNI_OP_INPUTS; k++) {
    list[k] = pn_full(c, PN_FLOAT64, SHAPE(1), 2);
    spec[2 * k] = 'i';
    spec[2 * k + 1] = k < PNI_OP_INPUTS - 1 ? ',' : '\0';
  }
  CHECK_NEAR(at(pn_einsum(c, spec, PNI_OP_INPUTS, list), 0), 0x1p64, 0);
  TELLS(pn_einsum(c, spec, PNI_OP_INPUTS + 1, list), PN_DOMAIN, "einsum: number of operands must be 1 to 64, got 65");
  TELLS(pn_einsum(c, "i", -1, list), PN_DOMAIN, "einsum: number of operands must be 1 to 64, got -1");
  T *b = pn_buffer(c, pn_full(c, PN_FLOAT64, SHAPE(2), 1));
  TELLS(pn_with_update(c, x, b, x, 0.5), PN_SHAPE,
        "with_update: value must be float64 of the buffer's shape [2], got float64 of shape [2, 3]");
  TELLS(pn_with_update(c, x, b, zeros(c, SHAPE(2)), 1.5), PN_DOMAIN, "with_update: rate must lie in [0, 1], got 1.5");
  TELLS(pn_with_update(c, x, b, zeros(c, SHAPE(2)), -0.5), PN_DOMAIN, "with_update: rate must lie in [0, 1], got -0.5");
  FAILS(pn_update_buffers(c, pn_with_update(c, x, b, pn_full(c, PN_FLOAT64, SHAPE(2), NAN), 1)), PN_NAN,
        "buffers: the update of a buffer of shape [2] must be finite");
}

/* ---- slices and views against plain loops ---- */

static void slices(C *c) {
  for (int64_t n = 0; n < 5; n++)
    for (int64_t start = -2; start <= n + 1; start++)
      for (int64_t count = -1; count <= n + 1; count++)
        for (int64_t step = -3; step <= 3; step++) {
          size_t mark = pn_scope_open(c);
          bool fits = step != 0 && (count == 0 || (count > 0 && start >= 0 && start < n));
          for (int64_t k = 0; k < count && fits; k++) fits = start + k * step >= 0 && start + k * step < n;
          T *x = pn_reshape(c, pn_arange(c, PN_FLOAT64, 0, (double)(2 * n), 1), SHAPE(2, n));
          T *y = pn_slice(c, x, 1, start, count, step);
          bool good = (y != NULL) == fits;
          for (int64_t k = 0; y && k < count; k++) good = good && at(y, count + k) == (double)(n + start + k * step);
          pn_context_clear_error(c);
          T *back = y ? pni_apply1(c, &pni_op_unslice, y, ATTR(5, 1, start, count, step, n)) : NULL;
          for (int64_t i = 0; y && i < 2 * n; i++) {
            bool within = false;
            for (int64_t k = 0; k < count; k++) within |= start + k * step == i % n;
            good = good && at(back, i) == (within ? (double)i : 0);
          }
          if (!check_record(good)) printf("%d of %d from %d by %d\n", (int)count, (int)n, (int)start, (int)step);
          pn_scope_close(c, mark);
        }
  T *x = zeros(c, SHAPE(3));
  const int64_t far[] = {INT64_MAX, INT64_MIN, INT64_MAX / 2 + 2, (int64_t)1 << 32};
  for (int k = 0; k < 4; k++) {
    CHECK(pn_slice(c, x, 0, 1, 3, far[k]) == NULL && pn_context_status(c) == PN_SHAPE);
    pn_context_clear_error(c);
    CHECK(pn_slice(c, x, 0, far[k], 2, 1) == NULL && pn_context_status(c) == PN_SHAPE);
    pn_context_clear_error(c);
    CHECK(pn_slice(c, x, 0, 2, 1, far[k]) != NULL && pn_slice(c, x, 0, far[k], 0, 1) != NULL);
  }
  CHECK_INT(pn_tensor_numel(pn_flip(c, zeros(c, SHAPE(2, 0)), 1)), 0);
  /* what has no element lies where the whole does */
  T *m = zeros(c, SHAPE(3, 4));
  CHECK_INT(pn_slice(c, m, 1, INT64_MAX, 0, 1)->offset, 0);
  for (int64_t k = -5; k <= 6; k++) {
    T *d = pn_diagonal_at(c, m, k);
    const int64_t from = k < 0 ? -k * 4 : k, size = k < 0 ? 3 + k : k ? 4 - k : 3;
    CHECK_INT(d->numel, size < 0 ? 0 : size);
    CHECK_INT(d->offset, size > 0 ? from : 0);
  }
}

/* Do axes stay, or are split? Then each number of elements that last axes of x have, last axes of the result have. */
static bool is_split(const T *x, int ndim, const int64_t *shape) {
  for (int i = 0; i < x->ndim; i++) {
    bool found = false;
    for (int k = 0; k <= ndim; k++) found |= pni_count(ndim - k, shape + k) == pni_count(x->ndim - i, x->shape + i);
    if (!found) return false;
  }
  return true;
}

static void reshaped(C *c) {
  static const int64_t shapes[][4] = {{24, 1, 1, 1}, {4, 6, 1, 1}, {6, 4, 1, 1}, {2, 3, 4, 1},
                                      {2, 2, 2, 3},  {1, 4, 1, 6}, {3, 1, 8, 1}, {2, 12, 1, 1},
                                      {12, 1, 2, 1}, {4, 3, 2, 1}, {2, 3, 1, 4}};
  enum { COUNT = sizeof shapes / sizeof *shapes };
  int views = 0, copies = 0;
  for (int from = 0; from < COUNT; from++)
    for (int way = 0; way < 6; way++)
      for (int to = 0; to < COUNT; to++)
        for (int ndim = 4; ndim > 0 && pni_count(ndim, shapes[to]) == 24; ndim--) {
          size_t mark = pn_scope_open(c);
          T *all = pn_reshape(c, pn_arange(c, PN_FLOAT64, 0, 96, 1),
                              SHAPE(2 * shapes[from][0], shapes[from][1], 2 * shapes[from][2], shapes[from][3]));
          T *x = pn_slice(c, pn_slice(c, all, 0, way % 2 ? 1 : 0, shapes[from][0], way % 2 ? 1 : 2), 2, 0,
                          shapes[from][2], way % 3 ? 1 : 2);
          if (way > 2) x = pn_transpose(c, x, way - 3, way - 2);
          if (way == 5) x = pn_flip(c, x, 1);
          T *y = pn_reshape(c, x, ndim, shapes[to]);
          bool good = y != NULL;
          for (int64_t k = 0; y && k < 24; k++) good = good && at(y, k) == at(x, k);
          bool view = y && y->storage == x->storage;
          if (!check_record(good && view == (pni_is_contiguous(x) || is_split(x, ndim, shapes[to]))))
            printf("shape %d, way %d, to shape %d of %d axes\n", from, way, to, ndim);
          views += view;
          copies += !view;
          pn_scope_close(c, mark);
        }
  CHECK(views > 300 && copies > 300);
}

/* Axes of one element have the stride that they would have if all lay in one piece, whatever the view. */
static void lone_axes(C *c) {
  T *x = pn_arange(c, PN_FLOAT64, 0, 12, 1), *m = pn_reshape(c, x, SHAPE(3, 4));
  T *views[] = {pn_broadcast_to(c, m, SHAPE(1, 3, 4)),
                pn_slice(c, m, 0, 2, 1, 1),
                pn_slice(c, m, 1, 2, 1, 1),
                pn_reshape(c, pn_slice(c, m, 1, 0, 2, 2), SHAPE(3, 1, 2, 1)),
                pn_slice(c, x, 0, 4, 1, -1),
                pn_permute(c, pn_reshape(c, x, SHAPE(3, 1, 4)), 3, (int[]){1, 2, 0}),
                pn_broadcast_to(c, number(c, 2), SHAPE(1, 1, 1))};
  for (size_t k = 0; k < sizeof views / sizeof *views; k++) {
    int64_t run = 1;
    for (int i = views[k]->ndim - 1; i >= 0; run *= views[k]->shape[i--])
      if (views[k]->shape[i] == 1) CHECK_INT(views[k]->stride[i], run);
  }
}

/* ---- long rows, which are done in parts ---- */

/* Rows of a few and of many numbers, beyond the bytes that are copied and the elements that are added at once. */
static void long_rows(C *c) {
  const int64_t widths[] = {1, 8, 65535, 65536, 65537, 131073, 262144, 262145};
  for (int dtype = PN_FLOAT64; dtype <= PN_INT64; dtype++)
    for (size_t w = dtype == PN_FLOAT64 ? 0 : 4; w < sizeof widths / sizeof *widths; w += dtype == PN_FLOAT64 ? 1 : 2) {
      size_t mark = pn_scope_open(c);
      int64_t n = widths[w], wrong = 0;
      T *x = pn_reshape(c, pn_arange(c, (pn_dtype)dtype, 0, (double)(2 * n), 1), SHAPE(2, n));
      T *places = pn_from_data(c, PN_INT64, SHAPE(3), (int64_t[]){1, 0, -1});
      T *y = pn_take(c, x, 0, places), *z = pn_take_add(c, y, 0, places, 2);
      for (int64_t i = 0; i < n; i++)
        wrong += at(y, i) != at(x, n + i) || at(y, n + i) != at(x, i) || at(y, 2 * n + i) != at(x, n + i) ||
                 at(z, i) != at(x, i) || at(z, n + i) != at(x, n + i) + at(x, n + i);
      T *two = pn_take(c, pn_stack(c, IN(x, pn_neg(c, x)), 0), 1, places); /* [2, 3, n] */
      for (int64_t i = 0; i < 3 * n; i++) wrong += at(two, i) != at(y, i) || at(two, 3 * n + i) != -at(y, i);
      if (!check_record(wrong == 0)) printf("rows of %d: %d wrong\n", (int)n, (int)wrong);
      pn_scope_close(c, mark);
    }
}

/* A row that is reduced in pieces is, bit for bit, what it is at once: pieces begin with whole blocks. */
static void pieces(C *c) {
  static const int64_t shapes[][2] = {{1, 1 << 20}, {3, (1 << 20) + 1}, {1, (1 << 21) + 4097}, {2, (1 << 20) + 70001}};
  for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
    for (int dtype = PN_FLOAT64; dtype <= PN_FLOAT32; dtype++) {
      size_t mark = pn_scope_open(c);
      const int64_t rows = shapes[k][0], n = shapes[k][1];
      T *x = pn_rand(c, NULL, (pn_dtype)dtype, SHAPE(rows, n)), *y = pn_sum(c, x, axis(1), 0);
      double wide[3];
      float narrow[3];
      if (dtype == PN_FLOAT64)
        pni_reducers_f64[PNI_SUM].rows(pni_data(x), rows, n, wide);
      else
        pni_reducers_f32[PNI_SUM].rows(pni_data(x), rows, n, narrow);
      T *place = pn_argmax(c, x, 1, 0), *top = pn_max(c, x, axis(1), 0);
      for (int64_t i = 0; i < rows; i++) {
        CHECK_NEAR(at(y, i), dtype == PN_FLOAT64 ? wide[i] : (double)narrow[i], 0);
        CHECK_NEAR(at(top, i), at(x, i * n + (int64_t)at(place, i)), 0);
      }
      pn_scope_close(c, mark);
    }
}

/* Lines of `width` numbers, n of them, added one after another if they are few, else by halves. */
static void fold(const double *x, int64_t n, int64_t width, double *sum) {
  double half[4096];
  if (n > 64) {
    fold(x, n / 2, width, sum);
    fold(x + n / 2 * width, n - n / 2, width, half);
    for (int64_t i = 0; i < width; i++) sum[i] += half[i];
    return;
  }
  for (int64_t k = 0; k < n; k++)
    for (int64_t i = 0; i < width; i++) sum[i] = k ? sum[i] + x[k * width + i] : x[i];
}

/* Sums of columns: of lines that a strip of 4 KiB holds four of, and of which there are two strips, as many as fit into
 * one are a line; what is left over follows. */
static void column_sums(C *c) {
  static const int64_t shapes[][2] = {{64, 2},   {63, 129},  {64, 129},  {65, 129},   {129, 700},  {300, 513},
                                      {7, 128},  {8, 128},   {9, 128},   {511, 2},    {512, 2},    {1025, 2},
                                      {5000, 3}, {700, 100}, {129, 300}, {4097, 129}, {129, 2100}, {70, 1500}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    size_t mark = pn_scope_open(c);
    int64_t n = shapes[s][0], width = shapes[s][1], group = 512 / width;
    T *x = pn_randn(c, NULL, PN_FLOAT64, SHAPE(n, width));
    const double *v = pni_data(x);
    double sum[4096], total[4096];
    if (width <= 128 && n * width * 8 >= 8192) {
      fold(v, n / group, group * width, sum);
      for (int64_t k = n / group * group; k < n; k++)
        for (int64_t i = 0; i < width; i++) sum[i] += v[k * width + i];
      fold(sum, group, width, total);
    } else {
      fold(v, n, width, total);
    }
    T *y = pn_sum(c, x, axis(0), 0);
    int64_t wrong = 0;
    for (int64_t i = 0; i < width; i++) wrong += at(y, i) != total[i];
    if (!check_record(wrong == 0)) printf("%d x %d: %d wrong\n", (int)n, (int)width, (int)wrong);
    pn_scope_close(c, mark);
  }
}

/* Axes that lead or end a contiguous tensor are reduced where it lies: there is no room for a copy. */
static void in_place(C *unused) {
  (void)unused;
  const size_t size = (size_t)256 * 1024 * 8;
  C *c = pn_context_new(&(pn_context_config){.memory_limit = size + size / 2, .threads = 1, .pool_limit = PN_NO_POOL});
  size_t mark = pn_scope_open(c);
  T *x = zeros(c, SHAPE(256, 8, 128));
  CHECK(pn_sum(c, x, axis(0), 0) && pn_sum(c, x, axis(2), 0) && pn_sum(c, x, (pn_axes){2, {1, 2}}, 0));
  CHECK(pn_sum(c, x, (pn_axes){2, {0, 1}}, 0) && pn_max(c, x, (pn_axes){2, {0, 1}}, 0) && pn_prod(c, x, axis(0), 0));
  CHECK(pn_mean(c, x, PN_ALL, 0) && pn_logsumexp(c, x, axis(2), 0) && pn_argmax(c, x, 1, 0));
  CHECK(pn_sum(c, pn_reshape(c, x, SHAPE(1, 2048, 128)), (pn_axes){2, {0, 1}}, 1) != NULL);
  CHECK_INT(pn_context_status(c), PN_OK);
  pn_scope_close(c, mark);
  /* and places that are all within are read where they lie */
  mark = pn_scope_open(c);
  T *square = zeros(c, SHAPE(128, 128)); /* a product, of which the 2^21 terms have no room */
  CHECK(pn_einsum(c, "ij,jk->ik", IN(square, square)) &&
        pn_einsum(c, "ij,jkl->ikl", IN(square, pn_unsqueeze(c, square, 2))));
  pn_scope_close(c, mark);
  mark = pn_scope_open(c);
  CHECK(pn_take(c, zeros(c, SHAPE(2)), 0, whole(c, SHAPE(127 * 1024))) != NULL);
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_status(c), PN_OK);
  pn_context_close(c);
}

/* ---- gradients that come to others ---- */

static T *weighed(C *c, T *t, double shift) {
  return pn_mul(c, t,
                pn_cos(c, pn_add(c, pn_reshape(c, pn_arange(c, PN_FLOAT64, 0, (double)t->numel, 1), t->ndim, t->shape),
                                 number(c, shift))));
}
static T *turned(C *c, T *t) { return weighed(c, pn_square(c, pn_flip(c, t, -1)), 1); }
static T *odd(C *c, T *t) { return pn_square(c, pn_slice(c, t, -1, 0, 3, 2)); }

/* A slice by steps adds its gradient to what is there, unless that is seen elsewhere: by another input of a sum,
 * through a view, as one number that is repeated, or by a graph. Both orders. */
static T *shared_sum(C *c, T *const *x) { return pn_add(c, turned(c, x[0]), weighed(c, pn_add(c, x[0], x[1]), 2)); }
static T *sum_shared(C *c, T *const *x) { return pn_add(c, weighed(c, pn_add(c, x[0], x[1]), 2), turned(c, x[0])); }
static T *through_view(C *c, T *const *x) {
  T *v = pn_reshape(c, pn_add(c, pn_reshape(c, x[0], SHAPE(3, 2)), pn_reshape(c, x[1], SHAPE(3, 2))), SHAPE(6));
  return pn_add(c, turned(c, x[0]), weighed(c, v, 2));
}
static T *view_through(C *c, T *const *x) {
  T *v = pn_reshape(c, pn_add(c, pn_reshape(c, x[0], SHAPE(3, 2)), pn_reshape(c, x[1], SHAPE(3, 2))), SHAPE(6));
  return pn_add(c, weighed(c, v, 2), turned(c, x[0]));
}
static T *repeated(C *c, T *const *x) {
  return pn_add(c, pn_sum(c, x[0], PN_ALL, 0), turned(c, pn_mul(c, x[0], x[1])));
}
static T *of_number(C *c, T *const *x) {
  return pn_add(c, turned(c, x[0]), pn_mul(c, pn_sum(c, x[0], PN_ALL, 0), x[1]));
}
static T *number_of(C *c, T *const *x) {
  return pn_add(c, pn_mul(c, pn_sum(c, x[0], PN_ALL, 0), x[1]), turned(c, x[0]));
}
static T *cubed(C *c, T *const *x) {
  T *all = pn_concatenate(c, IN(odd(c, x[0]), turned(c, x[0]), pn_mul(c, odd(c, x[1]), odd(c, x[0]))), 0);
  return pn_add(c, pn_sum(c, pn_mul(c, all, all), PN_ALL, 0), pn_prod(c, pn_flip(c, x[0], 0), PN_ALL, 0));
}
static T *overlapping(C *c, T *const *x) {
  T *a = pn_slice(c, x[0], 0, 0, 4, 1), *b = pn_slice(c, x[0], 0, 2, 4, 1), *d = pn_slice(c, x[0], 0, 0, 4, 1);
  return pn_add(c, weighed(c, pn_mul(c, a, b), 1), weighed(c, pn_square(c, d), 3));
}

static void added_gradients(C *c) {
  static const struct {
    const char *name;
    gradient_function f;
  } list[] = {{"shared sum", shared_sum},     {"sum shared", sum_shared}, {"through view", through_view},
              {"view through", view_through}, {"repeated", repeated},     {"of a number", of_number},
              {"number of", number_of},       {"cubed", cubed},           {"overlapping", overlapping}};
  T *x[] = {pn_param(c, pn_from_data(c, PN_FLOAT64, SHAPE(6), (double[]){0.3, -0.7, 1.1, 0.4, -1.3, 0.9})),
            pn_param(c, pn_from_data(c, PN_FLOAT64, SHAPE(6), (double[]){1.2, 0.5, -0.4, 0.8, 0.6, -1.1}))};
  for (size_t k = 0; k < sizeof list / sizeof *list; k++) gradient_check(c, list[k].name, list[k].f, 2, x);
  /* the same in float32 */
  T *y[] = {pn_param(c, pn_cast(c, pn_detach(c, x[0]), PN_FLOAT32)),
            pn_param(c, pn_cast(c, pn_detach(c, x[1]), PN_FLOAT32))};
  T *wide[2], *narrow[2];
  for (int k = 0; k < 2; k++) {
    T *loss[2];
    for (int n = 0; n < 2; n++) {
      T *t = n ? y[0] : x[0], *u = n ? y[1] : x[1];
      loss[n] = pn_sum(c, pn_mul(c, pn_mul(c, pn_flip(c, t, 0), t), pn_add(c, pn_flip(c, t, 0), u)), PN_ALL, 0);
    }
    CHECK_STATUS(c, pn_grad(c, loss[0], 2, x, k, wide), PN_OK);
    CHECK_STATUS(c, pn_grad(c, loss[1], 2, y, k, narrow), PN_OK);
    for (int64_t i = 0; i < 12; i++) CHECK_NEAR(at(narrow[i / 6], i % 6), at(wide[i / 6], i % 6), 2e-6);
  }
}

/* Gradients of slices side by side are put together, zeros in the gaps between them; of those that overlap they are
 * added up; of one place they are one part. */
static void joined_slices(C *c) {
  static const struct {
    int64_t slice[4][2]; /* start, count */
    int pieces;          /* 0: added up */
  } cases[] = {{{{0, 3}, {3, 4}}, 2},
               {{{3, 4}, {0, 3}}, 2},
               {{{0, 3}, {4, 3}}, 3},
               {{{1, 2}, {3, 3}}, 4},
               {{{4, 2}, {0, 3}, {3, 1}}, 4},
               {{{1, 2}, {2, 2}}, 0},
               {{{1, 2}, {1, 3}}, 0},
               {{{1, 2}, {1, 2}}, 0},
               {{{1, 2}, {4, 2}, {1, 2}}, 5},
               {{{0, 7}}, 0},
               {{{5, 2}, {2, 2}, {0, 2}, {4, 1}}, 4}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
    for (int ax = 0; ax < 2; ax++) {
      size_t mark = pn_scope_open(c);
      T *w = pn_param(c, zeros(c, ax ? 2 : 2, ax ? (int64_t[]){2, 7} : (int64_t[]){7, 2})), *sum = NULL, *g = NULL;
      double want[7] = {0};
      for (int i = 0; i < 4 && cases[k].slice[i][1]; i++) {
        const int64_t start = cases[k].slice[i][0], count = cases[k].slice[i][1];
        T *part = pn_mul(c, pn_sum(c, pn_exp(c, pn_slice(c, w, ax, start, count, 1)), PN_ALL, 0), number(c, i + 2));
        sum = sum ? pn_add(c, sum, part) : part;
        for (int64_t j = start; j < start + count; j++) want[j] += i + 2;
      }
      CHECK_STATUS(c, pn_grad(c, sum, 1, &w, 1, &g), PN_OK);
      for (int64_t j = 0; j < 14; j++) CHECK_NEAR(at(g, j), want[ax ? j % 7 : j / 2], 1e-15);
      CHECK_INT(g->op == &pni_op_concatenate ? g->nin : 0, cases[k].pieces);
      pn_scope_close(c, mark);
    }
}

enum { ROOM = 8192, TIMES = 60 };

/* Many slices that overlap, or a long chain: the graph holds TIMES tensors of ROOM numbers. */
static T *many_slices(C *c, T *w) {
  T *sum = number(c, 0);
  for (int k = 0; k < TIMES; k++) {
    size_t mark = pn_scope_open(c);
    T *part = pn_sum(c, pn_exp(c, pn_slice(c, w, 0, k, ROOM - TIMES, 1)), PN_ALL, 0), *next = pn_add(c, sum, part);
    sum = pn_tensor_ref(next);
    pn_scope_close(c, mark);
    pni_scoped(c, sum);
  }
  return sum;
}
static T *long_chain(C *c, T *w) {
  T *y = w;
  for (int k = 0; k < TIMES; k++) y = pn_sin(c, y);
  return pn_sum(c, y, PN_ALL, 0);
}

/* Gradients take memory for a few tensors beside the graph, however many nodes there are. */
static void few_gradients(C *unused) {
  (void)unused;
  for (int way = 0; way < 3; way++) {
    size_t used = 0, tensor = ROOM * sizeof(double);
    for (int turn = 0; turn < 2; turn++) {
      C *c = pn_context_new(
          &(pn_context_config){.memory_limit = turn ? used + 12 * tensor : 0, .threads = 1, .pool_limit = PN_NO_POOL});
      size_t mark = pn_scope_open(c);
      T *w = pn_param(c, pn_full(c, PN_FLOAT64, SHAPE(ROOM), 0.5)), *y = way ? long_chain(c, w) : many_slices(c, w);
      used = pn_context_memory(c, NULL);
      if (turn) CHECK_STATUS(c, way == 2 ? pni_backward_spend(c, y) : pn_backward(c, y), PN_OK);
      CHECK(!turn || used > TIMES * (tensor - TIMES * sizeof(double)) || way == 2);
      if (turn && way == 0)
        for (int64_t k = 1; k < ROOM; k += 7) {
          const double times = (double)(k < TIMES ? k + 1 : k > ROOM - TIMES - 1 ? ROOM - k - 1 : TIMES);
          CHECK_NEAR(at(w->grad, k), times * exp(0.5), 1e-13);
        }
      pn_scope_close(c, mark);
      pn_context_close(c);
    }
  }
}

/* Slices along both axes, of places and sizes that are equal or are an axis's number, and one of no elements beyond the
 * end, are told apart; so are hundreds of them. */
static void crossing_slices(C *c) {
  static const int64_t list[][3] = {{0, 1, 2}, {1, 1, 2}, {0, 1, 1}, {0, 1, 3},         {1, 0, 1},
                                    {0, 0, 1}, {1, 1, 1}, {0, 1, 1}, {0, INT64_MAX, 0}, {1, 2, 1},
                                    {0, 2, 1}, {1, 1, 3}, {1, 1, 2}, {0, 3, 1}};
  enum { COUNT = sizeof list / sizeof *list, MANY = 300 };
  T *w = pn_param(c, zeros(c, SHAPE(5, 5))), *g = NULL;
  for (int from = 0; from < COUNT; from++)
    for (int n = 2; n <= COUNT; n += n < 4 ? 1 : 5) {
      size_t mark = pn_scope_open(c);
      double want[25] = {0};
      T *sum = number(c, 0);
      for (int k = 0; k < n; k++) {
        const int64_t *a = list[(from + k) % COUNT];
        T *part = pn_sum(c, pn_exp(c, pn_slice(c, w, (int)a[0], a[1], a[2], 1)), PN_ALL, 0);
        sum = pn_add(c, sum, pn_mul(c, part, number(c, k + 2)));
        for (int64_t i = 0; i < 25; i++) {
          const int64_t place = a[0] ? i % 5 : i / 5;
          want[i] += place >= a[1] && place - a[1] < a[2] ? k + 2 : 0;
        }
      }
      CHECK_STATUS(c, pn_grad(c, sum, 1, &w, 0, &g), PN_OK);
      int wrong = 0;
      for (int64_t i = 0; i < 25; i++) wrong += at(g, i) != want[i];
      if (!check_record(wrong == 0)) printf("%d slices from %d on: %d wrong\n", n, from, wrong);
      pn_scope_close(c, mark);
    }
  w = pn_param(c, zeros(c, SHAPE(MANY)));
  T *sum = number(c, 0);
  for (int64_t k = 0; k < 2 * MANY; k++) {
    T *one = pn_exp(c, pn_slice(c, w, 0, k * 7 % MANY, 1, 1));
    sum = pn_add(c, sum, pn_mul(c, one, number(c, (double)(k * 7 % MANY + (k < MANY)))));
  }
  CHECK_STATUS(c, pn_grad(c, pn_sum(c, sum, PN_ALL, 0), 1, &w, 1, &g), PN_OK);
  for (int64_t k = 0; k < MANY; k++) CHECK_NEAR(at(g, k), (double)(2 * k + 1), 0);
}

/* Data that had a gradient when the graph was made, and has none by then, is passed by. */
static void withdrawn(C *c) {
  T *x = pn_from_data(c, PN_FLOAT64, SHAPE(3), (double[]){2, 3, 5}), *w = pn_param(c, number(c, 7));
  CHECK_STATUS(c, pn_tensor_set_requires_grad(c, x, 1), PN_OK);
  T *y =
      pn_add(c, pn_mul(c, pn_sum(c, pn_slice(c, x, 0, 1, 2, 1), PN_ALL, 0), w), pn_sum(c, pn_square(c, x), PN_ALL, 0));
  T *z = pn_mul(c, pn_sum(c, pn_flip(c, pn_exp(c, x), 0), PN_ALL, 0), w);
  CHECK_STATUS(c, pn_tensor_set_requires_grad(c, x, 0), PN_OK);
  CHECK_STATUS(c, pn_backward(c, pn_add(c, y, pn_mul(c, z, number(c, 0)))), PN_OK);
  CHECK_NEAR(at(w->grad, 0), 8, 0);
  CHECK(x->grad == NULL && x->mark == 0);
}

/* Axes that end the shape are summed by themselves, then the others; what has the axes of x needs no other shape. */
static void summed_to(C *c) {
  T *g = pn_param(c, pn_rand(c, NULL, PN_FLOAT64, SHAPE(2, 3, 4, 5))), *y = pni_sum_to(c, g, zeros(c, SHAPE(3, 1, 1)));
  CHECK(y->op == &pni_op_reshape && y->in[0].t->op == &pni_op_sum);
  CHECK_INT(y->in[0].t->attr->i[0], 1);
  CHECK_INT(y->in[0].t->in[0].t->attr->i[0], 12);
  for (int64_t j = 0; j < 3; j++) {
    double want = 0;
    for (int64_t i = 0; i < 120; i++) want += i / 20 % 3 == j ? at(g, i) : 0;
    CHECK_NEAR(at(y, j), want, 1e-14);
  }
  y = pni_sum_to(c, g, zeros(c, SHAPE(2, 1, 4, 1)));
  CHECK(y->op == &pni_op_sum && y->attr->i[0] == 2 && y->in[0].t->attr->i[0] == 8 && y->in[0].t->in[0].t == g);
  CHECK(pni_sum_to(c, g, g) == g);
  y = pni_sum_to(c, pn_reshape(c, pn_slice(c, g, 3, 0, 1, 1), SHAPE(2, 3, 4)), zeros(c, SHAPE(1, 3, 1)));
  CHECK(y->op == &pni_op_sum && y->ndim == 3 && y->shape[1] == 3 && y->numel == 3);
  y = pni_sum_to(c, number(c, 3), zeros(c, SHAPE(2, 3)));
  CHECK(y->numel == 6 && at(y, 5) == 3);
  T *rows = pni_flat_rows(c, zeros(c, SHAPE(2, 0, 4, 3)));
  CHECK(rows->ndim == 2 && rows->shape[0] == 0 && rows->shape[1] == 3);
}

/* ---- as many axes as there can be ---- */

#define WIDE 2, 1, 2, 1, 2, 1, 1, 2
static T *wide_reductions(C *c, T *const *x) {
  T *all[] = {pn_sum(c, x[0], (pn_axes){2, {0, 6}}, 1), pn_max(c, x[0], (pn_axes){2, {1, 4}}, 0),
              pn_logsumexp(c, x[0], axis(2), 0), pn_prod(c, x[0], (pn_axes){2, {0, 7}}, 0),
              pn_mean(c, x[0], axis(7), 1)};
  T *y = number(c, 0);
  for (int k = 0; k < 5; k++) y = pn_add(c, y, pn_sum(c, weighed(c, all[k], k), PN_ALL, 0));
  return y;
}
static T *wide_shapes(C *c, T *const *x) {
  T *y = pn_permute(c, x[0], 8, (int[]){7, 0, 4, 1, 6, 3, 5, 2});
  y = pn_add(c, weighed(c, y, 1), pn_transpose(c, y, 0, 1));
  T *seven = pn_squeeze(c, pn_transpose(c, x[0], 2, 7), 6);
  y = pn_mul(c, y, weighed(c, pn_unsqueeze(c, seven, 3), 2));
  y = pn_mul(c, y, pn_broadcast_to(c, pn_slice(c, seven, 2, 1, 1, 1), 8, y->shape));
  return pn_add(c, y, pn_linear_recurrence(c, y, pn_sum(c, x[0], PN_ALL, 0), 4));
}
static T *wide_matrices(C *c, T *const *x) {
  T *seven = pn_squeeze(c, x[0], 1), *big = pn_diag_embed(c, seven), *a = pn_add(c, big, pn_eye(c, PN_FLOAT64, 2, 2));
  T *y = pn_solve(c, pn_add(c, pn_square(c, a), pn_eye(c, PN_FLOAT64, 2, 2)), a);
  T *z = pn_einsum(c, "abcdefgh,hgfedcba->ha", IN(x[0], pn_permute(c, x[0], 8, (int[]){7, 6, 5, 4, 3, 2, 1, 0})));
  z = pn_mul(c, z, pn_einsum(c, "aabbccdd->ad", IN(pn_reshape(c, x[0], SHAPE(2, 2, 1, 1, 1, 1, 2, 2)))));
  T *w = pn_rfft(c, pn_reshape(c, seven, SHAPE(1, 2, 1, 4, 1, 1, 2)), 3);
  T *places = pn_from_data(c, PN_INT64, SHAPE(2), (int64_t[]){1, 0});
  y = pn_add(c, pn_sum(c, weighed(c, pn_diagonal(c, y), 1), PN_ALL, 0), pn_sum(c, weighed(c, z, 2), PN_ALL, 0));
  y = pn_add(c, y, pn_sum(c, weighed(c, pn_take(c, pn_sort(c, x[0], 7, 0), 4, places), 3), PN_ALL, 0));
  return pn_add(c, y, pn_sum(c, weighed(c, w, 4), PN_ALL, 0));
}

static void eight_axes(C *c) {
  T *x = pn_param(c, pn_add(c, pn_rand(c, NULL, PN_FLOAT64, SHAPE(WIDE)), number(c, 0.5)));
  gradient_check(c, "reductions of eight axes", wide_reductions, 1, &x);
  gradient_check(c, "shapes of eight axes", wide_shapes, 1, &x);
  gradient_check(c, "matrices of eight axes", wide_matrices, 1, &x);
  char buf[PNI_CAUSE];
  T *same = pn_einsum(c, "...,...->...", IN(x, x));
  for (int64_t k = 0; k < 16; k++) CHECK_NEAR(at(same, k), at(x, k) * at(x, k), 0);
  T *y = pn_sum(c, pn_mul(c, x, pn_full(c, PN_FLOAT64, SHAPE(WIDE), NAN)), PN_ALL, 0);
  CHECK_STR(pni_nonfinite_cause(c, y, buf), "input 2 of 'mul' (shape [2, 1, 2, 1, 2, 1, 1, 2], a constant) is NaN");
}

/* ---- graphs ---- */

static void causes(C *c) {
  char buf[PNI_CAUSE];
  T *x = pn_param(c, pn_from_data(c, PN_FLOAT64, SHAPE(1, 3), (double[]){4, 0, 1}));
  T *sum = pn_sum(c, pn_sqrt(c, x), PN_ALL, 0), *two = pn_mul(c, sum, pn_scalar(c, PN_FLOAT64, -INFINITY));
  CHECK_STR(pni_nonfinite_cause(c, sum, buf),
            "the derivative of 'sqrt' (result of shape [1, 3]) with respect to input 1 is not finite");
  CHECK_STR(pni_nonfinite_cause(c, two, buf), "input 2 of 'mul' (shape [], a constant) is -inf");
  T *safe = pn_param(c, pn_full(c, PN_FLOAT64, SHAPE(2), 1));
  T *pair = pn_add(c, pn_exp(c, pn_mul(c, safe, number(c, 800))), safe);
  CHECK_STR(pni_nonfinite_cause(c, pn_sum(c, pair, PN_ALL, 0), buf),
            "'exp' (result of shape [2]) gave +inf from finite inputs");
  T *good = pn_sum(c, pn_div(c, safe, pn_sqrt(c, pn_add(c, pn_slice(c, x, 1, 1, 1, 1), number(c, 1)))), PN_ALL, 0);
  CHECK_STR(pni_nonfinite_cause(c, good, buf), "its origin could not be found");
  T *second = pn_sum(c, pn_pow(c, safe, pn_sqrt(c, pn_square(c, pn_slice(c, x, 1, 0, 2, 1)))), PN_ALL, 0);
  CHECK_STR(pni_nonfinite_cause(c, second, buf),
            "the derivative of 'sqrt' (result of shape [1, 2]) with respect to input 1 is not finite");
  CHECK(!c->no_grad && pn_context_status(c) == PN_OK);
  CHECK_STR(
      pni_nonfinite_cause(c, pn_sum(c, pn_param(c, pn_full(c, PN_FLOAT32, SHAPE(2, 1), INFINITY)), PN_ALL, 0), buf),
      "a parameter of shape [2, 1] is already +inf");
  CHECK(pni_has_nan(c, pn_full(c, PN_FLOAT32, SHAPE(3), NAN)) &&
        !pni_has_nan(c, pn_full(c, PN_FLOAT64, SHAPE(3), INFINITY)));
  CHECK(!pni_all_finite(c, pn_full(c, PN_FLOAT64, SHAPE(3), INFINITY)) && pni_all_finite(c, whole(c, SHAPE(3))));
  CHECK(!pni_has_nan(c, whole(c, SHAPE(3))) && pni_all_finite(c, zeros(c, SHAPE(3, 0))));
  /* one NaN anywhere, also where axes repeat */
  for (int64_t k = 0; k < 6; k++) {
    T *t = zeros(c, SHAPE(2, 3));
    ((double *)pni_data(t))[k] = NAN;
    CHECK(pni_has_nan(c, pn_transpose(c, pn_broadcast_to(c, pn_unsqueeze(c, t, 1), SHAPE(2, 5, 3)), 0, 2)));
    CHECK(pni_has_nan(c, pn_flip(c, t, 1)) && pni_has_nan(c, pn_slice(c, t, 1, k % 3, 1, 1)));
    CHECK(!pni_has_nan(c, pn_slice(c, t, 1, (k + 1) % 3, 1, 1)));
  }
}

/* Updates of one buffer are committed in the order in which they were attached, wherever they stand in the graph. */
static void ordered_updates(C *c) {
  for (int way = 0; way < 2; way++)
    for (int dtype = PN_FLOAT64; dtype <= PN_FLOAT32; dtype++) {
      T *b = pn_buffer(c, pn_full(c, (pn_dtype)dtype, SHAPE(3), 8)), *w = pn_param(c, number(c, 1)), *y[5], *sum = NULL;
      double want = 8;
      for (int k = 0; k < 5; k++) {
        y[k] = pn_with_update(c, pn_mul(c, w, number(c, k)), b, pn_full(c, (pn_dtype)dtype, SHAPE(3), k),
                              0.25 * (k % 3 + 1));
        want = (1 - 0.25 * (k % 3 + 1)) * want + 0.25 * (k % 3 + 1) * k;
      }
      for (int k = 0; k < 5; k++) {
        T *next = y[way ? (3 * k + 1) % 5 : 4 - k];
        sum = sum ? pn_add(c, sum, next) : next;
      }
      CHECK_STATUS(c, pn_update_buffers(c, sum), PN_OK);
      CHECK_INT(c->evaluating, 0);
      for (int64_t i = 0; i < 3; i++) CHECK_NEAR(at(b, i), want, dtype == PN_FLOAT64 ? 1e-15 : 1e-6);
    }
}

/* A sweep that lets go of the graph has the same gradients, leaves data, and the pool as large as it was. */
static void spent(C *c) {
  T *w = pn_param(c, pn_rand(c, NULL, PN_FLOAT64, SHAPE(7))), *v = pn_param(c, pn_rand(c, NULL, PN_FLOAT64, SHAPE(7)));
  T *in[] = {w, v}, *g[2];
  const size_t pool = c->pool_limit;
  T *t = pn_mul(c, pn_sin(c, w), pn_add(c, pn_flip(c, w, 0), pn_slice(c, pn_concatenate(c, IN(v, w), 0), 0, 3, 7, 1)));
  T *y = pn_sum(c, pn_mul(c, t, pn_add(c, t, pn_detach(c, v))), PN_ALL, 0);
  CHECK_STATUS(c, pn_grad(c, y, 2, in, 0, g), PN_OK);
  CHECK_STATUS(c, pni_backward_spend(c, y), PN_OK);
  for (int k = 0; k < 2; k++)
    for (int64_t i = 0; i < 7; i++) CHECK_NEAR(at(in[k]->grad, i), at(g[k], i), 1e-15);
  CHECK(c->pool_limit == pool && pool > 0 && !c->no_grad);
  CHECK(y->nin == 0 && !pn_tensor_requires_grad(y) && t->nin == 0 && w->mark == 0 && t->mark == 0);
  CHECK(pn_tensor_requires_grad(w));
  T *leaf = NULL, *z = pn_mul(c, w, pn_exp(c, v));
  CHECK_STATUS(c, pni_leaf_beyond(c, z, 1, &w, &leaf), PN_OK);
  CHECK(leaf == v && z->mark == 0);
  CHECK_STATUS(c, pni_leaf_beyond(c, z, 2, in, &leaf), PN_OK);
  CHECK(leaf == NULL);
}

/* ---- draws and float32 ---- */

/* A draw in float32 is the float next to that in float64, in pieces and by threads, and fresh numbers every time. */
static void narrow_draws(C *c) {
  const int64_t sizes[] = {1, 255, 256, 257, 513, 2048, 4099};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    for (int what = 0; what < 2; what++) {
      size_t mark = pn_scope_open(c);
      const int64_t n = sizes[k];
      pn_rng *r = pn_rng_new(c, 7), *s = pn_rng_new(c, 7);
      T *a = pn_add(c, pn_rand(c, NULL, PN_FLOAT32, SHAPE(n)), pn_scalar(c, PN_FLOAT32, 0.4)),
        *wide = pn_cast(c, a, PN_FLOAT64);
      T *x = what ? pn_von_mises_draw(c, r, a) : pn_log_gamma_draw(c, r, a);
      T *y = what ? pn_von_mises_draw(c, s, wide) : pn_log_gamma_draw(c, s, wide);
      T *again = what ? pn_von_mises_draw(c, r, a) : pn_log_gamma_draw(c, r, a);
      int64_t wrong = 0;
      for (int64_t i = 0; i < n; i++) wrong += at(x, i) != (double)(float)at(y, i) || at(again, i) == at(x, i);
      if (!check_record(wrong == 0)) printf("draws %d of %d: %d wrong\n", what, (int)n, (int)wrong);
      pn_rng_free(r);
      pn_rng_free(s);
      pn_scope_close(c, mark);
    }
}

/* Sources that tell what they were asked: the numbers of an item, and its position. */
static double told_number(uint64_t key, uint64_t position, const double *x) {
  return x[0] + 100 * x[1] + 10000 * (double)position + (key == 0);
}
static void told_rows(const pni_draws *d, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++)
    for (int64_t k = 0; k < d->out_width; k++)
      d->out[i * d->out_width + k] = pni_draws_row(d, 0, i)[k] + 100 * *pni_draws_row(d, 1, i) +
                                     10000 * (double)(d->at.position + 3 * (uint64_t)i);
}

static void sources(C *c) {
  static const pni_random_source one = {.name = "one", .nin = 2, .scalar = told_number};
  static const pni_random_source three = {.name = "three", .nin = 2, .positions = 3, .scalar = told_number};
  static const pni_random_source row = {
      .name = "row", .nin = 2, .rank = {1, 0}, .out_rank = 1, .positions = 3, .rows = told_rows};
  const pni_random_source *const list[] = {&one, &three, &row};
  T *column = pn_reshape(c, pn_arange(c, PN_FLOAT32, 0, 3, 1), SHAPE(3, 1)),
    *row_of = pn_arange(c, PN_FLOAT64, 0, 4, 1);
  T *page = pn_transpose(c, pn_reshape(c, pn_arange(c, PN_FLOAT64, 0, 6, 1), SHAPE(3, 2)), 0, 1);
  for (int k = 0; k < 3; k++)
    for (int dtype = PN_FLOAT64; dtype <= PN_INT64; dtype++)
      for (int lone = 0; lone < 2; lone++) {
        pn_rng *r = pn_rng_new(c, 9);
        uint64_t state[2], after[2];
        pn_rng_set_state(r, (uint64_t[]){5, 7});
        pn_rng_get_state(r, state);
        const pni_spec spec = {.dtype = dtype, .ndim = 3, .shape = {2, 3, 4}};
        T *second = lone ? number(c, 2) : k == 2 ? page : column;
        T *y = pni_source_draw(c, list[k], r, &spec, (T *[]){row_of, second});
        pn_rng_get_state(r, after);
        const int64_t step = k ? 3 : 1, items = k == 2 ? 6 : 24;
        CHECK_INT(after[1] - state[1], step * items);
        CHECK_INT(y->dtype, dtype);
        int64_t wrong = 0;
        for (int64_t i = 0; i < 24; i++) {
          const int64_t item = k == 2 ? i / 4 : i;
          const double u = lone ? 2 : k == 2 ? at(page, item) : (double)(i / 4 % 3);
          wrong += at(y, i) != (double)(i % 4) + 100 * u + 10000 * (double)((int64_t)state[1] + item * step);
        }
        CHECK_INT(wrong, 0);
        pn_rng_free(r);
      }
  const pni_spec spec = {.dtype = PN_FLOAT64, .ndim = 2, .shape = {3, 4}};
  TELLS(pni_source_draw(c, &row, NULL, &spec, (T *[]){row_of, zeros(c, SHAPE(3, 3))}), PN_SHAPE,
        "row: input 2 must have 0 to 1 axes, got shape [3, 3]");
  TELLS(pni_source_draw(c, &row, NULL, &spec, (T *[]){number(c, 1), number(c, 1)}), PN_SHAPE,
        "row: input 1 must have 1 to 2 axes, got shape []");
  /* the operation itself, handed other tensors than it was made for */
  T *in[] = {row_of, column};
  CHECK_STATUS(c, pn_capture_begin(c, 0, NULL, NULL), PN_OK);
  CHECK(pni_source_draw(c, &one, NULL, &spec, in) != NULL);
  const pni_tape *tape = (const pni_tape *)c->recorder;
  const pni_note *note = &tape->note.v[tape->note.n - 1];
  const pni_op *op = note->op;
  pni_attr a = {0};
  memcpy(&a, pni_attr_of(tape, note), offsetof(pni_attr, i) + (size_t)pni_attr_of(tape, note)->ni * sizeof a.i[0]);
  pn_capture_cancel(c);
  CHECK_STR(op->name, "random_source");
  T *wide = pn_contiguous(c, pn_broadcast_to(c, pn_cast(c, column, PN_FLOAT64), SHAPE(3, 4)));
  CHECK(pni_apply(c, op, IN(row_of, wide), &a) != NULL &&
        pni_apply(c, op, IN(row_of, zeros(c, SHAPE(1, 1))), &a) != NULL);
  TELLS(pni_apply(c, op, IN(pn_cast(c, row_of, PN_FLOAT32), column), &a), PN_SHAPE,
        "one: input 1 must be float64 and end as the result, got float32 [4]");
  TELLS(pni_apply(c, op, IN(zeros(c, SHAPE(3)), wide), &a), PN_SHAPE,
        "one: input 1 must be float64 and end as the result, got float64 [3]");
  TELLS(pni_apply(c, op, IN(row_of, zeros(c, SHAPE(1, 3, 4))), &a), PN_SHAPE,
        "one: input 2 must be float64 and end as the result, got float64 [1, 3, 4]");
}

/* In float32 the inverse is the float at or next beyond the exact value. */
static void outward_inverses(C *c) {
  for (int which = 0; which < 4; which++)
    for (int i = 1; i < 40; i++) {
      size_t mark = pn_scope_open(c);
      const float x = (float)i / 40, bound = 0.001F * (float)(i * i);
      const double got = at(pn_bernoulli_kl_inverse(c, pn_scalar(c, PN_FLOAT32, (double)x),
                                                    pn_scalar(c, PN_FLOAT32, (double)bound), which),
                            0);
      const double want = at(pn_bernoulli_kl_inverse(c, number(c, (double)x), number(c, (double)bound), which), 0);
      CHECK(which % 2 ? got <= want : got >= want);
      CHECK(fabs(got - want) <= 1.2e-7 * fabs(want));
      pn_scope_close(c, mark);
    }
}

/* Far in the upper tail log_ndtr has slopes of 0, of any order. */
static void flat_tails(C *c) {
  for (int dtype = PN_FLOAT64; dtype <= PN_FLOAT32; dtype++)
    for (double v = 5; v < 80; v += 2.5) {
      T *x = pn_param(c, pn_scalar(c, (pn_dtype)dtype, v)), *g, *h;
      CHECK_STATUS(c, pn_grad(c, pn_log_ndtr(c, x), 1, &x, 1, &g), PN_OK);
      CHECK_STATUS(c, pn_grad(c, g, 1, &x, 0, &h), PN_OK);
      const double ratio = exp(-v * v / 2) / sqrt(2 * 3.14159265358979323846) / (0.5 * erfc(-v / sqrt(2)));
      const double rel = dtype == PN_FLOAT64 ? 1e-12 : 1e-5, least = dtype == PN_FLOAT64 ? 1e-160 : 1e-21;
      const double second = -ratio * (v + ratio);
      if (!check_record(fabs(at(g, 0) - ratio) <= rel * ratio + least &&
                        fabs(at(h, 0) - second) <= rel * fabs(second) + least))
        printf("log_ndtr at %g: slopes %g and %g, %g and %g\n", v, at(g, 0), at(h, 0), ratio, second);
    }
  T *x = pn_param(c, number(c, 0.7)), *g[5];
  CHECK_STATUS(c, pn_grad(c, pn_bessel_gap(c, x), 1, &x, 1, g), PN_OK);
  for (int k = 0; k < 2; k++) CHECK_STATUS(c, pn_grad(c, g[k], 1, &x, 1, g + k + 1), PN_OK);
  FAILS(pn_grad(c, g[2], 1, &x, 1, g + 3), PN_MISSING, "bessel_gap: has no derivative of order 4");
}

/* Blocks of the vector functions, and what is outside of their domain, beside one number at a time. */
static void stirling_blocks(C *c) {
  enum { COUNT = 601 };
  double v[2 * COUNT];
  for (int i = 0; i < 2 * COUNT; i++) v[i] = 0.05 + 0.02 * i;
  v[2 * 255] = -1, v[2 * 256] = 0, v[2 * 300] = NAN, v[2 * 600] = INFINITY, v[2 * 40] = 1e9, v[2 * 41] = 10,
        v[2 * 42] = 11;
  for (int order = 0; order < 4; order++)
    for (int n = COUNT; n > 0; n = n == COUNT ? 257 : n - (n > 256 ? 1 : 255))
      for (int dtype = PN_FLOAT64; dtype <= PN_FLOAT32; dtype++) {
        T *x = pn_slice(c, pn_cast(c, pn_from_data(c, PN_FLOAT64, SHAPE(2 * COUNT), v), (pn_dtype)dtype), 0, 0, n, 2);
        T *y = pni_apply1(c, &pni_op_stirling_slope, x, ATTR(1, order));
        int64_t wrong = 0;
        for (int i = 0; i < n; i++) {
          const double got = at(y, i), want = pni_stirling_slope(order, at(x, i));
          wrong += !check_near(got, want, dtype == PN_FLOAT64 ? 2e-12 : 1e-6);
        }
        if (!check_record(wrong == 0)) printf("stirling_slope %d of %d: %d wrong\n", order, n, (int)wrong);
      }
}

/* How many edges are below v, or (right) equal it; NaN is above all. */
static int64_t place_of(const double *edges, int64_t n, double v, bool right, bool closed) {
  int64_t k = 0;
  for (int64_t i = 0; i < n; i++)
    k += isnan(edges[i]) ? (right && isnan(v)) : isnan(v) || edges[i] < v || (right && edges[i] == v);
  return right && closed && n && v == edges[n - 1] ? n - 1 : k;
}

static void places(C *c) {
  static const double edges[][6] = {{0, 1, 2, 3, 4, 5},   {-2, -1, 0, 0, 7, 30},   {1, 1, 1, 1, 1, 1},
                                    {0, 2, 4, 6, 8, 9},   {-3, 0, 3, 6, NAN, NAN}, {NAN, NAN, NAN, NAN, NAN, NAN},
                                    {-5, -3, -1, 1, 3, 5}};
  double v[40];
  for (int i = 0; i < 40; i++) v[i] = i * 0.5 - 6;
  v[37] = INFINITY, v[38] = -INFINITY, v[39] = NAN;
  for (size_t k = 0; k < sizeof edges / sizeof *edges; k++)
    for (int64_t n = 0; n <= 6; n++)
      for (int many = 1; many <= 40; many += 13)
        for (int dtype = PN_FLOAT64; dtype <= PN_INT64; dtype++)
          for (int way = 0; way < 4; way++) {
            size_t mark = pn_scope_open(c);
            T *e = pn_from_data(c, PN_FLOAT64, SHAPE(n), edges[k]), *x = pn_from_data(c, PN_FLOAT64, SHAPE(many), v);
            if (dtype == PN_INT64) x = pn_floor(c, pn_clamp(c, pn_where(c, pn_isnan(c, x), number(c, 0), x), -9, 9));
            if (dtype == PN_INT64) e = pn_where(c, pn_isnan(c, e), number(c, 8), e);
            T *y = pn_bucketize(c, pn_cast(c, x, (pn_dtype)dtype), pn_cast(c, e, (pn_dtype)dtype), way % 2, way / 2);
            double plain[6];
            for (int64_t i = 0; i < n; i++) plain[i] = at(e, i);
            int64_t wrong = y == NULL;
            for (int64_t i = 0; y && i < many; i++)
              wrong += at(y, i) != (double)place_of(plain, n, at(x, i), way % 2, way / 2);
            if (!check_record(wrong == 0))
              printf("edges %d, %d of them, way %d, dtype %d, %d: %d wrong\n", (int)k, (int)n, way, dtype, many,
                     (int)wrong);
            pn_scope_close(c, mark);
          }
}

static void columns_alone(C *unused) {
  (void)unused;
  C *c = pn_context_new(&(pn_context_config){.threads = 1, .seed = 8});
  column_sums(c);
  pn_context_close(c);
}

/* What a plan may reduce tile by tile: floats, over axes that end the shape. */
static void folds(C *c) {
  const pni_op *const ops[] = {&pni_op_sum, &pni_op_mean, &pni_op_prod, &pni_op_max, &pni_op_min, &pni_op_logsumexp};
  const int which[] = {PNI_SUM, PNI_SUM, PNI_PROD, PNI_MAX, PNI_MIN, PNI_LOGSUMEXP};
  T *x = zeros(c, SHAPE(2, 3, 5, 1)), *list[] = {x, pn_cast(c, x, PN_FLOAT32), pn_cast(c, x, PN_INT64)};
  for (int64_t mask = 0; mask < 16; mask++)
    for (int k = 0; k < 6; k++)
      for (int dtype = 0; dtype < 3; dtype++) {
        int first = 0;
        while (mask && !(mask >> first & 1)) first++;
        const pni_call call = {.op = ops[k], .in = list + dtype, .nin = 1, .attr = ATTR(2, mask, 0)};
        const bool ends = mask == 0 || mask >> first == (1 << (4 - first)) - 1;
        int64_t n = -1;
        double scale = -1;
        pni_fold f = ops[k]->fold(&call, &n, &scale);
        const pni_reducer *r = dtype ? pni_reducers_f32 : pni_reducers_f64;
        CHECK(f == (ends && dtype < 2 ? r[which[k]].rows : NULL));
        if (f) CHECK_INT(n, pni_count(4 - first, x->shape + first));
        if (f) CHECK_NEAR(scale, k == 1 ? 1 / (double)n : 0, 0);
        if (dtype < 2)
          CHECK(ops[k]->pieces(&call) == (k > 1 ? NULL : dtype ? &pni_sum_pieces_f32 : &pni_sum_pieces_f64));
      }
  const pni_call none = {.op = ops[0], .in = (T *[]){zeros(c, SHAPE(0, 3))}, .nin = 1, .attr = ATTR(2, 0, 0)};
  CHECK(ops[0]->fold(&none, &(int64_t){0}, &(double){0}) == NULL);
  /* nothing adds up to 0, whatever the memory held */
  for (int turn = 0; turn < 4; turn++) {
    size_t mark = pn_scope_open(c);
    pn_full(c, PN_FLOAT64, SHAPE(6), 7);
    pn_scope_close(c, mark);
    T *y = turn % 2 ? pn_prod(c, zeros(c, SHAPE(0, 3)), axis(0), 0) : pn_sum(c, zeros(c, SHAPE(0, 3)), axis(0), 0);
    for (int64_t k = 0; k < 3; k++) CHECK_NEAR(at(y, k), turn % 2, 0);
  }
  CHECK_NEAR(at(pn_sum(c, number(c, 3), PN_ALL, 0), 0), 3, 0);
  CHECK_NEAR(at(pn_logsumexp(c, number(c, 3), PN_ALL, 1), 0), 3, 0);
}

/* Joining has a short way where the axis leads and inputs lie in one piece each, and gives the same bytes by it. */
static void joins(C *c) {
  static const int64_t shapes[][3] = {{1, 2, 3}, {2, 2, 3}, {1, 1, 3}, {3, 1, 2}, {0, 2, 3}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (int ax = 0; ax < 3; ax++)
      for (int way = 0; way < 4; way++)
        for (int dtype = PN_FLOAT64; dtype <= PN_BOOL; dtype++) {
          size_t mark = pn_scope_open(c);
          int64_t wider[3] = {shapes[s][0], shapes[s][1], shapes[s][2]};
          wider[ax] += 2;
          T *in[2];
          for (int k = 0; k < 2; k++) {
            const int64_t *shape = k ? wider : shapes[s];
            const int64_t n = pni_count(3, shape);
            T *t = pn_reshape(c, pn_arange(c, PN_FLOAT64, k, (double)(n + k), 1), 3, shape);
            in[k] = pn_cast(c, t, (pn_dtype)dtype);
            if (way >> k & 1) in[k] = pn_flip(c, in[k], 2);
          }
          T *want = pn_concatenate(c, 2, in, ax), *got = pn_full(c, (pn_dtype)dtype, 3, want->shape, 1);
          pni_prepared p;
          const pni_call call = {.op = &pni_op_concatenate, .in = in, .nin = 2, .attr = ATTR(1, ax)};
          const bool fits = pni_count(ax, want->shape) == 1 && pni_is_contiguous(in[0]) && pni_is_contiguous(in[1]);
          const bool ready = pni_op_concatenate.prepare(&call, got, &p);
          CHECK(ready == fits);
          if (ready) CHECK_STATUS(c, pni_op_concatenate.run(c, &p), PN_OK);
          int wrong = 0;
          for (int64_t i = 0; ready && i < want->numel; i++) wrong += at(got, i) != at(want, i);
          CHECK_INT(wrong, 0);
          pn_scope_close(c, mark);
        }
}

/* Elements beyond those that are looked up at once, by one thread. */
static void many_places(C *unused) {
  (void)unused;
  C *c = pn_context_new(&(pn_context_config){.threads = 1});
  const int64_t n = 2 * 65536 + 4321;
  T *x = pn_arange(c, PN_FLOAT64, 0, (double)n, 1),
    *e = pn_from_data(c, PN_FLOAT64, SHAPE(3), (double[]){99, 70000, 131080});
  T *y = pn_bucketize(c, x, e, 1, 0);
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; i++) wrong += at(y, i) != (i >= 99) + (i >= 70000) + (i >= 131080);
  CHECK_INT(wrong, 0);
  T *w = pn_param(c, e), *b = pn_buffer(c, e);
  CHECK(w->storage->version == 1 && b->storage->version == 1);
  CHECK_STATUS(c, pn_param_set(c, b, pn_neg(c, e)), PN_OK);
  CHECK(b->storage->version == 2 && at(b, 2) == -131080);
  pn_context_close(c);
}

/* More taken off the count of a variance than there are numbers: no number, not a negative one. */
static void variances(C *c) {
  T *x = pn_from_data(c, PN_FLOAT64, SHAPE(2, 2), (double[]){1, 3, 2, 8});
  CHECK_NEAR(at(pn_var(c, x, axis(1), 3, 0), 1), INFINITY, 0);
  CHECK_NEAR(at(pn_var(c, x, axis(1), 2, 0), 0), INFINITY, 0);
  CHECK_NEAR(at(pn_var(c, x, axis(1), 0.5, 1), 1), 12, 1e-15);
  CHECK_NEAR(at(pn_std(c, x, axis(1), 1, 0), 0), sqrt(2), 1e-15);
  CHECK_INT(pn_tensor_numel(pn_var(c, zeros(c, SHAPE(0, 3)), axis(1), 1, 0)), 0);
  T *w = pn_param(c, zeros(c, SHAPE(0, 3))), *g = NULL, *y = pn_sum(c, pn_mean(c, w, axis(1), 0), PN_ALL, 0);
  CHECK_STATUS(c, pn_grad(c, y, 1, &w, 0, &g), PN_OK);
}

/* ---- rows without a name ---- */

/* The operation of that name that f's gradient in x calls. */
static const pni_op *hidden(C *c, const char *name, T *(*f)(C *, T *), T *x) {
  const pni_op *op = NULL;
  T *in = NULL, *g = NULL;
  CHECK_STATUS(c, pn_capture_begin(c, 1, &x, &in), PN_OK);
  CHECK_STATUS(c, pn_tensor_set_requires_grad(c, in, 1), PN_OK);
  CHECK_STATUS(c, pn_grad(c, pn_sum(c, pn_square(c, f(c, in)), PN_ALL, 0), 1, &in, 0, &g), PN_OK);
  const pni_tape *tape = (const pni_tape *)c->recorder;
  for (int64_t i = 0; i < tape->note.n; i++)
    if (tape->note.v[i].op && strcmp(tape->note.v[i].op->name, name) == 0) op = tape->note.v[i].op;
  pn_capture_cancel(c);
  CHECK(op != NULL);
  return op;
}
static T *f_softmax(C *c, T *x) { return pn_softmax(c, x, 1); }
static T *f_logsumexp(C *c, T *x) { return pn_logsumexp(c, x, axis(1), 0); }
static T *f_cholesky(C *c, T *x) { return pn_cholesky(c, x); }

static void slopes(C *c) {
  T *square = pn_eye(c, PN_FLOAT64, 3, 3), *rows = zeros(c, SHAPE(2, 64)), *long_rows = zeros(c, SHAPE(2, 65));
  const pni_op *op = hidden(c, "softmax_slope", f_softmax, square);
  CHECK(pni_apply(c, op, IN(rows, rows), ATTR(1, 1)) != NULL);
  TELLS(pni_apply(c, op, IN(long_rows, long_rows), ATTR(1, 1)), PN_SHAPE,
        "softmax_slope: rows must be of at most 64 numbers, got 65");
  TELLS(pni_apply(c, op, IN(rows, zeros(c, SHAPE(64, 2))), ATTR(1, 1)), PN_SHAPE,
        "softmax_slope: input 2 must be float64 [2, 64], got float64 [64, 2]");
  op = hidden(c, "logsumexp_slope", f_logsumexp, square);
  T *two = zeros(c, SHAPE(2)), *six = zeros(c, SHAPE(6)), *none = zeros(c, SHAPE(0));
  CHECK(pni_apply(c, op, IN(rows, two, two), ATTR(1, 1)) != NULL);
  CHECK(pni_apply(c, op, IN(zeros(c, SHAPE(6, 2)), six, six), ATTR(1, 2)) != NULL);
  CHECK(pni_apply(c, op, IN(six, six, six), ATTR(1, 6)) != NULL);
  CHECK(pni_apply(c, op, IN(zeros(c, SHAPE(0, 3)), none, none), ATTR(1, 1)) != NULL);
  TELLS(pni_apply(c, op, IN(rows, two, zeros(c, SHAPE(1))), ATTR(1, 1)), PN_SHAPE,
        "logsumexp_slope: input 3 must be float64 [2], got float64 [1]");
  static const struct {
    int64_t x[2], y, inner;
  } wrong[] = {{{2, 65}, 2, 1}, {{7, 2}, 6, 1}, {{2, 6}, 6, 4}, {{2, 6}, 6, 0},
               {{2, 6}, 6, -1}, {{3, 1}, 6, 1}, {{2, 3}, 0, 1}};
  for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
    char text[120];
    T *y = zeros(c, SHAPE(wrong[k].y));
    snprintf(text, sizeof text, "logsumexp_slope: x must have rows of a number each, got [%d, %d] for [%d]",
             (int)wrong[k].x[0], (int)wrong[k].x[1], (int)wrong[k].y);
    TELLS(pni_apply(c, op, IN(zeros(c, SHAPE(wrong[k].x[0], wrong[k].x[1])), y, y), ATTR(1, wrong[k].inner)), PN_SHAPE,
          text);
  }
  op = hidden(c, "cholesky_slope", f_cholesky, square);
  T *most = pn_eye(c, PN_FLOAT64, 32, 32), *more = pn_eye(c, PN_FLOAT64, 33, 33), *few = zeros(c, SHAPE(0, 40, 40));
  CHECK(pni_apply(c, op, IN(most, most), NULL) != NULL && pni_apply(c, op, IN(few, few), NULL) != NULL);
  TELLS(pni_apply(c, op, IN(more, more), NULL), PN_SHAPE, "cholesky_slope: matrices must be of at most 32 rows");
  TELLS(pni_apply(c, op, IN(most, square), NULL), PN_SHAPE,
        "cholesky_slope: input 2 must be float64 [32, 32], got float64 [3, 3]");
}

int main(void) {
  C *c = pn_context_new(&(pn_context_config){.threads = 2, .seed = 3});
  void (*const part[])(C *) = {index_texts,   shape_texts,     image_texts,      other_texts, slices,   reshaped,
                               lone_axes,     long_rows,       pieces,           column_sums, in_place, added_gradients,
                               joined_slices, withdrawn,       crossing_slices,  summed_to,   causes,   ordered_updates,
                               spent,         narrow_draws,    outward_inverses, flat_tails,  slopes,   eight_axes,
                               few_gradients, stirling_blocks, places,           variances,   folds,    joins,
                               many_places,   columns_alone,   sources};
  size_t start = pn_scope_open(c);
  pn_sum(c, pn_rand(c, NULL, PN_FLOAT64, SHAPE(1 << 18)), PN_ALL, 0); /* threads are there */
  pn_scope_close(c, start);
  for (size_t k = 0; k < sizeof part / sizeof *part; k++) {
    size_t mark = pn_scope_open(c), before = pn_context_memory(c, NULL), room = c->scope_cap;
    part[k](c);
    pn_scope_close(c, mark);
    if (pn_context_objects(c)) printf("part %d\n", (int)k);
    CHECK_INT(pn_context_objects(c), 0);
    CHECK(room != c->scope_cap || pn_context_memory(c, NULL) == before);
    CHECK_INT(pn_context_status(c), PN_OK);
    pn_context_clear_error(c);
  }
  pn_context_close(c);
  CHECK_DONE();
}
