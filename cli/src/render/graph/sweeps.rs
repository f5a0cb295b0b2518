//! Our own way to place slots, for graphs too big for the layout crate: sweeps over the layers that order slots by the
//! middle of their neighbours, then sweeps that move them towards their neighbours. Time grows with the number of arcs.

use crate::render::graph::layers::Layers;

const ORDER_SWEEPS: usize = 24;
const PLACE_SWEEPS: usize = 16;

/// The room between two boxes of a layer, and between a bend and its neighbour.
pub const BOX_GAP: f64 = 28.0;
const BEND_GAP: f64 = 16.0;

/// Orders the slots within their layers and gives the middle of each.
pub fn place(layers: &mut Layers) -> Vec<f64> {
    reorder(layers);
    let mut x = packed(layers);
    let last = layers.rows.len().saturating_sub(1);
    for sweep in 0..PLACE_SWEEPS {
        // Up and down in turn; in the end both sides count, so that neither direction is preferred.
        let both = sweep + 4 >= PLACE_SWEEPS;
        for step in 0..=last {
            let row = if sweep % 2 == 0 { step } else { last - step };
            let Some(slots) = layers.rows.get(row) else { continue };
            let wanted: Vec<Wish> = slots.iter().map(|slot| wish(layers, &x, *slot, sweep % 2 == 0, both)).collect();
            for (slot, place) in slots.iter().zip(settle(&wanted, &gaps(layers, slots))) {
                x[*slot] = place;
            }
        }
    }
    x
}

/// Where something would like to be, and how much it would.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    pub at: f64,
    pub weight: f64,
}

/// The places nearest to what is wished (in the sense of least squares) that keep their order and the gaps between them.
pub fn settle(wishes: &[Wish], gaps: &[f64]) -> Vec<f64> {
    /// Neighbours that would come too close and so move as one.
    struct Block {
        at: f64,
        weight: f64,
        count: usize,
    }
    let mut blocks: Vec<Block> = Vec::new();
    let mut shift = 0.0;
    let mut shifts = Vec::with_capacity(wishes.len());
    for (index, wish) in wishes.iter().enumerate() {
        shift += if index == 0 { 0.0 } else { gaps[index - 1] };
        shifts.push(shift);
        let mut block = Block { at: wish.at - shift, weight: wish.weight, count: 1 };
        while let Some(before) = blocks.pop_if(|before| before.at > block.at) {
            let weight = before.weight + block.weight;
            let at = (before.at * before.weight + block.at * block.weight) / weight;
            block = Block { at, weight, count: before.count + block.count };
        }
        blocks.push(block);
    }
    let places = blocks.iter().flat_map(|block| std::iter::repeat_n(block.at, block.count));
    places.zip(shifts).map(|(at, shift)| at + shift).collect()
}

fn wish(layers: &Layers, x: &[f64], slot: usize, down: bool, both: bool) -> Wish {
    let above = layers.above[slot].iter().filter(|_| down || both);
    let below = layers.below[slot].iter().filter(|_| !down || both);
    let (mut sum, mut weight) = (0.0, 0.0);
    for other in above.chain(below) {
        // A long arc should be straight more than a short one.
        let pull = match (layers.is_bend(slot), layers.is_bend(*other)) {
            (true, true) => 8.0,
            (true, false) | (false, true) => 2.0,
            (false, false) => 1.0,
        };
        sum += pull * x[*other];
        weight += pull;
    }
    if weight == 0.0 { Wish { at: x[slot], weight: 0.1 } } else { Wish { at: sum / weight, weight } }
}

/// What the middles of neighbours must be apart.
pub fn gaps(layers: &Layers, slots: &[usize]) -> Vec<f64> {
    let gap = |pair: &[usize]| {
        let between = if pair.iter().any(|slot| layers.is_bend(*slot)) { BEND_GAP } else { BOX_GAP };
        (layers.size[pair[0]].width + layers.size[pair[1]].width) / 2.0 + between
    };
    slots.windows(2).map(gap).collect()
}

/// Every layer packed, its middle at 0.
fn packed(layers: &Layers) -> Vec<f64> {
    let mut x = vec![0.0; layers.layer.len()];
    for slots in &layers.rows {
        let gaps = gaps(layers, slots);
        let mut at = -gaps.iter().sum::<f64>() / 2.0;
        for (index, slot) in slots.iter().enumerate() {
            x[*slot] = at;
            at += gaps.get(index).copied().unwrap_or_default();
        }
    }
    x
}

/// Orders the slots of each layer so that few arcs cross.
pub fn reorder(layers: &mut Layers) {
    let mut place = vec![0.0; layers.layer.len()];
    layers.rows.iter().for_each(|row| number(row, &mut place));
    let mut best = (crossings(layers), layers.rows.clone());
    for sweep in 0..ORDER_SWEEPS {
        if best.0 == 0 {
            break;
        }
        let count = layers.rows.len();
        for step in 1..count {
            let down = sweep % 2 == 0;
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
    fn settling_moves_neighbours_apart_evenly() {
        let wish = |at| Wish { at, weight: 1.0 };
        assert_eq!(settle(&[wish(0.0), wish(100.0)], &[10.0]), [0.0, 100.0]);
        assert_eq!(settle(&[wish(0.0), wish(0.0)], &[10.0]), [-5.0, 5.0]);
        assert_eq!(settle(&[wish(50.0), wish(0.0), wish(10.0)], &[10.0, 10.0]), [10.0, 20.0, 30.0]);
        let heavy = Wish { at: 0.0, weight: 9.0 };
        assert_eq!(settle(&[heavy, wish(0.0)], &[10.0]), [-1.0, 9.0]);
        assert_eq!(settle(&[], &[]), Vec::<f64>::new());
    }

    #[test]
    fn crossed_arcs_are_untangled() {
        let mut layers = Layers::new(&stack(6, &[(0, 5), (1, 4), (2, 3)]));
        assert_eq!(crossings(&layers), 3);
        reorder(&mut layers);
        assert_eq!(crossings(&layers), 0);
    }

    #[test]
    fn crossings_are_counted_once_per_pair() {
        let all = [(0, 2), (0, 3), (1, 2), (1, 3)];
        assert_eq!(crossings(&Layers::new(&stack(4, &all))), 1);
        assert_eq!(crossings(&Layers::new(&stack(4, &[(0, 2), (0, 3)]))), 0);
    }

    #[test]
    fn boxes_of_a_layer_never_overlap_and_a_chain_is_straight() {
        let mut layers = Layers::new(&stack(7, &[(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4), (4, 5), (5, 6)]));
        let x = place(&mut layers);
        for row in &layers.rows {
            for pair in row.windows(2) {
                assert!(x[pair[1]] - x[pair[0]] >= 60.0 + BOX_GAP - 0.01, "{x:?}");
            }
        }
        assert!((x[4] - x[5]).abs() < 1.0 && (x[5] - x[6]).abs() < 1.0, "{x:?}");
        assert!((x[0] - x[2]).abs() < 1.0, "{x:?}");
    }
}
