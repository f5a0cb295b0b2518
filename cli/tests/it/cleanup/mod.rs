//! `pleach cleanup`: what is old goes, what is needed stays, and all of it is listed. "Cleanup Tests" of the source.

mod keeps;
mod page;
mod remotes;
mod tasks;

use std::fs;

use serde_json::Value;

use crate::sessions::{Gate, tool};
use crate::support::TestEnv;
use crate::worktree_commands::one;

/// What a cleanup of everything that has ended tells.
#[track_caller]
fn clean(env: &TestEnv, more: &[&str]) -> Value {
    let ran = env.pleach(&[&["--json", "cleanup", "--older-than", "0"], more].concat()).expect(0);
    let told = ran.json();
    assert_eq!(told["type"], "dev.orchestra.CleanupCompleted", "{ran}");
    told["data"].clone()
}

/// The names of what was removed of a kind.
fn removed<'a>(told: &'a Value, kind: &str) -> Vec<&'a str> {
    let all = told["removed"].as_array().expect("a list").iter();
    all.filter(|item| item["kind"] == kind).map(|item| item["name"].as_str().expect("a name")).collect()
}

/// What stays, with why.
fn stays(told: &Value) -> Vec<(&str, &str)> {
    let all = told["stays"].as_array().expect("a list").iter();
    all.map(|item| (item["name"].as_str().expect("text"), item["why"].as_str().expect("text"))).collect()
}

/// The sessions on record.
fn recorded(env: &TestEnv) -> Vec<String> {
    let all = refs(env).into_iter();
    all.filter_map(|name| Some(name.strip_prefix("refs/pleach/sessions/")?.split('/').next()?.to_owned())).collect()
}

fn refs(env: &TestEnv) -> Vec<String> {
    env.git(&["for-each-ref", "--format=%(refname)"]).lines().map(str::to_owned).collect()
}

#[test]
fn cleanup_removes_old_branches() {
    let env = TestEnv::with_repo();
    let (merged, worktree) = env.ended();
    let (unmerged, _) = env.ended();
    env.git(&["merge", "--quiet", &format!("pleach/one/{merged}")]);
    let tip = env.git(&["rev-parse", &format!("pleach/one/{unmerged}")]);
    let (moved, _) = env.ended();
    env.git(&["switch", "--quiet", &format!("pleach/one/{moved}")]);
    env.git(&["commit", "--quiet", "--allow-empty", "-m", "Mine"]);
    env.git(&["switch", "--quiet", "main"]);
    // All were used a moment ago.
    let ran = env.pleach(&["cleanup"]).expect(0);
    assert_eq!(ran.stdout.lines().last(), Some("nothing to remove"), "{ran}");
    assert_eq!(recorded(&env).len(), 3);
    let told = clean(&env, &[]);
    let branches = [&merged, &unmerged].map(|sid| format!("pleach/one/{sid}"));
    assert_eq!(removed(&told, "branch"), branches);
    assert_eq!(removed(&told, "record"), [&merged, &unmerged, &moved]);
    // What is on no other branch is kept.
    let kept = format!("refs/pleach/keep/{unmerged}-1");
    assert_eq!(told["kept"][0]["ref"], kept.as_str());
    // One that somebody has committed to is theirs.
    let theirs = format!("refs/heads/pleach/one/{moved}");
    assert_eq!(stays(&told).len(), 1, "{told}");
    assert_eq!(refs(&env), ["refs/heads/main".to_owned(), theirs, kept.clone()]);
    assert_eq!(env.git(&["rev-parse", &format!("{kept}^1")]), tip);
    assert!(!worktree.exists() && !worktree.parent().unwrap().exists());
    assert_eq!(told["removed"][0]["kind"], "run_directory");
    assert_eq!(clean(&env, &[])["removed"], Value::Array(Vec::new()), "nothing is left");
}

#[test]
fn cleanup_removes_orphaned_worktrees() {
    let env = TestEnv::with_repo();
    let (crashed, orphaned) = env.ended();
    let (locked, guarded) = env.ended();
    for session in [&crashed, &locked] {
        env.forget(session);
    }
    env.git(&["worktree", "lock", guarded.to_str().unwrap()]);
    fs::write(orphaned.join("new.txt"), "not committed\n").unwrap();
    // Directories that agents and nodes of a session had which is gone.
    let base = orphaned.parent().unwrap().parent().unwrap();
    let hash = base.file_name().unwrap().to_str().unwrap().rsplit('-').next().unwrap();
    let home = env.root().join(format!("state/pleach/agents/zzzzzzzz-{hash}"));
    let run = base.join("yyyyyyyy/run");
    for dir in [&home, &run] {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("file"), vec![1; 10_000]).unwrap();
    }
    let recent = env.pleach(&["--json", "cleanup", "--older-than", "12h"]).expect(0).json();
    assert_eq!(removed(&recent["data"], "worktree"), [""; 0], "they are not old");
    let told = clean(&env, &[]);
    assert_eq!(removed(&told, "worktree"), [orphaned.to_str().unwrap()]);
    assert_eq!(removed(&told, "home"), [home.to_str().unwrap()]);
    assert_eq!(removed(&told, "run_directory"), [run.parent().unwrap().to_str().unwrap()]);
    assert!(told["bytes"].as_u64().unwrap() > 20_000, "{told}");
    assert!(!orphaned.exists() && !home.exists() && !run.exists() && guarded.exists());
    // What was only there is kept, and the branch without a session goes, too.
    let kept = told["kept"].as_array().unwrap().iter().map(|kept| kept["ref"].as_str().unwrap());
    let kept: Vec<&str> = kept.filter(|name| name.contains(&crashed)).collect();
    assert_eq!(env.git(&["show", &format!("{}:new.txt", kept[0])]), "not committed");
    assert_eq!(removed(&told, "branch"), [format!("pleach/one/{crashed}")]);
    let stays = stays(&told);
    assert!(stays.iter().any(|(name, why)| name.contains(&locked) && why.contains("locked")), "{stays:?}");
    assert!(env.git(&["branch", "--list", "pleach/*"]).contains(&locked), "its worktree is there");
}

