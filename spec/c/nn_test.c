/* nn_test.c: layers and initialisers from C: values against plain loops, gradients against differences,
 * moments and estimators against each other, refusals, lifetime. */
#include <stdlib.h>
#include "../../src/nn/option.h"
#include "layer_case.h"

static pn_tensor *normal(pn_context *c, pn_dtype d, int64_t n, int64_t m) {
  return pn_randn(c, NULL, d, 2, (int64_t[]){n, m});
}

static double item(pn_context *c, pn_tensor *t) {
  double v = NAN;
  pn_tensor_item(c, t, &v);
  return v;
}

static const double *data(pn_tensor *t) { return t ? pn_tensor_data(t) : NULL; }

/* y = x W + b by loops, for [2, 3, 4] inputs too. */
static void test_linear(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_layer *l = pn_layer_new(c, "linear", 2, (int64_t[]){4, 5}, PN_FLOAT64, NULL,
                             (pn_option[]){{"init", 0, "he"}, {"bias_init", 0, "lecun"}, {0}});
  CHECK(l != NULL);
  CHECK_INT(pn_layer_num_params(l), 2);
  CHECK_STR(pn_layer_param_name(l, 1), "bias");
  pn_tensor *x = pn_randn(c, NULL, PN_FLOAT64, 3, (int64_t[]){2, 3, 4});
  pn_tensor *y = pn_layer_forward(c, l, x, PN_MODE_TRAINING, NULL);
  const double *w = data(pn_layer_param(l, 0)), *b = data(pn_layer_param(l, 1));
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < 5; j++) {
      double s = b[j];
      for (int k = 0; k < 4; k++) s += data(x)[i * 4 + k] * w[k * 5 + j];
      CHECK_NEAR(data(y)[i * 5 + j], s, 1e-13);
    }
  pn_tensor *one = pn_layer_forward(c, l, pn_select(c, pn_select(c, x, 0, 0), 0, 0), PN_MODE_TRAINING, NULL);
  CHECK_INT(pn_tensor_ndim(one), 1);
  for (int j = 0; j < 5; j++) CHECK_NEAR(data(one)[j], data(y)[j], 1e-14);
  CHECK(!pn_layer_forward(c, l, normal(c, PN_FLOAT64, 2, 3), PN_MODE_TRAINING, NULL));
  CHECK_FAIL(c, PN_SHAPE, "linear: input must have shape [..., 4], got [2, 3]");
  CHECK(!pn_layer_forward(c, l, normal(c, PN_FLOAT32, 2, 4), PN_MODE_TRAINING, NULL));
  CHECK_FAIL(c, PN_DTYPE, "linear: input must be float64, got float32");
  CHECK_NEAR(item(c, pn_layer_kl(c, l)), 0, 0);
  pn_layer_unref(l);
  pn_scope_close(c, mark);
}

/* sum of sin(linear): its gradient in every parameter and in x, by central differences. */
static pn_tensor *objective(pn_context *c, pn_tensor *x, pn_tensor *w, pn_tensor *b) {
  return pn_sum(c, pn_sin(c, pn_linear(c, x, w, b)), PN_ALL, 0);
}

static void test_linear_gradient(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *p[3] = {pn_param(c, pn_randn(c, NULL, PN_FLOAT64, 3, (int64_t[]){2, 2, 3})),
                     pn_param(c, normal(c, PN_FLOAT64, 3, 2)),
                     pn_param(c, pn_randn(c, NULL, PN_FLOAT64, 1, (int64_t[]){2}))};
  pn_tensor *g[3], *h[3];
  CHECK_STATUS(c, pn_grad(c, objective(c, p[0], p[1], p[2]), 3, p, 1, g), PN_OK);
  pn_tensor *s = pn_add(c, pn_sum(c, pn_square(c, g[0]), PN_ALL, 0), pn_sum(c, pn_square(c, g[1]), PN_ALL, 0));
  CHECK_STATUS(c, pn_grad(c, pn_add(c, s, pn_sum(c, pn_square(c, g[2]), PN_ALL, 0)), 3, p, 0, h), PN_OK);
  for (int k = 0; k < 3; k++) {
    int64_t n = pn_tensor_numel(p[k]);
    double first[12], second[12], v[12];
    pn_tensor_copy_out(c, g[k], first, n);
    pn_tensor_copy_out(c, h[k], second, n);
    pn_tensor_copy_out(c, p[k], v, n);
    for (int64_t i = 0; i < n; i++) {
      double f[2], q[2], old = v[i];
      for (int side = 0; side < 2; side++) {
        v[i] = old + (side ? 1e-5 : -1e-5);
        pn_tensor *r[3] = {p[0], p[1], p[2]}, *d[3];
        r[k] = pn_param(c, pn_from_data(c, PN_FLOAT64, pn_tensor_ndim(p[k]), pn_tensor_shape(p[k]), v));
        pn_tensor *y = objective(c, r[0], r[1], r[2]);
        f[side] = item(c, y);
        pn_grad(c, y, 3, r, 0, d);
        q[side] = 0;
        for (int a = 0; a < 3; a++) q[side] += item(c, pn_sum(c, pn_square(c, d[a]), PN_ALL, 0));
      }
      v[i] = old;
      CHECK_NEAR(first[i], (f[1] - f[0]) / 2e-5, 1e-6);
      CHECK_NEAR(second[i], (q[1] - q[0]) / 2e-5, 1e-5);
    }
  }
  pn_scope_close(c, mark);
}

/* KL against the closed form summed in plain C; moments against the weights. */
static void test_bayes_linear(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_option o[] = {{"prior_scale", 0.7, NULL}, {"posterior_scale", 0.3, NULL}, {"bias_init", 0, "he"}, {0}};
  pn_layer *l = pn_layer_new(c, "bayes_linear", 2, (int64_t[]){3, 2}, PN_FLOAT64, NULL, o);
  CHECK_INT(pn_layer_num_params(l), 4);
  double kl = 0;
  for (int k = 0; k < 4; k += 2)
    for (int64_t i = 0; i < pn_tensor_numel(pn_layer_param(l, k)); i++) {
      double m = data(pn_layer_param(l, k))[i], s = exp(data(pn_layer_param(l, k + 1))[i]);
      kl += log(0.7 / s) + (s * s + m * m) / (2 * 0.7 * 0.7) - 0.5;
    }
  CHECK_NEAR(item(c, pn_layer_kl(c, l)), kl, 1e-13);
  pn_tensor *x = normal(c, PN_FLOAT64, 4, 3), *m, *v;
  CHECK_STATUS(c, pn_layer_moments(c, l, x, NULL, PN_MODE_TRAINING, &m, &v), PN_OK);
  for (int i = 0; i < 4; i++) {
    double squares = 1; /* all scales are 0.3 */
    for (int k = 0; k < 3; k++) squares += data(x)[i * 3 + k] * data(x)[i * 3 + k];
    for (int j = 0; j < 2; j++) CHECK_NEAR(data(v)[i * 2 + j], 0.09 * squares, 1e-13);
  }
  pn_tensor *y = pn_layer_forward(c, l, x, PN_MODE_MEAN, NULL);
  for (int i = 0; i < 8; i++) CHECK_NEAR(data(y)[i], data(m)[i], 0);
  pn_layer_unref(l);
  pn_scope_close(c, mark);
}

