/*
** where_inside.c: three choices in one pass.
*/
#include "block.h"
#include "inside.h"

#define KERNEL(N, suffix)                                                                                              \
  PNI_EACH_LEVEL(choose_##suffix,                                                                                      \
                 (const N *restrict lp, const uint8_t *restrict in, const N *restrict x, N *restrict out, int64_t n),  \
                 (lp, in, x, out, n)) {                                                                                \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      N inside = lp[i], none = x[i] == x[i] ? -(N)INFINITY : x[i];                                                     \
      out[i] = in[i] ? inside : none;                                                                                  \
    }                                                                                                                  \
  }                                                                                                                    \
  static void row_##suffix(void *data, int64_t n, char *const *p, const int64_t *s) {                                  \
    (void)data;                                                                                                        \
    for (int64_t at = 0; at < n; at += PNI_BLOCK) {                                                                    \
      N room[2][PNI_BLOCK];                                                                                            \
      uint8_t bytes[PNI_BLOCK];                                                                                        \
      const int64_t size = n - at < PNI_BLOCK ? n - at : PNI_BLOCK;                                                    \
      const uint8_t *in = (const uint8_t *)p[2] + at * s[2];                                                           \
      for (int64_t i = 0; s[2] != 1 && i < size; i++) bytes[i] = in[i * s[2]];                                         \
      choose_##suffix(gather_##suffix(p[1], s[1], at, size, room[0]), s[2] == 1 ? in : bytes,                          \
                      gather_##suffix(p[3], s[3], at, size, room[1]), (N *)(void *)p[0] + at, size);                   \
    }                                                                                                                  \
  }
KERNEL(double, f64)
KERNEL(float, f32)

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *lp = call->in[0], *in = call->in[1], *x = call->in[2];
  pn_tensor both = {.dtype = lp->dtype};
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
                          .map = (const pni_map_kernel[4]){row_f64, row_f32},
                          .vjp = vjp};

T *pni_where_inside(C *c, T *log_prob, T *inside, T *x) {
  if (log_prob && x && x->dtype != log_prob->dtype) x = pn_cast(c, x, (pn_dtype)log_prob->dtype);
  return pni_apply(c, &op, 3, (T *[]){log_prob, inside, pn_detach(c, x)}, NULL);
}
