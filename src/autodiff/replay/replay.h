/*
** replay.h: capture and replay. While a capture goes on, the recorder notes every operation whose result
** depends on the inputs, on parameters or on draws (record.c); what depends on constants alone is a
** constant. The tape becomes a plan: dead notes dropped, memory laid out once (plan.c). A replay walks the
** steps of the plan (run.c) with the same kernels as the eager call, so results are the same bits.
*/
#ifndef PN_AUTODIFF_REPLAY_REPLAY_H
#define PN_AUTODIFF_REPLAY_REPLAY_H

#include "../op.h"

/* Something with an effect that a plan repeats: the update of an optimiser. run gets the tensors that were
 * noted (NULL where none was) and must change nothing when it fails. */
typedef struct pni_effect {
  pn_status (*run)(pn_context *c, void *object, int n, pn_tensor *const *in);
  void (*retain)(void *object);
  void (*release)(void *object);
} pni_effect;

/* ---- record.c: called by the layers only while c->recorder is set ---- */

/* Fails if a plan cannot hold the call. */
pn_status pni_record_refuses(pn_context *c, const pni_call *call);
/* Notes that y is the result of the call. */
pn_status pni_record_apply(pn_context *c, const pni_call *call, pn_tensor *y);
/* Notes an effect that has just happened. in[k] may be NULL. */
pn_status pni_record_effect(pn_context *c, const pni_effect *effect, void *object, int n, pn_tensor *const *in);

/* Is t an input of the capture or computed in it, in a way that varies? */
bool pni_record_made(const pn_context *c, const pn_tensor *t);

/* ---- what a tape and a plan hold ---- */

enum { PNI_VALUE_INPUT, PNI_VALUE_OUTSIDE, PNI_VALUE_OWN, PNI_VALUE_VIEW };

/* A tensor: its geometry, and whose memory it uses. */
typedef struct pni_value {
  pn_tensor t;        /* a copy; the plan gives it a storage of its own */
  int kind;           /* PNI_VALUE_... */
  int base;           /* the value whose memory it uses: itself unless a view */
  pn_tensor *outside; /* of PNI_VALUE_OUTSIDE: constant or parameter, a reference is ours */
} pni_value;

/* What happened, in order. */
typedef struct pni_note {
  const pni_op *op;         /* NULL: a draw or an effect */
  const pni_effect *effect; /* NULL: a draw or an operation */
  void *object;             /* of the effect, a reference is ours */
  int64_t attr;             /* first of the attribute's words, -1: none */
  int64_t first;            /* of its inputs in `edge` */
  int nin, out;             /* out -1: an effect */
  pn_rng *rng;              /* what it draws from, a reference is ours, or NULL */
  uint64_t positions;
  pni_draw draw;
} pni_note;

/* A list that grows. */
#define PNI_LIST(T)                                                                                                    \
  struct {                                                                                                             \
    T *v;                                                                                                              \
    int64_t n, cap;                                                                                                    \
  }

typedef struct pni_tape {
  pni_recorder recorder; /* first */
  PNI_LIST(pni_value) value;
  PNI_LIST(pni_note) note;
  PNI_LIST(int) edge;     /* inputs of the notes: values, -1 for none */
  PNI_LIST(int64_t) word; /* attributes */
  int ninput;             /* the first values are the inputs */
  uint64_t reservations;  /* of generators before the capture, and those that were recorded since */
} pni_tape;

/* The value that t is on the tape, made if it is new; -1 with the reason in c. */
int pni_tape_value(pn_context *c, pni_tape *tape, pn_tensor *t);
/* Fails if random numbers were drawn that nobody noted: they would be drawn at the capture and never again. */
pn_status pni_tape_check_draws(pn_context *c, const pni_tape *tape, const char *where);
void pni_tape_free(pn_context *c, pni_tape *tape);

/* ---- plans ---- */

/* The longest run of elements that a step does in place; longer ones are sharded by pni_loop_run. */
enum { PNI_RUN = 65536 };

enum { PNI_STEP_RUN, PNI_STEP_LOOP, PNI_STEP_GROUP, PNI_STEP_PREPARED, PNI_STEP_EVAL, PNI_STEP_DRAW, PNI_STEP_EFFECT };

