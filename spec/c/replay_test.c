/*
** replay_test.c: capture and replay from C: results, gradients, updates and draws against eager calls;
** no allocation per replay; refusals; cancellation; failure of every allocation; any order of closing.
*/
#include "alloc_sweep.h"

#include "../../src/autodiff/replay/plan.h"
#include "../../src/autodiff/replay/replay.h"
#include "../../src/autodiff/random_source.h"

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

/* ---- a model: y = tanh(x W + b) V with noise; its loss ---- */

typedef struct {
  pn_tensor *w, *b, *v;
  pn_optim *opt;
} model;

static model make_model(pn_context *c, pn_dtype dtype) {
  model m = {pn_param(c, pn_randn(c, NULL, dtype, SHAPE(3, 5))), pn_param(c, pn_zeros(c, dtype, SHAPE(5))),
             pn_param(c, pn_randn(c, NULL, dtype, SHAPE(5, 1))), NULL};
  m.opt = pn_optim_new(c, "adam", 3, (pn_tensor *[]){m.w, m.b, m.v}, NULL, NULL);
  return m;
}

static pn_tensor *loss_of(pn_context *c, const model *m, pn_tensor *x) {
  pn_tensor *h = pn_tanh(c, pn_linear(c, x, m->w, m->b)), *y = pn_matmul(c, h, m->v);
  if (!y) return NULL;
  pn_tensor *noise = pn_randn(c, NULL, pn_tensor_dtype(y), pn_tensor_ndim(y), pn_tensor_shape(y));
  return pn_mean(c, pn_square(c, pn_sub(c, y, noise)), PN_ALL, 0);
}

static pn_plan *capture_step(pn_context *c, const model *m, pn_tensor *x, pn_tensor **loss) {
  pn_tensor *inside;
  if (pn_capture_begin(c, 1, &x, &inside)) return NULL;
  *loss = loss_of(c, m, inside);
  pn_optim_step(c, m->opt, *loss);
  return pn_capture_end(c, 1, loss);
}

static double item(pn_context *c, pn_tensor *t) {
  double v = NAN;
  pn_tensor_item(c, t, &v);
  return v;
}

static void training(pn_dtype dtype) {
  pn_context *c = pn_context_new(NULL), *e = pn_context_new(NULL);
  size_t mark = pn_scope_open(c), emark = pn_scope_open(e);
  model m = make_model(c, dtype), n = make_model(e, dtype);
  pn_plan *plan = NULL;
  for (int k = 0; k < 50; k++) {
    size_t inner = pn_scope_open(c), einner = pn_scope_open(e);
    pn_tensor *x = pn_randn(c, NULL, dtype, SHAPE(8, 3)), *ex = pn_randn(e, NULL, dtype, SHAPE(8, 3)), *loss;
    if (k == 0) {
      plan = capture_step(c, &m, x, &loss);
      CHECK(plan != NULL);
      CHECK(!pn_capturing(c));
    } else {
      CHECK_STATUS(c, pn_plan_run(c, plan, 1, &x, &loss), PN_OK);
    }
    pn_tensor *want = loss_of(e, &n, ex);
    CHECK_STATUS(e, pn_optim_step(e, n.opt, want), PN_OK);
    CHECK_NEAR(item(c, loss), item(e, want), 0);
    pn_scope_close(c, inner);
    pn_scope_close(e, einner);
  }
  CHECK(memcmp(pn_tensor_data(m.w), pn_tensor_data(n.w), 15 * pn_dtype_size(dtype)) == 0);
  CHECK(pn_plan_num_steps(plan) > 0 && pn_plan_memory(plan) > 0);
  pn_plan_unref(plan);
  pn_optim_unref(m.opt);
  pn_optim_unref(n.opt);
  pn_scope_close(c, mark);
  pn_scope_close(e, emark);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  pn_context_close(e);
}

/* A replay takes nothing from the allocator once the pool is warm. */
static void no_allocation(void) {
  sweep_memory mem = {0};
  pn_context *c =
      pn_context_new(&(pn_context_config){.allocate = sweep_allocate, .allocator_data = &mem, .threads = 1});
  size_t mark = pn_scope_open(c);
  model m = make_model(c, PN_FLOAT32);
  pn_tensor *x = pn_randn(c, NULL, PN_FLOAT32, SHAPE(32, 3)), *loss;
  pn_plan *plan = capture_step(c, &m, x, &loss);
  long before = 0;
  for (int k = 0; k < 1000; k++) {
    if (k == 5) before = mem.requests;
    size_t inner = pn_scope_open(c);
    CHECK(pn_plan_run(c, plan, 1, &x, &loss) == PN_OK);
    pn_scope_close(c, inner);
  }
  CHECK_INT(mem.requests - before, 0);
  pn_plan_unref(plan);
  pn_optim_unref(m.opt);
  pn_scope_close(c, mark);
  pn_context_close(c);
  CHECK_INT(mem.blocks, 0);
}

/* ---- gradients of gradients, views, several results, no inputs ---- */

