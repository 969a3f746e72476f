/*
** machine_test.c: the step machine from outside: limits of what it is made with, what it tells at each stage, back to
** the beginning, restored, positions of its generator, ancestors over several resamplings between kept states, its
** trace, refusals in whole messages; and nothing left in memory.
*/
#include "../../src/smc/trace.h"
#include "../../src/smc/op/smc_op.h"
#include "poisoned.h"

typedef pn_tensor T;
typedef pn_context C;

enum { N = 6, F = 4 };
static const int64_t SHAPE[] = {N, 2, 2};
static const char *const NAMES[] = {"log_weights",           "weights",        "log_evidence",      "log_increment",
                                    "effective_sample_size", "largest_weight", "ancestor_log_prob", "weighed"};
static const char *const GRADIENTS[] = {"dropped", "stop_gradient", "score_function", "soft"};

static uint64_t state = 3;
static double uniform(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)(state >> 33) / 2147483648.0;
}

/* The later the filter, the more unequal. */
static T *increments(C *c, pn_dtype dtype) {
  double x[N * F];
  for (int i = 0; i < N * F; i++) x[i] = (float)(uniform() * (1 + 6 * (i % F))) - 2;
  return pn_cast(c, pn_from_data(c, PN_FLOAT64, 3, SHAPE, x), dtype);
}

static bool same(C *c, T *x, T *y) {
  if (!x || !y) return x == y;
  if (pn_tensor_dtype(x) != pn_tensor_dtype(y) || pn_tensor_ndim(x) != pn_tensor_ndim(y)) return false;
  for (int i = 0; i < pn_tensor_ndim(x); i++)
    if (pn_tensor_shape(x)[i] != pn_tensor_shape(y)[i]) return false;
  x = pn_contiguous(c, x), y = pn_contiguous(c, y);
  return memcmp(pn_tensor_data(x), pn_tensor_data(y), (size_t)pn_tensor_numel(x) * pni_itemsize(x)) == 0;
}

static bool alike(C *c, pn_smc *a, pn_smc *b) {
  bool all = pn_smc_steps(a) == pn_smc_steps(b);
  for (int k = 0; k < 8; k++)
    if (!same(c, pn_smc_get(c, a, NAMES[k]), pn_smc_get(c, b, NAMES[k]))) printf("%s\n", NAMES[k]), all = false;
  return all && pn_context_status(c) == PN_OK;
}

/* ---- what it is made with ---- */

