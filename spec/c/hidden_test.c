/*
** hidden_test.c: the filter of hidden Markov models in both directions and its gradients, the most probable path and
** draws of paths, by plain loops in long double, difference quotients and all paths: whatever varies with step and
** sequence, blocks of sequences and groups of blocks, states that are impossible or as good as that, both types, other
** strides; and what is refused.
*/
#include "../../src/smc/hidden/hidden_markov.h"
#include "poisoned.h"

typedef long double L;
typedef pn_tensor T;
typedef pn_context C;

enum { STEPS = 4, BATCH = 145, STATES = 4, WIDTH = 2 * STATES + 1 };
enum { PLAIN, SOME_IMPOSSIBLE, FAR_APART, BOTH, KINDS };

/* Logits; strides of 0 where one serves all. */
typedef struct {
  int64_t t, b, k, of_b, rows, of_step; /* of_b: initial, rows: transition by sequence, of_step: by step */
  bool backward;
  double initial[BATCH * STATES], transition[STEPS * BATCH * STATES * STATES], emission[STEPS * BATCH * STATES];
  double weight[STEPS * BATCH * WIDTH];
} model;
static model m;

static uint64_t state = 7;
static double uniform(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)((state >> 33) + 1) / 2147483650.0;
}

static void fill(double *x, int64_t n, int kind, double rare) {
  for (int64_t i = 0; i < n; i++) {
    x[i] = 4 * uniform() - 2 - (kind >= FAR_APART && uniform() < 0.4 ? rare : 0);
    x[i] = kind % 2 && uniform() < 0.15 ? -INFINITY : (double)(float)x[i];
  }
}

static int64_t initials(void) { return m.of_b ? m.b : 1; }
static int64_t matrices(void) { return (m.of_step ? m.t : 1) * (m.rows ? m.b : 1); }

static void make(const int64_t *size, int form, bool backward, int kind) {
  m.t = size[0], m.b = size[1], m.k = size[2], m.backward = backward;
  m.of_b = form & 1, m.rows = form >> 1 & 1, m.of_step = form >> 2 & 1;
  fill(m.initial, initials() * m.k, kind, 800);
  fill(m.transition, matrices() * m.k * m.k, kind, 800);
  fill(m.emission, m.t * m.b * m.k, kind, 2000);
}

/* log p(k at step t | j before), of sequence b. */
static double move(int64_t t, int64_t b, int64_t j, int64_t k) {
  int64_t at = (m.of_step ? t : 0) * (m.rows ? m.b : 1) + (m.rows ? b : 0);
  return m.transition[(at * m.k + j) * m.k + k];
}
static double first(int64_t b, int64_t k) { return m.initial[(m.of_b ? b : 0) * m.k + k]; }
static double seen(int64_t t, int64_t b, int64_t k) { return m.emission[(t * m.b + b) * m.k + k]; }

static L log_sum(const L *x, int64_t n) {
  L top = -INFINITY, sum = 0;
  for (int64_t k = 0; k < n; k++) top = x[k] > top ? x[k] : top;
  for (int64_t k = 0; k < n && top > -INFINITY; k++) sum += expl(x[k] - top);
  return top > -INFINITY ? top + logl(sum) : top;
}

/* The packed rows of sequence b, [t][2 k + 1]. */
static void filtered(int64_t b, L (*row)[WIDTH]) {
  L f[STATES] = {0}, u[STATES], x[STATES];
  for (int64_t s = 0; s < m.t; s++) {
    int64_t t = m.backward ? m.t - 1 - s : s;
    for (int64_t k = 0; k < m.k; k++) {
      for (int64_t j = 0; j < m.k && s > 0; j++) x[j] = f[j] + (m.backward ? move(t + 1, b, k, j) : move(t, b, j, k));
      row[t][k] = s > 0 ? log_sum(x, m.k) : m.backward ? 0 : first(b, k);
      u[k] = row[t][k] + seen(t, b, k);
    }
    L increment = row[t][2 * m.k] = log_sum(u, m.k);
    for (int64_t k = 0; k < m.k; k++) row[t][m.k + k] = f[k] = increment > -INFINITY ? u[k] - increment : -INFINITY;
  }
}

