//! What ARCHITECTURE.md promises about the shape of the code, held by tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::repository::{code, files, quoted, read, root, sources, test_names};

/// The modules of the library. Each may import from those before it and from no other. What comes before `clock` is
/// pure: it does not even know what time it is.
const ORDER: [&str; 36] = [
    "text",
    "ids",
    "redact",
    "config",
    "plan",
    "event",
    "trailer",
    "step",
    "budget",
    "state",
    "progress",
    "schedule",
    "merge",
    "queue",
    "route",
    "clock",
    "deadline",
    "confined_fs",
    "plain_file",
    "process",
    "git",
    "record",
    "workspace",
    "llm",
    "gateway",
    "agent",
    "trust",
    "merging",
    "env",
    "push",
    "view",
    "keep",
    "session",
    "landing",
    "tree",
    "retention",
];

#[test]
fn the_map_has_the_modules_in_their_order() {
    let page = read("ARCHITECTURE.md");
    let rows = page.lines().skip_while(|line| !line.starts_with("| module |")).skip(2);
    let listed: Vec<&str> = rows.map_while(|row| row.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(listed, ORDER, "the table in ARCHITECTURE.md and the order in {}", file!());
    let there: BTreeSet<String> = sources("lib/src").iter().map(|path| module_of(path).to_owned()).collect();
    let known: BTreeSet<String> = ORDER.into_iter().chain(["lib"]).map(str::to_owned).collect();
    assert_eq!(known, there, "the order in {} and the modules of the library", file!());
}

fn rank(module: &str) -> Option<usize> {
    ORDER.iter().position(|name| *name == module)
}

#[test]
fn imports_point_one_way() {
    let mut wrong = Vec::new();
    for path in sources("lib/src").iter().filter(|path| *path != "lib/src/lib.rs") {
        let module = module_of(path);
        let Some(own) = rank(module) else {
            wrong.push(format!(
                "{path}: module `{module}` has no place in the import order; give it one in {}",
                file!()
            ));
            continue;
        };
        let text = read(path);
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

/// `lib/src/plan/dot/mod.rs` belongs to `plan`, `lib/src/route.rs` to `route`.
fn module_of(path: &str) -> &str {
    let below = path.strip_prefix("lib/src/").unwrap_or(path);
    below.split('/').next().unwrap_or(below).trim_end_matches(".rs")
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
    for path in sources("lib/src") {
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
    for path in ["lib/src/lib.rs", "cli/src/main.rs", "xtask/src/main.rs"] {
        assert!(read(path).contains("#![forbid(unsafe_code)]"), "{path}");
    }
}

#[test]
fn every_integration_test_is_compiled() {
    for dir in ["lib/tests/it", "cli/tests/it"] {
        let main = read(&format!("{dir}/main.rs"));
        for path in sources(dir) {
            let below = Path::new(&path).strip_prefix(dir).expect("a path below the directory");
            let first = below.iter().next().and_then(|name| name.to_str()).expect("a UTF-8 name");
            let module = first.trim_end_matches(".rs");
            let declared = main.lines().any(|line| line.trim() == format!("mod {module};"));
            assert!(module == "main" || declared, "{path} is not declared in {dir}/main.rs, so it never runs");
        }
    }
}

#[test]
fn architecture_stays_short() {
    let lines = read("ARCHITECTURE.md").lines().count();
    assert!(lines <= 180, "ARCHITECTURE.md has {lines} lines; a reader takes in 180");
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
    let missing: Vec<&str> =
        paths.filter(|path| !root().join(path).exists() && !root().join("lib/src").join(path).exists()).collect();
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

/// The library's root is an interface: what comes and goes there is decided, not left to happen.
#[test]
fn the_root_of_the_library_offers_these_modules() {
    let root = read("lib/src/lib.rs");
    let offered: Vec<&str> = root.lines().filter(|line| line.starts_with("pub ")).collect();
    insta::assert_snapshot!(offered.join("\n"), @r"
    pub mod agent;
    pub mod budget;
    pub mod clock;
    pub mod config;
    pub mod env;
    pub mod event;
    pub mod gateway;
    pub mod git;
    pub mod ids;
    pub mod keep;
    pub mod landing;
    pub mod llm;
    pub mod merge;
    pub mod merging;
    pub mod plain_file;
    pub mod plan;
    pub mod process;
    pub mod progress;
    pub mod push;
    pub mod queue;
    pub mod record;
    pub mod redact;
    pub mod retention;
    pub mod route;
    pub mod schedule;
    pub mod session;
    pub mod state;
    pub mod step;
    pub mod text;
    pub mod trailer;
    pub mod tree;
    pub mod trust;
    pub mod view;
    pub mod workspace;
    ");
}

/// A search for a name leads to one type. `Error` is each module's own.
#[test]
fn no_two_types_have_one_name() {
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    for tree in ["lib/src", "cli/src"] {
        let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for path in sources(tree).iter().filter(|path| !path.ends_with("/tests.rs")) {
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

/// What the library offers: no more than the command line, the chores, tests and what these name in turn need. An item
/// that nobody outside names is `pub(crate)`.
#[test]
fn the_public_items_are_those_listed() {
    let kinds = ["fn ", "async fn ", "const fn ", "struct ", "enum ", "trait ", "type ", "const ", "static "];
    let mut items = BTreeSet::new();
    for path in sources("lib/src") {
        let module = path.trim_start_matches("lib/src/").trim_end_matches(".rs").trim_end_matches("/mod");
        for shown in read(&path).lines().filter_map(|line| line.strip_prefix("pub ").map(str::to_owned)) {
            let name = kinds.iter().find_map(|kind| shown.strip_prefix(kind)).and_then(first_word);
            items.extend(name.map(|name| format!("{}::{name}", module.replace('/', "::"))));
        }
    }
    let listed: BTreeSet<String> = read("lib/tests/golden/public-items.txt").lines().map(str::to_owned).collect();
    let new: Vec<&String> = items.difference(&listed).collect();
    let gone: Vec<&String> = listed.difference(&items).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "lib/tests/golden/public-items.txt lacks {new:#?} and still has {gone:#?}"
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
