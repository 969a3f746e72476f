/*
** host_filter.c: filters that a host feeds one observation at a time: plans of a script's particle filter, whose state
** is what one replay hands to the next, or the exact filter of a linear Gaussian model on the bare kernel. Once the
** context's pool is warm an observation allocates nothing.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../autodiff/replay/plan.h"
#include "kalman/kalman.h"
#include "op/smc_op.h"
#include "weighed.h"

enum { FIRST, STEP, FIRST_MISSING, STEP_MISSING, PLANS };    /* STEP, STEP_MISSING: by a carry */
enum { MEAN, COV, A, B, Q, Y, C, D, R, OBSERVED, OPERANDS }; /* as the kernel has them */
enum { MOST_PARTS = 66, HEAD = 2 };                          /* summary: increment, size, means, variances */

struct pn_filter {
  pn_context *c;
  int64_t observed, states, steps;
  double log_evidence, *summary; /* HEAD + 2 states */
  pn_tensor *y;
  int parts; /* of the carry */
  pn_tensor *carry[MOST_PARTS];
  /* particle filters */
  pn_plan *plan[PLANS];
  pn_tensor *time;
  /* the exact filter: carry[0] is a packed row [mean, cov, log density], and so is `spare` */
  bool exact;
  pn_tensor *spare, *model[OPERANDS];
};

/* ---- life ---- */

void pn_filter_free(pn_filter *f) {
  if (!f) return;
  pn_context *c = f->c;
  for (int k = 0; k < PLANS; k++) pn_plan_unref(f->plan[k]);
  for (int k = 0; k < MOST_PARTS; k++) pn_tensor_unref(f->carry[k]);
  for (int k = 0; k < OPERANDS; k++) pn_tensor_unref(f->model[k]);
  pn_tensor_unref(f->y);
  pn_tensor_unref(f->time);
  pn_tensor_unref(f->spare);
  pni_free(c, f->summary);
  pni_free(c, f);
  pni_object_died(c);
}

static pn_filter *start(pn_context *c, int64_t observed, int64_t states) {
  pn_filter *f = pni_calloc(c, sizeof *f);
  if (!f) return NULL;
  f->c = c;
  f->observed = observed;
  f->states = states;
  pni_object_born(c);
  f->summary = pni_calloc_array(c, pni_plus(HEAD, pni_times(2, states)), sizeof *f->summary);
  f->y = pni_tensor_new(c, &(pni_spec){.dtype = PN_FLOAT64, .ndim = 1, .shape = {observed}});
  if (f->y) f->time = pni_tensor_new(c, &(pni_spec){.dtype = PN_FLOAT64});
  return f;
}

static pn_filter *finish(pn_context *c, pn_filter *f) {
  if (!pni_failed(c)) return f;
  pn_filter_free(f);
  return NULL;
}

void pn_filter_reset(pn_filter *f) {
  if (!f) return;
  for (int k = 0; k < MOST_PARTS && !f->exact; k++) {
    pn_tensor_unref(f->carry[k]);
    f->carry[k] = NULL;
  }
  f->steps = 0;
  f->log_evidence = 0;
  memset(f->summary, 0, (size_t)(HEAD + 2 * f->states) * sizeof *f->summary);
}

/* ---- particle filters ---- */

static const pn_tensor *input(const pn_plan *p, int k) { return &p->tensor[k]; }
static const pn_tensor *result(const pn_plan *p, int k) { return &p->tensor[p->out[k]]; }

static bool alike(const pn_tensor *a, const pn_tensor *b) {
  return a->dtype == b->dtype && a->ndim == b->ndim &&
         memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0;
}

/* Do the four plans hand the same parts on, and ask for the same observation? */
static bool fit(const pn_plan *const *p, int parts) {
  const pn_tensor *summary = result(p[STEP], parts), *y = input(p[STEP], parts);
  for (int k = 0; k < PLANS; k++) {
    int carried = k == STEP || k == STEP_MISSING ? parts : 0, seen = k == FIRST || k == STEP;
    if (p[k]->nout != parts + 1 || p[k]->tape->ninput != carried + seen + 1 || p[k]->effects) return false;
    for (int i = 0; i < parts; i++) {
      if (!alike(result(p[k], i), result(p[STEP], i))) return false;
      if (carried && !alike(input(p[k], i), result(p[STEP], i))) return false;
    }
    const pn_tensor *time = input(p[k], carried + seen);
    if (!alike(result(p[k], parts), summary) || time->ndim != 0 || time->dtype != PN_FLOAT64) return false;
    if (seen && (!alike(input(p[k], carried), y) || y->dtype != PN_FLOAT64 || y->ndim != 1)) return false;
  }
  return summary->dtype == PN_FLOAT64 && summary->ndim == 1 && summary->numel >= HEAD && summary->numel % 2 == 0;
}

