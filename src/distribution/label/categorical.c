/*
** categorical.c: Categorical(probs) or Categorical(logits) over the labels 0 .. n - 1 (int64 data),
**   log p(x) = log probs[x] = logits[x] - logsumexp(logits)
** Draws invert the distribution function: the first label whose running sum reaches u times the total. As u
** lies in (0, 1], a label of probability 0 is never drawn and the search never runs off the end.
*/
#include <math.h>
#include <string.h>
#include "categorical.h"
#include "guide_table.h"
#include "../kernel/density.h"
#include "../../autodiff/random_source.h"

typedef pn_tensor T;
typedef pn_context C;
typedef const pn_dist D;
enum { PROBS = PNI_PROBS, LOGITS = PNI_LOGITS };

static T *given(D *d) { return d->param[pni_dist_given(d, LOGITS) ? LOGITS : PROBS]; }
int64_t pni_classes(D *d) { return given(d)->shape[given(d)->ndim - 1]; }
T *pni_classes_probs(C *c, D *d) { return pn_softmax(c, d->param[LOGITS], -1); }
T *pni_classes_logits(C *c, D *d) { return pn_log(c, d->param[PROBS]); }
static const pn_axes last = {1, {-1}};

/* Normalised log probabilities, [batch, n]. */
static T *log_probs(C *c, D *d) {
  return pni_dist_given(d, LOGITS) ? pn_log_softmax(c, d->param[LOGITS], -1) : pni_classes_logits(c, d);
}

static T *in_support(C *c, D *d, T *x) {
  T *whole = x->dtype == PN_INT64 ? pn_ge(c, x, pni_like(c, x, 0))
                                  : pni_constraint_mask(c, &pni_constraint_nonnegative_integer, x);
  return pn_logical_and(c, whole, pn_lt(c, x, pni_like(c, x, (double)pni_classes(d))));
}

/* values[..., x] for values [batch, n] and x [sample, batch] or broadcasting with it */
static T *pick(C *c, T *values, T *x) {
  if (!values || !x) return NULL;
  pn_tensor batch = {.ndim = values->ndim - 1};
  for (int i = 0; i < batch.ndim; i++) batch.shape[i] = values->shape[i];
  pni_spec s;
  if (pni_broadcast(c, "categorical", &batch, x, &s)) return NULL;
  T *index = pn_unsqueeze(c, pni_dist_expand_to(c, x, s.ndim, s.shape), -1);
  if (!index) return NULL;
  s.shape[s.ndim++] = values->shape[values->ndim - 1];
  return pn_squeeze(c, pn_gather(c, pni_dist_expand_to(c, values, s.ndim, s.shape), -1, index), -1);
}

/* With probs the logarithm is taken after picking, so that an unused probability 0 has gradient 0. */
static T *log_prob(C *c, D *d, T *x) {
  if (pni_dist_given(d, LOGITS)) {
    T *at_once = pni_label_log_mass(c, d->param[LOGITS], x);
    return at_once || pni_failed(c) ? at_once : pick(c, log_probs(c, d), x);
  }
  return pn_log(c, pick(c, d->param[PROBS], x));
}

static T *mode(C *c, D *d) { return pn_argmax(c, given(d), -1, 0); }

/* sum of w v over the classes, 0 where w = 0 even if v is infinite */
T *pni_classes_expected(C *c, T *w, T *v) {
  T *zero = pni_like(c, w, 0);
  return pn_sum(c, pn_mul(c, w, pn_where(c, pn_eq(c, w, zero), zero, v)), last, 0);
}

/* log probabilities whose unused branch (probability 0) is cut off from gradients */
T *pni_classes_log_probs(C *c, D *d) {
  if (pni_dist_given(d, LOGITS)) return log_probs(c, d);
  T *p = d->param[PROBS];
  return pn_log(c, pn_where(c, pn_eq(c, p, pni_like(c, p, 0)), pni_like(c, p, 1), p));
}

T *pni_classes_entropy(C *c, D *d) {
  return pn_neg(c, pni_classes_expected(c, pni_dist_param(c, d, PROBS), pni_classes_log_probs(c, d)));
}

T *pni_classes_kl(C *c, D *p, D *q, const char *name) {
  if (pni_classes(p) != pni_classes(q)) {
    pni_fail(c, PN_SHAPE, "kl: %s and %s must have one number of classes, got %lld and %lld", name, name,
             (long long)pni_classes(p), (long long)pni_classes(q));
    return NULL;
  }
  T *w = pni_dist_param(c, p, PROBS);
  return pni_classes_expected(c, w, pn_sub(c, pni_classes_log_probs(c, p), log_probs(c, q)));
}

T *pni_kl_categorical_categorical(C *c, D *p, D *q) { return pni_classes_kl(c, p, q, "categorical"); }

typedef struct {
  pni_philox at;
  const double *running; /* [batch, n] running sums */
  const int32_t *guide;  /* [batch, size] or NULL */
  int64_t n, batch, size;
  int64_t *out;
} draws;

enum { BLOCK = 256 };

static void draw_shard(void *data, int64_t begin, int64_t end) {
  const draws *w = data;
  double u[BLOCK];
  for (int64_t first = begin; first < end; first += BLOCK) {
    int64_t next = end - first < BLOCK ? end : first + BLOCK, row = w->batch ? first % w->batch : 0;
    pni_fill_uniform_f64(w->at.key, w->at.position, (uint64_t)first, (uint64_t)next, u);
    for (int64_t i = first; i < next; i++, row = row + 1 < w->batch ? row + 1 : 0) {
      const double *s = w->running + row * w->n;
      double total = s[w->n - 1], v = u[i - first];
      w->out[i] = w->guide ? pni_lookup_guided(s, w->n, total, w->guide + row * w->size, w->size, v)
                           : pni_lookup(s, w->n, v * total);
    }
  }
}

