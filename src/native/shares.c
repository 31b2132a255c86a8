/* Tables of scores as tables of probabilities, and shares of joint values from them. */
#include "maths.h"

/* Make exp(table) sum to one over the values, in one context: (arity, n), n classes. The
 * logarithms of the old sums go to total (n,); room is (arity, n). */
WIDE(void, normalize_context,
     (double *table, int64_t arity, int64_t n, double *total, double *room),
     (table, arity, n, total, room))
{
    for (int64_t c = 0; c < n; c++)
        total[c] = table[c];
    for (int64_t v = 1; v < arity; v++)
        for (int64_t c = 0; c < n; c++)
            total[c] = high(total[c], table[v * n + c]);
    for (int64_t v = 0; v < arity; v++)
        for (int64_t c = 0; c < n; c++)
            room[v * n + c] = table[v * n + c] - total[c];
    for (int64_t k = 0; k < arity * n; k++)
        room[k] = exponential(room[k]);
    for (int64_t v = 1; v < arity; v++)
        for (int64_t c = 0; c < n; c++)
            room[c] += room[v * n + c];
    for (int64_t c = 0; c < n; c++)
        total[c] += log(room[c]);
    for (int64_t v = 0; v < arity; v++)
        for (int64_t c = 0; c < n; c++)
            table[v * n + c] -= total[c];
}

/* Make exp(table), (n_contexts, arity, n_classes), sum to one over the values, in place, and
 * write the logarithms of the old sums to total (n_contexts, n_classes). */
static int64_t run_normalize_scores(Argument *arguments)
{
    int64_t n_contexts = LENGTH(0, 0), arity = LENGTH(0, 1), n = LENGTH(0, 2);
    double *room = malloc(sizeof(double) * (size_t)(arity * n + 1));
    if (!room)
        return NO_MEMORY;
    for (int64_t k = 0; k < n_contexts; k++)
        normalize_context(DOUBLES(0) + k * arity * n, arity, n, DOUBLES(1) + k * n, room);
    free(room);
    return 0;
}
KERNEL(normalize_scores,
       "table: float64[n_contexts, arity, n_classes] written\n"
       "total: float64[n_contexts, n_classes] written")

WIDE(void, share_context,
     (const double *table, int64_t arity, int64_t n, const double *outer, double *out),
     (table, arity, n, outer, out))
{
    for (int64_t k = 0; k < arity * n; k++)
        out[k] = exponential(table[k]);
    for (int64_t v = 0; v < arity; v++)
        for (int64_t c = 0; c < n; c++)
            out[v * n + c] *= outer[c];
}

/* Write the shares outer (n_contexts, n_classes) times exp(table), (n_contexts, arity,
 * n_classes), to out. */
static int64_t run_spread_shares(Argument *arguments)
{
    int64_t n_contexts = LENGTH(0, 0), arity = LENGTH(0, 1), n = LENGTH(0, 2), size = arity * n;
    for (int64_t k = 0; k < n_contexts; k++)
        share_context(DOUBLES(0) + k * size, arity, n, DOUBLES(1) + k * n, DOUBLES(2) + k * size);
    return 0;
}
KERNEL(spread_shares,
       "table: float64[n_contexts, arity, n_classes]\n"
       "outer: float64[n_contexts, n_classes]\n"
       "out: float64[n_contexts, arity, n_classes] written")
