/*
** markov_pass.c: the filter of hidden Markov models and its adjoint. A step of the pass is
**   u[k] = log sum_j f[j] + A[j, k] + e[k],   increment = logsumexp u,   f = u - increment:
** predicted is u - e. With v the gradient of predicted, that of f before is w v with w[j, k] = f[j] + A[j, k] -
** predicted[k] in logarithms, the probability of j before given k, and that of A is w[j, k] v[k].
*/
#include <math.h>
#include <string.h>
#include "../../math/vector/vector.h"
#include "../../base/span.h"
#include "markov_lane.h"

typedef struct {
  const pni_markov *m;
  const pn_tensor *packed, *g; /* of the adjoint */
  pn_tensor *out;
  double *memory; /* rooms */
  double *shared; /* of the adjoint: sums over sequences, `extent` for each group */
  int64_t extent, room;
  int64_t own; /* at the end of a room: matrices of a block where each sequence has its own */
} pass;

/* ---- forward ---- */

/* predicted of step s. */
static void predict(pni_markov_room *r, int64_t s, double *predicted) {
  const pni_markov *m = r->m;
  int64_t n = m->states, lanes = r->lanes;
  if (s == 0) {
    bool own = m->initial->shape[0] > 1;
    for (int64_t k = 0; k < n; k++)
      for (int64_t l = 0; l < lanes; l++)
        predicted[k * lanes + l] = m->backward ? 0 : pni_markov_get(m->initial, (own ? r->first + l : 0) * n + k);
    return;
  }
  pni_markov_load(r, s);
  pni_markov_sums(r);
  pni_vector_f64(PNI_VECTOR_log, r->sum, 1, predicted, n * lanes);
  for (int64_t k = 0; k < n; k++)
    for (int64_t l = 0; l < lanes; l++) {
      int64_t i = k * lanes + l;
      bool exact = r->sum[i] >= PNI_MARKOV_FLOOR && r->sum[i] < INFINITY;
      predicted[i] = exact ? predicted[i] + r->top[r->apart == 1 ? 0 : l] : pni_markov_log_sum(r, k, l);
    }
}

/* From u: log_before, before and the increment of each lane. */
static void normalise(pni_markov_room *r, const double *u, double *scratch, double *increment) {
  int64_t n = r->m->states, lanes = r->lanes;
  double top[PNI_MARKOV_LANES], sum[PNI_MARKOV_LANES];
  for (int64_t l = 0; l < lanes; l++) {
    top[l] = -INFINITY;
    for (int64_t k = 0; k < n; k++) top[l] = u[k * lanes + l] > top[l] ? u[k * lanes + l] : top[l];
    if (top[l] == -INFINITY) top[l] = 0;
    sum[l] = 0;
  }
  for (int64_t k = 0; k < n; k++)
    for (int64_t l = 0; l < lanes; l++) scratch[k * lanes + l] = u[k * lanes + l] - top[l];
  pni_vector_f64(PNI_VECTOR_exp, scratch, 1, r->before, n * lanes);
  for (int64_t k = 0; k < n; k++)
    for (int64_t l = 0; l < lanes; l++) sum[l] += r->before[k * lanes + l];
  for (int64_t l = 0; l < lanes; l++) increment[l] = top[l] + log(sum[l]);
  for (int64_t k = 0; k < n; k++)
    for (int64_t l = 0; l < lanes; l++) {
      int64_t i = k * lanes + l;
      r->before[i] = sum[l] == 0 ? 0 : r->before[i] / sum[l];
      r->log_before[i] = sum[l] == 0 ? -INFINITY : u[i] - increment[l];
    }
}

static void filter_block(const pass *p, pni_markov_room *r) {
  const pni_markov *m = r->m;
  int64_t n = m->states, lanes = r->lanes, width = pni_markov_width(m);
  double *predicted = r->row[0], *u = r->row[1], increment[PNI_MARKOV_LANES];
  for (int64_t s = 0; s < m->steps && !pni_leaves(m->context); s++) {
    int64_t at = pni_markov_time(m, s) * m->batch + r->first;
    predict(r, s, predicted);
    for (int64_t l = 0; l < lanes; l++)
      for (int64_t k = 0; k < n; k++)
        u[k * lanes + l] = predicted[k * lanes + l] + pni_markov_get(m->emission, (at + l) * n + k);
    normalise(r, u, r->row[2], increment);
    for (int64_t l = 0; l < lanes; l++) {
      for (int64_t k = 0; k < n; k++) {
        pni_markov_put(p->out, (at + l) * width + k, predicted[k * lanes + l]);
        pni_markov_put(p->out, (at + l) * width + n + k, r->log_before[k * lanes + l]);
      }
      pni_markov_put(p->out, (at + l) * width + 2 * n, increment[l]);
    }
  }
}

/* ---- adjoint ---- */

/* Where in `out` the gradients of transition and emission begin. */
static int64_t transition_place(const pni_markov *m) { return m->initial->numel; }
static int64_t emission_place(const pni_markov *m) { return m->initial->numel + m->transition->numel; }

