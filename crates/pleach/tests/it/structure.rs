//! What ARCHITECTURE.md promises about the shape of the code, held by tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::repository::{code, files, quoted, read, root, sources, test_names};

/// The crates, each with its modules. A crate sees those before it, a module those before it in its crate: what comes before
/// `clock` is pure and knows only values.
const ORDER: [(&str, &[&str]); 6] = [
    (
        "core",
        &[
            "text", "ids", "redact", "config", "plan", "event", "trailer", "step", "budget", "state", "progress",
            "schedule", "merge", "queue", "route", "clock",
        ],
    ),
    ("os", &["deadline", "confined_fs", "plain_file", "process"]),
    ("git", &["git", "record", "workspace"]),
    ("agents", &["llm", "gateway", "agent"]),
    (
        "engine",
        &["trust", "mirror", "merging", "env", "push", "view", "keep", "session", "landing", "tree", "retention"],
    ),
    ("history", &["compare", "why", "journal", "export", "notes"]),
];

/// Where the code of the library is.
fn library() -> impl Iterator<Item = String> {
    ORDER.iter().flat_map(|(name, _)| sources(&format!("crates/{name}/src")))
}

fn modules() -> impl Iterator<Item = (&'static str, &'static str)> {
    ORDER.iter().flat_map(|(name, modules)| modules.iter().map(move |module| (*name, *module)))
}

/// The first sentence of a module's page.
fn purpose(name: &str, module: &str) -> String {
    let place = ["/mod.rs", ".rs"].map(|end| format!("crates/{name}/src/{module}{end}"));
    let place = place.iter().find(|place| root().join(place).exists()).expect("a module has a file");
    let page = read(place);
    let lines = page.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    let first = lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    first.split_inclusive(". ").next().unwrap_or_default().trim_end_matches(['.', ' ']).to_owned()
}

#[test]
fn the_map_has_the_modules_in_their_order() {
    let rows = modules().map(|(name, module)| format!("| {name} | `{module}` | {} |", purpose(name, module)));
    let table = format!("| crate | module | what it is |\n|---|---|---|\n{}\n", rows.collect::<Vec<_>>().join("\n"));
    assert!(read("ARCHITECTURE.md").contains(&table), "ARCHITECTURE.md lacks this table:\n{table}");
    let there = library().map(|path| place_of(&path)).filter(|(_, module)| module != "lib").collect::<BTreeSet<_>>();
    let known = modules().map(|(name, module)| (name.to_owned(), module.to_owned())).collect();
    assert_eq!(there, known, "the order in {} and the modules of the library", file!());
}

