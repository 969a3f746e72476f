/* level_avx2.c: vector functions for AVX2. */
#include "../../base/processor.h"

#if PNI_CPU_X86
#define LEVEL  pni_vector_avx2
#define TARGET PNI_TARGET_AVX2
#define FUSED  1
#include "level_real.h"
#else
typedef int pni_no_avx2; /* a translation unit is not empty */
#endif