pn_filter *pn_filter_new(pn_context *c, const pn_plan *first, const pn_plan *step, const pn_plan *first_missing,
                         const pn_plan *step_missing) {
  if (!PNI_GIVEN(c, "filter_new", first, step, first_missing, step_missing)) return NULL;
  const pn_plan *p[PLANS] = {first, step, first_missing, step_missing};
  if (pni_refuse_capture(c, "making a filter", "make it outside")) return NULL;
  int parts = step->nout - 1;
  if (parts < 1 || parts > MOST_PARTS - 2 || step->tape->ninput != parts + 2 || !fit(p, parts)) {
    pni_fail(c, PN_SHAPE, "filter: plans must take and give the same parts of a state, of which there may be %d",
             MOST_PARTS - 2);
    return NULL;
  }
  pn_filter *f = start(c, input(step, parts)->numel, (result(step, parts)->numel - HEAD) / 2);
  if (!f) return NULL;
  f->parts = parts;
  for (int k = 0; k < PLANS && !pni_failed(c); k++) f->plan[k] = pn_plan_copy(c, p[k]);
  return finish(c, f);
}

static pn_status replay(pn_context *c, pn_filter *f, bool seen) {
  int k = (f->steps ? STEP : FIRST) + (seen ? 0 : FIRST_MISSING), n = f->steps ? f->parts : 0;
  pn_tensor *in[MOST_PARTS], *out[MOST_PARTS];
  for (int i = 0; i < n; i++) in[i] = f->carry[i];
  if (seen) in[n++] = f->y;
  in[n++] = f->time;
  *(double *)pni_data(f->time) = (double)f->steps + 1;
  size_t mark = pn_scope_open(c);
  if (pn_plan_run(c, f->plan[k], n, in, out) == PN_OK) {
    for (int i = 0; i < f->parts; i++) {
      pn_tensor_ref(out[i]);
      pn_tensor_unref(f->carry[i]);
      f->carry[i] = out[i];
    }
    memcpy(f->summary, pni_data(out[f->parts]), (size_t)(HEAD + 2 * f->states) * sizeof *f->summary);
  }
  pn_scope_close(c, mark);
  return c->status;
}

/* ---- the exact filter ---- */

/* The operand as it was given, contiguous and in float64; zeros for NULL. New. */
static pn_tensor *operand(pn_context *c, const pn_tensor *t, const char *name, int64_t rows, int64_t cols) {
  pni_spec spec = {.dtype = PN_FLOAT64, .ndim = cols ? 2 : 1, .shape = {rows, cols}};
  pn_tensor *own = pni_failed(c) ? NULL : pni_tensor_new(c, &spec);
  if (!own) return NULL;
  bool fits = !t || (pni_is_float(t) && t->ndim == spec.ndim && t->shape[0] == rows && (!cols || t->shape[1] == cols));
  if (!fits) {
    char want[PNI_SHAPE_TEXT], got[PNI_SHAPE_TEXT];
    pni_fail(c, PN_SHAPE, "filter: %s must have shape %s, got %s", name, pni_shape_text(spec.ndim, spec.shape, want),
             pni_shape_text(t->ndim, t->shape, got));
  } else if (t)
    pni_copy(c, own, t);
  else
    memset(pni_data(own), 0, (size_t)own->numel * sizeof(double));
  if (!pni_failed(c)) return own;
  pn_tensor_unref(own);
  return NULL;
}

