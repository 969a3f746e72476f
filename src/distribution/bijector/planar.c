/*
** planar.c: y = x + u' tanh(w.x + b), u' = u + (m(w.u) - w.u) w / |w|^2, m(t) = log(1 + e^t) - 1 > -1, so that
** w.u' > -1 and the map has an inverse (Rezende & Mohamed 2015, sec. 4.1 and app. A.1).
**   log |det dy/dx| = log(1 + w.u' (1 - tanh^2(w.x + b)))
** Inverse: x = y - u' tanh(a), where a = w.x + b solves a + w.u' tanh(a) = w.y + b, whose left side rises. Its root
** lies within |w.u'| of the right side: bisection down to rounding, then two Newton steps that carry the graph,
** each of which doubles the order of the derivatives that are right.
*/
#include <float.h>
#include <math.h>
#include "bijector.h"

typedef pn_tensor T;
typedef pn_context C;
typedef pn_bijector B;
enum { WEIGHT, DIRECTION, BIAS, BISECTIONS = 70 };
#define w       b->param[WEIGHT]
#define u       b->param[DIRECTION]
#define LAST    ((pn_axes){1, {-1}})
#define ONE(x)  pni_like(c, x, 1)
#define HALF(x) pni_like(c, x, 0.5)
/* keeps w = 0 from dividing: then y = x + u tanh(b) */
#define SMALL ((double)FLT_MIN)

static T *dot(C *c, T *x, T *y) { return pn_sum(c, pn_mul(c, x, y), LAST, 0); }

/* u' [..., n] */
static T *bent(C *c, B *b) {
  T *t = dot(c, w, u), *m = pn_sub(c, pn_softplus(c, t), ONE(t));
  T *scale = pn_div(c, pn_sub(c, m, t), pn_clamp(c, dot(c, w, w), SMALL, INFINITY));
  return pn_add(c, u, pn_mul(c, pn_unsqueeze(c, scale, -1), w));
}

/* t (1 - tanh^2 a) + 1 */
static T *slope(C *c, T *t, T *a) {
  return pn_add(c, pn_mul(c, t, pn_sub(c, ONE(a), pn_square(c, pn_tanh(c, a)))), ONE(a));
}

static T *offset(C *c, B *b, T *x) { return pn_add(c, dot(c, w, x), b->param[BIAS]); }
/* v tanh(a), v vectors and a numbers */
static T *along(C *c, T *v, T *a) { return pn_mul(c, v, pn_unsqueeze(c, pn_tanh(c, a), -1)); }

static T *forward(C *c, B *b, T *x) { return pn_add(c, x, along(c, bent(c, b), offset(c, b, x))); }

static T *log_abs_det(C *c, B *b, T *x, T *y) {
  (void)y;
  return pn_log(c, slope(c, dot(c, w, bent(c, b)), offset(c, b, x)));
}

/* Where a + t tanh(a) - s changes sign, without graph. */
static T *bisect(C *c, T *t, T *s) {
  int old = pn_set_no_grad(c, 1);
  T *reach = pn_abs(c, t), *low = pn_sub(c, s, reach), *high = pn_add(c, s, reach);
  for (int i = 0; i < BISECTIONS; i++) {
    size_t mark = pn_scope_open(c);
    T *middle = pn_mul(c, pn_add(c, low, high), HALF(low));
    T *above = pn_gt(c, pn_add(c, middle, pn_mul(c, t, pn_tanh(c, middle))), s);
    T *next_low = pn_tensor_ref(pn_where(c, above, low, middle));
    T *next_high = pn_tensor_ref(pn_where(c, above, middle, high));
    pn_scope_close(c, mark);
    low = pni_scoped(c, next_low);
    high = pni_scoped(c, next_high);
  }
  T *a = pn_mul(c, pn_add(c, low, high), HALF(low));
  pn_set_no_grad(c, old);
  return a;
}

static T *inverse(C *c, B *b, T *y) {
  T *bend = bent(c, b), *t = dot(c, w, bend), *s = offset(c, b, y), *a = bisect(c, t, s);
  for (int i = 0; i < 2; i++) {
    T *excess = pn_sub(c, pn_add(c, a, pn_mul(c, t, pn_tanh(c, a))), s);
    a = pn_sub(c, a, pn_div(c, excess, slope(c, t, a)));
  }
  return pn_sub(c, y, along(c, bend, a));
}

const pni_bijector pni_bijector_planar = {
    .name = "planar",
    .doc = "y = x + u' tanh(w.x + bias), w = weight, u' = direction bent so that w.u' > -1; inverse by bisection",
    .source = "Rezende & Mohamed 2015",
    .param = {{.name = "weight", .constraint = &pni_constraint_real_vector, .axes = "n"},
              {.name = "direction", .constraint = &pni_constraint_real_vector, .axes = "n"},
              {.name = "bias", .constraint = &pni_constraint_real, .axes = "", .optional = true, .absent = 0}},
    .domain = &pni_constraint_real_vector,
    .codomain = &pni_constraint_real_vector,
    .in = "n",
    .out = "n",
    .forward = forward,
    .inverse = inverse,
    .log_abs_det = log_abs_det};
