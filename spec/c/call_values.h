/*
** call_values.h: arguments that calls_test.c makes its calls with, each a function value_<name> of a world. Which
** parameter takes which stands in spec/calls.lua.
*/
#ifndef PN_SPEC_CALL_VALUES_H
#define PN_SPEC_CALL_VALUES_H

#include "file_fixture.h"
#include "hmc_fixture.h"

enum { KEPT = 64, SLOTS = 64 };

typedef void (*release)(void *object);

/* What one call is made in: a context, what is to be released after it, and room for results. */
typedef struct world {
  pn_context *c;
  int kept;
  void *object[KEPT];
  release of[KEPT];
  void *slot[SLOTS];
  int slots;
  double numbers[SLOTS];
  int64_t whole[PN_MAX_DIMS];
  char space[4096]; /* of structs that are changed before a call */
} world;

static inline void *keep(world *w, const void *object, release f) {
  if (object && w->kept < KEPT) {
    w->object[w->kept] = (void *)(uintptr_t)object;
    w->of[w->kept++] = f;
  }
  return (void *)(uintptr_t)object;
}

/* A list of two, in the world's slots. */
static inline void *two(world *w, const void *a, const void *b) {
  void **list = w->slot + w->slots;
  list[0] = (void *)(uintptr_t)a;
  list[1] = (void *)(uintptr_t)b;
  w->slots += 2;
  return list;
}

/* Room for six results that no other parameter has. */
static inline void *room(world *w) {
  w->slots += 6;
  return w->slot + w->slots - 6;
}

#define SHAPE(...)                                                                                                     \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define RELEASE(type, f)                                                                                               \
  static inline void release_##type(void *object) { f(object); }                                                       \
  struct world
#define VALUE(name, expression)                                                                                        \
  static inline void *value_##name(world *w) {                                                                         \
    pn_context *c = w->c;                                                                                              \
    (void)c;                                                                                                           \
    return (void *)(uintptr_t)(expression);                                                                            \
  }                                                                                                                    \
  struct world
/* of static data */
#define FIXED(name, type, ...)                                                                                         \
  static inline void *value_##name(world *w) {                                                                         \
    static const type fixed[] = __VA_ARGS__;                                                                           \
    (void)w;                                                                                                           \
    return (void *)(uintptr_t)fixed;                                                                                   \
  }                                                                                                                    \
  struct world
#define FULL(x, ...) pn_full(c, PN_FLOAT64, SHAPE(__VA_ARGS__), x)

RELEASE(pn_context, pn_context_close);
RELEASE(pn_rng, pn_rng_free);
RELEASE(pn_tensor, pn_tensor_unref);
RELEASE(pn_names, pn_names_free);
RELEASE(pn_archive, pn_archive_free);
RELEASE(pn_array_file, pn_array_close);
RELEASE(pn_bijector, pn_bijector_unref);
RELEASE(pn_dist, pn_dist_unref);
RELEASE(pn_natural, pn_natural_unref);
RELEASE(pn_layer, pn_layer_unref);
RELEASE(pn_optim, pn_optim_unref);
RELEASE(pn_weight_stream, pn_weight_stream_unref);
RELEASE(pn_plan, pn_plan_unref);
RELEASE(pn_sampler, pn_sampler_free);
RELEASE(pn_target, pn_target_free);
RELEASE(pn_population, pn_population_free);
RELEASE(pn_smc, pn_smc_free);
RELEASE(pn_filter, pn_filter_free);
RELEASE(pn_runtime, pn_runtime_close);

