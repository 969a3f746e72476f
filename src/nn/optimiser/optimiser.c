/*
** optimiser.c: optimiser objects: creation, options, the arrays beside the parameters, and their state
** as tensors. The step itself is in optimiser_step.c.
*/
#include <stdio.h>
#include <string.h>
#include "update.h"

static const pni_optimiser *const rows[] = {
#define X(name) &pni_optimiser_##name,
#include "optimiser.def"
#undef X
};

int pni_optimiser_count(void) { return (int)(sizeof rows / sizeof rows[0]); }
const pni_optimiser *pni_optimiser_at(int i) { return i >= 0 && i < pni_optimiser_count() ? rows[i] : NULL; }

const pni_optimiser *pni_optimiser_find(const char *name) {
  for (int i = 0; name && i < pni_optimiser_count(); i++)
    if (strcmp(rows[i]->name, name) == 0) return rows[i];
  return NULL;
}

/* ---- life ---- */

static void destroy(pn_optim *o) {
  pn_context *c = o->ctx;
  size_t n = (size_t)o->n, ns = n * (size_t)o->nslots;
  for (size_t i = 0; o->param && i < n; i++) pn_tensor_unref(o->param[i]);
  for (size_t i = 0; o->slot && i < ns; i++) pn_tensor_unref(o->slot[i]);
  for (size_t i = 0; o->name && i < n; i++)
    if (o->name[i]) pni_free(c, o->name[i]);
  pni_free(c, o->param);
  pni_free(c, o->slot);
  pni_free(c, o->step);
  pni_free(c, o->own);
  pni_free(c, o->name);
  pni_free(c, o);
  pni_object_died(c);
}

pn_optim *pn_optim_ref(pn_optim *o) {
  if (o) o->refs++;
  return o;
}

void pn_optim_unref(pn_optim *o) {
  if (o && --o->refs == 0) destroy(o);
}

/* Every tensor is a parameter and none comes twice. */
static pn_status check_params(pn_context *c, const char *where, int n, pn_tensor *const *p) {
  if (n < 1) return pni_fail(c, PN_STATE, "%s: parameters must be at least one, got none", where);
  int i = 0;
  for (; i < n && !pni_failed(c); i++) {
    if (!p[i] || !(p[i]->flags & PNI_PARAM))
      pni_fail(c, PN_STATE, "%s: parameter %d must be made by param, got %s", where, i + 1,
               p[i] ? "another tensor" : "NULL");
    else if (p[i]->mark)
      pni_fail(c, PN_STATE, "%s: parameter %d must be listed once, got it twice", where, i + 1);
    else
      p[i]->mark = 1;
  }
  for (int k = 0; k < i; k++)
    if (p[k]) p[k]->mark = 0;
  return c->status;
}

static pn_tensor *zeros_like(pn_context *c, const pn_tensor *p) {
  pni_spec s = pni_spec_of(p);
  pn_tensor *t = pni_tensor_new(c, &s);
  if (t) memset(t->storage->data, 0, t->storage->bytes);
  return t;
}

static pn_status fill(pn_context *c, pn_optim *o, pn_tensor *const *params, const char *const *names) {
  o->param = pni_calloc_array(c, o->n, sizeof *o->param);
  o->slot = pni_calloc_array(c, pni_times(o->n, o->nslots), sizeof *o->slot);
  o->step = pni_calloc_array(c, o->n, sizeof *o->step);
  o->name = pni_calloc_array(c, o->n, sizeof *o->name);
  for (int i = 0; i < o->n && !pni_failed(c); i++) {
    o->param[i] = pn_tensor_ref(params[i]);
    for (int k = 0; k < o->nslots; k++) o->slot[i * o->nslots + k] = zeros_like(c, params[i]);
    if (!names || !names[i]) continue;
    o->name[i] = pni_alloc(c, strlen(names[i]) + 1);
    if (o->name[i]) memcpy(o->name[i], names[i], strlen(names[i]) + 1);
  }
  return c->status;
}

