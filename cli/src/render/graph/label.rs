//! Text in a picture: how wide it is, where its lines break, and how XML wants it.

use crate::render::graph::geometry::Size;

/// The height of a line, as a multiple of the font's size.
const LEADING: f64 = 1.3;

/// Lines of one size, set around a common middle.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Label {
    /// The lines, none of them empty.
    pub lines: Vec<String>,
    /// The size of the font in pixels.
    pub font: f64,
}

impl Label {
    /// Breaks `text` into at most `most` lines of about `columns` characters; what does not fit is cut off.
    pub fn new(text: &str, font: f64, columns: f64, most: usize) -> Self {
        Self { lines: wrap(text, columns, most), font }
    }

    /// The room the lines need.
    pub fn size(&self) -> Size {
        let widest = self.lines.iter().map(|line| columns(line)).fold(0.0, f64::max);
        Size { width: widest * AVERAGE * self.font, height: self.lines.len() as f64 * self.line_height() }
    }

    /// From one line to the next.
    pub fn line_height(&self) -> f64 {
        self.font * LEADING
    }
}

/// The width of an average character, as a multiple of the font's size. Generous, because the viewer's font is unknown.
const AVERAGE: f64 = 0.6;

/// How many average characters `text` is wide.
fn columns(text: &str) -> f64 {
    text.chars().map(column).sum()
}

fn column(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '\'' | '|' | '.' | ',' | ':' | ';' | '!' | 'I' => 0.55,
        'f' | 't' | 'r' | ' ' | '(' | ')' | '[' | ']' | '-' | '/' | '\\' | '"' => 0.68,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 1.6,
        '_' | '=' | '+' | '<' | '>' | '~' | '#' | '&' | '→' => 1.35,
        'A'..='Z' => 1.2,
        // Marks that sit on the letter before them, and joiners.
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}' => 0.0,
        // Scripts and symbols that take a full square.
        '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' => 1.75,
        '\u{ff00}'..='\u{ff60}' | '\u{1f300}'..='\u{1faff}' | '\u{20000}'..='\u{3fffd}' => 1.75,
        _ => 1.05,
    }
}

fn wrap(text: &str, width: f64, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let mut used = 0.0;
    // Enough to fill the lines; the rest of a very long text is not even looked at.
    let mut cut = false;
    for word in text.split_whitespace() {
        let wide = columns(word);
        if !line.is_empty() && used + column(' ') + wide <= width {
            line.push(' ');
            line.push_str(word);
            used += column(' ') + wide;
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
            used = 0.0;
        }
        for piece in pieces(word) {
            // A piece that fits on a line of its own is not broken.
            let wide = columns(piece);
            if used > 0.0 && used + wide > width && wide <= width {
                lines.push(std::mem::take(&mut line));
                used = 0.0;
            }
            for c in piece.chars() {
                if used + column(c) > width && !line.is_empty() {
                    lines.push(std::mem::take(&mut line));
                    used = 0.0;
                    if lines.len() > most {
                        break;
                    }
                }
                line.push(c);
                used += column(c);
            }
            if lines.len() > most {
                break;
            }
        }
        if lines.len() > most {
            cut = true;
            break;
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    if lines.len() > most || cut {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            last.push('…');
        }
    }
    lines
}

/// The parts of a word, each with the mark it ends with: `context.tests=passed` is three.
fn pieces(word: &str) -> impl Iterator<Item = &str> {
    word.split_inclusive(['=', '.', ',', ':', ';', '/', '_', '-', '&', '|', '<', '>'])
}

/// The text as XML character data, also inside an attribute.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrap("plan the whole work", 11.5, 9), ["plan the", "whole work"]);
        assert_eq!(wrap("", 10.0, 9), Vec::<String>::new());
    }

    #[test]
    fn a_condition_longer_than_a_line_breaks_at_its_words() {
        assert_eq!(
            wrap("when context.human.gate.label=Approve_it", 16.0, 9),
            ["when", "context.human.", "gate.label=", "Approve_it"]
        );
    }

    #[test]
    fn a_word_longer_than_a_line_breaks_between_characters() {
        assert_eq!(wrap("ab ööööööö", 4.3, 9), ["ab", "öööö", "ööö"]);
    }

    #[test]
    fn what_does_not_fit_is_cut() {
        assert_eq!(wrap("a b c d e f", 1.0, 3), ["a", "b", "c…"]);
        let long = wrap(&"word ".repeat(10_000), 20.0, 4);
        assert_eq!(long.len(), 4);
        assert!(long[3].ends_with('…'));
        assert_eq!(wrap(&"x".repeat(10_000), 20.0, 2).len(), 2);
    }

    #[test]
    fn wide_scripts_need_more_room() {
        let size = |text| Label::new(text, 10.0, 90.0, 1).size().width;
        assert!(size("計画を実行する") > size("planning"));
        assert!(size("MMMM") > size("iiii"));
    }

    #[test]
    fn markup_is_only_text() {
        assert_eq!(escape("<a b=\"c\">&'ü"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;ü");
    }
}
