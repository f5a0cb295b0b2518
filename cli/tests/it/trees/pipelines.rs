//! Pipelines of the user's own in place of implement, test, review.

use super::garden::{APPROVES, Garden, Tree, WRITES};

const LINT: &str = r#"digraph careful {
    start [shape=Mdiamond]
    done [shape=Msquare]
    implement [step=implement]
    lint [shape=parallelogram, step=lint, write=false, tool_command="echo linting; test ! -e ugly"]
    test [shape=parallelogram, step=test, write=false]
    start -> implement -> lint -> test -> done
}
"#;

#[test]
fn a_custom_step_is_a_step_commit() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: true"]));
    garden.commit("careful.dot", LINT);
    garden.agent("test $n = 1 && echo 1 > ugly || { rm ugly; echo 1 > nice; }", APPROVES);
    garden.gardener(&["--pipeline", "careful.dot"]).expect(0);
    assert_eq!(
        garden.told("main"),
        [
            "T001 implement-pass",
            "T001 lint-fail",
            "T001 implement-pass",
            "T001 lint-pass",
            "T001 test-pass",
            "T001 complete"
        ]
    );
    let red = garden.newest("main", "T001 lint-fail");
    assert_eq!(red.subject, "task(main@T001@lint-fail): lint failed for \"Grow T001\" (attempt 1/5)");
    let facts = [("Arborist-Step", "lint"), ("Arborist-Result", "fail"), ("Arborist-Retry", "0")];
    assert_eq!(red.trailers[..3], facts.map(|(key, value)| (key.to_owned(), value.to_owned())));
    assert!(red.body.contains("linting"), "{}", red.body);
    assert!(garden.asked("T001", "implement", 2).contains("linting"));
    assert_eq!(garden.files("main"), ["README.md", "careful.dot", "nice", "task-tree.json"]);
}

#[test]
fn a_task_can_name_a_pipeline_of_its_own() {
    let tree = Tree::of(&["T001", "T002"]).with("T001", "pipeline", "careful.dot".into());
    let garden = Garden::new(&tree);
    garden.commit("careful.dot", LINT);
    garden.gardener(&[]).expect(0);
    assert_eq!(
        garden.told("main"),
        [
            "T001 implement-pass",
            "T001 lint-pass",
            "T001 complete",
            "T002 implement-pass",
            "T002 review-approved",
            "T002 complete"
        ]
    );
}

#[test]
fn a_pipe_instead_of_a_pipeline_is_not_waited_for() {
    let tree = Tree::of(&["T001"]);
    for (tree, config, flags, named) in [
        (Tree::of(&["T001"]).with("T001", "pipeline", "pipe.dot".into()), "", &[][..], "the pipeline of T001: "),
        (Tree::of(&["T001"]).with("T001", "pipeline", "/dev/zero".into()), "", &[], "the pipeline of T001: "),
        (Tree::of(&["T001"]).with("T001", "pipeline", "/dev/stdin".into()), "", &[], "the pipeline of T001: "),
        (tree, "tree: {pipeline: repo/pipe.dot}\n", &[], ""),
        (Tree::of(&["T001"]), "", &["--pipeline", "pipe.dot"], ""),
        (Tree::of(&["T001"]), "", &["--pipeline", "/dev/zero"], ""),
    ] {
        let garden = Garden::new(&tree);
        garden.configure(config);
        let repo = garden.env.repo_path();
        assert!(garden.env.program("mkfifo", &repo).arg("pipe.dot").status().unwrap().success());
        let run = garden.env.spawn(&[&["-y", "gardener"], flags].concat());
        let ran = run.end_soon().expect(2);
        ran.fails_with("pipeline-unreadable").naming(named);
        let says = ["it is a named pipe, not a file", "it is a device, not a file"];
        assert!(says.iter().any(|says| ran.stderr.contains(says)), "{ran}");
        assert!(garden.told("main").is_empty(), "{ran}");
    }
}

#[test]
fn a_brace_behind_the_graph_is_no_place_for_settings() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.configure("tree: {runner_timeout: 60}\n");
    garden.commit("careful.dot", &format!("{LINT}// the end of }} careful.dot\n/* }} */\n"));
    let ran = garden.gardener(&["--pipeline", "careful.dot", "--model", "m1"]).expect(0);
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 lint-pass", "T001 complete"], "{ran}");
    let started = garden.env.story().first("PipelineStarted");
    let set = "    implement [llm_model=\"m1\", timeout=\"60s\"]\n}\n// the end";
    assert!(started["dot"].as_str().is_some_and(|dot| dot.contains(set)), "{started}");
}

