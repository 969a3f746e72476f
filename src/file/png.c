/*
** png.c: pictures in PNG: a signature, then chunks (length, type, data, CRC-32): IHDR, PLTE of a palette, IDAT, whose
** data together are one zlib stream of the rows, each behind the number of its filter, IEND. Every depth and type but
** interlaced ones; chunks that may be passed over (gamma, transparency, texts) are. Rows are unpacked one by one.
** Source: Portable Network Graphics (PNG) Specification, third edition (W3C 2025), sections 5, 7, 9, 11.2.
*/
#include <string.h>
#include "../base/size.h"
#include "file.h"

#define CHUNK(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

enum { GREY = 0, RGB = 2, PALETTE = 3, GREY_ALPHA = 4, RGB_ALPHA = 6, COLOURS = 256 };

typedef struct {
  pni_source *s;
  uint32_t type, left, crc;   /* of the chunk that is read: bytes to come, sum so far */
  int64_t width, height, row; /* row: bytes, without the filter */
  int depth, kind, channels;  /* bits of a number, type of colour, numbers of a pixel in the file */
  int colours;                /* of the palette */
  unsigned char palette[3 * COLOURS];
  bool unpacking, ended; /* z is in use; its stream is complete */
  z_stream z;
  unsigned char *in;   /* PNI_FILE_CHUNK bytes, what z reads */
  unsigned char *rows; /* two rows of row + 1 bytes */
} reader;

static uint32_t big32(const unsigned char *p) { return CHUNK(p[0], p[1], p[2], p[3]); }

static pn_status damaged(const reader *r, const char *what) {
  return pni_source_fail(r->s, PN_FORMAT, "is damaged: %s", what);
}

/* ---- chunks ---- */

static pn_status begin_chunk(reader *r) {
  unsigned char head[8];
  pn_status status = pni_source_read(r->s, head, sizeof head);
  if (status != PN_OK) return status;
  r->left = big32(head);
  r->type = big32(head + 4);
  r->crc = (uint32_t)crc32(crc32(0, NULL, 0), head + 4, 4);
  return r->left > INT32_MAX || (int64_t)r->left + 4 > r->s->room ? damaged(r, "a chunk is longer than the file")
                                                                  : PN_OK;
}

/* Up to n bytes of the chunk. */
static pn_status chunk_some(reader *r, unsigned char *out, size_t n, size_t *got) {
  *got = n < r->left ? n : r->left;
  pn_status status = pni_source_read(r->s, out, *got);
  if (status != PN_OK) return status;
  r->crc = (uint32_t)crc32(r->crc, out, (unsigned)*got);
  r->left -= (uint32_t)*got;
  return PN_OK;
}

/* Passes over what is left of the chunk, and holds its sum against the file's. */
static pn_status end_chunk(reader *r) {
  unsigned char part[4096];
  size_t got;
  while (r->left)
    if (chunk_some(r, part, sizeof part, &got) != PN_OK) return r->s->c->status;
  pn_status status = pni_source_read(r->s, part, 4);
  if (status != PN_OK) return status;
  return big32(part) == r->crc ? PN_OK : damaged(r, "the checksum of a chunk is wrong");
}

static int channels_of(int kind) {
  return kind == GREY || kind == PALETTE ? 1 : kind == RGB ? 3 : kind == GREY_ALPHA ? 2 : kind == RGB_ALPHA ? 4 : 0;
}

static bool is_depth(int kind, int depth) {
  if (depth == 8 || (depth == 16 && kind != PALETTE)) return true;
  return (kind == GREY || kind == PALETTE) && (depth == 1 || depth == 2 || depth == 4);
}

static pn_status read_header(reader *r) {
  unsigned char p[13], lead[5];
  size_t got;
  pn_status status = pni_source_read(r->s, lead, sizeof lead);
  if (status != PN_OK) return status;
  if (memcmp(lead, "G\r\n\x1a\n", sizeof lead) != 0) return pni_source_fail(r->s, PN_FORMAT, "is no PNG file");
  status = begin_chunk(r);
  if (status != PN_OK) return status;
  if (r->type != CHUNK('I', 'H', 'D', 'R') || r->left != sizeof p) return damaged(r, "it does not begin with IHDR");
  status = chunk_some(r, p, sizeof p, &got);
  if (status == PN_OK) status = end_chunk(r);
  if (status != PN_OK) return status;
  r->width = big32(p);
  r->height = big32(p + 4);
  r->depth = p[8];
  r->kind = p[9];
  r->channels = channels_of(r->kind);
  if (r->width < 1 || r->height < 1 || r->width > INT32_MAX || r->height > INT32_MAX)
    return damaged(r, "its sizes must be from 1 to 2147483647");
  if (!r->channels || !is_depth(r->kind, r->depth) || p[10] || p[11] || p[12] > 1)
    return damaged(r, "its header has an unknown kind of colour, depth or packing");
  if (p[12]) return pni_source_fail(r->s, PN_FORMAT, "is interlaced, which is not read; save it without");
  r->row = (r->width * r->channels * r->depth + 7) / 8;
  return PN_OK;
}

