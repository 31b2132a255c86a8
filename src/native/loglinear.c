/* Additive scores over rows: where a row's scores stand, their loss and derivatives, the
 * step of an optimiser, and what tables of pairs would add.
 *
 * A row reads one cell of every table; its score is that of the class node, cell 0, plus one
 * number a table. Losses and derivatives are rounded to a grid on which all of their sums
 * are exact, so that they depend neither on the chunking nor on the number of threads. */
#include "maths.h"

#define ROW_BLOCK 128
#define STRIP 8            /* columns that are summed at a time, in registers */
#define TILE 8             /* rows of a product, likewise */
#define VECTORS 4          /* and vectors */
#define MOST_LOST 1000.0   /* nats of one row: sums of more would not be exact */
#define FINER 1024.0       /* steps of the fine grid of the loss in one of the slopes */
#define COARSE 1048576.0   /* and in one of its coarse grid */
#define MOST_KNOWN 32      /* steps that the optimiser remembers */
#define SUM_DIGITS 1e9     /* sums along a slant are rounded to this many steps in one */
#define TRACE 1e-9         /* the weight of a joint value without rows */

typedef struct {
    int64_t n_rows, n_tables, n_wide, n; /* n: columns of scores */
    const uint16_t *cells;               /* (n_rows, n_tables), counted from starts */
    const int64_t *starts;               /* (n_tables,) */
    const int32_t *wide;                 /* (n_rows, n_wide), cells themselves */
    const uint16_t *labels;              /* (n_rows,) */
    const double *weights;               /* NULL: every row weighs one */
    const uint8_t *folds;                /* NULL: all rows are of one fold */
    const int64_t *sets;                 /* (n_folds,), the set that a fold reads; -1: none */
    int64_t size, squared;               /* numbers of one set; whether errors are squared */
    const double *scores;                /* (n_sets, n_cells, n) */
    double scale, *loss, *slopes;
} Sum;

typedef struct {
    int64_t row[ROW_BLOCK];   /* the rows that count */
    int64_t shift[ROW_BLOCK]; /* where the set that each reads begins */
    double top[ROW_BLOCK], own[ROW_BLOCK], norm[ROW_BLOCK], weight[ROW_BLOCK], lost[ROW_BLOCK];
    double *total; /* (ROW_BLOCK, n) */
} Block;

/* The nearest whole number, of values below 2^51 in size. */
INLINE double whole(double value) { return (value + ROUNDER) - ROUNDER; }

/* Find the block's rows that count, the sets they read and their weights; returns how many. */
static int64_t choose_rows(const Sum *sum, int64_t first, Block *block)
{
    int64_t size = least(ROW_BLOCK, sum->n_rows - first), n = 0;
    for (int64_t r = first; r < first + size; r++) {
        int64_t set = sum->sets[sum->folds ? sum->folds[r] : 0];
        block->row[n] = r;
        block->shift[n] = set * sum->size;
        n += set >= 0;
    }
    for (int64_t k = 0; k < n; k++)
        block->weight[k] = sum->weights ? sum->weights[block->row[k]] : 1.0;
    return n;
}

/* Some columns of one row's scores, of the set that starts at `shift`. `width` is known to
 * the compiler. */
INLINE void gather_strip(const Sum *sum, int64_t row, int64_t shift, int64_t column, int width,
                         double *out)
{
    double total[STRIP];
    const uint16_t *cell = sum->cells + row * sum->n_tables;
    const int32_t *wide = sum->wide + row * sum->n_wide;
    const double *scores = sum->scores + shift + column;
    for (int c = 0; c < width; c++)
        total[c] = scores[c];
    for (int64_t t = 0; t < sum->n_tables; t++) {
        const double *add = scores + (sum->starts[t] + cell[t]) * sum->n;
        for (int c = 0; c < width; c++)
            total[c] += add[c];
    }
    for (int64_t t = 0; t < sum->n_wide; t++) {
        const double *add = scores + wide[t] * sum->n;
        for (int c = 0; c < width; c++)
            total[c] += add[c];
    }
    for (int c = 0; c < width; c++)
        out[column + c] = total[c];
}

/* Add some columns of one row's slopes. */
INLINE void scatter_strip(const Sum *sum, int64_t row, int64_t shift, int64_t column, int width,
                          const double *slope)
{
    double mine[STRIP], *slopes = sum->slopes + shift + column;
    const uint16_t *cell = sum->cells + row * sum->n_tables;
    const int32_t *wide = sum->wide + row * sum->n_wide;
    for (int c = 0; c < width; c++)
        slopes[c] += mine[c] = slope[column + c];
    for (int64_t t = 0; t < sum->n_tables; t++) {
        double *to = slopes + (sum->starts[t] + cell[t]) * sum->n;
        for (int c = 0; c < width; c++)
            to[c] += mine[c];
    }
    for (int64_t t = 0; t < sum->n_wide; t++) {
        double *to = slopes + wide[t] * sum->n;
        for (int c = 0; c < width; c++)
            to[c] += mine[c];
    }
}

#define IN_STRIPS(work, row, shift, numbers)                                                  \
    {                                                                                         \
        int64_t column = 0;                                                                   \
        for (; column + STRIP <= sum->n; column += STRIP)                                     \
            work(sum, row, shift, column, STRIP, numbers);                                    \
        switch (sum->n - column) {                                                            \
        case 7: work(sum, row, shift, column, 7, numbers); break;                             \
        case 6: work(sum, row, shift, column, 6, numbers); break;                             \
        case 5: work(sum, row, shift, column, 5, numbers); break;                             \
        case 4: work(sum, row, shift, column, 4, numbers); break;                             \
        case 3: work(sum, row, shift, column, 3, numbers); break;                             \
        case 2: work(sum, row, shift, column, 2, numbers); break;                             \
        case 1: work(sum, row, shift, column, 1, numbers); break;                             \
        }                                                                                     \
    }

