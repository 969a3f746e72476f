/*
** save_kill_test.c: a process that is killed while it saves leaves the old file or the new one, whole; what it leaves
** beside it goes with the next save of this file, whoever else is saving it at the time.
*/
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
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

/* How many names begin with `prefix` and end with `ending`. */
static int count(const char *prefix, const char *ending, bool removed) {
  int n = 0;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (strncmp(e->d_name, prefix, strlen(prefix)) != 0 || !ends_with(e->d_name, ending)) continue;
    if (removed) remove(in_folder(e->d_name));
    n++;
  }
  if (d) closedir(d);
  return n;
}

static int sweep(const char *prefix) { return count(prefix, "", true); }
static int left(const char *name) { return count(name, ".tmp", false); }

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
    CHECK_INT(left("a."), 0); /* is gone */
  }
  CHECK(written > 0); /* some were killed after a first save */
  pn_context_close(c);
  sweep("a.");
}

/* Saves under one name at the same time, some of which are killed: each that is not succeeds, the file is always whole,
 * and in the end nothing else is there. */
static void test_savers(void) {
  enum { SAVERS = 3, TIMES = 40 };
  uint64_t state = soak_seed();
  pid_t savers[SAVERS];
  pn_context *c = pn_context_new(NULL);
  for (int k = 0; k < SAVERS; k++) {
    savers[k] = fork();
    if (savers[k]) continue;
    pn_context *own = pn_context_new(NULL);
    for (long n = 1; n <= soak_rounds(TIMES); n++)
      if (save(own, "s.safetensors", (double)n) != PN_OK) printf("%s\n", pn_context_message(own)), _exit(1);
    _exit(0);
  }
  for (int k = 0; k < 12; k++) {
    pid_t child = fork();
    if (child == 0) save_for_ever("s.safetensors", false);
    nanosleep(&(struct timespec){0, (long)soak_random(&state, 20000000) + 1000000}, NULL);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK(value_of(c, "s.safetensors") >= 0);
  }
  for (int k = 0; k < SAVERS; k++) {
    int how = -1;
    waitpid(savers[k], &how, 0);
    CHECK_INT(how, 0);
  }
  CHECK_STATUS(c, save(c, "s.safetensors", 7), PN_OK);
  CHECK(value_of(c, "s.safetensors") == 7);
  CHECK_INT(count("s.", "", false), 1);
  sweep("s.");
  pn_context_close(c);
}

/* What stands under names of temporary files: what was left goes, what is held, another's or no file stays. */
static void test_leftovers(void) {
  char name[300], held[64];
  pn_context *c = pn_context_new(NULL);
  for (int k = 0; k < 40; k++) {
    snprintf(name, sizeof name, "%s/a.npy.penumbra-%d.tmp", folder, k);
    if (k % 2)
      CHECK(mkdir(name, 0777) == 0);
    else
      write_bytes(name, "left", 4);
  }
  write_bytes(in_folder("a.np.penumbra-0.tmp"), "other", 5);
  write_bytes(in_folder("a.npy.penumbra-x.tmp"), "other", 5);
  snprintf(held, sizeof held, "%s", in_folder("a.npy.penumbra-4.tmp"));
  int fd = open(held, O_RDONLY);
  CHECK(flock(fd, LOCK_EX) == 0);
  for (int k = 1; k < 4; k++) {
    CHECK_STATUS(c, save(c, "a.npy", k), PN_OK);
    CHECK(value_of(c, "a.npy") == k);
    CHECK(access(held, F_OK) == 0);
    CHECK_INT(left("a.npy.penumbra-"), 20 + 1 + 1); /* folders, the held one, the one of another name */
  }
  close(fd);
  CHECK_STATUS(c, save(c, "a.npy", 4), PN_OK);
  CHECK(access(held, F_OK) != 0);
  CHECK_INT(sweep("a."), 20 + 2 + 1);
  pn_context_close(c);
}

/* Two of the longest names that a file can have, alike but for their ends: each has its own. */
static void test_long_names(void) {
  char name[300], other[300];
  pn_context *c = pn_context_new(NULL);
  memset(name, 'n', sizeof name);
  strcpy(name + 251, ".npy");
  memcpy(other, name, sizeof name);
  other[250] = 'm';
  CHECK_STATUS(c, save(c, name, 5), PN_OK);
  CHECK_STATUS(c, save(c, other, 6), PN_OK);
  CHECK(value_of(c, name) == 5);
  CHECK(value_of(c, other) == 6);
  CHECK_INT(sweep("nnn"), 2);
  pn_context_close(c);
}

int main(void) {
  make_folder();
  test_kills();
  test_savers();
  test_leftovers();
  test_long_names();
  remove_folder();
  CHECK_DONE();
}
