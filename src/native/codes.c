/* The codebook's loops: look-ups and cuts by minimum description length.
 *
 * Matrices are read as x[row, column] and codes written as out[column, row]; blocks of
 * rows keep the transposition inside the cache. Numbers are int64 or float64. */
#include "arrays.h"

#define BLOCK 128 /* rows; 128 x 30 columns x 8 bytes about fill the first-level cache */

enum { CUTS, LOOKUP, SEARCH }; /* how a column is looked up */

/* Add each row's weight to cells[(x - low) * n_classes + label]; x is one int64 column. */
static int64_t run_count_cells(Argument *arguments)
{
    const int64_t *x = LONGS(0);
    for (int64_t r = 0; r < LENGTH(0, 0); r++)
        DOUBLES(5)[(x[r] - NUMBER(3)) * NUMBER(4) + SHORTS(1)[r]] += DOUBLES(2)[r];
    return 0;
}
KERNEL(count_cells,
       "x: int64[n_rows]\n"
       "labels: uint16[n_rows] below n_classes\n"
       "weights: float64[n_rows]\n"
       "low: int\n"
       "n_classes: int from 1\n"
       "cells: float64[n_cells] written")

typedef struct {
    const int64_t *kind, *lowest, *start, *size;
    const uint16_t *lookup;
    const double *table;
    const int64_t *missing, *unknown;
} Coder;

#define NUMBER_TYPE int64_t
#define CODE uint8_t
#define NAME(x) x##_whole_8
#define IS_REAL 0
#include "codes_by_type.h"
#undef CODE
#undef NAME
#define CODE uint16_t
#define NAME(x) x##_whole_16
#include "codes_by_type.h"
#undef NUMBER_TYPE
#undef CODE
#undef NAME
#undef IS_REAL
#define NUMBER_TYPE double
#define CODE uint8_t
#define NAME(x) x##_real_8
#define IS_REAL 1
#include "codes_by_type.h"
#undef CODE
#undef NAME
#define CODE uint16_t
#define NAME(x) x##_real_16
#include "codes_by_type.h"

/* Write the code of every cell; return the first column with an infinite number, or -1. CUTS
 * counts the cut points below the value, table[start : start + size]; LOOKUP reads
 * lookup[start + value - low]; SEARCH finds the value in the sorted table[start : start +
 * size]. NaN gets missing[j], what is not found gets unknown[j]. */
static int64_t run_encode_matrix(Argument *arguments)
{
    Coder coder = {LONGS(1), LONGS(2), LONGS(3), LONGS(4), SHORTS(5), DOUBLES(6), LONGS(7), LONGS(8)};
    int64_t n_rows = LENGTH(0, 0), n_columns = LENGTH(0, 1);
    const void *x = arguments[0].array.buf;
    int real = arguments[0].array.format[0] == 'd';
    if (NARROW(9))
        return real ? encode_real_8(x, n_rows, n_columns, &coder, BYTES(9))
                    : encode_whole_8(x, n_rows, n_columns, &coder, BYTES(9));
    return real ? encode_real_16(x, n_rows, n_columns, &coder, SHORTS(9))
                : encode_whole_16(x, n_rows, n_columns, &coder, SHORTS(9));
}
KERNEL(encode_matrix,
       "x: int64|float64[n_rows, n_columns]\n"
       "kind: int64[n_columns] below 3\n"
       "low: int64[n_columns]\n"
       "start: int64[n_columns]\n"
       "size: int64[n_columns]\n"
       "lookup: uint16[n_lookup]\n"
       "table: float64[n_table]\n"
       "missing: int64[n_columns] below 65536\n"
       "unknown: int64[n_columns] below 65536\n"
       "out: uint8|uint16[n_columns, n_rows] written")

/* Entropy in bits of some counts; how many are positive goes to `seen`. */
static double entropy(const double *counts, int64_t n_classes, double total, int64_t *seen)
{
    double h = 0.0;
    *seen = 0;
    for (int64_t c = 0; c < n_classes; c++)
        if (counts[c] > 0.0) {
            double p = counts[c] / total;
            h -= p * log2(p);
            ++*seen;
        }
    return h;
}

typedef struct {
    const double *values;
    const uint16_t *labels;
    const double *weights;
    int64_t n_classes;
    double *left, *right; /* room to work in, (n_classes,) each */
} Split;

/* The boundary of rows begin..end-1 with the least class entropy: the first row on the
 * right, -1 if there is none. A boundary lies between two distinct values, unless all rows
 * of both are of one and the same class. Ties go to the lowest. */
