/* optim_test.c: optimisers from C: trajectories against plain loops, failed steps, state, lifetime. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "../../src/nn/optimiser/update.h"
#include "check.h"

static const double target[] = {1, -2, 3};

/* sum (p - target)^2 / 2 */
static pn_tensor *bowl(pn_context *c, pn_tensor *p) {
  pn_tensor *t = pn_cast(c, pn_from_data(c, PN_FLOAT64, 1, (int64_t[]){3}, target), pn_tensor_dtype(p));
  pn_tensor *s = pn_sum(c, pn_square(c, pn_sub(c, p, t)), PN_ALL, 0);
  return pn_mul(c, s, pn_scalar(c, pn_tensor_dtype(p), 0.5));
}

static pn_tensor *start(pn_context *c, pn_dtype dtype) { return pn_param(c, pn_zeros(c, dtype, 1, (int64_t[]){3})); }

static pn_status steps(pn_context *c, pn_optim *o, pn_tensor *p, int n) {
  for (int i = 0; i < n; i++) {
    size_t mark = pn_scope_open(c);
    pn_optim_step(c, o, bowl(c, p));
    pn_scope_close(c, mark);
  }
  return pn_context_status(c);
}

static void test_adam(pn_context *c, pn_dtype dtype, double tolerance) {
  size_t mark = pn_scope_open(c);
  pn_tensor *p = start(c, dtype);
  pn_optim *o = pn_optim_new(c, "adam", 1, &p, NULL, (pn_option[]){{"lr", 0.05, NULL}, {0}});
  CHECK(o != NULL);
  CHECK_STATUS(c, steps(c, o, p, 100), PN_OK);
  double x[3] = {0}, m[3] = {0}, v[3] = {0}, got[3];
  for (int t = 1; t <= 100; t++)
    for (int k = 0; k < 3; k++) {
      double g = x[k] - target[k];
      m[k] = 0.9 * m[k] + 0.1 * g;
      v[k] = 0.999 * v[k] + 0.001 * g * g;
      x[k] -= 0.05 * (m[k] / (1 - pow(0.9, t))) / (sqrt(v[k] / (1 - pow(0.999, t))) + 1e-8);
    }
  pn_tensor_copy_out(c, p, got, 3);
  for (int k = 0; k < 3; k++) CHECK_NEAR(got[k], x[k], tolerance);
  pn_optim_unref(o);
  pn_scope_close(c, mark);
}

/* Moving averages of a gradient that has become zero shrink to 0, not to numbers below the smallest normal one, where
 * arithmetic is slow. The parameter stays where it is. */
static void test_rest(pn_context *c) {
#if defined(__x86_64__)
  size_t mark = pn_scope_open(c);
  pn_tensor *p = start(c, PN_FLOAT32), *g = pn_full(c, PN_FLOAT32, 1, (int64_t[]){3}, 1e-3);
  pn_tensor *zero = pn_zeros(c, PN_FLOAT32, 1, (int64_t[]){3});
  pn_optim *o = pn_optim_new(c, "adam", 1, &p, NULL, NULL);
  double m[3], before[3], after[3];
  CHECK_STATUS(c, pn_optim_apply(c, o, &g), PN_OK);
  pn_tensor_copy_out(c, pn_optim_state(c, o, 1), m, 3);
  for (int k = 0; k < 3; k++) CHECK_NEAR(m[k], 1e-4, 1e-6);
  volatile double tiny = 1e-310; /* outside of updates arithmetic is as ever */
  CHECK(tiny * 0.5 > 0);
  for (int i = 0; i < 1000; i++) CHECK_STATUS(c, pn_optim_apply(c, o, &zero), PN_OK);
  pn_tensor_copy_out(c, p, before, 3);
  CHECK_STATUS(c, pn_optim_apply(c, o, &zero), PN_OK);
  pn_tensor_copy_out(c, p, after, 3);
  pn_tensor_copy_out(c, pn_optim_state(c, o, 1), m, 3);
  for (int k = 0; k < 3; k++) CHECK(m[k] == 0 && before[k] == after[k] && before[k] != 0);
  pn_optim_unref(o);
  pn_scope_close(c, mark);
#else
  (void)c;
#endif
}

static void test_sgd(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *p = start(c, PN_FLOAT64);
  pn_optim *o = pn_optim_new(c, "sgd", 1, &p, NULL,
                             (pn_option[]){{"lr", 0.1, NULL}, {"momentum", 0.9, NULL}, {"nesterov", 1, NULL}, {0}});
  CHECK_STATUS(c, steps(c, o, p, 20), PN_OK);
  double x[3] = {0}, b[3] = {0}, got[3];
  for (int t = 0; t < 20; t++)
    for (int k = 0; k < 3; k++) {
      double g = x[k] - target[k];
      b[k] = 0.9 * b[k] + g;
      x[k] -= 0.1 * (g + 0.9 * b[k]);
    }
  pn_tensor_copy_out(c, p, got, 3);
  for (int k = 0; k < 3; k++) CHECK_NEAR(got[k], x[k], 1e-12);
  pn_optim_unref(o);
  pn_scope_close(c, mark);
}

/* A step that fails leaves parameters and state bit for bit. */
static void test_failed_step(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *p = start(c, PN_FLOAT64), *q = pn_param(c, pn_full(c, PN_FLOAT64, 1, (int64_t[]){3}, 1));
  const char *names[] = {"first", "second"};
  pn_optim *o = pn_optim_new(c, "adam", 2, (pn_tensor *[]){q, p}, names, NULL);
  CHECK_STATUS(c, pn_optim_step(c, o, pn_add(c, bowl(c, p), bowl(c, q))), PN_OK);
  double before[6], after[6], state[2][15];
  pn_tensor_copy_out(c, p, before, 3);
  pn_tensor_copy_out(c, q, before + 3, 3);
  for (int i = 0; i < 5; i++) pn_tensor_copy_out(c, pn_optim_state(c, o, i), state[0] + 3 * i, i ? 3 : 2);
  /* the value is finite, d sqrt at 0 is not; q has a fine gradient and must rest all the same */
  pn_tensor *zero = pn_mul(c, p, pn_scalar(c, PN_FLOAT64, 0));
  pn_tensor *loss = pn_add(c, bowl(c, q), pn_sum(c, pn_sqrt(c, zero), PN_ALL, 0));
  CHECK_STATUS(c, pn_optim_step(c, o, loss), PN_NAN);
  CHECK(strstr(pn_context_message(c), "'first'") || strstr(pn_context_message(c), "'second'"));
  CHECK_FAIL(c, PN_NAN, "derivative of 'sqrt'");
  pn_tensor *log_zero = pn_sum(c, pn_log(c, zero), PN_ALL, 0);
  CHECK_STATUS(c, pn_optim_step(c, o, pn_exp(c, pn_neg(c, log_zero))), PN_NAN);
  CHECK_FAIL(c, PN_NAN, "'log' (result of shape [3]) gave -inf");
  pn_tensor_copy_out(c, p, after, 3);
  pn_tensor_copy_out(c, q, after + 3, 3);
  CHECK(memcmp(before, after, sizeof before) == 0);
  for (int i = 0; i < 5; i++) pn_tensor_copy_out(c, pn_optim_state(c, o, i), state[1] + 3 * i, i ? 3 : 2);
  for (int i = 0; i < 5; i++) CHECK(memcmp(state[0] + 3 * i, state[1] + 3 * i, (i ? 3 : 2) * sizeof(double)) == 0);
  pn_optim_unref(o);
  pn_scope_close(c, mark);
}