/* One column: four sums at a time, since each waits for its last addition. */
INLINE double gather_one(const Sum *sum, int64_t row, int64_t shift)
{
    const int64_t *starts = sum->starts;
    const uint16_t *cell = sum->cells + row * sum->n_tables;
    const int32_t *wide = sum->wide + row * sum->n_wide;
    const double *scores = sum->scores + shift;
    double a = scores[0], b = 0.0, c = 0.0, d = 0.0;
    int64_t t = 0;
    for (; t + 4 <= sum->n_tables; t += 4) {
        a += scores[starts[t] + cell[t]];
        b += scores[starts[t + 1] + cell[t + 1]];
        c += scores[starts[t + 2] + cell[t + 2]];
        d += scores[starts[t + 3] + cell[t + 3]];
    }
    for (; t < sum->n_tables; t++)
        a += scores[starts[t] + cell[t]];
    for (t = 0; t < sum->n_wide; t++)
        b += scores[wide[t]];
    return (a + b) + (c + d);
}

/* Two classes: one column, the score of the second less that of the first. The squared error
 * of the posterior is twice that of either class. */
WIDE(void, evaluate_two, (const Sum *sum, Block *block, int64_t size), (sum, block, size))
{
    double *total = block->total, *small = block->norm, *slope = block->top;
    for (int64_t r = 0; r < size; r++)
        total[r] = gather_one(sum, block->row[r], block->shift[r]);
    for (int64_t r = 0; r < size; r++)
        block->own[r] = 2.0 * sum->labels[block->row[r]] - 1.0; /* the side of the row's class */
    for (int64_t r = 0; r < size; r++)
        total[r] *= block->own[r];
    for (int64_t r = 0; r < size; r++)
        small[r] = exponential(-fabs(total[r]));
    if (sum->squared)
        for (int64_t r = 0; r < size; r++) {
            double miss = (total[r] < 0 ? 1.0 : small[r]) / (1.0 + small[r]);
            double hit = (total[r] < 0 ? small[r] : 1.0) / (1.0 + small[r]);
            block->lost[r] = 2.0 * miss * miss;
            slope[r] = 4.0 * miss * miss * hit;
        }
    else
        for (int64_t r = 0; r < size; r++) {
            block->lost[r] = logarithm_1p(small[r]) + high(-total[r], 0.0);
            slope[r] = (total[r] < 0 ? 1.0 : small[r]) / (1.0 + small[r]);
        }
    for (int64_t r = 0; r < size; r++)
        slope[r] = whole(-block->own[r] * slope[r] * block->weight[r] * sum->scale);
    for (int64_t r = 0; r < size; r++) {
        const uint16_t *cell = sum->cells + block->row[r] * sum->n_tables;
        const int32_t *wide = sum->wide + block->row[r] * sum->n_wide;
        double *slopes = sum->slopes + block->shift[r];
        slopes[0] += slope[r];
        for (int64_t t = 0; t < sum->n_tables; t++)
            slopes[sum->starts[t] + cell[t]] += slope[r];
        for (int64_t t = 0; t < sum->n_wide; t++)
            slopes[wide[t]] += slope[r];
    }
}

/* Turn a row's posteriors times `norm` into the slopes of its squared error; returns that. */
static double square_error(double *row, int64_t n, int64_t label, double norm)
{
    double others = 0.0, lost = 0.0, mean = 0.0;
    for (int64_t c = 0; c < n; c++)
        others += c == label ? 0.0 : row[c];
    for (int64_t c = 0; c < n; c++) {
        double miss = (c == label ? -others : row[c]) / norm;
        lost += miss * miss;
        mean += miss * row[c] / norm;
    }
    for (int64_t c = 0; c < n; c++)
        row[c] *= 2.0 * ((c == label ? -others : row[c]) / norm - mean);
    return lost;
}

/* More classes: one column each. */
WIDE(void, evaluate_many, (const Sum *sum, Block *block, int64_t size), (sum, block, size))
{
    int64_t n = sum->n;
    double *total = block->total;
    for (int64_t r = 0; r < size; r++)
        IN_STRIPS(gather_strip, block->row[r], block->shift[r], total + r * n)
    for (int64_t r = 0; r < size; r++) {
        double *row = total + r * n, top = row[0];
        for (int64_t c = 1; c < n; c++)
            top = high(top, row[c]);
        for (int64_t c = 0; c < n; c++)
            row[c] -= top;
        block->own[r] = row[sum->labels[block->row[r]]];
    }
    for (int64_t k = 0; k < size * n; k++)
        total[k] = exponential(total[k]);
    for (int64_t r = 0; r < size; r++) {
        double norm = 0.0;
        for (int64_t c = 0; c < n; c++)
            norm += total[r * n + c];
        block->norm[r] = norm;
    }
    for (int64_t r = 0; r < size; r++) {
        int64_t label = sum->labels[block->row[r]];
        if (sum->squared)
            block->lost[r] = square_error(total + r * n, n, label, block->norm[r]);
        else {
            block->lost[r] = logarithm_1p(high(block->norm[r] - 1.0, 0.0)) - block->own[r];
            total[r * n + label] -= block->norm[r];
        }
    }
    for (int64_t r = 0; r < size; r++) {
        double *row = total + r * n, scale = block->weight[r] * sum->scale;
        for (int64_t c = 0; c < n; c++)
            row[c] = whole(row[c] / block->norm[r] * scale);
    }
    for (int64_t r = 0; r < size; r++)
        IN_STRIPS(scatter_strip, block->row[r], block->shift[r], total + r * n)
}

