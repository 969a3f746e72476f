/*
** slope.h: what a row of layer.def tells of an elementwise activation f, so that code whose loops have both f and its
** slope (infer/sites) knows no activation by name.
*/
#ifndef PN_NN_SLOPE_H
#define PN_NN_SLOPE_H

typedef enum pni_slope_kind {
  PNI_SLOPE_IDENTITY,
  PNI_SLOPE_RELU, /* x above 0, first x below */
  PNI_SLOPE_ELU,  /* second x above 0, second first (e^x - 1) below */
  PNI_SLOPE_GELU,
  PNI_SLOPE_SILU,
  PNI_SLOPE_TANH,
  PNI_SLOPE_SIGMOID,
  PNI_SLOPE_SOFTPLUS,
  PNI_SLOPE_SOFTSIGN,
  PNI_SLOPE_HARD_SWISH,
  PNI_SLOPE_MISH,
  PNI_SLOPE_CLAMP /* factor x + shift, limited to [first, second] */
} pni_slope_kind;

/* The numbers of the kind: the layer's option of that name, or where it is NULL the constant. */
typedef struct pni_slope {
  pni_slope_kind kind;
  const char *first, *second, *factor; /* factor NULL: 1 */
  double first_value, second_value, shift;
} pni_slope;

#endif
