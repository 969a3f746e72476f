/*
** flow_test.c: bijectors as a C host makes them: what is refused, with which words, and what is left then; ranks and
** sets of what is composed; which halves of a pair are kept. How often flows run their networks: once for a draw with
** its density, once for a density in the fast direction, n times in the slow one. Counted in the graph: a network has
** three linear layers.
*/
#include <stdlib.h>
#include "check.h"
#include "../../src/autodiff/graph.h"

enum { N = 3, HIDDEN = 4, LAYERS = 3 };

static pn_context *c;

static pn_tensor *weights(int rows, int columns) {
  int64_t shape[2] = {rows, columns};
  pn_tensor *t =
      pn_mul(c, pn_randn(c, NULL, PN_FLOAT64, rows ? 2 : 1, rows ? shape : shape + 1), pn_scalar(c, PN_FLOAT64, 0.3));
  return pn_param(c, t);
}

static pn_bijector *flow(const char *kind) {
  static const char *const names[] = {"hidden_weight", "hidden_bias",  "shift_weight",
                                      "shift_bias",    "scale_weight", "scale_bias"};
  int in = strcmp(kind, "real_nvp") == 0 ? 1 : N, out = strcmp(kind, "real_nvp") == 0 ? N - 1 : N;
  pn_tensor *values[] = {weights(in, HIDDEN), weights(0, HIDDEN),   weights(HIDDEN, out),
                         weights(0, out),     weights(HIDDEN, out), weights(0, out)};
  return pn_bijector_new(c, kind, 6, names, values);
}

static pn_dist *base(void) {
  static const int64_t n = N;
  pn_dist *d = pn_dist_new(c, "normal", 1, NULL, (pn_tensor *[]){pn_param(c, pn_zeros(c, PN_FLOAT64, 1, &n))});
  pn_dist *joint = pn_dist_independent(c, d, 1);
  pn_dist_unref(d);
  return joint;
}

static int linears(pn_tensor *t) {
  pni_nodes order = {0};
  int n = 0;
  CHECK_STATUS(c, pni_topological(c, pn_sum(c, t, PN_ALL, 0), &order), PN_OK);
  pni_nodes_unmark(&order);
  for (int64_t i = 0; i < order.n; i++) n += order.v[i]->op && strcmp(order.v[i]->op->name, "linear") == 0;
  pni_nodes_free(c, &order);
  return n;
}

/* `passes` of one flow, in each direction. */
static void check_passes(const char *kind, int forward, int inverse) {
  size_t mark = pn_scope_open(c);
  pn_bijector *one = flow(kind), *two = flow(kind);
  pn_bijector *both = pn_bijector_compose(c, "chain", 2, (pn_bijector *[]){one, two});
  pn_bijector *back = pn_bijector_compose(c, "inverse", 1, &both), *map[] = {one, both, back};
  pn_dist *b = base();
  pn_tensor *x = pn_randn(c, NULL, PN_FLOAT64, 2, (int64_t[]){5, N});
  for (int k = 0; k < 3; k++) {
    int layers = k ? 2 * LAYERS : LAYERS, there = k == 2 ? inverse : forward, here = k == 2 ? forward : inverse;
    pn_tensor *log_det, *density, *y = pn_bijector_forward_log_det(c, map[k], x, &log_det);
    CHECK_INT(linears(pn_add(c, pn_sum(c, y, PN_ALL, 0), pn_sum(c, log_det, PN_ALL, 0))), there * layers);
    y = pn_bijector_inverse_log_det(c, map[k], x, &log_det);
    CHECK_INT(linears(pn_add(c, pn_sum(c, y, PN_ALL, 0), pn_sum(c, log_det, PN_ALL, 0))), here * layers);
    pn_dist *d = pn_dist_transformed(c, b, map[k]);
    CHECK_INT(linears(pn_dist_log_prob(c, d, x)), here * layers);
    y = pn_dist_rsample_log_prob(c, d, NULL, 1, (int64_t[]){5}, &density);
    CHECK_INT(linears(pn_add(c, pn_sum(c, y, PN_ALL, 0), pn_sum(c, density, PN_ALL, 0))), there * layers);
    pn_dist_unref(d);
  }
  pn_dist_unref(b);
  pn_bijector_unref(back), pn_bijector_unref(both), pn_bijector_unref(two), pn_bijector_unref(one);
  CHECK_INT(pn_context_status(c), PN_OK);
  pn_scope_close(c, mark);
}

