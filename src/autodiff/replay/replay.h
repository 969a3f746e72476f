/*
** replay.h: capture and replay. While a capture goes on, the recorder notes every operation whose result
** depends on the inputs, on parameters or on draws (record.c); what depends on constants alone is a
** constant. The tape becomes a plan: dead notes dropped, memory laid out once (plan.c). A replay walks the
** steps of the plan (run.c) with the same kernels as the eager call, so results are the same bits.
*/
#ifndef PN_AUTODIFF_REPLAY_REPLAY_H
#define PN_AUTODIFF_REPLAY_REPLAY_H

#include "../op/op.h"

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

/* Does a capture go on that records what is done as it is, rather than one example of a batch? */
bool pni_record_is_plain(const pn_context *c);
/* t is to be needed no more by what has used it: checks of t alone (PNI_OP_CHECK) are made for that sake no longer,
 * each of the n tensors is checked in its place. */
pn_status pni_record_check_instead(pn_context *c, const pn_tensor *t, int n, pn_tensor *const *instead);

/* Is t an input of the capture or computed in it, in a way that varies? */
bool pni_record_made(const pn_context *c, const pn_tensor *t);

/* ---- what a tape and a plan hold ---- */

/* Of rolls (roll.c): what all turns of a note compute, one after another, is an ARRAY, and the result of one turn PART
 * of it. */
enum { PNI_VALUE_INPUT, PNI_VALUE_OUTSIDE, PNI_VALUE_OWN, PNI_VALUE_VIEW, PNI_VALUE_ARRAY, PNI_VALUE_PART };

/* What tensors of one shape have in common; on a tape it stands once (interned.c). */
typedef struct pni_geometry {
  int dtype, ndim;
  int64_t numel;
  int64_t shape[PN_MAX_DIMS], stride[PN_MAX_DIMS]; /* 0 beyond ndim */
} pni_geometry;

/* A tensor: its geometry, and whose memory it uses. A long capture has millions of them: they are kept small. */
typedef struct pni_value {
  pn_tensor *outside; /* of PNI_VALUE_OUTSIDE: constant or parameter, a reference is ours */
  int64_t offset;     /* of the first element, in elements of the base's memory */
  int64_t move;       /* elements by which it is further on at the next turn of the roll that uses it */
  int geometry;       /* its number */
  int base;           /* the value whose memory it uses: itself unless a view or part */
  int kind;           /* PNI_VALUE_... */
  int bound;          /* its number among the plan's bound values, or PNI_PLACED or PNI_UNREAD */
} pni_value;

/* Of a value that is not bound: it has a place in the arena, or (an input) no step reads it. */
enum { PNI_PLACED = -1, PNI_UNREAD = -2 };

/* What few notes have: an effect or a draw. */
typedef struct pni_event {
  const pni_effect *effect; /* NULL: a draw */
  void *object;             /* of the effect, a reference is ours */
  pn_rng *rng;              /* what it draws from, a reference is ours, or NULL */
  uint64_t positions;
  pni_draw draw;
} pni_event;

/* What happened, in order. */
typedef struct pni_note {
  const pni_op *op; /* NULL: a draw or an effect */
  int64_t attr;     /* first of the attribute's words, -1: none; notes may share them */
  int64_t first;    /* of its inputs in `edge` */
  int nin, out;     /* out -1: an effect */
  int event;        /* its number, -1: none */
  bool cut;         /* of a capture within others: it was made without a graph */
  bool spare;       /* a check that is made only if its input is needed anyway */
} pni_note;

/* Notes that are done `turns` times, one after another. */
typedef struct pni_roll {
  int first, n;
  int64_t turns;
} pni_roll;

/* A list that grows. */
#define PNI_LIST(T)                                                                                                    \
  struct {                                                                                                             \
    T *v;                                                                                                              \
    int64_t n, cap;                                                                                                    \
  }

/* Numbers found by what they stand for: an open table. */
typedef struct pni_place {
  uint32_t hash;
  int at; /* the number and 1; 0: free */
} pni_place;

typedef struct pni_table {
  pni_place *v;
  int64_t n, room;
} pni_table;

/* What a capture of one example stands for (vmap/vmap.c): the batch that it will be done for. One block of memory. */
typedef struct pni_examples {
  int64_t n;         /* examples */
  pn_tensor **whole; /* of each input, a reference is ours: [n, shape of one...] where mapped */
  bool *mapped;
} pni_examples;

