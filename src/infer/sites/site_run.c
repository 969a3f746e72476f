/*
** site_run.c: see site_run.h. Draws come in groups of 16, and some groups make a unit, how many depends on the number
** of weights alone. A unit adds up its draws one after another; sums of units are added in their order, whoever
** computed them and however many at a time. So neither threads nor memory nor the data beside it change a bit of a
** datum's site.
*/
#include <string.h>
#include "site_run.h"

enum { TILE_BYTES = 1 << 20, ALIGN = 64, UNITS = 16 };

typedef struct {
  pn_context *c;
  pni_site_problem *p;
  const pni_site_kernels *kernels;
  const pni_site_sums *sums;
  size_t real;             /* bytes of a number */
  int64_t groups, in_unit; /* of all draws, and of a unit */
  int64_t rooms, apart;    /* apart: bytes from one to the next */
  int64_t first;           /* unit, or group, of this round's first room */
  int64_t count;           /* rooms of this round */
  char *room;
} run;

/* Takes `bytes` out of *at, or only counts them. */
static void *take(char **at, size_t *total, size_t bytes) {
  char *here = *at;
  bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
  *total += bytes;
  if (here) *at = here + bytes;
  return here;
}

/* Bytes of rows * cols numbers of `size`; beyond all memory, though still to be added up, where these are too many. */
static size_t bytes_of(int64_t rows, int64_t cols, size_t size) {
  const int64_t most = (int64_t)1 << 58;
  int64_t bytes = pni_times(pni_times(rows, cols), (int64_t)size);
  return (size_t)(bytes < most ? bytes : most);
}

/* Divides a room and returns its size; at NULL: only its size. */
static size_t divide(const pni_site_problem *p, size_t real, char *at, pni_site_room *r) {
  size_t total = 0, lanes = real * PNI_SITE_LANES, all = bytes_of(p->weights, 1, lanes);
  size_t nodes = bytes_of(p->hold, p->nodes, lanes);
  r->eps = take(&at, &total, all);
  r->w = take(&at, &total, all);
  r->h = take(&at, &total, nodes);
  r->d = take(&at, &total, nodes);
  r->spare = take(&at, &total, bytes_of(p->tile, pni_plus(2 * p->widest, 1), lanes));
  r->value = take(&at, &total, (size_t)p->num_data * sizeof(double));
  if (!p->totals) return total;
  r->u = take(&at, &total, all);
  r->g = take(&at, &total, all);
  r->sum = take(&at, &total, all);
  r->product = take(&at, &total, all);
  r->site = take(&at, &total, (size_t)p->num_data * sizeof(double));
  r->sum_total = take(&at, &total, (size_t)p->weights * sizeof(double));
  r->product_total = take(&at, &total, (size_t)p->weights * sizeof(double));
  return total;
}

static pni_site_room room_at(const run *j, int64_t k) {
  pni_site_room r = {0};
  divide(j->p, j->real, j->room + k * j->apart, &r);
  return r;
}

/* All data with the draws of a group; false if somebody wants to stop. */
static bool pass_data(run *j, const pni_site_room *r, int64_t group) {
  const pni_site_problem *p = j->p;
  j->kernels->draw(p, r, group);
  for (int64_t first = 0; first < p->num_data; first += p->tile) {
    int64_t n = p->num_data - first < p->tile ? p->num_data - first : p->tile;
    if (pni_leaves(j->c)) return false;
    j->kernels->pass(p, r, group, first, n, p->totals ? 0 : first);
  }
  return true;
}

static void do_units(void *data, int64_t begin, int64_t end) {
  run *j = data;
  for (int64_t k = begin; k < end; k++) {
    pni_site_room r = room_at(j, k);
    int64_t from = (j->first + k) * j->in_unit, to = from + j->in_unit < j->groups ? from + j->in_unit : j->groups;
    memset(r.value, 0, (size_t)j->p->num_data * sizeof(double));
    memset(r.site, 0, (size_t)j->p->num_data * sizeof(double));
    memset(r.g, 0, (size_t)j->p->weights * PNI_SITE_LANES * j->real);
    memset(r.sum, 0, (size_t)j->p->weights * PNI_SITE_LANES * j->real);
    memset(r.product, 0, (size_t)j->p->weights * PNI_SITE_LANES * j->real);
    for (int64_t group = from; group < to; group++) {
      if (!pass_data(j, &r, group)) return;
      j->kernels->close(j->p, &r);
    }
    j->kernels->fold(j->p, &r);
  }
}

