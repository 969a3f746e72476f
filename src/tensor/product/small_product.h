/*
** small_product.h: products of a few multiplications, and of vectors, where a call of BLAS costs more than the arithmetic. Which
** products come here depends on shape and strides alone, so results do not depend on threads.
*/
#ifndef PN_TENSOR_PRODUCT_SMALL_PRODUCT_H
#define PN_TENSOR_PRODUCT_SMALL_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

/* out [m, n], row-major, = x [m, k] times y [k, n]; strides in elements. */
typedef struct pni_tiny {
  int64_t m, n, k, x_row, x_col, y_row, y_col;
  const void *x, *y;
  void *out;
} pni_tiny;

/* Returns false, having done nothing, for products that BLAS does better. */
bool pni_tiny_matmul(int dtype, const pni_tiny *p);

typedef void (*pni_tiny_kernel)(const pni_tiny *p);
/* The kernel of a product, to be called with *turned (where x and y may have changed places); NULL for products
 * that BLAS does better. */
pni_tiny_kernel pni_tiny_choose(int dtype, const pni_tiny *p, pni_tiny *turned);

typedef struct pni_tiny_level {
  void (*rows)(const pni_tiny *p); /* y_col = 1 */
  void (*dots)(const pni_tiny *p); /* x_col = 1 and y_row = 1 */
} pni_tiny_level;

/* By element type: float64, float32. */
extern const pni_tiny_level pni_tiny_portable[2], pni_tiny_avx2[2], pni_tiny_avx512[2];

#endif
