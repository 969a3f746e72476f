/*
** estimator_test.c: what estimators are made of, by plain loops: means of log-weights, what the other draws give, what
** weights must be; calls that are refused, each with its whole message; draws of equal weight, streams.
*/
#include "../../src/infer/estimator/estimator.h"
#include "check.h"

typedef pn_tensor T;
typedef pn_context C;

static double at(const T *t, int64_t i) { return pni_weight(t, i); }

/* x as numbers of a type, laid out in the other order where it is to be strided. */
static T *tensor(C *c, pn_dtype dtype, int64_t rows, int64_t columns, const double *x, bool strided) {
  T *t = pn_cast(c, pn_from_data(c, PN_FLOAT64, 2, (const int64_t[]){rows, columns}, x), dtype);
  return strided ? pn_transpose(c, pn_contiguous(c, pn_transpose(c, t, 0, 1)), 0, 1) : t;
}

/* ---- the mean of log-weights ---- */

enum { MOST = 1100 };

static void live_mean(C *c, pn_dtype dtype, int64_t n) {
  static double x[MOST];
  size_t mark = pn_scope_open(c);
  for (int dead = 0; dead < 2; dead++) {
    long double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] = (float)(sin((double)(i * i)) + 0.01 * (double)i);
    if (dead) x[n / 2] = -INFINITY;
    T *w = pn_param(c, tensor(c, dtype, n % 2 ? 1 : 2, n % 2 ? n : n / 2, x, n % 3 == 0));
    T *mean = pni_live_mean(c, w), *g = NULL;
    CHECK(mean && pn_tensor_ndim(mean) == 0 && pn_tensor_dtype(mean) == dtype);
    CHECK_NEAR(at(mean, 0), dead ? -INFINITY : (double)(sum / n), dtype == PN_FLOAT64 ? 1e-13 : 1e-6);
    CHECK_STATUS(c, pn_grad(c, pn_mul(c, mean, pn_scalar(c, dtype, 3)), 1, &w, 0, &g), PN_OK);
    g = g ? pn_contiguous(c, g) : NULL;
    for (int64_t i = 0; g && i < n; i++)
      CHECK_NEAR(at(g, i), dead && i == n / 2 ? 0 : 3. / (double)n, dtype == PN_FLOAT64 ? 1e-15 : 1e-6);
  }
  pn_scope_close(c, mark);
}

/* ---- what the other draws give ---- */

/* The log of the mean of all weights, draw k replaced by the others' geometric mean; or their arithmetic mean. */
static double of_others(const double *x, int64_t K, int64_t B, int64_t k, int64_t b, bool geometric) {
  long double sum = 0, logs = 0;
  double top = -INFINITY;
  for (int64_t i = 0; i < K; i++)
    if (i != k) top = fmax(top, x[i * B + b]);
  if (top == -INFINITY) return top;
  for (int64_t i = 0; i < K; i++)
    if (i != k) sum += expl((long double)x[i * B + b] - top), logs += x[i * B + b];
  if (geometric) sum += expl(logs / (K - 1) - top);
  return top + (double)logl(sum / (geometric ? K : K - 1));
}

static void others(C *c, pn_dtype dtype, int64_t K, int64_t B) {
  enum { DRAWS = 7, DATA = 200 };
  static double x[DRAWS * DATA];
  size_t mark = pn_scope_open(c);
  for (int64_t i = 0; i < K * B; i++) {
    int64_t k = i / B, b = i % B;
    x[i] = (float)(2 * sin((double)(i * i)) + (b % 5 == 1 ? 400 : 0) + (b % 7 == 2 && k == b % K ? 30 : 0));
    if (b % 4 == 3 && k == b % K) x[i] = -INFINITY;
    if (b % 6 == 5 && k != b % K) x[i] = -INFINITY;
    if (b % 9 == 8) x[i] = -INFINITY;
  }
  for (int geometric = 0; geometric < 2; geometric++)
    for (int strided = 0; strided < 2; strided++) {
      T *y = pni_others_log_mean(c, tensor(c, dtype, K, B, x, strided), geometric);
      CHECK(y && pn_tensor_ndim(y) == 2 && pn_tensor_shape(y)[0] == K && pn_tensor_shape(y)[1] == B);
      int wrong = 0;
      for (int64_t i = 0; y && i < K * B; i++) {
        double got = at(y, i), want = of_others(x, K, B, i / B, i % B, geometric);
        double most = (dtype == PN_FLOAT64 ? 1e-12 : 3e-7) * (1 + fabs(want));
        wrong += !(got == want || fabs(got - want) < most);
      }
      CHECK_INT(wrong, 0);
    }
  pn_scope_close(c, mark);
}

