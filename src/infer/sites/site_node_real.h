/*
** site_node_real.h: what happens at the nodes of the passes: activations with their slopes, log likelihoods with their
** derivatives in the outputs. Part of site_pass_real.h, whose names it uses; nodes are plain arrays of 16 numbers each.
*/

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

/* x times a gate of three straight pieces. */
TARGET static void NAME(hard_swish)(REAL *restrict h, REAL *restrict d, int64_t n) {
  EACH {
    REAL a = h[k] * (REAL)(1.0 / 6) + (REAL)0.5, gate = a < 0 ? 0 : a > 1 ? 1 : a;
    d[k] = gate + (a > 0 && a < 1 ? h[k] * (REAL)(1.0 / 6) : 0);
    h[k] = h[k] * gate;
  }
}

/* t = tanh(softplus(x)): x t and t + x (1 - t^2) sigmoid(x). */
TARGET static void NAME(mish)(REAL *restrict h, REAL *restrict d, REAL *restrict spare, int64_t n) {
  VECTOR(softplus, h, spare, n);
  VECTOR(tanh, spare, spare, n);
  VECTOR(sigmoid, h, d, n);
  EACH {
    d[k] = spare[k] + h[k] * (1 - spare[k] * spare[k]) * d[k];
    h[k] = h[k] * spare[k];
  }
}

/* Of straight pieces, and of closed slopes in the value. */
TARGET static void NAME(straight)(const pni_site_layer *l, REAL *restrict h, REAL *restrict d, int64_t n) {
  const REAL low = (REAL)l->first, high = (REAL)l->second, slope = (REAL)l->slope, shift = (REAL)l->shift;
  if (l->activation == PNI_SLOPE_RELU) EACH {
      d[k] = h[k] > 0 ? 1 : low;
      h[k] = h[k] * d[k];
    }
  else if (l->activation == PNI_SLOPE_SOFTSIGN)
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
  case PNI_SLOPE_IDENTITY: return;
  case PNI_SLOPE_TANH:
    VECTOR(tanh, h, d, n);
    EACH {
      h[k] = d[k];
      d[k] = 1 - h[k] * h[k];
    }
    return;
  case PNI_SLOPE_SIGMOID:
    VECTOR(sigmoid, h, d, n);
    EACH {
      h[k] = d[k];
      d[k] = h[k] * (1 - h[k]);
    }
    return;
  case PNI_SLOPE_SOFTPLUS:
    VECTOR(sigmoid, h, d, n);
    VECTOR(softplus, h, h, n);
    return;
  case PNI_SLOPE_SILU:
    VECTOR(sigmoid, h, spare, n);
    EACH {
      d[k] = spare[k] * (1 + h[k] * (1 - spare[k]));
      h[k] = h[k] * spare[k];
    }
    return;
  case PNI_SLOPE_GELU: NAME(gelu)(h, d, spare, n); return;
  case PNI_SLOPE_HARD_SWISH: NAME(hard_swish)(h, d, n); return;
  case PNI_SLOPE_MISH: NAME(mish)(h, d, spare, n); return;
  case PNI_SLOPE_ELU: NAME(bend)(h, d, spare, n, (REAL)l->first, (REAL)l->second); return;
  default: NAME(straight)(l, h, d, n);
  }
}

/* ---- likelihoods: value [n, 16] and derivatives d in the outputs f, [n, out, 16] ---- */

TARGET static void NAME(normal)(const pni_site_problem *p, const REAL *y, const REAL *restrict f, REAL *restrict d,
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
