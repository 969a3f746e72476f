/* density_kernel.c: pieces of runs, and the operations of gradients. */
#include <string.h>
#include "density_kernel.h"

/* ---- numbers of a run ---- */

#define GATHER(name, TO, FROM)                                                                                         \
  static void name(const void *from, int64_t stride, int64_t n, void *to) {                                            \
    const FROM *x = from;                                                                                              \
    TO *y = to, first = (TO)(n ? *x : 0);                                                                              \
    if (stride == 0)                                                                                                   \
      for (int64_t i = 0; i < n; i++) y[i] = first;                                                                    \
    else if (stride == 1)                                                                                              \
      for (int64_t i = 0; i < n; i++) y[i] = (TO)x[i];                                                                 \
    else                                                                                                               \
      for (int64_t i = 0; i < n; i++) y[i] = (TO)x[i * stride];                                                        \
  }
GATHER(gather_f64, double, double)
GATHER(gather_f32, float, float)
GATHER(gather_bool, uint8_t, uint8_t)
GATHER(widen, double, float)
GATHER(narrow, float, double)
#undef GATHER

const double *pni_doubles(int dtype, const char *p, int64_t stride, int64_t at, int64_t n, double *room) {
  const char *from = p + at * stride * (int64_t)pn_dtype_size((pn_dtype)dtype);
  if (dtype == PN_FLOAT64 && stride == 1) return (const double *)(const void *)from;
  (dtype == PN_FLOAT64 ? gather_f64 : widen)(from, stride, n, room);
  return room;
}

void pni_doubles_write(int dtype, const double *v, int64_t n, char *p, int64_t at) {
  if (dtype != PN_FLOAT64) narrow(v, 1, n, (float *)(void *)p + at);
}

/* ---- pieces ---- */

const void *pni_piece_map(const pni_piece *p, pni_vector_function f, const void *x, bool one, int place) {
  void *out = p->kept[place];
  if (one && !p->first) return out;
  int64_t n = one && p->n ? 1 : p->n;
  if (p->dtype == PN_FLOAT64)
    pni_vector_f64(f, x, 1, out, n);
  else
    pni_vector_f32(f, x, 1, out, n);
  if (one && p->n > 1 && p->dtype == PN_FLOAT64) gather_f64(out, 0, p->n, out);
  if (one && p->n > 1 && p->dtype != PN_FLOAT64) gather_f32(out, 0, p->n, out);
  return out;
}

/* Of one type: as it lies there, in copies, or as doubles. */
typedef struct {
  int64_t size;
  bool copy; /* also what is adjacent */
  void (*gather)(const void *from, int64_t stride, int64_t n, void *to);
} reader;

static reader reader_of(const pni_density_kernel *k, int dtype, int input) {
  if (k->masks >> input & 1) return (reader){1, false, gather_bool};
  if (dtype == PN_FLOAT64) return (reader){sizeof(double), false, gather_f64};
  return (reader){sizeof(float), k->in_double, k->in_double ? widen : gather_f32};
}

/* The only elements of the first `inputs` inputs: where they lie. */
static void only(int inputs, char *const *p, const int64_t *s, pni_piece *piece) {
  piece->n = 1;
  piece->first = true;
  for (int i = 0; i < inputs; i++) {
    piece->in[i] = p[i + 1];
    piece->one[i] = s[i + 1] == 0;
  }
}

/* The next n elements of the first `inputs` inputs, in room where they cannot be read in place. */
static void turn(const pni_density_kernel *k, int dtype, int inputs, int64_t at, int64_t n, char *const *p,
                 const int64_t *s, double (*room)[PNI_KERNEL_PIECE], pni_piece *piece) {
  piece->n = n;
  piece->first = at == 0;
  for (int i = 0; i < inputs; i++) {
    const reader r = reader_of(k, dtype, i);
    const char *from = p[i + 1] + at * s[i + 1] * r.size;
    bool place = s[i + 1] == 1 && !r.copy;
    piece->in[i] = place ? (const void *)from : room[i];
    piece->one[i] = s[i + 1] == 0;
    if (!place && (at == 0 || s[i + 1] != 0)) r.gather(from, s[i + 1], n, room[i]);
  }
}

void pni_density_value(const pni_density_kernel *k, int dtype, const void *data, int64_t n, char *const *p,
                       const int64_t *s) {
  double room[PNI_OPERANDS][PNI_KERNEL_PIECE], kept[PNI_KEPT][PNI_KERNEL_PIECE], result[PNI_KERNEL_PIECE];
  bool convert = k->in_double && dtype == PN_FLOAT32;
  int64_t size = (int64_t)pn_dtype_size((pn_dtype)dtype);
  pni_piece piece = {.dtype = convert ? PN_FLOAT64 : dtype, .ints = data, .real = data, .kept = kept};
  for (int64_t at = 0; at < n; at += PNI_KERNEL_PIECE) {
    void *out = p[0] + at * size;
    if (n == 1 && !k->in_double)
      only(k->inputs, p, s, &piece);
    else
      turn(k, dtype, k->inputs, at, n - at < PNI_KERNEL_PIECE ? n - at : PNI_KERNEL_PIECE, p, s, room, &piece);
    k->value[dtype](&piece, convert ? result : out);
    if (convert) narrow(result, 1, piece.n, out);
  }
}

