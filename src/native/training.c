/* Gradient training by mini-batches: forward pass, gradient of the structure, steps of Adam.
 *
 * A feature has slots: candidate parents, of which slot 0 is the class alone. A slot's table is
 * (n_contexts, arity, class); all tables stand end to end in theta, and one context's (arity,
 * class) cells are a block:
 *
 *   theta   | slot 0 of feature 0 | slot 1 of feature 0 | ... | slot 0 of feature 1 | ...
 *             block: context 0      context 0, 1, 2, ...
 *
 * theta holds log-probabilities: it is brought back to normal form after every step, which
 * neither the loss nor Adam can tell from free logits. */
#include "maths.h"

#define BETA_1 0.9
#define BETA_2 0.999
#define EPSILON 1e-8
#define MOST_SQUARED 0x10000 /* powers beyond are left to pow() */
/* Steps that a block's momentum lasts: what is left of it then, 0.9^350, is below rounding. */
#define LIVELY 350

typedef struct {
    int64_t n_features, n_slots, n_rows, n_classes;
    const int64_t *column, *n_contexts, *cell, *arity; /* (n_features, n_slots); (n_features,) */
    const int32_t *contexts, *children;                /* (n_columns, n_rows), (n_features, n_rows) */
} Batch;

/* The slot and context that answer for slot s of feature i in a row; -1 if none does. An unknown
 * parent is answered by the class alone, slot 0. */
static inline int64_t effective(const Batch *batch, int64_t i, int64_t s, int64_t r, int64_t *context)
{
    int64_t column = batch->column[i * batch->n_slots + s];
    *context = 0;
    if (column < 0)
        return s;
    int64_t found = batch->contexts[column * batch->n_rows + r];
    if (found < batch->n_contexts[i * batch->n_slots + s]) {
        *context = found;
        return s;
    }
    return s > 0 ? 0 : -1;
}

/* Add log p(x_i | chosen parent, c) of every feature to out. Equation 9 of Roth et al. (2020). */
static int64_t run_add_slot_terms(Argument *arguments)
{
    Batch batch = {LENGTH(0, 0), LENGTH(0, 1), LENGTH(8, 0), LENGTH(8, 1), LONGS(0), LONGS(1),
                   LONGS(2),     LONGS(3),     INTS(4),      INTS(5)};
    const int64_t *chosen = LONGS(6);
    const double *theta = DOUBLES(7);
    double *out = DOUBLES(8);
    for (int64_t i = 0; i < batch.n_features; i++) {
        int64_t arity = batch.arity[i], context;
        const int32_t *child = batch.children + i * batch.n_rows;
        for (int64_t r = 0; r < batch.n_rows; r++) {
            if (child[r] >= arity)
                continue;
            int64_t slot = effective(&batch, i, chosen[i], r, &context);
            if (slot < 0)
                continue;
            int64_t start = batch.cell[i * batch.n_slots + slot];
            const double *term = theta + start + (context * arity + child[r]) * batch.n_classes;
            for (int64_t c = 0; c < batch.n_classes; c++)
                out[r * batch.n_classes + c] += term[c];
        }
    }
    return 0;
}
KERNEL(add_slot_terms,
       "column: int64[n_features, n_slots] below n_columns or negative\n"
       "n_contexts: int64[n_features, n_slots]\n"
       "cell: int64[n_features, n_slots]\n"
       "arity: int64[n_features]\n"
       "contexts: int32[n_columns, n_rows]\n"
       "children: int32[n_features, n_rows]\n"
       "chosen: int64[n_features] below n_slots\n"
       "theta: float64[n_cells]\n"
       "out: float64[n_rows, n_classes] written")

/* Write the loss's derivative by the one-hot choice of slots to out, from its derivative by the
 * log-joint, gradient. The rules of `effective` are spelled out here: this is the innermost loop
 * over all candidates, and what does not change with the row is read once per slot. */
