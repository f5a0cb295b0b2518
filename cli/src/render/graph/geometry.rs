//! Points and sizes, in pixels; y grows downwards.

/// A place.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

impl Point {
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y }
    }

    pub fn plus(self, other: Self) -> Self {
        Self { x: self.x + other.x, y: self.y + other.y }
    }

    /// The same place when right and down change their roles.
    pub fn transposed(self) -> Self {
        Self { x: self.y, y: self.x }
    }
}

/// How much room something takes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Size {
    pub width: f64,
    pub height: f64,
}

impl Size {
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height }
    }

    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// The same when right and down change their roles.
    pub fn transposed(self) -> Self {
        Self { width: self.height, height: self.width }
    }
}

/// Which way edges lead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Flow {
    #[default]
    Down,
    Right,
}

impl Flow {
    /// From the picture to a drawing that runs downwards, and back.
    pub fn turn(self, point: Point) -> Point {
        if self == Self::Down { point } else { point.transposed() }
    }

    pub fn turn_size(self, size: Size) -> Size {
        if self == Self::Down { size } else { size.transposed() }
    }
}
