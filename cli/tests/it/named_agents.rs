//! Agents the user gives a name to, wherever an agent can be named.

use serde_json::json;

use crate::support::TestEnv;
use crate::trees::garden::{APPROVES, Garden, Tree, WRITES};

/// A garden whose agent is known by the name `mine` alone, with settings after that.
fn garden(settings: &str) -> Garden {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent(WRITES, APPROVES);
    configure(&garden, settings);
    garden
}

fn configure(garden: &Garden, settings: &str) {
    garden.env.configure(&format!("{}{}{settings}", mine(garden), places(garden)));
}

/// What explains the name.
fn mine(garden: &Garden) -> String {
    format!("agents: {{mine: {{command: ['{}/agent.sh'], env: {{SEEN: yes}}}}}}\n", garden.env.root().display())
}

/// Where the agent leaves word of what it saw.
fn places(garden: &Garden) -> String {
    let root = garden.env.root().display();
    format!("sandbox: {{rw: ['{root}/asked', '{root}/tmp', '{root}/home']}}\n")
}

const DONE: [&str; 3] = ["T001 implement-pass", "T001 review-approved", "T001 complete"];

#[test]
fn a_tree_is_worked_by_an_agent_with_a_name() {
    let by_steps = "agent: 'command:false'\ntree: {steps: {implement: {runner: mine}, review: {runner: mine}}}\n";
    for (settings, flags) in
        [("agent: mine\n", &[][..]), (by_steps, &[]), ("agent: 'command:false'\n", &["--runner", "mine"])]
    {
        for command in ["garden", "gardener"] {
            let garden = garden(settings);
            // What its entry says beside the command counts as well.
            garden.agent(&format!("test \"$SEEN\" = yes || exit 3; {WRITES}"), APPROVES);
            let ran = match command {
                "garden" => garden.garden(flags),
                _ => garden.gardener(flags),
            };
            assert_eq!(garden.told("main"), DONE, "{settings} {command}: {}", ran.expect(0));
        }
    }
}

#[test]
fn a_flag_counts_for_steps_that_name_others() {
    let garden = garden("tree: {steps: {implement: {runner: 'command:false'}, review: {runner: 'command:false'}}}\n");
    garden.gardener(&["--runner", "mine"]).expect(0);
    assert_eq!(garden.told("main"), DONE);
}

const GATED: &str = "digraph g { start [shape=Mdiamond] exit [shape=Msquare] work [prompt=\"Do it\"] again [prompt=\"Again\"]\n\
                     look [shape=hexagon] start -> work -> look; look -> again [label=\"Yes\"] again -> exit }";

#[test]
fn a_pipeline_runs_and_resumes_with_a_named_agent() {
    let env = TestEnv::with_repo();
    env.write_program("bin/my-agent", "#!/bin/sh\ncat > /dev/null; echo \"$MOOD\" >> said.txt; echo Done.\n");
    env.configure("agent: mine\nagents: {mine: {command: [my-agent], env: {MOOD: good}}}\n");
    let ran = env.run(GATED, &[]).expect(4);
    assert!(ran.stderr.contains("agent mine (turns: node)"), "{ran}");
    // The session continues with its own settings, whatever happened to the name.
    env.configure("agent: 'command:false'\n");
    env.pleach(&["-y", "resume", &env.session(), "--answer", "look=Yes"]).expect(0);
    assert_eq!(env.committed("said.txt"), "good\ngood");
    let planned = env.pleach(&["--json", "run", "--dry-run", "../pipeline.dot"]).expect(0).json();
    assert_eq!(planned["nodes"][2]["agent"], json!("command:false"));
}

