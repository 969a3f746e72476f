/*
** csv_cell.c: cells of CSV and the numbers in them, read and written alike in every locale. Source of the
** cell grammar: RFC 4180, with any delimiter, blanks around quotes, and LF, CRLF or CR at the ends of lines.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "csv.h"

/* Bytes between two looks at the clock; more than any number, and than a text's first lines, needs. */
enum { PIECE = 1 << 15, LONGEST = 1 << 20 };

/* ---- cells ---- */

/* Has somebody cancelled, as seen every PIECE bytes? */
static bool is_stopped(pni_csv *s) {
  if (!s->c || s->p - s->asked < PIECE) return false;
  s->asked = s->p;
  return pni_check_cancel(s->c) != PN_OK;
}

static bool is_blank(const pni_csv *s, char ch) { return ch == ' ' || (ch == '\t' && s->delimiter != '\t'); }

static void skip_blanks(pni_csv *s) {
  while (s->p < s->end && is_blank(s, *s->p)) s->p++;
}

static bool at_line_end(const pni_csv *s) { return s->p == s->end || *s->p == '\n' || *s->p == '\r'; }

static bool at_delimiter(const pni_csv *s) { return *s->p == s->delimiter || (s->delimiter == ' ' && *s->p == '\t'); }

/* Past LF, CRLF or CR. */
static const char *after_line_end(const char *p, const char *end) {
  if (p < end && *p == '\r' && p + 1 < end && p[1] == '\n') p++;
  return p < end ? p + 1 : p;
}

static void pass_line_end(pni_csv *s) {
  s->p = after_line_end(s->p, s->end);
  s->line++;
  s->column = 1;
}

/* To the end of the line. */
static void pass_line(pni_csv *s) {
  while (!at_line_end(s) && !is_stopped(s)) s->p++;
}

/* Passes over empty lines and comments. false at the end of the text. */
static bool begin_line(pni_csv *s) {
  while (s->p < s->end && !is_stopped(s)) {
    const char *begin = s->p;
    if (s->comment && *s->p == s->comment) pass_line(s);
    skip_blanks(s);
    if (!at_line_end(s)) {
      if (s->delimiter != ' ') s->p = begin;
      return true;
    }
    if (s->p < s->end) pass_line_end(s);
  }
  return false;
}

/* After the opening quote. */
static int quoted_cell(pni_csv *s, pni_cell *cell) {
  cell->quoted = true;
  cell->text = s->p;
  for (;; s->p++) {
    if (s->p == s->end || is_stopped(s)) return PNI_CELL_OPEN_QUOTE;
    if (*s->p == '\n' || (*s->p == '\r' && (s->p + 1 == s->end || s->p[1] != '\n'))) s->line++;
    if (*s->p != '"') continue;
    if (s->p + 1 == s->end || s->p[1] != '"') break;
    s->p++;
  }
  cell->length = (size_t)(s->p - cell->text);
  s->p++;
  if (s->delimiter != ' ') skip_blanks(s);
  return at_line_end(s) || at_delimiter(s) ? PNI_CELL_OK : PNI_CELL_AFTER_QUOTE;
}

/* To the end of a cell without quotes. */
static void pass_cell(pni_csv *s) {
  while (!is_stopped(s)) {
    const char *pause = s->end - s->p < PIECE ? s->end : s->p + PIECE;
    while (s->p < pause && !at_line_end(s) && !at_delimiter(s)) s->p++;
    if (s->p < pause || pause == s->end) break;
  }
}

