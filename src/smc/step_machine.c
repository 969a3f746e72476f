/*
** step_machine.c: the step machine: what a particle filter does whatever its model is. It holds what `weigh` gave last;
** everything else is a function of that, so that captured steps and restored filters do the same.
*/
#include <math.h>
#include <string.h>
#include "ancestry.h"
#include "op/smc_op.h"
#include "step_machine.h"
#include "trace.h"
#include "weighed.h"

enum { DROPPED, STOP_GRADIENT, SCORE_FUNCTION, SOFT, GRADIENTS };
static const char *const gradients[GRADIENTS] = {"dropped", "stop_gradient", "score_function", "soft"};

static const int64_t MOST_IN_ALL = (int64_t)1 << 40; /* so that a few rows of all particles can be counted */

struct pn_smc {
  pn_context *c;
  pn_smc_config config; /* names are not kept */
  const pni_resampler *scheme;
  int gradient;
  pn_rng *rng; /* NULL: the context's */
  int64_t steps;
  uint32_t capture;       /* in which it was made, 0: none */
  pn_tensor *weighed;     /* NULL: all 1 / N */
  bool resampled;         /* since then */
  pn_tensor *carried;     /* resampled: log-weights that go on instead of -log N, or NULL */
  pn_tensor *log_prob;    /* resampled: log-weights of the chosen, or NULL */
  pn_tensor *evidence;    /* float64; NULL: 0 */
  pn_tensor *assigned;    /* [B...]: ancestors of the last particles at the next resampling, or NULL */
  pn_tensor *pending;     /* ancestors since the last step that was kept; NULL: own places */
  pni_trace *trace;       /* or NULL */
  uint8_t *due;           /* beside it: [filters] */
  pni_ancestry *ancestry; /* from the first step that is kept on */
};

pn_status pni_smc_usable(pn_context *c, const pn_smc *s) {
  if (!c->recorder || s->capture == c->captures) return PN_OK;
  return pni_refuse_capture(c, "a step machine from outside",
                            "make the machine inside, and restore it from an argument");
}

static int64_t filters_of(const pn_smc *s) { return pni_count(s->config.nbatch, s->config.batch); }

/* ---- life ---- */

static void put(pn_tensor **place, pn_tensor *t) {
  if (t) pn_tensor_ref(t);
  pn_tensor_unref(*place);
  *place = t;
}

static int place_of(const char *name, const char *const *names, int n) {
  for (int i = 0; i < n; i++)
    if (strcmp(name, names[i]) == 0) return i;
  return -1;
}

static pn_status check(pn_context *c, const pn_smc_config *o) {
  char text[PNI_SHAPE_TEXT];
  if (o->num_particles < 1 || o->num_particles >= INT32_MAX)
    return pni_fail(c, PN_DOMAIN, "smc: num_particles must be from 1 to %d, got %lld", INT32_MAX - 1,
                    (long long)o->num_particles);
  if (!(o->threshold >= 0 && o->threshold <= 1))
    return pni_fail(c, PN_DOMAIN, "smc: threshold must lie in 0 to 1, got %g", o->threshold);
  if (o->nbatch < 0 || o->nbatch > PN_MAX_DIMS - 2)
    return pni_fail(c, PN_DOMAIN, "smc: batch must have at most %d axes, got %d", PN_MAX_DIMS - 2, o->nbatch);
  for (int k = 0; k < o->nbatch; k++)
    if (o->batch[k] < 1)
      return pni_fail(c, PN_DOMAIN, "smc: batch must have sizes from 1 on, got %lld", (long long)o->batch[k]);
  if (pni_times(o->num_particles, pni_count(o->nbatch, o->batch)) > MOST_IN_ALL)
    return pni_fail(c, PN_DOMAIN, "smc: particles of all filters must be at most 2^40, got %lld in a batch of %s",
                    (long long)o->num_particles, pni_shape_text(o->nbatch, o->batch, text));
  return PN_OK;
}