static void test_given_gradients(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *p = start(c, PN_FLOAT64), *q = start(c, PN_FLOAT64);
  pn_optim *o = pn_optim_new(c, "sgd", 2, (pn_tensor *[]){p, q}, NULL, (pn_option[]){{"lr", 1, NULL}, {0}});
  pn_tensor *one = pn_broadcast_to(c, pn_scalar(c, PN_FLOAT64, 1), 1, (int64_t[]){3});
  pn_tensor *before[] = {bowl(c, p), bowl(c, q)};
  CHECK_STATUS(c, pn_optim_apply(c, o, (pn_tensor *[]){one, NULL}), PN_OK);
  CHECK_STATUS(c, pn_backward(c, before[0]), PN_STALE); /* of numbers that are no more */
  pn_context_clear_error(c);
  CHECK_STATUS(c, pn_backward(c, before[1]), PN_OK);
  double x[3];
  pn_tensor_copy_out(c, p, x, 3);
  CHECK_NEAR(x[2], -1, 1e-15);
  pn_tensor_copy_out(c, q, x, 3);
  CHECK_NEAR(x[2], 0, 1e-15);
  CHECK_STATUS(c, pn_optim_apply(c, o, (pn_tensor *[]){one, pn_scalar(c, PN_FLOAT64, 1)}), PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "sgd: gradient of parameter 2 (shape [3]) must have its shape, got []");
  CHECK_STATUS(c, pn_optim_apply(c, o, (pn_tensor *[]){one, pn_zeros(c, PN_FLOAT64, 1, (int64_t[]){2})}), PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "sgd: gradient of parameter 2 (shape [3]) must have its shape, got [2]");
  CHECK_STATUS(c, pn_optim_apply(c, o, (pn_tensor *[]){pn_cast(c, one, PN_FLOAT32), NULL}), PN_DTYPE);
  CHECK_FAIL(c, PN_DTYPE, "float64, got float32");
  CHECK_STATUS(c, pn_optim_apply(c, o, (pn_tensor *[]){NULL, NULL}), PN_STATE);
  CHECK_FAIL(c, PN_STATE, "no parameter");
  pn_tensor_copy_out(c, p, x, 3);
  CHECK_NEAR(x[2], -1, 1e-15);
  pn_optim_unref(o);
  pn_scope_close(c, mark);
}

static void test_refusals(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *p = start(c, PN_FLOAT64);
  CHECK(!pn_optim_new(c, "adagard", 1, &p, NULL, NULL));
  CHECK_FAIL(c, PN_MISSING, "'adagard'");
  CHECK(!pn_optim_new(c, "adam", 1, &p, NULL, (pn_option[]){{"lr", -1, NULL}, {0}}));
  CHECK_FAIL(c, PN_DOMAIN, "adam: lr must lie in");
  CHECK(!pn_optim_new(c, "adam", 1, &p, NULL, (pn_option[]){{"beta1", 1, NULL}, {0}}));
  CHECK_FAIL(c, PN_DOMAIN, "adam: beta1");
  CHECK(!pn_optim_new(c, "adam", 1, &p, NULL, (pn_option[]){{"rate", 1, NULL}, {0}}));
  CHECK_FAIL(c, PN_DOMAIN, "unknown option 'rate'");
  CHECK(!pn_optim_new(c, "adam", 2, (pn_tensor *[]){p, p}, NULL, NULL));
  CHECK_FAIL(c, PN_STATE, "parameter 2 must be listed once");
  CHECK(!pn_optim_new(c, "adam", 0, NULL, NULL, NULL));
  CHECK_FAIL(c, PN_STATE, "at least one");
  CHECK(!pn_optim_new(c, "adam", 1, (pn_tensor *[]){pn_zeros(c, PN_FLOAT64, 0, NULL)}, NULL, NULL));
  CHECK_FAIL(c, PN_STATE, "must be made by param");
  pn_scope_close(c, mark);
}

/* Saved and restored, an optimiser goes on as if nothing had happened. */
static void test_state(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *p = start(c, PN_FLOAT64);
  const char *name = "w";
  pn_optim *o = pn_optim_new(c, "adam", 1, &p, &name, NULL);
  steps(c, o, p, 10);
  pn_tensor *q = pn_param(c, p);
  pn_optim *r = pn_optim_new(c, "adam", 1, &q, NULL, NULL);
  CHECK_INT(pn_optim_num_states(o), 3);
  char buf[64];
  CHECK_STR(pn_optim_state_name(o, 2, buf, sizeof buf), "v.w");
  CHECK_STR(pn_optim_state_name(r, 1, buf, sizeof buf), "m.1");
  for (int i = 0; i < 3; i++) CHECK_STATUS(c, pn_optim_set_state(c, r, i, pn_optim_state(c, o, i)), PN_OK);
  steps(c, o, p, 10);
  steps(c, r, q, 10);
  CHECK(memcmp(pn_tensor_data(p), pn_tensor_data(q), 3 * sizeof(double)) == 0);
  CHECK_STATUS(c, pn_optim_set_state(c, r, 1, pn_scalar(c, PN_FLOAT64, 0)), PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "'m.1'");
  static const double wrong[2][3] = {{0, NAN, 0}, {0, -1, 0}};
  static const char *const said[] = {"'m.1' must be finite", "'v.1' must be sums of squares, 0 or more"};
  for (int i = 0; i < 2; i++) {
    CHECK_STATUS(c, pn_optim_set_state(c, r, 1 + i, pn_from_data(c, PN_FLOAT64, 1, (int64_t[]){3}, wrong[i])),
                 PN_DOMAIN);
    CHECK_FAIL(c, PN_DOMAIN, said[i]);
  }
  CHECK_STATUS(c, pn_optim_set_state(c, r, 0, pn_from_data(c, PN_INT64, 1, (int64_t[]){1}, (int64_t[]){-1})),
               PN_DOMAIN);
  CHECK_FAIL(c, PN_DOMAIN, "'step' must be numbers of steps, from 0 to 2^53");
  steps(c, r, q, 10); /* as it was */
  steps(c, o, p, 10);
  CHECK(memcmp(pn_tensor_data(p), pn_tensor_data(q), 3 * sizeof(double)) == 0);
  CHECK_STATUS(c, pn_optim_set(c, r, "lr", 0.5), PN_OK);
  double lr;
  CHECK_STATUS(c, pn_optim_get(c, r, "lr", &lr), PN_OK);
  CHECK_NEAR(lr, 0.5, 0);
  pn_optim_unref(o);
  pn_optim_unref(r);
  pn_scope_close(c, mark);
}

/* Counts what the allocator is asked for, and refuses at call number `fail_at`. */
typedef struct {
  long calls, fail_at;
} counter;

