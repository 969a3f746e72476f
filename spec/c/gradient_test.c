/*
** gradient_test.c: first and second derivatives of every golden case (all shapes, axes, broadcasts) along one
** direction, against Richardson's extrapolation of central differences. Cases at a kink or at an edge of the domain,
** where differences of two widths disagree, are left out; -v counts them by row.
*/
#include <stdlib.h>
#include "golden_case.h"

static bool verbose;

/* Inputs x_k + t v_k as parameters (float64 inputs only), laid out by reversed axes if asked. */
static void inputs(pn_context *c, const golden_case *g, double t, bool reversed, pn_tensor **param, pn_tensor **x) {
  for (int k = 0; k < g->nin; k++) {
    const golden_tensor *in = &golden_tensors[g->in[k]];
    int64_t n = pni_count(in->ndim, in->shape);
    param[k] = NULL;
    if (in->dtype != PN_FLOAT64) {
      pn_tensor *w = pn_from_data(c, PN_INT64, in->ndim, in->shape, golden_ints + in->at);
      x[k] = pn_cast(c, w, (pn_dtype)in->dtype);
      continue;
    }
    pn_tensor *p = pn_zeros(c, PN_FLOAT64, in->ndim, in->shape);
    double *v = pni_data(p);
    for (int64_t i = 0; i < n; i++) v[i] = golden_reals[in->at + i] + t * sin(1.3 * (double)i + k + 0.5);
    int order[PN_MAX_DIMS];
    for (int a = 0; a < in->ndim; a++) order[a] = in->ndim - 1 - a;
    param[k] = pn_param(c, reversed ? pn_permute(c, p, in->ndim, order) : p);
    x[k] = reversed ? pn_permute(c, param[k], in->ndim, order) : param[k];
  }
}

/* sum_i cos(0.7 i + 0.3) y_i */
static pn_tensor *weighted(pn_context *c, pn_tensor *y) {
  if (!y) return NULL;
  pn_tensor *i = pn_reshape(c, pn_arange(c, PN_FLOAT64, 0, (double)y->numel, 1), y->ndim, y->shape);
  pn_tensor *w = pn_cos(c, pn_add(c, pn_mul(c, i, pn_scalar(c, PN_FLOAT64, 0.7)), pn_scalar(c, PN_FLOAT64, 0.3)));
  return pn_sum(c, pn_mul(c, w, y), PN_ALL, 0);
}

/* sum_k sum_i v_k,i g_k,i; the direction in the parameters' own layout. */
static pn_tensor *along(pn_context *c, const golden_case *g, bool reversed, pn_tensor *const *grad) {
  pn_tensor *sum = pn_scalar(c, PN_FLOAT64, 0);
  for (int k = 0; k < g->nin; k++) {
    const golden_tensor *in = &golden_tensors[g->in[k]];
    if (!grad[k]) continue;
    pn_tensor *v = pn_zeros(c, PN_FLOAT64, in->ndim, in->shape);
    for (int64_t i = 0; i < v->numel; i++) ((double *)pni_data(v))[i] = sin(1.3 * (double)i + k + 0.5);
    int order[PN_MAX_DIMS];
    for (int a = 0; a < in->ndim; a++) order[a] = in->ndim - 1 - a;
    if (reversed) v = pn_permute(c, v, in->ndim, order);
    sum = pn_add(c, sum, pn_sum(c, pn_mul(c, grad[k], v), PN_ALL, 0));
  }
  return sum;
}

typedef struct values {
  double loss, first, second;
  pn_status status; /* of the first derivative */
  pn_status again;  /* of the second */
} values;

static pn_status differentiate(pn_context *c, const golden_case *g, pn_tensor *y, pn_tensor *const *param,
                               pn_tensor **grad) {
  pn_tensor *list[3], *out[3];
  int n = 0;
  for (int k = 0; k < g->nin; k++)
    if (param[k]) list[n++] = param[k];
  if (pn_grad(c, y, n, list, 1, out)) return pn_context_status(c);
  for (int k = 0, m = 0; k < g->nin; k++) grad[k] = param[k] ? out[m++] : NULL;
  return PN_OK;
}

