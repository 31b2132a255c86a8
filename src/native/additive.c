/* Loss and derivatives of additive scores over rows, and what tables of pairs would add.
 *
 * A row has a cell in every family; its score is the class node's, cell 0, plus one number
 * a family. Sums go over the rows in their order, so the result is the same every time. */
#include "maths.h"

#define ROW_BLOCK 256

typedef struct {
    int64_t n_rows, n_families, n_columns;
    const uint16_t *cells;  /* (n_rows, n_families), counted from starts */
    const int64_t *starts;  /* (n_families,) */
    const uint16_t *labels; /* (n_rows,) */
    const double *weights;  /* NULL: every row weighs one */
    const double *scores;   /* (n_cells, n_columns) */
    double *slopes;         /* (n_cells, n_columns) */
} Sum;

/* Two classes: one column, the score of the second less that of the first. */
WIDE static double evaluate_two(const Sum *sum)
{
    double total[ROW_BLOCK], small[ROW_BLOCK], lost[ROW_BLOCK], loss = 0.0;
    for (int64_t row = 0; row < sum->n_rows; row += ROW_BLOCK) {
        int64_t size = least(ROW_BLOCK, sum->n_rows - row);
        const uint16_t *cell = sum->cells + row * sum->n_families;
        for (int64_t r = 0; r < size; r++, cell += sum->n_families) {
            double score = sum->scores[0];
            for (int64_t t = 0; t < sum->n_families; t++)
                score += sum->scores[sum->starts[t] + cell[t]];
            total[r] = sum->labels[row + r] == 1 ? score : -score; /* for the row's own class */
        }
        for (int64_t r = 0; r < size; r++)
            small[r] = exponential(-fabs(total[r]));
        for (int64_t r = 0; r < size; r++)
            lost[r] = logarithm_1p(small[r]) + high(-total[r], 0.0);
        cell = sum->cells + row * sum->n_families;
        for (int64_t r = 0; r < size; r++, cell += sum->n_families) {
            double weight = sum->weights ? sum->weights[row + r] : 1.0;
            loss += weight * lost[r];
            double miss = weight * (total[r] < 0 ? 1.0 : small[r]) / (1.0 + small[r]);
            double slope = sum->labels[row + r] == 1 ? -miss : miss;
            sum->slopes[0] += slope;
            for (int64_t t = 0; t < sum->n_families; t++)
                sum->slopes[sum->starts[t] + cell[t]] += slope;
        }
    }
    return loss;
}

/* More classes: one column each; total (n_columns,) is room to work in. */
WIDE static double evaluate_many(const Sum *sum, double *total)
{
    int64_t n = sum->n_columns;
    double loss = 0.0;
    const uint16_t *cell = sum->cells;
    for (int64_t r = 0; r < sum->n_rows; r++, cell += sum->n_families) {
        double weight = sum->weights ? sum->weights[r] : 1.0, norm = 0.0;
        for (int64_t c = 0; c < n; c++)
            total[c] = sum->scores[c];
        for (int64_t t = 0; t < sum->n_families; t++) {
            const double *add = sum->scores + (sum->starts[t] + cell[t]) * n;
            for (int64_t c = 0; c < n; c++)
                total[c] += add[c];
        }
        double top = total[0], own = total[sum->labels[r]];
        for (int64_t c = 1; c < n; c++)
            top = high(top, total[c]);
        for (int64_t c = 0; c < n; c++)
            total[c] = exponential(total[c] - top);
        for (int64_t c = 0; c < n; c++)
            norm += total[c];
        loss += weight * (log(norm) + top - own);
        double scale = weight / norm;
        for (int64_t c = 0; c < n; c++)
            total[c] *= scale;
        total[sum->labels[r]] -= weight;
        for (int64_t c = 0; c < n; c++)
            sum->slopes[c] += total[c];
        for (int64_t t = 0; t < sum->n_families; t++) {
            double *to = sum->slopes + (sum->starts[t] + cell[t]) * n;
            for (int64_t c = 0; c < n; c++)
                to[c] += total[c];
        }
    }
    return loss;
}

/* cells, starts, labels, weights, scores, slopes, loss: write the loss of all rows to
 * loss (1,) and its derivatives by the scores to slopes. */
