/*
** bridge_refusal_test.c: what BridgeStan's C interface (src/bridge) says to wrong scripts, wrong data and NULL, and
** that it survives the failure of any allocation: an error each time, nothing lost, and the next call does its work.
*/
#include <errno.h>
#include "bridge_fixture.h"

/* ---- allocations that fail ---- */

static long requests, fail_at; /* fail_at 0: never */
static bool all_later, paused;

extern void *__real_malloc(size_t n);
extern void *__real_calloc(size_t n, size_t size);
extern void *__real_realloc(void *p, size_t n);
extern void *__wrap_malloc(size_t n);
extern void *__wrap_calloc(size_t n, size_t size);
extern void *__wrap_realloc(void *p, size_t n);

static bool refused(void) {
  if (!fail_at || paused) return false;
  requests++;
  return requests == fail_at || (all_later && requests > fail_at);
}
void *__wrap_malloc(size_t n) { return refused() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t size) { return refused() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *p, size_t n) { return n && refused() ? NULL : __real_realloc(p, n); }

/* Runs work(data) with the n-th allocation failing (lasting: all later ones, too): each of the first `dense`, then ever
 * fewer, until n is more than there are. Returns how many runs failed, -1 if the last did. Each time: a success, or a
 * failure with a message. */
static long sweep(int (*work)(void *data, char **error), void *data, long dense, bool lasting) {
  long n = 1, failures = 0;
  all_later = lasting;
  for (;; n += n < dense ? 1 : n / 7) {
    char *error = NULL;
    requests = 0;
    fail_at = n;
    int failed = work(data, &error);
    bool reached = requests >= n;
    fail_at = 0;
    if (!check_record(!failed == !error)) printf("allocation %ld: %s\n", n, error ? error : "no message");
    failures += failed != 0;
    bs_free_error_msg(error);
    if (!reached) return failed ? -1 : failures;
  }
}

/* ---- scripts ---- */

static const char good[] = "local pn = require 'penumbra'\n"
                           "target = pn.model(function(m, y)\n"
                           "  local s = m:sample('s', pn.dist.gamma(2, 3))\n"
                           "  local w = m:sample('w', pn.dist.normal(pn.zeros{2, 2}, 1):independent(2))\n"
                           "  m:observe('y', pn.dist.normal(w:sum() + pn.zeros{3}, s):independent(1), y)\n"
                           "end):target(data.y)\n";
enum { N = 5 };

static void scripts(void) {
  static const char *const bad[][2] = {
      {"target = = 3", "bad.lua:1: "},
      {"error 'no'", "bad.lua:1: no"},
      {"local t = nil\nt.x = 1", "bad.lua:2: attempt to index a nil value"},
      {"x = 1", "there is no global 'target'"},
      {"target = 42", "target must be a target, as model:target(...) gives it, got number"},
      {"target = {for_host = function() return 1, 2, 3 end}", "variables must be a list"},
      {"target = {for_host = function() error 'never' end}", "never"},
      {"local pn = require 'penumbra'\ntarget = pn.model(function(m) m:sample('x', pn.dist.normal(0, -1)) "
       "end):target()",
       "bad.lua:2: normal: scale must be positive"},
      {"local pn = require 'penumbra'\ntarget = pn.model(function(m) m:observe('x', pn.dist.normal(0, 1), data.x) "
       "end):target()",
       "bad.lua:2: "},
      {"local pn = require 'penumbra'\ntarget = pn.model(function(m)\n  m:sample('a b', pn.dist.normal(0, 1))\n"
       "  m:sample('a_b', pn.dist.normal(0, 1))\nend):target()",
       "two variables would be called 'a_b'"},
      {"os.exit(3)", "bad.lua:1: "},
      {"io.open('/etc/passwd'):read 'a'", "bad.lua:1: "}};
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
    char *error = NULL;
    CHECK(!fixture_model("bad", bad[k][0], "", &error));
    check_said(__FILE__, __LINE__, &error, bad[k][1]);
    CHECK(!fixture_model("bad", bad[k][0], "", NULL));
  }
  char *error = NULL;
  CHECK(!bs_model_construct("{\"script\": \"/nowhere/x.lua\"}", 1, &error));
  check_said(__FILE__, __LINE__, &error, "construct: there is no script '/nowhere/x.lua'");
  CHECK(!bs_model_construct(NULL, 1, &error)); /* the script beside this program, which has none */
  check_said(__FILE__, __LINE__, &error, ": it stands beside the library");
  CHECK(!bs_model_construct("", 1, NULL));
}

