//! Steps are built again on another tip, and phases merged, without touching a checkout.

use engine::landing::commits::{RebuildError, merge_phase, rebuild, without_code};
use git::{Conflict, MergeError, Repo};
use pleach_core::ids::{CommitId, TaskId};

use super::{Sandbox, names};
use crate::git_sandbox::advance;

/// The message, author, committer and dates of a commit: all that makes it the same step wherever it is.
fn identity(sandbox: &Sandbox, commit: CommitId) -> String {
    sandbox.git("repo", &["log", "-1", "--format=%an|%ae|%ad|%cn|%ce|%cd|%B", "--date=raw", &commit.to_string()])
}

fn show(sandbox: &Sandbox, commit: CommitId, path: &str) -> String {
    sandbox.git("repo", &["show", &format!("{commit}:{path}")])
}

fn conflict(rebuilt: Result<Vec<CommitId>, RebuildError>) -> (CommitId, Conflict) {
    match rebuilt.unwrap_err() {
        RebuildError::Conflict { step, conflict } => (step, conflict),
        other => panic!("{other}"),
    }
}

/// Five steps of a task, two of which change files, as the git program commits them: with a time zone, a committer
/// who is not the author, and a later committer date.
fn five_steps(sandbox: &Sandbox, base: CommitId) -> Vec<CommitId> {
    sandbox.git("repo", &["switch", "-q", "--detach", &base.to_string()]);
    let mut steps = Vec::new();
    for number in 0..5 {
        match number {
            0 => sandbox.write("repo/a.txt", "first try\n"),
            3 => sandbox.write("repo/src/c.txt", "c\n"),
            _ => {}
        }
        sandbox.git("repo", &["add", "-A"]);
        let message = format!(
            "task(main@T1@step-{number}): step\n\n  body \u{e4}\n\nArborist-Step: implement\nArborist-Retry: {number}"
        );
        let date = format!("--date=170000010{number} +0545");
        sandbox.git("repo", &["commit", "-q", "--allow-empty", "--cleanup=verbatim", &date, "-m", &message]);
        steps.push(sandbox.git("repo", &["rev-parse", "HEAD"]).parse().unwrap());
    }
    sandbox.git("repo", &["switch", "-q", "main"]);
    steps
}

fn world() -> (Sandbox, Repo, CommitId) {
    let sandbox = Sandbox::new();
    let repo = sandbox.open("repo");
    let base = repo.head().unwrap().commit;
    (sandbox, repo, base)
}

#[test]
fn a_chain_of_steps_keeps_everything_but_its_place() {
    let (sandbox, repo, base) = world();
    let steps = five_steps(&sandbox, base);
    let tip = advance(&repo, base, &[("src/b.txt", Some("by the user\n"))], "meanwhile");
    let mut writer = repo.writer();
    let copies = rebuild(&repo, &mut writer, &steps, base, tip).unwrap();
    writer.flush().unwrap();
    assert_eq!(copies.len(), 5);
    for (number, (step, copy)) in steps.iter().zip(&copies).enumerate() {
        assert_eq!(identity(&sandbox, *step), identity(&sandbox, *copy));
        assert!(identity(&sandbox, *copy).contains(&format!("170000010{number} +0545")));
        let parent = if number == 0 { tip } else { copies[number - 1] };
        assert_eq!(repo.commit(*copy).unwrap().parents, [parent]);
        assert_eq!(show(&sandbox, *copy, "a.txt"), "first try");
        assert_eq!(show(&sandbox, *copy, "src/b.txt"), "by the user");
        assert_eq!(sandbox.try_git("repo", &["cat-file", "-e", &format!("{copy}:src/c.txt")]).is_ok(), number >= 3);
    }
    assert_eq!(sandbox.git("repo", &["fsck", "--no-dangling"]), "");
    // The same again gives the same commits, and on their own base they are themselves.
    assert_eq!(rebuild(&repo, &mut writer, &steps, base, tip).unwrap(), copies);
    assert_eq!(rebuild(&repo, &mut writer, &steps, base, base).unwrap(), steps);
    assert_eq!(rebuild(&repo, &mut writer, &[], base, tip).unwrap(), []);
}

