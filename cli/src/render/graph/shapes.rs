//! The shapes of nodes: how big they are around their text, their outline, and how they are drawn.

use std::f64::consts::TAU;
use std::fmt::Write as _;

use pleach_core::plan::pipeline::HandlerKind;

use crate::render::graph::geometry::{Point, Size};

/// The shape of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Box,
    Circle,
    Component,
    Diamond,
    DoubleCircle,
    DoubleOctagon,
    Ellipse,
    Hexagon,
    House,
    Insulator,
    Mdiamond,
    Msquare,
    Octagon,
    Parallelogram,
    Plain,
    Tab,
    TripleOctagon,
}

/// From one line of a double outline to the next.
const RING: f64 = 4.0;
/// How far the corner marks of `Mdiamond` and `Msquare` are from the corner.
const MARK: f64 = 12.0;
/// The tabs of `component`: how far they stick out, and their height.
const PLUG: Size = Size { width: 7.0, height: 8.0 };
/// The lines beside an `insulator`.
const LEAD: f64 = 8.0;
/// The tab on top of `tab`.
const TAB: Size = Size { width: 34.0, height: 9.0 };

impl Shape {
    /// The shape of that name in Graphviz; a box for those no pipeline gives a meaning to.
    pub fn of_word(word: &str) -> Self {
        match word {
            "Mdiamond" => Self::Mdiamond,
            "Msquare" => Self::Msquare,
            "circle" => Self::Circle,
            "component" => Self::Component,
            "diamond" => Self::Diamond,
            "doublecircle" => Self::DoubleCircle,
            "doubleoctagon" => Self::DoubleOctagon,
            "ellipse" | "oval" => Self::Ellipse,
            "hexagon" => Self::Hexagon,
            "house" => Self::House,
            "insulator" => Self::Insulator,
            "none" | "plain" | "plaintext" => Self::Plain,
            "octagon" => Self::Octagon,
            "parallelogram" => Self::Parallelogram,
            "tab" => Self::Tab,
            "tripleoctagon" => Self::TripleOctagon,
            _ => Self::Box,
        }
    }

    /// The shape that stands for a handler, for nodes that are given a `type` and no shape.
    pub fn of_handler(handler: &HandlerKind) -> Self {
        match handler {
            HandlerKind::Start => Self::Mdiamond,
            HandlerKind::Exit => Self::Msquare,
            HandlerKind::WaitHuman => Self::Hexagon,
            HandlerKind::Conditional => Self::Diamond,
            HandlerKind::Parallel => Self::Component,
            HandlerKind::FanIn => Self::TripleOctagon,
            HandlerKind::Tool => Self::Parallelogram,
            HandlerKind::ManagerLoop => Self::House,
            HandlerKind::Wait => Self::Insulator,
            HandlerKind::Codergen | HandlerKind::Custom(_) => Self::Box,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Box => "box",
            Self::Circle => "circle",
            Self::Component => "component",
            Self::Diamond => "diamond",
            Self::DoubleCircle => "doublecircle",
            Self::DoubleOctagon => "doubleoctagon",
            Self::Ellipse => "ellipse",
            Self::Hexagon => "hexagon",
            Self::House => "house",
            Self::Insulator => "insulator",
            Self::Mdiamond => "Mdiamond",
            Self::Msquare => "Msquare",
            Self::Octagon => "octagon",
            Self::Parallelogram => "parallelogram",
            Self::Plain => "plain",
            Self::Tab => "tab",
            Self::TripleOctagon => "tripleoctagon",
        }
    }

    /// How many characters a line of its text should have: shapes that grow in both directions want narrow text.
    pub fn columns(self) -> f64 {
        match self {
            Self::Circle | Self::DoubleCircle | Self::Msquare => 14.0,
            Self::Diamond | Self::Mdiamond | Self::Ellipse => 18.0,
            _ => 26.0,
        }
    }