/* v = gradient of predicted at step s; `future` that of f from later steps. Stores the emission's. */
static void slopes(const pass *p, pni_markov_room *r, int64_t s, const double *future, double *v) {
  const pni_markov *m = r->m;
  int64_t n = m->states, lanes = r->lanes, width = pni_markov_width(m), t = pni_markov_time(m, s);
  for (int64_t l = 0; l < lanes; l++) {
    int64_t at = t * m->batch + r->first + l, row = at * width;
    double sum = 0, of_increment = pni_markov_get(p->g, row + 2 * n);
    for (int64_t k = 0; k < n; k++) {
      bool dead = pni_markov_get(p->packed, row + n + k) == -INFINITY;
      v[k * lanes + l] = dead ? 0 : future[k * lanes + l] + pni_markov_get(p->g, row + n + k);
      sum += v[k * lanes + l];
    }
    for (int64_t k = 0; k < n; k++) {
      double f = pni_markov_get(p->packed, row + n + k);
      double u = f == -INFINITY ? 0 : v[k * lanes + l] + exp(f) * (of_increment - sum);
      bool possible = pni_markov_get(p->packed, row + k) != -INFINITY;
      pni_markov_put(p->out, emission_place(m) + at * n + k, u);
      v[k * lanes + l] = possible ? u + pni_markov_get(p->g, row + k) : 0;
    }
  }
}

/* The filtered state of step s - 1. */
static void recall(const pass *p, pni_markov_room *r, int64_t s) {
  const pni_markov *m = r->m;
  int64_t n = m->states, width = pni_markov_width(m), at = pni_markov_time(m, s - 1) * m->batch + r->first;
  for (int64_t l = 0; l < r->lanes; l++)
    for (int64_t k = 0; k < n; k++)
      r->log_before[k * r->lanes + l] = pni_markov_get(p->packed, (at + l) * width + n + k);
  pni_vector_f64(PNI_VECTOR_exp, r->log_before, 1, r->before, n * r->lanes);
}

/* A column whose sum is too small: by logarithms. */
static void through_logarithms(const pni_markov_room *r, int64_t k, int64_t l, double v, double *future, double *d) {
  int64_t n = r->m->states, lanes = r->lanes, own = r->apart == 1 ? 0 : l;
  double sum = pni_markov_log_sum(r, k, l);
  if (pni_watch_leaves(r->watch, 16 * n)) return;
  for (int64_t j = 0; j < n; j++) {
    double w = r->log_before[j * lanes + l] + r->log_weight[(j * n + k) * r->apart + own];
    w = w == -INFINITY ? 0 : exp(w - sum) * v;
    future[j * lanes + l] += w;
    d[(j * n + k) * r->apart + own] += w;
  }
}

/* The gradient of f before from v; adds that of the transition to d. `ratio` is scratch. */
static void through_transition(pni_markov_room *r, const double *v, double *ratio, double *future, double *d) {
  int64_t n = r->m->states, lanes = r->lanes;
  pni_markov_sums(r);
  for (int64_t i = 0; i < n * lanes; i++) ratio[i] = r->sum[i] >= PNI_MARKOV_FLOOR ? v[i] / r->sum[i] : 0;
  for (int64_t j = 0; j < n && !pni_watch_leaves(r->watch, 2 * n * lanes); j++) {
    double total[PNI_MARKOV_LANES] = {0};
    const double *before = r->before + j * lanes;
    for (int64_t k = 0; k < n; k++) {
      const double *w = r->weight + (j * n + k) * r->apart, *q = ratio + k * lanes;
      double *dw = d + (j * n + k) * r->apart;
      if (r->apart == 1) {
        double sum = 0;
        for (int64_t l = 0; l < lanes; l++) {
          double x = w[0] * q[l];
          total[l] += x;
          sum += before[l] * x;
        }
        dw[0] += sum;
      } else {
        for (int64_t l = 0; l < lanes; l++) {
          double x = w[l] * q[l];
          total[l] += x;
          dw[l] += before[l] * x;
        }
      }
    }
    for (int64_t l = 0; l < lanes; l++) future[j * lanes + l] = before[l] * total[l];
  }
  for (int64_t k = 0; k < n; k++)
    for (int64_t l = 0; l < lanes; l++)
      if (!(r->sum[k * lanes + l] >= PNI_MARKOV_FLOOR) && v[k * lanes + l] != 0)
        through_logarithms(r, k, l, v[k * lanes + l], future, d);
}

/* Adds a room's d, matrices of transition row `row`, to the gradient of the transition; d becomes zero. */
static void settle(const pass *p, const pni_markov_room *r, int64_t row, double *d) {
  const pni_markov *m = r->m;
  int64_t n = m->states;
  for (int64_t l = 0; l < r->apart; l++) {
    int64_t at = transition_place(m) + pni_markov_matrix(m, row, r->first + l);
    for (int64_t j = 0; j < n && !pni_watch_leaves(r->watch, 4 * n); j++)
      for (int64_t k = 0; k < n; k++) {
        int64_t i = at + (m->backward ? k * n + j : j * n + k);
        pni_markov_put(p->out, i, d[(j * n + k) * r->apart + l]);
      }
  }
  memset(d, 0, (size_t)(n * n * r->apart) * sizeof *d);
}