#[test]
fn what_does_not_fit_is_named_with_its_step() {
    let (sandbox, repo, base) = world();
    let steps = five_steps(&sandbox, base);
    let tip = advance(&repo, base, &[("src/c.txt", Some("mine\n"))], "meanwhile");
    let (step, found) = conflict(rebuild(&repo, &mut repo.writer(), &steps, base, tip));
    assert_eq!((step, names(&found.paths)), (steps[3], vec!["src/c.txt".to_owned()]));
    assert!(found.details[0].contains("src/c.txt"), "{found:?}");
    // One side removed what the other changed.
    let tip = advance(&repo, base, &[("a.txt", None), ("src/c.txt", Some("mine\n"))], "meanwhile");
    let (step, found) = conflict(rebuild(&repo, &mut repo.writer(), &steps, base, tip));
    assert_eq!((step, names(&found.paths)), (steps[0], vec!["a.txt".to_owned()]));
    assert!(found.details[0].contains("modify/delete"), "{found:?}");
    assert!(found.to_string().contains("`a.txt`"), "{found}");
}

#[test]
fn a_change_the_tip_has_already_becomes_an_empty_step() {
    let (sandbox, repo, base) = world();
    let steps = five_steps(&sandbox, base);
    let tip = advance(&repo, base, &[("a.txt", Some("first try\n")), ("x", Some("x\n"))], "picked by the user");
    let mut writer = repo.writer();
    let copies = rebuild(&repo, &mut writer, &steps, base, tip).unwrap();
    writer.flush().unwrap();
    let trees: Vec<_> = copies.iter().map(|copy| repo.tree_of(*copy).unwrap()).collect();
    let of_tip = repo.tree_of(tip).unwrap();
    assert_eq!(trees[..3], [of_tip; 3]);
    assert_eq!(git::diff::changes(&repo, of_tip, trees[4]).unwrap().len(), 1);
}

#[test]
fn work_that_waits_in_the_writer_can_be_built_on() {
    let (_sandbox, repo, base) = world();
    let mut writer = repo.writer();
    let blob = writer.blob(b"late\n").unwrap();
    let edit = git::TreeEdit::Put("late".into(), git::EntryKind::File, blob);
    let tree = writer.tree(Some(repo.tree_of(base).unwrap()), &[edit]).unwrap();
    let step = writer.commit(&super::spec(tree, &[base], "late")).unwrap();
    let tip = advance(&repo, base, &[("x", Some("x\n"))], "meanwhile");
    let copies = rebuild(&repo, &mut writer, &[step], base, tip).unwrap();
    writer.flush().unwrap();
    assert_eq!(repo.tree_file(repo.tree_of(copies[0]).unwrap(), &"late".into()).unwrap().unwrap(), b"late\n");
}

