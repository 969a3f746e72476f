/*
** ode_test.c: differential equations from C: plans made by hand, settings and plans that do not fit, copies of plans
** for other contexts, the memory that gradients take, a limit of time within steps, and every allocation's failure.
*/
#include <math.h>
#include "../../src/autodiff/ode/dormand_prince.h"
#include "../../src/autodiff/ode/ode.h"
#include "../../src/autodiff/ode/rosenbrock.h"
#include "alloc_sweep.h"
#include "fenced.h"

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

typedef struct {
  pn_plan *f, *pullback, *jacobian, *curvature, *events, *events_pullback;
} plans;

/* A plan of t, y [2], k and what else there is: v [2], u [2] and tau, or w [1]. */
typedef bool (*body)(pn_context *c, pn_tensor **in, pn_tensor **out);

/* dy/dt = -k y + cos t */
static bool slope(pn_context *c, pn_tensor **in, pn_tensor **out) {
  out[0] = pn_sub(c, pn_cos(c, in[0]), pn_mul(c, in[2], in[1]));
  return out[0];
}

/* v^T df/dy = -k v, v^T df/dk = -sum v y. */
static bool pullback(pn_context *c, pn_tensor **in, pn_tensor **out) {
  out[0] = pn_neg(c, pn_mul(c, in[2], in[3]));
  out[1] = pn_neg(c, pn_sum(c, pn_mul(c, in[1], in[3]), PN_ALL, 0));
  return out[1];
}

/* df/dy = -k I, df/dt = -sin t. */
static bool jacobian(pn_context *c, pn_tensor **in, pn_tensor **out) {
  out[0] = pn_neg(c, pn_mul(c, in[2], pn_eye(c, PN_FLOAT64, 2, 2)));
  out[1] = pn_neg(c, pn_mul(c, pn_sin(c, in[0]), pn_full(c, PN_FLOAT64, SHAPE(2), 1)));
  return out[1];
}

/* v^T (df/dy u + tau df/dt) = -k v^T u - tau sin t sum v: its gradients. */
static bool curvature(pn_context *c, pn_tensor **in, pn_tensor **out) {
  out[0] = pn_zeros(c, PN_FLOAT64, SHAPE(2));
  out[1] = pn_neg(c, pn_sum(c, pn_mul(c, in[3], in[4]), PN_ALL, 0));
  return out[1];
}

/* sum y - k */
static bool events(pn_context *c, pn_tensor **in, pn_tensor **out) {
  out[0] = pn_reshape(c, pn_sub(c, pn_sum(c, in[1], PN_ALL, 0), in[2]), SHAPE(1));
  return out[0];
}

static bool events_pullback(pn_context *c, pn_tensor **in, pn_tensor **out) {
  out[0] = pn_mul(c, in[3], pn_full(c, PN_FLOAT64, SHAPE(2), 1));
  out[1] = pn_neg(c, pn_sum(c, in[3], PN_ALL, 0));
  out[2] = pn_scalar(c, PN_FLOAT64, 0);
  return out[2];
}

static pn_plan *plan(pn_context *c, body f, int more, bool event, int nout) {
  pn_tensor *y = pn_full(c, PN_FLOAT64, SHAPE(2), 1), *one = pn_scalar(c, PN_FLOAT64, 1), *in[6], *out[3];
  pn_tensor *like[] = {one, y, one, event ? pn_full(c, PN_FLOAT64, SHAPE(1), 1) : y, y, one};
  if (!like[3] || pn_capture_begin(c, 3 + more, like, in)) return NULL;
  if (!f(c, in, out)) out[0] = NULL;
  return pn_capture_end(c, nout, out);
}

static plans make(pn_context *c) {
  plans p = {0};
  if (!(p.f = plan(c, slope, 0, false, 1)) || !(p.pullback = plan(c, pullback, 1, false, 2)) ||
      !(p.jacobian = plan(c, jacobian, 0, false, 2)) || !(p.curvature = plan(c, curvature, 3, false, 2)) ||
      !(p.events = plan(c, events, 0, false, 1)))
    return p;
  p.events_pullback = plan(c, events_pullback, 1, true, 3);
  return p;
}

static void forget(plans p) {
  pn_plan_unref(p.f);
  pn_plan_unref(p.pullback);
  pn_plan_unref(p.jacobian);
  pn_plan_unref(p.curvature);
  pn_plan_unref(p.events);
  pn_plan_unref(p.events_pullback);
}

static const pn_ode_event falls = {"falls", -1, 0, 4};

enum { IMPLICIT = 1, EVENTS = 2, CHECKPOINTS = 4, WAYS = 8 };

static pn_ode_config config_of(plans p, int way) {
  pn_ode_config config = {.checkpoints = (way & CHECKPOINTS) != 0};
  if (way & IMPLICIT) {
    config.method = PN_ROSENBROCK;
    config.jacobian = p.jacobian;
    config.curvature = p.curvature;
  }
  if (way & EVENTS) {
    config.num_events = 1;
    config.event = &falls;
    config.events = p.events;
    config.events_pullback = p.events_pullback;
  }
  return config;
}

