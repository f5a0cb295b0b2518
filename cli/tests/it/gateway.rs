//! Programs behind the gateway, with the whole of pleach around them: what is committed, recorded, resumed and paid for.

use std::path::Path;

use agents::llm::wire::Format;
use agents::llm::{Message, Part, Response, Role, Stop};
use pleach_core::event::Usage;
use serde_json::{Value, json};

use crate::fake_agent;
use crate::providers::{answer_of, text};
use crate::server::{Play, Server};
use crate::sessions::{Gate, Story, graph};
use crate::support::{Ran, TestEnv};

const KEY: &str = "sk-ant-test-0123456789abcdef";

/// The languages of model servers: what the fake agent calls them, who speaks them, and the key they want.
const LANGUAGES: [(&str, &str, Format, &str); 4] = [
    ("anthropic", "anthropic", Format::Anthropic, "ANTHROPIC_API_KEY"),
    ("responses", "openai", Format::Responses, "OPENAI_API_KEY"),
    ("chat", "compatible", Format::Chat, "COMPATIBLE_API_KEY"),
    ("gemini", "gemini", Format::Gemini, "GEMINI_API_KEY"),
];

/// Three turns of which the first two write.
const SCRIPT: &str = r#"
model: scripted-1
scripts:
  - name: a helper
    when: {contains: "Help with"}
    steps:
      - {text: The helper writes., tools: [{shell: {command: "echo helped > helper.txt"}}], usage: {input: 5}}
      - {text: Helped., usage: {input: 5}}
  - name: a beginning
    when: {contains: Begin}
    steps:
      - {text: I write the beginning., tools: [{shell: {command: "echo begun >> begun.txt"}}], usage: {input: 5}}
  - name: helpers
    when: {contains: Delegate}
    steps:
      - {text: I send two helpers., tools: [{Task: {prompts: ["Help with one", "Help with two"]}}], usage: {input: 1}}
      - {text: Both helped., usage: {input: 1}}
  - name: work
    steps:
      - {text: I write hello., tools: [{write_file: {file_path: hello.txt, content: "one\n"}}], usage: {input: 100, output: 10}}
      - text: I edit hello and add another.
        tools:
          - shell: {command: "echo two > hello.txt"}
          - write_file: {file_path: src/two.txt, content: "second\n"}
        usage: {input: 200, output: 20}
      - {text: Both are there., usage: {input: 300, output: 30}}
"#;

/// A world whose agent is the fake one, which talks to a model in this language through the gateway.
fn world(language: &str, provider: &str, providers: &str) -> TestEnv {
    let env = TestEnv::with_repo();
    let root = env.root().display();
    // What is above the agent and its guard, looked at without privileges, as another program of the same user would.
    let look = format!(
        "up() {{ p=$(cut -d ' ' -f 4 /proc/$p/stat); }}\n\
         p=$$; until test $p = 1 || grep -q exec-guard /proc/$p/comm; do up; done; up; plain=\n\
         test $(id -u) = 0 && plain='setpriv --bounding-set=-all --inh-caps=-all'\n\
         $plain cat /proc/$p/cmdline > {root}/seen.line; $plain cat /proc/$p/environ > {root}/seen.above; true\n"
    );
    let look = env.write("look.sh", look);
    let look = look.display();
    let steps = format!("shell \"env > {root}/seen.env\"\nshell \"sh {look}\"\nconverse {language}\n");
    let play = env.write("play", steps);
    env.write("script.yaml", SCRIPT);
    configure(&env, &play, provider, providers);
    env
}

fn configure(env: &TestEnv, play: &Path, provider: &str, more: &str) {
    let program = json!([fake_agent::path(), play]);
    env.configure(&format!(
        "agents: {{worker: {{command: {program}, turns: gateway, provider: {provider}}}}}\nsandbox: {{mode: off}}\n{more}\n"
    ));
}

fn scripted(language: &str) -> TestEnv {
    world(language, "script", "providers: {script: {file: script.yaml}}")
}

