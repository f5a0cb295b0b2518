//! Lines with an arrow head, as SVG wants them.

use std::fmt::Write as _;

use crate::render::graph::geometry::{Flow, Point};

/// A line and its arrow head, as the `d` of SVG paths.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Path {
    pub line: String,
    pub head: String,
}

/// The length of an arrow head, and half its width.
const HEAD: Point = Point { x: 9.0, y: 4.2 };

impl Path {
    /// Through `knots`, which are given from top to bottom in a drawing that runs downwards.
    pub fn along(knots: &[Point], rises: bool, flow: Flow) -> Self {
        let mut knots = knots.to_vec();
        if rises {
            knots.reverse();
        }
        let Some(tip) = knots.last().copied() else { return Self::default() };
        let forward = if rises { -1.0 } else { 1.0 };
        let base = Point::new(tip.x, tip.y - forward * HEAD.x);
        // The head takes the end of the line's place.
        while knots.len() > 1 && knots.last().is_some_and(|knot| (knot.y - base.y) * forward > -0.1) {
            knots.pop();
        }
        knots.push(base);
        knots.dedup();
        let head = head(tip, Point::new(0.0, forward), flow);
        Self { line: line(&knots, flow), head }
    }

    /// The same for an edge that ends on the line of another one, whose head is then its own too.
    pub fn joining(knots: &[Point], rises: bool, flow: Flow) -> Self {
        let mut knots = knots.to_vec();
        if rises {
            knots.reverse();
        }
        Self { line: line(&knots, flow), head: String::new() }
    }

    /// A loop that leaves and arrives from the right, reaching `far`, in a drawing that runs downwards.
    pub fn looped(from: Point, tip: Point, far: f64, flow: Flow) -> Self {
        let base = Point::new(tip.x + HEAD.x, tip.y);
        // A curve gets three quarters of the way to its control points.
        let control = |at: Point| Point::new(at.x + (far - at.x) * 1.3, at.y);
        let [from, first, second, end] = [from, control(from), control(base), base].map(|point| flow.turn(point));
        let line = format!(
            "M{:.1} {:.1}C{:.1} {:.1} {:.1} {:.1} {:.1} {:.1}",
            from.x, from.y, first.x, first.y, second.x, second.y, end.x, end.y
        );
        Self { line, head: head(tip, Point::new(-1.0, 0.0), flow) }
    }
}

fn line(knots: &[Point], flow: Flow) -> String {
    let mut path = String::new();
    let mut before: Option<Point> = None;
    for knot in knots {
        let Point { x, y } = flow.turn(*knot);
        let _ = match before {
            None => write!(path, "M{x:.1} {y:.1}"),
            Some(before) if (before.x - knot.x).abs() < 0.05 || (before.y - knot.y).abs() < 0.05 => {
                write!(path, "L{x:.1} {y:.1}")
            }
            Some(before) => {
                let middle = (before.y + knot.y) / 2.0;
                let first = flow.turn(Point::new(before.x, middle));
                let second = flow.turn(Point::new(knot.x, middle));
                write!(path, "C{:.1} {:.1} {:.1} {:.1} {x:.1} {y:.1}", first.x, first.y, second.x, second.y)
            }
        };
        before = Some(*knot);
    }
    path
}

fn head(tip: Point, direction: Point, flow: Flow) -> String {
    let back = Point::new(tip.x - direction.x * HEAD.x, tip.y - direction.y * HEAD.x);
    let aside = Point::new(direction.y * HEAD.y, direction.x * HEAD.y);
    let corners = [tip, back.plus(aside), back.plus(Point::new(-aside.x, -aside.y))].map(|corner| flow.turn(corner));
    let [tip, left, right] = corners;
    format!("M{:.1} {:.1}L{:.1} {:.1}L{:.1} {:.1}Z", tip.x, tip.y, left.x, left.y, right.x, right.y)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOTS: [Point; 4] =
        [Point { x: 0.0, y: 0.0 }, Point { x: 0.0, y: 10.0 }, Point { x: 50.0, y: 50.0 }, Point { x: 50.0, y: 70.0 }];

    #[test]
    fn a_line_is_straight_within_layers_and_curved_between() {
        let path = Path::along(&KNOTS, false, Flow::Down);
        assert_eq!(path.line, "M0.0 0.0L0.0 10.0C0.0 30.0 50.0 30.0 50.0 50.0L50.0 61.0");
        assert_eq!(path.head, "M50.0 70.0L54.2 61.0L45.8 61.0Z");
    }

    #[test]
    fn an_edge_that_rises_has_its_head_at_the_top() {
        let path = Path::along(&KNOTS, true, Flow::Down);
        assert_eq!(path.line, "M50.0 70.0L50.0 50.0C50.0 30.0 0.0 30.0 0.0 10.0L0.0 9.0");
        assert!(path.head.starts_with("M0.0 0.0L"));
    }

    #[test]
    fn to_the_right_the_axes_change_their_roles() {
        let path = Path::along(&KNOTS[..2], false, Flow::Right);
        assert_eq!(path.line, "M0.0 0.0L1.0 0.0");
        assert!(path.head.starts_with("M10.0 0.0L"));
    }
}