/* The solution's sum as a function of k, z [1] -> value [1] and gradient [1], captured. */
static pn_plan *capture(pn_context *c, plans p, int way) {
  pn_tensor *zero = pn_param(c, pn_zeros(c, PN_FLOAT64, SHAPE(1))), *z = pn_full(c, PN_FLOAT64, SHAPE(1), 0.7), *in;
  pn_tensor *y0 = pn_full(c, PN_FLOAT64, SHAPE(2), 2), *times = pn_linspace(c, PN_FLOAT64, 0, 3, 5);
  pn_ode_config config = config_of(p, way);
  if (!times || !y0 || pn_capture_begin(c, 1, &z, &in)) return NULL;
  pn_tensor *x = pn_add(c, in, zero), *k = pn_sum(c, x, PN_ALL, 0), *gradient;
  pn_tensor *y = pn_odeint(c, p.f, p.pullback, &config, y0, times, 1, &k);
  if (way & EVENTS) y = pn_slice(c, y, 0, 0, 12, 1); /* the times' 10 numbers, how many events, the first's time */
  y = pn_sum(c, y, PN_ALL, 0);
  if (y && pn_grad(c, y, 1, &x, 0, &gradient)) y = NULL;
  return pn_capture_end(c, 2,
                        (pn_tensor *[]){y ? pn_reshape(c, pn_detach(c, y), SHAPE(1)) : NULL, y ? gradient : NULL});
}

static bool work(pn_context *c, const void *data) {
  plans p = make(c);
  pn_plan *outer = p.events_pullback ? capture(c, p, *(const int *)data) : NULL, *copy = NULL;
  pn_tensor *z = outer ? pn_full(c, PN_FLOAT64, SHAPE(1), 0.9) : NULL, *out[2];
  forget(p);
  bool done = z && pn_plan_run(c, outer, 1, &z, out) == PN_OK;
  if (done) copy = pn_plan_copy(c, outer);
  done = copy && pn_plan_run(c, copy, 1, &z, out) == PN_OK;
  pn_plan_unref(copy);
  pn_plan_unref(outer);
  return done;
}

/* A copy lives in its own context, past the original's end, and gives the same bits. */
static void copies(int way) {
  pn_context *c = pn_context_new(NULL), *d = pn_context_new(NULL);
  size_t mark = pn_scope_open(c), other = pn_scope_open(d);
  plans p = make(c);
  pn_plan *outer = capture(c, p, way), *copy = pn_plan_copy(d, outer);
  pn_tensor *z = pn_full(c, PN_FLOAT64, SHAPE(1), 0.9), *z2 = pn_full(d, PN_FLOAT64, SHAPE(1), 0.9), *out[2], *out2[2];
  double a[2], b[2];
  forget(p);
  CHECK_STATUS(c, pn_plan_run(c, outer, 1, &z, out), PN_OK);
  for (int i = 0; i < 2; i++) CHECK(pn_tensor_item(c, out[i], &a[i]) == PN_OK);
  pn_plan_unref(outer);
  pn_scope_close(c, mark);
  CHECK(pn_context_objects(c) == 0);
  pn_context_close(c);
  for (int k = 0; k < 2; k++) {
    CHECK_STATUS(d, pn_plan_run(d, copy, 1, &z2, out2), PN_OK);
    for (int i = 0; i < 2; i++) CHECK(pn_tensor_item(d, out2[i], &b[i]) == PN_OK && a[i] == b[i]);
  }
  pn_plan_unref(copy);
  pn_scope_close(d, other);
  CHECK(pn_context_objects(d) == 0);
  pn_context_close(d);
}

/* All ways give the gradient in k of the sum of y, but for the events' part, to the tolerance; checkpoints the bits. */
static void agree(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  plans p = make(c);
  double value[WAYS][2];
  for (int way = 0; way < WAYS; way++) {
    pn_plan *outer = capture(c, p, way);
    pn_tensor *z = pn_full(c, PN_FLOAT64, SHAPE(1), 0.9), *out[2];
    CHECK_STATUS(c, pn_plan_run(c, outer, 1, &z, out), PN_OK);
    for (int i = 0; i < 2; i++) CHECK(pn_tensor_item(c, out[i], &value[way][i]) == PN_OK);
    pn_plan_unref(outer);
  }
  for (int i = 0; i < 2; i++) {
    CHECK_NEAR(value[IMPLICIT][i], value[0][i], 1e-4);
    CHECK_NEAR(value[IMPLICIT | EVENTS][i], value[EVENTS][i], 1e-4);
    for (int way = 0; way < CHECKPOINTS; way++) CHECK(value[way][i] == value[way | CHECKPOINTS][i]);
  }
  forget(p);
  pn_scope_close(c, mark);
  pn_context_close(c);
}

/* The most memory at once of a gradient over so many steps. */
static size_t peak_of(int way, int steps) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c), peak, before;
  plans p = make(c);
  pn_ode_config config = config_of(p, way);
  config.max_step = 3.0 / steps;
  config.max_steps = 2 * steps;
  pn_tensor *y0 = pn_full(c, PN_FLOAT64, SHAPE(2), 2), *times = pn_linspace(c, PN_FLOAT64, 0, 3, 2);
  pn_tensor *k = pn_param(c, pn_scalar(c, PN_FLOAT64, 1)), *gradient;
  before = pn_context_memory(c, NULL);
  pn_tensor *y = pn_sum(c, pn_odeint(c, p.f, p.pullback, &config, y0, times, 1, &k), PN_ALL, 0);
  CHECK_STATUS(c, pn_grad(c, y, 1, &k, 0, &gradient), PN_OK);
  pn_context_memory(c, &peak);
  forget(p);
  pn_scope_close(c, mark);
  pn_context_close(c);
  return peak - before;
}

/* From 400 to 40,000 steps: 100 times the memory, or 10 times. */
static void memory(void) {
  for (int way = 0; way <= IMPLICIT; way++) {
    size_t whole = peak_of(way, 40000), few = peak_of(way | CHECKPOINTS, 400), many = peak_of(way | CHECKPOINTS, 40000);
    CHECK(whole > 40000 * 14 * sizeof(double));
    CHECK(many < whole / 50 && many < 12 * few);
    if (many >= whole / 50 || many >= 12 * few) printf("%zu, %zu with checkpoints, %zu of 400\n", whole, many, few);
  }
}

