/*
** connection.c: the file by which whoever starts a kernel says where it has to listen and with which key messages are
** signed.
*/
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kernel.h"

enum { LARGEST = 1 << 16 };

cJSON *kernel_json(const char *text, size_t n) {
  if (memchr(text, '\0', n)) return NULL;
  return cJSON_ParseWithLengthOpts(text, n + 1, NULL, 1); /* and nothing behind it */
}

static const char *text_of(const cJSON *file, const char *name) {
  return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(file, name));
}

/* "tcp://ip:port" or, for ipc, "ipc://path-port". */
static const char *read_address(const cJSON *file, const char *transport, const char *ip, const char *name, char *out) {
  const cJSON *port = cJSON_GetObjectItemCaseSensitive(file, name);
  double p = cJSON_IsNumber(port) ? port->valuedouble : -1;
  if (!(p >= 1 && p <= 65535) || p != (double)(int)p) return "ports must be whole numbers from 1 to 65535";
  bool ipc = strcmp(transport, "ipc") == 0;
  int n = snprintf(out, KERNEL_ADDRESS, "%s://%s%c%d", transport, ip, ipc ? '-' : ':', (int)p);
  return n > 0 && n < KERNEL_ADDRESS ? NULL : "ip is too long";
}

static const char *read_object(const cJSON *file, kernel_connection *out) {
  static const char *const ports[KERNEL_CHANNELS] = {"shell_port", "control_port", "iopub_port", "stdin_port",
                                                     "hb_port"};
  const char *transport = text_of(file, "transport"), *ip = text_of(file, "ip"), *key = text_of(file, "key");
  const char *scheme = text_of(file, "signature_scheme");
  if (!cJSON_IsObject(file)) return "it is no JSON object";
  if (!transport || (strcmp(transport, "tcp") != 0 && strcmp(transport, "ipc") != 0))
    return "transport must be tcp or ipc";
  if (!ip || !*ip) return "ip is missing";
  if (!key) return "key is missing";
  if (strlen(key) >= KERNEL_KEY) return "key is too long";
  if (*key && (!scheme || strcmp(scheme, "hmac-sha256") != 0)) return "signature_scheme must be hmac-sha256";
  strcpy(out->key, key);
  for (int i = 0; i < KERNEL_CHANNELS; i++) {
    const char *wrong = read_address(file, transport, ip, ports[i], out->address[i]);
    if (wrong) return wrong;
    for (int j = 0; j < i; j++)
      if (strcmp(out->address[i], out->address[j]) == 0) return "two channels have the same port";
  }
  return NULL;
}

const char *kernel_connection_read(const char *text, size_t size, kernel_connection *out) {
  memset(out, 0, sizeof *out);
  cJSON *file = kernel_json(text, size);
  const char *wrong = read_object(file, out);
  cJSON_Delete(file);
  return wrong;
}

const char *kernel_connection_open(const char *path, kernel_connection *out) {
  FILE *f = fopen(path, "rb");
  if (!f) return "it cannot be opened";
  char *text = malloc(LARGEST + 1);
  size_t n = text ? fread(text, 1, LARGEST, f) : 0;
  bool whole = n < LARGEST && !ferror(f);
  fclose(f);
  if (text) text[n] = '\0';
  const char *wrong = !text ? "memory is lacking" : whole ? kernel_connection_read(text, n, out) : "it cannot be read";
  free(text);
  return wrong;
}
