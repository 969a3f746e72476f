/*
** rng_gamma_real.h: Marsaglia & Tsang's sampler for a lot of positions, part of rng_fill_real.h. For a >= 1 a Gamma(a)
** draw is d v with v = (1 + t)^3, t = x / sqrt(9 d), d = a - 1/3, x normal and u uniform, accepted when t > -1 and
**   u < 1 - 0.0331 x^4,  or else  log u < x^2/2 + d (1 - v + log v)
** (Marsaglia & Tsang 2000). For a < 1, Gamma(a) = Gamma(a + 1) U^(1/a). Attempt k of a position is trial k: 53 bits for
** the normal's radius, 32 for its angle, 32 for u. Few fail the first test and fewer the second: these are gathered, so
** that all work is done in whole groups.
*/

enum { LOT = PNI_GAMMA_LOT };
#define EACH for (int j = 0; j < groups * PNI_RNG_GROUP; j++)

/* log(1 + t), t > -1: the rounding of 1 + t is put right to first order. */
FN double log1p_f64(double t) {
  double w = 1 + t;
  return log_f64(w) + (t - (w - 1)) / w;
}

/* e^x for x <= 0: x = k log 2 + r, |r| <= log(2)/2, Taylor's polynomial; 0 below the normal numbers. */
FN double exp_f64(double x) {
  double rounded = x * 1.4426950408889634074 + 0x1.8p52, k = rounded - 0x1.8p52;
  double r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10, p = 1.0 / 6227020800;
  p = p * r + 1.0 / 479001600;
  p = p * r + 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = (p * r) * r + r + 1;
  uint64_t bits;
  memcpy(&bits, &rounded, sizeof bits);
  bits = (bits + 1023) << 52;
  double scale;
  memcpy(&scale, &bits, sizeof scale);
  double y = p * scale;
  return x < -708 ? 0 : y;
}

/* (w + 1/2) 2^-32, never 0 or 1. */
FN double unit_of_word(uint32_t w) {
  return ((double)(int32_t)(w >> 16) * 65536.0 + (double)(int32_t)(w & 0xFFFF) + 0.5) * 0x1p-32;
}

/* Trials, each of its own position; padded to whole groups by copies of the first. */
typedef struct trials {
  uint64_t position[LOT];
  double shape[LOT], t[LOT], square[LOT], u[LOT]; /* a >= 1, t, x^2, u */
  int64_t accepted[LOT];
} trials;

static __attribute__((noinline)) TARGET void propose(trials *s, uint64_t key, uint32_t attempt, int groups) {
  uint32_t w[4][LOT];
  words_at((uint32_t *const[4]){w[0], w[1], w[2], w[3]}, key, s->position, attempt, PNI_DOMAIN_GAMMA, groups);
  EACH {
    double sine, cosine;
    sincos_f64(unit_of_word(w[2][j]), &sine, &cosine);
    double radius = -2 * log_f64(unit_f64(w[0][j], w[1][j])), square = radius * (cosine * cosine);
    double t = cosine * sqrt(radius / (9 * s->shape[j] - 3)), u = unit_of_word(w[3][j]);
    s->t[j] = t;
    s->square[j] = square;
    s->u[j] = u;
    s->accepted[j] = (t > -1) & (u < 1 - 0.0331 * (square * square));
  }
}

/* The second test. */
FN void judge(trials *s, int groups) {
  EACH {
    double t = s->t[j], d = s->shape[j] - 1.0 / 3;
    int64_t inside = t > -1;
    t = inside ? t : 0;
    double log_v = 3 * log1p_f64(t), rest = t * (3 + t * (3 + t)); /* v - 1 */
    s->accepted[j] = inside & (log_f64(s->u[j]) < 0.5 * s->square[j] + d * (log_v - rest));
  }
}

FN int groups_of(int n) { return (n + PNI_RNG_GROUP - 1) / PNI_RNG_GROUP; }

