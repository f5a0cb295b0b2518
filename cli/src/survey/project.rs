//! How a project is set up and tested, guessed from the files at its root.

use std::collections::BTreeMap;

use serde_json::Value;

/// The files that are read. Of all others only the names count.
pub const READ: [&str; 9] = [
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
    "requirements.txt",
    "go.mod",
    "Makefile",
    "makefile",
    "GNUmakefile",
    ".gitignore",
];

/// What is at the root of a project: names, and the text of the files in [`READ`].
pub type Files = BTreeMap<String, String>;

/// What one of these files says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guess {
    /// The file it is guessed from.
    pub from: &'static str,
    /// The command that gets what the project needs.
    pub setup: Option<String>,
    /// The command that tests it.
    pub test: Option<String>,
}

/// The program a shell command starts first; none where that is not plain to see, or the shell has it itself.
pub fn program(command: &str) -> Option<&str> {
    const OF_THE_SHELL: [&str; 16] = [
        "cd", "test", "[", "true", "false", "echo", "printf", "set", "export", "unset", "exec", "eval", "if", "for",
        "while", "case",
    ];
    let is_assignment = |word: &&str| word.split_once('=').is_some_and(|(name, _)| is_name(name));
    let word = command.split_whitespace().find(|word| !is_assignment(word))?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    (word.chars().all(is_plain) && !OF_THE_SHELL.contains(&word)).then_some(word)
}

