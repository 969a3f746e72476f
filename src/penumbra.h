/*
** penumbra.h: the public C interface of libpenumbra and its reference.
** See the licence at the end of this file.
**
** Conventions
**   pn_context *  comes first everywhere. One thread in a context at a time; any number of
**                 contexts in a process. Objects keep their context alive.
**   Builders      return a pn_tensor (a graph node) or NULL; NULL in gives NULL out, and the first
**                 cause stays in the context until pn_context_clear_error.
**   Actions       return a pn_status; outputs are written only on PN_OK.
**   Ownership     new      = the caller holds one reference and must _unref it;
**                 scoped   = belongs to the open scope, _ref it to keep it;
**                 borrowed = valid as long as its owner. Arguments are always borrowed.
**                 Every builder result is scoped unless its comment says otherwise.
**   NULL          stands for what a comment says by "x NULL: ..." or "x may be NULL", and everywhere for the
**                 context's generator (rng), the defaults (config, options) and a list of no items. What else a
**                 call needs must be there: else a builder gives NULL and an action PN_STATE (a runtime PN_DOMAIN) with
**                 a message that names it, or the failure that was pending. What has no failure to give answers NULL
**                 with 0 or NULL, or does nothing. Only c must never be NULL.
**   Axes          0-based, negative from the end. (Lua: 1-based.)
**
** Example: a slope and its uncertainty, by gradient steps on a bound
**
**   #include <penumbra.h>
**   #include <stdio.h>
**
**   int main(void) {
**     pn_context *c = pn_context_new(NULL);
**     size_t scope = pn_scope_open(c);
**     const char *names[] = {"loc", "scale"};
**     pn_tensor *x = pn_linspace(c, PN_FLOAT64, -1, 1, 50);
**     pn_tensor *noise = pn_randn(c, NULL, PN_FLOAT64, 1, (int64_t[]){50});
**     pn_tensor *y = pn_add(c, pn_mul(c, x, pn_scalar(c, PN_FLOAT64, 2)), noise);
**     pn_tensor *loc = pn_param(c, pn_scalar(c, PN_FLOAT64, 0));
**     pn_tensor *log_scale = pn_param(c, pn_scalar(c, PN_FLOAT64, 0));
**     pn_option rate[] = {{.name = "lr", .number = 0.05}, {0}};
**     pn_optim *adam = pn_optim_new(c, "adam", 2, (pn_tensor *[]){loc, log_scale}, NULL, rate);
**     pn_dist *prior = pn_dist_new(c, "normal", 0, NULL, NULL);
**     for (int step = 0; step < 500; step++) {
**       size_t inner = pn_scope_open(c);
**       pn_dist *q = pn_dist_new(c, "normal", 2, names, (pn_tensor *[]){loc, pn_exp(c, log_scale)});
**       pn_tensor *slope = pn_dist_rsample(c, q, NULL, 0, NULL), *mean = pn_mul(c, x, slope);
**       pn_dist *data = pn_dist_new(c, "normal", 1, names, &mean);
**       pn_tensor *fit = pn_sum(c, pn_dist_log_prob(c, data, y), PN_ALL, 0);
**       pn_optim_step(c, adam, pn_sub(c, pn_dist_kl(c, q, prior), fit)); // the negative ELBO
**       pn_dist_unref(q), pn_dist_unref(data);
**       pn_scope_close(c, inner);
**     }
**     double m = 0, s = 0;
**     pn_tensor_item(c, loc, &m);
**     if (pn_tensor_item(c, pn_exp(c, log_scale), &s) == PN_OK) printf("slope %.2f +- %.2f\n", m, s);
**     else printf("%s\n", pn_context_message(c));
**     pn_dist_unref(prior), pn_optim_unref(adam);
**     pn_scope_close(c, scope);
**     pn_context_close(c);
**   }
**
** Index
**   status                                    pn_status_name, pn_version
**   context                                   pn_context_new, _close, _status, _message, _cancel, _set_deadline
**   scopes                                    pn_scope_open, pn_scope_close
**   random numbers                            pn_seed, pn_rng_new, pn_rng_split, pn_rand, pn_randn
**   tensors                                   pn_zeros, pn_from_data, pn_linspace, pn_tensor_item, _copy_out
**   parameters and gradients                  pn_param, pn_param_set, pn_grad, pn_backward
**   elementwise ops                           pn_add, pn_exp, pn_where, pn_lgamma, pn_clamp ...
**   reductions                                pn_sum, pn_mean, pn_logsumexp, pn_softmax, pn_cumsum, pn_fft ...
**   shape                                     pn_reshape, pn_permute, pn_slice, pn_concatenate, pn_pad ...
**   indexing                                  pn_gather, pn_take, pn_scatter_add, pn_argsort ...
**   products                                  pn_matmul, pn_einsum, pn_linear
**   linear algebra                            pn_cholesky, pn_solve, pn_logdet, pn_qr, pn_eigh, pn_svd, pn_tria ...
**   Kalman filter steps                       pn_kalman_predict, pn_kalman_update, pn_kalman_step ...
**   Kalman filter sequences                   pn_kalman_filter, pn_kalman_log_prob ...
**   hidden Markov models                      pn_hmm_filter, pn_hmm_viterbi, pn_hmm_sample
**   files                                     pn_archive_new, pn_load_npy, pn_load_csv ...
**   columns by Arrow's C data interface       pn_arrow_export, pn_arrow_import
**   images                                    pn_conv2d, pn_max_pool2d ...
**   bijectors                                 pn_bijector_new, pn_bijector_forward, pn_bijector_inverse_log_det ...
**   distributions                             pn_dist_new, pn_dist_log_prob, pn_dist_rsample, pn_dist_kl ...
**   distributions made of distributions       pn_dist_transformed, pn_dist_mixture, pn_dist_masked ...
**   Gaussian factors                          pn_natural_new, pn_natural_of ...
**   beliefs of several sources                pn_beliefs_fuse
**   layers and optimisers                     pn_layer_new, pn_layer_forward, pn_optim_new, pn_optim_step ...
**   estimators                                pn_estimate, pn_sir
**   Gaussian sites of data                    pn_gaussian_sites
**   exact transport of mass                   pn_transport, pn_image_transport
**   capture and replay                        pn_capture_begin, pn_capture_end ...
**   vmap                                      pn_vmap_begin, pn_vmap_end
**   differential equations                    pn_odeint
**   sampling                                  pn_sampler_new, pn_sampler_run ...
**   targets                                   pn_target_new, pn_target_of_function ...
**   populations                               pn_population_new, pn_population_evaluate
**   sequential Monte Carlo                    pn_resample, pn_smc_new ...
**   filters online                            pn_filter_new, pn_filter_kalman ...
**   the runtime inside a host program         pn_runtime_new, pn_runtime_run_string, pn_runtime_call ...
*/
#ifndef PENUMBRA_H
#define PENUMBRA_H

/* (Before any system header: those of another processor may not be there.) */
#if defined(__SIZEOF_POINTER__) && __SIZEOF_POINTER__ < 8 && !defined(__wasm__)
#error "Penumbra is for 64-bit processors: nothing of it has been run on one of 32 bits (WebAssembly apart)"
#elif defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Penumbra is for little-endian processors: vector kernels and files have never been run on another byte order"
#endif

#include <stddef.h>
#include <stdint.h>

#define PN_VERSION        "0.1.0"
#define PN_VERSION_NUMBER 100
#define PN_MAX_DIMS       8

#if defined(__GNUC__)
#define PN_API __attribute__((visibility("default")))
#else
#define PN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pn_context pn_context;
typedef struct pn_tensor pn_tensor;
typedef struct pn_rng pn_rng;

/* ---- status ------------------------------------------------------------------------------- */

typedef enum pn_status {
  PN_OK,         /* success */
  PN_NOMEM,      /* allocation failed or the byte limit was reached */
  PN_SHAPE,      /* shapes do not fit together */
  PN_DTYPE,      /* element types do not fit together */
  PN_DOMAIN,     /* an argument lies outside what the function accepts */
  PN_NAN,        /* a value that must be finite is not */
  PN_SINGULAR,   /* a factorisation does not exist */
  PN_DEGENERATE, /* all weights vanished */
  PN_MISSING,    /* the function does not exist for this row */
  PN_STALE,      /* a parameter changed under a live graph */
  PN_STATE,      /* the call does not fit the object's state */
  PN_IO,         /* the operating system refused */
  PN_FORMAT,     /* a file is damaged or of another kind */
  PN_CANCELLED,  /* pn_context_cancel was called */
  PN_LIMIT,      /* an instruction or output limit was reached */
  PN_SCRIPT,     /* a Lua script raised an error */
  PN_TIME        /* a time limit passed */
} pn_status;

/* The one-word name of a status, "?" for an unknown number. Borrowed, static. */
PN_API const char *pn_status_name(pn_status status);

/* The library's version as "major.minor.patch". Borrowed, static. */
PN_API const char *pn_version(void);

/* ---- context ------------------------------------------------------------------------------ */

/* realloc in one function: new_size 0 frees and returns NULL; NULL otherwise means failure.
 * Must return memory aligned as malloc does. Called only from the context's own thread. */
typedef void *(*pn_allocator)(void *data, void *block, size_t old_size, size_t new_size);

typedef struct pn_context_config {
  pn_allocator allocate; /* NULL: realloc and free */
  void *allocator_data;  /* first argument of allocate */
  size_t memory_limit;   /* bytes held at once, 0: none */
  size_t pool_limit;     /* bytes kept for reuse, 0: 256 MiB; PN_NO_POOL: keep none */
  uint64_t seed;         /* of the default generator */
  int threads;           /* 0: one per processor */
} pn_context_config;

#define PN_NO_POOL ((size_t)-1)

/* A context, or NULL if memory is lacking. config may be NULL (all defaults). New.
 * An OpenBLAS in the process is set to one thread: contexts have threads of their own, and two pools would fight. It
 * chooses its kernels when it is loaded; where it misjudges a new processor products take kernels of the library's own
 * (the environment variable PENUMBRA_PRODUCTS, own or blas, read when the library is loaded, decides otherwise), and
 * pn_context_advice says what to do about the rest. The `penumbra` command does that itself.
 * Kernels use the best vectors of the processor; the environment variable PENUMBRA_CPU (portable, avx2 or avx512), read
 * when the library is loaded, limits them. A context made while it says anything else has an error pending. */
PN_API pn_context *pn_context_new(const pn_context_config *config);
/* What makes this process slow for no good reason and how to mend it, one sentence; "" if there is nothing: that
 * OpenBLAS runs kernels of older processors, and the OPENBLAS_CORETYPE to start the program with. A constant of the
 * process. c may be NULL. Borrowed. */
PN_API const char *pn_context_advice(const pn_context *c);
/* Gives the context up. Its memory goes when the last object made in it does. NULL is a no-op. */
PN_API void pn_context_close(pn_context *c);
/* The pending error's status, PN_OK if none. */
PN_API pn_status pn_context_status(const pn_context *c);
/* The pending error's message, "" if none. Borrowed until the next call with c. */
PN_API const char *pn_context_message(const pn_context *c);
/* Forgets the pending error, so that builders work again. */
PN_API void pn_context_clear_error(pn_context *c);
/* Asks the running call to stop with PN_CANCELLED. May be called from any thread or a signal handler. */
PN_API void pn_context_cancel(pn_context *c);
/* Withdraws a cancellation. */
PN_API void pn_context_uncancel(pn_context *c);
/* What still runs `seconds` from now (wall clock) stops with PN_TIME; 0 or less removes the limit. */
PN_API void pn_context_set_deadline(pn_context *c, double seconds);
/* Bytes in use by live objects; `peak` (may be NULL) receives the largest value so far. */
PN_API size_t pn_context_memory(const pn_context *c, size_t *peak);
/* Replaces the byte limit (0: none). */
PN_API void pn_context_set_memory_limit(pn_context *c, size_t bytes);
/* Number of live objects (tensors, distributions, layers...). 0 after everything was released. */
PN_API int64_t pn_context_objects(const pn_context *c);
/* Returns the memory kept for reuse to the allocator. */
PN_API void pn_context_trim(pn_context *c);
/* Threads used for big work; n >= 1 sets it, 0 only asks. Results do not depend on it. */
PN_API int pn_context_threads(pn_context *c, int n);

/* ---- scopes ------------------------------------------------------------------------------- */

/* Opens a scope and returns its mark. Scopes nest. */
PN_API size_t pn_scope_open(pn_context *c);
/* Closes every scope opened since `mark`, releasing what builders left there. */
PN_API void pn_scope_close(pn_context *c, size_t mark);

/* ---- random numbers ------------------------------------------------------------------------ */

/* Seeds the context's default generator. */
PN_API void pn_seed(pn_context *c, uint64_t seed);
/* A generator of its own: Philox4x32-10, draws depend on seed and position alone. New. */
PN_API pn_rng *pn_rng_new(pn_context *c, uint64_t seed);
/* Releases a generator. NULL is a no-op. */
PN_API void pn_rng_free(pn_rng *rng);
/* The context's default generator. Borrowed. */
PN_API pn_rng *pn_context_rng(pn_context *c);
/* An independent stream number `index` of rng, which is left as it was. New. */
PN_API pn_rng *pn_rng_split(pn_context *c, const pn_rng *rng, uint64_t index);
/* Key and position, enough to go on later exactly here. */
PN_API void pn_rng_get_state(const pn_rng *rng, uint64_t state[2]);
/* Restores what pn_rng_get_state gave. */
PN_API void pn_rng_set_state(pn_rng *rng, const uint64_t state[2]);

/* ---- tensors ------------------------------------------------------------------------------- */

typedef enum pn_dtype { PN_FLOAT64, PN_FLOAT32, PN_INT64, PN_BOOL } pn_dtype;

/* "float64", "float32", "int64" or "bool". Borrowed, static. */
PN_API const char *pn_dtype_name(pn_dtype dtype);
/* Bytes per element: 8, 4, 8, 1. */
PN_API size_t pn_dtype_size(pn_dtype dtype);

/* A tensor of the given shape with zeros. Scoped; PN_SHAPE, PN_NOMEM. */
PN_API pn_tensor *pn_zeros(pn_context *c, pn_dtype dtype, int ndim, const int64_t *shape);
/* Every element `value`. Scoped; PN_SHAPE, PN_NOMEM. */
PN_API pn_tensor *pn_full(pn_context *c, pn_dtype dtype, int ndim, const int64_t *shape, double value);
/* A copy of `data`, row-major, of the element type `dtype` names. Scoped; PN_SHAPE, PN_NOMEM. */
PN_API pn_tensor *pn_from_data(pn_context *c, pn_dtype dtype, int ndim, const int64_t *shape, const void *data);
/* A 0-d tensor. Scoped; PN_NOMEM. */
PN_API pn_tensor *pn_scalar(pn_context *c, pn_dtype dtype, double value);
/* start, start + step, ... below stop (above, for a negative step). Scoped; PN_DOMAIN, PN_NOMEM. */
PN_API pn_tensor *pn_arange(pn_context *c, pn_dtype dtype, double start, double stop, double step);
/* n values from start to stop inclusive. Scoped; PN_DOMAIN, PN_NOMEM. */
PN_API pn_tensor *pn_linspace(pn_context *c, pn_dtype dtype, double start, double stop, int64_t n);
/* The n x m matrix with ones on the diagonal. Scoped; PN_SHAPE, PN_NOMEM. */
PN_API pn_tensor *pn_eye(pn_context *c, pn_dtype dtype, int64_t n, int64_t m);
/* Uniform on (0, 1]. rng NULL: the context's. Scoped; PN_DTYPE, PN_NOMEM. */
PN_API pn_tensor *pn_rand(pn_context *c, pn_rng *rng, pn_dtype dtype, int ndim, const int64_t *shape);
/* Standard normal. rng NULL: the context's. Scoped; PN_DTYPE, PN_NOMEM. */
PN_API pn_tensor *pn_randn(pn_context *c, pn_rng *rng, pn_dtype dtype, int ndim, const int64_t *shape);
/* Integers, uniform on low .. high - 1. Scoped; PN_DOMAIN, PN_NOMEM. */
PN_API pn_tensor *pn_randint(pn_context *c, pn_rng *rng, int64_t low, int64_t high, int ndim, const int64_t *shape);
/* A random order of 0 .. n - 1. Scoped; PN_DOMAIN, PN_NOMEM. */
PN_API pn_tensor *pn_randperm(pn_context *c, pn_rng *rng, int64_t n);

/* One more reference; returns t. */
PN_API pn_tensor *pn_tensor_ref(pn_tensor *t);
/* One reference less; the last frees t and what only t held, without recursion. NULL is a no-op. */
PN_API void pn_tensor_unref(pn_tensor *t);
/* Element type. */
PN_API pn_dtype pn_tensor_dtype(const pn_tensor *t);
/* Number of axes, 0 .. PN_MAX_DIMS. */
PN_API int pn_tensor_ndim(const pn_tensor *t);
/* Sizes of the axes. Borrowed, pn_tensor_ndim values. */
PN_API const int64_t *pn_tensor_shape(const pn_tensor *t);
/* Number of elements. */
PN_API int64_t pn_tensor_numel(const pn_tensor *t);
/* The elements in row-major order, read only; NULL if t is a strided view (see pn_contiguous). Borrowed. */
PN_API const void *pn_tensor_data(const pn_tensor *t);
/* The elements, row-major, copied out as double into n = numel slots. PN_SHAPE. */
PN_API pn_status pn_tensor_copy_out(pn_context *c, const pn_tensor *t, double *out, int64_t n);
/* The only element as a double. PN_SHAPE if there is more than one. */
PN_API pn_status pn_tensor_item(pn_context *c, const pn_tensor *t, double *out);

/* ---- parameters and gradients --------------------------------------------------------------- */

/* A parameter: a copy of t that gradients flow to and that optimisers may change. Scoped; PN_DTYPE. */
PN_API pn_tensor *pn_param(pn_context *c, pn_tensor *t);
/* 1 if gradients flow to t. */
PN_API int pn_tensor_requires_grad(const pn_tensor *t);
/* Makes data a leaf of the graphs that are computed from it from here on (on != 0), or data again: pn_grad then gives
 * gradients in it. In a capture, of its inputs and of what it computes. PN_DTYPE; PN_STATE for a parameter, for what
 * was computed from one, and for what a capture finds outside. */
