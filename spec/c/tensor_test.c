/*
** tensor_test.c: operations against NumPy and SciPy (spec/golden/tensor/tensor.py). Each case is run with its
** inputs laid out in memory in several ways: row-major, axes reversed, run backwards, every second element;
** the values do not depend on that. Rows without a case are named with -v.
*/
#include "golden_case.h"

enum { PLAIN, REVERSED, BACKWARDS, SPACED, LAYOUTS };

static void store(pn_tensor *t, int64_t at, const golden_tensor *g, int64_t k) {
  char *p = (char *)t->storage->data + (size_t)at * pn_dtype_size((pn_dtype)g->dtype);
  if (g->dtype == PN_FLOAT64)
    *(double *)(void *)p = golden_reals[g->at + k];
  else if (g->dtype == PN_FLOAT32)
    *(float *)(void *)p = (float)golden_reals[g->at + k];
  else if (g->dtype == PN_INT64)
    *(int64_t *)(void *)p = golden_ints[g->at + k];
  else
    *(uint8_t *)p = (uint8_t)golden_ints[g->at + k];
}

/* Writes the strides of a layout into `stride`, the place of element 0 into `offset`; returns the elements needed. */
static int64_t geometry(const golden_tensor *g, int layout, int64_t *stride, int64_t *offset) {
  int64_t run = 1;
  *offset = 0;
  for (int k = 0; k < g->ndim; k++) {
    int axis = layout == REVERSED ? k : g->ndim - 1 - k;
    stride[axis] = layout == SPACED ? 2 * run : run;
    run *= g->shape[axis] * (layout == SPACED ? 2 : 1);
  }
  for (int a = 0; layout == BACKWARDS && run && a < g->ndim; a++) {
    *offset += (g->shape[a] - 1) * stride[a];
    stride[a] = -stride[a];
  }
  return run ? run : 1;
}

/* The golden tensor in a layout, what lies between its elements filled with 0x7f bytes. Scoped. */
static pn_tensor *lay(pn_context *c, int index, int layout) {
  const golden_tensor *g = &golden_tensors[index];
  int64_t stride[PN_MAX_DIMS] = {0}, offset, room = geometry(g, layout, stride, &offset);
  pn_tensor *t = pni_scoped(c, pni_tensor_new(c, &(pni_spec){.dtype = g->dtype, .ndim = 1, .shape = {room}}));
  memset(t->storage->data, 0x7f, (size_t)room * pn_dtype_size((pn_dtype)g->dtype));
  t->ndim = g->ndim;
  t->offset = offset;
  t->numel = 1;
  for (int a = 0; a < g->ndim; a++) {
    t->shape[a] = g->shape[a];
    t->stride[a] = stride[a];
    t->numel *= g->shape[a];
  }
  for (int64_t k = 0; k < t->numel; k++) {
    int64_t at = offset, rest = k;
    for (int a = g->ndim - 1; a >= 0; rest /= g->shape[a--]) at += rest % g->shape[a] * stride[a];
    store(t, at, g, k);
  }
  return t;
}

/* ---- comparison ---- */

static bool same_element(const pn_tensor *t, int64_t k, const golden_tensor *g, const golden_case *of) {
  if (g->dtype <= PN_FLOAT32) {
    double want = golden_reals[g->at + k], got = pni_element(t, k);
    if (g->dtype == PN_FLOAT32) want = (double)(float)want; /* also what overflows */
    if (fabs(want) < of->floor) return fabs(got - want) <= of->tolerance;
    return check_near(got, want, of->tolerance);
  }
  const void *p = pn_tensor_data(t);
  if (!p) return pni_element(t, k) == (double)golden_ints[g->at + k];
  return g->dtype == PN_INT64 ? ((const int64_t *)p)[k] == golden_ints[g->at + k]
                              : ((const uint8_t *)p)[k] == golden_ints[g->at + k];
}

static void compare(pn_context *c, int number, int layout, const pn_tensor *t) {
  const golden_case *k = &golden_cases[number];
  const golden_tensor *g = &golden_tensors[k->out];
  if (!check_record(t != NULL)) {
    printf("case %d, %s: %s\n", number, k->op, pn_context_message(c));
    return;
  }
  bool fits = t->dtype == g->dtype && t->ndim == g->ndim;
  for (int a = 0; fits && a < g->ndim; a++) fits = t->shape[a] == g->shape[a];
  if (!check_record(fits)) {
    char got[160], want[160];
    printf("case %d, %s: got %s %s, want %s %s\n", number, k->op, pn_dtype_name((pn_dtype)t->dtype),
           pni_shape_text(t->ndim, t->shape, got), pn_dtype_name((pn_dtype)g->dtype),
           pni_shape_text(g->ndim, g->shape, want));
    return;
  }
  for (int64_t e = 0; e < t->numel; e++)
    if (!check_record(same_element(t, e, g, k))) {
      printf("case %d, %s (%s), layout %d, element %lld: got %.17g, want %.17g\n", number, k->op,
             pn_dtype_name((pn_dtype)golden_tensors[k->in[0]].dtype), layout, (long long)e, pni_element(t, e),
             g->dtype <= PN_FLOAT32 ? golden_reals[g->at + e] : (double)golden_ints[g->at + e]);
      return;
    }
}

static void run_case(pn_context *c, int number, int layout) {
  const golden_case *g = &golden_cases[number];
  size_t mark = pn_scope_open(c);
  pn_tensor *x[3] = {NULL};
  for (int k = 0; k < g->nin; k++) x[k] = lay(c, g->in[k], (layout + (layout ? k : 0)) % LAYOUTS);
  compare(c, number, layout, golden_apply(c, g, x));
  pn_context_clear_error(c);
  pn_scope_close(c, mark);
}

/* NULL in gives NULL out, and under a pending failure nothing is made and the first cause stays. */
static void refusing(pn_context *c, int number) {
  const golden_case *g = &golden_cases[number];
  size_t mark = pn_scope_open(c);
  pn_tensor *x[3] = {NULL};
  for (int k = 0; k < g->nin; k++) x[k] = lay(c, g->in[k], PLAIN);
  for (int k = 0; k < g->nin; k++) {
    pn_tensor *kept = x[k];
    x[k] = NULL;
    if (!check_record(golden_apply(c, g, x) == NULL)) printf("case %d, %s: NULL makes a tensor\n", number, g->op);
    pn_context_clear_error(c);
    x[k] = kept;
  }
  int64_t objects = pn_context_objects(c);
  pni_fail(c, PN_IO, "the first cause");
  if (!check_record(golden_apply(c, g, x) == NULL && pn_context_objects(c) == objects))
    printf("case %d, %s: works under a pending failure\n", number, g->op);
  CHECK_FAIL(c, PN_IO, "the first cause");
  pn_scope_close(c, mark);
}

static void golden(pn_context *c, bool verbose) {
  for (int k = 0; k < GOLDEN_CASES; k++)
    for (int layout = 0; layout < LAYOUTS; layout++) run_case(c, k, layout);
  for (int k = 0; k < GOLDEN_CASES; k++) refusing(c, k);
  for (int i = 0; i < pni_op_count() && verbose; i++) {
    int count = 0;
    for (int k = 0; k < GOLDEN_CASES; k++) count += strcmp(golden_cases[k].op, pni_op_at(i)->name) == 0;
    if (!count) printf("%s: no golden values here\n", pni_op_at(i)->name);
  }
}

int main(int argc, char **argv) {
  pn_context *c = pn_context_new(NULL);
  golden(c, argc > 1 && strcmp(argv[1], "-v") == 0);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  CHECK_DONE();
}