/* The weighted sum of what is finite, of sequence b, or (-1) of all. */
static L weighted(int64_t b) {
  L sum = 0, row[STEPS][WIDTH];
  for (int64_t i = b < 0 ? 0 : b; i < (b < 0 ? m.b : b + 1); i++) {
    filtered(i, row);
    for (int64_t t = 0; t < m.t; t++)
      for (int64_t e = 0; e < 2 * m.k + 1; e++)
        if (row[t][e] > -INFINITY) sum += row[t][e] * (L)m.weight[(t * m.b + i) * (2 * m.k + 1) + e];
  }
  return sum;
}

/* Its derivative in *x, of which sequence b alone depends, or (-1) all. */
static double slope(double *x, int64_t b) {
  double was = *x, high = was + 1e-5, low = was - 1e-5;
  if (was == -INFINITY) return 0;
  *x = high;
  L up = weighted(b);
  *x = low;
  L down = weighted(b);
  *x = was;
  return (double)((up - down) / ((L)high - (L)low));
}

/* ---- values and gradients ---- */

/* The operands as parameters; the emission may have other strides. */
static void operands(C *c, pn_dtype dtype, bool turned, T **in) {
  const int64_t one[] = {initials(), m.k}, emission[] = {m.t, m.b, m.k};
  const int64_t move_shape[] = {m.of_step ? m.t : 1, m.rows ? m.b : 1, m.k, m.k};
  in[0] = pn_param(c, pn_cast(c, pn_from_data(c, PN_FLOAT64, 2, one, m.initial), dtype));
  in[1] = pn_param(c, pn_cast(c, pn_from_data(c, PN_FLOAT64, 4, move_shape, m.transition), dtype));
  in[2] = pn_cast(c, pn_from_data(c, PN_FLOAT64, 3, emission, m.emission), dtype);
  if (turned) in[2] = pn_transpose(c, pn_contiguous(c, pn_transpose(c, in[2], 0, 2)), 0, 2);
  in[2] = pn_param(c, in[2]);
}

static double at(const T *t, int64_t i) { return pni_markov_get(t, i); }

static bool near(double got, double want, double most) { return check_near(got, want, 0) || fabs(got - want) <= most; }

