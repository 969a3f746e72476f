/*
** smc_hidden.c: passes over hidden Markov models for penumbra.smc.hmm, which brings operands into the shapes that these
** take.
*/
#include "../penumbra_lua.h"

/* new_hmm_filter(initial, transition, emission, backward) -> predicted, filtered, increment */
static int l_filter(lua_State *L) {
  static const char *const role[] = {"initial", "transition", "emission"};
  pn_context *c = pni_lua_context(L);
  pn_tensor *in[3];
  for (int k = 0; k < 3; k++) in[k] = pni_check_operand(L, k + 1, "hmm_filter", role[k]);
  bool backward = lua_toboolean(L, 4);
  pni_box *box[3];
  for (int k = 0; k < 3; k++) box[k] = pni_new_box(L);
  for (int again = 0;; again++) {
    size_t mark = pn_scope_open(c);
    pn_hmm out;
    if (pn_hmm_filter(c, in[0], in[1], in[2], backward, &out) == PN_OK) {
      pn_tensor *t[] = {out.predicted, out.filtered, out.increment};
      for (int k = 0; k < 3; k++) pn_tensor_ref(t[k]);
      pn_scope_close(c, mark);
      for (int k = 0; k < 3; k++) box[k]->t = t[k];
      pni_tell_collector(L);
      return 3;
    }
    if (pn_context_status(c) == PN_NOMEM && !again) {
      pni_forget(L, c, mark);
      continue;
    }
    pn_scope_close(c, mark);
    return pni_raise(L, c);
  }
}

/* new_hmm_viterbi(initial, transition, emission, lengths or nil) -> path */
static int l_viterbi(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *initial = pni_check_operand(L, 1, "hmm_viterbi", "initial");
  pn_tensor *transition = pni_check_operand(L, 2, "hmm_viterbi", "transition");
  pn_tensor *emission = pni_check_operand(L, 3, "hmm_viterbi", "emission");
  pn_tensor *lengths = lua_isnoneornil(L, 4) ? NULL : pni_check_operand(L, 4, "hmm_viterbi", "lengths");
  PNI_RETURN(L, c, pn_hmm_viterbi(c, initial, transition, emission, lengths));
}

/* new_hmm_sample(filtered, transition, n, generator or nil) -> paths */
static int l_sample(lua_State *L) {
  pn_context *c = pni_lua_context(L);
  pn_tensor *filtered = pni_check_operand(L, 1, "hmm_sample", "filtered");
  pn_tensor *transition = pni_check_operand(L, 2, "hmm_sample", "transition");
  int64_t n = pni_check_whole(L, 3, "hmm_sample", "n");
  pn_rng *rng = pni_check_rng(L, 4);
  PNI_RETURN(L, c, pn_hmm_sample(c, rng, filtered, transition, n));
}

static const luaL_Reg functions[] = {
    {"new_hmm_filter", l_filter}, {"new_hmm_viterbi", l_viterbi}, {"new_hmm_sample", l_sample}, {NULL, NULL}};

void pni_open_smc_hidden(lua_State *L) { luaL_setfuncs(L, functions, 0); }
