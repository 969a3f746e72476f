/*
** conv_test.c: convolution and pooling against SciPy and plain loops, their adjoints, derivatives of first and
** second order, strided, empty and large inputs, and what they refuse.
*/
#include "alloc_sweep.h"
#include "gradient.h"
#include "../golden/linalg/conv_golden.h"

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

typedef pn_tensor T;
typedef pn_context C;

static T *operand(C *c, const int64_t *shape, int k) {
  double v[1024];
  int64_t n = shape[0] * shape[1] * shape[2] * shape[3];
  for (int64_t i = 0; i < n; i++) v[i] = sin(0.7 * (double)(i + 1) + k);
  return pn_from_data(c, PN_FLOAT64, 4, shape, v);
}

/* The same elements read backwards from memory that runs forwards, in transposed order. */
static T *strided(C *c, T *x) {
  T *t = pn_flip(c, pn_transpose(c, x, 1, 3), 0);
  t = pn_contiguous(c, t);
  return pn_transpose(c, pn_flip(c, t, 0), 1, 3);
}

static void same(C *c, const char *what, T *y, const int64_t *shape, const double *want, double tolerance) {
  double got[512];
  int64_t n = shape[0] * shape[1] * shape[2] * shape[3];
  bool ok = y && pn_tensor_ndim(y) == 4 && memcmp(pn_tensor_shape(y), shape, 4 * sizeof *shape) == 0 &&
            pn_tensor_copy_out(c, y, got, n) == PN_OK;
  for (int64_t i = 0; ok && i < n; i++) ok = fabs(got[i] - want[i]) <= tolerance;
  if (!ok) printf("%s differs: %s\n", what, pn_context_message(c));
  pn_context_clear_error(c);
  check_record(ok);
}

static size_t current;

static pn_conv2d_options options_of(size_t i) {
  pn_conv2d_options o = {.groups = golden_conv[i].groups};
  for (int k = 0; k < 2; k++) {
    o.stride[k] = golden_conv[i].stride[k];
    o.padding[k] = golden_conv[i].padding[k];
    o.dilation[k] = golden_conv[i].dilation[k];
    o.output_padding[k] = golden_conv[i].extra[k];
  }
  return o;
}

static T *convolve(C *c, T *const *x) {
  pn_conv2d_options o = options_of(current);
  const int64_t *kernel = golden_conv[current].extra;
  if (strcmp(golden_conv[current].op, "conv2d") == 0) return pn_conv2d(c, x[0], x[1], &o);
  if (strcmp(golden_conv[current].op, "conv_transpose2d") == 0) return pn_conv_transpose2d(c, x[0], x[1], &o);
  return pn_conv2d_weight(c, x[0], x[1], kernel[0], kernel[1], &o);
}

static void convolutions(C *c) {
  for (current = 0; current < sizeof golden_conv / sizeof golden_conv[0]; current++) {
    size_t mark = pn_scope_open(c);
    T *x[] = {pn_param(c, operand(c, golden_conv[current].x, 0)), pn_param(c, operand(c, golden_conv[current].w, 1))};
    T *s[] = {strided(c, x[0]), strided(c, x[1])};
    T *f[] = {pn_cast(c, x[0], PN_FLOAT32), pn_cast(c, x[1], PN_FLOAT32)};
    const double *want = golden_conv[current].value;
    same(c, golden_conv[current].op, convolve(c, x), golden_conv[current].out, want, 1e-12);
    same(c, "strided", convolve(c, s), golden_conv[current].out, want, 1e-12);
    same(c, "float32", convolve(c, f), golden_conv[current].out, want, 1e-4);
    gradient_check(c, golden_conv[current].op, convolve, 2, x);
    pn_scope_close(c, mark);
  }
}

