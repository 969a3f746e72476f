/*
** trajectory_test.c: the no-U-turn trajectory against a plain reconstruction. A density that notes where it is asked
** shows every leapfrog; momenta follow from neighbouring places, and the tests of U-turns and what is told of the
** energies are made anew on the list of all points. Numbers of a chain are those of its stream; where steps are looked
** for.
*/
#include <string.h>
#include "check.h"
#include "../../src/infer/sampling/hamiltonian.h"

enum { N = 3, MOST = 256, DEPTH = 6 };

typedef struct {
  int count;
  double z[MOST][N];
} notes;

/* Independent normals with variances 1, 4, 9. */
static double slope(const double *z, int i) { return -z[i] / ((i + 1) * (i + 1)); }

static pn_status noting(void *data, const double *z, double *log_density, double *gradient) {
  notes *w = data;
  memcpy(w->z[w->count++ % MOST], z, sizeof w->z[0]);
  *log_density = 0;
  for (int i = 0; i < N; i++) {
    gradient[i] = slope(z, i);
    *log_density += z[i] * gradient[i] / 2;
  }
  return PN_OK;
}

static const double inverse[N] = {0.8, 1.3, 0.6};

typedef struct {
  double z[N], p[N];
} place;

/* Do the ends of a .. b, in time, move apart by the sum of the momenta of from .. to? */
static bool apart(const place *a, const place *b, const place *from, const place *to) {
  double first = 0, last = 0;
  for (int i = 0; i < N; i++) {
    double rho = 0;
    for (const place *q = from; q <= to; q++) rho += q->p[i];
    first += inverse[i] * a->p[i] * rho;
    last += inverse[i] * b->p[i] * rho;
  }
  return first > 0 && last > 0;
}

/* The tests of a whole of two halves of n points each, the first at x. */
static bool joins(const place *x, int n) {
  const place *end = x + 2 * n - 1;
  return apart(x, end, x, end) && apart(x, x + n, x, x + n) && apart(x + n - 1, end, x + n - 1, end);
}

static double kick(double p, double step, const double *z, int i) { return p + step / 2 * slope(z, i); }

/* The place one leapfrog from `from`, if that is z: its momenta follow. */
static bool follows(const place *from, double step, const double *z, place *to) {
  double apart = 0;
  for (int i = 0; i < N; i++) {
    double half = kick(from->p[i], step, from->z, i);
    apart = fmax(apart, fabs(from->z[i] + step * inverse[i] * half - z[i]));
    to->z[i] = z[i];
    to->p[i] = kick(half, step, z, i);
  }
  return apart < 1e-9;
}

typedef struct {
  place point[2 * MOST], *first, *last; /* of the whole, in time */
} path;

/* Up to n of `left` places after one end; how many, those in the order of the run in `ran`. */
static int take(path *w, const double (*z)[N], int left, int n, double step, place *ran) {
  place next;
  bool forwards = follows(w->last, step, z[0], &next);
  int m = left < n ? left : n;
  for (int k = 0; k < m; k++) {
    place *from = forwards ? w->last : w->first;
    CHECK(follows(from, forwards ? step : -step, z[k], &ran[k]));
    if (forwards)
      *++w->last = ran[k];
    else
      *--w->first = ran[k];
  }
  return m;
}

/* Is the first whole that turns, among those of neighbouring powers of 2 of the m that ran, the last thing there is? */
static bool straight(const place *ran, int m) {
  for (int k = 1; k <= m; k++)
    for (int size = 2; size <= k && k % size == 0; size *= 2)
      if (!joins(ran + k - size, size / 2)) {
        CHECK_INT(k, m);
        return false;
      }
  return true;
}

static double energy_of(const place *x) {
  double sum = 0;
  for (int i = 0; i < N; i++) sum += inverse[i] * x->p[i] * x->p[i] / 2 - x->z[i] * slope(x->z, i) / 2;
  return sum;
}

