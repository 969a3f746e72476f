/*
** nest_test.c: limits that hold wherever an object comes from: how deep distributions and bijectors nest, operands of a
** loop, options of a row, sizes of layers; and freeing, which does not recurse however deep the parts lie.
*/
#include "../../src/distribution/bijector/bijector.h"
#include "../../src/nn/option.h"
#include "check.h"

enum { DEEP = 300000 };

static pn_bijector *identity(pn_context *c) {
  const char *names[] = {"loc", "scale"};
  size_t mark = pn_scope_open(c);
  pn_tensor *values[] = {pn_scalar(c, PN_FLOAT64, 0), pn_scalar(c, PN_FLOAT64, 1)};
  pn_bijector *b = pn_bijector_new(c, "affine", 2, names, values);
  pn_scope_close(c, mark);
  return b;
}

static pn_dist *normal(pn_context *c) {
  const char *names[] = {"loc", "scale"};
  size_t mark = pn_scope_open(c);
  pn_tensor *values[] = {pn_scalar(c, PN_FLOAT64, 0), pn_scalar(c, PN_FLOAT64, 1)};
  pn_dist *d = pn_dist_new(c, "normal", 2, names, values);
  pn_scope_close(c, mark);
  return d;
}

/* Wholes of b, each of the one before, until that is refused. */
static int nest_bijectors(pn_context *c, const char *kind, bool forgetful, pn_bijector **whole) {
  int n = 0;
  *whole = identity(c);
  for (; n < DEEP; n++) {
    pn_bijector *next = pn_bijector_compose(c, kind, 1, whole);
    if (!next) break;
    pn_bijector_unref(*whole);
    *whole = next;
    if (forgetful) next->depth = next->uses = 0;
  }
  return n;
}

enum { MASKED, TRANSFORMED, MIXTURE, COMPOSITES };

static pn_dist *compose(pn_context *c, int how, pn_dist *d, pn_dist *beside) {
  size_t mark = pn_scope_open(c);
  pn_dist *out = NULL;
  if (how == MASKED) {
    out = pn_dist_masked(c, d, pn_scalar(c, PN_BOOL, 1));
  } else if (how == TRANSFORMED) {
    pn_bijector *b = identity(c);
    out = pn_dist_transformed(c, d, b);
    pn_bijector_unref(b);
  } else {
    pn_tensor *probs = pn_from_data(c, PN_FLOAT64, 1, (int64_t[]){2}, (double[]){0.5, 0.5});
    pn_dist *labels = pn_dist_new(c, "categorical", 1, (const char *[]){"probs"}, &probs);
    out = pn_dist_mixture(c, labels, 2, (pn_dist *[]){d, beside});
    pn_dist_unref(labels);
  }
  pn_scope_close(c, mark);
  return out;
}

static int nest_distributions(pn_context *c, int how, bool forgetful, int most, pn_dist **whole) {
  int n = 0;
  pn_dist *leaf = normal(c);
  *whole = normal(c);
  for (; n < most; n++) {
    pn_dist *next = compose(c, how, *whole, leaf);
    if (!next) break;
    pn_dist_unref(*whole);
    *whole = next;
    if (forgetful) next->depth = next->uses = 0;
  }
  pn_dist_unref(leaf);
  return n;
}

/* Parts that are used over and over: twice as many uses a level. */
static void test_uses(pn_context *c) {
  pn_dist *d = normal(c);
  int n = 0;
  for (pn_dist *next; n < DEEP && (next = compose(c, MIXTURE, d, d)) != NULL; n++) {
    pn_dist_unref(d);
    d = next;
  }
  CHECK_INT(n, 11); /* uses: 3 more than twice those of the level before, 3 (2^11 - 1) = 6141 */
  CHECK_FAIL(c, PN_DOMAIN, "parts must be at most 10000, each counted as often as it is used");
  pn_dist_unref(d);
}

