/* fourier_real.c: the loops of fourier_kernel.h. */
#include <math.h>
#include <stddef.h>
#include "../../base/type_real.h"
#include "fourier_kernel.h"

#define RE(pair) ((REAL *)(pair).re)
#define IM(pair) ((REAL *)(pair).im)

/* ---- butterflies ---- */

/* `count` of them: the j-th inputs of one stand `in` apart, its k-th results `out`; results of the next stand `each`
 * further, and its factors turn[k * rows], turn 0 or 1 further. Inlined with constants. */
typedef struct {
  const REAL *xr, *xi, *wr, *wi;
  REAL *yr, *yi;
  ptrdiff_t in, out, rows, count;
} row;

#define INLINE static inline __attribute__((always_inline)) void

/* y[k] = w^k (r + i m) */
#define PUT(k, r, m)                                                                                                   \
  do {                                                                                                                 \
    REAL cr_ = wr[((k)-1) * v.rows + i * turn], ci_ = wi[((k)-1) * v.rows + i * turn], r_ = (r), m_ = (m);             \
    yr[(k)*v.out + i * each] = r_ * cr_ - m_ * ci_;                                                                    \
    yi[(k)*v.out + i * each] = r_ * ci_ + m_ * cr_;                                                                    \
  } while (0)
#define PUT_FIRST(r, m) (yr[i * each] = (r), yi[i * each] = (m))
#define LOCALS                                                                                                         \
  const REAL *restrict xr = v.xr, *restrict xi = v.xi, *restrict wr = v.wr, *restrict wi = v.wi;                       \
  REAL *restrict yr = v.yr, *restrict yi = v.yi

INLINE radix_2(row v, ptrdiff_t each, ptrdiff_t turn) {
  LOCALS;
  for (ptrdiff_t i = 0; i < v.count; i++) {
    REAL ar = xr[i], ai = xi[i], br = xr[i + v.in], bi = xi[i + v.in];
    PUT_FIRST(ar + br, ai + bi);
    PUT(1, ar - br, ai - bi);
  }
}

INLINE radix_3(row v, ptrdiff_t each, ptrdiff_t turn) {
  LOCALS;
  const REAL sine = (REAL)0.86602540378443864676; /* of 2 pi / 3 */
  for (ptrdiff_t i = 0; i < v.count; i++) {
    REAL ar = xr[i], ai = xi[i], br = xr[i + v.in], bi = xi[i + v.in], cr = xr[i + 2 * v.in], ci = xi[i + 2 * v.in];
    REAL sr = br + cr, si = bi + ci, dr = sine * (br - cr), di = sine * (bi - ci);
    REAL hr = ar - (REAL)0.5 * sr, hi = ai - (REAL)0.5 * si;
    PUT_FIRST(ar + sr, ai + si);
    PUT(1, hr + di, hi - dr);
    PUT(2, hr - di, hi + dr);
  }
}

INLINE radix_4(row v, ptrdiff_t each, ptrdiff_t turn) {
  LOCALS;
  for (ptrdiff_t i = 0; i < v.count; i++) {
    REAL ar = xr[i], ai = xi[i], br = xr[i + v.in], bi = xi[i + v.in];
    REAL cr = xr[i + 2 * v.in], ci = xi[i + 2 * v.in], dr = xr[i + 3 * v.in], di = xi[i + 3 * v.in];
    REAL sr = ar + cr, si = ai + ci, er = ar - cr, ei = ai - ci; /* even inputs */
    REAL tr = br + dr, ti = bi + di, fr = br - dr, fi = bi - di; /* odd ones */
    PUT_FIRST(sr + tr, si + ti);
    PUT(1, er + fi, ei - fr);
    PUT(2, sr - tr, si - ti);
    PUT(3, er - fi, ei + fr);
  }
}

