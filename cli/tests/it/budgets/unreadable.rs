//! Records that cannot be read: what was spent in them does not count as nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::{settings, work};
use crate::sessions::{graph, tool};
use crate::support::{Ran, TestEnv};
use crate::trees::garden::{Garden, Tree};

/// An agent that destroys what is on record of every session so far, and is done: two tokens at a dollar each.
const WIPES: &str = r#"
scripts:
  - name: plan
    when: {node: plan}
    steps: [{text: '{"tasks": [{"id": "T1", "description": "Do it"}]}', usage: {input: 1}}]
  - name: wipe
    steps:
      - text: Wipe.
        tools:
          - shell:
              command: |
                objects=$(git rev-parse --path-format=absolute --git-path objects)
                for record in $(git for-each-ref --format='%(objectname)' refs/pleach/); do
                  file=$objects/$(echo $record | sed 's,^..,&/,')
                  chmod u+w $file && printf wiped | dd of=$file conv=notrunc
                done
        usage: {input: 1}
      - {text: Done., usage: {input: 1}}
"#;

fn world(budget: &str) -> TestEnv {
    let env = TestEnv::with_script(WIPES);
    limit(&env, budget);
    env
}

fn limit(env: &TestEnv, budget: &str) {
    env.configure(&settings(&format!("budget: {budget}")));
}

/// Makes an object something else than what its id says.
fn damage(env: &TestEnv, id: &str) {
    let file = env.repo_path().join(".git/objects").join(&id[..2]).join(&id[2..]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("a loose object");
    fs::write(&file, "damaged").expect("a loose object");
}

/// Fails the test unless a run was refused because of what this session has spent.
#[track_caller]
fn assert_refused(ran: Ran, session: &str, limit: &str) {
    let ran = ran.expect(7);
    let said = format!("what session {session} has spent cannot be read, and {limit}");
    assert!(ran.stderr.contains(&said), "{ran}");
    let hint = format!("`pleach rm --force {session}` removes the session, and what it has spent counts no longer");
    assert!(ran.stderr.contains(&hint), "{ran}");
}

#[test]
fn spending_removed_from_the_record_still_counts() {
    for budget in ["{per_day_tokens: 3}", "{per_day_usd: 3, on_exceeded: pause}"] {
        let env = world(budget);
        env.run(&work(), &[]).expect(0);
        let session = env.session();
        let counts = "the limits of a day (`budget.per_day_tokens`, `budget.per_day_usd`) count it";
        assert_refused(env.pleach(&["-y", "run", "../pipeline.dot"]), &session, counts);
        assert_eq!(env.session(), session, "no other was begun");
        let cost = env.pleach(&["cost"]).expect(0);
        cost.warns("session-unreadable").naming(&session);
        assert!(!cost.stdout.contains("No agent has taken a turn"), "{cost}");
        // Nobody is paid for these.
        env.run(&graph("plain", &(tool("one", "echo 1 > one") + "start -> one -> exit")), &[]).expect(0);
        env.git(&["update-ref", "-d", &format!("refs/pleach/sessions/{session}/main")]);
        env.run(&work(), &[]).expect(0);
    }
}

#[test]
fn a_refused_resume_continues_once_fixed() {
    let env = TestEnv::with_script(super::FIVE_FILES);
    limit(&env, "{per_day_tokens: 9}");
    let gate = " ask [shape=hexagon, label=\"Go on?\"]\n talk\n ask -> talk [label=\"yes\"]\n";
    env.run(&graph("gated", &format!("{gate} start -> ask\n talk -> exit")), &[]).expect(4);
    let waits = env.session();
    env.run(&work(), &[]).expect(0);
    let other = env.sessions().into_iter().find(|id| *id != waits).expect("a second session");
    damage(&env, &env.git(&["rev-parse", &format!("refs/pleach/sessions/{other}/main")]));
    let resume = || env.pleach(&["-y", "resume", &waits, "--answer", "ask=yes"]);
    assert_refused(resume(), &other, "the limits of a day");
    env.git(&["update-ref", "-d", &format!("refs/pleach/sessions/{other}/main")]);
    resume().expect(0);
}

#[test]
fn without_stopping_limits_unreadable_spending_is_warned_or_ignored() {
    let env = world("{per_day_tokens: 3, on_exceeded: warn}");
    env.run(&work(), &[]).expect(0);
    let session = env.session();
    let ran = env.pleach(&["-y", "run", "../pipeline.dot"]).expect(0);
    ran.warns_once("spending-unreadable").naming(&session);
    limit(&env, "{usd: 3}");
    let ran = env.pleach(&["-y", "run", "../pipeline.dot"]).expect(0);
    // Nobody has to know.
    ran.does_not_warn("spending-unreadable");
}

#[test]
fn a_planner_with_unreadable_spending_is_refused() {
    let env = world("{per_day_tokens: 9}");
    env.write("repo/spec/tasks.md", "# Shop\n");
    let build = || env.pleach(&["-y", "build", "--spec-dir", "spec"]);
    build().expect(0);
    env.run(&work(), &[]).expect(0);
    let session = env.session();
    let ran = build().expect(7);
    ran.fails_with("spending-unreadable")
        .naming("what planners have spent cannot be read")
        .naming("`git update-ref -d refs/pleach/planning`");
    let cost = env.pleach(&["cost"]).expect(0);
    cost.warns("session-unreadable");
    env.git(&["update-ref", "-d", "refs/pleach/planning"]);
    assert_refused(build(), &session, "the limits of a day");
    limit(&env, "{per_day_tokens: 9, on_exceeded: warn}");
    let ran = build().expect(0);
    assert_eq!(ran.stderr.matches(&format!("what session {session} has spent cannot be read")).count(), 1, "{ran}");
}

#[test]
fn a_run_over_a_tree_counts_no_session_as_nothing() {
    for (budget, refuses) in [("{usd: 50}", true), ("{per_task_tokens: 50}", true), ("{}", false)] {
        let garden = Garden::new(&Tree::of(&["T001", "T002: T001", "T003: T002"]));
        garden.env.write("script.yaml", super::trees::SCRIPT);
        limit(&garden.env, budget);
        garden.garden(&[]).expect(0);
        let first = garden.env.session();
        garden.garden(&[]).expect(0);
        damage(&garden.env, &garden.env.git(&["rev-parse", &format!("refs/pleach/sessions/{first}/main")]));
        let ran = garden.garden(&[]);
        if !refuses {
            ran.expect(0);
            continue;
        }
        assert_refused(ran, &first, "the limits of a run and of a task (`budget.tokens`, `budget.usd`, ");
        let cost: Value = garden.env.pleach(&["--json", "cost"]).expect(0).json();
        assert_eq!(cost["total"]["cost_usd"], 2.0, "T002 alone: nobody was asked");
        garden.env.git(&["update-ref", "-d", &format!("refs/pleach/sessions/{first}/main")]);
        garden.garden(&[]).expect(0);
        assert_eq!(garden.completed(), ["T001", "T002", "T003"], "{budget}");
    }
}
