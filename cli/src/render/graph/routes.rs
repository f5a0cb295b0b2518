//! From places within layers to points: the height of layers, where edges leave and arrive, and their ways between.

use std::cmp::Ordering;

use crate::render::graph::geometry::{Point, Size};
use crate::render::graph::layers::{Arc, Layers, Route, Stack};
use crate::render::graph::parts::Strand;

/// The room between two layers at least and at most; in between it grows with how far edges must go sideways.
const GAP: (f64, f64) = (36.0, 96.0);
/// From one place edges leave at to the next.
const PORT_GAP: f64 = 14.0;
/// The part of a node's side that edges leave from.
const PORT_PART: f64 = 0.7;
/// From the boxes to the first lane beside them, and from lane to lane.
const LANE_GAP: f64 = 20.0;

/// Everything in its place, in a drawing that runs downwards.
#[derive(Debug)]
pub struct Routed {
    pub size: Size,
    /// The middle of each box.
    pub middle: Vec<Point>,
    /// The points each strand goes through, from top to bottom.
    pub knots: Vec<Vec<Point>>,
}

struct Router<'a> {
    layers: &'a Layers,
    stack: &'a Stack,
    x: Vec<f64>,
    /// Top and bottom of each layer.
    bands: Vec<(f64, f64)>,
    /// The lane of each arc that goes around.
    lanes: Vec<f64>,
    /// For each arc where it leaves its upper and arrives at its lower box, from their middle.
    ports: Vec<[Point; 2]>,
}

/// Finds the way of every strand. `outlines` has the outline of each box that has one.
pub fn route(
    layers: &Layers,
    stack: &Stack,
    mut x: Vec<f64>,
    outlines: &[Option<&[Point]>],
    strands: &[Strand],
) -> Routed {
    let left = (0..x.len()).map(|slot| x[slot] - layers.size[slot].width / 2.0).fold(f64::INFINITY, f64::min);
    x.iter_mut().for_each(|x| *x -= left);
    let right = (0..x.len()).map(|slot| x[slot] + layers.size[slot].width / 2.0).fold(0.0, f64::max);
    let bands = bands(layers, &x);
    let (lanes, width) = lanes(layers, stack, right);
    let height = bands.last().map_or(0.0, |band| band.1);
    let mut router = Router { layers, stack, x, bands, lanes, ports: vec![[Point::default(); 2]; stack.arcs.len()] };
    router.find_ports(outlines);
    Routed {
        size: Size::new(width, height),
        middle: (0..layers.boxes).map(|slot| router.middle(slot)).collect(),
        knots: strands.iter().map(|strand| router.knots(strand)).collect(),
    }
}

/// Top and bottom of an outline at `x`, from its middle. Beside it, those of its nearest point.
pub fn reach(outline: &[Point], x: f64) -> (f64, f64) {
    let (left, right) =
        outline.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, r), corner| (l.min(corner.x), r.max(corner.x)));
    if outline.is_empty() {
        return (0.0, 0.0);
    }
    let x = x.clamp(left, right);
    let (mut top, mut bottom) = (f64::INFINITY, f64::NEG_INFINITY);
    for (a, b) in outline.iter().zip(outline.iter().cycle().skip(1)) {
        if x < a.x.min(b.x) || x > a.x.max(b.x) {
            continue;
        }
        let part = if a.x == b.x { 0.0 } else { (x - a.x) / (b.x - a.x) };
        let y = a.y + part * (b.y - a.y);
        // Of a side that is upright both ends count.
        for y in [y, if a.x == b.x { b.y } else { y }] {
            (top, bottom) = (top.min(y), bottom.max(y));
        }
    }
    (top, bottom)
}

fn bands(layers: &Layers, x: &[f64]) -> Vec<(f64, f64)> {
    let mut top = 0.0;
    let mut bands = Vec::with_capacity(layers.rows.len());
    for row in &layers.rows {
        let height = row.iter().map(|slot| layers.size[*slot].height).fold(0.0, f64::max);
        let sideways = row.iter().flat_map(|slot| layers.below[*slot].iter().map(|lower| (x[*lower] - x[*slot]).abs()));
        let gap = (GAP.0 + 0.07 * sideways.fold(0.0, f64::max)).min(GAP.1);
        bands.push((top, top + height));
        top += height + gap;
    }
    bands
}