INLINE radix_5(row v, ptrdiff_t each, ptrdiff_t turn) {
  LOCALS;
  /* cosines and sines of 2 pi / 5 and 4 pi / 5 */
  const REAL c1 = (REAL)0.30901699437494742410, c2 = (REAL)-0.80901699437494742410;
  const REAL s1 = (REAL)0.95105651629515357212, s2 = (REAL)0.58778525229247312917;
  for (ptrdiff_t i = 0; i < v.count; i++) {
    REAL ar = xr[i], ai = xi[i], br = xr[i + v.in], bi = xi[i + v.in], cr = xr[i + 2 * v.in], ci = xi[i + 2 * v.in];
    REAL dr = xr[i + 3 * v.in], di = xi[i + 3 * v.in], er = xr[i + 4 * v.in], ei = xi[i + 4 * v.in];
    REAL pr = br + er, pi = bi + ei, qr = cr + dr, qi = ci + di; /* sums and differences of conjugate inputs */
    REAL mr = br - er, mi = bi - ei, nr = cr - dr, ni = ci - di;
    REAL ur = ar + (c1 * pr + c2 * qr), ui = ai + (c1 * pi + c2 * qi);
    REAL tr = ar + (c2 * pr + c1 * qr), ti = ai + (c2 * pi + c1 * qi);
    REAL gr = s1 * mr + s2 * nr, gi = s1 * mi + s2 * ni, hr = s2 * mr - s1 * nr, hi = s2 * mi - s1 * ni;
    PUT_FIRST(ar + (pr + qr), ai + (pi + qi));
    PUT(1, ur + gi, ui - gr);
    PUT(2, tr + hi, ti - hr);
    PUT(3, tr - hi, ti + hr);
    PUT(4, ur - gi, ui + gr);
  }
}

INLINE butterflies(int radix, row v, ptrdiff_t each, ptrdiff_t turn) {
  switch (radix) {
  case 2: radix_2(v, each, turn); break;
  case 3: radix_3(v, each, turn); break;
  case 4: radix_4(v, each, turn); break;
  default: radix_5(v, each, turn);
  }
}

static row row_at(const pni_fourier_pass *s, int64_t p, int64_t q, int64_t count) {
  int64_t x = q + s->stride * p, y = q + s->stride * s->radix * p;
  return (row){.xr = RE(s->from) + x,
               .xi = IM(s->from) + x,
               .wr = RE(s->turn) + p,
               .wi = IM(s->turn) + p,
               .yr = RE(s->to) + y,
               .yi = IM(s->to) + y,
               .in = (ptrdiff_t)(s->stride * s->rows),
               .out = (ptrdiff_t)s->stride,
               .rows = (ptrdiff_t)s->rows,
               .count = (ptrdiff_t)count};
}

/* The first pass: each butterfly has factors of its own. */
static void first_pass(const pni_fourier_pass *s, int64_t begin, int64_t end) {
  row v = row_at(s, begin, 0, end - begin);
  v.out = 1;
  switch (s->radix) {
  case 2: radix_2(v, 2, 1); break;
  case 3: radix_3(v, 3, 1); break;
  case 4: radix_4(v, 4, 1); break;
  default: radix_5(v, 5, 1);
  }
}

static void pass(void *data, int64_t begin, int64_t end) {
  const pni_fourier_pass *s = data;
  if (s->stride == 1) {
    first_pass(s, begin, end);
    return;
  }
  int64_t p = begin / s->stride, q = begin % s->stride;
  for (int64_t left = end - begin, n; left > 0; left -= n, p++, q = 0) {
    n = s->stride - q < left ? s->stride - q : left;
    butterflies(s->radix, row_at(s, p, q, n), 1, 0);
  }
}

/* ---- roots of unity ---- */

/* The angle is brought into an eighth of the circle by whole numbers, so that it is rounded once. */
static void root(int64_t k, int64_t n, REAL *re, REAL *im) {
  const double pi = 3.14159265358979323846;
  bool lower = 2 * k > n;
  if (lower) k = n - k;
  bool left = 4 * k > n;
  int64_t half = left ? n - 2 * k : 2 * k; /* pi half / n, at most a quarter of the circle */
  bool steep = 4 * half > n;
  double a = steep ? pi * ((double)(n - 2 * half) / (double)(2 * n)) : pi * ((double)half / (double)n);
  double c = steep ? sin(a) : cos(a), s = steep ? cos(a) : sin(a);
  *re = (REAL)(left ? -c : c);
  *im = (REAL)(lower ? s : -s);
}

static void roots(void *data, int64_t begin, int64_t end) {
  const pni_roots *r = data;
  for (int64_t k = begin; k < end; k++) root(r->step ? k * r->step : k * k % r->n, r->n, RE(r->to) + k, IM(r->to) + k);
}

/* ---- between passes ---- */

static void product(void *data, int64_t begin, int64_t end) {
  const pni_fourier_product *p = data;
  const REAL *ar = RE(p->a), *ai = IM(p->a), *br = RE(p->b), *bi = IM(p->b), by = (REAL)p->scale;
  REAL *re = RE(p->to), *im = IM(p->to);
  for (int64_t k = begin; k < end; k++) {
    REAL r = ar[k] * br[k] - ai[k] * bi[k], m = ar[k] * bi[k] + ai[k] * br[k];
    re[k] = by * r;
    im[k] = by * m;
  }
}