static void *counted(void *data, void *block, size_t old_size, size_t new_size) {
  counter *k = data;
  (void)old_size;
  if (new_size == 0) {
    free(block);
    return NULL;
  }
  if (++k->calls == k->fail_at) return NULL;
  return realloc(block, new_size);
}

/* After warm-up a step takes nothing from the allocator; every allocation may fail without harm. */
static void test_memory(void) {
  counter k = {0, -1};
  pn_context *c = pn_context_new(&(pn_context_config){.allocate = counted, .allocator_data = &k, .threads = 1});
  pn_tensor *p = pn_tensor_ref(start(c, PN_FLOAT64));
  pn_optim *o = pn_optim_new(c, "adam", 1, &p, NULL, NULL);
  steps(c, o, p, 5);
  long warm = k.calls;
  steps(c, o, p, 100);
  CHECK_INT(k.calls, warm);
  pn_optim_unref(o);
  pn_tensor_unref(p);
  pn_context_close(c);
  bool done = false;
  for (long at = 1; !done && at < 500; at++) {
    counter f = {0, at};
    c = pn_context_new(
        &(pn_context_config){.allocate = counted, .allocator_data = &f, .threads = 1, .pool_limit = PN_NO_POOL});
    if (!c) continue;
    size_t mark = pn_scope_open(c);
    p = start(c, PN_FLOAT64);
    o = p ? pn_optim_new(c, "adam", 1, &p, NULL, NULL) : NULL;
    pn_status s = o ? pn_optim_step(c, o, bowl(c, p)) : pn_context_status(c);
    if (o && s != PN_OK) {
      double x[3] = {9, 9, 9};
      pn_context_clear_error(c);
      pn_tensor_copy_out(c, p, x, 3);
      CHECK(x[0] == 0 && x[1] == 0 && x[2] == 0);
      CHECK_STATUS(c, pn_optim_step(c, o, bowl(c, p)), PN_OK);
    }
    done = s == PN_OK;
    pn_optim_unref(o);
    pn_scope_close(c, mark);
    CHECK_INT(pn_context_objects(c), 0);
    CHECK_INT(pn_context_memory(c, NULL) < 2048, 1); /* the scope's list */
    pn_context_close(c);
  }
  CHECK(done);
}

/* ---- every row, number by number, against its formula ---- */

typedef struct {
  const char *name;
  double lr, decay, a, b, eps, extra; /* decays of moments, or what the formula below reads */
  const char *key[6];                 /* options of lr .. extra, NULL: it has none */
} formula;

#define ADAM(name)                                                                                                     \
  {                                                                                                                    \
    name, 0.07, 0.3, 0.7, 0.8, 0.01, 0, { "lr", "weight_decay", "beta1", "beta2", "eps", NULL }                        \
  }

static const formula formulas[] = {
    {"sgd", 0.07, 0.3, 0.6, 0, 0, 0, {"lr", "weight_decay", "momentum", "nesterov", NULL, NULL}},
    {"sgd", 0.07, 0.3, 0.6, 1, 0, 0, {"lr", "weight_decay", "momentum", "nesterov", NULL, NULL}},
    ADAM("adam"),
    ADAM("adamw"),
    ADAM("amsgrad"),
    ADAM("nadam"),
    {"radam", 0.07, 0.3, 0.7, 0.85, 0.01, 0, {"lr", "weight_decay", "beta1", "beta2", "eps", NULL}},
    ADAM("adamax"),
    {"rmsprop", 0.07, 0.3, 0.8, 0, 0.01, 0.6, {"lr", "weight_decay", "alpha", "centred", "eps", "momentum"}},
    {"rmsprop", 0.07, 0.3, 0.8, 1, 0.01, 0.6, {"lr", "weight_decay", "alpha", "centred", "eps", "momentum"}},
    {"adagrad", 0.07, 0.3, 0.4, 0, 0.01, 0, {"lr", "weight_decay", "lr_decay", NULL, "eps", NULL}},
    {"adadelta", 0.7, 0.3, 0.8, 0, 0.01, 0, {"lr", "weight_decay", "alpha", NULL, "eps", NULL}},
    {"rprop", 0.05, 0.4, 1.5, 0.03, 0.07, 0, {"lr", "shrink", "grow", "least", "most", NULL}},
    {"sgld", 0.07, 0.3, 0, 0, 0, 0.9, {"lr", "weight_decay", NULL, NULL, NULL, "temperature"}},
    {"psgld", 0.07, 0.3, 0.8, 0, 0.01, 0.9, {"lr", "weight_decay", "alpha", NULL, "eps", "temperature"}},
    {"sghmc", 0.07, 0.3, 0.4, 0, 0, 0.9, {"lr", "weight_decay", "friction", NULL, NULL, "temperature"}},
    {"muon", 0.07, 0.3, 0.7, 0.8, 0.01, 0.6, {"lr", "weight_decay", "beta1", "beta2", "eps", "adamw_scale"}},
};

/* One number of a parameter after its step number t: x, its slots s, gradient g, standard normal number z. */
static double stepped(const formula *f, double lr, double decay, int t, double g, double z, double x, double *s) {
  const char *name = f->name;
  double a = f->a, b = f->b, eps = f->eps, d = g + decay * x, past = s[0];
  if (strcmp(name, "sgd") == 0) {
    s[0] = a * s[0] + d;
    return x - lr * (b ? d + a * s[0] : s[0]);
  }
  if (strcmp(name, "rmsprop") == 0) {
    s[0] = a * s[0] + (1 - a) * d * d;
    s[1] = a * s[1] + (1 - a) * d;
    s[2] = f->extra * s[2] + d / (sqrt(fmax(s[0] - b * s[1] * s[1], 0)) + eps);
    return x - lr * s[2];
  }
  if (strcmp(name, "adagrad") == 0) {
    s[0] += d * d;
    return x - lr / (1 + (t - 1) * a) * d / (sqrt(s[0]) + eps);
  }
  if (strcmp(name, "adadelta") == 0) {
    s[0] = a * s[0] + (1 - a) * d * d;
    double e = sqrt((s[1] + eps) / (s[0] + eps)) * d;
    s[1] = a * s[1] + (1 - a) * e * e;
    return x - lr * e;
  }
  if (strcmp(name, "rprop") == 0) {
    double turn = past * g;
    s[1] = fmin(fmax((t == 1 ? lr : s[1]) * (turn > 0 ? a : turn < 0 ? decay : 1), b), eps);
    s[0] = turn < 0 ? 0 : g;
    return turn < 0 || g == 0 ? x : x - copysign(s[1], g);
  }
  if (strcmp(name, "sgld") == 0) return x - lr * d + sqrt(2 * lr * f->extra) * z;
  if (strcmp(name, "psgld") == 0) {
    s[0] = a * s[0] + (1 - a) * d * d;
    double metric = 1 / (sqrt(s[0]) + eps);
    return x - lr * metric * d + sqrt(2 * lr * metric * f->extra) * z;
  }
  if (strcmp(name, "sghmc") == 0) {
    s[0] = (1 - a) * s[0] - lr * d + sqrt(2 * a * lr * f->extra) * z;
    return x + s[0];
  }
  if (strcmp(name, "adamax") == 0) {
    s[0] = a * s[0] + (1 - a) * d;
    s[1] = fmax(b * s[1], fabs(d) + eps);
    return x - lr / (1 - pow(a, t)) * s[0] / s[1];
  }
  if (strcmp(name, "muon") == 0) lr *= f->extra;
  s[0] = a * s[0] + (1 - a) * g;
  s[1] = b * s[1] + (1 - b) * g * g;
  double mean = s[0] / (1 - pow(a, t)), square = s[1] / (1 - pow(b, t));
  if (strcmp(name, "amsgrad") == 0) {
    s[2] = fmax(s[2], s[1]);
    square = s[2] / (1 - pow(b, t));
  }
  if (strcmp(name, "nadam") == 0) mean = a * s[0] / (1 - pow(a, t + 1)) + (1 - a) * g / (1 - pow(a, t));
  double by = sqrt(square) + eps;
  if (strcmp(name, "radam") == 0) {
    double most = 2 / (1 - b) - 1, r = most - 2 * t * pow(b, t) / (1 - pow(b, t));
    double rectified = sqrt((r - 4) * (r - 2) * most / ((most - 4) * (most - 2) * r));
    by = r > 5 ? (sqrt(s[1]) + eps) / sqrt(1 - pow(b, t)) / rectified : 1;
  }
  return x - lr * decay * x - lr * mean / by;
}