pn_filter *pn_filter_kalman(pn_context *c, const pn_filter_model *m) {
  if (!PNI_GIVEN(c, "filter_kalman", m) || pni_refuse_capture(c, "making a filter", "make it outside")) return NULL;
  if (!m->mean || !m->cov || !m->a || !m->q || !m->emission || !m->r) {
    pni_fail(c, PN_STATE, "filter: mean, cov, a, q, emission and r must be tensors, got NULL");
    return NULL;
  }
  int64_t n = m->mean->ndim == 1 ? m->mean->numel : 0, p = m->r->ndim == 2 ? m->r->shape[0] : 0;
  if (n < 1 || n > PNI_KALMAN_MAX || p < 1 || p > PNI_KALMAN_MAX) {
    pni_fail(c, PN_SHAPE, "filter: state and observation must have 1 to %d elements, got %lld and %lld", PNI_KALMAN_MAX,
             (long long)n, (long long)p);
    return NULL;
  }
  pn_filter *f = start(c, p, n);
  if (!f) return NULL;
  f->exact = true;
  f->parts = 1;
  pni_spec row = {.dtype = PN_FLOAT64, .ndim = 1, .shape = {n + n * n + 1}};
  f->model[MEAN] = operand(c, m->mean, "mean", n, 0);
  f->model[COV] = operand(c, m->cov, "cov", n, n);
  f->model[A] = operand(c, m->a, "a", n, n);
  f->model[B] = operand(c, m->b, "b", n, 0);
  f->model[Q] = operand(c, m->q, "q", n, n);
  f->model[C] = operand(c, m->emission, "emission", p, n);
  f->model[D] = operand(c, m->d, "d", p, 0);
  f->model[R] = operand(c, m->r, "r", p, p);
  if (!pni_failed(c)) f->model[OBSERVED] = pni_tensor_new(c, &(pni_spec){.dtype = PN_FLOAT64, .ndim = 1, .shape = {p}});
  if (!pni_failed(c)) f->carry[0] = pni_tensor_new(c, &row);
  if (!pni_failed(c)) f->spare = pni_tensor_new(c, &row);
  return finish(c, f);
}

/* The step from the row of the last one to `spare`; nothing is seen: the kernel's prediction alone. */
static pn_status exact_step(pn_context *c, pn_filter *f, pn_tensor *mean, pn_tensor *cov, bool seen) {
  int64_t n = f->states;
  double *y = pni_data(f->y), *mask = pni_data(f->model[OBSERVED]), *out = pni_data(f->spare);
  int missing = 0;
  for (int64_t i = 0; seen && i < f->observed; i++) {
    mask[i] = isnan(y[i]) ? 0 : 1;
    missing += isnan(y[i]) ? 1 : 0;
  }
  pn_tensor **m = f->model, *all[OPERANDS] = {mean, cov, m[A], m[B], m[Q], f->y, m[C], m[D], m[R], m[OBSERVED]};
  pn_tensor *update[] = {mean, cov, f->y, m[C], m[D], m[R], m[OBSERVED]};
  if (seen && f->steps)
    return pni_kalman_step(c, "filter", PNI_LANE_BEST, PNI_KALMAN_STEP, false, missing ? 10 : 9, all, f->spare);
  if (seen)
    return pni_kalman_step(c, "filter", PNI_LANE_BEST, PNI_KALMAN_UPDATE, false, missing ? 7 : 6, update, f->spare);
  out[n + n * n] = 0;
  if (f->steps) {
    pn_tensor row = *f->spare; /* as the kernel sees it: without the density */
    row.shape[0] = row.numel = n + n * n;
    return pni_kalman_step(c, "filter", PNI_LANE_BEST, PNI_KALMAN_PREDICT, false, 5, all, &row);
  }
  memcpy(out, pni_data(mean), (size_t)n * sizeof *out);
  memcpy(out + n, pni_data(cov), (size_t)(n * n) * sizeof *out);
  return PN_OK;
}

/* Views of mean and cov without a reference of their own. */
static pn_status exact(pn_context *c, pn_filter *f, bool seen) {
  int64_t n = f->states;
  pn_tensor mean = *f->model[MEAN], cov = *f->model[COV];
  if (f->steps) {
    mean.storage = cov.storage = f->carry[0]->storage;
    cov.offset = n;
  }
  if (exact_step(c, f, &mean, &cov, seen)) return c->status;
  pn_tensor *row = f->spare;
  const double *v = pni_data(row);
  f->spare = f->carry[0];
  f->carry[0] = row;
  f->summary[0] = v[n + n * n];
  f->summary[1] = INFINITY;
  for (int64_t i = 0; i < n; i++) {
    f->summary[HEAD + i] = v[i];
    f->summary[HEAD + n + i] = v[n + i * n + i];
  }
  return PN_OK;
}

/* ---- observing ---- */

