/*
** save_kill_test.c: a process that is killed while it saves leaves the old file or the new one, whole; what it leaves
** beside it never stands in the way of a later save.
*/
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include "file_fixture.h"
#include "soak.h"

enum { ELEMENTS = 20000 };

static const char *const kinds[] = {"a.safetensors", "a.npz", "a.npy", "a.idx", "a.csv", "a.csv.gz"};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Saves a tensor that is `value` everywhere. */
static pn_status save(pn_context *c, const char *name, double value) {
  size_t mark = pn_scope_open(c);
  int64_t shape[] = {ELEMENTS};
  pn_tensor *t = pn_full(c, PN_FLOAT64, 1, shape, value);
  pn_status s;
  if (ends_with(name, ".npy")) {
    s = pn_save_npy(c, in_folder(name), t);
  } else if (ends_with(name, ".idx")) {
    s = pn_save_idx(c, in_folder(name), t);
  } else if (strstr(name, ".csv")) {
    s = pn_save_csv(c, in_folder(name), t, ',', NULL);
  } else {
    pn_archive *a = pn_archive_new(c);
    pn_archive_add(c, a, "t", t);
    s = ends_with(name, ".npz") ? pn_save_npz(c, in_folder(name), a, 1) : pn_save_safetensors(c, in_folder(name), a);
    pn_archive_free(a);
  }
  pn_scope_close(c, mark);
  return s;
}

/* The child: saves 1, 2, 3, ... until it is killed; below a root by a script. */
static void save_for_ever(const char *name, bool rooted) {
  pn_runtime *rt = NULL;
  pn_runtime_config config = {
      .libraries = PN_LIBS_SAFE | PN_LIB_FILES, .root = folder, .root_writable = 1, .context = {.threads = 1}};
  if (pn_runtime_new(&config, &rt) != PN_OK) _exit(2);
  if (rooted && strstr(name, "safetensors"))
    pn_runtime_run_string(rt,
                          "local pn = require 'penumbra' for k = 1, math.huge do "
                          "assert(pn.save('a.safetensors', {t = pn.full({20000}, k)})) end",
                          (size_t)-1, NULL);
  pn_context *c = pn_runtime_context(rt);
  for (double value = 1;; value++)
    if (save(c, name, value) != PN_OK) _exit(3);
}

/* The one value of a file; 0 if there is no file yet, -1 if it is damaged. */
static double value_of(pn_context *c, const char *name) {
  double value = -1, *p = malloc(ELEMENTS * sizeof *p);
  if (access(in_folder(name), F_OK) != 0) {
    free(p);
    return 0;
  }
  pn_archive *a = load_any(c, name, in_folder(name));
  pn_tensor *t = a && pn_archive_count(a) == 1 ? pn_archive_tensor(a, 0) : NULL;
  if (t && p && pn_tensor_numel(t) == ELEMENTS && pn_tensor_copy_out(c, t, p, ELEMENTS) == PN_OK) {
    value = p[0];
    for (int k = 1; k < ELEMENTS; k++)
      if (p[k] != value) value = -1;
  }
  if (!a) printf("%s: %s\n", name, pn_context_message(c));
  pn_context_clear_error(c);
  pn_archive_free(a);
  free(p);
  return value;
}

/* Removes what begins with `prefix`; how many there were. */
static int sweep(const char *prefix) {
  int n = 0;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (strncmp(e->d_name, prefix, strlen(prefix)) != 0) continue;
    remove(in_folder(e->d_name));
    n++;
  }
  if (d) closedir(d);
  return n;
}

static void test_kills(void) {
  uint64_t state = soak_seed();
  long rounds = soak_rounds(48), written = 0;
  pn_context *c = pn_context_new(NULL);
  for (long k = 0; k < rounds; k++) {
    const char *name = kinds[k % KINDS];
    int how = 0;
    pid_t child = fork();
    if (child == 0) save_for_ever(name, soak_random(&state, 2));
    nanosleep(&(struct timespec){0, (long)soak_random(&state, 60000000) + 1000000}, NULL);
    kill(child, SIGKILL);
    waitpid(child, &how, 0);
    if (!check_record(WIFSIGNALED(how))) printf("%s: a save failed with %d\n", name, WEXITSTATUS(how));
    double value = value_of(c, name);
    if (!check_record(value >= 0)) printf("%s was torn (PN_SEED=%llu)\n", name, (unsigned long long)soak_seed());
    written += value > 0;
    CHECK_STATUS(c, save(c, name, 1e6), PN_OK); /* whatever was left behind */
    CHECK(value_of(c, name) == 1e6);
  }
  CHECK(written > 0); /* some were killed after a first save */
  pn_context_close(c);
  sweep("a.");
}

/* Leftovers of a process that had our number, even by the hundred, and folders of such names. */
static void test_leftovers(void) {
  char name[300];
  pn_context *c = pn_context_new(NULL);
  for (int k = 0; k < 150; k++) {
    snprintf(name, sizeof name, "%s/a.npy.%ld-%d.tmp", folder, (long)getpid(), k);
    if (k % 2)
      CHECK(mkdir(name, 0777) == 0);
    else
      write_bytes(name, "left", 4);
  }
  for (int k = 1; k < 4; k++) {
    CHECK_STATUS(c, save(c, "a.npy", k), PN_OK);
    CHECK(value_of(c, "a.npy") == k);
  }
  CHECK_INT(sweep("a."), 151);    /* none more was left */
  memset(name, 'n', sizeof name); /* the longest name that a file can have */
  strcpy(name + 251, ".npy");
  CHECK_STATUS(c, save(c, name, 5), PN_OK);
  CHECK(value_of(c, name) == 5);
  CHECK_INT(sweep("nnn"), 1);
  pn_context_close(c);
}

int main(void) {
  make_folder();
  test_kills();
  test_leftovers();
  remove_folder();
  CHECK_DONE();
}
