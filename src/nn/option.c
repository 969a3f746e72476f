/*
** option.c: reading the options of a row.
*/
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
  } else if (given->word) {
    return pni_fail(c, PN_DOMAIN, "%s: %s must be a number, got '%s'", where, o->name, given->word);
  } else if (!(x <= o->high && (o->open ? x > o->low : x >= o->low))) {
    return pni_fail(c, PN_DOMAIN, "%s: %s must lie in %c%g, %g], got %g", where, o->name, o->open ? '(' : '[', o->low,
                    o->high, x);
  }
  v[i] = x;
  return PN_OK;
}

pn_status pni_options_read(pn_context *c, const char *where, const pni_option *rows, const pn_option *given,
                           double *v) {
  for (int i = 0; rows && rows[i].name; i++) {
    if (i >= PNI_OPTIONS) return pni_fail(c, PN_STATE, "%s: a row has at most %d options", where, PNI_OPTIONS);
    v[i] = rows[i].value;
  }
  for (; given && given->name; given++)
    if (pni_option_set(c, where, rows, given, v)) return c->status;
  return c->status;
}
