/*
** panel_product_real.h: the panel product of one element type and one instruction set, included with REAL, NAME,
** TARGET, BYTES of a vector, ROWS (at most 14) of a block, SPREAD(x), a vector of one number, and MADD(x, y, z),
** x y + z rounded once; and, where parts of vectors are read and written as fast as whole ones, LOAD_SOME(p, mask) and
** STORE_SOME(p, mask, x), bit i of the mask for place i.
*/

#define FN      static inline __attribute__((always_inline)) TARGET
#define LANES   ((int64_t)(BYTES / sizeof(REAL)))
#define COLUMNS (2 * LANES) /* of a panel */
/* rows of a panel: 20 to 24 kB */
#define DEEPEST (24576 / (2 * BYTES))

typedef REAL NAME(panel_vec) __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));

/* A block of rows of the result under one panel. */
typedef struct {
  const REAL *x, *panel, *from; /* from: NULL for 0 */
  REAL *out;
  int64_t k, x_row, x_col, out_row, from_row;
  unsigned mask; /* of the last vector */
} NAME(panel_block);

#ifdef STORE_SOME
#define LOAD(p)     (v + 1 < vectors ? *(const NAME(panel_vec) *)(p) : (NAME(panel_vec))LOAD_SOME(p, b->mask))
#define STORE(p, x) (v + 1 < vectors ? (void)(*(NAME(panel_vec) *)(p) = (x)) : STORE_SOME(p, b->mask, x))
#else
#define LOAD(p)     (*(const NAME(panel_vec) *)(p))
#define STORE(p, x) (*(NAME(panel_vec) *)(p) = (x))
#endif

FN void NAME(panel_tile)(const NAME(panel_block) * b, const int rows, const int vectors) {
  NAME(panel_vec) sum[ROWS][2];
  PNI_UNROLL for (int i = 0; i < rows; i++) PNI_UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = SPREAD(0);
  const REAL *x = b->x, *y = b->panel;
  int64_t x_row = b->x_row, x_col = b->x_col;
  for (int64_t p = b->k; p > 0; p--, x += x_col, y += COLUMNS) {
    NAME(panel_vec) row[2];
    PNI_UNROLL for (int v = 0; v < vectors; v++) row[v] = *(const NAME(panel_vec) *)(y + v * LANES);
    PNI_UNROLL for (int i = 0; i < rows; i++) {
      NAME(panel_vec) a = SPREAD(x[i * x_row]);
      PNI_UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = MADD(a, row[v], sum[i][v]);
    }
  }
  const REAL *from = b->from;
  REAL *out = b->out;
  if (from)
    PNI_UNROLL for (int i = 0; i < rows; i++, from += b->from_row) PNI_UNROLL for (int v = 0; v < vectors; v++)
        sum[i][v] = LOAD(from + v * LANES) + sum[i][v];
  PNI_UNROLL for (int i = 0; i < rows; i++, out += b->out_row) PNI_UNROLL for (int v = 0; v < vectors; v++)
      STORE(out + v * LANES, sum[i][v]);
}

