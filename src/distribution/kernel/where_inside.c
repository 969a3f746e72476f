/*
** where_inside.c: three choices in one pass.
*/
#include "density_kernel.h"
#include "inside.h"
#include "../formula.h"

#define KERNEL(N, suffix)                                                                                              \
  PNI_EACH_LEVEL(choose_##suffix,                                                                                      \
                 (const N *restrict lp, const uint8_t *restrict in, const N *restrict x, N *restrict out, int64_t n),  \
                 (lp, in, x, out, n)) {                                                                                \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      N inside = lp[i], none = x[i] == x[i] ? -(N)INFINITY : x[i];                                                     \
      out[i] = in[i] ? inside : none;                                                                                  \
    }                                                                                                                  \
  }                                                                                                                    \
  static void body_##suffix(const pni_piece *p, void *out) { choose_##suffix(p->in[0], p->in[1], p->in[2], out, p->n); }
KERNEL(double, f64)
KERNEL(float, f32)
#undef KERNEL

PNI_DENSITY_VALUE(where_inside, .inputs = 3, .masks = 1 << 1, .value = {body_f64, body_f32})

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *lp = call->in[0], *in = call->in[1], *x = call->in[2];
  pn_tensor both = {.dtype = lp->dtype};
  if (pni_require_axes(c, call, "*:f *:b *:f")) return c->status;
  if (x->dtype != lp->dtype)
    return pni_fail(c, PN_DTYPE, "log_prob: x must be %s, got %s", pn_dtype_name((pn_dtype)lp->dtype),
                    pn_dtype_name((pn_dtype)x->dtype));
  if (pni_broadcast(c, "log_prob", lp, in, out)) return c->status;
  both.ndim = out->ndim;
  for (int i = 0; i < out->ndim; i++) both.shape[i] = out->shape[i];
  out->dtype = lp->dtype;
  return pni_broadcast(c, "log_prob", &both, x, out);
}

static T *vjp(C *c, T *y, T *g, int k) {
  return k == 0 ? pn_where(c, pni_in(y, 1), g, pni_like(c, g, 0)) : pni_like(c, g, 0);
}

static const pni_op op = {.name = "where_inside",
                          .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN | PNI_OP_ANY_DTYPE,
                          .infer = infer,
                          .map = where_inside_map,
                          .vjp = vjp};

T *pni_where_inside(C *c, T *log_prob, T *inside, T *x) {
  if (log_prob && x && x->dtype != log_prob->dtype) x = pn_cast(c, x, (pn_dtype)log_prob->dtype);
  return pni_apply(c, &op, 3, (T *[]){log_prob, inside, pn_detach(c, x)}, NULL);
}
