//! What someone probably meant.

/// The candidate most like `text`, if one is like it at all.
pub fn closest<'c>(text: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let most = (text.chars().count() / 3).clamp(1, 3);
    let near = candidates.into_iter().map(|candidate| (distance(text, candidate), candidate));
    near.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// How many letters must be changed, added, dropped or swapped with their neighbour to get from one text to the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().take(64).collect(), to.chars().take(64).collect());
    // Row i, column j: the distance between the first i and the first j letters.
    let mut rows: Vec<Vec<usize>> = (0..=from.len()).map(|i| (i..=i + to.len()).collect()).collect();
    for i in 1..=from.len() {
        for j in 1..=to.len() {
            let change = usize::from(from[i - 1] != to[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[from.len()][to.len()]
}
