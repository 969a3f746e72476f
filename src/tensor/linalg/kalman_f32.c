/* kalman_f32.c: interleaved Kalman steps of float32, for the instruction sets that a processor may have. */
#include <math.h>
#include <string.h>
#include "kalman.h"
#include "small_shuffle.h"
#include "../vector/polynomial.h"
#include "../vector/constant_f32_real.h"

#define INTEGER int
#define F(name) name##f
#define BASE    4
#define AVX2    8
#define AVX512  16
#define BODY    "kalman_real.h"
#define GROUP   pni_kalman_group
#define CHOOSE  pni_kalman_f32
#include "levels_real.h"
