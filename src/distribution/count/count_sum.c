/*
** count_sum.c: the points, found element by element (count_sum.h), and the sum over them.
*/
#include "count_sum.h"
#include <string.h>
#include "../formula.h"

enum {
  NODES = 12,   /* of one long run */
  SHORT = 32,   /* runs below this are taken number by number */
  SIZES = 64,   /* runs have 2^5 .. 2^63 numbers */
  FACTS = 5,    /* numbers that say where the points of an element are */
  MOST = 16384, /* points of an element */
  PLAN = 1280   /* the same where values are not known yet */
};

/* ---- Gauss's rule for 0 .. n - 1, as offsets from the middle in units of n ---- */

typedef struct {
  bool made;
  double at[NODES], weight[NODES];
} rule;

/* Monic polynomials on (k + 1/2) / n - 1/2: p_(j+1) = t p_j - g_j p_(j-1), g_j = j^2 (1 - (j/n)^2) / (4 (4 j^2 - 1)).
 * value[0 .. 2]: p_N, its derivative, p_(N-1). */
static void polynomial(double t, double n, double value[3]) {
  double p = 1, before = 0, slope = 0, slope_before = 0;
  for (int j = 0; j < NODES; j++) {
    double r = j / n, g = j ? j * (double)j * (1 - r * r) / (4 * (4.0 * j * j - 1)) : 0;
    double next = t * p - g * before, slope_next = p + t * slope - g * slope_before;
    before = p, p = next, slope_before = slope, slope = slope_next;
  }
  value[0] = p, value[1] = slope, value[2] = before;
}

/* Roots from the outermost in, by Newton's steps with those found divided out; w = h / (p' p_(N-1)), h = n g_1 g_2
 * ... */
static void make_rule(rule *r, double n) {
  double h = n, v[3];
  for (int j = 1; j < NODES; j++) h *= j * (double)j * (1 - j * (double)j / (n * n)) / (4 * (4.0 * j * j - 1));
  for (int k = 0; k < NODES / 2; k++) {
    double t = 0.5;
    for (int step = 0; step < 100; step++) {
      polynomial(t, n, v);
      double others = 0;
      for (int i = 0; i < k; i++) others += 1 / (t - r->at[i]) + 1 / (t + r->at[i]);
      double move = v[0] / (v[1] - v[0] * others);
      t -= move;
      if (fabs(move) < 1e-16) break;
    }
    polynomial(t, n, v);
    r->at[k] = t, r->at[NODES - 1 - k] = -t;
    r->weight[k] = r->weight[NODES - 1 - k] = h / (v[1] * v[2]);
  }
  r->made = true;
}

/* ---- the points of one element ---- */

typedef struct {
  double mean, deviation, low, high, top;
} span;

/* What lies outside [low, high] has a share of e^-45 (Bernstein's inequality). */
static span span_of(double mean, double variance, double decay, double top, double last) {
  enum { LOG_SHARE = 45 };
  double reach = LOG_SHARE * decay + sqrt(LOG_SHARE * decay * LOG_SHARE * decay + 2 * LOG_SHARE * variance);
  return (span){mean, sqrt(variance), fmax(floor(mean - reach), 0), fmin(fmin(ceil(mean + reach), top), last), top};
}

/* The length of the run at x, a power of two as exponent, or 0: x alone. */
static int run_length(const span *s, double x) {
  double away = fmax(2 * s->deviation, fabs(x - s->mean) / 2), most = fmin(fmin(x, away), s->high + 1 - x);
  if (isfinite(s->top)) most = fmin(most, (s->top - x) / 2);
  if (!(most >= SHORT)) return 0;
  int e = ilogb(most);
  return e < SIZES ? e : SIZES - 1;
}

/* Writes up to `room` points; returns how many there are, room + 1 if there are more. */
static int64_t walk(const span *s, int64_t room, double *x, double *w, rule *rules) {
  int64_t n = 0;
  for (double at = s->low; at <= s->high;) {
    int e = run_length(s, at), count = e ? NODES : 1;
    if (n + count > room) return room + 1;
    double length = e ? ldexp(1, e) : 1;
    if (x && e) {
      rule *r = &rules[e];
      if (!r->made) make_rule(r, length);
      for (int k = 0; k < NODES; k++) x[n + k] = at + (length - 1) / 2 - r->at[k] * length, w[n + k] = r->weight[k];
    } else if (x) {
      x[n] = at, w[n] = 1;
    }
    n += count;
    if (at + length == at) return room + 1; /* beyond 2^53 */
    at += length;
  }
  return n;
}

