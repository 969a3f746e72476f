/*
** context.c: creation and end of a context and of its children, its error slot and cancellation.
** A closed context stays as a zombie until its last object dies (as sqlite3_close_v2 does), so hosts
** with a collector may release things in any order.
*/
#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "context.h"
#include "processor.h"

static const char *const status_names[] = {
#define X(name, text) [PN_##name] = text,
#include "status.def"
#undef X
};

const char *pn_status_name(pn_status status) {
  size_t n = sizeof status_names / sizeof status_names[0];
  return (size_t)status < n ? status_names[status] : "?";
}

const char *pn_version(void) { return PN_VERSION; }

static int processors(void) {
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n < 1 ? 1 : n > PNI_MAX_THREADS ? PNI_MAX_THREADS : (int)n;
}

/* A context of one thread with the generator of seed 0. */
static pn_context *create(pn_allocator allocate, void *data) {
  pn_context *c = allocate(data, NULL, 0, sizeof *c);
  if (!c) return NULL;
  memset(c, 0, sizeof *c);
  c->allocate = allocate;
  c->allocator_data = data;
  c->num_threads = 1;
  atomic_init(&c->lent, 0);
  atomic_init(&c->peak, 0);
  atomic_init(&c->own_stop.cancelled, 0);
  atomic_init(&c->left_out, 0);
  c->stop = &c->own_stop;
  c->next_id = 1;
  c->rng.state.key = pni_seed_key(0);
  return c;
}

pn_context *pn_context_new(const pn_context_config *config) {
  pn_context_config cfg = {0};
  if (config) cfg = *config;
  pn_context *c = create(cfg.allocate ? cfg.allocate : pni_default_allocate, cfg.allocator_data);
  if (!c) return NULL;
  c->limit = cfg.memory_limit;
  c->pool_limit = cfg.pool_limit == 0 ? (size_t)256 << 20 : cfg.pool_limit == PN_NO_POOL ? 0 : cfg.pool_limit;
  c->num_threads = cfg.threads <= 0 ? processors() : cfg.threads < PNI_MAX_THREADS ? cfg.threads : PNI_MAX_THREADS;
  pni_blas_single_thread();
  c->rng.state.key = pni_seed_key(cfg.seed);
  const char *level = pni_cpu_refused(), *products = pni_products_refused();
  if (level)
    pni_fail(c, PN_DOMAIN, "pn_context_new: " PNI_CPU_VARIABLE " must be portable, avx2 or avx512, got %.40s", level);
  else if (products)
    pni_fail(c, PN_DOMAIN, "pn_context_new: " PNI_PRODUCTS_VARIABLE " must be own or blas, got %.40s", products);
  return c;
}

/* A child leaves its parent's list and account. */
static void leave(pn_context *c) {
  pn_context **at = &c->parent->children;
  while (*at != c) at = &(*at)->sibling;
  *at = c->sibling;
  pni_discharge(c, sizeof *c);
}

static void release(pn_context *c) {
  if (c->parent) leave(c);
  c->allocate(c->allocator_data, c, sizeof *c, 0);
}

static void destroy(pn_context *c) {
  pni_threads_free(c);
  pni_free(c, c->scope);
  c->scope = NULL;
  pn_context_trim(c);
  release(c);
}

void pn_context_close(pn_context *c) {
  if (!c || c->closed) return;
  if (c->close_scopes) c->close_scopes(c);
  c->closed = true;
  if (c->objects == 0) destroy(c);
}

void pni_context_end(pn_context *c) {
  while (c->children) pni_context_end(c->children);
  pni_threads_free(c);
  pni_release_all(c);
  release(c);
}

/* ---- children ---- */

/* What waits in pools is out of a child's reach but for its own: where it is much of the limit, all of it goes back. */
static void make_room(pn_context *c) {
  size_t waits = c->pooled;
  for (const pn_context *child = c->children; child; child = child->sibling) waits += child->pooled;
  if (c->limit && waits > c->limit / 8) pn_context_trim(c);
}

