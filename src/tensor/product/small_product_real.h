/*
** small_product_real.h: the loops of tiny products for one element type and one instruction set, included with REAL, NAME and
** TARGET. Vectors are the compiler's own, 64 bytes long, cut where the processor's are shorter.
*/

typedef REAL NAME(vec) __attribute__((vector_size(64)));
typedef REAL NAME(half) __attribute__((vector_size(32)));
typedef REAL NAME(quarter) __attribute__((vector_size(16)));
#define VEC   NAME(vec)
#define LANES ((int64_t)(64 / sizeof(REAL)))
#define FN    static inline __attribute__((always_inline)) TARGET

/* `count` vectors of row x (k elements, x_col apart) times y, from column j on. */
FN void NAME(strip)(const pni_small_product *p, const REAL *x, const REAL *y, REAL *out, int count) {
  VEC acc[4] = {{0}, {0}, {0}, {0}};
  for (int64_t i = 0; i < p->k; i++) {
    REAL v = x[i * p->x_col];
    for (int l = 0; l < count; l++) {
      VEC w;
      memcpy(&w, y + i * p->y_row + l * LANES, sizeof w);
      acc[l] += v * w;
    }
  }
  for (int l = 0; l < count; l++) memcpy(out + l * LANES, &acc[l], sizeof(VEC));
}

/* A row of n < LANES columns, n known to the compiler: four sums side by side, so that no addition waits for another. */
FN void NAME(narrow)(const pni_small_product *p, const REAL *x, const REAL *y, REAL *out, const int64_t n) {
  REAL s[4][LANES] = {{0}};
  int64_t i = 0;
  for (; i + 4 <= p->k; i += 4)
    for (int64_t r = 0; r < 4; r++)
      for (int64_t j = 0; j < n; j++) s[r][j] += x[(i + r) * p->x_col] * y[(i + r) * p->y_row + j];
  for (; i < p->k; i++)
    for (int64_t j = 0; j < n; j++) s[0][j] += x[i * p->x_col] * y[i * p->y_row + j];
  for (int64_t j = 0; j < n; j++) out[j] = (s[0][j] + s[1][j]) + (s[2][j] + s[3][j]);
}

/* A row of fewer than LANES columns. */
FN void NAME(short_row)(const pni_small_product *p, const REAL *x, const REAL *y, REAL *out, int64_t n) {
  switch (n) {
  case 1: NAME(narrow)(p, x, y, out, 1); return;
  case 2: NAME(narrow)(p, x, y, out, 2); return;
  case 3: NAME(narrow)(p, x, y, out, 3); return;
  case 4: NAME(narrow)(p, x, y, out, 4); return;
  case 5: NAME(narrow)(p, x, y, out, 5); return;
  case 6: NAME(narrow)(p, x, y, out, 6); return;
  default: break;
  }
  for (int64_t j = 0; j < n; j++) {
    REAL s = 0;
    for (int64_t i = 0; i < p->k; i++) s += x[i * p->x_col] * y[i * p->y_row + j];
    out[j] = s;
  }
}

/* The last strip of a row ends with it and may repeat columns of the one before. */
TARGET static void NAME(rows)(const pni_small_product *p) {
  const REAL *y = p->y;
  for (int64_t i = 0; i < p->m; i++) {
    const REAL *x = (const REAL *)p->x + i * p->x_row;
    REAL *out = (REAL *)p->out + i * p->n;
    int64_t j = 0;
    for (; j + 4 * LANES <= p->n; j += 4 * LANES) NAME(strip)(p, x, y + j, out + j, 4);
    if (j + 2 * LANES <= p->n) {
      NAME(strip)(p, x, y + j, out + j, 2);
      j += 2 * LANES;
    }
    if (j + LANES <= p->n) {
      NAME(strip)(p, x, y + j, out + j, 1);
      j += LANES;
    }
    if (j == p->n) continue;
    if (p->n >= LANES)
      NAME(strip)(p, x, y + p->n - LANES, out + p->n - LANES, 1);
    else
      NAME(short_row)(p, x, y, out, p->n);
  }
}

/* Sum of the lanes, by halves. */
FN REAL NAME(total)(const VEC *v) {
  REAL lane[16 / sizeof(REAL)];
  NAME(half) a, b;
  NAME(quarter) c, d;
  memcpy(&a, v, 32);
  memcpy(&b, (const char *)v + 32, 32);
  a += b;
  memcpy(&c, &a, 16);
  memcpy(&d, (const char *)&a + 16, 16);
  c += d;
  memcpy(lane, &c, 16);
  return LANES == 8 ? lane[0] + lane[1] : (lane[0] + lane[LANES == 8 ? 0 : 2]) + (lane[1] + lane[LANES == 8 ? 0 : 3]);
}

/* Scalar products x_i . y of k < LANES elements, k known to the compiler. */
FN void NAME(short_dots)(const pni_small_product *p, const int64_t k) {
  for (int64_t j = 0; j < p->n; j++) {
    REAL y[LANES];
    for (int64_t e = 0; e < k; e++) y[e] = ((const REAL *)p->y + j * p->y_col)[e];
    for (int64_t i = 0; i < p->m; i++) {
      const REAL *x = (const REAL *)p->x + i * p->x_row;
      REAL s = 0;
      for (int64_t e = 0; e < k; e++) s += x[e] * y[e];
      ((REAL *)p->out)[i * p->n + j] = s;
    }
  }
}

/* Four scalar products x_i . y at a time; what is left of k is added one by one. */
TARGET static void NAME(dots)(const pni_small_product *p) {
  switch (p->k) {
  case 1: NAME(short_dots)(p, 1); return;
  case 2: NAME(short_dots)(p, 2); return;
  case 3: NAME(short_dots)(p, 3); return;
  case 4: NAME(short_dots)(p, 4); return;
  case 5: NAME(short_dots)(p, 5); return;
  case 6: NAME(short_dots)(p, 6); return;
  default: break;
  }
  int64_t whole = p->k / LANES * LANES;
  for (int64_t j = 0; j < p->n; j++) {
    const REAL *y = (const REAL *)p->y + j * p->y_col;
    for (int64_t i = 0; i < p->m; i += 4) {
      VEC acc[4] = {{0}, {0}, {0}, {0}};
      const REAL *x[4];
      for (int64_t r = 0; r < 4; r++) x[r] = (const REAL *)p->x + (i + r < p->m ? i + r : i) * p->x_row;
      for (int64_t e = 0; e < whole; e += LANES) {
        VEC v, w;
        memcpy(&w, y + e, sizeof w);
        for (int r = 0; r < 4; r++) {
          memcpy(&v, x[r] + e, sizeof v);
          acc[r] += v * w;
        }
      }
      for (int64_t r = 0; r < 4 && i + r < p->m; r++) {
        REAL s = whole ? NAME(total)(&acc[r]) : 0;
        for (int64_t e = whole; e < p->k; e++) s += x[r][e] * y[e];
        ((REAL *)p->out)[(i + r) * p->n + j] = s;
      }
    }
  }
}

#undef VEC
#undef LANES
#undef FN
#undef REAL
#undef NAME
