/*
** metric_estimate.c: mass matrices from draws x and scores a = grad log p(x).
**
** "fisher": the M^-1 that minimises the Fisher divergence between the draws and a normal law (Seyboldt, Carlson &
** Carpenter 2026): diagonal sqrt(Var x / Var a); dense A # B^-1 of the covariances A of x, B of a; low rank
** diag(s) [I + U^T (L - I) U] diag(s) with s = (Var x / Var a)^(1/4) and the eigenvectors of A # B^-1 of x / s and a s,
** found in the span of two thirds of the draws. One is kept where its eigenvalue is above 2 or below 1/2 and it brings
** the divergence of the other third down, so that noise makes no directions.
** "stan": the covariance of the draws, n / (n + 5) of it and 5 / (n + 5) of a thousandth of its diagonal. Stan adds
** 0.001 itself in place of the latter, which is too much for variances below it.
*/
#include <cblas.h>
#include <math.h>
#include <string.h>
#include "../../tensor/lapack/lapack.h"
#include "geometric_mean.h"
#include "metric_estimate.h"

enum { STRIP = 512, HELD = 3 }; /* coordinates at a time; every third draw is held out */

static const double LEAST = 1e-20, MOST = 1e20, RIDGE = 1e-11, CUT = 2;

static int64_t train_rows(int warmup) {
  int64_t kept = warmup < PNI_KEPT_DRAWS ? warmup : PNI_KEPT_DRAWS;
  return 2 * (kept - kept / HELD + 1);
}

/* ---- memory ---- */

static void eigen_room(int64_t order, int64_t *nwork, int64_t *niwork) {
  pni_lapack_f64.eigh_work((int)order, (int)order, nwork, niwork);
}

static int64_t order_of(int64_t n, int metric, int warmup) {
  return metric == PN_METRIC_LOW_RANK && n > train_rows(warmup) ? train_rows(warmup) : n;
}

int64_t pni_estimate_room(int64_t n, int metric, int estimator, int warmup) {
  int64_t order = order_of(n, metric, warmup), square = pni_times(order, order), nwork, niwork;
  if (metric == PN_METRIC_DENSE && estimator == PN_ESTIMATOR_FISHER)
    return pni_plus(n, pni_plus(pni_times(2, square), pni_geometric_mean_room(n)));
  if (metric != PN_METRIC_LOW_RANK) return n;
  eigen_room(order, &nwork, &niwork);
  int64_t rows = train_rows(warmup), most = pni_metric_most(n), wide = n < STRIP ? n : STRIP;
  int64_t inner = pni_plus(pni_times(3, square), pni_geometric_mean_room(order));
  int64_t few = (most + wide) * rows + 2 * most * rows + 2 * order + nwork + niwork;
  return pni_plus(pni_plus(pni_times(n, most + 2), inner), few);
}

void pni_estimate_start(pni_estimate *e, int64_t n, int metric, int estimator, int warmup, double *memory) {
  *e = (pni_estimate){.estimator = estimator, .n = n, .order = order_of(n, metric, warmup), .work = memory};
  if (metric != PN_METRIC_LOW_RANK) return;
  eigen_room(e->order, &e->nwork, &e->niwork);
  e->eigen = memory;
  e->ieigen = (int *)(void *)(memory + e->nwork);
  e->work = memory + e->nwork + e->niwork;
}

/* ---- diagonal ---- */

static double clamped(double v, double otherwise) {
  return !(v > 0 && v < INFINITY) ? otherwise : v < LEAST ? LEAST : v > MOST ? MOST : v;
}

/* Diagonals of M^-1 [n], `before` where the window has none. */
static void variances(const pni_estimate *e, const pni_window_sums *s, const double *before, int64_t stride,
                      double *out) {
  double count = (double)s->count, share = (count + 5e-3) / (count + 5);
  for (int64_t i = 0; i < e->n; i++) {
    double v = e->estimator == PN_ESTIMATOR_STAN ? share * s->square_x[i] / (count - 1)
                                                 : sqrt(s->square_x[i] / s->square_a[i]);
    out[i] = clamped(v, before[i * stride]);
  }
}

/* ---- dense ---- */

