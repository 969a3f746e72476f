/* own_host_test.c: operations and distributions of a script in a host's runtime: a limit that ends a capture leaves
 * nothing. */
#include "check.h"

static pn_status run(pn_runtime *rt, const char *script) {
  return pn_runtime_run_string(rt, script, strlen(script), "script");
}

#define BEGIN "local pn = require 'penumbra' local w = pn.param(pn.ones{3}) "
#define DOUBLE                                                                                                         \
  "local f = pn.op{forward = function(x) return x * 2 end, vjp = function(g) return g * 2 end} "                       \
  "assert(pn.grad(f(w):sum(), {w})[1][1]:item() == 2) "                                                                \
  "assert(pn.dist.custom{log_prob = function(d, x) return -x * x end}{}:log_prob(2):item() == -4)"

int main(void) {
  pn_runtime *rt;
  pn_runtime_config config = {.limits = {.memory = 64000000, .instructions = 20000000}};
  CHECK(pn_runtime_new(&config, &rt) == PN_OK);
  CHECK(run(rt, BEGIN DOUBLE) == PN_OK);
  CHECK(run(rt, BEGIN "pn.op{forward = function(x) return x * 2 end, vjp = function(g) while true do end end}(w)") ==
        PN_LIMIT);
  CHECK(run(rt, BEGIN DOUBLE) == PN_OK);
  CHECK(run(rt, BEGIN "pn.op{forward = function(x) return x * 2 end, "
                      "vjp = function(g) for _ = 1, 1e6 do g = g * 1 end return g end}(w)") != PN_OK);
  CHECK(run(rt, BEGIN DOUBLE) == PN_OK);
  CHECK(run(rt,
            BEGIN "local x = pn.param(pn.ones{2000}) pn.op{forward = function(x) return x * 2 end, vjp = function(g) "
                  "return (g:unsqueeze(1) * g:unsqueeze(2) * pn.ones{2000, 2000}):sum{1} end}(x)") == PN_NOMEM);
  CHECK(run(rt, BEGIN DOUBLE) == PN_OK);
  CHECK(run(rt, BEGIN "endless = true f = pn.op{forward = function(x) return x * 2 end, "
                      "vjp = function(g) while endless do end return g * 2 end} f(w)") == PN_LIMIT);
  CHECK(run(rt,
            BEGIN "endless = false assert(pn.compile(function() return pn.grad(f(w):sum(), {w})[1] end)()[1]:item() "
                  "== 2)") == PN_OK);
  pn_runtime_close(rt);
  CHECK_DONE();
}
