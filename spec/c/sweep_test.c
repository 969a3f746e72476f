/*
** sweep_test.c: every public builder and action on tensors survives the failure of each of its
** allocations, through its value, its gradient and its gradient's gradient.
*/
#include "../../src/autodiff/graph.h"
#include "../../src/lua/operations.h"
#include "alloc_sweep.h"

/* What the expressions below are made of. */
typedef struct {
  pn_tensor *x, *y;   /* parameters [2, 3] inside the row's domain */
  pn_tensor *m, *s;   /* parameters [3, 2] and, symmetric positive definite, [3, 3] */
  pn_tensor *index;   /* int64 [2, 3], values 0 and 1 */
  pn_tensor *row;     /* int64 [2], values 1 and 0 */
  pn_tensor *mask;    /* bool [2, 3] */
  pn_tensor *vector;  /* parameter [3] */
  pn_tensor *image;   /* parameter [1, 1, 4, 4] */
  pn_tensor *kernel;  /* parameter [1, 1, 2, 2] */
  pn_tensor *list[2]; /* x, y */
} given;

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define ORDER(...)                                                                                                     \
  (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (const int[]) { __VA_ARGS__ }
#define AXIS(a) ((pn_axes){1, {a}})

typedef pn_tensor *(*expression)(pn_context *c, const given *g);
typedef pn_tensor *(*of_one)(pn_context *c, pn_tensor *x);
typedef pn_tensor *(*of_two)(pn_context *c, pn_tensor *x, pn_tensor *y);

typedef struct {
  const char *name;
  expression value;
  of_one one; /* in its place: the builder itself */
  of_two two;
} row;

#define X(id, text)                                                                                                    \
  static pn_tensor *value_##id(pn_context *c, const given *g) { return (void)g, text; }
#include "sweep.def"
#undef X

/* A parameter with distinct values inside (lo, hi). */
static pn_tensor *inside(pn_context *c, pni_domain d, int ndim, const int64_t *shape, double shift) {
  double value[16], lo = d.lo, hi = d.hi;
  int64_t n = 1;
  for (int k = 0; k < ndim; k++) n *= shape[k];
  if (lo == 0 && hi == 0) lo = -2, hi = 2;
  if (isinf(lo) || lo < -1e6) lo = hi - 4;
  if (isinf(hi) || hi > 1e6) hi = lo + 4;
  for (int64_t i = 0; i < n; i++) value[i] = lo + (hi - lo) * ((double)((i * 5 + 2) % n) + shift) / (double)n;
  return pn_param(c, pn_from_data(c, PN_FLOAT64, ndim, shape, value));
}

static bool prepare(pn_context *c, const char *name, given *g) {
  static const int64_t index[] = {0, 1, 1, 1, 0, 0}, order[] = {1, 0};
  static const unsigned char mask[] = {1, 0, 1, 0, 0, 1};
  static const double spd[] = {4, 1, 0.5, 1, 3, 0.2, 0.5, 0.2, 5};
  const pni_op *op = pni_op_find(name);
  pni_domain real = {0, 0};
  g->x = inside(c, op ? op->domain[0] : real, SHAPE(2, 3), 0.3);
  g->y = inside(c, op ? op->domain[1] : real, SHAPE(2, 3), 0.6);
  g->m = inside(c, real, SHAPE(3, 2), 0.4);
  g->s = pn_param(c, pn_from_data(c, PN_FLOAT64, SHAPE(3, 3), spd));
  g->index = pn_from_data(c, PN_INT64, SHAPE(2, 3), index);
  g->row = pn_from_data(c, PN_INT64, SHAPE(2), order);
  g->mask = pn_from_data(c, PN_BOOL, SHAPE(2, 3), mask);
  g->vector = inside(c, real, SHAPE(3), 0.4);
  g->image = inside(c, real, SHAPE(1, 1, 4, 4), 0.5);
  g->kernel = inside(c, real, SHAPE(1, 1, 2, 2), 0.5);
  g->list[0] = g->x;
  g->list[1] = g->y;
  return pn_context_status(c) == PN_OK;
}

/* One number out of any tensor. */
static pn_tensor *total(pn_context *c, pn_tensor *t) {
  return pn_sum(c, t && pn_tensor_dtype(t) > PN_FLOAT32 ? pn_cast(c, t, PN_FLOAT64) : t, PN_ALL, 0);
}

static bool work(pn_context *c, const void *data) {
  const row *r = data;
  given g;
  double number;
  if (!prepare(c, r->name, &g)) return false;
  pn_tensor *y = total(c, r->value ? r->value(c, &g) : r->one ? r->one(c, g.x) : r->two(c, g.x, g.y));
  if (!y || pn_tensor_item(c, y, &number) != PN_OK) return false;
  if (!pn_tensor_requires_grad(y)) return true;
  pn_tensor *in[] = {g.x, g.y, g.m, g.s, g.vector}, *out[5], *squares = NULL;
  if (pn_grad(c, y, 5, in, 1, out) != PN_OK) return false;
  for (int k = 0; k < 5; k++) {
    pn_tensor *s = total(c, pn_square(c, out[k]));
    squares = k ? pn_add(c, squares, s) : s;
  }
  const pni_op *op = pni_op_find(r->name);
  if (!squares) return false;
  if (!pn_tensor_requires_grad(squares) || (op && op->flags & PNI_OP_ONCE)) return true;
  return pn_backward(c, squares) == PN_OK;
}

/* Actions and objects that give no tensor. */
static bool actions(pn_context *c, const void *data) {
  double out[6];
  given g;
  (void)data;
  if (!prepare(c, "add", &g)) return false;
  if (pn_tensor_copy_out(c, pn_transpose(c, g.x, 0, 1), out, 6) != PN_OK) return false;
  return pn_param_set(c, g.x, g.y) == PN_OK && pn_tensor_item(c, pn_select(c, g.vector, 0, 1), out) == PN_OK;
}

static bool generators(pn_context *c, const void *data) {
  (void)data;
  pn_rng *a = pn_rng_new(c, 7), *b = a ? pn_rng_split(c, a, 3) : NULL;
  pn_tensor *t = b ? pn_randn(c, b, PN_FLOAT64, SHAPE(5)) : NULL;
  pn_rng_free(b);
  pn_rng_free(a);
  return t != NULL;
}

/* Big enough for several threads. */
static bool shared_work(pn_context *c, const void *data) {
  (void)data;
  pn_tensor *x = pn_param(c, pn_full(c, PN_FLOAT64, SHAPE(300000), 0.5));
  pn_tensor *y = total(c, pn_exp(c, x));
  return y && pn_backward(c, y) == PN_OK;
}

/* Scopes grow their list. */
static bool many(pn_context *c, const void *data) {
  (void)data;
  pn_tensor *x = pn_param(c, pn_scalar(c, PN_FLOAT64, 1));
  for (int k = 0; k < 300; k++) x = pn_add(c, x, x);
  return x && pn_backward(c, x) == PN_OK;
}

/* A graph that is let go of on the way through it, of more nodes than its list has room for at first, a tree: on the
 * stack there are few at a time, whose memory the longer list could take. */
static bool spent(pn_context *c, const void *data) {
  (void)data;
  enum { LEAVES = 48 };
  pn_tensor *w = pn_param(c, pn_scalar(c, PN_FLOAT64, 1)), *x[LEAVES];
  for (int k = 0; k < LEAVES; k++) x[k] = pn_exp(c, w);
  for (int n = LEAVES; n > 1; n = (n + 1) / 2)
    for (int k = 0; k < n / 2; k++) x[k] = pn_add(c, x[k], x[n - 1 - k]);
  return x[0] && pni_backward_spend(c, x[0]) == PN_OK;
}

static void spending(void) {
  bool more;
  size_t kept = 0;
  long n = 0;
  CHECK(sweep_once("spent", spent, NULL, 1, LONG_MAX, false, &more, &kept));
  do n++;
  while (sweep_once("spent", spent, NULL, 1, n, false, &more, &kept) && more);
  check_record(!more);
}

static void contexts(void) {
  bool good = true, more = true;
  for (long n = 1; more; n++) {
    sweep_memory m = {.fail_at = n};
    pn_context *c =
        pn_context_new(&(pn_context_config){.allocate = sweep_allocate, .allocator_data = &m, .threads = 2});
    more = m.failed > 0;
    pn_context_close(c);
    if (m.blocks) good = sweep_say("context", n, "memory is left");
  }
  check_record(good);
}

static const row rows[] = {
#define X(id, text) {#id, value_##id, 0, 0},
#include "sweep.def"
#undef X
};

/* Every operation with a builder; one and two are 0 where it takes more than tensors. */
static const row operations[] = {
#define X(id)                                                                                                          \
  {#id, 0, _Generic(&pn_##id, of_one : &pn_##id, default : 0), _Generic(&pn_##id, of_two : &pn_##id, default : 0)},
#define V(id, rule)
#define H(id)
#include "../../src/autodiff/op/op.def"
#undef X
#undef V
#undef H
};

static bool is_listed(const char *name) {
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
    if (strcmp(rows[k].name, name) == 0) return true;
  return false;
}

int main(void) {
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) sweep(rows[k].name, work, &rows[k]);
  for (size_t k = 0; k < sizeof operations / sizeof *operations; k++)
    if (!is_listed(operations[k].name) && (operations[k].one || operations[k].two))
      sweep(operations[k].name, work, &operations[k]);
  sweep("actions", actions, NULL);
  sweep("generators", generators, NULL);
  sweep("many", many, NULL);
  spending();
  sweep_threads("shared work", shared_work, NULL, 2);
  contexts();
  CHECK_DONE();
}