static void gradients(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *w = pn_param(c, pn_scalar(c, PN_FLOAT64, 2)), *x = pn_scalar(c, PN_FLOAT64, 3), *in, *g, *h, *out[2];
  CHECK_STATUS(c, pn_capture_begin(c, 1, &x, &in), PN_OK);
  pn_tensor *y = pn_mul(c, pn_mul(c, w, pn_square(c, w)), in); /* w^3 x */
  CHECK_STATUS(c, pn_grad(c, y, 1, &w, 1, &g), PN_OK);
  CHECK_STATUS(c, pn_grad(c, g, 1, &w, 0, &h), PN_OK);
  pn_plan *plan = pn_capture_end(c, 2, (pn_tensor *[]){g, h});
  CHECK_STATUS(c, pn_param_set(c, w, x), PN_OK);
  CHECK_STATUS(c, pn_plan_run(c, plan, 1, &x, out), PN_OK);
  CHECK_NEAR(item(c, out[0]), 3 * 9 * 3, 1e-15);
  CHECK_NEAR(item(c, out[1]), 6 * 3 * 3, 1e-15);
  CHECK(!pn_tensor_requires_grad(out[0]));
  pn_plan *again = pn_plan_ref(plan);
  pn_plan_unref(plan);
  pn_plan_unref(again);
  pn_plan_unref(NULL);
  CHECK(pn_plan_ref(NULL) == NULL);
  /* the input itself, a view of it, a constant and a parameter as results */
  pn_tensor *v = pn_arange(c, PN_FLOAT64, 0, 6, 1), *res[4], *part = pn_slice(c, v, 0, 2, 3, 1);
  CHECK_STATUS(c, pn_capture_begin(c, 1, &part, &in), PN_OK);
  plan = pn_capture_end(c, 4, (pn_tensor *[]){in, pn_flip(c, in, 0), v, w});
  part = pn_slice(c, v, 0, 3, 3, 1);
  CHECK_STATUS(c, pn_plan_run(c, plan, 1, &part, res), PN_OK);
  CHECK_NEAR(pni_element(res[0], 0), 3, 0);
  CHECK_NEAR(pni_element(res[1], 0), 5, 0);
  CHECK_NEAR(pni_element(res[2], 5), 5, 0);
  CHECK_NEAR(pni_element(res[3], 0), 3, 0);
  CHECK(!pn_tensor_is_param(res[3]));
  pn_plan_unref(plan);
  CHECK_STATUS(c, pn_capture_begin(c, 0, NULL, NULL), PN_OK);
  plan = pn_capture_end(c, 1, (pn_tensor *[]){pn_exp(c, w)});
  CHECK_STATUS(c, pn_plan_run(c, plan, 0, NULL, out), PN_OK);
  CHECK_NEAR(item(c, out[0]), exp(3), 1e-15);
  pn_plan_unref(plan);
  pn_scope_close(c, mark);
}

/* ---- refusals ---- */

/* What `expr` does inside a capture on x is refused with `text`. */
#define REFUSED(expr, text)                                                                                            \
  do {                                                                                                                 \
    pn_tensor *in_;                                                                                                    \
    CHECK_STATUS(c, pn_capture_begin(c, 1, &x, &in_), PN_OK);                                                          \
    (void)(expr);                                                                                                      \
    CHECK(pn_capture_end(c, 1, &in_) == NULL);                                                                         \
    CHECK(!pn_capturing(c));                                                                                           \
    CHECK_FAIL(c, PN_STATE, text);                                                                                     \
  } while (0)

static void refusals(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *x = pn_full(c, PN_FLOAT64, SHAPE(3), 2), *w = pn_param(c, x), *in, *h = pn_exp(c, w), *out;
  double v[3];
  REFUSED(pn_tensor_copy_out(c, in_, v, 3), "copy_out");
  REFUSED(pn_tensor_item(c, pn_sum(c, in_, PN_ALL, 0), v), "item");
  REFUSED(pn_tensor_data(pn_exp(c, w)), "data");
  REFUSED(pn_nonzero(c, in_), "nonzero");
  REFUSED(pn_masked_select(c, w, pn_gt(c, in_, x)), "nonzero");
  REFUSED(pn_param(c, x), "param");
  REFUSED(pn_param_set(c, w, x), "parameter");
  REFUSED(pn_rng_new(c, 1), "generator");
  REFUSED(pn_capture_begin(c, 0, NULL, NULL), "capture");
  REFUSED(pn_mul(c, h, in_), "outside");
  CHECK(pn_capture_end(c, 0, NULL) == NULL);
  CHECK_FAIL(c, PN_STATE, "none to end");
  CHECK_STATUS(c, pn_capture_begin(c, 1, &w, &in), PN_STATE);
  CHECK_FAIL(c, PN_STATE, "a parameter");
  CHECK_STATUS(c, pn_capture_begin(c, 1, (pn_tensor *[]){NULL}, &in), PN_STATE);
  CHECK_FAIL(c, PN_STATE, "NULL");
  pn_capture_cancel(c);
  CHECK_STATUS(c, pn_capture_begin(c, 1, &x, &in), PN_OK);
  pn_plan *plan = pn_capture_end(c, 1, (pn_tensor *[]){pn_exp(c, in)});
  CHECK(pn_plan_fits(plan, 1, &x));
  pn_tensor *other = pn_zeros(c, PN_FLOAT64, SHAPE(4)), *narrow = pn_cast(c, x, PN_FLOAT32);
  CHECK(!pn_plan_fits(plan, 0, NULL) && !pn_plan_fits(plan, 1, &other) && !pn_plan_fits(plan, 1, &narrow));
  CHECK_STATUS(c, pn_plan_run(c, plan, 1, &other, &out), PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "float64 [3], got float64 [4]");
  CHECK_STATUS(c, pn_plan_run(c, plan, 0, NULL, &out), PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "number of inputs");
  CHECK(!pn_plan_fits(plan, 1, &w));
  CHECK_STATUS(c, pn_plan_run(c, plan, 1, &w, &out), PN_STATE);
  CHECK_FAIL(c, PN_STATE, "input 1 must be data");
  REFUSED(pn_plan_run(c, plan, 1, &x, &out), "replaying");
  pn_plan_unref(plan);
  /* a constant may be read; what is not recorded any more too */
  CHECK_STATUS(c, pn_capture_begin(c, 1, &x, &in), PN_OK);
  CHECK_STATUS(c, pn_tensor_copy_out(c, pn_exp(c, x), v, 3), PN_OK);
  pn_capture_cancel(c);
  CHECK_STATUS(c, pn_tensor_copy_out(c, in, v, 3), PN_OK);
  pn_scope_close(c, mark);
}

/* x [3] -> 2 x^2 backwards, or of its first m; what a plan is that maps no rows. */
enum { BACKWARDS, FIRST_TWO, SUMMED, FROM_FLOAT32, TO_FLOAT32, OF_TWO, TWO_RESULTS };

