/*
** element.c: numbers as they stand in files, and as tensors hold them. Integers widen to int64,
** half precision to float32; both keep every value. uint64 is read when its values fit.
*/
#include <math.h>
#include <string.h>
#include "file.h"

enum { F64, F32, I64, BOOL, F16, BF16, I32, I16, I8, U64, U32, U16, U8, KINDS };

static const pni_element_type types[KINDS] = {
    [F64] = {"f8", "F64", 0x0e, 8, PN_FLOAT64}, [F32] = {"f4", "F32", 0x0d, 4, PN_FLOAT32},
    [I64] = {"i8", "I64", 0, 8, PN_INT64},      [BOOL] = {"b1", "BOOL", 0, 1, PN_BOOL},
    [F16] = {"f2", "F16", 0, 2, PN_FLOAT32},    [BF16] = {"", "BF16", 0, 2, PN_FLOAT32},
    [I32] = {"i4", "I32", 0x0c, 4, PN_INT64},   [I16] = {"i2", "I16", 0x0b, 2, PN_INT64},
    [I8] = {"i1", "I8", 0x09, 1, PN_INT64},     [U64] = {"u8", "U64", 0, 8, PN_INT64},
    [U32] = {"u4", "U32", 0, 4, PN_INT64},      [U16] = {"u2", "U16", 0, 2, PN_INT64},
    [U8] = {"u1", "U8", 0x08, 1, PN_INT64}};

const pni_element_type *pni_element_npy(const char *name) {
  for (int k = 0; k < KINDS; k++)
    if (strcmp(types[k].npy, name) == 0 && *name) return &types[k];
  return NULL;
}

const pni_element_type *pni_element_safetensors(const char *name) {
  for (int k = 0; k < KINDS; k++)
    if (strcmp(types[k].safetensors, name) == 0) return &types[k];
  return NULL;
}

const pni_element_type *pni_element_idx(int code) {
  for (int k = 0; k < KINDS; k++)
    if (types[k].idx == code && code) return &types[k];
  return NULL;
}

const char *pni_element_name(const pni_element_type *e) {
  static const char *const names[KINDS] = {
      [F64] = "float64",   [F32] = "float32", [I64] = "int64", [BOOL] = "bool", [F16] = "float16",
      [BF16] = "bfloat16", [I32] = "int32",   [I16] = "int16", [I8] = "int8",   [U64] = "uint64",
      [U32] = "uint32",    [U16] = "uint16",  [U8] = "uint8"};
  return names[e - types];
}

const pni_element_type *pni_element_of(int dtype) { return &types[dtype]; } /* pn_dtype's order */

/* ---- conversion ---- */

static bool host_is_big(void) {
  const uint16_t one = 1;
  return *(const uint8_t *)&one == 0;
}

static void swap_bytes(unsigned char *p, int64_t n, int size) {
  for (; n > 0; n--, p += size) {
    for (int a = 0, b = size - 1; a < b; a++, b--) {
      unsigned char byte = p[a];
      p[a] = p[b];
      p[b] = byte;
    }
  }
}

static float float_of_bits(uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits. */
float pni_half(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
  if (exponent == 31) return float_of_bits(sign | 0x7f800000u | fraction << 13);
  if (exponent) return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
  float f = (float)fraction * 0x1p-24f;
  return sign ? -f : f;
}

/* One case of widen: n values of type T at `in` to type U at `out`. */
#define EACH(T, U, expression)                                                                                         \
  for (int64_t i = 0; i < n; i++) {                                                                                    \
    T v;                                                                                                               \
    memcpy(&v, in + i * (int64_t)sizeof v, sizeof v);                                                                  \
    ((U *)out)[i] = (expression);                                                                                      \
  }                                                                                                                    \
  break

static void widen(int kind, const unsigned char *in, void *out, int64_t n) {
  switch (kind) {
  case F16: EACH(uint16_t, float, pni_half(v));
  case BF16: EACH(uint16_t, float, float_of_bits((uint32_t)v << 16));
  case I32: EACH(int32_t, int64_t, v);
  case I16: EACH(int16_t, int64_t, v);
  case I8: EACH(int8_t, int64_t, v);
  case U32: EACH(uint32_t, int64_t, (int64_t)v);
  case U16: EACH(uint16_t, int64_t, v);
  case U8: EACH(uint8_t, int64_t, v);
  default: memcpy(out, in, (size_t)n * (size_t)types[kind].size); /* as wide as they stand */
  }
}
#undef EACH

/* What n elements of a type read in place still need. */
static pn_status check_values(const pni_source *s, int kind, void *data, int64_t n) {
  if (kind == BOOL) {
    uint8_t *p = data;
    for (int64_t i = 0; i < n; i++) p[i] = p[i] != 0;
  } else if (kind == U64) {
    const int64_t *p = data;
    for (int64_t i = 0; i < n; i++)
      if (p[i] < 0)
        return pni_source_fail(s, PN_DOMAIN, "holds the uint64 value %llu, which int64 cannot",
                               (unsigned long long)p[i]);
  }
  return PN_OK;
}

/* ---- reading ---- */

int64_t pni_source_count(const pni_source *s, const pni_element_type *e, int ndim, const int64_t *shape) {
  const int64_t largest = (int64_t)1 << 44; /* of any tensor */
  int64_t most = s->room / e->size, n = 1;
  bool empty = false, much = false;
  for (int i = 0; i < ndim; i++) {
    empty = empty || shape[i] == 0;
    much = much || shape[i] < 0 || shape[i] > largest;
  }
  if (empty) most = largest; /* sizes beside a zero cost nothing, but strides are their products */
  for (int i = 0; i < ndim && !much; i++) {
    much = shape[i] && n > most / shape[i];
    if (shape[i] && !much) n *= shape[i];
  }
  if (!much && n <= most) return empty ? 0 : n;
  char buf[PNI_SHAPE_TEXT];
  pni_source_fail(s, PN_FORMAT, "is damaged: it claims shape %s of %d-byte elements but can hold only %lld bytes",
                  pni_shape_text(ndim, shape, buf), e->size, (long long)s->room);
  return -1;
}

static pn_status read_in_place(pni_source *s, const pni_element_type *e, bool swap, void *data, int64_t n) {
  pn_status status = pni_source_read(s, data, (size_t)n * (size_t)e->size);
  if (status != PN_OK) return status;
  if (swap) swap_bytes(data, n, e->size);
  return check_values(s, (int)(e - types), data, n);
}

/* n elements of dtype `from` as dtype `to`. */
static void convert(const void *in, int from, void *out, int to, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double v = from == PN_FLOAT64   ? ((const double *)in)[i]
               : from == PN_FLOAT32 ? (double)((const float *)in)[i]
               : from == PN_INT64   ? (double)((const int64_t *)in)[i]
                                    : ((const uint8_t *)in)[i];
    if (to == PN_FLOAT64)
      ((double *)out)[i] = v;
    else if (to == PN_FLOAT32)
      ((float *)out)[i] = (float)v;
    else if (to == PN_INT64)
      ((int64_t *)out)[i] = fabs(v) < 9.2e18 ? (int64_t)v : 0;
    else
      ((uint8_t *)out)[i] = v != 0;
  }
}

