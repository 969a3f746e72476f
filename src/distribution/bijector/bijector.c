/*
** bijector.c: making bijectors. Parameters are checked against their sets once, here; batch shape and sizes are
** bound by the letters of the rows.
*/
#include "bijector.h"
#include <math.h>
#include <string.h>

static const pni_bijector *const rows[] = {
#define X(name) &pni_bijector_##name,
#include "bijector.def"
#undef X
};

int pni_bijector_count(void) { return (int)(sizeof rows / sizeof rows[0]); }
const pni_bijector *pni_bijector_at(int i) { return i >= 0 && i < pni_bijector_count() ? rows[i] : NULL; }
int pn_bijector_kind_count(void) { return pni_bijector_count(); }
const char *pn_bijector_kind_name(int i) { return pni_bijector_at(i) ? pni_bijector_at(i)->name : NULL; }

const pni_bijector *pni_bijector_find(const char *name) {
  for (int i = 0; i < pni_bijector_count(); i++)
    if (strcmp(rows[i]->name, name) == 0) return rows[i];
  return NULL;
}

/* ---- references ---- */

pn_bijector *pn_bijector_ref(pn_bijector *b) {
  if (b) b->refs++;
  return b;
}

/* Frees b but for its parts; those that nobody else holds are pushed on the list. */
static pn_bijector *take_apart(pn_bijector *b, pn_bijector *list) {
  pn_context *c = b->ctx;
  for (int k = 0; k < PNI_BIJECTOR_PARAMS; k++) pn_tensor_unref(b->param[k]);
  for (int k = 0; k < PNI_BIJECTOR_KEPT; k++) pn_tensor_unref(b->kept[k]);
  for (int i = 0; i < b->nparts; i++) {
    pn_bijector *p = b->part[i];
    if (!p || --p->refs > 0) continue;
    p->next = list;
    list = p;
  }
  pn_tensor_unref(b->last.x);
  pn_tensor_unref(b->last.y);
  pni_free(c, b->part);
  pni_free(c, b);
  pni_object_died(c);
  return list;
}

void pn_bijector_unref(pn_bijector *b) {
  if (!b || --b->refs > 0) return;
  b->next = NULL;
  for (pn_bijector *list = b; list;) {
    pn_bijector *first = list;
    list = take_apart(first, first->next);
  }
}

static pn_bijector *shell(pn_context *c, const pni_bijector *kind) {
  pn_bijector *b = pni_calloc(c, sizeof *b);
  if (!b) return NULL;
  b->refs = 1;
  b->ctx = c;
  b->kind = kind;
  b->dtype = -1;
  b->serial = ++c->maps;
  b->domain = kind->domain;
  b->codomain = kind->codomain;
  b->in_rank = (int)strlen(kind->in);
  b->out_rank = (int)strlen(kind->out);
  pni_object_born(c);
  return b;
}

/* ---- parameters ---- */

static int parameters(const pni_bijector *kind) {
  int n = 0;
  while (n < PNI_BIJECTOR_PARAMS && kind->param[n].name) n++;
  return n;
}

static int parameter(const pni_bijector *kind, const char *name) {
  for (int k = 0; k < parameters(kind); k++)
    if (strcmp(kind->param[k].name, name) == 0) return k;
  return -1;
}

static pn_status accept(pn_context *c, pn_bijector *b, int k, pn_tensor *t) {
  const pni_parameter *p = &b->kind->param[k];
  int rank = (int)strlen(p->axes);
  const char *name = b->kind->name, *type = pn_dtype_name((pn_dtype)t->dtype);
  bool whole = p->constraint->discrete;
  if (whole ? t->dtype != PN_INT64 : !pni_is_float(t))
    return pni_fail(c, PN_DTYPE, "%s: %s must be %s, got %s (convert with :to)", name, p->name,
                    whole ? "int64" : "float64 or float32", type);
  if (!whole && b->dtype >= 0 && b->dtype != t->dtype)
    return pni_fail(c, PN_DTYPE, "%s: parameters must have one dtype, got %s for %s after %s (convert with :to)", name,
                    type, p->name, pn_dtype_name((pn_dtype)b->dtype));
  char got[PNI_SHAPE_TEXT];
  if (t->ndim < rank)
    return pni_fail(c, PN_SHAPE, "%s: %s must have at least %d %s, got shape %s", name, p->name, rank,
                    rank == 1 ? "axis" : "axes", pni_shape_text(t->ndim, t->shape, got));
  b->param[k] = pn_tensor_ref(t);
  b->given |= 1u << k;
  if (!whole) b->dtype = t->dtype;
  return PN_OK;
}

