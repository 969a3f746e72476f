/*
** metric_test.c: mass matrices from draws and scores. Judged by the condition number of the preconditioned target, not
** by variances: closed forms on Gaussians, windows with fewer draws than numbers, scores of float32, noise that is no
** direction, chains that do not move, one draw far out; what a metric does to momenta; a warm-up's length; a host's
** function gets what a plan gets.
*/
#include <stdlib.h>
#include "check.h"

#include "../../src/infer/sampling/geometric_mean.h"
#include "../../src/infer/sampling/metric_estimate.h"

enum { MOST = 200 };

/* ---- normal draws of the test's own ---- */

static uint64_t state;

static double uniform(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void) { return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()); }

/* ---- Gaussians: S = D (I + (l - 1) u u^T) D, whose inverse is known ---- */

typedef struct {
  int n;
  double sd[MOST], u[MOST], stretch;
} law;

/* Standard deviations from low to high, a direction over all coordinates. */
static law make_law(int n, double low, double high, double stretch) {
  law g = {.n = n, .stretch = stretch};
  double sum = 0;
  for (int i = 0; i < n; i++) {
    g.sd[i] = low * pow(high / low, n > 1 ? (double)i / (n - 1) : 0);
    g.u[i] = i % 2 ? -1 - 0.1 * i / n : 1;
    sum += g.u[i] * g.u[i];
  }
  for (int i = 0; i < n; i++) g.u[i] /= sqrt(sum);
  return g;
}

static double covariance(const law *g, int i, int j, bool inverse) {
  double l = inverse ? 1 / g->stretch : g->stretch, d = inverse ? 1 / (g->sd[i] * g->sd[j]) : g->sd[i] * g->sd[j];
  return d * ((i == j) + (l - 1) * g->u[i] * g->u[j]);
}

static void draw(const law *g, double *x, double *a) {
  double along = 0;
  for (int i = 0; i < g->n; i++) along += g->u[i] * (x[i] = normal());
  for (int i = 0; i < g->n; i++) { /* y = (I + (sqrt(l) - 1) u u^T) e, x = D y, a = -D^-1 (I + (1 / l - 1) u u^T) y */
    double e = x[i];
    x[i] = g->sd[i] * (e + (sqrt(g->stretch) - 1) * along * g->u[i]);
    a[i] = -(e + (1 / sqrt(g->stretch) - 1) * along * g->u[i]) / g->sd[i];
  }
}

/* ---- the machinery ---- */

typedef struct {
  pn_context *c;
  pni_window w;
  pni_estimate e;
  pni_metric m;
  double *memory, *fence; /* what stands behind the memory stays */
} rig;

enum { FENCE = 512 };

static void rig_open(rig *r, int n, int kind, int estimator, int warmup) {
  bool scores = estimator == PN_ESTIMATOR_FISHER;
  int64_t metric = pni_metric_room(n, kind), window = pni_window_room(n, kind, scores, warmup);
  *r = (rig){.c = pn_context_new(NULL), .w = {.scores = scores}};
  int64_t room = metric + window + pni_estimate_room(n, kind, estimator, warmup);
  r->memory = calloc((size_t)room + FENCE, sizeof(double));
  r->fence = r->memory + room;
  for (int i = 0; i < FENCE; i++) r->fence[i] = 0.25 + i;
  pni_metric_start(&r->m, n, kind, r->memory);
  pni_window_start(&r->w, n, kind, warmup, r->memory + metric);
  pni_estimate_start(&r->e, n, kind, estimator, warmup, r->memory + metric + window);
}

static void rig_close(rig *r) {
  int same = 0;
  for (int i = 0; i < FENCE; i++) same += r->fence[i] == 0.25 + i;
  CHECK_INT(same, FENCE);
  free(r->memory);
  pn_context_close(r->c);
}

static void add(rig *r, const law *g, int draws, bool single) {
  double x[MOST], a[MOST];
  for (int k = 0; k < draws; k++) {
    draw(g, x, a);
    for (int i = 0; single && i < g->n; i++) a[i] = (float)a[i];
    pni_window_add(&r->w, x, a);
  }
}

static void estimate(rig *r) { CHECK_STATUS(r->c, pni_estimate_metric(&r->e, r->c, &r->w, &r->m), PN_OK); }

/* Largest over least eigenvalue of R^T S^-1 R, M^-1 = R R^T: 1 where the metric is S. */
static double condition(rig *r, const law *g) {
  const int64_t n = g->n, shape[] = {n, n};
  size_t mark = pn_scope_open(r->c);
  double *m = malloc((size_t)(n * n) * sizeof *m), *p = malloc((size_t)(n * n) * sizeof *p);
  pni_metric_matrix(&r->m, m);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) { /* in units of sd, so that rounding does not count */
      m[i * n + j] /= g->sd[i] * g->sd[j];
      p[i * n + j] = covariance(g, i, j, true) * g->sd[i] * g->sd[j];
    }
  pn_tensor *root = pn_cholesky(r->c, pn_from_data(r->c, PN_FLOAT64, 2, shape, m)), *values = NULL;
  pn_tensor *vectors = NULL, *product = pn_matmul(r->c, pn_from_data(r->c, PN_FLOAT64, 2, shape, p), root);
  pn_eigh(r->c, pn_matmul(r->c, pn_transpose(r->c, root, 0, 1), product), &values, &vectors);
  CHECK_STATUS(r->c, pn_context_status(r->c), PN_OK);
  const double *v = values ? pn_tensor_data(values) : NULL;
  double ratio = v ? v[n - 1] / v[0] : INFINITY;
  free(m);
  free(p);
  pn_scope_close(r->c, mark);
  return ratio;
}