static T *max_pool(C *c, T *const *x) {
  return pn_max_pool2d(c, x[0], golden_pool[current].kernel, golden_pool[current].stride, golden_pool[current].padding);
}
/* The gradient of a selection is constant; its square's is not. */
static T *max_pool_square(C *c, T *const *x) { return pn_square(c, max_pool(c, x)); }
static T *mean_pool(C *c, T *const *x) {
  return pn_avg_pool2d(c, x[0], golden_pool[current].kernel, golden_pool[current].stride, golden_pool[current].padding,
                       1);
}
static T *inside_pool(C *c, T *const *x) {
  return pn_square(c, pn_avg_pool2d(c, x[0], golden_pool[current].kernel, golden_pool[current].stride,
                                    golden_pool[current].padding, 0));
}

static void pooling(C *c) {
  for (current = 0; current < sizeof golden_pool / sizeof golden_pool[0]; current++) {
    size_t mark = pn_scope_open(c);
    T *x = pn_param(c, operand(c, golden_pool[current].x, 0)), *s = strided(c, x);
    const int64_t *out = golden_pool[current].out, *k = golden_pool[current].kernel;
    const int64_t *stride = golden_pool[current].stride, *padding = golden_pool[current].padding;
    /* (The sine of another C library may differ in the last bit.) */
    same(c, "max_pool2d", max_pool(c, &x), out, golden_pool[current].max, 0x1p-53);
    same(c, "max_pool2d, strided", max_pool(c, &s), out, golden_pool[current].max, 0x1p-53);
    same(c, "avg_pool2d", mean_pool(c, &x), out, golden_pool[current].mean, 1e-14);
    same(c, "avg_pool2d inside", pn_avg_pool2d(c, s, k, stride, padding, 0), out, golden_pool[current].inside, 1e-14);
    same(c, "float32", pn_avg_pool2d(c, pn_cast(c, x, PN_FLOAT32), k, stride, padding, 0), out,
         golden_pool[current].inside, 1e-6);
    gradient_check(c, "max_pool2d", max_pool_square, 1, &x);
    gradient_check(c, "avg_pool2d", mean_pool, 1, &x);
    gradient_check(c, "avg_pool2d inside", inside_pool, 1, &x);
    pn_scope_close(c, mark);
  }
  size_t mark = pn_scope_open(c);
  T *x = pn_from_data(c, PN_FLOAT64, SHAPE(1, 1, 1, 4), (const double[]){1, NAN, 2, -INFINITY});
  double v[2];
  CHECK_STATUS(c, pn_tensor_copy_out(c, pn_max_pool2d(c, x, (int64_t[]){1, 2}, NULL, NULL), v, 2), PN_OK);
  CHECK(isnan(v[0]) && v[1] == 2);
  T *flat = pn_param(c, pn_full(c, PN_FLOAT64, SHAPE(1, 1, 1, 2), -INFINITY)), *g = NULL;
  CHECK_STATUS(c, pn_grad(c, pn_max_pool2d(c, flat, (int64_t[]){1, 2}, NULL, NULL), 1, &flat, 0, &g), PN_OK);
  CHECK_STATUS(c, pn_tensor_copy_out(c, g, v, 2), PN_OK);
  CHECK(v[0] == 1 && v[1] == 0); /* the first of equals */
  pn_scope_close(c, mark);
}

/* <conv(x, w), g> = <x, convT(g, w)> = <w, weight(x, g)> on sizes that need several tiles and shards. */
static void adjoints(C *c, int64_t n, int64_t side, int64_t channels, int64_t kernel) {
  size_t mark = pn_scope_open(c);
  pn_conv2d_options o = {.stride = {2, 1}, .padding = {1, 1}, .output_padding = {0, 0}};
  T *x = pn_randn(c, NULL, PN_FLOAT64, SHAPE(n, channels, side, side));
  T *w = pn_randn(c, NULL, PN_FLOAT64, SHAPE(5, channels, kernel, kernel));
  T *y = pn_conv2d(c, x, w, &o), *g = pn_randn(c, NULL, PN_FLOAT64, SHAPE(1));
  g = y ? pn_randn(c, NULL, PN_FLOAT64, 4, pn_tensor_shape(y)) : g;
  o.output_padding[0] = (side + 2 - kernel) % 2;
  double a = NAN, b = NAN, d = NAN;
  pn_tensor_item(c, pn_sum(c, pn_mul(c, y, g), PN_ALL, 0), &a);
  pn_tensor_item(c, pn_sum(c, pn_mul(c, x, pn_conv_transpose2d(c, g, w, &o)), PN_ALL, 0), &b);
  pn_tensor_item(c, pn_sum(c, pn_mul(c, w, pn_conv2d_weight(c, x, g, kernel, kernel, &o)), PN_ALL, 0), &d);
  CHECK_NEAR(b, a, 1e-9);
  CHECK_NEAR(d, a, 1e-9);
  pn_scope_close(c, mark);
}

