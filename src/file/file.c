/*
** file.c: sources. Files are read with pread, never mapped (a file that shrinks meanwhile is an error,
** not a signal). Only regular files: their size bounds everything that is allocated for them. Deflate
** turns one byte into at most 1032 (258 bytes for two bits), which bounds packed files.
*/
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "file.h"

/* ---- zlib's memory: the size stands before each block ---- */

enum { PREFIX = 64 };

static void *zlib_alloc(void *data, unsigned items, unsigned size) {
  size_t n = (size_t)pni_plus(pni_times(items, size), PREFIX);
  char *block = pni_alloc(data, n);
  if (!block) return NULL;
  memcpy(block, &n, sizeof n);
  return block + PREFIX;
}

static void zlib_free(void *data, void *p) {
  char *block = (char *)p - PREFIX;
  size_t n;
  memcpy(&n, block, sizeof n);
  pni_free(data, block);
}

void pni_zlib_memory(z_stream *z, pn_context *c) {
  memset(z, 0, sizeof *z);
  z->zalloc = zlib_alloc;
  z->zfree = zlib_free;
  z->opaque = c;
}

/* ---- messages ---- */

/* Bytes of the character of UTF-8 at text (n bytes are left), 0 where there is none that can be shown. */
static size_t character(const char *text, size_t n) {
  const unsigned char *c = (const unsigned char *)text;
  if (c[0] < 128) return c[0] >= ' ' && c[0] < 127;
  size_t length = c[0] >= 0xC2 && c[0] < 0xE0   ? 2
                  : c[0] >= 0xE0 && c[0] < 0xF0 ? 3
                  : c[0] >= 0xF0 && c[0] < 0xF5 ? 4
                                                : 0;
  if (length == 0 || length > n) return 0;
  for (size_t i = 1; i < length; i++)
    if ((c[i] & 0xC0) != 0x80) return 0;
  bool too_long = (c[0] == 0xC2 && c[1] < 0xA0) || (c[0] == 0xE0 && c[1] < 0xA0) || (c[0] == 0xF0 && c[1] < 0x90);
  return too_long || (c[0] == 0xED && c[1] >= 0xA0) || (c[0] == 0xF4 && c[1] >= 0x90) ? 0 : length;
}

const char *pni_printable(const char *text, size_t n, char buf[64]) {
  size_t k = 0;
  for (; k < n && k < 40 && text[k];) {
    size_t length = character(text + k, n - k);
    if (length == 0)
      buf[k++] = '?';
    else
      for (size_t i = 0; i < length; i++, k++) buf[k] = text[k];
  }
  if (k >= 40 && n > k) {
    memcpy(buf + k, "...", 3);
    k += 3;
  }
  buf[k] = '\0';
  return buf;
}

pn_status pni_source_fail(const pni_source *s, pn_status status, const char *format, ...) {
  char text[512];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  return pni_fail(s->c, status, "%s: file '%s' %s", s->where, s->path, text);
}

/* ---- opening ---- */

/* The next n bytes of the file itself; *got < n only at the end of the range. */
static pn_status take(pni_source *s, void *out, size_t n, size_t *got) {
  *got = 0;
  if ((int64_t)n > s->end - s->at) n = (size_t)(s->end - s->at);
  while (*got < n) {
    size_t part = n - *got < ((size_t)1 << 22) ? n - *got : (size_t)1 << 22;
    ssize_t k = pread(s->fd, (char *)out + *got, part, (off_t)s->at);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return pni_source_fail(s, PN_IO, "cannot be read: %s", strerror(errno));
    if (k == 0) return pni_source_fail(s, PN_IO, "shrank while it was read");
    *got += (size_t)k;
    s->at += k;
    if (pni_check_cancel(s->c) != PN_OK) return s->c->status;
  }
  return PN_OK;
}

