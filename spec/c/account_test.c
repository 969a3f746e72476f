/*
** account_test.c: a runtime's account against what the process takes meanwhile, whoever takes it: examples, samplers,
** populations, files. What the account does not know of is found here, wherever it is.
*/
#include <dirent.h>
#include <stdlib.h>
#include "counted.h"
#include "file_fixture.h"
#include "soak.h"

enum { MB = 1 << 20 };

/* Examples whose `--quick` takes more than a second, of what others show as well: `make soak` runs them too. */
static const char *const left_out[] = {
    "01_bayesian_regression.lua",  "03_gru.lua",     "04_checkpoint.lua",       "05_eight_schools.lua",
    "06_logistic_regression.lua",  "07_mixture.lua", "08_gaussian_process.lua", "11_switching.lua",
    "12_stochastic_volatility.lua"};

/* The script that sets the limit of memory, which in a runtime is the host's. */
static const char own_limit[] = "17_beyond_memory.lua";

/* The same parts of the library on less: chains and populations in threads, plans, files of every kind. */
static const char *const scripts[] = {
#define SORTED                                                                                                         \
  "local c = pn.arange(60000) local m = pn.model(function(m) local x = m:sample('x', pn.dist.normal(0, 1)) "           \
  "m:observe('y', pn.dist.normal((c + x):sort(1):mean(), 1e6), pn.zeros {}) end) "
    SORTED "pn.nuts(m, {chains = 2, warmup = 10, draws = 10, progress = false})",
    SORTED "pn.smc.sample(m, {num_particles = 40, progress = false})",
#undef SORTED
    "local t = {} for k = 1, 300 do t['a' .. k] = pn.randn(1000) end "
    "assert(pn.save('t.safetensors', t)) t = assert(pn.load 't.safetensors') "
    "assert(pn.data.save_npz('t.npz', t, {compressed = true})) t = assert(pn.data.npz 't.npz') "
    "assert(pn.data.save_csv('t.csv.gz', pn.randn(20000, 5))) t = assert(pn.data.csv 't.csv.gz')",
    "local f = assert(io.open('t.json', 'w')) f:write '[0' for k = 1, 100000 do f:write(',{\"a\":', k, '}') end "
    "f:write ']' f:close() assert(#pn.data.json 't.json' == 100001)",
    "local x = pn.randn(700, 700) local u, s = x:svd() local l = (x:matmul(x:t()) + pn.eye(700)):cholesky() "
    "local v = x:sort(1) local w = pn.infer.psis(pn.randn(100000, 2))",
};

static pn_runtime *open_runtime(int threads, void (*output)(void *, const char *, size_t)) {
  pn_runtime *rt = NULL;
  pn_runtime_config config = {
      .libraries = PN_LIBS_FULL, .context = {.threads = threads, .pool_limit = PN_NO_POOL}, .output = output};
  CHECK_INT(pn_runtime_new(&config, &rt), PN_OK);
  CHECK_INT(
      pn_runtime_run_string(rt, "pn = require 'penumbra' arg = {[0] = 'example', '--quick'}", (size_t)-1, "start"),
      PN_OK);
  return rt;
}

static void be_quiet(void *data, const char *line, size_t length) { (void)data, (void)line, (void)length; }

/* Runs a script, or the file `path`: bytes that malloc gave at most beside those of the account's largest. */
static double beside(const char *path, const char *script, void (*output)(void *, const char *, size_t), size_t *peak) {
  long long start = counted_start();
  pn_runtime *rt = open_runtime(2, output);
  pn_status s = path ? pn_runtime_run_file(rt, path) : pn_runtime_run_string(rt, script, (size_t)-1, "script");
  if (!check_record(s == PN_OK)) printf("%s: %s\n", path ? path : script, pn_runtime_message(rt));
  pn_runtime_memory(rt, peak);
  long long most = counted_peak() - start;
  pn_runtime_close(rt);
  return (double)most - (double)*peak;
}

/* malloc rounds the small blocks of Lua up, and large aligned ones by what nobody touches; buffers of files and what
 * the C library keeps are some kilobytes. */
static bool agrees(double more, size_t peak) { return more < 0.12 * (double)peak + MB && more > -0.01 * (double)peak; }

static void compare(const char *path, const char *script) {
  size_t peak;
  double more = beside(path, script, be_quiet, &peak);
  if (!check_record(agrees(more, peak)))
    printf("%.80s: the account had %.2f MB, the process took %.2f MB more\n", path ? path : script, (double)peak / MB,
           more / MB);
}

static void examples(const char *home) {
  char path[1024], at[768];
  snprintf(at, sizeof at, "%s/examples", home);
  DIR *d = opendir(at);
  int count = 0;
  bool all = getenv("PN_SOAK") != NULL;
  for (struct dirent *e; d && (e = readdir(d));) {
    bool out = !ends_with(e->d_name, ".lua") || strcmp(e->d_name, own_limit) == 0;
    for (size_t k = 0; k < sizeof left_out / sizeof *left_out && !all; k++)
      out = out || strcmp(e->d_name, left_out[k]) == 0;
    if (out) continue;
    snprintf(path, sizeof path, "%s/%s", at, e->d_name);
    compare(path, NULL);
    count++;
  }
  if (d) closedir(d);
  CHECK(count >= (all ? 13 : 4));
}

/* What this program takes beside the account while a script runs is seen. */
static void take(void *data, const char *line, size_t length) {
  (void)data, (void)line;
  char *volatile p = malloc(16 * MB);
  if (p) p[length] = 1;
  free(p);
}

int main(void) {
  char home[512];
  CHECK(getcwd(home, sizeof home) != NULL);
  make_folder();
  CHECK(chdir(folder) == 0); /* examples leave pictures */
  size_t first;
  beside(NULL, "local x = pn.randn(300, 300):sum()", be_quiet, &first); /* what is taken once for the process */
  size_t peak;
  double more = beside(NULL, "print 'now'", take, &peak);
  CHECK(!agrees(more, peak));
  for (size_t k = 0; k < sizeof scripts / sizeof *scripts; k++)
    if (soak_takes((long)k)) compare(NULL, scripts[k]);
  examples(home);
  CHECK(chdir(home) == 0);
  char command[128];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  CHECK(system(command) == 0);
  CHECK_DONE();
}
