/*
** gamma_draw.c: draws x of Gamma(a, b) as an operation of a, b, kept among the normal numbers so that they lie in the
** support. Their gradient in a is implicit (Figurnov, Mohamed & Mnih 2018): dx/da = x dz/da with z = log(b x), and
** dx/db = -x / b. attr: key and position of a generator.
*/
#include "draw.h"
#include "density_kernel.h"
#include "../../autodiff/random_source.h"
#include "../formula.h"

typedef struct {
  uint64_t key, position;
  const pn_tensor *a, *b;
  pn_tensor *out;
} work;

PNI_EACH_LEVEL(over, (const double *restrict b, int64_t step, double low, double high, double *restrict x, int64_t n),
               (b, step, low, high, x, n)) {
  for (int64_t i = 0; i < n; i++) {
    double v = x[i] / b[i * step];
    v = v < low ? low : v;
    x[i] = v > high ? high : v;
  }
}

static void shard(void *data, int64_t begin, int64_t end) {
  const work *w = data;
  int dtype = w->out->dtype;
  int64_t step = w->b->numel == 1 ? 0 : 1;
  for (int64_t at = begin; at < end; at += PNI_KERNEL_PIECE) {
    double room[PNI_KERNEL_PIECE], result[PNI_KERNEL_PIECE], rate[PNI_KERNEL_PIECE],
        *out = pni_doubles_place(dtype, pni_data(w->out), at, result);
    int64_t n = end - at < PNI_KERNEL_PIECE ? end - at : PNI_KERNEL_PIECE;
    const double *a = pni_doubles(dtype, pni_data(w->a), 1, at, n, room);
    const double *b = pni_doubles(dtype, pni_data(w->b), step, at, step ? n : 1, rate);
    pni_fill_gamma(w->key, w->position + (uint64_t)at, (uint64_t)n, a, out, true);
    over(b, step, tiny(dtype), huge_number(dtype), out, n);
    pni_doubles_write(dtype, out, n, pni_data(w->out), at);
  }
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  work w = {(uint64_t)call->attr->i[0], (uint64_t)call->attr->i[1], pni_contiguous(c, call->in[0]),
            pni_contiguous(c, call->in[1]), out};
  if (w.a && w.b) pni_parallel(c, out->numel, 1024, shard, &w);
  pn_tensor_unref((pn_tensor *)w.a);
  pn_tensor_unref((pn_tensor *)w.b);
  return c->status;
}

static T *vjp(C *c, T *y, T *g, int k) {
  T *a = pni_in(y, 0), *b = pni_in(y, 1), *pull = pn_mul(c, g, y);
  if (k) return pn_neg(c, pn_div(c, pull, b));
  return pn_mul(c, pull, pni_apply2(c, &pni_op_log_gamma_slope, a, pn_add(c, pn_log(c, y), pn_log(c, b)), NULL));
}

/* a of the result's shape, b too or one number. */
static pn_status infer(C *c, const pni_call *call, pni_spec *out) {
  const T *a = call->in[0], *b = call->in[1];
  *out = pni_spec_of(a);
  return b->numel == 1 && b->ndim <= a->ndim ? PN_OK : pni_require_like(c, call, 1, out);
}

static const pni_op op = {.name = "gamma_draw",
                          .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN | PNI_OP_ONCE | PNI_OP_DRAW,
                          .infer = infer,
                          .eval = eval,
                          .vjp = vjp};

T *pni_gamma_draw_over(C *c, pn_rng *rng, T *a, T *b, const pni_spec *out) {
  T *all = pni_dist_expand_to(c, a, out->ndim, out->shape);
  if (b && b->numel != 1) b = pni_dist_expand_to(c, b, out->ndim, out->shape);
  if (!all || !b) return NULL;
  uint64_t positions = pni_fill_positions(PNI_FILL_SCALAR, (uint64_t)all->numel);
  return pni_draw_apply(c, &op, rng, positions, 2, (T *[]){all, b}, &(pni_attr){.ni = 2});
}
