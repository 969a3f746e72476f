/*
** filter_stream.c: a host program that filters a stream. The model is a script that leaves filter =
** pn.smc.filter{...}:online() in a global; the host takes the filter into a context of its own, closes the runtime,
** reads a number a line from standard input and writes the filtered mean, its standard deviation and the effective
** sample size. Where a file is named, the filter goes on from the state that an earlier run has left there.
**
**   cc filter_stream.c $(pkg-config --cflags --libs penumbra) -lm -o filter_stream
**   ./filter_stream - [--model model.lua] [--state file] < numbers     an empty line is a missing observation
**   ./filter_stream [--quick]                                          numbers of its own, and checks
*/
#include <ctype.h>
#include <math.h>
#include <penumbra.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A level that wanders, seen with heavy-tailed noise. */
static const char level[] =
    "local pn = require 'penumbra'\n"
    "local dist = pn.dist\n"
    "filter = pn.smc.filter{num_particles = 1000,\n"
    "  init = function(n) return pn.randn{n} * 10 end,\n"
    "  step = function(x) return x + pn.randn{1000} * 0.3 end,\n"
    "  log_weight = function(x, y) return dist.student_t(4, x, 1):log_prob(y:broadcast_to{1000}) end\n"
    "}:online()\n";

/* The filter of a script, in context c; NULL, after saying why. */
static pn_filter *load(pn_context *c, const char *path) {
  pn_runtime_config config = {.limits = {.memory = 64 << 20, .instructions = 10000000, .seconds = 2, .output = 10000}};
  pn_runtime *rt;
  pn_filter *f = NULL;
  if (pn_runtime_new(&config, &rt) != PN_OK) return NULL;
  pn_status status = path ? pn_runtime_run_file(rt, path) : pn_runtime_run_string(rt, level, (size_t)-1, "level");
  if (status == PN_OK) status = pn_runtime_filter(rt, "filter", c, &f);
  if (status != PN_OK) fprintf(stderr, "no filter (%s): %s\n", pn_status_name(status), pn_runtime_message(rt));
  pn_runtime_close(rt);
  return f;
}

static int is_blank(const char *line) {
  while (isspace((unsigned char)*line)) line++;
  return *line == 0;
}

/* One line in, one line out; 0 after a failure. */
static int answer(pn_context *c, pn_filter *f, const char *line) {
  char *end;
  double y = strtod(line, &end);
  int missing = is_blank(line);
  if (!missing && (end == line || !is_blank(end))) {
    fprintf(stderr, "no number: %s", line);
    return 0;
  }
  if (pn_filter_observe(c, f, missing ? NULL : &y, 1, NULL) != PN_OK) {
    fprintf(stderr, "%s\n", pn_context_message(c));
    return 0;
  }
  printf("%.6g %.6g %.0f\n", pn_filter_mean(f)[0], sqrt(pn_filter_variance(f)[0]), pn_filter_effective_sample_size(f));
  return 1;
}

/* Numbers of its own: a level that jumps from 0 to 5, an outlier, a gap. Does the filter follow? */
static int demonstrate(pn_context *c, pn_filter *f) {
  int good = 1;
  for (int t = 0; t < 60; t++) {
    char line[32] = "\n";
    double noise = sin(12.9898 * t) * 43758.5453;
    noise = 2 * (noise - floor(noise)) - 1;
    if (t % 10 != 9) snprintf(line, sizeof line, "%.3f\n", (t < 30 ? 0 : 5) + noise + (t == 15 ? 20 : 0));
    good = good && answer(c, f, line);
    if (t == 20) good = good && fabs(pn_filter_mean(f)[0]) < 1;
  }
  good = good && fabs(pn_filter_mean(f)[0] - 5) < 1;
  printf("log-evidence %.3f after %lld steps\n", pn_filter_log_evidence(f), (long long)pn_filter_steps(f));
  printf("%s\n", good ? "all as expected" : "the filter does not follow");
  return good;
}

int main(int argc, char **argv) {
  const char *model = NULL, *state = NULL;
  int stream = 0;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "-") == 0)
      stream = 1;
    else if (strcmp(argv[i], "--quick") == 0)
      stream = 0;
    else if (strcmp(argv[i], "--model") == 0 && i + 1 < argc)
      model = argv[++i];
    else if (strcmp(argv[i], "--state") == 0 && i + 1 < argc)
      state = argv[++i];
    else {
      fprintf(stderr, "usage: filter_stream [-] [--quick] [--model model.lua] [--state file] < numbers\n");
      return 2;
    }
  }
  pn_context *c = pn_context_new(&(pn_context_config){.seed = 1, .threads = 1});
  pn_filter *f = c ? load(c, model) : NULL;
  int good = f != NULL;
  if (good && state && pn_filter_load(c, f, state) != PN_OK) {
    fprintf(stderr, "a new start: %s\n", pn_context_message(c));
    pn_context_clear_error(c);
  }
  char line[256];
  if (good && !stream) good = demonstrate(c, f);
  while (good && stream && fgets(line, sizeof line, stdin)) good = answer(c, f, line);
  if (good && state && pn_filter_save(c, f, state) != PN_OK) {
    fprintf(stderr, "%s\n", pn_context_message(c));
    good = 0;
  }
  pn_filter_free(f);
  pn_context_close(c);
  return !good;
}
