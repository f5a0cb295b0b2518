//! Programs outside the gateway are held as closely as their turns are seen: after the turn at which a limit was passed.

use std::path::Path;

use serde_json::Value;

use crate::acp;
use crate::sessions::{Story, graph};
use crate::support::TestEnv;

/// What the recorded stream of Claude Code tells: three calls of 1111, 2222 and 3333 tokens.
const STREAM: &str = "crates/agents/tests/data/agents/claude_partial.jsonl";

/// Prints lines of the recorded stream.
fn say(lines: &str) -> String {
    let stream = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(STREAM);
    format!("sed -n '{lines}p' '{}'\n", stream.display())
}

/// A world with a `claude` that does this.
fn claude(script: &str, turns: &str, budget: &str) -> TestEnv {
    let env = TestEnv::with_repo();
    let opening = "#!/bin/sh\ncase \"$1\" in --version) echo 9.8.7; exit;; esac\ncat > /dev/null\n";
    env.write_program("bin/claude", &format!("{opening}{script}"));
    env.log_in();
    env.configure(&format!(
        "agent: claude\nagents: {{claude: {{turns: {turns}}}}}\nsandbox: {{mode: off}}\nbudget: {budget}\n"
    ));
    env
}

fn two_nodes() -> String {
    graph("two", " one [prompt=\"Work on it\"]\n two [prompt=\"Go on\"]\n start -> one -> two -> exit")
}

fn tokens(story: &Story) -> Vec<u64> {
    let total = |turn: &&Value| {
        let of = |kind: &str| turn["token_usage"][kind].as_u64().unwrap_or_default();
        ["input", "cache_read", "cache_write", "output"].map(of).iter().sum()
    };
    story.all("AgentTurn").iter().map(total).collect()
}

#[test]
fn a_streamed_program_stops_after_the_exceeding_turn() {
    // It would continue a minute after its first turn.
    let script = format!(
        "{}echo 1 > one.txt\n{}sleep 60\n{}echo 2 > two.txt\n{}",
        say("1,19"),
        say("20,26"),
        say("27,49"),
        say("50,$")
    );
    for (action, exit) in [("stop", 1), ("pause", 3)] {
        let env = claude(&script, "stream", &format!("{{tokens: 1000, on_exceeded: {action}}}"));
        let ran = env.run(&two_nodes(), &[]).expect(exit);
        assert!(ran.stderr.contains("(turns: stream)"), "{ran}");
        assert!(ran.stdout.contains("1111 of 1000 tokens (`budget.tokens`)"), "{ran}");
        let story = env.story();
        assert_eq!(tokens(&story)[0], 1111, "{:?}", tokens(&story));
        assert!(tokens(&story)[1..].iter().sum::<u64>() <= 2222, "at most the call it had begun: {:?}", tokens(&story));
        assert_eq!(env.files(), ["README.md", "one.txt"], "what it had written is kept, and it wrote no more");
        assert!(!story.path().iter().any(|step| step.starts_with("two")), "{:?}", story.path());
        env.assert_no_process_left();
    }
}

#[test]
fn a_program_stopped_at_its_hook_takes_no_turn() {
    // It runs its hook as the real one does, and says nothing more when it may not continue.
    let hook = r#"
for word in "$@"; do case "$word" in *PostToolBatch*) settings=$word;; esac; done
hook=$(printf '%s' "$settings" | sed 's/.*"command":"\([^"]*\)".*/\1/')
"#;
    let told = r#"{"hook_event_name":"PostToolBatch","tool_calls":[{"tool_use_id":"toolu_0001_0"}]}"#;
    let script = format!("{hook}{}echo 1 > one.txt\nprintf '%s' '{told}' | sh -c \"$hook\"\nsleep 60\n", say("1,26"));
    for (action, exit) in [("stop", 1), ("pause", 3)] {
        let env = claude(&script, "hooks", &format!("{{tokens: 1000, on_exceeded: {action}}}"));
        let ran = env.run(&two_nodes(), &[]).expect(exit);
        assert!(ran.stderr.contains("(turns: hooks)"), "{ran}");
        assert_eq!(tokens(&env.story()), [1111], "one call, one turn: {ran}");
        assert_eq!(env.files(), ["README.md", "one.txt"]);
        env.assert_no_process_left();
    }
}

#[test]
fn a_single_turn_program_is_held_after_its_run() {
    let script = format!("{}echo 1 > one.txt\n{}", say("1,19"), say("20,$"));
    let env = claude(&script, "node", "{tokens: 1000}");
    let ran = env.run(&two_nodes(), &[]).expect(1);
    assert!(ran.stderr.contains("(turns: node)"), "{ran}");
    assert!(ran.stdout.contains("6666 of 1000 tokens (`budget.tokens`)"), "{ran}");
    let story = env.story();
    assert_eq!(tokens(&story), [6666], "the next agent is not even started");
    assert_eq!(story.path(), ["start:success", "one:success"], "what is done has not failed");
    assert_eq!(env.files(), ["README.md", "one.txt"]);
}

#[test]
fn an_acp_agent_is_cancelled_after_the_exceeding_turn() {
    let script =
        "say First I write a.\nask a 1\nusage 50\nsay Then I write b.\nask b 2\nusage 50\nsay Then c.\nask c 3\nhang";
    for (action, exit) in [("stop", 1), ("pause", 3)] {
        let env = acp::agent(script);
        env.configure(&format!("{}budget: {{tokens: 80, on_exceeded: {action}}}\n", env.read("pleach.yaml")));
        let ran = env.run(&graph("one", acp::ONE), &[]).expect(exit);
        assert!(ran.stdout.contains("100 of 80 tokens (`budget.tokens`)"), "{ran}");
        let story = env.story();
        assert_eq!(tokens(&story)[..2], [50, 50], "{:?}", tokens(&story));
        assert_eq!(tokens(&story)[2..].iter().sum::<u64>(), 0, "{:?}", tokens(&story));
        assert_eq!(env.files(), ["README.md", "a", "b"], "it asks before it writes, and is told to stop");
        assert!(acp::methods(&env).contains(&"session/cancel".to_owned()));
        env.assert_no_process_left();
    }
}
