/*
** label_density.c: log masses of labels by logits [..., n] in one pass over them (tensor/lane/short_rows.h):
**   of a label k [...]            l_k,  l = logits - logsumexp(logits);  d/dlogits = e_k - softmax(logits)
**   of a vector w [..., n]        sum w l, where terms with w = 0 are 0; d/dlogits = w - softmax(logits) sum w,
**                                 d/dw = l where w is not 0
*/
#include "density.h"
#include "../formula.h"
#include "../../tensor/lane/short_rows.h"

enum { LOGITS, CHOICE, G };

/* Short rows of logits, a label or a weight of each class for each, and of a slope g. */
static pn_status check_rows(C *c, const pni_call *call) {
  const T *x = call->in[LOGITS], *choice = call->in[CHOICE];
  bool label = choice->dtype == PN_INT64;
  char s[PNI_SHAPE_TEXT];
  if (pni_require_axes(c, call, label ? "...n:f ...:i ...:f" : "...n:f ...n:f ...:f")) return c->status;
  int64_t n = x->shape[x->ndim - 1];
  bool same = (label || choice->dtype == x->dtype) && (call->nin <= G || call->in[G]->dtype == x->dtype);
  if (n > 0 && n <= PNI_SHORT_ROWS_LONGEST && same) return PN_OK;
  return pni_fail(c, PN_SHAPE, "label_log_mass: logits must have 1 to %d classes and one dtype with the rest, got %s",
                  PNI_SHORT_ROWS_LONGEST, pni_shape_text(x->ndim, x->shape, s));
}

static pn_status infer_number(C *c, const pni_call *call, pni_spec *out) {
  *out = pni_spec_of(call->in[LOGITS]);
  out->ndim--;
  return check_rows(c, call);
}

static pn_status infer_slope(C *c, const pni_call *call, pni_spec *out) {
  *out = pni_spec_of(call->in[LOGITS]);
  return check_rows(c, call);
}

/* Labels 0 .. n - 1 alone. */
static pn_status check_labels(C *c, const int64_t *label, int64_t count, int64_t n) {
  int64_t bad = 0;
  for (int64_t i = 0; i < count; i++) bad |= label[i] | (n - 1 - label[i]);
  for (int64_t i = 0; bad < 0 && i < count; i++)
    if (label[i] < 0 || label[i] >= n)
      return pni_fail(c, PN_DOMAIN, "label_log_mass: label must lie in 0 to %lld, got %lld", (long long)n - 1,
                      (long long)label[i]);
  return PN_OK;
}

/* The rows of logits and of what chooses among them; g is that of a slope, or NULL. */
static pn_status run(C *c, const pni_call *call, T *out, pni_short_rows_problem kind) {
  if (out->numel == 0) return PN_OK;
  T *x = pni_contiguous(c, call->in[LOGITS]), *w = x ? pni_contiguous(c, call->in[CHOICE]) : NULL;
  T *g = w && call->nin > G ? pni_contiguous(c, call->in[G]) : NULL;
  if (w && (g || call->nin <= G)) {
    bool label = w->dtype == PN_INT64;
    int64_t n = x->shape[x->ndim - 1];
    pni_short_rows r = {.kind = kind, .n = (int)n, .x = pni_data(x), .out = pni_data(out)};
    r.y = label ? NULL : pni_data(w);
    r.index = label ? pni_data(w) : NULL;
    r.g = g ? pni_data(g) : NULL;
    if (!label || check_labels(c, r.index, w->numel, n) == PN_OK) pni_short_rows_run(c, x->dtype, &r, x->numel / n);
  }
  pn_tensor_unref(x);
  pn_tensor_unref(w);
  pn_tensor_unref(g);
  return c->status;
}

static pn_status eval_label(C *c, const pni_call *call, T *out) { return run(c, call, out, PNI_SHORT_ROWS_PICK); }
static pn_status eval_vector(C *c, const pni_call *call, T *out) { return run(c, call, out, PNI_SHORT_ROWS_DOT); }
static pn_status eval_label_slope(C *c, const pni_call *call, T *out) {
  return run(c, call, out, PNI_SHORT_ROWS_PICK_SLOPE);
}
static pn_status eval_vector_slope(C *c, const pni_call *call, T *out) {
  return run(c, call, out, PNI_SHORT_ROWS_DOT_SLOPE);
}

