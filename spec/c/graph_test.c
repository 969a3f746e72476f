/*
** graph_test.c: graphs as data structures. Depth costs no stack, neither when built, walked nor freed;
** gradients have gradients; a parameter changed under a graph is noticed; nothing is left at the end.
*/
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include "../../src/autodiff/op/op.h"
#include "check.h"

static pn_tensor *number(pn_context *c, double v) { return pn_scalar(c, PN_FLOAT64, v); }

static double item(pn_context *c, pn_tensor *t) {
  double v = NAN;
  return pn_tensor_item(c, t, &v) == PN_OK ? v : NAN;
}

/* y = w + w + ... in a chain of `depth` nodes, one scope for a thousand nodes. */
static pn_tensor *chain(pn_context *c, pn_tensor *w, int depth) {
  pn_tensor *y = pn_tensor_ref(w);
  for (int i = 0; i < depth;) {
    size_t mark = pn_scope_open(c);
    pn_tensor *old = y;
    for (int k = 0; k < 1000 && i < depth; k++, i++) y = pn_add(c, y, w);
    pn_tensor_ref(y);
    pn_tensor_unref(old);
    pn_scope_close(c, mark);
  }
  return y;
}

enum { DEPTH = 1000000 };

static void deep(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *w = pn_param(c, number(c, 0.5)), *g = NULL;
  pn_tensor *y = chain(c, w, DEPTH);
  CHECK_NEAR(item(c, y), 0.5 * (DEPTH + 1), 1e-12);
  CHECK(pn_context_objects(c) > DEPTH);
  CHECK_STATUS(c, pn_backward(c, y), PN_OK);
  CHECK_NEAR(item(c, pn_tensor_grad(w)), DEPTH + 1, 0);
  CHECK_STATUS(c, pn_grad(c, y, 1, &w, 1, &g), PN_OK);
  CHECK_NEAR(item(c, g), DEPTH + 1, 0);
  pn_tensor_unref(y);
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
}

static void *deep_thread(void *unused) {
  (void)unused;
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1});
  deep(c);
  pn_context_close(c);
  return NULL;
}

/* The same on a stack of 64 KiB besides what the thread's own static data take, and once more with the context closed
 * before the graph. */
static void small_stack(void) {
  pthread_attr_t attr;
  pthread_t t;
  pthread_attr_init(&attr);
  int failed = EINVAL;
  for (size_t size = 64 * 1024; failed == EINVAL && size <= 1024 * 1024; size += 64 * 1024)
    failed = pthread_attr_setstacksize(&attr, size) ? EINVAL : pthread_create(&t, &attr, deep_thread, NULL);
  if (!failed) pthread_join(t, NULL); /* checks are counted in one thread at a time */
  CHECK_INT(failed, 0);
  pthread_attr_destroy(&attr);

  pn_context *c = pn_context_new(NULL);
  pn_tensor *w = pn_tensor_ref(pn_param(c, number(c, 1)));
  pn_tensor *y = chain(c, w, 100000);
  pn_tensor_unref(w);
  pn_context_close(c);
  pn_tensor_unref(y);
}

/* Each node used twice: 2^60 paths, 60 nodes; every node is visited once. */
static void diamond(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *w = pn_param(c, number(c, 1)), *y = w, *g = NULL;
  for (int i = 0; i < 60; i++) y = pn_add(c, y, y);
  CHECK_STATUS(c, pn_grad(c, y, 1, &w, 0, &g), PN_OK);
  CHECK_NEAR(item(c, g), 0x1p60, 0);
  pn_scope_close(c, mark);
}

/* y = x^3 z + sin x: first, second, third and mixed derivatives. */
static void higher_order(pn_context *c) {
  size_t mark = pn_scope_open(c);
  double x0 = 0.7, z0 = 1.3;
  pn_tensor *x = pn_param(c, number(c, x0)), *z = pn_param(c, number(c, z0));
  pn_tensor *in[2] = {x, z}, *g[2] = {0}, *h[2] = {0}, *k[2] = {0};
  pn_tensor *y = pn_add(c, pn_mul(c, pn_pow(c, x, number(c, 3)), z), pn_sin(c, x));
  CHECK_STATUS(c, pn_grad(c, y, 2, in, 1, g), PN_OK);
  CHECK_NEAR(item(c, g[0]), 3 * x0 * x0 * z0 + cos(x0), 1e-14);
  CHECK_NEAR(item(c, g[1]), x0 * x0 * x0, 1e-14);
  CHECK_STATUS(c, pn_grad(c, g[0], 2, in, 1, h), PN_OK);
  CHECK_NEAR(item(c, h[0]), 6 * x0 * z0 - sin(x0), 1e-14);
  CHECK_NEAR(item(c, h[1]), 3 * x0 * x0, 1e-14);
  CHECK_STATUS(c, pn_grad(c, h[0], 2, in, 1, k), PN_OK);
  CHECK_NEAR(item(c, k[0]), 6 * z0 - cos(x0), 1e-14);
  CHECK_NEAR(item(c, k[1]), 6 * x0, 1e-14);
  /* the gradient of an inner node, and of y itself */
  pn_tensor *inner = pn_exp(c, x), *top = pn_mul(c, inner, z), *two[2] = {inner, top};
  CHECK_STATUS(c, pn_grad(c, top, 2, two, 0, g), PN_OK);
  CHECK_NEAR(item(c, g[0]), z0, 0);
  CHECK_NEAR(item(c, g[1]), 1, 0);
  CHECK(!pn_tensor_requires_grad(g[0]));
  pn_scope_close(c, mark);
}

