#include "../../base/processor.h"
#include "sgemm.h"

/* Bits of the control register of vector instructions: results flushed to zero, operands taken for zero. It belongs to the
 * thread, and BLAS runs in the calling one. Elsewhere than on x86 subnormal numbers stay. */
#if PNI_CPU_X86
enum { FLUSH = 0x8040 };
#define FLUSHED(call)                                                                                                  \
  do {                                                                                                                 \
    unsigned before = __builtin_ia32_stmxcsr();                                                                        \
    __builtin_ia32_ldmxcsr(before | FLUSH);                                                                            \
    call;                                                                                                              \
    __builtin_ia32_ldmxcsr(before);                                                                                    \
  } while (0)
#else
#define FLUSHED(call) call
#endif

void pni_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE trans_a, CBLAS_TRANSPOSE trans_b, int m, int n, int k, float alpha,
               const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc) {
  FLUSHED(cblas_sgemm(order, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc));
}
#undef FLUSHED