/* ---- tensors ---- */
VALUE(c, c);
VALUE(x, FULL(0.5, 2, 3));
VALUE(owned, keep(w, pn_tensor_ref(value_x(w)), release_pn_tensor));
VALUE(scalar, pn_scalar(c, PN_FLOAT64, 0.5));
VALUE(large, pn_scalar(c, PN_FLOAT64, 2));
VALUE(row, FULL(0.5, 1, 3));
VALUE(vector, FULL(0.5, 2));
VALUE(weights, FULL(-1, 4));
VALUE(m, FULL(0.5, 3, 2));
VALUE(tall, FULL(0.5, 3, 1));
VALUE(deep, FULL(0.5, 3, 2, 3));
VALUE(spd, pn_eye(c, PN_FLOAT64, 3, 3));
VALUE(spd2, pn_eye(c, PN_FLOAT64, 2, 2));
VALUE(spd1, pn_eye(c, PN_FLOAT64, 1, 1));
VALUE(emission, FULL(1, 1, 2));
VALUE(one, FULL(1, 1));
VALUE(turns, FULL(0.5, 1, 2, 2));
VALUE(moves, FULL(-0.7, 1, 1, 2, 2));
VALUE(signals, FULL(-0.7, 3, 2, 2));
VALUE(starts, FULL(-0.7, 1, 2));
VALUE(image, FULL(0.5, 1, 1, 4, 4));
VALUE(kernel, FULL(0.5, 1, 1, 2, 2));
VALUE(corners, FULL(0.5, 1, 1, 3, 3));
VALUE(pictures, FULL(0.5, 1, 3, 3));
VALUE(cost, FULL(0.5, 1, 2, 3));
VALUE(from, FULL(0.5, 1, 2));
VALUE(to, FULL(0.5, 1, 3));
VALUE(times, pn_linspace(c, PN_FLOAT64, 0, 1, 3));
VALUE(draws, pn_randn(c, NULL, PN_FLOAT64, SHAPE(2, 8, 1)));
VALUE(index, pn_zeros(c, PN_INT64, SHAPE(2, 3)));
VALUE(positions, pn_zeros(c, PN_INT64, SHAPE(2)));
VALUE(place, pn_zeros(c, PN_INT64, 0, NULL));
VALUE(mask, pn_full(c, PN_BOOL, SHAPE(2, 3), 1));
VALUE(seen, pn_full(c, PN_BOOL, SHAPE(1), 1));
VALUE(all_seen, pn_full(c, PN_BOOL, SHAPE(3, 1), 1));
VALUE(steps, FULL(0.5, 3, 2));
VALUE(parameter, pn_param(c, value_x(w)));
VALUE(buffer, pn_buffer(c, value_x(w)));
VALUE(loss, pn_sum(c, pn_square(c, value_parameter(w)), PN_ALL, 0));
VALUE(carrier, pn_with_update(c, value_loss(w), value_buffer(w), value_x(w), 0.5));
VALUE(log_w, FULL(-1, 4, 2));
VALUE(square, FULL(0.5, 2, 2));
VALUE(single, FULL(0.5, 1, 1));
VALUE(rng, keep(w, pn_rng_new(c, 1), release_pn_rng));