#define REFUSED(expected, call)                                                                                        \
  do {                                                                                                                 \
    CHECK(!(call) && pn_context_status(c) == (expected));                                                              \
    pn_context_clear_error(c);                                                                                         \
  } while (0)

/* A solution, then a gradient, that a deadline ends between steps; what is there goes on to serve. */
static void deadline(int way) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  plans p = make(c);
  pn_ode_config config = config_of(p, way);
  config.max_steps = 2000000000;
  config.max_step = 1e-8;
  pn_tensor *y0 = pn_full(c, PN_FLOAT64, SHAPE(2), 2), *times = pn_linspace(c, PN_FLOAT64, 0, 3, 2);
  pn_tensor *k = pn_param(c, pn_scalar(c, PN_FLOAT64, 1)), *gradient, *again;
  pn_context_set_deadline(c, 1e-3);
  REFUSED(PN_TIME, pn_odeint(c, p.f, way & CHECKPOINTS ? p.pullback : NULL, &config, y0, times, 1, &k));
  pn_context_set_deadline(c, 0);
  config.max_step = 3e-4; /* ten thousand */
  pn_tensor *y = pn_slice(c, pn_odeint(c, p.f, p.pullback, &config, y0, times, 1, &k), 0, 0, 2, 1);
  pn_tensor *loss = pn_sum(c, pn_square(c, y), PN_ALL, 0);
  CHECK_STATUS(c, pn_grad(c, loss, 1, &k, 0, &gradient), PN_OK);
  pn_context_set_deadline(c, 1e-9);
  CHECK(pn_grad(c, loss, 1, &k, 0, &again) == PN_TIME);
  pn_context_clear_error(c);
  pn_context_set_deadline(c, 0);
  CHECK_STATUS(c, pn_grad(c, loss, 1, &k, 0, &again), PN_OK);
  double a = 0, b = 1;
  CHECK(pn_tensor_item(c, gradient, &a) == PN_OK && pn_tensor_item(c, again, &b) == PN_OK && a == b);
  forget(p);
  pn_scope_close(c, mark);
  CHECK(pn_context_objects(c) == 0);
  pn_context_close(c);
}

/* Replays take no memory once the context's pool is warm. */
static void steady(int way) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  plans p = make(c);
  pn_plan *outer = capture(c, p, way);
  uint64_t requests = 0;
  for (int k = 0; k < 50; k++) {
    size_t inner = pn_scope_open(c);
    pn_tensor *z = pn_full(c, PN_FLOAT64, SHAPE(1), 0.5 + 0.2 * (k % 3)), *out[2];
    CHECK_STATUS(c, pn_plan_run(c, outer, 1, &z, out), PN_OK);
    pn_scope_close(c, inner);
    if (k == 10) requests = c->requests;
  }
  CHECK(c->requests == requests);
  pn_plan_unref(outer);
  forget(p);
  pn_scope_close(c, mark);
  CHECK(pn_context_objects(c) == 0);
  pn_context_close(c);
}

static void misuse_of_plans(pn_context *c, plans p, pn_tensor *y, pn_tensor *times, pn_tensor *k, pn_tensor **many) {
  pn_ode_config config = config_of(p, IMPLICIT | EVENTS);
  pn_ode_event nameless = falls, two[] = {falls, falls};
  memset(nameless.name, 'x', sizeof nameless.name);
  REFUSED(PN_DOMAIN, pn_odeint(c, p.f, NULL, &config, y, times, 60, many));
#define WITH(field, value, status)                                                                                     \
  do {                                                                                                                 \
    pn_ode_config other = config;                                                                                      \
    other.field = value;                                                                                               \
    REFUSED(status, pn_odeint(c, p.f, p.pullback, &other, y, times, 1, &k));                                           \
  } while (0)
  WITH(method, (pn_ode_method)7, PN_DOMAIN);
  WITH(jacobian, NULL, PN_STATE);
  WITH(jacobian, p.f, PN_SHAPE);
  WITH(curvature, NULL, PN_STATE);
  WITH(curvature, p.pullback, PN_SHAPE);
  WITH(events, NULL, PN_STATE);
  WITH(events, p.f, PN_SHAPE);
  WITH(events_pullback, NULL, PN_STATE);
  WITH(events_pullback, p.pullback, PN_SHAPE);
  config.event = two;
  WITH(num_events, 2, PN_SHAPE);
  WITH(num_events, -1, PN_DOMAIN);
  WITH(num_events, 1000, PN_DOMAIN);
  WITH(event, NULL, PN_DOMAIN);
  WITH(event, &nameless, PN_DOMAIN);
  WITH(event, (&(pn_ode_event){"e", 2, 0, 1}), PN_DOMAIN);
  WITH(event, (&(pn_ode_event){"e", 0, 0, 0}), PN_DOMAIN);
  WITH(event, (&(pn_ode_event){"e", 0, 0, 2000000}), PN_DOMAIN);
#undef WITH
  config.events = config.events_pullback = NULL;
  config.num_events = 0;
  CHECK(pn_odeint(c, p.f, p.pullback, &config, y, times, 1, &k) != NULL);
  CHECK(pn_odeint(c, p.f, NULL, &(pn_ode_config){.checkpoints = 1, .jacobian = p.jacobian}, y, times, 1, &k) != NULL);
}

