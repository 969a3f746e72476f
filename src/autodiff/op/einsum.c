/*
** einsum.c: sums of products in Einstein's notation, "bij,bjk->bik", made of permute, diagonal, reshape, mul,
** sum and matmul, so that it has all their gradients. Operands are contracted from left to right; an index is
** summed as soon as nothing later needs it. Conventions are NumPy's: without "->" the result has the indices
** that occur once, in alphabetical order; "..." stands for leading axes that broadcast.
*/
#include <string.h>
#include "op.h"

/* Labels 0 .. 51 are letters in ASCII order; ELLIPSIS + i is axis i of "...", counted from the right. */
enum { LETTERS = 52, ELLIPSIS = 52, LABELS = 60 };

typedef struct {
  pn_tensor *t;
  int n;
  int label[PN_MAX_DIMS];
} operand;

typedef struct {
  int n;
  operand in[PNI_OP_INPUTS];
  int64_t size[LABELS]; /* -1: does not occur */
  int count[LABELS];    /* how often it occurs in the inputs */
  int nout;
  int out[PN_MAX_DIMS];
} problem;

static int label_of(char ch) { return ch >= 'A' && ch <= 'Z' ? ch - 'A' : ch >= 'a' && ch <= 'z' ? ch - 'a' + 26 : -1; }
static char letter_of(int label) {
  return label >= ELLIPSIS ? '.' : (char)(label < 26 ? 'A' + label : 'a' + label - 26);
}

static uint64_t mask_of(const operand *o) {
  uint64_t m = 0;
  for (int i = 0; i < o->n; i++) m |= (uint64_t)1 << o->label[i];
  return m;
}

/* ---- reading ---- */

/* One comma-separated term; ndots: the number of axes that "..." stands for, found from ndim >= 0, else as given. */
static const char *read_term(pn_context *c, const char *p, int ndim, int ndots, int *label, int *n) {
  const char *start = p;
  int letters = 0, dots = -1;
  for (; *p && *p != ',' && !(p[0] == '-' && p[1] == '>'); p++) {
    if (*p == ' ') continue;
    if (dots < 0 && strncmp(p, "...", 3) == 0) {
      dots = letters;
      p += 2;
    } else if (label_of(*p) >= 0 && letters < PN_MAX_DIMS) {
      label[letters++] = label_of(*p);
    } else {
      pni_fail(c, PN_DOMAIN, "einsum: each term must be at most %d letters with at most one '...', got '%.*s'",
               PN_MAX_DIMS, (int)strcspn(start, ",-"), start);
      return NULL;
    }
  }
  if (dots >= 0) {
    if (ndim >= 0) ndots = ndim - letters;
    if (ndots >= 0 && letters + ndots <= PN_MAX_DIMS) {
      memmove(label + dots + ndots, label + dots, (size_t)(letters - dots) * sizeof *label);
      for (int i = 0; i < ndots; i++) label[dots + i] = ELLIPSIS + ndots - 1 - i;
    }
    letters += ndots > 0 ? ndots : 0;
  }
  if (ndim >= 0 && (letters != ndim || (dots >= 0 && ndots < 0))) {
    pni_fail(c, PN_SHAPE, "einsum: term '%.*s' must name each of its operand's %d axes", (int)(p - start), start, ndim);
    return NULL;
  }
  *n = letters;
  return p;
}

static pn_status note_sizes(pn_context *c, problem *e, int k) {
  const operand *o = &e->in[k];
  for (int i = 0; i < o->n; i++) {
    int l = o->label[i];
    int64_t size = o->t->shape[i];
    e->count[l]++;
    if (e->size[l] == -1 || e->size[l] == 1)
      e->size[l] = size;
    else if (size != 1 && size != e->size[l])
      return pni_fail(c, PN_SHAPE, "einsum: index '%c' must have one size, got %lld and, in operand %d, %lld",
                      letter_of(l), (long long)e->size[l], k + 1, (long long)size);
  }
  return PN_OK;
}

static pn_status read_output(pn_context *c, problem *e, const char *p, int ndots) {
  uint64_t seen = 0;
  const char *end = read_term(c, p, -1, ndots, e->out, &e->nout);
  if (!end) return c->status;
  if (*end || e->nout > PN_MAX_DIMS)
    return pni_fail(c, PN_DOMAIN, "einsum: result must be one term of at most %d indices, got '%s'", PN_MAX_DIMS, p);
  for (int i = 0; i < e->nout; i++) {
    int l = e->out[i];
    if (e->size[l] < 0 || seen >> l & 1)
      return pni_fail(c, PN_DOMAIN, "einsum: index '%c' of the result must occur %s", letter_of(l),
                      e->size[l] < 0 ? "in an operand" : "there once");
    seen |= (uint64_t)1 << l;
  }
  if (ndots > 0 && !(seen >> ELLIPSIS & 1))
    return pni_fail(c, PN_DOMAIN, "einsum: '...' must stand in the result, got '%s'", p);
  return PN_OK;
}

