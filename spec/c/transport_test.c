/*
** transport_test.c: the network simplex method: its tree carries what is to be moved, is strongly feasible (every sink
** has flow), and its potentials prove that nothing is cheaper. Whole masses and costs, so that flows are exact and many
** arcs are equally good; costs of a matrix and of a grid.
*/
#include <stdlib.h>
#include "check.h"
#include "../../src/infer/transport/transport.h"

enum { MOST = 64, GUARD = 64 };

static uint64_t state = 9;

static int64_t below(int64_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)(state >> 33) % n;
}

/* Masses from 1 to `most` (1: an assignment), of the same sum. */
static void draw_masses(int64_t n, int64_t m, int64_t most, double *a, double *b) {
  double more = 0;
  for (int64_t i = 0; i < n; i++) more += a[i] = (double)(1 + below(most));
  for (int64_t j = 0; j < m; j++) more -= b[j] = (double)(1 + below(most));
  for (int64_t k = 0; more != 0; k++) *(more > 0 ? &b[k % m] : &a[k % n]) += 1, more += more > 0 ? -1 : 1;
}

static void check_solution(const pni_transport *p, const double *a, const double *b) {
  const int64_t n = p->n, m = p->m, root = n + m;
  double out[MOST] = {0}, in[MOST] = {0}, over_root = 0;
  for (int64_t x = 0; x < root; x++) {
    CHECK(p->flow[x] >= 0 && (x < n || p->flow[x] > 0));
    CHECK_INT(p->depth[x], p->depth[p->parent[x]] + 1);
    if (p->parent[x] == root) over_root += p->flow[x];
  }
  PNI_TRANSPORT_EACH(p, x, i, j) {
    out[i] += p->flow[x];
    in[j] += p->flow[x];
    CHECK_NEAR(p->potential[n + j], p->potential[i] + pni_transport_cost(p, i, j), 1e-12);
  }
  for (int64_t i = 0; i < n; i++) CHECK_NEAR(out[i], a[i], 0);
  for (int64_t j = 0; j < m; j++) CHECK_NEAR(in[j], b[j], 0);
  CHECK_NEAR(over_root, 0, 0);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < m; j++)
      CHECK(pni_transport_cost(p, i, j) >= p->potential[n + j] - p->potential[i] - 1e-11 * (1 + p->scale));
}

static void solve(pn_context *c, int64_t n, int64_t m, int64_t masses, const pni_cost *cost, double scale) {
  double a[MOST], b[MOST];
  size_t room = pni_transport_room(n, m);
  char *memory = malloc(room + GUARD);
  memset(memory, 0xE7, room + GUARD);
  pni_transport p = {.cost = *cost, .scale = scale};
  pni_watch watch = {.c = c};
  pni_transport_place(&p, n, m, memory);
  draw_masses(n, m, masses, a, b);
  CHECK(pni_transport_solve(&watch, &p, a, b));
  check_solution(&p, a, b);
  for (int k = 0; k < GUARD; k++) CHECK((unsigned char)memory[room + (size_t)k] == 0xE7);
  free(memory);
}

int main(void) {
  static const int64_t sizes[][2] = {{1, 1}, {1, 7}, {6, 1}, {2, 3}, {5, 5}, {17, 4}, {3, 40}, {40, 40}, {64, 63}};
  static double matrix[MOST * MOST], distance[MOST];
  int32_t source[MOST], sink[MOST];
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1});
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    for (int64_t costs = 1; costs <= 1000; costs *= 10)
      for (int64_t masses = 1; masses <= 5; masses += 4) {
        const int64_t n = sizes[k][0], m = sizes[k][1];
        double most = 0;
        for (int64_t i = 0; i < n * m; i++) most = fmax(most, matrix[i] = (double)below(costs));
        solve(c, n, m, masses, &(pni_cost){.matrix = matrix}, most);
        for (int64_t i = 0; i < MOST; i++) distance[i] = (double)(i / 8 + i % 8); /* a grid of 8 rows of 8 */
        for (int64_t i = 0; i < MOST; i++) source[i] = (int32_t)below(MOST), sink[i] = (int32_t)below(MOST);
        solve(c, n, m, masses, &(pni_cost){.distance = distance, .source = source, .sink = sink, .columns = 8}, 14);
      }
  pni_transport p = {
      .cost = {.distance = distance, .source = source, .sink = sink, .columns = 8}, .n = MOST, .m = MOST};
  for (int64_t i = 0; i < MOST; i++)
    for (int64_t j = 0; j < MOST; j++)
      CHECK_NEAR(pni_transport_cost(&p, i, j), abs(source[i] / 8 - sink[j] / 8) + abs(source[i] % 8 - sink[j] % 8), 0);
  pn_context_close(c);
  CHECK_DONE();
}
