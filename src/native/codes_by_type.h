/* Coding a matrix of NUMBER_TYPE into codes of CODE; IS_REAL where NaN and infinity occur. */

/* Write the codes of column j of some rows, by a table of whole numbers. */
static void NAME(look_up)(const NUMBER_TYPE *x, int64_t n_rows, int64_t stride, const Coder *coder,
                          int64_t j, int *infinite, CODE *out)
{
    const uint16_t *lookup = coder->lookup + coder->start[j];
    uint64_t lowest = (uint64_t)coder->lowest[j], count = (uint64_t)coder->size[j];
    CODE unknown = (CODE)coder->unknown[j], missing = (CODE)coder->missing[j];
    for (int64_t r = 0; r < n_rows; r++) {
        NUMBER_TYPE v = x[r * stride];
        /* Beyond 2^62 no whole number is looked up, and the cast would be undefined. */
        int fits = !IS_REAL || (v > -4.6e18 && v < 4.6e18);
        int64_t whole = fits ? (int64_t)v : 0;
        uint64_t place = (uint64_t)whole - lowest;
        out[r] = fits && place < count && (NUMBER_TYPE)whole == v ? (CODE)lookup[place] : unknown;
        if (IS_REAL && !fits) {
            if (isnan((double)v))
                out[r] = missing;
            *infinite |= isinf((double)v);
        }
    }
}

/* The same by a sorted table: how many entries are below (CUTS), or which one it is. */
static void NAME(search)(const NUMBER_TYPE *x, int64_t n_rows, int64_t stride, const Coder *coder,
                         int64_t j, int *infinite, CODE *out)
{
    const double *table = coder->table + coder->start[j];
    int64_t count = coder->size[j];
    for (int64_t r = 0; r < n_rows; r++) {
        double v = (double)x[r * stride];
        int64_t code = coder->unknown[j];
        if (IS_REAL && isnan(v))
            code = coder->missing[j];
        else if (IS_REAL && isinf(v))
            *infinite = 1;
        else {
            /* Without a branch on the comparison: which way a number goes is not predictable. */
            const double *base = table;
            for (int64_t n = count; n > 1; n -= n / 2)
                base += base[n / 2 - 1] < v ? n / 2 : 0;
            int64_t left = base - table + (count > 0 && *base < v);
            if (coder->kind[j] == CUTS || (left < count && table[left] == v))
                code = left;
        }
        out[r] = (CODE)code;
    }
}

static int64_t NAME(encode)(const void *x_, int64_t n_rows, int64_t n_columns, const Coder *coder,
                            CODE *out)
{
    const NUMBER_TYPE *x = x_;
    int64_t bad = -1;
    for (int64_t row = 0; row < n_rows; row += BLOCK)
        for (int64_t j = 0; j < n_columns; j++) {
            const NUMBER_TYPE *column = x + row * n_columns + j;
            int64_t size = least(BLOCK, n_rows - row);
            int infinite = 0;
            (coder->kind[j] == LOOKUP ? NAME(look_up) : NAME(search))(
                column, size, n_columns, coder, j, &infinite, out + j * n_rows + row);
            if (infinite)
                bad = j;
        }
    return bad;
}
