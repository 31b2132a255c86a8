static inline int @_message_at(int s, const int *groups)
{
    int at = 0, k;
    for (k = @_separator_start[s]; k < @_separator_start[s + 1]; k++)
        at = at * @_n_groups[@_separators[k]] + groups[@_separators[k]];
    return @_message_start[s] + at * @_N_CLASSES;
}


/* Sums unknown features out, exactly: one message a step, over the groups that are not known. */
static inline void @_sum(const int *known, double *joint)
{
    double messages[@_N_MESSAGES];
    int groups[@_N_FEATURES], low[@_N_FEATURES], high[@_N_FEATURES], holds[@_N_FEATURES];
    int i, s, k, c, v;
    for (i = 0; i < @_N_FEATURES; i++)
        holds[i] = known[i] < @_n_groups[i];
    for (k = @_N_FEATURES - 1; k >= 0; k--) {
        i = @_order[k];
        if (holds[i])
            for (s = @_parent_start[i]; s < @_parent_start[i + 1]; s++)
                holds[@_parents[s]] = 1;
    }
    for (i = 0; i < @_N_FEATURES; i++) {
        int free = holds[i] && known[i] >= @_n_groups[i];
        low[i] = free || !holds[i] ? 0 : known[i];
        high[i] = free ? @_n_groups[i] : low[i] + 1; /* what has nothing known below drops out */
    }
    for (s = 0; s < @_N_STEPS; s++) {
        const int f = @_step_feature[s];
        const int *around = @_separators + @_separator_start[s];
        const int n_around = @_separator_start[s + 1] - @_separator_start[s];
        for (k = 0; k < n_around; k++)
            groups[around[k]] = low[around[k]];
        for (;;) {
            double top[@_N_CLASSES] = {0.0}, total[@_N_CLASSES] = {0.0};
            double *out = joint;
            for (v = low[f]; v < high[f]; v++) {
                double term[@_N_CLASSES];
                groups[f] = v;
                for (c = 0; c < @_N_CLASSES; c++)
                    term[c] = 0.0;
                for (k = @_step_family_start[s]; k < @_step_family_start[s + 1]; k++) {
                    i = @_step_families[k];
                    if (holds[i]) {
                        const double *cell = @_cell(i, groups);
                        for (c = 0; c < @_N_CLASSES; c++)
                            term[c] += cell[c];
                    }
                }
                for (k = @_step_message_start[s]; k < @_step_message_start[s + 1]; k++) {
                    const double *cell = messages + @_message_at(@_step_messages[k], groups);
                    for (c = 0; c < @_N_CLASSES; c++)
                        term[c] += cell[c];
                }
                for (c = 0; c < @_N_CLASSES; c++) {
                    if (v == low[f]) {
                        top[c] = term[c];
                        total[c] = 1.0;
                    } else if (term[c] <= top[c]) {
                        total[c] += exp(term[c] - top[c]);
                    } else {
                        total[c] = total[c] * exp(top[c] - term[c]) + 1.0;
                        top[c] = term[c];
                    }
                }
            }
            if (n_around > 0)
                out = messages + @_message_at(s, groups);
            for (c = 0; c < @_N_CLASSES; c++) {
                double sum = high[f] - low[f] > 1 ? top[c] + log(total[c]) : top[c];
                out[c] = n_around > 0 ? sum : out[c] + sum;
            }
            for (k = n_around - 1; k >= 0; k--) {
                i = around[k];
                if (++groups[i] < high[i])
                    break;
                groups[i] = low[i];
            }
            if (k < 0)
                break;
        }
    }
}