    /// How big it is around text of that size.
    pub fn size(self, text: Size) -> Size {
        let Size { width, height } = Size::new(text.width + 22.0, text.height + 16.0);
        match self {
            Self::Box | Self::Plain => Size::new(width.max(54.0), height),
            Self::Msquare => {
                let side = width.max(height).max(52.0);
                Size::new(side, side)
            }
            Self::Circle => {
                let across = text.width.hypot(text.height) + 14.0;
                Size::new(across, across)
            }
            Self::DoubleCircle => {
                let across = text.width.hypot(text.height) + 14.0 + 2.0 * RING;
                Size::new(across, across)
            }
            Self::Ellipse => Size::new(width * 1.25, height * 1.35),
            // The text's corners touch the sides when width and height of the text, as parts of the shape's, make one.
            Self::Diamond | Self::Mdiamond => {
                let across = text.width + 12.0 + 2.0 * (text.height + 4.0);
                Size::new(across, across / 2.0)
            }
            Self::Hexagon => Size::new(width + 2.0 * slant(height + 4.0), height + 4.0),
            Self::Parallelogram => Size::new(width - 6.0 + 2.0 * slant(height), height),
            Self::Component => Size::new(width + 2.0 * PLUG.width, height.max(40.0)),
            Self::Octagon => Size::new(width, height + 8.0),
            Self::DoubleOctagon => Size::new(width + 2.0 * RING, height + 8.0 + 2.0 * RING),
            Self::TripleOctagon => Size::new(width + 4.0 * RING, height + 8.0 + 4.0 * RING),
            Self::House => Size::new(width + 8.0, height + roof(height)),
            Self::Insulator => Size::new(width + 2.0 * (RING + LEAD), height + 2.0 * RING),
            Self::Tab => Size::new(width.max(TAB.width + 20.0), height + TAB.height),
        }
    }

    /// Where the middle of the text is, from the middle of the shape.
    pub fn text_at(self, size: Size) -> Point {
        match self {
            Self::House => Point::new(0.0, house_eaves(size) / 2.0),
            Self::Tab => Point::new(0.0, TAB.height / 2.0),
            Self::Component => Point::new(PLUG.width / 2.0, 0.0),
            _ => Point::default(),
        }
    }

    /// The corners of its outline around the middle of the shape; round shapes have many.
    pub fn outline(self, size: Size) -> Vec<Point> {
        let (x, y) = (size.width / 2.0, size.height / 2.0);
        let corners: Vec<(f64, f64)> = match self {
            Self::Diamond | Self::Mdiamond => vec![(0.0, -y), (x, 0.0), (0.0, y), (-x, 0.0)],
            Self::Hexagon => {
                let slant = slant(size.height);
                vec![(slant - x, -y), (x - slant, -y), (x, 0.0), (x - slant, y), (slant - x, y), (-x, 0.0)]
            }
            Self::Parallelogram => {
                let slant = slant(size.height);
                vec![(slant - x, -y), (x, -y), (x - slant, y), (-x, y)]
            }
            Self::Octagon | Self::DoubleOctagon | Self::TripleOctagon => {
                let cut = (size.height * 0.28).min(16.0);
                vec![
                    (cut - x, -y),
                    (x - cut, -y),
                    (x, cut - y),
                    (x, y - cut),
                    (x - cut, y),
                    (cut - x, y),
                    (-x, y - cut),
                    (-x, cut - y),
                ]
            }
            Self::House => {
                let eaves = house_eaves(size) - y;
                vec![(0.0, -y), (x, eaves), (x, y), (-x, y), (-x, eaves)]
            }
            Self::Circle | Self::DoubleCircle | Self::Ellipse => {
                (0..64).map(|n| TAU * f64::from(n) / 64.0).map(|angle| (x * angle.sin(), -y * angle.cos())).collect()
            }
            Self::Tab => {
                let (ear, top) = (TAB.width - x, TAB.height - y);
                vec![(-x, -y), (ear, -y), (ear, top), (x, top), (x, y), (-x, y)]
            }
            _ => vec![(-x, -y), (x, -y), (x, y), (-x, y)],
        };
        corners.into_iter().map(|(x, y)| Point::new(x, y)).collect()
    }

