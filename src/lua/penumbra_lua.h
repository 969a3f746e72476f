/*
** penumbra_lua.h: what the files of the binding share. Every binding function has four steps: check the
** arguments (may raise), push the empty boxes, call C inside a scope, fill the boxes or raise. No C
** resource is held across a Lua call that can raise, and no scope is open while Lua code runs. What a call works on
** stays on the Lua stack until it returns (object.c says why).
*/
#ifndef PN_LUA_PENUMBRA_LUA_H
#define PN_LUA_PENUMBRA_LUA_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include "../autodiff/op/op.h"
#include "embedded.h"
#include "object.h"

/* A tensor as Lua sees it; t is NULL while empty and after close. */
typedef struct pni_box {
  pn_tensor *t;
} pni_box;

/* A generator as Lua sees it. */
typedef struct pni_rng_box {
  pn_rng *rng;
} pni_rng_box;

/* A name that a script asked a namespace for in vain, and where. */
typedef struct pni_missed {
  char label[32], key[64], source[LUA_IDSIZE];
  int line; /* 0: none */
} pni_missed;

/* The last operational failure that a script was given, and where: "script:12: ". */
typedef struct pni_failure {
  char where[LUA_IDSIZE + 24], message[256];
} pni_failure;

/* One per Lua state, anchored in its registry; closes a context that it made. */
typedef struct pni_state {
  pn_context *c;
  bool own;
  bool closed; /* the state is closing and the context gone */
  int default_dtype;
  int mode;                  /* pn_mode that scripts' layers are called in */
  size_t debt;               /* bytes of growth the collector has not been told about */
  size_t seen;               /* bytes in use at the last look */
  size_t full;               /* bytes in use above which everything is collected */
  size_t swept;              /* bytes in use after the last collection near the limit, or less */
  const void *box_metatable; /* identity of the tensors' metatable */
  char broken_where[96];     /* the script's line of the failure that broke the capture that goes on, or "" */
  pni_missed missed;         /* last name that was not there */
  pni_failure failed;        /* last failure that was returned */
  int raised;                /* status behind the last error value that pni_raise raised */
  /* Of a runtime: looks at its limits; ends its call with `status` past every pcall. NULL elsewhere. */
  void (*poll)(lua_State *L, uint64_t steps);
  int (*trip)(lua_State *L, pn_status status, const char *what);
} pni_state;

/* The module `penumbra.core`; may be opened any number of times in one state. */
PN_API int luaopen_penumbra_core(lua_State *L);
/* Opens Lua's standard libraries and makes `require "penumbra"` and its parts work from memory. */
void pni_open_libs(lua_State *L);
/* What belongs to this Lua state; NULL before the context is made or set. */
pni_state *pni_lua_state(lua_State *L);
/* The state's context; made on first use. */
pn_context *pni_lua_context(lua_State *L);
/* Gives the state a context before the first use; the state does not close it. */
void pni_lua_set_context(lua_State *L, pn_context *c);

/* ---- errors ---- */

/* Raises `message` (and what) at the line of the script, past the module's own Lua files. */
int pni_error(lua_State *L, const char *format, ...);
/* Raises the context's pending error at the script's line and clears it. */
int pni_raise(lua_State *L, pn_context *c);
/* Raises if somebody cancelled or a limit was reached; for loops over what a script can size, `steps` of which have
 * passed since the last look. Holds nothing, allocates nothing. */
void pni_poll(lua_State *L, uint64_t steps);
/* PN_NOMEM, PN_CANCELLED or PN_TIME if the error value at index i is the last that pni_raise raised for such a
 * failure, else PN_OK. */
pn_status pni_raised(lua_State *L, int i);
/* Clears the pending error and pushes nil, message, code (for operational failures). Returns 3. */
int pni_push_failure(lua_State *L, pn_context *c);
/* Does a chunk with this source (lua_Debug's) belong to Penumbra's own Lua modules? */
bool pni_is_ours(const char *source);
/* Pushes `message` and, a line each, the script's own frames of `of` from `level` outwards. */
void pni_push_traceback(lua_State *L, lua_State *of, const char *message, int level);

/* ---- tensors ---- */

/* Pushes the tensors' metatable, made for the first time. */
void pni_new_box_metatable(lua_State *L);
/* The box at stack index i, empty or not, or NULL. */
pni_box *pni_test_box(lua_State *L, const pni_state *s, int i);
/* The tensor at stack index i, raising if it is none. Borrowed. */
pn_tensor *pni_check_tensor(lua_State *L, int i);
/* The same, or NULL. */
pn_tensor *pni_test_tensor(lua_State *L, int i);
/* The tensor at stack index i, raising "where: role must be a tensor, got ..." if it is none. Borrowed. */
pn_tensor *pni_check_operand(lua_State *L, int i, const char *where, const char *role);
/* Pushes an empty box. */
pni_box *pni_new_box(lua_State *L);
/* Fills a box with one more reference to t and tells the collector about t's memory. */
void pni_fill_box(lua_State *L, pni_box *b, pn_tensor *t);
/* Pushes a box for t (one more reference). May raise for lack of memory: hold nothing. */
void pni_push_tensor(lua_State *L, pn_tensor *t);
/* Tells the collector about memory that boxes have come to hold. */
void pni_tell_collector(lua_State *L);
/* End of a builder call: closes the scope; fills the box on the stack top and returns 1, or raises. */
int pni_finish(lua_State *L, pn_context *c, size_t mark, pni_box *b, pn_tensor *t);
/* Runs a builder expression over `c` in a scope and returns its result from the binding function;
 * when memory is lacking, collects what Lua has dropped and tries once more. No code that can raise
 * inside. */
