/*
** axis_test.c: what a C host may hand to any row. Rows with an axis refuse tensors that lack it and axes beyond it,
** whoever calls them; no row reads or writes outside of tensors without axes or elements; lists are as long as memory;
** what a text of letters asks of shapes is what comparing each two axes of one letter finds.
*/
#include <stdlib.h>
#include "../../src/lua/operations.h"
#include "check.h"

enum { LONG_LIST = 500 };

/* Number of inputs in a row's args; *axis: is the first other argument an axis? *list: does it take any number? */
static int inputs_of(const pni_op *op, bool *axis, bool *list) {
  int n = 0, others = 0;
  *axis = *list = false;
  for (const char *p = strchr(op->args, ':'); p; p = strchr(p + 1, ':')) {
    *list |= p[1] == 'T';
    n += p[1] == 't' || p[1] == 'T';
    if (p[1] != 't' && p[1] != 'T' && others++ == 0) *axis = p[1] == 'a';
  }
  return n;
}

/* What stands at input k of a row, by the dtype that it wants there. */
static pn_tensor *input(pn_context *c, const pni_op *op, int k, int ndim, const int64_t *shape) {
  bool index = (k == 1 && strstr(op->args, "index:t") != NULL) || (strcmp(op->name, "nonzero") == 0);
  bool mask = k == 0 && strcmp(op->name, "where") == 0;
  return pn_full(c, mask ? PN_BOOL : index ? PN_INT64 : PN_FLOAT64, ndim, shape, index ? 0 : 0.5);
}

/* The flag says what the args say, and limits of arrays hold. */
static void flags(void) {
  int with_axis = 0;
  for (int i = 0; i < pni_op_count(); i++) {
    const pni_op *op = pni_op_at(i);
    bool axis, list, own = strcmp(op->name, "take_add") == 0; /* an axis of the result: checked there */
    int n = inputs_of(op, &axis, &list);
    if (axis != ((op->flags & PNI_OP_AXIS) != 0 || own)) printf("%s: flag of an axis\n", op->name);
    CHECK(axis == ((op->flags & PNI_OP_AXIS) != 0 || own));
    CHECK((!op->map && !op->kernel) || n < PNI_OPERANDS);
    int ints = 0, reals = 0;
    for (const char *p = strchr(op->args, ':'); p; p = strchr(p + 1, ':')) {
      reals += p[1] == 'n';
      ints += p[1] == 'p' ? 2 : strchr("sP", p[1]) ? PN_MAX_DIMS : !strchr("tTn", p[1]);
    }
    CHECK(ints <= PNI_ATTR_INTS && reals <= 2);
    CHECK(!op->vjps || n <= PNI_OP_INPUTS);
    with_axis += axis;
  }
  CHECK(with_axis > 8);
}

static void refusals(pn_context *c) {
  static const int64_t wrong[] = {-1, -100, 2, 3, 8, 64, (int64_t)1 << 32, INT64_MAX, INT64_MIN};
  for (int i = 0; i < pni_op_count(); i++) {
    const pni_op *op = pni_op_at(i);
    bool axis, list;
    int n = inputs_of(op, &axis, &list);
    for (size_t w = 0; axis && w < sizeof wrong / sizeof *wrong + 1; w++) {
      size_t mark = pn_scope_open(c);
      bool none = w == sizeof wrong / sizeof *wrong; /* no axis at all */
      bool adds = strcmp(op->name, "take_add") == 0; /* its result has one axis more than g has beside index */
      pn_tensor *in[4];
      for (int k = 0; k < n; k++) in[k] = input(c, op, k, none ? 0 : 2, (int64_t[]){2, 2});
      pni_attr a = {.ni = 5, .i = {none ? (adds ? 1 : 0) : wrong[w], 1, 1, 1, 2}};
      CHECK(pni_apply(c, op, n, in, &a) == NULL);
      CHECK_FAIL(c, PN_SHAPE, op->name);
      pn_scope_close(c, mark);
    }
  }
}