    /// Draws it around `at` as SVG elements.
    pub fn draw(self, at: Point, size: Size) -> String {
        let pen = Pen { at };
        let (x, y) = (size.width / 2.0, size.height / 2.0);
        match self {
            Self::Plain => String::new(),
            Self::Box => pen.rectangle(size),
            Self::Circle | Self::Ellipse => pen.ellipse(size),
            Self::DoubleCircle => pen.ellipse(size) + &pen.ellipse(smaller(size, RING)),
            Self::Diamond | Self::Hexagon | Self::Parallelogram | Self::Octagon | Self::House => {
                pen.polygon(&self.outline(size))
            }
            Self::DoubleOctagon => pen.rings(self, size, 2),
            Self::TripleOctagon => pen.rings(self, size, 3),
            Self::Mdiamond => {
                // A mark across each corner: `part` of the way along both sides that meet there.
                let part = (MARK / x).min(0.4);
                let (near, far) = (1.0 - part, part);
                let marks = [
                    [(-x * far, -y * near), (x * far, -y * near)],
                    [(-x * far, y * near), (x * far, y * near)],
                    [(-x * near, -y * far), (-x * near, y * far)],
                    [(x * near, -y * far), (x * near, y * far)],
                ];
                pen.polygon(&self.outline(size)) + &pen.marks(&marks)
            }
            Self::Msquare => {
                let marks = [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)]
                    .map(|(h, v)| [(h * (x - MARK), v * y), (h * x, v * (y - MARK))]);
                pen.rectangle(size) + &pen.marks(&marks)
            }
            Self::Component => {
                let body = Size::new(size.width - PLUG.width, size.height);
                let plug = |down: f64| {
                    Pen { at: at.plus(Point::new(PLUG.width - x, down)) }
                        .rectangle(Size::new(2.0 * PLUG.width, PLUG.height))
                };
                let body = Pen { at: at.plus(Point::new(PLUG.width / 2.0, 0.0)) }.rectangle(body);
                body + &plug(-size.height * 0.22) + &plug(size.height * 0.22)
            }
            Self::Insulator => {
                let body = Size::new(size.width - 2.0 * LEAD, size.height);
                let leads = [[(-x, 0.0), (LEAD - x, 0.0)], [(x - LEAD, 0.0), (x, 0.0)]];
                pen.rectangle(body) + &pen.rectangle(smaller(body, RING)) + &pen.marks(&leads)
            }
            Self::Tab => {
                let body = Size::new(size.width, size.height - TAB.height);
                let ear = Point::new(TAB.width / 2.0 - x, TAB.height / 2.0 - y);
                Pen { at: at.plus(ear) }.rectangle(TAB)
                    + &Pen { at: at.plus(Point::new(0.0, TAB.height / 2.0)) }.rectangle(body)
            }
        }
    }
}

/// How far the sides of a hexagon or parallelogram lean.
fn slant(height: f64) -> f64 {
    (height * 0.35).min(20.0)
}

fn roof(height: f64) -> f64 {
    (height * 0.4).clamp(12.0, 30.0)
}

/// How far below the top of a house its walls start.
fn house_eaves(size: Size) -> f64 {
    // The inverse of what `Shape::size` added.
    let height = (size.height / 1.4).clamp(size.height - 30.0, size.height - 12.0);
    size.height - height
}

fn smaller(size: Size, by: f64) -> Size {
    Size::new((size.width - 2.0 * by).max(1.0), (size.height - 2.0 * by).max(1.0))
}

/// Writes elements around a place.
struct Pen {
    at: Point,
}

