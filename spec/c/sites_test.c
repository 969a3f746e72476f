/*
** sites_test.c: Gaussian sites of data by plain loops over draws and data, each network written out: layers at the
** widths of panels and beyond blocks, one draw to many units of draws, mirrored ones, exponents, both types; the same
** bits for any budget, number of threads and room; where the generator stands; refusals with their whole messages.
*/
#include <stdlib.h>
#include "../../src/infer/sites/site_pass.h"
#include "check.h"

typedef pn_tensor T;
typedef pn_context C;

enum { LAYERS = 3, MOST_DATA = 17, MOST_WEIGHTS = 4600, MOST_NODES = 920 };
enum { NORMAL, BERNOULLI, CATEGORICAL };
static const char *const likelihood[] = {"normal", "bernoulli", "categorical"};

typedef struct {
  int layers, likelihood, bias; /* bias: a bit for each layer */
  int64_t size[LAYERS + 1], data, draws;
  bool antithetic, weighed;
} problem;

static int64_t rows_of(const problem *p, int l) { return p->size[l] + (p->bias >> l & 1); }

static int64_t weights_of(const problem *p) {
  int64_t n = 0;
  for (int l = 0; l < p->layers; l++) n += rows_of(p, l) * p->size[l + 1];
  return n;
}

/* ---- by plain loops ---- */

typedef struct {
  double mean[MOST_WEIGHTS], scale[MOST_WEIGHTS], w[MOST_WEIGHTS], eps[MOST_WEIGHTS], g[MOST_WEIGHTS];
  double x[MOST_DATA][132], y[MOST_DATA][8], exponent[MOST_DATA];
  int64_t label[MOST_DATA];
  double precision[MOST_DATA][MOST_WEIGHTS], eta[MOST_DATA][MOST_WEIGHTS], value[MOST_DATA], site[MOST_DATA];
} numbers;

/* log p of a datum; its slopes in the weights into g. Layers but the last end with tanh. */
static double pass(const problem *p, numbers *v, int64_t n) {
  static double h[LAYERS + 1][MOST_NODES], d[LAYERS + 1][MOST_NODES];
  int64_t at = 0, out = p->size[p->layers];
  double value = 0, *f = h[p->layers], *slope = d[p->layers], top = -INFINITY, sum = 0;
  memcpy(h[0], v->x[n], sizeof v->x[n]);
  for (int l = 0; l < p->layers; at += rows_of(p, l) * p->size[l + 1], l++)
    for (int64_t j = 0; j < p->size[l + 1]; j++) {
      double a = p->bias >> l & 1 ? v->w[at + p->size[l] * p->size[l + 1] + j] : 0;
      for (int64_t i = 0; i < p->size[l]; i++) a += h[l][i] * v->w[at + i * p->size[l + 1] + j];
      h[l + 1][j] = l + 1 < p->layers ? tanh(a) : a;
    }
  for (int64_t j = 0; j < out; j++) top = fmax(top, f[j]);
  for (int64_t j = 0; j < out; j++) sum += exp(f[j] - top);
  for (int64_t j = 0; j < out; j++) {
    double y = v->y[n][j];
    if (p->likelihood == NORMAL) value += -0.5 * pow((y - f[j]) / 0.7, 2) - log(0.7) - 0.5 * log(2 * acos(-1));
    if (p->likelihood == NORMAL) slope[j] = (y - f[j]) / 0.49;
    if (p->likelihood == BERNOULLI) value += y * f[j] - (fmax(f[j], 0) + log1p(exp(-fabs(f[j]))));
    if (p->likelihood == BERNOULLI) slope[j] = y - 1 / (1 + exp(-f[j]));
    if (p->likelihood == CATEGORICAL) slope[j] = (j == v->label[n]) - exp(f[j] - top) / sum;
  }
  if (p->likelihood == CATEGORICAL) value = f[v->label[n]] - top - log(sum);
  for (int l = p->layers - 1; l >= 0; l--) {
    int64_t in = p->size[l], to = p->size[l + 1];
    at -= rows_of(p, l) * to;
    for (int64_t i = 0; i < rows_of(p, l); i++) {
      double back = 0;
      for (int64_t j = 0; j < to; j++) {
        v->g[at + i * to + j] = (i < in ? h[l][i] : 1) * d[l + 1][j];
        back += i < in ? d[l + 1][j] * v->w[at + i * to + j] : 0;
      }
      if (i < in) d[l][i] = back * (1 - h[l][i] * h[l][i]);
    }
  }
  return value;
}

