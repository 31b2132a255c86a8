/* Counting kernels for one type of codes: CODE is the type, NAME(x) names a function. */

static void NAME(count_values)(const void *codes_, int64_t n_features, int64_t n_rows,
                               const uint16_t *labels, const double *weights,
                               const int64_t *arities, int64_t n_classes, const int64_t *start,
                               double *out)
{
    const CODE *codes = codes_;
    for (int64_t i = 0; i < n_features; i++, codes += n_rows) {
        double *counts = out + start[i];
        for (int64_t r = 0; r < n_rows; r++)
            if (codes[r] < arities[i])
                counts[codes[r] * n_classes + labels[r]] += weights ? weights[r] : 1.0;
    }
}

static void NAME(count_pairs)(const void *codes_, int64_t n_features, int64_t n_rows,
                              const uint16_t *labels, const double *weights,
                              const int64_t *arities, int64_t n_classes, const int64_t *left,
                              const int64_t *right, int64_t n_pairs, const int64_t *start,
                              double *out)
{
    const CODE *codes = codes_;
    (void)n_features;
    for (int64_t p = 0; p < n_pairs; p++) {
        const CODE *column_i = codes + left[p] * n_rows, *column_j = codes + right[p] * n_rows;
        uint64_t n_i = (uint64_t)arities[left[p]], n_j = (uint64_t)arities[right[p]];
        double *joint = out + start[p];
        for (int64_t r = 0; r < n_rows; r++) {
            uint64_t a = column_i[r], b = column_j[r];
            if (a < n_i && b < n_j)
                joint[(a * n_j + b) * (uint64_t)n_classes + labels[r]] += weights ? weights[r] : 1.0;
        }
    }
}

/* Write, 64 codes to a word, which of them equal a value. Eight flags in the bytes of a
 * number are gathered into its top byte by one multiplication, each on a bit of its own. */
WIDE(void, NAME(pack_equal),
     (const CODE *codes, int64_t size, CODE value, uint8_t *flags, uint64_t *words),
     (codes, size, value, flags, words))
{
    for (int64_t at = 0; at < size; at++)
        flags[at] = codes[at] == value;
    for (int64_t w = 0; w < size / 64; w++) {
        uint64_t word = 0;
        for (int b = 0; b < 8; b++) {
            uint64_t eight;
            memcpy(&eight, flags + 64 * w + 8 * b, 8);
            word |= ((eight * 0x0102040810204080u) >> 56) << (8 * b);
        }
        words[w] = word;
    }
}

/* Each value of each feature is a set of rows held in bits, grouped by class; a joint
 * count is the size of an intersection: arity_i * arity_j / 64 operations a row. */
static int64_t NAME(count_pairs_by_bits)(const void *codes_, int64_t n_features, int64_t n_rows,
                                         const uint16_t *labels, const int64_t *arities,
                                         int64_t n_classes, const int64_t *left,
                                         const int64_t *right, int64_t n_pairs,
                                         const int64_t *start, double *out)
{
    const CODE *codes = codes_;
    int64_t n_words = BIT_ROWS / 64 + n_classes, n_values = 0;
    for (int64_t i = 0; i < n_features; i++)
        n_values += arities[i];
    int64_t *first = malloc(sizeof(int64_t) * (size_t)(n_features + 1));
    uint64_t *bits = malloc(sizeof(uint64_t) * (size_t)(n_values * n_words + 1));
    int64_t *place = malloc(sizeof(int64_t) * BIT_ROWS);
    int64_t *word_start = malloc(sizeof(int64_t) * (size_t)(n_classes + 1));
    int64_t *filled = malloc(sizeof(int64_t) * (size_t)n_classes);
    CODE *grouped = malloc(sizeof(CODE) * (size_t)n_words * 64);
    uint8_t *flags = malloc((size_t)n_words * 64);
    Intersect intersect = choose_intersect();
    int64_t answer = NO_MEMORY;
    if (!first || !bits || !place || !word_start || !filled || !grouped || !flags)
        goto done;
    answer = first[0] = word_start[0] = 0;
    for (int64_t i = 0; i < n_features; i++)
        first[i + 1] = first[i] + arities[i];
    for (int64_t row = 0; row < n_rows; row += BIT_ROWS) {
        int64_t size = least(BIT_ROWS, n_rows - row);
        const uint16_t *label = labels + row;
        memset(filled, 0, sizeof(int64_t) * (size_t)n_classes);
        for (int64_t r = 0; r < size; r++)
            filled[label[r]]++;
        for (int64_t c = 0; c < n_classes; c++) {
            word_start[c + 1] = word_start[c] + (filled[c] + 63) / 64;
            filled[c] = word_start[c] * 64;
        }
        for (int64_t r = 0; r < size; r++)
            place[r] = filled[label[r]]++;
        int64_t room = word_start[n_classes] * 64;
        for (int64_t i = 0; i < n_features; i++) {
            const CODE *column = codes + i * n_rows + row;
            for (int64_t at = 0; at < room; at++)
                grouped[at] = (CODE)arities[i]; /* between the classes: no value at all */
            for (int64_t r = 0; r < size; r++)
                grouped[place[r]] = column[r];
            for (int64_t value = 0; value < arities[i]; value++)
                NAME(pack_equal)(grouped, room, (CODE)value, flags,
                                 bits + (first[i] + value) * n_words);
        }
        for (int64_t p = 0; p < n_pairs; p++) {
            int64_t i = left[p], j = right[p];
            double *cell = out + start[p];
            for (int64_t a = 0; a < arities[i]; a++)
                for (int64_t b = 0; b < arities[j]; b++, cell += n_classes)
                    intersect(bits + (first[i] + a) * n_words, bits + (first[j] + b) * n_words,
                              word_start, n_classes, cell);
        }
    }
done:
    free(first), free(bits), free(place), free(word_start), free(filled), free(grouped), free(flags);
    return answer;
}

static void NAME(extend_keys)(const void *codes_, int64_t n_rows, const int64_t *members,
                              const int64_t *arities, int64_t n_members, int64_t *keys,
                              int64_t n_keys)
{
    const CODE *codes = codes_;
    for (int64_t m = 0; m < n_members; m++) {
        const CODE *column = codes + members[m] * n_rows;
        int64_t arity = arities[m];
        for (int64_t r = 0; r < n_keys; r++)
            keys[r] = column[r] >= arity || keys[r] < 0 ? -1 : keys[r] * arity + column[r];
    }
}
