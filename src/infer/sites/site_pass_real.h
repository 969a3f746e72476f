/*
** site_pass_real.h: see site_pass.h. The passes for one element type and one instruction set: included with REAL,
** NAME(name), TARGET, WIDTH (lanes of the widest vector), HALVES (lane_totals.h), MADD(x, y, z) = x y + z,
** VECTOR(function, x, y, n) and NORMAL(key, position, begin, end, out).
*/

#define FN    static inline __attribute__((always_inline)) TARGET
#define VEC   NAME(vec)
#define LANES ((int64_t)PNI_SITE_LANES)
typedef REAL VEC __attribute__((vector_size(WIDTH * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
#define LOAD(p)     (*(const VEC *)(const void *)(p))
#define STORE(p, x) (*(VEC *)(void *)(p) = (x))
enum { NAME(tile_side) = PNI_SITE_PANEL };
#define SIDE NAME(tile_side)

#include "site_node_real.h"

/* ---- products ---- */

/* A matrix whose elements are 16 numbers, or one for all lanes; steps from row to row and column to column. */
typedef struct {
  const REAL *at;
  int64_t row, col;
} NAME(matrix);
#define MATRIX NAME(matrix)

/* sum[r, c] += sum over e < k of a[r, e] b[e, c], for one vector of lanes. single: a has one number for all lanes. */
FN void NAME(multiply)(VEC *sum, MATRIX a, MATRIX b, int64_t k, const int rows, const int cols, const bool single) {
  for (int64_t e = 0; e < k; e++, a.at += a.col, b.at += b.row) {
    VEC w[SIDE];
    PNI_UNROLL for (int c = 0; c < cols; c++) w[c] = LOAD(b.at + c * b.col);
    PNI_UNROLL for (int r = 0; r < rows; r++) {
      VEC v;
      if (single)
        v = (VEC){0} + a.at[r * a.row];
      else
        v = LOAD(a.at + r * a.row);
      PNI_UNROLL for (int c = 0; c < cols; c++) sum[r * cols + c] = MADD(v, w[c], sum[r * cols + c]);
    }
  }
}

/* Calls f(.., rows, cols, ..) with sides that the compiler knows: SIDE or 1. */
#define BY_SIDES(f, rows, cols, ...)                                                                                   \
  do {                                                                                                                 \
    if ((rows) == SIDE && (cols) == SIDE)                                                                              \
      f(SIDE, SIDE, __VA_ARGS__);                                                                                      \
    else if ((rows) == SIDE)                                                                                           \
      f(SIDE, 1, __VA_ARGS__);                                                                                         \
    else if ((cols) == SIDE)                                                                                           \
      f(1, SIDE, __VA_ARGS__);                                                                                         \
    else                                                                                                               \
      f(1, 1, __VA_ARGS__);                                                                                            \
  } while (0)
/* Steps of SIDE as far as they go, then of 1. */
FN int NAME(step)(int64_t at, int64_t n) { return at + SIDE <= n ? SIDE : 1; }
#define STEP(at, n) NAME(step)(at, n)

/* The inputs of a layer: x, or outputs of the layer below, of the data from `t` of the room on. */
FN MATRIX NAME(inputs)(const pni_site_problem *p, const pni_site_room *r, int l, int64_t first, int64_t t) {
  const pni_site_layer *own = &p->layer[l];
  if (l == 0) return (MATRIX){(const REAL *)p->x + first * own->in, own->in, 1};
  return (MATRIX){(const REAL *)r->h + (p->layer[l - 1].node * p->hold + t * own->in) * LANES, own->in * LANES, LANES};
}

/* The numbers of a layer's nodes for datum t of a room in one of its arrays. */
FN REAL *NAME(nodes)(const pni_site_problem *p, void *array, int l, int64_t t) {
  const pni_site_layer *own = &p->layer[l];
  return (REAL *)array + (own->node * p->hold + t * own->out) * LANES;
}

/* A panel of columns of a layer's weights. */
FN const REAL *NAME(panel)(const pni_site_layer *own, const void *weights, int64_t j) {
  return (const REAL *)weights + (own->at + j * own->rows) * LANES;
}

/* Inputs that are multiplied at a time: their weights of a panel stay in the first cache from datum to datum. */
enum { NAME(block) = 128 };

/* Data of a tile times a panel of weights, the inputs from `from` on; without `d` they are stored, with it times d
 * added to e: what the weights `b` would make of the outputs, to first order. */
FN void NAME(affine)(const int rows, const int cols, const pni_site_layer *own, MATRIX a, const REAL *b, int64_t from,
                     const bool single, const bool says, REAL *out, const REAL *d, REAL *e) {
  const int64_t row = own->out * LANES, k = own->in - from < NAME(block) ? own->in - from : NAME(block);
  for (int v = 0; v < LANES; v += WIDTH) {
    VEC sum[SIDE * SIDE];
    const REAL *bias = b + own->in * cols * LANES + v;
    PNI_UNROLL for (int s = 0; s < rows * cols; s++) sum[s] = (VEC){0};
    if (from == 0 && own->rows > own->in)
      PNI_UNROLL for (int s = 0; s < rows * cols; s++) sum[s] = LOAD(bias + s % cols * LANES);
    if (from > 0 && !says)
      PNI_UNROLL for (int s = 0; s < rows * cols; s++) sum[s] = LOAD(out + s / cols * row + s % cols * LANES + v);
    MATRIX part = {a.at + from * a.col + (single ? 0 : v), a.row, a.col};
    NAME(multiply)(sum, part, (MATRIX){b + from * cols * LANES + v, cols * LANES, LANES}, k, rows, cols, single);
    PNI_UNROLL for (int r = 0; r < rows; r++) {
      const int64_t at = r * row + v;
      if (!says) {
        PNI_UNROLL for (int c = 0; c < cols; c++) STORE(out + at + c * LANES, sum[r * cols + c]);
        continue;
      }
      VEC s = LOAD(e + r * LANES + v);
      PNI_UNROLL for (int c = 0; c < cols; c++) s = MADD(sum[r * cols + c], LOAD(d + at + c * LANES), s);
      STORE(e + r * LANES + v, s);
    }
  }
}

FN void NAME(forward_tile)(int rows, int cols, const pni_site_problem *p, const pni_site_room *r, int l, int64_t first,
                           int64_t t, int64_t at, int64_t j, int64_t from, REAL *e) {
  const pni_site_layer *own = &p->layer[l];
  const REAL *b = NAME(panel)(own, e ? r->u : r->w, j);
  MATRIX a = NAME(inputs)(p, r, l, first + t, at + t);
  REAL *out = NAME(nodes)(p, r->h, l, at + t) + j * LANES, *d = NAME(nodes)(p, r->d, l, at + t) + j * LANES;
  if (e && l == 0)
    BY_SIDES(NAME(affine), rows, cols, own, a, b, from, true, true, out, d, e + t * LANES);
  else if (e)
    BY_SIDES(NAME(affine), rows, cols, own, a, b, from, false, true, out, d, e + t * LANES);
  else if (l == 0)
    BY_SIDES(NAME(affine), rows, cols, own, a, b, from, true, false, out, d, out);
  else
    BY_SIDES(NAME(affine), rows, cols, own, a, b, from, false, false, out, d, out);
}

/* Inputs of layer l's nodes into h; or, with e, what u says. */
TARGET static void NAME(forward)(const pni_site_problem *p, const pni_site_room *r, int l, int64_t first, int64_t n,
                                 int64_t at, REAL *e) {
  const pni_site_layer *own = &p->layer[l];
  for (int64_t j = 0, cols; j < own->out; j += cols) {
    cols = STEP(j, own->out);
    for (int64_t from = 0; from < own->in; from += NAME(block))
      for (int64_t t = 0, rows; t < n; t += rows) {
        rows = STEP(t, n);
        NAME(forward_tile)((int)rows, (int)cols, p, r, l, first, t, at, j, from, e);
      }
  }
}

/* d of `cols` nodes below: d W^T times the slopes that stand there. */
FN void NAME(transposed)(const int rows, const int cols, const pni_site_problem *p, const pni_site_room *r, int l,
                         int64_t t, int64_t i) {
  const pni_site_layer *own = &p->layer[l];
  const int64_t whole = own->out - own->out % SIDE;
  REAL *below = NAME(nodes)(p, r->d, l - 1, t) + i * LANES;
  for (int v = 0; v < LANES; v += WIDTH) {
    VEC sum[SIDE * SIDE];
    PNI_UNROLL for (int s = 0; s < rows * cols; s++) sum[s] = (VEC){0};
    MATRIX d = {NAME(nodes)(p, r->d, l, t) + v, own->out * LANES, LANES};
    for (int64_t j = 0; j < whole; j += SIDE, d.at += SIDE * LANES) {
      MATRIX w = {NAME(panel)(own, r->w, j) + i * SIDE * LANES + v, LANES, SIDE * LANES};
      NAME(multiply)(sum, d, w, SIDE, rows, cols, false);
    }
    MATRIX rest = {NAME(panel)(own, r->w, whole) + i * LANES + v, own->rows * LANES, LANES};
    NAME(multiply)(sum, d, rest, own->out - whole, rows, cols, false);
    PNI_UNROLL for (int k = 0; k < rows; k++) PNI_UNROLL for (int c = 0; c < cols; c++) {
      REAL *to = below + (k * own->in + c) * LANES + v;
      VEC s = sum[k * cols + c];
      if (p->layer[l - 1].activation != PNI_SLOPE_IDENTITY) s *= LOAD(to);
      STORE(to, s);
    }
  }
}

TARGET static void NAME(back)(const pni_site_problem *p, const pni_site_room *r, int l, int64_t n, int64_t at) {
  const int64_t in = p->layer[l].in;
  for (int64_t i = 0, cols; i < in; i += cols) {
    cols = STEP(i, in);
    for (int64_t t = 0, rows; t < n; t += rows) {
      rows = STEP(t, n);
      BY_SIDES(NAME(transposed), rows, cols, p, r, l, at + t, i);
    }
  }
}

/* g of `rows` inputs and a panel: the sum over data of input times d. */
FN void NAME(gather)(const int rows, const int cols, MATRIX h, MATRIX d, int64_t n, REAL *g, const bool single) {
  for (int v = 0; v < LANES; v += WIDTH) {
    VEC sum[SIDE * SIDE];
    PNI_UNROLL for (int s = 0; s < rows * cols; s++) sum[s] = LOAD(g + s * LANES + v);
    MATRIX a = {single ? h.at : h.at + v, h.row, h.col}, b = {d.at + v, d.row, d.col};
    NAME(multiply)(sum, a, b, n, rows, cols, single);
    PNI_UNROLL for (int s = 0; s < rows * cols; s++) STORE(g + s * LANES + v, sum[s]);
  }
}

/* Rows of `cols` columns of d side by side: far apart they would share few places of a cache. */
FN MATRIX NAME(packed)(MATRIX d, int64_t n, int64_t cols, REAL *room) {
  for (int64_t t = 0; t < n; t++)
    memcpy(room + t * cols * LANES, d.at + t * d.row, (size_t)(cols * LANES) * sizeof *room);
  return (MATRIX){room, cols * LANES, LANES};
}

TARGET static void NAME(gather_all)(const pni_site_problem *p, const pni_site_room *r, int l, int64_t first, int64_t n,
                                    int64_t at) {
  static const REAL one = 1;
  const pni_site_layer *own = &p->layer[l];
  MATRIX h = NAME(inputs)(p, r, l, first, at);
  for (int64_t j = 0, cols; j < own->out; j += cols) {
    MATRIX d = {NAME(nodes)(p, r->d, l, at) + j * LANES, own->out * LANES, LANES};
    REAL *g = (REAL *)(uintptr_t)NAME(panel)(own, r->g, j);
    cols = STEP(j, own->out);
    if (own->in > 8 * SIDE) d = NAME(packed)(d, n, cols, (REAL *)r->spare + p->tile * LANES);
    for (int64_t i = 0, rows; i < own->in; i += rows) {
      MATRIX a = {h.at + i * h.col, h.col, h.row};
      rows = STEP(i, own->in);
      if (l == 0)
        BY_SIDES(NAME(gather), rows, cols, a, d, n, g + i * cols * LANES, true);
      else
        BY_SIDES(NAME(gather), rows, cols, a, d, n, g + i * cols * LANES, false);
    }
    if (own->rows > own->in)
      BY_SIDES(NAME(gather), 1, cols, ((MATRIX){&one, 0, 0}), d, n, g + own->in * cols * LANES, true);
  }
}

/* Exponents of the data; lanes past the last draw count nothing. */
TARGET static void NAME(weigh)(const pni_site_problem *p, int64_t group, int64_t first, int64_t n, int64_t out, REAL *d,
                               REAL *value) {
  const int64_t rest = p->draws - group * LANES;
  if (!p->exponent && rest >= LANES) return;
  for (int64_t t = 0; t < n; t++, value += LANES, d += out * LANES) {
    REAL factor[PNI_SITE_LANES], own = p->exponent ? ((const REAL *)p->exponent)[first + t] : 1;
    for (int k = 0; k < LANES; k++) factor[k] = (p->antithetic ? k % (LANES / 2) * 2 : k) < rest ? own : 0;
    for (int k = 0; k < LANES; k++) value[k] = factor[k] != 0 ? value[k] * factor[k] : 0;
    for (int64_t e = 0; e < out * LANES; e += LANES)
      for (int k = 0; k < LANES; k++) d[e + k] = factor[k] != 0 ? d[e + k] * factor[k] : 0;
  }
}

/* Log likelihood and d of the last layer. */
TARGET static void NAME(judge)(const pni_site_problem *p, const pni_site_room *r, int64_t group, int64_t first,
                               int64_t n, int64_t at) {
  const pni_site_layer *last = &p->layer[p->num_layers - 1];
  const int64_t out = last->out;
  REAL *f = NAME(nodes)(p, r->h, p->num_layers - 1, at), *d = NAME(nodes)(p, r->d, p->num_layers - 1, at);
  REAL *value = r->spare, *spare = value + p->tile * LANES, *slope = d;
  bool bent = last->activation != PNI_SLOPE_IDENTITY;
  if (bent) d = spare + p->tile * p->widest * LANES;
  switch (p->likelihood) {
  case PNI_SITE_normal: NAME(normal)(p, (const REAL *)p->y + first * out, f, d, value, n, out); break;
  case PNI_SITE_bernoulli: NAME(bernoulli)((const REAL *)p->y + first * out, f, d, value, spare, n, out); break;
  default: NAME(categorical)((const int64_t *)p->y + first, f, d, value, spare, n, out);
  }
  NAME(weigh)(p, group, first, n, out, d, value);
  if (bent)
    for (int64_t e = 0; e < n * out * LANES; e++) slope[e] *= d[e];
  for (int64_t t = 0; t < n; t++) r->value[first + t] += NAME(lane_sum)(value + t * LANES);
}

/* ---- what site_pass.h promises ---- */

TARGET static void NAME(draw)(const pni_site_problem *p, const pni_site_room *r, int64_t group) {
  const int64_t drawn = p->antithetic ? LANES / 2 : LANES;
  const uint64_t from = (uint64_t)(group * p->weights * drawn);
  const REAL *mean = p->mean, *scale = p->scale, *slant = p->slant;
  REAL *restrict eps = r->eps, *restrict w = r->w, *restrict u = r->u;
  NORMAL(p->key, p->position, from, from + (uint64_t)(p->weights * drawn), eps);
  for (int64_t i = p->weights - 1; i >= 0 && p->antithetic; i--)
    for (int64_t k = drawn - 1; k >= 0; k--) {
      REAL e = eps[i * drawn + k];
      eps[i * LANES + drawn + k] = -e;
      eps[i * LANES + k] = e;
    }
  for (int64_t i = 0; i < p->weights; i++)
    for (int k = 0; k < LANES; k += WIDTH) {
      VEC e = LOAD(eps + i * LANES + k);
      STORE(w + i * LANES + k, MADD(e, (VEC){0} + scale[i], (VEC){0} + mean[i]));
      if (p->totals) STORE(u + i * LANES + k, (VEC){0} + mean[i] - e * slant[i]);
    }
}

TARGET static void NAME(pass)(const pni_site_problem *p, const pni_site_room *r, int64_t group, int64_t first,
                              int64_t n, int64_t at) {
  const int last = p->num_layers - 1;
  for (int l = 0; l <= last; l++) {
    const pni_site_layer *own = &p->layer[l];
    NAME(forward)(p, r, l, first, n, at, NULL);
    NAME(activate)(own, NAME(nodes)(p, r->h, l, at), NAME(nodes)(p, r->d, l, at), r->spare, n * own->out * LANES);
  }
  NAME(judge)(p, r, group, first, n, at);
  for (int l = last; l > 0; l--) NAME(back)(p, r, l, n, at);
  if (!p->totals) return;
  REAL *e = r->spare;
  memset(e, 0, (size_t)(n * LANES) * sizeof *e);
  for (int l = 0; l <= last; l++) {
    NAME(forward)(p, r, l, first, n, at, e);
    NAME(gather_all)(p, r, l, first, n, at);
  }
  for (int64_t t = 0; t < n; t++) r->site[first + t] += NAME(lane_sum)(e + t * LANES);
}

TARGET static void NAME(close)(const pni_site_problem *p, const pni_site_room *r) {
  const REAL *eps = r->eps;
  REAL *restrict g = r->g, *restrict sum = r->sum, *restrict product = r->product;
  for (int64_t i = 0; i < p->weights * LANES; i += WIDTH) {
    VEC v = LOAD(g + i);
    STORE(sum + i, LOAD(sum + i) + v);
    STORE(product + i, MADD(v, LOAD(eps + i), LOAD(product + i)));
    STORE(g + i, (VEC){0});
  }
}

TARGET static void NAME(fold)(const pni_site_problem *p, const pni_site_room *r) {
  const REAL *sum = r->sum, *product = r->product;
  for (int64_t i = 0; i < p->weights; i++) {
    r->sum_total[i] = NAME(lane_sum)(sum + i * LANES);
    r->product_total[i] = NAME(lane_sum)(product + i * LANES);
  }
}

/* ---- sites one by one ---- */

/* s[0] = the sums of the lanes of s[0] .. s[WIDTH - 1]. */
FN void NAME(totals)(VEC *s) {
#ifdef PNI_HAS_HALVES
#define FOLD(L)                                                                                                        \
  PNI_UNROLL for (int k = 0; k < L / 2; k++) s[k] = __builtin_shufflevector(s[2 * k], s[2 * k + 1], HALVES(L, 0)) +    \
                                                    __builtin_shufflevector(s[2 * k], s[2 * k + 1], HALVES(L, 1));
#if WIDTH >= 16
  FOLD(16)
#endif
#if WIDTH >= 8
  FOLD(8)
#endif
#if WIDTH >= 4
  FOLD(4)
#endif
  FOLD(2)
#undef FOLD
#else
  REAL sum[WIDTH], v[WIDTH];
  for (int k = 0; k < WIDTH; k++) {
    STORE(v, s[k]);
    for (int half = WIDTH / 2; half > 0; half /= 2)
      for (int l = 0; l < half; l++) v[l] = v[2 * l] + v[2 * l + 1];
    sum[k] = v[0];
  }
  s[0] = LOAD(sum);
#endif
}

/* out[k] += factor[k] times the sum of the lanes of s[k], n <= SIDE^2. */
FN void NAME(add_totals)(const VEC *s, const int n, const double *factor, double *out) {
  REAL v[SIDE * SIDE];
  PNI_UNROLL for (int from = 0; from < n; from += WIDTH) {
    VEC part[WIDTH];
    PNI_UNROLL for (int k = 0; k < WIDTH; k++) part[k] = from + k < n ? s[from + k] : (VEC){0};
    NAME(totals)(part);
    STORE(v + from, part[0]);
  }
  for (int k = 0; k < n; k++) out[k] += factor[k] * (double)v[k];
}

/* Of the first layer, whose inputs x are the same in all draws: d eps, for `rows` data, `cols` inputs and a panel of
 * columns of the weights. */
FN void NAME(first_tile)(const int rows, const int cols, const int width, const pni_site_problem *p, MATRIX d,
                         MATRIX eps, int64_t groups, int64_t data, int64_t i, double *out) {
  const int64_t in = p->layer[0].in;
  VEC sum[SIDE][SIDE * SIDE];
  PNI_UNROLL for (int j = 0; j < width; j++) {
    VEC own[SIDE * SIDE];
    PNI_UNROLL for (int s = 0; s < rows * cols; s++) own[s] = (VEC){0};
    for (int v = 0; v < LANES; v += WIDTH) {
      MATRIX a = {d.at + j * LANES + v, d.row, d.col}, b = {eps.at + j * LANES + v, eps.row, eps.col};
      NAME(multiply)(own, a, b, groups, rows, cols, false);
    }
    PNI_UNROLL for (int s = 0; s < rows * cols; s++) sum[j][s] = own[s];
  }
  for (int r = 0; r < rows; r++) {
    const REAL *x = (const REAL *)p->x + (data + r) * in;
    double factor[SIDE * SIDE];
    VEC own[SIDE * SIDE];
    PNI_UNROLL for (int c = 0; c < cols; c++) PNI_UNROLL for (int j = 0; j < width; j++) {
      own[c * width + j] = sum[j][r * cols + c];
      factor[c * width + j] = i + c < in ? (double)x[i + c] : 1;
    }
    NAME(add_totals)(own, cols * width, factor, out + 2 * r * p->weights);
  }
}

/* g is x times the sum of d, which stands in the place of the first input. */
FN void NAME(collect_first)(const int width, const pni_site_problem *p, const pni_site_room *r, int64_t groups,
                            int64_t apart, int64_t n, int64_t j, double *out) {
  const pni_site_layer *own = &p->layer[0];
  for (int64_t t = 0, rows; t < n; t += rows) {
    MATRIX d = {NAME(nodes)(p, r->d, 0, t) + j * LANES, own->out * LANES, apart};
    double *to = out + 2 * t * p->weights + pni_site_place(own, 0, j);
    rows = STEP(t, n);
    for (int64_t i = 0, cols; i < own->rows; i += cols) {
      MATRIX eps = {(const REAL *)r->eps + pni_site_place(own, i, j) * LANES, apart, width * LANES};
      cols = STEP(i, own->rows);
      BY_SIDES(NAME(first_tile), rows, cols, width, p, d, eps, groups, t, i, to + p->weights + i * width);
    }
    for (int64_t k = 0; k < rows; k++)
      for (int c = 0; c < width; c++)
        for (int64_t g = 0; g < groups; g++)
          to[2 * k * p->weights + c] += NAME(lane_sum)(d.at + k * d.row + c * LANES + g * apart);
  }
}

/* `rows` inputs and a panel of columns of one datum: h d and h d eps. */
FN void NAME(later_tile)(const int rows, const int cols, MATRIX h, MATRIX d, MATRIX eps, int64_t groups, double *out,
                         int64_t weights) {
  static const double ones[SIDE * SIDE] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  VEC sum[SIDE * SIDE], product[SIDE * SIDE];
  PNI_UNROLL for (int s = 0; s < rows * cols; s++) sum[s] = (VEC){0};
  PNI_UNROLL for (int s = 0; s < rows * cols; s++) product[s] = (VEC){0};
  for (int v = 0; v < LANES; v += WIDTH) {
    MATRIX a = {h.at + v, h.row, h.col}, b = {d.at + v, d.row, d.col};
    NAME(multiply)(sum, a, b, groups, rows, cols, false);
    for (int64_t g = 0; g < groups; g++) PNI_UNROLL for (int k = 0; k < rows; k++) {
        VEC left = LOAD(h.at + g * h.col + k * h.row + v);
        PNI_UNROLL for (int c = 0; c < cols; c++) product[k * cols + c] =
            MADD(left * LOAD(d.at + g * d.row + c * d.col + v),
                 LOAD(eps.at + g * eps.row + (k * cols + c) * eps.col + v), product[k * cols + c]);
      }
  }
  NAME(add_totals)(sum, rows * cols, ones, out);
  NAME(add_totals)(product, rows * cols, ones, out + weights);
}

TARGET static void NAME(collect_later)(const pni_site_problem *p, const pni_site_room *r, int64_t groups, int64_t apart,
                                       int64_t n, int l, int64_t j, int64_t width, double *out) {
  static const REAL ones[PNI_SITE_LANES] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const pni_site_layer *own = &p->layer[l];
  for (int64_t t = 0; t < n; t++) {
    MATRIX h = NAME(inputs)(p, r, l, 0, t), d = {NAME(nodes)(p, r->d, l, t) + j * LANES, apart, LANES};
    for (int64_t i = 0, rows; i < own->rows; i += rows) {
      int64_t place = own->at + pni_site_place(own, i, j);
      MATRIX a = {h.at + i * LANES, LANES, apart}, eps = {(const REAL *)r->eps + place * LANES, apart, LANES};
      rows = STEP(i, own->in);
      if (i == own->in) {
        rows = 1;
        a = (MATRIX){ones, 0, 0};
      }
      BY_SIDES(NAME(later_tile), rows, width, a, d, eps, groups, out + 2 * t * p->weights + place, p->weights);
    }
  }
}

TARGET static void NAME(collect)(const pni_site_problem *p, const pni_site_room *r, int64_t groups, int64_t apart,
                                 int64_t n, int l, int64_t j, double *out) {
  const int64_t width = STEP(j, p->layer[l].out);
  if (l > 0)
    NAME(collect_later)(p, r, groups, apart, n, l, j, width, out);
  else if (width == SIDE)
    NAME(collect_first)(SIDE, p, r, groups, apart, n, j, out);
  else
    NAME(collect_first)(1, p, r, groups, apart, n, j, out);
}

static const pni_site_kernels NAME(kernels) = {NAME(draw), NAME(pass), NAME(close), NAME(fold), NAME(collect)};

#undef FN
#undef VEC
#undef LANES
#undef LOAD
#undef STORE
#undef SIDE
#undef MATRIX
#undef BY_SIDES
#undef STEP
#undef NAME
#undef TARGET
#undef WIDTH
#undef MADD
#undef HALVES