static int64_t run_add_choice_gradient(Argument *arguments)
{
    const int64_t *column = LONGS(0), *n_contexts = LONGS(1), *cell = LONGS(2), *arities = LONGS(3);
    const int64_t *n_slots = LONGS(4);
    int64_t n_features = LENGTH(0, 0), width = LENGTH(0, 1), n_rows = LENGTH(7, 0), n = LENGTH(7, 1);
    const double *gradient = DOUBLES(7), *theta = DOUBLES(8);
    double *sums = malloc(sizeof(double) * (size_t)(n + 1));
    if (!sums)
        return NO_MEMORY;
    for (int64_t i = 0; i < n_features; i++) {
        int64_t arity = arities[i];
        const int32_t *child = INTS(6) + i * n_rows;
        const double *alone = theta + cell[i * width];
        for (int64_t s = 0; s < n_slots[i]; s++) {
            int64_t place = i * width + s, size = n_contexts[place];
            const int32_t *contexts = column[place] < 0 ? NULL : INTS(5) + column[place] * n_rows;
            const double *start = theta + cell[place];
            memset(sums, 0, sizeof(double) * (size_t)n);
            for (int64_t r = 0; r < n_rows; r++) {
                int64_t x = child[r], context = contexts ? contexts[r] : 0;
                const double *term;
                if (x >= arity)
                    continue;
                if (context < size)
                    term = start + (context * arity + x) * n;
                else if (s > 0)
                    term = alone + x * n;
                else
                    continue;
                for (int64_t c = 0; c < n; c++)
                    sums[c] += gradient[r * n + c] * term[c];
            }
            double total = 0.0;
            for (int64_t c = 0; c < n; c++)
                total += sums[c];
            DOUBLES(9)[place] = total;
        }
    }
    free(sums);
    return 0;
}
KERNEL(add_choice_gradient,
       "column: int64[n_features, n_wide] below n_columns or negative\n"
       "n_contexts: int64[n_features, n_wide]\n"
       "cell: int64[n_features, n_wide]\n"
       "arity: int64[n_features]\n"
       "n_slots: int64[n_features] below n_wide + 1\n"
       "contexts: int32[n_columns, n_rows]\n"
       "children: int32[n_features, n_rows]\n"
       "gradient: float64[n_rows, n_classes]\n"
       "theta: float64[n_cells]\n"
       "out: float64[n_features, n_wide] written")

/* Working space of a step, one block each, and n_classes totals. */
typedef struct {
    double *prob, *move, *shared, *totals;
} Space;

static double power(double base, int64_t exponent)
{
    double result = 1.0;
    if (exponent > MOST_SQUARED)
        return pow(base, (double)exponent);
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}

/* Turn sums, the derivative by a block's log-probabilities, into that by its logits:
 * from g follows g(x, c) - p(x | c) sum_x' g(x', c). */
WIDE(void, to_logits,
     (double *sums, const Space *space, int64_t arity, int64_t n, const double *theta),
     (sums, space, arity, n, theta))
{
    double *totals = space->totals, *prob = space->prob;
    for (int64_t c = 0; c < n; c++)
        totals[c] = 0.0;
    for (int64_t x = 0; x < arity; x++)
        for (int64_t c = 0; c < n; c++)
            totals[c] += sums[x * n + c];
    for (int64_t k = 0; k < arity * n; k++)
        prob[k] = exponential(theta[k]);
    for (int64_t x = 0; x < arity; x++)
        for (int64_t c = 0; c < n; c++)
            sums[x * n + c] -= prob[x * n + c] * totals[c];
}

/* Take one step of Adam on value, and clear gradient. */
WIDE(void, adam,
     (double *gradient, int64_t size, double correct_1, double correct_2, double rate,
      double *value, double *first, double *second),
     (gradient, size, correct_1, correct_2, rate, value, first, second))
{
    for (int64_t k = 0; k < size; k++) {
        double g = gradient[k];
        double m = BETA_1 * first[k] + (1.0 - BETA_1) * g;
        double v = BETA_2 * second[k] + (1.0 - BETA_2) * g * g;
        gradient[k] = 0.0;
        first[k] = m;
        second[k] = v;
        value[k] -= rate * (m * correct_1) / (sqrt(v * correct_2) + EPSILON);
    }
}

static void step_block(double *gradient, int64_t size, int64_t step, double rate, double *value,
                       double *first, double *second)
{
    double correct_1 = 1.0 / (1.0 - power(BETA_1, step));
    double correct_2 = 1.0 / (1.0 - power(BETA_2, step));
    adam(gradient, size, correct_1, correct_2, rate, value, first, second);
}

/* Bring one block back to log-probabilities. No maximum is taken out: a step moves a
 * log-probability by little, so the exponentials can neither overflow nor all vanish. */