/* Stan's, into m->factor and then m->inverse. */
static void dense_covariance(pni_watch *watch, const pni_window_sums *s, pni_metric *m) {
  int64_t n = m->n;
  double count = (double)s->count, share = count / (count + 5) / (count - 1),
         floor = 1e-3 * 5 / (count + 5) / (count - 1);
#define ELEMENT(i, j) (share * s->product_x[(i)*n + (j)] + ((i) == (j) ? floor * s->product_x[(i)*n + (i)] : 0))
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) m->factor[i * n + j] = ELEMENT(i, j);
  if (pni_factorise(watch, n, m->factor)) {
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j <= i; j++) m->inverse[i * n + j] = m->inverse[j * n + i] = ELEMENT(i, j);
  } else if (!watch->left) { /* as it was; else it is done again */
    memcpy(m->factor, m->inverse, (size_t)(n * n) * sizeof *m->factor);
    pni_factorise(watch, n, m->factor);
  }
#undef ELEMENT
}

/* Sums of products about the means as means, in units of s, or of 1 / s for scores, with a ridge. */
static void scaled(int64_t n, const double *product, double count, double ridge, const double *s, bool scores,
                   double *out) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) {
      double unit = scores ? s[i] * s[j] : 1 / s[i] / s[j];
      out[i * n + j] = out[j * n + i] = product[i * n + j] * unit / count + (i == j ? ridge : 0);
    }
}

static void dense_fisher(pni_estimate *e, pni_watch *watch, const pni_window_sums *s, pni_metric *m) {
  int64_t n = m->n;
  double *scale = e->work, *a = scale + n, *b = a + n * n, *work = b + n * n, count = (double)s->count;
  double ridge = s->count > n + 1 ? RIDGE : 1 / count;
  variances(e, s, m->inverse, n + 1, scale);
  for (int64_t i = 0; i < n; i++) scale[i] = sqrt(scale[i]);
  scaled(n, s->product_x, count, ridge, scale, false, a);
  scaled(n, s->product_a, count, ridge, scale, true, b);
  if (!pni_geometric_mean(watch, n, a, b, work)) return;
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) b[i * n + j] = a[i * n + j] *= scale[i] * scale[j];
  if (!pni_factorise(watch, n, b)) return;
  memcpy(m->inverse, a, (size_t)(n * n) * sizeof *a);
  memcpy(m->factor, b, (size_t)(n * n) * sizeof *b);
}

/* ---- low rank ---- */

/* What is worked with, and where it lies in e->work. */
typedef struct {
  const pni_window *w;
  int64_t n, first, last;              /* draws first .. last - 1 */
  int64_t train, held;                 /* how many of them */
  int64_t rows;                        /* of the training set: draws, and scores after them */
  int64_t order;                       /* of the space in which directions are looked for */
  bool scores, whole;                  /* whole: it is that of all coordinates */
  double *inverse, *scale, *direction; /* [n], [n], [most, n] */
  double *strip;                       /* [rows, STRIP] */
  double *a, *b, *basis, *mean_work;   /* [order, order] */
  double *coefficient, *held_out;      /* [most, rows], [most, 2 held] */
  double *value, *stretch;             /* [order] */
} search;

static bool is_held(int64_t k) { return k % HELD == HELD - 1; }

static search plan_search(pni_estimate *e, const pni_window *w, const pni_metric *m) {
  int64_t count = w->fore->count < w->keep ? w->fore->count : w->keep, n = e->n;
  search q = {.w = w, .n = n, .first = w->added - count, .last = w->added, .scores = w->scores};
  for (int64_t k = q.first; k < q.last; k++) *(is_held(k) ? &q.held : &q.train) += 1;
  q.rows = q.scores ? 2 * q.train : q.train;
  q.whole = n <= q.rows && n <= e->order;
  q.order = q.whole ? n : q.rows;
  int64_t square = e->order * e->order;
  double *at = e->work;
  q.inverse = at;
  q.scale = q.inverse + n;
  q.direction = q.scale + n;
  q.a = q.direction + m->most * n;
  q.b = q.a + square;
  q.basis = q.b + square;
  q.mean_work = q.basis + square;
  q.value = q.mean_work + pni_geometric_mean_room(e->order);
  q.stretch = q.value + e->order;
  q.coefficient = q.stretch + e->order;
  q.held_out = q.coefficient + m->most * q.rows;
  q.strip = q.held_out + m->most * (q.scores ? 2 : 1) * q.held;
  return q;
}

/* Deviations of coordinates from .. from + wide - 1, in units of the scale: draws, then scores. Rows filled. */
static int64_t load_strip(const search *q, bool held, int64_t from, int64_t wide) {
  int64_t rows = 0;
  for (int s = 0; s < (q->scores ? 2 : 1); s++)
    for (int64_t k = q->first; k < q->last; k++) {
      if (is_held(k) != held) continue;
      const double *x = (s ? q->w->score : q->w->draw) + k % q->w->keep * q->n;
      const double *mean = s ? q->w->fore->mean_a : q->w->fore->mean_x;
      double *to = q->strip + rows++ * wide;
      for (int64_t i = 0; i < wide; i++) {
        double d = x[from + i] - mean[from + i];
        to[i] = s ? d * q->scale[from + i] : d / q->scale[from + i];
      }
    }
  return rows;
}

