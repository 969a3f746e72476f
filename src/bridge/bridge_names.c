/*
** bridge_names.c: what hosts call the numbers of a model, and in which order they want them: variable by variable, in
** each the first index fastest, where the library has the last one fastest.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bridge.h"

/* ---- order ---- */

void bridge_from_host(const int64_t *order, int64_t n, const double *theta, double *z) {
  if (!order) memcpy(z, theta, (size_t)n * sizeof *z);
  for (int64_t k = 0; order && k < n; k++) z[order[k]] = theta[k];
}

void bridge_to_host(const int64_t *order, int64_t n, const double *z, double *theta) {
  if (!order) memcpy(theta, z, (size_t)n * sizeof *z);
  for (int64_t k = 0; order && k < n; k++) theta[k] = z[order[k]];
}

/* ---- names ---- */

char *bridge_host_name(const char *name) {
  size_t n = strlen(name);
  char *to = malloc(n + 1);
  for (size_t k = 0; to && k <= n; k++) {
    char ch = name[k];
    bool plain = (ch >= 'A' && ch <= 'Z') || (ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9');
    to[k] = plain || !ch ? ch : '_';
  }
  return to;
}

/* One variable's names behind t, and its places, from `first` on, into order. */
static void add_variable(bridge_text *t, const char *name, int ndim, const int64_t *shape, int64_t first,
                         int64_t *order) {
  int64_t size = 1, index[PN_MAX_DIMS] = {0};
  for (int d = 0; d < ndim; d++) size *= shape[d];
  for (int64_t k = 0; k < size; k++) {
    int64_t place = 0;
    bridge_append(t, t->length ? ",%s" : "%s", name);
    for (int d = 0; d < ndim; d++) {
      bridge_append(t, ".%lld", (long long)index[d] + 1);
      place = place * shape[d] + index[d];
    }
    order[first + k] = first + place;
    for (int d = 0; d < ndim && ++index[d] == shape[d]; d++) index[d] = 0;
  }
}

/* The order, or NULL and freed where it changes nothing. */
static int64_t *needed(int64_t *order, int64_t n) {
  for (int64_t k = 0; k < n; k++)
    if (order[k] != k) return order;
  free(order);
  return NULL;
}

/* The names of the variables that are deterministic, or that are not, behind t. */
static void name_values(bridge_text *t, const pn_target *target, int deterministic, char *const *names,
                        int64_t *order) {
  bridge_append(t, "%s", "");
  for (int i = 0; i < pn_target_num_variables(target); i++) {
    const pn_variable *v = pn_target_variable(target, i);
    if (v->deterministic == deterministic) add_variable(t, names[i], v->ndim, v->shape, v->first, order);
  }
}

static char *name_unc(const bs_model *m, const double *shapes, int64_t row, char *const *names, int64_t *order) {
  const pn_target *t = m->master[WITH_JACOBIAN];
  bridge_text text = {0};
  int64_t first = 0;
  bridge_append(&text, "%s", "");
  for (int i = 0; i < pn_target_num_variables(t) && !pn_target_variable(t, i)->deterministic; i++, shapes += row) {
    int64_t shape[PN_MAX_DIMS], size = 1;
    for (int d = 0; d < (int)shapes[0]; d++) size *= shape[d] = (int64_t)shapes[d + 1];
    add_variable(&text, names[i], (int)shapes[0], shape, first, order);
    first += size;
  }
  return text.text;
}

/* Two variables must not be called alike: hosts could not tell them apart. */
static int check_names(char *const *names, int count, char **error, const char *where) {
  for (int i = 0; i < count; i++) {
    if (!names[i]) return bridge_fail(error, where, "not enough memory for the names");
    for (int k = 0; k < i; k++)
      if (strcmp(names[i], names[k]) == 0)
        return bridge_fail(error, where, "two variables would be called '%s'", names[i]);
  }
  return 0;
}

static int name_with(bs_model *m, const double *shapes, int64_t row, char *const *names, char **error,
                     const char *where) {
  m->unc_order = malloc(((size_t)m->n + 1) * sizeof *m->unc_order);
  m->order = malloc(((size_t)m->values + 1) * sizeof *m->order);
  if (m->unc_order && m->order) {
    bridge_text text = {0}, all = {0};
    name_values(&text, m->master[WITH_JACOBIAN], 0, names, m->order);
    if (text.text) bridge_append(&all, "%s", text.text);
    name_values(&all, m->master[WITH_JACOBIAN], 1, names, m->order);
    m->names = text.text;
    m->all_names = all.text;
    m->unc_names = name_unc(m, shapes, row, names, m->unc_order);
  }
  if (!m->names || !m->all_names || !m->unc_names) return bridge_fail(error, where, "not enough memory for the names");
  m->unc_order = needed(m->unc_order, m->n);
  m->order = needed(m->order, m->values);
  return 0;
}

int bridge_name_all(bs_model *m, const double *shapes, int64_t row, char **error, const char *where) {
  const pn_target *t = m->master[WITH_JACOBIAN];
  int count = pn_target_num_variables(t);
  char **names = calloc((size_t)count + 1, sizeof *names);
  if (!names) return bridge_fail(error, where, "not enough memory for the names");
  for (int i = 0; i < count; i++) names[i] = bridge_host_name(pn_target_variable(t, i)->name);
  int failed = check_names(names, count, error, where) || name_with(m, shapes, row, names, error, where) ? -1 : 0;
  for (int i = 0; i < count; i++) free(names[i]);
  free(names);
  return failed;
}