/* ---- making ---- */

/* Zeros, of diagonals ones, so that they are in the sets of all parameters here. */
static pn_tensor *of_shape(pn_dtype dtype, int ndim, int64_t m, int64_t n) {
  int64_t shape[2] = {m, n};
  pn_tensor *t = ndim == 2 && m == n ? pn_eye(c, PN_FLOAT64, m, m) : pn_zeros(c, PN_FLOAT64, ndim, shape);
  return pn_cast(c, t, dtype);
}
static pn_tensor *one(double v) { return pn_scalar(c, PN_FLOAT64, v); }

static void refused(pn_bijector *b, pn_status status, const char *text) {
  CHECK(!b);
  CHECK_STR(pn_context_message(c), text);
  CHECK_FAIL(c, status, text);
}

static void refuses_to_make(void) {
  static const char *const spread[] = {"spread"}, *const twice[] = {"scale", "scale"};
  pn_tensor *vector = of_shape(PN_FLOAT64, 1, 3, 0), *square = of_shape(PN_FLOAT64, 2, 2, 2);
#define NEW(kind, n, names, ...) pn_bijector_new(c, kind, n, names, (pn_tensor *[]){__VA_ARGS__})
  refused(NEW("nothing", 0, NULL, NULL), PN_MISSING, "bijector: there is no bijector 'nothing'");
  refused(NEW("chain", 0, NULL, NULL), PN_STATE, "chain: is made of bijectors, not of parameters");
  refused(NEW("affine", 2, NULL, one(0), NULL), PN_STATE, "affine: parameter 2 must be a tensor, got NULL");
  refused(NEW("affine", 1, spread, one(0)), PN_MISSING, "affine: there is no parameter 'spread'");
  refused(NEW("affine", 3, NULL, one(0), one(1), one(2)), PN_MISSING,
          "affine: number of positional parameters must be at most 2, got 3");
  refused(NEW("affine", 2, twice, one(1), one(2)), PN_STATE, "affine: scale is given twice");
  refused(NEW("power", 0, NULL, NULL), PN_MISSING, "power: exponent is missing");
  refused(NEW("power", 1, NULL, one(0)), PN_DOMAIN, "power: exponent must be a finite number other than 0, got 0");
  refused(NEW("affine", 1, NULL, pn_scalar(c, PN_INT64, 1)), PN_DTYPE,
          "affine: loc must be float64 or float32, got int64 (convert with :to)");
  refused(NEW("affine", 2, NULL, one(0), pn_scalar(c, PN_FLOAT32, 1)), PN_DTYPE,
          "affine: parameters must have one dtype, got float32 for scale after float64 (convert with :to)");
  refused(NEW("permutation", 1, NULL, vector), PN_DTYPE,
          "permutation: index must be int64, got float64 (convert with :to)");
  refused(NEW("permutation", 1, NULL, of_shape(PN_INT64, 2, 2, 1)), PN_SHAPE,
          "permutation: index must have one axis, got 2");
  refused(NEW("affine_tril", 2, NULL, one(0), square), PN_SHAPE,
          "affine_tril: loc must have at least 1 axis, got shape []");
  refused(NEW("affine_tril", 2, NULL, vector, vector), PN_SHAPE,
          "affine_tril: scale_tril must have at least 2 axes, got shape [3]");
  refused(NEW("affine_tril", 2, NULL, vector, square), PN_SHAPE,
          "affine_tril: axis 1 of one scale_tril must have size 3, got shape [2, 2]");
#undef NEW
  static const char *const networks[] = {"hidden_weight", "hidden_bias", "shift_weight",  "shift_bias",
                                         "scale_weight",  "scale_bias",  "middle_weight", "middle_bias"};
  pn_tensor *w[] = {of_shape(PN_FLOAT64, 2, 1, 4), of_shape(PN_FLOAT64, 1, 4, 0), of_shape(PN_FLOAT64, 2, 4, 2),
                    of_shape(PN_FLOAT64, 1, 2, 0), of_shape(PN_FLOAT64, 2, 4, 2), of_shape(PN_FLOAT64, 1, 2, 0),
                    of_shape(PN_FLOAT64, 2, 4, 6), of_shape(PN_FLOAT64, 1, 6, 0)};
  refused(pn_bijector_new(c, "real_nvp", 7, networks, w), PN_MISSING,
          "real_nvp: middle_weight and middle_bias must be given together");
  refused(pn_bijector_new(c, "real_nvp", 8, networks, w), PN_SHAPE,
          "real_nvp: shift_weight must take the 6 units of the last hidden layer, got 4");
  w[2] = w[4] = of_shape(PN_FLOAT64, 2, 5, 2);
  refused(pn_bijector_new(c, "real_nvp", 6, networks, w), PN_SHAPE,
          "real_nvp: shift_weight must take the 4 units of the last hidden layer, got 5");
  w[2] = w[4] = of_shape(PN_FLOAT64, 2, 4, 2), w[0] = pn_unsqueeze(c, w[0], 0);
  refused(pn_bijector_new(c, "real_nvp", 6, networks, w), PN_SHAPE, "real_nvp: hidden_weight must have 2 axes, got 3");
  CHECK_STATUS(c, pn_context_status(c), PN_OK);
}

