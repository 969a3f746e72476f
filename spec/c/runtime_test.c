/*
** runtime_test.c: runtimes from a host's side. The table `hostile` holds scripts that try to outlive, evade
** or break a runtime; each must leave the host alive, answer with the documented status and a message, stay
** inside the byte limit, and leave the runtime usable with its account back where it was.
*/
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "inner.h"
#include "soak.h"

/* The thread sanitiser does not see Lua's jumps and loses count of frames: scripts that raise without end are
 * not for it. */
#if defined(__SANITIZE_THREAD__)
static const bool jumps_are_seen = false;
#else
static const bool jumps_are_seen = true;
#endif

/* Instrumented code is many times slower (PN_SLOW says it for valgrind). */
static bool is_slow(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  return getenv("PN_SLOW") != NULL;
#endif
}

/* Of how many allocations one is failed; all of them under `make soak`. (The thread sanitiser keeps a shadow of all
 * memory ever used.) */
static long stride(void) {
#if defined(__SANITIZE_THREAD__)
  return 499;
#else
  return (is_slow() ? 13 : getenv("PN_SOAK") ? 1 : 7) * soak_short();
#endif
}

/* ---- an allocator that counts, and fails on demand ---- */

typedef struct {
  size_t live, most;
  long blocks, calls, fail_at; /* fail_at 0: never */
  bool for_good;               /* what follows the failure fails too */
} counter;

