/*
** csv.c: tables of numbers. The text is read as a whole and gone through twice: the first time
** counts rows and checks that all have the same number of cells, the second converts.
*/
#include <math.h>
#include <string.h>
#include "csv.h"

typedef struct {
  pni_source *s;
  const pn_csv_options *o;
  pni_csv begin; /* the first line */
  pni_csv data;  /* the first line of numbers */
  int64_t rows, columns;
  bool header;
  int64_t *chosen; /* file columns in the order of the result */
  int64_t nchosen;
  pni_cell *row; /* `columns` cells */
} table;

/* ---- cells with errors ---- */

/* *more is false at the end of the file. */
static pn_status next_cell(const table *t, pni_csv *at, pni_cell *cell, bool *more) {
  int result = pni_csv_next(at, cell);
  *more = result == PNI_CELL_OK;
  if (pni_failed(t->s->c)) return t->s->c->status;
  if (result == PNI_CELL_OPEN_QUOTE)
    return pni_source_fail(t->s, PN_FORMAT, "line %lld, column %lld: the quote is never closed", (long long)cell->line,
                           (long long)cell->column);
  if (result == PNI_CELL_AFTER_QUOTE)
    return pni_source_fail(t->s, PN_FORMAT, "line %lld, column %lld: text follows the closing quote",
                           (long long)cell->line, (long long)cell->column);
  return PN_OK;
}

/* Reads one line into t->row. *more is false at the end of the file. */
static pn_status next_row(const table *t, pni_csv *at, bool *more) {
  for (int64_t k = 0; k < t->columns; k++) {
    pn_status status = next_cell(t, at, &t->row[k], more);
    if (status != PN_OK || !*more) return status;
  }
  return PN_OK;
}

/* ---- numbers with a comma ---- */

/* The cell with a point for its comma, in `text`. false: as a number it would have a point already, or is too long. */
static bool with_point(const pni_cell *cell, char text[64], pni_cell *out) {
  if (cell->length >= 64 || memchr(cell->text, '.', cell->length)) return false;
  *out = *cell;
  out->text = memcpy(text, cell->text, cell->length);
  char *comma = memchr(text, ',', cell->length);
  if (comma) *comma = '.';
  return true;
}

static bool cell_number(const table *t, const pni_cell *cell, double *v) {
  char text[64];
  pni_cell pointed;
  if (t->o->decimal != ',') return pni_cell_number(cell, v);
  return with_point(cell, text, &pointed) && pni_cell_number(&pointed, v);
}

static bool cell_integer(const table *t, const pni_cell *cell, int64_t *v) {
  char text[64];
  pni_cell pointed;
  if (t->o->decimal != ',') return pni_cell_integer(cell, v);
  return with_point(cell, text, &pointed) && pni_cell_integer(&pointed, v);
}

/* ---- first pass ---- */

static pn_status wrong_width(const table *t, int64_t line, int64_t width) {
  return pni_source_fail(t->s, PN_FORMAT, "line %lld has %lld columns, the first line has %lld", (long long)line,
                         (long long)width, (long long)t->columns);
}

static pn_status measure(table *t) {
  pni_csv at = t->begin;
  pni_cell cell;
  bool more;
  for (;;) {
    pn_status status = next_cell(t, &at, &cell, &more);
    if (status != PN_OK) return status;
    if (!more) break;
    if (!cell.last) continue;
    if (t->rows == 0) t->columns = cell.column;
    if (cell.column != t->columns) return wrong_width(t, cell.line, cell.column);
    t->rows++;
  }
  return t->rows ? PN_OK : pni_source_fail(t->s, PN_FORMAT, "holds no data");
}

/* What the first line looks like: how many cells are numbers, how many texts, and the first text over a number. */
typedef struct {
  int64_t numbers, texts;
  pni_cell over_number; /* column 0: there is none */
} first_line;

