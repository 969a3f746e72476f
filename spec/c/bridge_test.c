/*
** bridge_test.c: a script's model through BridgeStan's C interface (src/bridge): names and their order, densities with
** and without jacobian, gradients and Hessians against formulas, values and back, starts, drawn quantities, threads.
*/
#include <pthread.h>
#include "bridge_fixture.h"

/* s positive; w a matrix whose elements have means of their own; p a simplex; y sees all of them. */
static const char script[] = "local pn = require 'penumbra'\n"
                             "local dist = pn.dist\n"
                             "local model = pn.model(function(m, loc, y)\n"
                             "  local s = m:sample('s', dist.gamma(2, 3))\n"
                             "  local w = m:sample('w', dist.normal(loc, 0.5):independent(2))\n"
                             "  local p = m:sample('p', dist.dirichlet(pn.tensor{2, 3, 4}))\n"
                             "  m:deterministic('d', w * s)\n"
                             "  m:observe('y', dist.normal(w:matmul(p), s):independent(1), y)\n"
                             "end)\n"
                             "print('two', data.y)\n"
                             "target = model:target(data.loc, data.y)\n";
static const char data[] = ", \"loc\": [[1, 2, 3], [4, 5, 6.5]], \"y\": [0.5, 1.25]";
enum { N = 9, PARAMS = 10, ALL = 16 };

static double loc_of(int i, int j) { return (double[]){1, 2, 3, 4, 5, 6.5}[3 * i + j]; }

static double log_normal(double x, double loc, double scale) {
  return -0.5 * (x - loc) * (x - loc) / (scale * scale) - log(scale) - 0.5 * log(2 * acos(-1));
}

/* The log density of values in the interface's order: s, w column by column, p. */
static double formula(const double *x) {
  const double *w = x + 1, *p = x + 7, y[] = {0.5, 1.25};
  double s = x[0], lp = 2 * log(3) + log(s) - 3 * s;
  lp += lgamma(9) - lgamma(2) - lgamma(3) - lgamma(4) + log(p[0]) + 2 * log(p[1]) + 3 * log(p[2]);
  for (int i = 0; i < 2; i++) {
    double mean = 0;
    for (int j = 0; j < 3; j++) {
      lp += log_normal(w[2 * j + i], loc_of(i, j), 0.5);
      mean += w[2 * j + i] * p[j];
    }
    lp += log_normal(y[i], mean, s);
  }
  return lp;
}

static const double points[][N] = {{0, 0, 0, 0, 0, 0, 0, 0, 0},
                                   {0.7, 1, -2, 0.3, 4, 0.1, -0.2, 0.5, -0.9},
                                   {-1, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, -1.5, 0.25}};

static void values_of(const bs_model *m, const double *z, double *x) {
  char *error = NULL;
  CHECK_CALM(bs_param_constrain(m, false, false, z, x, NULL, &error));
}

/* log |det d(s, p1, p2) / dz| by central differences of the values; w is z itself. */
static double log_det(const bs_model *m, const double *z) {
  static const int in[] = {0, 7, 8}, out[] = {0, 7, 8};
  double a[3][3], x[PARAMS], moved[N], h = 1e-5;
  for (int k = 0; k < 3; k++) {
    for (int side = -1; side <= 1; side += 2) {
      memcpy(moved, z, sizeof moved);
      moved[in[k]] += side * h;
      values_of(m, moved, x);
      for (int i = 0; i < 3; i++) a[i][k] = side < 0 ? -x[out[i]] : (a[i][k] + x[out[i]]) / (2 * h);
    }
  }
  return log(fabs(a[0][0] * (a[1][1] * a[2][2] - a[1][2] * a[2][1])));
}

/* ---- what there is ---- */

