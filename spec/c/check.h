/*
** check.h: assertions for the C-side tests. A failed check prints file, line and values and the
** program goes on; CHECK_DONE() at the end of main prints "N passed, N failed" and returns.
**
**   CHECK(cond)                   cond holds
**   CHECK_NEAR(got, want, rel)    |got - want| <= rel * |want| (rel itself when want is 0); NaN equals NaN,
**                                 an infinity only itself
**   CHECK_INT(got, want)          equal integers
**   CHECK_STR(got, want)          equal strings, NULL equals only NULL
**   CHECK_STATUS(c, call, want)   an action's status; a mismatch also prints the context's message
**   CHECK_FAIL(c, want, text)     a failure `want` is pending and its message contains `text`; clears it
*/
#ifndef PN_SPEC_CHECK_H
#define PN_SPEC_CHECK_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../../src/penumbra.h"

static long check_passed, check_failed;

static inline bool check_record(bool ok) {
  if (ok)
    check_passed++;
  else
    check_failed++;
  return ok;
}

static inline bool check_near(double got, double want, double rel) {
  if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
  if (isinf(got) || isinf(want)) return got == want;
  return fabs(got - want) <= rel * (want == 0 ? 1 : fabs(want));
}

static inline void check_cond(const char *file, int line, const char *text, bool ok) {
  if (!check_record(ok)) printf("%s:%d: not true: %s\n", file, line, text);
}

static inline void check_close(const char *file, int line, const char *text, double got, double want, double rel) {
  if (!check_record(check_near(got, want, rel)))
    printf("%s:%d: %s: got %.17g, want %.17g (relative %.3g, allowed %.3g)\n", file, line, text, got, want,
           want == 0 ? fabs(got) : fabs(got - want) / fabs(want), rel);
}

static inline void check_int(const char *file, int line, const char *text, int64_t got, int64_t want) {
  if (!check_record(got == want))
    printf("%s:%d: %s: got %lld, want %lld\n", file, line, text, (long long)got, (long long)want);
}

static inline void check_str(const char *file, int line, const char *text, const char *got, const char *want) {
  bool ok = got && want ? strcmp(got, want) == 0 : got == want;
  if (!check_record(ok))
    printf("%s:%d: %s: got \"%s\", want \"%s\"\n", file, line, text, got ? got : "(null)", want ? want : "(null)");
}

static inline void check_status(const char *file, int line, const char *text, const pn_context *c, pn_status got,
                                pn_status want) {
  if (!check_record(got == want))
    printf("%s:%d: %s: got %s, want %s; message \"%s\"\n", file, line, text, pn_status_name(got), pn_status_name(want),
           c ? pn_context_message(c) : "");
}

static inline void check_fail(const char *file, int line, pn_context *c, pn_status want, const char *text) {
  bool ok = pn_context_status(c) == want && strstr(pn_context_message(c), text) != NULL;
  if (!check_record(ok))
    printf("%s:%d: got %s \"%s\", want %s with \"%s\"\n", file, line, pn_status_name(pn_context_status(c)),
           pn_context_message(c), pn_status_name(want), text);
  pn_context_clear_error(c);
}

static inline int check_done(void) {
  printf("%ld passed, %ld failed\n", check_passed, check_failed);
  return check_failed || !check_passed;
}

#define CHECK(cond)                 check_cond(__FILE__, __LINE__, #cond, (cond) != 0)
#define CHECK_NEAR(got, want, rel)  check_close(__FILE__, __LINE__, #got, (double)(got), (double)(want), (rel))
#define CHECK_INT(got, want)        check_int(__FILE__, __LINE__, #got, (int64_t)(got), (int64_t)(want))
#define CHECK_STR(got, want)        check_str(__FILE__, __LINE__, #got, (got), (want))
#define CHECK_STATUS(c, call, want) check_status(__FILE__, __LINE__, #call, (c), (call), (want))
#define CHECK_FAIL(c, want, text)   check_fail(__FILE__, __LINE__, (c), (want), (text))
#define CHECK_DONE()                return check_done()

#endif