static double condition_after(const law *g, int kind, int estimator, int draws, bool single) {
  rig r;
  rig_open(&r, g->n, kind, estimator, draws);
  add(&r, g, draws, single);
  estimate(&r);
  double ratio = condition(&r, g);
  rig_close(&r);
  return ratio;
}

/* ---- tests ---- */

/* X B X = A, at sizes below, at and above a piece, with conditions of 1e8. */
static void geometric_mean(void) {
  pn_context *c = pn_context_new(NULL);
  static const int sizes[] = {1, 2, 32, 33, 100};
  for (int s = 0; s < 5; s++) {
    int n = sizes[s];
    law g = make_law(n, 1e-2, 1e2, 50), h = make_law(n, 1e-1, 10, 0.02);
    double *a = malloc((size_t)(n * n) * sizeof *a), *b = malloc((size_t)(n * n) * sizeof *b);
    double *work = malloc((size_t)pni_geometric_mean_room(n) * sizeof *work), worst = 0;
    for (int i = 0; i < n * n; i++)
      a[i] = covariance(&g, i / n, i % n, false), b[i] = covariance(&h, i / n, i % n, true);
    CHECK(pni_geometric_mean(&(pni_watch){.c = c}, n, a, b, work));
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) {
        double sum = 0;
        for (int k = 0; k < n; k++)
          for (int l = 0; l < n; l++) sum += a[i * n + k] * covariance(&h, k, l, true) * a[l * n + j];
        double unit = sqrt(covariance(&g, i, i, false) * covariance(&g, j, j, false));
        worst = fmax(worst, fabs(sum - covariance(&g, i, j, false)) / unit);
      }
    CHECK(worst < 1e-9);
    free(a);
    free(b);
    free(work);
  }
  pn_context_close(c);
}

static void gaussians(void) {
  law g = make_law(6, 1e-3, 1e3, 1e4);
  state = 1;
  /* as soon as there are more draws than numbers the dense mean is S itself, whatever the draws */
  CHECK_NEAR(condition_after(&g, PN_METRIC_DENSE, PN_ESTIMATOR_FISHER, 8, false), 1, 1e-5);
  CHECK_NEAR(condition_after(&g, PN_METRIC_DENSE, PN_ESTIMATOR_FISHER, 100, false), 1, 1e-5);
  CHECK(condition_after(&g, PN_METRIC_DENSE, PN_ESTIMATOR_FISHER, 100, true) < 1.5); /* scores of float32 */
  /* what is left to the diagonal lies within 1/2 and 2 */
  CHECK(condition_after(&g, PN_METRIC_LOW_RANK, PN_ESTIMATOR_FISHER, 100, false) < 4.1);
  CHECK(condition_after(&g, PN_METRIC_LOW_RANK, PN_ESTIMATOR_FISHER, 100, true) < 4.1);
  CHECK(condition_after(&g, PN_METRIC_LOW_RANK, PN_ESTIMATOR_STAN, 250, false) < 8);
  CHECK(condition_after(&g, PN_METRIC_DENSE, PN_ESTIMATOR_STAN, 2000, false) < 2);
  /* diagonal: sqrt(S_ii / (S^-1)_ii), not S_ii */
  rig r;
  rig_open(&r, g.n, PN_METRIC_DIAGONAL, PN_ESTIMATOR_FISHER, 4000);
  add(&r, &g, 4000, false);
  estimate(&r);
  for (int i = 0; i < g.n; i++)
    CHECK_NEAR(r.m.inverse[i], sqrt(covariance(&g, i, i, false) / covariance(&g, i, i, true)), 0.06);
  rig_close(&r);
  rig_open(&r, g.n, PN_METRIC_DIAGONAL, PN_ESTIMATOR_STAN, 4000);
  add(&r, &g, 4000, false);
  estimate(&r);
  for (int i = 0; i < g.n; i++) CHECK_NEAR(r.m.inverse[i], covariance(&g, i, i, false), 0.15); /* of 1e-6 as well */
  rig_close(&r);
}

/* Fewer draws than numbers. */
static void rank_deficient(void) {
  law same = make_law(40, 1e-2, 1e2, 1), wide = make_law(200, 1e-2, 1e2, 100), narrow = make_law(200, 0.1, 10, 0.01);
  for (int kind = PN_METRIC_LOW_RANK; kind <= PN_METRIC_DENSE; kind++) {
    state = 2;
    double ratio = condition_after(&same, kind, PN_ESTIMATOR_FISHER, 12, false);
    CHECK(ratio < 10); /* 1e8 without */
    CHECK(condition_after(&same, kind, PN_ESTIMATOR_STAN, 12, false) < (kind == PN_METRIC_DENSE ? 1e8 : 60));
    CHECK(condition_after(&wide, kind, PN_ESTIMATOR_FISHER, 90, false) < 25); /* 100 by the diagonal */
    CHECK(condition_after(&narrow, kind, PN_ESTIMATOR_FISHER, 90, false) < 25);
  }
}

/* Draws and scores that have nothing to do with each other have no directions, in however few draws. */
static void noise(void) {
  double x[60], a[60];
  state = 3;
  for (int draws = 20; draws <= 240; draws += 55) {
    rig r;
    rig_open(&r, 60, PN_METRIC_LOW_RANK, PN_ESTIMATOR_FISHER, 240);
    for (int k = 0; k < draws; k++) {
      for (int i = 0; i < 60; i++) x[i] = normal(), a[i] = normal();
      pni_window_add(&r.w, x, a);
    }
    estimate(&r);
    CHECK_INT(r.m.rank, 0);
    rig_close(&r);
  }
}

