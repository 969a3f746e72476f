/*
** sweep_test.c: every public builder and action on tensors survives the failure of each of its
** allocations, through its value, its gradient and its gradient's gradient.
*/
#include "../../src/autodiff/op.h"
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

/* clang-format off */
#define EXPRESSIONS(X) \
  X(zeros, pn_zeros(c, PN_FLOAT64, SHAPE(2, 3))) X(full, pn_full(c, PN_FLOAT32, SHAPE(2), 2.5)) \
  X(scalar, pn_scalar(c, PN_INT64, 3)) X(arange, pn_arange(c, PN_FLOAT64, 0, 5, 1)) \
  X(from_data, pn_from_data(c, PN_FLOAT64, SHAPE(2), (const double[]){1, 2})) \
  X(linspace, pn_linspace(c, PN_FLOAT64, 0, 1, 5)) X(eye, pn_eye(c, PN_FLOAT64, 2, 3)) \
  X(rand, pn_rand(c, NULL, PN_FLOAT64, SHAPE(2, 3))) X(randn, pn_randn(c, NULL, PN_FLOAT32, SHAPE(2, 3))) \
  X(randint, pn_randint(c, NULL, 0, 9, SHAPE(4))) X(randperm, pn_randperm(c, NULL, 7)) \
  X(param, pn_param(c, g->x)) X(detach, pn_detach(c, g->x)) \
  X(neg, pn_neg(c, g->x)) X(abs, pn_abs(c, g->x)) X(sign, pn_sign(c, g->x)) X(square, pn_square(c, g->x)) \
  X(sqrt, pn_sqrt(c, g->x)) X(rsqrt, pn_rsqrt(c, g->x)) X(reciprocal, pn_reciprocal(c, g->x)) \
  X(exp, pn_exp(c, g->x)) X(expm1, pn_expm1(c, g->x)) X(log, pn_log(c, g->x)) X(log1p, pn_log1p(c, g->x)) \
  X(log1mexp, pn_log1mexp(c, g->x)) X(sin, pn_sin(c, g->x)) X(cos, pn_cos(c, g->x)) X(tan, pn_tan(c, g->x)) \
  X(asin, pn_asin(c, g->x)) X(acos, pn_acos(c, g->x)) X(atan, pn_atan(c, g->x)) X(sinh, pn_sinh(c, g->x)) \
  X(cosh, pn_cosh(c, g->x)) X(tanh, pn_tanh(c, g->x)) X(sigmoid, pn_sigmoid(c, g->x)) \
  X(log_sigmoid, pn_log_sigmoid(c, g->x)) X(softplus, pn_softplus(c, g->x)) X(relu, pn_relu(c, g->x)) \
  X(erf, pn_erf(c, g->x)) X(erfc, pn_erfc(c, g->x)) X(erfinv, pn_erfinv(c, g->x)) X(ndtr, pn_ndtr(c, g->x)) \
  X(log_ndtr, pn_log_ndtr(c, g->x)) X(ndtri, pn_ndtri(c, g->x)) X(lgamma, pn_lgamma(c, g->x)) \
  X(digamma, pn_digamma(c, g->x)) X(polygamma, pn_polygamma(c, 2, g->x)) X(floor, pn_floor(c, g->x)) \
  X(ceil, pn_ceil(c, g->x)) X(round, pn_round(c, g->x)) \
  X(add, pn_add(c, g->x, g->y)) X(sub, pn_sub(c, g->x, g->vector)) X(mul, pn_mul(c, g->x, g->vector)) \
  X(div, pn_div(c, g->x, g->y)) X(pow, pn_pow(c, g->x, g->y)) X(maximum, pn_maximum(c, g->x, g->y)) \
  X(minimum, pn_minimum(c, g->x, g->y)) X(atan2, pn_atan2(c, g->x, g->y)) \
  X(logaddexp, pn_logaddexp(c, g->x, g->y)) X(xlogy, pn_xlogy(c, g->x, g->y)) \
  X(remainder, pn_remainder(c, g->x, g->y)) X(gammainc, pn_gammainc(c, g->x, g->y)) \
  X(gammainc_grad_a, pn_gammainc_grad_a(c, pn_detach(c, g->x), g->y)) \
  X(eq, pn_eq(c, g->x, g->y)) X(ne, pn_ne(c, g->x, g->y)) X(lt, pn_lt(c, g->x, g->y)) \
  X(le, pn_le(c, g->x, g->y)) X(gt, pn_gt(c, g->x, g->y)) X(ge, pn_ge(c, g->x, g->y)) \
  X(logical_and, pn_logical_and(c, g->x, g->y)) X(logical_or, pn_logical_or(c, g->x, g->y)) \
  X(logical_not, pn_logical_not(c, g->x)) X(isnan, pn_isnan(c, g->x)) X(isinf, pn_isinf(c, g->x)) \
  X(isfinite, pn_isfinite(c, g->x)) X(where, pn_where(c, g->mask, g->x, g->y)) \
  X(clamp, pn_clamp(c, g->x, -1, 1)) X(cast, pn_cast(c, g->x, PN_FLOAT32)) \
  X(sum, pn_sum(c, g->x, AXIS(1), 1)) X(mean, pn_mean(c, g->x, AXIS(0), 0)) X(prod, pn_prod(c, g->x, AXIS(1), 0)) \
  X(max, pn_max(c, g->x, AXIS(1), 0)) X(min, pn_min(c, g->x, AXIS(1), 1)) X(any, pn_any(c, g->x, PN_ALL, 0)) \
  X(all, pn_all(c, g->x, AXIS(0), 0)) X(logsumexp, pn_logsumexp(c, g->x, AXIS(1), 0)) \
  X(var, pn_var(c, g->x, AXIS(1), 1, 0)) X(std, pn_std(c, g->x, PN_ALL, 1, 0)) \
  X(argmax, pn_argmax(c, g->x, 1, 0)) X(argmin, pn_argmin(c, g->x, 0, 1)) X(cumsum, pn_cumsum(c, g->x, 1)) \
  X(softmax, pn_softmax(c, g->x, 1)) X(log_softmax, pn_log_softmax(c, g->x, 0)) \
  X(reshape, pn_reshape(c, g->x, SHAPE(3, 2))) X(permute, pn_permute(c, g->x, ORDER(1, 0))) \
  X(reshape_copy, pn_reshape(c, pn_transpose(c, g->x, 0, 1), SHAPE(6))) \
  X(transpose, pn_transpose(c, g->x, 0, 1)) X(broadcast_to, pn_broadcast_to(c, g->x, SHAPE(4, 2, 3))) \
  X(slice, pn_slice(c, g->x, 1, 2, 2, -1)) X(select, pn_select(c, g->x, 0, 1)) X(unsqueeze, pn_unsqueeze(c, g->x, 1)) \
  X(squeeze, pn_squeeze(c, pn_unsqueeze(c, g->x, 0), 0)) X(flip, pn_flip(c, g->x, 1)) \
  X(contiguous, pn_contiguous(c, pn_transpose(c, g->x, 0, 1))) X(concatenate, pn_concatenate(c, 2, g->list, 1)) \
  X(stack, pn_stack(c, 2, g->list, 0)) X(pad, pn_pad(c, g->x, 1, 1, 2, 0)) X(tril, pn_tril(c, g->s, 0)) \
  X(triu, pn_triu(c, g->s, 1)) X(diagonal, pn_diagonal(c, g->s)) X(diag_embed, pn_diag_embed(c, g->x)) \
  X(gather, pn_gather(c, g->x, 0, g->index)) X(scatter_add, pn_scatter_add(c, g->x, 0, g->index, g->y)) \
  X(take, pn_take(c, g->x, 0, g->row)) X(take_add, pn_take_add(c, g->x, 0, g->row, 4)) \
  X(nonzero, pn_nonzero(c, g->x)) X(masked_select, pn_masked_select(c, g->x, g->mask)) \
  X(argsort, pn_argsort(c, g->x, 1, 1)) X(sort, pn_sort(c, g->x, 1, 0)) X(argtopk, pn_argtopk(c, g->x, 2, 1, 1)) \
  X(topk, pn_topk(c, g->x, 2, 1, 0)) X(matmul, pn_matmul(c, g->x, g->m)) \
  X(matmul_vector, pn_matmul(c, g->x, g->vector)) \
  X(matmul_batch, pn_matmul(c, pn_broadcast_to(c, g->x, SHAPE(2, 2, 3)), g->s)) \
  X(log_gamma_draw, pn_log_gamma_draw(c, NULL, g->x)) X(gammaincinv, pn_gammaincinv(c, g->x, g->y))                    \
  X(linear, pn_linear(c, g->x, g->m, pn_select(c, g->m, 0, 0)))
