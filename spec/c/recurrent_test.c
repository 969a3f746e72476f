/* recurrent_test.c: recurrent layers against the same networks step by step in other operations: values, last states,
 * gradients and gradients of gradients; sizes at the ends of vectors, one step and more than an operation takes inputs,
 * both directions, lengths, strides, both types, one thread and two; refusals. */
#include <stdlib.h>
#include "../../src/nn/recurrent/nn_op.h"
#include "../../src/nn/recurrent/recurrent.h"
#include "../../src/tensor/product/gemm.h"
#include "check.h"

enum { MOST_STEPS = 70, LEAVES = 7 };

typedef struct {
  const char *kind;
  int64_t steps, batch, hidden, in;
  bool bias, reverse, states, lengths, relu;
  pn_dtype dtype;
} shape;

static pn_tensor *numbers(pn_context *c, pn_dtype dtype, int ndim, const int64_t *size, double by) {
  int64_t n = 1;
  static double v[1 << 16];
  for (int k = 0; k < ndim; k++) n *= size[k];
  for (int64_t i = 0; i < n; i++) v[i] = sin(by * (double)(i + 1) + 0.3 * (double)(i % 5));
  return pn_cast(c, pn_from_data(c, PN_FLOAT64, ndim, size, v), dtype);
}

static int64_t length_of(const shape *s, int64_t b) { return s->lengths ? (b * 3 + 1) % (s->steps + 1) : s->steps; }

static pn_tensor *part(pn_context *c, pn_tensor *t, int64_t k, int64_t n) { return pn_slice(c, t, -1, k * n, n, 1); }

/* One step of all rows: the state h (and c) becomes the next one. */
static void step_of(pn_context *c, const shape *s, pn_tensor *const *leaf, pn_tensor *x, pn_tensor **h) {
  int64_t n = s->hidden;
  pn_tensor *gi = pn_matmul(c, x, pn_transpose(c, leaf[1], 0, 1)), *one = pn_scalar(c, s->dtype, 1);
  pn_tensor *gh = pn_matmul(c, h[0], pn_transpose(c, leaf[2], 0, 1));
  if (s->bias) gi = pn_add(c, gi, leaf[3]), gh = pn_add(c, gh, leaf[4]);
  pn_tensor *a = pn_add(c, gi, gh);
  if (strcmp(s->kind, "rnn") == 0) {
    h[0] = s->relu ? pn_relu(c, a) : pn_tanh(c, a);
  } else if (strcmp(s->kind, "gru") == 0) {
    pn_tensor *r = pn_sigmoid(c, part(c, a, 0, n)), *z = pn_sigmoid(c, part(c, a, 1, n));
    pn_tensor *new = pn_tanh(c, pn_add(c, part(c, gi, 2, n), pn_mul(c, r, part(c, gh, 2, n))));
    h[0] = pn_add(c, pn_mul(c, pn_sub(c, one, z), new), pn_mul(c, z, h[0]));
  } else {
    pn_tensor *i = pn_sigmoid(c, part(c, a, 0, n)), *f = pn_sigmoid(c, part(c, a, 1, n));
    pn_tensor *g = pn_tanh(c, part(c, a, 2, n)), *o = pn_sigmoid(c, part(c, a, 3, n));
    h[1] = pn_add(c, pn_mul(c, f, h[1]), pn_mul(c, i, g));
    h[0] = pn_mul(c, o, pn_tanh(c, h[1]));
  }
}

/* Outputs of all steps and last states, row by row: each ends with its own length, and runs back from there. leaf: x,
 * weights, biases, states. */
