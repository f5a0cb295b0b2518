//! What the user has approved, and how they are asked: commands a repository supplies, and settings of it that could
//! send keys elsewhere. What there is to approve, the library finds.
//!
//! An answer holds for one repository and one exact text, or for every command of a repository. It is kept in `trust.json`
//! of the state directory, readable by the user alone. The key is a collision-detecting SHA-1, the hash git itself uses.

mod store;
mod token;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use agents::agent::BoxFuture;
use engine::env::Truster;
use engine::trust::{TrustItem, key_of_all_commands};
use pleach_core::config::SuppliedKind;
use pleach_core::redact::Redactor;
use pleach_core::text::{counted, visible};

pub use self::store::{Approval, Store, short};
use crate::code::Code;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_trust;
use crate::settings::Settings;
use crate::{say, stdin_lines};

/// The user of a command, who may have agreed before and may be there to be asked.
#[derive(Debug)]
pub struct TerminalTruster {
    store: Store,
    repo: PathBuf,
    ask: Ask,
}

impl TerminalTruster {
    /// The one who works with the repository that has this common git directory.
    pub fn of(globals: &Globals, settings: &Settings, repo: &Path) -> Self {
        Self { store: Store::new(&settings.state_dir), repo: repo.to_owned(), ask: Ask::of(globals) }
    }

    /// Makes sure the user approves all of `items`. What was approved before is not asked again; everything else is
    /// shown whole and asked about once.
    pub fn require(&self, items: Vec<TrustItem>) -> Result<(), Failure> {
        require_with(&self.store, &self.repo, items, self.ask, say::asking, reply)
    }

    /// Keeps that the user approves all of `items`, which they have given themselves. What is kept for reading is
    /// without what `redactor` knows.
    pub fn keep_given(&self, items: Vec<TrustItem>, redactor: &Redactor) -> Result<(), Failure> {
        keep(&self.store, &self.repo, unknown(&self.store, &self.repo, items)?, redactor)
    }
}

/// Whether the user has approved all of `items` before, for the repository that has this common git directory.
pub fn is_approved(settings: &Settings, repo: &Path, items: Vec<TrustItem>) -> Result<bool, Failure> {
    Ok(unknown(&Store::new(&settings.state_dir), repo, items)?.is_empty())
}

impl Truster<Failure> for TerminalTruster {
    fn agree(&self, items: Vec<TrustItem>) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async { self.require(items) })
    }
}

/// The ways to ask the user.
#[derive(Debug, Clone, Copy)]
struct Ask {
    /// `-y`: the answer is yes.
    yes: bool,
    /// There is a terminal to ask on.
    terminal: bool,
}

impl Ask {
    /// As the user of a command can be.
    fn of(globals: &Globals) -> Self {
        Self { yes: globals.yes, terminal: stdin_lines::is_possible() }
    }
}

/// Asks a person; anything but yes is no.
pub fn confirm(question: &str) -> std::io::Result<bool> {
    Ok(reply(question)? == Reply::Yes)
}

/// What a person answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    No,
    Yes,
    /// Also to every command from now on.
    Always,
}

fn reply(question: &str) -> std::io::Result<Reply> {
    let line = stdin_lines::ask(&mut say::asking(), question)?;
    Ok(match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Reply::Yes,
        "a" | "all" => Reply::Always,
        _ => Reply::No,
    })
}