/* What is told of the acceptance: means over the m points that ran, before those at the start. */
static void accepted(const place *ran, int m, double start, double *accept, double *symmetric) {
  for (int k = 0; k < m; k++) {
    double up = exp(start - energy_of(&ran[k]));
    *accept += fmin(1, up);
    *symmetric += 2 * fmin(1, up) / (1 + up);
  }
}

/* Goes through the places of one transition from `start` to `now`. Returns the number of doublings. */
static int retrace(const notes *w, const place *start, double step, const pni_transition *t, const double *now) {
  static path whole;
  place ran[MOST];
  bool goes_on = true;
  int depth = 0, seen = 0, full = 0, came = 0;
  double accept = 0, symmetric = 0;
  whole.first = whole.last = whole.point + MOST;
  *whole.first = *start;
  for (; seen < w->count; depth++) {
    int n = 1 << depth, m = take(&whole, w->z + seen, w->count - seen, n, step, ran);
    CHECK(goes_on);
    goes_on = straight(ran, m);
    CHECK(!goes_on || m == n);
    full += goes_on;
    goes_on = goes_on && joins(whole.first, n);
    accepted(ran, m, energy_of(start), &accept, &symmetric);
    seen += m;
  }
  CHECK(!goes_on || depth == DEPTH);
  CHECK_INT(t->depth, full);
  CHECK_NEAR(t->accept, accept / seen, 1e-11);
  CHECK_NEAR(t->symmetric, symmetric / seen, 1e-11);
  CHECK_NEAR(t->energy, energy_of(start), 1e-11);
  for (int k = 0; k < w->count; k++) came += memcmp(w->z[k], now, sizeof w->z[k]) == 0;
  CHECK_INT(came, t->moved);
  CHECK(t->moved || memcmp(start->z, now, sizeof start->z) == 0);
  return depth;
}

/* ---- the stream ---- */

/* Normal numbers and, in batches of eight, uniform ones are taken off a stream one after the other. */
static void stream(void) {
  double room[5 * 5] = {0}, p[5], want[40], seen[40];
  pni_chain h = {.metric = {.n = 5, .inverse = room}, .rng = pni_philox_seed(8)};
  for (int i = 0; i < 5; i++) room[i] = 1. / ((i + 1) * (i + 1));
  for (int round = 0; round < 3; round++) {
    pni_philox at = h.rng;
    pni_chain_refresh(&h, p);
    pni_fill_normal_f64(at.key, at.position, 0, 5, want);
    for (int i = 0; i < 5; i++) CHECK_NEAR(p[i], (i + 1) * want[i], 1e-14);
    at.position += pni_fill_positions(PNI_FILL_NORMAL_F64, 5);
    CHECK(h.rng.key == at.key && h.rng.position == at.position);
    h.left = 0;
    pni_fill_uniform_f64(at.key, at.position, 0, 40, want);
    for (int k = 0; k < 35; k++) {
      int often = 0;
      seen[k] = pni_chain_uniform(&h);
      for (int i = k / 8 * 8; i < k / 8 * 8 + 8; i++) often += seen[k] == want[i];
      for (int i = 0; i < k; i++) often += seen[i] == seen[k];
      CHECK_INT(often, 1);
      CHECK(h.rng.position == at.position + pni_fill_positions(PNI_FILL_UNIFORM_F64, 8) * (uint64_t)(k / 8 + 1));
    }
  }
}

/* ---- a step that one leapfrog is accepted with ---- */

typedef struct {
  double loss, within; /* the log density further than `within` from 0 */
  pn_status answer;
} lip;

static pn_status lipped(void *data, const double *z, double *log_density, double *gradient) {
  const lip *l = data;
  *log_density = fabs(*z) <= l->within ? 0 : -l->loss;
  *gradient = 0;
  return l->answer;
}

