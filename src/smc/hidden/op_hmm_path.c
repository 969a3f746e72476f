/*
** op_hmm_path.c: paths of hidden states, 0-based: the most probable one (Viterbi 1967) and draws from the posterior
** (backward sampling: z_T from the last filtered state, then z_t with weight p(z_t | y_1..t) p(z_{t+1} | z_t)).
*/
#include <math.h>
#include <string.h>
#include "../../math/vector/vector.h"
#include "../../base/span.h"
#include "hidden_markov.h"

typedef pn_tensor T;
typedef pn_context C;
enum { INITIAL, TRANSITION, EMISSION, LENGTHS };
enum { FILTERED, NOISE = 2 };

typedef struct {
  pni_markov m;
  const T *lengths, *filtered, *noise;
  T *out;
  int64_t items, groups; /* sequences, or draws of all sequences; dealt to groups */
  double *memory;        /* 2 K for each group */
  int32_t *from;         /* [T, K] for each group: the best state before */
  int64_t *fails;        /* of each group: its first sequence without a path, or -1 */
} job;

/* Steps that a number takes which lies in a line of memory of its own. */
enum { FAR_APART = 8 };

static int64_t first_of(const job *j, int64_t group) { return group * j->items / j->groups; }

/* ---- the most probable path ---- */

/* best[k] of step t from those of the step before; `scratch` likewise. */
static void extend(const job *j, int64_t t, int64_t b, double *best, double *scratch, int32_t *from) {
  const pni_markov *m = &j->m;
  int64_t n = m->states, a = pni_markov_matrix(m, t, b), e = (t * m->batch + b) * n;
  pni_watch w = {.c = m->context};
  for (int64_t k = 0; k < n; k++) {
    if (pni_watch_leaves(&w, FAR_APART * n)) return;
    double top = best[0] + pni_markov_get(m->transition, a + k);
    from[k] = 0;
    for (int64_t i = 1; i < n; i++) {
      double v = best[i] + pni_markov_get(m->transition, a + i * n + k);
      if (v > top || v != v) {
        top = v;
        from[k] = (int32_t)i;
      }
    }
    scratch[k] = top + pni_markov_get(m->emission, e + k);
  }
  memcpy(best, scratch, (size_t)n * sizeof *best);
}

static int64_t length_of(const job *j, int64_t b) {
  return j->lengths ? ((const int64_t *)pni_data(j->lengths))[b] : j->m.steps;
}

/* False if no path has a probability above 0. */
static bool viterbi(const job *j, int64_t b, double *best, int32_t *from) {
  const pni_markov *m = &j->m;
  int64_t n = m->states, length = length_of(j, b), own = m->initial->shape[0] > 1 ? b : 0, last = 0;
  int64_t *path = pni_data(j->out);
  for (int64_t k = 0; k < n; k++)
    best[k] = pni_markov_get(m->initial, own * n + k) + pni_markov_get(m->emission, b * n + k);
  for (int64_t t = 1; t < length; t++) {
    if (pni_leaves(m->context)) return true;
    extend(j, t, b, best, best + n, from + t * n);
    if (pni_has_left(m->context)) return true;
  }
  for (int64_t k = 1; k < n; k++)
    if (best[k] > best[last] || best[k] != best[k]) last = k;
  bool found = length == 0 || (best[last] > -INFINITY && best[last] == best[last]);
  for (int64_t t = m->steps - 1; t >= length; t--) path[t * m->batch + b] = -1;
  for (int64_t t = length - 1; t >= 0; t--) {
    path[t * m->batch + b] = last;
    if (t > 0) last = from[t * n + last];
  }
  return found;
}

static void viterbi_groups(void *data, int64_t first, int64_t end) {
  const job *j = data;
  for (int64_t g = first; g < end; g++)
    for (int64_t b = first_of(j, g); b < first_of(j, g + 1); b++) {
      double *room = j->memory + g * 2 * j->m.states;
      bool found = viterbi(j, b, room, j->from + g * j->m.steps * j->m.states);
      if (!found && j->fails[g] < 0) j->fails[g] = b;
    }
}

/* ---- draws ---- */