#[test]
fn a_missing_task_pipeline_is_reported_with_its_path() {
    let tree = Tree::of(&["T001", "T002"]).with("T002", "pipeline", "flows/careful.dot".into());
    let garden = Garden::new(&tree);
    garden.commit("plans/task-tree.json", &tree.json());
    garden.env.git(&["rm", "--quiet", "task-tree.json"]);
    garden.env.git(&["commit", "--quiet", "-m", "Another place"]);
    garden.commit("flows/careful.dot", LINT);
    // It counts from where the tree is.
    let ran = garden.gardener(&["--tree", "plans/task-tree.json"]).expect(2);
    let says = "the pipeline of T002: cannot read `plans/flows/careful.dot`";
    assert!(ran.stderr.contains(says), "{ran}");
    garden.commit("plans/flows/careful.dot", LINT);
    garden.gardener(&["--tree", "plans/task-tree.json"]).expect(0);
    assert!(garden.told("main").contains(&"T002 lint-pass".to_owned()));
}

#[test]
fn a_step_on_a_node_that_makes_none_is_refused() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let asks = "digraph g { start [shape=Mdiamond] done [shape=Msquare] implement [label=Do, step=implement]\n\
                ask [shape=hexagon, step=ask, label=\"Keep it?\"]\n\
                start -> implement -> ask -> done [label=Yes] }";
    let garden_of = |dot: &str| {
        garden.commit("mine.dot", dot);
        garden.gardener(&["--pipeline", "mine.dot", "--auto-approve"])
    };
    let says = "`ask` (`shape=hexagon`) cannot be the step `ask`: only agents (`shape=box`) and commands \
                (`shape=parallelogram`) can be steps";
    let ran = garden_of(asks).expect(2);
    assert!(ran.stderr.contains(says), "{ran}");
    let ran = garden.env.pleach(&["validate", "mine.dot"]).expect(0);
    assert!(ran.stdout.contains("warning") && ran.stdout.contains(says), "{ran}");
    let ran = garden_of(&asks.replace("start [shape=Mdiamond]", "start [shape=Mdiamond, step=begin]")).expect(2);
    ran.fails_with("task-pipeline-invalid").naming("`start`").naming("`shape=Mdiamond`").naming("`begin`");
    assert_eq!(garden.told("main"), [""; 0]);
    garden_of(&asks.replace(" step=ask,", "")).expect(0);
}

#[test]
fn an_invalid_step_name_is_refused_with_the_reason() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let refused = |step: &str, why: &str| {
        garden.commit("mine.dot", &LINT.replace("step=lint", &format!("step=\"{step}\"")));
        let ran = garden.gardener(&["--pipeline", "mine.dot"]).expect(2);
        ran.fails_with("task-pipeline-invalid").naming(format!("`{step}`")).naming(why);
    };
    for step in ["complete", "failed", "reset", "run-start", "skipped"] {
        refused(step, "complete, failed, reset, run-start, skipped are reserved");
    }
    refused("My lint", "use a-z, 0-9 and `-`");
    assert_eq!(garden.told("main"), [""; 0]);
}

#[test]
fn a_pipeline_that_goes_in_circles_is_refused() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("round.dot", &LINT.replace("test -> done", "test -> implement\n    test -> done"));
    let ran = garden.gardener(&["--pipeline", "round.dot"]).expect(2);
    assert!(ran.stderr.contains("round.dot") && !ran.stderr.contains("back to `done`"), "{ran}");
    // Nothing else is wrong with it.
    ran.fails_with("task-pipeline-invalid").naming("the pipeline of a task has no cycle");
    assert_eq!(garden.told("main"), [""; 0]);
    for jump in [
        LINT.replace("step=lint,", "step=lint, retry_target=implement,"),
        LINT.replace("step=lint,", "step=lint, goal_gate=true, fallback_retry_target=test,"),
        LINT.replace("digraph careful {", "digraph careful {\n    graph [retry_target=implement]"),
    ] {
        garden.commit("jump.dot", &jump);
        let ran = garden.gardener(&["--pipeline", "jump.dot"]).expect(2);
        ran.fails_with("task-pipeline-invalid").naming("retry_target").naming("leads back to");
    }
    // What only leads on is no circle.
    garden.commit("jump.dot", &LINT.replace("step=implement]", "step=implement, retry_target=done]"));
    garden.gardener(&["--pipeline", "jump.dot"]).expect(0);
    let ran = garden.gardener(&["--pipeline", "missing.dot"]).expect(2);
    ran.fails_with("pipeline-unreadable").naming("missing.dot");
}