static void by_steps(pn_context *c, const shape *s, int states, pn_tensor *const *leaf, pn_tensor **out,
                     pn_tensor **last) {
  pn_tensor *row[2][40], *all[40];
  for (int64_t b = 0; b < s->batch; b++) {
    pn_tensor *h[2], *at[MOST_STEPS], *zero = pn_zeros(c, s->dtype, 2, (int64_t[]){1, s->hidden});
    for (int k = 0; k < states; k++) h[k] = s->states ? pn_slice(c, leaf[5 + k], 0, b, 1, 1) : zero;
    int64_t n = length_of(s, b);
    for (int64_t t = 0; t < s->steps; t++) at[t] = zero;
    for (int64_t j = 0; j < n; j++) {
      int64_t t = s->reverse ? n - 1 - j : j;
      step_of(c, s, leaf, pn_slice(c, pn_select(c, leaf[0], 0, t), 0, b, 1, 1), h);
      at[t] = h[0];
    }
    pn_tensor *half[2] = {NULL, NULL};
    int64_t first = s->steps / 2;
    if (first) half[0] = pn_stack(c, (int)first, at, 0);
    half[1] = pn_stack(c, (int)(s->steps - first), at + first, 0);
    all[b] = first ? pn_concatenate(c, 2, half, 0) : half[1];
    for (int k = 0; k < states; k++) row[k][b] = h[k];
  }
  *out = pn_concatenate(c, (int)s->batch, all, 1);
  for (int k = 0; k < states; k++) last[k] = pn_concatenate(c, (int)s->batch, row[k], 0);
}

static double apart(pn_context *c, pn_tensor *a, pn_tensor *b) {
  if (!a || !b) return NAN;
  double v = NAN;
  pn_tensor_copy_out(c, pn_max(c, pn_abs(c, pn_sub(c, a, b)), PN_ALL, 0), &v, 1);
  return v;
}

static void compare(shape s, int threads) {
  pn_context *c = pn_context_new(&(pn_context_config){.seed = 3, .threads = threads});
  pn_option options[] = {
      {"bias", s.bias, NULL}, {"reverse", s.reverse, NULL}, {"activation", 0, s.relu ? "relu" : "tanh"}, {0}};
  if (strcmp(s.kind, "rnn") != 0) options[2].name = NULL;
  pn_layer *l = pn_layer_new(c, s.kind, 2, (int64_t[]){s.in, s.hidden}, s.dtype, NULL, options);
  int states = pn_layer_num_states(l);
  /* x lies with the batch before time */
  pn_tensor *x = pn_param(c, numbers(c, s.dtype, 3, (int64_t[]){s.batch, s.steps, s.in}, 0.7));
  pn_tensor *given[2], *lengths = NULL, *leaf[LEAVES] = {x};
  int64_t list[40];
  for (int64_t b = 0; b < s.batch; b++) list[b] = length_of(&s, b);
  if (s.lengths) lengths = pn_from_data(c, PN_INT64, 1, &s.batch, list);
  for (int k = 0; k < pn_layer_num_params(l); k++) leaf[1 + k] = pn_layer_param(l, k);
  for (int k = 0; k < states; k++)
    leaf[5 + k] = given[k] = pn_param(c, numbers(c, s.dtype, 2, (int64_t[]){s.batch, s.hidden}, 0.9 + k));
  CHECK_INT(pn_layer_num_params(l), s.bias ? 4 : 2);
  pn_tensor *out[2], *last[2][2], *loss[2], *grad[2][LEAVES], *twice[2][LEAVES], *graph[2][LEAVES], *about[LEAVES];
  pn_tensor *turned = pn_transpose(c, x, 0, 1), *inside[LEAVES];
  memcpy(inside, leaf, sizeof inside);
  inside[0] = turned;
  by_steps(c, &s, states, inside, &out[0], last[0]);
  if (s.lengths) {
    out[1] = pn_layer_call(c, l, 2, (pn_tensor *[]){turned, lengths}, PN_MODE_EVALUATION, NULL);
    memcpy(last[1], last[0], sizeof last[1]);
  } else {
    CHECK_STATUS(c, pn_layer_unroll(c, l, turned, s.states ? given : NULL, PN_MODE_EVALUATION, NULL, &out[1], last[1]),
                 PN_OK);
  }
  double bound = s.dtype == PN_FLOAT64 ? 1e-12 : 1e-5;
  CHECK(apart(c, out[0], out[1]) < bound);
  int n = 0;
  for (int k = 0; k < LEAVES; k++)
    if (leaf[k] && (k < 5 || s.states)) about[n++] = leaf[k];
  for (int way = 0; way < 2; way++) {
    int64_t size[] = {s.steps, s.batch, s.hidden};
    loss[way] = pn_sum(c, pn_mul(c, out[way], numbers(c, s.dtype, 3, size, 0.31)), PN_ALL, 0);
    for (int k = 0; k < states && !s.lengths; k++) {
      CHECK(apart(c, last[0][k], last[1][k]) < bound);
      pn_tensor *weighed = pn_mul(c, last[way][k], numbers(c, s.dtype, 2, size + 1, 0.57 + k));
      loss[way] = pn_add(c, loss[way], pn_sum(c, weighed, PN_ALL, 0));
    }
    CHECK_STATUS(c, pn_grad(c, loss[way], n, about, 0, grad[way]), PN_OK);
    CHECK_STATUS(c, pn_grad(c, loss[way], n, about, 1, graph[way]), PN_OK);
    pn_tensor *slope = NULL;
    for (int k = 0; k < n; k++) {
      pn_tensor *w = pn_reshape(c, graph[way][k], 1, (int64_t[]){-1});
      pn_tensor *sum = pn_sum(c, pn_mul(c, w, numbers(c, s.dtype, 1, pn_tensor_shape(w), 0.11 + k)), PN_ALL, 0);
      slope = slope ? pn_add(c, slope, sum) : sum;
    }
    CHECK_STATUS(c, pn_grad(c, slope, n, about, 0, twice[way]), PN_OK);
  }
  for (int k = 0; k < n; k++) {
    double to = bound * (double)(10 + s.steps * s.batch);
    bool same = apart(c, grad[0][k], grad[1][k]) < to && apart(c, graph[0][k], graph[1][k]) < to &&
                apart(c, grad[1][k], graph[1][k]) < to && apart(c, twice[0][k], twice[1][k]) < 10 * to;
    if (!check_record(same))
      printf("%s, %d steps of %d rows, hidden %d, leaf %d: %g %g %g %g off\n", s.kind, (int)s.steps, (int)s.batch,
             (int)s.hidden, k, apart(c, grad[0][k], grad[1][k]), apart(c, graph[0][k], graph[1][k]),
             apart(c, grad[1][k], graph[1][k]), apart(c, twice[0][k], twice[1][k]));
  }
  CHECK_STATUS(c, pn_context_status(c), PN_OK);
  pn_layer_unref(l);
  pn_context_close(c);
}

