/*
** tensor_edge_test.c: what values alone do not show. Creation, reading, refusals with their messages, sizes that
** overflow, accuracy of long sums, gradients at edges, and results that do not depend on the number of threads.
*/
#include <stdlib.h>
#include "../../src/autodiff/op/op.h"
#include "../../src/math/special.h"
#include "../../src/tensor/kernel/map.h"
#include "check.h"

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

static double item(pn_context *c, pn_tensor *t) {
  double v = NAN;
  return pn_tensor_item(c, t, &v) == PN_OK ? v : NAN;
}
static double at(const pn_tensor *t, int64_t k) { return t ? pni_element(t, k) : NAN; }
static pn_tensor *sum_all(pn_context *c, pn_tensor *t) { return pn_sum(c, t, PN_ALL, 0); }
static pn_axes axis(int a) { return (pn_axes){1, {a}}; }

static void creation(pn_context *c) {
  pn_tensor *t = pn_arange(c, PN_INT64, 3, -4, -2); /* 3 1 -1 -3 */
  CHECK_INT(pn_tensor_numel(t), 4);
  CHECK_NEAR(at(t, 3), -3, 0);
  CHECK_INT(pn_tensor_numel(pn_arange(c, PN_FLOAT64, 0, 1, 0.1)), 10);
  CHECK_INT(pn_tensor_numel(pn_arange(c, PN_FLOAT64, 1, 0, 1)), 0);
  CHECK(pn_arange(c, PN_FLOAT64, 0, 1, 0) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "step");
  CHECK(pn_arange(c, PN_FLOAT64, 0, INFINITY, 1) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "step");
  CHECK(pn_arange(c, PN_FLOAT64, 0, NAN, 1) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "step");
  t = pn_linspace(c, PN_FLOAT32, 0, 0.3, 4);
  CHECK_NEAR(at(t, 3), (double)0.3f, 0); /* the end exactly */
  CHECK_NEAR(at(pn_linspace(c, PN_FLOAT64, 2, 9, 1), 0), 2, 0);
  CHECK_INT(pn_tensor_numel(pn_linspace(c, PN_FLOAT64, 2, 9, 0)), 0);
  CHECK(pn_linspace(c, PN_INT64, 0, 1, 3) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "int64");
  t = pn_eye(c, PN_BOOL, 2, 3);
  CHECK(at(t, 0) == 1 && at(t, 1) == 0 && at(t, 4) == 1 && at(t, 5) == 0);
  CHECK_NEAR(item(c, pn_full(c, PN_INT64, 0, NULL, -7)), -7, 0);
  CHECK(pn_full(c, PN_INT64, 0, NULL, 1e19) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "int64, got 1e+19");
  CHECK(pn_full(c, PN_INT64, 0, NULL, NAN) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "int64");
  CHECK_NEAR(item(c, pn_scalar(c, PN_BOOL, NAN)), 1, 0);
  t = pn_from_data(c, PN_BOOL, SHAPE(3), (const uint8_t[]){7, 0, 255}); /* any non-zero byte is true */
  CHECK_NEAR(item(c, pn_all(c, pn_eq(c, t, pn_from_data(c, PN_BOOL, SHAPE(3), (const uint8_t[]){1, 0, 1})), PN_ALL, 0)),
             1, 0);
  CHECK_INT(pn_tensor_numel(pn_zeros(c, PN_FLOAT64, SHAPE(2, 0, 5))), 0);
  CHECK_INT(pn_tensor_ndim(pn_zeros(c, PN_FLOAT64, SHAPE(1, 1, 1, 1, 1, 1, 1, 2))), 8);
}

