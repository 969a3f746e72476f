/*
** pnm.c: pictures in binary PGM (P5) and PPM (P6): three numbers in decimal (width, height, the largest value), parted
** by blanks and by comments from # to the end of a line, one blank, then the numbers, in two bytes (the first the
** higher) where the largest is above 255. And which of the formats of pictures a file has.
** Source: netpbm.sourceforge.net/doc/pgm.html and ppm.html.
*/
#include <string.h>
#include "file.h"

enum { HEADER_LIMIT = 4096 };

static bool is_blank(char ch) { return ch == ' ' || (ch >= '\t' && ch <= '\r'); }

/* The next number; *room counts what the header may still have. */
static pn_status read_number(pni_source *s, int *room, int64_t least, int64_t most, int64_t *value) {
  bool comment = false;
  int digits = 0;
  *value = 0;
  for (char ch; *room > 0; --*room) {
    pn_status status = pni_source_read(s, &ch, 1);
    if (status != PN_OK) return status;
    bool blank = is_blank(ch);
    if (comment || (ch == '#' && !digits)) {
      comment = ch != '\n' && ch != '\r';
    } else if (ch >= '0' && ch <= '9' && digits < 10) {
      *value = 10 * *value + (ch - '0');
      digits++;
    } else if (blank && digits) {
      if (*value >= least && *value <= most) return PN_OK;
      break;
    } else if (!blank) {
      break;
    }
  }
  return pni_source_fail(s, PN_FORMAT, "is damaged: its header must be width, height and largest value");
}

#define SCALE(REAL)                                                                                                    \
  for (int64_t i = 0; i < t->numel; i++) {                                                                             \
    REAL *p = (REAL *)pni_data(t) + i;                                                                                 \
    if (*p > (REAL)most) return pni_source_fail(s, PN_FORMAT, "is damaged: a number is above the largest value");      \
    *p = (REAL)((double)*p / (double)most);                                                                            \
  }

static pn_status scale(pni_source *s, pn_tensor *t, int64_t most) {
  if (t->dtype == PN_FLOAT64) {
    SCALE(double)
  } else {
    SCALE(float)
  }
  return pni_source_finish(s);
}
#undef SCALE

static pn_tensor *read_pnm(pni_source *s, int64_t channels, int dtype) {
  int room = HEADER_LIMIT;
  int64_t width, height, most;
  if (read_number(s, &room, 1, INT32_MAX, &width) != PN_OK || read_number(s, &room, 1, INT32_MAX, &height) != PN_OK ||
      read_number(s, &room, 1, UINT16_MAX, &most) != PN_OK)
    return NULL;
  const int64_t shape[] = {height, width, channels};
  pn_tensor *t = pni_source_tensor_as(s, pni_element_npy(most > UINT8_MAX ? "u2" : "u1"), true, 3, shape, dtype);
  if (t && scale(s, t, most) == PN_OK) return t;
  pn_tensor_unref(t);
  return NULL;
}

static pn_tensor *read_image(pni_source *s, int dtype) {
  char lead[3];
  if (pni_source_read(s, lead, sizeof lead) != PN_OK) return NULL;
  if (memcmp(lead, "\x89PN", sizeof lead) == 0) return pni_png_read(s, dtype);
  if (lead[0] == 'P' && (lead[1] == '5' || lead[1] == '6') && is_blank(lead[2]))
    return read_pnm(s, lead[1] == '6' ? 3 : 1, dtype);
  pni_source_fail(s, PN_FORMAT, "is no picture that can be read: PNG, and PGM and PPM in binary");
  return NULL;
}

pn_tensor *pn_load_image(pn_context *c, const char *path, pn_dtype dtype) {
  pni_source s;
  if (pni_failed(c)) return NULL;
  if (dtype != PN_FLOAT64 && dtype != PN_FLOAT32) {
    pni_fail(c, PN_DTYPE, "load_image: dtype must be float64 or float32");
    return NULL;
  }
  if (pni_source_open(c, "load_image", path, &s) != PN_OK) return NULL;
  pn_tensor *t = read_image(&s, (int)dtype);
  pni_source_close(&s);
  return pni_scoped(c, t);
}