static void names(const bs_model *m) {
  static const char parameters[] = "s,w.1.1,w.2.1,w.1.2,w.2.2,w.1.3,w.2.3,p.1,p.2,p.3";
  char all[256];
  snprintf(all, sizeof all, "%s,d.1.1,d.2.1,d.1.2,d.2.2,d.1.3,d.2.3", parameters);
  CHECK_STR(bs_name(m), "two");
  CHECK(strstr(bs_model_info(m), "STAN_THREADS=true") && strstr(bs_model_info(m), "2.9.0"));
  CHECK_STR(bs_param_names(m, false, false), parameters);
  CHECK_STR(bs_param_names(m, false, true), parameters);
  CHECK_STR(bs_param_names(m, true, false), all);
  CHECK_STR(bs_param_unc_names(m), "s,w.1.1,w.2.1,w.1.2,w.2.2,w.1.3,w.2.3,p.1,p.2");
  CHECK_INT(bs_param_num(m, false, false), PARAMS);
  CHECK_INT(bs_param_num(m, true, true), ALL);
  CHECK_INT(bs_param_unc_num(m), N);
  CHECK(bs_major_version == 2 && bs_minor_version == 9 && bs_patch_version == 0);
}

/* ---- densities ---- */

static double density(const bs_model *m, bool jacobian, const double *z) {
  char *error = NULL;
  double lp = NAN, same = NAN;
  CHECK_CALM(bs_log_density(m, true, jacobian, z, &lp, &error));
  CHECK_CALM(bs_log_density(m, false, jacobian, z, &same, &error));
  CHECK(lp == same); /* no constant is left out */
  return lp;
}

static void densities(const bs_model *m) {
  char *error = NULL;
  for (int k = 0; k < 3; k++) {
    double x[PARAMS], lp, gradient[N], z[N], h = 1e-5;
    values_of(m, points[k], x);
    CHECK_NEAR(density(m, false, points[k]), formula(x), 1e-12);
    CHECK_NEAR(density(m, true, points[k]), formula(x) + log_det(m, points[k]), 1e-8);
    for (int jacobian = 0; jacobian < 2; jacobian++) {
      CHECK_CALM(bs_log_density_gradient(m, true, jacobian, points[k], &lp, gradient, &error));
      CHECK(lp == density(m, jacobian, points[k]));
      for (int i = 0; i < N; i++) {
        memcpy(z, points[k], sizeof z);
        z[i] += h;
        double up = density(m, jacobian, z);
        z[i] -= 2 * h;
        CHECK(fabs(gradient[i] - (up - density(m, jacobian, z)) / (2 * h)) < 1e-6 * (1 + fabs(gradient[i])));
      }
    }
  }
}

/* Second differences of the log density itself, by the formula where there is no jacobian. */
static double second(const bs_model *m, bool jacobian, const double *at, int i, int j) {
  double sum = 0, h = 1e-3, z[N], x[PARAMS];
  for (int a = -1; a <= 1; a += 2)
    for (int b = -1; b <= 1; b += 2) {
      memcpy(z, at, sizeof z);
      z[i] += a * h;
      z[j] += b * h;
      values_of(m, z, x);
      sum += a * b * (jacobian ? density(m, true, z) : formula(x));
    }
  return sum / (4 * h * h);
}

static void hessians(const bs_model *m) {
  char *error = NULL;
  for (int jacobian = 0; jacobian < 2; jacobian++) {
    const double *z = points[1], v[N] = {1e3, -2, 3, 0, 0.5, 1, -1e-3, 2, 1};
    double lp, again, gradient[N], h[N * N], product[N], first[N];
    CHECK_CALM(bs_log_density_hessian(m, false, jacobian, z, &lp, gradient, h, &error));
    CHECK_CALM(bs_log_density_gradient(m, false, jacobian, z, &again, first, &error));
    CHECK(lp == again && memcmp(gradient, first, sizeof first) == 0);
    CHECK_CALM(bs_log_density_hessian_vector_product(m, false, jacobian, z, v, &again, product, &error));
    CHECK(lp == again);
    for (int i = 0; i < N; i++) {
      double sum = 0, scale = 0;
      for (int j = 0; j < N; j++) {
        CHECK(h[i * N + j] == h[j * N + i]);
        CHECK(fabs(h[i * N + j] - second(m, jacobian, z, i, j)) < 1e-4 * (1 + fabs(h[i * N + j])));
        sum += h[i * N + j] * v[j];
        scale += fabs(h[i * N + j] * v[j]);
      }
      CHECK(fabs(product[i] - sum) < 1e-7 * (1 + scale));
    }
    CHECK_CALM(bs_log_density_hessian_vector_product(m, false, jacobian, z, (double[N]){0}, &lp, product, &error));
    for (int i = 0; i < N; i++) CHECK(product[i] == 0);
    CHECK_SAYS(bs_log_density_hessian_vector_product(m, 0, jacobian, z, (double[N]){NAN}, &lp, product, &error),
               "vector must be finite");
  }
}

