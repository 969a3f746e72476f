#include <string.h>
#include "../../base/subnormal.h"
#include "blas.h"
#include "../lapack/linalg.h"
#include "gemm.h"
#include "small_batch.h"

/* How CBLAS sees a matrix: plain, transposed, or (ld = 0) not at all. */
typedef struct {
  CBLAS_TRANSPOSE trans;
  int ld;
} layout;

static layout layout_of(const pn_tensor *t) {
  int64_t rows = t->shape[t->ndim - 2], cols = t->shape[t->ndim - 1];
  int64_t rs = t->stride[t->ndim - 2], cs = t->stride[t->ndim - 1];
  if ((cs == 1 || cols == 1) && (rs >= cols || rows == 1))
    return (layout){CblasNoTrans, (int)(rows == 1 ? (cols > 1 ? cols : 1) : rs)};
  if ((rs == 1 || rows == 1) && (cs >= rows || cols == 1))
    return (layout){CblasTrans, (int)(cols == 1 ? (rows > 1 ? rows : 1) : cs)};
  return (layout){CblasNoTrans, 0};
}

#define BIAS(T, suffix)                                                                                                \
  static void add_##suffix(T *restrict out, const T *b, int64_t step, int64_t m, int64_t n) {                          \
    for (int64_t i = 0; i < m; i++, out += n)                                                                          \
      for (int64_t k = 0; k < n; k++) out[k] += b[k * step];                                                           \
  }
BIAS(double, f64)
BIAS(float, f32)

/* Every row of the m x n part of the result that begins at `out` and at column `at` becomes the bias: rows that follow
 * one another are copied many at a time. */
static void fill_bias(const pni_product *j, char *out, int64_t at, int64_t m, int64_t n) {
  enum { NEAR = 16384 };
  int64_t size = j->dtype == PN_FLOAT64 ? 8 : 4, row = n * size, most = n == j->n && row < NEAR ? NEAR / row : 1;
  const char *from = (const char *)j->bias + at * j->bias_step * size;
  if (j->bias_step == 1)
    memcpy(out, from, (size_t)row);
  else
    for (int64_t k = 0; k < n; k++) memcpy(out + k * size, from + k * j->bias_step * size, (size_t)size);
  for (int64_t i = 1, take; i < m; i += take) {
    take = i < most ? i : most;
    if (take > m - i) take = m - i;
    memcpy(out + i * j->n * size, out, (size_t)(take * row));
  }
}

static void set_bias(pni_product *j, const pn_tensor *bias) {
  j->bias = bias ? pni_data(bias) : NULL;
  j->bias_step = bias ? bias->stride[0] : 0;
}

/* bias (may be NULL) is added to every row of the contiguous out. */
static void add_bias(const pn_tensor *bias, pn_tensor *out) {
  if (!bias) return;
  int64_t n = bias->shape[0], m = out->numel / n;
  if (out->dtype == PN_FLOAT64)
    add_f64(pni_data(out), pni_data(bias), bias->stride[0], m, n);
  else
    add_f32(pni_data(out), pni_data(bias), bias->stride[0], m, n);
}

/* A product, and who is asked whether time is over. */
typedef struct {
  const pni_product *p;
  pn_context *c;
} job;

/* Multiplications that take a tenth of a second: more are not begun at once. */
#define LONGEST 1.5e9

/* out = x y + beta out, m x n, over k, by BLAS. */
static void multiply_part(const pni_product *j, const char *x, const char *y, char *out, int64_t m, int64_t n,
                          int64_t k, double beta) {
  int M = (int)m, N = (int)n, K = (int)k, ld = (int)j->n;
  if (j->dtype == PN_FLOAT64) {
    cblas_dgemm(CblasRowMajor, (CBLAS_TRANSPOSE)j->trans_x, (CBLAS_TRANSPOSE)j->trans_y, M, N, K, 1,
                (const double *)(const void *)x, j->ldx, (const double *)(const void *)y, j->ldy, beta,
                (double *)(void *)out, ld);
    return;
  }
  unsigned before = pni_flush_subnormals();
  cblas_sgemm(CblasRowMajor, (CBLAS_TRANSPOSE)j->trans_x, (CBLAS_TRANSPOSE)j->trans_y, M, N, K, 1,
              (const float *)(const void *)x, j->ldx, (const float *)(const void *)y, j->ldy, (float)beta,
              (float *)(void *)out, ld);
  pni_keep_subnormals(before);
}