enum { PARAMS = 5, MOST_SIZE = 200 };

/* Sizes at the ends of the 64 lanes of a sum of squares; one of nothing. */
static const int64_t size_of[PARAMS] = {1, 64, 0, 65, 191};

/* Gradient k of parameter i at step t; two parameters have none at the second. */
static double slope(int i, int k, int t) { return 3 * sin(1.7 * k + 2.3 * i + 0.9 * t * t) + (k % 7 == 3 ? 2 : 0); }
static bool rests(int i, int t) { return t == 2 && (i == 1 || i == 4); }

/* Eight steps with options of single parameters and both ways of clipping, which count in some steps only. */
static void test_formula(const formula *f, pn_dtype dtype, int threads, double tolerance) {
  static double x[PARAMS][MOST_SIZE], s[PARAMS][MOST_SIZE][3], got[MOST_SIZE], g[PARAMS][MOST_SIZE];
  pn_context *c = pn_context_new(&(pn_context_config){.seed = 5, .threads = threads});
  pn_context *other = pn_context_new(&(pn_context_config){.seed = 5, .threads = 1});
  pn_tensor *p[PARAMS], *grad[PARAMS];
  double value[6] = {f->lr, f->decay, f->a, f->b, f->eps, f->extra}, limit = 2.4, norm_limit = 40, worst = 0;
  pn_option options[9] = {{"clip_norm", norm_limit, NULL}, {"clip_value", limit, NULL}};
  int count = 2, done[PARAMS] = {0};
  for (int k = 0; k < 6; k++)
    if (f->key[k]) options[count++] = (pn_option){f->key[k], value[k], NULL};
  memset(s, 0, sizeof s);
  for (int i = 0; i < PARAMS; i++) {
    for (int k = 0; k < size_of[i]; k++) x[i][k] = (float)cos(1 + 0.7 * k + i);
    p[i] = pn_param(c, pn_cast(c, pn_from_data(c, PN_FLOAT64, 1, &size_of[i], x[i]), dtype));
  }
  pn_optim *o = pn_optim_new(c, f->name, PARAMS, p, NULL, options);
  CHECK_STATUS(c, pn_optim_set_own(c, o, 1, "lr", 0.04), PN_OK);
  CHECK_STATUS(c, pn_optim_set_own(c, o, 1, "lr_scale", 0.5), PN_OK); /* of no account beside a rate of its own */
  CHECK_STATUS(c, pn_optim_set_own(c, o, 3, "lr_scale", 0.9), PN_OK);
  CHECK_STATUS(c, pn_optim_set_own(c, o, 3, f->key[1], 0.45), PN_OK);
  for (int t = 1; t <= 8; t++) {
    double squares = 0, scale = t % 3 == 0 ? 3 : 0.4;
    for (int i = 0; i < PARAMS; i++) {
      for (int k = 0; k < size_of[i]; k++) g[i][k] = (float)(scale * slope(i, k, t));
      for (int k = 0; k < size_of[i] && !rests(i, t); k++) squares += g[i][k] * g[i][k];
      grad[i] = rests(i, t) ? NULL : pn_cast(c, pn_from_data(c, PN_FLOAT64, 1, &size_of[i], g[i]), dtype);
    }
    CHECK_STATUS(c, pn_optim_apply(c, o, grad), PN_OK);
    double by = fmin(1, norm_limit / sqrt(squares));
    CHECK((by < 1) == (t % 3 == 0));
    for (int i = 0; i < PARAMS; i++) {
      double z[MOST_SIZE] = {0}, lr = i == 1 ? 0.04 : i == 3 ? 0.9 * f->lr : f->lr, decay = i == 3 ? 0.45 : f->decay;
      if (rests(i, t)) continue;
      done[i]++;
      if (f->key[5] && strcmp(f->key[5], "temperature") == 0)
        pn_tensor_copy_out(other, pn_randn(other, NULL, dtype, 1, &size_of[i]), z, size_of[i]);
      for (int k = 0; k < size_of[i]; k++)
        x[i][k] = stepped(f, lr, decay, done[i], fmax(-limit, fmin(limit, by * g[i][k])), z[k], x[i][k], s[i][k]);
    }
    for (int i = 0; i < PARAMS; i++) {
      pn_tensor_copy_out(c, p[i], got, size_of[i]);
      for (int k = 0; k < size_of[i]; k++) worst = fmax(worst, fabs(got[k] - x[i][k]));
    }
  }
  if (!check_record(worst < tolerance)) printf("%s, %s: %g off\n", f->name, pn_dtype_name(dtype), worst);
  double steps_of[PARAMS];
  pn_tensor_copy_out(c, pn_optim_state(c, o, 0), steps_of, PARAMS);
  for (int i = 0; i < PARAMS; i++) CHECK(steps_of[i] == done[i]);
  pn_optim_unref(o);
  pn_context_close(c);
  pn_context_close(other);
}

/* Numbers of several shards of 16384: the norm and every update are those of plain loops, with one thread and with two,
 * to the bit of each other. */
