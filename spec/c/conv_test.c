/*
** conv_test.c: convolution and pooling against SciPy and plain loops, their adjoints, derivatives of first and
** second order, strided, empty and large inputs, and what they refuse.
*/
#include "../../src/tensor/image/conv.h"
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

/* A convolution in plain loops. */
typedef struct {
  int64_t n, ci, co, side[2], kernel[2]; /* channels of one group */
  pn_conv2d_options o;
} geometry;

typedef struct {
  const geometry *of;
  int64_t out[2];
  const double *x, *w, *y; /* y: by what results are weighted */
} plain;

/* Element [a, b, i, j] of x, w or y. */
static int64_t x_at(const plain *p, int64_t a, int64_t b, int64_t i, int64_t j) {
  return ((a * p->of->o.groups * p->of->ci + b) * p->of->side[0] + i) * p->of->side[1] + j;
}
static int64_t w_at(const plain *p, int64_t a, int64_t b, int64_t i, int64_t j) {
  return ((a * p->of->ci + b) * p->of->kernel[0] + i) * p->of->kernel[1] + j;
}
static int64_t y_at(const plain *p, int64_t a, int64_t b, int64_t i, int64_t j) {
  return ((a * p->of->o.groups * p->of->co + b) * p->out[0] + i) * p->out[1] + j;
}

/* Where element j of a kernel lies for place p of the result; is that in the image? */
static bool meets(const geometry *g, int axis, int64_t p, int64_t j, int64_t *place) {
  *place = p * g->o.stride[axis] + j * g->o.dilation[axis] - g->o.padding[axis];
  return *place >= 0 && *place < g->side[axis];
}
/* The place of the result for which it lies at `place`; is there one? */
static bool met(const plain *p, int axis, int64_t place, int64_t j, int64_t *of) {
  int64_t at = place + p->of->o.padding[axis] - j * p->of->o.dilation[axis];
  *of = at / p->of->o.stride[axis];
  return at >= 0 && at % p->of->o.stride[axis] == 0 && *of < p->out[axis];
}

/* Sums of terms and of their sizes. */
typedef struct {
  double sum, size;
} total;
static void add(total *t, double term) {
  t->sum += term;
  t->size += fabs(term);
}

static total forward(const plain *p, const int64_t *at) {
  const geometry *g = p->of;
  total t = {0};
  int64_t row, column;
  for (int64_t k = 0; k < g->ci; k++)
    for (int64_t i = 0; i < g->kernel[0]; i++)
      for (int64_t j = 0; j < g->kernel[1]; j++)
        if (meets(g, 0, at[2], i, &row) && meets(g, 1, at[3], j, &column))
          add(&t, p->x[x_at(p, at[0], at[1] / g->co * g->ci + k, row, column)] * p->w[w_at(p, at[1], k, i, j)]);
  return t;
}

static total adjoint_x(const plain *p, const int64_t *at) {
  const geometry *g = p->of;
  total t = {0};
  int64_t row, column, group = at[1] / g->ci;
  for (int64_t k = group * g->co; k < (group + 1) * g->co; k++)
    for (int64_t i = 0; i < g->kernel[0]; i++)
      for (int64_t j = 0; j < g->kernel[1]; j++)
        if (met(p, 0, at[2], i, &row) && met(p, 1, at[3], j, &column))
          add(&t, p->y[y_at(p, at[0], k, row, column)] * p->w[w_at(p, k, at[1] % g->ci, i, j)]);
  return t;
}

static total adjoint_w(const plain *p, const int64_t *at) {
  const geometry *g = p->of;
  total t = {0};
  int64_t row, column, channel = at[0] / g->co * g->ci + at[1];
  for (int64_t n = 0; n < g->n; n++)
    for (int64_t i = 0; i < p->out[0]; i++)
      for (int64_t j = 0; j < p->out[1]; j++)
        if (meets(g, 0, i, at[2], &row) && meets(g, 1, j, at[3], &column))
          add(&t, p->y[y_at(p, n, at[0], i, j)] * p->x[x_at(p, n, channel, row, column)]);
  return t;
}