/* bits: as inflateInit2 takes them. */
static pn_status start_inflate(pni_source *s, int bits) {
  s->buf = pni_alloc(s->c, PNI_FILE_CHUNK);
  if (!s->buf) return s->c->status;
  pni_zlib_memory(&s->z, s->c);
  if (inflateInit2(&s->z, bits) != Z_OK) {
    pni_free(s->c, s->buf);
    s->buf = NULL;
    return pni_fail(s->c, PN_NOMEM, "%s: out of memory", s->where);
  }
  s->packed = true;
  s->room = s->end - s->at > INT64_MAX / PNI_INFLATE_RATIO ? INT64_MAX : (s->end - s->at) * PNI_INFLATE_RATIO;
  return PN_OK;
}

static pn_status start(pni_source *s, bool plain) {
  struct stat st;
  unsigned char magic[2] = {0, 0};
  size_t got;
  if (fstat(s->fd, &st) != 0) return pni_source_fail(s, PN_IO, "cannot be read: %s", strerror(errno));
  if (!S_ISREG(st.st_mode)) return pni_source_fail(s, PN_IO, "must be a regular file");
  s->room = s->end = st.st_size;
  if (plain) return PN_OK;
  pn_status status = take(s, magic, 2, &got);
  s->at = 0;
  if (status != PN_OK || magic[0] != 0x1f || magic[1] != 0x8b) return status;
  s->gzip = true;
  return start_inflate(s, 15 + 16);
}

static pn_status open_as(pn_context *c, const char *where, const char *path, bool plain, pni_source *s) {
  if (!PNI_GIVEN(c, where, path)) return c->status;
  memset(s, 0, sizeof *s);
  s->c = c;
  s->where = where;
  s->path = path;
  s->root = c->root;
  s->fd = pni_root_file(s->root, path, O_RDONLY);
  pn_status why = plain && errno == ENOENT ? PN_MISSING : PN_IO;
  if (s->fd < 0) return pni_source_fail(s, why, "cannot be opened: %s", pni_root_reason(c->root, errno));
  s->own = true;
  pn_status status = start(s, plain);
  if (status != PN_OK) pni_source_close(s);
  return status;
}

pn_status pni_source_open(pn_context *c, const char *where, const char *path, pni_source *s) {
  return open_as(c, where, path, false, s);
}

pn_status pni_source_open_plain(pn_context *c, const char *where, const char *path, pni_source *s) {
  return open_as(c, where, path, true, s);
}

pn_status pni_source_range(pni_source *s, const pni_source *file, int64_t begin, int64_t length, bool deflated) {
  memset(s, 0, sizeof *s);
  s->c = file->c;
  s->where = file->where;
  s->path = file->path;
  s->fd = file->fd;
  s->range = true;
  s->crc = (uint32_t)crc32(0, NULL, 0);
  s->at = begin;
  s->end = begin + length;
  s->room = length;
  if (begin < 0 || length < 0 || begin > file->end || length > file->end - begin)
    return pni_source_fail(s, PN_FORMAT, "is damaged: a part lies outside the file");
  return deflated ? start_inflate(s, -15) : PN_OK;
}

void pni_source_close(pni_source *s) {
  if (s->packed) inflateEnd(&s->z);
  pni_free(s->c, s->buf);
  if (s->own) pni_root_leave(s->root, s->fd);
  s->packed = s->own = false;
  s->buf = NULL;
}

/* ---- reading ---- */

/* One member of a gzip file is complete; another may follow, or zero padding. */
static pn_status next_member(pni_source *s) {
  for (;;) {
    while (s->z.avail_in && *s->z.next_in == 0) {
      s->z.next_in++;
      s->z.avail_in--;
    }
    if (s->z.avail_in) break;
    size_t got;
    pn_status status = take(s, s->buf, PNI_FILE_CHUNK, &got);
    if (status != PN_OK) return status;
    if (got == 0) {
      s->ended = true;
      return PN_OK;
    }
    s->z.next_in = s->buf;
    s->z.avail_in = (unsigned)got;
  }
  if (*s->z.next_in != 0x1f) return pni_source_fail(s, PN_FORMAT, "is damaged: rubbish after the packed data");
  inflateReset(&s->z);
  return PN_OK;
}