PN_API pn_status pn_tensor_set_requires_grad(pn_context *c, pn_tensor *t, int on);
/* 1 if t was made by pn_param. */
PN_API int pn_tensor_is_param(const pn_tensor *t);
/* The gradient that pn_backward left in a parameter, or NULL. Borrowed. */
PN_API pn_tensor *pn_tensor_grad(const pn_tensor *t);
/* Forgets a parameter's gradient. */
PN_API void pn_tensor_clear_grad(pn_tensor *t);
/* A buffer: a copy of t that changes but is not trained, as running statistics are. Scoped; PN_DTYPE. */
PN_API pn_tensor *pn_buffer(pn_context *c, pn_tensor *t);
/* 1 if t was made by pn_buffer. */
PN_API int pn_tensor_is_buffer(const pn_tensor *t);
/* y, which from here on carries an update: buffer becomes (1 - rate) buffer + rate value, 0 <= rate <= 1, when a step
 * is taken on what y is part of. pn_optim_step commits what its loss carries, in the order in which it was computed,
 * after everything that can fail; nothing else changes the buffer. Nothing is carried where no graph is recorded.
 * Scoped; PN_STATE (no buffer), PN_SHAPE, PN_DOMAIN. */
PN_API pn_tensor *pn_with_update(pn_context *c, pn_tensor *y, pn_tensor *buffer, pn_tensor *value, double rate);
/* Commits what y carries, for those who take their steps themselves. PN_NAN unless all values are finite; then nothing
 * was changed. */
PN_API pn_status pn_update_buffers(pn_context *c, pn_tensor *y);
/* Overwrites a parameter or buffer with the values of t (same shape and dtype). Graphs that used the old values
 * become stale. PN_SHAPE, PN_DTYPE, PN_STATE. */
PN_API pn_status pn_param_set(pn_context *c, pn_tensor *param, pn_tensor *t);
/* Adds d y / d p to the gradient of every parameter (or other leaf) p below the one-element y.
 * PN_SHAPE, PN_STATE (y does not depend on a parameter), PN_STALE, PN_NOMEM; gradients are left as they were. */
PN_API pn_status pn_backward(pn_context *c, pn_tensor *y);
/* out[k] = d y / d x[k], zeros where y does not depend on x[k]. With create_graph the results can be
 * differentiated again. Each out[k] is scoped. PN_SHAPE, PN_STATE, PN_STALE, PN_NOMEM. */
PN_API pn_status pn_grad(pn_context *c, pn_tensor *y, int n, pn_tensor *const *x, int create_graph, pn_tensor **out);
/* Stops (off = 1) or resumes recording; returns the previous setting. */
PN_API int pn_set_no_grad(pn_context *c, int off);
/* The same values, cut from the graph. Scoped. */
PN_API pn_tensor *pn_detach(pn_context *c, pn_tensor *x);

/* ---- elementwise ops: shapes broadcast, floats only unless said otherwise -------------------- */

PN_API pn_tensor *pn_neg(pn_context *c, pn_tensor *x);         /* -x; also int64 */
PN_API pn_tensor *pn_abs(pn_context *c, pn_tensor *x);         /* |x|; also int64 */
PN_API pn_tensor *pn_sign(pn_context *c, pn_tensor *x);        /* -1, 0 or 1; also int64 */
PN_API pn_tensor *pn_square(pn_context *c, pn_tensor *x);      /* x^2; also int64 */
PN_API pn_tensor *pn_sqrt(pn_context *c, pn_tensor *x);        /* x^(1/2) */
PN_API pn_tensor *pn_rsqrt(pn_context *c, pn_tensor *x);       /* x^(-1/2) */
PN_API pn_tensor *pn_reciprocal(pn_context *c, pn_tensor *x);  /* 1 / x */
PN_API pn_tensor *pn_exp(pn_context *c, pn_tensor *x);         /* e^x */
PN_API pn_tensor *pn_expm1(pn_context *c, pn_tensor *x);       /* e^x - 1 */
PN_API pn_tensor *pn_log(pn_context *c, pn_tensor *x);         /* natural logarithm */
PN_API pn_tensor *pn_log1p(pn_context *c, pn_tensor *x);       /* log(1 + x) */
PN_API pn_tensor *pn_log1mexp(pn_context *c, pn_tensor *x);    /* log(1 - e^x), x < 0 */
PN_API pn_tensor *pn_sin(pn_context *c, pn_tensor *x);         /* sine */
PN_API pn_tensor *pn_cos(pn_context *c, pn_tensor *x);         /* cosine */
PN_API pn_tensor *pn_tan(pn_context *c, pn_tensor *x);         /* tangent */
PN_API pn_tensor *pn_asin(pn_context *c, pn_tensor *x);        /* inverse sine */
PN_API pn_tensor *pn_acos(pn_context *c, pn_tensor *x);        /* inverse cosine */
PN_API pn_tensor *pn_atan(pn_context *c, pn_tensor *x);        /* inverse tangent */
PN_API pn_tensor *pn_sinh(pn_context *c, pn_tensor *x);        /* hyperbolic sine */
PN_API pn_tensor *pn_cosh(pn_context *c, pn_tensor *x);        /* hyperbolic cosine */
PN_API pn_tensor *pn_tanh(pn_context *c, pn_tensor *x);        /* hyperbolic tangent */
PN_API pn_tensor *pn_asinh(pn_context *c, pn_tensor *x);       /* inverse hyperbolic sine */
PN_API pn_tensor *pn_acosh(pn_context *c, pn_tensor *x);       /* inverse hyperbolic cosine, x >= 1 */
PN_API pn_tensor *pn_atanh(pn_context *c, pn_tensor *x);       /* inverse hyperbolic tangent, |x| <= 1 */
PN_API pn_tensor *pn_sigmoid(pn_context *c, pn_tensor *x);     /* 1 / (1 + e^-x) */
PN_API pn_tensor *pn_log_sigmoid(pn_context *c, pn_tensor *x); /* log sigmoid(x) */
PN_API pn_tensor *pn_softplus(pn_context *c, pn_tensor *x);    /* log(1 + e^x) */
PN_API pn_tensor *pn_relu(pn_context *c, pn_tensor *x);        /* max(x, 0) */
PN_API pn_tensor *pn_erf(pn_context *c, pn_tensor *x);         /* error function */
PN_API pn_tensor *pn_erfc(pn_context *c, pn_tensor *x);        /* 1 - erf(x) */
PN_API pn_tensor *pn_erfcx(pn_context *c, pn_tensor *x);       /* e^(x^2) erfc(x) */
PN_API pn_tensor *pn_erfinv(pn_context *c, pn_tensor *x);      /* inverse of erf, |x| < 1 */
PN_API pn_tensor *pn_ndtr(pn_context *c, pn_tensor *x);        /* cdf of the standard normal */
PN_API pn_tensor *pn_log_ndtr(pn_context *c, pn_tensor *x);    /* its logarithm, exact in the tail */
PN_API pn_tensor *pn_ndtri(pn_context *c, pn_tensor *x);       /* its inverse, 0 < x < 1 */
PN_API pn_tensor *pn_log_ndtri(pn_context *c, pn_tensor *x);   /* x with log_ndtr(x) equal to the argument, below 0 */
PN_API pn_tensor *pn_expintx(pn_context *c, pn_tensor *x);     /* e^x E_1(x), E_1 the exponential integral, x > 0 */
PN_API pn_tensor *pn_lgamma(pn_context *c, pn_tensor *x);      /* log |Gamma(x)| */
PN_API pn_tensor *pn_digamma(pn_context *c, pn_tensor *x);     /* d lgamma / dx */
/* The n-th derivative of digamma; n = 1 is trigamma. */
PN_API pn_tensor *pn_polygamma(pn_context *c, int n, pn_tensor *x);
/* e^-|x| I_n(x), the scaled modified Bessel function of order n >= 0. PN_DOMAIN. */
PN_API pn_tensor *pn_ive(pn_context *c, int n, pn_tensor *x);
PN_API pn_tensor *pn_log_i0(pn_context *c, pn_tensor *x);     /* log I_0(x) */
PN_API pn_tensor *pn_log_i0e(pn_context *c, pn_tensor *x);    /* log(e^-x I_0(x)), x >= 0 */
PN_API pn_tensor *pn_bessel_gap(pn_context *c, pn_tensor *x); /* 1 - I_1(x) / I_0(x), x >= 0 */
PN_API pn_tensor *pn_floor(pn_context *c, pn_tensor *x);      /* round down */
PN_API pn_tensor *pn_ceil(pn_context *c, pn_tensor *x);       /* round up */
PN_API pn_tensor *pn_round(pn_context *c, pn_tensor *x);      /* nearest integer, halves to even */

PN_API pn_tensor *pn_add(pn_context *c, pn_tensor *x, pn_tensor *y);       /* x + y; also int64 */
PN_API pn_tensor *pn_sub(pn_context *c, pn_tensor *x, pn_tensor *y);       /* x - y; also int64 */
PN_API pn_tensor *pn_mul(pn_context *c, pn_tensor *x, pn_tensor *y);       /* x y; also int64 */
PN_API pn_tensor *pn_div(pn_context *c, pn_tensor *x, pn_tensor *y);       /* x / y */
PN_API pn_tensor *pn_pow(pn_context *c, pn_tensor *x, pn_tensor *y);       /* x^y */
PN_API pn_tensor *pn_maximum(pn_context *c, pn_tensor *x, pn_tensor *y);   /* larger of the two; also int64 */
PN_API pn_tensor *pn_minimum(pn_context *c, pn_tensor *x, pn_tensor *y);   /* smaller of the two; also int64 */
PN_API pn_tensor *pn_atan2(pn_context *c, pn_tensor *y, pn_tensor *x);     /* angle of (x, y) */
PN_API pn_tensor *pn_logaddexp(pn_context *c, pn_tensor *x, pn_tensor *y); /* log(e^x + e^y) */
PN_API pn_tensor *pn_xlogy(pn_context *c, pn_tensor *x, pn_tensor *y);     /* x log y, 0 at x = 0 */
PN_API pn_tensor *pn_remainder(pn_context *c, pn_tensor *x,
                               pn_tensor *y); /* what whole multiples of y leave of x, the sign of y; also int64 */
/* floor(x / y), as Lua's //; int64 by 0 is 0; gradient zero. */
PN_API pn_tensor *pn_floor_divide(pn_context *c, pn_tensor *x, pn_tensor *y);
/* P(a, x), the regularised lower incomplete gamma function; differentiable in both. */
PN_API pn_tensor *pn_gammainc(pn_context *c, pn_tensor *a, pn_tensor *x);
/* d P(a, x) / d a. Not differentiable in a. */
PN_API pn_tensor *pn_gammainc_grad_a(pn_context *c, pn_tensor *a, pn_tensor *x);
/* x with P(a, x) = p; differentiable once in both. */
PN_API pn_tensor *pn_gammaincinv(pn_context *c, pn_tensor *a, pn_tensor *p);
/* Q(a, x) = 1 - P(a, x), the regularised upper incomplete gamma function; differentiable once in both. */
PN_API pn_tensor *pn_gammaincc(pn_context *c, pn_tensor *a, pn_tensor *x);
/* x with Q(a, x) = q; differentiable once in both. */
PN_API pn_tensor *pn_gammainccinv(pn_context *c, pn_tensor *a, pn_tensor *q);
/* I_x(a, b), the regularised incomplete beta function; differentiable once in all three. */
PN_API pn_tensor *pn_betainc(pn_context *c, pn_tensor *a, pn_tensor *b, pn_tensor *x);
/* 1 - I_x(a, b); differentiable once in all three. */
PN_API pn_tensor *pn_betaincc(pn_context *c, pn_tensor *a, pn_tensor *b, pn_tensor *x);
/* x with I_x(a, b) = p; differentiable once in all three. */
PN_API pn_tensor *pn_betaincinv(pn_context *c, pn_tensor *a, pn_tensor *b, pn_tensor *p);
/* q log(q / p) + (1 - q) log((1 - q) / (1 - p)), the divergence of two events. */
PN_API pn_tensor *pn_bernoulli_kl(pn_context *c, pn_tensor *q, pn_tensor *p);
/* What pn_bernoulli_kl <= bound allows, never inside the exact value: which = 0, 1 the largest, smallest p of q = x; 2,
 * 3 the largest, smallest q of p = x. PN_DOMAIN. */
PN_API pn_tensor *pn_bernoulli_kl_inverse(pn_context *c, pn_tensor *x, pn_tensor *bound, int which);
/* The logarithm of one Gamma(a, 1) draw per element of a, differentiable once in a (implicitly, at a fixed
 * quantile). rng NULL: the context's. */
PN_API pn_tensor *pn_log_gamma_draw(pn_context *c, pn_rng *rng, pn_tensor *a);

/* Probability of angles from -pi to z under a von Mises distribution around 0; differentiable once in both. */
PN_API pn_tensor *pn_von_mises_cdf(pn_context *c, pn_tensor *concentration, pn_tensor *z);
/* Angle with pn_von_mises_cdf equal to p; differentiable once in both. */
PN_API pn_tensor *pn_von_mises_icdf(pn_context *c, pn_tensor *concentration, pn_tensor *p);
/* One von Mises draw around 0 per element of concentration, differentiable once in it (implicitly). rng NULL: the
 * context's. */
PN_API pn_tensor *pn_von_mises_draw(pn_context *c, pn_rng *rng, pn_tensor *concentration);

/* Comparisons and logic: any dtype in, bool out, gradient zero. */
PN_API pn_tensor *pn_eq(pn_context *c, pn_tensor *x, pn_tensor *y);          /* x == y */
PN_API pn_tensor *pn_ne(pn_context *c, pn_tensor *x, pn_tensor *y);          /* x != y */
PN_API pn_tensor *pn_lt(pn_context *c, pn_tensor *x, pn_tensor *y);          /* x < y */
PN_API pn_tensor *pn_le(pn_context *c, pn_tensor *x, pn_tensor *y);          /* x <= y */
PN_API pn_tensor *pn_gt(pn_context *c, pn_tensor *x, pn_tensor *y);          /* x > y */
PN_API pn_tensor *pn_ge(pn_context *c, pn_tensor *x, pn_tensor *y);          /* x >= y */
PN_API pn_tensor *pn_logical_and(pn_context *c, pn_tensor *x, pn_tensor *y); /* both non-zero */
PN_API pn_tensor *pn_logical_or(pn_context *c, pn_tensor *x, pn_tensor *y);  /* one non-zero */
PN_API pn_tensor *pn_logical_not(pn_context *c, pn_tensor *x);               /* is zero */
PN_API pn_tensor *pn_isnan(pn_context *c, pn_tensor *x);                     /* is not a number */
PN_API pn_tensor *pn_isinf(pn_context *c, pn_tensor *x);                     /* is infinite */
PN_API pn_tensor *pn_isfinite(pn_context *c, pn_tensor *x);                  /* neither of the two */
/* x where the bool tensor `condition` is true, else y. Any dtype of x and y. */
PN_API pn_tensor *pn_where(pn_context *c, pn_tensor *condition, pn_tensor *x, pn_tensor *y);
/* x limited to [low, high]; gradient one inside. */
PN_API pn_tensor *pn_clamp(pn_context *c, pn_tensor *x, double low, double high);
/* Converts the element type; differentiable between floats. Truncates towards zero to int64. */
PN_API pn_tensor *pn_cast(pn_context *c, pn_tensor *x, pn_dtype dtype);

/* ---- reductions: PN_ALL reduces all ---------------------------------------- */

/* Bit mask of a list of axes, for the reductions. */
typedef struct pn_axes {
  int n; /* 0: all axes */
  int axis[PN_MAX_DIMS];
} pn_axes;
#define PN_ALL ((pn_axes){0, {0}})

PN_API pn_tensor *pn_sum(pn_context *c, pn_tensor *x, pn_axes axes, int keepdim);  /* sum; also int64; bool counts */
PN_API pn_tensor *pn_mean(pn_context *c, pn_tensor *x, pn_axes axes, int keepdim); /* mean; of whole numbers float64 */
PN_API pn_tensor *pn_prod(pn_context *c, pn_tensor *x, pn_axes axes, int keepdim); /* product */
PN_API pn_tensor *pn_max(pn_context *c, pn_tensor *x, pn_axes axes, int keepdim);  /* largest; also int64 */
PN_API pn_tensor *pn_min(pn_context *c, pn_tensor *x, pn_axes axes, int keepdim);  /* smallest; also int64 */
PN_API pn_tensor *pn_any(pn_context *c, pn_tensor *x, pn_axes axes, int keepdim);  /* one non-zero: bool */
PN_API pn_tensor *pn_all(pn_context *c, pn_tensor *x, pn_axes axes, int keepdim);  /* no zero: bool */
/* log sum exp; -inf (gradient 0) where everything is -inf. */
PN_API pn_tensor *pn_logsumexp(pn_context *c, pn_tensor *x, pn_axes axes, int keepdim);
/* Variance with divisor n - correction. */
PN_API pn_tensor *pn_var(pn_context *c, pn_tensor *x, pn_axes axes, double correction, int keepdim);
/* Square root of pn_var. */
PN_API pn_tensor *pn_std(pn_context *c, pn_tensor *x, pn_axes axes, double correction, int keepdim);
/* 0-based position of the first largest element along axis: int64. */
PN_API pn_tensor *pn_argmax(pn_context *c, pn_tensor *x, int axis, int keepdim);
/* 0-based position of the first smallest element along axis: int64. */
PN_API pn_tensor *pn_argmin(pn_context *c, pn_tensor *x, int axis, int keepdim);
PN_API pn_tensor *pn_cumsum(pn_context *c, pn_tensor *x, int axis); /* running sum; also int64 */
/* y_i = a_i y_(i-1) + x_i along axis, from y_1 = x_1; a broadcasts to x. Also int64. */
PN_API pn_tensor *pn_linear_recurrence(pn_context *c, pn_tensor *x, pn_tensor *a, int axis);
PN_API pn_tensor *pn_logcumsumexp(pn_context *c, pn_tensor *x, int axis); /* log of the running sum of e^x */
/* 0-based position of the largest element so far along axis, of equals the latest: int64. */
PN_API pn_tensor *pn_argcummax(pn_context *c, pn_tensor *x, int axis);
/* 0-based position of the smallest element so far along axis, of equals the latest: int64. */
PN_API pn_tensor *pn_argcummin(pn_context *c, pn_tensor *x, int axis);
/* Discrete Fourier transform along axis, of any length: X_k = sum_j x_j e^(-2 pi i j k / n). The last axis of x and of
 * the result has size 2, real and imaginary part, and is not `axis`. Scoped; PN_SHAPE. */