/* Add the loss of some rows to loss, in whole multiples of COARSE / (FINER scale) and of
 * 1 / (FINER scale), and its derivatives by the scores to slopes, in multiples of 1 / scale. A
 * row of fold f reads the set sets[f] of the scores, and does not count where that is -1; all
 * rows are of fold 0 where folds are empty. */
static int64_t run_evaluate_sums(Argument *arguments)
{
    Sum sum = {.n_rows = LENGTH(0, 0), .n_tables = LENGTH(0, 1), .n_wide = LENGTH(2, 1),
               .n = LENGTH(7, 2), .cells = SHORTS(0), .starts = LONGS(1), .wide = INTS(2),
               .labels = SHORTS(3), .weights = SIZE(4) ? DOUBLES(4) : NULL,
               .folds = SIZE(5) ? BYTES(5) : NULL, .sets = LONGS(6),
               .size = LENGTH(7, 1) * LENGTH(7, 2), .squared = NUMBER(8), .scores = DOUBLES(7),
               .scale = REAL(9), .loss = DOUBLES(10), .slopes = DOUBLES(11)};
    Block block;
    block.total = malloc(sizeof(double) * (ROW_BLOCK * (size_t)sum.n + 1));
    if (!block.total)
        return NO_MEMORY;
    for (int64_t first = 0; first < sum.n_rows; first += ROW_BLOCK) {
        int64_t size = choose_rows(&sum, first, &block);
        if (sum.n == 1)
            evaluate_two(&sum, &block, size);
        else
            evaluate_many(&sum, &block, size);
        for (int64_t r = 0; r < size; r++) {
            double lost = low(block.lost[r], MOST_LOST) * block.weight[r] * sum.scale * FINER;
            double coarse = whole(lost / COARSE);
            sum.loss[0] += coarse;
            sum.loss[1] += whole(lost - coarse * COARSE);
        }
    }
    free(block.total);
    return 0;
}
KERNEL(evaluate_sums,
       "cells: uint16[n_rows, n_tables]\n"
       "starts: int64[n_tables] below n_cells\n"
       "wide: int32[n_rows, n_wide] below n_cells\n"
       "labels: uint16[n_rows] below n_scores + 1\n"
       "weights: float64[n_rows] or empty\n"
       "folds: uint8[n_rows] below n_folds or empty\n"
       "sets: int64[n_folds]\n"
       "scores: float64[n_sets, n_cells, n_scores]\n"
       "squared: int below 2\n"
       "scale: float\n"
       "loss: float64[2] written\n"
       "slopes: float64[n_sets, n_cells, n_scores] written\n"
       "sets + 1 <= n_sets")

/* Write the sum of each row's scores to out (n_rows, n_columns). */
static int64_t run_add_sums(Argument *arguments)
{
    Sum all = {.n_rows = LENGTH(0, 0), .n_tables = LENGTH(0, 1), .n_wide = LENGTH(2, 1),
               .n = LENGTH(3, 1), .cells = SHORTS(0), .starts = LONGS(1), .wide = INTS(2),
               .scores = DOUBLES(3)};
    const Sum *sum = &all;
    for (int64_t r = 0; r < sum->n_rows; r++) {
        double *out = DOUBLES(4) + r * sum->n;
        if (sum->n == 1)
            *out = gather_one(sum, r, 0);
        else
            IN_STRIPS(gather_strip, r, 0, out)
    }
    return 0;
}
KERNEL(add_sums,
       "cells: uint16[n_rows, n_tables]\n"
       "starts: int64[n_tables] below n_cells\n"
       "wide: int32[n_rows, n_wide] below n_cells\n"
       "scores: float64[n_cells, n_scores]\n"
       "out: float64[n_rows, n_scores] written")

/* Add the numbers of each row to its cells of out: the transpose of `add_sums`. */
static int64_t run_share_rows(Argument *arguments)
{
    Sum all = {.n_rows = LENGTH(0, 0), .n_tables = LENGTH(0, 1), .n_wide = LENGTH(2, 1),
               .n = LENGTH(3, 1), .cells = SHORTS(0), .starts = LONGS(1), .wide = INTS(2),
               .slopes = DOUBLES(4)};
    const Sum *sum = &all;
    for (int64_t r = 0; r < sum->n_rows; r++)
        IN_STRIPS(scatter_strip, r, 0, DOUBLES(3) + r * sum->n)
    return 0;
}
KERNEL(share_rows,
       "cells: uint16[n_rows, n_tables]\n"
       "starts: int64[n_tables] below n_cells\n"
       "wide: int32[n_rows, n_wide] below n_cells\n"
       "numbers: float64[n_rows, n_columns]\n"
       "out: float64[n_cells, n_columns] written")

/* Write the sums of values (n_cells, n) to out (n_sums, n): sum i has the cells sources[k] with
 * ends[i] <= k < ends[i + 1]. */
WIDE(void, sum_sources,
     (const int64_t *ends, const int32_t *sources, const double *values, int64_t n_sums, int64_t n,
      double *out),
     (ends, sources, values, n_sums, n, out))
{
    for (int64_t i = 0; i < n_sums; i++, out += n) {
        for (int64_t c = 0; c < n; c++)
            out[c] = 0.0;
        for (int64_t k = ends[i]; k < ends[i + 1]; k++)
            for (int64_t c = 0; c < n; c++)
                out[c] += values[sources[k] * n + c];
    }
}

static int64_t run_sum_cells(Argument *arguments)
{
    sum_sources(LONGS(0), INTS(1), DOUBLES(2), LENGTH(3, 0), LENGTH(3, 1), DOUBLES(3));
    return 0;
}
KERNEL(sum_cells,
       "ends: int64[n_sums + 1] rising to n_sources\n"
       "sources: int32[n_sources] below n_cells\n"
       "values: float64[n_cells, n_columns]\n"
       "out: float64[n_sums, n_columns] written")

