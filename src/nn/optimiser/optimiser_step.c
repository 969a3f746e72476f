/*
** optimiser_step.c: one step of any optimiser. First everything that can fail (gradients made contiguous
** and checked), then the updates, which cannot: a failed step changes nothing.
*/
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "../../autodiff/nonfinite.h"
#include "../../autodiff/replay/replay.h"
#include "update.h"

/* "'weight' (shape [50, 1])" or "parameter 2 (shape ...)". */
static const char *param_text(const pn_optim *o, int i, char *buf, size_t size) {
  char s[160];
  pni_shape_text(o->param[i]->ndim, o->param[i]->shape, s);
  if (o->name[i])
    snprintf(buf, size, "'%s' (shape %s)", o->name[i], s);
  else
    snprintf(buf, size, "parameter %d (shape %s)", i + 1, s);
  return buf;
}

static pn_status not_finite(pn_context *c, const pn_optim *o, int i, pn_tensor *loss) {
  char who[256] = "the loss", cause[PNI_CAUSE] = "given by the caller";
  if (loss) pni_nonfinite_cause(c, loss, cause);
  if (i < 0) return pni_fail(c, PN_NAN, "%s: the loss must be finite: %s", o->type->name, cause);
  return pni_fail(c, PN_NAN, "%s: gradient of %s must be finite: %s", o->type->name, param_text(o, i, who, sizeof who),
                  cause);
}

/* The gradient of parameter i with its shape, dtype and row-major memory; a new reference. */
static pn_tensor *usable(pn_context *c, const pn_optim *o, int i, pn_tensor *g) {
  const pn_tensor *p = o->param[i];
  char who[256], s[160];
  if (g->dtype != p->dtype) {
    pni_fail(c, PN_DTYPE, "%s: gradient of %s must be %s, got %s", o->type->name, param_text(o, i, who, sizeof who),
             pn_dtype_name((pn_dtype)p->dtype), pn_dtype_name((pn_dtype)g->dtype));
    return NULL;
  }
  if (g->ndim != p->ndim || memcmp(g->shape, p->shape, (size_t)p->ndim * sizeof *p->shape) != 0) {
    pni_fail(c, PN_SHAPE, "%s: gradient of %s must have its shape, got %s", o->type->name,
             param_text(o, i, who, sizeof who), pni_shape_text(g->ndim, g->shape, s));
    return NULL;
  }
  return pni_contiguous(c, g);
}

static bool is_finite(const pn_tensor *g) {
  return g->dtype == PN_FLOAT64 ? pni_finite_f64(pni_data(g), g->numel) : pni_finite_f32(pni_data(g), g->numel);
}

static double squares_of(const pn_tensor *g) {
  return g->dtype == PN_FLOAT64 ? pni_sum_squares_f64(pni_data(g), g->numel)
                                : pni_sum_squares_f32(pni_data(g), g->numel);
}

/* The Euclidean norm of all gradients, safe against overflow: |g| = big |g / big|. */
static double careful_norm(int n, pn_tensor *const *g) {
  double big = 0, total = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < n; i++)
      for (int64_t k = 0; g[i] && k < g[i]->numel; k++) {
        double v = fabs(pni_element(g[i], k));
        if (pass == 0)
          big = v > big ? v : big;
        else
          total += v / big * (v / big);
      }
  return big * sqrt(total);
}

static double option_of(const pn_optim *o, const char *name) {
  int i = pni_option_find(o->type->options, name);
  return i >= 0 ? o->option[i] : HUGE_VAL;
}

/* The norm costs a pass over the gradients; it is taken only if it may count. */
static double clip_scale(const pn_optim *o, pn_tensor *const *g) {
  double limit = option_of(o, "clip_norm"), squares = 0;
  if (limit == HUGE_VAL) return 1;
  for (int i = 0; i < o->n; i++)
    if (g[i]) squares += squares_of(g[i]);
  double norm = isfinite(squares) ? sqrt(squares) : careful_norm(o->n, g);
  return norm > limit ? limit / norm : 1;
}

/* The options of parameter i. */
static const double *options_of(const pn_optim *o, int i, double *v) {
  if (!o->own) return o->option;
  const double *own = o->own + i * PNI_OWN;
  for (int k = 0; k < PNI_OPTIONS; k++) v[k] = isnan(own[k]) ? o->option[k] : own[k];
  int lr = pni_option_find(o->type->options, "lr");
  if (isnan(own[lr])) v[lr] *= own[PNI_OPTIONS];
  return v;
}

/* Standard normal numbers for the parameters that have a gradient. A replay repeats the update, so what it draws is no
 * draw that the capture must note. */