/* The failure, with the step at which it arose. */
static pn_status with_step(pn_context *c, const pn_filter *f) {
  char message[PNI_MESSAGE];
  pn_status s = c->status;
  if (s == PN_CANCELLED || s == PN_NOMEM) return s;
  snprintf(message, sizeof message, "%s", c->message);
  pn_context_clear_error(c);
  return pni_fail(c, s, "%s at step %lld", message, (long long)f->steps + 1);
}

pn_status pn_filter_observe(pn_context *c, pn_filter *f, const double *y, int64_t n, double *increment) {
  if (!PNI_GIVEN(c, "filter_observe", f) || pni_check_cancel(c) || pni_refuse_capture(c, "a filter", "observe outside"))
    return c->status;
  if (y && n != f->observed)
    return pni_fail(c, PN_SHAPE, "observe: y must have %lld elements, got %lld", (long long)f->observed, (long long)n);
  if (y) memcpy(pni_data(f->y), y, (size_t)n * sizeof *y);
  if (f->exact ? exact(c, f, y != NULL) : replay(c, f, y != NULL)) return with_step(c, f);
  f->steps++;
  f->log_evidence += f->summary[0];
  if (increment) *increment = f->summary[0];
  return PN_OK;
}

static bool all_nan(const double *y, int64_t n) {
  int64_t seen = 0;
  for (int64_t i = 0; i < n; i++) seen += !isnan(y[i]);
  return seen == 0;
}

pn_status pn_filter_run(pn_context *c, pn_filter *f, pn_tensor *ys, pn_tensor **increments, pn_tensor **means,
                        pn_tensor **variances) {
  char got[PNI_SHAPE_TEXT];
  if (!PNI_GIVEN(c, "filter_run", f, ys, increments)) return c->status;
  if (ys->ndim != 2 || ys->shape[1] != f->observed || ys->dtype != PN_FLOAT64)
    return pni_fail(c, PN_SHAPE, "run: ys must be [T, %lld], float64, got %s %s", (long long)f->observed,
                    pn_dtype_name((pn_dtype)ys->dtype), pni_shape_text(ys->ndim, ys->shape, got));
  int64_t steps = ys->shape[0], m = f->states, shape[] = {steps, m};
  pn_tensor *y = pn_contiguous(c, ys), *e = pn_zeros(c, PN_FLOAT64, 1, &steps);
  pn_tensor *mean = means ? pn_zeros(c, PN_FLOAT64, 2, shape) : NULL;
  pn_tensor *variance = variances ? pn_zeros(c, PN_FLOAT64, 2, shape) : NULL;
  for (int64_t t = 0; t < steps && !pni_failed(c); t++) {
    const double *row = (const double *)pni_data(y) + t * f->observed;
    pn_filter_observe(c, f, all_nan(row, f->observed) ? NULL : row, f->observed, (double *)pni_data(e) + t);
    if (mean) memcpy((double *)pni_data(mean) + t * m, pn_filter_mean(f), (size_t)m * sizeof(double));
    if (variance) memcpy((double *)pni_data(variance) + t * m, pn_filter_variance(f), (size_t)m * sizeof(double));
  }
  if (pni_failed(c)) return c->status;
  *increments = e;
  if (means) *means = mean;
  if (variances) *variances = variance;
  return PN_OK;
}

int64_t pn_filter_num_observed(const pn_filter *f) { return f ? f->observed : 0; }
int64_t pn_filter_num_states(const pn_filter *f) { return f ? f->states : 0; }
int64_t pn_filter_steps(const pn_filter *f) { return f ? f->steps : 0; }
double pn_filter_log_evidence(const pn_filter *f) { return f ? f->log_evidence : 0; }
double pn_filter_effective_sample_size(const pn_filter *f) { return f ? f->steps ? f->summary[1] : INFINITY : 0; }
const double *pn_filter_mean(const pn_filter *f) { return f ? f->summary + HEAD : NULL; }
const double *pn_filter_variance(const pn_filter *f) { return f ? f->summary + HEAD + f->states : NULL; }

/* ---- saved and restored: the carry, the summary and, as texts, what is no tensor ---- */

static const char KEY[] = "penumbra.filter";