static void *count_allocate(void *data, void *block, size_t old_size, size_t new_size) {
  counter *n = data;
  size_t old = block ? old_size : 0;
  if (new_size == 0) {
    if (block) n->blocks--;
    n->live -= old;
    free(block);
    return NULL;
  }
  if (new_size > old && n->fail_at) {
    n->calls++;
    if (n->for_good ? n->calls >= n->fail_at : n->calls == n->fail_at) return NULL;
  }
  void *p = realloc(block, new_size);
  if (!p) return NULL;
  if (!block) n->blocks++;
  n->live += new_size - old;
  if (n->live > n->most) n->most = n->live;
  return p;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static pn_status run(pn_runtime *rt, const char *script) { return pn_runtime_run_string(rt, script, (size_t)-1, NULL); }

/* ---- hostile scripts ---- */

enum { MEMORY = 16 << 20, CONTEXT = 8192 };

typedef struct {
  const char *name, *script;
  pn_status want; /* PN_LIMIT: or PN_TIME, on a slow machine */
} row;

static const row hostile[] = {
#include "runtime_rows.def"
};

/* Those of which an instruction is long: a fifth of the others' show the same. */
static const row sluggish[] = {
    {"concat of nothing", "table.concat(setmetatable({}, {__index = table.concat}), '', 1, 1 << 62)", PN_LIMIT},
    {"collect for ever", "while true do collectgarbage() end", PN_LIMIT},
    {"load from a library function", "load(math.random) while true do end", PN_LIMIT},
    {"tensor operations for ever", "local x = pn.ones(1000) while true do x = x + 1 end", PN_LIMIT}};

/* Drops every global that a row made. */
static const char clean[] = "for k in pairs(_G) do if not keep[k] then _G[k] = nil end end "
                            "for i = 1, 12 do collectgarbage() end"; /* stacks shrink by halves */

static pn_runtime *fresh(counter *n, double seconds, uint64_t instructions) {
  pn_runtime_config cfg = {.context = {.allocate = count_allocate, .allocator_data = n, .threads = 1},
                           .limits = {MEMORY, .instructions = instructions, .seconds = seconds, .output = 100000}};
  pn_runtime *rt = NULL;
  CHECK_INT(pn_runtime_new(&cfg, &rt), PN_OK);
  if (rt) give_core(rt);
  return rt;
}

static void attack(const row *r, uint64_t most) {
  counter n = {0};
  /* what calls every function there is must come to its end */
  bool soak = getenv("PN_SOAK") != NULL;
  uint64_t steps = r->want == PN_OK ? 12000000 : r->want == PN_LIMIT && !soak ? most : 3000000;
  pn_runtime *rt = fresh(&n, r->want == PN_TIME ? 0.5 : r->want == PN_OK ? 200 : 20, steps);
  if (!rt) return;
  CHECK_INT(pn_runtime_set_number(rt, "part", soak ? 1 : 2), PN_OK);
  CHECK_INT(run(rt, "part = part // 1 | 0 function answer() return 42 end keep = {} pn = require 'penumbra' "
                    "local parts = {pn.nn, pn.dist, pn.optim} "
                    "for k in pairs(_G) do keep[k] = true end"),
            PN_OK);
  CHECK_INT(run(rt, clean), PN_OK);
  size_t before = pn_runtime_memory(rt, NULL);
  double start = now();
  pn_status got = run(rt, r->script);
  double took = now() - start;
  bool told = (pn_runtime_message(rt)[0] != '\0') == (got != PN_OK);
  bool right = got == r->want || (r->want == PN_LIMIT && got == PN_TIME); /* whichever comes first */
  if (!check_record(right && told && (took < 30 || r->want == PN_OK))) /* (much work, on a machine that does other) */
    printf("%s: got %s in %.2f s, want %s; message \"%s\"\n", r->name, pn_status_name(got), took,
           pn_status_name(r->want), pn_runtime_message(rt));
  if (!check_record(n.most <= MEMORY + CONTEXT)) printf("%s: %zu bytes held, limit %d\n", r->name, n.most, MEMORY);
  pn_array out = {0};
  got = run(rt, clean);
  if (got == PN_NOMEM) { /* a script may leave its globals full: as documented, the host makes room */
    pn_limits l = {.instructions = 3000000, .seconds = 20};
    CHECK_INT(pn_runtime_set_limits(rt, &l), PN_OK);
    got = run(rt, clean);
  }
  if (got == PN_OK) got = pn_runtime_call(rt, "answer", 0, NULL, 1, &out);
  if (!check_record(got == PN_OK && out.dtype == PN_INT64 && *(int64_t *)out.data == 42))
    printf("%s: afterwards: %s \"%s\"\n", r->name, pn_status_name(got), pn_runtime_message(rt));
  run(rt, clean);
  size_t after = pn_runtime_memory(rt, NULL);
  /* modules that were loaded on first use stay, more of them where a limit came later; in the end a time costs
   * nothing */
  for (int again = 0; again < 5 && after >= before + 16384; again++) {
    before = after;
    run(rt, r->script);
    run(rt, clean);
    after = pn_runtime_memory(rt, NULL);
  }
  if (!check_record(after < before + 16384)) printf("%s: %zu bytes before, %zu after\n", r->name, before, after);
  pn_runtime_close(rt);
  if (!check_record(n.live == 0 && n.blocks == 0)) printf("%s: %zu bytes leaked\n", r->name, n.live);
}

/* ---- values in and out ---- */

static void test_values(void) {
  pn_runtime *rt = NULL;
  CHECK_INT(pn_runtime_new(NULL, &rt), PN_OK);
  CHECK_INT(run(rt, "function id(x) return x end function two(x, y) return x + y, x:dtype() == 'float64' end "
                    "function list() return {{1, 2}, {3, 4}} end function nothing() end function text() return 'x' end "
                    "model = {sub = {f = function(x) return x * 2 end}} function t(x) return x:t() end"),
            PN_OK);
  double f64[6] = {1, 2, 3, 4, 5, 6}, back[6] = {0};
  float f32[3] = {1.5f, -2, 3};
  int64_t i64[2] = {INT64_MAX, INT64_MIN};
  uint8_t flags[3] = {1, 0, 1};
  pn_array in[2] = {{.dtype = PN_FLOAT64, .ndim = 2, .shape = {2, 3}, .data = f64}}, out[2] = {{0}};
  CHECK_INT(pn_runtime_call(rt, "id", 1, in, 1, out), PN_OK);
  CHECK(out[0].dtype == PN_FLOAT64 && out[0].ndim == 2 && out[0].shape[0] == 2 && out[0].shape[1] == 3);
  CHECK(memcmp(out[0].data, f64, sizeof f64) == 0);
  out[0] = (pn_array){.dtype = PN_FLOAT64, .data = back, .capacity = 6};
  CHECK_INT(pn_runtime_call(rt, "t", 1, in, 1, out), PN_OK); /* a strided result */
  CHECK(out[0].shape[0] == 3 && out[0].shape[1] == 2 && back[1] == 4 && back[5] == 6 && out[0].data == back);
  out[0].capacity = 5;
  CHECK_INT(pn_runtime_call(rt, "t", 1, in, 1, out), PN_SHAPE);
  CHECK(strstr(pn_runtime_message(rt), "6 elements") != NULL);
  in[0] = (pn_array){.dtype = PN_FLOAT32, .ndim = 1, .shape = {3}, .data = f32};
  out[0] = (pn_array){.dtype = PN_FLOAT64, .data = back, .capacity = 6};
  CHECK_INT(pn_runtime_call(rt, "id", 1, in, 1, out), PN_OK);
  CHECK(back[0] == 1.5 && back[1] == -2 && out[0].ndim == 1);
  in[0] = (pn_array){.dtype = PN_INT64, .ndim = 1, .shape = {2}, .data = i64};
  out[0] = (pn_array){0};
  CHECK_INT(pn_runtime_call(rt, "id", 1, in, 1, out), PN_OK);
  CHECK(out[0].dtype == PN_INT64 && memcmp(out[0].data, i64, sizeof i64) == 0);
  out[0] = (pn_array){.dtype = PN_BOOL, .data = back, .capacity = 6};
  CHECK_INT(pn_runtime_call(rt, "id", 1, in, 1, out), PN_DTYPE);
  in[0] = (pn_array){.dtype = PN_BOOL, .ndim = 1, .shape = {3}, .data = flags};
  out[0] = (pn_array){0};
  CHECK_INT(pn_runtime_call(rt, "id", 1, in, 1, out), PN_OK);
  CHECK(out[0].dtype == PN_BOOL && memcmp(out[0].data, flags, 3) == 0);
  in[0] = (pn_array){.dtype = PN_FLOAT64, .ndim = 0, .data = f64};
  in[1] = (pn_array){.dtype = PN_FLOAT64, .ndim = 1, .shape = {6}, .data = f64};
  out[0] = out[1] = (pn_array){0};
  CHECK_INT(pn_runtime_call(rt, "two", 2, in, 2, out), PN_OK);
  CHECK(out[0].ndim == 1 && ((double *)out[0].data)[5] == 7 && out[1].dtype == PN_BOOL && *(uint8_t *)out[1].data);
  in[0] = (pn_array){.dtype = PN_FLOAT64, .ndim = 2, .shape = {0, 3}}; /* no elements */
  CHECK_INT(pn_runtime_call(rt, "id", 1, in, 1, out), PN_OK);
  CHECK(out[0].ndim == 2 && out[0].shape[0] == 0);
  out[0] = (pn_array){0};
  CHECK_INT(pn_runtime_call(rt, "list", 0, NULL, 1, out), PN_OK);
  CHECK(out[0].ndim == 2 && out[0].shape[0] == 2 && ((double *)out[0].data)[2] == 3);
  in[0] = (pn_array){.dtype = PN_FLOAT64, .ndim = 0, .data = f64};
  out[0] = (pn_array){0};
  CHECK_INT(pn_runtime_call(rt, "model.sub.f", 1, in, 1, out), PN_OK);
  CHECK(*(double *)out[0].data == 2);
  for (int i = 0; i < 3; i++) { /* a result goes back in, out of the same struct */
    in[0] = out[0];
    CHECK_INT(pn_runtime_call(rt, "model.sub.f", 1, in, 1, out), PN_OK);
    CHECK(*(double *)out[0].data == (double)(4 << i));
  }
  CHECK_INT(pn_runtime_set_array(rt, "again", out), PN_OK);
  out[0] = (pn_array){.dtype = PN_FLOAT64, .capacity = 1};
  CHECK_INT(pn_runtime_call(rt, "model.sub.f", 1, in, 1, out), PN_DOMAIN);
  in[0].data = f64;
  pn_array kept = out[0] = (pn_array){.dtype = PN_FLOAT64, .data = back, .capacity = 6};
  CHECK_INT(pn_runtime_call(rt, "nothing", 0, NULL, 1, out), PN_SCRIPT);
  CHECK_INT(pn_runtime_call(rt, "text", 0, NULL, 1, out), PN_SCRIPT);
  CHECK_INT(pn_runtime_call(rt, "model.none.f", 0, NULL, 0, NULL), PN_MISSING);
  CHECK_INT(pn_runtime_call(rt, "absent", 0, NULL, 1, out), PN_MISSING);
  CHECK(memcmp(&kept, out, sizeof kept) == 0);
  CHECK_INT(pn_runtime_call(rt, "nothing", 0, NULL, 0, NULL), PN_OK);
  pn_runtime_close(rt);
}

static void test_globals(void) {
  pn_runtime *rt = NULL;
  CHECK_INT(pn_runtime_new(NULL, &rt), PN_OK);
  double v = 0, data[2] = {3, 4};
  CHECK_INT(pn_runtime_set_number(rt, "a", 2.5), PN_OK);
  CHECK_INT(run(rt, "b = a * 2 config = {} s = 'text' t = require('penumbra').tensor{7}"), PN_OK);
  CHECK_INT(pn_runtime_get_number(rt, "b", &v), PN_OK);
  CHECK(v == 5);
  CHECK_INT(pn_runtime_get_number(rt, "t", &v), PN_OK);
  CHECK(v == 7);
  CHECK_INT(pn_runtime_set_number(rt, "config.rate", 0.1), PN_OK);
  CHECK_INT(pn_runtime_get_number(rt, "config.rate", &v), PN_OK);
  CHECK(v == 0.1);
  CHECK_INT(pn_runtime_set_number(rt, "none.rate", 0.1), PN_MISSING);
  CHECK_INT(pn_runtime_get_number(rt, "none", &v), PN_MISSING);
  CHECK_INT(pn_runtime_get_number(rt, "s", &v), PN_DTYPE);
  CHECK_INT(pn_runtime_get_number(rt, "config", &v), PN_DTYPE);
  pn_array a = {.dtype = PN_FLOAT64, .ndim = 1, .shape = {2}, .data = data}, out = {0};
  CHECK_INT(pn_runtime_set_array(rt, "x", &a), PN_OK);
  CHECK_INT(run(rt, "y = x * x"), PN_OK);
  CHECK_INT(pn_runtime_get_array(rt, "y", &out), PN_OK);
  CHECK(out.ndim == 1 && ((double *)out.data)[1] == 16);
  CHECK_INT(pn_runtime_get_array(rt, "s", &out), PN_DTYPE);
  CHECK_INT(pn_runtime_get_array(rt, "print", &out), PN_DTYPE);
  CHECK_INT(pn_runtime_get_array(rt, "none", &out), PN_MISSING);
  a.shape[0] = -1;
  CHECK_INT(pn_runtime_set_array(rt, "x", &a), PN_SHAPE);
  a = (pn_array){.dtype = (pn_dtype)9, .data = data};
  CHECK_INT(pn_runtime_set_array(rt, "x", &a), PN_DTYPE);
  a = (pn_array){.dtype = PN_FLOAT64, .ndim = 9, .data = data};
  CHECK_INT(pn_runtime_set_array(rt, "x", &a), PN_SHAPE);
  a = (pn_array){.dtype = PN_FLOAT64, .ndim = 1, .shape = {2}};
  CHECK_INT(pn_runtime_set_array(rt, "x", &a), PN_DOMAIN);
  CHECK_INT(pn_runtime_set_array(rt, "x", NULL), PN_DOMAIN);
  CHECK_INT(pn_runtime_call(rt, "print", 65, &a, 0, NULL), PN_DOMAIN);
  CHECK_INT(pn_runtime_set_number(NULL, "a", 1), PN_STATE);
  CHECK_INT(pn_runtime_run_string(rt, NULL, 0, NULL), PN_DOMAIN);
  CHECK(pn_runtime_message(rt)[0] != '\0');
  pn_runtime_close(rt);
}

/* ---- errors, files, output ---- */

static void test_errors(void) {
  pn_runtime *rt = NULL;
  CHECK_INT(pn_runtime_new(NULL, &rt), PN_OK);
  CHECK_INT(pn_runtime_run_string(rt, "\n\nlocal function f() error('boom') end\nf()", (size_t)-1, "model.lua"),
            PN_SCRIPT);
  CHECK_STR(pn_runtime_message(rt), "model.lua:3: boom");
  CHECK(strstr(pn_runtime_traceback(rt), "model.lua:4: in main chunk") != NULL);
  CHECK_INT(pn_runtime_run_string(rt, "x = = 1", (size_t)-1, "bad.lua"), PN_SCRIPT);
  CHECK(strstr(pn_runtime_message(rt), "bad.lua:1:") == pn_runtime_message(rt));
  CHECK_INT(run(rt, "local pn = require 'penumbra'\nreturn pn.zeros(2):matmul(pn.zeros(3, 3))"), PN_SCRIPT);
  CHECK(strstr(pn_runtime_message(rt), "script:2: matmul") != NULL);
  CHECK_INT(run(rt, "local pn = require 'penumbra'\nreturn pn.dist.gama(1)"), PN_SCRIPT);
  CHECK_STR(pn_runtime_message(rt), "script:2: pn.dist has no 'gama', did you mean 'gamma'?");
  CHECK_INT(run(rt, "error({code = 1})"), PN_SCRIPT);
  CHECK_STR(pn_runtime_message(rt), "error object is a table value");
  CHECK_INT(run(rt, "return 1"), PN_OK);
  CHECK_STR(pn_runtime_message(rt), "");
  CHECK_INT(pn_runtime_status(rt), PN_OK);
  CHECK_INT(pn_runtime_run_string(rt, "\033Lua", 4, NULL), PN_SCRIPT); /* bytecode */
  CHECK_INT(pn_runtime_run_file(rt, "/nonexistent/script.lua"), PN_IO);
  CHECK(strstr(pn_runtime_message(rt), "nonexistent") != NULL);
  CHECK_INT(pn_runtime_run_file(rt, "/"), PN_IO);
  CHECK_INT(run(NULL, "x = 1"), PN_STATE);
  CHECK(pn_runtime_message(NULL)[0] != '\0');
  pn_limits bad = {.seconds = NAN}, one = {.instructions = 1};
  CHECK_INT(pn_runtime_set_limits(rt, &bad), PN_DOMAIN);
  CHECK_INT(pn_runtime_set_limits(rt, &one), PN_OK);
  CHECK_INT(run(rt, "local x = 1 x = x + 1 x = x + 1"), PN_LIMIT);
  CHECK_INT(pn_runtime_set_limits(rt, &(pn_limits){0}), PN_OK);
  CHECK_INT(run(rt, "for i = 1, 1e6 do end"), PN_OK);
  pn_runtime_close(rt);
  pn_runtime_close(NULL);
  pn_runtime_config cfg = {.libraries = 1u << 30};
  CHECK_INT(pn_runtime_new(&cfg, &rt), PN_DOMAIN);
  cfg = (pn_runtime_config){.limits = {.memory = 20000}};
  CHECK_INT(pn_runtime_new(&cfg, &rt), PN_NOMEM);
}

typedef struct {
  pn_runtime *rt;
  char text[64];
  size_t n;
  pn_status inside;
} sink;

static void collect(void *data, const char *text, size_t length) {
  sink *s = data;
  if (s->n + length < sizeof s->text) memcpy(s->text + s->n, text, length);
  s->n += length;
  s->inside = pn_runtime_run_string(s->rt, "x = 1", 5, NULL);
  pn_runtime_close(s->rt);
}

static void test_output(void) {
  sink s = {0};
  pn_runtime_config cfg = {.output = collect, .output_data = &s, .limits = {.output = 40}};
  CHECK_INT(pn_runtime_new(&cfg, &s.rt), PN_OK);
  CHECK_INT(run(s.rt, "print('a', 1, nil) print()"), PN_OK);
  CHECK_STR(s.text, "a\t1\tnil\n\n");
  CHECK_INT(s.inside, PN_STATE);
  CHECK_INT(run(s.rt, "while true do pcall(print, 'xxxxxxxx') end"), PN_LIMIT);
  CHECK(s.n <= 9 + 40);
  CHECK_INT(run(s.rt, "print(setmetatable({}, {__tostring = function() return 'me' end}))"), PN_OK);
  pn_runtime_close(s.rt);
}

/* What safe scripts are for works without io, debug and files; files stay shut whatever function is tried. */
static void test_safe_library(void) {
  pn_runtime *rt = NULL;
  CHECK_INT(pn_runtime_new(NULL, &rt), PN_OK);
  static const char *const scripts[] = {
      "pn = require 'penumbra' for _, part in ipairs{'dist', 'nn', 'optim', 'infer', 'train', 'data'} do local p = "
      "pn[part] end "
      "for _, r in ipairs(pn.rows()) do assert(r.name) end",
      "pn.seed(1) local x = pn.linspace(-1, 1, 40):unsqueeze(2) local y = x * 3 "
      "local net = pn.nn.sequential{pn.nn.linear(1, 8), pn.nn.tanh(), pn.nn.linear(8, 1)} "
      "local opt = pn.optim.adam(net:parameters(), {lr = 0.05}) "
      "for i = 1, 200 do loss = ((net(x) - y) ^ 2):mean() opt:step(loss) end assert(loss:item() < 0.05)",
      "pn.seed(1) local x = pn.randn(64, 1) local net = pn.nn.linear(1, 1) "
      "pn.train.fit{data = {x, x * 2}, loss = function(a, b) return ((net(a) - b) ^ 2):mean() end, "
      "optimiser = pn.optim.sgd(net:parameters(), {lr = 0.1}), epochs = 5, progress = true}",
      "local d = pn.dist.gamma(2, 3) assert(d:sample{100}:mean():item() > 0) tostring(d) tostring(pn.help)",
  };
  for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
    if (!check_record(run(rt, scripts[i]) == PN_OK)) printf("safe %zu: %s\n", i, pn_runtime_message(rt));
  pn_runtime_close(rt);
}

static void test_libraries(void) {
  static const struct {
    unsigned libraries;
    const char *there, *absent;
  } sets[] = {
      {0, "string table math utf8 coroutine os.time os.clock require print pcall load",
       "io debug dofile loadfile os.execute os.exit os.getenv os.remove os.setlocale string.dump package.loadlib"},
      {PN_LIBS_NONE, "print pcall pairs load", "string table math os io debug require package coroutine utf8"},
      {PN_LIBS_FULL, "io debug dofile os.execute os.getenv os.remove package.loadlib", "os.exit os.setlocale"},
      {PN_LIBS_SAFE | PN_LIB_FILES, "io.open dofile loadfile os.remove os.tmpname io.tmpfile io.lines",
       "io.popen io.stdin io.stdout io.stderr os.execute debug package.loadlib"},
      {PN_LIBS_SAFE | PN_LIB_TRUSTED_IO, "io.open io.stdout dofile os.remove", "io.popen os.execute debug"},
  };
  for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
    bool rooted = sets[i].libraries & PN_LIB_FILES && !(sets[i].libraries & PN_LIB_TRUSTED_IO);
    pn_runtime_config cfg = {.libraries = sets[i].libraries, .root = rooted ? "." : NULL};
    pn_runtime *rt = NULL;
    CHECK_INT(pn_runtime_new(&cfg, &rt), PN_OK);
    for (int want = 0; want < 2; want++) {
      char list[256], script[256];
      strcpy(list, want ? sets[i].there : sets[i].absent);
      for (char *name = strtok(list, " "); name; name = strtok(NULL, " ")) {
        snprintf(script, sizeof script, "if (%s ~= nil) ~= (1 == %d) then error('%s') end", name, want, name);
        if (!check_record(run(rt, script) == PN_OK))
          printf("libraries %u: %s\n", sets[i].libraries, pn_runtime_message(rt));
      }
    }
    pn_runtime_close(rt);
  }
}