#[test]
fn a_pipeline_knows_the_task_it_is_run_for() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let own = "Please see to task $task_id: $task_name";
    let prompted = LINT.replace("[step=implement]", &format!("[step=implement, prompt=\"{own}\"]"));
    garden.commit("careful.dot", &prompted);
    garden.agent("echo $n > try$n; test $n = 1 && exit 1; true", APPROVES);
    garden.gardener(&["--pipeline", "careful.dot"]).expect(0);
    assert!(garden.asked("T001", "implement", 1).starts_with("Please see to task T001: Grow T001\n"));
    let second = garden.asked("T001", "implement", 2);
    assert!(second.contains("--- Previous runner error ---"), "{second}");
}

/// A name or a description is text wherever it goes, and never a command.
#[test]
fn task_variables_reach_prompts_commands_tests_and_conditions() {
    const KNOWING: &str = r#"digraph knowing {
        goal = "See to $task_id"
        start [shape=Mdiamond]
        done [shape=Msquare]
        implement [step=implement, prompt="Do task $task_id: {{ task_name }} ($task_description; $goal)"]
        which [shape=diamond]
        lint [shape=parallelogram, step=lint, tool_command="echo \"$task_id|$task_name|$task_description|$goal\""]
        test [shape=parallelogram, step=test]
        start -> implement -> which
        which -> lint [condition="context.task_id=T001"]
        which -> test [condition="context.task_id!=T001"]
        lint -> test -> done
    }"#;
    let tree = Tree::default().phase("phase1", &["T001", "T002"]);
    let tree = tree.with("T001", "name", "One `id`".into()).with("T001", "description", "a $(id) b".into());
    let tree = tree.tests("T001", &["unit: echo \"$task_id|$task_name|$task_description|$goal\""]);
    let tree = tree.tests("phase1", &["e2e: echo \"$task_id|$task_name|$task_description|$goal\""]);
    let garden = Garden::new(&tree);
    garden.commit("knowing.dot", KNOWING);
    garden.agent(&format!("echo \"$task_id|$task_name\" > $task.env; {WRITES}"), APPROVES);
    garden.gardener(&["--pipeline", "knowing.dot"]).expect(0);
    let told = garden.told("main").into_iter().filter(|step| step.contains("lint")).collect::<Vec<_>>();
    assert_eq!(told, ["T001 lint-pass"], "the way depends on the task");
    let asked = garden.asked("T001", "implement", 1);
    assert!(asked.starts_with("Do task T001: One `id` (a $(id) b; See to T001)\n"), "{asked}");
    let asked = garden.asked("T002", "implement", 1);
    assert!(asked.starts_with("Do task T002: Grow T002 (Make T002 grow.; See to T002)\n"), "{asked}");
    let body = |status| garden.newest("main", status).body;
    assert!(body("T001 lint-pass").ends_with("\nT001|One `id`|a $(id) b|See to T001"), "{}", body("T001 lint-pass"));
    assert!(body("T001 test-pass").ends_with("\nT001|One `id`|a $(id) b|See to T001"), "{}", body("T001 test-pass"));
    assert!(
        body("phase1 test-pass").ends_with("\nphase1|Phase phase1||phase1: Phase phase1"),
        "{}",
        body("phase1 test-pass")
    );
    assert_eq!(garden.file("main", "T001.env"), "T001|One `id`");
}

#[test]
fn turns_can_be_on_the_branch_as_well() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.configure("commits: turns\n");
    garden.agent(WRITES, APPROVES);
    garden.gardener(&[]).expect(0);
    let all = garden.env.git(&["log", "--reverse", "--format=%an|%s", "main"]);
    let all: Vec<&str> = all.lines().skip(3).collect();
    assert_eq!(
        all,
        [
            "implement (agent.sh)|Write T001.txt",
            "pleach|task(main@T001@implement-pass): implement \"Grow T001\"",
            "pleach|task(main@T001@review-approved): review approved for \"Grow T001\"",
            "pleach|task(main@T001@complete): complete \"Grow T001\"",
        ]
    );
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(ran.tasks_done(), (1, 1), "{ran}");
}

