//! Budgets: a run stops within one call of its limit, whoever was killed in between and whoever else spends; what it has
//! cost is shown; commits say whose work they are.

mod attribution;
mod gateway;
mod page;
mod planner;
mod programs;
mod side_by_side;
mod trees;
mod unheld;
mod unreadable;

use serde_json::{Value, json};

use crate::providers::{answer_of, text, write};
use crate::server::{Play, Server};
use crate::sessions::{Gate, Story, graph, tool};
use crate::support::{Ran, TestEnv};

/// An agent whose every call costs a dollar: five that write a file, and one that ends.
const FIVE_FILES: &str = r#"
scripts:
  - name: work
    when: {node: work}
    steps:
      - {text: Write 1., tools: [{write_file: {file_path: 1.txt, content: "1\n"}}], usage: {input: 1}}
      - {text: Write 2., tools: [{write_file: {file_path: 2.txt, content: "2\n"}}], usage: {input: 1}}
      - {text: Write 3., tools: [{write_file: {file_path: 3.txt, content: "3\n"}}], usage: {input: 1}}
      - {text: Write 4., tools: [{write_file: {file_path: 4.txt, content: "4\n"}}], usage: {input: 1}}
      - {text: Write 5., tools: [{write_file: {file_path: 5.txt, content: "5\n"}}], usage: {input: 1}}
      - {text: All five are there., usage: {input: 1}}
  - name: talk
    steps:
      - {text: Said., usage: {input: 1}}
"#;

/// The settings of an agent that answers from the script at a dollar a token.
fn settings(more: &str) -> String {
    let prices = "prices: {script: {input: 1000000, output: 1000000}}";
    format!("agent: builtin\nproviders: {{script: {{file: script.yaml, {prices}}}}}\n{more}\n")
}

fn world(more: &str) -> TestEnv {
    let env = TestEnv::with_script(FIVE_FILES);
    env.configure(&settings(more));
    env
}

fn work() -> String {
    graph("six", " work [prompt=\"Write five files\"]\n start -> work -> exit")
}

fn turns(story: &Story) -> usize {
    story.all("AgentTurn").len()
}

fn spent(story: &Story) -> f64 {
    story.all("AgentTurn").iter().filter_map(|turn| turn["cost_usd"].as_f64()).sum()
}

#[test]
fn a_run_stops_within_one_call_of_its_limit() {
    for (budget, calls, said) in [
        ("{usd: 2.5}", 3, "the budget is used up: $3.00 of $2.50 (`budget.usd`)"),
        ("{usd: 3}", 3, "$3.00 of $3.00"),
        ("{tokens: 2}", 2, "2 of 2 tokens (`budget.tokens`)"),
        ("{per_day_tokens: 3}", 3, "the budget of this day (UTC) is used up: 3 of 3 tokens (`budget.per_day_tokens`)"),
        ("{per_day_usd: 1}", 1, "the budget of this day (UTC) is used up: $1.00 of $1.00 (`budget.per_day_usd`)"),
    ] {
        let env = world(&format!("budget: {budget}"));
        let ran = env.run(&work(), &[]).expect(1);
        assert!(ran.stdout.contains(said), "{ran}");
        let story = env.story();
        assert_eq!(turns(&story), calls, "{budget}");
        assert_eq!(env.commits().len(), calls, "what was done is kept");
        assert_eq!(story.all("BudgetExceeded").len(), 1);
        assert_eq!(story.path(), ["start:success", "work:fail"], "the run ends where it is, and nowhere else");
        let resumed = env.resume(&[]).expect(1);
        assert!(resumed.stdout.contains(said), "{resumed}");
        assert_eq!(turns(&env.story()), calls, "no call is made before the limit is raised");
    }
}

#[test]
fn what_ends_with_its_last_call_has_not_failed() {
    let env = world("budget: {usd: 6}");
    env.run(&work(), &[]).expect(0);
    assert_eq!(turns(&env.story()), 6);
    let more = graph("two", " work\n talk\n start -> work -> talk -> exit");
    let env = world("budget: {usd: 6}");
    let ran = env.run(&more, &[]).expect(1);
    assert!(ran.stdout.contains("$6.00 of $6.00"), "{ran}");
    let story = env.story();
    assert_eq!(turns(&story), 6, "the next agent is not even started");
    assert_eq!(story.path(), ["start:success", "work:success"]);
}

