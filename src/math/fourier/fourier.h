/*
** fourier.h: discrete Fourier transforms of any length, float64 and float32:
**   X_k = sum_j x_j e^(-2 pi i j k / n),   x_j = 1/n sum_k X_k e^(2 pi i j k / n).
** Real and imaginary parts stand in arrays of their own. A plan holds the roots of unity and all scratch: transforms
** allocate nothing. Lengths whose only primes are 2, 3 and 5 go by passes of radix 4, 5, 3 and 2 (Stockham's, which
** need no bit reversal), others by a convolution of such a length (Bluestein 1970). Threads do not change a bit of the
** result.
*/
#ifndef PN_MATH_FOURIER_H
#define PN_MATH_FOURIER_H

#include "../../base/context.h"

typedef struct pni_fourier pni_fourier;           /* of n complex numbers */
typedef struct pni_real_fourier pni_real_fourier; /* of n real ones and the n / 2 + 1 first of their transform */

/* The longest complex transform; a real one of even length may have twice that. */
#define PNI_FOURIER_MOST ((int64_t)1 << 31)

/* A new plan of n >= 1 numbers of a float dtype, or NULL. */
pni_fourier *pni_fourier_new(pn_context *c, int dtype, int64_t n);
pni_real_fourier *pni_real_fourier_new(pn_context *c, int dtype, int64_t n);
/* NULL is a no-op. */
void pni_fourier_free(pn_context *c, pni_fourier *f);
void pni_real_fourier_free(pn_context *c, pni_real_fourier *f);

/* Both ways in place: re, im [n]. Of a cancelled transform nothing can be used. */
pn_status pni_fourier_forward(pn_context *c, pni_fourier *f, void *re, void *im);
pn_status pni_fourier_inverse(pn_context *c, pni_fourier *f, void *re, void *im);
/* x [n] to re, im [n / 2 + 1], and back: of the numbers that have no free imaginary part only the real one counts. The
 * inverse overwrites re and im. x is none of them. */
pn_status pni_real_fourier_forward(pn_context *c, pni_real_fourier *f, const void *x, void *re, void *im);
pn_status pni_real_fourier_inverse(pn_context *c, pni_real_fourier *f, void *re, void *im, void *x);

/* The least even length from n on that has no other primes than 2, 3 and 5. */
int64_t pni_fourier_fast_length(int64_t n);

#endif