fn one(prompt: &str) -> String {
    graph("one", &format!("code [prompt=\"{prompt}\", agent=worker] start -> code -> exit"))
}

fn run_with_key(env: &TestEnv, dot: &str) -> Ran {
    run_with("ANTHROPIC_API_KEY", env, dot)
}

fn run_with(key: &str, env: &TestEnv, dot: &str) -> Ran {
    env.pipeline(dot);
    let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
    command.env(key, KEY);
    env.finish(command.output().expect("pleach can be started"))
}

fn words(story: &Story) -> Vec<String> {
    let turns = story.all("AgentTurn");
    turns.iter().map(|turn| turn["commit_message"].as_str().unwrap_or("-").lines().next().unwrap().to_owned()).collect()
}

#[test]
fn every_turn_of_a_program_is_a_commit() {
    let manners = LANGUAGES.map(|(language, ..)| [language.to_owned(), format!("{language} whole")]);
    for language in manners.into_iter().flatten() {
        let env = scripted(&language);
        env.run(&one("Write two files"), &[]).expect(0);
        let commits = env.commits();
        assert_eq!(commits.len(), 2, "{language}");
        assert_eq!(env.changed(&commits[0]), ["hello.txt"]);
        assert_eq!(env.changed(&commits[1]), ["hello.txt", "src/two.txt"]);
        assert_eq!(env.git(&["show", &format!("{}:hello.txt", commits[0])]), "one", "as it was after the first turn");
        assert_eq!(env.committed("hello.txt"), "two");
        let story = env.story();
        let turns = story.all("AgentTurn");
        assert_eq!(words(&story), ["Write hello", "Edit hello and add another", "-"]);
        for (turn, input) in turns.iter().zip([100, 200, 300]) {
            assert_eq!((&turn["token_usage"]["input"], &turn["boundary"]), (&json!(input), &json!("exact")));
            assert_eq!(
                (&turn["model"], &turn["provider"], &turn["agent"]),
                (&json!("scripted-1"), &json!("script"), &json!("command"))
            );
        }
        assert_eq!(turns[1]["tool_calls"][0]["name"], "Bash");
        let range =
            |turn: &Value| turn["messages"]["first"].as_u64().unwrap()..=turn["messages"]["last"].as_u64().unwrap();
        let roles: Vec<Value> = range(turns[0]).map(|number| story.message(&env, number)["role"].clone()).collect();
        assert_eq!(roles[..3], [json!("user"), json!("assistant"), json!("tool")], "{roles:?}");
        assert!(story.node("code")["outcome"]["status"] == "success");
    }
}

#[test]
fn a_conversation_that_is_left_keeps_its_files() {
    for (language, ..) in LANGUAGES {
        let env = scripted(language);
        env.write(
            "play",
            format!("begin {language} \"Begin\"\nbegin {language} \"Begin anew\"\nconverse {language}\n"),
        );
        env.run(&one("Write two files"), &[]).expect(0);
        let story = env.story();
        let begun = ["Write the beginning", "Write the beginning"];
        assert_eq!(
            words(&story),
            [&begun[..], &["Write hello", "Edit hello and add another", "-"]].concat(),
            "{language}"
        );
        let changed: Vec<Vec<String>> = env.commits().iter().map(|commit| env.changed(commit)).collect();
        assert_eq!(
            changed,
            [vec!["begun.txt"], vec!["begun.txt"], vec!["hello.txt"], vec!["hello.txt", "src/two.txt"]],
            "{language}"
        );
    }
}

