/*
** own_gradient_test.c: a gradient as a captured rule: its values, within a plan and in a copy of one, what is refused,
** and every failing allocation on the way.
*/
#include "../../src/autodiff/rule/rule.h"
#include "alloc_sweep.h"

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]) { __VA_ARGS__ }

static const char outside[] = "a tensor from outside";

/* The rule g x^2 + y x of y = x^3, which is wrong on purpose: backward must give it all the same. */
static pn_tensor *make_rule(pn_context *c, pn_tensor *y, pn_tensor *x) {
  pn_tensor *g = pn_full(c, PN_FLOAT64, SHAPE(3), 1), *in[3], *given[] = {g, y, pn_detach(c, x)};
  if (!g || !given[2] || pni_capture_enter(c, outside, 3, given, 0, 3, in)) return NULL;
  pn_tensor *d = pn_add(c, pn_mul(c, in[0], pn_square(c, in[2])), pn_mul(c, in[1], in[2]));
  if (d) return pni_rule_end(c, 1, &d);
  pn_capture_cancel(c);
  return NULL;
}

static pn_tensor *cube(pn_context *c, pn_tensor *x) {
  int old = pn_set_no_grad(c, 1);
  pn_tensor *y = pn_mul(c, x, pn_square(c, x));
  pn_set_no_grad(c, old);
  pn_tensor *rule = y ? make_rule(c, y, x) : NULL;
  return rule ? pni_own_gradient(c, y, rule, 1, &x) : NULL;
}

/* The first numbers of d(sum y)/dw and of d(sum of that)/dw. */
static bool gradients(pn_context *c, pn_tensor *w, double *first, double *second) {
  pn_tensor *loss = pn_sum(c, cube(c, w), PN_ALL, 0), *d, *e;
  if (!loss || pn_grad(c, loss, 1, &w, 1, &d)) return false;
  pn_tensor *sum = pn_sum(c, d, PN_ALL, 0);
  if (!sum || pn_grad(c, sum, 1, &w, 0, &e)) return false;
  return pn_tensor_item(c, pn_select(c, d, 0, 0), first) == PN_OK &&
         pn_tensor_item(c, pn_select(c, e, 0, 0), second) == PN_OK;
}

static void values(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  pn_tensor *w = pn_param(c, pn_full(c, PN_FLOAT64, SHAPE(3), 2));
  double first = 0, second = 0;
  CHECK(gradients(c, w, &first, &second));
  CHECK_NEAR(first, 1 * 4 + 8 * 2, 1e-15);
  /* d = x^2 + y x: 2 x + y for x itself, and through y, where g is x, the rule again: x x^2 + y x */
  CHECK_NEAR(second, 2 * 2 + 8 + (2 * 4 + 8 * 2), 1e-15);
  CHECK(!pn_tensor_requires_grad(cube(c, pn_full(c, PN_FLOAT64, SHAPE(3), 2))));
  pn_scope_close(c, mark);
  CHECK(pn_context_objects(c) == 0);
  pn_context_close(c);
}

/* A plan of x -> sum of the gradient in w of cube(w) x. */
static pn_plan *make_plan(pn_context *c, pn_tensor *w) {
  pn_tensor *x = pn_full(c, PN_FLOAT64, SHAPE(3), 1), *inside, *d;
  if (!x || pn_capture_begin(c, 1, &x, &inside)) return NULL;
  pn_tensor *loss = pn_sum(c, pn_mul(c, cube(c, w), inside), PN_ALL, 0);
  if (loss && pn_grad(c, loss, 1, &w, 0, &d) == PN_OK)
    return pn_capture_end(c, 1, (pn_tensor *[]){pn_sum(c, d, PN_ALL, 0)});
  pn_capture_cancel(c);
  return NULL;
}

static double run(pn_context *c, const pn_plan *p, double value) {
  double v = NAN;
  pn_tensor *x = pn_full(c, PN_FLOAT64, SHAPE(3), value), *out;
  CHECK_STATUS(c, pn_plan_run(c, (pn_plan *)(uintptr_t)p, 1, &x, &out), PN_OK);
  CHECK_STATUS(c, pn_tensor_item(c, out, &v), PN_OK);
  return v;
}

static void plans(void) {
  pn_context *c = pn_context_new(NULL), *other = pn_context_new(NULL);
  size_t mark = pn_scope_open(c), there = pn_scope_open(other);
  pn_tensor *w = pn_param(c, pn_full(c, PN_FLOAT64, SHAPE(3), 2));
  pn_plan *p = make_plan(c, w);
  CHECK_NEAR(run(c, p, 5), 3 * (5 * 4 + 8 * 2), 1e-15);
  pn_plan *copy = pn_plan_copy(other, p);
  CHECK_STATUS(c, pn_param_set(c, w, pn_full(c, PN_FLOAT64, SHAPE(3), 1)), PN_OK);
  CHECK_NEAR(run(c, p, 5), 3 * (5 * 1 + 1 * 1), 1e-15);
  CHECK_NEAR(run(other, copy, 5), 3 * (5 * 4 + 8 * 2), 1e-15);
  pn_plan_unref(p);
  pn_plan_unref(copy);
  pn_scope_close(c, mark);
  pn_scope_close(other, there);
  CHECK(pn_context_objects(c) == 0 && pn_context_objects(other) == 0);
  pn_context_close(c);
  pn_context_close(other);
}