impl Pen {
    fn rectangle(&self, size: Size) -> String {
        let Size { width, height } = size;
        let corner = self.at.plus(Point::new(-width / 2.0, -height / 2.0));
        format!(
            r#"<rect class="shape" x="{:.1}" y="{:.1}" width="{width:.1}" height="{height:.1}"/>"#,
            corner.x, corner.y
        )
    }

    fn ellipse(&self, size: Size) -> String {
        let Point { x, y } = self.at;
        let (rx, ry) = (size.width / 2.0, size.height / 2.0);
        if (rx - ry).abs() < 0.01 {
            return format!(r#"<circle class="shape" cx="{x:.1}" cy="{y:.1}" r="{rx:.1}"/>"#);
        }
        format!(r#"<ellipse class="shape" cx="{x:.1}" cy="{y:.1}" rx="{rx:.1}" ry="{ry:.1}"/>"#)
    }

    fn polygon(&self, corners: &[Point]) -> String {
        let corners: Vec<String> = corners.iter().map(|corner| self.place(*corner, ",")).collect();
        format!(r#"<polygon class="shape" points="{}"/>"#, corners.join(" "))
    }

    fn rings(&self, shape: Shape, size: Size, count: u8) -> String {
        (0..count).map(|ring| self.polygon(&shape.outline(smaller(size, RING * f64::from(ring))))).collect()
    }

    fn marks(&self, lines: &[[(f64, f64); 2]]) -> String {
        let mut path = String::new();
        for [(x1, y1), (x2, y2)] in lines {
            let (from, to) = (self.place(Point::new(*x1, *y1), " "), self.place(Point::new(*x2, *y2), " "));
            let _ = write!(path, "M{from}L{to}");
        }
        format!(r#"<path class="mark" d="{path}"/>"#)
    }

    fn place(&self, offset: Point, between: &str) -> String {
        let Point { x, y } = self.at.plus(offset);
        format!("{x:.1}{between}{y:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [&str; 17] = [
        "box",
        "circle",
        "component",
        "diamond",
        "doublecircle",
        "doubleoctagon",
        "ellipse",
        "hexagon",
        "house",
        "insulator",
        "Mdiamond",
        "Msquare",
        "octagon",
        "parallelogram",
        "plain",
        "tab",
        "tripleoctagon",
    ];

    #[test]
    fn every_shape_is_known_by_its_word() {
        for word in WORDS {
            assert_eq!(Shape::of_word(word).word(), word);
        }
        assert_eq!(Shape::of_word("star"), Shape::Box);
    }

    #[test]
    fn a_handler_has_the_shape_that_selects_it() {
        for handler in HandlerKind::BUILT_IN {
            let shape = Shape::of_handler(&handler);
            assert_eq!(HandlerKind::from_shape(shape.word()).unwrap_or(HandlerKind::Codergen), handler);
        }
    }

    #[test]
    fn text_lies_inside_the_outline() {
        for (shape, text) in WORDS.map(Shape::of_word).into_iter().flat_map(|shape| {
            [Size::new(20.0, 17.0), Size::new(180.0, 17.0), Size::new(90.0, 80.0)].map(|text| (shape, text))
        }) {
            let size = shape.size(text);
            let outline = shape.outline(size);
            let middle = shape.text_at(size);
            for (h, v) in [(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)] {
                let corner = middle.plus(Point::new(h * text.width, v * text.height));
                assert!(is_inside(corner, &outline), "{shape:?} {text:?}: {corner:?} is outside of {outline:?}");
            }
        }
    }

    /// A line to the left crosses the outline an odd number of times.
    fn is_inside(point: Point, outline: &[Point]) -> bool {
        let sides = outline.iter().zip(outline.iter().cycle().skip(1));
        let crossed = sides.filter(|(a, b)| {
            (a.y > point.y) != (b.y > point.y) && a.x + (point.y - a.y) / (b.y - a.y) * (b.x - a.x) < point.x
        });
        crossed.count() % 2 == 1
    }
}
