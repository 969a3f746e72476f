/*
** parameters.c: what one flat block of all parameters could save: an update by Adam with a limit on the norm of all
** gradients, of parameters one by one as they are and of one parameter of as many numbers, beside the whole training
** step that it is a part of, eager and replayed. Float32, batch 32, one thread.
*/
#include <stdio.h>
#include "../../src/autodiff/op/op.h"
#include "../../src/tensor/product/blas.h"

typedef pn_tensor T;
typedef pn_context C;

enum { BATCH = 32, LAYERS = 20, ROUNDS = 60 };

static const struct {
  const char *name;
  int layers;
  int64_t size[LAYERS + 1];
} nets[] = {
    {"1-50-50-1", 3, {1, 50, 50, 1}},
    {"784-400-400-10", 3, {784, 400, 400, 10}},
    {"20 layers of 32", 20, {32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32}},
};

/* The best of several rounds of about a millisecond, in microseconds. */
#define MEASURE(best, body)                                                                                            \
  do {                                                                                                                 \
    int calls = 1;                                                                                                     \
    best = 1e30;                                                                                                       \
    for (int round = 0; round < ROUNDS; round++) {                                                                     \
      int64_t start = pni_now();                                                                                       \
      for (int call = 0; call < calls; call++) body;                                                                   \
      double spent = 1e-3 * (double)(pni_now() - start) / calls;                                                       \
      if (round == 0) calls = 1 + (int)(1000 / spent);                                                                 \
      if (spent < best) best = spent;                                                                                  \
    }                                                                                                                  \
  } while (0)

static T *normal(C *c, int ndim, const int64_t *shape) {
  return pn_mul(c, pn_randn(c, NULL, PN_FLOAT32, ndim, shape), pn_scalar(c, PN_FLOAT32, 0.1));
}

static pn_optim *adam(C *c, int n, T **params) {
  pn_optim *o = pn_optim_new(c, "adam", n, params, NULL, NULL);
  pn_optim_set(c, o, "clip_norm", 1);
  pn_optim_set(c, o, "lr", 1e-9); /* the numbers stay what they are */
  return o;
}

/* Microseconds of an update. */
static double update(C *c, int n, T **params) {
  T *grad[2 * LAYERS];
  pn_optim *o = adam(c, n, params);
  for (int k = 0; k < n; k++) grad[k] = normal(c, params[k]->ndim, params[k]->shape);
  double best;
  MEASURE(best, pn_optim_apply(c, o, grad));
  pn_optim_unref(o);
  return best;
}

static T *loss_of(C *c, int layers, T *const *params, T *x) {
  for (int k = 0; k < layers; k++) {
    x = pn_linear(c, x, params[2 * k], params[2 * k + 1]);
    if (k + 1 < layers) x = pn_relu(c, x);
  }
  return pn_mean(c, pn_square(c, x), PN_ALL, 0);
}

static void step(C *c, pn_optim *o, int layers, T *const *params, T *x) {
  size_t mark = pn_scope_open(c);
  pn_optim_step(c, o, loss_of(c, layers, params, x));
  pn_scope_close(c, mark);
}

static void replay(C *c, pn_plan *plan, T *x) {
  size_t mark = pn_scope_open(c);
  T *loss;
  pn_plan_run(c, plan, 1, &x, &loss);
  pn_scope_close(c, mark);
}

/* Microseconds of a step, eager and replayed. */
static void steps(C *c, int layers, T **params, T *x, double *best) {
  pn_optim *o = adam(c, 2 * layers, params);
  T *inside;
  MEASURE(best[0], step(c, o, layers, params, x));
  pn_capture_begin(c, 1, &x, &inside);
  T *loss = loss_of(c, layers, params, inside);
  pn_optim_step(c, o, loss);
  pn_plan *plan = pn_capture_end(c, 1, &loss);
  MEASURE(best[1], replay(c, plan, x));
  pn_plan_unref(plan);
  pn_optim_unref(o);
}

static void report(C *c, const char *name, int layers, const int64_t *size) {
  size_t mark = pn_scope_open(c);
  T *params[2 * LAYERS], *flat;
  int64_t numbers = 0;
  for (int k = 0; k < layers; k++) {
    params[2 * k] = pn_param(c, normal(c, 2, size + k));
    params[2 * k + 1] = pn_param(c, normal(c, 1, size + k + 1));
    numbers += size[k] * size[k + 1] + size[k + 1];
  }
  flat = pn_param(c, normal(c, 1, &numbers));
  double list = update(c, 2 * layers, params), block = update(c, 1, &flat), whole[2];
  steps(c, layers, params, normal(c, 2, (int64_t[]){BATCH, size[0]}), whole);
  printf("update of %s, %d parameters\t%.2f\tus\t\n", name, 2 * layers, list);
  printf("  of one block of as many numbers\t%.2f\tus\t\n", block);
  printf("  what a block would save, of an eager step\t%.1f\t%%\t10\n", 100 * (list - block) / whole[0]);
  printf("  what a block would save, of a replayed step\t%.1f\t%%\t10\n", 100 * (list - block) / whole[1]);
  pn_scope_close(c, mark);
}

int main(void) {
  C *c = pn_context_new(&(pn_context_config){.seed = 1, .threads = 1});
  pni_blas_single_thread();
  for (size_t k = 0; k < sizeof nets / sizeof *nets; k++) report(c, nets[k].name, nets[k].layers, nets[k].size);
  if (pn_context_status(c)) printf("%s\n", pn_context_message(c));
  pn_context_close(c);
  return 0;
}
