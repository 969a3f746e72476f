/* small_product.c: which products are tiny, and how they are turned so that the long axis runs along memory. */
#include "small_product.h"
#include <stddef.h>
#include "../../base/processor.h"
#include "../../penumbra.h"

/* The kernels of a level, and the multiplications up to which they were faster than OpenBLAS at that level, of matrices
 * by rows, by scalar products, and with rows of y shorter than 16 bytes (spec/bench/vector.c). Its own kernels for
 * small matrices begin earlier with AVX-512. */
typedef struct {
  const pni_small_product_level *kernels; /* by element type */
  int64_t rows, dots, narrow;
} choice;

static const choice choices[PNI_CPU_LEVELS] = {
    {pni_small_product_portable, 2048, 128, 64},
#if PNI_CPU_X86
    {pni_small_product_avx2, 4096, 128, 64},
    {pni_small_product_avx512, 128, 64, 32},
#endif
};

/* Products of vectors. */
enum { VECTOR_WORK = 1 << 17 };

pni_small_product_kernel pni_small_product_choose(int dtype, const pni_small_product *p, pni_small_product *turned) {
  if (p->m > VECTOR_WORK || p->n > VECTOR_WORK || p->k > VECTOR_WORK) return NULL;
  const choice *way = &choices[pni_cpu_level()];
  const pni_small_product_level *level = &way->kernels[dtype];
  int64_t work = p->m * p->n * p->k;
  bool vector = p->m == 1 || p->n == 1 || p->k == 1;
  if (work > (vector ? VECTOR_WORK : way->rows)) return NULL;
  *turned = *p;
  if (p->n == 1 && (p->x_row == 1 || p->m == 1) && p->m > 1) { /* out' = y' x' */
    *turned = (pni_small_product){1, p->m, p->k, 1, p->y_row, p->x_col, 1, p->y, p->x, p->out};
    return level->rows;
  }
  bool along = (p->x_col == 1 || p->k == 1) && (p->y_row == 1 || p->k == 1);
  if (p->m == 1 && along && p->y_col != 1) { /* out' = y' x' */
    *turned = (pni_small_product){p->n, 1, p->k, p->y_col, 1, 1, 1, p->y, p->x, p->out};
    return level->dots;
  }
  if (along && (p->k >= p->n || p->y_col != 1)) return vector || work <= way->dots ? level->dots : NULL;
  if (p->n * (dtype == PN_FLOAT64 ? 8 : 4) < 16 && p->m > 1 && work > way->narrow) return NULL;
  return p->y_col == 1 || p->n == 1 ? level->rows : NULL;
}

bool pni_small_product_matmul(int dtype, const pni_small_product *p) {
  pni_small_product turned;
  pni_small_product_kernel kernel = pni_small_product_choose(dtype, p, &turned);
  if (kernel) kernel(&turned);
  return kernel != NULL;
}
