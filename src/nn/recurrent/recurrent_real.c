/*
** recurrent_real.c: the recurrences. A shard is a range of rows; its scratch is its
** rows' part of `room`.
*/
#include "../../tensor/product/gemm.h"
#include <string.h>
#include "../../base/processor.h"
#include "../../base/subnormal.h"
#include "../../base/type_real.h"
#include "../../math/vector/vector.h"
#include "recurrent.h"

#define VECTOR(f, ...) TYPED(pni_vector)(PNI_VECTOR_##f, __VA_ARGS__)

/* out [m, n] (+)= x [m, k] w [k, n], or some rows of it where the watch says that the rest is to be left. */
static void multiply(const pni_recurrence *j, pni_watch *w, int64_t m, int64_t n, int64_t k, const REAL *x, bool add,
                     REAL *out) {
  enum { MOST = 1 << 29, PER_STEP = 16 }; /* multiplications at a time, some hundredths of a second, and in a step */
  int64_t most = MOST / (n * k) + 1;
  for (int64_t i = 0; i < m; i += most) {
    int64_t rows = m - i < most ? m - i : most;
    if (i && pni_watch_leaves(w, most * n * k / PER_STEP)) return;
    unsigned before = FLUSH();
    if (j->packed)
      pni_gemm_packed(sizeof(REAL) == 4, rows, n, k, x + i * k, j->packed, add, out + i * n);
    else
      GEMM(CblasNoTrans, CblasNoTrans, (int)rows, (int)n, (int)k, 1, x + i * k, (int)k, j->w, (int)n, add ? 1 : 0,
           out + i * n, (int)n);
    KEEP(before);
  }
}

/* Rows begin .. of step t of an array [T, B, width]. */
static REAL *at(const pni_recurrence *j, const void *p, int64_t t, int64_t begin, int64_t width) {
  return (REAL *)(uintptr_t)p + (t * j->batch + begin) * width;
}

/* ---- GRU ---- */

/* One step's gates: s [rows, 2 H] holds r and z, n and q = gh_n [rows, H], all kept for the adjoint; the arguments of
 * the sigmoids in a, that of tanh in p. */
typedef struct {
  REAL *a, *p, *s, *n, *q;
} gru_gates;

static void gru_step(const pni_recurrence *j, int64_t t, int64_t begin, gru_gates *g) {
  REAL *step = at(j, j->gates, t, 0, 4 * j->hidden);
  g->s = step + begin * 2 * j->hidden;
  g->n = step + (j->batch * 2 + begin) * j->hidden;
  g->q = step + (j->batch * 3 + begin) * j->hidden;
}

/* A row of a step, within a function of each level. */
#if PNI_CPU_X86
#define EACH_ROW PNI_ANY_LEVEL
#else
#define EACH_ROW static inline
#endif

EACH_ROW void gru_gate_row(int64_t n, const REAL *restrict x, const REAL *restrict y, REAL *restrict out) {
  for (int64_t k = 0; k < n; k++) out[k] = x[k] + y[k];
}
PNI_EACH_LEVEL(gru_gate_sums, (gru_gates g, int64_t rows, int64_t hidden, const REAL *gi, const REAL *gh),
               (g, rows, hidden, gi, gh)) {
  for (int64_t i = 0; i < rows; i++)
    gru_gate_row(2 * hidden, gi + i * 3 * hidden, gh + i * 3 * hidden, g.a + i * 2 * hidden);
}

EACH_ROW void gru_new_row(int64_t n, const REAL *restrict x, const REAL *restrict r, const REAL *restrict y,
                          REAL *restrict q, REAL *restrict out) {
  for (int64_t k = 0; k < n; k++) {
    q[k] = y[k];
    out[k] = x[k] + r[k] * y[k];
  }
}
PNI_EACH_LEVEL(gru_new_sums, (gru_gates g, int64_t rows, int64_t hidden, const REAL *gi, const REAL *gh),
               (g, rows, hidden, gi, gh)) {
  for (int64_t i = 0; i < rows; i++)
    gru_new_row(hidden, gi + (i * 3 + 2) * hidden, g.s + i * 2 * hidden, gh + (i * 3 + 2) * hidden, g.q + i * hidden,
                g.p + i * hidden);
}

