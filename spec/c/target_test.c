/*
** target_test.c: the density of a script's model as a host sees it: values, gradients and variables against their
** formulas; contexts and threads of its own; what is outside of the support; limits and wrong use.
*/
#include <pthread.h>
#include <stdlib.h>
#include "check.h"
#include "hmc_fixture.h"
#include "poisoned.h"

#include "../../src/base/context.h"

static const char script[] = "local pn = require 'penumbra'\n"
                             "local dist = pn.dist\n"
                             "local model = pn.model(function(m, y)\n"
                             "  local s = m:sample('s', dist.gamma(2, 3))\n"
                             "  local w = m:sample('w', dist.normal(pn.zeros(2, 2), 1):independent(2))\n"
                             "  m:deterministic('double', s * 2)\n"
                             "  m:observe('y', dist.normal(w:reshape{4}, s):independent(1), y)\n"
                             "end)\n"
                             "inference = {target = model:target(pn.tensor{1, 2, 3, 4})}\n"
                             "number = 3\n"
                             "forged = {for_host = function() return 1, 2, 3 end}\n"
                             "raising = {for_host = function() error 'no' end}\n"
                             "endless = {for_host = function() while true do end end}\n";

static pn_runtime *run_script(const pn_limits *limits) {
  pn_runtime *rt = NULL;
  pn_runtime_config config = {.context = {.threads = 1, .seed = 1}};
  if (limits) config.limits = *limits;
  CHECK(pn_runtime_new(&config, &rt) == PN_OK);
  pn_status s = pn_runtime_run_string(rt, script, sizeof script - 1, NULL);
  CHECK_STR(s == PN_OK ? "" : pn_runtime_message(rt), "");
  return rt;
}

static double log_normal(double x, double loc, double scale) {
  return -0.5 * (x - loc) * (x - loc) / (scale * scale) - log(scale) - 0.5 * log(2 * acos(-1));
}

/* z = log s (the bijector of a positive number), w */
static double formula(const double *z) {
  double s = exp(z[0]), lp = 2 * log(3) + log(s) - 3 * s + z[0];
  for (int i = 0; i < 4; i++) lp += log_normal(z[1 + i], 0, 1) + log_normal(i + 1, z[1 + i], s);
  return lp;
}

static const double points[][5] = {{0, 0, 0, 0, 0}, {0.7, 1, -2, 0.3, 4}, {-1, 0.1, 0.2, 0.3, 0.4}};

static void check_points(pn_context *c, pn_target *t) {
  for (int k = 0; k < 3; k++) {
    double lp = 0, gradient[5], values[6], z[5], step = 1e-6;
    CHECK_STATUS(c, pn_target_evaluate(c, t, points[k], &lp, gradient), PN_OK);
    CHECK_NEAR(lp, formula(points[k]), 1e-12);
    for (int i = 0; i < 5; i++) {
      memcpy(z, points[k], sizeof z);
      z[i] += step;
      double up = formula(z);
      z[i] -= 2 * step;
      CHECK_NEAR(gradient[i], (up - formula(z)) / (2 * step), 1e-6);
    }
    CHECK_STATUS(c, pn_target_constrain(c, t, 1, points[k], values), PN_OK);
    CHECK_NEAR(values[0], exp(points[k][0]), 1e-14);
    for (int i = 0; i < 4; i++) CHECK_NEAR(values[1 + i], points[k][1 + i], 0);
    CHECK_NEAR(values[5], 2 * exp(points[k][0]), 1e-14);
  }
}

static void check_variables(const pn_target *t) {
  const pn_variable *s = pn_target_variable(t, 0), *w = pn_target_variable(t, 1), *d = pn_target_variable(t, 2);
  CHECK_INT(pn_target_size(t), 5);
  CHECK_INT(pn_target_num_values(t), 6);
  CHECK_INT(pn_target_num_variables(t), 3);
  CHECK(!pn_target_variable(t, 3) && !pn_target_variable(t, -1));
  CHECK(strcmp(s->name, "s") == 0 && s->ndim == 0 && s->first == 0 && s->size == 1 && !s->deterministic);
  CHECK(strcmp(w->name, "w") == 0 && w->ndim == 2 && w->shape[1] == 2 && w->first == 1 && w->size == 4);
  CHECK(strcmp(d->name, "double") == 0 && d->first == 5 && d->size == 1 && d->deterministic);
}

