/* Look-ups for one type of codes: CODE is the type, NAME(x) names a function. */

#ifndef TANAGER_TABLE_TYPES
#define TANAGER_TABLE_TYPES
typedef struct {
    const int64_t *members, *member_start;
    const double *flat;
    const int64_t *flat_start;
    int64_t size, n_families;
} Dense;

/* One tree-shaped family, see `TreeRows`. */
typedef struct {
    const double *dense;
    const int32_t *first, *child;
    const uint16_t *value;
    const int32_t *entry_start;
    const uint16_t *entry_class;
    const double *log_escape;
    const int32_t *cell_start;
    const uint16_t *cell_value;
    const double *cell_log_prob;
    int64_t n_dense;
    int inherit, backoff;
} Tree;

/* Return where `wanted` is in sorted distinct values[first:last], or -1. Distinct numbers
 * put v at offset v at the latest; where the run is complete that first guess hits. */
static inline int64_t find_value(const uint16_t *values, int64_t first, int64_t last, int64_t wanted)
{
    int64_t guess = first + wanted;
    if (guess < last && values[guess] == wanted)
        return guess;
    last = least(last, guess + 1);
    while (first < last) {
        int64_t middle = (first + last) / 2;
        if (values[middle] < wanted)
            first = middle + 1;
        else if (values[middle] > wanted)
            last = middle;
        else
            return middle;
    }
    return -1;
}

/* Move a row's terms (n_classes,) from a context to one with one more parent. */
static void enter_context(const Tree *tree, int64_t context, int64_t x, double *term)
{
    for (int64_t e = tree->entry_start[context]; e < tree->entry_start[context + 1]; e++) {
        int64_t cell = find_value(tree->cell_value, tree->cell_start[e], tree->cell_start[e + 1], x);
        double *mine = term + tree->entry_class[e];
        if (cell >= 0)
            *mine = tree->cell_log_prob[cell];
        else
            *mine = tree->inherit ? tree->log_escape[e] + *mine : tree->log_escape[e];
    }
}

/* Without backing off, classes that a full context (-1: unseen by all) did not see are even. */
static void level_unseen(const Tree *tree, int64_t context, int64_t n_classes, double log_uniform,
                         double *term)
{
    int64_t e = context < 0 ? 0 : tree->entry_start[context];
    int64_t last = context < 0 ? 0 : tree->entry_start[context + 1];
    for (int64_t c = 0; c < n_classes; c++)
        if (e < last && tree->entry_class[e] == c)
            e++;
        else
            term[c] = log_uniform;
}
#endif

WIDE(void, NAME(add_dense_terms),
     (const CODE *codes, int64_t n_rows, const int64_t *arities, const Dense *tables,
      double *out, int64_t n_classes),
     (codes, n_rows, arities, tables, out, n_classes))
{
    uint32_t index[ROW_BLOCK];
    for (int64_t row = 0; row < n_rows; row += ROW_BLOCK) {
        int64_t size = least(ROW_BLOCK, n_rows - row);
        double *part = out + row * n_classes;
        for (int64_t f = 0; f < tables->n_families; f++) {
            const int64_t *member = tables->members + tables->member_start[f];
            int64_t n_members = tables->member_start[f + 1] - tables->member_start[f];
            int known = 1;
            memset(index, 0, sizeof index);
            for (int64_t m = 0; m < n_members; m++) {
                int64_t at = member[m] < 0 ? ~member[m] : member[m];
                const CODE *column = codes + at * n_rows + row;
                uint32_t arity = (uint32_t)arities[at], top = 0;
                if (member[m] < 0)
                    for (int64_t r = 0; r < size; r++)
                        top = top > column[r] ? top : column[r];
                else
                    for (int64_t r = 0; r < size; r++) {
                        uint32_t code = column[r];
                        top = top > code ? top : code;
                        index[r] = index[r] * arity + code;
                    }
                known &= top < arity;
            }
            const double *table = tables->flat + tables->flat_start[f];
            if (!known) {
                int64_t left = tables->size - tables->flat_start[f];
                uint32_t zeros = (uint32_t)(left / n_classes - 1);
                for (int64_t m = 0; m < n_members; m++) {
                    int64_t at = member[m] < 0 ? ~member[m] : member[m];
                    const CODE *column = codes + at * n_rows + row;
                    for (int64_t r = 0; r < size; r++)
                        if (column[r] >= arities[at])
                            index[r] = zeros;
                }
            }
            if (n_classes == 2) /* spares a loop */
                for (int64_t r = 0; r < size; r++) {
                    const double *cell = table + 2 * (uint64_t)index[r];
                    part[2 * r] += cell[0];
                    part[2 * r + 1] += cell[1];
                }
            else
                for (int64_t r = 0; r < size; r++) {
                    const double *cell = table + (uint64_t)n_classes * index[r];
                    for (int64_t c = 0; c < n_classes; c++)
                        part[r * n_classes + c] += cell[c];
                }
        }
    }
}

