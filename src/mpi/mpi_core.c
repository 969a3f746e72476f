/*
** mpi_core.c: the module: how MPI begins and ends, waiting, and what one message says when a rank fails.
**
** MPI is one per process, not per Lua state: whoever finds it initialised (a host) leaves its end to the host. What is
** initialised here ends as the process does: a process that ends well says so in a header, so that ranks which wait
** for it raise instead of waiting; one that ends in failure ends the job.
*/
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "mpi_core.h"

static const char link_key = 0;

enum { DEFAULT_TIMEOUT = 1800 };

static const char *const names[] = {
    "the end of the script", "barrier",       "all_reduce",        "broadcast", "gather", "all_gather", "scatter",
    "broadcast_value",       "gather_values", "all_gather_values", "a message"};

const char *mpi_core_name(int64_t call) { return call >= CALL_END && call <= CALL_MESSAGE ? names[call] : "?"; }

MPI_Datatype mpi_core_type(int64_t dtype) {
  switch (dtype) {
  case PN_FLOAT64: return MPI_DOUBLE;
  case PN_FLOAT32: return MPI_FLOAT;
  case PN_INT64: return MPI_INT64_T;
  case PN_BOOL: return MPI_C_BOOL;
  default: return MPI_BYTE;
  }
}

size_t mpi_core_bytes(int64_t dtype) {
  static const size_t size[] = {8, 4, 8, 1};
  return dtype >= 0 && dtype <= PN_BOOL ? size[dtype] : 1;
}

/* ---- ends ---- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void doze(long nanoseconds) {
  struct timespec t = {.tv_nsec = nanoseconds};
  nanosleep(&t, NULL);
}

/* An error that all ranks share is told by rank 0, and what several run into, mostly by the first of them: the others
 * stand back until they are ended. */
void mpi_core_abort(mpi_core_link *m, const char *message) {
  int done = 0;
  if (!MPI_Finalized(&done) && done) _Exit(EXIT_FAILURE);
  fflush(stdout);
  for (int k = m->shared_error && m->rank > 0 ? 100 : m->rank < 50 ? m->rank : 50; k > 0; k--) doze(20000000);
  fprintf(stderr, "penumbra: rank %d of %d ends the job: %s\n", m->rank, m->size, message);
  fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  _Exit(EXIT_FAILURE);
}

/* What MPI keeps from beginning to end is no leak of ours: these are there where a sanitiser is. */
extern void __lsan_disable(void) __attribute__((weak));
extern void __lsan_enable(void) __attribute__((weak));
static void watch_leaks(bool on) {
  if (on && __lsan_enable) __lsan_enable();
  if (!on && __lsan_disable) __lsan_disable();
}

static void finalise(void) {
  watch_leaks(false);
  MPI_Finalize();
  watch_leaks(true);
}

/* Says to the others that this rank has ended, and waits for them to end. */
static void say_end(mpi_core_link *m) {
  int64_t h[HEAD_FIELDS];
  int done = 0;
  MPI_Request r;
  mpi_core_head(h, CALL_END, NULL);
  if (mpi_core_exchange(m, h, &r)) return;
  while (!MPI_Test(&r, &done, MPI_STATUS_IGNORE) && !done) doze(200000);
  m->shared_error = true;
  if (!mpi_core_same(m, HEAD_CALL)) mpi_core_abort(m, "its script has ended while others wait in a collective");
  finalise();
}

static void at_exit(int code, void *data) {
  mpi_core_link *m = data;
  char text[96];
  int done = 0;
  if (MPI_Finalized(&done) || done) return;
  snprintf(text, sizeof text, "it ended with code %d", code);
  if (m->size == 1) {
    finalise();
    return;
  }
  if (code) mpi_core_abort(m, text);
  if (m->broken) mpi_core_abort(m, "it had given up waiting for others");
  say_end(m);
}

#ifdef __GLIBC__
static int note_end(mpi_core_link *m) { return on_exit(at_exit, m); }
#else
/* (Without on_exit the code is unknown; ranks that wait are told by the header. One process has one such link.) */
static mpi_core_link *noted;
static void at_end(void) { at_exit(0, noted); }
static int note_end(mpi_core_link *m) {
  noted = m;
  return atexit(at_end);
}
#endif

/* Called by the command with the message of an error that nothing has caught: registry field "penumbra.failed". */
static int l_failed(lua_State *L) {
  mpi_core_link *m = lua_touserdata(L, lua_upvalueindex(1));
  const char *message = lua_tostring(L, 1);
  mpi_core_abort(m, message ? message : "an error without a message");
  return 0;
}

/* ---- beginning ---- */