static void test_shards(pn_dtype dtype) {
  enum { N = 3, ALL = 16383 + 1 + 33000 };
  static const int64_t sizes[N] = {16383, 1, 33000};
  static double g[ALL], got[2][ALL];
  double squares = 0;
  for (int k = 0; k < ALL; k++) {
    g[k] = (float)(sin(0.37 * k) + (k == 16383));
    squares += g[k] * g[k];
  }
  for (int threads = 1; threads <= 2; threads++) {
    pn_context *c = pn_context_new(&(pn_context_config){.threads = threads});
    pn_tensor *p[N], *grad[N];
    for (int i = 0, from = 0; i < N; from += (int)sizes[i++]) {
      p[i] = pn_param(c, pn_zeros(c, dtype, 1, &sizes[i]));
      grad[i] = pn_cast(c, pn_from_data(c, PN_FLOAT64, 1, &sizes[i], g + from), dtype);
    }
    pn_option options[] = {{"lr", 1, NULL}, {"clip_norm", 10, NULL}, {0}};
    pn_optim *o = pn_optim_new(c, "sgd", N, p, NULL, options);
    CHECK_STATUS(c, pn_optim_apply(c, o, grad), PN_OK);
    double *to = got[threads - 1];
    for (int i = 0, from = 0; i < N; from += (int)sizes[i++]) pn_tensor_copy_out(c, p[i], to + from, sizes[i]);
    double worst = 0;
    for (int k = 0; k < ALL; k++) worst = fmax(worst, fabs(to[k] + 10 / sqrt(squares) * g[k]));
    CHECK(worst < (dtype == PN_FLOAT64 ? 1e-14 : 1e-8));
    for (int bad = 0; bad < N; bad++) /* the first parameter is named, in whichever shard it lies */
      for (int64_t k = 0; k < sizes[bad]; k += k + 1 < sizes[bad] ? sizes[bad] - 1 : 1) {
        double nan = bad ? INFINITY : NAN;
        pn_tensor *wrong[N];
        for (int i = 0, from = 0; i < N; from += (int)sizes[i++]) {
          static double v[ALL];
          memcpy(v, g + from, (size_t)sizes[i] * sizeof *v);
          if (i >= bad) v[i == bad ? k : 0] = nan;
          wrong[i] = pn_cast(c, pn_from_data(c, PN_FLOAT64, 1, &sizes[i], v), dtype);
        }
        char text[128];
        snprintf(text, sizeof text, "gradient of parameter %d (shape [%d]) must be finite: given by the caller",
                 bad + 1, (int)sizes[bad]);
        CHECK_STATUS(c, pn_optim_apply(c, o, wrong), PN_NAN);
        CHECK_FAIL(c, PN_NAN, text);
      }
    double after[1];
    pn_tensor_copy_out(c, p[1], after, 1);
    CHECK(after[0] == to[16383]);
    pn_optim_unref(o);
    pn_context_close(c);
  }
  CHECK(memcmp(got[0], got[1], sizeof got[0]) == 0);
}

/* Sums of squares and the look for numbers that are not finite, of every size up to some lanes. */
static void test_sums(void) {
  enum { ALL = 200 };
  double x[ALL + 1], sum = 0;
  float y[ALL + 1];
  for (int n = 0; n <= ALL; n++) {
    CHECK_NEAR(pni_sum_squares_f64(x, n), sum, 1e-14);
    CHECK_NEAR(pni_sum_squares_f32(y, n), sum, 1e-14);
    CHECK(pni_finite_f64(x, n) && pni_finite_f32(y, n));
    x[n] = y[n] = NAN; /* beyond the end */
    CHECK(pni_finite_f64(x, n) && pni_finite_f32(y, n));
    CHECK(!pni_finite_f64(x, n + 1) && !pni_finite_f32(y, n + 1));
    x[n] = y[n] = -INFINITY;
    CHECK(!pni_finite_f64(x, n + 1) && !pni_finite_f32(y, n + 1));
    x[n] = DBL_MAX, y[n] = -FLT_MAX;
    CHECK(pni_finite_f64(x, n + 1) && pni_finite_f32(y, n + 1));
    x[n] = y[n] = (float)sin(1 + n * n);
    sum += x[n] * x[n];
  }
}

/* The norm of as many numbers as fill shards of 16384, one less and one more, after larger ones. */
static void test_norm_of_shards(pn_context *c, pn_dtype dtype) {
  static const int64_t sizes[] = {40000, 32769, 32768, 32767, 16385, 16384, 1};
  static double g[40000], got[40000];
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t mark = pn_scope_open(c);
    double squares = 0, worst = 0;
    for (int64_t k = 0; k < sizes[i]; k++) {
      g[k] = (float)(2 + cos(0.7 * (double)k));
      squares += g[k] * g[k];
    }
    pn_tensor *p = pn_param(c, pn_zeros(c, dtype, 1, &sizes[i]));
    pn_tensor *grad = pn_cast(c, pn_from_data(c, PN_FLOAT64, 1, &sizes[i], g), dtype);
    pn_optim *o = pn_optim_new(c, "sgd", 1, &p, NULL, (pn_option[]){{"lr", 1, NULL}, {"clip_norm", 0.5, NULL}, {0}});
    CHECK_STATUS(c, pn_optim_apply(c, o, &grad), PN_OK);
    pn_tensor_copy_out(c, p, got, sizes[i]);
    for (int64_t k = 0; k < sizes[i]; k++) worst = fmax(worst, fabs(got[k] / g[k] * sqrt(squares) + 0.5));
    CHECK(worst < (dtype == PN_FLOAT64 ? 1e-12 : 1e-6));
    pn_optim_unref(o);
    pn_scope_close(c, mark);
  }
}

/* A norm whose squares overflow, or vanish, is |g| all the same. */
static void test_norm(pn_context *c) {
  for (int big = 0; big < 2; big++) {
    size_t mark = pn_scope_open(c);
    double size = big ? 1e200 : 1, got[3];
    pn_tensor *p[3], *grad[3] = {NULL, NULL, NULL};
    for (int i = 0; i < 3; i++) p[i] = start(c, PN_FLOAT64);
    pn_option options[] = {{"lr", 1, NULL}, {"clip_norm", 13 * size * (1 - 1e-9), NULL}, {0}};
    pn_optim *o = pn_optim_new(c, "sgd", 3, p, NULL, options);
    for (int i = 0; i < 3; i += 2)
      grad[i] =
          pn_mul(c, pn_from_data(c, PN_FLOAT64, 1, (int64_t[]){3}, i ? (double[]){0, -12, 0} : (double[]){3, 0, 4}),
                 pn_scalar(c, PN_FLOAT64, size));
    CHECK_STATUS(c, pn_optim_apply(c, o, grad), PN_OK);
    pn_tensor_copy_out(c, p[2], got, 3);
    CHECK(got[1] < 12 * size * (1 - 0.9e-9) && got[1] > 12 * size * (1 - 1.1e-9));
    CHECK_STATUS(c, pn_optim_set(c, o, "clip_norm", 13 * size * (1 + 1e-9)), PN_OK);
    CHECK_STATUS(c, pn_optim_apply(c, o, grad), PN_OK);
    pn_tensor_copy_out(c, p[0], got, 3);
    CHECK_NEAR(got[2], -4 * size * (2 - 1e-9), 1e-12); /* the second one passed as it was */
    size_t held = pn_context_memory(c, NULL);
    CHECK_STATUS(c, pn_optim_apply(c, o, grad), PN_OK);
    CHECK(pn_context_memory(c, NULL) == held);
    /* in a plan, too: half of each gradient, when it is captured and when it is run */
    pn_tensor *given[] = {grad[0], grad[2]}, *inside[2], *out;
    double before[3];
    pn_tensor_copy_out(c, p[0], before, 3);
    CHECK_STATUS(c, pn_optim_set(c, o, "clip_norm", 6.5 * size), PN_OK);
    CHECK_STATUS(c, pn_capture_begin(c, 2, given, inside), PN_OK);
    CHECK_STATUS(c, pn_optim_apply(c, o, (pn_tensor *[]){inside[0], NULL, inside[1]}), PN_OK);
    out = pn_neg(c, inside[0]);
    pn_plan *plan = pn_capture_end(c, 1, &out);
    CHECK_STATUS(c, pn_plan_run(c, plan, 2, given, &out), PN_OK);
    pn_tensor_copy_out(c, p[0], got, 3);
    CHECK_NEAR(got[2], before[2] - 4 * size, 1e-12);
    CHECK_INT(c->evaluating, 0);
    pn_plan_unref(plan);
    pn_optim_unref(o);
    pn_scope_close(c, mark);
  }
}