static values evaluate(pn_context *c, const golden_case *g, double t, bool reversed) {
  values v = {NAN, NAN, NAN, PN_OK, PN_OK};
  size_t mark = pn_scope_open(c);
  pn_tensor *param[3], *x[3], *grad[3] = {NULL};
  inputs(c, g, t, reversed, param, x);
  pn_tensor *loss = weighted(c, golden_apply(c, g, x));
  if (loss) pn_tensor_item(c, loss, &v.loss);
  if (loss && (v.status = differentiate(c, g, loss, param, grad)) == PN_OK) {
    pn_tensor *d = along(c, g, reversed, grad);
    pn_tensor_item(c, d, &v.first);
    if (d && !pn_tensor_requires_grad(d))
      v.second = 0;
    else if (d && (v.again = differentiate(c, g, d, param, grad)) == PN_OK)
      pn_tensor_item(c, along(c, g, reversed, grad), &v.second);
  }
  if (!loss) v.status = pn_context_status(c);
  pn_context_clear_error(c);
  pn_scope_close(c, mark);
  return v;
}

/* Central differences of two widths and their extrapolation; NaN where they disagree. */
static double difference(double f2, double f1, double g1, double g2, double h, double scale) {
  double wide = (f2 - g2) / (4 * h), narrow = (f1 - g1) / (2 * h);
  if (!(fabs(wide - narrow) < 3e-3 * scale)) return NAN;
  return (4 * narrow - wide) / 3;
}

static bool smooth_case(const golden_case *g) {
  const pni_op *op = pni_op_find(g->op);
  if (golden_tensors[g->out].dtype != PN_FLOAT64 || (op && op->flags & PNI_OP_NODIFF)) return false;
  int reals = 0;
  for (int k = 0; k < g->nin; k++) {
    const golden_tensor *in = &golden_tensors[g->in[k]];
    reals += in->dtype == PN_FLOAT64;
    if (in->dtype == PN_FLOAT32) return false;
    for (int64_t i = 0; in->dtype == PN_FLOAT64 && i < pni_count(in->ndim, in->shape); i++)
      if (!(fabs(golden_reals[in->at + i]) < 1e8)) return false; /* a step would be lost in it */
  }
  return reals > 0;
}

/* 1 tested, 0 left out. */
static int run_case(pn_context *c, int number, bool reversed) {
  const golden_case *g = &golden_cases[number];
  const double h = 2e-4;
  values at = evaluate(c, g, 0, reversed), up = evaluate(c, g, h, reversed), down = evaluate(c, g, -h, reversed);
  values far = evaluate(c, g, 2 * h, reversed), low = evaluate(c, g, -2 * h, reversed);
  if (at.status == PN_MISSING || !isfinite(at.loss)) return 0;
  if (!check_record(at.status == PN_OK)) {
    printf("case %d, %s: gradient fails with %s\n", number, g->op, pn_status_name(at.status));
    return 1;
  }
  double scale = 1 + fabs(at.first), first = difference(far.loss, up.loss, down.loss, low.loss, h, scale);
  if (isnan(first)) return 0;
  if (!check_record(fabs(at.first - first) < 1e-7 * scale))
    printf("case %d, %s%s: derivative %.12g, difference %.12g\n", number, g->op, reversed ? " (reversed)" : "",
           at.first, first);
  if (at.again == PN_MISSING) return 1;
  scale = 1 + fabs(at.second);
  double second = difference(far.first, up.first, down.first, low.first, h, scale);
  if (!isnan(second) && !check_record(fabs(at.second - second) < 1e-6 * scale))
    printf("case %d, %s%s: second derivative %.12g, difference %.12g\n", number, g->op, reversed ? " (reversed)" : "",
           at.second, second);
  return 1;
}

int main(int argc, char **argv) {
  verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1});
  int tested = 0, left = 0;
  for (int k = 0; k < GOLDEN_CASES; k++) {
    if (!smooth_case(&golden_cases[k])) continue;
    int did = run_case(c, k, false);
    if (did) run_case(c, k, true);
    tested += did;
    left += !did;
    if (!did && verbose) printf("left out: case %d, %s\n", k, golden_cases[k].op);
  }
  CHECK(tested > 300 && left < tested / 4);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  CHECK_DONE();
}
