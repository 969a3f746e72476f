/*
** sink.c: sinks. The new content goes to a file of its own in the target's folder, is brought to
** disk, and is then renamed onto the target: a reader sees the old file or the new one, and a failure
** on the way leaves the old one. A device or pipe cannot be replaced and is written directly.
*/
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "file.h"

bool pni_is_gz(const char *path) {
  size_t n = strlen(path);
  return n > 3 && strcmp(path + n - 3, ".gz") == 0;
}

static pn_status refuse(const pni_sink *s, const char *what) {
  return pni_fail(s->c, PN_IO, "%s: file '%s' %s: %s", s->where, s->path, what, pni_root_reason(s->c->root, errno));
}

/* ---- opening ---- */

/*
** Temporary files of a target have the names of a few slots. Who writes one holds a lock on it (flock: it ends with the
** process), from right after it is made until it has its new name. So a file in a slot whose lock is to be had was left
** by a process that was killed, and the next save of the same target removes it; what is locked, is no regular file or
** has another name elsewhere is left alone.
*/
enum { SLOTS = 256, GAP = 16 }; /* after so many empty slots in a row no more are looked at */

static void name_slot(pni_sink *s, int k) {
  enum { LONGEST = PNI_FILE_NAME - 32, HASH = 17 };
  int n = (int)strlen(s->target);
  if (n <= LONGEST) {
    snprintf(s->temporary, sizeof s->temporary, "%.*s.penumbra-%d.tmp", (int)LONGEST, s->target, k);
    return;
  }
  uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a: long names that begin alike stay apart */
  for (const char *p = s->target; *p; p++) hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
  snprintf(s->temporary, sizeof s->temporary, "%.*s~%016llx.penumbra-%d.tmp", (int)(LONGEST - HASH), s->target,
           (unsigned long long)hash, k);
}