WIDE(void, normalize_block,
     (const Space *space, int64_t arity, int64_t n, double *theta),
     (space, arity, n, theta))
{
    double *totals = space->totals, *prob = space->prob;
    for (int64_t k = 0; k < arity * n; k++)
        prob[k] = exponential(theta[k]);
    for (int64_t c = 0; c < n; c++)
        totals[c] = 0.0;
    for (int64_t x = 0; x < arity; x++)
        for (int64_t c = 0; c < n; c++)
            totals[c] += prob[x * n + c];
    for (int64_t c = 0; c < n; c++)
        totals[c] = log(totals[c]);
    for (int64_t x = 0; x < arity; x++)
        for (int64_t c = 0; c < n; c++)
            theta[x * n + c] -= totals[c];
}

typedef struct {
    double *theta, *first, *second;
    int64_t *steps;
    double *shared_first, *shared_second;
    int64_t *shared_steps; /* NULL: contexts share no steps */
    const int64_t *block, *table, *shared; /* (n_features, n_slots) */
    double rate, *sums;
    uint8_t *seen;
    int64_t *touched;
    int64_t step; /* of dense Adam; 0: each block counts its own */
    Space space;
} Tables;

/* Add the gradients of the rows that slot `target` answers to the sums of their contexts; returns
 * how many contexts those are. */
static int64_t gather(const Batch *batch, const Tables *tables, int64_t i, int64_t chosen,
                      int64_t target, const double *gradient)
{
    int64_t arity = batch->arity[i], n = batch->n_classes, n_touched = 0, context;
    const int32_t *child = batch->children + i * batch->n_rows;
    for (int64_t r = 0; r < batch->n_rows; r++) {
        if (child[r] >= arity || effective(batch, i, chosen, r, &context) != target)
            continue;
        if (!tables->seen[context]) {
            tables->seen[context] = 1;
            tables->touched[n_touched++] = context;
        }
        double *sums = tables->sums + (context * arity + child[r]) * n;
        for (int64_t c = 0; c < n; c++)
            sums[c] += gradient[r * n + c];
    }
    return n_touched;
}

/* Move all contexts of a table by one step along the shared gradient, which is cleared. */
static void step_shared(const Batch *batch, const Tables *tables, int64_t i, int64_t slot)
{
    int64_t place = i * batch->n_slots + slot, size = batch->arity[i] * batch->n_classes;
    int64_t at = tables->shared[place];
    double *move = tables->space.move;
    memset(move, 0, sizeof(double) * (size_t)size);
    int64_t step = ++tables->shared_steps[tables->table[place]];
    step_block(tables->space.shared, size, step, tables->rate, move, tables->shared_first + at,
               tables->shared_second + at);
    for (int64_t context = 0; context < batch->n_contexts[place]; context++) {
        double *theta = tables->theta + batch->cell[place] + context * size;
        for (int64_t k = 0; k < size; k++)
            theta[k] += move[k];
        normalize_block(&tables->space, batch->arity[i], batch->n_classes, theta);
    }
}

/* Step the blocks of one slot that a row of the batch falls into. */
static void step_slot(const Batch *batch, const Tables *tables, int64_t i, int64_t chosen,
                      int64_t target, const double *gradient)
{
    int64_t place = i * batch->n_slots + target, arity = batch->arity[i], n = batch->n_classes;
    int64_t size = arity * n, n_touched = gather(batch, tables, i, chosen, target, gradient);
    /* With one context the two steps would be the same one, taken twice. */
    int share = tables->shared_steps && batch->n_contexts[place] > 1;
    for (int64_t u = 0; u < n_touched; u++) {
        int64_t context = tables->touched[u], at = batch->cell[place] + context * size;
        double *part = tables->sums + context * size, *theta = tables->theta + at;
        int64_t step = ++tables->steps[tables->block[place] + context];
        tables->seen[context] = 0;
        to_logits(part, &tables->space, arity, n, theta);
        for (int64_t k = 0; share && k < size; k++)
            tables->space.shared[k] += part[k];
        step_block(part, size, step, tables->rate, theta, tables->first + at, tables->second + at);
        if (!share)
            normalize_block(&tables->space, arity, n, theta);
    }
    if (share && n_touched)
        step_shared(batch, tables, i, target);
}

/* Take the step of dense Adam on all blocks of one slot: those without a row in the batch go on by
 * their momentum. `steps` has the last step of each block that had a gradient; LIVELY steps later
 * the block rests, and its moments are brought up to date once it is in a batch again. */
