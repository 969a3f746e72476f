#include <cblas.h>
#include <stdio.h>
#include <string.h>
#include "../base/cpu.h"
#include "blas.h"
#include "linalg/linalg.h"

/* Present in OpenBLAS only. */
#if defined(__GNUC__)
extern char *openblas_get_config(void) __attribute__((weak));
extern char *openblas_get_corename(void) __attribute__((weak));

void pni_blas_describe(char *out, size_t size) {
  if (!openblas_get_config || !openblas_get_corename) {
    snprintf(out, size, "a CBLAS library");
    return;
  }
  const char *config = openblas_get_config(); /* "OpenBLAS 0.3.21 NO_AFFINITY ..." */
  int n = (int)strcspn(config, " ");
  if (config[n] == ' ') n += 1 + (int)strcspn(config + n + 1, " ");
  snprintf(out, size, "%.*s (%s)", n, config, openblas_get_corename());
}

const char *pni_blas_better_core(void) {
  if (!openblas_get_corename || pni_cpu_level() != PNI_CPU_AVX512) return NULL;
  const char *core = openblas_get_corename();
  return strcmp(core, "Haswell") == 0 || strcmp(core, "Zen") == 0 ? "SkylakeX" : NULL;
}
#else
const char *pni_blas_better_core(void) { return NULL; }
void pni_blas_describe(char *out, size_t size) { snprintf(out, size, "a CBLAS library"); }
#endif

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

static void gemm(const pni_product *j, const char *x, const char *y, char *out, int64_t m) {
  int M = (int)m, N = (int)j->n, K = (int)j->k;
  if (j->dtype == PN_FLOAT64)
    cblas_dgemm(CblasRowMajor, (CBLAS_TRANSPOSE)j->trans_x, (CBLAS_TRANSPOSE)j->trans_y, M, N, K, 1,
                (const double *)(const void *)x, j->ldx, (const double *)(const void *)y, j->ldy, 0,
                (double *)(void *)out, N);
  else
    cblas_sgemm(CblasRowMajor, (CBLAS_TRANSPOSE)j->trans_x, (CBLAS_TRANSPOSE)j->trans_y, M, N, K, 1,
                (const float *)(const void *)x, j->ldx, (const float *)(const void *)y, j->ldy, 0, (float *)(void *)out,
                N);
}

static void run(void *data, int64_t begin, int64_t end) {
  const pni_product *j = data;
  int64_t size = j->dtype == PN_FLOAT64 ? 8 : 4;
  for (int64_t i = begin; i < end; i++) {
    int64_t batch = i / j->blocks, row = i % j->blocks * j->rows, rest = batch, ox = 0, oy = 0;
    for (int a = j->nbatch - 1; a >= 0; a--) {
      int64_t at = rest % j->shape[a];
      rest /= j->shape[a];
      ox += at * j->sx[a];
      oy += at * j->sy[a];
    }
    ox += row * (j->trans_x == CblasNoTrans ? j->ldx : 1);
    int64_t m = row + j->rows < j->m ? j->rows : j->m - row;
    gemm(j, j->x + ox * size, j->y + oy * size, j->out + (batch * j->m + row) * j->n * size, m);
  }
}

/* Strides of t's leading axes when broadcast to out's. */
static void batch_strides(const pn_tensor *t, int nbatch, int64_t *stride) {
  pn_tensor lead = *t;
  lead.ndim = t->ndim - 2;
  pni_broadcast_strides(&lead, nbatch, stride);
}

/* Operands in a layout that BLAS takes. */
static void decide(const pn_tensor *x, const pn_tensor *y, pn_tensor *out, pni_product *j) {
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
  int64_t work = j->m * j->n * j->k + 1;
  j->rows = work > 4000000 && j->m > 64 ? (j->m / 8 + 31) / 32 * 32 : j->m;
  j->blocks = (j->m + j->rows - 1) / j->rows;
  int64_t unit = work / j->blocks;
  j->units = batch * j->blocks;
  j->grain = unit > 1000000 ? 1 : 1000000 / unit + 1;
}

static bool too_large(const pni_product *j) {
  return j->m > INT32_MAX || j->n > INT32_MAX || j->k > INT32_MAX || j->ldx < 0 || j->ldy < 0;
}

/* Plain matrices, or a contiguous batch times one matrix: the kernel for few multiplications, or NULL. */
static pni_tiny_kernel tiny(const pn_tensor *x, const pn_tensor *y, const pn_tensor *out, pni_tiny *turned) {
  if (y->ndim != 2 || out->numel > INT32_MAX || (x->ndim != 2 && !pni_is_contiguous(x))) return NULL;
  pni_tiny p = {.n = y->shape[1], .k = y->shape[0], .x_row = x->stride[x->ndim - 2], .x_col = x->stride[x->ndim - 1]};
  p.m = out->numel / p.n;
  p.y_row = y->stride[0];
  p.y_col = y->stride[1];
  p.x = pni_data(x);
  p.y = pni_data(y);
  p.out = pni_data(out);
  return pni_tiny_choose(x->dtype, &p, turned);
}

pn_status pni_product_run(pn_context *c, const pni_product *p) {
  if (p->kernel) {
    p->kernel(&p->tiny);
    return PN_OK;
  }
  if (p->units < 2 * p->grain) {
    run((void *)(uintptr_t)p, 0, p->units);
    return PN_OK;
  }
  return pni_parallel(c, p->units, p->grain, run, (void *)(uintptr_t)p);
}

static pn_status multiply(pn_context *c, const pn_tensor *x, const pn_tensor *y, pn_tensor *out) {
  pni_product j;
  decide(x, y, out, &j);
  if (too_large(&j)) return pni_fail(c, PN_SHAPE, "matmul: sizes must be below 2^31");
  return pni_product_run(c, &j);
}

bool pni_product_prepare(const pn_tensor *x, const pn_tensor *y, pn_tensor *out, pni_product *p) {
  bool plain = x->ndim == 2 && y->ndim == 2, folds = y->ndim == 2 && pni_is_contiguous(x);
  if ((!plain && !folds) || out->numel == 0 || x->shape[x->ndim - 1] == 0) return false;
  if ((p->kernel = tiny(x, y, out, &p->tiny)) != NULL) return true;
  if (!layout_of(x).ld || !layout_of(y).ld) return false;
  decide(x, y, out, p);
  return !too_large(p);
}

pn_status pni_matmul(pn_context *c, const pn_tensor *x, const pn_tensor *y, pn_tensor *out) {
  if (out->numel == 0) return PN_OK;
  if (x->shape[x->ndim - 1] == 0) {
    memset(pni_data(out), 0, (size_t)out->numel * pni_itemsize(out));
    return PN_OK;
  }
  pni_tiny turned;
  pni_tiny_kernel kernel = tiny(x, y, out, &turned);
  if (kernel) {
    kernel(&turned);
    return PN_OK;
  }
  bool folds = y->ndim == 2 && pni_is_contiguous(x); /* one large product */
  if (!folds && pni_small_matmul(c, x, y, out)) return c->status;
  pn_tensor *a = layout_of(x).ld ? pn_tensor_ref((pn_tensor *)(uintptr_t)x) : pni_contiguous(c, x);
  pn_tensor *b = layout_of(y).ld ? pn_tensor_ref((pn_tensor *)(uintptr_t)y) : pni_contiguous(c, y);
  if (a && b) multiply(c, a, b, out);
  pn_tensor_unref(a);
  pn_tensor_unref(b);
  return c->status;
}