/* Where the density is 0 a density is an answer and a Hessian is none. */
static void outside(const bs_model *m) {
  char *error = NULL;
  double z[N] = {1e4}, lp = 0, gradient[N] = {1}, h[N * N];
  CHECK_CALM(bs_log_density_gradient(m, true, true, z, &lp, gradient, &error));
  CHECK(lp == -INFINITY && gradient[0] == 0 && gradient[N - 1] == 0);
  CHECK_SAYS(bs_log_density_hessian(m, true, true, z, &lp, gradient, h, &error), "density is 0 near theta_unc");
  CHECK_CALM(bs_log_density(m, true, true, points[0], &lp, &error));
  CHECK(isfinite(lp));
}

/* ---- values and back ---- */

static void constraints(const bs_model *m) {
  char *error = NULL, json[512];
  for (int k = 0; k < 3; k++) {
    double x[ALL], z[N] = {0};
    CHECK_CALM(bs_param_constrain(m, true, false, points[k], x, NULL, &error));
    CHECK_NEAR(x[0], exp(points[k][0]), 1e-14);
    for (int i = 0; i < 6; i++) CHECK(x[1 + i] == points[k][1 + i]);
    for (int i = 0; i < 6; i++) CHECK_NEAR(x[10 + i], x[1 + i] * x[0], 1e-14); /* d is w s, element by element */
    CHECK_NEAR(x[7] + x[8] + x[9], 1, 1e-14);
    CHECK_CALM(bs_param_unconstrain(m, x, z, &error));
    for (int i = 0; i < N; i++) CHECK(fabs(z[i] - points[k][i]) < 1e-12);
    memset(z, 0, sizeof z);
    snprintf(json, sizeof json,
             "{\"p\": [%.17g, %.17g, %.17g], \"w\": [[%.17g, %.17g, %.17g], [%.17g, %.17g, %.17g]], \"s\": %.17g, "
             "\"stranger\": 3}",
             x[7], x[8], x[9], x[1], x[3], x[5], x[2], x[4], x[6], x[0]);
    CHECK_CALM(bs_param_unconstrain_json(m, json, z, &error));
    for (int i = 0; i < N; i++) CHECK(fabs(z[i] - points[k][i]) < 1e-12);
  }
  double z[N], x[PARAMS] = {-1, 1, 1, 1, 1, 1, 1, 0.2, 0.3, 0.5};
  CHECK_SAYS(bs_param_unconstrain(m, x, z, &error),
             "normal: scale must be positive, got -1"); /* as the model says it */
  x[0] = 1, x[9] = 0.6;
  CHECK_SAYS(bs_param_unconstrain(m, x, z, &error), "'p' lies outside of its support");
  x[9] = NAN;
  CHECK_SAYS(bs_param_unconstrain(m, x, z, &error), "normal: loc must be finite");
  static const char *const bad[][2] = {
      {"{\"s\": 1, \"w\": [[1, 1, 1], [1, 1, 1]]}", "the value of 'p' is missing"},
      {"{\"s\": 1, \"w\": [1, 1, 1, 1, 1, 1], \"p\": [0.2, 0.3, 0.5]}", "'w' has shape [2, 3], got [6]"},
      {"{\"s\": [1], \"w\": [[1, 1, 1], [1, 1, 1]], \"p\": [0.2, 0.3, 0.5]}", "'s' has shape [], got [1]"},
      {"{\"s\": ", "cannot be read"},
      {"", "the value of 's' is missing"}};
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
    CHECK_SAYS(bs_param_unconstrain_json(m, bad[k][0], z, &error), bad[k][1]);
}