fn require_with<W: std::io::Write>(
    store: &Store,
    repo: &Path,
    items: Vec<TrustItem>,
    ask: Ask,
    asking: impl FnOnce() -> W,
    answer: impl FnOnce(&str) -> std::io::Result<Reply>,
) -> Result<(), Failure> {
    let new = unknown(store, repo, items)?;
    if new.is_empty() {
        return Ok(());
    }
    let commands = new.iter().all(|(_, item)| item.kind == SuppliedKind::Command);
    let things = counted(new.len(), if commands { "command" } else { "item" });
    // Nothing is approved beforehand of a repository that is not there yet, and nothing of what is none.
    let may_stand = repo.join("HEAD").is_file() && new.iter().any(|(_, item)| item.is_covered);
    let mut reply = Reply::Yes;
    if !ask.yes {
        let mut asking = asking();
        let _ = asking.write_all(shown(repo, &new).as_bytes());
        let supplier = if repo.is_dir() { "this repository supplies" } else { "these settings bring along" };
        if !ask.terminal {
            return Err(Failure::new(Code::TrustMissing, format!("{supplier} {things} you have not approved"))
                .hint("read what is shown above; then run the command again with -y, or in a terminal to be asked"));
        }
        let question = if may_stand {
            let _ = asking.write_all(b"(a: this, and every command of this repository from now on)\n");
            "Approve all of this? [y/N/a] "
        } else {
            "Approve all of this? [y/N] "
        };
        reply = answer(question).map_err(|error| {
            Failure::new(Code::TrustUnanswered, "the answer cannot be read").because(&error).hint("pass -y to approve")
        })?;
        if reply == Reply::No || reply == Reply::Always && !may_stand {
            return Err(Failure::new(
                Code::TrustDeclined,
                format!("you declined {things} of this repository; nothing was run"),
            )
            .hint("change the settings named above, or run the command again and approve them"));
        }
    }
    keep(store, repo, new, &Redactor::new([("", ""); 0]))?;
    if reply == Reply::Always { keep_always(store, repo) } else { Ok(()) }
}

/// The items that are not approved yet, each once, with their keys.
fn unknown(store: &Store, repo: &Path, items: Vec<TrustItem>) -> Result<Vec<(String, TrustItem)>, Failure> {
    let mut known: BTreeSet<String> = store.list()?.into_iter().map(|agreement| agreement.key).collect();
    let always = key_of_always(repo)?.is_some_and(|key| known.contains(&key));
    let mut new = Vec::new();
    for item in items.into_iter().filter(|item| !(always && item.is_covered)) {
        let key = item.key(&repo.to_string_lossy()).map_err(|error| of_trust(&error))?;
        if known.insert(key.clone()) {
            new.push((key, item));
        }
    }
    Ok(new)
}

/// What an approval of every command is known by; none where this repository has never got one.
fn key_of_always(repo: &Path) -> Result<Option<String>, Failure> {
    let Some(token) = token::read(repo) else { return Ok(None) };
    key_of_all_commands(&repo.to_string_lossy(), &token).map(Some).map_err(|error| of_trust(&error))
}

/// Keeps that every command of a repository is approved.
fn keep_always(store: &Store, repo: &Path) -> Result<(), Failure> {
    let token = token::make(repo).map_err(|error| {
        Failure::new(
            Code::TrustStore,
            format!("cannot note in {} that every command of it is approved", repo.display()),
        )
        .because(&error)
    })?;
    let key = key_of_all_commands(&repo.to_string_lossy(), &token).map_err(|error| of_trust(&error))?;
    let shown = short(&key);
    store.add(vec![Approval {
        key,
        repo: repo.to_string_lossy().into_owned(),
        kind: EVERYTHING.to_owned(),
        where_from: "your answer".to_owned(),
        text: "every command of this repository".to_owned(),
        at: pleach_core::clock::now(),
    }])?;
    say!("commands of this repository run unasked from now on; `pleach trust --revoke {shown}` ends that");
    Ok(())
}

/// The kind of an approval that is of no single text.
const EVERYTHING: &str = "everything";

/// Keeps new approvals.
fn keep(store: &Store, repo: &Path, new: Vec<(String, TrustItem)>, redactor: &Redactor) -> Result<(), Failure> {
    if new.is_empty() {
        return Ok(());
    }
    let at = pleach_core::clock::now();
    let new = new.into_iter().map(|(key, item)| Approval {
        key,
        repo: repo.to_string_lossy().into_owned(),
        kind: item.kind.to_string(),
        text: redactor.text(item.seen()).into_owned(),
        where_from: item.where_from,
        at,
    });
    store.add(new.collect())
}

