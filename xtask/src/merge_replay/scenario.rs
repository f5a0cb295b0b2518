//! What both sides of a generated merge do to the files of a small program, and what whoever merged them made of it.

use std::collections::BTreeMap;

use git::EntryKind;

use super::random::Random;

/// Paths, and what is there.
pub type SideFiles = BTreeMap<String, (EntryKind, Vec<u8>)>;

/// Base, ours, theirs and the merge commit.
type Sides = [SideFiles; 4];

const LINES: usize = 40;

/// Files no merge is about.
const OTHERS: usize = 6;

/// A text of distinct lines, with some others in place.
fn text(name: &str, changed: &[(usize, String)]) -> Vec<u8> {
    let changed: BTreeMap<usize, &String> = changed.iter().map(|(line, text)| (*line, text)).collect();
    let line = |line: usize| match changed.get(&line) {
        Some(text) => format!("{text}\n"),
        None if line % 9 == 8 => "}\n".to_owned(),
        None => format!("    {name}_{line}(value);\n"),
    };
    (0..LINES).map(line).collect::<String>().into_bytes()
}

fn file(content: impl Into<Vec<u8>>) -> (EntryKind, Vec<u8>) {
    (EntryKind::File, content.into())
}

/// The same on all sides, to begin with.
fn sides() -> Sides {
    let name = |number: usize| (format!("src/other{number}.rs"), file(text(&format!("other{number}"), &[])));
    let files: SideFiles = (0..OTHERS).map(name).collect();
    [files.clone(), files.clone(), files.clone(), files]
}

/// Puts a file on every side that has one.
fn put(sides: &mut Sides, path: &str, files: [Option<(EntryKind, Vec<u8>)>; 4]) {
    for (side, file) in sides.iter_mut().zip(files) {
        side.extend(file.map(|file| (path.to_owned(), file)));
    }
}

/// Each side changes something of its own, so that there is more to lose than what is in conflict.
fn beside(random: &mut Random, sides: &mut Sides) {
    let [one, other] = [random.below(OTHERS), random.below(OTHERS)];
    let line = 3 + random.below(12);
    let place = |number: usize| format!("src/other{number}.rs");
    let name = |number: usize| format!("other{number}");
    let ours = vec![(line, "    // the target".to_owned())];
    let theirs = vec![(line + 20, "    // the branch".to_owned())];
    let both: Vec<(usize, String)> = ours.iter().chain(&theirs).cloned().collect();
    sides[1].insert(place(one), file(text(&name(one), &ours)));
    sides[2].insert(place(other), file(text(&name(other), &theirs)));
    if one == other {
        sides[3].insert(place(one), file(text(&name(one), &both)));
    } else {
        sides[3].insert(place(one), file(text(&name(one), &ours)));
        sides[3].insert(place(other), file(text(&name(other), &theirs)));
    }
}

/// Both change files, and nothing is in conflict. `is_changed`: the merge commit has more than both.
pub fn clean(random: &mut Random, number: usize, is_changed: bool) -> Sides {
    let mut sides = sides();
    beside(random, &mut sides);
    if is_changed {
        sides[3].insert(format!("fix{number}.txt"), file("needed by both\n"));
    }
    sides
}

/// A conflict; the kinds follow each other, the more frequent ones more often.
pub fn conflicting(random: &mut Random, number: usize) -> Sides {
    let mut sides = sides();
    beside(random, &mut sides);
    let into = &mut sides;
    match number % 20 {
        0 => lines(random, number, into, Choice::Ours),
        1 | 11 => words(random, number, into),
        2 => lines(random, number, into, Choice::Theirs),
        3 | 10 | 14 => repeated(random, into),
        4 => lines(random, number, into, Choice::Both),
        5 => add_add(number, into),
        6 => modify_delete(number, into),
        7 => lines(random, number, into, Choice::New),
        8 => rename_rename(number, into),
        9 => derived(number, into),
        12 => renamed_words(random, number, into),
        13 => rename_delete(number, into),
        15 => directory_rename(number, into),
        16 => file_directory(number, into),
        17 => binary(number, into),
        18 => submodule(number, into),
        _ => mode(number, into),
    }
    sides
}

/// What whoever merged them took.
enum Choice {
    Ours,
    Theirs,
    Both,
    New,
}

fn lines(random: &mut Random, number: usize, sides: &mut Sides, choice: Choice) {
    let line = 5 + random.below(25);
    let [ours, theirs] = ["target", "branch"].map(|side| format!("    limit = {side}_{number};"));
    let taken = match choice {
        Choice::Ours => ours.clone(),
        Choice::Theirs => theirs.clone(),
        Choice::Both => format!("{ours}\n{theirs}"),
        Choice::New => format!("    limit = merged_{number}(now);"),
    };
    let changed = [None, Some(ours), Some(theirs), Some(taken)];
    let texts = changed
        .map(|changed| Some(file(text("lines", &changed.map(|text| (line, text)).into_iter().collect::<Vec<_>>()))));
    put(sides, &format!("src/lines{}.rs", number % 7), texts);
}

