/* The scorer: needs nothing but the arrays above, allocates nothing, keeps no state. */

static inline int @_number(const double *cuts, int n_cuts, int missing, double value)
{
    int low = 0, high = n_cuts;
    if (value != value)
        return missing;
    while (low < high) {
        int middle = (low + high) / 2;
        if (cuts[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static inline int @_category(const double *values, const int *codes, int n_values, int missing,
                             int unknown, double value)
{
    int at = @_number(values, n_values, -1, value);
    if (at < 0)
        return missing;
    return at < n_values && values[at] == value ? codes[at] : unknown;
}

static inline int @_text(const char *const *texts, const int *codes, int n_texts, int missing,
                         int unknown, const char *value)
{
    int low = 0, high = n_texts;
    if (value == NULL)
        return missing;
    while (low < high) {
        int middle = (low + high) / 2;
        int order = strcmp(texts[middle], value);
        if (order == 0)
            return codes[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return unknown;
}

/* Where the table of feature i holds the values for some codes, all classes side by side. */
static inline const double *@_cell(int i, const int *codes)
{
    long at = 0;
    int k;
    for (k = @_parent_start[i]; k < @_parent_start[i + 1]; k++) {
        int code = codes[@_parents[k]];
        if (@_group_start[k] >= 0)
            code = @_groups[@_group_start[k] + code];
        at = at * @_group_count[k] + code;
    }
    return @_tables + @_table_start[i] + (at * @_arity[i] + codes[i]) * @_N_CLASSES;
}
