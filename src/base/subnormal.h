/*
** subnormal.h: a stretch of code of this thread in which numbers below the smallest normal one, 1.2e-38 in float32,
** count as 0. Variances and gradients of sure things underflow, and a processor takes a hundred times as long for a
** product of such numbers as for another; a sum of products does not see them unless all of it is as small. Matrix
** products and convolutions of float32 are computed so, on every thread and by every route of a shape alike, so that
** results do not depend on the number of threads. All other arithmetic keeps subnormal numbers.
**   unsigned before = pni_flush_subnormals();  ...  pni_keep_subnormals(before);
** Processors of other kinds compute on as they are.
*/
#ifndef PN_BASE_SUBNORMAL_H
#define PN_BASE_SUBNORMAL_H

#if defined(__GNUC__) && defined(__x86_64__)
#include <xmmintrin.h>
/* Results (bit 15) and operands (bit 6) below the smallest normal number become 0. */
static inline unsigned pni_flush_subnormals(void) {
  unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040u);
  return before;
}
static inline void pni_keep_subnormals(unsigned before) { _mm_setcsr(before); }
#else
static inline unsigned pni_flush_subnormals(void) { return 0; }
static inline void pni_keep_subnormals(unsigned before) { (void)before; }
#endif

#endif