/* Draws of both estimators have the layer's moments, within 6 standard errors. */
static void test_estimators(pn_context *c, const char *estimator, int bias) {
  enum { N = 4000, OUT = 2 };
  size_t mark = pn_scope_open(c);
  pn_option o[] = {{"estimator", 0, estimator}, {"posterior_scale", 0.4, NULL}, {"bias", bias, NULL}, {0}};
  pn_layer *l = pn_layer_new(c, "bayes_linear", 2, (int64_t[]){3, OUT}, PN_FLOAT64, NULL, o);
  pn_tensor *x = normal(c, PN_FLOAT64, 1, 3), *m, *v;
  CHECK_STATUS(c, pn_layer_moments(c, l, x, NULL, PN_MODE_TRAINING, &m, &v), PN_OK);
  double sum[OUT] = {0}, squares[OUT] = {0};
  for (int i = 0; i < N; i++) {
    size_t inner = pn_scope_open(c);
    pn_tensor *y = pn_layer_forward(c, l, x, PN_MODE_TRAINING, NULL);
    for (int j = 0; j < OUT; j++) {
      double d = data(y)[j] - data(m)[j];
      sum[j] += d;
      squares[j] += d * d;
    }
    pn_scope_close(c, inner);
  }
  for (int j = 0; j < OUT; j++) {
    double variance = data(v)[j];
    CHECK(fabs(sum[j] / N) < 6 * sqrt(variance / N));
    CHECK(fabs(squares[j] / N - variance) < 6 * variance * sqrt(2.0 / N));
  }
  pn_layer_unref(l);
  pn_scope_close(c, mark);
}

/* A dead row (all zeros) without bias has variance 0; its gradients must stay finite. */
static void test_dead_row(pn_context *c, pn_dtype dtype) {
  size_t mark = pn_scope_open(c);
  pn_layer *l =
      pn_layer_new(c, "bayes_linear", 2, (int64_t[]){3, 2}, dtype, NULL, (pn_option[]){{"bias", 0, NULL}, {0}});
  pn_tensor *x = pn_param(c, pn_zeros(c, dtype, 2, (int64_t[]){4, 3}));
  CHECK_STATUS(c, pn_backward(c, pn_sum(c, pn_square(c, pn_layer_forward(c, l, x, PN_MODE_TRAINING, NULL)), PN_ALL, 0)),
               PN_OK);
  double g[12];
  pn_tensor_copy_out(c, pn_tensor_grad(x), g, 12);
  for (int i = 0; i < 12; i++) CHECK(isfinite(g[i]));
  pn_tensor_copy_out(c, pn_tensor_grad(pn_layer_param(l, 1)), g, 6);
  for (int i = 0; i < 6; i++) CHECK(isfinite(g[i]));
  pn_layer_unref(l);
  pn_scope_close(c, mark);
}

/* Mean and variance of a large draw, within 6 standard errors. */
static void test_initialiser(pn_context *c, const char *name, const pn_option *o, double mean, double variance,
                             double kurtosis) {
  enum { IN = 300, OUT = 100, N = IN * OUT };
  size_t mark = pn_scope_open(c);
  pn_tensor *t = pn_initialise(c, name, NULL, PN_FLOAT64, 2, (int64_t[]){IN, OUT}, o);
  double s = 0, q = 0;
  for (int i = 0; i < N; i++) s += data(t)[i] - mean, q += (data(t)[i] - mean) * (data(t)[i] - mean);
  CHECK(fabs(s / N) <= 6 * sqrt(variance / N));
  CHECK(fabs(q / N - variance) <= 6 * variance * sqrt((kurtosis - 1) / N));
  pn_scope_close(c, mark);
}

static void test_initialisers(pn_context *c) {
  pn_option uniform[] = {{"distribution", 0, "uniform"}, {0}}, gain[] = {{"gain", 2, NULL}, {0}};
  test_initialiser(c, "zeros", NULL, 0, 0, 3);
  test_initialiser(c, "constant", (pn_option[]){{"value", 3, NULL}, {0}}, 3, 0, 3);
  test_initialiser(c, "normal", (pn_option[]){{"loc", 1, NULL}, {"scale", 2, NULL}, {0}}, 1, 4, 3);
  test_initialiser(c, "uniform", (pn_option[]){{"low", 1, NULL}, {"high", 3, NULL}, {0}}, 2, 1.0 / 3, 1.8);
  test_initialiser(c, "xavier", NULL, 0, 2.0 / 400, 3);
  test_initialiser(c, "glorot", uniform, 0, 2.0 / 400, 1.8);
  test_initialiser(c, "he", NULL, 0, 2.0 / 300, 3);
  test_initialiser(c, "kaiming", uniform, 0, 2.0 / 300, 1.8);
  test_initialiser(c, "lecun", gain, 0, 4.0 / 300, 3);
  CHECK(!pn_initialise(c, "glorto", NULL, PN_FLOAT64, 0, NULL, NULL));
  CHECK_FAIL(c, PN_MISSING, "'glorto'");
  CHECK(!pn_initialise(c, "he", NULL, PN_FLOAT64, 0, NULL, (pn_option[]){{"distribution", 0, "cauchy"}, {0}}));
  CHECK_FAIL(c, PN_DOMAIN, "distribution must be one of: normal uniform; got 'cauchy'");
}

/* Each number is the normal (or uniform) one of the same generator, scaled by the fans: a window's places multiply
 * both, one axis is both, and a number by itself has fans of 1. */
static void test_scales(pn_context *c) {
  static const struct {
    int ndim;
    int64_t shape[4];
    double in, out;
  } shapes[] = {{0, {0}, 1, 1}, {1, {5}, 5, 5}, {2, {3, 7}, 3, 7}, {3, {2, 3, 7}, 6, 14}, {4, {5, 2, 3, 4}, 30, 40}};
  static const char *const names[] = {"xavier", "he", "lecun"};
  for (size_t i = 0; i < 4 * 3 * sizeof shapes / sizeof *shapes; i++) {
    size_t mark = pn_scope_open(c);
    int s = (int)i / 12, k = (int)i % 3, uniform = (int)i / 3 % 2;
    pn_dtype dtype = i / 6 % 2 ? PN_FLOAT32 : PN_FLOAT64;
    double fan = k == 0   ? (shapes[s].in + shapes[s].out) / 2
                 : k == 1 ? shapes[s].in / 2
                          : shapes[s].in,
           got[120], z[120];
    pn_rng *a = pn_rng_new(c, 3), *b = pn_rng_new(c, 3);
    pn_option o[] = {{"gain", 1.7, NULL}, {"distribution", 0, uniform ? "uniform" : "normal"}, {0}};
    pn_tensor *t = pn_initialise(c, names[k], a, dtype, shapes[s].ndim, shapes[s].shape, o);
    int64_t n = pn_tensor_numel(t);
    pn_tensor_copy_out(c, t, got, n);
    pn_tensor_copy_out(c, (uniform ? pn_rand : pn_randn)(c, b, dtype, shapes[s].ndim, shapes[s].shape), z, n);
    for (int64_t j = 0; j < n; j++)
      CHECK_NEAR(got[j], (uniform ? (2 * z[j] - 1) * sqrt(3) : z[j]) * 1.7 / sqrt(fan),
                 dtype == PN_FLOAT64 ? 1e-12 : 1e-5);
    pn_rng_free(a);
    pn_rng_free(b);
    pn_scope_close(c, mark);
  }
  size_t mark = pn_scope_open(c);
  pn_tensor *none = pn_initialise(c, "orthogonal", NULL, PN_FLOAT64, 2, (int64_t[]){0, 3}, NULL);
  CHECK(none && pn_tensor_shape(none)[0] == 0 && pn_tensor_shape(none)[1] == 3);
  CHECK(pn_initialise(c, "he", NULL, PN_FLOAT64, 2, (int64_t[]){0, 3}, NULL) != NULL);
  CHECK(!pn_initialise(c, "he", NULL, PN_INT64, 1, (int64_t[]){3}, NULL));
  CHECK_FAIL(c, PN_DTYPE, "he: dtype must be float64 or float32, got int64");
  pn_scope_close(c, mark);
}