/* Of tensors without axes, with empty ones, of every attribute 0 or 1: an answer or an error, nothing else. */
static void survives(pn_context *c) {
  static const int64_t shape[][4] = {{0}, {0, 3, 0, 0}, {3, 0, 0, 0}, {1, 1, 1, 1}, {0, 0, 0, 0}, {2, 2, 2, 2}};
  for (int i = 0; i < pni_op_count(); i++) {
    const pni_op *op = pni_op_at(i);
    bool axis, list;
    int n = inputs_of(op, &axis, &list);
    if (op->flags & PNI_OP_DRAW) continue;
    for (int s = 0; s < 6 * 5 * 2; s++) {
      size_t mark = pn_scope_open(c);
      pn_tensor *in[16];
      int ndim = s % 5;
      for (int k = 0; k < n; k++) in[k] = input(c, op, k, ndim, shape[s / 5 % 6]);
      pni_attr a = {.ni = PNI_ATTR_INTS};
      for (int k = 0; k < PNI_ATTR_INTS; k++) a.i[k] = s / 30;
      if (strchr(op->args, 's')) a.ni = ndim;
      pn_tensor *y = n <= 16 && !(op->flags & PNI_OP_HIDDEN && !axis) ? pni_apply(c, op, n, in, &a) : NULL;
      CHECK((y != NULL) == (pn_context_status(c) == PN_OK) || (op->flags & PNI_OP_HIDDEN && !axis));
      pn_context_clear_error(c);
      pn_scope_close(c, mark);
    }
  }
}

static void long_lists(pn_context *c) {
  pn_tensor *x[LONG_LIST], *g[LONG_LIST];
  double last = 0;
  for (int k = 0; k < LONG_LIST; k++) x[k] = pn_param(c, pn_full(c, PN_FLOAT64, 1, (int64_t[]){2}, k));
  pn_tensor *y = pn_concatenate(c, LONG_LIST, x, 0), *z = pn_stack(c, LONG_LIST, x, 0);
  pn_tensor *loss = pn_add(c, pn_sum(c, pn_square(c, y), PN_ALL, 0), pn_sum(c, z, PN_ALL, 0));
  CHECK_STATUS(c, pn_grad(c, loss, LONG_LIST, x, 0, g), PN_OK);
  CHECK_STATUS(c, pn_tensor_item(c, pn_select(c, g[LONG_LIST - 1], 0, 1), &last), PN_OK);
  CHECK_NEAR(last, 2 * (LONG_LIST - 1) + 1, 0);
}

/* An affine map of no inputs is its bias; its weight has the gradient of no elements. */
static void empty_linear(pn_context *c) {
  const int64_t lead[][3] = {{2, 0}, {5, 2, 0}, {0, 0}, {0, 3, 0}};
  for (size_t s = 0; s < sizeof lead / sizeof *lead; s++) {
    int ndim = s % 2 ? 3 : 2;
    pn_tensor *in[] = {pn_param(c, pn_zeros(c, PN_FLOAT64, ndim, lead[s])),
                       pn_param(c, pn_zeros(c, PN_FLOAT64, 2, (int64_t[]){0, 4})),
                       pn_param(c, pn_full(c, PN_FLOAT64, 1, (int64_t[]){4}, 3))};
    pn_tensor *g[3], *again[3], *loss = pn_sum(c, pn_square(c, pn_linear(c, in[0], in[1], in[2])), PN_ALL, 0);
    CHECK_STATUS(c, pn_grad(c, loss, 3, in, 1, g), PN_OK);
    if (pn_context_status(c)) continue;
    for (int k = 0; k < 3; k++) CHECK_INT(pn_tensor_numel(g[k]), pn_tensor_numel(in[k]));
    double bias = NAN, rows = (double)pni_count(ndim - 1, lead[s]);
    CHECK_STATUS(c, pn_tensor_item(c, pn_select(c, g[2], 0, 0), &bias), PN_OK);
    CHECK_NEAR(bias, 6 * rows, 0);
    CHECK_STATUS(c, pn_grad(c, pn_sum(c, pn_square(c, g[2]), PN_ALL, 0), 3, in, 0, again), PN_OK);
  }
}

enum { TEXT_INPUTS = 3 };

typedef struct {
  const char *text;
  struct {
    bool any, lead;
    const char *letters;
    char kind;
  } in[TEXT_INPUTS];
} axes_text;

