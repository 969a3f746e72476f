/*
** stream.c: log-weights in constant memory. Sums move to a new largest weight as it comes; the tail that k-hat is
** fitted to is a heap of the largest weights, so that it is the same as if all draws had been kept.
*/
#include <math.h>
#include <string.h>
#include "../../base/sort.h"
#include "stream.h"

/* ---- life ---- */

static void destroy(pn_weight_stream *s) {
  pn_context *c = s->ctx;
  pni_free(c, s->column);
  pni_free(c, s->tail);
  pni_free(c, s);
  pni_object_died(c);
}

pn_weight_stream *pn_weight_stream_new(pn_context *c, int64_t draws) {
  if (pni_failed(c) || pni_refuse_capture(c, "making a stream", "make it outside")) return NULL;
  if (draws < 0) {
    pni_fail(c, PN_DOMAIN, "stream: draws must be at least 0, got %lld", (long long)draws);
    return NULL;
  }
  pn_weight_stream *s = pni_calloc(c, sizeof *s);
  if (!s) return NULL;
  pni_object_born(c);
  s->refs = 1;
  s->ctx = c;
  s->batch = -1;
  s->draws = draws;
  s->room = draws ? pni_pareto_tail(draws, 1) + 1 : 0;
  return s;
}

pn_weight_stream *pn_weight_stream_ref(pn_weight_stream *s) {
  if (s) s->refs++;
  return s;
}

void pn_weight_stream_unref(pn_weight_stream *s) {
  if (s && --s->refs == 0) destroy(s);
}

/* The first weights tell how many data there are. */
static pn_status begin(pn_context *c, pn_weight_stream *s, int64_t batch) {
  pni_column *column = pni_calloc_array(c, batch, sizeof *column);
  int64_t kept = pni_times(batch, s->room);
  double *tail = column && kept ? pni_alloc_array(c, kept, sizeof *tail) : NULL;
  if (!column || (kept && !tail)) {
    pni_free(c, column);
    return c->status;
  }
  PNI_INTERRUPTIBLE(c, b, batch) column[b].top = -INFINITY;
  s->torn = pni_failed(c);
  s->column = column;
  s->tail = tail;
  s->batch = batch;
  return c->status;
}

/* ---- adding ---- */