static void independent(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *a = pn_param(c, pn_zeros(c, PN_FLOAT64, 2, (int64_t[]){2, 3})), *b = pn_param(c, number(c, 2));
  pn_tensor *y = pn_square(c, b), *in[2] = {a, b}, *g[2] = {0};
  CHECK_STATUS(c, pn_grad(c, y, 2, in, 0, g), PN_OK);
  CHECK_INT(pn_tensor_numel(g[0]), 6);
  CHECK_NEAR(pni_element(g[0], 5), 0, 0);
  CHECK_NEAR(item(c, g[1]), 4, 0);
  CHECK_STATUS(c, pn_backward(c, y), PN_OK);
  CHECK(pn_tensor_grad(a) == NULL);
  CHECK_STATUS(c, pn_backward(c, pn_mul(c, y, b)), PN_OK); /* adds 3 b^2 */
  CHECK_NEAR(item(c, pn_tensor_grad(b)), 16, 0);
  pn_tensor_clear_grad(b);
  CHECK(pn_tensor_grad(b) == NULL);
  pn_scope_close(c, mark);
}

static void refusals(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *w = pn_param(c, pn_zeros(c, PN_FLOAT64, 1, (int64_t[]){3})), *k = number(c, 1), *g = NULL;
  CHECK_STATUS(c, pn_backward(c, pn_exp(c, w)), PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "one element, got shape [3]");
  CHECK_STATUS(c, pn_backward(c, pn_exp(c, k)), PN_STATE);
  CHECK_FAIL(c, PN_STATE, "does not depend on a parameter");
  pn_tensor *y = pn_sum(c, w, PN_ALL, 0);
  CHECK_STATUS(c, pn_grad(c, y, 1, &k, 0, &g), PN_STATE);
  CHECK(g == NULL);
  CHECK_FAIL(c, PN_STATE, "input 1");
  CHECK_STATUS(c, pn_backward(c, NULL), PN_STATE);
  CHECK_FAIL(c, PN_STATE, "NULL");
  CHECK(pn_param(c, pn_zeros(c, PN_INT64, 0, NULL)) == NULL);
  CHECK_FAIL(c, PN_DTYPE, "int64");
  /* a pending failure refuses everything and changes nothing */
  pn_add(c, w, pn_zeros(c, PN_FLOAT64, 1, (int64_t[]){4}));
  CHECK_STATUS(c, pn_backward(c, y), PN_SHAPE);
  CHECK(pn_tensor_grad(w) == NULL);
  pn_context_clear_error(c);
  CHECK_STATUS(c, pn_backward(c, y), PN_OK);
  pn_scope_close(c, mark);
}

static void stale(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *w = pn_param(c, number(c, 2)), *v = pn_param(c, number(c, 3)), *g = NULL;
  pn_tensor *y = pn_mul(c, pn_square(c, w), v), *view = pn_square(c, pn_reshape(c, w, 1, (int64_t[]){1}));
  CHECK_STATUS(c, pn_param_set(c, w, number(c, 5)), PN_OK);
  CHECK_NEAR(item(c, w), 5, 0);
  CHECK_STATUS(c, pn_backward(c, y), PN_STALE);
  CHECK(pn_tensor_grad(w) == NULL && pn_tensor_grad(v) == NULL);
  CHECK_FAIL(c, PN_STALE, "changed");
  CHECK_STATUS(c, pn_grad(c, y, 1, &w, 0, &g), PN_STALE);
  CHECK(g == NULL);
  CHECK_FAIL(c, PN_STALE, "square");
  CHECK_STATUS(c, pn_backward(c, pn_sum(c, view, PN_ALL, 0)), PN_STALE); /* through a view as well */
  pn_context_clear_error(c);
  CHECK_STATUS(c, pn_backward(c, pn_mul(c, pn_square(c, w), v)), PN_OK);
  CHECK_NEAR(item(c, pn_tensor_grad(w)), 30, 0);
  CHECK_STATUS(c, pn_param_set(c, w, pn_zeros(c, PN_FLOAT64, 1, (int64_t[]){2})), PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "[2]");
  CHECK_STATUS(c, pn_param_set(c, w, pn_scalar(c, PN_FLOAT32, 1)), PN_DTYPE);
  CHECK_FAIL(c, PN_DTYPE, "float32");
  CHECK_STATUS(c, pn_param_set(c, pn_exp(c, w), w), PN_STATE);
  CHECK_FAIL(c, PN_STATE, "parameter");
  CHECK_NEAR(item(c, w), 5, 0);
  pn_scope_close(c, mark);
}

