/*
** constraint.h: the set a parameter or a value must lie in. One const descriptor each; messages, the
** check of parameters and the support of densities all read it.
*/
#ifndef PN_DISTRIBUTION_CONSTRAINT_H
#define PN_DISTRIBUTION_CONSTRAINT_H

#include "../tensor/tensor.h"

/* A set of numbers that whole arrays are tested against. In float32 the ends are the nearest numbers inside. */
typedef enum {
  PNI_FINITE,
  PNI_CLOSED,
  PNI_ABOVE,
  PNI_ENDS,
  PNI_WHOLE
} pni_shape_of_set; /* all; [from, to]; (from, to]; {from, to}; whole numbers of [from, to] */
typedef struct pni_numbers {
  pni_shape_of_set shape;
  double from, to;
} pni_numbers;

/* A test that all vectors of a tensor pass at once: every element in [low, high] and whole if `whole`, and every sum 1
 * to `sum` (0: exactly, below 0: any). Vectors that pass are members; of those that do not nothing is known. The ends
 * are numbers of float32. */
typedef struct pni_plain {
  double low, high;
  bool whole;
  double sum;
} pni_plain;

typedef struct pni_constraint {
  const char *name; /* "positive" */
  const char *must; /* completes "must be ...", "positive" */
  int rank;         /* trailing axes that one member of the set takes */
  bool discrete;
  double low, high; /* ends of a set of numbers that is an interval; both 0 otherwise */
  /* Is this one a member? `x` holds it row-major as doubles and may be overwritten if rank > 0;
   * `size` its sizes. NaN never is. */
  bool (*holds)(double *x, const int64_t *size);
  const pni_numbers *numbers; /* the same set; NULL: members are tested one by one */
  const pni_plain *plain;     /* of vectors: what most members pass; NULL: they are tested one by one */
  /* Writes a member; NULL: every element 1. */
  void (*member)(double *x, const int64_t *size);
} pni_constraint;

/* pi, and pi in float32, which is above it and must count as an angle too. */
#define PNI_ANGLE_END   3.14159265358979323846
#define PNI_ANGLE_HOLDS 3.1415927410125733

/* PN_OK if every member of x (any dtype, at least k->rank axes) satisfies k; else PN_DOMAIN with
 * "<where>: <role> must be <what>, got <value>". */
pn_status pni_constraint_require(pn_context *c, const pni_constraint *k, const char *where, const char *role,
                                 const pn_tensor *x);
/* bool tensor of x's shape without the last k->rank axes. Scoped, no graph. */
pn_tensor *pni_constraint_mask(pn_context *c, const pni_constraint *k, const pn_tensor *x);
/* Is every element of the floats x a member of a set of numbers? Looked at in one pass; false also where nothing is
 * known of whole arrays or x is not contiguous. */
bool pni_constraint_all(const pni_constraint *k, const pn_tensor *x);
/* One member with the given sizes (k->rank of them). Scoped. */
pn_tensor *pni_constraint_member(pn_context *c, const pni_constraint *k, pn_dtype dtype, const int64_t *size);

int pni_constraint_count(void);
const pni_constraint *pni_constraint_at(int i);

/* For how many of n pairs x < y. */
int64_t pni_count_below(const double *x, const double *y, int64_t n);

/* How many of n numbers at p, float64 or float32, are no members; mask (may be NULL) receives one byte each. */
int64_t pni_scan(const pni_numbers *set, pn_dtype dtype, const void *p, int64_t n, uint8_t *mask);

/* constraint_rows.c: do all `rows` vectors of n elements, float64 or float32, pass? */
bool pni_all_plain(const pni_plain *t, int dtype, const void *x, int64_t rows, int64_t n);
extern const pni_plain pni_plain_real, pni_plain_positive, pni_plain_simplex, pni_plain_open_simplex, pni_plain_one_hot,
    pni_plain_counts;

#define X(name) extern const pni_constraint pni_constraint_##name;
#include "constraint.def"
#undef X

#endif
