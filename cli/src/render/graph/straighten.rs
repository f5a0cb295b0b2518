//! Makes edges straighter without changing the order within layers: the bends of an edge move as one, and everything
//! moves towards what it is connected with.

use crate::render::graph::layers::Layers;
use crate::render::graph::sweeps::gaps;

const ROUNDS: usize = 12;

/// Moves slots. A chain is what lies on the way of one edge between its two nodes, from top to bottom.
pub fn straighten(layers: &Layers, chains: &[Vec<usize>], x: &mut [f64]) {
    let mut in_chain = vec![false; x.len()];
    chains.iter().flatten().for_each(|slot| in_chain[*slot] = true);
    let singles = (0..x.len()).filter(|slot| !in_chain[*slot]);
    let mut blocks: Vec<Vec<usize>> = chains.iter().filter(|chain| !chain.is_empty()).cloned().collect();
    blocks.extend(singles.map(|slot| vec![slot]));
    blocks.sort_by_key(|block| layers.layer[block[0]]);
    let limits = Limits::new(layers);
    for round in 0..ROUNDS {
        for index in 0..blocks.len() {
            let block = &blocks[if round % 2 == 0 { index } else { blocks.len() - 1 - index }];
            let (left, right) = limits.of(block, x);
            if left > right {
                continue;
            }
            let place = wanted(layers, block, x).clamp(left, right);
            block.iter().for_each(|slot| x[*slot] = place);
        }
    }
}

/// Where a block's edges are shortest; of all such places the one nearest to where it is.
fn wanted(layers: &Layers, block: &[usize], x: &[f64]) -> f64 {
    let above = block.first().map_or(&[][..], |slot| &layers.above[*slot]);
    let below = block.last().map_or(&[][..], |slot| &layers.below[*slot]);
    let mut pulls: Vec<f64> = above.iter().chain(below).map(|other| x[*other]).collect();
    let here = block.iter().map(|slot| x[*slot]).sum::<f64>() / block.len() as f64;
    if pulls.is_empty() {
        return here;
    }
    pulls.sort_by(f64::total_cmp);
    let (low, high) = (pulls[(pulls.len() - 1) / 2], pulls[pulls.len() / 2]);
    // Between two ends every place is as good, but right at one of them the edge has one bend less.
    match pulls.len() {
        2 if (here - low).abs() <= (here - high).abs() => low,
        2 => high,
        _ => here.clamp(low, high),
    }
}

/// The neighbours of each slot in its layer, and how far from their middles it must stay.
struct Limits {
    left: Vec<Option<(usize, f64)>>,
    right: Vec<Option<(usize, f64)>>,
}

impl Limits {
    fn new(layers: &Layers) -> Self {
        let none = vec![None; layers.layer.len()];
        let mut limits = Self { left: none.clone(), right: none };
        for row in &layers.rows {
            for (pair, gap) in row.windows(2).zip(gaps(layers, row)) {
                limits.right[pair[0]] = Some((pair[1], gap));
                limits.left[pair[1]] = Some((pair[0], gap));
            }
        }
        limits
    }

    /// Between which places all slots of a block can be.
    fn of(&self, block: &[usize], x: &[f64]) -> (f64, f64) {
        let left = block.iter().filter_map(|slot| self.left[*slot].map(|(other, gap)| x[other] + gap));
        let right = block.iter().filter_map(|slot| self.right[*slot].map(|(other, gap)| x[other] - gap));
        (left.fold(f64::NEG_INFINITY, f64::max), right.fold(f64::INFINITY, f64::min))
    }
}
