/*
** sort.c: merging of ever longer runs (Knuth, TAOCP 3, section 5.2.4), with as much memory again as is sorted.
*/
#include <string.h>
#include "sort.h"

enum { RUN = 8, STRIDE = 1 << 14 };

typedef struct {
  pn_context *c;
  size_t size;
  pni_compare compare;
  int64_t unseen; /* elements moved since the last look at the clock */
} sorting;

/* Insertion; n is small. `spare` has room for an element. */
static void insert(const sorting *s, char *v, int64_t n, char *spare) {
  for (int64_t i = 1; i < n; i++) {
    char *at = v + (size_t)i * s->size;
    if (s->compare(at - s->size, at) <= 0) continue;
    memcpy(spare, at, s->size);
    do {
      memcpy(at, at - s->size, s->size);
      at -= s->size;
    } while (at > v && s->compare(at - s->size, spare) > 0);
    memcpy(at, spare, s->size);
  }
}

static bool is_over(sorting *s, int64_t moved) {
  s->unseen += moved;
  if (s->unseen < STRIDE) return false;
  s->unseen = 0;
  return pni_check_cancel(s->c) != PN_OK;
}

/* Merges from[0 .. mid - 1] and from[mid .. n - 1] into `to`; false if interrupted. */
static bool merge(sorting *s, char *to, const char *from, int64_t mid, int64_t n) {
  const char *a = from, *middle = from + (size_t)mid * s->size, *b = middle, *end = from + (size_t)n * s->size;
  for (int64_t k = 0; a < middle && b < end; k++) {
    const char **least = s->compare(a, b) <= 0 ? &a : &b;
    memcpy(to, *least, s->size);
    *least += s->size;
    to += s->size;
    if (k % STRIDE == STRIDE - 1 && is_over(s, STRIDE)) return false;
  }
  memcpy(to, a, (size_t)(middle - a));
  memcpy(to + (middle - a), b, (size_t)(end - b));
  return !is_over(s, n % STRIDE);
}

/* Sorts v with `spare` of the same size; the one of the two that holds the result, NULL if interrupted. */
static char *sort(sorting *s, char *v, char *spare, int64_t n) {
  for (int64_t i = 0; i < n; i += RUN) {
    insert(s, v + (size_t)i * s->size, n - i < RUN ? n - i : RUN, spare);
    if (is_over(s, RUN)) return NULL;
  }
  for (int64_t width = RUN; width < n; width *= 2) {
    for (int64_t i = 0; i < n; i += 2 * width) {
      int64_t rest = n - i, mid = rest < width ? rest : width, all = rest < 2 * width ? rest : 2 * width;
      if (!merge(s, spare + (size_t)i * s->size, v + (size_t)i * s->size, mid, all)) return NULL;
    }
    char *t = v;
    v = spare;
    spare = t;
  }
  return v;
}

pn_status pni_sort(pn_context *c, void *v, int64_t n, size_t size, pni_compare compare) {
  if (n < 2) return c->status;
  char *spare = pni_alloc_array(c, n, size);
  if (!spare) return c->status;
  sorting s = {.c = c, .size = size, .compare = compare};
  const char *sorted = sort(&s, v, spare, n);
  if (sorted && sorted != (char *)v) memcpy(v, sorted, (size_t)n * size);
  pni_free(c, spare);
  return c->status;
}
