/*
** csv.h: the two halves of reading CSV: cells and numbers (csv_cell.c), tables (csv.c).
*/
#ifndef PN_FILE_CSV_H
#define PN_FILE_CSV_H

#include "file.h"

/* A place in the text of a CSV file. */
typedef struct pni_csv {
  const char *p, *end;
  char delimiter;
  char comment;   /* lines that begin with it are passed over; 0: none are */
  int64_t line;   /* 1-based, of the cell to come */
  int64_t column; /* 1-based */
  pn_context *c;  /* asked now and then whether to go on; NULL: nobody is */
  const char *asked;
} pni_csv;

typedef struct pni_cell {
  const char *text; /* between the quotes, for a quoted cell; doubled quotes stand as they are */
  size_t length;
  bool quoted, last; /* last: the line ends here */
  int64_t line, column;
} pni_cell;

enum { PNI_CELL_OK, PNI_CELL_END, PNI_CELL_OPEN_QUOTE, PNI_CELL_AFTER_QUOTE };

/* The next cell; PNI_CELL_END after the last line (or with a failure of the context when it was cancelled), or what is
 * wrong with the cell's quotes. Lines of blanks are passed over. */
int pni_csv_next(pni_csv *s, pni_cell *cell);
/* The delimiter that the first lines of a text use. */
char pni_csv_guess(const char *text, const char *end);
/* Is the cell a missing value? `more` is one more such text, or NULL. */
bool pni_cell_missing(const pni_cell *cell, const char *more);
/* The cell as a number, in any locale. false if it is none. */
bool pni_cell_number(const pni_cell *cell, double *v);
/* The cell as a whole number. */
bool pni_cell_integer(const pni_cell *cell, int64_t *v);
/* The shortest text that reads back as v (of a float32 if `single`); returns its length. */
size_t pni_number_text(double v, bool single, char buf[40]);
/* A whole number as text; returns its length. */
size_t pni_integer_text(int64_t v, char buf[40]);

#endif