/* out = n + z (h - n) */
EACH_ROW void gru_mix_row(int64_t hidden, const REAL *restrict n, const REAL *restrict z, const REAL *restrict h,
                          REAL *restrict out) {
  for (int64_t k = 0; k < hidden; k++) out[k] = n[k] + z[k] * (h[k] - n[k]);
}

PNI_EACH_LEVEL(gru_mix, (gru_gates g, int64_t rows, int64_t hidden, const REAL *h, REAL *out),
               (g, rows, hidden, h, out)) {
  for (int64_t i = 0; i < rows; i++)
    gru_mix_row(hidden, g.n + i * hidden, g.s + i * 2 * hidden + hidden, h + i * hidden, out + i * hidden);
}

static void gru(void *data, int64_t begin, int64_t end) {
  const pni_recurrence *j = data;
  pni_watch watch = {.c = j->context};
  int64_t hidden = j->hidden, rows = end - begin, width = 3 * hidden;
  REAL *gh = (REAL *)j->room + begin * hidden * PNI_RECURRENT_ROOM;
  gru_gates g = {.a = gh + rows * width, .p = gh}; /* p stands where gh was read before */
  const REAL *h = at(j, j->h0, 0, begin, hidden);
  for (int64_t t = 0; t < j->steps && !pni_watch_leaves(&watch, rows * hidden * hidden); t++) {
    REAL *out = at(j, j->h, t, begin, hidden);
    for (int64_t i = 0; i < rows; i++) memcpy(gh + i * width, j->b, (size_t)width * sizeof *gh);
    multiply(j, &watch, rows, width, hidden, h, true, gh);
    const REAL *gi = at(j, j->gi, t, begin, width);
    gru_step(j, t, begin, &g);
    gru_gate_sums(g, rows, hidden, gi, gh);
    VECTOR(sigmoid, g.a, 1, g.s, 2 * rows * hidden);
    gru_new_sums(g, rows, hidden, gi, gh);
    VECTOR(tanh, g.p, 1, g.n, rows * hidden);
    gru_mix(g, rows, hidden, h, out);
    h = out;
  }
}

/* With d the gradient of h':
 *   da_n = d (1 - z) (1 - n^2)   da_z = d (h - n) z (1 - z)   da_r = da_n gh_n r (1 - r)
 * are those of the arguments of tanh and the sigmoids; gh_n gets da_n r, h itself d z + (gradient of gh) W. */
EACH_ROW void gru_back_row(int64_t n, const REAL *restrict reset, const REAL *restrict update, const REAL *restrict new,
                           const REAL *restrict q, const REAL *restrict before, const REAL *restrict given,
                           REAL *restrict carry, REAL *restrict r_gi, REAL *restrict z_gi, REAL *restrict n_gi,
                           REAL *restrict r_gh, REAL *restrict z_gh, REAL *restrict n_gh) {
  for (int64_t k = 0; k < n; k++) {
    REAL r = reset[k], z = update[k], v = new[k], d = carry[k] + given[k];
    REAL dn = d * (1 - z) * (1 - v * v), dz = d * (before[k] - v) * z * (1 - z);
    REAL dr = dn * q[k] * r * (1 - r);
    r_gi[k] = r_gh[k] = dr;
    z_gi[k] = z_gh[k] = dz;
    n_gi[k] = dn;
    n_gh[k] = dn * r;
    carry[k] = d * z;
  }
}