/* What a rule gives may have the input's numbers in other axes, or one for all; anything else is refused. */
static pn_tensor *shaped(pn_context *c, pn_tensor *g, int kind) {
  switch (kind) {
  case 0: return pn_reshape(c, g, SHAPE(1, 3, 1));
  case 1: return pn_sum(c, g, PN_ALL, 0);
  case 2: return pn_reshape(c, pn_sum(c, g, PN_ALL, 0), SHAPE(1, 1));
  case 3: return pn_stack(c, 2, (pn_tensor *[]){g, g}, 0);
  case 4: return pn_slice(c, g, 0, 0, 2, 1);
  case 5: return pn_cast(c, g, PN_FLOAT32);
  case 6: return pn_cast(c, pn_sum(c, g, PN_ALL, 0), PN_FLOAT32);
  default: return pn_neg(c, g);
  }
}

static void shapes(void) {
  static const char *refused[] = {[3] = "float64 [2, 3]", [4] = "float64 [2]", [5] = "float32 [3]", [6] = "float32 []"};
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  const double weight[] = {1, 2, 4};
  pn_tensor *v = pn_from_data(c, PN_FLOAT64, SHAPE(3), weight), *w = pn_param(c, v), *in[3];
  for (int kind = 0; kind < 8; kind++) {
    pn_tensor *given[] = {v, v, v}, *d, *sum = NULL;
    CHECK_STATUS(c, pni_capture_enter(c, outside, 3, given, 0, 3, in), PN_OK);
    d = shaped(c, in[0], kind);
    pn_tensor *y = pni_own_gradient(c, v, pni_rule_end(c, 1, &d), 1, &w);
    if (y) sum = pn_sum(c, pn_mul(c, y, v), PN_ALL, 0); /* g: the weights */
    CHECK_INT(sum && pn_grad(c, sum, 1, &w, 0, &d) == PN_OK, kind < 3 || kind == 7);
    for (int64_t i = 0; i < 3 && !pn_context_status(c); i++)
      CHECK_NEAR(pni_element(d, i), kind == 7 ? -weight[i] : kind ? 7 : weight[i], 0);
    if (kind < 3 || kind == 7) continue;
    char text[100];
    snprintf(text, sizeof text, "own_gradient: its gradient must be float64 [3] as the input is, got %s",
             refused[kind]);
    CHECK_FAIL(c, PN_SHAPE, text);
  }
  pn_scope_close(c, mark);
  CHECK(pn_context_objects(c) == 0);
  pn_context_close(c);
}

static void misuse(void) {
  pn_context *c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  pn_tensor *x = pn_full(c, PN_FLOAT64, SHAPE(3), 2), *w = pn_param(c, x), *in[3], *out, *many[2] = {x, x};
  CHECK(!pni_rule_end(c, 1, &x));
  CHECK_FAIL(c, PN_STATE, "there is no capture of g, y and 1 inputs");
  CHECK(!pni_own_gradient(c, x, x, 1, &x));
  CHECK_FAIL(c, PN_STATE, "there is no rule for 1 inputs");
  pn_tensor *rule = make_rule(c, x, x);
  CHECK(rule && !pni_own_gradient(c, x, rule, 2, many));
  CHECK_FAIL(c, PN_STATE, "there is no rule for 2 inputs");
  pn_tensor *longer = pn_full(c, PN_FLOAT64, SHAPE(4), 2), *single = pn_full(c, PN_FLOAT32, SHAPE(3), 2);
  CHECK(!pni_own_gradient(c, longer, rule, 1, &longer));
  CHECK_FAIL(c, PN_SHAPE, "own_gradient: input 1 must be float64 [3], got float64 [4]");
  CHECK(!pni_own_gradient(c, x, rule, 1, &single));
  CHECK_FAIL(c, PN_SHAPE, "own_gradient: input 3 must be float64 [3], got float32 [3]");
  pn_tensor *given[] = {x, x, x};
  CHECK_STATUS(c, pni_capture_enter(c, outside, 3, given, 0, 3, in), PN_OK);
  out = pn_mul(c, in[0], w);
  CHECK(!pni_rule_end(c, 1, &out));
  CHECK_FAIL(c, PN_STATE, "a parameter from outside is used");
  CHECK(!pn_capturing(c));
  CHECK_STATUS(c, pni_capture_enter(c, outside, 3, given, 0, 3, in), PN_OK);
  out = pn_mul(c, in[0], pn_randn(c, NULL, PN_FLOAT64, SHAPE(3)));
  CHECK(!pni_rule_end(c, 1, &out));
  CHECK_FAIL(c, PN_STATE, "must not draw random numbers");
  CHECK(!pn_capturing(c));
  pn_scope_close(c, mark);
  CHECK(pn_context_objects(c) == 0);
  pn_context_close(c);
}

static bool work(pn_context *c, const void *data) {
  double first, second;
  (void)data;
  pn_tensor *x = pn_full(c, PN_FLOAT64, SHAPE(3), 2), *w = x ? pn_param(c, x) : NULL;
  if (!w || !gradients(c, w, &first, &second)) return false;
  pn_plan *p = make_plan(c, w), *copy = p ? pn_plan_copy(c, p) : NULL;
  bool good = copy != NULL;
  pn_plan_unref(p);
  pn_plan_unref(copy);
  return good;
}

int main(void) {
  values();
  plans();
  shapes();
  misuse();
  sweep("own_gradient", work, NULL);
  CHECK_DONE();
}
