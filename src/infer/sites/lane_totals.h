/*
** lane_totals.h: index lists for adding up the lanes of W vectors of W lanes at once, by halves: in the step for
** segments of L lanes two vectors x, y of W / L segments each become one of 2 W / L segments, of the sums of their
** halves. PNI_HALVES_W(L, 0) picks the lower halves out of (x, y), PNI_HALVES_W(L, 1) the upper ones.
*/
#ifndef PN_INFER_SITES_LANE_TOTALS_H
#define PN_INFER_SITES_LANE_TOTALS_H

#define PNI_HALF(W, L, k, upper)                                                                                       \
  ((k) / ((L) / 2) % ((W) / (L)) * (L) + (k) % ((L) / 2) + (upper) * ((L) / 2) + (k) / ((L) / 2) / ((W) / (L)) * (W))
#define PNI_HALVES_2(L, u) PNI_HALF(2, L, 0, u), PNI_HALF(2, L, 1, u)
#define PNI_HALVES_4(L, u) PNI_HALF(4, L, 0, u), PNI_HALF(4, L, 1, u), PNI_HALF(4, L, 2, u), PNI_HALF(4, L, 3, u)
#define PNI_HALVES_8(L, u)                                                                                             \
  PNI_HALF(8, L, 0, u), PNI_HALF(8, L, 1, u), PNI_HALF(8, L, 2, u), PNI_HALF(8, L, 3, u), PNI_HALF(8, L, 4, u),        \
      PNI_HALF(8, L, 5, u), PNI_HALF(8, L, 6, u), PNI_HALF(8, L, 7, u)
#define PNI_HALVES_16(L, u)                                                                                            \
  PNI_HALF(16, L, 0, u), PNI_HALF(16, L, 1, u), PNI_HALF(16, L, 2, u), PNI_HALF(16, L, 3, u), PNI_HALF(16, L, 4, u),   \
      PNI_HALF(16, L, 5, u), PNI_HALF(16, L, 6, u), PNI_HALF(16, L, 7, u), PNI_HALF(16, L, 8, u),                      \
      PNI_HALF(16, L, 9, u), PNI_HALF(16, L, 10, u), PNI_HALF(16, L, 11, u), PNI_HALF(16, L, 12, u),                   \
      PNI_HALF(16, L, 13, u), PNI_HALF(16, L, 14, u), PNI_HALF(16, L, 15, u)

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define PNI_HAS_HALVES
#endif
#endif

#endif