static pn_status describe(pn_context *c, const pn_filter *f, pn_archive *a) {
  char text[PNI_SHAPE_TEXT];
  uint64_t state[2], bits;
  pn_rng_get_state(pn_context_rng(c), state);
  memcpy(&bits, &f->log_evidence, sizeof bits);
  snprintf(text, sizeof text, "%s %lld %lld %lld %llx %llx %llx", f->exact ? "exact" : "particles",
           (long long)f->observed, (long long)f->states, (long long)f->steps, (unsigned long long)bits,
           (unsigned long long)state[0], (unsigned long long)state[1]);
  return pn_archive_set_text(c, a, KEY, text);
}

static int carried(const pn_filter *f) { return f->steps ? f->parts : 0; }

pn_status pn_filter_save(pn_context *c, const pn_filter *f, const char *path) {
  if (!PNI_GIVEN(c, "filter_save", f)) return c->status;
  pn_archive *a = pn_archive_new(c);
  int64_t n = HEAD + 2 * f->states;
  size_t mark = pn_scope_open(c);
  pn_tensor *summary = pn_from_data(c, PN_FLOAT64, 1, &n, f->summary);
  if (a && summary && describe(c, f, a) == PN_OK && pn_archive_add(c, a, "summary", summary) == PN_OK)
    for (int k = 0; k < carried(f); k++) {
      char name[32];
      snprintf(name, sizeof name, "state.%d", k + 1);
      if (pn_archive_add(c, a, name, f->carry[k])) break;
    }
  if (!pni_failed(c)) pn_save_safetensors(c, path, a);
  pn_scope_close(c, mark);
  pn_archive_free(a);
  return c->status;
}

/* What part k must be: of a particle filter as its plans give it. */
static const pn_tensor *form(const pn_filter *f, int k) { return f->exact ? f->carry[0] : result(f->plan[STEP], k); }

/* ---- numbers out of a file: such as a filter can have ---- */

static const long long MOST_STEPS = (long long)1 << 53; /* exact as a double, which is what a plan gets */

/* Do steps weigh or resample by what part k of the carry was? */
static bool is_weights(const pn_filter *f, int k) {
  for (int i = STEP; i < PLANS; i += STEP_MISSING - STEP) {
    const pni_tape *tape = f->plan[i]->tape;
    for (int64_t j = 0; j < tape->note.n; j++) {
      const pni_note *note = &tape->note.v[j];
      for (int e = 0; (note->op == &pni_smc_op_weigh || note->op == &pni_smc_op_resample) && e < note->nin; e++)
        if (tape->edge.v[note->first + e] == k) return true;
    }
  }
  return false;
}

static bool all_finite(const double *v, int64_t n) {
  int64_t i = 0;
  while (i < n && isfinite(v[i])) i++;
  return i == n;
}

/* Variances, `step` apart: one of 0 may be below it by rounding. */
static bool are_variances(const double *v, int64_t n, int64_t step) {
  double largest = 0, least = 0;
  for (int64_t i = 0; i < n; i++) {
    largest = fmax(largest, v[i * step]);
    least = fmin(least, v[i * step]);
  }
  return least >= -1e-6 * largest;
}

static bool is_part(pn_context *c, const pn_filter *f, int k, const pn_tensor *t) {
  int64_t n = f->states;
  const double *row = pni_data(t);
  if (f->exact) return all_finite(row, t->numel) && are_variances(row + n, n, n + 1);
  return !is_weights(f, k) || pni_is_weighed(c, t);
}

/* Comparisons are such that a NaN fails them. */
static bool is_summary(const pn_filter *f, double log_evidence, const double *v) {
  if (!(log_evidence < INFINITY && v[0] < INFINITY && v[1] >= 0)) return false;
  const double *mean = v + HEAD, *variance = mean + f->states;
  return !f->exact || (all_finite(mean, 2 * f->states) && are_variances(variance, f->states, 1));
}

/* What the text says. */
typedef struct {
  char kind[16];
  long long observed, states, steps;
  unsigned long long log_evidence, state[2];
} described;

static bool read_text(const pn_filter *f, const char *text, described *d) {
  int found = text ? sscanf(text, "%15s %lld %lld %lld %llx %llx %llx", d->kind, &d->observed, &d->states, &d->steps,
                            &d->log_evidence, &d->state[0], &d->state[1])
                   : 0;
  return found == 7 && strcmp(d->kind, f->exact ? "exact" : "particles") == 0 && d->observed == f->observed &&
         d->states == f->states && d->steps >= 0 && d->steps <= MOST_STEPS;
}

