/*
** forecast_stream.c: a device that forecasts. A script learns a seasonal series once and then keeps a belief; the host
** hands it each new observation as it comes and gets back quantiles of the next days. A day on which nothing was
** measured is NaN.
**
**   cc forecast_stream.c $(pkg-config --cflags --libs penumbra) -lm -o forecast_stream
**   ./forecast_stream
*/
#include <math.h>
#include <penumbra.h>
#include <stdio.h>

enum { PAST = 84, NEXT = 28, AHEAD = 7, LEVELS = 3 };

static const char script[] =
    "local pn = require 'penumbra'\n"
    "pn.seed(1)\n"
    "local model, belief\n"
    "function learn(y)\n" /* y [T, 1, 1] */
    "  model = pn.models.rsgls_issm{seasonal = {7}, switches = 2, base = 3, num_particles = 8, scaling = 'standard'}\n"
    "  local run = model:fit{series = {y = y}, steps = 80, lr = 2e-2, decay = 0.3, seed = 1}\n"
    "  belief = model:filter{y = y}\n"
    "  return pn.tensor(run.loss)\n"
    "end\n"
    "function observe(y)\n" /* [1, 1] */
    "  belief = belief:update(y)\n"
    "end\n"
    "function ahead(levels, steps)\n" /* [3] and a number: [3, steps] */
    "  local q = model:quantiles(belief, steps:item(), levels:totable(), {draws = 400})\n"
    "  return q:select(4, 1):select(3, 1)\n"
    "end\n";

/* The demand of day t: busy in the week, quiet at its end, and a small unrest. */
static double demand(int t) {
  static const double week[] = {5, 6, 6.5, 6, 7, 3, 2};
  return week[t % 7] + 0.2 * sin(t * 12.9898) + 0.1 * cos(t * 78.233);
}

static int failed(pn_runtime *rt, const char *what) {
  printf("%s: %s: %s\n", what, pn_status_name(pn_runtime_status(rt)), pn_runtime_message(rt));
  pn_runtime_close(rt);
  return 1;
}

/* Quantiles [LEVELS][AHEAD] of the days to come. */
static pn_status forecast(pn_runtime *rt, double *quantiles) {
  double levels[LEVELS] = {0.05, 0.5, 0.95}, steps = AHEAD;
  pn_array in[2] = {{.dtype = PN_FLOAT64, .ndim = 1, .shape = {LEVELS}, .data = levels},
                    {.dtype = PN_FLOAT64, .data = &steps}};
  pn_array out = {.dtype = PN_FLOAT64, .data = quantiles, .capacity = LEVELS * AHEAD};
  return pn_runtime_call(rt, "ahead", 2, in, 1, &out);
}

int main(void) {
  pn_runtime_config config = {.context = {.threads = 1}, .limits = {.memory = 256 << 20, .seconds = 300}};
  pn_runtime *rt;
  double past[PAST], loss, q[LEVELS][AHEAD];
  int inside = 0, seen = 0;
  if (pn_runtime_new(&config, &rt)) return 1;
  if (pn_runtime_run_string(rt, script, sizeof script - 1, "forecaster")) return failed(rt, "script");

  for (int t = 0; t < PAST; t++) past[t] = demand(t);
  pn_array in = {.dtype = PN_FLOAT64, .ndim = 3, .shape = {PAST, 1, 1}, .data = past};
  pn_array out = {.dtype = PN_FLOAT64, .data = &loss, .capacity = 1};
  if (pn_runtime_call(rt, "learn", 1, &in, 1, &out)) return failed(rt, "learn");
  printf("learnt from %d days, loss %.2f\n", PAST, loss);

  for (int t = PAST; t < PAST + NEXT; t++) {
    if (forecast(rt, &q[0][0])) return failed(rt, "ahead");
    double y = t % 11 == 0 ? NAN : demand(t);
    if (!isnan(y)) {
      seen++;
      inside += q[0][0] <= y && y <= q[2][0];
    }
    if (t % 7 == 0)
      printf("day %d: 5 %%, 50 %%, 95 %% of tomorrow %.2f %.2f %.2f, in a week %.2f %.2f %.2f\n", t, q[0][0], q[1][0],
             q[2][0], q[0][6], q[1][6], q[2][6]);
    pn_array one = {.dtype = PN_FLOAT64, .ndim = 2, .shape = {1, 1}, .data = &y};
    if (pn_runtime_call(rt, "observe", 1, &one, 0, NULL)) return failed(rt, "observe");
  }
  printf("within the 90 %% band of the day before: %d of %d\n", inside, seen);
  pn_runtime_close(rt);
  puts(inside >= seen / 2 ? "all as expected" : "not as expected");
  return inside < seen / 2;
}
