/*
** file_sandbox_test.c: scripts of a runtime reach regular files below the folder that the host grants, and nothing
** else, by whatever function and whatever path; opening never waits; limits hold while files are read and written.
*/
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include "file_fixture.h"

static char root[128], text[1024];

static void collect(void *data, const char *line, size_t length) {
  (void)data;
  snprintf(text, sizeof text, "%.*s", (int)length, line);
}

static pn_runtime *open_runtime(const char *at, bool writable, pn_limits limits) {
  pn_runtime *rt = NULL;
  pn_runtime_config config = {.libraries = PN_LIBS_SAFE | PN_LIB_FILES,
                              .limits = limits,
                              .root = at,
                              .root_writable = writable,
                              .output = collect};
  CHECK_INT(pn_runtime_new(&config, &rt), PN_OK);
  return rt;
}

static pn_status run(pn_runtime *rt, const char *script) {
  return pn_runtime_run_string(rt, script, (size_t)-1, "script");
}

static void expect(pn_runtime *rt, const char *script, pn_status want, const char *message) {
  pn_status got = run(rt, script);
  if (!check_record(got == want && strstr(pn_runtime_message(rt), message)))
    printf("%.70s...: %s \"%s\"\n", script, pn_status_name(got), pn_runtime_message(rt));
}

static const char *below(const char *name) {
  static char path[4][256];
  static int turn;
  turn = (turn + 1) % 4;
  snprintf(path[turn], sizeof path[turn], "%s/%s", root, name);
  return path[turn];
}

static bool holds(const char *path, const char *want) {
  size_t n;
  char *p = (char *)read_bytes(path, &n);
  bool ok = p && n == strlen(want) && memcmp(p, want, n) == 0;
  free(p);
  return ok;
}

static void listen_at(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int s = socket(AF_UNIX, SOCK_STREAM, 0);
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  CHECK(bind(s, (struct sockaddr *)&address, sizeof address) == 0);
  close(s);
}

/* folder/secret and folder/outside/x lie outside of folder/root. */
static void build(void) {
  make_folder();
  snprintf(root, sizeof root, "%s/root", folder);
  CHECK(mkdir(root, 0777) == 0 && mkdir(below("sub"), 0777) == 0 && mkdir(in_folder("outside"), 0777) == 0);
  write_bytes(in_folder("secret"), "secret", 6);
  write_bytes(in_folder("outside/x"), "secret", 6);
  write_bytes(below("in"), "1,2\n3,4\n", 8);
  write_bytes(below("sub/x"), "inside", 6);
  write_bytes(below("mod.lua"), "return {name = ...}", 19);
  CHECK(symlink("../secret", below("link_out")) == 0 && symlink("in", below("link_in")) == 0);
  CHECK(symlink("..", below("up")) == 0 && symlink(".", below("sub/here")) == 0);
  CHECK(link(in_folder("secret"), below("hard")) == 0);
  CHECK(mkfifo(below("fifo"), 0666) == 0);
  listen_at(below("socket"));
}

static void tear_down(void) {
  static const char *const names[] = {"in",      "sub/x", "sub/here", "mod.lua", "link_out",
                                      "link_in", "up",    "hard",     "fifo",    "socket"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) CHECK(unlink(below(names[i])) == 0);
  CHECK(rmdir(below("sub")) == 0 && rmdir(root) == 0); /* no other file was left */
  CHECK(unlink(in_folder("secret")) == 0 && unlink(in_folder("outside/x")) == 0);
  CHECK(rmdir(in_folder("outside")) == 0);
  remove_folder();
}

/* ---- what is granted works ---- */