/// Everything that is asked about, whole.
fn shown(repo: &Path, items: &[(String, TrustItem)]) -> String {
    let mut text = if repo.is_dir() {
        format!("This repository ({}) supplies:\n", visible(&repo.to_string_lossy()))
    } else {
        // One that is not cloned yet supplies nothing.
        "These settings bring along:\n".to_owned()
    };
    for (_, item) in items {
        let _ = writeln!(text, "\n  {} ({})", item.kind, visible(&item.where_from));
        for line in item.seen().lines() {
            let _ = writeln!(text, "    {}", visible(line));
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::exit::Exit;

    const YES: Ask = Ask { yes: true, terminal: false };
    const NOBODY: Ask = Ask { yes: false, terminal: false };
    const SOMEBODY: Ask = Ask { yes: false, terminal: true };

    fn item(text: &str) -> TrustItem {
        TrustItem::command("pleach.yaml:1".into(), text.into())
    }

    /// Asks with a prepared answer; gives the result, what was shown, and whether a question was asked.
    fn ask(store: &Store, repo: &str, texts: &[&str], ask: Ask, agrees: bool) -> (Result<(), Failure>, String, bool) {
        let reply = if agrees { Reply::Yes } else { Reply::No };
        replied(store, Path::new(repo), texts.iter().map(|text| item(text)).collect(), ask, reply)
    }

    fn replied(
        store: &Store,
        repo: &Path,
        items: Vec<TrustItem>,
        ask: Ask,
        reply: Reply,
    ) -> (Result<(), Failure>, String, bool) {
        let mut shown = Vec::new();
        let mut asked = false;
        let out = &mut shown;
        let result = require_with(
            store,
            repo,
            items,
            ask,
            move || out,
            |_| {
                asked = true;
                Ok(reply)
            },
        );
        (result, String::from_utf8(shown).unwrap(), asked)
    }

    #[test]
    fn an_approval_holds_for_one_repository_and_text() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(&dir.path().join("state/pleach"));
        let (result, _, asked) = ask(&store, "/a/.git", &["make", "make", "npm ci"], SOMEBODY, true);
        assert!(result.is_ok() && asked);
        assert_eq!(store.list().unwrap().len(), 2, "the same text is one agreement");
        let (result, shown, asked) = ask(&store, "/a/.git", &["npm ci", "make"], NOBODY, false);
        assert!(result.is_ok() && !asked && shown.is_empty(), "{shown}");
        for (repo, text) in [("/b/.git", "make"), ("/a/.git", "make "), ("/a/.git", "Make")] {
            let (result, ..) = ask(&store, repo, &[text], NOBODY, true);
            assert_eq!(result.unwrap_err().exit(), Exit::WaitsForPerson, "{repo} {text}");
        }
        assert!(ask(&store, "/a/.git", &[], NOBODY, false).0.is_ok());
    }

    #[test]
    fn an_approval_of_a_value_holds_for_its_setting() {
        use pleach_core::config::{Precedence, Source, Supplied, SuppliedKind};
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        let agrees = |kind, key: &str, text: &str, ask| {
            let source = Source::file(Precedence::Project, "pleach.yaml");
            let item = TrustItem::from(Supplied { kind, key: key.into(), source, text: text.into() });
            let mut shown = Vec::new();
            let out = &mut shown;
            let result = require_with(&store, Path::new("/a/.git"), vec![item], ask, move || out, |_| Ok(Reply::No));
            (result.is_ok(), String::from_utf8(shown).unwrap())
        };
        let base = |provider: &str| format!("providers.{provider}.settings.api_base");
        for (kind, one, other) in [
            (SuppliedKind::Variable, "FOO".to_owned(), "LD_PRELOAD".to_owned()),
            (SuppliedKind::KeyAddress, base("compatible"), base("anthropic")),
        ] {
            assert!(agrees(kind, &one, "/x", YES).0);
            assert!(agrees(kind, &one, "/x", NOBODY).0);
            let (agreed, shown) = agrees(kind, &other, "/x", NOBODY);
            assert!(!agreed && shown.contains(&format!("    {other}: /x\n")), "{shown}");
        }
        assert!(agrees(SuppliedKind::Command, "worktrees.setup", "make", YES).0);
        assert!(agrees(SuppliedKind::Command, "tree.test_command", "make", NOBODY).0, "it is the same command");
    }

    #[test]
    fn the_file_is_the_users_alone() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(&dir.path().join("pleach"));
        assert!(ask(&store, "/a/.git", &["make"], YES, false).0.is_ok());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(store.file()), mode(store.file().parent().unwrap())), (0o600, 0o700));
        let left: BTreeSet<_> =
            fs::read_dir(dir.path().join("pleach")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, BTreeSet::from(["trust.json".into(), "trust.lock".into()]));
    }

    #[test]
    fn everything_is_shown_whole_and_nothing_hides() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        let repo = dir.path().to_str().unwrap();
        let (result, shown, asked) = ask(&store, repo, &["make\nrm -rf \u{1b}[8mhome\u{202e}", "second"], NOBODY, true);
        assert!(!asked);
        insta::assert_snapshot!(shown.replace(repo, "REPO"), @r#"
        This repository (REPO) supplies:

          command (pleach.yaml:1)
            make
            rm -rf \u{1b}[8mhome\u{202e}

          command (pleach.yaml:1)
            second
        "#);
        let failure = result.unwrap_err();
        assert_eq!(failure.message, "this repository supplies 2 commands you have not approved");
        assert!(failure.hint.unwrap().contains("-y"));
        assert_eq!(store.list().unwrap(), []);
    }

    #[test]
    fn every_command_can_be_approved_from_now_on() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(&dir.path().join("state"));
        let repo = dir.path().join("repo");
        let create =
            || std::fs::create_dir(&repo).and_then(|()| std::fs::write(repo.join("HEAD"), "ref: refs/heads/main"));
        create().unwrap();
        let (result, shown, _) = replied(&store, &repo, vec![item("make")], SOMEBODY, Reply::Always);
        assert!(result.is_ok() && shown.contains("every command of this repository from now on"), "{shown}");
        assert!(replied(&store, &repo, vec![item("make"), item("other")], NOBODY, Reply::No).0.is_ok());
        let kinds = || store.list().unwrap().into_iter().map(|kept| kept.kind).collect::<Vec<_>>();
        assert_eq!(kinds(), ["command", EVERYTHING], "what it covers is not kept one by one");
        // What is no command of the repository is asked about all the same.
        let address = TrustItem { kind: SuppliedKind::KeyAddress, is_covered: false, ..item("base_url: x") };
        for other in [address, item("make all").elsewhere()] {
            let (result, shown, asked) = replied(&store, &repo, vec![other], SOMEBODY, Reply::Always);
            assert!(result.is_err() && asked && !shown.contains("from now on"), "{shown}");
        }
        // Another repository in its place has not got it.
        std::fs::remove_dir_all(&repo).unwrap();
        let missing = replied(&store, &repo, vec![item("new")], SOMEBODY, Reply::Always);
        assert!(missing.0.is_err() && missing.1.starts_with("These settings bring along:"), "{}", missing.1);
        create().unwrap();
        assert!(replied(&store, &repo, vec![item("new")], NOBODY, Reply::No).0.is_err());
        // What is no repository gets none.
        std::fs::remove_file(repo.join("HEAD")).unwrap();
        assert!(replied(&store, &repo, vec![item("new")], SOMEBODY, Reply::Always).0.is_err());
        assert!(!repo.join("pleach").exists());
    }

    #[test]
    fn no_is_no() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        let (result, ..) = ask(&store, "/a/.git", &["make"], SOMEBODY, false);
        assert_eq!(result.unwrap_err().exit(), Exit::WaitsForPerson);
        assert_eq!(store.list().unwrap(), []);
    }

    #[test]
    fn a_broken_file_is_not_taken_for_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        for text in ["{", r#"{"version": 2, "trusted": []}"#] {
            fs::write(store.file(), text).unwrap();
            assert_eq!(ask(&store, "/a/.git", &["make"], YES, true).0.unwrap_err().exit(), Exit::Environment);
            assert_eq!(fs::read_to_string(store.file()).unwrap(), text, "and is not overwritten");
        }
    }

    #[test]
    fn two_approvals_at_once_both_count() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let store = &store;
                scope.spawn(move || {
                    for text in 0..5 {
                        assert!(ask(store, "/a/.git", &[&format!("{thread} {text}")], YES, false).0.is_ok());
                    }
                });
            }
        });
        assert_eq!(store.list().unwrap().len(), 40);
    }

    #[test]
    fn secrets_are_not_written_down() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        let token = ["sk", "ant", "0123456789abcdefghij"].join("-");
        assert!(ask(&store, "/a/.git", &[&format!("curl -H {token}")], YES, false).0.is_ok());
        assert_eq!(store.list().unwrap()[0].text, "curl -H [redacted:token]");
        assert!(ask(&store, "/a/.git", &[&format!("curl -H {token}")], NOBODY, false).0.is_ok());
    }
}