#[test]
fn helpers_at_once_are_recorded_one_after_the_other() {
    let env = scripted("anthropic");
    env.run(&one("Delegate"), &[]).expect(0);
    let story = env.story();
    let turns = story.all("AgentTurn");
    assert_eq!(turns.len(), 6, "two of each helper, two of its own: {:?}", words(&story));
    let spent: u64 = turns.iter().filter_map(|turn| turn["token_usage"]["input"].as_u64()).sum();
    assert_eq!(spent, 22);
    assert_eq!(env.committed("helper.txt"), "helped");
    let said = |turn: &Value, number: u64| story.message(&env, turn["messages"]["first"].as_u64().unwrap() + number);
    assert_eq!(said(turns[0], 1)["content"][0]["text"], "I send two helpers.", "in the order of their calls");
    let answer = story.message(&env, turns[5]["messages"]["last"].as_u64().unwrap());
    assert_eq!((&said(turns[5], 0)["role"], &answer["content"][0]["text"]), (&json!("tool"), &json!("Both helped.")));
    let of_helpers = turns.iter().filter(|turn| said(turn, 0)["talk"].as_u64().is_some_and(|talk| talk > 0)).count();
    assert_eq!(of_helpers, 4);
}

/// A model of Anthropic's that writes a file and is done.
fn server() -> Server {
    Server::start(|seen, _| match seen.body["messages"].as_array().map_or(0, Vec::len) {
        1 => answer_of(
            "claude-sonnet-4-5",
            &[
                text("I greet."),
                json!({"type": "tool_use", "id": "c-1", "name": "Bash", "input": {"command": "echo hello > hello.txt"}}),
            ],
        ),
        _ => answer_of("claude-sonnet-4-5", &[text("Greeted.")]),
    })
}

#[test]
fn the_real_key_goes_to_the_provider_and_nowhere_else() {
    let server = server();
    let providers = format!("providers: {{anthropic: {{settings: {{api_base: '{}'}}}}}}", server.url());
    let env = world("anthropic", "anthropic", &providers);
    let ran = run_with_key(&env, &one("Greet")).expect(0);
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|seen| seen.headers["x-api-key"] == KEY && !seen.headers.contains_key("authorization")));
    let environment = env.read("seen.env");
    assert!(!environment.contains(KEY));
    assert!(env.read("seen.line").contains("\0run\0"), "it was pleach that was looked at");
    assert_eq!(env.read("seen.above"), "", "what pleach knows is its own");
    let variable = |name: &str| environment.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
    let base = variable("ANTHROPIC_BASE_URL").unwrap();
    assert!(base.starts_with("http://127.0.0.1:"), "{base}");
    assert_eq!(variable("ANTHROPIC_API_KEY"), base.rsplit('/').next(), "a key to the gateway and to nothing else");
    for name in ["NO_PROXY", "no_proxy"] {
        assert_eq!(variable(name), Some("127.0.0.1,localhost"), "no proxy sees the gateway's address");
    }
    for text in [&ran.stdout, &ran.stderr, &env.story().whole_text(&env)] {
        assert!(!text.contains(KEY));
    }
    let objects = env.git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
    assert!(objects.lines().all(|id| !env.git(&["cat-file", "-p", id]).contains(KEY)));
    let cost = env.story().all("AgentTurn").iter().filter_map(|turn| turn["cost_usd"].as_f64()).sum::<f64>();
    assert!((cost - 0.009).abs() < 1e-9, "twice 1000 in and 100 out: {cost}");
    env.assert_no_process_left();
}

/// A model of any provider's: it greets with a command, writes a file, and is done.
pub fn server_of(format: Format) -> Server {
    Server::start(move |seen, before| {
        let call = |id: &str, command: &str| Part::tool_call(id, "Bash", json!({"command": command}));
        let (content, stop) = match before {
            0 => {
                let both = [call("c-1", "echo hello > hello.txt"), call("c-2", "mkdir src; echo two > src/two.txt")];
                (std::iter::once(Part::text("I greet.")).chain(both).collect(), Stop::ToolCalls)
            }
            1 => (vec![Part::text("I add."), call("c-3", "echo more >> hello.txt")], Stop::ToolCalls),
            _ => (vec![Part::text("Greeted.")], Stop::End),
        };
        let usage = Usage { input: 100, cache_read: 50, output: 20, reasoning: 5, ..Usage::default() };
        let message = Message::new(Role::Assistant, content);
        let reply = Response { message, usage, model: "m-1".into(), stop, extra: Default::default() };
        let reply = format.encode_reply(&reply);
        if seen.body["stream"] == true || seen.line.contains("streamGenerateContent") {
            return Play::Stream(format.stream_reply(&reply).iter().map(|event| event.to_text()).collect());
        }
        Play::Answer(200, vec![("content-type", "application/json".into())], reply.to_string())
    })
}