static void test_granted(void) {
  pn_runtime *rt = open_runtime(root, true, (pn_limits){.seconds = 20});
  static const char *const scripts[] = {
      "local f = assert(io.open 'in') assert(f:read 'a' == '1,2\\n3,4\\n') f:close()",
      "for line in io.lines('./sub//x') do assert(line == 'inside') end",
      "local f <close> = assert(io.open('new', 'w')) f:write('a', 1, 2.5, '\\n') f:close() "
      "assert(io.open('new'):read 'a' == 'a12.5\\n') assert(os.rename('new', 'sub/new')) "
      "assert(not io.open 'new') assert(os.remove 'sub/new')",
      "local f = assert(io.tmpfile()) f:write 'x' f:seek 'set' assert(f:read(1) == 'x')",
      "local name = os.tmpname() assert(io.open(name)) assert(os.remove(name))",
      "assert(require 'mod'.name == 'mod') assert(dofile 'mod.lua') assert(loadfile('mod.lua', 't', {}))",
      "local pn = require 'penumbra' local t = assert(pn.data.csv('in', {header = false})) assert(t:shape()[1] == 2)",
      "local pn = require 'penumbra' for k = 1, 2 do assert(pn.save('sub/p', {x = pn.full({3}, k)})) end "
      "assert(pn.load 'sub/p'.x:sum():item() == 6) assert(os.remove 'sub/p')",
      "local pn = require 'penumbra' local x = pn.ones(2, 2) for _, e in ipairs{'npy', 'idx', 'csv', 'csv.gz'} do "
      "local name, kind = 'sub/f.' .. e, e:match '%a+' assert(pn.data['save_' .. kind](name, x)) "
      "assert(pn.data[kind](name)) assert(os.remove(name)) end",
      "assert(io.open('hard'):read 'a' == 'secret')",
      "io.output 'out' io.write('x', 1) io.close() assert(io.input 'out' and io.read 'a' == 'x1') "
      "io.input():close() assert(os.remove 'out')",
      "local pn = require 'penumbra' local net = pn.nn.linear(1, 1) pn.train.fit{data = {pn.ones(8, 1), pn.ones(8, "
      "1)}, "
      "loss = function(a, b) return (net(a) - b):square():mean() end, epochs = 2, progress = true, "
      "optimiser = pn.optim.sgd(net:parameters(), {lr = 0.1})}",
      "assert(io.stdin == nil and io.stdout == nil and io.popen == nil)",
  };
  for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) expect(rt, scripts[i], PN_OK, "");
  expect(rt, "io.write 'x'", PN_SCRIPT, "default output file is closed"); /* as in stock Lua */
  pn_runtime_close(rt);
  rt = open_runtime(root, false, (pn_limits){0});
  expect(rt, "io.write 'to the host'", PN_OK, "");
  CHECK_STR(text, "to the host");
  pn_runtime_close(rt);
}

/* ---- what is not granted is refused by every function ---- */

/* Each way to a file. Such that name no file of their own are given one. */
static const char ways[] =
    "local pn = require 'penumbra' local x = pn.ones(2)\n"
    "local ways = {\n"
    "  open = io.open, write = function(p) return io.open(p, 'w') end, append = function(p) return io.open(p, 'a+') "
    "end,\n"
    "  update = function(p) return io.open(p, 'r+') end, lines = function(p) return io.lines(p) end,\n"
    "  input = function(p) return io.input(p) end, output = function(p) return io.output(p) end,\n"
    "  loadfile = loadfile, dofile = dofile, rename_to = function(p) return os.rename('in', p) end,\n"
    "  save = function(p) return pn.save(p, {x = x}) end, load = pn.load,\n"
    "  require = function(p) package.loaded[p] = nil return require(p) end}\n"
    "if not TARGETS then ways.remove, ways.rename = os.remove, function(p) return os.rename(p, 'in') end end\n"
    "for _, f in ipairs{'csv', 'npy', 'idx', 'npz'} do\n"
    "  ways[f] = pn.data[f] ways['save_' .. f] = function(p) return pn.data['save_' .. f](p, f == 'npz' and {x = x} or "
    "x) end\n"
    "end\n"
    "local n = 0\n"
    "for _, path in ipairs(PATHS) do\n"
    "  for name, way in pairs(ways) do\n"
    "    local ok, result = pcall(way, path)\n"
    "    if ok and result then error(name .. ' reached ' .. path) end n = n + 1\n"
    "  end\n"
    "end\n"
    "assert(n >= 17 * #PATHS)\n";