/* Which of n flags are 0; gives their number. `place` may be `from`: then from[k] stands for k. */
FN int refused(const int64_t *accepted, int n, int *place) {
  int m = 0;
  for (int j = 0; j < n; j++) {
    place[m] = j;
    m += !accepted[j];
  }
  return m;
}

/* Trials until all n are accepted. */
FN void settle(trials *s, uint64_t key, int n) {
  int place[LOT + 1], again[LOT + 1];
  trials few;
  propose(s, key, 0, groups_of(n));
  int m = refused(s->accepted, n, place);
  for (int k = 0; k < groups_of(m) * PNI_RNG_GROUP; k++) {
    int j = place[k < m ? k : 0];
    few.position[k] = s->position[j];
    few.shape[k] = s->shape[j];
    few.t[k] = s->t[j];
    few.square[k] = s->square[j];
    few.u[k] = s->u[j];
  }
  for (uint32_t attempt = 1; m > 0; attempt++) {
    judge(&few, groups_of(m));
    for (int k = 0; k < m; k++)
      if (few.accepted[k]) s->t[place[k]] = few.t[k];
    int left = refused(few.accepted, m, again);
    for (int k = 0; k < left; k++) {
      place[k] = place[again[k]];
      few.position[k] = few.position[again[k]];
      few.shape[k] = few.shape[again[k]];
    }
    m = left;
    for (int k = m; k < groups_of(m) * PNI_RNG_GROUP; k++)
      few.position[k] = few.position[0], few.shape[k] = few.shape[0];
    propose(&few, key, attempt, groups_of(m));
  }
}

/* What shapes below 1 need: log(U) / a, or its exponential. */
FN void boost(uint64_t key, uint64_t first, const double *a, int n, int plain, double *factor) {
  int place[LOT + 1], m = 0, groups;
  uint64_t position[LOT];
  double shape[LOT], power[LOT];
  uint32_t w[4][LOT];
  for (int j = 0; j < n; j++) {
    place[m] = j;
    m += a[j] > 0 && a[j] < 1;
  }
  groups = groups_of(m);
  EACH {
    int k = place[j < m ? j : 0];
    position[j] = first + (uint64_t)k;
    shape[j] = a[k];
  }
  words_at((uint32_t *const[4]){w[0], w[1], w[2], w[3]}, key, position, 0, PNI_DOMAIN_GAMMA_BOOST, groups);
  EACH power[j] = log_f64(unit_f64(w[0][j], w[1][j])) / shape[j];
  if (plain) {
    EACH power[j] = exp_f64(power[j]);
  }
  for (int k = 0; k < m; k++) factor[place[k]] = power[k];
}

FN void gamma_lot(uint64_t key, uint64_t first, int n, const double *a, double *out, int plain) {
  trials s;
  double factor[LOT];
  int groups = groups_of(n), below = 0, odd = 0;
  memcpy(s.u, a, (size_t)n * sizeof *a);
  for (int j = n; j < groups * PNI_RNG_GROUP; j++) s.u[j] = 1;
  EACH {
    double shape = s.u[j];
    int usual = (shape > 0) & (shape < INFINITY);
    shape = usual ? shape : 1;
    odd += !usual;
    below += shape < 1;
    s.position[j] = first + (uint64_t)j;
    s.shape[j] = shape < 1 ? shape + 1 : shape;
    factor[j] = plain;
  }
  settle(&s, key, n);
  if (below) boost(key, first, a, n, plain, factor);
  EACH {
    double d = s.shape[j] - 1.0 / 3, w = 1 + s.t[j], g = d * (w * w * w);
    s.square[j] = plain ? g * factor[j] : log_f64(g) + factor[j];
  }
  for (int j = 0; odd && j < n; j++)
    if (!(a[j] > 0 && a[j] < INFINITY)) s.square[j] = a[j] == 0 && !plain ? -INFINITY : a[j] >= 0 ? a[j] : NAN;
  memcpy(out, s.square, (size_t)n * sizeof *out);
}
#undef EACH