static void does_not_move(void) {
  const double x[3] = {1, 2, 3}, a[3] = {-1, 0, 1}, broken[3] = {0, NAN, INFINITY};
  for (int kind = PN_METRIC_DIAGONAL; kind <= PN_METRIC_DENSE; kind++)
    for (int estimator = PN_ESTIMATOR_FISHER; estimator <= PN_ESTIMATOR_STAN; estimator++) {
      rig r;
      double matrix[9];
      rig_open(&r, 3, kind, estimator, 30);
      for (int k = 0; k < 30; k++) pni_window_add(&r.w, x, k % 2 && estimator == PN_ESTIMATOR_FISHER ? broken : a);
      estimate(&r);
      pni_metric_matrix(&r.m, matrix);
      for (int i = 0; i < 9; i++) CHECK_NEAR(matrix[i], i % 4 == 0, 1e-12);
      rig_close(&r);
    }
}

/* One draw whose score is 1e8 standard deviations out, anywhere but among the first ten. */
static void far_out(void) {
  law g = make_law(5, 1e-2, 1e2, 1);
  for (int kind = PN_METRIC_DIAGONAL; kind <= PN_METRIC_DENSE; kind++)
    for (int at = 10; at < 80; at += 23) {
      rig r;
      double x[5], a[5];
      rig_open(&r, g.n, kind, PN_ESTIMATOR_FISHER, 80);
      state = 4;
      for (int k = 0; k < 80; k++) {
        draw(&g, x, a);
        if (k == at) x[2] *= 5, a[2] = 1e8 * a[2];
        pni_window_add(&r.w, x, a);
      }
      estimate(&r);
      CHECK(condition(&r, &g) < 6); /* 1e8 without */
      rig_close(&r);
    }
}

/* Momenta of covariance M, velocities M^-1 p: with P = R^-T, M^-1 P P^T = I. */
static void momenta(void) {
  law g = make_law(7, 1e-1, 10, 30);
  for (int kind = PN_METRIC_DIAGONAL; kind <= PN_METRIC_DENSE; kind++) {
    rig r;
    double p[49] = {0}, v[7], m[49];
    rig_open(&r, 7, kind, PN_ESTIMATOR_FISHER, 60);
    state = 5;
    add(&r, &g, 60, false);
    estimate(&r);
    CHECK(kind != PN_METRIC_LOW_RANK || r.m.rank > 0);
    pni_metric_matrix(&r.m, m);
    for (int k = 0; k < 7; k++) {
      p[8 * k] = 1;
      pni_metric_colour(&r.m, p + 7 * k);
      CHECK_NEAR(pni_metric_kinetic(&r.m, p + 7 * k, v), 0.5, 1e-10); /* u^T u / 2 */
      for (int i = 0; i < 7; i++) {
        double sum = 0;
        for (int j = 0; j < 7; j++) sum += m[7 * i + j] * p[7 * k + j];
        CHECK(fabs(v[i] - sum) < 1e-10 * g.sd[6]);
      }
    }
    for (int i = 0; i < 7; i++)
      for (int j = 0; j < 7; j++) {
        double sum = 0;
        for (int k = 0; k < 7; k++)
          for (int l = 0; l < 7; l++) sum += m[7 * i + l] * p[7 * k + l] * p[7 * k + j];
        CHECK(fabs(sum - (i == j)) < 1e-9 * g.sd[i] / g.sd[j]);
      }
    rig_close(&r);
  }
}

/* Three directions of ten numbers by hand, D (I + sum (l_k - 1) u_k u_k^T) D: the matrix written out, into memory that
** held other things; velocities are its columns, and momenta are coloured by its inverse. */
static void directions(void) {
  enum { N = 10, K = 3 };
  static const double l[K] = {9, 0.25, 4};
  double u[K][N] = {{0}}, want[N * N], got[N * N], square[N], sd[N];
  pni_metric m;
  double *room = calloc((size_t)pni_metric_room(N, PN_METRIC_LOW_RANK), sizeof *room);
  pni_metric_start(&m, N, PN_METRIC_LOW_RANK, room);
  for (int i = 0; i < N; i++) square[i] = (sd[i] = 0.5 + 0.1 * i) * (0.5 + 0.1 * i);
  pni_metric_set_diagonal(&m, square);
  for (int k = 0; k < K; k++) { /* orthonormal: (3, 4) / 5 on a pair of coordinates each */
    u[k][3 * k] = 0.6, u[k][3 * k + 1] = k % 2 ? -0.8 : 0.8;
    memcpy(m.direction + k * N, u[k], sizeof u[k]);
    m.stretch[k] = l[k];
  }
  m.rank = K;
  for (int i = 0; i < N * N; i++) {
    want[i] = i / N == i % N, got[i] = 1e3 + i;
    for (int k = 0; k < K; k++) want[i] += (l[k] - 1) * u[k][i / N] * u[k][i % N];
    want[i] *= sd[i / N] * sd[i % N];
  }
  pni_metric_matrix(&m, got);
  for (int i = 0; i < N * N; i++) CHECK(fabs(got[i] - want[i]) < 1e-12);
  for (int i = 0; i < N; i++) {
    double p[N] = {0}, v[N], seen[N], sum = 0;
    p[i] = 1;
    pni_metric_velocity(&m, p, v);
    for (int j = 0; j < N; j++) CHECK(fabs(v[j] - want[N * i + j]) < 1e-12);
    pni_metric_colour(&m, p); /* p^T M^-1 p is the length of what was coloured */
    pni_metric_velocity(&m, p, seen);
    for (int j = 0; j < N; j++) sum += p[j] * seen[j];
    CHECK_NEAR(sum, 1, 1e-12);
  }
  free(room);
}

