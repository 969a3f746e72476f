/* fourier_f32.c: transforms of float32. */
#define REAL  float
#define TABLE pni_fourier_kernels_f32
#include "fourier_real.h"
