/*
** batch.c: the rules by which operations are done for a batch of examples at once. Examples stand along axis 0, so an
** axis of one example is the next one of the batch, and what broadcasts needs its axes of size 1 behind axis 0.
*/
#include <string.h>
#include "batch.h"

typedef pn_tensor T;
typedef pn_context C;
typedef pni_batch B;

/* ---- shapes ---- */

/* The shape [n, one...]. */
static int with_examples(int64_t n, int ndim, const int64_t *one, int64_t *shape) {
  shape[0] = n;
  for (int i = 0; i < ndim && i + 1 < PN_MAX_DIMS; i++) shape[i + 1] = one[i];
  return ndim + 1;
}

T *pni_batch_spread(C *c, T *t, int64_t n) {
  int64_t shape[PN_MAX_DIMS];
  if (!t) return NULL;
  int ndim = with_examples(n, t->ndim, t->shape, shape);
  return pn_broadcast_to(c, t, ndim, shape);
}

static void spread_all(C *c, const B *b) {
  for (int k = 0; k < b->nin; k++)
    if (!b->mapped[k]) b->in[k] = pni_batch_spread(c, b->in[k], b->n);
}

/* Axes of one example of input k. */
static int rank_of(const B *b, int k) { return b->in[k]->ndim - b->mapped[k]; }

/* Mapped t [n, ...] with axes of size 1 behind the first, so that one example has `rank` axes. */
static T *aligned(C *c, T *t, int rank) {
  int64_t shape[PN_MAX_DIMS];
  int more = t ? rank - (t->ndim - 1) : 0;
  if (more <= 0) return t;
  int ndim = t->ndim + more;
  for (int i = 0; i < ndim && i < PN_MAX_DIMS; i++)
    shape[i] = i == 0 ? t->shape[0] : i <= more ? 1 : t->shape[i - more];
  return pn_reshape(c, t, ndim, shape);
}

/* A copy that can be changed: a node keeps only the ints in use. */
static pni_attr attr_of(const B *b) {
  pni_attr a = {0};
  memcpy(&a, b->attr, offsetof(pni_attr, i) + (size_t)b->attr->ni * sizeof a.i[0]);
  return a;
}

static bool any_is_null(const B *b) {
  for (int k = 0; k < b->nin; k++)
    if (!b->in[k]) return true;
  return false;
}

static T *apply(C *c, const B *b, const pni_attr *a) {
  return any_is_null(b) ? NULL : pni_apply(c, b->op, b->nin, b->in, a);
}

/* ---- rules ---- */

static T *elementwise(C *c, const B *b) {
  int rank = 0;
  for (int k = 0; k < b->nin; k++) rank = rank_of(b, k) > rank ? rank_of(b, k) : rank;
  for (int k = 0; k < b->nin; k++)
    if (b->mapped[k]) b->in[k] = aligned(c, b->in[k], rank);
  return apply(c, b, b->attr);
}

/* What the operation does to the last axes is the same for any axes before them. */
static T *trailing(C *c, const B *b) {
  spread_all(c, b);
  return apply(c, b, b->attr);
}

static T *next_axis(C *c, const B *b) {
  pni_attr a = attr_of(b);
  a.i[0]++;
  return apply(c, b, &a);
}

static T *axis(C *c, const B *b) {
  spread_all(c, b);
  return next_axis(c, b);
}

/* The factor, which may have fewer axes than x. */
static T *recurrence(C *c, const B *b) {
  int rank = rank_of(b, 0);
  if (!b->mapped[0]) b->in[0] = pni_batch_spread(c, b->in[0], b->n);
  if (b->mapped[1]) b->in[1] = aligned(c, b->in[1], rank);
  return next_axis(c, b);
}

/* i[0] is a set of axes; none means all, and of a 0-d example one axis of size 1. */
static T *axes(C *c, const B *b) {
  pni_attr a = attr_of(b);
  int rank = rank_of(b, 0);
  if (rank == 0) b->in[0] = aligned(c, b->in[0], 1);
  a.i[0] = rank == 0 ? 2 : a.i[0] ? a.i[0] << 1 : (((int64_t)1 << rank) - 1) << 1;
  if (rank == 0) a.i[1] = 0;
  return apply(c, b, &a);
}

