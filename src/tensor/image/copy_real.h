/* copy_real.h: short runs of numbers. No guard: included by kernels of one element type. */
typedef REAL vec __attribute__((vector_size(16), aligned(sizeof(REAL)), may_alias));
#define VEC(p) (*(vec *)(void *)(p))

/* n numbers, of which a few more may be touched. */
static inline void copy(REAL *to, const REAL *from, int64_t n) {
  enum { LONG = 64 };
  if (n >= LONG)
    memcpy(to, from, (size_t)n * sizeof *to);
  else
    for (int64_t k = 0; k < n; k += BASE) VEC(to + k) = *(const vec *)(const void *)(from + k);
}