PNI_EACH_LEVEL(gru_back,
               (gru_gates g, int64_t rows, int64_t hidden, const REAL *h, REAL *carry, const REAL *given, REAL *dgi,
                REAL *dgh),
               (g, rows, hidden, h, carry, given, dgi, dgh)) {
  for (int64_t i = 0; i < rows; i++, dgi += 3 * hidden, dgh += 3 * hidden) {
    const REAL *s = g.s + i * 2 * hidden;
    gru_back_row(hidden, s, s + hidden, g.n + i * hidden, g.q + i * hidden, h + i * hidden, given + i * hidden,
                 carry + i * hidden, dgi, dgi + hidden, dgi + 2 * hidden, dgh, dgh + hidden, dgh + 2 * hidden);
  }
}

static void gru_adjoint(void *data, int64_t begin, int64_t end) {
  const pni_recurrence *j = data;
  pni_watch watch = {.c = j->context};
  int64_t hidden = j->hidden, rows = end - begin, width = 3 * hidden, size = rows * hidden;
  gru_gates g = {.a = NULL};
  REAL *restrict carry = at(j, j->dh0, 0, begin, hidden);
  memset(carry, 0, (size_t)size * sizeof *carry);
  for (int64_t t = j->steps - 1; t >= 0 && !pni_watch_leaves(&watch, rows * hidden * hidden); t--) {
    const REAL *h = t ? at(j, j->h, t - 1, begin, hidden) : at(j, j->h0, 0, begin, hidden);
    const REAL *d = at(j, j->dh_in, t, begin, hidden);
    REAL *dgh = at(j, j->dgh, t, begin, width);
    gru_step(j, t, begin, &g);
    gru_back(g, rows, hidden, h, carry, d, at(j, j->dgi, t, begin, width), dgh);
    multiply(j, &watch, rows, hidden, width, dgh, true, carry);
  }
}

/* ---- LSTM ---- */

/* One step's gates: s [rows, 3 H] holds i, f and o, g [rows, H], both kept for the adjoint; the arguments of the
 * sigmoids in a, all arguments, that of tanh and then tanh of the new c in e. */
typedef struct {
  REAL *a, *s, *g, *e;
} lstm_gates;

static lstm_gates lstm_room(REAL *room, int64_t rows, int64_t hidden) {
  return (lstm_gates){.a = room, .e = room + 3 * rows * hidden};
}

static void lstm_step(const pni_recurrence *j, int64_t t, int64_t begin, lstm_gates *l) {
  REAL *step = at(j, j->gates, t, 0, 4 * j->hidden);
  l->s = step + begin * 3 * j->hidden;
  l->g = step + (j->batch * 3 + begin) * j->hidden;
}

/* What e loses of a row was read with the row before it or in it. */
static void lstm_compute(lstm_gates l, int64_t rows, int64_t hidden) {
  REAL *a = l.a, *p = l.e;
  const REAL *gate = l.e;
  for (int64_t i = 0; i < rows; i++, gate += 4 * hidden, a += 3 * hidden, p += hidden) {
    memcpy(a, gate, (size_t)(2 * hidden) * sizeof *a);
    memcpy(a + 2 * hidden, gate + 3 * hidden, (size_t)hidden * sizeof *a);
    memcpy(p, gate + 2 * hidden, (size_t)hidden * sizeof *p);
  }
  VECTOR(sigmoid, l.a, 1, l.s, 3 * rows * hidden);
  VECTOR(tanh, l.e, 1, l.g, rows * hidden);
}