/* ---- what weights must be ---- */

static void demands(C *c) {
  const double inf = INFINITY;
  const struct {
    double x[6], bound[3]; /* three draws of two data, or six in one list */
    int ndim;
    bool each;
    pn_status status;
    const char *said;
  } row[] = {
      {{0, 1, 2, 3, 4, 5}, {0, 0}, 2, true, PN_OK, ""},
      {{0, 1, NAN, 3, 4, 5}, {0, 0}, 2, true, PN_OK, ""}, /* a bound that is finite costs no look */
      {{0, 1, NAN, 3, 4, 5}, {NAN, 0}, 2, 0, PN_NAN, "here: log_w must be a number, got NaN at draw 2 of datum 1"},
      {{0, 1, 2, 3, 4, inf}, {0, inf}, 2, 0, PN_DOMAIN, "here: log_w must be below +inf, got inf at draw 3 of datum 2"},
      {{0, 1, 2, 3, 4, NAN}, {0, NAN}, 1, 0, PN_NAN, "here: log_w must be a number, got NaN at element 6"},
      {{inf, 1, 2, 3, 4, 5}, {inf, 0}, 1, 0, PN_DOMAIN, "here: log_w must be below +inf, got inf at element 1"},
      {{-inf, 1, -inf, 3, -inf, 5}, {-inf, 0}, 2, false, PN_OK, ""},
      {{0, -inf, 2, -inf, 4, -inf},
       {0, -inf},
       2,
       true,
       PN_DEGENERATE,
       "here: log_w of datum 2 must not be -inf throughout"},
      {{-inf, 1, -inf, 3, -inf, 5},
       {-inf, 0},
       2,
       true,
       PN_DEGENERATE,
       "here: log_w of datum 1 must not be -inf throughout"},
      {{-inf, -inf, -inf, -inf, -inf, -inf},
       {-inf, -inf},
       2,
       false,
       PN_DEGENERATE,
       "here: log_w must not be -inf throughout, got all 6 draws so: the model gives them probability 0"}};
  for (size_t k = 0; k < sizeof row / sizeof *row; k++)
    for (int dtype = 0; dtype < 2; dtype++) {
      size_t mark = pn_scope_open(c);
      const int64_t all = 6, two = 2, shape[] = {3, 2};
      pn_dtype type = dtype ? PN_FLOAT32 : PN_FLOAT64;
      T *x = pn_cast(c, pn_from_data(c, PN_FLOAT64, row[k].ndim, row[k].ndim == 2 ? shape : &all, row[k].x), type);
      T *bound = pn_cast(c, pn_from_data(c, PN_FLOAT64, 1, &two, row[k].bound), type);
      pn_status s = row[k].each ? pni_require_each_weight(c, "here", "log_w", bound, x)
                                : pni_require_weights(c, "here", "log_w", bound, x);
      CHECK_INT(s, row[k].status);
      CHECK_STR(pn_context_message(c), row[k].said);
      pn_context_clear_error(c);
      pn_scope_close(c, mark);
    }
}

/* ---- calls that are refused ---- */

typedef struct {
  const char *name; /* of an input; NULL: by place */
  int dtype, ndim;  /* -1: NULL in place of a tensor */
  int64_t shape[3];
} input;