static void refused_shapes(pn_context *c) {
  int64_t big = (int64_t)1 << 40, ten[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  CHECK(pn_zeros(c, PN_FLOAT64, SHAPE(2, -1)) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "-1");
  CHECK(pn_zeros(c, PN_FLOAT64, 9, ten) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "0 to 8, got 9");
  CHECK(pn_zeros(c, PN_FLOAT64, -1, ten) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "-1");
  CHECK(pn_zeros(c, PN_FLOAT64, SHAPE(big, big)) == NULL);
  CHECK_FAIL(c, PN_NOMEM, "too large");
  CHECK(pn_zeros(c, (pn_dtype)7, 0, NULL) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "7");
  pn_tensor *x = pn_arange(c, PN_FLOAT64, 0, 6, 1), *one = pn_scalar(c, PN_FLOAT64, 1);
  CHECK(pn_broadcast_to(c, one, SHAPE(big, big)) == NULL); /* a view needs no memory, but its size must count */
  CHECK_FAIL(c, PN_NOMEM, "too large");
  CHECK(pn_broadcast_to(c, one, SHAPE(2, -1)) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "broadcast_to");
  CHECK(pn_broadcast_to(c, x, SHAPE(3)) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "[6] must broadcast");
  CHECK(pn_reshape(c, x, SHAPE(4)) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "6 elements of [6], got [4]");
  CHECK(pn_reshape(c, x, SHAPE(-1, -1)) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "reshape");
  CHECK(pn_reshape(c, x, SHAPE(-1, 0)) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "reshape");
  CHECK(pn_reshape(c, x, SHAPE(-2, -3)) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "reshape");
  /* 2 * 3 * 3074457345618258603 * 2 ... wraps to small numbers modulo 2^64 */
  CHECK(pn_reshape(c, pn_zeros(c, PN_FLOAT64, SHAPE(0)), SHAPE((int64_t)1 << 32, (int64_t)1 << 32)) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "reshape");
  CHECK(pn_reshape(c, one, SHAPE(0x5555555555555555, 3, -1)) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "reshape");
  CHECK(pn_slice(c, x, 0, 0, 5, (int64_t)1 << 62) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "slice");
  CHECK(pn_slice(c, x, 0, 0, 7, 1) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "slice");
  CHECK(pn_slice(c, x, 0, 5, 2, 1) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "slice");
  CHECK(pn_slice(c, x, 0, 0, 2, 0) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "slice");
  CHECK(pn_slice(c, x, 0, -1, 1, 1) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "slice");
  CHECK(pn_permute(c, x, 2, (int[]){0, 0}) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "permute");
  CHECK(pn_permute(c, pn_reshape(c, x, SHAPE(2, 3)), 2, (int[]){0, 0}) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "once");
  CHECK(pn_squeeze(c, x, 0) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "size 1, got 6");
  CHECK(pn_unsqueeze(c, x, 2) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "unsqueeze");
  CHECK(pn_unsqueeze(c, pn_zeros(c, PN_FLOAT64, 8, ten), 0) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "got 9");
  CHECK(pn_pad(c, x, 0, -1, 0, 0) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "-1");
  CHECK(pn_pad(c, x, 0, INT64_MAX, INT64_MAX, 0) == NULL);
  CHECK(pn_context_status(c) != PN_OK);
  pn_context_clear_error(c);
  CHECK(pn_sum(c, x, axis(1), 0) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "sum: axis");
  CHECK(pn_sum(c, x, axis(-2), 0) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "number -2");
}

static void refused_operands(pn_context *c) {
  pn_tensor *x = pn_arange(c, PN_FLOAT64, 0, 6, 1), *f = pn_cast(c, x, PN_FLOAT32), *i = pn_cast(c, x, PN_INT64);
  pn_tensor *m = pn_reshape(c, x, SHAPE(2, 3)), *eight = pn_zeros(c, PN_FLOAT64, SHAPE(1, 1, 1, 1, 1, 1, 1, 1));
  CHECK(pn_add(c, x, f) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "float64 and float32");
  CHECK(pn_exp(c, i) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "got int64");
  CHECK(pn_neg(c, pn_gt(c, x, x)) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "got bool");
  CHECK(pn_lt(c, x, i) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "float64 and int64");
  CHECK(pn_where(c, x, x, x) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "bool, got float64");
  CHECK(pn_where(c, pn_gt(c, x, x), x, i) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "float64 and int64");
  CHECK(pn_matmul(c, m, m) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "[2, 3] and [2, 3]");
  CHECK(pn_matmul(c, m, pn_scalar(c, PN_FLOAT64, 1)) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "matmul");
  CHECK(pn_matmul(c, pn_reshape(c, i, SHAPE(2, 3)), pn_reshape(c, i, SHAPE(3, 2))) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "int64");
  CHECK(pn_max(c, pn_zeros(c, PN_FLOAT64, SHAPE(2, 0)), axis(1), 0) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "empty");
  CHECK(pn_argmax(c, pn_zeros(c, PN_FLOAT64, SHAPE(2, 0)), 1, 0) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "empty");
  CHECK(pn_softmax(c, pn_scalar(c, PN_FLOAT64, 1), 0) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "softmax");
  CHECK(pn_take(c, x, 0, pn_gt(c, x, x)) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "int64, got bool");
  CHECK(pn_take(c, x, 0, pn_scalar(c, PN_FLOAT64, 1.5)) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "whole numbers, got 1.5");
  CHECK(pn_take(c, x, 0, pn_scalar(c, PN_INT64, 6)) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "0 to 5, got 6");
  CHECK(pn_take(c, x, 0, pn_scalar(c, PN_INT64, -7)) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "got -7");
  CHECK(pn_gather(c, m, 0, pn_zeros(c, PN_INT64, SHAPE(2, 4))) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "gather");
  CHECK(pn_take_add(c, eight, 0, pn_scalar(c, PN_INT64, 0), 1) == NULL); /* the result would have nine axes */
  CHECK_FAIL(c, PN_SHAPE, "take_add");
  CHECK(pn_take(c, eight, 0, pn_zeros(c, PN_INT64, SHAPE(1, 1))) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "9 axes");
  CHECK(pn_diag_embed(c, eight) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "diag_embed");
  CHECK(pn_concatenate(c, 0, NULL, 0) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "at least one");
  CHECK(pn_concatenate(c, 2, (pn_tensor *[]){x, m}, 0) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "[6] and [2, 3]");
  CHECK(pn_stack(c, 2, (pn_tensor *[]){x, NULL}, 0) == NULL);
  CHECK_FAIL(c, PN_STATE, "NULL");
  CHECK(pn_cast(c, x, (pn_dtype)9) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "9");
  CHECK(pn_polygamma(c, -1, x) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "-1");
  CHECK(pn_topk(c, x, 7, 0, 1) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "0 to 6, got 7");
  CHECK(pn_masked_select(c, m, pn_gt(c, x, x)) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "mask");
  double v, out[6];
  CHECK_STATUS(c, pn_tensor_item(c, x, &v), PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "[6]");
  CHECK_STATUS(c, pn_tensor_copy_out(c, x, out, 5), PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "6, got 5");
  CHECK_STATUS(c, pn_tensor_item(c, NULL, &v), PN_STATE);
  pn_context_clear_error(c);
  CHECK_STATUS(c, pn_tensor_copy_out(c, pn_flip(c, i, 0), out, 6), PN_OK);
  CHECK(out[0] == 5 && out[5] == 0);
}

static void reading(pn_context *c) {
  pn_tensor *m = pn_reshape(c, pn_arange(c, PN_FLOAT64, 0, 6, 1), SHAPE(2, 3)), *t = pn_transpose(c, m, 0, 1);
  CHECK(pn_tensor_data(m) != NULL && pn_tensor_data(t) == NULL);
  CHECK(t->storage == m->storage); /* a view */
  CHECK(pn_tensor_data(pn_contiguous(c, t)) != NULL);
  CHECK(pn_contiguous(c, m) == m);
  CHECK(pn_cast(c, m, PN_FLOAT64) == m);
  CHECK_NEAR(at(pn_reshape(c, t, SHAPE(6)), 1), 3, 0); /* row-major order of the view */
  CHECK(pn_reshape(c, t, SHAPE(3, 1, 2))->storage == m->storage);
  CHECK_STR(pn_dtype_name(PN_BOOL), "bool");
  CHECK_STR(pn_dtype_name((pn_dtype)9), "?");
  CHECK_INT(pn_dtype_size(PN_FLOAT32), 4);
}

/* ---- accuracy of long sums ---- */

static void long_sums(pn_context *c) {
  enum { MANY = 1000003 };
  pn_tensor *t = pn_full(c, PN_FLOAT32, SHAPE(MANY), (double)0.1f);
  double want = MANY * (double)0.1f;
  CHECK_NEAR(item(c, sum_all(c, t)), want, 1e-6);
  CHECK_NEAR(item(c, pn_mean(c, t, PN_ALL, 0)), (double)0.1f, 1e-6);
  CHECK_NEAR(at(pn_cumsum(c, t, 0), MANY - 1), want, 1e-7);
  CHECK_NEAR(item(c, pn_logsumexp(c, t, PN_ALL, 0)), log(MANY) + (double)0.1f, 2e-7);
  CHECK_NEAR(item(c, sum_all(c, pn_cast(c, pn_softmax(c, t, 0), PN_FLOAT64))), 1, 2e-7);
  /* down the columns, along the rows of a transposed view, over both ends */
  t = pn_full(c, PN_FLOAT32, SHAPE(MANY, 3), (double)0.1f);
  for (int k = 0; k < 3; k++) {
    CHECK_NEAR(at(pn_sum(c, t, axis(0), 0), k), want, 1e-6);
    CHECK_NEAR(at(pn_sum(c, pn_transpose(c, t, 0, 1), axis(1), 0), k), want, 1e-6);
  }
  t = pn_full(c, PN_FLOAT32, SHAPE(1000, 3, 1000), (double)0.1f);
  CHECK_NEAR(at(pn_sum(c, t, (pn_axes){2, {0, 2}}, 0), 1), 1e6 * (double)0.1f, 1e-6);
  t = pn_full(c, PN_FLOAT64, SHAPE(MANY), 0.1);
  CHECK_NEAR(item(c, sum_all(c, t)), MANY * 0.1, 2e-15);
  CHECK_NEAR(at(pn_sum(c, pn_reshape(c, t, SHAPE(MANY, 1)), axis(0), 0), 0), MANY * 0.1, 2e-15);
  CHECK_NEAR(item(c, sum_all(c, pn_full(c, PN_BOOL, SHAPE(MANY), 1))), MANY, 0);
  /* the variance of numbers far from zero */
  t = pn_add(c, pn_remainder(c, pn_arange(c, PN_FLOAT64, 0, 1e6, 1), pn_scalar(c, PN_FLOAT64, 2)),
             pn_scalar(c, PN_FLOAT64, 1e9));
  CHECK_NEAR(item(c, pn_var(c, t, PN_ALL, 0, 0)), 0.25, 1e-9);
}

/* Columns of every length and width: whole numbers, so the sum is exact in any order. */
static void columns(pn_context *c, pn_dtype dtype) {
  static const int64_t widths[] = {1, 2, 3, 7, 30, 33, 64, 65, 200, 300};
  int wrong = 0;
  for (size_t k = 0; k < sizeof widths / sizeof *widths; k++)
    for (int64_t n = 1, m = widths[k]; n < 1200; n += 1 + n / 9) {
      size_t mark = pn_scope_open(c);
      pn_tensor *x = pn_cast(c, pn_randint(c, NULL, -50, 50, SHAPE(n, m)), dtype);
      pn_tensor *sum = pn_sum(c, x, axis(0), 0), *top = pn_max(c, x, axis(0), 0);
      for (int64_t j = 0; j < m; j++) {
        double s = 0, t = -INFINITY;
        for (int64_t i = 0; i < n; i++) {
          double v = at(x, i * m + j);
          s += v;
          t = fmax(t, v);
        }
        wrong += at(sum, j) != s || at(top, j) != t;
      }
      pn_scope_close(c, mark);
    }
  CHECK_INT(wrong, 0);
}

static void all_columns(pn_context *c) {
  columns(c, PN_FLOAT64);
  columns(c, PN_FLOAT32);
  columns(c, PN_INT64);
}

/* ---- gradients at edges ---- */

static double slope(pn_context *c, pn_tensor *y, pn_tensor *x) {
  pn_tensor *g = NULL;
  if (pn_grad(c, sum_all(c, y), 1, &x, 0, &g)) {
    printf("%s\n", pn_context_message(c));
    pn_context_clear_error(c);
    return NAN;
  }
  return at(g, 0);
}
static pn_tensor *param(pn_context *c, double v) { return pn_param(c, pn_scalar(c, PN_FLOAT64, v)); }
static pn_tensor *number(pn_context *c, double v) { return pn_scalar(c, PN_FLOAT64, v); }

static void edge_gradients(pn_context *c) {
  pn_tensor *x = param(c, 0);
  CHECK_NEAR(slope(c, pn_pow(c, x, number(c, 0)), x), 0, 0);
  CHECK_NEAR(slope(c, pn_pow(c, x, number(c, 1)), x), 1, 0);
  CHECK_NEAR(slope(c, pn_pow(c, x, number(c, 2)), x), 0, 0);
  CHECK_NEAR(slope(c, pn_pow(c, x, number(c, 0.5)), x), INFINITY, 0);
  CHECK_NEAR(slope(c, pn_pow(c, number(c, 0), param(c, 2)), x = param(c, 2)), 0, 0); /* not below y */
  x = param(c, 2);
  CHECK_NEAR(slope(c, pn_pow(c, number(c, 0), x), x), 0, 0);
  x = param(c, -2);
  CHECK_NEAR(slope(c, pn_pow(c, x, number(c, 3)), x), 12, 1e-15);
  CHECK_NEAR(slope(c, pn_clamp(c, x, 0, 0), x), 0, 0);
  CHECK_NEAR(slope(c, pn_clamp(c, x, -2, 0), x), 1, 0);
  CHECK_NEAR(slope(c, pn_clamp(c, x, -INFINITY, INFINITY), x), 1, 0);
  CHECK_NEAR(slope(c, pn_clamp(c, x, -1, 5), x), 0, 0);
  x = param(c, 0);
  CHECK_NEAR(slope(c, pn_abs(c, x), x), 0, 0);
  CHECK_NEAR(slope(c, pn_relu(c, x), x), 0, 0);
  CHECK_NEAR(slope(c, pn_maximum(c, x, number(c, 0)), x), 0.5, 0);
  CHECK_NEAR(slope(c, pn_clamp(c, x, 0, 0), x), 1, 0);
  CHECK_NEAR(slope(c, pn_xlogy(c, x, number(c, 2)), x), log(2), 1e-15);
  x = param(c, 7.5);
  CHECK_NEAR(slope(c, pn_remainder(c, number(c, 7.5), x), x), -1, 0);
  x = param(c, 2);
  CHECK_NEAR(slope(c, pn_remainder(c, number(c, -7.5), x), x), 4, 0);
  x = param(c, -800);
  CHECK_NEAR(slope(c, pn_log_sigmoid(c, x), x), 1, 0);
  CHECK_NEAR(slope(c, pn_softplus(c, x), x), 0, 1e-300);
  CHECK_NEAR(slope(c, pn_log_ndtr(c, x), x), 800.0012499960938, 1e-14); /* -x + 1/-x - 2/(-x)^3 */
  x = param(c, -1e9);
  CHECK_NEAR(slope(c, pn_log_ndtr(c, x), x), 1e9, 1e-15);
  x = param(c, 60);
  CHECK_NEAR(slope(c, pn_log_ndtr(c, x), x), 0, 1e-300);
  x = pn_param(c, pn_full(c, PN_FLOAT64, SHAPE(3), -INFINITY));
  CHECK_NEAR(slope(c, pn_logsumexp(c, x, PN_ALL, 0), x), 0, 0);
  /* products with no, one and two zeros */
  static const double v[3][3] = {{2, 3, 4}, {0, 3, 4}, {0, 0, 4}}, want[3] = {12, 12, 0};
  for (int k = 0; k < 3; k++) {
    x = pn_param(c, pn_from_data(c, PN_FLOAT64, SHAPE(3), v[k]));
    CHECK_NEAR(slope(c, pn_prod(c, x, PN_ALL, 0), x), want[k], 1e-15);
  }
  x = pn_param(c, pn_from_data(c, PN_FLOAT64, SHAPE(4), (const double[]){5, 1, 5, 2}));
  CHECK_NEAR(slope(c, pn_max(c, x, PN_ALL, 0), x), 0.5, 0); /* ties share */
  /* through tensors without elements */
  pn_tensor *b = pn_param(c, pn_full(c, PN_FLOAT64, SHAPE(1, 3), 2)), *none = pn_zeros(c, PN_FLOAT64, SHAPE(0, 3));
  CHECK_NEAR(slope(c, pn_mul(c, none, b), b), 0, 0);
  CHECK_NEAR(slope(c, pn_matmul(c, b, pn_zeros(c, PN_FLOAT64, SHAPE(3, 0))), b), 0, 0);
  CHECK_NEAR(slope(c, pn_slice(c, b, 1, 0, 0, 1), b), 0, 0);
  CHECK_INT(pn_context_status(c), PN_OK);
}

/* ---- threads ---- */

typedef pn_tensor *(*build)(pn_context *c, pn_tensor *x);
static pn_tensor *b_exp(pn_context *c, pn_tensor *x) { return pn_exp(c, x); }
static pn_tensor *b_add(pn_context *c, pn_tensor *x) { return pn_add(c, x, pn_select(c, x, 0, 1)); }
static pn_tensor *b_strided(pn_context *c, pn_tensor *x) { return pn_tanh(c, pn_transpose(c, x, 0, 2)); }
static pn_tensor *b_sum(pn_context *c, pn_tensor *x) { return sum_all(c, x); }
static pn_tensor *b_sum0(pn_context *c, pn_tensor *x) { return pn_sum(c, x, axis(0), 0); }
static pn_tensor *b_sum1(pn_context *c, pn_tensor *x) { return pn_sum(c, x, axis(1), 0); }
static pn_tensor *b_sum2(pn_context *c, pn_tensor *x) { return pn_sum(c, x, axis(2), 0); }
static pn_tensor *b_lse(pn_context *c, pn_tensor *x) { return pn_logsumexp(c, x, axis(1), 1); }
static pn_tensor *b_softmax(pn_context *c, pn_tensor *x) { return pn_softmax(c, x, 1); }
static pn_tensor *b_cumsum(pn_context *c, pn_tensor *x) { return pn_cumsum(c, x, 0); }
static pn_tensor *b_matmul(pn_context *c, pn_tensor *x) { return pn_matmul(c, x, pn_transpose(c, x, -1, -2)); }
static pn_tensor *b_tall(pn_context *c, pn_tensor *x) {
  pn_tensor *m = pn_reshape(c, x, SHAPE(-1, 120));
  return pn_matmul(c, m, pn_transpose(c, pn_slice(c, m, 0, 0, 90, 1), 0, 1));
}
static pn_tensor *b_sort(pn_context *c, pn_tensor *x) { return pn_sort(c, x, 2, 0); }
static pn_tensor *b_grad(pn_context *c, pn_tensor *x) {
  pn_tensor *w = pn_param(c, x), *g = NULL, *y = pn_mean(c, pn_square(c, pn_softmax(c, w, 2)), PN_ALL, 0);
  return pn_grad(c, y, 1, &w, 0, &g) ? NULL : g;
}

static void any_threads(void) {
  static const build list[] = {b_exp, b_add,     b_strided, b_sum,    b_sum0, b_sum1, b_sum2,
                               b_lse, b_softmax, b_cumsum,  b_matmul, b_tall, b_sort, b_grad};
  static const int threads[] = {2, 3, 7};
  for (int dtype = PN_FLOAT64; dtype <= PN_FLOAT32; dtype++)
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
      pn_context *one = pn_context_new(&(pn_context_config){.threads = 1, .seed = 4});
      pn_tensor *want = pn_contiguous(one, list[k](one, pn_randn(one, NULL, (pn_dtype)dtype, SHAPE(30, 70, 120))));
      for (int t = 0; t < 3; t++) {
        pn_context *c = pn_context_new(&(pn_context_config){.threads = threads[t], .seed = 4});
        pn_tensor *got = pn_contiguous(c, list[k](c, pn_randn(c, NULL, (pn_dtype)dtype, SHAPE(30, 70, 120))));
        bool same = want && got && want->numel == got->numel &&
                    memcmp(pni_data(want), pni_data(got), (size_t)got->numel * pni_itemsize(got)) == 0;
        if (!check_record(same)) printf("builder %zu, %d threads: results differ\n", k, threads[t]);
        pn_context_close(c);
      }
      pn_context_close(one);
    }
}