static void test_limit(pn_context *c) {
  static const char *const kinds[] = {"chain", "inverse"};
  pn_bijector *b;
  pn_dist *d;
  for (int k = 0; k < 2; k++) {
    CHECK_INT(nest_bijectors(c, kinds[k], false, &b), PNI_NESTING);
    CHECK_FAIL(c, PN_DOMAIN, "parts must nest at most 100 levels deep, got 101");
    size_t mark = pn_scope_open(c);
    double y = 0;
    CHECK_STATUS(c, pn_tensor_item(c, pn_bijector_forward(c, b, pn_scalar(c, PN_FLOAT64, 2)), &y), PN_OK);
    CHECK_NEAR(y, 2, 0);
    pn_scope_close(c, mark);
    if (k == 0) { /* and below a distribution */
      d = normal(c);
      CHECK(pn_dist_transformed(c, d, b) == NULL);
      CHECK_FAIL(c, PN_DOMAIN, "transformed: parts must nest at most 100 levels deep");
      pn_dist_unref(d);
    }
    pn_bijector_unref(b);
  }
  for (int how = 0; how < COMPOSITES; how++) {
    CHECK_INT(nest_distributions(c, how, false, DEEP, &d), PNI_NESTING);
    CHECK_FAIL(c, PN_DOMAIN, "parts must nest at most 100 levels deep, got 101");
    pn_dist_unref(d);
  }
}

/* Where the limit is got around, as by a later version that forgets it, freeing still takes no stack. */
static void test_free(pn_context *c) {
  pn_bijector *b;
  pn_dist *d;
  CHECK_INT(nest_bijectors(c, "chain", true, &b), DEEP);
  pn_bijector_unref(b);
  CHECK_INT(nest_bijectors(c, "inverse", true, &b), DEEP);
  pn_bijector_unref(b);
  CHECK_INT(nest_distributions(c, MIXTURE, true, DEEP, &d), DEEP);
  pn_dist_unref(d);
}

static void ignore(void *data, int64_t n, char *const *p, const int64_t *stride) {
  (void)data, (void)n, (void)p, (void)stride;
}

static void test_rows(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *in[PNI_OPERANDS], *x = pn_zeros(c, PN_FLOAT64, 1, (int64_t[]){3});
  for (int k = 0; k < PNI_OPERANDS; k++) in[k] = x;
  pni_loop l;
  pni_loop_init(&l, x, PNI_OPERANDS - 1, in);
  CHECK_STATUS(c, pni_loop_run(c, &l, ignore, NULL), PN_OK);
  pni_loop_init(&l, x, PNI_OPERANDS, in);
  CHECK_INT(pni_loop_run(c, &l, ignore, NULL), PN_STATE);
  CHECK_FAIL(c, PN_STATE, "loop: at most 6 operands");
  pni_option rows[PNI_OPTIONS + 2] = {{0}};
  double v[PNI_OPTIONS + 2];
  for (int k = 0; k < PNI_OPTIONS; k++) rows[k].name = "option";
  CHECK_STATUS(c, pni_options_read(c, "row", rows, NULL, v), PN_OK);
  rows[PNI_OPTIONS].name = "one more";
  CHECK_INT(pni_options_read(c, "row", rows, NULL, v), PN_STATE);
  CHECK_FAIL(c, PN_STATE, "row: a row has at most 20 options");
  pn_scope_close(c, mark);
}

static void test_sizes(pn_context *c) {
  static const char *const layers[] = {"lstm", "gru", "linear", "bayes_linear"};
  for (int k = 0; k < 4; k++)
    for (int at = 0; at < 2; at++) {
      int64_t size[2] = {3, 3};
      size[at] = (int64_t)1 << 62;
      CHECK(pn_layer_new(c, layers[k], 2, size, PN_FLOAT64, NULL, NULL) == NULL);
      CHECK_FAIL(c, PN_SHAPE, "must be at most");
    }
}

/* Whole numbers are whole on either side of zero. */
static void test_whole(void) {
  const pni_numbers set = {.shape = PNI_WHOLE, .from = -1e300, .to = 1e300};
  const double v[] = {-3, -2.5, -0.5, -0.0, 0, 0.5, 3, -0x1p51 - 1, 0x1p51 + 1, 0x1p51 + 0.5, -0x1p52, 1e299, NAN, -1};
  const float w[] = {-3, -2.5F, -0.5F, 0, 0x1p22F + 1, -0x1p22F - 0.5F, -0x1p23F, 7};
  uint8_t mask[14];
  CHECK_INT(pni_scan(&set, PN_FLOAT64, v, 14, mask), 5);
  for (int i = 0; i < 14; i++) CHECK_INT(mask[i], v[i] == floor(v[i]));
  CHECK_INT(pni_scan(&set, PN_FLOAT32, w, 8, mask), 3);
  for (int i = 0; i < 8; i++) CHECK_INT(mask[i], w[i] == floorf(w[i]));
}

int main(void) {
  pn_context *c = pn_context_new(NULL);
  test_limit(c);
  test_uses(c);
  test_free(c);
  test_rows(c);
  test_sizes(c);
  test_whole();
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  CHECK_DONE();
}
