/*
** lane_shuffle.h: index lists of the steps of a transpose of W vectors of W lanes. In step s = 1, 2, 4... element
** [i][j] with bit s of j set and element [i + s][j - s] change places, for rows i without bit s: LOW_W_s gives the
** new row i from rows i and i + s, HIGH_W_s the new row i + s.
*/
#ifndef PN_TENSOR_LANE_LANE_SHUFFLE_H
#define PN_TENSOR_LANE_LANE_SHUFFLE_H

#include "../../base/processor.h"
#include "lane_matrix.h"

/* x is in a register from here on. */
#if defined(__GNUC__) && defined(__x86_64__)
#define PNI_HOLD(x) __asm__("" : "+v"(x))
#elif defined(__GNUC__) && defined(__aarch64__)
#define PNI_HOLD(x) __asm__("" : "+w"(x))
#else
#define PNI_HOLD(x) (void)(x)
#endif

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define PNI_HAS_SHUFFLE
#endif
#endif

/* A vector of w places out of two halves, and its halves. */
#define JOIN_2(x, y)                                                                                                   \
  { x, y }
#define JOIN_4(x, y)  __builtin_shufflevector(x, y, 0, 1, 2, 3)
#define JOIN_8(x, y)  __builtin_shufflevector(x, y, 0, 1, 2, 3, 4, 5, 6, 7)
#define JOIN_16(x, y) __builtin_shufflevector(x, y, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define FIRST_2(x)    (x)[0]
#define FIRST_4(x)    __builtin_shufflevector(x, x, 0, 1)
#define FIRST_8(x)    __builtin_shufflevector(x, x, 0, 1, 2, 3)
#define FIRST_16(x)   __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7)
#define SECOND_2(x)   (x)[1]
#define SECOND_4(x)   __builtin_shufflevector(x, x, 2, 3)
#define SECOND_8(x)   __builtin_shufflevector(x, x, 4, 5, 6, 7)
#define SECOND_16(x)  __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15)

#define LOW_2_1   0, 2
#define HIGH_2_1  1, 3
#define LOW_4_1   0, 4, 2, 6
#define HIGH_4_1  1, 5, 3, 7
#define LOW_4_2   0, 1, 4, 5
#define HIGH_4_2  2, 3, 6, 7
#define LOW_8_1   0, 8, 2, 10, 4, 12, 6, 14
#define HIGH_8_1  1, 9, 3, 11, 5, 13, 7, 15
#define LOW_8_2   0, 1, 8, 9, 4, 5, 12, 13
#define HIGH_8_2  2, 3, 10, 11, 6, 7, 14, 15
#define LOW_8_4   0, 1, 2, 3, 8, 9, 10, 11
#define HIGH_8_4  4, 5, 6, 7, 12, 13, 14, 15
#define LOW_16_1  0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH_16_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define LOW_16_2  0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH_16_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW_16_4  0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH_16_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW_16_8  0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH_16_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31

#endif