static void misuse(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  plans p = make(c);
  pn_tensor *y = pn_full(c, PN_FLOAT64, SHAPE(2), 2), *times = pn_linspace(c, PN_FLOAT64, 0, 3, 5);
  pn_tensor *k = pn_scalar(c, PN_FLOAT64, 1), *wide = pn_full(c, PN_FLOAT64, SHAPE(3), 2), *many[70], *none = NULL;
  for (int i = 0; i < 70; i++) many[i] = k;
  REFUSED(PN_STATE, pn_odeint(c, NULL, NULL, NULL, y, times, 1, &k));
  REFUSED(PN_STATE, pn_odeint(c, p.f, NULL, NULL, NULL, times, 1, &k));
  REFUSED(PN_STATE, pn_odeint(c, p.f, NULL, NULL, y, times, 1, &none));
  REFUSED(PN_SHAPE, pn_odeint(c, p.f, NULL, NULL, wide, times, 1, &k));
  REFUSED(PN_SHAPE, pn_odeint(c, p.f, NULL, NULL, y, times, 0, NULL));
  REFUSED(PN_SHAPE, pn_odeint(c, p.f, p.f, NULL, y, times, 1, &k));
  REFUSED(PN_SHAPE, pn_odeint(c, p.f, NULL, NULL, y, y, 1, &wide));
  REFUSED(PN_DOMAIN, pn_odeint(c, p.f, NULL, NULL, y, times, 70, many));
  REFUSED(PN_DOMAIN, pn_odeint(c, p.f, NULL, &(pn_ode_config){.rtol = -1}, y, times, 1, &k));
  REFUSED(PN_DOMAIN, pn_odeint(c, p.f, NULL, &(pn_ode_config){.max_step = NAN}, y, times, 1, &k));
  misuse_of_plans(c, p, y, times, k, many);
  pn_context_cancel(c);
  REFUSED(PN_CANCELLED, pn_odeint(c, p.f, NULL, NULL, y, times, 1, &k));
  pn_context_uncancel(c);
  pn_tensor *w = pn_param(c, k), *loss = pn_sum(c, pn_odeint(c, p.f, NULL, NULL, y, times, 1, &w), PN_ALL, 0);
  CHECK(loss && pn_backward(c, loss) == PN_STATE); /* without pullback */
  pn_context_clear_error(c);
  /* the solution keeps its plans */
  pn_tensor *kept = pn_sum(c, pn_odeint(c, p.f, p.pullback, NULL, y, times, 1, &w), PN_ALL, 0);
  forget(p);
  CHECK_STATUS(c, pn_backward(c, kept), PN_OK);
  pn_scope_close(c, mark);
  CHECK(pn_context_objects(c) == 0);
  pn_context_close(c);
}

/* A step that would leave a hundredth of itself or less goes on to the end, and one that would leave more does not. */
static void goes_on(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  plans p = make(c);
  pn_tensor *y0 = pn_full(c, PN_FLOAT64, SHAPE(2), 2), *k = pn_scalar(c, PN_FLOAT64, 1);
  for (int way = 0; way <= IMPLICIT; way += IMPLICIT)
    for (int back = 0; back < 2; back++) {
      pn_ode_config config = config_of(p, way);
      config.rtol = config.atol = 1e6;
      config.first_step = config.max_step = 1;
      config.max_steps = 1;
      double most = 1.01, more = nextafter(most, 2);
      CHECK(pn_odeint(c, p.f, NULL, &config, y0, pn_linspace(c, PN_FLOAT64, back * most, !back * most, 2), 1, &k));
      REFUSED(PN_DOMAIN,
              pn_odeint(c, p.f, NULL, &config, y0, pn_linspace(c, PN_FLOAT64, back * more, !back * more, 2), 1, &k));
    }
  forget(p);
  pn_scope_close(c, mark);
  pn_context_close(c);
}

/* Solutions with events end where their last number does: 2 T numbers of times, then 1 + 3 count, 12 in all behind a
 * header of 64 bytes, fill a block of 160. Gradients, too: 2 + T + 1 of T = 9. */
static void within(void) {
  bool kept = true;
  for (int way = EVENTS; way < WAYS; way++) {
    if (!(way & EVENTS)) continue;
    pn_context *c = pn_context_new(&(pn_context_config){.allocate = fenced, .allocator_data = &kept, .threads = 1});
    size_t mark = pn_scope_open(c);
    plans p = make(c);
    pn_ode_config config = config_of(p, way);
    pn_ode_event once = {"once", -1, 0, 1};
    config.event = &once;
    pn_tensor *y0 = pn_full(c, PN_FLOAT64, SHAPE(2), 2), *k = pn_param(c, pn_scalar(c, PN_FLOAT64, 1)), *g;
    for (int64_t t = 4; t <= 9; t += 5) {
      pn_tensor *y = pn_odeint(c, p.f, p.pullback, &config, y0, pn_linspace(c, PN_FLOAT64, 0, 3, t), 1, &k);
      CHECK(y && y->numel == 2 * t + 4 && pni_element(y, 2 * t) == 1);
      CHECK_STATUS(c, pn_grad(c, pn_sum(c, y, PN_ALL, 0), 1, &k, 0, &g), PN_OK);
    }
    forget(p);
    pn_scope_close(c, mark);
    pn_context_close(c);
  }
  CHECK(kept);
}

/* ---- what is refused, in which words, and at which bounds ---- */

/* Fails with this status in these words; an empty text: it may fail, but not in words with `else_not`. */
static void said(pn_context *c, pn_tensor *y, pn_status status, const char *text, const char *else_not) {
  if (*text) {
    CHECK(!y);
    CHECK_FAIL(c, status, text);
    return;
  }
  CHECK(y || !strstr(pn_context_message(c), else_not));
  pn_context_clear_error(c);
}