/* The larger (or smaller) of two, a NaN where either is one. */
#define EXTREME(name, type, better)                                                                                    \
  static void name(void *in, void *inout, int *n, MPI_Datatype *d) {                                                   \
    const type *x = in;                                                                                                \
    type *y = inout;                                                                                                   \
    (void)d;                                                                                                           \
    for (int k = 0; k < *n; k++)                                                                                       \
      if (!(y[k] better x[k]) && y[k] == y[k]) y[k] = x[k];                                                            \
  }
EXTREME(largest_f64, double, >)
EXTREME(largest_f32, float, >)
EXTREME(smallest_f64, double, <)
EXTREME(smallest_f32, float, <)
#undef EXTREME

static void make_ops(mpi_core_link *m) {
  MPI_Op_create(largest_f64, 1, &m->op[0][PN_FLOAT64]);
  MPI_Op_create(largest_f32, 1, &m->op[0][PN_FLOAT32]);
  MPI_Op_create(smallest_f64, 1, &m->op[1][PN_FLOAT64]);
  MPI_Op_create(smallest_f32, 1, &m->op[1][PN_FLOAT32]);
}

extern char **environ;

/* Copies of the environment's strings, NULL-terminated; NULL where there is no memory. */
static char **copy_environment(void) {
  size_t n = 0;
  while (environ && environ[n]) n++;
  char **copy = calloc(n + 1, sizeof *copy);
  for (size_t k = 0; copy && k < n; k++) copy[k] = strdup(environ[k]);
  return copy;
}

static bool has_name(char *const *list, const char *name, size_t n) {
  for (; *list; list++)
    if (strncmp(*list, name, n) == 0 && (*list)[n] == '=') return true;
  return false;
}

/* Takes out what was not there in `before`, which it frees: what MPI leaves for itself would lead an mpirun astray that
 * the script starts. */
static void restore_environment(char **before) {
  for (size_t k = 0; before && environ && environ[k];) {
    char name[256];
    size_t n = strcspn(environ[k], "=");
    bool kept = n >= sizeof name || has_name(before, environ[k], n);
    if (!kept) {
      memcpy(name, environ[k], n);
      name[n] = '\0';
    }
    if (kept || unsetenv(name)) k++;
  }
  for (size_t k = 0; before && before[k]; k++) free(before[k]);
  free(before);
}

/* Initialises MPI. A process that no mpirun has started starts no daemon either. */
static bool initialise(void) {
  int level;
  char **before = copy_environment();
  setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
  bool done = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) == MPI_SUCCESS;
  restore_environment(before);
  return done;
}

/* A process that no mpirun has started is one rank. Returns what is wrong, or NULL. */
static const char *begin(mpi_core_link *m) {
  int on = 0, level = MPI_THREAD_SINGLE, main_thread = 0;
  MPI_Finalized(&on);
  if (on) return "MPI has been finalised in this process";
  MPI_Initialized(&on);
  if (!on) {
    if (!initialise()) return "MPI could not be initialised";
    m->ours = true;
  }
  MPI_Query_thread(&level);
  MPI_Is_thread_main(&main_thread);
  if (level < MPI_THREAD_SERIALIZED && !main_thread)
    return "MPI was initialised for one thread (below MPI_THREAD_SERIALIZED), and this is another";
  if (MPI_Comm_dup(MPI_COMM_WORLD, &m->together) || MPI_Comm_dup(MPI_COMM_WORLD, &m->between))
    return "MPI gave no communicator";
  MPI_Comm_set_errhandler(m->together, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(m->between, MPI_ERRORS_RETURN);
  MPI_Comm_rank(m->together, &m->rank);
  MPI_Comm_size(m->together, &m->size);
  make_ops(m);
  return m->ours && note_end(m) ? "no memory" : NULL;
}

static mpi_core_link *new_link(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, PNI_ACCESS);
  const pni_access *access = lua_touserdata(L, -1);
  if (!access || access->size != sizeof *access || strcmp(access->version, PN_VERSION) != 0)
    luaL_error(L, "mpi: penumbra.mpi_core belongs to another version of Penumbra than penumbra.core");
  mpi_core_link *m = calloc(1, sizeof *m);
  if (!m) luaL_error(L, "not enough memory");
  m->access = access;
  m->timeout = DEFAULT_TIMEOUT;
  lua_pushlightuserdata(L, m);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &link_key);
  watch_leaks(false);
  const char *wrong = begin(m);
  watch_leaks(true);
  if (wrong) {
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &link_key);
    access->error(L, "mpi: %s", wrong);
  }
  if (m->ours && m->size > 1) {
    lua_pushlightuserdata(L, m);
    lua_pushcclosure(L, l_failed, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "penumbra.failed");
  }
  return m;
}

