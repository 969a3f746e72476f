/*
** json_reader.h: JSON (RFC 8259) token by token, as it comes from a source: in memory there is a piece of the file and
** the longest text so far, both on the context's account, and every piece is a look at the clock. (The JSON libraries
** at hand build the whole document first, in memory from hooks that are global to the process: 24 bytes for each byte
** of "[[],[]," and no way to stop.)
*/
#ifndef PN_FILE_JSON_READER_H
#define PN_FILE_JSON_READER_H

#include "file.h"

enum { PNI_JSON_DEEPEST = 64, PNI_JSON_DIGITS = 500 };

/* LIST and OBJECT begin one, CLOSE ends it; in an object each value comes behind its KEY. */
typedef enum pni_json_kind {
  PNI_JSON_END, /* nothing follows, or the context of the source has failed */
  PNI_JSON_NULL,
  PNI_JSON_FALSE,
  PNI_JSON_TRUE,
  PNI_JSON_NUMBER,
  PNI_JSON_TEXT,
  PNI_JSON_KEY,
  PNI_JSON_LIST,
  PNI_JSON_OBJECT,
  PNI_JSON_CLOSE
} pni_json_kind;

typedef struct pni_json {
  pni_source *s;
  const char *what; /* is said of what is no JSON */
  bool lines;
  int64_t before, left; /* bytes of the source that came before buf, and those of the JSON that come behind it */
  size_t at, end;       /* the next byte of buf, and how many there are */
  unsigned char *buf;   /* PNI_FILE_CHUNK */
  char *text;           /* the last TEXT or KEY and a zero byte behind its `length` bytes */
  size_t length, room;
  double number; /* the last NUMBER */
  int state;
  int depth;
  uint64_t objects; /* bit k: is what is open at depth k + 1 an object? */
} pni_json;

/* Reads the next `left` bytes of s (fewer where it ends): one value, or with `lines` one on each line that is not
 * blank, among which NaN, as Python writes it, stands for an empty text. Failures are PN_FORMAT: "<what>: at byte 3,
 * 'x'". */
pn_status pni_json_open(pni_source *s, int64_t left, bool lines, const char *what, pni_json *j);
void pni_json_close(pni_json *j);
pni_json_kind pni_json_next(pni_json *j);
/* Passes over the value that comes next. */
pn_status pni_json_skip(pni_json *j);
/* Bytes read so far. */
static inline int64_t pni_json_place(const pni_json *j) { return j->before + (int64_t)j->at; }

#endif
