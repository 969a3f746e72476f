/*
** root.c: where files are found. A context without a root opens any path. Below a root a path is walked one component
** at a time, each opened in the folder before it without following links, so what is reached lies below the root
** whoever renames or links things meanwhile. Absolute paths, "..", symbolic links, other file systems (/proc, /dev)
** and whatever is no regular file are refused, before anything could wait for a reader or writer.
*/
#define _GNU_SOURCE /* O_PATH: walking through a folder needs no right to list it */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "file.h"

#ifndef O_PATH
#define O_PATH O_RDONLY
#endif

enum { FOLDER = O_PATH | O_DIRECTORY | O_CLOEXEC };
/* Refusals of our own among the numbers of errno. */
enum { NOT_GRANTED = ENOTSUP, NO_REGULAR = ENODEV, OUTSIDE = EXDEV };

const char *pni_root_reason(const pni_root *r, int error) {
  switch (r ? error : 0) {
  case NOT_GRANTED: return "files are not granted to this script";
  case OUTSIDE: return "it lies outside the folder that the host grants";
  case ELOOP: return "a symbolic link is not followed here";
  case EROFS: return "the host grants reading only";
  case NO_REGULAR: return "it must be a regular file";
  case EMLINK: return "it has another name elsewhere (a hard link)";
  default: return strerror(error);
  }
}

pn_status pni_root_open(pni_root *root, const char *folder, bool writable) {
  root->open = 0;
  root->fd = open(folder, FOLDER);
  root->writable = writable;
  return root->fd < 0 ? PN_IO : PN_OK;
}

/* Closes entry k of the list. What fclose says, or close. */
static int leave(pni_root *r, int k) {
  int fd = r->file[k].fd;
  FILE *f = r->file[k].stream;
  r->file[k] = r->file[--r->open];
  return f ? fclose(f) : close(fd);
}

void pni_root_close(pni_root *root) {
  while (root->open) leave(root, root->open - 1);
  if (root->fd >= 0) close(root->fd);
  root->fd = -1;
}

static int fail(int fd, int error) {
  if (fd >= 0) close(fd);
  errno = error;
  return -1;
}

