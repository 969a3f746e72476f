/* small_f32.c: interleaved small matrices of float32, for the instruction sets that a processor may have. */
#include <math.h>
#include <string.h>
#include "small.h"
#include "small_shuffle.h"
#include "../vector/polynomial.h"
#include "../vector/constant_f32_real.h"

#define INTEGER int
#define F(name) name##f
#define BASE    4
#define AVX2    8
#define AVX512  16
#define BODY    "small_real.h"
#define GROUP   pni_small_group
#define CHOOSE  pni_small_f32
#include "levels_real.h"
