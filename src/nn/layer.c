/*
** layer.c: layer objects: creation, parameters, and the calls that a descriptor answers.
*/
#include <string.h>
#include "../autodiff/op/op.h"
#include "layer.h"

static const pni_layer *const rows[] = {
#define X(name) &pni_layer_##name,
#include "layer.def"
#undef X
};

int pni_layer_count(void) { return (int)(sizeof rows / sizeof rows[0]); }
const pni_layer *pni_layer_at(int i) { return i >= 0 && i < pni_layer_count() ? rows[i] : NULL; }

const pni_layer *pni_layer_find(const char *name) {
  for (int i = 0; name && i < pni_layer_count(); i++)
    if (strcmp(rows[i]->name, name) == 0) return rows[i];
  return NULL;
}

static void destroy(pn_layer *l) {
  pn_context *c = l->ctx;
  for (int k = 0; k < PNI_LAYER_PARAMS; k++) pn_tensor_unref(l->param[k]);
  pni_free(c, l, sizeof *l);
  pni_object_died(c);
}

pn_layer *pn_layer_ref(pn_layer *l) {
  if (l) l->refs++;
  return l;
}

void pn_layer_unref(pn_layer *l) {
  if (l && --l->refs == 0) destroy(l);
}

pn_status pni_layer_set(pn_context *c, pn_layer *l, int k, pn_tensor *t) {
  pn_tensor *p = pn_param(c, t);
  if (!p) return c->status;
  l->param[k] = pn_tensor_ref(p);
  return PN_OK;
}

static pn_status read_sizes(pn_context *c, const pni_layer *row, int n, const int64_t *size, int64_t *out) {
  const int64_t most = (int64_t)1 << 44; /* elements of the largest tensor */
  int want = 0;
  while (row->size[want]) want++;
  if (n != want) return pni_fail(c, PN_SHAPE, "%s: number of sizes must be %d, got %d", row->name, want, n);
  for (int i = 0; i < n; i++) {
    if (size[i] < 1)
      return pni_fail(c, PN_SHAPE, "%s: %s must be at least 1, got %lld", row->name, row->size[i], (long long)size[i]);
    if (size[i] > most) /* a few times it is a number still: layers multiply sizes by their gates */
      return pni_fail(c, PN_SHAPE, "%s: %s must be at most %lld, got %lld", row->name, row->size[i], (long long)most,
                      (long long)size[i]);
    out[i] = size[i];
  }
  return PN_OK;
}

pn_layer *pni_layer_with(pn_context *c, const pn_layer *l, pn_tensor *const *param) {
  if (pni_failed(c)) return NULL;
  for (int k = 0, n = pn_layer_num_params(l); k < n; k++) {
    const pn_tensor *had = pn_layer_param(l, k);
    char want[160], got[160];
    if (had->ndim != param[k]->ndim ||
        memcmp(had->shape, param[k]->shape, (size_t)had->ndim * sizeof *had->shape) != 0 ||
        had->dtype != param[k]->dtype) {
      pni_fail(c, PN_SHAPE, "%s: %s must be %s of shape %s, got %s of shape %s", l->type->name,
               pn_layer_param_name(l, k), pn_dtype_name((pn_dtype)had->dtype),
               pni_shape_text(had->ndim, had->shape, want), pn_dtype_name((pn_dtype)param[k]->dtype),
               pni_shape_text(param[k]->ndim, param[k]->shape, got));
      return NULL;
    }
  }
  pn_layer *copy = pni_calloc(c, sizeof *copy);
  if (!copy) return NULL;
  pni_object_born(c);
  *copy = *l;
  copy->refs = 1;
  for (int k = 0, i = 0; k < PNI_LAYER_PARAMS; k++)
    if (l->param[k]) copy->param[k] = pn_tensor_ref(param[i++]);
  return copy;
}

pn_layer *pn_layer_new(pn_context *c, const char *type, int nsizes, const int64_t *sizes, pn_dtype dtype, pn_rng *rng,
                       const pn_option *options) {
  if (pni_failed(c)) return NULL;
  const pni_layer *row = pni_layer_find(type);
  if (!row) {
    pni_fail(c, PN_MISSING, "layer: there is no layer '%s'", type ? type : "NULL");
    return NULL;
  }
  pn_layer *l = pni_calloc(c, sizeof *l);
  if (!l) return NULL;
  pni_object_born(c);
  l->refs = 1;
  l->ctx = c;
  l->type = row;
  if (dtype > PN_FLOAT32)
    pni_fail(c, PN_DTYPE, "%s: dtype must be float64 or float32, got %s", row->name, pn_dtype_name(dtype));
  size_t mark = pn_scope_open(c);
  if (!pni_failed(c) && !read_sizes(c, row, nsizes, sizes, l->size) &&
      !pni_options_read(c, row->name, row->options, options, l->option) && row->init)
    row->init(c, l, dtype, rng);
  pn_scope_close(c, mark);
  if (!pni_failed(c)) return l;
  destroy(l);
  return NULL;
}

