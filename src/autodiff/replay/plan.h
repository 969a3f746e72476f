/*
** plan.h: what a plan is made of: groups of elementwise operations, steps, bound values; and how the files that make
** (plan.c, fuse.c, bind.c) and run it (run.c) call each other.
*/
#ifndef PN_AUTODIFF_REPLAY_PLAN_H
#define PN_AUTODIFF_REPLAY_PLAN_H

#include "replay.h"
#include "../../tensor/kernel/reduce.h"

/* The longest run of elements that a step does in place; longer ones are sharded by pni_loop_run. */
enum { PNI_RUN = 32768 };

enum { /* (the first four only compute; the first two look at nothing but addresses) */
       PNI_STEP_RUN,
       PNI_STEP_FOLD,
       PNI_STEP_LOOP,
       PNI_STEP_GROUP,
       PNI_STEP_PREPARED,
       PNI_STEP_EVAL,
       PNI_STEP_DRAW,
       PNI_STEP_EFFECT,
       PNI_STEP_ROLL
};

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
  int value;    /* whose memory it is */
  int64_t move; /* bytes from turn to turn of a roll */
} pni_operand;

/* How far all operands of an operation run on as one run. */
enum { PNI_EVEN_ROW, PNI_EVEN_JUMP, PNI_EVEN_ALL };

typedef struct pni_member {
  pni_map_kernel row;
  void *data;
  pni_fold fold;            /* instead of row: reduces each row of op[1] to an element of op[0] */
  double scale;             /* of the reduced, 0: none */
  const pni_pieces *pieces; /* with fold, where rows are longer than a tile, else NULL */
  char *part;               /* then: sums of the pieces of all rows */
  int nop;
  int even; /* PNI_EVEN_... */
  pni_operand op[PNI_OPERANDS];
} pni_member;

typedef struct pni_group {
  int64_t rows, cols;
  int64_t jump, tile; /* rows of a jump, elements of a tile */
  int64_t block;      /* rows per tile; 0: tiles are parts of a row */
  pni_member *member;
  int n;
} pni_group;

/* Runs a group, sharded over threads when big. */
pn_status pni_group_run(pn_context *c, const pni_group *g);

/* One thing to do in a replay. */
typedef struct pni_step {
  int kind;
  int note;
  int lean;     /* so many steps from here on compute, without a scope, and have few elements; 0: this one is none */
  int elements; /* of a lean step */
  union {
    struct { /* RUN: one inner loop */
      pni_map_kernel row;
      void *data;
      int64_t n, stride[PNI_OPERANDS];
      char *p[PNI_OPERANDS];
    } run;
    struct { /* FOLD: a reduction of rows */
      pni_fold fold;
      int64_t rows, n;
      double scale; /* of the reduced, 0: none */
      char *p[2];   /* result, rows */
      int dtype;
    } fold;
    struct { /* LOOP: a nest */
      pni_map_kernel row;
      void *data;
      pni_loop *nest;
    } loop;
    pni_group group;
    struct { /* PREPARED */
      pn_status (*run)(pn_context *c, const pni_prepared *p);
      pni_prepared *p;
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
    struct { /* ROLL: the n steps after this one, over and over */
      int64_t n, turns;
      int64_t first, nshift; /* what moves in between */
    } roll;
  } u;
} pni_step;

/* ---- plan.c and fuse.c: from tape to plan ---- */

typedef struct pni_schedule {
  uint8_t *needed; /* by note */
  int64_t *last;   /* by value: the last note that reads its memory; INT64_MAX: kept to the end; -1: nobody */
  int *group;      /* by note: the first note of its group, or -1 */
  int *until;      /* by first note: the last of the group */
  int *slot;       /* by value: its place in the tile, or -1 */
  int *maker; /* by value: the note that computes it, or -1; of an array, in fuse.c: the latest one that adds to it */
} pni_schedule;

/* The nest of an elementwise note and its kernel; false if it has none. */
bool pni_map_of(const pn_plan *p, const pni_note *note, pni_loop *nest, pni_map_kernel *row, void **data);
/* The kernel of a reduction whose rows, of *n elements, lie one after the other; NULL if the note is none. */
pni_fold pni_fold_of(const pn_plan *p, const pni_note *note, int64_t *n, double *scale);
/* n results of a reduction times `scale`, 0: as they are. */
void pni_scale_fold(int dtype, double scale, char *out, int64_t n);
/* Fills group and slot. The values have their geometry; addresses do not matter yet. */
void pni_fuse(const pn_plan *p, pni_schedule *s);
/* Gives the groups, which are complete, memory for sums of pieces. */
pn_status pni_group_parts(pn_context *c, pn_plan *p);
/* The step of the group that begins with note `first`; members are taken from *m, which moves on. */
pni_step pni_group_step(const pn_plan *p, const pni_schedule *s, int first, pni_member **m);

struct pn_plan {
  int32_t refs;
  pn_context *ctx;
  pni_tape *tape;
  pn_tensor *tensor;    /* the values, with the memory that the plan gives them; NULL before it does */
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
  struct pni_bound *bound; /* bind.h */
  int nbound, bound_cap;
  struct pni_patch *patch;
  int64_t npatch, patch_cap;
  struct pni_shift *shift; /* what moves in rolls (turn.h) */
  int64_t nshift, shift_cap;
  char *part; /* of one group at a time: sums of pieces */
  size_t part_bytes;
  char *arena;
  size_t arena_bytes;
  pni_watch watch; /* over all steps of a run */
  bool direct;     /* inputs and results are copied whole, none is bound */
  bool effects;    /* some step is one */
  bool changed;    /* the last run has had an effect */
};

/* A plan around a tape, which is the plan's from here on; `out` is there, or c has failed. NULL: the tape is still the
 * caller's. */
pn_plan *pni_plan_new(pn_context *c, pni_tape *tape, int nout);
/* Steps and memory of a plan whose tape and results are known. */
pn_status pni_plan_settle(pn_context *c, pn_plan *p);
/* A replay with plain arrays of float64 for the only input and the results, for callers that do it over and over:
 * nothing is allocated once the context's pool is warm. */
pn_status pni_plan_call(pn_context *c, pn_plan *p, const double *in, double *const *out);
/* The same with an array for each input. */
pn_status pni_plan_call_each(pn_context *c, pn_plan *p, const double *const *in, double *const *out);
/* A replay of contiguous tensors of any dtype into others; nothing is allocated. */
pn_status pni_plan_run_into(pn_context *c, pn_plan *p, pn_tensor *const *in, pn_tensor *const *out);
/* Do the input and the results fit pni_plan_call: one input of n float64, results of n_out[k] float64? */
bool pni_plan_is_plain(const pn_plan *p, int64_t n, int nout, const int64_t *n_out);

#endif