/* Keeps the largest `room` numbers of n that were offered; heap[0] is the least of them. */
static void offer(double *heap, int64_t room, int64_t n, double v) {
  int64_t i = n;
  if (n < room) { /* at the end, then up */
    for (; i > 0 && heap[(i - 1) / 2] > v; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = v;
    return;
  }
  if (v <= heap[0]) return;
  for (i = 0;;) { /* in place of the least, then down */
    int64_t child = 2 * i + 1;
    if (child >= room) break;
    if (child + 1 < room && heap[child + 1] < heap[child]) child++;
    if (heap[child] >= v) break;
    heap[i] = heap[child];
    i = child;
  }
  heap[i] = v;
}

static void put(pni_column *s, double v) {
  s->logs += v;
  if (v == -INFINITY) return;
  if (v > s->top) {
    double by = exp(s->top - v);
    s->sum *= by;
    s->square *= by * by;
    s->top = v;
  }
  double w = exp(v - s->top);
  s->sum += w;
  s->square += w * w;
}

static pn_status check_whole(pn_context *c, const pn_weight_stream *s, const char *where) {
  if (!s->torn) return PN_OK;
  return pni_fail(c, PN_STATE, "%s: the stream must be whole, got one of which an addition was cancelled half-way",
                  where);
}

static pn_status check(pn_context *c, const pn_weight_stream *s, const pn_tensor *x) {
  char got[PNI_SHAPE_TEXT];
  if (!x) return c->status ? c->status : pni_fail(c, PN_STATE, "add: log_w must be a tensor, got NULL");
  if (pni_refuse_capture(c, "adding to a stream", "return the log-weights and add them outside")) return c->status;
  if (check_whole(c, s, "add")) return c->status;
  pni_shape_text(x->ndim, x->shape, got);
  if (!pni_is_float(x))
    return pni_fail(c, PN_DTYPE, "add: log_w must be float64 or float32, got %s", pn_dtype_name((pn_dtype)x->dtype));
  if (x->ndim != 2 || x->numel == 0) return pni_fail(c, PN_SHAPE, "add: log_w must be [K, B], got shape %s", got);
  if (s->batch >= 0 && x->shape[1] != s->batch)
    return pni_fail(c, PN_SHAPE, "add: log_w must be [K, %lld] as before, got shape %s", (long long)s->batch, got);
  PNI_INTERRUPTIBLE(c, i, x->numel) {
    double v = pni_weight(x, i);
    if (isnan(v) || v == INFINITY)
      return pni_fail(c, isnan(v) ? PN_NAN : PN_DOMAIN,
                      "add: log_w must be a number below +inf, got %s at draw %lld of "
                      "datum %lld",
                      isnan(v) ? "NaN" : "inf", (long long)(i / x->shape[1] + 1), (long long)(i % x->shape[1] + 1));
  }
  return c->status;
}

pn_status pn_weight_stream_add(pn_context *c, pn_weight_stream *s, pn_tensor *log_w) {
  if (!PNI_GIVEN(c, "weight_stream_add", s)) return c->status;
  pn_tensor *x = log_w ? pni_contiguous(c, log_w) : NULL;
  if (log_w && !x) return c->status;
  if (check(c, s, x) == PN_OK && (s->batch >= 0 || begin(c, s, x->shape[1]) == PN_OK)) {
    PNI_INTERRUPTIBLE(c, i, x->numel) {
      int64_t b = i % s->batch;
      double v = pni_weight(x, i);
      put(&s->column[b], v);
      if (s->room) offer(s->tail + b * s->room, s->room, s->count + i / s->batch, v);
    }
    s->count += x->shape[0];
    s->torn = pni_failed(c);
  }
  pn_tensor_unref(x);
  return c->status;
}

int64_t pn_weight_stream_count(const pn_weight_stream *s) { return s ? s->count : 0; }

/* ---- what is known ---- */

const char *const pni_stream_names[] = {"log_mean", "standard_error", "elbo", "effective_sample_size", "pareto_k",
                                        NULL};
enum { LOG_MEAN, ERROR, ELBO, SIZE, PARETO_K, KINDS };

/* room[2 * s->room] numbers of scratch. */
static double pareto_k(pn_context *c, const pn_weight_stream *s, int64_t b, pni_ranked *r, double *excess) {
  int64_t held = s->count < s->room ? s->count : s->room, n = pni_pareto_tail(s->count, 1) + 1;
  if (n > held || !isfinite(s->column[b].top)) return INFINITY;
  for (int64_t i = 0; i < held; i++) r[i] = (pni_ranked){s->tail[b * s->room + i] - s->column[b].top, i};
  if (pni_sort(c, r, held, sizeof *r, pni_by_weight)) return INFINITY;
  return pni_pareto_tail_smooth(c, r + held - n, n, excess);
}

static double known(const pn_weight_stream *s, int kind, int64_t b) {
  const pni_column *w = &s->column[b];
  double n = (double)s->count, size = w->sum > 0 ? w->sum * w->sum / w->square : 0;
  switch (kind) {
  case LOG_MEAN: return w->sum > 0 ? w->top + log(w->sum / n) : -INFINITY;
  case ERROR: return sqrt(fmax(1 / size - 1 / n, 0) * n / (n - 1)); /* of a mean, over that mean */
  case ELBO: return w->logs / n;
  default: return size;
  }
}

static pn_status fill(pn_context *c, const pn_weight_stream *s, int kind, double *out) {
  if (kind != PARETO_K) {
    PNI_INTERRUPTIBLE(c, b, s->batch) out[b] = known(s, kind, b);
    return c->status;
  }
  if (s->count > s->draws)
    return pni_fail(c, PN_STATE, "pareto_k: the stream must have been made for all its draws, got %lld draws for %lld",
                    (long long)s->count, (long long)s->draws);
  pni_ranked *r = pni_alloc_array(c, s->room, sizeof *r);
  double *excess = r ? pni_alloc_array(c, s->room, sizeof *excess) : NULL;
  for (int64_t b = 0; excess && b < s->batch && !pni_check_cancel(c); b++) out[b] = pareto_k(c, s, b, r, excess);
  pni_free(c, excess);
  pni_free(c, r);
  return c->status;
}

pn_tensor *pn_weight_stream_get(pn_context *c, const pn_weight_stream *s, const char *what) {
  int kind = 0;
  if (!PNI_GIVEN(c, "weight_stream_get", s, what) || pni_refuse_capture(c, "reading a stream", "do it outside"))
    return NULL;
  while (kind < KINDS && strcmp(pni_stream_names[kind], what) != 0) kind++;
  if (kind == KINDS) {
    pni_fail(c, PN_MISSING, "stream: there is no '%s'", what);
    return NULL;
  }
  if (check_whole(c, s, what)) return NULL;
  if (s->batch < 0) {
    pni_fail(c, PN_STATE, "%s: the stream must have been given log-weights, got none", what);
    return NULL;
  }
  pn_tensor *t = pn_zeros(c, PN_FLOAT64, 1, &s->batch);
  return t && fill(c, s, kind, pni_data(t)) == PN_OK ? t : NULL;
}
