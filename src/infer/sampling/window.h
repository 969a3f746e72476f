/*
** window.h: what a warm-up remembers of its draws x and their scores a = grad log p(x): means and sums of squares (or
** of products) of the draws since two moments, the foreground's and the later one's of the background, and for a low
** rank the last draws themselves. A switch makes the background the foreground and begins another.
*/
#ifndef PN_INFER_SAMPLING_WINDOW_H
#define PN_INFER_SAMPLING_WINDOW_H

#include "../../base/context.h"

enum { PNI_KEPT_DRAWS = 256 };

typedef struct pni_window_sums {
  int64_t count;
  double *mean_x, *mean_a;       /* [n] */
  double *square_x, *square_a;   /* [n], sums about the means */
  double *product_x, *product_a; /* lower triangles of [n, n]; NULL: not asked for */
} pni_window_sums;

typedef struct pni_window {
  int64_t n;
  bool scores; /* are scores taken, too, and outliers drawn in? */
  bool single; /* is there no background but the window before? */
  pni_window_sums slot[2], *fore, *back;
  int64_t keep, added;  /* room for the last draws; draws so far */
  double *draw, *score; /* [keep, n]: draw number k in row k % keep */
  double *x, *a;        /* [n] scratch */
} pni_window;

/* Numbers that `memory` of pni_window_start holds; warmup: draws at most. */
int64_t pni_window_room(int64_t n, int metric, bool scores, int warmup);
/* w->scores and w->single are set. */
void pni_window_start(pni_window *w, int64_t n, int metric, int warmup, double *memory);
/* One more draw for both. Without scores it enters as it is. With scores one that is not finite is left out, and one
 * further than 10 standard deviations of a coordinate or a score from the mean is drawn in along its line to the mean,
 * x and a together, which for a Gaussian keeps a = -S^-1 (x - mean). */
void pni_window_add(pni_window *w, const double *x, const double *a);
/* single: the foreground begins anew, what it was judges draws far out for a while. */
void pni_window_switch(pni_window *w);

#endif
