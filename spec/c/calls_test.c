/*
** calls_test.c: every public function answers, whatever it is given. Each is called with valid arguments, then with
** NULL for each pointer in turn, then with absurd numbers for each number, of its own and of the structs that it reads.
** None of these calls may end the process, hang, or leave an object behind; where the header says that a pointer may be
** NULL the call succeeds, elsewhere it fails as its convention says: builders give NULL, actions a status, both with
** the failure pending, and questions 0. What is called stands in calls.def, which spec/calls.lua makes from penumbra.h.
*/
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include "call_values.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

typedef union value {
  void *p;
  int64_t i;
  double d;
  pn_density f;
} value;

/* Kinds: p pointer, i int, l int64_t, u unsigned and as wide as a pointer, b char, d double, a pn_axes, f function. */
typedef struct field {
  char kind;
  int counts; /* says how long a list of the caller's is */
  const char *name;
  size_t offset, size;
} field;

typedef struct parameter {
  char kind;
  int may; /* be NULL */
  int counts;
  const char *name;
  void *(*value)(world *w);
  double number;
  const field *fields; /* of the struct that it points to */
  int nfields;
  size_t size;        /* of what it points to, where there are fields */
  release release_of; /* what it comes to point to, where that is new */
} parameter;

/* Answers: o a builder's, s an action's with a context, t without, q a question's. */
typedef struct function {
  const char *name;
  void (*call)(const value *v, value *r);
  char answer, result;
  int consumes; /* its argument */
  release release_of;
  const parameter *parameters;
  int n;
} function;

#include "calls.def"

/* ---- what is tried ---- */

static const int64_t ints[] = {0, -1, 1, 9, INT32_MAX, INT32_MIN},
                     longs[] = {0, -1, 1, 9, INT32_MAX, INT64_C(1) << 32, INT64_C(1) << 40, INT64_MAX, INT64_MIN},
                     sizes[] = {0, 1, INT64_C(1) << 40, INT64_MAX, -1}, chars[] = {0, 1, '"', 127, -1, -128},
                     counts[] = {0, -1, 1, INT32_MIN};
static const double reals[] = {0,     -1,     NAN,    INFINITY,     -INFINITY,
                               1e300, -1e300, 1e-320, 2147483648.0, 9223372036854775808.0};

static int variants(char kind, bool counted) {
  switch (kind) {
  case 'p': return 1;
  case 'i': return counted ? COUNT(counts) : COUNT(ints);
  case 'l': return counted ? COUNT(counts) : COUNT(longs);
  case 'u': return counted ? 2 : COUNT(sizes);
  case 'b': return COUNT(chars);
  case 'd': return COUNT(reals);
  default: return 0;
  }
}

static value variant(char kind, bool counted, int k) {
  switch (kind) {
  case 'i': return (value){.i = counted ? counts[k] : ints[k]};
  case 'l': return (value){.i = counted ? counts[k] : longs[k]};
  case 'u': return (value){.i = sizes[k]};
  case 'b': return (value){.i = chars[k]};
  case 'd': return (value){.d = reals[k]};
  default: return (value){.p = NULL};
  }
}

/* One call: which parameter (-1: none), which of its fields (-1: itself), and which variant of it. */
typedef struct trial {
  const function *f;
  int at, field, variant;
} trial;

static const char *describe(const trial *t, char text[256]) {
  if (t->at < 0) {
    snprintf(text, 256, "%s", t->f->name);
    return text;
  }
  const parameter *p = &t->f->parameters[t->at];
  const field *f = t->field < 0 ? NULL : &p->fields[t->field];
  char kind = f ? f->kind : p->kind;
  value v = variant(kind, f ? f->counts : p->counts, t->variant);
  int n = snprintf(text, 256, "%s, %s%s%s = ", t->f->name, p->name, f ? "." : "", f ? f->name : "");
  if (kind == 'p')
    snprintf(text + n, (size_t)(256 - n), "NULL");
  else if (kind == 'd')
    snprintf(text + n, (size_t)(256 - n), "%g", v.d);
  else
    snprintf(text + n, (size_t)(256 - n), "%lld", (long long)v.i);
  return text;
}

/* ---- one call ---- */

/* A call that takes longer is cancelled, and has then to come back: in ticks of processor time. */
enum { TICK = 50000, CANCEL = 4, GIVE_UP = 24 };
static pn_context *volatile running;
static volatile sig_atomic_t ticks;

