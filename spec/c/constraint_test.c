/*
** constraint_test.c: sets of numbers, vectors and matrices by members and by what just misses, one of a batch at a
** time, in both types, strided and repeated: masks, and what a refusal says; which shapes of values a distribution
** takes.
*/
#include "../../src/distribution/distribution.h"
#include "check.h"

typedef pn_tensor T;
typedef pn_context C;

#define SET(name) &pni_constraint_##name
enum { MOST = 16, BATCH = 5 };

static const struct {
  const pni_constraint *set;
  bool in;
  int64_t size[2];
  double x[MOST];
} row[] = {
    {SET(real_vector), true, {2}, {1, -2}},
    {SET(real_vector), false, {2}, {1, INFINITY}},
    {SET(real_vector), false, {5}, {NAN, 0, 0, 0, 0}},
    {SET(real_vector), false, {4}, {0, 0, 0, -INFINITY}},
    {SET(log_weights), true, {2}, {-INFINITY, 0}},
    {SET(log_weights), true, {3}, {-700, -800, 2}},
    {SET(log_weights), false, {2}, {-INFINITY, -INFINITY}},
    {SET(log_weights), false, {2}, {INFINITY, 0}},
    {SET(log_weights), false, {2}, {0, NAN}},
    {SET(positive_vector), true, {2}, {1e-40, 1}},
    {SET(positive_vector), false, {2}, {0, 1}},
    {SET(positive_vector), false, {3}, {1, 1, INFINITY}},
    {SET(positive_vector), false, {3}, {1, -1, 1}},
    {SET(simplex), true, {2}, {0.5, 0.5}},
    {SET(simplex), true, {1}, {1}},
    {SET(simplex), true, {2}, {0.5, 0.500009}},
    {SET(simplex), true, {2}, {0.5, 0.499991}},
    {SET(simplex), false, {2}, {0.5, 0.500011}},
    {SET(simplex), false, {2}, {0.5, 0.499989}},
    {SET(simplex), false, {3}, {-0.1, 1, 0.1}},
    {SET(simplex), false, {2}, {NAN, 1}},
    {SET(open_simplex), true, {2}, {0.25, 0.75}},
    {SET(open_simplex), false, {2}, {0, 1}},
    {SET(open_simplex), false, {5}, {0.2, 0.2, 0.2, 0.2, 0.20002}},
    {SET(one_hot), true, {3}, {0, 1, 0}},
    {SET(one_hot), false, {3}, {0, 0, 0}},
    {SET(one_hot), false, {3}, {1, 1, 0}},
    {SET(one_hot), false, {3}, {0.5, 0.5, 0}},
    {SET(one_hot), false, {3}, {1, 1, -1}},
    {SET(one_hot), false, {1}, {2}},
    {SET(count_vector), true, {2}, {0, 3}},
    {SET(count_vector), true, {2}, {5e6, 1}},
    {SET(count_vector), false, {2}, {0.5, 1}},
    {SET(count_vector), false, {2}, {-1, 2}},
    {SET(count_vector), false, {2}, {INFINITY, 2}},
    {SET(mean_and_variance), true, {2}, {-3, 0.5}},
    {SET(mean_and_variance), false, {2}, {0, 0}},
    {SET(mean_and_variance), false, {2}, {INFINITY, 1}},
    {SET(mean_and_variance), false, {2}, {0, INFINITY}},
    {SET(real_matrix), true, {2, 2}, {1, 2, 3, 4}},
    {SET(real_matrix), false, {2, 3}, {1, 2, 3, 4, 5, NAN}},
    {SET(lower_cholesky), true, {2, 2}, {1, 0, 5, 2}},
    {SET(lower_cholesky), true, {1, 1}, {3}},
    {SET(lower_cholesky), false, {2, 2}, {1, 0.1, 0, 1}},
    {SET(lower_cholesky), false, {2, 2}, {0, 0, 1, 1}},
    {SET(lower_cholesky), false, {2, 2}, {1, 0, 0, -1}},
    {SET(lower_cholesky), false, {2, 2}, {1, 0, NAN, 1}},
    {SET(lower_cholesky), false, {2, 2}, {1, 0, INFINITY, 1}},
    {SET(lower_cholesky), false, {2, 2}, {1, 0, 0, INFINITY}},
    {SET(lower_cholesky), false, {3, 3}, {1, 0, 1, 0, 1, 0, 0, 0, 1}},
    {SET(lower_cholesky), false, {3, 3}, {1, 0, 0, 0, 1, 1, 0, 0, 1}},
    {SET(positive_definite), true, {1, 1}, {2}},
    {SET(positive_definite), true, {2, 2}, {2, 1, 1, 2}},
    {SET(positive_definite), true, {2, 2}, {2, 1, 1.000003, 2}},
    {SET(positive_definite), false, {2, 2}, {2, 1, 1.000005, 2}},
    {SET(positive_definite), false, {2, 2}, {2, 1.000005, 1, 2}},
    {SET(positive_definite), false, {2, 2}, {1, 1, 1, 1}},
    {SET(positive_definite), false, {2, 2}, {1, 2, 2, 1}},
    {SET(positive_definite), false, {2, 2}, {-1, 0, 0, 1}},
    {SET(positive_definite), false, {2, 2}, {2, 0, 0, INFINITY}},
    {SET(positive_definite), false, {2, 2}, {2, NAN, NAN, 2}},
    /* correlations 0.9, 0.9 and r have the determinant (1 - r) (r - 0.62): of unit variances, and of deviations 2, 3
     * and 1 / 2 */
    {SET(positive_definite), true, {3, 3}, {1, 0.9, 0.63, 0.9, 1, 0.9, 0.63, 0.9, 1}},
    {SET(positive_definite), false, {3, 3}, {1, 0.9, 0.61, 0.9, 1, 0.9, 0.61, 0.9, 1}},
    {SET(positive_definite), true, {3, 3}, {4, 5.4, 0.63, 5.4, 9, 1.35, 0.63, 1.35, 0.25}},
    {SET(positive_definite), false, {3, 3}, {4, 5.4, 0.61, 5.4, 9, 1.35, 0.61, 1.35, 0.25}},
    {SET(correlation_cholesky), true, {2, 2}, {1, 0, 0.6, 0.8}},
    {SET(correlation_cholesky), true, {2, 2}, {1, 0, 0.6, 0.800004}},
    {SET(correlation_cholesky), false, {2, 2}, {1, 0, 0.6, 0.800008}},
    {SET(correlation_cholesky), false, {2, 2}, {1, 0, 0.6, 0.799992}},
    {SET(correlation_cholesky), false, {2, 2}, {1, 0.1, 0.6, 0.8}},
    {SET(correlation_cholesky), false, {2, 2}, {-1, 0, 0.6, 0.8}},
    {SET(correlation_cholesky), true, {3, 3}, {1, 0, 0, 0.6, 0.8, 0, 0.48, -0.64, 0.6}},
    {SET(correlation_cholesky), false, {3, 3}, {1, 0, 0, 0.6, 0.8, 0, 0.48, -0.54, 0.6}},
    {SET(correlation_cholesky), false, {3, 3}, {1, 0, 0, 0.6, 0.8, 1, 0.48, -0.64, 0.6}},
    {SET(correlation_cholesky), true, {4, 4}, {1, 0, 0, 0, 0.6, 0.8, 0, 0, 0, 0, 1, 0, 0.5, 0.5, 0.1, 0.7}},
    {SET(correlation_cholesky), false, {4, 4}, {1, 0, 0, 0, 0.6, 0.8, 0, 0, 0, 0, 1, 0, 0.5, 0.5, 0.2, 0.7}},
    {SET(mean_and_covariance), true, {3, 2}, {1, 2, 2, 1, 1, 2}},
    {SET(mean_and_covariance), false, {3, 2}, {1, INFINITY, 2, 1, 1, 2}},
    {SET(mean_and_covariance), false, {3, 2}, {1, 2, 1, 2, 2, 1}}};

