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

/* The same by a sorted table: how many entries are below (CUTS), or which one it is.
 *
 * All rows of the block go one step of the search together, without a branch on the
 * comparison: a row's steps wait for each other, those of many rows do not. */
WIDE(void, NAME(search),
     (const NUMBER_TYPE *x, int64_t n_rows, int64_t stride, const Coder *coder, int64_t j,
      int *infinite, CODE *out),
     (x, n_rows, stride, coder, j, infinite, out))
{
    const double *table = coder->table + coder->start[j];
    int64_t count = coder->size[j], left[BLOCK] = {0};
    double v[BLOCK];
    for (int64_t r = 0; r < n_rows; r++)
        v[r] = (double)x[r * stride];
    for (int64_t n = count; n > 1; n -= n / 2) {
        const double *middle = table + n / 2 - 1;
        for (int64_t r = 0; r < n_rows; r++)
            left[r] += middle[left[r]] < v[r] ? n / 2 : 0;
    }
    for (int64_t r = 0; count > 0 && r < n_rows; r++)
        left[r] += table[left[r]] < v[r];
    for (int64_t r = 0; coder->kind[j] != CUTS && r < n_rows; r++)
        if (left[r] == count || table[left[r]] != v[r])
            left[r] = coder->unknown[j];
    for (int64_t r = 0; r < n_rows; r++)
        out[r] = (CODE)(IS_REAL && isnan(v[r]) ? coder->missing[j] : left[r]);
    for (int64_t r = 0; IS_REAL && r < n_rows; r++)
        *infinite |= isinf(v[r]) != 0;
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
            if (infinite && (bad < 0 || j < bad))
                bad = j;
        }
    return bad;
}
