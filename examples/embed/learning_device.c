/*
** learning_device.c: a sensor whose calibration changes, and a Bayesian network of 49 weights that follows it. Each
** hour the host hands over six readings; it gets back how well they were foretold, can read what the device has learned
** as plain arrays, and keeps it in a file from which another runtime goes on. A batch that is no good, or that meets a
** limit, leaves the learner as it was.
**
**   cc learning_device.c $(pkg-config --cflags --libs penumbra) -lm -o learning_device
**   ./learning_device
*/
#include <math.h>
#include <penumbra.h>
#include <stdio.h>

enum { HOURS = 36, CHANGED = 18, FIRST = 60, READINGS = 6, MEMORY = 24, WEIGHTS = 49, POINTS = 9 };

static const char script[] =
    "local pn = require 'penumbra'\n"
    "local nn = pn.nn\n"
    "local net = nn.sequential{nn.linear(1, 16), nn.tanh(), nn.linear(16, 1)}\n"
    "local learner = pn.continual.learner{\n"
    "  network = net, likelihood = 'normal', noise = 0.1, prior = 1, seed = 1,\n"
    "  memory = {size = 24, score = 'centred'}, forget = pn.continual.bayesian_forgetting{rate = 0.2},\n"
    "  steps = {first = 2000, later = 500}, draws = {train = 8, sites = 4000, predict = 500}}\n"
    "function observe(x, y, hour)\n" /* [N, 1], [N, 1] and a number: a number */
    "  return pn.tensor(learner:observe(x, y, hour:item()).log_predictive_before)\n"
    "end\n"
    "function predict(x)\n" /* [N, 1]: two of [N, 1] */
    "  local p = learner:predict(x)\n"
    "  return p.mean, p.variance:sqrt()\n"
    "end\n"
    "function posterior() return learner.posterior.precision_mean, learner.posterior.precision end\n" /* [49], [49] */
    "function memory() return pn.concatenate({learner.memory.x, learner.memory.y}, 2) end\n"          /* [24, 2] */
    "function save() assert(learner:save 'learning_device.safetensors') end\n"
    "function load() learner = assert(pn.restore('learning_device.safetensors', {network = net})) end\n";

static unsigned long long chance = 1;

