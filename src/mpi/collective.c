/*
** collective.c: what all ranks do together. Results are new tensors, written by MPI where they stay; what is given is
** read where it lies.
*/
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "mpi_core.h"

/* The ways of all_reduce. */
enum { HOW_SUM, HOW_MEAN, HOW_MAX, HOW_MIN, HOW_PROD };
static const char *const hows[] = {"sum", "mean", "max", "min", "prod", NULL};

/* ---- headers ---- */

void mpi_core_head(int64_t h[HEAD_FIELDS], mpi_core_call call, const pni_elements *x) {
  for (int k = 0; k < HEAD_FIELDS; k++) h[k] = 0;
  h[HEAD_CALL] = (int64_t)call;
  if (!x) return;
  h[HEAD_DTYPE] = x->dtype;
  h[HEAD_NDIM] = x->ndim;
  for (int k = 0; k < x->ndim; k++) h[HEAD_SHAPE + k] = x->shape[k];
}

/* A rank that is to learn from another which tensor it will be. */
static void open_head(int64_t h[HEAD_FIELDS]) {
  h[HEAD_DTYPE] = h[HEAD_NDIM] = MPI_CORE_OPEN;
  for (int k = HEAD_SHAPE; k < HEAD_FIELDS; k++) h[k] = MPI_CORE_OPEN;
}

/* The largest of each field and of its negative: both, where all are the same. */
int mpi_core_exchange(mpi_core_link *m, const int64_t h[HEAD_FIELDS], MPI_Request *r) {
  for (int k = 0; k < HEAD_FIELDS; k++) {
    m->sent[k] = h[k];
    m->sent[k + HEAD_FIELDS] = h[k] == MPI_CORE_OPEN ? MPI_CORE_OPEN : -h[k];
  }
  return MPI_Iallreduce(m->sent, m->got, 2 * HEAD_FIELDS, MPI_INT64_T, MPI_MAX, m->together, r);
}

bool mpi_core_same(const mpi_core_link *m, int k) {
  return m->got[k + HEAD_FIELDS] == MPI_CORE_OPEN || m->got[k] == -m->got[k + HEAD_FIELDS];
}

static int64_t least(const mpi_core_link *m, int k) { return -m->got[k + HEAD_FIELDS]; }

static const char *dtype_text(int64_t dtype) {
  static const char *const text[] = {"float64", "float32", "int64", "bool"};
  return dtype >= 0 && dtype <= PN_BOOL ? text[dtype] : "?";
}

static void differ(lua_State *L, mpi_core_link *m, const char *where, const char *what, const char *a, const char *b) {
  m->shared_error = true;
  m->access->error(L, "%s: the ranks differ in %s: %s and %s (this is rank %d)", where, what, a, b, m->rank);
}

static void differ_in_number(lua_State *L, mpi_core_link *m, const char *where, const char *what, int k) {
  char a[24], b[24];
  snprintf(a, sizeof a, "%lld", (long long)least(m, k));
  snprintf(b, sizeof b, "%lld", (long long)m->got[k]);
  differ(L, m, where, what, a, b);
}

/* Exchanges headers; raises on all ranks where they differ. m->got then has what all share. */
static void agree(lua_State *L, mpi_core_link *m, const int64_t h[HEAD_FIELDS]) {
  const char *where = mpi_core_name(h[HEAD_CALL]);
  char axis[40];
  MPI_Request r;
  mpi_core_status(L, m, where, mpi_core_exchange(m, h, &r));
  mpi_core_wait(L, m, where, "the other ranks", &r, MPI_STATUS_IGNORE);
  if (!mpi_core_same(m, HEAD_CALL))
    differ(L, m, where, "what they call", mpi_core_name(least(m, HEAD_CALL)), mpi_core_name(m->got[HEAD_CALL]));
  if (!mpi_core_same(m, HEAD_ROOT)) differ_in_number(L, m, where, "root", HEAD_ROOT);
  if (!mpi_core_same(m, HEAD_HOW)) differ(L, m, where, "op", hows[least(m, HEAD_HOW)], hows[m->got[HEAD_HOW]]);
  if (!mpi_core_same(m, HEAD_DTYPE))
    differ(L, m, where, "dtype", dtype_text(least(m, HEAD_DTYPE)), dtype_text(m->got[HEAD_DTYPE]));
  if (!mpi_core_same(m, HEAD_NDIM)) differ_in_number(L, m, where, "the number of axes", HEAD_NDIM);
  for (int k = 0; k < PN_MAX_DIMS; k++) {
    snprintf(axis, sizeof axis, "the size of axis %d", k + 1);
    if (!mpi_core_same(m, HEAD_SHAPE + k)) differ_in_number(L, m, where, axis, HEAD_SHAPE + k);
  }
}