#[test]
fn every_wire_format_reaches_its_provider_with_exact_turns() {
    for (language, provider, format, key) in LANGUAGES {
        for manner in ["", " whole"] {
            let server = server_of(format);
            let providers = format!("providers: {{{provider}: {{settings: {{api_base: '{}'}}}}}}", server.url());
            let env = world(&format!("{language}{manner}"), provider, &providers);
            run_with(key, &env, &one("Greet")).expect(0);
            let seen = server.seen();
            assert_eq!(seen.len(), 3, "{language}{manner}");
            for seen in &seen {
                let sent = match format {
                    Format::Anthropic => &seen.headers["x-api-key"],
                    Format::Gemini => &seen.headers["x-goog-api-key"],
                    Format::Responses | Format::Chat => &seen.headers["authorization"],
                };
                assert_eq!(sent.trim_start_matches("Bearer "), KEY, "{language}{manner}");
            }
            assert!(!env.read("seen.env").contains(KEY), "{language}{manner}");
            let commits = env.commits();
            assert_eq!(commits.len(), 2, "{language}{manner}");
            assert_eq!(env.changed(&commits[0]), ["hello.txt", "src/two.txt"], "{language}{manner}");
            assert_eq!(
                env.git(&["show", &format!("{}:hello.txt", commits[0])]),
                "hello",
                "before the next turn's tool"
            );
            assert_eq!(env.changed(&commits[1]), ["hello.txt"], "{language}{manner}");
            let story = env.story();
            let turns = story.all("AgentTurn");
            let calls: Vec<usize> = turns.iter().map(|turn| turn["tool_calls"].as_array().unwrap().len()).collect();
            assert_eq!(calls, [2, 1, 0], "{language}{manner}");
            let usage = json!({"input": 100, "cache_read": 50, "cache_write": 0, "output": 20, "reasoning": 5});
            for turn in turns {
                assert_eq!((&turn["token_usage"], &turn["boundary"]), (&usage, &json!("exact")), "{language}{manner}");
                assert_eq!(
                    (&turn["model"], &turn["provider"]),
                    (&json!("m-1"), &json!(provider)),
                    "{language}{manner}"
                );
            }
            env.assert_no_process_left();
        }
    }
}

#[test]
fn an_unanswering_provider_pauses_the_run_with_its_message() {
    let refusals = [
        (401, "authentication_error", "invalid x-api-key"),
        (404, "not_found_error", "model: m-1"),
        (400, "invalid_request_error", "Your credit balance is too low"),
        (529, "overloaded_error", "Overloaded"),
    ];
    for (status, kind, words) in refusals {
        let server = Server::start(move |_, before| match before {
            0 => {
                let body = json!({"type": "error", "error": {"type": kind, "message": words}});
                Play::Answer(status, vec![], body.to_string())
            }
            _ => answer_of("m-1", &[text("Hello.")]),
        });
        let providers = format!("providers: {{anthropic: {{settings: {{api_base: '{}'}}}}}}", server.url());
        let env = world("anthropic", "anthropic", &providers);
        let ran = run_with_key(&env, &one("Greet")).expect(7);
        ran.fails_with("agent-unusable").naming("`code`");
        assert!(ran.stderr.contains(words), "{ran}");
        let goes_on = "continues with today's keys, addresses, limits and `providers.NAME.models`; after any other change, \
                       start a new run";
        assert!(ran.stderr.contains(goes_on), "{ran}");
        let mut resume = env.command(&["-y", "resume", &env.session()]);
        env.finish(resume.env("ANTHROPIC_API_KEY", KEY).output().expect("pleach can be started")).expect(0);
    }
    // What is wrong with the request is the program's.
    let server = Server::start(|_, _| Play::Answer(400, vec![], "{}".into()));
    let providers = format!("providers: {{anthropic: {{settings: {{api_base: '{}'}}}}}}", server.url());
    run_with_key(&world("anthropic", "anthropic", &providers), &one("Greet")).expect(1);
}

