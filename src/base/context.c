/*
** context.c: creation and end of a context, its error slot and cancellation.
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

pn_context *pn_context_new(const pn_context_config *config) {
  pn_context_config cfg = {0};
  if (config) cfg = *config;
  pn_allocator allocate = cfg.allocate ? cfg.allocate : pni_default_allocate;
  pn_context *c = allocate(cfg.allocator_data, NULL, 0, sizeof *c);
  if (!c) return NULL;
  memset(c, 0, sizeof *c);
  c->allocate = allocate;
  c->allocator_data = cfg.allocator_data;
  c->limit = cfg.memory_limit;
  c->pool_limit = cfg.pool_limit == 0 ? (size_t)256 << 20 : cfg.pool_limit == PN_NO_POOL ? 0 : cfg.pool_limit;
  c->num_threads = cfg.threads <= 0 ? processors() : cfg.threads < PNI_MAX_THREADS ? cfg.threads : PNI_MAX_THREADS;
  atomic_init(&c->cancelled, 0);
  c->next_id = 1;
  pni_blas_single_thread();
  c->rng.state.key = pni_seed_key(cfg.seed);
  const char *level = pni_cpu_refused();
  if (level)
    pni_fail(c, PN_DOMAIN, "pn_context_new: " PNI_CPU_VARIABLE " must be portable, avx2 or avx512, got %.40s", level);
  return c;
}

static void destroy(pn_context *c) {
  pni_threads_free(c);
  pni_free(c, c->scope, c->scope_cap * sizeof *c->scope);
  c->scope = NULL;
  pn_context_trim(c);
  c->allocate(c->allocator_data, c, sizeof *c, 0);
}

void pn_context_close(pn_context *c) {
  if (!c || c->closed) return;
  if (c->close_scopes) c->close_scopes(c);
  c->closed = true;
  if (c->objects == 0) destroy(c);
}

void pni_context_end(pn_context *c) {
  pni_threads_free(c);
  pni_release_all(c);
  c->allocate(c->allocator_data, c, sizeof *c, 0);
}

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

void pn_context_cancel(pn_context *c) { atomic_store_explicit(&c->cancelled, 1, memory_order_relaxed); }
void pn_context_uncancel(pn_context *c) { atomic_store_explicit(&c->cancelled, 0, memory_order_relaxed); }

int64_t pni_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void pn_context_set_deadline(pn_context *c, double seconds) {
  /* a century is no limit, and fits the clock */
  c->deadline = seconds > 0 && seconds < 3e9 ? pni_now() + (int64_t)(seconds * 1e9) : 0;
}

pn_status pni_check_cancel(pn_context *c) {
  if (atomic_load_explicit(&c->cancelled, memory_order_relaxed)) return pni_fail(c, PN_CANCELLED, "interrupted");
  if (c->deadline && pni_now() > c->deadline) return pni_fail(c, PN_CANCELLED, "time limit reached");
  return PN_OK;
}