int pni_csv_next(pni_csv *s, pni_cell *cell) {
  if (s->column == 1 && !begin_line(s)) return PNI_CELL_END;
  if (is_stopped(s)) return PNI_CELL_END;
  *cell = (pni_cell){.line = s->line, .column = s->column};
  skip_blanks(s);
  if (s->p < s->end && *s->p == '"') {
    s->p++;
    int bad = quoted_cell(s, cell);
    if (bad != PNI_CELL_OK) return bad;
  } else {
    cell->text = s->p;
    pass_cell(s);
    const char *stop = s->p;
    while (stop > cell->text && is_blank(s, stop[-1])) stop--;
    cell->length = (size_t)(stop - cell->text);
  }
  if (s->delimiter == ' ') skip_blanks(s); /* a run of blanks delimits, at the line's end it does not */
  cell->last = at_line_end(s);
  if (cell->last) {
    if (s->p < s->end) pass_line_end(s);
    s->column = 1;
  } else {
    if (s->delimiter != ' ') s->p++;
    s->column++;
  }
  return PNI_CELL_OK;
}

/* How often `ch` stands outside quotes in the line at *p, which moves to the next line. */
static int64_t count_in_line(const char **p, const char *end, char ch) {
  int64_t n = 0;
  bool quoted = false;
  for (; *p < end && (quoted || (**p != '\n' && **p != '\r')); ++*p) {
    if (**p == '"') quoted = !quoted;
    n += !quoted && **p == ch;
  }
  *p = after_line_end(*p, end);
  return n;
}

/* A delimiter stands equally often in the first two lines; among several, the rarer in prose is meant (a comma
 * may be a decimal mark between semicolons). */
char pni_csv_guess(const char *text, const char *end) {
  if (end - text > LONGEST) end = text + LONGEST;
  static const char candidates[] = "\t;|,";
  char found = 0;
  for (int k = 0; candidates[k]; k++) {
    const char *p = text;
    int64_t first = count_in_line(&p, end, candidates[k]);
    if (first == 0) continue;
    if (p == end || count_in_line(&p, end, candidates[k]) == first) return candidates[k];
    if (!found) found = candidates[k];
  }
  if (found) return found;
  const char *p = text;
  return count_in_line(&p, end, ' ') ? ' ' : ',';
}

/* ---- numbers ---- */

static bool same(const pni_cell *cell, const char *word) {
  size_t n = strlen(word);
  if (cell->length != n) return false;
  for (size_t i = 0; i < n; i++) {
    char ch = cell->text[i];
    if (ch >= 'A' && ch <= 'Z') ch = (char)(ch + 32);
    if (ch != word[i]) return false;
  }
  return true;
}

bool pni_cell_missing(const pni_cell *cell, const char *more) {
  static const char *const words[] = {"na", "n/a", "nan", "null", "none", "?"};
  if (cell->length == 0) return true;
  for (size_t k = 0; k < sizeof words / sizeof *words; k++)
    if (same(cell, words[k])) return true;
  return more && strlen(more) == cell->length && memcmp(more, cell->text, cell->length) == 0;
}

/* strtod reads and printf writes the locale's decimal mark; this is it. */
static size_t decimal_mark(char buf[16]) {
  char text[24];
  snprintf(text, sizeof text, "%.1f", 0.5);
  size_t n = strlen(text) - 2;
  memcpy(buf, text + 1, n < 15 ? n : 15);
  return n < 15 ? n : 15;
}

/* Numbers of more digits or larger powers than are exact: the C library's correct rounding. */
static bool slow_number(const char *text, size_t n, double *v) {
  char buf[512], mark[16];
  size_t k = 0, width = decimal_mark(mark);
  for (size_t i = 0; i < n; i++) {
    if (k + 20 > sizeof buf) return false;
    if (text[i] == '.') {
      memcpy(buf + k, mark, width);
      k += width;
    } else {
      buf[k++] = text[i];
    }
  }
  buf[k] = '\0';
  char *end;
  *v = strtod(buf, &end);
  return end == buf + k;
}

static bool special_number(const pni_cell *cell, double *v) {
  pni_cell rest = *cell;
  bool minus = cell->length && *cell->text == '-';
  if (cell->length && (*cell->text == '-' || *cell->text == '+')) {
    rest.text++;
    rest.length--;
  }
  if (same(&rest, "inf") || same(&rest, "infinity")) {
    *v = minus ? -INFINITY : INFINITY;
    return true;
  }
  *v = same(cell, "true");
  return *v != 0 || same(cell, "false");
}