/// Two changes to one line that do not touch. Whoever merged them did not always leave it at that.
fn words(random: &mut Random, number: usize, sides: &mut Sides) {
    let (at, word) = (5 + random.below(25), random.below(100));
    let line = |call: &str, last: &str| {
        Some(file(text("words", &[(at, format!("    let x = {call}(first, second{last});"))])))
    };
    let (call, last) = (format!("call_{word}"), format!(", third_{number}"));
    let merged = |text: String| Some(file(text));
    let both = line(&call, &last).map(|(_, text)| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default();
    let committed = match random.below(8) {
        0 => merged(both.replace("first, second", "first,  second")),
        1 => merged(both.lines().rev().map(|line| format!("{line}\n")).collect()),
        2 => merged(both.replace("let x", "let merged")),
        _ => merged(both),
    };
    put(sides, "src/words.rs", [line("call", ""), line(&call, ""), line("call", &last), committed]);
}

/// A conflict of a few that come again and again, as version numbers do. Mostly the same is chosen again.
fn repeated(random: &mut Random, sides: &mut Sides) {
    let version = random.below(6);
    let last = if random.below(20) == 0 { 8 } else { 9 };
    let line = |number: String| Some(file(text("version", &[(4, format!("version = \"{number}\""))])));
    let merged = line(format!("1.{version}.{last}"));
    let [base, ours, theirs] = ["0", "1", "2"].map(|last| line(format!("1.{version}.{last}")));
    put(sides, "version.toml", [base, ours, theirs, merged]);
}

fn renamed_words(random: &mut Random, number: usize, sides: &mut Sides) {
    let at = 5 + random.below(25);
    let line = |call: &str, last: &str| file(text("moved", &[(at, format!("    {call}(first{last});"))]));
    let (old, new) = (format!("old{number}.rs"), format!("new{number}.rs"));
    put(sides, &old, [Some(line("call", "")), None, Some(line("call", ", second")), None]);
    put(sides, &new, [None, Some(line("invoke", "")), None, Some(line("invoke", ", second"))]);
}

fn add_add(number: usize, sides: &mut Sides) {
    let path = format!("added{number}.rs");
    let [ours, theirs] = ["target", "branch"].map(|side| format!("fn added_by_{side}() {{}}\n"));
    put(sides, &path, [None, Some(file(ours.clone())), Some(file(theirs.clone())), Some(file(ours + &theirs))]);
}

fn modify_delete(number: usize, sides: &mut Sides) {
    let changed = file(text("gone", &[(9, "    changed();".to_owned())]));
    let kept = (number % 40 == 6).then(|| changed.clone());
    put(sides, &format!("gone{number}.rs"), [Some(file(text("gone", &[]))), Some(changed), None, kept]);
}

fn rename_rename(number: usize, sides: &mut Sides) {
    let content = || Some(file(text("named", &[])));
    put(sides, &format!("named{number}.rs"), [content(), None, None, None]);
    put(sides, &format!("target{number}.rs"), [None, content(), None, content()]);
    put(sides, &format!("branch{number}.rs"), [None, None, content(), None]);
}

fn rename_delete(number: usize, sides: &mut Sides) {
    let content = || Some(file(text("left", &[])));
    put(sides, &format!("left{number}.rs"), [content(), None, None, None]);
    put(sides, &format!("right{number}.rs"), [None, content(), None, content()]);
}

/// Both change a file that a command makes; whoever merged them ran it.
fn derived(number: usize, sides: &mut Sides) {
    let texts = ["base", "target", "branch", "both"].map(|side| Some(file(format!("# made for {side} {number}\n"))));
    put(sides, "made.lock", texts);
}

fn directory_rename(number: usize, sides: &mut Sides) {
    let (old, new) = (format!("old{number}"), format!("new{number}"));
    for name in ["a.rs", "b.rs"] {
        let content = || Some(file(text(&format!("{name}{number}"), &[])));
        put(sides, &format!("{old}/{name}"), [content(), None, content(), None]);
        put(sides, &format!("{new}/{name}"), [None, content(), None, content()]);
    }
    let added = || Some(file(format!("fn added_{number}() {{}}\n")));
    put(sides, &format!("{old}/c.rs"), [None, None, added(), None]);
    put(sides, &format!("{new}/c.rs"), [None, None, None, added()]);
}

fn file_directory(number: usize, sides: &mut Sides) {
    let path = format!("place{number}");
    let [ours, theirs] = ["a file\n", "in a directory\n"].map(|text| Some(file(text)));
    put(sides, &path, [None, ours.clone(), None, None]);
    put(sides, &format!("{path}/mod.rs"), [None, None, theirs.clone(), theirs]);
    put(sides, &format!("{path}.rs"), [None, None, None, ours]);
}

fn binary(number: usize, sides: &mut Sides) {
    let image = |side: &str| Some(file([&b"\x89PNG\0"[..], format!("{side} {number}").as_bytes()].concat()));
    put(sides, "picture.png", [image("base"), image("target"), image("branch"), image("branch")]);
}

fn submodule(number: usize, sides: &mut Sides) {
    let commit =
        |side: u8| Some((EntryKind::Submodule, vec![side + 4 * u8::try_from(number % 32).unwrap_or_default(); 20]));
    put(sides, "module", [commit(1), commit(2), commit(3), commit(3)]);
}

fn mode(number: usize, sides: &mut Sides) {
    let path = format!("kind{number}");
    let changed = Some(file(text("kind", &[(9, "    changed();".to_owned())])));
    let link = Some((EntryKind::Link, b"src/other0.rs".to_vec()));
    put(sides, &path, [Some(file(text("kind", &[]))), link, changed.clone(), changed]);
}