static void numbers(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  plans p = make(c);
  pn_tensor *y = pn_full(c, PN_FLOAT64, SHAPE(2), 2), *times = pn_linspace(c, PN_FLOAT64, 0, 3, 5);
  pn_tensor *k = pn_param(c, pn_scalar(c, PN_FLOAT64, 1)), *many[PNI_OP_INPUTS + 1], *z;
  for (int i = 0; i <= PNI_OP_INPUTS; i++) many[i] = k;
#define WITH(status, text, ...)                                                                                        \
  said(c, pn_odeint(c, p.f, p.pullback, &(pn_ode_config){__VA_ARGS__}, y, times, 1, &k), status, text, "must be pos")
  WITH(PN_DOMAIN, "odeint: rtol must be positive and finite, got -1", .rtol = -1);
  WITH(PN_DOMAIN, "odeint: rtol must be positive and finite, got inf", .rtol = INFINITY);
  WITH(PN_DOMAIN, "odeint: atol must be positive and finite, got -2", .atol = -2);
  WITH(PN_DOMAIN, "odeint: atol must be positive and finite, got nan", .atol = NAN);
  WITH(PN_DOMAIN, "odeint: max_steps must be positive and finite, got -3", .max_steps = -3);
  WITH(PN_DOMAIN, "odeint: first_step must be positive and finite, got -0.5", .first_step = -0.5);
  WITH(PN_DOMAIN, "odeint: first_step must be positive and finite, got inf", .first_step = INFINITY);
  WITH(PN_DOMAIN, "odeint: max_step must be positive and finite, got -0.5", .max_step = -0.5);
  WITH(PN_DOMAIN, "odeint: method must be PN_DORMAND_PRINCE or PN_ROSENBROCK, got 2", .method = (pn_ode_method)2);
  WITH(PN_DOMAIN, "odeint: method must be PN_DORMAND_PRINCE or PN_ROSENBROCK, got -1", .method = (pn_ode_method)-1);
  WITH(PN_OK, "", .rtol = 1e-300, .max_steps = 1);
#undef WITH
#define WITH(status, text, n, ...)                                                                                     \
  said(c,                                                                                                              \
       pn_odeint(c, p.f, p.pullback, &(pn_ode_config){.num_events = n, .events = p.events, .event = __VA_ARGS__}, y,   \
                 times, 1, &k),                                                                                        \
       status, text, "odeint: event")
  pn_ode_event list[PNI_OP_INPUTS + 1], nameless = falls, named = falls;
  for (int e = 0; e <= PNI_OP_INPUTS; e++) list[e] = falls;
  memset(nameless.name, 'x', sizeof nameless.name);
  memset(named.name, 'x', sizeof named.name - 1);
  WITH(PN_DOMAIN, "odeint: there may be 64 events at most, in a list, got 65", PNI_OP_INPUTS + 1, list);
  WITH(PN_DOMAIN, "odeint: there may be 64 events at most, in a list, got -1", -1, list);
  WITH(PN_DOMAIN, "odeint: there may be 64 events at most, in a list, got 1", 1, NULL);
  WITH(PN_SHAPE, "odeint: events must be a plan of t, y [2], 1 parameters and 0 more that gives a vector",
       PNI_OP_INPUTS, list);
  WITH(PN_DOMAIN, "odeint: name of event 1 must end within its 32 characters", 1, &nameless);
  WITH(PN_STATE, "odeint: events_pullback must be a plan, got NULL", 1, &named);
  WITH(PN_STATE, "odeint: events_pullback must be a plan, got NULL", 1, &(pn_ode_event){"e", 1, 1, 1});
  WITH(PN_STATE, "odeint: events_pullback must be a plan, got NULL", 1, &(pn_ode_event){"e", -1, 0, 1000000});
  WITH(PN_DOMAIN, "odeint: event 'e' needs a count from 1 to 1000000 and a direction", 1,
       &(pn_ode_event){"e", 0, 0, 1000001});
  WITH(PN_DOMAIN, "odeint: event 'e' needs a count from 1 to 1000000 and a direction", 1,
       &(pn_ode_event){"e", 0, 0, 0});
  WITH(PN_DOMAIN, "odeint: event 'e' needs a count", 1, &(pn_ode_event){"e", 2, 0, 1});
  WITH(PN_DOMAIN, "odeint: event 'e' needs a count", 1, &(pn_ode_event){"e", -2, 0, 1});
#undef WITH
  pn_ode_config implicit = config_of(p, IMPLICIT), events = config_of(p, EVENTS);
  said(c, pn_odeint(c, p.f, NULL, NULL, y, times, 61, many), PN_DOMAIN,
       "odeint: at most 60 parameters are possible, got 61", "");
  said(c, pn_odeint(c, p.f, NULL, NULL, y, times, 60, many), PN_SHAPE,
       "odeint: f must be a plan of t, y [2], 60 parameters and 0 more that gives dy/dt of y's shape, float64", "");
  said(c, pn_odeint(c, p.f, NULL, &implicit, y, times, 60, many), PN_DOMAIN,
       "odeint: at most 59 parameters are possible with this method or events, got 60", "");
  said(c, pn_odeint(c, p.f, NULL, &events, y, times, 60, many), PN_DOMAIN, "with this method or events, got 60", "");
  said(c, pn_odeint(c, p.f, NULL, &implicit, y, times, 59, many), PN_SHAPE, "odeint: f must be a plan", "");
  for (int bad = 0; bad < 2; bad++) { /* the first element that is not finite is named */
    double from[] = {bad ? 1 : NAN, bad ? NAN : 1};
    z = pn_from_data(c, PN_FLOAT64, SHAPE(2), from);
    said(c, pn_odeint(c, p.f, NULL, NULL, z, times, 1, &k), PN_NAN,
         bad ? "first time, got nan and nan (element 2)" : "first time, got nan and nan (element 1)", "");
  }
  z = pn_odeint(c, p.f, p.pullback, NULL, y, times, 1, &k); /* what is not set */
  const pni_ode *o = z ? pni_in(z, 2)->storage->data : NULL;
  CHECK(o && o->set.rtol == 1e-6 && o->set.atol == 1e-8 && o->set.max_steps == 10000 && o->set.max_step == 0);
  forget(p);
  pn_scope_close(c, mark);
  CHECK(pn_context_objects(c) == 0);
  pn_context_close(c);
}

