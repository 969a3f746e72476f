/*
** total_count.c: the check as an operation without a result, so that a plan makes it anew. attr: the names of
** the kinds, which are static, and whether p may be above q.
*/
#include "total_count.h"

static pn_status infer(pn_context *c, const pni_call *call, pni_spec *out) {
  pni_spec joint;
  if (pni_broadcast(c, "kl", call->in[0], call->in[1], &joint)) return c->status;
  *out = (pni_spec){.dtype = PN_BOOL};
  return PN_OK;
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  *(uint8_t *)pni_data(out) = 1;
  pni_spec s;
  if (pni_broadcast(c, "kl", call->in[0], call->in[1], &s)) return c->status;
  s.dtype = PN_FLOAT64;
  pn_tensor *a = pni_tensor_new(c, &s), *b = pni_tensor_new(c, &s);
  if (a && b && pni_copy(c, a, call->in[0]) == PN_OK && pni_copy(c, b, call->in[1]) == PN_OK) {
    const double *p = pni_data(a), *q = pni_data(b);
    bool at_least = call->attr->i[2] != 0;
    int64_t i = 0;
    while (i < a->numel && (p[i] == q[i] || (at_least && p[i] > q[i]))) i++;
    const char *p_name = (const char *)(intptr_t)call->attr->i[0], *q_name = (const char *)(intptr_t)call->attr->i[1];
    if (i < a->numel)
      pni_fail(c, PN_MISSING,
               "kl: there is no closed form for %s and %s with total_count %.7g and %.7g (kl_monte_carlo estimates it)",
               p_name, q_name, p[i], q[i]);
  }
  pn_tensor_unref(a);
  pn_tensor_unref(b);
  return c->status;
}

static const pni_op require_totals = {
    .name = "require_totals", .flags = PNI_OP_NODIFF | PNI_OP_HIDDEN | PNI_OP_CHECK, .infer = infer, .eval = eval};

pn_status pni_require_totals(pn_context *c, const char *p_name, const char *q_name, pn_tensor *p, pn_tensor *q,
                             bool at_least) {
  pni_attr a = {.ni = 3, .i = {(int64_t)(intptr_t)p_name, (int64_t)(intptr_t)q_name, at_least}};
  pni_apply2(c, &require_totals, p, q, &a);
  return c->status;
}
