//! `pleach build`: by fixed rules, and by an agent whose answer is checked.

use serde_json::{Value, json};

use crate::providers::{answer_of, text};
use crate::server::{Play, Server};
use crate::support::TestEnv;

const SPEC: &str = "\
# Shop

## Phase 1: Database Layer

- [ ] T001 Create schema
  Tables for users and posts.
- [x] T002 Already there

## Phase 2: Pages

- [ ] T003 [P] List the posts

## Dependencies

T001 → T003
";

const PLAN: &str = r#"{"description": "A shop", "total_tasks_found": 1,
    "tasks": [{"id": "T9", "description": "Do it", "source_file": "spec/tasks.md"}]}"#;

const CYCLE: &str = r#"{"tasks": [{"id": "A", "description": "a", "depends_on": ["B"]},
    {"id": "B", "description": "b", "depends_on": ["A"]}]}"#;

fn world() -> TestEnv {
    let env = TestEnv::new();
    env.repo();
    env.write("repo/spec/tasks.md", SPEC);
    env
}

fn tree(env: &TestEnv, path: &str) -> Value {
    serde_json::from_str(&env.read(path)).expect("a tree in JSON")
}

/// A scripted planner that gives one answer, and another when it is asked again.
fn scripted(env: &TestEnv, first: &str, second: &str) {
    let again = json!({"name": "again", "when": {"node": "plan", "contains": "That plan cannot be used."},
        "steps": [{"text": second}]});
    let plan =
        json!({"name": "plan", "when": {"node": "plan", "contains": "spec/tasks.md"}, "steps": [{"text": first}]});
    env.write("repo/script.yaml", json!({"scripts": [again, plan]}).to_string());
    env.write("repo/pleach.yaml", "agent: builtin\nproviders: {script: {file: script.yaml}}\n");
}

#[test]
fn markdown_becomes_a_tree_by_fixed_rules() {
    let env = world();
    let ran = env.pleach(&["build", "--spec-dir", "spec", "--no-ai"]).expect(0);
    assert!(ran.stdout.starts_with("wrote spec/task-tree.json: 2 tasks in 2 phases\n"), "{ran}");
    let made = tree(&env, "repo/spec/task-tree.json");
    assert_eq!(made["execution_order"], json!(["T001", "T003"]));
    assert_eq!(made["nodes"]["T003"]["depends_on"], json!(["T001"]));
    assert_eq!((&made["spec_files"], &made["nodes"]["T001"]["source_line"]), (&json!(["spec/tasks.md"]), &json!(5)));

    let again = env.pleach(&["build", "--spec-dir", "spec", "--no-ai"]).expect(2);
    again.fails_with("output-exists").naming("-y");
    env.pleach(&["-y", "build", "--spec-dir", "spec", "--no-ai"]).expect(0);
    let ran = env.pleach(&["--json", "build", "--spec-dir", "spec", "-o", "task-tree.json", "--no-ai"]).expect(0);
    assert_eq!(ran.json()["tree"], "task-tree.json");
    assert_eq!(tree(&env, "repo/task-tree.json"), made);
}