static pn_status look_at_first(const table *t, first_line *f) {
  pni_csv first = t->begin, second = t->data;
  bool more;
  double v;
  pn_status status = PN_OK;
  *f = (first_line){0};
  for (int64_t k = 0; k < t->columns && status == PN_OK; k++) {
    pni_cell a, b = {.length = 0};
    status = next_cell(t, &first, &a, &more);
    if (status == PN_OK && t->rows > 1) status = next_cell(t, &second, &b, &more);
    bool missing = pni_cell_missing(&a, t->o->missing), number = !missing && cell_number(t, &a, &v);
    f->numbers += number;
    f->texts += !missing && !number;
    if (!missing && !number && !f->over_number.column && !pni_cell_missing(&b, t->o->missing) && cell_number(t, &b, &v))
      f->over_number = a;
  }
  return status;
}

/* A first line is a header if all its cells are texts, or it has texts over numbers and no numbers itself (an empty
 * cell is neither). One with numbers is data, unless a text of it stands over a number: then it may be either, and
 * taking it for a header could lose a row. */
static pn_status find_header(table *t) {
  bool more;
  first_line f = {0};
  pni_csv second = t->begin;
  char buf[64];
  pn_status status = next_row(t, &second, &more);
  t->data = second;
  if (status == PN_OK) status = look_at_first(t, &f);
  if (status != PN_OK) return status;
  bool named = f.texts > 0 && f.numbers == 0 && (f.texts == t->columns || f.over_number.column);
  if (t->o->header == 0 && f.numbers > 0 && f.over_number.column)
    return pni_source_fail(t->s, PN_FORMAT,
                           "line %lld, column %lld is '%s' over a number, but other cells of the line are numbers: say "
                           "whether it is a header (header = true or false)",
                           (long long)f.over_number.line, (long long)f.over_number.column,
                           pni_printable(f.over_number.text, f.over_number.length, buf));
  t->header = t->o->header > 0 || (t->o->header == 0 && named);
  if (!t->header) t->data = t->begin;
  if (t->header) t->rows--;
  return PN_OK;
}

/* ---- columns ---- */

/* A cell's text with doubled quotes made single, in a block of cell->length + 1 bytes. */
static char *plain_text(pn_context *c, const pni_cell *cell, size_t *n) {
  char *text = pni_alloc(c, cell->length + 1);
  if (!text) return NULL;
  *n = 0;
  for (size_t i = 0; i < cell->length; i++) {
    text[(*n)++] = cell->text[i];
    if (cell->quoted && cell->text[i] == '"') i++;
  }
  text[*n] = '\0';
  return text;
}

static pn_status column_named(const table *t, const char *name, int64_t *out) {
  char buf[64];
  for (int64_t k = 0; t->header && k < t->columns; k++) {
    size_t n;
    char *text = plain_text(t->s->c, &t->row[k], &n);
    if (!text) return t->s->c->status;
    bool found = strcmp(text, name) == 0;
    pni_free(t->s->c, text);
    *out = k;
    if (found) return PN_OK;
  }
  return pni_source_fail(t->s, PN_DOMAIN, t->header ? "has no column '%s'" : "has no header, so no column '%s'",
                         pni_printable(name, strlen(name), buf));
}

static pn_status choose_columns(table *t) {
  int64_t given = t->o->num_columns;
  t->nchosen = given > 0 ? given : t->columns;
  t->chosen = pni_alloc_array(t->s->c, t->nchosen, sizeof *t->chosen);
  if (!t->chosen) return t->s->c->status;
  for (int64_t k = 0; k < t->nchosen; k++) {
    int64_t at = given <= 0 || !t->o->columns ? k : t->o->columns[k];
    if (given > 0 && !t->o->columns && column_named(t, t->o->column_names[k], &at) != PN_OK) return t->s->c->status;
    if (at < -t->columns || at >= t->columns)
      return pni_source_fail(t->s, PN_DOMAIN, "has %lld columns, so none at position %lld (counted from 0)",
                             (long long)t->columns, (long long)at);
    t->chosen[k] = at < 0 ? at + t->columns : at;
  }
  return PN_OK;
}

