/*
** op_beta.c: the regularised incomplete beta function, its inverse and its slopes in a and b, which are quadratures:
** differentiable in x only.
*/
#include <math.h>
#include "op.h"
#include "../../math/special.h"

typedef pn_tensor T;
typedef pn_context C;

/* ---- elementwise over three contiguous inputs ---- */

typedef double (*three)(double a, double b, double x);

typedef struct {
  const void *in[3];
  pn_tensor *out;
  three f;
} shard;

static double element(const void *p, bool in_double, int64_t i) {
  return in_double ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static void fill(void *data, int64_t begin, int64_t end) {
  const shard *w = data;
  bool in_double = w->out->dtype == PN_FLOAT64;
  void *out = pni_data(w->out);
  for (int64_t i = begin; i < end; i++) {
    double y = w->f(element(w->in[0], in_double, i), element(w->in[1], in_double, i), element(w->in[2], in_double, i));
    if (in_double)
      ((double *)out)[i] = y;
    else
      ((float *)out)[i] = (float)y;
  }
}

/* The broadcast of all three, of one dtype. */
static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  int dtype;
  if (pni_same_float(c, call, &dtype)) return c->status;
  if (pni_broadcast(c, call->op->name, call->in[0], call->in[1], out)) return c->status;
  pn_tensor first = {.dtype = dtype, .ndim = out->ndim};
  for (int i = 0; i < out->ndim; i++) first.shape[i] = out->shape[i];
  if (pni_broadcast(c, call->op->name, &first, call->in[2], out)) return c->status;
  out->dtype = dtype;
  return PN_OK;
}

/* Inputs repeated to the shape of out. */
static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out, three f) {
  shard w = {.out = out, .f = f};
  size_t mark = pn_scope_open(c);
  for (int k = 0; k < 3; k++) {
    pn_tensor *t = pn_contiguous(c, pn_broadcast_to(c, pn_detach(c, call->in[k]), out->ndim, out->shape));
    if (!t) break;
    w.in[k] = pni_data(t);
  }
  if (!pni_failed(c)) pni_parallel(c, out->numel, 256, fill, &w);
  pn_scope_close(c, mark);
  return c->status;
}

static double slope_a(double a, double b, double x) {
  double s[2];
  pni_betainc_slopes(a, b, x, s);
  return s[0];
}
static double slope_b(double a, double b, double x) {
  double s[2];
  pni_betainc_slopes(a, b, x, s);
  return s[1];
}

static pn_status eval_betainc(pn_context *c, const pni_call *call, pn_tensor *out) {
  return eval(c, call, out, pni_betainc);
}
static pn_status eval_betaincc(pn_context *c, const pni_call *call, pn_tensor *out) {
  return eval(c, call, out, pni_betaincc);
}
static pn_status eval_betaincinv(pn_context *c, const pni_call *call, pn_tensor *out) {
  return eval(c, call, out, pni_betaincinv);
}
static pn_status eval_slope(pn_context *c, const pni_call *call, pn_tensor *out) {
  return eval(c, call, out, call->attr->i[0] ? slope_b : slope_a);
}

static pn_status eval_log_density(pn_context *c, const pni_call *call, pn_tensor *out) {
  return eval(c, call, out, pni_log_beta_density);
}

/* ---- derivatives ---- */

static T *slope(C *c, T *a, T *b, T *x, int k) {
  return pni_apply(c, &pni_op_betainc_slope, 3, (T *[]){a, b, x}, &(pni_attr){.ni = 1, .i = {k}});
}

/* log x - digamma(a) + digamma(a + b), or that of b and 1 - x: how the log density moves with a, or b */
static T *score(C *c, T *a, T *b, T *x, bool second) {
  T *log_x = second ? pn_log1p(c, pn_neg(c, x)) : pn_log(c, x);
  return pn_sub(c, log_x, pn_sub(c, pn_digamma(c, second ? b : a), pn_digamma(c, pn_add(c, a, b))));
}

static T *vjp_log_density(C *c, T *y, T *g, int k) {
  T *a = pni_in(y, 0), *b = pni_in(y, 1), *x = pni_in(y, 2), *one = pni_like(c, x, 1);
  if (k < 2) return pn_mul(c, g, score(c, a, b, x, k == 1));
  T *rest = pn_div(c, pn_sub(c, b, one), pn_sub(c, one, x));
  return pn_mul(c, g, pn_sub(c, pn_div(c, pn_sub(c, a, one), x), rest));
}

/* dI/dx = x^(a-1) (1-x)^(b-1) / B(a, b) */
static T *density(C *c, T *a, T *b, T *x) {
  return pn_exp(c, pni_apply(c, &pni_op_log_beta_density, 3, (T *[]){a, b, x}, NULL));
}