/* Muon's steps in matrices of both shapes are those of gradients that were clipped beforehand. */
static void test_clipped_matrices(pn_context *c) {
  for (int turned = 0; turned < 2; turned++) {
    size_t mark = pn_scope_open(c);
    int64_t shape[] = {turned ? 2 : 5, turned ? 5 : 2};
    double g[10], cut[10], squares = 0, got[2][10];
    for (int k = 0; k < 10; k++) {
      g[k] = 2 * cos(1.3 * k * k + k);
      squares += g[k] * g[k];
    }
    for (int k = 0; k < 10; k++) cut[k] = fmax(-0.6, fmin(0.6, g[k] * 3 / sqrt(squares)));
    CHECK(squares > 9);
    for (int by = 0; by < 2; by++) {
      pn_tensor *p = pn_param(c, pn_full(c, PN_FLOAT64, 2, shape, 0.3));
      pn_tensor *grad = pn_from_data(c, PN_FLOAT64, 2, shape, by ? g : cut);
      pn_option options[] = {{"lr", 0.1, NULL}, {"clip_norm", 3, NULL}, {"clip_value", 0.6, NULL}, {0}};
      if (!by) options[1].name = NULL;
      pn_optim *o = pn_optim_new(c, "muon", 1, &p, NULL, options);
      CHECK_STATUS(c, pn_optim_apply(c, o, &grad), PN_OK);
      pn_tensor_copy_out(c, pn_optim_state(c, o, 1), got[by], 10);
      for (int k = 0; k < 10; k++) CHECK_NEAR(got[by][k], 0.05 * cut[k], 1e-12); /* the mean of gradients */
      for (int t = 0; t < 2; t++) CHECK_STATUS(c, pn_optim_apply(c, o, &grad), PN_OK);
      pn_tensor_copy_out(c, p, got[by], 10);
      pn_optim_unref(o);
    }
    for (int k = 0; k < 10; k++) CHECK_NEAR(got[1][k], got[0][k], 1e-10);
    CHECK(fabs(got[0][0] - 0.3) > 0.01);
    pn_scope_close(c, mark);
  }
}

static void test_own_refusals(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *p[2] = {start(c, PN_FLOAT64), start(c, PN_FLOAT32)};
  pn_optim *o = pn_optim_new(c, "adam", 2, p, NULL, NULL);
  static const struct {
    int i;
    const char *option;
    double value;
    const char *said; /* NULL: taken */
  } row[] = {{-1, "lr", 1, "adam: parameter must lie in 0 to 1, got -1"},
             {2, "lr", 1, "adam: parameter must lie in 0 to 1, got 2"},
             {0, "lr_scale", -1e-9, "adam: lr_scale must be a number from 0, got -1e-09"},
             {0, "lr_scale", NAN, "adam: lr_scale must be a number from 0, got"},
             {0, "lr_scale", INFINITY, "adam: lr_scale must be a number from 0, got inf"},
             {0, "clip_norm", 1, "adam: 'clip_norm' is of all parameters together"},
             {1, "clip_value", 1, "adam: 'clip_value' is of all parameters together"},
             {1, "beta1", 1, "adam: beta1 must lie in"},
             {1, "bet", 0.5, "adam: unknown option 'bet'"},
             {0, "lr_scale", 0, NULL},
             {1, "beta1", 0, NULL}};
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    pn_status got = pn_optim_set_own(c, o, row[k].i, row[k].option, row[k].value);
    CHECK_STATUS(c, got, row[k].said ? PN_DOMAIN : PN_OK);
    if (row[k].said) CHECK_FAIL(c, PN_DOMAIN, row[k].said);
  }
  char buf[64];
  CHECK_INT(pn_optim_num_states(o), 5);
  CHECK_STR(pn_optim_state_name(o, 0, buf, sizeof buf), "step");
  CHECK_STR(pn_optim_state_name(o, 3, buf, sizeof buf), "m.2");
  CHECK_STR(pn_optim_state_name(o, 4, buf, sizeof buf), "v.2");
  CHECK(!pn_optim_state_name(o, 5, buf, sizeof buf) && !pn_optim_state_name(o, -1, buf, sizeof buf));
  CHECK(!pn_optim_state_name(o, 0, NULL, 0) && !pn_optim_state_name(NULL, 0, buf, sizeof buf));
  for (int at = -1; at <= 5; at += 6) {
    char text[64];
    snprintf(text, sizeof text, "adam: state number must lie in 0 to 4, got %d", at);
    CHECK(!pn_optim_state(c, o, at));
    CHECK_FAIL(c, PN_DOMAIN, text);
    CHECK_STATUS(c, pn_optim_set_state(c, o, at, p[0]), PN_DOMAIN);
    CHECK_FAIL(c, PN_DOMAIN, text);
  }
  CHECK_STATUS(c, pn_optim_set_state(c, o, 1, NULL), PN_STATE);
  CHECK_FAIL(c, PN_STATE, "adam: state must be a tensor, got NULL");
  CHECK_STATUS(c, pn_optim_set_state(c, o, 1, p[1]), PN_DTYPE);
  CHECK_FAIL(c, PN_DTYPE, "adam: 'm.1' must be float64, got float32");
  CHECK_STATUS(c, pn_optim_set_state(c, o, 3, pn_zeros(c, PN_FLOAT32, 2, (int64_t[]){3, 1})), PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "adam: 'm.2' must have shape [3], got [3, 1]");
  CHECK_STATUS(c, pn_optim_set_state(c, o, 3, pn_full(c, PN_FLOAT32, 1, (int64_t[]){3}, INFINITY)), PN_DOMAIN);
  CHECK_FAIL(c, PN_DOMAIN, "adam: 'm.2' must be finite");
  CHECK_STATUS(c, pn_optim_set_state(c, o, 4, pn_full(c, PN_FLOAT32, 1, (int64_t[]){3}, INFINITY)), PN_OK);
  CHECK_STATUS(c, pn_optim_set_state(c, o, 4, pn_full(c, PN_FLOAT32, 1, (int64_t[]){3}, -1e-30)), PN_DOMAIN);
  CHECK_FAIL(c, PN_DOMAIN, "adam: 'v.2' must be sums of squares, 0 or more");
  for (int64_t more = 0; more < 2; more++) {
    int64_t step[2] = {0, ((int64_t)1 << 53) + more};
    CHECK_STATUS(c, pn_optim_set_state(c, o, 0, pn_from_data(c, PN_INT64, 1, (int64_t[]){2}, step)),
                 more ? PN_DOMAIN : PN_OK);
    if (more) CHECK_FAIL(c, PN_DOMAIN, "adam: 'step' must be numbers of steps, from 0 to 2^53");
  }
  double value = 7;
  CHECK_STATUS(c, pn_optim_get(c, o, "betb", &value), PN_DOMAIN);
  CHECK_FAIL(c, PN_DOMAIN, "adam: unknown option 'betb'");
  CHECK(value == 7 && pn_optim_num_params(o) == 2 && pn_optim_num_params(NULL) == 0);
  CHECK(pn_optim_param(o, 0) == p[0] && pn_optim_param(o, 1) == p[1] && !pn_optim_param(o, 2));
  CHECK(!pn_optim_param(o, -1) && !pn_optim_param(NULL, 0) && !pn_optim_type(NULL));
  CHECK_STR(pn_optim_type(o), "adam");
  CHECK_STATUS(c, pn_optim_step(c, NULL, p[0]), PN_STATE);
  CHECK_FAIL(c, PN_STATE, "optim_step: optimiser and loss must not be NULL");
  CHECK_STATUS(c, pn_optim_step(c, o, NULL), PN_STATE);
  CHECK_FAIL(c, PN_STATE, "optim_step: optimiser and loss must not be NULL");
  pn_tensor *huge = pn_scalar(c, PN_FLOAT64, 1e308);
  CHECK_STATUS(c, pn_optim_step(c, o, pn_mul(c, pn_mul(c, bowl(c, p[0]), huge), huge)), PN_NAN);
  CHECK_FAIL(c, PN_NAN, "adam: the loss must be finite: 'mul' ");
  CHECK_STATUS(c, pn_optim_step(c, o, pn_mul(c, p[0], huge)), PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "[3]");
  CHECK_STATUS(c, pn_optim_apply(c, NULL, p), PN_STATE);
  CHECK_FAIL(c, PN_STATE, "optim_apply: optimiser must not be NULL");
  pn_optim *second = pn_optim_new(c, "adam", 2, (pn_tensor *[]){p[1], p[0]}, NULL, NULL); /* no marks are left */
  CHECK(second && !pn_optim_new(c, "adam", 3, (pn_tensor *[]){p[1], p[0], NULL}, NULL, NULL));
  CHECK_FAIL(c, PN_STATE, "adam: parameter 3 must be made by param, got NULL");
  CHECK(!pn_optim_new(c, "adam", 2, (pn_tensor *[]){p[1], pn_zeros(c, PN_FLOAT64, 0, NULL)}, NULL, NULL));
  CHECK_FAIL(c, PN_STATE, "adam: parameter 2 must be made by param, got another tensor");
  pn_optim_unref(second);
  pn_optim_unref(o);
  pn_scope_close(c, mark);
}