/* What a header says, as a tensor that is to be made. */
static void spec_of(const int64_t *h, pni_elements *out) {
  out->dtype = (int)h[HEAD_DTYPE];
  out->ndim = (int)h[HEAD_NDIM];
  memset(out->shape, 0, sizeof out->shape);
  for (int k = 0; k < out->ndim; k++) out->shape[k] = h[HEAD_SHAPE + k];
}

/* MPI counts in int: calls with these many elements at a time. */
static int piece(int64_t left) { return left > 1 << 30 ? 1 << 30 : (int)left; }

static int one_count(lua_State *L, mpi_core_link *m, const char *where, int64_t n) {
  if (n > INT_MAX) {
    m->shared_error = true;
    m->access->error(L, "%s: at most %d elements of a rank at a time, got %I", where, INT_MAX, (LUAI_UACINT)n);
  }
  return (int)n;
}

/* ---- tensors ---- */

static int l_barrier(lua_State *L) {
  int64_t h[HEAD_FIELDS];
  mpi_core_link *m = mpi_core_check(L, "barrier");
  mpi_core_head(h, CALL_BARRIER, NULL);
  agree(L, m, h);
  return 0;
}

/* The operation of MPI; raises where the dtype has none. */
static MPI_Op op_of(lua_State *L, mpi_core_link *m, int how, int dtype) {
  bool ordered = how == HOW_MAX || how == HOW_MIN;
  if (dtype == PN_BOOL && !ordered)
    m->access->error(L, "all_reduce: a bool tensor has \"max\" (any) and \"min\" (all) only, got \"%s\"", hows[how]);
  if (dtype == PN_INT64 && how == HOW_MEAN)
    m->access->error(L, "all_reduce: \"mean\" is of float64 and float32, got an int64 tensor");
  if (!ordered) return how == HOW_PROD ? MPI_PROD : MPI_SUM;
  if (dtype == PN_BOOL) return how == HOW_MAX ? MPI_LOR : MPI_LAND;
  if (dtype == PN_INT64) return how == HOW_MAX ? MPI_MAX : MPI_MIN;
  return m->op[how == HOW_MIN][dtype];
}

static int how_of(lua_State *L, mpi_core_link *m, int i) {
  const char *given = lua_isnoneornil(L, i) ? "sum" : lua_type(L, i) == LUA_TSTRING ? lua_tostring(L, i) : "";
  for (int k = 0; hows[k]; k++)
    if (strcmp(hows[k], given) == 0) return k;
  return m->access->error(L, "all_reduce: op must be \"sum\", \"mean\", \"max\", \"min\" or \"prod\", got %s",
                          luaL_tolstring(L, i, NULL));
}

static void divide(void *data, const pni_elements *x, int n) {
  double *d = data;
  float *f = data;
  for (int64_t k = 0; k < x->numel; k++)
    if (x->dtype == PN_FLOAT64)
      d[k] /= n;
    else
      f[k] /= (float)n;
}

/* all_reduce(t [, op]) */
static int l_all_reduce(lua_State *L) {
  static const char where[] = "all_reduce";
  int64_t h[HEAD_FIELDS];
  pni_elements x, y;
  mpi_core_link *m = mpi_core_check(L, where);
  m->access->look(L, 1, where, "t", &x);
  int how = how_of(L, m, 2);
  MPI_Op op = op_of(L, m, how, x.dtype);
  mpi_core_head(h, CALL_ALL_REDUCE, &x);
  h[HEAD_HOW] = how;
  lua_settop(L, 1);
  y = x;
  char *to = m->access->make(L, &y);
  agree(L, m, h);
  size_t size = mpi_core_bytes(x.dtype);
  for (int64_t k = 0, n; k < x.numel; k += n) {
    n = piece(x.numel - k);
    size_t at = (size_t)k * size;
    mpi_core_status(L, m, where,
                    MPI_Allreduce((const char *)x.data + at, to + at, (int)n, mpi_core_type(x.dtype), op, m->together));
  }
  if (how == HOW_MEAN) divide(to, &y, m->size);
  return 1;
}