static pn_plan *plan_of(pn_context *c, int kind) {
  pn_tensor *x = pn_full(c, kind == FROM_FLOAT32 ? PN_FLOAT32 : PN_FLOAT64, SHAPE(3), 1), *in[2], *out[2];
  if (pn_capture_begin(c, kind == OF_TWO ? 2 : 1, (pn_tensor *[]){x, x}, in)) return NULL;
  pn_tensor *y = pn_mul(c, pn_add(c, in[0], in[0]), in[0]);
  out[0] = out[1] = kind == FIRST_TWO ? pn_slice(c, y, 0, 0, 2, 1) : pn_flip(c, y, 0);
  if (kind == SUMMED) /* its second value is neither float64 nor [3] */
    out[0] = pn_reshape(c, pn_cast(c, pn_sum(c, pn_cast(c, in[0], PN_FLOAT32), PN_ALL, 0), PN_FLOAT64), SHAPE(1));
  if (kind == TO_FLOAT32) out[0] = pn_cast(c, y, PN_FLOAT32);
  if (kind == FROM_FLOAT32) out[0] = pn_cast(c, y, PN_FLOAT64);
  return pn_capture_end(c, kind == TWO_RESULTS ? 2 : 1, out);
}

/* Rows of any number and layout, whether a plan's result runs on in memory or is a view; no row keeps anything. */
static void mapped(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  for (int kind = BACKWARDS; kind <= SUMMED; kind++)
    for (int64_t rows = 0; rows < 4; rows++)
      for (int turned = 0; turned < 2; turned++) {
        size_t inner = pn_scope_open(c);
        int64_t n = 3, m = kind == BACKWARDS ? 3 : kind == FIRST_TWO ? 2 : 1;
        double v[] = {1, -2, 3, 0.5, 7, -1, 4, 5, 6};
        pn_plan *plan = plan_of(c, kind);
        pn_tensor *x = pn_from_data(c, PN_FLOAT64, SHAPE(rows, n), v);
        if (turned) x = pn_transpose(c, pn_contiguous(c, pn_transpose(c, x, 0, 1)), 0, 1);
        long before = (long)pn_context_objects(c);
        pn_tensor *y = pn_plan_map(c, plan, x);
        CHECK_INT(pn_context_objects(c), before + 1);
        CHECK(y && pn_tensor_ndim(y) == 2 && pn_tensor_shape(y)[0] == rows && pn_tensor_shape(y)[1] == m);
        for (int64_t i = 0; y && i < rows * m; i++) {
          double at = v[i / m * n + (kind == BACKWARDS ? n - 1 - i % m : i % m)];
          double sum = v[i / m * n] + v[i / m * n + 1] + v[i / m * n + 2];
          CHECK_NEAR(((const double *)pni_data(y))[i], kind == SUMMED ? sum : 2 * at * at, 0);
        }
        pn_context_cancel(c);
        CHECK((pn_plan_map(c, plan, x) == NULL) == (rows > 0));
        if (rows) CHECK_FAIL(c, PN_CANCELLED, "");
        pn_context_uncancel(c);
        pn_plan_unref(plan);
        pn_scope_close(c, inner);
      }
  pn_tensor *rows = pn_full(c, PN_FLOAT64, SHAPE(2, 3), 1);
  for (int kind = FROM_FLOAT32; kind <= TWO_RESULTS; kind++) {
    pn_plan *plan = plan_of(c, kind);
    CHECK(plan && !pn_plan_map(c, plan, rows));
    CHECK_FAIL(c, PN_SHAPE, "a plan of one input and one result, all float64, got [2, 3]");
    pn_plan_unref(plan);
  }
  pn_plan *plan = plan_of(c, BACKWARDS);
  pn_tensor *wrong[] = {pn_cast(c, rows, PN_FLOAT32), pn_full(c, PN_FLOAT64, SHAPE(3), 1),
                        pn_full(c, PN_FLOAT64, SHAPE(2, 4), 1), pn_full(c, PN_FLOAT64, SHAPE(1, 2, 3), 1)};
  for (int k = 0; k < 4; k++) {
    CHECK(!pn_plan_map(c, plan, wrong[k]));
    CHECK_FAIL(c, PN_SHAPE, "plan_map: needs rows [.., 3] and a plan of one input and one result");
  }
  pn_tensor *out = NULL, *none = NULL;
  CHECK_STATUS(c, pn_plan_run(c, plan, 1, &none, &out), PN_STATE);
  CHECK_FAIL(c, PN_STATE, "plan: input 1 must be a tensor, got NULL");
  pn_plan_unref(plan);
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
}

static bool map_views(pn_context *c, const void *data) {
  (void)data;
  pn_plan *plan = plan_of(c, BACKWARDS);
  pn_tensor *x = plan ? pn_full(c, PN_FLOAT64, SHAPE(2, 3), 1) : NULL, *y = x ? pn_plan_map(c, plan, x) : NULL;
  pn_plan_unref(plan);
  return y && ((const double *)pni_data(y))[5] == 2;
}

/* The sum of n inputs, and views of it as often; more of either than 64 are too many where a result is a view. */
static void many_inputs(pn_context *c, int n, int results, bool fits) {
  enum { MOST = 65 };
  size_t mark = pn_scope_open(c);
  pn_tensor *x[MOST], *in[MOST], *out[MOST], *sum = NULL;
  double v[MOST][2], y[MOST][2], *to[MOST];
  const double *from[MOST];
  for (int k = 0; k < n; k++) x[k] = pn_zeros(c, PN_FLOAT64, SHAPE(2)), v[k][0] = k, v[k][1] = -k, from[k] = v[k];
  CHECK_STATUS(c, pn_capture_begin(c, n, x, in), PN_OK);
  for (int k = 0; k < n; k++) sum = sum ? pn_add(c, sum, in[k]) : in[k];
  for (int k = 0; k < results; k++) out[k] = pn_flip(c, sum, 0), to[k] = y[k];
  pn_plan *plan = pn_capture_end(c, results, out);
  CHECK(plan && (pni_plan_call_each(c, plan, from, to) == PN_OK) == fits);
  for (int k = 0; k < results && fits; k++) CHECK(y[k][0] == -n * (n - 1) / 2 && y[k][1] == n * (n - 1) / 2);
  if (!fits) CHECK_FAIL(c, PN_DOMAIN, "plan: at most 64 inputs and results are possible");
  pn_plan_unref(plan);
  pn_scope_close(c, mark);
}

