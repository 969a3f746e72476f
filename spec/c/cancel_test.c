/*
** cancel_test.c: several runtimes in as many threads, each cancelled at random moments from yet another thread, with
** limits drawn at random: every call ends as asked, and the next one works. (Under `make tsan` also: without a race.)
*/
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include "check.h"
#include "soak.h"

enum { RUNTIMES = 3 };

/* None ends by itself. */
static const char *const scripts[] = {
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "local pn = require 'penumbra' local x = pn.rand(120, 120) while true do x = x:matmul(x):tanh() end",
    "local pn = require 'penumbra' local x = pn.rand(300000) while true do local y = x:exp():sum() end",
    "local pn = require 'penumbra' while true do pcall(pn.randn, 1000, 100) end",
    "local pn = require 'penumbra' local w = pn.param(pn.randn(30, 30)) while true do "
    "((w:matmul(w)):square():mean()):backward() end",
    "local pn = require 'penumbra' local f = pn.compile(function(x) return x:sin():sum() end) local x = pn.ones(9000) "
    "while true do f(x) end",
    "local s = ('x'):rep(1 << 16) while true do s:find(('.-'):rep(6) .. 'b') end",
    "local t = {} for i = 1, 20000 do t[i] = -i end while true do table.sort(t) end",
    "local pn = require 'penumbra' local net = pn.nn.linear(50, 40) local x, y = pn.randn(300, 50), pn.zeros(300, 40) "
    "local q = pn.dist.normal(pn.zeros(2040), 1):independent(1) "
    "while true do pn.continual.site_sums(net, x, y, {likelihood = 'bernoulli', posterior = q}) end",
    "local pn = require 'penumbra' local net = pn.nn.linear(50, 40) local x, y = pn.randn(300, 50), pn.zeros(300, 40) "
    "local q = pn.dist.normal(pn.zeros(2040), 1):independent(1) "
    "while true do pn.continual.sites(net, x, y, {likelihood = 'bernoulli', posterior = q}) end",
    "local pn = require 'penumbra' local x = pn.rand(1, 1, 400, 400) while true do x:max_pool2d(101, 1, 50) end",
    "local pn = require 'penumbra' local x = pn.rand(1, 1, 400, 400) local w = pn.ones(1, 1, 41, 41) "
    "while true do x:conv2d(w) end",
    "local pn = require 'penumbra' local x = pn.rand(400000) while true do x:argsort() x:logcumsumexp() end",
    "local pn = require 'penumbra' local net, x = pn.nn.lstm(8, 8), pn.zeros(4000, 3, 8) while true do net(x) end",
    "while true do coroutine.wrap(function() for k = 1, 50 do coroutine.yield() end end)() end",
};

typedef struct {
  pthread_t runner, canceller;
  pn_runtime *rt;
  uint64_t state, moments;
  atomic_bool calling, done;
  long rounds, cancelled, limited, bad;
} lane;

static void pause_for(long microseconds) { nanosleep(&(struct timespec){0, microseconds * 1000}, NULL); }

static void *cancel_often(void *data) {
  lane *l = data;
  uint64_t state = l->moments;
  while (!atomic_load(&l->done)) {
    pause_for(200 + (long)soak_random(&state, 8000));
    if (atomic_load(&l->calling)) pn_runtime_cancel(l->rt);
  }
  return NULL;
}

static void *run_lane(void *data) {
  lane *l = data;
  for (long k = 0; k < l->rounds; k++) {
    pn_limits limits = {.memory = 64 << 20};
    if (soak_random(&l->state, 3) == 0) limits.instructions = 100 + soak_random(&l->state, 100000);
    if (soak_random(&l->state, 3) == 0) limits.seconds = 0.0005 + 1e-6 * (double)soak_random(&l->state, 9000);
    pn_runtime_set_limits(l->rt, &limits);
    const char *script = scripts[soak_random(&l->state, sizeof scripts / sizeof scripts[0])];
    atomic_store(&l->calling, true);
    pn_status s = pn_runtime_run_string(l->rt, script, (size_t)-1, "loop");
    atomic_store(&l->calling, false);
    if (s == PN_CANCELLED || (s == PN_TIME && limits.seconds > 0))
      l->cancelled++;
    else if (s == PN_LIMIT && limits.instructions)
      l->limited++;
    else if (l->bad++ < 3)
      printf("%.60s: %s %s\n", script, pn_status_name(s), pn_runtime_message(l->rt));
    pn_limits none = {0};
    pn_runtime_set_limits(l->rt, &none);
    pause_for(10); /* a cancellation on its way arrives */
    pn_runtime_uncancel(l->rt);
    double value = 0;
    s = pn_runtime_run_string(l->rt, "x = require 'penumbra'.ones(70000):sum()", (size_t)-1, "after");
    if (s == PN_CANCELLED) continue; /* it came even later */
    if (s != PN_OK || pn_runtime_get_number(l->rt, "x", &value) != PN_OK || value != 70000) {
      if (l->bad++ < 3) printf("after %.60s: %s %g\n", script, pn_runtime_message(l->rt), value);
    }
  }
  atomic_store(&l->done, true);
  return NULL;
}

int main(void) {
  static lane lanes[RUNTIMES];
  uint64_t state = soak_seed();
  for (int k = 0; k < RUNTIMES; k++) {
    lane *l = &lanes[k];
    pn_runtime_config config = {.context = {.threads = 1 + k % 2}};
    CHECK_INT(pn_runtime_new(&config, &l->rt), PN_OK);
    l->rounds = soak_rounds(80);
    l->state = soak_random(&state, UINT64_MAX);
    l->moments = soak_random(&state, UINT64_MAX);
    atomic_init(&l->calling, false);
    atomic_init(&l->done, false);
    pthread_create(&l->runner, NULL, run_lane, l);
    pthread_create(&l->canceller, NULL, cancel_often, l);
  }
  for (int k = 0; k < RUNTIMES; k++) {
    lane *l = &lanes[k];
    pthread_join(l->runner, NULL);
    pthread_join(l->canceller, NULL);
    CHECK_INT(l->bad, 0);
    CHECK(l->cancelled > l->rounds / 4);
    printf("%ld calls: %ld cancelled, %ld at a limit\n", l->rounds, l->cancelled, l->limited);
    pn_runtime_close(l->rt);
  }
  CHECK_DONE();
}
