/* reduce_f32.c: reductions of float32. */
#define REAL     float
#define VECTOR   pni_vector_f32
#define ROWS     pni_short_rows_f32
#define IS_FLOAT 1
#include "reduce_real.h"

const pni_reducer pni_reducers_f32[PNI_REDUCERS] = {
    [PNI_SUM] = {sum_rows, sum_line}, [PNI_PROD] = {prod_rows, prod_line},      [PNI_MAX] = {max_rows, max_line},
    [PNI_MIN] = {min_rows, min_line}, [PNI_LOGSUMEXP] = {logsumexp_rows, NULL},
};
const pni_scanner pni_scanner_f32 = {cumsum_scan, softmax_scan, log_softmax_scan, argmax_row, argmin_row};
const pni_pieces pni_sum_pieces_f32 = {sum_parts, sum_join};
const pni_runner pni_runner_f32 = {recurrence_run, logcumsumexp_run, argcummax_run, argcummin_run};