static void refuses_to_compose(void) {
  pn_bijector *wide = pn_bijector_new(c, "affine", 1, NULL, (pn_tensor *[]){one(1)}),
              *narrow = pn_bijector_new(c, "affine", 1, NULL, (pn_tensor *[]){pn_scalar(c, PN_FLOAT32, 1)}),
              *power = pn_bijector_new(c, "exp", 0, NULL, NULL), *deep = pn_bijector_ref(power);
  pn_bijector *two[] = {wide, narrow}, *half[] = {wide, NULL};
  refused(pn_bijector_compose(c, "nothing", 1, two), PN_MISSING, "bijector: there is no bijector 'nothing'");
  refused(pn_bijector_compose(c, "exp", 1, two), PN_STATE, "exp: is not made of bijectors, got 1");
  refused(pn_bijector_compose(c, "chain", 0, two), PN_STATE, "chain: number of bijectors must be at least 1, got 0");
  refused(pn_bijector_compose(c, "inverse", 0, two), PN_STATE, "inverse: number of bijectors must be 1, got 0");
  refused(pn_bijector_compose(c, "inverse", 2, two), PN_STATE, "inverse: number of bijectors must be 1, got 2");
  refused(pn_bijector_compose(c, "chain", 2, half), PN_STATE, "chain: part 2 must be a bijector, got NULL");
  refused(pn_bijector_compose(c, "chain", 2, two), PN_DTYPE,
          "chain: parts must have one dtype, got float64 and float32");
  for (int level = 1; level <= 100; level++) {
    pn_bijector *next = pn_bijector_compose(c, "inverse", 1, &deep);
    CHECK(next);
    pn_bijector_unref(deep);
    deep = next;
  }
  refused(pn_bijector_compose(c, "chain", 1, &deep), PN_DOMAIN,
          "chain: parts must nest at most 100 levels deep, got 101");
  CHECK(pn_bijector_param(c, wide, "loc") && !pn_bijector_param(c, wide, "spread"));
  CHECK_STR(pn_context_message(c), "affine: there is no parameter 'spread'");
  CHECK_FAIL(c, PN_MISSING, "spread");
  pn_bijector_unref(deep), pn_bijector_unref(power), pn_bijector_unref(narrow), pn_bijector_unref(wide);
  CHECK(!pn_bijector_name(NULL) && !pn_bijector_domain(NULL) && !pn_bijector_codomain(NULL) && !pn_bijector_ref(NULL));
  CHECK(pn_bijector_domain_rank(NULL) == 0 && pn_bijector_codomain_rank(NULL) == 0);
  int n = pn_bijector_kind_count();
  CHECK(!pn_bijector_kind_name(-1) && !pn_bijector_kind_name(n) && pn_bijector_kind_name(0) &&
        pn_bijector_kind_name(n - 1));
}

