/*
** zarr_store.c: a folder of files as one: chunks of arrays and texts about them. All is written into a folder of
** another name beside the target, brought to disk, and takes the target's place by one rename: a reader sees the old
** store or the new one.
*/
#define _GNU_SOURCE /* syncfs */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "../base/given.h"
#include "file.h"

enum { FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
enum { TEMPORARIES = 256, DEEPEST_WRITTEN = 16, DEEPEST_REMOVED = 32, EXCHANGE = 2 /* RENAME_EXCHANGE */ };

static const char where[] = "save_store";
#define MARK ".zgroup" /* what makes a folder a store */

typedef struct {
  pn_context *c;
  const char *path;
  int parent; /* the folder that holds the target */
  int fd;     /* the folder that is written; locked, so that nobody takes it for one that was left */
  char target[PNI_FILE_NAME], temporary[PNI_FILE_NAME];
} store;

static pn_status fail_with(const store *s, const char *what, int error) {
  return pni_fail(s->c, PN_IO, "%s: folder '%s' %s: %s", where, s->path, what, pni_root_reason(s->c->root, error));
}

/* ---- removing ---- */

/* A folder of files with all that is in it. Links are removed, not followed; other file systems are left alone. */
static void remove_folder(int at, const char *name, int depth) {
  struct stat here, outer;
  int fd = openat(at, name, FOLDER_FLAGS);
  DIR *d = fd < 0 ? NULL : fdopendir(fd);
  if (!d) {
    if (fd >= 0) close(fd);
    return;
  }
  bool same = fstat(fd, &here) == 0 && fstat(at, &outer) == 0 && here.st_dev == outer.st_dev;
  for (const struct dirent *e; same && (e = readdir(d)) != NULL;) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    if (unlinkat(fd, e->d_name, 0) != 0 && depth > 0) remove_folder(fd, e->d_name, depth - 1);
  }
  closedir(d);
  unlinkat(at, name, AT_REMOVEDIR);
}

/* ---- opening ---- */

