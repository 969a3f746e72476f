/* reduce_f64.c: reductions of float64. */
#define REAL     double
#define VECTOR   pni_vector_f64
#define ROWS     pni_short_rows_f64
#define IS_FLOAT 1
#include "reduce_real.h"

const pni_reducer pni_reducers_f64[PNI_REDUCERS] = {
    [PNI_SUM] = {sum_rows, sum_line}, [PNI_PROD] = {prod_rows, prod_line},      [PNI_MAX] = {max_rows, max_line},
    [PNI_MIN] = {min_rows, min_line}, [PNI_LOGSUMEXP] = {logsumexp_rows, NULL},
};
const pni_scanner pni_scanner_f64 = {cumsum_scan, softmax_scan, log_softmax_scan, argmax_row, argmin_row};
const pni_pieces pni_sum_pieces_f64 = {sum_parts, sum_join};
const pni_runner pni_runner_f64 = {recurrence_run, logcumsumexp_run, argcummax_run, argcummin_run};