/* ---- cancelling from another thread ---- */

typedef struct {
  pn_runtime *rt;
  double at; /* when the cancellation was asked for */
} canceller;

static void *cancel_soon(void *data) {
  canceller *k = data;
  nanosleep(&(struct timespec){0, 50000000}, NULL);
  k->at = now();
  pn_runtime_cancel(k->rt);
  return NULL;
}

static void test_cancel(void) {
  static const char *const scripts[] = {
      "while true do end",
      "while true do pcall(function() while true do end end) end",
      "local pn = require 'penumbra' local x = pn.rand(400, 400) while true do x = x:matmul(x):tanh() end",
      "local pn = require 'penumbra' local x = pn.rand(3000, 3000) while true do x = (x:matmul(x)):sigmoid() end",
      "local pn = require 'penumbra' local x = pn.rand(20000000) while true do pcall(pn.exp, x) end",
      "local s = ('x'):rep(1 << 20) while true do local t = s .. s .. s .. s end",
      "while true do local s = ('xy'):rep(1 << 22) end",
      "local t = {} for i = 1, 1000000 do t[i] = (i * 7919) % 1000003 end while true do table.sort(t) "
      "table.sort(t, function(a, b) return a > b end) end",
      "while true do table.move({}, 1, 1 << 60, 2) end",
      "local s = ('a'):rep(100000) while true do s:find(('.-'):rep(12) .. 'b') end",
  };
  for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
    pn_runtime *rt = NULL;
    pthread_t thread;
    CHECK_INT(pn_runtime_new(NULL, &rt), PN_OK);
    canceller k = {.rt = rt};
    if (!jumps_are_seen && strstr(scripts[i], "pcall")) {
      pn_runtime_close(rt);
      continue;
    }
    pthread_create(&thread, NULL, cancel_soon, &k);
    pn_status s = run(rt, scripts[i]);
    double late = now();
    pthread_join(thread, NULL);
    late -= k.at;
    /* it ends, and not by chance: without a cancellation these run for ever; speed is no test's business */
    if (!check_record(s == PN_CANCELLED && late < 10))
      printf("cancel %zu: %s after %.3f s: %s\n", i, pn_status_name(s), late, pn_runtime_message(rt));
    CHECK_INT(run(rt, "x = 1"), PN_OK); /* used up */
    pn_runtime_close(rt);
  }
  pn_runtime *rt = NULL;
  CHECK_INT(pn_runtime_new(NULL, &rt), PN_OK);
  pn_runtime_cancel(rt); /* before the call */
  CHECK_INT(run(rt, "while true do end"), PN_CANCELLED);
  pn_runtime_cancel(rt);
  pn_runtime_uncancel(rt);
  CHECK_INT(run(rt, "for i = 1, 1000 do end"), PN_OK);
  pn_runtime_close(rt);
}