static pn_status draw_noise(pn_context *c, const pn_optim *o, pn_tensor *const *g, pn_tensor **noise) {
  uint64_t reservations = c->reservations;
  for (int i = 0; o->type->noisy && i < o->n && !pni_failed(c); i++) {
    if (!g[i]) continue;
    pni_spec s = pni_spec_of(o->param[i]);
    pni_draw d = {.kind = s.dtype == PN_FLOAT64 ? PNI_FILL_NORMAL_F64 : PNI_FILL_NORMAL_F32};
    noise[i] = pni_tensor_new(c, &s);
    if (noise[i]) pni_draw_into(c, NULL, &d, noise[i]);
  }
  c->reservations = reservations;
  return c->status;
}

/* The updates: nothing here can fail. */
static void update_all(pn_optim *o, pn_tensor *const *g, pn_tensor *const *noise, double scale) {
  pni_update u = {.scale = scale, .limit = option_of(o, "clip_value")};
  int64_t last = -1;
  for (int i = 0; i < o->n; i++) {
    if (!g[i]) continue;
    pn_tensor *p = o->param[i];
    double v[PNI_OPTIONS];
    if (++o->step[i] != last || o->own) o->type->scalars(options_of(o, i, v), last = o->step[i], u.k);
    u.n = p->numel;
    u.param = pni_data(p);
    u.grad = pni_data(g[i]);
    u.noise = noise[i] ? pni_data(noise[i]) : NULL;
    for (int k = 0; k < o->nslots; k++) u.slot[k] = pni_data(o->slot[i * o->nslots + k]);
    o->type->update[p->dtype](&u);
    p->storage->version++;
  }
}

/* grads[i] may be NULL: that parameter rests. `loss` (may be NULL) serves the message. */
static pn_status apply(pn_context *c, pn_optim *o, pn_tensor *const *grads, pn_tensor *loss) {
  pn_tensor **g = pni_calloc(c, 2 * (size_t)o->n * sizeof *g), **noise = g ? g + o->n : NULL;
  int used = 0, bad = -1;
  for (int i = 0; g && i < o->n && !pni_failed(c); i++) {
    pn_tensor *given = grads ? grads[i] : o->param[i]->grad;
    if (!given || !(g[i] = usable(c, o, i, given))) continue;
    used++;
    if (bad < 0 && !is_finite(g[i])) bad = i;
  }
  if (bad >= 0) not_finite(c, o, bad, loss);
  if (!pni_failed(c) && used == 0)
    pni_fail(c, PN_STATE, "%s: no parameter of this optimiser has a gradient (does the loss depend on them?)",
             o->type->name);
  c->evaluating++;
  if (!pni_failed(c) && draw_noise(c, o, g, noise) == PN_OK) update_all(o, g, noise, clip_scale(o, g));
  c->evaluating--;
  for (int i = 0; g && i < 2 * o->n; i++) pn_tensor_unref(g[i]);
  pni_free(c, g, 2 * (size_t)o->n * sizeof *g);
  return c->status;
}

/* ---- a step as part of a plan: inputs are the loss (or nothing) and the gradients ---- */

static pn_status replay(pn_context *c, void *object, int n, pn_tensor *const *in) {
  (void)n;
  if (in[0] && !pni_all_finite(c, in[0])) return c->status ? c->status : not_finite(c, object, -1, NULL);
  return apply(c, object, in + 1, NULL);
}

static void retain(void *object) { pn_optim_ref(object); }
static void release(void *object) { pn_optim_unref(object); }

static pn_status record(pn_context *c, pn_optim *o, pn_tensor *loss, pn_tensor *const *grads) {
  static const pni_effect update = {replay, retain, release};
  if (!c->recorder) return PN_OK;
  int n = o->n + 1;
  pn_tensor **in = pni_alloc_array(c, n, sizeof *in);
  if (!in) return c->status;
  in[0] = loss;
  for (int i = 0; i < o->n; i++) in[i + 1] = grads ? grads[i] : o->param[i]->grad;
  pni_record_effect(c, &update, o, n, in);
  pni_free(c, in, (size_t)n * sizeof *in);
  return c->status;
}

pn_status pn_optim_step(pn_context *c, pn_optim *o, pn_tensor *loss) {
  if (pni_failed(c)) return c->status;
  if (!o || !loss) return pni_fail(c, PN_STATE, "optim_step: optimiser and loss must not be NULL");
  if (loss->numel == 1 && !pni_all_finite(c, loss)) return c->status ? c->status : not_finite(c, o, -1, loss);
  for (int i = 0; i < o->n; i++) pn_tensor_clear_grad(o->param[i]);
  if (pn_backward(c, loss)) return c->status;
  return record(c, o, loss, NULL) ? c->status : apply(c, o, NULL, loss);
}

pn_status pn_optim_apply(pn_context *c, pn_optim *o, pn_tensor *const *grads) {
  if (pni_failed(c)) return c->status;
  if (!o) return pni_fail(c, PN_STATE, "optim_apply: optimiser must not be NULL");
  return record(c, o, NULL, grads) ? c->status : apply(c, o, grads, NULL);
}
