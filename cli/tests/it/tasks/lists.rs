//! `task list`, `show` and `status`: where tasks are, and how they are found.

use super::{listed, shown, start, state, task, world};

#[test]
fn lists_tell_ready_blocked_and_ended_tasks_apart() {
    let garden = world();
    let env = &garden.env;
    let first = task(env, "first", &[]);
    let second = task(env, "second", &["--depends", &first]);
    let third = task(env, "third", &[]);
    env.pleach(&["task", "cancel", &third]).expect(0);
    assert_eq!(listed(env, &[]), [first.clone(), second.clone()]);
    assert_eq!(listed(env, &["--ready"]), [&first[..]]);
    assert_eq!(listed(env, &["--blocked"]), [&second[..]]);
    assert_eq!(listed(env, &["--all"]), [first.clone(), second.clone(), third]);
    let blocked = shown(env, &second);
    assert_eq!((&blocked["state"], &blocked["blocked_by"][0]["id"]), (&"blocked".into(), &first.clone().into()));
    let text = env.pleach(&["task", "list"]).expect(0).stdout;
    let row = text.lines().find(|line| line.starts_with(&second)).expect("a row");
    assert!(row.contains(&first), "it says by what: {row}");
    start(&garden, &[&first]).expect(0);
    assert_eq!(listed(env, &[]), [&second[..]]);
    assert_eq!((state(env, &first), state(env, &second)), ("landed".into(), "ready".into()));
}

#[test]
fn a_task_is_found_by_the_beginning_of_its_id() {
    let garden = world();
    let env = &garden.env;
    let id = task(env, "first", &[]);
    for given in [&id[..], &id[..9], &id[5..], &id[5..8]] {
        assert_eq!(shown(env, given)["id"], id.as_str(), "{given}");
    }
    env.pleach(&["task", "show", "task-zzzzzz"]).expect(2).fails_with("no-such-task").naming("task-zzzzzz");
    // As many tasks as it takes for two to begin with the same letter.
    let ids: Vec<String> = (0..33).map(|number| task(env, &number.to_string(), &[])).collect();
    let twice = ids.iter().find(|id| ids.iter().filter(|other| other[..6] == id[..6]).count() > 1).expect("two");
    env.pleach(&["task", "show", &twice[..6]]).expect(2).fails_with("task-id-ambiguous").naming(twice);
}

#[test]
fn status_lists_open_tasks_and_shows_one() {
    let garden = world();
    let env = &garden.env;
    let id = task(env, "Fix the login", &[]);
    let all = env.pleach(&["--json", "status"]).expect(0).json();
    assert_eq!((&all["tasks"][0]["id"], &all["tasks"][0]["state"]), (&id.as_str().into(), &"ready".into()));
    assert!(env.pleach(&["status"]).expect(0).stdout.contains("Fix the login"));
    assert_eq!(env.pleach(&["--json", "status", &id]).expect(0).json()["name"], "Fix the login");
    start(&garden, &[]).expect(0);
    assert_eq!(env.pleach(&["--json", "status"]).expect(0).json()["tasks"], serde_json::json!([]));
}

#[test]
fn a_failed_task_shows_attempts_session_and_feedback() {
    let garden = world();
    garden.configure("tree: {max_retries: 2, early_stop: false, test_command: 'echo rotten; exit 1'}\n");
    let id = task(&garden.env, "first", &[]);
    start(&garden, &[&id]).expect(1);
    let task = shown(&garden.env, &id);
    assert_eq!((&task["state"], &task["attempts"]), (&"failed".into(), &2.into()));
    assert!(task["feedback"].as_array().expect("a list").iter().any(|one| one["text"].to_string().contains("rotten")));
    assert!(task["why_failed"].is_string() && task["session"].is_string());
    assert!(task["created"].is_string() && task["tokens"].is_object());
    assert_eq!(task["branch"], format!("pleach/tasks/main/{id}"), "its branch stays");
    assert!(task["worktree"].is_string(), "and so does its worktree");
    let text = garden.env.pleach(&["task", "show", &id]).expect(0).stdout;
    assert!(text.contains("rotten") && text.contains(&format!("pleach/tasks/main/{id}")), "{text}");
}

#[test]
fn steps_logs_and_reports_of_a_task_are_found() {
    let garden = world();
    garden.configure("tree: {test_command: 'echo tested'}\n");
    let id = task(&garden.env, "first", &[]);
    start(&garden, &[&id]).expect(0);
    let steps = garden.env.pleach(&["--json", "inspect", &id]).expect(0).json();
    assert_eq!(steps["tree"], format!("task:{id}"));
    assert_eq!(steps["steps"].as_array().expect("a list").len(), 4);
    let reports = garden.env.pleach(&["--json", "reports", &id]).expect(0).json();
    assert_eq!(reports["reports"][0]["report"]["result"], "pass", "it is in the record");
    assert!(garden.env.pleach(&["--json", "logs", &id]).expect(0).json()["logs"][0]["path"].is_string());
    assert!(!garden.files("main").iter().any(|file| file.contains("logs")), "and in no commit");
}

#[test]
fn a_task_with_a_damaged_ref_is_left_out() {
    let garden = world();
    let id = task(&garden.env, "first", &[]);
    garden.env.git(&["update-ref", "refs/pleach/tasks/task-aaaaaa", "HEAD"]);
    let ran = garden.env.pleach(&["--json", "task", "list"]).expect(0);
    ran.warns_once("task-unreadable").naming("refs/pleach/tasks/task-aaaaaa");
    assert_eq!(ran.json()["tasks"].as_array().expect("a list").len(), 1);
    assert_eq!(state(&garden.env, &id), "ready");
    let all = garden.env.pleach(&["--json", "status"]).expect(0).json();
    assert!(all["unreadable_tasks"][0].to_string().contains("task-aaaaaa"), "{all}");
}