/* Rows of a batch do not depend on each other or on the number of threads, to the bit: so many that they are shared. */
static void rows(const char *kind, pn_dtype dtype) {
  enum { STEPS = 24, BATCH = 70, HIDDEN = 40, IN = 2 };
  static double got[2][2][BATCH * HIDDEN * STEPS];
  for (int threads = 1; threads <= 2; threads++) {
    pn_context *c = pn_context_new(&(pn_context_config){.seed = 3, .threads = threads});
    pn_layer *l = pn_layer_new(c, kind, 2, (int64_t[]){IN, HIDDEN}, dtype, NULL, NULL);
    pn_tensor *x = pn_param(c, numbers(c, dtype, 3, (int64_t[]){STEPS, BATCH, IN}, 0.7)), *dx;
    pn_tensor *y = pn_layer_forward(c, l, x, PN_MODE_EVALUATION, NULL);
    CHECK_STATUS(c, pn_grad(c, pn_sum(c, pn_square(c, y), PN_ALL, 0), 1, &x, 0, &dx), PN_OK);
    pn_tensor_copy_out(c, y, got[threads - 1][0], BATCH * HIDDEN * STEPS);
    pn_tensor_copy_out(c, dx, got[threads - 1][1], BATCH * IN * STEPS);
    pn_layer_unref(l);
    pn_context_close(c);
  }
  CHECK(memcmp(got[0][0], got[1][0], sizeof got[0][0]) == 0);
  CHECK(memcmp(got[0][1], got[1][1], BATCH * IN * STEPS * sizeof(double)) == 0);
}

/* ---- the kernels themselves ---- */

enum { HIDDEN = 5, ROWS = 15, STEPS = 3, ARRAYS = 15, FORWARD = 7, BACK = 10, ROOM = 14 };
static const double untouched = -7;

static void put(bool single, void *to, int64_t n, double by) {
  for (int64_t i = 0; i < n; i++) {
    double v = by == 0 ? untouched : sin(by * (double)(i + 1)) * (1 + 0.3 * (double)(i % 5));
    if (single)
      ((float *)to)[i] = (float)v;
    else
      ((double *)to)[i] = v;
  }
}