static const struct {
  const char *estimator;
  input in[4];
  int n;
  const char *option;
  double value;
  pn_status status;
  const char *said;
} refused[] = {
    {"iwae",
     {{"log_w", PN_INT64, 2, {2, 2}}},
     1,
     NULL,
     0,
     PN_DTYPE,
     "iwae: log_w must be float64 or float32, got int64"},
    {"iwae", {{NULL, PN_FLOAT64, 1, {4}}}, 1, NULL, 0, PN_SHAPE, "iwae: log_w must have 2 axes, got shape [4]"},
    {"iwae",
     {{NULL, PN_FLOAT64, 3, {4, 2, 1}}},
     1,
     NULL,
     0,
     PN_SHAPE,
     "iwae: log_w must have 2 axes, got shape [4, 2, 1]"},
    {"iwae", {{NULL, PN_FLOAT64, 2, {4, 0}}}, 1, NULL, 0, PN_SHAPE, "iwae: log_w must not be empty, got shape [4, 0]"},
    {"iwae", {{0}}, 0, NULL, 0, PN_STATE, "iwae: log_w must be a tensor, got nothing"},
    {"iwae", {{NULL, -1, 0, {0}}}, 1, NULL, 0, PN_STATE, "iwae: log_w must be a tensor, got NULL"},
    {"iwae", {{"w", PN_FLOAT64, 2, {4, 2}}}, 1, NULL, 0, PN_DOMAIN, "iwae: has no input 'w'"},
    {"iwae",
     {{NULL, PN_FLOAT64, 2, {4, 2}}, {NULL, PN_FLOAT64, 2, {4, 2}}},
     2,
     NULL,
     0,
     PN_DOMAIN,
     "iwae: has no input 'number out of range'"},
    {"iwae",
     {{"log_w", PN_FLOAT64, 2, {4, 2}}, {"log_w", PN_FLOAT64, 2, {4, 2}}},
     2,
     NULL,
     0,
     PN_STATE,
     "iwae: log_w was given too often"},
    {"elbo",
     {{"log_p", PN_FLOAT64, 0, {0}}, {"log_q", PN_FLOAT64, 1, {2}}},
     2,
     NULL,
     0,
     PN_SHAPE,
     "elbo: log_p must have 1 to 2 axes, got shape []"},
    {"elbo",
     {{"log_p", PN_FLOAT64, 3, {4, 2, 1}}, {"log_q", PN_FLOAT64, 1, {2}}},
     2,
     NULL,
     0,
     PN_SHAPE,
     "elbo: log_p must have 1 to 2 axes, got shape [4, 2, 1]"},
    {"elbo",
     {{"log_p", PN_FLOAT64, 2, {4, 3}}, {"log_q", PN_FLOAT64, 1, {2}}},
     2,
     NULL,
     0,
     PN_SHAPE,
     "elbo: log_q must have shape [3], got [2]"},
    {"elbo",
     {{"log_p", PN_FLOAT64, 1, {3}}, {"log_q", PN_FLOAT64, 2, {4, 2}}},
     2,
     NULL,
     0,
     PN_SHAPE,
     "elbo: log_q must have shape [K, 3], got [4, 2]"},
    {"elbo",
     {{"log_p", PN_FLOAT64, 2, {4, 3}}, {"log_q", PN_FLOAT64, 2, {5, 3}}},
     2,
     NULL,
     0,
     PN_SHAPE,
     "elbo: log_q must have shape [4, 3], got [5, 3]"},
    {"elbo",
     {{"log_p", PN_FLOAT64, 1, {3}}, {"log_q", PN_FLOAT32, 1, {3}}},
     2,
     NULL,
     0,
     PN_DTYPE,
     "elbo: tensors must have one dtype, got float64 and float32 (convert with :to)"},
    {"elbo",
     {{"log_likelihood", PN_FLOAT64, 2, {4, 3}}, {"kl", PN_FLOAT64, 1, {2}}},
     2,
     NULL,
     0,
     PN_SHAPE,
     "elbo: kl must be [B], or [K, B] like log_likelihood, without num_data, got shape [2]"},
    {"elbo",
     {{"log_likelihood", PN_FLOAT64, 2, {4, 3}}, {"kl", PN_FLOAT64, 2, {5, 3}}},
     2,
     NULL,
     0,
     PN_SHAPE,
     "elbo: kl must be [B], or [K, B] like log_likelihood, without num_data, got shape [5, 3]"},
    {"elbo",
     {{"log_likelihood", PN_FLOAT64, 1, {3}}, {"kl", PN_FLOAT64, 2, {4, 3}}},
     2,
     NULL,
     0,
     PN_SHAPE,
     "elbo: kl must be [B], or [K, B] like log_likelihood, without num_data, got shape [4, 3]"},
    {"elbo",
     {{"log_likelihood", PN_FLOAT64, 1, {3}}, {"kl", PN_FLOAT64, 1, {3}}},
     2,
     "free_bits",
     0.1,
     PN_SHAPE,
     "elbo: kl must be [B, D], a divergence per dimension, for free bits, got shape [3]"},
    {"elbo",
     {{"log_likelihood", PN_FLOAT64, 1, {3}}, {"kl", PN_FLOAT64, 2, {2, 4}}},
     2,
     "free_bits",
     0.1,
     PN_SHAPE,
     "elbo: kl must be [B, D], a divergence per dimension, for free bits, got shape [2, 4]"},
    {"elbo",
     {{"log_likelihood", PN_FLOAT64, 1, {3}}, {"kl", PN_FLOAT64, 1, {2}}},
     2,
     "num_data",
     30,
     PN_SHAPE,
     "elbo: kl must have one element (the sum over all weights), got shape [2]"},
    {"elbo",
     {{"log_likelihood", PN_FLOAT64, 2, {5, 3}}, {"kl", PN_FLOAT64, 0, {0}}},
     2,
     "num_data",
     2.5,
     PN_DOMAIN,
     "elbo: num_data must be at least the minibatch's size 3, got 2.5"},
    {"elbo",
     {{"log_likelihood", PN_FLOAT64, 2, {4, 3}}, {"kl", PN_FLOAT64, 0, {0}}},
     2,
     NULL,
     0,
     PN_DOMAIN,
     "elbo: num_data is required: the number N of data in the whole set, by which the minibatch is scaled up against a "
     "KL that is counted once (N = the minibatch's size if that is all there is)"},
    {"elbo",
     {{"log_p", PN_FLOAT64, 1, {3}}, {"log_q", PN_FLOAT64, 1, {3}}},
     2,
     "num_data",
     3,
     PN_STATE,
     "elbo: beta, free_bits and num_data need the form with log_likelihood and kl"},
    {"elbo",
     {{"log_joint", PN_FLOAT64, 1, {3}}, {"entropy", PN_FLOAT64, 1, {3}}},
     2,
     "free_bits",
     1,
     PN_STATE,
     "elbo: beta, free_bits and num_data need the form with log_likelihood and kl"},
    {"elbo",
     {{"log_p", PN_FLOAT64, 1, {3}}, {"log_q", PN_FLOAT64, 1, {3}}, {"beta", PN_FLOAT64, 0, {0}}},
     3,
     NULL,
     0,
     PN_STATE,
     "elbo: beta, free_bits and num_data need the form with log_likelihood and kl"},
    {"elbo",
     {{"log_likelihood", PN_FLOAT64, 1, {3}}, {"kl", PN_FLOAT64, 1, {3}}, {"beta", PN_FLOAT64, 1, {2}}},
     3,
     NULL,
     0,
     PN_SHAPE,
     "elbo: beta must have one element, got shape [2]"},
    {"elbo",
     {{"log_likelihood", PN_FLOAT64, 1, {3}}, {"entropy", PN_FLOAT64, 1, {3}}},
     2,
     NULL,
     0,
     PN_STATE,
     "elbo: write elbo{log_likelihood = ll, kl = kl, num_data = N}, elbo{log_joint = lp, entropy = h} or elbo(log_p, "
     "log_q)"},
    {"map",
     {{"log_likelihood", PN_FLOAT64, 1, {3}}, {"log_prior", PN_FLOAT64, 1, {2}}},
     2,
     "num_data",
     9,
     PN_SHAPE,
     "map: log_prior must have one element (the sum over all parameters), got shape [2]"},
    {"map",
     {{"log_likelihood", PN_FLOAT64, 1, {3}}, {"log_prior", PN_FLOAT64, 0, {0}}},
     2,
     "num_data",
     2.5,
     PN_DOMAIN,
     "map: num_data must be at least the minibatch's size 3, got 2.5"},
    {"score_function",
     {{"log_p", PN_FLOAT64, 2, {1, 3}}, {"log_q", PN_FLOAT64, 2, {1, 3}}},
     2,
     "leave_one_out",
     1,
     PN_SHAPE,
     "score_function: leave_one_out needs K of at least 2 draws, [K, B], got shape [1, 3]"},
    {"score_function",
     {{"log_p", PN_FLOAT64, 1, {3}}, {"log_q", PN_FLOAT64, 1, {3}}},
     2,
     "leave_one_out",
     1,
     PN_SHAPE,
     "score_function: leave_one_out needs K of at least 2 draws, [K, B], got shape [3]"},
    {"vimco",
     {{"log_p", PN_FLOAT64, 2, {1, 3}}, {"log_q", PN_FLOAT64, 2, {1, 3}}},
     2,
     NULL,
     0,
     PN_SHAPE,
     "vimco: it needs K of at least 2 draws, [K, B], got shape [1, 3]"},
    {"score_function",
     {{"log_p", PN_FLOAT64, 2, {4, 3}}, {"log_q", PN_FLOAT64, 2, {4, 3}}, {"baseline", PN_FLOAT64, 1, {4}}},
     3,
     NULL,
     0,
     PN_SHAPE,
     "score_function: baseline must broadcast to [4, 3], got shape [4]"},
    {"score_function",
     {{"log_p", PN_FLOAT64, 2, {4, 3}}, {"log_q", PN_FLOAT64, 2, {4, 3}}, {"baseline", PN_FLOAT64, 2, {3, 3}}},
     3,
     NULL,
     0,
     PN_SHAPE,
     "score_function: baseline must broadcast to [4, 3], got shape [3, 3]"},
    {"score_function",
     {{"log_p", PN_FLOAT64, 2, {4, 3}}, {"log_q", PN_FLOAT64, 2, {4, 3}}, {"baseline", PN_FLOAT64, 3, {1, 4, 3}}},
     3,
     NULL,
     0,
     PN_SHAPE,
     "score_function: baseline must broadcast to [4, 3], got shape [1, 4, 3]"},
    {"importance",
     {{"log_w", PN_FLOAT64, 2, {4, 3}}, {"f", PN_FLOAT64, 1, {4}}},
     2,
     NULL,
     0,
     PN_SHAPE,
     "importance: f must have at least 2 axes, got shape [4]"},
    {"importance",
     {{"log_w", PN_FLOAT64, 2, {4, 3}}, {"f", PN_FLOAT64, 3, {4, 2, 5}}},
     2,
     NULL,
     0,
     PN_SHAPE,
     "importance: f must have shape [4, 3, ...], got [4, 2, 5]"},
    {"score_function",
     {{"log_p", PN_FLOAT64, 2, {4, 3}}, {"log_q", PN_FLOAT64, 2, {4, 3}}, {"baseline", PN_FLOAT64, 2, {4, 1}}},
     3,
     NULL,
     0,
     PN_OK,
     ""},
    {"score_function",
     {{"log_p", PN_FLOAT64, 2, {4, 3}}, {"log_q", PN_FLOAT64, 2, {4, 3}}, {"baseline", PN_FLOAT64, 1, {3}}},
     3,
     NULL,
     0,
     PN_OK,
     ""},
    {"score_function",
     {{"log_p", PN_FLOAT64, 2, {4, 3}}, {"log_q", PN_FLOAT64, 2, {4, 3}}, {"baseline", PN_FLOAT64, 1, {1}}},
     3,
     NULL,
     0,
     PN_OK,
     ""},
    {"elbo", {{"log_likelihood", PN_FLOAT64, 2, {4, 3}}, {"kl", PN_FLOAT64, 1, {1}}}, 2, "num_data", 3, PN_OK, ""},
    {"map", {{"log_likelihood", PN_FLOAT64, 1, {3}}, {"log_prior", PN_FLOAT64, 0, {0}}}, 2, "num_data", 3, PN_OK, ""}};