pn_smc *pn_smc_new(pn_context *c, const pn_smc_config *config, pn_rng *rng) {
  if (!PNI_GIVEN(c, "smc_new", config) || check(c, config)) return NULL;
  const pni_resampler *scheme = pni_resampler_find(config->resampling ? config->resampling : "systematic");
  if (!scheme) pni_fail(c, PN_MISSING, "smc: there is no resampling scheme '%s'", config->resampling);
  int gradient = config->gradient ? place_of(config->gradient, gradients, GRADIENTS) : DROPPED;
  if (gradient < 0) pni_fail(c, PN_MISSING, "smc: there is no gradient '%s'", config->gradient);
  if (gradient == SOFT && !(config->alpha > 0 && config->alpha <= 1))
    pni_fail(c, PN_DOMAIN, "smc: alpha must be above 0 and at most 1, got %g", config->alpha);
  if (config->conditional && scheme && !scheme->independent)
    pni_fail(c, PN_DOMAIN, "smc: conditional needs resampling by independent draws (multinomial), got %s",
             scheme->name);
  pn_smc *s = pni_failed(c) ? NULL : pni_calloc(c, sizeof *s);
  if (!s) return NULL;
  s->c = c;
  s->config = *config;
  s->config.resampling = s->config.gradient = NULL;
  s->scheme = scheme;
  s->capture = c->recorder ? c->captures : 0;
  s->gradient = gradient;
  s->rng = rng ? pni_rng_ref(rng) : NULL;
  pni_object_born(c);
  if (config->trace) s->due = pni_calloc_array(c, filters_of(s), sizeof *s->due);
  if (s->due) s->trace = pni_trace_new(c, config->num_particles, filters_of(s));
  if (!config->trace || s->trace) return s;
  pn_smc_free(s);
  return NULL;
}

void pn_smc_reset(pn_smc *s) {
  if (!s) return;
  put(&s->weighed, NULL);
  put(&s->carried, NULL);
  put(&s->log_prob, NULL);
  put(&s->evidence, NULL);
  put(&s->pending, NULL);
  put(&s->assigned, NULL);
  if (s->trace) pni_trace_reset(s->trace);
  pni_ancestry_free(s->c, s->ancestry);
  s->ancestry = NULL;
  s->steps = 0;
}

void pn_smc_free(pn_smc *s) {
  if (!s) return;
  pn_context *c = s->c;
  pn_smc_reset(s);
  pni_trace_free(c, s->trace);
  pni_free(c, s->due);
  if (s->rng) pn_rng_free(s->rng);
  pni_free(c, s);
  pni_object_died(c);
}

int64_t pn_smc_steps(const pn_smc *s) { return s ? s->steps : 0; }

/* ---- parts of what weigh gave ---- */

static pn_tensor *rows(pn_context *c, pn_tensor *weighed, int64_t first, int64_t count) {
  return pn_slice(c, weighed, 0, first, count, 1);
}
static pn_tensor *row(pn_context *c, const pn_smc *s, pn_tensor *weighed, int which) {
  return pn_select(c, weighed, 0, 2 * s->config.num_particles + which);
}

/* [N, B...] of one value. */
static pn_tensor *flat(pn_context *c, const pn_smc *s, double value) {
  int64_t shape[PN_MAX_DIMS] = {s->config.num_particles};
  memcpy(shape + 1, s->config.batch, (size_t)s->config.nbatch * sizeof *shape);
  return pn_full(c, s->weighed ? (pn_dtype)s->weighed->dtype : PN_FLOAT64, 1 + s->config.nbatch, shape, value);
}

/* ---- resampling ---- */

/* Is any filter due, as far as can be told now? */
static bool any_due(pn_context *c, const pn_smc *s) {
  const pn_tensor *t = s->weighed;
  int64_t n = s->config.num_particles, filters = t->numel / t->shape[0];
  if (s->config.threshold <= 0 || s->config.threshold >= 1) return s->config.threshold >= 1;
  if (c->recorder && pni_varies(c, t)) return true;
  for (int64_t f = 0; f < filters; f++)
    if (pni_is_due(pni_element(t, (2 * n + PNI_WEIGHED_SIZE) * filters + f), s->config.threshold, n)) return true;
  return false;
}

/* [1, B...], true where a filter is due. */
static pn_tensor *due(pn_context *c, const pn_smc *s) {
  int64_t n = s->config.num_particles;
  pn_tensor *size = rows(c, pn_detach(c, s->weighed), 2 * n + PNI_WEIGHED_SIZE, 1);
  double least = s->config.threshold >= 1 ? 2 * (double)n : s->config.threshold * (double)n;
  return pn_le(c, size, pni_like(c, s->weighed, least));
}

