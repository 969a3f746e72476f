/*
** zarr_store_test.c: stores are written whole or not at all, below the folder that they belong to; chunks, lines and
** comments are read as they stand; each allocation may fail. Below a granted root nothing outside of it is reached.
*/
#include <dirent.h>
#include <sys/file.h>
#include <fcntl.h>
#include <sys/stat.h>
#include "alloc_sweep.h"
#include "file_fixture.h"

static bool holds(const char *name, const void *want, size_t n) {
  size_t got;
  unsigned char *p = read_bytes(in_folder(name), &got);
  bool same = p && got == n && memcmp(p, want, n) == 0;
  free(p);
  return same;
}

static bool is_there(const char *name) {
  struct stat st;
  return lstat(in_folder(name), &st) == 0;
}

static void remove_all(const char *name) {
  DIR *d = opendir(in_folder(name));
  for (const struct dirent *e; d && (e = readdir(d)) != NULL;) {
    char path[400];
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    snprintf(path, sizeof path, "%.120s/%.255s", name, e->d_name);
    if (unlink(in_folder(path)) != 0) remove_all(path);
  }
  if (d) closedir(d);
  rmdir(in_folder(name));
}

static int entries(void) {
  DIR *d = opendir(folder);
  int n = 0;
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n - 2;
}

static pn_archive *content(pn_context *c, const char *name) {
  static const double value[] = {1, -2.5, 3e300};
  pn_archive *a = pn_archive_new(c);
  pn_tensor *t = pn_from_data(c, PN_FLOAT64, 1, (const int64_t[]){3}, value);
  if (a && t && pn_archive_add(c, a, name, t) == PN_OK && pn_archive_set_text(c, a, "g/x/.zarray", "{}") == PN_OK)
    return a;
  pn_archive_free(a);
  return NULL;
}

static pn_status save(pn_context *c, const char *path, const char *name) {
  pn_archive *a = content(c, name);
  pn_status status = a ? pn_save_store(c, path, a) : pn_context_status(c);
  pn_archive_free(a);
  return status;
}

/* The status of a save, of which nothing is left pending. */
static pn_status tried(pn_context *c, const char *path, const char *name) {
  pn_status status = save(c, path, name);
  pn_context_clear_error(c);
  return status;
}

static void writing(pn_context *c) {
  static const double value[] = {1, -2.5, 3e300};
  CHECK_INT(save(c, in_folder("s"), "g/x/0"), PN_OK);
  CHECK(holds("s/g/x/0", value, sizeof value) && holds("s/g/x/.zarray", "{}", 2) && is_there("s/.zgroup"));
  CHECK_INT(save(c, in_folder("s/"), "h/y/deep/0"), PN_OK);
  CHECK(holds("s/h/y/deep/0", value, sizeof value) && !is_there("s/g/x/0"));
  CHECK_INT(entries(), 1);
  static const char *const bad[] = {
      "../x", "a/../../x", "/x", "a//x", "", ".", "a/.", "a/", "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19"};
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) CHECK_INT(tried(c, in_folder("s"), bad[k]), PN_DOMAIN);
  CHECK_INT(tried(c, in_folder("s"), "g/x/.zarray/0"), PN_IO); /* a file and a folder of one name */
  CHECK_INT(tried(c, in_folder("no/s"), "g/x/0"), PN_IO);
  CHECK_INT(tried(c, in_folder("."), "g/x/0"), PN_IO);
  CHECK_INT(tried(c, "", "g/x/0"), PN_IO);
  CHECK(holds("s/h/y/deep/0", value, sizeof value) && entries() == 1);
  remove_all("s");
}