/* Velocities of a dense metric are its rows times momenta: orders by strips, with a rest, and by BLAS. */
static void dense_product(void) {
  static const int orders[] = {1, 2, 7, 8, 9, 19, 32, 33, 40};
  for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
    int n = orders[o];
    pni_metric m;
    double p[40], v[40], *room = calloc((size_t)pni_metric_room(n, PN_METRIC_DENSE), sizeof *room);
    pni_metric_start(&m, n, PN_METRIC_DENSE, room);
    for (int i = 0; i < n * n; i++) m.inverse[i] = cos(1 + i / n * (i % n)) + 0.1 * (i / n + i % n);
    for (int i = 0; i < n; i++) p[i] = sin(1 + i) * (i % 3 + 1);
    pni_metric_velocity(&m, p, v);
    for (int i = 0; i < n; i++) {
      long double sum = 0;
      for (int j = 0; j < n; j++) sum += (long double)m.inverse[i * n + j] * p[j];
      CHECK(fabs(v[i] - (double)sum) < 1e-12);
    }
    free(room);
  }
}

/* What a low-rank estimate finds, by plain loops: with rows y of two thirds of the last 256 draws, in units of the
 * scale, and z of their scores, A = sum y y^T / count + ridge and B likewise have u^T A u = l^2 u^T B u for each
 * direction u of stretch l; without scores A u = l u. In all coordinates and in the span of few rows. */
static void low_rank_by_loops(int n, int draws, int estimator) {
  enum { DRAWS = 300 };
  static double x[DRAWS][MOST], a[DRAWS][MOST];
  const bool scores = estimator == PN_ESTIMATOR_FISHER;
  law g = make_law(n, 0.1, 3, 300);
  double scale[MOST], mean[2][MOST] = {{0}}, square[2][MOST] = {{0}}, au[MOST], bu[MOST];
  int first = draws > 256 ? draws - 256 : 0, train = 0;
  rig r;
  rig_open(&r, n, PN_METRIC_LOW_RANK, estimator, draws);
  for (int k = 0; k < draws; k++) {
    draw(&g, x[k], a[k]);
    for (int i = 0; i < n; i++) x[k][i] += 5 + i, mean[0][i] += x[k][i] / draws, mean[1][i] += a[k][i] / draws;
    pni_window_add(&r.w, x[k], a[k]);
    train += k >= first && k % 3 != 2;
  }
  for (int k = 0; k < draws; k++)
    for (int i = 0; i < n; i++) {
      square[0][i] += (x[k][i] - mean[0][i]) * (x[k][i] - mean[0][i]);
      square[1][i] += (a[k][i] - mean[1][i]) * (a[k][i] - mean[1][i]);
    }
  estimate(&r);
  for (int i = 0; i < n; i++) {
    double v = scores ? sqrt(square[0][i] / square[1][i]) : (draws + 5e-3) / (draws + 5) * square[0][i] / (draws - 1);
    scale[i] = sqrt(v);
  }
  int64_t rows = (scores ? 2 : 1) * train, order = n <= rows ? n : rows;
  double few = train > order + 1 ? 1e-3 : 1, ridge = scores ? (few < 1 ? 1e-11 : 1. / train) : few * 5 / (train + 5);
  CHECK(n == 1 ? r.m.rank == 0 : r.m.rank >= (draws >= 24)); /* fewer may show none */
  for (int64_t d = 0; d < r.m.rank; d++) {
    const double *u = r.m.direction + d * n, l = r.m.stretch[d];
    double length = 0, uau = 0, ubu = 0;
    for (int i = 0; i < n; i++) length += u[i] * u[i], au[i] = bu[i] = ridge * u[i];
    CHECK_NEAR(length, 1, 1e-9);
    CHECK(l > 2 || l < 0.5);
    for (int k = first; k < draws; k++) {
      double along = 0, along_score = 0, share = scores ? train : train + 5;
      if (k % 3 == 2) continue;
      for (int i = 0; i < n; i++) {
        along += (x[k][i] - mean[0][i]) / scale[i] * u[i];
        along_score += (a[k][i] - mean[1][i]) * scale[i] * u[i];
      }
      for (int i = 0; i < n; i++) {
        au[i] += (x[k][i] - mean[0][i]) / scale[i] * along / share;
        bu[i] += (a[k][i] - mean[1][i]) * scale[i] * along_score / share;
      }
    }
    for (int i = 0; i < n; i++) {
      uau += u[i] * au[i], ubu += u[i] * bu[i];
      if (!scores) CHECK(fabs(au[i] - l * u[i]) < 1e-9 * l);
    }
    if (scores) CHECK_NEAR(uau / ubu, l * l, 1e-6);
  }
  rig_close(&r);
}