const char *pn_layer_type(const pn_layer *l) { return l->type->name; }

int pn_layer_num_params(const pn_layer *l) {
  int n = 0;
  for (int k = 0; k < PNI_LAYER_PARAMS; k++) n += l->param[k] != NULL;
  return n;
}

/* Slot of the i-th parameter that exists, or -1. */
static int place(const pn_layer *l, int i) {
  for (int k = 0; k < PNI_LAYER_PARAMS; k++)
    if (l->param[k] && i-- == 0) return k;
  return -1;
}

pn_tensor *pn_layer_param(const pn_layer *l, int i) {
  int k = place(l, i);
  return k < 0 ? NULL : l->param[k];
}

const char *pn_layer_param_name(const pn_layer *l, int i) {
  int k = place(l, i);
  return k < 0 ? NULL : l->type->param[k];
}

/* x fits the layer's parameters: its last axis is `in`. */
static bool fits(pn_context *c, const pn_layer *l, const pn_tensor *x) {
  if (pni_failed(c) || !x) return false;
  if (!l->type->size[0]) return true;
  char s[160];
  if (x->ndim < 1 || x->shape[x->ndim - 1] != l->size[0]) {
    pni_fail(c, PN_SHAPE, "%s: input must have shape [..., %lld], got %s", l->type->name, (long long)l->size[0],
             pni_shape_text(x->ndim, x->shape, s));
    return false;
  }
  if (!l->param[0] || l->param[0]->dtype == x->dtype) return true;
  pni_fail(c, PN_DTYPE, "%s: input must be %s, got %s (convert with :to)", l->type->name,
           pn_dtype_name((pn_dtype)l->param[0]->dtype), pn_dtype_name((pn_dtype)x->dtype));
  return false;
}

pn_tensor *pn_layer_forward(pn_context *c, const pn_layer *l, pn_tensor *x, pn_rng *rng) {
  return fits(c, l, x) ? l->type->forward(c, l, x, rng) : NULL;
}

pn_tensor *pn_layer_mean(pn_context *c, const pn_layer *l, pn_tensor *x) {
  if (!fits(c, l, x)) return NULL;
  return l->type->mean ? l->type->mean(c, l, x) : l->type->forward(c, l, x, NULL);
}

pn_tensor *pn_layer_kl(pn_context *c, const pn_layer *l) {
  if (pni_failed(c)) return NULL;
  if (l->type->kl) return l->type->kl(c, l);
  return pn_scalar(c, l->param[0] ? (pn_dtype)l->param[0]->dtype : PN_FLOAT64, 0);
}

pn_status pn_layer_moments(pn_context *c, const pn_layer *l, pn_tensor *x, pn_tensor **mean, pn_tensor **variance) {
  pn_tensor *out[2] = {NULL, NULL};
  if (!fits(c, l, x)) return c->status ? c->status : pni_fail(c, PN_STATE, "moments: input must not be NULL");
  if (!l->type->moments) return pni_fail(c, PN_MISSING, "%s: has no moments", l->type->name);
  if (l->type->moments(c, l, x, out)) return c->status;
  *mean = out[0];
  *variance = out[1];
  return PN_OK;
}

int pn_layer_num_states(const pn_layer *l) { return l->type->states; }

static pn_status unroll(pn_context *c, const pn_layer *l, const char *where, pn_tensor *x, pn_tensor *const *state,
                        pn_tensor **out) {
  pn_tensor *first[PNI_LAYER_STATES] = {NULL};
  if (!l->type->unroll) return pni_fail(c, PN_MISSING, "%s: has no state, so no %s", l->type->name, where);
  if (!fits(c, l, x)) return c->status ? c->status : pni_fail(c, PN_STATE, "%s: input must not be NULL", where);
  for (int k = 0; state && k < l->type->states; k++) first[k] = state[k];
  return l->type->unroll(c, l, x, first, out);
}

pn_status pn_layer_unroll(pn_context *c, const pn_layer *l, pn_tensor *x, pn_tensor *const *state, pn_tensor **outputs,
                          pn_tensor **last) {
  pn_tensor *out[PNI_LAYER_STATES + 1];
  if (pni_failed(c) || unroll(c, l, "unroll", x, state, out)) return c->status;
  *outputs = out[0];
  for (int k = 0; k < l->type->states; k++) last[k] = out[k + 1];
  return PN_OK;
}

pn_status pn_layer_step(pn_context *c, const pn_layer *l, pn_tensor *x, pn_tensor *const *state, pn_tensor **next) {
  pn_tensor *out[PNI_LAYER_STATES + 1];
  if (pni_failed(c) || unroll(c, l, "step", pn_unsqueeze(c, x, 0), state, out)) return c->status;
  for (int k = 0; k < l->type->states; k++) next[k] = out[k + 1];
  return PN_OK;
}
