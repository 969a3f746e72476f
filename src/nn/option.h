/*
** option.h: the options of a row (layer, initialiser, optimiser): names, defaults and legal values in
** one table that construction, messages, help and the manual read.
*/
#ifndef PN_NN_OPTION_H
#define PN_NN_OPTION_H

#include "../base/context.h"

enum { PNI_OPTIONS = 20 };

/* What a number may be: low <= v <= high; low < v <= high; whole and low <= v <= high; a pair of such whole numbers
 * from 0 on, at most 2^24, kept as first + 2^25 second and given as a number, which stands for both, or as the word
 * "3x5"; three of them, at most 2^16, kept as first + 2^17 second + 2^34 third, or the word "3x5x2". */
enum {
  PNI_OPTION_CLOSED,
  PNI_OPTION_OPEN,
  PNI_OPTION_WHOLE,
  PNI_OPTION_PAIR,
  PNI_OPTION_TRIPLE,
  PNI_OPTION_KIND = 7,
  PNI_OPTION_REQUIRED = 8
};
#define PNI_PAIR_OF(a, b)      ((double)(a) + 33554432.0 * (double)(b))
#define PNI_TRIPLE_OF(a, b, d) ((double)(a) + 131072.0 * ((double)(b) + 131072.0 * (double)(d)))

/* One option; a table of them ends with name NULL. */
typedef struct pni_option {
  const char *name;
  const char *choices; /* "local weights": a word, stored as its place; "false true"; NULL: a number */
  double value;        /* default */
  double low, high;    /* legal numbers */
  int kind;            /* PNI_OPTION_CLOSED ..., with PNI_OPTION_REQUIRED: it must be given */
  const char *doc;
} pni_option;

/* Fills v[] with the defaults of `rows`, then with `given` (may be NULL). PN_DOMAIN names the option. */
pn_status pni_options_read(pn_context *c, const char *where, const pni_option *rows, const pn_option *given, double *v);
/* Sets one option. PN_DOMAIN. */
pn_status pni_option_set(pn_context *c, const char *where, const pni_option *rows, const pn_option *given, double *v);
/* The two whole numbers that an option of kind PNI_OPTION_PAIR holds. */
static inline void pni_option_pair(double v, int64_t out[2]) {
  out[1] = (int64_t)(v / 33554432.0);
  out[0] = (int64_t)(v - 33554432.0 * (double)out[1]);
}
/* Its whole numbers, and how many there are: 1, 2 or 3 by its kind. */
int pni_option_list(const pni_option *o, double v, int64_t out[3]);
/* Place of the option `name`, or -1. */
int pni_option_find(const pni_option *rows, const char *name);
/* The word number k of a list of choices, copied into buf. */
const char *pni_option_word(const char *choices, int k, char buf[32]);

#endif
