/*
** kernel.h: what the files of the Jupyter kernel share. It is a program of its own, which speaks Jupyter's messaging
** protocol 5.3 (jupyter-client.readthedocs.io/en/stable/messaging.html) for a Lua state like the command's. Three
** threads and what they own: main (Lua, shell, stdin), control (control) and heartbeat; a fourth forwards what is
** printed. iopub belongs to whoever holds `publishing`.
*/
#ifndef PN_KERNEL_KERNEL_H
#define PN_KERNEL_KERNEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cJSON;
struct lua_State;

/* ---- sha256.c ---- */

enum { KERNEL_DIGEST = 32, KERNEL_BLOCK = 64 };

typedef struct kernel_sha256 {
  uint32_t state[8];
  uint64_t length; /* bytes so far */
  unsigned char block[KERNEL_BLOCK];
} kernel_sha256;

void kernel_sha256_begin(kernel_sha256 *s);
void kernel_sha256_add(kernel_sha256 *s, const void *data, size_t size);
void kernel_sha256_end(kernel_sha256 *s, unsigned char digest[KERNEL_DIGEST]);

/* HMAC-SHA256: s becomes the inner hash, to which the message is added. */
void kernel_hmac_begin(kernel_sha256 *s, const void *key, size_t size);
void kernel_hmac_end(kernel_sha256 *s, const void *key, size_t size, unsigned char digest[KERNEL_DIGEST]);
/* Are n bytes the same? Takes the same time wherever they differ. */
bool kernel_same(const void *a, const void *b, size_t n);
/* 64 hexadecimal digits and a zero byte. */
void kernel_hex(const unsigned char digest[KERNEL_DIGEST], char text[2 * KERNEL_DIGEST + 1]);

/* ---- connection.c ---- */

enum { KERNEL_CHANNELS = 5, KERNEL_ADDRESS = 256, KERNEL_KEY = 256 };
enum { KERNEL_SHELL, KERNEL_CONTROL, KERNEL_IOPUB, KERNEL_STDIN, KERNEL_HEARTBEAT };

typedef struct kernel_connection {
  char address[KERNEL_CHANNELS][KERNEL_ADDRESS]; /* "tcp://127.0.0.1:5555", by channel */
  char key[KERNEL_KEY];                          /* "": messages are not signed */
} kernel_connection;

/* Reads what a connection file says. NULL, or what is wrong with it: a constant. */
const char *kernel_connection_read(const char *text, size_t size, kernel_connection *out);
/* The same from a file. */
const char *kernel_connection_open(const char *path, kernel_connection *out);
/* The JSON text of n bytes and nothing else, or NULL. What is nested too deep, or holds a zero byte, is none. */
struct cJSON *kernel_json(const char *text, size_t n);

/* ---- wire_message.c ---- */

enum { KERNEL_FRAMES = 64, KERNEL_SEEN = 1 << 15 };

/* The parts of a message as they came. Each has a zero byte behind it. */
typedef struct kernel_frames {
  int n;
  struct {
    char *data;
    size_t size;
  } at[KERNEL_FRAMES];
} kernel_frames;

void kernel_frames_free(kernel_frames *f);

/* Digests of messages that were accepted: the newest KERNEL_SEEN / 2 at least. */
typedef struct kernel_memory {
  unsigned char (*now)[KERNEL_DIGEST], (*before)[KERNEL_DIGEST]; /* open addressing; all zero: empty */
  int used;                                                      /* of now */
} kernel_memory;

/* The key of a connection and what it has signed. */
typedef struct kernel_seal {
  const char *key;
  kernel_memory memory;
  pthread_mutex_t lock; /* of memory */
} kernel_seal;

/* A message that was accepted. */
typedef struct kernel_message {
  kernel_frames frames; /* the first `identities` say who sent it */
  int identities;
  const char *header; /* as it came: the parent_header of what answers */
  const char *type;
  struct cJSON *head, *content; /* objects */
} kernel_message;

/* Takes the frames over, whatever comes of it. NULL, or why the message is refused: a constant. */
const char *kernel_message_read(kernel_seal *seal, kernel_frames *frames, kernel_message *out);
void kernel_message_free(kernel_message *m);
/* The signature of four parts; "" without a key. */
void kernel_sign(const char *key, const char *const part[4], const size_t size[4], char text[2 * KERNEL_DIGEST + 1]);
void kernel_seal_free(kernel_seal *seal);

