/*
** file.h: what the file formats share. A source delivers the bytes of a file (or of a range of one),
** unpacked; it knows from the file's real size how many bytes it can deliver at most, and nobody
** allocates for more than that. A sink writes beside the target and takes its place only when
** everything is on disk, so a failed write leaves the old file as it was.
*/
#ifndef PN_FILE_FILE_H
#define PN_FILE_FILE_H

#include <stdio.h>
#include <zlib.h>
#include "../tensor/tensor.h"

enum { PNI_FILE_CHUNK = 1 << 16, PNI_FILE_PATH = 4096, PNI_FILE_NAME = 256, PNI_INFLATE_RATIO = 1032 };

/* ---- root.c: opening, anywhere (root NULL) or below a folder ---- */

enum { PNI_OPEN_FILES = 64 };

/* A folder below which files are found (fd -1: none is), and all files that are open there, whoever holds them: so that
 * they are counted in one place, and closed with the root when nobody else does. (Writers of tensors are not among
 * them: a sink is closed by the call that opened it.) */
struct pni_root {
  int fd;
  bool writable;
  int open; /* of the following */
  struct {
    int fd;
    void *stream; /* a FILE that owns fd, NULL: none does */
  } file[PNI_OPEN_FILES];
  void (*make_room)(void *data); /* called when all are open, to find those that nobody needs; NULL: there are none */
  void *data;
};

/* Opens the folder of a root. PN_IO, with errno set; then it may be closed as well. */
pn_status pni_root_open(pni_root *root, const char *folder, bool writable);
void pni_root_close(pni_root *root);
/* A descriptor, or -1 with errno set (EMFILE: PNI_OPEN_FILES are open). Never waits; below a root only regular files
 * are opened, and those with another hard link not for writing. flags: as open(2) takes them. */
int pni_root_file(pni_root *r, const char *path, int flags);
/* A FILE of such a descriptor, or NULL with errno set and the descriptor closed. */
FILE *pni_root_stream(pni_root *r, int fd, const char *mode);
/* Every file of the two functions above is closed by one of these. */
void pni_root_leave(pni_root *r, int fd);
int pni_root_leave_stream(pni_root *r, FILE *f);
/* The folder that holds the file `path`, to be closed, and the file's name in it; or -1 with errno set. */
int pni_root_folder(const pni_root *r, const char *path, char name[PNI_FILE_NAME]);
/* remove(3) and rename(2) for regular files below a root. 0, or -1 with errno set. */
int pni_root_remove(const pni_root *r, const char *path);
int pni_root_rename(const pni_root *r, const char *from, const char *to);
/* What an errno of the functions above means. Borrowed. */
const char *pni_root_reason(const pni_root *r, int error);

/* ---- file.c: reading ---- */

typedef struct pni_source {
  pn_context *c;
  const char *where; /* "load_npy" */
  const char *path;  /* for messages; borrowed */
  pni_root *root;    /* where fd was opened */
  int fd;
  bool own;        /* closes fd */
  bool packed;     /* z is in use */
  bool gzip;       /* several members may follow each other */
  bool ended;      /* the packed data is complete */
  int64_t at, end; /* bytes of the file not yet taken */
  int64_t room;    /* most bytes that can still be delivered */
  uint32_t crc;    /* of a range: CRC-32 of what was delivered */
  bool range;      /* keeps crc */
  z_stream z;
  unsigned char *buf; /* PNI_FILE_CHUNK packed bytes */
} pni_source;

/* Opens a regular file; gzip is recognised by its first bytes. On failure there is nothing to close. */
pn_status pni_source_open(pn_context *c, const char *where, const char *path, pni_source *s);
/* The same of a file that is never packed, whatever its first bytes are; PN_MISSING if there is none. */
pn_status pni_source_open_plain(pn_context *c, const char *where, const char *path, pni_source *s);
/* `length` bytes of the plain file `file` from `begin`, inflated if `deflated`. file must outlive s. */
pn_status pni_source_range(pni_source *s, const pni_source *file, int64_t begin, int64_t length, bool deflated);
void pni_source_close(pni_source *s);
/* Up to n bytes; *got < n only at the end. */
pn_status pni_source_some(pni_source *s, void *out, size_t n, size_t *got);
/* Exactly n bytes, or PN_FORMAT. */
pn_status pni_source_read(pni_source *s, void *out, size_t n);
/* PN_FORMAT unless everything was read (and a packed file is sound to its end). */
pn_status pni_source_finish(pni_source *s);
/* All that is left, in a block that the caller frees. */
pn_status pni_source_all(pni_source *s, char **text, size_t *length);
/* Fails with "<where>: file '<path>' <format...>". */
pn_status pni_source_fail(const pni_source *s, pn_status status, const char *format, ...) PNI_PRINTF(3, 4);
/* At most 40 bytes of a file made fit for a message. Returns buf. */
const char *pni_printable(const char *text, size_t n, char buf[64]);
/* zlib takes its memory from the context. */
void pni_zlib_memory(z_stream *z, pn_context *c);

