/*
** op_transport.c: exact transport of mass, for distances between distributions: plans for given costs, and the distance
** of images. The value of a plan, sum of plan times cost, has the plan as its gradient in the cost (Danskin), so the
** plan itself needs none.
*/
#include <math.h>
#include "../op/infer_op.h"
#include "transport.h"

typedef struct {
  pn_context *context;
  const pn_tensor *cost, *a, *b; /* contiguous */
  pn_tensor *out;
  int64_t items, groups, n, m, columns; /* n places in a and m in b; columns of images, or 0 */
  char *memory;                         /* of each group: `size` bytes */
  size_t size;
  const double *distance; /* of images: [rows, columns] */
  int64_t *failed;        /* of each group: its first item without solution, or -1 */
} job;

/* A group's room. */
typedef struct {
  double *from, *to, *matrix;
  int32_t *source, *sink;
  void *tree;
} room;

static size_t place_room(const job *j, room *r, char *p) {
  size_t n = (size_t)j->n, m = (size_t)j->m, at = 0;
  r->from = (double *)(void *)(p + at);
  r->to = r->from + n;
  r->matrix = r->to + m;
  at += (n + m + (j->columns ? 0 : n * m)) * sizeof(double);
  r->tree = p + at;
  at += pni_transport_room(j->n, j->m);
  r->source = (int32_t *)(void *)(p + at);
  r->sink = r->source + n;
  return at + (n + m + 1) / 2 * 2 * sizeof(int32_t);
}

/* The sum of the weights of an item; NaN if one is negative or not finite. */
static double total(pni_watch *look, const pn_tensor *w, int64_t item, int64_t n) {
  double sum = 0;
  PNI_LOOKING(look, i, 0, n) {
    double v = pni_weight(w, item * n + i);
    sum += v >= 0 && v < INFINITY ? v : NAN;
  }
  return sum;
}

/* ---- plans ---- */

/* Weights that are not 0 as shares, and where they stand. */
static int64_t gather(pni_watch *look, const pn_tensor *w, int64_t item, int64_t n, double *share, int32_t *place) {
  double sum = total(look, w, item, n);
  int64_t count = 0;
  if (!(sum > 0)) return 0;
  PNI_LOOKING(look, i, 0, n) {
    double v = pni_weight(w, item * n + i) / sum;
    if (!(v > 0)) continue;
    share[count] = v;
    place[count++] = (int32_t)i;
  }
  return count;
}

/* Costs between the places that have mass, and the largest; false if one is not finite. */
static bool take_costs(pni_watch *look, const job *j, int64_t item, const room *r, int64_t n, int64_t m, double *most) {
  int64_t at = item * j->n * j->m;
  bool finite = true;
  for (int64_t i = 0; i < n && finite && !pni_watch_leaves(look, 1); i++) {
    PNI_LOOKING(look, k, 0, m) {
      double v = pni_weight(j->cost, at + r->source[i] * j->m + r->sink[k]);
      finite &= isfinite(v) != 0;
      r->matrix[i * m + k] = v;
      *most = fmax(*most, fabs(v));
    }
  }
  return finite;
}

/* An item's plan; false if it has none or was left. */
static bool plan(pni_watch *look, const job *j, int64_t item, const room *r) {
  pni_transport p = {.scale = 0};
  int64_t n = gather(look, j->a, item, j->n, r->from, r->source);
  int64_t m = gather(look, j->b, item, j->m, r->to, r->sink), at = item * j->n * j->m;
  PNI_LOOKING(look, i, 0, j->n * j->m) pni_set_weight(j->out, at + i, 0);
  if (n == 0 || m == 0 || !take_costs(look, j, item, r, n, m, &p.scale)) return false;
  p.cost.matrix = r->matrix;
  pni_transport_place(&p, n, m, r->tree);
  if (look->left || !pni_transport_solve(look, &p, r->from, r->to)) return false;
  PNI_TRANSPORT_EACH(&p, x, i, k)
  pni_set_weight(j->out, at + r->source[i] * j->m + r->sink[k], p.flow[x]);
  return true;
}

/* ---- images ---- */

/* As distances obey the triangle inequality, what an image has in common with the other stays where it is. */
static bool image(pni_watch *look, const job *j, int64_t item, const room *r) {
  pni_transport p = {.scale = 0};
  double of_a = total(look, j->a, item, j->n), of_b = total(look, j->b, item, j->n), value = 0;
  int64_t n = 0, m = 0;
  pni_set_weight(j->out, item, NAN);
  if (!(of_a > 0 && of_b > 0)) return true;
  PNI_LOOKING(look, i, 0, j->n) {
    double d = pni_weight(j->a, item * j->n + i) / of_a - pni_weight(j->b, item * j->n + i) / of_b;
    if (d > 0) {
      r->from[n] = d;
      r->source[n++] = (int32_t)i;
    } else if (d < 0) {
      r->to[m] = -d;
      r->sink[m++] = (int32_t)i;
    }
  }
  if (look->left) return false;
  if (n > 0 && m > 0) {
    p.scale = j->distance[j->n - 1];
    p.cost = (pni_cost){.distance = j->distance, .source = r->source, .sink = r->sink, .columns = j->columns};
    pni_transport_place(&p, n, m, r->tree);
    if (!pni_transport_solve(look, &p, r->from, r->to)) return false;
    PNI_TRANSPORT_EACH(&p, x, i, k) value += p.flow[x] * pni_transport_cost(&p, i, k);
  }
  pni_set_weight(j->out, item, value);
  return true;
}

/* ---- all items ---- */