#[test]
fn a_paused_run_continues_only_when_the_limit_rises() {
    let env = world("budget: {usd: 2, on_exceeded: pause}");
    let ran = env.run(&work(), &[]).expect(3);
    assert!(ran.stdout.contains("$2.00 of $2.00 (`budget.usd`)"), "{ran}");
    assert_eq!(turns(&env.story()), 2);
    let ran = env.resume(&[]).expect(3);
    assert!(ran.stdout.contains("$2.00 of $2.00"), "{ran}");
    assert_eq!(turns(&env.story()), 2, "it pauses again without a call");
    let status = env.pleach(&["status", &env.session()]).expect(0);
    assert!(status.stdout.contains("paused: ") && status.stdout.contains(", $2.00"), "{status}");
    env.configure(&settings("budget: {usd: 4, on_exceeded: pause}"));
    env.resume(&[]).expect(3);
    assert_eq!(turns(&env.story()), 4);
    assert_eq!(env.story().all("BudgetExceeded").len(), 2, "once for each value of the limit");
    env.configure(&settings("budget: {usd: 0}"));
    let done = env.resume(&[]).expect(0);
    assert!(done.stdout.contains("6 tokens, $6.00"), "{done}");
    assert_eq!(turns(&env.story()), 6, "nothing was done twice");
    assert_eq!(env.files(), ["1.txt", "2.txt", "3.txt", "4.txt", "5.txt", "README.md"]);
}

#[test]
fn daily_token_limits_pause_and_warn_like_dollars() {
    let env = world("budget: {per_day_tokens: 2, on_exceeded: pause}");
    let said = "the budget of this day (UTC) is used up: 2 of 2 tokens (`budget.per_day_tokens`); raise it and resume, \
                or wait until tomorrow";
    let ran = env.run(&work(), &[]).expect(3);
    assert!(ran.stdout.contains(said), "{ran}");
    let ran = env.resume(&[]).expect(3);
    assert!(ran.stdout.contains(said), "{ran}");
    assert_eq!(turns(&env.story()), 2, "another process knows what was spent");
    env.pleach(&["-y", "run", "../pipeline.dot"]).expect(3);
    assert_eq!(env.pleach(&["--json", "cost"]).expect(0).json()["total"]["turns"], 2, "the day is over for others too");
    env.configure(&settings("budget: {per_day_tokens: 20}"));
    let first =
        env.sessions().into_iter().find(|sid| !Story::of(&env, &env.repo_path(), sid).all("AgentTurn").is_empty());
    env.pleach(&["-y", "resume", &first.expect("the session with turns")]).expect(0);

    let env = world("budget: {per_day_tokens: 2, on_exceeded: warn}");
    let ran = env.run(&work(), &[]).expect(0);
    ran.warns_once("budget-reached").naming("2 of 2 tokens (`budget.per_day_tokens`)");
    assert_eq!(turns(&env.story()), 6);
}

#[test]
fn a_warning_comes_once_in_a_session() {
    let env = world("budget: {usd: 1, tokens: 2, on_exceeded: warn}");
    let gate = " work\n talk\n ask [shape=hexagon, label=\"Go on?\"]\n ask -> talk [label=\"yes\"]\n";
    let body = format!("{gate} start -> work -> ask\n talk -> exit");
    let ran = env.run(&graph("warned", &body), &[]).expect(4);
    let warned = |ran: &Ran| ran.warnings().iter().filter(|(code, _)| *code == "budget-reached").count();
    assert_eq!(warned(&ran), 2, "one for each limit: {ran}");
    let ran = env.resume(&["--answer", "ask=yes"]).expect(0);
    assert_eq!(warned(&ran), 0, "not again after a resume: {ran}");
    assert_eq!((turns(&env.story()), env.story().all("BudgetExceeded").len()), (7, 2));
}