/* What ancestors are chosen by in "soft": alpha w + (1 - alpha) / N, in logarithms. */
static pn_tensor *softened(pn_context *c, const pn_smc *s, pn_tensor *log_w) {
  if (s->config.alpha >= 1) return log_w;
  double even = log1p(-s->config.alpha) - log((double)s->config.num_particles);
  pn_tensor *own = pn_add(c, log_w, pni_like(c, log_w, log(s->config.alpha)));
  return pn_logaddexp(c, own, pni_like(c, log_w, even));
}

/* Log-weights after ancestors were chosen by `chosen_by`: log w[a] - chosen_by[a] - log N, of filters that were due. */
static pn_tensor *carry(pn_context *c, const pn_smc *s, pn_tensor *log_w, pn_tensor *chosen_by, pn_tensor *ancestors) {
  double even = -log((double)s->config.num_particles);
  pn_tensor *gap = pn_sub(c, pni_select_particles(c, log_w, ancestors), pni_select_particles(c, chosen_by, ancestors));
  pn_tensor *after = pn_add(c, gap, pni_like(c, log_w, even));
  return s->config.threshold >= 1 ? after : pn_where(c, due(c, s), after, log_w);
}

/* Ancestors in terms of the particles that were kept last. */
static pn_tensor *pending(pn_context *c, const pn_smc *s, pn_tensor *ancestors) {
  if (!s->config.history || c->recorder) return NULL;
  return s->pending ? pni_select_particles(c, s->pending, ancestors) : ancestors;
}

static pn_status trace_resampling(pn_context *c, const pn_smc *s, const pn_tensor *ancestors) {
  if (!s->trace || c->recorder) return PN_OK;
  int64_t n = s->config.num_particles, filters = filters_of(s);
  for (int64_t f = 0; f < filters; f++)
    s->due[f] = pni_is_due(pni_element(s->weighed, (2 * n + PNI_WEIGHED_SIZE) * filters + f), s->config.threshold, n);
  return pni_trace_resampled(c, s->trace, ancestors, s->due);
}

static pn_status remember(pn_context *c, pn_smc *s, pn_tensor *log_w, pn_tensor *by, pn_tensor *ancestors) {
  pn_tensor *after = NULL, *log_prob = NULL, *from = pending(c, s, ancestors);
  if (s->gradient == SOFT) after = carry(c, s, log_w, by, ancestors);
  if (s->gradient == STOP_GRADIENT) after = carry(c, s, log_w, pn_detach(c, log_w), ancestors);
  if (s->gradient == SCORE_FUNCTION) {
    log_prob = pni_select_particles(c, by, ancestors);
    if (s->config.threshold < 1) log_prob = pn_where(c, due(c, s), log_prob, pni_like(c, by, 0));
  }
  if (pni_failed(c) || trace_resampling(c, s, ancestors)) return c->status;
  put(&s->carried, after);
  put(&s->log_prob, log_prob);
  if (from) put(&s->pending, from);
  put(&s->assigned, NULL);
  s->resampled = true;
  return PN_OK;
}

pn_status pn_smc_assign(pn_context *c, pn_smc *s, pn_tensor *ancestor) {
  if (!PNI_GIVEN(c, "smc_assign", s, ancestor)) return c->status;
  if (!s->config.conditional || s->config.threshold < 1)
    return pni_fail(c, PN_STATE, "assign: needs a conditional machine that always resamples (threshold = 1)");
  if (ancestor->dtype != PN_INT64 || ancestor->numel != filters_of(s))
    return pni_fail(c, PN_SHAPE, "assign: ancestors must be int64 [B...], one for each filter");
  for (int64_t f = 0; f < ancestor->numel && !(c->recorder && pni_varies(c, ancestor)); f++) {
    double a = pni_element(ancestor, f);
    if (!(a >= 0 && a < (double)s->config.num_particles))
      return pni_fail(c, PN_DOMAIN, "assign: ancestors must lie in 0 to %lld, got %.0f",
                      (long long)s->config.num_particles - 1, a);
  }
  put(&s->assigned, ancestor);
  return PN_OK;
}

