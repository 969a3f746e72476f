/*
** file_sandbox_test.c: scripts of a runtime reach files only where the host grants them.
*/
#include "file_fixture.h"

static pn_status run(unsigned libraries, const char *script, char text[512]) {
  pn_runtime *rt = NULL;
  pn_runtime_config config = {.libraries = libraries};
  CHECK_INT(pn_runtime_new(&config, &rt), PN_OK);
  pn_status status = pn_runtime_run_string(rt, script, strlen(script), "script");
  snprintf(text, 512, "%s", rt ? pn_runtime_message(rt) : "");
  pn_runtime_close(rt);
  return status;
}

int main(void) {
  char script[512], text[512];
  make_folder();
  const char *path = in_folder("x");
  snprintf(script, sizeof script, "local pn = require 'penumbra' assert(pn.save('%s', {x = pn.ones(2)}))", path);
  CHECK_INT(run(0, script, text), PN_SCRIPT);
  CHECK(strstr(text, "this script may not open files"));
  CHECK_INT(run(PN_LIBS_FULL & ~(unsigned)(PN_LIB_FILES | PN_LIB_PACKAGE | PN_LIB_DEBUG), script, text), PN_SCRIPT);
  CHECK(access(path, F_OK) != 0);
  CHECK_INT(run(0, "local pn = require 'penumbra' pn.data.npy '" FIXTURES "f8.npy'", text), PN_SCRIPT);
  CHECK(strstr(text, "this script may not open files"));
  CHECK_INT(run(0, "local c = require 'penumbra.core' assert(c.files == nil)", text), PN_OK);
  CHECK_INT(run(0, "local d = require('penumbra').data assert(d.split(require('penumbra').ones(4), 0.5))", text),
            PN_OK);
  CHECK_INT(run(PN_LIBS_SAFE | PN_LIB_FILES, script, text), PN_OK);
  if (*text) printf("%s\n", text);
  CHECK(access(path, F_OK) == 0);
  unlink(path);
  remove_folder();
  CHECK_DONE();
}