/* Draw s of all weights, out of the stream: lane s % 16 of group s / 16 of weights by panels of four columns. */
static void draw(const problem *p, numbers *v, int64_t s, const double *stream) {
  int64_t half = p->antithetic ? 8 : 16, lane = s % 16, at = 0, P = weights_of(p);
  if (p->antithetic) { /* the first half of the draws, then as many that mirror them */
    int64_t of = s % (p->draws / 2);
    lane = of % 8 + (s < p->draws / 2 ? 0 : 8), s = of / 8 * 16;
  }
  for (int l = 0; l < p->layers; l++) {
    int64_t rows = rows_of(p, l), out = p->size[l + 1];
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < out; j++) {
        int64_t panel = j / 4 * 4, place = panel + 4 <= out ? panel * rows + i * 4 + j - panel : j * rows + i;
        double e = stream[(s / 16 * P + at + place) * half + lane % half];
        v->eps[at + i * out + j] = lane < half ? e : -e;
      }
    at += rows * out;
  }
  for (int64_t k = 0; k < P; k++) v->w[k] = v->mean[k] + v->scale[k] * v->eps[k];
}

/* Sites of each datum out of the stream at this place. */
static void by_loops(const problem *p, numbers *v, const pni_philox *at, pn_dtype dtype) {
  int64_t P = weights_of(p), count = (p->draws + 15) / 16 * (p->antithetic ? 8 : 16) * P;
  double *stream = malloc((size_t)count * sizeof *stream);
  float *small = malloc((size_t)count * sizeof *small);
  if (dtype == PN_FLOAT64) pni_fill_normal_f64(at->key, at->position, 0, (uint64_t)count, stream);
  if (dtype == PN_FLOAT32) pni_fill_normal_f32(at->key, at->position, 0, (uint64_t)count, small);
  for (int64_t i = 0; i < count && dtype == PN_FLOAT32; i++) stream[i] = (double)small[i];
  for (int64_t n = 0; n < p->data; n++) {
    memset(v->precision[n], 0, sizeof v->precision[n]);
    memset(v->eta[n], 0, sizeof v->eta[n]);
    v->value[n] = v->site[n] = 0;
  }
  for (int64_t s = 0; s < p->draws; s++) {
    draw(p, v, s, stream);
    for (int64_t n = 0; n < p->data; n++) {
      double by = v->exponent[n] / (double)p->draws;
      v->value[n] += by * pass(p, v, n);
      for (int64_t k = 0; k < P; k++) {
        v->precision[n][k] -= by * v->g[k] * v->eps[k] / v->scale[k];
        v->eta[n][k] += by * v->g[k];
      }
    }
  }
  for (int64_t n = 0; n < p->data; n++)
    for (int64_t k = 0; k < P; k++) {
      double m = v->mean[k], s = v->scale[k];
      v->eta[n][k] += v->precision[n][k] * m;
      v->site[n] += v->eta[n][k] * m - v->precision[n][k] * (m * m + s * s) / 2;
    }
  free(stream);
  free(small);
}

/* ---- against the library ---- */

static double number(const T *t, int64_t i) {
  return t->dtype == PN_FLOAT64 ? ((const double *)pni_data(t))[i] : (double)((const float *)pni_data(t))[i];
}

static T *of(C *c, pn_dtype dtype, int ndim, const int64_t *shape, const double *x) {
  return pn_cast(c, pn_from_data(c, PN_FLOAT64, ndim, shape, x), dtype);
}

