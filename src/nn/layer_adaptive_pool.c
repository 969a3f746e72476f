/*
** layer_adaptive_pool.c: pooling to a given size. Of n places and m windows the window i is floor(i n / m) .. ceil((i +
** 1) n / m) - 1, PyTorch's rule: windows of sizes that differ by one or two, and overlap where m does not divide n. The
** places of each window are taken beside each other, as many as the largest window has, so that a pool of windows of
** one size does the rest.
*/
#include "../autodiff/op/op.h"
#include "layer.h"

enum { SIZE, MOST = 1 << 16 };

/* Windows of one axis. */
typedef struct {
  int64_t n, m, most; /* places, windows, places of the largest window */
} windows;

static int64_t first_of(const windows *w, int64_t i) { return i * w->n / w->m; }
static int64_t count_of(const windows *w, int64_t i) { return ((i + 1) * w->n + w->m - 1) / w->m - first_of(w, i); }

static windows windows_of(int64_t n, int64_t m) {
  windows w = {n, m, n / m};
  for (int64_t i = 0; i < m; i++) w.most = count_of(&w, i) > w.most ? count_of(&w, i) : w.most;
  return w;
}

/* The windows' places one after another; of smaller windows the last place again. Scoped. */
static pn_tensor *places_of(pn_context *c, const windows *w) {
  int64_t n = pni_times(w->m, w->most), *at = pni_alloc_array(c, n, sizeof *at);
  for (int64_t i = 0; at && i < n; i++) {
    int64_t k = i / w->most, j = i % w->most, last = count_of(w, k) - 1;
    at[i] = first_of(w, k) + (j < last ? j : last);
  }
  pn_tensor *t = at ? pn_from_data(c, PN_INT64, 1, &n, at) : NULL;
  pni_free(c, at);
  return t;
}

/* Of each place: true where it is the window's own. Scoped; along columns, or along rows. */
static pn_tensor *own_of(pn_context *c, const windows *w, bool rows) {
  int64_t n = pni_times(w->m, w->most), shape[] = {n, 1};
  uint8_t *own = pni_alloc_array(c, n, sizeof *own);
  for (int64_t i = 0; own && i < n; i++) own[i] = i % w->most < count_of(w, i / w->most);
  pn_tensor *t = own ? pn_from_data(c, PN_BOOL, rows ? 2 : 1, shape, own) : NULL;
  pni_free(c, own);
  return t;
}

/* most / count of each window, by which a mean with zeros for what is not there grows. Scoped. */
static pn_tensor *share_of(pn_context *c, const windows *w, pn_dtype dtype, bool rows) {
  int64_t shape[] = {w->m, 1};
  double *share = pni_alloc_array(c, w->m, sizeof *share);
  for (int64_t i = 0; share && i < w->m; i++) share[i] = (double)w->most / (double)count_of(w, i);
  pn_tensor *t = share ? pn_from_data(c, PN_FLOAT64, rows ? 2 : 1, shape, share) : NULL;
  pni_free(c, share);
  return pn_cast(c, t, dtype);
}

/* x [n, channels, rows, columns] pooled to m[0] rows and m[1] columns. */
static pn_tensor *adapt(pn_context *c, pn_tensor *x, const int64_t m[2], bool mean) {
  int64_t kernel[2];
  pn_tensor *share[2] = {NULL, NULL};
  for (int k = 0; k < 2 && x; k++) {
    windows w = windows_of(x->shape[2 + k], m[k]);
    kernel[k] = w.most;
    if (w.n % w.m == 0) continue;
    x = pn_take(c, x, 2 + k, places_of(c, &w));
    if (!mean || !x) continue;
    x = pn_where(c, own_of(c, &w, k == 0), x, pni_like(c, x, 0));
    share[k] = x ? share_of(c, &w, (pn_dtype)x->dtype, k == 0) : NULL;
  }
  if (!x) return NULL;
  if (!mean) return pn_max_pool2d(c, x, kernel, kernel, NULL);
  pn_tensor *y = pn_avg_pool2d(c, x, kernel, kernel, NULL, 1);
  for (int k = 0; k < 2; k++)
    if (share[k]) y = pn_mul(c, y, share[k]);
  return y;
}

static pn_tensor *over_volume(pn_context *c, pn_tensor *x, const int64_t m[3], bool mean) {
  int64_t n = x->shape[0], channels = x->shape[1], depth = x->shape[2], all = pni_times(m[1], m[2]);
  pn_tensor *y = pn_reshape(c, x, 4, (int64_t[]){n, pni_times(channels, depth), x->shape[3], x->shape[4]});
  y = pn_reshape(c, adapt(c, y, m + 1, mean), 4, (int64_t[]){n, channels, depth, all});
  return pn_reshape(c, adapt(c, y, (int64_t[]){m[0], all}, mean), 5, (int64_t[]){n, channels, m[0], m[1], m[2]});
}

static pn_tensor *run(pn_context *c, const pn_layer *l, const pni_layer_call *call, bool mean) {
  pn_tensor *x = call->in[0];
  int64_t m[3];
  int axes = pni_option_list(&l->type->options[SIZE], l->option[SIZE], m);
  for (int k = 0; k < axes; k++)
    if (x->shape[2 + k] < 1) {
      pni_fail(c, PN_SHAPE, "%s: input must have at least one place along each axis, got size %lld", l->type->name,
               (long long)x->shape[2 + k]);
      return NULL;
    }
  if (!pni_is_float(x)) {
    pni_fail(c, PN_DTYPE, "%s: input must be float64 or float32, got %s", l->type->name,
             pn_dtype_name((pn_dtype)x->dtype));
    return NULL;
  }
  if (axes == 3) return over_volume(c, x, m, mean);
  if (axes == 2) return adapt(c, x, m, mean);
  return pn_squeeze(c, adapt(c, pn_unsqueeze(c, x, 2), (int64_t[]){1, m[0]}, mean), 2);
}

static pn_tensor *forward_mean(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  return run(c, l, call, true);
}
static pn_tensor *forward_max(pn_context *c, const pn_layer *l, const pni_layer_call *call) {
  return run(c, l, call, false);
}

#define TABLE(id, kind)                                                                                                \
  static const pni_option id[] = {                                                                                     \
      {"size", NULL, 0, 1, MOST, kind | PNI_OPTION_REQUIRED, "windows along each axis, what comes out"}, {0}}
TABLE(flat, PNI_OPTION_WHOLE);
TABLE(image, PNI_OPTION_PAIR);
TABLE(volume, PNI_OPTION_TRIPLE);
#undef TABLE

#define ROW(id, text, shape, table, way)                                                                               \
  const pni_layer pni_layer_##id = {.name = #id,                                                                       \
                                    .doc = text " of `size` windows along each axis, as even as whole numbers can "    \
                                                "be: " shape,                                                          \
                                    .input = {{"x", shape, 0}},                                                        \
                                    .options = table,                                                                  \
                                    .forward = way};
ROW(adaptive_avg_pool1d, "mean", "[batch, channels, length]", flat, forward_mean)
ROW(adaptive_avg_pool2d, "mean", "[batch, channels, height, width]", image, forward_mean)
ROW(adaptive_avg_pool3d, "mean", "[batch, channels, depth, height, width]", volume, forward_mean)
ROW(adaptive_max_pool1d, "largest element", "[batch, channels, length]", flat, forward_max)
ROW(adaptive_max_pool2d, "largest element", "[batch, channels, height, width]", image, forward_max)
ROW(adaptive_max_pool3d, "largest element", "[batch, channels, depth, height, width]", volume, forward_max)
#undef ROW