static int touched(bool single, const void *of, int64_t begin, int64_t end) {
  int n = 0;
  for (int64_t i = begin; i < end; i++)
    n += (single ? (double)((const float *)of)[i] : ((const double *)of)[i]) != untouched;
  return n;
}

/* Rows by themselves are those of all rows, to the bit; they touch their own places of the results and of the scratch
 * alone. Blocks are as large as they must be, for the sanitiser. */
static void parts_of_rows(bool lstm, bool single) {
  enum { ALL = STEPS * ROWS, MOST = ALL * 4 * HIDDEN };
  static const int64_t part[][2] = {{2, 3}, {3, ROWS - 1}, {0, 2}, {ROWS - 1, ROWS}};
  static double whole[ARRAYS][MOST];
  const int64_t width = (lstm ? 4 : 3) * HIDDEN, cell = lstm ? HIDDEN : 0, state = ROWS * HIDDEN;
  const int64_t size[ARRAYS] = {
      ALL * width,  HIDDEN * width,         width,        state,       state,
      ALL * HIDDEN, ALL * HIDDEN,           ALL * HIDDEN, ALL * cell,  4 * ALL * HIDDEN,
      ALL * width,  lstm ? 0 : ALL * width, state,        ROWS * cell, pni_recurrent_room(ROWS, HIDDEN)};
  const pni_recurrent_kernels *all = single ? &pni_recurrent_f32 : &pni_recurrent_f64;
  const size_t each = single ? sizeof(float) : sizeof(double);
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1});
  void *v[ARRAYS];
  for (int k = 0; k < ARRAYS; k++) {
    v[k] = malloc((size_t)size[k] * each + 1);
    put(single, v[k], size[k], 0.7 + 0.1 * k);
  }
  pni_recurrence j = {c,    STEPS, ROWS, HIDDEN, v[0], v[1],  NULL,  v[2],  v[3],  v[4],
                      v[7], v[8],  v[9], v[5],   v[6], v[10], v[11], v[12], v[13], v[ROOM]};
  for (int back = 0; back < 2; back++) {
    pni_shard f = lstm ? (back ? all->lstm_adjoint : all->lstm) : back ? all->gru_adjoint : all->gru;
    int first = back ? BACK : FORWARD, last = back ? ROOM : BACK;
    for (int k = first; k < last; k++) put(single, v[k], size[k], 0);
    f(&j, 0, ROWS);
    for (int k = first; k < last; k++) {
      memcpy(whole[k], v[k], (size_t)size[k] * each);
      put(single, v[k], size[k], 0);
    }
    int64_t done = 0;
    for (int i = 0; i < 4; i++) {
      int64_t begin = pni_recurrent_room(part[i][0], HIDDEN), end = pni_recurrent_room(part[i][1], HIDDEN);
      put(single, v[ROOM], size[ROOM], 0);
      f(&j, part[i][0], part[i][1]);
      CHECK(touched(single, v[ROOM], 0, begin) == 0 && touched(single, v[ROOM], end, size[ROOM]) == 0);
      done += part[i][1] - part[i][0];
      for (int k = first; k < last; k++) CHECK_INT(touched(single, v[k], 0, size[k]), done * size[k] / ROWS);
    }
    for (int k = first; k < last; k++) CHECK(memcmp(whole[k], v[k], (size_t)size[k] * each) == 0);
    memset(v[5], 0, (size_t)size[5] * each); /* gradients of nothing are nothing, exactly */
    memset(v[6], 0, (size_t)size[6] * each);
    if (back) f(&j, 0, ROWS);
    for (int k = first; back && k < last; k++)
      for (int64_t i = 0; i < size[k]; i++) CHECK((single ? (double)((float *)v[k])[i] : ((double *)v[k])[i]) == 0);
  }
  for (int k = 0; k < ARRAYS; k++) free(v[k]);
  pn_context_close(c);
}

/* Products are cut where there are more than 2^29 multiplications of rows: those on both sides of the cut are what they
 * are in a small batch, with the weight as it is and packed, and nothing is put behind the last one. */
