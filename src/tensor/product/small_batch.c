/*
** small_batch.c: batches of small products, one after another by the kernels of small_product.h. Where rows of y fill
** vectors that takes half as long as a lane for each product does, which has to interleave the operands first
** (spec/bench/linalg.c); y that lies by columns is turned into rows beforehand, product by product. Of a matrix that
** lies by columns times a column the transpose is taken: a row times rows.
*/
#include "../../base/processor.h"
#include "../../base/subnormal.h"
#include "small_batch.h"
#include "small_product.h"

#if PNI_CPU_X86
#include <immintrin.h>

/* Bytes of the shortest rows; the longest axis; multiplications of float64 from which turning y is worth it. */
enum { NARROWEST = 64, LONGEST = 32, WORTH = 1500 };

typedef struct {
  pni_small_product p; /* the first one */
  void (*rows)(const pni_small_product *p);
  void (*alone)(const pni_small_product *p, int64_t ox, int64_t oy, int64_t i); /* of one row; NULL: several */
  int dtype, nlead;
  int64_t size, lead[PN_MAX_DIMS], x_step[PN_MAX_DIMS], y_step[PN_MAX_DIMS];
} job;

#define TURN(T, suffix)                                                                                                \
  static void turn_##suffix(T *restrict to, const T *restrict y, const pni_small_product *p) {                         \
    for (int64_t j = 0; j < p->n; j++)                                                                                 \
      for (int64_t e = 0; e < p->k; e++) to[e * p->n + j] = y[e * p->y_row + j * p->y_col];                            \
  }
TURN(double, f64)
TURN(float, f32)
#undef TURN

/* Product i, whose operands begin at elements ox and oy, of one row times y, whose rows run along memory: four sums
 * side by side, parts of vectors where y ends. */
#define ALONE(T, suffix, VEC, MASK, of, lanes)                                                                         \
  PNI_TARGET_AVX512 static void alone_##suffix(const pni_small_product *p, int64_t ox, int64_t oy, int64_t i) {        \
    const T *x = (const T *)p->x + ox;                                                                                 \
    int64_t k = p->k, n = p->n, x_col = p->x_col, y_row = p->y_row;                                                    \
    T *out = (T *)p->out + i * n;                                                                                      \
    for (int64_t at = 0; at < n; at += lanes) {                                                                        \
      MASK part = (MASK)(n - at < lanes ? (1U << (n - at)) - 1 : ~0U);                                                 \
      const T *y = (const T *)p->y + oy + at;                                                                          \
      VEC sum[4] = {of(setzero)(), of(setzero)(), of(setzero)(), of(setzero)()};                                       \
      int64_t e = 0;                                                                                                   \
      for (; e + 4 <= k; e += 4)                                                                                       \
        PNI_UNROLL for (int c = 0; c < 4; c++) sum[c] =                                                                \
            of(fmadd)(of(set1)(x[(e + c) * x_col]), of(maskz_loadu)(part, y + (e + c) * y_row), sum[c]);               \
      for (; e < k; e++) sum[0] = of(fmadd)(of(set1)(x[e * x_col]), of(maskz_loadu)(part, y + e * y_row), sum[0]);     \
      of(mask_storeu)(out + at, part, of(add)(of(add)(sum[0], sum[2]), of(add)(sum[1], sum[3])));                      \
    }                                                                                                                  \
  }
#define OF_F64(f) _mm512_##f##_pd
#define OF_F32(f) _mm512_##f##_ps
ALONE(double, f64, __m512d, __mmask8, OF_F64, 8)
ALONE(float, f32, __m512, __mmask16, OF_F32, 16)
#undef ALONE
#undef OF_F64
#undef OF_F32

/* Product i, whose operands begin at elements ox and oy. */
static void one(const job *j, int64_t i, int64_t ox, int64_t oy) {
  double turned[LONGEST * LONGEST];
  pni_small_product p = j->p;
  p.x = (const char *)p.x + ox * j->size;
  p.y = (const char *)p.y + oy * j->size;
  p.out = (char *)p.out + i * p.m * p.n * j->size;
  if (p.y_col != 1) {
    if (j->dtype == PN_FLOAT64)
      turn_f64(turned, p.y, &p);
    else
      turn_f32((float *)turned, p.y, &p);
    p.y = turned;
    p.y_row = p.n;
    p.y_col = 1;
  }
  j->rows(&p);
}