/* broadcast(t [, root]): t is read on root alone; elsewhere it may be nil */
static int l_broadcast(lua_State *L) {
  static const char where[] = "broadcast";
  int64_t h[HEAD_FIELDS];
  pni_elements x;
  mpi_core_link *m = mpi_core_check(L, where);
  int root = lua_isnoneornil(L, 2) ? 0 : mpi_core_rank(L, m, 2, where, "root");
  lua_settop(L, 1);
  bool given = m->rank == root || !lua_isnil(L, 1);
  if (given) m->access->look(L, 1, where, "t", &x);
  mpi_core_head(h, CALL_BROADCAST, given ? &x : NULL);
  if (!given) open_head(h);
  h[HEAD_ROOT] = root;
  agree(L, m, h);
  char *at = given ? (char *)x.data : NULL;
  if (m->rank != root) {
    spec_of(m->got, &x);
    at = m->access->make(L, &x);
  }
  for (int64_t k = 0, n; k < x.numel; k += n) {
    n = piece(x.numel - k);
    mpi_core_status(
        L, m, where,
        MPI_Bcast(at + (size_t)k * mpi_core_bytes(x.dtype), (int)n, mpi_core_type(x.dtype), root, m->together));
  }
  return 1;
}

/* [size, ...] of x. */
static void *make_rows(lua_State *L, mpi_core_link *m, const char *where, const pni_elements *x) {
  pni_elements y = *x;
  if (x->ndim == PN_MAX_DIMS)
    m->access->error(L, "%s: t must have less than %d axes, got %d", where, PN_MAX_DIMS, x->ndim);
  y.ndim++;
  y.shape[0] = m->size;
  for (int k = 0; k < x->ndim; k++) y.shape[k + 1] = x->shape[k];
  return m->access->make(L, &y);
}

/* gather(t [, root]) -> [size, ...] on root, nothing elsewhere; all_gather(t) -> the same on all */
static int gather(lua_State *L, mpi_core_call call) {
  const char *where = mpi_core_name((int64_t)call);
  int64_t h[HEAD_FIELDS];
  pni_elements x;
  mpi_core_link *m = mpi_core_check(L, where);
  bool all = call == CALL_ALL_GATHER;
  int root = all || lua_isnoneornil(L, 2) ? 0 : mpi_core_rank(L, m, 2, where, "root");
  lua_settop(L, 1);
  m->access->look(L, 1, where, "t", &x);
  void *to = all || m->rank == root ? make_rows(L, m, where, &x) : NULL;
  mpi_core_head(h, call, &x);
  h[HEAD_ROOT] = root;
  agree(L, m, h);
  int n = one_count(L, m, where, x.numel);
  MPI_Datatype type = mpi_core_type(x.dtype);
  mpi_core_status(L, m, where,
                  all ? MPI_Allgather(x.data, n, type, to, n, type, m->together)
                      : MPI_Gather(x.data, n, type, to, n, type, root, m->together));
  return to ? 1 : 0;
}

static int l_gather(lua_State *L) { return gather(L, CALL_GATHER); }

static int l_all_gather(lua_State *L) { return gather(L, CALL_ALL_GATHER); }

/* scatter(t [, root]): t [size, ...] on root; its row of the rank */
static int l_scatter(lua_State *L) {
  static const char where[] = "scatter";
  int64_t h[HEAD_FIELDS];
  pni_elements x = {0}, y;
  mpi_core_link *m = mpi_core_check(L, where);
  int root = lua_isnoneornil(L, 2) ? 0 : mpi_core_rank(L, m, 2, where, "root");
  lua_settop(L, 1);
  mpi_core_head(h, CALL_SCATTER, NULL);
  open_head(h);
  h[HEAD_ROOT] = root;
  if (m->rank == root) {
    m->access->look(L, 1, where, "t", &x);
    if (x.ndim == 0 || x.shape[0] != m->size)
      m->access->error(L, "%s: t must have %d rows, one of each rank, along its first axis", where, m->size);
    y = x;
    y.ndim--;
    for (int k = 0; k < y.ndim; k++) y.shape[k] = x.shape[k + 1];
    mpi_core_head(h, CALL_SCATTER, &y);
    h[HEAD_ROOT] = root;
  }
  agree(L, m, h);
  spec_of(m->got, &y);
  void *to = m->access->make(L, &y);
  int n = one_count(L, m, where, y.numel);
  MPI_Datatype type = mpi_core_type(y.dtype);
  mpi_core_status(L, m, where, MPI_Scatter(x.data, n, type, to, n, type, root, m->together));
  return 1;
}

