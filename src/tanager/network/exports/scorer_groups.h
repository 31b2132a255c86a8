
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
