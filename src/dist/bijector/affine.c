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
    .forward = forward,
    .inverse = inverse,
    .log_abs_det = log_abs_det,
    .sign = sign};
