/*
** bridge_data.c: JSON objects of numbers and arrays, as hosts give data and starts, into tables of a script.
*/
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif
#include "bridge.h"

typedef struct {
  const char *text, *at;
  char **error;
  const char *where;
  const char *member; /* whose value is read; NULL: none */
} reader;

/* ---- what is wrong ---- */

static int bad(reader *r, const char *what) {
  long long byte = (long long)(r->at - r->text) + 1;
  if (r->member) return bridge_fail(r->error, r->where, "JSON: '%s' %s (at byte %lld)", r->member, what, byte);
  return bridge_fail(r->error, r->where, "JSON: %s (at byte %lld)", what, byte);
}

static int lacking(reader *r) { return bridge_fail(r->error, r->where, "not enough memory for the data"); }

/* ---- words ---- */

static char peek(reader *r) {
  r->at += strspn(r->at, " \t\r\n");
  return *r->at;
}

static bool word(reader *r, const char *text) {
  size_t n = strlen(text);
  if (strncmp(r->at, text, n) != 0) return false;
  r->at += n;
  return true;
}

static size_t append_utf8(char *to, unsigned v) {
  if (v < 0x80) return to[0] = (char)v, 1;
  if (v < 0x800) return to[0] = (char)(0xc0 | v >> 6), to[1] = (char)(0x80 | (v & 63)), 2;
  to[0] = (char)(0xe0 | v >> 12);
  to[1] = (char)(0x80 | ((v >> 6) & 63));
  to[2] = (char)(0x80 | (v & 63));
  return 3;
}

/* What stands behind a backslash, at most three bytes; 0: nothing that may. */
static size_t escaped(reader *r, char *to) {
  static const char letter[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
  const char *found = *r->at ? strchr(letter, *r->at) : NULL;
  if (found) return r->at++, to[0] = meant[found - letter], 1;
  if (*r->at != 'u' || strspn(r->at + 1, "0123456789abcdefABCDEF") < 4) return 0;
  char digits[5] = {r->at[1], r->at[2], r->at[3], r->at[4], 0};
  unsigned v = (unsigned)strtoul(digits, NULL, 16);
  r->at += 5;
  return v == 0 || (v >= 0xd800 && v < 0xe000) ? 0 : append_utf8(to, v);
}

/* A text, to be freed; NULL with a message. */
static char *read_text(reader *r) {
  if (peek(r) != '"') return bad(r, "a text in quotation marks is missing"), NULL;
  char *text = malloc(strlen(++r->at) + 1), *to = text; /* no longer than it is written */
  if (!text) return lacking(r), NULL;
  while (*r->at && *r->at != '"') {
    size_t n = 1;
    if (*r->at == '\\')
      r->at++, n = escaped(r, to);
    else
      *to = *r->at++;
    if (n == 0) return free(text), bad(r, "has a character that cannot be read"), NULL;
    to += n;
  }
  if (!*r->at) return free(text), bad(r, "has no end"), NULL;
  r->at++;
  *to = 0;
  char *right = realloc(text, (size_t)(to - text) + 1);
  return right ? right : text;
}

/* ---- numbers ---- */

/* Bytes of a number as JSON writes it, or 0. */
static size_t number_length(const char *s) {
  static const char digits[] = "0123456789";
  size_t n = s[0] == '-', k = strspn(s + n, digits);
  if (k == 0 || (k > 1 && s[n] == '0')) return 0;
  n += k;
  if (s[n] == '.') {
    k = strspn(s + n + 1, digits);
    if (k == 0) return 0;
    n += 1 + k;
  }
  if (s[n] == 'e' || s[n] == 'E') {
    size_t sign = s[n + 1] == '+' || s[n + 1] == '-';
    k = strspn(s + n + 1 + sign, digits);
    if (k == 0) return 0;
    n += 1 + sign + k;
  }
  return n;
}

/* The words for numbers that JSON has no way to write, within quotation marks or without. */
static bool special(reader *r, double *v) {
  static const struct {
    const char *text;
    double value;
  } words[] = {{"NaN", NAN},        {"Infinity", INFINITY}, {"-Infinity", -INFINITY}, {"+Infinity", INFINITY},
               {"+Inf", INFINITY},  {"-Inf", -INFINITY},    {"Inf", INFINITY},        {"+inf", INFINITY},
               {"-inf", -INFINITY}, {"inf", INFINITY}};
  const char *begin = r->at;
  bool quoted = *begin == '"';
  for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
    r->at = begin + quoted;
    if (word(r, words[k].text) && (!quoted || *r->at++ == '"')) return *v = words[k].value, true;
  }
  r->at = begin;
  return false;
}

