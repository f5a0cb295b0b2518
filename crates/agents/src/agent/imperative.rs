//! Words of an agent as orders, the way commits begin: `I've added X` is `Add X`.

/// What people put before the verb.
const LEAD_INS: &[&str] = &[
    "ok",
    "okay",
    "sure",
    "great",
    "perfect",
    "alright",
    "good",
    "yes",
    "done",
    "now",
    "next",
    "first",
    "second",
    "then",
    "finally",
    "also",
    "so",
    "and",
    "please",
    "here",
    "let me",
    "let us",
    "let's",
    "i'll",
    "i will",
    "i'm",
    "i am",
    "i've",
    "i have",
    "i",
    "we'll",
    "we will",
    "we're",
    "we are",
    "we've",
    "we have",
    "we",
    "going to",
    "about to",
    "need to",
    "want to",
    "have to",
    "just",
    "start by",
    "begin by",
    "starting by",
    "successfully",
    "the task is to",
    "my plan is to",
    "the plan is to",
];

/// A sentence as an order, `I'll add X` as `Add X`; none when it does not say what is done.
pub(super) fn imperative(sentence: &str) -> Option<String> {
    let mut rest = sentence.trim().trim_end_matches(['.', '!', '?', ':', ';', ',', ' ']);
    while let Some(after) = LEAD_INS.iter().find_map(|lead_in| after_words(rest, lead_in)) {
        rest = after;
    }
    let end = rest.find(|c: char| !c.is_alphabetic() && c != '-').unwrap_or(rest.len());
    let (word, tail) = rest.split_at(end);
    if !(tail.starts_with(' ') && tail.len() > 1) {
        return None;
    }
    let verb = base_form(&word.to_lowercase())?;
    let (first, others) = verb.split_at(1);
    Some(format!("{}{others}{tail}", first.to_ascii_uppercase()))
}

/// Whether a sentence begins like an order: no verb in another form than its own, nobody who speaks.
pub(super) fn is_imperative(subject: &str) -> bool {
    let is_letter = |c: char| c.is_alphabetic() || matches!(c, '-' | '\'');
    let (word, rest) = subject.split_at(subject.find(|c| !is_letter(c)).unwrap_or(subject.len()));
    if word.is_empty() || !rest.starts_with(' ') {
        return false;
    }
    let word = word.to_lowercase();
    match base_form(&word) {
        Some(verb) => verb == word,
        None => {
            let other = ["i", "we", "it", "this", "the", "a", "an", "i'll", "i've", "now", "here"];
            let form = word.len() > 5 && (word.ends_with("ing") || word.ends_with("ed"));
            !other.contains(&word.as_str()) && !form
        }
    }
}

/// What follows `words` at the start of `text`, past commas and the like.
fn after_words<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    let start = text.get(..words.len())?;
    let rest = &text[words.len()..];
    let ends = rest.starts_with(|c: char| !c.is_alphanumeric() && c != '\'' && c != '-' && c != '_');
    (start.eq_ignore_ascii_case(words) && ends)
        .then(|| rest.trim_start_matches([' ', ',', ':', '.', '!', ';', '\u{2014}']))
}

/// Verbs commits start with; `!` after those that double their last letter.
const VERBS: &str = "add adjust align allow answer append apply ask assert avoid bump cache change check clarify clean collect combine compute \
    configure connect convert copy correct count cover create declare define delete describe detect disable document drop! \
    edit enable ensure escape expand explain export expose extend extract fix format generate guard handle implement \
    import improve include initialize insert inspect install integrate introduce join limit link list load log! lower \
    map! mark measure mend merge migrate mock move normalize note open parse pass patch polish port prepare prevent print process provide \
    publish raise record reduce refactor refine register remove rename reorder repair replace report require resolve restore \
    return reuse revert review round save scaffold search serialize show simplify skip! sort specify start stop! store \
    strip! support swap! switch tag! test tidy tighten trim! try tune turn update upgrade use validate verify wire wrap!";

/// Verbs with forms of their own.
const IRREGULAR: &[(&str, &[&str])] = &[
    ("write", &["writes", "wrote", "written", "writing"]),
    ("rewrite", &["rewrites", "rewrote", "rewritten", "rewriting"]),
    ("make", &["makes", "made", "making"]),
    ("build", &["builds", "built", "building"]),
    ("set", &["sets", "setting"]),
    ("run", &["runs", "ran", "running"]),
    ("put", &["puts", "putting"]),
    ("cut", &["cuts", "cutting"]),
    ("split", &["splits", "splitting"]),
    ("keep", &["keeps", "kept", "keeping"]),
    ("bring", &["brings", "brought", "bringing"]),
    ("read", &["reads", "reading"]),
    ("hide", &["hides", "hid", "hidden", "hiding"]),
    ("find", &["finds", "found", "finding"]),
    ("show", &["shows", "showed", "shown", "showing"]),
    ("undo", &["undoes", "undid", "undone", "undoing"]),
    ("throw", &["throws", "threw", "thrown", "throwing"]),
    ("give", &["gives", "gave", "given", "giving"]),
    ("let", &["lets", "letting"]),
];

/// `added`, `adds`, `adding` and `add` as `add`.
fn base_form(word: &str) -> Option<&'static str> {
    for (base, forms) in IRREGULAR {
        if *base == word || forms.contains(&word) {
            return Some(base);
        }
    }
    VERBS.split_whitespace().find_map(|verb| {
        let doubles = verb.ends_with('!');
        let verb = verb.trim_end_matches('!');
        is_form_of(word, verb, doubles).then_some(verb)
    })
}

fn is_form_of(word: &str, verb: &str, doubles: bool) -> bool {
    let Some(ending) = word.strip_prefix(verb) else {
        // The last letter changes: `used` keeps it, `using` and `copied` do not.
        let (stem, last) = verb.split_at(verb.len() - 1);
        return match word.strip_prefix(stem) {
            Some(ending) => (last == "e" && ending == "ing") || (last == "y" && matches!(ending, "ied" | "ies")),
            None => false,
        };
    };
    let bare = if doubles { ending.strip_prefix(&verb[verb.len() - 1..]).unwrap_or(ending) } else { ending };
    matches!(ending, "" | "s" | "es") || matches!(bare, "ed" | "ing") || (verb.ends_with('e') && ending == "d")
}