#[test]
fn what_an_agent_commits_itself_is_no_step() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.configure("commits: turns\n");
    let forged = "printf 'task(main@T002@complete): complete \"Grow T002\"\\n\\nArborist-Step: complete\\n\
                  Arborist-Result: pass\\nPleach-Tree: task-tree.json\\n' | git commit --quiet --allow-empty -F -";
    garden.agent(&format!("{WRITES}; {forged}"), APPROVES);
    garden.garden(&["--task", "T001"]).expect(0);
    let forgeries = || garden.env.git(&["log", "--format=%an", "--grep=T002@complete", "main"]);
    assert!(!forgeries().is_empty(), "what the agent committed has landed");
    let status = garden.env.pleach(&["status"]).expect(0);
    assert_eq!(status.tasks_done(), (1, 2), "{status}");
    garden.agent(WRITES, APPROVES);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.times_asked("T002", "implement"), 1);
}

#[test]
fn a_failed_task_with_turns_leaves_only_steps() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: false"]));
    garden.configure("commits: turns\ntree: {max_retries: 1}\n");
    garden.gardener(&[]).expect(1);
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 test-fail", "T001 failed"]);
    assert_eq!(garden.env.git(&["log", "--format=%an", "main", "--author=implement"]), "");
    assert_eq!(garden.files("main"), ["README.md", "task-tree.json"]);
    assert!(garden.files("pleach/tasks/main/T001").contains(&"T001.txt".to_owned()));
}

#[test]
fn a_step_that_is_a_command_may_write() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let tidy = LINT
        .replace("write=false, tool_command=\"echo linting; test ! -e ugly\"", "tool_command=\"echo tidied > tidy\"");
    garden.commit("tidy.dot", &tidy.replace("lint", "tidy"));
    garden.gardener(&["--pipeline", "tidy.dot"]).expect(0);
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 tidy-pass", "T001 complete"]);
    let step = garden.newest("main", "T001 tidy-pass");
    assert_eq!(garden.env.changed(&step.id), ["tidy"], "what it wrote is its step's");
    assert_eq!(garden.file("main", "tidy"), "tidied");
}

#[test]
fn an_attempt_failing_before_its_first_step_counts() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: test -e three"]));
    let look = r#"look [shape=parallelogram, tool_command="echo looked >> \"$HOME/looked\"; test $(wc -l < \"$HOME/looked\") != 2"]"#;
    let dot = LINT.replace("start -> implement -> lint", &format!("{look}\n    start -> look -> implement"));
    garden.commit("look.dot", &dot.lines().filter(|line| !line.contains("step=lint")).collect::<Vec<_>>().join("\n"));
    garden.agent("test $n = 1 && echo 1 > one || echo 3 > three", APPROVES);
    garden.gardener(&["--pipeline", "look.dot"]).expect(0);
    assert_eq!(
        garden.told("main"),
        [
            "T001 implement-pass",
            "T001 test-fail",
            "T001 implement-fail",
            "T001 implement-pass",
            "T001 test-pass",
            "T001 complete"
        ]
    );
    let fail = garden.newest("main", "T001 implement-fail");
    assert_eq!(fail.trailer("Arborist-Retry"), Some("1"));
    assert!(fail.subject.ends_with("(failed, attempt 2/5)"), "{}", fail.subject);
    assert!(garden.asked("T001", "implement", 2).contains("--- Previous runner error ---"));
}

#[test]
fn a_failed_node_without_step_is_named_at_the_end() {
    let dot = |order: &str| {
        format!(
            r#"digraph a {{
            start [shape=Mdiamond]; done [shape=Msquare]
            implement [step=implement]
            look [shape=parallelogram, tool_command="echo LOOKSAYS; exit 2"]
            start -> {order} -> done
        }}"#
        )
    };
    let ended = "its last attempt ended: `look` failed: exit 2: LOOKSAYS";
    let broke_off = "stopped early: two attempts in a row broke off and left nothing";
    let cases = [
        ("look -> implement", WRITES, "5", format!("{broke_off}; {ended}"), 0),
        ("implement -> look", "true", "5", format!("{broke_off}; {ended}"), 2),
        ("implement -> look", WRITES, "2", ended.to_owned(), 2),
    ];
    for (order, agent, attempts, why, asked) in cases {
        let garden = Garden::new(&Tree::of(&["T001"]));
        garden.commit("look.dot", &dot(order));
        garden.agent(agent, APPROVES);
        let ran = garden.gardener(&["--pipeline", "look.dot", "--max-retries", attempts]).expect(1);
        assert_eq!(garden.times_asked("T001", "implement"), asked, "{order}");
        assert_eq!(ran.failed(), ("T001", 2, &*why), "{order}: {ran}");
        let status = garden.env.pleach(&["status"]).expect(0);
        assert!(status.stdout.contains(&format!("({why})\n")), "{order}: {status}");
        let body = garden.newest("main", "T001 implement-fail").body;
        assert_eq!(body, "The attempt ended:\n`look` failed: exit 2: LOOKSAYS");
        let inspected = garden.env.pleach(&["inspect", "T001"]).expect(0);
        assert!(inspected.stdout.contains("  it broke off:\n    `look` failed: exit 2: LOOKSAYS\n"), "{inspected}");
    }
}

