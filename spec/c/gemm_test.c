/*
** gemm_test.c: our kernels for products of matrices, at each level that the processor has, against plain sums: every
** layout, sizes around blocks, panels and the length of a sum, results inside larger rows, whose other numbers stay,
** added to and taken from what stands there; with a matrix packed beforehand, to the same bits. Which kernels a process
** takes is another process: this program starts itself with PENUMBRA_PRODUCTS and with an OPENBLAS_CORETYPE that is too
** old.
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../src/base/processor.h"
#include "../../src/tensor/product/blas.h"
#include "../../src/tensor/product/gemm.h"
#include "../../src/tensor/product/panel_product.h"
#include "check.h"

#if PNI_CPU_X86
typedef struct {
  int64_t m, n, k;
  bool turned_x, turned_y, add, negative;
} product_case;

typedef struct pni_own {
  pni_panel_product_kernel *const *product;
  pni_panel_pack_kernel *const *pack;
} pni_own;

static uint64_t state = 1;

static double uniform(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)(state >> 11) * 0x1p-53 - 0.5;
}

#define CHECK_PRODUCT(REAL, is_float, epsilon)                                                                         \
  static void check_##REAL(const pni_own *own, const product_case *q) {                                                \
    enum { APART = 3 };                                                                                                \
    int64_t lx = (q->turned_x ? q->m : q->k) + APART, ly = (q->turned_y ? q->k : q->n) + APART, lo = q->n + APART;     \
    int64_t nx = lx * (q->turned_x ? q->k : q->m), ny = ly * (q->turned_y ? q->n : q->k), no = lo * q->m;              \
    REAL *x = malloc((size_t)nx * sizeof *x), *y = malloc((size_t)ny * sizeof *y);                                     \
    REAL *out = malloc((size_t)no * sizeof *out), *before = malloc((size_t)no * sizeof *out);                          \
    for (int64_t i = 0; i < nx; i++) x[i] = (REAL)uniform();                                                           \
    for (int64_t i = 0; i < ny; i++) y[i] = (REAL)uniform();                                                           \
    for (int64_t i = 0; i < no; i++) out[i] = before[i] = q->add || i % lo >= q->n ? (REAL)uniform() : (REAL)NAN;      \
    pni_panel_product p = {                                                                                            \
        .m = q->m, .n = q->n, .k = q->k, .x_row = q->turned_x ? 1 : lx, .x = x, .y = y, .out = out};                   \
    p.x_col = q->turned_x ? lx : 1;                                                                                    \
    p.y_row = q->turned_y ? 1 : ly;                                                                                    \
    p.y_col = q->turned_y ? ly : 1;                                                                                    \
    p.out_row = p.from_row = lo;                                                                                       \
    p.from = q->add ? out : NULL;                                                                                      \
    p.negative = q->negative;                                                                                          \
    own->product[is_float](&p);                                                                                        \
    double worst = 0;                                                                                                  \
    int64_t touched = 0;                                                                                               \
    for (int64_t i = 0; i < q->m; i++)                                                                                 \
      for (int64_t j = 0; j < lo; j++) {                                                                               \
        double got = (double)out[i * lo + j], was = (double)before[i * lo + j], sum = 0, size = 1;                     \
        if (j >= q->n) {                                                                                               \
          touched += got != was;                                                                                       \
          continue;                                                                                                    \
        }                                                                                                              \
        for (int64_t e = 0; e < q->k; e++) {                                                                           \
          double term = (double)x[i * p.x_row + e * p.x_col] * (double)y[e * p.y_row + j * p.y_col];                   \
          sum += term;                                                                                                 \
          size += fabs(term);                                                                                          \
        }                                                                                                              \
        double error = fabs(got - ((q->add ? was : 0) + (q->negative ? -sum : sum))) / size;                           \
        if (!(error <= worst)) worst = error;                                                                          \
      }                                                                                                                \
    CHECK(worst <= (epsilon)*8); /* a sum of rounded terms; NaN fails too */                                           \
    CHECK(touched == 0);                                                                                               \
    /* packed beforehand, all rows at once and one by one: the same bits */                                            \
    REAL *packed = malloc((size_t)pni_panel_room(q->n, q->k) * sizeof *packed),                                        \
         *again = malloc((size_t)no * sizeof *out);                                                                    \
    own->pack[is_float](&p, packed);                                                                                   \
    p.y = NULL, p.packed = packed, p.out = again, p.from = q->add ? again : NULL;                                      \
    memcpy(again, before, (size_t)no * sizeof *out);                                                                   \
    own->product[is_float](&p);                                                                                        \
    CHECK(memcmp(again, out, (size_t)no * sizeof *out) == 0);                                                          \
    memcpy(again, before, (size_t)no * sizeof *out);                                                                   \
    p.m = 1;                                                                                                           \
    for (int64_t i = 0; i < q->m && i < 40; i++) {                                                                     \
      p.x = x + i * p.x_row, p.out = again + i * lo, p.from = q->add ? p.out : NULL;                                   \
      own->product[is_float](&p);                                                                                      \
      CHECK(memcmp(again + i * lo, out + i * lo, (size_t)q->n * sizeof *out) == 0);                                    \
    }                                                                                                                  \
    /* to the same row each, which is elsewhere: as to a result whose rows are all that one */                         \
    p.m = q->m, p.x = x, p.out = again, p.from = before, p.from_row = 0;                                               \
    own->product[is_float](&p);                                                                                        \
    for (int64_t i = 0; i < no; i++) out[i] = before[i % lo];                                                          \
    p.out = out, p.from = out, p.from_row = lo;                                                                        \
    own->product[is_float](&p);                                                                                        \
    for (int64_t i = 0; i < q->m; i++) CHECK(memcmp(again + i * lo, out + i * lo, (size_t)q->n * sizeof *out) == 0);   \
    free(packed);                                                                                                      \
    free(again);                                                                                                       \
    free(x);                                                                                                           \
    free(y);                                                                                                           \
    free(out);                                                                                                         \
    free(before);                                                                                                      \
  }
