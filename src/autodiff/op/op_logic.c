/*
** op_logic.c: comparisons (bool results, gradient zero by definition), selection, limits, conversion.
*/
#include "op.h"
#include "../../tensor/kernel/map.h"

static pn_status infer_bool(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *a = call->in[0];
  *out = pni_spec_of(a);
  out->dtype = PN_BOOL;
  if (call->nin == 1) return PN_OK;
  const pn_tensor *b = call->in[1];
  if (a->dtype != b->dtype)
    return pni_fail(c, PN_DTYPE, "%s: tensors must have one dtype, got %s and %s (convert with :to)", call->op->name,
                    pn_dtype_name((pn_dtype)a->dtype), pn_dtype_name((pn_dtype)b->dtype));
  return pni_broadcast(c, call->op->name, a, b, out);
}

enum { LOGIC = PNI_OP_ELEMENTWISE | PNI_OP_NODIFF | PNI_OP_ANY_DTYPE };

#define KERNELS(id)                                                                                                    \
  (const pni_map_kernel[4]) { pni_##id##_f64, pni_##id##_f32, pni_##id##_i64, pni_##id##_b }
#define ROW2(id, text)                                                                                                 \
  pn_tensor *pn_##id(pn_context *c, pn_tensor *x, pn_tensor *y) { return pni_apply2(c, &pni_op_##id, x, y, NULL); }    \
  const pni_op pni_op_##id = {                                                                                         \
      .name = #id, .args = "x:t y:t", .doc = text, .flags = LOGIC, .infer = infer_bool, .map = KERNELS(id)};
#define ROW1(id, text)                                                                                                 \
  pn_tensor *pn_##id(pn_context *c, pn_tensor *x) { return pni_apply1(c, &pni_op_##id, x, NULL); }                     \
  const pni_op pni_op_##id = {                                                                                         \
      .name = #id, .args = "x:t", .doc = text, .flags = LOGIC, .infer = infer_bool, .map = KERNELS(id)};

ROW2(eq, "x == y, element by element; bool")
ROW2(ne, "x ~= y, element by element; bool")
ROW2(lt, "x < y, element by element; bool")
ROW2(le, "x <= y, element by element; bool")
ROW2(gt, "x > y, element by element; bool")
ROW2(ge, "x >= y, element by element; bool")
ROW2(logical_and, "both are non-zero; bool")
ROW2(logical_or, "at least one is non-zero; bool")
ROW1(logical_not, "is zero; bool")
ROW1(isnan, "is not a number; bool")
ROW1(isinf, "is plus or minus infinity; bool")
ROW1(isfinite, "is neither infinite nor NaN; bool")

/* ---- where ---- */

static pn_status infer_where(pn_context *c, const pni_call *call, pni_spec *out) {
  pn_tensor *m = call->in[0], *x = call->in[1], *y = call->in[2];
  if (m->dtype != PN_BOOL)
    return pni_fail(c, PN_DTYPE, "where: condition must be bool, got %s", pn_dtype_name((pn_dtype)m->dtype));
  if (x->dtype != y->dtype)
    return pni_fail(c, PN_DTYPE, "where: x and y must have one dtype, got %s and %s (convert with :to)",
                    pn_dtype_name((pn_dtype)x->dtype), pn_dtype_name((pn_dtype)y->dtype));
  pni_spec xy;
  if (pni_broadcast(c, "where", x, y, &xy)) return c->status;
  pn_tensor both = {.ndim = xy.ndim};
  for (int i = 0; i < xy.ndim; i++) both.shape[i] = xy.shape[i];
  out->dtype = x->dtype;
  return pni_broadcast(c, "where", m, &both, out);
}

static pni_map_kernel kernel_where(const pni_call *call, const pn_tensor *out) {
  size_t size = pni_itemsize(out);
  (void)call;
  return size == 8 ? pni_where_8 : size == 4 ? pni_where_4 : pni_where_1;
}

static pn_status eval_where(pn_context *c, const pni_call *call, pn_tensor *out) {
  pni_loop l;
  pni_loop_init(&l, out, 3, call->in);
  return pni_loop_run(c, &l, kernel_where(call, out), NULL);
}

static pn_tensor *vjp_where(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  pn_tensor *m = pni_in(y, 0), *zero = pni_like(c, g, 0);
  return k == 1 ? pn_where(c, m, g, zero) : pn_where(c, m, zero, g);
}

pn_tensor *pn_where(pn_context *c, pn_tensor *condition, pn_tensor *x, pn_tensor *y) {
  return pni_apply(c, &pni_op_where, 3, (pn_tensor *[]){condition, x, y}, NULL);
}

const pni_op pni_op_where = {.name = "where",
                             .args = "condition:t x:t y:t",
                             .doc = "x where condition (bool) is true, else y; all broadcast",
                             .flags = PNI_OP_ELEMENTWISE | PNI_OP_ANY_DTYPE,
                             .infer = infer_where,
                             .eval = eval_where,
                             .kernel = kernel_where,
                             .vjp = vjp_where};

/* ---- clamp ---- */

static pn_tensor *vjp_clamp_slope(pn_context *c, pn_tensor *y, pn_tensor *g, int k);

/* g where x lies inside. */
static const pni_op clamp_slope = {.name = "clamp_slope",
                                   .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN,
                                   .map = (const pni_map_kernel[4]){pni_clamp_slope_f64, pni_clamp_slope_f32},
                                   .vjp = vjp_clamp_slope};

static pn_tensor *vjp_clamp_slope(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  return k == 0 ? pni_apply2(c, &clamp_slope, g, pni_in(y, 1), y->attr) : pni_like(c, g, 0);
}

static pn_tensor *vjp_clamp(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  return (void)k, pni_apply2(c, &clamp_slope, g, pni_in(y, 0), y->attr);
}

pn_tensor *pn_clamp(pn_context *c, pn_tensor *x, double low, double high) {
  return pni_apply1(c, &pni_op_clamp, x, &(pni_attr){.r = {low, high}});
}

const pni_op pni_op_clamp = {.name = "clamp",
                             .args = "x:t low:n=-inf high:n=inf",
                             .doc = "x limited to [low, high]; gradient one inside, zero outside, NaN at NaN",
                             .flags = PNI_OP_ELEMENTWISE,
                             .domain = {{0.1, 0.9}},
                             .map = (const pni_map_kernel[4]){pni_clamp_f64, pni_clamp_f32},
                             .vjp = vjp_clamp};

/* ---- cast ---- */

static pn_status infer_cast(pn_context *c, const pni_call *call, pni_spec *out) {
  (void)c;
  *out = pni_spec_of(call->in[0]);
  out->dtype = (int)call->attr->i[0];
  return PN_OK;
}

static pn_status eval_cast(pn_context *c, const pni_call *call, pn_tensor *out) {
  return pni_copy(c, out, call->in[0]);
}

static pni_map_kernel kernel_cast(const pni_call *call, const pn_tensor *out) {
  return pni_copy_row(out->dtype, call->in[0]->dtype);
}

static pn_tensor *vjp_cast(pn_context *c, pn_tensor *y, pn_tensor *g, int k) {
  (void)k;
  return pn_cast(c, g, (pn_dtype)pni_in(y, 0)->dtype);
}

pn_tensor *pn_cast(pn_context *c, pn_tensor *x, pn_dtype dtype) {
  if (!PNI_GIVEN(c, "cast", x)) return NULL;
  if (x->dtype == (int)dtype) return x;
  if ((unsigned)dtype > PN_BOOL) {
    pni_fail(c, PN_DTYPE, "cast: unknown dtype number %d", (int)dtype);
    return NULL;
  }
  if (dtype > PN_FLOAT32) { /* whole numbers carry no gradient */
    int old = pn_set_no_grad(c, 1);
    pn_tensor *y = pni_apply1(c, &pni_op_cast, x, &(pni_attr){.ni = 1, .i = {dtype}});
    pn_set_no_grad(c, old);
    return y;
  }
  return pni_apply1(c, &pni_op_cast, x, &(pni_attr){.ni = 1, .i = {dtype}});
}

const pni_op pni_op_cast = {.name = "cast",
                            .args = "x:t dtype:i",
                            .doc = "another element type; a gradient flows between floats",
                            .flags = PNI_OP_ANY_DTYPE | PNI_OP_HIDDEN,
                            .infer = infer_cast,
                            .eval = eval_cast,
                            .kernel = kernel_cast,
                            .vjp = vjp_cast};
