/* gemm.c: whose kernels a product takes. */
#include "gemm.h"
#include <stdio.h>
#include <string.h>
#include "../../base/processor.h"
#include "../../penumbra.h"
#include "panel_product.h"

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

static bool is_one_of(const char *name, const char *const *list) {
  while (*list && strcmp(name, *list) != 0) list++;
  return *list != NULL;
}

/* A release falls back to its oldest kernels for processors that are younger than it. */
const char *pni_blas_better_core(void) {
  static const char *const avx512[] = {"SkylakeX", "Cooperlake", "SapphireRapids", NULL};
  static const char *const avx2[] = {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids", NULL};
  if (!openblas_get_corename || pni_cpu_level() == PNI_CPU_PORTABLE) return NULL;
  bool large = pni_cpu_level() == PNI_CPU_AVX512;
  if (is_one_of(openblas_get_corename(), large ? avx512 : avx2)) return NULL;
  return large ? "SkylakeX" : "Haswell";
}
#else
const char *pni_blas_better_core(void) { return NULL; }
void pni_blas_describe(char *out, size_t size) { snprintf(out, size, "a CBLAS library"); }
#endif

#if PNI_CPU_X86
/* The kernels of the processor's level, or NULL for BLAS. */
static pni_panel_product_kernel *const *own_kernels(void) {
  static pni_panel_product_kernel *const *const by_level[PNI_CPU_LEVELS] = {NULL, pni_panel_product_avx2,
                                                                            pni_panel_product_avx512};
  return by_level[pni_cpu_level()];
}

/* A constant of the process, written before any function of the library can be called, as in processor.c; that file's
 * level comes first. */
static enum { BLAS_ALONE, BY_TABLE, OWN } settled;

__attribute__((constructor)) static void settle(void) {
  int wanted = pni_products_wanted();
  if (!own_kernels() || wanted == 0) return;
  settled = wanted == 1 || pni_blas_better_core() != NULL ? OWN : BY_TABLE;
}

/* Where ours take no longer than OpenBLAS's best kernels (spec/bench/gemm.c says which entries are wrong): of up to
 * SMALL multiplications by level, element type, and x y, x y' or x' y, as OpenBLAS has kernels of its own for small
 * ones with AVX-512; of more, results with a side below `narrow` and sums of at most a quarter of that, but with AVX2
 * for x' y where a row of x takes whole pages. What is larger is OpenBLAS's, and x' y'. Its packing shows where sums
 * are SHORT. */
enum { SMALL = 1000000, SHORT = 32, PAGE = 4096 };
static const bool own[PNI_CPU_LEVELS][2][3] = {
    [PNI_CPU_AVX2] = {{true, true, true}, {true, true, true}},
    [PNI_CPU_AVX512] = {{false, true, false}, {false, true, false}},
};
static const int narrow[PNI_CPU_LEVELS][2] = {[PNI_CPU_AVX2] = {400, 400}, [PNI_CPU_AVX512] = {1000, 400}};

bool pni_gemm_prefers_own(bool is_float, bool turned_x, bool turned_y, int64_t m, int64_t n, int64_t k) {
  double work = (double)m * (double)n * (double)k;
  if ((turned_x && turned_y) || !own_kernels()) return false;
  if (work <= SMALL) return own[pni_cpu_level()][is_float][turned_x ? 2 : turned_y];
  if (k <= SHORT && !turned_x && !turned_y) return true;
  int least = narrow[pni_cpu_level()][is_float];
  bool pages = turned_x && m % (PAGE / (is_float ? 4 : 8)) == 0 && pni_cpu_level() == PNI_CPU_AVX2;
  return ((m < n ? m : n) < least || k <= least / 4) && !pages;
}

bool pni_gemm_is_ours(bool is_float, CBLAS_TRANSPOSE trans_x, CBLAS_TRANSPOSE trans_y, int64_t m, int64_t n,
                      int64_t k) {
  if (settled == BLAS_ALONE || k <= 0) return false;
  return settled == OWN || pni_gemm_prefers_own(is_float, trans_x != CblasNoTrans, trans_y != CblasNoTrans, m, n, k);
}

bool pni_gemm_takes_bias(int64_t n, int64_t k) {
  enum { LEAST = 16 }; /* columns that fill vectors */
  return settled != BLAS_ALONE && k > 0 && k <= SHORT && n >= LEAST;
}

void pni_gemm_run(bool is_float, CBLAS_TRANSPOSE trans_x, int ldx, CBLAS_TRANSPOSE trans_y, int ldy,
                  pni_panel_product *p) {
  bool tx = trans_x != CblasNoTrans, ty = trans_y != CblasNoTrans;
  p->x_row = tx ? 1 : ldx;
  p->x_col = tx ? ldx : 1;
  p->y_row = ty ? 1 : ldy;
  p->y_col = ty ? ldy : 1;
  own_kernels()[is_float](p);
}

int64_t pni_gemm_pack_size(int64_t n, int64_t k) { return settled != BLAS_ALONE ? pni_panel_room(n, k) : 0; }

void pni_gemm_pack(bool is_float, int64_t n, int64_t k, const void *y, void *packed) {
  static pni_panel_pack_kernel *const *const by_level[PNI_CPU_LEVELS] = {NULL, pni_panel_pack_avx2,
                                                                         pni_panel_pack_avx512};
  pni_panel_product p = {.n = n, .k = k, .y_row = n, .y_col = 1, .y = y};
  by_level[pni_cpu_level()][is_float](&p, packed);
}

void pni_gemm_packed(bool is_float, int64_t m, int64_t n, int64_t k, const void *x, const void *packed, bool add,
                     void *out) {
  pni_panel_product p = {.m = m, .n = n, .k = k, .x_row = k, .x_col = 1, .out_row = n, .x = x, .out = out};
  if (add) {
    p.from = out;
    p.from_row = n;
  }
  p.packed = packed;
  own_kernels()[is_float](&p);
}

bool pni_gemm_is_own(void) { return settled == OWN; }

#define OLDER(what, core)                                                                                              \
  "OpenBLAS runs kernels for older processors than this one: " what " of large matrices take two to three times as "   \
  "long; set OPENBLAS_CORETYPE=" core " before the program starts"
const char *pn_context_advice(const pn_context *c) {
  static const char *const texts[2][2] = {
      {OLDER("products and factorisations", "Haswell"), OLDER("products and factorisations", "SkylakeX")},
      {OLDER("factorisations", "Haswell"), OLDER("factorisations", "SkylakeX")}};
  const char *core = pni_blas_better_core();
  (void)c;
  return core ? texts[settled == OWN][strcmp(core, "SkylakeX") == 0] : "";
}

/* Takes a product unless it is none of ours. */
static bool take(int is_float, CBLAS_TRANSPOSE trans_x, CBLAS_TRANSPOSE trans_y, int m, int n, int k, double alpha,
                 const void *x, int ldx, const void *y, int ldy, double beta, void *out, int ld) {
  if ((alpha != 1 && alpha != -1) || (beta != 0 && beta != 1)) return false;
  if (!pni_gemm_is_ours(is_float, trans_x, trans_y, m, n, k)) return false;
  pni_panel_product p = {.m = m, .n = n, .k = k, .out_row = ld, .from_row = ld, .x = x, .y = y, .out = out};
  p.from = beta == 1 ? out : NULL;
  p.negative = alpha == -1;
  pni_gemm_run(is_float, trans_x, ldx, trans_y, ldy, &p);
  return true;
}
#else
int64_t pni_gemm_pack_size(int64_t n, int64_t k) { return (void)n, (void)k, 0; }
void pni_gemm_pack(bool is_float, int64_t n, int64_t k, const void *y, void *packed) {
  (void)is_float, (void)n, (void)k, (void)y, (void)packed;
}
void pni_gemm_packed(bool is_float, int64_t m, int64_t n, int64_t k, const void *x, const void *packed, bool add,
                     void *out) {
  (void)is_float, (void)m, (void)n, (void)k, (void)x, (void)packed, (void)add, (void)out;
}
bool pni_gemm_is_own(void) { return false; }
bool pni_gemm_takes_bias(int64_t n, int64_t k) { return (void)n, (void)k, false; }
bool pni_gemm_is_ours(bool is_float, CBLAS_TRANSPOSE trans_x, CBLAS_TRANSPOSE trans_y, int64_t m, int64_t n,
                      int64_t k) {
  return (void)is_float, (void)trans_x, (void)trans_y, (void)m, (void)n, (void)k, false;
}
void pni_gemm_run(bool is_float, CBLAS_TRANSPOSE trans_x, int ldx, CBLAS_TRANSPOSE trans_y, int ldy,
                  pni_panel_product *p) {
  (void)is_float, (void)trans_x, (void)ldx, (void)trans_y, (void)ldy, (void)p;
}
bool pni_gemm_prefers_own(bool is_float, bool turned_x, bool turned_y, int64_t m, int64_t n, int64_t k) {
  return (void)is_float, (void)turned_x, (void)turned_y, (void)m, (void)n, (void)k, false;
}
const char *pn_context_advice(const pn_context *c) { return (void)c, ""; }
#endif

#if PNI_CPU_X86
#define TAKEN(is_float) take(is_float, trans_x, trans_y, m, n, k, alpha, x, ldx, y, ldy, beta, out, ld)
#else
#define TAKEN(is_float) false
#endif

void pni_sgemm(CBLAS_TRANSPOSE trans_x, CBLAS_TRANSPOSE trans_y, int m, int n, int k, float alpha, const float *x,
               int ldx, const float *y, int ldy, float beta, float *out, int ld) {
  if (!TAKEN(1)) cblas_sgemm(CblasRowMajor, trans_x, trans_y, m, n, k, alpha, x, ldx, y, ldy, beta, out, ld);
}

void pni_dgemm(CBLAS_TRANSPOSE trans_x, CBLAS_TRANSPOSE trans_y, int m, int n, int k, double alpha, const double *x,
               int ldx, const double *y, int ldy, double beta, double *out, int ld) {
  if (!TAKEN(0)) cblas_dgemm(CblasRowMajor, trans_x, trans_y, m, n, k, alpha, x, ldx, y, ldy, beta, out, ld);
}
