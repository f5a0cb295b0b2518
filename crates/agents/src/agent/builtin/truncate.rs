//! What a tool says is cut to what a model can use: characters first, then lines.

/// Which part of a long text stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeptPart {
    /// The beginning and the end.
    HeadTail,
    /// The end.
    Tail,
}

/// How much of a tool's output the model sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bound {
    chars: usize,
    keep: KeptPart,
    lines: Option<usize>,
}

fn bound(tool: &str) -> Bound {
    let (chars, keep, lines) = match tool {
        "read_file" => (50_000, KeptPart::HeadTail, None),
        "shell" => (30_000, KeptPart::HeadTail, Some(256)),
        "grep" => (20_000, KeptPart::Tail, Some(200)),
        "glob" => (20_000, KeptPart::Tail, Some(500)),
        "edit_file" => (10_000, KeptPart::Tail, None),
        "write_file" => (1_000, KeptPart::Tail, None),
        _ => (10_000, KeptPart::HeadTail, Some(256)),
    };
    Bound { chars, keep, lines }
}

/// Cuts a tool's output to the tool's limits. A note stands where something is missing.
pub(in crate::agent) fn truncate(tool: &str, text: String) -> String {
    let Bound { chars, keep, lines } = bound(tool);
    let text = cut_chars(text, chars, keep);
    match lines {
        Some(lines) => cut_lines(text, lines),
        None => text,
    }
}

fn cut_chars(text: String, limit: usize, keep: KeptPart) -> String {
    // Bytes are never fewer than characters, so most texts need no count.
    if text.len() <= limit {
        return text;
    }
    let count = text.chars().count();
    if count <= limit {
        return text;
    }
    let removed = count - limit;
    let at = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    match keep {
        KeptPart::HeadTail => {
            let head = limit / 2;
            let (head, tail) = (&text[..at(head)], &text[at(head + removed)..]);
            format!("{head}\n\n{}\n\n{tail}", marker(&format!("{removed} characters in the middle are missing.")))
        }
        KeptPart::Tail => {
            let tail = &text[at(removed)..];
            format!("{}\n\n{tail}", marker(&format!("The first {removed} characters are missing.")))
        }
    }
}

fn cut_lines(text: String, limit: usize) -> String {
    let lines: Vec<&str> = text.split('\n').collect();
    if lines.len() <= limit {
        return text;
    }
    let head = limit / 2;
    let removed = lines.len() - limit;
    let note = marker(&format!("{removed} lines in the middle are missing."));
    format!("{}\n\n{note}\n\n{}", lines[..head].join("\n"), lines[head + removed..].join("\n"))
}

fn marker(what: &str) -> String {
    format!("[WARNING: Tool output was truncated. {what} Ask for less at a time to see them.]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_stays_as_it_is() {
        for (tool, chars) in [("read_file", 50_000), ("shell", 30_000), ("edit_file", 10_000), ("write_file", 1_000)] {
            let text = "\u{e4}".repeat(chars);
            assert_eq!(truncate(tool, text.clone()), text, "{tool}");
            assert!(truncate(tool, text + "x").contains("[WARNING: Tool output was truncated."), "{tool}");
        }
    }

    #[test]
    fn characters_are_cut_in_the_middle_or_at_the_front() {
        let text = format!("A{}Z", "m".repeat(60_000));
        let cut = truncate("read_file", text);
        assert!(cut.starts_with("Am") && cut.ends_with("mZ"), "both ends stay");
        assert!(cut.contains("10002 characters in the middle are missing."), "{}", &cut[24_990..25_200]);
        let cut = truncate("grep", format!("A{}Z", "m".repeat(30_000)));
        assert!(cut.starts_with("[WARNING: Tool output was truncated. The first 10002 characters are missing."));
        assert!(cut.ends_with("mZ"));
    }

    #[test]
    fn lines_are_cut_after_characters() {
        let text: String = (1..=1000).map(|n| format!("line {n}\n")).collect();
        let cut = truncate("shell", text);
        assert!(cut.starts_with("line 1\n") && cut.ends_with("line 1000\n"));
        assert!(cut.contains("line 128\n\n[WARNING: Tool output was truncated. 745 lines in the middle are missing."));
        assert!(!cut.contains("line 129\n"));
        // 300 lines of 200 characters: too many characters and, after that cut, still too many lines for grep.
        let wide: String = (0..300).map(|n| format!("{n:0>60}\n")).collect();
        let cut = truncate("grep", wide);
        assert!(cut.contains("lines in the middle are missing"));
    }
}
