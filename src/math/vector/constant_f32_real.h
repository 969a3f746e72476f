/* constant_f32_real.h: what elementary_real.h needs to know of float32. No guard: included once per instruction set. */
#define REAL           float
#define BITS           uint32_t
#define DIGITS         23
#define BIAS           UINT32_C(127)
#define SIGN_BIT       UINT32_C(0x80000000)
#define ROUNDER        0x1.8p23f
#define EXPONENT_BITS  UINT32_C(0x4B000000) /* 2^23 + biased exponent */
#define EXPONENT_BASE  (0x1p23f + 127)
#define ONE_BITS       UINT32_C(0x3F800000)
#define ROOT_HALF_BITS UINT32_C(0x3F3504F3)
#define NORMAL_MIN     0x1p-126f
#define LIFT           0x1p25f
#define LIFT_LOG2      25
#define LN2_HIGH       0.693145752f /* 9 trailing zero bits, so k LN2_HIGH is exact */
#define LN2_LOW        1.42860677e-6f
#define EXP_MIN        (-106.0f)
#define EXP_MAX        89.0f
#define EXP_NEAR       87.0f    /* below it in size e^x is normal */
#define TANH_MAX       11.0f    /* beyond it tanh is 1 */
#define EXPM1_EXP      20.0f    /* beyond it e^x - 1 = e^x, below minus it -1 */
#define TINY           0x1p-25f /* below it f(x) = x to rounding */
#define POLY_EXP       POLY_EXP_F32
#define POLY_COTH      POLY_COTH_F32
#define POLY_LOG       POLY_LOG_F32