double pni_count_range(double mean, double deviation, double low, double high, double top,
                       double (*f)(double x, const double *data), const double *data) {
  rule rules[SIZES];
  for (int e = 0; e < SIZES; e++) rules[e].made = false;
  span s = {mean, deviation, low, high, top};
  double total = 0;
  for (double at = low; at <= high;) {
    int e = run_length(&s, at);
    double length = e ? ldexp(1, e) : 1, sum = e ? 0 : f(at, data);
    if (e && !rules[e].made) make_rule(&rules[e], length);
    for (int k = 0; e && k < NODES; k++)
      sum += rules[e].weight[k] * f(at + (length - 1) / 2 - rules[e].at[k] * length, data);
    total += sum;
    if (at + length == at) return NAN; /* beyond 2^53 */
    at += length;
  }
  return total;
}

static pn_status too_many_axes(pn_context *c) {
  return pni_fail(c, PN_SHAPE, "entropy: at most %d axes are possible", PN_MAX_DIMS - 2);
}

/* ---- the points of all elements: [batch, 2, points] out of [batch, FACTS] ---- */

static span element(const double *p) { return span_of(p[0], p[1], p[2], p[3], p[4]); }

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *t = call->in[0];
  char s[PNI_SHAPE_TEXT];
  if (t->ndim == PN_MAX_DIMS) return too_many_axes(c);
  if (t->ndim < 1 || t->shape[t->ndim - 1] != FACTS || t->dtype != PN_FLOAT64)
    return pni_fail(c, PN_SHAPE, "count_points: input must be float64 [..., %d], got %s %s", (int)FACTS,
                    pn_dtype_name((pn_dtype)t->dtype), pni_shape_text(t->ndim, t->shape, s));
  *out = pni_spec_of(t);
  out->shape[out->ndim - 1] = 2;
  out->shape[out->ndim++] = call->attr->i[0];
  return PN_OK;
}

/* An element that needs more has NaN. */
static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  pni_spec s = pni_spec_of(call->in[0]);
  pn_tensor *given = pni_tensor_new(c, &s);
  if (!given || pni_copy(c, given, call->in[0])) {
    pn_tensor_unref(given);
    return c->status;
  }
  rule rules[SIZES];
  memset(rules, 0, sizeof rules);
  int64_t room = call->attr->i[0];
  pni_watch watch = {.c = c};
  for (int64_t i = 0; i < given->numel / FACTS && !pni_watch_check(&watch, 8 * room); i++) {
    double *x = (double *)pni_data(out) + 2 * i * room, *w = x + room;
    span place = element((const double *)pni_data(given) + FACTS * i);
    int64_t n = walk(&place, room, x, w, rules);
    bool lost = n > room || isnan(place.mean + place.deviation);
    for (int64_t k = lost ? 0 : n; k < room; k++) x[k] = place.low, w[k] = lost ? NAN : 0;
  }
  pn_tensor_unref(given);
  return c->status;
}

static const pni_op points = {
    .name = "count_points", .flags = PNI_OP_NODIFF | PNI_OP_HIDDEN, .infer = infer, .eval = eval};

/* How many points the elements need. */
static int64_t needed(pn_context *c, pn_tensor *t) {
  if (c->recorder && pni_varies(c, t)) return PLAN;
  int64_t most = 1;
  pni_watch watch = {.c = c};
  for (int64_t i = 0; i < t->numel && !pni_watch_check(&watch, MOST); i += FACTS) {
    double p[FACTS];
    for (int k = 0; k < FACTS; k++) p[k] = pni_element(t, i + k);
    span place = element(p);
    int64_t n = walk(&place, MOST, NULL, NULL, NULL);
    if (n > most && n <= MOST) most = n;
  }
  return most;
}