static pn_status read_palette(reader *r) {
  size_t got;
  if (r->colours || !r->left || r->left % 3 || r->left > sizeof r->palette)
    return damaged(r, "its palette is not one of 1 to 256 colours");
  r->colours = (int)r->left / 3;
  return chunk_some(r, r->palette, sizeof r->palette, &got);
}

/* Up to the first IDAT. */
static pn_status find_data(reader *r) {
  for (;;) {
    pn_status status = begin_chunk(r);
    if (status != PN_OK) return status;
    if (r->type == CHUNK('I', 'D', 'A', 'T')) break;
    if (r->type == CHUNK('P', 'L', 'T', 'E'))
      status = read_palette(r);
    else if (!(r->type & CHUNK(32, 0, 0, 0))) /* a capital letter: needed to understand the picture */
      return damaged(r, "a chunk of an unknown kind stands before the picture");
    if (status == PN_OK) status = end_chunk(r);
    if (status != PN_OK) return status;
  }
  if (r->kind == PALETTE && !r->colours) return damaged(r, "it has no palette");
  int64_t most = pni_times(r->s->room, PNI_INFLATE_RATIO);
  if (pni_times(r->row + 1, r->height) <= most) return PN_OK;
  return pni_source_fail(r->s, PN_FORMAT, "is damaged: it claims %lld x %lld pixels but can hold only %lld bytes",
                         (long long)r->width, (long long)r->height, (long long)most);
}

/* ---- the zlib stream in IDAT chunks ---- */

static pn_status more_input(reader *r) {
  size_t got;
  while (!r->left) {
    pn_status status = end_chunk(r);
    if (status == PN_OK) status = begin_chunk(r);
    if (status != PN_OK) return status;
    if (r->type != CHUNK('I', 'D', 'A', 'T')) return damaged(r, "the picture is cut short");
  }
  pn_status status = chunk_some(r, r->in, PNI_FILE_CHUNK, &got);
  r->z.next_in = r->in;
  r->z.avail_in = (unsigned)got;
  return status;
}

/* Goes on until the space of z is full or the stream ends. */
static pn_status inflate_space(reader *r) {
  while (r->z.avail_out && !r->ended) {
    if (!r->z.avail_in && more_input(r) != PN_OK) return r->s->c->status;
    int z = inflate(&r->z, Z_NO_FLUSH);
    r->ended = z == Z_STREAM_END;
    if (z == Z_MEM_ERROR) return pni_fail(r->s->c, PN_NOMEM, "%s: out of memory", r->s->where);
    if (z != Z_OK && z != Z_BUF_ERROR && !r->ended) return damaged(r, r->z.msg ? r->z.msg : "packed data");
  }
  return PN_OK;
}

static pn_status inflate_bytes(reader *r, unsigned char *out, int64_t n) {
  for (int64_t part; n; out += part, n -= part) {
    part = n < (1 << 22) ? n : 1 << 22;
    r->z.next_out = out;
    r->z.avail_out = (unsigned)part;
    if (inflate_space(r) != PN_OK || pni_check_cancel(r->s->c) != PN_OK) return r->s->c->status;
    if (r->z.avail_out) return damaged(r, "the picture is cut short");
  }
  return PN_OK;
}

/* Nothing but the end of the stream, chunks without a meaning, and IEND. */
static pn_status read_end(reader *r) {
  unsigned char more;
  r->z.next_out = &more;
  r->z.avail_out = 1;
  if (inflate_space(r) != PN_OK) return r->s->c->status;
  bool over = r->z.avail_out && !r->z.avail_in && !r->left;
  while (over) {
    if (end_chunk(r) != PN_OK || begin_chunk(r) != PN_OK) return r->s->c->status;
    if (r->type == CHUNK('I', 'E', 'N', 'D')) break;
    over = (r->type & CHUNK(32, 0, 0, 0)) != 0;
  }
  if (!over || r->left) return damaged(r, "more data follow the picture");
  return end_chunk(r) == PN_OK ? pni_source_finish(r->s) : r->s->c->status;
}

/* ---- rows ---- */

