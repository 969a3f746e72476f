/*
** bridge_fixture.h: models of scripts that stand in this process's own folder, for the tests of src/bridge, and
** messages that are freed as they are looked at.
*/
#ifndef PN_SPEC_BRIDGE_FIXTURE_H
#define PN_SPEC_BRIDGE_FIXTURE_H

#include <stdlib.h>
#include <unistd.h>
#include "../../src/bridge/penumbra_bridge.h"
#include "check.h"

static char fixture_folder[128];

static inline void fixture_begin(void) {
  const char *where = getenv("TMPDIR");
  snprintf(fixture_folder, sizeof fixture_folder, "%s/penumbra_bridge_XXXXXX", where && *where ? where : P_tmpdir);
  if (!mkdtemp(fixture_folder)) exit(1);
}

static inline const char *fixture_path(const char *name, const char *kind) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s%s", fixture_folder, name, kind);
  return path;
}

static inline void fixture_write(const char *name, const char *kind, const char *text) {
  FILE *file = fopen(fixture_path(name, kind), "w");
  if (!file || fputs(text, file) < 0 || fclose(file)) exit(1);
}

static inline void fixture_remove(const char *name, const char *kind) { remove(fixture_path(name, kind)); }

/* A model of that text, with members of the data beside the script, "" or ", \"N\": 3". */
static inline bs_model *fixture_model(const char *name, const char *text, const char *data, char **error) {
  char json[4096];
  fixture_write(name, ".lua", text);
  snprintf(json, sizeof json, "{\"script\": \"%s\"%s}", fixture_path(name, ".lua"), data);
  bs_model *m = bs_model_construct(json, 1, error);
  fixture_remove(name, ".lua");
  return m;
}

/* That *error holds the text; frees it. */
static inline void check_said(const char *file, int line, char **error, const char *text) {
  if (!check_record(*error && strstr(*error, text)))
    printf("%s:%d: said \"%s\", want \"%s\"\n", file, line, *error ? *error : "(nothing)", text);
  bs_free_error_msg(*error);
  *error = NULL;
}

/* call fails with a message that holds the text; the message goes to `error`. */
#define CHECK_SAYS(call, text)                                                                                         \
  do {                                                                                                                 \
    CHECK_INT((call), -1);                                                                                             \
    check_said(__FILE__, __LINE__, &error, (text));                                                                    \
  } while (0)
/* call succeeds; else its message is printed. */
#define CHECK_CALM(call)                                                                                               \
  do {                                                                                                                 \
    CHECK_INT((call), 0);                                                                                              \
    if (error) check_said(__FILE__, __LINE__, &error, "no message");                                                   \
  } while (0)

#endif
