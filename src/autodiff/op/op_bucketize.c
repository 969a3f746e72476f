/*
** op_bucketize.c: places of numbers among edges that rise: bisection, or, where the edges stand evenly, a
** multiplication and two comparisons. attr: i[0] an edge is below what equals it, i[1] but for the last.
*/
#include "../../base/span.h"
#include "op.h"

typedef struct {
  pn_context *c;
  const void *x, *edges;
  int64_t *out;
  int64_t n, numbers; /* of the edges, and those that are not NaN */
  bool right, closed, even;
} job;

/* Edges are even if guess(edge k), the bin from 0 to n - 2 that the width of a bin puts it in, is k or k - 1. As guess
** rises with v, v between the edges k and k + 1 then has the guess k - 1, k or k + 1, which two comparisons decide. At
** most MOST, so that floats count them. */
enum { MOST = 1 << 20 };

#define GUESS(T)                                                                                                       \
  static inline int32_t guess_##T(T v, T low, T scale, T last) {                                                       \
    T at = (v - low) * scale;                                                                                          \
    at = at > 0 ? at : 0; /* also of NaN */                                                                            \
    return (int32_t)(at < last ? at : last);                                                                           \
  }                                                                                                                    \
  static T scale_##T(const T *e, int64_t n) { return (T)(n - 1) / (e[n - 1] - e[0]); }                                 \
  static bool even_##T(const T *e, int64_t n) {                                                                        \
    if (n < 2 || n > MOST) return false;                                                                               \
    T scale = scale_##T(e, n);                                                                                         \
    for (int64_t k = 0; k < n; k++) {                                                                                  \
      int64_t bin = guess_##T(e[k], e[0], scale, (T)(n - 2));                                                          \
      if ((bin != k && bin != k - 1) || (k > 0 && !(e[k] >= e[k - 1]))) return false;                                  \
    }                                                                                                                  \
    return true;                                                                                                       \
  }                                                                                                                    \
  static void even_places_##T(const job *j, int64_t begin, int64_t end) {                                              \
    const T *x = j->x, *e = j->edges;                                                                                  \
    T low = e[0], scale = scale_##T(e, j->n), last = (T)(j->n - 2), top = e[j->n - 1];                                 \
    int64_t nan = j->right ? j->n : j->numbers;                                                                        \
    for (int64_t i = begin; i < end; i++) {                                                                            \
      T v = x[i];                                                                                                      \
      int32_t bin = guess_##T(v, low, scale, last);                                                                    \
      const T *at = e + bin;                                                                                           \
      int32_t below = j->right ? (v >= at[0]) + (v >= at[1]) - (j->closed & (v == top)) : (v > at[0]) + (v > at[1]);   \
      j->out[i] = v == v ? bin + below : nan;                                                                          \
    }                                                                                                                  \
  }

/* Halves what may hold the place without a branch. */
#define BISECT(T, IS_NAN)                                                                                              \
  static inline int64_t bisect_##T(const T *e, int64_t n, T v, const bool right) {                                     \
    const T *from = e;                                                                                                 \
    for (; n > 1; n -= n / 2) {                                                                                        \
      const T *middle = from + n / 2;                                                                                  \
      from = (right ? middle[-1] <= v : middle[-1] < v) ? middle : from;                                               \
    }                                                                                                                  \
    return from - e + (n == 1 && (right ? *from <= v : *from < v));                                                    \
  }                                                                                                                    \
  static void places_##T(const job *j, int64_t begin, int64_t end) {                                                   \
    const T *x = j->x, *e = j->edges;                                                                                  \
    for (int64_t i = begin; i < end; i++) {                                                                            \
      T v = x[i];                                                                                                      \
      int64_t place = j->right ? bisect_##T(e, j->n, v, true) : bisect_##T(e, j->n, v, false);                         \
      if (IS_NAN(v)) place = j->right ? j->n : j->numbers;                                                             \
      if (j->closed && j->n > 0 && v == e[j->n - 1]) place = j->n - 1;                                                 \
      j->out[i] = place;                                                                                               \
    }                                                                                                                  \
  }