static void tick(int signal) {
  (void)signal;
  ticks++;
  if (ticks == CANCEL && running) pn_context_cancel(running);
  if (ticks == GIVE_UP) _exit(3);
}

static void store(char *to, const field *f, value v) {
  if (f->kind == 'p')
    memset(to, 0, sizeof(void *));
  else if (f->kind == 'd')
    memcpy(to, &v.d, sizeof v.d);
  else
    memcpy(to, &v.i, f->size); /* little-endian */
}

static void arguments(world *w, const trial *t, value *v, char *changed) {
  for (int k = 0; k < t->f->n; k++) {
    const parameter *p = &t->f->parameters[k];
    v[k] = (value){.p = NULL};
    if (p->value)
      v[k].p = p->value(w);
    else if (p->kind == 'd')
      v[k].d = p->number;
    else if (p->kind == 'f')
      v[k].f = parabola;
    else
      v[k].i = (int64_t)p->number;
    if (k != t->at) continue;
    if (t->field < 0) {
      v[k] = p->kind == 'f' ? (value){.f = NULL} : variant(p->kind, p->counts, t->variant);
      continue;
    }
    const field *f = &p->fields[t->field];
    memcpy(changed, v[k].p, p->size);
    store(changed + f->offset, f, variant(f->kind, f->counts, t->variant));
    v[k].p = changed;
  }
}

static bool say(const trial *t, const pn_context *c, const char *what) {
  char text[256];
  printf("%s: %s%s%s\n", describe(t, text), what, c && *pn_context_message(c) ? ": " : "",
         c ? pn_context_message(c) : "");
  return false;
}

/* Is the answer what was promised? */
static bool judge(const trial *t, const pn_context *c, const value *r) {
  const function *f = t->f;
  pn_status s = c ? pn_context_status(c) : PN_OK;
  bool pointer = t->at >= 0 && t->field < 0 && f->parameters[t->at].kind == 'p';
  bool needed = pointer && !f->parameters[t->at].may, valid = t->at < 0 || (pointer && !needed);
  bool failed = f->answer == 'o' ? !r->p : r->i != PN_OK;
  if (f->answer == 'q') {
    if (needed && t->at == 0 &&
        (f->result == 'p'   ? r->p != NULL
         : f->result == 'd' ? r->d != 0
                            : f->result == 'i' && r->i))
      return say(t, NULL, "an answer that is not 0");
    return true;
  }
  if (f->answer != 't' && failed != (s != PN_OK))
    return say(t, c, failed ? "no result and no failure" : "a result and a failure");
  if (f->answer == 's' && r->i != (int64_t)s) return say(t, c, "another status than the pending one");
  if (failed && valid) return say(t, c, "must succeed");
  if (needed && !failed) return say(t, c, "must fail (or the header say that it may be NULL)");
  pn_status want = f->answer == 't' ? PN_DOMAIN : PN_STATE; /* a runtime's arguments are PN_DOMAIN, it alone PN_STATE */
  if (needed && (f->answer == 't' ? t->at > 0 && r->i != PN_DOMAIN : s != want)) return say(t, c, "another status");
  return true;
}

static void tidy(world *w, const trial *t, const value *v, const value *r) {
  const function *f = t->f;
  for (int k = 0; k < f->n; k++) {
    void **place = v[k].p;
    if (f->parameters[k].release_of && place) f->parameters[k].release_of(*place);
  }
  if (f->release_of && r->p) f->release_of(r->p);
  if (f->consumes && v[0].p) {
    if (v[0].p == w->c) w->c = NULL;
    for (int k = 0; k < w->kept; k++)
      if (w->object[k] == v[0].p) w->object[k] = NULL;
  }
  for (int k = w->kept - 1; k >= 0; k--)
    if (w->object[k]) w->of[k](w->object[k]);
}

static bool run(const trial *t) {
  static world w;
  static union {
    char bytes[1024];
    double aligned;
  } changed;
  value v[16], r = {.p = NULL};
  memset(&w, 0, sizeof w);
  for (int k = 0; k < SLOTS; k++) w.numbers[k] = 0.5;
  w.c = pn_context_new(&(pn_context_config){.threads = 1, .memory_limit = (size_t)256 << 20});
  size_t mark = pn_scope_open(w.c);
  arguments(&w, t, v, changed.bytes);
  if (pn_context_status(w.c)) return say(t, w.c, "arguments");
  ticks = 0;
  running = w.c;
  t->f->call(v, &r);
  running = NULL;
  bool closed = t->f->consumes && v[0].p == w.c;
  bool good = judge(t, closed ? NULL : w.c, &r);
  if (!closed && pn_capturing(w.c)) pn_capture_cancel(w.c);
  tidy(&w, t, v, &r);
  if (!w.c) return good;
  pn_scope_close(w.c, mark);
  if (pn_context_objects(w.c) && strcmp(t->f->name, "pn_scope_close")) good = say(t, NULL, "objects are left");
  pn_context_close(w.c);
  return good;
}