static int64_t run_evaluate_sums(Argument *arguments)
{
    Sum sum = {LENGTH(0, 0), LENGTH(0, 1), LENGTH(4, 1), SHORTS(0), LONGS(1), SHORTS(2),
               SIZE(3) ? DOUBLES(3) : NULL, DOUBLES(4), DOUBLES(5)};
    memset(sum.slopes, 0, sizeof(double) * (size_t)SIZE(5));
    if (sum.n_columns == 1) {
        DOUBLES(6)[0] = evaluate_two(&sum);
        return 0;
    }
    double *room = malloc(sizeof(double) * (size_t)(sum.n_columns + 1));
    if (!room)
        return NO_MEMORY;
    DOUBLES(6)[0] = evaluate_many(&sum, room);
    free(room);
    return 0;
}
const Kernel evaluate_sums = {"hqhddDD", run_evaluate_sums};

/* cells, starts, scores, out: write the sum of each row's scores to out (n_rows, n_columns). */
static int64_t run_add_sums(Argument *arguments)
{
    int64_t n_rows = LENGTH(0, 0), n_families = LENGTH(0, 1), n = LENGTH(2, 1);
    const uint16_t *cell = SHORTS(0);
    double *out = DOUBLES(3);
    for (int64_t r = 0; r < n_rows; r++, cell += n_families, out += n) {
        for (int64_t c = 0; c < n; c++)
            out[c] = DOUBLES(2)[c];
        for (int64_t t = 0; t < n_families; t++) {
            const double *add = DOUBLES(2) + (LONGS(1)[t] + cell[t]) * n;
            for (int64_t c = 0; c < n; c++)
                out[c] += add[c];
        }
    }
    return 0;
}
const Kernel add_sums = {"hqdD", run_add_sums};

/* Half of the sum over cells and classes of (g^2 - v) / (h + shrink). */
static double gain_of(const double *sums, int64_t size, double shrink)
{
    double gain = 0.0;
    for (int64_t k = 0; k < size; k++, sums += 3)
        gain += (sums[0] * sums[0] - sums[2]) / (sums[1] + shrink);
    return 0.5 * gain;
}

/* codes, arities, residuals, spreads, weights, shrink, singles, gains: the gain of a table of
 * each feature, and of each pair of features. g is the sum of the residuals in a cell, h
 * that of their variances, v that of their variances times the rows' weights. It is about
 * what the log-likelihood would gain on new rows; without effect its mean is zero. Rows with
 * a code beyond the arity are left out of the feature's cells. */
static int64_t run_score_gains(Argument *arguments)
{
    int64_t n_features = LENGTH(0, 0), n_rows = LENGTH(0, 1), n = LENGTH(2, 1), widest = 1;
    const int64_t *arities = LONGS(1);
    const double *weights = DOUBLES(4);
    for (int64_t i = 0; i < n_features; i++)
        widest = most(widest, arities[i]);
    double *sums = malloc(sizeof(double) * (size_t)(widest * widest * n * 3 + 1));
    if (!sums)
        return NO_MEMORY;
    for (int64_t i = 0; i < n_features; i++)
        for (int64_t j = 0; j <= i; j++) {
            int64_t size = (i == j ? arities[i] : arities[i] * arities[j]) * n;
            memset(sums, 0, sizeof(double) * (size_t)(size * 3));
            for (int64_t r = 0; r < n_rows; r++) {
                int64_t x = NARROW(0) ? BYTES(0)[i * n_rows + r] : SHORTS(0)[i * n_rows + r];
                int64_t z = NARROW(0) ? BYTES(0)[j * n_rows + r] : SHORTS(0)[j * n_rows + r];
                if (x >= arities[i] || z >= arities[j])
                    continue;
                double *cell = sums + (i == j ? x : x * arities[j] + z) * n * 3;
                const double *residual = DOUBLES(2) + r * n, *spread = DOUBLES(3) + r * n;
                for (int64_t c = 0; c < n; c++, cell += 3) {
                    cell[0] += residual[c];
                    cell[1] += spread[c];
                    cell[2] += spread[c] * weights[r];
                }
            }
            double gain = gain_of(sums, size, REAL(5));
            if (i == j)
                DOUBLES(6)[i] = gain;
            else
                DOUBLES(7)[i * n_features + j] = DOUBLES(7)[j * n_features + i] = gain;
        }
    free(sums);
    return 0;
}
const Kernel score_gains = {"cqdddfDD", run_score_gains};