typedef struct {
  pn_layer *list[2 * LAYERS];
  pn_site_options o;
  T *x, *y;
} given;

static void give(C *c, const problem *p, numbers *v, pn_dtype dtype, given *a) {
  const pn_option bare[] = {{"bias", 0, NULL}, {0}};
  int64_t P = weights_of(p), out = p->size[p->layers], in = p->size[0], shape[2] = {p->data, in};
  static double rows[MOST_DATA * 132];
  *a = (given){.o = {.likelihood = likelihood[p->likelihood], .noise_scale = 0.7, .draws = p->draws}};
  for (int l = 0; l < p->layers; l++) {
    a->list[a->o.num_layers++] = pn_layer_new(c, "linear", 2, p->size + l, dtype, NULL, p->bias >> l & 1 ? NULL : bare);
    if (l + 1 < p->layers) a->list[a->o.num_layers++] = pn_layer_new(c, "tanh", 0, NULL, dtype, NULL, NULL);
  }
  a->o.layers = (const pn_layer *const *)a->list;
  for (int64_t k = 0; k < P; k++) {
    v->mean[k] = (double)(float)(sin((double)(k * k)) / sqrt((double)in));
    v->scale[k] = (double)(float)(0.1 + 0.05 * (double)(k % 7));
  }
  for (int64_t n = 0; n < p->data; n++) {
    v->exponent[n] = p->weighed ? (double)(float)((double)(n % 3) * 0.4) : 1;
    v->label[n] = n * 5 % out;
    for (int64_t i = 0; i < in; i++)
      rows[n * in + i] = v->x[n][i] = (double)(float)cos((double)(n + 1) * (double)(i + 2));
    for (int64_t j = 0; j < out && j < 8; j++)
      v->y[n][j] = p->likelihood == NORMAL ? sin((double)(n + j)) : (double)((n + j) % 2);
    for (int64_t j = 0; j < out && j < 8; j++) v->y[n][j] = (double)(float)v->y[n][j];
  }
  a->x = of(c, dtype, 2, shape, rows);
  a->x = pn_transpose(c, pn_contiguous(c, pn_transpose(c, a->x, 0, 1)), 0, 1);
  for (int64_t n = 0; n < p->data; n++) memcpy(rows + n * out, v->y[n], (size_t)(out < 8 ? out : 8) * sizeof *rows);
  shape[1] = out;
  a->y = p->likelihood == CATEGORICAL ? pn_from_data(c, PN_INT64, 1, shape, v->label) : of(c, dtype, 2, shape, rows);
  a->o.mean = of(c, dtype, 1, &P, v->mean), a->o.scale = of(c, dtype, 1, &P, v->scale);
  a->o.antithetic = p->antithetic;
  a->o.weights = p->weighed ? of(c, dtype, 1, shape, v->exponent) : NULL;
}

static void take_back(given *a) {
  for (int k = 0; k < a->o.num_layers; k++) pn_layer_unref(a->list[k]);
}

static double off(double got, double want) { return fabs(got - want) / (1 + fabs(want)); }

static double worst_of(const problem *p, const numbers *v, const pn_sites *s, bool each) {
  double worst = 0;
  int64_t P = weights_of(p);
  for (int64_t n = 0; n < p->data; n++) {
    worst = fmax(worst, off(number(s->expected_log_likelihood, n), v->value[n]));
    worst = fmax(worst, off(number(s->expected_log_site, n), v->site[n]));
  }
  for (int64_t k = 0; k < P; k++) {
    double precision = 0, eta = 0;
    for (int64_t n = 0; n < p->data; n++) {
      precision += v->precision[n][k], eta += v->eta[n][k];
      if (each) worst = fmax(worst, off(number(s->precision, n * P + k), v->precision[n][k]));
      if (each) worst = fmax(worst, off(number(s->precision_mean, n * P + k), v->eta[n][k]));
    }
    if (!each)
      worst = fmax(worst, fmax(off(number(s->precision, k), precision), off(number(s->precision_mean, k), eta)));
  }
  return worst;
}