/* ---- random sources: replays draw from the parameters as they are, and where an eager call would ---- */

static double poisson(uint64_t key, uint64_t position, const double *x) {
  return pni_poisson_draw(key, position, x[0] * x[1]);
}

/* Binomials of a common probability among the numbers of a row, and their total. */
static void binomials(const pni_draws *d, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) {
    const double *count = pni_draws_row(d, 0, i), *prob = pni_draws_row(d, 1, i);
    double *out = d->out + i * d->out_width, total = 0;
    for (int64_t k = 0; k < d->width[0]; k++) {
      out[k] = pni_binomial_draw(d->at.key, d->at.position + (uint64_t)(3 * i + k), count[k], *prob);
      total += out[k];
    }
    out[d->width[0]] = total;
  }
}

static const pni_random_source poisson_source = {.name = "poisson_draw", .nin = 2, .scalar = poisson};
static const pni_random_source binomial_source = {
    .name = "binomial_row", .nin = 2, .rank = {1, 0}, .out_rank = 1, .positions = 3, .rows = binomials};

static pn_tensor *draw_both(pn_context *c, pn_rng *rng, pn_tensor *w, pn_tensor *x, int dtype, pn_tensor **second) {
  pni_spec a = {dtype, 3, {4, 2, 3}}, b = {PN_INT64, 3, {5, 2, 4}};
  pn_tensor *rate = pn_exp(c, w), *prob = pn_sigmoid(c, pn_slice(c, x, 0, 0, 2, 1));
  pn_tensor *first = pni_source_draw(c, &poisson_source, rng, &a, (pn_tensor *[]){rate, x});
  *second = pni_source_draw(c, &binomial_source, rng, &b, (pn_tensor *[]){pn_mul(c, x, x), prob});
  return first;
}

static bool same_bits(pn_tensor *a, pn_tensor *b) {
  if (!a || !b || a->dtype != b->dtype || a->numel != b->numel) return false;
  return memcmp(pni_data(a), pni_data(b), (size_t)a->numel * pni_itemsize(a)) == 0;
}

static void sources(pn_context *c, int dtype) {
  size_t mark = pn_scope_open(c);
  pn_rng *rng = pn_rng_new(c, 5), *twin = pn_rng_new(c, 5);
  pn_tensor *w = pn_param(c, pn_full(c, PN_FLOAT32, SHAPE(2, 1), 0.5)), *x = pn_arange(c, PN_FLOAT32, 1, 4, 1);
  pn_tensor *in, *got[2], *want[2];
  CHECK_STATUS(c, pn_capture_begin(c, 1, &x, &in), PN_OK);
  got[0] = draw_both(c, rng, w, in, dtype, &got[1]);
  pn_plan *plan = pn_capture_end(c, 2, got);
  CHECK(plan != NULL);
  for (int k = 0; k < 20; k++) {
    if (k) CHECK_STATUS(c, pn_plan_run(c, plan, 1, &x, got), PN_OK);
    want[0] = draw_both(c, twin, w, x, dtype, &want[1]);
    CHECK(want[0] && want[0]->dtype == dtype && want[1]->dtype == PN_INT64);
    CHECK(same_bits(got[0], want[0]) && same_bits(got[1], want[1]));
    CHECK(rng->state.position == twin->state.position && rng->state.position == (uint64_t)(k + 1) * (24 + 30));
    x = pn_mul(c, x, pn_scalar(c, PN_FLOAT32, 1.5));
    CHECK_STATUS(c, pn_param_set(c, w, pn_full(c, PN_FLOAT32, SHAPE(2, 1), 0.1 * k)), PN_OK);
  }
  pn_plan_unref(plan);
  pn_rng_free(rng);
  pn_rng_free(twin);
  pn_scope_close(c, mark);
}

static double more_of_poisson(uint64_t key, uint64_t position, const double *x) {
  return 1000 + poisson(key, position, x);
}

