//! Every kind of conflict, made by the git program and read as data.

use git::{Conflict, ConflictedFile, EntryKind, MergeError};
use pleach_core::event::ConflictKind;

use super::Sandbox;

fn text(lines: std::ops::Range<usize>) -> String {
    lines.map(|line| format!("line {line}\n")).collect()
}

/// What git finds when it merges what two shell scripts make of what a third has made. Each runs in the repository.
fn conflict(base: &str, ours: &str, theirs: &str) -> (Sandbox, Conflict) {
    let sandbox = Sandbox::empty();
    sandbox.git(".", &["init", "-q", "-b", "main", "repo"]);
    sandbox.write("repo/text", text(0..20));
    sandbox.write("repo/other", text(40..60));
    run(&sandbox, base);
    let [ours, theirs] = [("ours", ours), ("theirs", theirs)].map(|(branch, script)| {
        sandbox.git("repo", &["switch", "-q", "-c", branch, "main"]);
        run(&sandbox, script);
        let commit = sandbox.git("repo", &["rev-parse", "HEAD"]).parse().unwrap();
        sandbox.git("repo", &["read-tree", "-u", "--reset", "main"]);
        commit
    });
    let repo = sandbox.open("repo");
    match git::merge::merge_commits(&repo, ours, theirs) {
        Err(MergeError::Conflict(conflict)) => (sandbox, conflict),
        other => panic!("{other:?}"),
    }
}

/// Runs a script and commits what the index has then.
#[expect(clippy::disallowed_methods, reason = "a script of the test, in its own directory")]
fn run(sandbox: &Sandbox, script: &str) {
    let output = std::process::Command::new("sh")
        .args(["-ec", script])
        .current_dir(sandbox.path("repo"))
        .envs(sandbox.variables())
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    sandbox.git("repo", &["add", "-A", "."]);
    sandbox.git("repo", &["commit", "-q", "--allow-empty", "-m", "change"]);
}

fn only(base: &str, ours: &str, theirs: &str) -> ConflictedFile {
    let (_sandbox, conflict) = conflict(base, ours, theirs);
    let [file] = &conflict.files[..] else { panic!("{conflict:?}") };
    assert_eq!(conflict.paths, std::slice::from_ref(&file.path));
    file.clone()
}

/// Path, kind, and what the base, ours and theirs have of it.
fn shown(file: &ConflictedFile) -> (String, ConflictKind, [Option<EntryKind>; 3]) {
    let modes = [file.base, file.ours, file.theirs].map(|side| side.map(|side| side.mode));
    (file.path.to_string(), file.kind, modes)
}

const FILE: Option<EntryKind> = Some(EntryKind::File);

const CHANGE: [&str; 2] = ["sed -i 's/line 5$/ours/' text", "sed -i 's/line 5$/theirs/' text"];

#[test]
fn the_same_lines_changed_are_a_content_conflict() {
    let (sandbox, conflict) = conflict("", CHANGE[0], CHANGE[1]);
    let [file] = &conflict.files[..] else { panic!("{conflict:?}") };
    assert_eq!(shown(file), ("text".into(), ConflictKind::Content, [FILE; 3]));
    let repo = sandbox.open("repo");
    let texts = [file.base, file.ours, file.theirs].map(|side| repo.blob(side.unwrap().id).unwrap());
    let [base, ours, theirs] = texts.map(|text| String::from_utf8(text).unwrap());
    assert_eq!((base.contains("line 5\n"), ours.contains("ours"), theirs.contains("theirs")), (true, true, true));
    let marked = repo.tree_file(conflict.marked, &file.path).unwrap().unwrap();
    assert!(String::from_utf8(marked).unwrap().contains("<<<<<<< "));
}

#[test]
fn a_renamed_file_is_in_conflict_at_its_new_name() {
    let file = only("", "git mv text moved; sed -i 's/line 5$/ours/' moved", CHANGE[1]);
    assert_eq!(shown(&file), ("moved".into(), ConflictKind::Content, [FILE; 3]));
}

#[test]
fn two_files_added_at_one_path_are_told() {
    let file = only("", "echo ours > new", "echo theirs > new");
    assert_eq!(shown(&file), ("new".into(), ConflictKind::AddAdd, [None, FILE, FILE]));
    let file = only("", "git mv text one", "git mv other one");
    assert_eq!(shown(&file), ("one".into(), ConflictKind::AddAdd, [None, FILE, FILE]));
}

#[test]
fn a_change_of_a_removed_file_is_told() {
    let file = only("", CHANGE[0], "git rm -q text");
    assert_eq!(shown(&file), ("text".into(), ConflictKind::ModifyDelete, [FILE, FILE, None]));
    let file = only("", "git rm -q text", CHANGE[1]);
    assert_eq!(shown(&file), ("text".into(), ConflictKind::ModifyDelete, [FILE, None, FILE]));
}