static double *numbers(C *c, T *t) {
  int64_t n = t ? pn_tensor_numel(t) : 0;
  double *v = malloc((size_t)(n + 1) * sizeof *v);
  CHECK_STATUS(c, pn_tensor_copy_out(c, pn_cast(c, t, PN_FLOAT64), v, n), PN_OK);
  return v;
}

/* Largest |got - want| beside the size of what is summed, of some hundred elements. */
static double off(C *c, T *t, const plain *p, total (*want)(const plain *p, const int64_t *at)) {
  double *got = numbers(c, t), worst = 0;
  const int64_t *shape = pn_tensor_shape(t), n = pn_tensor_numel(t), step = n / 300 + 1;
  for (int64_t k = 0; k < n; k = k < n - 1 && k + step >= n ? n - 1 : k + step) {
    int64_t at[4], rest = k;
    for (int m = 3; m >= 0; rest /= shape[m--]) at[m] = rest % shape[m];
    total sum = want(p, at);
    worst = fmax(worst, fabs(got[k] - sum.sum) / (sum.size + 1e-300));
  }
  free(got);
  return worst;
}

static void products(C *c, pn_dtype dtype) {
  static const geometry of[] = {
      /* channels innermost: batches that are several tiles and parts of one, gaps, edges and groups */
      {7, 9, 5, {7, 9}, {3, 2}, {{1, 1}, {0, 0}, {1, 1}, 1, {0}}},
      {5, 8, 3, {9, 8}, {3, 3}, {{2, 3}, {1, 2}, {1, 1}, 2, {0}}},
      {3, 11, 4, {8, 9}, {2, 3}, {{1, 2}, {2, 3}, {3, 2}, 2, {0}}},
      {70, 13, 6, {12, 5}, {3, 3}, {{1, 1}, {1, 1}, {1, 1}, 1, {0}}},  /* several images a tile */
      {2, 130, 3, {20, 15}, {5, 5}, {{1, 1}, {2, 2}, {1, 1}, 1, {0}}}, /* several tiles an image */
      /* others: a row of patches as long as a tile, longer, longer by one place; parts of products */
      {2, 2, 3, {6, 4099}, {4, 4}, {{1, 1}, {0, 0}, {1, 1}, 1, {0}}},
      {2, 12, 2, {7, 610}, {5, 5}, {{1, 1}, {1, 2}, {1, 1}, 2, {0}}},
      {2, 7, 3, {6, 1600}, {5, 5}, {{2, 2}, {1, 2}, {1, 1}, 1, {0}}},
      {1, 16, 530, {4, 515}, {4, 4}, {{1, 1}, {0, 0}, {1, 1}, 1, {0}}},
      /* split by columns, and one place of the kernel */
      {3, 3, 2, {9, 11}, {3, 4}, {{2, 3}, {2, 1}, {1, 2}, 2, {0}}},
      {3, 5, 4, {30, 41}, {1, 1}, {{1, 1}, {0, 0}, {1, 1}, 2, {0}}},
      {2, 300, 2, {2, 600}, {1, 1}, {{1, 1}, {0, 0}, {1, 1}, 1, {0}}},
      {2, 3, 2, {9, 11}, {1, 1}, {{2, 1}, {0, 1}, {1, 1}, 1, {0}}},
      {2, 3, 2, {9, 20}, {1, 1}, {{2, 1}, {0, 0}, {1, 1}, 1, {0}}},
      {2, 3, 2, {9, 20}, {1, 1}, {{1, 1}, {1, 0}, {1, 1}, 1, {0}}},
      {2, 3, 2, {9, 20}, {3, 1}, {{1, 1}, {0, 0}, {1, 1}, 1, {0}}},
  };
  double allowed = dtype == PN_FLOAT64 ? 1e-14 : 4e-6;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    size_t mark = pn_scope_open(c);
    const geometry *g = &of[i];
    T *x = pn_randn(c, NULL, dtype, SHAPE(g->n, g->o.groups * g->ci, g->side[0], g->side[1]));
    T *w = pn_randn(c, NULL, dtype, SHAPE(g->o.groups * g->co, g->ci, g->kernel[0], g->kernel[1]));
    T *in[] = {pn_param(c, x), pn_param(c, w)}, *y = pn_conv2d(c, in[0], in[1], &g->o), *adjoint[2];
    T *by = pn_randn(c, NULL, dtype, 4, pn_tensor_shape(y));
    CHECK_STATUS(c, pn_grad(c, pn_sum(c, pn_mul(c, y, by), PN_ALL, 0), 2, in, 0, adjoint), PN_OK);
    double *v[] = {numbers(c, x), numbers(c, w), numbers(c, by)};
    plain p = {g, {pn_tensor_shape(y)[2], pn_tensor_shape(y)[3]}, v[0], v[1], v[2]};
    double worst[] = {off(c, y, &p, forward), off(c, adjoint[0], &p, adjoint_x), off(c, adjoint[1], &p, adjoint_w)};
    for (int k = 0; k < 3; k++) {
      if (!check_record(worst[k] <= allowed)) printf("convolution %zu, product %d: error %g\n", i, k, worst[k]);
      free(v[k]);
    }
    pn_scope_close(c, mark);
  }
}