#define TILE(rows)                                                                                                     \
  TARGET static void NAME(panel_tile_##rows)(const NAME(panel_block) * b) { NAME(panel_tile)(b, rows, 2); }            \
  TARGET static void NAME(panel_half_tile_##rows)(const NAME(panel_block) * b) { NAME(panel_tile)(b, rows, 1); }
#define TILES(rows)                                                                                                    \
  { NAME(panel_half_tile_##rows), NAME(panel_tile_##rows) }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)
#if ROWS == 14
TILE(7)
TILE(8)
TILE(9)
TILE(10)
TILE(11)
TILE(12)
TILE(13)
TILE(14)
#endif
/* By rows less 1, and vectors less 1. */
static void (*const NAME(panel_tiles)[ROWS][2])(const NAME(panel_block) *) = {
    TILES(1), TILES(2), TILES(3), TILES(4),  TILES(5),  TILES(6),
#if ROWS == 14
    TILES(7), TILES(8), TILES(9), TILES(10), TILES(11), TILES(12), TILES(13), TILES(14),
#endif
};

#ifdef PNI_HAS_SHUFFLE
typedef REAL NAME(panel_four) __attribute__((vector_size(4 * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
#define CHANGE(i, s)                                                                                                   \
  {                                                                                                                    \
    NAME(panel_four) a = v[i], b = v[(i) + (s)];                                                                       \
    v[i] = __builtin_shufflevector(a, b, LOW_4_##s);                                                                   \
    v[(i) + (s)] = __builtin_shufflevector(a, b, HIGH_4_##s);                                                          \
  }
/* Four rows of four columns of y, each of which lies in one run. */
FN void NAME(panel_turn)(const REAL *y, int64_t y_col, REAL *to) {
  NAME(panel_four) v[4];
  PNI_UNROLL for (int i = 0; i < 4; i++) v[i] = *(const NAME(panel_four) *)(y + i * y_col);
  CHANGE(0, 1)
  CHANGE(2, 1)
  CHANGE(0, 2)
  CHANGE(1, 2)
  PNI_UNROLL for (int i = 0; i < 4; i++) * (NAME(panel_four) *)(to + i * COLUMNS) = v[i];
}
#undef CHANGE
#define TURNED(p, y, n, panel, c)                                                                                      \
  for (; (p)->y_row == 1 && c + 4 <= n; c += 4) NAME(panel_turn)(y + c * (p)->y_col, (p)->y_col, panel + c);
#else
#define TURNED(p, y, n, panel, c)
#endif

/* The panel becomes k rows of y, or of -y, of n columns; the rest is 0. */
TARGET static void NAME(panel_pack)(const pni_panel_product *p, const REAL *y, int64_t k, int64_t n, REAL *panel) {
  REAL *const first = panel;
  const int64_t size = k * COLUMNS;
  if (n < COLUMNS) memset(panel, 0, (size_t)(k * COLUMNS) * sizeof(REAL));
  if (p->y_col == 1 && n == COLUMNS)
    for (int64_t r = 0; r < k; r++, panel += COLUMNS, y += p->y_row)
      PNI_UNROLL for (int v = 0; v < 2; v++) * (NAME(panel_vec) *)(panel + v * LANES) =
          *(const NAME(panel_vec) *)(y + v * LANES);
  else if (p->y_col == 1)
    for (int64_t r = 0; r < k; r++, panel += COLUMNS, y += p->y_row)
      for (int64_t c = 0; c < n; c++) panel[c] = y[c];
  else {
    int64_t r = 0;
    for (; r + 4 <= k; r += 4, panel += 4 * COLUMNS, y += 4 * p->y_row) { /* lines are read and written whole */
      int64_t c = 0;
      TURNED(p, y, n, panel, c)
      for (; c < n; c++) {
        const REAL *from = y + c * p->y_col;
        REAL *to = panel + c;
        PNI_UNROLL for (int i = 0; i < 4; i++) to[i * COLUMNS] = from[i * p->y_row];
      }
    }
    for (; r < k; r++, panel += COLUMNS, y += p->y_row)
      for (int64_t c = 0; c < n; c++) panel[c] = y[c * p->y_col];
  }
  for (int64_t i = 0; p->negative && i < size; i++) first[i] = -first[i];
}

#ifndef STORE_SOME
/* A block whose columns are fewer than a panel's vectors: by way of a whole one. */
TARGET static void NAME(panel_edge)(NAME(panel_block) b, int64_t rows, int64_t n) {
  REAL whole[ROWS * COLUMNS] __attribute__((aligned(64))), *out = b.out;
  const REAL *from = b.from;
  int64_t out_row = b.out_row;
  b.out = whole;
  b.out_row = COLUMNS;
  b.from = NULL;
  NAME(panel_tiles)[rows - 1][n > LANES](&b);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t c = 0; c < n; c++)
      out[i * out_row + c] = from ? from[i * b.from_row + c] + whole[i * COLUMNS + c] : whole[i * COLUMNS + c];
}
#endif

/* Sums longer than a panel are added up in equal parts: how long they are. */
FN int64_t NAME(panel_depth)(int64_t k) {
  int64_t parts = (k + DEEPEST - 1) / DEEPEST;
  return (k + parts - 1) / parts;
}

/* Asks for part `i` of `parts` of what of y becomes a panel of k rows and n columns, so that it is near when packed. */
FN void NAME(panel_ahead)(const pni_panel_product *p, const REAL *y, int64_t k, int64_t n, int64_t i, int64_t parts) {
  enum { LINE = 64 / sizeof(REAL) };
  bool turned = p->y_col != 1;
  int64_t rows = turned ? n : k, row = turned ? p->y_col : p->y_row, length = turned ? k : n;
  int64_t begin = rows * i / parts, end = rows * (i + 1) / parts;
  for (int64_t r = begin; r < end; r++)
    for (int64_t c = 0; c < length; c += LINE) __builtin_prefetch(y + r * row + c, 0, 2);
}

/* Blocks have the same number of rows, or one fewer. */
TARGET static void NAME(panel_rows)(const pni_panel_product *p) {
  REAL own[DEEPEST * COLUMNS] __attribute__((aligned(64)));
  const REAL *panel = own, *packed = p->packed;
  const int64_t depth = NAME(panel_depth)(p->k), blocks = (p->m + ROWS - 1) / ROWS;
  for (int64_t first = 0; first < p->k; first += depth)
    for (int64_t at = 0; at < p->n; at += COLUMNS) {
      int64_t k = p->k - first < depth ? p->k - first : depth, n = p->n - at < COLUMNS ? p->n - at : COLUMNS;
      if (packed) {
        panel = packed;
        packed += k * COLUMNS;
      } else
        NAME(panel_pack)(p, (const REAL *)p->y + first * p->y_row + at * p->y_col, k, n, own);
      const REAL *from = first ? p->out : p->from;
      NAME(panel_block)
      b = {.x = (const REAL *)p->x + first * p->x_col,
           .panel = panel,
           .from = from ? from + at : NULL,
           .out = (REAL *)p->out + at,
           .k = k,
           .x_row = p->x_row,
           .x_col = p->x_col,
           .out_row = p->out_row,
           .from_row = first ? p->out_row : p->from_row,
           .mask = ~0U >> (32 - ((n - 1) % LANES + 1))};
      bool last = at + COLUMNS >= p->n;
      int64_t ahead_at = last ? 0 : at + COLUMNS, ahead_first = last ? first + depth : first;
      for (int64_t i = 0, rows, left = p->m; i < blocks; i++, left -= rows) {
        rows = (left + blocks - i - 1) / (blocks - i);
        if (!packed && ahead_first < p->k) NAME(panel_ahead)
        (p, (const REAL *)p->y + ahead_first * p->y_row + ahead_at * p->y_col,
         p->k - ahead_first < depth ? p->k - ahead_first : depth, p->n - ahead_at < COLUMNS ? p->n - ahead_at : COLUMNS,
         i, blocks);
#ifndef STORE_SOME
        if (n != LANES && n != COLUMNS)
          NAME(panel_edge)(b, rows, n);
        else
#endif
          NAME(panel_tiles)[rows - 1][n > LANES](&b);
        b.x += rows * p->x_row;
        b.out += rows * p->out_row;
        if (from) b.from += rows * b.from_row;
      }
    }
}

/* So many rows of x that a panel's depth of them stays in the second cache. */
TARGET static void NAME(panel_product)(const pni_panel_product *p) {
  enum { TALLEST = 524288 / (DEEPEST * sizeof(REAL)) / ROWS * ROWS };
  pni_panel_product some = *p;
  for (int64_t at = 0; at < p->m; at += TALLEST) {
    some.m = p->m - at < TALLEST ? p->m - at : TALLEST;
    some.x = (const REAL *)p->x + at * p->x_row;
    some.out = (REAL *)p->out + at * p->out_row;
    if (p->from) some.from = (const REAL *)p->from + at * p->from_row;
    NAME(panel_rows)(&some);
  }
}

/* All panels of y, in the order in which panel_rows takes them. */
TARGET static void NAME(panel_pack_all)(const pni_panel_product *p, void *packed) {
  REAL *panel = packed;
  int64_t depth = NAME(panel_depth)(p->k);
  for (int64_t first = 0; first < p->k; first += depth)
    for (int64_t at = 0; at < p->n; at += COLUMNS) {
      int64_t k = p->k - first < depth ? p->k - first : depth, n = p->n - at < COLUMNS ? p->n - at : COLUMNS;
      NAME(panel_pack)(p, (const REAL *)p->y + first * p->y_row + at * p->y_col, k, n, panel);
      panel += k * COLUMNS;
    }
}

#undef FN
#undef LOAD
#undef STORE
#undef LOAD_SOME
#undef STORE_SOME
#undef LANES
#undef COLUMNS
#undef DEEPEST
#undef TILE
#undef TURNED
#undef TILES
#undef REAL
#undef NAME
#undef SPREAD
#undef MADD