PN_API pn_tensor *pn_fft(pn_context *c, pn_tensor *x, int axis);
/* The inverse: x_j = 1/n sum_k X_k e^(2 pi i j k / n). */
PN_API pn_tensor *pn_ifft(pn_context *c, pn_tensor *x, int axis);
/* Of n real numbers along axis the first n/2 + 1 numbers of their transform, real and imaginary part along a new last
 * axis. */
PN_API pn_tensor *pn_rfft(pn_context *c, pn_tensor *x, int axis);
/* The inverse: n real numbers out of m = n/2 + 1 complex ones; n 0: 2 (m - 1). PN_SHAPE where n does not fit m. */
PN_API pn_tensor *pn_irfft(pn_context *c, pn_tensor *x, int axis, int64_t n);
PN_API pn_tensor *pn_softmax(pn_context *c, pn_tensor *x, int axis);     /* e^x / sum e^x */
PN_API pn_tensor *pn_log_softmax(pn_context *c, pn_tensor *x, int axis); /* x - logsumexp x */

/* ---- shape: any dtype; views where strides allow --------------------------------------------- */

/* The same elements in row-major order under another shape; one size may be -1. */
PN_API pn_tensor *pn_reshape(pn_context *c, pn_tensor *x, int ndim, const int64_t *shape);
/* Axis k of the result is axis order[k] of x. */
PN_API pn_tensor *pn_permute(pn_context *c, pn_tensor *x, int ndim, const int *order);
/* Swaps two axes. */
PN_API pn_tensor *pn_transpose(pn_context *c, pn_tensor *x, int axis1, int axis2);
/* x repeated to `shape` by NumPy's rule. */
PN_API pn_tensor *pn_broadcast_to(pn_context *c, pn_tensor *x, int ndim, const int64_t *shape);
/* Elements start, start + step, ... of one axis, `count` of them; step may be negative. */
PN_API pn_tensor *pn_slice(pn_context *c, pn_tensor *x, int axis, int64_t start, int64_t count, int64_t step);
/* The sub-tensor at one position of an axis, which disappears. */
PN_API pn_tensor *pn_select(pn_context *c, pn_tensor *x, int axis, int64_t index);
PN_API pn_tensor *pn_unsqueeze(pn_context *c, pn_tensor *x, int axis); /* a new axis of size 1 */
PN_API pn_tensor *pn_squeeze(pn_context *c, pn_tensor *x, int axis);   /* drops an axis of size 1 */
PN_API pn_tensor *pn_flip(pn_context *c, pn_tensor *x, int axis);      /* reversed along axis */
/* The same values row-major in memory. */
PN_API pn_tensor *pn_contiguous(pn_context *c, pn_tensor *x);
/* n >= 1 tensors joined along an existing axis. */
PN_API pn_tensor *pn_concatenate(pn_context *c, int n, pn_tensor *const *x, int axis);
/* n >= 1 tensors of one shape joined along a new axis. */
PN_API pn_tensor *pn_stack(pn_context *c, int n, pn_tensor *const *x, int axis);
/* `before` and `after` elements of `value` added at the ends of one axis. */
PN_API pn_tensor *pn_pad(pn_context *c, pn_tensor *x, int axis, int64_t before, int64_t after, double value);
PN_API pn_tensor *pn_tril(pn_context *c, pn_tensor *x, int64_t k); /* zero above diagonal k of the last two axes */
PN_API pn_tensor *pn_triu(pn_context *c, pn_tensor *x, int64_t k); /* zero below diagonal k */
/* Main diagonal of the last two axes: [..., n, m] -> [..., min(n, m)]. */
PN_API pn_tensor *pn_diagonal(pn_context *c, pn_tensor *x);
/* Diagonal k, above the main one for k > 0: [..., n, m] -> [..., d]. */
PN_API pn_tensor *pn_diagonal_at(pn_context *c, pn_tensor *x, int64_t k);
/* [..., n] -> [..., n, n] with x on the diagonal. */
PN_API pn_tensor *pn_diag_embed(pn_context *c, pn_tensor *x);
/* [..., n] -> [..., n + |k|, n + |k|] with x on diagonal k. */
PN_API pn_tensor *pn_diag_embed_at(pn_context *c, pn_tensor *x, int64_t k);

/* ---- indexing: index tensors are int64 (outside captures also whole floats), 0-based, may be negative ---- */

/* out[i][j] = x[index[i][j]][j] (axis 0): index has x's ndim. PN_DOMAIN out of range. */
PN_API pn_tensor *pn_gather(pn_context *c, pn_tensor *x, int axis, pn_tensor *index);
/* x with src added at the places that pn_gather with the same index reads. */
PN_API pn_tensor *pn_scatter_add(pn_context *c, pn_tensor *x, int axis, pn_tensor *index, pn_tensor *src);
/* Sub-tensors of one axis in the order of `index`, whose shape replaces that axis. */
PN_API pn_tensor *pn_take(pn_context *c, pn_tensor *x, int axis, pn_tensor *index);
/* Adjoint of pn_take: zeros of size `size` at axis, g added at the indexed places. */
PN_API pn_tensor *pn_take_add(pn_context *c, pn_tensor *g, int axis, pn_tensor *index, int64_t size);
/* Positions of the non-zero elements, [count, ndim], row-major order. int64. */
PN_API pn_tensor *pn_nonzero(pn_context *c, pn_tensor *x);
/* The elements of x where the bool mask (shape of x's leading axes) is true: [count, ...]. */
PN_API pn_tensor *pn_masked_select(pn_context *c, pn_tensor *x, pn_tensor *mask);
/* How many of the edges [n], which rise, are below each element of x, both of one dtype that is not bool; with `right`
 * also those equal to it, but with `closed` not the last; NaN is above all. int64. */
PN_API pn_tensor *pn_bucketize(pn_context *c, pn_tensor *x, pn_tensor *edges, int right, int closed);
/* Order that sorts along axis, stable; NaN last. int64. */
PN_API pn_tensor *pn_argsort(pn_context *c, pn_tensor *x, int axis, int descending);
/* x sorted along axis, NaN last. */
PN_API pn_tensor *pn_sort(pn_context *c, pn_tensor *x, int axis, int descending);
/* Positions of the k largest (smallest) along axis, in order, NaN last either way. int64. */
PN_API pn_tensor *pn_argtopk(pn_context *c, pn_tensor *x, int64_t k, int axis, int largest);
/* The k largest (smallest) along axis, in order, NaN last either way. */
PN_API pn_tensor *pn_topk(pn_context *c, pn_tensor *x, int64_t k, int axis, int largest);

/* ---- products -------------------------------------------------------------------------------- */

/* Matrix product over the last two axes, leading axes broadcast; 1-d operands as in NumPy. Of float32, numbers below
 * the smallest normal one, 1.2e-38, count as 0 here and in convolutions, on processors that can (x86-64): each would
 * take a hundred times as long as another. (Batches of small matrices, and float64, keep them.) */
PN_API pn_tensor *pn_matmul(pn_context *c, pn_tensor *x, pn_tensor *y);

/* Sum of products of n operands in index notation: "bij,bjk->bik". Without "->" the result has the indices that
 * occur once, alphabetically; a repeated index in one operand is its diagonal; "..." are leading axes that
 * broadcast. Contracted from left to right. PN_DOMAIN, PN_SHAPE. */
PN_API pn_tensor *pn_einsum(pn_context *c, const char *spec, int n, pn_tensor *const *x);

/* x W + b in one node: [..., n, in], [in, out], [out] -> [..., n, out]. */
PN_API pn_tensor *pn_linear(pn_context *c, pn_tensor *x, pn_tensor *weight, pn_tensor *bias);

/* ---- linear algebra: matrices are the last two axes, leading axes a batch; float dtypes -------- */
/* A matrix that has no factorisation is PN_SINGULAR, one that is not finite PN_NAN; the message names the first
 * such matrix of the batch (from 1). Right sides are [..., n, k] or [n], broadcast, and may hold anything. */

/* Lower triangle L with L L^T = (x + x^T) / 2, which must be positive definite: [..., n, n]. */
PN_API pn_tensor *pn_cholesky(pn_context *c, pn_tensor *x);
/* x with a x = b, or a^T x = b; reads only the lower (upper) triangle of a. */
PN_API pn_tensor *pn_solve_triangular(pn_context *c, pn_tensor *a, pn_tensor *b, int upper, int transpose);
/* x with l l^T x = b, l a lower triangle as from pn_cholesky. */
PN_API pn_tensor *pn_cholesky_solve(pn_context *c, pn_tensor *l, pn_tensor *b);
/* x with a x = b for any invertible a. */
PN_API pn_tensor *pn_solve(pn_context *c, pn_tensor *a, pn_tensor *b);
/* The inverse matrix. */
PN_API pn_tensor *pn_inverse(pn_context *c, pn_tensor *x);
/* log |det x|: [...]; -inf for a singular x, whose gradient is PN_SINGULAR. */
PN_API pn_tensor *pn_logdet(pn_context *c, pn_tensor *x);
/* Determinant: [...]; its gradient needs an invertible x. */
PN_API pn_tensor *pn_det(pn_context *c, pn_tensor *x);
/* Sign of the determinant, -1, 0 or 1: [...]; gradient zero. */
PN_API pn_tensor *pn_det_sign(pn_context *c, pn_tensor *x);
/* x = q r, q [..., m, k] with orthonormal columns, r [..., k, n] upper triangular, k = min(m, n); signs as LAPACK
 * gives them. Each scoped. The gradient needs the first k columns of x to be independent (else PN_SINGULAR). */
PN_API pn_status pn_qr(pn_context *c, pn_tensor *x, pn_tensor **q, pn_tensor **r);
/* (x + x^T) / 2 = v diag(w) v^T: values w [..., n] ascending, vectors v [..., n, n] in columns, up to sign. Each
 * scoped. Vectors of equal values are not unique and have no gradient: terms with 1 / (w[j] - w[i]) are left out
 * where the two are equal, which is exact for functions of the values and for those that treat equal ones alike. */
PN_API pn_status pn_eigh(pn_context *c, pn_tensor *x, pn_tensor **values, pn_tensor **vectors);
/* x = u diag(s) vt: u [..., m, k], s [..., k] descending, vt [..., k, n], k = min(m, n), up to sign. Each scoped.
 * Gradients of u and vt where singular values are equal as for pn_eigh. */
PN_API pn_status pn_svd(pn_context *c, pn_tensor *x, pn_tensor **u, pn_tensor **s, pn_tensor **vt);

/* Lower triangle l with l l^T = x x^T and diagonal not negative, x [..., n, k], k >= n: [..., n, n]. By rotations of
 * x, so that it has all digits where x x^T has lost half of them (n > 32 or k > 64:
 * by QR, whose small columns beside large ones have fewer). The gradient needs x of rank n (else PN_SINGULAR). */
PN_API pn_tensor *pn_tria(pn_context *c, pn_tensor *x);
/* The Cholesky factor of l l^T + x x^T, l [..., n, n] any root and x [..., n, k]: a sum of covariances, or k rank-one
 * updates. */
PN_API pn_tensor *pn_cholesky_update(pn_context *c, pn_tensor *l, pn_tensor *x);

/* ---- Kalman filter steps: one step for each filter of a batch; leading axes broadcast ---------------- */
/* States and observations have 1 to 4096 elements (more than 32: one filter after another, by BLAS). State mean [...,
 * n], cov [..., n, n]; covariances are read as their symmetric parts and come out exactly symmetric. What all filters
 * share is given once, without a batch axis, and not copied. Differentiable twice and more in every float operand. */

/* State (or observation) x' = a x + b + N(0, q): mean_out = a mean + b, cov_out = a cov a^T + q; a [..., p, n], b [...,
 * p], q [..., p, p]; b NULL: 0. Each scoped. PN_SHAPE. */
PN_API pn_status pn_kalman_predict(pn_context *c, pn_tensor *mean, pn_tensor *cov, pn_tensor *a, pn_tensor *b,
                                   pn_tensor *q, pn_tensor **mean_out, pn_tensor **cov_out);

/* Results of an update. The last three are NULL unless details were asked for. */
typedef struct pn_kalman {
  pn_tensor *mean, *cov;     /* of the state given y, by the gain and in Joseph's form: [..., n], [..., n, n] */
  pn_tensor *log_prob;       /* log density of y: [...] */
  pn_tensor *innovation;     /* v = y - c mean - d: [..., p] */
  pn_tensor *innovation_cov; /* S = c cov c^T + r: [..., p, p] */
  pn_tensor *gain;           /* K = cov c^T S^-1: [..., n, p] */
} pn_kalman;

/* Observation y = emission x + d + N(0, r): y [..., p], emission [..., p, n], r [..., p, p], d [..., p]; d NULL: 0.
 * observed: bool [..., p], false where an element of y is missing (observed NULL: none is): the others are conditioned
 * on, what y holds there is never looked at (it may be NaN), and its innovation is 0 with variance 1. Without it a NaN
 * in y is no missing value: it makes mean and log_prob of its own filter NaN. Each result scoped.
 * PN_SHAPE; PN_DTYPE; PN_SINGULAR, PN_NAN: an S that is not positive definite, not finite; the message names the first
 * such filter of the batch (from 1). */
PN_API pn_status pn_kalman_update(pn_context *c, pn_tensor *mean, pn_tensor *cov, pn_tensor *y, pn_tensor *emission,
                                  pn_tensor *d, pn_tensor *r, pn_tensor *observed, int details, pn_kalman *out);

/* Both in one pass, without details: the update of the predicted state. Faster than one after the other, above all with
 * gradients. Operands, results and failures as above; b, d and observed may be NULL. */
PN_API pn_status pn_kalman_step(pn_context *c, pn_tensor *mean, pn_tensor *cov, pn_tensor *a, pn_tensor *b,
                                pn_tensor *q, pn_tensor *y, pn_tensor *emission, pn_tensor *d, pn_tensor *r,
                                pn_tensor *observed, pn_kalman *out);

/* The two steps on square roots: l, q and r are roots of the covariances, any matrices with l l^T = cov (Cholesky
 * factors, say), and so are l_out and out->cov, lower triangles with a diagonal that is not negative. Nothing is lost
 * where a covariance itself would have lost its small eigenvalues. Orders of any size. Roots have only the leading axes
 * of what they depend on: filters that differ in mean and y alone share one root. b NULL: 0. Each scoped. PN_SHAPE,
 * PN_NAN. */
PN_API pn_status pn_kalman_root_predict(pn_context *c, pn_tensor *mean, pn_tensor *l, pn_tensor *a, pn_tensor *b,
                                        pn_tensor *q, pn_tensor **mean_out, pn_tensor **l_out);
/* The update of a root l with a root r: as pn_kalman_update without details (d and observed may be NULL), out->cov is a
 * root; each scoped. */
PN_API pn_status pn_kalman_root_update(pn_context *c, pn_tensor *mean, pn_tensor *l, pn_tensor *y, pn_tensor *emission,
                                       pn_tensor *d, pn_tensor *r, pn_tensor *observed, pn_kalman *out);

/* ---- Kalman filter sequences: whole ones in one call ------------------------------------------------ */
/* States x_0 ~ N(mean, cov), x_t = a_t x_(t-1) + b_t + N(0, q_t), observations y_t = c_t x_t + d_t + N(0, r_t) for
 * t = 1 ... T: x_0 has none. Time is the leading axis of y [T, batch..., p]; operands broadcast against its leading
 * axes as NumPy does: a [n, n] is the same always, [T, n, n] changes with time where there is no batch, and for a batch
 * of B series [B, n, n] are systems of their own, [T, 1, n, n] changes with time, [T, B, n, n] is both; mean [batch...,
 * n] and cov [batch..., n, n] have no time. Orders from 1 to 4096. Threads share the batch; results do not depend on
 * them. */
typedef struct pn_kalman_system {
  pn_tensor *mean, *cov, *a, *b, *q, *c, *d, *r; /* b, d: NULL for 0. Borrowed. */
} pn_kalman_system;

/* States given y up to each t: mean [T, batch..., n], cov [T, batch..., n, n], log_prob [T, batch...] of y_t given
 * those before; the rest of out is NULL. observed: bool [T, batch..., p] as for pn_kalman_update; observed NULL: all.
 * The gradient is one pass back in time. Each scoped. PN_SHAPE; PN_DTYPE; PN_SINGULAR, PN_NAN: an innovation covariance
 * that is not positive definite, not finite; the message names step and series. */
PN_API pn_status pn_kalman_filter(pn_context *c, const pn_kalman_system *s, pn_tensor *y, pn_tensor *observed,
                                  pn_kalman *out);
/* log_prob of the same alone, [T, batch...]: its gradient is cheaper. Their sum is the log likelihood. observed NULL:
 * all. Scoped. */
PN_API pn_tensor *pn_kalman_log_prob(pn_context *c, const pn_kalman_system *s, pn_tensor *y, pn_tensor *observed);
/* The filter on square roots: cov, q and r of s and cov of out are roots, as for pn_kalman_root_update. No gradient:
 * PN_MISSING where one is asked for. observed NULL: all. Each scoped. */
PN_API pn_status pn_kalman_root_filter(pn_context *c, const pn_kalman_system *s, pn_tensor *y, pn_tensor *observed,
                                       pn_kalman *out);
/* States without observations: moments [steps, batch..., n], [steps, batch..., n, n] after each of `steps` predictions.
 * reverse: operands and results stand on the time axis from last to first. Forecasts, priors, and smoothers, which are
 * predictions backwards. b NULL: 0. Each scoped. PN_SHAPE, PN_DOMAIN. */
PN_API pn_status pn_kalman_propagate(pn_context *c, int64_t steps, int reverse, pn_tensor *mean, pn_tensor *cov,
                                     pn_tensor *a, pn_tensor *b, pn_tensor *q, pn_tensor **mean_out,
                                     pn_tensor **cov_out);
/* Means alone: x_t = a_t x_(t-1) + offset_t from x_0 = mean, [T, batch..., n]; mean [batch..., n], a [T or 1, batch...,
 * n, n] with 1 for axes that it does not have, offset [T, batch..., n]; any n. Scoped. PN_SHAPE. */
PN_API pn_tensor *pn_kalman_path(pn_context *c, int reverse, pn_tensor *mean, pn_tensor *a, pn_tensor *offset);

