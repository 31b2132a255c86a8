/* Counting: exact sums in float64, whatever the order of rows.
 * An empty array of weights stands for "every row weighs one". */
#include "arrays.h"

#define BIT_ROWS 16384 /* rows whose bit sets stay in the second-level cache */

/* Count the rows in both of two bit sets, class by class. */
typedef void (*Intersect)(const uint64_t *a, const uint64_t *b, const int64_t *word_start,
                          int64_t n_classes, double *out);

#define INTERSECT(name)                                                                       \
    static void name(const uint64_t *a, const uint64_t *b, const int64_t *word_start,         \
                     int64_t n_classes, double *out)                                          \
    {                                                                                         \
        for (int64_t c = 0; c < n_classes; c++) {                                             \
            uint64_t n = 0;                                                                   \
            for (int64_t w = word_start[c]; w < word_start[c + 1]; w++)                       \
                n += COUNT_BITS(a[w] & b[w]);                                                 \
            out[c] += (double)n;                                                              \
        }                                                                                     \
    }

INTERSECT(intersect_plain)

/* Counting bits is one instruction on processors of the last decade, eight words at a time
 * on the newest. */
#ifdef VERSIONS
TARGET_POPCNT INTERSECT(intersect_popcnt)
TARGET_AVX512 INTERSECT(intersect_avx512)

static Intersect choose_intersect(void)
{
    if (processor.counts_vectors)
        return intersect_avx512;
    return processor.counts_words ? intersect_popcnt : intersect_plain;
}
#else
static Intersect choose_intersect(void) { return intersect_plain; }
#endif

#define CODE uint8_t
#define NAME(x) x##_8
#include "counts_by_type.h"
#undef CODE
#undef NAME
#define CODE uint16_t
#define NAME(x) x##_16
#include "counts_by_type.h"

#define BY_TYPE(k, name, ...) (NARROW(k) ? name##_8(__VA_ARGS__) : name##_16(__VA_ARGS__))

/* Add N(x_i, y); feature i at out[start[i]:] as (arity, class). */
static int64_t run_count_values(Argument *arguments)
{
    BY_TYPE(0, count_values, arguments[0].array.buf, LENGTH(0, 0), LENGTH(0, 1), SHORTS(1),
            SIZE(2) ? DOUBLES(2) : NULL, LONGS(3), NUMBER(4), LONGS(5), DOUBLES(6));
    return 0;
}
KERNEL(count_values,
       "codes: uint8|uint16[n_features, n_rows]\n"
       "labels: uint16[n_rows] below n_classes\n"
       "weights: float64[n_rows] or empty\n"
       "arities: int64[n_features]\n"
       "n_classes: int from 1\n"
       "start: int64[n_features + 1] rising to n_out\n"
       "out: float64[n_out] written\n"
       "arities * n_classes + start <= n_out")

/* Add N(x_i, x_j, y) row by row; pair p at out[start[p]:] as (arity_i, arity_j, class). */
static int64_t run_count_pairs(Argument *arguments)
{
    BY_TYPE(0, count_pairs, arguments[0].array.buf, LENGTH(0, 0), LENGTH(0, 1), SHORTS(1),
            SIZE(2) ? DOUBLES(2) : NULL, LONGS(3), NUMBER(4), LONGS(5), LONGS(6), LENGTH(5, 0),
            LONGS(7), DOUBLES(8));
    return 0;
}
KERNEL(count_pairs,
       "codes: uint8|uint16[n_features, n_rows]\n"
       "labels: uint16[n_rows] below n_classes\n"
       "weights: float64[n_rows] or empty\n"
       "arities: int64[n_features]\n"
       "n_classes: int from 1\n"
       "left: int64[n_pairs] below n_features\n"
       "right: int64[n_pairs] below n_features\n"
       "start: int64[n_pairs] below n_out\n"
       "out: float64[n_out] written\n"
       "start + arities[left] * arities[right] * n_classes <= n_out")

/* The same by bit sets. */
static int64_t run_count_pairs_by_bits(Argument *arguments)
{
    return BY_TYPE(0, count_pairs_by_bits, arguments[0].array.buf, LENGTH(0, 0), LENGTH(0, 1),
                   SHORTS(1), LONGS(2), NUMBER(3), LONGS(4), LONGS(5), LENGTH(4, 0), LONGS(6),
                   DOUBLES(7));
}
KERNEL(count_pairs_by_bits,
       "codes: uint8|uint16[n_features, n_rows]\n"
       "labels: uint16[n_rows] below n_classes\n"
       "arities: int64[n_features]\n"
       "n_classes: int from 1\n"
       "left: int64[n_pairs] below n_features\n"
       "right: int64[n_pairs] below n_features\n"
       "start: int64[n_pairs] below n_out\n"
       "out: float64[n_out] written\n"
       "start + arities[left] * arities[right] * n_classes <= n_out")