/* Sums over so many channels that they are added up in parts. */
static void many_channels(C *c) {
  static const geometry g = {1, 2, 1100, {4, 4099}, {4, 4}, {{1, 1}, {0, 0}, {1, 1}, 1, {0}}};
  size_t mark = pn_scope_open(c);
  T *y = pn_rand(c, NULL, PN_FLOAT32, SHAPE(1, g.co, 1, 4096)), *w = pn_rand(c, NULL, PN_FLOAT32, SHAPE(g.co, 2, 4, 4));
  double *v[] = {numbers(c, w), numbers(c, y)};
  plain p = {&g, {1, 4096}, NULL, v[0], v[1]};
  CHECK(off(c, pn_conv_transpose2d(c, y, w, &g.o), &p, adjoint_x) < 4e-6);
  free(v[0]), free(v[1]);
  pn_scope_close(c, mark);
}

/* Patches are made a tile at a time: bytes beside the result are those of a tile, not of all patches. */
static void memory(void) {
  static const struct {
    geometry of;
    size_t most; /* numbers */
  } large[] = {
      {{1, 1, 1, {400, 400}, {5, 5}, {{1, 1}, {2, 2}, {1, 1}, 1, {0}}}, 1 << 18},
      {{1, 2, 1, {3, 70000}, {3, 3}, {{1, 1}, {1, 1}, {1, 1}, 1, {0}}}, 1 << 18},
      {{1, 40, 1, {5, 700}, {5, 5}, {{1, 1}, {2, 2}, {1, 1}, 1, {0}}}, (1 << 17) + (1 << 15)},
      {{1, 8, 1, {200, 15}, {3, 3}, {{1, 1}, {1, 1}, {1, 1}, 1, {0}}}, (1 << 15) + 8 * 200 * 15 + 4096},
      {{64, 16, 2, {6, 6}, {3, 3}, {{1, 1}, {1, 1}, {1, 1}, 1, {0}}}, (1 << 16) + 4096},
      {{1, 20, 2, {30, 30}, {1, 1}, {{1, 1}, {0, 0}, {1, 1}, 1, {0}}}, 4096},
  };
  for (size_t i = 0; i < sizeof large / sizeof *large; i++)
    for (int k = 0; k < 3; k++) { /* forward, adjoint in the image, in the weight */
      const geometry *g = &large[i].of;
      C *c = pn_context_new(&(pn_context_config){.threads = 1});
      T *x = pn_zeros(c, PN_FLOAT64, SHAPE(g->n, g->ci, g->side[0], g->side[1])), *r = NULL;
      T *w = pn_zeros(c, PN_FLOAT64, SHAPE(g->co, g->ci, g->kernel[0], g->kernel[1]));
      T *y = pn_zeros(c, PN_FLOAT64, SHAPE(g->n, g->co, g->side[0], g->side[1]));
      size_t before = pn_context_memory(c, NULL), peak;
      if (k == 0) r = pn_conv2d(c, x, w, &g->o);
      if (k == 1) r = pn_conv_transpose2d(c, y, w, &g->o);
      if (k == 2) r = pn_conv2d_weight(c, x, y, g->kernel[0], g->kernel[1], &g->o);
      pn_context_memory(c, &peak);
      size_t beside = peak - before - (size_t)pn_tensor_numel(r) * sizeof(double);
      if (!check_record(r && beside <= large[i].most * sizeof(double)))
        printf("large convolution %zu, product %d: %zu numbers beside\n", i, k, beside / sizeof(double));
      pn_context_close(c);
    }
}

