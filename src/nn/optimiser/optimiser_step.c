/*
** optimiser_step.c: one step of any optimiser. First everything that can fail (gradients made contiguous
** and checked), then the updates, which cannot: a failed step changes nothing.
*/
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "../../autodiff/buffer.h"
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

/* The updates: nothing here can fail. */
static void update_all(pn_optim *o, pn_tensor *const *g, double scale) {
  pni_update u = {.scale = scale, .limit = option_of(o, "clip_value")};
  int64_t last = -1;
  for (int i = 0; i < o->n; i++) {
    if (!g[i]) continue;
    pn_tensor *p = o->param[i];
    if (++o->step[i] != last) o->type->scalars(o->option, last = o->step[i], u.k);
    u.n = p->numel;
    u.param = pni_data(p);
    u.grad = pni_data(g[i]);
    for (int k = 0; k < o->nslots; k++) u.slot[k] = pni_data(o->slot[i * o->nslots + k]);
    o->type->update[p->dtype](&u);
    p->storage->version++;
  }
}

/* grads[i] may be NULL: that parameter rests. `loss` (may be NULL) serves the message. */
static pn_status apply(pn_context *c, pn_optim *o, pn_tensor *const *grads, pn_tensor *loss) {
  pn_tensor **g = pni_calloc(c, (size_t)o->n * sizeof *g);
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
  if (!pni_failed(c)) update_all(o, g, clip_scale(o, g));
  c->evaluating--;
  for (int i = 0; g && i < o->n; i++) pn_tensor_unref(g[i]);
  pni_free(c, g, (size_t)o->n * sizeof *g);
  return c->status;
}

/* ---- a step as part of a plan: inputs are the loss (or nothing), the gradients, and what buffers move to ---- */

typedef struct {
  int32_t refs;
  pn_context *ctx;
  pn_optim *o;
  pni_updates u; /* of the buffers */
} step;

static void retain(void *object) { ((step *)object)->refs++; }

static void release(void *object) {
  step *s = object;
  pn_context *c = s->ctx;
  if (--s->refs > 0) return;
  pn_optim_unref(s->o);
  pni_updates_free(c, &s->u);
  pni_free(c, s, sizeof *s);
  pni_object_died(c);
}

/* Buffers change after everything that can fail. */
static pn_status replay(pn_context *c, void *object, int n, pn_tensor *const *in) {
  const step *s = object;
  (void)n;
  if (in[0] && !pni_all_finite(c, in[0])) return c->status ? c->status : not_finite(c, s->o, -1, NULL);
  if (pni_updates_check(c, &s->u, in + 1 + s->o->n) || apply(c, s->o, in + 1, NULL)) return c->status;
  pni_updates_commit(&s->u, in + 1 + s->o->n);
  return PN_OK;
}

static pn_status record(pn_context *c, step *s, pn_tensor *loss, pn_tensor *const *grads) {
  static const pni_effect update = {replay, retain, release};
  if (!c->recorder) return PN_OK;
  const pn_optim *o = s->o;
  int n = o->n + 1 + s->u.n;
  pn_tensor **in = pni_alloc_array(c, n, sizeof *in);
  if (!in) return c->status;
  in[0] = loss;
  for (int i = 0; i < o->n; i++) in[i + 1] = grads ? grads[i] : o->param[i]->grad;
  for (int i = 0; i < s->u.n; i++) in[o->n + 1 + i] = s->u.value[i];
  pni_record_effect(c, &update, s, n, in);
  pni_free(c, in, (size_t)n * sizeof *in);
  return c->status;
}

/* loss, grads: one of them may be NULL. */
static pn_status take(pn_context *c, pn_optim *o, pn_tensor *loss, pn_tensor *const *grads) {
  step *s = pni_calloc(c, sizeof *s);
  if (!s) return c->status;
  pni_object_born(c);
  *s = (step){.refs = 1, .ctx = c, .o = pn_optim_ref(o)};
  bool ready = !loss || pni_updates_gather(c, loss, &s->u) == PN_OK;
  c->evaluating++;
  ready = ready && pni_updates_check(c, &s->u, s->u.value) == PN_OK;
  c->evaluating--;
  if (ready && record(c, s, loss, grads) == PN_OK && apply(c, o, grads, loss) == PN_OK)
    pni_updates_commit(&s->u, s->u.value);
  release(s);
  return c->status;
}

pn_status pn_optim_step(pn_context *c, pn_optim *o, pn_tensor *loss) {
  if (pni_failed(c)) return c->status;
  if (!o || !loss) return pni_fail(c, PN_STATE, "optim_step: optimiser and loss must not be NULL");
  if (loss->numel == 1 && !pni_all_finite(c, loss)) return c->status ? c->status : not_finite(c, o, -1, loss);
  for (int i = 0; i < o->n; i++) pn_tensor_clear_grad(o->param[i]);
  return pn_backward(c, loss) ? c->status : take(c, o, loss, NULL);
}

pn_status pn_optim_apply(pn_context *c, pn_optim *o, pn_tensor *const *grads) {
  if (pni_failed(c)) return c->status;
  if (!o) return pni_fail(c, PN_STATE, "optim_apply: optimiser must not be NULL");
  return take(c, o, NULL, grads);
}
