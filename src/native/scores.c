/* The discriminative objective's pass over rows: gather scores, softmax, scatter residuals.
 *
 * A row is scored by adding one slot per group or wide family, for every class but the
 * first, whose score is zero. Blocks of rows are scored class by class, so that a block's
 * tile of scores and a class's tables stay in the first-level cache and each column is read
 * as one run. Residuals are scattered as integers on a fixed grid: integer sums are exact,
 * so the gradient depends neither on the chunking nor on the number of threads. */
#include "maths.h"

#define ROW_BLOCK 512
#define FRACTION_BITS 52 /* of the loss */

enum { CLL, MSE };

typedef struct {
    int64_t n_rows, n_groups, n_wide, n_slots, others, width, kind;
    const uint16_t *joint; /* (n_groups, n_rows) */
    const int32_t *slots;  /* (n_wide, n_rows) */
    const uint16_t *labels;
    const double *weights; /* NULL: every row weighs one */
    const uint8_t *folds;  /* NULL: one fold */
    const int64_t *starts, *tables;
    const double *flat; /* (others, width) */
    double scale;
    int64_t *loss, *gradient;
} Pass;

typedef struct {
    int64_t label[ROW_BLOCK];
    uint32_t shift[ROW_BLOCK]; /* where each row's tables begin */
    double weight[ROW_BLOCK], top[ROW_BLOCK], own[ROW_BLOCK], lost[ROW_BLOCK];
    double factor[ROW_BLOCK], rest[ROW_BLOCK];
    double *score;     /* (others, ROW_BLOCK) */
    double *share;     /* (others + 1, ROW_BLOCK) */
    int64_t *residual; /* (others, ROW_BLOCK) */
} Block;

/* Read a block's labels, tables and weights; a row of a fold left out weighs nothing. */
static void choose(const Pass *pass, int64_t row, int64_t size, Block *block)
{
    for (int64_t r = 0; r < size; r++) {
        int64_t table = pass->tables[pass->folds ? pass->folds[row + r] : 0];
        block->label[r] = pass->labels[row + r];
        block->shift[r] = (uint32_t)(most(table, 0) * pass->n_slots);
        block->weight[r] = table < 0 ? 0.0 : pass->weights ? pass->weights[row + r] : 1.0;
    }
}

/* Four columns at a time, so that a row's sum is read and written once for four look-ups. */
#define GATHER(name, TYPE)                                                                    \
    static void name(const double *flat, const int64_t *starts, const TYPE *columns,          \
                     int64_t n_columns, int64_t stride, int64_t size, const uint32_t *shift,  \
                     double *score)                                                           \
    {                                                                                         \
        int64_t g = 0;                                                                        \
        for (; g + 4 <= n_columns; g += 4, columns += 4 * stride) {                           \
            const double *f0 = flat + (starts ? starts[g] : 0), *f1 = flat + (starts ? starts[g + 1] : 0);     \
            const double *f2 = flat + (starts ? starts[g + 2] : 0), *f3 = flat + (starts ? starts[g + 3] : 0); \
            const TYPE *c0 = columns, *c1 = c0 + stride, *c2 = c1 + stride, *c3 = c2 + stride; \
            for (int64_t r = 0; r < size; r++) {                                              \
                uint32_t s = shift[r];                                                        \
                double a = f0[(uint32_t)c0[r] + s] + f1[(uint32_t)c1[r] + s];                 \
                double b = f2[(uint32_t)c2[r] + s] + f3[(uint32_t)c3[r] + s];                 \
                score[r] += a + b;                                                            \
            }                                                                                 \
        }                                                                                     \
        for (; g < n_columns; g++, columns += stride) {                                       \
            const double *f0 = flat + (starts ? starts[g] : 0);                               \
            for (int64_t r = 0; r < size; r++)                                                \
                score[r] += f0[(uint32_t)columns[r] + shift[r]];                              \
        }                                                                                     \
    }
GATHER(gather_groups, uint16_t)
GATHER(gather_wide, int32_t)

#define SCATTER(name, TYPE)                                                                   \
    static void name(const int64_t *residual, const int64_t *starts, const TYPE *columns,     \
                     int64_t n_columns, int64_t stride, int64_t size, const uint32_t *shift,  \
                     int64_t *gradient)                                                       \
    {                                                                                         \
        int64_t g = 0;                                                                        \
        for (; g + 4 <= n_columns; g += 4, columns += 4 * stride) {                           \
            int64_t *t0 = gradient + (starts ? starts[g] : 0), *t1 = gradient + (starts ? starts[g + 1] : 0);     \
            int64_t *t2 = gradient + (starts ? starts[g + 2] : 0), *t3 = gradient + (starts ? starts[g + 3] : 0); \
            const TYPE *c0 = columns, *c1 = c0 + stride, *c2 = c1 + stride, *c3 = c2 + stride; \
            for (int64_t r = 0; r < size; r++) {                                              \
                uint32_t s = shift[r];                                                        \
                int64_t value = residual[r];                                                  \
                t0[(uint32_t)c0[r] + s] += value;                                             \
                t1[(uint32_t)c1[r] + s] += value;                                             \
                t2[(uint32_t)c2[r] + s] += value;                                             \
                t3[(uint32_t)c3[r] + s] += value;                                             \
            }                                                                                 \
        }                                                                                     \
        for (; g < n_columns; g++, columns += stride) {                                       \
            int64_t *t0 = gradient + (starts ? starts[g] : 0);                                \
            for (int64_t r = 0; r < size; r++)                                                \
                t0[(uint32_t)columns[r] + shift[r]] += residual[r];                           \
        }                                                                                     \
    }
