/* vmap in C: a value and a gradient for each example, marked data, refusals, and every allocation failing in turn. */
#include <math.h>
#include "alloc_sweep.h"

/* Of each row of x [N, 2] the slope of sum(tanh(w row)) in w and the sum of the row twice: batched, grouped, one by
 * one. */
static bool slopes(pn_context *c, pn_tensor *x, pn_tensor *w, pn_tensor **out) {
  pn_tensor *in[2], *result[2] = {NULL};
  if (pn_vmap_begin(c, 2, (pn_tensor *[]){x, w}, (int[]){1, 0}, in)) return false;
  if (pn_tensor_set_requires_grad(c, in[1], 1) == PN_OK) {
    pn_tensor *y = pn_sum(c, pn_tanh(c, pn_mul(c, in[0], in[1])), (pn_axes){0, {0}}, 0);
    pn_tensor *places = pn_from_data(c, PN_INT64, 1, (int64_t[]){1}, (int64_t[]){1});
    if (y) pn_grad(c, y, 1, &in[1], 0, &result[0]);
    result[1] = pn_take(c, in[0], 0, places);
  }
  return pn_vmap_end(c, 2, result, out) == PN_OK;
}

static bool work(pn_context *c, const void *data) {
  (void)data;
  static const double rows[] = {1, 2, -1, 0.5, 0, 3};
  pn_tensor *x = pn_from_data(c, PN_FLOAT64, 2, (int64_t[]){3, 2}, rows);
  pn_tensor *w = pn_from_data(c, PN_FLOAT64, 1, (int64_t[]){2}, (double[]){0.3, -0.2});
  pn_tensor *out[2];
  if (!x || !w || !slopes(c, x, w, out)) return false;
  pn_tensor *of = pn_reshape(c, out[0], 1, (int64_t[]){6}), *second = pn_reshape(c, out[1], 1, (int64_t[]){3});
  if (!of || !second) return false;
  for (int i = 0; i < 6; i++) {
    double got, t = tanh(rows[i] * (i % 2 ? -0.2 : 0.3));
    if (pn_tensor_item(c, pn_select(c, of, 0, i), &got)) return false;
    CHECK(fabs(got - rows[i] * (1 - t * t)) < 1e-14);
    if (i % 2 == 0) continue;
    if (pn_tensor_item(c, pn_select(c, second, 0, i / 2), &got)) return false;
    CHECK(got == rows[i]);
  }
  return true;
}

static void refusals(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  pn_tensor *x = pn_zeros(c, PN_FLOAT64, 2, (int64_t[]){3, 2}), *y = pn_zeros(c, PN_FLOAT64, 1, (int64_t[]){2});
  pn_tensor *in[2], *out;
  CHECK_STATUS(c, pn_vmap_begin(c, 2, (pn_tensor *[]){x, y}, (int[]){1, 1}, in), PN_SHAPE);
  pn_context_clear_error(c);
  CHECK_STATUS(c, pn_vmap_begin(c, 1, &x, (int[]){0}, in), PN_DOMAIN);
  pn_context_clear_error(c);
  CHECK_STATUS(c, pn_vmap_end(c, 0, NULL, NULL), PN_STATE);
  pn_context_clear_error(c);
  CHECK_STATUS(c, pn_vmap_begin(c, 1, &x, (int[]){1}, in), PN_OK);
  pn_tensor *noisy = pn_add(c, in[0], pn_randn(c, NULL, PN_FLOAT64, 1, (int64_t[]){2}));
  CHECK_STATUS(c, pn_vmap_end(c, 1, &noisy, &out), PN_STATE);
  pn_context_clear_error(c);
  CHECK(!pn_capturing(c));
  CHECK_STATUS(c, pn_vmap_begin(c, 1, &x, (int[]){1}, in), PN_OK);
  CHECK(pn_capture_end(c, 1, in) == NULL);
  CHECK(!pn_capturing(c));
  pn_context_clear_error(c);
  pn_tensor *whole = pn_zeros(c, PN_INT64, 1, (int64_t[]){2});
  CHECK_STATUS(c, pn_tensor_set_requires_grad(c, whole, 1), PN_DTYPE);
  pn_context_clear_error(c);
  pn_scope_close(c, mark);
  pn_context_close(c);
}

/* x W + b, any of them of another example: what each alone gives. */
static void affine(void) {
  enum { N = 3, FULL = 8 };
  pn_context *c = pn_context_new(NULL);
  for (int set = 1; set < FULL; set++) {
    size_t mark = pn_scope_open(c);
    pn_tensor *all[3] = {pn_randn(c, NULL, PN_FLOAT64, 3, (int64_t[]){N, 2, 4}),
                         pn_randn(c, NULL, PN_FLOAT64, 3, (int64_t[]){N, 4, 5}),
                         pn_randn(c, NULL, PN_FLOAT64, 2, (int64_t[]){N, 5})};
    pn_tensor *given[3], *in[3], *y, *out = NULL, *want[N];
    int axis[3];
    for (int k = 0; k < 3; k++) {
      axis[k] = set >> k & 1;
      given[k] = axis[k] ? all[k] : pn_select(c, all[k], 0, 0);
    }
    CHECK_STATUS(c, pn_vmap_begin(c, 3, given, axis, in), PN_OK);
    y = pn_linear(c, in[0], in[1], in[2]);
    CHECK_STATUS(c, pn_vmap_end(c, 1, &y, &out), PN_OK);
    for (int i = 0; i < N; i++) {
      pn_tensor *one[3];
      for (int k = 0; k < 3; k++) one[k] = axis[k] ? pn_select(c, all[k], 0, i) : given[k];
      want[i] = pn_add(c, pn_matmul(c, one[0], one[1]), one[2]);
    }
    pn_tensor *gap = pn_max(c, pn_abs(c, pn_sub(c, out, pn_stack(c, N, want, 0))), PN_ALL, 0);
    double off = 1;
    CHECK(gap && pn_tensor_item(c, gap, &off) == PN_OK);
    CHECK_NEAR(off, 0, 1e-13);
    pn_scope_close(c, mark);
  }
  pn_context_close(c);
}

int main(void) {
  refusals();
  affine();
  sweep("vmap", work, NULL);
  CHECK_DONE();
}