static double activation(const char *name, double x) {
  if (!strcmp(name, "relu")) return x > 0 ? x : 0;
  if (!strcmp(name, "leaky_relu")) return x > 0 ? x : 0.01 * x;
  if (!strcmp(name, "elu")) return x > 0 ? x : exp(x) - 1;
  if (!strcmp(name, "gelu")) return x * 0.5 * (1 + erf(x / sqrt(2)));
  if (!strcmp(name, "silu")) return x / (1 + exp(-x));
  if (!strcmp(name, "tanh")) return tanh(x);
  if (!strcmp(name, "sigmoid")) return 1 / (1 + exp(-x));
  return log(1 + exp(x));
}

static void test_activations(pn_context *c) {
  static const char *const names[] = {"relu", "leaky_relu", "elu", "gelu", "silu", "tanh", "sigmoid", "softplus"};
  const double x[] = {-3, -0.5, 0, 0.25, 2};
  for (int k = 0; k < 8; k++) {
    size_t mark = pn_scope_open(c);
    pn_layer *l = pn_layer_new(c, names[k], 0, NULL, PN_FLOAT64, NULL, NULL);
    pn_tensor *y = pn_layer_forward(c, l, pn_from_data(c, PN_FLOAT64, 1, (int64_t[]){5}, x), PN_MODE_TRAINING, NULL);
    for (int i = 0; i < 5; i++) CHECK_NEAR(data(y)[i], activation(names[k], x[i]), 1e-12);
    pn_layer_unref(l);
    pn_scope_close(c, mark);
  }
}

static void test_refusals(pn_context *c) {
  CHECK(!pn_layer_new(c, "liner", 0, NULL, PN_FLOAT64, NULL, NULL));
  CHECK_FAIL(c, PN_MISSING, "'liner'");
  CHECK(!pn_layer_new(c, "linear", 1, (int64_t[]){2}, PN_FLOAT64, NULL, NULL));
  CHECK_FAIL(c, PN_SHAPE, "linear: number of sizes must be 2, got 1");
  CHECK(!pn_layer_new(c, "linear", 2, (int64_t[]){2, 0}, PN_FLOAT64, NULL, NULL));
  CHECK_FAIL(c, PN_SHAPE, "linear: out must be at least 1, got 0");
  CHECK(!pn_layer_new(c, "linear", 2, (int64_t[]){2, 2}, PN_INT64, NULL, NULL));
  CHECK_FAIL(c, PN_DTYPE, "got int64");
  CHECK(!pn_layer_new(c, "bayes_linear", 2, (int64_t[]){2, 2}, PN_FLOAT64, NULL,
                      (pn_option[]){{"prior_scale", 0, NULL}, {0}}));
  CHECK_FAIL(c, PN_DOMAIN, "bayes_linear: prior_scale must lie in (0, inf], got 0");
}

static void refused_by(pn_context *c, const char *name, const char *why) {
  char text[200];
  snprintf(text, sizeof text, "%s: %s", name, why);
  CHECK_FAIL(c, pn_context_status(c), text);
}

#define ONES 1, 1, 1, 1, 1, 1, 1, 1
#define WITH(name, number)                                                                                             \
  {                                                                                                                    \
    {name, number, NULL}, { 0 }                                                                                        \
  }

/* What layers take and what they refuse, in which words: sizes when a layer is made, then its input. */
static void test_inputs(pn_context *c) {
  enum { MAKE = -1, T = PN_MODE_TRAINING, V = PN_MODE_EVALUATION, D = PN_FLOAT64, I = PN_INT64 };
  static const int64_t most = (int64_t)1 << 44;
  static const struct {
    const char *name;
    int nsizes;
    int64_t size[9];
    pn_option option[4];
    const char *refused;
    int ndim; /* MAKE: no input */
    int64_t shape[8];
    int dtype, mode;
  } cases[] = {
      {"layer_norm", 0, {0}, {{0}}, "number of sizes must be 1 or more, got 0", MAKE, {0}, D, T},
      {"layer_norm", 8, {1, 1, 1, 1, 2, 1, 1, 1}, {{0}}, NULL, 8, {1, 1, 1, 1, 2, 1, 1, 1}, D, T},
      {"layer_norm", 9, {ONES, 1}, {{0}}, "number of sizes must be 1 or more, got 9", MAKE, {0}, D, T},
      {"layer_norm", 2, {2, 3}, {{0}}, "input must have shape [..., 2, 3], got [2, 2, 2]", 3, {2, 2, 2}, D, T},
      {"layer_norm", 2, {2, 3}, {{0}}, "input must have shape [..., 2, 3], got [3]", 1, {3}, D, T},
      {"layer_norm", 2, {2, 3}, {{0}}, NULL, 2, {2, 3}, D, T},
      {"linear", 2, {most + 1, 1}, {{0}}, "in must be at most 17592186044416, got 17592186044417", MAKE, {0}, D, T},
      {"linear", 2, {2, 0}, {{0}}, "out must be at least 1, got 0", MAKE, {0}, D, T},
      {"linear", 2, {2, 1}, {{0}}, "mode must be one of pn_mode, got 3", 1, {2}, D, 3},
      {"linear", 2, {2, 1}, {{0}}, NULL, 1, {2}, D, PN_MODE_MEAN},
      {"reshape", 1, {most}, {{0}}, NULL, MAKE, {0}, D, T},
      {"reshape", 1, {most + 1}, {{0}}, "size must be at most 17592186044416, got 17592186044417", MAKE, {0}, D, T},
      {"reshape", 1, {-2}, {{0}}, "size must be at least -1, got -2", MAKE, {0}, D, T},
      {"reshape", 2, {1, 0}, {{0}}, "size must be at least 1, or -1 once, got 0", MAKE, {0}, D, T},
      {"reshape", 7, {1, 1, 1, -1, 1, 1, 2}, {{0}}, NULL, 2, {3, 4}, D, T},
      {"reshape", 8, {ONES}, {{0}}, "sizes must be at most 7, of them one -1, got 8", MAKE, {0}, D, T},
      {"reshape", 3, {-1, 2, -1}, {{0}}, "sizes must be at most 7, of them one -1, got 3 and 2", MAKE, {0}, D, T},
      {"multi_head_attention", 2, {4, 3}, {{0}}, "heads must divide size, 4, got 3", MAKE, {0}, D, T},
      {"group_norm", 2, {2, 3}, {{0}}, "groups must divide channels, 3, got 2", MAKE, {0}, D, T},
      {"conv1d",
       2,
       {4, 3},
       {{"kernel", 1, NULL}, {"groups", 2, NULL}},
       "groups must divide in and out, 4",
       MAKE,
       {0},
       D,
       T},
      {"conv1d",
       2,
       {3, 4},
       {{"kernel", 1, NULL}, {"groups", 2, NULL}},
       "groups must divide in and out, 3",
       MAKE,
       {0},
       D,
       T},
      {"conv3d", 2, {1, 1}, {{"kernel", 0, "3x1x1"}, {"padding", 0, "1x0x0"}}, NULL, 5, {1, 1, 1, 1, 1}, D, T},
      {"conv3d",
       2,
       {1, 1},
       {{"kernel", 0, "4x1x1"}, {"padding", 0, "1x0x0"}, {"stride", 2, NULL}},
       "kernel of depth 4 must fit in the padded volume",
       5,
       {1, 1, 1, 1, 1},
       D,
       T},
      {"batch_norm", 1, {3}, {{0}}, "training needs two values per channel or more, got 1", 2, {1, 3}, D, T},
      {"batch_norm", 1, {3}, {{0}}, NULL, 2, {1, 3}, D, V},
      {"batch_norm", 1, {3}, {{0}}, NULL, 3, {1, 3, 2}, D, T},
      {"pixel_shuffle", 0, {0}, {{0}}, "channels must be a multiple of factor^2 = 4, got 6", 4, {1, 6, 1, 1}, D, T},
      {"prelu", 0, {0}, WITH("channels", 3), "input must have shape [batch, 3, ...], got [3]", 1, {3}, D, T},
      {"prelu", 0, {0}, WITH("channels", 3), "input must have shape [batch, 3, ...], got [3, 2]", 2, {3, 2}, D, T},
      {"prelu", 0, {0}, WITH("channels", 3), NULL, 2, {2, 3}, D, T},
      {"prelu", 0, {0}, {{0}}, NULL, 0, {0}, D, T},
      {"glu", 0, {0}, WITH("axis", -2), NULL, 2, {2, 3}, D, T},
      {"glu", 0, {0}, WITH("axis", 1), NULL, 2, {2, 3}, D, T},
      {"glu", 0, {0}, {{0}}, "input must have an even size along axis -1, got [2, 3]", 2, {2, 3}, D, T},
      {"glu", 0, {0}, WITH("axis", 3), "input must have an even size along axis 3, got [2, 2]", 2, {2, 2}, D, T},
      {"glu", 0, {0}, WITH("axis", 0), "input must have an even size along axis 0, got [2, 2]", 2, {2, 2}, D, T},
      {"glu", 0, {0}, WITH("axis", -3), "input must have an even size along axis -3, got [2, 2]", 2, {2, 2}, D, T},
      {"adaptive_avg_pool2d",
       0,
       {0},
       WITH("size", 1),
       "input must have at least one place along each axis, got size 0",
       4,
       {1, 1, 2, 0},
       D,
       T},
      {"adaptive_avg_pool3d", 0, {0}, WITH("size", 1), NULL, 5, {1, 1, 1, 1, 1}, D, T},
      {"adaptive_max_pool1d",
       0,
       {0},
       WITH("size", 1),
       "input must be float64 or float32, got int64",
       3,
       {1, 1, 2},
       I,
       T},
      {"upsample_bilinear", 0, {0}, {{0}}, "input must be float64 or float32, got int64", 4, {1, 1, 2, 2}, I, T},
      {"dropout", 0, {0}, {{0}}, "input must be float64 or float32, got int64", 1, {2}, I, T},
      {"dropout", 0, {0}, {{0}}, NULL, 1, {2}, I, V},
      {"embedding", 2, {2, 3}, {{0}}, NULL, 1, {4}, I, T},
      {"embedding", 2, {2, 3}, {{0}}, NULL, 1, {4}, PN_FLOAT32, T},
      {"embedding", 2, {2, 3}, {{0}}, "input must be int64, got bool (convert with :to)", 1, {4}, PN_BOOL, T},
      {"bilinear", 3, {1, 1, 1}, {{0}}, "x2 must be a tensor, got NULL", 1, {1}, D, T},
      {"gru", 2, {2, 3}, {{0}}, "input must be float64, got float32 (convert with :to)", 2, {4, 2}, PN_FLOAT32, T},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t mark = pn_scope_open(c);
    pn_layer *l = pn_layer_new(c, cases[i].name, cases[i].nsizes, cases[i].size, PN_FLOAT64, NULL, cases[i].option);
    bool made = l != NULL;
    if (l && cases[i].ndim != MAKE) {
      pn_tensor *x = pn_zeros(c, (pn_dtype)cases[i].dtype, cases[i].ndim, cases[i].shape);
      made = pn_layer_forward(c, l, x, (pn_mode)cases[i].mode, NULL) != NULL;
    }
    CHECK(made == !cases[i].refused);
    if (cases[i].refused) refused_by(c, cases[i].name, cases[i].refused);
    if (made != !cases[i].refused) printf("%s: %s\n", cases[i].name, pn_context_message(c));
    CHECK_STATUS(c, pn_context_status(c), PN_OK);
    pn_layer_unref(l);
    pn_scope_close(c, mark);
  }
}

