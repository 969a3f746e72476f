/*
** bridge.h: what the files behind penumbra_bridge.h share. A model keeps its script's runtime and, in a context that
** evaluates nothing, a master of each density; callers borrow evaluators, each with a context and copies of its own.
*/
#ifndef PN_BRIDGE_BRIDGE_H
#define PN_BRIDGE_BRIDGE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include "../penumbra.h"
#include "penumbra_bridge.h"

/* Of the densities of a model. */
enum { WITHOUT_JACOBIAN, WITH_JACOBIAN, DENSITIES };

/* What one call works with: room for theta and its gradient in the library's order, both in the host's, all values. */
typedef struct bridge_evaluator {
  struct bridge_evaluator *next;
  pn_context *c;
  pn_target *target[DENSITIES];
  double *z, *gradient, *theta, *piece, *values;
} bridge_evaluator;

/* A text that grows; text is NULL when memory was lacking. */
typedef struct bridge_text {
  char *text;
  size_t length, room;
} bridge_text;

struct bs_model {
  pthread_mutex_t lock; /* of everything below it */
  pn_runtime *runtime;
  pn_context *masters;
  pn_target *master[DENSITIES];
  bridge_evaluator *idle;
  int64_t n, params, others, values; /* real numbers; values of latent variables, of deterministic ones, of all */
  bool draws;                        /* deterministic variables are generated quantities */
  int64_t *unc_order, *order;        /* place of the k-th number in the library's order; NULL: the same */
  char *name, *info, *unc_names, *names, *all_names; /* of parameters; of deterministic variables, too */
};

struct bs_rng {
  uint64_t seed, calls;
};

/* ---- bridge_message.c ---- */

/* Puts "<where>: ..." into *error, if there is one. Returns -1. */
int bridge_fail(char **error, const char *where, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* -1 with a message that names the first of the names, "a b c", whose argument is NULL; else 0. */
int bridge_check(char **error, const char *where, const char *names, int n, const void *const *arguments);
/* Where the prints of a runtime go: a pn_output. */
void bridge_print(void *data, const char *text, size_t length);
/* Appends as printf does. */
void bridge_append(bridge_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- bridge_data.c ---- */

/* A member of a JSON object: a number (ndim 0), an array, or a text. */
typedef struct bridge_member {
  char *name, *text; /* text NULL: numbers */
  int ndim;
  int64_t shape[PN_MAX_DIMS];
  double *data;
  size_t count, room;
} bridge_member;

typedef struct bridge_object {
  bridge_member *list;
  size_t count, room;
} bridge_object;

/* The members of the object in `json` ("" and NULL: none), to be freed whatever it returns: 0, or -1 with a message. */
int bridge_read_json(const char *json, bridge_object *o, char **error, const char *where);
/* All of a file, to be freed, or NULL with a message. */
char *bridge_read_file(const char *path, char **error, const char *where);
void bridge_free_object(bridge_object *o);
/* The member of that name, or NULL. */
const bridge_member *bridge_find(const bridge_object *o, const char *name);
/* Makes a table of the numbers in the object: the global `table`, but what is called `leave_out`. */
int bridge_give(pn_runtime *rt, const char *table, const bridge_object *o, const char *leave_out, char **error,
                const char *where);

/* ---- bridge_names.c ---- */

/* The names and orders of a model whose master is there; shapes: {ndim, sizes...} of the real numbers of each latent
 * variable, `row` numbers each. */
int bridge_name_all(bs_model *m, const double *shapes, int64_t row, char **error, const char *where);
/* `name` as hosts are told it, to be freed; NULL if memory is lacking. */
char *bridge_host_name(const char *name);
/* Numbers of the library from those of a host, and back; order may be NULL. */
void bridge_from_host(const int64_t *order, int64_t n, const double *theta, double *z);
void bridge_to_host(const int64_t *order, int64_t n, const double *z, double *theta);

/* ---- bridge_density.c ---- */

/* An evaluator with that density, to be returned; NULL with a message. */
bridge_evaluator *bridge_borrow(bs_model *m, int density, char **error, const char *where);
void bridge_return(bs_model *m, bridge_evaluator *e);
void bridge_free_evaluators(bs_model *m);
/* Log density and gradient at theta, both in the host's order. */
int bridge_evaluate(const bs_model *m, bridge_evaluator *e, int density, const double *theta, double *lp,
                    double *gradient, char **error, const char *where);

#endif