/* Places of a kernel that lie in the image, one by one. */
static double by_loops(const double *x, const double *w, const pn_conv2d_options *o, const int64_t *of, int64_t ci,
                       int64_t co, const int64_t *side, const int64_t *kernel) {
  int64_t group = of[1] / co;
  double sum = 0;
  for (int64_t k = 0; k < ci; k++)
    for (int64_t i = 0; i < kernel[0]; i++)
      for (int64_t j = 0; j < kernel[1]; j++) {
        int64_t row = of[2] * o->stride[0] + i * o->dilation[0] - o->padding[0];
        int64_t column = of[3] * o->stride[1] + j * o->dilation[1] - o->padding[1];
        if (row < 0 || row >= side[0] || column < 0 || column >= side[1]) continue;
        int64_t image = of[0] * o->groups + group;
        sum += x[((image * ci + k) * side[0] + row) * side[1] + column] *
               w[((of[1] * ci + k) * kernel[0] + i) * kernel[1] + j];
      }
  return sum;
}

/* Many channels, whose images are turned: batches that are several tiles and parts of one, gaps, edges and groups. */
static void channels(C *c, pn_dtype dtype, double tolerance) {
  static const struct {
    int64_t n, ci, co, side[2], kernel[2];
    pn_conv2d_options o;
  } of[] = {
      {7, 9, 5, {7, 9}, {3, 2}, {{1, 1}, {0, 0}, {1, 1}, 1, {0}}},
      {5, 8, 3, {9, 8}, {3, 3}, {{2, 3}, {1, 2}, {1, 1}, 2, {0}}},
      {3, 11, 4, {8, 9}, {2, 3}, {{1, 2}, {2, 3}, {3, 2}, 2, {0}}},
      {70, 13, 6, {12, 5}, {3, 3}, {{1, 1}, {1, 1}, {1, 1}, 1, {0}}},  /* several images a tile */
      {2, 130, 3, {20, 15}, {5, 5}, {{1, 1}, {2, 2}, {1, 1}, 1, {0}}}, /* several tiles an image */
  };
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    size_t mark = pn_scope_open(c);
    pn_conv2d_options o = of[i].o;
    T *x = pn_cast(c, pn_randn(c, NULL, PN_FLOAT64, SHAPE(of[i].n, o.groups * of[i].ci, of[i].side[0], of[i].side[1])),
                   dtype);
    T *w = pn_cast(
        c, pn_randn(c, NULL, PN_FLOAT64, SHAPE(o.groups * of[i].co, of[i].ci, of[i].kernel[0], of[i].kernel[1])),
        dtype);
    T *y = pn_conv2d(c, x = pn_param(c, x), w = pn_param(c, w), &o), *in[] = {x, w}, *g[2], *a[4] = {x, w, y};
    a[3] = pn_cast(c, pn_randn(c, NULL, PN_FLOAT64, 4, pn_tensor_shape(y)), dtype);
    CHECK_STATUS(c, pn_grad(c, pn_sum(c, pn_mul(c, y, a[3]), PN_ALL, 0), 2, in, 0, g), PN_OK);
    double *v[4], worst = 0, sums[3] = {0};
    for (int k = 0; k < 4; k++) {
      int64_t n = pn_tensor_numel(a[k]);
      v[k] = malloc((size_t)n * sizeof *v[k]);
      CHECK_STATUS(c, pn_tensor_copy_out(c, pn_cast(c, a[k], PN_FLOAT64), v[k], n), PN_OK);
    }
    const int64_t *shape = pn_tensor_shape(y);
    for (int64_t k = 0; k < pn_tensor_numel(y); k++) {
      int64_t at[4], rest = k;
      for (int m = 3; m >= 0; rest /= shape[m--]) at[m] = rest % shape[m];
      double want = by_loops(v[0], v[1], &o, at, of[i].ci, of[i].co, of[i].side, of[i].kernel);
      worst = fmax(worst, fabs(v[2][k] - want));
      sums[0] += want * v[3][k];
    }
    for (int k = 0; k < 2; k++) /* linear in either */
      pn_tensor_item(
          c,
          pn_cast(c, pn_sum(c, pn_mul(c, pn_cast(c, in[k], PN_FLOAT64), pn_cast(c, g[k], PN_FLOAT64)), PN_ALL, 0),
                  PN_FLOAT64),
          &sums[1 + k]);
    CHECK_NEAR(worst, 0, tolerance);
    CHECK_NEAR(sums[1], sums[0], 100 * tolerance);
    CHECK_NEAR(sums[2], sums[0], 100 * tolerance);
    for (int k = 0; k < 4; k++) free(v[k]);
    pn_scope_close(c, mark);
  }
}