/* A parameter is overwritten by a view of itself as if the view had been copied first. */
static void set_from_itself(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *w = pn_param(c, pn_arange(c, PN_FLOAT64, 0, 5, 1));
  CHECK_STATUS(c, pn_param_set(c, w, pn_flip(c, w, 0)), PN_OK);
  for (int i = 0; i < 5; i++) CHECK_NEAR(pni_element(w, i), 4 - i, 0);
  pn_scope_close(c, mark);
}

static void no_grad(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *w = pn_param(c, number(c, 2));
  CHECK_INT(pn_set_no_grad(c, 1), 0);
  pn_tensor *y = pn_exp(c, w);
  CHECK(!pn_tensor_requires_grad(y) && y->nin == 0);
  CHECK_INT(pn_set_no_grad(c, 0), 1);
  CHECK(pn_tensor_requires_grad(pn_exp(c, w)));
  CHECK(!pn_tensor_is_param(y) && pn_tensor_is_param(w));
  /* pn_backward and a failing pn_grad leave the setting alone */
  pn_tensor *g = NULL;
  pn_backward(c, pn_exp(c, w));
  CHECK(pn_tensor_requires_grad(pn_exp(c, w)));
  CHECK_STATUS(c, pn_grad(c, y, 1, &w, 0, &g), PN_STATE);
  pn_context_clear_error(c);
  CHECK(pn_tensor_requires_grad(pn_exp(c, w)));
  /* detach cuts */
  pn_tensor *x = pn_mul(c, w, pn_detach(c, pn_square(c, w)));
  CHECK_STATUS(c, pn_grad(c, x, 1, &w, 0, &g), PN_OK);
  CHECK_NEAR(item(c, g), 4, 0);
  CHECK(pn_detach(c, NULL) == NULL);
  CHECK_FAIL(c, PN_STATE, "detach: x must not be NULL");
  /* whole numbers and comparisons carry no gradient */
  CHECK(!pn_tensor_requires_grad(pn_cast(c, w, PN_INT64)));
  CHECK(!pn_tensor_requires_grad(pn_gt(c, w, w)));
  CHECK(!pn_tensor_requires_grad(pn_argmax(c, pn_unsqueeze(c, w, 0), 0, 0)));
  CHECK(pn_grad(c, pn_cast(c, pn_gt(c, w, w), PN_FLOAT64), 1, &w, 0, &g) != PN_OK);
  CHECK_FAIL(c, PN_STATE, "whole numbers or truth values");
  pn_scope_close(c, mark);
}

/* A result keeps what it was computed from; scopes keep what nobody else does. */
static void scopes(pn_context *c) {
  size_t outer = pn_scope_open(c);
  pn_tensor *w = pn_param(c, number(c, 2));
  size_t inner = pn_scope_open(c);
  pn_tensor *y = pn_tensor_ref(pn_exp(c, pn_square(c, w)));
  pn_scope_close(c, inner);
  CHECK_INT(pn_context_objects(c), 4); /* 2, w and the two of y */
  CHECK_STATUS(c, pn_backward(c, y), PN_OK);
  CHECK_NEAR(item(c, pn_tensor_grad(w)), 4 * exp(4), 1e-15);
  pn_tensor_unref(y);
  CHECK_INT(pn_context_objects(c), 3); /* 2, w and its gradient */
  pn_tensor_unref(NULL);
  CHECK(pn_tensor_ref(NULL) == NULL);
  pn_scope_close(c, outer);
  CHECK_INT(pn_context_objects(c), 0);
}

int main(void) {
  pn_context *c = pn_context_new(NULL);
  deep(c);
  small_stack();
  diamond(c);
  higher_order(c);
  independent(c);
  refusals(c);
  stale(c);
  set_from_itself(c);
  no_grad(c);
  scopes(c);
  CHECK_INT(pn_context_objects(c), 0);
  CHECK_INT(pn_context_status(c), PN_OK);
  pn_context_close(c);
  CHECK_DONE();
}
