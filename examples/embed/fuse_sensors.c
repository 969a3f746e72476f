/*
** fuse_sensors.c: a host with three sensors of one vector of 8 numbers: beliefs in, one belief and conflicts out, no
** allocation at a step. A sensor that goes silent or mad is named. The threshold of conflict is set on healthy steps,
** to one false alarm in a hundred.
**
**   cc fuse_sensors.c $(pkg-config --cflags --libs penumbra) -lm -o fuse_sensors
**   ./fuse_sensors - [--threshold 2] < beliefs   a line: a mean and a scale for each sensor (or "- -": silent); of one
**                                                number with the prior N(0, 1)
**   ./fuse_sensors [--quick]                     sensors of its own, and checks
*/
#include <math.h>
#include <penumbra.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENSORS = 3, SIZE = 8, HEALTHY = 4000, STEPS = 600 };
static const char *const name[SENSORS] = {"radar", "camera", "sonar"};
static const double noise[SENSORS] = {0.3, 0.4, 0.5}; /* standard deviations */

static long requests; /* to the allocator */

static void *counted(void *data, void *block, size_t old_size, size_t new_size) {
  (void)data, (void)old_size;
  if (!new_size) {
    free(block);
    return NULL;
  }
  requests++;
  return realloc(block, new_size);
}

/* A normal draw: the world outside, not the library. */
static double normal(unsigned long long *state) {
  double u[2];
  for (int i = 0; i < 2; i++) {
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    u[i] = ((double)(*state >> 11) + 0.5) / 9007199254740992.0;
  }
  return sqrt(-2 * log(u[0])) * cos(6.283185307179586 * u[1]);
}

typedef struct {
  double mean[SENSORS][SIZE], scale[SENSORS][SIZE], truth[SIZE];
  unsigned char present[SENSORS];
} step;

/* What each sensor believes of z ~ N(0, 1) given x = z + noise; `mad` sees something else. */
static void sense(unsigned long long *state, int mad, int silent, step *s) {
  for (int i = 0; i < SIZE; i++) s->truth[i] = normal(state);
  for (int m = 0; m < SENSORS; m++) {
    double v = noise[m] * noise[m], precision = 1 + 1 / v;
    s->present[m] = m != silent;
    for (int i = 0; i < SIZE; i++) {
      double x = (m == mad ? 1.5 * normal(state) : s->truth[i]) + noise[m] * normal(state);
      s->mean[m][i] = m == silent ? NAN : x / (v * precision);
      s->scale[m][i] = m == silent ? NAN : 1 / sqrt(precision);
    }
  }
}

typedef struct {
  double mean[SIZE], scale[SIZE], conflicts[SENSORS * SENSORS];
  unsigned char kept[SENSORS];
} belief;

static int fuse(pn_context *c, const step *s, int size, double threshold, belief *out, pn_fused *f) {
  pn_beliefs b = {.sources = SENSORS,
                  .size = size,
                  .mean = s->mean[0],
                  .scale = s->scale[0],
                  .present = s->present,
                  .threshold = threshold};
  *f = (pn_fused){.mean = out->mean, .scale = out->scale, .conflicts = out->conflicts, .kept = out->kept};
  if (pn_beliefs_fuse(c, &b, f) == PN_OK) return 1;
  fprintf(stderr, "%s\n", pn_context_message(c));
  return 0;
}