/* ---- lists, texts and numbers ---- */
VALUE(list, two(w, value_x(w), value_x(w)));
VALUE(parameters, two(w, value_parameter(w), value_parameter(w)));
VALUE(params, two(w, value_scalar(w), NULL));
VALUE(particles, two(w, value_weights(w), NULL));
VALUE(state, two(w, FULL(0.5, 2, 4), NULL));
VALUE(scores, two(w, value_log_w(w), NULL));
VALUE(out, room(w));
VALUE(numbers, w->numbers);
VALUE(numbers_2, w->numbers + 8);
VALUE(numbers_4, w->numbers + 16);
VALUE(whole, w->whole);
VALUE(space, w->space);
FIXED(shape, int64_t, {2, 3});
FIXED(turned, int64_t, {3, 2});
FIXED(pair, int64_t, {2, 2});
FIXED(ones, int64_t, {1, 1});
FIXED(none, int64_t, {0, 0});
FIXED(order, int, {1, 0});
FIXED(layer_sizes, int64_t, {3, 4});
FIXED(text, char, "text");
FIXED(normal_name, char, "normal");
FIXED(element_name, char, "uint8");
FIXED(affine_name, char, "affine");
FIXED(loc, char, "loc");
FIXED(chain, char, "chain");
FIXED(angle, char, "angle");
FIXED(scalar_form, char, "scalar");
FIXED(lr, char, "lr");
FIXED(linear, char, "linear");
FIXED(sgd, char, "sgd");
FIXED(renyi, char, "renyi");
FIXED(log_mean, char, "log_mean");
FIXED(systematic, char, "systematic");
FIXED(log_weights, char, "log_weights");
FIXED(spec, char, "ij,kj->ik");
FIXED(script, char, "return 1");
FIXED(number_name, char, "number");
FIXED(function_name, char, "same");
FIXED(target_name, char, "target");
FIXED(filter_name, char, "filter");
FIXED(array_name, char, "array");
FIXED(names, char *const, {"loc", "scale", "third"});
FIXED(log_w_names, char *const, {"log_w", "log_w"});
VALUE(csv, in_folder("a.csv"));
VALUE(npy, in_folder("a.npy"));
VALUE(npz, in_folder("a.npz"));
VALUE(idx, in_folder("a.idx"));
VALUE(raw, in_folder("a.raw"));
VALUE(picture, in_folder("a.pgm"));
VALUE(store, in_folder("store"));
FIXED(chunk_type, char, "|u1");
VALUE(safetensors, in_folder("a.safetensors"));
VALUE(filter_file, in_folder("filter.safetensors"));
VALUE(script_file, in_folder("script.lua"));
VALUE(target_file, in_folder("saved"));

/* ---- records ---- */
FIXED(axes, pn_axes, {{1, {1}}});
FIXED(context_config, pn_context_config, {{.threads = 1}});
FIXED(conv2d_options, pn_conv2d_options, {{{1, 1}, {0, 0}, {1, 1}, 1, {0, 0}}});
FIXED(csv_options, pn_csv_options, {{.header = -1}});
FIXED(ode_config, pn_ode_config, {{.max_steps = 100}});
FIXED(lr_option, pn_option, {{"lr", 0.1, NULL}, {0}});
FIXED(bias_option, pn_option, {{"bias", 1, NULL}, {0}});
FIXED(scale_option, pn_option, {{"scale", 1, NULL}, {0}});
FIXED(order_option, pn_option, {{"alpha", 0.5, NULL}, {0}});
FIXED(sampler_config, pn_sampler_config, {{.chains = 4, .warmup = 3, .draws = 3, .max_depth = 3}});
FIXED(variable, pn_variable, {{.name = "z", .ndim = 1, .shape = {2}}});
FIXED(smc_config, pn_smc_config, {{.num_particles = 4, .threshold = 0.5, .trace = 1, .history = 1}});
FIXED(limits, pn_limits, {{.instructions = 100000}});
FIXED(runtime_config, pn_runtime_config, {{.context = {.threads = 1}, .libraries = PN_LIB_MATH}});

static inline void *value_beliefs(world *w) {
  static const double mean[] = {0.4, -0.3}, scale[] = {0.5, 0.6};
  static const unsigned char present[] = {1, 1};
  static const pn_beliefs fixed = {.sources = 2, .size = 1, .mean = mean, .scale = scale, .present = present};
  return memcpy(w->space, &fixed, sizeof fixed);
}

static inline void *value_fused(world *w) {
  static double mean[1], scale[1], conflicts[4];
  static unsigned char kept[2];
  static pn_fused f;
  (void)w;
  f = (pn_fused){.mean = mean, .scale = scale, .conflicts = conflicts, .kept = kept};
  return &f;
}

static inline void *value_site_options(world *w) {
  static const pn_site_options fixed = {.num_layers = 1, .likelihood = "normal", .noise_scale = 1, .draws = 4};
  static const int64_t sizes[] = {3, 2}, all = 8;
  pn_site_options *o = memcpy(w->space, &fixed, sizeof *o);
  o->layers = two(w, keep(w, pn_layer_new(w->c, "linear", 2, sizes, PN_FLOAT64, NULL, NULL), release_pn_layer), NULL);
  o->mean = pn_zeros(w->c, PN_FLOAT64, 1, &all);
  o->scale = pn_full(w->c, PN_FLOAT64, 1, &all, 0.5);
  return o;
}

