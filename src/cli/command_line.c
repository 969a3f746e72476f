/*
** command_line.c: the command's options, one row each, and reading them. A row is all that the command, --help, the
** manual page and the shells' completions know of an option (command_text.c).
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli.h"

enum {
  EXPRESSION,
  INTERACTIVE,
  SEED,
  THREADS,
  DTYPE,
  STRICT,
  VERSION,
  HELP,
  MANUAL,
  COMPLETION,
};

const cli_option cli_options[] = {
    [EXPRESSION] = {.name = "-e",
                    .argument = "CODE",
                    .repeated = true,
                    .doc = "run CODE, which knows pn; may be given several times, before the script"},
    [INTERACTIVE] = {.name = "-i", .doc = "go on at the prompt afterwards, with the variables of the script"},
    [SEED] = {.name = "--seed", .argument = "N", .doc = "seed the default generator"},
    [THREADS] = {.name = "--threads", .argument = "N", .doc = "threads used for big work; results do not depend on it"},
    [DTYPE] = {.name = "--dtype",
               .argument = "T",
               .values = "float64 float32",
               .doc = "default element type, float64 or float32"},
    [STRICT] = {.name = "--strict", .doc = "== of two tensors is an error, a condition that is a tensor a warning"},
    [VERSION] = {.name = "--version",
                 .other = "-v",
                 .doc = "versions, BLAS library and the processor type it runs for"},
    [HELP] = {.name = "--help", .other = "-h", .doc = "these options"},
    [MANUAL] = {.name = "--man", .doc = "the manual page, for man -l -"},
    [COMPLETION] = {.name = "--completion",
                    .argument = "SHELL",
                    .values = "bash zsh fish",
                    .doc = "completions for bash, zsh or fish"},
};

const int cli_num_options = sizeof cli_options / sizeof *cli_options;

int cli_complain(const char *format, const char *what) {
  fputs("penumbra: ", stderr);
  fprintf(stderr, format, what);
  fputs("\n", stderr);
  return EXIT_FAILURE;
}

/* Does `given` name the row: "--seed", "--seed=3"? Sets *value to what stands behind "=", or NULL. */
static bool names(const cli_option *row, const char *given, const char **value) {
  *value = NULL;
  if (strcmp(given, row->name) == 0 || (row->other && strcmp(given, row->other) == 0)) return true;
  size_t n = strlen(row->name);
  if (!row->argument || strncmp(given, row->name, n) != 0 || given[n] != '=') return false;
  *value = given + n + 1;
  return true;
}

static bool is_value(const cli_option *row, const char *value) {
  if (!row->values) return true;
  size_t n = strcspn(value, " ");
  if (n == 0 || value[n] != '\0') return false;
  for (const char *at = row->values; (at = strstr(at, value)) != NULL; at += n)
    if ((at == row->values || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return true;
  return false;
}

/* "float64, float32" as "float64 or float32" */
static bool refuse_value(const cli_option *row, const char *value) {
  char list[64], what[192];
  size_t n = 0;
  for (const char *at = row->values; *at && n + 5 < sizeof list; at++) {
    const char *text = *at != ' ' ? NULL : strchr(at + 1, ' ') ? ", " : " or ";
    if (!text)
      list[n++] = *at;
    else
      n += (size_t)snprintf(list + n, sizeof list - n, "%s", text);
  }
  list[n] = '\0';
  snprintf(what, sizeof what, "%s must be %s, got '%.40s'", row->name, list, value);
  cli_complain("%s", what);
  return false;
}

static bool take(cli_given *o, int which, const char *value) {
  switch (which) {
  case EXPRESSION:
    if (o->expressions == CLI_MAX_EXPRESSIONS) return cli_complain("too many %s", "-e"), false;
    o->expression[o->expressions++] = value;
    return true;
  case INTERACTIVE: return o->interactive = true;
  case SEED: return o->seed = value, true;
  case THREADS: return o->threads = value, true;
  case DTYPE: return o->dtype = value, true;
  case STRICT: return o->strict = true;
  case VERSION: return o->version = true;
  case HELP: return o->help = true;
  case MANUAL: return o->manual = true;
  case COMPLETION: return o->completion = value, true;
  default: return false;
  }
}

/* Reads the option at argv[*i], and its value where that is the next argument. */
static bool read_option(cli_given *o, int *i) {
  const char *given = o->argv[*i], *value;
  int k = 0;
  while (k < cli_num_options && !names(&cli_options[k], given, &value)) k++;
  if (k == cli_num_options) {
    cli_complain("unknown option '%s'", given);
    cli_print_usage(stderr);
    return false;
  }
  const cli_option *row = &cli_options[k];
  if (row->argument && !value) {
    if (*i + 1 == o->argc) return cli_complain("option %s needs a value", row->name), false;
    value = o->argv[++*i];
  }
  if (row->argument && !is_value(row, value)) return refuse_value(row, value);
  return take(o, k, value);
}

bool cli_read_options(cli_given *o) {
  for (int i = 1; i < o->argc; i++) {
    const char *given = o->argv[i];
    if (strcmp(given, "-") == 0) {
      o->from_stdin = true;
      o->script = i;
      return true;
    }
    if (strcmp(given, "--") == 0) {
      if (i + 1 < o->argc) o->script = i + 1;
      return true;
    }
    if (*given != '-') {
      o->script = i;
      return true;
    }
    if (!read_option(o, &i)) return false;
  }
  return true;
}