/* Two sources by turns, alike in all but what they draw: a loop that is found must not take one for the other. */
static void alternating(pn_context *c) {
  static const pni_random_source other = {.name = "more_of_poisson", .nin = 2, .scalar = more_of_poisson};
  size_t mark = pn_scope_open(c);
  pn_rng *rng = pn_rng_new(c, 5), *twin = pn_rng_new(c, 5);
  pn_tensor *x = pn_full(c, PN_FLOAT64, SHAPE(3), 2), *in, *out, *want = NULL;
  pni_spec spec = {PN_FLOAT64, 1, {3}};
  CHECK_STATUS(c, pn_capture_begin(c, 1, &x, &in), PN_OK);
  pn_tensor *y = in;
  for (int k = 0; k < 40; k++) {
    pn_tensor *d = pni_source_draw(c, k % 8 == 5 ? &other : &poisson_source, rng, &spec, (pn_tensor *[]){in, in});
    y = pn_add(c, pn_mul(c, y, pn_scalar(c, PN_FLOAT64, 0.5)), d);
  }
  pn_plan *plan = pn_capture_end(c, 1, &y);
  CHECK(plan != NULL);
  for (int turn = 0; turn < 3; turn++) {
    want = x;
    for (int k = 0; k < 40; k++) {
      pn_tensor *d = pni_source_draw(c, k % 8 == 5 ? &other : &poisson_source, twin, &spec, (pn_tensor *[]){x, x});
      want = pn_add(c, pn_mul(c, want, pn_scalar(c, PN_FLOAT64, 0.5)), d);
    }
    if (turn == 0)
      out = y;
    else
      CHECK_STATUS(c, pn_plan_run(c, plan, 1, &x, &out), PN_OK);
    CHECK(same_bits(out, want));
  }
  const pni_note *note = plan->tape->note.v;
  while (!note->op || !(note->op->flags & PNI_OP_DRAW)) note++;
  pni_attr attr = *pni_attr_of(plan->tape, note);
  for (int k = 0; k < 2; k++) { /* the row by itself, of one input that is not as the result */
    pn_tensor *one = pn_full(c, PN_FLOAT64, SHAPE(1), 2), *pair[] = {x, x};
    pn_tensor *wrong[] = {pn_full(c, PN_FLOAT64, SHAPE(2), 2), pn_full(c, PN_FLOAT64, SHAPE(3, 1), 2),
                          pn_full(c, PN_FLOAT64, SHAPE(1, 3), 2), pn_full(c, PN_FLOAT64, SHAPE(4), 2)};
    pair[k] = one;
    CHECK(pni_apply(c, note->op, 2, pair, &attr) != NULL);
    for (int j = 0; j < 4; j++) {
      pair[k] = wrong[j];
      CHECK(!pni_apply(c, note->op, 2, pair, &attr));
      CHECK_FAIL(c, PN_SHAPE, k ? "poisson_draw: input 2 must be float64 and end as the result" : "input 1 must be");
    }
  }
  pn_tensor *narrow = pn_full(c, PN_FLOAT32, SHAPE(3), 2);
  CHECK(!pni_apply(c, note->op, 2, (pn_tensor *[]){narrow, narrow}, &attr));
  CHECK_FAIL(c, PN_SHAPE, "poisson_draw: input 1 must be float64 and end as the result, got float32 [3]");
  pn_plan_unref(plan);
  pn_rng_free(rng);
  pn_rng_free(twin);
  pn_scope_close(c, mark);
}

/* The same of an operation whose axis is another at times: of the first number of its attribute, and of the second. */
static void turning(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *x = pn_reshape(c, pn_arange(c, PN_FLOAT64, 1, 10, 1), SHAPE(3, 3)), *in, *out;
  for (int way = 0; way < 2; way++) {
    pn_tensor *y[2];
    CHECK_STATUS(c, pn_capture_begin(c, 1, &x, &in), PN_OK);
    y[0] = in;
    for (int k = 0; k < 40; k++) {
      bool other = k % 8 == 5;
      pn_tensor *z = pn_mul(c, y[0], pn_scalar(c, PN_FLOAT64, 0.25));
      y[0] = way ? pn_add(c, z, pn_slice(c, in, 0, other, 1, 1)) : pn_cumsum(c, z, other ? 0 : 1);
    }
    pn_plan *plan = pn_capture_end(c, 1, y);
    CHECK(plan != NULL);
    y[1] = x;
    for (int k = 0; k < 40; k++) {
      bool other = k % 8 == 5;
      pn_tensor *z = pn_mul(c, y[1], pn_scalar(c, PN_FLOAT64, 0.25));
      y[1] = way ? pn_add(c, z, pn_slice(c, x, 0, other, 1, 1)) : pn_cumsum(c, z, other ? 0 : 1);
    }
    CHECK(same_bits(y[0], y[1]));
    CHECK_STATUS(c, pn_plan_run(c, plan, 1, &x, &out), PN_OK);
    CHECK(same_bits(out, y[1]));
    pn_plan_unref(plan);
  }
  pn_scope_close(c, mark);
}

/* A tensor filled from a generator by hand. */
static pn_tensor *by_hand(pn_context *c) {
  pn_tensor *t = pn_zeros(c, PN_FLOAT64, SHAPE(3));
  pni_philox at = pni_rng_reserve(c, NULL, 3);
  for (int i = 0; t && i < 3; i++) ((double *)pni_data(t))[i] = pni_poisson_draw(at.key, at.position + (uint64_t)i, 4);
  return t;
}

static void unrecorded(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *x = pn_full(c, PN_FLOAT64, SHAPE(3), 2);
  pni_spec small = {PN_FLOAT64, 1, {3}};
  REFUSED(by_hand(c), "cannot be repeated");
  REFUSED(pn_add(c, in_, by_hand(c)), "before add");
  REFUSED((by_hand(c), pn_rand(c, NULL, PN_FLOAT64, SHAPE(2))), "before this one");
  pn_tensor *wide[2] = {pn_full(c, PN_FLOAT64, SHAPE(2, 3), 1), x};
  CHECK(pni_source_draw(c, &poisson_source, NULL, &small, wide) == NULL);
  CHECK_FAIL(c, PN_SHAPE, "poisson_draw: input 1 must have 0 to 1 axes, got shape [2, 3]");
  pn_scope_close(c, mark);
}

/* ---- large inputs and results, which plans read and compute where they lie ---- */

enum { BOUND = 5, ROUNDS = 6 };

/* Steps of every kind on x [80, 90], y [90, 40]: a run, nests, groups with sums of rows, products, evaluated
 * operations, draws; a view of the input, the input, a result twice. */
static void bound_work(pn_context *c, pn_tensor *x, pn_tensor *y, pn_tensor **out) {
  pn_tensor *p = pn_matmul(c, x, y), *noise = pn_randn(c, NULL, PN_FLOAT64, SHAPE(80, 90));
  pn_tensor *t = pn_permute(c, x, 2, (int[]){1, 0});
  out[0] = pn_add(c, pn_tanh(c, pn_mul(c, x, noise)), pn_sum(c, x, (pn_axes){1, {1}}, 1));
  out[1] = pn_exp(c, pn_matmul(c, t, p));
  out[2] = t;
  out[3] = pn_cumsum(c, pn_sub(c, out[0], x), 0);
  out[4] = out[3];
}