static bool same(const pn_sites *a, const pn_sites *b) {
  T *const *x = (T *const *)&a->precision_mean, *const *y = (T *const *)&b->precision_mean;
  bool all = true;
  for (int k = 0; k < 4; k++)
    for (int64_t i = 0; i < pn_tensor_numel(x[k]); i++) all &= number(x[k], i) == number(y[k], i);
  return all;
}

static void compare(const problem *p, pn_dtype dtype) {
  static numbers v;
  for (int each = 0; each < 2; each++) {
    C *c = pn_context_new(&(pn_context_config){.threads = 1});
    size_t mark = pn_scope_open(c);
    given a;
    give(c, p, &v, dtype, &a);
    a.o.each = each;
    pn_rng *rng = pn_rng_new(c, 5);
    pn_sites s, other;
    for (int call = 0; call < 2; call++) { /* each with draws of its own */
      pni_philox before = rng->state;
      by_loops(p, &v, &before, dtype);
      if (!check_record(pn_gaussian_sites(c, &a.o, a.x, a.y, rng, &s) == PN_OK)) {
        printf("%s\n", pn_context_message(c));
        return;
      }
      uint64_t count = (uint64_t)((p->draws + 15) / 16 * (p->antithetic ? 8 : 16) * weights_of(p));
      pni_fill_kind kind = dtype == PN_FLOAT64 ? PNI_FILL_NORMAL_F64 : PNI_FILL_NORMAL_F32;
      CHECK(rng->state.key == before.key && rng->state.position == before.position + pni_fill_positions(kind, count));
      double worst = worst_of(p, &v, &s, each), most = dtype == PN_FLOAT64 ? 1e-11 : 1e-4;
      if (!check_record(worst < most))
        printf("%lld draws of %lld data, each %d: %.3g off\n", (long long)p->draws, (long long)p->data, each, worst);
      for (int k = 0; k < 3; k++) {
        a.o.budget = k == 0 ? 1 : k == 1 ? 100000 : 0;
        C *two = k == 2 ? pn_context_new(&(pn_context_config){.threads = 2}) : NULL;
        rng->state = before;
        if (two) { /* in a context of two threads, with objects of its own */
          size_t inner = pn_scope_open(two);
          given b;
          give(two, p, &v, dtype, &b);
          b.o.each = each;
          pn_rng *own = pn_rng_new(two, 5);
          own->state = before;
          CHECK_STATUS(two, pn_gaussian_sites(two, &b.o, b.x, b.y, own, &other), PN_OK);
          CHECK(same(&s, &other));
          take_back(&b);
          pn_rng_free(own);
          pn_scope_close(two, inner);
          CHECK_INT(pn_context_objects(two), 0);
          pn_context_close(two);
          rng->state.position = before.position + pni_fill_positions(kind, count);
        } else {
          CHECK_STATUS(c, pn_gaussian_sites(c, &a.o, a.x, a.y, rng, &other), PN_OK);
          CHECK(same(&s, &other));
        }
      }
    }
    a.o.weights = pn_zeros(c, dtype, 1, &p->data); /* data that do not count say nothing, not even a little */
    CHECK_STATUS(c, pn_gaussian_sites(c, &a.o, a.x, a.y, rng, &s), PN_OK);
    T *all[] = {s.precision, s.precision_mean, s.expected_log_likelihood, s.expected_log_site};
    int64_t some = 0;
    for (int k = 0; k < 4; k++)
      for (int64_t i = 0; i < pn_tensor_numel(all[k]); i++) some += number(all[k], i) != 0;
    CHECK_INT(some, 0);
    pn_rng_free(rng);
    take_back(&a);
    pn_scope_close(c, mark);
    CHECK_INT(pn_context_objects(c), 0);
    pn_context_close(c);
  }
}

/* ---- room and failures ---- */

/* A context that has room for a part of the data at a time, or for nothing, or no time: the same bits or none, and the
 * generator where it stood. */