static void limits(C *c) {
  static const int64_t most = (int64_t)1 << 40;
  static const struct {
    int64_t n;
    double threshold;
    int nbatch;
    int64_t batch[PN_MAX_DIMS];
    pn_status status;
    const char *text;
  } rows[] = {{0, .5, 0, {0}, PN_DOMAIN, "smc: num_particles must be from 1 to 2147483646, got 0"},
              {-1, .5, 0, {0}, PN_DOMAIN, "smc: num_particles must be from 1 to 2147483646, got -1"},
              {1, .5, 0, {0}, PN_OK, NULL},
              {INT32_MAX - 1, .5, 0, {0}, PN_OK, NULL},
              {INT32_MAX, .5, 0, {0}, PN_DOMAIN, "smc: num_particles must be from 1 to 2147483646, got 2147483647"},
              {4, 0, 0, {0}, PN_OK, NULL},
              {4, 1, 0, {0}, PN_OK, NULL},
              {4, -5e-324, 0, {0}, PN_DOMAIN, "smc: threshold must lie in 0 to 1, got -4.94066e-324"},
              {4, 1.25, 0, {0}, PN_DOMAIN, "smc: threshold must lie in 0 to 1, got 1.25"},
              {4, 1 + 3e-16, 0, {0}, PN_DOMAIN, "smc: threshold must lie in 0 to 1, got 1"},
              {4, NAN, 0, {0}, PN_DOMAIN, "smc: threshold must lie in 0 to 1, got nan"},
              {4, .5, -1, {0}, PN_DOMAIN, "smc: batch must have at most 6 axes, got -1"},
              {4, .5, 6, {1, 2, 1, 1, 1, 3}, PN_OK, NULL},
              {4, .5, 7, {1, 1, 1, 1, 1, 1, 1}, PN_DOMAIN, "smc: batch must have at most 6 axes, got 7"},
              {4, .5, 2, {2, 0}, PN_DOMAIN, "smc: batch must have sizes from 1 on, got 0"},
              {4, .5, 2, {-3, 2}, PN_DOMAIN, "smc: batch must have sizes from 1 on, got -3"},
              {1, .5, 1, {most}, PN_OK, NULL},
              {1 << 20, .5, 2, {1 << 10, 1 << 10}, PN_OK, NULL},
              {1,
               .5,
               1,
               {most + 1},
               PN_DOMAIN,
               "smc: particles of all filters must be at most 2^40, got 1 in a batch of [1099"},
              {3,
               .5,
               1,
               {most / 2},
               PN_DOMAIN,
               "smc: particles of all filters must be at most 2^40, got 3 in a batch of [5497"}};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    pn_smc_config config = {.num_particles = rows[k].n, .threshold = rows[k].threshold, .nbatch = rows[k].nbatch};
    memcpy(config.batch, rows[k].batch, sizeof config.batch);
    int64_t before = pn_context_objects(c);
    pn_smc *s = pn_smc_new(c, &config, NULL);
    CHECK(!s == (rows[k].status != PN_OK));
    CHECK_INT(pn_context_objects(c), before + (s ? 1 : 0));
    if (!s) CHECK_FAIL(c, rows[k].status, rows[k].text);
    pn_smc_free(s);
    CHECK_INT(pn_context_objects(c), before);
  }
  pn_smc_config config = {.num_particles = 4, .resampling = "best", .threshold = 1};
  CHECK(!pn_smc_new(c, &config, NULL));
  CHECK_FAIL(c, PN_MISSING, "smc: there is no resampling scheme 'best'");
  config.resampling = NULL, config.gradient = "score";
  CHECK(!pn_smc_new(c, &config, NULL));
  CHECK_FAIL(c, PN_MISSING, "smc: there is no gradient 'score'");
  for (int i = 0; i < pn_resampler_count(); i++) {
    char text[128];
    config = (pn_smc_config){.num_particles = 4, .resampling = pn_resampler_name(i), .threshold = 1, .conditional = 1};
    pn_smc *s = pn_smc_new(c, &config, NULL);
    CHECK(!s == (strcmp(config.resampling, "multinomial") != 0));
    snprintf(text, sizeof text, "smc: conditional needs resampling by independent draws (multinomial), got %s",
             config.resampling);
    if (!s) CHECK_FAIL(c, PN_DOMAIN, text);
    pn_smc_free(s);
  }
  pn_smc_free(NULL);
  pn_smc_reset(NULL);
  size_t bytes = 7;
  CHECK(pn_smc_steps(NULL) == 0 && pn_smc_nodes(NULL, &bytes) == 0 && bytes == 7);
}

/* ---- twins ---- */

/* Steps with all that a machine does; `to` receives what it gave. */
static void run(C *c, pn_smc *s, pn_dtype dtype, bool traced, int steps, T **to) {
  uint64_t own = state;
  for (int t = 0; t < steps; t++) {
    T *a = NULL, *x = pn_full(c, PN_FLOAT64, 3, SHAPE, t);
    if (traced) CHECK_STATUS(c, pn_smc_keep(c, s, 1, &x), PN_OK);
    CHECK(pn_smc_weigh(c, s, increments(c, dtype)) != NULL);
    CHECK_STATUS(c, pn_smc_resample(c, s, &a), PN_OK);
    if (t % 2) CHECK(pn_smc_tilt(c, s, increments(c, dtype)) != NULL);
    if (to) to[t] = a;
  }
  state = own;
}