/* Locks the folder of the temporary name. False if somebody else writes it, or there is none. */
static bool hold(store *s) {
  struct stat here, there;
  s->fd = openat(s->parent, s->temporary, FOLDER_FLAGS);
  if (s->fd < 0) return false;
  bool mine = (flock(s->fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) && fstat(s->fd, &here) == 0 &&
              fstatat(s->parent, s->temporary, &there, AT_SYMLINK_NOFOLLOW) == 0 && here.st_ino == there.st_ino;
  if (mine) return true;
  close(s->fd);
  s->fd = -1;
  return false;
}

/* Removes the folder of the temporary name if whoever wrote it was killed. */
static void clear(store *s) {
  if (!hold(s)) return;
  remove_folder(s->parent, s->temporary, DEEPEST_REMOVED);
  close(s->fd);
  s->fd = -1;
}

static pn_status open_beside_target(store *s) {
  for (int k = 0; k < TEMPORARIES; k++) {
    int n = snprintf(s->temporary, sizeof s->temporary, "%s.penumbra-%d.tmp", s->target, k);
    if (n >= (int)sizeof s->temporary) return fail_with(s, "cannot be written", ENAMETOOLONG);
    int made = mkdirat(s->parent, s->temporary, 0777);
    if (made != 0 && errno == EEXIST) {
      clear(s);
      made = mkdirat(s->parent, s->temporary, 0777);
      if (made != 0 && errno == EEXIST) continue;
    }
    if (made != 0) break;
    if (hold(s)) return PN_OK; /* unless another save took it for one that was left, in the moment before */
  }
  return fail_with(s, "cannot be written", errno);
}

/* What stands under the target's name: 0 nothing, 1 a store, -1 something else. */
static int judge_target(const store *s) {
  struct stat st;
  char mark[PNI_FILE_NAME + 8];
  if (fstatat(s->parent, s->target, &st, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? 0 : -1;
  snprintf(mark, sizeof mark, "%s/" MARK, s->target);
  return S_ISDIR(st.st_mode) && fstatat(s->parent, mark, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) ? 1 : -1;
}

static pn_status check_target(const store *s) {
  if (judge_target(s) >= 0) return PN_OK;
  return pni_fail(s->c, PN_IO,
                  "%s: '%s' is there and no Zarr store (a folder with a file " MARK "): it is left as it is", where,
                  s->path);
}

/* path without slashes at its end is left in `plain`. */
static pn_status open_store(store *s, char plain[PNI_FILE_PATH]) {
  size_t n = strlen(s->path);
  while (n > 1 && s->path[n - 1] == '/') n--;
  if (n >= PNI_FILE_PATH) return fail_with(s, "cannot be written", ENAMETOOLONG);
  memcpy(plain, s->path, n);
  plain[n] = '\0';
  s->parent = pni_root_folder(s->c->root, plain, s->target);
  if (s->parent < 0) return fail_with(s, "cannot be written", errno);
  if (s->c->root && !s->c->root->writable) return fail_with(s, "cannot be written", EROFS);
  if (!*s->target || strcmp(s->target, ".") == 0 || strcmp(s->target, "..") == 0)
    return fail_with(s, "cannot be written", EISDIR);
  return check_target(s) == PN_OK ? open_beside_target(s) : s->c->status;
}

/* ---- writing ---- */

/* The part of a name up to the next slash, in `part`; where the next begins, NULL after the last. False if it names no
 * file below a folder. */
static bool next_part(const char **name, char part[PNI_FILE_NAME]) {
  size_t n = strcspn(*name, "/");
  if (n == 0 || n >= PNI_FILE_NAME) return false;
  memcpy(part, *name, n);
  part[n] = '\0';
  *name = (*name)[n] ? *name + n + 1 : NULL;
  return strcmp(part, ".") != 0 && strcmp(part, "..") != 0;
}

/* The folder within `at`, made if it is not there; `at` is closed. */
static int enter(int at, const char *name) {
  int made = mkdirat(at, name, 0777), error = errno;
  int fd = made == 0 || error == EEXIST ? openat(at, name, FOLDER_FLAGS) : -1;
  if (made == 0 || error == EEXIST) error = errno;
  close(at);
  errno = error;
  return fd;
}

static pn_status begin_file(const store *s, const char *name, pni_sink *file) {
  char part[PNI_FILE_NAME], buf[64];
  const char *rest = name;
  int at = openat(s->fd, ".", FOLDER_FLAGS), depth = 0;
  for (; at >= 0; depth++) {
    if (depth > DEEPEST_WRITTEN || !next_part(&rest, part)) {
      close(at);
      return pni_fail(s->c, PN_DOMAIN, "%s: names must be those of files below a folder, got '%s'", where,
                      pni_printable(name, strlen(name), buf));
    }
    if (!rest) return pni_sink_within(s->c, where, s->path, at, part, file);
    at = enter(at, part);
  }
  return fail_with(s, "cannot be written", errno);
}

static pn_status put_tensor(const store *s, const char *name, const pn_tensor *t) {
  pni_sink file;
  if (begin_file(s, name, &file) != PN_OK) return s->c->status;
  return pni_sink_close(&file, pni_sink_tensor(&file, t, false));
}

static pn_status put_text(const store *s, const char *name, const char *text) {
  pni_sink file;
  if (begin_file(s, name, &file) != PN_OK) return s->c->status;
  return pni_sink_close(&file, pni_sink_write(&file, text, strlen(text)));
}

static pn_status put_all(const store *s, const pn_archive *a) {
  pn_status status = pn_archive_text(a, MARK) ? PN_OK : put_text(s, MARK, "{\"zarr_format\": 2}");
  for (int64_t k = 0; k < pn_archive_count(a) && status == PN_OK; k++)
    status = put_tensor(s, pn_archive_name(a, k), pn_archive_tensor(a, k));
  for (int64_t k = 0; k < pn_archive_text_count(a) && status == PN_OK; k++)
    status = put_text(s, pn_archive_text_key(a, k), pn_archive_text(a, pn_archive_text_key(a, k)));
  return status;
}

/* ---- ending ---- */

/* Gives the two names each other's folder. */
static int exchange(const store *s) {
#ifdef SYS_renameat2
  if (syscall(SYS_renameat2, s->parent, s->temporary, s->parent, s->target, EXCHANGE) == 0) return 0;
  if (errno != ENOSYS && errno != EINVAL) return -1;
#endif
  char aside[PNI_FILE_NAME]; /* for a moment there is no store: file systems without exchange */
  if (snprintf(aside, sizeof aside, "%s.old", s->temporary) >= (int)sizeof aside) return errno = ENAMETOOLONG, -1;
  if (renameat(s->parent, s->target, s->parent, aside) != 0) return -1;
  if (renameat(s->parent, s->temporary, s->parent, s->target) == 0)
    return renameat(s->parent, aside, s->parent, s->temporary);
  int error = errno;
  renameat(s->parent, aside, s->parent, s->target);
  errno = error;
  return -1;
}

/* Puts the new store in place; the old one then has the temporary name. */
static pn_status take_place(const store *s) {
#ifdef __linux__
  if (syncfs(s->fd) != 0) return fail_with(s, "cannot be written", errno);
#else
  sync();
#endif
  if (check_target(s) != PN_OK) return s->c->status;
  int moved = judge_target(s) == 1 ? exchange(s) : renameat(s->parent, s->temporary, s->parent, s->target);
  return moved == 0 ? PN_OK : fail_with(s, "cannot be replaced", errno);
}

static void close_store(store *s) {
  if (s->fd >= 0) {
    remove_folder(s->parent, s->temporary, DEEPEST_REMOVED); /* of what failed, or what was replaced */
    int fd = openat(s->parent, ".", FOLDER_FLAGS);
    if (fd >= 0) fsync(fd);
    if (fd >= 0) close(fd);
    close(s->fd);
  }
  if (s->parent >= 0) close(s->parent);
}

pn_status pn_save_store(pn_context *c, const char *path, const pn_archive *a) {
  if (!PNI_GIVEN(c, where, path) || !PNI_GIVEN(c, where, a)) return c->status;
  char plain[PNI_FILE_PATH];
  store s = {.c = c, .path = path, .parent = -1, .fd = -1};
  pn_status status = open_store(&s, plain);
  if (status == PN_OK) status = put_all(&s, a);
  if (status == PN_OK) status = take_place(&s);
  close_store(&s);
  return status;
}

#undef MARK
