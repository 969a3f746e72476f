/*
** panel_product.h: products of matrices of middle and large size. Of y a panel at a time, some hundred rows of two
** vectors, is packed where the first cache holds it; blocks of rows of x, read as they lie, pass over it. Shapes alone
** decide the order of a sum, so results do not depend on threads.
*/
#ifndef PN_TENSOR_PRODUCT_PANEL_PRODUCT_H
#define PN_TENSOR_PRODUCT_PANEL_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

/* out [m, n], row-major with rows out_row apart, = x [m, k] times y [k, n], or from + that, or from - that; strides in
 * elements. */
typedef struct pni_panel_product {
  int64_t m, n, k, x_row, x_col, y_row, y_col, out_row, from_row;
  const void *x, *y, *from; /* from [m, n]: what is added to, out itself or another, or NULL */
  void *out;
  bool negative;      /* the sum of products changes its sign */
  const void *packed; /* y as a pni_panel_pack_kernel left it, or NULL */
} pni_panel_product;

typedef void pni_panel_product_kernel(const pni_panel_product *p);
/* Packs y [k, n] for products that share it, into pni_panel_room numbers that begin at a multiple of 64 bytes. */
typedef void pni_panel_pack_kernel(const pni_panel_product *p, void *packed);

enum { PNI_PANEL_WIDEST = 32 };
static inline int64_t pni_panel_room(int64_t n, int64_t k) {
  return k * ((n + PNI_PANEL_WIDEST - 1) / PNI_PANEL_WIDEST * PNI_PANEL_WIDEST);
}

/* By element type: float64, float32. */
extern pni_panel_product_kernel *const pni_panel_product_avx2[2], *const pni_panel_product_avx512[2];
extern pni_panel_pack_kernel *const pni_panel_pack_avx2[2], *const pni_panel_pack_avx512[2];

#endif