/* c [m, n] (+)= op(a) op(b) with inner size k, all dense. */
static void multiply(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const double *a, const double *b, double beta,
                     double *c) {
  cblas_dgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, 1,
              a, (int)(ta ? m : k), b, (int)(tb ? k : n), beta, c, (int)n);
}

static bool eigen(pni_estimate *e, int64_t n, const double *a, double *values, double *vectors) {
  pni_matrix x = {a, n, n, n, 1};
  return pni_lapack_f64.finite(x, 0) &&
         pni_lapack_f64.eigh(x, values, vectors, e->eigen, e->ieigen, e->nwork, e->niwork) == 0;
}

/* For each strip of coordinates. */
#define STRIPS(q, from, wide)                                                                                          \
  for (int64_t from = 0, wide = q->n < STRIP ? q->n : STRIP; from < q->n;                                              \
       from += wide, wide = q->n - from < STRIP ? q->n - from : STRIP)

/* Mean products of draws (a) and of scores (b) in an orthonormal basis of the space: all coordinates, or, by the Gram
 * matrix K = V D V^T of the rows, D^-1/2 V^T times the rows. */
static bool products(search *q, pni_estimate *e, pni_watch *watch) {
  int64_t t = q->train, r = q->rows;
  if (q->whole) {
    load_strip(q, false, 0, q->n); /* n is below STRIP */
    multiply(true, false, q->n, q->n, t, q->strip, q->strip, 0, q->a);
    if (q->scores) multiply(true, false, q->n, q->n, t, q->strip + t * q->n, q->strip + t * q->n, 0, q->b);
  } else {
    memset(q->a, 0, (size_t)(r * r) * sizeof *q->a);
    STRIPS(q, from, wide) {
      if (pni_watch_leaves(watch, r * r * wide / 4 + 8)) return false;
      load_strip(q, false, from, wide);
      multiply(false, true, r, r, wide, q->strip, q->strip, 1, q->a);
    }
    if (!eigen(e, r, q->a, q->value, q->basis)) return false;
    double most = q->value[r - 1];
    for (int64_t j = 0; j < r; j++) q->value[j] = q->value[j] > 1e-12 * most ? sqrt(q->value[j]) : 0;
    for (int s = 0; s < (q->scores ? 2 : 1); s++) {
      double *to = s ? q->b : q->a;
      const double *v = q->basis + (s ? t * r : 0);
      multiply(true, false, r, r, t, v, v, 0, to);
      for (int64_t i = 0; i < r; i++)
        for (int64_t j = 0; j < r; j++) to[i * r + j] *= q->value[i] * q->value[j];
    }
    for (int64_t i = 0; i < r; i++) /* the basis in terms of rows */
      for (int64_t j = 0; j < r; j++) q->basis[i * r + j] *= q->value[j] > 0 ? 1 / q->value[j] : 0;
  }
  return true;
}

/* a becomes the estimate in the space. Where draws are too few to span it, it is drawn towards the identity by one
 * draw's worth. */
static bool estimate_inside(search *q, pni_watch *watch) {
  double count = (double)q->train, ridge = q->train > q->order + 1 ? RIDGE : 1 / count;
  double share = q->scores ? 1 / count : 1 / (count + 5);
  if (!q->scores) ridge = (q->train > q->order + 1 ? 1e-3 : 1) * 5 / (count + 5);
  for (int64_t i = 0; i < q->order * q->order; i++) q->a[i] *= share;
  for (int64_t i = 0; i < q->order; i++) q->a[i * (q->order + 1)] += ridge;
  if (!q->scores) return true;
  for (int64_t i = 0; i < q->order * q->order; i++) q->b[i] *= share;
  for (int64_t i = 0; i < q->order; i++) q->b[i * (q->order + 1)] += ridge;
  return pni_geometric_mean(watch, q->order, q->a, q->b, q->mean_work);
}