#define SLOPE(id, eval_fn)                                                                                             \
  static const pni_op id = {                                                                                           \
      .name = #id, .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF | PNI_OP_ANY_DTYPE, .infer = infer_slope, .eval = eval_fn};
SLOPE(label_score, eval_label_slope)
SLOPE(one_hot_score, eval_vector_slope)

static T *over_classes(C *c, T *g) { return pn_unsqueeze(c, g, -1); }

static T *vjp_label(C *c, T *y, T *g, int k) {
  T *x = pni_in(y, LOGITS), *column = over_classes(c, g);
  (void)k;
  T *hit = pn_scatter_add(c, pn_zeros(c, (pn_dtype)x->dtype, x->ndim, x->shape), -1, over_classes(c, pni_in(y, CHOICE)),
                          column);
  return pn_sub(c, hit, pn_mul(c, column, pn_softmax(c, x, -1)));
}

static T *vjp_vector(C *c, T *y, T *g, int k) {
  T *x = pni_in(y, LOGITS), *w = pni_in(y, CHOICE), *column = over_classes(c, g);
  if (k == CHOICE) return pn_mul(c, column, but(c, equals(c, w, 0), 0, pn_log_softmax(c, x, -1)));
  return pn_mul(c, column, pn_sub(c, w, pn_mul(c, pn_softmax(c, x, -1), pn_sum(c, w, LAST, 1))));
}

static pn_status vjps_label(C *c, T *y, T *g, const bool *wanted, T **out) {
  (void)wanted;
  out[LOGITS] = pni_apply(c, &label_score, 3, (T *[]){pni_in(y, LOGITS), pni_in(y, CHOICE), g}, NULL);
  return c->status;
}

static pn_status vjps_vector(C *c, T *y, T *g, const bool *wanted, T **out) {
  T *in[] = {pni_in(y, LOGITS), pni_in(y, CHOICE), g};
  if (wanted[LOGITS]) out[LOGITS] = pni_apply(c, &one_hot_score, 3, in, NULL);
  if (wanted[CHOICE]) out[CHOICE] = vjp_vector(c, y, g, CHOICE);
  return c->status;
}

static const pni_op label_log_mass = {.name = "label_log_mass",
                                      .flags = PNI_OP_HIDDEN | PNI_OP_ANY_DTYPE,
                                      .infer = infer_number,
                                      .eval = eval_label,
                                      .vjp = vjp_label,
                                      .vjps = vjps_label};
static const pni_op one_hot_log_mass = {.name = "one_hot_log_mass",
                                        .flags = PNI_OP_HIDDEN,
                                        .infer = infer_number,
                                        .eval = eval_vector,
                                        .vjp = vjp_vector,
                                        .vjps = vjps_vector};

/* Short rows, and a choice for each. */
static bool fits(const T *x, const T *choice, int ndim) {
  bool same = x && choice && choice->ndim == ndim && x->shape[x->ndim - 1] > 0 &&
              x->shape[x->ndim - 1] <= PNI_SHORT_ROWS_LONGEST;
  for (int i = 0; same && i < ndim; i++) same = x->shape[i] == choice->shape[i];
  return same;
}

T *pni_label_log_mass(C *c, T *logits, T *label) {
  bool one = fits(logits, label, logits ? logits->ndim - 1 : 0) && label->dtype == PN_INT64;
  return one ? pni_apply2(c, &label_log_mass, logits, label, NULL) : NULL;
}

T *pni_one_hot_log_mass(C *c, T *logits, T *w) {
  bool one = fits(logits, w, logits ? logits->ndim : 0) && w->dtype == logits->dtype;
  return one ? pni_apply2(c, &one_hot_log_mass, logits, w, NULL) : NULL;
}