/* n numbers, a Jacobian [n, n] that takes no memory; 30000 at most. */
static void widest(void) {
  for (int64_t n = 30000; n <= 30001; n++) {
    pn_context *c = pn_context_new(NULL);
    size_t mark = pn_scope_open(c);
    pn_tensor *y = pn_full(c, PN_FLOAT64, SHAPE(n), 1), *t = pn_scalar(c, PN_FLOAT64, 0), *in[2], *out[2];
    pn_tensor *like[] = {t, y}, *times = pn_linspace(c, PN_FLOAT64, 0, 1, 2);
    CHECK_STATUS(c, pn_capture_begin(c, 2, like, in), PN_OK);
    pn_plan *f = pn_capture_end(c, 1, &in[1]);
    CHECK_STATUS(c, pn_capture_begin(c, 2, like, in), PN_OK);
    out[0] = pn_broadcast_to(c, in[0], 2, (int64_t[]){n, n});
    out[1] = in[1];
    pn_plan *jacobian = pn_capture_end(c, 2, out);
    pn_ode_config config = {.method = PN_ROSENBROCK, .jacobian = jacobian};
    pn_context_set_memory_limit(c, 1 << 28);
    CHECK(jacobian && !pn_odeint(c, f, NULL, &config, y, times, 0, NULL));
    CHECK_FAIL(c, n > 30000 ? PN_SHAPE : PN_NOMEM,
               n > 30000 ? "y0 may have at most 30000 elements with method 'rosenbrock', got 30001" : "");
    pn_plan_unref(f);
    pn_plan_unref(jacobian);
    pn_scope_close(c, mark);
    pn_context_close(c);
  }
}

/* The operation by itself, with one of its inputs as it may not be. */
static void altered(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  plans p = make(c);
  pn_tensor *k = pn_param(c, pn_scalar(c, PN_FLOAT64, 1)), *in[6], *g = NULL, *all;
  pn_tensor *y = pn_odeint(c, p.f, p.pullback, NULL, pn_full(c, PN_FLOAT64, SHAPE(2), 2),
                           pn_linspace(c, PN_FLOAT64, 0, 3, 5), 1, &k);
  pn_tensor *fake = pn_zeros(c, PN_BOOL, pn_tensor_ndim(pni_in(y, 2)), pn_tensor_shape(pni_in(y, 2)));
  memcpy(pni_data(fake), pni_data(pni_in(y, 2)), (size_t)fake->numel); /* the bytes of a system are none */
  const struct {
    int k;
    pn_tensor *x;
  } wrong[] = {{0, pn_full(c, PN_FLOAT32, SHAPE(2), 2)},
               {0, pn_full(c, PN_FLOAT64, SHAPE(3), 2)},
               {0, pn_full(c, PN_FLOAT64, SHAPE(1, 2), 2)},
               {1, pn_linspace(c, PN_FLOAT32, 0, 3, 5)},
               {1, pn_linspace(c, PN_FLOAT64, 0, 3, 4)},
               {1, pn_full(c, PN_FLOAT64, SHAPE(5, 1), 2)},
               {2, fake},
               {3, pn_scalar(c, PN_FLOAT32, 1)},
               {3, pn_full(c, PN_FLOAT64, SHAPE(1), 1)}};
  const char *text = "odeint: y0, times and parameters must be float64 of the shapes that the system was made for";
  const char *of_adjoint = "odeint_adjoint: y0, times and parameters must be float64 of the shapes that the system";
  in[0] = pn_full(c, PN_FLOAT64, SHAPE(5, 2), 1);
  for (int i = 0; i < 4; i++) in[i + 1] = pni_in(y, i);
  in[5] = k;
  pn_tensor *again = pni_apply(c, y->op, 4, in + 1, NULL);
  CHECK(again && memcmp(pni_data(again), pni_data(y), (size_t)y->numel * sizeof(double)) == 0);
  CHECK(pn_grad(c, pn_sum(c, y, PN_ALL, 0), 1, &k, 0, &g) == PN_OK);
  CHECK((all = pni_apply(c, &pni_op_odeint_adjoint, 5, in, NULL)) && all->numel == 2 + 5 + 1);
  CHECK(all && g && ((double *)pni_data(all))[7] == *(double *)pni_data(g));
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    pn_tensor *right = in[1 + wrong[i].k];
    in[1 + wrong[i].k] = wrong[i].x;
    CHECK(wrong[i].x && !pni_apply(c, y->op, 4, in + 1, NULL));
    CHECK_FAIL(c, PN_SHAPE, text);
    CHECK(!pni_apply(c, &pni_op_odeint_adjoint, 5, in, NULL));
    CHECK_FAIL(c, PN_SHAPE, of_adjoint);
    in[1 + wrong[i].k] = right;
  }
  for (int n = 2; n <= 5; n++) {
    if (n == 4) continue;
    CHECK(!pni_apply(c, y->op, n, in + 1, NULL));
    CHECK_FAIL(c, PN_SHAPE, text);
  }
  in[0] = pn_full(c, PN_FLOAT64, SHAPE(5, 3), 1);
  CHECK(!pni_apply(c, &pni_op_odeint_adjoint, 5, in, NULL));
  CHECK_INT(pn_context_status(c), PN_SHAPE);
  pn_context_clear_error(c);
  forget(p);
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
}

/* ---- the steps that are taken, by the formulas for one number at a time ---- */

enum { N = 2, LONGEST = 2000 };

/* y' = cos t - k y from `start` on; a solution with its tolerances, by either method. */
typedef struct {
  bool implicit;
  double k, rtol, atol, first, most;
  double start[N], times[3];
  double t[LONGEST];
  int steps, tried;
} course;

