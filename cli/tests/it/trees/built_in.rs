//! The built-in agent in a tree: turns on the record, steps on the branch.

use super::garden::{Garden, Tree};
use crate::sessions::Story;

const SCRIPT: &str = r#"
scripts:
  - name: implement
    when: {node: implement}
    steps:
      - text: Write the first half.
        tools:
          - write_file: {file_path: one, content: "1\n"}
      - text: Write the second half.
        tools:
          - write_file: {file_path: two, content: "2\n"}
      - text: Both halves are there.
  - name: review
    when: {node: review}
    steps:
      - text: "Fine.\nAPPROVED"
"#;

#[test]
fn turn_commits_are_reachable_from_the_record_and_not_from_the_branch() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.script(SCRIPT);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 review-approved", "T001 complete"]);
    assert_eq!(garden.files("main"), ["README.md", "one", "task-tree.json", "two"]);
    let session = garden.env.session();
    let story = Story::of(&garden.env, &garden.env.repo_path(), &session);
    let turns: Vec<String> = story
        .all("AgentTurn")
        .iter()
        .filter_map(|turn| turn["git_sha"].as_object()?.values().next()?.as_str().map(str::to_owned))
        .collect();
    assert_eq!(turns.len(), 2, "{turns:?}");
    let record = format!("refs/pleach/sessions/{session}/main");
    let of_record = garden.env.git(&["rev-list", &record]);
    let of_branches = garden.env.git(&["rev-list", "--branches"]);
    for turn in &turns {
        assert!(of_record.contains(turn.as_str()), "{turn}");
        assert!(!of_branches.contains(turn.as_str()), "{turn}");
    }
    let implement = garden.newest("main", "T001 implement-pass");
    let changed = garden.env.changed(&implement.id);
    assert!(changed.contains(&"one".to_owned()) && changed.contains(&"two".to_owned()), "the whole diff: {changed:?}");
    assert_eq!(implement.body, "Runner output (truncated to 2000 chars):\nBoth halves are there.");
    assert_eq!(implement.trailer("Pleach-Session"), Some(session.as_str()));
}