/* Back at the beginning it is as one that was just made, and does the same from there. */
static void again(C *c, pn_dtype dtype, const char *gradient, double threshold, bool conditional) {
  enum { STEPS = 3 };
  size_t mark = pn_scope_open(c);
  pn_rng *rng[2] = {pn_rng_new(c, 5), pn_rng_new(c, 5)};
  pn_smc_config config = {.num_particles = N,
                          .resampling = conditional ? "multinomial" : NULL,
                          .threshold = threshold,
                          .nbatch = 2,
                          .batch = {2, 2},
                          .gradient = gradient,
                          .alpha = 0.6,
                          .trace = 1,
                          .history = 1,
                          .conditional = conditional};
  pn_smc *s[2] = {pn_smc_new(c, &config, rng[0]), pn_smc_new(c, &config, rng[1])};
  T *given[2][STEPS];
  uint64_t first[2];
  size_t bytes[2];
  pn_rng_get_state(rng[0], first);
  run(c, s[0], dtype, true, STEPS, given[0]);
  if (conditional) CHECK_STATUS(c, pn_smc_assign(c, s[0], pn_zeros(c, PN_INT64, 2, SHAPE + 1)), PN_OK);
  CHECK(pn_smc_steps(s[0]) == STEPS && pn_smc_nodes(s[0], &bytes[0]) > 0 && bytes[0] > 0);
  pn_smc_reset(s[0]);
  pn_rng_set_state(rng[0], first);
  CHECK(alike(c, s[0], s[1]) && pn_smc_nodes(s[0], &bytes[0]) == 0 && bytes[0] == 0);
  CHECK(same(c, pn_smc_trace(c, s[0]), pn_smc_trace(c, s[1])) && pn_tensor_shape(pn_smc_trace(c, s[0]))[0] == 0);
  for (int k = 0; k < 2; k++) run(c, s[k], dtype, true, STEPS, given[k]);
  for (int t = 0; t < STEPS; t++) CHECK(same(c, given[0][t], given[1][t]));
  CHECK(alike(c, s[0], s[1]) && pn_smc_nodes(s[0], &bytes[0]) == pn_smc_nodes(s[1], &bytes[1]) && bytes[0] == bytes[1]);
  CHECK(same(c, pn_smc_trace(c, s[0]), pn_smc_trace(c, s[1])) && pn_tensor_shape(pn_smc_trace(c, s[0]))[0] == STEPS);
  CHECK(same(c, pn_smc_paths(c, s[0], 0, NULL), pn_smc_paths(c, s[1], 0, NULL)));
  CHECK((pn_smc_get(c, s[0], "ancestor_log_prob") != NULL) == (gradient == GRADIENTS[2]));
  for (int k = 0; k < 2; k++) pn_smc_free(s[k]), pn_rng_free(rng[k]);
  pn_scope_close(c, mark);
}

