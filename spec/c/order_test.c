/*
** order_test.c: the order of rows against insertion by the definition: stable, NaN last, -0 and 0 equal.
*/
#include <stdlib.h>
#include "../../src/tensor/kernel/order.h"
#include "check.h"

enum { LONGEST = 70000 };

typedef enum { NORMAL, TIES, SPECIAL, CLOSE, RISING, FALLING, EXTREME, CONSTANT, KINDS } kind;

static double real(kind k, int64_t i) {
  static const double special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1, -1, 5e-324, -5e-324, 1e-45, -NAN, 1e300};
  double u = 2.0 * rand() / RAND_MAX - 1;
  switch (k) {
  case NORMAL: return u * exp(20 * u);
  case TIES: return rand() % 7 - 3;
  case SPECIAL: return rand() % 3 ? special[rand() % 12] : u;
  case CLOSE: return 1 + (rand() % 1000) * 0x1p-52 + (rand() % 9 == 0 ? u * 1e200 : 0);
  case RISING: return (double)i;
  case FALLING: return (double)(i / -3);
  case EXTREME: return (rand() % 2 ? 1 : -1) * ldexp(1, rand() % 2000 - 1000);
  default: return 3;
  }
}

static int64_t whole(kind k, int64_t i) {
  switch (k) {
  case NORMAL: return (int64_t)((uint64_t)rand() << 33 ^ (uint64_t)rand() << 11 ^ (uint64_t)rand());
  case SPECIAL: return (const int64_t[]){INT64_MIN, INT64_MAX, 0, -1, 1, INT64_MIN + 1}[rand() % 6];
  case EXTREME: return i == 5 ? INT64_MIN : i == 7 ? INT64_MAX : rand() % 100000 - 50000;
  case CLOSE: return INT64_MAX - rand() % 300 * (rand() % 9 == 0 ? 1LL << 40 : 1);
  default: return (int64_t)real(k, i);
  }
}

static char x[LONGEST * 24];
static int64_t got[LONGEST * 3], want[LONGEST], spare[LONGEST], step;
static int type;
static bool down;

/* Must element b stand before a, whatever their positions? */
static bool before(int64_t b, int64_t a) {
  if (type == PN_INT64) {
    int64_t v = ((int64_t *)(void *)x)[b * step], w = ((int64_t *)(void *)x)[a * step];
    return down ? v > w : v < w;
  }
  double v, w;
  if (type == PN_FLOAT64)
    v = ((double *)(void *)x)[b * step], w = ((double *)(void *)x)[a * step];
  else if (type == PN_FLOAT32)
    v = (double)((float *)(void *)x)[b * step], w = (double)((float *)(void *)x)[a * step];
  else
    v = x[b * step] != 0, w = x[a * step] != 0;
  if (isnan(w)) return !isnan(v);
  return down ? v > w : v < w;
}

/* Merging by the definition. */
static void reference(int64_t lo, int64_t hi) {
  if (hi - lo < 2) return;
  int64_t mid = lo + (hi - lo) / 2, i = lo, j = mid;
  reference(lo, mid);
  reference(mid, hi);
  for (int64_t k = lo; k < hi; k++) spare[k] = i >= mid || (j < hi && before(want[j], want[i])) ? want[j++] : want[i++];
  memcpy(want + lo, spare + lo, (size_t)(hi - lo) * sizeof *want);
}

static void fill(kind k, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    int64_t at = i * step;
    switch (type) {
    case PN_FLOAT64: ((double *)(void *)x)[at] = real(k, i); break;
    case PN_FLOAT32: ((float *)(void *)x)[at] = (float)real(k, i); break;
    case PN_INT64: ((int64_t *)(void *)x)[at] = whole(k, i); break;
    default: x[at] = (char)(rand() % 2 ? rand() % 3 : 0);
    }
  }
}

