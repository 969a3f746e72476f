/*
** bridge_parameter.c: names and numbers of parameters, from real numbers to values and back, starts, random numbers.
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bridge.h"

/* ---- what there is ---- */

/* Are the deterministic variables among what was asked? */
static bool with_others(const bs_model *m, bool include_tp, bool include_gq) {
  return m->draws ? include_gq : include_tp;
}

const char *bs_param_names(const bs_model *m, bool include_tp, bool include_gq) {
  if (!m) return "";
  return with_others(m, include_tp, include_gq) ? m->all_names : m->names;
}

const char *bs_param_unc_names(const bs_model *m) { return m ? m->unc_names : ""; }

int bs_param_num(const bs_model *m, bool include_tp, bool include_gq) {
  if (!m) return -1;
  return (int)(with_others(m, include_tp, include_gq) ? m->values : m->params);
}

int bs_param_unc_num(const bs_model *m) { return m ? (int)m->n : -1; }

/* ---- random numbers ---- */

bs_rng *bs_rng_construct(unsigned int seed, char **error_msg) {
  bs_rng *rng = malloc(sizeof *rng);
  if (!rng) return bridge_fail(error_msg, "rng_construct", "not enough memory"), NULL;
  *rng = (bs_rng){.seed = seed};
  return rng;
}

void bs_rng_destruct(bs_rng *rng) { free(rng); }

/* The context draws from here on what belongs to this call of the generator. */
static void seed_context(pn_context *c, bs_rng *rng) { pn_seed(c, rng->seed << 32 | (rng->calls++ & UINT32_MAX)); }

/* ---- values ---- */

int bs_param_constrain(const bs_model *m, bool include_tp, bool include_gq, const double *theta_unc, double *theta,
                       bs_rng *rng, char **error_msg) {
  static const char where[] = "param_constrain";
  if (bridge_check(error_msg, where, "m theta_unc theta", 3, (const void *[]){m, theta_unc, theta})) return -1;
  if (include_gq && !rng) return bridge_fail(error_msg, where, "rng must not be NULL with include_gq");
  bridge_evaluator *e = bridge_borrow((bs_model *)m, WITH_JACOBIAN, error_msg, where);
  if (!e) return -1;
  if (rng) seed_context(e->c, rng);
  bridge_from_host(m->unc_order, m->n, theta_unc, e->z);
  pn_status s = pn_target_constrain(e->c, e->target[WITH_JACOBIAN], 1, e->z, e->values);
  if (s == PN_OK)
    bridge_to_host(m->order, bs_param_num(m, include_tp, include_gq), e->values, theta);
  else
    bridge_fail(error_msg, where, "%s", pn_context_message(e->c));
  pn_context_clear_error(e->c);
  bridge_return((bs_model *)m, e);
  return s == PN_OK ? 0 : -1;
}

/* ---- and back, by the script: under the lock ---- */

/* out [n, in the host's order] = f(in), by the script's function of that name. */
static int call_script(const bs_model *m, const char *name, const double *in, int64_t nin, double *out, char **error,
                       const char *where) {
  pn_array x = {.dtype = PN_FLOAT64, .ndim = 1, .shape = {nin}, .data = (void *)in}, z = {0};
  if (pn_runtime_call(m->runtime, name, 1, &x, 1, &z) != PN_OK)
    return bridge_fail(error, where, "%s", pn_runtime_message(m->runtime));
  if (z.dtype != PN_FLOAT64 || z.ndim != 1 || z.shape[0] != m->n)
    return bridge_fail(error, where, "the model has other sites than when it was constructed");
  bridge_to_host(m->unc_order, m->n, z.data, out);
  return 0;
}

int bs_param_unconstrain(const bs_model *m, const double *theta, double *theta_unc, char **error_msg) {
  static const char where[] = "param_unconstrain";
  if (bridge_check(error_msg, where, "m theta theta_unc", 3, (const void *[]){m, theta, theta_unc})) return -1;
  double *x = malloc(((size_t)m->params + 1) * sizeof *x);
  if (!x) return bridge_fail(error_msg, where, "not enough memory");
  bridge_from_host(m->order, m->params, theta, x);
  bs_model *model = (bs_model *)m;
  pthread_mutex_lock(&model->lock);
  int failed = call_script(m, "bridge.unconstrain", x, m->params, theta_unc, error_msg, where);
  pthread_mutex_unlock(&model->lock);
  free(x);
  return failed;
}