/* From what is called "weighed" another one tells the same weights, and draws the same ancestors. */
static void restored(C *c, pn_dtype dtype, const char *gradient, double threshold) {
  size_t mark = pn_scope_open(c);
  pn_rng *rng = pn_rng_new(c, 9);
  pn_smc_config config = {
      .num_particles = N, .threshold = threshold, .nbatch = 2, .batch = {2, 2}, .gradient = gradient, .alpha = 0.6};
  pn_smc *a = pn_smc_new(c, &config, rng), *b = pn_smc_new(c, &config, rng);
  T *from = NULL, *to = NULL, *told[8], *now;
  uint64_t at[2];
  CHECK(!pn_smc_get(c, a, "weighed") && pn_context_status(c) == PN_OK);
  static const double fresh[] = {-1.791759469228055, 1 / 6.0, 0, 0, N, 1 / 6.0};
  for (int k = 0; k < 6; k++) {
    T *t = pn_smc_get(c, a, NAMES[k]);
    for (int i = 0; i < (k < 2 ? N * F : F); i++) CHECK_NEAR(((const double *)pn_tensor_data(t))[i], fresh[k], 1e-15);
  }
  CHECK_STATUS(c, pn_smc_restore(c, a, NULL), PN_OK);
  for (int t = 0; t < 2; t++) {
    pn_smc_resample(c, a, &from);
    CHECK(pn_smc_weigh(c, a, increments(c, dtype)) != NULL);
  }
  now = pn_smc_get(c, a, "weighed");
  for (int k = 0; k < 8; k++) told[k] = pn_smc_get(c, a, NAMES[k]);
  CHECK_STATUS(c, pn_smc_restore(c, b, now), PN_OK);
  for (int k = 0; k < 8; k++)
    if (k != 2) CHECK(same(c, told[k], pn_smc_get(c, b, NAMES[k]))); /* the evidence is not restored */
  pn_rng_get_state(rng, at);
  CHECK_STATUS(c, pn_smc_resample(c, a, &from), PN_OK);
  pn_rng_set_state(rng, at);
  CHECK_STATUS(c, pn_smc_resample(c, b, &to), PN_OK);
  CHECK(same(c, from, to) && from);
  pni_resampling_rule rule = {pni_resampler_find("systematic"), threshold, false};
  pn_rng_set_state(rng, at);
  if (gradient != GRADIENTS[3]) CHECK(same(c, from, pni_resample(c, &rule, rng, now, NULL)));
  for (int k = 0; k < 8; k++)
    if (k != 2) CHECK(same(c, pn_smc_get(c, a, NAMES[k]), pn_smc_get(c, b, NAMES[k])));
  CHECK_STATUS(c, pn_smc_restore(c, a, now), PN_OK); /* as before the resampling */
  for (int k = 0; k < 8; k++) CHECK(same(c, told[k], pn_smc_get(c, a, NAMES[k])));
  CHECK_INT(pn_smc_steps(a), 2);
  T *wrong[] = {pn_slice(c, now, 0, 0, 2 * N + 2, 1), pn_slice(c, now, 1, 0, 1, 1), pn_slice(c, now, 2, 0, 1, 1),
                pn_select(c, now, 2, 0), pn_cast(c, now, PN_INT64)};
  for (int k = 0; k < 5; k++) {
    pn_smc_restore(c, a, wrong[k]);
    CHECK_FAIL(c, PN_SHAPE, "restore: weights must come from a machine of as many particles and filters");
  }
  for (int k = 0; k < 8; k++) CHECK(same(c, told[k], pn_smc_get(c, a, NAMES[k])));
  CHECK(!pn_smc_get(c, a, "weight"));
  CHECK_FAIL(c, PN_MISSING, "smc: there is no 'weight'");
  pn_smc_free(a);
  pn_smc_free(b);
  pn_rng_free(rng);
  pn_scope_close(c, mark);
}

/* Whether it draws or not, a step passes by the same positions; without a threshold, and a second time, none. */
static void positions(C *c) {
  static const double thresholds[] = {0, 0.01, 0.5, 1};
  for (int i = 0; i < pn_resampler_count(); i++)
    for (int k = 0; k < 4; k++) {
      size_t mark = pn_scope_open(c);
      pn_rng *rng = pn_rng_new(c, 2);
      pn_smc_config config = {.num_particles = N,
                              .resampling = pn_resampler_name(i),
                              .threshold = thresholds[k],
                              .nbatch = 2,
                              .batch = {2, 2}};
      pn_smc *s = pn_smc_new(c, &config, rng);
      int64_t held = pn_context_objects(c);
      uint64_t was[2], now[2], each = k ? F * pni_resampler_at(i)->positions(N) : 0;
      T *a = NULL;
      for (int t = 0; t < 4; t++) { /* before the first weights; then drawn or passed by; a second time; drawn */
        pn_rng_get_state(rng, was);
        CHECK_STATUS(c, pn_smc_resample(c, s, &a), PN_OK);
        pn_rng_get_state(rng, now);
        bool drawn = (t == 1 || t == 3) && k >= 2, passed = t == 1 || t == 3 || (t == 2 && k == 1);
        CHECK((a != NULL) == drawn);
        CHECK_INT((int64_t)(now[1] - was[1]), passed ? (int64_t)each : 0);
        if (t != 1) CHECK(pn_smc_weigh(c, s, increments(c, PN_FLOAT64)) != NULL);
        if (t == 2) CHECK(pn_smc_weigh(c, s, increments(c, PN_FLOAT64)) != NULL);
      }
      pn_scope_close(c, mark);
      CHECK_INT(pn_context_objects(c), held + 2); /* its weights and its evidence */
      pn_smc_free(s);
      pn_rng_free(rng);
    }
}

