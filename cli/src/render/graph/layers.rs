//! Boxes in layers: every arc leads from a layer to a lower one, and through a bend in each layer between.

use std::cmp::Reverse;

use crate::render::graph::geometry::Size;

/// Bends above this number cost more time and paper than they are worth: then the longest arcs go around all boxes.
const MOST_BENDS: usize = 20_000;

/// What is to be put into layers. The boxes come in an order in which every arc leads to a later one.
#[derive(Debug, Default)]
pub struct Stack {
    pub boxes: Vec<Cell>,
    /// From box to box.
    pub arcs: Vec<(usize, usize)>,
}

/// A box to be placed.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    pub size: Size,
    /// It belongs to what is below it rather than to what is above.
    pub sinks: bool,
}

/// How an arc gets from its upper to its lower box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Through these bends, one in each layer between.
    Through(Vec<usize>),
    /// Beside all boxes.
    Around,
}

/// Boxes and bends in layers. A slot is a box when its number is below the number of boxes, and a bend otherwise.
#[derive(Debug)]
pub struct Layers {
    /// The slots of each layer, from top to bottom.
    pub rows: Vec<Vec<usize>>,
    /// The layer of each slot.
    pub layer: Vec<usize>,
    /// The size of each slot.
    pub size: Vec<Size>,
    /// How many of the slots are boxes.
    pub boxes: usize,
    /// The slots of the layer above that lead to each slot.
    pub above: Vec<Vec<usize>>,
    /// The slots of the layer below each slot leads to.
    pub below: Vec<Vec<usize>>,
    /// The way of each arc.
    pub routes: Vec<Route>,
}

impl Layers {
    /// Puts every box as high as its arcs let it, then down again where that makes arcs shorter.
    pub fn new(stack: &Stack) -> Self {
        let count = stack.boxes.len();
        let layer = box_layers(stack);
        let mut layers = Self {
            rows: vec![Vec::new(); layer.iter().max().map_or(0, |last| last + 1)],
            layer: Vec::new(),
            size: Vec::new(),
            boxes: count,
            above: Vec::new(),
            below: Vec::new(),
            routes: Vec::new(),
        };
        for (cell, layer) in stack.boxes.iter().zip(&layer) {
            layers.add(*layer, cell.size);
        }
        let around = longest(stack, &layer);
        for (arc, (from, to)) in stack.arcs.iter().enumerate() {
            let route = if around[arc] { Route::Around } else { layers.bend(*from, *to) };
            layers.routes.push(route);
        }
        layers
    }

    /// Whether a slot is a bend.
    pub fn is_bend(&self, slot: usize) -> bool {
        slot >= self.boxes
    }

    fn add(&mut self, layer: usize, size: Size) -> usize {
        let slot = self.layer.len();
        self.rows[layer].push(slot);
        self.layer.push(layer);
        self.size.push(size);
        self.above.push(Vec::new());
        self.below.push(Vec::new());
        slot
    }

    fn bend(&mut self, from: usize, to: usize) -> Route {
        let mut bends = Vec::new();
        let mut last = from;
        for layer in self.layer[from] + 1..self.layer[to] {
            let bend = self.add(layer, Size::default());
            self.connect(last, bend);
            bends.push(bend);
            last = bend;
        }
        self.connect(last, to);
        Route::Through(bends)
    }

    fn connect(&mut self, upper: usize, lower: usize) {
        self.below[upper].push(lower);
        self.above[lower].push(upper);
    }
}

fn box_layers(stack: &Stack) -> Vec<usize> {
    let count = stack.boxes.len();
    let mut leaving = vec![Vec::new(); count];
    let mut arriving = vec![0_usize; count];
    for (from, to) in &stack.arcs {
        leaving[*from].push(*to);
        arriving[*to] += 1;
    }
    let mut layer = vec![0; count];
    for from in 0..count {
        for to in &leaving[from] {
            layer[*to] = layer[*to].max(layer[from] + 1);
        }
    }
    for from in (0..count).rev() {
        let Some(lowest) = leaving[from].iter().map(|to| layer[*to] - 1).min() else { continue };
        if stack.boxes[from].sinks || arriving[from] < leaving[from].len() {
            layer[from] = lowest;
        }
    }
    layer
}

/// The arcs that must go around, longest first, for the rest to get along with [`MOST_BENDS`].
fn longest(stack: &Stack, layer: &[usize]) -> Vec<bool> {
    let bends = |arc: &usize| layer[stack.arcs[*arc].1] - layer[stack.arcs[*arc].0] - 1;
    let mut arcs: Vec<usize> = (0..stack.arcs.len()).collect();
    let mut total: usize = arcs.iter().map(bends).sum();
    arcs.sort_by_key(|arc| Reverse(bends(arc)));
    let mut around = vec![false; stack.arcs.len()];
    for arc in arcs {
        if total <= MOST_BENDS {
            break;
        }
        total -= bends(&arc);
        around[arc] = true;
    }
    around
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Boxes of one size with these arcs.
    pub fn stack(count: usize, arcs: &[(usize, usize)]) -> Stack {
        Stack { boxes: vec![Cell { size: Size::new(60.0, 30.0), sinks: false }; count], arcs: arcs.to_vec() }
    }

    #[test]
    fn a_box_is_below_everything_that_leads_to_it() {
        let layers = Layers::new(&stack(4, &[(0, 1), (1, 2), (0, 2), (2, 3)]));
        assert_eq!(layers.layer[..4], [0, 1, 2, 3]);
        assert_eq!(layers.rows, [vec![0], vec![1, 4], vec![2], vec![3]]);
        assert_eq!(layers.routes[2], Route::Through(vec![4]));
        assert_eq!((&layers.above[2], &layers.below[0]), (&vec![1, 4], &vec![1, 4]));
        assert!(layers.is_bend(4) && !layers.is_bend(3));
    }

    #[test]
    fn a_source_stands_just_above_what_it_leads_to() {
        let layers = Layers::new(&stack(5, &[(0, 1), (1, 2), (2, 4), (3, 4)]));
        assert_eq!(layers.layer, [0, 1, 2, 2, 3]);
    }

    #[test]
    fn a_sinking_box_stands_just_above_what_it_leads_to() {
        let mut stack = stack(5, &[(0, 2), (2, 3), (3, 4), (0, 1), (1, 4)]);
        assert_eq!(Layers::new(&stack).layer[1], 1);
        stack.boxes[1].sinks = true;
        assert_eq!(Layers::new(&stack).layer[1], 2);
    }

    #[test]
    fn an_empty_stack_has_no_layers() {
        assert!(Layers::new(&Stack::default()).rows.is_empty());
    }

    #[test]
    fn too_many_bends_send_the_longest_arcs_around() {
        let count = 2_000;
        let chain = (1..count).map(|node| (node - 1, node));
        let to_end = (0..count - 1).map(|node| (node, count - 1));
        let layers = Layers::new(&stack(count, &chain.chain(to_end).collect::<Vec<_>>()));
        assert!(layers.layer.len() - count <= MOST_BENDS);
        assert_eq!(layers.routes[count - 1], Route::Around);
        assert_eq!(layers.routes.last(), Some(&Route::Through(vec![])));
    }
}
