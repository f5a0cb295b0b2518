//! Columns that line up, without lines around them, in the room the terminal has for them.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, Ordering};

use console::{measure_text_width, truncate_str};

/// What a text is cut to before other columns are left out for it, and what is left of it at least.
const ROOM: usize = 36;
const LEAST: usize = 8;

/// What is between two columns.
const GAP: usize = 2;

/// Rows of cells. Columns are as wide as their widest cell; numbers can be set flush right. Where a terminal has no room
/// for all of it, texts are cut, the widest first, and columns are left out, the least important first.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
    texts: Vec<usize>,
    paths: Vec<usize>,
    less: Vec<usize>,
    only_whole: Vec<usize>,
    without_empty: bool,
}

impl Table {
    /// A table with these headings.
    pub fn new<const N: usize>(headings: [&str; N]) -> Self {
        Self { rows: vec![headings.map(str::to_owned).to_vec()], ..Self::default() }
    }

    /// Sets a column flush right.
    #[must_use]
    pub fn right(mut self, column: usize) -> Self {
        self.right.push(column);
        self
    }

    /// A column of free text: its end may be cut off.
    #[must_use]
    pub fn text(mut self, column: usize) -> Self {
        self.texts.push(column);
        self
    }

    /// A column of paths: their beginning may be cut off, which several have in common.
    #[must_use]
    pub fn path(mut self, column: usize) -> Self {
        self.paths.push(column);
        self
    }

    /// The columns that are left out where there is no room for them, the least important first.
    #[must_use]
    pub fn less<const N: usize>(mut self, columns: [usize; N]) -> Self {
        self.less.extend(columns);
        self
    }

    /// A column that a terminal never has room for: with `--wide`, and where there is no terminal, it is there.
    #[must_use]
    pub fn only_whole(mut self, column: usize) -> Self {
        self.only_whole.push(column);
        self
    }

