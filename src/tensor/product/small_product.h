/*
** small_product.h: products of a few multiplications, and of vectors, where a call of BLAS costs more than the
** arithmetic. Which products come here depends on shape and strides alone, so results do not depend on threads.
*/
#ifndef PN_TENSOR_PRODUCT_SMALL_PRODUCT_H
#define PN_TENSOR_PRODUCT_SMALL_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

/* out [m, n], row-major, = x [m, k] times y [k, n]; strides in elements. */
typedef struct pni_small_product {
  int64_t m, n, k, x_row, x_col, y_row, y_col;
  const void *x, *y;
  void *out;
} pni_small_product;

/* Returns false, having done nothing, for products that BLAS does better. */
bool pni_small_product_matmul(int dtype, const pni_small_product *p);

typedef void (*pni_small_product_kernel)(const pni_small_product *p);
/* The kernel of a product, to be called with *turned (where x and y may have changed places); NULL for products
 * that BLAS does better. */
pni_small_product_kernel pni_small_product_choose(int dtype, const pni_small_product *p, pni_small_product *turned);

typedef struct pni_small_product_level {
  void (*rows)(const pni_small_product *p); /* y_col = 1 */
  void (*dots)(const pni_small_product *p); /* x_col = 1 and y_row = 1 */
} pni_small_product_level;

/* By element type: float64, float32. */
extern const pni_small_product_level pni_small_product_portable[2], pni_small_product_avx2[2],
    pni_small_product_avx512[2];

#endif
