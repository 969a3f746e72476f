/*
** student_draw.c: draws of Student's t by Bailey's form of the polar method (Mathematics of Computation 62, 1994): with u
** and w independent and uniform on (0, 1], E = -2 log u and e = E / v,
**   t = cos(2 pi w) sqrt(v (e^e - 1)),  x = loc + scale t
** has the law exactly, and tends to Box & Muller's normal number for large v. No trial is refused, so x is a smooth
** function of v: dt/dv = t / (2 v) (1 - e / (1 - e^-e)). Draws are kept finite where v is so small that they would
** overflow; there they do not move.
*/
#include "draw.h"
#include "wide.h"
#include "../formula.h"

enum { U, W, DF, LOC, SCALE };

/* ---- blocks ---- */

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

static void draws(int dtype, const void *data, int64_t n, char *const *p, const int64_t *s) {
  (void)data;
  for (int64_t at = 0; at < n; at += PNI_WIDE) {
    double room[5][PNI_WIDE], log_u[PNI_WIDE], angle[PNI_WIDE], cosine[PNI_WIDE], e[PNI_WIDE], size[PNI_WIDE];
    double result[PNI_WIDE], *out = pni_wide_place(dtype, p[0], at, result);
    int64_t count = n - at < PNI_WIDE ? n - at : PNI_WIDE;
    const double *in[5];
    for (int k = 0; k < 5; k++) in[k] = pni_wide_read(dtype, p[k + 1], s[k + 1], at, count, room[k]).v;
    pni_vector_f64(PNI_VECTOR_log, in[U], 1, log_u, count);
    share(log_u, in[DF], e, count);
    pni_vector_f64(PNI_VECTOR_expm1, e, 1, size, count);
    int64_t far = stretch(in[DF], size, count);
    for (int64_t i = 0; far && i < count; i++)
      if (size[i] > DBL_MAX) size[i] = fmin(sqrt(in[DF][i]) * exp(0.5 * e[i]), DBL_MAX);
    turn(in[W], angle, count);
    pni_vector_f64(PNI_VECTOR_cos, angle, 1, cosine, count);
    place(cosine, size, in[LOC], in[SCALE], huge_number(dtype), out, count);
    pni_wide_write(dtype, out, count, p[0], at);
  }
}
PNI_WIDE_ROWS(draws)

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  pni_loop l;
  pni_loop_init(&l, out, call->nin, call->in);
  return pni_loop_run(c, &l, out->dtype == PN_FLOAT64 ? draws_f64 : draws_f32, NULL);
}

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
    .name = "student_draw", .flags = PNI_OP_ELEMENTWISE | PNI_OP_HIDDEN, .eval = eval, .vjp = vjp};

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