/* Digits from *p into a mantissa; returns how many. *lost counts those that did not fit. */
static int digits(const char **p, const char *end, uint64_t *mantissa, int *lost) {
  int n = 0;
  for (; *p < end && **p >= '0' && **p <= '9'; ++*p, n++) {
    if (*mantissa < UINT64_MAX / 10 - 1)
      *mantissa = *mantissa * 10 + (uint64_t)(**p - '0');
    else
      ++*lost;
  }
  return n;
}

/* [+-] digits [. digits] [e [+-] digits]. A mantissa below 2^53 times or over a power of ten up to 22 is exact
 * (W. D. Clinger, How to read floating point numbers accurately, 1990). */
bool pni_cell_number(const pni_cell *cell, double *v) {
  static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const char *p = cell->text, *end = p + cell->length;
  uint64_t mantissa = 0, scale = 0;
  int lost = 0, before, after = 0, exponent = 0;
  bool minus = p < end && *p == '-';
  if (cell->length > LONGEST) return false;
  if (p < end && (*p == '-' || *p == '+')) p++;
  before = digits(&p, end, &mantissa, &lost);
  if (p < end && *p == '.') {
    p++;
    after = digits(&p, end, &mantissa, &lost);
  }
  if (before + after == 0) return special_number(cell, v);
  if (p < end && (*p == 'e' || *p == 'E')) {
    p++;
    bool down = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) p++;
    if (digits(&p, end, &scale, &lost) == 0) return false;
    exponent = scale > 9999 ? 9999 : (int)scale;
    if (down) exponent = -exponent;
  }
  if (p != end) return false;
  exponent -= after;
  if (lost || mantissa > (uint64_t)1 << 53 || exponent < -22 || exponent > 22)
    return slow_number(cell->text, cell->length, v);
  double m = (double)mantissa;
  m = exponent < 0 ? m / power[-exponent] : m * power[exponent];
  *v = minus ? -m : m;
  return true;
}

bool pni_cell_integer(const pni_cell *cell, int64_t *v) {
  const char *p = cell->text, *end = p + cell->length;
  uint64_t mantissa = 0;
  int lost = 0;
  bool minus = p < end && *p == '-';
  if (cell->length > LONGEST) return false;
  if (p < end && (*p == '-' || *p == '+')) p++;
  if (digits(&p, end, &mantissa, &lost) && p == end && !lost && mantissa <= (uint64_t)INT64_MAX + minus) {
    *v = (int64_t)(minus ? 0 - mantissa : mantissa);
    return true;
  }
  double d; /* 3.0 and 1e3 are whole numbers too */
  if (!pni_cell_number(cell, &d) || d != floor(d) || fabs(d) > 0x1p53) return false;
  *v = (int64_t)d;
  return true;
}

size_t pni_number_text(double v, bool single, char buf[40]) {
  if (isnan(v) || isinf(v)) {
    strcpy(buf, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
    return strlen(buf);
  }
  int n = 0;
  for (int precision = single ? 6 : 15; precision <= (single ? 9 : 17); precision++) {
    n = snprintf(buf, 40, "%.*g", precision, v);
    double back = strtod(buf, NULL); /* in the locale it was written in */
    if (single ? (float)back == (float)v : back == v) break;
  }
  for (char *p = buf; *p; p++) {
    if ((*p >= '0' && *p <= '9') || strchr("+-einf", *p)) continue;
    char mark[16];
    size_t width = decimal_mark(mark);
    *p = '.';
    memmove(p + 1, p + width, strlen(p + width) + 1);
    n -= (int)width - 1;
    break;
  }
  return (size_t)n;
}

size_t pni_integer_text(int64_t v, char buf[40]) { return (size_t)snprintf(buf, 40, "%lld", (long long)v); }