static void little_room(void) {
  static numbers v;
  static const problem p = {2, BERNOULLI, 3, {7, 40, 3}, 17, 40, false, false};
  for (int each = 0; each < 2; each++)
    for (int k = 0; k < 4; k++) {
      C *c = pn_context_new(&(pn_context_config){.threads = 1, .pool_limit = PN_NO_POOL});
      size_t mark = pn_scope_open(c);
      given a;
      give(c, &p, &v, PN_FLOAT64, &a);
      a.o.each = each;
      pn_rng *rng = pn_rng_new(c, 5);
      pn_sites s = {0}, other = {0};
      CHECK_STATUS(c, pn_gaussian_sites(c, &a.o, a.x, a.y, rng, &s), PN_OK);
      pni_philox before = rng->state;
      pn_rng *same_place = pn_rng_new(c, 5);
      size_t used = pn_context_memory(c, NULL);
      if (k == 0) pn_context_set_memory_limit(c, used + (each ? 4 << 20 : 2 << 20));
      if (k == 1) pn_context_set_memory_limit(c, used + 40000);
      if (k == 2) pn_context_set_deadline(c, 1e-9);
      if (k == 3) pn_context_cancel(c);
      pn_status want = k == 0 ? PN_OK : k == 1 ? PN_NOMEM : k == 2 ? PN_TIME : PN_CANCELLED;
      pn_rng *asked = k ? rng : same_place;
      CHECK_STATUS(c, pn_gaussian_sites(c, &a.o, a.x, a.y, asked, &other), want);
      if (k == 0) CHECK(same(&s, &other));
      if (k) CHECK(rng->state.key == before.key && rng->state.position == before.position && !other.precision);
      pn_context_uncancel(c);
      pn_context_set_deadline(c, 0);
      pn_context_set_memory_limit(c, 0);
      pn_context_clear_error(c);
      pn_rng_free(rng);
      pn_rng_free(same_place);
      take_back(&a);
      pn_scope_close(c, mark);
      CHECK_INT(pn_context_objects(c), 0);
      pn_context_close(c);
    }
}

/* ---- refusals ---- */

enum { REFUSED = 27 };

/* Spoils one thing of a call that is right. */
static void spoil(C *c, int k, given *a, pn_layer **more) {
  const int64_t four = 4, wide[] = {2, 4}, long_list[] = {3}, P = 10;
  static const double negative[10] = {1, 1, 1, 1, 1, 1, 1, -0.5, 1, 1}, broken[10] = {1, NAN, 1, 1, 1, 1, 1, 1, 1, 1};
  switch (k) {
  case 0: a->x = NULL; break;
  case 1: a->y = NULL; break;
  case 2: a->o.num_layers = 0; break;
  case 3: a->o.layers = (const pn_layer *const *)(more[0] = a->list[1], more[1] = a->list[0], more); break;
  case 4: a->o.layers = (const pn_layer *const *)(more[0] = a->list[0], more[1] = a->list[0], more); break;
  case 5: a->o.likelihood = "poisson"; break;
  case 6: a->o.likelihood = NULL; break;
  case 7: a->o.noise_scale = 0; break;
  case 8: a->o.noise_scale = INFINITY; break;
  case 9: a->o.noise_scale = NAN; break;
  case 10: a->x = pn_cast(c, a->x, PN_INT64); break;
  case 11: a->x = pn_zeros(c, PN_FLOAT64, 2, wide); break;
  case 12: a->x = pn_zeros(c, PN_FLOAT64, 2, (const int64_t[]){0, 2}); break;
  case 13: a->x = pn_zeros(c, PN_FLOAT64, 1, long_list); break;
  case 14: a->o.mean = NULL; break;
  case 15: a->o.mean = pn_zeros(c, PN_FLOAT64, 1, &four); break;
  case 16: a->o.scale = pn_zeros(c, PN_FLOAT64, 2, wide); break;
  case 17: a->o.scale = pn_cast(c, a->o.scale, PN_FLOAT32); break;
  case 18: a->o.scale = pn_from_data(c, PN_FLOAT64, 1, &P, negative); break;
  case 19: a->o.scale = pn_from_data(c, PN_FLOAT64, 1, &P, broken); break;
  case 20: a->y = pn_zeros(c, PN_FLOAT64, 2, wide); break;
  case 21: a->y = pn_zeros(c, PN_FLOAT64, 1, long_list); break;
  case 22: a->o.weights = pn_zeros(c, PN_FLOAT64, 1, &four); break;
  case 23: a->o.draws = 0; break;
  case 24: a->o.draws = ((int64_t)1 << 58) / 11 + 1; break;
  case 25: a->o.draws = 3, a->o.antithetic = 1; break;
  default: a->o.layers = (const pn_layer *const *)(more[0] = a->list[0], more[1] = more[2], more);
  }
}

