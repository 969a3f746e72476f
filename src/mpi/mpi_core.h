/*
** mpi_core.h: what the files of the module penumbra.mpi_core share. It hands tensors to MPI as they lie; what goes on
** between ranks is MPI's. Two communicators of its own, so that a host's messages are never met.
**
** Every collective begins with a header: what the rank calls, with which type, shape and root. It is exchanged by one
** small collective whose completion is tested for, with a look at time limit, deadline and cancellation; what the ranks
** disagree on is then an error on all of them, and the numbers follow in MPI's own blocking call, in which nobody has
** to be waited for any more. A message begins with such a header too, so its receiver learns the shape.
*/
#ifndef PN_MPI_MPI_CORE_H
#define PN_MPI_MPI_CORE_H

#include <lauxlib.h>
#include <mpi.h>
#include "../lua/access.h"

/* Fields of a header. A rank that does not know one has MPI_CORE_OPEN there. */
enum { HEAD_CALL, HEAD_DTYPE, HEAD_ROOT, HEAD_HOW, HEAD_NDIM, HEAD_SHAPE, HEAD_FIELDS = HEAD_SHAPE + PN_MAX_DIMS };
#define MPI_CORE_OPEN INT64_MIN

/* What a rank calls: HEAD_CALL. */
typedef enum mpi_core_call {
  CALL_END, /* the script has ended */
  CALL_BARRIER,
  CALL_ALL_REDUCE,
  CALL_BROADCAST,
  CALL_GATHER,
  CALL_ALL_GATHER,
  CALL_SCATTER,
  CALL_BROADCAST_VALUE,
  CALL_GATHER_VALUES,
  CALL_ALL_GATHER_VALUES,
  CALL_MESSAGE /* and what is sent from one to another */
} mpi_core_call;

/* HEAD_DTYPE of text; others are of pn_dtype. */
enum { MPI_CORE_TEXT = 100 };

/* Of a Lua state. Not Lua's memory: MPI may write here until the process ends. */
typedef struct mpi_core_link {
  const pni_access *access;
  MPI_Comm together, between; /* of collectives; of messages */
  MPI_Op op[2][2];            /* largest, smallest, where NaN is both; of float64, float32 */
  int rank, size;
  bool ours;         /* MPI was initialised here, and ends with the process */
  bool broken;       /* a call gave up while MPI still had its memory: only an end is left */
  bool shared_error; /* the last error was raised on all ranks */
  double timeout;    /* seconds that a rank waits for others; 0: for ever */
  int64_t sent[2 * HEAD_FIELDS], got[2 * HEAD_FIELDS];
} mpi_core_link;

/* The state's link, MPI initialised. Raises. */
mpi_core_link *mpi_core_check(lua_State *L, const char *where);
/* The name of a call, as the script has it. */
const char *mpi_core_name(int64_t call);
/* MPI's name of a dtype. */
MPI_Datatype mpi_core_type(int64_t dtype);
/* Bytes of an element. */
size_t mpi_core_bytes(int64_t dtype);
/* Raises for a code that is not MPI_SUCCESS. */
void mpi_core_status(lua_State *L, mpi_core_link *m, const char *where, int code);
/* Waits until the request is done; raises when time is over, and then nothing can be sent any more. `whom` says for
 * whom it waits. */
void mpi_core_wait(lua_State *L, mpi_core_link *m, const char *where, const char *whom, MPI_Request *r, MPI_Status *s);
/* The rank at index i, the argument `role`. Raises. */
int mpi_core_rank(lua_State *L, mpi_core_link *m, int i, const char *where, const char *role);
/* Ends the job with a message. Does not return. */
void mpi_core_abort(mpi_core_link *m, const char *message);

/* ---- collective.c ---- */

/* Fills h: a call, of a tensor or of nothing. */
void mpi_core_head(int64_t h[HEAD_FIELDS], mpi_core_call call, const pni_elements *x);
/* Starts the exchange of the header h in m->sent; m->got has its result when it is done. */
int mpi_core_exchange(mpi_core_link *m, const int64_t h[HEAD_FIELDS], MPI_Request *r);
/* Do all ranks that know have the same in field k? */
bool mpi_core_same(const mpi_core_link *m, int k);
extern const luaL_Reg mpi_core_collectives[];

/* ---- point_to_point.c ---- */

extern const luaL_Reg mpi_core_messages[];

#endif