static pn_tensor *with_assigned(pn_context *c, const pn_smc *s, pn_tensor *a) {
  if (!a || !s->assigned) return a;
  int64_t shape[PN_MAX_DIMS] = {1};
  memcpy(shape + 1, a->shape + 1, (size_t)(a->ndim - 1) * sizeof *shape);
  pn_tensor *last = pn_reshape(c, s->assigned, a->ndim, shape);
  return pn_concatenate(c, 2, (pn_tensor *[]){pn_slice(c, a, 0, 0, a->shape[0] - 1, 1), last}, 0);
}

/* Positions pass by, so that a later step draws what it would have drawn. */
static void pass_by(pn_context *c, const pn_smc *s) {
  uint64_t filters = (uint64_t)filters_of(s);
  if (!c->recorder && s->config.threshold > 0)
    pni_rng_reserve(c, s->rng, s->scheme->positions(s->config.num_particles) * filters);
}

pn_status pn_smc_resample(pn_context *c, pn_smc *s, pn_tensor **ancestors) {
  if (!PNI_GIVEN(c, "smc_resample", s, ancestors) || pni_smc_usable(c, s)) return c->status;
  *ancestors = NULL;
  if (!s->weighed || s->resampled) return PN_OK;
  if (!any_due(c, s)) {
    pass_by(c, s);
    return PN_OK;
  }
  pn_tensor *log_w = NULL, *by = NULL, *weighed = s->weighed, *decider = NULL;
  if (s->gradient != DROPPED) by = log_w = rows(c, s->weighed, 0, s->config.num_particles);
  if (s->gradient == SOFT) {
    by = softened(c, s, log_w);
    weighed = pn_detach(c, pni_weigh(c, by, NULL, &(pni_weighing){.zero_possible = true}));
    decider = s->weighed;
  }
  pni_resampling_rule rule = {s->scheme, s->config.threshold, s->config.conditional != 0};
  pn_tensor *a = with_assigned(c, s, pni_resample(c, &rule, s->rng, weighed, decider));
  if (a && remember(c, s, log_w, by, a) == PN_OK) *ancestors = a;
  return c->status;
}

/* ---- weighing ---- */

static pn_status check_increment(pn_context *c, const pn_smc *s, const pn_tensor *x) {
  char got[PNI_SHAPE_TEXT], want[PNI_SHAPE_TEXT];
  int64_t shape[PN_MAX_DIMS] = {s->config.num_particles};
  memcpy(shape + 1, s->config.batch, (size_t)s->config.nbatch * sizeof *shape);
  bool fits = x->ndim == 1 + s->config.nbatch;
  for (int k = 0; fits && k < x->ndim; k++) fits = x->shape[k] == shape[k];
  if (fits) return PN_OK;
  return pni_fail(c, PN_SHAPE, "weigh: log_increment must have shape %s, got %s",
                  pni_shape_text(1 + s->config.nbatch, shape, want), pni_shape_text(x->ndim, x->shape, got));
}

static pn_tensor *update(pn_context *c, pn_smc *s, pn_tensor *log_increment, bool step) {
  if (pni_smc_usable(c, s) || check_increment(c, s, log_increment)) return NULL;
  bool traced = s->trace && !c->recorder;
  if (traced && step && pni_trace_reserve(c, s->trace)) return NULL;
  pni_weighing how = {.before = s->carried ? PNI_BEFORE_CARRIED : PNI_BEFORE_WEIGHED,
                      .resampled = s->resampled,
                      .threshold = s->config.threshold,
                      .zero_possible = s->config.zero_possible,
                      .step = c->recorder ? 0 : s->steps + 1};
  pn_tensor *weighed = pni_weigh(c, log_increment, s->carried ? s->carried : s->weighed, &how);
  pn_tensor *increment = weighed ? row(c, s, weighed, PNI_WEIGHED_INCREMENT) : NULL, *evidence = increment;
  if (increment && increment->dtype != PN_FLOAT64) evidence = pn_cast(c, increment, PN_FLOAT64);
  if (evidence && s->evidence) evidence = pn_add(c, s->evidence, evidence);
  if (!evidence) return NULL;
  if (traced) pni_trace_weighed(c, s->trace, weighed, step);
  put(&s->weighed, weighed);
  put(&s->evidence, evidence);
  put(&s->carried, NULL);
  put(&s->log_prob, NULL);
  s->resampled = false;
  s->steps += step;
  return increment;
}