/* ---- sink.c: writing ---- */

typedef struct pni_sink {
  pn_context *c;
  const char *where;
  const char *path;
  int fd;
  int folder;          /* which holds the target */
  bool direct;         /* the target is a device or a pipe: no other file stands beside it */
  bool within;         /* a new file of a folder that is put in place, and brought to disk, by somebody else */
  bool packed;         /* gzip */
  int64_t written;     /* bytes handed over so far, before packing */
  size_t used;         /* of buf */
  unsigned char *buf;  /* PNI_FILE_CHUNK bytes on their way to the file */
  unsigned char *pack; /* input of z, PNI_FILE_CHUNK bytes */
  size_t packing;      /* of pack */
  z_stream z;
  char target[PNI_FILE_NAME], temporary[PNI_FILE_NAME]; /* in folder */
} pni_sink;

/* Begins to write `path`, gzipped if `packed`. On failure there is nothing to close. */
pn_status pni_sink_open(pn_context *c, const char *where, const char *path, bool packed, pni_sink *s);
/* Begins a new file `name` in an open folder that nobody else sees yet, which the sink closes. `path` is for
 * messages. */
pn_status pni_sink_within(pn_context *c, const char *where, const char *path, int folder, const char *name,
                          pni_sink *s);
pn_status pni_sink_write(pni_sink *s, const void *data, size_t n);
/* With status PN_OK brings everything to disk and puts the new file in place; otherwise, and on failure,
 * removes it. Ends the sink either way. */
pn_status pni_sink_close(pni_sink *s, pn_status status);
/* Does the name end in ".gz"? */
bool pni_is_gz(const char *path);

/* ---- element.c: numbers as they stand in files ---- */

typedef struct pni_element_type {
  const char *npy;         /* kind and size: "f8" */
  const char *safetensors; /* "F64", NULL: none */
  int idx;                 /* type byte, 0: none */
  int size;                /* bytes in the file */
  int dtype;               /* of the tensor: the nearest type that holds every value */
} pni_element_type;

/* The type by its name in one format, NULL if unknown. */
const pni_element_type *pni_element_npy(const char *name);
const pni_element_type *pni_element_safetensors(const char *name);
const pni_element_type *pni_element_idx(int code);
/* A number of IEEE 754's binary16. */
float pni_half(uint16_t h);
/* "uint8" */
const char *pni_element_name(const pni_element_type *e);
/* The type that stores a dtype unchanged. */
const pni_element_type *pni_element_of(int dtype);
/* Elements of a shape, or -1 with PN_FORMAT if the source cannot hold them. */
int64_t pni_source_count(const pni_source *s, const pni_element_type *e, int ndim, const int64_t *shape);
/* Reads a tensor of e's dtype, row-major. New. */
pn_tensor *pni_source_tensor(pni_source *s, const pni_element_type *e, bool big_endian, int ndim, const int64_t *shape);
/* The same, converted to dtype. */
pn_tensor *pni_source_tensor_as(pni_source *s, const pni_element_type *e, bool big_endian, int ndim,
                                const int64_t *shape, int dtype);
/* The next n elements as dtype, into memory. */
pn_status pni_source_elements(pni_source *s, const pni_element_type *e, bool big_endian, int dtype, void *out,
                              int64_t n);
/* Writes the elements of t row-major, big- or little-endian. */
pn_status pni_sink_tensor(pni_sink *s, const pn_tensor *t, bool big_endian);

/* ---- where an array stands in a file that is not packed ---- */

typedef struct pni_array_place {
  const pni_element_type *type;
  bool big_endian;
  int ndim;
  int64_t shape[PN_MAX_DIMS];
  int64_t begin; /* of its elements, row-major, in bytes */
} pni_array_place;

/* Each reads a header from the beginning of s and checks that the elements can stand behind it. */
pn_status pni_npy_find(pni_source *s, pni_array_place *a);
pn_status pni_idx_find(pni_source *s, pni_array_place *a);
/* name NULL: of the only tensor. */
pn_status pni_safetensors_find(pni_source *s, const char *name, pni_array_place *a);

/* ---- npy.c: shared with npz.c ---- */

/* Reads one array. New. */
pn_tensor *pni_npy_read(pni_source *s);
enum { PNI_NPY_HEADER = 512 };
/* The header numpy would write for t into buf; returns its length. */
size_t pni_npy_header(const pn_tensor *t, char buf[PNI_NPY_HEADER]);

/* ---- png.c ---- */

/* What follows the first three bytes, as [height, width, channels] from 0 to 1, float64 or float32. New. */
pn_tensor *pni_png_read(pni_source *s, int dtype);

/* ---- archive.c ---- */

/* An empty list. New. */
pn_names *pni_names_new(pn_context *c);
/* Adds a copy of n bytes (cut at a NUL). */
pn_status pni_names_add(pn_context *c, pn_names *names, const char *text, size_t n);

#endif
