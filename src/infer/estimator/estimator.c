/*
** estimator.c: the rows and the one way to call them: inputs sorted by name, shapes held against the letters of
** the row, options read.
*/
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "estimator.h"

static const pni_estimator *const rows[] = {
#define X(name) &pni_estimator_##name,
#include "estimator.def"
#undef X
};

int pni_estimator_count(void) { return (int)(sizeof rows / sizeof rows[0]); }
const pni_estimator *pni_estimator_at(int i) { return i >= 0 && i < pni_estimator_count() ? rows[i] : NULL; }

const pni_estimator *pni_estimator_find(const char *name) {
  for (int i = 0; name && i < pni_estimator_count(); i++)
    if (strcmp(rows[i]->name, name) == 0) return rows[i];
  return NULL;
}

int pn_estimator_count(void) { return pni_estimator_count(); }
const char *pn_estimator_name(int i) { return pni_estimator_at(i) ? rows[i]->name : NULL; }

/* ---- shapes ---- */

/* Sizes of the letters met so far; -1: not yet. */
typedef struct {
  int64_t size[26];
} letters;

/* The letters of `axes` without "...". */
static int count_letters(const char *axes) { return (int)strcspn(axes, "."); }

/* "[K, B]" with the sizes that are known, as "[K, 3]". */
static void say_axes(const char *axes, const letters *l, char buf[96]) {
  int n = snprintf(buf, 96, "[");
  for (int i = 0; i < count_letters(axes); i++) {
    int64_t size = l->size[toupper(axes[i]) - 'A'];
    if (size >= 0)
      n += snprintf(buf + n, (size_t)(96 - n), i ? ", %lld" : "%lld", (long long)size);
    else
      n += snprintf(buf + n, (size_t)(96 - n), i ? ", %c" : "%c", toupper(axes[i]));
  }
  snprintf(buf + n, (size_t)(96 - n), strchr(axes, '.') ? ", ...]" : "]");
}

static pn_status check_ndim(pn_context *c, const char *where, const pni_estimator_input *in, const pn_tensor *t) {
  int most = count_letters(in->axes), least = most - (islower(in->axes[0]) != 0);
  bool open = strchr(in->axes, '.') != NULL;
  char got[PNI_SHAPE_TEXT];
  if (t->ndim >= least && (open || t->ndim <= most)) return PN_OK;
  pni_shape_text(t->ndim, t->shape, got);
  if (open)
    return pni_fail(c, PN_SHAPE, "%s: %s must have at least %d axes, got shape %s", where, in->name, least, got);
  if (least < most)
    return pni_fail(c, PN_SHAPE, "%s: %s must have %d to %d axes, got shape %s", where, in->name, least, most, got);
  return pni_fail(c, PN_SHAPE, "%s: %s must have %d axes, got shape %s", where, in->name, most, got);
}

static pn_status check_sizes(pn_context *c, const char *where, const pni_estimator_input *in, const pn_tensor *t,
                             letters *l) {
  int skip = islower(in->axes[0]) && t->ndim < count_letters(in->axes);
  letters before = *l;
  for (int i = skip; i < count_letters(in->axes); i++) {
    int64_t *size = &l->size[toupper(in->axes[i]) - 'A'], have = t->shape[i - skip];
    char want[96], got[PNI_SHAPE_TEXT];
    if (have == 0)
      return pni_fail(c, PN_SHAPE, "%s: %s must not be empty, got shape %s", where, in->name,
                      pni_shape_text(t->ndim, t->shape, got));
    if (*size < 0) *size = have;
    if (*size == have) continue;
    say_axes(in->axes + skip, &before, want);
    return pni_fail(c, PN_SHAPE, "%s: %s must have shape %s, got %s", where, in->name, want,
                    pni_shape_text(t->ndim, t->shape, got));
  }
  return PN_OK;
}

/* Anything that broadcasts to [K, B] without growing it. */
static pn_status check_broadcast(pn_context *c, const char *where, const pni_estimator_input *in, const pn_tensor *t,
                                 const letters *l) {
  const int64_t full[2] = {l->size['K' - 'A'], l->size['B' - 'A']};
  bool fits = t->ndim <= 2;
  for (int i = 0; i < t->ndim && fits; i++) fits = t->shape[i] == 1 || t->shape[i] == full[2 - t->ndim + i];
  char got[PNI_SHAPE_TEXT];
  if (fits) return PN_OK;
  return pni_fail(c, PN_SHAPE, "%s: %s must broadcast to [%lld, %lld], got shape %s", where, in->name,
                  (long long)full[0], (long long)full[1], pni_shape_text(t->ndim, t->shape, got));
}

