/* Coding a matrix of NUMBER_TYPE into codes of CODE; IS_REAL where NaN and infinity occur. */

static int64_t NAME(encode)(const void *x_, int64_t n_rows, int64_t n_columns, const Coder *coder,
                            CODE *out)
{
    const NUMBER_TYPE *x = x_;
    int64_t bad = -1;
    for (int64_t row = 0; row < n_rows; row += BLOCK)
        for (int64_t j = 0; j < n_columns; j++) {
            int64_t last = least(row + BLOCK, n_rows), count = coder->size[j];
            const double *table = coder->table + coder->start[j];
            CODE *codes = out + j * n_rows;
            for (int64_t r = row; r < last; r++) {
                NUMBER_TYPE v = x[r * n_columns + j];
                int64_t code = coder->unknown[j];
                if (IS_REAL && isnan((double)v))
                    code = coder->missing[j];
                else if (IS_REAL && isinf((double)v))
                    bad = j;
                else if (coder->kind[j] == LOOKUP) {
                    /* Beyond 2^62 no whole number is looked up, and the cast would be undefined. */
                    if (!IS_REAL || (v > -4.6e18 && v < 4.6e18)) {
                        int64_t whole = (int64_t)v;
                        uint64_t place = (uint64_t)whole - (uint64_t)coder->lowest[j];
                        if (place < (uint64_t)count && (NUMBER_TYPE)whole == v)
                            code = coder->lookup[coder->start[j] + (int64_t)place];
                    }
                } else {
                    int64_t left = 0, right = count;
                    while (left < right) {
                        int64_t middle = (left + right) >> 1;
                        if (table[middle] < (double)v)
                            left = middle + 1;
                        else
                            right = middle;
                    }
                    if (coder->kind[j] == CUTS || (left < count && table[left] == (double)v))
                        code = left;
                }
                codes[r] = (CODE)code;
            }
        }
    return bad;
}