#[test]
fn a_node_and_a_pipeline_have_limits_of_their_own() {
    let env = world("");
    let again = "work -> exit [condition=\"outcome=fail\"]\n";
    let body = format!(" work [budget.usd=2]\n start -> work -> exit\n {again}");
    let ran = env.run(&graph("noded", &body), &[]).expect(1);
    assert!(ran.stdout.contains("of node `work` is used up: $2.00 of $2.00"), "{ran}");
    assert_eq!(turns(&env.story()), 2, "no edge leads around a limit");

    let env = world("");
    let circle = "start -> talk -> check\n check -> talk [condition=\"outcome=fail\"]\n check -> exit [condition=\"outcome=success\"]";
    let body = format!(" talk [budget.tokens=3]\n{} {circle}", tool("check", "date +%N >> n; false"));
    let ran = env.run(&graph("visited", &body), &[]).expect(1);
    assert!(ran.stdout.contains("of node `talk` is used up: 3 of 3 tokens"), "{ran}");
    assert_eq!(turns(&env.story()), 3, "a node's visits are counted together");

    let env = world("budget: {on_exceeded: pause}");
    let ran =
        env.run(&graph("piped", " graph [budget.usd=4]\n work\n talk\n start -> talk -> work -> exit"), &[]).expect(3);
    assert!(ran.stdout.contains("of the pipeline is used up: $4.00 of $4.00"), "{ran}");
    assert_eq!(turns(&env.story()), 4);
}

#[test]
fn killed_anywhere_a_run_spends_no_more_than_its_limit() {
    let trace = {
        let env = world("budget: {usd: 2.5}");
        env.pipeline(&work());
        let file = env.root().join("trace");
        let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
        assert_eq!(env.finish(command.env("PLEACH_CRASH_TRACE", &file).output().expect("pleach starts")).code, 1);
        env.read("trace").lines().filter(|line| line.contains("ref-swap") && line.contains("after")).count()
    };
    assert!(trace > 8, "{trace}");
    // From the record of the first turn to the last record of all.
    for point in 4..=trace {
        let env = world("budget: {usd: 2.5}");
        env.pipeline(&work());
        let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
        let output = command.env("PLEACH_CRASH", format!("ref-swap:after:{point}")).output().expect("pleach starts");
        assert_ne!(env.finish(output).code, 1, "it died at {point}");
        let last = env.resume(&[]);
        let story = env.story();
        assert_eq!((turns(&story), spent(&story)), (3, 3.0), "killed at {point}: {last}");
        assert_eq!(last.code, 1, "killed at {point}: {last}");
        assert_eq!(story.all("BudgetExceeded").len(), 1, "killed at {point}");
    }
}

#[test]
fn a_run_killed_mid_call_stops_at_its_limit() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "call");
    env.write(
        "script.yaml",
        FIVE_FILES.replacen(
            "write_file: {file_path: 2.txt, content: \"2\\n\"}",
            &format!("shell: {{command: \"{}\"}}", gate.command()),
            1,
        ),
    );
    env.configure(&settings("budget: {usd: 3}"));
    let mut run = env.start(&work(), &[]);
    let held = gate.reached(&mut run);
    run.kill(held);
    gate.stay_open();
    let ran = env.resume(&[]).expect(1);
    assert!(ran.stdout.contains("$3.00 of $3.00"), "{ran}");
    assert_eq!(turns(&env.story()), 3);
}

