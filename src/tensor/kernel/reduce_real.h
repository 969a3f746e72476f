/*
** reduce_real.h: reduction bodies, included once per type with REAL, IS_FLOAT and, for floats,
** VECTOR (the vector functions of the type) and ROWS (its short rows).
** Sums run over blocks that are added pairwise, so the error grows with log n.
*/
#include <math.h>
#include "../../base/processor.h"
#include "../../base/span.h"
#include "reduce.h"
#include "../lane/short_rows.h"
#include "../../math/vector/vector.h"

enum { BLOCK = PNI_PIECE };

static REAL block_sum(const REAL *x, int64_t n) {
  REAL lane[8] = {0};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    PNI_UNROLL
    for (int k = 0; k < 8; k++) lane[k] += x[i + k];
  }
  REAL s = ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
  for (; i < n; i++) s += x[i];
  return s;
}

/* How many whole blocks of n > BLOCK elements are summed apart from the others. */
static int64_t left_blocks(int64_t n) { return n < 2 * BLOCK ? 1 : n / 2 / BLOCK; }

static REAL pairwise(const REAL *x, int64_t n) {
  if (n <= BLOCK) return block_sum(x, n);
  int64_t half = left_blocks(n) * BLOCK;
  return pairwise(x, half) + pairwise(x + half, n - half);
}

#if IS_FLOAT
/* Rows of at most PNI_SHORT_ROWS_LONGEST elements, whatever their number, give what lane/short_rows.h gives. */
static void short_rows(pni_short_rows_problem kind, const void *x, int64_t rows, int64_t n, void *out) {
  ROWS(&(pni_short_rows){.kind = kind, .n = (int)n, .x = x, .out = out}, 0, rows);
}

/* One short row: the same additions as there. */
static REAL short_sum(const REAL *x, int64_t n) {
  REAL s[4] = {0};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    PNI_UNROLL
    for (int k = 0; k < 4; k++) s[k] += x[i + k];
  }
  for (int k = 0; i < n; i++, k++) s[k] += x[i];
  return (s[0] + s[2]) + (s[1] + s[3]);
}
static REAL sum(const REAL *x, int64_t n) { return n <= PNI_SHORT_ROWS_LONGEST ? short_sum(x, n) : pairwise(x, n); }
#define SHORT(kind, out, least)                                                                                        \
  if (n <= PNI_SHORT_ROWS_LONGEST && rows >= (least)) {                                                                \
    short_rows(kind, x_, rows, n, out);                                                                                \
    return;                                                                                                            \
  }
#else
static REAL sum(const REAL *x, int64_t n) { return pairwise(x, n); }
#define SHORT(kind, out, least)
#endif

/* `least`: so many short rows go together. */
#define EACH_ROW(name, kind, least, one)                                                                               \
  static void name(const void *x_, int64_t rows, int64_t n, void *out) {                                               \
    SHORT(kind, out, least)                                                                                            \
    const REAL *x = x_;                                                                                                \
    for (int64_t i = 0; i < rows; i++, x += n) ((REAL *)out)[i] = one(x, n);                                           \
  }

static REAL product(const REAL *x, int64_t n) {
  REAL p = 1;
  for (int64_t i = 0; i < n; i++) p *= x[i];
  return p;
}

#define LINE(name, expr)                                                                                               \
  PNI_EACH_LEVEL(name, (const void *x_, int64_t width, void *acc_), (x_, width, acc_)) {                               \
    const REAL *restrict x = x_;                                                                                       \
    REAL *restrict acc = acc_;                                                                                         \
    for (int64_t i = 0; i < width; i++) {                                                                              \
      REAL a = acc[i], v = x[i];                                                                                       \
      acc[i] = (expr);                                                                                                 \
    }                                                                                                                  \
  }
LINE(sum_line, a + v)
LINE(prod_line, a *v)
LINE(max_line, v > a || v != v ? v : a)
LINE(min_line, v < a || v != v ? v : a)

/* NaN wins: it is neither smaller nor larger than anything, and it stays. Rows are lines of WIDE, the last of which may
 * begin within the one before it, and then halves of a line. */