/* Which variances fit a mean, which layers pass them on, and in which words they refuse. */
static void test_variances(pn_context *c) {
  enum { D = PN_FLOAT64, F = PN_FLOAT32, NONE = -1 };
  static const double infinite = HUGE_VAL;
  static const struct {
    const char *name;
    int nsizes;
    int64_t size[2];
    pn_option option[3];
    int nmean;
    int64_t mean[3];
    int dtype, nvariance; /* NONE: certain */
    int64_t variance[4];
    const char *refused;
  } cases[] = {
      {"linear", 2, {3, 2}, {{0}}, 2, {4, 3}, D, 2, {4, 3}, NULL},
      {"linear", 2, {3, 2}, {{0}}, 2, {4, 3}, D, 3, {4, 3, 3}, NULL},
      {"linear", 2, {3, 2}, {{0}}, 2, {4, 3}, D, NONE, {0}, NULL},
      {"linear",
       2,
       {3, 2},
       {{0}},
       2,
       {4, 3},
       F,
       2,
       {4, 3},
       "variance must be float64 of the mean's shape [4, 3], or that with its last axis twice, got [4, 3]"},
      {"linear", 2, {3, 2}, {{0}}, 2, {4, 3}, D, 2, {3, 4}, "variance must be float64 of the mean's shape"},
      {"linear", 2, {3, 2}, {{0}}, 2, {4, 3}, D, 3, {4, 3, 4}, "variance must be float64 of the mean's shape"},
      {"linear", 2, {3, 2}, {{0}}, 2, {4, 3}, D, 3, {3, 3, 3}, "variance must be float64 of the mean's shape"},
      {"linear", 2, {3, 2}, {{0}}, 2, {4, 3}, D, 4, {4, 3, 3, 3}, "variance must be float64 of the mean's shape"},
      {"linear", 2, {3, 2}, {{0}}, 2, {4, 3}, D, 1, {3}, "variance must be float64 of the mean's shape"},
      {"relu", 0, {0}, {{0}}, 0, {0}, D, 0, {0}, NULL},
      {"relu", 0, {0}, {{0}}, 0, {0}, D, 1, {1}, "variance must be float64 of the mean's shape []"},
      {"relu", 0, {0}, {{"rule", 0, "identity_heaviside"}, {0}}, 2, {4, 3}, D, 3, {4, 3, 3}, NULL},
      {"elu", 0, {0}, {{0}}, 2, {4, 3}, D, 3, {4, 3, 3}, "passes variances on, not covariances"},
      {"tanh", 0, {0}, {{0}}, 1, {3}, D, 1, {3}, "has no moments of an uncertain input"},
      {"tanh", 0, {0}, {{0}}, 1, {3}, D, NONE, {0}, NULL},
      {"batch_norm", 1, {3}, {{0}}, 2, {4, 3}, D, 2, {4, 3}, "passes variances on in evaluation mode only"},
      {"batch_norm", 1, {3}, {{0}}, 2, {4, 3}, D, NONE, {0}, NULL},
      {"hard_tanh",
       0,
       {0},
       WITH("low", 1),
       1,
       {3},
       D,
       1,
       {3},
       "low and high must be finite and low below high for moments"},
      {"hard_tanh", 0, {0}, WITH("low", -infinite), 1, {3}, D, 1, {3}, "low and high must be finite"},
      {"hard_tanh", 0, {0}, WITH("high", infinite), 1, {3}, D, NONE, {0}, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t mark = pn_scope_open(c);
    pn_layer *l = pn_layer_new(c, cases[i].name, cases[i].nsizes, cases[i].size, PN_FLOAT64, NULL, cases[i].option);
    pn_tensor *mean = pn_zeros(c, PN_FLOAT64, cases[i].nmean, cases[i].mean), *variance = NULL, *m = NULL, *v = mean;
    if (cases[i].nvariance >= 0)
      variance = pn_full(c, (pn_dtype)cases[i].dtype, cases[i].nvariance, cases[i].variance, 1);
    pn_layer_moments(c, l, mean, variance, PN_MODE_TRAINING, &m, &v);
    if (cases[i].refused) {
      refused_by(c, cases[i].name, cases[i].refused);
      CHECK(!m && v == mean);
    }
    CHECK_STATUS(c, pn_context_status(c), PN_OK);
    if (!cases[i].refused) CHECK(m && !v == !variance && (!v || pn_tensor_ndim(v) == cases[i].nvariance));
    pn_layer_unref(l);
    pn_scope_close(c, mark);
  }
}
#undef WITH
#undef ONES

/* Several inputs: how many there may be, the words of shapes that stand in two of them, what may be left out. */
static void test_several_inputs(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_layer *l = pn_layer_new(c, "multi_head_attention", 2, (int64_t[]){4, 2}, PN_FLOAT64, NULL, NULL);
  pn_tensor *q = pn_randn(c, NULL, PN_FLOAT64, 3, (int64_t[]){2, 3, 4}), *none[5] = {q, NULL, NULL, NULL, NULL};
  pn_tensor *other = pn_zeros(c, PN_FLOAT64, 3, (int64_t[]){3, 3, 4}), *few = pn_slice(c, q, 1, 0, 2, 1);
  CHECK_INT(pn_layer_num_inputs(l), 4);
  CHECK_INT(pn_layer_num_inputs(NULL), 0);
  pn_tensor *mean = pn_layer_call(c, l, 4, none, PN_MODE_EVALUATION, NULL);
  pn_tensor *same = pn_layer_call(c, l, 3, (pn_tensor *[]){q, q, q}, PN_MODE_EVALUATION, NULL);
  for (int i = 0; i < 24; i++) CHECK_NEAR(data(mean)[i], data(same)[i], 0);
  CHECK(!pn_layer_call(c, l, 5, none, PN_MODE_EVALUATION, NULL));
  CHECK_FAIL(c, PN_STATE, "multi_head_attention: inputs must be at most 4, got 5");
  CHECK(!pn_layer_call(c, l, 0, none, PN_MODE_EVALUATION, NULL));
  CHECK_FAIL(c, PN_STATE, "multi_head_attention: input must be a tensor, got NULL");
  CHECK(!pn_layer_call(c, l, 2, (pn_tensor *[]){q, other}, PN_MODE_EVALUATION, NULL));
  CHECK_FAIL(c, PN_SHAPE, "multi_head_attention: key must have shape [2, source, 4], got [3, 3, 4]");
  CHECK(!pn_layer_call(c, l, 3, (pn_tensor *[]){q, q, few}, PN_MODE_EVALUATION, NULL));
  CHECK_FAIL(c, PN_SHAPE, "multi_head_attention: value must have shape [2, 3, 4], got [2, 2, 4]");
  CHECK(!pn_layer_call(c, l, 3, (pn_tensor *[]){q, NULL, few}, PN_MODE_EVALUATION, NULL));
  CHECK_FAIL(c, PN_SHAPE, "multi_head_attention: value must be as long as key, 3, got 2");
  pn_tensor *none_at_all = pn_zeros(c, PN_FLOAT64, 3, (int64_t[]){0, 3, 4});
  CHECK(!pn_layer_call(c, l, 2, (pn_tensor *[]){none_at_all, q}, PN_MODE_EVALUATION, NULL));
  CHECK_FAIL(c, PN_SHAPE, "multi_head_attention: key must have shape [0, source, 4], got [2, 3, 4]");
  pn_layer *relu = pn_layer_new(c, "relu", 0, NULL, PN_FLOAT64, NULL, NULL);
  CHECK(!pn_layer_forward(c, relu, NULL, PN_MODE_EVALUATION, NULL));
  CHECK_FAIL(c, PN_STATE, "relu: input must be a tensor, got NULL");
  pn_layer *form = pn_layer_new(c, "bilinear", 3, (int64_t[]){5, 4, 1}, PN_FLOAT64, NULL, NULL);
  CHECK(!pn_layer_call(c, form, 2, (pn_tensor *[]){q, q}, PN_MODE_EVALUATION, NULL));
  CHECK_FAIL(c, PN_SHAPE, "bilinear: x1 must have shape [..., 5], got [2, 3, 4]");
  pn_layer_unref(form);
  pn_layer_unref(relu);
  pn_layer_unref(l);
  pn_scope_close(c, mark);
}

/* A layer with other tensors in the place of its own: which are refused, which it holds, and that it holds them. */
static void test_stand_ins(pn_context *c) {
  static const struct {
    int k, dtype, ndim; /* of weight 0, bias 1, running mean 2, running variance 3 */
    int64_t shape[2];
    const char *why;
  } row[] = {{0, PN_FLOAT64, 2, {3, 1}, "batch_norm: weight must be float64 of shape [3], got float64 of shape [3, 1]"},
             {1, PN_FLOAT64, 1, {4}, "batch_norm: bias must be float64 of shape [3], got float64 of shape [4]"},
             {1, PN_FLOAT32, 1, {3}, "batch_norm: bias must be float64 of shape [3], got float32 of shape [3]"},
             {2, PN_FLOAT64, 0, {0}, "batch_norm: running_mean must be float64 of shape [3], got float64 of shape []"},
             {3, PN_FLOAT32, 1, {3}, "batch_norm: running_var must be float64 of shape [3], got float32 of shape [3]"},
             {4, PN_FLOAT64, 0, {0}, NULL}};
  size_t mark = pn_scope_open(c);
  pn_layer *l = pn_layer_new(c, "batch_norm", 1, (int64_t[]){3}, PN_FLOAT64, NULL, NULL), *bare;
  int64_t objects = pn_context_objects(c);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    size_t inner = pn_scope_open(c);
    pn_tensor *t[5];
    for (int k = 0; k < 4; k++) t[k] = pn_full(c, PN_FLOAT64, 1, (int64_t[]){3}, 2 + k);
    t[row[i].k] = pn_zeros(c, (pn_dtype)row[i].dtype, row[i].ndim, row[i].shape);
    pn_layer *with = pni_layer_with(c, l, t, t + 2);
    CHECK(!with == (row[i].why != NULL));
    if (row[i].why) CHECK_FAIL(c, PN_SHAPE, row[i].why);
    pn_layer *shares = row[i].why ? NULL : pni_layer_with(c, l, t, NULL);
    for (int k = 0; k < 2 && with; k++) {
      CHECK(pn_layer_param(with, k) == t[k] && pn_layer_buffer(with, k) == t[2 + k]);
      CHECK(pn_layer_buffer(shares, k) == pn_layer_buffer(l, k));
    }
    pn_scope_close(c, inner);
    if (with) CHECK(data(pn_layer_param(with, 1))[2] == 3 && data(pn_layer_buffer(with, 1))[0] == 5);
    pn_layer_unref(with);
    pn_layer_unref(shares);
  }
  CHECK_INT(pn_context_objects(c), objects);
  pn_layer_unref(l);
  /* with a posterior around it */
  double want = 0;
  l = pn_layer_new(c, "linear", 2, (int64_t[]){3, 2}, PN_FLOAT64, NULL, (pn_option[]){{"bias_init", 0, "he"}, {0}});
  pn_tensor *spread[] = {pn_full(c, PN_FLOAT64, 2, (int64_t[]){3, 2}, -1),
                         pn_full(c, PN_FLOAT64, 1, (int64_t[]){2}, 0.5)};
  CHECK(!pni_layer_uncertain(c, l, (pn_tensor *[]){spread[0], spread[0]}));
  CHECK_FAIL(c, PN_SHAPE, "linear: bias must be float64 of shape [2], got float64 of shape [3, 2]");
  pn_layer *q = pni_layer_uncertain(c, l, spread);
  CHECK_STR(pn_layer_type(q), "bayes_linear");
  CHECK_INT(pn_layer_num_params(q), 4);
  for (int k = 0; k < 2; k++) {
    CHECK(pn_layer_param(q, 2 * k) == pn_layer_param(l, k) && pn_layer_param(q, 2 * k + 1) == spread[k]);
    for (int64_t i = 0; i < pn_tensor_numel(spread[k]); i++) {
      double m = data(pn_layer_param(l, k))[i], s = exp(k ? 0.5 : -1);
      want += -log(s) + (s * s + m * m) / 2 - 0.5;
    }
  }
  CHECK_NEAR(item(c, pn_layer_kl(c, q)), want, 1e-13);
  pn_layer_unref(q);
  pn_layer_unref(l);
  bare = pn_layer_new(c, "relu", 0, NULL, PN_FLOAT64, NULL, NULL);
  CHECK(!pni_layer_uncertain(c, bare, spread));
  CHECK_FAIL(c, PN_MISSING, "relu: there is no layer of the kind with a posterior");
  pn_layer_unref(bare);
  pn_scope_close(c, mark);
}

