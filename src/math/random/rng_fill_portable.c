/* rng_fill_portable.c: draws for every processor. */
#define LEVEL pni_rng_portable
#define TARGET
#include "rng_fill_real.h"