/* Comparisons and choices work in blocks: operands in one run, repeated, strided and backwards, of every length around
 * a block, with NaN among them. */
static pn_tensor *strided(pn_context *c, pn_dtype dtype, int64_t n, int kind) {
  pn_tensor *x = pn_floor(c, pn_mul(c, pn_randn(c, NULL, dtype, SHAPE(2 * n)), pn_scalar(c, dtype, 2)));
  x = pn_where(c, pn_eq(c, x, pn_scalar(c, dtype, 1)), pn_scalar(c, dtype, NAN), x);
  if (kind == 0) return pn_slice(c, x, 0, 0, n, 1);
  if (kind == 1) return pn_broadcast_to(c, pn_slice(c, x, 0, 0, 1, 1), SHAPE(n));
  return kind == 2 ? pn_slice(c, x, 0, 0, n, 2) : pn_flip(c, pn_slice(c, x, 0, 0, n, 1), 0);
}

static void choices(pn_context *c) {
  static const int64_t sizes[] = {1, 127, 128, 129, 255, 256, 257, 700};
  for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++)
    for (int kinds = 0; kinds < 64; kinds++) {
      size_t mark = pn_scope_open(c);
      int64_t n = sizes[i / 2], wrong = 0;
      pn_dtype dtype = i % 2 ? PN_FLOAT32 : PN_FLOAT64;
      pn_tensor *x = strided(c, dtype, n, kinds % 4), *y = strided(c, dtype, n, kinds / 4 % 4);
      pn_tensor *k = pn_lt(c, strided(c, dtype, n, kinds / 16), pn_scalar(c, dtype, 0)), *chosen = pn_where(c, k, x, y);
      pn_tensor *gt = pn_gt(c, x, y), *le = pn_le(c, x, y), *ne = pn_ne(c, x, y), *nan = pn_isnan(c, x);
      for (int64_t j = 0; j < n; j++) {
        double a = at(x, j), b = at(y, j), want = at(k, j) != 0 ? a : b, got = at(chosen, j);
        wrong += !(got == want || (isnan(got) && isnan(want))) || at(gt, j) != (a > b) || at(le, j) != (a <= b) ||
                 at(ne, j) != (a != b) || at(nan, j) != (isnan(a) != 0);
      }
      if (!check_record(wrong == 0)) printf("choices of %d, kinds %d: %d wrong\n", (int)n, kinds, (int)wrong);
      pn_scope_close(c, mark);
    }
}