/* The largest conflict in both directions of two sensors. */
static double mutual(const belief *b) {
  double most = 0;
  for (int m = 0; m < SENSORS; m++)
    for (int n = 0; n < m; n++) {
      double both = fmin(b->conflicts[m * SENSORS + n], b->conflicts[n * SENSORS + m]);
      if (both > most) most = both;
    }
  return most;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The threshold above which one healthy step in a hundred lies. */
static double threshold_of(pn_context *c, unsigned long long *state) {
  static double most[HEALTHY];
  step s;
  belief b;
  pn_fused f;
  for (int k = 0; k < HEALTHY; k++) {
    sense(state, -1, -1, &s);
    if (!fuse(c, &s, SIZE, 0, &b, &f)) return -1;
    most[k] = mutual(&b);
  }
  qsort(most, HEALTHY, sizeof *most, ascending);
  return most[HEALTHY - HEALTHY / 100];
}

/* Says what has changed since the step before. */
static void tell(int t, const step *s, const belief *b, const pn_fused *f, unsigned char *before) {
  for (int m = 0; m < SENSORS; m++) {
    unsigned char now = !s->present[m] ? 2 : f->undecided ? 3 : !b->kept[m];
    static const char *const what[] = {"is believed again", "contradicts the others, left out", "is silent",
                                       "is in a conflict that cannot be decided"};
    if (now != before[m]) printf("step %d: %s %s\n", t, name[m], what[now]);
    before[m] = now;
  }
}

/* 600 steps: sonar is silent in 200 of them, camera mad in another 200. */
static int demonstrate(pn_context *c) {
  unsigned long long state = 7;
  double threshold = threshold_of(c, &state), error = 0;
  unsigned char before[SENSORS] = {0};
  int named = 0, wrong = 0, good = threshold > 0;
  long at_start = requests;
  for (int t = 0; t < STEPS && good; t++) {
    int silent = t >= 100 && t < 300 ? 2 : -1, mad = t >= 400 ? 1 : -1;
    step s;
    belief b;
    pn_fused f;
    sense(&state, mad, silent, &s);
    good = fuse(c, &s, SIZE, threshold, &b, &f);
    if (t % 100 < 3 || t >= STEPS - 3) tell(t, &s, &b, &f, before);
    good = good && (silent < 0 || !b.kept[silent]);
    for (int m = 0; m < SENSORS && good; m++) {
      int out = s.present[m] && !b.kept[m];
      if (m == mad)
        named += out;
      else
        wrong += out;
    }
    for (int i = 0; i < SIZE && mad < 0; i++) error += pow((b.mean[i] - s.truth[i]) / b.scale[i], 2) / SIZE / 400;
  }
  printf("threshold %.3f; the mad sensor was named in %d of 200 steps, a healthy one in %d of 1600\n", threshold, named,
         wrong);
  printf("squared error of the fused mean in units of its variance: %.3f; allocations in %d steps: %ld\n", error, STEPS,
         requests - at_start);
  good = good && named >= 180 && wrong <= 32 && fabs(error - 1) < 0.1 && requests == at_start;
  printf("%s\n", good ? "all as expected" : "the sensors are not told apart");
  return good;
}

/* Two words of a line as numbers; 0 where they are no numbers. */
static int number_pair(char **line, double *mean, double *scale) {
  char a[64], b[64];
  int used = 0;
  if (sscanf(*line, "%63s %63s%n", a, b, &used) != 2) return -1;
  *line += used;
  char *end_a, *end_b;
  *mean = strtod(a, &end_a), *scale = strtod(b, &end_b);
  return *end_a == 0 && *end_b == 0;
}

static int answer(pn_context *c, char *line, double threshold) {
  step s = {0};
  belief b;
  pn_fused f;
  double *mean = s.mean[0], *scale = s.scale[0]; /* of one number each, side by side */
  for (int m = 0; m < SENSORS; m++) {
    int read = number_pair(&line, mean + m, scale + m);
    if (read < 0) {
      fprintf(stderr, "a line must have a mean and a scale for each of %d sensors\n", (int)SENSORS);
      return 0;
    }
    s.present[m] = (unsigned char)read;
  }
  if (!fuse(c, &s, 1, threshold, &b, &f)) return 0;
  printf("%.6g %.6g", b.mean[0], b.scale[0]);
  for (int m = 0; m < SENSORS; m++)
    if (!b.kept[m]) printf(" %s:%s", name[m], s.present[m] ? "left-out" : "silent");
  printf("%s\n", f.undecided ? " undecided" : "");
  return 1;
}

int main(int argc, char **argv) {
  int stream = 0;
  double threshold = 2;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "-") == 0)
      stream = 1;
    else if (strcmp(argv[i], "--quick") == 0)
      stream = 0;
    else if (strcmp(argv[i], "--threshold") == 0 && i + 1 < argc)
      threshold = atof(argv[++i]);
    else {
      fprintf(stderr, "usage: fuse_sensors [-] [--quick] [--threshold number] < beliefs\n");
      return 2;
    }
  }
  pn_context *c = pn_context_new(&(pn_context_config){.allocate = counted, .threads = 1});
  int good = c != NULL;
  char line[512];
  if (good && !stream) good = demonstrate(c);
  while (good && stream && fgets(line, sizeof line, stdin)) good = answer(c, line, threshold);
  pn_context_close(c);
  return !good;
}
