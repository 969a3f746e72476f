/*
** npz.c: NumPy's .npz, a ZIP archive whose members are .npy files. The central directory is what
** counts; members are stored or deflated, ZIP64 fields are understood. Members may not overlap (the trick
** of ZIP bombs), lie inside the file, and are checked against their CRC-32.
** Source: PKWARE APPNOTE.TXT 6.3.10, sections 4.3 to 4.5.
*/
#include <string.h>
#include "file.h"

enum { END_SIZE = 22, CENTRAL_SIZE = 46, LOCAL_SIZE = 30, LOCATOR_SIZE = 20, END64_SIZE = 56, COMMENT_MOST = 65535 };

typedef struct {
  char *name; /* in the central directory's text; not terminated */
  size_t name_length;
  int method;
  uint32_t crc;
  int64_t packed, size, local;
} member;

typedef struct {
  pni_source *file;
  unsigned char *directory;
  size_t bytes;   /* of directory */
  int64_t offset; /* of directory in the file */
  int64_t count;
  int64_t packed; /* bytes of the members seen so far */
} zip;

static uint32_t u16(const unsigned char *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static uint32_t u32(const unsigned char *p) { return u16(p) | u16(p + 2) << 16; }
static int64_t u64(const unsigned char *p) {
  uint64_t v = (uint64_t)u32(p) | (uint64_t)u32(p + 4) << 32;
  return v > INT64_MAX / 2 ? -1 : (int64_t)v; /* -1 fails every check of a range */
}

static pn_status damaged(const zip *z, const char *what) {
  return pni_source_fail(z->file, PN_FORMAT, "is damaged: %s", what);
}

static pn_status read_at(const zip *z, int64_t at, void *out, size_t n) {
  pni_source part;
  pn_status status = pni_source_range(&part, z->file, at, (int64_t)n, false);
  if (status == PN_OK) status = pni_source_read(&part, out, n);
  pni_source_close(&part);
  return status;
}

/* ---- the directory ---- */

/* The position of the end record, the last place where it fits, or -1. */
static int64_t find_end(const unsigned char *tail, size_t n) {
  for (int64_t i = (int64_t)n - END_SIZE; i >= 0; i--)
    if (u32(tail + i) == 0x06054b50 && (size_t)i + END_SIZE + u16(tail + i + 20) == n) return i;
  return -1;
}

/* Replaces what the end record could not hold by the ZIP64 end record's values. */
static pn_status read_end64(zip *z, int64_t end, int64_t *size) {
  unsigned char locator[LOCATOR_SIZE], record[END64_SIZE];
  pn_status status = read_at(z, end - LOCATOR_SIZE, locator, sizeof locator);
  if (status != PN_OK) return status;
  if (u32(locator) != 0x07064b50) return damaged(z, "the ZIP64 directory is missing");
  if ((status = read_at(z, u64(locator + 8), record, sizeof record)) != PN_OK) return status;
  if (u32(record) != 0x06064b50) return damaged(z, "the ZIP64 directory is missing");
  z->count = u64(record + 32);
  *size = u64(record + 40);
  z->offset = u64(record + 48);
  return PN_OK;
}

static pn_status read_end(zip *z) {
  int64_t length = z->file->end, size = 0;
  size_t n = (size_t)(length < END_SIZE + COMMENT_MOST ? length : END_SIZE + COMMENT_MOST);
  unsigned char *tail = pni_alloc(z->file->c, n);
  if (!tail) return z->file->c->status;
  pn_status status = read_at(z, length - (int64_t)n, tail, n);
  int64_t at = status == PN_OK ? find_end(tail, n) : -1;
  if (status == PN_OK && at < 0) status = pni_source_fail(z->file, PN_FORMAT, "is no .npz file, or is cut short");
  if (status == PN_OK) {
    z->count = u16(tail + at + 10);
    size = u32(tail + at + 12);
    z->offset = u32(tail + at + 16);
    if (z->count == 0xffff || size == 0xffffffff || z->offset == 0xffffffff)
      status = read_end64(z, length - (int64_t)n + at, &size);
  }
  pni_free(z->file->c, tail);
  if (status != PN_OK) return status;
  if (size < 0 || z->offset < 0 || z->offset > length || size > length - z->offset || z->count < 0 ||
      z->count > size / CENTRAL_SIZE)
    return damaged(z, "its directory does not fit into it");
  z->bytes = (size_t)size;
  return PN_OK;
}

static pn_status read_directory(zip *z) {
  pn_status status = read_end(z);
  if (status != PN_OK) return status;
  z->directory = pni_alloc(z->file->c, z->bytes);
  if (!z->directory) return z->file->c->status;
  return read_at(z, z->offset, z->directory, z->bytes);
}

/* The ZIP64 extra field gives, in this order, those of size, packed size and offset that are all ones. */
static void read_extra64(const unsigned char *p, size_t n, member *m) {
  while (n >= 4) {
    size_t length = u16(p + 2);
    if (length > n - 4) return;
    if (u16(p) == 1) {
      const unsigned char *v = p + 4, *stop = v + length;
      int64_t *field[3] = {&m->size, &m->packed, &m->local};
      for (int k = 0; k < 3; k++) {
        if (*field[k] != 0xffffffff || stop - v < 8) continue;
        *field[k] = u64(v);
        v += 8;
      }
      return;
    }
    p += 4 + length;
    n -= 4 + length;
  }
}

/* Reads the member at *at of the directory and moves on. */
static pn_status read_member(zip *z, size_t *at, member *m) {
  const unsigned char *p = z->directory + *at;
  size_t left = z->bytes - *at;
  if (left < CENTRAL_SIZE || u32(p) != 0x02014b50) return damaged(z, "its directory is cut short");
  size_t name = u16(p + 28), extra = u16(p + 30), comment = u16(p + 32);
  if (left - CENTRAL_SIZE < name + extra + comment) return damaged(z, "its directory is cut short");
  *m = (member){.name = (char *)z->directory + *at + CENTRAL_SIZE,
                .name_length = name,
                .method = (int)u16(p + 10),
                .crc = u32(p + 16),
                .packed = u32(p + 20),
                .size = u32(p + 24),
                .local = u32(p + 42)};
  read_extra64(p + CENTRAL_SIZE + name, extra, m);
  *at += CENTRAL_SIZE + name + extra + comment;
  if (u16(p + 8) & 1) return pni_source_fail(z->file, PN_FORMAT, "is encrypted");
  if (m->method != 0 && m->method != 8)
    return pni_source_fail(z->file, PN_FORMAT, "is packed with method %d; stored and deflated members are read",
                           m->method);
  if (m->packed < 0 || m->size < 0 || m->local < 0) return damaged(z, "a member does not fit into it");
  z->packed = m->packed > z->file->end ? INT64_MAX : z->packed + m->packed;
  if (z->packed > z->file->end) return damaged(z, "its members overlap");
  return PN_OK;
}

/* ---- members ---- */

static pn_status open_member(const zip *z, const member *m, pni_source *s) {
  unsigned char local[LOCAL_SIZE];
  pn_status status = read_at(z, m->local, local, sizeof local);
  memset(s, 0, sizeof *s);
  if (status != PN_OK) return status;
  if (u32(local) != 0x04034b50) return damaged(z, "a member does not begin where the directory says");
  if (m->method == 0 && m->packed != m->size) return damaged(z, "a stored member has two sizes");
  int64_t begin = m->local + LOCAL_SIZE + (int64_t)u16(local + 26) + (int64_t)u16(local + 28);
  status = pni_source_range(s, z->file, begin, m->packed, m->method == 8);
  if (status == PN_OK && m->size > s->room) status = damaged(z, "a member claims more than it can hold");
  if (status == PN_OK) s->room = m->size;
  return status;
}

static pn_tensor *read_array(const zip *z, const member *m) {
  pni_source s;
  pn_tensor *t = NULL;
  if (open_member(z, m, &s) == PN_OK) t = pni_npy_read(&s);
  if (t && pni_source_finish(&s) == PN_OK && s.crc != m->crc) damaged(z, "a member's checksum is wrong");
  pni_source_close(&s);
  if (!pni_failed(z->file->c)) return t;
  pn_tensor_unref(t);
  return NULL;
}

static pn_status add_member(const zip *z, const member *m, pn_archive *a) {
  char buf[64];
  pn_context *c = z->file->c;
  const char *shown = pni_printable(m->name, m->name_length, buf);
  if (m->name_length < 4 || memcmp(m->name + m->name_length - 4, ".npy", 4) != 0)
    return pni_source_fail(z->file, PN_FORMAT, "is no .npz file: its member '%s' is no .npy file", shown);
  if (memchr(m->name, '\0', m->name_length)) return damaged(z, "a member's name holds a NUL");
  char *name = pni_alloc(c, m->name_length);
  if (!name) return c->status;
  memcpy(name, m->name, m->name_length - 4);
  name[m->name_length - 4] = '\0';
  pn_tensor *t = NULL;
  if (pn_archive_find(a, name))
    pni_source_fail(z->file, PN_FORMAT, "is damaged: the name '%s' appears twice", shown);
  else
    t = read_array(z, m);
  if (t) pn_archive_add(c, a, name, t);
  pn_tensor_unref(t);
  pni_free(c, name);
  return c->status;
}

static pn_status read_zip(pni_source *s, pn_archive *a) {
  zip z = {.file = s};
  size_t at = 0;
  pn_status status = read_directory(&z);
  for (int64_t i = 0; status == PN_OK && i < z.count; i++) {
    member m;
    status = read_member(&z, &at, &m);
    if (status == PN_OK) status = add_member(&z, &m, a);
  }
  pni_free(s->c, z.directory);
  return status;
}

pn_archive *pn_load_npz(pn_context *c, const char *path) {
  pni_source s;
  if (pni_source_open(c, "load_npz", path, &s) != PN_OK) return NULL;
  pn_archive *a = pn_archive_new(c);
  if (a && s.packed) pni_source_fail(&s, PN_FORMAT, "is gzipped; .npz files are not");
  if (a && !pni_failed(c)) read_zip(&s, a);
  pni_source_close(&s);
  if (!pni_failed(c)) return a;
  pn_archive_free(a);
  return NULL;
}
