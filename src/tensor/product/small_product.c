/* small_product.c: which products are tiny, and how they are turned so that the long axis runs along memory. */
#include "small_product.h"
#include <stddef.h>
#include "../../base/processor.h"

static const pni_small_product_level *level_of(int dtype) {
#if PNI_CPU_X86
  int level = pni_cpu_level();
  if (level == PNI_CPU_AVX512) return &pni_small_product_avx512[dtype];
  if (level == PNI_CPU_AVX2) return &pni_small_product_avx2[dtype];
#endif
  return &pni_small_product_portable[dtype];
}

/* Multiplications up to which our loops were faster than OpenBLAS (spec/bench/vector.c). */
enum { VECTOR_WORK = 1 << 17, MATRIX_WORK = 64 };

pni_small_product_kernel pni_small_product_choose(int dtype, const pni_small_product *p, pni_small_product *turned) {
  if (p->m > VECTOR_WORK || p->n > VECTOR_WORK || p->k > VECTOR_WORK) return NULL;
  int64_t work = p->m * p->n * p->k;
  bool vector = p->m == 1 || p->n == 1 || p->k == 1;
  if (work > (vector ? VECTOR_WORK : MATRIX_WORK)) return NULL;
  const pni_small_product_level *level = level_of(dtype);
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
  if (along && (p->k >= p->n || p->y_col != 1)) return level->dots;
  return p->y_col == 1 || p->n == 1 ? level->rows : NULL;
}

bool pni_small_product_matmul(int dtype, const pni_small_product *p) {
  pni_small_product turned;
  pni_small_product_kernel kernel = pni_small_product_choose(dtype, p, &turned);
  if (kernel) kernel(&turned);
  return kernel != NULL;
}
