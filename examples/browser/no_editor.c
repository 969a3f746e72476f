/* no_editor.c: the command without line editing, where there is no libedit: lines are read as they come. */
#include "../../src/cli/cli.h"

int cli_push_editor(lua_State *L, bool terminal) {
  (void)terminal;
  lua_pushnil(L);
  return 1;
}