/* out = x y + from by kernels of ours; from is the bias where it is the same in each row. */
static void multiply_ours(const pni_product *j, const char *x, const char *y, char *out, int64_t m, int64_t n,
                          int64_t k, const void *from, int64_t from_row) {
  bool is_float = j->dtype == PN_FLOAT32;
  pni_panel_product p = {.m = m, .n = n, .k = k, .out_row = j->n, .x = x, .y = y, .out = out};
  p.from = from;
  p.from_row = from_row;
  unsigned before = is_float ? pni_flush_subnormals() : 0;
  pni_gemm_run(is_float, (CBLAS_TRANSPOSE)j->trans_x, j->ldx, (CBLAS_TRANSPOSE)j->trans_y, j->ldy, &p);
  if (is_float) pni_keep_subnormals(before);
}

/* out = x y for m rows and n columns, the first of which is `at`, of the whole result, whose rows are j->n apart. What
 * is added to is the bias instead of zeros; sums that take long are added up in parts. */
static void gemm(const job *w, const char *x, const char *y, char *out, int64_t at, int64_t m, int64_t n) {
  const pni_product *j = w->p;
  double most = LONGEST / ((double)m * (double)n) + 1;
  int64_t part = most < (double)j->k ? (int64_t)most : j->k, size = j->dtype == PN_FLOAT64 ? 8 : 4;
  bool adjacent = j->ours && j->bias && j->bias_step == 1;
  if (j->bias && !adjacent) fill_bias(j, out, at, m, n);
  for (int64_t first = 0; first < j->k; first += part) {
    int64_t k = j->k - first < part ? j->k - first : part;
    const char *from_x = x + first * (j->trans_x == CblasNoTrans ? 1 : j->ldx) * size;
    const char *from_y = y + first * (j->trans_y == CblasNoTrans ? j->ldy : 1) * size;
    if (first && pni_leaves(w->c)) return;
    if (!j->ours)
      multiply_part(j, from_x, from_y, out, m, n, k, j->bias || first ? 1 : 0);
    else if (adjacent && !first)
      multiply_ours(j, from_x, from_y, out, m, n, k, (const char *)j->bias + at * size, 0);
    else
      multiply_ours(j, from_x, from_y, out, m, n, k, j->bias || first ? out : NULL, j->n);
  }
}

/* Parts of one matrix that follow one another are one of ours. */
static void run(void *data, int64_t begin, int64_t end) {
  const job *w = data;
  const pni_product *j = w->p;
  int64_t size = j->dtype == PN_FLOAT64 ? 8 : 4;
  for (int64_t i = begin, parts; i < end; i += parts) {
    int64_t batch = i / j->blocks, at = i % j->blocks * j->part, rest = batch, ox = 0, oy = 0;
    parts = !j->ours ? 1 : end - i < j->blocks - i % j->blocks ? end - i : j->blocks - i % j->blocks;
    for (int a = j->nbatch - 1; a >= 0; a--) {
      int64_t k = rest % j->shape[a];
      rest /= j->shape[a];
      ox += k * j->sx[a];
      oy += k * j->sy[a];
    }
    char *out = j->out + batch * j->m * j->n * size;
    int64_t whole = j->columns ? j->n : j->m, part = at + parts * j->part < whole ? parts * j->part : whole - at;
    if (j->columns) {
      oy += at * (j->trans_y == CblasNoTrans ? 1 : j->ldy);
      gemm(w, j->x + ox * size, j->y + oy * size, out + at * size, at, j->m, part);
    } else {
      ox += at * (j->trans_x == CblasNoTrans ? j->ldx : 1);
      gemm(w, j->x + ox * size, j->y + oy * size, out + at * j->n * size, 0, part, j->n);
    }
  }
}

