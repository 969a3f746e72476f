/*
** lane_levels_real.h: compiles BODY, a header of interleaved kernels, once per instruction set that a processor
** may have, and defines CHOOSE, which picks the best group of type GROUP up to `level`. The including file
** defines these three, REAL, INTEGER, F and the lanes of each set: BASE, AVX2, AVX512 (plain numbers: names
** are made of them).
*/
#define NAME(name) name##_base
#define TARGET
#define WIDTH BASE
#include BODY

#if defined(__GNUC__) && defined(__x86_64__)
#define NAME(name) name##_avx2
#define TARGET     __attribute__((target("avx2")))
#define WIDTH      AVX2
#include BODY

#define NAME(name) name##_avx512
#define TARGET     __attribute__((target("avx512f,avx512dq")))
#define WIDTH      AVX512
#include BODY

GROUP CHOOSE(int level, int *lanes) {
  static const GROUP groups[] = {group_base, group_avx2, group_avx512};
  static const int widths[] = {BASE, AVX2, AVX512};
  int most = pni_cpu_level();
  if (level > most) level = most;
  *lanes = widths[level];
  return groups[level];
}
#else
GROUP CHOOSE(int level, int *lanes) {
  (void)level;
  *lanes = BASE;
  return group_base;
}
#endif
