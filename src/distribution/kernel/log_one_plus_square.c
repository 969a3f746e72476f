/*
** log_one_plus_square.c: log(1 + z^2 / v), v > 0, of which the tails of Cauchy and Student densities are made: one
** operation, through log1p where the quotient is finite, else 2 log |z| - log v. Its derivatives, for |z| > 1 in the
** second form:
**   2 z / (v + z^2) = 2 / (z + v / z),  -s / v with s = z^2 / (v + z^2) = 1 / (1 + v / z / z)
*/
#include "log_one_plus_square.h"
#include "density_kernel.h"

static void body(const pni_piece *p, void *out) {
  const double *z = p->in[0], *v = p->in[1];
  double ratio[PNI_KERNEL_PIECE], *y = out;
  for (int64_t i = 0; i < p->n; i++) ratio[i] = z[i] * z[i] / v[i];
  pni_vector_f64(PNI_VECTOR_log1p, ratio, 1, y, p->n);
  for (int64_t i = 0; i < p->n; i++)
    if (isinf(y[i])) y[i] = 2 * log(fabs(z[i])) - log(v[i]);
}
PNI_DENSITY_VALUE(tail, .inputs = 2, .in_double = true, .value = {body, body})

static T *vjp(C *c, T *y, T *g, int k) {
  T *z = pni_in(y, 0), *v = pni_in(y, 1), *far = above(c, pn_abs(c, z), 1), *near = but(c, far, 0, z),
    *large = only(c, far, z, 1);
  T *square = pn_square(c, near), *part = pn_div(c, v, large);
  if (k == 0) {
    T *outer = pn_reciprocal(c, pn_add(c, large, part)), *inner = pn_div(c, near, pn_add(c, v, square));
    return pn_mul(c, g, times(c, pn_where(c, far, outer, inner), 2));
  }
  T *outer = pn_reciprocal(c, plus(c, pn_div(c, part, large), 1)), *inner = pn_div(c, square, pn_add(c, v, square));
  return pn_neg(c, pn_mul(c, g, pn_div(c, pn_where(c, far, outer, inner), v)));
}

static const pni_op op = {
    .name = "log_one_plus_square", .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN, .map = tail_map, .vjp = vjp};

T *pni_log_one_plus_square(C *c, T *z, T *v) { return pni_apply2(c, &op, z, v ? v : pni_like(c, z, 1), NULL); }
