//! Agents at work: the built-in one on scripts, programs as agents, and what they report.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agents::agent::builtin::BuiltinLimits;
use agents::agent::{
    Agent, AgentError, AgentReply, Builtin, CommandAgent, ConfiguredTools, End, Job, RepoContext, Simulated, Turn,
    TurnVerdict, Turns,
};
use agents::llm::{Message, Part, Provider, Role, Script};
use os::process::{Cancel, Canceller};
use pleach_core::config::{Layer, Precedence, resolve};
use pleach_core::event::{Usage, WarningCode};
use pleach_core::ids::{BranchName, NodeId, RepoName};
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::spawner::spawner;

/// A worktree and a place for the status file.
struct Site {
    dir: TempDir,
}

impl Site {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        Self { dir }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn status(&self) -> PathBuf {
        self.dir.path().join("status.json")
    }

    fn job(&self) -> Job {
        Job::new(NodeId::new("implement").unwrap(), "do the task", self.root(), self.status())
    }

    fn get(&self, name: &str) -> String {
        fs::read_to_string(self.root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

/// What an agent did: its end, and the turns it reported.
struct Done {
    result: Result<AgentReply, AgentError>,
    turns: Vec<Turn>,
}

impl Done {
    fn reply(&self) -> &AgentReply {
        self.result.as_ref().unwrap_or_else(|error| panic!("{error}"))
    }

    fn error(&self) -> &AgentError {
        self.result.as_ref().expect_err("it must fail")
    }

    /// The text of the tools' answers in a turn, and whether they are errors.
    fn results(&self, turn: usize) -> Vec<(String, bool)> {
        let parts = self.turns[turn].messages.iter().flat_map(|message| &message.content);
        parts
            .filter_map(|part| match part {
                Part::ToolResult { content, is_error, .. } => Some((content.clone(), *is_error)),
                _ => None,
            })
            .collect()
    }
}

/// Runs a job, answering each turn as `verdict` says.
async fn run_with(
    agent: &dyn Agent,
    job: Job,
    cancel: &Cancel,
    mut verdict: impl FnMut(usize, &Turn) -> TurnVerdict + Send + 'static,
) -> Done {
    let (turns, mut inbox) = Turns::channel();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let engine = tokio::spawn({
        let seen = Arc::clone(&seen);
        async move {
            while let Some((turn, answer)) = inbox.recv().await {
                let mut seen = seen.lock().unwrap();
                seen.push(turn.clone());
                answer.send(verdict(seen.len(), &turn)).expect("the agent waits for its verdict");
            }
        }
    });
    let result = agent.run(job, &turns, cancel).await;
    drop(turns);
    engine.await.unwrap();
    Done { result, turns: Arc::try_unwrap(seen).unwrap().into_inner().unwrap() }
}

async fn run(agent: &dyn Agent, job: Job) -> Done {
    run_with(agent, job, &Cancel::never(), |_, _| TurnVerdict::Go).await
}

/// Limits that make a test wait for nothing.
fn quick() -> BuiltinLimits {
    BuiltinLimits { retry_pause: Duration::from_millis(1), ..BuiltinLimits::default() }
}

fn provider(yaml: &str) -> Provider {
    Provider::Script(Script::parse(yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}")))
}

/// The built-in agent on one script with these steps.
fn builtin(steps: &str) -> Builtin {
    Builtin::new(provider(&format!("scripts:\n  - name: test\n    steps:\n{steps}")), spawner()).with_limits(quick())
}

fn shell_step(command: &str) -> String {
    format!("      - {{tools: [{{shell: {{command: {}}}}}]}}\n", json!(command))
}

#[tokio::test]
async fn the_built_in_agent_works_turn_by_turn() {
    let site = Site::new();
    let agent = builtin(
        "
      - text: I'll add the greeting. Then I check it.
        tools:
          - write_file: {file_path: src/hello.txt, content: \"hello\\n\"}
          - edit_file: {file_path: src/hello.txt, old_string: hello, new_string: hello world}
        usage: {input: 100, output: 20}
      - tools: [{shell: {command: 'cat src/hello.txt; echo more >> log'}}]
        usage: {input: 150, output: 5}
      - text: Done.
",
    );
    let done = run(&agent, site.job()).await;
    assert_eq!(*done.reply(), AgentReply::new("Done.".into(), End::Done));
    assert_eq!(site.get("src/hello.txt"), "hello world\n");
    assert_eq!(site.get("log"), "more\n");
    let [first, second, third] = done.turns.as_slice() else { panic!("{} turns", done.turns.len()) };

    let roles: Vec<Role> = first.messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool]);
    assert_eq!(first.messages[0].text(), "do the task");
    assert_eq!(first.intent, "I'll add the greeting. Then I check it.");
    assert_eq!(first.writes, Some(vec!["src/hello.txt".into()]));
    assert_eq!(first.usage, Usage { input: 100, output: 20, ..Usage::default() });
    assert_eq!((first.model.as_str(), first.provider.as_str(), first.exact), ("script", "script", true));
    let names: Vec<&str> = first.tool_calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(names, ["write_file", "edit_file"]);

    assert_eq!(second.messages.len(), 2);
    assert_eq!(second.writes, None, "a command may have written anything");
    assert_eq!(second.intent, "Run cat src/hello.txt; echo more >> log");
    assert_eq!(done.results(1), [("[stdout]\nhello world\n[exit 0]".into(), false)]);
    assert_eq!((third.messages.len(), third.tool_calls.len(), &third.writes), (1, 0, &Some(vec![])));
}

/// The job in a workspace of two repositories, of which only `api` may be written to.
fn two_repos(site: &Site) -> Job {
    let mut job = site.job();
    for (name, writable) in [("api", true), ("web", false)] {
        fs::create_dir(site.root().join(name)).unwrap();
        fs::write(site.root().join(name).join("AGENTS.md"), format!("rules of {name}")).unwrap();
        job.repos.push(RepoContext {
            name: RepoName::new(name).unwrap(),
            path: site.root().join(name),
            branch: BranchName::new(format!("pleach/p/{name}")).unwrap(),
            commit: "0123456789012345678901234567890123456789".parse().unwrap(),
            dirty: false,
            writable,
        });
    }
    job
}

fn configured(yaml: &str) -> ConfiguredTools {
    let file = std::path::Path::new("/p/pleach.yaml");
    ConfiguredTools::of(&resolve(vec![Layer::file(Precedence::Project, file, yaml)]).unwrap().config)
}

const TOOLS: &str = "
tools: [{name: where, command: pwd}]
workspace:
  repos: {api: {path: api}, web: {path: web}}
  tools: {api: {run-tests: {command: 'pwd; echo made > made'}}, web: {check: {command: 'pwd; exit 3'}}}
";

#[tokio::test]
async fn repo_scoped_tools() {
    let site = Site::new();
    let agent = builtin(
        "
      - tools:
          - api:write_file: {file_path: a.txt, content: in api}
          - write_file: {file_path: web/b.txt, content: at the top}
          - web:read_file: {file_path: AGENTS.md}
          - web:grep: {pattern: top}
          - api:read_file: {file_path: ../web/b.txt}
          - web:write_file: {file_path: c.txt, content: no}
          - web:shell: {command: pwd}
      - tools: [{api:shell: {command: pwd}}, {shell: {command: pwd}}, {api:run-tests: {}}, {where: {}}, {web:check: {}}]
      - text: Done.
",
    )
    .with_commands(configured(TOOLS));
    let done = run(&agent, two_repos(&site)).await;
    assert_eq!(done.reply().text, "Done.");
    let told = serde_json::to_value(&done.turns[0].messages[0]).unwrap().to_string();
    let root = site.root();
    for fact in [format!("- `api` in `{}` (branch `pleach/p/api`)", root.join("api").display()), "read-only)".into()] {
        assert!(told.contains(&fact), "{fact}: {told}");
    }
    let results = done.results(0);
    assert_eq!(site.get("api/a.txt"), "in api");
    assert_eq!(results[2].0, "  1 | rules of web\n");
    assert_eq!(results[3].0, "b.txt:1:at the top\n");
    assert!(results[4].0.contains("outside"), "{results:?}");
    for refused in [&results[5].0, &results[6].0] {
        assert!(refused.contains("no tool `web:") && refused.contains("web:glob, where"), "{refused}");
    }
    assert_eq!(done.turns[0].writes, Some(vec![root.join("api/a.txt"), root.join("web/b.txt")]));
    assert_eq!(done.turns[0].tool_calls[0].name, "api:write_file");
    let dirs: Vec<String> = done.results(1).iter().map(|(text, _)| text.lines().nth(1).unwrap().to_owned()).collect();
    let (root, api, web) = (root.display(), root.join("api"), root.join("web"));
    let (api, web) = (api.display().to_string(), web.display().to_string());
    assert_eq!(dirs, [api.clone(), root.to_string(), api, root.to_string(), web]);
    assert_eq!(
        done.results(1).iter().map(|(_, failed)| *failed).collect::<Vec<_>>(),
        [false, false, false, false, true]
    );
    assert_eq!(site.get("api/made"), "made\n");
}

#[tokio::test]
async fn a_program_is_told_its_repositories_and_commands() {
    let site = Site::new();
    let script = "cat; echo; run=$(web__check) || echo \"$? $run\"; api__run-tests; where";
    let agent = CommandAgent::new(["sh", "-c", script], spawner()).with_tools(configured(TOOLS));
    let mut job = two_repos(&site);
    job.launchers = Some(site.dir.path().join("tools"));
    let done = run(&agent, job).await;
    let text = &done.reply().text;
    let (root, bin) = (site.root(), site.dir.path().join("tools/bin"));
    for line in [
        format!("- `web` in `{}` (branch `pleach/p/web`, read-only)", root.join("web").display()),
        format!("Commands of this project for you, on PATH and in `{}`:", bin.display()),
        "- `where`: Runs `pwd`.".into(),
        "- `api__run-tests`: Runs `pwd; echo made > made`.".into(),
        format!("3 {}", root.join("web").display()),
        root.join("api").display().to_string(),
        root.display().to_string(),
    ] {
        assert!(text.lines().any(|said| said == line), "{line}: {text}");
    }
    assert_eq!(site.get("api/made"), "made\n");
}

#[tokio::test]
async fn tool_errors_are_reported_to_the_model() {
    let site = Site::new();
    let agent = builtin(
        "
      - tools:
          - fly: {to: the moon}
          - read_file: {path: wrong}
          - read_file: {file_path: ../../etc/passwd}
          - write_file: {file_path: still.txt, content: runs}
      - text: ok
",
    );
    let done = run(&agent, site.job()).await;
    assert_eq!(done.reply().text, "ok");
    let results = done.results(0);
    assert!(results[0].0.contains("no tool `fly`; the tools are read_file"), "{results:?}");
    assert!(results[1].0.contains("unknown field `path`"), "{results:?}");
    assert!(results[2].0.contains("outside"), "{results:?}");
    assert_eq!(results.iter().map(|(_, error)| *error).collect::<Vec<_>>(), [true, true, true, false]);
    assert_eq!(done.turns[0].tool_calls.iter().filter(|call| call.is_error).count(), 3);
    assert_eq!(done.turns[0].writes, Some(vec!["still.txt".into()]));
}

#[tokio::test]
async fn a_step_without_tools_has_none() {
    let site = Site::new();
    let agent = builtin("      - tools: [{write_file: {file_path: a, content: x}}]\n      - text: in words\n");
    let job = Job { tools: false, ..site.job() };
    let done = run(&agent, job).await;
    assert_eq!(done.results(0), [("there are no tools in this step".into(), true)]);
    assert_eq!(done.reply().text, "in words");
    assert!(!site.root().join("a").exists());
}

#[tokio::test]
async fn commands_have_an_environment_limits_and_an_exit() {
    let site = Site::new();
    let steps = [
        shell_step("echo out; echo err >&2; exit 3"),
        shell_step("echo \"$GREETING\"; pwd; wc -c"),
        "      - {tools: [{shell: {command: 'echo before; sleep 600', timeout_ms: 2000}}]}\n".into(),
        shell_step("seq 1 1000"),
        "      - {tools: [{shell: {command: 'true', timeout_ms: 0}}]}\n      - text: end\n".into(),
    ];
    let agent = builtin(&steps.concat());
    let job = Job { env: vec![("GREETING".into(), Some("hi".into()))], ..site.job() };
    let done = run(&agent, job).await;
    assert_eq!(done.reply().text, "end");
    assert_eq!(done.results(0), [("[stdout]\nout\n[stderr]\nerr\n[exit 3]".into(), true)]);
    let root = site.root().canonicalize().unwrap();
    assert_eq!(done.results(1), [(format!("[stdout]\nhi\n{}\n0\n[exit 0]", root.display()), false)]);
    assert_eq!(done.results(2), [("[stdout]\nbefore\n[timed out after 2s]".into(), true)], "output is kept");
    let long = &done.results(3)[0].0;
    assert!(long.contains("[WARNING: Tool output was truncated.") && long.ends_with("1000\n[exit 0]"), "{long}");
    assert!(long.lines().count() <= 260);
    assert!(done.results(4)[0].0.contains("counts from 1"));
}

#[tokio::test]
async fn a_busy_provider_is_asked_again_twice() {
    let site = Site::new();
    let done = run(&builtin("      - {error: {status: 529}, tries: 2}\n      - text: at last\n"), site.job()).await;
    assert_eq!(done.reply().text, "at last");
    assert_eq!(done.turns.len(), 1, "failed calls are no turns");

    let done =
        run(&builtin("      - {error: {status: 529, message: busy}, tries: 3}\n      - text: never\n"), site.job())
            .await;
    let text = "the provider answered 529: busy (tried 3 times)";
    assert_eq!(*done.error(), AgentError::Unanswered(text.into()));
    assert!(done.turns.is_empty());

    let done =
        run(&builtin("      - {error: {status: 429, retry_after: 2m}}\n      - text: never\n"), site.job()).await;
    assert!(
        matches!(done.error(), AgentError::Unanswered(text) if text.contains("(tried 1 time, it wants to be asked again after 120 s)")),
        "{:?}",
        done.error()
    );
    let done =
        run(&builtin("      - {error: {status: 429, retry_after: 1ms}}\n      - text: soon\n"), site.job()).await;
    assert_eq!(done.reply().text, "soon");
}

#[tokio::test]
async fn what_cannot_work_fails_at_once() {
    let site = Site::new();
    for status in [400, 413] {
        let done =
            run(&builtin(&format!("      - {{error: {{status: {status}}}}}\n      - text: never\n")), site.job()).await;
        assert!(matches!(done.error(), AgentError::Terminal(text) if text.contains(&status.to_string())), "{status}");
    }
    for status in [401, 402, 403, 404] {
        let done = run(&builtin(&format!("      - {{error: {{status: {status}}}}}\n")), site.job()).await;
        assert!(matches!(done.error(), AgentError::Environment(_)), "{status}: {:?}", done.error());
    }
    // An answer that never started is not asked for again.
    for text in ["x", "''"] {
        let done = run(&builtin(&format!("      - {{text: {text}, stop: content_filter}}\n")), site.job()).await;
        assert!(matches!(done.error(), AgentError::Terminal(text) if text.contains("withheld")), "{:?}", done.error());
        assert_eq!(done.turns.len(), 1);
        let done = run(&builtin(&format!("      - {{text: {text}, stop: length}}\n")), site.job()).await;
        assert!(matches!(&done.reply().end, End::Limit(why) if why.contains("cut off")), "{:?}", done.reply());
    }
    let done = run(&builtin("      - tools: [{glob: {pattern: x}}]\n"), site.job()).await;
    assert!(matches!(done.error(), AgentError::Terminal(text) if text.contains("asked for number 2")));
    assert_eq!(done.turns.len(), 1, "the turn before it is reported");
}

#[tokio::test]
async fn an_unreadable_answer_is_requested_once_more() {
    let site = Site::new();
    let done = run(&builtin("      - malformed: '<html>'\n      - text: better\n"), site.job()).await;
    assert_eq!(done.reply().text, "better");
    let roles: Vec<Role> = done.turns[0].messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant], "the remark about it is no part of the conversation");

    let done = run(&builtin("      - {malformed: '<html>', tries: 2}\n      - text: never\n"), site.job()).await;
    assert!(matches!(done.error(), AgentError::Terminal(text) if text.contains("<html>")), "{:?}", done.error());
    let done = run(&builtin("      - tools: [{read_file: just text}]\n"), site.job()).await;
    let why = "the arguments of its call of `read_file` are no JSON object";
    assert!(matches!(done.error(), AgentError::Terminal(text) if text.contains(why)), "{:?}", done.error());
    let done = run(&builtin("      - text: ' '\n"), site.job()).await;
    assert!(matches!(done.error(), AgentError::Terminal(text) if text.contains("it is empty")), "{:?}", done.error());
    let done = run(&builtin("      - tools: [{glob: {pattern: x}}]\n      - text: ''\n"), site.job()).await;
    assert!(matches!(done.error(), AgentError::Terminal(text) if text.contains("it is empty")), "{:?}", done.error());
}

#[tokio::test]
async fn a_looping_agent_is_warned_then_ended() {
    for cycle in [&["a"][..], &["a", "b"], &["a", "b", "c"]] {
        let site = Site::new();
        let steps: String =
            (0..30).map(|n| format!("      - tools: [{{glob: {{pattern: {}}}}}]\n", cycle[n % cycle.len()])).collect();
        let done = run(&builtin(&steps), site.job()).await;
        assert!(
            matches!(done.error(), AgentError::Terminal(text) if text.contains("is looping")),
            "{:?}",
            done.result.is_ok()
        );
        assert_eq!(done.turns.len(), 13, "told after ten, ended three later");
        let remarks: Vec<usize> =
            (0..13).filter(|n| done.turns[*n].messages.iter().any(Message::is_steering)).collect();
        assert_eq!(remarks, [9]);
        let last = done.turns[9].messages.last().unwrap();
        assert!(last.is_steering() && last.role == Role::User && last.text().starts_with("You are repeating yourself"));
    }
    let site = Site::new();
    let steps = "      - tools: [{glob: {pattern: a}}]\n".repeat(20) + "      - text: done\n";
    let agent = builtin(&steps).with_limits(BuiltinLimits { loop_window: 0, ..quick() });
    assert_eq!(run(&agent, site.job()).await.turns.len(), 21, "unless nobody looks");
}

#[tokio::test]
async fn limits_end_a_run_that_is_not_done() {
    let site = Site::new();
    let steps: String =
        (0..9).map(|n| format!("      - {{text: t{n}, tools: [{{glob: {{pattern: a{n}}}}}]}}\n")).collect();
    let ends = |limits: BuiltinLimits| {
        let agent = builtin(&steps).with_limits(limits);
        let job = site.job();
        async move { run(&agent, job).await }
    };
    let done = ends(BuiltinLimits { max_turns: 3, ..quick() }).await;
    assert_eq!(done.turns.len(), 3);
    assert_eq!(*done.reply(), AgentReply::new("t2".into(), End::Limit("the agent was not done after 3 turns".into())));
    let done = ends(BuiltinLimits { max_tool_rounds: 2, ..quick() }).await;
    assert_eq!(done.turns.len(), 2);
    assert!(matches!(&done.reply().end, End::Limit(text) if text.contains("2 rounds of tools")));

    let agent =
        builtin("      - tools: [{glob: {pattern: a}}, {glob: {pattern: b}}]\n      - {text: cut, stop: length}\n");
    let done = run(&agent.with_limits(BuiltinLimits { max_calls_per_turn: 1, ..quick() }), site.job()).await;
    assert!(done.results(0)[1].0.starts_with("not run: one answer may ask for 1 tools at most"));
    assert!(matches!(&done.reply().end, End::Limit(text) if text.contains("token limit")));
}

#[tokio::test]
async fn limits_count_what_was_done_before_an_interruption() {
    let site = Site::new();
    let steps: String = (0..9).map(|n| format!("      - tools: [{{glob: {{pattern: a{n}}}}}]\n")).collect();
    let agent = builtin(&steps).with_limits(BuiltinLimits { max_turns: 4, ..quick() });
    let first =
        run_with(&agent, site.job(), &Cancel::never(), |n, _| if n == 3 { TurnVerdict::Stop } else { TurnVerdict::Go })
            .await;
    let history: Vec<Message> = first.turns.iter().flat_map(|turn| turn.messages.clone()).collect();
    let done = run(&agent, Job { history, continues: true, ..site.job() }).await;
    assert_eq!((first.turns.len(), done.turns.len()), (3, 1));
}

#[tokio::test]
async fn a_run_interrupted_at_its_end_ends_the_same_way() {
    let site = Site::new();
    let circles: String = (0..30).map(|_| "      - tools: [{glob: {pattern: a}}]\n").collect();
    for steps in ["      - {text: half, stop: length}\n", "      - {text: x, stop: content_filter}\n", &circles] {
        let agent = builtin(steps);
        let whole = run(&agent, site.job()).await;
        let history: Vec<Message> = whole.turns.iter().flat_map(|turn| turn.messages.clone()).collect();
        let again = run(&agent, Job { history, continues: true, ..site.job() }).await;
        assert_eq!(again.result, whole.result);
        assert!(again.turns.is_empty(), "nothing is asked again");
    }
}

#[tokio::test]
async fn a_context_filling_up_is_a_warning() {
    let site = Site::new();
    let steps = "      - tools: [{shell: {command: 'printf %3000s x'}}]\n      - text: done\n";
    let done =
        run(&builtin(steps).with_limits(BuiltinLimits { context_tokens: Some(1_000), ..quick() }), site.job()).await;
    assert!(done.turns[0].warnings.is_empty(), "{:?}", done.turns[0].warnings);
    let said = &done.turns[1].warnings[0];
    assert_eq!(said.code, WarningCode::ContextFull);
    assert!(said.text.contains("1000 tokens"), "{said}");
}

#[tokio::test]
async fn warnings_come_after_the_turn() {
    let site = Site::new();
    let agent = builtin("      - tools: [{glob: {pattern: x}}]\n      - text: done\n      - text: really done\n");
    let job = site.job();
    let steering = job.steering.clone();
    steering.say("mind the tests");
    let done = run_with(&agent, job, &Cancel::never(), move |n, _| {
        if n == 1 {
            steering.say("and the docs");
        }
        TurnVerdict::Go
    })
    .await;
    assert_eq!(done.reply().text, "really done");
    let remark = |turn: usize| done.turns[turn].messages.last().filter(|last| last.is_steering()).map(Message::text);
    assert_eq!((remark(0), remark(1), remark(2)), (Some("mind the tests".into()), Some("and the docs".into()), None));
}

#[tokio::test]
async fn the_status_file_is_writable_and_not_work() {
    let site = Site::new();
    let agent = builtin(
        "      - tools: [{write_file: {file_path: '{{status_file}}', content: '{\"outcome\":\"fail\"}'}}]\n      - text: x\n",
    );
    let done = run(&agent, site.job()).await;
    assert_eq!(fs::read_to_string(site.status()).unwrap(), "{\"outcome\":\"fail\"}");
    assert_eq!(done.turns[0].writes, Some(vec![]));
}

#[tokio::test]
async fn a_new_task_joins_the_conversation() {
    let site = Site::new();
    let history = vec![Message::user("before"), Message::assistant("said")];
    let done = run(&builtin("      - text: answer\n"), Job { history: history.clone(), ..site.job() }).await;
    let [task, answer] = done.turns[0].messages.as_slice() else { panic!("{:?}", done.turns[0]) };
    assert_eq!((task.content.clone(), answer), (Message::user("do the task").content, &Message::assistant("answer")));
    assert!(task.extra["about"].as_str().unwrap().contains("step `implement`"), "{task:?}");
}

#[tokio::test]
async fn a_conversation_that_cannot_resume_says_why() {
    let site = Site::new();
    let call = Message::new(Role::Assistant, vec![Part::tool_call("1", "glob", json!({}))]);
    for history in [vec![], vec![Message::steering("x")], vec![Message::user("t"), call]] {
        let done = run(&builtin("      - text: x\n"), Job { history, continues: true, ..site.job() }).await;
        assert!(matches!(done.error(), AgentError::Terminal(text) if text.contains("to resume")), "{:?}", done.result);
    }
    let job = Job { cwd: site.dir.path().into(), ..site.job() };
    assert!(matches!(run(&builtin("      - text: x\n"), job).await.error(), AgentError::Terminal(_)));
}

// ---- Ending early ----

#[tokio::test]
async fn a_verdict_ends_the_run() {
    let site = Site::new();
    let steps: String =
        (0..5).map(|n| format!("      - {{text: t{n}, tools: [{{glob: {{pattern: a{n}}}}}]}}\n")).collect();
    let done = run_with(&builtin(&steps), site.job(), &Cancel::never(), |n, _| {
        if n == 2 { TurnVerdict::Stop } else { TurnVerdict::Go }
    })
    .await;
    assert_eq!(*done.reply(), AgentReply::new("t1".into(), End::Stopped));
    assert_eq!(done.turns.len(), 2);
}

/// Runs a job whose commands write `ready` into the worktree, and acts as soon as it is there.
async fn act_when_ready(agent: &dyn Agent, site: &Site, job: Job, act: impl Fn(&Canceller)) -> Done {
    let (canceller, cancel) = Cancel::new();
    let ready = site.root().join("ready");
    let watch = async {
        while !ready.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        act(&canceller);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        done = run_with(agent, job, &cancel, |_, _| TurnVerdict::Go) => done,
        () = watch => unreachable!("it waits for ever"),
    }
}

#[tokio::test]
async fn a_stop_finishes_the_turn_and_a_kill_does_not() {
    let steps = shell_step("touch ready; while [ ! -e go ]; do sleep 0.01; done; echo done > finished")
        + "      - text: never\n";
    let site = Site::new();
    let go = site.root().join("go");
    let done = act_when_ready(&builtin(&steps), &site, site.job(), |canceller| {
        canceller.stop();
        fs::write(&go, "").unwrap();
    })
    .await;
    assert_eq!(done.reply().end, End::Stopped);
    assert_eq!(done.turns.len(), 1, "the turn is reported");
    assert_eq!(site.get("finished"), "done\n");

    let site = Site::new();
    let done = act_when_ready(&builtin(&steps), &site, site.job(), Canceller::kill).await;
    assert_eq!(*done.error(), AgentError::Cancelled);
    assert!(done.turns.is_empty(), "half a turn is no turn");
    assert!(!site.root().join("finished").exists());
}

#[tokio::test]
async fn a_last_answer_is_not_lost_to_a_stop() {
    let site = Site::new();
    let (canceller, cancel) = Cancel::new();
    let done = run_with(&builtin("      - text: all done\n"), site.job(), &cancel, move |_, _| {
        canceller.stop();
        TurnVerdict::Go
    })
    .await;
    assert_eq!(*done.reply(), AgentReply::new("all done".into(), End::Done));
}

#[tokio::test]
async fn nothing_starts_after_a_stop_or_kill() {
    let site = Site::new();
    let (canceller, cancel) = Cancel::new();
    canceller.stop();
    let agents: [&dyn Agent; 2] = [&builtin("      - text: x\n"), &CommandAgent::new(["touch", "started"], spawner())];
    for agent in agents {
        let done = run_with(agent, site.job(), &cancel, |_, _| TurnVerdict::Go).await;
        assert_eq!((done.reply().end.clone(), done.turns.len()), (End::Stopped, 0), "{}", agent.kind());
    }
    canceller.kill();
    for agent in agents {
        let done = run_with(agent, site.job(), &cancel, |_, _| TurnVerdict::Go).await;
        assert_eq!(*done.error(), AgentError::Cancelled, "{}", agent.kind());
    }
    assert!(!site.root().join("started").exists());
}

#[tokio::test]
async fn a_kill_ends_a_hung_call_and_a_stop_waits() {
    let site = Site::new();
    let (canceller, cancel) = Cancel::new();
    let (agent, turns) = (builtin("      - hang: true\n"), Turns::channel());
    let mut call = agent.run(site.job(), &turns.0, &cancel);
    tokio::select! {
        biased;
        result = &mut call => panic!("{result:?}"),
        () = tokio::task::yield_now() => canceller.kill(),
    }
    assert_eq!(call.await, Err(AgentError::Cancelled));

    let (canceller, cancel) = Cancel::new();
    let agent = builtin("      - {error: {status: 500}}\n      - text: x\n");
    let agent = agent.with_limits(BuiltinLimits { retry_pause: Duration::from_secs(600), ..quick() });
    let mut call = agent.run(site.job(), &turns.0, &cancel);
    tokio::select! {
        biased;
        result = &mut call => panic!("{result:?}"),
        () = tokio::time::sleep(Duration::from_millis(50)) => canceller.stop(),
    }
    assert_eq!(call.await, Ok(AgentReply::new(String::new(), End::Stopped)));
}

#[tokio::test]
async fn a_job_has_its_time() {
    let site = Site::new();
    let in_time = |millis| Job { timeout: Some(Duration::from_millis(millis)), ..site.job() };
    let done = run(&builtin("      - hang: true\n"), in_time(100)).await;
    assert!(matches!(done.error(), AgentError::TimedOut(_)), "{:?}", done.result);

    let steps = "      - tools: [{shell: {command: 'echo started > log; sleep 600', timeout_ms: 600000}}, {glob: {pattern: x}}]\n";
    let done = run(&builtin(steps), in_time(2500)).await;
    assert!(matches!(done.error(), AgentError::TimedOut(_)), "{:?}", done.result);
    assert_eq!(done.turns.len(), 1, "what was done is reported");
    assert!(done.results(0)[0].0.contains("timed out"), "{:?}", done.results(0));
    assert!(done.results(0)[1].0.contains("the time for this task is up"));
    assert_eq!(site.get("log"), "started\n");

    let agent = builtin("      - {error: {status: 500}}\n      - text: x\n");
    let done =
        run(&agent.with_limits(BuiltinLimits { retry_pause: Duration::from_secs(600), ..quick() }), in_time(100)).await;
    assert!(matches!(done.error(), AgentError::TimedOut(_)), "{:?}", done.result);
}

// ---- Going on ----

/// One scripted answer: words, and files to write or edit.
fn step() -> impl Strategy<Value = Value> {
    let tool = prop_oneof![
        ("[abc]", "[xyz]{0,3}")
            .prop_map(|(name, content)| json!({"write_file": {"file_path": name, "content": content}})),
        "[abc]".prop_map(|name| json!({"edit_file": {"file_path": name, "old_string": "x", "new_string": "yy"}})),
        "[abc]".prop_map(|name| json!({"read_file": {"file_path": name}})),
        Just(json!({"grep": {"pattern": "y"}})),
        Just(json!({"unknown": {}})),
    ];
    ("[a-z]{1,8}", prop::collection::vec(tool, 1..4), 0u64..100)
        .prop_map(|(text, tools, tokens)| json!({"text": text, "tools": tools, "usage": {"input": tokens}}))
}

/// A turn as far as it must not depend on when it happened.
fn shape(turn: &Turn) -> Value {
    let calls: Vec<Value> = turn.tool_calls.iter().map(|call| json!([call.id, call.name, call.is_error])).collect();
    let mut messages = turn.messages.clone();
    // It names the directories of one run.
    messages.iter_mut().for_each(|message| drop(message.extra.remove("about")));
    json!([messages, calls, turn.usage, turn.intent, turn.writes, turn.model])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Interrupted after any turn and continued from what was reported, a run takes the turns it would have taken.
    #[test]
    fn a_run_resumes_after_any_turn(steps in prop::collection::vec(step(), 1..6), faults in prop::collection::vec(0u32..3, 6)) {
        let mut listed = Vec::new();
        for (step, tries) in steps.into_iter().chain([json!({"text": "the end"})]).zip(faults) {
            if tries > 0 {
                listed.push(json!({"error": {"status": 500}, "tries": tries}));
            }
            listed.push(step);
        }
        let yaml = json!({"scripts": [{"name": "s", "steps": listed}]}).to_string();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let agent = Builtin::new(provider(&yaml), spawner()).with_limits(quick());
        let earlier = vec![Message::user("an older task"), Message::assistant("older words")];
        let whole_site = Site::new();
        let start = |site: &Site| Job { history: earlier.clone(), ..site.job() };
        let whole = runtime.block_on(run(&agent, start(&whole_site)));
        let expected: Vec<Value> = whole.turns.iter().map(shape).collect();
        for cut in 1..=expected.len() {
            let site = Site::new();
            let verdict = move |n, _: &Turn| if n == cut { TurnVerdict::Stop } else { TurnVerdict::Go };
            let first = runtime.block_on(run_with(&agent, start(&site), &Cancel::never(), verdict));
            let said = first.turns.iter().flat_map(|turn| turn.messages.clone());
            // Through JSON and back, as records do.
            let history: Vec<Message> = earlier.clone().into_iter().chain(said).collect();
            let history = serde_json::from_str(&serde_json::to_string(&history).unwrap()).unwrap();
            let rest = runtime.block_on(run(&agent, Job { history, continues: true, ..site.job() }));
            let all: Vec<Value> = first.turns.iter().chain(&rest.turns).map(shape).collect();
            prop_assert_eq!(&all, &expected);
            prop_assert_eq!(rest.reply(), whole.reply());
            for name in ["a", "b", "c"] {
                let read = |site: &Site| fs::read_to_string(site.root().join(name)).ok();
                prop_assert_eq!(read(&site), read(&whole_site));
            }
        }
    }
}

// ---- Other agents ----

fn program(script: &str) -> CommandAgent {
    CommandAgent::new(["sh", "-c", script], spawner())
}

#[tokio::test]
async fn a_program_is_an_agent() {
    let site = Site::new();
    let agent = program("echo \"I'll add a file for $WHO.\"; echo; cat; touch made");
    assert_eq!((agent.kind(), agent.can_continue()), ("command", false));
    let job = Job { env: vec![("WHO".into(), Some("you".into()))], ..site.job() };
    let done = run(&agent, job).await;
    assert_eq!(*done.reply(), AgentReply::new("I'll add a file for you.\n\ndo the task".into(), End::Done));
    assert!(site.root().join("made").exists());
    let [turn] = done.turns.as_slice() else { panic!("one run is one turn") };
    assert_eq!(turn.messages, [Message::user("do the task"), Message::assistant(&done.reply().text)]);
    assert_eq!((turn.model.as_str(), turn.provider.as_str()), ("sh", "local"));
    assert_eq!(turn.intent, "I'll add a file for you.");
    assert_eq!(turn.writes, None);
    let stopped = run_with(&agent, site.job(), &Cancel::never(), |_, _| TurnVerdict::Stop).await;
    assert_eq!(stopped.reply().end, End::Stopped);
}

#[tokio::test]
async fn a_program_that_fails_says_why() {
    let site = Site::new();
    let done = run(&program("echo half; echo 'no luck' >&2; exit 3"), site.job()).await;
    assert_eq!(*done.error(), AgentError::Terminal("agent `sh` ended with exit 3: no luck".into()));
    assert_eq!(done.turns.len(), 1, "its run was a turn all the same");
    assert!(!done.turns[0].messages[1].is_answer(), "but not one to go on from");
    let done = run(&program("exit 75"), site.job()).await;
    assert_eq!(*done.error(), AgentError::Transient("agent `sh` ended with exit 75".into()));
    let done =
        run(&program("echo waiting >&2; sleep 600"), Job { timeout: Some(Duration::from_secs(2)), ..site.job() }).await;
    assert_eq!(*done.error(), AgentError::TimedOut("agent `sh` timed out after 2s: waiting".into()));
    let done = run(&CommandAgent::new(["no-such-program-here"], spawner()), site.job()).await;
    assert!(matches!(done.error(), AgentError::Environment(text) if text.contains("no-such-program-here")));
    let done = act_when_ready(&program("touch ready; sleep 600"), &site, site.job(), Canceller::kill).await;
    assert_eq!(*done.error(), AgentError::Cancelled);
}

#[tokio::test]
async fn an_answer_already_given_is_given_again() {
    let site = Site::new();
    let history = vec![Message::user("do the task"), Message::assistant("the answer")];
    let agents: [&dyn Agent; 3] =
        [&program("touch ran"), &builtin("      - tools: [{write_file: {file_path: ran, content: x}}]\n"), &Simulated];
    for agent in agents {
        let done = run(agent, Job { history: history.clone(), continues: true, answered: true, ..site.job() }).await;
        assert_eq!(*done.reply(), AgentReply::new("the answer".into(), End::Done), "{}", agent.kind());
        assert!(done.turns.is_empty());
    }
    assert!(!site.root().join("ran").exists());
}

#[tokio::test]
async fn without_an_agent_a_node_is_simulated() {
    let site = Site::new();
    let done = run(&Simulated, site.job()).await;
    assert_eq!(done.reply().text, "[Simulated] Response for stage: implement");
    let [turn] = done.turns.as_slice() else { panic!("one answer is one turn") };
    assert_eq!(turn.messages, [Message::user("do the task"), Message::assistant(&done.reply().text)]);
    assert_eq!((turn.model.as_str(), &turn.writes), ("simulated", &Some(vec![])));
}

// ---- Documentation ----

#[tokio::test]
async fn the_documented_script_works() {
    let page = include_str!("../../../../docs/scripted-provider.md");
    let yaml = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let site = Site::new();
    let agent = Builtin::new(provider(yaml), spawner()).with_limits(quick());
    let job = |node: &str, visit, prompt: &str| Job {
        node: NodeId::new(node).unwrap(),
        visit,
        prompt: prompt.into(),
        ..site.job()
    };
    let done = run(&agent, job("implement", 1, "write sum.sh")).await;
    assert_eq!(done.reply().text, "The function is there.");
    assert_eq!(done.results(0)[1].0, "[stdout]\n0\n[exit 0]");
    assert_eq!((done.turns[0].model.as_str(), done.turns[0].usage.output), ("scripted-1", 85));
    let done = run(&agent, job("implement", 2, "fix sum.sh")).await;
    assert_eq!((done.turns.len(), site.get("sum.sh").as_str()), (2, "echo $(($1 + $2))\n"));
    run(&agent, job("review", 1, "look at sum.sh")).await;
    assert!(fs::read_to_string(site.status()).unwrap().contains("no test for zero"));
    assert_eq!(run(&agent, job("plan", 1, "plan")).await.reply().text, "Nothing to do at plan.");
}