/* What a layer says that it holds: only what exists is counted, within its bounds. */
static void test_holdings(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_option none[] = {{"bias", 0, NULL}, {0}}, plain[] = {{"affine", 0, NULL}, {0}};
  pn_layer *l = pn_layer_new(c, "multi_head_attention", 2, (int64_t[]){4, 2}, PN_FLOAT32, NULL, none);
  pn_layer *b = pn_layer_new(c, "batch_norm", 1, (int64_t[]){3}, PN_FLOAT32, NULL, plain);
  CHECK(pn_layer_num_params(l) == 2 && pn_layer_num_buffers(l) == 0 && pn_layer_num_states(l) == 0);
  CHECK(pn_layer_num_params(b) == 0 && pn_layer_num_buffers(b) == 2);
  CHECK_STR(pn_layer_param_name(l, 1), "out_proj_weight");
  CHECK_STR(pn_layer_param_name(l, 2), NULL);
  CHECK_STR(pn_layer_param_name(l, -1), NULL);
  CHECK_STR(pn_layer_buffer_name(b, 1), "running_var");
  CHECK_STR(pn_layer_buffer_name(b, 2), NULL);
  CHECK(pn_tensor_ndim(pn_layer_param(l, 1)) == 2 && !pn_layer_param(l, 2) && !pn_layer_param(l, -1));
  CHECK(pn_layer_buffer(b, 1) && !pn_layer_buffer(b, 2) && !pn_layer_buffer(b, -1) && !pn_layer_buffer(l, 0));
  CHECK(!pn_layer_param(NULL, 0) && !pn_layer_param_name(NULL, 0) && !pn_layer_buffer(NULL, 0));
  CHECK(!pn_layer_buffer_name(NULL, 0) && !pn_layer_type(NULL) && pn_layer_num_params(NULL) == 0);
  CHECK(pn_layer_num_buffers(NULL) == 0 && pn_layer_num_states(NULL) == 0);
  CHECK(pn_tensor_dtype(pn_layer_kl(c, l)) == PN_FLOAT32 && pn_tensor_dtype(pn_layer_kl(c, b)) == PN_FLOAT64);
  CHECK(!pni_layer_at(-1) && !pni_layer_at(pni_layer_count()) && pni_layer_at(pni_layer_count() - 1) != NULL);
  CHECK(!pni_initialiser_at(-1) && !pni_initialiser_at(pni_initialiser_count()) && pni_initialiser_at(0) != NULL);
  CHECK(!pni_layer_find(NULL) && !pni_initialiser_find(NULL) && pni_layer_at(0) == pni_layer_find("linear"));
  pn_layer_unref(b);
  pn_layer_unref(l);
  pn_scope_close(c, mark);
}