/// The module a shell command has Python run: `pytest` of `python3 -m pytest -q`.
pub fn python_module(command: &str) -> Option<&str> {
    let mut words = command.split_whitespace();
    let starts = words.any(|word| ["python3", "python"].contains(&word));
    let module = words.next().filter(|word| starts && *word == "-m").and_then(|_| words.next())?;
    (["python3", "python"].contains(&program(command)?) && is_name(module)).then_some(module)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// All guesses, the most telling first.
pub fn guesses(files: &Files) -> Vec<Guess> {
    [cargo, node, python, go, make].iter().filter_map(|guess| guess(files)).collect()
}

fn cargo(files: &Files) -> Option<Guess> {
    let manifest = files.get("Cargo.toml")?;
    let is_workspace = manifest.lines().any(|line| line.trim() == "[workspace]");
    let test = if is_workspace { "cargo test --workspace" } else { "cargo test" };
    let setup = files.contains_key("Cargo.lock").then(|| "cargo fetch --locked".to_owned());
    Some(Guess { from: "Cargo.toml", setup, test: Some(test.into()) })
}

fn node(files: &Files) -> Option<Guess> {
    let manifest: Value = serde_json::from_str(files.get("package.json")?).unwrap_or_default();
    let has = |name: &str| files.contains_key(name);
    let named = manifest["packageManager"].as_str().unwrap_or_default();
    let is = |manager: &str, locks: &[&str]| named.starts_with(manager) || locks.iter().any(|lock| has(lock));
    let (manager, install) = if is("pnpm@", &["pnpm-lock.yaml"]) {
        ("pnpm", "pnpm install --frozen-lockfile")
    } else if is("bun@", &["bun.lock", "bun.lockb"]) {
        ("bun run", "bun install --frozen-lockfile")
    } else if is("yarn@", &["yarn.lock"]) {
        ("yarn", if has(".yarnrc.yml") { "yarn install --immutable" } else { "yarn install --frozen-lockfile" })
    } else if has("package-lock.json") || has("npm-shrinkwrap.json") {
        ("npm", "npm ci")
    } else {
        ("npm", "npm install")
    };
    let needs_any = ["dependencies", "devDependencies"]
        .iter()
        .any(|kind| manifest[*kind].as_object().is_some_and(|packages| !packages.is_empty()));
    // What `npm init` writes is no test.
    let tested = manifest["scripts"]["test"].as_str().is_some_and(|script| !script.contains("no test specified"));
    Some(Guess {
        from: "package.json",
        setup: needs_any.then(|| install.to_owned()),
        test: tested.then(|| format!("{manager} test")),
    })
}

fn python(files: &Files) -> Option<Guess> {
    let has = |name: &str| files.contains_key(name);
    let text = |name: &str| files.get(name).map(String::as_str).unwrap_or_default();
    let (project, requirements) = (text("pyproject.toml"), text("requirements.txt"));
    let from = ["pyproject.toml", "requirements.txt"].into_iter().find(|name| has(name))?;
    let uses_pytest = project.contains("pytest") || requirements.contains("pytest") || has("conftest.py");
    let is_tested = uses_pytest || has("tests") || has("test");
    let module = if uses_pytest { "pytest" } else { "unittest" };
    let (setup, run) = if has("uv.lock") || project.contains("[tool.uv]") {
        (Some("uv sync".to_owned()), "uv run ")
    } else if has("poetry.lock") || project.contains("[tool.poetry]") {
        (Some("poetry install".to_owned()), "poetry run ")
    } else if text(".gitignore").lines().any(|line| line.trim().trim_matches('/') == ".venv") {
        // Only where git ignores it: what a worktree holds is committed.
        let install = if has("requirements.txt") { "-r requirements.txt" } else { "-e ." };
        (Some(format!("python3 -m venv .venv && .venv/bin/pip install {install}")), ".venv/bin/")
    } else {
        (None, "")
    };
    let python = if run.is_empty() { "python3" } else { "python" };
    Some(Guess { from, setup, test: is_tested.then(|| format!("{run}{python} -m {module}")) })
}

fn go(files: &Files) -> Option<Guess> {
    files.get("go.mod")?;
    Some(Guess { from: "go.mod", setup: Some("go mod download".into()), test: Some("go test ./...".into()) })
}

fn make(files: &Files) -> Option<Guess> {
    let names = ["GNUmakefile", "makefile", "Makefile"];
    let (from, text) = names.into_iter().find_map(|name| Some((name, files.get(name)?)))?;
    let has = |target: &&str| text.lines().any(|line| is_rule(line, target));
    let target = |names: &[&'static str]| names.iter().find(|name| has(name)).map(|name| format!("make {name}"));
    Some(Guess { from, setup: target(&["setup", "deps"]), test: target(&["test", "check"]) })
}

/// Whether a line of a makefile starts a rule for a target.
fn is_rule(line: &str, target: &str) -> bool {
    let Some((targets, rest)) = line.split_once(':') else { return false };
    !line.starts_with([' ', '\t']) && !rest.starts_with('=') && targets.split_whitespace().any(|name| name == target)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is guessed from these files, first things first: `FILE: setup | test`.
    fn guessed(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let word = |command: Option<String>| command.unwrap_or_else(|| "-".into());
        guesses(&files).into_iter().map(|g| format!("{}: {} | {}", g.from, word(g.setup), word(g.test))).collect()
    }

    #[test]
    fn the_program_of_a_plain_command_is_recognized() {
        for (command, expected) in [
            ("cargo test --workspace", Some("cargo")),
            ("CI=1 FORCE= npm test", Some("npm")),
            ("python3 -m venv .venv && .venv/bin/pip install -e .", Some("python3")),
            (".venv/bin/python -m pytest", None),
            ("cd sub && make", None),
            ("$RUNNER test", None),
            ("! grep x", None),
            ("(a; b)", None),
            ("", None),
        ] {
            assert_eq!(program(command), expected, "{command}");
        }
    }

    #[test]
    fn the_module_python_runs_is_recognized() {
        for (command, expected) in [
            ("python3 -m pytest -q", Some("pytest")),
            ("CI=1 python -m unittest", Some("unittest")),
            ("uv run python -m pytest", None),
            ("python3 tests.py -m pytest", None),
            ("python3 -m $MODULE", None),
        ] {
            assert_eq!(python_module(command), expected, "{command}");
        }
    }

    #[test]
    fn rust_is_known_by_its_manifest() {
        assert_eq!(guessed(&[("Cargo.toml", "[package]\n")]), ["Cargo.toml: - | cargo test"]);
        assert_eq!(
            guessed(&[("Cargo.toml", "[workspace]\nmembers = []\n"), ("Cargo.lock", "")]),
            ["Cargo.toml: cargo fetch --locked | cargo test --workspace"]
        );
    }

    #[test]
    fn the_lock_file_decides_the_package_manager() {
        let manifest = r#"{"scripts": {"test": "vitest"}, "devDependencies": {"vitest": "3"}}"#;
        for (lock, expected) in [
            ("package-lock.json", "npm ci | npm test"),
            ("pnpm-lock.yaml", "pnpm install --frozen-lockfile | pnpm test"),
            ("yarn.lock", "yarn install --frozen-lockfile | yarn test"),
            ("bun.lock", "bun install --frozen-lockfile | bun run test"),
            ("nothing", "npm install | npm test"),
        ] {
            assert_eq!(guessed(&[("package.json", manifest), (lock, "")]), [format!("package.json: {expected}")]);
        }
        let berry = [("package.json", manifest), ("yarn.lock", ""), (".yarnrc.yml", "")];
        assert_eq!(guessed(&berry), ["package.json: yarn install --immutable | yarn test"]);
        let named = r#"{"packageManager": "pnpm@9.1.0", "scripts": {"test": "x"}}"#;
        assert_eq!(guessed(&[("package.json", named)]), ["package.json: - | pnpm test"]);
    }

    #[test]
    fn a_test_that_is_none_is_not_taken() {
        let fresh = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
        assert_eq!(guessed(&[("package.json", fresh)]), ["package.json: - | -"]);
        assert_eq!(guessed(&[("package.json", "not JSON")]), ["package.json: - | -"]);
        assert_eq!(guessed(&[("pyproject.toml", "[project]\n")]), ["pyproject.toml: - | -"]);
    }

    #[test]
    fn python_has_many_ways() {
        let pytest = "[dependency-groups]\ndev = [\"pytest\"]\n";
        assert_eq!(
            guessed(&[("pyproject.toml", pytest), ("uv.lock", "")]),
            ["pyproject.toml: uv sync | uv run python -m pytest"]
        );
        assert_eq!(
            guessed(&[("pyproject.toml", "[tool.poetry]\n"), ("tests", "")]),
            ["pyproject.toml: poetry install | poetry run python -m unittest"]
        );
        let plain = [("requirements.txt", "pytest\n"), (".gitignore", "/.venv/\n")];
        assert_eq!(
            guessed(&plain),
            [
                "requirements.txt: python3 -m venv .venv && .venv/bin/pip install -r requirements.txt | .venv/bin/python -m pytest"
            ]
        );
        assert_eq!(guessed(&plain[..1]), ["requirements.txt: - | python3 -m pytest"]);
    }

    #[test]
    fn go_and_make_come_after_more_specific_projects() {
        assert_eq!(guessed(&[("go.mod", "module x\n")]), ["go.mod: go mod download | go test ./..."]);
        let makefile = "test := no\n.PHONY: check\nall check: build\n\tmake test:\nsetup:\n";
        assert_eq!(guessed(&[("Makefile", makefile)]), ["Makefile: make setup | make check"]);
        let both = guessed(&[("Makefile", "test:\n"), ("Cargo.toml", "")]);
        assert_eq!(both, ["Cargo.toml: - | cargo test", "Makefile: - | make test"]);
        assert_eq!(guessed(&[("README.md", "")]), [""; 0]);
    }
}
