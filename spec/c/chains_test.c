/* chains_test.c: what samplers are told and tell: settings at their limits, defaults, starts, counts; the schedule of
 * overlapping windows and what windows remember, by plain loops; summaries of draws by their definitions. */
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "../../src/infer/sampling/adaptation.h"
#include "../../src/infer/sampling/sampler.h"
#include "../../src/math/special.h"
#include "check.h"
#include "hmc_fixture.h"

/* ---- samplers ---- */

typedef struct {
  atomic_long calls; /* chains run side by side */
  double least;      /* the density is 0 below, of the first number */
  double slope;      /* added to the gradient */
  double tight;      /* 0, or how many times narrower it is */
} law;

/* Two normal numbers, cut off. */
static pn_status two_normals(void *data, const double *z, double *log_density, double *gradient) {
  law *l = data;
  double by = l->tight > 0 ? l->tight * l->tight : 1;
  l->calls++;
  *log_density = z[0] < l->least ? -INFINITY : -0.5 * by * (z[0] * z[0] + z[1] * z[1]);
  gradient[0] = -by * z[0] + l->slope;
  gradient[1] = -by * z[1];
  return PN_OK;
}

typedef struct {
  pn_context *c;
  pn_target *t;
  law l;
} rig;

static void rig_open(rig *r, int threads) {
  r->l = (law){.least = -INFINITY};
  r->c = pn_context_new(&(pn_context_config){.seed = 9, .threads = threads});
  r->t = pn_target_of_function(r->c, 2, two_normals, &r->l);
}

static void rig_close(rig *r) {
  pn_target_free(r->t);
  CHECK_INT(pn_context_objects(r->c), 0);
  CHECK_STATUS(r->c, pn_context_status(r->c), PN_OK);
  pn_context_close(r->c);
}

static void settings(void) {
  rig r;
  rig_open(&r, 1);
  static const struct {
    pn_sampler_config set;
    const char *said; /* NULL: taken */
  } row[] = {
      {{.chains = -1}, "sampler: chains must be 1 to 1024, got -1"},
      {{.chains = 1025}, "sampler: chains must be 1 to 1024, got 1025"},
      {{.chains = 1024, .draws = 1, .warmup = 1, .max_depth = 1}, NULL},
      {{.chains = 1, .draws = 1, .warmup = -1}, NULL},
      {{.warmup = -2, .draws = 7}, "sampler: warmup and draws must be positive, got -2 and 7"},
      {{.warmup = 3, .draws = -1}, "sampler: warmup and draws must be positive, got 3 and -1"},
      {{.metric = -1}, "PN_SCHEDULE_ values, got -1, 1 and 1"},
      {{.metric = PN_METRIC_DENSE + 1}, "PN_SCHEDULE_ values, got 4, 1 and 1"},
      {{.estimator = -1}, "PN_SCHEDULE_ values, got 2, -1 and 1"},
      {{.estimator = PN_ESTIMATOR_STAN + 1}, "PN_SCHEDULE_ values, got 2, 3 and 1"},
      {{.schedule = -1}, "PN_SCHEDULE_ values, got 2, 1 and -1"},
      {{.schedule = PN_SCHEDULE_STAN + 1}, "PN_SCHEDULE_ values, got 2, 1 and 3"},
      {{.metric = PN_METRIC_DENSE, .estimator = PN_ESTIMATOR_STAN, .schedule = PN_SCHEDULE_STAN, .draws = 1}, NULL},
      {{.metric = PN_METRIC_DIAGONAL, .estimator = PN_ESTIMATOR_FISHER, .draws = 1, .warmup = 1}, NULL},
      {{.warmup = INT_MAX, .draws = 1}, "sampler: warmup and draws must be at most 2147483647 in all, got 2147483647"},
      {{.warmup = INT_MAX - 1, .draws = 1}, NULL},
      {{.draws = INT_MAX - 3999}, "sampler: warmup and draws must be at most 2147483647 in all, got 0 and"},
      {{.max_depth = -1}, "sampler: max_depth must be 1 to 20, got -1"},
      {{.max_depth = 21}, "sampler: max_depth must be 1 to 20, got 21"},
      {{.max_depth = 20, .draws = 1}, NULL},
      {{.max_depth = 1, .draws = 1}, NULL},
      {{.max_steps = -1}, "sampler: max_steps must not be negative, got -1"},
      {{.max_steps = 1, .draws = 1}, NULL},
      {{.target_accept = -0.1}, "sampler: target_accept must lie between 0 and 1, got -0.1"},
      {{.target_accept = 1}, "sampler: target_accept must lie between 0 and 1, got 1"},
      {{.target_accept = NAN}, "sampler: target_accept must lie between 0 and 1, got"},
      {{.target_accept = 0.999, .draws = 1}, NULL},
      {{.step_size = -1e-9}, "sampler: step_size and radius must be positive, got -1e-09 and 2"},
      {{.step_size = INFINITY}, "sampler: step_size and radius must be positive, got inf and 2"},
      {{.step_size = NAN}, "sampler: step_size and radius must be positive, got"},
      {{.radius = -3}, "sampler: step_size and radius must be positive, got 0 and -3"},
      {{.radius = INFINITY}, "sampler: step_size and radius must be positive, got 0 and inf"},
      {{.radius = 1e-9, .step_size = 1e9, .draws = 1}, NULL}};
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    size_t mark = pn_scope_open(r.c), held = pn_context_memory(r.c, NULL);
    pn_sampler *s = pn_target_sampler(r.c, r.t, &row[k].set, NULL, NULL);
    if (row[k].said) {
      CHECK(!s);
      CHECK_FAIL(r.c, PN_DOMAIN, row[k].said);
    } else {
      CHECK_STATUS(r.c, pn_context_status(r.c), PN_OK);
    }
    pn_sampler_free(s);
    CHECK(pn_context_memory(r.c, NULL) == held);
    pn_scope_close(r.c, mark);
  }
  CHECK(pn_sampler_iteration(NULL) == 0 && pn_sampler_finished(NULL) == 0 && pn_sampler_warmup(NULL) == 0);
  CHECK(pn_sampler_gradients(NULL) == 0);
  pn_sampler_free(NULL);
  rig_close(&r);
}

