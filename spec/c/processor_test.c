/*
** processor_test.c: PENUMBRA_CPU chooses the level when the library is loaded, for all kernels, and says so when it
** names none. A level is another process: this program starts itself with each value.
*/
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../src/base/processor.h"
#include "../../src/smc/kalman/kalman.h"
#include "check.h"

/* What a process tells of itself: 10 level + 1 if its context has an error, 2 if interleaved kernels take another
 * level. */
static int tell(void) {
  const int lanes_of[] = {2, 4, 8};
  int level = pni_cpu_level(), answer = 10 * level, lanes;
  pn_context *c = pn_context_new(NULL);
  if (!c) return 99;
  if (pn_context_status(c)) {
    bool said =
        pn_context_status(c) == PN_DOMAIN &&
        strcmp(pn_context_message(c), "pn_context_new: PENUMBRA_CPU must be portable, avx2 or avx512, got AVX2") == 0;
    answer += said ? 1 : 3;
  }
  for (int most = 0; most < PNI_CPU_LEVELS; most++) {
    int want = lanes_of[most < level ? most : level];
    pni_lane_f64(most, &lanes);
    if (lanes != want) answer += 4;
    pni_kalman_f64(most, &lanes);
    if (lanes != want) answer += 4;
  }
  pn_context_close(c);
  return answer;
}

static int ask(const char *program, const char *value) {
  pid_t child = fork();
  if (child == 0) {
    if (value)
      setenv(PNI_CPU_VARIABLE, value, 1);
    else
      unsetenv(PNI_CPU_VARIABLE);
    execl(program, program, "tell", (char *)NULL);
    _exit(98);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 97;
}

int main(int argc, char **argv) {
  if (argc > 1) return tell();
  static const char *const values[] = {"portable", "avx2", "avx512"};
#if defined(__aarch64__)
  CHECK_INT(pni_cpu_level(), PNI_CPU_PORTABLE);
  CHECK_STR(pni_cpu_level_name(PNI_CPU_PORTABLE), "NEON");
#else
  CHECK_STR(pni_cpu_level_name(PNI_CPU_PORTABLE), "portable");
#endif
  CHECK_STR(pni_cpu_level_name(PNI_CPU_AVX2), "AVX2");
  CHECK_STR(pni_cpu_level_name(PNI_CPU_AVX512), "AVX-512");
  int best = ask(argv[0], NULL) / 10;
  CHECK(best < PNI_CPU_LEVELS);
  for (int k = 0; k < PNI_CPU_LEVELS; k++) CHECK_INT(ask(argv[0], values[k]), 10 * (k < best ? k : best));
  CHECK_INT(ask(argv[0], "AVX2"), 10 * best + 1);
  const char *own = getenv(PNI_CPU_VARIABLE);
  for (int k = 0; k < PNI_CPU_LEVELS; k++)
    if (own && strcmp(own, values[k]) == 0) CHECK_INT(pni_cpu_level(), k < best ? k : best);
  CHECK_DONE();
}