/* Uniform in (0, 1): what the world does is not the library's business. */
static double uniform(void) {
  chance = chance * 6364136223846793005ull + 1442695040888963407ull;
  return ((double)(chance >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void) { return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()); }

static double curve(double x, int hour) {
  double phase = 0.012 * hour;
  return hour < CHANGED ? sin(2 * x + phase) : 0.8 * sin(2 * x + phase + 1) - 0.2 * x;
}

static int failed(pn_runtime *rt, const char *what) {
  printf("%s: %s: %s\n", what, pn_status_name(pn_runtime_status(rt)), pn_runtime_message(rt));
  pn_runtime_close(rt);
  return 1;
}

static pn_array column(double *data, int n) {
  return (pn_array){.dtype = PN_FLOAT64, .ndim = 2, .shape = {n, 1}, .data = data, .capacity = (size_t)n};
}

/* The readings of an hour: at first the maker's, everywhere; then near the temperature of the hour. */
static pn_status observe(pn_runtime *rt, double hour, double *foretold) {
  double x[FIRST], y[FIRST], centre = 1.6 * sin(6.283185307179586 * hour / 24);
  int n = hour > 0 ? READINGS : FIRST;
  for (int i = 0; i < n; i++) {
    x[i] = hour > 0 ? centre + 0.25 * normal() : 4 * uniform() - 2;
    y[i] = curve(x[i], (int)hour) + 0.1 * normal();
  }
  pn_array in[3] = {column(x, n), column(y, n), {.dtype = PN_FLOAT64, .data = &hour}};
  pn_array out = {.dtype = PN_FLOAT64, .data = foretold, .capacity = 1};
  return pn_runtime_call(rt, "observe", 3, in, 1, &out);
}

/* Root mean square error over temperatures of -1.6 to 1.6, or -1. */
static double error_of_curve(pn_runtime *rt, int hour) {
  double x[POINTS], mean[POINTS], sd[POINTS], sum = 0;
  for (int i = 0; i < POINTS; i++) x[i] = -1.6 + 3.2 * i / (POINTS - 1);
  pn_array in = column(x, POINTS), out[2] = {column(mean, POINTS), column(sd, POINTS)};
  if (pn_runtime_call(rt, "predict", 1, &in, 2, out)) return -1;
  for (int i = 0; i < POINTS; i++) sum += (mean[i] - curve(x[i], hour)) * (mean[i] - curve(x[i], hour));
  return sqrt(sum / POINTS);
}

/* The posterior in natural parameters, both [WEIGHTS]. */
static pn_status posterior(pn_runtime *rt, double *numbers) {
  pn_array out[2] = {{.dtype = PN_FLOAT64, .data = numbers, .capacity = WEIGHTS},
                     {.dtype = PN_FLOAT64, .data = numbers + WEIGHTS, .capacity = WEIGHTS}};
  return pn_runtime_call(rt, "posterior", 0, NULL, 2, out);
}

/* Whether a batch that is no good is refused and changes nothing. */
static int survives(pn_runtime *rt) {
  double before[2 * WEIGHTS], after[2 * WEIGHTS], x = 0, y = NAN, hour = HOURS, foretold;
  pn_array in[3] = {column(&x, 1), column(&y, 1), {.dtype = PN_FLOAT64, .data = &hour}};
  pn_array out = {.dtype = PN_FLOAT64, .data = &foretold, .capacity = 1};
  if (posterior(rt, before) || !pn_runtime_call(rt, "observe", 3, in, 1, &out)) return 0;
  printf("refused: %s\n", pn_runtime_message(rt));
  if (posterior(rt, after)) return 0;
  for (int i = 0; i < 2 * WEIGHTS; i++)
    if (before[i] != after[i]) return 0;
  return 1;
}

static pn_runtime *start(void) {
  pn_runtime_config config = {.context = {.threads = 1},
                              .limits = {.memory = 64 << 20, .seconds = 60},
                              .libraries = PN_LIBS_SAFE | PN_LIB_FILES,
                              .root = ".",
                              .root_writable = 1};
  pn_runtime *rt = NULL;
  if (pn_runtime_new(&config, &rt)) return NULL;
  if (pn_runtime_run_string(rt, script, sizeof script - 1, "learning device")) {
    failed(rt, "script");
    return NULL;
  }
  return rt;
}

int main(void) {
  pn_runtime *rt = start();
  double foretold, error = 0, kept[MEMORY][2];
  if (!rt) return 1;
  for (int hour = 0; hour < HOURS; hour++) {
    if (observe(rt, hour, &foretold)) return failed(rt, "observe");
    if ((error = error_of_curve(rt, hour)) < 0) return failed(rt, "predict");
    if (hour % 6 == 5 || hour == CHANGED)
      printf("hour %2d: log density of the readings before they were learned %8.3f, error of the curve %.3f\n", hour,
             foretold, error);
    if (hour == HOURS / 2) { /* the device is switched off and on again */
      if (pn_runtime_call(rt, "save", 0, NULL, 0, NULL)) return failed(rt, "save");
      pn_runtime_close(rt);
      if (!(rt = start())) return 1;
      if (pn_runtime_call(rt, "load", 0, NULL, 0, NULL)) return failed(rt, "load");
    }
  }
  int ok = survives(rt);
  pn_array out = {.dtype = PN_FLOAT64, .data = kept, .capacity = 2 * MEMORY};
  if (pn_runtime_call(rt, "memory", 0, NULL, 1, &out)) return failed(rt, "memory");
  printf("it keeps %d readings, the first (%.2f, %.2f), and a normal law over %d weights\n", (int)out.shape[0],
         kept[0][0], kept[0][1], WEIGHTS);
  ok = ok && out.shape[0] == MEMORY && error < 0.4;
  remove("learning_device.safetensors");
  pn_runtime_close(rt);
  puts(ok ? "all as expected" : "not as expected");
  return !ok;
}