/* Does the temporary name still stand for the open file? */
static bool is_named(const pni_sink *s, int fd) {
  struct stat here, there;
  return fstat(fd, &here) == 0 && fstatat(s->folder, s->temporary, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

/* Removes the file of the slot if it was left behind. False if there is nothing in the slot. */
static bool clear_slot(const pni_sink *s) {
  struct stat st;
  int fd = openat(s->folder, s->temporary, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return errno != ENOENT;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
      is_named(s, fd))
    unlinkat(s->folder, s->temporary, 0);
  close(fd);
  return true;
}

static void clear_slots(pni_sink *s) {
  for (int k = 0, empty = 0; k < SLOTS && empty < GAP; k++) {
    name_slot(s, k);
    empty = clear_slot(s) ? 0 : empty + 1;
  }
}

/* Locks the new file of the slot. False if another save took it for one that was left, in the moment before. File
 * systems without locks have none to remove, either. */
static bool hold_slot(pni_sink *s) {
  bool lost = flock(s->fd, LOCK_EX | LOCK_NB) != 0 ? errno == EWOULDBLOCK : !is_named(s, s->fd);
  if (!lost) return true;
  close(s->fd);
  s->fd = -1;
  return false;
}

/* A new file beside the target, with the target's permissions if it exists. */
static pn_status open_beside(pni_sink *s, const struct stat *old) {
  clear_slots(s);
  for (int k = 0; k < SLOTS; k++) {
    name_slot(s, k);
    s->fd = openat(s->folder, s->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (s->fd < 0 && errno != EEXIST) break;
    if (s->fd < 0 || !hold_slot(s)) continue;
    if (old && fchmod(s->fd, old->st_mode & 07777) != 0) errno = 0; /* some file systems have no modes */
    return PN_OK;
  }
  return refuse(s, "cannot be written");
}

static pn_status refuse_with(const pni_sink *s, int error) {
  errno = error;
  return refuse(s, "cannot be written");
}

/* Where the bytes go in the end: without a root through symbolic links. */
static pn_status open_folder(pni_sink *s) {
  char real[PATH_MAX];
  const pni_root *r = s->c->root;
  const char *path = !r && realpath(s->path, real) ? real : s->path;
  s->folder = pni_root_folder(r, path, s->target);
  if (s->folder < 0) return refuse(s, "cannot be written");
  return r && !r->writable ? refuse_with(s, EROFS) : PN_OK;
}

static pn_status open_target(pni_sink *s) {
  struct stat st;
  if (open_folder(s) != PN_OK) return s->c->status;
  if (fstatat(s->folder, s->target, &st, s->c->root ? AT_SYMLINK_NOFOLLOW : 0) != 0)
    return errno == ENOENT ? open_beside(s, NULL) : refuse(s, "cannot be written");
  if (S_ISDIR(st.st_mode)) return refuse_with(s, EISDIR);
  if (S_ISREG(st.st_mode)) {
    if (faccessat(s->folder, s->target, W_OK, 0) != 0) return refuse(s, "cannot be written");
    return open_beside(s, &st);
  }
  if (s->c->root) return refuse_with(s, S_ISLNK(st.st_mode) ? ELOOP : ENODEV);
  s->direct = true;
  s->fd = openat(s->folder, s->target, O_WRONLY | O_CLOEXEC);
  return s->fd < 0 ? refuse(s, "cannot be written") : PN_OK;
}

static void discard(pni_sink *s) {
  if (s->packed) deflateEnd(&s->z);
  pni_free(s->c, s->buf);
  pni_free(s->c, s->pack);
  if (s->fd >= 0 && !s->direct) unlinkat(s->folder, s->temporary, 0); /* while its lock is held */
  if (s->fd >= 0) close(s->fd);
  if (s->folder >= 0) close(s->folder);
  s->fd = s->folder = -1;
}

pn_status pni_sink_open(pn_context *c, const char *where, const char *path, bool packed, pni_sink *s) {
  if (!PNI_GIVEN(c, where, path)) return c->status;
  memset(s, 0, sizeof *s);
  s->c = c;
  s->where = where;
  s->path = path;
  s->fd = s->folder = -1;
  s->buf = pni_alloc(c, PNI_FILE_CHUNK);
  if (packed) s->pack = pni_alloc(c, PNI_FILE_CHUNK);
  if (!pni_failed(c) && packed) {
    pni_zlib_memory(&s->z, c);
    /* 15 + 16: gzip, with no name and no time, so equal data gives equal files */
    s->packed = deflateInit2(&s->z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK;
    if (!s->packed) pni_fail(c, PN_NOMEM, "%s: out of memory", where);
  }
  if (!pni_failed(c)) open_target(s);
  if (pni_failed(c)) discard(s);
  return c->status;
}

pn_status pni_sink_within(pn_context *c, const char *where, const char *path, int folder, const char *name,
                          pni_sink *s) {
  memset(s, 0, sizeof *s);
  s->c = c;
  s->where = where;
  s->path = path;
  s->fd = -1;
  s->folder = folder;
  s->within = true;
  snprintf(s->target, sizeof s->target, "%s", name);
  snprintf(s->temporary, sizeof s->temporary, "%s", name);
  s->buf = pni_alloc(c, PNI_FILE_CHUNK);
  if (!pni_failed(c)) {
    s->fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (s->fd < 0) refuse(s, "cannot be written");
  }
  if (pni_failed(c)) discard(s);
  return c->status;
}

/* ---- writing ---- */

static pn_status flush(pni_sink *s) {
  for (size_t done = 0; done < s->used;) {
    ssize_t k = write(s->fd, s->buf + done, s->used - done);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return refuse(s, "cannot be written");
    done += (size_t)k;
  }
  s->used = 0;
  return pni_check_cancel(s->c);
}

static pn_status put(pni_sink *s, const void *data, size_t n) {
  const char *p = data;
  while (n) {
    size_t k = PNI_FILE_CHUNK - s->used < n ? PNI_FILE_CHUNK - s->used : n;
    memcpy(s->buf + s->used, p, k);
    s->used += k;
    p += k;
    n -= k;
    if (s->used == PNI_FILE_CHUNK && flush(s) != PN_OK) return s->c->status;
  }
  return PN_OK;
}

static pn_status deflate_all(pni_sink *s, int how) {
  s->z.next_in = s->pack;
  s->z.avail_in = (unsigned)s->packing;
  for (;;) {
    s->z.next_out = s->buf + s->used;
    s->z.avail_out = (unsigned)(PNI_FILE_CHUNK - s->used);
    int z = deflate(&s->z, how);
    s->used = PNI_FILE_CHUNK - s->z.avail_out;
    bool full = s->z.avail_out == 0;
    if (full && flush(s) != PN_OK) return s->c->status;
    if (how == Z_FINISH ? z == Z_STREAM_END : !full) break;
  }
  s->packing = 0;
  return pni_check_cancel(s->c); /* what packs well is flushed rarely */
}

pn_status pni_sink_write(pni_sink *s, const void *data, size_t n) {
  s->written += (int64_t)n;
  if (!s->packed) return put(s, data, n);
  const char *p = data;
  while (n) {
    size_t k = PNI_FILE_CHUNK - s->packing < n ? PNI_FILE_CHUNK - s->packing : n;
    memcpy(s->pack + s->packing, p, k);
    s->packing += k;
    p += k;
    n -= k;
    if (s->packing == PNI_FILE_CHUNK && deflate_all(s, Z_NO_FLUSH) != PN_OK) return s->c->status;
  }
  return PN_OK;
}

/* ---- ending ---- */

/* The rename itself reaches the disk with the folder; a folder that cannot be synchronised is no failure. */
static void sync_folder(const pni_sink *s) {
  int fd = openat(s->folder, ".", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

static pn_status settle(pni_sink *s) {
  if (s->packed && deflate_all(s, Z_FINISH) != PN_OK) return s->c->status;
  if (flush(s) != PN_OK) return s->c->status;
  if (!s->direct && !s->within && fsync(s->fd) != 0) return refuse(s, "cannot be written");
  if (!s->direct && !s->within && renameat(s->folder, s->temporary, s->folder, s->target) != 0)
    return refuse(s, "cannot be replaced");
  int fd = s->fd; /* the lock is held until here */
  s->fd = -1;
  bool closed = close(fd) == 0;
  if (s->direct || s->within) return closed ? PN_OK : refuse(s, "cannot be written");
  sync_folder(s);
  return PN_OK;
}

pn_status pni_sink_close(pni_sink *s, pn_status status) {
  if (status == PN_OK) status = settle(s);
  discard(s);
  return status;
}
