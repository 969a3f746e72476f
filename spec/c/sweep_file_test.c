/*
** sweep_file_test.c: reading and writing files survives the failure of each allocation, and leaves no
** temporary files behind.
*/
#include <stdio.h>
#include <unistd.h>
#include "alloc_sweep.h"

static char folder[sizeof P_tmpdir + 32];

static const char *place(const char *name, char path[128]) {
  snprintf(path, 128, "%s/%s", folder, name);
  return path;
}

static pn_tensor *table(pn_context *c) {
  static const double value[] = {1, 2.5, -3, 4e10, 5, 6};
  return pn_from_data(c, PN_FLOAT64, 2, (const int64_t[]){3, 2}, value);
}

static bool csv(pn_context *c, const void *data) {
  char path[128];
  static const char *const header[] = {"first", "second"};
  static const char *const wanted[] = {"second"};
  static const pn_csv_options second = {.num_columns = 1, .column_names = wanted};
  place(data, path);
  pn_names *names = NULL;
  pn_tensor *t = table(c);
  if (!t || pn_save_csv(c, path, t, 0, header) != PN_OK) return false;
  t = pn_load_csv(c, path, &second, &names);
  bool good = t && pn_names_count(names) == 1 && strcmp(pn_names_at(names, 0), "second") == 0;
  pn_names_free(names);
  return good && pn_load_csv(c, path, NULL, NULL) != NULL;
}

static bool npy(pn_context *c, const void *data) {
  char path[128];
  pn_tensor *t = table(c);
  if (!t || pn_save_npy(c, place(data, path), t) != PN_OK) return false;
  return pn_load_npy(c, path) != NULL;
}

static bool idx(pn_context *c, const void *data) {
  char path[128];
  pn_tensor *t = pn_arange(c, PN_INT64, 0, 10, 1);
  if (!t || pn_save_idx(c, place(data, path), t) != PN_OK) return false;
  static const int64_t bytes[] = {18}; /* a header of 8 and 10 elements */
  return pn_load_idx(c, path) && pn_load_idx_as(c, path, PN_FLOAT32) &&
         pn_load_raw(c, path, "uint8", 1, bytes, PN_FLOAT32);
}

/* Rows and cells of what was written. */
static bool rows(pn_context *c, const void *data) {
  char path[128];
  static const int64_t shape[] = {2}, which[] = {2, 0};
  pn_tensor *t = table(c), *index = pn_from_data(c, PN_INT64, 1, shape, which);
  if (!t || !index || pn_save_npy(c, place(data, path), t) != PN_OK) return false;
  pn_array_file *a = pn_array_open(c, path, NULL);
  if (!a) return false;
  bool good = pn_array_rows(c, a, 1, 2, PN_FLOAT32) && pn_array_take(c, a, index, pn_array_dtype(a));
  pn_array_close(a);
  return good;
}

static bool cells(pn_context *c, const void *data) {
  char path[128];
  static const char *const header[] = {"first", "second"};
  static const pn_csv_options part = {.first_row = 1, .num_rows = 2};
  pn_tensor *t = table(c);
  pn_names *names = NULL;
  if (!t || pn_save_csv(c, place(data, path), t, 0, header) != PN_OK) return false;
  pn_names *list = pn_load_csv_text(c, path, &part, &names);
  bool good = list && pn_names_count(list) == 4 && pn_names_count(names) == 2;
  pn_names_free(list);
  pn_names_free(names);
  return good;
}

static pn_archive *collect(pn_context *c) {
  pn_archive *a = pn_archive_new(c);
  pn_tensor *t = table(c), *u = pn_arange(c, PN_INT64, 0, 5, 1);
  if (a && t && u && pn_archive_add(c, a, "weight", t) == PN_OK && pn_archive_add(c, a, "steps", u) == PN_OK &&
      pn_archive_set_text(c, a, "note", "first") == PN_OK && pn_archive_set_text(c, a, "note", "second") == PN_OK)
    return a;
  pn_archive_free(a);
  return NULL;
}

static bool complete(pn_archive *a) {
  bool good = a && pn_archive_count(a) == 2 && pn_archive_find(a, "weight") && pn_archive_find(a, "steps");
  pn_archive_free(a);
  return good;
}

static bool npz(pn_context *c, const void *data) {
  char path[128];
  pn_archive *a = collect(c);
  place("b.npz", path);
  bool good = a && pn_save_npz(c, path, a, data != NULL) == PN_OK;
  pn_archive_free(a);
  return good && complete(pn_load_npz(c, path));
}

static bool safetensors(pn_context *c, const void *data) {
  char path[128];
  pn_archive *a = collect(c);
  bool good = a && pn_save_safetensors(c, place(data, path), a) == PN_OK;
  pn_archive_free(a);
  return good && complete(pn_load_safetensors(c, path));
}

static bool image(pn_context *c, const void *data) { return pn_load_image(c, data, PN_FLOAT32) != NULL; }

int main(void) {
  static const char *const made[] = {"a.csv", "a.csv.gz", "a.npy", "a.idx", "b.npz", "b.safetensors"};
  char path[128];
  snprintf(folder, sizeof folder, "%s/penumbra-XXXXXX", P_tmpdir);
  if (!mkdtemp(folder)) return 1;
  sweep("csv", csv, "a.csv");
  sweep("csv, gzipped", csv, "a.csv.gz");
  sweep("npy", npy, "a.npy");
  sweep("rows of npy", rows, "a.npy");
  sweep("cells of csv", cells, "a.csv");
  sweep("idx", idx, "a.idx");
  sweep("PNG", image, "spec/golden/files/palette.png");
  sweep("PPM", image, "spec/golden/files/colours.ppm");
  sweep("npz, stored", npz, NULL);
  sweep("npz, deflated", npz, "");
  sweep("safetensors", safetensors, "b.safetensors");
  for (size_t k = 0; k < sizeof made / sizeof *made; k++) unlink(place(made[k], path));
  CHECK(rmdir(folder) == 0); /* nothing else was left there */
  CHECK_DONE();
}