#[test]
fn without_implementer_the_first_agent_gets_feedback() {
    let dot = r#"digraph a {
        start [shape=Mdiamond]; done [shape=Msquare]
        code [step=code, prompt="Do task $task_id: $task_name"]
        polish [step=polish, prompt="Polish task $task_id: $task_name"]
        test [shape=parallelogram, step=test]
        start -> code -> polish -> test -> done
    }"#;
    let pipelines = [dot.to_owned(), dot.replace("step=code, ", "").replace("step=polish, ", "")];
    for dot in pipelines {
        let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: echo TESTSAYS; test -e T001.2"]));
        garden.commit("code.dot", &dot);
        garden.agent("echo x > $task.$n", APPROVES);
        garden.gardener(&["--pipeline", "code.dot"]).expect(0);
        let (before, after) = (garden.asked("T001", "code", 1), garden.asked("T001", "code", 2));
        assert!(before.contains("Do task T001: Grow T001\n") && !before.contains("failed attempts"), "{before}");
        let told = "Do task T001: Grow T001\n\nPrevious feedback from failed attempts:\n\n\
                    --- Previous test failure ---\n";
        assert!(after.contains(told) && after.contains("TESTSAYS"), "{after}");
        assert!(!garden.asked("T001", "polish", 2).contains("failed attempts"), "told once");
    }
}

/// A pipeline that says nothing about who may write.
const SILENT: &str = r#"digraph silent {
    start [shape=Mdiamond]
    done [shape=Msquare]
    implement [step=implement]
    test [shape=parallelogram, step=test, tool_command="echo x > from-test; test -e T001.txt"]
    review [step=review]
    start -> implement -> test -> review -> done
}
"#;

#[test]
fn tests_and_reviews_of_any_pipeline_must_not_write() {
    let reviewer = "echo x > from-review; echo APPROVED";
    let own = Tree::of(&["T001"]).with("T001", "pipeline", "silent.dot".into());
    for (tree, more) in [(Tree::of(&["T001"]), &["--pipeline", "silent.dot"][..]), (own, &[])] {
        let garden = Garden::new(&tree);
        garden.commit("silent.dot", SILENT);
        garden.agent(WRITES, reviewer);
        let ran = garden.gardener(more).expect(0);
        assert_eq!(garden.files("main"), ["README.md", "T001.txt", "silent.dot", "task-tree.json"], "{ran}");
        let kept = garden.refs("refs/pleach/keep/");
        assert_eq!(kept.len(), 2, "{kept:?}");
        assert!(kept.iter().all(|name| ran.stderr.contains(name)), "{ran}");
        ran.warns("read-only-undone").naming("`test`").naming("`review`");
    }
}

/// git holds no file of this name, so nobody can save it, and what cannot be saved is not removed.
#[test]
fn irreversible_changes_by_tests_or_reviews_are_not_work() {
    for (test, reviewer) in [("echo x > 'git~1'", "echo APPROVED"), ("true", "echo x > 'git~1'; echo APPROVED")] {
        let garden = Garden::new(&Tree::of(&["T001"]));
        garden.agent(WRITES, reviewer);
        let ran = garden.gardener(&["--test-command", test]).expect(1);
        ran.warns("file-held-back").naming("git~1");
        assert_eq!(garden.files("main"), ["README.md", "task-tree.json"], "{ran}");
    }
}

#[test]
fn a_test_declared_writing_may_write() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("open.dot", &SILENT.replace("step=test,", "step=test, write=may,"));
    garden.gardener(&["--pipeline", "open.dot"]).expect(0);
    assert_eq!(garden.file("main", "from-test"), "x");
}