enum { WIDE = 32 };
#define EXTREME(name, op)                                                                                              \
  PNI_EACH_LEVEL_OF(REAL, name, (const REAL *restrict x, int64_t n), (x, n)) {                                         \
    REAL wide[WIDE], m = x[0];                                                                                         \
    if (n < WIDE) {                                                                                                    \
      for (int64_t i = 1; i < n; i++) m = x[i] op m || x[i] != x[i] ? x[i] : m;                                        \
      return m;                                                                                                        \
    }                                                                                                                  \
    for (int k = 0; k < WIDE; k++) wide[k] = x[k];                                                                     \
    for (int64_t i = WIDE; i < n; i += WIDE) {                                                                         \
      int64_t at = i + WIDE < n ? i : n - WIDE;                                                                        \
      for (int k = 0; k < WIDE; k++) {                                                                                 \
        REAL a = wide[k], v = x[at + k];                                                                               \
        wide[k] = v op a || v != v ? v : a;                                                                            \
      }                                                                                                                \
    }                                                                                                                  \
    for (int half = WIDE / 2; half > 0; half /= 2)                                                                     \
      for (int k = 0; k < half; k++) {                                                                                 \
        REAL a = wide[k], v = wide[k + half];                                                                          \
        wide[k] = v op a || v != v ? v : a;                                                                            \
      }                                                                                                                \
    return wide[0];                                                                                                    \
  }
EXTREME(largest, >)
EXTREME(smallest, <)
#undef EXTREME

EACH_ROW(sum_rows, PNI_SHORT_ROWS_SUM, 4, sum)
EACH_ROW(max_rows, PNI_SHORT_ROWS_MAX, 4, largest)
EACH_ROW(min_rows, PNI_SHORT_ROWS_MIN, 4, smallest)

static void prod_rows(const void *x_, int64_t rows, int64_t n, void *out) {
  const REAL *x = x_;
  for (int64_t i = 0; i < rows; i++, x += n) ((REAL *)out)[i] = product(x, n);
}

#if IS_FLOAT
static void sum_parts(const void *x_, int64_t n, void *part) {
  const REAL *x = x_;
  REAL *p = part;
  for (int64_t at = 0; at < n; at += BLOCK) *p++ = block_sum(x + at, n - at < BLOCK ? n - at : BLOCK);
}

/* What pairwise does with the sums of its blocks. */
static REAL joined(const REAL *part, int64_t n) {
  if (n <= BLOCK) return *part;
  int64_t half = left_blocks(n);
  return joined(part, half * BLOCK) + joined(part + half, n - half * BLOCK);
}

static void sum_join(const void *part, int64_t n, void *out) { *(REAL *)out = joined(part, n); }

PNI_EACH_LEVEL(shift, (const REAL *restrict x, int64_t n, REAL m, REAL *restrict out), (x, n, m, out)) {
  for (int64_t i = 0; i < n; i++) out[i] = x[i] - m;
}

PNI_EACH_LEVEL(add_to_lanes, (const REAL *restrict e, int64_t n, double *restrict lane), (e, n, lane)) {
  double sum[8];
  for (int k = 0; k < 8; k++) sum[k] = lane[k];
  for (int64_t i = 0; i < n; i += 8)
    for (int k = 0; k < 8; k++) sum[k] += (double)e[i + k];
  for (int k = 0; k < 8; k++) lane[k] = sum[k];
}

PNI_EACH_LEVEL(divide, (REAL * x, int64_t n, REAL scale), (x, n, scale)) {
  for (int64_t i = 0; i < n; i++) x[i] /= scale;
}

/* sum e^(x - m) over n elements `step` apart, which y receives (as far apart) unless it is NULL. Float32 sums keep
 * their digits in double. */
