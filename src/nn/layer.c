/*
** layer.c: layer objects: creation, parameters and buffers, and the calls that a descriptor answers.
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
  for (int k = 0; k < PNI_LAYER_BUFFERS; k++) pn_tensor_unref(l->buffer[k]);
  pni_free(c, l);
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

pn_status pni_layer_set_buffer(pn_context *c, pn_layer *l, int k, pn_tensor *t) {
  pn_tensor *b = pn_buffer(c, t);
  if (!b) return c->status;
  l->buffer[k] = pn_tensor_ref(b);
  return PN_OK;
}

/* ---- making ---- */

static bool is_open_ended(const char *name) { return name[strlen(name) - 1] == '.'; }

static pn_status read_sizes(pn_context *c, const pni_layer *row, int n, const int64_t *size, pn_layer *l) {
  const int64_t most = (int64_t)1 << 44; /* elements of the largest tensor */
  int want = 0;
  while (row->size[want]) want++;
  bool more = want && is_open_ended(row->size[want - 1]);
  if (n < want || n > (more ? PNI_LAYER_SIZES : want))
    return pni_fail(c, PN_SHAPE, "%s: number of sizes must be %d%s, got %d", row->name, want, more ? " or more" : "",
                    n);
  for (int i = 0; i < n; i++) {
    const char *name = row->size[i < want ? i : want - 1];
    if (size[i] < (row->free_sizes ? -1 : 1))
      return pni_fail(c, PN_SHAPE, "%s: %.*s must be at least %d, got %lld", row->name, (int)strcspn(name, "."), name,
                      row->free_sizes ? -1 : 1, (long long)size[i]);
    if (size[i] > most) /* a few times it is a number still: layers multiply sizes by their gates */
      return pni_fail(c, PN_SHAPE, "%s: %.*s must be at most %lld, got %lld", row->name, (int)strcspn(name, "."), name,
                      (long long)most, (long long)size[i]);
    l->size[i] = size[i];
  }
  l->nsizes = n;
  return PN_OK;
}

