/*
** channel.c: the five sockets, receiving from them and sending signed messages.
*/
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>
#include "kernel.h"

enum { LARGEST = 256 << 20, LINGER = 1000 }; /* bytes of a frame; milliseconds for what is unsent at the end */

void kernel_log(kernel *k, const char *format, const char *what) {
  char text[512];
  int n = snprintf(text, sizeof text, "penumbra-kernel: ");
  n += snprintf(text + n, sizeof text - (size_t)n - 1, format, what);
  if (n > (int)sizeof text - 2) n = (int)sizeof text - 2;
  text[n++] = '\n';
  if (write(k->log, text, (size_t)n) < 0) return; /* nobody is there to be told */
}

/* ---- sockets ---- */

static const char *open_one(kernel *k, int channel) {
  static const int type[KERNEL_CHANNELS] = {ZMQ_ROUTER, ZMQ_ROUTER, ZMQ_PUB, ZMQ_ROUTER, ZMQ_ROUTER};
  int linger = LINGER, handover = 1, unlimited = 0;
  int64_t largest = LARGEST;
  void *s = k->socket[channel] = zmq_socket(k->zmq, type[channel]);
  if (!s) return zmq_strerror(errno);
  zmq_setsockopt(s, ZMQ_LINGER, &linger, sizeof linger);
  zmq_setsockopt(s, ZMQ_MAXMSGSIZE, &largest, sizeof largest);
  if (type[channel] == ZMQ_ROUTER) zmq_setsockopt(s, ZMQ_ROUTER_HANDOVER, &handover, sizeof handover);
  if (type[channel] == ZMQ_PUB) zmq_setsockopt(s, ZMQ_SNDHWM, &unlimited, sizeof unlimited);
  return zmq_bind(s, k->connection.address[channel]) == 0 ? NULL : zmq_strerror(errno);
}

/* 32 hexadecimal digits that no other kernel has. */
static bool name_session(kernel *k) {
  unsigned char bytes[16];
  FILE *f = fopen("/dev/urandom", "rb");
  bool good = f && fread(bytes, 1, sizeof bytes, f) == sizeof bytes;
  if (f) fclose(f);
  for (int i = 0; i < 16; i++) snprintf(k->session + 2 * i, 3, "%02x", good ? bytes[i] : 0u);
  return good;
}

const char *kernel_open(kernel *k) {
  if (!name_session(k)) return "/dev/urandom cannot be read";
  if (!(k->zmq = zmq_ctx_new())) return zmq_strerror(errno);
  for (int i = 0; i < KERNEL_CHANNELS; i++) {
    const char *wrong = open_one(k, i);
    if (wrong) return wrong;
  }
  return NULL;
}

void kernel_close(kernel *k) {
  for (int i = 0; i < KERNEL_CHANNELS; i++)
    if (k->socket[i]) zmq_close(k->socket[i]);
  if (k->zmq)
    while (zmq_ctx_term(k->zmq) != 0 && errno == EINTR) continue;
}

/* ---- receiving ---- */

/* Adds the frame that has come; those beyond KERNEL_FRAMES are dropped. False without memory. */
static bool keep_frame(kernel_frames *f, zmq_msg_t *frame) {
  size_t n = zmq_msg_size(frame);
  if (f->n == KERNEL_FRAMES) return true;
  char *data = malloc(n + 1);
  if (!data) return false;
  memcpy(data, zmq_msg_data(frame), n);
  data[n] = '\0';
  f->at[f->n].data = data;
  f->at[f->n++].size = n;
  return true;
}

/* All frames of the message that waits. */
static bool take_frames(void *socket, kernel_frames *f) {
  bool good = true, more = true;
  f->n = 0;
  while (more) {
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    if (zmq_msg_recv(&frame, socket, ZMQ_DONTWAIT) < 0) {
      more = f->n > 0 && errno == EINTR; /* a message comes whole */
      good = good && more;
    } else {
      good = keep_frame(f, &frame) && good;
      more = zmq_msg_more(&frame);
    }
    zmq_msg_close(&frame);
  }
  if (!good) kernel_frames_free(f);
  return good;
}