static double exp_sum(pni_watch *w, const REAL *x, int64_t n, int64_t step, REAL m, REAL *y) {
  double lane[8] = {0};
  for (int64_t at = 0; at < n && !(w && pni_watch_leaves(w, 4 * BLOCK)); at += BLOCK) {
    REAL shifted[BLOCK], e[BLOCK];
    int64_t size = n - at < BLOCK ? n - at : BLOCK, padded = (size + 7) / 8 * 8;
    if (step == 1)
      shift(x + at, size, m, shifted);
    else
      for (int64_t i = 0; i < size; i++) shifted[i] = x[(at + i) * step] - m;
    VECTOR(PNI_VECTOR_exp, shifted, 1, e, size);
    for (int64_t i = size; i < padded; i++) e[i] = 0;
    add_to_lanes(e, padded, lane);
    if (y && step == 1)
      memcpy(y + at, e, (size_t)size * sizeof *e);
    else
      for (int64_t i = 0; y && i < size; i++) y[(at + i) * step] = e[i];
  }
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* log sum e^x = m + log sum e^(x - m); -inf if all are, NaN if one is. */
static REAL logsumexp(const REAL *x, int64_t n) {
  REAL m = largest(x, n);
  return isfinite(m) ? (REAL)((double)m + log(exp_sum(NULL, x, n, 1, m, NULL))) : m;
}
EACH_ROW(logsumexp_rows, PNI_SHORT_ROWS_LOGSUMEXP, 1, logsumexp)

static void cumsum_scan(pni_watch *w, const void *x_, void *y_, int64_t n, int64_t step) {
  const REAL *x = x_;
  REAL *y = y_;
  double s = 0; /* keeps float32 sums from drifting */
  PNI_LOOKING(w, i, 0, n) y[i * step] = (REAL)(s += (double)x[i * step]);
}

static REAL strided_max(pni_watch *w, const REAL *x, int64_t n, int64_t step) {
  REAL m = x[0];
  for (int64_t at = 0, end; step == 1 && at < n && pni_watch_lets(w, at, n, &end); at = end) {
    REAL some = largest(x + at, end - at);
    m = some > m || some != some ? some : m;
  }
  if (step == 1) return m;
  PNI_LOOKING(w, i, 1, n) m = x[i * step] > m || x[i * step] != x[i * step] ? x[i * step] : m;
  return m;
}

static void softmax_scan(pni_watch *w, const void *x_, void *y_, int64_t n, int64_t step) {
  const REAL *x = x_;
  REAL *y = y_, scale = (REAL)exp_sum(w, x, n, step, strided_max(w, x, n, step), y);
  if (step != 1)
    PNI_LOOKING(w, i, 0, n) y[i * step] /= scale;
  else
    for (int64_t at = 0, end; at < n && pni_watch_lets(w, at, n, &end); at = end) divide(y + at, end - at, scale);
}

static void log_softmax_scan(pni_watch *w, const void *x_, void *y_, int64_t n, int64_t step) {
  const REAL *x = x_;
  REAL *y = y_, m = strided_max(w, x, n, step);
  REAL z = (REAL)log(exp_sum(w, x, n, step, m, NULL)); /* apart from m, which may be far larger */
  PNI_LOOKING(w, i, 0, n) y[i * step] = (x[i * step] - m) - z;
}
#else
static void cumsum_scan(pni_watch *w, const void *x_, void *y_, int64_t n, int64_t step) {
  const REAL *x = x_;
  REAL *y = y_, s = 0;
  PNI_LOOKING(w, i, 0, n) y[i * step] = s += x[i * step];
}
#endif

static int64_t argmax_row(pni_watch *w, const void *x_, int64_t n, int64_t step) {
  const REAL *x = x_;
  int64_t best = 0;
  PNI_LOOKING(w, i, 1, n) {
    if (x[best * step] != x[best * step]) return best;
    if (x[i * step] > x[best * step] || x[i * step] != x[i * step]) best = i;
  }
  return best;
}

static int64_t argmin_row(pni_watch *w, const void *x_, int64_t n, int64_t step) {
  const REAL *x = x_;
  int64_t best = 0;
  PNI_LOOKING(w, i, 1, n) {
    if (x[best * step] != x[best * step]) return best;
    if (x[i * step] < x[best * step] || x[i * step] != x[i * step]) best = i;
  }
  return best;
}

/* ---- recurrences ---- */

#if IS_FLOAT
#define STATE double /* keeps float32 from drifting */

/* y = m + log s, where m is the largest x so far and s the sum of e^(x - m). */
static void logcumsumexp_run(pni_watch *w, const pni_run *r) {
  const REAL *x = r->x;
  REAL *y = r->y;
  double m = -INFINITY, s = 0;
  PNI_LOOKING(w, i, 0, r->n) {
    double v = (double)x[i * r->step];
    if (v > m || v != v) {
      s = m == -INFINITY ? 1 : s * exp(m - v) + 1;
      m = v;
    } else if (m != -INFINITY && m != INFINITY) {
      s += exp(v - m);
    }
    y[i * r->step] = (REAL)(s > 0 ? m + log(s) : m);
  }
}
#else
#define STATE REAL
#endif

static void recurrence_run(pni_watch *w, const pni_run *r) {
  const REAL *x = r->x, *a = r->a;
  REAL *y = r->y;
  STATE s = (STATE)x[0];
  y[0] = x[0];
  PNI_LOOKING(w, i, 1, r->n) {
    s = (STATE)a[i * r->a_step] * s + (STATE)x[i * r->step];
    y[i * r->step] = (REAL)s;
  }
}
#undef STATE

static void argcummax_run(pni_watch *w, const pni_run *r) {
  const REAL *x = r->x;
  int64_t *y = r->y, best = 0;
  PNI_LOOKING(w, i, 0, r->n) {
    if (x[i * r->step] >= x[best * r->step] || x[i * r->step] != x[i * r->step]) best = i;
    y[i * r->step] = best;
  }
}

static void argcummin_run(pni_watch *w, const pni_run *r) {
  const REAL *x = r->x;
  int64_t *y = r->y, best = 0;
  PNI_LOOKING(w, i, 0, r->n) {
    if (x[i * r->step] <= x[best * r->step] || x[i * r->step] != x[i * r->step]) best = i;
    y[i * r->step] = best;
  }
}