static void told(const double *x, int64_t n, char *text, size_t room) {
  int at = snprintf(text, room, "[");
  for (int64_t i = 0; i < n && i < 4; i++)
    at += snprintf(text + at, room - (size_t)at, i ? ", %.4g" : "%.4g", isnan(x[i]) ? fabs(x[i]) : x[i]);
  snprintf(text + at, room - (size_t)at, n > 4 ? ", ...]" : "]");
}

/* Row r at place i of a batch of members, which all are of the set else. */
static void one_of(C *c, size_t r, int i, pn_dtype dtype, bool strided) {
  const pni_constraint *set = row[r].set;
  int64_t shape[3] = {BATCH, row[r].size[0], row[r].size[1]}, n = pni_count(set->rank, row[r].size);
  double x[BATCH * MOST];
  char got[96], want[200];
  size_t mark = pn_scope_open(c);
  T *member = pni_constraint_member(c, set, PN_FLOAT64, row[r].size);
  for (int k = 0; k < BATCH; k++)
    memcpy(x + k * n, k == i ? row[r].x : (const double *)pni_data(member), (size_t)n * sizeof *x);
  bool two = i == 0 && !row[r].in; /* then the last is out as well, and the first is told of */
  if (two) x[BATCH * n - 1] = NAN;
  T *t = pn_cast(c, pn_from_data(c, PN_FLOAT64, set->rank + 1, shape, x), dtype);
  if (strided) t = pn_transpose(c, pn_contiguous(c, pn_transpose(c, t, 0, -1)), 0, -1);
  T *mask = pni_constraint_mask(c, set, t);
  CHECK(mask && pn_tensor_ndim(mask) == 1 && pn_tensor_numel(mask) == BATCH);
  for (int k = 0; mask && k < BATCH; k++)
    if (!check_record((pni_element(mask, k) != 0) == ((k != i || row[r].in) && !(two && k == BATCH - 1))))
      printf("%s: row %zu at %d of %s\n", set->name, r, i, pn_dtype_name(dtype));
  CHECK_INT(pni_constraint_require(c, set, "here", "x", t), row[r].in ? PN_OK : PN_DOMAIN);
  told(row[r].x, n, got, sizeof got);
  snprintf(want, sizeof want, "here: x must be %s, got %s", set->must, got);
  CHECK_STR(pn_context_message(c), row[r].in ? "" : want);
  pn_context_clear_error(c);
  mask = pni_constraint_mask(c, set, pn_select(c, t, 0, i)); /* alone */
  CHECK(mask && pn_tensor_ndim(mask) == 0 && (pni_element(mask, 0) != 0) == row[r].in);
  pn_scope_close(c, mark);
}