/* All draws, statistics and metrics of a sampler that has run to its end, one after the other. */
static double *all_of(const pn_sampler_config *config, size_t *count) {
  rig r;
  rig_open(&r, 1);
  size_t mark = pn_scope_open(r.c);
  pn_sampler *s = pn_target_sampler(r.c, r.t, config, NULL, NULL);
  CHECK_STATUS(r.c, pn_sampler_run(r.c, s, INT_MAX), PN_OK);
  CHECK(pn_sampler_finished(s) && pn_sampler_gradients(s) == r.l.calls);
  pn_tensor *t[] = {pn_sampler_draws(r.c, s), pn_sampler_statistics(r.c, s), pn_sampler_metric(r.c, s)};
  *count = 0;
  for (int k = 0; k < 3; k++) *count += (size_t)pn_tensor_numel(t[k]);
  double *all = malloc(*count * sizeof *all), *at = all;
  for (int k = 0; k < 3; at += pn_tensor_numel(t[k++])) pn_tensor_copy_out(r.c, t[k], at, pn_tensor_numel(t[k]));
  pn_sampler_free(s);
  pn_scope_close(r.c, mark);
  rig_close(&r);
  return all;
}

/* What is not given has its default; what is given counts. */
static void defaults(void) {
  const pn_sampler_config full = {.chains = 4,
                                  .draws = 1000,
                                  .metric = PN_METRIC_LOW_RANK,
                                  .estimator = PN_ESTIMATOR_FISHER,
                                  .schedule = PN_SCHEDULE_OVERLAPPING,
                                  .max_depth = 10,
                                  .target_accept = 0.8,
                                  .radius = 2};
  pn_sampler_config other[8];
  size_t n, m;
  double *want = all_of(NULL, &n), *got = all_of(&full, &m);
  CHECK(n == 4 * 1000 * (2 + 7) + 4 * 4 && m == n && memcmp(got, want, n * sizeof *got) == 0);
  free(got);
  for (int k = 0; k < 8; k++) other[k] = full;
  other[0].chains = 3, other[1].draws = 999, other[2].metric = PN_METRIC_DENSE, other[3].estimator = PN_ESTIMATOR_STAN;
  other[4].schedule = PN_SCHEDULE_STAN, other[5].max_depth = 1, other[6].target_accept = 0.81, other[7].radius = 2.01;
  for (int k = 0; k < 8; k++) {
    got = all_of(&other[k], &m);
    CHECK(m != n || memcmp(got, want, n * sizeof *got) != 0);
    free(got);
  }
  free(want);
}

