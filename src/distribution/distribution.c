/*
** distribution.c: making distributions. Parameters are checked against their constraints once, here; shapes
** are bound by the letters of the rows.
*/
#include <stdio.h>
#include <string.h>
#include "distribution.h"

static const pni_distribution *const rows[] = {
#define X(name) &pni_dist_##name,
#include "distribution.def"
#undef X
};

int pni_dist_count(void) { return (int)(sizeof rows / sizeof rows[0]); }
const pni_distribution *pni_dist_at(int i) { return i >= 0 && i < pni_dist_count() ? rows[i] : NULL; }
int pn_dist_kind_count(void) { return pni_dist_count(); }
const char *pn_dist_kind_name(int i) { return pni_dist_at(i) ? pni_dist_at(i)->name : NULL; }

const pni_distribution *pni_dist_find(const char *name) {
  for (int i = 0; i < pni_dist_count(); i++)
    if (strcmp(rows[i]->name, name) == 0) return rows[i];
  return NULL;
}

bool pni_dist_has(const pni_distribution *kind, const char *function) {
  if (strcmp(function, "log_cdf") == 0 || strcmp(function, "log_survival") == 0) return kind->cdf != NULL;
#define X(id)                                                                                                          \
  if (strcmp(function, #id) == 0) return kind->id != NULL;
  PNI_DIST_VALUES PNI_DIST_POINTS
#undef X
      if (strcmp(function, "stddev") == 0) return kind->variance != NULL;
  if (strcmp(function, "sample") == 0) return kind->sample || kind->rsample;
  return strcmp(function, "rsample") == 0 && kind->rsample;
}

/* ---- references ---- */

pn_dist *pn_dist_ref(pn_dist *d) {
  if (d) d->refs++;
  return d;
}

/* Frees d but for its parts; those that nobody else holds are pushed on the list. */
static pn_dist *take_apart(pn_dist *d, pn_dist *list) {
  pn_context *c = d->ctx;
  for (int k = 0; k < PNI_DIST_PARAMS; k++) pn_tensor_unref(d->param[k]);
  for (int i = 0; i < d->nparts; i++) {
    pn_dist *p = d->part[i];
    if (!p || --p->refs > 0) continue;
    p->next = list;
    list = p;
  }
  pni_free(c, d->part);
  pn_bijector_unref(d->map);
  pni_free(c, d);
  pni_object_died(c);
  return list;
}

void pn_dist_unref(pn_dist *d) {
  if (!d || --d->refs > 0) return;
  d->next = NULL;
  for (pn_dist *list = d; list;) {
    pn_dist *first = list;
    list = take_apart(first, first->next);
  }
}

pn_status pni_nest(pn_context *c, const char *where, int *depth, int part) {
  if (part >= PNI_NESTING)
    return pni_fail(c, PN_DOMAIN, "%s: parts must nest at most %d levels deep, got %d", where, PNI_NESTING, part + 1);
  if (*depth <= part) *depth = part + 1;
  return PN_OK;
}

pn_dist *pni_dist_shell(pn_context *c, const pni_distribution *kind) {
  pn_dist *d = pni_calloc(c, sizeof *d);
  if (!d) return NULL;
  d->refs = 1;
  d->ctx = c;
  d->kind = kind;
  d->support = kind->support;
  d->flags = kind->flags;
  pni_object_born(c);
  return d;
}

pn_status pni_use(pn_context *c, const char *where, int *uses, int part) {
  *uses += 1 + part; /* neither is above PNI_USES */
  if (*uses <= PNI_USES) return PN_OK;
  return pni_fail(c, PN_DOMAIN, "%s: parts must be at most %d, each counted as often as it is used, got %d", where,
                  PNI_USES, *uses);
}

static pn_dist *copy(pn_context *c, const pn_dist *d) {
  pn_dist *e = pni_dist_shell(c, d->kind);
  if (!e) return NULL;
  pn_dist **part = d->nparts ? pni_alloc_array(c, d->nparts, sizeof *part) : NULL;
  if (d->nparts && !part) {
    pn_dist_unref(e);
    return NULL;
  }
  memcpy(e, d, sizeof *e);
  e->refs = 1;
  e->part = part;
  for (int i = 0; i < d->nparts; i++) part[i] = pn_dist_ref(d->part[i]);
  pn_bijector_ref(e->map);
  for (int k = 0; k < PNI_DIST_PARAMS; k++) pn_tensor_ref(e->param[k]);
  return e;
}

/* ---- parameters ---- */

static int parameters(const pni_distribution *kind) {
  int n = 0;
  while (n < PNI_DIST_PARAMS && kind->param[n].name) n++;
  return n;
}

static int parameter(const pni_distribution *kind, const char *name) {
  for (int k = 0; k < parameters(kind); k++)
    if (strcmp(kind->param[k].name, name) == 0) return k;
  return -1;
}

/* The parameter that positional argument i means: alternatives after the first are passed over. */
static int positional(const pni_distribution *kind, int i) {
  int seen = 0;
  for (int k = 0; k < parameters(kind); k++) {
    int choice = kind->param[k].choice;
    if (choice && k && kind->param[k - 1].choice == choice) continue;
    if (seen++ == i) return k;
  }
  return -1;
}

static pn_status accept(pn_context *c, pn_dist *d, int k, pn_tensor *t) {
  const pni_distribution *kind = d->kind;
  const pni_parameter *p = &kind->param[k];
  int rank = (int)strlen(p->axes);
  if (!pni_is_float(t))
    return pni_fail(c, PN_DTYPE, "%s: %s must be float64 or float32, got %s (convert with :to)", kind->name, p->name,
                    pn_dtype_name((pn_dtype)t->dtype));
  for (int j = 0; j < PNI_DIST_PARAMS; j++)
    if (d->param[j] && d->param[j]->dtype != t->dtype)
      return pni_fail(c, PN_DTYPE, "%s: parameters must have one dtype, got %s for %s and %s for %s (convert with :to)",
                      kind->name, pn_dtype_name((pn_dtype)d->param[j]->dtype), kind->param[j].name,
                      pn_dtype_name((pn_dtype)t->dtype), p->name);
  char got[PNI_SHAPE_TEXT];
  if (t->ndim < rank)
    return pni_fail(c, PN_SHAPE, "%s: %s must have at least %d %s, got shape %s", kind->name, p->name, rank,
                    rank == 1 ? "axis" : "axes", pni_shape_text(t->ndim, t->shape, got));
  if (p->constraint->discrete && pn_tensor_requires_grad(t) && !c->no_grad)
    return pni_fail(c, PN_DOMAIN, "%s: %s is a whole number: no gradient exists; pass it detached", kind->name,
                    p->name);
  d->param[k] = pn_tensor_ref(t);
  d->given |= 1u << k;
  d->dtype = t->dtype;
  return PN_OK;
}

static pn_status accept_all(pn_context *c, pn_dist *d, int n, const char *const *names, pn_tensor *const *values) {
  const pni_distribution *kind = d->kind;
  for (int i = 0; i < n; i++) {
    int k = names ? parameter(kind, names[i]) : positional(kind, i);
    if (k < 0 && names) return pni_fail(c, PN_MISSING, "%s: there is no parameter '%s'", kind->name, names[i]);
    if (k < 0)
      return pni_fail(c, PN_MISSING, "%s: number of positional parameters must be at most %d, got %d", kind->name, i,
                      n);
    if (d->param[k]) return pni_fail(c, PN_STATE, "%s: %s is given twice", kind->name, kind->param[k].name);
    if (accept(c, d, k, values[i])) return c->status;
  }
  return PN_OK;
}

/* Exactly one of the alternatives that share `choice` is there. */
static pn_status check_choice(pn_context *c, const pn_dist *d, int choice) {
  const pni_parameter *p = d->kind->param;
  char text[PNI_SHAPE_TEXT] = "";
  int there = 0;
  for (int k = 0, n = 0; k < parameters(d->kind); k++) {
    if (p[k].choice != choice) continue;
    there += d->param[k] != NULL;
    if (n < 120) n += snprintf(text + n, sizeof text - (size_t)n, n ? ", %s" : "%s", p[k].name);
  }
  if (there == 1) return PN_OK;
  return pni_fail(c, PN_MISSING, "%s: exactly one of %s must be given, got %d of them", d->kind->name, text, there);
}

/* What stands for parameter k that was not given; its event has the sizes of another's with the same axes. */
static pn_tensor *absent(pn_context *c, const pn_dist *d, int k) {
  const pni_parameter *p = d->kind->param;
  int rank = (int)strlen(p[k].axes), like = 0;
  while (rank && like < k && (!d->param[like] || strcmp(p[like].axes, p[k].axes) != 0)) like++;
  const int64_t *shape = rank && d->param[like] ? d->param[like]->shape + d->param[like]->ndim - rank : NULL;
  return pn_full(c, (pn_dtype)d->dtype, shape ? rank : 0, shape, p[k].absent);
}

static pn_status complete(pn_context *c, pn_dist *d) {
  const pni_parameter *p = d->kind->param;
  for (int k = 0; k < parameters(d->kind); k++) {
    if (d->param[k]) continue;
    if (p[k].choice) {
      if (check_choice(c, d, p[k].choice)) return c->status;
      continue;
    }
    if (!p[k].optional) return pni_fail(c, PN_MISSING, "%s: %s is missing", d->kind->name, p[k].name);
    pn_tensor *t = absent(c, d, k);
    if (!t) return c->status;
    d->param[k] = pn_tensor_ref(t);
    d->given |= 1u << k;
  }
  for (int k = 0; k < parameters(d->kind); k++) /* two alternatives at once */
    if (p[k].choice && check_choice(c, d, p[k].choice)) return c->status;
  return PN_OK;
}

/* ---- shapes ---- */

/* Binds the letters of parameter k's event axes to its sizes. */
static pn_status bind_axes(pn_context *c, const pn_dist *d, int k, int64_t size[26]) {
  const pni_parameter *p = &d->kind->param[k];
  const pn_tensor *t = d->param[k];
  int rank = (int)strlen(p->axes);
  for (int i = 0; i < rank; i++) {
    int64_t *s = &size[p->axes[i] - 'a'], n = t->shape[t->ndim - rank + i];
    if (*s < 0) *s = n;
    if (*s == n) continue;
    char got[PNI_SHAPE_TEXT];
    return pni_fail(c, PN_SHAPE, "%s: event axes of %s must have size %lld, got shape %s", d->kind->name, p->name,
                    (long long)*s, pni_shape_text(t->ndim, t->shape, got));
  }
  return PN_OK;
}

/* Binds the letter whose size parameter k is. */
static pn_status bind_size(pn_context *c, const pn_dist *d, int k, int64_t size[26]) {
  const pni_parameter *p = &d->kind->param[k];
  const pn_tensor *t = d->param[k];
  char got[PNI_SHAPE_TEXT];
  if (pni_constraint_require(c, p->constraint, d->kind->name, p->name, t)) return c->status;
  if (t->ndim)
    return pni_fail(c, PN_SHAPE, "%s: %s must be one number, got shape %s", d->kind->name, p->name,
                    pni_shape_text(t->ndim, t->shape, got));
  if (pni_check_read(c, t, p->name)) return c->status;
  if (pni_element(t, 0) > INT32_MAX)
    return pni_fail(c, PN_DOMAIN, "%s: %s must be at most %d, got %.7g", d->kind->name, p->name, INT32_MAX,
                    pni_element(t, 0));
  size[p->size - 'a'] = (int64_t)pni_element(t, 0);
  return PN_OK;
}

/* batch = broadcast(batch, first axes of t). */
static pn_status widen(pn_context *c, const pn_dist *d, int k, pni_spec *batch) {
  const pn_tensor *t = d->param[k];
  int n = t->ndim - (int)strlen(d->kind->param[k].axes), ndim = n > batch->ndim ? n : batch->ndim;
  pni_spec out = {.ndim = ndim};
  for (int i = 1; i <= ndim; i++) {
    int64_t a = i <= batch->ndim ? batch->shape[batch->ndim - i] : 1, b = i <= n ? t->shape[n - i] : 1;
    if (a != b && a != 1 && b != 1) {
      char x[PNI_SHAPE_TEXT], y[PNI_SHAPE_TEXT];
      return pni_fail(c, PN_SHAPE, "%s: batch shapes of the parameters must broadcast, got %s for %s after %s",
                      d->kind->name, pni_shape_text(n, t->shape, x), d->kind->param[k].name,
                      pni_shape_text(batch->ndim, batch->shape, y));
    }
    out.shape[ndim - i] = a == 1 ? b : a;
  }
  *batch = out;
  return PN_OK;
}

static pn_status find_shape(pn_context *c, pn_dist *d) {
  int64_t size[26];
  for (int i = 0; i < 26; i++) size[i] = -1;
  pni_spec batch = {0};
  for (int k = 0; k < parameters(d->kind); k++)
    if (d->kind->param[k].size && bind_size(c, d, k, size)) return c->status;
  for (int k = 0; k < parameters(d->kind); k++)
    if (d->param[k] && (bind_axes(c, d, k, size) || widen(c, d, k, &batch))) return c->status;
  d->batch_ndim = batch.ndim;
  d->event_ndim = (int)strlen(d->kind->event);
  if (d->batch_ndim + d->event_ndim > PN_MAX_DIMS)
    return pni_fail(c, PN_SHAPE, "%s: at most %d axes are possible", d->kind->name, PN_MAX_DIMS);
  memcpy(d->shape, batch.shape, sizeof d->shape);
  for (int i = 0; i < d->event_ndim; i++) {
    char axis = d->kind->event[i];
    d->shape[d->batch_ndim + i] = axis <= '9' ? axis - '0' : axis <= 'Z' ? size[axis - 'A'] + 1 : size[axis - 'a'];
  }
  return PN_OK;
}

/* ---- making ---- */

static pn_status check_values(pn_context *c, pn_dist *d) {
  const pni_parameter *p = d->kind->param;
  for (int k = 0; k < parameters(d->kind); k++)
    if (d->param[k] && pni_constraint_require(c, p[k].constraint, d->kind->name, p[k].name, d->param[k]))
      return c->status;
  for (int k = 0; k < parameters(d->kind); k++) {
    if (d->param[k] || !p[k].kept) continue;
    pn_tensor *t = p[k].derive(c, d);
    if (!t) return c->status;
    d->param[k] = pn_tensor_ref(t);
  }
  return d->kind->check ? d->kind->check(c, d) : PN_OK;
}

/* The elements as float64 row by row in the shape of s: t itself or a copy. New. */
static pn_tensor *doubles(pn_context *c, pn_tensor *t, const pni_spec *s) {
  if (t->dtype == PN_FLOAT64 && pni_is_contiguous(t) && t->numel == pni_count(s->ndim, s->shape))
    return pn_tensor_ref(t);
  pn_tensor *copy = pni_tensor_new(c, s);
  if (!copy || pni_copy(c, copy, t) == PN_OK) return copy;
  pn_tensor_unref(copy);
  return NULL;
}

static pn_status require_order(pn_context *c, const pni_distribution *kind, int low, int high, pn_tensor *const *in) {
  pni_spec s;
  if (pni_broadcast(c, kind->name, in[0], in[1], &s)) return c->status;
  s.dtype = PN_FLOAT64;
  pn_tensor *a = doubles(c, in[0], &s), *b = a ? doubles(c, in[1], &s) : NULL;
  if (a && b) {
    const double *x = pni_data(a), *y = pni_data(b);
    int64_t i = pni_count_below(x, y, a->numel) == a->numel ? a->numel : 0;
    while (i < a->numel && x[i] < y[i]) i++;
    if (i < a->numel)
      pni_fail(c, PN_DOMAIN, "%s: %s must be above %s, got %.7g for %.7g", kind->name, kind->param[high].name,
               kind->param[low].name, y[i], x[i]);
  }
  pn_tensor_unref(a);
  pn_tensor_unref(b);
  return c->status;
}

/* The same as an operation without a result, so that a plan checks anew. attr: kind, low, high. */
static pn_status infer_order(pn_context *c, const pni_call *call, pni_spec *out) {
  (void)c, (void)call;
  *out = (pni_spec){.dtype = PN_BOOL};
  return PN_OK;
}

static pn_status eval_order(pn_context *c, const pni_call *call, pn_tensor *out) {
  const int64_t *i = call->attr->i;
  *(uint8_t *)pni_data(out) = 1;
  return require_order(c, (const pni_distribution *)(intptr_t)i[0], (int)i[1], (int)i[2], call->in);
}

static const pni_op order = {.name = "require_order",
                             .flags = PNI_OP_ANY_DTYPE | PNI_OP_NODIFF | PNI_OP_HIDDEN | PNI_OP_CHECK,
                             .infer = infer_order,
                             .eval = eval_order};

pn_status pni_dist_require_order(pn_context *c, const pn_dist *d, int low, int high) {
  pn_tensor *in[2] = {d->param[low], d->param[high]};
  if (pni_failed(c)) return c->status;
  if (!c->recorder) return require_order(c, d->kind, low, high, in);
  pni_attr a = {.ni = 3, .i = {(int64_t)(intptr_t)d->kind, low, high}};
  pni_apply(c, &order, 2, in, &a);
  return c->status;
}

pn_dist *pn_dist_new(pn_context *c, const char *name, int n, const char *const *names, pn_tensor *const *values) {
  if (!PNI_GIVEN(c, "dist_new", name) || !PNI_LISTED(c, "dist_new", n, values)) return NULL;
  const pni_distribution *kind = pni_dist_find(name);
  if (!kind) {
    pni_fail(c, PN_MISSING, "dist_new: there is no distribution '%s'", name);
    return NULL;
  }
  for (int i = 0; i < n; i++)
    if (!values[i]) {
      pni_fail(c, PN_STATE, "%s: parameter %d must be a tensor, got NULL", name, i + 1);
      return NULL;
    }
  pn_dist *d = pni_dist_shell(c, kind);
  if (!d) return NULL;
  size_t mark = pn_scope_open(c);
  bool ok = accept_all(c, d, n, names, values) == PN_OK && complete(c, d) == PN_OK && find_shape(c, d) == PN_OK &&
            check_values(c, d) == PN_OK;
  pn_scope_close(c, mark);
  if (ok) return d;
  pn_dist_unref(d);
  return NULL;
}

/* ---- other views of the same distribution ---- */

pn_dist *pn_dist_independent(pn_context *c, const pn_dist *d, int k) {
  if (!PNI_GIVEN(c, "dist_independent", d)) return NULL;
  if (k < 0 || k > d->batch_ndim) {
    pni_fail(c, PN_SHAPE, "%s: independent: k must be 0 to the number of batch axes, %d, got %d", d->kind->name,
             d->batch_ndim, k);
    return NULL;
  }
  pn_dist *e = copy(c, d);
  if (!e) return NULL;
  e->batch_ndim -= k;
  e->event_ndim += k;
  e->moved += k;
  return e;
}

pn_dist *pn_dist_expand(pn_context *c, const pn_dist *d, int ndim, const int64_t *shape) {
  if (!PNI_GIVEN(c, "dist_expand", d) || !pni_shape_given(c, "dist_expand", ndim, shape)) return NULL;
  char a[PNI_SHAPE_TEXT], b[PNI_SHAPE_TEXT];
  int lead = ndim - d->batch_ndim;
  bool fits = lead >= 0 && ndim + d->event_ndim <= PN_MAX_DIMS;
  for (int i = 0; fits && i < ndim; i++)
    fits = shape[i] >= 0 && (i < lead || d->shape[i - lead] == 1 || d->shape[i - lead] == shape[i]);
  if (!fits) {
    pni_fail(c, PN_SHAPE, "%s: expand: batch shape %s must broadcast to the new one, got %s", d->kind->name,
             pni_shape_text(d->batch_ndim, d->shape, a), pni_shape_text(ndim, shape, b));
    return NULL;
  }
  pn_dist *e = copy(c, d);
  if (!e) return NULL;
  memcpy(e->shape, shape, (size_t)ndim * sizeof *shape);
  memcpy(e->shape + ndim, d->shape + d->batch_ndim, (size_t)d->event_ndim * sizeof *shape);
  e->batch_ndim = ndim;
  return e;
}

pn_dist *pn_dist_validate(pn_context *c, const pn_dist *d, int on) {
  if (!PNI_GIVEN(c, "dist_validate", d)) return NULL;
  pn_dist *e = copy(c, d);
  if (e) e->validate = on ? 1 : -1;
  return e;
}

int pn_set_validate(pn_context *c, int on) {
  int old = c->validate;
  c->validate = on != 0;
  return old;
}

/* ---- asking ---- */

const char *pn_dist_name(const pn_dist *d) { return d ? d->kind->name : NULL; }
const char *pn_dist_support(const pn_dist *d) { return d ? d->support->name : NULL; }

const int64_t *pn_dist_batch_shape(const pn_dist *d, int *ndim) {
  if (ndim) *ndim = d ? d->batch_ndim : 0;
  return d ? d->shape : NULL;
}

const int64_t *pn_dist_event_shape(const pn_dist *d, int *ndim) {
  if (ndim) *ndim = d ? d->event_ndim : 0;
  return d ? d->shape + d->batch_ndim : NULL;
}

pn_tensor *pni_dist_param(pn_context *c, const pn_dist *d, int k) {
  return d->param[k] ? d->param[k] : d->kind->param[k].derive(c, d);
}

pn_tensor *pn_dist_param(pn_context *c, const pn_dist *d, const char *name) {
  if (!PNI_GIVEN(c, "dist_param", d, name)) return NULL;
  int k = parameter(d->kind, name);
  if (k < 0) {
    pni_fail(c, PN_MISSING, "%s: there is no parameter '%s'", d->kind->name, name);
    return NULL;
  }
  pn_tensor *t = pni_dist_param(c, d, k);
  return t == d->param[k] ? pni_scoped(c, pn_tensor_ref(t)) : t;
}