/* Numbers one after the other, every second one, and one repeated. */
static void numbers(C *c, const pni_constraint *set, pn_dtype dtype, int64_t n) {
  static const double edge[] = {0, 1, -1, 0.5, 2, -0.0, 3.2, INFINITY, -INFINITY, NAN, 1e-320, 3.1415926};
  enum { EDGES = sizeof edge / sizeof *edge, LONG = 1300 };
  static double x[LONG];
  size_t mark = pn_scope_open(c);
  for (int64_t i = 0; i < 2 * n; i++) x[i] = i % 50 < 38 ? 1 : edge[i % EDGES];
  T *all = pn_cast(c, pn_from_data(c, PN_FLOAT64, 1, (const int64_t[]){2 * n}, x), dtype);
  T *part[] = {pn_slice(c, all, 0, 0, n, 1), pn_slice(c, all, 0, 0, n, 2),
               pn_broadcast_to(c, pn_slice(c, all, 0, 2 * n - 1, 1, 1), 1, &n)};
  for (int k = 0; k < 3; k++) {
    T *mask = pni_constraint_mask(c, set, part[k]);
    int64_t wrong = 0, out = 0;
    double first = 0;
    for (int64_t i = n - 1; mask && i >= 0; i--) {
      double v = pni_element(part[k], i);
      bool in = set->holds(&v, NULL);
      wrong += (pni_element(mask, i) != 0) != in;
      out += !in;
      if (!in) first = v;
    }
    CHECK(mask && wrong == 0);
    CHECK(pni_constraint_all(set, part[k]) == (set->numbers && out == 0 && k == 0) || n == 1);
    char want[160];
    snprintf(want, sizeof want, "here: x must be %s, got %.7g", isfinite(first) ? set->must : "finite",
             isnan(first) ? fabs(first) : first);
    CHECK_INT(pni_constraint_require(c, set, "here", "x", part[k]), out ? PN_DOMAIN : PN_OK);
    CHECK_STR(pn_context_message(c), out ? want : "");
    pn_context_clear_error(c);
  }
  pn_scope_close(c, mark);
}

/* Whole numbers have no NaN and no kernel of their own. */
static void whole_numbers(C *c) {
  size_t mark = pn_scope_open(c);
  const int64_t n = 3, pairs[] = {2, 2}, x[] = {0, 4, -1, 2};
  T *t = pn_from_data(c, PN_INT64, 1, &n, x), *rows = pn_from_data(c, PN_INT64, 2, pairs, x);
  T *mask = pni_constraint_mask(c, SET(nonnegative_integer), t),
    *of_rows = pni_constraint_mask(c, SET(count_vector), rows);
  for (int i = 0; i < 3; i++) CHECK((pni_element(mask, i) != 0) == (i < 2));
  CHECK(pni_element(of_rows, 0) == 1 && pni_element(of_rows, 1) == 0 && !pni_constraint_all(SET(real), t));
  CHECK_INT(pni_constraint_require(c, SET(nonnegative_integer), "here", "n", t), PN_DOMAIN);
  CHECK_FAIL(c, PN_DOMAIN, "here: n must be a whole number not below 0, got -1");
  CHECK(!pni_constraint_mask(c, SET(simplex), pn_scalar(c, PN_FLOAT64, 1)));
  CHECK_FAIL(c, PN_SHAPE, "within: tensor must have at least 1 axes, got 0");
  CHECK(pni_constraint_at(-1) == NULL && pni_constraint_at(pni_constraint_count()) == NULL);
  pn_scope_close(c, mark);
}

