/* tiny_portable.c: tiny products for every processor. */
#include <string.h>
#include "../../base/cpu.h"
#include "tiny.h"

#define TARGET
#define REAL    double
#define NAME(f) f##_f64
#include "tiny_real.h"
#define REAL    float
#define NAME(f) f##_f32
#include "tiny_real.h"

const pni_tiny_level pni_tiny_portable[2] = {{rows_f64, dots_f64}, {rows_f32, dots_f32}};
