/*
** ode_test.c: differential equations from C: plans made by hand, settings and plans that do not fit, copies of plans
** for other contexts, and every allocation's failure.
*/
#include <math.h>
#include "../../src/tensor/tensor.h"
#include "alloc_sweep.h"

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

typedef struct {
  pn_plan *f, *pullback;
} plans;

/* dy/dt = -k y + cos t, and its pullback: v^T df/dy = -k v, v^T df/dk = -sum v y. */
static plans make(pn_context *c) {
  plans p = {NULL, NULL};
  pn_tensor *t = pn_scalar(c, PN_FLOAT64, 0), *y = pn_full(c, PN_FLOAT64, SHAPE(2), 1),
            *k = pn_scalar(c, PN_FLOAT64, 1);
  pn_tensor *in[4];
  if (pn_capture_begin(c, 3, (pn_tensor *[]){t, y, k}, in)) return p;
  pn_tensor *slope = pn_sub(c, pn_cos(c, in[0]), pn_mul(c, in[2], in[1]));
  if (!(p.f = pn_capture_end(c, 1, &slope))) return p;
  if (pn_capture_begin(c, 4, (pn_tensor *[]){t, y, k, y}, in)) return p;
  pn_tensor *back[] = {pn_neg(c, pn_mul(c, in[2], in[3])), pn_neg(c, pn_sum(c, pn_mul(c, in[1], in[3]), PN_ALL, 0))};
  p.pullback = pn_capture_end(c, 2, back);
  return p;
}

static void forget(plans p) {
  pn_plan_unref(p.f);
  pn_plan_unref(p.pullback);
}

/* The solution's sum as a function of k, z [1] -> value [1] and gradient [1], captured. */
static pn_plan *capture(pn_context *c, plans p) {
  pn_tensor *zero = pn_param(c, pn_zeros(c, PN_FLOAT64, SHAPE(1))), *z = pn_full(c, PN_FLOAT64, SHAPE(1), 0.7), *in;
  pn_tensor *y0 = pn_full(c, PN_FLOAT64, SHAPE(2), 2), *times = pn_linspace(c, PN_FLOAT64, 0, 3, 5);
  if (!times || !y0 || pn_capture_begin(c, 1, &z, &in)) return NULL;
  pn_tensor *x = pn_add(c, in, zero), *k = pn_sum(c, x, PN_ALL, 0), *gradient;
  pn_tensor *y = pn_sum(c, pn_odeint(c, p.f, p.pullback, NULL, y0, times, 1, &k), PN_ALL, 0);
  if (y && pn_grad(c, y, 1, &x, 0, &gradient)) y = NULL;
  return pn_capture_end(c, 2,
                        (pn_tensor *[]){y ? pn_reshape(c, pn_detach(c, y), SHAPE(1)) : NULL, y ? gradient : NULL});
}

static bool work(pn_context *c, const void *data) {
  plans p = make(c);
  pn_plan *outer = p.pullback ? capture(c, p) : NULL, *copy = NULL;
  pn_tensor *z = outer ? pn_full(c, PN_FLOAT64, SHAPE(1), 0.9) : NULL, *out[2];
  (void)data;
  forget(p);
  bool done = z && pn_plan_run(c, outer, 1, &z, out) == PN_OK;
  if (done) copy = pn_plan_copy(c, outer);
  done = copy && pn_plan_run(c, copy, 1, &z, out) == PN_OK;
  pn_plan_unref(copy);
  pn_plan_unref(outer);
  return done;
}

/* A copy lives in its own context, past the original's end, and gives the same bits. */
static void copies(void) {
  pn_context *c = pn_context_new(NULL), *d = pn_context_new(NULL);
  size_t mark = pn_scope_open(c), other = pn_scope_open(d);
  plans p = make(c);
  pn_plan *outer = capture(c, p), *copy = pn_plan_copy(d, outer);
  pn_tensor *z = pn_full(c, PN_FLOAT64, SHAPE(1), 0.4), *z2 = pn_full(d, PN_FLOAT64, SHAPE(1), 0.4), *out[2], *out2[2];
  double a[2], b[2];
  forget(p);
  CHECK_STATUS(c, pn_plan_run(c, outer, 1, &z, out), PN_OK);
  for (int i = 0; i < 2; i++) CHECK(pn_tensor_item(c, out[i], &a[i]) == PN_OK);
  pn_plan_unref(outer);
  pn_scope_close(c, mark);
  CHECK(pn_context_objects(c) == 0);
  pn_context_close(c);
  for (int k = 0; k < 2; k++) {
    CHECK_STATUS(d, pn_plan_run(d, copy, 1, &z2, out2), PN_OK);
    for (int i = 0; i < 2; i++) CHECK(pn_tensor_item(d, out2[i], &b[i]) == PN_OK && a[i] == b[i]);
  }
  pn_plan_unref(copy);
  pn_scope_close(d, other);
  CHECK(pn_context_objects(d) == 0);
  pn_context_close(d);
}

