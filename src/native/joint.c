/* The running log-joint of structure search: what one more family would do to the rows, in
 * exact integers.
 *
 * Log-probabilities are even multiples of one unit, so that sums do not depend on their order. A
 * row's log-joint holds one unit more for every class before the true one: a class that ties with
 * the true class then beats it exactly where "the first of equals wins" says so, and a row is
 * right when nothing exceeds the true class. Tables are indexed (fold, context, value, class); the
 * last value of the child stands for "unknown". */
#include "arrays.h"

/* Contexts are codes, or numbers of 64 bits where several parents are composed. */
INLINE int64_t read_code(const void *codes, int64_t size, int64_t r)
{
    return size == 1   ? ((const uint8_t *)codes)[r]
           : size == 2 ? ((const uint16_t *)codes)[r]
                       : ((const int64_t *)codes)[r];
}

#define ITEM(k) ((int64_t)arguments[k].array.itemsize)
#define ANY(k) ((const void *)arguments[k].array.buf)

/* Run a loop with the sizes of contexts and codes known to the compiler. */
#define BY_SIZES(context, child, LOOP)                                                        \
    switch (3 * (context == 1 ? 0 : context == 2 ? 1 : 2) + (child == 1 ? 0 : child == 2 ? 1 : 2)) { \
    case 0: LOOP(1, 1) break;                                                                 \
    case 1: LOOP(1, 2) break;                                                                 \
    case 3: LOOP(2, 1) break;                                                                 \
    case 4: LOOP(2, 2) break;                                                                 \
    case 6: LOOP(8, 1) break;                                                                 \
    default: LOOP(8, 2) break;                                                                \
    }

typedef struct {
    int64_t n_contexts, width, n_classes;
} Shape;

INLINE int64_t cell_of(const Shape *shape, int64_t fold, int64_t context, int64_t value)
{
    return ((fold * shape->n_contexts + context) * shape->width + value) * shape->n_classes;
}

/* Add every row to counts. */
static int64_t run_count_family(Argument *arguments)
{
    Shape shape = {LENGTH(5, 1), LENGTH(5, 2), LENGTH(5, 3)};
    const void *context = ANY(0), *child = ANY(1);
    const uint16_t *labels = SHORTS(2);
    const double *weights = DOUBLES(3);
    const uint8_t *folds = BYTES(4);
    double *counts = DOUBLES(5);
    int64_t n_rows = LENGTH(2, 0);
#define LOOP(A, B)                                                                            \
    for (int64_t r = 0; r < n_rows; r++) {                                                    \
        int64_t at = cell_of(&shape, folds[r], read_code(context, A, r), read_code(child, B, r)); \
        counts[at + labels[r]] += weights[r];                                                 \
    }
    BY_SIZES(ITEM(0), ITEM(1), LOOP)
#undef LOOP
    return 0;
}
KERNEL(count_family,
       "context: uint8|uint16|int64[n_rows] below n_contexts\n"
       "child: uint8|uint16[n_rows] below width\n"
       "labels: uint16[n_rows] below n_classes\n"
       "weights: float64[n_rows]\n"
       "folds: uint8[n_rows] below n_folds\n"
       "counts: float64[n_folds, n_contexts, width, n_classes] written")

/* Turn counts into log-frequencies in units, rounded to even numbers. With more than one fold each
 * fold's table comes from the rows of the others. Zero frequencies become epsilon, then all are
 * normalised. A context never seen with a class (or not known) answers as in shorter, the table
 * without the last parent, whose context is context / ratio. */