static void values(C *c, const int64_t *size, int form, bool backward, int kind, pn_dtype dtype) {
  size_t mark = pn_scope_open(c);
  double exact = dtype == PN_FLOAT64 ? 1e-12 : 1e-6, slack = dtype == PN_FLOAT64 ? 1e-7
                                                             : kind >= FAR_APART ? 2e-3
                                                                                 : 3e-5;
  T *in[3], *g[3] = {0}, *graph[3] = {0};
  pn_hmm out;
  bool same = true;
  make(size, form, backward, kind);
  operands(c, dtype, form % 3 == 1, in);
  CHECK_STATUS(c, pn_hmm_filter(c, in[0], in[1], in[2], backward, &out), PN_OK);
  T *p = pn_contiguous(c, out.predicted), *f = pn_contiguous(c, out.filtered), *e = pn_contiguous(c, out.increment);
  for (int64_t b = 0; b < m.b; b++) {
    L row[STEPS][WIDTH];
    filtered(b, row);
    for (int64_t t = 0; t < m.t; t++) {
      int64_t i = t * m.b + b, w = i * (2 * m.k + 1);
      for (int64_t k = 0; k < 2 * m.k + 1; k++) {
        double want = (double)row[t][k];
        double got = k < m.k ? at(p, i * m.k + k) : k < 2 * m.k ? at(f, i * m.k + k - m.k) : at(e, i);
        same = same && near(got, want, exact * (1 + fabs(want)));
        m.weight[w + k] = want > -INFINITY ? 2 * uniform() - 0.7 : 0;
      }
    }
  }
  CHECK(same);
  const int64_t packed[] = {m.t, m.b, 2 * m.k + 1};
  T *weight = pn_cast(c, pn_from_data(c, PN_FLOAT64, 3, packed, m.weight), dtype);
  T *rows = pn_concatenate(c, 3, (T *[]){out.predicted, out.filtered, pn_unsqueeze(c, out.increment, -1)}, -1);
  T *low = pn_cast(c, pn_scalar(c, PN_FLOAT64, -INFINITY), dtype),
    *zero = pn_cast(c, pn_scalar(c, PN_FLOAT64, 0), dtype);
  T *finite = pn_where(c, pn_gt(c, rows, low), rows, zero), *sum = pn_sum(c, pn_mul(c, finite, weight), PN_ALL, 0);
  CHECK_STATUS(c, pn_grad(c, sum, 3, in, 1, graph), PN_OK);
  CHECK_STATUS(c, pn_grad(c, sum, 1, &in[2], 0, &g[2]), PN_OK); /* alone, then all of them */
  T *alone = g[2];
  CHECK_STATUS(c, pn_grad(c, sum, 3, in, 0, g), PN_OK);
  for (int k = 0; k < 3; k++) graph[k] = pn_contiguous(c, graph[k]);
  double *x[] = {m.initial, m.transition, m.emission};
  for (int k = 0; same && k < 3; k++)
    for (int64_t i = 0; i < pn_tensor_numel(in[k]); i++) {
      int64_t b = k == 0 ? (m.of_b ? i / m.k : -1) : k == 1 ? (m.rows ? i / (m.k * m.k) % m.b : -1) : i / m.k % m.b;
      if (b > 0 && m.b > 40 && b % 16 > 1 && b < m.b - 2) continue;
      double want = slope(&x[k][i], b), most = slack * (1 + fabs(want));
      same = same && near(at(g[k], i), want, most) && near(at(graph[k], i), want, most);
      same = same && (k < 2 || at(g[k], i) == at(alone, i));
      if (!same) {
        printf("operand %d, %lld: %g, %g for %g\n", k, (long long)i, at(g[k], i), at(graph[k], i), want);
        break;
      }
    }
  if (!same)
    printf("%lld x %lld x %lld, form %d, kind %d\n", (long long)m.t, (long long)m.b, (long long)m.k, form, kind);
  CHECK(same);
  pn_scope_close(c, mark);
}

/* ---- paths ---- */

static double joint(int64_t b, int64_t length, int64_t code) {
  double sum = 0;
  for (int64_t t = 0, before = 0; t < length; t++, code /= m.k) {
    sum += (t ? move(t, b, before, code % m.k) : first(b, code % m.k)) + seen(t, b, code % m.k);
    before = code % m.k;
  }
  return sum;
}

static void viterbi(C *c, const int64_t *size, int form, int kind, pn_dtype dtype) {
  size_t mark = pn_scope_open(c);
  T *in[3];
  int64_t length[BATCH];
  make(size, form, false, kind);
  operands(c, dtype, form % 3 == 1, in);
  for (int64_t b = 0; b < m.b; b++) length[b] = (b * 3 + 1) % (m.t + 1);
  for (int all = 0; all < 2; all++) {
    T *path = pn_hmm_viterbi(c, in[0], in[1], in[2], all ? NULL : pn_from_data(c, PN_INT64, 1, &m.b, length));
    bool same = path && pn_tensor_ndim(path) == 2;
    for (int64_t b = 0; same && b < m.b; b++) {
      int64_t n = all ? m.t : length[b], paths = 1, best = 0;
      for (int64_t t = 0; t < n; t++) paths *= m.k;
      for (int64_t p = 1; p < paths; p++)
        if (joint(b, n, p) > joint(b, n, best)) best = p;
      for (int64_t t = 0; t < m.t; t++, best /= m.k)
        same = same && ((const int64_t *)pni_data(path))[t * m.b + b] == (t < n ? best % m.k : -1);
    }
    CHECK(same);
  }
  pn_scope_close(c, mark);
}

