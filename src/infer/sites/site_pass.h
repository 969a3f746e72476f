/*
** site_pass.h: what the Gaussian sites of data are summed from: passes of a fully connected network forwards and back
** for 16 draws of its weights at a time, one draw per lane of the processor's vectors, so that a product is as fast for
** three nodes as for three hundred. Draw 16 g + l of weight p is element (g P + p) 16 + l of one stream of normal
** numbers: it depends on nothing else.
**
** Weights of a layer [rows, out], rows the inputs and, where there is one, the bias below them, lie by panels of
** PNI_SITE_PANEL columns (what is left over: of one), so that a column's weights and a row's are both near each other.
*/
#ifndef PN_INFER_SITES_SITE_PASS_H
#define PN_INFER_SITES_SITE_PASS_H

#include "../../nn/slope.h"
#include "../../tensor/tensor.h"

enum { PNI_SITE_LANES = 16, PNI_SITE_PANEL = 4, PNI_SITE_LAYERS = 64 };

/* Likelihoods: X(name, whether targets are labels, int64 [N], whether it has a noise_scale); their bodies in
 * site_node_real.h. */
#define PNI_SITE_LIKELIHOODS(X)   X(normal, false, true) X(bernoulli, false, false) X(categorical, true, false)
#define ENUM(name, labels, noise) PNI_SITE_##name,
typedef enum pni_site_likelihood { PNI_SITE_LIKELIHOODS(ENUM) PNI_SITE_NUM_LIKELIHOODS } pni_site_likelihood;
#undef ENUM

typedef struct pni_site_layer {
  int64_t in, out, rows; /* rows: in, and 1 for a bias */
  int64_t at;            /* its first weight */
  int64_t node;          /* its first node among those of all layers */
  pni_slope_kind activation;
  double first, second, slope, shift;
} pni_site_layer;

/* What does not change. Arrays are of the network's type. */
typedef struct pni_site_problem {
  int num_layers;
  pni_site_layer layer[PNI_SITE_LAYERS];
  int64_t weights, nodes, widest, num_data, draws;
  pni_site_likelihood likelihood;
  double noise_scale;
  const void *mean, *scale; /* [P] by panels */
  const void *slant;        /* [P] (mean^2 / scale - scale) / 2 */
  const void *x, *y;        /* [N, in], [N, out] or int64 [N] */
  const void *exponent;     /* [N] or NULL: of the likelihood of each datum */
  uint64_t key, position;   /* of the draws */
  bool antithetic;    /* lanes 8 to 15 are the first 8 with the other sign: a weight has 8 numbers in the stream */
  bool totals;        /* sums over data, and what each site is worth; else the inputs and slopes of all nodes stay */
  int64_t hold, tile; /* data that a room has nodes for, and how many of them pass together */
} pni_site_problem;

/* A room: what 16 draws need, [.., 16] each. h: outputs of the nodes, layer by layer, [hold, out] of each; d: slopes,
 * then derivatives of the log likelihood in their inputs; w: weights; u: mean - slant eps; g: of a layer's weights,
 * sums over data of derivatives; sum, product: of g and g eps over draws; spare: [hold, widest]. */
typedef struct pni_site_room {
  void *eps, *w, *u, *g, *sum, *product, *h, *d, *spare;
  double *value, *site;              /* [N] sums over draws of log p and of what the site says of a draw */
  double *sum_total, *product_total; /* [P] */
} pni_site_room;

/* Place of weight (i, j) of a layer among its own. */
static inline int64_t pni_site_place(const pni_site_layer *l, int64_t i, int64_t j) {
  int64_t panel = j / PNI_SITE_PANEL * PNI_SITE_PANEL;
  return panel + PNI_SITE_PANEL <= l->out ? panel * l->rows + i * PNI_SITE_PANEL + (j - panel) : j * l->rows + i;
}

/* Kernels of one element type and instruction set. */
typedef struct pni_site_kernels {
  /* Draws of group `group`: eps, w and, for totals, u. */
  void (*draw)(const pni_site_problem *p, const pni_site_room *r, int64_t group);
  /* Data first .. first + n - 1, n <= tile, of the room's nodes from `at` on: adds to value and, for totals, to site
   * and g. */
  void (*pass)(const pni_site_problem *p, const pni_site_room *r, int64_t group, int64_t first, int64_t n, int64_t at);
  /* Once all data have passed a group: sum += g, product += g eps; g is cleared. */
  void (*close)(const pni_site_problem *p, const pni_site_room *r);
  /* sum and product, added over draws, go to their totals. */
  void (*fold)(const pni_site_problem *p, const pni_site_room *r);
  /* Sums of g and g eps over draws of data 0 .. n - 1 and a panel of columns of a layer, from column j on, are added to
   * out[2 k] and out[2 k + 1], [P] each of datum k; of the first layer's g, which is x d, to that of input 0 those of
   * d. The `groups` rooms are `apart` elements from r. */
  void (*collect)(const pni_site_problem *p, const pni_site_room *r, int64_t groups, int64_t apart, int64_t n, int l,
                  int64_t j, double *out);
} pni_site_kernels;

const pni_site_kernels *pni_site_kernels_f64(void);
const pni_site_kernels *pni_site_kernels_f32(void);

#endif