/* Iterations as they are asked for: what is there on the way. */
static void counts(void) {
  rig r;
  rig_open(&r, 2);
  size_t mark = pn_scope_open(r.c);
  const pn_sampler_config config = {.chains = 3, .warmup = 25, .draws = 10, .metric = PN_METRIC_DIAGONAL};
  pn_sampler *s = pn_target_sampler(r.c, r.t, &config, NULL, NULL);
  CHECK_INT(pn_sampler_warmup(s), 25);
  static const int more[] = {0, -5, 1, 23, 1, 1, 4, 4, 1, 5}, now[] = {0, 0, 1, 24, 25, 26, 30, 34, 35, 35};
  for (int k = 0; k < 10; k++) {
    CHECK_STATUS(r.c, pn_sampler_run(r.c, s, more[k]), PN_OK);
    int kept = now[k] > 25 ? now[k] - 25 : 0;
    pn_tensor *x = pn_sampler_draws(r.c, s), *y = pn_sampler_statistics(r.c, s), *m = pn_sampler_metric(r.c, s);
    CHECK_INT(pn_sampler_iteration(s), now[k]);
    CHECK_INT(pn_sampler_finished(s), now[k] == 35);
    CHECK(pn_tensor_ndim(x) == 3 && pn_tensor_shape(x)[0] == 3 && pn_tensor_shape(x)[2] == 2);
    CHECK(pn_tensor_shape(x)[1] == kept && pn_tensor_shape(y)[1] == kept && pn_tensor_shape(y)[2] == 7);
    CHECK(pn_tensor_ndim(m) == 2 && pn_tensor_shape(m)[0] == 3 && pn_tensor_shape(m)[1] == 2);
  }
  double z[3][10][2], row[3][10][7];
  pn_tensor_copy_out(r.c, pn_sampler_draws(r.c, s), z[0][0], 60);
  pn_tensor_copy_out(r.c, pn_sampler_statistics(r.c, s), row[0][0], 210);
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < 10; i++) {
      const double *x = z[k][i], *t = row[k][i];
      CHECK_NEAR(t[0], -0.5 * (x[0] * x[0] + x[1] * x[1]), 1e-12);
      CHECK(t[1] >= 0 && t[1] <= 1 && t[2] == row[k][0][2] && t[2] > 0 && t[4] >= 1 && t[5] == 0 && t[6] > -t[0] - 10);
      CHECK(t[4] >= pow(2, t[3]) - 1 && t[4] <= pow(2, t[3] + 1) - 1);
    }
  pn_sampler_free(s);
  CHECK(!pn_sampler_draws(r.c, NULL));
  CHECK_FAIL(r.c, PN_STATE, "sampler_draws");
  CHECK(!pn_sampler_statistics(r.c, NULL));
  CHECK_FAIL(r.c, PN_STATE, "sampler_statistics");
  CHECK(!pn_sampler_metric(r.c, NULL));
  CHECK_FAIL(r.c, PN_STATE, "sampler_metric");
  CHECK_STATUS(r.c, pn_sampler_run(r.c, NULL, 1), PN_STATE);
  CHECK_FAIL(r.c, PN_STATE, "sampler_run");
  pn_scope_close(r.c, mark);
  rig_close(&r);
}

/* The step size of a warm-up of one iteration: exp(mu - (0.8 - acceptance) / 0.05 / 11), mu = log(10 s), where s is the
 * first step that was found, which a sampler without a warm-up keeps. */
static void first_step(void) {
  double step[2][7];
  for (int warm = 0; warm < 2; warm++) {
    rig r;
    rig_open(&r, 1);
    r.l.tight = 1000;
    size_t mark = pn_scope_open(r.c);
    const pn_sampler_config config = {.chains = 1, .warmup = warm ? 1 : -1, .draws = 1, .radius = 0.01};
    pn_sampler *s = pn_target_sampler(r.c, r.t, &config, NULL, NULL);
    CHECK_STATUS(r.c, pn_sampler_run(r.c, s, 2), PN_OK);
    pn_tensor_copy_out(r.c, pn_sampler_statistics(r.c, s), step[warm], 7);
    pn_sampler_free(s);
    pn_scope_close(r.c, mark);
    rig_close(&r);
  }
  double s = step[0][2];
  CHECK(s > 1e-4 && s < 1e-2);
  CHECK(step[1][2] > 10 * s * exp(-0.8 / 0.55) * (1 - 1e-12) && step[1][2] < 10 * s * exp(0.2 / 0.55) * (1 + 1e-12));
}