static void groups_of(void *data, int64_t first, int64_t end) {
  job *j = data;
  pni_watch look = {.c = j->context};
  for (int64_t g = first; g < end; g++) {
    room r;
    place_room(j, &r, j->memory + (size_t)g * j->size);
    for (int64_t i = g * j->items / j->groups; i < (g + 1) * j->items / j->groups && !pni_watch_leaves(&look, 1); i++)
      if (!(j->columns ? image(&look, j, i, &r) : plan(&look, j, i, &r)) && j->failed[g] < 0) j->failed[g] = i;
  }
}

/* The first item that has no solution. */
static pn_status run(pn_context *c, job *j, int64_t *failed) {
  room r;
  j->context = c;
  j->groups = j->items < 8 ? j->items : 8;
  j->size = (place_room(j, &r, (char *)c) + 63) / 64 * 64;
  size_t table = j->columns ? (size_t)j->n * sizeof(double) : 0, count = (size_t)j->groups;
  int64_t groups = pni_times(j->groups, pni_plus((int64_t)j->size, sizeof(int64_t)));
  int64_t size = pni_plus(groups, (int64_t)table);
  *failed = -1;
  if (!(j->memory = pni_alloc_array(c, size, 1))) return c->status;
  double *distance = (double *)(void *)(j->memory + count * j->size);
  j->failed = (int64_t *)(void *)(j->memory + count * j->size + table);
  PNI_INTERRUPTIBLE(c, i, j->columns ? j->n : 0)
  distance[i] = hypot((double)(i / j->columns), (double)(i % j->columns));
  j->distance = distance;
  for (int64_t g = 0; g < j->groups; g++) j->failed[g] = -1;
  if (!pni_failed(c)) pni_parallel(c, j->groups, 1, groups_of, j);
  for (int64_t g = j->groups - 1; g >= 0; g--)
    if (j->failed[g] >= 0) *failed = j->failed[g];
  pni_free(c, j->memory);
  return c->status;
}

static pn_status infer_plan(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *x = call->in[0], *a = call->in[1], *b = call->in[2];
  char s[3][PNI_SHAPE_TEXT];
  bool fits = x->ndim == 3 && a->ndim == 2 && b->ndim == 2 && a->shape[0] == x->shape[0] &&
              b->shape[0] == x->shape[0] && a->shape[1] == x->shape[1] && b->shape[1] == x->shape[2] &&
              x->shape[1] + x->shape[2] < INT32_MAX / 8;
  if (!fits)
    return pni_fail(c, PN_SHAPE, "transport: cost must be [B, n, m], a [B, n] and b [B, m], got %s, %s and %s",
                    pni_shape_text(x->ndim, x->shape, s[0]), pni_shape_text(a->ndim, a->shape, s[1]),
                    pni_shape_text(b->ndim, b->shape, s[2]));
  *out = pni_spec_of(x);
  return PN_OK;
}

static pn_status infer_image(pn_context *c, const pni_call *call, pni_spec *out) {
  const pn_tensor *a = call->in[0], *b = call->in[1];
  char s[2][PNI_SHAPE_TEXT];
  bool fits = a->ndim == 3 && b->ndim == 3 && pni_count(3, a->shape) < INT32_MAX / 8;
  for (int k = 0; k < 3 && fits; k++) fits = a->shape[k] == b->shape[k];
  if (!fits || (a->numel == 0 && a->shape[0] > 0))
    return pni_fail(c, PN_SHAPE, "image_transport: images must be [B, rows, columns] of one shape, got %s and %s",
                    pni_shape_text(a->ndim, a->shape, s[0]), pni_shape_text(b->ndim, b->shape, s[1]));
  *out = (pni_spec){.dtype = a->dtype, .ndim = 1, .shape = {a->shape[0]}};
  return PN_OK;
}

static pn_status eval(pn_context *c, const pni_call *call, pn_tensor *out) {
  bool images = call->nin == 2;
  pn_tensor *in[3] = {NULL};
  int64_t failed;
  int k = 0;
  if (out->numel == 0) return PN_OK;
  while (k < call->nin && (in[k] = pni_contiguous(c, call->in[k]))) k++;
  if (k == call->nin) {
    const int64_t *n = in[0]->shape;
    job j = {
        .cost = images ? NULL : in[0], .a = in[images ? 0 : 1], .b = in[images ? 1 : 2], .out = out, .items = n[0]};
    j.n = images ? n[1] * n[2] : n[1];
    j.m = images ? j.n : n[2];
    j.columns = images ? n[2] : 0;
    if (run(c, &j, &failed) == PN_OK && failed >= 0)
      pni_fail(c, PN_DOMAIN,
               "transport: weights must be numbers from 0 on with a sum above 0 and costs finite: item %lld is not",
               (long long)failed + 1);
  }
  while (k-- > 0) pn_tensor_unref(in[k]);
  return c->status;
}

pn_tensor *pn_transport(pn_context *c, pn_tensor *cost, pn_tensor *a, pn_tensor *b) {
  return pni_apply(c, &pni_infer_op_transport_plan, 3, (pn_tensor *[]){cost, a, b}, NULL);
}

pn_tensor *pn_image_transport(pn_context *c, pn_tensor *a, pn_tensor *b) {
  return pni_apply2(c, &pni_infer_op_image_transport, a, b, NULL);
}

const pni_op pni_infer_op_transport_plan = {.name = "transport_plan",
                                            .args = "cost:t a:t b:t",
                                            .doc = "the cheapest plan that moves shares a to b: [B, n, m]",
                                            .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF,
                                            .infer = infer_plan,
                                            .eval = eval};

const pni_op pni_infer_op_image_transport = {.name = "image_transport",
                                             .args = "a:t b:t",
                                             .doc = "Wasserstein-1 distance of images in pixels: [B]",
                                             .flags = PNI_OP_HIDDEN | PNI_OP_NODIFF,
                                             .infer = infer_image,
                                             .eval = eval};