static inline void *value_system(world *w) {
  pn_kalman_system *s = (pn_kalman_system *)w->space;
  *s = (pn_kalman_system){value_vector(w), value_spd2(w),     value_spd2(w), value_vector(w),
                          value_spd2(w),   value_emission(w), value_one(w),  value_spd1(w)};
  return s;
}

static inline void *value_filter_model(world *w) {
  pn_filter_model *s = (pn_filter_model *)w->space;
  *s = (pn_filter_model){value_vector(w), value_spd2(w),     value_spd2(w), value_vector(w),
                         value_spd2(w),   value_emission(w), value_one(w),  value_spd1(w)};
  return s;
}

static inline void *value_array(world *w) {
  pn_array *a = (pn_array *)w->space;
  *a = (pn_array){.dtype = PN_FLOAT64, .ndim = 1, .shape = {2}, .data = w->numbers};
  return a;
}

static inline void *value_array_out(world *w) {
  pn_array *a = (pn_array *)(w->space + 1024);
  *a = (pn_array){.dtype = PN_FLOAT64, .data = w->numbers, .capacity = SLOTS};
  return a;
}

/* ---- objects ---- */
FIXED(dist_names, char *const, {"loc", "scale"});
#define KEPT_VALUE(name, type, expression) VALUE(name, keep(w, (expression), release_##type))
KEPT_VALUE(archive, pn_archive, pn_load_npz(c, in_folder("a.npz")));

/* ---- Arrow ---- */

static inline void release_arrow_schema(void *object) {
  struct ArrowSchema *s = object;
  if (s->release) s->release(s);
}

static inline void release_arrow_array(void *object) {
  struct ArrowArray *a = object;
  if (a->release) a->release(a);
}

static struct ArrowSchema call_schema[2];
static struct ArrowArray call_array[2];

/* What an export is written to, and what it has given: released with the world. */
VALUE(arrow_schema_out, keep(w, memset(&call_schema[0], 0, sizeof call_schema[0]), release_arrow_schema));
VALUE(arrow_array_out, keep(w, memset(&call_array[0], 0, sizeof call_array[0]), release_arrow_array));
static inline void export_x(world *w) {
  static world *done;
  pn_archive *a = pn_archive_new(w->c);
  if (done == w && (call_schema[1].release || call_array[1].release)) {
    pn_archive_free(a);
    return;
  }
  done = w;
  if (a && pn_archive_add(w->c, a, "x", value_x(w)) == PN_OK) pn_arrow_export(w->c, a, &call_schema[1], &call_array[1]);
  pn_archive_free(a);
  keep(w, &call_schema[1], release_arrow_schema);
  keep(w, &call_array[1], release_arrow_array);
}
VALUE(arrow_schema, (export_x(w), &call_schema[1]));
VALUE(arrow_array, (export_x(w), &call_array[1]));

