/* Look-ups for one type of codes: CODE is the type, NAME(x) names a function. */

#ifndef TANAGER_TABLE_TYPES
#define TANAGER_TABLE_TYPES
typedef struct {
    const int64_t *members, *member_start;
    const double *flat;
    const int64_t *flat_start;
    int64_t size, n_families;
} Dense;

typedef struct {
    const int64_t *child, *value, *parent, *start;
    const double *log_escape;
    const int64_t *cell_value;
    const double *cell_log_prob;
    int inherit, backoff;
} Tree;

/* Return where `wanted` is in sorted distinct values[first:last], or -1. Distinct numbers
 * put v at offset v at the latest; where the run is complete that first guess hits. */
static inline int64_t find_value(const int64_t *values, int64_t first, int64_t last, int64_t wanted)
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

static double tree_term(const Tree *tree, int64_t node, int64_t x, double log_uniform)
{
    double total = 0.0;
    for (;;) {
        int64_t cell = find_value(tree->cell_value, tree->start[node], tree->start[node + 1], x);
        if (cell >= 0)
            return total + tree->cell_log_prob[cell];
        total += tree->log_escape[node];
        if (!tree->inherit)
            return total;
        if (node == 0)
            return total + log_uniform;
        node = tree->parent[node];
    }
}
#endif

WIDE static void NAME(add_dense_terms)(const CODE *codes, int64_t n_rows, const int64_t *arities,
                                       const Dense *tables, double *out, int64_t n_classes)
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
                const CODE *column = codes + member[m] * n_rows + row;
                uint32_t arity = (uint32_t)arities[member[m]], top = 0;
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
                    const CODE *column = codes + member[m] * n_rows + row;
                    for (int64_t r = 0; r < size; r++)
                        if (column[r] >= arities[member[m]])
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

static void NAME(add_tree_terms)(const CODE *codes, int64_t n_rows, const int64_t *arities,
                                 const int64_t *members, int64_t n_parents, const Tree *tree,
                                 int64_t n_classes, double *out)
{
    int64_t child = members[n_parents];
    double log_uniform = -log((double)arities[child]);
    for (int64_t r = 0; r < n_rows; r++, out += n_classes) {
        int known = 1;
        for (int64_t m = 0; m <= n_parents; m++)
            known &= codes[members[m] * n_rows + r] < arities[members[m]];
        if (!known)
            continue;
        int64_t x = codes[child * n_rows + r];
        for (int64_t c = 0; c < n_classes; c++) {
            int64_t node = find_value(tree->value, tree->child[0], tree->child[1], c);
            int64_t depth = node >= 0;
            node = node >= 0 ? node : 0;
            for (int64_t m = 0; depth == m + 1 && m < n_parents; m++) {
                int64_t code = codes[members[m] * n_rows + r];
                int64_t below = find_value(tree->value, tree->child[node], tree->child[node + 1], code);
                if (below >= 0) {
                    node = below;
                    depth++;
                }
            }
            if (!tree->backoff && depth < n_parents + 1)
                out[c] += log_uniform;
            else
                out[c] += tree_term(tree, node, x, log_uniform);
        }
    }
}