/* Add the derivatives by sums (n_sums, n) to those by their sources, out (n_cells, n). */
WIDE(void, share_sums,
     (const int64_t *ends, const int32_t *sources, const double *slopes, int64_t n_sums, int64_t n,
      double *out),
     (ends, sources, slopes, n_sums, n, out))
{
    for (int64_t i = 0; i < n_sums; i++, slopes += n)
        for (int64_t k = ends[i]; k < ends[i + 1]; k++)
            for (int64_t c = 0; c < n; c++)
                out[sources[k] * n + c] += slopes[c];
}

static int64_t run_share_slopes(Argument *arguments)
{
    share_sums(LONGS(0), INTS(1), DOUBLES(2), LENGTH(2, 0), LENGTH(2, 1), DOUBLES(3));
    return 0;
}
KERNEL(share_slopes,
       "ends: int64[n_sums + 1] rising to n_sources\n"
       "sources: int32[n_sources] below n_cells\n"
       "slopes: float64[n_sums, n_columns]\n"
       "out: float64[n_cells, n_columns] written")

/* The product of two vectors: eight sums at a time, in a fixed order. */
INLINE double sum_products(const double *a, const double *b, int64_t n)
{
    double part[8] = {0};
    int64_t k = 0;
    for (; k + 8 <= n; k += 8)
        for (int j = 0; j < 8; j++)
            part[j] += a[k + j] * b[k + j];
    for (; k < n; k++)
        part[0] += a[k] * b[k];
    return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

WIDE(double, product, (const double *a, const double *b, int64_t n), (a, b, n))
{
    return sum_products(a, b, n);
}

/* A product of a matrix and vectors x, whose numbers are so far apart from one number to the next,
 * and from one vector to the next; so are those of the product. */
typedef struct {
    const double *matrix; /* (n_inner, n_rows): transposed, so that a register has some of its rows */
    int64_t n_inner, n_rows, x_number, x_vector, out_number, out_vector;
} Product;

/* Some rows of the product for some vectors; `height` and `width` are known to the compiler. */
INLINE void multiply_tile(const Product *product, int64_t row, const double *x, int height, int width,
                          double *out)
{
    const double *matrix = product->matrix + row;
    double total[VECTORS][TILE] = {{0}};
    for (int64_t k = 0; k < product->n_inner; k++, matrix += product->n_rows)
        for (int c = 0; c < width; c++) {
            double number = x[k * product->x_number + c * product->x_vector];
            for (int r = 0; r < height; r++)
                total[c][r] += matrix[r] * number;
        }
    for (int r = 0; r < height; r++)
        for (int c = 0; c < width; c++)
            out[(row + r) * product->out_number + c * product->out_vector] = total[c][r];
}

INLINE void multiply_vectors(const Product *product, const double *x, int width, double *out)
{
    int64_t row = 0;
    for (; row + TILE <= product->n_rows; row += TILE)
        multiply_tile(product, row, x, TILE, width, out);
    for (; row + TILE / 2 <= product->n_rows; row += TILE / 2)
        multiply_tile(product, row, x, TILE / 2, width, out);
    for (; row < product->n_rows; row++)
        multiply_tile(product, row, x, 1, width, out);
}

INLINE void multiply(const Product *product, const double *x, int64_t n_vectors, double *out)
{
    for (; n_vectors >= VECTORS; n_vectors -= VECTORS) {
        multiply_vectors(product, x, VECTORS, out);
        x += VECTORS * product->x_vector, out += VECTORS * product->out_vector;
    }
    switch (n_vectors) {
    case 3: multiply_vectors(product, x, 3, out); break;
    case 2: multiply_vectors(product, x, 2, out); break;
    case 1: multiply_vectors(product, x, 1, out); break;
    }
}

/* Where the matrices of a table's sides stand among all of them. */
typedef struct {
    int64_t n_rows, n_columns, along, across;
} Sides;

/* Multiply a table (n_rows, n_columns, n) of values by a matrix along either side, in place. A side
 * of a negative place has no matrix. The transposed matrices stand where the matrices do. */
WIDE(void, turn_sides,
     (const Sides *sides, const double *matrices, const double *transposed, int64_t n,
      double *values, double *between),
     (sides, matrices, transposed, n, values, between))
{
    int64_t n_rows = sides->n_rows, n_columns = sides->n_columns, size = n_columns * n;
    Product along = {transposed + sides->along, n_rows, n_rows, size, 1, size, 1};
    Product across = {transposed + sides->across, n_columns, n_columns, n, 1, n, 1};
    if (sides->along < 0)
        memcpy(between, values, sizeof(double) * (size_t)(n_rows * size));
    else if (size == 1)
        for (int64_t i = 0; i < n_rows; i++)
            between[i] = sum_products(matrices + sides->along + i * n_rows, values, n_rows);
    else
        multiply(&along, values, size, between);
    if (sides->across < 0) {
        memcpy(values, between, sizeof(double) * (size_t)(n_rows * size));
    } else if (n == 1) {
        across.x_vector = across.out_vector = size; /* all rows at once */
        multiply(&across, between, n_rows, values);
    } else
        for (int64_t i = 0; i < n_rows; i++)
            multiply(&across, between + i * size, n, values + i * size);
}

static int64_t run_turn_tables(Argument *arguments)
{
    int64_t n_tables = SIZE(0), n = LENGTH(7, 1);
    for (int64_t t = 0; t < n_tables; t++) {
        Sides sides = {LONGS(1)[t], LONGS(2)[t], LONGS(3)[t], LONGS(4)[t]};
        turn_sides(&sides, DOUBLES(5), DOUBLES(6), n, DOUBLES(7) + LONGS(0)[t] * n, DOUBLES(8));
    }
    return 0;
}
KERNEL(turn_tables,
       "starts: int64[n_tables] below n_cells + 1\n"
       "n_rows: int64[n_tables]\n"
       "n_columns: int64[n_tables]\n"
       "along: int64[n_tables] below n_numbers + 1 or negative\n"
       "across: int64[n_tables] below n_numbers + 1 or negative\n"
       "matrices: float64[n_numbers]\n"
       "transposed: float64[n_numbers]\n"
       "values: float64[n_cells, n_scores] written\n"
       "between: float64[n_between] written\n"
       "1 <= n_rows\n"
       "1 <= n_columns\n"
       "starts + n_rows * n_columns <= n_cells\n"
       "along + n_rows * n_rows <= n_numbers\n"
       "across + n_columns * n_columns <= n_numbers\n"
       "n_rows * n_columns * n_scores <= n_between")

/* Write the place of each row in each table to out (n_rows, n_tables). Table t has the
 * members table_start[t] .. table_start[t + 1]; member m reads the code of a feature, and
 * adds shares[share_start[m] + code] to the row's joint value, whose place is
 * places[place_start[t] + joint]. */
static int64_t run_locate_rows(Argument *arguments)
{
    int64_t n_rows = LENGTH(0, 1), n_tables = LENGTH(7, 1);
    const int64_t *features = LONGS(1), *table_start = LONGS(2), *share_start = LONGS(4);
    uint32_t joint[ROW_BLOCK];
    for (int64_t first = 0; first < n_rows; first += ROW_BLOCK) {
        int64_t size = least(ROW_BLOCK, n_rows - first);
        for (int64_t t = 0; t < n_tables; t++) {
            memset(joint, 0, sizeof(joint));
            for (int64_t m = table_start[t]; m < table_start[t + 1]; m++) {
                const int32_t *share = INTS(3) + share_start[m];
                int64_t at = features[m] * n_rows + first;
                if (NARROW(0))
                    for (int64_t r = 0; r < size; r++)
                        joint[r] += (uint32_t)share[BYTES(0)[at + r]];
                else
                    for (int64_t r = 0; r < size; r++)
                        joint[r] += (uint32_t)share[SHORTS(0)[at + r]];
            }
            const uint16_t *place = SHORTS(5) + LONGS(6)[t];
            uint16_t *out = SHORTS(7) + first * n_tables + t;
            for (int64_t r = 0; r < size; r++)
                out[r * n_tables] = place[joint[r]];
        }
    }
    return 0;
}
KERNEL(locate_rows,
       "codes: uint8|uint16[n_columns, n_rows]\n"
       "features: int64[n_members] below n_columns\n"
       "table_start: int64[n_tables + 1] rising to n_members\n"
       "shares: int32[n_shares]\n"
       "share_start: int64[n_members] rising to n_shares\n"
       "places: uint16[n_places]\n"
       "place_start: int64[n_tables] below n_places\n"
       "out: uint16[n_rows, n_tables] written")

/* Add the weight of the rows of each joint value of each table to mass, table t from
 * place_start[t]. */
static int64_t run_weigh_joints(Argument *arguments)
{
    int64_t n_rows = LENGTH(0, 1), n_tables = SIZE(6);
    const int64_t *features = LONGS(1), *table_start = LONGS(2), *share_start = LONGS(4);
    uint32_t joint[ROW_BLOCK];
    for (int64_t t = 0; t < n_tables; t++)
        for (int64_t first = 0; first < n_rows; first += ROW_BLOCK) {
            int64_t size = least(ROW_BLOCK, n_rows - first);
            double *mass = DOUBLES(7) + LONGS(6)[t];
            memset(joint, 0, sizeof(joint));
            for (int64_t m = table_start[t]; m < table_start[t + 1]; m++) {
                const int32_t *share = INTS(3) + share_start[m];
                int64_t at = features[m] * n_rows + first;
                for (int64_t r = 0; r < size; r++)
                    joint[r] += (uint32_t)share[NARROW(0) ? BYTES(0)[at + r] : SHORTS(0)[at + r]];
            }
            for (int64_t r = 0; r < size; r++)
                mass[joint[r]] += SIZE(5) ? DOUBLES(5)[first + r] : 1.0;
        }
    return 0;
}
KERNEL(weigh_joints,
       "codes: uint8|uint16[n_columns, n_rows]\n"
       "features: int64[n_members] below n_columns\n"
       "table_start: int64[n_tables + 1] rising to n_members\n"
       "shares: int32[n_shares]\n"
       "share_start: int64[n_members] rising to n_shares\n"
       "weights: float64[n_rows] or empty\n"
       "place_start: int64[n_tables] below n_mass\n"
       "mass: float64[n_mass] written")

/* Add a multiple of another vector to one, scale the sum, and return its product with a third: in
 * one go, since they may not fit in a cache. The product is that of `sum_products`. */
WIDE(double, add_multiply,
     (double *to, double scale, double factor, const double *what, const double *with, int64_t n),
     (to, scale, factor, what, with, n))
{
    double part[8] = {0};
    int64_t k = 0;
    for (; k + 8 <= n; k += 8)
        for (int j = 0; j < 8; j++) {
            to[k + j] = scale * (to[k + j] + factor * what[k + j]);
            part[j] += with[k + j] * to[k + j];
        }
    for (; k < n; k++) {
        to[k] = scale * (to[k] + factor * what[k]);
        part[0] += with[k] * to[k];
    }
    return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

/* Write minus an estimate of the inverse Hessian times the gradient to out (n,), from the
 * last n_known of the steps (m, n), the changes of the gradient along them, and the product
 * of either (m,), the newest in row `newest` (Nocedal 1980). */
static int64_t run_descend(Argument *arguments)
{
    int64_t m = LENGTH(0, 0), n = SIZE(5), newest = NUMBER(4);
    int64_t n_known = least(NUMBER(3), MOST_KNOWN);
    double factor[MOST_KNOWN] = {0}, inverse[MOST_KNOWN] = {0}, *out = DOUBLES(6);
    const double *step[MOST_KNOWN], *change[MOST_KNOWN];
    for (int64_t k = 0; k < n; k++)
        out[k] = -DOUBLES(5)[k];
    if (n_known < 1)
        return 0;
    for (int64_t k = 0; k < n_known; k++) {
        int64_t at = (newest - k + m) % m;
        step[k] = DOUBLES(0) + at * n, change[k] = DOUBLES(1) + at * n;
        inverse[k] = 1.0 / DOUBLES(2)[at];
    }
    double size = 1.0 / (inverse[0] * product(change[0], change[0], n)), told;
    told = product(step[0], out, n);
    for (int64_t k = 0; k + 1 < n_known; k++) {
        factor[k] = inverse[k] * told;
        told = add_multiply(out, 1.0, -factor[k], change[k], step[k + 1], n);
    }
    int64_t last = n_known - 1;
    factor[last] = inverse[last] * told;
    told = add_multiply(out, size, -factor[last], change[last], change[last], n);
    for (int64_t k = last; k > 0; k--)
        told = add_multiply(out, 1.0, factor[k] - inverse[k] * told, step[k], change[k - 1], n);
    add_multiply(out, 1.0, factor[0] - inverse[0] * told, step[0], step[0], n);
    return 0;
}
KERNEL(descend,
       "steps: float64[n_kept, n_parameters]\n"
       "changes: float64[n_kept, n_parameters]\n"
       "products: float64[n_kept]\n"
       "n_known: int from 0\n"
       "newest: int from -1\n"
       "gradient: float64[n_parameters]\n"
       "out: float64[n_parameters] written\n"
       "n_known <= n_kept\n"
       "newest + 1 <= n_kept")

#define GAIN_NUMBERS (1 << 21) /* numbers that the scores of pairs may work on at a time: 16 MiB */

/* Rows with a known value of one feature, by that value, and what they add to a cell: for each
 * of a block of classes g, h and v, see `run_score_gains`. */
typedef struct {
    int64_t n_groups, n_classes;
    int64_t *start; /* (widest + 1,): the rows of group x are start[x]:start[x + 1] */
    int32_t *row;   /* (n_rows,): their numbers */
    double *terms;  /* (n_rows, n_classes, 3) */
} Grouped;

/* The cells of one group: those seen have a sum, and stand in `seen`. */
typedef struct {
    double *sums;  /* (widest, n_classes, 3) */
    uint8_t *held; /* (widest,), all zero between groups */
    int64_t *seen;
} Cells;

/* Half of the sum over the classes of (g^2 - v) / (h + shrink). */
static double gain_of(const double *sums, int64_t n_classes, double shrink)
{
    double gain = 0.0;
    for (int64_t c = 0; c < n_classes; c++, sums += 3)
        gain += (sums[0] * sums[0] - sums[2]) / (sums[1] + shrink);
    return 0.5 * gain;
}

static int rising(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The gain of the cells in which one group meets the values of another feature, which are then
 * let go. They are added up by value, whatever the order of the rows. */
static double release(Cells *cells, int64_t n_seen, int64_t arity, int64_t n_classes, double shrink)
{
    double gain = 0.0;
    int scanned = n_seen * 16 >= arity;
    if (!scanned)
        qsort(cells->seen, (size_t)n_seen, sizeof(int64_t), rising);
    for (int64_t k = 0; k < (scanned ? arity : n_seen); k++) {
        int64_t z = scanned ? k : cells->seen[k];
        if (cells->held[z])
            gain += gain_of(cells->sums + z * n_classes * 3, n_classes, shrink);
        cells->held[z] = 0;
    }
    return gain;
}

/* The gain of a table of the grouped feature and another, whose codes are `column`. */
static double gain_of_pair(const Grouped *grouped, const void *column, int narrow, int64_t arity,
                           double shrink, Cells *cells)
{
    int64_t size = grouped->n_classes * 3;
    double gain = 0.0;
    for (int64_t x = 0; x < grouped->n_groups; x++) {
        int64_t n_seen = 0;
        for (int64_t k = grouped->start[x]; k < grouped->start[x + 1]; k++) {
            int64_t row = grouped->row[k];
            int64_t z = narrow ? ((const uint8_t *)column)[row] : ((const uint16_t *)column)[row];
            if (z >= arity)
                continue;
            double *sums = cells->sums + z * size;
            const double *terms = grouped->terms + k * size;
            if (!cells->held[z]) {
                cells->held[z] = 1;
                cells->seen[n_seen++] = z;
                memcpy(sums, terms, sizeof(double) * (size_t)size);
            } else
                for (int64_t c = 0; c < size; c++)
                    sums[c] += terms[c];
        }
        gain += release(cells, n_seen, arity, grouped->n_classes, shrink);
    }
    return gain;
}

/* Sort the rows by their known values of a feature, and write what they add for some classes,
 * from `first` on. */
static void group_rows(Argument *arguments, int64_t feature, int64_t first, Grouped *grouped)
{
    int64_t n_rows = LENGTH(0, 1), n = LENGTH(2, 1), arity = LONGS(1)[feature];
    int64_t *start = grouped->start;
    grouped->n_groups = arity;
    memset(start, 0, sizeof(int64_t) * (size_t)(arity + 1));
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t r = 0; r < n_rows; r++) {
            int64_t at = feature * n_rows + r, x = NARROW(0) ? BYTES(0)[at] : SHORTS(0)[at];
            if (x >= arity)
                continue;
            if (pass == 0)
                start[x + 1]++;
            else
                grouped->row[start[x]++] = (int32_t)r;
        }
        for (int64_t x = 0; pass == 0 && x < arity; x++)
            start[x + 1] += start[x];
    }
    memmove(start + 1, start, sizeof(int64_t) * (size_t)arity); /* each moved on to the next */
    start[0] = 0;
    double *terms = grouped->terms;
    for (int64_t k = 0; k < start[arity]; k++) {
        int64_t r = grouped->row[k];
        const double *residual = DOUBLES(2) + r * n + first, *spread = DOUBLES(3) + r * n + first;
        for (int64_t c = 0; c < grouped->n_classes; c++, terms += 3) {
            terms[0] = residual[c];
            terms[1] = spread[c];
            terms[2] = spread[c] * DOUBLES(4)[r];
        }
    }
}

/* The gain of a table of each feature, and of each pair of features. g is the sum of the
 * residuals in a cell, h that of their variances, v that of their variances times the rows'
 * weights. It is about what the log-likelihood would gain on new rows; without effect its
 * mean is zero. Rows with a code beyond the arity are left out of the feature's cells. Work
 * and memory grow with the rows, not with the cells: of many values few meet. */
static int64_t run_score_gains(Argument *arguments)
{
    int64_t n_features = LENGTH(0, 0), n_rows = LENGTH(0, 1), n = LENGTH(2, 1), widest = 1;
    const int64_t *arities = LONGS(1);
    for (int64_t i = 0; i < n_features; i++)
        widest = most(widest, arities[i]);
    int64_t block = least(n, most(1, GAIN_NUMBERS / (3 * (widest + n_rows))));
    Grouped grouped = {0, 0, malloc(sizeof(int64_t) * (size_t)(widest + 1)),
                       malloc(sizeof(int32_t) * (size_t)(n_rows + 1)),
                       malloc(sizeof(double) * (size_t)(n_rows * block * 3 + 1))};
    Cells cells = {malloc(sizeof(double) * (size_t)(widest * block * 3)), calloc((size_t)widest, 1),
                   malloc(sizeof(int64_t) * (size_t)widest)};
    uint8_t *own = calloc((size_t)(n_rows + 1), 1); /* a feature of one value: singles are pairs */
    int64_t answer = NO_MEMORY;
    if (!grouped.start || !grouped.row || !grouped.terms || !cells.sums || !cells.held ||
        !cells.seen || !own)
        goto done;
    answer = 0;
    memset(DOUBLES(6), 0, sizeof(double) * (size_t)n_features);
    memset(DOUBLES(7), 0, sizeof(double) * (size_t)(n_features * n_features));
    for (int64_t first = 0; first < n; first += block) {
        grouped.n_classes = least(block, n - first);
        for (int64_t i = 0; i < n_features; i++) {
            group_rows(arguments, i, first, &grouped);
            DOUBLES(6)[i] += gain_of_pair(&grouped, own, 1, 1, REAL(5), &cells);
            for (int64_t j = 0; j < i; j++) {
                const void *column = BYTES(0) + j * n_rows * (NARROW(0) ? 1 : 2);
                double gain = gain_of_pair(&grouped, column, NARROW(0), arities[j], REAL(5), &cells);
                DOUBLES(7)[i * n_features + j] += gain;
                DOUBLES(7)[j * n_features + i] += gain;
            }
        }
    }
done:
    free(grouped.start), free(grouped.row), free(grouped.terms);
    free(cells.sums), free(cells.held), free(cells.seen), free(own);
    return answer;
}
KERNEL(score_gains,
       "codes: uint8|uint16[n_features, n_rows]\n"
       "arities: int64[n_features]\n"
       "residuals: float64[n_rows, n_classes]\n"
       "spreads: float64[n_rows, n_classes]\n"
       "weights: float64[n_rows]\n"
       "shrink: float\n"
       "singles: float64[n_features] written\n"
       "gains: float64[n_features, n_features] written")

/* Where a joint value of two ordered features stands along a slant. */
typedef struct {
    double key;
    int64_t cell;
} Place;

/* What is known of two ordered features, and room for one slant at a time. */
typedef struct {
    int64_t n_first, n_second, n_bins, n_classes;
    double *sums;   /* (n_first n_second, 3 n_classes + 1): by joint value, see `choose_slants` */
    double *binned; /* (n_bins, 3 n_classes) */
    double *ranks;  /* (n_first n_second,) */
    Place *places, *spare;
} Pair;

/* Sort places in runs of some length, each of which is sorted; equal keys keep their order. */
static Place *merge_runs_of(int64_t run, int64_t n, Place *from, Place *to)
{
    for (; run < n; run *= 2) {
        for (int64_t start = 0; start < n; start += 2 * run) {
            int64_t i = start, middle = least(start + run, n), end = least(middle + run, n);
            for (int64_t k = start, j = middle; k < end; k++)
                to[k] = i == middle || (j < end && from[j].key < from[i].key) ? from[j++] : from[i++];
        }
        Place *sorted = to;
        to = from;
        from = sorted;
    }
    return from;
}

/* Write the bin of each joint value, with equal weight and from low sums to high; see
 * `Slant.in_order` in curves.py. */
static void bin_sums(const double *along, const double *across, Pair *pair, int32_t *bins)
{
    int64_t n = pair->n_first * pair->n_second, width = 3 * pair->n_classes + 1;
    for (int64_t cell = 0; cell < n; cell++) {
        double sum = along[cell / pair->n_second] + across[cell % pair->n_second];
        int64_t at = cell, first = cell - cell % pair->n_second;
        sum = rint(sum * SUM_DIGITS) / SUM_DIGITS;
        for (; at > first && pair->places[at - 1].key > sum; at--)
            pair->places[at] = pair->places[at - 1];
        pair->places[at] = (Place){sum, cell};
    }
    const Place *place = merge_runs_of(pair->n_second, n, pair->places, pair->spare);
    double total = 0.0;
    for (int64_t start = 0, end = 0; start < n; start = end) {
        double own = 0.0;
        do
            own += pair->sums[(place[end].cell + 1) * width - 1] + TRACE;
        while (++end < n && place[end].key == place[start].key);
        total += own;
        for (int64_t k = start; k < end; k++)
            pair->ranks[place[k].cell] = total - 0.5 * own;
    }
    for (int64_t cell = 0; cell < n; cell++)
        bins[cell] = (int32_t)low((double)pair->n_bins * (pair->ranks[cell] / total),
                                  (double)(pair->n_bins - 1));
}

/* Write the sums of each bin, and return what a curve over the bins would gain. */
static double gain_of_bins(const int32_t *bins, double shrink, Pair *pair)
{
    int64_t n_classes = pair->n_classes, size = 3 * n_classes;
    memset(pair->binned, 0, sizeof(double) * (size_t)(pair->n_bins * size));
    for (int64_t cell = 0; cell < pair->n_first * pair->n_second; cell++) {
        const double *sums = pair->sums + cell * (size + 1);
        double *binned = pair->binned + bins[cell] * size;
        if (sums[size] > 0.0)
            for (int64_t c = 0; c < size; c++)
                binned[c] += sums[c];
    }
    double gain = 0.0;
    for (int64_t bin = 0; bin < pair->n_bins; bin++) {
        const double *left = pair->binned + bin * size, *steep = left + n_classes;
        for (int64_t c = 0; c < n_classes; c++)
            gain += (left[c] * left[c] - steep[c + n_classes]) / (steep[c] + shrink);
    }
    return 0.5 * gain;
}

/* Choose the slants, of those with addends `along` and `across`, whose curves gain most on
 * the residuals, one after the other: each on what the earlier ones leave, none twice. Stops,
 * with -1 for the others, where the gain is less than `least`. A row has its residuals, their variances,
 * those times its weight (all n_classes), and its weight. Rows with a code that is not ordered
 * are left out. */
static int64_t run_choose_slants(Argument *arguments)
{
    int64_t n_rows = LENGTH(0, 1), n_slants = LENGTH(4, 0), n_classes = NUMBER(6);
    int64_t width = 3 * n_classes + 1, n_first = LENGTH(4, 1), n_second = LENGTH(5, 1);
    int64_t n = n_first * n_second, n_bins = n_first + n_second - 1;
    Pair pair = {n_first, n_second, n_bins, n_classes,
                 calloc((size_t)(n * width), sizeof(double)),
                 malloc(sizeof(double) * (size_t)(n_bins * width)),
                 malloc(sizeof(double) * (size_t)n),
                 malloc(sizeof(Place) * (size_t)n),
                 malloc(sizeof(Place) * (size_t)n)};
    int32_t *bins = malloc(sizeof(int32_t) * (size_t)(n_slants * n + 1));
    int64_t answer = NO_MEMORY;
    if (!pair.sums || !pair.binned || !pair.ranks || !pair.places || !pair.spare || !bins)
        goto done;
    answer = 0;
    for (int64_t r = 0; r < n_rows; r++) {
        int64_t a = NUMBER(1) * n_rows + r, b = NUMBER(2) * n_rows + r;
        int64_t x = NARROW(0) ? BYTES(0)[a] : SHORTS(0)[a];
        int64_t z = NARROW(0) ? BYTES(0)[b] : SHORTS(0)[b];
        if (x >= n_first || z >= n_second)
            continue;
        double *sums = pair.sums + (x * n_second + z) * width;
        for (int64_t c = 0; c < width; c++)
            sums[c] += DOUBLES(3)[r * width + c];
    }
    for (int64_t s = 0; s < n_slants; s++)
        bin_sums(DOUBLES(4) + s * n_first, DOUBLES(5) + s * n_second, &pair, bins + s * n);
    int64_t best = 0;
    for (int64_t chosen = 0; chosen < SIZE(9); chosen++) {
        double top = -INFINITY;
        for (int64_t s = 0; s < n_slants && best >= 0; s++) {
            double gain = gain_of_bins(bins + s * n, REAL(7), &pair);
            for (int64_t k = 0; k < chosen; k++)
                gain = LONGS(9)[k] == s ? -INFINITY : gain;
            if (gain > top) {
                top = gain;
                best = s;
            }
        }
        best = top >= REAL(8) ? best : -1;
        LONGS(9)[chosen] = best;
        if (best < 0)
            continue;
        gain_of_bins(bins + best * n, REAL(7), &pair);
        for (int64_t cell = 0; cell < n; cell++) {
            const double *binned = pair.binned + bins[best * n + cell] * 3 * n_classes;
            double *left = pair.sums + cell * width;
            for (int64_t c = 0; c < n_classes; c++)
                left[c] -= left[n_classes + c] * (binned[c] / (binned[n_classes + c] + REAL(7)));
        }
    }
done:
    free(pair.sums), free(pair.binned), free(pair.ranks), free(pair.places), free(pair.spare);
    free(bins);
    return answer;
}
KERNEL(choose_slants,
       "codes: uint8|uint16[n_features, n_rows]\n"
       "first: int below n_features\n"
       "second: int below n_features\n"
       "said: float64[n_rows, 3 * n_classes + 1]\n"
       "along: float64[n_slants, n_first]\n"
       "across: float64[n_slants, n_second]\n"
       "n_classes: int from 1\n"
       "shrink: float\n"
       "least: float\n"
       "chosen: int64[n_chosen] written\n"
       "1 <= n_first\n"
       "1 <= n_second\n"
       "n_chosen <= n_slants")
