/*
** counted.h: what the whole process has taken from malloc, whoever asked for it: the library, Lua, zlib, LAPACK, the C
** library. A program that includes this has malloc and its kin of its own in front of the C library's; under a
** sanitiser, whose they are, its hooks tell. Memory that is mapped without malloc (threads' stacks, OpenBLAS's buffers)
** is not counted.
*/
#ifndef PN_SPEC_COUNTED_H
#define PN_SPEC_COUNTED_H

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

static atomic_llong counted_now, counted_most;

static inline void counted_add(long long n) {
  long long now = atomic_fetch_add(&counted_now, n) + n, most = atomic_load(&counted_most);
  while (now > most && !atomic_compare_exchange_weak(&counted_most, &most, now)) {
  }
}

/* Bytes taken now; from here on counted_peak() is the most since. */
static inline long long counted_start(void) {
  long long now = atomic_load(&counted_now);
  atomic_store(&counted_most, now);
  return now;
}
static inline long long counted_peak(void) { return atomic_load(&counted_most); }

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
/* As sanitizer/allocator_interface.h declares them, which not every compiler brings. */
extern int __sanitizer_install_malloc_and_free_hooks(void (*taken)(const volatile void *, size_t),
                                                     void (*given)(const volatile void *));
extern size_t __sanitizer_get_allocated_size(const volatile void *p);

static void counted_taken(const volatile void *p, size_t n) {
  (void)p;
  counted_add((long long)n);
}
static void counted_given(const volatile void *p) {
  if (p) counted_add(-(long long)__sanitizer_get_allocated_size(p));
}
__attribute__((constructor)) static void counted_install(void) {
  __sanitizer_install_malloc_and_free_hooks(counted_taken, counted_given);
}
#else
#pragma GCC visibility push(default) /* shared libraries call them, too */
extern void *__libc_malloc(size_t n), *__libc_calloc(size_t n, size_t size), *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n), __libc_free(void *p);

static void *counted_taken(void *p) {
  if (p) counted_add((long long)malloc_usable_size(p));
  return p;
}
void *malloc(size_t n) { return counted_taken(__libc_malloc(n)); }
void *calloc(size_t n, size_t size) { return counted_taken(__libc_calloc(n, size)); }
void free(void *p) {
  if (p) counted_add(-(long long)malloc_usable_size(p));
  __libc_free(p);
}
void *realloc(void *p, size_t n) {
  long long old = p ? (long long)malloc_usable_size(p) : 0;
  void *q = __libc_realloc(p, n);
  if (q || n == 0) counted_add((q ? (long long)malloc_usable_size(q) : 0) - old);
  return q;
}
void *memalign(size_t align, size_t n) { return counted_taken(__libc_memalign(align, n)); }
void *aligned_alloc(size_t align, size_t n) { return counted_taken(__libc_memalign(align, n)); }
int posix_memalign(void **p, size_t align, size_t n) {
  *p = counted_taken(__libc_memalign(align, n));
  return *p ? 0 : ENOMEM;
}
#pragma GCC visibility pop
#endif

#endif
