//! Tasks from issues.

use super::{GH, GLAB, world};

#[test]
fn a_task_takes_its_text_from_an_issue() {
    let world = world();
    world.play("gh", GH);
    world.play("glab", GLAB);
    let env = &world.env;
    env.write(
        "issue.json",
        r#"{"title": "Grow faster", "body": "It is slow.", "url": "https://github.example/o/r/issues/12"}"#,
    );
    let task = env.pleach(&["--json", "task", "new", "--from-issue", "#12", "--priority", "3"]).expect(0).json();
    assert_eq!((&task["name"], &task["priority"]), (&"Grow faster".into(), &3.into()));
    let text = task["description"].as_str().expect("a text");
    assert!(text.contains("It is slow.") && text.ends_with("https://github.example/o/r/issues/12"), "{text}");
    assert!(env.read("gh.log").starts_with("issue\nview\n12\n--json=title,body,url\n"), "{}", env.read("gh.log"));
    // The address says which program.
    let url = "https://gitlab.example/o/r/-/issues/5";
    let task = env.pleach(&["--json", "task", "new", "--from-issue", url]).expect(0).json();
    assert_eq!(task["name"], "From GitLab");
    assert!(env.read("glab.log").starts_with(&format!("issue\nview\n{url}\n--output=json\n")));
    env.pleach(&["task", "new", "--from-issue", "--web"]).expect(2);
    env.pleach(&["task", "new", "--from-issue", "twelve"]).expect(2).fails_with("issue-malformed");
    env.pleach(&["task", "new", "Text", "--from-issue", "12"]).expect(2);
    world.pleach_with_only(&[], &["task", "new", "--from-issue", "12"]).expect(7).fails_with("no-forge");
}
