/*
** json_reader.c: the grammar of JSON as a machine of a few states. Strict: one way to write a number, no byte below a
** blank in a text, no lone surrogate, nothing behind the last value.
*/
#include <string.h>
#include "csv.h"
#include "json_reader.h"

/* What may come next: a line's value (or, without lines, the only one), what ends its line, nothing more, a value, a
 * value or the end of a list, a key, a key or the end of an object, a comma or an end. */
enum { START, LINE_END, NOTHING, VALUE, FIRST_VALUE, KEY, FIRST_KEY, FOLLOWING };

pn_status pni_json_open(pni_source *s, int64_t left, bool lines, const char *what, pni_json *j) {
  *j = (pni_json){.s = s, .what = what, .lines = lines, .left = left, .room = 256, .state = START};
  j->buf = pni_alloc(s->c, PNI_FILE_CHUNK);
  j->text = pni_alloc(s->c, j->room);
  return s->c->status;
}

void pni_json_close(pni_json *j) {
  if (!j->s) return;
  pni_free(j->s->c, j->buf);
  pni_free(j->s->c, j->text);
  *j = (pni_json){0};
}

/* ---- bytes ---- */

/* Another piece of the file; false at the end, or with a failure pending. */
static bool refill(pni_json *j) {
  size_t n = j->left < PNI_FILE_CHUNK ? (size_t)j->left : PNI_FILE_CHUNK, got = 0;
  if (n == 0 || pni_source_some(j->s, j->buf, n, &got) || got == 0) return false;
  j->before += (int64_t)j->end;
  j->left -= (int64_t)got;
  j->at = 0;
  j->end = got;
  return true;
}

/* The next byte, which stays, or -1. */
static inline int peek(pni_json *j) { return j->at < j->end || refill(j) ? j->buf[j->at] : -1; }

static pni_json_kind bad(pni_json *j) {
  char shown[64];
  pni_source_fail(j->s, PN_FORMAT, "%s: at byte %lld, '%s'", j->what, (long long)pni_json_place(j) + 1,
                  pni_printable((const char *)j->buf + j->at, j->end - j->at, shown));
  return PNI_JSON_END;
}

/* The first byte that is not blank, which stays, or -1; a line's end is blank where a value may go on behind it. */
static int pass_blanks(pni_json *j, bool line_ends) {
  int ch;
  while ((ch = peek(j)) == ' ' || ch == '\t' || ch == '\r' || (ch == '\n' && line_ends)) j->at++;
  return ch;
}

/* ---- texts ---- */

static bool append(pni_json *j, const void *bytes, size_t n) {
  if (j->room - j->length <= n) {
    size_t room = 2 * j->room > j->length + n ? 2 * j->room : j->length + n + 1;
    char *larger = pni_alloc(j->s->c, room);
    if (!larger) return false;
    memcpy(larger, j->text, j->length);
    pni_free(j->s->c, j->text);
    j->text = larger;
    j->room = room;
  }
  memcpy(j->text + j->length, bytes, n);
  j->length += n;
  return true;
}

/* Four hexadecimal digits, or -1. */
static int32_t hex(pni_json *j) {
  int32_t v = 0;
  for (int k = 0; k < 4; k++, j->at++) {
    int ch = peek(j), digit = ch >= '0' && ch <= '9'   ? ch - '0'
                              : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10
                              : ch >= 'A' && ch <= 'F' ? ch - 'A' + 10
                                                       : -1;
    if (digit < 0) return -1;
    v = v << 4 | digit;
  }
  return v;
}

static bool append_utf8(pni_json *j, int32_t v) {
  unsigned char b[4];
  size_t n = v < 0x80 ? 1 : v < 0x800 ? 2 : v < 0x10000 ? 3 : 4;
  static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t k = n - 1; k; k--, v >>= 6) b[k] = (unsigned char)(0x80 | (v & 0x3f));
  b[0] = (unsigned char)(lead[n] | v);
  return append(j, b, n);
}

/* What stands behind \u: one character, or a pair of surrogates that are one. */
static bool unicode(pni_json *j) {
  int32_t v = hex(j);
  if (v < 0 || (v >= 0xdc00 && v < 0xe000)) return false;
  if (v >= 0xd800 && v < 0xdc00) {
    if (peek(j) != '\\') return false;
    j->at++;
    if (peek(j) != 'u') return false;
    j->at++;
    int32_t low = hex(j);
    if (low < 0xdc00 || low >= 0xe000) return false;
    v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
  }
  return append_utf8(j, v);
}