/* A dense M^-1 = G in units of the scale: G B G = A, both with the ridge that few draws need. */
static void dense_by_loops(int n, int draws) {
  enum { N = 6, DRAWS = 40 };
  double x[DRAWS][N], a[DRAWS][N], mean[2][N] = {{0}}, square[2][N] = {{0}}, s[N], m[2][N][N], g[N][N], inverse[N * N];
  law by = make_law(n, 0.1, 3, 20);
  rig r;
  rig_open(&r, n, PN_METRIC_DENSE, PN_ESTIMATOR_FISHER, draws);
  for (int k = 0; k < draws; k++) {
    draw(&by, x[k], a[k]);
    for (int i = 0; i < n; i++) mean[0][i] += x[k][i] / draws, mean[1][i] += a[k][i] / draws;
    pni_window_add(&r.w, x[k], a[k]);
  }
  estimate(&r);
  pni_metric_matrix(&r.m, inverse);
  for (int k = 0; k < draws; k++)
    for (int i = 0; i < n; i++) {
      x[k][i] -= mean[0][i];
      a[k][i] -= mean[1][i];
      square[0][i] += x[k][i] * x[k][i];
      square[1][i] += a[k][i] * a[k][i];
    }
  for (int i = 0; i < n; i++) s[i] = pow(square[0][i] / square[1][i], 0.25);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double ridge = draws > n + 1 ? 1e-11 : 1. / draws;
      m[0][i][j] = m[1][i][j] = i == j ? ridge : 0;
      for (int k = 0; k < draws; k++) {
        m[0][i][j] += x[k][i] / s[i] * x[k][j] / s[j] / draws;
        m[1][i][j] += a[k][i] * s[i] * a[k][j] * s[j] / draws;
      }
      g[i][j] = inverse[i * n + j] / s[i] / s[j];
    }
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++)
        for (int l = 0; l < n; l++) sum += g[i][k] * m[1][k][l] * g[l][j];
      CHECK(fabs(sum - m[0][i][j]) < 1e-6 * (1 + fabs(m[0][i][i]) + fabs(m[0][j][j])));
    }
  rig_close(&r);
}

/* Stan's dense M^-1 of k draws: k / (k + 5) of their covariance, and 5 / (k + 5) of a thousandth of their variances. */
static void dense_of_stan(int n, int draws) {
  enum { N = 6, DRAWS = 40 };
  double x[DRAWS][N], a[N], mean[N] = {0}, inverse[N * N];
  law by = make_law(n, 0.1, 3, 20);
  rig r;
  rig_open(&r, n, PN_METRIC_DENSE, PN_ESTIMATOR_STAN, draws);
  for (int k = 0; k < draws; k++) {
    draw(&by, x[k], a);
    for (int i = 0; i < n; i++) mean[i] += x[k][i] / draws;
    pni_window_add(&r.w, x[k], a);
  }
  estimate(&r);
  pni_metric_matrix(&r.m, inverse);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double sum = 0, unit = sqrt(inverse[i * n + i] * inverse[j * n + j]);
      for (int k = 0; k < draws; k++) sum += (x[k][i] - mean[i]) * (x[k][j] - mean[j]) / (draws - 1);
      double want = (draws + (i == j ? 5e-3 : 0)) / (draws + 5) * sum;
      CHECK(fabs(inverse[i * n + j] - want) < 1e-12 * unit);
    }
  rig_close(&r);
}

/* Diagonals by their formulas, each clamped to 1e-20 .. 1e20, what was there where a variance is 0. */
static void diagonals(int kind, int estimator) {
  enum { N = 4, DRAWS = 11 };
  const double unit[N] = {2, 1e-14, 1e13, 1}, before[N] = {1, 1, 1, 7};
  double x[N], a[N], mean[2][N] = {{0}}, square[2][N] = {{0}};
  rig r;
  rig_open(&r, N, kind, estimator, DRAWS);
  pni_metric_set_diagonal(&r.m, before);
  for (int pass = 0; pass < 2; pass++)
    for (int k = 0; k < DRAWS; k++) {
      for (int i = 0; i < N; i++) {
        x[i] = i == N - 1 ? 5 : unit[i] * sin(k * k + i), a[i] = i == N - 1 ? 0 : cos(3 * k + i) / unit[i];
        if (pass == 0) mean[0][i] += x[i] / DRAWS, mean[1][i] += a[i] / DRAWS;
        if (pass == 1) square[0][i] += (x[i] - mean[0][i]) * (x[i] - mean[0][i]);
        if (pass == 1) square[1][i] += (a[i] - mean[1][i]) * (a[i] - mean[1][i]);
      }
      if (pass == 1) pni_window_add(&r.w, x, a);
    }
  estimate(&r);
  for (int i = 0; i < N; i++) {
    double own = square[0][i] / (DRAWS - 1), v = (DRAWS * own + 5e-3 * own) / (DRAWS + 5);
    if (estimator == PN_ESTIMATOR_FISHER) v = sqrt(square[0][i] / square[1][i]);
    CHECK_NEAR(r.m.inverse[i], i == N - 1 ? before[i] : fmin(1e20, fmax(1e-20, v)), 1e-12);
    if (kind == PN_METRIC_LOW_RANK) CHECK_NEAR(r.m.scale[i] * r.m.scale[i], r.m.inverse[i], 1e-12);
  }
  CHECK_INT(r.m.rank, 0); /* a number that stands still shows no direction */
  rig_close(&r);
}

/* A dense metric of numbers of which one stands still keeps that one's variance, and it alone. */
static void one_stands_still(void) {
  enum { N = 4, DRAWS = 11 };
  static const double before[N] = {1, 2, 3, 7};
  double x[N], a[N];
  rig r;
  rig_open(&r, N, PN_METRIC_DENSE, PN_ESTIMATOR_FISHER, DRAWS);
  pni_metric_set_diagonal(&r.m, before);
  for (int k = 0; k < DRAWS; k++) {
    for (int i = 0; i < N; i++) x[i] = i == 3 ? 5 : (i + 1) * sin(k * k + i), a[i] = i == 3 ? 0 : cos(3 * k + i);
    pni_window_add(&r.w, x, a);
  }
  estimate(&r);
  for (int i = 0; i < N; i++) {
    CHECK(i == 3 ? fabs(r.m.inverse[5 * i] - 7) < 1e-6 : fabs(r.m.inverse[5 * i] - before[i]) > 1e-3);
    CHECK(i == 3 || fabs(r.m.inverse[4 * i + 3]) < 1e-6);
  }
  rig_close(&r);
}