#[test]
fn a_budget_stops_a_program_before_its_next_call() {
    let env = scripted("chat");
    let more = "providers: {script: {file: script.yaml}}\nbudget: {tokens: 50}";
    configure(&env, &env.root().join("play"), "script", more);
    let ran = env.run(&one("Write two files"), &[]).expect(1);
    assert!(ran.stdout.contains("110 of 50 tokens"), "{ran}");
    let story = env.story();
    assert_eq!(story.all("AgentTurn").len(), 1, "the turn that was over, and nothing after it");
    assert_eq!(env.files(), ["README.md", "hello.txt"]);
    env.assert_no_process_left();
}

/// The script of a program that waits in its third turn, and what its tools do before.
fn with_gate(gate: &Gate, first: &str) -> String {
    let steps = json!([
        {"text": "I write one.", "tools": [{"shell": {"command": first}}], "usage": {"input": 1}},
        {"text": "I add to it.", "tools": [{"shell": {"command": "echo more >> one.txt"}}], "usage": {"input": 1}},
        {"text": "I wait.", "tools": [{"shell": {"command": gate.command()}}], "usage": {"input": 1}},
        {"text": "I write two.", "tools": [{"shell": {"command": "echo two > two.txt"}}], "usage": {"input": 1}},
        {"text": "All done.", "usage": {"input": 1}},
    ]);
    json!({"scripts": [{"name": "work", "steps": steps}]}).to_string()
}

/// Kills the run in the program's third turn and resumes it.
fn killed_and_resumed(first: &str) -> TestEnv {
    let env = scripted("anthropic");
    let gate = Gate::new(&env, "third");
    env.write("script.yaml", with_gate(&gate, first));
    let mut run = env.start(&one("Work"), &[]);
    let held = gate.reached(&mut run);
    run.kill(held);
    gate.stay_open();
    env.resume(&[]).expect(0);
    env
}

#[test]
fn after_a_kill_recorded_calls_are_answered_again_for_nothing() {
    let env = killed_and_resumed("echo one > one.txt");
    assert_eq!(env.files(), ["README.md", "one.txt", "two.txt"]);
    assert_eq!(env.committed("one.txt"), "one\nmore", "each tool ran once on what it found");
    let story = env.story();
    let spent: Vec<u64> =
        story.all("AgentTurn").iter().filter_map(|turn| turn["token_usage"]["input"].as_u64()).collect();
    assert_eq!(spent, [1, 1, 1, 1, 1], "two turns, and three more: what was repeated is recorded once");
    assert_eq!(story.warnings(), Vec::new());
    env.assert_no_process_left();
}

#[test]
fn what_comes_out_differently_the_second_time_is_named() {
    let env = killed_and_resumed("date +%s%N > one.txt; echo same > same.txt");
    let told = env.story().warns("replay-differs");
    let kept = env.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/keep/"]);
    assert!(told.ends_with(&kept) && kept.lines().count() == 1, "{told}: {kept}");
    assert_eq!(env.git(&["diff", "--name-only", &format!("{kept}^"), &kept]), "one.txt");
    assert!(env.committed("one.txt").ends_with("\nmore"), "what was recorded stays");
}

/// A model that answers in words alone, and a world whose agent talks to it.
fn answering() -> (TestEnv, Server) {
    let server = Server::start(|seen, _| {
        let asked = seen.body["messages"].as_array().map_or(0, Vec::len);
        let message = Message::assistant(format!("Answer {}.", asked.div_ceil(2)));
        let usage = Usage { input: 1, ..Usage::default() };
        let reply = Response { message, usage, model: "m-1".into(), stop: Stop::End, extra: Default::default() };
        let events = Format::Chat.stream_reply(&Format::Chat.encode_reply(&reply));
        Play::Stream(events.iter().map(|event| event.to_text()).collect())
    });
    let settings = format!("{{api_base: '{}', api_key_command: echo {KEY}}}", server.url());
    let env = world("chat", "compatible", &format!("providers: {{compatible: {{settings: {settings}}}}}"));
    (env, server)
}