CHECK_PRODUCT(double, 0, 0x1p-53)
CHECK_PRODUCT(float, 1, 0x1p-24)

static void check_level(pni_panel_product_kernel *const *product, pni_panel_pack_kernel *const *pack) {
  pni_own own = {product, pack};
  static const int64_t sides[][3] = {{1, 1, 1},     {3, 2, 1},      {14, 32, 24},   {15, 33, 7},   {6, 16, 384},
                                     {13, 31, 385}, {29, 17, 401},  {28, 64, 769},  {7, 100, 193}, {350, 5, 40},
                                     {701, 16, 20}, {43, 129, 800}, {1400, 20, 25}, {2, 8, 2000}};
  for (size_t s = 0; s < sizeof sides / sizeof *sides; s++)
    for (int way = 0; way < 16; way++) {
      product_case q = {sides[s][0], sides[s][1], sides[s][2], way & 1, way & 2, way & 4, way & 8};
      check_double(&own, &q);
      check_float(&own, &q);
    }
}
#endif

/* What a process tells of itself: 1 if its products are ours, 2 if it has advice, 4 if its context has an error. */
static int tell(void) {
  pn_context *c = pn_context_new(NULL);
  if (!c) return 99;
  int answer = (pni_gemm_is_own() ? 1 : 0) + (*pn_context_advice(c) ? 2 : 0) + (pn_context_status(c) ? 4 : 0);
  if (pn_context_advice(NULL) != pn_context_advice(c)) answer += 8;
  /* 40 x 50 x 60 ones: 60 everywhere, whichever kernels take it */
  pn_context_clear_error(c);
  pn_tensor *x = pn_full(c, PN_FLOAT32, 2, (int64_t[]){40, 60}, 1);
  pn_tensor *y = pn_full(c, PN_FLOAT32, 2, (int64_t[]){60, 50}, 1);
  pn_tensor *out = pn_matmul(c, x, y);
  if (!out || pni_element(out, 0) != 60 || pni_element(out, 1999) != 60) answer += 16;
  pn_context_close(c);
  return answer;
}

