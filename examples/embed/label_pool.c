/*
** label_pool.c: an inspector in C labels parts for a model in Lua. The host hands over measurements of 300 parts, gets
** the positions of those whose labels are worth most, looks at them (here: knows the rule), and tells what they are; a
** part that it cannot judge is refused. Between asking and telling it may be switched off: the pool is in a file.
** Labels that are none change nothing.
**
**   cc label_pool.c $(pkg-config --cflags --libs penumbra) -lm -o label_pool
**   ./label_pool
*/
#include <math.h>
#include <penumbra.h>
#include <stdio.h>

enum { PARTS = 300, BUDGET = 40, FIRST = 8, COUNT = 4, CANNOT_TELL = -1 };

static const char script[] =
    "local pn = require 'penumbra'\n"
    "local nn = pn.nn\n"
    "local pool, x\n"
    "local function new_model()\n"
    "  pn.seed(1)\n"
    "  local net = nn.bayesian(nn.sequential{nn.linear(2, 24), nn.relu{rule = 'clt'}, nn.linear(24, 2)})\n"
    "  local opt = pn.optim.adam(net, {lr = 0.02})\n"
    "  local function fit(a, y)\n" /* log of the expected likelihood of a probit for each class */
    "    local sign = pn.one_hot(y, 2) * 2 - 1\n"
    "    for k = 1, 150 do\n"
    "      local m, v = net:moments(a)\n"
    "      local ll = (sign * m / (v + 1):sqrt()):log_ndtr():sum(2):mean()\n"
    "      opt:step(-ll + net:kl() / (20 * a:size(1)))\n"
    "    end\n"
    "  end\n"
    "  return pn.active.network(net, {classes = 2, link = 'probit', keep = {net = net, optimiser = opt}, fit = fit})\n"
    "end\n"
    "function start(parts)\n" /* [PARTS, 2] */
    "  x = parts\n"
    "  pool = pn.active.pool{x = x, model = new_model(), acquisition = 'bald', first = 8, count = 4, max_labels = 40,\n"
    "    seed = 1}\n"
    "end\n"
    "function ask()\n" /* positions as numbers, none when the budget is spent */
    "  local positions = pool:ask()\n"
    "  return positions and positions:to 'float64' or pn.zeros{0}\n"
    "end\n"
    "function tell(labels)\n" /* how many labels there are */
    "  return pn.tensor(pool:tell(labels:totable()).labelled)\n"
    "end\n"
    "function predict() return pool:predict(x):argmax(2):to 'float64' end\n"
    "function save() assert(pool:save 'label_pool.safetensors') end\n"
    "function load(parts)\n"
    "  x = parts\n"
    "  pool = assert(pn.restore('label_pool.safetensors', {x = x, model = new_model()}))\n"
    "end\n";

static unsigned long long chance = 1;

/* Uniform in (-1, 1): what the world does is not the library's business. */
static double uniform(void) {
  chance = chance * 6364136223846793005ull + 1442695040888963407ull;
  return ((double)(chance >> 11) + 0.5) / 4503599627370496.0 - 1;
}

/* What an inspector says of a part: good inside a ring, and nothing of those that are too near its edge. */
static int inspected(const double *part) {
  double radius = sqrt(part[0] * part[0] + part[1] * part[1]);
  return fabs(radius - 0.6) < 0.005 ? CANNOT_TELL : radius < 0.6;
}

static int failed(pn_runtime *rt, const char *what) {
  printf("%s: %s: %s\n", what, pn_status_name(pn_runtime_status(rt)), pn_runtime_message(rt));
  pn_runtime_close(rt);
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
  if (pn_runtime_run_string(rt, script, sizeof script - 1, "label pool")) {
    failed(rt, "script");
    return NULL;
  }
  return rt;
}

static pn_array vector(double *data, int n) {
  return (pn_array){.dtype = PN_FLOAT64, .ndim = 1, .shape = {n}, .data = data, .capacity = (size_t)n};
}

/* Positions of the parts to look at; how many, or -1. */
static int ask(pn_runtime *rt, double *positions) {
  pn_array out = {.dtype = PN_FLOAT64, .data = positions, .capacity = FIRST};
  return pn_runtime_call(rt, "ask", 0, NULL, 1, &out) ? -1 : (int)out.shape[0];
}

/* Labels of what was asked for, one as `spoiled` if that is no class; how many labels there are then, or -1. */
static int tell(pn_runtime *rt, double (*parts)[2], const double *positions, int n, double spoiled) {
  double labels[FIRST], labelled;
  for (int i = 0; i < n; i++) labels[i] = inspected(parts[(int)positions[i]]);
  if (spoiled > 1) labels[n - 1] = spoiled;
  pn_array in = vector(labels, n), out = {.dtype = PN_FLOAT64, .data = &labelled, .capacity = 1};
  return pn_runtime_call(rt, "tell", 1, &in, 1, &out) ? -1 : (int)labelled;
}

/* The share of parts that the model takes for what they are not, or -1. */
static double error_of(pn_runtime *rt, double (*parts)[2]) {
  double class[PARTS], wrong = 0, judged = 0;
  pn_array out = {.dtype = PN_FLOAT64, .data = class, .capacity = PARTS};
  if (pn_runtime_call(rt, "predict", 0, NULL, 1, &out)) return -1;
  for (int i = 0; i < PARTS; i++) {
    int label = inspected(parts[i]);
    judged += label != CANNOT_TELL;
    wrong += label != CANNOT_TELL && label != (int)class[i];
  }
  return wrong / judged;
}

int main(void) {
  double parts[PARTS][2], positions[FIRST], again[FIRST], error = 1;
  int n, labelled = 0, round = 0, ok = 1;
  for (int i = 0; i < PARTS; i++) parts[i][0] = uniform(), parts[i][1] = uniform();
  pn_array data = {.dtype = PN_FLOAT64, .ndim = 2, .shape = {PARTS, 2}, .data = parts};
  pn_runtime *rt = start();
  if (!rt) return 1;
  if (pn_runtime_call(rt, "start", 1, &data, 0, NULL)) return failed(rt, "start");
  while ((n = ask(rt, positions)) > 0) {
    if (round == 2) { /* a label that is no class; then the power fails, and the same parts are asked for */
      ok = ok && tell(rt, parts, positions, n, 7) < 0;
      printf("refused: %s\n", pn_runtime_message(rt));
      if (pn_runtime_call(rt, "save", 0, NULL, 0, NULL)) return failed(rt, "save");
      pn_runtime_close(rt);
      if (!(rt = start())) return 1;
      if (pn_runtime_call(rt, "load", 1, &data, 0, NULL)) return failed(rt, "load");
      ok = ok && ask(rt, again) == n;
      for (int i = 0; i < n; i++) ok = ok && again[i] == positions[i];
    }
    if ((labelled = tell(rt, parts, positions, n, 0)) < 0) return failed(rt, "tell");
    if ((error = error_of(rt, parts)) < 0) return failed(rt, "predict");
    if (round++ % 2 == 0) printf("%2d labels: %4.1f %% of all parts are misjudged\n", labelled, 100 * error);
  }
  if (n < 0) return failed(rt, "ask");
  ok = ok && labelled == BUDGET && error < 0.15;
  remove("label_pool.safetensors");
  pn_runtime_close(rt);
  puts(ok ? "all as expected" : "not as expected");
  return !ok;
}
