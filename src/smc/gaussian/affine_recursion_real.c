/*
** affine_recursion_real.c: x_t = m_t x_(t-1) + c_t for blocks of series. A block's
** states lie series by series beside each other, in vectors as wide as the block.
*/
#include "../../base/type_real.h"
#include "affine_recursion.h"

#define VEC TYPED(vec)
typedef REAL VEC __attribute__((vector_size(PNI_AFFINE_BLOCK * sizeof(REAL)), may_alias, aligned(sizeof(REAL))));

/* to = c + m x, a row of m at a time; two at once halve the reading of x. */
static void TYPED(step)(const REAL *restrict m, const VEC *restrict x, VEC *restrict to, int n) {
  int i = 0;
  for (; i + 2 <= n; i += 2) {
    VEC first = to[i], second = to[i + 1];
    for (int j = 0; j < n; j++) {
      first += x[j] * m[i * n + j];
      second += x[j] * m[(i + 1) * n + j];
    }
    to[i] = first;
    to[i + 1] = second;
  }
  for (; i < n; i++)
    for (int j = 0; j < n; j++) to[i] += x[j] * m[i * n + j];
}

/* The same where each series has a matrix of its own. */
static void TYPED(step_apart)(const REAL *restrict m, int64_t series, int count, const VEC *restrict x,
                              VEC *restrict to, int n) {
  for (int b = 0; b < count; b++)
    for (int i = 0; i < n; i++) {
      REAL sum = to[i][b];
      for (int j = 0; j < n; j++) sum += m[b * series + i * n + j] * x[j][b];
      to[i][b] = sum;
    }
}

void TYPED(pni_affine)(const pni_affine *s, pni_watch *w, int64_t first, int count, void *scratch) {
  VEC *x = scratch, *next = x + s->n;
  int n = s->n;
  for (int i = 0; i < 2 * n; i++) x[i] = (VEC){0};
  for (int i = 0; i < n; i++)
    for (int b = 0; b < count; b++) x[i][b] = ((const REAL *)s->x)[(first + b) * n + i];
  for (int64_t step = 0; step < s->steps && !pni_watch_leaves(w, (int64_t)n * n * count + n); step++) {
    int64_t t = s->reverse ? s->steps - 1 - step : step;
    const REAL *c = (const REAL *)s->c + (t * s->count + first) * n, *m = (const REAL *)s->m + t * s->m_step;
    REAL *out = (REAL *)s->out + (t * s->count + first) * n;
    VEC *swap = x;
    for (int b = 0; b < count; b++)
      for (int i = 0; i < n; i++) next[i][b] = c[b * n + i];
    if (s->m_series == 0)
      TYPED(step)(m, x, next, n);
    else
      TYPED(step_apart)(m + first * s->m_series, s->m_series, count, x, next, n);
    for (int b = 0; b < count; b++)
      for (int i = 0; i < n; i++) out[b * n + i] = next[i][b];
    x = next;
    next = swap;
  }
}

#undef VEC
