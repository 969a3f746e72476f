/*
** op_axes.c: what operations ask of their inputs before they compute with them: axes, in a few letters, and that one
** input is what another operation would give. Builders see to both, but a plan, a rule or a map over examples may call
** with other tensors.
*/
#include <ctype.h>
#include <string.h>
#include "op/op.h"

/* Leading axes that several inputs share, and what each letter stands for (-1: not known yet). */
typedef struct {
  int lead;
  int64_t shape[PN_MAX_DIMS], size[128];
} axes;

static bool agrees(int64_t *size, int64_t n) {
  if (*size < 0) *size = n;
  return *size == n;
}

/* Does t fit the n letters at p, after axes of its own or (lead) those that all share? */
static bool fits(axes *a, const pn_tensor *t, const char *p, int n, bool lead) {
  int before = t->ndim - n;
  if (before < 0 || (before > 0 && !lead)) return false;
  if (lead && a->lead < 0) {
    a->lead = before;
    memcpy(a->shape, t->shape, (size_t)before * sizeof *a->shape);
  }
  if (lead && (before != a->lead || memcmp(a->shape, t->shape, (size_t)before * sizeof *a->shape) != 0)) return false;
  for (int i = 0; i < n; i++)
    if (!agrees(&a->size[(unsigned char)p[i] & 127], t->shape[before + i])) return false;
  return true;
}

static bool has_dtype(const pn_tensor *t, char kind) {
  return kind == 'f' ? pni_is_float(t) : t->dtype == (kind == 'i' ? PN_INT64 : PN_BOOL);
}

pn_status pni_require_axes(pn_context *c, const pni_call *call, const char *wanted) {
  axes a = {.lead = -1};
  memset(a.size, -1, sizeof a.size);
  const char *p = wanted;
  for (int k = 0; k < call->nin; k++) {
    const pn_tensor *t = call->in[k];
    while (*p == ' ') p++;
    const char *token = p;
    bool any = *p == '*', lead = strncmp(p, "...", 3) == 0;
    p += any ? 1 : lead ? 3 : *p == '0';
    const char *letters = p;
    while (isalpha((unsigned char)*p)) p++;
    int n = (int)(p - letters);
    char kind = *p == ':' ? p[1] : '\0';
    if ((any || fits(&a, t, letters, n, lead)) && (!kind || has_dtype(t, kind)) && p > token) {
      p += kind ? 2 : 0;
      continue;
    }
    char s[PNI_SHAPE_TEXT];
    return pni_fail(c, PN_SHAPE, "%s: input %d must be as in '%s', got %s %s", call->op->name, k + 1, wanted,
                    pn_dtype_name((pn_dtype)t->dtype), pni_shape_text(t->ndim, t->shape, s));
  }
  return PN_OK;
}

pn_status pni_require_like(pn_context *c, const pni_call *call, int k, const pni_spec *spec) {
  const pn_tensor *t = call->in[k];
  char s[PNI_SHAPE_TEXT], u[PNI_SHAPE_TEXT];
  if (t->dtype == spec->dtype && t->ndim == spec->ndim &&
      memcmp(t->shape, spec->shape, (size_t)t->ndim * sizeof *t->shape) == 0)
    return PN_OK;
  return pni_fail(c, PN_SHAPE, "%s: input %d must be %s %s, got %s %s", call->op->name, k + 1,
                  pn_dtype_name((pn_dtype)spec->dtype), pni_shape_text(spec->ndim, spec->shape, s),
                  pn_dtype_name((pn_dtype)t->dtype), pni_shape_text(t->ndim, t->shape, u));
}

pn_status pni_infer_as(pn_context *c, const pni_call *call, const pni_op *op, int nin, pn_tensor *const *in,
                       const pni_attr *attr, pni_spec *out) {
  static const pni_attr none;
  pni_call other = {op, in, nin, attr ? attr : call->attr ? call->attr : &none};
  return op->infer(c, &other, out);
}

pn_status pni_require_result(pn_context *c, const pni_call *call, const pni_op *op, int nin, const pni_attr *attr) {
  pni_spec y;
  if (pni_infer_as(c, call, op, nin, call->in, attr, &y)) return c->status;
  for (int k = nin; k < call->nin; k++)
    if (pni_require_like(c, call, k, &y)) return c->status;
  return PN_OK;
}