static int64_t run_log_table(Argument *arguments)
{
    int64_t n_folds = LENGTH(0, 0), n_contexts = LENGTH(0, 1), width = LENGTH(0, 2);
    int64_t n = LENGTH(0, 3), arity = width - 1, ratio = NUMBER(3), fold = n_contexts * width * n;
    Shape less = {LENGTH(2, 1), width, n};
    const double *counts = DOUBLES(0);
    double epsilon = REAL(4), half = REAL(5);
    double *column = malloc(sizeof(double) * (size_t)width);
    if (!column)
        return NO_MEMORY;
    for (int64_t f = 0; f < n_folds; f++)
        for (int64_t k = 0; k < n_contexts; k++)
            for (int64_t c = 0; c < n; c++) {
                int64_t start = k * width * n + c, zeros = 0;
                int32_t *out = INTS(6) + f * fold + start;
                double total = 0.0;
                for (int64_t x = 0; BYTES(1)[k] && x < arity; x++) {
                    double count = counts[f * fold + start + x * n];
                    if (n_folds > 1) {
                        count = -count;
                        for (int64_t g = 0; g < n_folds; g++)
                            count += counts[g * fold + start + x * n];
                    }
                    column[x] = count;
                    total += count;
                    zeros += count == 0.0;
                }
                if (total == 0.0) {
                    const int32_t *shorter = INTS(2) + cell_of(&less, f, k / ratio, 0) + c;
                    for (int64_t x = 0; x < width; x++)
                        out[x * n] = shorter[x * n];
                    continue;
                }
                for (int64_t x = 0; x < arity; x++) {
                    double p = column[x] > 0.0 ? column[x] / total : epsilon;
                    double units = rint(half * log(p / (1.0 + epsilon * (double)zeros)));
                    out[x * n] = 2 * (int32_t)units;
                }
                out[arity * n] = 0;
            }
    free(column);
    return 0;
}
KERNEL(log_table,
       "counts: float64[n_folds, n_contexts, width, n_classes]\n"
       "known: uint8[n_contexts]\n"
       "shorter: int32[n_folds, n_shorter, width, n_classes]\n"
       "ratio: int from 1\n"
       "epsilon: float\n"
       "half: float\n"
       "out: int32[n_folds, n_contexts, width, n_classes] written\n"
       "1 <= width\n"
       "n_contexts <= n_shorter * ratio")

/* Express a table as the change from the child's current one, which has one context, and write to
 * adverse by how much the change favours the most favoured class over each. reach: over the cells
 * in which rows were counted, the farthest that a true class can gain on another, and lose. */
static int64_t run_replace_table(Argument *arguments)
{
    int64_t n_folds = LENGTH(0, 0), n_contexts = LENGTH(0, 1), width = LENGTH(0, 2), n = LENGTH(0, 3);
    int64_t most_gained = 0, most_lost = 0;
    for (int64_t f = 0; f < n_folds; f++)
        for (int64_t at = 0; at < n_contexts * width; at++) {
            int64_t start = (f * n_contexts * width + at) * n;
            const int32_t *table = INTS(0) + start;
            const int32_t *current = INTS(1) + (f * width + at % width) * n;
            int32_t *change = INTS(3) + start, *adverse = INTS(4) + start;
            int32_t top = table[0] - current[0], bottom = top;
            for (int64_t c = 0; c < n; c++) {
                int32_t moved = table[c] - current[c];
                change[c] = moved;
                top = moved > top ? moved : top;
                bottom = moved < bottom ? moved : bottom;
            }
            for (int64_t c = 0; c < n; c++) {
                adverse[c] = top - change[c];
                if (DOUBLES(2)[start + c] > 0.0) {
                    most_gained = most(most_gained, change[c] - bottom);
                    most_lost = most(most_lost, top - change[c]);
                }
            }
        }
    LONGS(5)[0] = most_gained, LONGS(5)[1] = most_lost;
    return 0;
}
KERNEL(replace_table,
       "table: int32[n_folds, n_contexts, width, n_classes]\n"
       "current: int32[n_folds, 1, width, n_classes]\n"
       "counts: float64[n_folds, n_contexts, width, n_classes]\n"
       "change: int32[n_folds, n_contexts, width, n_classes] written\n"
       "adverse: int32[n_folds, n_contexts, width, n_classes] written\n"
       "reach: int64[2] written\n"
       "1 <= n_classes")

