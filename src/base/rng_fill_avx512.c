/* rng_fill_avx512.c: draws for AVX-512. */
#include "cpu.h"

#if PNI_CPU_X86
#define LEVEL  pni_rng_avx512
#define TARGET PNI_TARGET_AVX512
#include "rng_fill_real.h"
#else
typedef int pni_no_rng_avx512; /* a translation unit is not empty */
#endif