/* ---- hidden Markov models: whole sequences, K states, T steps, B sequences side by side -------- */
/* All in logarithms: initial [1 or B, K]; transition [1 or T, 1 or B, K, K], into step t from state (row) to state
 * (column), row 0 of T is not looked at; emission [T, B, K], the log-likelihood of each step's observation, a row of
 * zeros where there is none (a shorter sequence ends in such rows). -inf is a legal entry of each. */

/* Results of a pass. */
typedef struct pn_hmm {
  pn_tensor *predicted; /* log p(z_t | y before t): [T, B, K] */
  pn_tensor *filtered;  /* log p(z_t | y up to t): [T, B, K], all -inf once the observations are impossible */
  pn_tensor *increment; /* log p(y_t | y before t): [T, B]; their sum over t is the log-likelihood */
} pn_hmm;

/* The filter, its results each scoped. backward: from the last step on, initial is not looked at; `predicted` is then
 * the message from later observations and `filtered` the same with that of step t, each up to a constant per step, so
 * that the posterior of z_t is softmax(forward filtered + backward predicted) and that of the pair (z_{t-1}, z_t)
 * softmax(forward filtered[t - 1] + transition[t] + backward filtered[t]). Differentiable twice and more. PN_SHAPE. */
PN_API pn_status pn_hmm_filter(pn_context *c, pn_tensor *initial, pn_tensor *transition, pn_tensor *emission,
                               int backward, pn_hmm *out);
/* The most probable path of states (Viterbi 1967): int64 [T, B]. lengths: int64 [B], a path is -1 from there on;
 * lengths NULL: T. Of equals the lower state. No gradient. PN_SHAPE, PN_DOMAIN; PN_DEGENERATE: no path has a
 * probability above 0. */
PN_API pn_tensor *pn_hmm_viterbi(pn_context *c, pn_tensor *initial, pn_tensor *transition, pn_tensor *emission,
                                 pn_tensor *lengths);
/* n paths drawn from the posterior, int64 [n, T, B], by sampling backward from `filtered` of the forward pass. No
 * gradient. PN_SHAPE, PN_DOMAIN, PN_DEGENERATE as above. */
PN_API pn_tensor *pn_hmm_sample(pn_context *c, pn_rng *rng, pn_tensor *filtered, pn_tensor *transition, int64_t n);

/* ---- files -----------------------------------------------------------------------------------
 * Loaders return NULL with PN_IO (the system refused), PN_FORMAT (damaged, or another kind of file),
 * PN_DTYPE (elements that no tensor holds), PN_SHAPE (more than PN_MAX_DIMS axes), PN_DOMAIN, PN_NOMEM.
 * What a file claims about itself is held against its real size before memory is taken. Gzipped files
 * are recognised by their content; a target name that ends in ".gz" is gzipped. Integers of all widths
 * load as int64, half precision as float32. Savers replace the target when all is on disk; a failure
 * leaves the old file as it was. */

/* A list of texts. */
typedef struct pn_names pn_names;
/* Number of texts; 0 for NULL. */
PN_API int64_t pn_names_count(const pn_names *names);
/* Text i (from 0), NULL out of range. Borrowed. */
PN_API const char *pn_names_at(const pn_names *names, int64_t i);
/* Releases a list. NULL is a no-op. */
PN_API void pn_names_free(pn_names *names);

/* Named tensors in order, and text under keys: what .npz and safetensors files hold. */
typedef struct pn_archive pn_archive;
/* An empty archive. New; PN_NOMEM. */
PN_API pn_archive *pn_archive_new(pn_context *c);
/* Releases an archive and its references. NULL is a no-op. */
PN_API void pn_archive_free(pn_archive *a);
/* Adds t (one more reference) under a name of its own. PN_DOMAIN if the name is taken; PN_NOMEM. */
PN_API pn_status pn_archive_add(pn_context *c, pn_archive *a, const char *name, pn_tensor *t);
/* Number of tensors; 0 for NULL. */
PN_API int64_t pn_archive_count(const pn_archive *a);
/* Name of tensor i (from 0), NULL out of range. Borrowed. */
PN_API const char *pn_archive_name(const pn_archive *a, int64_t i);
/* Tensor i (from 0), NULL out of range. Borrowed. */
PN_API pn_tensor *pn_archive_tensor(const pn_archive *a, int64_t i);
/* The tensor of a name, NULL if there is none. Borrowed. */
PN_API pn_tensor *pn_archive_find(const pn_archive *a, const char *name);
/* Puts a text under a key, replacing what was there. PN_NOMEM. */
PN_API pn_status pn_archive_set_text(pn_context *c, pn_archive *a, const char *key, const char *text);
/* Number of texts; 0 for NULL. */
PN_API int64_t pn_archive_text_count(const pn_archive *a);
/* Key i (from 0), NULL out of range. Borrowed. */
PN_API const char *pn_archive_text_key(const pn_archive *a, int64_t i);
/* The text under a key, NULL if there is none. Borrowed. */
PN_API const char *pn_archive_text(const pn_archive *a, const char *key);

/* How a CSV file is read; zeros are the defaults. */
typedef struct pn_csv_options {
  char delimiter;                  /* 0: found out among tab ; | , and blanks. ' ': runs of blanks */
  int header;                      /* 0: found out, 1: the first line is one, -1: there is none */
  pn_dtype dtype;                  /* of the result: float64, float32 or int64 */
  const char *missing;             /* one more text that means a missing value; NULL: none */
  int num_columns;                 /* 0: all columns, else those of `columns` or `column_names` */
  const int64_t *columns;          /* 0-based positions, negative from the end; NULL: by name */
  const char *const *column_names; /* names in the header */
  char decimal;                    /* 0: a point in numbers; ',': a comma */
  char comment;                    /* lines that begin with it are passed over; 0: none are */
  char whole_lines;                /* 1: a last line that does not end is passed over */
  int64_t first_row, num_rows;     /* which rows below the header, 0-based; num_rows 0: all from first_row on */
} pn_csv_options;

/* A table of numbers as [rows, columns]. Empty cells, NA, N/A, NaN, null, None and ? are missing: NaN (an
 * error for int64). Cells may be quoted, lines end in LF, CRLF or CR, empty lines are passed over. A
 * first line of texts is a header, one of numbers is data, one that may be either is PN_FORMAT unless options say.
 * options may be NULL. names (may be NULL) receives the header's texts for the columns read, a list of none without a
 * header: new. Errors name line and column. Scoped. */
PN_API pn_tensor *pn_load_csv(pn_context *c, const char *path, const pn_csv_options *options, pn_names **names);
/* The cells themselves, row by row, those that are missing as "": pn_names_count of the result over that of names is
 * the number of rows if there is a header. dtype and decimal have no effect; names may be NULL. New. */
PN_API pn_names *pn_load_csv_text(pn_context *c, const char *path, const pn_csv_options *options, pn_names **names);
/* Writes a 1-d tensor (one column) or 2-d tensor; numbers read back exactly. delimiter 0: comma. names: one
 * per column; names NULL: no header. PN_SHAPE, PN_DOMAIN, PN_IO. */
PN_API pn_status pn_save_csv(pn_context *c, const char *path, const pn_tensor *t, char delimiter,
                             const char *const *names);
/* NumPy's array file, versions 1 to 3, either byte and axis order. Scoped. */
PN_API pn_tensor *pn_load_npy(pn_context *c, const char *path);
/* Writes what numpy.save would. PN_IO, PN_NOMEM. */
PN_API pn_status pn_save_npy(pn_context *c, const char *path, const pn_tensor *t);
/* NumPy's archive of arrays, stored or deflated; names without ".npy". New. */
PN_API pn_archive *pn_load_npz(pn_context *c, const char *path);
/* Writes what numpy.savez (numpy.savez_compressed with `compressed`) would; texts are left out. PN_LIMIT
 * from 4 GiB on; PN_IO, PN_NOMEM. */
PN_API pn_status pn_save_npz(pn_context *c, const char *path, const pn_archive *a, int compressed);
/* An IDX file (MNIST's format). Scoped. */
PN_API pn_tensor *pn_load_idx(pn_context *c, const char *path);
/* The same, converted to dtype while it is read. Scoped. */
PN_API pn_tensor *pn_load_idx_as(pn_context *c, const char *path, pn_dtype dtype);
/* A file that is nothing but elements of one type ("uint8", "int32", "float16": NumPy's names), row-major and
 * little-endian (may be gzipped), as a tensor of this shape and dtype. PN_SHAPE where longer or shorter. Scoped. */
PN_API pn_tensor *pn_load_raw(pn_context *c, const char *path, const char *element, int ndim, const int64_t *shape,
                              pn_dtype dtype);
/* A chunk of a Zarr array (version 2): elements of `type`, NumPy's text "<f8", "|b1" or ">i4", row-major and never
 * packed, as a tensor of this shape and the nearest dtype. PN_MISSING if there is no such file, PN_SHAPE where it is
 * longer or shorter. Scoped. */
PN_API pn_tensor *pn_load_chunk(pn_context *c, const char *path, const char *type, int ndim, const int64_t *shape);
/* Writes a folder with a file for each tensor (its elements, row-major and little-endian: a chunk) and each text of the
 * archive, under names of any depth, "posterior/mu/0.0": a Zarr store. It is written under another name beside `path`
 * and takes its place whole. What stands there already must be a store (a folder with a file .zgroup, which is
 * written if the archive has none). PN_DOMAIN (a name that leads out of the folder), PN_IO, PN_NOMEM. */
PN_API pn_status pn_save_store(pn_context *c, const char *path, const pn_archive *a);
/* The lines of a text file (may be gzipped) that begin with `prefix`, without what ends them. New. */
PN_API pn_names *pn_load_lines(pn_context *c, const char *path, const char *prefix);
/* Writes n bytes. PN_IO, PN_NOMEM. */
PN_API pn_status pn_save_bytes(pn_context *c, const char *path, const void *bytes, size_t n);
/* A picture as [height, width, channels] with numbers from 0 to 1, float64 or float32: PNG of every kind but interlaced
 * ones (1 channel of grey, 3 of colours or a palette, 2 and 4 with opacity), binary PGM (1) and PPM (3). What PNG files
 * say of gamma, and of transparency beside grey, colours and palettes, is passed over. Scoped; PN_DTYPE, PN_FORMAT,
 * PN_IO, PN_NOMEM. */
PN_API pn_tensor *pn_load_image(pn_context *c, const char *path, pn_dtype dtype);
/* Writes an IDX file: floats as they are, integers in one unsigned byte if all fit, else in four (PN_DOMAIN
 * where they do not), booleans in one. PN_SHAPE, PN_IO, PN_NOMEM. */
PN_API pn_status pn_save_idx(pn_context *c, const char *path, const pn_tensor *t);
/* A safetensors file; texts are its __metadata__. Order as in the file's data. New. */
PN_API pn_archive *pn_load_safetensors(pn_context *c, const char *path);
/* Writes a safetensors file. PN_DOMAIN (a name that is not UTF-8, or is __metadata__), PN_IO, PN_NOMEM. */
PN_API pn_status pn_save_safetensors(pn_context *c, const char *path, const pn_archive *a);

/* An array that stays in its file and is read by rows, the first axis: a .npy, IDX or safetensors file that is not
 * gzipped, of any size. A file that shrinks while it is open gives PN_IO at the next read beyond its end; one that is
 * written to gives what stands there. */
typedef struct pn_array_file pn_array_file;
/* name: of a tensor in a safetensors file; name NULL: the only one, and other files. New; PN_IO, PN_FORMAT, PN_DTYPE,
 * PN_SHAPE (a single number), PN_DOMAIN (no such name), PN_NOMEM. */
PN_API pn_array_file *pn_array_open(pn_context *c, const char *path, const char *name);
/* NULL is a no-op. */
PN_API void pn_array_close(pn_array_file *a);
/* Axes, from 1. */
PN_API int pn_array_ndim(const pn_array_file *a);
/* Borrowed. */
PN_API const int64_t *pn_array_shape(const pn_array_file *a);
/* The dtype that holds every value of the elements. */
PN_API pn_dtype pn_array_dtype(const pn_array_file *a);
/* The type of the elements as they stand in the file: "uint8". Borrowed, static. */
PN_API const char *pn_array_type(const pn_array_file *a);
/* `count` rows from `first` (0-based) on, as dtype. Scoped; PN_DOMAIN, PN_IO, PN_NOMEM. */
PN_API pn_tensor *pn_array_rows(pn_context *c, const pn_array_file *a, int64_t first, int64_t count, pn_dtype dtype);
/* The rows at index, int64 [n], 0-based, as dtype. Scoped; PN_DOMAIN, PN_SHAPE, PN_IO, PN_NOMEM. */
PN_API pn_tensor *pn_array_take(pn_context *c, const pn_array_file *a, const pn_tensor *index, pn_dtype dtype);

/* ---- columns by Arrow's C data interface ---------------------------------------------------------
 *
 * The two structs are Arrow's (arrow.apache.org/docs/format/CDataInterface.html), which other headers declare under
 * the same guard. Who has one calls its release. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE           2
#define ARROW_FLAG_MAP_KEYS_SORTED    4
struct ArrowSchema {
  const char *format;
  const char *name;
  const char *metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema **children;
  struct ArrowSchema *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void **buffers;
  struct ArrowArray **children;
  struct ArrowArray *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};
#endif

/* The tensors of an archive, all of as many rows, as the columns of a record batch: of one axis as numbers, of more as
 * lists of fixed size. The numbers are not copied (truth values are, eight to a byte): the context lives on until
 * both structs are released, on its thread; values that an optimiser changes change there too. What schema and array
 * held is overwritten. PN_DOMAIN (no tensors), PN_SHAPE (rows that differ), PN_NOMEM; then neither has a release. */
PN_API pn_status pn_arrow_export(pn_context *c, const pn_archive *columns, struct ArrowSchema *schema,
                                 struct ArrowArray *array);
/* Copies the columns of a record batch, or a single array, as tensors by name: integers of all widths as int64, half
 * precision as float32, lists of fixed size as further axes; a missing number is NaN. Releases schema and array, also
 * on failure. PN_DTYPE (texts, dates, dictionaries), PN_DOMAIN (a missing whole number or truth value, a number that
 * int64 cannot hold), PN_FORMAT, PN_SHAPE, PN_NOMEM. New. */
PN_API pn_archive *pn_arrow_import(pn_context *c, struct ArrowSchema *schema, struct ArrowArray *array);

/* ---- images: [n, channels, rows, columns], float dtypes; pairs are rows, columns ---------------- */

/* 0 stands for 1 in stride, dilation and groups; output_padding is conv_transpose2d's. NULL: all defaults. */
typedef struct pn_conv2d_options {
  int64_t stride[2], padding[2], dilation[2], groups, output_padding[2];
} pn_conv2d_options;

/* Cross-correlation with weight [out, in / groups, kr, kc], zeros beyond the edges; result sizes are
 * floor((size + 2 padding - dilation (k - 1) - 1) / stride) + 1. PN_SHAPE, PN_DOMAIN, PN_DTYPE. */
PN_API pn_tensor *pn_conv2d(pn_context *c, pn_tensor *x, pn_tensor *weight, const pn_conv2d_options *options);
/* The adjoint of pn_conv2d in its images, weight [in, out / groups, kr, kc]; result sizes are
 * (size - 1) stride - 2 padding + dilation (k - 1) + 1 + output_padding, output_padding < stride. */
PN_API pn_tensor *pn_conv_transpose2d(pn_context *c, pn_tensor *x, pn_tensor *weight, const pn_conv2d_options *options);
/* The gradient of pn_conv2d in its weight, whose kernel is rows x columns, from the gradient g of its result. */
PN_API pn_tensor *pn_conv2d_weight(pn_context *c, pn_tensor *x, pn_tensor *g, int64_t rows, int64_t columns,
                                   const pn_conv2d_options *options);
/* Largest element of each window; sizes floor((size + 2 padding - kernel) / stride) + 1. stride NULL: the kernel;
 * padding NULL: none, at most kernel / 2; beyond the edges is -inf. NaN wins. */
PN_API pn_tensor *pn_max_pool2d(pn_context *c, pn_tensor *x, const int64_t kernel[2], const int64_t *stride,
                                const int64_t *padding);
/* Mean of each window; beyond the edges is 0, or left out of the mean without count_include_pad. stride
 * and padding may be NULL, as above. */
PN_API pn_tensor *pn_avg_pool2d(pn_context *c, pn_tensor *x, const int64_t kernel[2], const int64_t *stride,
                                const int64_t *padding, int count_include_pad);

/* ---- bijectors ------------------------------------------------------------------------------- */

/* A differentiable map with an inverse: a kind with values for its parameters. x is lead + in axes, y lead + out
 * axes. Any number of references. The last pair (x, y) that was computed without a graph is kept, so that the
 * inverse of a y just made is exact and free; where a gradient is asked for it is computed anew. */
typedef struct pn_bijector pn_bijector;

/* Number of kinds. */
PN_API int pn_bijector_kind_count(void);
/* The name of kind i, from 0, or NULL outside. Borrowed, static. */
PN_API const char *pn_bijector_kind_name(int i);
/* A bijector of the named kind with n parameters. names[k] belongs to values[k]; names NULL: the declared
 * order. Floats have one dtype. NULL with PN_MISSING, PN_DOMAIN ("affine: scale must be a finite number other than
 * 0, got 0"), PN_SHAPE, PN_DTYPE, PN_NOMEM. New. */
PN_API pn_bijector *pn_bijector_new(pn_context *c, const char *kind, int n, const char *const *names,
                                    pn_tensor *const *values);
/* A bijector made of n bijectors: kind "chain" (applied first to last) or "inverse" (of one). Bijectors and
 * distributions made of others nest at most 100 levels deep. New; PN_MISSING, PN_STATE, PN_DTYPE, PN_SHAPE, PN_DOMAIN
 * (too deep), PN_NOMEM. */
PN_API pn_bijector *pn_bijector_compose(pn_context *c, const char *kind, int n, pn_bijector *const *parts);
/* A bijector from all numbers (vectors) onto the named set; its boundary is reached in the limit. low and high are
 * the ends of an "interval", low the one of a "half_line"; elsewhere low and high may be NULL. New; PN_MISSING for
 * discrete sets. */
