
/* Writes log P(class, what is known); returns 0, or -1 where unknown features are in the way. */
static inline int @_log_joint(const int *codes, double *joint)
{
    int groups[@_N_FEATURES], i, k, c;
    @_begin(codes, groups, joint);
    for (i = 0; i < @_N_FEATURES; i++) {
        const double *cell;
        if (codes[i] >= @_arity[i])
            continue;
        for (k = @_parent_start[i]; k < @_parent_start[i + 1]; k++) {
            if (codes[@_parents[k]] >= @_arity[@_parents[k]]) {
                @_ON_UNKNOWN
            }
        }
        cell = @_cell(i, groups);
        for (c = 0; c < @_N_CLASSES; c++)
            joint[c] += cell[c];
    }
    return 0;
}

/* Writes P(class | what is known) of a row, one a class; returns 0. Where the network was exported
 * without sums over unknown features, and the row needs them: writes NaN and returns -1. */
static inline int @_score(const @_row *row, double *p)
{
    int codes[@_N_FEATURES], c;
    double top, total = 0.0;
    @_code(row, codes);
    if (@_log_joint(codes, p) != 0) {
        for (c = 0; c < @_N_CLASSES; c++)
            p[c] = (double)NAN;
        return -1;
    }
    top = p[0];
    for (c = 1; c < @_N_CLASSES; c++)
        top = p[c] > top ? p[c] : top;
    for (c = 0; c < @_N_CLASSES; c++)
        total += p[c] = exp(p[c] - top);
    for (c = 0; c < @_N_CLASSES; c++)
        p[c] /= total;
    return 0;
}

/* Returns log P(what is known), the class summed out: low where a row is strange. NaN where the
 * score would be. Only of probabilities, not of scores. */
static inline double @_log_probability(const @_row *row)
{
    int codes[@_N_FEATURES], c;
    double joint[@_N_CLASSES], top, total = 0.0;
    @_code(row, codes);
    if (@_log_joint(codes, joint) != 0)
        return (double)NAN;
    top = joint[0];
    for (c = 1; c < @_N_CLASSES; c++)
        top = joint[c] > top ? joint[c] : top;
    for (c = 0; c < @_N_CLASSES; c++)
        total += exp(joint[c] - top);
    return top + log(total);
}

/* Writes each feature's part of the log-joint; with the class prior they sum to it. The difference
 * of two classes is the feature's contribution to their log-odds. Returns as the score does. */
static inline int @_terms(const @_row *row, double terms[@_N_FEATURES][@_N_CLASSES])
{
    int codes[@_N_FEATURES], groups[@_N_FEATURES], partial[@_N_FEATURES], i, k, c, complete = 1;
    double before[@_N_CLASSES], after[@_N_CLASSES];
    @_code(row, codes);
    for (i = 0; i < @_N_FEATURES; i++) {
        partial[i] = @_arity[i];
        complete = complete && codes[i] < @_arity[i];
    }
    @_begin(codes, groups, after);
    for (c = 0; c < @_N_CLASSES; c++)
        before[c] = @_log_prior[c];
    for (k = 0; k < @_N_FEATURES; k++) {
        i = @_order[k];
        partial[i] = codes[i];
        if (complete) {
            const double *cell = @_cell(i, groups);
            const double *share = @_share(i, codes[i]);
            for (c = 0; c < @_N_CLASSES; c++)
                terms[i][c] = share == NULL ? cell[c] : cell[c] + share[c];
            continue;
        }
        if (@_log_joint(partial, after) != 0)
            return -1;
        for (c = 0; c < @_N_CLASSES; c++) {
            terms[i][c] = after[c] - before[c];
            before[c] = after[c];
        }
    }
    return 0;
}