/* I(X_i; X_j | Y) in nats from counts (arity_i, arity_j, class); margins is room to work in. */
static double information(const double *joint, int64_t n_i, int64_t n_j, int64_t n_classes,
                          double *margins)
{
    double *n_iy = margins, *n_jy = margins + n_i * n_classes, *n_y = n_jy + n_j * n_classes;
    memset(margins, 0, sizeof(double) * (size_t)((n_i + n_j + 1) * n_classes));
    const double *cell = joint;
    for (int64_t a = 0; a < n_i; a++)
        for (int64_t b = 0; b < n_j; b++)
            for (int64_t c = 0; c < n_classes; c++, cell++) {
                n_iy[a * n_classes + c] += *cell;
                n_jy[b * n_classes + c] += *cell;
                n_y[c] += *cell;
            }
    double total = 0.0, sum = 0.0;
    for (int64_t c = 0; c < n_classes; c++)
        total += n_y[c];
    if (total <= 0)
        return 0.0;
    cell = joint;
    for (int64_t a = 0; a < n_i; a++)
        for (int64_t b = 0; b < n_j; b++)
            for (int64_t c = 0; c < n_classes; c++, cell++)
                if (*cell > 0)
                    sum += *cell * log(*cell * n_y[c] / (n_iy[a * n_classes + c] * n_jy[b * n_classes + c]));
    return sum / total;
}

/* I(X_i; X_j | Y) of every pair. */
static int64_t run_score_information(Argument *arguments)
{
    int64_t n_pairs = LENGTH(1, 0), n_classes = NUMBER(4), widest = 0;
    const int64_t *start = LONGS(1), *left = LONGS(2), *right = LONGS(3);
    for (int64_t p = 0; p < n_pairs; p++)
        widest = most(widest, left[p] + right[p]);
    double *margins = malloc(sizeof(double) * (size_t)((widest + 1) * n_classes));
    if (!margins)
        return NO_MEMORY;
    for (int64_t p = 0; p < n_pairs; p++)
        DOUBLES(5)[p] = information(DOUBLES(0) + start[p], left[p], right[p], n_classes, margins);
    free(margins);
    return 0;
}
KERNEL(score_information,
       "flat: float64[n_flat]\n"
       "start: int64[n_pairs] below n_flat\n"
       "left_arity: int64[n_pairs]\n"
       "right_arity: int64[n_pairs]\n"
       "n_classes: int from 1\n"
       "out: float64[n_pairs] written\n"
       "start + left_arity * right_arity * n_classes <= n_flat")

/* Extend mixed-radix keys; -1 where a member is unknown. */
static int64_t run_extend_keys(Argument *arguments)
{
    BY_TYPE(0, extend_keys, arguments[0].array.buf, LENGTH(0, 1), LONGS(1), LONGS(2), LENGTH(1, 0),
            LONGS(3), LENGTH(3, 0));
    return 0;
}
KERNEL(extend_keys,
       "codes: uint8|uint16[n_features, n_rows]\n"
       "members: int64[n_members] below n_features\n"
       "arities: int64[n_members]\n"
       "keys: int64[n_rows] written")

/* Count keys into a dense array; negative keys are left out. */
static int64_t run_count_keys(Argument *arguments)
{
    const int64_t *keys = LONGS(0);
    const double *weights = SIZE(1) ? DOUBLES(1) : NULL;
    double *out = DOUBLES(2);
    for (int64_t r = 0; r < LENGTH(0, 0); r++)
        if (keys[r] >= 0)
            out[keys[r]] += weights ? weights[r] : 1.0;
    return 0;
}
KERNEL(count_keys,
       "keys: int64[n_rows] below n_out or negative\n"
       "weights: float64[n_rows] or empty\n"
       "out: float64[n_out] written")

/* Distinct keys and counts; returns how many. */
static int64_t run_collapse_keys(Argument *arguments)
{
    const int64_t *keys = LONGS(0);
    const double *weights = SIZE(1) ? DOUBLES(1) : NULL;
    int64_t *out_keys = LONGS(2), last = -1;
    double *out_counts = DOUBLES(3);
    for (int64_t r = 0; r < LENGTH(0, 0); r++) {
        if (keys[r] < 0)
            continue;
        if (last < 0 || out_keys[last] != keys[r]) {
            out_keys[++last] = keys[r];
            out_counts[last] = 0.0;
        }
        out_counts[last] += weights ? weights[r] : 1.0;
    }
    return last + 1;
}
KERNEL(collapse_keys,
       "keys: int64[n_rows]\n"
       "weights: float64[n_rows] or empty\n"
       "out_keys: int64[n_rows] written\n"
       "out_counts: float64[n_rows] written")

