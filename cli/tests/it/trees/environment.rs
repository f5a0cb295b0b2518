//! What is wrong outside of the tasks: it stops a run, counts as no attempt and leaves no step.

use super::garden::{Garden, Tree};

#[test]
fn a_missing_program_is_found_before_anything_runs() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let before = garden.env.git(&["rev-parse", "main"]);
    for program in ["/nonexistent/agent", "no-such-agent"] {
        let ran = garden.gardener(&["--runner", &format!("command:{program}")]).expect(7);
        ran.fails_with("agent-missing").naming(format!("`{program}`"));
    }
    assert_eq!(garden.env.git(&["rev-parse", "main"]), before);
    assert_eq!(garden.refs("refs/heads/pleach/"), [""; 0]);
    garden.gardener(&[]).expect(0);
}

#[test]
fn a_program_that_cannot_be_started_counts_as_no_attempt() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    // Where it is looked for is the worktree, so that nobody can know beforehand.
    let ran = garden.gardener(&["--runner", "command:./agent-of-the-repository"]).expect(7);
    ran.fails_with("agent-unusable").naming("`./agent-of-the-repository`").naming("run the same command again");
    assert_eq!(garden.told("--branches"), [""; 0]);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 review-approved", "T001 complete"]);
    assert_eq!(garden.newest("main", "T001 implement-pass").trailer("Arborist-Retry"), Some("0"));
}

const WRITES: &str = "{text: Write it., tools: [{write_file: {file_path: one, content: \"1\\n\"}}]}";

const DOWN: &str = "{error: {status: 503, message: no service, retry_after: 1ms}, tries: 99}";

fn script(implement: &str, review: &str) -> String {
    format!(
        r#"
scripts:
  - name: implement
    when: {{node: implement}}
    steps:
      - {implement}
      - text: It is there.
  - name: review
    when: {{node: review}}
    steps:
      - {review}
"#
    )
}

/// The key is refused, the account is empty, there is no such model.
#[test]
fn a_refused_key_stops_the_run_where_it_is() {
    for status in [401, 402, 403, 404] {
        let garden = Garden::new(&Tree::of(&["T001"]));
        garden.env.script(&script(WRITES, &format!("error: {{status: {status}, message: not with this}}")));
        let ran = garden.gardener(&[]).expect(7);
        ran.fails_with("agent-unusable").naming("not with this");
        assert_eq!(garden.told("pleach/tasks/main/T001"), ["T001 implement-pass"]);
        assert_eq!(garden.told("main"), [""; 0]);
        garden.env.script(&script(WRITES, "text: APPROVED"));
        garden.gardener(&[]).expect(0);
        assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 review-approved", "T001 complete"]);
    }
}

#[test]
fn a_long_description_is_cut_only_in_variables() {
    let long = "leaf ".repeat(40_000);
    let tree = Tree::of(&["T001", "T002"])
        .with("T001", "description", long.clone().into())
        .tests("T001", &["unit: printf %s \"$task_description\" > \"$HOME/long\""])
        .with("T002", "description", "a\0b".into());
    let garden = Garden::new(&tree);
    garden.gardener(&[]).expect(0);
    assert!(garden.asked("T001", "implement", 1).contains(long.trim_end()));
    assert_eq!(garden.env.read("home/long"), long[..100_000]);
}

#[test]
fn a_provider_that_is_down_costs_no_attempt() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.env.script(&script(DOWN, "text: APPROVED"));
    let ran = garden.gardener(&[]).expect(7);
    ran.fails_with("agent-unusable")
        .naming("`implement`")
        .naming("503")
        .naming("run the same command again: no attempt was counted");
    assert_eq!(garden.told("--branches"), [""; 0]);

    garden.env.script(&script(WRITES, DOWN));
    garden.gardener(&[]).expect(7);
    assert_eq!(garden.told("--branches"), ["T001 implement-pass"]);

    garden.env.script(&script(WRITES, "text: APPROVED"));
    garden.gardener(&[]).expect(0);
    let done = |task: &str| ["implement-pass", "review-approved", "complete"].map(|step| format!("{task} {step}"));
    assert_eq!(garden.told("main"), [done("T001"), done("T002")].concat());
    assert_eq!(garden.newest("main", "T001 review-approved").trailer("Arborist-Retry"), Some("0"));
}