static T *find_points(C *c, D *d, const pni_count_place *where) {
  T *given[FACTS] = {where->mean, where->variance, where->decay, where->top, where->last}, *part[FACTS];
  static const double absent[FACTS] = {0, 0, 1, INFINITY, INFINITY};
  for (int k = 0; k < FACTS; k++) {
    T *t = given[k] ? given[k] : constant(c, d, absent[k]);
    part[k] = pn_cast(c, pni_dist_expand_to(c, t, pni_dist_base_ndim(d), d->shape), PN_FLOAT64);
  }
  T *t = pni_failed(c) ? NULL : pn_stack(c, FACTS, part, -1);
  return t ? pni_apply1(c, &points, t, &(pni_attr){.ni = 1, .i = {needed(c, t)}}) : NULL;
}

/* ---- values repeated for all points, and sums over them, in an order that does not depend on their number: points of
 * weight 0 at the end change no bit, so that eager and replayed calls agree ---- */

static pn_status infer_repeat(pn_context *c, const pni_call *call, pni_spec *out) {
  *out = pni_spec_of(call->in[0]);
  if (out->ndim == PN_MAX_DIMS) return too_many_axes(c);
  out->shape[out->ndim++] = call->attr->i[0];
  return PN_OK;
}

static bool view_repeat(const pni_call *call, pn_tensor *out) {
  const pn_tensor *x = call->in[0];
  for (int i = 0; i < x->ndim; i++) out->stride[i] = x->stride[i];
  out->stride[x->ndim] = 0;
  return true;
}

static pn_status infer_total(pn_context *c, const pni_call *call, pni_spec *out) {
  if (pni_require_axes(c, call, "...n")) return c->status;
  *out = pni_spec_of(call->in[0]);
  if (out->dtype != PN_FLOAT64)
    return pni_fail(c, PN_DTYPE, "count_total: input must be float64, got %s", pn_dtype_name((pn_dtype)out->dtype));
  out->ndim--;
  return PN_OK;
}

static pn_status eval_total(pn_context *c, const pni_call *call, pn_tensor *out) {
  pni_spec s = pni_spec_of(call->in[0]);
  int64_t n = s.shape[s.ndim - 1];
  pni_watch watch = {.c = c};
  pn_tensor *t = pni_tensor_new(c, &s);
  if (t && pni_copy(c, t, call->in[0]) == PN_OK)
    for (int64_t i = 0; i < out->numel && !pni_watch_check(&watch, n); i++) {
      const double *x = (const double *)pni_data(t) + i * n;
      double sum = 0;
      for (int64_t k = 0; k < n; k++) sum += x[k];
      ((double *)pni_data(out))[i] = sum;
    }
  pn_tensor_unref(t);
  return c->status;
}

static T *repeated(C *c, T *x, int64_t n);
static T *total(C *c, T *x);
static T *vjp_repeat(C *c, T *y, T *g, int k) { return (void)y, (void)k, total(c, g); }
static T *vjp_total(C *c, T *y, T *g, int k) {
  T *x = pni_in(y, k);
  return repeated(c, g, x->shape[x->ndim - 1]);
}

static const pni_op repeat_points = {
    .name = "count_repeat", .flags = PNI_OP_HIDDEN, .infer = infer_repeat, .view = view_repeat, .vjp = vjp_repeat};
static const pni_op total_points = {
    .name = "count_total", .flags = PNI_OP_HIDDEN, .infer = infer_total, .eval = eval_total, .vjp = vjp_total};

static T *repeated(C *c, T *x, int64_t n) { return pni_apply1(c, &repeat_points, x, &(pni_attr){.ni = 1, .i = {n}}); }
static T *total(C *c, T *x) { return pni_apply1(c, &total_points, x, NULL); }

/* ---- the sum ---- */

/* d with its parameters repeated for n points, in float64. */
static pn_dist with_points(C *c, D *d, int64_t n) {
  pn_dist in_double = *d;
  in_double.dtype = PN_FLOAT64;
  for (int k = 0; k < PNI_DIST_PARAMS; k++)
    if (d->param[k]) in_double.param[k] = repeated(c, pn_cast(c, d->param[k], PN_FLOAT64), n);
  return in_double;
}