/* An operation that a cancellation or the clock ends is the end of the call, whoever catches its error, and of nothing
 * else: the next call is not touched. */
static void test_cancel_is_not_caught(void) {
  static const char *const catchers[] = {
      "pcall(work) caught = true",
      "xpcall(work, function(m) return m end) caught = true",
      "pcall(coroutine.wrap(work)) caught = true",
      "local co = coroutine.create(work) coroutine.resume(co) coroutine.close(co) caught = true",
      "do local x <close> = setmetatable({}, {__close = function() caught = true end}) pcall(work) end caught = true",
      "pcall(string.gsub, 'x', 'x', work) caught = true",
      "pcall(table.sort, {3, 2, 1}, work) caught = true",
      "pcall(pn.load, 'none') pcall(work) caught = true",
  };
  for (size_t i = 0; i < 2 * sizeof catchers / sizeof catchers[0]; i++) {
    bool by_clock = i % 2;
    pn_runtime *rt = NULL;
    pthread_t thread;
    double v;
    CHECK_INT(pn_runtime_new(NULL, &rt), PN_OK);
    CHECK_INT(run(rt, "pn = require 'penumbra' local x = pn.rand(300, 300) "
                      "function work() local f = x.matmul for i = 1, 1e9 do f(x, x) end end"),
              PN_OK);
    canceller k = {.rt = rt};
    pn_limits limits = {.seconds = by_clock ? 0.05 : 0};
    CHECK_INT(pn_runtime_set_limits(rt, &limits), PN_OK);
    if (!by_clock) pthread_create(&thread, NULL, cancel_soon, &k);
    pn_status s = run(rt, catchers[i / 2]);
    if (!by_clock) pthread_join(thread, NULL);
    CHECK_INT(pn_runtime_set_limits(rt, &(pn_limits){0}), PN_OK);
    if (!check_record(s == (by_clock ? PN_TIME : PN_CANCELLED))) printf("caught %zu: %s\n", i, pn_status_name(s));
    CHECK_INT(run(rt, "x = 1"), PN_OK);
    CHECK_INT(pn_runtime_get_number(rt, "caught", &v), PN_MISSING);
    pn_runtime_close(rt);
  }
  pn_runtime *rt = NULL;
  CHECK_INT(pn_runtime_new(NULL, &rt), PN_OK);
  pn_runtime_cancel(rt); /* even where no hook runs */
  CHECK_INT(run(rt, "x = 1"), PN_CANCELLED);
  CHECK_INT(run(rt, "x = 1"), PN_OK);
  pn_runtime_cancel(rt); /* a call that fails by something else uses it up as well */
  CHECK(run(rt, "error 'x'") != PN_OK);
  CHECK_INT(run(rt, "x = 1"), PN_OK);
  pn_limits limits = {.seconds = 1e-9};
  CHECK_INT(pn_runtime_set_limits(rt, &limits), PN_OK);
  CHECK_INT(run(rt, "x = 1"), PN_TIME); /* too late is too late */
  pn_runtime_close(rt);
}