/* Replays take no memory once the context's pool is warm. */
static void steady(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  plans p = make(c);
  pn_plan *outer = capture(c, p);
  uint64_t requests = 0;
  for (int k = 0; k < 50; k++) {
    size_t inner = pn_scope_open(c);
    pn_tensor *z = pn_full(c, PN_FLOAT64, SHAPE(1), 0.5 + 0.2 * (k % 3)), *out[2];
    CHECK_STATUS(c, pn_plan_run(c, outer, 1, &z, out), PN_OK);
    pn_scope_close(c, inner);
    if (k == 10) requests = c->requests;
  }
  CHECK(c->requests == requests);
  pn_plan_unref(outer);
  forget(p);
  pn_scope_close(c, mark);
  CHECK(pn_context_objects(c) == 0);
  pn_context_close(c);
}

#define REFUSED(expected, call)                                                                                        \
  do {                                                                                                                 \
    CHECK(!(call) && pn_context_status(c) == (expected));                                                              \
    pn_context_clear_error(c);                                                                                         \
  } while (0)

static void misuse(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  plans p = make(c);
  pn_tensor *y = pn_full(c, PN_FLOAT64, SHAPE(2), 2), *times = pn_linspace(c, PN_FLOAT64, 0, 3, 5);
  pn_tensor *k = pn_scalar(c, PN_FLOAT64, 1), *wide = pn_full(c, PN_FLOAT64, SHAPE(3), 2), *many[70], *none = NULL;
  for (int i = 0; i < 70; i++) many[i] = k;
  REFUSED(PN_STATE, pn_odeint(c, NULL, NULL, NULL, y, times, 1, &k));
  REFUSED(PN_STATE, pn_odeint(c, p.f, NULL, NULL, NULL, times, 1, &k));
  REFUSED(PN_STATE, pn_odeint(c, p.f, NULL, NULL, y, times, 1, &none));
  REFUSED(PN_SHAPE, pn_odeint(c, p.f, NULL, NULL, wide, times, 1, &k));
  REFUSED(PN_SHAPE, pn_odeint(c, p.f, NULL, NULL, y, times, 0, NULL));
  REFUSED(PN_SHAPE, pn_odeint(c, p.f, p.f, NULL, y, times, 1, &k));
  REFUSED(PN_SHAPE, pn_odeint(c, p.f, NULL, NULL, y, y, 1, &wide));
  REFUSED(PN_DOMAIN, pn_odeint(c, p.f, NULL, NULL, y, times, 70, many));
  REFUSED(PN_DOMAIN, pn_odeint(c, p.f, NULL, &(pn_ode_config){.rtol = -1}, y, times, 1, &k));
  REFUSED(PN_DOMAIN, pn_odeint(c, p.f, NULL, &(pn_ode_config){.max_step = NAN}, y, times, 1, &k));
  pn_context_cancel(c);
  REFUSED(PN_CANCELLED, pn_odeint(c, p.f, NULL, NULL, y, times, 1, &k));
  pn_context_uncancel(c);
  pn_tensor *w = pn_param(c, k), *loss = pn_sum(c, pn_odeint(c, p.f, NULL, NULL, y, times, 1, &w), PN_ALL, 0);
  CHECK(loss && pn_backward(c, loss) == PN_STATE); /* without pullback */
  pn_context_clear_error(c);
  /* the solution keeps its plans */
  pn_tensor *kept = pn_sum(c, pn_odeint(c, p.f, p.pullback, NULL, y, times, 1, &w), PN_ALL, 0);
  forget(p);
  CHECK_STATUS(c, pn_backward(c, kept), PN_OK);
  pn_scope_close(c, mark);
  CHECK(pn_context_objects(c) == 0);
  pn_context_close(c);
}

int main(void) {
  misuse();
  copies();
  steady();
  sweep("odeint", work, NULL);
  CHECK_DONE();
}