/* The step that is found, after how many leapfrogs. */
static double found(double loss, double within, double step, int *tries) {
  double memory[16] = {0};
  lip l = {.loss = loss, .within = within};
  pni_chain h = {.density = {.f = lipped, .data = &l}, .step = step, .rng = pni_philox_seed(5), .work = memory + 8};
  h.c = pn_context_new(&(pn_context_config){.threads = 1});
  h.metric = (pni_metric){.n = 1, .inverse = memory};
  h.at = (pni_point){.z = memory + 1, .gradient = memory + 2};
  h.here = (pni_point){.z = memory + 3, .p = memory + 4, .gradient = memory + 5};
  memory[0] = 1;
  CHECK_STATUS(h.c, pni_chain_reasonable_step(&h), PN_OK);
  *tries = (int)h.gradients;
  step = h.step;
  l.answer = PN_IO;
  h.step = 1;
  CHECK_STATUS(h.c, pni_chain_reasonable_step(&h), PN_IO);
  CHECK(h.step == 1 && h.status == PN_IO);
  pn_context_close(h.c);
  return step;
}

static void steps(void) {
  static const struct {
    double loss, step, want;
    int tries;
  } row[] = {{-1e-9, 1, 0x1p24, 24},                /* accepted however long, as far as 1e7 */
             {+1e-9, 1, 0x1p-100, 100},             /* never: a hundred times */
             {+1e-9, 1e-290, 1e-290 * 0x1p-34, 34}, /* or as far as 1e-300 */
             {-1e-9, 0x1p-90, 0x1p10, 100}};
  int tries;
  for (int k = 0; k < 4; k++) {
    double step = found(row[k].loss - log(0.8), 0, row[k].step, &tries);
    CHECK_INT(tries, row[k].tries);
    CHECK_NEAR(step / row[k].want, 1, 1e-12);
  }
  for (int long_first = 0; long_first < 2; long_first++) { /* the first that is not like those before */
    double from = long_first ? 1e4 : 1e-4, step = found(50, 3, from, &tries);
    CHECK_NEAR(step, from * pow(long_first ? 0.5 : 2, tries - 1), 1e-12);
    CHECK(step > 0.1 && step < 100 && tries > 5);
  }
}

/* ---- trajectories ---- */

int main(void) {
  static notes seen;
  static double memory[N * 1024];
  int often[DEPTH + 1] = {0};
  pn_context *c = pn_context_new(NULL);
  pni_chain h = {.c = c, .density = {.f = noting, .data = &seen}, .max_depth = DEPTH};
  h.rng = pni_philox_seed(3);
  h.metric = (pni_metric){.n = N, .inverse = memory};
  memcpy(memory, inverse, sizeof inverse);
  h.at = (pni_point){.z = memory + N, .gradient = memory + 2 * N};
  h.here = (pni_point){.z = memory + 3 * N, .p = memory + 4 * N, .gradient = memory + 5 * N};
  h.work = memory + 6 * N;
  CHECK(pni_trajectory_room(N, DEPTH) <= (int64_t)(sizeof memory / sizeof *memory) - 6 * N);
  CHECK_STATUS(c, pni_chain_evaluate(&h, &h.at), PN_OK);
  for (int k = 0; k < 3000; k++) {
    static const double step[] = {0.35, 0.8, 1.4};
    h.step = step[k % 3];
    pni_chain before = h;
    pni_transition t;
    place start;
    memcpy(start.z, h.at.z, sizeof start.z);
    pni_chain_refresh(&before, start.p);
    seen.count = 0;
    CHECK_STATUS(c, pni_chain_transition(&h, &t), PN_OK);
    CHECK_INT(t.leapfrogs, seen.count);
    CHECK(!t.divergent);
    often[retrace(&seen, &start, h.step, &t, h.at.z)]++;
  }
  for (int depth = 1; depth < DEPTH; depth++) CHECK(often[depth] > 20);
  stream();
  steps();
  pn_context_close(c);
  CHECK_DONE();
}