/* Starts are looked for a hundred times, within the radius; one that is given is tried once. */
static void starts(void) {
  rig r;
  rig_open(&r, 1);
  size_t mark = pn_scope_open(r.c);
  const pn_sampler_config config = {.chains = 2, .warmup = -1, .draws = 1, .step_size = 1e-9, .radius = 3};
  for (int k = 0; k < 2; k++) {
    r.l = (law){.least = k ? -INFINITY : INFINITY, .slope = k ? NAN : 0};
    CHECK(!pn_target_sampler(r.c, r.t, &config, NULL, NULL));
    CHECK_FAIL(r.c, PN_DOMAIN, "sampler: no start with positive density and finite gradient was found in 100 tries");
    CHECK_INT(r.l.calls, 100);
    r.l.calls = 0;
    CHECK(!pn_target_sampler(r.c, r.t, &config, pn_zeros(r.c, PN_FLOAT64, 2, (int64_t[]){2, 2}), NULL));
    CHECK_FAIL(r.c, PN_DOMAIN, "sampler: the density must be positive at the start and its gradient finite");
    CHECK_INT(r.l.calls, 1);
  }
  r.l = (law){.least = 2.5}; /* one start of twelve is there */
  double z[4] = {0}, far = 0;
  for (int k = 0; k < 20; k++) {
    pn_sampler *s = pn_target_sampler(r.c, r.t, &config, NULL, NULL);
    CHECK_STATUS(r.c, pn_sampler_run(r.c, s, 1), PN_OK); /* of steps too short to move */
    pn_tensor_copy_out(r.c, pn_sampler_draws(r.c, s), z, 4);
    for (int i = 0; i < 2; i++) CHECK(z[2 * i] > 2.499 && z[2 * i] < 3.001 && fabs(z[2 * i + 1]) < 3.001);
    for (int i = 0; i < 2; i++) far = fmax(far, fabs(z[2 * i + 1]));
    pn_sampler_free(s);
  }
  CHECK(far > 2.5);
  r.l = (law){.least = -INFINITY};
  double given[2][2] = {{0.25, -1}, {3, 7}}; /* each chain its own, whatever its strides */
  for (int turned = 0; turned < 2; turned++) {
    pn_tensor *start = pn_from_data(r.c, PN_FLOAT64, 2, (int64_t[]){2, 2}, given);
    pn_sampler *s = pn_target_sampler(r.c, r.t, &config, turned ? pn_transpose(r.c, start, 0, 1) : start, NULL);
    CHECK_STATUS(r.c, pn_sampler_run(r.c, s, 1), PN_OK);
    pn_tensor_copy_out(r.c, pn_sampler_draws(r.c, s), z, 4);
    for (int i = 0; i < 4; i++) CHECK(fabs(z[i] - given[turned ? i % 2 : i / 2][turned ? i / 2 : i % 2]) < 1e-4);
    pn_sampler_free(s);
  }
  pn_tensor *wrong[] = {pn_zeros(r.c, PN_FLOAT32, 2, (int64_t[]){2, 2}), pn_zeros(r.c, PN_FLOAT64, 1, (int64_t[]){2}),
                        pn_zeros(r.c, PN_FLOAT64, 2, (int64_t[]){3, 2}),
                        pn_zeros(r.c, PN_FLOAT64, 2, (int64_t[]){2, 3})};
  for (int k = 0; k < 4; k++) {
    CHECK(!pn_target_sampler(r.c, r.t, &config, wrong[k], NULL));
    CHECK_FAIL(r.c, PN_SHAPE, "sampler: start must be float64 [2, 2], got [");
  }
  pn_scope_close(r.c, mark);
  rig_close(&r);
}

/* Chains of a process that has some of them are those of one that has all. */
static void parts(void) {
  double all[4 * 5 * 2], some[2 * 5 * 2];
  for (int first = -1; first <= 2; first++) {
    pn_context *c = pn_context_new(&(pn_context_config){.seed = 4, .threads = 1});
    size_t mark = pn_scope_open(c);
    pn_plan *plan = density_plan(c, 2, standard_normal, NULL);
    const pn_sampler_config config = {.chains = first < 0 ? 4 : 2, .warmup = 30, .draws = 5};
    pn_sampler *s = first < 0 ? pn_sampler_new(c, plan, &config, NULL, NULL)
                              : pni_sampler_new_part(c, plan, &config, first, NULL, NULL);
    CHECK_STATUS(c, pn_sampler_run(c, s, 100), PN_OK);
    CHECK(pn_sampler_finished(s) && !pni_sampler_halted(s));
    pn_tensor_copy_out(c, pn_sampler_draws(c, s), first < 0 ? all : some, first < 0 ? 40 : 20);
    if (first >= 0) CHECK(memcmp(some, all + 10 * first, sizeof some) == 0);
    pn_sampler_free(s);
    pn_plan_unref(plan);
    pn_scope_close(c, mark);
    CHECK_INT(pn_context_objects(c), 0);
    pn_context_close(c);
  }
}

/* ---- the schedule of overlapping windows ---- */