pn_context *pni_context_child(pn_context *c) {
  make_room(c);
  bool alone = c->num_threads == 1;
  pn_context *child = create(alone ? c->allocate : pni_default_allocate, alone ? c->allocator_data : NULL);
  if (child) child->parent = c;
  if (!child || !pni_charge(child, sizeof *child)) {
    if (child) child->allocate(child->allocator_data, child, sizeof *child, 0);
    pni_fail(c, PN_NOMEM, "out of memory: a context of %zu bytes asked for", sizeof *child);
    return NULL;
  }
  child->stop = c->stop;
  child->sibling = c->children;
  c->children = child;
  child->pool_limit = c->pool_limit;
  memcpy(child->pace, c->pace, sizeof c->pace);
  return child;
}

pn_status pni_parallel_children(pn_context *c, const pn_context *child, int64_t n, pni_shard body, void *data) {
  make_room(c);
  return pni_parallel(c, n, child->allocate == pni_default_allocate ? 1 : n, body, data);
}

pn_status pni_child_failed(pn_context *c, const pn_context *child, pn_status status) {
  if (pni_is_stop(status) && pni_check_cancel(c)) return c->status;
  const char *why = pn_context_message(child);
  return pni_fail(c, status, "%s", why[0] ? why : pn_status_name(status));
}

/* ---- the error slot ---- */

void pni_object_died(pn_context *c) {
  c->objects--;
  if (c->objects == 0 && c->closed && !c->freeing) destroy(c);
}

int64_t pn_context_objects(const pn_context *c) { return c->objects; }

pn_status pn_context_status(const pn_context *c) { return c->status; }
const char *pn_context_message(const pn_context *c) { return c->status ? c->message : ""; }

void pn_context_clear_error(pn_context *c) {
  c->status = PN_OK;
  c->message[0] = '\0';
}

/* Shapes and dtypes of a plan are fixed, values are not. */
static bool depends_on_values(pn_status s) {
  return s == PN_DOMAIN || s == PN_NAN || s == PN_SINGULAR || s == PN_DEGENERATE || s == PN_STATE || s == PN_STALE;
}

pn_status pni_fail(pn_context *c, pn_status status, const char *format, ...) {
  if (c->status != PN_OK) return c->status;
  c->status = status;
  va_list ap;
  va_start(ap, format);
  vsnprintf(c->message, sizeof c->message, format, ap);
  va_end(ap);
  if (c->recorder && !c->broken[0] && depends_on_values(status))
    snprintf(c->broken, sizeof c->broken, "%.255s", c->message);
  return status;
}

/* The word at `place` of "x, index": an argument's name. */
bool pni_refuse_null(pn_context *c, const char *where, int64_t n, const char *names, size_t place) {
  for (; place > 0; place--) names = strchr(names, ',') + 2;
  int length = (int)strcspn(names, ",");
  if (n < 0)
    pni_fail(c, PN_DOMAIN, "%s: length of %.*s must not be negative, got %lld", where, length, names, (long long)n);
  else
    pni_fail(c, PN_STATE, "%s: %.*s must not be NULL", where, length, names);
  return false;
}

/* ---- cancellation ---- */

void pn_context_cancel(pn_context *c) { atomic_store_explicit(&c->stop->cancelled, 1, memory_order_relaxed); }
void pn_context_uncancel(pn_context *c) { atomic_store_explicit(&c->stop->cancelled, 0, memory_order_relaxed); }

int64_t pni_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void pn_context_set_deadline(pn_context *c, double seconds) {
  /* a century is no limit, and fits the clock */
  c->stop->deadline = seconds > 0 && seconds < 3e9 ? pni_now() + (int64_t)(seconds * 1e9) : 0;
}

pn_status pni_check_cancel(pn_context *c) {
  bool left_out = atomic_exchange_explicit(&c->left_out, 0, memory_order_relaxed);
  if (pni_is_cancelled(c)) return pni_fail(c, PN_CANCELLED, "interrupted");
  if (pni_stop_due(c->stop)) return pni_fail(c, PN_TIME, "time limit reached");
  return left_out ? pni_fail(c, PN_CANCELLED, "interrupted") : c->status;
}