KEPT_VALUE(texts, pn_names, pn_load_csv_text(c, in_folder("a.csv"), NULL, NULL));
KEPT_VALUE(array_file, pn_array_file, pn_array_open(c, in_folder("a.npy"), NULL));
KEPT_VALUE(bijector, pn_bijector, pn_bijector_new(c, "affine", 2, NULL, value_list(w)));
KEPT_VALUE(dist, pn_dist, pn_dist_new(c, "normal", 2, value_dist_names(w), value_list(w)));
KEPT_VALUE(normal, pn_dist, pn_dist_new(c, "normal", 0, NULL, NULL));
KEPT_VALUE(labels, pn_dist, pn_dist_new(c, "categorical", 1, NULL, two(w, value_vector(w), NULL)));
KEPT_VALUE(natural, pn_natural, pn_natural_new(c, "scalar", value_x(w), value_x(w)));
KEPT_VALUE(layer, pn_layer, pn_layer_new(c, "linear", 2, value_layer_sizes(w), PN_FLOAT64, NULL, NULL));
KEPT_VALUE(normaliser, pn_layer, pn_layer_new(c, "batch_norm", 1, value_layer_sizes(w), PN_FLOAT64, NULL, NULL));
KEPT_VALUE(recurrent, pn_layer, pn_layer_new(c, "gru", 2, value_layer_sizes(w), PN_FLOAT64, NULL, NULL));
KEPT_VALUE(optim, pn_optim, pn_optim_new(c, "adam", 2, value_parameters(w), NULL, NULL));
VALUE(optim_state, pn_optim_state(c, value_optim(w), 0));

/* A loss of what the optimiser has that was made last, and one whose gradients wait. */
static inline void *value_optim_loss(world *w) {
  for (int k = w->kept - 1; k >= 0; k--)
    if (w->of[k] == release_pn_optim) return pn_sum(w->c, pn_optim_param(w->object[k], 0), PN_ALL, 0);
  return NULL;
}

static inline void *value_ready(world *w) {
  pn_optim *o = value_optim(w);
  pn_backward(w->c, value_optim_loss(w));
  return o;
}
VALUE(bijectors, two(w, value_bijector(w), value_bijector(w)));
VALUE(dists, two(w, value_normal(w), value_normal(w)));

static inline void *value_stream(world *w) {
  pn_weight_stream *s = keep(w, pn_weight_stream_new(w->c, 10), release_pn_weight_stream);
  pn_weight_stream_add(w->c, s, value_log_w(w));
  return s;
}

static inline pn_smc *machine(world *w, const pn_smc_config *config) {
  pn_smc *s = keep(w, pn_smc_new(w->c, config, NULL), release_pn_smc);
  pn_tensor *part = value_weights(w);
  pn_smc_weigh(w->c, s, value_weights(w));
  if (config->history) pn_smc_keep(w->c, s, 1, &part);
  return s;
}

static inline void *value_smc(world *w) { return machine(w, value_smc_config(w)); }

/* One that awaits the parts of its first step. */
static inline void *value_weighed(world *w) {
  pn_smc *s = keep(w, pn_smc_new(w->c, value_smc_config(w), NULL), release_pn_smc);
  pn_smc_weigh(w->c, s, value_weights(w));
  return s;
}

static inline void *value_conditional(world *w) {
  const pn_smc_config config = {.num_particles = 4, .threshold = 1, .resampling = "multinomial", .conditional = 1};
  return machine(w, &config);
}
VALUE(weighed_state, pn_smc_get(c, value_smc(w), "weighed"));
KEPT_VALUE(kalman, pn_filter, pn_filter_kalman(c, value_filter_model(w)));

/* ---- computations ---- */

static inline pn_tensor *half(pn_context *c, pn_tensor *x) { return pn_mul(c, x, pn_scalar(c, PN_FLOAT64, 0.5)); }

/* A plan of half of each of its n inputs. */
static inline void *halves(world *w, int n, pn_tensor *const *in) {
  pn_tensor *inside[6], *out[6];
  if (pn_capture_begin(w->c, n, in, inside)) return NULL;
  for (int k = 0; k < n; k++) out[k] = half(w->c, inside[k]);
  return keep(w, pn_capture_end(w->c, n, out), release_pn_plan);
}
VALUE(plan, halves(w, 2, value_list(w)));
VALUE(vector_plan, halves(w, 1, two(w, value_vector(w), NULL)));
KEPT_VALUE(density, pn_plan, density_plan(c, 2, standard_normal, NULL));

static inline void *value_captured(world *w) {
  pn_tensor **inside = room(w);
  pn_capture_begin(w->c, 2, value_list(w), inside);
  return two(w, half(w->c, inside[0]), half(w->c, inside[1]));
}

