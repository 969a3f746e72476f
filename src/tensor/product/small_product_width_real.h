/*
** small_product_width_real.h: small products by vectors of BYTES bytes (16, 32 or 64) for one element type and one
** instruction set, included by small_product_real.h from the narrowest width on. Tiles stay in registers: no more than
** eight sums.
*/

#define W(f)  EXPANDED(AT_WIDTH(f)) /* a name of this width */
#define H(f)  EXPANDED(HALF(f))     /* and of the next narrower */
#define VEC   W(vec)
#define LANES ((int64_t)(BYTES / sizeof(REAL)))
typedef REAL VEC __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));
typedef INTEGER W(mask) __attribute__((vector_size(BYTES)));

#define LOAD(p)     (*(const VEC *)(const void *)(p))
#define STORE(p, x) (*(VEC *)(void *)(p) = (x))

/* `vecs` <= 4 vectors of `rows` rows of x y, from x's row and y's column on, `apart` columns from one to the next; step
 * e adds to chain e mod `chains`, as an addition waits for the one before. rows, vecs and chains make 8 sums at
 * most. */
FN void W(tile)(const pni_small_product *p, const REAL *x, const REAL *y, REAL *out, int64_t apart, const int rows,
                const int vecs, const int chains) {
  VEC sum[8];
  PNI_UNROLL for (int s = 0; s < 8; s++) sum[s] = (VEC){0};
  const int64_t whole = p->k - p->k % chains;
  for (int64_t e = 0; e < whole; e += chains)
    PNI_UNROLL for (int c = 0; c < chains; c++) PNI_UNROLL for (int l = 0; l < vecs; l++) {
      VEC w = LOAD(y + (e + c) * p->y_row + l * apart);
      PNI_UNROLL for (int r = 0; r < rows; r++) {
        const int s = (c * rows + r) * vecs + l;
        sum[s] = MADD((VEC){0} + x[r * p->x_row + (e + c) * p->x_col], w, sum[s]);
      }
    }
  for (int64_t e = whole; e < p->k; e++)
    PNI_UNROLL for (int l = 0; l < vecs; l++) sum[l] =
        MADD((VEC){0} + x[e * p->x_col], LOAD(y + e * p->y_row + l * apart), sum[l]);
  PNI_UNROLL for (int r = 0; r < rows; r++) PNI_UNROLL for (int l = 0; l < vecs; l++) {
    VEC s = sum[r * vecs + l];
    if (chains == 2) s += sum[vecs + l];
    if (chains == 4) s = (s + sum[2 * vecs + l]) + (sum[vecs + l] + sum[3 * vecs + l]);
    STORE(out + r * p->n + l * apart, s);
  }
}

/* All rows of `vecs` vectors of columns from column j on. */
FN void W(strip)(const pni_small_product *p, int64_t j, int64_t apart, const int vecs) {
  const REAL *x = p->x, *y = (const REAL *)p->y + j;
  REAL *out = (REAL *)p->out + j;
  int64_t i = 0;
  for (; i + 4 <= p->m; i += 4, x += 4 * p->x_row, out += 4 * p->n) W(tile)(p, x, y, out, apart, 4, vecs, 1);
  if (i + 2 <= p->m) {
    W(tile)(p, x, y, out, apart, 2, vecs, 1);
    i += 2, x += 2 * p->x_row, out += 2 * p->n;
  }
  if (i < p->m) W(tile)(p, x, y, out, apart, 1, vecs, 1);
}

/* One row. */
FN void W(row)(const pni_small_product *p) {
  const REAL *x = p->x, *y = p->y;
  REAL *out = p->out;
  int64_t j = 0;
  for (; j + 4 * LANES <= p->n; j += 4 * LANES) W(tile)(p, x, y + j, out + j, LANES, 1, 4, 2);
  for (; j + 2 * LANES <= p->n; j += 2 * LANES) W(tile)(p, x, y + j, out + j, LANES, 1, 2, 4);
  for (; j < p->n; j += LANES) {
    int64_t at = j + LANES <= p->n ? j : p->n - LANES;
    W(tile)(p, x, y + at, out + at, LANES, 1, 1, 4);
  }
}