/* ---- loops over the rows ---- */

static pn_layer *layer_of(pn_context *c, const layer_case *k) {
  return pn_layer_new(c, k->name, k->nsizes, k->size, PN_FLOAT64, NULL, k->option);
}

/* Only layers that are random take draws, and only in training; a rate of 0 takes none. */
static void test_draws(pn_context *c) {
  static const layer_case more = {
      .name = "dropout", .option = {{"rate", 0, NULL}}, .nin = 1, .in = {{2, {4, 3}, false}}};
  for (int i = -1; i < pni_layer_count(); i++)
    for (int mode = PN_MODE_TRAINING; mode <= PN_MODE_MEAN; mode++) {
      size_t mark = pn_scope_open(c);
      layer_case k = i < 0 ? more : layer_case_of(pni_layer_at(i));
      pn_layer *l = layer_of(c, &k);
      pn_tensor *in[PNI_LAYER_INPUTS];
      uint64_t before[2], after[2];
      CHECK(l && layer_inputs(c, &k, PN_FLOAT64, in));
      pn_rng_get_state(pn_context_rng(c), before);
      CHECK(pn_layer_call(c, l, k.nin, in, (pn_mode)mode, NULL) != NULL);
      pn_rng_get_state(pn_context_rng(c), after);
      bool bayes = strcmp(k.name, "bayes_linear") == 0, drops = strcmp(k.name, "dropout") == 0 && i >= 0;
      bool draws = (bayes && mode != PN_MODE_MEAN) || (drops && mode == PN_MODE_TRAINING);
      if (!check_record((memcmp(before, after, sizeof before) != 0) == draws)) printf("%s, mode %d\n", k.name, mode);
      pn_layer_unref(l);
      pn_scope_close(c, mark);
    }
}

/* What layers start from where it is one number: of a parameter, or behind these a buffer. */
static void test_starts(pn_context *c) {
  static const struct {
    const char *name;
    int k;
    double value;
  } starts[] = {{"linear", 1, 0},
                {"bilinear", 1, 0},
                {"conv2d", 1, 0},
                {"highway", 1, 0},
                {"highway", 3, -1},
                {"batch_norm", 0, 1},
                {"batch_norm", 1, 0},
                {"batch_norm", 2, 0},
                {"batch_norm", 3, 1},
                {"layer_norm", 0, 1},
                {"layer_norm", 1, 0},
                {"group_norm", 0, 1},
                {"group_norm", 1, 0},
                {"rms_norm", 0, 1},
                {"actnorm", 0, 0},
                {"actnorm", 1, 0},
                {"prelu", 0, 0.25},
                {"conv3d", 1, 0},
                {"conv_transpose1d", 1, 0},
                {"bayes_linear", 2, 0},
                {"multi_head_attention", 1, 0},
                {"multi_head_attention", 3, 0}};
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
    size_t mark = pn_scope_open(c);
    layer_case k = layer_case_of(pni_layer_find(starts[i].name));
    pn_layer *l = layer_of(c, &k);
    int params = pn_layer_num_params(l);
    pn_tensor *t = starts[i].k < params ? pn_layer_param(l, starts[i].k) : pn_layer_buffer(l, starts[i].k - params);
    for (int64_t j = 0; t && j < pn_tensor_numel(t); j++)
      if (!check_record(data(t)[j] == starts[i].value)) printf("%s starts with %g\n", k.name, data(t)[j]);
    CHECK(t != NULL);
    pn_layer_unref(l);
    pn_scope_close(c, mark);
  }
}