pn_optim *pn_optim_new(pn_context *c, const char *type, int n, pn_tensor *const *params, const char *const *names,
                       const pn_option *options) {
  if (!PNI_GIVEN(c, "optim_new", type) || !PNI_LISTED(c, "optim_new", n, params)) return NULL;
  const pni_optimiser *row = pni_optimiser_find(type);
  if (!row) {
    pni_fail(c, PN_MISSING, "optim: there is no optimiser '%s'", type);
    return NULL;
  }
  double v[PNI_OPTIONS];
  if (pni_options_read(c, row->name, row->options, options, v) || check_params(c, row->name, n, params)) return NULL;
  pn_optim *o = pni_calloc(c, sizeof *o);
  if (!o) return NULL;
  pni_object_born(c);
  o->refs = 1;
  o->ctx = c;
  o->type = row;
  o->n = n;
  while (o->nslots < PNI_SLOTS && row->slot[o->nslots]) o->nslots++;
  memcpy(o->option, v, sizeof o->option);
  if (fill(c, o, params, names) == PN_OK) return o;
  destroy(o);
  return NULL;
}

/* ---- options ---- */

pn_status pn_optim_set(pn_context *c, pn_optim *o, const char *option, double value) {
  if (!PNI_GIVEN(c, "optim_set", o, option)) return c->status;
  return pni_option_set(c, o->type->name, o->type->options, &(pn_option){option, value, NULL}, o->option);
}

pn_status pn_optim_get(pn_context *c, const pn_optim *o, const char *option, double *value) {
  if (!PNI_GIVEN(c, "optim_get", o, option, value)) return c->status;
  int i = pni_option_find(o->type->options, option);
  if (i < 0) return pni_fail(c, PN_DOMAIN, "%s: unknown option '%s'", o->type->name, option);
  *value = o->option[i];
  return PN_OK;
}

/* Room for options of single parameters: none has any yet. */
static pn_status make_own(pn_context *c, pn_optim *o) {
  if (o->own) return PN_OK;
  o->own = pni_alloc_array(c, pni_times(o->n, PNI_OWN), sizeof *o->own);
  for (int i = 0; o->own && i < o->n * PNI_OWN; i++) o->own[i] = i % PNI_OWN == PNI_OPTIONS ? 1 : NAN;
  return c->status;
}

pn_status pn_optim_set_own(pn_context *c, pn_optim *o, int i, const char *option, double value) {
  if (!PNI_GIVEN(c, "optim_set_own", o, option)) return c->status;
  const pni_option *list = o->type->options;
  bool factor = option && strcmp(option, "lr_scale") == 0;
  if (i < 0 || i >= o->n)
    return pni_fail(c, PN_DOMAIN, "%s: parameter must lie in 0 to %d, got %d", o->type->name, o->n - 1, i);
  if (factor && !(value >= 0 && value < HUGE_VAL))
    return pni_fail(c, PN_DOMAIN, "%s: lr_scale must be a number from 0, got %g", o->type->name, value);
  if (option && strncmp(option, "clip_", 5) == 0)
    return pni_fail(c, PN_DOMAIN, "%s: '%s' is of all parameters together", o->type->name, option);
  double v[PNI_OPTIONS];
  memcpy(v, o->option, sizeof v);
  if (!factor && pni_option_set(c, o->type->name, list, &(pn_option){option, value, NULL}, v)) return c->status;
  if (make_own(c, o)) return c->status;
  o->own[i * PNI_OWN + (factor ? PNI_OPTIONS : pni_option_find(list, option))] = value;
  return PN_OK;
}

/* ---- state: entry 0 counts the updates, entry 1 + i * nslots + k is slot k of parameter i ---- */

int pn_optim_num_states(const pn_optim *o) { return o ? 1 + o->n * o->nslots : 0; }

const char *pn_optim_state_name(const pn_optim *o, int index, char *buf, size_t size) {
  if (!o || !buf || index < 0 || index >= pn_optim_num_states(o)) return NULL;
  int i = index ? (index - 1) / o->nslots : 0, k = index ? (index - 1) % o->nslots : 0; /* with index there are slots */
  if (index == 0)
    snprintf(buf, size, "step");
  else if (o->name[i])
    snprintf(buf, size, "%s.%s", o->type->slot[k], o->name[i]);
  else
    snprintf(buf, size, "%s.%d", o->type->slot[k], i + 1);
  return buf;
}

static bool valid_index(pn_context *c, const pn_optim *o, int index) {
  if (index >= 0 && index < pn_optim_num_states(o)) return true;
  pni_fail(c, PN_DOMAIN, "%s: state number must lie in 0 to %d, got %d", o->type->name, pn_optim_num_states(o) - 1,
           index);
  return false;
}