static pn_tensor *bound_input(pn_context *c, int k) {
  pn_tensor *x = pn_randn(c, NULL, PN_FLOAT64, SHAPE(80, 91));
  if (k % 3 == 1) return pn_slice(c, x, 1, 1, 90, 1);
  if (k % 3 == 2) return pn_permute(c, pn_randn(c, NULL, PN_FLOAT64, SHAPE(90, 80)), 2, (int[]){1, 0});
  return pn_contiguous(c, pn_slice(c, x, 1, 0, 90, 1));
}

static bool apart(const pn_tensor *a, const pn_tensor *b) { return !a || !b || a->storage != b->storage; }

/* Results of all rounds are kept, so that each round finds other memory; and the inputs change after all. */
static void binding(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *x = bound_input(c, 0), *y = pn_randn(c, NULL, PN_FLOAT64, SHAPE(90, 40)), *in[2], *want[ROUNDS][BOUND];
  pn_tensor *got[ROUNDS][BOUND];
  CHECK_STATUS(c, pn_capture_begin(c, 2, (pn_tensor *[]){x, y}, in), PN_OK);
  bound_work(c, in[0], in[1], got[0]);
  pn_plan *plan = pn_capture_end(c, BOUND, got[0]);
  CHECK(plan != NULL);
  for (int k = 0; k < ROUNDS; k++) {
    uint64_t state[2];
    size_t inner = pn_scope_open(c);
    x = bound_input(c, k);
    y = pn_randn(c, NULL, PN_FLOAT64, SHAPE(90, 40));
    pn_rng_get_state(pn_context_rng(c), state);
    bound_work(c, x, y, want[k]);
    pn_rng_set_state(pn_context_rng(c), state);
    CHECK_STATUS(c, pn_plan_run(c, plan, 2, (pn_tensor *[]){x, y}, got[k]), PN_OK);
    for (int i = 0; i < BOUND; i++) {
      CHECK(apart(got[k][i], x) && apart(got[k][i], y) && pni_is_contiguous(got[k][i]));
      for (int j = 0; j < i; j++) CHECK(apart(got[k][i], got[k][j]));
      pn_tensor_ref(got[k][i]);
      want[k][i] = pni_contiguous(c, want[k][i]);
    }
    pn_scope_close(c, inner);
    pn_context_trim(c);
  }
  for (int k = 0; k < ROUNDS; k++)
    for (int i = 0; i < BOUND; i++) {
      CHECK(same_bits(got[k][i], want[k][i]));
      pn_tensor_unref(got[k][i]);
      pn_tensor_unref(want[k][i]);
    }
  pn_plan_unref(plan);
  pn_scope_close(c, mark);
}

/* What is given back is overwritten: nothing reads it any more. */
static void *spoiling_allocate(void *data, void *block, size_t old_size, size_t new_size) {
  if (block && new_size == 0) memset(block, 0x5a, old_size);
  return pni_default_allocate(data, block, old_size, new_size);
}

static void spoiled(void) {
  pn_context *c = pn_context_new(
      &(pn_context_config){.allocate = spoiling_allocate, .pool_limit = PN_NO_POOL, .seed = 2, .threads = 1});
  binding(c);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
}

/* A plan of single steps needs no memory but that of what lies between them. */
static void bound_memory(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *x = pn_randn(c, NULL, PN_FLOAT32, SHAPE(100000)), *in[2], *out[2];
  CHECK_STATUS(c, pn_capture_begin(c, 2, (pn_tensor *[]){x, x}, in), PN_OK);
  pn_plan *plan = pn_capture_end(c, 1, (pn_tensor *[]){pn_exp(c, in[0])});
  CHECK(pn_plan_memory(plan) <= 64); /* the second input is not read */
  CHECK_STATUS(c, pn_plan_run(c, plan, 2, (pn_tensor *[]){x, x}, out), PN_OK);
  CHECK(same_bits(out[0], pn_exp(c, x)));
  /* no memory for the result: nothing has happened, and the plan works again */
  size_t peak, used = pn_context_memory(c, &peak);
  pn_context_set_memory_limit(c, used + 100000);
  CHECK_STATUS(c, pn_plan_run(c, plan, 2, (pn_tensor *[]){x, x}, out), PN_NOMEM);
  CHECK_FAIL(c, PN_NOMEM, "memory");
  pn_context_set_memory_limit(c, 0);
  x = pn_randn(c, NULL, PN_FLOAT32, SHAPE(100000));
  CHECK_STATUS(c, pn_plan_run(c, plan, 2, (pn_tensor *[]){x, x}, out), PN_OK);
  CHECK(same_bits(out[0], pn_exp(c, x)));
  pn_plan_unref(plan);
  pn_scope_close(c, mark);
}

/* An argument that shares memory with a parameter keeps its values while the plan updates the parameter; a failing
 * and a cancelled run leave nothing behind. */
static void bound_parameter(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *w = pn_param(c, pn_randn(c, NULL, PN_FLOAT64, SHAPE(60, 60))), *x = pn_detach(c, w), *in, *out[2];
  pn_optim *o = pn_optim_new(c, "sgd", 1, &w, NULL, NULL);
  CHECK(x->storage == w->storage);
  CHECK_STATUS(c, pn_capture_begin(c, 1, &x, &in), PN_OK);
  out[0] = pn_mean(c, pn_square(c, pn_mul(c, w, in)), PN_ALL, 0);
  CHECK_STATUS(c, pn_optim_step(c, o, out[0]), PN_OK);
  out[1] = pn_mul(c, in, pn_scalar(c, PN_FLOAT64, 2));
  pn_plan *plan = pn_capture_end(c, 2, out);
  for (int k = 0; k < 3; k++) {
    pn_tensor *twice = pn_mul(c, x, pn_scalar(c, PN_FLOAT64, 2)), *bad = pn_full(c, PN_FLOAT64, SHAPE(60, 60), NAN);
    CHECK_STATUS(c, pn_plan_run(c, plan, 1, &x, out), PN_OK);
    CHECK(same_bits(out[1], twice) && !same_bits(x, pn_div(c, twice, pn_scalar(c, PN_FLOAT64, 2))));
    CHECK_STATUS(c, pn_plan_run(c, plan, 1, &bad, out), PN_NAN);
    CHECK_FAIL(c, PN_NAN, "finite");
    pn_context_cancel(c);
    CHECK_STATUS(c, pn_plan_run(c, plan, 1, &bad, out), PN_CANCELLED);
    pn_context_uncancel(c);
    CHECK_FAIL(c, PN_CANCELLED, "interrupted");
  }
  pn_plan_unref(plan);
  pn_optim_unref(o);
  pn_scope_close(c, mark);
}