#[test]
fn two_runs_at_once_share_the_limit_of_a_day() {
    let env = TestEnv::with_repo();
    let gates = [Gate::new(&env, "one"), Gate::new(&env, "two")];
    let talk = |number: usize| {
        format!(
            "      - {{text: Step {number}., tools: [{{glob: {{pattern: \"{number}*\"}}}}], usage: {{input: 1}}}}\n"
        )
    };
    let scripts = ["one", "two"].iter().zip(&gates).map(|(node, gate)| {
        let wait = format!(
            "      - {{text: Wait., tools: [{{shell: {{command: \"{}\"}}}}], usage: {{input: 1}}}}\n",
            gate.command()
        );
        let steps: String = (0..30).map(talk).collect();
        format!("  - name: {node}\n    when: {{node: {node}}}\n    steps:\n{wait}{steps}      - text: Done.\n")
    });
    env.write("script.yaml", format!("scripts:\n{}", scripts.collect::<String>()));
    env.configure(&settings("budget: {per_day_usd: 9}"));
    for node in ["one", "two"] {
        env.write(format!("{node}.dot"), graph(node, &format!(" {node}\n start -> {node} -> exit")));
    }
    let mut runs = ["one", "two"].map(|node| env.spawn(&["-y", "run", &format!("../{node}.dot")]));
    let held: Vec<_> = runs.iter_mut().zip(&gates).map(|(run, gate)| gate.reached(run)).collect();
    for (gate, held) in gates.iter().zip(held) {
        gate.open(held);
    }
    for run in runs {
        let ran = run.end().expect(1);
        assert!(ran.stdout.contains("of this day (UTC)") && ran.stdout.contains("of $9.00"), "{ran}");
    }
    let stories: Vec<Story> = env.sessions().iter().map(|sid| Story::of(&env, &env.repo_path(), sid)).collect();
    let each: Vec<usize> = stories.iter().map(turns).collect();
    let all: usize = each.iter().sum();
    assert!(each.iter().all(|turns| *turns > 0), "{each:?}");
    assert!((9..=9 + 2).contains(&all), "at most one call each beyond the limit: {each:?}");
    let third = env.pleach(&["-y", "run", "../one.dot"]).expect(1);
    assert!(third.stdout.contains("0 turns, 0 tokens"), "the day is over for everybody: {third}");
    env.configure(&settings("budget: {per_day_usd: 14}"));
    env.pleach(&["-y", "run", "../one.dot"]).expect(1);
    let cost = env.pleach(&["--json", "cost", "--by", "day"]).expect(0).json();
    let days = cost["rows"].as_array().unwrap();
    assert_eq!((days.len(), &days[0]["cost_usd"]), (1, &json!(14.0)), "{cost} (or it is midnight)");
}