pn_tensor *pn_smc_weigh(pn_context *c, pn_smc *s, pn_tensor *log_increment) {
  if (!PNI_GIVEN(c, "smc_weigh", s, log_increment)) return NULL;
  return update(c, s, log_increment, true);
}
pn_tensor *pn_smc_tilt(pn_context *c, pn_smc *s, pn_tensor *log_factor) {
  if (!PNI_GIVEN(c, "smc_tilt", s, log_factor)) return NULL;
  return update(c, s, log_factor, false);
}

/* ---- what is known ---- */

enum { LOG_WEIGHTS, WEIGHTS, LOG_EVIDENCE, LOG_INCREMENT, SIZE, LARGEST, ANCESTOR_LOG_PROB, WEIGHED, KINDS };
static const char *const names[KINDS] = {
    "log_weights",           "weights",        "log_evidence",      "log_increment",
    "effective_sample_size", "largest_weight", "ancestor_log_prob", "weighed"};

static pn_tensor *log_weights(pn_context *c, const pn_smc *s) {
  int64_t n = s->config.num_particles;
  pn_tensor *even = s->weighed && !s->resampled ? NULL : flat(c, s, -log((double)n));
  if (s->carried) return pn_log_softmax(c, s->carried, 0);
  if (!s->weighed) return even;
  pn_tensor *log_w = rows(c, s->weighed, 0, n);
  if (!s->resampled) return log_w;
  return s->config.threshold >= 1 ? even : pn_where(c, due(c, s), even, log_w);
}

/* [B...] of one value. */
static pn_tensor *each(pn_context *c, const pn_smc *s, double value) {
  return pn_full(c, PN_FLOAT64, s->config.nbatch, s->config.batch, value);
}

static pn_tensor *size(pn_context *c, const pn_smc *s) {
  double n = (double)s->config.num_particles;
  if (!s->weighed) return each(c, s, n);
  pn_tensor *now = row(c, s, pn_detach(c, s->weighed), PNI_WEIGHED_SIZE);
  if (!s->resampled) return now;
  pn_tensor *w = pn_exp(c, pn_detach(c, log_weights(c, s)));
  return w ? pn_reciprocal(c, pn_sum(c, pn_square(c, w), (pn_axes){1, {0}}, 0)) : NULL;
}

static pn_tensor *largest(pn_context *c, const pn_smc *s) {
  if (!s->weighed) return each(c, s, 1 / (double)s->config.num_particles);
  if (!s->resampled) return row(c, s, pn_detach(c, s->weighed), PNI_WEIGHED_LARGEST);
  return pn_max(c, pn_exp(c, pn_detach(c, log_weights(c, s))), (pn_axes){1, {0}}, 0);
}

pn_tensor *pn_smc_get(pn_context *c, pn_smc *s, const char *what) {
  if (!PNI_GIVEN(c, "smc_get", s, what)) return NULL;
  int64_t n = s->config.num_particles;
  switch (place_of(what, names, KINDS)) {
  case LOG_WEIGHTS: return log_weights(c, s);
  case WEIGHTS: return s->weighed && !s->resampled ? rows(c, s->weighed, n, n) : pn_exp(c, log_weights(c, s));
  case LOG_EVIDENCE: return s->evidence ? pni_scoped(c, pn_tensor_ref(s->evidence)) : each(c, s, 0);
  case LOG_INCREMENT: return s->weighed ? row(c, s, s->weighed, PNI_WEIGHED_INCREMENT) : each(c, s, 0);
  case SIZE: return size(c, s);
  case LARGEST: return largest(c, s);
  case ANCESTOR_LOG_PROB: return s->log_prob ? pni_scoped(c, pn_tensor_ref(s->log_prob)) : NULL;
  case WEIGHED: return s->weighed ? pni_scoped(c, pn_tensor_ref(s->weighed)) : NULL;
  default: pni_fail(c, PN_MISSING, "smc: there is no '%s'", what);
  }
  return NULL;
}