/* k = 1: row by row, as it is the writing that takes time. */
FN void W(outer)(const pni_small_product *p) {
  const REAL *x = p->x, *y = p->y;
  REAL *out = p->out;
  const int64_t last = p->n - LANES;
  if (p->n <= 2 * LANES) {
    const VEC first = LOAD(y), second = LOAD(y + last);
    const int64_t m = p->m, n = p->n, step = p->x_row;
    if (last > 0)
      for (int64_t i = 0; i < m; i++, x += step, out += n) STORE(out, first * *x), STORE(out + last, second * *x);
    else
      for (int64_t i = 0; i < m; i++, x += step, out += n) STORE(out, first * *x);
    return;
  }
  for (int64_t i = 0; i < p->m; i++, x += p->x_row, out += p->n) {
    VEC v = (VEC){0} + *x;
    int64_t j = 0;
    for (; j + 2 * LANES <= p->n; j += 2 * LANES) {
      STORE(out + j, v * LOAD(y + j));
      STORE(out + j + LANES, v * LOAD(y + j + LANES));
    }
    if (j < last) STORE(out + j, v * LOAD(y + j));
    if (j < p->n) STORE(out + last, v * LOAD(y + last));
  }
}

/* n >= LANES: the last vector ends with the row and may repeat columns of the one before. */
TARGET static void W(rows)(const pni_small_product *p) {
  int64_t j = 0;
  if (p->k == 1) {
    W(outer)(p);
    return;
  }
  if (p->m == 1) {
    W(row)(p);
    return;
  }
  for (; j + 2 * LANES <= p->n; j += 2 * LANES) W(strip)(p, j, LANES, 2);
  if (j + LANES < p->n)
    W(strip)(p, j, p->n - LANES - j, 2);
  else if (j < p->n)
    W(strip)(p, p->n - LANES, LANES, 1);
}

/* The sum of the lanes down to 16 bytes, by halves. */
#if BYTES == 16
FN VEC W(fold)(VEC s) { return s; }
#else
FN NAME(vec_16) W(fold)(VEC s) { return H(fold)((H(vec))LOW_HALF(s) + (H(vec))HIGH_HALF(s)); }
#endif

/* One or four (`rows`) scalar products of rows of x and y; whole vector e in chain e mod 2, then the last LANES
 * elements as far as `mask` lets through what was not yet taken. */
FN void W(scalar)(const pni_small_product *p, const REAL *x, const REAL *y, REAL *out, W(mask) mask, const int rows) {
  VEC sum[8];
  PNI_UNROLL for (int s = 0; s < 8; s++) sum[s] = (VEC){0};
  int64_t e = 0;
  for (; e + 2 * LANES <= p->k; e += 2 * LANES) PNI_UNROLL for (int c = 0; c < 2; c++) {
      VEC w = LOAD(y + e + c * LANES);
      PNI_UNROLL for (int r = 0; r < rows; r++) sum[2 * r + c] =
          MADD(LOAD(x + r * p->x_row + e + c * LANES), w, sum[2 * r + c]);
    }
  if (e + LANES <= p->k) {
    VEC w = LOAD(y + e);
    PNI_UNROLL for (int r = 0; r < rows; r++) sum[2 * r] = MADD(LOAD(x + r * p->x_row + e), w, sum[2 * r]);
    e += LANES;
  }
  if (e < p->k) {
    const int64_t last = p->k - LANES;
    VEC w = (VEC)((W(mask))LOAD(y + last) & mask);
    PNI_UNROLL for (int r = 0; r < rows; r++) sum[2 * r + 1] =
        MADD((VEC)((W(mask))LOAD(x + r * p->x_row + last) & mask), w, sum[2 * r + 1]);
  }
  NAME(vec_16) all[4];
  PNI_UNROLL for (int r = 0; r < rows; r++) all[r] = W(fold)(sum[2 * r] + sum[2 * r + 1]);
  if (rows == 4)
    NAME(four_totals)(all, out, p->n);
  else
    *out = NAME(total)(all[0]);
}

/* k >= LANES */
TARGET static void W(dots)(const pni_small_product *p) {
  W(mask) mask;
  for (int64_t l = 0; l < LANES; l++) mask[l] = l < LANES - p->k % LANES ? 0 : -1;
  for (int64_t j = 0; j < p->n; j++) {
    const REAL *x = p->x, *y = (const REAL *)p->y + j * p->y_col;
    REAL *out = (REAL *)p->out + j;
    int64_t i = 0;
    for (; i + 4 <= p->m; i += 4, x += 4 * p->x_row, out += 4 * p->n) W(scalar)(p, x, y, out, mask, 4);
    for (; i < p->m; i++, x += p->x_row, out += p->n) W(scalar)(p, x, y, out, mask, 1);
  }
}

#undef VEC
#undef LANES
#undef LOAD
#undef STORE
#undef W
#undef H
#undef AT_WIDTH
#undef HALF
#undef LOW_HALF
#undef HIGH_HALF
#undef MADD
#undef BYTES