enum { STEP = 1024 };

static pn_status read_widened(pni_source *s, const pni_element_type *e, bool swap, int dtype, char *data,
                              int64_t count) {
  unsigned char chunk[8 * STEP];
  union {
    int64_t i[STEP];
    double d[STEP];
    float f[STEP];
    uint8_t b[STEP];
  } wide;
  const int kind = (int)(e - types);
  const size_t size = pn_dtype_size((pn_dtype)dtype);
  for (int64_t i = 0; i < count; i += STEP) {
    int64_t n = count - i < STEP ? count - i : STEP;
    char *out = data + (size_t)i * size;
    pn_status status = pni_source_read(s, chunk, (size_t)(n * e->size));
    if (status != PN_OK) return status;
    if (swap) swap_bytes(chunk, n, e->size);
    if (dtype == e->dtype) {
      widen(kind, chunk, out, n);
    } else {
      widen(kind, chunk, &wide, n);
      convert(&wide, e->dtype, out, dtype, n);
    }
  }
  return PN_OK;
}

pn_status pni_source_elements(pni_source *s, const pni_element_type *e, bool big_endian, int dtype, void *out,
                              int64_t n) {
  bool swap = big_endian != host_is_big();
  if (dtype == e->dtype && (size_t)e->size == pn_dtype_size((pn_dtype)dtype)) return read_in_place(s, e, swap, out, n);
  return read_widened(s, e, swap, dtype, out, n);
}

pn_tensor *pni_source_tensor_as(pni_source *s, const pni_element_type *e, bool big_endian, int ndim,
                                const int64_t *shape, int dtype) {
  pni_spec spec = {.dtype = dtype, .ndim = ndim};
  if (ndim > PN_MAX_DIMS) {
    pni_source_fail(s, PN_SHAPE, "holds a tensor of %d axes; at most %d are possible", ndim, PN_MAX_DIMS);
    return NULL;
  }
  if (pni_source_count(s, e, ndim, shape) < 0) return NULL;
  for (int i = 0; i < ndim; i++) spec.shape[i] = shape[i];
  pn_tensor *t = pni_tensor_new(s->c, &spec);
  if (!t) return NULL;
  if (pni_source_elements(s, e, big_endian, dtype, pni_data(t), t->numel) == PN_OK) return t;
  pn_tensor_unref(t);
  return NULL;
}

pn_tensor *pni_source_tensor(pni_source *s, const pni_element_type *e, bool big_endian, int ndim,
                             const int64_t *shape) {
  return pni_source_tensor_as(s, e, big_endian, ndim, shape, e->dtype);
}

/* ---- writing ---- */

pn_status pni_sink_tensor(pni_sink *s, const pn_tensor *t, bool big_endian) {
  pn_tensor *d = pni_contiguous(s->c, t);
  if (!d) return s->c->status;
  const size_t size = pni_itemsize(d), bytes = (size_t)d->numel * size;
  pn_status status = PN_OK;
  if (big_endian == host_is_big() || size == 1) {
    status = pni_sink_write(s, pni_data(d), bytes);
  } else {
    unsigned char chunk[8192];
    for (size_t at = 0; at < bytes && status == PN_OK; at += sizeof chunk) {
      size_t n = bytes - at < sizeof chunk ? bytes - at : sizeof chunk;
      memcpy(chunk, (char *)pni_data(d) + at, n);
      swap_bytes(chunk, (int64_t)(n / size), (int)size);
      status = pni_sink_write(s, chunk, n);
    }
  }
  pn_tensor_unref(d);
  return status;
}
