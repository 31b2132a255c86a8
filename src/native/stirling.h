/* Ratios V(n, t) = S(n, t + 1) / S(n, t) of generalised Stirling numbers: row n for n <= dense,
 * then a geometric grid of counts, between whose logarithms they are interpolated. */
#ifndef TANAGER_STIRLING_H
#define TANAGER_STIRLING_H
#include "arrays.h"

typedef struct {
    const double *rows, *log_count;
    int64_t n_columns, dense, n_far;
} Stirling;

/* The rows between which V(n, .) lies, and the share of the second. */
typedef struct {
    const double *low, *high;
    double share;
} Between;

static inline Between find_rows(const Stirling *table, int64_t n)
{
    if (n <= table->dense) {
        const double *row = table->rows + n * table->n_columns;
        return (Between){row, row, 0.0};
    }
    double place = log((double)n);
    int64_t first = 0, last = table->n_far - 1; /* log_count[first] < place <= log_count[last] */
    while (first + 1 < last) {
        int64_t middle = (first + last) / 2;
        if (table->log_count[middle] < place)
            first = middle;
        else
            last = middle;
    }
    double below = table->log_count[first];
    const double *row = table->rows + (table->dense + first) * table->n_columns;
    return (Between){row, row + table->n_columns,
                     (place - below) / (table->log_count[last] - below)};
}

/* Zero where there is no such table. */
static inline double stirling_ratio(const Stirling *table, int64_t n, int64_t t)
{
    if (t >= n || t >= table->n_columns)
        return 0.0;
    Between rows = find_rows(table, n);
    return (1.0 - rows.share) * rows.low[t] + rows.share * rows.high[t];
}

/* E[t] = a (psi(a+n) - psi(a)) = sum over i < n of a/(a+i), the mean number of tables of a cell of
 * count n > 0 and base mass a, and its derivative by log a; see hdp.c. */
double expected_tables(double mass, double count, double *slope);

#endif