/* Of maps A x + b, variances v of independent inputs become A^2 v: A by moving one input after the other, with
 * parameters and buffers that are no starts. */
static void test_affine_moments(pn_context *c) {
  enum { MOST = 200 };
  int seen = 0;
  for (int i = 0; i < pni_layer_count(); i++) {
    const pni_layer *row = pni_layer_at(i);
    if (!row->moments || row->activation || row->kl || strstr(row->name, "max_pool") || strcmp(row->name, "prelu") == 0)
      continue;
    size_t mark = pn_scope_open(c);
    layer_case k = layer_case_of(row);
    pn_layer *start = layer_of(c, &k);
    pn_tensor *x[PNI_LAYER_INPUTS], *param[PNI_LAYER_PARAMS], *buffer[PNI_LAYER_BUFFERS], *mean, *variance;
    double in[MOST], want[MOST] = {0};
    CHECK(layer_inputs(c, &k, PN_FLOAT64, x) && pn_tensor_numel(*x) <= MOST);
    for (int j = 0; j < pn_layer_num_params(start); j++) {
      pn_tensor *p = pn_layer_param(start, j);
      param[j] = pn_add(c, p, pn_randn(c, NULL, PN_FLOAT64, pn_tensor_ndim(p), pn_tensor_shape(p)));
    }
    for (int j = 0; j < pn_layer_num_buffers(start); j++) {
      pn_tensor *b = pn_layer_buffer(start, j);
      buffer[j] = pn_add(c, b, pn_rand(c, NULL, PN_FLOAT64, pn_tensor_ndim(b), pn_tensor_shape(b)));
    }
    pn_layer *l = pni_layer_with(c, start, param, buffer);
    int64_t n = pn_tensor_numel(*x);
    pn_tensor *v = pn_add(c, pn_square(c, *x), pn_scalar(c, PN_FLOAT64, 0.1));
    CHECK_STATUS(c, pn_layer_moments(c, l, *x, v, PN_MODE_EVALUATION, &mean, &variance), PN_OK);
    pn_tensor *y = pn_layer_forward(c, l, *x, PN_MODE_EVALUATION, NULL), *dense = pn_contiguous(c, y);
    int64_t m = pn_tensor_numel(y);
    pn_tensor_copy_out(c, *x, in, n);
    for (int64_t j = 0; j < n; j++) {
      double old = in[j];
      in[j] += 1;
      pn_tensor *moved = pn_from_data(c, PN_FLOAT64, pn_tensor_ndim(*x), pn_tensor_shape(*x), in);
      moved = pn_contiguous(c, pn_layer_forward(c, l, moved, PN_MODE_EVALUATION, NULL));
      for (int64_t o = 0; o < m; o++) want[o] += pow(data(moved)[o] - data(dense)[o], 2) * data(v)[j];
      in[j] = old;
    }
    mean = pn_contiguous(c, mean);
    variance = pn_contiguous(c, variance);
    for (int64_t o = 0; o < m; o++)
      if (!check_record(data(mean)[o] == data(dense)[o] && check_near(data(variance)[o], want[o], 1e-10)))
        printf("%s: variance %g, want %g\n", row->name, data(variance)[o], want[o]);
    seen++;
    pn_layer_unref(l);
    pn_layer_unref(start);
    pn_scope_close(c, mark);
  }
  CHECK(seen >= 15);
}

/* Larger by a factor of 1 an image is what it was, whatever its corners are, of one place as well. */
static void test_same_size(pn_context *c) {
  for (int k = 0; k < 6; k++) {
    size_t mark = pn_scope_open(c);
    pn_option o[] = {{"factor", 1, NULL}, {"align_corners", k & 1, NULL}, {0}};
    pn_layer *l = pn_layer_new(c, "upsample_bilinear", 0, NULL, PN_FLOAT64, NULL, o);
    pn_tensor *x = pn_randn(c, NULL, PN_FLOAT64, 4, (int64_t[]){1, 2, 1 + k / 4, 1 + k / 2});
    pn_tensor *y = pn_contiguous(c, pn_layer_forward(c, l, x, PN_MODE_EVALUATION, NULL));
    for (int64_t i = 0; i < pn_tensor_numel(x); i++) CHECK_NEAR(data(y)[i], data(x)[i], 1e-15);
    pn_layer_unref(l);
    pn_scope_close(c, mark);
  }
}

static void *fails_at(void *left, void *block, size_t old_size, size_t new_size) {
  (void)old_size;
  if (new_size == 0) {
    free(block);
    return NULL;
  }
  return --*(long *)left == 0 ? NULL : realloc(block, new_size);
}

/* Each allocation in turn fails: nothing leaks, nothing crashes. */
static void test_allocation_failure(void) {
  bool done = false;
  for (long at = 1; !done && at < 500; at++) {
    long left = at;
    pn_context_config config = {.allocate = fails_at, .allocator_data = &left, .threads = 1, .pool_limit = PN_NO_POOL};
    pn_context *c = pn_context_new(&config);
    if (!c) continue;
    size_t mark = pn_scope_open(c);
    pn_layer *l = pn_layer_new(c, "bayes_linear", 2, (int64_t[]){2, 2}, PN_FLOAT64, NULL, NULL);
    pn_tensor *y = l ? pn_layer_forward(c, l, normal(c, PN_FLOAT64, 3, 2), PN_MODE_TRAINING, NULL) : NULL;
    done = y && pn_layer_kl(c, l);
    if (!done) CHECK_INT(pn_context_status(c), PN_NOMEM);
    pn_layer_unref(l);
    pn_scope_close(c, mark);
    CHECK_INT(pn_context_objects(c), 0);
    pn_context_close(c);
  }
  CHECK(done);
}

/* A row of options of every kind: what each takes at its bounds and beyond, what is kept, and in which words it is
 * refused. */