static const struct {
  pn_status status;
  const char *said;
} refused[REFUSED] = {{PN_STATE, "x and y must be given"},
                      {PN_STATE, "x and y must be given"},
                      {PN_DOMAIN, "the network must have a linear layer"},
                      {PN_MISSING, "an activation must follow a linear layer, got tanh as layer 1"},
                      {PN_SHAPE, "linear layer 2 must take 3 inputs, got 2"},
                      {PN_MISSING, "likelihood must be normal, bernoulli or categorical, got poisson"},
                      {PN_MISSING, "likelihood must be normal, bernoulli or categorical, got none"},
                      {PN_DOMAIN, "noise_scale must be a positive number, got 0"},
                      {PN_DOMAIN, "noise_scale must be a positive number, got inf"},
                      {PN_DOMAIN, "noise_scale must be a positive number, got nan"},
                      {PN_DTYPE, "x must be float64 or float32, got int64"},
                      {PN_SHAPE, "x must have shape [N, 2] with N > 0, got [2, 4]"},
                      {PN_SHAPE, "x must have shape [N, 2] with N > 0, got [0, 2]"},
                      {PN_SHAPE, "x must have shape [N, 2] with N > 0, got [3]"},
                      {PN_STATE, "mean must be given"},
                      {PN_SHAPE, "mean must have shape [10], got [4]"},
                      {PN_SHAPE, "scale must have shape [10], got [2, 4]"},
                      {PN_DTYPE, "scale must be float64, got float32"},
                      {PN_DOMAIN, "scale must be positive, got -0.5"},
                      {PN_DOMAIN, "scale must be positive, got nan"},
                      {PN_SHAPE, "y must have shape [3, 1], got [2, 4]"},
                      {PN_SHAPE, "y must have shape [3, 1], got [3]"},
                      {PN_SHAPE, "weights must have shape [3], got [4]"},
                      {PN_DOMAIN, "draws must be from 1 to 26202761468337431, got 0"},
                      {PN_DOMAIN, "draws must be from 1 to 26202761468337431, got 26202761468337432"},
                      {PN_DOMAIN, "draws must be even with antithetic, got 3"},
                      {PN_MISSING, "layers must be linear or elementwise activations, got layer_norm"}};

static void refusals(void) {
  static numbers v;
  static const problem p = {2, NORMAL, 2, {2, 3, 1}, 3, 4, false, false};
  for (int k = 0; k < REFUSED; k++) {
    C *c = pn_context_new(&(pn_context_config){.threads = 1});
    size_t mark = pn_scope_open(c);
    given a;
    give(c, &p, &v, PN_FLOAT64, &a);
    const int64_t three = 3;
    pn_layer *more[3] = {NULL, NULL, pn_layer_new(c, "layer_norm", 1, &three, PN_FLOAT64, NULL, NULL)};
    spoil(c, k, &a, more);
    pn_sites s = {0};
    char want[160];
    snprintf(want, sizeof want, "gaussian_sites: %s", refused[k].said);
    CHECK_INT(pn_gaussian_sites(c, &a.o, a.x, a.y, NULL, &s), refused[k].status);
    CHECK_STR(pn_context_message(c), want);
    CHECK(!s.precision && !s.expected_log_site);
    pn_context_clear_error(c);
    a.o.num_layers = 3;
    take_back(&a);
    pn_layer_unref(more[2]);
    pn_scope_close(c, mark);
    CHECK_INT(pn_context_objects(c), 0);
    pn_context_close(c);
  }
}