static double slope_at(const course *q, double t, double y) { return cos(t) - q->k * y; }

/* One step of the explicit method: the new value, *error that of order 5 less that of order 4. */
static double explicit_step(const course *q, double t, double h, double y, double *error) {
  double k[STAGES], at = y;
  *error = 0;
  for (int i = 0; i < STAGES; i++) {
    at = y;
    for (int j = 0; j < i; j++) at += h * WEIGHT[i][j] * k[j];
    k[i] = slope_at(q, t + NODE[i] * h, at);
    *error += h * ERROR[i] * k[i];
  }
  return at;
}

/* The same of the implicit one, whose last stage is the error; *inside: that at 0.8 of the step, by its residual. */
static double implicit_step(const course *q, double t, double h, double y, double *error, double *inside) {
  double u[SOLVES], next = y, matrix = 1 / (h * GAMMA) + q->k, bend[2] = {0, 0}, s = 0.8, r = 1 - s;
  for (int i = 0; i < SOLVES; i++) {
    double at = y, right = -h * IN_TIME[i] * sin(t);
    for (int j = 0; j < i; j++) at += STAGE[i][j] * u[j], right += COUPLING[i][j] * u[j] / h;
    u[i] = (slope_at(q, t + PLACE[i] * h, at) + right) / matrix;
    next += LAST[i] * u[i];
    for (int k = 0; k < 2; k++) bend[k] += BEND[k][i] * u[i];
  }
  *error = u[SOLVES - 1];
  double value = r * y + s * next + s * r * (bend[0] + s * bend[1]);
  double slope = (next - y + (r - s) * bend[0] + (2 * s * r - s * s) * bend[1]) / h;
  *inside = (slope_at(q, t + s * h, value) - slope) / matrix;
  return next;
}

static double unit(const course *q, double a, double b) { return q->atol + q->rtol * fmax(fabs(a), fabs(b)); }
static double norm(const double *e) { return sqrt((e[0] * e[0] + e[1] * e[1]) / N); }

/* HINIT of dopri5.f. */
static double first_step(const course *q, double sign, double most) {
  double a[N], b[N], d[N], t = q->times[0], order = q->implicit ? 4 : 5;
  for (int i = 0; i < N; i++) a[i] = q->start[i] / unit(q, q->start[i], 0);
  for (int i = 0; i < N; i++) b[i] = slope_at(q, t, q->start[i]) / unit(q, q->start[i], 0);
  double h = fmin(norm(a) < 1e-5 || norm(b) < 1e-5 ? 1e-6 : 0.01 * norm(a) / norm(b), most);
  for (int i = 0; i < N; i++) {
    double y = q->start[i], f = slope_at(q, t, y);
    d[i] = (slope_at(q, t + sign * h, y + sign * h * f) - f) / unit(q, y, 0) / h;
  }
  return fmin(fmin(100 * h, pow(0.01 / fmax(norm(b), norm(d)), 1 / order)), most);
}

/* Fills q->t with the ends of the steps: control of Hairer, Norsett & Wanner II.4, of dopri5.f. */
static void follow(course *q) {
  double end = q->times[2], sign = end < q->times[0] ? -1 : 1, span = fabs(end - q->times[0]), before = 1e-4;
  double most = q->most > 0 ? q->most : span, h = q->first > 0 ? q->first : first_step(q, sign, fmin(most, span));
  double power = q->implicit ? 0.25 : 0.2, y[N] = {q->start[0], q->start[1]};
  bool refused = false;
  q->t[0] = q->times[0];
  for (q->steps = q->tried = 0; q->t[q->steps] != end && q->steps + 1 < LONGEST; q->tried++) {
    double t = q->t[q->steps], left = fabs(end - t), next[N], e[N], between[N], error;
    h = fmin(h, most);
    bool last = 1.01 * h >= left;
    if (last) h = left;
    double to = last ? end : t + sign * h;
    for (int i = 0; i < N; i++) {
      next[i] = q->implicit ? implicit_step(q, t, sign * h, y[i], &e[i], &between[i])
                            : explicit_step(q, t, sign * h, y[i], &e[i]);
      e[i] /= unit(q, y[i], next[i]);
      between[i] /= unit(q, y[i], next[i]);
    }
    error = norm(e);
    if (q->implicit && error <= 1 && (q->times[1] - t) * sign > 0 && (to - q->times[1]) * sign > 0)
      error = fmax(error, norm(between));
    double shrink = pow(error, power - 0.03) / 0.9;
    if (error > 1) {
      h /= fmin(5, shrink);
      refused = true;
      continue;
    }
    double grown = h / fmin(5, fmax(0.1, shrink / pow(before, 0.04)));
    h = refused ? fmin(grown, h) : grown;
    refused = false;
    before = fmax(error, 1e-4);
    memcpy(y, next, sizeof y);
    q->t[++q->steps] = to;
  }
}

/* Room doubles with 30 more; marks are `interval` steps apart and less than that many. */
static void check_room(const pni_ode *o, bool checkpoints) {
  int64_t room = 0, interval = 8, size = 5 + N, events = o->set.num_events ? N : 0;
  CHECK(o->event_slope + events == o->work + o->work_size);
  for (int64_t i = 1; i <= o->steps + 1; i++)
    if (i > room) room = 2 * i + 30;
  if (!checkpoints) {
    CHECK_INT(o->room, room);
    return;
  }
  while (interval * interval <= o->steps) interval *= 2;
  CHECK_INT(o->room, 2);
  CHECK_INT(o->interval, interval);
  CHECK_INT(o->marks, o->steps / interval + 1);
  CHECK_INT(o->mark_room, size * (o->marks > interval / 2 || interval == 8 ? interval : interval / 2));
}