/* A group of elementwise operations over one space of rows x columns runs tile by tile: what a tile hands on
 * within the group lies in one of PNI_TILE_SLOTS places on the stack and never leaves the nearest cache. */
enum { PNI_TILE_BYTES = 4096, PNI_TILE_SLOTS = 12 };

/* Operands run evenly along a row, from row to row, and from one `jump` of rows to the next. */
typedef struct pni_operand {
  char *base;
  int64_t jump; /* bytes from jump to jump */
  int64_t row;  /* bytes from row to row */
  int64_t item; /* elements from column to column */
  int64_t size; /* bytes per element */
  int slot;     /* of the tile, or -1: in memory */
} pni_operand;

/* How far all operands of an operation run on as one run. */
enum { PNI_EVEN_ROW, PNI_EVEN_JUMP, PNI_EVEN_ALL };

typedef struct pni_member {
  pni_row row;
  void *data;
  pni_fold fold; /* instead of row: reduces each row of op[1] to an element of op[0] */
  double scale;  /* of the reduced, 0: none */
  int nop;
  int even; /* PNI_EVEN_... */
  pni_operand op[4];
} pni_member;

typedef struct pni_group {
  int64_t rows, cols;
  int64_t jump, tile; /* rows of a jump, elements of a tile */
  int64_t block;      /* rows per tile; 0: tiles are parts of a row */
  const pni_member *member;
  int n;
} pni_group;

/* Runs a group, sharded over threads when big. */
pn_status pni_group_run(pn_context *c, const pni_group *g);

/* One thing to do in a replay. */
typedef struct pni_step {
  int kind;
  int note;
  union {
    struct { /* RUN: one inner loop */
      pni_row row;
      void *data;
      int64_t n, stride[4];
      char *p[4];
    } run;
    struct { /* LOOP: a nest */
      pni_row row;
      void *data;
      pni_loop *nest;
    } loop;
    pni_group group;
    struct { /* PREPARED */
      pn_status (*run)(pn_context *c, const pni_prepared *p);
      const pni_prepared *p;
    } prepared;
    struct { /* EVAL: whatever the operation does */
      pni_call call;
      pn_tensor *out;
      pni_attr *drawn; /* key and position go there, or NULL */
    } eval;
    struct { /* EFFECT */
      pn_tensor *const *in;
    } effect;
    struct { /* DRAW */
      pn_tensor *out;
    } draw;
  } u;
} pni_step;

/* ---- plan.c and fuse.c: from tape to plan ---- */

typedef struct pni_schedule {
  uint8_t *needed; /* by note */
  int64_t *last;   /* by value: the last note that reads its memory; INT64_MAX: kept to the end; -1: nobody */
  int *group;      /* by note: the first note of its group, or -1 */
  int *until;      /* by first note: the last of the group */
  int *slot;       /* by value: its place in the tile, or -1 */
  int *maker;      /* by value: the note that computes it, or -1 */
} pni_schedule;

/* The nest of an elementwise note and its kernel; false if it has none. */
bool pni_map_of(const pn_plan *p, const pni_note *note, pni_loop *nest, pni_row *row, void **data);
/* The kernel of a reduction whose rows, of *n elements, lie one after the other; NULL if the note is none. */
pni_fold pni_fold_of(const pn_plan *p, const pni_note *note, int64_t *n, double *scale);
/* Fills group and slot. The values have their geometry; addresses do not matter yet. */
void pni_fuse(const pn_plan *p, pni_schedule *s);
/* The step of the group that begins with note `first`; members are taken from *m, which moves on. */
pni_step pni_group_step(const pn_plan *p, const pni_schedule *s, int first, pni_member **m);

struct pn_plan {
  int32_t refs;
  pn_context *ctx;
  pni_tape *tape;
  pni_storage *storage; /* one per value, for those with memory of their own */
  pn_tensor **arg;      /* one per edge */
  pni_step *step;
  int64_t nstep, step_cap;
  pni_loop *nest;
  pni_member *member;
  int64_t map_cap; /* of both */
  pni_prepared *prepared;
  int64_t prepared_cap;
  int *out;
  int nout;
  char *arena;
  size_t arena_bytes;
  bool changed; /* the last run has had an effect */
};

#endif