/* Are all parameters there? Else a message names the first that is not. */
static int has_parameters(const bs_model *m, const bridge_object *o, char **error, const char *where) {
  const pn_target *t = m->master[WITH_JACOBIAN];
  for (int i = 0; i < pn_target_num_variables(t) && !pn_target_variable(t, i)->deterministic; i++) {
    char *name = bridge_host_name(pn_target_variable(t, i)->name);
    if (!name) return bridge_fail(error, where, "not enough memory");
    bool found = bridge_find(o, name) != NULL;
    if (!found) bridge_fail(error, where, "the value of '%s' is missing", name);
    free(name);
    if (!found) return -1;
  }
  return 0;
}

/* What the object says, and start [n, in the host's order] where it says nothing, into theta_unc. start may be it. */
static int merge(const bs_model *m, const bridge_object *o, const double *start, double *theta_unc, char **error,
                 const char *where) {
  double *z = malloc(((size_t)m->n + 1) * sizeof *z);
  if (!z) return bridge_fail(error, where, "not enough memory");
  bridge_from_host(m->unc_order, m->n, start, z);
  bs_model *model = (bs_model *)m;
  pthread_mutex_lock(&model->lock);
  int failed = bridge_give(m->runtime, "bridge.given", o, NULL, error, where) ||
               call_script(m, "bridge.merge", z, m->n, theta_unc, error, where);
  pthread_mutex_unlock(&model->lock);
  free(z);
  return failed ? -1 : 0;
}

int bs_param_unconstrain_json(const bs_model *m, const char *json, double *theta_unc, char **error_msg) {
  static const char where[] = "param_unconstrain_json";
  bridge_object o = {0};
  if (bridge_check(error_msg, where, "m json theta_unc", 3, (const void *[]){m, json, theta_unc})) return -1;
  int failed = bridge_read_json(json, &o, error_msg, where) || has_parameters(m, &o, error_msg, where);
  double *start = failed ? NULL : calloc((size_t)m->n + 1, sizeof *start);
  if (!failed && !start) failed = bridge_fail(error_msg, where, "not enough memory");
  failed = failed || merge(m, &o, start, theta_unc, error_msg, where);
  free(start);
  bridge_free_object(&o);
  return failed ? -1 : 0;
}

/* ---- starts ---- */

/* Uniform on [-radius, radius). */
static int draw_start(const bs_model *m, bs_rng *rng, double radius, double *theta, char **error, const char *where) {
  bridge_evaluator *e = bridge_borrow((bs_model *)m, WITH_JACOBIAN, error, where);
  if (!e) return -1;
  seed_context(e->c, rng);
  size_t scope = pn_scope_open(e->c);
  pn_tensor *u = pn_rand(e->c, NULL, PN_FLOAT64, 1, (int64_t[]){m->n});
  int failed = u && pn_tensor_copy_out(e->c, u, theta, m->n) == PN_OK
                   ? 0
                   : bridge_fail(error, where, "%s", pn_context_message(e->c));
  pn_scope_close(e->c, scope);
  pn_context_clear_error(e->c);
  bridge_return((bs_model *)m, e);
  for (int64_t k = 0; !failed && k < m->n; k++) theta[k] = radius * (1 - 2 * theta[k]);
  return failed;
}

/* Tries starts until the density is positive at one. */
static int find_start(const bs_model *m, const bridge_object *o, bs_rng *rng, double radius, int max_tries,
                      bool jacobian, double *theta_unc, char **error, const char *where) {
  double lp;
  for (int k = 0; k < max_tries; k++) {
    if (draw_start(m, rng, radius, theta_unc, error, where)) return -1;
    if (o->count && merge(m, o, theta_unc, theta_unc, error, where)) return -1;
    if (bs_log_density(m, true, jacobian, theta_unc, &lp, error)) return -1;
    if (isfinite(lp)) return 0;
  }
  return bridge_fail(error, where, "the density was 0 at each of %d starts", max_tries);
}

int bs_param_initialize(const bs_model *m, const char *json, bs_rng *rng, double init_radius, int max_tries,
                        bool jacobian, double *theta_unc, char **error_msg) {
  static const char where[] = "param_initialize";
  bridge_object o = {0};
  if (bridge_check(error_msg, where, "m rng theta_unc", 3, (const void *[]){m, rng, theta_unc})) return -1;
  if (!(init_radius >= 0) || isinf(init_radius))
    return bridge_fail(error_msg, where, "init_radius must be finite and not negative, got %g", init_radius);
  if (max_tries < 1) return bridge_fail(error_msg, where, "max_tries must be at least 1, got %d", max_tries);
  int failed = bridge_read_json(json, &o, error_msg, where) ||
               find_start(m, &o, rng, init_radius, max_tries, jacobian, theta_unc, error_msg, where);
  bridge_free_object(&o);
  return failed ? -1 : 0;
}