static void test_deadline(void) {
  pn_runtime_config cfg = {.limits = {.seconds = 0.1}};
  pn_runtime *rt = NULL;
  CHECK_INT(pn_runtime_new(&cfg, &rt), PN_OK);
  double start = now();
  CHECK_INT(run(rt, "while true do end"), PN_TIME);
  CHECK(strstr(pn_runtime_message(rt), "time limit") != NULL);
  double took = now() - start;
  CHECK(took >= 0.1 && took < 10);
  CHECK_INT(run(rt, "x = 1"), PN_OK);
  pn_runtime_close(rt);
}

/* ---- two runtimes, two threads ---- */

static void *train(void *data) {
  int seed = *(int *)data;
  pn_runtime_config cfg = {.context = {.seed = (uint64_t)seed, .threads = 1}};
  pn_runtime *rt = NULL;
  double *v = malloc(sizeof *v);
  *v = -1;
  if (pn_runtime_new(&cfg, &rt) == PN_OK &&
      run(rt, "local pn = require 'penumbra' local w = pn.zeros(3) local x = pn.randn(50, 3) "
              "for i = 1, 200 do w = w + x:mean(1) * 0.1 end result = (w * w):sum():item()") == PN_OK)
    pn_runtime_get_number(rt, "result", v);
  pn_runtime_close(rt);
  return v;
}

