/* Where a pair of features should be cut: what its quadrants would add to an additive model. */
#include "arrays.h"

/* A cell has three sums a class: of the residuals, of their variances, and of the variances
 * times the rows' weights. Without effect the mean of this gain is zero. */
static inline double gain_of(double residual, double spread, double chance, double shrink)
{
    return (residual * residual - chance) / (spread + shrink);
}

typedef struct {
    int64_t n_rows, n_classes;
    const double *residuals, *spreads, *weights; /* (n_rows, n_classes) twice, (n_rows,) */
    double shrink;
} Rows;

/* Fill sums (height, width, n_classes, 3) with the rows whose values both count. */
static void sum_cells(const Rows *rows, const uint16_t *x, int64_t height, const uint16_t *z,
                      int64_t width, double *sums)
{
    int64_t n = rows->n_classes;
    memset(sums, 0, sizeof(double) * (size_t)(height * width * n * 3));
    for (int64_t r = 0; r < rows->n_rows; r++) {
        if (x[r] >= height || z[r] >= width)
            continue;
        double *cell = sums + (x[r] * width + z[r]) * n * 3;
        const double *residual = rows->residuals + r * n, *spread = rows->spreads + r * n;
        for (int64_t c = 0; c < n; c++, cell += 3) {
            cell[0] += residual[c];
            cell[1] += spread[c];
            cell[2] += spread[c] * rows->weights[r];
        }
    }
}

/* Add each cell to the next, along the first axis and, if wanted, along the second. */
static void accumulate(double *sums, int64_t height, int64_t width, int64_t depth, int both)
{
    for (int64_t k = width * depth; k < height * width * depth; k++)
        sums[k] += sums[k - width * depth];
    for (int64_t row = 0; both && row < height; row++)
        for (int64_t k = depth; k < width * depth; k++)
            sums[row * width * depth + k] += sums[row * width * depth + k - depth];
}

/* The gain of a part and of the rest of a whole, one class. */
static double gain_of_halves(const double *part, const double *whole, double shrink)
{
    return gain_of(part[0], part[1], part[2], shrink)
           + gain_of(whole[0] - part[0], whole[1] - part[1], whole[2] - part[2], shrink);
}

/* The best pair of cuts of two ordered features from sums added up along both axes: the gain
 * of the four quadrants beyond what either cut gains alone. */
static double best_quadrants(const double *sums, int64_t height, int64_t width, int64_t n,
                             double shrink, double *alone, int64_t *cuts)
{
    int64_t depth = n * 3, line = width * depth;
    const double *all = sums + (height - 1) * line + (width - 1) * depth;
    for (int64_t b = 0; b + 1 < width; b++) {
        alone[b] = 0.0;
        for (int64_t k = 0; k < depth; k += 3) {
            const double *left = sums + (height - 1) * line + b * depth + k;
            alone[b] += high(gain_of_halves(left, all + k, shrink), 0.0);
        }
    }
    double best = 0.0;
    for (int64_t a = 0; a + 1 < height; a++) {
        const double *top = sums + a * line + (width - 1) * depth;
        double own = 0.0;
        for (int64_t k = 0; k < depth; k += 3)
            own += high(gain_of_halves(top + k, all + k, shrink), 0.0);
        for (int64_t b = 0; b + 1 < width; b++) {
            const double *corner = sums + a * line + b * depth;
            const double *left = sums + (height - 1) * line + b * depth;
            double gain = -own - alone[b];
            for (int64_t k = 0; k < depth; k += 3) {
                double rest[3];
                for (int64_t m = 0; m < 3; m++)
                    rest[m] = all[k + m] - top[k + m];
                double other[3] = {left[k] - corner[k], left[k + 1] - corner[k + 1],
                                   left[k + 2] - corner[k + 2]};
                gain += gain_of_halves(corner + k, top + k, shrink);
                gain += gain_of_halves(other, rest, shrink);
            }
            if (0.5 * gain > best)
                best = 0.5 * gain, cuts[0] = a, cuts[1] = b;
        }
    }
    return best;
}