#[test]
fn an_attempt_past_a_failed_step_is_resumed() {
    let dot = r#"digraph a {
        start [shape=Mdiamond]; done [shape=Msquare]
        implement [step=implement]
        lint [shape=parallelogram, step=lint, tool_command="exit 1"]
        keep [shape=hexagon, label="Lint fails. Keep it?"]
        no [shape=parallelogram, tool_command="exit 1"]
        review [step=review]
        start -> implement -> lint
        lint -> review [condition="outcome=success"]
        lint -> keep [condition="outcome=fail"]
        keep -> review [label=Yes]
        keep -> no [label=No]
        no -> done
        review -> done
    }"#;
    let lenient = ["--pipeline", "lenient.dot", "--max-retries", "1"];
    for (answer, code, end) in [("keep=Yes", 0, "T001 complete"), ("keep=No", 1, "T001 failed")] {
        let garden = Garden::new(&Tree::of(&["T001"]));
        garden.commit("lenient.dot", dot);
        garden.gardener(&lenient).expect(4);
        garden.gardener(&[&lenient[..], &["--answer", answer]].concat()).expect(code);
        assert_eq!(garden.told("main").last().unwrap(), end);
    }
}

#[test]
fn an_attempt_with_two_steps_that_fail_is_one_attempt() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent("true", APPROVES);
    let dot = r#"digraph a {
        start [shape=Mdiamond]; done [shape=Msquare]
        implement [step=implement]
        lint [shape=parallelogram, step=lint, tool_command="exit 1"]
        scan [shape=parallelogram, step=scan, tool_command="exit 2"]
        start -> implement -> lint
        lint -> scan [condition="outcome=fail"]
        lint -> scan [condition="outcome=success"]
        scan -> done [condition="outcome=success"]
    }"#;
    garden.commit("two.dot", dot);
    let ran = garden.gardener(&["--pipeline", "two.dot", "--max-retries", "4"]).expect(1);
    let once = ["T001 implement-pass", "T001 lint-fail", "T001 scan-fail"];
    assert_eq!(garden.told("main"), [&once[..], &once, &["T001 failed"]].concat(), "{ran}");
    assert!(ran.stdout.contains("two attempts in a row changed nothing"), "{ran}");
    assert!(garden.newest("main", "T001 scan-fail").subject.contains("attempt 2/4"), "{ran}");
}

#[test]
fn a_custom_outcome_may_be_used_by_edges_and_branches() {
    let minor = r#"echo '{\"outcome\": \"minor\"}' > $PLEACH_STATUS_FILE"#;
    let ways = [
        "check -> polish [condition=\"outcome=minor\"]; check -> done [condition=\"outcome=success\"]",
        "check -> d; d -> polish [condition=\"outcome=minor\"]; d -> done [condition=\"outcome=success\"]",
    ];
    for way in ways {
        let garden = Garden::new(&Tree::of(&["T001"]));
        let dot = format!(
            r#"digraph a {{
            start [shape=Mdiamond]; done [shape=Msquare]
            implement [step=implement]
            check [shape=parallelogram, step=check, tool_command="{minor}"]
            d [shape=diamond]
            polish [shape=parallelogram, tool_command="echo fine > polished"]
            start -> implement -> check
            {way}
            polish -> done
        }}"#
        );
        let dot = if way.contains("d ->") { dot } else { dot.replace("d [shape=diamond]", "") };
        garden.commit("words.dot", &dot);
        let ran = garden.gardener(&["--pipeline", "words.dot"]).expect(0);
        assert!(garden.files("main").contains(&"polished".to_owned()), "{way}: {ran}");
    }
}

#[test]
fn writes_after_the_tests_are_untested() {
    for (write, tested) in [("echo more > more", "untested"), ("true", "tested")] {
        let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: true"]));
        let dot = format!(
            r#"digraph a {{
            start [shape=Mdiamond]; done [shape=Msquare]
            implement [step=implement]
            test [shape=parallelogram, step=test]
            behind [shape=parallelogram, tool_command="{write}"]
            start -> implement -> test -> behind -> done
        }}"#
        );
        garden.commit("behind.dot", &dot);
        garden.gardener(&["--pipeline", "behind.dot"]).expect(0);
        let complete = garden.newest("main", "T001 complete");
        assert_eq!(complete.trailer("Pleach-Tested"), (tested == "untested").then_some("none"), "{write}");
        assert_eq!(garden.env.pleach(&["status"]).expect(0).stdout.contains("untested"), tested == "untested");
    }
}

