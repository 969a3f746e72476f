/*
** tensor_print.c: a tensor as text, the way NumPy shows arrays: one column width for all, scientific only
** where plain digits would mislead, corners of big ones, rows that are longer than a line of a terminal go on in the
** next; a last line names dtype and shape.
*/
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "../penumbra_lua.h"

enum { EDGE = 3, WHOLE = 1000, WIDTH = 32, LINE = 79 };

/* How elements are written: decided by one look at all that will be shown. */
typedef struct {
  lua_State *L;
  pni_watch watch;
  const pn_tensor *t;
  bool corners; /* leave out the middle of long axes */
  bool scientific;
  int decimals, width;
} style;

static double element(const pn_tensor *t, int64_t offset) {
  switch (t->dtype) {
  case PN_FLOAT64: return ((const double *)t->storage->data)[offset];
  case PN_FLOAT32: return (double)((const float *)t->storage->data)[offset];
  default: return 0;
  }
}

static void write_element(const style *s, int64_t offset, char out[WIDTH]) {
  const pn_tensor *t = s->t;
  if (t->dtype == PN_BOOL) {
    strcpy(out, ((const uint8_t *)t->storage->data)[offset] ? "true" : "false");
  } else if (t->dtype == PN_INT64) {
    snprintf(out, WIDTH, "%lld", (long long)((const int64_t *)t->storage->data)[offset]);
  } else {
    double v = element(t, offset);
    if (!isfinite(v))
      strcpy(out, isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
    else
      snprintf(out, WIDTH, s->scientific ? "%.*e" : "%.*f", s->decimals, v);
  }
}

/* Corners of many axes are many elements, each of which takes a while. */
static void go_on(style *s) {
  enum { STEPS = 300 };
  if (pni_watch_check(&s->watch, STEPS)) pni_raise(s->L, s->watch.c);
}

/* Calls visit for every element that is shown. */
static void each(style *s, int axis, int64_t offset, void (*visit)(style *, int64_t)) {
  const pn_tensor *t = s->t;
  if (axis == t->ndim) {
    visit(s, offset);
    go_on(s);
    return;
  }
  int64_t n = t->shape[axis];
  for (int64_t i = 0; i < n; i++) {
    if (s->corners && n > 2 * EDGE && i == EDGE) i = n - EDGE;
    each(s, axis + 1, offset + i * t->stride[axis], visit);
  }
}

/* Needs so many decimals, up to 4, to be told apart from its rounding (relative 1e-9)? */
static void look_decimals(style *s, int64_t offset) {
  double v = element(s->t, offset);
  if (!isfinite(v)) return;
  double size = fabs(v);
  if (size >= 1e7 || (size > 0 && size < 1e-4)) s->scientific = true;
  for (double scale = pow(10, s->decimals); s->decimals < 4; s->decimals++, scale *= 10)
    if (fabs(round(v * scale) / scale - v) <= 1e-9 * size) break;
}

static void look_width(style *s, int64_t offset) {
  char text[WIDTH];
  write_element(s, offset, text);
  int n = (int)strlen(text);
  if (n > s->width) s->width = n;
}

/* How many elements of the last axis fit on a line, with the brackets before and behind them. */
static int64_t per_line(const style *s) {
  int64_t room = (LINE - 2 * s->t->ndim + 1) / (s->width + 1);
  return room > 0 ? room : 1;
}

static void add_axis(luaL_Buffer *b, style *s, int axis, int64_t offset) {
  const pn_tensor *t = s->t;
  if (axis == t->ndim) {
    char text[WIDTH];
    write_element(s, offset, text);
    for (int k = (int)strlen(text); k < s->width; k++) luaL_addchar(b, ' ');
    luaL_addstring(b, text);
    go_on(s);
    return;
  }
  int64_t n = t->shape[axis];
  bool last = axis == t->ndim - 1;
  int64_t shown = 0, room = per_line(s);
  luaL_addchar(b, '[');
  for (int64_t i = 0; i < n; i++, shown++) {
    bool full = last && i > 0 && shown % room == 0;
    if (i > 0 && last && !full) luaL_addchar(b, ' ');
    if (i > 0 && (!last || full)) {
      for (int k = axis; k < t->ndim - 1 || (full && k == axis); k++) luaL_addchar(b, '\n');
      for (int k = 0; k <= axis; k++) luaL_addchar(b, ' ');
    }
    if (s->corners && n > 2 * EDGE && i == EDGE) {
      luaL_addstring(b, "...");
      i = n - EDGE - 1;
      continue;
    }
    add_axis(b, s, axis + 1, offset + i * t->stride[axis]);
  }
  luaL_addchar(b, ']');
}

void pni_push_text(lua_State *L, const pn_tensor *t) {
  style s = {.L = L, .watch = {.c = pni_lua_context(L)}, .t = t, .corners = t->numel > WHOLE};
  if (pni_is_float(t) && t->numel) each(&s, 0, t->offset, look_decimals);
  if (s.scientific) s.decimals = 4;
  if (t->numel && t->ndim) each(&s, 0, t->offset, look_width);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  if (t->numel)
    add_axis(&b, &s, 0, t->offset);
  else
    luaL_addstring(&b, "[]");
  char shape[PNI_SHAPE_TEXT];
  luaL_addstring(&b, t->ndim ? "\n" : "  ");
  luaL_addstring(&b, pn_dtype_name((pn_dtype)t->dtype));
  luaL_addchar(&b, ' ');
  luaL_addstring(&b, pni_shape_text(t->ndim, t->shape, shape));
  if (t->flags & PNI_PARAM)
    luaL_addstring(&b, " parameter");
  else if (t->op)
    luaL_addstring(&b, " tracked");
  luaL_pushresult(&b);
}