/* Samples do not influence each other, and the number of threads nothing. */
static void batches(int64_t channels, int64_t side) {
  double one[128], many[128];
  for (int threads = 1; threads <= 3; threads += 2) {
    C *c = pn_context_new(&(pn_context_config){.seed = 9, .threads = threads});
    size_t mark = pn_scope_open(c);
    T *x = pn_randn(c, NULL, PN_FLOAT64, SHAPE(40, channels, side, side));
    T *w = pn_randn(c, NULL, PN_FLOAT64, SHAPE(8, channels, 5, 5));
    T *y = pn_conv2d(c, x, w, NULL), *alone = pn_conv2d(c, pn_slice(c, x, 0, 37, 1, 1), w, NULL);
    double d = NAN;
    pn_tensor_item(c, pn_max(c, pn_abs(c, pn_sub(c, alone, pn_slice(c, y, 0, 37, 1, 1))), PN_ALL, 0), &d);
    CHECK_NEAR(d, 0, 1e-12);
    T *g[] = {pn_conv2d_weight(c, x, y, 5, 5, NULL), pn_conv_transpose2d(c, y, w, NULL)};
    for (int k = 0; k < 2; k++) {
      T *some = pn_slice(c, pn_reshape(c, g[k], SHAPE(pn_tensor_numel(g[k]))), 0, 100, 64, 1);
      CHECK_STATUS(c, pn_tensor_copy_out(c, some, (threads == 1 ? one : many) + 64 * k, 64), PN_OK);
    }
    pn_scope_close(c, mark);
    pn_context_close(c);
  }
  CHECK(memcmp(one, many, sizeof one) == 0);
}

static void empty(C *c) {
  size_t mark = pn_scope_open(c);
  T *none = pn_param(c, pn_zeros(c, PN_FLOAT64, SHAPE(0, 3, 4, 4))),
    *w = pn_param(c, pn_full(c, PN_FLOAT64, SHAPE(2, 3, 3, 3), 1));
  T *y = pn_conv2d(c, none, w, NULL), *in[] = {none, w}, *g[2] = {0};
  CHECK(y && pn_tensor_numel(y) == 0);
  CHECK_STATUS(c, pn_grad(c, pn_sum(c, y, PN_ALL, 0), 2, in, 0, g), PN_OK);
  double v[54];
  CHECK_STATUS(c, pn_tensor_copy_out(c, g[1], v, 54), PN_OK);
  CHECK(v[0] == 0 && v[53] == 0);
  T *no_channel =
      pn_conv2d(c, pn_zeros(c, PN_FLOAT64, SHAPE(1, 0, 4, 4)), pn_zeros(c, PN_FLOAT64, SHAPE(2, 0, 3, 3)), NULL);
  CHECK_STATUS(c, pn_tensor_copy_out(c, no_channel, v, 8), PN_OK);
  CHECK(v[0] == 0 && v[7] == 0);
  CHECK(pn_max_pool2d(c, none, (int64_t[]){2, 2}, NULL, NULL) != NULL);
  CHECK_STATUS(c, pn_grad(c, pn_sum(c, pn_max_pool2d(c, none, (int64_t[]){2, 2}, NULL, NULL), PN_ALL, 0), 1, in, 0, g),
               PN_OK);
  pn_scope_close(c, mark);
}

