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

/* The k-th name beside the target. One that is taken was left by a process that was killed; another process may have
 * had our number, so after the first clash the clock tells names apart. */
static void name_beside(pni_sink *s, int k) {
  enum { LONGEST = PNI_FILE_NAME - 48 };
  if (k == 0)
    snprintf(s->temporary, sizeof s->temporary, "%.*s.%ld-0.tmp", (int)LONGEST, s->target, (long)getpid());
  else
    snprintf(s->temporary, sizeof s->temporary, "%.*s.%ld-%llx.tmp", (int)LONGEST, s->target, (long)getpid(),
             (unsigned long long)pni_now());
}

/* A new file beside the target, with the target's permissions if it exists. */
static pn_status open_beside(pni_sink *s, const struct stat *old) {
  for (int k = 0; k < 100; k++) {
    name_beside(s, k);
    s->fd = openat(s->folder, s->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (s->fd >= 0) {
      if (old && fchmod(s->fd, old->st_mode & 07777) != 0) errno = 0; /* some file systems have no modes */
      return PN_OK;
    }
    if (errno != EEXIST) break;
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
  pni_free(s->c, s->buf, PNI_FILE_CHUNK);
  pni_free(s->c, s->pack, PNI_FILE_CHUNK);
  if (s->fd >= 0) close(s->fd);
  if (s->fd >= 0 && !s->direct) unlinkat(s->folder, s->temporary, 0);
  if (s->folder >= 0) close(s->folder);
  s->fd = s->folder = -1;
}

pn_status pni_sink_open(pn_context *c, const char *where, const char *path, bool packed, pni_sink *s) {
  if (pni_failed(c)) return c->status;
  if (!path) return pni_fail(c, PN_DOMAIN, "%s: path must not be NULL", where);
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
  if (!s->direct && fsync(s->fd) != 0) return refuse(s, "cannot be written");
  int fd = s->fd;
  s->fd = -1;
  bool closed = close(fd) == 0;
  if (s->direct) return closed ? PN_OK : refuse(s, "cannot be written");
  if (closed && renameat(s->folder, s->temporary, s->folder, s->target) == 0) {
    sync_folder(s);
    return PN_OK;
  }
  refuse(s, "cannot be replaced");
  unlinkat(s->folder, s->temporary, 0);
  return s->c->status;
}

pn_status pni_sink_close(pni_sink *s, pn_status status) {
  if (status == PN_OK) status = settle(s);
  discard(s);
  return status;
}