pn_status pn_smc_restore(pn_context *c, pn_smc *s, pn_tensor *weighed) {
  if (!PNI_GIVEN(c, "smc_restore", s)) return c->status;
  bool fits = !weighed || (pni_is_float(weighed) && weighed->ndim == 1 + s->config.nbatch &&
                           weighed->shape[0] == 2 * s->config.num_particles + PNI_WEIGHED_ROWS);
  for (int k = 0; fits && weighed && k < s->config.nbatch; k++) fits = weighed->shape[k + 1] == s->config.batch[k];
  if (!fits) return pni_fail(c, PN_SHAPE, "restore: weights must come from a machine of as many particles and filters");
  if (weighed && !(c->recorder && pni_varies(c, weighed)) && !pni_is_weighed(c, weighed))
    return pni_fail(c, PN_DOMAIN,
                    "restore: weights must be as a machine gave them, not negative and of sum 1 in each "
                    "filter");
  put(&s->weighed, weighed);
  put(&s->carried, NULL);
  put(&s->log_prob, NULL);
  s->resampled = false;
  return PN_OK;
}

/* ---- what has been ---- */

pn_tensor *pn_smc_trace(pn_context *c, pn_smc *s) {
  if (!PNI_GIVEN(c, "smc_trace", s) || pni_refuse_capture(c, "a trace", "read it outside")) return NULL;
  if (!s->trace) {
    pni_fail(c, PN_STATE, "trace: the machine was made without one (trace = true)");
    return NULL;
  }
  int64_t shape[PN_MAX_DIMS] = {s->trace->length, PNI_TRACE_ROWS};
  memcpy(shape + 2, s->config.batch, (size_t)s->config.nbatch * sizeof *shape);
  if (s->trace->length) return pn_from_data(c, PN_FLOAT64, 2 + s->config.nbatch, shape, s->trace->rows);
  return pn_zeros(c, PN_FLOAT64, 2 + s->config.nbatch, shape);
}

pn_status pn_smc_keep(pn_context *c, pn_smc *s, int parts, pn_tensor *const *part) {
  if (!PNI_GIVEN(c, "smc_keep", s) || pni_refuse_capture(c, "keeping states", "keep them outside")) return c->status;
  if (!s->config.history) return pni_fail(c, PN_STATE, "keep: the machine was made without history (history = true)");
  if (!PNI_LISTED(c, "keep", parts, part)) return c->status;
  pni_ancestry *a = s->ancestry ? s->ancestry : pni_ancestry_new(c, s->config.num_particles, filters_of(s));
  if (!a) return c->status;
  if (pni_ancestry_add(c, a, s->pending, parts, part) && a != s->ancestry) {
    pni_ancestry_free(c, a);
    return c->status;
  }
  s->ancestry = a;
  if (!pni_failed(c)) put(&s->pending, NULL);
  return c->status;
}

pn_tensor *pn_smc_paths(pn_context *c, pn_smc *s, int part, pn_tensor *which) {
  if (!PNI_GIVEN(c, "smc_paths", s)) return NULL;
  if (s->ancestry && part >= 0) return pni_ancestry_paths(c, s->ancestry, part, which);
  pni_fail(c, PN_STATE, "paths: no state was kept (s:keep(state) after each step, with history = true)");
  return NULL;
}

int64_t pn_smc_nodes(const pn_smc *s, size_t *bytes) {
  if (!s) return 0;
  if (bytes) *bytes = s->ancestry ? pni_ancestry_bytes(s->ancestry) : 0;
  return s->ancestry ? pni_ancestry_nodes(s->ancestry) : 0;
}

/* ---- resampling by itself ---- */

int pn_resampler_count(void) { return pni_resampler_count(); }
const char *pn_resampler_name(int i) { return pni_resampler_at(i) ? pni_resampler_at(i)->name : NULL; }

pn_tensor *pn_resample(pn_context *c, const char *scheme, pn_rng *rng, pn_tensor *log_w) {
  if (!PNI_GIVEN(c, "resample", scheme, log_w)) return NULL;
  const pni_resampler *row_of_name = pni_resampler_find(scheme);
  if (!row_of_name) {
    pni_fail(c, PN_MISSING, "resample: there is no resampling scheme '%s'", scheme);
    return NULL;
  }
  pn_tensor *weighed = pni_weigh(c, pn_detach(c, log_w), NULL, &(pni_weighing){.plain = true});
  return pni_resample(c, &(pni_resampling_rule){.scheme = row_of_name, .threshold = 1}, rng, weighed, NULL);
}

pn_tensor *pn_select_particles(pn_context *c, pn_tensor *x, pn_tensor *ancestors) {
  return pni_select_particles(c, x, ancestors);
}