static void test_threads(void) {
  pthread_t thread[4];
  int seed[4] = {1, 2, 1, 2};
  double *v[4];
  for (int i = 0; i < 4; i++) pthread_create(&thread[i], NULL, train, &seed[i]);
  for (int i = 0; i < 4; i++) {
    void *p;
    pthread_join(thread[i], &p);
    v[i] = p;
  }
  CHECK(*v[0] > 0 && *v[0] == *v[2] && *v[1] == *v[3] && *v[0] != *v[1]);
  for (int i = 0; i < 4; i++) free(v[i]);
}

/* ---- the n-th allocation fails ---- */

static pn_status life(counter *n) {
  pn_runtime_config cfg = {.context = {.allocate = count_allocate, .allocator_data = n, .threads = 1}};
  double data[4] = {1, 2, 3, 4};
  pn_array in = {.dtype = PN_FLOAT64, .ndim = 2, .shape = {2, 2}, .data = data}, out = {0};
  pn_runtime *rt = NULL;
  pn_status s = pn_runtime_new(&cfg, &rt);
  if (s) return s;
  s = run(rt,
          "local pn = require 'penumbra' local w = pn.param(pn.ones(2, 2)) "
          "function f(x) local l = (x:matmul(w)):exp():sum() local g = pn.grad(l, {w}) return g[1], tostring(x) end");
  if (!s) s = pn_runtime_call(rt, "f", 1, &in, 1, &out);
  if (!s) s = pn_runtime_set_array(rt, "x", &in);
  if (!s) s = pn_runtime_get_array(rt, "x", &out);
  if (s) CHECK(pn_runtime_message(rt)[0] != '\0');
  n->fail_at = 0;
  CHECK_INT(run(rt, "x = 1"), PN_OK); /* usable, whatever failed */
  pn_runtime_close(rt);
  return s;
}