static unsigned char paeth(int a, int b, int c) { /* the nearest of left, above, both to a + b - c */
  int p = a + b - c, pa = p > a ? p - a : a - p, pb = p > b ? p - b : b - p, pc = p > c ? p - c : c - p;
  return (unsigned char)(pa <= pb && pa <= pc ? a : pb <= pc ? b : c);
}

/* Takes the filter from a row of n bytes, `size` bytes a pixel. */
static void unfilter(int filter, unsigned char *x, const unsigned char *above, int64_t n, int64_t size) {
  for (int64_t i = 0; i < n; i++) {
    int a = i < size ? 0 : x[i - size], b = above[i], c = i < size ? 0 : above[i - size];
    int add = filter == 1 ? a : filter == 2 ? b : filter == 3 ? (a + b) / 2 : paeth(a, b, c);
    x[i] = (unsigned char)(x[i] + add);
  }
}

/* Number i of a row. */
static int number(const reader *r, const unsigned char *row, int64_t i) {
  if (r->depth == 8) return row[i];
  if (r->depth == 16) return row[2 * i] << 8 | row[2 * i + 1];
  int64_t bit = i * r->depth;
  return row[bit / 8] >> (8 - r->depth - (int)(bit % 8)) & ((1 << r->depth) - 1);
}

static void put(void *out, int dtype, int64_t i, double v) {
  if (dtype == PN_FLOAT64)
    ((double *)out)[i] = v;
  else
    ((float *)out)[i] = (float)v;
}

/* A row as numbers from 0 to 1, from element `at` of out on. */
static pn_status widen_row(const reader *r, const unsigned char *row, void *out, int dtype, int64_t at) {
  const double most = (1 << r->depth) - 1;
  if (r->kind != PALETTE) {
    for (int64_t i = 0; i < r->width * r->channels; i++) put(out, dtype, at + i, number(r, row, i) / most);
    return PN_OK;
  }
  for (int64_t i = 0; i < r->width; i++) {
    int colour = number(r, row, i);
    if (colour >= r->colours) return damaged(r, "a pixel has a colour that its palette has not");
    for (int k = 0; k < 3; k++) put(out, dtype, at + 3 * i + k, r->palette[3 * colour + k] / 255.0);
  }
  return PN_OK;
}

static pn_status read_rows(reader *r, pn_tensor *t) {
  const int64_t stride = r->row + 1, size = r->channels * r->depth > 8 ? r->channels * r->depth / 8 : 1;
  unsigned char *row = r->rows, *above = r->rows + stride;
  memset(above, 0, (size_t)stride);
  for (int64_t y = 0; y < r->height; y++) {
    if (inflate_bytes(r, row, stride) != PN_OK) return r->s->c->status;
    if (row[0] > 4) return damaged(r, "a row has an unknown filter");
    if (row[0]) unfilter(row[0], row + 1, above + 1, r->row, size);
    if (widen_row(r, row + 1, pni_data(t), t->dtype, y * (t->numel / r->height)) != PN_OK) return r->s->c->status;
    unsigned char *other = above;
    above = row;
    row = other;
  }
  return read_end(r);
}

/* ---- all of it ---- */

static pn_status start_unpacking(reader *r) {
  pn_context *c = r->s->c;
  r->in = pni_alloc(c, PNI_FILE_CHUNK);
  r->rows = pni_alloc_array(c, 2 * (r->row + 1), 1);
  if (!r->in || !r->rows) return c->status;
  pni_zlib_memory(&r->z, c);
  if (inflateInit2(&r->z, 15) != Z_OK) return pni_fail(c, PN_NOMEM, "%s: out of memory", r->s->where);
  r->unpacking = true;
  return PN_OK;
}

static pn_tensor *read_picture(reader *r, int dtype) {
  if (start_unpacking(r) != PN_OK) return NULL;
  pni_spec spec = {.dtype = dtype, .ndim = 3, .shape = {r->height, r->width, r->kind == PALETTE ? 3 : r->channels}};
  pn_tensor *t = pni_tensor_new(r->s->c, &spec);
  if (t && read_rows(r, t) == PN_OK) return t;
  pn_tensor_unref(t);
  return NULL;
}

pn_tensor *pni_png_read(pni_source *s, int dtype) {
  reader r = {.s = s};
  if (s->packed) {
    pni_source_fail(s, PN_FORMAT, "is a gzipped PNG file; unpack it first");
    return NULL;
  }
  if (read_header(&r) != PN_OK || find_data(&r) != PN_OK) return NULL;
  pn_tensor *t = read_picture(&r, dtype);
  if (r.unpacking) inflateEnd(&r.z);
  pni_free(s->c, r.in);
  pni_free(s->c, r.rows);
  return t;
}
#undef CHUNK
