/* operations.c: the operations of all layers in one table, made from their lists. */
#include <string.h>
#include "../distribution/kernel/distribution_op.h"
#include "../infer/op/infer_op.h"
#include "../nn/recurrent/nn_op.h"
#include "../smc/gaussian/gaussian_op.h"
#include "../smc/hidden/hidden_markov.h"
#include "../smc/kalman/kalman_op.h"
#include "../smc/op/smc_op.h"
#include "operations.h"

static const pni_op *const rows[] = {
#define X(name)       &pni_op_##name,
#define V(name, rule) X(name)
#define H(name)       X(name)
#include "../autodiff/op/op.def"
#undef X
#undef V
#undef H
#define X(name) &pni_distribution_op_##name,
#include "../distribution/kernel/distribution_op.def"
#undef X
#define X(name) &pni_nn_op_##name,
#include "../nn/recurrent/nn_op.def"
#undef X
#define X(name) &pni_infer_op_##name,
#include "../infer/op/infer_op.def"
#undef X
#define X(name) &pni_smc_op_##name,
#include "../smc/op/smc_op.def"
#undef X
#define X(name) &pni_gaussian_op_##name,
#include "../smc/gaussian/gaussian_op.def"
#undef X
#define X(name) &pni_hidden_op_##name,
#include "../smc/hidden/hidden_markov.def"
#undef X
#define X(name) &pni_kalman_op_##name,
#include "../smc/kalman/kalman_op.def"
#undef X
};

int pni_op_count(void) { return (int)(sizeof rows / sizeof rows[0]); }
const pni_op *pni_op_at(int i) { return i >= 0 && i < pni_op_count() ? rows[i] : NULL; }

const pni_op *pni_op_find(const char *name) {
  for (int i = 0; i < pni_op_count(); i++)
    if (strcmp(rows[i]->name, name) == 0) return rows[i];
  return NULL;
}
