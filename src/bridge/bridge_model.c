/*
** bridge_model.c: a model from its script and its data.
*/
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bridge.h"

const int bs_major_version = 2, bs_minor_version = 9, bs_patch_version = 0;

static const double SECONDS = 600, MEBIBYTES = 4096; /* for a script */
static const char where[] = "construct";

/* ---- which script ---- */

static char *copy(const char *text, size_t n) {
  char *to = malloc(n + 1);
  if (!to) return NULL;
  memcpy(to, text, n);
  to[n] = 0;
  return to;
}

static bool ends(const char *text, const char *with) {
  size_t n = strlen(text), k = strlen(with);
  return n >= k && strcmp(text + n - k, with) == 0;
}

/* NAME.lua beside the library NAME.so, to be freed. */
static char *beside_library(char **error) {
  Dl_info info;
  if (!dladdr(&bs_major_version, &info) || !info.dli_fname)
    return bridge_fail(error, where, "which library this is cannot be told: give \"script\" in the data"), NULL;
  size_t n = strlen(info.dli_fname) - (ends(info.dli_fname, ".so") ? 3 : 0);
  char *path = malloc(n + 5);
  if (!path) return bridge_fail(error, where, "not enough memory"), NULL;
  memcpy(path, info.dli_fname, n);
  memcpy(path + n, ".lua", 5);
  return path;
}

static char *find_script(const bridge_object *data, char **error) {
  const bridge_member *given = bridge_find(data, "script");
  char *path = given && given->text ? copy(given->text, strlen(given->text)) : beside_library(error);
  if (!path) return given ? bridge_fail(error, where, "not enough memory"), NULL : NULL;
  if (access(path, R_OK) == 0) return path;
  bridge_fail(error, where, "there is no script '%s'%s", path,
              given ? "" : ": it stands beside the library, or its path is \"script\" in the data");
  return free(path), NULL;
}

/* ---- its runtime ---- */

/* A positive number that the environment may hold. */
static int setting(const char *name, double *v, char **error) {
  const char *text = getenv(name);
  char *end = NULL;
  if (!text || !*text) return 0;
  *v = strtod(text, &end);
  if (!*end && *v > 0 && *v < 1e9) return 0;
  return bridge_fail(error, where, "%s must be a positive number, is '%s'", name, text);
}

static int read_limits(pn_limits *limits, char **error) {
  double seconds = SECONDS, mebibytes = MEBIBYTES;
  if (setting("PENUMBRA_BRIDGE_SECONDS", &seconds, error) || setting("PENUMBRA_BRIDGE_MEMORY", &mebibytes, error))
    return -1;
  *limits = (pn_limits){.memory = (size_t)(mebibytes * 1048576), .seconds = seconds};
  return 0;
}

/* The folder of a path, to be freed. */
static char *folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? copy(path, slash == path ? 1 : (size_t)(slash - path)) : copy(".", 1);
}

static int open_runtime(bs_model *m, const char *script, unsigned seed, char **error) {
  pn_limits limits;
  if (read_limits(&limits, error)) return -1;
  char *folder = folder_of(script);
  if (!folder) return bridge_fail(error, where, "not enough memory");
  pn_runtime_config config = {.context = {.threads = 1, .seed = seed},
                              .limits = limits,
                              .libraries = PN_LIBS_SAFE | PN_LIB_FILES,
                              .output = bridge_print,
                              .root = folder};
  pn_status s = pn_runtime_new(&config, &m->runtime);
  if (s != PN_OK) bridge_fail(error, where, "script '%s': %s", script, pn_status_name(s));
  free(folder);
  return s == PN_OK ? 0 : -1;
}

static int run_script(bs_model *m, const char *script, const bridge_object *data, char **error) {
  if (bridge_give(m->runtime, "data", data, "script", error, where)) return -1;
  if (pn_runtime_run_file(m->runtime, script) == PN_OK) return 0;
  return bridge_fail(error, where, "%s", pn_runtime_message(m->runtime));
}

/* ---- what it left ---- */