static void scale(void *data, int64_t begin, int64_t end) {
  const pni_fourier_scale *s = data;
  REAL *re = RE(s->x), *im = IM(s->x), divisor = (REAL)s->divisor;
  for (int64_t k = begin; k < end; k++) {
    re[k] /= divisor;
    im[k] /= divisor;
  }
}

static void mirror(void *data, int64_t begin, int64_t end) {
  const pni_fourier_mirror *m = data;
  for (int64_t k = begin; k < end; k++) {
    int64_t back = k == 0 ? 0 : m->length - k;
    RE(m->to)[k] = RE(m->to)[back] = RE(m->h)[k];
    IM(m->to)[k] = IM(m->to)[back] = -IM(m->h)[k];
  }
}

static void spread(void *data, int64_t begin, int64_t end) {
  const pni_fourier_spread *s = data;
  for (int64_t k = begin; k < end; k++) {
    int64_t back = k == 0 ? 0 : s->n - k;
    REAL im = k == 0 ? 0 : IM(s->half)[k];
    RE(s->whole)[k] = RE(s->whole)[back] = RE(s->half)[k];
    IM(s->whole)[back] = -im;
    IM(s->whole)[k] = im;
  }
}

/* With A = Z_k, B = conj Z_(h-k), w = e^(-2 pi i k / 2h), E = (A + B) / 2 and O = (A - B) / 2i:
 *   X_k = E + w O,   X_(h-k) = conj(E - w O),   Z_h = Z_0. */
static void unfold(void *data, int64_t begin, int64_t end) {
  const pni_fourier_fold *f = data;
  REAL *re = RE(f->z), *im = IM(f->z);
  const REAL *wr = RE(f->turn), *wi = IM(f->turn);
  for (int64_t k = begin; k < end; k++) {
    int64_t l = f->half - k, at = k == 0 ? 0 : l;
    REAL er = (re[k] + re[at]) / 2, ei = (im[k] - im[at]) / 2;
    REAL o_r = (im[k] + im[at]) / 2, oi = (re[at] - re[k]) / 2;
    REAL tr = wr[k] * o_r - wi[k] * oi, ti = wr[k] * oi + wi[k] * o_r;
    re[k] = er + tr;
    im[k] = ei + ti;
    re[l] = er - tr;
    im[l] = ti - ei;
  }
}

/* Z_k = E + i O, Z_(h-k) = conj(E - i O) with E = (X_k + conj X_(h-k)) / 2 and w O = (X_k - conj X_(h-k)) / 2. */
static void fold(void *data, int64_t begin, int64_t end) {
  const pni_fourier_fold *f = data;
  REAL *re = RE(f->z), *im = IM(f->z);
  const REAL *wr = RE(f->turn), *wi = IM(f->turn);
  for (int64_t k = begin; k < end; k++) {
    int64_t l = f->half - k;
    REAL xi = k == 0 ? 0 : im[k], yi = k == 0 ? 0 : im[l];
    REAL er = (re[k] + re[l]) / 2, ei = (xi - yi) / 2, tr = (re[k] - re[l]) / 2, ti = (xi + yi) / 2;
    REAL o_r = wr[k] * tr + wi[k] * ti, oi = wr[k] * ti - wi[k] * tr;
    re[k] = er - oi;
    im[k] = ei + o_r;
    if (k == 0) continue;
    re[l] = er + oi;
    im[l] = o_r - ei;
  }
}

static void part(void *data, int64_t begin, int64_t end) {
  const pni_fourier_weave *w = data;
  const REAL *x = w->x;
  REAL *re = RE(w->z), *im = IM(w->z);
  for (int64_t k = begin; k < end; k++) {
    re[k] = x[2 * k];
    im[k] = x[2 * k + 1];
  }
}

static void weave(void *data, int64_t begin, int64_t end) {
  const pni_fourier_weave *w = data;
  REAL *x = w->out;
  const REAL *re = RE(w->z), *im = IM(w->z);
  for (int64_t k = begin; k < end; k++) {
    x[2 * k] = re[k];
    x[2 * k + 1] = im[k];
  }
}

const pni_fourier_kernels TYPED(pni_fourier_kernels) = {.pass = pass,
                                                        .roots = roots,
                                                        .product = product,
                                                        .scale = scale,
                                                        .mirror = mirror,
                                                        .spread = spread,
                                                        .unfold = unfold,
                                                        .fold = fold,
                                                        .part = part,
                                                        .weave = weave};