PN_API pn_bijector *pn_biject_to(pn_context *c, const char *set, pn_tensor *low, pn_tensor *high);
/* One more reference; returns b. NULL passes. */
PN_API pn_bijector *pn_bijector_ref(pn_bijector *b);
/* One reference less; the last frees b. NULL is a no-op. */
PN_API void pn_bijector_unref(pn_bijector *b);
/* The kind's name. Borrowed, static. */
PN_API const char *pn_bijector_name(const pn_bijector *b);
/* Name of a set that holds every x it takes. Borrowed, static. */
PN_API const char *pn_bijector_domain(const pn_bijector *b);
/* Name of a set that holds every y it gives. Borrowed, static. */
PN_API const char *pn_bijector_codomain(const pn_bijector *b);
/* Axes of one x. */
PN_API int pn_bijector_domain_rank(const pn_bijector *b);
/* Axes of one y. */
PN_API int pn_bijector_codomain_rank(const pn_bijector *b);
/* A parameter. Scoped; PN_MISSING. */
PN_API pn_tensor *pn_bijector_param(pn_context *c, const pn_bijector *b, const char *name);
/* y of x. Scoped; PN_SHAPE, PN_DTYPE. */
PN_API pn_tensor *pn_bijector_forward(pn_context *c, pn_bijector *b, pn_tensor *x);
/* x of y; NaN or infinite at a y that no x gives. Scoped; PN_SHAPE, PN_DTYPE. */
PN_API pn_tensor *pn_bijector_inverse(pn_context *c, pn_bijector *b, pn_tensor *y);
/* log |det dy/dx| at x, over free coordinates (all but the last entry of a simplex vector, lower triangles of
 * matrices): shape lead. Scoped; PN_SHAPE, PN_DTYPE. */
PN_API pn_tensor *pn_bijector_log_abs_det(pn_context *c, pn_bijector *b, pn_tensor *x);
/* y of x, and log_det receives log |det dy/dx|: one pass of a network where there is one. Both scoped; NULL on
 * failure: PN_SHAPE, PN_DTYPE. */
PN_API pn_tensor *pn_bijector_forward_log_det(pn_context *c, pn_bijector *b, pn_tensor *x, pn_tensor **log_det);
/* x of y, and log_det receives log |det dy/dx| there. Both scoped; NULL on failure. */
PN_API pn_tensor *pn_bijector_inverse_log_det(pn_context *c, pn_bijector *b, pn_tensor *y, pn_tensor **log_det);

/* ---- distributions --------------------------------------------------------------------------- */

/* A distribution: a kind with values for its parameters. A value has shape sample + batch + event.
 * Immutable; any number of references. Results are graph nodes, so gradients flow to the parameters. */
typedef struct pn_dist pn_dist;

/* clang-format off */
/* The kinds and their parameters in declared order, each with the set that it lies in, its event axes (equal letters:
 * equal sizes) and its default. Exactly one of alternatives, between which | stands, is given.
 * rows: distribution
 *   bernoulli(probs: unit interval | logits: real)
 *   beta(concentration1: positive, concentration0: positive)
 *   beta_binomial(total_count: nonnegative integer, concentration1: positive, concentration0: positive)
 *   binomial(total_count: nonnegative integer, probs: unit interval | logits: real)
 *   categorical(probs: simplex [n] | logits: log weights [n])
 *   cauchy(loc: real = 0, scale: positive = 1)
 *   chi2(df: positive)
 *   continuous_bernoulli(probs: open unit interval | logits: real)
 *   delta(loc: real = 0)
 *   dirichlet(concentration: positive vector [n])
 *   dirichlet_multinomial(total_count: nonnegative integer, concentration: positive vector [n])
 *   empirical(values: real vector [n], log_weights: log weights [n] = 0)
 *   exponential(rate: positive = 1)
 *   gamma(concentration: positive, rate: positive = 1)
 *   gamma_poisson(concentration: positive, rate: positive = 1)
 *   gaussian_random_walk(scale: positive = 1, num_steps: nonnegative integer = 1)
 *   geometric(probs: open unit interval | logits: real)
 *   gumbel(loc: real = 0, scale: positive = 1)
 *   half_cauchy(scale: positive = 1)
 *   half_normal(scale: positive = 1)
 *   horseshoe(scale: positive = 1)
 *   inverse_gamma(concentration: positive, rate: positive = 1)
 *   inverse_wishart(df: positive, scale_matrix: positive definite [n, n] | scale_tril: lower cholesky [n, n])
 *   kumaraswamy(concentration1: positive, concentration0: positive)
 *   laplace(loc: real = 0, scale: positive = 1)
 *   lkj_cholesky(dimension: nonnegative integer, concentration: positive = 1)
 *   log_normal(loc: real = 0, scale: positive = 1)
 *   log_uniform(low: positive, high: positive)
 *   logistic(loc: real = 0, scale: positive = 1)
 *   low_rank_multivariate_normal(loc: real vector [n], cov_factor: real matrix [n, r],
 *      cov_diag: positive vector [n])
 *   matrix_normal(loc: real matrix [n, m], covariance_row: positive definite [n, n] |
 *      scale_tril_row: lower cholesky [n, n], covariance_column: positive definite [m, m] |
 *      scale_tril_column: lower cholesky [m, m])
 *   multinomial(total_count: nonnegative integer, probs: simplex [n] | logits: log weights [n])
 *   multivariate_normal(loc: real vector [n], covariance_matrix: positive definite [n, n] |
 *      precision_matrix: positive definite [n, n] | scale_tril: lower cholesky [n, n])
 *   multivariate_student_t(df: positive, loc: real vector [n], scale_matrix: positive definite [n, n] |
 *      scale_tril: lower cholesky [n, n])
 *   negative_binomial(total_count: positive, probs: open unit interval | logits: real)
 *   normal(loc: real = 0, scale: positive = 1)
 *   normal_inverse_gamma(loc: real, count: positive, concentration: positive, rate: positive)
 *   normal_inverse_wishart(loc: real vector [n], count: positive, df: positive,
 *      scale_matrix: positive definite [n, n] | scale_tril: lower cholesky [n, n])
 *   one_hot_categorical(probs: simplex [n] | logits: log weights [n])
 *   pareto(scale: positive, alpha: positive)
 *   poisson(rate: positive)
 *   relaxed_bernoulli(temperature: positive, probs: open unit interval | logits: real)
 *   relaxed_one_hot_categorical(temperature: positive, probs: open simplex [n] | logits: real vector [n])
 *   student_t(df: positive, loc: real = 0, scale: positive = 1)
 *   truncated_normal(loc: real = 0, scale: positive = 1, low: extended real = -inf, high: extended real = inf)
 *   uniform(low: real = 0, high: real = 1)
 *   von_mises(loc: real = 0, concentration: positive)
 *   weibull(scale: positive, concentration: positive)
 *   wishart(df: positive, scale_matrix: positive definite [n, n] | scale_tril: lower cholesky [n, n])
 *   zero_inflated_poisson(gate: unit interval, rate: positive)
 * end rows */
/* clang-format on */

/* Number of kinds. */
PN_API int pn_dist_kind_count(void);
/* The name of kind i, from 0, or NULL outside. Borrowed, static. */
PN_API const char *pn_dist_kind_name(int i);
/* A distribution of the named kind with n parameters. names[k] belongs to values[k]; names NULL: the
 * declared order (of alternative parameters only the first). Parameters broadcast to the batch shape and must
 * have one float dtype. NULL with PN_MISSING (no such kind), PN_DOMAIN ("gamma: rate must be positive, got
 * -1"), PN_SHAPE, PN_DTYPE, PN_SINGULAR, PN_NOMEM. New. */
PN_API pn_dist *pn_dist_new(pn_context *c, const char *kind, int n, const char *const *names, pn_tensor *const *values);
/* One more reference; returns d. NULL passes. */
PN_API pn_dist *pn_dist_ref(pn_dist *d);
/* One reference less; the last frees d. NULL is a no-op. */
PN_API void pn_dist_unref(pn_dist *d);
/* The kind's name. Borrowed, static. */
PN_API const char *pn_dist_name(const pn_dist *d);
/* Name of the set that values lie in, "positive". Borrowed, static. */
PN_API const char *pn_dist_support(const pn_dist *d);
/* Sizes of the batch axes; ndim (may be NULL) receives how many. Borrowed. */
PN_API const int64_t *pn_dist_batch_shape(const pn_dist *d, int *ndim);
/* Sizes of the event axes; ndim (may be NULL) receives how many. Borrowed. */
PN_API const int64_t *pn_dist_event_shape(const pn_dist *d, int *ndim);
/* A parameter as given, or derived if an alternative was given. Scoped; PN_MISSING. */
PN_API pn_tensor *pn_dist_param(pn_context *c, const pn_dist *d, const char *name);
/* The last k batch axes become event axes: log_prob, entropy and KL sum over them. New; PN_SHAPE. */
PN_API pn_dist *pn_dist_independent(pn_context *c, const pn_dist *d, int k);
/* The same distribution repeated to a larger batch shape. New; PN_SHAPE. */
PN_API pn_dist *pn_dist_expand(pn_context *c, const pn_dist *d, int ndim, const int64_t *batch_shape);
/* Log density (mass) of x: shape sample + batch. -inf with gradient zero outside the support, NaN where x is.
 * x is never stretched silently: a size-1 axis of x against a larger batch axis is PN_SHAPE, and so is an x with
 * fewer axes than the batch unless the axes it has agree exactly. Scoped; PN_SHAPE, PN_DTYPE. */
PN_API pn_tensor *pn_dist_log_prob(pn_context *c, const pn_dist *d, pn_tensor *x);
/* Whether densities refuse values outside the support: PN_DOMAIN "gamma: x must be positive, got -1" instead of -inf.
 * Returns the previous setting, off at first. For one distribution: pn_dist_validate. */
PN_API int pn_set_validate(pn_context *c, int on);
/* d, whose log_prob refuses (on = 1) values outside the support or gives -inf (0) whatever the context says. New. */
PN_API pn_dist *pn_dist_validate(pn_context *c, const pn_dist *d, int on);
/* Probability of values <= x; 0 and 1 below and above the support. Shapes as log_prob. Scoped; PN_MISSING. */
PN_API pn_tensor *pn_dist_cdf(pn_context *c, const pn_dist *d, pn_tensor *x);
/* log of the probability of values <= x, and of values > x: exact in both tails where the distribution has such a form
 * (normal, logistic, exponential, ...), else from cdf. Shapes as log_prob. Scoped; PN_MISSING. */
PN_API pn_tensor *pn_dist_log_cdf(pn_context *c, const pn_dist *d, pn_tensor *x);
/* See pn_dist_log_cdf. */
PN_API pn_tensor *pn_dist_log_survival(pn_context *c, const pn_dist *d, pn_tensor *x);
/* The value with cdf p; NaN outside [0, 1]. Shapes as log_prob. Scoped; PN_MISSING. */
PN_API pn_tensor *pn_dist_icdf(pn_context *c, const pn_dist *d, pn_tensor *p);
/* Independent draws, shape `shape` + batch + event, without gradient. rng NULL: the context's. Scoped. */
PN_API pn_tensor *pn_dist_sample(pn_context *c, const pn_dist *d, pn_rng *rng, int ndim, const int64_t *shape);
/* The same draws with a gradient to the parameters. Scoped; PN_MISSING where none exists. */
PN_API pn_tensor *pn_dist_rsample(pn_context *c, const pn_dist *d, pn_rng *rng, int ndim, const int64_t *shape);
/* rsample, and log_prob receives the log density of the draws, shape `shape` + batch. A transformed distribution
 * computes both in one pass: its density comes out of the base's draw, so that the gradient to the parameters is that
 * of log_prob(draws) while the density does not depend on the draws as a graph. Both scoped; NULL on failure. */
PN_API pn_tensor *pn_dist_rsample_log_prob(pn_context *c, const pn_dist *d, pn_rng *rng, int ndim, const int64_t *shape,
                                           pn_tensor **log_prob);
/* Expectation: shape batch + event. Scoped; PN_MISSING. */
PN_API pn_tensor *pn_dist_mean(pn_context *c, const pn_dist *d);
/* Variance of each component: shape batch + event. Scoped; PN_MISSING. */
PN_API pn_tensor *pn_dist_variance(pn_context *c, const pn_dist *d);
/* Square root of the variance. Scoped; PN_MISSING. */
PN_API pn_tensor *pn_dist_stddev(pn_context *c, const pn_dist *d);
/* A value of largest density or mass: shape batch + event. Scoped; PN_MISSING. */
PN_API pn_tensor *pn_dist_mode(pn_context *c, const pn_dist *d);
/* -E[log p], in nats: shape batch. Scoped; PN_MISSING. */
PN_API pn_tensor *pn_dist_entropy(pn_context *c, const pn_dist *d);
/* Kullback-Leibler divergence KL(p || q) = E_p[log p - log q] in closed form: shape of the joint batch.
 * Scoped; PN_MISSING names a pair without closed form; PN_SHAPE. */
PN_API pn_tensor *pn_dist_kl(pn_context *c, const pn_dist *p, const pn_dist *q);
/* ---- distributions made of distributions ------------------------------------------------------ */

/* The law of y = map(x) for x from base. Base axes that the bijector needs beyond the base's event become event
 * axes. log_prob(y) = base's log_prob(x) - log |det dy/dx|. New; PN_SHAPE, PN_DTYPE, PN_DOMAIN where base has values
 * that the bijector does not take, and, as for the two below, where more than 100 levels nest. */
PN_API pn_dist *pn_dist_transformed(pn_context *c, const pn_dist *base, pn_bijector *map);

/* A component by the categorical `labels`, then a value from it. n = 1: the components are the last batch axis of
 * component[0]; else each is one, all with one event shape and dtype. rsample: numbers with a cdf. New; PN_SHAPE,
 * PN_DTYPE, PN_DOMAIN. */
PN_API pn_dist *pn_dist_mixture(pn_context *c, const pn_dist *labels, int n, pn_dist *const *component);
/* base, counted where the bool mask (broadcast with the batch) is true: elsewhere log_prob and entropy are 0 and x
 * has no gradient, not even where it is NaN. New; PN_SHAPE, PN_DTYPE, PN_DOMAIN. */
PN_API pn_dist *pn_dist_masked(pn_context *c, const pn_dist *base, pn_tensor *mask);

/* Renyi divergence of order a > 0 of two normals or two multivariate normals, (1 / (a - 1)) log E_q[(p / q)^a]: shape
 * of the joint batch, infinite where it does not exist. a = 1 is KL(p || q). Scoped; PN_MISSING, PN_DOMAIN. */
PN_API pn_tensor *pn_dist_renyi(pn_context *c, const pn_dist *p, const pn_dist *q, double order);

/* ---- Gaussian factors ------------------------------------------------------------------------ */

/* r(x) = exp(eta . x - x . Lambda x / 2) by its natural parameters eta = precision_mean and Lambda = precision, of
 * numbers ("scalar"), of vectors with Lambda a "diagonal" or a "full" matrix. Lambda may be negative: factors are no
 * distributions. Immutable; any number of references. */
typedef struct pn_natural pn_natural;

/* eta: batch (scalar) or batch + [n]; Lambda as eta, or batch + [n, n] (full). New; PN_MISSING (form), PN_SHAPE,
 * PN_DTYPE. */
PN_API pn_natural *pn_natural_new(pn_context *c, const char *form, pn_tensor *precision_mean, pn_tensor *precision);
/* The factor of a normal (scalar), a normal whose last batch axis independent() moved (diagonal) or a multivariate
 * normal (full), without its constant. New; PN_MISSING for others. */
PN_API pn_natural *pn_natural_of(pn_context *c, const pn_dist *d);
/* One more reference; returns s. NULL passes. */
PN_API pn_natural *pn_natural_ref(pn_natural *s);
/* One reference less; the last frees s. NULL is a no-op. */
PN_API void pn_natural_unref(pn_natural *s);
/* "scalar", "diagonal" or "full". Borrowed, static. */
PN_API const char *pn_natural_form(const pn_natural *s);
/* Lambda. Borrowed. */
PN_API pn_tensor *pn_natural_precision(const pn_natural *s);
/* eta. Borrowed. */
PN_API pn_tensor *pn_natural_precision_mean(const pn_natural *s);
/* a b: parameters add. A diagonal and a full factor give a full one. New; PN_SHAPE. */
PN_API pn_natural *pn_natural_product(pn_context *c, const pn_natural *a, const pn_natural *b);
/* a / b: parameters subtract. New; PN_SHAPE. */
PN_API pn_natural *pn_natural_quotient(pn_context *c, const pn_natural *a, const pn_natural *b);
/* a^t: parameters times t, which broadcasts with the batch. New; PN_SHAPE, PN_DTYPE. */
PN_API pn_natural *pn_natural_power(pn_context *c, const pn_natural *a, pn_tensor *t);
/* log r(x), not normalised: sample + batch. Scoped. */
PN_API pn_tensor *pn_natural_log_factor(pn_context *c, const pn_natural *s, pn_tensor *x);
/* log of the integral of r: batch. Scoped; PN_DOMAIN unless Lambda is positive (definite). */
PN_API pn_tensor *pn_natural_log_normaliser(pn_context *c, const pn_natural *s);
/* E_q[log r(x)] for x from q, from its mean and (co)variance: joint batch. Scoped; PN_SHAPE, PN_MISSING. */
PN_API pn_tensor *pn_natural_expected_log(pn_context *c, const pn_natural *s, const pn_dist *q);
/* The normal with this density up to a constant. New; PN_DOMAIN unless Lambda is positive (definite). */
PN_API pn_dist *pn_natural_to_dist(pn_context *c, const pn_natural *s);

/* ---- beliefs of several sources -------------------------------------------------------------- */

/* What up to 16 sources believe about a vector: independent normals, each of which counts the prior already. */
typedef struct pn_beliefs {
  int sources, size;                      /* M sources, vectors of `size` numbers */
  const double *mean, *scale;             /* [M, size]; of a source that is not there they may be anything */
  const unsigned char *present;           /* [M], 0: the source is silent; NULL: all are there */
  const double *prior_mean, *prior_scale; /* [size]; NULL: 0 and 1 */
  double threshold;                       /* of conflict in both directions; 0: none is left out */
} pn_beliefs;

/* What pn_beliefs_fuse writes; the arrays are the caller's. */
typedef struct pn_fused {
  double *mean, *scale; /* [size], of the fused belief */
  double *conflicts;    /* [M, M]: c(m || n) = KL(n || m) / KL(n || prior), 0 where one is silent; or NULL */
  unsigned char *kept;  /* [M]: 1 where the source was believed */
  int count;            /* how many were; 0: the fused belief is the prior */
  int undecided;        /* 1: no two agree, so that none was left out */
} pn_fused;

