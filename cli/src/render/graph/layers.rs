//! Boxes in layers: every arc leads from a layer to a lower one, and through a bend in each layer between.

use std::collections::BTreeMap;

use crate::render::graph::geometry::Size;

/// Bends above this number cost more time and paper than they are worth: then the longest arcs go around all boxes.
const MOST_BENDS: usize = 20_000;
/// Where more long edges than this arrive, they come together into one line as soon as they can.
const MANY: usize = 4;

/// What is to be put into layers. The boxes come in an order in which every arc leads to a later one.
#[derive(Debug, Default)]
pub struct Stack {
    pub boxes: Vec<Cell>,
    pub arcs: Vec<Arc>,
}

/// A part of an edge, from a box down to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arc {
    pub from: usize,
    pub to: usize,
    /// The edge leads upwards.
    pub rises: bool,
}

impl Arc {
    /// The ends in the direction of the edge.
    fn ends(self) -> (usize, usize) {
        if self.rises { (self.to, self.from) } else { (self.from, self.to) }
    }
}

/// A box to be placed.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    pub size: Size,
    /// It belongs to what is below it rather than to what is above.
    pub sinks: bool,
    /// It is the label of an edge.
    pub is_label: bool,
}

/// How an arc gets from its upper to its lower box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Through these bends, one in each layer between.
    Through(Vec<usize>),
    /// Through these bends to one of another edge, and on with that to where both lead.
    Joins(Vec<usize>, usize),
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
    /// Puts every box as high as its arcs let it, then down again where that makes arcs shorter and leaves siblings in one
    /// row.
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
        layers.routes = vec![Route::Around; stack.arcs.len()];
        let merges = merging(stack, &layer);
        let mut arcs: Vec<usize> = (0..stack.arcs.len()).collect();
        arcs.sort_by_key(|arc| layer[stack.arcs[*arc].to] - layer[stack.arcs[*arc].from]);
        let mut trunks = Trunks::new();
        for index in arcs {
            let arc = stack.arcs[index];
            let between = layer[arc.to] - layer[arc.from] - 1;
            if layers.layer.len() - count + between <= MOST_BENDS {
                layers.routes[index] = layers.bend(arc, merges[index].then_some(&mut trunks));
            }
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

    /// Leads an arc to the end of its edge, layer by layer, or to a trunk that leads there.
    fn bend(&mut self, arc: Arc, mut trunks: Option<&mut Trunks>) -> Route {
        let (mut last, end) = arc.ends();
        let between = self.layer[arc.from] + 1..self.layer[arc.to];
        let mut bends = Vec::with_capacity(between.len());
        let mut trunk = None;
        for step in 0..between.len() {
            let layer = if arc.rises { between.end - 1 - step } else { between.start + step };
            trunk = trunks.as_mut().and_then(|trunks| trunks.get(&(end, arc.rises, layer)).copied());
            if trunk.is_some() {
                break;
            }
            let bend = self.add(layer, Size::default());
            if let Some(trunks) = &mut trunks {
                trunks.insert((end, arc.rises, layer), bend);
            }
            self.connect(last, bend, arc.rises);
            bends.push(bend);
            last = bend;
        }
        self.connect(last, trunk.unwrap_or(end), arc.rises);
        if arc.rises {
            bends.reverse();
        }
        match trunk {
            Some(trunk) => Route::Joins(bends, trunk),
            None => Route::Through(bends),
        }
    }

    fn connect(&mut self, from: usize, to: usize, rises: bool) {
        let (upper, lower) = if rises { (to, from) } else { (from, to) };
        self.below[upper].push(lower);
        self.above[lower].push(upper);
    }
}

