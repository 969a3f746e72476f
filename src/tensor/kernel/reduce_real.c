/* reduce_real.c: reductions of floats. */
#include "../../base/type_real.h"
#define VECTOR   TYPED(pni_vector)
#define ROWS     TYPED(pni_short_rows)
#define IS_FLOAT 1
#include "reduce_real.h"

const pni_reducer TYPED(pni_reducers)[PNI_REDUCERS] = {
    [PNI_SUM] = {sum_rows, sum_line}, [PNI_PROD] = {prod_rows, prod_line},      [PNI_MAX] = {max_rows, max_line},
    [PNI_MIN] = {min_rows, min_line}, [PNI_LOGSUMEXP] = {logsumexp_rows, NULL},
};
const pni_scanner TYPED(pni_scanner) = {cumsum_scan, softmax_scan, log_softmax_scan, argmax_row, argmin_row};
const pni_pieces TYPED(pni_sum_pieces) = {sum_parts, sum_join};
const pni_runner TYPED(pni_runner) = {recurrence_run, logcumsumexp_run, argcummax_run, argcummin_run};
