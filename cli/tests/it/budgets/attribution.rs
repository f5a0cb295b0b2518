//! What commits say about whose work they are.

use super::{FIVE_FILES, settings, work, world};
use crate::support::TestEnv;
use crate::trees::garden::{Garden, Tree};

/// The trailers of a commit as git reads them.
fn trailers(env: &TestEnv, commit: &str) -> Vec<String> {
    let message = env.git(&["log", "-1", "--format=%B", commit]);
    let path = env.write("tmp/message", message);
    let parsed = env.git(&["interpret-trailers", "--parse", path.to_str().expect("a UTF-8 path")]);
    parsed.lines().map(str::to_owned).collect()
}

#[test]
fn turns_name_their_agent_where_the_settings_ask_for_it() {
    for (policy, expected) in [
        ("none", None),
        ("assisted-by", Some("Assisted-by: builtin:script")),
        ("co-authored-by", Some("Co-authored-by: builtin (script) <orchestra@local>")),
    ] {
        let env = world(&format!("attribution: {policy}"));
        env.run(&work(), &[]).expect(0);
        let commits = env.commits();
        assert_eq!(commits.len(), 5);
        for commit in &commits {
            let read = trailers(&env, commit);
            assert!(read[0].starts_with("Orchestra-Model: script"), "{read:?}");
            let by: Vec<&str> = read.iter().map(String::as_str).filter(|line| line.contains("-by: ")).collect();
            assert_eq!(by, expected.into_iter().collect::<Vec<_>>(), "{policy}");
        }
        // pleach reads its turns as before.
        env.pleach(&["show", &commits[0]]).expect(0);
    }
}

#[test]
fn a_tool_is_nobodys_assistant() {
    let env = TestEnv::with_script(FIVE_FILES);
    env.configure(&settings("attribution: assisted-by"));
    let tool = crate::sessions::tool("make", "echo made > made.txt");
    env.run(&crate::sessions::graph("made", &format!("{tool} start -> make -> exit")), &[]).expect(0);
    assert!(!env.git(&["log", "--format=%B", &env.branch()]).contains("Assisted-by"));
}

#[test]
fn steps_name_the_agents_that_worked_on_them() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: true"]));
    garden.configure("attribution: co-authored-by");
    garden.gardener(&[]).expect(0);
    let by = |status: &str| garden.newest("main", status).trailer("Co-authored-by").map(str::to_owned);
    let agent = Some("command (agent.sh) <orchestra@local>".to_owned());
    assert_eq!([by("T001 implement-pass"), by("T001 review-approved")], [agent.clone(), agent]);
    assert_eq!([by("T001 test-pass"), by("T001 complete")], [None, None]);
}