/* What is no event of a bijector. */
static void refuses_values(void) {
  static const struct {
    const char *kind;
    bool inverse;
    pn_dtype dtype;
    int ndim;
    int64_t shape[8];
    pn_status status;
    const char *text;
  } row[] = {
      {"exp",
       false,
       PN_INT64,
       1,
       {2},
       PN_DTYPE,
       "exp: forward: x must be float64 or float32, got int64 (convert with :to)"},
      {"affine",
       false,
       PN_FLOAT32,
       1,
       {2},
       PN_DTYPE,
       "affine: forward: x must be float64, got float32 (convert with :to)"},
      {"affine",
       true,
       PN_FLOAT32,
       1,
       {2},
       PN_DTYPE,
       "affine: inverse: y must be float64, got float32 (convert with :to)"},
      {"ordered", false, PN_FLOAT64, 0, {0}, PN_SHAPE, "ordered: forward: x must have at least 1 axis, got shape []"},
      {"cholesky", true, PN_FLOAT64, 1, {3}, PN_SHAPE, "cholesky: inverse: y must have at least 2 axes, got shape [3]"},
      {"affine_tril",
       false,
       PN_FLOAT64,
       2,
       {5, 3},
       PN_SHAPE,
       "affine_tril: forward: x must have vectors of size 2, got shape [5, 3]"},
      {"affine_tril",
       true,
       PN_FLOAT64,
       1,
       {1},
       PN_SHAPE,
       "affine_tril: inverse: y must have vectors of size 2, got shape [1]"},
      {"cholesky",
       false,
       PN_FLOAT64,
       2,
       {2, 4},
       PN_SHAPE,
       "cholesky: forward: x must have vectors of n (n + 1) / 2 numbers, got 4"},
      {"cholesky",
       false,
       PN_FLOAT64,
       8,
       {1, 1, 1, 1, 1, 1, 1, 3},
       PN_SHAPE,
       "cholesky: forward: at most 7 axes are possible"},
      {"cholesky",
       true,
       PN_FLOAT64,
       3,
       {2, 3, 2},
       PN_SHAPE,
       "cholesky: inverse: y must have square matrices, got 3 x 2"},
      {"correlation_cholesky",
       false,
       PN_FLOAT64,
       1,
       {2},
       PN_SHAPE,
       "correlation_cholesky: forward: x must have vectors of n (n - 1) / 2 numbers, got 2"},
      {"correlation_cholesky",
       false,
       PN_FLOAT64,
       8,
       {1, 1, 1, 1, 1, 1, 1, 3},
       PN_SHAPE,
       "correlation_cholesky: forward: at most 7 axes are possible"},
      {"correlation_cholesky",
       true,
       PN_FLOAT64,
       2,
       {2, 3},
       PN_SHAPE,
       "correlation_cholesky: inverse: y must have square matrices, got 2 x 3"},
      {"mean_and_covariance",
       false,
       PN_FLOAT64,
       1,
       {4},
       PN_SHAPE,
       "mean_and_covariance: forward: x must have vectors of n (n + 3) / 2 numbers, got 4"},
      {"mean_and_covariance",
       true,
       PN_FLOAT64,
       2,
       {2, 2},
       PN_SHAPE,
       "mean_and_covariance: inverse: y must have 3 rows of 2 numbers, got 2"},
      {"mean_and_variance",
       false,
       PN_FLOAT64,
       1,
       {3},
       PN_SHAPE,
       "mean_and_variance: forward: vectors must have 2 numbers, got 3"},
      {"mean_and_variance",
       true,
       PN_FLOAT64,
       1,
       {1},
       PN_SHAPE,
       "mean_and_variance: inverse: vectors must have 2 numbers, got 1"},
      {"real_nvp", false, PN_FLOAT64, 1, {4}, PN_SHAPE, "real_nvp: forward: vectors must have size 1 + 2, got 4"},
      {"real_nvp", true, PN_FLOAT64, 2, {3, 2}, PN_SHAPE, "real_nvp: inverse: vectors must have size 1 + 2, got 2"},
      {"softmax_centred",
       true,
       PN_FLOAT64,
       1,
       {0},
       PN_SHAPE,
       "softmax_centred: inverse: y must have vectors of at least 1 probability, got 0"}};
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    size_t mark = pn_scope_open(c);
    pn_tensor *loc = strcmp(row[k].kind, "affine_tril") == 0 ? of_shape(PN_FLOAT64, 1, 2, 0) : one(1),
              *square = of_shape(PN_FLOAT64, 2, 2, 2), *log_det;
    int n = strcmp(row[k].kind, "affine") == 0 ? 1 : strcmp(row[k].kind, "affine_tril") == 0 ? 2 : 0;
    pn_bijector *b = strcmp(row[k].kind, "real_nvp") == 0
                         ? flow("real_nvp")
                         : pn_bijector_new(c, row[k].kind, n, NULL, (pn_tensor *[]){loc, square});
    pn_tensor *t = pn_cast(c, pn_full(c, PN_FLOAT64, row[k].ndim, row[k].shape, 1), row[k].dtype);
    CHECK(b && t);
    CHECK(!(row[k].inverse ? pn_bijector_inverse : pn_bijector_forward)(c, b, t));
    CHECK_STR(pn_context_message(c), row[k].text);
    CHECK_FAIL(c, row[k].status, row[k].text);
    CHECK(!(row[k].inverse ? pn_bijector_inverse_log_det : pn_bijector_forward_log_det)(c, b, t, &log_det));
    CHECK(!log_det);
    CHECK_FAIL(c, row[k].status, row[k].text);
    pn_bijector_unref(b);
    pn_scope_close(c, mark);
  }
}