static void schedule(int warmup, int kind, int estimator) {
  enum { ROOM = 4096 };
  static double room[ROOM];
  double z = 0.5, slope = 0.1, inverse[8] = {1};
  memset(room, 0, sizeof room);
  pni_adaptation_plan plan = {
      .warmup = warmup, .most = warmup, .estimator = estimator, .schedule = PN_SCHEDULE_OVERLAPPING, .target = 0.75};
  pni_chain h = {.metric = {.n = 1, .kind = kind, .most = 1, .inverse = inverse},
                 .at = {.z = &z, .gradient = &slope},
                 .step = 0.2};
  pni_adaptation a;
  if (!check_record(pni_adaptation_room(1, kind, &plan) <= ROOM)) return;
  pni_adaptation_start(&a, &h, &plan, room);
  int early = (int)(0.3 * warmup), end = warmup - (int)(0.15 * warmup), window = 80, fore = 0, back = 0, wrong = 0;
  double error = 0, average = 0;
  CHECK_INT(pni_adaptation_settled(&a), end);
  for (int i = 0; i < warmup; i++) {
    pni_transition t = {.accept = fabs(sin(i)),
                        .symmetric = fabs(cos(i)),
                        .moved = i % 5 != 4,
                        .divergent = i % 7 == 6,
                        .leapfrogs = 3 + i % 2};
    z = sin(3 * i), slope = cos(2 * i);
    pni_adapt(&a, &h, i, &t);
    bool scores = estimator == PN_ESTIMATOR_FISHER, kept = !scores || (t.moved && !(t.divergent && t.leapfrogs == 3));
    bool full = false;
    if (i < end) {
      int size = i < early ? 10 : window;
      bool made = i + 1 == end;
      fore += kept, back += kept;
      if (back >= size && i + 1 + size <= end) {
        fore = back, back = 0, made = true;
        if (i >= early) window = window * 3 / 2;
      }
      full = fore >= 3 && (made || kind == PN_METRIC_DIAGONAL || fore == 3 || fore % 20 == 0);
    }
    wrong += a.full != full || a.draws.fore->count != fore || a.draws.back->count != back;
    a.full = false;
    error += 0.75 - (i < early ? t.accept : t.symmetric);
    double log_step = log(10 * 0.2) - sqrt(i + 1) / 0.05 / (i + 1 + 10) * error, weight = pow(i + 1, -0.75);
    average = weight * log_step + (1 - weight) * average;
    CHECK_NEAR(h.step, exp(i + 1 < warmup ? log_step : average), 1e-10);
  }
  CHECK_INT(wrong, 0);
  pni_adaptation_extend(&a, 17);
  CHECK_INT(pni_adaptation_settled(&a), end + 17);
}

/* ---- what windows remember ---- */

enum { WIDE = 3, LONG = 90, KEPT = 60 };

typedef struct {
  int count;
  double x[LONG][WIDE], a[LONG][WIDE];
} list;

static void entry(list *l, const double *x, const double *a) {
  memcpy(l->x[l->count], x, sizeof l->x[0]);
  memcpy(l->a[l->count++], a, sizeof l->a[0]);
}

static double mean_of(double (*v)[WIDE], int n, int i) {
  double sum = 0;
  for (int k = 0; k < n; k++) sum += v[k][i] / n;
  return sum;
}

static double product_of(double (*v)[WIDE], int n, int i, int j) {
  double sum = 0, mi = mean_of(v, n, i), mj = mean_of(v, n, j);
  for (int k = 0; k < n; k++) sum += (v[k][i] - mi) * (v[k][j] - mj);
  return sum;
}

static bool agree(const double *mean, const double *square, const double *product, double (*v)[WIDE], int n) {
  bool same = true;
  for (int i = 0; i < WIDE && n; i++) {
    same &= fabs(mean[i] - mean_of(v, n, i)) < 1e-11 && fabs(square[i] - product_of(v, n, i, i)) < 1e-9;
    for (int j = 0; product && j <= i; j++) same &= fabs(product[i * WIDE + j] - product_of(v, n, i, j)) < 1e-9;
  }
  return same;
}

/* How many times ten deviations of a list a draw is away from its mean; 1 at least. */
static double distance(list *l, const double *x, const double *a) {
  double worst = 1;
  for (int i = 0; i < WIDE; i++) {
    double vx = product_of(l->x, l->count, i, i) / (l->count - 1),
           va = product_of(l->a, l->count, i, i) / (l->count - 1);
    double dx = fabs(x[i] - mean_of(l->x, l->count, i)), da = fabs(a[i] - mean_of(l->a, l->count, i));
    worst = fmax(worst, fmax(dx / sqrt(vx) / 10, da / sqrt(va) / 10));
  }
  return worst;
}