/* Draws by given noise, at its bounds too: the first state whose cumulative weight exceeds the noise's share. */
static void draws(C *c, const int64_t *size, int form, int kind, pn_dtype dtype) {
  enum { DRAWS = 5 };
  static double noise[DRAWS * STEPS * BATCH];
  size_t mark = pn_scope_open(c);
  T *in[3];
  make(size, form, false, kind);
  operands(c, dtype, form % 3 == 1, in);
  const int64_t shape[] = {DRAWS, m.t, m.b};
  for (int64_t i = 0; i < DRAWS * m.t * m.b; i++)
    noise[i] = i % 7 == 3 ? 0 : i % 11 == 3 ? 1 - 1.0 / (1 << 24) : (double)(float)uniform();
  for (int64_t i = 0; i < m.t * m.b; i++) { /* no state is left without a way */
    double *e = m.emission + i * m.k;
    for (int64_t k = 0; k < m.k && kind % 2; k++) e[k] = m.k > 1 && k == i % m.k ? -INFINITY : fmax(e[k], -2);
  }
  for (int64_t i = 0; i < matrices() * m.k * m.k; i++) m.transition[i] = fmax(m.transition[i], -900);
  operands(c, dtype, form % 3 == 1, in);
  T *path = pni_apply(c, &pni_hidden_op_hmm_draw, 3,
                      (T *[]){in[2], in[1], pn_cast(c, pn_from_data(c, PN_FLOAT64, 3, shape, noise), dtype)}, NULL);
  bool same = path && pn_tensor_ndim(path) == 3;
  for (int64_t d = 0; d < DRAWS; d++)
    for (int64_t b = 0; same && b < m.b; b++)
      for (int64_t t = m.t - 1, later = -1; t >= 0; t--) {
        double x[STATES], top = -INFINITY, sum = 0, below = 0, w[STATES];
        int64_t i = (d * m.t + t) * m.b + b, got = ((const int64_t *)pni_data(path))[i], k = 0;
        for (k = 0; k < m.k; k++) top = fmax(top, x[k] = seen(t, b, k) + (later < 0 ? 0 : move(t + 1, b, k, later)));
        for (k = 0; k < m.k; k++) sum += w[k] = exp(x[k] - top);
        for (k = 0; k < m.k; k++)
          if (w[k] > 0 && (below += w[k]) > noise[i] * sum) break;
        same = same && got == k;
        later = k;
      }
  CHECK(same);
  pn_scope_close(c, mark);
}

/* Of equal paths the one of the first states; what has no path is named by its sequence, the first one of several. */
static void edges(C *c) {
  enum { B = 20 };
  const int64_t initial[] = {1, 3}, move_shape[] = {1, 1, 3, 3}, emission[] = {2, B, 3}, noise[] = {2, 2, B};
  size_t mark = pn_scope_open(c);
  double e[2 * B * 3] = {0};
  T *i = pn_zeros(c, PN_FLOAT64, 2, initial), *a = pn_zeros(c, PN_FLOAT64, 4, move_shape);
  T *path = pn_hmm_viterbi(c, i, a, pn_zeros(c, PN_FLOAT64, 3, emission), NULL);
  for (int64_t k = 0; k < 2 * B; k++) CHECK_INT(((const int64_t *)pni_data(path))[k], 0);
  for (int bad = 0; bad < B; bad++)
    for (int kind = 0; kind < 3; kind++) {
      char text[96];
      memset(e, 0, sizeof e);
      for (int b = bad; b < B; b += 2)
        for (int k = 0; k < 3; k++)
          if (kind < 2 || k == 1) e[(B + b) * 3 + k] = kind == 0 ? -INFINITY : NAN;
      T *x = pn_from_data(c, PN_FLOAT64, 3, emission, e);
      snprintf(text, sizeof text, "hmm_viterbi: sequence %d has no path whose probability is a number above 0",
               bad + 1);
      CHECK(!pn_hmm_viterbi(c, i, a, x, NULL));
      CHECK_FAIL(c, PN_DEGENERATE, text);
      snprintf(text, sizeof text, "hmm_draw: sequence %d has no path", bad + 1);
      CHECK(!pni_apply(c, &pni_hidden_op_hmm_draw, 3, (T *[]){x, a, pn_zeros(c, PN_FLOAT64, 3, noise)}, NULL));
      CHECK_FAIL(c, PN_DEGENERATE, text);
    }
  pn_scope_close(c, mark);
}