static pn_status inflate_step(pni_source *s) {
  if (s->z.avail_in == 0) {
    size_t got;
    pn_status status = take(s, s->buf, PNI_FILE_CHUNK, &got);
    if (status != PN_OK) return status;
    if (got == 0) return pni_source_fail(s, PN_FORMAT, "is damaged: the packed data is cut short");
    s->z.next_in = s->buf;
    s->z.avail_in = (unsigned)got;
  }
  int z = inflate(&s->z, Z_NO_FLUSH);
  if (z == Z_STREAM_END) {
    if (s->gzip) return next_member(s);
    s->ended = true;
    if (s->z.avail_in || s->at != s->end)
      return pni_source_fail(s, PN_FORMAT, "is damaged: rubbish after the packed data");
    return PN_OK;
  }
  if (z == Z_MEM_ERROR) return pni_fail(s->c, PN_NOMEM, "%s: out of memory", s->where);
  if (z != Z_OK && z != Z_BUF_ERROR)
    return pni_source_fail(s, PN_FORMAT, "is damaged: %s", s->z.msg ? s->z.msg : "packed data");
  return PN_OK;
}

static pn_status unpack(pni_source *s, void *out, size_t n, size_t *got) {
  *got = 0;
  while (*got < n && !s->ended) {
    unsigned part = n - *got < (1u << 22) ? (unsigned)(n - *got) : 1u << 22;
    s->z.next_out = (unsigned char *)out + *got;
    s->z.avail_out = part;
    while (s->z.avail_out && !s->ended) {
      pn_status status = inflate_step(s);
      if (status != PN_OK) return status;
    }
    *got += part - s->z.avail_out;
    if (pni_check_cancel(s->c) != PN_OK) return s->c->status;
  }
  return PN_OK;
}

/* The running CRC of a range; zlib counts in unsigned. */
static void count_crc(pni_source *s, const unsigned char *p, size_t n) {
  for (size_t k; n; p += k, n -= k) {
    k = n < ((size_t)1 << 30) ? n : (size_t)1 << 30;
    s->crc = (uint32_t)crc32(s->crc, p, (unsigned)k);
  }
}

pn_status pni_source_some(pni_source *s, void *out, size_t n, size_t *got) {
  pn_status status = s->packed ? unpack(s, out, n, got) : take(s, out, n, got);
  if (status != PN_OK) return status;
  s->room -= (int64_t)*got;
  if (s->range) count_crc(s, out, *got);
  return PN_OK;
}

pn_status pni_source_read(pni_source *s, void *out, size_t n) {
  size_t got;
  pn_status status = pni_source_some(s, out, n, &got);
  if (status != PN_OK) return status;
  if (got < n) return pni_source_fail(s, PN_FORMAT, "is cut short: %zu bytes more were expected", n - got);
  return PN_OK;
}

pn_status pni_source_finish(pni_source *s) {
  char more;
  size_t got;
  pn_status status = pni_source_some(s, &more, 1, &got);
  if (status == PN_OK && got) return pni_source_fail(s, PN_FORMAT, "is damaged: more bytes follow the data");
  return status;
}

pn_status pni_source_all(pni_source *s, char **text, size_t *length) {
  size_t cap = s->packed ? PNI_FILE_CHUNK : (size_t)s->room + 1, n = 0, got;
  char *block = pni_alloc(s->c, cap);
  while (block) {
    if (pni_source_some(s, block + n, cap - n, &got) != PN_OK) break;
    n += got;
    if (n < cap) {
      *text = block;
      *length = n;
      return PN_OK;
    }
    char *larger = pni_alloc(s->c, 2 * cap);
    if (!larger) break;
    memcpy(larger, block, n);
    pni_free(s->c, block);
    block = larger;
    cap *= 2;
  }
  pni_free(s->c, block);
  return s->c->status;
}
