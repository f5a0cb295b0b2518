//! Conversations of the built-in agent: their size, their circles, what is asked of providers.

use serde_json::{Value, json};

use super::answers::{answer, asked, call, one_node, server, world};
use crate::providers::{text, write};
use crate::server::Play;
use crate::sessions::graph;
use crate::support::TestEnv;

#[test]
fn n08_the_same_command_with_another_output_is_no_circle() {
    let again = |command: &'static str, times: usize| {
        server(move |_, before| -> Play {
            match before {
                n if n < times => answer(&[call(&format!("c{n}"), "shell", &json!({"command": command}))]),
                _ => answer(&[text("Done.")]),
            }
        })
    };
    let waits = again("echo more >> log; wc -l < log", 15);
    world(&waits, "").run(&one_node(""), &[]).expect(0);
    assert_eq!(asked(&waits).len(), 16);

    let circles = again("echo the same", 99);
    let ran = world(&circles, "").run(&one_node(""), &[]).expect(1);
    assert!(ran.stdout.contains("the agent is looping"), "{ran}");
    assert_eq!(asked(&circles).len(), 13);
}

/// Five files that are long to read, and a call that reads one of them.
fn long_files(env: &TestEnv) {
    let line = format!("{}\n", "words ".repeat(15).trim());
    (0..5).for_each(|n| drop(env.write(format!("repo/long{n}"), line.repeat(480))));
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Add long files"]);
}

fn reads(n: usize) -> Play {
    answer(&[call(&format!("c{n}"), "read_file", &json!({"file_path": format!("long{}", n % 5)}))])
}

/// The messages of a request without the marks for the server's cache.
fn messages(body: &Value) -> Vec<Value> {
    let mut messages = body["messages"].as_array().cloned().unwrap_or_default();
    for block in messages.iter_mut().filter_map(|message| message["content"].as_array_mut()).flatten() {
        block.as_object_mut().expect("a block").remove("cache_control");
    }
    messages
}

#[test]
fn n07_old_outputs_are_elided_in_a_nearly_full_context() {
    let server = server(|seen, before| match before {
        // The key is refused in the middle, so that the run is resumed.
        20 => Play::Answer(403, vec![], "{}".into()),
        _ if seen.body["messages"].as_array().map_or(0, Vec::len) < 70 => reads(before),
        _ => answer(&[text("Done.")]),
    });
    let env = world(&server, "");
    long_files(&env);
    env.run(&one_node(""), &[]).expect(7);
    let ran = env.resume(&[]).expect(0);
    ran.warns("outputs-elided").naming("200000 tokens");
    let asked = asked(&server);
    assert!(asked.len() > 30, "{}", asked.len());
    let longest = asked.iter().map(|body| body.to_string().len()).max();
    assert!(longest > Some(500_000) && longest < Some(700_000), "80 % of 200000 tokens are 640 kB: {longest:?}");
    assert_eq!(messages(&asked[21]), messages(&asked[20]), "what is resumed is the same conversation");
    let story = env.story();
    let elides = |turn: &&&Value| turn["token_usage"]["input"] == 0 && turn["tool_calls"] == json!([]);
    assert!(story.all("AgentTurn").iter().filter(elides).count() >= 2, "room is made in turns of their own");
    assert!(asked.last().unwrap().to_string().contains("[elided: "), "the model is told");
    assert!(!story.whole_text(&env).contains("[elided: "), "the record keeps everything");
}

#[test]
fn n07_a_conversation_that_is_too_long_is_shortened_once() {
    let too_long = || {
        let error = json!({"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 5 maximum"});
        Play::Answer(400, vec![], json!({"type": "error", "error": error}).to_string())
    };
    let server = server(move |seen, before| match before {
        _ if seen.raw.len() > 200_000 => too_long(),
        n if n < 8 => reads(n),
        _ => answer(&[text("Done.")]),
    });
    let env = world(&server, "");
    long_files(&env);
    env.run(&one_node(""), &[]).expect(0);
    let refused = server.seen().iter().filter(|seen| seen.raw.len() > 200_000).count();
    assert!(refused > 0 && refused < 4, "{refused}");

    let never = self::server(move |_, before| if before < 3 { reads(before) } else { too_long() });
    let env = world(&never, "");
    long_files(&env);
    let ran = env.run(&one_node(""), &[]).expect(1);
    assert!(ran.stdout.contains("the conversation is too long for `claude-sonnet-4-5`"), "{ran}");
    assert_eq!(asked(&never).len(), 5, "shortened once");
}

