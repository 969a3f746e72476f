/*
** moments.c: an affine map takes means to means and, where numbers stay apart or come uncorrelated, variances to
** variances; log |det| that is affine in x has its mean where x has its own. Chains and inverses are walked part by
** part.
*/
#include "moments.h"
#include <string.h>

typedef pn_tensor T;
typedef pn_context C;
typedef pn_bijector B;

typedef struct {
  bool started, known; /* is there a sum; are all its terms known */
  pni_moments *m;
} walk;

static void add_log_det(C *c, walk *w, T *own, bool forward) {
  T *t = forward ? own : pn_neg(c, own);
  w->m->log_det = w->started ? pn_add(c, w->m->log_det, t) : t;
  w->started = true;
}

/* Variances of y: scaled by the slope of a map of numbers, moved by a permutation, mixed by the kind. */
static T *variance_of(C *c, B *b, T *v, T *log_slope, bool forward, bool *apart) {
  const pni_bijector *k = b->kind;
  if (!v || !(k->flags & PNI_BIJECTOR_AFFINE)) return NULL;
  if (b->in_rank == 0) return pn_mul(c, v, pn_exp(c, pn_mul(c, log_slope, pni_like(c, log_slope, forward ? 2 : -2))));
  if (k->flags & PNI_BIJECTOR_MOVES) return (forward ? k->forward : k->inverse)(c, b, v);
  bool known = *apart && forward && k->variance;
  *apart = false;
  return known ? k->variance(c, b, v) : NULL;
}

static void step(C *c, B *b, bool forward, int extra, walk *w) {
  pni_moments *m = w->m;
  T *from = m->point, *to = forward ? pn_bijector_forward(c, b, from) : pn_bijector_inverse(c, b, from);
  T *x = forward ? from : to, *y = forward ? to : from;
  int flags = b->kind->flags;
  if (!(flags & PNI_BIJECTOR_EVEN) && !((flags & PNI_BIJECTOR_LINEAR_DET) && forward && m->mean)) w->known = false;
  T *slope = pni_bijector_log_det(c, b, x, y, 0);
  if (w->known) add_log_det(c, w, pni_sum_last(c, slope, extra), forward);
  m->variance = variance_of(c, b, m->variance, slope, forward, &m->apart);
  m->mean = m->mean && (flags & PNI_BIJECTOR_AFFINE);
  m->point = to;
}

static void push(C *c, B *b, bool forward, int extra, walk *w) {
  if (b->kind->parts < 0)
    for (int k = 0; k < b->nparts; k++) {
      int i = forward ? k : b->nparts - 1 - k;
      push(c, b->part[i], forward, extra + pni_chain_extra(b, i), w);
    }
  else if (b->kind->parts)
    push(c, b->part[0], !forward, extra, w);
  else
    step(c, b, forward, extra, w);
}

void pni_bijector_push(C *c, B *b, int extra, pni_moments *m) {
  walk w = {.known = true, .m = m};
  m->log_det = NULL;
  push(c, b, true, extra, &w);
  if (!w.known) m->log_det = NULL;
}

bool pni_bijector_even(const B *b) {
  if (!b->nparts) return (b->kind->flags & PNI_BIJECTOR_EVEN) != 0;
  for (int i = 0; i < b->nparts; i++)
    if (!pni_bijector_even(b->part[i])) return false;
  return true;
}

/* Constants of one shape with equal elements; not asked in a capture, whose later calls may bring others. */
static bool equal_constants(C *c, const T *a, const T *b) {
  if (pn_tensor_requires_grad(a) || pn_tensor_requires_grad(b) || c->recorder) return false;
  if (a->dtype != b->dtype || a->ndim != b->ndim || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) != 0)
    return false;
  for (int64_t i = 0; i < a->numel; i++)
    if (pni_element(a, i) != pni_element(b, i)) return false;
  return true;
}

bool pni_bijector_same(C *c, const B *a, const B *b) {
  if (a == b) return true;
  if (a->kind != b->kind || a->nparts != b->nparts) return false;
  for (int k = 0; k < PNI_BIJECTOR_PARAMS; k++) {
    const T *x = a->param[k], *y = b->param[k];
    if (x != y && (!x || !y || !equal_constants(c, x, y))) return false;
  }
  for (int i = 0; i < a->nparts; i++)
    if (!pni_bijector_same(c, a->part[i], b->part[i])) return false;
  return true;
}