static void windows(int kind, bool scores, bool single) {
  static double room[4000];
  static list fore, back;
  double last[LONG][WIDE] = {{0}}, last_score[LONG][WIDE] = {{0}};
  int added = 0, wrong = 0;
  pni_window w = {.scores = scores, .single = single};
  memset(room, 0, sizeof room);
  CHECK(pni_window_room(WIDE, kind, scores, KEPT) <= 4000);
  pni_window_start(&w, WIDE, kind, KEPT, room);
  fore.count = back.count = 0;
  for (int k = 0; k < LONG; k++) {
    double x[WIDE], a[WIDE];
    bool finite = true;
    for (int i = 0; i < WIDE; i++) x[i] = i + (i ? 2 : 0.02) * sin(k * k + i), a[i] = cos(3 * k + i * i) / (1 + i);
    if (k % 13 == 9) x[k % WIDE] += 200 + k;
    if (k % 17 == 11) a[k % WIDE] -= 70;
    if (k == 5) finite = false, a[WIDE - 1] = NAN;
    if (k == 40) finite = false, x[0] = INFINITY;
    if (k == 60) finite = false, x[0] = 1e200; /* too far to be drawn in */
    if (!scores && !finite) continue;          /* they are not looked at */
    pni_window_add(&w, x, a);
    if (finite) {
      list *judge = fore.count >= 10 ? &fore : &back;
      double away = scores && judge->count >= 10 ? distance(judge, x, a) : 1;
      for (int i = 0; i < WIDE && away > 1; i++) {
        double mx = mean_of(judge->x, judge->count, i), ma = mean_of(judge->a, judge->count, i);
        x[i] = mx + (x[i] - mx) / away, a[i] = ma + (a[i] - ma) / away;
      }
      memcpy(last[added % KEPT], x, sizeof x);
      memcpy(last_score[added++ % KEPT], a, sizeof a);
      entry(&fore, x, a);
      if (!single) entry(&back, x, a);
    }
    if (k % 24 == 23) {
      pni_window_switch(&w);
      list old = fore;
      fore = back, back = single ? old : (list){0};
      if (single) fore.count = 0;
    }
    const pni_window_sums *f = w.fore, *b = w.back;
    wrong += f->count != fore.count || b->count != back.count || w.added != added;
    wrong += !agree(f->mean_x, f->square_x, f->product_x, fore.x, fore.count);
    wrong += !agree(b->mean_x, b->square_x, b->product_x, back.x, back.count);
    if (scores) wrong += !agree(f->mean_a, f->square_a, f->product_a, fore.a, fore.count);
    if (scores) wrong += !agree(b->mean_a, b->square_a, b->product_a, back.a, back.count);
  }
  CHECK_INT(wrong, 0);
  CHECK_INT(w.keep, kind == PN_METRIC_LOW_RANK ? KEPT : 0);
  for (int k = 0; k < w.keep; k++)
    for (int i = 0; i < WIDE; i++) {
      CHECK_NEAR(w.draw[k * WIDE + i], last[k][i], 1e-11);
      if (scores) CHECK_NEAR(w.score[k * WIDE + i], last_score[k][i], 1e-11);
    }
}

/* ---- summaries of draws, by definitions (Vehtari et al. 2021, Geyer 1992) ---- */

enum { MOST_DRAWS = 301, MOST_CHAINS = 3, ALL = MOST_DRAWS * MOST_CHAINS };