/* ---- kernels against plain loops: operands in one run, repeated, strided, backwards, around a block's length ---- */

static double of_tan(double x, double y) { return (void)y, tan(x); }
static double of_xlogy(double x, double y) { return x == 0 && y == y ? 0 : x * log(y); }
static double of_pow(double x, double y) { return y == 0.5 ? sqrt(x) : pow(x, y); }
static double of_remainder(double x, double y) { return x - y * floor(x / y); }
static double of_polygamma(double x, double y) { return (void)y, pni_polygamma(2, x); }
static double of_and(double x, double y) { return x != 0 && y != 0; }
static double of_or(double x, double y) { return x != 0 || y != 0; }
static double of_infinite(double x, double y) { return (void)y, isinf(x) != 0; }
static double of_finite(double x, double y) { return (void)y, isfinite(x) != 0; }
static double of_not(double x, double y) { return (void)y, x == 0; }
static double of_clamp(double x, double y) { return (void)y, x < -0.5 ? -0.5 : x > 1.25 ? 1.25 : x; }
static double of_clamp_slope(double g, double x) { return x >= -0.5 && x <= 1.25 ? g : x != x ? x : 0; }
static double of_leaky(double x, double y) { return (void)y, x > 0 ? x : -0.5 * x; }
static double of_leaky_slope(double g, double y) { return y > 0 ? g : y != y ? y : -0.5 * g; }

