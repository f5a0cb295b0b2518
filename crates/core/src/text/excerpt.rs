//! An excerpt of a long text: its beginning and its end.

use super::counted;

/// How many lines of the beginning are shown.
const HEAD_LINES: usize = 10;

/// The first lines of a text and as much of its end as fits.
pub fn of(text: &str, chars: usize) -> String {
    let lines: usize = text.split_inclusive('\n').take(HEAD_LINES).map(|line| line.chars().count()).sum();
    let head = lines.min(chars / 4);
    cut(text, head, chars - head).0
}

/// The excerpts of several texts that share so many characters. What a short one leaves goes to the long ones: none crowds
/// out another.
pub fn of_each(texts: &[&str], chars: usize) -> Vec<String> {
    let lengths: Vec<usize> = texts.iter().map(|text| text.chars().count()).collect();
    let mut shortest_first: Vec<usize> = (0..texts.len()).collect();
    shortest_first.sort_by_key(|index| lengths[*index]);
    let mut shares = vec![0; texts.len()];
    let mut room = chars;
    for (done, index) in shortest_first.into_iter().enumerate() {
        shares[index] = lengths[index].min(room / (texts.len() - done));
        room -= shares[index];
    }
    texts.iter().zip(shares).map(|(text, share)| of(text, share)).collect()
}

/// The first and the last characters of a text, with a mark between them, and whether something is left out.
pub fn cut(text: &str, head: usize, tail: usize) -> (String, bool) {
    let all = text.chars().count();
    if all <= head + tail {
        return (text.to_owned(), false);
    }
    let at = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    let (first, last) = (&text[..at(head)], &text[at(all - tail)..]);
    let left_out = text[first.len()..text.len() - last.len()].lines().count();
    let mark = match left_out {
        0 | 1 => format!("[… {} left out …]", counted(all - head - tail, "character")),
        lines => format!("[… {} left out …]", counted(lines, "line")),
    };
    (format!("{}\n{mark}\n{}", first.trim_end_matches('\n'), last.trim_start_matches('\n')), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_leaves_room_for_the_others() {
        let long = "noise\n".repeat(1_000);
        let shown = of_each(&[&long, "short\n", &long], 1_000);
        assert_eq!(shown[1], "short\n");
        assert_eq!(shown[0], shown[2]);
        assert!(
            shown[0].starts_with("noise\n") && shown[0].ends_with("noise\n") && shown[0].contains(" lines left out")
        );
        assert!((480..560).contains(&shown[0].chars().count()), "{}", shown[0].len());
        assert_eq!(of_each(&["a", "b"], 2), ["a", "b"]);
    }
}