/* The product of the beliefs with the prior divided out for all but one: the posterior given all sources if each belief
 * is that given its own. Where a threshold is set, of the largest set of sources no two of which are in conflict above
 * it in both directions, of equally large ones of that with the largest mutual information. Allocates nothing.
 * PN_DOMAIN (names the source, from 0) for a mean that is not finite, a scale that is not positive, a product that does
 * not exist, which cannot be where no scale is above the prior's; PN_STATE. */
PN_API pn_status pn_beliefs_fuse(pn_context *c, const pn_beliefs *beliefs, pn_fused *fused);

/* ---- layers and optimisers ------------------------------------------------------------------- */

/* A named option of a row; a list of them ends with name NULL. */
typedef struct pn_option {
  const char *name;
  double number;    /* value of a number, 0 or 1 of a switch */
  const char *word; /* value of a choice, else NULL */
} pn_option;

/* A tensor from the initialiser `name` (zeros constant normal uniform xavier he lecun orthogonal). rng NULL: the
 * context's; options may be NULL. Fans are the last two axes times the others. Scoped; PN_MISSING, PN_DTYPE,
 * PN_DOMAIN. */
PN_API pn_tensor *pn_initialise(pn_context *c, const char *name, pn_rng *rng, pn_dtype dtype, int ndim,
                                const int64_t *shape, const pn_option *options);

/* What a layer is asked for. Training: batches have their own statistics, units drop out, weights with a posterior are
 * drawn. Evaluation: running statistics, nothing drops out, weights are drawn. Mean: evaluation at the posterior's
 * mean, where nothing is drawn. */
typedef enum pn_mode { PN_MODE_TRAINING, PN_MODE_EVALUATION, PN_MODE_MEAN } pn_mode;

/* Parameters, buffers and the function they enter. Pure: no call has an effect on the layer (see pn_with_update). */
typedef struct pn_layer pn_layer;

/* A layer of the given type ("linear", "conv2d", "relu", ...) with its sizes (in, out; none for activations). A pair
 * among the options is a number, which stands for both, or a word as "3x5". options may be NULL. New; PN_MISSING,
 * PN_SHAPE, PN_DTYPE, PN_DOMAIN, PN_NOMEM. */
PN_API pn_layer *pn_layer_new(pn_context *c, const char *type, int nsizes, const int64_t *sizes, pn_dtype dtype,
                              pn_rng *rng, const pn_option *options);
/* One more reference; returns l. */
PN_API pn_layer *pn_layer_ref(pn_layer *l);
/* One reference less; the last frees l. NULL is a no-op. */
PN_API void pn_layer_unref(pn_layer *l);
/* The layer's type name. Borrowed, static. */
PN_API const char *pn_layer_type(const pn_layer *l);
/* Number of parameters. */
PN_API int pn_layer_num_params(const pn_layer *l);
/* Parameter i (from 0), NULL out of range. Borrowed. */
PN_API pn_tensor *pn_layer_param(const pn_layer *l, int i);
/* Its name, as "weight". Borrowed, static. */
PN_API const char *pn_layer_param_name(const pn_layer *l, int i);
/* Number of buffers: what changes and is not trained, as running statistics; saved with the parameters. */
PN_API int pn_layer_num_buffers(const pn_layer *l);
/* Buffer i (from 0), NULL out of range. Borrowed. */
PN_API pn_tensor *pn_layer_buffer(const pn_layer *l, int i);
/* Its name, as "running_mean". Borrowed, static. */
PN_API const char *pn_layer_buffer_name(const pn_layer *l, int i);
/* How many inputs it takes, optional ones included. */
PN_API int pn_layer_num_inputs(const pn_layer *l);
/* The output for n inputs (NULL: an optional one that is absent); layers that draw use rng (NULL: the context's).
 * Scoped; PN_SHAPE, PN_DTYPE, PN_STATE. */
PN_API pn_tensor *pn_layer_call(pn_context *c, const pn_layer *l, int n, pn_tensor *const *in, pn_mode mode,
                                pn_rng *rng);
/* The same for one input. */
PN_API pn_tensor *pn_layer_forward(pn_context *c, const pn_layer *l, pn_tensor *x, pn_mode mode, pn_rng *rng);
/* KL divergence from posterior to prior over all the layer's parameters, 0-d; 0 for layers without. Scoped. */
PN_API pn_tensor *pn_layer_kl(pn_context *c, const pn_layer *l);
/* Mean and variance of the output, over the posterior and an input of the given mean and variance: of the mean's shape,
 * or a covariance [..., n, n] over its last axis, and then so is the result; variance NULL: the input is certain.
 * *out_variance is NULL where the output is. Each scoped. PN_MISSING, PN_SHAPE, PN_DTYPE. */
PN_API pn_status pn_layer_moments(pn_context *c, const pn_layer *l, pn_tensor *mean, pn_tensor *variance, pn_mode mode,
                                  pn_tensor **out_mean, pn_tensor **out_variance);
/* How many tensors [..., hidden] the state of a recurrent layer is (gru 1: h, lstm 2: h, c); 0: not recurrent. */
PN_API int pn_layer_num_states(const pn_layer *l);
/* A recurrent layer over the sequence x [T, ..., in] from `state` (num_states tensors; state NULL: zeros, and so its
 * entries): the outputs of all steps [T, ..., hidden] (outputs may be NULL) and the state after the last one, each
 * scoped. PN_MISSING for other layers, PN_SHAPE, PN_DTYPE. */
PN_API pn_status pn_layer_unroll(pn_context *c, const pn_layer *l, pn_tensor *x, pn_tensor *const *state, pn_mode mode,
                                 pn_rng *rng, pn_tensor **outputs, pn_tensor **last);
/* One step: x [..., in] and state (NULL: zeros) to the next state, whose first tensor is the output; each scoped. */
PN_API pn_status pn_layer_step(pn_context *c, const pn_layer *l, pn_tensor *x, pn_tensor *const *state, pn_mode mode,
                               pn_rng *rng, pn_tensor **next);

/* An optimiser over a fixed list of parameters, which it keeps alive. */
typedef struct pn_optim pn_optim;

/* An optimiser ("sgd", "adam", "adamw", "nadam", "rmsprop", "adagrad") over n parameters. names (may be NULL, as may
 * each) serve messages and state keys; options may be NULL. New; PN_MISSING, PN_STATE (no parameter, one twice),
 * PN_DOMAIN, PN_NOMEM. */
PN_API pn_optim *pn_optim_new(pn_context *c, const char *type, int n, pn_tensor *const *params,
                              const char *const *names, const pn_option *options);
/* One more reference; returns o. */
PN_API pn_optim *pn_optim_ref(pn_optim *o);
/* One reference less; the last frees o. NULL is a no-op. */
PN_API void pn_optim_unref(pn_optim *o);
/* Clears the gradients, differentiates the one-element loss and updates the parameters, and the buffers whose updates
 * the loss carries (pn_with_update), in place. Everything is checked first: on failure parameters and state are as they
 * were. PN_NAN names the parameter and the operation where the first non-finite number arose; else as pn_backward. */
PN_API pn_status pn_optim_step(pn_context *c, pn_optim *o, pn_tensor *loss);
/* The update alone, from grads[i] for parameter i (NULL: it rests); grads NULL: what pn_backward left. PN_NAN,
 * PN_SHAPE, PN_DTYPE, PN_STATE; then nothing was changed. */
PN_API pn_status pn_optim_apply(pn_context *c, pn_optim *o, pn_tensor *const *grads);
/* Changes an option, as "lr". PN_DOMAIN. */
PN_API pn_status pn_optim_set(pn_context *c, pn_optim *o, const char *option, double value);
/* Reads an option. PN_DOMAIN. */
PN_API pn_status pn_optim_get(pn_context *c, const pn_optim *o, const char *option, double *value);
/* Gives parameter number i (from 0) an option of its own, or with "lr_scale" a factor of the rate that the others have.
 * PN_DOMAIN names the option (those of clipping are of all parameters together), PN_NOMEM. */
PN_API pn_status pn_optim_set_own(pn_context *c, pn_optim *o, int i, const char *option, double value);
/* The optimiser's type name. Borrowed, static. */
PN_API const char *pn_optim_type(const pn_optim *o);
/* Number of parameters. */
PN_API int pn_optim_num_params(const pn_optim *o);
/* Parameter i (from 0), NULL out of range. Borrowed. */
PN_API pn_tensor *pn_optim_param(const pn_optim *o, int i);
/* Number of state tensors: the counts of updates, then the slots of each parameter. */
PN_API int pn_optim_num_states(const pn_optim *o);
/* The key of state tensor `index`, as "m.weight", written to buf, which is returned; NULL out of range. */
PN_API const char *pn_optim_state_name(const pn_optim *o, int index, char *buf, size_t size);
/* A copy of state tensor `index`. Scoped; PN_DOMAIN, PN_NOMEM. */
PN_API pn_tensor *pn_optim_state(pn_context *c, const pn_optim *o, int index);
/* Restores a state tensor: counts of steps from 0, finite numbers, sums of squares from 0; else PN_DOMAIN, and nothing
 * has changed. PN_SHAPE, PN_DTYPE. */
PN_API pn_status pn_optim_set_state(pn_context *c, pn_optim *o, int index, pn_tensor *value);

/* ---- estimators ------------------------------------------------------------------------------ */

/* Number of estimators of variational inference and importance sampling. */
PN_API int pn_estimator_count(void);
/* The name of estimator i, from 0, or NULL outside. Borrowed, static. */
PN_API const char *pn_estimator_name(int i);
/* The estimator ("elbo", "iwae", ...) of n tensors, names[k] belonging to values[k]; names NULL: the declared order;
 * an input that takes several tensors (z) is named once for each; options may be NULL. Log-weights are [K, B]: K draws
 * for each of B data. A bound comes out as one number whose value is the bound, the mean over data, and whose gradient
 * is the estimator's gradient. Estimators with two results give the second by `second` (may be NULL). Weights of -inf
 * give -inf and no gradient. Scoped; PN_MISSING, PN_STATE (an input lacks), PN_SHAPE, PN_DTYPE, PN_DOMAIN, PN_NAN,
 * PN_DEGENERATE (all weights of all data are -inf). */
PN_API pn_tensor *pn_estimate(pn_context *c, const char *estimator, int n, const char *const *names,
                              pn_tensor *const *values, const pn_option *options, pn_tensor **second);

/* Sampling importance resampling: n draws of equal weight for each datum, as places among the K of log_w [K, B], int64
 * [n, B]. rng NULL: the context's. Scoped; PN_SHAPE, PN_DOMAIN, PN_NAN, PN_DEGENERATE (a datum without any weight). */
PN_API pn_tensor *pn_sir(pn_context *c, pn_rng *rng, pn_tensor *log_w, int64_t n);

/* ---- Gaussian sites of data ------------------------------------------------------------------ */
/* A fully connected network with an independent normal posterior, its likelihood, and how to sum. */
typedef struct pn_site_options {
  int num_layers;
  /* Linear layers, each followed by an activation (relu, leaky_relu, elu, selu, gelu, silu, tanh, sigmoid, softplus,
   * softsign, hard_tanh, hard_sigmoid) or by none. */
  const pn_layer *const *layers;
  pn_tensor *mean, *scale; /* [P] of all parameters, in the layers' order: means and standard deviations */
  /* Of outputs f for y [N, out]: "normal" (mean f), "bernoulli" (logits f); for int64 classes y [N]: "categorical"
   * (logits f). */
  const char *likelihood;
  double noise_scale; /* of "normal": its standard deviation */
  pn_tensor *weights; /* [N], exponents of the likelihood of each datum; NULL: 1 */
  int64_t draws;      /* of the weights */
  int antithetic;     /* of 16 draws the last 8 mirror the first 8 at the mean; draws must be even */
  int each;           /* a site for each datum, or only their product */
  size_t budget;      /* bytes for intermediate results, about, which change none; 0: 64 MiB, less under a limit */
} pn_site_options;

typedef struct pn_sites {
  pn_tensor *precision_mean, *precision; /* natural parameters: [P] of the product of all sites, or [N, P] with each */
  pn_tensor *expected_log_likelihood;    /* [N] E_q[log p(y_n | x_n, w)] */
  pn_tensor *expected_log_site;          /* [N] E_q[log r_n(w)], r_n the site without its constant */
} pn_sites;

/* Sites of data x [N, in], y at a posterior, by Monte Carlo (Kurle et al. 2020, equations 5a, 5b): with g the gradient
 * of log p(y_n | x_n, w) at w = mean + scale eps, precision = -mean(g eps) / scale and precision_mean = mean(g) +
 * precision mean. All data share the draws, which depend on rng (NULL: the context's) alone: a datum's site has the
 * same bits whatever data stand beside it, for any budget and number of threads. Results scoped, without gradient; on
 * failure rng stands where it stood. PN_MISSING (a layer or likelihood that it does not know), PN_SHAPE, PN_DTYPE,
 * PN_DOMAIN, PN_STATE (a tensor lacks, or a capture goes on), PN_CANCELLED. */
PN_API pn_status pn_gaussian_sites(pn_context *c, const pn_site_options *o, pn_tensor *x, pn_tensor *y, pn_rng *rng,
                                   pn_sites *out);

/* ---- exact transport of mass (network simplex) ---- */
/* The plan of least cost that moves shares a to shares b: [B, n, m] for costs [B, n, m] and weights a [B, n], b [B, m]
 * of one dtype, each numbers from 0 on that are divided by their sum. The least cost is the sum of plan times cost; in
 * a cost that depends on parameters this has the right gradient, the plan itself has none. PN_SHAPE, PN_DOMAIN. */
PN_API pn_tensor *pn_transport(pn_context *c, pn_tensor *cost, pn_tensor *a, pn_tensor *b);
/* The Wasserstein-1 distance of images [B, rows, columns] as distributions over pixels, in pixels by Euclid: [B]; NaN
 * where an image is empty or has a value that is negative or no number. No gradient. PN_SHAPE. */
PN_API pn_tensor *pn_image_transport(pn_context *c, pn_tensor *a, pn_tensor *b);

/* Sums of weights in constant memory, of draws that arrive a few at a time. */
typedef struct pn_weight_stream pn_weight_stream;

/* An empty stream; with draws > 0 it can tell k-hat of up to so many draws, else draws is 0. New; PN_DOMAIN. */
PN_API pn_weight_stream *pn_weight_stream_new(pn_context *c, int64_t draws);
/* One more reference; returns s. NULL passes. */
PN_API pn_weight_stream *pn_weight_stream_ref(pn_weight_stream *s);
/* One reference less; the last frees s. NULL is a no-op. */
PN_API void pn_weight_stream_unref(pn_weight_stream *s);
/* Adds log-weights [k, B], B the same every time. PN_SHAPE, PN_DTYPE, PN_NAN, PN_DOMAIN; then nothing was added. After
 * PN_CANCELLED some were, and the stream refuses everything with PN_STATE. */
PN_API pn_status pn_weight_stream_add(pn_context *c, pn_weight_stream *s, pn_tensor *log_w);
/* Draws of each datum so far. */
PN_API int64_t pn_weight_stream_count(const pn_weight_stream *s);
/* Of each datum, [B] float64: "log_mean" (log of the mean weight), its "standard_error" (delta method), "elbo" (mean
 * log-weight), "effective_sample_size" or "pareto_k". Scoped; PN_MISSING, PN_STATE (nothing added; more draws than
 * k-hat was asked for). */
PN_API pn_tensor *pn_weight_stream_get(pn_context *c, const pn_weight_stream *s, const char *what);

/* ---- capture and replay ------------------------------------------------------------------------
 * A capture notes what is computed between its begin and its end; the plan it gives does the same again on
 * other inputs of the same shapes, from memory laid out once, to the same bits as an eager call:
 *
 *     pn_capture_begin(c, 1, &x, &inside);
 *     pn_tensor *loss = f(c, inside);             builders, pn_grad and pn_optim_step as ever
 *     pn_plan *plan = pn_capture_end(c, 1, &loss);
 *     pn_plan_run(c, plan, 1, &x2, &loss2);       and so on
 *
 * Parameters are read in place, and an update by pn_optim_step is repeated. Draws are repeated as fresh
 * draws of the same generator: a replay takes the positions that the eager call would. Everything else from
 * outside is a constant. What would be frozen is refused with PN_STATE: taking numbers out of a tensor that
 * varies, results whose shape depends on values, making or setting parameters, making or seeding generators, and
 * going on after a failure that may not come again (PN_DOMAIN, PN_SINGULAR, PN_NAN ... that was cleared). */

/* The steps of a captured computation. */
typedef struct pn_plan pn_plan;

/* Begins a capture. inside[k] stands for in[k] (data, no parameter) in what is captured; each is scoped.
 * PN_STATE within another capture; PN_NOMEM. */
PN_API pn_status pn_capture_begin(pn_context *c, int n, pn_tensor *const *in, pn_tensor **inside);
/* Ends the capture, also on failure; out are the results of the plan. A failure that is pending makes it
 * fail. New; PN_STATE, PN_NOMEM. */
PN_API pn_plan *pn_capture_end(pn_context *c, int n, pn_tensor *const *out);
/* Ends the capture without a plan. A no-op if there is none. */
PN_API void pn_capture_cancel(pn_context *c);
/* 1 while a capture is going on. */
PN_API int pn_capturing(const pn_context *c);
/* One more reference; returns p. */
PN_API pn_plan *pn_plan_ref(pn_plan *p);
/* One reference less; the last frees p. NULL is a no-op. */
PN_API void pn_plan_unref(pn_plan *p);
/* The same plan in another context, for a thread of its own: constants and parameters are copied as they are now,
 * draws come from c's default generator. New; PN_STATE if p updates parameters, PN_NOMEM. */
PN_API pn_plan *pn_plan_copy(pn_context *c, const pn_plan *p);
/* 1 if the inputs have the number, shapes and dtypes that p was captured with, and are data. */
PN_API int pn_plan_fits(const pn_plan *p, int n, pn_tensor *const *in);
/* Replays p; each out[k] is scoped, new data without a graph. Gives back any failure of the operations; then
 * parameters and generators are as they were, unless the failure came after an update. Allocates nothing but the
 * results, and copies of large inputs that are strided, once the context's pool is warm. PN_SHAPE if the inputs do
 * not fit, PN_NAN from an update, PN_CANCELLED, PN_NOMEM. */
PN_API pn_status pn_plan_run(pn_context *c, pn_plan *p, int nin, pn_tensor *const *in, pn_tensor **out);
/* Replays p, of one input x [n] and one result y [m], float64, for each row of rows [N, n]: [N, m]. Scoped. PN_SHAPE,
 * and any failure of the operations. */
