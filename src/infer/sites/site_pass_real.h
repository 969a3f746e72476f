/*
** site_pass_real.h: see site_pass.h. The passes for one element type and one instruction set: included with REAL,
** NAME(name), TARGET, WIDTH (lanes of the widest vector), MADD(x, y, z) = x y + z, VECTOR(function, x, y, n) and NORMAL(key, position, begin, end, out).
*/

#define FN    static inline __attribute__((always_inline)) TARGET
#define VEC   NAME(vec)
#define LANES ((int64_t)PNI_SITE_LANES)
typedef REAL VEC __attribute__((vector_size(WIDTH * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
#define LOAD(p)     (*(const VEC *)(const void *)(p))
#define STORE(p, x) (*(VEC *)(void *)(p) = (x))
enum { NAME(tile_side) = PNI_SITE_PANEL };
#define SIDE NAME(tile_side)

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

/* Data of a tile times a panel of weights; without `d` they are stored, with it times d added to e: what the weights `b`
 * would make of the outputs, to first order. */
FN void NAME(affine)(const int rows, const int cols, const pni_site_layer *own, MATRIX a, const REAL *b,
                     const bool single, const bool says, REAL *out, const REAL *d, REAL *e) {
  for (int v = 0; v < LANES; v += WIDTH) {
    VEC sum[SIDE * SIDE];
    const REAL *bias = b + own->in * cols * LANES + v;
    PNI_UNROLL for (int r = 0; r < rows; r++) PNI_UNROLL for (int c = 0; c < cols; c++) sum[r * cols + c] =
        own->rows > own->in ? LOAD(bias + c * LANES) : (VEC){0};
    MATRIX part = {single ? a.at : a.at + v, a.row, a.col};
    NAME(multiply)(sum, part, (MATRIX){b + v, cols * LANES, LANES}, own->in, rows, cols, single);
    PNI_UNROLL for (int r = 0; r < rows; r++) {
      const int64_t at = r * own->out * LANES + v;
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

/* Inputs of layer l's nodes into h; or, with e, what u says. */
TARGET static void NAME(forward)(const pni_site_problem *p, const pni_site_room *r, int l, int64_t first, int64_t n,
                                 int64_t at, REAL *e) {
  const pni_site_layer *own = &p->layer[l];
  for (int64_t j = 0, cols; j < own->out; j += cols) {
    const REAL *b = NAME(panel)(own, e ? r->u : r->w, j);
    cols = STEP(j, own->out);
    for (int64_t t = 0, rows; t < n; t += rows) {
      MATRIX a = NAME(inputs)(p, r, l, first + t, at + t);
      REAL *out = NAME(nodes)(p, r->h, l, at + t) + j * LANES, *d = NAME(nodes)(p, r->d, l, at + t) + j * LANES;
      rows = STEP(t, n);
      if (e && l == 0)
        BY_SIDES(NAME(affine), rows, cols, own, a, b, true, true, out, d, e + t * LANES);
      else if (e)
        BY_SIDES(NAME(affine), rows, cols, own, a, b, false, true, out, d, e + t * LANES);
      else if (l == 0)
        BY_SIDES(NAME(affine), rows, cols, own, a, b, true, false, out, d, out);
      else
        BY_SIDES(NAME(affine), rows, cols, own, a, b, false, false, out, d, out);
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
      if (p->layer[l - 1].activation != PNI_SITE_IDENTITY) s *= LOAD(to);
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

TARGET static void NAME(gather_all)(const pni_site_problem *p, const pni_site_room *r, int l, int64_t first, int64_t n,
                                    int64_t at) {
  static const REAL one = 1;
  const pni_site_layer *own = &p->layer[l];
  MATRIX h = NAME(inputs)(p, r, l, first, at);
  for (int64_t j = 0, cols; j < own->out; j += cols) {
    MATRIX d = {NAME(nodes)(p, r->d, l, at) + j * LANES, own->out * LANES, LANES};
    REAL *g = (REAL *)(uintptr_t)NAME(panel)(own, r->g, j);
    cols = STEP(j, own->out);
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

/* ---- activations ---- */

/* h = f(h) and d = f'(h), n numbers; spare has room for as many. */
#define EACH for (int64_t k = 0; k < n; k++)

TARGET static void NAME(bend)(REAL *restrict h, REAL *restrict d, REAL *restrict spare, int64_t n, REAL below,
                              REAL scale) {
  EACH spare[k] = h[k] < 0 ? h[k] : 0;
  VECTOR(expm1, spare, spare, n);
  EACH {
    d[k] = scale * (h[k] > 0 ? 1 : below * (spare[k] + 1));
    h[k] = scale * (h[k] > 0 ? h[k] : below * spare[k]);
  }
}

TARGET static void NAME(gelu)(REAL *restrict h, REAL *restrict d, REAL *restrict spare, int64_t n) {
  EACH spare[k] = h[k] * h[k] * (REAL)-0.5;
  VECTOR(exp, spare, spare, n);
  VECTOR(ndtr, h, d, n);
  EACH {
    REAL a = h[k];
    h[k] = a * d[k];
    d[k] += a * spare[k] * (REAL)0.39894228040143267794;
  }
}

/* Of straight pieces, and of closed slopes in the value. */
TARGET static void NAME(straight)(const pni_site_layer *l, REAL *restrict h, REAL *restrict d, int64_t n) {
  const REAL low = (REAL)l->first, high = (REAL)l->second, slope = (REAL)l->slope, shift = (REAL)l->shift;
  if (l->activation == PNI_SITE_RELU) EACH {
      d[k] = h[k] > 0 ? 1 : low;
      h[k] = h[k] * d[k];
    }
  else if (l->activation == PNI_SITE_SOFTSIGN)
    EACH {
      REAL size = 1 / (1 + (h[k] < 0 ? -h[k] : h[k]));
      d[k] = size * size;
      h[k] = h[k] * size;
    }
  else
    EACH {
      REAL a = slope * h[k] + shift;
      d[k] = a > low && a < high ? slope : 0;
      h[k] = a < low ? low : a > high ? high : a;
    }
}

TARGET static void NAME(activate)(const pni_site_layer *l, REAL *restrict h, REAL *restrict d, REAL *restrict spare,
                                  int64_t n) {
  switch (l->activation) {
  case PNI_SITE_IDENTITY: return;
  case PNI_SITE_TANH:
    VECTOR(tanh, h, h, n);
    EACH d[k] = 1 - h[k] * h[k];
    return;
  case PNI_SITE_SIGMOID:
    VECTOR(sigmoid, h, h, n);
    EACH d[k] = h[k] * (1 - h[k]);
    return;
  case PNI_SITE_SOFTPLUS:
    VECTOR(sigmoid, h, d, n);
    VECTOR(softplus, h, h, n);
    return;
  case PNI_SITE_SILU:
    VECTOR(sigmoid, h, spare, n);
    EACH {
      d[k] = spare[k] * (1 + h[k] * (1 - spare[k]));
      h[k] = h[k] * spare[k];
    }
    return;
  case PNI_SITE_GELU: NAME(gelu)(h, d, spare, n); return;
  case PNI_SITE_ELU: NAME(bend)(h, d, spare, n, (REAL)l->first, (REAL)l->second); return;
  default: NAME(straight)(l, h, d, n);
  }
}

/* ---- likelihoods: value [n, 16] and derivatives d in the outputs f, [n, out, 16] ---- */

TARGET static void NAME(gaussian)(const pni_site_problem *p, const REAL *y, const REAL *restrict f, REAL *restrict d,
                                  REAL *restrict value, int64_t n, int64_t out) {
  const REAL inverse = (REAL)(1 / p->noise_scale), square = (REAL)(1 / (p->noise_scale * p->noise_scale));
  const REAL constant = (REAL)(-(double)out * (log(p->noise_scale) + 0.91893853320467274178));
  for (int64_t t = 0; t < n; t++, value += LANES) {
    for (int k = 0; k < LANES; k++) value[k] = constant;
    for (int64_t j = 0; j < out; j++, f += LANES, d += LANES, y++)
      for (int k = 0; k < LANES; k++) {
        REAL off = *y - f[k];
        value[k] -= (off * inverse) * (off * inverse) * (REAL)0.5;
        d[k] = off * square;
      }
  }
}

TARGET static void NAME(bernoulli)(const REAL *y, const REAL *restrict f, REAL *restrict d, REAL *restrict value,
                                   REAL *restrict spare, int64_t n, int64_t out) {
  for (int64_t e = 0; e < n * out; e++)
    for (int k = 0; k < LANES; k++) spare[e * LANES + k] = (1 - 2 * y[e]) * f[e * LANES + k];
  VECTOR(softplus, spare, spare, n * out * LANES);
  VECTOR(sigmoid, f, d, n * out * LANES);
  for (int64_t t = 0; t < n; t++, value += LANES) {
    for (int k = 0; k < LANES; k++) value[k] = 0;
    for (int64_t j = 0; j < out; j++, spare += LANES, d += LANES, y++)
      for (int k = 0; k < LANES; k++) {
        value[k] -= spare[k];
        d[k] = *y - d[k];
      }
  }
}

/* log softmax: f_y - m - log sum e^(f - m), m the largest. */
TARGET static void NAME(categorical)(const int64_t *y, const REAL *restrict f, REAL *restrict d, REAL *restrict value,
                                     REAL *restrict spare, int64_t n, int64_t out) {
  for (int64_t t = 0; t < n; t++) {
    const REAL *from = f + t * out * LANES;
    REAL *v = value + t * LANES, *to = d + t * out * LANES;
    for (int k = 0; k < LANES; k++) v[k] = from[k];
    for (int64_t e = LANES; e < out * LANES; e += LANES)
      for (int k = 0; k < LANES; k++) v[k] = from[e + k] > v[k] ? from[e + k] : v[k];
    for (int64_t e = 0; e < out * LANES; e += LANES)
      for (int k = 0; k < LANES; k++) to[e + k] = from[e + k] - v[k];
  }
  VECTOR(exp, d, d, n * out * LANES);
  for (int64_t t = 0; t < n; t++) {
    REAL *to = d + t * out * LANES, *s = spare + t * LANES;
    for (int k = 0; k < LANES; k++) s[k] = 0;
    for (int64_t e = 0; e < out * LANES; e += LANES)
      for (int k = 0; k < LANES; k++) s[k] += to[e + k];
    for (int64_t e = 0; e < out * LANES; e += LANES)
      for (int k = 0; k < LANES; k++) to[e + k] = -to[e + k] / s[k];
    for (int k = 0; k < LANES; k++) {
      to[y[t] * LANES + k] += 1;
      value[t * LANES + k] = f[(t * out + y[t]) * LANES + k] - value[t * LANES + k];
    }
  }
  VECTOR(log, spare, spare, n * LANES);
  for (int64_t e = 0; e < n * LANES; e++) value[e] -= spare[e];
}
#undef EACH

FN double NAME(lane_sum)(const REAL *x) {
  double s[4] = {0};
  for (int k = 0; k < LANES; k += 4)
    for (int c = 0; c < 4; c++) s[c] += (double)x[k + c];
  return (s[0] + s[1]) + (s[2] + s[3]);
}

/* Exponents of the data; lanes past the last draw count nothing. */
TARGET static void NAME(weigh)(const pni_site_problem *p, int64_t group, int64_t first, int64_t n, int64_t out, REAL *d,
                               REAL *value) {
  const int64_t rest = p->draws - group * LANES;
  if (!p->exponent && rest >= LANES) return;
  for (int64_t t = 0; t < n; t++, value += LANES, d += out * LANES) {
    REAL factor[PNI_SITE_LANES], own = p->exponent ? ((const REAL *)p->exponent)[first + t] : 1;
    for (int k = 0; k < LANES; k++) factor[k] = k < rest ? own : 0;
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
  bool bent = last->activation != PNI_SITE_IDENTITY;
  if (bent) d = spare + p->tile * p->widest * LANES;
  switch (p->likelihood) {
  case PNI_SITE_GAUSSIAN: NAME(gaussian)(p, (const REAL *)p->y + first * out, f, d, value, n, out); break;
  case PNI_SITE_BERNOULLI: NAME(bernoulli)((const REAL *)p->y + first * out, f, d, value, spare, n, out); break;
  default: NAME(categorical)((const int64_t *)p->y + first, f, d, value, spare, n, out);
  }
  NAME(weigh)(p, group, first, n, out, d, value);
  if (bent)
    for (int64_t e = 0; e < n * out * LANES; e++) slope[e] *= d[e];
  for (int64_t t = 0; t < n; t++) r->value[first + t] += NAME(lane_sum)(value + t * LANES);
}

/* ---- what site_pass.h promises ---- */

TARGET static void NAME(draw)(const pni_site_problem *p, const pni_site_room *r, int64_t group) {
  const uint64_t from = (uint64_t)(group * p->weights * LANES);
  const REAL *mean = p->mean, *scale = p->scale, *slant = p->slant;
  REAL *restrict eps = r->eps, *restrict w = r->w, *restrict u = r->u;
  NORMAL(p->key, p->position, from, from + (uint64_t)(p->weights * LANES), eps);
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
  REAL *sum = r->sum, *product = r->product;
  for (int64_t i = 0; i < p->weights; i++) {
    r->sum_total[i] = NAME(lane_sum)(sum + i * LANES);
    r->product_total[i] = NAME(lane_sum)(product + i * LANES);
  }
  memset(sum, 0, (size_t)(p->weights * LANES) * sizeof *sum);
  memset(product, 0, (size_t)(p->weights * LANES) * sizeof *product);
}

/* ---- sites one by one ---- */

/* The sum of all 16 lanes of s[k], vectors of WIDTH of them added up already. */
FN double NAME(total)(VEC s) {
  REAL v[WIDTH];
  STORE(v, s);
  PNI_UNROLL for (int half = WIDTH / 2; half > 0; half /= 2) PNI_UNROLL for (int k = 0; k < half; k++) v[k] +=
      v[k + half];
  return (double)v[0];
}

/* Of the first layer, whose inputs x are the same in all draws: d eps for `rows` data and `cols` inputs of one column. */
FN void NAME(first_tile)(const int rows, const int cols, const pni_site_problem *p, MATRIX d, MATRIX eps,
                         int64_t groups, int64_t data, int64_t i, int64_t place, int64_t step, double *out) {
  VEC sum[SIDE * SIDE];
  PNI_UNROLL for (int s = 0; s < rows * cols; s++) sum[s] = (VEC){0};
  for (int v = 0; v < LANES; v += WIDTH) {
    MATRIX a = {d.at + v, d.row, d.col}, b = {eps.at + v, eps.row, eps.col};
    NAME(multiply)(sum, a, b, groups, rows, cols, false);
  }
  for (int r = 0; r < rows; r++) {
    const int64_t in = p->layer[0].in;
    const REAL *x = (const REAL *)p->x + (data + r) * in;
    double *to = out + (2 * (data + r) + 1) * p->weights + place;
    PNI_UNROLL for (int c = 0; c < cols; c++) to[c * step] +=
        NAME(total)(sum[r * cols + c]) * (i + c < in ? (double)x[i + c] : 1);
  }
}

TARGET static void NAME(collect_first)(const pni_site_problem *p, const pni_site_room *r, int64_t groups, int64_t apart,
                                       int64_t n, int64_t j, int64_t width, double *out) {
  const pni_site_layer *own = &p->layer[0];
  for (int64_t t = 0, rows; t < n; t += rows) {
    MATRIX d = {NAME(nodes)(p, r->d, 0, t) + j * LANES, own->out * LANES, apart};
    rows = STEP(t, n);
    for (int64_t i = 0, cols; i < own->rows; i += cols) {
      int64_t place = pni_site_place(own, i, j);
      MATRIX eps = {(const REAL *)r->eps + place * LANES, apart, width * LANES};
      cols = STEP(i, own->rows);
      BY_SIDES(NAME(first_tile), rows, cols, p, d, eps, groups, t, i, place, width, out);
    }
    for (int64_t k = 0; k < rows; k++) {
      const REAL *x = (const REAL *)p->x + (t + k) * own->in;
      double s = 0, *to = out + 2 * (t + k) * p->weights;
      for (int64_t g = 0; g < groups; g++) s += NAME(lane_sum)(d.at + k * d.row + g * apart);
      for (int64_t i = 0; i < own->rows; i++) to[pni_site_place(own, i, j)] += i < own->in ? s * (double)x[i] : s;
    }
  }
}

/* `rows` inputs and a panel of columns of one datum: h d and h d eps. */
FN void NAME(later_tile)(const int rows, const int cols, const MATRIX h, MATRIX d, MATRIX eps, int64_t groups,
                         double *out, int64_t weights) {
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
  PNI_UNROLL for (int s = 0; s < rows * cols; s++) {
    out[s] += NAME(total)(sum[s]);
    out[weights + s] += NAME(total)(product[s]);
  }
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
  else
    for (int64_t c = 0; c < width; c++) NAME(collect_first)(p, r, groups, apart, n, j + c, width, out);
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