bool kernel_receive(kernel *k, int channel, int wait, kernel_message *out) {
  kernel_frames frames;
  zmq_pollitem_t item = {.socket = k->socket[channel], .events = ZMQ_POLLIN};
  if (wait > 0 && zmq_poll(&item, 1, wait) <= 0) return false;
  if (!take_frames(k->socket[channel], &frames)) return false;
  const char *wrong = kernel_message_read(&k->seal, &frames, out);
  unsigned n = wrong ? atomic_fetch_add(&k->refused, 1) + 1 : 0;
  if (wrong && (n & (n - 1)) == 0) kernel_log(k, "a message was refused: %s", wrong); /* less and less often */
  return !wrong;
}

/* ---- sending ---- */

/* The header of a message of ours; the caller frees. */
static char *make_header(kernel *k, const char *type) {
  struct timespec now;
  struct tm utc;
  char date[64], id[64];
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  size_t n = strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
  snprintf(date + n, sizeof date - n, ".%06ldZ", now.tv_nsec / 1000);
  snprintf(id, sizeof id, "%s_%u", k->session, atomic_fetch_add(&k->sent, 1));
  cJSON *h = cJSON_CreateObject();
  cJSON_AddStringToObject(h, "msg_id", id);
  cJSON_AddStringToObject(h, "session", k->session);
  cJSON_AddStringToObject(h, "username", "kernel");
  cJSON_AddStringToObject(h, "date", date);
  cJSON_AddStringToObject(h, "msg_type", type);
  cJSON_AddStringToObject(h, "version", "5.3");
  char *text = cJSON_PrintUnformatted(h);
  cJSON_Delete(h);
  return text;
}

static bool send_frame(void *socket, const void *data, size_t size, int more) {
  int n;
  do n = zmq_send(socket, data, size, more);
  while (n < 0 && errno == EINTR);
  return n >= 0;
}

/* Mark, signature and four parts. */
static void send_parts(kernel *k, void *socket, const char *parent, const char *type, const char *content) {
  char *header = make_header(k, type), signature[2 * KERNEL_DIGEST + 1];
  if (!header) return;
  const char *part[4] = {header, parent ? parent : "{}", "{}", content};
  size_t size[4];
  for (int i = 0; i < 4; i++) size[i] = strlen(part[i]);
  kernel_sign(k->connection.key, part, size, signature);
  bool good =
      send_frame(socket, "<IDS|MSG>", 9, ZMQ_SNDMORE) && send_frame(socket, signature, strlen(signature), ZMQ_SNDMORE);
  for (int i = 0; i < 4 && good; i++) good = send_frame(socket, part[i], size[i], i < 3 ? ZMQ_SNDMORE : 0);
  free(header);
}

void kernel_reply(kernel *k, int channel, const kernel_message *to, const char *type, const char *content) {
  void *socket = k->socket[channel];
  for (int i = 0; i < to->identities; i++)
    if (!send_frame(socket, to->frames.at[i].data, to->frames.at[i].size, ZMQ_SNDMORE)) return;
  send_parts(k, socket, to->header, type, content);
}

void kernel_publish_held(kernel *k, const char *parent, const char *type, const char *content) {
  if (send_frame(k->socket[KERNEL_IOPUB], type, strlen(type), ZMQ_SNDMORE))
    send_parts(k, k->socket[KERNEL_IOPUB], parent, type, content);
}

void kernel_publish(kernel *k, const char *parent, const char *type, const char *content) {
  pthread_mutex_lock(&k->publishing);
  kernel_publish_held(k, parent, type, content);
  pthread_mutex_unlock(&k->publishing);
}

void kernel_status(kernel *k, const char *parent, const char *state) {
  char content[64];
  snprintf(content, sizeof content, "{\"execution_state\": \"%s\"}", state);
  kernel_publish(k, parent, "status", content);
}