#[test]
fn a_failed_task_keeps_steps_and_logs_without_code() {
    let (sandbox, repo, base) = world();
    let first = advance(&repo, base, &[("a.txt", Some("broken\n")), ("spec/logs/1.log", Some("one\n"))], "implement");
    let second = advance(&repo, first, &[("spec/logs/2.log", Some("two\n")), ("spec/odd", Some("odd\n"))], "test");
    let third = advance(&repo, second, &[], "failed");
    let tip = advance(&repo, base, &[("src/b.txt", Some("by the user\n")), ("spec/mine", Some("mine\n"))], "meanwhile");
    let logs = ["spec/logs/1.log", "spec/logs/2.log", "spec/logs", "never/written.log"].map(Into::into);
    let mut writer = repo.writer();
    let copies = without_code(&repo, &mut writer, &[first, second, third], tip, &logs).unwrap();
    writer.flush().unwrap();
    let added = |copy: CommitId| {
        let changes = git::diff::changes(&repo, repo.tree_of(tip).unwrap(), repo.tree_of(copy).unwrap()).unwrap();
        changes.iter().map(|change| change.path.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(added(copies[0]), ["spec/logs/1.log"]);
    assert_eq!(added(copies[1]), ["spec/logs/1.log", "spec/logs/2.log"]);
    assert_eq!(added(copies[2]), ["spec/logs/1.log", "spec/logs/2.log"]);
    for (step, copy) in [first, second, third].into_iter().zip(&copies) {
        assert_eq!(identity(&sandbox, step), identity(&sandbox, *copy));
    }
    assert_eq!(repo.commit(copies[2]).unwrap().parents, [copies[1]]);
    assert_eq!(sandbox.git("repo", &["fsck", "--no-dangling"]), "");
    // Without logs the files are those of the tip.
    let bare = without_code(&repo, &mut writer, &[first, third], tip, &[]).unwrap();
    writer.flush().unwrap();
    assert_eq!(added(bare[1]), Vec::<String>::new());
}

#[test]
fn a_log_never_takes_the_place_of_something_else() {
    let (_sandbox, repo, base) = world();
    let step = advance(&repo, base, &[("logs/1.log", Some("one\n")), ("logs/2.log", Some("two\n"))], "implement");
    let logs = ["logs/1.log", "logs/2.log"].map(Into::into);
    let added = |tip: CommitId| {
        let mut writer = repo.writer();
        let copies = without_code(&repo, &mut writer, &[step], tip, &logs).unwrap();
        writer.flush().unwrap();
        git::diff::changes(&repo, repo.tree_of(tip).unwrap(), repo.tree_of(copies[0]).unwrap()).unwrap().len()
    };
    assert_eq!(added(base), 2);
    assert_eq!(added(advance(&repo, base, &[("logs", Some("a file\n"))], "file")), 0);
    assert_eq!(added(advance(&repo, base, &[("logs/1.log/x", Some("a directory\n"))], "directory")), 1);
}

#[test]
fn a_phase_is_merged_with_both_tips_as_parents() {
    let (sandbox, repo, base) = world();
    let phase: TaskId = "phase1".parse().unwrap();
    let at = jiff::Timestamp::from_second(1_700_000_500).unwrap();
    let work = advance(&repo, base, &[("a.txt", Some("phase\n"))], "work");
    let mut writer = repo.writer();
    // Also where the target could simply move forward.
    for target in [base, advance(&repo, base, &[("src/b.txt", Some("target\n"))], "target")] {
        let merge = merge_phase(&repo, &mut writer, &phase, target, work, at).unwrap();
        assert_eq!(merge_phase(&repo, &mut writer, &phase, target, work, at).unwrap(), merge);
        writer.flush().unwrap();
        let commit = repo.commit(merge).unwrap();
        assert_eq!((commit.text().as_str(), commit.at), ("merge: phase1 complete\n", at));
        assert_eq!(commit.parents, [target, work]);
        assert_eq!(show(&sandbox, merge, "a.txt"), "phase");
        assert_eq!(show(&sandbox, merge, "src/b.txt"), show(&sandbox, target, "src/b.txt"));
    }
    let other = advance(&repo, base, &[("a.txt", Some("target\n"))], "target");
    let refused = merge_phase(&repo, &mut writer, &phase, other, work, at);
    assert!(matches!(&refused, Err(MergeError::Conflict(c)) if names(&c.paths) == ["a.txt"]), "{refused:?}");
}

#[test]
fn trees_merge_by_their_own_attributes() {
    let (sandbox, repo, base) = world();
    let common = advance(&repo, base, &[(".gitattributes", Some("*.log merge=union\n")), ("x.log", Some("1\n"))], "x");
    let one = advance(&repo, common, &[("x.log", Some("1\none\n"))], "one");
    let two = advance(&repo, common, &[("x.log", Some("1\ntwo\n"))], "two");
    let [common, one_tree, two_tree] = [common, one, two].map(|commit| repo.tree_of(commit).unwrap());
    let merged = git::merge::merge_trees(&repo, common, one_tree, two_tree).unwrap();
    assert_eq!(repo.tree_file(merged, &"x.log".into()).unwrap().unwrap(), b"1\none\ntwo\n");
    assert_eq!(git::merge::merge_commits(&repo, one, two).unwrap(), merged);
    // A checkout with other ideas is not asked.
    sandbox.write("repo/.gitattributes", "*.log -merge\n");
    sandbox.commit("repo", "other attributes");
    assert_eq!(git::merge::merge_trees(&repo, common, one_tree, two_tree).unwrap(), merged);
}

#[test]
fn a_merge_that_cannot_start_is_no_conflict() {
    let (sandbox, repo, base) = world();
    sandbox.git("repo", &["switch", "-q", "--orphan", "unrelated"]);
    sandbox.write("repo/u", "u\n");
    sandbox.commit("repo", "unrelated");
    let unrelated = repo.resolve("unrelated").unwrap();
    assert!(matches!(git::merge::merge_commits(&repo, base, unrelated), Err(MergeError::Git(_))));
    let missing = git::TreeId::from_bytes([9; 20]);
    let tree = repo.tree_of(base).unwrap();
    assert!(matches!(
        git::merge::merge_trees(&repo, tree, missing, repo.tree_of(unrelated).unwrap()),
        Err(MergeError::Git(_))
    ));
}
