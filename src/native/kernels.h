/* Every kernel of the module, by file. */
#ifndef TANAGER_KERNELS_H
#define TANAGER_KERNELS_H

#define KERNELS(K)                                                                            \
    /* counts.c */                                                                            \
    K(count_values) K(count_pairs) K(count_pairs_by_bits) K(score_information)                \
    K(extend_keys) K(count_keys) K(collapse_keys) K(merge_runs) K(gather_level)               \
    /* tables.c */                                                                            \
    K(add_dense_terms) K(add_tree_terms) K(normalize)                                         \
    /* hdp.c */                                                                               \
    K(solve_fixed_point) K(expect_tables)                                                     \
    /* codes.c */                                                                             \
    K(count_cells) K(encode_matrix) K(split_by_mdl)                                           \
    /* leave_one_out.c */                                                                     \
    K(score_odds) K(score_posteriors)                                                         \
    /* loglinear.c */                                                                         \
    K(evaluate_sums) K(add_sums) K(share_rows) K(sum_cells) K(share_slopes) K(locate_rows)     \
    K(weigh_joints) K(turn_tables) K(descend) K(score_gains) K(choose_slants)                  \
    /* shares.c */                                                                            \
    K(share_families) K(pull_shares)                                                          \
    /* boosting.c */                                                                          \
    K(boost_groups)                                                                           \
    /* gibbs.c */                                                                             \
    K(start_chain) K(run_chain)                                                               \
    /* dfe.c */                                                                               \
    K(add_misses)                                                                             \
    /* network.c */                                                                           \
    K(add_forest_sums) K(draw_values)                                                         \
    /* unknown.c */                                                                           \
    K(sum_unknown)                                                                            \
    /* structure.c */                                                                         \
    K(score_acll) K(sum_groups) K(score_class_information) K(score_explaining_away)           \
    K(find_arborescence)                                                                      \
    /* joint.c */                                                                             \
    K(count_family) K(log_table) K(replace_table) K(add_change) K(find_margins)               \
    K(rate_gain) K(rate_gains) K(likelihood_gain) K(likelihood)                               \
    /* training.c */                                                                          \
    K(add_slot_terms) K(add_choice_gradient) K(step_tables)

#endif