static void refused(C *c, T *y, pn_status status, const char *text) {
  CHECK(y == NULL);
  CHECK_FAIL(c, status, text);
}

static void errors(C *c) {
  size_t mark = pn_scope_open(c);
  T *x = pn_zeros(c, PN_FLOAT64, SHAPE(1, 4, 5, 5)), *w = pn_zeros(c, PN_FLOAT64, SHAPE(2, 4, 3, 3));
  const int64_t k[] = {2, 2}, big[] = {6, 6}, two[] = {2, 2}, less[] = {-1, 1}, zero[] = {0, 1};
  refused(c, pn_conv2d(c, pn_zeros(c, PN_FLOAT64, SHAPE(4, 5, 5)), w, NULL), PN_SHAPE,
          "x must have shape [n, channels");
  refused(c, pn_conv2d(c, x, pn_zeros(c, PN_FLOAT64, SHAPE(2, 3, 3, 3)), NULL), PN_SHAPE, "for 4 channels in 1 groups");
  refused(c, pn_conv2d(c, x, pn_zeros(c, PN_FLOAT64, SHAPE(3, 2, 3, 3)), &(pn_conv2d_options){.groups = 2}), PN_SHAPE,
          "groups must divide the channels 4 and 3, got 2");
  refused(c, pn_conv2d(c, x, pn_zeros(c, PN_FLOAT64, SHAPE(2, 4, 6, 3)), NULL), PN_SHAPE,
          "must fit in the padded image, got size 5");
  refused(c, pn_conv2d(c, x, pn_zeros(c, PN_FLOAT64, SHAPE(2, 4, 0, 3)), NULL), PN_SHAPE, "sizes from 1, got 0");
  refused(c, pn_conv2d(c, x, w, &(pn_conv2d_options){.stride = {-1, 1}}), PN_DOMAIN,
          "stride must be a whole number from 1");
  refused(c, pn_conv2d(c, x, w, &(pn_conv2d_options){.padding = {0, -1}}), PN_DOMAIN,
          "padding must be a whole number from 0");
  refused(c, pn_conv2d(c, x, w, &(pn_conv2d_options){.dilation = {0, INT64_MAX}}), PN_DOMAIN, "dilation must be");
  refused(c, pn_conv2d(c, x, pn_zeros(c, PN_FLOAT32, SHAPE(2, 4, 3, 3)), NULL), PN_DTYPE, "float64 and float32");
  refused(c, pn_conv_transpose2d(c, x, pn_zeros(c, PN_FLOAT64, SHAPE(2, 4, 3, 3)), NULL), PN_SHAPE, "for 4 channels");
  refused(c,
          pn_conv_transpose2d(c, x, pn_zeros(c, PN_FLOAT64, SHAPE(4, 2, 3, 3)),
                              &(pn_conv2d_options){.output_padding = {1, 0}}),
          PN_DOMAIN, "output_padding must lie in 0 .. stride - 1 = 0, got 1");
  refused(c, pn_conv2d_weight(c, x, pn_zeros(c, PN_FLOAT64, SHAPE(1, 2, 4, 4)), 3, 3, NULL), PN_SHAPE,
          "g must have shape [1, out, 3, 3]");
  refused(c, pn_max_pool2d(c, x, big, NULL, NULL), PN_SHAPE,
          "kernel of size 6 must fit in the padded image, got size 5");
  refused(c, pn_max_pool2d(c, x, k, NULL, two), PN_DOMAIN, "padding must lie in 0 .. kernel / 2 = 1, got 2");
  refused(c, pn_max_pool2d(c, x, zero, NULL, NULL), PN_DOMAIN, "kernel must be a whole number from 1, got 0");
  refused(c, pn_avg_pool2d(c, x, k, less, NULL, 1), PN_DOMAIN, "stride must be a whole number from 1, got -1");
  refused(c, pn_avg_pool2d(c, pn_zeros(c, PN_FLOAT64, SHAPE(5, 5)), k, NULL, NULL, 1), PN_SHAPE, "got [5, 5]");
  pn_scope_close(c, mark);
}

