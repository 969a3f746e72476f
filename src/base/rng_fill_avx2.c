/* rng_fill_avx2.c: draws for AVX2. */
#include "cpu.h"

#if PNI_CPU_X86
#define LEVEL  pni_rng_avx2
#define TARGET PNI_TARGET_AVX2
#include "rng_fill_real.h"
#else
typedef int pni_no_rng_avx2; /* a translation unit is not empty */
#endif
