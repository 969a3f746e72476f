/*
** option.c: reading the options of a row.
*/
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "option.h"

int pni_option_find(const pni_option *rows, const char *name) {
  for (int i = 0; rows && rows[i].name; i++)
    if (strcmp(rows[i].name, name) == 0) return i;
  return -1;
}

const char *pni_option_word(const char *choices, int k, char buf[32]) {
  const char *p = choices;
  for (; k > 0 && *p; k--) {
    p += strcspn(p, " ");
    p += *p == ' ';
  }
  snprintf(buf, 32, "%.*s", (int)strcspn(p, " "), p);
  return buf;
}

static int place_of(const char *choices, const char *word) {
  char buf[32];
  for (int k = 0; *pni_option_word(choices, k, buf); k++)
    if (strcmp(buf, word) == 0) return k;
  return -1;
}

/* Length of the list without a space at its end. */
static size_t length_of(const char *choices) {
  size_t n = strlen(choices);
  return n && choices[n - 1] == ' ' ? n - 1 : n;
}

static pn_status set_word(pn_context *c, const char *where, const pni_option *o, const char *word, double *v) {
  int k = place_of(o->choices, word);
  if (k < 0)
    return pni_fail(c, PN_DOMAIN, "%s: %s must be one of: %.*s; got '%s'", where, o->name, (int)length_of(o->choices),
                    o->choices, word);
  *v = k;
  return PN_OK;
}

static int kind_of(const pni_option *o) { return o->kind & PNI_OPTION_KIND; }

int pni_option_list(const pni_option *o, double v, int64_t out[3]) {
  if (kind_of(o) == PNI_OPTION_PAIR) return pni_option_pair(v, out), 2;
  out[0] = (int64_t)v;
  if (kind_of(o) != PNI_OPTION_TRIPLE) return 1;
  for (int k = 1; k < 3; k++) {
    out[k] = out[k - 1] / 131072;
    out[k - 1] -= 131072 * out[k];
  }
  return 3;
}

static bool in_range(const pni_option *o, double x) {
  return x <= o->high && (kind_of(o) == PNI_OPTION_OPEN ? x > o->low : x >= o->low) &&
         (kind_of(o) < PNI_OPTION_WHOLE || !(x < ceil(x)));
}

static pn_status set_pair(pn_context *c, const char *where, const pni_option *o, const pn_option *given, double *v) {
  int a = 0, b = 0, end = 0;
  if (given->word && (sscanf(given->word, "%9dx%9d%n", &a, &b, &end) < 2 || given->word[end])) a = b = INT_MIN;
  double first = given->word ? a : given->number, second = given->word ? b : given->number;
  if (in_range(o, first) && in_range(o, second)) return *v = PNI_PAIR_OF(first, second), PN_OK;
  char number[32];
  snprintf(number, sizeof number, "%.14g", given->number);
  return pni_fail(c, PN_DOMAIN, "%s: %s must be a whole number in [%g, %g] or two of them, got %s", where, o->name,
                  o->low, o->high, given->word ? given->word : number);
}

static pn_status set_triple(pn_context *c, const char *where, const pni_option *o, const pn_option *given, double *v) {
  int a[3] = {0}, end = 0;
  if (given->word && (sscanf(given->word, "%9dx%9dx%9d%n", &a[0], &a[1], &a[2], &end) < 3 || given->word[end]))
    a[0] = INT_MIN;
  double x[3];
  for (int k = 0; k < 3; k++) x[k] = given->word ? a[k] : given->number;
  if (in_range(o, x[0]) && in_range(o, x[1]) && in_range(o, x[2])) return *v = PNI_TRIPLE_OF(x[0], x[1], x[2]), PN_OK;
  char number[32];
  snprintf(number, sizeof number, "%.14g", given->number);
  return pni_fail(c, PN_DOMAIN, "%s: %s must be a whole number in [%g, %g] or three of them, got %s", where, o->name,
                  o->low, o->high, given->word ? given->word : number);
}

static pn_status set_number(pn_context *c, const char *where, const pni_option *o, double x, double *v) {
  if (in_range(o, x)) return *v = x, PN_OK;
  if (kind_of(o) == PNI_OPTION_WHOLE)
    return pni_fail(c, PN_DOMAIN, "%s: %s must be a whole number in [%g, %g], got %.14g", where, o->name, o->low,
                    o->high, x);
  return pni_fail(c, PN_DOMAIN, "%s: %s must lie in %c%g, %g], got %g", where, o->name,
                  kind_of(o) == PNI_OPTION_OPEN ? '(' : '[', o->low, o->high, x);
}

pn_status pni_option_set(pn_context *c, const char *where, const pni_option *rows, const pn_option *given, double *v) {
  int i = pni_option_find(rows, given->name);
  if (i < 0) return pni_fail(c, PN_DOMAIN, "%s: unknown option '%s'", where, given->name);
  const pni_option *o = &rows[i];
  if (o->choices && given->word) return set_word(c, where, o, given->word, &v[i]);
  double x = given->number;
  if (o->choices) {
    char buf[32];
    bool flag = strcmp(o->choices, "false true") == 0;
    if (!flag || !(x >= 0 && x <= 1) || !*pni_option_word(o->choices, (int)x, buf))
      return pni_fail(c, PN_DOMAIN, "%s: %s must be one of: %s; got %g", where, o->name, o->choices, x);
    v[i] = x;
    return PN_OK;
  }
  if (kind_of(o) == PNI_OPTION_PAIR) return set_pair(c, where, o, given, &v[i]);
  if (kind_of(o) == PNI_OPTION_TRIPLE) return set_triple(c, where, o, given, &v[i]);
  if (given->word) return pni_fail(c, PN_DOMAIN, "%s: %s must be a number, got '%s'", where, o->name, given->word);
  return set_number(c, where, o, x, &v[i]);
}

static bool is_given(const pn_option *given, const char *name) {
  for (; given && given->name; given++)
    if (strcmp(given->name, name) == 0) return true;
  return false;
}

pn_status pni_options_read(pn_context *c, const char *where, const pni_option *rows, const pn_option *given,
                           double *v) {
  for (int i = 0; rows && rows[i].name; i++) {
    if (i >= PNI_OPTIONS) return pni_fail(c, PN_STATE, "%s: a row has at most %d options", where, PNI_OPTIONS);
    v[i] = rows[i].value;
    if (rows[i].kind & PNI_OPTION_REQUIRED && !is_given(given, rows[i].name))
      return pni_fail(c, PN_DOMAIN, "%s: option %s must be given", where, rows[i].name);
  }
  for (; given && given->name; given++)
    if (pni_option_set(c, where, rows, given, v)) return c->status;
  return c->status;
}