static pn_status accept_all(pn_context *c, pn_bijector *b, int n, const char *const *names, pn_tensor *const *values) {
  const pni_bijector *kind = b->kind;
  for (int i = 0; i < n; i++) {
    int k = names ? parameter(kind, names[i]) : i < parameters(kind) ? i : -1;
    if (!values[i]) return pni_fail(c, PN_STATE, "%s: parameter %d must be a tensor, got NULL", kind->name, i + 1);
    if (k < 0 && names) return pni_fail(c, PN_MISSING, "%s: there is no parameter '%s'", kind->name, names[i]);
    if (k < 0)
      return pni_fail(c, PN_MISSING, "%s: number of positional parameters must be at most %d, got %d", kind->name, i,
                      n);
    if (b->param[k]) return pni_fail(c, PN_STATE, "%s: %s is given twice", kind->name, kind->param[k].name);
    if (accept(c, b, k, values[i])) return c->status;
  }
  for (int k = 0; k < parameters(kind); k++) {
    const pni_parameter *p = &kind->param[k];
    if (b->param[k] || (p->optional && isnan(p->absent))) continue;
    if (!p->optional) return pni_fail(c, PN_MISSING, "%s: %s is missing", kind->name, p->name);
    pn_tensor *t = pn_scalar(c, b->dtype < 0 ? PN_FLOAT64 : (pn_dtype)b->dtype, p->absent);
    if (!t) return c->status;
    b->param[k] = pn_tensor_ref(t);
    b->dtype = t->dtype;
  }
  return PN_OK;
}

/* ---- shapes ---- */

/* Equal letters must mean equal sizes. */
static pn_status bind_axes(pn_context *c, const pn_bijector *b, int k, int64_t size[26]) {
  const pni_parameter *p = &b->kind->param[k];
  const pn_tensor *t = b->param[k];
  int rank = (int)strlen(p->axes);
  for (int i = 0; i < rank; i++) {
    int64_t *s = &size[p->axes[i] - 'a'], n = t->shape[t->ndim - rank + i];
    if (*s < 0) *s = n;
    if (*s == n) continue;
    char got[PNI_SHAPE_TEXT];
    return pni_fail(c, PN_SHAPE, "%s: axis %d of one %s must have size %lld, got shape %s", b->kind->name, i + 1,
                    p->name, (long long)*s, pni_shape_text(t->ndim, t->shape, got));
  }
  return PN_OK;
}

static pn_status find_shape(pn_context *c, pn_bijector *b) {
  int64_t size[26];
  for (int i = 0; i < 26; i++) size[i] = -1;
  pn_tensor batch = {.ndim = 0};
  for (int k = 0; k < parameters(b->kind); k++) {
    if (!b->param[k]) continue;
    pn_tensor own = {.ndim = b->param[k]->ndim - (int)strlen(b->kind->param[k].axes)};
    memcpy(own.shape, b->param[k]->shape, sizeof own.shape);
    pni_spec joint;
    if (bind_axes(c, b, k, size) || pni_broadcast(c, b->kind->name, &batch, &own, &joint)) return c->status;
    batch.ndim = joint.ndim;
    memcpy(batch.shape, joint.shape, sizeof batch.shape);
  }
  b->batch_ndim = batch.ndim;
  memcpy(b->shape, batch.shape, sizeof b->shape);
  return PN_OK;
}

