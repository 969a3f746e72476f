/*
** bridge_message.c: messages that hosts free, texts that grow, and where scripts print.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bridge.h"

static char no_memory[] = "not enough memory"; /* the one message that needs none */

int bridge_fail(char **error, const char *where, const char *format, ...) {
  if (!error) return -1;
  va_list args;
  va_start(args, format);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  size_t head = strlen(where) + 2, room = head + (n < 0 ? 0 : (size_t)n) + 1;
  char *text = malloc(room);
  *error = text ? text : no_memory;
  if (!text) return -1;
  snprintf(text, room, "%s: ", where);
  va_start(args, format);
  vsnprintf(text + head, room - head, format, args);
  va_end(args);
  return -1;
}

void bs_free_error_msg(char *error_msg) {
  if (error_msg != no_memory) free(error_msg);
}

int bridge_check(char **error, const char *where, const char *names, int n, const void *const *arguments) {
  int k = 0;
  while (k < n && arguments[k]) k++;
  if (k == n) return 0;
  for (; k > 0; k--) names += strcspn(names, " ") + 1;
  return bridge_fail(error, where, "%.*s must not be NULL", (int)strcspn(names, " "), names);
}

void bridge_append(bridge_text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (n < 0 || (t->room && !t->text)) return; /* a failure stays one */
  if (t->length + (size_t)n + 1 > t->room) {
    size_t room = 2 * t->room + (size_t)n + 64;
    char *larger = realloc(t->text, room);
    if (!larger) free(t->text);
    t->text = larger;
    t->room = room;
    if (!larger) return;
  }
  va_start(args, format);
  t->length += (size_t)vsnprintf(t->text + t->length, t->room - t->length, format, args);
  va_end(args);
}

/* The interface has one callback for all models of the library. */
static struct {
  pthread_mutex_t lock;
  STREAM_CALLBACK callback;
} printing = {PTHREAD_MUTEX_INITIALIZER, NULL};

void bridge_print(void *data, const char *text, size_t length) {
  (void)data;
  pthread_mutex_lock(&printing.lock);
  if (printing.callback)
    printing.callback(text, length);
  else
    fwrite(text, 1, length, stdout);
  pthread_mutex_unlock(&printing.lock);
}

int bs_set_print_callback(STREAM_CALLBACK callback, char **error_msg) {
  (void)error_msg;
  pthread_mutex_lock(&printing.lock);
  printing.callback = callback;
  pthread_mutex_unlock(&printing.lock);
  return 0;
}
