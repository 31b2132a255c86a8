
/* Writes the expected cost of each action; returns the cheapest, an index into @_actions: the first
 * of those that cost the same. Where the row cannot be scored: writes NaN and returns -1. */
static inline int @_decide(const @_row *row, double *expected)
{
    double p[@_N_CLASSES], least = HUGE_VAL;
    int a, c, failed = @_score(row, p);
    for (a = 0; a < @_N_ACTIONS; a++) {
        expected[a] = 0.0;
        for (c = 0; c < @_N_CLASSES; c++)
            expected[a] += p[c] * @_costs[a * @_N_CLASSES + c];
        least = expected[a] < least ? expected[a] : least;
    }
    if (failed)
        return -1;
    for (a = 0; expected[a] > least + @_TIE; a++) {
    }
    return a;
}