#[test]
fn a_plain_checklist_gets_ids_and_keeps_them() {
    let env = world();
    let plain = "# Shop\n\n- [ ] Add a login form\n- [x] Add a page\n- [ ] Log out (depends on T001)\n";
    env.write("repo/spec/tasks.md", plain);
    let ran = env.pleach(&["build", "--spec-dir", "spec", "--no-ai"]).expect(0);
    insta::assert_snapshot!(ran.stdout, @r"
    wrote spec/task-tree.json: 2 tasks
    ids:     3 tasks had none and got T001 to T003; a new line may change them, --write-ids keeps them
    look:    pleach status --tree spec/task-tree.json
    work:    pleach gardener --tree spec/task-tree.json
    ");
    let made = tree(&env, "repo/spec/task-tree.json");
    assert_eq!(made["execution_order"], json!(["T001", "T003"]));
    assert_eq!(made["nodes"]["T003"]["depends_on"], json!(["T001"]));
    assert_eq!(env.read("repo/spec/tasks.md"), plain, "nobody asked for that");
    let ran = env.pleach(&["-y", "--json", "build", "--spec-dir", "spec", "--no-ai", "--write-ids"]).expect(0).json();
    assert_eq!(ran["given_ids"][2], json!({"id": "T003", "file": "spec/tasks.md", "line": 5}));
    let written =
        "# Shop\n\n- [ ] T001 Add a login form\n- [x] T002 Add a page\n- [ ] T003 Log out (depends on T001)\n";
    assert_eq!(env.read("repo/spec/tasks.md"), written);
    assert_eq!(tree(&env, "repo/spec/task-tree.json"), made);
    let ran = env.pleach(&["-y", "build", "--spec-dir", "spec", "--no-ai", "--write-ids"]).expect(0);
    assert!(!ran.stdout.contains("ids:"), "{ran}");
    env.pleach(&["-y", "build", "--spec-dir", "spec", "--write-ids"]).expect(2);
}

#[test]
fn arrows_that_may_be_misread_are_warned_about() {
    let env = world();
    env.write("repo/spec/tasks.md", SPEC.replace("T001 → T003", "T003 -> T001"));
    let ran = env.pleach(&["build", "--spec-dir", "spec", "--no-ai"]).expect(0);
    ran.warns("spec-unclear").naming("spec/tasks.md:15").naming("`T001 → T003` says the same");
    assert_eq!(tree(&env, "repo/spec/task-tree.json")["nodes"]["T003"]["depends_on"], json!(["T001"]));
}

#[test]
fn run_names_the_commands_for_specs_and_trees() {
    let env = world();
    env.write("repo/task-tree.json", PLAN);
    let ran = env.pleach(&["run", "spec/tasks.md"]).expect(2);
    ran.fails_with("pipeline-invalid")
        .naming("`spec/tasks.md` is not a pipeline")
        .naming("`pleach build --spec-dir spec`");
    let ran = env.pleach(&["run", "task-tree.json"]).expect(2);
    ran.fails_with("pipeline-invalid").naming("`pleach gardener --tree task-tree.json`");
}

#[test]
fn errors_in_markdown_are_reported_with_locations() {
    let env = world();
    env.write("repo/spec/more.md", "## Phase 3: More\n\n- [ ] T001 Again\n\n## Dependencies\n\nT001 → T777\n");
    let ran = env.pleach(&["build", "--spec-dir", "spec", "--no-ai"]).expect(2);
    ran.fails_with("spec-invalid").naming("spec/more.md:7").naming("T777");
    // Both places of T001 are checked.
    ran.fails_with("spec-invalid").naming("spec/tasks.md:5");
    assert!(!env.repo_path().join("spec/task-tree.json").exists());
    env.write("repo/spec/more.md", "- [ ] T009 More\n\n## Dependencies\n\n# the rest\nT001 → T009\n");
    let ran = env.pleach(&["build", "--spec-dir", "spec", "--no-ai"]).expect(2);
    ran.fails_with("spec-invalid").naming("spec/more.md:6").naming("`# the rest`");
    let ran = env.pleach(&["build", "--spec-dir", "nowhere", "--no-ai"]).expect(2);
    ran.fails_with("spec-unreadable").naming("`nowhere`");
    std::fs::create_dir(env.repo_path().join("empty")).unwrap();
    let ran = env.pleach(&["build", "--spec-dir", "empty", "--no-ai"]).expect(2);
    ran.fails_with("spec-invalid").naming("no markdown file");
    std::fs::write(env.repo_path().join("empty/latin.md"), b"- [ ] T001 Gr\xfc\xdfe\n").unwrap();
    let ran = env.pleach(&["build", "--spec-dir", "empty", "--no-ai"]).expect(2);
    ran.fails_with("spec-unreadable").naming("latin.md`").naming("save the file as UTF-8");
}

#[test]
fn a_spec_that_is_no_file_is_an_error() {
    let env = world();
    let spec = env.repo_path().join("spec");
    // A directory is no spec, and a link that leads nowhere is what an editor leaves.
    std::fs::create_dir(spec.join("more.md")).unwrap();
    std::os::unix::fs::symlink("nowhere", spec.join(".#tasks.md")).unwrap();
    env.pleach(&["build", "--spec-dir", "spec", "--no-ai", "-o", "tree.json"]).expect(0);
    std::os::unix::net::UnixListener::bind(spec.join("socket.md")).unwrap();
    assert!(env.program("mkfifo", &spec).arg("a-pipe.md").status().unwrap().success());
    for (name, is) in [("a-pipe.md", "a named pipe"), ("socket.md", "a socket")] {
        let ran = env.pleach(&["-y", "build", "--spec-dir", "spec", "--no-ai", "-o", "tree.json"]).expect(2);
        ran.fails_with("spec-unreadable")
            .naming(format!("/spec/{name}`"))
            .naming(is)
            .naming("or take it out of the directory");
        std::fs::remove_file(spec.join(name)).unwrap();
    }
}

#[test]
fn markdown_files_are_read_in_name_order() {
    let env = world();
    env.write("repo/spec/tasks.md", "## Phase 2: Later\n\n- [ ] T002 Second\n");
    env.write(
        "repo/spec/first.MD",
        "## Phase 1: Now\n\n- [ ] T001 First\n\n## Dependencies\n\n```\nT002 → T001\n```\n",
    );
    env.write("repo/spec/notes.txt", "- [ ] T003 Not this\n");
    env.write("repo/spec/below/more.md", "- [ ] T004 Nor this\n");
    env.write("repo/spec/fenced.md", "```\n- [ ] T005 Nor this\n```\n");
    env.pleach(&["build", "--spec-dir", "spec", "--no-ai"]).expect(0);
    let made = tree(&env, "repo/spec/task-tree.json");
    assert_eq!(made["spec_files"], json!(["spec/fenced.md", "spec/first.MD", "spec/tasks.md"]));
    assert_eq!(made["root_ids"], json!(["phase1", "phase2"]));
    assert_eq!(made["execution_order"], json!(["T002", "T001"]), "the dependency in the fence counts");
    // A finished one has its id as well.
    env.write("repo/spec/fenced.md", "- [x] T002 Done before\n");
    let ran = env.pleach(&["-y", "build", "--spec-dir", "spec", "--no-ai"]).expect(2);
    ran.fails_with("spec-invalid").naming("spec/tasks.md:3").naming("`T002`").naming("spec/fenced.md:1");
}

#[test]
fn without_an_agent_there_is_no_plan() {
    let env = world();
    for config in ["", "agent: simulation\n"] {
        env.write("repo/pleach.yaml", config);
        let ran = env.pleach(&["build", "--spec-dir", "spec"]).expect(2);
        ran.fails_with("no-agent").naming("no agent is configured").naming("--no-ai");
    }
    assert!(!env.repo_path().join("spec/task-tree.json").exists());
}

#[test]
fn a_planners_answer_is_requested_once_more() {
    let env = world();
    scripted(&env, CYCLE, &format!("Here it is:\n```json\n{PLAN}\n```\n"));
    env.pleach(&["build", "--spec-dir", "spec"]).expect(0);
    assert_eq!(tree(&env, "repo/spec/task-tree.json")["execution_order"], json!(["T9"]));
    assert_eq!(env.git(&["for-each-ref", "refs/pleach/sessions"]), "", "a plan is no session");
    assert_eq!(std::fs::read_dir(env.root().join("tmp")).unwrap().count(), 0, "the planner's directory is gone");
    env.assert_no_process_left();
}

#[test]
fn the_checked_plan_is_written() {
    let env = world();
    let tasks = json!([{"id": "A", "description": "a", "depends_on": ["B"]}, {"id": "B", "description": "b"}]);
    let forged = json!({"tasks": tasks, "nodes": {"X": {"id": "X", "name": "x", "depends_on": ["X"]}},
        "execution_order": ["A", "gone"]});
    let plan = json!({"description": "A shop", "tasks": tasks, "execution_order": ["B", "A"], "root_ids": ["X"],
        "spec_files": ["gone.md"]});
    scripted(&env, &forged.to_string(), &plan.to_string());
    env.pleach(&["build", "--spec-dir", "spec", "-o", "task-tree.json"]).expect(0);
    let made = tree(&env, "repo/task-tree.json");
    assert_eq!((&made["execution_order"], &made["root_ids"]), (&json!(["B", "A"]), &json!(["A", "B"])));
    assert_eq!((&made["spec_files"], &made["description"]), (&json!([]), &json!("A shop")));
    assert_eq!(made["nodes"].as_object().expect("nodes").len(), 2);
    env.pleach(&["status"]).expect(0);

    scripted(&env, &plan.to_string().replace(r#"["B","A"]"#, r#"["A","B"]"#), &forged.to_string());
    let ran = env.pleach(&["-y", "build", "--spec-dir", "spec", "-o", "task-tree.json"]).expect(1);
    ran.fails_with("plan-refused").naming("`nodes`").naming("execution_order[1]").naming("`gone`");
    assert_eq!(tree(&env, "repo/task-tree.json"), made, "nothing is written");
}

#[test]
fn a_plan_missing_reported_tasks_is_warned_about() {
    let env = world();
    scripted(&env, &PLAN.replace(r#""total_tasks_found": 1"#, r#""total_tasks_found": 5"#), PLAN);
    let ran = env.pleach(&["-y", "build", "--spec-dir", "spec"]).expect(0);
    ran.warns("plan-incomplete").naming("5 tasks").naming("1");
    scripted(&env, PLAN, PLAN);
    let ran = env.pleach(&["-y", "build", "--spec-dir", "spec"]).expect(0);
    ran.does_not_warn("plan-incomplete");
}

#[test]
fn a_plan_naming_unknown_files_is_requested_again() {
    let env = world();
    let invented = PLAN.replace("spec/tasks.md", "tasks.md");
    scripted(&env, &invented, PLAN);
    env.pleach(&["build", "--spec-dir", "spec"]).expect(0);
    assert_eq!(tree(&env, "repo/spec/task-tree.json")["spec_files"], json!(["spec/tasks.md"]));
    scripted(&env, &invented, &invented);
    let ran = env.pleach(&["-y", "build", "--spec-dir", "spec"]).expect(1);
    let says = "tasks[0].source_file: unknown file `tasks.md`; tasks come from `spec/tasks.md`";
    assert!(ran.stderr.contains(says), "{ran}");
}

#[test]
fn what_no_planner_runs_is_not_asked_about() {
    let env = world();
    scripted(&env, PLAN, PLAN);
    let settings = env.read("repo/pleach.yaml");
    let others = "tree: {test_command: make, steps: {review: {runner: 'command:mine'}}}\nworktrees: {setup: make}\n";
    env.write("repo/pleach.yaml", format!("{settings}{others}merge: {{test_command: make}}\n"));
    env.pleach(&["build", "--spec-dir", "spec"]).expect(0);
    env.write("repo/pleach.yaml", format!("{settings}{others}sandbox: {{network: open}}\n"));
    let ran = env.pleach(&["build", "--spec-dir", "spec", "-o", "other.json"]).expect(4);
    assert!(ran.stderr.contains("sandbox.network") && !ran.stderr.contains("test_command"), "{ran}");
}

#[test]
fn a_plan_that_is_bad_twice_is_refused() {
    let env = world();
    scripted(&env, CYCLE, "I cannot do better.");
    let ran = env.pleach(&["build", "--spec-dir", "spec"]).expect(1);
    ran.fails_with("plan-refused").naming("even when asked again");
    // The newest errors are told.
    ran.fails_with("plan-refused").naming("JSON");
    assert!(!env.repo_path().join("spec/task-tree.json").exists(), "nothing is written");
}

#[test]
fn a_retried_program_gets_everything_again() {
    let env = world();
    let answer = env.write("plan.json", PLAN);
    let seen = env.root().join("seen");
    // It remembers nothing: the second question must hold the first, its own answer, and what is wrong with it.
    let program = env.write_program(
        "planner.sh",
        &format!(
            "#!/bin/sh\nprompt=$(cat)\ncase $prompt in\n*'- [ ] T001 Create schema'*'my answer'*'no JSON object'*) \
             cat {answer};;\n*) echo my answer; pwd > {seen};;\nesac\n",
            answer = answer.display(),
            seen = seen.display()
        ),
    );
    env.unbound();
    let runner = format!("command:{}", program.display());
    env.pleach(&["-y", "build", "--spec-dir", "spec", "--runner", &runner]).expect(0);
    assert_eq!(tree(&env, "repo/spec/task-tree.json")["execution_order"], json!(["T9"]));
    assert!(!env.read("seen").contains("/repo"), "it does not work in the repository");
}

#[test]
fn an_agent_that_fails_leaves_nothing() {
    let env = world();
    let program = env.write_program("planner.sh", "#!/bin/sh\necho 'no quota' >&2\nexit 3\n");
    let runner = format!("command:{}", program.display());
    let ran = env.pleach(&["-y", "build", "--spec-dir", "spec", "--runner", &runner]).expect(1);
    ran.fails_with("planner-failed").naming("no quota").naming("nothing was written");
    env.write("repo/pleach.yaml", format!("agent: \"{runner}\"\n"));
    let ran = env.pleach(&["build", "--spec-dir", "spec"]).expect(4);
    // A program the repository names is asked about.
    ran.fails_with("trust-missing");
}

#[test]
fn without_a_planner_build_ends_like_a_run() {
    let env = world();
    let server = Server::start(|_, _| Play::Answer(401, vec![], r#"{"error": {"message": "not this key"}}"#.into()));
    let providers = |models: &str| {
        let settings = format!("{{settings: {{api_base: '{}'}}, models: {models}}}", server.url());
        let yaml = format!("agent: builtin\nproviders: {{default: compatible, compatible: {settings}}}\n");
        env.write("repo/pleach.yaml", yaml);
    };
    let build = |more: &[&str]| {
        let ran = env.pleach(&[&["-y", "build", "--spec-dir", "spec"], more].concat()).expect(7);
        assert!(!env.repo_path().join("spec/task-tree.json").exists(), "{ran}");
        ran
    };
    providers("{worker: m-1}");
    let ran = build(&[]);
    ran.fails_with("planner-unusable").naming("the planner did not answer:").naming("not this key").naming("--no-ai");
    providers("{}");
    let ran = build(&[]);
    ran.fails_with("agent-missing").naming("`worker`");
    assert_eq!(server.seen().len(), 1, "nobody is asked without a model");

    // An empty account, no such model, nobody who answers.
    for status in [402, 404, 503] {
        let step = json!({"error": {"status": status, "message": "not now", "retry_after": "1ms"}, "tries": 99});
        let plan = json!({"name": "plan", "when": {"node": "plan"}, "steps": [step]});
        env.write("repo/script.yaml", json!({"scripts": [plan]}).to_string());
        env.write("repo/pleach.yaml", "agent: builtin\nproviders: {script: {file: script.yaml}}\n");
        let ran = build(&[]);
        ran.fails_with("planner-unusable").naming("not now");
    }

    for program in ["/nonexistent/agent", "no-such-agent", "./no-such-agent"] {
        let ran = build(&["--runner", &format!("command:{program}")]);
        ran.fails_with("agent-missing").naming(format!("`{program}`"));
    }
    // It is there, and cannot be started all the same.
    env.write("repo/planner.sh", "#!/bin/sh\n");
    let ran = build(&["--runner", "command:./planner.sh"]);
    ran.fails_with("agent-missing").naming("`./planner.sh`").naming("/planner.sh");
    assert!(!ran.stderr.contains("there is no program"), "{ran}");
    env.write_program("repo/planner.sh", "#!/nonexistent/sh\n");
    let ran = build(&["--runner", "command:./planner.sh"]);
    ran.fails_with("planner-unusable").naming("cannot start `");
}

#[test]
fn the_model_that_plans_is_the_one_that_is_named() {
    let env = world();
    let server = Server::start(|_, _| answer_of("claude-sonnet-4-5", &[text(PLAN)]));
    env.write("repo/.env", "ANTHROPIC_API_KEY=sk-ant-test-0123456789abcdef\n");
    let settings = |more: &str| {
        let provider =
            format!("{{models: {{worker: usual, big: biggest}}, settings: {{api_base: '{}'}}}}", server.url());
        let yaml = format!("agent: builtin\nproviders: {{default: anthropic, anthropic: {provider}}}\n{more}");
        env.write("repo/pleach.yaml", yaml);
    };
    let asked = |more: &[&str]| {
        env.pleach(&[&["-y", "build", "--spec-dir", "spec"], more].concat()).expect(0);
        server.seen().last().expect("somebody was asked").body["model"].as_str().map(str::to_owned)
    };
    settings("");
    assert_eq!(asked(&[]).as_deref(), Some("usual"));
    assert_eq!(asked(&["--model", "mine"]).as_deref(), Some("mine"));
    assert_eq!(asked(&["--model", "big"]).as_deref(), Some("biggest"), "a name the settings know");
    settings("tree: {steps: {implement: {model: quick}}}\n");
    assert_eq!(asked(&[]).as_deref(), Some("quick"));
    assert_eq!(asked(&["--model", "mine"]).as_deref(), Some("mine"));
}

#[test]
fn a_program_of_the_repository_plans() {
    let env = world();
    env.write_program("repo/tools/planner.sh", &format!("#!/bin/sh\ncat > /dev/null\ncat <<'E'\n{PLAN}\nE\n"));
    env.write("repo/pleach.yaml", "agent: command:tools/planner.sh\n");
    env.write("repo/sub/README.md", "");
    let made = env.repo_path().join("spec/task-tree.json");
    // Wherever pleach is started.
    for (dir, spec) in [(".", "spec"), ("sub", "../spec")] {
        env.pleach(&["-y", "-C", dir, "build", "--spec-dir", spec]).expect(0);
        assert_eq!(tree(&env, "repo/spec/task-tree.json")["execution_order"], json!(["T9"]));
        std::fs::remove_file(&made).unwrap();
    }
    // Only the program is looked for there: it works where it always did.
    env.write_program("repo/tools/planner.sh", "#!/bin/sh\ncat > /dev/null\npwd >&2; ls -A >&2\nexit 3\n");
    let ran = env.pleach(&["-y", "build", "--spec-dir", "spec"]).expect(1);
    assert!(!ran.stderr.contains("README.md") && !ran.stderr.contains("pleach.yaml"), "{ran}");
}
