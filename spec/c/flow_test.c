/*
** flow_test.c: how often flows run their networks: once for a draw with its density, once for a density in the fast
** direction, n times in the slow one. Counted in the graph: a network has three linear layers.
*/
#include "check.h"
#include "../../src/autodiff/graph.h"

enum { N = 3, HIDDEN = 4, LAYERS = 3 };

static pn_context *c;

static pn_tensor *weights(int rows, int columns) {
  int64_t shape[2] = {rows, columns};
  pn_tensor *t =
      pn_mul(c, pn_randn(c, NULL, PN_FLOAT64, rows ? 2 : 1, rows ? shape : shape + 1), pn_scalar(c, PN_FLOAT64, 0.3));
  return pn_param(c, t);
}

static pn_bijector *flow(const char *kind) {
  static const char *const names[] = {"hidden_weight", "hidden_bias",  "shift_weight",
                                      "shift_bias",    "scale_weight", "scale_bias"};
  int in = strcmp(kind, "real_nvp") == 0 ? 1 : N, out = strcmp(kind, "real_nvp") == 0 ? N - 1 : N;
  pn_tensor *values[] = {weights(in, HIDDEN), weights(0, HIDDEN),   weights(HIDDEN, out),
                         weights(0, out),     weights(HIDDEN, out), weights(0, out)};
  return pn_bijector_new(c, kind, 6, names, values);
}

static pn_dist *base(void) {
  static const int64_t n = N;
  pn_dist *d = pn_dist_new(c, "normal", 1, NULL, (pn_tensor *[]){pn_param(c, pn_zeros(c, PN_FLOAT64, 1, &n))});
  pn_dist *joint = pn_dist_independent(c, d, 1);
  pn_dist_unref(d);
  return joint;
}

static int linears(pn_tensor *t) {
  pni_nodes order = {0};
  int n = 0;
  CHECK_STATUS(c, pni_topological(c, pn_sum(c, t, PN_ALL, 0), &order), PN_OK);
  pni_nodes_unmark(&order);
  for (int64_t i = 0; i < order.n; i++) n += order.v[i]->op && strcmp(order.v[i]->op->name, "linear") == 0;
  pni_nodes_free(c, &order);
  return n;
}

/* `passes` of one flow, in each direction. */
static void check_passes(const char *kind, int forward, int inverse) {
  size_t mark = pn_scope_open(c);
  pn_bijector *one = flow(kind), *two = flow(kind);
  pn_bijector *both = pn_bijector_compose(c, "chain", 2, (pn_bijector *[]){one, two});
  pn_bijector *back = pn_bijector_compose(c, "inverse", 1, &both), *map[] = {one, both, back};
  pn_dist *b = base();
  pn_tensor *x = pn_randn(c, NULL, PN_FLOAT64, 2, (int64_t[]){5, N});
  for (int k = 0; k < 3; k++) {
    int layers = k ? 2 * LAYERS : LAYERS, there = k == 2 ? inverse : forward, here = k == 2 ? forward : inverse;
    pn_tensor *log_det, *density, *y = pn_bijector_forward_log_det(c, map[k], x, &log_det);
    CHECK_INT(linears(pn_add(c, pn_sum(c, y, PN_ALL, 0), pn_sum(c, log_det, PN_ALL, 0))), there * layers);
    y = pn_bijector_inverse_log_det(c, map[k], x, &log_det);
    CHECK_INT(linears(pn_add(c, pn_sum(c, y, PN_ALL, 0), pn_sum(c, log_det, PN_ALL, 0))), here * layers);
    pn_dist *d = pn_dist_transformed(c, b, map[k]);
    CHECK_INT(linears(pn_dist_log_prob(c, d, x)), here * layers);
    y = pn_dist_rsample_log_prob(c, d, NULL, 1, (int64_t[]){5}, &density);
    CHECK_INT(linears(pn_add(c, pn_sum(c, y, PN_ALL, 0), pn_sum(c, density, PN_ALL, 0))), there * layers);
    pn_dist_unref(d);
  }
  pn_dist_unref(b);
  pn_bijector_unref(back), pn_bijector_unref(both), pn_bijector_unref(two), pn_bijector_unref(one);
  CHECK_INT(pn_context_status(c), PN_OK);
  pn_scope_close(c, mark);
}

int main(void) {
  c = pn_context_new(NULL);
  pn_seed(c, 1);
  check_passes("real_nvp", 1, 1);
  check_passes("masked_autoregressive", N, 1);
  check_passes("inverse_autoregressive", 1, N);
  pn_context_close(c);
  CHECK_DONE();
}