/* The header's texts; t->row holds the first line. */
static pn_names *header_names(const table *t) {
  pn_names *names = pni_names_new(t->s->c);
  for (int64_t k = 0; names && t->header && k < t->nchosen; k++) {
    size_t n;
    const pni_cell *cell = &t->row[t->chosen[k]];
    char *text = plain_text(t->s->c, cell, &n);
    if (text) pni_names_add(t->s->c, names, text, n);
    pni_free(t->s->c, text);
    if (k % 4096 == 0) pni_check_cancel(t->s->c);
    if (!pni_failed(t->s->c)) continue;
    pn_names_free(names);
    return NULL;
  }
  return names;
}

/* ---- second pass ---- */

static pn_status bad_cell(const table *t, const pni_cell *cell, const char *what) {
  char buf[64];
  return pni_source_fail(t->s, PN_FORMAT, "line %lld, column %lld must be %s, got '%s'", (long long)cell->line,
                         (long long)cell->column, what, pni_printable(cell->text, cell->length, buf));
}

static pn_status store(const table *t, pn_tensor *out, int64_t i, const pni_cell *cell) {
  bool missing = pni_cell_missing(cell, t->o->missing);
  if (out->dtype == PN_INT64) {
    int64_t v;
    if (missing || !cell_integer(t, cell, &v)) return bad_cell(t, cell, "a whole number");
    ((int64_t *)pni_data(out))[i] = v;
    return PN_OK;
  }
  double v = NAN;
  if (!missing && !cell_number(t, cell, &v)) return bad_cell(t, cell, "a number");
  if (out->dtype == PN_FLOAT64)
    ((double *)pni_data(out))[i] = v;
  else
    ((float *)pni_data(out))[i] = (float)v;
  return PN_OK;
}

/* The chosen cells of t->row as row i. */
static pn_status store_row(const table *t, pn_tensor *out, int64_t i) {
  for (int64_t k = 0; k < t->nchosen; k++) {
    pn_status status = store(t, out, i * t->nchosen + k, &t->row[t->chosen[k]]);
    if (status == PN_OK && k % 65536 == 65535) status = pni_check_cancel(t->s->c);
    if (status != PN_OK) return status;
  }
  return PN_OK;
}

/* Passes over the rows that are not wanted; t->rows is then how many are. */
static pn_status choose_rows(table *t) {
  int64_t first = t->o->first_row, count = t->o->num_rows;
  if (first > t->rows || count > t->rows - first)
    return pni_source_fail(t->s, PN_DOMAIN, "has %lld rows, so not %lld from %lld on (counted from 0)",
                           (long long)t->rows, (long long)count, (long long)first);
  bool more;
  pn_status status = PN_OK;
  for (int64_t i = 0; i < first && status == PN_OK; i++) status = next_row(t, &t->data, &more);
  t->rows = count ? count : t->rows - first;
  return status;
}

static pn_tensor *convert(table *t) {
  pn_status status = choose_rows(t);
  pni_spec spec = {.dtype = (int)t->o->dtype, .ndim = 2, .shape = {t->rows, t->nchosen}};
  pn_tensor *out = status == PN_OK ? pni_tensor_new(t->s->c, &spec) : NULL;
  pni_csv at = t->data;
  if (!out) return NULL;
  for (int64_t i = 0; i < t->rows && status == PN_OK; i++) {
    bool more;
    status = next_row(t, &at, &more);
    if (status == PN_OK) status = store_row(t, out, i);
  }
  if (status == PN_OK) return out;
  pn_tensor_unref(out);
  return NULL;
}

static pn_status add_text(const table *t, pn_names *list, const pni_cell *cell) {
  size_t n;
  if (pni_cell_missing(cell, t->o->missing)) return pni_names_add(t->s->c, list, "", 0);
  char *text = plain_text(t->s->c, cell, &n);
  if (!text) return t->s->c->status;
  pn_status status = pni_names_add(t->s->c, list, text, n);
  pni_free(t->s->c, text);
  return status;
}

static pn_names *collect(table *t) {
  pn_names *list = pni_names_new(t->s->c);
  pn_status status = list ? choose_rows(t) : t->s->c->status;
  pni_csv at = t->data;
  for (int64_t i = 0; i < t->rows && status == PN_OK; i++) {
    bool more;
    status = next_row(t, &at, &more);
    for (int64_t k = 0; k < t->nchosen && status == PN_OK; k++) status = add_text(t, list, &t->row[t->chosen[k]]);
  }
  if (status == PN_OK) return list;
  pn_names_free(list);
  return NULL;
}

