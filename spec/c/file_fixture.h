/*
** file_fixture.h: what the tests of file formats share: every fixture of spec/golden/files loaded by its
** name's ending into an archive.
*/
#ifndef PN_SPEC_FILE_FIXTURE_H
#define PN_SPEC_FILE_FIXTURE_H

#include <stdlib.h>
#include <unistd.h>
#include "check.h"

#define FIXTURES "spec/golden/files/"

static inline bool ends_with(const char *text, const char *ending) {
  size_t n = strlen(text), k = strlen(ending);
  return n >= k && strcmp(text + n - k, ending) == 0;
}

/* The file at `path` as its `kind` says (a name of that ending); a single tensor is named "-". NULL on failure. */
static inline pn_archive *load_any(pn_context *c, const char *kind, const char *path) {
  if (ends_with(kind, ".npz")) return pn_load_npz(c, path);
  if (ends_with(kind, ".safetensors")) return pn_load_safetensors(c, path);
  size_t mark = pn_scope_open(c);
  pn_tensor *t;
  if (ends_with(kind, ".npy") || ends_with(kind, ".npy.gz")) {
    t = pn_load_npy(c, path);
  } else if (ends_with(kind, ".png") || ends_with(kind, ".pgm") || ends_with(kind, ".ppm")) {
    t = pn_load_image(c, path, PN_FLOAT64);
  } else if (ends_with(kind, ".idx") || ends_with(kind, ".idx.gz")) {
    t = pn_load_idx(c, path);
  } else {
    static const char *const columns[] = {"v", "w"};
    pn_csv_options o = {.num_columns = strstr(kind, "text_column") ? 2 : 0, .column_names = columns};
    pn_names *names = NULL;
    t = pn_load_csv(c, path, &o, &names);
    pn_names_free(names);
  }
  pn_archive *a = t ? pn_archive_new(c) : NULL;
  if (a && pn_archive_add(c, a, "-", t) != PN_OK) {
    pn_archive_free(a);
    a = NULL;
  }
  pn_scope_close(c, mark);
  return a;
}

/* The bytes of a file, or NULL; to be freed. */
static inline unsigned char *read_bytes(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  fseek(f, 0, SEEK_END);
  *n = (size_t)ftell(f);
  rewind(f);
  unsigned char *p = malloc(*n + 1);
  if (p && fread(p, 1, *n, f) != *n) {
    free(p);
    p = NULL;
  }
  fclose(f);
  return p;
}

static inline void write_bytes(const char *path, const void *p, size_t n) {
  FILE *f = fopen(path, "wb");
  CHECK(f && fwrite(p, 1, n, f) == n);
  if (f) CHECK(fclose(f) == 0);
}

/* A folder for the test's own files, in memory if possible; remove_folder takes it away when it is empty. */
static char folder[64];

static inline void make_folder(void) {
  snprintf(folder, sizeof folder, "/dev/shm/penumbra-XXXXXX");
  if (mkdtemp(folder)) return;
  snprintf(folder, sizeof folder, P_tmpdir "/penumbra-XXXXXX");
  CHECK(mkdtemp(folder) != NULL);
}

static inline const char *in_folder(const char *name) {
  static char path[4][512];
  static int turn;
  turn = (turn + 1) % 4;
  snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
  return path[turn];
}

static inline void remove_folder(void) { CHECK(rmdir(folder) == 0); } /* fails if a temporary file was left */

#endif