/* Each input alone, then each two axes that share a letter or a leading place. */
static bool fits(const axes_text *a, int n, pn_tensor *const *t) {
  int own[TEXT_INPUTS];
  for (int k = 0; k < n; k++) {
    const char kind = a->in[k].kind;
    own[k] = t[k]->ndim - (int)strlen(a->in[k].letters);
    if (kind && t[k]->dtype != (kind == 'f' ? PN_FLOAT64 : kind == 'i' ? PN_INT64 : PN_BOOL)) return false;
    if (!a->in[k].any && (own[k] < 0 || (own[k] > 0 && !a->in[k].lead))) return false;
  }
  for (int k = 0; k < n; k++)
    for (int m = 0; m < n; m++) {
      if (a->in[k].any || a->in[m].any) continue;
      if (a->in[k].lead && a->in[m].lead) {
        if (own[k] != own[m]) return false;
        for (int i = 0; i < own[k]; i++)
          if (t[k]->shape[i] != t[m]->shape[i]) return false;
      }
      for (int i = own[k]; i < t[k]->ndim; i++)
        for (int j = own[m]; j < t[m]->ndim; j++)
          if (a->in[k].letters[i - own[k]] == a->in[m].letters[j - own[m]] && t[k]->shape[i] != t[m]->shape[j])
            return false;
    }
  return true;
}

static void letters(pn_context *c) {
  static const axes_text texts[] = {
      {"...nm m ...", {{false, true, "nm", 0}, {false, false, "m", 0}, {false, true, "", 0}}},
      {"...n:f ...:i 0", {{false, true, "n", 'f'}, {false, true, "", 'i'}, {false, false, "", 0}}},
      {"KB B *:b", {{false, false, "KB", 0}, {false, false, "B", 0}, {true, false, "", 'b'}}},
      {"nn *:f ...n:f", {{false, false, "nn", 0}, {true, false, "", 'f'}, {false, true, "n", 'f'}}},
  };
  static const pn_dtype dtypes[] = {PN_FLOAT64, PN_FLOAT64, PN_INT64, PN_BOOL};
  const pni_op op = {.name = "letters"};
  uint32_t state = 1;
  int accepted = 0;
  for (int turn = 0; turn < 6000; turn++) {
    size_t mark = pn_scope_open(c);
    const axes_text *a = &texts[turn % 4];
    pn_tensor *in[TEXT_INPUTS];
    for (int k = 0; k < TEXT_INPUTS; k++) {
      int64_t shape[4];
      for (int i = 0; i < 4; i++) shape[i] = (state = state * 1664525 + 1013904223) >> 30 ? 2 : 3;
      int letters = (int)strlen(a->in[k].letters), more = (int)((state = state * 1664525 + 1013904223) >> 30) - 1;
      int ndim = letters + (a->in[k].lead || a->in[k].any ? more : more / 2);
      state = state * 1664525 + 1013904223;
      in[k] = pn_full(c, dtypes[a->in[k].kind ? state >> 30 : 0], ndim < 0 ? 0 : ndim, shape, 1);
      if (a->in[k].kind == 'i' && state >> 29 & 1) in[k] = pn_full(c, PN_INT64, in[k]->ndim, in[k]->shape, 1);
    }
    const bool fit = fits(a, TEXT_INPUTS, in);
    const pni_call call = {.op = &op, .nin = TEXT_INPUTS, .in = in};
    const pn_status got = pni_require_axes(c, &call, a->text);
    if ((got == PN_OK) != fit) printf("letters %s, turn %d: %s\n", a->text, turn, pn_context_message(c));
    CHECK_INT(got, fit ? PN_OK : PN_SHAPE);
    accepted += fit;
    pn_context_clear_error(c);
    pn_scope_close(c, mark);
  }
  CHECK(accepted > 300 && accepted < 5000);
}

/* A nest of more operands than fit has none, whatever stood there, and is not run. */
static void too_many(pn_context *c) {
  pn_tensor *x = pn_full(c, PN_FLOAT64, 1, (const int64_t[]){3}, 1), *in[PNI_OPERANDS];
  for (int k = 0; k < PNI_OPERANDS; k++) in[k] = x;
  pni_loop l;
  memset(&l, 1, sizeof l);
  pni_loop_init(&l, x, PNI_OPERANDS, in);
  CHECK_INT(l.nop, 0);
  CHECK(pni_loop_run(c, &l, NULL, NULL) != PN_OK);
  pn_context_clear_error(c);
}

int main(void) {
  pn_context *c = pn_context_new(NULL);
  void (*const part[])(pn_context *) = {refusals, survives, long_lists, empty_linear, letters, too_many};
  flags();
  for (size_t k = 0; k < sizeof part / sizeof *part; k++) {
    size_t mark = pn_scope_open(c);
    part[k](c);
    pn_scope_close(c, mark);
    CHECK_INT(pn_context_objects(c), 0);
    CHECK_INT(pn_context_status(c), PN_OK);
  }
  pn_context_close(c);
  CHECK_DONE();
}