/* ---- a step that is captured, beside one that is called ---- */

enum { W, REST, U, LEARNED, NUMBERS = 6 };

typedef struct {
  pn_context *c;
  pn_tensor *p[LEARNED], *buffer[2];
  pn_optim *o;
} learner;

static learner learner_of(const char *name, pn_dtype dtype, int threads) {
  learner l = {.c = pn_context_new(&(pn_context_config){.seed = 8, .threads = threads})};
  pn_context *c = l.c;
  for (int i = 0; i < LEARNED; i++) {
    double v[NUMBERS];
    for (int k = 0; k < NUMBERS; k++) v[k] = cos(1.3 * k + i);
    l.p[i] = pn_param(c, pn_cast(c, pn_from_data(c, PN_FLOAT64, 2, (int64_t[]){2, 3}, v), dtype));
  }
  l.buffer[0] = pn_buffer(c, pn_full(c, dtype, 2, (int64_t[]){2, 3}, 0.5));
  l.buffer[1] = pn_buffer(c, pn_zeros(c, dtype, 0, NULL));
  l.o = pn_optim_new(c, name, LEARNED, l.p, NULL, (pn_option[]){{"lr", 0.05, NULL}, {0}});
  return l;
}

/* One step of sum (w x + noise)^2 + sum sqrt(u^2 r) + sum s with updates of both buffers, and draws after it. */
static void take(learner *l, pn_tensor *const *in, pn_tensor *out[2]) {
  pn_context *c = l->c;
  pn_dtype dtype = pn_tensor_dtype(in[0]);
  pn_tensor *noise = pn_randn(c, NULL, dtype, 2, (int64_t[]){2, 3});
  pn_tensor *a = pn_sum(c, pn_square(c, pn_add(c, pn_mul(c, l->p[W], in[0]), noise)), PN_ALL, 0);
  out[0] = pn_add(c, a, pn_sum(c, pn_sqrt(c, pn_mul(c, pn_square(c, l->p[U]), in[1])), PN_ALL, 0));
  out[0] = pn_add(c, out[0], pn_sum(c, in[3], PN_ALL, 0));
  out[0] = pn_with_update(c, out[0], l->buffer[0], in[2], 0.25);
  out[0] = pn_with_update(c, out[0], l->buffer[1], pn_sum(c, in[0], PN_ALL, 0), 0.5);
  pn_optim_step(c, l->o, out[0]);
  out[1] = pn_rand(c, NULL, dtype, 1, (int64_t[]){2});
}

enum { HELD = 1 + (LEARNED * 3 + 2) * NUMBERS };

static void numbers_of(const learner *l, double *to) {
  pn_tensor_copy_out(l->c, pn_optim_state(l->c, l->o, 0), to, LEARNED);
  to += LEARNED;
  for (int i = 0; i < LEARNED; i++, to += NUMBERS) pn_tensor_copy_out(l->c, l->p[i], to, NUMBERS);
  for (int i = 1; i < pn_optim_num_states(l->o); i++, to += NUMBERS)
    pn_tensor_copy_out(l->c, pn_optim_state(l->c, l->o, i), to, NUMBERS);
  pn_tensor_copy_out(l->c, l->buffer[0], to, NUMBERS);
  pn_tensor_copy_out(l->c, l->buffer[1], to + NUMBERS, 1);
}

static void inputs_of(pn_context *c, pn_dtype dtype, int turn, int bad, pn_tensor **in) {
  static const double wrong[] = {INFINITY, 0, NAN};
  for (int k = 0; k < 4; k++) {
    double v[NUMBERS];
    for (int i = 0; i < NUMBERS; i++) v[i] = 1.5 + sin(turn + 0.7 * i + k);
    if (k > 0 && bad == k % 3) v[4] = wrong[bad];
    in[k] = pn_cast(c, pn_from_data(c, PN_FLOAT64, 2, (int64_t[]){2, 3}, v), dtype);
  }
}

/* Values, draws, states and buffers are those of calls, to the bit; a step whose loss, gradient or buffer is not
 * finite says so and leaves all as it was; a plan holds the optimiser. */