static pn_status implicit_output(pn_context *c, problem *e, int ndots) {
  e->nout = 0;
  for (int i = ndots - 1; i >= 0; i--) e->out[e->nout++] = ELLIPSIS + i;
  for (int l = 0; l < LETTERS; l++) {
    if (e->count[l] != 1) continue;
    if (e->nout == PN_MAX_DIMS) return pni_fail(c, PN_SHAPE, "einsum: result must have at most %d axes", PN_MAX_DIMS);
    e->out[e->nout++] = l;
  }
  return PN_OK;
}

static pn_status read_spec(pn_context *c, problem *e, const char *spec, int n, pn_tensor *const *x) {
  const char *p = spec;
  int ndots = 0;
  for (int l = 0; l < LABELS; l++) e->size[l] = -1;
  for (int k = 0; k < n; k++) {
    e->in[k].t = x[k];
    if (!(p = read_term(c, p, x[k]->ndim, 0, e->in[k].label, &e->in[k].n)) || note_sizes(c, e, k)) return c->status;
    bool more = *p == ',';
    if (more != (k + 1 < n)) break;
    p += more;
    e->n = k + 1;
  }
  if (e->n < n || *p == ',')
    return pni_fail(c, PN_DOMAIN, "einsum: spec must have one term for each of the %d operands, got '%s'", n, spec);
  while (ndots < LABELS - ELLIPSIS && e->size[ELLIPSIS + ndots] >= 0) ndots++;
  return *p ? read_output(c, e, p + 2, ndots) : implicit_output(c, e, ndots);
}

/* ---- one operand ---- */

static void drop_axis(operand *o, int axis) {
  o->n--;
  memmove(o->label + axis, o->label + axis + 1, (size_t)(o->n - axis) * sizeof *o->label);
}

/* The axes in the order of `label`. */
static void arrange(pn_context *c, operand *o, int n, const int *label) {
  int order[PN_MAX_DIMS];
  bool same = true;
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < o->n; j++)
      if (o->label[j] == label[i]) order[i] = j;
    same = same && order[i] == i;
  }
  if (!same) o->t = pn_permute(c, o->t, n, order);
  memmove(o->label, label, (size_t)n * sizeof *label);
}

/* Axes i < j of one label become their diagonal, the last axis. */
static void take_diagonal(pn_context *c, operand *o, int i, int j) {
  int order[PN_MAX_DIMS], label = o->label[i], n = 0;
  if (o->t && o->t->shape[i] != o->t->shape[j])
    pni_fail(c, PN_SHAPE, "einsum: index '%c' must have one size, got %lld and %lld in one operand", letter_of(label),
             (long long)o->t->shape[i], (long long)o->t->shape[j]);
  for (int k = 0; k < o->n; k++)
    if (k != i && k != j) order[n++] = k;
  order[n++] = i;
  order[n++] = j;
  o->t = pn_diagonal(c, pn_permute(c, o->t, o->n, order));
  drop_axis(o, j);
  drop_axis(o, i);
  o->label[o->n++] = label;
}

static void sum_labels(pn_context *c, operand *o, uint64_t keep) {
  pn_axes axes = {0, {0}};
  for (int i = 0; i < o->n; i++)
    if (!(keep >> o->label[i] & 1)) axes.axis[axes.n++] = i;
  if (axes.n == 0) return;
  o->t = pn_sum(c, o->t, axes, 0);
  for (int k = axes.n - 1; k >= 0; k--) drop_axis(o, axes.axis[k]);
}

/* Every label once, and no axis of size 1 where the index is larger: another operand has it in full. */
static void prepare(pn_context *c, const problem *e, operand *o) {
  for (int i = 0; i < o->n; i++)
    for (int j = i + 1; j < o->n; j++)
      if (o->label[i] == o->label[j]) {
        take_diagonal(c, o, i, j);
        i = -1;
        break;
      }
  for (int i = 0; o->t && i < o->n; i++)
    if (o->t->shape[i] == 1 && e->size[o->label[i]] != 1) {
      o->t = pn_squeeze(c, o->t, i);
      drop_axis(o, i--);
    }
}

/* ---- two operands ---- */

/* Labels of both, in the order batch, left, right, contracted. */
typedef struct {
  int n[4];
  int label[4][PN_MAX_DIMS];
} classes;
enum { BATCH, LEFT, RIGHT, INNER };

static classes classify(const operand *a, const operand *b, uint64_t keep) {
  classes k = {{0}, {{0}}};
  uint64_t in_a = mask_of(a), in_b = mask_of(b);
  for (int i = 0; i < a->n; i++) {
    int l = a->label[i], to = !(in_b >> l & 1) ? LEFT : keep >> l & 1 ? BATCH : INNER;
    k.label[to][k.n[to]++] = l;
  }
  for (int i = 0; i < b->n; i++)
    if (!(in_a >> b->label[i] & 1)) k.label[RIGHT][k.n[RIGHT]++] = b->label[i];
  return k;
}