/* shared: sums of this group over its sequences, first of the initial state, then of the transitions; d: room for the
 * matrices of a block where each sequence has its own. */
static void adjoint_block(const pass *p, pni_markov_room *r, double *shared, double *d) {
  const pni_markov *m = r->m;
  int64_t n = m->states, lanes = r->lanes;
  double *v = r->row[0], *ratio = r->row[1], *future = r->row[2];
  bool apart = m->transition->shape[1] > 1, varying = m->transition->shape[0] > 1;
  memset(future, 0, (size_t)(n * lanes) * sizeof *future);
  memset(d, 0, apart ? (size_t)(n * n * lanes) * sizeof *d : 0);
  for (int64_t s = m->steps - 1; s >= 0 && !pni_leaves(m->context); s--) {
    slopes(p, r, s, future, v);
    if (s == 0) break;
    recall(p, r, s);
    pni_markov_load(r, s);
    int64_t row = pni_markov_row(m, s);
    through_transition(r, v, ratio, future, apart ? d : shared + n + row * n * n);
    if (apart && varying) settle(p, r, row, d);
  }
  if (apart && !varying) settle(p, r, 0, d);
  for (int64_t k = 0; k < n && !m->backward; k++)
    for (int64_t l = 0; l < lanes; l++) {
      if (m->initial->shape[0] > 1)
        pni_markov_put(p->out, (r->first + l) * n + k, v[k * lanes + l]);
      else
        shared[k] += v[k * lanes + l];
    }
}

/* Writes the sums over all groups. */
static void add_groups(pn_context *c, const pass *p) {
  const pni_markov *m = p->m;
  int64_t n = m->states, groups = pni_markov_groups(m);
  for (pni_span s = {0}; pni_next_span(c, p->extent, &s);)
    for (int64_t i = s.begin; i < s.end; i++)
      for (int64_t g = 1; g < groups; g++) p->shared[i] += p->shared[g * p->extent + i];
  for (int64_t k = 0; k < n && m->initial->shape[0] == 1; k++) pni_markov_put(p->out, k, p->shared[k]);
  if (m->transition->shape[1] > 1) return;
  for (pni_span s = {0}; pni_next_span(c, p->extent - n, &s);)
    for (int64_t at = s.begin; at < s.end; at++) {
      int64_t j = at / n % n, k = at % n, row = at / (n * n);
      pni_markov_put(p->out, transition_place(m) + (row * n + (m->backward ? k : j)) * n + (m->backward ? j : k),
                     p->shared[n + at]);
    }
}

/* ---- all sequences ---- */

static void groups_of(void *data, int64_t first, int64_t end) {
  const pass *p = data;
  int64_t blocks = pni_markov_blocks(p->m), groups = pni_markov_groups(p->m);
  for (int64_t g = first; g < end; g++) {
    pni_watch w = {.c = p->m->context};
    pni_markov_room r;
    double *memory = p->memory + g * p->room;
    pni_markov_room_init(&r, p->m, &w, memory);
    for (int64_t b = g * blocks / groups; b < (g + 1) * blocks / groups; b++) {
      pni_markov_room_enter(&r, b);
      if (p->g)
        adjoint_block(p, &r, p->shared + g * p->extent, memory + p->room - p->own);
      else
        filter_block(p, &r);
    }
  }
}

static pn_status run(pn_context *c, pass *p) {
  int64_t groups = pni_markov_groups(p->m), n = p->m->states, varying = p->m->transition->shape[0];
  bool apart = p->m->transition->shape[1] > 1;
  p->own = p->g && apart ? n * n * PNI_MARKOV_LANES : 0;
  p->room = pni_markov_room_size(p->m) + p->own;
  p->extent = n + (apart ? 0 : varying * n * n);
  int64_t count = pni_times(groups, pni_plus(p->room, p->g ? p->extent : 0));
  if (!(p->memory = pni_alloc_array(c, count, sizeof(double)))) return c->status;
  p->shared = p->memory + groups * p->room;
  pn_status s = pni_clear(c, p->shared, p->g ? (size_t)(groups * p->extent) * sizeof(double) : 0);
  if (p->g && s == PN_OK) s = pni_clear(c, pni_data(p->out), (size_t)p->out->numel * pni_itemsize(p->out));
  if (s == PN_OK) s = pni_parallel(c, groups, 1, groups_of, p);
  if (p->g && groups && s == PN_OK) add_groups(c, p);
  pni_free(c, p->memory);
  return pni_check_cancel(c);
}

pn_status pni_markov_filter(pn_context *c, const pni_markov *m, pn_tensor *packed) {
  return run(c, &(pass){.m = m, .out = packed});
}

pn_status pni_markov_adjoint(pn_context *c, const pni_markov *m, const pn_tensor *packed, const pn_tensor *g,
                             pn_tensor *out) {
  return run(c, &(pass){.m = m, .packed = packed, .g = g, .out = out});
}