static void many_rows(bool packed) {
  enum { WIDE = 512, ALL = 3 * WIDE, CUT = (1 << 29) / (ALL * WIDE) + 1, BATCH = CUT + 4, FROM = CUT - 3, LAST = 7 };
  static const size_t size[] = {ALL * WIDE, 4 * BATCH * WIDE, BATCH * WIDE, BATCH * ALL, BATCH * ALL, 2 * BATCH * WIDE};
  float *place[6], few[LAST * WIDE], worst = 0;
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1});
  for (int k = 0; k < 6; k++) {
    place[k] = malloc(size[k] * sizeof **place);
    for (size_t i = 0; i < size[k]; i++)
      place[k][i] = k < 5 ? (float)(int)(i * 2654435761u >> 9 & 255) * 4e-4f - 0.05f : 0;
  }
  pni_recurrence j = {.context = c,
                      .steps = 1,
                      .batch = BATCH,
                      .hidden = WIDE,
                      .w = place[0],
                      .gates = place[1],
                      .h0 = place[2],
                      .dh_in = place[2],
                      .dgi = place[3],
                      .dgh = place[4],
                      .dh0 = place[5]};
  float *got = place[5] + FROM * WIDE, *pack = malloc((size_t)pni_gemm_pack_size(WIDE, ALL) * sizeof *pack);
  pni_gemm_pack(true, WIDE, ALL, place[0], pack);
  if (packed) j.packed = pack;
  pni_recurrent_f32.gru_adjoint(&j, 0, BATCH);
  memcpy(few, got, sizeof few);
  for (int i = 0; i < BATCH * WIDE; i++) worst = fmaxf(worst, fabsf(place[5][BATCH * WIDE + i]));
  CHECK(worst == 0);
  pni_recurrent_f32.gru_adjoint(&j, FROM, BATCH);
  for (int i = 0; i < LAST * WIDE; i++) worst = fmaxf(worst, fabsf(few[i] - got[i]));
  CHECK(worst < 1e-6f && few[0] != few[3 * WIDE] && few[3 * WIDE] != few[6 * WIDE]);
  volatile float tiny = 1e-40f; /* outside of products arithmetic is as ever */
  CHECK(tiny * 0.5f > 0);
  for (int k = 0; k < 6; k++) free(place[k]);
  free(pack);
  pn_context_close(c);
}

/* What the scans refuse: one input in each row is not what it should be. */
static void scans(void) {
  static const struct {
    bool lstm;
    int k, ndim;
    int64_t shape[3];
    const char *why;
  } row[] = {{false, 1, 3, {9, 3, 1}, "gru: weight_hh must have shape [3 hidden, hidden], got [9, 3, 1]"},
             {false, 1, 1, {9}, "gru: weight_hh must have shape [3 hidden, hidden], got [9]"},
             {false, 1, 2, {12, 3}, "gru: weight_hh must have shape [3 hidden, hidden], got [12, 3]"},
             {false, 1, 2, {0, 0}, "gru: weight_hh must have shape [3 hidden, hidden], got [0, 0]"},
             {false, 0, 3, {2, 4, 12}, "gru: projected input must have shape [T, B, 9], got [2, 4, 12]"},
             {false, 0, 2, {4, 9}, "gru: projected input must have shape [T, B, 9], got [4, 9]"},
             {false, 2, 1, {8}, "gru: bias_hh must have shape [9], got [8]"},
             {false, 2, 2, {9, 1}, "gru: bias_hh must have shape [9], got [9, 1]"},
             {false, 3, 2, {3, 3}, "gru: initial state must have shape [4, 3], got [3, 3]"},
             {false, 3, 2, {4, 2}, "gru: initial state must have shape [4, 3], got [4, 2]"},
             {false, 3, 3, {4, 3, 1}, "gru: initial state must have shape [4, 3], got [4, 3, 1]"},
             {true, 1, 2, {9, 3}, "lstm: weight_hh must have shape [4 hidden, hidden], got [9, 3]"},
             {true, 0, 3, {2, 4, 9}, "lstm: projected input must have shape [T, B, 12], got [2, 4, 9]"},
             {true, 2, 2, {4, 4}, "lstm: initial state must have shape [4, 3], got [4, 4]"},
             {true, 3, 2, {4, 4}, "lstm: initial state must have shape [4, 3], got [4, 4]"},
             {false, -1, 0, {0}, NULL},
             {true, -1, 0, {0}, NULL}};
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1});
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    size_t mark = pn_scope_open(c);
    int64_t g = row[i].lstm ? 12 : 9;
    pn_tensor *h = pn_zeros(c, PN_FLOAT64, 2, (int64_t[]){4, 3}), *b = pn_zeros(c, PN_FLOAT64, 1, &g);
    pn_tensor *in[] = {pn_zeros(c, PN_FLOAT64, 3, (int64_t[]){2, 4, g}), pn_zeros(c, PN_FLOAT64, 2, (int64_t[]){g, 3}),
                       row[i].lstm ? h : b, h};
    if (row[i].k >= 0) in[row[i].k] = pn_zeros(c, PN_FLOAT64, row[i].ndim, row[i].shape);
    pn_tensor *y = pni_apply(c, row[i].lstm ? &pni_nn_op_lstm_scan : &pni_nn_op_gru_scan, 4, in, NULL);
    CHECK(!y == (row[i].why != NULL));
    if (row[i].why) CHECK_FAIL(c, PN_SHAPE, row[i].why);
    if (y) CHECK(pn_tensor_shape(y)[0] == (row[i].lstm ? 6 : 5) && pn_tensor_shape(y)[3] == 3);
    pn_scope_close(c, mark);
  }
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
}

