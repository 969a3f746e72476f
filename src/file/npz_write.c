/*
** npz_write.c: writing .npz: local header and data of each member, then the central directory.
** Stored members carry their checksum in front; deflated ones have sizes and checksum behind them. All
** below 4 GiB, so that no ZIP64 field is needed. Source: PKWARE APPNOTE.TXT 6.3.10.
*/
#include <string.h>
#include "file.h"

enum { DEFLATED = 8, LOCAL_SIZE = 30, CENTRAL_SIZE = 46, END_SIZE = 22, DESCRIPTOR_SIZE = 16, DATE = 0x21 };

typedef struct {
  uint32_t crc;
  int64_t packed, size, local;
} member;

typedef struct {
  pn_context *c;
  pni_sink sink;
  const pn_archive *a;
  bool compressed;
  member *list;
} writer;

static void put16(unsigned char *p, size_t v) {
  p[0] = (unsigned char)(v & 0xff);
  p[1] = (unsigned char)(v >> 8 & 0xff);
}

static void put32(unsigned char *p, int64_t v) {
  put16(p, (size_t)v & 0xffff);
  put16(p + 2, (size_t)v >> 16 & 0xffff);
}

/* Bit 3: sizes follow the data; bit 11: the name is UTF-8. */
static size_t flags(const writer *w, const char *name) {
  size_t bits = w->compressed ? 8 : 0;
  for (; *name; name++)
    if ((unsigned char)*name > 127) bits |= 0x800;
  return bits;
}

/* The 26 bytes that local and central headers share, from "version needed" to "extra field length". */
static void shared(const writer *w, const member *m, const char *name, unsigned char *p) {
  put16(p, 20);
  put16(p + 2, flags(w, name));
  put16(p + 4, w->compressed ? DEFLATED : 0);
  put16(p + 6, 0);
  put16(p + 8, DATE);
  put32(p + 10, m->crc);
  put32(p + 14, m->packed);
  put32(p + 18, m->size);
  put16(p + 22, strlen(name) + 4);
  put16(p + 24, 0);
}

static pn_status put_name(writer *w, const char *name) {
  pn_status status = pni_sink_write(&w->sink, name, strlen(name));
  return status == PN_OK ? pni_sink_write(&w->sink, ".npy", 4) : status;
}

static uint32_t crc_of(uint32_t crc, const void *data, size_t n) {
  const unsigned char *p = data;
  for (size_t k; n; p += k, n -= k) {
    k = n < ((size_t)1 << 30) ? n : (size_t)1 << 30;
    crc = (uint32_t)crc32(crc, p, (unsigned)k);
  }
  return crc;
}

/* ---- deflated members ---- */

typedef struct {
  z_stream z;
  unsigned char out[16384];
  int64_t packed;
} packer;

static pn_status pack(writer *w, packer *k, const void *data, size_t n, bool last) {
  const unsigned char *p = data;
  do {
    size_t part = n < ((size_t)1 << 20) ? n : (size_t)1 << 20;
    k->z.next_in = (unsigned char *)(uintptr_t)p;
    k->z.avail_in = (unsigned)part;
    p += part;
    n -= part;
    do {
      k->z.next_out = k->out;
      k->z.avail_out = sizeof k->out;
      deflate(&k->z, last && n == 0 ? Z_FINISH : Z_NO_FLUSH);
      size_t made = sizeof k->out - k->z.avail_out;
      k->packed += (int64_t)made;
      if (pni_sink_write(&w->sink, k->out, made) != PN_OK) return w->c->status;
    } while (k->z.avail_out == 0);
    if (pni_check_cancel(w->c) != PN_OK) return w->c->status; /* what packs well reaches the sink rarely */
  } while (n);
  return PN_OK;
}