/* Vectors of m numbers fill half a matrix for some m alone: triangles of n rows. */
static void sizes_of_triangles(void) {
  static const struct {
    const char *kind;
    int offset, rows; /* n (n + offset) / 2 numbers make n + rows rows of n */
  } row[] = {{"cholesky", 1, 0}, {"correlation_cholesky", -1, 0}, {"mean_and_covariance", 3, 1}};
  for (int k = 0; k < 3; k++) {
    pn_bijector *b = pn_bijector_new(c, row[k].kind, 0, NULL, NULL);
    for (int64_t m = 1; m < 40; m++) {
      int64_t n = 1;
      while (n * (n + row[k].offset) / 2 < m) n++;
      bool fits = n * (n + row[k].offset) / 2 == m;
      pn_tensor *x = pn_randn(c, NULL, PN_FLOAT64, 1, &m), *y = pn_bijector_forward(c, b, x);
      CHECK((y != NULL) == fits);
      char text[96];
      snprintf(text, sizeof text, "forward: x must have vectors of n (n %c %d) / 2 numbers, got %d",
               row[k].offset < 0 ? '-' : '+', abs(row[k].offset), (int)m);
      if (!y) CHECK_FAIL(c, PN_SHAPE, text);
      if (!y) continue;
      CHECK_INT(pn_tensor_shape(y)[0], n + row[k].rows);
      CHECK_INT(pn_tensor_shape(y)[1], n);
      pn_tensor *back = pn_bijector_inverse(c, b, pn_add(c, y, one(0))); /* not the half that is kept */
      CHECK_INT(pn_tensor_numel(back), m);
      const double *from = pn_tensor_data(x), *to = pn_tensor_data(back);
      for (int64_t i = 0; i < m; i++) CHECK_NEAR(to[i], from[i], 1e-9);
    }
    pn_bijector_unref(b);
  }
}

static pn_bijector *composed(const char *kind, int n, const char *const *parts) {
  pn_bijector *part[3], *b;
  for (int i = 0; i < n; i++) part[i] = pn_bijector_new(c, parts[i], 0, NULL, NULL);
  b = pn_bijector_compose(c, kind, n, part);
  for (int i = 0; i < n; i++) pn_bijector_unref(part[i]);
  return b;
}

/* A chain takes what its first part takes, with the axes that the most demanding one needs. */
static void ranks_of_chains(void) {
  static const struct {
    const char *part[3], *domain, *codomain;
    int n, in, out;
  } row[] = {{{"exp"}, "real", "positive", 1, 0, 0},
             {{"exp", "ordered"}, "real", "ordered_vector", 2, 1, 1},
             {{"ordered", "exp", "cholesky"}, "real_vector", "lower_cholesky", 3, 1, 2},
             {{"cholesky", "cholesky_outer"}, "real_vector", "positive_definite", 2, 1, 2},
             {{"softplus", "cholesky", "softplus"}, "real", "positive", 3, 1, 2}};
  for (size_t k = 0; k < sizeof row / sizeof *row; k++)
    for (int inverse = 0; inverse < 2; inverse++) {
      pn_bijector *chain = composed("chain", row[k].n, row[k].part), *b = chain;
      if (inverse) b = pn_bijector_compose(c, "inverse", 1, &chain);
      CHECK_STR(pn_bijector_name(b), inverse ? "inverse" : "chain");
      CHECK_STR(inverse ? pn_bijector_codomain(b) : pn_bijector_domain(b), row[k].domain);
      CHECK_STR(inverse ? pn_bijector_domain(b) : pn_bijector_codomain(b), row[k].codomain);
      CHECK_INT(inverse ? pn_bijector_codomain_rank(b) : pn_bijector_domain_rank(b), row[k].in);
      CHECK_INT(inverse ? pn_bijector_domain_rank(b) : pn_bijector_codomain_rank(b), row[k].out);
      if (inverse) pn_bijector_unref(chain);
      pn_bijector_unref(b);
    }
}