fn box_layers(stack: &Stack) -> Vec<usize> {
    let count = stack.boxes.len();
    let mut leaving = vec![Vec::new(); count];
    let mut arriving = vec![Vec::new(); count];
    for Arc { from, to, .. } in &stack.arcs {
        leaving[*from].push(*to);
        arriving[*to].push(*from);
    }
    // The node an arc comes from, through the label on its way.
    let parent = |from: usize| if stack.boxes[from].is_label { arriving[from].first().copied() } else { Some(from) };
    let has_siblings = |at: usize| {
        let mut parents = arriving[at].iter().filter_map(|from| parent(*from));
        !stack.boxes[at].is_label && parents.any(|parent| leaving[parent].len() > 1)
    };
    let mut layer = vec![0; count];
    for from in 0..count {
        for to in &leaving[from] {
            layer[*to] = layer[*to].max(layer[from] + 1);
        }
    }
    for from in (0..count).rev() {
        let Some(lowest) = leaving[from].iter().map(|to| layer[*to] - 1).min() else { continue };
        let shortens = arriving[from].len() < leaving[from].len() && !has_siblings(from);
        if stack.boxes[from].sinks || shortens {
            layer[from] = lowest;
        }
    }
    layer
}

/// The bends on the way to a box, by box, whether it is above, and layer.
type Trunks = BTreeMap<(usize, bool, usize), usize>;

/// The arcs that share a trunk: those with bends to a box many of them lead to.
fn merging(stack: &Stack, layer: &[usize]) -> Vec<bool> {
    let key = |arc: &Arc| (layer[arc.to] - layer[arc.from] > 1).then_some((arc.ends().1, arc.rises));
    let mut arriving = BTreeMap::new();
    for key in stack.arcs.iter().filter_map(key) {
        *arriving.entry(key).or_insert(0) += 1;
    }
    stack.arcs.iter().map(|arc| key(arc).is_some_and(|key| arriving[&key] > MANY)).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Boxes of one size with these arcs.
    pub fn stack(count: usize, arcs: &[(usize, usize)]) -> Stack {
        let arcs = arcs.iter().map(|(from, to)| Arc { from: *from, to: *to, rises: false }).collect();
        Stack { boxes: vec![Cell { size: Size::new(60.0, 30.0), sinks: false, is_label: false }; count], arcs }
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
    fn siblings_stay_in_one_row() {
        // 1 could be lower, where its arcs would be shorter.
        let layers = Layers::new(&stack(6, &[(0, 1), (0, 2), (2, 3), (3, 4), (1, 4), (1, 5), (4, 5)]));
        assert_eq!(layers.layer[1], layers.layer[2]);
    }

    #[test]
    fn an_empty_stack_has_no_layers() {
        assert!(Layers::new(&Stack::default()).rows.is_empty());
    }

    #[test]
    fn many_edges_to_one_box_come_together() {
        let count = 12;
        let arcs: Vec<_> = (1..count).flat_map(|node| [(node - 1, node), (node - 1, count - 1)]).collect();
        let mut stack = stack(count, &arcs);
        let layers = Layers::new(&stack);
        assert_eq!(layers.layer.len() - count, count - 2, "one bend in each layer between the first and the last");
        assert!(layers.above[count - 1].len() == 3, "the chain, its last edge, and the trunk");
        // The same for edges that lead up.
        stack.boxes.reverse();
        for arc in &mut stack.arcs {
            *arc = Arc { from: count - 1 - arc.to, to: count - 1 - arc.from, rises: true };
        }
        let layers = Layers::new(&stack);
        assert_eq!(layers.layer.len() - count, count - 2);
        assert!(layers.below[0].len() == 3);
    }

    #[test]
    fn too_many_bends_send_the_longest_arcs_around() {
        let count = 2_000;
        let chain = (1..count).map(|node| (node - 1, node));
        let far = (0..count).map(|node| (node, (node + count / 2 + node % 7).min(count - 1)));
        let arcs: Vec<_> = chain.chain(far.filter(|(from, to)| from < to)).collect();
        let layers = Layers::new(&stack(count, &arcs));
        assert!(layers.layer.len() - count <= MOST_BENDS);
        assert_eq!(layers.routes[count], Route::Around);
        assert_eq!(layers.routes[0], Route::Through(vec![]));
    }
}