#[test]
fn cleanup_preserves_active_sessions() {
    let env = TestEnv::with_repo();
    let (ended, _) = env.ended();
    let gate = Gate::new(&env, "busy");
    let body = tool("work", &format!("echo 1 > made; ({})", gate.command())) + "start -> work -> exit";
    let mut run = env.start(&crate::sessions::graph("busy", &body), &[]);
    let held = gate.reached(&mut run);
    let active = env.sessions().into_iter().find(|id| *id != ended).expect("the session that runs");
    let told = clean(&env, &["--purge"]);
    assert_eq!(removed(&told, "record"), [&ended]);
    assert_eq!(stays(&told), [(format!("session {active}").as_str(), "it is running")]);
    // Its machine is gone, and it can be resumed.
    run.kill(held);
    let told = clean(&env, &["--purge"]);
    let why = "it is dead and can be resumed";
    assert_eq!(stays(&told), [(format!("session {active}").as_str(), why)]);
    assert_eq!(removed(&told, "record"), [""; 0]);
    gate.stay_open();
    env.pleach(&["-y", "resume", &active]).expect(0);
    assert_eq!(removed(&clean(&env, &[]), "record"), [&active]);
}

#[test]
fn cleanup_reports_what_was_removed() {
    let env = TestEnv::with_two_repos();
    env.run(&one("echo 1 > app/made; echo 2 > web/made"), &[]).expect(0);
    env.git(&["merge", "--quiet", &env.branch()]);
    let before = refs(&env);
    let planned = env.pleach(&["cleanup", "--older-than", "0", "--dry-run"]).expect(0);
    assert_eq!(refs(&env), before, "nothing is changed");
    let web = env.branch_in("web");
    let done = env.pleach(&["cleanup", "--older-than", "0"]).expect(0);
    insta::assert_snapshot!(sizeless(&done.to_string()), @"
    exit: 0
    --- stdout
    web: kept the work of session [SID] that nothing else has at refs/pleach/keep/[SID]-1
    app: removed the run directory [TEMP]/state/pleach/worktrees/app-[HASH]/[SID]/run of session [SID] (N KiB)
    app: removed the worktree [TEMP]/state/pleach/worktrees/app-[HASH]/[SID]/main/app of session [SID] (N KiB)
    web: removed the worktree [TEMP]/state/pleach/worktrees/app-[HASH]/[SID]/main/web of session [SID] (N KiB)
    app: removed branch pleach/one/[SID] (was [SHA])
    web: removed branch orchestra/one/[SID] (was [SHA])
    app: removed the record of session [SID] (was [SHA])
    removed 6 things, N KiB
    ");
    let as_planned = planned.stdout.replace("would remove", "removed").replace("(is ", "(was ");
    let as_planned = as_planned.replace("would keep", "kept").replace(" below refs/pleach/keep/", " at …");
    let kept = |line: &str| line.split(" at refs/pleach/keep/").next().unwrap().to_owned();
    let as_done: Vec<String> = done.stdout.lines().map(kept).collect();
    let as_planned: Vec<&str> = as_planned.lines().map(|line| line.trim_end_matches(" at …")).collect();
    assert_eq!(as_done, as_planned, "a dry run tells the same");
    assert_eq!(refs(&env), ["refs/heads/main"]);
    let of_web = env.git_in(&env.web(), &["for-each-ref", "--format=%(refname)"]);
    assert!(of_web.contains("refs/pleach/keep/") && !of_web.contains(&web), "{of_web}");
}

/// A text with sizes of files, which differ from one file system to another, cut out.
fn sizeless(text: &str) -> String {
    let words = text.split_inclusive(' ').collect::<Vec<_>>();
    let is_unit = |word: &str| ["KiB", "MiB"].iter().any(|unit| word.starts_with(unit));
    let next_is_unit = |at: usize| words.get(at + 1).is_some_and(|next| is_unit(next));
    let shown = words.iter().enumerate().map(|(at, word)| {
        if next_is_unit(at) {
            word.replace(|c: char| c.is_ascii_digit() || c == '.', "").replace(' ', "N ")
        } else {
            (*word).to_owned()
        }
    });
    shown.collect()
}