/* ---- cancellation and failures within a replay ---- */

static void stopping(pn_context *c) {
  size_t mark = pn_scope_open(c);
  model m = make_model(c, PN_FLOAT64);
  pn_tensor *x = pn_randn(c, NULL, PN_FLOAT64, SHAPE(4, 3)), *loss, *out = NULL;
  pn_plan *plan = capture_step(c, &m, x, &loss);
  uint64_t before[2], after[2];
  double w[15], now[15];
  pn_tensor_copy_out(c, m.w, w, 15);
  pn_rng_get_state(pn_context_rng(c), before);
  pn_context_cancel(c);
  CHECK_STATUS(c, pn_plan_run(c, plan, 1, &x, &out), PN_CANCELLED);
  pn_context_uncancel(c);
  CHECK_FAIL(c, PN_CANCELLED, "interrupted");
  pn_tensor *bad = pn_full(c, PN_FLOAT64, SHAPE(4, 3), NAN);
  CHECK_STATUS(c, pn_plan_run(c, plan, 1, &bad, &out), PN_NAN);
  CHECK_FAIL(c, PN_NAN, "finite");
  CHECK(out == NULL);
  pn_rng_get_state(pn_context_rng(c), after);
  pn_tensor_copy_out(c, m.w, now, 15);
  CHECK(memcmp(before, after, sizeof before) == 0 && memcmp(w, now, sizeof w) == 0);
  CHECK_STATUS(c, pn_plan_run(c, plan, 1, &x, &out), PN_OK);
  pn_plan_unref(plan);
  pn_optim_unref(m.opt);
  pn_scope_close(c, mark);
}

/* ---- large tensors: shards, and the same bits for any number of threads ---- */

static void threads(void) {
  double sum[2];
  for (int n = 1; n <= 2; n++) {
    pn_context *c = pn_context_new(&(pn_context_config){.threads = n});
    size_t mark = pn_scope_open(c);
    pn_tensor *x = pn_randn(c, NULL, PN_FLOAT64, SHAPE(700, 300)), *row = pn_randn(c, NULL, PN_FLOAT64, SHAPE(300));
    pn_tensor *in, *out, *e = pn_randn(c, NULL, PN_FLOAT64, SHAPE(700, 300));
    CHECK_STATUS(c, pn_capture_begin(c, 1, &x, &in), PN_OK);
    pn_tensor *y = pn_mul(c, pn_tanh(c, pn_add(c, in, row)), pn_exp(c, pn_neg(c, pn_square(c, in))));
    y = pn_sum(c, pn_sub(c, pn_mul(c, y, y), pn_sin(c, y)), PN_ALL, 0);
    pn_plan *plan = pn_capture_end(c, 1, &y);
    CHECK_STATUS(c, pn_plan_run(c, plan, 1, &x, &out), PN_OK);
    CHECK_NEAR(item(c, out), item(c, y), 0);
    CHECK_STATUS(c, pn_plan_run(c, plan, 1, &e, &out), PN_OK);
    sum[n - 1] = item(c, out);
    pn_plan_unref(plan);
    pn_scope_close(c, mark);
    pn_context_close(c);
  }
  CHECK_NEAR(sum[0], sum[1], 0);
}

/* ---- closing: a plan and its generator keep what they need ---- */

static void closing(void) {
  sweep_memory mem = {0};
  pn_context *c = pn_context_new(&(pn_context_config){.allocate = sweep_allocate, .allocator_data = &mem});
  size_t mark = pn_scope_open(c);
  pn_rng *rng = pn_rng_new(c, 3);
  pn_tensor *w = pn_param(c, pn_scalar(c, PN_FLOAT64, 2)), *out;
  CHECK_STATUS(c, pn_capture_begin(c, 0, NULL, NULL), PN_OK);
  pn_tensor *y = pn_mul(c, w, pn_randn(c, rng, PN_FLOAT64, SHAPE(3)));
  pn_plan *plan = pn_capture_end(c, 1, &y);
  pn_rng_free(rng);
  pn_scope_close(c, mark);
  CHECK_STATUS(c, pn_plan_run(c, plan, 0, NULL, &out), PN_OK);
  pn_scope_close(c, mark);
  CHECK_STATUS(c, pn_capture_begin(c, 0, NULL, NULL), PN_OK);
  pn_exp(c, pn_scalar(c, PN_FLOAT64, 1));
  pn_capture_cancel(c);
  pn_context_close(c);
  pn_plan_unref(plan);
  CHECK_INT(mem.blocks, 0);
}

/* ---- a script that is stopped in the middle of a capture ---- */

static void stopped_script(void) {
  pn_runtime *rt = NULL;
  pn_runtime_config config = {.limits = {.instructions = 100000}};
  CHECK_INT(pn_runtime_new(&config, &rt), PN_OK);
  const char *endless = "local pn = require 'penumbra'\n"
                        "pn.compile(function(x) while true do x = x + 1 end end)(pn.ones(2))";
  const char *good = "local pn = require 'penumbra'\n"
                     "local f = pn.compile(function(x) return x + 1 end)\n"
                     "assert(f(pn.ones(2)):sum():item() == 4 and f(pn.zeros(2)):sum():item() == 2)";
  CHECK_INT(pn_runtime_run_string(rt, endless, (size_t)-1, "endless"), PN_LIMIT);
  CHECK(!pn_capturing(pn_runtime_context(rt)));
  CHECK_INT(pn_runtime_run_string(rt, good, (size_t)-1, "good"), PN_OK);
  CHECK_STR(pn_runtime_message(rt), "");
  pn_runtime_close(rt);
}