PN_API pn_tensor *pn_plan_map(pn_context *c, pn_plan *p, pn_tensor *rows);
/* ---- vmap: one computation for a batch of examples ----
 * What is computed between begin and end for one example is done for all of them at once, by batched operations:
 *
 *     pn_vmap_begin(c, 2, (pn_tensor *[]){x, w}, (int[]){1, 0}, in);      x [N, d] holds examples, w is the same for
 *     all
 *     pn_tensor *y = f(c, in[0], in[1]);                                  in[0] [d]: builders and pn_grad as ever
 *     pn_vmap_end(c, 1, &y, &all);                                        [N, shape of y...]
 *
 * The results have gradients, in x, w and in what f finds outside, and may be part of a capture. Few operations are
 * done example by example where no batched form is known. Refused with PN_STATE: random draws, updates, and what a
 * capture refuses. */

/* Begins: mapped[k] is not 0 where the first axis of in[k] counts examples, as many in each. inside[k] is the first of
 * them (zeros if there are none), or in[k] itself; scoped. PN_SHAPE, PN_DOMAIN (none is mapped), PN_NOMEM. */
PN_API pn_status pn_vmap_begin(pn_context *c, int n, pn_tensor *const *in, const int *mapped, pn_tensor **inside);
/* Ends it, also on failure (pn_capture_cancel ends it without results): out[k] [N, shape of result[k]...], scoped; of
 * no meaning on failure. PN_STATE, PN_NOMEM, and any failure of the operations. */
PN_API pn_status pn_vmap_end(pn_context *c, int n, pn_tensor *const *result, pn_tensor **out);
/* Number of steps of a replay, those of a loop counted once, small ones that follow one another together. */
PN_API int pn_plan_num_steps(const pn_plan *p);
/* Number of loops. What a capture notes over and over (32 times or more), with operands that move on evenly from time
 * to time, becomes a loop: the size of the plan does not depend on how long it is, and results are the same bits. */
PN_API int pn_plan_num_loops(const pn_plan *p);
/* Bytes that its tensors take together. Large inputs and results, which stay where they are, do not count. */
PN_API size_t pn_plan_memory(const pn_plan *p);

/* ---- differential equations ----------------------------------------------------------------------
 * dy/dt = f(t, y, parameters) from y0 at the first time, with adaptive steps: by the Runge-Kutta pair of order 5(4) of
 * Dormand & Prince (Hairer, Norsett & Wanner I, II.4 to II.6) and its interpolant of order 4, or, for stiff systems, by
 * the Rosenbrock method RODASP of order 4(3) (Steinebach 1995; Hairer & Wanner II, VI.4) and its interpolant of order
 * 3. f is a plan, so that solving calls nobody:
 *
 *     pn_capture_begin(c, 3, (pn_tensor *[]){t, y, theta}, in);        t 0-d, y of y0's shape, all float64
 *     pn_tensor *slope = pn_mul(c, pn_neg(c, in[2]), in[1]);
 *     pn_plan *f = pn_capture_end(c, 1, &slope);
 *     pn_tensor *y = pn_odeint(c, f, NULL, NULL, y0, times, 1, &theta);     [T, shape of y0...]
 *
 * A gradient needs a second plan, of t, y, parameters and v, which gives v^T df/dy and v^T df/dparameter for each. It
 * is the gradient of the discrete solution, steps held as they were. (60 parameters are possible, 59 with the second
 * method or events: more are put end to end, and taken apart within the plans.) */
typedef enum pn_ode_method { PN_DORMAND_PRINCE, PN_ROSENBROCK } pn_ode_method;

/* A number that passes through zero. The value of plan `events` and what is found of it go by the order of the list. */
typedef struct pn_ode_event {
  char name[32]; /* for messages */
  int direction; /* 1: upwards, -1: downwards, 0: both */
  int terminal;  /* the solution ends there */
  int count;     /* how many times it may occur */
} pn_ode_event;

typedef struct pn_ode_config {
  double rtol, atol; /* the error of a step is held below atol + rtol |y| (root mean square); 0: 1e-6, 1e-8 */
  int max_steps;     /* that may be tried; 0: 10000 */
  double first_step; /* 0: one is looked for */
  double max_step;   /* 0: no limit */
  pn_ode_method method;
  int checkpoints;    /* for a gradient in memory of the square root of the number of steps, the same bits */
  pn_plan *jacobian;  /* of PN_ROSENBROCK: t, y, parameters -> df/dy [n, n] and df/dt [n], n the elements of y */
  pn_plan *curvature; /* and for its gradient: besides v, u like y, tau -> the gradients of v^T (df/dy u + tau df/dt)
                          in y and each parameter */
  int num_events;
  const pn_ode_event *event; /* a list that need not outlast the call */
  pn_plan *events;           /* t, y, parameters -> values [num_events] */
  pn_plan *events_pullback;  /* for their gradient: besides w [num_events] -> the gradients of w^T values in y, each
                                parameter and t */
} pn_ode_config;

/* The solution at the T times (in increasing or decreasing order; y0 holds at the first). f: t, y, n parameters ->
 * dy/dt; pullback NULL: no gradient can be asked for. The result holds a reference of all plans. config may be NULL.
 * With events the result is a vector: the solution (NaN after an event that ends it), then for each event how many
 * times it occurred, `count` times and as many states (NaN where it did not).
 * A plan that is captured holds the operation, and pn_plan_copy copies its plans with it. Scoped. PN_SHAPE,
 * PN_DTYPE; PN_STATE (f draws or changes parameters; a gradient without pullback); PN_DOMAIN (times, settings, too many
 * or too short steps), PN_NAN (f is not finite), PN_CANCELLED, and any failure of f. */
PN_API pn_tensor *pn_odeint(pn_context *c, pn_plan *f, pn_plan *pullback, const pn_ode_config *config, pn_tensor *y0,
                            pn_tensor *times, int n, pn_tensor *const *params);

/* ---- sampling ------------------------------------------------------------------------------------
 * Hamiltonian Monte Carlo on the density that a plan computes: z [n] -> log density [1], gradient [n], all float64.
 *
 *     pn_sampler *s = pn_sampler_new(c, plan, &config, NULL, NULL);
 *     while (!pn_sampler_finished(s) && pn_sampler_run(c, s, 100) == PN_OK) show(progress);
 *     pn_tensor *draws = pn_sampler_draws(c, s);
 *
 * Chains run in threads of c, each with a copy of the plan in a context of its own: what these take counts as c's,
 * under its limit, as they take it (with more than one thread from malloc), and they end with c's cancellation or
 * deadline within an evaluation too. Draws depend on the generator alone, not on the number of threads or on how many
 * iterations a call makes. */
typedef struct pn_sampler pn_sampler;

/* The form of the inverse mass matrix; what it is estimated by: draws and gradients (Fisher divergence), or variances
 * of draws as in Stan; the windows that it is estimated in. */
typedef enum pn_metric { PN_METRIC_DIAGONAL = 1, PN_METRIC_LOW_RANK, PN_METRIC_DENSE } pn_metric;
typedef enum pn_metric_estimator { PN_ESTIMATOR_FISHER = 1, PN_ESTIMATOR_STAN } pn_metric_estimator;
typedef enum pn_warmup_schedule { PN_SCHEDULE_OVERLAPPING = 1, PN_SCHEDULE_STAN } pn_warmup_schedule;

typedef struct pn_sampler_config {
  int chains, draws;    /* iterations are per chain; 0: 4, 1000 */
  int warmup;           /* -1: none; 0: 300, or as many more, up to four times that, as chains take to agree;
                                1000 with Stan's schedule */
  int metric;           /* PN_METRIC_...; 0: low rank */
  int estimator;        /* PN_ESTIMATOR_...; 0: Fisher */
  int schedule;         /* PN_SCHEDULE_...; 0: overlapping */
  int max_depth;        /* of the no-U-turn sampler: 2^max_depth - 1 leapfrogs at most; 0: 10 */
  int max_steps;        /* above 0: trajectories of so many leapfrogs instead */
  double target_accept; /* mean acceptance that the step size is adapted to; 0: 0.8 */
  double step_size;     /* of the first leapfrog; 0: one is looked for */
  double radius;        /* starts are uniform on (-radius, radius); 0: 2 */
} pn_sampler_config;

/* A sampler that has made no iteration. start: [chains, n] (float64); start NULL: drawn at random until
 * the density is positive; from rng one stream a chain is split off. New; PN_DOMAIN
 * (a setting, or no start with positive density), PN_SHAPE, PN_NOMEM. */
PN_API pn_sampler *pn_sampler_new(pn_context *c, const pn_plan *plan, const pn_sampler_config *config, pn_tensor *start,
                                  pn_rng *rng);
/* Frees it. NULL is a no-op. */
PN_API void pn_sampler_free(pn_sampler *s);
/* Makes at most n further iterations of every chain: warm-up first, whose draws are not kept. After a failure
 * (PN_CANCELLED, PN_NOMEM) what was drawn is there and it can go on. */
PN_API pn_status pn_sampler_run(pn_context *c, pn_sampler *s, int n);
/* 1 when all iterations are made. */
PN_API int pn_sampler_finished(const pn_sampler *s);
/* Iterations made so far, warm-up included. */
PN_API int pn_sampler_iteration(const pn_sampler *s);
/* Draws so far [chains, draws, n]. Scoped. */
PN_API pn_tensor *pn_sampler_draws(pn_context *c, const pn_sampler *s);
/* Of each draw [chains, draws, 7]: log density, mean acceptance, step size, depth of the trajectory, leapfrogs, 1 where
 * it diverged, energy. Scoped. */
PN_API pn_tensor *pn_sampler_statistics(pn_context *c, const pn_sampler *s);
/* Iterations of warm-up: what config said, or as many as they are to be so far. */
PN_API int pn_sampler_warmup(const pn_sampler *s);
/* Evaluations of the density and its gradient so far, of all chains, warm-up included. */
PN_API int64_t pn_sampler_gradients(const pn_sampler *s);
/* The inverse mass matrices: diagonals [chains, n], else [chains, n, n]. Scoped. */
PN_API pn_tensor *pn_sampler_metric(pn_context *c, const pn_sampler *s);

/* Of draws [chains, draws, m] (float64, at least 4 draws a chain) a row for each of the m quantities, [m, 9]: mean,
 * standard deviation, quantiles 5 %, 50 %, 95 %, rank-normalised split R-hat, effective sample sizes of the bulk and of
 * the tails, standard error of the mean (Vehtari et al. 2021). NaN where a draw is not finite; R-hat is NaN where all
 * are equal. Scoped. PN_SHAPE, PN_CANCELLED, PN_NOMEM. */
PN_API pn_tensor *pn_draws_summary(pn_context *c, pn_tensor *draws);

/* ---- targets: a density that a host evaluates and samples -----------------------------------------
 * The log density of a script's model (pn_runtime_target) or of a function of the host, of a vector z of real numbers.
 * A target belongs to a context and shares nothing with others: one thread in a context at a time, as ever; targets of
 * several contexts are evaluated side by side.
 *
 *     pn_runtime_target(rt, "target", c, &t);          after: target = model:target(x, y)
 *     pn_target_evaluate(c, t, z, &log_density, gradient);
 *     pn_sampler *s = pn_target_sampler(c, t, &config, NULL, NULL); */
typedef struct pn_target pn_target;

/* Log density (up to a constant) and gradient [n] at z [n]. PN_DOMAIN, PN_SINGULAR or PN_NAN: the density is 0 there;
 * other failures end the call that asked. A sampler calls it from the threads of its context, several at a time. */
typedef pn_status (*pn_density)(void *data, const double *z, double *log_density, double *gradient);

/* A variable of a model: its elements are values[first] to values[first + size - 1] of pn_target_constrain. */
typedef struct pn_variable {
  const char *name;
  int ndim;
  int64_t shape[PN_MAX_DIMS];
  int64_t first, size;
  int deterministic; /* 1: computed from others (m:deterministic) */
} pn_variable;

/* The target of plans that are copied: density, z [n] -> log density [1], gradient [n], and values, z -> values [m] of
 * the n_variables variables in order (first and size are ignored); all float64. values NULL: z itself is the only
 * variable. New; PN_SHAPE, PN_STATE (a plan updates parameters), PN_NOMEM. */
PN_API pn_target *pn_target_new(pn_context *c, const pn_plan *density, const pn_plan *values, int n_variables,
                                const pn_variable *variables);
/* The target of a function of n numbers; its only variable is "z". `data` (may be NULL) must live as long. New;
 * PN_DOMAIN, PN_NOMEM. */
PN_API pn_target *pn_target_of_function(pn_context *c, int64_t n, pn_density f, void *data);
/* A copy for another context, which another thread may use. New; PN_NOMEM. */
PN_API pn_target *pn_target_copy(pn_context *c, const pn_target *t);
/* Frees it; samplers made of it live on. NULL is a no-op. */
PN_API void pn_target_free(pn_target *t);
/* Numbers n in z. */
PN_API int64_t pn_target_size(const pn_target *t);
/* Numbers that the variables have together. */
PN_API int64_t pn_target_num_values(const pn_target *t);
/* How many variables there are. */
PN_API int pn_target_num_variables(const pn_target *t);
/* Variable i, NULL if there is none. Borrowed. */
PN_API const pn_variable *pn_target_variable(const pn_target *t, int i);
/* Log density and gradient [n] at z [n], both with the bijectors' log determinants; where the density is 0 -inf and
 * gradient 0. Allocates nothing once it is warm. PN_CANCELLED, PN_NOMEM, what a host's function says. */
PN_API pn_status pn_target_evaluate(pn_context *c, pn_target *t, const double *z, double *log_density,
                                    double *gradient);
/* The values of the variables, within their supports, at each row of z [rows, n]: values [rows, num_values].
 * PN_CANCELLED, PN_NOMEM, failures of the model's operations. */
PN_API pn_status pn_target_constrain(pn_context *c, pn_target *t, int64_t rows, const double *z, double *values);
/* pn_sampler_new for a target. start NULL: as there. */
PN_API pn_sampler *pn_target_sampler(pn_context *c, const pn_target *t, const pn_sampler_config *config,
                                     pn_tensor *start, pn_rng *rng);

/* ---- populations: a function of a vector at many points, side by side -----------------------------
 * A plan of one input x [n] and one result y [m], float64, copied for each thread of c into a context of its own: what
 * these take counts as c's, under its limit, as they take it (with more than one thread from malloc), and they end with
 * c's cancellation or deadline within an evaluation too. */
typedef struct pn_population pn_population;

/* New; PN_SHAPE (the plan has another form), PN_STATE (it draws at random or updates parameters), PN_NOMEM. */
PN_API pn_population *pn_population_new(pn_context *c, const pn_plan *plan);
/* Frees it. NULL is a no-op. */
PN_API void pn_population_free(pn_population *q);
/* y [N, m] for each row of rows [N, n], the same bits for any number of threads. A point where the function fails with
 * PN_DOMAIN, PN_SINGULAR or PN_NAN has -inf in all places: a density is 0 there. Scoped. PN_SHAPE, PN_CANCELLED,
 * PN_NOMEM, and other failures of the operations. */
PN_API pn_tensor *pn_population_evaluate(pn_context *c, pn_population *q, pn_tensor *rows);

/* ---- sequential Monte Carlo ------------------------------------------------------------------------
 * Particles are the first axis; filters that run side by side, each by itself, are the next ones: log-weights [N] or
 * [N, B...], a part of a state [N, B..., event...]. Ancestors are int64, 0-based, within a filter. */

/* Number of resampling schemes. */
PN_API int pn_resampler_count(void);
/* The name of scheme i, from 0, or NULL outside. Borrowed, static. */
PN_API const char *pn_resampler_name(int i);
/* Ancestors [N, B...] by log-weights of any sum; rng NULL: the context's. Scoped. PN_MISSING (scheme), PN_DEGENERATE
 * (all weights of a filter are 0), PN_NAN, PN_DOMAIN (+inf), PN_SHAPE, PN_DTYPE. */
PN_API pn_tensor *pn_resample(pn_context *c, const char *scheme, pn_rng *rng, pn_tensor *log_w);
/* x[ancestors[i, b], b, ...] at [i, b, ...]. Differentiable in x. Scoped. PN_SHAPE, PN_DTYPE, PN_DOMAIN. */
PN_API pn_tensor *pn_select_particles(pn_context *c, pn_tensor *x, pn_tensor *ancestors);

/* The part of a particle filter that all models share: weights, evidence, when and how to resample.
 *
 *     pn_smc *s = pn_smc_new(c, &config, NULL);
 *     each step:  pn_smc_resample(c, s, &ancestors);  if (ancestors) x = pn_select_particles(c, x, ancestors);
 *                 x = (the host moves it);  increment = pn_smc_weigh(c, s, log_g);                              */
typedef struct pn_smc pn_smc;

typedef struct pn_smc_config {
  int64_t num_particles;
  const char *resampling; /* a scheme; NULL: "systematic" */
  double threshold;       /* resample where the effective sample size is at most threshold N: 0 never, 1 always */
  int nbatch;             /* axes B */
  int64_t batch[PN_MAX_DIMS];
  const char *gradient; /* through resampling: NULL or "dropped", "stop_gradient", "score_function", "soft" */
  double alpha;         /* with "soft": ancestors by alpha w + (1 - alpha) / N */
  int trace;            /* record what happens at each step, for pn_smc_trace */
  int history;          /* pn_smc_keep is going to be called after each step */
  int conditional;      /* the last particle of a filter is its own ancestor (conditional SMC; multinomial) */
  int zero_possible;    /* weights of a filter that are all 0 make its evidence 0 from there on; else a failure */
} pn_smc_config;

/* A machine; rng NULL: the context's generator. New. PN_DOMAIN, PN_MISSING, PN_NOMEM. */
PN_API pn_smc *pn_smc_new(pn_context *c, const pn_smc_config *config, pn_rng *rng);
/* Frees it. NULL is a no-op. */
PN_API void pn_smc_free(pn_smc *s);
/* Ancestors [N, B...] for the next step in *ancestors, scoped, or NULL where no filter is due; one that is not keeps
 * its places among them. Their weights are equal from here on. (A capture gets ancestors whoever is due.) PN_NOMEM,
 * PN_DOMAIN. */
PN_API pn_status pn_smc_resample(pn_context *c, pn_smc *s, pn_tensor **ancestors);
/* With config.conditional and a threshold of 1: the next resampling gives the last particle of each filter this
 * ancestor [B...], int64, in place of itself (ancestor sampling). PN_STATE, PN_SHAPE, PN_DOMAIN (outside 0 .. N -
 * 1). */