static int take_target(bs_model *m, char **error) {
  static const char ask[] = "bridge = target:bridge()";
  m->masters = pn_context_new(&(pn_context_config){.threads = 1});
  if (!m->masters) return bridge_fail(error, where, "not enough memory");
  if (pn_runtime_target(m->runtime, "target", m->masters, &m->master[WITH_JACOBIAN]) != PN_OK ||
      pn_runtime_run_string(m->runtime, ask, sizeof ask - 1, "bridge") != PN_OK)
    return bridge_fail(error, where, "%s", pn_runtime_message(m->runtime));
  const pn_target *t = m->master[WITH_JACOBIAN];
  m->n = pn_target_size(t);
  m->values = pn_target_num_values(t);
  for (int i = 0; i < pn_target_num_variables(t); i++)
    if (!pn_target_variable(t, i)->deterministic) m->params += pn_target_variable(t, i)->size;
  m->others = m->values - m->params;
  if (m->values > INT32_MAX || m->n > INT32_MAX) return bridge_fail(error, where, "the model has too many numbers");
  return 0;
}

static int take_names(bs_model *m, char **error) {
  pn_array shapes = {0};
  double draws = 0;
  if (pn_runtime_get_number(m->runtime, "bridge.draws", &draws) != PN_OK ||
      pn_runtime_get_array(m->runtime, "bridge.shapes", &shapes) != PN_OK)
    return bridge_fail(error, where, "%s", pn_runtime_message(m->runtime));
  m->draws = draws != 0;
  return bridge_name_all(m, shapes.data, shapes.shape[1], error, where);
}

static int describe(bs_model *m, const char *script, char **error) {
  const char *slash = strrchr(script, '/'), *base = slash ? slash + 1 : script;
  bridge_text info = {0};
  m->name = copy(base, strlen(base) - (ends(base, ".lua") ? 4 : 0));
  bridge_append(&info, "Penumbra %s\nInterface: BridgeStan %d.%d.%d\nScript: %s\nSTAN_THREADS=true\n", pn_version(),
                bs_major_version, bs_minor_version, bs_patch_version, script);
  bridge_append(&info, "Hessians: differences of gradients\n");
  m->info = info.text;
  return m->name && m->info ? 0 : bridge_fail(error, where, "not enough memory");
}

static int build(bs_model *m, const char *script, const bridge_object *data, unsigned seed, char **error) {
  return open_runtime(m, script, seed, error) || run_script(m, script, data, error) || take_target(m, error) ||
         take_names(m, error) || describe(m, script, error);
}

/* ---- the interface ---- */

void bs_model_destruct(bs_model *m) {
  if (!m) return;
  bridge_free_evaluators(m);
  for (int k = 0; k < DENSITIES; k++) pn_target_free(m->master[k]);
  pn_context_close(m->masters);
  pn_runtime_close(m->runtime);
  pthread_mutex_destroy(&m->lock);
  free(m->names);
  free(m->unc_names);
  free(m->all_names);
  free(m->unc_order);
  free(m->order);
  free(m->name);
  free(m->info);
  free(m);
}

static bs_model *construct(const bridge_object *data, unsigned seed, char **error) {
  char *script = find_script(data, error);
  bs_model *m = script ? calloc(1, sizeof *m) : NULL;
  if (m && pthread_mutex_init(&m->lock, NULL)) free(m), m = NULL;
  if (script && !m) bridge_fail(error, where, "not enough memory");
  if (m && build(m, script, data, seed, error)) bs_model_destruct(m), m = NULL;
  free(script);
  return m;
}

bs_model *bs_model_construct(const char *data, unsigned int seed, char **error_msg) {
  bridge_object object = {0};
  char *text = NULL;
  if (data && ends(data, ".json")) {
    text = bridge_read_file(data, error_msg, where);
    if (!text) return NULL;
    data = text;
  }
  bs_model *m = NULL;
  if (bridge_read_json(data, &object, error_msg, where) == 0) m = construct(&object, seed, error_msg);
  bridge_free_object(&object);
  free(text);
  return m;
}

const char *bs_name(const bs_model *m) { return m ? m->name : ""; }
const char *bs_model_info(const bs_model *m) { return m ? m->info : ""; }