/* 0, 1 if no number comes. */
static int read_number(reader *r, double *v) {
  peek(r);
  size_t n = number_length(r->at);
  if (n) return *v = strtod(r->at, NULL), r->at += n, 0;
  if (special(r, v)) return 0;
  if (word(r, "true")) return *v = 1, 0;
  if (word(r, "false")) return *v = 0, 0;
  if (word(r, "null")) return *v = NAN, 0;
  return 1;
}

static int keep(reader *r, bridge_member *m, double v) {
  if (m->count == m->room) {
    size_t room = 2 * m->room + 16;
    double *larger = realloc(m->data, room * sizeof v);
    if (!larger) return lacking(r);
    m->data = larger;
    m->room = room;
  }
  m->data[m->count++] = v;
  return 0;
}

/* ---- arrays ---- */

/* A list at depth `depth` (the outermost: 0); *deepest is where the numbers stand, -1 as long as none was seen. */
static int read_list(reader *r, bridge_member *m, int depth, int *deepest) {
  if (depth == PN_MAX_DIMS) return bad(r, "is nested too deeply");
  int64_t count = 0;
  double v;
  r->at++;
  if (m->ndim < depth + 1) m->ndim = depth + 1, m->shape[depth] = -1;
  bool empty = peek(r) == ']';
  while (!empty) {
    if (peek(r) == '[') {
      if (*deepest == depth) return bad(r, "has numbers beside lists");
      if (read_list(r, m, depth + 1, deepest)) return -1;
    } else {
      if (read_number(r, &v)) return bad(r, "must hold numbers");
      if (*deepest < 0) *deepest = depth;
      if (*deepest != depth || m->ndim > depth + 1) return bad(r, "has numbers beside lists");
      if (keep(r, m, v)) return -1;
    }
    count++;
    if (peek(r) == ']') break;
    if (*r->at++ != ',') return bad(r, "lacks a comma or an end");
  }
  r->at++;
  if (m->shape[depth] >= 0 && m->shape[depth] != count) return bad(r, "has rows of unequal length");
  m->shape[depth] = count;
  return 0;
}

/* ---- objects ---- */

static int read_value(reader *r, bridge_member *m) {
  double v;
  int deepest = -1;
  if (peek(r) == '[') return read_list(r, m, 0, &deepest);
  if (*r->at == '{') return bad(r, "is an object, which is no data");
  int none = read_number(r, &v);
  if (none && *r->at == '"') return (m->text = read_text(r)) ? 0 : -1;
  return none ? bad(r, "has a value that cannot be read") : keep(r, m, v);
}

static int read_member(reader *r, bridge_object *o) {
  if (o->count == o->room) {
    size_t room = 2 * o->room + 8;
    bridge_member *larger = realloc(o->list, room * sizeof *larger);
    if (!larger) return lacking(r);
    o->list = larger;
    o->room = room;
  }
  char *name = read_text(r);
  if (!name) return -1;
  if (bridge_find(o, name)) {
    bridge_fail(r->error, r->where, "JSON: '%s' stands there twice", name);
    return free(name), -1;
  }
  bridge_member *m = &o->list[o->count++];
  *m = (bridge_member){.name = name};
  r->member = name;
  if (peek(r) != ':') return bad(r, "has no colon behind its name");
  r->at++;
  int failed = read_value(r, m);
  r->member = NULL;
  return failed;
}