/* clang-format on */

typedef pn_tensor *(*expression)(pn_context *c, const given *g);

typedef struct {
  const char *name;
  expression value;
} row;

#define X(id, text)                                                                                                    \
  static pn_tensor *value_##id(pn_context *c, const given *g) { return (void)g, text; }
EXPRESSIONS(X)
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
  pn_tensor *y = total(c, r->value(c, &g));
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
  pn_tensor *x = pn_param(c, pn_randn(c, NULL, PN_FLOAT64, SHAPE(512, 512)));
  pn_tensor *y = total(c, pn_exp(c, pn_matmul(c, x, x)));
  return y && pn_backward(c, y) == PN_OK;
}

/* Scopes grow their list. */
static bool many(pn_context *c, const void *data) {
  (void)data;
  pn_tensor *x = pn_param(c, pn_scalar(c, PN_FLOAT64, 1));
  for (int k = 0; k < 300; k++) x = pn_add(c, x, x);
  return x && pn_backward(c, x) == PN_OK;
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
#define X(id, text) {#id, value_##id},
    EXPRESSIONS(X)
#undef X
};

int main(void) {
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) sweep(rows[k].name, work, &rows[k]);
  sweep("actions", actions, NULL);
  sweep("generators", generators, NULL);
  sweep("many", many, NULL);
  sweep_threads("shared work", shared_work, NULL, 2);
  contexts();
  CHECK_DONE();
}