static T *shape(C *c, const B *b) {
  int64_t to[PN_MAX_DIMS];
  int ndim = with_examples(b->n, b->like->ndim, b->like->shape, to);
  if (b->op == &pni_op_reshape) return pn_reshape(c, b->in[0], ndim, to);
  return pn_broadcast_to(c, aligned(c, b->in[0], b->like->ndim), ndim, to);
}

static T *order(C *c, const B *b) {
  pni_attr a = {.ni = b->attr->ni + 1};
  for (int i = 0; i < b->attr->ni; i++) a.i[i + 1] = b->attr->i[i] + 1;
  return apply(c, b, &a);
}

/* Two operands [..., n, m]; a vector on the left is a row (of matmul alone), on the right a column. */
static T *matrices(C *c, const B *b) {
  bool row = rank_of(b, 0) == 1, column = rank_of(b, 1) == 1;
  if (row) b->in[0] = pn_unsqueeze(c, b->in[0], -2);
  if (column) b->in[1] = pn_unsqueeze(c, b->in[1], -1);
  if (any_is_null(b)) return NULL;
  int rank = rank_of(b, 0) > rank_of(b, 1) ? rank_of(b, 0) : rank_of(b, 1);
  for (int k = 0; k < 2; k++)
    if (b->mapped[k]) b->in[k] = aligned(c, b->in[k], rank);
  T *y = apply(c, b, b->attr);
  if (column) y = y ? pn_squeeze(c, y, -1) : NULL;
  return row && y ? pn_squeeze(c, y, column ? -1 : -2) : y;
}

/* x W + b: one product if x alone differs. */
static T *affine(C *c, const B *b) {
  if (!b->mapped[1] && !b->mapped[2]) return apply(c, b, b->attr);
  pni_batch product = *b, sum = *b;
  pni_attr none = {0};
  product.op = &pni_op_matmul;
  product.nin = 2;
  product.attr = sum.attr = &none;
  bool over = b->mapped[0] || b->mapped[1];
  T *y = over ? matrices(c, &product) : pn_matmul(c, b->in[0], b->in[1]);
  sum.op = &pni_op_add;
  sum.nin = 2;
  sum.in = (T *[]){y, b->in[2]};
  sum.mapped = (bool[]){over, b->mapped[2]};
  return y ? elementwise(c, &sum) : NULL;
}

/* [n, m, ...] -> [n m, ...] */
static T *merged(C *c, T *t) {
  int64_t s[PN_MAX_DIMS];
  if (!t) return NULL;
  s[0] = t->shape[0] * t->shape[1];
  for (int i = 2; i < t->ndim; i++) s[i - 1] = t->shape[i];
  return pn_reshape(c, t, t->ndim - 1, s);
}

/* [n m, ...] -> [n, m, ...] */
static T *split(C *c, T *t, int64_t n, int64_t m) {
  int64_t s[PN_MAX_DIMS] = {n, m};
  if (!t) return NULL;
  for (int i = 1; i < t->ndim; i++) s[i + 1] = t->shape[i];
  return pn_reshape(c, t, t->ndim + 1, s);
}

/* Images of all examples are images. */
static T *images(C *c, const B *b) {
  b->in[0] = merged(c, b->in[0]);
  return split(c, apply(c, b, b->attr), b->n, b->like->shape[0]);
}

static T *swapped(C *c, T *t) { return t ? pn_transpose(c, t, 0, 1) : NULL; }
/* [n, images, channels, ...] -> [images, n channels, ...] */
static T *in_channels(C *c, T *t) {
  T *s = swapped(c, t);
  if (!s) return NULL;
  int64_t to[] = {s->shape[0], s->shape[1] * s->shape[2], s->shape[3], s->shape[4]};
  return pn_reshape(c, s, 4, to);
}