static void refusals(void) {
  pn_context *c = pn_context_new(&(pn_context_config){.threads = 1});
  size_t mark = pn_scope_open(c);
  pn_layer *l = pn_layer_new(c, "lstm", 2, (int64_t[]){2, 3}, PN_FLOAT64, NULL, NULL);
  pn_tensor *x = pn_zeros(c, PN_FLOAT64, 3, (int64_t[]){4, 5, 2}), *out, *last[2];
  pn_tensor *state = pn_zeros(c, PN_FLOAT64, 2, (int64_t[]){5, 3}), *flat = pn_zeros(c, PN_FLOAT64, 1, (int64_t[]){3});
  CHECK_STATUS(c, pn_layer_unroll(c, l, x, (pn_tensor *[]){NULL, state}, PN_MODE_EVALUATION, NULL, NULL, last), PN_OK);
  CHECK_STATUS(c, pn_layer_unroll(c, l, x, (pn_tensor *[]){state, flat}, PN_MODE_EVALUATION, NULL, &out, last),
               PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "lstm: state must have shape [5, 3], got [3]");
  pn_tensor *wide = pn_zeros(c, PN_FLOAT64, 2, (int64_t[]){5, 4}), *few = pn_zeros(c, PN_FLOAT64, 2, (int64_t[]){4, 3});
  CHECK_STATUS(c, pn_layer_unroll(c, l, x, (pn_tensor *[]){wide, NULL}, PN_MODE_EVALUATION, NULL, &out, last),
               PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "lstm: state must have shape [5, 3], got [5, 4]");
  CHECK_STATUS(c, pn_layer_unroll(c, l, x, (pn_tensor *[]){few, NULL}, PN_MODE_EVALUATION, NULL, &out, last), PN_SHAPE);
  CHECK_FAIL(c, PN_SHAPE, "lstm: state must have shape [5, 3], got [4, 3]");
  CHECK(!pn_layer_forward(c, l, pn_zeros(c, PN_FLOAT64, 3, (int64_t[]){0, 5, 2}), PN_MODE_EVALUATION, NULL));
  CHECK_FAIL(c, PN_SHAPE, "lstm: input must have shape [T, ..., 2] with at least one step, got [0, 5, 2]");
  CHECK(!pn_layer_forward(c, l, pn_zeros(c, PN_FLOAT64, 1, (int64_t[]){2}), PN_MODE_EVALUATION, NULL));
  CHECK_FAIL(c, PN_SHAPE, "lstm: input must have shape [T, ..., 2]");
  pn_tensor *lengths = pn_zeros(c, PN_INT64, 1, (int64_t[]){4}), *square = pn_zeros(c, PN_INT64, 2, (int64_t[]){5, 1});
  CHECK(!pn_layer_call(c, l, 2, (pn_tensor *[]){x, lengths}, PN_MODE_EVALUATION, NULL));
  CHECK_FAIL(c, PN_SHAPE, "lstm: lengths must have shape [5], got [4]");
  CHECK(!pn_layer_call(c, l, 2, (pn_tensor *[]){x, square}, PN_MODE_EVALUATION, NULL));
  CHECK_FAIL(c, PN_SHAPE, "lstm: lengths must have shape [5], got [5, 1]");
  /* a batch of nothing, one axis, and one of several; a step is a sequence of one */
  CHECK(pn_tensor_ndim(
            pn_layer_forward(c, l, pn_zeros(c, PN_FLOAT64, 3, (int64_t[]){4, 0, 2}), PN_MODE_EVALUATION, NULL)) == 3);
  pn_tensor *one = pn_layer_forward(c, l, pn_zeros(c, PN_FLOAT64, 2, (int64_t[]){4, 2}), PN_MODE_EVALUATION, NULL);
  CHECK(pn_tensor_ndim(one) == 2 && pn_tensor_shape(one)[0] == 4 && pn_tensor_shape(one)[1] == 3);
  CHECK_STATUS(c,
               pn_layer_unroll(c, l, numbers(c, PN_FLOAT64, 4, (int64_t[]){1, 5, 2, 2}, 1), NULL, PN_MODE_EVALUATION,
                               NULL, &out, last),
               PN_OK);
  CHECK(pn_tensor_ndim(out) == 4 && pn_tensor_ndim(last[1]) == 3 && pn_tensor_shape(last[1])[1] == 2);
  pn_tensor *next[2];
  CHECK_STATUS(
      c, pn_layer_step(c, l, numbers(c, PN_FLOAT64, 3, (int64_t[]){5, 2, 2}, 1), NULL, PN_MODE_EVALUATION, NULL, next),
      PN_OK);
  CHECK(apart(c, next[0], last[0]) == 0 && apart(c, next[1], last[1]) == 0);
  CHECK_STATUS(c, pn_context_status(c), PN_OK);
  /* weights start uniformly on +-1 / sqrt(hidden) */
  pn_layer *many = pn_layer_new(c, "gru", 2, (int64_t[]){30, 25}, PN_FLOAT64, NULL, NULL);
  for (int k = 0; k < 4; k++) {
    double ends[2];
    pn_tensor_copy_out(c, pn_min(c, pn_layer_param(many, k), PN_ALL, 0), ends, 1);
    pn_tensor_copy_out(c, pn_max(c, pn_layer_param(many, k), PN_ALL, 0), ends + 1, 1);
    CHECK(ends[0] >= -0.2 && ends[0] < -0.18 && ends[1] <= 0.2 && ends[1] > 0.18);
    CHECK_INT(pn_tensor_shape(pn_layer_param(many, k))[0], 75);
  }
  pn_layer_unref(many);
  pn_layer_unref(l);
  pn_scope_close(c, mark);
  CHECK_INT(pn_context_objects(c), 0);
  pn_context_close(c);
}