/* Which images are turned: of many channels, with gaps or short rows, and not those that are their patches. */
static void turned(void) {
  pni_conv g = {1, 1, 8, 4, {20, 15}, {1, 2}, {20, 14}, {1, 1}, {0, 0}, {1, 1}};
  CHECK(pni_conv_turns(&g));
  g.out[1] = 15;
  CHECK(pni_conv_turns(&g));
  g.out[1] = 16;
  CHECK(!pni_conv_turns(&g));
  g.stride[1] = 2;
  CHECK(pni_conv_turns(&g));
  g.ci = 7;
  CHECK(!pni_conv_turns(&g));
  const pni_conv point = {1, 1, 9, 4, {20, 15}, {1, 1}, {20, 15}, {1, 1}, {0, 0}, {1, 1}};
  CHECK(!pni_conv_turns(&point));
  for (int k = 0; k < 6; k++) {
    pni_conv h = point;
    *(k < 2 ? &h.stride[k] : k < 4 ? &h.padding[k - 2] : &h.kernel[k - 4]) += 1;
    CHECK(pni_conv_turns(&h));
  }
}

/* ---- pooling against plain loops, window by window and by blocks, with ties ---- */

enum { LARGEST, MEAN, INSIDE, POOLS };

static T *pooled(C *c, T *x, int what, const int64_t (*w)[2]) {
  return what == LARGEST ? pn_max_pool2d(c, x, w[0], w[1], w[2]) : pn_avg_pool2d(c, x, w[0], w[1], w[2], what == MEAN);
}

/* Windows have room of their own where there are more than 32 for each element of the image, else none. */
static void windows(void) {
  static const int64_t of[][4] = {/* rows, columns, rows of a window, padding: windows of one column, two rows apart */
                                  {128, 5, 64, 31},
                                  {128, 5, 66, 32},
                                  {128, 5, 62, 30},
                                  {512, 1, 64, 31}};
  for (int way = 0; way < 12; way++) {
    const int64_t *g = of[way % 4];
    C *c = pn_context_new(&(pn_context_config){.threads = 1});
    T *x = pn_param(c, pn_zeros(c, PN_FLOAT64, SHAPE(1, 1, g[0], g[1])));
    size_t before = pn_context_memory(c, NULL), peak;
    T *y = pooled(c, way < 4 ? pn_detach(c, x) : x,
                  way < 4   ? LARGEST
                  : way < 8 ? MEAN
                            : INSIDE,
                  (const int64_t[][2]){{g[2], 1}, {2, 1}, {g[3], 0}});
    pn_context_memory(c, &peak);
    CHECK_INT(pn_tensor_shape(y)[2], g[0] / 2);
    CHECK((peak > pn_context_memory(c, NULL)) == (g[2] == 66));
    CHECK(peak >= before);
    pn_context_close(c);
  }
}