/* The best cut of an ordered feature from sums added up along it: what it gains within each
 * value of the other, beyond what the cut and the values gain alone. */
static double best_cut(const double *sums, int64_t height, int64_t width, int64_t n, double shrink,
                       int64_t *cut)
{
    int64_t depth = n * 3, line = width * depth;
    const double *last = sums + (height - 1) * line;
    double best = 0.0;
    for (int64_t a = 0; a + 1 < height; a++) {
        const double *top = sums + a * line;
        double gain = 0.0;
        for (int64_t k = 0; k < depth; k += 3) {
            double all[3] = {0, 0, 0}, part[3] = {0, 0, 0}, values = 0.0;
            for (int64_t b = 0; b < width; b++) {
                const double *cell = top + b * depth + k, *column = last + b * depth + k;
                gain += gain_of_halves(cell, column, shrink);
                values += gain_of(column[0], column[1], column[2], shrink);
                for (int64_t m = 0; m < 3; m++)
                    all[m] += column[m], part[m] += cell[m];
            }
            gain -= high(values, 0.0) + high(gain_of_halves(part, all, shrink), 0.0);
        }
        if (0.5 * gain > best)
            best = 0.5 * gain, *cut = a;
    }
    return best;
}

/* For each pair of features (n_pairs, 2) where at least one is ordered, the gain (n_pairs,)
 * of its best cuts and the last value left of each (n_pairs, 2); -1: not cut. codes are
 * uint16. */
static int64_t run_find_cuts(Argument *arguments)
{
    int64_t n_rows = LENGTH(0, 1), n = LENGTH(3, 1);
    Rows rows = {n_rows, n, DOUBLES(3), DOUBLES(4), DOUBLES(5), REAL(6)};
    int64_t largest = 1, widest = 1;
    for (int64_t p = 0; p < LENGTH(7, 0); p++) {
        int64_t height = LONGS(1)[LONGS(7)[2 * p]], width = LONGS(1)[LONGS(7)[2 * p + 1]];
        largest = most(largest, height * width);
        widest = most(widest, most(height, width));
    }
    double *sums = malloc(sizeof(double) * (size_t)(largest * n * 3));
    double *alone = malloc(sizeof(double) * (size_t)widest);
    for (int64_t p = 0; sums && alone && p < LENGTH(7, 0); p++) {
        int64_t *cuts = LONGS(9) + 2 * p, first = LONGS(7)[2 * p], second = LONGS(7)[2 * p + 1];
        int64_t both = LONGS(2)[first] > 1 && LONGS(2)[second] > 1, swapped = LONGS(2)[first] <= 1;
        int64_t i = swapped ? second : first, j = swapped ? first : second;
        DOUBLES(8)[p] = 0.0;
        cuts[0] = cuts[1] = -1;
        int64_t height = LONGS(2)[i], width = both ? LONGS(2)[j] : LONGS(1)[j];
        if (height <= 1)
            continue;
        sum_cells(&rows, SHORTS(0) + i * n_rows, height, SHORTS(0) + j * n_rows, width, sums);
        accumulate(sums, height, width, n * 3, both);
        DOUBLES(8)[p] = both ? best_quadrants(sums, height, width, n, REAL(6), alone, cuts)
                             : best_cut(sums, height, width, n, REAL(6), cuts + swapped);
    }
    int64_t failed = !sums || !alone;
    free(sums);
    free(alone);
    return failed ? NO_MEMORY : 0;
}
KERNEL(find_cuts,
       "codes: uint16[n_features, n_rows]\n"
       "arities: int64[n_features]\n"
       "n_ordered: int64[n_features]\n"
       "residuals: float64[n_rows, n_classes]\n"
       "spreads: float64[n_rows, n_classes]\n"
       "weights: float64[n_rows]\n"
       "shrink: float\n"
       "pairs: int64[n_pairs, 2] below n_features\n"
       "gains: float64[n_pairs] written\n"
       "cuts: int64[n_pairs, 2] written\n"
       "n_ordered <= arities")
