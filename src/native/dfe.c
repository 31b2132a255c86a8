/* Discriminative frequency estimates, row by row. */
#include "arrays.h"

/* The totals' row of a family's cell. */
static int64_t total_of(const int64_t *size, int64_t first, int64_t cell)
{
    return first + (cell - size[0]) / size[1];
}

/* Read rows in turn; each adds 1 - P(label | x) to its own cells. cells: the last one for families
 * that take no part; sizes: first cell, arity, number of contexts. Adds to frequencies and to
 * totals, their sums per context, the class node first; writes the weighted sum of what the rows
 * missed to missed. */
static int64_t run_add_misses(Argument *arguments)
{
    int64_t n_families = LENGTH(0, 0), n_rows = LENGTH(0, 1), n = LENGTH(5, 1);
    int64_t blank = LENGTH(5, 0) - 1;
    const int64_t *sizes = LONGS(1);
    double m = REAL(4), *frequencies = DOUBLES(5), *totals = DOUBLES(6), missed = 0.0;
    double *score = malloc(sizeof(double) * (size_t)(n + 1));
    if (!score)
        return NO_MEMORY;
    for (int64_t r = 0; r < n_rows; r++) {
        int64_t label = SHORTS(2)[r], first = 1;
        for (int64_t c = 0; c < n; c++) /* the class node's total is the same for all classes */
            score[c] = log(frequencies[c] + m / (double)n);
        for (int64_t f = 0; f < n_families; first += sizes[3 * f + 2], f++) {
            int64_t cell = INTS(0)[f * n_rows + r];
            if (cell == blank)
                continue;
            const double *own = frequencies + cell * n;
            const double *total = totals + total_of(sizes + 3 * f, first, cell) * n;
            double share = m / (double)sizes[3 * f + 1];
            for (int64_t c = 0; c < n; c++)
                score[c] += log((own[c] + share) / (total[c] + m));
        }
        double others = 0.0;
        for (int64_t c = 0; c < n; c++)
            if (c != label)
                others += exp(low(score[c] - score[label], 700.0));
        double miss = DOUBLES(3)[r] * others / (1.0 + others);
        missed += miss;
        frequencies[label] += miss;
        first = 1;
        for (int64_t f = 0; f < n_families; first += sizes[3 * f + 2], f++) {
            int64_t cell = INTS(0)[f * n_rows + r];
            if (cell == blank)
                continue;
            frequencies[cell * n + label] += miss;
            totals[total_of(sizes + 3 * f, first, cell) * n + label] += miss;
        }
    }
    free(score);
    DOUBLES(7)[0] = missed;
    return 0;
}
KERNEL(add_misses,
       "cells: int32[n_families, n_rows] below n_cells\n"
       "sizes: int64[n_families, 3]\n"
       "labels: uint16[n_rows] below n_classes\n"
       "weights: float64[n_rows]\n"
       "m: float\n"
       "frequencies: float64[n_cells, n_classes] written\n"
       "totals: float64[n_contexts, n_classes] written\n"
       "missed: float64[1] written")