static void check_row(pn_context *c, kind k, int64_t n) {
  fill(k, n);
  for (int64_t i = 0; i < n; i++) want[i] = i;
  reference(0, n);
  size_t bytes = pni_order_scratch(n);
  char *scratch = malloc(bytes + 1);
  if (!scratch) exit(1);
  scratch[bytes] = 77;
  CHECK_STATUS(c, pni_order_row(c, type, x, n, step, down, got, scratch), PN_OK);
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; i++) wrong += got[i * step] != want[i];
  CHECK_INT(wrong, 0);
  if (wrong) printf("type %d kind %d n %lld step %lld down %d\n", type, (int)k, (long long)n, (long long)step, down);
  CHECK_INT(scratch[bytes], 77);
  free(scratch);
}

static void sizes(pn_context *c) {
  static const int64_t size[] = {1, 2, 3, 12, 13, 24, 25, 31, 32, 33, 100, 159, 160, 161, 1000, 11999, 12000, LONGEST};
  for (type = PN_FLOAT64; type <= PN_BOOL; type++)
    for (int way = 0; way < 4; way++)
      for (size_t s = 0; s < sizeof size / sizeof *size; s++)
        for (kind k = 0; k < KINDS; k++) {
          if (size[s] == LONGEST && way != (int)k % 4) continue; /* each kind of the longest one way */
          step = way % 2 ? 3 : 1, down = way / 2;
          check_row(c, k, size[s]);
        }
}

/* The operation: an axis of none, axes that are not last, inputs that do not lie in one piece. */
static void operation(pn_context *c) {
  const double v[] = {3, NAN, 1, -0.0, 0, 2, 7, -INFINITY, 7, 0, -0.0, NAN};
  pn_tensor *a = pn_from_data(c, PN_FLOAT64, 2, (const int64_t[]){3, 4}, v);
  const int64_t rising[] = {1, 2, 2, 1, 0, 1, 0, 0, 2, 0, 1, 2}, falling[] = {2, 1, 1, 0, 0, 2, 0, 1, 1, 0, 2, 2};
  for (int way = 0; way < 2; way++) {
    pn_tensor *p = pn_argsort(c, a, 0, way), *q = pn_argsort(c, pn_transpose(c, a, 0, 1), 1, way);
    for (int64_t k = 0; k < 12; k++) {
      CHECK_NEAR(pni_element(p, k), (double)(way ? falling : rising)[k], 0);
      CHECK_NEAR(pni_element(q, k % 4 * 3 + k / 4), pni_element(p, k), 0);
    }
  }
  CHECK_INT(pn_tensor_numel(pn_argsort(c, pn_zeros(c, PN_FLOAT64, 2, (const int64_t[]){3, 0}), 1, 0)), 0);
  CHECK_INT(pn_tensor_numel(pn_argsort(c, pn_zeros(c, PN_INT64, 2, (const int64_t[]){3, 0}), 0, 1)), 0);
}

/* Once the pool has them, blocks of sorted rows come from there. */
static void memory(pn_context *c) {
  const int64_t shape[] = {3, 20000};
  pn_tensor *a = pn_zeros(c, PN_FLOAT64, 2, shape);
  for (int64_t k = 0; k < 60000; k++) ((double *)pni_data(a))[k] = real(NORMAL, k);
  uint64_t requests = 0;
  for (int round = 0; round < 4; round++) {
    size_t mark = pn_scope_open(c);
    CHECK(pn_sort(c, a, 1, 0) != NULL);
    pn_scope_close(c, mark);
    if (round == 1) requests = c->requests;
  }
  CHECK_INT((int64_t)c->requests, (int64_t)requests);
}

int main(void) {
  srand(5);
  pn_context *c = pn_context_new(NULL);
  sizes(c);
  size_t mark = pn_scope_open(c);
  operation(c);
  memory(c);
  pn_scope_close(c, mark);
  pn_context_close(c);
  CHECK_DONE();
}
