/*
** optimiser_step.c: one step of any optimiser. First everything that can fail (gradients made contiguous
** and checked), then the updates, which cannot: a failed step changes nothing. The numbers of all parameters are dealt
** to the threads as if they stood in one row: many small parameters are one piece of work, a large one is several.
*/
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "../../autodiff/buffer.h"
#include "../../autodiff/nonfinite.h"
#include "../../autodiff/replay/replay.h"
#include "update.h"
#if PNI_CPU_X86
#include <xmmintrin.h>
#endif

/* "'weight' (shape [50, 1])" or "parameter 2 (shape ...)". */
static const char *param_text(const pn_optim *o, int i, char *buf, size_t size) {
  char s[PNI_SHAPE_TEXT];
  pni_shape_text(o->param[i]->ndim, o->param[i]->shape, s);
  if (o->name[i])
    snprintf(buf, size, "'%s' (shape %s)", o->name[i], s);
  else
    snprintf(buf, size, "parameter %d (shape %s)", i + 1, s);
  return buf;
}

static pn_status not_finite(pn_context *c, const pn_optim *o, int i, pn_tensor *loss) {
  char who[256] = "the loss", cause[PNI_CAUSE] = "given by the caller";
  if (loss && loss->flags & PNI_REQUIRES_GRAD)
    pni_nonfinite_cause(c, loss, cause);
  else if (loss) /* spent */
    snprintf(cause, sizeof cause, "where, a step that is not compiled tells");
  if (i < 0) return pni_fail(c, PN_NAN, "%s: the loss must be finite: %s", o->type->name, cause);
  return pni_fail(c, PN_NAN, "%s: gradient of %s must be finite: %s", o->type->name, param_text(o, i, who, sizeof who),
                  cause);
}

