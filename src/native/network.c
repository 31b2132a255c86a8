/* Exact sums over the unknown features of a forest, and draws from tables. */
#include "arrays.h"

/* log sum over x of exp(table[x, c] + held[x, c]); both (arity, n). */
static double log_sum(const double *table, const double *held, int64_t arity, int64_t n)
{
    double top = -INFINITY, total = 0.0;
    for (int64_t x = 0; x < arity; x++)
        top = high(top, table[x * n] + held[x * n]);
    if (top == -INFINITY)
        return top;
    for (int64_t x = 0; x < arity; x++)
        total += exp(table[x * n] + held[x * n] - top);
    return top + log(total);
}

/* Add, row by row, what the families with an unknown member sum to. features: topological order,
 * parents first; parents: each one's parent feature or -1; flat: tables (parent, child, class) end
 * to end, in the same order. Messages go from the leaves to the roots in logs: an unknown feature
 * holds, per value and class, the log-probability of what is known below it. */
static int64_t run_add_forest_sums(Argument *arguments)
{
    const int64_t *arities = LONGS(1), *features = LONGS(2), *parents = LONGS(3), *start = LONGS(5);
    int64_t n_rows = LENGTH(0, 1), n_features = LENGTH(1, 0), n = LENGTH(6, 1), n_held = 0;
    int64_t *offset = malloc(sizeof(int64_t) * (size_t)(n_features + 1));
    for (int64_t i = 0; offset && i < n_features; i++) {
        offset[i] = n_held;
        n_held += arities[i] * n;
    }
    double *held = calloc((size_t)(n_held + 1), sizeof(double));
    uint8_t *holds = calloc((size_t)(n_features + 1), 1);
    int64_t answer = offset && held && holds ? 0 : NO_MEMORY;
#define CODE_AT(i) (NARROW(0) ? BYTES(0)[(i) * n_rows + r] : SHORTS(0)[(i) * n_rows + r])
    for (int64_t r = 0; answer == 0 && r < n_rows; r++)
        for (int64_t at = LENGTH(2, 0) - 1; at >= 0; at--) {
            int64_t i = features[at], p = parents[at], x = CODE_AT(i), arity = arities[i];
            int known = x < arity, parent_known = p < 0 || CODE_AT(p) < arities[p];
            if ((!known && !holds[i]) || (known && parent_known))
                continue; /* nothing known below sums to one; an ordinary term is added elsewhere */
            int64_t first = p >= 0 && parent_known ? CODE_AT(p) : 0;
            int64_t last = parent_known ? first + 1 : arities[p];
            for (int64_t a = first; a < last; a++) {
                const double *table = DOUBLES(4) + start[at] + a * arity * n;
                double *to = parent_known ? DOUBLES(6) + r * n : held + offset[p] + a * n;
                for (int64_t c = 0; c < n; c++)
                    to[c] += known ? table[x * n + c] : log_sum(table + c, held + offset[i] + c, arity, n);
            }
            if (!parent_known)
                holds[p] = 1;
            if (holds[i]) {
                memset(held + offset[i], 0, sizeof(double) * (size_t)(arity * n));
                holds[i] = 0;
            }
        }
#undef CODE_AT
    free(offset), free(held), free(holds);
    return answer;
}
KERNEL(add_forest_sums,
       "codes: uint8|uint16[n_features, n_rows]\n"
       "arities: int64[n_features]\n"
       "features: int64[n_families] below n_features\n"
       "parents: int64[n_families] below n_features or negative\n"
       "flat: float64[n_flat]\n"
       "flat_start: int64[n_families] below n_flat\n"
       "out: float64[n_rows, n_classes] written\n"
       "flat_start + arities[features] * n_classes <= n_flat")

/* Draw one value per row: the first whose cumulative probability exceeds the row's number.
 * A context's last cumulative probability counts as one, whatever rounding left of it; values
 * without probability, whose cumulative equals their neighbour's, are never drawn before the
 * last one with some. */
static int64_t run_draw_values(Argument *arguments)
{
    const int64_t *contexts = LONGS(0);
    const double *cumulative = DOUBLES(1), *numbers = DOUBLES(2);
    uint16_t *out = SHORTS(3);
    int64_t n_rows = LENGTH(0, 0), n_values = LENGTH(1, 1);
    for (int64_t row = 0; row < n_rows; row++) {
        const double *share = cumulative + contexts[row] * n_values;
        double number = numbers[row] * share[n_values - 1];
        int64_t low = 0, high = n_values - 1;
        while (low < high) {
            int64_t middle = (low + high) / 2;
            if (share[middle] > number)
                high = middle;
            else
                low = middle + 1;
        }
        out[row] = (uint16_t)low;
    }
    return 0;
}
KERNEL(draw_values,
       "contexts: int64[n_rows] below n_contexts\n"
       "cumulative: float64[n_contexts, n_values]\n"
       "numbers: float64[n_rows]\n"
       "out: uint16[n_rows] written")
