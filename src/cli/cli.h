/*
** cli.h: what the files of the command share. The command is the only part of Penumbra that prints,
** exits and handles signals.
*/
#ifndef PN_CLI_CLI_H
#define PN_CLI_CLI_H

#include <stdbool.h>
#include "../lua/penumbra_lua.h"

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

#endif