/* One failure alone may be overcome, by collecting garbage and trying again; not so when memory stays away. */
static void test_allocation_failures(bool for_good) {
  long step = stride(), k = for_good ? 1 + step / 2 : 1;
  for (;; k += step) {
    counter n = {.fail_at = k, .for_good = for_good};
    pn_status s = life(&n);
    if (!check_record(n.live == 0 && n.blocks == 0)) printf("allocation %ld: %zu bytes leaked\n", k, n.live);
    if (n.calls < k) break;
    if (!check_record(s == PN_NOMEM || (s == PN_OK && !for_good))) printf("allocation %ld: %s\n", k, pn_status_name(s));
  }
  CHECK(k > 100);
}

/* No script reaches the finalisers of what it makes, so that these stay in the account. */
static void test_kept_finalisers(void) {
  counter n = {0};
  pn_runtime *rt = fresh(&n, is_slow() ? 600 : 20, 3000000);
  CHECK_INT(run(rt, "local core, pn = require 'penumbra.core', require 'penumbra' local net = pn.nn.linear(2, 2) "
                    "local sgd = pn.optim.sgd(net:parameters(), {lr = 1}) "
                    "for _, v in ipairs{pn.zeros(1), net, sgd, pn.dist.normal(0, 1), pn.generator(1)} do "
                    "  assert(type(getmetatable(v)) == 'string' and not pcall(setmetatable, v, {})) end "
                    "for k, v in pairs(core) do assert(type(v) ~= 'table' or rawget(v, '__gc') == nil, k) end "
                    "for i = 1, 2000 do pn.nn.linear(100, 100) end"),
            PN_OK);
  CHECK(n.most <= MEMORY + CONTEXT);
  pn_runtime_close(rt);
  CHECK(n.live == 0 && n.blocks == 0);
}