static inline void *value_mapped(world *w) {
  pn_tensor **inside = room(w);
  pn_vmap_begin(w->c, 2, value_list(w), value_order(w), inside);
  return two(w, half(w->c, inside[0]), half(w->c, inside[1]));
}

/* f: t, y, p -> p y, or pulled back with v: p v, y v (its sum) */
static inline void *slope(world *w, bool pullback) {
  pn_context *c = w->c;
  pn_tensor *in[] = {value_scalar(w), value_vector(w), value_scalar(w), value_vector(w)}, *inside[4], *out[2];
  if (pn_capture_begin(c, pullback ? 4 : 3, in, inside)) return NULL;
  out[0] = pn_mul(c, inside[2], inside[pullback ? 3 : 1]);
  out[1] = pullback ? pn_sum(c, pn_mul(c, inside[1], inside[3]), PN_ALL, 0) : NULL;
  return keep(w, pn_capture_end(c, pullback ? 2 : 1, out), release_pn_plan);
}
VALUE(slope, slope(w, false));
VALUE(pullback, slope(w, true));

/* first, step and both without y of a filter whose state is one number for 3 particles */
static inline void *filter_plan(world *w, bool carried, bool seen) {
  pn_context *c = w->c;
  pn_tensor *in[3], *inside[3], *out[2];
  int k = 0;
  if (carried) in[k++] = FULL(0, 3);
  if (seen) in[k++] = FULL(0, 1);
  in[k++] = pn_scalar(c, PN_FLOAT64, 0);
  if (pn_capture_begin(c, k, in, inside)) return NULL;
  out[0] = pn_add(c, carried ? inside[0] : FULL(0, 3), inside[k - 1]);
  out[1] = pn_add(c, FULL(0, 4), inside[k - 1]);
  return keep(w, pn_capture_end(c, 2, out), release_pn_plan);
}
VALUE(first, filter_plan(w, false, true));
VALUE(step, filter_plan(w, true, true));
VALUE(first_missing, filter_plan(w, false, false));
VALUE(step_missing, filter_plan(w, true, false));

KEPT_VALUE(sampler, pn_sampler, pn_sampler_new(c, value_density(w), value_sampler_config(w), NULL, NULL));
KEPT_VALUE(target, pn_target, pn_target_new(c, value_density(w), value_vector_plan(w), 1, value_variable(w)));
KEPT_VALUE(population, pn_population, pn_population_new(c, value_vector_plan(w)));

/* A density of the host. */
static inline pn_status parabola(void *data, const double *z, double *log_density, double *gradient) {
  (void)data;
  *log_density = -z[0] * z[0] / 2;
  gradient[0] = -z[0];
  return PN_OK;
}

static inline void *value_runtime(world *w) {
  static const char text[] = "number = 2; array = {1, 2}; same = function(x) return x end";
  pn_runtime *rt = NULL;
  pn_runtime_new(value_runtime_config(w), &rt);
  pn_runtime_run_string(rt, text, sizeof text - 1, NULL);
  return keep(w, rt, release_pn_runtime);
}

/* One with a target and a filter. */
static inline void *value_full_runtime(world *w) {
  static const char text[] =
      "local pn = require 'penumbra'\n"
      "target = pn.model(function(m, y) m:observe('y', pn.dist.normal(m:sample('s', pn.dist.gamma(2, 1)), 1), y) end)\n"
      "  :target(pn.tensor(1))\n"
      "filter = pn.smc.filter{num_particles = 4, init = function(n) return pn.randn{n} end,\n"
      "  step = function(x) return x end, log_weight = function(x, y) return -(x - y[1]):square() end\n"
      "}:online{observation = 1}\n";
  pn_runtime *rt = NULL;
  pn_runtime_new(NULL, &rt);
  if (pn_runtime_run_string(rt, text, sizeof text - 1, NULL)) puts(pn_runtime_message(rt));
  return keep(w, rt, release_pn_runtime);
}

#endif
