/* fourier.c: see fourier.h. */
#include <string.h>
#include "fourier.h"
#include "fourier_kernel.h"

/* Items of a shard, between two of which a transform looks at the clock; passes of any length below
 * PNI_FOURIER_MOST. */
enum { SHARD = 1 << 14, MOST_PASSES = 32 };

struct pni_fourier {
  int64_t n;
  const pni_fourier_kernels *kernels;
  int passes; /* 0: by convolution with the chirp e^(pi i k^2 / n) */
  pni_fourier_pass pass[MOST_PASSES];
  pni_pair spare;        /* [n], or of the convolution's length */
  pni_pair chirp, image; /* e^(-pi i k^2 / n) [n]; the transform of its conjugate, with 1 / length */
  pni_fourier *inner;    /* of the convolution */
  char *room;
  size_t real;
};

struct pni_real_fourier {
  int64_t n, half; /* half: n / 2 of an even n, else 0 */
  pni_fourier *whole;
  pni_pair turn; /* of an even n; else room for n numbers */
  char *room;
  size_t real;
};

static const pni_fourier_kernels *kernels_of(int dtype) {
  return dtype == PN_FLOAT64 ? &pni_fourier_kernels_f64 : &pni_fourier_kernels_f32;
}

static size_t real_of(int dtype) { return dtype == PN_FLOAT64 ? sizeof(double) : sizeof(float); }

/* The next 2 n numbers of a room. */
static pni_pair take(char **at, size_t real, int64_t n) {
  pni_pair p = {*at, *at + (size_t)n * real};
  *at += 2 * (size_t)n * real;
  return p;
}

static pni_pair swapped(pni_pair z) { return (pni_pair){z.im, z.re}; }

/* ---- lengths ---- */

static int64_t without(int64_t n, int prime) {
  while (n % prime == 0) n /= prime;
  return n;
}

static bool is_smooth(int64_t n) { return without(without(without(n, 2), 3), 5) == 1; }

int64_t pni_fourier_fast_length(int64_t n) {
  int64_t best = 2;
  while (best < n) best *= 2;
  for (int64_t five = 1; five < best; five *= 5)
    for (int64_t three = five; three < best; three *= 3) {
      int64_t m = 2 * three;
      while (m < n) m *= 2;
      if (m < best) best = m;
    }
  return best;
}

/* ---- plans ---- */

static pn_status find_roots(pn_context *c, const pni_fourier_kernels *k, pni_roots r, int64_t count) {
  return pni_parallel(c, count, SHARD / 4, k->roots, &r);
}

/* The radix of the next pass of `left` numbers. */
static int next_radix(int64_t left) { return left % 4 == 0 ? 4 : left % 5 == 0 ? 5 : left % 3 == 0 ? 3 : 2; }

static int64_t count_turns(int64_t n) {
  int64_t sum = 0;
  for (int64_t left = n; left > 1;) {
    int radix = next_radix(left);
    left /= radix;
    sum += (radix - 1) * left;
  }
  return sum;
}

static pn_status plan_passes(pn_context *c, pni_fourier *f, char *at) {
  int64_t stride = 1;
  f->spare = take(&at, f->real, f->n);
  for (int64_t left = f->n; left > 1;) {
    int radix = next_radix(left);
    int64_t rows = left / radix;
    pni_fourier_pass *p = &f->pass[f->passes++];
    *p = (pni_fourier_pass){.radix = radix, .rows = rows, .stride = stride};
    p->turn = take(&at, f->real, (radix - 1) * rows);
    for (int k = 1; k < radix; k++) {
      size_t off = (size_t)((k - 1) * rows) * f->real;
      pni_roots r = {.to = {(char *)p->turn.re + off, (char *)p->turn.im + off}, .n = left, .step = k};
      if (find_roots(c, f->kernels, r, rows)) return c->status;
    }
    left = rows;
    stride *= radix;
  }
  return PN_OK;
}

