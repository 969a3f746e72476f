/*
** kernelspec.c: `penumbra kernel install` tells Jupyter of the kernel: kernel.json in a folder of its name below
** <data>/kernels. The file appears whole or not at all.
*/
#define _GNU_SOURCE
#include <cjson/cJSON.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "kernel.h"

typedef struct kernel_spec {
  const char *prefix, *name, *display_name;
  bool user;
} kernel_spec;

static int complain(const char *format, const char *what) {
  fputs("penumbra kernel install: ", stderr);
  fprintf(stderr, format, what);
  fputs("\n", stderr);
  return EXIT_FAILURE;
}

/* The value of option `name` at argv[*i]: `--name=value` or the next argument. NULL: not this option, or no value. */
static const char *value_of(int argc, char **argv, int *i, const char *name) {
  size_t n = strlen(name);
  if (strncmp(argv[*i], name, n) != 0) return NULL;
  if (argv[*i][n] == '=') return argv[*i] + n + 1;
  return argv[*i][n] == '\0' && *i + 1 < argc ? argv[++*i] : NULL;
}

static bool read_options(int argc, char **argv, kernel_spec *o) {
  for (int i = 0; i < argc; i++) {
    const char *given = argv[i], *value;
    if (strcmp(given, "--user") == 0)
      o->user = true;
    else if ((value = value_of(argc, argv, &i, "--prefix")))
      o->prefix = value;
    else if ((value = value_of(argc, argv, &i, "--name")))
      o->name = value;
    else if ((value = value_of(argc, argv, &i, "--display-name")))
      o->display_name = value;
    else
      return complain("unknown option, or one without its value: '%s' (--user, --prefix FOLDER, --name NAME, "
                      "--display-name TEXT)",
                      given),
             false;
  }
  if (o->user && o->prefix) return complain("%s", "--user and --prefix exclude each other"), false;
  if (!*o->name || *o->name == '.' || strspn(o->name, "abcdefghijklmnopqrstuvwxyz0123456789._-") != strlen(o->name))
    return complain("--name must consist of small letters, digits, '.', '_' and '-', got '%s'", o->name), false;
  return true;
}

/* Where Jupyter looks: below a prefix, or for this user alone. */
static bool data_folder(const kernel_spec *o, char *out, size_t size) {
  const char *own = getenv("JUPYTER_DATA_DIR"), *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
  int n;
  if (o->prefix)
    n = snprintf(out, size, "%s/share/jupyter", o->prefix);
  else if (own && *own)
    n = snprintf(out, size, "%s", own);
  else if (data && *data)
    n = snprintf(out, size, "%s/jupyter", data);
  else if (home && *home)
    n = snprintf(out, size, "%s/.local/share/jupyter", home);
  else
    return complain("%s", "HOME is not set; give --prefix FOLDER"), false;
  return n > 0 && (size_t)n < size ? true : (complain("%s", "the folder's name is too long"), false);
}

/* Makes a folder and those above it. */
static bool make_folder(char *path) {
  for (char *p = path + 1;; p++) {
    if (*p && *p != '/') continue;
    char was = *p;
    *p = '\0';
    bool good = mkdir(path, 0777) == 0 || errno == EEXIST;
    if (!good) complain("%s cannot be made", path);
    *p = was;
    if (!good) return false;
    if (!was) return true;
  }
}

/* The command beside this program; the caller frees. */
static char *command_path(void) {
  char path[PATH_MAX], *slash, *command = NULL;
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  if (n <= 0) return NULL;
  path[n] = '\0';
  if (!(slash = strrchr(path, '/'))) return NULL;
  *slash = '\0';
  return asprintf(&command, "%s/penumbra", path) > 0 ? command : NULL;
}

/* The text of kernel.json; the caller frees. */
static char *spec_text(const kernel_spec *o) {
  char *command = command_path(), *text = NULL;
  if (!command) return NULL;
  const char *argv[4] = {command, "kernel", "run", "{connection_file}"};
  cJSON *spec = cJSON_CreateObject();
  cJSON_AddItemToObject(spec, "argv", cJSON_CreateStringArray(argv, 4));
  cJSON_AddStringToObject(spec, "display_name", o->display_name);
  cJSON_AddStringToObject(spec, "language", "lua");
  cJSON_AddStringToObject(spec, "interrupt_mode", "message");
  text = cJSON_Print(spec);
  cJSON_Delete(spec);
  free(command);
  return text;
}

/* Writes text and a line's end to path by way of a file beside it. */
static bool write_whole(const char *path, const char *text) {
  char *temporary = NULL;
  if (asprintf(&temporary, "%s.XXXXXX", path) < 0) return false;
  int fd = mkstemp(temporary);
  FILE *f = fd >= 0 && fchmod(fd, 0644) == 0 ? fdopen(fd, "w") : NULL;
  bool good = f && fprintf(f, "%s\n", text) > 0 && fflush(f) == 0 && fsync(fd) == 0;
  if (f)
    good = fclose(f) == 0 && good;
  else if (fd >= 0)
    close(fd);
  good = good && rename(temporary, path) == 0;
  if (!good && fd >= 0) unlink(temporary);
  free(temporary);
  return good;
}

int kernel_install(int argc, char **argv) {
  char folder[PATH_MAX], path[PATH_MAX + 32];
  kernel_spec o = {.name = "penumbra", .display_name = "Penumbra"};
  if (!read_options(argc, argv, &o) || !data_folder(&o, folder, sizeof folder - 80)) return EXIT_FAILURE;
  size_t n = strlen(folder);
  if ((size_t)snprintf(folder + n, sizeof folder - n, "/kernels/%s", o.name) >= sizeof folder - n)
    return complain("%s", "the folder's name is too long");
  if (!make_folder(folder)) return EXIT_FAILURE;
  snprintf(path, sizeof path, "%s/kernel.json", folder);
  char *text = spec_text(&o);
  bool good = text && write_whole(path, text);
  cJSON_free(text);
  if (!good) return complain("%s cannot be written", path);
  printf("%s\n", path);
  return EXIT_SUCCESS;
}