static bool work(C *c, const void *data) {
  (void)data;
  const int64_t k[] = {2, 2};
  T *x = pn_randn(c, NULL, PN_FLOAT64, SHAPE(2, 8, 6, 6)), *w = pn_randn(c, NULL, PN_FLOAT64, SHAPE(8, 8, 3, 3));
  if (!x || !(x = pn_param(c, x)) || !w || !(w = pn_param(c, w))) return false;
  T *y = pn_max_pool2d(c, pn_conv2d(c, x, w, NULL), k, NULL, NULL);
  y = pn_avg_pool2d(c, pn_conv_transpose2d(c, y, w, NULL), k, NULL, NULL, 1);
  T *loss = pn_sum(c, pn_square(c, y), PN_ALL, 0), *g[2], *in[] = {x, w};
  if (!loss || pn_grad(c, loss, 2, in, 1, g) != PN_OK) return false;
  T *both = pn_add(c, pn_sum(c, g[0], PN_ALL, 0), pn_sum(c, g[1], PN_ALL, 0));
  return both && pn_backward(c, both) == PN_OK;
}

/* ---- pooling to a given size: window i of m over n places is floor(i n / m) .. ceil((i + 1) n / m) - 1 ---- */

static void adaptive(pn_context *c, int axes, const int64_t n[3], const int64_t m[3], pn_dtype dtype) {
  static const char *const kinds[2][3] = {{"adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"},
                                          {"adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"}};
  enum { PLANES = 6 };
  double x[PLANES * 9 * 9 * 9], got[PLANES * 7 * 7 * 7];
  int64_t shape[5] = {2, 3}, places = 1, windows = 1, size[3] = {1, 1, 1}, to[3] = {1, 1, 1};
  char text[32] = "";
  for (int k = 0; k < axes; k++) {
    size[3 - axes + k] = shape[2 + k] = n[k], to[3 - axes + k] = m[k];
    places *= n[k], windows *= m[k];
    snprintf(text + strlen(text), sizeof text - strlen(text), k ? "x%d" : "%d", (int)m[k]);
  }
  for (int64_t i = 0; i < PLANES * places; i++) x[i] = (double)((i * 37 + i * i) % 101) / 8 - 7;
  pn_tensor *t = pn_cast(c, pn_from_data(c, PN_FLOAT64, 2 + axes, shape, x), dtype);
  pn_tensor *turned = pn_transpose(c, pn_contiguous(c, pn_transpose(c, t, 0, 1 + axes)), 0, 1 + axes);
  pn_option options[] = {{"size", (double)m[0], axes > 1 ? text : NULL}, {0}};
  for (int most = 0; most < 2; most++)
    for (int strided = 0; strided < 2; strided++) {
      pn_layer *l = pn_layer_new(c, kinds[most][axes - 1], 0, NULL, dtype, NULL, options);
      pn_tensor *y = pn_layer_forward(c, l, strided ? turned : t, PN_MODE_EVALUATION, NULL);
      CHECK(y && pn_tensor_ndim(y) == 2 + axes && pn_tensor_numel(y) == PLANES * windows);
      CHECK_STATUS(c, pn_tensor_copy_out(c, y, got, PLANES * windows), PN_OK);
      double worst = 0;
      for (int64_t w = 0; w < PLANES * windows; w++) {
        int64_t at[3] = {w / (to[1] * to[2]) % to[0], w / to[2] % to[1], w % to[2]}, low[3], high[3], count = 0;
        double sum = 0, top = -INFINITY;
        for (int k = 0; k < 3; k++) {
          low[k] = at[k] * size[k] / to[k];
          high[k] = ((at[k] + 1) * size[k] + to[k] - 1) / to[k];
        }
        for (int64_t i = low[0]; i < high[0]; i++)
          for (int64_t j = low[1]; j < high[1]; j++)
            for (int64_t k = low[2]; k < high[2]; k++) {
              double v = x[((w / windows * size[0] + i) * size[1] + j) * size[2] + k];
              sum += v, top = fmax(top, v), count++;
            }
        worst = fmax(worst, fabs(got[w] - (most ? top : sum / (double)count)));
      }
      CHECK(worst < (dtype == PN_FLOAT64 ? 1e-13 : 1e-5));
      pn_layer_unref(l);
    }
}

