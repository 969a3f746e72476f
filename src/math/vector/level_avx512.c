/* level_avx512.c: vector functions for AVX-512. */
#include "../../base/processor.h"

#if PNI_CPU_X86
#define LEVEL  pni_vector_avx512
#define TARGET PNI_TARGET_AVX512
#define FUSED  1
#include "level_real.h"
#else
typedef int pni_no_avx512; /* a translation unit is not empty */
#endif