/* Add a family's table to the log-joint. */
static int64_t run_add_change(Argument *arguments)
{
    Shape shape = {LENGTH(3, 1), LENGTH(3, 2), LENGTH(3, 3)};
    int64_t n = shape.n_classes, n_rows = LENGTH(4, 0);
    const void *context = ANY(0), *child = ANY(1);
    const uint8_t *folds = BYTES(2);
    const int32_t *change = INTS(3);
    int32_t *joint = INTS(4);
#define LOOP(A, B)                                                                            \
    for (int64_t r = 0; r < n_rows; r++) {                                                    \
        int64_t at = cell_of(&shape, folds[r], read_code(context, A, r), read_code(child, B, r)); \
        for (int64_t c = 0; c < n; c++)                                                       \
            joint[r * n + c] += change[at + c];                                               \
    }
    BY_SIZES(ITEM(0), ITEM(1), LOOP)
#undef LOOP
    return 0;
}
KERNEL(add_change,
       "context: uint8|uint16|int64[n_rows] below n_contexts\n"
       "child: uint8|uint16[n_rows] below width\n"
       "folds: uint8[n_rows] below n_folds\n"
       "change: int32[n_folds, n_contexts, width, n_classes]\n"
       "log_joint: int32[n_rows, n_classes] written")

/* Write each row's lead of the true class over its strongest rival, and that rival. */
static int64_t run_find_margins(Argument *arguments)
{
    int64_t n = LENGTH(0, 1), n_rows = LENGTH(0, 0);
    const uint16_t *labels = SHORTS(1);
    int32_t *margin = INTS(2);
    uint16_t *rival = SHORTS(3);
    const int32_t *joint = INTS(0);
    for (int64_t r = 0; r < n_rows; r++, joint += n) {
        int64_t own = labels[r], best = -1;
        for (int64_t c = 0; c < n; c++)
            if (c != own && (best < 0 || joint[c] > joint[best]))
                best = c;
        margin[r] = best < 0 ? INT32_MAX : joint[own] - joint[best];
        rival[r] = (uint16_t)(best < 0 ? own : best);
    }
    return 0;
}
KERNEL(find_margins,
       "log_joint: int32[n_rows, n_classes]\n"
       "labels: uint16[n_rows] below n_classes\n"
       "margin: int32[n_rows] written\n"
       "rival: uint16[n_rows] written")

/* The rows by rising margin, the wrong ones first. */
typedef struct {
    const int32_t *log_joint;
    const uint16_t *labels;
    const double *weights;
    const uint8_t *folds;
    const int32_t *margin;
    const uint16_t *rival;
    int64_t n_rows, n_wrong;
} Rows;

static int is_right(const int32_t *joint, const int32_t *row, int64_t n, int64_t own)
{
    int64_t lead = (int64_t)joint[own] + row[own];
    for (int64_t c = 0; c < n; c++)
        if (c != own && (int64_t)joint[c] + row[c] > lead)
            return 0;
    return 1;
}

/* By how much a change raises the weight of rows that are right. What the wrong rows gain bounds
 * the whole, and every right row that turns wrong lowers the bound; once it is at most `floor` it
 * is returned as it stands. Rows first .. last are within reach of the change. Most are settled by
 * one comparison: a wrong row whose rival stays ahead is still wrong, a right row whose margin
 * covers the most adverse move is still right. */
INLINE double gain_of(const Rows *rows, int64_t first, int64_t last, const void *context,
                      int64_t context_size, const void *child, int64_t child_size,
                      const Shape *shape, const int32_t *change, const int32_t *adverse, double floor)
{
    int64_t n = shape->n_classes;
    double gain = 0.0;
    for (int64_t r = first; r < rows->n_wrong; r++) {
        int64_t own = rows->labels[r];
        const int32_t *row = change + cell_of(shape, rows->folds[r], read_code(context, context_size, r),
                                              read_code(child, child_size, r));
        if ((int64_t)rows->margin[r] + row[own] - row[rows->rival[r]] >= 0 &&
            is_right(rows->log_joint + r * n, row, n, own))
            gain += rows->weights[r];
    }
    if (gain <= floor)
        return gain;
    for (int64_t r = rows->n_wrong; r < last; r++) {
        int64_t own = rows->labels[r];
        int64_t at = cell_of(shape, rows->folds[r], read_code(context, context_size, r),
                             read_code(child, child_size, r));
        if (rows->margin[r] < adverse[at + own] &&
            !is_right(rows->log_joint + r * n, change + at, n, own)) {
            gain -= rows->weights[r];
            if (gain <= floor)
                return gain;
        }
    }
    return gain;
}