#[test]
fn a_program_without_tools_resumes_after_a_kill() {
    let (env, server) = answering();
    let gate = Gate::new(&env, "fourth");
    let mut play = String::new();
    for n in 1..=8 {
        play += &format!("say chat \"Question {n}\"\nwrite n{n}.txt {n}\n");
        if n == 4 {
            play += &format!("shell \"{}\"\n", gate.command());
        }
    }
    env.write("play", play + "write finished.txt done\n");
    let mut run = env.start(&one("Work"), &[]);
    let held = gate.reached(&mut run);
    run.kill(held);
    gate.stay_open();
    assert_eq!(server.seen().len(), 4);
    env.resume(&[]).expect(0);
    assert_eq!((env.committed("n8.txt").as_str(), env.committed("finished.txt").as_str()), ("8", "done"));
    assert_eq!(server.seen().len(), 9, "only the call that was not recorded is made again");
    let story = env.story();
    let turns = story.all("AgentTurn");
    let spent: Vec<u64> = turns.iter().filter_map(|turn| turn["token_usage"]["input"].as_u64()).collect();
    assert_eq!(spent, [1; 8], "three turns, and five more");
    let last = turns.iter().position(|turn| turn["is_last"] == true);
    assert_eq!(last, Some(turns.len() - 1), "a program's last turn is the one it ended after");
    env.assert_no_process_left();
}

#[test]
fn pending_requests_use_bounded_memory() {
    let (env, server) = answering();
    let gate = Gate::new(&env, "swamped");
    let play = format!("swamp chat 6 127\nsay chat \"Question\"\nshell \"{}\"\n", gate.command());
    env.write("play", play);
    let mut run = env.start(&one("Work"), &[]);
    let held = gate.reached(&mut run);
    assert_eq!(server.seen().len(), 1, "an ordinary request is not held up by them");
    let status = std::fs::read_to_string(format!("/proc/{}/status", run.id())).expect("pleach runs");
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("how much memory it had at most");
    let most: u64 = most.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(most < 350 << 10, "{most} kB for six requests of 127 MB");
    gate.open(held);
    run.end().expect(0);
}

/// What a run of a program that continues whatever it is answered failed with.
fn undone(provider: &str, providers: &str, play: &str) -> String {
    let env = world("chat", provider, providers);
    let words = [fake_agent::path().display().to_string(), env.write("play", play).display().to_string()];
    let program = json!(["sh", "-c", "\"$@\"; true", "sh", words[0], words[1]]);
    env.configure(&format!(
        "agents: {{worker: {{command: {program}, turns: gateway, provider: {provider}}}}}\nsandbox: {{mode: off}}\n{providers}\n"
    ));
    let ran = env.run(&graph("one", "code [prompt=\"Work\", agent=worker] start -> code -> exit"), &[]).expect(1);
    ran.stdout
}

#[test]
fn a_program_of_another_api_fails_with_the_reason() {
    let server = Server::start(|_, _| Play::Drop);
    let settings = format!("{{api_base: '{}', api_key_command: echo {KEY}}}", server.url());
    let told = undone("anthropic", &format!("providers: {{anthropic: {{settings: {settings}}}}}"), "say chat Hello\n");
    let why = "no call of its model was answered: the agent uses the Chat Completions API; provider `anthropic` does not offer it";
    assert!(told.contains(why), "{told}");
    assert!(server.seen().is_empty());
}

#[test]
fn a_script_never_asked_fails_the_node() {
    let told = undone("script", "providers: {script: {file: script.yaml}}", "say chat Hello\n");
    assert!(told.contains("the script was not asked for anything"), "{told}");
}