#define ROW(name, want, truth)                                                                                         \
  { #name, {pni_##name##_f64, pni_##name##_f32 }, want, truth }
static const struct {
  const char *name;
  pni_map_kernel kernel[2];
  double (*want)(double x, double y);
  bool truth; /* the result's type is bool */
} kernels[] = {
    ROW(tan, of_tan, false),
    ROW(xlogy, of_xlogy, false),
    ROW(pow, of_pow, false),
    ROW(remainder, of_remainder, false),
    ROW(polygamma, of_polygamma, false),
    ROW(logical_and, of_and, true),
    ROW(logical_or, of_or, true),
    ROW(isinf, of_infinite, true),
    ROW(isfinite, of_finite, true),
    ROW(logical_not, of_not, true),
    ROW(clamp, of_clamp, false),
    ROW(clamp_slope, of_clamp_slope, false),
    ROW(leaky_relu, of_leaky, false),
    ROW(leaky_relu_slope, of_leaky_slope, false),
};

static void kernel_rows(void) {
  enum { LONGEST = 700, ROOM = 2 * LONGEST };
  static const double values[] = {0.25, 1, 2, 3, 0.5, -1, -2, 0, -0.5, 1.25, -0.75, 7.5, NAN, INFINITY, -INFINITY};
  static const int64_t sizes[] = {0, 1, 255, 256, 257, 513, LONGEST}, steps[] = {1, 0, 2, -1};
  static double x64[2][ROOM], out64[LONGEST + 1];
  static float x32[2][ROOM], out32[LONGEST + 1];
  static uint8_t truth[LONGEST + 1];
  for (size_t r = 0; r < sizeof kernels / sizeof *kernels; r++)
    for (int way = 0; way < 7 * 4 * 4 * 16; way++) {
      int64_t n = sizes[way % 7], s[3] = {1, steps[way / 7 % 4], steps[way / 28 % 4]}, wrong = 0;
      bool single = way / 112 % 2;
      for (int64_t i = 0; i < ROOM; i++) {
        x32[0][i] = (float)(x64[0][i] = values[(i * i + 3 * i + way) % 15]);
        x32[1][i] = (float)(x64[1][i] = values[(i * 7 + i * i / 3 + way / 112) % 15]);
      }
      void *out = kernels[r].truth ? (void *)truth : single ? (void *)out32 : (void *)out64;
      char *p[3] = {out};
      for (int k = 0; k < 2; k++) {
        int64_t first = s[k + 1] < 0 ? n : 0;
        p[k + 1] = single ? (char *)(x32[k] + first) : (char *)(x64[k] + first);
      }
      truth[n] = 77, out64[n] = 77, out32[n] = 77;
      const int64_t order = 2;
      const double ends[] = {-0.5, 1.25}; /* a slope is the first */
      void *data = kernels[r].want == of_polygamma ? (void *)(uintptr_t)&order : (void *)(uintptr_t)ends;
      kernels[r].kernel[single](data, n, p, s);
      for (int64_t i = 0; i < n; i++) {
        double x = x64[0][(s[1] < 0 ? n : 0) + i * s[1]], y = x64[1][(s[2] < 0 ? n : 0) + i * s[2]];
        double want = kernels[r].want(x, y), got = kernels[r].truth ? truth[i] : single ? (double)out32[i] : out64[i];
        if (kernels[r].want == of_remainder && (!isfinite(x) || !isfinite(y))) continue;
        wrong += !check_near(got, single ? (double)(float)want : want, single ? 1e-6 : 1e-14);
      }
      wrong += truth[n] != 77 || out64[n] != 77 || out32[n] != 77;
      if (!check_record(wrong == 0)) printf("%s, way %d: %d wrong\n", kernels[r].name, way, (int)wrong);
    }
}

/* Floored quotients and remainders of whole numbers, those at the ends too: x = q y + r, r between 0 and y; of 0, 0. */
static void whole_numbers(pn_context *c) {
  static const int64_t v[] = {INT64_MIN, INT64_MIN + 1, -7, -3, -2, -1, 0, 1, 2, 3, 7, INT64_MAX - 1, INT64_MAX};
  enum { N = sizeof v / sizeof *v };
  pn_tensor *x = pn_from_data(c, PN_INT64, SHAPE(N, 1), v), *y = pn_from_data(c, PN_INT64, SHAPE(N), v);
  const int64_t *q = pn_tensor_data(pn_floor_divide(c, x, y)), *r = pn_tensor_data(pn_remainder(c, x, y));
  for (int k = 0; k < N * N; k++) {
    int64_t b = v[k % N];
    CHECK(b ? (b > 0 ? r[k] >= 0 && r[k] < b : r[k] <= 0 && r[k] > b) : q[k] == 0 && r[k] == 0);
    CHECK(!b || (uint64_t)q[k] * (uint64_t)b + (uint64_t)r[k] == (uint64_t)v[k / N]);
  }
}

/* ---- nests of loops ---- */

/* out = a + 2 b; data counts the rows. */
static void combine(void *data, int64_t n, char *const *p, const int64_t *s) {
  atomic_fetch_add((atomic_int *)data, 1);
  for (int64_t i = 0; i < n; i++)
    ((double *)(void *)p[0])[i * s[0]] =
        ((double *)(void *)p[1])[i * s[1]] + 2 * (double)((float *)(void *)p[2])[i * s[2]];
}

/* Runs the nest and gives how many rows it took; each element is what single elements of the operands make. */
static int run_nest(pn_context *c, pn_tensor *out, pn_tensor *a, pn_tensor *b, int *axes) {
  pni_loop l;
  atomic_int calls = 0;
  pni_loop_init(&l, out, 2, (pn_tensor *[]){a, b});
  CHECK_STATUS(c, pni_loop_run(c, &l, combine, &calls), PN_OK);
  if (axes) *axes = l.ndim;
  int64_t stride[3][PN_MAX_DIMS], wrong = 0;
  pn_tensor *t[] = {out, a, b};
  for (int k = 0; k < 3; k++) pni_broadcast_strides(t[k], out->ndim, stride[k]);
  for (int64_t i = 0; i < out->numel; i++) {
    int64_t place[3] = {0}, rest = i;
    for (int d = out->ndim - 1; d >= 0; rest /= out->shape[d--])
      for (int k = 0; k < 3; k++) place[k] += rest % out->shape[d] * stride[k][d];
    double want = ((double *)pni_data(a))[place[1]] + 2 * (double)((float *)pni_data(b))[place[2]];
    wrong += ((double *)pni_data(out))[place[0]] != want;
  }
  CHECK_INT(wrong, 0);
  return calls;
}

enum { WHOLE, ROW, COLUMN, TURNED, SECOND, ONE, LAYOUTS };

/* Random numbers that broadcast to [m, n]. */
static pn_tensor *laid(pn_context *c, pn_dtype dtype, int64_t m, int64_t n, int layout) {
  switch (layout) {
  case ROW: return pn_randn(c, NULL, dtype, SHAPE(n));
  case COLUMN: return pn_randn(c, NULL, dtype, SHAPE(m, 1));
  case TURNED: return pn_transpose(c, pn_randn(c, NULL, dtype, SHAPE(n, m)), 0, 1);
  case SECOND: return pn_slice(c, pn_randn(c, NULL, dtype, SHAPE(m, 2 * n)), 1, 1, n, 2);
  case ONE: return pn_randn(c, NULL, dtype, 0, NULL);
  default: return pn_randn(c, NULL, dtype, SHAPE(m, n));
  }
}

static void nests(pn_context *c) {
  static const int64_t sizes[][2] = {{20, 6}, {7, 6}, {8, 32}, {8, 33}, {100, 6}, {3, 40000}, {2000, 33}, {6000, 7}};
  pn_context_threads(c, 2);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int way = 0; way < 2 * LAYOUTS * LAYOUTS; way++) {
      size_t mark = pn_scope_open(c);
      int64_t m = sizes[i][0], n = sizes[i][1];
      if (way % 2) pn_context_set_deadline(c, 100);
      pn_tensor *out = pn_zeros(c, PN_FLOAT64, SHAPE(m, n));
      if (way / 2 % 5 == 3) out = pn_transpose(c, pn_zeros(c, PN_FLOAT64, SHAPE(n, m)), 0, 1);
      run_nest(c, out, laid(c, PN_FLOAT64, m, n, way / 2 % LAYOUTS), laid(c, PN_FLOAT32, m, n, way / 2 / LAYOUTS),
               NULL);
      pn_context_set_deadline(c, 0);
      pn_scope_close(c, mark);
    }
  pn_context_threads(c, 1);
  /* axes that run on are one; short rows are taken many at a time, others one by one; limits in between */
  static const struct {
    int64_t m, n;
    int a, b, axes, rows, limited;
  } few[] = {{20, 6, WHOLE, WHOLE, 1, 1, 1},     {20, 6, ONE, WHOLE, 1, 1, 1},     {20, 6, ONE, ROW, 2, 1, 1},
             {20, 6, WHOLE, COLUMN, 2, 1, 1},    {20, 6, TURNED, SECOND, 2, 1, 1}, {20, 6, SECOND, ONE, 1, 1, 1},
             {8, 32, WHOLE, ROW, 2, 1, 1},       {8, 33, WHOLE, ROW, 2, 8, 8},     {7, 6, WHOLE, ROW, 2, 7, 7},
             {100, 6, WHOLE, ROW, 2, 2, 2},      {1, 9, TURNED, SECOND, 1, 1, 1},  {9, 1, COLUMN, SECOND, 1, 1, 1},
             {128, 256, WHOLE, WHOLE, 1, 1, 16}, {256, 128, ONE, WHOLE, 1, 1, 16}, {7, 1000, WHOLE, COLUMN, 2, 7, 7},
             {2000, 4, WHOLE, COLUMN, 2, 16, 19}};
  for (size_t i = 0; i < sizeof few / sizeof *few; i++)
    for (int limited = 0; limited < 2; limited++) {
      size_t mark = pn_scope_open(c);
      int64_t m = few[i].m, n = few[i].n;
      int axes;
      if (limited) pn_context_set_deadline(c, 100);
      int rows = run_nest(c, pn_zeros(c, PN_FLOAT64, SHAPE(m, n)), laid(c, PN_FLOAT64, m, n, few[i].a),
                          laid(c, PN_FLOAT32, m, n, few[i].b), &axes);
      pn_context_set_deadline(c, 0);
      if (axes != few[i].axes || rows != (limited ? few[i].limited : few[i].rows))
        printf("nest %zu: %d rows\n", i, rows);
      CHECK_INT(axes, few[i].axes);
      CHECK_INT(rows, limited ? few[i].limited : few[i].rows);
      pn_scope_close(c, mark);
    }
}