static void planes(C *c, pn_dtype dtype) {
  static const int64_t of[][4][2] = {/* image; window: sizes, strides, padding */
                                     {{9, 7}, {2, 3}, {2, 2}, {1, 1}},    {{8, 20}, {3, 2}, {1, 4}, {0, 1}},
                                     {{23, 17}, {7, 9}, {1, 1}, {3, 4}},  {{16, 40}, {16, 5}, {1, 1}, {2, 0}},
                                     {{11, 30}, {6, 20}, {2, 1}, {3, 7}}, {{30, 13}, {29, 13}, {1, 3}, {4, 6}}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    for (int what = 0; what < POOLS; what++) {
      size_t mark = pn_scope_open(c);
      const int64_t *side = of[i][0], *size = of[i][1], *stride = of[i][2], *padding = of[i][3];
      T *eight = pn_scalar(c, dtype, 8), *adjoint;
      T *x = pn_param(c, pn_floor(c, pn_mul(c, pn_rand(c, NULL, dtype, SHAPE(2, 3, side[0], side[1])), eight)));
      T *y = pooled(c, x, what, of[i] + 1), *by = pn_rand(c, NULL, dtype, 4, pn_tensor_shape(y));
      CHECK_STATUS(c, pn_grad(c, pn_sum(c, pn_mul(c, y, by), PN_ALL, 0), 1, &x, 0, &adjoint), PN_OK);
      double *v = numbers(c, x), *got = numbers(c, y), *g = numbers(c, by), *slope = numbers(c, adjoint), worst = 0;
      int64_t rows = pn_tensor_shape(y)[2], columns = pn_tensor_shape(y)[3], plane = side[0] * side[1];
      for (int64_t k = 0; k < 6 * rows * columns; k++) {
        int64_t i0 = k / columns % rows * stride[0] - padding[0], j0 = k % columns * stride[1] - padding[1], first = -1;
        int64_t *inside = malloc((size_t)(size[0] * size[1]) * sizeof *inside), count = 0;
        double sum = 0;
        for (int64_t a = i0; a < i0 + size[0]; a++)
          for (int64_t b = j0; b < j0 + size[1]; b++) {
            if (a < 0 || b < 0 || a >= side[0] || b >= side[1]) continue;
            int64_t place = k / columns / rows * plane + a * side[1] + b;
            sum += v[inside[count++] = place];
            if (first < 0 || v[place] > v[first]) first = place;
          }
        double share = 1 / (double)(what == MEAN ? size[0] * size[1] : count);
        worst = fmax(worst, fabs(got[k] - (what == LARGEST ? v[first] : sum * share)));
        if (what == LARGEST) slope[first] -= g[k];
        for (int64_t m = 0; what != LARGEST && m < count; m++) slope[inside[m]] -= g[k] * share;
        free(inside);
      }
      for (int64_t k = 0; k < 6 * plane; k++) worst = fmax(worst, fabs(slope[k]));
      if (!check_record(worst <= (dtype == PN_FLOAT64 ? 1e-13 : 5e-5)))
        printf("pooling %zu, %d: error %g\n", i, what, worst);
      free(v), free(got), free(g), free(slope);
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

/* `program blas`: the same products where none is ours, which a process decides once. */
static void by_blas(const char *program) {
  char line[4096];
  snprintf(line, sizeof line, "PENUMBRA_PRODUCTS=blas '%s' blas >&2", program);
  CHECK_INT(system(line), 0);
}

int main(int argc, char **argv) {
  C *c = pn_context_new(&(pn_context_config){.seed = 5, .threads = 2});
  if (argc > 1) {
    products(c, PN_FLOAT64);
    products(c, PN_FLOAT32);
    pn_context_close(c);
    CHECK_DONE();
  }
  by_blas(argv[0]);
  adaptive_pools();
  convolutions(c);
  pooling(c);
  adjoints(c, 3, 9, 2, 3);
  adjoints(c, 3, 10, 2, 4);
  adjoints(c, 2, 150, 16, 3); /* several tiles */
  adjoints(c, 40, 17, 4, 1);  /* several shards */
  adjoints(c, 40, 11, 9, 3);  /* channels innermost */
  products(c, PN_FLOAT64);
  products(c, PN_FLOAT32);
  many_channels(c);
  planes(c, PN_FLOAT64);
  planes(c, PN_FLOAT32);
  turned();
  empty(c);
  errors(c);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  memory();
  windows();
  batches(3, 20);
  batches(9, 15);
  sweep("convolutions", work, NULL);
  CHECK_DONE();
}
