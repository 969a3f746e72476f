/* optim_test.c: optimisers from C: trajectories against plain loops, failed steps, state, lifetime. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
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
  CHECK_STATUS(c, pn_optim_apply(c, o, (pn_tensor *[]){one, NULL}), PN_OK);
  double x[3];
  pn_tensor_copy_out(c, p, x, 3);
  CHECK_NEAR(x[2], -1, 1e-15);
  pn_tensor_copy_out(c, q, x, 3);
  CHECK_NEAR(x[2], 0, 1e-15);
  CHECK_STATUS(c, pn_optim_apply(c, o, (pn_tensor *[]){one, pn_scalar(c, PN_FLOAT64, 1)}), PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "parameter 2 (shape [3])");
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
  CHECK_INT(pn_context_objects(c), 0);
  CHECK_STATUS(c, pn_context_status(c), PN_OK);
  pn_context_close(c);
  CHECK_DONE();
}