/* ---- limits and whole messages ---- */

static void limits(pn_context *c) {
  int64_t most = (int64_t)1 << 44, low = INT64_MIN;
  pn_tensor *one = pn_scalar(c, PN_FLOAT64, 1), *x = pn_arange(c, PN_FLOAT64, 0, 6, 1);
  CHECK_INT(pn_tensor_numel(pn_broadcast_to(c, one, SHAPE(most))), most);
  CHECK_INT(pn_tensor_numel(pn_broadcast_to(c, one, SHAPE(1 << 22, 1, 1 << 22))), most);
  CHECK_INT(pn_tensor_numel(pn_broadcast_to(c, one, SHAPE(0, most))), 0);
  static const int64_t beyond[][2] = {{((int64_t)1 << 44) + 1, 1}, {(1 << 22) + 1, 1 << 22}, {2, (int64_t)1 << 44}};
  for (int k = 0; k < 3; k++) {
    char text[96];
    snprintf(text, sizeof text, "tensor: shape [%lld, 0, %lld] is too large for memory", (long long)beyond[k][0],
             (long long)beyond[k][1]);
    CHECK(pn_zeros(c, PN_FLOAT64, SHAPE(beyond[k][0], 0, beyond[k][1])) == NULL);
    CHECK_FAIL(c, PN_NOMEM, text);
  }
  CHECK(pn_zeros(c, PN_FLOAT64, SHAPE(2, -3)) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "tensor: size of an axis must not be negative, got -3");
  CHECK(pn_add(c, pn_zeros(c, PN_FLOAT64, SHAPE(2, 3)), pn_zeros(c, PN_FLOAT64, SHAPE(4, 1, 4))) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "add: shapes must broadcast, got [2, 3] and [4, 1, 4]");
  CHECK(pn_cumsum(c, x, 1) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "cumsum: axis must lie in the tensor's 1 axes, got number 2");
  CHECK(pn_cumsum(c, x, -2) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "cumsum: axis must lie in the tensor's 1 axes, got number -2");
  /* a text of sizes ends behind the one with which it has 136 letters or more */
  char buf[PNI_SHAPE_TEXT], want[PNI_SHAPE_TEXT] = "[";
  for (int k = 0; k < 7; k++) strcat(strcat(want, k ? ", " : ""), "-9223372036854775808");
  CHECK_STR(pni_shape_text(8, (int64_t[]){low, low, low, low, low, low, low, low}, buf), strcat(want, "]"));
  want[131] = '\0';
  CHECK_STR(pni_shape_text(8, (int64_t[]){low, low, low, low, low, low, 123, 4}, buf), strcat(want, ", 123]"));
  want[135] = '\0';
  CHECK_STR(pni_shape_text(8, (int64_t[]){low, low, low, low, low, low, 12, 4}, buf), strcat(want, ", 4]"));
  /* values */
  CHECK_NEAR(item(c, pn_full(c, PN_INT64, 0, NULL, -9.2e18)), -9.2e18, 0);
  CHECK(pn_full(c, PN_INT64, 0, NULL, -9.3e18) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "full: value must fit into int64, got -9.3e+18");
  CHECK(pn_arange(c, PN_FLOAT64, 0, 1e13, 1) == NULL); /* as many as a range may have, more than memory has */
  CHECK_INT(pn_context_status(c), PN_NOMEM);
  pn_context_clear_error(c);
  CHECK(pn_arange(c, PN_FLOAT64, 0, -1e13 - 1, -1) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "arange: step must lead from start to stop, got 0, -1e+13, -1");
  CHECK_INT(pn_tensor_numel(pn_arange(c, PN_FLOAT64, 5e13, 1, 1)), 0);
  CHECK_FAIL(c, PN_DOMAIN, "arange: step");
  for (double start = -1; start < 2; start++) {
    CHECK(pn_arange(c, PN_FLOAT64, start, 0, 0) == NULL);
    CHECK_FAIL(c, PN_DOMAIN, "arange: step must lead from start to stop");
  }
  CHECK(pn_linspace(c, PN_FLOAT64, 0, 1, -1) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "linspace: n must not be negative and dtype a float, got -1 and float64");
  pn_tensor *two = pn_linspace(c, PN_FLOAT64, 3, 5, 2);
  CHECK(at(two, 0) == 3 && at(two, 1) == 5);
  CHECK_NEAR(at(pn_linspace(c, PN_FLOAT64, 3, 6, 4), 2), 5, 1e-15);
  for (int64_t m = 0; m < 4; m++) {
    int64_t n = 3 - m, wrong = 0;
    pn_tensor *eye = pn_eye(c, PN_FLOAT32, n, m);
    for (int64_t k = 0; k < n * m; k++) wrong += at(eye, k) != (k / m == k % m);
    CHECK_INT(wrong, 0);
  }
  CHECK_STR(pn_dtype_name((pn_dtype)4), "?");
  CHECK_STR(pn_dtype_name((pn_dtype)-1), "?");
  CHECK_INT(pn_dtype_size((pn_dtype)4), 0);
  CHECK_INT(pn_dtype_size(PN_BOOL), 1);
  CHECK(!pn_tensor_numel(NULL) && !pn_tensor_ndim(NULL) && !pn_tensor_shape(NULL) && !pn_tensor_data(NULL));
  CHECK(pn_tensor_dtype(NULL) == PN_FLOAT64 && pn_tensor_ref(NULL) == NULL);
  CHECK(pn_randint(c, NULL, 5, 4, 0, NULL) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "randint: high must be above low, got 4 and 5");
  CHECK(pn_rand(c, NULL, PN_BOOL, 0, NULL) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "rand: dtype must be float64 or float32, got bool");
  CHECK(pn_randn(c, NULL, PN_INT64, 0, NULL) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "randn: dtype must be float64 or float32, got int64");
}