/* The combination of the first n_dense parents of each row, or -1 where a member is unknown. */
static void NAME(dense_index)(const CODE *codes, int64_t stride, int64_t size,
                              const int64_t *arities, const int64_t *members, int64_t n_parents,
                              int64_t n_dense, int64_t *index)
{
    int64_t unknown[TREE_BLOCK] = {0};
    memset(index, 0, sizeof(int64_t) * (size_t)size);
    for (int64_t m = 0; m <= n_parents; m++) {
        const CODE *column = codes + members[m] * stride;
        int64_t arity = arities[members[m]];
        for (int64_t r = 0; r < size; r++)
            unknown[r] |= column[r] >= arity;
        for (int64_t r = 0; m < n_dense && r < size; r++)
            index[r] = index[r] * arity + column[r];
    }
    for (int64_t r = 0; r < size; r++)
        index[r] = unknown[r] ? -1 : index[r];
}

/* Rows go through the levels in blocks, so that the reads of many rows are under way at once.
 * terms: room for (TREE_BLOCK, n_classes). */
static void NAME(add_tree_terms)(const CODE *codes, int64_t n_rows, const int64_t *arities,
                                 const int64_t *members, int64_t n_parents, const Tree *tree,
                                 int64_t n_classes, double *terms, double *out)
{
    int64_t child = members[n_parents], context[TREE_BLOCK], index[TREE_BLOCK];
    const CODE *x = codes + child * n_rows;
    double log_uniform = -log((double)arities[child]);
    size_t bytes = sizeof(double) * (size_t)n_classes;
    for (int64_t row = 0; row < n_rows; row += TREE_BLOCK, x += TREE_BLOCK) {
        int64_t size = least(TREE_BLOCK, n_rows - row);
        NAME(dense_index)(codes + row, n_rows, size, arities, members, n_parents, tree->n_dense, index);
        for (int64_t r = 0; r < size; r++) {
            PREFETCH(tree->first + index[r]);
            for (size_t at = 0; index[r] >= 0 && at < bytes; at += 64)
                PREFETCH((const char *)(tree->dense + (index[r] * arities[child] + x[r]) * n_classes) + at);
        }
        for (int64_t r = 0; r < size; r++) {
            context[r] = index[r] < 0 ? UNKNOWN : tree->first[index[r]];
            if (index[r] >= 0)
                memcpy(terms + r * n_classes,
                       tree->dense + (index[r] * arities[child] + x[r]) * n_classes, bytes);
            else
                memset(terms + r * n_classes, 0, bytes);
        }
        for (int64_t m = tree->n_dense; m < n_parents; m++) {
            const CODE *column = codes + members[m] * n_rows + row;
            for (int64_t r = 0; r < size; r++)
                if (context[r] >= 0) {
                    context[r] = find_value(tree->value, tree->child[context[r]],
                                            tree->child[context[r] + 1], column[r]);
                    PREFETCH(tree->entry_start + context[r]);
                    PREFETCH(tree->child + context[r]);
                }
            for (int64_t r = 0; r < size; r++)
                if (context[r] >= 0) {
                    int64_t entry = tree->entry_start[context[r]];
                    PREFETCH(tree->entry_class + entry);
                    PREFETCH(tree->cell_start + entry);
                    PREFETCH(tree->value + tree->child[context[r]]);
                }
            for (int64_t r = 0; r < size; r++)
                if (context[r] >= 0) {
                    int64_t entry = tree->entry_start[context[r]];
                    int64_t cell = tree->cell_start[entry];
                    int64_t last = tree->cell_start[tree->entry_start[context[r] + 1]];
                    PREFETCH(tree->log_escape + entry);
                    PREFETCH(tree->cell_value + cell);
                    for (int64_t at = cell; at < least(last, cell + 64); at += 8)
                        PREFETCH(tree->cell_log_prob + at);
                }
            for (int64_t r = 0; r < size; r++)
                if (context[r] >= 0)
                    enter_context(tree, context[r], x[r], terms + r * n_classes);
        }
        for (int64_t r = 0; !tree->backoff && tree->n_dense < n_parents && r < size; r++)
            if (context[r] != UNKNOWN)
                level_unseen(tree, context[r], n_classes, log_uniform, terms + r * n_classes);
        for (int64_t at = 0; at < size * n_classes; at++)
            out[row * n_classes + at] += terms[at];
    }
}