static void run(void *data, int64_t begin, int64_t end) {
  const job *j = data;
  unsigned before = j->dtype == PN_FLOAT32 ? pni_flush_subnormals() : 0;
  int64_t at[PN_MAX_DIMS], ox = 0, oy = 0, rest = begin;
  for (int a = j->nlead - 1; a >= 0; a--) {
    at[a] = rest % j->lead[a];
    rest /= j->lead[a];
    ox += at[a] * j->x_step[a];
    oy += at[a] * j->y_step[a];
  }
  for (int64_t i = begin; i < end; i++) {
    if (j->alone)
      j->alone(&j->p, ox, oy, i);
    else
      one(j, i, ox, oy);
    for (int a = j->nlead - 1; a >= 0; a--) {
      ox += j->x_step[a];
      oy += j->y_step[a];
      if (++at[a] < j->lead[a]) break;
      ox -= j->lead[a] * j->x_step[a];
      oy -= j->lead[a] * j->y_step[a];
      at[a] = 0;
    }
  }
  if (j->dtype == PN_FLOAT32) pni_keep_subnormals(before);
}

static void lead_steps(const pn_tensor *t, int nlead, int64_t *step) {
  pn_tensor lead = *t;
  lead.ndim -= 2;
  pni_broadcast_strides(&lead, nlead, step);
}

/* x y, or y' x' in its place where y is a column and the columns of x run along memory. */
static pni_small_product product_of(const pn_tensor *x, const pn_tensor *y, pn_tensor *out, bool *swapped) {
  int i = x->ndim - 2, j = y->ndim - 2;
  pni_small_product p = {.m = x->shape[i],
                         .n = y->shape[j + 1],
                         .k = x->shape[i + 1],
                         .x_row = x->stride[i],
                         .x_col = x->stride[i + 1],
                         .y_row = y->stride[j],
                         .y_col = y->stride[j + 1],
                         .x = pni_data(x),
                         .y = pni_data(y),
                         .out = pni_data(out)};
  *swapped = p.n == 1 && p.x_row == 1 && p.m > 1;
  return *swapped ? (pni_small_product){1, p.m, p.k, 1, p.y_row, p.x_col, 1, p.y, p.x, p.out} : p;
}

bool pni_small_batch(pn_context *c, const pn_tensor *x, const pn_tensor *y, pn_tensor *out) {
  enum { LEAST = 24 }; /* bytes of a row that is alone */
  int nlead = (x->ndim > y->ndim ? x->ndim : y->ndim) - 2;
  job j = {.dtype = x->dtype,
           .nlead = nlead,
           .size = (int64_t)pni_itemsize(x),
           .rows = pni_small_product_avx512[x->dtype].rows};
  bool swapped;
  j.p = product_of(x, y, out, &swapped);
  int64_t count = pni_count(nlead, out->shape), work = j.p.m * j.p.n * j.p.k;
  if (pni_cpu_level() < PNI_CPU_AVX512 || count < 2 || j.p.n * j.size < (swapped ? LEAST : NARROWEST)) return false;
  if ((j.p.m < 2 && !swapped) || j.p.m > LONGEST || j.p.k > LONGEST || j.p.n > LONGEST) return false;
  if (j.p.y_col != 1 && (work < WORTH || j.size < 8)) return false;
  for (int a = 0; a < nlead; a++) j.lead[a] = out->shape[a];
  if (swapped) j.alone = j.dtype == PN_FLOAT64 ? alone_f64 : alone_f32;
  lead_steps(swapped ? y : x, nlead, j.x_step);
  lead_steps(swapped ? x : y, nlead, j.y_step);
  pni_parallel(c, count, 1000000 / work + 1, run, &j);
  return true;
}

#else

bool pni_small_batch(pn_context *c, const pn_tensor *x, const pn_tensor *y, pn_tensor *out) {
  (void)c, (void)x, (void)y, (void)out;
  return false;
}

#endif