/* ---- shapes of values ---- */

enum { AXES = 3 };

/* From the last axis on: equal sizes, one of the batch's of size 1, or none of it. Why it is refused; NULL: it is
 * not. */
static const char *refusal(int n, const int64_t *x, int nb, const int64_t *b, int64_t *out) {
  for (int i = 1; i <= (n > nb ? n : nb); i++) {
    int64_t own = i <= n ? x[n - i] : 0, of = i <= nb ? b[nb - i] : 0;
    out[(n > nb ? n : nb) - i] = i > n || (own == 1 && i <= nb) ? of : own;
    if (i > n || i > nb || own == of) continue;
    if (own == 1) return "would be stretched along an axis of size 1 (say so with :broadcast_to)";
    if (of != 1) return "must broadcast with the batch";
    if (n < nb) return "has fewer axes than the batch and differs from it";
  }
  return NULL;
}

static void shapes(C *c) {
  static const int64_t size[][AXES] = {{0},    {1},       {3},       {2},       {2, 3}, {1, 3}, {2, 1},
                                       {1, 1}, {4, 2, 3}, {4, 1, 3}, {1, 2, 1}, {0},    {2, 0}};
  static const int axes[] = {0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 1, 2};
  enum { KINDS = sizeof axes / sizeof *axes };
  for (int a = 0; a < KINDS; a++)
    for (int b = 0; b < KINDS; b++) {
      size_t mark = pn_scope_open(c);
      int64_t lead[AXES];
      T *p[] = {pn_zeros(c, PN_FLOAT64, axes[b], size[b]), pn_scalar(c, PN_FLOAT64, 2)};
      pn_dist *d = pn_dist_new(c, "normal", 2, NULL, p);
      T *y = pn_dist_log_prob(c, d, pn_zeros(c, PN_FLOAT64, axes[a], size[a]));
      const char *why = refusal(axes[a], size[a], axes[b], size[b], lead);
      if (why) {
        char of[2][PNI_SHAPE_TEXT], want[300];
        snprintf(want, sizeof want, "normal: log_prob: x %s, got shape %s for batch %s and event []", why,
                 pni_shape_text(axes[a], size[a], of[0]), pni_shape_text(axes[b], size[b], of[1]));
        CHECK(!y && pn_context_status(c) == PN_SHAPE);
        CHECK_STR(pn_context_message(c), want);
        pn_context_clear_error(c);
      } else {
        int n = axes[a] > axes[b] ? axes[a] : axes[b];
        CHECK(y && pn_tensor_ndim(y) == n && memcmp(pn_tensor_shape(y), lead, (size_t)n * sizeof *lead) == 0);
        for (int64_t i = 0; y && i < pn_tensor_numel(y); i++)
          CHECK_NEAR(pni_element(y, i), -log(2) - 0.5 * log(2 * acos(-1)), 1e-14);
      }
      pn_dist_unref(d);
      pn_scope_close(c, mark);
    }
}

int main(void) {
  static const int64_t lengths[] = {1, 2, 255, 256, 257, 600};
  C *c = pn_context_new(&(pn_context_config){.threads = 1});
  for (size_t r = 0; r < sizeof row / sizeof *row; r++)
    for (int i = 0; i < BATCH; i += 2)
      for (int way = 0; way < 4; way++) one_of(c, r, i, way & 1 ? PN_FLOAT32 : PN_FLOAT64, way & 2);
  for (int k = 0; k < pni_constraint_count(); k++)
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths && pni_constraint_at(k)->rank == 0; n++)
      for (int dtype = PN_FLOAT64; dtype <= PN_FLOAT32; dtype++)
        numbers(c, pni_constraint_at(k), (pn_dtype)dtype, lengths[n]);
  whole_numbers(c);
  shapes(c);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  CHECK_DONE();
}
