/*
** idx.c: fuzz target of pn_load_idx.
*/
#include "fuzz.h"

static void load(pn_context *c, const char *path) { pn_load_idx(c, path); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return fuzz_run(data, size, load); }