int main(void) {
  static const char *const kinds[] = {"gru", "lstm", "rnn"};
  static const struct {
    int64_t steps, batch, hidden;
  } sizes[] = {{1, 1, 1}, {1, 3, 9}, {2, 4, 3}, {5, 2, 17}, {3, 7, 8}, {66, 2, 2}};
  for (int k = 0; k < 3; k++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
      for (int how = 0; how < 8; how++) {
        shape s = {.kind = kinds[k],
                   .steps = sizes[i].steps,
                   .batch = sizes[i].batch,
                   .hidden = sizes[i].hidden,
                   .in = 1 + (int64_t)i,
                   .bias = how % 3 != 1,
                   .reverse = how & 1,
                   .lengths = how & 2,
                   .states = !(how & 2) && how != 4,
                   .relu = how == 5,
                   .dtype = how == 7 ? PN_FLOAT32 : PN_FLOAT64};
        if (s.steps < 60 || how == 0 || how == 5) compare(s, 1 + how % 2);
      }
  for (int k = 0; k < 3; k++) {
    rows(kinds[k], PN_FLOAT64);
    rows(kinds[k], PN_FLOAT32);
  }
  for (int k = 0; k < 4; k++) parts_of_rows(k & 1, k & 2);
  many_rows(false);
  many_rows(true);
  scans();
  refusals();
  CHECK_DONE();
}
