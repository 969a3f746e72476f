/*
** runtime.c: fuzz target of runtimes under random limits. The input chooses limits and a program out of pieces: calls
** of any function that a safe script finds with any of a few values, nested in what catches errors, yields, closes and
** calls back. The program must end in time with a documented status inside of its limits, and leave the runtime usable
** and, when it is closed, nothing behind.
*/
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../c/inner.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SCRIPT = 1 << 16, SLACK = 1 << 16, DEEPEST = 6, LENGTH = 120 };

/* Functions f[1 ..] of all libraries in a fixed order, and values v[1 ..]. */
static const char prelude[] =
    "pn = require 'penumbra' local core = require 'penumbra.core' local names, seen = {}, {} f, v = {}, {} "
    "local function gather(prefix, t) if seen[t] then return end seen[t] = true for k, x in pairs(t) do "
    "local name = prefix .. tostring(k) if type(x) == 'function' and not name:find 'set_' then names[#names + 1] = "
    "name "
    "f[name] = x elseif type(x) == 'table' and name ~= 'f' and name ~= 'v' and name ~= 'package' then gather(name .. "
    "'.', x) "
    "end end end gather('', _G) gather('core.', core) table.sort(names) local list = {} "
    "for i, name in ipairs(names) do list[i] = f[name] end f = list "
    "function values() local long = ('a1'):rep(50000) return {nil, 1, 0, -1, 2.5, 1 << 62, 0/0, true, false, '', 'a', "
    "long, "
    "long .. 'x', ('.-'):rep(20) .. 'b', ('1'):rep(50000), {}, {1, 2, 3}, {{1, 2}, {3, 4}}, print, string.rep, pcall, "
    "function() while true do end end, function(...) return ... end, coroutine.create(function() coroutine.yield() "
    "end), "
    "pn.ones(3), pn.ones(300, 300), pn.tensor(2), pn.nn.linear(2, 2), pn.dist.normal(0, 1), pn.generator(1), "
    "setmetatable({}, {__index = function(t, k) return k end, __len = function() return 1 << 40 end}), "
    "setmetatable({}, {__close = string.rep, __call = pcall, __tostring = function() return long end})} end";

typedef struct {
  const uint8_t *p, *end;
  uint64_t state;
  int drawn;
  char *out;
  size_t at;
} writer;

/* The next byte of the input, and behind its end numbers that follow from it (xorshift, Marsaglia 2003). */
static int next(writer *w) {
  uint64_t x = w->state;
  if (w->p < w->end) x ^= *w->p;
  x ^= x << 13, x ^= x >> 7, x ^= x << 17;
  w->state = x;
  w->drawn++;
  return w->p < w->end ? *w->p++ : (int)(x >> 24 & 255);
}

static bool goes_on(const writer *w) { return w->drawn < LENGTH && w->at < SCRIPT - 1024; }

static void put(writer *w, const char *format, int a, int b) {
  if (w->at > SCRIPT - 512) return;
  w->at += (size_t)snprintf(w->out + w->at, SCRIPT - w->at, format, a, b);
}

static void statement(writer *w, int depth);

static void block(writer *w, int depth) {
  int n = next(w) % 4;
  for (int i = 0; i < n && goes_on(w); i++) statement(w, depth + 1);
}

static void call(writer *w) {
  int which = next(w) << 8 | next(w), n = next(w) % 4;
  put(w, "pcall(f[%d %% #f + 1]", which, 0);
  for (int i = 0; i < n; i++) put(w, ", V[%d]", next(w) % 33 + 1, 0);
  put(w, ") ", 0, 0);
}