/* The gradient of parameter i with its shape, dtype and row-major memory; a new reference. */
static pn_tensor *usable(pn_context *c, const pn_optim *o, int i, pn_tensor *g) {
  const pn_tensor *p = o->param[i];
  char who[256], s[PNI_SHAPE_TEXT];
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

/* ---- all parameters that have a gradient, as one row of numbers ---- */

enum { GRAIN = 16384 }; /* numbers of a shard */

/* A pass over them; every shard has its own. */
typedef struct pass {
  pn_optim *o;
  pn_tensor *const *g;
  atomic_int *bad;         /* the first parameter whose gradient is not finite */
  pn_tensor *const *noise; /* beside g */
  double *square;          /* sums of squares, one per shard */
  double sum;              /* of the shard's */
  pni_update u;            /* scale, limit, and the scalars of the step number `last` */
  int64_t last;
} pass;

static int64_t numbers(const pn_optim *o, pn_tensor *const *g) {
  int64_t n = 0;
  for (int i = 0; i < o->n; i++)
    if (g[i]) n += g[i]->numel;
  return n;
}

/* Numbers `from` .. `from + n - 1` of parameter i. */
typedef void (*piece)(pass *s, int i, int64_t from, int64_t n);

static void pieces(pass *s, int64_t begin, int64_t end, piece f) {
  for (int i = 0; i < s->o->n; i++) {
    if (!s->g[i]) continue;
    int64_t size = s->g[i]->numel, last = end < size ? end : size;
    if (begin < last) f(s, i, begin, last - begin);
    begin = begin > size ? begin - size : 0;
    end -= size;
  }
}

static const char *at(const pn_tensor *t, int64_t from) {
  return (const char *)pni_data(t) + (size_t)from * pni_itemsize(t);
}

static void look(pass *s, int i, int64_t from, int64_t n) {
  const pn_tensor *g = s->g[i];
  if ((g->dtype == PN_FLOAT64 ? pni_finite_f64 : pni_finite_f32)(at(g, from), n)) return;
  int bad = atomic_load(s->bad);
  while (i < bad && !atomic_compare_exchange_weak(s->bad, &bad, i)) {
  }
}

static void squares_of(pass *s, int i, int64_t from, int64_t n) {
  const pn_tensor *g = s->g[i];
  s->sum += (g->dtype == PN_FLOAT64 ? pni_sum_squares_f64 : pni_sum_squares_f32)(at(g, from), n);
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

static void update(pass *s, int i, int64_t from, int64_t n) {
  const pn_optim *o = s->o;
  const pn_tensor *p = o->param[i];
  double v[PNI_OPTIONS];
  if (o->step[i] != s->last || o->own) o->type->scalars(options_of(o, i, v), s->last = o->step[i], s->u.k);
  s->u.n = n;
  s->u.param = (char *)(uintptr_t)at(p, from);
  s->u.grad = at(s->g[i], from);
  s->u.noise = s->noise[i] ? at(s->noise[i], from) : NULL;
  for (int k = 0; k < o->nslots; k++) s->u.slot[k] = (char *)(uintptr_t)at(o->slot[i * o->nslots + k], from);
  o->type->update[p->dtype](&s->u);
}

static void finite_shard(void *data, int64_t begin, int64_t end) {
  pass s = *(const pass *)data;
  pieces(&s, begin, end, look);
}
static void squares_shard(void *data, int64_t begin, int64_t end) {
  pass s = *(const pass *)data;
  pieces(&s, begin, end, squares_of);
  s.square[begin / GRAIN] = s.sum;
}
/* Moving averages of gradients that have become zero shrink without end: after some hundred steps the numbers are below
 * the smallest normal one, where arithmetic is a hundred times slower. Within an update, and only there, they are 0. */
static unsigned flush_tiny(void) {
#if PNI_CPU_X86
  enum { FLUSH = 0x8000, AS_ZERO = 0x40 };
  unsigned old = _mm_getcsr();
  _mm_setcsr(old | FLUSH | AS_ZERO);
  return old;
#else
  return 0;
#endif
}
static void restore(unsigned old) {
#if PNI_CPU_X86
  _mm_setcsr(old);
#else
  (void)old;
#endif
}

static void update_shard(void *data, int64_t begin, int64_t end) {
  pass s = *(const pass *)data;
  unsigned old = flush_tiny();
  pieces(&s, begin, end, update);
  restore(old);
}

/* The first parameter whose gradient has a number that is not finite, or -1. */
static int first_bad(pn_context *c, pn_optim *o, pn_tensor *const *g) {
  atomic_int bad;
  atomic_init(&bad, INT_MAX);
  pass s = {.o = o, .g = g, .bad = &bad};
  pni_parallel_whole(c, numbers(o, g), 2 * GRAIN, finite_shard, &s);
  return bad == INT_MAX ? -1 : bad;
}

/* The Euclidean norm of all gradients, safe against overflow: |g| = big |g / big|. */
static double careful_norm(int n, pn_tensor *const *g) {
  double big = 0, total = 0;
  for (int turn = 0; turn < 2; turn++)
    for (int i = 0; i < n; i++)
      for (int64_t k = 0; g[i] && k < g[i]->numel; k++) {
        double v = fabs(pni_element(g[i], k));
        if (turn == 0)
          big = fmax(big, v);
        else
          total += v / big * (v / big);
      }
  return big * sqrt(total);
}

/* One of PNI_CLIPPING. */
static double option_of(const pn_optim *o, const char *name) {
  return o->option[pni_option_find(o->type->options, name)];
}

/* The norm costs a pass over the gradients; it is taken only if it may count. */
static double clip_scale(pn_context *c, pn_optim *o, pn_tensor *const *g) {
  double limit = option_of(o, "clip_norm"), squares = 0;
  if (limit == HUGE_VAL) return 1;
  int64_t n = numbers(o, g), shards = (n + GRAIN - 1) / GRAIN;
  pass s = {.o = o, .g = g, .square = pni_alloc_array(c, shards, sizeof(double))};
  if (!s.square) return 1;
  pni_parallel_whole(c, n, GRAIN, squares_shard, &s);
  for (int64_t k = 0; k < shards; k++) squares += s.square[k];
  pni_free(c, s.square);
  double norm = isfinite(squares) ? sqrt(squares) : careful_norm(o->n, g);
  return fmin(1, limit / norm);
}

/* The row's directions. A replay repeats the update, so a capture must not note them. */
static pn_status find_directions(pn_context *c, const pn_optim *o, pn_tensor *const *g, pn_tensor **direction,
                                 double scale) {
  pni_recorder *recorder = c->recorder;
  pni_update how = {.scale = scale, .limit = option_of(o, "clip_value")};
  double v[PNI_OPTIONS];
  c->recorder = NULL;
  for (int i = 0; o->type->direction && i < o->n && !pni_failed(c); i++)
    if (g[i]) direction[i] = o->type->direction(c, o, i, options_of(o, i, v), &how, g[i]);
  c->recorder = recorder;
  return c->status;
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
static void update_all(pn_context *c, pn_optim *o, pn_tensor *const *g, pn_tensor *const *noise, double scale) {
  pass s = {.o = o, .g = g, .noise = noise, .u = {.scale = scale, .limit = option_of(o, "clip_value")}, .last = -1};
  for (int i = 0; i < o->n; i++)
    if (g[i]) o->step[i]++;
  pni_parallel_whole(c, numbers(o, g), GRAIN, update_shard, &s);
  for (int i = 0; i < o->n; i++)
    if (g[i]) o->param[i]->storage->version++;
}

/* grads[i] may be NULL: that parameter rests. `loss` (may be NULL) serves the message. */
static pn_status apply(pn_context *c, pn_optim *o, pn_tensor *const *grads, pn_tensor *loss) {
  pn_tensor **g = pni_calloc_array(c, pni_times(2, o->n), sizeof *g), **noise = g ? g + o->n : NULL;
  int used = 0, bad = -1;
  double scale = 1;
  for (int i = 0; g && i < o->n && !pni_failed(c); i++) {
    pn_tensor *given = grads ? grads[i] : o->param[i]->grad;
    if (!given || !(g[i] = usable(c, o, i, given))) continue;
    used++;
  }
  if (!pni_failed(c)) bad = first_bad(c, o, g);
  if (bad >= 0) not_finite(c, o, bad, loss);
  if (!pni_failed(c) && used == 0)
    pni_fail(c, PN_STATE, "%s: no parameter of this optimiser has a gradient (does the loss depend on them?)",
             o->type->name);
  c->evaluating++;
  if (!pni_failed(c)) scale = clip_scale(c, o, g);
  if (!pni_failed(c) && find_directions(c, o, g, noise, scale) == PN_OK && draw_noise(c, o, g, noise) == PN_OK)
    update_all(c, o, g, noise, scale);
  c->evaluating--;
  for (int i = 0; g && i < 2 * o->n; i++) pn_tensor_unref(g[i]);
  pni_free(c, g);
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
  pni_free(c, s);
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
  pni_free(c, in);
  return c->status;
}

/* loss, grads: one of them may be NULL. `backward` makes the gradients of the loss. */
static pn_status take(pn_context *c, pn_optim *o, pn_tensor *loss, pn_tensor *const *grads,
                      pn_status (*backward)(pn_context *c, pn_tensor *y)) {
  step *s = pni_calloc(c, sizeof *s);
  if (!s) return c->status;
  pni_object_born(c);
  *s = (step){.refs = 1, .ctx = c, .o = pn_optim_ref(o)};
  bool ready = !loss || (pni_updates_gather(c, loss, &s->u) == PN_OK && backward(c, loss) == PN_OK);
  c->evaluating++;
  ready = ready && pni_updates_check(c, &s->u, s->u.value) == PN_OK;
  c->evaluating--;
  if (ready && record(c, s, loss, grads) == PN_OK && apply(c, o, grads, loss) == PN_OK)
    pni_updates_commit(&s->u, s->u.value);
  release(s);
  return c->status;
}

static pn_status take_step(pn_context *c, pn_optim *o, pn_tensor *loss,
                           pn_status (*backward)(pn_context *c, pn_tensor *y)) {
  if (pni_failed(c)) return c->status;
  if (!o || !loss) return pni_fail(c, PN_STATE, "optim_step: optimiser and loss must not be NULL");
  if (loss->numel == 1 && !pni_all_finite(c, loss)) return c->status ? c->status : not_finite(c, o, -1, loss);
  for (int i = 0; i < o->n; i++) pn_tensor_clear_grad(o->param[i]);
  return take(c, o, loss, NULL, backward);
}

pn_status pn_optim_step(pn_context *c, pn_optim *o, pn_tensor *loss) { return take_step(c, o, loss, pn_backward); }
pn_status pni_optim_step_spend(pn_context *c, pn_optim *o, pn_tensor *loss) {
  return take_step(c, o, loss, pni_backward_spend);
}

pn_status pn_optim_apply(pn_context *c, pn_optim *o, pn_tensor *const *grads) {
  if (pni_failed(c)) return c->status;
  if (!o) return pni_fail(c, PN_STATE, "optim_apply: optimiser must not be NULL");
  return take(c, o, NULL, grads, NULL);
}
