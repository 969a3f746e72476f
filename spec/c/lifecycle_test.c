/*
** lifecycle_test.c: contexts and runtimes come and go, after good scripts and after ones that fail, loop, eat memory
** and keep things; the memory of the process stays flat.
*/
#include <stdio.h>
#include <unistd.h>
#include "check.h"
#include "soak.h"

static const char *const scripts[] = {
    "return 1",
    "pn = require 'penumbra' x = pn.randn(50, 50) y = x:matmul(x):sum()",
    "pn = require 'penumbra' w = pn.param(pn.randn(20, 20)) for k = 1, 3 do ((w * w):sum()):backward() end",
    "pn = require 'penumbra' net = pn.nn.sequential{pn.nn.linear(4, 8), pn.nn.tanh(), pn.nn.linear(8, 1)} "
    "opt = pn.optim.adam(net:parameters()) for k = 1, 3 do opt:step(net(pn.randn(5, 4)):square():mean()) end",
    "pn = require 'penumbra' d = pn.dist.gamma(2, 3) s = d:rsample{100} e = d:log_prob(s):sum()",
    "pn = require 'penumbra' f = pn.compile(function(x) return (x * x):sum() end) for k = 1, 3 do f(pn.ones(8)) end",
    "while true do end",
    "pcall(function() while true do end end)",
    "t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
    "error {}",
    "local pn = require 'penumbra' pn.ones(3):matmul(pn.ones(4))",
    "co = coroutine.wrap(function() local x <close> = setmetatable({}, {__close = error}) coroutine.yield() end) co()",
    "x = = 1",
    "pn = require 'penumbra' x = pn.ones(1000, 1000) y = x:close()",
};

/* Kilobytes of the process in memory; 0 if the system does not tell. */
static long resident(void) {
  long pages = 0, ignored;
  FILE *f = fopen("/proc/self/statm", "r");
  if (f && fscanf(f, "%ld %ld", &ignored, &pages) != 2) pages = 0;
  if (f) fclose(f);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void *count(void *data, void *block, size_t old_size, size_t new_size) {
  size_t *held = data;
  void *p = new_size ? realloc(block, new_size) : NULL;
  if (new_size && !p) return NULL;
  if (!new_size) free(block);
  *held += new_size - (block ? old_size : 0);
  return p;
}

static void one_runtime(uint64_t *state) {
  pn_runtime *rt = NULL;
  size_t held = 0;
  pn_runtime_config config = {
      .limits = {.memory = 24 << 20, .instructions = 20000 + soak_random(state, 100000), .seconds = 5},
      .context = {.threads = 1 + (int)soak_random(state, 2), .allocate = count, .allocator_data = &held}};
  CHECK_INT(pn_runtime_new(&config, &rt), PN_OK);
  for (uint64_t k = soak_random(state, 4); k < 4; k++)
    pn_runtime_run_string(rt, scripts[soak_random(state, sizeof scripts / sizeof scripts[0])], (size_t)-1, NULL);
  pn_runtime_close(rt);
  if (held) CHECK_INT(held, 0);
}

static void one_context(uint64_t *state) {
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 2});
  int64_t shape[] = {200, (int64_t)soak_random(state, 300)};
  size_t mark = pn_scope_open(c);
  pn_tensor *x = pn_randn(c, NULL, PN_FLOAT64, 2, shape), *kept = pn_tensor_ref(pn_exp(c, x));
  pn_scope_close(c, mark);
  pn_context_close(c); /* lives on with its last tensor */
  pn_tensor_unref(kept);
}

static void cycle(long rounds, uint64_t *state) {
  for (long k = 0; k < rounds; k++) {
    one_runtime(state);
    one_context(state);
  }
}

int main(void) {
  uint64_t state = soak_seed();
  long rounds = soak_rounds(150);
  cycle(100 + rounds / 8, &state); /* allocators and libraries fill their caches */
  long before = resident();
  cycle(rounds, &state);
  long grown = resident() - before;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  grown = 0; /* sanitisers keep freed blocks and notes of their own; leaks are their own business */
#endif
  if (!check_record(grown < 8192)) printf("%ld rounds, %ld kB more than %ld kB\n", rounds, grown, before);
  printf("%ld rounds: %ld kB, %+ld kB\n", rounds, before, grown);
  CHECK_DONE();
}