static void adaptive_pools(void) {
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 2});
  static const int64_t n[] = {1, 2, 5, 6, 9}, m[] = {1, 2, 3, 4, 7};
  for (int i = 0; i < 5; i++)
    for (int j = 0; j < 5; j++)
      for (int axes = 1; axes <= 3; axes++) {
        size_t mark = pn_scope_open(c);
        adaptive(c, axes, (int64_t[]){n[i], n[(i + 2) % 5], n[(i + 3) % 5]},
                 (int64_t[]){m[j], m[(j + 1) % 5], m[(j + 4) % 5]}, (i + j) % 2 ? PN_FLOAT32 : PN_FLOAT64);
        pn_scope_close(c, mark);
      }
  size_t mark = pn_scope_open(c);
  pn_layer *l =
      pn_layer_new(c, "adaptive_max_pool2d", 0, NULL, PN_FLOAT64, NULL, (pn_option[]){{"size", 2, NULL}, {0}});
  CHECK(!pn_layer_forward(c, l, pn_zeros(c, PN_FLOAT64, 4, (int64_t[]){1, 1, 3, 0}), PN_MODE_EVALUATION, NULL));
  CHECK_FAIL(c, PN_SHAPE, "adaptive_max_pool2d: input must have at least one place along each axis, got size 0");
  CHECK(!pn_layer_forward(c, l, pn_zeros(c, PN_INT64, 4, (int64_t[]){1, 1, 3, 3}), PN_MODE_EVALUATION, NULL));
  CHECK_FAIL(c, PN_DTYPE, "adaptive_max_pool2d: input must be float64 or float32, got int64");
  CHECK(!pn_layer_forward(c, l, pn_zeros(c, PN_FLOAT64, 3, (int64_t[]){1, 3, 3}), PN_MODE_EVALUATION, NULL));
  CHECK_FAIL(c, PN_SHAPE, "adaptive_max_pool2d: input must have shape [batch, channels, height, width], got [1, 3, 3]");
  pn_layer_unref(l);
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
}

int main(void) {
  adaptive_pools();
  C *c = pn_context_new(&(pn_context_config){.seed = 5, .threads = 2});
  convolutions(c);
  pooling(c);
  adjoints(c, 3, 9, 2, 3);
  adjoints(c, 3, 10, 2, 4);
  adjoints(c, 2, 150, 16, 3); /* several tiles */
  adjoints(c, 40, 17, 4, 1);  /* several shards */
  adjoints(c, 40, 11, 9, 3);  /* channels innermost */
  channels(c, PN_FLOAT64, 1e-11);
  channels(c, PN_FLOAT32, 2e-4);
  empty(c);
  errors(c);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  batches(3, 20);
  batches(9, 15);
  sweep("convolutions", work, NULL);
  CHECK_DONE();
}