/* Guides where they pay: several draws for each of their entries. NULL: none. */
static int32_t *make_guide(pn_context *c, draws *w, int64_t numel) {
  w->size = 64;
  while (w->size < w->n) w->size *= 2;
  if (w->n > 1 << 24 || w->size * w->batch > numel / 4) return NULL;
  int32_t *guide = pni_alloc_array(c, pni_times(w->size, w->batch), sizeof *guide);
  for (int64_t k = 0; guide && k < w->batch; k++) {
    const double *s = w->running + k * w->n;
    pni_guide(s, w->n, s[w->n - 1], guide + k * w->size, w->size);
  }
  w->guide = guide;
  return guide;
}

/* The draws as an operation on the running sums. attr: key, position, then the shape of the result. */
enum { KEY, POSITION, SHAPE };

static pn_status infer_draws(pn_context *c, const pni_call *call, pni_spec *out) {
  const T *running = call->in[0];
  char s[PNI_SHAPE_TEXT];
  *out = (pni_spec){.dtype = PN_INT64, .ndim = call->attr->ni - SHAPE};
  memcpy(out->shape, call->attr->i + SHAPE, (size_t)out->ndim * sizeof *out->shape);
  int batch = running->ndim - 1;
  bool fits = batch >= 0 && batch <= out->ndim && running->dtype == PN_FLOAT64 &&
              (running->shape[batch] > 0 || pni_count(out->ndim, out->shape) == 0) &&
              memcmp(running->shape, out->shape + out->ndim - batch, (size_t)batch * sizeof *out->shape) == 0;
  if (fits) return PN_OK;
  return pni_fail(c, PN_SHAPE, "draw_labels: sums must be float64 [batch, n] of the labels' batch, got %s %s",
                  pn_dtype_name((pn_dtype)running->dtype), pni_shape_text(running->ndim, running->shape, s));
}

static pn_status eval_draws(pn_context *c, const pni_call *call, pn_tensor *out) {
  if (out->numel == 0) return PN_OK;
  T *running = pni_contiguous(c, call->in[0]);
  if (!running) return c->status;
  int64_t n = running->shape[running->ndim - 1];
  draws w = {.running = pni_data(running), .n = n, .batch = n ? running->numel / n : 0, .out = pni_data(out)};
  w.at.key = (uint64_t)call->attr->i[KEY];
  w.at.position = (uint64_t)call->attr->i[POSITION];
  int32_t *guide = make_guide(c, &w, out->numel);
  if (!pni_failed(c)) pni_parallel(c, out->numel, 4096, draw_shard, &w);
  pni_free(c, guide);
  pn_tensor_unref(running);
  return c->status;
}

static const pni_op draw_labels = {.name = "draw_labels",
                                   .flags = PNI_OP_NODIFF | PNI_OP_HIDDEN | PNI_OP_DRAW,
                                   .infer = infer_draws,
                                   .eval = eval_draws};

T *pni_draw_labels(C *c, D *d, T *weights, pn_rng *rng, const pni_spec *out) {
  int nb = pni_dist_base_ndim(d);
  if (!weights) return NULL;
  if (nb == PN_MAX_DIMS) {
    pni_fail(c, PN_SHAPE, "%s: sample: at most %d batch axes are possible", d->kind->name, PN_MAX_DIMS - 1);
    return NULL;
  }
  int64_t shape[PN_MAX_DIMS];
  memcpy(shape, d->shape, (size_t)nb * sizeof *shape);
  shape[nb] = weights->shape[weights->ndim - 1];
  T *p = pni_dist_expand_to(c, pn_cast(c, weights, PN_FLOAT64), nb + 1, shape);
  T *running = pn_contiguous(c, pn_cumsum(c, p, -1));
  pni_attr a = {.ni = SHAPE + out->ndim};
  memcpy(a.i + SHAPE, out->shape, (size_t)out->ndim * sizeof *out->shape);
  uint64_t n = pni_fill_positions(PNI_FILL_UNIFORM_F64, (uint64_t)pni_count(out->ndim, out->shape));
  return running ? pni_draw_apply(c, &draw_labels, rng, n, 1, &running, &a) : NULL;
}

static T *sample(C *c, D *d, pn_rng *rng, const pni_spec *out) {
  return pni_draw_labels(c, d, pni_dist_param(c, d, PROBS), rng, out);
}

T *pni_one_hot(C *c, T *label, int64_t n, int dtype) {
  T *classes = pn_arange(c, PN_INT64, 0, (double)n, 1);
  return pn_cast(c, pn_eq(c, pn_unsqueeze(c, label, -1), classes), (pn_dtype)dtype);
}

const pni_distribution pni_dist_categorical = {
    .name = "categorical",
    .doc = "label x = 0 .. n - 1 with probability probs[x], or by logits up to a constant: "
           "log p(x) = logits[x] - logsumexp(logits)",
    .source = "Johnson, Kotz & Balakrishnan, Discrete Multivariate Distributions, ch. 35 (one trial)",
    .moments = "labels have no mean; mode the likeliest",
    .param = {{.name = "probs",
               .constraint = &pni_constraint_simplex,
               .axes = "n",
               .choice = 1,
               .derive = pni_classes_probs},
              {.name = "logits",
               .constraint = &pni_constraint_log_weights,
               .axes = "n",
               .choice = 1,
               .derive = pni_classes_logits}},
    .support = &pni_constraint_integer_interval,
    .event = "",
    .flags = PNI_DIST_DISCRETE | PNI_DIST_INTEGER,
    .in_support = in_support,
    .log_prob = log_prob,
    .mode = mode,
    .entropy = pni_classes_entropy,
    .sample = sample};