/* Taken into a context of the host the target outlives the runtime; the runtime's own serves as well. */
static void lives(void) {
  pn_runtime *rt = run_script(NULL);
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1});
  pn_target *t = NULL, *own = NULL;
  CHECK(pn_runtime_target(rt, "inference.target", c, &t) == PN_OK);
  CHECK(pn_runtime_target(rt, "inference.target", NULL, &own) == PN_OK);
  check_points(pn_runtime_context(rt), own);
  pn_target_free(own);
  pn_runtime_close(rt);
  check_variables(t);
  check_points(c, t);
  pn_target *copy = pn_target_copy(c, t);
  pn_target_free(t);
  check_variables(copy);
  check_points(c, copy);
  pn_target_free(copy);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
}

/* ---- threads ---- */

typedef struct {
  pn_context *c;
  pn_target *t;
  double sum;
} worker;

static void *work(void *data) {
  worker *w = data;
  double z[5], lp, gradient[5];
  for (int k = 0; k < 2000; k++) {
    for (int i = 0; i < 5; i++) z[i] = sin(k + i);
    if (pn_target_evaluate(w->c, w->t, z, &lp, gradient) != PN_OK) w->sum = NAN;
    w->sum += lp + gradient[k % 5];
  }
  return NULL;
}

static void threads(void) {
  enum { MANY = 3 };
  pn_runtime *rt = run_script(NULL);
  worker w[MANY] = {{0}};
  pthread_t thread[MANY];
  for (int k = 0; k < MANY; k++) {
    w[k].c = pn_context_new(&(pn_context_config){.threads = 1});
    CHECK(pn_runtime_target(rt, "inference.target", w[k].c, &w[k].t) == PN_OK);
  }
  pn_runtime_close(rt);
  for (int k = 0; k < MANY; k++) pthread_create(&thread[k], NULL, work, &w[k]);
  for (int k = 0; k < MANY; k++) {
    pthread_join(thread[k], NULL);
    CHECK(w[k].sum == w[0].sum && isfinite(w[k].sum));
    pn_target_free(w[k].t);
    pn_context_close(w[k].c);
  }
}

/* ---- failures ---- */

static void refusals(void) {
  static const struct {
    const char *name, *text;
    pn_status status;
  } bad[] = {{"absent", "there is no global 'absent'", PN_MISSING},
             {"inference.absent", "there is no global", PN_MISSING},
             {"number", "number must be a target, as model:target(...) gives it, got number", PN_DTYPE},
             {"inference", "inference must be a target", PN_DTYPE},
             {"forged", "variables must be a list", PN_SCRIPT},
             {"raising", "no", PN_SCRIPT},
             {"endless", "instruction limit", PN_LIMIT}};
  pn_runtime *rt = run_script(&(pn_limits){.instructions = 10000000});
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1});
  pn_target *t = NULL;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    pn_status s = pn_runtime_target(rt, bad[i].name, c, &t);
    CHECK_INT(s, bad[i].status);
    if (!check_record(strstr(pn_runtime_message(rt), bad[i].text) != NULL))
      printf("%s: %s\n", bad[i].name, pn_runtime_message(rt));
    CHECK(!t && pn_context_status(c) == PN_OK && pn_context_objects(c) == 0);
  }
  CHECK(pn_runtime_target(rt, NULL, c, &t) == PN_DOMAIN && pn_runtime_target(rt, "number", c, NULL) == PN_DOMAIN);
  CHECK(pn_runtime_target(NULL, "number", c, &t) == PN_STATE);
  pn_runtime_cancel(rt);
  CHECK(pn_runtime_target(rt, "inference.target", c, &t) == PN_CANCELLED);
  pn_context *narrow = pn_context_new(&(pn_context_config){.threads = 1, .memory_limit = 1000});
  CHECK(pn_runtime_target(rt, "inference.target", narrow, &t) == PN_NOMEM && !t);
  CHECK(pn_context_status(narrow) == PN_OK);
  pn_context_close(narrow);
  CHECK(pn_runtime_target(rt, "inference.target", c, &t) == PN_OK); /* and it is usable */
  double lp = 0, gradient[5];
  pn_context_cancel(c);
  CHECK(pn_target_evaluate(c, t, points[0], &lp, gradient) == PN_CANCELLED);
  pn_context_uncancel(c);
  pn_context_clear_error(c);
  const double outside[5] = {1e4, 0, 0, 0, 0}; /* a scale that is infinite */
  CHECK_STATUS(c, pn_target_evaluate(c, t, outside, &lp, gradient), PN_OK);
  CHECK(lp == -INFINITY && gradient[0] == 0 && gradient[4] == 0);
  pn_target_free(t);
  pn_context_close(c);
  pn_runtime_close(rt);
}