/* What a script may take is limited, by the environment too. */
static void limits(void) {
  static const char hungry[] = "local t = {} while true do t[#t + 1] = ('x'):rep(2 ^ 16) .. #t end";
  char *error = NULL;
  setenv("PENUMBRA_BRIDGE_MEMORY", "32", 1);
  CHECK(!fixture_model("hungry", hungry, "", &error));
  check_said(__FILE__, __LINE__, &error, "memory");
  setenv("PENUMBRA_BRIDGE_SECONDS", "0.05", 1);
  CHECK(!fixture_model("endless", "while true do end", "", &error));
  check_said(__FILE__, __LINE__, &error, "time limit");
  setenv("PENUMBRA_BRIDGE_SECONDS", "soon", 1);
  CHECK(!fixture_model("endless", "x = 1", "", &error));
  check_said(__FILE__, __LINE__, &error, "PENUMBRA_BRIDGE_SECONDS must be a positive number, is 'soon'");
  unsetenv("PENUMBRA_BRIDGE_SECONDS");
  unsetenv("PENUMBRA_BRIDGE_MEMORY");
}

/* ---- data ---- */

static void bad_data(void) {
  static const char *const bad[][2] = {{"[1]", "data must be an object"},
                                       {"3", "data must be an object"},
                                       {"{", "a text in quotation marks is missing"},
                                       {"{\"a\" 1}", "'a' has no colon"},
                                       {"{\"a\": 1", "a comma or the end of the object is missing (at byte 9)"},
                                       {"{\"a\": 1} 2", "something follows the object"},
                                       {"{\"a\": 1, \"a\": 2}", "'a' stands there twice"},
                                       {"{\"a\": }", "'a' has a value that cannot be read"},
                                       {"{\"a\": 01}", "'a' has a value that cannot be read"},
                                       {"{\"a\": 1.}", "'a' has a value that cannot be read"},
                                       {"{\"a\": .5}", "'a' has a value that cannot be read"},
                                       {"{\"a\": 0x10}", "a comma or the end of the object is missing"},
                                       {"{\"a\": [1, 2}", "'a' lacks a comma or an end"},
                                       {"{\"a\": [1, \"two\"]}", "'a' must hold numbers"},
                                       {"{\"a\": [1, {}]}", "'a' must hold numbers"},
                                       {"{\"a\": [[1, 2], [3]]}", "'a' has rows of unequal length"},
                                       {"{\"a\": [[], [3]]}", "'a' has rows of unequal length"},
                                       {"{\"a\": [1, [2]]}", "'a' has numbers beside lists"},
                                       {"{\"a\": [[1], 2]}", "'a' has numbers beside lists"},
                                       {"{\"a\": [[[1]], [2]]}", "'a' has numbers beside lists"},
                                       {"{\"a\": [[[[[[[[[[1]]]]]]]]]]}", "'a' is nested too deeply"},
                                       {"{\"a\": {\"b\": 1}}", "'a' is an object, which is no data"},
                                       {"{\"a\": \"text\"}", "'a' is a text: data are numbers"},
                                       {"{\"a\": \"te\\xt\"}", "'a' has a character that cannot be read"},
                                       {"{\"a\": \"text", "'a' has no end"},
                                       {"{\"a.b\": 1}", "'a.b' is no name"},
                                       {"{\"\\u00e9\": 1}", "is no name"},
                                       {"nothing.json", "file 'nothing.json': No such file"}};
  char json[512];
  fixture_write("good", ".lua", good);
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
    char *error = NULL;
    bool whole = bad[k][0][0] == '{' && bad[k][0][1];
    snprintf(json, sizeof json, whole ? "{\"script\": \"%s\", %s" : "%s%s", whole ? fixture_path("good", ".lua") : "",
             bad[k][0] + whole);
    if (strncmp(bad[k][1], "a comma or the end of the object is missing (at", 47) == 0)
      snprintf(json, 9, "%s", bad[k][0]);
    CHECK(!bs_model_construct(json, 1, &error));
    check_said(__FILE__, __LINE__, &error, bad[k][1]);
  }
  fixture_remove("good", ".lua");
}