#define PNI_RETURN(L, c, expr)                                                                                         \
  do {                                                                                                                 \
    pni_box *box_ = pni_new_box(L);                                                                                    \
    for (int again_ = 0;; again_++) {                                                                                  \
      size_t mark_ = pn_scope_open(c);                                                                                 \
      pn_tensor *t_ = (expr);                                                                                          \
      if (t_ || again_ || pn_context_status(c) != PN_NOMEM) return pni_finish(L, c, mark_, box_, t_);                  \
      pni_forget(L, c, mark_);                                                                                         \
    }                                                                                                                  \
  } while (0)
/* Returns the n tensors that an action makes of `in`; nil, message, code where a decomposition does not exist; raises
 * otherwise. bind_linalg.c */
enum { PNI_TENSOR_RESULTS = 6 };
typedef pn_status (*pni_tensor_action)(pn_context *c, pn_tensor *const *in, pn_tensor **out);
int pni_tensor_results(lua_State *L, pn_tensor *const *in, int n, pni_tensor_action f);
/* After a first failure for lack of memory: closes the scope, clears the error, collects garbage. */
void pni_forget(lua_State *L, pn_context *c, size_t mark);
/* Was memory lacking, for the first time of `tries`? Then what Lua has dropped is collected and the error cleared:
 * do { made = ...; } while (!made && pni_again(L, c, &tries)). */
bool pni_again(lua_State *L, pn_context *c, int *tries);
/* Before an object is made: near the limit of memory collects what Lua has dropped. */
void pni_make_room(lua_State *L);
/* A tensor or number at index i as a tensor; numbers take `like`'s dtype (or the default). Scoped. */
pn_tensor *pni_to_tensor(lua_State *L, pn_context *c, int i, const pn_tensor *like);

/* A list of numbers at index i becomes a tensor there, of `like`'s dtype (or the default). */
void pni_list_to_tensor(lua_State *L, int i, const pn_tensor *like);

/* ---- arguments ---- */

/* What the value at index i is: "tensor", "distribution", "table"...; may leave a string on the stack. */
const char *pni_type_name(lua_State *L, int i);
/* The same, or the value itself if it is a number, a string or a boolean; calls no metamethod. */
const char *pni_value_text(lua_State *L, int i);

/* A 1-based or negative axis at index i as C counts it; raises on 0. */
int pni_check_axis(lua_State *L, int i, const char *where);
/* Axes at index i (a number, a list, or nil for all), 1-based or negative, of a tensor of ndim axes. */
pn_axes pni_check_axes(lua_State *L, int i, const char *where, int ndim);
/* One such axis. */
int pni_check_one_axis(lua_State *L, int i, const char *where, int ndim);
/* Position i of a list of n as C counts it, from 1-based or negative; raises outside. */
int64_t pni_check_position(lua_State *L, int i, const char *where, int64_t n);
/* A list of integers (a table at index i, or the numbers from i to the top); returns how many. */
int pni_check_sizes(lua_State *L, int i, const char *where, int max, int64_t *out);
/* The whole number, or number, at index i: the argument `role` of the function `where`. */
int64_t pni_check_whole(lua_State *L, int i, const char *where, const char *role);
double pni_check_number(lua_State *L, int i, const char *where, const char *role);
/* The string at index i, the argument `role` of the function `where`, for C, which reads it to its first zero byte: one
 * that holds such a byte raises. Every name of a file comes to C through one of these. */
const char *pni_check_text(lua_State *L, int i, const char *where, const char *role);
/* The same; nil or nothing there gives `absent`. */
const char *pni_check_optional_text(lua_State *L, int i, const char *where, const char *role, const char *absent);
/* "float64" ... at index i; absent gives `absent`. */
pn_dtype pni_check_dtype(lua_State *L, int i, const char *where, pn_dtype absent);
/* The dtype of numbers that nothing else decides. */
pn_dtype pni_default_dtype(lua_State *L);
/* The numbers from i to `last`. */
int pni_check_numbers(lua_State *L, int i, int last, const char *where, int max, int64_t *out);
/* A generator at index i, or NULL for nil. Borrowed: it must stay on the stack while it is used. */
pn_rng *pni_check_rng(lua_State *L, int i);
/* The option table at index i holds no key outside `names` (NULL-terminated); raises naming the
 * nearest. */
void pni_check_options(lua_State *L, int i, const char *where, const char *const *names);

/* The value at index i is a table of options from `names` and nothing else; raises. */
void pni_check_plain_options(lua_State *L, int i, const char *where, const char *const *names);

/* The latest plan of the compiled function at index i; raises if there is none. Borrowed. */
pn_plan *pni_check_plan(lua_State *L, int i);

/* ---- parts of the module: in this order each adds fields to the core table on the stack top ---- */
#define X(name) void pni_open_##name(lua_State *L);
#include "parts.def"
#undef X
/* Adds the reader of JSON to the table on the stack top. */
void pni_add_json(lua_State *L);

void pni_push_methods(lua_State *L); /* the table of tensor methods */
/* Pushes a list of sizes: of numbers as any other, but for how it prints, "[2, 3]". */
void pni_push_sizes(lua_State *L, int n, const int64_t *shape);
/* Pushes the text of a tensor. */
void pni_push_text(lua_State *L, const pn_tensor *t);
/* __index for keys that are not method names. */
int pni_index(lua_State *L);

#endif