pn_tensor *pn_optim_state(pn_context *c, const pn_optim *o, int index) {
  if (!PNI_GIVEN(c, "optim_state", o) || !valid_index(c, o, index)) return NULL;
  if (index == 0) return pn_from_data(c, PN_INT64, 1, (int64_t[]){o->n}, o->step);
  const pn_tensor *t = o->slot[index - 1];
  return pn_from_data(c, (pn_dtype)t->dtype, t->ndim, t->shape, pni_data(t));
}

/* What the numbers of a state tensor must be, or NULL if they are. A sum of squares may have overflown to infinity. */
static const char *wrong_numbers(const pn_optim *o, int index, const pn_tensor *t) {
  enum { MOST_STEPS_LOG2 = 53 };
  const char *data = pni_data(t);
  if (index == 0) {
    const int64_t *step = (const int64_t *)data;
    for (int64_t i = 0; i < t->numel; i++)
      if (step[i] < 0 || step[i] > (int64_t)1 << MOST_STEPS_LOG2) return "be numbers of steps, from 0 to 2^53";
    return NULL;
  }
  bool single = t->dtype == PN_FLOAT32;
  if (!(o->type->squares >> (index - 1) % o->nslots & 1))
    return (single ? pni_finite_f32 : pni_finite_f64)(data, t->numel) ? NULL : "be finite";
  for (int64_t i = 0; i < t->numel; i++)
    if (!((single ? (double)((const float *)data)[i] : ((const double *)data)[i]) >= 0))
      return "be sums of squares, 0 or more";
  return NULL;
}

/* The state tensor as it will be copied. New; NULL if it is none. */
static pn_tensor *checked_state(pn_context *c, const pn_optim *o, int index, pn_tensor *value) {
  pn_tensor steps = {.dtype = PN_INT64, .ndim = 1, .shape = {o->n}};
  const pn_tensor *t = index ? o->slot[index - 1] : &steps;
  char name[128], a[PNI_SHAPE_TEXT], b[PNI_SHAPE_TEXT];
  pn_optim_state_name(o, index, name, sizeof name);
  if (value->dtype != t->dtype) {
    pni_fail(c, PN_DTYPE, "%s: '%s' must be %s, got %s", o->type->name, name, pn_dtype_name((pn_dtype)t->dtype),
             pn_dtype_name((pn_dtype)value->dtype));
    return NULL;
  }
  if (value->ndim != t->ndim || memcmp(value->shape, t->shape, (size_t)t->ndim * sizeof *t->shape) != 0) {
    pni_fail(c, PN_SHAPE, "%s: '%s' must have shape %s, got %s", o->type->name, name,
             pni_shape_text(t->ndim, t->shape, a), pni_shape_text(value->ndim, value->shape, b));
    return NULL;
  }
  pn_tensor *d = pni_contiguous(c, value);
  const char *wrong = d ? wrong_numbers(o, index, d) : NULL;
  if (!wrong) return d;
  pni_fail(c, PN_DOMAIN, "%s: '%s' must %s", o->type->name, name, wrong);
  pn_tensor_unref(d);
  return NULL;
}

pn_status pn_optim_set_state(pn_context *c, pn_optim *o, int index, pn_tensor *value) {
  if (!PNI_GIVEN(c, "optim_set_state", o) || !valid_index(c, o, index)) return c->status;
  if (!value) return pni_fail(c, PN_STATE, "%s: state must be a tensor, got NULL", o->type->name);
  pn_tensor *d = checked_state(c, o, index, value);
  if (!d) return c->status;
  if (d->numel)
    memcpy(index ? pni_data(o->slot[index - 1]) : (void *)o->step, pni_data(d), (size_t)d->numel * pni_itemsize(d));
  pn_tensor_unref(d);
  return PN_OK;
}

pn_status pni_optim_check_state(pn_context *c, const pn_optim *o, int index, pn_tensor *value) {
  if (pni_failed(c) || !valid_index(c, o, index)) return c->status;
  pn_tensor_unref(checked_state(c, o, index, value));
  return c->status;
}

int pn_optim_num_params(const pn_optim *o) { return o ? o->n : 0; }
pn_tensor *pn_optim_param(const pn_optim *o, int i) { return o && i >= 0 && i < o->n ? o->param[i] : NULL; }
const char *pn_optim_type(const pn_optim *o) { return o ? o->type->name : NULL; }
