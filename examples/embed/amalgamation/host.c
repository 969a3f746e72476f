/*
** host.c: a program that has Penumbra within itself, by CMake (CMakeLists.txt) or Meson (meson.build).
*/
#include "penumbra.h"
#include <stdio.h>

int main(void) {
  pn_runtime_config config = {.limits = {.memory = 64 << 20, .seconds = 20}};
  double data[2] = {0, 1}, result[2];
  pn_array in = {.dtype = PN_FLOAT64, .ndim = 1, .shape = {2}, .data = data};
  pn_array out = {.dtype = PN_FLOAT64, .data = result, .capacity = 2};
  pn_runtime *rt;
  if (pn_runtime_new(&config, &rt) != PN_OK) return 1;
  pn_runtime_run_string(rt, "function predict(x) return x:exp() end", (size_t)-1, "model");
  pn_status status = pn_runtime_call(rt, "predict", 1, &in, 1, &out);
  if (status == PN_OK)
    printf("%.5f %.5f\n", result[0], result[1]);
  else
    fprintf(stderr, "%s: %s\n", pn_status_name(status), pn_runtime_message(rt));
  pn_runtime_close(rt);
  return status != PN_OK;
}