/* Strides of t's leading axes when broadcast to out's. */
static void batch_strides(const pn_tensor *t, int nbatch, int64_t *stride) {
  pn_tensor lead = *t;
  lead.ndim = t->ndim - 2;
  pni_broadcast_strides(&lead, nbatch, stride);
}

/* A product is cut into parts of its longer side, as every part packs the other operand anew: parts of about PART
 * multiplications and at least SIDE rows or columns, two parts where there is less of either. That costs one thread a
 * few hundredths of a product (measured with OpenBLAS: 784x100 by 100x200 in two 1.02, 100x784 by 784x200 1.06, tall
 * ones in eight 0.95). Shards of a batch are some of its products. No shard takes longer than a tenth of a second, as
 * none is interrupted but where a sum is cut. Shapes alone decide. */
static void cut(pni_product *j, int64_t batch) {
  enum { PART = 8000000, LEAST = 750000, MOST = 8, SIDE = 96, COLUMNS = 8, ROWS = 4, SMALL = 1000000 };
  double all = (double)j->m * (double)j->n * (double)j->k;
  int64_t work = (int64_t)(all < 9e18 ? all : 9e18) + 1, parts = (work + PART / 2) / PART;
  j->columns = j->n > j->m;
  int64_t whole = j->columns ? j->n : j->m;
  if (parts < 2) parts = work >= LEAST ? 2 : 1;
  if (batch >= MOST) parts = 1;
  if (parts > MOST) parts = MOST;
  if (parts > 1 && parts > whole / SIDE) parts = whole < SIDE ? 1 : whole < 2 * SIDE ? 2 : whole / SIDE;
  if (all > MOST * LONGEST) parts = (int64_t)(all / LONGEST);
  int64_t step = j->columns ? COLUMNS : ROWS;
  if (parts > whole / step) parts = whole / step;
  j->part = parts > 1 ? (whole + parts * step - 1) / (parts * step) * step : whole;
  j->blocks = (whole + j->part - 1) / j->part;
  int64_t unit = work / j->blocks;
  j->units = batch * j->blocks;
  j->grain = j->blocks > 1 || unit > SMALL ? 1 : SMALL / unit + 1;
  j->together = 2 * (double)unit < LONGEST ? (int64_t)(LONGEST / 2 / (double)unit) : 1;
}

/* Operands in a layout that BLAS takes. */
static void decide(const pn_tensor *x, const pn_tensor *y, const pn_tensor *bias, pn_tensor *out, pni_product *j) {
  int nb = (x->ndim > y->ndim ? x->ndim : y->ndim) - 2;
  layout lx = layout_of(x), ly = layout_of(y);
  *j = (pni_product){.trans_x = (int)lx.trans, .trans_y = (int)ly.trans, .ldx = lx.ld, .ldy = ly.ld, .dtype = x->dtype};
  j->nbatch = nb;
  j->shape = out->shape;
  j->m = x->shape[x->ndim - 2];
  j->n = y->shape[y->ndim - 1];
  j->k = x->shape[x->ndim - 1];
  j->x = pni_data(x);
  j->y = pni_data(y);
  j->out = pni_data(out);
  batch_strides(x, nb, j->sx);
  batch_strides(y, nb, j->sy);
  int64_t batch = pni_count(nb, out->shape);
  /* one folded product when y is shared and x's rows run on */
  if (batch > 1 && y->ndim == 2 && pni_is_contiguous(x) && j->m * batch <= INT32_MAX) {
    j->m *= batch;
    j->nbatch = 0;
    j->trans_x = CblasNoTrans;
    j->ldx = (int)(j->k > 1 ? j->k : 1);
    batch = 1;
  }
  set_bias(j, bias);
  j->ours = pni_gemm_is_ours(j->dtype == PN_FLOAT32, lx.trans, ly.trans, j->m, j->n, j->k);
  if (j->bias && j->bias_step == 1 && lx.trans == CblasNoTrans) j->ours |= pni_gemm_takes_bias(j->n, j->k);
  cut(j, batch);
}

static bool too_large(const pni_product *j) {
  return j->m > INT32_MAX || j->n > INT32_MAX || j->k > INT32_MAX || j->ldx < 0 || j->ldy < 0;
}