/* Copies of the parts that the file must hold. New. */
static pn_status read_parts(pn_context *c, const pn_filter *f, const pn_archive *a, int n, pn_tensor **own) {
  for (int k = 0; k < n; k++) {
    char name[32];
    snprintf(name, sizeof name, "state.%d", k + 1);
    const pn_tensor *t = pn_archive_find(a, name);
    if (!t || !alike(t, form(f, k)))
      return pni_fail(c, PN_FORMAT, "load: '%s' must be a part of the state of such a filter", name);
    pni_spec spec = pni_spec_of(t);
    own[k] = pni_tensor_new(c, &spec);
    if (!own[k] || pni_copy(c, own[k], t)) return c->status;
    if (!is_part(c, f, k, own[k]))
      return pni_fail(c, PN_FORMAT, "load: '%s' must hold numbers that such a filter can have", name);
  }
  return PN_OK;
}

/* Takes the parts over. */
static void put_parts(pn_filter *f, pn_tensor **own) {
  for (int k = 0; k < f->parts; k++) {
    if (!own[k]) continue;
    pn_tensor_unref(f->carry[k]);
    f->carry[k] = own[k];
  }
}

static pn_status take(pn_context *c, pn_filter *f, const pn_archive *a) {
  described d = {.steps = -1};
  const pn_tensor *summary = pn_archive_find(a, "summary");
  int64_t n = HEAD + 2 * f->states;
  if (!read_text(f, pn_archive_text(a, KEY), &d) || !summary || summary->dtype != PN_FLOAT64 || summary->numel != n)
    return pni_fail(c, PN_FORMAT, "load: the file must hold the state of such a filter");
  double log_evidence;
  memcpy(&log_evidence, &d.log_evidence, sizeof log_evidence);
  if (!is_summary(f, log_evidence, pni_data(summary)))
    return pni_fail(c, PN_FORMAT, "load: 'summary' must hold numbers that such a filter can have");
  pn_tensor *own[MOST_PARTS] = {0};
  if (read_parts(c, f, a, d.steps ? f->parts : 0, own)) {
    for (int k = 0; k < MOST_PARTS; k++) pn_tensor_unref(own[k]);
    return c->status;
  }
  pn_filter_reset(f);
  put_parts(f, own);
  for (int64_t i = 0; i < n; i++) f->summary[i] = pni_element(summary, i);
  f->steps = d.steps;
  f->log_evidence = log_evidence;
  pn_rng_set_state(pn_context_rng(c), (uint64_t[]){d.state[0], d.state[1]});
  return PN_OK;
}

pn_status pn_filter_load(pn_context *c, pn_filter *f, const char *path) {
  if (!PNI_GIVEN(c, "filter_load", f) || pni_refuse_capture(c, "loading a filter", "load it outside")) return c->status;
  pn_archive *a = pn_load_safetensors(c, path);
  if (a) take(c, f, a);
  pn_archive_free(a);
  return c->status;
}

/* ---- copies ---- */

static pn_tensor *copy_of(pn_context *c, const pn_tensor *t) {
  if (!t || pni_failed(c)) return NULL;
  pni_spec spec = pni_spec_of(t);
  pn_tensor *own = pni_tensor_new(c, &spec);
  if (own && t->numel) memcpy(pni_data(own), pni_data(t), (size_t)t->numel * pni_itemsize(t)); /* all are contiguous */
  return own;
}

pn_filter *pn_filter_copy(pn_context *c, const pn_filter *old) {
  if (!PNI_GIVEN(c, "filter_copy", old)) return NULL;
  pn_filter *f = start(c, old->observed, old->states);
  if (!f) return NULL;
  f->exact = old->exact;
  f->parts = old->parts;
  f->steps = old->steps;
  f->log_evidence = old->log_evidence;
  if (!pni_failed(c)) memcpy(f->summary, old->summary, (size_t)(HEAD + 2 * f->states) * sizeof *f->summary);
  for (int k = 0; k < PLANS && !pni_failed(c); k++)
    if (old->plan[k]) f->plan[k] = pn_plan_copy(c, old->plan[k]);
  for (int k = 0; k < OPERANDS; k++) f->model[k] = copy_of(c, old->model[k]);
  for (int k = 0; k < MOST_PARTS; k++) f->carry[k] = copy_of(c, old->carry[k]);
  f->spare = copy_of(c, old->spare);
  return finish(c, f);
}