/* What stands there and is no store stays; what a killed process left goes, what a living one writes stays. */
static void others(pn_context *c) {
  write_bytes(in_folder("file"), "mine", 4);
  CHECK(mkdir(in_folder("mine"), 0777) == 0 && symlink("mine", in_folder("link")) == 0);
  CHECK_INT(tried(c, in_folder("file"), "g/x/0"), PN_IO);
  CHECK_INT(tried(c, in_folder("mine"), "g/x/0"), PN_IO);
  CHECK_INT(tried(c, in_folder("link"), "g/x/0"), PN_IO);
  CHECK(holds("file", "mine", 4) && is_there("mine") && is_there("link") && entries() == 3);
  CHECK(unlink(in_folder("file")) == 0 && rmdir(in_folder("mine")) == 0 && unlink(in_folder("link")) == 0);
  CHECK(mkdir(in_folder("s.penumbra-0.tmp"), 0777) == 0 && mkdir(in_folder("s.penumbra-1.tmp"), 0777) == 0);
  CHECK(mkdir(in_folder("outside"), 0777) == 0 && symlink("../outside", in_folder("s.penumbra-1.tmp/out")) == 0);
  write_bytes(in_folder("outside/x"), "mine", 4);
  int fd = open(in_folder("s.penumbra-0.tmp"), O_RDONLY | O_DIRECTORY);
  CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0);
  CHECK_INT(save(c, in_folder("s"), "g/x/0"), PN_OK);
  CHECK(is_there("s.penumbra-0.tmp") && !is_there("s.penumbra-1.tmp") && is_there("s/g/x/0"));
  CHECK(holds("outside/x", "mine", 4)); /* links are not followed */
  close(fd);
  remove_all("s");
  remove_all("outside");
  CHECK_INT(save(c, in_folder("s"), "g/x/0"), PN_OK);
  CHECK_INT(entries(), 1);
  remove_all("s");
}

static void reading(pn_context *c) {
  static const int64_t two[] = {2, 2}, five[] = {5};
  write_bytes(in_folder("chunk"), "\x1f\x8b\x00\x01", 4);
  pn_tensor *t = pn_load_chunk(c, in_folder("chunk"), "|u1", 2, two);
  CHECK(t && pn_tensor_dtype(t) == PN_INT64 && ((const int64_t *)pn_tensor_data(t))[1] == 0x8b);
  static const int64_t one[] = {2};
  t = pn_load_chunk(c, in_folder("chunk"), ">i2", 1, one);
  CHECK(t && ((const int64_t *)pn_tensor_data(t))[0] == 0x1f8b);
  t = pn_load_chunk(c, in_folder("chunk"), "<i2", 1, one);
  CHECK(t && ((const int64_t *)pn_tensor_data(t))[0] == (int16_t)0x8b1f);
  static const char *const unknown[] = {"i2", "<c8", "", "<", "u1", "|O", "<M8[ns]"};
  for (size_t k = 0; k < sizeof unknown / sizeof *unknown; k++) {
    CHECK(!pn_load_chunk(c, in_folder("chunk"), unknown[k], 1, one));
    CHECK_STATUS(c, pn_context_status(c), PN_DTYPE);
    pn_context_clear_error(c);
  }
  CHECK(!pn_load_chunk(c, in_folder("chunk"), "|u1", 1, five));
  CHECK_STATUS(c, pn_context_status(c), PN_SHAPE);
  pn_context_clear_error(c);
  CHECK(!pn_load_chunk(c, in_folder("none"), "|u1", 1, five));
  CHECK_STATUS(c, pn_context_status(c), PN_MISSING);
  pn_context_clear_error(c);
  CHECK(unlink(in_folder("chunk")) == 0);
}

static const char commented[] = "# first, 1\n#\na,b\n# in between\n1,2\n3,4\n#5,6\r\n 7,8\n# 9,";

