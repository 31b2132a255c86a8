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

/* What a code of feature i adds to the term of its group, one a class; NULL without groups. */
static inline const double *@_share(int i, int code)
{
    return @_group_start[i] < 0 ? NULL : @_within + @_within_start[i] + code * @_N_CLASSES;
}

/* Writes the group of every code, n_groups for unknown, and the part of the log-joint that does not
 * depend on parents: the class prior, and what each code adds to its group. */
static inline void @_begin(const int *codes, int *groups, double *joint)
{
    int i, c;
    for (c = 0; c < @_N_CLASSES; c++)
        joint[c] = @_log_prior[c];
    for (i = 0; i < @_N_FEATURES; i++) {
        if (codes[i] >= @_arity[i]) {
            groups[i] = @_n_groups[i];
        } else if (@_group_start[i] < 0) {
            groups[i] = codes[i];
        } else {
            const double *share = @_share(i, codes[i]);
            groups[i] = @_groups[@_group_start[i] + codes[i]];
            for (c = 0; c < @_N_CLASSES; c++)
                joint[c] += share[c];
        }
    }
}

/* Where the table of feature i holds the values for some groups, all classes side by side. */
static inline const double *@_cell(int i, const int *groups)
{
    long at = 0;
    int k;
    for (k = @_parent_start[i]; k < @_parent_start[i + 1]; k++) {
        int place = groups[@_parents[k]];
        if (@_view_start[k] >= 0)
            place = @_views[@_view_start[k] + place];
        at = at * @_n_places[k] + place;
    }
    return @_tables + @_table_start[i] + (at * @_n_groups[i] + groups[i]) * @_N_CLASSES;
}