static void lstm(void *data, int64_t begin, int64_t end) {
  const pni_recurrence *j = data;
  pni_watch watch = {.c = j->context};
  int64_t hidden = j->hidden, rows = end - begin, width = 4 * hidden;
  lstm_gates l = lstm_room((REAL *)j->room + begin * hidden * PNI_RECURRENT_ROOM, rows, hidden);
  const REAL *h = at(j, j->h0, 0, begin, hidden), *c = at(j, j->c0, 0, begin, hidden);
  for (int64_t t = 0; t < j->steps && !pni_watch_leaves(&watch, rows * hidden * hidden); t++) {
    REAL *restrict out = at(j, j->h, t, begin, hidden), *restrict cell = at(j, j->c, t, begin, hidden);
    lstm_step(j, t, begin, &l);
    memcpy(l.e, at(j, j->gi, t, begin, width), (size_t)(rows * width) * sizeof *l.e);
    multiply(j, &watch, rows, width, hidden, h, true, l.e);
    lstm_compute(l, rows, hidden);
    for (int64_t i = 0; i < rows; i++)
      for (int64_t k = 0; k < hidden; k++) {
        int64_t e = i * hidden + k;
        const REAL *s = l.s + i * 3 * hidden + k;
        cell[e] = s[hidden] * c[e] + s[0] * l.g[e];
      }
    VECTOR(tanh, cell, 1, l.e, rows * hidden);
    for (int64_t i = 0; i < rows; i++)
      for (int64_t k = 0; k < hidden; k++)
        out[i * hidden + k] = l.s[i * 3 * hidden + 2 * hidden + k] * l.e[i * hidden + k];
    h = out;
    c = cell;
  }
}

/* With dh and dc the gradients of h' and of c' (through h': dh o (1 - tanh^2 c')):
 *   da_i = dc g i (1 - i)   da_f = dc c f (1 - f)   da_g = dc i (1 - g^2)   da_o = dh tanh(c') o (1 - o)
 * and c gets dc f, h gets da W. */
static void lstm_back(lstm_gates l, int64_t rows, int64_t hidden, const REAL *restrict before, const REAL *restrict dh,
                      REAL *restrict dc, REAL *restrict da) {
  for (int64_t r = 0; r < rows; r++, da += 4 * hidden)
    for (int64_t k = 0; k < hidden; k++) {
      int64_t e = r * hidden + k;
      const REAL *s = l.s + r * 3 * hidden + k;
      REAL i = s[0], f = s[hidden], o = s[2 * hidden], g = l.g[e], th = l.e[e];
      REAL d = dc[e] + dh[e] * o * (1 - th * th);
      da[k] = d * g * i * (1 - i);
      da[hidden + k] = d * before[e] * f * (1 - f);
      da[2 * hidden + k] = d * i * (1 - g * g);
      da[3 * hidden + k] = dh[e] * th * o * (1 - o);
      dc[e] = d * f;
    }
}

static void lstm_adjoint(void *data, int64_t begin, int64_t end) {
  const pni_recurrence *j = data;
  pni_watch watch = {.c = j->context};
  int64_t hidden = j->hidden, rows = end - begin, width = 4 * hidden, size = rows * hidden;
  lstm_gates l = lstm_room((REAL *)j->room + begin * hidden * PNI_RECURRENT_ROOM, rows, hidden);
  REAL *restrict dh = at(j, j->dh0, 0, begin, hidden), *restrict dc = at(j, j->dc0, 0, begin, hidden);
  memset(dh, 0, (size_t)size * sizeof *dh);
  memset(dc, 0, (size_t)size * sizeof *dc);
  for (int64_t t = j->steps - 1; t >= 0 && !pni_watch_leaves(&watch, rows * hidden * hidden); t--) {
    const REAL *before = t ? at(j, j->c, t - 1, begin, hidden) : at(j, j->c0, 0, begin, hidden);
    const REAL *restrict gh = at(j, j->dh_in, t, begin, hidden), *restrict gc = at(j, j->dc_in, t, begin, hidden);
    REAL *restrict da = at(j, j->dgi, t, begin, width);
    lstm_step(j, t, begin, &l);
    VECTOR(tanh, at(j, j->c, t, begin, hidden), 1, l.e, size);
    for (int64_t e = 0; e < size; e++) {
      dh[e] += gh[e];
      dc[e] += gc[e];
    }
    lstm_back(l, rows, hidden, before, dh, dc, da);
    multiply(j, &watch, rows, hidden, width, da, false, dh);
  }
}

const pni_recurrent_kernels TYPED(pni_recurrent) = {gru, gru_adjoint, lstm, lstm_adjoint};