static void test_replayed(const char *name, pn_dtype dtype, int threads) {
  enum { CALLED, REPLAYED };
  static const char *const said[] = {"the loss must be finite", "gradient of parameter 3 (shape [2, 3]) must be finite",
                                     "buffers: the update of a buffer of shape [2, 3] must be finite"};
  learner l[2] = {learner_of(name, dtype, threads), learner_of(name, dtype, threads)};
  pn_context *c = l[REPLAYED].c;
  pn_plan *plan = NULL;
  for (int turn = 0; turn < 5; turn++) {
    size_t mark[2] = {pn_scope_open(l[CALLED].c), pn_scope_open(c)};
    pn_tensor *in[2][4], *inside[4], *out[2][2];
    double held[2][HELD] = {{0}}, got[2][2], before[HELD] = {0};
    uint64_t draws[2][2];
    for (int k = 0; k < 2; k++) inputs_of(l[k].c, dtype, turn, -1, in[k]);
    take(&l[CALLED], in[CALLED], out[CALLED]);
    if (turn == 0) {
      CHECK_STATUS(c, pn_capture_begin(c, 4, in[REPLAYED], inside), PN_OK);
      take(&l[REPLAYED], inside, out[REPLAYED]);
      CHECK((plan = pn_capture_end(c, 2, out[REPLAYED])) != NULL);
      pn_optim_ref(l[REPLAYED].o);
    } else {
      CHECK_STATUS(c, pn_plan_run(c, plan, 4, in[REPLAYED], out[REPLAYED]), PN_OK);
    }
    for (int k = 0; k < 2; k++) {
      numbers_of(&l[k], held[k]);
      pn_tensor_copy_out(l[k].c, out[k][1], got[k], 2);
      CHECK_STATUS(l[k].c, pn_context_status(l[k].c), PN_OK);
    }
    CHECK(memcmp(held[CALLED], held[REPLAYED], sizeof *held) == 0);
    CHECK(memcmp(got[CALLED], got[REPLAYED], sizeof *got) == 0);
    CHECK(held[REPLAYED][W] == turn + 1 && held[REPLAYED][REST] == 0 && held[REPLAYED][U] == turn + 1);
    for (int bad = 0; bad < 3 && turn % 2; bad++) {
      inputs_of(c, dtype, turn, bad, in[REPLAYED]);
      pn_rng_get_state(pn_context_rng(c), draws[0]);
      int64_t objects = pn_context_objects(c);
      size_t inner = pn_scope_open(c);
      CHECK_STATUS(c, pn_plan_run(c, plan, 4, in[REPLAYED], out[REPLAYED]), PN_NAN);
      CHECK_FAIL(c, PN_NAN, said[bad]);
      pn_scope_close(c, inner);
      CHECK_INT(pn_context_objects(c), objects);
      pn_rng_get_state(pn_context_rng(c), draws[1]);
      numbers_of(&l[REPLAYED], before);
      CHECK(memcmp(before, held[REPLAYED], sizeof before) == 0 && memcmp(draws[0], draws[1], sizeof *draws) == 0);
    }
    if (turn == 0) pn_optim_unref(l[REPLAYED].o);
    for (int k = 0; k < 2; k++) pn_scope_close(l[k].c, mark[k]);
  }
  for (int bad = 0; bad < 3; bad++) { /* a call that is refused leaves all as it was, too */
    size_t mark = pn_scope_open(l[CALLED].c);
    double held[2][HELD] = {{0}};
    pn_tensor *in[4], *out[2];
    inputs_of(l[CALLED].c, dtype, 1, bad, in);
    numbers_of(&l[CALLED], held[0]);
    take(&l[CALLED], in, out);
    CHECK_FAIL(l[CALLED].c, PN_NAN, said[bad]);
    numbers_of(&l[CALLED], held[1]);
    CHECK(memcmp(held[0], held[1], sizeof *held) == 0);
    pn_scope_close(l[CALLED].c, mark);
  }
  pn_optim_unref(l[CALLED].o);
  pn_optim_unref(l[REPLAYED].o);
  pn_plan_unref(plan);
  for (int k = 0; k < 2; k++) {
    CHECK_INT(l[k].c->evaluating, 0);
    for (int i = 0; i < LEARNED; i++) CHECK_INT(l[k].p[i]->refs, 1);
    for (int i = 0; i < 2; i++) CHECK_INT(l[k].buffer[i]->refs, 1);
    pn_context_close(l[k].c);
  }
}

/* A step that spends its loss is the same step; of a gradient that is not finite the origin is gone by then. */
static void test_spent(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *p[2] = {start(c, PN_FLOAT64), start(c, PN_FLOAT64)}, *huge = pn_scalar(c, PN_FLOAT64, 1e308);
  pn_optim *o[2];
  double got[2][3];
  for (int k = 0; k < 2; k++) o[k] = pn_optim_new(c, "sgd", 1, &p[k], NULL, NULL);
  CHECK_STATUS(c, pn_optim_step(c, o[0], bowl(c, p[0])), PN_OK);
  CHECK_STATUS(c, pni_optim_step_spend(c, o[1], bowl(c, p[1])), PN_OK);
  for (int k = 0; k < 2; k++) pn_tensor_copy_out(c, p[k], got[k], 3);
  CHECK(memcmp(got[0], got[1], sizeof *got) == 0 && got[0][0] != 0);
  pn_tensor *zero = pn_mul(c, p[1], pn_scalar(c, PN_FLOAT64, 0));
  CHECK_STATUS(c, pni_optim_step_spend(c, o[1], pn_sum(c, pn_sqrt(c, zero), PN_ALL, 0)), PN_NAN);
  CHECK_FAIL(c, PN_NAN,
             "sgd: gradient of parameter 1 (shape [3]) must be finite: where, a step that is not compiled tells");
  CHECK_STATUS(c, pni_optim_step_spend(c, o[1], pn_mul(c, pn_mul(c, bowl(c, p[1]), huge), huge)), PN_NAN);
  CHECK_FAIL(c, PN_NAN, "sgd: the loss must be finite: 'mul' ");
  for (int k = 0; k < 2; k++) pn_optim_unref(o[k]);
  pn_scope_close(c, mark);
}

int main(void) {
  pn_context *c = pn_context_new(NULL);
  test_adam(c, PN_FLOAT64, 1e-12);
  test_adam(c, PN_FLOAT32, 2e-5);
  test_sgd(c);
  test_rest(c);
  test_failed_step(c);
  test_given_gradients(c);
  test_refusals(c);
  test_state(c);
  test_memory();
  for (size_t k = 0; k < sizeof formulas / sizeof *formulas; k++)
    for (int threads = 1; threads <= 2; threads++) {
      test_formula(&formulas[k], PN_FLOAT64, threads, 1e-12);
      test_formula(&formulas[k], PN_FLOAT32, threads, 5e-6);
    }
  test_shards(PN_FLOAT64);
  test_shards(PN_FLOAT32);
  test_sums();
  test_norm(c);
  test_norm_of_shards(c, PN_FLOAT64);
  test_norm_of_shards(c, PN_FLOAT32);
  test_clipped_matrices(c);
  test_own_refusals(c);
  test_spent(c);
  for (int threads = 1; threads <= 2; threads++)
    for (int k = 0; k < 6; k++)
      test_replayed((const char *[]){"adam", "sgld", "muon"}[k % 3], k < 3 ? PN_FLOAT64 : PN_FLOAT32, threads);
  CHECK_INT(pn_context_objects(c), 0);
  CHECK_STATUS(c, pn_context_status(c), PN_OK);
  pn_context_close(c);
  CHECK_DONE();
}