/* What is made of a table: numbers, or its cells as they are; and the header's texts. */
typedef struct {
  bool text;
  pn_tensor *numbers;
  pn_names *cells;
  pn_names *names;
} result;

static void read_table(table *t, result *r) {
  bool more;
  pni_csv at = t->begin;
  if (measure(t) != PN_OK) return;
  t->row = pni_alloc_array(t->s->c, t->columns, sizeof *t->row);
  /* the header's cells stay in t->row until the second pass */
  if (t->row && find_header(t) == PN_OK && next_row(t, &at, &more) == PN_OK && choose_columns(t) == PN_OK) {
    r->names = header_names(t);
    if (!pni_failed(t->s->c) && r->text) r->cells = collect(t);
    if (!pni_failed(t->s->c) && !r->text) r->numbers = convert(t);
  }
  pni_free(t->s->c, t->chosen);
  pni_free(t->s->c, t->row);
}

static pn_status read_text(pni_source *s, const pn_csv_options *o, result *r) {
  char *text;
  size_t n;
  if (pni_source_all(s, &text, &n) != PN_OK) return s->c->status;
  const char *p = text, *end = text + n;
  if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) p += 3; /* a byte order mark */
  table t = {.s = s, .o = o, .begin = {.p = p, .end = end, .line = 1, .column = 1, .c = s->c, .asked = p}};
  t.begin.comment = o->comment;
  if (o->whole_lines)
    while (end > p && end[-1] != '\n' && end[-1] != '\r') end--;
  t.begin.end = end;
  while (p < end && strchr(" \t\r\n", *p) && *p) p++;
  while (o->comment && p < end && *p == o->comment) {
    while (p < end && *p != '\n' && *p != '\r') p++;
    while (p < end && strchr(" \t\r\n", *p) && *p) p++;
  }
  t.begin.delimiter = o->delimiter ? o->delimiter : pni_csv_guess(p, end);
  if (o->decimal == ',' && t.begin.delimiter == ',')
    pni_source_fail(s, PN_DOMAIN, "has a comma between its columns, which cannot be the decimal one");
  else
    read_table(&t, r);
  pni_free(s->c, text);
  return s->c->status;
}

