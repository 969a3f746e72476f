/*
** penumbra_bridge.h: models written in Lua behind BridgeStan's C interface, version 2.9, so that whoever drives that
** (nutpie, the bridgestan packages of Python, Julia, R and Rust) drives them. MIT licence, as penumbra.h.
**
** A model is a Lua script. It finds its data in the global `data` and leaves its target in the global `target`:
**
**     local pn = require "penumbra"
**     local model = pn.model(function(m, y, sigma)
**       local mu, tau = m:sample("mu", pn.dist.normal(0, 5)), m:sample("tau", pn.dist.half_cauchy(5))
**       local eta = m:sample("eta", pn.dist.normal(pn.zeros{8}, 1):independent(1))
**       m:observe("y", pn.dist.normal(mu + tau * eta, sigma):independent(1), y)
**     end)
**     target = model:target(data.y, data.sigma)
**
** Which script: the text "script" in the data, a path; without it the file beside the library that is called as the
** library is, NAME.lua beside NAME.so. So `cp libpenumbra_bridge.so NAME.so` beside a script makes what others get from
** a compiler (a copy, not a link: a process loads one file once). The script has Penumbra, stock Lua's harmless
** libraries and, for reading, the files below its own folder. It runs when a model is constructed, within 4096 MiB and
** 600 seconds (the environment variables PENUMBRA_BRIDGE_MEMORY and PENUMBRA_BRIDGE_SECONDS give others); an error in
** it is an error of the call.
**
** Data are a JSON object: numbers become numbers, arrays (nested ones as rows of equal length) float64 tensors; true
** and false are 1 and 0, null is NaN, and so are NaN, Infinity and -Infinity themselves, bare or as texts. Other texts
** and objects within the object are errors. "script" aside, what is there is data.NAME.
**
** Names are the variables' names with each character that is no letter or digit as an underscore ("x[3]" of a scan is
** x_3_). Elements stand in the order that the interface asks for, the first index fastest. m:deterministic gives
** transformed parameters, or generated quantities where the model has discrete variables that are summed out: they are
** drawn by the rng at each call, given theta and the data.
**
** propto: a density may leave out constants; none is left out, both values give the same.
** jacobian: with or without the log determinants of the bijectors behind theta_unc, gradients too.
** Where the density is 0 it is -inf, its gradient 0, and the call succeeds.
** Hessians: differences of the gradient at theta +- h and +- 2 h, h = 7.4e-4 max(1, |theta_i|), with an error of order
** h^4; a failure where the density is 0 within that distance.
**
** Threads: one model may be used by any number of threads at once. Densities and values are computed on a copy of the
** target for each thread that is there at the same time; what runs the script (unconstraining, starts from JSON, the
** first density without jacobian) takes its turn. A bs_rng belongs to one thread at a time. Models share nothing but
** the print callback, which is called by one thread at a time and must not call back into a model.
**
** Results: 0, or -1 with a message in *error_msg, if error_msg is not NULL, that bs_free_error_msg frees. A needed
** argument that is NULL is such an error. What has no error_msg answers a NULL model with "" or -1.
*/
#ifndef PENUMBRA_BRIDGE_H
#define PENUMBRA_BRIDGE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BS_API __attribute__((visibility("default")))

typedef struct bs_model bs_model;
typedef struct bs_rng bs_rng;
typedef void (*STREAM_CALLBACK)(const char *data, size_t size);

/* The version of the interface. */
BS_API extern const int bs_major_version, bs_minor_version, bs_patch_version;

/* A model. data: JSON, or a path that ends in ".json", or NULL or "" for none. seed: of the script's random numbers.
 * NULL is a failure. */
BS_API bs_model *bs_model_construct(const char *data, unsigned int seed, char **error_msg);
/* Frees a model, which no call uses any more. NULL is a no-op. */
BS_API void bs_model_destruct(bs_model *m);
/* Frees a message. NULL is a no-op. */
BS_API void bs_free_error_msg(char *error_msg);
/* The script's name without folder and ".lua". Until the model is freed, as all texts below. */
BS_API const char *bs_name(const bs_model *m);
/* What this is: versions, the script, how threads and Hessians are served. */
BS_API const char *bs_model_info(const bs_model *m);
/* Names of the numbers that bs_param_constrain gives, "a,b.1,b.2": parameters; transformed ones; generated ones. */
BS_API const char *bs_param_names(const bs_model *m, bool include_tp, bool include_gq);
/* Names of the real numbers theta_unc. */
BS_API const char *bs_param_unc_names(const bs_model *m);
/* How many numbers bs_param_constrain gives. */
BS_API int bs_param_num(const bs_model *m, bool include_tp, bool include_gq);
/* How many real numbers theta_unc has. */
BS_API int bs_param_unc_num(const bs_model *m);
/* The variables' values at theta_unc. rng: needed with include_gq. */
BS_API int bs_param_constrain(const bs_model *m, bool include_tp, bool include_gq, const double *theta_unc,
                              double *theta, bs_rng *rng, char **error_msg);
/* The real numbers behind the parameters' values; an error outside of their supports. */
BS_API int bs_param_unconstrain(const bs_model *m, const double *theta, double *theta_unc, char **error_msg);
/* The same for values by name, in JSON as data are; all parameters must be there, other names are ignored. */
BS_API int bs_param_unconstrain_json(const bs_model *m, const char *json, double *theta_unc, char **error_msg);
/* A start of positive density: what json (may be NULL or "") does not give is drawn uniformly from
 * [-init_radius, init_radius), at most max_tries times. jacobian: of the density that must be finite. */
BS_API int bs_param_initialize(const bs_model *m, const char *json, bs_rng *rng, double init_radius, int max_tries,
                               bool jacobian, double *theta_unc, char **error_msg);
/* The log density at theta_unc. */
BS_API int bs_log_density(const bs_model *m, bool propto, bool jacobian, const double *theta_unc, double *lp,
                          char **error_msg);
/* And its gradient. */
BS_API int bs_log_density_gradient(const bs_model *m, bool propto, bool jacobian, const double *theta_unc, double *val,
                                   double *grad, char **error_msg);
/* And its Hessian, n x n. */
BS_API int bs_log_density_hessian(const bs_model *m, bool propto, bool jacobian, const double *theta_unc, double *val,
                                  double *grad, double *hessian, char **error_msg);
/* The log density, and its Hessian times `vector`. */
BS_API int bs_log_density_hessian_vector_product(const bs_model *m, bool propto, bool jacobian, const double *theta_unc,
                                                 const double *vector, double *val, double *hvp, char **error_msg);
/* Random numbers of one thread, for bs_param_constrain and bs_param_initialize. NULL is a failure. */
BS_API bs_rng *bs_rng_construct(unsigned int seed, char **error_msg);
/* Frees them. NULL is a no-op. */
BS_API void bs_rng_destruct(bs_rng *rng);
/* Where the prints of scripts go, for all models of the library; NULL: to stdout. */
BS_API int bs_set_print_callback(STREAM_CALLBACK callback, char **error_msg);

#ifdef __cplusplus
}
#endif

#endif
