/* markov_lane.c: see markov_lane.h. */
#include <math.h>
#include <string.h>
#include "../../math/vector/vector.h"
#include "markov_lane.h"

static int64_t lanes_of(const pni_markov *m) { return m->batch < PNI_MARKOV_LANES ? m->batch : PNI_MARKOV_LANES; }

/* Matrices side by side in a room. */
static int64_t matrices(const pni_markov *m) { return m->transition->shape[1] == 1 ? 1 : lanes_of(m); }

int64_t pni_markov_room_size(const pni_markov *m) {
  return 2 * m->states * m->states * matrices(m) + 6 * m->states * lanes_of(m);
}

void pni_markov_room_init(pni_markov_room *r, const pni_markov *m, pni_watch *watch, double *memory) {
  int64_t matrix = m->states * m->states * matrices(m), row = m->states * lanes_of(m);
  *r = (pni_markov_room){.m = m, .watch = watch, .loaded = -1};
  r->log_weight = memory;
  r->weight = memory + matrix;
  r->before = r->weight + matrix;
  r->log_before = r->before + row;
  r->sum = r->log_before + row;
  for (int i = 0; i < 3; i++) r->row[i] = r->sum + (i + 1) * row;
}

int64_t pni_markov_blocks(const pni_markov *m) { return (m->batch + PNI_MARKOV_LANES - 1) / PNI_MARKOV_LANES; }

int64_t pni_markov_groups(const pni_markov *m) {
  int64_t n = pni_markov_blocks(m);
  return n < PNI_MARKOV_GROUPS ? n : PNI_MARKOV_GROUPS;
}

void pni_markov_room_enter(pni_markov_room *r, int64_t block) {
  const pni_markov *m = r->m;
  int64_t left = m->batch - block * PNI_MARKOV_LANES;
  r->first = block * PNI_MARKOV_LANES;
  r->lanes = left < PNI_MARKOV_LANES ? left : PNI_MARKOV_LANES;
  bool shared = m->transition->shape[1] == 1;
  r->apart = shared ? 1 : r->lanes;
  if (!shared) r->loaded = -1;
}

static void read_matrix(pni_markov_room *r, int64_t row, int64_t lane) {
  const pni_markov *m = r->m;
  int64_t n = m->states, at = pni_markov_matrix(m, row, r->first + lane);
  double top = -INFINITY;
  for (int64_t j = 0; j < n && !pni_watch_leaves(r->watch, 4 * n); j++)
    for (int64_t k = 0; k < n; k++) {
      double v = pni_markov_get(m->transition, at + (m->backward ? k * n + j : j * n + k));
      r->log_weight[(j * n + k) * r->apart + lane] = v;
      top = v > top ? v : top;
    }
  r->top[lane] = top == -INFINITY ? 0 : top;
}

void pni_markov_load(pni_markov_room *r, int64_t s) {
  int64_t row = pni_markov_row(r->m, s), n = r->m->states;
  if (row == r->loaded) return;
  r->loaded = row;
  for (int64_t lane = 0; lane < r->apart; lane++) read_matrix(r, row, lane);
  for (int64_t j = 0; j < n && !pni_watch_leaves(r->watch, 4 * n * r->apart); j++) {
    double *to = r->weight + j * n * r->apart;
    const double *from = r->log_weight + j * n * r->apart;
    for (int64_t k = 0; k < n; k++)
      for (int64_t lane = 0; lane < r->apart; lane++)
        to[k * r->apart + lane] = from[k * r->apart + lane] - r->top[lane];
    pni_vector_f64(PNI_VECTOR_exp, to, 1, to, n * r->apart);
  }
}

/* sum += a * x, or a[i] * x[i] */
static void add_scaled(double *restrict sum, double a, const double *restrict x, int64_t n) {
  for (int64_t i = 0; i < n; i++) sum[i] += a * x[i];
}
static void add_product(double *restrict sum, const double *restrict a, const double *restrict x, int64_t n) {
  for (int64_t i = 0; i < n; i++) sum[i] += a[i] * x[i];
}

void pni_markov_sums(pni_markov_room *r) {
  int64_t n = r->m->states, lanes = r->lanes;
  memset(r->sum, 0, (size_t)(n * lanes) * sizeof *r->sum);
  for (int64_t j = 0; j < n && !pni_watch_leaves(r->watch, n * lanes); j++) {
    const double *p = r->before + j * lanes, *w = r->weight + j * n * r->apart;
    if (lanes == 1)
      add_scaled(r->sum, p[0], w, n);
    else if (r->apart == 1)
      for (int64_t k = 0; k < n; k++) add_scaled(r->sum + k * lanes, w[k], p, lanes);
    else
      for (int64_t k = 0; k < n; k++) add_product(r->sum + k * lanes, w + k * lanes, p, lanes);
  }
}

double pni_markov_log_sum(const pni_markov_room *r, int64_t k, int64_t lane) {
  int64_t n = r->m->states, own = r->apart == 1 ? 0 : lane;
  double top = -INFINITY, sum = 0;
  if (pni_watch_leaves(r->watch, 16 * n)) return 0;
  for (int64_t j = 0; j < n; j++)
    top = fmax(top, r->log_before[j * r->lanes + lane] + r->log_weight[(j * n + k) * r->apart + own]);
  if (top == -INFINITY) top = 0;
  for (int64_t j = 0; j < n; j++)
    sum += exp(r->log_before[j * r->lanes + lane] + r->log_weight[(j * n + k) * r->apart + own] - top);
  return top + log(sum);
}