static int read_object(const char *json, bridge_object *o, char **error, const char *where) {
  reader r = {.text = json, .at = json, .error = error, .where = where};
  if (peek(&r) != '{') return bad(&r, "data must be an object, {\"name\": value, ...}");
  r.at++;
  bool empty = peek(&r) == '}';
  while (!empty) {
    if (read_member(&r, o)) return -1;
    if (peek(&r) == '}') break;
    if (*r.at++ != ',') return bad(&r, "a comma or the end of the object is missing");
  }
  r.at++;
  return peek(&r) ? bad(&r, "something follows the object") : 0;
}

int bridge_read_json(const char *json, bridge_object *o, char **error, const char *where) {
  *o = (bridge_object){0};
  if (!json || !*json) return 0;
  locale_t point = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0); /* numbers have a point, whatever the host speaks */
  if (!point) return bridge_fail(error, where, "not enough memory for the data");
  locale_t before = uselocale(point);
  int failed = read_object(json, o, error, where);
  uselocale(before);
  freelocale(point);
  return failed;
}

void bridge_free_object(bridge_object *o) {
  for (size_t k = 0; k < o->count; k++) {
    free(o->list[k].name);
    free(o->list[k].text);
    free(o->list[k].data);
  }
  free(o->list);
  *o = (bridge_object){0};
}

const bridge_member *bridge_find(const bridge_object *o, const char *name) {
  for (size_t k = 0; k < o->count; k++)
    if (strcmp(o->list[k].name, name) == 0) return &o->list[k];
  return NULL;
}

/* ---- files, scripts ---- */

char *bridge_read_file(const char *path, char **error, const char *where) {
  FILE *file = fopen(path, "rb");
  bridge_text t = {0};
  char piece[4096];
  size_t n;
  if (!file) return bridge_fail(error, where, "file '%s': %s", path, strerror(errno)), NULL;
  bridge_append(&t, "%s", "");
  while ((n = fread(piece, 1, sizeof piece, file)) > 0) bridge_append(&t, "%.*s", (int)n, piece);
  bool failed = ferror(file) != 0;
  fclose(file);
  if (failed || !t.text) {
    free(t.text);
    return bridge_fail(error, where, "file '%s' cannot be read%s", path, failed ? "" : ": not enough memory"), NULL;
  }
  return t.text;
}

static int give(pn_runtime *rt, const char *table, const bridge_member *m, char **error, const char *where) {
  char path[256];
  if (m->text) return bridge_fail(error, where, "JSON: '%s' is a text: data are numbers and arrays of them", m->name);
  if (strspn(m->name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789") != strlen(m->name) ||
      (size_t)snprintf(path, sizeof path, "%s.%s", table, m->name) >= sizeof path)
    return bridge_fail(error, where, "JSON: '%s' is no name: letters, digits and underscores", m->name);
  pn_array a = {.dtype = PN_FLOAT64, .ndim = m->ndim, .data = m->data};
  double none;
  if (!m->data) a.data = &none;
  memcpy(a.shape, m->shape, sizeof a.shape);
  pn_status s = m->ndim ? pn_runtime_set_array(rt, path, &a) : pn_runtime_set_number(rt, path, m->data[0]);
  return s == PN_OK ? 0 : bridge_fail(error, where, "'%s': %s", m->name, pn_runtime_message(rt));
}

int bridge_give(pn_runtime *rt, const char *table, const bridge_object *o, const char *leave_out, char **error,
                const char *where) {
  char text[64];
  snprintf(text, sizeof text, "%s = {}", table);
  if (pn_runtime_run_string(rt, text, (size_t)-1, "bridge") != PN_OK)
    return bridge_fail(error, where, "%s", pn_runtime_message(rt));
  for (size_t k = 0; k < o->count; k++)
    if (!leave_out || strcmp(o->list[k].name, leave_out) != 0)
      if (give(rt, table, &o->list[k], error, where)) return -1;
  return 0;
}