pn_layer *pn_layer_new(pn_context *c, const char *type, int nsizes, const int64_t *sizes, pn_dtype dtype, pn_rng *rng,
                       const pn_option *options) {
  if (!PNI_GIVEN(c, "layer_new", type) || !PNI_LISTED(c, "layer_new", nsizes, sizes)) return NULL;
  const pni_layer *row = pni_layer_find(type);
  if (!row) {
    pni_fail(c, PN_MISSING, "layer: there is no layer '%s'", type);
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
  if (!pni_failed(c) && !read_sizes(c, row, nsizes, sizes, l) &&
      !pni_options_read(c, row->name, row->options, options, l->option) && row->init)
    row->init(c, l, dtype, rng);
  pn_scope_close(c, mark);
  if (!pni_failed(c)) return l;
  destroy(l);
  return NULL;
}

/* Fails unless t can stand in the place of `had`. */
static pn_status check_stand_in(pn_context *c, const pn_layer *l, const char *name, const pn_tensor *had,
                                const pn_tensor *t) {
  char want[PNI_SHAPE_TEXT], got[PNI_SHAPE_TEXT];
  if (had->ndim == t->ndim && memcmp(had->shape, t->shape, (size_t)had->ndim * sizeof *had->shape) == 0 &&
      had->dtype == t->dtype)
    return PN_OK;
  return pni_fail(c, PN_SHAPE, "%s: %s must be %s of shape %s, got %s of shape %s", l->type->name, name,
                  pn_dtype_name((pn_dtype)had->dtype), pni_shape_text(had->ndim, had->shape, want),
                  pn_dtype_name((pn_dtype)t->dtype), pni_shape_text(t->ndim, t->shape, got));
}

pn_layer *pni_layer_with(pn_context *c, const pn_layer *l, pn_tensor *const *param, pn_tensor *const *buffer) {
  if (pni_failed(c)) return NULL;
  for (int k = 0, n = pn_layer_num_params(l); k < n; k++)
    if (check_stand_in(c, l, pn_layer_param_name(l, k), pn_layer_param(l, k), param[k])) return NULL;
  for (int k = 0, n = buffer ? pn_layer_num_buffers(l) : 0; k < n; k++)
    if (check_stand_in(c, l, pn_layer_buffer_name(l, k), pn_layer_buffer(l, k), buffer[k])) return NULL;
  pn_layer *copy = pni_calloc(c, sizeof *copy);
  if (!copy) return NULL;
  pni_object_born(c);
  *copy = *l;
  copy->refs = 1;
  for (int k = 0, i = 0; k < PNI_LAYER_PARAMS; k++)
    if (l->param[k]) copy->param[k] = pn_tensor_ref(param[i++]);
  for (int k = 0, i = 0; k < PNI_LAYER_BUFFERS; k++)
    if (l->buffer[k]) copy->buffer[k] = pn_tensor_ref(buffer ? buffer[i++] : l->buffer[k]);
  return copy;
}

pn_layer *pni_layer_uncertain(pn_context *c, const pn_layer *l, pn_tensor *const *log_scale) {
  const pni_layer *row = l->type->uncertain;
  if (pni_failed(c)) return NULL;
  if (!row) {
    pni_fail(c, PN_MISSING, "%s: there is no layer of the kind with a posterior", l->type->name);
    return NULL;
  }
  for (int k = 0, n = pn_layer_num_params(l); k < n; k++)
    if (check_stand_in(c, l, pn_layer_param_name(l, k), pn_layer_param(l, k), log_scale[k])) return NULL;
  pn_layer *out = pni_calloc(c, sizeof *out);
  if (!out) return NULL;
  pni_object_born(c);
  *out = (pn_layer){.refs = 1, .ctx = l->ctx, .type = row, .nsizes = l->nsizes};
  memcpy(out->size, l->size, sizeof out->size);
  for (int k = 0, i = 0; 2 * k < PNI_LAYER_PARAMS; k++) {
    if (!l->param[k]) continue;
    out->param[2 * k] = pn_tensor_ref(l->param[k]);
    out->param[2 * k + 1] = pn_tensor_ref(log_scale[i++]);
  }
  if (pni_options_read(c, row->name, row->options, NULL, out->option) == PN_OK) return out;
  destroy(out);
  return NULL;
}

/* ---- what it holds ---- */

const char *pn_layer_type(const pn_layer *l) { return l ? l->type->name : NULL; }

/* Slot of the i-th tensor that exists among n, or -1; and their number. */
static int place(pn_tensor *const *list, int n, int i) {
  for (int k = 0; k < n; k++)
    if (list[k] && i-- == 0) return k;
  return -1;
}

static int count(pn_tensor *const *list, int n) {
  int found = 0;
  for (int k = 0; k < n; k++) found += list[k] != NULL;
  return found;
}

int pn_layer_num_params(const pn_layer *l) { return l ? count(l->param, PNI_LAYER_PARAMS) : 0; }
int pn_layer_num_buffers(const pn_layer *l) { return l ? count(l->buffer, PNI_LAYER_BUFFERS) : 0; }

pn_tensor *pn_layer_param(const pn_layer *l, int i) {
  if (!l) return NULL;
  int k = place(l->param, PNI_LAYER_PARAMS, i);
  return k < 0 ? NULL : l->param[k];
}

const char *pn_layer_param_name(const pn_layer *l, int i) {
  if (!l) return NULL;
  int k = place(l->param, PNI_LAYER_PARAMS, i);
  return k < 0 ? NULL : l->type->param[k];
}

pn_tensor *pn_layer_buffer(const pn_layer *l, int i) {
  if (!l) return NULL;
  int k = place(l->buffer, PNI_LAYER_BUFFERS, i);
  return k < 0 ? NULL : l->buffer[k];
}

const char *pn_layer_buffer_name(const pn_layer *l, int i) {
  if (!l) return NULL;
  int k = place(l->buffer, PNI_LAYER_BUFFERS, i);
  return k < 0 ? NULL : l->type->buffer[k];
}

int pn_layer_num_inputs(const pn_layer *l) {
  if (!l) return 0;
  int n;
  pni_layer_inputs(l->type, &n);
  return n;
}

int pn_layer_num_states(const pn_layer *l) { return l ? l->type->states : 0; }

/* ---- calling ---- */

static pn_status begin(pn_context *c, const pn_layer *l, int n, pn_tensor *const *in, pn_mode mode, pn_rng *rng,
                       pni_layer_call *call) {
  *call = (pni_layer_call){.mode = mode, .rng = rng};
  if (pni_failed(c) || pni_layer_check_inputs(c, l, n, in)) return c->status;
  if (mode > PN_MODE_MEAN)
    return pni_fail(c, PN_DOMAIN, "%s: mode must be one of pn_mode, got %d", l->type->name, mode);
  for (int k = 0; k < n; k++) call->in[k] = in[k];
  return PN_OK;
}

pn_tensor *pn_layer_call(pn_context *c, const pn_layer *l, int n, pn_tensor *const *in, pn_mode mode, pn_rng *rng) {
  if (!PNI_GIVEN(c, "layer_call", l) || !PNI_LISTED(c, "layer_call", n, in)) return NULL;
  pni_layer_call call;
  return begin(c, l, n, in, mode, rng, &call) ? NULL : l->type->forward(c, l, &call);
}

pn_tensor *pn_layer_forward(pn_context *c, const pn_layer *l, pn_tensor *x, pn_mode mode, pn_rng *rng) {
  if (!PNI_GIVEN(c, "layer_forward", l)) return NULL;
  return pn_layer_call(c, l, 1, &x, mode, rng);
}

pn_tensor *pn_layer_kl(pn_context *c, const pn_layer *l) {
  if (!PNI_GIVEN(c, "layer_kl", l)) return NULL;
  if (l->type->kl) return l->type->kl(c, l);
  return pn_scalar(c, l->param[0] ? (pn_dtype)l->param[0]->dtype : PN_FLOAT64, 0);
}

/* A variance has the shape of the mean, a covariance its last axis twice. */
static pn_status check_variance(pn_context *c, const pn_layer *l, const pn_tensor *mean, const pn_tensor *variance) {
  char want[PNI_SHAPE_TEXT], got[PNI_SHAPE_TEXT];
  if (!variance) return PN_OK;
  bool covariance = variance->ndim == mean->ndim + 1 && mean->ndim > 0;
  bool fits = (covariance || variance->ndim == mean->ndim) && variance->dtype == mean->dtype &&
              memcmp(mean->shape, variance->shape, (size_t)mean->ndim * sizeof *mean->shape) == 0 &&
              (!covariance || variance->shape[mean->ndim] == mean->shape[mean->ndim - 1]);
  if (!fits)
    return pni_fail(c, PN_SHAPE,
                    "%s: variance must be %s of the mean's shape %s, or that with its last axis twice, got %s",
                    l->type->name, pn_dtype_name((pn_dtype)mean->dtype), pni_shape_text(mean->ndim, mean->shape, want),
                    pni_shape_text(variance->ndim, variance->shape, got));
  if (covariance && !l->type->covariance)
    return pni_fail(c, PN_MISSING, "%s: passes variances on, not covariances", l->type->name);
  return PN_OK;
}

pn_status pn_layer_moments(pn_context *c, const pn_layer *l, pn_tensor *mean, pn_tensor *variance, pn_mode mode,
                           pn_tensor **out_mean, pn_tensor **out_variance) {
  if (!PNI_GIVEN(c, "layer_moments", l, out_mean, out_variance)) return c->status;
  pn_tensor *out[2] = {NULL, NULL};
  pni_layer_call call;
  if (begin(c, l, 1, &mean, mode, NULL, &call) || check_variance(c, l, mean, variance)) return c->status;
  call.variance = variance;
  if (l->type->moments) {
    if (l->type->moments(c, l, &call, out)) return c->status;
  } else if (variance || l->type->kl) {
    return pni_fail(c, PN_MISSING, "%s: has no moments of an uncertain input", l->type->name);
  } else if (!(out[0] = l->type->forward(c, l, &call))) {
    return c->status;
  }
  *out_mean = out[0];
  *out_variance = out[1];
  return PN_OK;
}

pn_status pn_layer_unroll(pn_context *c, const pn_layer *l, pn_tensor *x, pn_tensor *const *state, pn_mode mode,
                          pn_rng *rng, pn_tensor **outputs, pn_tensor **last) {
  if (!PNI_GIVEN(c, "layer_unroll", l, last)) return c->status;
  pn_tensor *first[PNI_LAYER_STATES] = {NULL}, *out[PNI_LAYER_STATES + 1];
  pni_layer_call call;
  if (!l->type->unroll)
    return pni_fail(c, PN_MISSING, "%s: has no state, so no %s", l->type->name, outputs ? "unroll" : "step");
  if (begin(c, l, 1, &x, mode, rng, &call)) return c->status;
  for (int k = 0; state && k < l->type->states; k++) first[k] = state[k];
  if (l->type->unroll(c, l, &call, first, out)) return c->status;
  if (outputs) *outputs = out[0];
  for (int k = 0; k < l->type->states; k++) last[k] = out[k + 1];
  return PN_OK;
}

pn_status pn_layer_step(pn_context *c, const pn_layer *l, pn_tensor *x, pn_tensor *const *state, pn_mode mode,
                        pn_rng *rng, pn_tensor **next) {
  if (!PNI_GIVEN(c, "layer_step", l, next)) return c->status;
  return pn_layer_unroll(c, l, pn_unsqueeze(c, x, 0), state, mode, rng, NULL, next);
}