static void starts(const bs_model *m) {
  char *error = NULL;
  bs_rng *rng = bs_rng_construct(7, &error), *twin = bs_rng_construct(7, NULL), *other = bs_rng_construct(8, NULL);
  double z[N], again[N], x[PARAMS], least = 9, most = -9;
  for (int k = 0; k < 50; k++) {
    CHECK_CALM(bs_param_initialize(m, NULL, rng, 0.5, 10, true, z, &error));
    CHECK_CALM(bs_param_initialize(m, "", twin, 0.5, 10, false, again, &error));
    CHECK(memcmp(z, again, sizeof z) == 0);
    for (int i = 0; i < N; i++) least = fmin(least, z[i]), most = fmax(most, z[i]);
  }
  CHECK(least >= -0.5 && least < -0.45 && most < 0.5 && most > 0.45);
  CHECK_CALM(bs_param_initialize(m, NULL, rng, 0.5, 10, true, again, &error));
  CHECK(memcmp(z, again, sizeof z) != 0);
  CHECK_CALM(bs_param_initialize(m, NULL, twin, 0.5, 10, true, z, &error));
  CHECK(memcmp(z, again, sizeof z) == 0);
  CHECK_CALM(bs_param_initialize(m, NULL, other, 0.5, 10, true, again, &error));
  CHECK(memcmp(z, again, sizeof z) != 0);
  CHECK_CALM(bs_param_initialize(m, "{\"w\": [[1, 2, 3], [4, 5, 6]]}", rng, 2, 10, true, z, &error));
  values_of(m, z, x);
  static const double given[] = {1, 4, 2, 5, 3, 6};
  for (int i = 0; i < 6; i++) CHECK(x[1 + i] == given[i]);
  CHECK(z[0] != 0 && fabs(z[0]) < 2 && z[7] != 0 && fabs(z[7]) < 2);
  CHECK_CALM(bs_param_initialize(m, "{}", rng, 0, 1, true, z, &error));
  for (int i = 0; i < N; i++) CHECK(z[i] == 0);
  CHECK_SAYS(bs_param_initialize(m, NULL, rng, -1, 10, true, z, &error), "init_radius must be finite");
  CHECK_SAYS(bs_param_initialize(m, NULL, rng, NAN, 10, true, z, &error), "init_radius must be finite");
  CHECK_SAYS(bs_param_initialize(m, NULL, rng, 2, 0, true, z, &error), "max_tries must be at least 1, got 0");
  CHECK_SAYS(bs_param_initialize(m, "{\"s\": -1}", rng, 2, 10, true, z, &error), "param_initialize: ");
  CHECK_SAYS(bs_param_initialize(m, NULL, rng, 1e6, 3, true, z, &error), "the density was 0 at each of 3 starts");
  bs_rng_destruct(rng);
  bs_rng_destruct(twin);
  bs_rng_destruct(other);
}

/* ---- quantities that are drawn ---- */

/* k in {0, 1} of log odds 3 x - 1 given x, and what it says. */
static void drawn(void) {
  static const char text[] = "local pn = require 'penumbra'\n"
                             "target = pn.model(function(m)\n"
                             "  local x = m:sample('x', pn.dist.normal(0, 1))\n"
                             "  local k = m:sample('k', pn.dist.bernoulli{logits = 3 * x - 1}, {enumerate = true})\n"
                             "  m:deterministic('label', k + x)\n"
                             "end):target()\n";
  enum { DRAWS = 4000 };
  char *error = NULL;
  double z = 0.6, x[2], again[2], sum = 0, p = 1 / (1 + exp(-0.8));
  bs_model *m = fixture_model("drawn", text, "", &error);
  bs_rng *rng = bs_rng_construct(1, NULL), *twin = bs_rng_construct(1, NULL);
  CHECK(m != NULL);
  CHECK_STR(bs_param_names(m, true, false), "x");
  CHECK_STR(bs_param_names(m, false, true), "x,label");
  CHECK_INT(bs_param_num(m, true, false), 1);
  CHECK_CALM(bs_param_constrain(m, true, false, &z, x, NULL, &error));
  CHECK_SAYS(bs_param_constrain(m, false, true, &z, x, NULL, &error), "rng must not be NULL with include_gq");
  for (int k = 0; k < DRAWS; k++) {
    CHECK_CALM(bs_param_constrain(m, true, true, &z, x, rng, &error));
    CHECK_CALM(bs_param_constrain(m, true, true, &z, again, twin, &error));
    CHECK(x[1] == again[1] && x[0] == z && (x[1] == z || x[1] == z + 1));
    sum += x[1] - z;
  }
  CHECK(fabs(sum / DRAWS - p) < 6 * sqrt(p * (1 - p) / DRAWS));
  CHECK_CALM(bs_log_density(m, true, true, &z, x, &error));
  CHECK_NEAR(x[0], log_normal(z, 0, 1), 1e-12);
  bs_rng_destruct(rng);
  bs_rng_destruct(twin);
  bs_model_destruct(m);
}

