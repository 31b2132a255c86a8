
/* Every code is a group of its own here, and adds nothing to it. */
static inline const double *@_share(int i, int code)
{
    (void)i;
    (void)code;
    return NULL;
}

/* Writes the group of every code, and the class prior. */
static inline void @_begin(const int *codes, int *groups, double *joint)
{
    int i, c;
    for (c = 0; c < @_N_CLASSES; c++)
        joint[c] = @_log_prior[c];
    for (i = 0; i < @_N_FEATURES; i++)
        groups[i] = codes[i];
}