/* ---- what has been ---- */

/* Kept states descend through all resamplings since the one before; the trace tells of filters that were due. */
static void descent(C *c, double threshold) {
  enum { STEPS = 5 };
  size_t mark = pn_scope_open(c);
  pn_smc_config config = {
      .num_particles = N, .threshold = threshold, .nbatch = 2, .batch = {2, 2}, .trace = 1, .history = 1};
  pn_smc *s = pn_smc_new(c, &config, NULL);
  int64_t from[STEPS][N * F];
  double x[N * F], due[STEPS][F], unique[STEPS][F];
  for (int t = 0; t < STEPS; t++) {
    for (int i = 0; i < N * F; i++) x[i] = 100 * t + i, from[t][i] = i / F;
    for (int f = 0; f < F; f++) due[t][f] = 0, unique[t][f] = N;
    for (int k = 0; t > 0 && k < 1 + t % 2; k++) { /* once or twice */
      T *a = NULL, *size = pn_contiguous(c, pn_smc_get(c, s, "effective_sample_size"));
      CHECK_STATUS(c, pn_smc_resample(c, s, &a), PN_OK);
      int64_t before[N * F];
      memcpy(before, from[t], sizeof before);
      for (int i = 0; a && i < N * F; i++) from[t][i] = before[((const int64_t *)pn_tensor_data(a))[i] * F + i % F];
      for (int f = 0; f < F; f++) {
        bool is = threshold >= 1 || ((const double *)pn_tensor_data(size))[f] <= threshold * N;
        bool seen[N] = {false};
        int count = 0;
        for (int i = 0; a && i < N; i++) {
          bool *it = &seen[((const int64_t *)pn_tensor_data(a))[i * F + f]];
          count += !*it, *it = true;
        }
        if (is) due[t][f] = 1, unique[t][f] = count;
      }
      if (k < t % 2) CHECK(pn_smc_tilt(c, s, increments(c, PN_FLOAT64)) != NULL);
    }
    T *part = pn_from_data(c, PN_FLOAT64, 3, SHAPE, x);
    CHECK_STATUS(c, pn_smc_keep(c, s, 1, &part), PN_OK);
    CHECK(pn_smc_weigh(c, s, increments(c, PN_FLOAT64)) != NULL);
  }
  T *paths = pn_smc_paths(c, s, 0, NULL), *trace = pn_smc_trace(c, s);
  CHECK(paths && pn_tensor_ndim(paths) == 4 && trace && pn_tensor_ndim(trace) == 4 && pn_tensor_shape(trace)[1] == 6);
  for (int i = 0; paths && i < N * F; i++)
    for (int64_t t = STEPS - 1, at = i / F; t >= 0; t--) {
      CHECK_NEAR(((const double *)pn_tensor_data(paths))[t * N * F + i], 100.0 * (double)t + (double)(at * F + i % F),
                 0);
      at = from[t][at * F + i % F];
    }
  const double *rows = trace ? pn_tensor_data(trace) : NULL;
  for (int t = 0; rows && t < STEPS; t++)
    for (int f = 0; f < F; f++) {
      CHECK_NEAR(rows[(t * PNI_TRACE_ROWS + PNI_TRACE_RESAMPLED) * F + f], due[t][f], 0);
      CHECK_NEAR(rows[(t * PNI_TRACE_ROWS + PNI_TRACE_UNIQUE) * F + f], unique[t][f], 0);
    }
  CHECK_INT(pn_smc_steps(s), STEPS);
  pn_smc_free(s);
  pn_scope_close(c, mark);
}

/* ---- refusals ---- */