/* Where a number stood still in all draws, or its scores did, Stan's dense metric stays as it was, factor and all, and
 * so does a dense Fisher's that is asked for where nothing moved; a low rank has no directions. */
static void stays(int kind, int estimator) {
  enum { N = 3 };
  law g = make_law(N, 0.5, 2, 40);
  double was[N * N], is[N * N], p[2][N * N] = {{0}}, x[N], a[N];
  rig r;
  rig_open(&r, N, kind, estimator, 60);
  state = 12;
  add(&r, &g, 60, false);
  estimate(&r);
  CHECK(kind == PN_METRIC_DENSE || r.m.rank > 0);
  for (int round = 0; round < 2; round++) {
    kind == PN_METRIC_DENSE ? pni_metric_matrix(&r.m, round ? is : was) : (void)0;
    for (int i = 0; i < N; i++) {
      for (int j = 0; j < N; j++) p[round][i * N + j] = i == j;
      if (kind == PN_METRIC_DENSE) pni_metric_colour(&r.m, p[round] + i * N);
    }
    if (round) break;
    pni_window_switch(&r.w);
    pni_window_switch(&r.w);
    for (int k = 0; k < 30; k++) {
      draw(&g, x, a);
      x[1] = 1;
      if (estimator == PN_ESTIMATOR_FISHER) a[1] = 0;
      for (int i = 0; i < N && estimator == PN_ESTIMATOR_FISHER && kind == PN_METRIC_DENSE; i++) x[i] = a[i] = NAN;
      pni_window_add(&r.w, x, a);
    }
    estimate(&r);
  }
  CHECK(kind == PN_METRIC_DENSE || r.m.rank == 0);
  for (int i = 0; i < N * N && kind == PN_METRIC_DENSE; i++) CHECK(was[i] == is[i] && fabs(p[0][i] - p[1][i]) < 1e-12);
  rig_close(&r);
}

/* ---- directions of two numbers in closed form ---- */

typedef struct {
  double xx, xy, yy;
} two;

static double det(const two *m) { return m->xx * m->yy - m->xy * m->xy; }

/* P # Q of matrices of two rows: with both at a determinant of 1 it is their sum, at a determinant of 1. */
static two middle(const two *p, const two *q) {
  double a = sqrt(det(p)), b = sqrt(det(q));
  two s = {p->xx / a + q->xx / b, p->xy / a + q->xy / b, p->yy / a + q->yy / b};
  double by = sqrt(a * b) / sqrt(det(&s));
  return (two){s.xx * by, s.xy * by, s.yy * by};
}

static void add_to(two *m, const double *v, double share) {
  m->xx += share * v[0] * v[0], m->xy += share * v[0] * v[1], m->yy += share * v[1] * v[1];
}

static double along(const two *m, const double *u) {
  return u[0] * u[0] * m->xx + 2 * u[0] * u[1] * m->xy + u[1] * u[1] * m->yy;
}

/* Of `draws` draws, of which every third is held out: which of the two directions agree with these. How many there were
 * to choose of is added to *offered. */
static int closed_form(int draws, double stretch, int estimator, int *offered) {
  enum { DRAWS = 60 };
  const bool scores = estimator == PN_ESTIMATOR_FISHER;
  double x[DRAWS][2], a[DRAWS][2], mean[2][2] = {{0}}, square[2][2] = {{0}}, kept[2], s[2];
  law g = make_law(2, 0.5, 3, stretch);
  int train = 0, held = 0, count = 0;
  rig r;
  rig_open(&r, 2, PN_METRIC_LOW_RANK, estimator, draws);
  for (int k = 0; k < draws; k++) {
    draw(&g, x[k], a[k]);
    pni_window_add(&r.w, x[k], a[k]);
    for (int i = 0; i < 2; i++) mean[0][i] += x[k][i] / draws, mean[1][i] += a[k][i] / draws;
    *(k % 3 == 2 ? &held : &train) += 1;
  }
  estimate(&r);
  for (int k = 0; k < draws; k++)
    for (int i = 0; i < 2; i++) {
      x[k][i] -= mean[0][i], a[k][i] -= mean[1][i];
      square[0][i] += x[k][i] * x[k][i], square[1][i] += a[k][i] * a[k][i];
    }
  for (int i = 0; i < 2; i++)
    s[i] = sqrt(scores ? sqrt(square[0][i] / square[1][i]) : (draws + 5e-3) / (draws + 5) * square[0][i] / (draws - 1));
  double ridge = scores ? (train > 3 ? 1e-11 : 1. / train) : (train > 3 ? 1e-3 : 1) * 5 / (train + 5);
  two A = {ridge, 0, ridge}, B = A, out = {0}, of_scores = {0};
  for (int k = 0; k < draws; k++) {
    double y[2] = {x[k][0] / s[0], x[k][1] / s[1]}, z[2] = {a[k][0] * s[0], a[k][1] * s[1]};
    add_to(k % 3 == 2 ? &out : &A, y, k % 3 == 2 ? 1. / held : 1. / (scores ? train : train + 5));
    add_to(k % 3 == 2 ? &of_scores : &B, z, k % 3 == 2 ? 1. / held : 1. / train);
  }
  two inverse = {B.yy / det(&B), -B.xy / det(&B), B.xx / det(&B)}, G = scores ? middle(&A, &inverse) : A;
  double half = (G.xx - G.yy) / 2, far = hypot(half, G.xy);
  double value[2] = {(G.xx + G.yy) / 2 + far, (G.xx + G.yy) / 2 - far};
  if (fabs(log(value[1])) > fabs(log(value[0]))) half = value[0], value[0] = value[1], value[1] = half;
  for (int k = 0; k < 2 && train >= 2 && held >= 2; k++) {
    double l = value[k], u[2] = {G.xy, l - G.xx}, length = hypot(u[0], u[1]);
    if (!(fabs(log(l)) > log(2))) break;
    u[0] /= length, u[1] /= length;
    double ratio = scores ? along(&out, u) / along(&of_scores, u) / l : along(&out, u) * (l - 1) / l / log(l);
    ++*offered;
    if ((l > 1 ? log(ratio) : -log(ratio)) <= 1.5 * sqrt((scores ? 4. : 2.) / held)) continue;
    if (count < r.m.rank)
      CHECK_NEAR(fabs(r.m.direction[2 * count] * u[0] + r.m.direction[2 * count + 1] * u[1]), 1, 1e-6);
    kept[count++] = l;
  }
  CHECK_INT(r.m.rank, count);
  for (int k = 0; k < count && k < r.m.rank; k++) CHECK_NEAR(r.m.stretch[k], kept[k], 1e-6);
  rig_close(&r);
  return count;
}