SCATTER(scatter_groups, uint16_t)
SCATTER(scatter_wide, int32_t)

/* Add a block's losses, the fractions in units of 2^-52. */
WIDE(void, add_loss, (const double *lost, int64_t size, int64_t *loss), (lost, size, loss))
{
    int64_t whole = 0, fraction = 0;
    for (int64_t r = 0; r < size; r++) {
        double floored = floor(lost[r]);
        whole += (int64_t)floored;
        fraction += (int64_t)rint((lost[r] - floored) * 4503599627370496.0);
    }
    loss[0] += whole + (fraction >> FRACTION_BITS);
    loss[1] += fraction & (((int64_t)1 << FRACTION_BITS) - 1);
    loss[0] += loss[1] >> FRACTION_BITS;
    loss[1] &= ((int64_t)1 << FRACTION_BITS) - 1;
}

/* Two classes: turn scores of class 1 against class 0 into residuals and losses. */
WIDE(void, logistic, (Block *block, int64_t size, double scale), (block, size, scale))
{
    const double *score = block->score;
    double *small = block->own, *slope = block->rest;
    for (int64_t r = 0; r < size; r++)
        small[r] = exponential(-fabs(score[r]));
    for (int64_t r = 0; r < size; r++)
        block->lost[r] = logarithm_1p(small[r]);
    for (int64_t r = 0; r < size; r++) {
        double side = 1.0 - 2.0 * (double)block->label[r], wrong = side * score[r];
        block->lost[r] = block->weight[r] * (high(wrong, 0.0) + block->lost[r]);
        /* the probability of the class that is not the row's */
        double miss = (wrong > 0.0 ? 1.0 : small[r]) / (1.0 + small[r]);
        slope[r] = rint(block->weight[r] * scale * (side * miss));
    }
    for (int64_t r = 0; r < size; r++)
        block->residual[r] = (int64_t)slope[r];
}

/* One row's squared error of the posterior; returns the factor of its slopes. */
static double square_slope(double *share, int64_t n_classes, int64_t label, double *lost)
{
    double total = 0.0, others = 0.0, mean = 0.0;
    *lost = 0.0;
    for (int64_t c = 0; c < n_classes; c++) {
        total += share[c * ROW_BLOCK];
        others += c == label ? 0.0 : share[c * ROW_BLOCK];
    }
    for (int64_t c = 0; c < n_classes; c++) {
        double miss = (c == label ? -others : share[c * ROW_BLOCK]) / total;
        *lost += miss * miss;
        mean += miss * share[c * ROW_BLOCK] / total;
    }
    for (int64_t c = 0; c < n_classes; c++) {
        double miss = (c == label ? -others : share[c * ROW_BLOCK]) / total;
        share[c * ROW_BLOCK] *= 2.0 * (miss - mean);
    }
    return 1.0 / total;
}

/* Find the rows' -log P(label), and the factors that make `share` their slopes. The label is
 * left out of the sum, not subtracted from it, so that a row that is all but certain keeps
 * its loss and slope. */
WIDE(void, log_slopes,
     (Block *block, int64_t size, int64_t n_classes),
     (block, size, n_classes))
{
    double *share = block->share, *others = block->rest, *lost = block->lost;
    for (int64_t r = 0; r < size; r++) {
        double *mine = share + block->label[r] * ROW_BLOCK + r;
        lost[r] = *mine;
        *mine = 0.0;
        others[r] = 0.0;
    }
    for (int64_t c = 0; c < n_classes; c++)
        for (int64_t r = 0; r < size; r++)
            others[r] += share[c * ROW_BLOCK + r];
    for (int64_t r = 0; r < size; r++)
        share[block->label[r] * ROW_BLOCK + r] = -others[r];
    for (int64_t r = 0; r < size; r++) {
        double total = others[r] + lost[r];
        block->factor[r] = 1.0 / total;
        /* all but the highest, whose share is one */
        lost[r] = logarithm_1p(block->own[r] == 0.0 ? others[r] : total - 1.0) - block->own[r];
    }
}

