/*
** json_tokens.c: fuzz target of the JSON reader, whole and by lines.
*/
#include "../../src/file/json_reader.h"
#include "fuzz.h"

static void read_all(pn_context *c, const char *path, bool lines) {
  pni_source s;
  pni_json j;
  if (pni_source_open(c, "json", path, &s) != PN_OK) return;
  if (pni_json_open(&s, INT64_MAX, lines, "is no JSON", &j) == PN_OK)
    while (pni_json_next(&j) != PNI_JSON_END) continue;
  pni_json_close(&j);
  pni_source_close(&s);
}

static void load(pn_context *c, const char *path) {
  read_all(c, path, false);
  pn_context_clear_error(c);
  read_all(c, path, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_run(data, size, load); }
