/*
** brownian.h: paths of Brownian motion that are a function of a key, so that none is stored. Time from `start` on is
** cut into the octaves [0, 1], [1, 2], [2, 4], [4, 8] ... and each of them into halves, down to cells of the length
** `tolerance`. A path has over each cell its increment W and its space-time Levy area H, the mean height of the path
** over its chord: W ~ N(0, d), H ~ N(0, d / 12), independent. Those of an octave are drawn, those of the halves drawn
** given the whole's (Foster, Lyons & Oberhauser 2020; at any point: given in brownian.c), each cell from counters of
** its own. A time within a cell of the last generation cuts this once more. So every increment is that of one path,
** whatever the times that are asked for, and in whatever order. The law is exact for times of which no two lie in one
** cell of the last generation.
*/
#ifndef PN_AUTODIFF_SDE_BROWNIAN_H
#define PN_AUTODIFF_SDE_BROWNIAN_H

#include "../../math/random/rng.h"

/* Cells are halved at most so often. */
enum { PNI_BROWNIAN_LEVELS = 60 };

/* Both halves of a cell: their increments and areas. */
typedef struct pni_brownian_level {
  double begin, length; /* of the cell */
  uint64_t number;      /* of the cell in its octave: 1, then 2n and 2n + 1 for the halves of n */
  bool halved;          /* the halves are there, cut in the middle */
  int side;             /* the half in which the position lies: 0, 1 */
  double *w[2], *h[2];
} pni_brownian_level;

/* Some motions (lanes begin .. begin + lanes - 1) of a key, and a position in time. */
typedef struct pni_brownian {
  uint64_t key, octave_key;
  double start, tolerance, at; /* at: the position, counted from start */
  int64_t begin, lanes;
  int room, octave, depth; /* the position's cell is that of level `depth` */
  bool inside;             /* it lies within this cell, which is a last one, and cuts it; else where it begins */
  double *memory, *w, *h;  /* w, h: of the octave */
  double *normal, *left[2], *before[2], *after[2];
  pni_brownian_level level[PNI_BROWNIAN_LEVELS + 1];
} pni_brownian;

/* For times from `start` to `end`. The tolerance becomes the power of 2 at or below it. PN_DOMAIN where that has too
 * many generations. The position is the start. */
pn_status pni_brownian_open(pn_context *c, pni_brownian *b, uint64_t key, double start, double end, double tolerance,
                            int64_t begin, int64_t lanes);
void pni_brownian_close(pn_context *c, pni_brownian *b);
/* Between start and end. */
void pni_brownian_seek(pni_brownian *b, double t);
/* The increments w and areas h [lanes] over the time between the position and t, which becomes the position. Those of
 * the interval as time passes, also where t is the earlier one: the same bits. */
void pni_brownian_move(pni_brownian *b, double t, double *w, double *h);

#endif
