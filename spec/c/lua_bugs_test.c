/*
** lua_bugs_test.c: what the published lists of Lua's bugs describe, tried inside a safe runtime, each in a process of
** its own: it may end in an error or at a limit, but the process lives, in time. A second round gives every block its
** own pages, the end of the block at a page that cannot be touched, and freed pages are never used again, so that an
** access outside of a block or after its end kills the child even where the installed Lua has no sanitiser.
*/
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"
#include "soak.h"

enum { OK = 1 << PN_OK, SCRIPT = 1 << PN_SCRIPT, LIMIT = 1 << PN_LIMIT, NOMEM = 1 << PN_NOMEM, LATE = 1 << PN_TIME };
#define SPACE ((size_t)1 << 36)

static const struct {
  const char *version, *name, *script;
  int safe;
} rows[] = {
#include "lua_bugs.def"
};

/* ---- fenced memory ---- */

typedef struct {
  char *at, *end;
  size_t page;
} fence;

static size_t pages(const fence *f, size_t n) { return (n + f->page - 1) / f->page * f->page; }

/* The block ends where its pages do, but for its alignment. */
static char *place(const fence *f, char *base, size_t n) { return base + pages(f, n) - ((n + 15) & ~(size_t)15); }

static char *base_of(const fence *f, void *block) { return (char *)((uintptr_t)block / f->page * f->page); }

static void *fenced(void *data, void *block, size_t old_size, size_t new_size) {
  fence *f = data;
  char *fresh = NULL;
  if (new_size) {
    size_t n = pages(f, new_size);
    if (n + f->page > (size_t)(f->end - f->at) || mprotect(f->at, n, PROT_READ | PROT_WRITE) != 0) return NULL;
    fresh = place(f, f->at, new_size);
    f->at += n + f->page;
    if (block) memcpy(fresh, block, old_size < new_size ? old_size : new_size);
  }
  if (block) {
    char *base = base_of(f, block);
    madvise(base, pages(f, old_size), MADV_DONTNEED);
    mprotect(base, pages(f, old_size), PROT_NONE);
  }
  return fresh;
}

/* ---- one row ---- */

/* The fence is slow and uses much room: there rows go as far as they come. */
enum { FENCED = LIMIT | NOMEM | LATE };

static double seconds_of(size_t i, bool with_fence) { return with_fence ? 0.3 : rows[i].safe & LATE ? 0.1 : 20; }

static void run_row(size_t i, bool with_fence) {
  fence f = {.page = (size_t)sysconf(_SC_PAGESIZE)};
  pn_runtime *rt = NULL;
  pn_runtime_config config = {
      .limits = {.memory = 64 << 20, .instructions = 30000000, .seconds = seconds_of(i, with_fence)},
      .context = {.threads = 1}};
  if (with_fence) {
    f.at = mmap(NULL, SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f.at == MAP_FAILED) _exit(99);
    f.end = f.at + SPACE;
    config.context.allocate = fenced;
    config.context.allocator_data = &f;
    config.context.pool_limit = PN_NO_POOL;
  }
  setlocale(LC_ALL, "C.UTF-8");
  if (pn_runtime_new(&config, &rt) != PN_OK) _exit(98);
  pn_status status = pn_runtime_run_string(rt, rows[i].script, (size_t)-1, "bug");
  if (!((1 << status) & (rows[i].safe | (with_fence ? FENCED : 0))))
    printf("Lua %s, %s: %s\n", rows[i].version, rows[i].name, pn_runtime_message(rt));
  pn_limits memory = {.memory = 64 << 20};
  pn_runtime_set_limits(rt, &memory);
  pn_status after = pn_runtime_run_string(rt, "collectgarbage() x = 1", (size_t)-1, "after");
  if (after != PN_OK && after != PN_NOMEM) _exit(97);
  pn_runtime_close(rt);
  fflush(stdout);
  _exit((int)status);
}

static void try_row(size_t i, bool with_fence) {
  int how = 0;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    run_row(i, with_fence);
  }
  CHECK(child > 0 && waitpid(child, &how, 0) == child);
  int safe = rows[i].safe | (with_fence ? FENCED : 0);
  bool ok = WIFEXITED(how) && WEXITSTATUS(how) <= PN_TIME && (1 << WEXITSTATUS(how)) & safe;
  if (!check_record(ok))
    printf("Lua %s, %s%s: %s %d\n", rows[i].version, rows[i].name, with_fence ? " (fenced)" : "",
           WIFSIGNALED(how) ? "killed by signal" : "ended with", WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
}

/* Touches the byte behind a block, or a freed block. */
static int trespass(bool behind) {
  int how = 0;
  pid_t child = fork();
  if (child == 0) {
    fence f = {.page = (size_t)sysconf(_SC_PAGESIZE)};
    signal(SIGSEGV, SIG_DFL);
    f.at = mmap(NULL, SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    f.end = f.at + SPACE;
    volatile char *p = fenced(&f, NULL, 0, 48);
    p[47] = 1;
    if (!behind) fenced(&f, (void *)(uintptr_t)p, 48, 0);
    p[behind ? 48 : 0] = 1;
    _exit(0);
  }
  waitpid(child, &how, 0);
  return WIFSIGNALED(how);
}

int main(void) {
  CHECK(trespass(true) && trespass(false)); /* the fence sees what it is for */
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    for (int with_fence = 0; with_fence < 2; with_fence++)
      if (soak_takes((long)(2 * i) + with_fence)) try_row(i, with_fence);
  CHECK_DONE();
}