#[test]
fn two_new_names_of_one_file_are_told() {
    let (_sandbox, conflict) = conflict("", "git mv text a", "git mv text b");
    let kind = ConflictKind::RenameRename;
    let expected = [
        ("a".to_owned(), kind, [None, FILE, None]),
        ("b".to_owned(), kind, [None, None, FILE]),
        ("text".to_owned(), kind, [FILE, None, None]),
    ];
    assert_eq!(conflict.files.iter().map(shown).collect::<Vec<_>>(), expected);
}

#[test]
fn a_renamed_file_that_was_removed_is_told() {
    let file = only("", "git mv text moved", "git rm -q text");
    assert_eq!(shown(&file), ("moved".into(), ConflictKind::RenameDelete, [FILE, FILE, None]));
    let file = only("", "git mv text moved; echo more >> moved", "git rm -q text");
    assert_eq!(shown(&file), ("moved".into(), ConflictKind::RenameDelete, [FILE, FILE, None]));
}

#[test]
fn a_file_added_to_a_renamed_directory_is_told() {
    let directory = "mkdir old; git mv -k text other old; mv text other old";
    let file = only(directory, "git mv old new", "echo more > old/more");
    assert_eq!(shown(&file), ("new/more".into(), ConflictKind::DirectoryRename, [None, None, FILE]));
    // A directory whose files went to several has no stage: it is named all the same.
    let split = "mkdir new more; git mv old/text new; git mv old/other more";
    let file = only(directory, split, "echo more > old/more");
    assert_eq!(shown(&file), ("old".into(), ConflictKind::DirectoryRename, [None; 3]));
}

#[test]
fn a_file_in_place_of_a_directory_is_told() {
    let file = only("", "echo ours > place", "mkdir place; echo theirs > place/file");
    let (path, kind, modes) = shown(&file);
    assert_eq!((kind, modes), (ConflictKind::FileDirectory, [None, FILE, None]));
    assert!(path.starts_with("place~"), "{path}");
    let changed = only("", CHANGE[0], "git rm -q text; mkdir text; echo theirs > text/file");
    assert_eq!((changed.kind, changed.base.is_some()), (ConflictKind::FileDirectory, true));
}

#[test]
fn binary_files_both_changed_are_told() {
    let [base, ours, theirs] = ["a", "b", "c"].map(|byte| format!("printf 'x\\0{byte}' > text"));
    assert_eq!(shown(&only(&base, &ours, &theirs)), ("text".into(), ConflictKind::Binary, [FILE; 3]));
    let attribute = "echo 'text -merge' > .gitattributes";
    assert_eq!(only(attribute, CHANGE[0], CHANGE[1]).kind, ConflictKind::Binary);
}

#[test]
fn submodules_both_moved_are_told() {
    let link = |digit: &str| format!("git update-index --add --cacheinfo 160000,{},module", digit.repeat(40));
    let commit = |digit: &str| format!("mkdir -p module; {}", link(digit));
    let file = only(&commit("1"), &commit("2"), &commit("3"));
    assert_eq!(shown(&file), ("module".into(), ConflictKind::Submodule, [Some(EntryKind::Submodule); 3]));
    assert_eq!(file.theirs.unwrap().id.to_string(), "3".repeat(40));
}

#[test]
fn files_of_two_types_are_told() {
    let (_sandbox, conflict) = conflict("", "rm text; ln -s other text", CHANGE[1]);
    let kinds: Vec<ConflictKind> = conflict.files.iter().map(|file| file.kind).collect();
    assert_eq!(kinds, [ConflictKind::Mode; 2]);
    assert_eq!(shown(&conflict.files[0]), ("text".into(), ConflictKind::Mode, [None, Some(EntryKind::Link), None]));
    // The same content, of which one side can be run.
    let file = only("", "echo new > new; chmod +x new", "echo new > new");
    assert_eq!(shown(&file), ("new".into(), ConflictKind::Mode, [None, Some(EntryKind::Executable), FILE]));
}

#[test]
fn histories_that_have_nothing_in_common_are_an_error() {
    let sandbox = Sandbox::new();
    sandbox.git("repo", &["switch", "-q", "--orphan", "other"]);
    sandbox.write("repo/a.txt", "other\n");
    sandbox.commit("repo", "another start");
    let repo = sandbox.open("repo");
    let [main, other] = ["main", "other"].map(|branch| repo.resolve(branch).unwrap());
    let error = git::merge::merge_commits(&repo, main, other).unwrap_err();
    let MergeError::Git(git::Error::Program { exit, stderr, .. }) = &error else { panic!("{error:?}") };
    assert_eq!(exit, "exit 128");
    assert!(stderr.contains("unrelated histories"), "{stderr}");
}

#[test]
fn a_commit_that_is_not_there_is_an_error() {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let missing = "1".repeat(40).parse().unwrap();
    let error = git::merge::merge_commits(&repo, repo.head().unwrap().commit, missing).unwrap_err();
    assert!(matches!(error, MergeError::Git(_)), "{error:?}");
}