/// A lane beside the boxes for every arc that goes around, and the width of it all. Arcs to one box share a lane.
fn lanes(layers: &Layers, stack: &Stack, right: f64) -> (Vec<f64>, f64) {
    let mut ends: Vec<(usize, usize, usize, usize)> = Vec::new();
    for (arc, Arc { from, to, .. }) in stack.arcs.iter().enumerate() {
        if layers.routes[arc] == Route::Around {
            ends.push((*to, layers.layer[*from], layers.layer[*to], arc));
        }
    }
    ends.sort_unstable();
    let groups: Vec<_> = ends.chunk_by(|a, b| a.0 == b.0).collect();
    let mut by_top: Vec<usize> = (0..groups.len()).collect();
    by_top.sort_by_key(|group| groups[*group][0].1);
    let mut lanes = vec![0.0; stack.arcs.len()];
    let mut taken_until: Vec<usize> = Vec::new();
    for group in by_top {
        let (_, top, bottom, _) = groups[group][0];
        let lane = taken_until.iter().position(|until| *until <= top).unwrap_or_else(|| {
            taken_until.push(0);
            taken_until.len() - 1
        });
        taken_until[lane] = bottom;
        for (.., arc) in groups[group] {
            lanes[*arc] = right + LANE_GAP * (lane + 1) as f64;
        }
    }
    (lanes, right + LANE_GAP * taken_until.len() as f64)
}

impl Router<'_> {
    /// Top and bottom of the layer of a slot.
    fn band(&self, slot: usize) -> (f64, f64) {
        self.bands[self.layers.layer[slot]]
    }

    /// The two ends of a bend, which is upright in its layer.
    fn through(&self, bend: usize) -> [Point; 2] {
        let (top, bottom) = self.band(bend);
        [Point::new(self.x[bend], top), Point::new(self.x[bend], bottom)]
    }

    fn middle(&self, slot: usize) -> Point {
        let (top, bottom) = self.band(slot);
        Point::new(self.x[slot], (top + bottom) / 2.0)
    }

    /// Between which places edges may leave and arrive at a box.
    fn side(&self, slot: usize, outline: &[Point]) -> (f64, f64) {
        let wide = port_range(outline);
        (self.x[slot] - wide, self.x[slot] + wide)
    }

    /// Spreads the arcs of every box along its upper and lower side, each as near to its straight way as possible.
    fn find_ports(&mut self, outlines: &[Option<&[Point]>]) {
        let mut sides = vec![[Vec::new(), Vec::new()]; self.layers.boxes];
        for (arc, Arc { from, to, .. }) in self.stack.arcs.iter().enumerate() {
            let (first, last) = self.aims(arc, *from, *to, outlines);
            sides[*from][0].extend(first.map(|x| (x, arc)));
            sides[*to][1].extend(last.map(|x| (x, arc)));
        }
        for (slot, [below, above]) in sides.into_iter().enumerate() {
            let Some(outline) = outlines[slot] else { continue };
            for (end, mut arcs) in [(0, below), (1, above)] {
                arcs.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal).then(a.1.cmp(&b.1)));
                let wide = port_range(outline);
                let wished: Vec<f64> = arcs.iter().map(|(x, _)| x - self.x[slot]).collect();
                for ((_, arc), x) in arcs.iter().zip(spread(&wished, wide)) {
                    let (top, bottom) = reach(outline, x);
                    self.ports[*arc][end] = Point::new(x, if end == 0 { bottom } else { top });
                }
            }
        }
    }

    /// Where an arc goes to from its upper box, and where it comes from to its lower one. None at an end it does not
    /// reach, because it joins another edge.
    fn aims(&self, arc: usize, from: usize, to: usize, outlines: &[Option<&[Point]>]) -> (Option<f64>, Option<f64>) {
        let x = |slot: Option<&usize>, otherwise: usize| Some(self.x[*slot.unwrap_or(&otherwise)]);
        match (&self.layers.routes[arc], outlines[from], outlines[to]) {
            (Route::Around, ..) => (Some(self.lanes[arc]), Some(self.lanes[arc])),
            (Route::Joins(bends, trunk), ..) => {
                if self.stack.arcs[arc].rises {
                    (None, x(bends.last(), *trunk))
                } else {
                    (x(bends.first(), *trunk), None)
                }
            }
            // Straight down between two nodes that are above each other, even if not middle above middle.
            (Route::Through(bends), Some(upper), Some(lower)) if bends.is_empty() => {
                let (upper, lower) = (self.side(from, upper), self.side(to, lower));
                let (left, right) = (upper.0.max(lower.0), upper.1.min(lower.1));
                if left > right {
                    return (x(None, to), x(None, from));
                }
                let straight = Some(((self.x[from] + self.x[to]) / 2.0).clamp(left, right));
                (straight, straight)
            }
            (Route::Through(bends), ..) => (x(bends.first(), to), x(bends.last(), from)),
        }
    }

    fn knots(&self, strand: &Strand) -> Vec<Point> {
        let mut knots = Vec::new();
        for arc in &strand.arcs {
            let Arc { from, to, rises } = self.stack.arcs[*arc];
            let [leave, arrive] = self.ports[*arc];
            let start = self.middle(from).plus(leave);
            let end = self.middle(to).plus(arrive);
            let (upper, lower) = (self.band(from), self.band(to));
            let leaving = [start, Point::new(start.x, upper.1)];
            let arriving = [Point::new(end.x, lower.0), end];
            match (&self.layers.routes[*arc], rises) {
                (Route::Through(bends), _) => {
                    knots.extend(leaving);
                    knots.extend(bends.iter().flat_map(|bend| self.through(*bend)));
                    knots.extend(arriving);
                }
                (Route::Joins(bends, trunk), false) => {
                    knots.extend(leaving);
                    knots.extend(bends.iter().flat_map(|bend| self.through(*bend)));
                    knots.push(self.through(*trunk)[0]);
                }
                (Route::Joins(bends, trunk), true) => {
                    knots.push(self.through(*trunk)[1]);
                    knots.extend(bends.iter().flat_map(|bend| self.through(*bend)));
                    knots.extend(arriving);
                }
                (Route::Around, _) => {
                    let lane = self.lanes[*arc];
                    let (out, back) = (upper.1 + GAP.0 / 3.0, lower.0 - GAP.0 / 3.0);
                    knots.extend(leaving);
                    let corners = [(start.x, out), (lane, out), (lane, back), (end.x, back)];
                    knots.extend(corners.map(|(x, y)| Point::new(x, y)));
                    knots.extend(arriving);
                }
            }
        }
        knots.dedup();
        knots
    }
}