static void lines(pn_context *c) {
  CHECK_INT(pn_save_bytes(c, in_folder("t"), commented, sizeof commented - 1), PN_OK);
  CHECK(holds("t", commented, sizeof commented - 1));
  pn_names *names = NULL, *list = pn_load_lines(c, in_folder("t"), "#");
  CHECK_INT(pn_names_count(list), 5);
  CHECK_STR(pn_names_at(list, 0), "# first, 1");
  CHECK_STR(pn_names_at(list, 3), "#5,6");
  CHECK_STR(pn_names_at(list, 4), "# 9,");
  pn_names_free(list);
  list = pn_load_lines(c, in_folder("t"), "");
  CHECK_INT(pn_names_count(list), 9);
  pn_names_free(list);
  pn_csv_options o = {.comment = '#'};
  pn_tensor *t = pn_load_csv(c, in_folder("t"), &o, &names);
  CHECK(t && pn_tensor_shape(t)[0] == 3 && pn_tensor_shape(t)[1] == 2 && pn_names_count(names) == 2);
  CHECK(t && ((const double *)pn_tensor_data(t))[5] == 8);
  pn_names_free(names);
  CHECK_INT(pn_save_bytes(c, in_folder("t"), "a,b\n1,2\n3,4", 11), PN_OK);
  t = pn_load_csv(c, in_folder("t"), &(pn_csv_options){.whole_lines = 1}, NULL);
  CHECK(t && pn_tensor_shape(t)[0] == 1);
  CHECK(!pn_load_csv(c, in_folder("t"), &(pn_csv_options){.comment = '1'}, NULL));
  CHECK_STATUS(c, pn_context_status(c), PN_DOMAIN);
  pn_context_clear_error(c);
  CHECK_INT(pn_save_bytes(c, in_folder("t"), NULL, 0), PN_OK);
  CHECK(holds("t", "", 0) && unlink(in_folder("t")) == 0);
}

/* ---- below a root ---- */

static void in_sandbox(void) {
  pn_runtime *rt = NULL;
  char root[512];
  snprintf(root, sizeof root, "%s", in_folder("root"));
  CHECK(mkdir(root, 0777) == 0 && mkdir(in_folder("outside"), 0777) == 0);
  CHECK(symlink("../outside", in_folder("root/out")) == 0);
  static const char *const scripts[] = {
      "local pn = require 'penumbra' local t = {g = {x = pn.ones{2}}}\n"
      "assert(pn.data.save_zarr('s', t)) assert(pn.data.save_zarr('s', t)) assert(pn.data.zarr('s').g.x)\n"
      "for _, path in ipairs{'/s', '../outside/s', 'out/s', 'out'} do assert(not pn.data.save_zarr(path, t), path) "
      "end\n"
      "assert(not pn.data.zarr '../root/s')",
      "local pn = require 'penumbra' assert(pn.data.zarr('s').g.x)\n"
      "assert(not pn.data.save_zarr('s', {g = {x = pn.ones{2}}}))\n"
      "assert(not pn.data.save_zarr('t', {g = {x = pn.ones{2}}}))"};
  for (int k = 0; k < 2; k++) {
    pn_runtime_config config = {.libraries = PN_LIBS_SAFE | PN_LIB_FILES, .root = root, .root_writable = k == 0};
    CHECK_INT(pn_runtime_new(&config, &rt), PN_OK);
    CHECK_INT(pn_runtime_run_string(rt, scripts[k], (size_t)-1, "script"), PN_OK);
    if (*pn_runtime_message(rt)) printf("%s\n", pn_runtime_message(rt));
    pn_runtime_close(rt);
  }
  CHECK(!is_there("outside/s") && !is_there("root/t"));
  remove_all("outside");
  remove_all("root");
}

/* ---- allocations ---- */

static bool store(pn_context *c, const void *data) { return save(c, in_folder(data), "g/x/0") == PN_OK; }

static bool chunk(pn_context *c, const void *data) {
  return pn_load_chunk(c, in_folder(data), "<f8", 1, (const int64_t[]){3}) != NULL;
}

static bool text(pn_context *c, const void *data) {
  if (pn_save_bytes(c, in_folder(data), commented, sizeof commented - 1) != PN_OK) return false;
  pn_names *list = pn_load_lines(c, in_folder(data), "#"), *names = NULL;
  pn_csv_options o = {.comment = '#'};
  pn_tensor *t = pn_load_csv(c, in_folder(data), &o, &names);
  bool good = list && t;
  pn_names_free(list);
  pn_names_free(names);
  return good;
}

int main(void) {
  pn_context *c = pn_context_new(NULL);
  make_folder();
  size_t mark = pn_scope_open(c);
  writing(c);
  others(c);
  reading(c);
  lines(c);
  pn_scope_close(c, mark);
  pn_context_close(c);
  in_sandbox();
  sweep("store", store, "s");
  sweep("chunk", chunk, "s/g/x/0");
  sweep("lines", text, "t");
  CHECK(unlink(in_folder("t")) == 0);
  remove_all("s");
  remove_folder(); /* fails if a temporary folder was left */
  CHECK_DONE();
}
