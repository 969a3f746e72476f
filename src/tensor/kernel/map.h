/*
** map.h: names of the elementwise kernels. A kernel is a pni_map_kernel: operand 0 is the output, whose
** stride is 1; inputs may have any stride (0 repeats one value). map_real.c holds the bodies.
*/
#ifndef PN_TENSOR_KERNEL_MAP_H
#define PN_TENSOR_KERNEL_MAP_H

#include "../tensor.h"

/* clang-format off */
#define PNI_UNARY_KERNELS(X) \
  X(neg) X(abs) X(sign) X(square) X(sqrt) X(rsqrt) X(reciprocal) X(exp) X(expm1) X(log) X(log1p) X(log1mexp) \
  X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(asinh) X(acosh) X(atanh) X(tanh) X(sigmoid) \
  X(log_sigmoid) X(softplus) X(relu) X(erf) X(erfc) X(erfcx) X(erfinv) X(ndtr) X(log_ndtr) X(ndtri) X(lgamma) X(digamma) \
  X(log_ndtri) X(expintx) X(floor) X(ceil) X(round)

#define PNI_BINARY_KERNELS(X) \
  X(add) X(sub) X(mul) X(div) X(pow) X(maximum) X(minimum) X(atan2) X(logaddexp) X(xlogy) X(remainder) \
  X(gammainc) X(gammainc_grad_a) X(relu_slope) X(larger_share) X(floor_divide)
/* clang-format on */

#define PNI_COMPARE_KERNELS(X) X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(logical_and) X(logical_or)

#define PNI_TEST_KERNELS(X) X(isnan) X(isinf) X(isfinite) X(logical_not)

#define X(name)                                                                                                        \
  void pni_##name##_f64(void *, int64_t, char *const *, const int64_t *);                                              \
  void pni_##name##_f32(void *, int64_t, char *const *, const int64_t *);
PNI_UNARY_KERNELS(X)
PNI_BINARY_KERNELS(X)
PNI_COMPARE_KERNELS(X)
PNI_TEST_KERNELS(X)
#undef X

#define PNI_INT_UNARY_KERNELS(X)  X(neg) X(abs) X(sign) X(square)
#define PNI_INT_BINARY_KERNELS(X) X(add) X(sub) X(mul) X(maximum) X(minimum) X(remainder) X(floor_divide)

#define X(name) void pni_##name##_i64(void *, int64_t, char *const *, const int64_t *);
PNI_INT_UNARY_KERNELS(X)
PNI_INT_BINARY_KERNELS(X)
PNI_COMPARE_KERNELS(X)
PNI_TEST_KERNELS(X)
#undef X

#define X(name) void pni_##name##_b(void *, int64_t, char *const *, const int64_t *);
PNI_COMPARE_KERNELS(X)
PNI_TEST_KERNELS(X)
#undef X

/* out = condition ? x : y, by element size; operands out, condition, x, y. */
void pni_where_8(void *, int64_t, char *const *, const int64_t *);
void pni_where_4(void *, int64_t, char *const *, const int64_t *);
void pni_where_1(void *, int64_t, char *const *, const int64_t *);
/* out = min(max(x, low), high); data is const double[2]. NaN stays NaN. */
void pni_clamp_f64(void *, int64_t, char *const *, const int64_t *);
void pni_clamp_f32(void *, int64_t, char *const *, const int64_t *);
/* out = g where low <= x <= high, NaN where x is, else 0; operands out, g, x. */
void pni_clamp_slope_f64(void *, int64_t, char *const *, const int64_t *);
void pni_clamp_slope_f32(void *, int64_t, char *const *, const int64_t *);
/* out = x above 0, else slope x; data is const double *. And its gradient: operands out, g, the result. */
void pni_leaky_relu_f64(void *, int64_t, char *const *, const int64_t *);
void pni_leaky_relu_f32(void *, int64_t, char *const *, const int64_t *);
void pni_leaky_relu_slope_f64(void *, int64_t, char *const *, const int64_t *);
void pni_leaky_relu_slope_f32(void *, int64_t, char *const *, const int64_t *);
/* out = the n-th derivative of digamma; data is const int64_t *. */
void pni_polygamma_f64(void *, int64_t, char *const *, const int64_t *);
void pni_polygamma_f32(void *, int64_t, char *const *, const int64_t *);

#endif