/* ---- the kernel ---- */

typedef struct kernel {
  void *zmq, *socket[KERNEL_CHANNELS];
  kernel_connection connection;
  kernel_seal seal;
  char session[33];          /* of the messages that we send */
  atomic_uint sent, refused; /* messages */
  atomic_bool stopping, finished;
  pthread_t main, control, heartbeat, pump;
  pthread_mutex_t publishing;   /* of iopub, parent, silent, held and reading from the pipes */
  const char *parent;           /* header of the request that is answered; NULL: none */
  bool silent;                  /* nothing that is printed is published */
  pthread_mutex_t calling;      /* of the next two */
  bool in_call, wanted;         /* does a script run? shall it end? */
  const kernel_message *asking; /* the request that may ask for input, or NULL */
  int pipe[2];                  /* where standard output and standard error can be read */
  struct {
    char byte[4];
    size_t n;
  } held[2]; /* a letter that has not come whole */
  int log;   /* the standard error that we were started with */
  int parent_process;
  char *info; /* content of kernel_info_reply */
  struct lua_State *L;
} kernel;

/* ---- channel.c ---- */

/* Binds all sockets; NULL, or what failed. */
const char *kernel_open(kernel *k);
void kernel_close(kernel *k);
/* Waits at most so many milliseconds for a message of the channel. False: none came, or it was refused. */
bool kernel_receive(kernel *k, int channel, int wait, kernel_message *out);
/* Sends a message: to = the request that it answers, or NULL with `parent` on iopub. content: JSON. */
void kernel_reply(kernel *k, int channel, const kernel_message *to, const char *type, const char *content);
void kernel_publish(kernel *k, const char *parent, const char *type, const char *content);
/* The same while `publishing` is held. */
void kernel_publish_held(kernel *k, const char *parent, const char *type, const char *content);
/* "busy", "idle" or "starting" on iopub. */
void kernel_status(kernel *k, const char *parent, const char *state);
/* Tells whoever started us. */
void kernel_log(kernel *k, const char *format, const char *what);

/* ---- control.c: heartbeat and control in threads of their own ---- */

/* A script begins or ends; between these it can be interrupted. */
void kernel_call(kernel *k, bool begins);

bool kernel_start_threads(kernel *k);
void kernel_join_threads(kernel *k);
/* Answers a shutdown_request and lets the main thread end. */
void kernel_shut_down(kernel *k, int channel, const kernel_message *m);

/* ---- output.c: standard output and standard error become messages ---- */

bool kernel_capture_output(kernel *k);
/* Sends what was printed so far. last: of this request. */
void kernel_drain(kernel *k, bool last);
/* ---- json_value.c ---- */

/* Writes the text of n bytes as valid UTF-8 without zero bytes at `out`, which has 3 n bytes and one more; a letter
 * that has not come whole is left out and its length returned unless `last`. */
size_t kernel_utf8(const char *text, size_t n, bool last, char *out);

/* Pushes a JSON value: objects and arrays as tables, null as nil. Raises where it is nested too deep. */
void kernel_push_json(struct lua_State *L, const struct cJSON *value);
/* The value at index i as JSON (the caller frees), NULL without memory. Tables with a list part, or with the
 * metatable of kernel_push_list, are arrays. */
struct cJSON *kernel_to_json(struct lua_State *L, int i);
/* Lua's list(t): t as an array even if it is empty. */
int kernel_list(struct lua_State *L);

/* ---- request.c: what main does for each message of shell ---- */

/* Makes the Lua state and the kernel's info; false after saying why. */
bool kernel_open_lua(kernel *k);
/* Answers one message; those that a failed cell takes with it, too. */
void kernel_answer(kernel *k, kernel_message *m);
/* The kernel of this Lua state. */
kernel *kernel_of(struct lua_State *L);

/* ---- input.c: what a script reads from standard input ---- */

/* io.stdin reads through the front end; adds ask() to the table on the stack top. */
void kernel_open_input(struct lua_State *L);

/* ---- kernelspec.c ---- */

/* kernel install [--user] [--prefix P] [--name N] [--display-name T]; returns the exit code. */
int kernel_install(int argc, char **argv);

#endif