/// How far from a node's middle edges may leave and arrive.
fn port_range(outline: &[Point]) -> f64 {
    outline.iter().map(|corner| corner.x).fold(0.0, f64::max) * PORT_PART
}

/// Places between `-wide` and `wide`, in order and apart from each other, near what is wished.
fn spread(wished: &[f64], wide: f64) -> Vec<f64> {
    let last = wished.len().saturating_sub(1) as f64;
    let gap = if last > 0.0 { PORT_GAP.min(2.0 * wide / last) } else { 0.0 };
    let wished: Vec<f64> = wished.iter().map(|at| at.clamp(-wide, wide)).collect();
    let settled = settle(&wished, gap);
    let within = |(index, at): (usize, f64)| {
        let index = index as f64;
        at.max(gap * index - wide).min(wide - gap * (last - index))
    };
    settled.into_iter().enumerate().map(within).collect()
}

/// The places nearest to what is wished (in the sense of least squares) that are in order and `gap` apart.
fn settle(wished: &[f64], gap: f64) -> Vec<f64> {
    // Neighbours that would come too close move as one: the sum of their wishes, and their number.
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for (index, at) in wished.iter().enumerate() {
        let mut block = (at - gap * index as f64, 1);
        while let Some(before) = blocks.pop_if(|before| before.0 / before.1 as f64 > block.0 / block.1 as f64) {
            block = (before.0 + block.0, before.1 + block.1);
        }
        blocks.push(block);
    }
    let places = blocks.iter().flat_map(|(sum, count)| std::iter::repeat_n(sum / *count as f64, *count));
    places.enumerate().map(|(index, at)| at + gap * index as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::graph::shapes::Shape;

    #[test]
    fn edges_end_at_the_outline() {
        let size = Size::new(100.0, 50.0);
        assert_eq!(reach(&Shape::Box.outline(size), 30.0), (-25.0, 25.0));
        assert_eq!(reach(&Shape::Diamond.outline(size), 0.0), (-25.0, 25.0));
        assert_eq!(reach(&Shape::Diamond.outline(size), 25.0), (-12.5, 12.5));
        assert_eq!(reach(&Shape::Diamond.outline(size), 999.0), (0.0, 0.0));
        assert_eq!(reach(&[], 3.0), (0.0, 0.0));
    }

    #[test]
    fn settling_moves_neighbours_apart_evenly() {
        assert_eq!(settle(&[0.0, 100.0], 10.0), [0.0, 100.0]);
        assert_eq!(settle(&[0.0, 0.0], 10.0), [-5.0, 5.0]);
        assert_eq!(settle(&[50.0, 0.0, 10.0], 10.0), [10.0, 20.0, 30.0]);
        assert_eq!(settle(&[], 10.0), Vec::<f64>::new());
    }

    #[test]
    fn ports_keep_apart_and_within_the_side() {
        assert_eq!(spread(&[3.0], 40.0), [3.0]);
        assert_eq!(spread(&[0.0, 0.0], 40.0), [-7.0, 7.0]);
        assert_eq!(spread(&[-999.0, 0.0, 999.0], 40.0), [-40.0, 0.0, 40.0]);
        assert_eq!(spread(&[999.0, 999.0], 40.0), [26.0, 40.0]);
        let many = spread(&[0.0; 100], 40.0);
        assert!(many.windows(2).all(|pair| pair[0] < pair[1]) && many[0] >= -40.01 && many[99] <= 40.01, "{many:?}");
    }
}