void pni_density_slopes(const pni_density_kernel *k, int dtype, const void *data, int64_t n, char *const *p,
                        const int64_t *s) {
  double room[PNI_OPERANDS][PNI_KERNEL_PIECE], kept[PNI_KEPT][PNI_KERNEL_PIECE], result[PNI_OPERANDS][PNI_KERNEL_PIECE];
  bool convert = k->in_double && dtype == PN_FLOAT32;
  int64_t size = (int64_t)pn_dtype_size((pn_dtype)dtype);
  const int64_t *ints = data, wanted = ints[0], apart = ints[1] * size;
  pni_piece piece = {.dtype = convert ? PN_FLOAT64 : dtype, .ints = ints + 2, .kept = kept};
  for (int64_t at = 0; at < n; at += PNI_KERNEL_PIECE) {
    char *to = p[0] + at * size;
    void *place[PNI_OPERANDS] = {NULL}, *out[PNI_OPERANDS] = {NULL};
    for (int i = 0; i < k->inputs; i++) {
      if (!(wanted >> i & 1)) continue;
      place[i] = to;
      out[i] = convert ? (void *)result[i] : to;
      to += apart;
    }
    if (n == 1 && !k->in_double)
      only(k->inputs + 1, p, s, &piece);
    else
      turn(k, dtype, k->inputs + 1, at, n - at < PNI_KERNEL_PIECE ? n - at : PNI_KERNEL_PIECE, p, s, room, &piece);
    k->slopes[dtype](&piece, out);
    for (int i = 0; convert && i < k->inputs; i++)
      if (out[i]) narrow(out[i], 1, piece.n, place[i]);
  }
}

/* ---- gradients ---- */

pn_status pni_density_infer(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *first = call->in[0];
  pni_spec all = pni_spec_of(first);
  for (int k = 1; k < call->nin; k++) {
    pn_tensor sofar = {.dtype = first->dtype, .ndim = all.ndim};
    memcpy(sofar.shape, all.shape, sizeof sofar.shape);
    if (pni_broadcast(c, call->op->name, &sofar, call->in[k], &all)) return c->status;
  }
  if (all.ndim == PN_MAX_DIMS)
    return pni_fail(c, PN_SHAPE, "%s: at most %d axes are possible, got %d", call->op->name, PN_MAX_DIMS - 1, all.ndim);
  out->dtype = first->dtype;
  out->ndim = all.ndim + 1;
  out->shape[0] = 0;
  for (int64_t w = call->attr->i[0]; w; w >>= 1) out->shape[0] += w & 1;
  memcpy(out->shape + 1, all.shape, (size_t)all.ndim * sizeof *all.shape);
  return PN_OK;
}

pn_status pni_density_eval(pn_context *c, const pni_call *call, pn_tensor *out, const pni_map_kernel *map) {
  pn_tensor first = *out;
  int64_t i[PNI_ATTR_INTS] = {0};
  memcpy(i, call->attr->i, (size_t)call->attr->ni * sizeof *i); /* all that there is of it */
  first.ndim--;
  first.numel = i[1] = out->shape[0] ? out->numel / out->shape[0] : 0;
  memmove(first.shape, first.shape + 1, (size_t)first.ndim * sizeof *first.shape);
  pni_set_contiguous_strides(&first);
  pni_loop l;
  pni_loop_init(&l, &first, call->nin, call->in);
  return first.numel ? pni_loop_run(c, &l, map[out->dtype], i) : PN_OK;
}

/* The gradients with a bit in `wanted`, of y's inputs and g. */
static pn_tensor *gradients(pn_context *c, const pni_op *op, pn_tensor *y, pn_tensor *g, int64_t wanted) {
  pn_tensor *in[PNI_OPERANDS];
  pni_attr attr = {.ni = 2, .i = {wanted}};
  for (int k = 0; k < y->nin; k++) in[k] = pni_in(y, k);
  in[y->nin] = g;
  for (int i = 0; y->attr && i < y->attr->ni; i++) attr.i[attr.ni++] = y->attr->i[i];
  return pni_apply(c, op, y->nin + 1, in, &attr);
}

static pn_status all_together(pn_context *c, const pni_op *op, pn_tensor *y, pn_tensor *g, int64_t wanted,
                              pn_tensor **out) {
  pn_tensor *all = gradients(c, op, y, g, wanted);
  int64_t at = 0;
  for (int k = 0; k < y->nin && !c->status; k++)
    if (wanted >> k & 1) out[k] = pn_select(c, all, 0, at++);
  return c->status;
}

pn_status pni_density_vjps(pn_context *c, const pni_density_kernel *k, const pni_op *const ops[2], pn_tensor *y,
                           pn_tensor *g, const bool *wanted, pn_tensor **out) {
  const int *pair = k->opposite;
  bool mirrored = pair[0] != pair[1] && wanted[pair[0]] && wanted[pair[1]];
  int64_t bits = 0;
  if (y->nin + 2 > PNI_OPERANDS || (y->attr && y->attr->ni + 2 > PNI_ATTR_INTS))
    return pni_fail(c, PN_DOMAIN, "%s: at most %d inputs are possible, got %d", ops[0]->name, PNI_OPERANDS - 2, y->nin);
  for (int i = 0; i < y->nin; i++)
    if (wanted[i]) bits |= (int64_t)1 << i;
  if (ops[1] && bits & (bits - 1) && y->ndim < PN_MAX_DIMS) return all_together(c, ops[1], y, g, bits, out);
  for (int i = 0; i < y->nin && !c->status; i++) {
    if (!wanted[i] || (mirrored && i == pair[0])) continue;
    out[i] = k->flat >> i & 1 ? pni_like(c, g, 0) : gradients(c, ops[0], y, g, (int64_t)1 << i);
  }
  if (mirrored && !c->status) out[pair[0]] = pn_neg(c, out[pair[1]]);
  return c->status;
}