/* Directions (rows, of length 1) of the `most` eigenvalues farthest from 1; how many. */
static int64_t candidates(search *q, pni_watch *watch, int64_t most) {
  int64_t low = 0, high = q->order - 1, count = 0; /* values ascend: the farthest is at one of the ends */
  while (low <= high && count < most) {
    bool upper = fabs(log(q->value[high])) >= fabs(log(q->value[low]));
    int64_t k = upper ? high-- : low++;
    if (!(fabs(log(q->value[k])) > log(CUT))) break;
    q->stretch[count] = q->value[k];
    for (int64_t i = 0; i < q->order; i++) q->coefficient[count * q->order + i] = q->b[i * q->order + k];
    count++;
  }
  if (q->whole) {
    memcpy(q->direction, q->coefficient, (size_t)(count * q->n) * sizeof *q->direction);
    return count;
  }
  multiply(false, true, count, q->rows, q->order, q->coefficient, q->basis, 0, q->mean_work); /* [count, rows] */
  STRIPS(q, from, wide) {
    if (pni_watch_leaves(watch, count * q->rows * wide / 4 + 8)) return 0;
    load_strip(q, false, from, wide);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)count, (int)wide, (int)q->rows, 1, q->mean_work,
                (int)q->rows, q->strip, (int)wide, 0, q->direction + from, (int)q->n);
  }
  return count;
}

/* Does stretching by l bring the held-out draws nearer to a normal law, beyond chance? p: their places along the
 * direction, then those of their scores. The divergence l a^2 + x^2 / l falls where the ratio of the means x^2 / a^2 is
 * beyond l, the negative log density of x alone where x^2 is beyond l log l / (l - 1); beyond by 3 / 2 standard errors
 * of the logarithm. */
static bool agrees(const search *q, double l, const double *p) {
  double x = 0, a = 0, held = (double)q->held;
  for (int64_t k = 0; k < q->held; k++) {
    x += p[k] * p[k] / held;
    if (q->scores) a += p[q->held + k] * p[q->held + k] / held;
  }
  double beyond = q->scores ? log(x / a / l) : log(x * (l - 1) / l / log(l));
  return (l > 1 ? beyond : -beyond) > 1.5 * sqrt((q->scores ? 4 : 2) / held);
}

/* Of `count` candidates those that agree with what was held out, into the metric. */
static bool accept(search *q, pni_watch *watch, int64_t count, pni_metric *m) {
  int64_t held = (q->scores ? 2 : 1) * q->held;
  memset(q->held_out, 0, (size_t)(count * held) * sizeof *q->held_out);
  STRIPS(q, from, wide) {
    if (pni_watch_leaves(watch, count * held * wide / 4 + 8)) return false;
    load_strip(q, true, from, wide);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)count, (int)held, (int)wide, 1, q->direction + from,
                (int)q->n, q->strip, (int)wide, 1, q->held_out, (int)held);
  }
  pni_metric_set_diagonal(m, q->inverse);
  for (int64_t k = 0; k < count; k++) {
    if (!agrees(q, q->stretch[k], q->held_out + k * held)) continue;
    m->stretch[m->rank] = q->stretch[k];
    memcpy(m->direction + m->rank++ * q->n, q->direction + k * q->n, (size_t)q->n * sizeof *q->direction);
  }
  return true;
}

static void low_rank(pni_estimate *e, pni_watch *watch, const pni_window *w, pni_metric *m) {
  search q = plan_search(e, w, m);
  variances(e, w->fore, m->inverse, 1, q.inverse);
  for (int64_t i = 0; i < q.n; i++) q.scale[i] = sqrt(q.inverse[i]);
  int64_t count = 0;
  bool spread = true;
  for (int64_t i = 0; i < q.n; i++) spread &= w->fore->square_x[i] > 0 && (!q.scores || w->fore->square_a[i] > 0);
  if (spread && q.held >= 2 && products(&q, e, watch) && estimate_inside(&q, watch) &&
      eigen(e, q.order, q.a, q.value, q.b))
    count = candidates(&q, watch, m->most);
  if (!watch->left) accept(&q, watch, count, m);
}

/* ---- */

pn_status pni_estimate_metric(pni_estimate *e, pn_context *c, const pni_window *w, pni_metric *m) {
  pni_watch watch = {.c = c};
  if (m->kind == PN_METRIC_LOW_RANK) {
    low_rank(e, &watch, w, m);
  } else if (m->kind != PN_METRIC_DENSE) {
    variances(e, w->fore, m->inverse, 1, e->work);
    pni_metric_set_diagonal(m, e->work);
  } else if (e->estimator == PN_ESTIMATOR_STAN) {
    dense_covariance(&watch, w->fore, m);
  } else {
    dense_fisher(e, &watch, w->fore, m);
  }
  return watch.left ? pni_check_cancel(c) : PN_OK;
}