/* A place among n with log-weights x, for u uniform on [0, 1); -1 if all weights are 0 or one is NaN. */
static int64_t choose(double *x, double *weight, int64_t n, double u) {
  double top = -INFINITY, sum = 0, below = 0;
  int64_t last = -1;
  for (int64_t k = 0; k < n; k++) top = x[k] > top || x[k] != x[k] ? x[k] : top;
  if (!(top > -INFINITY && top < INFINITY)) return -1;
  for (int64_t k = 0; k < n; k++) x[k] -= top;
  pni_vector_f64(PNI_VECTOR_exp, x, 1, weight, n);
  for (int64_t k = 0; k < n; k++) sum += weight[k];
  for (int64_t k = 0; k < n; k++) {
    if (weight[k] == 0) continue;
    last = k;
    below += weight[k];
    if (below > u * sum) break;
  }
  return last;
}

static bool draw(const job *j, int64_t i, double *x) {
  const pni_markov *m = &j->m;
  int64_t n = m->states, draws = j->items / m->batch, b = i / draws, own = i % draws * m->steps;
  int64_t *path = pni_data(j->out), later = -1;
  pni_watch w = {.c = m->context};
  for (int64_t t = m->steps - 1; t >= 0; t--) {
    if (pni_watch_leaves(&w, FAR_APART * n)) return true;
    int64_t at = (own + t) * m->batch + b, a = later < 0 ? 0 : pni_markov_matrix(m, t + 1, b) + later;
    for (int64_t k = 0; k < n; k++) {
      x[k] = pni_markov_get(j->filtered, (t * m->batch + b) * n + k);
      if (later >= 0) x[k] += pni_markov_get(m->transition, a + k * n);
    }
    path[at] = later = choose(x, x + n, n, pni_markov_get(j->noise, at));
    if (later < 0) return false;
  }
  return true;
}

static void draw_groups(void *data, int64_t first, int64_t end) {
  const job *j = data;
  for (int64_t g = first; g < end; g++)
    for (int64_t i = first_of(j, g); i < first_of(j, g + 1) && !pni_leaves(j->m.context); i++)
      if (!draw(j, i, j->memory + g * 2 * j->m.states) && j->fails[g] < 0) j->fails[g] = i * j->m.batch / j->items;
}

/* ---- all groups ---- */

static pn_status run(C *c, const char *where, job *j, pni_shard body, bool traced) {
  int64_t n = j->groups = j->items < 8 ? j->items : 8, each = traced ? pni_times(j->m.steps, j->m.states) : 0;
  int64_t doubles = pni_times(n, pni_times(2, j->m.states));
  int64_t words = pni_plus(doubles, pni_plus(n, pni_times(n, pni_plus(each, 1) / 2))); /* two of `from` in each */
  if (!(j->memory = pni_alloc_array(c, words, sizeof(double)))) return c->status;
  j->fails = (int64_t *)(j->memory + doubles);
  j->from = (int32_t *)(j->fails + n);
  for (int64_t g = 0; g < n; g++) j->fails[g] = -1;
  pn_status s = pni_parallel(c, n, 1, body, j);
  for (int64_t g = 0; g < n && s == PN_OK && !pni_check_cancel(c); g++)
    if (j->fails[g] >= 0)
      s = pni_fail(c, PN_DEGENERATE, "%s: sequence %lld has no path whose probability is a number above 0", where,
                   (long long)j->fails[g] + 1);
  pni_free(c, j->memory);
  return c->status;
}

static pn_status infer_viterbi(C *c, const pni_call *call, pni_spec *out) {
  char s[PNI_SHAPE_TEXT];
  const pni_call floats = {call->op, call->in, LENGTHS, call->attr};
  for (int k = 0; k < LENGTHS; k++)
    if (!pni_is_float(call->in[k]) || call->in[k]->dtype != call->in[0]->dtype)
      return pni_fail(c, PN_DTYPE, "hmm_viterbi: initial, transition and emission must be of one float dtype");
  if (pni_markov_check(c, "hmm_viterbi", &floats)) return c->status;
  const T *e = call->in[EMISSION], *lengths = call->nin > LENGTHS ? call->in[LENGTHS] : NULL;
  if (lengths && (lengths->dtype != PN_INT64 || lengths->ndim != 1 || lengths->shape[0] != e->shape[1]))
    return pni_fail(c, PN_SHAPE, "hmm_viterbi: lengths must be int64 of shape [%lld], got %s %s",
                    (long long)e->shape[1], pn_dtype_name((pn_dtype)lengths->dtype),
                    pni_shape_text(lengths->ndim, lengths->shape, s));
  *out = (pni_spec){PN_INT64, 2, {e->shape[0], e->shape[1]}};
  return PN_OK;
}