static void test_option_kinds(pn_context *c) {
  enum { FLAG, WORD, CLOSED, OPEN, WHOLE, PAIR, TRIPLE, MUST };
  static const pni_option rows[] = {{"flag", "false true", 1, 0, 0, 0, ""},
                                    {"word", "one two three ", 2, 0, 0, 0, ""},
                                    {"closed", NULL, 0.5, -1, 2, PNI_OPTION_CLOSED, ""},
                                    {"open", NULL, 0.75, 0, 1, PNI_OPTION_OPEN, ""},
                                    {"whole", NULL, 3, 1, 9, PNI_OPTION_WHOLE, ""},
                                    {"pair", NULL, PNI_PAIR_OF(2, 7), 1, 300, PNI_OPTION_PAIR, ""},
                                    {"triple", NULL, PNI_TRIPLE_OF(2, 7, 5), 1, 300, PNI_OPTION_TRIPLE, ""},
                                    {"must", NULL, 0, -INFINITY, INFINITY, PNI_OPTION_CLOSED | PNI_OPTION_REQUIRED, ""},
                                    {NULL, NULL, 0, 0, 0, 0, NULL}};
  static const struct {
    int k;
    const char *word;
    double number, want;
    const char *refused;
  } cases[] = {{FLAG, "false", 0, 0, NULL},
               {FLAG, "true", 0, 1, NULL},
               {FLAG, NULL, 0, 0, NULL},
               {FLAG, NULL, 1, 1, NULL},
               {FLAG, "tru", 0, 0, "here: flag must be one of: false true; got 'tru'"},
               {FLAG, NULL, -0.001, 0, "here: flag must be one of: false true; got -0.001"},
               {FLAG, NULL, 1.001, 0, "here: flag must be one of: false true; got 1.001"},
               {FLAG, NULL, NAN, 0, "here: flag must be one of: false true; got"},
               {WORD, "one", 0, 0, NULL},
               {WORD, "two", 0, 1, NULL},
               {WORD, "three", 0, 2, NULL},
               {WORD, "", 0, 0, "here: word must be one of: one two three; got ''"},
               {WORD, "two three", 0, 0, "here: word must be one of: one two three; got 'two three'"},
               {WORD, NULL, 1, 0, "here: word must be one of: one two three ; got 1"},
               {CLOSED, NULL, -1, -1, NULL},
               {CLOSED, NULL, 2, 2, NULL},
               {CLOSED, NULL, -1.5, 0, "here: closed must lie in [-1, 2], got -1.5"},
               {CLOSED, NULL, 2.5, 0, "here: closed must lie in [-1, 2], got 2.5"},
               {CLOSED, NULL, NAN, 0, "here: closed must lie in [-1, 2], got "},
               {CLOSED, "1", 0, 0, "here: closed must be a number, got '1'"},
               {OPEN, NULL, 1, 1, NULL},
               {OPEN, NULL, 5e-324, 5e-324, NULL},
               {OPEN, NULL, 0, 0, "here: open must lie in (0, 1], got 0"},
               {WHOLE, NULL, 1, 1, NULL},
               {WHOLE, NULL, 9, 9, NULL},
               {WHOLE, NULL, 0, 0, "here: whole must be a whole number in [1, 9], got 0"},
               {WHOLE, NULL, 10, 0, "here: whole must be a whole number in [1, 9], got 10"},
               {WHOLE, NULL, 2.5, 0, "here: whole must be a whole number in [1, 9], got 2.5"},
               {WHOLE, "3", 0, 0, "here: whole must be a number, got '3'"},
               {PAIR, NULL, 300, PNI_PAIR_OF(300, 300), NULL},
               {PAIR, "1x300", 0, PNI_PAIR_OF(1, 300), NULL},
               {PAIR, "300x1", 0, PNI_PAIR_OF(300, 1), NULL},
               {PAIR, "0x3", 0, 0, "here: pair must be a whole number in [1, 300] or two of them, got 0x3"},
               {PAIR, "3x301", 0, 0, "here: pair must be a whole number in [1, 300] or two of them, got 3x301"},
               {PAIR, "3", 0, 0, "here: pair must be a whole number in [1, 300] or two of them, got 3"},
               {PAIR, "3x", 0, 0, "or two of them, got 3x"},
               {PAIR, "3x4x5", 0, 0, "or two of them, got 3x4x5"},
               {PAIR, "3x4 ", 0, 0, "or two of them, got 3x4 "},
               {PAIR, NULL, 301, 0, "here: pair must be a whole number in [1, 300] or two of them, got 301"},
               {PAIR, NULL, 2.5, 0, "or two of them, got 2.5"},
               {TRIPLE, NULL, 300, PNI_TRIPLE_OF(300, 300, 300), NULL},
               {TRIPLE, "1x2x300", 0, PNI_TRIPLE_OF(1, 2, 300), NULL},
               {TRIPLE, "300x1x2", 0, PNI_TRIPLE_OF(300, 1, 2), NULL},
               {TRIPLE, "0x1x1", 0, 0, "here: triple must be a whole number in [1, 300] or three of them, got 0x1x1"},
               {TRIPLE, "1x0x1", 0, 0, "or three of them, got 1x0x1"},
               {TRIPLE, "1x1x301", 0, 0, "or three of them, got 1x1x301"},
               {TRIPLE, "3", 0, 0, "or three of them, got 3"},
               {TRIPLE, "3x4", 0, 0, "or three of them, got 3x4"},
               {TRIPLE, "3x4x5x6", 0, 0, "or three of them, got 3x4x5x6"},
               {TRIPLE, NULL, 0, 0, "here: triple must be a whole number in [1, 300] or three of them, got 0"},
               {TRIPLE, NULL, 2.5, 0, "or three of them, got 2.5"},
               {MUST, NULL, -1e300, -1e300, NULL}};
  double v[PNI_OPTIONS];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int k = cases[i].k;
    pn_option given[] = {{"must", 4, NULL}, {rows[k].name, cases[i].number, cases[i].word}, {NULL, 0, NULL}};
    pni_options_read(c, "here", rows, given, v);
    if (cases[i].refused) {
      CHECK_FAIL(c, PN_DOMAIN, cases[i].refused);
      continue;
    }
    CHECK_STATUS(c, pn_context_status(c), PN_OK);
    for (int j = 0; j < MUST; j++) CHECK_NEAR(v[j], j == k ? cases[i].want : rows[j].value, 0);
    CHECK(v[MUST] == (k == MUST ? -1e300 : 4));
  }
  int64_t list[4] = {0, 0, 0, -7};
  CHECK(pni_option_list(&rows[PAIR], rows[PAIR].value, list) == 2 && list[0] == 2 && list[1] == 7);
  CHECK(pni_option_list(&rows[TRIPLE], rows[TRIPLE].value, list) == 3 && list[0] == 2 && list[1] == 7 && list[2] == 5);
  CHECK(pni_option_list(&rows[WHOLE], 3, list) == 1 && list[0] == 3 && list[3] == -7);
  CHECK(pni_option_find(rows, "triple") == TRIPLE && pni_option_find(rows, "tripl") == -1 &&
        pni_option_find(NULL, "flag") == -1);
  char buf[32];
  CHECK_STR(pni_option_word(rows[WORD].choices, 2, buf), "three");
  CHECK_STR(pni_option_word(rows[WORD].choices, 3, buf), "");
  CHECK_STR(pni_option_word(rows[FLAG].choices, 2, buf), "");
  pni_options_read(c, "here", rows, (pn_option[]){{"flag", 0, NULL}, {NULL, 0, NULL}}, v);
  CHECK_FAIL(c, PN_DOMAIN, "here: option must must be given");
  pni_options_read(c, "here", rows, NULL, v);
  CHECK_FAIL(c, PN_DOMAIN, "here: option must must be given");
  pni_options_read(c, "here", rows, (pn_option[]){{"must", 0, NULL}, {"fla", 0, NULL}, {NULL, 0, NULL}}, v);
  CHECK_FAIL(c, PN_DOMAIN, "here: unknown option 'fla'");
  CHECK_STATUS(c, pni_options_read(c, "here", NULL, NULL, v), PN_OK);
  pni_option many[PNI_OPTIONS + 2] = {{NULL, NULL, 0, 0, 0, 0, NULL}};
  for (int k = 0; k <= PNI_OPTIONS; k++) {
    CHECK_STATUS(c, pni_options_read(c, "here", many, NULL, v), PN_OK);
    many[k] = rows[CLOSED];
  }
  pni_options_read(c, "here", many, NULL, v);
  CHECK_FAIL(c, PN_STATE, "here: a row has at most 20 options");
}

int main(void) {
  pn_context *c = pn_context_new(&(pn_context_config){.seed = 7});
  test_linear(c);
  test_linear_gradient(c);
  test_bayes_linear(c);
  test_estimators(c, "local", 1);
  test_estimators(c, "weights", 1);
  test_estimators(c, "local", 0);
  test_dead_row(c, PN_FLOAT64);
  test_dead_row(c, PN_FLOAT32);
  test_initialisers(c);
  test_scales(c);
  test_activations(c);
  test_refusals(c);
  test_inputs(c);
  test_variances(c);
  test_several_inputs(c);
  test_stand_ins(c);
  test_holdings(c);
  test_draws(c);
  test_starts(c);
  test_affine_moments(c);
  test_same_size(c);
  test_option_kinds(c);
  test_allocation_failure();
  CHECK_INT(pn_context_objects(c), 0);
  CHECK_STATUS(c, pn_context_status(c), PN_OK);
  pn_context_close(c);
  CHECK_DONE();
}
