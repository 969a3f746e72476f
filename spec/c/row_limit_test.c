/*
** row_limit_test.c: no row asks for more than the arrays that its callers have: every row of every list, and rows with
** too much of each kind, which must be found.
*/
#include "../../src/distribution/bijector/bijector.h"
#include "../../src/distribution/distribution.h"
#include "../../src/infer/estimator/estimator.h"
#include "../../src/lua/operations.h"
#include "../../src/nn/initialiser.h"
#include "../../src/nn/layer.h"
#include "../../src/nn/optimiser/optimiser.h"
#include "check.h"

/* ---- operations ---- */

typedef struct {
  int args, tensors, lists, ints, reals;
  bool wrong; /* an unknown letter, a name too long, or a list of numbers that is not the last */
} counts;

/* Reads "x:t axes:A keepdim:b=false" as bind_op.c does. */
static counts count_of(const char *args) {
  counts n = {0};
  while (*args) {
    size_t name = strcspn(args, ":");
    if (args[name] == '\0') return n.wrong = true, n;
    char kind = args[name + 1];
    args += name + 2;
    size_t rest = strcspn(args, " ");
    bool last = args[rest] == '\0';
    args += rest + !last;
    n.args++;
    n.wrong |= name == 0 || name >= PNI_OP_ARG_NAME || !kind || !strchr("tTaAinbpsP", kind);
    n.wrong |= strchr("sP", kind) && !last;
    n.tensors += kind == 't';
    n.lists += kind == 'T';
    n.reals += kind == 'n';
    n.ints += strchr("aAib", kind) ? 1 : kind == 'p' ? 2 : strchr("sP", kind) ? PN_MAX_DIMS : 0;
  }
  return n;
}

/* What is wrong with a row, or NULL. */
static const char *fault_of(const pni_op *op) {
  counts n = count_of(op->args);
  bool loop = op->map || op->kernel;
  if (n.wrong) return "arguments that cannot be read";
  if (n.args > PNI_OP_ARGS && !(op->flags & PNI_OP_HIDDEN)) return "more than PNI_OP_ARGS arguments";
  if (n.ints > PNI_ATTR_INTS) return "more than PNI_ATTR_INTS whole numbers";
  if (n.reals > (int)(sizeof((pni_attr *)0)->r / sizeof(double))) return "more reals than an attribute has";
  if (n.tensors > PNI_OP_INPUTS) return "more than PNI_OP_INPUTS inputs";
  if (op->map && n.lists) return "a list as operands of a loop";
  if (loop && n.tensors >= PNI_OPERANDS) return "more inputs than a loop has operands";
  if (op->map && op->vjps && n.tensors > PNI_OPERANDS - 2)
    return "more inputs than the loop of its adjoint has operands";
  if (op->map && n.ints && n.reals) return "whole numbers and reals, of which a loop gets one kind";
  if (!op->eval && !op->map && !op->view) return "nothing that computes";
  if (!op->vjp && !(op->flags & PNI_OP_NODIFF)) return "neither a gradient nor PNI_OP_NODIFF";
  if (op->vjp_add && n.tensors + n.lists != 1) return "vjp_add and not one input";
  return NULL;
}

static void test_operations(void) {
  for (int i = 0; i < pni_op_count(); i++) {
    const char *fault = fault_of(pni_op_at(i));
    if (fault) printf("%s has %s\n", pni_op_at(i)->name, fault);
    CHECK(!fault);
  }
}

static void planted(const char *row, const char *args, const char *want) {
  pni_op op = *pni_op_find(row);
  op.args = args;
  const char *fault = fault_of(&op);
  if (!fault || !strstr(fault, want)) printf("planted %s(%s): %s\n", row, args, fault ? fault : "nothing found");
  CHECK(fault && strstr(fault, want));
}

static void test_planted_operations(void) {
  CHECK(!fault_of(pni_op_find("add")));
  planted("add", "a:t b:t c:t d:t e:t f:t", "than a loop has operands");
  planted("where", "a:t b:t c:t d:t e:t f:t", "than a loop has operands");
  planted("add", "list:T", "a list as operands");
  planted("add", "a:t k:i x:n", "of which a loop gets one kind");
  planted("sum", "x:t a:i b:i c:i d:i e:i f:i g:i h:i", "PNI_OP_ARGS");
  planted("sum", "x:t a:n b:n c:n", "more reals");
  planted("sum", "x:t sizes:s keepdim:b", "cannot be read");
  planted("sum", "x:t a_name_of_more_than_thirty_one_letters:i", "cannot be read");
  planted("sum", "x:t axes:q", "cannot be read");
  planted("sum", "x", "cannot be read");
  pni_op op = *pni_op_find("sum");
  op.vjp = NULL;
  CHECK(fault_of(&op) && strstr(fault_of(&op), "neither a gradient"));
  op = *pni_op_find("sum");
  op.eval = NULL;
  op.map = NULL;
  op.view = NULL;
  CHECK(fault_of(&op) && strstr(fault_of(&op), "nothing that computes"));
}