static void refusals(C *c) {
  for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
    size_t mark = pn_scope_open(c);
    const char *names[4];
    T *values[4];
    for (int i = 0; i < refused[k].n; i++) {
      const input *in = &refused[k].in[i];
      names[i] = in->name;
      values[i] = in->dtype < 0 ? NULL : pn_full(c, (pn_dtype)in->dtype, in->ndim, in->shape, 1);
    }
    const pn_option options[] = {{refused[k].option, refused[k].value, NULL}, {0}};
    T *y = pn_estimate(c, refused[k].estimator, refused[k].n, names[0] && refused[k].n ? names : NULL, values, options,
                       NULL);
    CHECK((y != NULL) == (refused[k].status == PN_OK));
    CHECK_INT(pn_context_status(c), refused[k].status);
    CHECK_STR(pn_context_message(c), refused[k].said);
    pn_context_clear_error(c);
    pn_scope_close(c, mark);
  }
}

/* Bounds of latents that all data share, with free bits for groups of the [D] of one divergence: fit - cost, whose
 * value stays the bound. Gradients in kl tell which groups cost. */
static void free_bits(C *c) {
  enum { D = 6 };
  static const double kl[D] = {0.02, 0.3, 0.9, 0.05, 0.2, 0.7};
  for (int groups = 0; groups <= D; groups++) {
    size_t mark = pn_scope_open(c);
    const int64_t d = D, four[] = {4, 3};
    T *x = pn_param(c, pn_from_data(c, PN_FLOAT64, 1, &d, kl)), *ll = pn_full(c, PN_FLOAT64, 2, four, -1.5), *g = NULL;
    const pn_option options[] = {{"num_data", 12, NULL}, {"free_bits", 0.35, NULL}, {"groups", groups, NULL}, {0}};
    T *y = pn_estimate(c, "elbo", 2, (const char *[]){"log_likelihood", "kl"}, (T *[]){ll, x}, options, NULL);
    int n = groups ? groups : D;
    if (D % n) {
      CHECK_FAIL(c, PN_SHAPE, "elbo: groups must divide the dimensions of kl, got shape [6]");
    } else {
      CHECK_NEAR(at(y, 0), -18 - 2.17, 1e-13);
      CHECK_STATUS(c, pn_grad(c, y, 1, &x, 0, &g), PN_OK);
      g = pn_contiguous(c, g);
      for (int i = 0; i < D; i++) {
        double sum = 0;
        for (int j = i / (D / n) * (D / n); j < (i / (D / n) + 1) * (D / n); j++) sum += kl[j];
        CHECK_NEAR(at(g, i), sum > 0.35 ? -1 : 0, 1e-13);
      }
    }
    pn_scope_close(c, mark);
  }
}