/* ---- functions of the host ---- */

static pn_status moody(void *data, const double *z, double *log_density, double *gradient) {
  pn_status *s = data;
  *log_density = z[0] > 10 ? INFINITY : z[0] < -10 ? NAN : -z[0] * z[0] / 2;
  gradient[0] = -z[0];
  return *s;
}

static void functions(void) {
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1});
  pn_status answer = PN_OK;
  double lp = 0, gradient = 3, z = 1, value;
  pn_target *t = pn_target_of_function(c, 1, moody, &answer);
  CHECK(strcmp(pn_target_variable(t, 0)->name, "z") == 0 && pn_target_num_values(t) == 1);
  CHECK(pn_target_constrain(c, t, 1, &z, &value) == PN_OK && value == 1);
  CHECK(pn_target_evaluate(c, t, &z, &lp, &gradient) == PN_OK && lp == -0.5 && gradient == -1);
  for (z = -20; z < 30; z += 40) {
    CHECK(pn_target_evaluate(c, t, &z, &lp, &gradient) == PN_OK);
    CHECK(lp == -INFINITY && gradient == 0);
  }
  z = 1;
  answer = PN_SINGULAR;
  CHECK(pn_target_evaluate(c, t, &z, &lp, &gradient) == PN_OK && lp == -INFINITY && gradient == 0);
  answer = PN_IO;
  CHECK(pn_target_evaluate(c, t, &z, &lp, &gradient) == PN_IO);
  CHECK_FAIL(c, PN_IO, "density: the function failed (io)");
  CHECK(!pn_target_sampler(c, t, NULL, NULL, NULL));
  CHECK_FAIL(c, PN_IO, "density: the function failed (io)");
  answer = PN_OK;
  pn_sampler *s = pn_target_sampler(c, t, &(pn_sampler_config){.draws = 100, .warmup = 100}, NULL, NULL);
  CHECK_STATUS(c, pn_sampler_run(c, s, 50), PN_OK);
  answer = PN_FORMAT;
  CHECK(pn_sampler_run(c, s, 50) == PN_FORMAT);
  CHECK_FAIL(c, PN_FORMAT, "function failed");
  CHECK_STATUS(c, pn_sampler_run(c, s, 0), PN_OK); /* what has failed is no failure of the next run */
  answer = PN_OK;
  CHECK_STATUS(c, pn_sampler_run(c, s, 200), PN_OK);
  CHECK(pn_sampler_finished(s));
  pn_sampler_free(s);
  pn_target_free(t);
  CHECK(!pn_target_of_function(c, 0, moody, NULL));
  CHECK_FAIL(c, PN_DOMAIN, "target:");
  CHECK(!pn_target_of_function(c, 1, NULL, NULL));
  CHECK_FAIL(c, PN_DOMAIN, "target:");
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
}

/* Twice the first m of n numbers, as numbers of a type. */
static pn_plan *twice(pn_context *c, int64_t n, int64_t m, pn_dtype dtype) {
  pn_tensor *at = pn_full(c, PN_FLOAT64, 1, &n, 0.25), *inside, *out;
  if (pn_capture_begin(c, 1, &at, &inside)) return NULL;
  out = pn_cast(c, pn_mul(c, pn_slice(c, inside, 0, 0, m, 1), pn_scalar(c, PN_FLOAT64, 2)), dtype);
  return pn_capture_end(c, 1, &out);
}

