/* Gradient boosting with trees whose branches only split the features of one clique each.
 *
 * A value is one of up to 64 groups, so a split is a set of them: those whose bits are set go left.
 * Trees grow leaf by leaf, the split with the largest gain first. Of gains that differ by rounding
 * alone the first counts, so results don't depend on the order of sums. */
#include "maths.h"

#define MOST_GROUPS 64
#define LEAF -1
#define NO_NODE -2
#define LEAST_GAIN 1e-6
#define CLEARLY 1e-9 /* relative difference of two gains that isn't rounding */

typedef struct {
    int64_t start, end; /* its rows in `order` */
    double slope, curvature, weight;
    double gain; /* of the best split, 0 for none */
    int32_t feature;
    uint64_t mask;
} Node;

typedef struct {
    int64_t n_features, n_rows, n_held, n_classes, n_cliques, n_splits;
    const uint8_t *codes, *held, *ordered;
    const double *weights; /* NULL: 1 each */
    const int64_t *sizes, *clique_starts, *cliques;
    double rate, ridge, least;
    int32_t *order, *spare; /* rows, those of a node side by side */
    double *slopes, *curvatures;
    uint8_t *open;    /* (n_nodes, n_cliques): whether the path splits the clique's features only */
    uint8_t *allowed; /* (n_features,) */
    Node *nodes;
} Forest;

/* The gain of a split is that of the loss's quadratic approximation. */
static double worth(const Forest *all, double slope, double curvature)
{
    return slope * slope / (curvature + all->ridge);
}