static void test_memory_limit_is_exact(void) {
  for (size_t limit = 150000; limit < 1200000; limit += 50021) {
    counter n = {0};
    pn_runtime_config cfg = {.context = {.allocate = count_allocate, .allocator_data = &n, .threads = 1},
                             .limits = {.memory = limit}};
    pn_runtime *rt = NULL;
    pn_status s = pn_runtime_new(&cfg, &rt);
    if (s == PN_OK) {
      CHECK_INT(run(rt, "t = {} while true do t[#t + 1] = ('x'):rep(100) .. #t end"), PN_NOMEM);
      CHECK_INT(run(rt, "t = nil"), PN_OK);
      CHECK_INT(run(rt, "t = {} local z = require('penumbra').zeros while true do t[#t + 1] = z(100) end"), PN_NOMEM);
      CHECK(n.most <= limit + CONTEXT && n.most > limit - limit / 4);
      pn_runtime_close(rt);
    } else {
      CHECK_INT(s, PN_NOMEM);
    }
    CHECK(n.live == 0 && n.most <= limit + CONTEXT);
  }
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  test_values();
  test_globals();
  test_errors();
  test_output();
  test_libraries();
  test_safe_library();
  for (size_t i = 0; jumps_are_seen && i < sizeof hostile / sizeof hostile[0]; i++)
    if (soak_takes((long)i)) attack(&hostile[i], 1000000);
  for (size_t i = 0; jumps_are_seen && i < sizeof sluggish / sizeof sluggish[0]; i++)
    if (soak_takes((long)i)) attack(&sluggish[i], 200000);
  test_cancel();
  test_cancel_is_not_caught();
  test_deadline();
  test_threads();
  test_allocation_failures(false);
  if (jumps_are_seen) test_allocation_failures(true);
  if (jumps_are_seen) test_memory_limit_is_exact();
  test_kept_finalisers();
  CHECK_DONE();
}