#[test]
fn nothing_red_or_rejected_lands_whatever_the_edges() {
    let passed_over = |step: &str, command: &str, more: &str| {
        format!(
            r#"digraph a {{
            start [shape=Mdiamond]; done [shape=Msquare]
            implement [step=implement]
            {step} [shape=parallelogram, step={step}, tool_command="{command}"{more}]
            note [shape=parallelogram, tool_command="true"]
            start -> implement -> {step}
            {step} -> done [condition="outcome=success"]
            {step} -> note [condition="outcome=fail"]
            note -> done
        }}"#
        )
    };
    let cases = [
        ("test", "false", "", "test-fail"),
        ("review", "echo REJECTED bad", "", "review-rejected"),
        ("review", "echo APPROVED; exit 1", "", "review-rejected"),
        ("test", "false", ", retry_target=done", "test-fail"),
    ];
    for (step, command, more, told) in cases {
        let garden = Garden::new(&Tree::of(&["T001"]));
        let dot = passed_over(step, command, more);
        let dot =
            if more.is_empty() { dot } else { dot.replace(" [condition=\"outcome=fail\"]", " [condition=\"a=b\"]") };
        garden.commit("over.dot", &dot);
        let ran = garden.gardener(&["--pipeline", "over.dot", "--max-retries", "1"]).expect(1);
        let told = format!("T001 {told}");
        assert_eq!(garden.told("main"), ["T001 implement-pass", told.as_str(), "T001 failed"], "{command}: {ran}");
        assert!(!garden.files("main").contains(&"T001.txt".to_owned()), "{command}");
    }
    // A command that reviews approves by ending well, unless it says something else.
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("fine.dot", &passed_over("review", "echo fine", ""));
    garden.gardener(&["--pipeline", "fine.dot"]).expect(0);
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 review-approved", "T001 complete"]);
}

#[test]
fn what_ends_an_attempt_after_a_failed_step_is_reported() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let dot = r#"digraph a {
        start [shape=Mdiamond]; done [shape=Msquare]
        implement [step=implement]
        lint [shape=parallelogram, step=lint, tool_command="echo LINTSAYS; exit 1"]
        fix [shape=parallelogram, tool_command="true"]
        build [shape=parallelogram, tool_command="echo BUILDSAYS; exit 2"]
        start -> implement -> lint
        lint -> done [condition="outcome=success"]
        lint -> fix [condition="outcome=fail"]
        fix -> build -> done
    }"#;
    garden.commit("fix.dot", dot);
    let twice = ["--pipeline", "fix.dot", "--max-retries", "2"];
    let ran = garden.gardener(&twice).expect(1);
    let once = ["T001 implement-pass", "T001 lint-fail"];
    assert_eq!(garden.told("main"), [&once[..], &once, &["T001 failed"]].concat(), "no attempt counts twice");
    let asked = garden.asked("T001", "implement", 2);
    assert!(asked.contains("LINTSAYS") && asked.contains("`build` failed: exit 2: BUILDSAYS"), "{asked}");
    let body = garden.newest("main", "T001 failed").body;
    assert_eq!(body, "Runner error:\n`build` failed: exit 2: BUILDSAYS");
    assert!(matches!(ran.failed(), ("T001", 2, why) if why.ends_with("`build` failed: exit 2: BUILDSAYS")), "{ran}");
    // The next budget is told as well.
    garden.gardener(&[&twice[..], &["--retry-failed"]].concat()).expect(1);
    let asked = garden.asked("T001", "implement", 3);
    assert!(asked.contains("LINTSAYS") && asked.contains("BUILDSAYS"), "{asked}");
    // A step that ends its attempt itself is told once.
    let garden = Garden::new(&Tree::of(&["T001"]));
    let alone = dot.lines().filter(|line| !line.contains("fix") && !line.contains("build")).collect::<Vec<_>>();
    garden.commit("lint.dot", &alone.join("\n"));
    let ran = garden.gardener(&["--pipeline", "lint.dot", "--max-retries", "2"]).expect(1);
    assert_eq!(garden.asked("T001", "implement", 2).matches("LINTSAYS").count(), 1);
    assert_eq!(garden.newest("main", "T001 failed").body, "");
    assert_eq!(ran.failed(), ("T001", 2, "lint failed: LINTSAYS (exit 1)"), "{ran}");
}