/* o as [first..., second..., third...], which `merge` joins to one axis each. */
static pn_tensor *grouped(pn_context *c, const problem *e, operand *o, const classes *k, const int which[3], bool merge,
                          int ndim, int64_t *shape) {
  int label[PN_MAX_DIMS], n = 0;
  for (int g = 0; g < 3; g++)
    for (int i = 0; i < k->n[which[g]]; i++) label[n++] = k->label[which[g]][i];
  arrange(c, o, n, label);
  if (merge) {
    ndim = 0;
    for (int g = k->n[BATCH] ? 0 : 1; g < 3; g++) {
      shape[ndim] = 1;
      for (int i = 0; i < k->n[which[g]]; i++) shape[ndim] *= e->size[k->label[which[g]][i]];
      ndim++;
    }
  }
  return pn_reshape(c, o->t, ndim, shape);
}

/* Product without matmul: axes [batch, left, right, inner], those an operand lacks of size 1. */
static pn_tensor *multiply(pn_context *c, const problem *e, operand *o, const classes *k, int lacks) {
  int64_t shape[PN_MAX_DIMS];
  int n = 0;
  const int which[3] = {BATCH, lacks == RIGHT ? LEFT : RIGHT, INNER};
  for (int g = 0; g < 4; g++)
    for (int i = 0; i < k->n[g]; i++) shape[n++] = g == lacks ? 1 : e->size[k->label[g][i]];
  return grouped(c, e, o, k, which, false, n, shape);
}

static void contract(pn_context *c, const problem *e, operand *a, operand *b, uint64_t keep) {
  classes k = classify(a, b, keep);
  int64_t shape[PN_MAX_DIMS];
  operand y = {NULL, 0, {0}};
  if (k.n[BATCH] + k.n[LEFT] + k.n[RIGHT] + k.n[INNER] > PN_MAX_DIMS) {
    pni_fail(c, PN_SHAPE, "einsum: a product of two operands must have at most %d indices, got %d", PN_MAX_DIMS,
             k.n[BATCH] + k.n[LEFT] + k.n[RIGHT] + k.n[INNER]);
    a->t = NULL;
    return;
  }
  for (int g = BATCH; g <= RIGHT; g++)
    for (int i = 0; i < k.n[g]; i++) y.label[y.n++] = k.label[g][i];
  if (k.n[INNER] == 0 || k.n[LEFT] + k.n[RIGHT] == 0) {
    pn_axes last = {k.n[INNER], {0}};
    for (int i = 0; i < k.n[INNER]; i++) last.axis[i] = y.n + i;
    y.t = pn_mul(c, multiply(c, e, a, &k, RIGHT), multiply(c, e, b, &k, LEFT));
    if (last.n) y.t = pn_sum(c, y.t, last, 0);
  } else {
    pn_tensor *x = grouped(c, e, a, &k, (const int[3]){BATCH, LEFT, INNER}, true, 0, shape);
    y.t = pn_matmul(c, x, grouped(c, e, b, &k, (const int[3]){BATCH, INNER, RIGHT}, true, 0, shape));
    for (int i = 0; i < y.n; i++) shape[i] = e->size[y.label[i]];
    y.t = pn_reshape(c, y.t, y.n, shape);
  }
  *a = y;
}

static pn_tensor *evaluate(pn_context *c, problem *e) {
  uint64_t out = 0;
  for (int i = 0; i < e->nout; i++) out |= (uint64_t)1 << e->out[i];
  for (int k = 0; k < e->n; k++) prepare(c, e, &e->in[k]);
  operand acc = e->in[0];
  for (int k = 1; k < e->n && !pni_failed(c); k++) {
    uint64_t later = out;
    for (int j = k + 1; j < e->n; j++) later |= mask_of(&e->in[j]);
    sum_labels(c, &acc, later | mask_of(&e->in[k]));
    sum_labels(c, &e->in[k], later | mask_of(&acc));
    contract(c, e, &acc, &e->in[k], later);
  }
  if (pni_failed(c)) return NULL;
  sum_labels(c, &acc, out);
  arrange(c, &acc, e->nout, e->out);
  return acc.t;
}

pn_tensor *pn_einsum(pn_context *c, const char *spec, int n, pn_tensor *const *x) {
  problem e = {.n = 0};
  if (!PNI_GIVEN(c, "einsum", spec, x)) return NULL;
  if (n < 1 || n > PNI_OP_INPUTS) {
    pni_fail(c, PN_DOMAIN, "einsum: number of operands must be 1 to %d, got %d", PNI_OP_INPUTS, n);
    return NULL;
  }
  for (int k = 0; k < n; k++)
    if (!x[k]) {
      pni_fail(c, PN_STATE, "einsum: operand %d must be a tensor, got NULL", k + 1);
      return NULL;
    }
  return read_spec(c, &e, spec, n, x) == PN_OK ? evaluate(c, &e) : NULL;
}