/* Classes from 0 on; as many linear layers as there may be, and one more. */
static void limits(void) {
  C *c = pn_context_new(&(pn_context_config){.threads = 1});
  size_t mark = pn_scope_open(c);
  const int64_t one[] = {1, 1}, many = PNI_SITE_LAYERS, two = 2, labelled[] = {1, 3};
  const pn_option bare[] = {{"bias", 0, NULL}, {0}};
  pn_layer *l = pn_layer_new(c, "linear", 2, one, PN_FLOAT64, NULL, bare), *list[PNI_SITE_LAYERS + 1];
  for (int k = 0; k <= PNI_SITE_LAYERS; k++) list[k] = l;
  pn_site_options o = {.num_layers = PNI_SITE_LAYERS, .likelihood = "normal", .noise_scale = 1, .draws = 1};
  o.layers = (const pn_layer *const *)list;
  o.mean = pn_zeros(c, PN_FLOAT64, 1, &many), o.scale = pn_full(c, PN_FLOAT64, 1, &many, 0.1);
  T *x = pn_full(c, PN_FLOAT64, 2, one, 1);
  pn_sites s;
  CHECK_STATUS(c, pn_gaussian_sites(c, &o, x, x, NULL, &s), PN_OK);
  o.num_layers++;
  CHECK_INT(pn_gaussian_sites(c, &o, x, x, NULL, &s), PN_DOMAIN);
  CHECK_FAIL(c, PN_DOMAIN, "gaussian_sites: the network must have at most 64 linear layers");
  pn_layer *wide = pn_layer_new(c, "linear", 2, labelled, PN_FLOAT64, NULL, bare);
  const int64_t P = 3;
  o = (pn_site_options){.num_layers = 1, .layers = (const pn_layer *const *)&wide, .likelihood = "categorical"};
  o.mean = pn_zeros(c, PN_FLOAT64, 1, &P), o.scale = pn_full(c, PN_FLOAT64, 1, &P, 0.1), o.draws = 1;
  for (int64_t label = -1; label <= 3; label++) {
    char want[80];
    T *y = pn_from_data(c, PN_INT64, 1, &two, (const int64_t[]){1, label});
    bool right = label >= 0 && label < 3;
    pn_status got = pn_gaussian_sites(c, &o, pn_full(c, PN_FLOAT64, 2, (const int64_t[]){2, 1}, 1), y, NULL, &s);
    snprintf(want, sizeof want, "gaussian_sites: y must be classes from 0 to 2, got %d", (int)label);
    CHECK_INT(got, right ? PN_OK : PN_DOMAIN);
    CHECK_STR(pn_context_message(c), right ? "" : want);
    pn_context_clear_error(c);
  }
  pn_layer_unref(l);
  pn_layer_unref(wide);
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
}

int main(void) {
  static const problem list[] = {
      {1, NORMAL, 1, {1, 1}, 1, 1, false, false},         {2, NORMAL, 3, {2, 3, 2}, 3, 1100, false, false},
      {2, BERNOULLI, 3, {3, 900, 1}, 9, 3, false, false}, {3, CATEGORICAL, 5, {5, 8, 9, 4}, 17, 33, false, true},
      {2, BERNOULLI, 3, {2, 4, 3}, 6, 34, true, true},    {1, CATEGORICAL, 1, {130, 3}, 5, 17, false, false},
      {2, NORMAL, 2, {33, 6, 5}, 4, 16, false, true},     {2, NORMAL, 1, {3, 5, 2}, 4, 1200, true, false}};
  for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
    compare(&list[k], PN_FLOAT64);
    compare(&list[k], PN_FLOAT32);
  }
  little_room();
  refusals();
  limits();
  CHECK_DONE();
}