/* The first row whose margin is at least `value`. */
static int64_t search_margin(const Rows *rows, int64_t value)
{
    int64_t first = 0, last = rows->n_rows;
    while (first < last) {
        int64_t middle = (first + last) / 2;
        if (rows->margin[middle] < value)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

#define ROWS {INTS(0), SHORTS(1), DOUBLES(2), BYTES(3), INTS(4), SHORTS(5), LENGTH(1, 0), NUMBER(6)}

/* Write the gain in the weight of right rows by one family's change to out. */
static int64_t run_rate_gain(Argument *arguments)
{
    Rows rows = ROWS;
    Shape shape = {LENGTH(11, 1), LENGTH(11, 2), LENGTH(11, 3)};
    int64_t first = least(search_margin(&rows, -NUMBER(7)), rows.n_wrong);
    int64_t last = most(search_margin(&rows, NUMBER(8)), rows.n_wrong);
#define LOOP(A, B)                                                                            \
    DOUBLES(14)[0] = gain_of(&rows, first, last, ANY(9), A, ANY(10), B, &shape, INTS(11), INTS(12), REAL(13));
    BY_SIZES(ITEM(9), ITEM(10), LOOP)
#undef LOOP
    return 0;
}
#define DESCRIBED_ROWS                                                                        \
    "log_joint: int32[n_rows, n_classes]\n"                                                   \
    "labels: uint16[n_rows] below n_classes\n"                                                \
    "weights: float64[n_rows]\n"                                                              \
    "folds: uint8[n_rows] below n_folds\n"                                                    \
    "margin: int32[n_rows]\n"                                                                 \
    "rival: uint16[n_rows]\n"                                                                 \
    "n_wrong: int below n_rows + 1\n"
KERNEL(rate_gain,
       DESCRIBED_ROWS
       "most_gained: int from 0\n"
       "most_lost: int from 0\n"
       "context: uint8|uint16|int64[n_rows]\n"
       "child: uint8|uint16[n_rows]\n"
       "change: int32[n_folds, n_contexts, width, n_classes]\n"
       "adverse: int32[n_folds, n_contexts, width, n_classes]\n"
       "floor: float\n"
       "out: float64[1] written")

/* Write the same for a child with each of some single parents to out. start, change, adverse,
 * most_gained, most_lost: the changes of the child under each feature, end to end. With prune the
 * best so far is the floor of those after it. */
static int64_t run_rate_gains(Argument *arguments)
{
    Rows rows = ROWS;
    int64_t child = NUMBER(8), size = ITEM(7) * rows.n_rows;
    const int64_t *parents = LONGS(9), *widths = LONGS(10), *start = LONGS(11);
    const char *codes = ANY(7);
    double best = REAL(17), *out = DOUBLES(19);
    for (int64_t j = 0; j < LENGTH(9, 0); j++) {
        int64_t p = parents[j];
        Shape shape = {widths[p], widths[child], LENGTH(0, 1)};
        const int32_t *change = INTS(12) + start[p], *adverse = INTS(13) + start[p];
        int64_t first = least(search_margin(&rows, -LONGS(14)[p]), rows.n_wrong);
        int64_t last = most(search_margin(&rows, LONGS(15)[p]), rows.n_wrong);
        out[j] = NARROW(7) ? gain_of(&rows, first, last, codes + p * size, 1, codes + child * size, 1,
                                     &shape, change, adverse, best)
                           : gain_of(&rows, first, last, codes + p * size, 2, codes + child * size, 2,
                                     &shape, change, adverse, best);
        if (NUMBER(18))
            best = high(best, out[j]);
    }
    return 0;
}
KERNEL(rate_gains,
       DESCRIBED_ROWS
       "codes: uint8|uint16[n_features, n_rows]\n"
       "child: int below n_features\n"
       "parents: int64[n_parents] below n_features\n"
       "widths: int64[n_features]\n"
       "start: int64[n_features + 1] rising to n_changes\n"
       "change: int32[n_changes]\n"
       "adverse: int32[n_changes]\n"
       "most_gained: int64[n_features]\n"
       "most_lost: int64[n_features]\n"
       "n_folds: int from 1\n"
       "floor: float\n"
       "prune: int\n"
       "out: float64[n_parents] written")

/* log P(own | x) of one row; classes far behind the true one add nothing. */
static double log_posterior(const int32_t *joint, const int32_t *row, int64_t n, int64_t own,
                            double unit)
{
    int64_t mine = ((int64_t)joint[own] & ~(int64_t)1) + (row ? row[own] : 0);
    double total = 1.0;
    for (int64_t c = 0; c < n; c++)
        if (c != own) {
            int64_t other = ((int64_t)joint[c] & ~(int64_t)1) + (row ? row[c] : 0);
            double lead = unit * (double)(other - mine);
            if (lead > 600.0) /* exp would overflow soon; beyond doubt this class has it all */
                return -lead;
            if (lead > -45.0)
                total += exp(lead);
        }
    return -log(total);
}

/* Write by how much a change raises the conditional log-likelihood to out, in multiples of a step;
 * unit and step are in nats. Each row's term is rounded to a multiple of the step, so the sum is
 * exact in any order. Terms are never positive: the running sum is a bound, written as it stands
 * once it is at most `floor`. */
static int64_t run_likelihood_gain(Argument *arguments)
{
    Shape shape = {LENGTH(9, 1), LENGTH(9, 2), LENGTH(9, 3)};
    int64_t n = shape.n_classes, a = ITEM(7), b = ITEM(8), n_rows = LENGTH(0, 0);
    const void *context = ANY(7), *child = ANY(8);
    const int32_t *joint = INTS(0), *change = INTS(9);
    double gain = -REAL(6), unit = REAL(4), step = REAL(5), floor = REAL(10);
    for (int64_t r = 0; r < n_rows; r++) {
        int64_t at = cell_of(&shape, BYTES(3)[r], read_code(context, a, r), read_code(child, b, r));
        double term = log_posterior(joint + r * n, change + at, n, SHORTS(1)[r], unit);
        gain += rint(DOUBLES(2)[r] * term / step);
        if (gain <= floor)
            break;
    }
    DOUBLES(11)[0] = gain;
    return 0;
}
KERNEL(likelihood_gain,
       "log_joint: int32[n_rows, n_classes]\n"
       "labels: uint16[n_rows] below n_classes\n"
       "weights: float64[n_rows]\n"
       "folds: uint8[n_rows] below n_folds\n"
       "unit: float\n"
       "step: float\n"
       "score: float\n"
       "context: uint8|uint16|int64[n_rows] below n_contexts\n"
       "child: uint8|uint16[n_rows] below width\n"
       "change: int32[n_folds, n_contexts, width, n_classes]\n"
       "floor: float\n"
       "out: float64[1] written")

/* Write the conditional log-likelihood to out, in multiples of the step. */
static int64_t run_likelihood(Argument *arguments)
{
    int64_t n = LENGTH(0, 1);
    double score = 0.0;
    for (int64_t r = 0; r < LENGTH(0, 0); r++) {
        double term = log_posterior(INTS(0) + r * n, NULL, n, SHORTS(1)[r], REAL(3));
        score += rint(DOUBLES(2)[r] * term / REAL(4));
    }
    DOUBLES(5)[0] = score;
    return 0;
}
KERNEL(likelihood,
       "log_joint: int32[n_rows, n_classes]\n"
       "labels: uint16[n_rows] below n_classes\n"
       "weights: float64[n_rows]\n"
       "unit: float\n"
       "step: float\n"
       "out: float64[1] written")