/* ---- the pair that is kept ---- */

static double second(const pn_tensor *t) { return ((const double *)pn_tensor_data(t))[1]; }

static void keeps_the_last_pair(void) {
  static const int64_t n = 2;
  static const char *const names[] = {"scale"};
  pn_tensor *scale = pn_buffer(c, pn_from_data(c, PN_FLOAT64, 1, &n, (double[]){2, 3})),
            *x = pn_buffer(c, pn_full(c, PN_FLOAT64, 1, &n, 1)), *five = pn_full(c, PN_FLOAT64, 1, &n, 5);
  pn_bijector *b = pn_bijector_new(c, "affine", 1, names, &scale);
  pn_tensor *y = pn_bijector_forward(c, b, x);
  CHECK(pn_bijector_inverse(c, b, y) == x && pn_bijector_forward(c, b, x) == y && pn_bijector_inverse(c, b, y) == x);
  CHECK(pn_bijector_inverse(c, b, x) != y); /* x was the other half */
  CHECK(pn_bijector_inverse(c, b, y) != x); /* one pair alone is kept */
  y = pn_bijector_forward(c, b, x);
  CHECK_STATUS(c, pn_param_set(c, x, five), PN_OK);
  CHECK_NEAR(second(pn_bijector_forward(c, b, x)), 15, 0);
  y = pn_bijector_forward(c, b, x);
  CHECK_STATUS(c, pn_param_set(c, scale, five), PN_OK);
  CHECK_NEAR(second(pn_bijector_forward(c, b, x)), 25, 0);
  CHECK_NEAR(second(pn_bijector_inverse(c, b, y)), 3, 0);
  pn_bijector_forward(c, b, x);
  CHECK_STATUS(c, pn_param_set(c, scale, pn_neg(c, five)), PN_OK);
  CHECK_STATUS(c, pn_param_set(c, x, y), PN_OK); /* both have changed */
  CHECK_NEAR(second(pn_bijector_forward(c, b, x)), -75, 0);
  CHECK_STATUS(c, pn_param_set(c, scale, five), PN_OK);
  CHECK_STATUS(c, pn_param_set(c, x, five), PN_OK);
  pn_bijector *both = pn_bijector_compose(c, "chain", 2, (pn_bijector *[]){b, b});
  y = pn_bijector_forward(c, both, x);
  CHECK(pn_bijector_inverse(c, both, y) == x);
  CHECK_STATUS(c, pn_param_set(c, scale, y), PN_OK); /* of a part */
  CHECK_NEAR(second(pn_bijector_inverse(c, both, y)), 1. / 125, 1e-17);
  pn_bijector_unref(both);
  pn_bijector_unref(b);
  pn_tensor *trained = pn_param(c, one(2));
  b = pn_bijector_new(c, "affine", 1, names, &trained);
  both = pn_bijector_compose(c, "chain", 2, (pn_bijector *[]){b, b});
  for (int k = 0; k < 2; k++) {
    pn_bijector *map = k ? both : b;
    int old = pn_set_no_grad(c, 1);
    y = pn_bijector_forward(c, map, x);
    CHECK(pn_bijector_forward(c, map, x) == y && pn_bijector_inverse(c, map, y) == x);
    pn_set_no_grad(c, old);
    CHECK(pn_bijector_forward(c, map, x) != y && pn_tensor_requires_grad(pn_bijector_forward(c, map, x)));
    CHECK(pn_tensor_requires_grad(pn_bijector_inverse(c, map, y)));
  }
  pn_bijector_unref(both);
  pn_bijector_unref(b);
}

int main(void) {
  c = pn_context_new(NULL);
  size_t mark = pn_scope_open(c);
  refuses_to_make();
  refuses_to_compose();
  refuses_values();
  sizes_of_triangles();
  ranks_of_chains();
  keeps_the_last_pair();
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
  pn_seed(c, 1);
  check_passes("real_nvp", 1, 1);
  check_passes("masked_autoregressive", N, 1);
  check_passes("inverse_autoregressive", 1, N);
  pn_context_close(c);
  CHECK_DONE();
}