#define NO_NAN(v) ((v) != (v))
#define ALL(v)    false
GUESS(double)
GUESS(float)
BISECT(double, NO_NAN)
BISECT(float, NO_NAN)
BISECT(int64_t, ALL)
#undef GUESS
#undef BISECT
#undef NO_NAN
#undef ALL

static void find(const job *j, int dtype, int64_t begin, int64_t end) {
  if (dtype == PN_FLOAT64)
    (j->even ? even_places_double : places_double)(j, begin, end);
  else if (dtype == PN_FLOAT32)
    (j->even ? even_places_float : places_float)(j, begin, end);
  else
    places_int64_t(j, begin, end);
}

typedef struct {
  job j;
  int dtype;
} shards;

static void run(void *data, int64_t begin, int64_t end) {
  const shards *s = data;
  for (int64_t at = begin; at < end && !pni_leaves(s->j.c); at += PNI_SPAN)
    find(&s->j, s->dtype, at, end - at < PNI_SPAN ? end : at + PNI_SPAN);
}

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *x = call->in[0], *edges = call->in[1];
  *out = pni_spec_of(x);
  out->dtype = PN_INT64;
  if (edges->ndim != 1) return pni_fail(c, PN_SHAPE, "bucketize: edges must be [n], got %d axes", edges->ndim);
  if (x->dtype != edges->dtype || x->dtype == PN_BOOL)
    return pni_fail(c, PN_DTYPE, "bucketize: x and edges must have one dtype that is not bool, got %s and %s",
                    pn_dtype_name((pn_dtype)x->dtype), pn_dtype_name((pn_dtype)edges->dtype));
  return PN_OK;
}

/* Numbers of a rising row, of which NaN stand last. */
static int64_t numbers(const pn_tensor *edges) {
  int64_t n = edges->numel;
  if (edges->dtype == PN_FLOAT64)
    for (const double *e = pni_data(edges); n > 0 && e[n - 1] != e[n - 1]; n--) continue;
  if (edges->dtype == PN_FLOAT32)
    for (const float *e = pni_data(edges); n > 0 && e[n - 1] != e[n - 1]; n--) continue;
  return n;
}

static bool even(const pn_tensor *edges, int64_t many) {
  if (many < edges->numel || edges->dtype == PN_INT64) return false;
  return edges->dtype == PN_FLOAT64 ? even_double(pni_data(edges), edges->numel)
                                    : even_float(pni_data(edges), edges->numel);
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  pn_tensor *x = pni_contiguous(c, call->in[0]), *edges = x ? pni_contiguous(c, call->in[1]) : NULL;
  if (edges) {
    shards s = {.j = {.c = c, .x = pni_data(x), .edges = pni_data(edges), .out = pni_data(out)}, .dtype = x->dtype};
    s.j.n = edges->numel;
    s.j.numbers = numbers(edges);
    s.j.right = call->attr->i[0] != 0;
    s.j.closed = s.j.right && call->attr->i[1] != 0;
    s.j.even = even(edges, out->numel);
    pni_parallel(c, out->numel, PNI_SPAN / 2, run, &s);
  }
  pn_tensor_unref(x);
  pn_tensor_unref(edges);
  return c->status;
}

pn_tensor *pn_bucketize(pn_context *c, pn_tensor *x, pn_tensor *edges, int right, int closed) {
  return pni_apply2(c, &pni_op_bucketize, x, edges, &(pni_attr){.ni = 2, .i = {right != 0, closed != 0}});
}

const pni_op pni_op_bucketize = {
    .name = "bucketize",
    .args = "x:t edges:t right:b=false closed:b=false",
    .doc = "how many of edges [n], which rise, are below each element (right: or equal it, closed: but for the last "
           "edge); NaN above all; int64",
    .flags = PNI_OP_ANY_DTYPE | PNI_OP_NODIFF,
    .infer = infer,
    .eval = eval};