#[test]
fn a_planner_may_have_a_name() {
    let env = TestEnv::with_repo();
    env.write("repo/spec/tasks.md", "## Phase 1: Ground\n\n- [ ] T001 Create schema\n");
    let plan = json!({"description": "x", "total_tasks_found": 1, "tasks": [{"id": "T9", "description": "y"}]});
    env.write_program("repo/planner.sh", &format!("#!/bin/sh\ncat > /dev/null\ncat <<'END'\n{plan}\nEND\n"));
    let named = "agents: {planner: {command: [./planner.sh]}}\n";
    env.write("repo/pleach.yaml", named);
    let build = |more: &[&str]| env.pleach(&[&["build", "--spec-dir", "spec"], more].concat());
    let asked = build(&["--runner", "planner"]).expect(4);
    assert!(asked.stderr.contains("command (agents.planner.command"), "{asked}");
    build(&["-y", "--runner", "planner"]).expect(0);
    assert!(env.read("repo/spec/task-tree.json").contains("T9"));
    env.write("repo/pleach.yaml", format!("agent: planner\n{named}"));
    build(&["-o", "other.json"]).expect(0);
    assert!(env.read("repo/other.json").contains("T9"));
}

#[test]
fn a_repositorys_agent_names_need_approval() {
    let garden = garden("agent: mine\n");
    let asked = garden.env.pleach(&["gardener"]).expect(4);
    assert!(asked.stderr.contains("command (agents.mine.command,"), "{asked}");
    assert!(asked.stderr.contains("/agent.sh\n"), "{asked}");
    // What the user's own file says is not, whoever names it.
    let own = format!("{}{}", mine(&garden), places(&garden));
    garden.env.write("config/pleach/config.yaml", &own);
    garden.env.configure("agent: mine\n");
    garden.env.pleach(&["gardener"]).expect(0);
    assert_eq!(garden.told("main"), DONE);
    garden.env.configure("agents: {mine: {command: [sh, -c, 'echo other']}}\n");
    let asked = garden.env.pleach(&["gardener", "--runner", "mine", "--fresh"]).expect(4);
    assert!(asked.stderr.contains("sh -c 'echo other'"), "{asked}");
}

#[test]
fn an_unknown_agent_name_lists_the_others() {
    let garden = garden("");
    let ran = garden.gardener(&["--runner", "mien"]).expect(2);
    ran.fails_with("settings-invalid").naming("`mien`").naming("`mine`");
    let all = "Agents: builtin, simulation, claude, codex, gemini, opencode, mine, acp:COMMAND, command:COMMAND.";
    assert!(ran.stderr.contains(all), "{ran}");
    configure(&garden, "tree: {steps: {review: {runner: yours}}}\n");
    // It stays one where a flag says something else.
    let ran = garden.gardener(&["--runner", "mine"]).expect(2);
    ran.fails_with("settings-invalid").naming("`yours`").naming("pleach.yaml:3");
    garden.env.configure("agent: plain\nagents: {plain: {model: m}}\n");
    let ran = garden.gardener(&[]).expect(2);
    ran.fails_with("settings-invalid").naming("`agents.plain`").naming("`runner`").naming("`command`");
    assert_eq!(garden.told("main"), [""; 0]);
}

#[test]
fn a_repositorys_program_is_found_from_any_directory() {
    let garden = garden("");
    let script = garden.env.read("agent.sh");
    garden.env.write_program("repo/work.sh", &script);
    garden.env.git(&["add", "work.sh"]);
    garden.env.git(&["commit", "--quiet", "-m", "Add the agent"]);
    let named = "agent: mine\nagents: {mine: {command: [./work.sh]}}\n";
    garden.env.configure(&format!("{named}{}", places(&garden)));
    let below = garden.env.repo_path().join("sub");
    std::fs::create_dir(&below).unwrap();
    let mut command = garden.env.command(&["-y", "gardener"]);
    let ran = garden.env.finish(command.current_dir(below).output().unwrap());
    assert_eq!(garden.told("main"), DONE, "{ran}");
}

#[test]
fn doctor_looks_for_who_has_a_name() {
    let env = TestEnv::with_repo();
    env.configure(
        "agent: mine\nagents: {mine: {command: [no-such-program]}}\ntree: {steps: {review: {runner: mine}}}\n",
    );
    let ran = env.pleach(&["doctor"]);
    for key in ["agent", "agents.mine", "tree.steps.review.runner"] {
        assert!(ran.stdout.contains(&format!("`{key}` (command:no-such-program)")), "{key}: {ran}");
    }
}