/* Plans of a host: what does not fit is refused, by number, length and type of results. */
static void plans(void) {
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1});
  size_t mark = pn_scope_open(c);
  static const pn_variable wrong[] = {{.name = "a", .ndim = 1, .shape = {4}}};
  pn_plan *density = density_plan(c, 3, standard_normal, NULL);
  pn_target *t = pn_target_new(c, density, NULL, 0, NULL);
  CHECK_INT(pn_target_num_values(t), 3);
  pn_target_free(t);
  CHECK(!pn_target_new(c, density, density, 1, wrong));
  CHECK_FAIL(c, PN_SHAPE, "target: values must be a plan z [3] -> [4]");
  CHECK(!pn_target_new(c, NULL, NULL, 0, NULL));
  CHECK_FAIL(c, PN_STATE, "target_new: density must not be NULL");
  CHECK(!pn_target_copy(c, NULL) && !pn_target_sampler(c, NULL, NULL, NULL, NULL));
  CHECK_FAIL(c, PN_STATE, "must not be NULL");
  pn_target_free(NULL);
  static const pn_variable right[] = {{.name = "a", .ndim = 1, .shape = {3}}};
  pn_plan *of[] = {twice(c, 3, 3, PN_FLOAT64), twice(c, 4, 4, PN_FLOAT64), twice(c, 4, 3, PN_FLOAT64),
                   twice(c, 3, 2, PN_FLOAT64), twice(c, 3, 3, PN_FLOAT32)};
  t = pn_target_new(c, density, of[0], 1, right);
  CHECK_INT(pn_target_num_values(t), 3);
  pn_target_free(t);
  CHECK(!pn_target_new(c, density, of[0], 1, wrong)); /* three results for a variable of four */
  CHECK_FAIL(c, PN_SHAPE, "target: values must be a plan z [3] -> [4]");
  for (int k = 1; k < 5; k++) { /* of four numbers, all of them or three; two results; results of float32 */
    CHECK(!pn_target_new(c, density, of[k], 1, right));
    CHECK_FAIL(c, PN_SHAPE, "target: values must be a plan z [3] -> [3]");
  }
  CHECK(!pn_target_new(c, of[0], NULL, 0, NULL)); /* no gradient */
  CHECK_FAIL(c, PN_SHAPE, "target");
  for (int k = 0; k < 5; k++) pn_plan_unref(of[k]);
  pn_plan_unref(density);
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
}

/* What is asked of a target: rows at once, with values of its own or z itself; places of variables; nothing within a
 * capture; what is no target at all. */