static void directions_of_two(void) {
  static const double stretch[] = {4, 9, 30, 300, 0.1};
  for (int estimator = PN_ESTIMATOR_FISHER; estimator <= PN_ESTIMATOR_STAN; estimator++) {
    int offered = 0, taken = 0;
    state = 13;
    for (int draws = 3; draws <= 60; draws++)
      for (int k = 0; k < 5; k++) taken += closed_form(draws, stretch[k], estimator, &offered);
    CHECK(taken > 100 && offered - taken > 40);
  }
}

/* More directions than there is room for, of pairs of numbers with correlations r: stretches (1 +- r) / sqrt(1 - r^2),
 * of which the farthest from 1 are kept. */
static void most_directions(int estimator) {
  enum { PAIRS = 70, DRAWS = 256, KEPT = 64 };
  double x[2 * PAIRS], a[2 * PAIRS];
  rig r;
  rig_open(&r, 2 * PAIRS, PN_METRIC_LOW_RANK, estimator, DRAWS);
  state = 14;
  for (int k = 0; k < DRAWS; k++) {
    for (int i = 0; i < PAIRS; i++) {
      double c = 0.9 + 0.099 * i / PAIRS, *y = x + 2 * i;
      y[0] = normal(), y[1] = c * y[0] + sqrt(1 - c * c) * normal();
      a[2 * i] = -(y[0] - c * y[1]) / (1 - c * c), a[2 * i + 1] = -(y[1] - c * y[0]) / (1 - c * c);
    }
    pni_window_add(&r.w, x, a);
  }
  estimate(&r);
  CHECK(estimator == PN_ESTIMATOR_FISHER ? r.m.rank == KEPT : r.m.rank > 0 && r.m.rank <= KEPT);
  for (int k = 1; k < r.m.rank; k++) CHECK(fabs(log(r.m.stretch[k])) <= fabs(log(r.m.stretch[k - 1])));
  for (int k = 0; k < r.m.rank && estimator == PN_ESTIMATOR_FISHER; k++) {
    double c = 0.9 + 0.099 * (PAIRS - 1 - k / 2) / PAIRS; /* both of a pair are as far from 1 */
    CHECK(fabs(fabs(log(r.m.stretch[k])) - log((1 + c) / (1 - c)) / 2) < 0.3);
  }
  rig_close(&r);
}

/* Lower factors in place, of whatever stands above; matrices that have none. */
static void factors(void) {
  pn_context *c = pn_context_new(NULL);
  pni_watch watch = {.c = c};
  static double f[70 * 70], want[70 * 70];
  for (int n = 1; n <= 70; n += n < 4 ? 1 : 11)
    for (int bad = -1; bad < 3; bad++) {
      static const double wrong[] = {-1, NAN, INFINITY};
      for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) want[i * n + j] = j > i ? 0 : i == j ? 1 + 0.1 * i : sin(i * i + j) / n;
      for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
          f[i * n + j] = j > i ? 7 : 0;
          for (int k = 0; k <= j && j <= i; k++) f[i * n + j] += want[i * n + k] * want[j * n + k];
        }
      if (bad >= 0) f[n * n - 1] = wrong[bad];
      CHECK(pni_factorise(&watch, n, f) == (bad < 0));
      for (int i = 0; i < n * n && bad < 0; i++) CHECK(i % n > i / n || fabs(f[i] - want[i]) < 1e-10);
    }
  pn_context_close(c);
}

/* ---- whole samplers ---- */

static pn_status host(void *data, const double *z, double *log_density, double *gradient) {
  const law *g = data;
  *log_density = 0;
  for (int i = 0; i < g->n; i++) {
    gradient[i] = 0;
    for (int j = 0; j < g->n; j++) gradient[i] -= covariance(g, i, j, true) * z[j];
    *log_density += z[i] * gradient[i] / 2;
  }
  return PN_OK;
}

/* Two hills, 40 apart, with nothing between. */
static pn_status hills(void *data, const double *z, double *log_density, double *gradient) {
  (void)data;
  double d = *z > 0 ? *z - 20 : *z + 20;
  *log_density = -d * d / 2;
  *gradient = -d;
  return PN_OK;
}