#[test]
fn a_fan_out_in_the_pipeline_of_a_task() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]).tests("T001", &["unit: test -s api.txt -a -s docs.txt"]));
    garden.commit(
        "both.dot",
        r#"digraph both {
            start [shape=Mdiamond]
            done [shape=Msquare]
            fork [shape=component]
            api [shape=parallelogram, tool_command="echo api >> api.txt"]
            docs [shape=parallelogram, tool_command="echo docs >> docs.txt"]
            join [shape=tripleoctagon]
            implement [step=implement]
            test [shape=parallelogram, step=test, write=false]
            review [step=review, write=false]
            start -> fork
            fork -> api -> join
            fork -> docs -> join
            join -> implement -> test -> review -> done
        }
        "#,
    );
    garden.gardener(&["--pipeline", "both.dot"]).expect(0);
    let steps = garden.told("main");
    assert!(steps.contains(&"T001 test-pass".to_owned()) && steps.contains(&"T002 complete".to_owned()), "{steps:?}");
    assert_eq!(garden.completed(), ["T001", "T002"]);
    assert_eq!(garden.file("main", "api.txt"), "api\napi");
    assert_eq!(garden.file("main", "docs.txt"), "docs\ndocs");
    garden.env.assert_no_process_left();
}

const WIDE: &str = r#"digraph wide {
    start [shape=Mdiamond]
    done [shape=Msquare]
    fork [shape=component]
    a [shape=parallelogram, tool_command="date +%N > a.txt"]
    b [shape=parallelogram, tool_command="date +%N > b.txt"]
    join [shape=tripleoctagon]
    implement [step=implement]
    start -> fork
    fork -> a -> join
    fork -> b -> join
    join -> implement -> done
}
"#;

/// The branches pleach made, by the name of the session in place of its id.
fn parallel_branches(garden: &Garden, sessions: &[String]) -> Vec<String> {
    let name = |branch: String| {
        let of = sessions.iter().position(|session| branch.contains(session.as_str()));
        of.map_or(branch.clone(), |of| branch.replace(sessions[of].as_str(), &format!("S{of}")))
    };
    garden.refs("refs/heads/pleach/").into_iter().map(name).collect()
}

#[test]
fn a_task_with_a_fan_out_is_done_again() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("wide.dot", WIDE);
    garden.gardener(&["--pipeline", "wide.dot"]).expect(0);
    assert!(garden.refs("refs/heads/pleach/").is_empty(), "what has landed is deleted with its branches");
    let first = garden.env.git(&["show", "main:a.txt"]);
    garden.env.pleach(&["-y", "reset", "T001"]).expect(0);
    garden.gardener(&["--pipeline", "wide.dot"]).expect(0);
    assert_ne!(garden.env.git(&["show", "main:a.txt"]), first);
    assert!(garden.refs("refs/heads/pleach/").is_empty());
    // What the branches held is in the records.
    for session in garden.env.sessions() {
        let record = format!("refs/pleach/sessions/{session}/a");
        let made = garden.env.git(&["log", "--full-history", "--format=%s", &record, "--", "a.txt"]);
        assert!(!made.is_empty(), "{record}");
    }
}

#[test]
fn a_failed_task_with_a_fan_out_is_retried() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("wide.dot", WIDE);
    garden.agent("false", APPROVES);
    garden.gardener(&["--pipeline", "wide.dot", "--max-retries", "1"]).expect(1);
    let sessions = garden.env.sessions();
    let own = ["refs/heads/pleach/tasks/main/T001", "refs/heads/pleach/wide/S0--a", "refs/heads/pleach/wide/S0--b"];
    assert_eq!(parallel_branches(&garden, &sessions), own, "a failed task keeps its branches");
    garden.agent(WRITES, APPROVES);
    garden.gardener(&["--pipeline", "wide.dot", "--retry-failed"]).expect(0);
    assert!(garden.refs("refs/heads/pleach/").is_empty());
}

#[test]
fn rm_removes_the_parallel_branches_of_a_task() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.configure("tree: {delete_branches: false}\n");
    garden.commit("wide.dot", WIDE);
    garden.gardener(&["--pipeline", "wide.dot"]).expect(0);
    let session = garden.env.session();
    let own = ["refs/heads/pleach/tasks/main/T001", "refs/heads/pleach/wide/S0--a", "refs/heads/pleach/wide/S0--b"];
    assert_eq!(parallel_branches(&garden, std::slice::from_ref(&session)), own);
    garden.env.pleach(&["-y", "rm", &session]).expect(0);
    assert!(garden.refs("refs/heads/pleach/").is_empty());
    assert!(garden.refs("refs/pleach/").is_empty());
}