typedef struct pni_tape {
  pni_recorder recorder; /* first */
  PNI_LIST(pni_value) value;
  PNI_LIST(pni_note) note;
  PNI_LIST(int) edge;      /* inputs of the notes: values, -1 for none */
  PNI_LIST(uint8_t) cut;   /* of captures within others, one per edge: the input was given without its graph */
  PNI_LIST(uint64_t) slot; /* with examples, one per value: the slot of its tensor in the capture around this one */
  PNI_LIST(pni_event) event;
  PNI_LIST(int64_t) word; /* attributes */
  PNI_LIST(pni_geometry) geometry;
  pni_table number_table, word_table, geometry_table; /* where constant numbers, attributes and geometries are */
  PNI_LIST(pni_roll) roll;                            /* in order; none while the capture goes on */
  int ninput;                                         /* the first values are the inputs */
  uint64_t reservations;  /* of generators before the capture, and those that were recorded since */
  pni_recorder *outer;    /* the capture within which this one was begun, or NULL */
  uint32_t outer_capture; /* its number */
  const char *inner;      /* begun by pni_capture_enter: where a tensor must not come from, in words; else NULL */
  pni_examples *examples; /* of pni_capture_examples, else NULL */
} pni_tape;

/* A capture that may stand within another, for a function that becomes a part of an operation: in[k] may depend on
 * parameters, its stand-in does not; those of first .. last - 1 are differentiable, as parameters are. Tensors from
 * outside that depend on parameters or vary in the outer capture are refused: the plan would not follow them. `what` is
 * the message, for as long as the capture goes on. Ends as any capture does. */
pn_status pni_capture_enter(pn_context *c, const char *what, int n, pn_tensor *const *in, int first, int last,
                            pn_tensor **inside);
/* A capture that may stand within another, for a computation that is done again at once with other inputs: it may use
 * whatever the code around it could. The tape owns e from here on, also on failure. Ends by pni_capture_leave. */
pn_status pni_capture_examples(pn_context *c, pni_examples *e, int n, pn_tensor *const *in, pn_tensor **inside);
/* pn_capture_end in two: the capture is over and the plan knows what it computes; then it gets what it needs to run. In
 * between the caller may let go of the results and of what they were computed from, so that their memory and the plan's
 * are not needed at the same time. NULL, or a failure after which the plan can only be given up, with the reason in
 * c. */
pn_plan *pni_capture_close(pn_context *c, int n, pn_tensor *const *out);
pn_status pni_plan_finish(pn_context *c, pn_plan *p);
/* The recorder is again the one before the capture of this tape. */
void pni_capture_leave(pn_context *c, const pni_tape *tape);

/* The value that t is on the tape, made if it is new; -1 with the reason in c. */
int pni_tape_value(pn_context *c, pni_tape *tape, pn_tensor *t);
static inline const pni_geometry *pni_geometry_of(const pni_tape *tape, int64_t value) {
  return &tape->geometry.v[tape->value.v[value].geometry];
}
static inline pni_attr *pni_attr_of(const pni_tape *tape, const pni_note *note) {
  return note->attr < 0 ? NULL : (pni_attr *)(void *)(tape->word.v + note->attr);
}
/* Of a note without an event: one that is nothing. */
const pni_event *pni_event_of(const pni_tape *tape, const pni_note *note);
static inline const pn_rng *pni_rng_of(const pni_tape *tape, const pni_note *note) {
  return pni_event_of(tape, note)->rng;
}

/* ---- interned.c ---- */

/* The number of a geometry, and the first word of an attribute, added if they are new; -1 with the reason in c. */
int pni_tape_geometry(pn_context *c, pni_tape *tape, const pni_geometry *g);
int64_t pni_tape_attr(pn_context *c, pni_tape *tape, const pni_attr *a);
/* The value that is a constant of t's geometry and its one number, or -1; and that value `at` is one to be found. */
int pni_tape_known(const pni_tape *tape, const pn_tensor *t);
pn_status pni_tape_learn(pn_context *c, pni_tape *tape, int at);
pni_geometry pni_geometry_from(const pn_tensor *t);
void pni_table_free(pn_context *c, pni_table *t);

/* Makes room for `more` items in a list, which may have as many as an int counts. */
pn_status pni_list_reserve(pn_context *c, void **v, int64_t n, int64_t *cap, int64_t more, size_t size);
#define PNI_RESERVE(c, l, more) pni_list_reserve(c, (void **)&(l).v, (l).n, &(l).cap, more, sizeof *(l).v)
/* Fails if random numbers were drawn that nobody noted: they would be drawn at the capture and never again. */
pn_status pni_tape_check_draws(pn_context *c, const pni_tape *tape, const char *where);
/* Fails if what the capture did may not be done again as it was: a failure was caught, or numbers were drawn. */
pn_status pni_tape_check_whole(pn_context *c, const pni_tape *tape);
/* The tape for another context, what it finds outside copied (copy.c); NULL with the reason in c. */
pni_tape *pni_tape_copy(pn_context *c, const pni_tape *old);
/* Frees the tape itself; of one that was captured or copied, pni_object_died follows. */
void pni_tape_free(pn_context *c, pni_tape *tape);

#endif
