/*
** cli.h: what the files of the command share. The command is the only part of Penumbra that prints,
** exits and handles signals.
*/
#ifndef PN_CLI_CLI_H
#define PN_CLI_CLI_H

#include <stdbool.h>
#include "../lua/penumbra_lua.h"

/* ---- command_line.c: the table of options, and reading them ---- */

enum { CLI_MAX_EXPRESSIONS = 64 };

/* A row of the table: what the command reads, and what --help, the manual page and the completions tell of it. */
typedef struct {
  const char *name, *other; /* "--help" and "-h", or NULL */
  const char *argument;     /* what its value is called, NULL: it has none */
  const char *values;       /* all that the value may be, with blanks between; NULL: anything */
  bool repeated;            /* may be given several times */
  const char *doc;          /* what it does, in a line of less than 76 letters */
} cli_option;

extern const cli_option cli_options[];
extern const int cli_num_options;

/* What was asked for. */
typedef struct {
  const char *expression[CLI_MAX_EXPRESSIONS];
  int expressions;
  const char *seed, *threads, *dtype, *completion;
  bool interactive, version, help, manual, from_stdin, strict;
  int script; /* index in argv, 0: none */
  int argc;
  char **argv;
} cli_given;

/* Reads argv into *o; false after complaining. */
bool cli_read_options(cli_given *o);
/* Prints "penumbra: ..." on standard error; returns EXIT_FAILURE. `format` has one %s. */
int cli_complain(const char *format, const char *what);

/* ---- command_text.c: what is told of the options ---- */

void cli_print_usage(FILE *out);
void cli_print_manual(FILE *out);
/* Completions for "bash", "zsh" or "fish"; false for any other. */
bool cli_print_completion(FILE *out, const char *shell);

/* ---- interrupt.c: Ctrl-C ---- */

/* Handles SIGINT for this state. `patience` is how many unheeded interrupts it takes to kill us. */
void cli_interrupt_install(lua_State *L, int patience);
/* Was there an interrupt since the last call? Makes the state usable again, for whoever no script has called. */
bool cli_interrupt_clear(lua_State *L);
/* Was there one? Any thread may ask. */
bool cli_interrupt_pending(void);

/* ---- terminal editing, editline.c ---- */

/* Pushes the table of functions that penumbra.shell uses in place of io.read; with line editing on a terminal. */
int cli_push_editor(lua_State *L, bool terminal);

/* Starts the program once more where OpenBLAS has chosen kernels below the processor's; call it first in main. */
void cli_choose_blas(char **argv);

/* `penumbra kernel ...`: becomes the notebook kernel; returns the exit code where there is none. */
int cli_run_kernel(char **argv);

/* package.cpath also leads to the modules in C beside the command. module_path.c */
void cli_add_module_path(lua_State *L);

#endif