static T *sum_of(C *c, D *d, const pni_count_place *where, pni_count_term f) {
  int old = pn_set_no_grad(c, 1);
  T *both = find_points(c, d, where), *x = pn_select(c, both, -2, 0), *w = pn_select(c, both, -2, 1);
  pn_set_no_grad(c, old);
  if (!x || !w) return NULL;
  pn_dist in_double = with_points(c, d, x->shape[x->ndim - 1]);
  if (pni_failed(c)) return NULL;
  T *lp = in_double.kind->log_prob(c, &in_double, x), *none = below(c, lp, -740);
  T *safe = but(c, none, 0, lp), *p = but(c, none, 0, pn_exp(c, safe));
  T *value = f ? but(c, none, 0, f(c, &in_double, x)) : pn_neg(c, safe);
  return pn_cast(c, total(c, pn_mul(c, w, pn_mul(c, p, value))), (pn_dtype)d->dtype);
}

/* ---- many elements without a gradient: block by block, so that the points of all do not stand at once ---- */

enum { BLOCK = 1024 };

static bool tracked(const C *c, D *d) {
  for (int k = 0; k < PNI_DIST_PARAMS; k++)
    if (d->param[k] && pn_tensor_requires_grad(d->param[k])) return !c->no_grad;
  return false;
}

/* t for all n elements in a row; NULL if there is none */
static T *in_row(C *c, D *d, T *t, int64_t n) {
  T *expanded = t ? pni_dist_expand_to(c, t, pni_dist_base_ndim(d), d->shape) : NULL;
  return expanded ? pn_reshape(c, expanded, 1, &n) : NULL;
}

static T *part_of(C *c, T *row, int64_t at, int64_t size) { return row ? pn_slice(c, row, 0, at, size, 1) : NULL; }

static T *sum_blocks(C *c, D *d, const pni_count_place *where, pni_count_term f, int64_t n) {
  pn_dist rows = *d;
  pni_count_place at = {in_row(c, d, where->mean, n), in_row(c, d, where->variance, n), in_row(c, d, where->decay, n),
                        in_row(c, d, where->top, n), in_row(c, d, where->last, n)};
  for (int k = 0; k < PNI_DIST_PARAMS; k++) rows.param[k] = in_row(c, d, d->param[k], n);
  int64_t blocks = (n + BLOCK - 1) / BLOCK;
  pni_spec s = {.dtype = d->dtype, .ndim = 1, .shape = {n}};
  T *out = pni_failed(c) ? NULL : pni_scoped(c, pni_tensor_new(c, &s));
  size_t bytes = d->dtype == PN_FLOAT64 ? sizeof(double) : sizeof(float);
  for (int64_t i = 0; i < blocks && out && !pni_failed(c); i++) {
    int64_t first = i * BLOCK, size = n - first < BLOCK ? n - first : BLOCK;
    size_t mark = pn_scope_open(c);
    pn_dist part = rows;
    part.batch_ndim = 1, part.moved = 0, part.shape[0] = size;
    for (int k = 0; k < PNI_DIST_PARAMS; k++) part.param[k] = part_of(c, rows.param[k], first, size);
    pni_count_place here = {part_of(c, at.mean, first, size), part_of(c, at.variance, first, size),
                            part_of(c, at.decay, first, size), part_of(c, at.top, first, size),
                            part_of(c, at.last, first, size)};
    T *t = pni_failed(c) ? NULL : pn_contiguous(c, sum_of(c, &part, &here, f));
    if (t) memcpy((char *)pni_data(out) + (size_t)first * bytes, pni_data(t), (size_t)size * bytes);
    pn_scope_close(c, mark);
  }
  return out && !pni_failed(c) ? pn_reshape(c, out, pni_dist_base_ndim(d), d->shape) : NULL;
}

T *pni_count_sum(C *c, D *d, const pni_count_place *where, pni_count_term f) {
  int64_t n = 1;
  for (int i = 0; i < pni_dist_base_ndim(d); i++) n *= d->shape[i];
  if (pni_failed(c)) return NULL;
  return n <= BLOCK || c->recorder || tracked(c, d) ? sum_of(c, d, where, f) : sum_blocks(c, d, where, f, n);
}