static int64_t best_boundary(const Split *s, int64_t begin, int64_t end, double *least_entropy)
{
    double *left = s->left, *right = s->right, n_left = 0.0, n_right = 0.0;
    memset(left, 0, sizeof(double) * (size_t)s->n_classes);
    memset(right, 0, sizeof(double) * (size_t)s->n_classes);
    for (int64_t r = begin; r < end; r++) {
        right[s->labels[r]] += s->weights[r];
        n_right += s->weights[r];
    }
    double total = n_right;
    int64_t best = -1, previous = -2, seen; /* class of the group before if pure, -1 if mixed */
    *least_entropy = INFINITY;
    for (int64_t r = begin, stop; r < end; r = stop) {
        int64_t pure = s->labels[r];
        for (stop = r + 1; stop < end && s->values[stop] == s->values[r]; stop++)
            if (s->labels[stop] != s->labels[r])
                pure = -1;
        if (previous != -2 && (pure == -1 || pure != previous)) {
            double found = (n_left * entropy(left, s->n_classes, n_left, &seen) +
                            n_right * entropy(right, s->n_classes, n_right, &seen)) / total;
            /* Equal entropies may differ in the last bits: their sums are over other cells. */
            if (found < *least_entropy - 1e-12) {
                best = r;
                *least_entropy = found;
            }
        }
        for (int64_t q = r; q < stop; q++) {
            double w = s->weights[q];
            left[s->labels[q]] += w;
            right[s->labels[q]] -= w;
            n_left += w;
            n_right -= w;
        }
        previous = pure;
    }
    return best;
}

/* Whether the MDLPC criterion accepts the split at row `cut`. */
static int accepts(const Split *s, int64_t begin, int64_t cut, int64_t end, double split_entropy)
{
    double *left = s->left, *right = s->right, n_left = 0.0, n_right = 0.0;
    memset(left, 0, sizeof(double) * (size_t)s->n_classes);
    memset(right, 0, sizeof(double) * (size_t)s->n_classes);
    for (int64_t r = begin; r < end; r++)
        (r < cut ? left : right)[s->labels[r]] += s->weights[r];
    for (int64_t c = 0; c < s->n_classes; c++) {
        n_left += left[c];
        n_right += right[c];
    }
    double n = n_left + n_right;
    if (n <= 1.0)
        return 0;
    int64_t k, k_left, k_right;
    double h_left = entropy(left, s->n_classes, n_left, &k_left);
    double h_right = entropy(right, s->n_classes, n_right, &k_right);
    for (int64_t c = 0; c < s->n_classes; c++)
        left[c] += right[c];
    double h = entropy(left, s->n_classes, n, &k);
    /* log2(3^k - 2) without overflow for many classes */
    double types = (double)k * log2(3.0) + log2(1.0 - 2.0 * pow(3.0, -(double)k));
    double delta = types - ((double)k * h - (double)k_left * h_left - (double)k_right * h_right);
    return h - split_entropy > (log2(n - 1.0) + delta) / n;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Write the accepted boundaries (first row on the right); return how many. Rows are sorted
 * by value; cuts has room for one entry a row. Fayyad and Irani (1993), depth first. */
static int64_t run_split_by_mdl(Argument *arguments)
{
    int64_t n_rows = LENGTH(0, 0), n_classes = NUMBER(3), n_cuts = 0, depth = 0;
    double *room = malloc(sizeof(double) * (size_t)(2 * n_classes + 1));
    int64_t *stack = malloc(sizeof(int64_t) * (size_t)(2 * n_rows + 2));
    if (!room || !stack) {
        free(room), free(stack);
        return NO_MEMORY;
    }
    Split split = {DOUBLES(0), SHORTS(1), DOUBLES(2), n_classes, room, room + n_classes};
    stack[depth++] = 0, stack[depth++] = n_rows;
    while (depth) {
        int64_t end = stack[--depth], begin = stack[--depth];
        double found;
        int64_t cut = best_boundary(&split, begin, end, &found);
        if (cut >= 0 && accepts(&split, begin, cut, end, found)) {
            LONGS(4)[n_cuts++] = cut;
            stack[depth++] = begin, stack[depth++] = cut;
            stack[depth++] = cut, stack[depth++] = end;
        }
    }
    free(room), free(stack);
    qsort(LONGS(4), (size_t)n_cuts, sizeof(int64_t), ascending);
    return n_cuts;
}
KERNEL(split_by_mdl,
       "values: float64[n_rows]\n"
       "labels: uint16[n_rows] below n_classes\n"
       "weights: float64[n_rows]\n"
       "n_classes: int from 1\n"
       "cuts: int64[n_rows] written")
