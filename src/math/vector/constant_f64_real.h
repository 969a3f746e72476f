/* constant_f64_real.h: what elementary_real.h needs to know of float64. No guard: included once per instruction set. */
#define REAL           double
#define BITS           uint64_t
#define DIGITS         52
#define BIAS           UINT64_C(1023)
#define SIGN_BIT       UINT64_C(0x8000000000000000)
#define ROUNDER        0x1.8p52
#define EXPONENT_BITS  UINT64_C(0x4330000000000000) /* 2^52 + biased exponent */
#define EXPONENT_BASE  (0x1p52 + 1023)
#define ONE_BITS       UINT64_C(0x3FF0000000000000)
#define ROOT_HALF_BITS UINT64_C(0x3FE6A09E667F3BCD)
#define NORMAL_MIN     0x1p-1022
#define LIFT           0x1p54
#define LIFT_LOG2      54
#define LN2_HIGH       6.93147180369123816490e-01 /* 20 trailing zero bits, so k LN2_HIGH is exact */
#define LN2_LOW        1.90821492927058770002e-10
#define EXP_MIN        (-750.0)
#define EXP_MAX        710.0
#define EXP_NEAR       708.0   /* below it in size e^x is normal */
#define TANH_MAX       22.0    /* beyond it tanh is 1 */
#define EXPM1_EXP      40.0    /* beyond it e^x - 1 = e^x, below minus it -1 */
#define TINY           0x1p-54 /* below it f(x) = x to rounding */
#define POLY_EXP       POLY_EXP_F64
#define POLY_COTH      POLY_COTH_F64
#define POLY_LOG       POLY_LOG_F64