static T *vjp_betainc(C *c, T *y, T *g, int k) {
  T *a = pni_in(y, 0), *b = pni_in(y, 1), *x = pni_in(y, 2);
  return pn_mul(c, g, k == 2 ? density(c, a, b, x) : slope(c, a, b, x, k));
}

static T *vjp_betaincc(C *c, T *y, T *g, int k) { return pn_neg(c, vjp_betainc(c, y, g, k)); }

/* dx/dp = 1 / density(x), dx/da = -(dI/da) / density(x) */
static T *vjp_betaincinv(C *c, T *y, T *g, int k) {
  T *a = pni_in(y, 0), *b = pni_in(y, 1), *flow = density(c, a, b, y);
  return k == 2 ? pn_div(c, g, flow) : pn_neg(c, pn_mul(c, g, pn_div(c, slope(c, a, b, y, k), flow)));
}

/* d/dx of dI/da is the density times its score in a; of dI/db in b. */
static T *vjp_slope(C *c, T *y, T *g, int k) {
  T *a = pni_in(y, 0), *b = pni_in(y, 1), *x = pni_in(y, 2);
  if (k != 2) {
    pni_fail(c, PN_MISSING, "betainc_slope: has no derivative in %s", k ? "b" : "a");
    return NULL;
  }
  return pn_mul(c, g, pn_mul(c, density(c, a, b, x), score(c, a, b, x, y->attr->i[0] != 0)));
}

/* ---- rows ---- */

pn_tensor *pn_betainc(pn_context *c, pn_tensor *a, pn_tensor *b, pn_tensor *x) {
  return pni_apply(c, &pni_op_betainc, 3, (T *[]){a, b, x}, NULL);
}

const pni_op pni_op_betainc = {.name = "betainc",
                               .args = "a:t b:t x:t",
                               .doc = "I_x(a, b), the regularised incomplete beta function, 0 <= x <= 1",
                               .flags = PNI_OP_ELEMENTWISE | PNI_OP_ONCE,
                               .domain = {{0.4, 4}, {0.4, 4}, {0.1, 0.9}},
                               .infer = infer,
                               .eval = eval_betainc,
                               .vjp = vjp_betainc};

pn_tensor *pn_betaincc(pn_context *c, pn_tensor *a, pn_tensor *b, pn_tensor *x) {
  return pni_apply(c, &pni_op_betaincc, 3, (T *[]){a, b, x}, NULL);
}

const pni_op pni_op_betaincc = {.name = "betaincc",
                                .args = "a:t b:t x:t",
                                .doc = "1 - I_x(a, b), exact where it is small",
                                .flags = PNI_OP_ELEMENTWISE | PNI_OP_ONCE,
                                .domain = {{0.4, 4}, {0.4, 4}, {0.1, 0.9}},
                                .infer = infer,
                                .eval = eval_betaincc,
                                .vjp = vjp_betaincc};

pn_tensor *pn_betaincinv(pn_context *c, pn_tensor *a, pn_tensor *b, pn_tensor *p) {
  return pni_apply(c, &pni_op_betaincinv, 3, (T *[]){a, b, p}, NULL);
}

const pni_op pni_op_betaincinv = {.name = "betaincinv",
                                  .args = "a:t b:t p:t",
                                  .doc = "x with I_x(a, b) = p, the quantile of Beta(a, b)",
                                  .flags = PNI_OP_ELEMENTWISE | PNI_OP_ONCE,
                                  .domain = {{0.5, 4}, {0.5, 4}, {0.1, 0.9}},
                                  .infer = infer,
                                  .eval = eval_betaincinv,
                                  .vjp = vjp_betaincinv};

const pni_op pni_op_log_beta_density = {.name = "log_beta_density",
                                        .args = "a:t b:t x:t",
                                        .doc = "(a - 1) log(x) + (b - 1) log(1 - x) - log B(a, b), 0 <= x <= 1",
                                        .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                                        .domain = {{0.4, 4}, {0.4, 4}, {0.1, 0.9}},
                                        .infer = infer,
                                        .eval = eval_log_density,
                                        .vjp = vjp_log_density};

const pni_op pni_op_betainc_slope = {
    .name = "betainc_slope",
    .args = "a:t b:t x:t which:i",
    .doc = "dI_x(a, b)/da (which = 0) or dI_x(a, b)/db (which = 1); differentiable in x only",
    .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
    .domain = {{0.4, 4}, {0.4, 4}, {0.1, 0.9}},
    .infer = infer,
    .eval = eval_slope,
    .vjp = vjp_slope};
