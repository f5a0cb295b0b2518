//! Slots that move together, and how they move between their neighbours without changing the order within layers.

use crate::render::graph::layers::Layers;

/// What is less apart counts as straight.
const STRAIGHT: f64 = 0.5;

/// The room between two boxes of a layer, and between a bend and its neighbour.
const BOX_GAP: f64 = 28.0;
const BEND_GAP: f64 = 16.0;

/// Slots that move together.
pub struct Blocks {
    pub blocks: Vec<Vec<usize>>,
    /// The block of each slot.
    pub block_of: Vec<usize>,
}

impl Blocks {
    /// These blocks of `count` slots, each slot in one.
    pub fn new(blocks: Vec<Vec<usize>>, count: usize) -> Self {
        let mut block_of = vec![0; count];
        for (index, block) in blocks.iter().enumerate() {
            block.iter().for_each(|slot| block_of[*slot] = index);
        }
        Self { blocks, block_of }
    }

    /// What is connected by straight edges is a block.
    pub fn of_straight(layers: &Layers, x: &[f64]) -> Self {
        let mut seen = vec![false; x.len()];
        let mut blocks = Vec::new();
        for first in 0..x.len() {
            if std::mem::replace(&mut seen[first], true) {
                continue;
            }
            let mut block = vec![first];
            let mut next = 0;
            while let Some(slot) = block.get(next).copied() {
                next += 1;
                for other in layers.above[slot].iter().chain(&layers.below[slot]) {
                    if (x[slot] - x[*other]).abs() < STRAIGHT && !std::mem::replace(&mut seen[*other], true) {
                        block.push(*other);
                    }
                }
            }
            blocks.push(block);
        }
        Self::new(blocks, x.len())
    }
}

/// Moves blocks between their neighbours.
pub struct Mover<'a> {
    layers: &'a Layers,
    /// The neighbours of each slot in its layer, and how far from their middles it must stay.
    pub left: Vec<Option<(usize, f64)>>,
    pub right: Vec<Option<(usize, f64)>>,
}

impl<'a> Mover<'a> {
    /// Keeps the order and the gaps of `layers`.
    pub fn new(layers: &'a Layers) -> Self {
        let none = vec![None; layers.layer.len()];
        let mut mover = Self { layers, left: none.clone(), right: none };
        for row in &layers.rows {
            for (pair, gap) in row.windows(2).zip(gaps(layers, row)) {
                mover.right[pair[0]] = Some((pair[1], gap));
                mover.left[pair[1]] = Some((pair[0], gap));
            }
        }
        mover
    }

    /// Moves every block to where it wants to be, as far as its neighbours let it.
    pub fn pass(&self, blocks: &Blocks, backwards: bool, x: &mut [f64]) {
        let count = blocks.blocks.len();
        for index in 0..count {
            let index = if backwards { count - 1 - index } else { index };
            let block = &blocks.blocks[index];
            let (left, right) = self.limits(block, x);
            if left <= right {
                let place = self.wanted(blocks, index, x).clamp(left, right);
                block.iter().for_each(|slot| x[*slot] = place);
            }
        }
    }

    /// Between which places all slots of a block can be.
    pub fn limits(&self, block: &[usize], x: &[f64]) -> (f64, f64) {
        let left = block.iter().filter_map(|slot| self.left[*slot].map(|(other, gap)| x[other] + gap));
        let right = block.iter().filter_map(|slot| self.right[*slot].map(|(other, gap)| x[other] - gap));
        (left.fold(f64::NEG_INFINITY, f64::max), right.fold(f64::INFINITY, f64::min))
    }

    /// Where a block's edges are shortest; of all such places the one nearest to where it is.
    fn wanted(&self, blocks: &Blocks, index: usize, x: &[f64]) -> f64 {
        let block = &blocks.blocks[index];
        let here = block.iter().map(|slot| x[*slot]).sum::<f64>() / block.len() as f64;
        let near = block.iter().flat_map(|slot| self.layers.above[*slot].iter().chain(&self.layers.below[*slot]));
        let mut pulls: Vec<f64> =
            near.filter(|other| blocks.block_of[**other] != index).map(|other| x[*other]).collect();
        pulls.sort_by(f64::total_cmp);
        match pulls.as_slice() {
            [] => here,
            // Between two ends every place is as good, but right at one of them the edge has one bend less.
            [low, high] => {
                if (here - low).abs() <= (here - high).abs() {
                    *low
                } else {
                    *high
                }
            }
            more => here.clamp(more[(more.len() - 1) / 2], more[more.len() / 2]),
        }
    }
}

/// What the middles of neighbours must be apart.
fn gaps(layers: &Layers, slots: &[usize]) -> Vec<f64> {
    let gap = |pair: &[usize]| {
        let between = if pair.iter().any(|slot| layers.is_bend(*slot)) { BEND_GAP } else { BOX_GAP };
        (layers.size[pair[0]].width + layers.size[pair[1]].width) / 2.0 + between
    };
    slots.windows(2).map(gap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::graph::layers::tests::stack;

    #[test]
    fn what_is_connected_straight_down_is_one_block() {
        let layers = Layers::new(&stack(5, &[(0, 1), (1, 2), (0, 3), (3, 4)]));
        let blocks = Blocks::of_straight(&layers, &[0.0, 0.2, 0.0, 90.0, 90.0]);
        assert_eq!(blocks.blocks, [vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(blocks.block_of, [0, 0, 0, 1, 1]);
    }

    #[test]
    fn a_block_moves_to_its_edges_within_its_neighbours() {
        let layers = Layers::new(&stack(6, &[(0, 1), (1, 2), (2, 5), (0, 3), (3, 4), (4, 5)]));
        let mut x = vec![0.0, 0.0, 0.0, 900.0, 900.0, 0.0];
        let blocks = Blocks::new(vec![vec![0, 1, 2, 5], vec![3, 4]], 6);
        Mover::new(&layers).pass(&blocks, true, &mut x);
        assert_eq!(x, [0.0, 0.0, 0.0, 88.0, 88.0, 0.0]);
    }
}
