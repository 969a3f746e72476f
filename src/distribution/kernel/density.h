/*
** density.h: log densities that are one operation with one pass over the memory, and their gradients.
*/
#ifndef PN_DISTRIBUTION_KERNEL_DENSITY_H
#define PN_DISTRIBUTION_KERNEL_DENSITY_H

#include "../distribution.h"

/* gamma_density.c: of x > 0 under Gamma(a, b), or with `inverse` of x whose reciprocal has that law. Scoped. */
pn_tensor *pni_gamma_log_density(pn_context *c, pn_tensor *x, pn_tensor *a, pn_tensor *b, bool inverse);

/* student_density.c: of Student's t, and log B(df / 2, 1 / 2) + log(df) / 2. Scoped. */
pn_tensor *pni_student_log_density(pn_context *c, pn_tensor *x, pn_tensor *df, pn_tensor *loc, pn_tensor *scale);
pn_tensor *pni_student_log_norm(pn_context *c, pn_tensor *df);

/* beta_density.c: of Beta(a, b). Scoped. */
pn_tensor *pni_beta_log_density(pn_context *c, pn_tensor *x, pn_tensor *a, pn_tensor *b);

/* dirichlet_density.c: of shares x [..., n] under concentrations a [..., n] that fit; also of what is no shares.
 * Scoped. */
pn_tensor *pni_dirichlet_log_density(pn_context *c, pn_tensor *x, pn_tensor *a);
/* Is n small enough? */
bool pni_dirichlet_fits(const pn_tensor *a);

/* label_density.c: of labels [...] (int64) and of vectors w [..., n] under logits [..., n], log_softmax(logits)[label]
 * and sum w log_softmax(logits), terms with w = 0 being 0. NULL with no failure where shapes differ or n is large:
 * then builders do it. Scoped. */
pn_tensor *pni_label_log_mass(pn_context *c, pn_tensor *logits, pn_tensor *label);
pn_tensor *pni_one_hot_log_mass(pn_context *c, pn_tensor *logits, pn_tensor *w);

/* label/bernoulli_rows.c: sums over the last axis of the log masses of x under logits, which broadcast but for that
 * axis. Scoped. */
#define PNI_BERNOULLI_ADVICE                                                                                           \
  "a value of bernoulli is neither 0 nor 1 (for values between them there is continuous_bernoulli)"
pn_tensor *pni_bernoulli_row_masses(pn_context *c, pn_tensor *x, pn_tensor *logits);

/* mahalanobis.c: |L^-1 (x - m)|^2 of vectors [..., n], m NULL for 0, under one triangle L [n, n]; inf, or NaN, and no
 * gradient where x - m is not finite. NULL with no failure for batches of triangles and large n. Scoped. */
pn_tensor *pni_distance_from(pn_context *c, pn_tensor *l, pn_tensor *x, pn_tensor *m);
/* Is l one such triangle? */
bool pni_distance_fits(const pn_tensor *l);

/* Laws of z = (x - loc) / scale; those on z >= 0 are halves. */
typedef enum pni_law {
  PNI_LAW_NORMAL,
  PNI_LAW_HALF_NORMAL,
  PNI_LAW_CAUCHY,
  PNI_LAW_HALF_CAUCHY,
  PNI_LAW_LAPLACE,
  PNI_LAW_LOGISTIC,
  PNI_LAW_GUMBEL
} pni_law;

/* location_scale.c: h(z) - log scale, h the log density of the law. loc NULL: 0. Scoped. */
pn_tensor *pni_location_scale(pn_context *c, pni_law law, pn_tensor *x, pn_tensor *loc, pn_tensor *scale);

/* von_mises_density.c: log p(x) = -2 k sin((x - loc)/2)^2 - log(2 pi e^-k I_0(k)), k = concentration. Scoped. */
pn_tensor *pni_von_mises_density(pn_context *c, pn_tensor *x, pn_tensor *loc, pn_tensor *concentration);

/* uniform_density.c: -log(high - low) where low <= x <= high, elsewhere -inf, NaN for NaN. Scoped. */
pn_tensor *pni_uniform_density(pn_context *c, pn_tensor *x, pn_tensor *low, pn_tensor *high);

/* log_uniform_kernel.c: -log x - log(log(high / low)) where low <= x <= high, elsewhere -inf, NaN for NaN. Scoped. */
pn_tensor *pni_log_uniform_density(pn_context *c, pn_tensor *x, pn_tensor *low, pn_tensor *high);

/* geometric_mass.c: x log(1 - p) + log p of p = 1 / (1 + e^-logits). Scoped. */
pn_tensor *pni_geometric_mass(pn_context *c, pn_tensor *x, pn_tensor *logits);

#endif