/* Every way to write a number, as the script finds it. */
static void read_data(void) {
  static const char text[] =
      "local pn = require 'penumbra'\n"
      "local function same(x, want)\n"
      "  local y = pn.tensor(want)\n"
      "  assert(x:dtype() == 'float64' and table.concat(x:shape(), ' ') == table.concat(y:shape(), ' '))\n"
      "  assert(x:eq(y):logical_or(x:ne(x):logical_and(y:ne(y))):all():item())\n"
      "end\n"
      "assert(data.n == 3 and data.minus == -0.25 and data.big == 1e300 and data.yes == 1 and data.no == 0)\n"
      "assert(data.gone ~= data.gone and data.inf == math.huge and data.script == nil)\n"
      "same(data.list, {1, -2, 3.5e-3})\n"
      "same(data.words, {math.huge, -math.huge, math.huge, -math.huge, 0/0, 0/0, 0/0, 1})\n"
      "same(data.rows, {{1, 2, 3}, {4, 5, 6}})\n"
      "same(data.deep, {{{1, 2}}, {{3, 4}}})\n"
      "assert(data.none:numel() == 0 and data.none:ndim() == 1)\n"
      "assert(data.flat:numel() == 0 and data.flat:size(1) == 2 and data.flat:size(2) == 0)\n"
      "target = pn.model(function(m) m:sample('x', pn.dist.normal(0, 1)) end):target()\n";
  static const char data[] =
      ", \"n\" :3,\n\"minus\": -0.25, \"big\": 1E+300, \"yes\": true, \"no\": false, \"gone\": null, \"inf\": "
      "Infinity, "
      "\"list\": [1,-2 ,3.5e-3], \"words\": [\"Inf\", \"-Infinity\", Infinity, -Infinity, NaN, \"NaN\", null, true], "
      "\"rows\": [[1, 2, 3], [4, 5, 6]], \"deep\": [[[1, 2]], [[3, 4]]], \"none\": [], \"flat\": [[], []]";
  char *error = NULL, json[2048];
  bs_model *m = fixture_model("data", text, data, &error);
  CHECK(m != NULL);
  if (error) check_said(__FILE__, __LINE__, &error, "no message");
  bs_model_destruct(m);
  fixture_write("data", ".lua", text);
  snprintf(json, sizeof json, "{\"script\": \"%s\"%s}", fixture_path("data", ".lua"), data);
  fixture_write("data", ".json", json);
  m = bs_model_construct(fixture_path("data", ".json"), 1, &error);
  CHECK(m != NULL);
  if (error) check_said(__FILE__, __LINE__, &error, "no message");
  bs_model_destruct(m);
  fixture_remove("data", ".json");
  fixture_remove("data", ".lua");
}

/* ---- NULL ---- */

