/*
** predict.c: a host program whose model is a script. The script defines predict(x); the host feeds it arrays
** and reads arrays back. When the file changes the host loads it into a fresh runtime and swaps, without being
** compiled again; a script that fails, loops or eats memory leaves the model in use as it was.
**
**   cc predict.c $(pkg-config --cflags --libs penumbra) -o predict
**   ./predict model.lua        numbers on standard input, a line each; edit model.lua meanwhile
**   ./predict                  a demonstration that writes and rewrites a script of its own
*/
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <penumbra.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
  const char *path;
  struct timespec changed; /* time stamp of the script that was tried last */
  off_t size;
  pn_runtime *runtime; /* the last script that loaded, NULL: none yet */
} model;

static void print_line(void *data, const char *text, size_t length) {
  (void)data;
  printf("  script says: %.*s", (int)length, text);
}

/* A runtime in which the script has run and defined predict; NULL, after saying why, if it did not. */
static pn_runtime *load(const char *path) {
  pn_runtime_config config = {
      .limits = {.memory = 64 << 20, .instructions = 10000000, .seconds = 2, .output = 10000},
      .output = print_line,
  };
  pn_runtime *rt;
  pn_status status = pn_runtime_new(&config, &rt);
  if (status != PN_OK) {
    printf("no runtime: %s\n", pn_status_name(status));
    return NULL;
  }
  double zero = 0;
  pn_array in = {.dtype = PN_FLOAT64, .ndim = 1, .shape = {1}, .data = &zero}, out = {0};
  status = pn_runtime_run_file(rt, path);
  if (status == PN_OK) status = pn_runtime_call(rt, "predict", 1, &in, 1, &out); /* a trial */
  if (status == PN_OK) return rt;
  printf("not loaded (%s): %s\n", pn_status_name(status), pn_runtime_message(rt));
  pn_runtime_close(rt);
  return NULL;
}

/* Takes up the script if the file is not the one tried last. */
static void refresh(model *m) {
  struct stat s;
  if (stat(m->path, &s) != 0) return;
  if (s.st_mtim.tv_sec == m->changed.tv_sec && s.st_mtim.tv_nsec == m->changed.tv_nsec && s.st_size == m->size) return;
  m->changed = s.st_mtim;
  m->size = s.st_size;
  pn_runtime *rt = load(m->path);
  if (!rt) return;
  pn_runtime_close(m->runtime);
  m->runtime = rt;
}

/* y[i] = predict(x)[i]; false if there is no answer. */
static int predict(model *m, int64_t n, double *x, double *y) {
  refresh(m);
  if (!m->runtime) return 0;
  pn_array in = {.dtype = PN_FLOAT64, .ndim = 1, .shape = {n}, .data = x};
  pn_array out = {.dtype = PN_FLOAT64, .data = y, .capacity = n};
  pn_status status = pn_runtime_call(m->runtime, "predict", 1, &in, 1, &out);
  if (status != PN_OK) {
    printf("no prediction (%s): %s\n%s", pn_status_name(status), pn_runtime_message(m->runtime),
           pn_runtime_traceback(m->runtime));
    return 0;
  }
  return out.ndim == 1 && out.shape[0] == n;
}

static void interact(model *m) {
  double x, y;
  while (scanf("%lf", &x) == 1)
    if (predict(m, 1, &x, &y)) printf("%g\n", y);
}

/* ---- the demonstration ---- */

static int rewrite(const char *path, const char *script) {
  FILE *f = fopen(path, "w");
  if (!f) return 0;
  int ok = fputs(script, f) >= 0;
  return fclose(f) == 0 && ok;
}

static const struct {
  const char *title, *script;
  double want; /* predict(3) from then on */
} versions[] = {
    {"a line",
     "local pn = require 'penumbra'\n"
     "local w, b = pn.tensor(2.0), pn.tensor(1.0)\n"
     "function predict(x) return x * w + b end\n",
     7},
    {"a line, fitted when loaded",
     "local pn = require 'penumbra'\n"
     "local x = pn.linspace(-1, 1, 21)\n"
     "local y = x * 5 - 2\n"
     "local w, b = pn.param(pn.tensor(0.0)), pn.param(pn.tensor(0.0))\n"
     "for step = 1, 300 do\n"
     "  local g = pn.grad(((x * w + b - y) ^ 2):mean(), {w, b})\n"
     "  w:set((w - g[1] * 0.2):detach()) b:set((b - g[2] * 0.2):detach())\n"
     "end\n"
     "print('fitted')\n"
     "function predict(x) return x * w + b end\n",
     13},
    {"a mistake in the syntax", "function predict(x) return x * end\n", 13},
    {"a mistake in a shape", "local pn = require 'penumbra'\nfunction predict(x) return x:matmul(pn.zeros(7, 7)) end\n",
     13},
    {"no end", "while true do pcall(function() while true do end end) end\n", 13},
    {"all the memory", "t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end\n", 13},
    {"ways out", "os.exit(1)\n", 13},
    {"nothing returned", "function predict(x) end\n", 13},
    {"another curve", "function predict(x) return x:square() end\n", 9},
};

static int demonstrate(void) {
  char path[] = "penumbra-predict-XXXXXX";
  int file = mkstemp(path), right = 1;
  if (file < 0) return 1;
  close(file);
  model m = {.path = path};
  for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
    double x[3] = {1, 2, 3}, y[3] = {0};
    printf("%s\n", versions[i].title);
    if (!rewrite(path, versions[i].script) || !predict(&m, 3, x, y)) right = 0;
    printf("  predict(1, 2, 3) = %.4g %.4g %.4g\n", y[0], y[1], y[2]);
    if (!(fabs(y[2] - versions[i].want) < 1e-6)) right = 0;
  }
  pn_runtime_close(m.runtime);
  remove(path);
  puts(right ? "all as expected" : "not as expected");
  return !right;
}

int main(int argc, char **argv) {
  if (argc < 2) return demonstrate();
  model m = {.path = argv[1]};
  interact(&m);
  pn_runtime_close(m.runtime);
  return 0;
}