static pn_status check_values(pn_context *c, pn_bijector *b) {
  const pni_parameter *p = b->kind->param;
  for (int k = 0; k < parameters(b->kind); k++)
    if (b->param[k] && pni_constraint_require(c, p[k].constraint, b->kind->name, p[k].name, b->param[k]))
      return c->status;
  return b->kind->check ? b->kind->check(c, b) : PN_OK;
}

/* ---- making ---- */

/* A bijector of the named kind, without parameters, or NULL with the reason in c. */
static pn_bijector *empty(pn_context *c, const char *name) {
  if (pni_failed(c)) return NULL;
  const pni_bijector *kind = pni_bijector_find(name);
  if (kind) return shell(c, kind);
  pni_fail(c, PN_MISSING, "bijector: there is no bijector '%s'", name);
  return NULL;
}

static pn_bijector *keep(pn_bijector *b, bool ok) {
  if (ok) return b;
  pn_bijector_unref(b);
  return NULL;
}

pn_bijector *pn_bijector_new(pn_context *c, const char *kind, int n, const char *const *names,
                             pn_tensor *const *values) {
  if (!PNI_GIVEN(c, "bijector_new", kind) || !PNI_LISTED(c, "bijector_new", n, values)) return NULL;
  pn_bijector *b = empty(c, kind);
  if (!b) return NULL;
  size_t mark = pn_scope_open(c);
  bool ok = true;
  if (b->kind->parts) {
    pni_fail(c, PN_STATE, "%s: is made of bijectors, not of parameters", kind);
    ok = false;
  }
  ok = ok && accept_all(c, b, n, names, values) == PN_OK && find_shape(c, b) == PN_OK && check_values(c, b) == PN_OK;
  pn_scope_close(c, mark);
  return keep(b, ok);
}

pn_bijector *pn_bijector_compose(pn_context *c, const char *kind, int n, pn_bijector *const *parts) {
  if (!PNI_GIVEN(c, "bijector_compose", kind) || !PNI_LISTED(c, "bijector_compose", n, parts)) return NULL;
  pn_bijector *b = empty(c, kind);
  if (!b) return NULL;
  int want = b->kind->parts;
  if (!want || n < 1 || (want > 0 && n != want)) {
    pni_fail(c, PN_STATE,
             want > 0 ? "%s: number of bijectors must be 1, got %d"
             : want   ? "%s: number of bijectors must be at least 1, got %d"
                      : "%s: is not made of bijectors, got %d",
             kind, n);
    return keep(b, false);
  }
  for (int i = 0; i < n; i++)
    if (!parts[i]) {
      pni_fail(c, PN_STATE, "%s: part %d must be a bijector, got NULL", kind, i + 1);
      return keep(b, false);
    }
  for (int i = 0; i < n; i++)
    if (pni_nest(c, kind, &b->depth, parts[i]->depth)) return keep(b, false);
  b->part = pni_alloc_array(c, n, sizeof(pn_bijector *));
  if (!b->part) return keep(b, false);
  b->nparts = n;
  for (int i = 0; i < n; i++) b->part[i] = pn_bijector_ref(parts[i]);
  return keep(b, pni_compose(c, b) == PN_OK);
}

/* ---- asking ---- */

const char *pn_bijector_name(const pn_bijector *b) { return b ? b->kind->name : NULL; }
const char *pn_bijector_domain(const pn_bijector *b) { return b ? b->domain->name : NULL; }
const char *pn_bijector_codomain(const pn_bijector *b) { return b ? b->codomain->name : NULL; }
int pn_bijector_domain_rank(const pn_bijector *b) { return b ? b->in_rank : 0; }
int pn_bijector_codomain_rank(const pn_bijector *b) { return b ? b->out_rank : 0; }

pn_tensor *pn_bijector_param(pn_context *c, const pn_bijector *b, const char *name) {
  if (!PNI_GIVEN(c, "bijector_param", b, name)) return NULL;
  int k = parameter(b->kind, name);
  if (k < 0 || !b->param[k]) {
    pni_fail(c, PN_MISSING, "%s: there is no parameter '%s'", b->kind->name, name);
    return NULL;
  }
  return pni_scoped(c, pn_tensor_ref(b->param[k]));
}