/* Merge two sorted runs. */
static int64_t run_merge_runs(Argument *arguments)
{
    const int64_t *keys_a = LONGS(0), *keys_b = LONGS(2);
    const double *counts_a = DOUBLES(1), *counts_b = DOUBLES(3);
    int64_t n_a = LENGTH(0, 0), n_b = LENGTH(2, 0), a = 0, b = 0, n = 0;
    int64_t *out_keys = LONGS(4);
    double *out_counts = DOUBLES(5);
    while (a < n_a || b < n_b) {
        if (b == n_b || (a < n_a && keys_a[a] < keys_b[b])) {
            out_keys[n] = keys_a[a];
            out_counts[n++] = counts_a[a++];
        } else if (a == n_a || keys_b[b] < keys_a[a]) {
            out_keys[n] = keys_b[b];
            out_counts[n++] = counts_b[b++];
        } else {
            out_keys[n] = keys_a[a];
            out_counts[n++] = counts_a[a++] + counts_b[b++];
        }
    }
    return n;
}
KERNEL(merge_runs,
       "keys_a: int64[n_a]\n"
       "counts_a: float64[n_a]\n"
       "keys_b: int64[n_b]\n"
       "counts_b: float64[n_b]\n"
       "out_keys: int64[n_a + n_b] written\n"
       "out_counts: float64[n_a + n_b] written")

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sum the cells of sibling nodes into their parents' cells; returns how many those are.
 * child (n_parents + 1,), start, cell_*: the lower level. For every lower cell, cell_parent
 * is the upper cell with the same value. */
static int64_t run_gather_level(Argument *arguments)
{
    const int64_t *child = LONGS(0), *start = LONGS(1), *cell_value = LONGS(2);
    const double *cell_count = DOUBLES(3);
    int64_t arity = NUMBER(4), n_parents = LENGTH(0, 0) - 1, n = 0;
    int64_t *up_start = LONGS(5), *up_value = LONGS(6), *cell_parent = LONGS(8);
    double *up_count = DOUBLES(7), *count = calloc((size_t)arity + 1, sizeof(double));
    int64_t *place = malloc(sizeof(int64_t) * ((size_t)arity + 1));
    if (!count || !place) {
        free(count), free(place);
        return NO_MEMORY;
    }
    for (int64_t value = 0; value < arity; value++)
        place[value] = -1;
    up_start[0] = 0;
    for (int64_t parent = 0; parent < n_parents; parent++) {
        int64_t first = start[child[parent]], last = start[child[parent + 1]], begin = n;
        for (int64_t cell = first; cell < last; cell++) {
            int64_t value = cell_value[cell];
            if (place[value] < 0) {
                place[value] = 0;
                up_value[n++] = value;
            }
            count[value] += cell_count[cell];
        }
        if ((n - begin) * 16 >= arity) { /* dense: a scan finds them in order */
            int64_t at = begin;
            for (int64_t value = 0; value < arity; value++)
                if (place[value] == 0)
                    up_value[at++] = value;
        } else
            qsort(up_value + begin, (size_t)(n - begin), sizeof(int64_t), ascending);
        for (int64_t cell = begin; cell < n; cell++) {
            place[up_value[cell]] = cell;
            up_count[cell] = count[up_value[cell]];
        }
        for (int64_t cell = first; cell < last; cell++)
            cell_parent[cell] = place[cell_value[cell]];
        for (int64_t cell = begin; cell < n; cell++) {
            place[up_value[cell]] = -1;
            count[up_value[cell]] = 0.0;
        }
        up_start[parent + 1] = n;
    }
    free(count), free(place);
    return n;
}
KERNEL(gather_level,
       "child: int64[n_parents + 1] rising to n_nodes\n"
       "start: int64[n_nodes + 1] rising to n_cells\n"
       "cell_value: int64[n_cells] below arity\n"
       "cell_count: float64[n_cells]\n"
       "arity: int from 1\n"
       "up_start: int64[n_parents + 1] written\n"
       "up_value: int64[n_cells] written\n"
       "up_count: float64[n_cells] written\n"
       "cell_parent: int64[n_cells] written")