/* ---- texts ---- */

/* broadcast_text(text, root): text is read on root alone */
static int l_broadcast_text(lua_State *L) {
  static const char where[] = "broadcast_value";
  int64_t h[HEAD_FIELDS];
  size_t n = 0;
  mpi_core_link *m = mpi_core_check(L, where);
  int root = lua_isnoneornil(L, 2) ? 0 : mpi_core_rank(L, m, 2, where, "root");
  lua_settop(L, 1);
  const char *text = m->rank == root ? luaL_checklstring(L, 1, &n) : NULL;
  mpi_core_head(h, CALL_BROADCAST_VALUE, NULL);
  open_head(h);
  h[HEAD_ROOT] = root;
  if (text) h[HEAD_SHAPE] = (int64_t)n;
  agree(L, m, h);
  int count = one_count(L, m, where, m->got[HEAD_SHAPE]);
  luaL_Buffer b;
  char *at = text ? (char *)text : luaL_buffinitsize(L, &b, (size_t)count);
  mpi_core_status(L, m, where, MPI_Bcast(at, count, MPI_BYTE, root, m->together));
  if (text)
    lua_pushvalue(L, 1);
  else
    luaL_pushresultsize(&b, (size_t)count);
  return 1;
}

/* The lengths of all ranks' texts, where each begins, and a list of the texts cut from `all`. */
typedef struct mpi_core_lengths {
  int *count, *from;
  int64_t total;
} mpi_core_lengths;

static mpi_core_lengths lengths(lua_State *L, mpi_core_link *m, const char *where, int n) {
  mpi_core_lengths l = {.total = 0};
  l.count = lua_newuserdatauv(L, 2 * (size_t)m->size * sizeof *l.count, 0);
  l.from = l.count + m->size;
  mpi_core_status(L, m, where, MPI_Allgather(&n, 1, MPI_INT, l.count, 1, MPI_INT, m->together));
  for (int k = 0; k < m->size; k++) {
    l.from[k] = (int)l.total;
    l.total += l.count[k];
    one_count(L, m, where, l.total);
  }
  return l;
}

/* gather_texts(text, root or nil): a list of all ranks' texts on root, nothing elsewhere; on all where root is nil */
static int l_gather_texts(lua_State *L) {
  int64_t h[HEAD_FIELDS];
  size_t size;
  bool all = lua_isnoneornil(L, 2);
  mpi_core_call call = all ? CALL_ALL_GATHER_VALUES : CALL_GATHER_VALUES;
  const char *where = mpi_core_name((int64_t)call), *text = luaL_checklstring(L, 1, &size);
  mpi_core_link *m = mpi_core_check(L, where);
  int root = all ? 0 : mpi_core_rank(L, m, 2, where, "root");
  mpi_core_head(h, call, NULL);
  h[HEAD_ROOT] = root;
  int n = one_count(L, m, where, (int64_t)size);
  agree(L, m, h);
  mpi_core_lengths l = lengths(L, m, where, n);
  bool here = all || m->rank == root;
  char *to = here ? lua_newuserdatauv(L, (size_t)l.total + 1, 0) : NULL;
  mpi_core_status(L, m, where,
                  all ? MPI_Allgatherv(text, n, MPI_BYTE, to, l.count, l.from, MPI_BYTE, m->together)
                      : MPI_Gatherv(text, n, MPI_BYTE, to, l.count, l.from, MPI_BYTE, root, m->together));
  if (!here) return 0;
  lua_createtable(L, m->size, 0);
  for (int k = 0; k < m->size; k++) {
    lua_pushlstring(L, to + l.from[k], (size_t)l.count[k]);
    lua_rawseti(L, -2, k + 1);
  }
  return 1;
}

const luaL_Reg mpi_core_collectives[] = {{"barrier", l_barrier},
                                         {"all_reduce", l_all_reduce},
                                         {"broadcast", l_broadcast},
                                         {"gather", l_gather},
                                         {"all_gather", l_all_gather},
                                         {"scatter", l_scatter},
                                         {"broadcast_text", l_broadcast_text},
                                         {"gather_texts", l_gather_texts},
                                         {NULL, NULL}};