static T *zeros(C *c, int ndim, int64_t p, int64_t q, int64_t r, int64_t s) {
  return pn_zeros(c, PN_FLOAT64, ndim, (const int64_t[]){p, q, r, s});
}

static void refusals(C *c) {
  size_t mark = pn_scope_open(c);
  T *i = zeros(c, 2, 1, 2, 0, 0), *a = zeros(c, 4, 4, 3, 2, 2), *e = zeros(c, 3, 4, 3, 2, 0), *path;
  pn_hmm out;
  T *emissions[] = {zeros(c, 2, 4, 2, 0, 0), zeros(c, 3, 0, 3, 2, 0), zeros(c, 3, 4, 3, 0, 0), zeros(c, 4, 4, 3, 2, 1)};
  for (int k = 0; k < 4; k++) {
    CHECK(pn_hmm_filter(c, i, a, emissions[k], 0, &out) == PN_SHAPE);
    CHECK_FAIL(c, PN_SHAPE, "hmm_filter: emission must have shape [T, B, K] with at least one step and state, got [");
    if (k == 3) continue;
    CHECK(!pni_apply(c, &pni_hidden_op_hmm_draw, 3, (T *[]){emissions[k], a, e}, NULL));
    CHECK_FAIL(c, PN_SHAPE, "hmm_draw: filtered must have shape [T, B, K] with at least one step and state, got [");
  }
  T *initials[] = {zeros(c, 1, 2, 0, 0, 0), zeros(c, 2, 2, 2, 0, 0), zeros(c, 2, 1, 3, 0, 0), zeros(c, 3, 1, 2, 1, 0)};
  for (int k = 0; k < 4; k++) {
    CHECK(pn_hmm_filter(c, initials[k], a, e, 0, &out) == PN_SHAPE);
    CHECK_FAIL(c, PN_SHAPE, "hmm_filter: initial must have shape [1 or 3, 2], got [");
  }
  T *moves[] = {zeros(c, 3, 4, 2, 2, 0), zeros(c, 4, 3, 3, 2, 2), zeros(c, 4, 4, 2, 2, 2), zeros(c, 4, 4, 3, 3, 2),
                zeros(c, 4, 4, 3, 2, 1)};
  for (int k = 0; k < 5; k++) {
    CHECK(pn_hmm_filter(c, i, moves[k], e, 0, &out) == PN_SHAPE);
    CHECK_FAIL(c, PN_SHAPE, "hmm_filter: transition must have shape [1 or 4, 1 or 3, 2, 2], got [");
    CHECK(!pni_apply(c, &pni_hidden_op_hmm_draw, 3, (T *[]){e, moves[k], zeros(c, 3, 5, 4, 3, 0)}, NULL));
    CHECK_FAIL(c, PN_SHAPE, "hmm_draw: transition must have shape [1 or 4, 1 or 3, 2, 2], got [");
  }
  T *noises[] = {zeros(c, 2, 4, 3, 0, 0), zeros(c, 3, 5, 3, 3, 0), zeros(c, 3, 5, 4, 2, 0)};
  for (int k = 0; k < 3; k++) {
    CHECK(!pni_apply(c, &pni_hidden_op_hmm_draw, 3, (T *[]){e, a, noises[k]}, NULL));
    CHECK_FAIL(c, PN_SHAPE, "hmm_draw: noise must have shape [n, 4, 3], got [");
  }
  for (int k = 0; k < 3; k++) {
    T *in[] = {i, a, e};
    in[k] = pn_cast(c, in[k], k == 2 ? PN_INT64 : PN_FLOAT32);
    CHECK(!pn_hmm_viterbi(c, in[0], in[1], in[2], NULL));
    CHECK_FAIL(c, PN_DTYPE, "hmm_viterbi: initial, transition and emission must be of one float dtype");
  }
  CHECK(!pn_hmm_viterbi(c, i, a, zeros(c, 3, 4, 3, 3, 0), NULL));
  CHECK_FAIL(c, PN_SHAPE, "hmm_viterbi: initial must have shape [1 or 3, 3], got [1, 2]");
  T *lengths[] = {zeros(c, 1, 3, 0, 0, 0), pn_cast(c, zeros(c, 1, 2, 0, 0, 0), PN_INT64),
                  pn_cast(c, zeros(c, 2, 3, 1, 0, 0), PN_INT64)};
  static const char *const got[] = {"float64 [3]", "int64 [2]", "int64 [3, 1]"};
  for (int k = 0; k < 3; k++) {
    char text[96];
    CHECK(!pn_hmm_viterbi(c, i, a, e, lengths[k]));
    snprintf(text, sizeof text, "hmm_viterbi: lengths must be int64 of shape [3], got %s", got[k]);
    CHECK_FAIL(c, PN_SHAPE, text);
  }
  for (int k = 0; k < 4; k++) {
    int64_t length[] = {4, 0, 4};
    length[k % 2 * 2] = k < 2 ? 5 : -1;
    CHECK(!pn_hmm_viterbi(c, i, a, e, pn_from_data(c, PN_INT64, 1, (const int64_t[]){3}, length)));
    CHECK_FAIL(c, PN_DOMAIN, k < 2 ? "hmm_viterbi: lengths must lie between 0 and 4, got 5" : "0 and 4, got -1");
  }
  CHECK((path = pn_hmm_sample(c, NULL, e, a, 0)) && pn_tensor_numel(path) == 0 && pn_tensor_shape(path)[1] == 4);
  CHECK(!pn_hmm_sample(c, NULL, e, a, -1));
  CHECK_FAIL(c, PN_DOMAIN, "hmm_sample: n must be at least 0 and filtered [T, B, K], got -1 and [4, 3, 2]");
  CHECK(!pn_hmm_sample(c, NULL, i, a, 1));
  CHECK_FAIL(c, PN_SHAPE, "hmm_sample: n must be at least 0 and filtered [T, B, K], got 1 and [1, 2]");
  pn_scope_close(c, mark);
}

