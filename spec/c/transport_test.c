/*
** transport_test.c: the network simplex method: its tree carries what is to be moved, is strongly feasible (every sink
** has flow), and its potentials prove that nothing is cheaper. Whole masses and costs, so that flows are exact and many
** arcs are equally good; costs of a matrix and of a grid. Plans and distances of batches, against it and each other.
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

/* ---- plans and distances of batches ---- */

static void shares(double *w, int64_t n, double *out) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += w[i];
  for (int64_t i = 0; i < n; i++) out[i] = w[i] / sum;
}

/* The least cost of moving equal masses one to one, by all orders. */
static double by_orders(const double *cost, int n, int used, int i) {
  double best = i == n ? 0 : INFINITY;
  for (int j = 0; j < n && i < n; j++)
    if (!(used >> j & 1)) best = fmin(best, cost[i * n + j] + by_orders(cost, n, used | 1 << j, i + 1));
  return best;
}

enum { ITEMS = 19, N = 5, M = 7, ROWS = 3, COLUMNS = 4, PIXELS = ROWS * COLUMNS };

/* Plans carry the shares and are no dearer than the simplex method finds them for the places that have mass; of equal
 * masses, than any order. Places without mass take no part. */
static void plans(pn_context *c, pn_dtype dtype) {
  static double cost[ITEMS][N][M], a[ITEMS][N], b[ITEMS][M], got[ITEMS][N][M];
  double bound = dtype == PN_FLOAT64 ? 1e-12 : 1e-6;
  size_t mark = pn_scope_open(c);
  for (int q = 0; q < ITEMS; q++) {
    for (int i = 0; i < N; i++) a[q][i] = q % 3 == 1 && i == q % N ? 0 : (double)(1 + below(9)) / 4;
    for (int j = 0; j < M; j++) b[q][j] = q % 4 == 1 && j % 3 == 1 ? 0 : (double)(1 + below(9));
    for (int i = 0; i < N; i++)
      for (int j = 0; j < M; j++) cost[q][i][j] = (double)below(1000) / 64 - (q == 2 ? 100 : 3);
  }
  int64_t of_cost[] = {ITEMS, N, M}, of_a[] = {ITEMS, N}, of_b[] = {ITEMS, M};
  pn_tensor *x = pn_cast(c, pn_from_data(c, PN_FLOAT64, 3, of_cost, cost), dtype);
  pn_tensor *u = pn_cast(c, pn_from_data(c, PN_FLOAT64, 2, of_a, a), dtype);
  pn_tensor *v = pn_cast(c, pn_from_data(c, PN_FLOAT64, 2, of_b, b), dtype);
  CHECK_STATUS(c, pn_tensor_copy_out(c, pn_transport(c, x, u, v), got[0][0], ITEMS * N * M), PN_OK);
  for (int q = 0; q < ITEMS; q++) {
    double from[N], to[M], out[N] = {0}, in[M] = {0}, price = 0, want = 0, matrix[MOST], left[N], right[M];
    int at[N], place[M], n = 0, m = 0;
    shares(a[q], N, from);
    shares(b[q], M, to);
    for (int i = 0; i < N; i++)
      if (from[i] > 0) left[n] = from[i], at[n++] = i;
    for (int j = 0; j < M; j++)
      if (to[j] > 0) right[m] = to[j], place[m++] = j;
    for (int i = 0; i < N; i++)
      for (int j = 0; j < M; j++) {
        CHECK(got[q][i][j] >= 0);
        out[i] += got[q][i][j], in[j] += got[q][i][j], price += got[q][i][j] * cost[q][i][j];
      }
    for (int i = 0; i < N; i++) CHECK(fabs(out[i] - from[i]) < bound);
    for (int j = 0; j < M; j++) CHECK(fabs(in[j] - to[j]) < bound);
    double largest = 0;
    for (int i = 0; i < n; i++)
      for (int j = 0; j < m; j++) {
        matrix[i * m + j] = cost[q][at[i]][place[j]];
        largest = fmax(largest, fabs(matrix[i * m + j]));
      }
    pni_transport p = {.cost = {.matrix = matrix}, .scale = largest};
    pni_watch watch = {.c = c};
    void *memory = malloc(pni_transport_room(n, m));
    pni_transport_place(&p, n, m, memory);
    CHECK(pni_transport_solve(&watch, &p, left, right));
    PNI_TRANSPORT_EACH(&p, k, i, j) want += p.flow[k] * pni_transport_cost(&p, i, j);
    CHECK(fabs(price - want) < 100 * bound);
    free(memory);
  }
  double square[2][36], moved[2][36], weight[12];
  for (int k = 0; k < 72; k++) square[k / 36][k % 36] = (double)(below(100) * (k < 36 ? 1 : 0) + below(50));
  for (int k = 0; k < 12; k++) weight[k] = k < 6 ? 1 : 3;
  pn_tensor *w = pn_cast(c, pn_from_data(c, PN_FLOAT64, 2, (int64_t[]){2, 6}, weight), dtype);
  x = pn_cast(c, pn_from_data(c, PN_FLOAT64, 3, (int64_t[]){2, 6, 6}, square), dtype);
  pn_tensor *turned = pn_transpose(c, pn_contiguous(c, pn_transpose(c, x, 1, 2)), 1, 2);
  for (int strided = 0; strided < 2; strided++) {
    pn_tensor_copy_out(c, pn_transport(c, strided ? turned : x, w, w), moved[0], 72);
    for (int q = 0; q < 2; q++) {
      double price = 0;
      for (int k = 0; k < 36; k++) price += moved[q][k] * square[q][k];
      CHECK(fabs(price - by_orders(square[q], 6, 0, 0) / 6) < 100 * bound);
    }
  }
  pn_scope_close(c, mark);
}