PN_API pn_status pn_smc_assign(pn_context *c, pn_smc *s, pn_tensor *ancestor);
/* Multiplies the weights by exp(log_increment [N, B...]) and normalises: the increment [B...] of the log-evidence, the
 * logarithm of the sum of weights before that. Differentiable where log_increment is. Scoped. PN_DEGENERATE, PN_NAN,
 * PN_DOMAIN (+inf), PN_SHAPE: names the step, and nothing has changed. */
PN_API pn_tensor *pn_smc_weigh(pn_context *c, pn_smc *s, pn_tensor *log_increment);
/* The same, but no step of its own: a part of the next step's, as the first-stage weights of the auxiliary filter. */
PN_API pn_tensor *pn_smc_tilt(pn_context *c, pn_smc *s, pn_tensor *log_factor);
/* What is known: "log_weights" [N, B...], normalised; "weights"; "log_evidence" [B...], float64; "log_increment",
 * "effective_sample_size", "largest_weight" [B...]; "ancestor_log_prob" [N, B...]: log-weights that the ancestors were
 * chosen by, 0 in filters that were not due (after pn_smc_resample and before pn_smc_weigh, else NULL without an
 * error); "weighed": all that pn_smc_restore needs. NULL without an error as long as there is none. Scoped.
 * PN_MISSING. */
PN_API pn_tensor *pn_smc_get(pn_context *c, pn_smc *s, const char *what);
/* Goes on from weights that pn_smc_get called "weighed"; weighed NULL: from the beginning. Neither evidence nor steps
 * change. PN_SHAPE, PN_DOMAIN (weights that no machine gives: NaN, negative, of another sum than 1). */
PN_API pn_status pn_smc_restore(pn_context *c, pn_smc *s, pn_tensor *weighed);
/* With config.trace: [T, 6, B...], float64, for each step the effective sample size, how many particles of the step
 * before have descendants, the largest weight, the increment of the log-evidence, whether ancestors were chosen (0 or
 * 1), and the variance of the log-evidence so far, as this one run tells it (Lee & Whiteley 2018). Scoped. PN_STATE. */
PN_API pn_tensor *pn_smc_trace(pn_context *c, pn_smc *s);
/* With config.history: keeps the parts [N, B..., event...] of this step's state; particles without descendants are
 * forgotten, so that O(T + N log N) remain. PN_SHAPE, PN_STATE, PN_LIMIT (64 parts); nothing has changed then. */
PN_API pn_status pn_smc_keep(pn_context *c, pn_smc *s, int parts, pn_tensor *const *part);
/* Part `part` (from 0) along the paths of all particles (which NULL: [T, N, B..., event...]), or of those at `which`
 * [B...], int64, in each filter: [T, B..., event...]. Scoped. PN_STATE, PN_DOMAIN, PN_NOMEM. */
PN_API pn_tensor *pn_smc_paths(pn_context *c, pn_smc *s, int part, pn_tensor *which);
/* Particles of all steps that are kept; bytes (may be NULL) receives the memory. */
PN_API int64_t pn_smc_nodes(const pn_smc *s, size_t *bytes);
/* How often weights were updated. */
PN_API int64_t pn_smc_steps(const pn_smc *s);
/* Back to the beginning: equal weights, evidence 1, no steps. The generator goes on. */
PN_API void pn_smc_reset(pn_smc *s);

/* ---- filters online: one observation at a time -------------------------------------------------------
 * The filter of a script (pn_runtime_filter) or the exact one of a linear Gaussian model. It belongs to a context and
 * draws from its default generator. Once it is warm an observation allocates nothing.
 *
 *     pn_runtime_filter(rt, "filter", c, &f);          after: filter = pn.smc.filter{...}:online{observation = 2}
 *     while (scanf("%lf %lf", &y[0], &y[1]) == 2 && pn_filter_observe(c, f, y, 2, &increment) == PN_OK)
 *       printf("%g\n", pn_filter_mean(f)[0]);                                                                      */
typedef struct pn_filter pn_filter;

/* State x' = a x + b + N(0, q), the first one N(mean, cov); observation y = emission x + d + N(0, r). Of float64 or
 * float32, without batch axes; b, d may be NULL. */
typedef struct pn_filter_model {
  pn_tensor *mean, *cov, *a, *b, *q, *emission, *d, *r;
} pn_filter_model;

/* A particle filter of plans that are copied: first (y [p], t) and step (state..., y [p], t), and both without y, each
 * to state..., summary [2 + 2 m]: increment of the log-evidence, effective sample size, means and variances of m
 * numbers; t is 0-d, from 1; float64 but for the state, of at most 64 parts. New. PN_SHAPE, PN_NOMEM. */
PN_API pn_filter *pn_filter_new(pn_context *c, const pn_plan *first, const pn_plan *step, const pn_plan *first_missing,
                                const pn_plan *step_missing);
/* The exact filter; up to 4096 states and observed numbers. New. PN_SHAPE, PN_STATE, PN_NOMEM. */
PN_API pn_filter *pn_filter_kalman(pn_context *c, const pn_filter_model *model);
/* A copy as it is now for another context, which another thread may use. New. PN_NOMEM. */
PN_API pn_filter *pn_filter_copy(pn_context *c, const pn_filter *f);
/* Frees it. NULL is a no-op. */
PN_API void pn_filter_free(pn_filter *f);
/* Takes y [n] in, y NULL: it is missing (to the exact filter single numbers are missing where they are NaN); increment
 * (may be NULL) receives that of the log-evidence. PN_DEGENERATE, PN_NAN, PN_SINGULAR...: the message names the step,
 * and the filter is as it was. PN_SHAPE, PN_CANCELLED, PN_NOMEM. */
PN_API pn_status pn_filter_observe(pn_context *c, pn_filter *f, const double *y, int64_t n, double *increment);
/* Takes the rows of ys [T, p] in, float64, a row of NaN as missing: *increments [T], *means and *variances [T, m],
 * scoped; means and variances may be NULL. A failure as of pn_filter_observe leaves the filter behind the row
 * before. */
PN_API pn_status pn_filter_run(pn_context *c, pn_filter *f, pn_tensor *ys, pn_tensor **increments, pn_tensor **means,
                               pn_tensor **variances);
/* How many numbers an observation, and how many the state has. */
PN_API int64_t pn_filter_num_observed(const pn_filter *f);
PN_API int64_t pn_filter_num_states(const pn_filter *f); /* see pn_filter_num_observed */
/* Observations so far. */
PN_API int64_t pn_filter_steps(const pn_filter *f);
/* The sum of all increments. */
PN_API double pn_filter_log_evidence(const pn_filter *f);
/* Of the particles; infinity for the exact filter. */
PN_API double pn_filter_effective_sample_size(const pn_filter *f);
/* Mean of each number of the state given all observations so far, pn_filter_num_states of them. Borrowed until the next
 * call with f. */
PN_API const double *pn_filter_mean(const pn_filter *f);
/* Their variances. Borrowed. */
PN_API const double *pn_filter_variance(const pn_filter *f);
/* Back to before the first observation; the generator goes on. */
PN_API void pn_filter_reset(pn_filter *f);
/* Writes the state and the position of the context's generator (a safetensors file, replaced when all is on disk); a
 * filter of the same kind that loads it goes on with the same numbers. PN_IO, PN_NOMEM. */
PN_API pn_status pn_filter_save(pn_context *c, const pn_filter *f, const char *path);
/* Reads them. PN_IO, PN_FORMAT (another filter's, or numbers that no filter has), PN_NOMEM: nothing has changed
 * then. */
PN_API pn_status pn_filter_load(pn_context *c, pn_filter *f, const char *path);

/* ---- the runtime inside a host program -------------------------------------------------------- */

/*
** A runtime is a Lua state with a context of its own, behind limits. One thread in a runtime at a time
** (pn_runtime_cancel excepted); any number of runtimes in a process, in any threads.
**
** Every action below starts a fresh account of instructions, time and output, and ends in one of these:
**   PN_OK         done
**   PN_SCRIPT     the script has a syntax error, raised an error, or returned what is no array
**   PN_NOMEM      the byte limit was reached, or the allocator refused
**   PN_LIMIT      the instruction or output limit was reached
**   PN_TIME       the time limit passed
**   PN_CANCELLED  pn_runtime_cancel was called
**   PN_IO         a file cannot be read
**   PN_MISSING    there is no global of that name
**   PN_SHAPE, PN_DTYPE, PN_DOMAIN   an argument of the call itself is wrong; no script ran
**   PN_STATE      the runtime is NULL, or this is a call from within its own output callback
** After each of them the runtime is usable: globals keep what the script assigned before it was stopped.
** (What a script keeps in globals stays charged: a runtime filled to its byte limit goes on answering
** PN_NOMEM until it is closed, or the limit is raised, or a call drops the globals.)
** PN_LIMIT and PN_CANCELLED cannot be caught by pcall, coroutines, error handlers or to-be-closed
** variables. A memory error can, as in Lua; the limit holds all the same.
*/
typedef struct pn_runtime pn_runtime;

/* What scripts may use; bits of pn_runtime_config.libraries. */
enum {
  PN_LIB_BASE = 1,          /* print, pairs, pcall, load (text only), ...; always there */
  PN_LIB_STRING = 2,        /* string; patterns answer to the limits, string.dump is left out */
  PN_LIB_TABLE = 4,         /* table */
  PN_LIB_MATH = 8,          /* math */
  PN_LIB_UTF8 = 16,         /* utf8 */
  PN_LIB_COROUTINE = 32,    /* coroutine */
  PN_LIB_TIME = 64,         /* os.time, os.clock, os.date, os.difftime */
  PN_LIB_PENUMBRA = 128,    /* require "penumbra" and its parts, from memory, but not what they are made of
                               ("penumbra.core" and inner modules: PN_LIB_PACKAGE); nothing that opens files */
  PN_LIB_FILES = 256,       /* files below pn_runtime_config.root: io, dofile, loadfile, require, os.remove, os.rename,
                               os.tmpname, Penumbra's readers and writers */
  PN_LIB_PACKAGE = 512,     /* require and package of stock Lua, C modules included. For trusted scripts */
  PN_LIB_OS = 1024,         /* os.execute, os.getenv, io.popen (with PN_LIB_TRUSTED_IO). For trusted scripts */
  PN_LIB_DEBUG = 2048,      /* debug, which can switch every limit off. For trusted scripts */
  PN_LIB_FINALIZERS = 4096, /* __gc in Lua, which no instruction or time limit interrupts. For trusted scripts */
  PN_LIB_TRUSTED_IO = 8192, /* in place of PN_LIB_FILES stock io and any path: what the process may do (write its own
                               memory through /proc, wait for ever for a pipe). For trusted scripts */
  PN_LIBS_NONE = PN_LIB_BASE,
  PN_LIBS_SAFE = 255,
  PN_LIBS_FULL = 16383 /* any path; os.exit and os.setlocale, which act on the whole process, are never there */
};

/* Receives what print writes, a line at a time. Must not call into the runtime, nor jump out of it. */
typedef void (*pn_output)(void *data, const char *text, size_t length);

/* Limits of one call; 0: none. */
typedef struct pn_limits {
  size_t memory; /* bytes held at once by Lua and tensors together; kept between calls */
  uint64_t
      instructions; /* of Lua's virtual machine, counted in steps of 100; what library functions go through counts */
  /* Wall clock. Interrupts Lua and tensor operations within some milliseconds; a factorisation of one matrix cannot be
   * interrupted, so one that takes longer than what is left is refused before it begins. */
  double seconds;
  uint64_t output; /* bytes printed */
} pn_limits;

typedef struct pn_runtime_config {
  pn_context_config context; /* allocator, seed, threads; its memory_limit gives way to limits.memory if that is set */
  pn_limits limits;          /* of every call until pn_runtime_set_limits */
  unsigned libraries;        /* PN_LIB_ bits; 0: PN_LIBS_SAFE */
  pn_output output;          /* NULL: print is silent */
  void *output_data;         /* first argument of output */
  const char *root;          /* the folder of PN_LIB_FILES; opened by pn_runtime_new */
  int root_writable;         /* may scripts write, rename and remove there? 0: they only read */
} pn_runtime_config;

/*
** With PN_LIB_FILES scripts find regular files below `root`, by relative paths with "/", and nothing else: no "..",
** absolute path, symbolic link, other file system, pipe, device or socket is followed or opened, nor a file with a
** second hard link for writing, whatever others do to the folder meanwhile. Opening never waits. Reading and writing
** answer to the limits of a call; at most 64 files are open at once, pn.data.open's among them. io has no stdin,
** stdout, stderr and popen; what io.write gives to no file goes to `output`. How much scripts write to disk is not
** limited: that is a quota's or file system's business.
*/

/* An array that crosses the border: row-major, no gaps.
 * In:  everything but capacity is read; the elements are copied.
 * Out, capacity 0: dtype, ndim, shape and data come to describe the result. The data are borrowed until the next
 *      call with the runtime, which may still take them as input; the struct can be used again as it is.
 * Out, capacity n: the result is copied to the host's `data`, as the given dtype; n says how many elements fit;
 *      ndim and shape are written. Everything converts to floats, bool also to int64; PN_DTYPE otherwise. */
typedef struct pn_array {
  pn_dtype dtype;
  int ndim;
  int64_t shape[PN_MAX_DIMS];
  void *data;
  int64_t capacity;
} pn_array;

#define PN_MAX_ARRAYS 64

/* A runtime in *out; config may be NULL (safe libraries, no limits). PN_NOMEM; PN_DOMAIN, also for PN_LIB_FILES
 * without root or root without PN_LIB_FILES (or beside PN_LIB_TRUSTED_IO); PN_IO if root cannot be opened. New. */
PN_API pn_status pn_runtime_new(const pn_runtime_config *config, pn_runtime **out);
/* Ends the runtime and everything made in its context: keep no references. NULL is a no-op; so is a call from
 * within the output callback. */
PN_API void pn_runtime_close(pn_runtime *rt);
/* Runs a script of `length` bytes ((size_t)-1: up to the zero byte). `name` (NULL: "script") stands in messages. */
PN_API pn_status pn_runtime_run_string(pn_runtime *rt, const char *script, size_t length, const char *name);
/* Runs a script file (text only). PN_IO if it cannot be read. */
PN_API pn_status pn_runtime_run_file(pn_runtime *rt, const char *path);
/* Calls the global function `name` ("model.predict" looks inside a table) with nin tensors. Its first nout
 * results, each a tensor, number, boolean or (nested) list of numbers, go to out; PN_SCRIPT if one is missing or
 * something else, PN_SHAPE if a host's buffer is too small. On failure `out` is as it was, host buffers may
 * hold some results. nin and nout are at most PN_MAX_ARRAYS. */
PN_API pn_status pn_runtime_call(pn_runtime *rt, const char *name, int nin, const pn_array *in, int nout,
                                 pn_array *out);
/* Assigns a number to a global (or to a field: "config.rate"; the table must exist). */
PN_API pn_status pn_runtime_set_number(pn_runtime *rt, const char *name, double value);
/* The number, or only element of a tensor, in a global. PN_MISSING, PN_DTYPE if it is no number. */
PN_API pn_status pn_runtime_get_number(pn_runtime *rt, const char *name, double *value);
/* Assigns a tensor to a global, as pn_runtime_set_number does. */
PN_API pn_status pn_runtime_set_array(pn_runtime *rt, const char *name, const pn_array *in);
/* The tensor, number, boolean or list in a global, as a result of pn_runtime_call. PN_MISSING, PN_DTYPE, PN_SHAPE. */
PN_API pn_status pn_runtime_get_array(pn_runtime *rt, const char *name, pn_array *out);
/* The target in a global, as model:target(...) gives it, as a target of context c (NULL: of the runtime's own). With a
 * context of its own it needs neither the runtime nor its thread from then on. The model runs once or twice, within the
 * limits of a call. In *out, new; PN_MISSING, PN_DTYPE (no target), PN_SCRIPT, PN_NOMEM, ... */
PN_API pn_status pn_runtime_target(pn_runtime *rt, const char *name, pn_context *c, pn_target **out);
/* The filter in a global, as filter:online(...) gives it, as a filter of context c (NULL: of the runtime's own). With a
 * context of its own it needs neither the runtime nor its thread from then on. In *out, new; failures as
 * pn_runtime_target. */
PN_API pn_status pn_runtime_filter(pn_runtime *rt, const char *name, pn_context *c, pn_filter **out);
/* Status of the last call; rt NULL: PN_STATE. */
PN_API pn_status pn_runtime_status(const pn_runtime *rt);
/* Its message, with script and line where there is one; never empty after a failure, "" after PN_OK.
 * rt NULL: says so. Borrowed until the next call. */
PN_API const char *pn_runtime_message(const pn_runtime *rt);
/* The functions that were running when it failed, one a line, innermost first; "" when no script ran or memory
 * was lacking; rt NULL: "". Borrowed until the next call. */
PN_API const char *pn_runtime_traceback(const pn_runtime *rt);
/* Stops the running call, or the next one, with PN_CANCELLED. May be called from any thread or a signal
 * handler, any time before pn_runtime_close. A call that fails uses it up, whatever it fails by; no script that
 * catches errors can pass it on to a later call. */
PN_API void pn_runtime_cancel(pn_runtime *rt);
/* Withdraws a cancellation that no call has used up. Any thread. */
PN_API void pn_runtime_uncancel(pn_runtime *rt);
/* Replaces the limits from the next call on. PN_STATE, PN_DOMAIN (negative or NaN seconds). */
PN_API pn_status pn_runtime_set_limits(pn_runtime *rt, const pn_limits *limits);
/* Bytes in use by Lua and tensors; `peak` (may be NULL) receives the largest value so far. */
PN_API size_t pn_runtime_memory(const pn_runtime *rt, size_t *peak);
/* The runtime's context, for builders between calls. Borrowed. */
PN_API pn_context *pn_runtime_context(pn_runtime *rt);

#ifdef __cplusplus
}
#endif

#endif

/*
** Copyright (c) 2026 the Penumbra authors
**
** Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
** associated documentation files (the "Software"), to deal in the Software without restriction,
** including without limitation the rights to use, copy, modify, merge, publish, distribute,
** sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
** furnished to do so, subject to the following conditions:
**
** The above copyright notice and this permission notice shall be included in all copies or
** substantial portions of the Software.
**
** THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
** NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
** NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM,
** DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT
** OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
*/