#[test]
fn without_a_price_tokens_count_and_dollars_do_not() {
    let env = TestEnv::with_script(FIVE_FILES);
    env.configure("agent: builtin\nproviders: {script: {file: script.yaml}}\nbudget: {usd: 1}\n");
    let ran = env.run(&graph("unpriced", " work\n talk\n start -> work -> talk -> exit"), &[]).expect(0);
    ran.warns_once("price-unknown").naming("`script`");
    assert!(ran.stdout.contains("7 tokens, ") && !ran.stdout.contains('$'), "{ran}");
    assert_eq!(env.story().all("PriceUnknown").len(), 1);
    insta::assert_snapshot!(env.pleach(&["cost", "--by", "node"]).expect(0), @r"
    exit: 0
    --- stdout
    node   turns  input  cached  output  cost
    talk       1      1       0       0     ?
    work       6      6       0       0     ?
    total      7      7       0       0     ?

    ?  no price is known for `script`; `providers.NAME.prices` sets one
    ");
    env.configure("agent: builtin\nproviders: {script: {file: script.yaml}}\nbudget: {tokens: 3, usd: 1}\n");
    env.run(&graph("unpriced", " work\n talk\n start -> work -> talk -> exit"), &[]).expect(1);
    let silent = TestEnv::with_script(FIVE_FILES);
    silent.configure("agent: builtin\nproviders: {script: {file: script.yaml}}\nbudget: {tokens: 100}\n");
    let ran = silent.run(&work(), &[]).expect(0);
    assert!(!ran.stderr.contains("price"), "nobody asked for dollars: {ran}");
}

/// A server whose answers cost 1000 tokens in and 100 out: $0.0045 each with its price, $0.0011 from the cheap model.
fn served(budget: &str) -> (Server, TestEnv) {
    served_with(budget, "Add a greeting\n\nIt greets.")
}

/// The same with other words of the cheap model.
fn served_with(budget: &str, message: &'static str) -> (Server, TestEnv) {
    let server = Server::start(move |seen, _| {
        let model = seen.body["model"].as_str().unwrap_or_default();
        let messages = seen.body["messages"].as_array().map_or(0, Vec::len);
        match model {
            "cheap-model" => answer_of(model, &[text(message)]),
            _ if messages > 1 => answer_of(model, &[text("Done.")]),
            _ => answer_of(model, &[text("I'll write a greeting."), write("hello.txt")]),
        }
    });
    let env = TestEnv::with_repo();
    env.configure(&format!(
        "agent: builtin\nbudget: {budget}\nproviders:\n  default: anthropic\n  anthropic:\n    \
         models: {{worker: claude-sonnet-4-5, cheap: cheap-model}}\n    prices: {{cheap-model: {{input: 1, output: 1}}}}\n    \
         settings: {{api_base: '{}'}}\n",
        server.url()
    ));
    env.pipeline(&work());
    (server, env)
}

fn run_served(env: &TestEnv, args: &[&str]) -> crate::support::Ran {
    let mut command = env.command(args);
    command.env("ANTHROPIC_API_KEY", "sk-ant-test-0123456789abcdef");
    env.finish(command.output().expect("pleach can be started"))
}

#[test]
fn over_budget_no_commit_message_is_requested() {
    let (server, env) = served("{usd: 0.004, on_exceeded: pause}");
    let ran = run_served(&env, &["-y", "run", "../pipeline.dot"]).expect(3);
    assert!(ran.stdout.contains("$0.0045 of $0.0040"), "{ran}");
    assert_eq!(server.seen().iter().filter(|seen| seen.body["model"] == "cheap-model").count(), 0);
    let message = env.git(&["log", "-1", "--format=%s", &env.branch()]);
    assert_eq!(message, "Write a greeting", "the agent's own words");
}

#[test]
fn a_commit_message_is_not_requested_past_the_limit() {
    let (server, env) = served_with("{tokens: 2000}", "auto-commit");
    let ran = run_served(&env, &["-y", "run", "../pipeline.dot"]).expect(1);
    assert!(ran.stdout.contains("2200 of 2000 tokens"), "{ran}");
    assert_eq!(server.seen().len(), 2, "one call, and one message that cannot be used");
    ran.warns("message-fallback");
    let message = env.git(&["log", "-1", "--format=%s", &env.branch()]);
    assert_eq!(message, "Write a greeting", "the agent's own words");
}

#[test]
fn what_a_commit_message_costs_counts_by_its_own_model() {
    let (server, env) = served("{usd: 0.005, on_exceeded: pause}");
    run_served(&env, &["-y", "run", "../pipeline.dot"]).expect(3);
    let asked = server.seen().len();
    assert_eq!(asked, 2, "one call, one message, and nothing is left");
    let story = env.story();
    let turn = story.first("AgentTurn");
    assert_eq!(turn["side_calls"][0]["purpose"], "commit_message");
    assert_eq!(format!("{:.4}", turn["cost_usd"].as_f64().unwrap()), "0.0045");
    assert_eq!(turn["side_calls"][0]["cost_usd"], 0.0011);
    let sid = env.session();
    insta::assert_snapshot!(env.pleach(&["cost", &sid, "--by", "model"]).expect(0), @r"
    exit: 0
    --- stdout
    model              turns  input  cached  output     cost
    cheap-model            0   1.0k       0     100  $0.0011
    claude-sonnet-4-5      1   1.0k       0     100  $0.0045
    total                  1   2.0k       0     200  $0.0056
    ");
}

/// An answer of a server that counts nothing.
fn uncounted(delta: Value, finish: &str) -> Play {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        format!(
            "data: {}\n\n",
            json!({"id": "c", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice]})
        )
    };
    Play::Stream(vec![chunk(delta, Value::Null), chunk(json!({}), finish.into()), "data: [DONE]\n\n".into()])
}

