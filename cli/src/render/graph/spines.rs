//! Our own coordinates: slots that lead to each other become spines, which are upright as a whole; spines are packed
//! from the left and then moved to where their edges are short.

use std::collections::BTreeMap;

use crate::render::graph::blocks::{Blocks, Mover};
use crate::render::graph::layers::Layers;

/// How often spines are moved.
const ROUNDS: usize = 24;

/// Gives the middle of each slot. A way is everything an edge goes through, from top to bottom, its nodes included.
pub fn place(layers: &Layers, ways: &[Vec<usize>]) -> Vec<f64> {
    let spines = Blocks::new(spines(layers, ways), layers.layer.len());
    let mover = Mover::new(layers);
    let mut x = packed(&spines, &mover);
    for round in 0..ROUNDS {
        // From the right first: there is room.
        mover.pass(&spines, round % 2 == 0, &mut x);
        // A branch of several spines comes nearer only as a whole.
        mover.pass(&Blocks::of_straight(layers, &x), round % 2 == 0, &mut x);
    }
    x
}

/// A step of an edge from one layer to the next.
struct Step {
    upper: usize,
    lower: usize,
    /// How little it matters that it is straight: least for a step at a node, most for one between two bends.
    class: usize,
    /// Over how many layers the edge goes.
    length: usize,
    /// How far it is from the middle of the steps at its two ends.
    aside: usize,
}

/// Joins slots along steps, the most important ones first, so that no two joined steps cross.
fn spines(layers: &Layers, ways: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let count = layers.layer.len();
    let mut place = vec![0; count];
    for row in &layers.rows {
        row.iter().enumerate().for_each(|(at, slot)| place[*slot] = at);
    }
    let mut steps = steps(layers, ways, &place);
    steps.sort_by_key(|step| (step.class, step.length, step.aside));
    let mut next: Vec<Option<usize>> = vec![None; count];
    let mut has_upper = vec![false; count];
    // For each layer the joined steps below it: place of the upper slot to place of the lower one.
    let mut joined: Vec<BTreeMap<usize, usize>> = vec![BTreeMap::new(); layers.rows.len()];
    for Step { upper, lower, .. } in steps {
        let row = &mut joined[layers.layer[upper]];
        let (from, to) = (place[upper], place[lower]);
        let crosses = row.range(..from).next_back().is_some_and(|(_, left)| *left >= to)
            || row.range(from..).next().is_some_and(|(_, right)| *right <= to);
        if next[upper].is_none() && !has_upper[lower] && !crosses {
            row.insert(from, to);
            next[upper] = Some(lower);
            has_upper[lower] = true;
        }
    }
    let tops = (0..count).filter(|slot| !has_upper[*slot]);
    tops.map(|top| std::iter::successors(Some(top), |slot| next[*slot]).collect()).collect()
}

fn steps(layers: &Layers, ways: &[Vec<usize>], place: &[usize]) -> Vec<Step> {
    let aside = |slot: usize, near: &[usize]| {
        let before = near.iter().filter(|other| place[**other] < place[slot]).count();
        // The middle one of an odd number is at its middle; of an even number two are.
        (2 * before + 1).abs_diff(near.len())
    };
    let of_way = |way: &Vec<usize>| -> Vec<Step> {
        let last = way.len().saturating_sub(2);
        let step = |(at, pair): (usize, &[usize])| Step {
            upper: pair[0],
            lower: pair[1],
            class: if layers.is_bend(pair[0]) && layers.is_bend(pair[1]) {
                0
            } else if at > 0 && at < last {
                1
            } else {
                2
            },
            length: way.len(),
            aside: aside(pair[1], &layers.below[pair[0]]) + aside(pair[0], &layers.above[pair[1]]),
        };
        way.windows(2).enumerate().map(step).collect()
    };
    // A way over a lane beside the boxes is not connected, and so has no steps.
    let connected = |step: &Step| layers.layer[step.upper] + 1 == layers.layer[step.lower];
    ways.iter().flat_map(of_way).filter(connected).collect()
}

/// All spines as far to the left as they can be.
fn packed(spines: &Blocks, mover: &Mover<'_>) -> Vec<f64> {
    let mut x = vec![0.0_f64; spines.block_of.len()];
    let mut waits_for = vec![0; spines.blocks.len()];
    for (slot, left) in mover.left.iter().enumerate() {
        waits_for[spines.block_of[slot]] += usize::from(left.is_some());
    }
    let mut ready: Vec<usize> = (0..spines.blocks.len()).filter(|spine| waits_for[*spine] == 0).collect();
    while let Some(spine) = ready.pop() {
        let place = mover.limits(&spines.blocks[spine], &x).0.max(0.0);
        for slot in &spines.blocks[spine] {
            x[*slot] = place;
            if let Some((right, _)) = mover.right[*slot] {
                let right = spines.block_of[right];
                waits_for[right] -= 1;
                if waits_for[right] == 0 {
                    ready.push(right);
                }
            }
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::graph::layers::Route;
    use crate::render::graph::layers::tests::stack;

    /// Each arc as a way of its own.
    fn placed(count: usize, arcs: &[(usize, usize)]) -> (Layers, Vec<f64>) {
        let layers = Layers::new(&stack(count, arcs));
        let way = |(arc, (from, to)): (usize, &(usize, usize))| match &layers.routes[arc] {
            Route::Through(bends) => [*from].iter().chain(bends).chain(&[*to]).copied().collect(),
            other => panic!("{other:?}"),
        };
        let ways: Vec<Vec<usize>> = arcs.iter().enumerate().map(way).collect();
        let x = place(&layers, &ways);
        (layers, x)
    }

    fn is_straight(x: &[f64], slots: &[usize]) -> bool {
        slots.windows(2).all(|pair| (x[pair[0]] - x[pair[1]]).abs() < 0.01)
    }

    #[test]
    fn the_shortest_ways_make_the_straight_line() {
        let (_, x) = placed(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (0, 2), (1, 4)]);
        assert!(is_straight(&x, &[0, 1, 2, 3, 4]), "{x:?}");
    }

    #[test]
    fn the_bends_of_a_long_edge_stand_above_each_other() {
        let (layers, x) = placed(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)]);
        let bends: Vec<usize> = (layers.boxes..layers.layer.len()).collect();
        assert!(bends.len() == 3 && is_straight(&x, &bends), "{x:?}");
    }

    #[test]
    fn of_three_branches_the_middle_one_is_straight() {
        let (_, x) = placed(5, &[(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4)]);
        assert!(is_straight(&x, &[0, 2, 4]), "{x:?}");
    }

    #[test]
    fn a_branch_stands_right_beside_the_main_way() {
        let (_, x) = placed(6, &[(0, 1), (1, 2), (2, 5), (0, 3), (3, 4), (4, 5)]);
        let widest =
            x.iter().copied().fold(f64::NEG_INFINITY, f64::max) - x.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(widest < 100.0, "{x:?}");
    }
}
