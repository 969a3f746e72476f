/*
** student_draw.c: draws of Student's t by Bailey's form of the polar method (Mathematics of Computation 62, 1994): with
** u and w independent and uniform on (0, 1], E = -2 log u and e = E / v,
**   t = cos(2 pi w) sqrt(v (e^e - 1)),  x = loc + scale t
** has the law exactly, and tends to Box & Muller's normal number for large v. No trial is refused, so x is a smooth
** function of v: dt/dv = t / (2 v) (1 - e / (1 - e^-e)). Draws are kept finite where v is so small that they would
** overflow; there they do not move.
*/
#include "draw.h"
#include "density_kernel.h"
#include "../formula.h"

enum { U, W, DF, LOC, SCALE };

/* ---- loops over pieces ---- */

/* e out of log u */
PNI_EACH_LEVEL(share, (const double *restrict log_u, const double *restrict v, double *restrict e, int64_t n),
               (log_u, v, e, n)) {
  for (int64_t i = 0; i < n; i++) e[i] = -2 * log_u[i] / v[i];
}
PNI_EACH_LEVEL(turn, (const double *restrict w, double *restrict angle, int64_t n), (w, angle, n)) {
  for (int64_t i = 0; i < n; i++) angle[i] = 2 * PI * w[i];
}
/* size: e^e - 1, then sqrt(v (e^e - 1)); gives the number of those that are infinite */
PNI_EACH_LEVEL_OF(int64_t, stretch, (const double *restrict v, double *restrict size, int64_t n), (v, size, n)) {
  int64_t far = 0;
  for (int64_t i = 0; i < n; i++) {
    double s = sqrt(v[i] * size[i]);
    size[i] = s;
    far += s > DBL_MAX;
  }
  return far;
}
PNI_EACH_LEVEL(place,
               (const double *restrict cosine, const double *restrict size, const double *restrict m,
                const double *restrict s, double limit, double *restrict out, int64_t n),
               (cosine, size, m, s, limit, out, n)) {
  for (int64_t i = 0; i < n; i++) {
    double x = m[i] + s[i] * (cosine[i] * size[i]);
    x = x < -limit ? -limit : x;
    out[i] = x > limit ? limit : x;
  }
}

/* limit: the largest number of the result's type */
static void draw(const pni_piece *p, double limit, double *out) {
  const double *v = p->in[DF];
  double angle[PNI_KERNEL_PIECE], cosine[PNI_KERNEL_PIECE], e[PNI_KERNEL_PIECE], size[PNI_KERNEL_PIECE],
      log_u[PNI_KERNEL_PIECE];
  pni_vector_f64(PNI_VECTOR_log, p->in[U], 1, log_u, p->n);
  share(log_u, v, e, p->n);
  pni_vector_f64(PNI_VECTOR_expm1, e, 1, size, p->n);
  int64_t far = stretch(v, size, p->n);
  for (int64_t i = 0; far && i < p->n; i++)
    if (size[i] > DBL_MAX) size[i] = fmin(sqrt(v[i]) * exp(0.5 * e[i]), DBL_MAX);
  turn(p->in[W], angle, p->n);
  pni_vector_f64(PNI_VECTOR_cos, angle, 1, cosine, p->n);
  place(cosine, size, p->in[LOC], p->in[SCALE], limit, out, p->n);
}
static void draw_f64(const pni_piece *p, void *out) { draw(p, huge_number(PN_FLOAT64), out); }
static void draw_f32(const pni_piece *p, void *out) { draw(p, huge_number(PN_FLOAT32), out); }

PNI_DENSITY_VALUE(student_draw, .inputs = 5, .in_double = true, .value = {draw_f64, draw_f32})

static T *vjp(C *c, T *y, T *g, int k) {
  T *v = pni_in(y, DF), *inside = below(c, pn_abs(c, y), huge_number(y->dtype));
  if (k == LOC) return only(c, inside, g, 0);
  T *e = pn_div(c, times(c, pn_log(c, pni_in(y, U)), -2), v);
  T *moves = pn_logical_and(c, inside, above(c, e, 0)), *safe = only(c, moves, e, 1);
  T *half = pn_exp(c, times(c, safe, 0.5)), *flat = pn_neg(c, pn_expm1(c, pn_neg(c, safe))); /* 1 - e^-e */
  T *t = pn_mul(c, pn_mul(c, pn_cos(c, times(c, pni_in(y, W), 2 * PI)), half), pn_sqrt(c, pn_mul(c, v, flat)));
  if (k == SCALE) return only(c, moves, pn_mul(c, g, t), 0);
  T *slope = pn_mul(c, pn_div(c, t, times(c, v, 2)), from(c, 1, pn_div(c, safe, flat)));
  return only(c, moves, pn_mul(c, g, pn_mul(c, pni_in(y, SCALE), slope)), 0);
}

static const pni_op op = {
    .name = "student_draw", .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN, .map = student_draw_map, .vjp = vjp};

/* The uniform numbers have 53 bits whatever the dtype: their logarithm reaches far into the tails. */
static T *noise(C *c, pn_rng *rng, const pni_spec *out) {
  T *u = pn_rand(c, rng, PN_FLOAT64, out->ndim, out->shape);
  return u && out->dtype != PN_FLOAT64 ? pn_cast(c, u, (pn_dtype)out->dtype) : u;
}

T *pni_student_draw(C *c, pn_rng *rng, T *df, T *loc, T *scale, const pni_spec *out) {
  T *u = noise(c, rng, out), *w = noise(c, rng, out);
  if (!u || !w) return NULL;
  return pni_apply(c, &op, 5, (T *[]){u, w, df, loc, scale}, NULL);
}