#[test]
fn what_a_server_does_not_count_counts_by_its_length() {
    for (budget, code, calls) in [("{tokens: 100}", 1, 1), ("{}", 0, 3)] {
        let server = Server::start(|seen, _| {
            let says = |text: &str| uncounted(json!({"role": "assistant", "content": text}), "stop");
            let asked = seen.body["messages"].as_array().into_iter().flatten();
            if seen.body["model"] == "cheap-model" {
                return says("Add a greeting\n\nIt greets.");
            }
            if asked.into_iter().any(|message| message["role"] == "tool") {
                return says("Done.");
            }
            let arguments = json!({"file_path": "hello.txt", "content": "hello"}).to_string();
            let function = json!({"name": "write_file", "arguments": arguments});
            let calls = json!([{"index": 0, "id": "c-1", "type": "function", "function": function}]);
            uncounted(json!({"role": "assistant", "content": "I write.", "tool_calls": calls}), "tool_calls")
        });
        let env = TestEnv::with_repo();
        env.configure(&format!(
            "agent: builtin\nbudget: {budget}\nproviders:\n  default: compatible\n  compatible:\n    \
             models: {{worker: m-1, cheap: cheap-model}}\n    settings: {{api_base: '{}'}}\n",
            server.url()
        ));
        let ran = env.run(&work(), &[]).expect(code);
        assert_eq!(server.seen().len(), calls, "{ran}");
        let warning = "the provider did not say how many tokens a call of `m-1` took; such calls count by their length";
        assert_eq!(ran.stderr.matches(warning).count(), 1, "{ran}");
        let story = env.story();
        let turn = story.first("AgentTurn");
        assert_eq!(turn["estimated"], true, "{turn}");
        assert!(turn["token_usage"]["input"].as_u64() > Some(100), "{turn}");
        if code == 0 {
            assert_eq!(turn["side_calls"][0]["estimated"], true, "{turn}");
        } else {
            assert!(ran.stdout.contains(" of 100 tokens (`budget.tokens`)"), "{ran}");
        }
    }
}

/// An agent whose model says nothing, for half a million tokens each time.
const NOTHING: &str = "scripts: [{name: all, steps: [{text: '', usage: {input: 500000}}]}]\n";

#[test]
fn unusable_answers_are_paid_for() {
    let total = |env: &TestEnv| env.pleach(&["--json", "cost"]).expect(0).json()["total"]["tokens"]["input"].clone();
    let calls = |env: &TestEnv| -> usize {
        let story = env.story();
        story.all("AgentTurn").iter().filter_map(|turn| turn["side_calls"].as_array()).map(Vec::len).sum()
    };
    let env = TestEnv::with_script(NOTHING);
    env.configure(&settings(""));
    let ran = env.run(&work(), &[]).expect(1);
    assert!(ran.to_string().contains("the model's answer could not be used, twice: it is empty"), "{ran}");
    assert_eq!((calls(&env), total(&env)), (2, json!(1_000_000)));

    let env = TestEnv::with_script(NOTHING);
    env.configure(&settings("budget: {tokens: 400000}"));
    let ran = env.run(&work(), &[]).expect(1);
    assert!(ran.to_string().contains("500000 of 400000 tokens"), "{ran}");
    assert_eq!((calls(&env), total(&env)), (1, json!(500_000)), "no second try is made");

    let env = TestEnv::with_script(NOTHING);
    env.configure(&settings("budget: {tokens: 400000, on_exceeded: pause}"));
    env.run(&work(), &[]).expect(3);
    assert_eq!((calls(&env), total(&env)), (1, json!(500_000)));
    env.pleach(&["-y", "resume", &env.session()]).expect(3);
    assert_eq!(total(&env), json!(500_000), "what was paid counts after a resume");
    env.write("script.yaml", "scripts: [{name: all, steps: [{text: Done., usage: {input: 1}}]}]\n");
    env.configure(&settings("budget: {tokens: 900000, on_exceeded: pause}"));
    env.pleach(&["-y", "resume", &env.session()]).expect(0);
    assert_eq!(total(&env), json!(500_001));
}

