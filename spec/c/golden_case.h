/*
** golden_case.h: the cases of spec/golden/tensor/tensor_golden.h: one application of a row of op.def, or of a
** builder composed of rows, with its inputs and its result.
*/
#ifndef PN_SPEC_GOLDEN_CASE_H
#define PN_SPEC_GOLDEN_CASE_H

#include "../../src/lua/operations.h"
#include "check.h"

typedef struct golden_tensor {
  int dtype, ndim;
  int64_t shape[5];
  int at;
} golden_tensor;

typedef struct golden_case {
  const char *op;
  int nin, in[3], out, ni;
  int64_t i[8];
  double r[2], tolerance, floor; /* relative above the floor, absolute below */
} golden_case;

#include "../golden/tensor/tensor_golden.h"

/* ---- builders that are not rows ---- */

static inline pn_axes axes_of(int64_t mask) {
  pn_axes a = {0, {0}};
  for (int k = 0; k < PN_MAX_DIMS; k++)
    if (mask >> k & 1) a.axis[a.n++] = k;
  return a;
}

static inline pn_tensor *built(pn_context *c, const golden_case *g, pn_tensor **x) {
  const int64_t *i = g->i;
  int a = (int)i[0], b = (int)i[1];
#define IS(name) (strcmp(g->op, name) == 0)
  if (IS("var")) return pn_var(c, x[0], axes_of(i[0]), g->r[0], b);
  if (IS("std")) return pn_std(c, x[0], axes_of(i[0]), g->r[0], b);
  if (IS("select")) return pn_select(c, x[0], a, i[1]);
  if (IS("unsqueeze")) return pn_unsqueeze(c, x[0], a);
  if (IS("squeeze")) return pn_squeeze(c, x[0], a);
  if (IS("flip")) return pn_flip(c, x[0], a);
  if (IS("transpose")) return pn_transpose(c, x[0], a, b);
  if (IS("stack")) return pn_stack(c, g->nin, x, a);
  if (IS("masked_select")) return pn_masked_select(c, x[0], x[1]);
  if (IS("sort")) return pn_sort(c, x[0], a, b);
  if (IS("topk")) return pn_topk(c, x[0], i[0], b, (int)i[2]);
  if (IS("argtopk")) return pn_argtopk(c, x[0], i[0], b, (int)i[2]);
  if (IS("pn_matmul")) return pn_matmul(c, x[0], x[1]);
#undef IS
  return NULL;
}

/* The case applied to x; NULL with the reason in c. Scoped. */
static inline pn_tensor *golden_apply(pn_context *c, const golden_case *g, pn_tensor **x) {
  const pni_op *op = pni_op_find(g->op);
  pni_attr a = {.ni = g->ni, .r = {g->r[0], g->r[1]}};
  memcpy(a.i, g->i, sizeof g->i);
  return op ? pni_apply(c, op, g->nin, x, &a) : built(c, g, x);
}

enum { GOLDEN_CASES = sizeof golden_cases / sizeof *golden_cases };

#endif
