//! `task new`: what is stored, where it lands, and what is refused.

use super::{listed, shown, task, world};
use crate::support::TestEnv;

#[test]
fn a_new_task_is_a_ref_with_its_history() {
    let garden = world();
    let env = &garden.env;
    let before = env.git(&["rev-parse", "main"]);
    let more = ["--priority", "7", "--touches", "src/**", "--agent", "codex", "--model", "m", "--pipeline", "own.dot"];
    let id = task(env, "Fix the login\n\nIt says no.", &more);
    assert!(id.len() == 11 && id.starts_with("task-"), "{id}");
    let stored = env.git(&["show", &format!("refs/pleach/tasks/{id}:task.json")]);
    let stored: serde_json::Value = serde_json::from_str(&stored).expect("JSON");
    let fields = ["name", "description", "target", "repo", "priority", "agent", "model", "pipeline"];
    let values = fields.map(|field| stored[field].to_string());
    let expected = [
        "\"Fix the login\"",
        "\"Fix the login\\n\\nIt says no.\"",
        "\"main\"",
        "\"repo\"",
        "7",
        "\"codex\"",
        "\"m\"",
        "\"own.dot\"",
    ];
    assert_eq!(values, expected);
    assert_eq!(stored["touches"][0], "src/**");
    assert_eq!(env.git(&["rev-parse", "main"]), before, "nothing is committed on the target");
    // The chain of commits is its history.
    env.pleach(&["task", "cancel", &id]).expect(0);
    assert_eq!(env.git(&["rev-list", "--count", &format!("refs/pleach/tasks/{id}")]), "2");
    assert!(shown(env, &id)["cancelled"].is_string());
}

#[test]
fn the_text_of_a_task_comes_from_standard_input() {
    let garden = world();
    garden.env.pleach_with_stdin(&["task", "new", "-"], "Piped\n\nwith more\n").expect(0);
    let [id] = &listed(&garden.env, &[])[..] else { panic!("one task") };
    assert_eq!(shown(&garden.env, id)["description"], "Piped\n\nwith more");
    garden.env.pleach_with_stdin(&["task", "new", "-"], " \n").expect(2).fails_with("task-empty");
}

#[test]
fn a_secret_in_a_task_is_refused() {
    let garden = world();
    let mut command = garden.env.command(&["task", "new", "Log in with orchid-7-petals"]);
    let ran = garden.env.finish(command.env("SHOP_PASSWORD", "orchid-7-petals").output().expect("pleach starts"));
    ran.expect(2).fails_with("secret-found").naming("SHOP_PASSWORD");
    assert_eq!(garden.refs("refs/pleach/tasks/"), Vec::<String>::new());
}

#[test]
fn patterns_and_dependencies_are_checked_at_once() {
    let garden = world();
    let env = &garden.env;
    env.pleach(&["task", "new", "x", "--touches", "../out"]).expect(2).fails_with("pattern-invalid").naming("../out");
    env.pleach(&["task", "new", "x", "--depends", "task-zzzzzz"]).expect(2).fails_with("no-such-task");
    let first = task(env, "first", &[]);
    garden.switch_to_new("other");
    let ran = env.pleach(&["task", "new", "x", "--depends", &first]).expect(2);
    ran.fails_with("target-differs").naming("other").naming("main");
    assert_eq!(listed(env, &[]), [first]);
}

#[test]
fn a_detached_head_means_the_base_branch() {
    let garden = world();
    garden.env.git(&["switch", "--quiet", "--detach"]);
    let id = task(&garden.env, "x", &[]);
    assert_eq!(shown(&garden.env, &id)["target"], "main");
    garden.env.git(&["branch", "release"]);
    garden.configure("tree: {base_branch: release}\n");
    let id = task(&garden.env, "y", &[]);
    assert_eq!(shown(&garden.env, &id)["target"], "release");
}

#[test]
fn a_directory_without_git_is_refused_with_what_to_do() {
    let env = TestEnv::new();
    std::fs::create_dir(env.root().join("plain")).expect("a directory of the test's own");
    let ran = env.pleach(&["-C", "plain", "task", "new", "x"]).expect(2);
    ran.fails_with("not-a-repository").naming("git init");
}

#[test]
fn a_task_can_be_made_in_another_repository() {
    let garden = world();
    let other = garden.env.repo_at("other");
    let made = garden.env.pleach(&["--json", "task", "new", "x", "--repo", "../other"]).expect(0).json();
    assert_eq!(made["repo"], "other");
    assert_eq!(listed(&garden.env, &[]), Vec::<String>::new());
    let refs = garden.env.git_in(&other, &["for-each-ref", "--format=%(refname)", "refs/pleach/tasks/"]);
    assert_eq!(refs, format!("refs/pleach/tasks/{}", made["id"].as_str().expect("an id")));
}
