/*
** affine.c: y = loc + scale x for numbers, scale not 0: log |dy/dx| = log |scale|.
*/
#include "bijector.h"

typedef pn_tensor T;
typedef pn_context C;
typedef pn_bijector B;
enum { LOC, SCALE };
#define loc   b->param[LOC]
#define scale b->param[SCALE]

static T *forward(C *c, B *b, T *x) { return pn_add(c, loc, pn_mul(c, scale, x)); }
static T *inverse(C *c, B *b, T *y) { return pn_div(c, pn_sub(c, y, loc), scale); }
static T *log_abs_det(C *c, B *b, T *x, T *y) { return (void)x, (void)y, pn_log(c, pn_abs(c, scale)); }

static T *sign(C *c, B *b) { return pn_sign(c, scale); }

const pni_bijector pni_bijector_affine = {
    .name = "affine",
    .doc = "y = loc + scale x, scale not 0",
    .source = "definition",
    .param = {{.name = "loc", .constraint = &pni_constraint_real, .axes = "", .optional = true, .absent = 0},
              {.name = "scale", .constraint = &pni_constraint_nonzero, .axes = "", .optional = true, .absent = 1}},
    .domain = &pni_constraint_real,
    .codomain = &pni_constraint_real,
    .in = "",
    .out = "",
    .flags = PNI_BIJECTOR_AFFINE | PNI_BIJECTOR_EVEN,
    .forward = forward,
    .inverse = inverse,
    .log_abs_det = log_abs_det,
    .sign = sign};

/* ---- vectors ---- */

enum { SHIFT, TRIL };
#define shift b->param[SHIFT]
#define L     b->param[TRIL]
#define LAST  ((pn_axes){1, {-1}})

static T *tril_forward(C *c, B *b, T *x) {
  return pn_add(c, shift, pn_squeeze(c, pn_matmul(c, L, pn_unsqueeze(c, x, -1)), -1));
}

static T *tril_inverse(C *c, B *b, T *y) {
  return pn_squeeze(c, pn_solve_triangular(c, L, pn_unsqueeze(c, pn_sub(c, y, shift), -1), 0, 0), -1);
}

static T *tril_log_abs_det(C *c, B *b, T *x, T *y) {
  return (void)x, (void)y, pn_sum(c, pn_log(c, pn_diagonal(c, L)), LAST, 0);
}

static T *tril_variance(C *c, B *b, T *v) {
  return pn_squeeze(c, pn_matmul(c, pn_square(c, L), pn_unsqueeze(c, v, -1)), -1);
}

const pni_bijector pni_bijector_affine_tril = {
    .name = "affine_tril",
    .doc = "y = loc + L x for vectors, L = scale_tril lower triangular with positive diagonal",
    .source = "definition",
    .param = {{.name = "loc", .constraint = &pni_constraint_real_vector, .axes = "n"},
              {.name = "scale_tril", .constraint = &pni_constraint_lower_cholesky, .axes = "nn"}},
    .domain = &pni_constraint_real_vector,
    .codomain = &pni_constraint_real_vector,
    .in = "n",
    .out = "n",
    .flags = PNI_BIJECTOR_AFFINE | PNI_BIJECTOR_EVEN,
    .forward = tril_forward,
    .inverse = tril_inverse,
    .log_abs_det = tril_log_abs_det,
    .variance = tril_variance};