/* With j k = (j^2 + k^2 - (j - k)^2) / 2:  X_k = h_k sum_j (x_j h_j) conj(h_(k - j)),  h_k = e^(-pi i k^2 / n). */
static pn_status plan_chirp(pn_context *c, pni_fourier *f, char *at) {
  int64_t length = f->inner->n;
  f->chirp = take(&at, f->real, f->n);
  f->image = take(&at, f->real, length);
  f->spare = take(&at, f->real, length);
  if (find_roots(c, f->kernels, (pni_roots){.to = f->chirp, .n = 2 * f->n}, f->n)) return c->status;
  pni_fourier_mirror m = {.h = f->chirp, .to = f->image, .length = length};
  memset(f->image.re, 0, 2 * (size_t)length * f->real);
  if (pni_parallel(c, f->n, SHARD, f->kernels->mirror, &m)) return c->status;
  return pni_fourier_forward(c, f->inner, f->image.re, f->image.im);
}

static bool check_length(pn_context *c, int64_t n, int64_t most) {
  if (n < 1 || n > most)
    pni_fail(c, PN_SHAPE, "fourier: length must be from 1 to %lld, got %lld", (long long)most, (long long)n);
  return !pni_failed(c);
}

pni_fourier *pni_fourier_new(pn_context *c, int dtype, int64_t n) {
  if (!check_length(c, n, PNI_FOURIER_MOST)) return NULL;
  pni_fourier *f = pni_calloc(c, sizeof *f);
  if (!f) return NULL;
  *f = (pni_fourier){.n = n, .kernels = kernels_of(dtype), .real = real_of(dtype)};
  bool smooth = is_smooth(n);
  int64_t length = smooth ? n : pni_fourier_fast_length(2 * n - 1);
  int64_t numbers = smooth ? n + count_turns(n) : n + 2 * length;
  if (!smooth) f->inner = pni_fourier_new(c, dtype, length);
  if (smooth || f->inner) f->room = pni_alloc_array(c, numbers, 2 * f->real);
  if (f->room && (smooth ? plan_passes(c, f, f->room) : plan_chirp(c, f, f->room)) == PN_OK) return f;
  pni_fourier_free(c, f);
  return NULL;
}

void pni_fourier_free(pn_context *c, pni_fourier *f) {
  if (!f) return;
  pni_fourier_free(c, f->inner);
  pni_free(c, f->room);
  pni_free(c, f);
}

/* ---- complex transforms ---- */

/* x and the spare room in turn; after an odd number of passes the result is copied back. */
static pn_status run_passes(pn_context *c, pni_fourier *f, pni_pair x) {
  pni_pair from = x, to = f->spare;
  for (int k = 0; k < f->passes; k++) {
    pni_fourier_pass p = f->pass[k];
    p.from = from;
    p.to = to;
    if (pni_parallel(c, p.rows * p.stride, SHARD / 4, f->kernels->pass, &p)) return c->status;
    pni_pair filled = to;
    to = from;
    from = filled;
  }
  if (f->passes % 2 == 0) return PN_OK;
  memcpy(x.re, f->spare.re, (size_t)f->n * f->real);
  memcpy(x.im, f->spare.im, (size_t)f->n * f->real);
  return PN_OK;
}

static pn_status convolve(pn_context *c, pni_fourier *f, pni_pair x) {
  int64_t length = f->inner->n;
  size_t used = (size_t)f->n * f->real, unused = (size_t)(length - f->n) * f->real;
  pni_pair y = f->spare;
  pni_fourier_product first = {.a = x, .b = f->chirp, .to = y, .scale = 1};
  pni_fourier_product image = {.a = y, .b = f->image, .to = y, .scale = 1};
  pni_fourier_product last = {.a = y, .b = f->chirp, .to = x, .scale = 1 / (double)length};
  memset((char *)y.re + used, 0, unused);
  memset((char *)y.im + used, 0, unused);
  if (pni_parallel(c, f->n, SHARD, f->kernels->product, &first) || run_passes(c, f->inner, y) ||
      pni_parallel(c, length, SHARD, f->kernels->product, &image) || run_passes(c, f->inner, swapped(y)))
    return c->status;
  return pni_parallel(c, f->n, SHARD, f->kernels->product, &last);
}

