/*
** trajectory_test.c: the no-U-turn trajectory against a plain reconstruction. A density that notes where it is asked
** shows every leapfrog; momenta follow from neighbouring places, and the tests of U-turns are made anew on the list of
** all points.
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

/* Goes through the places of one transition from `start`. Returns the number of doublings. */
static int retrace(const notes *w, const place *start, double step) {
  static path whole;
  place ran[MOST];
  bool goes_on = true;
  int depth = 0, seen = 0;
  whole.first = whole.last = whole.point + MOST;
  *whole.first = *start;
  for (; seen < w->count; depth++) {
    int n = 1 << depth, m = take(&whole, w->z + seen, w->count - seen, n, step, ran);
    CHECK(goes_on);
    goes_on = straight(ran, m);
    CHECK(!goes_on || m == n);
    goes_on = goes_on && joins(whole.first, n);
    seen += m;
  }
  CHECK(!goes_on || depth == DEPTH);
  return depth;
}

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
    often[retrace(&seen, &start, h.step)]++;
  }
  for (int depth = 1; depth < DEPTH; depth++) CHECK(often[depth] > 20);
  pn_context_close(c);
  CHECK_DONE();
}