/* With one weight for all, more images; else each example's channels are groups of their own. */
static T *convolution(C *c, const B *b) {
  bool of_weight = b->op == &pni_op_conv2d_weight;
  if (!of_weight && !b->mapped[1]) return images(c, b);
  pni_attr a = attr_of(b);
  a.i[6] *= b->n; /* groups */
  spread_all(c, b);
  b->in[0] = in_channels(c, b->in[0]);
  b->in[1] = of_weight ? in_channels(c, b->in[1]) : b->in[1] ? merged(c, b->in[1]) : NULL;
  T *y = apply(c, b, &a);
  const int64_t *one = b->like->shape;
  if (of_weight) return split(c, y, b->n, one[0]);
  return y ? swapped(c, pn_reshape(c, y, 5, (int64_t[]){one[0], b->n, one[1], one[2], one[3]})) : NULL;
}

static T *one_by_one(C *c, const B *b);

/* take(x, axis, index) with places that differ gives [outer, n, places, inner]. */
static T *lookup(C *c, const B *b) {
  if (!b->mapped[1]) return next_axis(c, b);
  if (b->mapped[0]) return one_by_one(c, b);
  int order_of[PN_MAX_DIMS], at = (int)b->attr->i[0], n = 0;
  T *y = apply(c, b, b->attr);
  if (!y) return NULL;
  order_of[n++] = at;
  for (int i = 0; i < y->ndim; i++)
    if (i != at) order_of[n++] = i;
  return pn_permute(c, y, y->ndim, order_of);
}

static T *lookup_add(C *c, const B *b) { return b->mapped[1] ? one_by_one(c, b) : next_axis(c, b); }

/* ---- without a rule ---- */

static T *no_examples(C *c, const B *b) {
  int64_t s[PN_MAX_DIMS];
  int ndim = with_examples(0, b->like->ndim, b->like->shape, s);
  return pn_zeros(c, (pn_dtype)b->like->dtype, ndim, s);
}

static T *one_by_one(C *c, const B *b) {
  if (b->n == 0) return no_examples(c, b);
  T **part = pni_alloc_array(c, b->n, sizeof *part), **in = pni_alloc_array(c, b->nin, sizeof *in), *y = NULL;
  bool ok = part && in;
  for (int64_t i = 0; ok && i < b->n; i++) {
    for (int k = 0; k < b->nin && ok; k++)
      ok = (in[k] = b->mapped[k] ? pn_select(c, b->in[k], 0, i) : b->in[k]) != NULL;
    ok = ok && (part[i] = pn_unsqueeze(c, pni_apply(c, b->op, b->nin, in, b->attr), 0)) != NULL;
  }
  if (ok) y = pn_concatenate(c, (int)b->n, part, 0);
  pni_free(c, part);
  pni_free(c, in);
  return y;
}

/* Examples of x are more elements. */
static T *places(C *c, const B *b) { return b->mapped[1] ? one_by_one(c, b) : apply(c, b, b->attr); }

/* ---- choice ---- */

typedef T *(*rule)(C *c, const B *b);

static const struct {
  const char *name;
  rule rule;
} rules[] = {
#define X(name)
#define H(name)
#define V(name, rule) {#name, rule},
#include "../op/op.def"
    /* of no list: parts of softmax, log_softmax and logsumexp, and rows of Bernoulli variables */
    V(softmax_slope, axis) V(log_softmax_slope, axis) V(logsumexp_slope, trailing) V(bernoulli_row_masses, trailing)
        V(bernoulli_row_slopes, trailing)
#undef X
#undef H
#undef V
};

static rule rule_of(const pni_op *op) {
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
    if (strcmp(rules[i].name, op->name) == 0) return rules[i].rule;
  return op->flags & PNI_OP_ELEMENTWISE || op->map || op->kernel ? elementwise : one_by_one;
}

T *pni_batch_apply(C *c, const B *b) {
  if (b->like->ndim + 1 > PN_MAX_DIMS) {
    pni_fail(c, PN_SHAPE, "vmap: %s gives %d axes and one for the examples, at most %d are possible", b->op->name,
             b->like->ndim, PN_MAX_DIMS);
    return NULL;
  }
  return rule_of(b->op)(c, b);
}