/// A crate is built without what it does not name: `core` without git, network and processes.
#[test]
fn the_crates_depend_on_what_is_listed() {
    let dependencies = |name: &str| {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let parts =
            manifest.split("\n[").filter(|part| part.split(']').next().is_some_and(|of| of.ends_with("dependencies")));
        let parts = parts.filter(|part| !part.starts_with("dev-"));
        let names =
            parts.flat_map(|part| part.lines().skip(1)).filter(|line| !line.is_empty() && !line.starts_with('#'));
        names.filter_map(|line| line.split([' ', '.', '=']).next()).collect::<Vec<_>>().join(" ")
    };
    let names = ORDER.iter().map(|(name, _)| *name).chain(["pleach"]);
    let listed: Vec<String> = names.map(|name| format!("{name}: {}", dependencies(name))).collect();
    insta::assert_snapshot!(listed.join("\n"), @r"
    core: base64 fastrand gix-imara-diff ignore jiff regex serde serde-saphyr serde_json strsim thiserror
    os: close_fds fastrand pleach-core rustix thiserror tokio landlock seccompiler libc
    git: crc32fast fastrand filetime getrandom gix ignore jiff os pleach-core rustix serde serde_json thiserror zlib-rs
    agents: base64 bytes fastrand globset http-body-util hyper hyper-util ignore jiff os pleach-core regex rustls-native-certs ruzstd serde serde-saphyr serde_json thiserror tokio tokio-rustls zlib-rs
    engine: agents blake3 fastrand git jiff os pleach-core postcard rmp-serde rustix serde serde_json thiserror tokio
    history: agents engine git jiff os pleach-core regex ring serde serde_json thiserror
    pleach: agents engine git os pleach-core
    ");
}

#[test]
fn imports_point_one_way() {
    let mut wrong = Vec::new();
    for path in library() {
        let (name, module) = place_of(&path);
        let (_, order) = ORDER.iter().find(|(of, _)| *of == name).expect("a crate of the list");
        let rank = |module: &str| order.iter().position(|of| *of == module);
        let text = read(&path);
        let own = rank(&module).unwrap_or(order.len());
        for name in imported(&text) {
            match rank(&name) {
                Some(other) if other <= own => {}
                Some(_) => wrong.push(format!("{path}: `{module}` imports `{name}`, which comes after it")),
                None => wrong.push(format!("{path}: `crate::{name}` is no module")),
            }
        }
        if text.lines().any(|line| code(line).contains("super::super::")) {
            wrong.push(format!("{path}: write `crate::` instead of climbing"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `crates/core/src/plan/dot/mod.rs` belongs to `plan` of `core`.
fn place_of(path: &str) -> (String, String) {
    let mut parts = path.trim_start_matches("crates/").split('/');
    let name = parts.next().unwrap_or_default().to_owned();
    (name, parts.nth(1).unwrap_or_default().trim_end_matches(".rs").to_owned())
}

/// The modules a file names through `crate::`, also as `crate::{a, b::{c, d}}`.
fn imported(text: &str) -> BTreeSet<String> {
    let text: String = text.lines().map(|line| format!("{}\n", code(line))).collect();
    let mut names = BTreeSet::new();
    for rest in text.split("crate::").skip(1) {
        if !rest.starts_with('{') {
            names.extend(first_word(rest));
            continue;
        }
        let mut depth = 0;
        for (at, c) in rest.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            if depth == 1 && (c == '{' || c == ',') {
                names.extend(first_word(&rest[at + 1..]));
            }
        }
    }
    names
}

fn first_word(text: &str) -> Option<String> {
    let word: String = text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!word.is_empty()).then_some(word)
}

#[test]
fn imports_are_read_from_code_alone() {
    let names = |text| imported(text).into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(names("use crate::plan::{self, dot};"), "plan");
    assert_eq!(names("use crate::{\n    ids,\n    event::{Event, Usage},\n    state,\n};"), "event ids state");
    assert_eq!(names("    let x = crate::clock::now(); // crate::engine"), "clock");
    assert_eq!(names("/// see [`crate::engine`]"), "");
}

/// How often tests look into what the program says on standard error for something that is no code. It only goes down.
const LOOKED_INTO: usize = 241;

#[test]
fn tests_look_at_codes_and_facts() {
    let looks = |path: &String| read(path).matches("stderr.contains(").count();
    let all: usize = sources("cli/tests/it").iter().map(looks).sum();
    assert!(
        all <= LOOKED_INTO,
        "{all} instead of {LOOKED_INTO}: `fails_with`, `warns` and `naming` look at codes and facts"
    );
}

#[test]
fn the_library_never_prints() {
    let printing = ["println!", "eprintln!", "print!", "eprint!", "dbg!"];
    for path in library() {
        for line in read(&path).lines() {
            let found = printing.iter().find(|name| code(line).contains(**name));
            assert!(found.is_none(), "{path}: the library returns values and events, it does not print: {line}");
        }
    }
}

#[test]
fn standard_error_has_one_door() {
    let is_door = |path: &&String| *path == "cli/src/say.rs" || path.starts_with("cli/src/say/");
    for path in sources("cli/src").iter().filter(|path| !is_door(path)) {
        for line in read(path).lines() {
            let named = |at: usize| !line[..at].ends_with('_') && !line[at..].starts_with("stderr().is_terminal()");
            let writes = code(line).match_indices("stderr()").any(|(at, _)| named(at));
            assert!(!writes, "{path}: what goes to standard error goes through cli/src/say.rs: {line}");
        }
    }
}

#[test]
fn unsafe_code_is_forbidden_in_every_crate() {
    let crates = ORDER.iter().map(|(name, _)| *name).chain(["pleach"]).map(|name| format!("crates/{name}/src/lib.rs"));
    for path in crates.chain(["cli/src/main.rs", "xtask/src/main.rs"].map(str::to_owned)) {
        assert!(read(&path).contains("#![forbid(unsafe_code)]"), "{path}");
    }
}

#[test]
fn every_integration_test_is_compiled() {
    let crates = ORDER.iter().map(|(name, _)| *name).chain(["pleach"]).map(|name| format!("crates/{name}/tests/it"));
    for dir in crates.chain(["cli/tests/it".to_owned()]) {
        let main = read(&format!("{dir}/main.rs"));
        for path in sources(&dir) {
            let below = Path::new(&path).strip_prefix(&dir).expect("a path below the directory");
            let first = below.iter().next().and_then(|name| name.to_str()).expect("a UTF-8 name");
            let module = first.trim_end_matches(".rs");
            let declared = main.lines().any(|line| line.trim() == format!("mod {module};"));
            assert!(module == "main" || declared, "{path} is not declared in {dir}/main.rs, so it never runs");
        }
    }
}

#[test]
fn architecture_stays_short() {
    let page = read("ARCHITECTURE.md");
    let lines = page.lines().count();
    assert!(lines <= 180, "ARCHITECTURE.md has {lines} lines; a reader takes in 180");
    let long: Vec<&str> = page.lines().filter(|line| line.chars().count() > 160).collect();
    assert!(long.is_empty(), "ARCHITECTURE.md has lines of more than 160 characters: {long:#?}");
}

/// The tests a page names as `(held by ...)`.
fn held_by(page: &str) -> Vec<String> {
    let paragraph = page.replace('\n', " ");
    let claims = paragraph.split("(held by ").skip(1).map(|rest| rest.split(')').next().unwrap_or_default());
    claims
        .flat_map(|claim| {
            let names = quoted(claim);
            assert!(!names.is_empty(), "`held by` is followed by the name of a test: {claim}");
            names.into_iter().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn every_claim_names_tests_that_exist() {
    let tests = test_names();
    for (page, at_least) in [("ARCHITECTURE.md", 20), ("docs/security.md", 40)] {
        let named = held_by(&read(page));
        assert!(named.len() >= at_least, "{page} names {} tests: were claims lost?", named.len());
        let missing: Vec<&String> = named.iter().filter(|name| !tests.contains(*name)).collect();
        assert!(missing.is_empty(), "{page} names tests that do not exist: {missing:#?}");
    }
}

#[test]
fn architecture_names_only_files_that_exist() {
    let page = read("ARCHITECTURE.md");
    let paths = quoted(&page).into_iter().filter(|word| word.contains('/') && !word.contains(' '));
    let missing: Vec<&str> = paths.filter(|path| !root().join(path).exists()).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names files that do not exist: {missing:?}");
}

#[test]
fn the_readme_names_the_test_command_ci_runs() {
    let command = "cargo test --workspace";
    for path in ["README.md", ".ci/run"] {
        assert!(read(path).lines().any(|line| line.trim() == command), "{path} does not hold the line `{command}`");
    }
}

#[test]
fn no_file_names_a_path_of_somebodys_machine() {
    // Put together here, so that this file does not find itself.
    let homes = [["/wo", "rk/"].concat(), ["/ro", "ot/"].concat()];
    for path in files("") {
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else { continue };
        for line in text.lines() {
            for home in &homes {
                let absolute = line
                    .match_indices(home.as_str())
                    .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}]~*".contains(c)));
                assert!(!absolute, "{path} names a path of one machine: {line}");
            }
        }
    }
}

/// What is counted in messages.
const COUNTED: &str = "files turns sessions lines tasks commits repositories branches nodes entries attempts times \
    approvals errors steps tests things records agents worktrees phases visits events questions warnings choices";

/// Whether a line has one of these words, as a whole, behind this.
fn has_behind(line: &str, before: &str, words: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    line.match_indices(before).any(|(at, _)| {
        let rest = &line[at + before.len()..];
        let word = &rest[..rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len())];
        let is_alone = !before.starts_with('1') || !line[..at].ends_with(is_word);
        is_alone && words.split_whitespace().any(|counted| counted == word)
    })
}

#[test]
fn one_thing_is_never_many() {
    let code = files("cli").into_iter().chain(files("crates")).filter(|path| path.ends_with(".rs"));
    // This file says what must not be said.
    let code = code.filter(|path| !path.ends_with("structure.rs"));
    let pages = files("docs").into_iter().chain(["README.md".to_owned(), "CHANGELOG.md".to_owned()]);
    for path in code.chain(pages) {
        let text = read(&path);
        let wrong: Vec<&str> = text.lines().filter(|line| has_behind(line, "1 ", COUNTED)).collect();
        assert!(wrong.is_empty(), "{path}: {wrong:#?}");
    }
    assert!(has_behind("1 files", "1 ", COUNTED) && !has_behind("v1.1 files", "1 ", COUNTED));
}

#[test]
fn numbers_in_messages_go_through_counted() {
    // Numbers that are never one.
    let many = [
        "{few} files",
        "{limit} files",
        "{removed} lines",
        ".{ending} files",
        "_VISITS} visits",
        "_REPEATS} times",
        "{phase} tests",
    ];
    for path in library().chain(sources("cli/src")).filter(|path| !path.ends_with("/tests.rs")) {
        let text = read(&path);
        let program = text.split("#[cfg(test)]").next().unwrap_or_default();
        for line in program.lines().filter(|line| !many.iter().any(|many| line.contains(many))) {
            assert!(!has_behind(line, "} ", COUNTED), "{path}: `text::counted` knows `1 file` from `2 files`: {line}");
        }
    }
}

#[test]
fn the_readme_lists_every_page() {
    let readme = read("README.md");
    let pages = files("docs").into_iter().filter(|path| path.ends_with(".md"));
    let missing: Vec<String> = pages.filter(|page| !readme.contains(&format!("({page})"))).collect();
    assert!(missing.is_empty(), "README.md does not list {missing:?}");
}

#[test]
fn a_long_page_is_a_reference_and_says_so() {
    for page in files("docs").into_iter().filter(|path| path.ends_with(".md") && path != "docs/cli.md") {
        let text = read(&page);
        let says_so = text.lines().take(5).any(|line| line.to_lowercase().contains("a reference"));
        assert!(says_so || text.lines().count() <= 300, "{page}: a guide is read in ten minutes; split it");
    }
}

/// What a link to a heading is called, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let mut broken = Vec::new();
    for page in files("").into_iter().filter(|file| file.ends_with(".md")) {
        let text = read(&page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            if link.contains("://") || link.contains(' ') {
                continue;
            }
            let place = root().join(&page).with_file_name("").join(file);
            let place = if file.is_empty() { root().join(&page) } else { place };
            let target = std::fs::read_to_string(&place).unwrap_or_default();
            let headings = target.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#'));
            if !place.exists() || !heading.is_empty() && !headings.map(anchor).any(|name| name == heading) {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// A search for a name leads to one type. `Error` is each module's own.
#[test]
fn no_two_types_have_one_name() {
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let trees = [("the library", library().collect()), ("cli", sources("cli/src")), ("xtask", sources("xtask/src"))];
    for (tree, files) in trees {
        let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for path in files.iter().filter(|path| !path.ends_with("/tests.rs")) {
            let text = read(path);
            let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            for line in product.lines() {
                let shown = line.strip_prefix("pub ").unwrap_or(line);
                let shown =
                    shown.strip_prefix("pub(").and_then(|rest| rest.split_once(") ")).map_or(shown, |(_, rest)| rest);
                let name = kinds.iter().find_map(|kind| shown.strip_prefix(kind)).and_then(first_word);
                if let Some(name) = name {
                    places.entry(name).or_default().insert(path.clone());
                }
            }
        }
        let twice: Vec<_> = places.iter().filter(|(name, places)| places.len() > 1 && *name != "Error").collect();
        assert!(twice.is_empty(), "types of one name in {tree}: {twice:#?}");
    }
}

/// What a program that embeds pleach may rely on. What else the crates have is theirs alone.
#[test]
fn the_public_items_are_those_listed() {
    let interface = read("crates/pleach/src/lib.rs");
    let mut items = BTreeSet::new();
    for statement in interface.split("\npub use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        let (from, names) = statement.split_once('{').unwrap_or(statement.rsplit_once("::").expect("a path"));
        let from = from.trim_end_matches("::");
        let names = names.trim_end().trim_end_matches('}').split(',').map(str::trim).filter(|name| !name.is_empty());
        items.extend(names.map(|name| format!("{from}::{name}")));
    }
    let listed: BTreeSet<String> =
        read("crates/pleach/tests/golden/public-items.txt").lines().map(str::to_owned).collect();
    let new: Vec<&String> = items.difference(&listed).collect();
    let gone: Vec<&String> = listed.difference(&items).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "crates/pleach/tests/golden/public-items.txt lacks {new:#?} and still has {gone:#?}"
    );
}

#[test]
fn names_of_tests_have_at_most_ten_words() {
    let words = |name: &String| name.split('_').filter(|word| *word != "s").count();
    let long: Vec<String> = test_names().into_iter().filter(|name| words(name) > 10).collect();
    assert!(long.is_empty(), "{long:#?}");
}

/// The packages that building takes, each with the features it is built with.
#[expect(clippy::disallowed_methods, reason = "the test asks cargo")]
fn built_with(of: &[&str]) -> BTreeSet<String> {
    let mut cargo = std::process::Command::new(env!("CARGO"));
    cargo.args(["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p} {f}"]).args(of);
    let output = cargo.current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{cargo:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("package names are UTF-8");
    text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).filter(|line| !line.is_empty()).collect()
}

/// `cargo run` and then `cargo test` is what a newcomer types: a feature that only the tests switch on has the crate, and
/// all that is built on it, built once more.
#[test]
fn tests_build_no_dependency_twice() {
    let program = built_with(&["--package", "pleach-cli", "--edges", "normal,build"]);
    let tests = built_with(&["--workspace", "--edges", "normal,build,dev"]);
    let again: Vec<&String> = program.difference(&tests).collect();
    assert!(again.is_empty(), "built with other features for the tests: {again:#?}");
}
