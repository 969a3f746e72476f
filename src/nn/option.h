/*
** option.h: the options of a row (layer, initialiser, optimiser): names, defaults and legal values in
** one table that construction, messages, help and the README read.
*/
#ifndef PN_NN_OPTION_H
#define PN_NN_OPTION_H

#include "../base/context.h"

enum { PNI_OPTIONS = 10 };

/* One option; a table of them ends with name NULL. */
typedef struct pni_option {
  const char *name;
  const char *choices; /* "local weights": a word, stored as its place; "false true"; NULL: a number */
  double value;        /* default */
  double low, high;    /* legal numbers: low <= v <= high, or low < v if `open` */
  bool open;
  const char *doc;
} pni_option;

/* Fills v[] with the defaults of `rows`, then with `given` (may be NULL). PN_DOMAIN names the option. */
pn_status pni_options_read(pn_context *c, const char *where, const pni_option *rows, const pn_option *given, double *v);
/* Sets one option. PN_DOMAIN. */
pn_status pni_option_set(pn_context *c, const char *where, const pni_option *rows, const pn_option *given, double *v);
/* Place of the option `name`, or -1. */
int pni_option_find(const pni_option *rows, const char *name);
/* The word number k of a list of choices, copied into buf. */
const char *pni_option_word(const char *choices, int k, char buf[32]);

#endif
