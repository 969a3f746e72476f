/*
** point_to_point.c: from one rank to another. A header, then the numbers or the text, both under the caller's tag: MPI
** keeps the order of messages of one sender under one tag.
*/
#include <stdio.h>
#include <string.h>
#include "mpi_core.h"

enum { LARGEST_TAG = 32767 };

/* What goes out: its header lives on Lua's stack until it is sent. */
typedef struct mpi_core_outgoing {
  int64_t head[HEAD_FIELDS];
  const char *data;
  int64_t bytes;
  MPI_Request request;
} mpi_core_outgoing;

static int tag_of(lua_State *L, mpi_core_link *m, int i, const char *where) {
  int whole = 0;
  if (lua_isnoneornil(L, i)) return 0;
  lua_Integer n = lua_tointegerx(L, i, &whole);
  if (lua_type(L, i) != LUA_TNUMBER || !whole || n < 0 || n > LARGEST_TAG)
    m->access->error(L, "%s: tag must be a whole number, 0 to %d, got %s", where, LARGEST_TAG,
                     luaL_tolstring(L, i, NULL));
  return (int)n;
}

/* The tensor or text at index 1, ready to go; pushes what holds it. */
static mpi_core_outgoing *outgoing(lua_State *L, mpi_core_link *m, const char *where) {
  pni_elements x = {0};
  size_t n = 0;
  const char *text = lua_type(L, 1) == LUA_TSTRING ? lua_tolstring(L, 1, &n) : NULL;
  if (!text) m->access->look(L, 1, where, "t", &x);
  mpi_core_outgoing *out = lua_newuserdatauv(L, sizeof *out, 0);
  mpi_core_head(out->head, CALL_MESSAGE, text ? NULL : &x);
  if (text) {
    out->head[HEAD_DTYPE] = MPI_CORE_TEXT;
    out->head[HEAD_SHAPE] = (int64_t)n;
  }
  out->data = text ? text : x.data;
  out->bytes = (int64_t)(text ? n : x.bytes);
  return out;
}

/* Bytes go in pieces, since MPI counts in int. */
static int piece(int64_t left) { return left > 1 << 30 ? 1 << 30 : (int)left; }

static void post_head(lua_State *L, mpi_core_link *m, const char *where, mpi_core_outgoing *out, int to, int tag) {
  mpi_core_status(L, m, where, MPI_Isend(out->head, HEAD_FIELDS, MPI_INT64_T, to, tag, m->between, &out->request));
}

static void finish(lua_State *L, mpi_core_link *m, const char *where, mpi_core_outgoing *out, int to, int tag) {
  char whom[48];
  snprintf(whom, sizeof whom, "rank %d to receive", to);
  mpi_core_wait(L, m, where, whom, &out->request, MPI_STATUS_IGNORE);
  for (int64_t k = 0, n; k < out->bytes; k += n) {
    n = piece(out->bytes - k);
    mpi_core_status(L, m, where, MPI_Isend(out->data + k, (int)n, MPI_BYTE, to, tag, m->between, &out->request));
    mpi_core_wait(L, m, where, whom, &out->request, MPI_STATUS_IGNORE);
  }
}

/* Takes the numbers or the text of which `head` has come; pushes it. */
static void take(lua_State *L, mpi_core_link *m, const char *where, const int64_t *head, int from, int tag) {
  pni_elements x = {.dtype = (int)head[HEAD_DTYPE], .ndim = (int)head[HEAD_NDIM]};
  luaL_Buffer b;
  bool text = head[HEAD_DTYPE] == MPI_CORE_TEXT;
  int64_t bytes = head[HEAD_SHAPE];
  for (int k = 0; !text && k < x.ndim; k++) x.shape[k] = head[HEAD_SHAPE + k];
  char *at = text ? luaL_buffinitsize(L, &b, (size_t)bytes) : m->access->make(L, &x);
  if (!text) bytes = (int64_t)x.bytes;
  for (int64_t k = 0, n; k < bytes; k += n) {
    n = piece(bytes - k);
    mpi_core_status(L, m, where, MPI_Recv(at + k, (int)n, MPI_BYTE, from, tag, m->between, MPI_STATUS_IGNORE));
  }
  if (text) luaL_pushresultsize(&b, (size_t)bytes);
}