static pn_status check_input(pn_context *c, const char *where, const pni_estimator_input *in, const pn_tensor *t,
                             const pn_tensor *first, letters *l) {
  if (!pni_is_float(t))
    return pni_fail(c, PN_DTYPE, "%s: %s must be float64 or float32, got %s", where, in->name,
                    pn_dtype_name((pn_dtype)t->dtype));
  if (t->dtype != first->dtype)
    return pni_fail(c, PN_DTYPE, "%s: tensors must have one dtype, got %s and %s (convert with :to)", where,
                    pn_dtype_name((pn_dtype)first->dtype), pn_dtype_name((pn_dtype)t->dtype));
  if (!*in->axes) return PN_OK;
  if (*in->axes == '?') return check_broadcast(c, where, in, t, l);
  return check_ndim(c, where, in, t) ? c->status : check_sizes(c, where, in, t, l);
}

static pn_status check(pn_context *c, const pni_estimation *e) {
  letters l;
  const pn_tensor *first = NULL;
  for (int i = 0; i < 26; i++) l.size[i] = -1;
  for (int k = 0; k < PNI_ESTIMATOR_INPUTS && e->row->input[k].name && !pni_failed(c); k++) {
    const pni_estimator_input *in = &e->row->input[k];
    if (!e->in[k] && !(in->flags & PNI_INPUT_OPTIONAL))
      pni_fail(c, PN_STATE, "%s: %s must be a tensor, got nothing", e->row->name, in->name);
    if (!e->in[k]) continue;
    if (!first) first = e->in[k];
    if (!(in->flags & PNI_INPUT_LIST)) check_input(c, e->row->name, in, e->in[k], first, &l);
    for (int j = 0; in->flags & PNI_INPUT_LIST && j < e->nlist && !pni_failed(c); j++)
      check_input(c, e->row->name, in, e->list[j], first, &l);
  }
  return c->status;
}

/* ---- calls ---- */

static int find_input(const pni_estimator *row, const char *name) {
  for (int k = 0; k < PNI_ESTIMATOR_INPUTS && row->input[k].name; k++)
    if (strcmp(row->input[k].name, name) == 0) return k;
  return -1;
}

static pn_status place_input(pn_context *c, pni_estimation *e, int i, const char *name, pn_tensor *t) {
  int k = name ? find_input(e->row, name) : i < PNI_ESTIMATOR_INPUTS && e->row->input[i].name ? i : -1;
  if (k < 0) return pni_fail(c, PN_DOMAIN, "%s: has no input '%s'", e->row->name, name ? name : "number out of range");
  if (!t) return pni_fail(c, PN_STATE, "%s: %s must be a tensor, got NULL", e->row->name, e->row->input[k].name);
  bool list = (e->row->input[k].flags & PNI_INPUT_LIST) != 0;
  if (e->in[k] && (!list || e->nlist == PNI_ESTIMATOR_LATENTS))
    return pni_fail(c, PN_STATE, "%s: %s was given too often", e->row->name, e->row->input[k].name);
  if (!e->in[k]) e->in[k] = t;
  if (list) e->list[e->nlist++] = t;
  return PN_OK;
}

pn_tensor *pn_estimate(pn_context *c, const char *estimator, int n, const char *const *names, pn_tensor *const *values,
                       const pn_option *options, pn_tensor **second) {
  if (!PNI_GIVEN(c, "estimate", estimator) || !PNI_LISTED(c, "estimate", n, values)) return NULL;
  pni_estimation e = {.row = pni_estimator_find(estimator)};
  if (!e.row) {
    pni_fail(c, PN_MISSING, "estimate: there is no estimator '%s'", estimator);
    return NULL;
  }
  for (int i = 0; i < n; i++)
    if (place_input(c, &e, i, names ? names[i] : NULL, values[i])) return NULL;
  if (check(c, &e) || pni_options_read(c, e.row->name, e.row->options, options, e.option)) return NULL;
  pn_tensor *t = e.row->build(c, &e);
  if (t && second) *second = e.second;
  return t;
}