/* ---- draws of equal weight, streams ---- */

static void resampled(C *c) {
  size_t mark = pn_scope_open(c);
  const int64_t none[] = {0, 2}, list = 4;
  CHECK(!pn_sir(c, NULL, pn_zeros(c, PN_FLOAT64, 1, &list), 3));
  CHECK_FAIL(c, PN_SHAPE, "sir: log_w must be [K, B], got shape [4]");
  CHECK(!pn_sir(c, NULL, pn_zeros(c, PN_FLOAT64, 2, none), 3));
  CHECK_FAIL(c, PN_SHAPE, "sir: log_w must be [K, B], got shape [0, 2]");
  CHECK(!pn_sir(c, NULL, pn_zeros(c, PN_FLOAT64, 2, (const int64_t[]){1, 2}), 0));
  CHECK_FAIL(c, PN_DOMAIN, "sir: n must be at least 1, got 0");
  T *w = pn_param(c, pn_zeros(c, PN_FLOAT64, 2, (const int64_t[]){1, 2})), *places = pn_sir(c, NULL, w, 1);
  CHECK(places && pn_tensor_shape(places)[0] == 1 && pn_tensor_shape(places)[1] == 2);
  CHECK(!pn_tensor_requires_grad(places) && pn_tensor_requires_grad(pn_neg(c, w))); /* gradients are on again */
  pn_scope_close(c, mark);
}

