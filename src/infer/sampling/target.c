/*
** target.c: densities as hosts see them: plans of a model, or a function of the host, in one context.
*/
#include <string.h>
#include "sampler.h"

struct pn_target {
  pn_context *c;
  int64_t n, nvalues;
  pni_density density;
  pn_plan *values; /* NULL: z itself */
  int count;       /* of variables */
  pn_variable *variable;
  char *text; /* their names */
};

/* ---- making ---- */

/* The variables with their places and names of the target's own. */
static pn_status keep_variables(pn_context *c, pn_target *t, int count, const pn_variable *v) {
  size_t size = 0;
  for (int i = 0; i < count; i++) {
    if (!PNI_GIVEN(c, "target: variables", v[i].name)) return c->status;
    if (!pni_shape_given(c, "target: variables", v[i].ndim, v[i].shape)) return c->status;
    size += strlen(v[i].name) + 1;
  }
  t->variable = pni_alloc_array(c, count, sizeof *t->variable);
  if (!t->variable) return c->status;
  t->count = count;
  t->text = pni_alloc(c, size);
  if (!t->text) return c->status;
  char *at = t->text;
  for (int i = 0; i < count; i++) {
    pn_variable *to = &t->variable[i];
    size_t length = strlen(v[i].name) + 1;
    *to = v[i];
    to->name = memcpy(at, v[i].name, length);
    at += length;
    to->first = t->nvalues;
    pni_spec spec = {.ndim = to->ndim};
    memcpy(spec.shape, to->shape, sizeof spec.shape);
    to->size = pni_checked_count(c, &spec);
    if (to->size < 0) return c->status;
    t->nvalues += to->size; /* at most 2^44 each */
  }
  return PN_OK;
}

static pn_target *new_target(pn_context *c, int64_t n) {
  pn_target *t = pni_calloc(c, sizeof *t);
  if (!t) return NULL;
  t->c = c;
  t->n = n;
  pni_object_born(c);
  return t;
}

static pn_target *finish(pn_context *c, pn_target *t) {
  if (!pni_failed(c)) return t;
  pn_target_free(t);
  return NULL;
}

static pn_status check_values(pn_context *c, const pn_target *t, const pn_plan *values) {
  if (values ? pni_plan_is_plain(values, t->n, 1, &t->nvalues) : t->nvalues == t->n) return PN_OK;
  return pni_fail(c, PN_SHAPE,
                  "target: values must be a plan z [%lld] -> [%lld], float64, as the variables' shapes say",
                  (long long)t->n, (long long)t->nvalues);
}

pn_target *pn_target_new(pn_context *c, const pn_plan *density, const pn_plan *values, int n_variables,
                         const pn_variable *variables) {
  if (!PNI_GIVEN(c, "target_new", density)) return NULL;
  if (values && !PNI_LISTED(c, "target_new", n_variables, variables)) return NULL;
  int64_t n = pni_density_size(density);
  const pn_variable whole = {.name = "z", .ndim = 1, .shape = {n}};
  if (!n) {
    pni_fail(c, PN_SHAPE, "target: density must give a log density [1] and its gradient [n] at z [n], all float64");
    return NULL;
  }
  pn_target *t = new_target(c, n);
  if (!t) return NULL;
  if (keep_variables(c, t, values ? n_variables : 1, values ? variables : &whole) || check_values(c, t, values))
    return finish(c, t);
  t->density.plan = pn_plan_copy(c, density);
  if (values) t->values = pn_plan_copy(c, values);
  return finish(c, t);
}

pn_target *pn_target_of_function(pn_context *c, int64_t n, pn_density f, void *data) {
  if (pni_failed(c)) return NULL;
  if (n < 1 || n > INT32_MAX || !f) {
    pni_fail(c, PN_DOMAIN, "target: needs a function of 1 to %d numbers, got %lld", INT32_MAX, (long long)n);
    return NULL;
  }
  const pn_variable whole = {.name = "z", .ndim = 1, .shape = {n}};
  pn_target *t = new_target(c, n);
  if (!t) return NULL;
  t->density = (pni_density){.f = f, .data = data};
  keep_variables(c, t, 1, &whole);
  return finish(c, t);
}

pn_target *pn_target_copy(pn_context *c, const pn_target *old) {
  if (!PNI_GIVEN(c, "target_copy", old)) return NULL;
  pn_target *t = new_target(c, old->n);
  if (!t) return NULL;
  t->density = old->density;
  t->density.plan = NULL;
  if (keep_variables(c, t, old->count, old->variable)) return finish(c, t);
  if (old->density.plan) t->density.plan = pn_plan_copy(c, old->density.plan);
  if (old->values) t->values = pn_plan_copy(c, old->values);
  return finish(c, t);
}

void pn_target_free(pn_target *t) {
  if (!t) return;
  pn_context *c = t->c;
  pn_plan_unref(t->density.plan);
  pn_plan_unref(t->values);
  pni_free(c, t->text);
  pni_free(c, t->variable);
  pni_free(c, t);
  pni_object_died(c);
}

/* ---- asking ---- */

int64_t pn_target_size(const pn_target *t) { return t ? t->n : 0; }
int64_t pn_target_num_values(const pn_target *t) { return t ? t->nvalues : 0; }
int pn_target_num_variables(const pn_target *t) { return t ? t->count : 0; }

const pn_variable *pn_target_variable(const pn_target *t, int i) {
  if (!t) return NULL;
  return i >= 0 && i < t->count ? &t->variable[i] : NULL;
}

pn_status pn_target_evaluate(pn_context *c, pn_target *t, const double *z, double *log_density, double *gradient) {
  if (!PNI_GIVEN(c, "target_evaluate", t, z, log_density, gradient) || pni_check_cancel(c)) return c->status;
  if (pni_refuse_capture(c, "a target", "evaluate it outside")) return c->status;
  return pni_density_at(c, &t->density, t->n, z, log_density, gradient);
}

pn_status pn_target_constrain(pn_context *c, pn_target *t, int64_t rows, const double *z, double *values) {
  if (!PNI_GIVEN(c, "target_constrain", t) || !PNI_LISTED(c, "target_constrain", rows, z, values)) return c->status;
  if (pni_refuse_capture(c, "a target", "evaluate it outside")) return c->status;
  if (!t->values && rows > 0) memcpy(values, z, (size_t)(rows * t->n) * sizeof *z);
  for (int64_t i = 0; t->values && i < rows; i++)
    if (pni_check_cancel(c) || pni_plan_call(c, t->values, z + i * t->n, (double *[]){values + i * t->nvalues})) break;
  return c->status;
}

pn_sampler *pn_target_sampler(pn_context *c, const pn_target *t, const pn_sampler_config *config, pn_tensor *start,
                              pn_rng *rng) {
  if (!PNI_GIVEN(c, "target_sampler", t)) return NULL;
  return pni_sampler_new(c, &t->density, t->n, config, start, rng);
}
