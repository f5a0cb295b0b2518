//! The order within layers: sweeps over the layers that order slots by the middle of their neighbours. Their time grows
//! with the number of arcs; where there are few, the layout crate looks for something better.

use layout::adt::dag::{DAG, NodeHandle};
use layout::topo::optimizer::EdgeCrossOptimizer;

use crate::render::graph::layers::Layers;

const SWEEPS: usize = 24;

/// The crate compares every pair of a layer with the whole next layer, over and over. Up to this many comparisons in
/// one round it takes about a twentieth of a second.
const MOST_COMPARISONS: usize = 5_000;
/// It also looks for slots in lists of all of them.
const MOST_SLOTS: usize = 400;

/// Orders the slots of each layer so that few arcs cross.
pub fn untangle(layers: &mut Layers) {
    sweep(layers);
    if is_small(layers) && crossings(layers) > 0 {
        swap(layers);
    }
}

/// Whether the crate is done with these layers in a moment.
fn is_small(layers: &Layers) -> bool {
    let pairs = layers.rows.windows(2).map(|rows| rows[0].len().pow(2) * rows[1].len());
    layers.layer.len() <= MOST_SLOTS && pairs.sum::<usize>() <= MOST_COMPARISONS
}

/// Lets the crate swap neighbours for as long as that helps. It keeps the order it is given unless it finds a better one.
fn swap(layers: &mut Layers) {
    let mut dag = DAG::new();
    // The check of its own work follows every path there is, which takes forever on some graphs of thirty nodes.
    dag.set_validate(false);
    let handles: Vec<NodeHandle> = layers.layer.iter().map(|_| dag.new_node()).collect();
    for (upper, below) in layers.below.iter().enumerate() {
        below.iter().for_each(|lower| dag.add_edge(handles[upper], handles[*lower]));
    }
    *dag.ranks_mut() = layers.rows.iter().map(|row| row.iter().map(|slot| handles[*slot]).collect()).collect();
    EdgeCrossOptimizer::new(&mut dag).optimize();
    layers.rows = dag.ranks().iter().map(|row| row.iter().map(NodeHandle::get_index).collect()).collect();
}

fn sweep(layers: &mut Layers) {
    let mut place = vec![0.0; layers.layer.len()];
    layers.rows.iter().for_each(|row| number(row, &mut place));
    let mut best = (crossings(layers), layers.rows.clone());
    for round in 0..SWEEPS {
        if best.0 == 0 {
            break;
        }
        let count = layers.rows.len();
        for step in 1..count {
            let down = round % 2 == 0;
            let row = if down { step } else { count - 1 - step };
            let neighbours = if down { &layers.above } else { &layers.below };
            let key = |slot: usize| match neighbours[slot].as_slice() {
                [] => place[slot],
                near => near.iter().map(|other| place[*other]).sum::<f64>() / near.len() as f64,
            };
            let mut keyed: Vec<(f64, usize)> = layers.rows[row].iter().map(|slot| (key(*slot), *slot)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            layers.rows[row] = keyed.into_iter().map(|(_, slot)| slot).collect();
            number(&layers.rows[row], &mut place);
        }
        let found = crossings(layers);
        if found < best.0 {
            best = (found, layers.rows.clone());
        }
    }
    layers.rows = best.1;
}

fn number(row: &[usize], place: &mut [f64]) {
    for (at, slot) in row.iter().enumerate() {
        place[*slot] = at as f64;
    }
}

/// How many pairs of arcs cross between neighbouring layers.
fn crossings(layers: &Layers) -> usize {
    let mut place = vec![0; layers.layer.len()];
    for row in &layers.rows {
        row.iter().enumerate().for_each(|(at, slot)| place[*slot] = at);
    }
    layers.rows.iter().map(|row| row_crossings(layers, row, &place)).sum()
}

/// Crossings below one row: inversions among the lower ends, counted with a Fenwick tree.
fn row_crossings(layers: &Layers, row: &[usize], place: &[usize]) -> usize {
    let lower_row = row.first().map_or(0, |slot| layers.rows.get(layers.layer[*slot] + 1).map_or(0, Vec::len));
    let mut tree = vec![0_usize; lower_row + 1];
    let (mut seen, mut found) = (0, 0);
    for slot in row {
        let mut ends: Vec<usize> = layers.below[*slot].iter().map(|lower| place[*lower]).collect();
        ends.sort_unstable();
        for end in &ends {
            let mut at = end + 1;
            let mut not_right = 0;
            while at > 0 {
                not_right += tree[at];
                at &= at - 1;
            }
            found += seen - not_right;
        }
        // Arcs of one slot meet there and do not cross, so they count only for the next slots.
        for end in &ends {
            let mut at = end + 1;
            while at <= lower_row {
                tree[at] += 1;
                at += at & at.wrapping_neg();
            }
            seen += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::graph::layers::tests::stack;

    #[test]
    fn crossed_arcs_are_untangled() {
        let mut layers = Layers::new(&stack(6, &[(0, 5), (1, 4), (2, 3)]));
        assert_eq!(crossings(&layers), 3);
        untangle(&mut layers);
        assert_eq!(crossings(&layers), 0);
    }

    #[test]
    fn crossings_are_counted_once_per_pair() {
        let all = [(0, 2), (0, 3), (1, 2), (1, 3)];
        assert_eq!(crossings(&Layers::new(&stack(4, &all))), 1);
        assert_eq!(crossings(&Layers::new(&stack(4, &[(0, 2), (0, 3)]))), 0);
    }

    #[test]
    fn the_crate_never_makes_it_worse_and_sometimes_better() {
        let mut state = 1_u64;
        let mut any = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let (mut before, mut after) = (0, 0);
        for _ in 0..20 {
            // A chain with branches and with edges that skip some of it.
            let mut arcs: Vec<_> = (1..20_usize).map(|n| (n.saturating_sub(1 + any(3)), n)).collect();
            for _ in 0..8 {
                let from = any(19);
                arcs.push((from, (from + 1 + any(6)).min(19)));
            }
            let mut layers = Layers::new(&stack(20, &arcs));
            sweep(&mut layers);
            let swept = crossings(&layers);
            assert!(is_small(&layers));
            swap(&mut layers);
            assert!(crossings(&layers) <= swept);
            before += swept;
            after += crossings(&layers);
        }
        assert!(after < before, "{after} crossings of {before} are left");
    }

    #[test]
    fn wide_graphs_are_not_for_the_crate() {
        let fan = |wide: usize| (1..=wide).flat_map(move |n| [(0, n), (n, wide + 1)]).collect::<Vec<_>>();
        assert!(is_small(&Layers::new(&stack(22, &fan(20)))));
        assert!(!is_small(&Layers::new(&stack(202, &fan(200)))));
    }

    #[test]
    fn a_graph_with_very_many_paths_takes_no_longer() {
        // Thirty diamonds below each other, each with its corners crossed: two to the power of thirty ways through.
        let diamond = [(0, 1), (0, 2), (1, 4), (2, 3), (3, 5), (4, 5), (1, 3)];
        let arcs: Vec<_> = (0..30).flat_map(|n| diamond.map(|(a, b)| (5 * n + a, 5 * n + b))).collect();
        let mut layers = Layers::new(&stack(151, &arcs));
        swap(&mut layers);
        assert_eq!(layers.rows.iter().map(Vec::len).sum::<usize>(), layers.layer.len());
    }
}