static void streams(C *c) {
  size_t mark = pn_scope_open(c);
  CHECK(!pn_weight_stream_new(c, -1));
  CHECK_FAIL(c, PN_DOMAIN, "stream: draws must be at least 0, got -1");
  pn_weight_stream *s = pn_weight_stream_new(c, 0);
  CHECK(pn_weight_stream_count(NULL) == 0 && pn_weight_stream_count(s) == 0 && pn_weight_stream_ref(NULL) == NULL);
  const struct {
    pn_dtype dtype;
    int ndim;
    int64_t shape[2];
    pn_status status;
    const char *said;
  } row[] = {{PN_INT64, 2, {2, 2}, PN_DTYPE, "add: log_w must be float64 or float32, got int64"},
             {PN_FLOAT64, 2, {0, 2}, PN_SHAPE, "add: log_w must be [K, B], got shape [0, 2]"},
             {PN_FLOAT64, 1, {2}, PN_SHAPE, "add: log_w must be [K, B], got shape [2]"},
             {PN_FLOAT64, 2, {1, 2}, PN_OK, ""},
             {PN_FLOAT32, 2, {3, 2}, PN_OK, ""},
             {PN_FLOAT64, 2, {1, 3}, PN_SHAPE, "add: log_w must be [K, 2] as before, got shape [1, 3]"}};
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    CHECK_INT(pn_weight_stream_add(c, s, pn_zeros(c, row[k].dtype, row[k].ndim, row[k].shape)), row[k].status);
    CHECK_STR(pn_context_message(c), row[k].said);
    pn_context_clear_error(c);
  }
  CHECK_INT(pn_weight_stream_count(s), 4);
  CHECK_INT(pn_weight_stream_add(c, s, NULL), PN_STATE);
  CHECK_FAIL(c, PN_STATE, "add: log_w must be a tensor, got NULL");
  double x[6] = {0, 0, 0, INFINITY, 0, 0}, all[3][2] = {{1, 2}, {5, 6}, {3, 9}};
  CHECK_INT(pn_weight_stream_add(c, s, tensor(c, PN_FLOAT64, 3, 2, x, false)), PN_DOMAIN);
  CHECK_FAIL(c, PN_DOMAIN, "add: log_w must be a number below +inf, got inf at draw 2 of datum 2");
  CHECK(!pn_weight_stream_get(c, s, "pareto_k"));
  CHECK_FAIL(c, PN_STATE, "pareto_k: the stream must have been made for all its draws, got 4 draws for 0");
  CHECK(!pn_weight_stream_get(c, s, "median"));
  CHECK_FAIL(c, PN_MISSING, "stream: there is no 'median'");
  pn_weight_stream_unref(s);
  s = pn_weight_stream_new(c, 3);
  CHECK(!pn_weight_stream_get(c, s, "elbo"));
  CHECK_FAIL(c, PN_STATE, "elbo: the stream must have been given log-weights, got none");
  CHECK_STATUS(c, pn_weight_stream_add(c, s, tensor(c, PN_FLOAT64, 3, 2, all[0], true)), PN_OK);
  T *k = pn_weight_stream_get(c, s, "pareto_k"), *mean = pn_weight_stream_get(c, s, "elbo"); /* as many as it is for */
  CHECK(k && at(k, 0) == INFINITY && mean && at(mean, 0) == 3 && fabs(at(mean, 1) - 17. / 3) < 1e-14);
  pn_weight_stream_unref(s);
  pn_scope_close(c, mark);
}