static void step_whole_slot(const Batch *batch, const Tables *tables, int64_t i, int64_t chosen,
                            int64_t slot, const double *gradient)
{
    int64_t place = i * batch->n_slots + slot, arity = batch->arity[i], n = batch->n_classes;
    int64_t size = arity * n;
    if (slot == chosen || slot == 0)
        gather(batch, tables, i, chosen, slot, gradient);
    for (int64_t context = 0; context < batch->n_contexts[place]; context++) {
        int64_t at = batch->cell[place] + context * size;
        int64_t *last = tables->steps + tables->block[place] + context;
        int64_t rested = tables->step - 1 - *last - LIVELY;
        double *part = tables->sums + context * size, *theta = tables->theta + at;
        double *first = tables->first + at, *second = tables->second + at;
        if (tables->seen[context]) {
            double faded_1 = power(BETA_1, most(rested, 0)), faded_2 = power(BETA_2, most(rested, 0));
            for (int64_t k = 0; rested > 0 && k < size; k++)
                first[k] *= faded_1, second[k] *= faded_2;
            tables->seen[context] = 0;
            *last = tables->step;
            to_logits(part, &tables->space, arity, n, theta);
        } else if (*last == 0 || rested >= 0) {
            continue;
        }
        step_block(part, size, tables->step, tables->rate, theta, first, second);
        normalize_block(&tables->space, arity, n, theta);
    }
}

/* Take a step of Adam on every block that a row of the batch falls into; with a `step`, on all
 * blocks. Where there are moments for steps that a table's contexts share, all of them move along
 * the sum of the blocks' gradients besides. sums (the largest table) and seen (the most contexts)
 * come and are left as zeros. */
static int64_t run_step_tables(Argument *arguments)
{
    Batch batch = {LENGTH(0, 0), LENGTH(0, 1), LENGTH(10, 0), LENGTH(10, 1), LONGS(0), LONGS(1),
                   LONGS(3),     LONGS(6),     INTS(7),       INTS(8)};
    const int64_t *chosen = LONGS(9);
    Tables tables = {.theta = DOUBLES(13), .first = DOUBLES(14), .second = DOUBLES(15),
                     .steps = LONGS(16), .shared_first = DOUBLES(17), .shared_second = DOUBLES(18),
                     .shared_steps = SIZE(19) ? LONGS(19) : NULL, .block = LONGS(2),
                     .table = LONGS(4), .shared = LONGS(5), .rate = REAL(11), .sums = DOUBLES(20),
                     .seen = BYTES(21), .step = NUMBER(12)};
    int64_t widest = 1;
    for (int64_t i = 0; i < batch.n_features; i++)
        widest = most(widest, batch.arity[i] * batch.n_classes);
    double *room = calloc((size_t)(3 * widest + batch.n_classes), sizeof(double));
    tables.touched = malloc(sizeof(int64_t) * (size_t)(batch.n_rows + 1));
    if (!room || !tables.touched) {
        free(room), free(tables.touched);
        return NO_MEMORY;
    }
    Space space = {room, room + widest, room + 2 * widest, room + 3 * widest};
    tables.space = space;
    for (int64_t i = 0; i < batch.n_features; i++) {
        for (int64_t s = 0; tables.step && s < batch.n_slots; s++)
            step_whole_slot(&batch, &tables, i, chosen[i], s, DOUBLES(10));
        if (tables.step)
            continue;
        step_slot(&batch, &tables, i, chosen[i], chosen[i], DOUBLES(10));
        if (chosen[i]) /* then slot 0, for the rows that fell back to it */
            step_slot(&batch, &tables, i, chosen[i], 0, DOUBLES(10));
    }
    free(room), free(tables.touched);
    return 0;
}
KERNEL(step_tables,
       "column: int64[n_features, n_slots] below n_columns or negative\n"
       "n_contexts: int64[n_features, n_slots]\n"
       "block: int64[n_features, n_slots]\n"
       "cell: int64[n_features, n_slots]\n"
       "table: int64[n_features, n_slots]\n"
       "shared: int64[n_features, n_slots]\n"
       "arity: int64[n_features]\n"
       "contexts: int32[n_columns, n_rows]\n"
       "children: int32[n_features, n_rows]\n"
       "chosen: int64[n_features] below n_slots\n"
       "gradient: float64[n_rows, n_classes]\n"
       "rate: float\n"
       "step: int from 0\n"
       "theta: float64[n_cells] written\n"
       "first: float64[n_cells] written\n"
       "second: float64[n_cells] written\n"
       "steps: int64[n_blocks] written\n"
       "shared_first: float64[n_shared] written\n"
       "shared_second: float64[n_shared] written\n"
       "shared_steps: int64[n_tables] written\n"
       "sums: float64[n_sums] written\n"
       "seen: uint8[n_seen] written")