/* The folder `name` within `at`, which is closed. */
static int step(const pni_root *r, int at, const char *name) {
  struct stat here, root;
  if (strcmp(name, "..") == 0) return fail(at, OUTSIDE);
  int fd = openat(at, name, FOLDER | O_NOFOLLOW);
  if (fd < 0) {
    int error = errno;
    if (error == ENOTDIR && fstatat(at, name, &here, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(here.st_mode)) error = ELOOP;
    return fail(at, error);
  }
  close(at);
  if (fstat(fd, &here) != 0 || fstat(r->fd, &root) != 0) return fail(fd, errno);
  return here.st_dev == root.st_dev ? fd : fail(fd, OUTSIDE);
}

/* The folder that holds what `path` names, which is anywhere. */
static int any_folder(const char *path, char name[PNI_FILE_NAME]) {
  char folder[PNI_FILE_PATH];
  const char *slash = strrchr(path, '/');
  size_t n = slash ? (size_t)(slash - path) + 1 : 0;
  if (n >= sizeof folder || strlen(path + n) >= PNI_FILE_NAME) return fail(-1, ENAMETOOLONG);
  memcpy(folder, path, n);
  folder[n] = '\0';
  strcpy(name, path + n);
  return open(n ? folder : ".", FOLDER);
}

int pni_root_folder(const pni_root *r, const char *path, char name[PNI_FILE_NAME]) {
  if (!r) return any_folder(path, name);
  if (r->fd < 0) return fail(-1, NOT_GRANTED);
  if (*path == '/') return fail(-1, OUTSIDE);
  int at = openat(r->fd, ".", FOLDER);
  for (const char *p = path; at >= 0;) {
    size_t n = strcspn(p, "/");
    if (n >= PNI_FILE_NAME) return fail(at, ENAMETOOLONG);
    memcpy(name, p, n);
    name[n] = '\0';
    p += n;
    while (*p == '/') p++;
    if (!*p) break;
    if (n && strcmp(name, ".") != 0) at = step(r, at, name);
  }
  if (at < 0) return -1;
  if (strcmp(name, "..") == 0) return fail(at, OUTSIDE);
  if (!*name || strcmp(name, ".") == 0 || path[strlen(path) - 1] == '/') return fail(at, *path ? EISDIR : ENOENT);
  return at;
}

/* Is `name` in the folder something that may be opened as `flags` say? 0, or the error. */
static int judge(int folder, const char *name, int flags) {
  struct stat st;
  if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT && flags & O_CREAT ? 0 : errno;
  if (S_ISLNK(st.st_mode)) return ELOOP;
  if (S_ISDIR(st.st_mode)) return EISDIR;
  return S_ISREG(st.st_mode) ? 0 : NO_REGULAR;
}

/* The place of a descriptor or a stream in the list, or -1. */
static int place_of(const pni_root *r, int fd, const FILE *f) {
  int k = r ? r->open - 1 : -1;
  while (k >= 0 && (f ? r->file[k].stream != f : r->file[k].fd != fd)) k--;
  return k;
}

FILE *pni_root_stream(pni_root *r, int fd, const char *mode) {
  FILE *f = fdopen(fd, mode);
  int error = errno, k = place_of(r, fd, NULL);
  if (!f) pni_root_leave(r, fd);
  if (f && k >= 0) r->file[k].stream = f;
  errno = error;
  return f;
}

void pni_root_leave(pni_root *r, int fd) {
  int k = place_of(r, fd, NULL);
  if (k < 0)
    close(fd);
  else
    leave(r, k);
}

int pni_root_leave_stream(pni_root *r, FILE *f) {
  int k = place_of(r, -1, f);
  return k < 0 ? fclose(f) : leave(r, k);
}

static int open_below(const pni_root *r, const char *path, int flags) {
  char name[PNI_FILE_NAME];
  struct stat st;
  int all = flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY; /* a pipe that comes in between must not wait for its writer */
  bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (writes && r->fd >= 0 && !r->writable) return fail(-1, EROFS);
  int folder = pni_root_folder(r, path, name);
  if (folder < 0) return -1;
  int error = judge(folder, name, flags);
  if (error) return fail(folder, error);
  int fd = openat(folder, name, (all & ~O_TRUNC) | O_NOFOLLOW, 0666);
  error = errno;
  close(folder);
  if (fd < 0) return fail(-1, error);
  if (fstat(fd, &st) != 0) return fail(fd, errno);
  if (!S_ISREG(st.st_mode)) return fail(fd, NO_REGULAR);
  if (writes && st.st_nlink > 1) return fail(fd, EMLINK); /* its other name may lie outside */
  if (flags & O_TRUNC && ftruncate(fd, 0) != 0) return fail(fd, errno);
  return fd;
}

int pni_root_file(pni_root *r, const char *path, int flags) {
  if (!r) return open(path, flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0666);
  if (r->open == PNI_OPEN_FILES && r->make_room) r->make_room(r->data);
  if (r->open == PNI_OPEN_FILES) return fail(-1, EMFILE);
  int fd = open_below(r, path, flags);
  if (fd >= 0) {
    r->file[r->open].fd = fd;
    r->file[r->open++].stream = NULL;
  }
  return fd;
}

int pni_root_remove(const pni_root *r, const char *path) {
  char name[PNI_FILE_NAME];
  if (r->fd >= 0 && !r->writable) return fail(-1, EROFS);
  int folder = pni_root_folder(r, path, name);
  if (folder < 0) return -1;
  int error = judge(folder, name, 0);
  if (error == ELOOP) error = 0; /* the link itself goes */
  if (!error && unlinkat(folder, name, 0) != 0) error = errno;
  close(folder);
  return error ? fail(-1, error) : 0;
}

int pni_root_rename(const pni_root *r, const char *from, const char *to) {
  char old[PNI_FILE_NAME], new[PNI_FILE_NAME];
  if (r->fd >= 0 && !r->writable) return fail(-1, EROFS);
  int source = pni_root_folder(r, from, old);
  if (source < 0) return -1;
  int target = pni_root_folder(r, to, new);
  if (target < 0) return fail(source, errno);
  int error = judge(source, old, 0);
  if (!error) error = judge(target, new, O_CREAT);
  if (!error && renameat(source, old, target, new) != 0) error = errno;
  close(source);
  close(target);
  return error ? fail(-1, error) : 0;
}
