//! Columns that line up, without lines around them.

use std::fmt;

/// Rows of cells. Columns are as wide as their widest cell; numbers can be set flush right.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
}

impl Table {
    /// A table with these headings.
    pub fn new<const N: usize>(headings: [&str; N]) -> Self {
        Self { rows: vec![headings.map(str::to_owned).to_vec()], right: Vec::new() }
    }

    /// Sets a column flush right.
    #[must_use]
    pub fn right(mut self, column: usize) -> Self {
        self.right.push(column);
        self
    }

    /// Leaves out columns that have nothing below their headings.
    #[must_use]
    pub fn without_empty(mut self) -> Self {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let is_empty =
            |column: &usize| self.rows.iter().skip(1).all(|row| row.get(*column).is_none_or(String::is_empty));
        let empty: Vec<usize> = (0..columns).filter(is_empty).collect();
        for row in &mut self.rows {
            let mut column = 0;
            row.retain(|_| {
                column += 1;
                !empty.contains(&(column - 1))
            });
        }
        let before = |right: usize| empty.iter().filter(|column| **column < right).count();
        self.right = self.right.iter().map(|right| right - before(*right)).collect();
        self
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max())
            .map(Option::unwrap_or_default)
            .collect();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let padding = " ".repeat(widths[column] - width(cell));
                let gap = if column == 0 { "" } else { "  " };
                let (before, after) = if self.right.contains(&column) { (&*padding, "") } else { ("", &*padding) };
                line.extend([gap, before, cell, after]);
            }
            let end = if number + 1 == self.rows.len() { "" } else { "\n" };
            write!(f, "{}{end}", line.trim_end())?;
        }
        Ok(())
    }
}

/// How many columns a cell takes: colours take none.
fn width(cell: &str) -> usize {
    anstream::adapter::strip_str(cell).to_string().chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["turn", "tokens", "what"]).right(1);
        table.row(["main.1".into(), "7".into(), "ä".into()]);
        table.row(["main.12".into(), "12.3k".into(), String::new()]);
        assert_eq!(table.to_string(), "turn     tokens  what\nmain.1        7  ä\nmain.12   12.3k");
    }

    #[test]
    fn empty_columns_are_left_out() {
        let mut table = Table::new(["run", "test", "turns"]).right(2);
        table.row(["r1".into(), String::new(), "12".into()]);
        assert_eq!(table.without_empty().to_string(), "run  turns\nr1      12");
    }

    #[test]
    fn colours_take_no_room() {
        let mut table = Table::new(["standing", "age"]);
        table.row(["\u{1b}[32mdone\u{1b}[0m".into(), "3s".into()]);
        assert_eq!(table.to_string(), "standing  age\n\u{1b}[32mdone\u{1b}[0m      3s");
    }
}