static pn_status put_deflated(writer *w, member *m, const char *header, size_t n, const pn_tensor *t) {
  packer *k = pni_alloc(w->c, sizeof *k);
  if (!k) return w->c->status;
  pni_zlib_memory(&k->z, w->c);
  k->packed = 0;
  pn_status status = PN_OK;
  if (deflateInit2(&k->z, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    status = pni_fail(w->c, PN_NOMEM, "save_npz: out of memory");
  if (status == PN_OK) status = pack(w, k, header, n, false);
  if (status == PN_OK) status = pack(w, k, pni_data(t), (size_t)t->numel * pni_itemsize(t), true);
  if (status == PN_OK) {
    unsigned char d[DESCRIPTOR_SIZE];
    m->packed = k->packed;
    put32(d, 0x08074b50);
    put32(d + 4, m->crc);
    put32(d + 8, m->packed);
    put32(d + 12, m->size);
    status = pni_sink_write(&w->sink, d, sizeof d);
  }
  deflateEnd(&k->z);
  pni_free(w->c, k);
  return status;
}

/* ---- members, directory ---- */

static pn_status put_array(writer *w, member *m, const char *name, const pn_tensor *t) {
  char header[PNI_NPY_HEADER];
  unsigned char local[LOCAL_SIZE];
  size_t n = pni_npy_header(t, header), bytes = (size_t)t->numel * pni_itemsize(t);
  if (w->sink.written + (int64_t)n + (int64_t)strlen(name) > (int64_t)UINT32_MAX - (int64_t)bytes)
    return pni_fail(w->c, PN_LIMIT, "save_npz: an archive must stay below 4 GiB; use safetensors");
  *m = (member){.local = w->sink.written};
  put32(local, 0x04034b50);
  if (!w->compressed) m->packed = m->size = (int64_t)(n + bytes);
  if (!w->compressed) m->crc = crc_of(crc_of(0, header, n), pni_data(t), bytes);
  shared(w, m, name, local + 4);
  pn_status status = pni_sink_write(&w->sink, local, sizeof local);
  if (status == PN_OK) status = put_name(w, name);
  if (status != PN_OK) return status;
  if (w->compressed) {
    m->size = (int64_t)(n + bytes);
    m->crc = crc_of(crc_of(0, header, n), pni_data(t), bytes);
    return put_deflated(w, m, header, n, t);
  }
  status = pni_sink_write(&w->sink, header, n);
  return status == PN_OK ? pni_sink_write(&w->sink, pni_data(t), bytes) : status;
}

static pn_status put_directory(writer *w) {
  int64_t begin = w->sink.written, n = pn_archive_count(w->a);
  pn_status status = PN_OK;
  for (int64_t i = 0; i < n && status == PN_OK; i++) {
    unsigned char p[CENTRAL_SIZE] = {0};
    put32(p, 0x02014b50);
    put16(p + 4, 20);
    shared(w, &w->list[i], pn_archive_name(w->a, i), p + 6);
    put32(p + 42, w->list[i].local);
    status = pni_sink_write(&w->sink, p, sizeof p);
    if (status == PN_OK) status = put_name(w, pn_archive_name(w->a, i));
  }
  if (status != PN_OK) return status;
  unsigned char end[END_SIZE] = {0};
  put32(end, 0x06054b50);
  put16(end + 8, (size_t)n);
  put16(end + 10, (size_t)n);
  put32(end + 12, w->sink.written - begin);
  put32(end + 16, begin);
  return pni_sink_write(&w->sink, end, sizeof end);
}

static pn_status put_all(writer *w) {
  pn_status status = PN_OK;
  for (int64_t i = 0; i < pn_archive_count(w->a) && status == PN_OK; i++) {
    pn_tensor *t = pni_contiguous(w->c, pn_archive_tensor(w->a, i));
    if (!t) return w->c->status;
    status = put_array(w, &w->list[i], pn_archive_name(w->a, i), t);
    pn_tensor_unref(t);
  }
  return status == PN_OK ? put_directory(w) : status;
}

static pn_status check_archive(pn_context *c, const pn_archive *a) {
  if (pn_archive_count(a) > 65534)
    return pni_fail(c, PN_LIMIT, "save_npz: at most 65534 tensors are possible, got %lld",
                    (long long)pn_archive_count(a));
  for (int64_t i = 0; i < pn_archive_count(a); i++)
    if (strlen(pn_archive_name(a, i)) > 65531) return pni_fail(c, PN_LIMIT, "save_npz: a name is too long");
  return PN_OK;
}

pn_status pn_save_npz(pn_context *c, const char *path, const pn_archive *a, int compressed) {
  if (pni_failed(c)) return c->status;
  if (!a) return pni_fail(c, PN_STATE, "save_npz: archive must not be NULL");
  if (check_archive(c, a) != PN_OK) return c->status;
  writer *w = pni_calloc(c, sizeof *w); /* the sink holds two long paths */
  if (!w) return c->status;
  int64_t most = pni_plus(pn_archive_count(a), 1);
  w->c = c;
  w->a = a;
  w->compressed = compressed != 0;
  w->list = pni_alloc_array(c, most, sizeof(member));
  if (w->list && pni_sink_open(c, "save_npz", path, false, &w->sink) == PN_OK) pni_sink_close(&w->sink, put_all(w));
  pni_free(c, w->list);
  pni_free(c, w);
  return c->status;
}
