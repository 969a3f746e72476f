/* reduce_i64.c: reductions of int64; overflow wraps (the Makefile compiles with -fwrapv). */
#define REAL     int64_t
#define IS_FLOAT 0
#include "reduce_real.h"

const pni_reducer pni_reducers_i64[PNI_REDUCERS] = {
    [PNI_SUM] = {sum_rows, sum_line},
    [PNI_PROD] = {prod_rows, prod_line},
    [PNI_MAX] = {max_rows, max_line},
    [PNI_MIN] = {min_rows, min_line},
};
const pni_scanner pni_scanner_i64 = {cumsum_scan, NULL, NULL, argmax_row, argmin_row};
const pni_runner pni_runner_i64 = {recurrence_run, NULL, argcummax_run, argcummin_run};
