/*
** wire_message.c: from the frames of a message to its parts: identities, the mark, signature, header, parent header,
** metadata, content, and buffers, which nobody here reads. What comes from the wire is looked at nowhere else.
*/
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include "kernel.h"

static const char mark[] = "<IDS|MSG>";
enum { LONGEST_TYPE = 64 };

void kernel_frames_free(kernel_frames *f) {
  for (int i = 0; i < f->n; i++) free(f->at[i].data);
  f->n = 0;
}

/* ---- signatures ---- */

static void sign(const char *key, const char *const part[4], const size_t size[4],
                 unsigned char digest[KERNEL_DIGEST]) {
  kernel_sha256 s;
  size_t n = strlen(key);
  kernel_hmac_begin(&s, key, n);
  for (int i = 0; i < 4; i++) kernel_sha256_add(&s, part[i], size[i]);
  kernel_hmac_end(&s, key, n, digest);
}

void kernel_sign(const char *key, const char *const part[4], const size_t size[4], char text[2 * KERNEL_DIGEST + 1]) {
  unsigned char digest[KERNEL_DIGEST];
  text[0] = '\0';
  if (!*key) return;
  sign(key, part, size, digest);
  kernel_hex(digest, text);
}

/* The place of a digest in a table, or where it would stand. Tables are at most half full. */
static size_t place_of(unsigned char (*table)[KERNEL_DIGEST], const unsigned char *digest) {
  static const unsigned char empty[KERNEL_DIGEST];
  size_t i;
  memcpy(&i, digest, sizeof i);
  for (i %= KERNEL_SEEN; memcmp(table[i], empty, KERNEL_DIGEST) && memcmp(table[i], digest, KERNEL_DIGEST);)
    i = (i + 1) % KERNEL_SEEN;
  return i;
}

static bool holds(unsigned char (*table)[KERNEL_DIGEST], const unsigned char *digest) {
  return table && memcmp(table[place_of(table, digest)], digest, KERNEL_DIGEST) == 0;
}

/* Remembers a digest; NULL, or why it is refused. */
static const char *remember(kernel_memory *m, const unsigned char *digest) {
  if (holds(m->now, digest) || holds(m->before, digest)) return "its signature was used before";
  if (!m->now || m->used == KERNEL_SEEN / 2) {
    void *fresh = calloc(KERNEL_SEEN, KERNEL_DIGEST);
    if (!fresh) return "memory is lacking";
    free(m->before);
    m->before = m->now;
    m->now = fresh;
    m->used = 0;
  }
  memcpy(m->now[place_of(m->now, digest)], digest, KERNEL_DIGEST);
  m->used++;
  return NULL;
}

void kernel_seal_free(kernel_seal *seal) {
  free(seal->memory.now);
  free(seal->memory.before);
  memset(&seal->memory, 0, sizeof seal->memory);
}

/* Is the message signed, and for the first time? Its signature is frame `at`. */
static const char *check_seal(kernel_seal *seal, const kernel_frames *f, int at) {
  if (!*seal->key) return NULL;
  unsigned char digest[KERNEL_DIGEST];
  char text[2 * KERNEL_DIGEST + 1];
  const char *part[4];
  size_t size[4];
  for (int i = 0; i < 4; i++) part[i] = f->at[at + 1 + i].data, size[i] = f->at[at + 1 + i].size;
  sign(seal->key, part, size, digest);
  kernel_hex(digest, text);
  if (f->at[at].size != 2 * KERNEL_DIGEST || !kernel_same(f->at[at].data, text, 2 * KERNEL_DIGEST))
    return "its signature is wrong";
  pthread_mutex_lock(&seal->lock);
  const char *wrong = remember(&seal->memory, digest);
  pthread_mutex_unlock(&seal->lock);
  return wrong;
}

/* ---- reading ---- */

static cJSON *read_object(const kernel_frames *f, int i) {
  cJSON *value = kernel_json(f->at[i].data, f->at[i].size);
  if (cJSON_IsObject(value)) return value;
  cJSON_Delete(value);
  return NULL;
}

static bool is_mark(const kernel_frames *f, int i) {
  return f->at[i].size == sizeof mark - 1 && memcmp(f->at[i].data, mark, sizeof mark - 1) == 0;
}

static const char *read_parts(kernel_seal *seal, kernel_message *m) {
  const kernel_frames *f = &m->frames;
  int i = 0;
  while (i < f->n && !is_mark(f, i)) i++;
  if (i + 6 > f->n) return "parts are missing";
  const char *wrong = check_seal(seal, f, i + 1);
  if (wrong) return wrong;
  m->identities = i;
  m->head = read_object(f, i + 2);
  m->content = read_object(f, i + 5);
  if (!m->head || !m->content) return "header and content must be JSON objects";
  m->header = f->at[i + 2].data;
  m->type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(m->head, "msg_type"));
  if (!m->type || strlen(m->type) > LONGEST_TYPE) return "its header has no msg_type";
  return NULL;
}

const char *kernel_message_read(kernel_seal *seal, kernel_frames *frames, kernel_message *out) {
  memset(out, 0, sizeof *out);
  out->frames = *frames;
  frames->n = 0;
  const char *wrong = read_parts(seal, out);
  if (wrong) kernel_message_free(out);
  return wrong;
}

void kernel_message_free(kernel_message *m) {
  cJSON_Delete(m->head);
  cJSON_Delete(m->content);
  kernel_frames_free(&m->frames);
  memset(m, 0, sizeof *m);
}