/* Every type is read through views as it is in one run. */
static void views(pn_context *c) {
  static const double v[] = {1, 0, 3, -2, 0, 5};
  for (int dtype = PN_FLOAT64; dtype <= PN_BOOL; dtype++) {
    pn_tensor *x = pn_cast(c, pn_from_data(c, PN_FLOAT64, SHAPE(2, 3), v), (pn_dtype)dtype);
    pn_tensor *turned = pn_transpose(c, x, 0, 1);
    double out[6];
    CHECK_STATUS(c, pn_tensor_copy_out(c, turned, out, 6), PN_OK);
    for (int k = 0; k < 6; k++) {
      double want = v[k % 2 * 3 + k / 2];
      if (dtype == PN_BOOL) want = want != 0;
      CHECK_NEAR(out[k], want, 0);
      CHECK_NEAR(at(turned, k), want, 0);
      CHECK_NEAR(item(c, pn_slice(c, pn_slice(c, turned, 0, k / 2, 1, 1), 1, k % 2, 1, 1)), want, 0);
    }
  }
  CHECK_STATUS(c, pn_tensor_copy_out(c, pn_zeros(c, PN_FLOAT64, SHAPE(0, 2)), NULL, 0), PN_OK);
}

/* A permutation of more numbers than are exchanged at a time is the one that is made at once. */
static void permuted(pn_context *c) {
  enum { MANY = (1 << 16) + 4465 };
  static int64_t want[MANY];
  uint64_t state[2], after[2];
  pn_rng_get_state(pn_context_rng(c), state);
  pn_tensor *p = pn_randperm(c, NULL, MANY);
  pn_rng_get_state(pn_context_rng(c), after);
  pni_permutation(state[0], state[1], MANY, want);
  CHECK(p && memcmp(pni_data(p), want, sizeof want) == 0);
  CHECK_INT(after[1] - state[1], MANY);
}