#[test]
fn costs_are_shown_by_what_they_were_for() {
    let env = world("");
    assert_eq!(env.pleach(&["cost"]).expect(0).stdout, "No agent has taken a turn yet.\n");
    env.run(
        &graph("mixed", &format!("{} work\n talk\n start -> work -> talk -> shell -> exit", tool("shell", "true"))),
        &[],
    )
    .expect(0);
    env.write(
        "script.yaml",
        FIVE_FILES
            .replace("usage: {input: 1}", "usage: {input: 1200, cache_read: 40000, cache_write: 300, output: 85}"),
    );
    env.configure("agent: builtin\nproviders: {script: {file: script.yaml}}\n");
    env.run(&graph("other", " talk [llm_model=\"unheard-of\"]\n start -> talk -> exit"), &[]).expect(0);
    let sessions = env.sessions();
    let first = sessions.iter().find(|sid| turns(&Story::of(&env, &env.repo_path(), sid)) == 7).unwrap();
    insta::assert_snapshot!(env.pleach(&["cost", first]).expect(0), @r"
    exit: 0
    --- stdout
    node   turns  input  cached  output   cost
    talk       1      1       0       0  $1.00
    work       6      6       0       0  $6.00
    total      7      7       0       0  $7.00
    ");
    insta::assert_snapshot!(env.pleach(&["cost", "--by", "model"]).expect(0), @r"
    exit: 0
    --- stdout
    model       turns  input  cached  output       cost
    script          7      7       0       0      $7.00
    unheard-of      1   1.5k   40.0k      85          ?
    total           8   1.5k   40.0k      85  $7.00 + ?

    ?  no price is known for `unheard-of`; `providers.NAME.prices` sets one
    ");
    insta::assert_snapshot!(env.pleach(&["cost", "--by", "task"]).expect(0), @r"
    exit: 0
    --- stdout
    task    turns  input  cached  output       cost
    (none)      8   1.5k   40.0k      85  $7.00 + ?
    total       8   1.5k   40.0k      85  $7.00 + ?

    ?  no price is known for `unheard-of`; `providers.NAME.prices` sets one
    ");
    let json = env.pleach(&["--json", "cost", "--by", "node"]).expect(0).json();
    let tokens = |input: u64, cache_read: u64, cache_write: u64, output: u64| json!({"input": input, "cache_read": cache_read, "cache_write": cache_write, "output": output, "reasoning": 0});
    assert_eq!(
        json,
        json!({
            "by": "node",
            "rows": [
                {"node": "talk", "turns": 2, "tokens": tokens(1201, 40000, 300, 85), "cost_usd": 1.0, "unpriced_calls": 1, "estimated_calls": 0, "unbilled_turns": 0},
                {"node": "work", "turns": 6, "tokens": tokens(6, 0, 0, 0), "cost_usd": 6.0, "unpriced_calls": 0, "estimated_calls": 0, "unbilled_turns": 0},
            ],
            "total": {"turns": 8, "tokens": tokens(1207, 40000, 300, 85), "cost_usd": 7.0, "unpriced_calls": 1, "estimated_calls": 0, "unbilled_turns": 0},
            "unpriced_models": ["unheard-of"],
        })
    );
    let by_session = env.pleach(&["--json", "cost"]).expect(0).json();
    assert_eq!(by_session["rows"].as_array().map(Vec::len), Some(2));
    assert!(
        by_session["rows"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["cost_usd"].is_null() && row["unpriced_calls"] == 1)
    );
    env.pleach(&["cost", "nosuch"]).expect(2);
    env.pleach(&["cost", "--by", "moon"]).expect(2);
}

/// A program that talks to its model through the gateway cannot continue in the middle: it runs again, and what it
/// asked before is answered from the record, for nothing.
#[test]
fn a_paused_program_resumes_without_paying_twice() {
    let env = TestEnv::with_script(&format!("model: script\n{FIVE_FILES}"));
    let play = env.write("play", "converse anthropic\n");
    let program = json!([crate::fake_agent::path(), play]);
    let agent = format!("agents: {{worker: {{command: {program}, turns: gateway, provider: script}}}}\n");
    let limited = |usd: u32| {
        let more = format!("{agent}sandbox: {{mode: off}}\nbudget: {{usd: {usd}, on_exceeded: pause}}");
        env.configure(&settings(&more));
    };
    limited(2);
    let dot = graph("driven", " work [prompt=\"Write five files\", agent=worker]\n start -> work -> exit");
    env.run(&dot, &[]).expect(3);
    assert_eq!(spent(&env.story()), 2.0);
    env.resume(&[]).expect(3);
    assert_eq!(spent(&env.story()), 2.0, "nothing is asked without money");
    limited(100);
    env.resume(&[]).expect(0);
    assert_eq!(spent(&env.story()), 6.0, "each call was paid for once");
    assert_eq!(env.files(), ["1.txt", "2.txt", "3.txt", "4.txt", "5.txt", "README.md"]);
}