/// A session has its pipeline and its settings as they were; one that waits for others does not continue with them.
#[test]
fn an_unusable_agent_continues_once_fixed() {
    const PIPELINE: &str = r#"digraph mine { start [shape=Mdiamond]; done [shape=Msquare]; implement [step=implement]
        review [step=review, llm_model="MODEL"]; start -> implement -> review -> done }"#;
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("mine.dot", &PIPELINE.replace("MODEL", "typo"));
    garden.env.script(&script(WRITES, "error: {status: 404, message: no such model}"));
    let args = ["--pipeline", "mine.dot"];
    garden.gardener(&args).expect(7);
    garden.gardener(&args).expect(7);
    assert_eq!(garden.refs("refs/pleach/sessions").len(), 1, "what is as it was goes on");
    garden.commit("mine.dot", &PIPELINE.replace("MODEL", "mended"));
    garden.env.script(&script(WRITES, "text: APPROVED"));
    garden.gardener(&args).expect(0);
    assert_eq!(garden.refs("refs/pleach/sessions").len(), 2);
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 review-approved", "T001 complete"]);
}

/// A pipeline whose first node makes no step, and whose second has a model.
const PREPARED: &str = r#"digraph mine { start [shape=Mdiamond]; done [shape=Msquare]; prep
    implement [step=implement, llm_model="MODEL"]; review [step=review]; start -> prep -> implement -> review -> done }"#;

fn prepared(implement: &str) -> String {
    let prep = "  - {name: prep, when: {node: prep}, steps: [{text: Prepare., tools: [{write_file: {file_path: prepared, \
        content: \"1\\n\"}}]}, {text: Prepared.}]}\n";
    script(implement, "text: APPROVED") + prep
}

/// What is recorded has no secret in it, and is no other setting for that.
#[test]
fn a_setting_holding_a_secret_stays_the_same() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("mine.dot", &PREPARED.replace("MODEL", "typo"));
    garden.env.script(&prepared("error: {status: 404, message: no such model}"));
    let config = garden.env.read("pleach.yaml");
    let setup = "worktrees: {setup: 'echo ghp_abcdefghijklmnopqrstuvwxyz0123456789 > /dev/null'}\n";
    garden.env.write("pleach.yaml", config + setup);
    for _ in 0..3 {
        garden.gardener(&["--pipeline", "mine.dot"]).expect(7);
    }
    assert_eq!(garden.refs("refs/pleach/sessions").len(), 1, "what is as it was goes on");
}

#[test]
fn a_session_not_resumed_names_the_true_reason() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let args = ["--pipeline", "mine.dot"];
    garden.commit("mine.dot", &PREPARED.replace("MODEL", "typo"));
    garden.env.script(&prepared("error: {status: 404, message: no such model}"));
    let ran = garden.gardener(&args).expect(7);
    ran.fails_with("agent-unusable")
        .naming("with other settings or another pipeline the task continues from its last step");
    let sid = garden.env.session();
    garden.commit("mine.dot", &PREPARED.replace("MODEL", "mended"));
    garden.env.script(&prepared(WRITES));
    let ran = garden.gardener(&args).expect(0);
    let told = ran.warns_once("session-abandoned").naming("T001").naming(&sid).naming("its settings or its pipeline");
    told.not_naming("`pleach/tasks/main/T001`");
    ran.warns_once("work-kept").not_naming("uncommitted work");
    let told = ran.stderr.split("its work is ").nth(1).and_then(|rest| rest.split(',').next());
    assert_eq!(garden.file(told.expect("where it is"), "prepared"), "1", "{ran}");
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 review-approved", "T001 complete"]);
}

/// Who has answered before is there: what fails then may well be the task's own doing.
#[test]
fn a_provider_failing_mid_work_is_a_crash() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let crashes = script(WRITES, "text: APPROVED").replace("- text: It is there.", &format!("- {DOWN}"));
    garden.env.script(&crashes);
    garden.gardener(&["--max-retries", "1"]).expect(1);
    assert_eq!(garden.told("main"), ["T001 implement-fail", "T001 failed"]);
}

#[test]
fn a_setup_that_fails_is_tried_again_by_the_gardener() {
    let mended = Garden::new(&Tree::of(&["T001"]));
    mended.configure("worktrees: {setup: 'test -e \"$HOME/mended\"'}\n");
    let changed = Garden::new(&Tree::of(&["T001"]));
    changed.configure("worktrees: {setup: 'exit 3'}\n");
    for garden in [&mended, &changed] {
        let ran = garden.gardener(&[]).expect(7);
        ran.fails_with("setup-failed").naming("worktrees.setup");
        assert!(!ran.stderr.contains("pleach resume") && !ran.stderr.contains("pleach rm"), "{ran}");
    }
    mended.env.write("home/mended", "");
    changed.configure("worktrees: {setup: 'true'}\n");
    for garden in [&mended, &changed] {
        let ran = garden.gardener(&[]).expect(0);
        assert!(ran.resumed().contains(&"T001"), "{ran}");
        assert!(ran.stderr.contains("attempt 1 of 5"), "{ran}");
        assert_eq!(garden.completed(), ["T001"]);
        assert_eq!(garden.env.sessions().len(), 1);
    }
}