static void refusals(C *c) {
  size_t mark = pn_scope_open(c);
  pn_smc_config config = {.num_particles = N, .threshold = 1, .nbatch = 2, .batch = {2, 2}};
  pn_smc *plain = pn_smc_new(c, &config, NULL);
  config.history = config.trace = config.conditional = 1;
  config.resampling = "multinomial";
  pn_smc *s = pn_smc_new(c, &config, NULL);
  config.threshold = 0.5;
  pn_smc *half = pn_smc_new(c, &config, NULL);
  T *x = pn_zeros(c, PN_FLOAT64, 3, SHAPE), *four = pn_zeros(c, PN_INT64, 2, SHAPE + 1), *few = pn_select(c, x, 0, 0);
  CHECK(!pn_smc_trace(c, plain));
  CHECK_FAIL(c, PN_STATE, "trace: the machine was made without one (trace = true)");
  CHECK(pn_smc_keep(c, plain, 1, &x) == PN_STATE);
  CHECK_FAIL(c, PN_STATE, "keep: the machine was made without history (history = true)");
  CHECK(!pn_smc_paths(c, s, 0, NULL));
  CHECK_FAIL(c, PN_STATE, "paths: no state was kept (s:keep(state) after each step, with history = true)");
  CHECK(pn_smc_keep(c, s, 1, &few) == PN_SHAPE); /* the first one leaves nothing behind */
  CHECK_FAIL(c, PN_SHAPE, "keep: state must be [6, B..., event...] as it was first, [2, 2], got [2, 2]");
  CHECK_INT(pn_smc_nodes(s, NULL), 0);
  CHECK_STATUS(c, pn_smc_keep(c, s, 1, &x), PN_OK);
  CHECK_INT(pn_smc_nodes(s, NULL), N * F);
  CHECK(pn_smc_keep(c, s, 1, &few) == PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "keep: state must be [6, B..., event...] as it was first, [6, 2, 2], got [2, 2]");
  CHECK_INT(pn_smc_nodes(s, NULL), N * F);
  CHECK(!pn_smc_paths(c, s, -1, NULL));
  CHECK_FAIL(c, PN_STATE, "paths: no state was kept");
  for (int k = 0; k < 2; k++) {
    CHECK(pn_smc_assign(c, k ? half : plain, four) == PN_STATE);
    CHECK_FAIL(c, PN_STATE, "assign: needs a conditional machine that always resamples (threshold = 1)");
    CHECK(pn_smc_assign(c, s, k ? pn_slice(c, four, 0, 0, 1, 1) : pn_cast(c, four, PN_FLOAT64)) == PN_SHAPE);
    CHECK_FAIL(c, PN_SHAPE, "assign: ancestors must be int64 [B...], one for each filter");
  }
  T *wrong[] = {few, pn_slice(c, x, 0, 0, N - 1, 1), pn_slice(c, x, 2, 0, 1, 1)};
  static const char *const got[] = {"[2, 2]", "[5, 2, 2]", "[6, 2, 1]"};
  for (int k = 0; k < 3; k++) {
    char text[96];
    snprintf(text, sizeof text, "weigh: log_increment must have shape [6, 2, 2], got %s", got[k]);
    CHECK(!pn_smc_weigh(c, s, wrong[k]));
    CHECK_FAIL(c, PN_SHAPE, text);
  }
  CHECK(!pn_resample(c, "best", NULL, x));
  CHECK_FAIL(c, PN_MISSING, "resample: there is no resampling scheme 'best'");
  CHECK(!pn_resample(c, "systematic", NULL, pn_full(c, PN_FLOAT64, 3, SHAPE, NAN)));
  CHECK_FAIL(c, PN_NAN, "resample: log_w of filter 1 must be a number, got NaN");
  CHECK(pn_resampler_name(-1) == NULL && pn_resampler_name(pn_resampler_count()) == NULL);
  pn_smc_free(plain);
  pn_smc_free(s);
  pn_smc_free(half);
  pn_scope_close(c, mark);
}