/* What stands behind a backslash. */
static bool escape(pni_json *j) {
  static const char letter[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
  int ch = peek(j);
  if (ch < 0) return false;
  if (ch == 'u') {
    j->at++;
    return unicode(j);
  }
  const char *at = ch ? strchr(letter, ch) : NULL;
  if (!at || !append(j, meant + (at - letter), 1)) return false;
  j->at++;
  return true;
}

/* The text whose first quote comes next. */
static bool text(pni_json *j) {
  j->length = 0;
  j->at++;
  for (;;) {
    int ch = peek(j);
    size_t k = j->at;
    while (k < j->end && j->buf[k] != '"' && j->buf[k] != '\\' && j->buf[k] >= ' ') k++;
    if (k > j->at && !append(j, j->buf + j->at, k - j->at)) return false;
    bool moved = k > j->at;
    j->at = k;
    if (moved && k == j->end) continue;
    ch = moved ? j->buf[k] : ch;
    if (ch != '"' && ch != '\\') return false;
    j->at++;
    if (ch == '"') break;
    if (!escape(j)) return false;
  }
  j->text[j->length] = '\0'; /* append leaves room for it */
  return true;
}

/* ---- other values ---- */

static bool is_digit(char ch) { return ch >= '0' && ch <= '9'; }

/* -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)? and no more, up to the zero byte. */
static bool is_number(const char *p) {
  if (*p == '-') p++;
  if (!is_digit(*p)) return false;
  if (*p++ != '0')
    while (is_digit(*p)) p++;
  if (*p == '.') {
    if (!is_digit(*++p)) return false;
    while (is_digit(*p)) p++;
  }
  if (*p == 'e' || *p == 'E') {
    p++;
    if (*p == '+' || *p == '-') p++;
    if (!is_digit(*p)) return false;
    while (is_digit(*p)) p++;
  }
  return *p == '\0';
}

static bool number(pni_json *j) {
  char digits[PNI_JSON_DIGITS + 1];
  size_t n = 0;
  int ch;
  while ((ch = peek(j)) > 0 && strchr("+-.0123456789eE", ch) && n < PNI_JSON_DIGITS) {
    digits[n++] = (char)ch;
    j->at++;
  }
  digits[n] = '\0';
  return is_number(digits) && pni_cell_number(&(pni_cell){.text = digits, .length = n}, &j->number);
}

static bool word(pni_json *j, const char *letters) {
  for (; *letters; letters++, j->at++)
    if (peek(j) != (unsigned char)*letters) return false;
  return true;
}

static bool is_object(const pni_json *j) { return j->objects >> (j->depth - 1) & 1; }

/* A value is complete. */
static pni_json_kind done(pni_json *j, pni_json_kind kind) {
  j->state = j->depth ? FOLLOWING : j->lines ? LINE_END : NOTHING;
  return kind;
}

static pni_json_kind begin(pni_json *j, bool object) {
  if (j->depth == PNI_JSON_DEEPEST) {
    pni_source_fail(j->s, PN_FORMAT, "has lists that are nested deeper than %d", PNI_JSON_DEEPEST);
    return PNI_JSON_END;
  }
  uint64_t bit = (uint64_t)1 << j->depth++;
  j->objects = object ? j->objects | bit : j->objects & ~bit;
  j->at++;
  j->state = object ? FIRST_KEY : FIRST_VALUE;
  return object ? PNI_JSON_OBJECT : PNI_JSON_LIST;
}

static pni_json_kind value(pni_json *j, int ch) {
  switch (ch) {
  case '{': return begin(j, true);
  case '[': return begin(j, false);
  case '"': return text(j) ? done(j, PNI_JSON_TEXT) : bad(j);
  case 't': return word(j, "true") ? done(j, PNI_JSON_TRUE) : bad(j);
  case 'f': return word(j, "false") ? done(j, PNI_JSON_FALSE) : bad(j);
  case 'n': return word(j, "null") ? done(j, PNI_JSON_NULL) : bad(j);
  case 'N':
    j->length = 0;
    j->text[0] = '\0';
    return j->lines && word(j, "NaN") ? done(j, PNI_JSON_TEXT) : bad(j);
  default: return number(j) ? done(j, PNI_JSON_NUMBER) : bad(j);
  }
}

static pni_json_kind key(pni_json *j, int ch) {
  if (ch != '"' || !text(j) || pass_blanks(j, !j->lines) != ':') return bad(j);
  j->at++;
  j->state = VALUE;
  return PNI_JSON_KEY;
}

static pni_json_kind finish(pni_json *j) {
  j->at++;
  j->depth--;
  return done(j, PNI_JSON_CLOSE);
}

/* ---- the machine ---- */

/* Between values at depth 0. */
static pni_json_kind outside(pni_json *j) {
  static const char mark[] = "\xef\xbb\xbf"; /* of byte order, which some programs write */
  if (j->state == START && pni_json_place(j) == 0 && peek(j) == 0xef && !word(j, mark)) return bad(j);
  int ch = pass_blanks(j, j->state != LINE_END);
  if (j->state == LINE_END && ch == '\n') {
    j->state = START;
    ch = pass_blanks(j, true);
  }
  if (ch < 0) return j->state == START && !j->lines ? bad(j) : PNI_JSON_END;
  return j->state == START ? value(j, ch) : bad(j);
}

pni_json_kind pni_json_next(pni_json *j) {
  if (pni_failed(j->s->c)) return PNI_JSON_END;
  if (j->depth == 0) return outside(j);
  int ch = pass_blanks(j, !j->lines);
  if (ch == (is_object(j) ? '}' : ']') && j->state != VALUE && j->state != KEY) return finish(j);
  if (j->state == FOLLOWING) {
    if (ch != ',') return bad(j);
    j->at++;
    j->state = is_object(j) ? KEY : VALUE;
    ch = pass_blanks(j, !j->lines);
  }
  return j->state == KEY || j->state == FIRST_KEY ? key(j, ch) : value(j, ch);
}

pn_status pni_json_skip(pni_json *j) {
  int depth = j->depth;
  do
    if (pni_json_next(j) == PNI_JSON_END) break;
  while (j->depth > depth);
  return j->s->c->status;
}
