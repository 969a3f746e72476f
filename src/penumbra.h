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
**   Axes          0-based, negative from the end. (Lua: 1-based.)
*/
#ifndef PENUMBRA_H
#define PENUMBRA_H

#include <stddef.h>
#include <stdint.h>

#define PN_VERSION "0.1.0"
#define PN_VERSION_NUMBER 100
#define PN_MAX_DIMS 8

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
  PN_CANCELLED,  /* pn_context_cancel was called or a time limit passed */
  PN_LIMIT,      /* an instruction or output limit was reached */
  PN_SCRIPT      /* a Lua script raised an error */
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

/* A context, or NULL if memory is lacking. config may be NULL (all defaults). New. */
PN_API pn_context *pn_context_new(const pn_context_config *config);
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
/* Cancels by itself `seconds` from now (wall clock); 0 or less removes the limit. */
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
/* Uniform on (0, 1). rng NULL: the context's. Scoped; PN_DTYPE, PN_NOMEM. */
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
/* 1 if t was made by pn_param. */
PN_API int pn_tensor_is_param(const pn_tensor *t);
/* The gradient that pn_backward left in a parameter, or NULL. Borrowed. */
PN_API pn_tensor *pn_tensor_grad(const pn_tensor *t);
/* Forgets a parameter's gradient. */
PN_API void pn_tensor_clear_grad(pn_tensor *t);
/* Overwrites a parameter with the values of t (same shape and dtype). Graphs that used the old values
 * become stale. PN_SHAPE, PN_DTYPE, PN_STATE. */
PN_API pn_status pn_param_set(pn_context *c, pn_tensor *param, pn_tensor *t);
/* Adds d y / d p to the gradient of every parameter p below the one-element y.
 * PN_SHAPE, PN_STATE (y does not depend on a parameter), PN_STALE, PN_NOMEM; gradients are left as they were. */
PN_API pn_status pn_backward(pn_context *c, pn_tensor *y);
/* out[k] = d y / d x[k], zeros where y does not depend on x[k]. With create_graph the results can be
 * differentiated again. Each out[k] is scoped. PN_SHAPE, PN_STATE, PN_STALE, PN_NOMEM. */
PN_API pn_status pn_grad(pn_context *c, pn_tensor *y, int n, pn_tensor *const *x, int create_graph, pn_tensor **out);
/* Stops (off = 1) or resumes recording; returns the previous setting. */
PN_API int pn_set_no_grad(pn_context *c, int off);
/* The same values, cut from the graph. Scoped. */
PN_API pn_tensor *pn_detach(pn_context *c, pn_tensor *x);