/* A capture takes no machine from outside, and gives ancestors whoever is due, unless the weights are the same in all
 * replays or nobody ever is due. */
static void captured(void) {
  enum { OUTSIDE = 4, CONSTANT = OUTSIDE, NEVER, RARELY, ALWAYS, ASSIGNED, WAYS };
  C *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  pn_smc_config config = {.num_particles = N, .threshold = 1, .nbatch = 2, .batch = {2, 2}, .trace = 1, .history = 1};
  config.conditional = 1, config.resampling = "multinomial";
  pn_smc *outside = pn_smc_new(c, &config, NULL);
  T *x = increments(c, PN_FLOAT64), *inside, *a = NULL;
  static const char *const texts[] = {"a step machine from outside", "make the machine inside, and restore it from an",
                                      "a trace", "keeping states"};
  for (int k = 0; k < WAYS; k++) {
    CHECK_STATUS(c, pn_capture_begin(c, 1, &x, &inside), PN_OK);
    if (k == 0) CHECK(!pn_smc_weigh(c, outside, inside));
    if (k == 1) CHECK(pn_smc_resample(c, outside, &a) == PN_STATE);
    if (k == 2) CHECK(!pn_smc_trace(c, outside));
    if (k == 3) CHECK(pn_smc_keep(c, outside, 1, &x) == PN_STATE);
    if (k < OUTSIDE) CHECK_FAIL(c, PN_STATE, texts[k]);
    config.threshold = k == NEVER ? 0 : k >= ALWAYS ? 1 : 1e-9;
    pn_smc *s = k < OUTSIDE ? NULL : pn_smc_new(c, &config, NULL);
    if (k == ASSIGNED) { /* what is known now is looked at now */
      CHECK(pn_smc_assign(c, s, pn_full(c, PN_INT64, 2, SHAPE + 1, N)) == PN_DOMAIN);
      CHECK_FAIL(c, PN_DOMAIN, "assign: ancestors must lie in 0 to 5, got 6");
    } else if (s) {
      CHECK(pn_smc_weigh(c, s, k == CONSTANT ? increments(c, PN_FLOAT64) : inside) && pn_smc_steps(s) == 1);
      CHECK_STATUS(c, pn_smc_resample(c, s, &a), PN_OK);
      CHECK((a != NULL) == (k == RARELY || k == ALWAYS));
    }
    T *out = s && k != ASSIGNED ? pn_smc_get(c, s, "log_weights") : inside;
    pn_smc_free(s);
    pn_plan_unref(pn_capture_end(c, 1, &out));
    if (k >= OUTSIDE && k != ASSIGNED) CHECK_STATUS(c, pn_context_status(c), PN_OK);
    pn_context_clear_error(c);
  }
  pn_smc_free(outside);
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
}

static long blocks;

static void *counting(void *data, void *block, size_t old_size, size_t new_size) {
  void *p = poisoned_allocate(data, block, old_size, new_size);
  blocks += (!block && p) - (block && !new_size);
  return p;
}

int main(void) {
  static poisoned_memory memory = {.fresh = 0xFF}; /* no numbers */
  C *c = pn_context_new(&(pn_context_config){.allocate = counting, .allocator_data = &memory, .threads = 1});
  limits(c);
  for (int d = 0; d < 2; d++)
    for (int k = 0; k < 4; k++)
      for (int half = 0; half < 2; half++) {
        pn_dtype dtype = d ? PN_FLOAT32 : PN_FLOAT64;
        again(c, dtype, GRADIENTS[k], half ? 0.5 : 1, false);
        if (k != 3) again(c, dtype, GRADIENTS[k], half ? 1 : 1, true);
        restored(c, dtype, GRADIENTS[k], half ? 0.5 : 1);
      }
  positions(c);
  descent(c, 1);
  descent(c, 0.5);
  refusals(c);
  CHECK_STATUS(c, pn_context_status(c), PN_OK);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  CHECK_INT(poisoned_end(&memory), 0);
  CHECK_INT(blocks, 0);
  captured();
  CHECK_DONE();
}