static bool good_delimiter(char ch) {
  bool word = (ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z');
  return !word && !strchr("\"\r\n.+-", ch); /* strchr finds '\0' too, which stands for none */
}

static pn_status check_options(pn_context *c, const pn_csv_options *o) {
  if (o->dtype != PN_FLOAT64 && o->dtype != PN_FLOAT32 && o->dtype != PN_INT64)
    return pni_fail(c, PN_DTYPE, "load_csv: dtype must be float64, float32 or int64, got %s", pn_dtype_name(o->dtype));
  if (o->delimiter && !good_delimiter(o->delimiter))
    return pni_fail(c, PN_DOMAIN, "load_csv: delimiter must not be a quote, line end or part of a number, got '%c'",
                    o->delimiter);
  if (o->comment && !good_delimiter(o->comment))
    return pni_fail(c, PN_DOMAIN, "load_csv: comment must not be a quote, line end or part of a number, got '%c'",
                    o->comment);
  if (o->num_columns > 0 && !o->columns && !o->column_names)
    return pni_fail(c, PN_DOMAIN, "load_csv: columns must be given by position or name");
  if (o->decimal && o->decimal != '.' && o->decimal != ',')
    return pni_fail(c, PN_DOMAIN, "load_csv: decimal must be a point or a comma, got '%c'", o->decimal);
  if (o->first_row < 0 || o->num_rows < 0)
    return pni_fail(c, PN_DOMAIN, "load_csv: rows must not be negative, got %lld from %lld on", (long long)o->num_rows,
                    (long long)o->first_row);
  return PN_OK;
}

static pn_status load(pn_context *c, const char *path, const pn_csv_options *options, pn_names **names, result *r) {
  static const pn_csv_options defaults = {0};
  const pn_csv_options *o = options ? options : &defaults;
  pni_source s;
  if (pni_failed(c) || check_options(c, o) != PN_OK) return c->status;
  if (pni_source_open(c, "load_csv", path, &s) != PN_OK) return c->status;
  pn_status status = read_text(&s, o, r);
  pni_source_close(&s);
  if (status == PN_OK && names)
    *names = r->names;
  else
    pn_names_free(r->names);
  return status;
}

pn_tensor *pn_load_csv(pn_context *c, const char *path, const pn_csv_options *options, pn_names **names) {
  result r = {.text = false};
  load(c, path, options, names, &r);
  return pni_scoped(c, r.numbers);
}

pn_names *pn_load_csv_text(pn_context *c, const char *path, const pn_csv_options *options, pn_names **names) {
  result r = {.text = true};
  load(c, path, options, names, &r);
  return r.cells;
}

/* ---- writing ---- */

/* Quoted where the text would not come back otherwise. */
static pn_status write_name(pni_sink *s, const char *name, char delimiter) {
  bool quote =
      !*name || strpbrk(name, "\"\r\n") || strchr(name, delimiter) || *name == ' ' || name[strlen(name) - 1] == ' ';
  if (!quote) return pni_sink_write(s, name, strlen(name));
  pn_status status = pni_sink_write(s, "\"", 1);
  for (; *name && status == PN_OK; name++) {
    if (*name == '"') status = pni_sink_write(s, "\"", 1);
    if (status == PN_OK) status = pni_sink_write(s, name, 1);
  }
  return status == PN_OK ? pni_sink_write(s, "\"", 1) : status;
}

static size_t element_text(const pn_tensor *t, int64_t i, char buf[40]) {
  const void *p = pni_data(t);
  if (t->dtype == PN_FLOAT64) return pni_number_text(((const double *)p)[i], false, buf);
  if (t->dtype == PN_FLOAT32) return pni_number_text((double)((const float *)p)[i], true, buf);
  int64_t v = t->dtype == PN_INT64 ? ((const int64_t *)p)[i] : ((const uint8_t *)p)[i];
  return pni_integer_text(v, buf);
}

static pn_status write_table(pni_sink *s, const pn_tensor *t, char delimiter, const char *const *names) {
  int64_t rows = t->shape[0], columns = t->ndim == 2 ? t->shape[1] : 1;
  pn_status status = PN_OK;
  for (int64_t k = 0; names && k < columns && status == PN_OK; k++) {
    status = write_name(s, names[k], delimiter);
    if (status == PN_OK) status = pni_sink_write(s, k + 1 < columns ? &delimiter : "\n", 1);
  }
  for (int64_t i = 0; i < rows * columns && status == PN_OK; i++) {
    char buf[48];
    size_t n = element_text(t, i, buf);
    buf[n++] = (i + 1) % columns ? delimiter : '\n';
    status = pni_sink_write(s, buf, n);
  }
  return status;
}

pn_status pn_save_csv(pn_context *c, const char *path, const pn_tensor *t, char delimiter, const char *const *names) {
  if (pni_failed(c)) return c->status;
  if (!t) return pni_fail(c, PN_STATE, "save_csv: tensor must not be NULL");
  if (pni_check_read(c, t, "save_csv")) return c->status;
  if (t->ndim != 1 && t->ndim != 2)
    return pni_fail(c, PN_SHAPE, "save_csv: tensor must have 1 or 2 axes, got %d", t->ndim);
  if (delimiter && !good_delimiter(delimiter))
    return pni_fail(c, PN_DOMAIN, "save_csv: delimiter must not be a quote, line end or part of a number, got '%c'",
                    delimiter);
  pn_tensor *d = pni_contiguous(c, t);
  if (!d) return c->status;
  pni_sink s;
  pn_status status = pni_sink_open(c, "save_csv", path, path && pni_is_gz(path), &s);
  if (status == PN_OK) status = pni_sink_close(&s, write_table(&s, d, delimiter ? delimiter : ',', names));
  pn_tensor_unref(d);
  return status;
}
