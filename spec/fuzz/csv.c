/*
** csv.c: fuzz target of pn_load_csv: as found out, without a header, as integers, and one column by position.
*/
#include "fuzz.h"

static void load(pn_context *c, const char *path) {
  static const int64_t last = -1;
  static const pn_csv_options options[] = {
      {0}, {.header = -1}, {.header = 1, .dtype = PN_INT64, .delimiter = ' '}, {.num_columns = 1, .columns = &last}};
  for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
    pn_names *names = NULL;
    pn_load_csv(c, path, &options[k], &names);
    pn_names_free(names);
    pn_context_clear_error(c);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_run(data, size, load); }
