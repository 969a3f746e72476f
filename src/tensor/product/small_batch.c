/*
** small_batch.c: batches of small products, one after another by the kernels of small_product.h. Where rows of y fill
** vectors that takes half as long as a lane for each product does, which has to interleave the operands first
** (spec/bench/linalg.c); y that lies by columns is turned into rows beforehand, product by product.
*/
#include "../../base/processor.h"
#include "../../base/subnormal.h"
#include "small_batch.h"
#include "small_product.h"

#if PNI_CPU_X86

/* Bytes of the shortest rows; the longest axis; multiplications of float64 from which turning y is worth it. */
enum { NARROWEST = 64, LONGEST = 32, WORTH = 1500 };

typedef struct {
  pni_small_product p; /* the first one */
  void (*rows)(const pni_small_product *p);
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

static void one(const job *j, int64_t i) {
  double turned[LONGEST * LONGEST];
  pni_small_product p = j->p;
  int64_t ox = 0, oy = 0, rest = i;
  for (int a = j->nlead - 1; a >= 0; a--) {
    int64_t at = rest % j->lead[a];
    rest /= j->lead[a];
    ox += at * j->x_step[a];
    oy += at * j->y_step[a];
  }
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
  for (int64_t i = begin; i < end; i++) one(j, i);
  if (j->dtype == PN_FLOAT32) pni_keep_subnormals(before);
}

static void lead_steps(const pn_tensor *t, int nlead, int64_t *step) {
  pn_tensor lead = *t;
  lead.ndim -= 2;
  pni_broadcast_strides(&lead, nlead, step);
}

bool pni_small_batch(pn_context *c, const pn_tensor *x, const pn_tensor *y, pn_tensor *out) {
  int nlead = (x->ndim > y->ndim ? x->ndim : y->ndim) - 2;
  job j = {.dtype = x->dtype,
           .nlead = nlead,
           .size = (int64_t)pni_itemsize(x),
           .rows = pni_small_product_avx512[x->dtype].rows};
  j.p = (pni_small_product){.m = x->shape[x->ndim - 2],
                            .n = y->shape[y->ndim - 1],
                            .k = x->shape[x->ndim - 1],
                            .x_row = x->stride[x->ndim - 2],
                            .x_col = x->stride[x->ndim - 1],
                            .y_row = y->stride[y->ndim - 2],
                            .y_col = y->stride[y->ndim - 1],
                            .x = pni_data(x),
                            .y = pni_data(y),
                            .out = pni_data(out)};
  int64_t count = pni_count(nlead, out->shape), work = j.p.m * j.p.n * j.p.k;
  if (pni_cpu_level() < PNI_CPU_AVX512 || count < 2 || j.p.n * j.size < NARROWEST) return false;
  if (j.p.m < 2 || j.p.m > LONGEST || j.p.k > LONGEST || j.p.n > LONGEST) return false;
  if (j.p.y_col != 1 && (work < WORTH || j.size < 8)) return false;
  for (int a = 0; a < nlead; a++) j.lead[a] = out->shape[a];
  lead_steps(x, nlead, j.x_step);
  lead_steps(y, nlead, j.y_step);
  pni_parallel(c, count, 1000000 / work + 1, run, &j);
  return true;
}

#else

bool pni_small_batch(pn_context *c, const pn_tensor *x, const pn_tensor *y, pn_tensor *out) {
  (void)c, (void)x, (void)y, (void)out;
  return false;
}

#endif
