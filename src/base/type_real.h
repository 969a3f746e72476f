/*
** type_real.h: how a source that is compiled once for each type of floats (*_real.c, to *_real_f32.o and
** *_real_f64.o) calls its type, that type's functions and its vectors. Who compiles it says PNI_REAL_BITS: 32 or 64.
*/
#if PNI_REAL_BITS == 32
#define REAL        float
#define INTEGER     int
#define TYPED(name) name##_f32
#define F(name)     name##f
#define GEMM        pni_sgemm
#define FLUSH()     pni_flush_subnormals()
#define KEEP(x)     pni_keep_subnormals(x)
#define BASE        4
#define AVX2        8
#define AVX512      16
#else
#define REAL        double
#define INTEGER     long long
#define TYPED(name) name##_f64
#define F(name)     name
#define GEMM        pni_dgemm
#define FLUSH()     0
#define KEEP(x)     ((void)(x))
#define BASE        2
#define AVX2        4
#define AVX512      8
#endif