static int ask(const char *program, const char *products, const char *core) {
  pid_t child = fork();
  if (child == 0) {
    unsetenv(PNI_PRODUCTS_VARIABLE);
    if (products) setenv(PNI_PRODUCTS_VARIABLE, products, 1);
    if (core) setenv("OPENBLAS_CORETYPE", core, 1);
    execl(program, program, "tell", (char *)NULL);
    _exit(98);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 97;
}

int main(int argc, char **argv) {
  if (argc > 1) return tell();
#if PNI_CPU_X86
  CHECK(pni_cpu_level() >= PNI_CPU_AVX2 || !pni_gemm_is_own());
  CHECK(!pni_gemm_prefers_own(true, true, true, 100, 100, 100)); /* whatever the level */
  CHECK(pni_gemm_prefers_own(false, false, false, 100, 200, 200) == (pni_cpu_level() != PNI_CPU_PORTABLE));
  for (int way = 0; way < 6; way++) { /* a narrow side or short sums, but with AVX2 where rows of x' take whole pages */
    bool is_float = way & 1, turned_x = way / 2 == 1, turned_y = way / 2 == 2, ours = pni_cpu_level() >= PNI_CPU_AVX2;
    int side = pni_cpu_level() == PNI_CPU_AVX512 && !is_float ? 1000 : 400;
    CHECK(pni_gemm_prefers_own(is_float, turned_x, turned_y, 5000, side - 1, 784) == ours);
    CHECK(pni_gemm_prefers_own(is_float, turned_x, turned_y, side - 1, 5000, 784) == ours);
    CHECK(pni_gemm_prefers_own(is_float, turned_x, turned_y, side, side + 1, side / 4) == ours);
    CHECK(!pni_gemm_prefers_own(is_float, turned_x, turned_y, side, side + 1, side / 4 + 1));
    CHECK(pni_gemm_prefers_own(is_float, turned_x, turned_y, 4096, 200, 784) ==
          (ours && !(turned_x && pni_cpu_level() == PNI_CPU_AVX2)));
  }
  if (pni_cpu_level() >= PNI_CPU_AVX2) check_level(pni_panel_product_avx2, pni_panel_pack_avx2);
  if (pni_cpu_level() >= PNI_CPU_AVX512) check_level(pni_panel_product_avx512, pni_panel_pack_avx512);
  if (pni_cpu_level() >= PNI_CPU_AVX2) {
    char name[160];
    pni_blas_describe(name, sizeof name);
    CHECK_INT(ask(argv[0], "own", NULL) & 21, 1);
    CHECK_INT(ask(argv[0], "blas", NULL) & 21, 0);
    CHECK_INT(ask(argv[0], "ours", NULL) & 20, 4);
    if (strstr(name, "OpenBLAS")) {
      int major, minor, end = 0; /* the release and its kernels */
      CHECK(sscanf(name, "OpenBLAS %d.%d%*[^ (] (%*[^)])%n", &major, &minor, &end) == 2 && end && !name[end]);
      CHECK_INT(ask(argv[0], NULL, "Prescott"), 3); /* kernels of 2004: ours, and what to do about the rest */
      CHECK_INT(ask(argv[0], "blas", "Prescott"), 2);
      CHECK_INT(ask(argv[0], NULL, pni_cpu_level() == PNI_CPU_AVX512 ? "SkylakeX" : "Haswell"), 0);
    }
  }
#else
  CHECK(!pni_gemm_is_own());
  CHECK_INT(ask(argv[0], "blas", NULL), 0);
  CHECK_INT(ask(argv[0], "ours", NULL), 4);
#endif
  CHECK_DONE();
}