int main(void) {
  static const int64_t sizes[] = {1, 2, 7, 8, 9, 16, 511, 512, 513, 600, 1024, 1025, 1100};
  static const int64_t batches[] = {1, 2, 63, 64, 65, 127, 130, 200};
  for (int threads = 1; threads <= 2; threads++) {
    C *c = pn_context_new(&(pn_context_config){.threads = threads});
    for (int d = 0; d < 2; d++) {
      pn_dtype dtype = d ? PN_FLOAT32 : PN_FLOAT64;
      for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) live_mean(c, dtype, sizes[k]);
      for (size_t k = 0; k < sizeof batches / sizeof *batches; k++)
        for (int64_t K = 2; K <= 7; K += K == 3 ? 4 : 1) others(c, dtype, K, batches[k]);
    }
    size_t mark = pn_scope_open(c);
    CHECK(!pni_live_mean(c, pn_zeros(c, PN_FLOAT64, 1, (const int64_t[]){0})));
    CHECK_FAIL(c, PN_SHAPE, "live_mean: tensor must not be empty");
    pn_scope_close(c, mark);
    demands(c);
    refusals(c);
    free_bits(c);
    resampled(c);
    streams(c);
    CHECK_STATUS(c, pn_context_status(c), PN_OK);
    CHECK_INT(pn_context_objects(c), 0);
    pn_context_close(c);
  }
  CHECK_DONE();
}