/* A host's function is adapted to as a plan is, and a chain takes few leapfrogs after it. */
static void of_a_host(void) {
  law g = make_law(6, 1e-3, 1e3, 1e4);
  for (int kind = PN_METRIC_LOW_RANK; kind <= PN_METRIC_DENSE; kind++) {
    pn_context *c = pn_context_new(&(pn_context_config){.seed = 6, .threads = 1});
    pn_target *t = pn_target_of_function(c, g.n, host, &g);
    pn_sampler *s =
        pn_target_sampler(c, t, &(pn_sampler_config){.chains = 2, .draws = 200, .metric = kind}, NULL, NULL);
    CHECK_STATUS(c, pn_sampler_run(c, s, 100000), PN_OK);
    CHECK(pn_sampler_finished(s) && pn_sampler_warmup(s) % 300 == 0);
    size_t mark = pn_scope_open(c);
    const double *m = pn_tensor_data(pn_sampler_metric(c, s)), *row = pn_tensor_data(pn_sampler_statistics(c, s));
    for (int k = 0; kind == PN_METRIC_DENSE && k < 2 * 36; k++) {
      int i = k % 36 / 6, j = k % 6;
      double unit = sqrt(covariance(&g, i, i, false) * covariance(&g, j, j, false));
      CHECK(fabs(m[k] - covariance(&g, i, j, false)) < 1e-4 * unit);
    }
    double leapfrogs = 0;
    for (int k = 0; k < 400; k++) leapfrogs += row[7 * k + 4] / 400;
    CHECK(leapfrogs < 8);
    CHECK(pn_sampler_gradients(s) > (int64_t)(400 * leapfrogs) + 600);
    pn_scope_close(c, mark);
    pn_sampler_free(s);
    pn_target_free(t);
    pn_context_close(c);
  }
}

static int warmup_of(double apart, int asked, int block, int schedule) {
  pn_context *c = pn_context_new(&(pn_context_config){.seed = 7, .threads = 1});
  size_t mark = pn_scope_open(c);
  pn_target *t = pn_target_of_function(c, 1, hills, NULL);
  double start[2] = {20, apart};
  const pn_sampler_config config = {.chains = 2, .warmup = asked, .draws = 10, .schedule = schedule};
  pn_sampler *s =
      pn_target_sampler(c, t, &config, pn_from_data(c, PN_FLOAT64, 2, (const int64_t[]){2, 1}, start), NULL);
  while (!pn_sampler_finished(s) && pn_sampler_run(c, s, block) == PN_OK) {
  }
  int warmup = pn_sampler_warmup(s);
  CHECK_INT(pn_sampler_iteration(s), warmup + 10);
  CHECK_INT(pn_tensor_shape(pn_sampler_draws(c, s))[1], 10);
  pn_scope_close(c, mark);
  pn_sampler_free(s);
  pn_target_free(t);
  pn_context_close(c);
  return warmup;
}

static void length(void) {
  CHECK_INT(warmup_of(20, 0, 100000, 0), 300);
  CHECK_INT(warmup_of(-20, 0, 100000, 0), 1200); /* chains that never agree: four times as long, no more */
  CHECK_INT(warmup_of(-20, 0, 7, 0), 1200);
  CHECK_INT(warmup_of(-20, 77, 100000, 0), 77); /* what is asked for */
  CHECK_INT(warmup_of(-20, -1, 100000, 0), 0);
  CHECK_INT(warmup_of(-20, 0, 100000, PN_SCHEDULE_STAN), 1000); /* laid out beforehand */
}

/* Variances that take the place of a dense estimate leave nothing of it. */
static void diagonal_again(void) {
  enum { N = 5 };
  double memory[2 * N * N], variance[N] = {0.25, 1, 4, 9, 2.25};
  pni_metric m;
  pni_metric_start(&m, N, PN_METRIC_DENSE, memory);
  for (int i = 0; i < 2 * N * N; i++) memory[i] = 7;
  pni_metric_set_diagonal(&m, variance);
  for (int i = 0; i < N * N; i++) {
    double own = i % (N + 1) ? 0 : variance[i / N];
    CHECK(m.inverse[i] == own && m.factor[i] == sqrt(own));
  }
}

int main(void) {
  diagonal_again();
  geometric_mean();
  gaussians();
  rank_deficient();
  noise();
  does_not_move();
  far_out();
  momenta();
  directions();
  dense_product();
  for (int n = 1; n <= 6; n++)
    for (int draws = n > 2 ? n - 1 : 2; draws <= n + 4; draws++) dense_by_loops(n, draws);
  dense_by_loops(5, 40);
  dense_of_stan(1, 9);
  dense_of_stan(3, 12);
  dense_of_stan(6, 40);
  static const int sizes[][2] = {{1, 30}, {2, 12}, {6, 60}, {6, 300}, {40, 24}, {20, 30}, {21, 30}, {19, 30}, {18, 30}};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    for (int which = 0; which < 2; which++)
      low_rank_by_loops(sizes[k][0], sizes[k][1], which ? PN_ESTIMATOR_STAN : PN_ESTIMATOR_FISHER);
  for (int estimator = PN_ESTIMATOR_FISHER; estimator <= PN_ESTIMATOR_STAN; estimator++) {
    diagonals(PN_METRIC_DIAGONAL, estimator);
    diagonals(PN_METRIC_LOW_RANK, estimator);
    stays(PN_METRIC_LOW_RANK, estimator);
    stays(PN_METRIC_DENSE, estimator);
    most_directions(estimator);
  }
  one_stands_still();
  directions_of_two();
  factors();
  of_a_host();
  length();
  CHECK_DONE();
}