static void do_groups(void *data, int64_t begin, int64_t end) {
  run *j = data;
  for (int64_t k = begin; k < end; k++) {
    pni_site_room r = room_at(j, k);
    memset(r.value, 0, (size_t)j->p->num_data * sizeof(double));
    if (!pass_data(j, &r, j->first + k)) return;
  }
}

/* The panel number `panel` among those of all layers: its layer and first column. */
static int find_panel(const pni_site_problem *p, int64_t panel, int64_t *column) {
  for (int l = 0;; l++) {
    int64_t out = p->layer[l].out, whole = out / PNI_SITE_PANEL, here = whole + out % PNI_SITE_PANEL;
    if (panel < here) {
      *column = panel < whole ? panel * PNI_SITE_PANEL : whole * PNI_SITE_PANEL + (panel - whole);
      return l;
    }
    panel -= here;
  }
}

static int64_t panels(const pni_site_problem *p) {
  int64_t n = 0;
  for (int l = 0; l < p->num_layers; l++) n += p->layer[l].out / PNI_SITE_PANEL + p->layer[l].out % PNI_SITE_PANEL;
  return n;
}

static void do_panels(void *data, int64_t begin, int64_t end) {
  run *j = data;
  pni_site_room r = room_at(j, 0);
  int64_t apart = j->apart / (int64_t)j->real, column;
  for (int64_t k = begin; k < end; k++) {
    if (pni_leaves(j->c)) return;
    int l = find_panel(j->p, k, &column);
    j->kernels->collect(j->p, &r, j->count, apart, j->p->num_data, l, column, j->sums->each);
  }
}

static void add(double *to, const double *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] += x[i];
}

/* What the rooms of this round found, in their order. */
static void add_round(const run *j) {
  const pni_site_problem *p = j->p;
  for (int64_t k = 0; k < j->count; k++) {
    pni_site_room r = room_at(j, k);
    add(j->sums->value, r.value, p->num_data);
    if (!p->totals) continue;
    add(j->sums->site, r.site, p->num_data);
    add(j->sums->sum, r.sum_total, p->weights);
    add(j->sums->product, r.product_total, p->weights);
  }
}

/* One piece after another in rounds of as many as there are rooms. */
static pn_status rounds(run *j) {
  pn_context *c = j->c;
  int64_t pieces = j->p->totals ? (j->groups + j->in_unit - 1) / j->in_unit : j->groups;
  for (j->first = 0; j->first < pieces; j->first += j->rooms) {
    j->count = pieces - j->first < j->rooms ? pieces - j->first : j->rooms;
    if (pni_parallel(c, j->count, 1, j->p->totals ? do_units : do_groups, j)) return c->status;
    if (!j->p->totals && pni_parallel(c, panels(j->p), 1, do_panels, j)) return c->status;
    add_round(j);
  }
  return PN_OK;
}

static int64_t within(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

/* Groups whose sites are collected together, as adding up 16 lanes costs as much as some draws. */
static int64_t collected(const pni_site_problem *p) { return within((1 << 15) / (p->weights + 1), 4, 16); }

size_t pni_site_held(const pni_site_problem *p, int dtype) {
  return (size_t)(collected(p) * p->nodes * 2 * PNI_SITE_LANES) * pn_dtype_size((pn_dtype)dtype);
}

pn_status pni_site_run(pn_context *c, pni_site_problem *p, int dtype, size_t budget, const pni_site_sums *sums) {
  run j = {.c = c, .p = p, .sums = sums, .real = pn_dtype_size((pn_dtype)dtype)};
  pni_site_room none;
  j.groups = (p->draws + PNI_SITE_LANES - 1) / PNI_SITE_LANES;
  j.kernels = dtype == PN_FLOAT64 ? pni_site_kernels_f64() : pni_site_kernels_f32();
  p->tile = within(TILE_BYTES / (2 * p->nodes * PNI_SITE_LANES * (int64_t)j.real), PNI_SITE_PANEL, p->num_data);
  p->hold = p->totals ? p->tile : p->num_data;
  j.in_unit = within((1 << 16) / (p->weights + 1), 1, 32);
  j.apart = (int64_t)divide(p, j.real, NULL, &none);
  j.rooms = p->totals ? within((int64_t)(budget / (size_t)j.apart), 1, UNITS) : collected(p);
  if (p->totals) j.rooms = within((j.groups + j.in_unit - 1) / j.in_unit, 1, j.rooms);
  if (!(j.room = pni_alloc_array(c, j.rooms, (size_t)j.apart))) return c->status;
  rounds(&j);
  pni_free(c, j.room);
  return c->status;
}