/* Problem number i of some from slow to stiff, loose to exact, whose first step may be far too long. */
static course drawn(int i) {
  double k = pow(10, i % 7 * 0.4 - 0.3), loose = pow(10, -1 - i % 5);
  course q = {.k = k, .rtol = loose, .atol = loose / (1 + i % 3), .first = i % 2 * (0.3 + i % 11)};
  q.start[0] = 0.1 + i % 4, q.start[1] = 0.05 * (i % 9) - 0.1;
  q.times[0] = 0.1 * i, q.times[1] = q.times[0] + 0.37 + i % 3, q.times[2] = q.times[0] + 6;
  return q;
}

static void courses(void) {
  static const course all[] = {{.k = 1, .rtol = 1e-4, .atol = 1e-6, .start = {2, -1}, .times = {0, 1.1, 7}},
                               {.k = 30, .rtol = 1e-4, .atol = 1e-5, .first = 1, .start = {2, 3}, .times = {0, 0.3, 9}},
                               {.k = 3, .rtol = 1e-2, .atol = 1e-2, .start = {0, 0}, .times = {0.5, 4, 9}},
                               {.k = 1, .rtol = 1e-3, .atol = 1e-3, .start = {1e-3, 0}, .times = {1.5707963, 2, 6}},
                               {.k = -2, .rtol = 1e-3, .atol = 1e-5, .start = {5, -3}, .times = {4, 3.2, -3}},
                               {.k = 1, .rtol = 1, .atol = 1, .start = {2, -1}, .times = {0, 0.1, 0.2}},
                               {.k = 200, .rtol = 1e-3, .atol = 1e-6, .start = {2, -1}, .times = {0, 1, 4}},
                               {.k = 1, .rtol = 1e-4, .atol = 1e-6, .most = 0.05, .start = {2, 1}, .times = {0, 1, 7}},
                               {.k = 1, .rtol = 1e-4, .atol = 1e-6, .most = 0.01, .start = {2, 1}, .times = {0, 1, 5}}};
  enum { GIVEN = sizeof all / sizeof *all, DRAWN = 30 };
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  plans p = make(c);
  for (int i = 0; i < (GIVEN + DRAWN) * 8; i++) {
    size_t inner = pn_scope_open(c);
    course q = i / 8 < GIVEN ? all[i / 8] : drawn(i / 8 - GIVEN);
    if (i / 8 >= GIVEN && i & EVENTS) continue;
    pn_ode_config config = config_of(p, i % 8);
    bool checkpoints = (i & CHECKPOINTS) != 0;
    config.rtol = q.rtol, config.atol = q.atol, config.first_step = q.first, config.max_step = q.most;
    q.implicit = (i & IMPLICIT) != 0;
    pn_tensor *y0 = pn_from_data(c, PN_FLOAT64, SHAPE(N), q.start), *k = pn_param(c, pn_scalar(c, PN_FLOAT64, q.k));
    pn_tensor *times = pn_from_data(c, PN_FLOAT64, SHAPE(3), q.times), *g;
    follow(&q);
    config.max_steps = q.tried; /* those that are refused count */
    pn_tensor *y = i & EVENTS ? NULL : pn_odeint(c, p.f, p.pullback, &config, y0, times, 1, &k);
    if (i & EVENTS) { /* all steps are looked into then; the memory is what counts */
      config.max_steps = 0;
      y = pn_odeint(c, p.f, p.pullback, &config, y0, times, 1, &k);
      if (!y) pn_context_clear_error(c);
    }
    CHECK(y || i & EVENTS);
    pni_ode *o = y ? pni_in(y, 2)->storage->data : NULL;
    if (o) check_room(o, checkpoints);
    if (o && !(i & EVENTS)) {
      CHECK_INT(o->steps, q.steps);
      CHECK(!q.implicit || o->jacobian_of == o->steps - 1); /* a step that is tried again has its Jacobian */
      for (int64_t j = 0; !checkpoints && j <= o->steps && j <= q.steps; j++)
        CHECK_NEAR(o->trajectory[j * (2 + (1 + o->method->kept) * N)], q.t[j], 1e-7);
      config.max_steps = q.tried - 1;
      if (q.tried > 1) {
        char text[64];
        snprintf(text, sizeof text, "odeint: max_steps = %d steps end at t = ", q.tried - 1);
        CHECK(!pn_odeint(c, p.f, p.pullback, &config, y0, times, 1, &k) && strstr(pn_context_message(c), text));
        snprintf(text, sizeof text, " of %g (", q.times[2]);
        CHECK_FAIL(c, PN_DOMAIN, text);
      }
      CHECK_STATUS(c, pn_grad(c, pn_sum(c, y, PN_ALL, 0), 1, &k, 0, &g), PN_OK);
      if (checkpoints && q.steps > 2) CHECK_INT(o->room, o->interval + 1);
      *(checkpoints ? o->mark + 5 : o->trajectory + 2) = NAN; /* what is kept serves again */
      CHECK(pn_grad(c, pn_sum(c, y, PN_ALL, 0), 1, &k, 0, &g) || isnan(pni_element(g, 0)));
      pn_context_clear_error(c);
    }
    pn_scope_close(c, inner);
  }
  forget(p);
  pn_scope_close(c, mark);
  pn_context_close(c);
}

int main(void) {
  courses();
  within();
  numbers();
  widest();
  altered();
  misuse();
  goes_on();
  agree();
  memory();
  for (int way = 0; way < WAYS; way++) deadline(way);
  for (int way = 0; way < WAYS; way++) {
    copies(way);
    steady(way);
  }
  static const int ways[] = {0, IMPLICIT | EVENTS | CHECKPOINTS, EVENTS};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) sweep("odeint", work, &ways[i]);
  CHECK_DONE();
}