/* The distance of images is the price of a plan between all their pixels; none where one has no mass. */
static void images(pn_context *c, pn_dtype dtype) {
  static double v[2][ITEMS][PIXELS], cost[ITEMS][PIXELS][PIXELS], plan[ITEMS][PIXELS][PIXELS], got[ITEMS];
  double bound = dtype == PN_FLOAT64 ? 1e-12 : 1e-5;
  size_t mark = pn_scope_open(c);
  for (int q = 0; q < ITEMS; q++)
    for (int i = 0; i < PIXELS; i++) {
      v[0][q][i] = (double)below(4), v[1][q][i] = q == 6 ? 3 * v[0][q][i] : (double)below(3) * 2;
      for (int j = 0; j < PIXELS; j++) cost[q][i][j] = hypot(i / COLUMNS - j / COLUMNS, i % COLUMNS - j % COLUMNS);
    }
  pn_tensor *t[2], *flat[2];
  for (int k = 0; k < 2; k++) {
    t[k] = pn_cast(c, pn_from_data(c, PN_FLOAT64, 3, (int64_t[]){ITEMS, ROWS, COLUMNS}, v[k]), dtype);
    flat[k] = pn_reshape(c, t[k], 2, (int64_t[]){ITEMS, PIXELS});
  }
  pn_tensor *x = pn_cast(c, pn_from_data(c, PN_FLOAT64, 3, (int64_t[]){ITEMS, PIXELS, PIXELS}, cost), dtype);
  pn_tensor *moved = pn_transport(c, x, flat[0], flat[1]);
  CHECK_STATUS(c, pn_tensor_copy_out(c, moved, plan[0][0], ITEMS * PIXELS * PIXELS), PN_OK);
  CHECK_STATUS(c, pn_tensor_copy_out(c, pn_image_transport(c, t[0], t[1]), got, ITEMS), PN_OK);
  for (int q = 0; q < ITEMS; q++) {
    double price = 0;
    for (int i = 0; i < PIXELS; i++)
      for (int j = 0; j < PIXELS; j++) price += plan[q][i][j] * cost[q][i][j];
    CHECK(fabs(got[q] - price) < bound);
  }
  CHECK(got[6] < bound);
  static const double bad[] = {-1, NAN, INFINITY};
  for (int k = 0; k < 3; k++) v[k % 2][k][k == 1 ? PIXELS - 1 : k] = bad[k];
  memset(v[0][4], 0, sizeof v[0][4]);
  memset(v[1][5], 0, sizeof v[1][5]);
  for (int k = 0; k < 2; k++)
    t[k] = pn_cast(c, pn_from_data(c, PN_FLOAT64, 3, (int64_t[]){ITEMS, ROWS, COLUMNS}, v[k]), dtype);
  double after[ITEMS];
  CHECK_STATUS(c, pn_tensor_copy_out(c, pn_image_transport(c, t[0], t[1]), after, ITEMS), PN_OK);
  for (int q = 0; q < ITEMS; q++) CHECK_NEAR(after[q], q < 3 || q == 4 || q == 5 ? NAN : got[q], 0);
  pn_scope_close(c, mark);
}