/* Find a feature's best split of a node, better than the one known. */
static void split_feature(const Forest *all, Node *node, int64_t feature)
{
    double sums[MOST_GROUPS][3] = {{0.0}};
    int64_t size = all->sizes[feature], sorted[MOST_GROUPS], n = 0;
    const uint8_t *codes = all->codes + feature * all->n_rows;
    for (int64_t k = node->start; k < node->end; k++) {
        int64_t row = all->order[k];
        double *sum = sums[codes[row]];
        sum[0] += all->slopes[row];
        sum[1] += all->curvatures[row];
        sum[2] += all->weights ? all->weights[row] : 1.0;
    }
    for (int64_t v = 0; v < size; v++) {
        if (sums[v][2] <= 0.0 && !all->ordered[feature])
            continue;
        int64_t at = n++;
        double own = sums[v][0] / (sums[v][1] + all->ridge);
        for (; !all->ordered[feature] && at > 0; at--) {
            const double *before = sums[sorted[at - 1]];
            if (before[0] / (before[1] + all->ridge) <= own)
                break;
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = v;
    }
    double slope = 0.0, curvature = 0.0, weight = 0.0;
    double whole = worth(all, node->slope, node->curvature);
    uint64_t mask = 0;
    for (int64_t k = 0; k + 1 < n; k++) {
        const double *sum = sums[sorted[k]];
        mask |= (uint64_t)1 << sorted[k];
        slope += sum[0];
        curvature += sum[1];
        weight += sum[2];
        if (weight < all->least || sum[2] <= 0.0)
            continue;
        if (node->weight - weight < all->least)
            break;
        double gain = worth(all, slope, curvature) - whole +
                      worth(all, node->slope - slope, node->curvature - curvature);
        if (gain > high(node->gain * (1.0 + CLEARLY), LEAST_GAIN)) {
            node->gain = gain;
            node->feature = (int32_t)feature;
            node->mask = mask;
        }
    }
}

/* Sum a node's rows and find its best split. */
static void look_at(const Forest *all, int64_t at)
{
    Node *node = all->nodes + at;
    const uint8_t *open = all->open + at * all->n_cliques;
    node->slope = node->curvature = node->weight = node->gain = 0.0;
    for (int64_t k = node->start; k < node->end; k++) {
        int64_t row = all->order[k];
        node->slope += all->slopes[row];
        node->curvature += all->curvatures[row];
        node->weight += all->weights ? all->weights[row] : 1.0;
    }
    if (node->weight < 2.0 * all->least)
        return;
    memset(all->allowed, 0, (size_t)all->n_features);
    for (int64_t q = 0; q < all->n_cliques; q++)
        for (int64_t k = all->clique_starts[q]; open[q] && k < all->clique_starts[q + 1]; k++)
            all->allowed[all->cliques[k]] = 1;
    for (int64_t feature = 0; feature < all->n_features; feature++)
        if (all->allowed[feature])
            split_feature(all, node, feature);
}

/* Divide a node's rows between two new nodes, keeping their order. */
static void split_node(const Forest *all, int64_t at, int64_t left)
{
    const Node *node = all->nodes + at;
    const uint8_t *codes = all->codes + node->feature * all->n_rows;
    int64_t n_left = 0, n_right = 0;
    for (int64_t k = node->start; k < node->end; k++) {
        int32_t row = all->order[k];
        if (node->mask >> codes[row] & 1)
            all->order[node->start + n_left++] = row;
        else
            all->spare[n_right++] = row;
    }
    int64_t middle = node->start + n_left;
    memcpy(all->order + middle, all->spare, sizeof(int32_t) * (size_t)n_right);
    all->nodes[left].start = node->start;
    all->nodes[left].end = all->nodes[left + 1].start = middle;
    all->nodes[left + 1].end = node->end;
    for (int64_t q = 0; q < all->n_cliques; q++) {
        uint8_t holds = 0;
        for (int64_t k = all->clique_starts[q]; k < all->clique_starts[q + 1]; k++)
            holds |= all->cliques[k] == node->feature;
        holds &= all->open[at * all->n_cliques + q];
        all->open[left * all->n_cliques + q] = all->open[(left + 1) * all->n_cliques + q] = holds;
    }
}

/* Grow a tree; its nodes go to features (or LEAF, or NO_NODE), masks, children (the left one; the
 * right one follows it) and values. */
static void grow(const Forest *all, int32_t *features, uint64_t *masks, int32_t *children,
                 double *values)
{
    int64_t n_nodes = 1;
    for (int64_t row = 0; row < all->n_rows; row++)
        all->order[row] = (int32_t)row;
    memset(all->open, 1, (size_t)all->n_cliques);
    all->nodes[0].start = 0;
    all->nodes[0].end = all->n_rows;
    for (int64_t at = 0; at <= 2 * all->n_splits; at++) {
        features[at] = at ? NO_NODE : LEAF;
        masks[at] = 0;
        children[at] = 0;
        values[at] = 0.0;
    }
    look_at(all, 0);
    for (int64_t k = 0; k < all->n_splits; k++) {
        int64_t best = -1;
        for (int64_t at = 0; at < n_nodes; at++)
            if (features[at] < 0 && all->nodes[at].gain > 0.0 &&
                (best < 0 || all->nodes[at].gain > all->nodes[best].gain * (1.0 + CLEARLY)))
                best = at;
        if (best < 0)
            break;
        split_node(all, best, n_nodes);
        features[best] = all->nodes[best].feature;
        masks[best] = all->nodes[best].mask;
        children[best] = (int32_t)n_nodes;
        for (int64_t end = n_nodes + 2; n_nodes < end; n_nodes++) {
            features[n_nodes] = LEAF;
            look_at(all, n_nodes);
        }
    }
    for (int64_t at = 0; at < n_nodes; at++) {
        const Node *node = all->nodes + at;
        values[at] = -all->rate * node->slope / (node->curvature + all->ridge);
    }
}

/* Add `n_rounds` trees for each class but the first of two, or for each of more; scores, which
 * are where the trees begin, and the scores of held rows follow. Features that stand together in
 * no clique never stand on one path; cliques are clique_starts and cliques. `least` is the least
 * weight of a leaf's rows, `ridge` what is added to its curvature. */
static int64_t run_boost_groups(Argument *arguments)
{
    Forest all = {.n_features = LENGTH(0, 0), .n_rows = LENGTH(0, 1), .n_held = LENGTH(3, 1),
                  .n_classes = LENGTH(13, 1), .n_cliques = LENGTH(6, 0) - 1,
                  .n_splits = NUMBER(9), .codes = BYTES(0), .held = BYTES(3),
                  .weights = SIZE(2) ? DOUBLES(2) : NULL, .sizes = LONGS(4), .ordered = BYTES(5),
                  .clique_starts = LONGS(6), .cliques = LONGS(7), .rate = REAL(10),
                  .ridge = REAL(11), .least = REAL(12)};
    const uint16_t *labels = SHORTS(1);
    double *scores = DOUBLES(13), *held_scores = DOUBLES(14);
    int64_t n_nodes = 2 * all.n_splits + 1, n = all.n_classes, first = n == 2;
    size_t rows = (size_t)all.n_rows;
    double *numbers = malloc(sizeof(double) * (rows * (size_t)(n + 2) + 1));
    int32_t *places = malloc(sizeof(int32_t) * (2 * rows + 1));
    uint8_t *marks = malloc((size_t)(n_nodes * all.n_cliques + all.n_features + 1));
    all.nodes = malloc(sizeof(Node) * (size_t)n_nodes);
    if (!numbers || !places || !marks || !all.nodes) {
        free(numbers), free(places), free(marks), free(all.nodes);
        return NO_MEMORY;
    }
    double *shares = numbers + 2 * rows, *scale = DOUBLES(2);
    all.slopes = numbers;
    all.curvatures = numbers + rows;
    all.order = places;
    all.spare = places + rows;
    all.open = marks;
    all.allowed = marks + n_nodes * all.n_cliques;
    int64_t tree = 0;
    for (int64_t round = 0; round < NUMBER(8); round++) {
        for (int64_t row = 0; row < all.n_rows; row++) {
            const double *own = scores + row * n;
            double top = own[0], total = 0.0;
            for (int64_t c = 1; c < n; c++)
                top = high(top, own[c]);
            for (int64_t c = 0; c < n; c++)
                total += shares[row * n + c] = exponential(own[c] - top);
            for (int64_t c = 0; c < n; c++)
                shares[row * n + c] /= total;
        }
        for (int64_t c = first; c < n; c++, tree++) {
            double steeper = first ? 1.0 : (double)n / (double)(n - 1);
            for (int64_t row = 0; row < all.n_rows; row++) {
                double p = shares[row * n + c], weight = all.weights ? scale[row] : 1.0;
                all.slopes[row] = weight * (p - (labels[row] == c));
                all.curvatures[row] = weight * p * (1.0 - p) * steeper;
            }
            int32_t *features = INTS(15) + tree * n_nodes, *children = INTS(17) + tree * n_nodes;
            uint64_t *masks = WORDS(16) + tree * n_nodes;
            double *values = DOUBLES(18) + tree * n_nodes;
            grow(&all, features, masks, children, values);
            for (int64_t at = 0; at < n_nodes; at++)
                for (int64_t k = all.nodes[at].start; features[at] == LEAF && k < all.nodes[at].end;
                     k++)
                    scores[all.order[k] * n + c] += values[at];
            for (int64_t row = 0; row < all.n_held; row++) {
                int64_t at = 0;
                while (features[at] >= 0)
                    at = children[at] + !(masks[at] >> all.held[features[at] * all.n_held + row] & 1);
                held_scores[row * n + c] += values[at];
            }
        }
    }
    free(numbers), free(places), free(marks), free(all.nodes);
    return 0;
}
KERNEL(boost_groups,
       "codes: uint8[n_features, n_rows] below 64\n"
       "labels: uint16[n_rows] below n_classes\n"
       "weights: float64[n_rows] or empty\n"
       "held: uint8[n_features, n_held] below 64\n"
       "sizes: int64[n_features] below 65\n"
       "ordered: uint8[n_features]\n"
       "clique_starts: int64[n_cliques + 1] rising to n_members\n"
       "cliques: int64[n_members] below n_features\n"
       "n_rounds: int from 1\n"
       "n_splits: int from 1\n"
       "rate: float\n"
       "ridge: float\n"
       "least: float\n"
       "scores: float64[n_rows, n_classes] written\n"
       "held_scores: float64[n_held, n_classes] written\n"
       "features: int32[n_trees, 2 * n_splits + 1] written\n"
       "masks: uint64[n_trees, 2 * n_splits + 1] written\n"
       "children: int32[n_trees, 2 * n_splits + 1] written\n"
       "values: float64[n_trees, 2 * n_splits + 1] written\n"
       "n_rounds * n_classes <= n_trees\n"
       "2 <= n_classes\n"
       "n_rows <= 2147483647")