static pn_status run(pn_context *c, pni_fourier *f, pni_pair x) {
  return f->inner ? convolve(c, f, x) : run_passes(c, f, x);
}

pn_status pni_fourier_forward(pn_context *c, pni_fourier *f, void *re, void *im) {
  return run(c, f, (pni_pair){re, im});
}

/* The transform of swapped parts is the inverse's with its parts swapped, times n. */
pn_status pni_fourier_inverse(pn_context *c, pni_fourier *f, void *re, void *im) {
  pni_fourier_scale s = {.x = {re, im}, .divisor = (double)f->n};
  if (run(c, f, (pni_pair){im, re})) return c->status;
  return pni_parallel(c, f->n, SHARD, f->kernels->scale, &s);
}

/* ---- real transforms ---- */

pni_real_fourier *pni_real_fourier_new(pn_context *c, int dtype, int64_t n) {
  if (!check_length(c, n, n % 2 ? PNI_FOURIER_MOST : 2 * PNI_FOURIER_MOST)) return NULL;
  pni_real_fourier *f = pni_calloc(c, sizeof *f);
  if (!f) return NULL;
  *f = (pni_real_fourier){.n = n, .half = n % 2 ? 0 : n / 2, .real = real_of(dtype)};
  int64_t numbers = f->half ? f->half / 2 + 1 : n;
  f->whole = pni_fourier_new(c, dtype, f->half ? f->half : n);
  char *at = f->room = f->whole ? pni_alloc_array(c, numbers, 2 * f->real) : NULL;
  if (at) f->turn = take(&at, f->real, numbers);
  pni_roots r = {.to = f->turn, .n = n, .step = 1};
  if (at && (!f->half || find_roots(c, f->whole->kernels, r, numbers) == PN_OK)) return f;
  pni_real_fourier_free(c, f);
  return NULL;
}

void pni_real_fourier_free(pn_context *c, pni_real_fourier *f) {
  if (!f) return;
  pni_fourier_free(c, f->whole);
  pni_free(c, f->room);
  pni_free(c, f);
}

pn_status pni_real_fourier_forward(pn_context *c, pni_real_fourier *f, const void *x, void *re, void *im) {
  const pni_fourier_kernels *k = f->whole->kernels;
  if (f->half) {
    pni_fourier_weave w = {.x = x, .z = {re, im}};
    pni_fourier_fold fold = {.z = {re, im}, .turn = f->turn, .half = f->half};
    if (pni_parallel(c, f->half, SHARD, k->part, &w) || run(c, f->whole, w.z)) return c->status;
    return pni_parallel(c, f->half / 2 + 1, SHARD, k->unfold, &fold);
  }
  size_t bytes = (size_t)f->n * f->real, wanted = (size_t)(f->n / 2 + 1) * f->real;
  memcpy(f->turn.re, x, bytes);
  memset(f->turn.im, 0, bytes);
  if (run(c, f->whole, f->turn)) return c->status;
  memcpy(re, f->turn.re, wanted);
  memcpy(im, f->turn.im, wanted);
  return PN_OK;
}

pn_status pni_real_fourier_inverse(pn_context *c, pni_real_fourier *f, void *re, void *im, void *x) {
  const pni_fourier_kernels *k = f->whole->kernels;
  if (f->half) {
    pni_fourier_weave w = {.out = x, .z = {re, im}};
    pni_fourier_fold fold = {.z = {re, im}, .turn = f->turn, .half = f->half};
    if (pni_parallel(c, f->half / 2 + 1, SHARD, k->fold, &fold) || pni_fourier_inverse(c, f->whole, re, im))
      return c->status;
    return pni_parallel(c, f->half, SHARD, k->weave, &w);
  }
  pni_fourier_spread s = {.half = {re, im}, .whole = f->turn, .n = f->n};
  if (pni_parallel(c, f->n / 2 + 1, SHARD, k->spread, &s) || pni_fourier_inverse(c, f->whole, f->turn.re, f->turn.im))
    return c->status;
  memcpy(x, f->turn.re, (size_t)f->n * f->real);
  return PN_OK;
}
