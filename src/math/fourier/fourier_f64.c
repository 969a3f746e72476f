/* fourier_f64.c: transforms of float64. */
#define REAL  double
#define TABLE pni_fourier_kernels_f64
#include "fourier_real.h"
