/*
** runtime.h: a Lua state with a context of its own, behind limits. One word of every Lua thread (its extra
** space) points to the runtime. A limit trips once per call: from then on every instruction and every call of a
** function, in Lua or C, on every thread, raises again, so that no pcall outlives it; the outermost call reports
** `tripped` whatever Lua says. An operation that was cancelled or ran out of time trips it as well.
**
** What a script can size is paid for: functions in C charge the bytes or elements they go through, and each WORTH of
** them is a look at the limits. One look costs less than going through so much, so loops look often enough.
*/
#ifndef PN_LUA_RUNTIME_RUNTIME_H
#define PN_LUA_RUNTIME_RUNTIME_H

#include <stdio.h>
#include "../../file/file.h"
#include "../penumbra_lua.h"

enum { PNI_INTERVAL = 100, PNI_TRACEBACK = 2048, PNI_WORTH = 1 << 15, PNI_LONG = 1 << 18 };

struct pn_runtime {
  pn_context *c;
  lua_State *L;
  pn_limits limits;
  unsigned libraries;
  pn_output output;
  void *output_data;
  pni_root root; /* below which scripts find files; fd -1: they find none */

  bool running;                   /* a call is in progress */
  lua_State *current;             /* the thread that runs in it */
  pn_status tripped;              /* the limit that ended the current call */
  uint64_t steps;                 /* instructions of the current call */
  uint64_t printed;               /* bytes printed by the current call */
  int interval;                   /* instructions between two looks */
  size_t longest;                 /* of the strings made so far: instructions and calls may go through all of it */
  size_t unseen;                  /* bytes gone through since the last look */
  size_t after_gc;                /* bytes in use after the last forced collection */
  pn_tensor *held[PN_MAX_ARRAYS]; /* what the host borrows until the next call */
  int nheld;

  pn_status status; /* of the last call */
  char message[PNI_MESSAGE];
  char traceback[PNI_TRACEBACK];
};

/* What one entry into Lua is about; bodies find it as their only argument. */
typedef struct pni_job {
  pn_runtime *rt;
  const char *name;   /* of a global, a script or a file */
  const char *script; /* text of `length` bytes */
  size_t length;
  double number;
  int nin, nout;
  const pn_array *in;
  pn_array *out;
  pn_status status; /* what a failure means, when it is not the script's; PN_OK: PN_SCRIPT */
} pni_job;

/* The runtime that a thread belongs to. Only for functions that exist nowhere else. */
static inline pn_runtime *pni_runtime_of(lua_State *L) { return *(pn_runtime **)lua_getextraspace(L); }

/* Runs body(job) in protected mode under the limits and puts down how it ended. */
pn_status pni_runtime_enter(pn_runtime *rt, lua_CFunction body, pni_job *job);
/* In a body: a failure of the host's context c becomes the call's. */
int pni_runtime_host_failed(lua_State *L, pni_job *j, pn_context *c);
/* Fails a call before Lua is entered. */
pn_status pni_runtime_refuse(pn_runtime *rt, pn_status status, const char *format, ...) PNI_PRINTF(3, 4);
/* For bodies: pushes the global j->name; raises PN_MISSING if it is nil. */
void pni_runtime_find(lua_State *L, pni_job *j);
/* Makes the runtime ready for a call; PN_STATE if it is not to be called. */
pn_status pni_runtime_begin(pn_runtime *rt);
/* Gives up what the host has borrowed. */
void pni_runtime_release(pn_runtime *rt);
/* Counts `steps` and raises if a limit was reached. C functions that loop call it as they go. */
void pni_runtime_poll(lua_State *L, uint64_t steps);
/* Charges `bytes` that a function in C is about to go through, and looks at the limits now and then. */
static inline void pni_runtime_charge(lua_State *L, size_t bytes) {
  pn_runtime *rt = pni_runtime_of(L);
  rt->unseen += bytes;
  if (rt->unseen >= PNI_WORTH || rt->tripped) {
    uint64_t steps = rt->unseen / 64;
    rt->unseen = 0;
    pni_runtime_poll(L, steps);
  }
}
/* Raises if a limit has tripped: after a C function that catches errors. */
void pni_runtime_pass_on(lua_State *L);
/* Trips the limit `status` and raises. */
int pni_runtime_trip(lua_State *L, pn_status status, const char *what);
/* May scripts open any path? (Else those below rt->root.) */
static inline bool pni_runtime_trusts(const pn_runtime *rt) { return (rt->libraries & PN_LIB_TRUSTED_IO) != 0; }
/* Counts and delivers what a script prints. */
void pni_runtime_print(lua_State *L, const char *text, size_t length);
/* Job body: opens the libraries that the runtime grants. */
int pni_runtime_open(lua_State *L);

/* Replaces functions of the library table on the stack top by ones that answer to the limits. */
void pni_guard_base(lua_State *L);
void pni_guard_coroutine(lua_State *L);
void pni_guard_string(lua_State *L);
void pni_guard_utf8(lua_State *L);
void pni_guard_number(lua_State *L);
void pni_guard_load(lua_State *L);
void pni_guard_pattern(lua_State *L);
void pni_guard_table(lua_State *L);
/* Makes io, loadfile, dofile, os.remove... and a searcher for require that stay below the root: luaopen_io in place of
 * the stock one, and fields of the table on the stack top. */
int pni_open_io(lua_State *L);
void pni_set_loaders(lua_State *L);
void pni_set_os_files(lua_State *L);
int pni_search_root(lua_State *L);
/* Sets t[name] = f with the old value as upvalue; t is on the stack top. */
void pni_wrap(lua_State *L, const char *name, lua_CFunction f);
/* Runs the wrapped C function in this very frame. */
int pni_original(lua_State *L);
/* lua_load of `length` bytes of text, which looks at the limits as it reads. */
int pni_load_text(lua_State *L, const char *text, size_t length, const char *name);
/* Pushes a function that polls and then calls the function at index i. */
void pni_push_polling(lua_State *L, int i);

#endif