static void test_refused(void) {
  char script[4096];
  for (int writable = 0; writable < 2; writable++) {
    pn_runtime *rt = open_runtime(root, writable, (pn_limits){.seconds = 60});
    snprintf(script, sizeof script,
             "PATHS = {'../secret', 'sub/../../secret', '%s/secret', '/proc/self/mem', '/dev/zero', 'link_out', "
             "'up/secret', 'sub/here/x', 'link_in', 'fifo', 'socket', 'sub', 'sub/', '.', '', '..', 'sub/..', '/', "
             "'in\\0', ('a'):rep(300), ('a/'):rep(3000), 'in/x'}",
             folder);
    expect(rt, script, PN_OK, "");
    expect(rt, "TARGETS = true", PN_OK, ""); /* removing a link is no way out */
    expect(rt, ways, PN_OK, "");
    pn_runtime_close(rt);
  }
  pn_runtime *rt = open_runtime(root, false, (pn_limits){0}); /* reading only */
  expect(rt,
         "for _, m in ipairs{'w', 'a', 'r+', 'w+', 'a+'} do local f, e = io.open('in', m) assert(not f) "
         "assert(e:find 'reading only', e) end assert(not os.remove 'in' and not os.rename('in', 'b')) "
         "assert(not pcall(os.tmpname) and not io.tmpfile()) local pn = require 'penumbra' "
         "local ok, e = pn.save('in', {x = pn.ones(1)}) assert(not ok and e:find 'reading only', e)",
         PN_OK, "");
  pn_runtime_close(rt);
  rt = open_runtime(root, true, (pn_limits){0}); /* a hard link outwards is never written */
  expect(rt,
         "for _, m in ipairs{'w', 'a', 'r+'} do local f, e = io.open('hard', m) assert(not f and e:find 'hard', e) end",
         PN_OK, "");
  expect(rt, "local f, e = io.open '../secret' error(e)", PN_SCRIPT, "outside the folder");
  expect(rt, "local f, e = io.open 'link_in' error(e)", PN_SCRIPT, "symbolic link");
  expect(rt, "local f, e = io.open 'fifo' error(e)", PN_SCRIPT, "regular file");
  expect(rt, "for line in io.lines 'up/secret' do end", PN_SCRIPT, "symbolic link");
  pn_runtime_close(rt);
  rt = open_runtime("/", false, (pn_limits){.seconds = 60}); /* other file systems are not part of the folder */
  expect(rt, "PATHS = {'proc/self/mem', 'proc/version', 'dev/null', 'dev/zero', 'sys/kernel/notes'} TARGETS = true",
         PN_OK, "");
  expect(rt, ways, PN_OK, "");
  pn_runtime_close(rt);
  CHECK(holds(in_folder("secret"), "secret") && holds(in_folder("outside/x"), "secret"));
  CHECK(holds(below("in"), "1,2\n3,4\n"));
}

/* ---- while another thread puts a link to the outside in a folder's place ---- */

static atomic_bool racing;
static char sub[256], aside[256], evil[256];

static void *swap(void *data) {
  (void)data;
  while (atomic_load(&racing)) {
    rename(sub, aside);
    rename(evil, sub);
    rename(sub, evil);
    rename(aside, sub);
  }
  return NULL;
}

static void test_race(void) {
  pthread_t thread;
  pn_runtime *rt = open_runtime(root, true, (pn_limits){.seconds = 60});
  snprintf(sub, sizeof sub, "%s/sub", root);
  snprintf(aside, sizeof aside, "%s/aside", folder);
  snprintf(evil, sizeof evil, "%s/evil", folder);
  CHECK(symlink("../outside", evil) == 0);
  atomic_store(&racing, true);
  pthread_create(&thread, NULL, swap, NULL);
  expect(rt,
         "local seen, missed = 0, 0 for k = 1, 20000 do local f = io.open 'sub/x' "
         "if f then assert(f:read 'a' == 'inside') f:close() seen = seen + 1 else missed = missed + 1 end end "
         "assert(seen > 0) print(seen, missed)",
         PN_OK, "");
  expect(rt,
         "local pn = require 'penumbra' local x = {x = pn.ones(1)} for k = 1, 300 do pn.save('sub/y', x) "
         "local f = io.open('sub/z', 'w') if f then f:close() end end",
         PN_OK, "");
  atomic_store(&racing, false);
  pthread_join(thread, NULL);
  CHECK(unlink(evil) == 0);
  pn_runtime_close(rt);
  CHECK(holds(in_folder("outside/x"), "secret") && access(in_folder("outside/y"), F_OK) != 0);
  CHECK(access(in_folder("outside/z"), F_OK) != 0); /* and rmdir of `outside` finds nothing else */
  unlink(below("sub/y"));
  unlink(below("sub/z"));
}