/* Names that hosts cannot read are made readable; "h[2]" of a scan. A script's own file beside it; no data. */
static void odd_names(void) {
  static const char text[] =
      "local pn = require 'penumbra'\n"
      "local scale = pn.data.json('scale.json').scale\n"
      "target = pn.model(function(m)\n"
      "  m:scan('h', 2, pn.zeros{}, function(x) return m:sample('x', pn.dist.normal(x, scale)) end)\n"
      "  m:flat('a b', 'real', {1})\n"
      "end):target()\n";
  char *error = NULL;
  fixture_write("scale", ".json", "{\"scale\": 2}");
  bs_model *m = fixture_model("odd", text, "", &error);
  fixture_remove("scale", ".json");
  CHECK(m != NULL);
  if (error) check_said(__FILE__, __LINE__, &error, "no message");
  CHECK_STR(bs_param_names(m, true, true), "x_1_,x_2_,a_b.1");
  double z[3] = {0};
  CHECK_CALM(bs_param_unconstrain_json(m, "{\"x_1_\": 1, \"x_2_\": 2, \"a_b\": [3]}", z, &error));
  CHECK(z[0] == 1 && z[1] == 2 && z[2] == 3);
  CHECK_CALM(bs_log_density(m, true, true, z, z, &error));
  CHECK_NEAR(z[0], log_normal(1, 0, 2) + log_normal(2, 1, 2), 1e-12);
  bs_model_destruct(m);
}

/* ---- threads ---- */

typedef struct {
  const bs_model *m;
  int which;
  double sum;
} worker;

static void *work(void *of) {
  worker *w = of;
  char *error = NULL;
  bs_rng *rng = bs_rng_construct(1, NULL);
  for (int k = 0; k < 200; k++) {
    double z[N], x[ALL], lp = NAN, gradient[N] = {0}, back[N] = {0};
    for (int i = 0; i < N; i++) z[i] = sin(k + i);
    int failed = bs_log_density_gradient(w->m, true, k % 2, z, &lp, gradient, &error);
    failed |= bs_param_constrain(w->m, true, true, z, x, rng, &error);
    if (k % 50 == 0) failed |= bs_param_unconstrain(w->m, x, back, &error);
    w->sum += failed ? NAN : lp + gradient[k % N] + x[k % ALL] + back[k % N];
  }
  bs_rng_destruct(rng);
  bs_free_error_msg(error);
  return NULL;
}

/* One model from several threads at once, the first use of the density without jacobian included. */
static void threads(void) {
  enum { MANY = 4 };
  char *error = NULL;
  bs_model *m = fixture_model("two", script, data, &error);
  worker w[MANY], alone = {.m = m};
  pthread_t thread[MANY];
  for (int k = 0; k < MANY; k++) {
    w[k] = (worker){.m = m};
    pthread_create(&thread[k], NULL, work, &w[k]);
  }
  for (int k = 0; k < MANY; k++) pthread_join(thread[k], NULL);
  work(&alone);
  for (int k = 0; k < MANY; k++) CHECK(w[k].sum == alone.sum && isfinite(alone.sum));
  bs_model_destruct(m);
}

/* ---- prints ---- */

static char printed[256];

static void take_print(const char *text, size_t length) {
  size_t n = strlen(printed);
  if (n + length < sizeof printed) memcpy(printed + n, text, length);
}

int main(void) {
  char *error = NULL;
  fixture_begin();
  CHECK_CALM(bs_set_print_callback(take_print, &error));
  bs_model *m = fixture_model("two", script, data, &error);
  if (error) check_said(__FILE__, __LINE__, &error, "no message");
  CHECK(m && strstr(printed, "two\t[0.5") && printed[strlen(printed) - 1] == '\n');
  if (m) {
    names(m);
    densities(m);
    hessians(m);
    outside(m);
    constraints(m);
    starts(m);
    bs_model_destruct(m);
    drawn();
    odd_names();
    threads();
  }
  rmdir(fixture_folder);
  CHECK_DONE();
}