/* ---- failing allocations ---- */

static bool work(pn_context *c, const void *data) {
  (void)data;
  pn_tensor *loss = NULL, *x, *out;
  model m = make_model(c, PN_FLOAT64);
  x = pn_randn(c, NULL, PN_FLOAT64, SHAPE(4, 3));
  draw_both(c, NULL, pn_zeros(c, PN_FLOAT64, SHAPE(2, 1)), pn_arange(c, PN_FLOAT64, 1, 4, 1), PN_INT64, &out);
  pn_plan *plan = x && m.opt ? capture_step(c, &m, x, &loss) : NULL;
  if (pn_capturing(c)) pn_capture_cancel(c);
  bool done = plan && pn_plan_run(c, plan, 1, &x, &out) == PN_OK && pn_plan_run(c, plan, 1, &x, &out) == PN_OK;
  pn_plan_unref(plan);
  pn_optim_unref(m.opt);
  return done;
}

/* Large inputs, one of them strided. */
static bool bound_sweep(pn_context *c, const void *data) {
  (void)data;
  pn_tensor *x[2] = {bound_input(c, 1), pn_randn(c, NULL, PN_FLOAT64, SHAPE(90, 40))}, *in[2], *out[BOUND] = {NULL};
  if (!x[0] || !x[1] || pn_capture_begin(c, 2, x, in)) return false;
  bound_work(c, in[0], in[1], out);
  pn_plan *plan = pn_capture_end(c, BOUND, out);
  bool done = plan && pn_plan_run(c, plan, 2, x, out) == PN_OK && pn_plan_run(c, plan, 2, x, out) == PN_OK;
  pn_plan_unref(plan);
  return done;
}

/* ---- as many inputs as a loop holds ---- */

/* x0 + 2 x1 + 3 x2 + ... */
static void weighted(void *data, int64_t n, char *const *p, const int64_t *s) {
  int nin = (int)*(const int64_t *)data;
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int k = 1; k <= nin; k++) sum += k * ((const double *)(const void *)p[k])[i * s[k]];
    ((double *)(void *)p[0])[i * s[0]] = sum;
  }
}

static pn_tensor *vjp_weighted(pn_context *c, pn_tensor *y, pn_tensor *g, int k);
static const pni_op wide_op = {.name = "weighted",
                               .args = "a:t b:t c:t d:t e:t",
                               .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                               .map = (const pni_map_kernel[4]){weighted},
                               .vjp = vjp_weighted};

static pn_tensor *vjp_weighted(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  return (void)y, pn_mul(c, g, pn_scalar(c, PN_FLOAT64, k + 1));
}

/* Operands whole, repeated along either axis, and turned; alone (alone = true) or between neighbours that fuse. */
static pn_tensor *wide_sum(pn_context *c, pn_tensor *x, int nin, bool alone) {
  pn_tensor *row = pn_slice(c, x, 0, 0, 1, 1), *column = pn_slice(c, x, 1, 0, 1, 1), *back = pn_flip(c, x, 1);
  pn_tensor *in[] = {alone ? x : pn_exp(c, x), row, column, back, alone ? row : pn_neg(c, x), x};
  pni_attr a = {.ni = 1, .i = {nin}};
  pn_tensor *y = pni_apply(c, &wide_op, nin, in, &a);
  return alone ? y : pn_tanh(c, pn_mul(c, y, x));
}

static void wide_rows(pn_context *c) {
  for (int nin = 1; nin < PNI_OPERANDS; nin++)
    for (int64_t cols = 1; cols <= 3000; cols *= 13)
      for (int alone = 0; alone < 2; alone++) {
        size_t mark = pn_scope_open(c);
        pn_tensor *x = pn_randn(c, NULL, PN_FLOAT64, SHAPE(40, cols)), *inside, *y, *again;
        CHECK_STATUS(c, pn_capture_begin(c, 1, &x, &inside), PN_OK);
        y = wide_sum(c, inside, nin, alone);
        pn_plan *p = pn_capture_end(c, 1, &y);
        pn_tensor *other = pn_randn(c, NULL, PN_FLOAT64, SHAPE(40, cols)), *want = wide_sum(c, other, nin, alone);
        CHECK_STATUS(c, pn_plan_run(c, p, 1, &other, &again), PN_OK);
        CHECK(want && memcmp(pn_tensor_data(again), pn_tensor_data(want), (size_t)pn_tensor_numel(want) * 8) == 0);
        pn_plan_unref(p);
        pn_scope_close(c, mark);
      }
  size_t mark = pn_scope_open(c);
  CHECK(wide_sum(c, pn_full(c, PN_FLOAT64, SHAPE(2, 2), 1), PNI_OPERANDS, true) == NULL);
  CHECK_FAIL(c, PN_DOMAIN, "weighted: at most 5 tensors are possible, got 6");
  pn_scope_close(c, mark);
}

int main(void) {
  training(PN_FLOAT64);
  training(PN_FLOAT32);
  no_allocation();
  pn_context *c = pn_context_new(NULL);
  gradients(c);
  refusals(c);
  stopping(c);
  sources(c, PN_FLOAT64);
  sources(c, PN_FLOAT32);
  sources(c, PN_INT64);
  alternating(c);
  turning(c);
  unrecorded(c);
  binding(c);
  bound_memory(c);
  bound_parameter(c);
  wide_rows(c);
  many_inputs(c, 64, 1, true);
  many_inputs(c, 2, 64, true);
  many_inputs(c, 65, 1, false);
  many_inputs(c, 2, 65, false);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  mapped();
  sweep("plan_map of a view", map_views, NULL);
  spoiled();
  threads();
  closing();
  stopped_script();
  sweep("capture and replay", work, NULL);
  sweep("large inputs", bound_sweep, NULL);
  CHECK_DONE();
}