/* ---- limits ---- */

static void test_limits(void) {
  int fd = open(below("big"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  CHECK(fd >= 0 && write(fd, "#", 1) == 1 && ftruncate(fd, (off_t)1 << 36) == 0); /* a first line of 64 GiB */
  close(fd);
  static const char *const scripts[] = {
      "io.open('big'):read 'a'",
      "io.open('big'):read(1 << 40)",
      "io.open('big'):read 'l'",
      "for block in io.lines('big', 4096) do end",
      "dofile 'big'",
      "loadfile 'big'",
      "assert(require 'penumbra'.data.csv 'big')",
      "local s = ('x'):rep(1 << 20) local f = io.open('w', 'w') while true do "
      "f:seek 'set' f:write(s) end",
      "while true do local f = io.open 'in' f:close() end",
      "while true do require 'penumbra'.save('w', {x = require 'penumbra'.ones(1)}) end",
      "while true do os.rename('in', 'in') end",
      "while true do io.open('in'):read 'n' end",
  };
  for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
    pn_runtime *rt = open_runtime(root, true, (pn_limits){.seconds = 0.1, .memory = 64 << 20});
    pn_status s = run(rt, scripts[i]);
    if (!check_record(s == PN_TIME || s == PN_NOMEM ||
                      (s == PN_SCRIPT && strstr(pn_runtime_message(rt), "out of memory"))))
      printf("%s: %s %s\n", scripts[i], pn_status_name(s), pn_runtime_message(rt));
    pn_runtime_close(rt);
  }
  pn_runtime *rt = open_runtime(root, true, (pn_limits){.instructions = 100000});
  expect(rt, "io.open('big'):read(1 << 27)", PN_LIMIT, "instruction limit");
  pn_runtime_close(rt);
  rt = open_runtime(root, true, (pn_limits){0});
  expect(rt,
         "local t = {} for k = 1, 64 do t[k] = assert(io.open 'in') end local f, e = io.open 'in' assert(not f, e) "
         "t = nil collectgarbage() assert(io.open 'in')",
         PN_OK, "");
  expect(rt, "for k = 1, 3000 do assert(io.open 'in') end", PN_OK, ""); /* those nobody holds are closed */
  pn_runtime_close(rt);
  CHECK(unlink(below("big")) == 0 && unlink(below("w")) == 0);
}

static double seconds_for(const char *script, double limit, pn_status *status) {
  struct timespec a, b;
  pn_runtime *rt = open_runtime(root, true, (pn_limits){0});
  CHECK_INT(run(rt, "pn = require 'penumbra' x = pn.ones(1000, 300)"), PN_OK);
  CHECK_INT(pn_runtime_set_limits(rt, &(pn_limits){.seconds = limit}), PN_OK);
  clock_gettime(CLOCK_MONOTONIC, &a);
  *status = run(rt, script);
  clock_gettime(CLOCK_MONOTONIC, &b);
  pn_runtime_close(rt);
  return (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
}

/* A safetensors file of 60,000 empty tensors. */
static void write_many(const char *path) {
  FILE *f = fopen(path, "w");
  unsigned char size[8];
  fseek(f, 8, SEEK_SET);
  for (int k = 0; k < 60000; k++)
    fprintf(f, "%s\"t%d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}", k ? "," : "{", k);
  fputs("}", f);
  uint64_t n = (uint64_t)ftell(f) - 8;
  for (int k = 0; k < 8; k++) size[k] = (unsigned char)(n >> 8 * k);
  rewind(f);
  CHECK(fwrite(size, 1, 8, f) == 8 && fclose(f) == 0);
}

/* Work whose bytes reach the file rarely, or stand in one line or cell, is interrupted all the same: a tenth of its
 * time as a limit ends it before half of its time. */
static void test_interruptions(void) {
  static const char *const scripts[] = {
      "assert(pn.data.csv 'wide')",
      "assert(pn.data.save_csv('out.csv.gz', x))",
      "assert(pn.load 'many')",
      "for k = 1, 4 do assert(pn.data.save_npz('out', {x = pn.ones(1000, 3000)}, {compressed = true})) end",
  };
  FILE *f = fopen(below("wide"), "w");
  for (int k = 0; k < 400000; k++) fputs("1,", f);
  CHECK(fclose(f) == 0);
  write_many(below("many"));
  for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
    pn_status status;
    double whole = seconds_for(scripts[i], 600, &status), part = whole;
    CHECK_INT(status, PN_OK);
    for (int tries = 0; tries < 4 && part > whole / 2; tries++) part = seconds_for(scripts[i], whole / 10, &status);
    if (!check_record(part < whole / 2 && status != PN_OK))
      printf("%s: %.3f of %.3f s, %s\n", scripts[i], part, whole, pn_status_name(status));
  }
  CHECK(unlink(below("wide")) == 0 && unlink(below("many")) == 0 && unlink(below("out")) == 0 &&
        unlink(below("out.csv.gz")) == 0);
}

/* ---- hosts ---- */

static pn_status start(unsigned libraries, const char *at, const char *script) {
  pn_runtime *rt = NULL;
  pn_runtime_config config = {.libraries = libraries, .root = at};
  pn_status s = pn_runtime_new(&config, &rt);
  if (s == PN_OK) s = run(rt, script);
  snprintf(text, sizeof text, "%s", rt ? pn_runtime_message(rt) : "");
  pn_runtime_close(rt);
  return s;
}

static void test_hosts(void) {
  char script[512];
  CHECK_INT(start(PN_LIBS_SAFE | PN_LIB_FILES, NULL, ""), PN_DOMAIN);
  CHECK_INT(start(PN_LIBS_SAFE, root, ""), PN_DOMAIN);
  CHECK_INT(start(PN_LIBS_FULL, root, ""), PN_DOMAIN);
  CHECK_INT(start(PN_LIBS_SAFE | PN_LIB_FILES, in_folder("nowhere"), ""), PN_IO);
  CHECK_INT(start(PN_LIBS_SAFE | PN_LIB_FILES, in_folder("secret"), ""), PN_IO);
  /* without files nothing opens, by whatever library */
  const char *path = in_folder("p");
  snprintf(script, sizeof script, "local pn = require 'penumbra' assert(pn.save('%s', {x = pn.ones(2)}))", path);
  CHECK_INT(start(0, NULL, script), PN_SCRIPT);
  CHECK(strstr(text, "this script may not open files"));
  CHECK_INT(start(PN_LIBS_SAFE | PN_LIB_TIME | PN_LIB_FINALIZERS | PN_LIB_OS, NULL, script), PN_SCRIPT);
  CHECK(access(path, F_OK) != 0);
  CHECK_INT(start(0, NULL, "local pn = require 'penumbra' pn.data.npy '" FIXTURES "f8.npy'"), PN_SCRIPT);
  CHECK(strstr(text, "this script may not open files"));
  CHECK_INT(start(PN_LIBS_SAFE | PN_LIB_PACKAGE, NULL, "assert(require 'penumbra.core'.files == nil and io == nil)"),
            PN_OK);
  CHECK_INT(start(0, NULL, "local pn = require 'penumbra' assert(pn.data.split(pn.ones(4), 0.5))"), PN_OK);
  CHECK_INT(start(0, NULL,
                  "local p = require 'penumbra'.plot local ok, e, code = p.save('a.svg', p.line({1, 2}, {1, 2})) "
                  "assert(not ok and code == 'missing', e)"),
            PN_OK);
  CHECK_STR(text, "");
  /* trusted: any path */
  CHECK_INT(start(PN_LIBS_SAFE | PN_LIB_TRUSTED_IO, NULL, script), PN_OK);
  CHECK(unlink(path) == 0);
}

int main(void) {
  alarm(120); /* what waits for a pipe fails */
  build();
  test_granted();
  test_refused();
  test_race();
  test_limits();
  test_interruptions();
  test_hosts();
  tear_down();
  CHECK_DONE();
}