/* Any number of classes: turn scores against class 0's into residuals and losses. */
WIDE(void, softmax,
     (Block *block, int64_t size, int64_t others, int64_t kind, double scale),
     (block, size, others, kind, scale))
{
    double *score = block->score, *share = block->share, *top = block->top;
    for (int64_t r = 0; r < size; r++)
        top[r] = 0.0;
    for (int64_t c = 0; c < others; c++)
        for (int64_t r = 0; r < size; r++)
            top[r] = high(top[r], score[c * ROW_BLOCK + r]);
    for (int64_t r = 0; r < size; r++)
        share[r] = exponential(-top[r]);
    for (int64_t c = 0; c < others; c++)
        for (int64_t r = 0; r < size; r++)
            share[(c + 1) * ROW_BLOCK + r] = exponential(score[c * ROW_BLOCK + r] - top[r]);
    if (kind == CLL) {
        for (int64_t r = 0; r < size; r++) {
            int64_t label = block->label[r];
            block->own[r] = (label ? score[(label - 1) * ROW_BLOCK + r] : 0.0) - top[r];
        }
        log_slopes(block, size, others + 1);
    } else
        for (int64_t r = 0; r < size; r++)
            block->factor[r] = square_slope(share + r, others + 1, block->label[r], block->lost + r);
    for (int64_t r = 0; r < size; r++) {
        block->lost[r] *= block->weight[r];
        block->factor[r] *= block->weight[r] * scale;
    }
    for (int64_t c = 0; c < others; c++)
        for (int64_t r = 0; r < size; r++)
            block->residual[c * ROW_BLOCK + r] =
                (int64_t)rint(share[(c + 1) * ROW_BLOCK + r] * block->factor[r]);
}

static void evaluate(const Pass *pass, Block *block)
{
    for (int64_t row = 0; row < pass->n_rows; row += ROW_BLOCK) {
        int64_t size = least(ROW_BLOCK, pass->n_rows - row);
        choose(pass, row, size, block);
        for (int64_t c = 0; c < pass->others; c++) {
            const double *flat = pass->flat + c * pass->width;
            double *score = block->score + c * ROW_BLOCK;
            for (int64_t r = 0; r < size; r++)
                score[r] = flat[block->shift[r]];
            gather_groups(flat, pass->starts, pass->joint + row, pass->n_groups, pass->n_rows, size,
                          block->shift, score);
            gather_wide(flat, NULL, pass->slots + row, pass->n_wide, pass->n_rows, size,
                        block->shift, score);
        }
        if (pass->others == 1 && pass->kind == CLL)
            logistic(block, size, pass->scale);
        else
            softmax(block, size, pass->others, pass->kind, pass->scale);
        add_loss(block->lost, size, pass->loss);
        for (int64_t c = 0; c < pass->others; c++) {
            int64_t *gradient = pass->gradient + c * pass->width;
            const int64_t *residual = block->residual + c * ROW_BLOCK;
            for (int64_t r = 0; r < size; r++)
                gradient[block->shift[r]] += residual[r];
            scatter_groups(residual, pass->starts, pass->joint + row, pass->n_groups, pass->n_rows,
                           size, block->shift, gradient);
            scatter_wide(residual, NULL, pass->slots + row, pass->n_wide, pass->n_rows, size,
                         block->shift, gradient);
        }
    }
}

/* Add loss and gradient of a chunk of rows (equations 9 to 11 of Zaidi et al. 2017). tables
 * (n_folds,): the set of tables that each fold's rows read, -1 for rows that do not count;
 * flat (n_classes - 1, n_tables * n_slots). Adds to loss (2,), whole part and fraction, and
 * on the grid of `scale` to gradient of flat's shape. */
static int64_t run_evaluate_scores(Argument *arguments)
{
    int64_t others = LENGTH(7, 0);
    Pass pass = {
        .n_rows = LENGTH(2, 0), .n_groups = LENGTH(0, 0), .n_wide = LENGTH(1, 0),
        .n_slots = NUMBER(8), .others = others, .width = LENGTH(7, 1), .kind = NUMBER(9),
        .joint = SHORTS(0), .slots = INTS(1), .labels = SHORTS(2),
        .weights = SIZE(3) ? DOUBLES(3) : NULL, .folds = SIZE(4) ? BYTES(4) : NULL,
        .starts = LONGS(5), .tables = LONGS(6), .flat = DOUBLES(7), .scale = REAL(10),
        .loss = LONGS(11), .gradient = LONGS(12),
    };
    Block *block = malloc(sizeof(Block));
    double *room = malloc(sizeof(double) * ROW_BLOCK * (size_t)(3 * others + 1));
    if (!block || !room) {
        free(block), free(room);
        return NO_MEMORY;
    }
    block->score = room;
    block->share = room + others * ROW_BLOCK;
    block->residual = (int64_t *)(block->share + (others + 1) * ROW_BLOCK);
    evaluate(&pass, block);
    free(block), free(room);
    return 0;
}
KERNEL(evaluate_scores,
       "joint: uint16[n_groups, n_rows]\n"
       "slots: int32[n_wide, n_rows]\n"
       "labels: uint16[n_rows] below n_others + 1\n"
       "weights: float64[n_rows] or empty\n"
       "folds: uint8[n_rows] below n_folds or empty\n"
       "starts: int64[n_groups] below n_slots\n"
       "tables: int64[n_folds]\n"
       "flat: float64[n_others, n_flat]\n"
       "n_slots: int from 1\n"
       "kind: int below 2\n"
       "scale: float\n"
       "loss: int64[2] written\n"
       "gradient: int64[n_others, n_flat] written\n"
       "tables * n_slots + n_slots <= n_flat")
