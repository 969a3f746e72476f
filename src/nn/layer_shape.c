/*
** layer_shape.c: the shapes of a layer's inputs, as its row writes them: "[batch, in, height, width]", "[...,
** size...]".
*/
#include <stdio.h>
#include <string.h>
#include "layer.h"

enum { MOST_WORDS = PNI_LAYER_INPUTS * PN_MAX_DIMS, MOST_AXES = PN_MAX_DIMS + PNI_LAYER_SIZES };

/* A word of the pattern and the size it stands for in this call. */
typedef struct {
  const char *text;
  size_t length;
  int64_t value;
} word;

typedef struct {
  word known[MOST_WORDS];
  int n;
} words;

static bool equals(const char *text, size_t length, const char *name) {
  return strncmp(text, name, length) == 0 && name[length] == '\0';
}

/* Place of the size that the word names, or -1. */
static int size_named(const pn_layer *l, const char *text, size_t length) {
  for (int k = 0; l->type->size[k]; k++)
    if (equals(text, length, l->type->size[k])) return k;
  return -1;
}

/* What the pattern asks of an axis: a size, or -1 for any. A word met before has the size it had. */
static int64_t *find(words *w, const char *text, size_t length) {
  for (int i = 0; i < w->n; i++)
    if (w->known[i].length == length && strncmp(w->known[i].text, text, length) == 0) return &w->known[i].value;
  w->known[w->n] = (word){text, length, -1};
  return &w->known[w->n++].value;
}

/* The axes that a pattern fixes, in order; `open` is how many stand before "...", or -1 without it. */
typedef struct {
  int n, open;
  int64_t *axis[MOST_AXES];
  const char *text[MOST_AXES];
  size_t length[MOST_AXES];
} pattern;

static void read_pattern(const pn_layer *l, words *w, const char *shape, int64_t *sizes, pattern *p) {
  *p = (pattern){.open = -1};
  for (const char *s = shape + 1; *s; s += *s == ']' ? 1 : 2) {
    size_t length = strcspn(s, ",]");
    int k = size_named(l, s, length);
    int last = k < 0 ? k : s[length - 1] == '.' ? l->nsizes : k + 1;
    if (k < 0 && equals(s, length, "...")) {
      p->open = p->n;
    } else if (k < 0) {
      p->text[p->n] = s;
      p->length[p->n] = length;
      p->axis[p->n++] = find(w, s, length);
    }
    for (; k < last; k++) p->axis[p->n++] = &sizes[k];
    s += length;
  }
}

static bool matches(const pattern *p, const pn_tensor *t) {
  if (p->open < 0 ? t->ndim != p->n : t->ndim < p->n) return false;
  for (int i = 0; i < p->n; i++) {
    int at = p->open < 0 || i < p->open ? i : t->ndim - p->n + i;
    if (*p->axis[i] >= 0 && *p->axis[i] != t->shape[at]) return false;
  }
  for (int i = 0; i < p->n; i++) {
    int at = p->open < 0 || i < p->open ? i : t->ndim - p->n + i;
    if (*p->axis[i] < 0) *p->axis[i] = t->shape[at];
  }
  return true;
}

/* "[batch, 3, height, width]" */
static const char *pattern_text(const pattern *p, char *buf, size_t room) {
  size_t n = (size_t)snprintf(buf, room, "[");
  for (int i = 0; i <= p->n; i++) {
    const char *comma = i > 0 ? ", " : "";
    if (i == p->open) {
      n += (size_t)snprintf(buf + n, room - n, "%s...", comma);
      comma = ", ";
    }
    if (i == p->n) break;
    if (*p->axis[i] >= 0)
      n += (size_t)snprintf(buf + n, room - n, "%s%lld", comma, (long long)*p->axis[i]);
    else
      n += (size_t)snprintf(buf + n, room - n, "%s%.*s", comma, (int)p->length[i], p->text[i]);
  }
  snprintf(buf + n, room - n, "]");
  return buf;
}

static int dtype_of(const pn_layer *l) {
  for (int k = 0; k < PNI_LAYER_PARAMS; k++)
    if (l->param[k]) return l->param[k]->dtype;
  for (int k = 0; k < PNI_LAYER_BUFFERS; k++)
    if (l->buffer[k]) return l->buffer[k]->dtype;
  return -1;
}

static pn_status check_dtype(pn_context *c, const pn_layer *l, const char *role, int flags, const pn_tensor *t) {
  bool is_float = t->dtype == PN_FLOAT64 || t->dtype == PN_FLOAT32;
  if (flags & PNI_LAYER_INDEX && is_float && !c->recorder)
    return PN_OK; /* the operation looks whether they are whole */
  int want = flags & PNI_LAYER_ANY ? -1 : flags & PNI_LAYER_WHOLE ? PN_INT64 : dtype_of(l);
  if (want < 0 || want == t->dtype) return PN_OK;
  return pni_fail(c, PN_DTYPE, "%s: %s must be %s, got %s (convert with :to)", l->type->name, role,
                  pn_dtype_name((pn_dtype)want), pn_dtype_name((pn_dtype)t->dtype));
}

const pni_layer_input *pni_layer_inputs(const pni_layer *row, int *n) {
  static const pni_layer_input any[] = {{"x", NULL, 0}};
  for (*n = 0; *n < PNI_LAYER_INPUTS && row->input[*n].name;) ++*n;
  if (*n) return row->input;
  *n = 1;
  return any;
}

const char *pni_layer_role(const pni_layer *row, int k) {
  int n;
  const pni_layer_input *in = pni_layer_inputs(row, &n);
  bool alone = k == 0;
  for (int i = 1; i < n; i++) alone = alone && in[i].flags & PNI_LAYER_MAYBE;
  return alone ? "input" : in[k].name;
}

pn_status pni_layer_check_inputs(pn_context *c, const pn_layer *l, int n, pn_tensor *const *in) {
  int most;
  const pni_layer_input *row = pni_layer_inputs(l->type, &most);
  words w = {.n = 0};
  int64_t sizes[PNI_LAYER_SIZES];
  memcpy(sizes, l->size, sizeof sizes);
  if (n > most) return pni_fail(c, PN_STATE, "%s: inputs must be at most %d, got %d", l->type->name, most, n);
  for (int k = 0; k < most; k++) {
    const pn_tensor *t = k < n ? in[k] : NULL;
    const char *role = pni_layer_role(l->type, k);
    char want[200], got[PNI_SHAPE_TEXT];
    pattern p;
    if (!t && row[k].flags & PNI_LAYER_MAYBE) continue;
    if (!t) return pni_fail(c, PN_STATE, "%s: %s must be a tensor, got NULL", l->type->name, role);
    if (row[k].shape) read_pattern(l, &w, row[k].shape, sizes, &p);
    if (row[k].shape && !matches(&p, t))
      return pni_fail(c, PN_SHAPE, "%s: %s must have shape %s, got %s", l->type->name, role,
                      pattern_text(&p, want, sizeof want), pni_shape_text(t->ndim, t->shape, got));
    if (check_dtype(c, l, role, row[k].flags, t)) return c->status;
  }
  return PN_OK;
}