static int rising(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef struct {
  int halves, n;
  double v[2 * MOST_CHAINS][MOST_DRAWS / 2 + 1];
} split;

static double half_mean(const split *s, int k) {
  double sum = 0;
  for (int i = 0; i < s->n; i++) sum += s->v[k][i];
  return sum / s->n;
}

static double lagged(const split *s, int lag) {
  double sum = 0;
  for (int k = 0; k < s->halves; k++) {
    double m = half_mean(s, k);
    for (int i = 0; i + lag < s->n; i++) sum += (s->v[k][i] - m) * (s->v[k][i + lag] - m);
  }
  return sum / s->n / s->halves;
}

/* W; *plus: V */
static double within(const split *s, double *plus) {
  double w = lagged(s, 0) * s->n / (s->n - 1), centre = 0, between = 0;
  for (int k = 0; k < s->halves; k++) centre += half_mean(s, k);
  for (int k = 0; k < s->halves; k++) between += pow(half_mean(s, k) - centre / s->halves, 2) / (s->halves - 1);
  *plus = w * (s->n - 1) / s->n + between;
  return w;
}

static double direct_r_hat(const split *s) {
  double plus, w = within(s, &plus);
  return sqrt(plus / w);
}

static double direct_size(const split *s) {
  double plus, w = within(s, &plus), rho[MOST_DRAWS] = {1}, total = s->halves * s->n, sum = 0;
  if (!(plus > 0)) return total;
  int t = 1;
  double even = 1, odd = 1 - (w - lagged(s, 1)) / plus;
  rho[1] = odd;
  while (t < s->n - 3 && even + odd > 0) {
    even = 1 - (w - lagged(s, t + 1)) / plus;
    odd = 1 - (w - lagged(s, t + 2)) / plus;
    if (even + odd >= 0) rho[t + 1] = even, rho[t + 2] = odd;
    t += 2;
  }
  int last = t - 2;
  if (even > 0) rho[last + 1] = even;
  for (t = 1; t <= last - 2; t += 2)
    if (rho[t + 1] + rho[t + 2] > rho[t - 1] + rho[t]) rho[t + 1] = rho[t + 2] = (rho[t - 1] + rho[t]) / 2;
  for (t = 0; t <= last; t++) sum += rho[t];
  double tau = fmax(-1 + 2 * sum + rho[last + 1], 1 / log10(total));
  return total / tau;
}

static split ranked(const split *s) {
  split r = *s;
  double total = s->halves * s->n;
  for (int k = 0; k < s->halves; k++)
    for (int i = 0; i < s->n; i++) {
      double below = 0, same = 0;
      for (int q = 0; q < s->halves; q++)
        for (int j = 0; j < s->n; j++) below += s->v[q][j] < s->v[k][i], same += s->v[q][j] == s->v[k][i];
      r.v[k][i] = pni_ndtri((below + (same + 1) / 2 - 0.375) / (total + 0.25));
    }
  return r;
}

static double quantile(const double *sorted, int n, double p) {
  double at = p * (n - 1);
  int i = (int)at;
  return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[i];
}

/* x [chains, draws] */
static void direct(const double *x, int chains, int draws, double *out) {
  static split s, f;
  static double sorted[ALL], of_halves[ALL];
  int count = chains * draws, k = 0;
  double mean = 0, square = 0;
  s.halves = 2 * chains, s.n = draws / 2;
  for (int q = 0; q < chains; q++)
    for (int i = 0; i < s.n; i++) {
      s.v[2 * q][i] = of_halves[k++] = x[q * draws + i];
      s.v[2 * q + 1][i] = of_halves[k++] = x[(q + 1) * draws - s.n + i];
    }
  memcpy(sorted, x, (size_t)count * sizeof *x);
  qsort(sorted, (size_t)count, sizeof *x, rising);
  qsort(of_halves, (size_t)k, sizeof *x, rising);
  for (int i = 0; i < count; i++) mean += x[i] / count;
  for (int i = 0; i < count; i++) square += (x[i] - mean) * (x[i] - mean);
  out[0] = mean, out[1] = sqrt(square / (count - 1));
  out[2] = quantile(sorted, count, 0.05), out[3] = quantile(sorted, count, 0.5), out[4] = quantile(sorted, count, 0.95);
  out[7] = INFINITY;
  for (int side = 2; side <= 4; side += 2) {
    f = s;
    for (int q = 0; q < s.halves; q++)
      for (int i = 0; i < s.n; i++) f.v[q][i] = s.v[q][i] <= out[side];
    out[7] = fmin(out[7], direct_size(&f));
  }
  out[8] = out[1] / sqrt(direct_size(&s));
  f = ranked(&s);
  double bulk = direct_r_hat(&f), centre = (of_halves[(k - 1) / 2] + of_halves[k / 2]) / 2;
  out[6] = direct_size(&f);
  for (int q = 0; q < s.halves; q++)
    for (int i = 0; i < s.n; i++) f.v[q][i] = fabs(s.v[q][i] - centre);
  f = ranked(&f);
  double folded = direct_r_hat(&f);
  out[5] = folded > bulk ? folded : bulk;
}

enum { COLUMNS = 8, ALIKE = 7 };

static double number(int column, int chain, int i, double *state) {
  double u = sin(12.9898 * (i + 1) + 78.233 * chain + 3.7 * column) * 43758.5453, noise = u - floor(u) - 0.5;
  switch (column) {
  case 0: return *state = 0.8 * *state + noise;
  case 1: return *state = -0.6 * *state + noise;
  case 2: return floor(4 * noise);              /* ties, of both signs and 0 */
  case 3: return noise * (1 + 3 * chain) + 100; /* unequal widths */
  case 4: return noise + 0.3 * chain;
  case 5: return noise * pow(10, 6 * noise) - (i == 3 ? 1e5 : 0);
  case ALIKE: return 1 + floor(512 * (noise + 0.5)) * 0x1p-52; /* in their last bits they differ */
  default: return chain + i > 2 ? 2.5 : -0.0 * i;              /* nearly constant */
  }
}

static void summaries(pn_context *c, int chains, int draws) {
  static double x[MOST_CHAINS][COLUMNS][MOST_DRAWS], column[ALL];
  size_t mark = pn_scope_open(c);
  for (int q = 0; q < chains; q++)
    for (int j = 0; j < COLUMNS; j++) {
      double state = 0;
      for (int i = 0; i < draws; i++) x[q][j][i] = number(j, q, i, &state);
    }
  pn_tensor *t = pn_from_data(c, PN_FLOAT64, 3, (int64_t[]){MOST_CHAINS, COLUMNS, MOST_DRAWS}, x);
  t = pn_slice(c, pn_transpose(c, pn_slice(c, t, 0, 0, chains, 1), 1, 2), 1, 0, draws, 1);
  pn_tensor *all = pn_draws_summary(c, t);
  CHECK(all && pn_tensor_shape(all)[0] == COLUMNS && pn_tensor_shape(all)[1] == 9);
  double got[COLUMNS * 9], want[9];
  pn_tensor_copy_out(c, all, got, COLUMNS * 9);
  for (int j = 0; j < COLUMNS; j++) {
    for (int q = 0; q < chains; q++) memcpy(column + q * draws, x[q][j], (size_t)draws * sizeof *column);
    direct(column, chains, draws, want);
    for (int k = 0; k < 9; k++) {
      if (j == ALIKE && (k < 2 || k == 8)) continue; /* of rounding */
      bool same = check_near(got[9 * j + k], want[k], 1e-9) || fabs(got[9 * j + k] - want[k]) < 1e-12;
      if (!check_record(same))
        printf("%d chains of %d draws, column %d: number %d is %.17g, want %.17g\n", chains, draws, j, k,
               got[9 * j + k], want[k]);
    }
  }
  x[chains - 1][1][draws - 1] = INFINITY; /* this column alone is lost, all of it */
  t = pn_from_data(c, PN_FLOAT64, 3, (int64_t[]){MOST_CHAINS, COLUMNS, MOST_DRAWS}, x);
  t = pn_slice(c, pn_transpose(c, pn_slice(c, t, 0, 0, chains, 1), 1, 2), 1, 0, draws, 1);
  double after[COLUMNS * 9];
  pn_tensor_copy_out(c, pn_draws_summary(c, t), after, COLUMNS * 9);
  for (int k = 0; k < COLUMNS * 9; k++) CHECK_NEAR(after[k], k / 9 == 1 ? NAN : got[k], 0);
  pn_scope_close(c, mark);
}

static void refusals(pn_context *c) {
  pn_tensor *wrong[] = {pn_zeros(c, PN_FLOAT32, 3, (int64_t[]){2, 4, 1}), pn_zeros(c, PN_FLOAT64, 2, (int64_t[]){2, 4}),
                        pn_zeros(c, PN_FLOAT64, 3, (int64_t[]){0, 4, 1}),
                        pn_zeros(c, PN_FLOAT64, 3, (int64_t[]){2, 3, 1})};
  for (int k = 0; k < 4; k++) {
    CHECK(!pn_draws_summary(c, wrong[k]));
    CHECK_FAIL(c, PN_SHAPE, "draws_summary: draws must be float64 [chains, draws, m] with at least 4 draws, got [");
  }
  CHECK(!pn_draws_summary(c, NULL));
  CHECK_FAIL(c, PN_STATE, "draws_summary");
  pn_tensor *none = pn_draws_summary(c, pn_zeros(c, PN_FLOAT64, 3, (int64_t[]){2, 4, 0}));
  CHECK(pn_tensor_shape(none)[0] == 0 && pn_tensor_shape(none)[1] == 9);
}

int main(void) {
  static const int draws[] = {4, 5, 6, 7, 8, 9, 12, 33, 64, 131, 300, 301}, warmups[] = {0, 1, 9, 40, 200, 300, 700};
  settings();
  defaults();
  counts();
  first_step();
  starts();
  parts();
  for (size_t k = 0; k < sizeof warmups / sizeof *warmups; k++)
    for (int kind = PN_METRIC_DIAGONAL; kind <= PN_METRIC_DENSE; kind++)
      for (int estimator = PN_ESTIMATOR_FISHER; estimator <= PN_ESTIMATOR_STAN && warmups[k]; estimator++)
        schedule(warmups[k], kind, estimator);
  for (int warmup = 101; warmup < 400; warmup++) schedule(warmup, PN_METRIC_DIAGONAL, PN_ESTIMATOR_STAN);
  for (int kind = PN_METRIC_DIAGONAL; kind <= PN_METRIC_DENSE; kind++)
    for (int how = 0; how < 4; how++) windows(kind, how & 1, how & 2);
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1});
  for (int chains = 1; chains <= MOST_CHAINS; chains++)
    for (size_t k = 0; k < sizeof draws / sizeof *draws; k++) summaries(c, chains, draws[k]);
  refusals(c);
  pn_context_close(c);
  CHECK_DONE();
}