static void asked(void) {
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1});
  size_t mark = pn_scope_open(c);
  static const pn_variable v[] = {{.name = "a", .ndim = 2, .shape = {2, 1}}, {.name = "b"}, {.name = "c", .ndim = 1}};
  pn_variable list[3];
  memcpy(list, v, sizeof v);
  list[2].shape[0] = 1;
  pn_plan *density = density_plan(c, 4, standard_normal, NULL), *values = twice(c, 4, 4, PN_FLOAT64);
  pn_target *t = pn_target_new(c, density, values, 3, list), *plain = pn_target_new(c, density, NULL, 0, NULL);
  static const int64_t first[] = {0, 2, 3}, size[] = {2, 1, 1};
  for (int i = 0; i < 3; i++)
    CHECK(pn_target_variable(t, i)->first == first[i] && pn_target_variable(t, i)->size == size[i]);
  CHECK(pn_target_num_variables(t) == 3 && pn_target_num_variables(plain) == 1 && pn_target_size(t) == 4);
  double z[12], got[13], lp, gradient[4];
  for (int rows = 0; rows <= 3; rows++)
    for (int own = 0; own < 2; own++) {
      for (int i = 0; i < 12; i++) z[i] = sin(i + 1), got[i] = 7;
      CHECK_STATUS(c, pn_target_constrain(c, own ? t : plain, rows, z, got), PN_OK);
      for (int i = 0; i < 12; i++) CHECK_NEAR(got[i], i < 4 * rows ? (own ? 2 : 1) * z[i] : 7, 0);
    }
  pn_tensor *at = pn_zeros(c, PN_FLOAT64, 1, (const int64_t[]){4}), *inside;
  pn_sampler *s = pn_target_sampler(c, t, &(pn_sampler_config){.draws = 1, .warmup = -1}, NULL, NULL);
  for (int k = 0; k < 4; k++) {
    CHECK_STATUS(c, pn_capture_begin(c, 1, &at, &inside), PN_OK);
    if (k == 0) pn_target_evaluate(c, t, z, &lp, gradient);
    if (k == 1) pn_target_constrain(c, t, 1, z, got);
    if (k == 2) CHECK(!pn_target_sampler(c, t, NULL, NULL, NULL));
    if (k == 3) pn_sampler_run(c, s, 1);
    CHECK_FAIL(c, PN_STATE, k < 2 ? "a target" : "a sampler");
    pn_capture_end(c, 0, NULL);
    pn_context_clear_error(c);
  }
  pn_sampler_free(s);
  pn_target_free(t);
  pn_target_free(plain);
  CHECK(pn_target_size(NULL) == 0 && pn_target_num_values(NULL) == 0 && pn_target_num_variables(NULL) == 0);
  CHECK(!pn_target_variable(NULL, 0));
  list[1].name = NULL;
  CHECK(!pn_target_new(c, density, values, 3, list));
  CHECK_FAIL(c, PN_STATE, "target: variables: v[i].name must not be NULL");
  list[1] = v[1];
  list[0].shape[1] = -1;
  CHECK(!pn_target_new(c, density, values, 3, list) && pn_context_status(c) != PN_OK);
  pn_context_clear_error(c);
  CHECK(!pn_target_new(c, density, values, -1, list) && pn_context_status(c) != PN_OK);
  pn_context_clear_error(c);
  for (int more = 0; more < 2; more++) {
    pn_target *large = pn_target_of_function(c, (int64_t)INT32_MAX + more, moody, NULL);
    CHECK((large != NULL) == !more && (!large || pn_target_num_values(large) == INT32_MAX));
    if (more) CHECK_FAIL(c, PN_DOMAIN, "target: needs a function of 1 to 2147483647 numbers, got 2147483648");
    pn_target_free(large);
  }
  pn_plan_unref(values);
  pn_plan_unref(density);
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
}

/* Names of the target's own, and its copy's, in memory whose blocks have fences. */
static void names(void) {
  poisoned_memory *m = calloc(1, sizeof *m);
  pn_context *c = pn_context_new(
      &(pn_context_config){.allocate = poisoned_allocate, .allocator_data = m, .pool_limit = PN_NO_POOL, .threads = 1});
  size_t mark = pn_scope_open(c);
  char first[300] = "", want[300], second[] = "s";
  memset(first, 'n', sizeof first - 1);
  memcpy(want, first, sizeof want);
  const pn_variable v[] = {{.name = first, .ndim = 1, .shape = {2}}, {.name = second}};
  pn_plan *density = density_plan(c, 3, standard_normal, NULL), *values = twice(c, 3, 3, PN_FLOAT64);
  pn_target *t = pn_target_new(c, density, values, 2, v), *copy = pn_target_copy(c, t);
  first[0] = second[0] = '?';
  pn_target_free(t);
  CHECK(copy && strcmp(pn_target_variable(copy, 0)->name, want) == 0);
  CHECK(copy && strcmp(pn_target_variable(copy, 1)->name, "s") == 0);
  pn_target_free(copy);
  pn_plan_unref(values);
  pn_plan_unref(density);
  pn_scope_close(c, mark);
  pn_context_close(c);
  CHECK_INT(poisoned_end(m), 0);
  free(m);
}

int main(void) {
  lives();
  names();
  threads();
  refusals();
  functions();
  plans();
  asked();
  CHECK_DONE();
}