/* ---- all calls, in a child, and in another one behind the call that ended it ---- */

typedef struct progress {
  long at, passed, failed;
} progress;

static void next(progress *p, long start, long *number, trial t) {
  long n = (*number)++;
  if (n < start) return;
  p->at = n;
  if (run(&t))
    p->passed++;
  else
    p->failed++;
}

/* The trials from number `start` on; or, with `find`, only the description of that one. */
static bool all(progress *p, long start, trial *find) {
  long number = 0;
  for (int i = 0; i < COUNT(functions); i++) {
    const function *f = &functions[i];
    for (int k = -1; k < f->n; k++) {
      const parameter *q = k < 0 ? NULL : &f->parameters[k];
      for (int j = -1; j < (q ? q->nfields : 0); j++) {
        int many = !q ? 1 : j < 0 ? variants(q->kind, q->counts) : variants(q->fields[j].kind, q->fields[j].counts);
        if (q && k == 0 && strcmp(q->name, "c") == 0) many = 0;
        for (int x = 0; x < many; x++) {
          trial t = {f, k, j, x};
          if (find && number++ == start) {
            *find = t;
            return true;
          }
          if (!find) next(p, start, &number, t);
        }
      }
    }
  }
  return false;
}

static void child(progress *p, long start) {
  struct itimerval often = {{0, TICK}, {0, TICK}};
  struct sigaction act = {.sa_handler = tick, .sa_flags = SA_RESTART};
  sigaction(SIGVTALRM, &act, NULL);
  setitimer(ITIMER_VIRTUAL, &often, NULL);
  all(p, start, NULL);
  fflush(stdout);
  _exit(0);
}

static void files(void) {
  pn_context *c = pn_context_new(NULL);
  world w = {.c = c};
  pn_archive *a = pn_archive_new(c);
  CHECK(pn_archive_add(c, a, "array", value_x(&w)) == PN_OK && pn_archive_set_text(c, a, "key", "text") == PN_OK);
  CHECK(pn_save_csv(c, value_csv(&w), value_x(&w), ',', NULL) == PN_OK);
  CHECK(pn_save_npy(c, value_npy(&w), value_x(&w)) == PN_OK && pn_save_npz(c, value_npz(&w), a, 0) == PN_OK);
  CHECK(pn_save_idx(c, value_idx(&w), value_x(&w)) == PN_OK &&
        pn_save_safetensors(c, value_safetensors(&w), a) == PN_OK);
  CHECK(pn_filter_save(c, value_kalman(&w), value_filter_file(&w)) == PN_OK);
  write_bytes(value_script_file(&w), "x = 1", 5);
  write_bytes(value_raw(&w), "abcdef", 6);
  write_bytes(value_picture(&w), "P5 1 1 1\n\1", 10);
  pn_archive_free(a);
  release_pn_filter(w.object[0]);
  pn_context_close(c);
}

int main(void) {
  progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  static const char *const made[] = {"a.csv",      "a.npy", "a.npz",         "a.idx",
                                     "a.raw",      "a.pgm", "a.safetensors", "filter.safetensors",
                                     "script.lua", "saved", "store/array",   "store/.zgroup"};
  setvbuf(stdout, NULL, _IOLBF, 0);
  make_folder();
  files();
  for (long start = 0;; start = p->at + 1) {
    int status = 0;
    fflush(stdout);
    pid_t id = fork();
    if (id == 0) child(p, start);
    if (id < 0 || waitpid(id, &status, 0) != id || status == 0) break;
    trial t;
    char text[256];
    all(p, p->at, &t);
    p->failed++;
    printf("%s: %s %d\n", describe(&t, text), WIFSIGNALED(status) ? "ended by signal" : "does not come back, code",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  }
  check_passed += p->passed;
  check_failed += p->failed;
  for (size_t k = 0; k < sizeof made / sizeof *made; k++) unlink(in_folder(made[k]));
  CHECK(rmdir(in_folder("store")) == 0);
  remove_folder();
  CHECK_DONE();
}