/* Waits for a message of a rank, -1: any; pushes what came and who sent it. */
static int receive(lua_State *L, mpi_core_link *m, const char *where, int from, int tag) {
  char whom[48];
  MPI_Status s;
  MPI_Request r;
  int64_t *head = lua_newuserdatauv(L, HEAD_FIELDS * sizeof *head, 0);
  if (from < 0)
    snprintf(whom, sizeof whom, "a message of any rank");
  else
    snprintf(whom, sizeof whom, "a message of rank %d", from);
  mpi_core_status(L, m, where,
                  MPI_Irecv(head, HEAD_FIELDS, MPI_INT64_T, from < 0 ? MPI_ANY_SOURCE : from, tag, m->between, &r));
  mpi_core_wait(L, m, where, whom, &r, &s);
  take(L, m, where, head, s.MPI_SOURCE, tag);
  lua_pushinteger(L, s.MPI_SOURCE);
  return 2;
}

/* send(tensor or text, to [, tag]) */
static int l_send(lua_State *L) {
  mpi_core_link *m = mpi_core_check(L, "send");
  int to = mpi_core_rank(L, m, 2, "send", "to"), tag = tag_of(L, m, 3, "send");
  if (to == m->rank) m->access->error(L, "send: rank %d sends to itself, which only exchange can", to);
  mpi_core_outgoing *out = outgoing(L, m, "send");
  post_head(L, m, "send", out, to, tag);
  finish(L, m, "send", out, to, tag);
  return 0;
}

/* receive([from [, tag]]) -> what came, from */
static int l_receive(lua_State *L) {
  mpi_core_link *m = mpi_core_check(L, "receive");
  int from = lua_isnoneornil(L, 1) ? -1 : mpi_core_rank(L, m, 1, "receive", "from");
  if (m->size == 1 || from == m->rank)
    m->access->error(L, "receive: rank %d gets no message from itself, there %s", m->rank,
                     m->size == 1 ? "is no other rank" : "are others");
  return receive(L, m, "receive", from, tag_of(L, m, 2, "receive"));
}

/* exchange(tensor or text, to, from [, tag]) -> what came: both at a time, so that a ring of ranks does not wait for
 * itself */
static int l_exchange(lua_State *L) {
  static const char where[] = "exchange";
  char whom[48];
  MPI_Request data = MPI_REQUEST_NULL;
  mpi_core_link *m = mpi_core_check(L, where);
  int to = mpi_core_rank(L, m, 2, where, "to"), from = mpi_core_rank(L, m, 3, where, "from");
  int tag = tag_of(L, m, 4, where);
  mpi_core_outgoing *out = outgoing(L, m, where);
  if (out->bytes > 1 << 30) m->access->error(L, "%s: at most %d bytes at a time", where, 1 << 30);
  post_head(L, m, where, out, to, tag);
  if (out->bytes)
    mpi_core_status(L, m, where, MPI_Isend(out->data, (int)out->bytes, MPI_BYTE, to, tag, m->between, &data));
  receive(L, m, where, from, tag);
  lua_pop(L, 1);
  snprintf(whom, sizeof whom, "rank %d to receive", to);
  mpi_core_wait(L, m, where, whom, &out->request, MPI_STATUS_IGNORE);
  mpi_core_wait(L, m, where, whom, &data, MPI_STATUS_IGNORE);
  return 1;
}

const luaL_Reg mpi_core_messages[] = {{"send", l_send}, {"receive", l_receive}, {"exchange", l_exchange}, {NULL, NULL}};