static pn_status run_viterbi(C *c, T *const *in, T *out) {
  job j = {.m = pni_markov_of(c, in, false), .lengths = in[LENGTHS], .out = out, .items = out->shape[1]};
  for (int64_t b = 0; j.lengths && b < j.items; b++)
    if (length_of(&j, b) < 0 || length_of(&j, b) > j.m.steps)
      return pni_fail(c, PN_DOMAIN, "hmm_viterbi: lengths must lie between 0 and %lld, got %lld", (long long)j.m.steps,
                      (long long)length_of(&j, b));
  return run(c, "hmm_viterbi", &j, viterbi_groups, true);
}

static pn_status eval_viterbi(C *c, const pni_call *call, T *out) {
  return pni_recurrent_on_contiguous(c, call, out, run_viterbi);
}

static pn_status infer_draw(C *c, const pni_call *call, pni_spec *out) {
  const T *f = call->in[FILTERED], *u = call->in[NOISE];
  char s[PNI_SHAPE_TEXT];
  if (f->ndim != 3 || f->shape[0] < 1 || f->shape[2] < 1)
    return pni_fail(c, PN_SHAPE,
                    "hmm_draw: filtered must have shape [T, B, K] with at least one step and state, got %s",
                    pni_shape_text(f->ndim, f->shape, s));
  if (pni_markov_check_transition(c, "hmm_draw", call->in[TRANSITION], f->shape[0], f->shape[1], f->shape[2]))
    return c->status;
  if (u->ndim != 3 || u->shape[1] != f->shape[0] || u->shape[2] != f->shape[1])
    return pni_fail(c, PN_SHAPE, "hmm_draw: noise must have shape [n, %lld, %lld], got %s", (long long)f->shape[0],
                    (long long)f->shape[1], pni_shape_text(u->ndim, u->shape, s));
  *out = (pni_spec){PN_INT64, 3, {u->shape[0], u->shape[1], u->shape[2]}};
  return PN_OK;
}

static pn_status run_draw(C *c, T *const *in, T *out) {
  pni_markov m = pni_markov_of(c, (T *[]){in[FILTERED], in[TRANSITION], in[FILTERED]}, false);
  job j = {.m = m, .filtered = in[FILTERED], .noise = in[NOISE], .out = out, .items = out->shape[0] * out->shape[2]};
  return run(c, "hmm_draw", &j, draw_groups, false);
}

static pn_status eval_draw(C *c, const pni_call *call, T *out) {
  return pni_recurrent_on_contiguous(c, call, out, run_draw);
}

/* ---- for programs ---- */

pn_tensor *pn_hmm_viterbi(C *c, T *initial, T *transition, T *emission, T *lengths) {
  T *in[] = {initial, transition, emission, lengths};
  return pni_apply(c, &pni_hidden_op_hmm_viterbi, lengths ? 4 : 3, in, NULL);
}

pn_tensor *pn_hmm_sample(C *c, pn_rng *rng, T *filtered, T *transition, int64_t n) {
  if (!PNI_GIVEN(c, "hmm_sample", filtered)) return NULL;
  if (n < 0 || filtered->ndim != 3) {
    char s[PNI_SHAPE_TEXT];
    pni_fail(c, n < 0 ? PN_DOMAIN : PN_SHAPE,
             "hmm_sample: n must be at least 0 and filtered [T, B, K], got %lld and %s", (long long)n,
             pni_shape_text(filtered->ndim, filtered->shape, s));
    return NULL;
  }
  const int64_t shape[] = {n, filtered->shape[0], filtered->shape[1]};
  T *noise = pn_rand(c, rng, (pn_dtype)filtered->dtype, 3, shape);
  return pni_apply(c, &pni_hidden_op_hmm_draw, 3, (T *[]){filtered, transition, noise}, NULL);
}

const pni_op pni_hidden_op_hmm_viterbi = {
    .name = "hmm_viterbi",
    .args = "initial:t transition:t emission:t lengths:t=nil",
    .doc = "the most probable path of states of a hidden Markov model: int64 [T, B], -1 beyond a sequence's length",
    .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF | PNI_OP_ANY_DTYPE,
    .infer = infer_viterbi,
    .eval = eval_viterbi};

const pni_op pni_hidden_op_hmm_draw = {
    .name = "hmm_draw",
    .args = "filtered:t transition:t noise:t",
    .doc = "paths of states drawn from the posterior by uniform noise [n, T, B]: int64 [n, T, B]",
    .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF,
    .infer = infer_draw,
    .eval = eval_draw};