int main(void) {
  static const int64_t sizes[][3] = {{2, 15, 1}, {1, 3, 2}, {3, 1, 3}, {2, 17, 4}, {4, 16, 2}, {3, BATCH, 2}};
  static poisoned_memory memory = {.fresh = 0xFF}; /* no numbers */
  for (int threads = 1; threads < 3; threads++) {
    C *c = threads == 1 ? pn_context_new(&(pn_context_config){
                              .allocate = poisoned_allocate, .allocator_data = &memory, .threads = 1})
                        : pn_context_new(&(pn_context_config){.threads = threads});
    for (int s = threads == 1 ? 0 : 5; s < 6; s++)
      for (int form = s == 5 ? 4 - threads : 0; form < 8; form += s == 5 ? 4 : 1)
        for (int kind = 0; kind < KINDS; kind += s == 5 ? 3 : 1)
          for (int d = 0; d < 2; d++) {
            pn_dtype dtype = d ? PN_FLOAT32 : PN_FLOAT64;
            for (int backward = 0; backward < 2; backward++) values(c, sizes[s], form, backward, kind, dtype);
            if (kind % 2 == 0) viterbi(c, sizes[s], form, kind, dtype);
            draws(c, sizes[s], form, kind, dtype);
          }
    edges(c);
    refusals(c);
    CHECK_STATUS(c, pn_context_status(c), PN_OK);
    CHECK_INT(pn_context_objects(c), 0);
    pn_context_close(c);
  }
  CHECK_INT(poisoned_end(&memory), 0);
  CHECK_DONE();
}
