/*
** plain_file.c: files of no format: lines of a text, bytes as they are.
*/
#include <string.h>
#include "../base/given.h"
#include "file.h"

enum { LOOK = 4096 }; /* lines between two looks at whether to go on */

/* Adds the lines of text that begin with `prefix`. */
static pn_status add_lines(pn_context *c, pn_names *list, const char *text, size_t n, const char *prefix) {
  size_t length = strlen(prefix);
  const char *end = text + n;
  for (int64_t k = 1; text < end; k++) {
    const char *stop = memchr(text, '\n', (size_t)(end - text));
    size_t line = (size_t)((stop ? stop : end) - text), shown = line;
    if (shown && text[shown - 1] == '\r') shown--;
    if (shown >= length && memcmp(text, prefix, length) == 0 && pni_names_add(c, list, text, shown) != PN_OK) break;
    if (k % LOOK == 0 && pni_check_cancel(c) != PN_OK) break;
    text += line + (stop != NULL);
  }
  return c->status;
}

pn_names *pn_load_lines(pn_context *c, const char *path, const char *prefix) {
  pni_source s;
  char *text;
  size_t n;
  if (!PNI_GIVEN(c, "load_lines", prefix)) return NULL;
  if (pni_source_open(c, "load_lines", path, &s) != PN_OK) return NULL;
  pn_names *list = NULL;
  if (pni_source_all(&s, &text, &n) == PN_OK) {
    list = pni_names_new(c);
    if (list && add_lines(c, list, text, n, prefix) != PN_OK) {
      pn_names_free(list);
      list = NULL;
    }
    pni_free(c, text);
  }
  pni_source_close(&s);
  return list;
}

pn_status pn_save_bytes(pn_context *c, const char *path, const void *bytes, size_t n) {
  pni_sink s;
  if (n && !PNI_GIVEN(c, "save_bytes", bytes)) return c->status;
  if (pni_failed(c) || pni_sink_open(c, "save_bytes", path, false, &s) != PN_OK) return c->status;
  return pni_sink_close(&s, pni_sink_write(&s, bytes, n));
}