/* ---- options ---- */

static bool too_many(const pni_option *rows) {
  int n = 0;
  while (rows && rows[n].name && n <= PNI_OPTIONS) n++;
  return n > PNI_OPTIONS;
}

static void test_options(void) {
  for (int i = 0; i < pni_layer_count(); i++) CHECK(!too_many(pni_layer_at(i)->options));
  for (int i = 0; i < pni_initialiser_count(); i++) CHECK(!too_many(pni_initialiser_at(i)->options));
  for (int i = 0; i < pni_optimiser_count(); i++) CHECK(!too_many(pni_optimiser_at(i)->options));
  for (int i = 0; i < pni_estimator_count(); i++) CHECK(!too_many(pni_estimator_at(i)->options));
  pni_option most[PNI_OPTIONS + 2] = {{0}};
  for (int k = 0; k <= PNI_OPTIONS; k++) most[k].name = "option";
  CHECK(too_many(most));
  most[PNI_OPTIONS].name = NULL;
  CHECK(!too_many(most));
}

/* ---- optimisers, estimators ---- */

typedef void (*scalars)(const double *option, int64_t step, double *k);

/* Does it write beyond k[PNI_SCALARS - 1]? */
static bool writes_beyond(scalars f, const pni_option *rows) {
  double option[PNI_OPTIONS] = {0}, k[4 * PNI_SCALARS];
  for (int i = 0; i < PNI_OPTIONS && rows && rows[i].name; i++) option[i] = rows[i].value;
  for (int i = 0; i < 4 * PNI_SCALARS; i++) k[i] = 12345;
  f(option, 1, k);
  for (int i = PNI_SCALARS; i < 4 * PNI_SCALARS; i++)
    if (k[i] != 12345) return true;
  return false;
}

static void nine(const double *option, int64_t step, double *k) {
  for (int i = 0; i <= PNI_SCALARS; i++) k[i] = option[0] + (double)step;
}

static void test_arrays(void) {
  for (int i = 0; i < pni_optimiser_count(); i++) {
    const pni_optimiser *row = pni_optimiser_at(i);
    CHECK(!writes_beyond(row->scalars, row->options));
    for (int k = 0; k < 2; k++) CHECK(row->update[k]);
  }
  CHECK(writes_beyond(nine, NULL));
  for (int i = 0; i < pni_estimator_count(); i++) {
    const pni_estimator *row = pni_estimator_at(i);
    CHECK(!row->input[PNI_ESTIMATOR_INPUTS].name);
    for (int k = 0; k < PNI_ESTIMATOR_INPUTS && row->input[k].name; k++)
      if (row->input[k].flags & PNI_INPUT_LIST) CHECK(!row->input[k + 1].name);
  }
}

/* Nothing follows the first parameter without a name. */
static bool has_hole(const pni_parameter *p, int most) {
  int n = 0;
  while (n < most && p[n].name) n++;
  for (; n < most; n++)
    if (p[n].name) return true;
  return false;
}

static void test_parameters(void) {
  for (int i = 0; i < pni_dist_count(); i++) {
    const pni_distribution *row = pni_dist_at(i);
    CHECK(!has_hole(row->param, PNI_DIST_PARAMS));
    CHECK((int)strlen(row->event) <= PN_MAX_DIMS);
  }
  for (int i = 0; i < pni_bijector_count(); i++) CHECK(!has_hole(pni_bijector_at(i)->param, PNI_BIJECTOR_PARAMS));
  pni_parameter hole[PNI_DIST_PARAMS] = {{.name = "loc"}, {.name = NULL}, {.name = "scale"}};
  CHECK(has_hole(hole, PNI_DIST_PARAMS));
}

int main(void) {
  test_operations();
  test_planted_operations();
  test_options();
  test_arrays();
  test_parameters();
  CHECK_DONE();
}
