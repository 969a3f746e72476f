/* level_portable.c: vector functions for every processor; on ARM these are NEON's, which fuses. */
#define LEVEL pni_vector_portable
#define TARGET
#if defined(__aarch64__)
#define FUSED 1
#else
#define FUSED 0
#endif
#include "level_real.h"