    /// Leaves out columns that have nothing below their headings.
    #[must_use]
    pub fn without_empty(mut self) -> Self {
        self.without_empty = true;
        self
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    /// The table as the terminal has room for it; whole where there is none, and with `--wide`.
    pub fn shown(&self) -> String {
        self.within(columns())
    }

    fn within(&self, room: Option<usize>) -> String {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let all = (0..count).map(|column| self.rows.iter().filter_map(move |row| row.get(column)));
        let mut widths: Vec<usize> = all.map(|cells| cells.map(|cell| width(cell)).max().unwrap_or(0)).collect();
        let mut shown: Vec<usize> =
            (0..count).filter(|column| !self.without_empty || !self.is_empty(*column)).collect();
        if let Some(room) = room {
            self.fit(&mut shown, &mut widths, room);
        }
        let lines = self.rows.iter().map(|row| self.line(row, &shown, &widths));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Leaves out and cuts, until a row has room.
    fn fit(&self, shown: &mut Vec<usize>, widths: &mut [usize], room: usize) {
        let is_cut = |column: usize| self.texts.contains(&column) || self.paths.contains(&column);
        let needs = |shown: &[usize], widths: &[usize], text: usize| {
            let of = |column: &usize| if is_cut(*column) { widths[*column].min(text) } else { widths[*column] };
            shown.iter().map(of).sum::<usize>() + GAP * shown.len().saturating_sub(1)
        };
        let whole = usize::MAX;
        shown.retain(|column| !self.only_whole.contains(column));
        if needs(shown, widths, whole) > room {
            shown.retain(|column| !self.is_empty(*column));
        }
        for less in &self.less {
            if needs(shown, widths, ROOM) > room {
                shown.retain(|column| column != less);
            }
        }
        while needs(shown, widths, whole) > room {
            // Where no text has anything to give any more, anything else has.
            let widest = shown.iter().filter(|column| widths[**column] > LEAST);
            let Some(widest) = widest.max_by_key(|column| (is_cut(**column), widths[**column], Reverse(**column)))
            else {
                return;
            };
            widths[*widest] -= 1;
        }
    }

    fn is_empty(&self, column: usize) -> bool {
        self.rows.iter().skip(1).all(|row| row.get(column).is_none_or(String::is_empty))
    }

    fn line(&self, row: &[String], shown: &[usize], widths: &[usize]) -> String {
        let mut line = String::new();
        for (number, column) in shown.iter().enumerate() {
            let Some(cell) = row.get(*column) else { break };
            let cell = if self.paths.contains(column) {
                without_beginning(cell, widths[*column])
            } else {
                cut(cell, widths[*column])
            };
            let padding = " ".repeat(widths[*column].saturating_sub(width(&cell)));
            let gap = if number == 0 { 0 } else { GAP };
            let (before, after) = if self.right.contains(column) { (&*padding, "") } else { ("", &*padding) };
            line.extend([&" ".repeat(gap), before, &cell, after]);
        }
        line.trim_end().to_owned()
    }
}

/// Whether nothing is cut or left out for the terminal's sake.
static WIDE: AtomicBool = AtomicBool::new(false);

/// Shows everything from now on, however wide, if so asked.
pub fn set_wide(wide: bool) {
    WIDE.store(wide, Ordering::Relaxed);
}

/// The columns lines may take: those of the terminal. Where there is none, and with `--wide`, they take what they need.
pub fn columns() -> Option<usize> {
    let size = if WIDE.load(Ordering::Relaxed) { None } else { console::Term::stdout().size_checked() };
    size.map(|(_, columns)| usize::from(columns))
}

/// How many columns of a terminal a text takes: colours take none, some letters two.
pub fn width(text: &str) -> usize {
    measure_text_width(text)
}

/// A line in pieces no wider than this, broken between words.
pub fn wrapped(line: &str, room: usize) -> Vec<String> {
    let line = line.trim_end();
    if width(line) <= room {
        return vec![line.to_owned()];
    }
    let (indent, words) = line.split_at(line.len() - line.trim_start().len());
    let (mut pieces, mut words) = (Vec::new(), words.split(' '));
    let mut piece = indent.to_owned() + words.next().unwrap_or_default();
    for word in words {
        if width(&piece) + 1 + width(word) > room {
            pieces.push(std::mem::take(&mut piece));
        } else {
            piece.push(' ');
        }
        piece.push_str(word);
    }
    pieces.push(piece);
    pieces
}

/// A text in so many columns of a terminal, with a mark where its end is left out.
pub fn cut(text: &str, columns: usize) -> String {
    truncate_str(text, columns, "…").into_owned()
}

/// A text in so many columns of a terminal, with a mark where its beginning is left out.
pub fn without_beginning(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let ends = text.char_indices().map(|(at, _)| &text[at..]);
    let end = ends.skip(1).find(|end| width(end) < columns);
    format!("…{}", end.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table<const N: usize>(headings: [&str; N], rows: &[[&str; N]]) -> Table {
        let mut table = Table::new(headings);
        rows.iter().for_each(|row| table.row(row.map(str::to_owned)));
        table
    }

    #[test]
    fn columns_line_up() {
        let table = table(["turn", "tokens", "what"], &[["main.1", "7", "ä"], ["main.12", "12.3k", ""]]).right(1);
        assert_eq!(table.within(None), "turn     tokens  what\nmain.1        7  ä\nmain.12   12.3k");
    }

    #[test]
    fn empty_columns_are_left_out() {
        let table = table(["run", "test", "turns"], &[["r1", "", "12"]]).right(2);
        assert_eq!(table.without_empty().within(None), "run  turns\nr1      12");
    }

    #[test]
    fn colours_take_no_room() {
        let table = table(["standing", "age"], &[["\u{1b}[32mdone\u{1b}[0m", "3s"]]);
        assert_eq!(table.within(None), "standing  age\n\u{1b}[32mdone\u{1b}[0m      3s");
    }

    #[test]
    fn the_widest_text_is_cut_first() {
        let long = "a goal that goes on for longer than there is room for it";
        let table = table(["id", "goal", "why"], &[["x1", long, "a reason of some words"], ["x2", "short", ""]]);
        let table = table.text(1).text(2);
        assert_eq!(
            table.within(Some(50)),
            "id  goal                    why\n\
             x1  a goal that goes on f…  a reason of some words\n\
             x2  short"
        );
        assert!(table.within(None).contains(long), "what goes to no terminal is whole");
    }

    #[test]
    fn what_matters_least_is_left_out_first() {
        let row = ["abcdefgh", "Fix the failing test of the checkout", "done", "12.3k", "7", "pleach/fix/abcdefgh"];
        let headings = ["session", "goal", "standing", "tokens", "turns", "branch"];
        let table = table(headings, &[row]).text(1).less([4, 3]).only_whole(5);
        let headings = |room| table.within(room).lines().next().unwrap_or_default().to_owned();
        let goal = "session   goal                                  standing";
        assert_eq!(headings(None), format!("{goal}  tokens  turns  branch"));
        assert_eq!(headings(Some(200)), format!("{goal}  tokens  turns"));
        assert_eq!(headings(Some(70)), format!("{goal}  tokens"));
        assert_eq!(headings(Some(60)), goal);
        assert_eq!(table.within(Some(31)), "session   goal         standing\nabcdefgh  Fix the fa…  done");
    }

    #[test]
    fn wide_letters_take_two_columns() {
        let table = table(["name", "age"], &[["日本語のあいさつ", "3s"], ["🌳🌳", "4s"]]).text(0);
        assert_eq!(table.within(None), "name              age\n日本語のあいさつ  3s\n🌳🌳              4s");
        assert_eq!(table.within(Some(16)), "name         age\n日本語のあ…  3s\n🌳🌳         4s");
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("  one two three", 9), ["  one two", "three"]);
        assert_eq!(wrapped("  a  b ", usize::MAX), ["  a  b"]);
        assert_eq!(wrapped("immeasurable", 5), ["immeasurable"]);
    }

    #[test]
    fn paths_lose_their_beginning() {
        let table = table(["owner", "path"], &[["main", "/home/ada/worktrees/abcdefgh/main"]]).path(1);
        assert_eq!(table.within(Some(31)), "owner  path\nmain   …worktrees/abcdefgh/main");
    }

    #[test]
    fn no_table_is_wider_than_its_terminal() {
        let word = "x".repeat(60);
        let table = table(["a", "b", "c"], &[[&word, &word, &word]]).text(1).less([2]);
        for room in 40..200 {
            let wide = table.within(Some(room)).lines().map(width).max();
            assert!(wide <= Some(room), "{room}: {wide:?}");
        }
    }
}
