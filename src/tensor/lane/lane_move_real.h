/*
** lane_move_real.h: matrices into vectors and back, a part of lane_real.h. Where the elements of each matrix lie side
** by side, blocks of LANES, LANES / 2, ... 1 of them are read from all matrices and transposed in registers.
*/

#if defined(PNI_HAS_SHUFFLE) && WIDTH > 1
/* A vector of w places that holds, from place k h on, h elements of row r + k h: join reads it, split writes to the
 * rows below count. */
#define PART(w)      NAME(part_##w)
#define VECTOR_OF(w) typedef REAL PART(w) __attribute__((vector_size(w * sizeof(REAL))));
#define ROW_OF(h)                                                                                                      \
  FN PART(h) NAME(join_##h##_##h)(const void *const *src, int64_t at, int r) {                                         \
    PART(h) x;                                                                                                         \
    memcpy(&x, (const REAL *)src[r] + at, sizeof x);                                                                   \
    return x;                                                                                                          \
  }                                                                                                                    \
  FN void NAME(split_##h##_##h)(void *const *dst, int count, int64_t at, int r, PART(h) x) {                           \
    if (r < count) memcpy((REAL *)dst[r] + at, &x, sizeof x);                                                          \
  }
#define HALVES(w, half, h)                                                                                             \
  FN PART(w) NAME(join_##w##_##h)(const void *const *src, int64_t at, int r) {                                         \
    PART(half) x = NAME(join_##half##_##h)(src, at, r), y = NAME(join_##half##_##h)(src, at, r + half);                \
    return (PART(w))JOIN_##w(x, y);                                                                                    \
  }                                                                                                                    \
  FN void NAME(split_##w##_##h)(void *const *dst, int count, int64_t at, int r, PART(w) x) {                           \
    NAME(split_##half##_##h)(dst, count, at, r, FIRST_##w(x));                                                         \
    NAME(split_##half##_##h)(dst, count, at, r + half, SECOND_##w(x));                                                 \
  }
#define PASTE_(kind, w, s) kind##_##w##_##s
#define PASTE(kind, w, s)  PASTE_(kind, w, s)
#define JOINED_(kind, w)   kind##_##w
#define JOINED(kind, w)    JOINED_(kind, w)
#define LANED(name)        NAME(name)
#define STEP(s, h)                                                                                                     \
  PNI_UNROLL                                                                                                           \
  for (int i = 0; i < (h); i++)                                                                                        \
    if ((s) < (h) && !(i & (s))) {                                                                                     \
      VEC x = v[i], y = v[i + (s)];                                                                                    \
      v[i] = __builtin_shufflevector(x, y, PASTE(LOW, WIDTH, s));                                                      \
      v[i + (s)] = __builtin_shufflevector(x, y, PASTE(HIGH, WIDTH, s));                                               \
    }
/* h elements of each row from element `at` on: place e of part k of vector r and place r of part k of vector e
 * change. */
#define BLOCK(h)                                                                                                       \
  FN void NAME(read_##h)(VEC * dst, const void *const *src, int64_t at) {                                              \
    VEC v[h];                                                                                                          \
    PNI_UNROLL                                                                                                         \
    for (int r = 0; r < h; r++) v[r] = LANED(PASTE(join, WIDTH, h))(src, at, r);                                       \
    TRANSPOSE(h)                                                                                                       \
    PNI_UNROLL                                                                                                         \
    for (int r = 0; r < h; r++) dst[r] = v[r];                                                                         \
  }                                                                                                                    \
  FN void NAME(write_##h)(void *const *dst, int count, const VEC *src, int64_t at) {                                   \
    VEC v[h];                                                                                                          \
    PNI_UNROLL                                                                                                         \
    for (int r = 0; r < h; r++) v[r] = src[r];                                                                         \
    TRANSPOSE(h)                                                                                                       \
    PNI_UNROLL                                                                                                         \
    for (int r = 0; r < h; r++) LANED(PASTE(split, WIDTH, h))(dst, count, at, r, v[r]);                                \
  }

typedef REAL PART(1);
VECTOR_OF(2)
ROW_OF(1)
HALVES(2, 1, 1)
ROW_OF(2)
#if WIDTH > 2
VECTOR_OF(4)
HALVES(4, 2, 1)
HALVES(4, 2, 2)
ROW_OF(4)
#endif
#if WIDTH > 4
VECTOR_OF(8)
HALVES(8, 4, 1)
HALVES(8, 4, 2)
HALVES(8, 4, 4)
ROW_OF(8)
#endif
#if WIDTH > 8
VECTOR_OF(16)
HALVES(16, 8, 1)
HALVES(16, 8, 2)
HALVES(16, 8, 4)
HALVES(16, 8, 8)
ROW_OF(16)
#endif

#if WIDTH == 2
#define TRANSPOSE(h) STEP(1, h)
#elif WIDTH == 4
#define TRANSPOSE(h) STEP(1, h) STEP(2, h)
#elif WIDTH == 8
#define TRANSPOSE(h) STEP(1, h) STEP(2, h) STEP(4, h)
#else
#define TRANSPOSE(h) STEP(1, h) STEP(2, h) STEP(4, h) STEP(8, h)
#endif

BLOCK(1)
BLOCK(2)
#if WIDTH > 2
BLOCK(4)
#endif
#if WIDTH > 4
BLOCK(8)
#endif
#if WIDTH > 8
BLOCK(16)
#endif

/* `size` elements of each matrix, which lie side by side from element `at` on. */
FN void NAME(read_row)(VEC *dst, const void *const *src, int64_t at, int size) {
  for (; size >= LANES; size -= LANES, at += LANES, dst += LANES) LANED(JOINED(read, WIDTH))(dst, src, at);
#if WIDTH > 8
  if (size & 8) NAME(read_8)(dst, src, at), at += 8, dst += 8;
#endif
#if WIDTH > 4
  if (size & 4) NAME(read_4)(dst, src, at), at += 4, dst += 4;
#endif
#if WIDTH > 2
  if (size & 2) NAME(read_2)(dst, src, at), at += 2, dst += 2;
#endif
  if (size & 1) NAME(read_1)(dst, src, at);
}

FN void NAME(write_row)(void *const *dst, int count, const VEC *src, int64_t at, int size) {
  for (; size >= LANES; size -= LANES, at += LANES, src += LANES) LANED(JOINED(write, WIDTH))(dst, count, src, at);
#if WIDTH > 8
  if (size & 8) NAME(write_8)(dst, count, src, at), at += 8, src += 8;
#endif
#if WIDTH > 4
  if (size & 4) NAME(write_4)(dst, count, src, at), at += 4, src += 4;
#endif
#if WIDTH > 2
  if (size & 2) NAME(write_2)(dst, count, src, at), at += 2, src += 2;
#endif
  if (size & 1) NAME(write_1)(dst, count, src, at);
}
#undef PART
#undef VECTOR_OF
#undef ROW_OF
#undef HALVES
#undef PASTE_
#undef PASTE
#undef JOINED_
#undef JOINED
#undef LANED
#undef STEP
#undef TRANSPOSE
#undef BLOCK
#else
FN void NAME(read_row)(VEC *dst, const void *const *src, int64_t at, int size) {
  for (int l = 0; l < LANES; l++)
    for (int e = 0; e < size; e++) ((LANE *)dst)[e * LANES + l] = ((const REAL *)src[l])[at + e];
}

FN void NAME(write_row)(void *const *dst, int count, const VEC *src, int64_t at, int size) {
  for (int l = 0; l < count; l++)
    for (int e = 0; e < size; e++) ((REAL *)dst[l])[at + e] = ((const LANE *)src)[e * LANES + l];
}
#endif

/* dst[i * cols + j] takes element [i, j] of every matrix, whose strides are rs and cs. */
FN void NAME(interleave)(VEC *dst, const void *const *src, int rows, int cols, int64_t rs, int64_t cs) {
  if ((cs == 1 || cols == 1) && (rs == cols || rows == 1)) {
    NAME(read_row)(dst, src, 0, rows * cols);
  } else if (cs == 1) {
    for (int i = 0; i < rows; i++) NAME(read_row)(dst + i * cols, src, i * rs, cols);
  } else {
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < cols; j++) NAME(read_row)(dst + i * cols + j, src, i * rs + j * cs, 1);
  }
}

/* src[e] to element e of the first `count` matrices. */
FN void NAME(deinterleave)(void *const *dst, int count, const VEC *src, int size) {
  NAME(write_row)(dst, count, src, 0, size);
}