/* Plain matrices, or a contiguous batch times one matrix: the kernel for few multiplications, or NULL. */
static pni_small_product_kernel tiny(const pn_tensor *x, const pn_tensor *y, const pn_tensor *out,
                                     pni_small_product *turned) {
  if (y->ndim != 2 || out->numel > INT32_MAX || (x->ndim != 2 && !pni_is_contiguous(x))) return NULL;
  pni_small_product p = {.n = y->shape[1],
                         .k = y->shape[0],
                         .x_row = x->ndim == 2 ? x->stride[0] : y->shape[0],
                         .x_col = x->stride[x->ndim - 1]};
  p.m = out->numel / p.n;
  p.y_row = y->stride[0];
  p.y_col = y->stride[1];
  p.x = pni_data(x);
  p.y = pni_data(y);
  p.out = pni_data(out);
  return pni_small_product_choose(x->dtype, &p, turned);
}

static void run_small(pni_small_product_kernel kernel, const pni_small_product *p, int dtype) {
  if (dtype == PN_FLOAT64) {
    kernel(p);
    return;
  }
  unsigned before = pni_flush_subnormals();
  kernel(p);
  pni_keep_subnormals(before);
}

pn_status pni_product_run(pn_context *c, const pni_product *p) {
  if (p->kernel) {
    run_small(p->kernel, &p->tiny, p->out_tensor->dtype);
    add_bias(p->added, p->out_tensor);
    return PN_OK;
  }
  job w = {p, c};
  bool alone = p->ours && p->together > p->grain && c->num_threads == 1;
  return pni_parallel(c, p->units, alone ? p->together : p->grain, run, &w);
}

static pn_status multiply(pn_context *c, const pn_tensor *x, const pn_tensor *y, const pn_tensor *bias,
                          pn_tensor *out) {
  pni_product j;
  decide(x, y, bias, out, &j);
  if (too_large(&j)) return pni_fail(c, PN_SHAPE, "matmul: sizes must be below 2^31");
  return pni_product_run(c, &j);
}

bool pni_product_prepare(const pn_tensor *x, const pn_tensor *y, const pn_tensor *bias, pn_tensor *out,
                         pni_product *p) {
  bool plain = x->ndim == 2 && y->ndim == 2, folds = y->ndim == 2 && pni_is_contiguous(x);
  if ((!plain && !folds) || out->numel == 0 || x->shape[x->ndim - 1] == 0) return false;
  p->added = bias;
  p->out_tensor = out;
  if ((p->kernel = tiny(x, y, out, &p->tiny)) != NULL) return true;
  if (!layout_of(x).ld || !layout_of(y).ld) return false;
  decide(x, y, bias, out, p);
  return !too_large(p);
}

pn_status pni_matmul(pn_context *c, const pn_tensor *x, const pn_tensor *y, const pn_tensor *bias, pn_tensor *out) {
  if (out->numel == 0) return PN_OK;
  bool empty = x->shape[x->ndim - 1] == 0;
  if (empty) memset(pni_data(out), 0, (size_t)out->numel * pni_itemsize(out));
  pni_small_product turned;
  pni_small_product_kernel kernel = empty ? NULL : tiny(x, y, out, &turned);
  if (kernel) run_small(kernel, &turned, out->dtype);
  bool folds = y->ndim == 2 && pni_is_contiguous(x); /* one large product */
  if (empty || kernel || (!folds && (pni_small_batch(c, x, y, out) || pni_lane_matmul(c, x, y, out)))) {
    if (!pni_failed(c)) add_bias(bias, out);
    return c->status;
  }
  pn_tensor *a = layout_of(x).ld ? pn_tensor_ref((pn_tensor *)(uintptr_t)x) : pni_contiguous(c, x);
  pn_tensor *b = layout_of(y).ld ? pn_tensor_ref((pn_tensor *)(uintptr_t)y) : pni_contiguous(c, y);
  if (a && b) multiply(c, a, b, bias, out);
  pn_tensor_unref(a);
  pn_tensor_unref(b);
  return c->status;
}