/* Sizes above a limit are refused, those too of which the lower 32 bits are few. */
static void large(void) {
  pn_context *c = pn_context_new(&(pn_context_config){.memory_limit = (size_t)1 << 20});
  for (int k = 18; k < 46; k++)
    for (int64_t more = 0; more < 2; more++) {
      CHECK(pn_zeros(c, PN_FLOAT64, SHAPE(((int64_t)1 << k) + more)) == NULL);
      CHECK_STATUS(c, pn_context_status(c), PN_NOMEM);
      pn_context_clear_error(c);
    }
  pn_context_close(c);
}

int main(void) {
  pn_context *c = pn_context_new(NULL);
  void (*const part[])(pn_context *) = {creation,    refused_shapes, refused_operands, reading, long_sums,
                                        all_columns, edge_gradients, choices,          nests,   whole_numbers,
                                        limits,      views,          permuted};
  for (size_t k = 0; k < sizeof part / sizeof *part; k++) {
    size_t mark = pn_scope_open(c);
    part[k](c);
    pn_scope_close(c, mark);
    CHECK_INT(pn_context_objects(c), 0);
    CHECK_INT(pn_context_status(c), PN_OK);
    pn_context_clear_error(c);
  }
  pn_context_close(c);
  kernel_rows();
  any_threads();
  large();
  CHECK_DONE();
}