mpi_core_link *mpi_core_check(lua_State *L, const char *where) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &link_key);
  mpi_core_link *m = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (!m) m = new_link(L);
  m->access->refuse_capture(L, where);
  int done = 0;
  MPI_Finalized(&done);
  if (done) m->access->error(L, "%s: MPI has been finalised in this process", where);
  if (m->broken) m->access->error(L, "%s: an earlier call had given up waiting; the job can only end", where);
  m->shared_error = false;
  return m;
}

/* ---- waiting ---- */

void mpi_core_status(lua_State *L, mpi_core_link *m, const char *where, int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int n = 0;
  if (code == MPI_SUCCESS) return;
  MPI_Error_string(code, text, &n);
  m->broken = true;
  m->access->error(L, "%s: MPI says: %s", where, text);
}

static void give_up(lua_State *L, mpi_core_link *m, const char *where, const char *whom) {
  m->broken = true;
  for (int k = 1, n = lua_gettop(L); k <= n; k++) { /* MPI may still read and write there */
    lua_pushvalue(L, k);
    luaL_ref(L, LUA_REGISTRYINDEX);
  }
  m->access->poll(L);
  lua_pushnumber(L, m->timeout);
  m->access->error(L,
                   "%s: rank %d has waited %s s for %s; have they ended, do they call something else, or do they "
                   "need longer (pn.mpi.timeout)?",
                   where, m->rank, lua_tostring(L, -1), whom);
}

/* Looks often at first, then lets others have the processor, then sleeps a little in between. */
void mpi_core_wait(lua_State *L, mpi_core_link *m, const char *where, const char *whom, MPI_Request *r, MPI_Status *s) {
  enum { SPINS = 2000 };
  double start = 0, t;
  for (int done = 0, k = 0;; k++) {
    mpi_core_status(L, m, where, MPI_Test(r, &done, s));
    if (done) return;
    if (k < SPINS) continue;
    t = now();
    if (k == SPINS) start = t;
    if (m->access->is_over(L) || (m->timeout > 0 && t - start > m->timeout)) give_up(L, m, where, whom);
    if (t - start > 0.2)
      doze(50000);
    else
      sched_yield();
  }
}

int mpi_core_rank(lua_State *L, mpi_core_link *m, int i, const char *where, const char *role) {
  int whole = 0;
  lua_Integer n = lua_tointegerx(L, i, &whole);
  if (lua_type(L, i) != LUA_TNUMBER || !whole || n < 0 || n >= m->size)
    m->access->error(L, "%s: %s must be a rank, 0 to %d, got %s", where, role, m->size - 1, luaL_tolstring(L, i, NULL));
  return (int)n;
}

/* ---- the module ---- */

static int l_rank(lua_State *L) {
  lua_pushinteger(L, mpi_core_check(L, "rank")->rank);
  return 1;
}

static int l_size(lua_State *L) {
  lua_pushinteger(L, mpi_core_check(L, "size")->size);
  return 1;
}

/* timeout([seconds]) -> seconds */
static int l_timeout(lua_State *L) {
  mpi_core_link *m = mpi_core_check(L, "timeout");
  if (!lua_isnoneornil(L, 1)) {
    lua_Number s = lua_tonumber(L, 1);
    if (lua_type(L, 1) != LUA_TNUMBER || !(s >= 0))
      m->access->error(L, "timeout: seconds must be a number from 0 (for ever) on, got %s", luaL_tolstring(L, 1, NULL));
    m->timeout = s > 1e9 ? 0 : s;
  }
  lua_pushnumber(L, m->timeout);
  return 1;
}

/* abort(message): ends the job */
static int l_abort(lua_State *L) {
  mpi_core_link *m = mpi_core_check(L, "abort");
  mpi_core_abort(m, luaL_checkstring(L, 1));
  return 0;
}

/* fail(message): an error that all ranks raise; where nothing catches it rank 0 tells it */
static int l_fail(lua_State *L) {
  mpi_core_link *m = mpi_core_check(L, "fail");
  m->shared_error = true;
  return m->access->error(L, "%s", luaL_checkstring(L, 1));
}

static const luaL_Reg functions[] = {{"rank", l_rank},   {"size", l_size}, {"timeout", l_timeout},
                                     {"abort", l_abort}, {"fail", l_fail}, {NULL, NULL}};

PN_API int luaopen_penumbra_mpi_core(lua_State *L);
int luaopen_penumbra_mpi_core(lua_State *L) {
  luaL_newlib(L, functions);
  luaL_setfuncs(L, mpi_core_collectives, 0);
  luaL_setfuncs(L, mpi_core_messages, 0);
  return 1;
}