#[test]
fn n12_two_nodes_of_one_thread_share_their_prefix() {
    let server = server(|seen, before| match before {
        0 | 2 => answer(&[text("I write."), write(&format!("file{before}"))]),
        _ => {
            assert!(seen.body["messages"].as_array().is_some_and(|messages| messages.len() > 2));
            answer(&[text("Done.")])
        }
    });
    let env = world(&server, "");
    env.write("repo/AGENTS.md", "Write short files.\n");
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Add rules"]);
    let nodes = "alpha [prompt=\"Write it\", fidelity=full, thread_id=t] beta [prompt=\"Write more\", fidelity=full, \
                 thread_id=t] start -> alpha -> beta -> exit";
    env.run(&graph("two", nodes), &[]).expect(0);
    let asked = asked(&server);
    assert_eq!(asked.len(), 4);
    let system = asked[0]["system"][0]["text"].as_str().unwrap();
    assert!(system.contains("Write short files.") && !system.contains("alpha"), "{system}");
    assert!(!system.contains(env.root().to_str().unwrap()), "no path: {system}");
    let task = asked[0]["messages"][0]["content"].to_string();
    assert!(task.contains("This is step `alpha` of the pipeline.") && task.contains("Write it"), "{task}");
    for pair in asked.windows(2) {
        assert_eq!((&pair[0]["system"], &pair[0]["tools"]), (&pair[1]["system"], &pair[1]["tools"]));
        let (before, after) = (messages(&pair[0]), messages(&pair[1]));
        assert_eq!(before, after[..before.len()], "what was sent before is sent again as it was");
    }
    let marked = |body: &Value| -> Vec<bool> {
        let messages = body["messages"].as_array().cloned().unwrap_or_default();
        messages.iter().map(|message| message["content"].to_string().contains("cache_control")).collect()
    };
    assert_eq!(marked(&asked[1]), [true, false, true], "here, and where the call before ended");
    assert_eq!(asked[1]["system"][0]["cache_control"]["type"], "ephemeral");
}

#[test]
fn n11_effort_is_validated_and_sent_per_model() {
    let server = server(|_, _| answer(&[text("Done.")]));
    let env = world(&server, "max_tokens: 8192");
    let nodes = "a [prompt=One, reasoning_effort=high] b [prompt=Two, reasoning_effort=minimal, llm_model=\"claude-opus-5\"] \
                 c [prompt=Three, llm_model=\"claude-opus-5\"] start -> a -> b -> c -> exit";
    env.run(&graph("efforts", nodes), &[]).expect(0);
    let asked = asked(&server);
    let budget = asked[0]["thinking"]["budget_tokens"].as_u64();
    assert!(budget > Some(1023) && budget < asked[0]["max_tokens"].as_u64(), "{}", asked[0]["thinking"]);
    assert_eq!(
        (&asked[1]["thinking"]["type"], &asked[1]["output_config"]["effort"]),
        (&json!("adaptive"), &json!("low"))
    );
    assert!(asked[2].get("thinking").is_none() && asked[2].get("output_config").is_none());

    let ran = env.run(&graph("hard", "a [prompt=One, reasoning_effort=hard] start -> a -> exit"), &[]).expect(2);
    ran.fails_with("effort_valid").naming("`hard`").naming("`reasoning_effort`");
    assert_eq!(self::asked(&server).len(), 3, "nobody was asked");
}

#[test]
fn n13_configured_tools_are_tools_of_the_built_in_agent() {
    let server = server(|_, before| match before {
        0 => answer(&[json!({"type": "tool_use", "id": "c", "name": "count-files", "input": {}})]),
        _ => answer(&[text("Done.")]),
    });
    let env = world(&server, "max_tokens: 8192");
    let config = env.read("pleach.yaml");
    env.configure(&format!(
        "{config}tools: [{{name: count-files, command: 'ls | wc -l > counted; echo counted', description: Counts files.}}]\n"
    ));
    env.run(&graph("count", "work [prompt=Count] start -> work -> exit"), &[]).expect(0);
    let asked = asked(&server);
    let tool = asked[0]["tools"].as_array().and_then(|tools| tools.iter().find(|tool| tool["name"] == "count-files"));
    assert_eq!(tool.expect("the tool")["description"], "Counts files.");
    assert!(asked[1]["messages"].to_string().contains("[stdout]\\ncounted"), "{}", asked[1]["messages"]);
    assert!(!env.committed("counted").is_empty(), "it runs in the worktree");
}

#[test]
fn n13_a_configured_tool_may_be_slow_and_is_named() {
    let server = server(|_, before| match before {
        0 => answer(&[json!({"type": "tool_use", "id": "c", "name": "wait", "input": {}})]),
        _ => answer(&[text("Done.")]),
    });
    let env = world(&server, "max_tokens: 8192");
    let config = env.read("pleach.yaml");
    env.configure(&format!("{config}tools: [{{name: wait, command: 'sleep 11; echo waited', description: Waits.}}]\n"));
    env.run(&graph("wait", "work [prompt=Wait] start -> work -> exit"), &[]).expect(0);
    let told = asked(&server)[1]["messages"].to_string();
    assert!(told.contains("[stdout]\\nwaited"), "{told}");
    env.configure(&format!("{config}tools: [{{name: shell, command: 'true', description: Nothing.}}]\n"));
    let ran = env.run(&graph("wait", "work [prompt=Wait] start -> work -> exit"), &[]);
    ran.fails_with("agent-missing").naming("`tools`").naming("`shell`");
    assert!(ran.code != 0, "{ran}");
}