static void refusals(pn_context *c) {
  size_t mark = pn_scope_open(c);
  static const int64_t shapes[][3][3] = {{{2, 3, 4}, {1, 3}, {2, 4}},
                                         {{2, 3, 4}, {2, 3}, {1, 4}},
                                         {{2, 3, 4}, {2, 4}, {2, 4}},
                                         {{2, 3, 4}, {2, 3}, {2, 3}}};
  for (int k = 0; k < 4; k++) {
    pn_tensor *t[3];
    for (int i = 0; i < 3; i++) t[i] = pn_full(c, PN_FLOAT64, i ? 2 : 3, shapes[k][i], 1);
    CHECK(!pn_transport(c, t[0], t[1], t[2]));
    CHECK_FAIL(c, PN_SHAPE, "transport: cost must be [B, n, m], a [B, n] and b [B, m], got [2, 3, 4], [");
  }
  pn_tensor *cost = pn_full(c, PN_FLOAT64, 3, (int64_t[]){2, 3, 4}, 1),
            *a = pn_full(c, PN_FLOAT64, 2, (int64_t[]){2, 3}, 1);
  pn_tensor *b = pn_full(c, PN_FLOAT64, 2, (int64_t[]){2, 4}, 1), *one = pn_full(c, PN_FLOAT64, 1, (int64_t[]){4}, 1);
  CHECK(!pn_transport(c, a, a, b) && pn_context_status(c) == PN_SHAPE);
  pn_context_clear_error(c);
  CHECK(!pn_transport(c, cost, one, b) && pn_context_status(c) == PN_SHAPE);
  pn_context_clear_error(c);
  CHECK(!pn_transport(c, cost, a, one) && pn_context_status(c) == PN_SHAPE);
  pn_context_clear_error(c);
  CHECK(!pn_image_transport(c, cost, a));
  CHECK_FAIL(c, PN_SHAPE, "image_transport: images must be [B, rows, columns] of one shape, got [2, 3, 4] and [2, 3]");
  for (int k = 0; k < 3; k++) {
    int64_t size[3] = {2, 3, 4};
    size[k]++;
    CHECK(!pn_image_transport(c, cost, pn_zeros(c, PN_FLOAT64, 3, size)));
    CHECK_FAIL(c, PN_SHAPE, "image_transport: images must be [B, rows, columns] of one shape, got [2, 3, 4] and");
  }
  pn_tensor *thin = pn_zeros(c, PN_FLOAT64, 3, (int64_t[]){2, 0, 4}),
            *none = pn_zeros(c, PN_FLOAT64, 3, (int64_t[]){0, 3, 4});
  CHECK(!pn_image_transport(c, thin, thin));
  CHECK_FAIL(c, PN_SHAPE, "image_transport: images must be");
  CHECK(pn_tensor_numel(pn_image_transport(c, none, none)) == 0);
  /* the first item that has no plan is named, of however many */
  for (int bad = 1; bad <= 12; bad++)
    for (int kind = 0; kind < 6; kind++) {
      double x[12][2][2], u[12][2], v[12][2];
      for (int q = 0; q < 12; q++)
        for (int i = 0; i < 2; i++) {
          u[q][i] = v[q][i] = 1;
          for (int j = 0; j < 2; j++) x[q][i][j] = i + j;
        }
      for (int q = bad - 1; q < 12; q += 2) {
        if (kind == 0) u[q][1] = -1e-9;
        if (kind == 1) v[q][0] = NAN;
        if (kind == 2) u[q][0] = u[q][1] = 0;
        if (kind == 3) v[q][0] = v[q][1] = 0;
        if (kind == 4) x[q][1][1] = INFINITY;
        if (kind == 5) x[q][0][1] = NAN;
      }
      char text[128];
      snprintf(text, sizeof text, "with a sum above 0 and costs finite: item %d is not", bad);
      CHECK(!pn_transport(c, pn_from_data(c, PN_FLOAT64, 3, (int64_t[]){12, 2, 2}, x),
                          pn_from_data(c, PN_FLOAT64, 2, (int64_t[]){12, 2}, u),
                          pn_from_data(c, PN_FLOAT64, 2, (int64_t[]){12, 2}, v)));
      CHECK_FAIL(c, PN_DOMAIN, text);
    }
  pn_scope_close(c, mark);
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
  for (int threads = 1; threads <= 2; threads++) {
    c = pn_context_new(&(pn_context_config){.threads = threads});
    plans(c, PN_FLOAT64);
    plans(c, PN_FLOAT32);
    images(c, PN_FLOAT64);
    images(c, PN_FLOAT32);
    refusals(c);
    CHECK_STATUS(c, pn_context_status(c), PN_OK);
    CHECK_INT(pn_context_objects(c), 0);
    pn_context_close(c);
  }
  CHECK_DONE();
}