/* What stands around a block. */
static const char *const around[][2] = {
    {"pcall(function() ", " end) "},
    {"while true do ", " end "},
    {"for i = 1, 1000 do ", " end "},
    {"coroutine.wrap(function() ", " end)() "},
    {"do local co = coroutine.create(function() ",
     " coroutine.yield() end) coroutine.resume(co) coroutine.close(co) end "},
    {"xpcall(error, function() ", " end) "},
    {"do local x <close> = setmetatable({}, {__close = function() ", " end}) end "},
    {"string.gsub('xxx', 'x', function() ", " end) "},
    {"pcall(table.sort, {3, 2, 1, 4}, function() ", " return false end) "},
    {"getmetatable('').__close = f[#V * 7 % #f + 1] do local s <close> = V[13] ", " end "},
    {"pcall(pn.compile(function(x) ", " return x + 1 end), V[26]) "},
    {"pn.no_grad(function() ", " end) "},
    {"load(function() ", " end) "},
    {"local function g(n) ", " if n > 0 then return g(n - 1) end end pcall(g, 100) "},
    {"G = G or {} G[#G + 1] = V ", " "},
    {"error(V[", "12]) "},
};

static void statement(writer *w, int depth) {
  int kind = next(w), n = (int)(sizeof around / sizeof around[0]);
  if (depth > DEEPEST || kind % 3 == 0) {
    call(w);
    return;
  }
  const char *const *pair = around[kind / 3 % n];
  put(w, pair[0], 0, 0);
  if (kind / 3 % n < n - 1) block(w, depth);
  put(w, pair[1], 0, 0);
}

typedef struct {
  size_t live, most;
} account;

static void *allocate(void *data, void *block, size_t old_size, size_t new_size) {
  account *a = data;
  size_t old = block ? old_size : 0;
  if (new_size == 0) {
    a->live -= old;
    free(block);
    return NULL;
  }
  void *p = realloc(block, new_size);
  if (!p) return NULL;
  a->live += new_size - old;
  if (a->live > a->most) a->most = a->live;
  return p;
}

static double cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *what, pn_runtime *rt, const char *script) {
  printf("%s: %s \"%s\"\n%s\n", what, pn_status_name(pn_runtime_status(rt)), pn_runtime_message(rt), script);
  abort();
}

static pn_status run(pn_runtime *rt, const char *script) { return pn_runtime_run_string(rt, script, (size_t)-1, NULL); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char script[SCRIPT];
  const double seconds = 0.05, slack = 2; /* of instrumented code */
  if (size < 4) return 0;
  account a = {0};
  size_t memory = (size_t)(4 + data[0] % 28) << 20;
  pn_limits generous = {.memory = memory}, limits = {.memory = memory, .output = 1000, .seconds = seconds};
  limits.instructions = data[1] % 4 ? (uint64_t)data[1] * data[2] * 10 + 1 : 0;
  pn_runtime_config cfg = {.context = {.allocate = allocate, .allocator_data = &a, .threads = 1 + data[3] % 2},
                           .limits = generous};
  pn_runtime *rt = NULL;
  if (pn_runtime_new(&cfg, &rt) != PN_OK) abort();
  give_core(rt);
  if (run(rt, prelude) != PN_OK) fail("prelude", rt, prelude);
  writer w = {.p = data + 4, .end = data + size, .state = 0x9E3779B97F4A7C15u, .out = script};
  for (int i = 0; i < 4; i++) w.state = (w.state ^ data[i]) * 0x100000001B3u;
  put(&w, "local V = values() ", 0, 0);
  while (goes_on(&w)) statement(&w, 0);
  pn_runtime_set_limits(rt, &limits);
  double start = cpu();
  pn_status s = run(rt, script);
  double took = cpu() - start;
  if (took > seconds + slack) fail("late", rt, script);
  if (s != PN_OK && s != PN_SCRIPT && s != PN_NOMEM && s != PN_LIMIT && s != PN_TIME) fail("status", rt, script);
  if ((pn_runtime_message(rt)[0] != '\0') != (s != PN_OK)) fail("message", rt, script);
  if (a.most > memory + SLACK) fail("memory", rt, script);
  generous.memory = 0; /* globals may be full */
  pn_runtime_set_limits(rt, &generous);
  if (run(rt, "local x = 1") != PN_OK) fail("not usable", rt, script);
  pn_runtime_close(rt);
  if (a.live) {
    printf("%zu bytes left behind\n%s\n", a.live, script);
    abort();
  }
  return 0;
}
