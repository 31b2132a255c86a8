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

/* Where the table of feature i holds the values for some groups, all classes side by side. */
static inline const double *@_cell(int i, const int *groups)
{
    long at = 0;
    int k;
    for (k = @_parent_start[i]; k < @_parent_start[i + 1]; k++)
        at = at * @_n_groups[@_parents[k]] + groups[@_parents[k]];
    return @_tables + @_table_start[i] + (at * @_n_groups[i] + groups[i]) * @_N_CLASSES;
}
