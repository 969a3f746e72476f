/*
** einsum_test.c: index notation against NumPy, with derivatives, and what is wrong with a wrong one.
*/
#include "alloc_sweep.h"
#include "gradient.h"
#include "../golden/linalg/einsum_golden.h"

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

enum { CASES = sizeof golden_einsum / sizeof golden_einsum[0] };

static pn_tensor *operand_of(pn_context *c, int ndim, const int64_t *shape, int k) {
  double v[512];
  int64_t n = 1;
  for (int i = 0; i < ndim; i++) n *= shape[i];
  for (int64_t i = 0; i < n; i++) v[i] = sin(0.7 * (double)(i + 1) + k);
  return pn_from_data(c, PN_FLOAT64, ndim, shape, v);
}

static int current; /* the case that `f` computes */
static pn_tensor *f(pn_context *c, pn_tensor *const *x) {
  return pn_einsum(c, golden_einsum[current].spec, golden_einsum[current].n, x);
}

static void values(pn_context *c) {
  for (current = 0; current < CASES; current++) {
    size_t mark = pn_scope_open(c);
    pn_tensor *x[5], *flipped[5];
    int n = golden_einsum[current].n, ndim = golden_einsum[current].out.ndim;
    for (int k = 0; k < n; k++) {
      x[k] = pn_param(c, operand_of(c, golden_einsum[current].in[k].ndim, golden_einsum[current].in[k].shape, k));
      flipped[k] = golden_einsum[current].in[k].ndim ? pn_flip(c, pn_contiguous(c, pn_flip(c, x[k], 0)), 0) : x[k];
    }
    double got[128], strided[128];
    pn_tensor *y = f(c, x), *z = f(c, flipped);
    int64_t size = y ? pn_tensor_numel(y) : 0;
    bool ok = y && z && pn_tensor_ndim(y) == ndim;
    for (int i = 0; ok && i < ndim; i++) ok = pn_tensor_shape(y)[i] == golden_einsum[current].out.shape[i];
    ok = ok && !pn_tensor_copy_out(c, y, got, size) && !pn_tensor_copy_out(c, z, strided, size);
    for (int64_t i = 0; ok && i < size; i++)
      ok = check_near(got[i], golden_einsum[current].value[i], 1e-12) || fabs(got[i]) < 1e-13;
    for (int64_t i = 0; ok && i < size; i++) ok = fabs(got[i] - strided[i]) <= 1e-13;
    if (!ok) printf("einsum %s: %s\n", golden_einsum[current].spec, pn_context_message(c));
    check_record(ok);
    if (n <= GRADIENT_INPUTS) gradient_check(c, golden_einsum[current].spec, f, n, x);
    pn_scope_close(c, mark);
  }
}

static void refused(pn_context *c, const char *spec, int n, pn_tensor *const *x, pn_status status, const char *text) {
  CHECK(pn_einsum(c, spec, n, x) == NULL);
  CHECK_FAIL(c, status, text);
}

static void errors(pn_context *c) {
  size_t mark = pn_scope_open(c);
  pn_tensor *a = pn_zeros(c, PN_FLOAT64, SHAPE(2, 3)), *b = pn_zeros(c, PN_FLOAT64, SHAPE(4, 2)), *x[] = {a, b, NULL};
  pn_tensor *i[] = {a, pn_zeros(c, PN_FLOAT32, SHAPE(3, 2))},
            *big[] = {pn_zeros(c, PN_FLOAT64, SHAPE(1, 1, 1, 1, 1)), pn_zeros(c, PN_FLOAT64, SHAPE(1, 1, 1, 1, 1))};
  refused(c, "ij,jk->ik", 2, x, PN_SHAPE, "index 'j' must have one size, got 3 and, in operand 2, 4");
  refused(c, "ijk,jk->ik", 2, x, PN_SHAPE, "term 'ijk' must name each of its operand's 2 axes");
  refused(c, "...ijk,jk->ik", 2, x, PN_SHAPE, "term '...ijk' must name");
  refused(c, "ij->ik", 1, x, PN_DOMAIN, "index 'k' of the result must occur in an operand");
  refused(c, "ij->ii", 1, x, PN_DOMAIN, "index 'i' of the result must occur there once");
  refused(c, "ij", 2, x, PN_DOMAIN, "one term for each of the 2 operands");
  refused(c, "ij,kl,mn->", 2, x, PN_DOMAIN, "one term for each of the 2 operands");
  refused(c, "i1->i", 1, x, PN_DOMAIN, "must be at most 8 letters");
  refused(c, "ij-i", 1, x, PN_DOMAIN, "must be at most 8 letters");
  refused(c, "ij->i,j", 1, x, PN_DOMAIN, "result must be one term");
  refused(c, "i...->i", 1, x, PN_DOMAIN, "'...' must stand in the result");
  refused(c, "ii", 1, x, PN_SHAPE, "index 'i' must have one size");
  refused(c, "ij,jk->ik", 2, i, PN_DTYPE, "float64 and float32");
  refused(c, "abcde,fghij->", 2, (pn_tensor *[]){big[0], x[2]}, PN_STATE, "operand 2 must be a tensor");
  refused(c, "abcde,fghij", 2, big, PN_SHAPE, "at most 8");
  refused(c, "ij", 0, x, PN_DOMAIN, "number of operands must be 1 to");
  pn_scope_close(c, mark);
}

static bool work(pn_context *c, const void *data) {
  (void)data;
  pn_tensor *x[] = {pn_param(c, operand_of(c, SHAPE(2, 3, 3), 0)), operand_of(c, SHAPE(2, 4, 3), 1)};
  pn_tensor *y = x[0] && x[1] ? pn_einsum(c, "bii,bki->bk", 2, x) : NULL;
  pn_tensor *z = x[0] && x[1] ? pn_einsum(c, "bij,bkj->ik", 2, x) : NULL;
  y = pn_add(c, pn_sum(c, y, PN_ALL, 0), pn_sum(c, z, PN_ALL, 0));
  return y && pn_backward(c, y) == PN_OK;
}

int main(void) {
  pn_context *c = pn_context_new(&(pn_context_config){.seed = 5, .threads = 1});
  values(c);
  errors(c);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
  sweep("einsum", work, NULL);
  CHECK_DONE();
}