static void nulls(const bs_model *m) {
  char *error = NULL;
  double z[N] = {0}, h[N * N];
  bs_rng *rng = bs_rng_construct(1, NULL);
  CHECK_SAYS(bs_log_density(NULL, 1, 1, z, z, &error), "log_density: m must not be NULL");
  CHECK_SAYS(bs_log_density(m, 1, 1, NULL, z, &error), "theta_unc must not be NULL");
  CHECK_SAYS(bs_log_density(m, 1, 1, z, NULL, &error), "lp must not be NULL");
  CHECK_SAYS(bs_log_density_gradient(m, 1, 1, z, z, NULL, &error), "grad must not be NULL");
  CHECK_SAYS(bs_log_density_gradient(m, 1, 1, z, NULL, z, &error), "val must not be NULL");
  CHECK_SAYS(bs_log_density_hessian(m, 1, 1, z, z, z, NULL, &error), "hessian must not be NULL");
  CHECK_SAYS(bs_log_density_hessian_vector_product(m, 1, 1, z, NULL, z, z, &error), "vector must not be NULL");
  CHECK_SAYS(bs_log_density_hessian_vector_product(m, 1, 1, z, z, z, NULL, &error), "hvp must not be NULL");
  CHECK_SAYS(bs_param_constrain(m, 0, 0, z, NULL, NULL, &error), "theta must not be NULL");
  CHECK_SAYS(bs_param_constrain(m, 0, 0, NULL, h, NULL, &error), "theta_unc must not be NULL");
  CHECK_SAYS(bs_param_unconstrain(m, NULL, z, &error), "theta must not be NULL");
  CHECK_SAYS(bs_param_unconstrain_json(m, NULL, z, &error), "json must not be NULL");
  CHECK_SAYS(bs_param_unconstrain_json(m, "{}", NULL, &error), "theta_unc must not be NULL");
  CHECK_SAYS(bs_param_initialize(m, "{}", NULL, 1, 1, 1, z, &error), "rng must not be NULL");
  CHECK_SAYS(bs_param_initialize(m, "{}", rng, 1, 1, 1, NULL, &error), "theta_unc must not be NULL");
  CHECK_INT(bs_log_density(NULL, 1, 1, z, z, NULL), -1); /* nowhere to say it */
  CHECK_INT(bs_param_constrain(NULL, 1, 1, z, z, NULL, NULL), -1);
  CHECK(bs_param_num(NULL, 1, 1) == -1 && bs_param_unc_num(NULL) == -1);
  CHECK_STR(bs_name(NULL), "");
  CHECK_STR(bs_model_info(NULL), "");
  CHECK_STR(bs_param_names(NULL, 1, 1), "");
  CHECK_STR(bs_param_unc_names(NULL), "");
  bs_model_destruct(NULL);
  bs_rng_destruct(NULL);
  bs_rng_destruct(rng);
  bs_free_error_msg(NULL);
}

/* ---- lack of memory ---- */

static int construct(void *json, char **error) {
  bs_model *m = bs_model_construct(json, 1, error);
  bs_model_destruct(m);
  return !m;
}

/* All that a model does, of which the first failure counts. */
static int use(void *of, char **error) {
  bs_model *m = of;
  double z[N] = {0.1, 0.2, 0.3, 0.4, 0.5}, x[N] = {1, 2, 3, 4, 5}, lp, h[N * N];
  bs_rng *rng = bs_rng_construct(1, error);
  int failed = !rng;
  if (!failed) failed = bs_param_initialize(m, "{\"s\": 2}", rng, 1, 5, true, z, error);
  if (!failed) failed = bs_param_unconstrain(m, x, z, error);
  if (!failed) failed = bs_param_unconstrain_json(m, "{\"s\": 1, \"w\": [[1, 2], [3, 4]]}", z, error);
  if (!failed) failed = bs_log_density_hessian(m, true, false, z, &lp, x, h, error);
  if (!failed) failed = bs_param_constrain(m, true, true, z, x, rng, error);
  bs_rng_destruct(rng);
  return failed;
}

/* The first use of a model, which makes what later ones find. */
static int first_use(void *json, char **error) {
  paused = true;
  bs_model *m = bs_model_construct(json, 1, error);
  paused = false;
  int failed = !m || use(m, error);
  bs_model_destruct(m);
  return failed;
}

static void memory(void) {
  char json[512], *error = NULL;
  fixture_write("good", ".lua", good);
  snprintf(json, sizeof json, "{\"script\": \"%s\", \"y\": [1, 2, 3]}", fixture_path("good", ".lua"));
  bs_model *m = bs_model_construct(json, 1, &error);
  CHECK(m && !error);
  for (int lasting = 0; lasting < 2; lasting++) {
    CHECK(sweep(construct, json, 60, lasting) > 40);
    CHECK(sweep(first_use, json, 60, lasting) > (lasting ? 60 : 2));
    CHECK(sweep(use, m, 40, lasting) > (lasting ? 40 : 2)); /* one failure alone is often made good by collecting */
  }
  nulls(m);
  bs_model_destruct(m);
  fixture_remove("good", ".lua");
}

int main(void) {
  fixture_begin();
  scripts();
  limits();
  bad_data();
  read_data();
  memory();
  rmdir(fixture_folder);
  CHECK_DONE();
}
