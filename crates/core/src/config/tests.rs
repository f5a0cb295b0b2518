//! Layering, provenance, located errors, records.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::json;

use super::*;

const ALL_KEYS: &str = r#"
agent: claude
attribution: assisted-by
commits: turns
providers:
  default: anthropic
  anthropic: {models: {smart: M, worker: M, cheap: 5.10}, settings: {max_tokens: 100, api_base: "https://a.example", api_key_command: pass show key, timeout: 9, proxy: "http://proxy:3128"}, prices: {M: {input: 1, output: 2, cache_read: 0.1, cache_write: 1.5}}}
  openai: {models: {smart: M}}
  gemini: {settings: {max_tokens: 1}}
  compatible: {settings: {api_base: http://localhost:1}}
  mine: {kind: chat, base_url: "https://m.example/x?v=1", api_key: $MINE_KEY, headers: {X-Team: a}}
  script: {file: demo.yaml, prices: {M: {input: 1, output: 2, cache_read: 0.1, cache_write: 1.5}}}
agents: {reviewer: {runner: codex, role: roles/r.yaml, persona: ../p.yaml, personality: /abs/p.yaml, task: t.yaml, model: M, tools: [grep], turns: hooks, provider: openai, command: [codex, exec, "{prompt_file}"], stdin: none, parser: jsonl, env: {A: b}, args: [--x], permission_mode: yolo, timeout: 9, idle_timeout: 8, max_failed_calls: 7}}
tools: [{name: run-tests, command: "make test", description: Runs tests}]
workspace:
  repos:
    backend: {path: ./backend, branch_prefix: orchestra/, remote: "https://git.example/b.git", push: on_checkpoint, clone_depth: 50}
  tools: {backend: {run-tests: {command: make, description: d}}}
  test_command: j
tree: {test_command: t, test_timeout: 1, runner_timeout: 9, max_retries: 2, base_branch: b, report_dir: spec/r, log_dir: spec/l, commit_logs: false, isolation: phase, pipeline: p.dot, early_stop: false, delete_branches: false, steps: {implement: {runner: "command:x y", model: m}}}
worktrees: {base: .orchestra/worktrees, setup: "npm ci", exclude: [.claude/], include_ignored: [.env, node_modules], delete_branches: true, pool: 1}
merge: {enabled: false, interval_secs: 1, auto_merge_clean: false, target: release, max_conflict_retries: 0, resolvers: 1, test_command: t, test_timeout: 7, agent: claude, history: merge, batch: 3, slots: 2, derived: [{paths: [Cargo.lock], command: cargo update}], structural: off, untested_files: allow}
budget: {tokens: 1, usd: 0.5, per_task_tokens: 3, per_task_usd: 1, per_day_tokens: 4, per_day_usd: 2, on_exceeded: warn}
record: {repo: backend, push: never, push_interval: 0, cxdb: "localhost:9009"}
sandbox: {mode: off, network: open, rw: [/tmp], ro: [x], hide: [~/.ssh, y], show: [~/.npmrc], hide_from: all}
env: {pass: [NPM_TOKEN, DATABASE_URL]}
commit: {max_file_mb: 1, max_new_files: 2}
model: M
test_command: k
"#;

fn project(text: &str) -> Layer {
    Layer::file(Precedence::Project, "/p/pleach.yaml", text)
}

fn resolved(layers: Vec<Layer>) -> Resolved {
    resolve(layers).unwrap_or_else(|errors| panic!("{}", shown(&errors)))
}

fn shown(errors: &[ConfigError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n")
}

fn env(pairs: &[(&str, &str)]) -> Environment {
    Environment::from_pairs(pairs.iter().copied())
}

fn flag(key: &str, value: &str) -> Layer {
    Layer::flags([(format!("--{key}"), key.to_owned(), value.to_owned())], "/cwd")
}

#[test]
fn every_key_is_read() {
    let resolved = resolved(vec![project(ALL_KEYS)]);
    let config = &resolved.config;
    assert_eq!(config.agent, Some(AgentChoice::Claude.into()));
    assert_eq!(config.providers.servers[&ProviderName::ANTHROPIC].models["cheap"], "5.10");
    assert_eq!(config.agents["reviewer"].persona, Some(PathBuf::from("/p.yaml")));
    assert_eq!(config.worktrees.base, Some(PathBuf::from("/p/.orchestra/worktrees")));
    assert_eq!(config.sandbox.mode, SandboxMode::Off);
    assert_eq!(config.merge.structural, Structural::Off);
    assert_eq!(config.tree.steps["implement"].runner, Some(AgentChoice::Command(vec!["x".into(), "y".into()]).into()));
    // The text gives every key there is, so that a new one cannot be forgotten here.
    let given = resolved.settings();
    for key in keys() {
        // Providers have the same keys; each is given to one of them.
        let path = ProviderName::REMOTE
            .iter()
            .fold(key.path.clone(), |path, name| path.replace(&format!("providers.{name}."), "providers.*."));
        let pattern: Vec<&str> = path.split(['.', '[']).collect();
        let matches = |path: &str| {
            let path: Vec<&str> = path.split('.').collect();
            let depth = pattern.iter().position(|part| *part == "]").unwrap_or(pattern.len());
            path.len() >= depth && path.iter().zip(&pattern[..depth]).all(|(part, want)| *want == "*" || part == want)
        };
        assert!(given.iter().any(|(path, ..)| matches(path)), "{} is in no test", key.path);
        assert!(!key.about.is_empty() || key.path.contains("[]"), "{}", key.path);
    }
    for (key, value, source) in given {
        assert_eq!(source.level == Precedence::Default, !resolved.provenance.contains_key(&key), "{key} {value}");
    }
}

#[test]
fn nothing_given_is_all_defaults() {
    for text in ["", "# nothing\n", "tree:\nproviders: ~\n"] {
        let resolved = resolved(vec![project(text)]);
        assert_eq!(resolved.config, Config { root: "/p".into(), ..Config::default() });
        assert!(resolved.provenance.is_empty());
    }
    assert_eq!(resolve(vec![]).unwrap().config, Config::default());
}

#[test]
fn stronger_layers_win_and_values_name_their_source() {
    let text = "agent: codex\ntree:\n  max_retries: 2\n  test_command: make\n";
    let environment = env(&[("PLEACH_TREE__MAX_RETRIES", "4"), ("PLEACH_AGENT", "gemini"), ("PLEACH_SESSION", "x")]);
    let dotenv =
        parse_dotenv("\nPLEACH_TREE__MAX_RETRIES=3\nPLEACH_MERGE__ENABLED=false", Path::new("/p/.env")).unwrap();
    // Their order in the list does not matter.
    let resolved = resolved(vec![
        flag("agent", "builtin"),
        project(text),
        Layer::environment(&environment, "/cwd"),
        Layer::file(Precedence::User, "/u/config.yaml", "agent: claude\nbudget: {usd: 3}\ntree: {test_timeout: 7}"),
        Layer::dotenv(Path::new("/p/.env"), &dotenv),
        Layer::file(
            Precedence::Arborist,
            "/p/.arborist/config.json",
            r#"{"defaults": {"base_branch": "dev", "max_retries": 9}}"#,
        ),
    ]);
    let shown: Vec<String> = resolved
        .provenance
        .iter()
        .map(|(key, source)| {
            let value = resolved.settings().into_iter().find(|(path, ..)| path == key).unwrap().1;
            format!("{key} = {value} ({source})")
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    agent = "builtin" (--agent)
    budget.usd = 3.0 (/u/config.yaml:2)
    merge.enabled = false (/p/.env:3)
    tree.base_branch = "dev" (/p/.arborist/config.json:1)
    tree.max_retries = 4 (PLEACH_TREE__MAX_RETRIES)
    tree.test_command = "make" (/p/pleach.yaml:4)
    tree.test_timeout = 7 (/u/config.yaml:3)
    "#);
}

#[test]
fn weaker_sources_are_remembered() {
    let resolved = resolved(vec![
        flag("agent", "builtin"),
        project("\nagent: codex"),
        Layer::file(Precedence::User, "/u/config.yaml", "agent: claude"),
    ]);
    let weaker: Vec<String> = resolved.overridden["agent"].iter().map(ToString::to_string).collect();
    assert_eq!(weaker, ["/u/config.yaml:1", "/p/pleach.yaml:2"]);
}

#[test]
fn paths_are_relative_to_their_file() {
    let environment =
        env(&[("PLEACH_TREE__PIPELINE", "c.dot"), ("PLEACH_SANDBOX__RO", "[a, /b]"), ("PLEACH_SANDBOX__RW", "x")]);
    let config = resolved(vec![
        project("tree: {log_dir: ./logs/../l}"),
        Layer::file(Precedence::User, "/u/.config/pleach/config.yaml", "worktrees: {base: ../../wt}"),
        Layer::environment(&environment, "/cwd"),
    ])
    .config;
    assert_eq!(config.tree.log_dir, Some("/p/l".into()));
    assert_eq!(config.worktrees.base, Some("/u/wt".into()));
    assert_eq!(config.tree.pipeline, Some("/cwd/c.dot".into()));
    assert_eq!(config.sandbox.ro, [PathBuf::from("/cwd/a"), "/b".into()]);
    assert_eq!(config.sandbox.rw, [PathBuf::from("/cwd/x")]);
    assert_eq!(config.root, Path::new("/p"));
}

#[test]
fn backend_of_orchestra_is_an_agent() {
    let agent = |text: &str| resolved(vec![Layer::file(Precedence::Project, "/p/orchestra.yaml", text)]).config.agent;
    assert_eq!(agent("backend: simulation"), Some(AgentChoice::Simulation.into()));
    assert_eq!(agent("backend: direct"), Some(AgentChoice::Builtin.into()));
    assert_eq!(agent("backend: langgraph"), Some(AgentChoice::Builtin.into()));
    assert_eq!(agent("backend: cli\nagent: claude"), Some(AgentChoice::Claude.into()));
    assert_eq!(
        resolved(vec![project("backend: cli"), flag("agent", "codex")]).config.agent,
        Some(AgentChoice::Codex.into())
    );
    let errors = resolve(vec![project("backend: cli")]).unwrap_err();
    insta::assert_snapshot!(shown(&errors), @r#"
    /p/pleach.yaml:1:10: this agent has no program
     1 | backend: cli
       |          ^^^
    Write `agent: command:PROGRAM ARGS`, or name an agent such as claude.
    "#);
}

#[test]
fn arborist_settings_inherit_as_they_do_there() {
    let file = r#"{"version": "1", "defaults": {"runner": "claude", "model": "sonnet", "max_retries": 7},
      "timeouts": {"runner_timeout": 600, "test_command": 60}, "test": {"timeout": 90},
      "steps": {"run": {"model": "opus"}, "review": {"runner": "gemini", "model": null}}, "paths": {"dags": "x"}}"#;
    let environment =
        env(&[("ARBORIST_MODEL", "haiku"), ("ARBORIST_STEP_REVIEW_MODEL", "flash"), ("ARBORIST_QUIET", "1")]);
    let resolved = resolved(vec![
        Layer::file(Precedence::Arborist, "/p/.arborist/config.json", file),
        Layer::arborist_environment(&environment, "/cwd"),
    ]);
    let tree = &resolved.config.tree;
    assert_eq!(resolved.config.agent, Some(AgentChoice::Claude.into()));
    assert_eq!((tree.max_retries, tree.test_timeout, tree.runner_timeout), (7, 90, Some(600)));
    let step = |name: &str| (tree.steps[name].runner.clone(), tree.steps[name].model.clone());
    assert_eq!(step("implement"), (None, Some("opus".into())), "the file's `run` step beats a general variable");
    assert_eq!(step("review"), (Some(AgentChoice::Gemini.into()), Some("flash".into())));
    assert_eq!(resolved.source("tree.steps.review.model").to_string(), "ARBORIST_STEP_REVIEW_MODEL");
    assert_eq!(resolved.config.root, Path::new("/p"));
}

#[test]
fn a_stronger_agent_is_that_of_every_step() {
    let arborist = r#"{"steps": {"run": {"runner": "codex", "model": "m"}}}"#;
    let arborist = Layer::file(Precedence::Arborist, "/p/.arborist/config.json", arborist);
    let with = |layers: &[Layer]| {
        let resolved = resolved([std::slice::from_ref(&arborist), layers].concat());
        let runner = |step: &str| {
            let runner = resolved.config.tree.steps[step].runner.as_ref().map(ToString::to_string);
            format!("{} ({})", runner.unwrap_or_default(), resolved.source(&format!("tree.steps.{step}.runner")))
        };
        let model = resolved.config.tree.steps["implement"].model.as_deref();
        assert_eq!(model, runner("implement").starts_with("codex").then_some("m"), "a model goes with its agent");
        [runner("implement"), runner("review")]
    };
    let file = "/p/.arborist/config.json:1";
    assert_eq!(with(&[]), [format!("codex ({file})"), format!("codex ({file})")]);
    assert_eq!(with(&[project("tree: {max_retries: 1}")])[0], format!("codex ({file})"));
    let ours = "claude (/p/pleach.yaml:1)";
    assert_eq!(with(&[project("agent: claude\ntree:")]), [ours, ours]);
    let own = project("agent: claude\ntree: {steps: {review: {runner: gemini}, implement: {runner: }}}");
    assert_eq!(with(std::slice::from_ref(&own)), [ours, "gemini (/p/pleach.yaml:2)"], "a file says more of a step");
    assert_eq!(with(&[own.clone(), flag("agent", "builtin")]), ["builtin (--agent)", "builtin (--agent)"]);
    assert_eq!(with(&[own, flag("tree.max_retries", "2")])[1], "gemini (/p/pleach.yaml:2)");
    let errors = resolve(vec![arborist, project("agent: 'command:'")]).unwrap_err();
    assert_eq!(errors.len(), 1, "{}", shown(&errors));
}

#[test]
fn invalid_values_are_reported_with_the_rest() {
    let text = "tree: {max_retries: 0, test_timeout: 0, runner_timeout: 0, foo: 1, base_branch: a..b}
workspace: {repos: {a: {path: [x], clone_depth: 0}}}\nrecord: {repo: b}\nagent: 'command:'\n";
    let messages = |layer: Layer| -> Vec<String> {
        let errors = resolve(vec![layer]).unwrap_err();
        let lines = errors
            .iter()
            .map(|error| format!("{}:{}: {}", error.place.line.unwrap_or(0), error.column.unwrap_or(0), error.message));
        lines.collect()
    };
    // What must be there, or is named elsewhere, may be what could not be read.
    assert_eq!(
        messages(project(text)),
        [
            "1:21: a task needs at least one attempt",
            "1:38: a test needs at least one second",
            "1:57: an agent needs at least one second",
            "1:60: unknown key `tree.foo`",
            "1:81: `a..b` is not a valid branch name: a name `git check-ref-format --branch` accepts",
            "2:31: `workspace.repos.a.path` takes text, not a list",
            "2:49: a clone takes at least one commit",
            "4:8: this agent has no program",
        ]
    );
    assert_eq!(messages(project("tree: {runner_timeout: 0}")), ["1:24: an agent needs at least one second"]);
    assert_eq!(messages(project("record: {repo: b}")), ["1:16: `workspace.repos` has no repository `b`"]);

    let arborist = |text: &str| messages(Layer::file(Precedence::Arborist, "/p/.arborist/config.json", text));
    let timeouts = r#"{"timeouts": {"runner_timeout": 0, "test_command": 0}}"#;
    assert_eq!(
        arborist(timeouts),
        ["1:33: an agent needs at least one second", "1:52: a test needs at least one second"]
    );
    let kinds = r#"{"defaults": {"base_branch": 5, "runner": true, "model": [], "foo": 7}, "timeouts": "9",
        "test": {"command": 1, "timeout": []}, "steps": {"run": [], "implement": {"model": 4.5}, "other": 3}}"#;
    assert_eq!(
        arborist(kinds),
        [
            "1:30: `defaults.base_branch` takes text, not a number",
            "1:43: there is no agent `true`",
            "1:58: `tree.steps.review.model` takes text, not a list",
            "1:85: `timeouts` takes a section, not text",
            "2:29: `test.command` takes text, not a number",
            "2:43: `tree.test_timeout` takes a whole number, not a list",
            "2:65: `steps.run` takes a section, not a list",
            "2:92: `steps.implement.model` takes text, not a number",
        ]
    );
    assert_eq!(arborist(r#"{"defaults": 5, "steps": []}"#).len(), 2);
    let form = "settings of Arborist are a JSON object, such as {\"defaults\": {…}}";
    assert_eq!(arborist("not json"), [format!("1:1: {form}")]);
    assert_eq!(arborist("[]"), [format!("1:1: {form}")]);
    assert_eq!(messages(project("not yaml")), ["1:1: a configuration file is a list of `key: value` lines"]);
}

#[test]
fn agents_with_names_are_known_to_all_layers() {
    let mine = "agents: {mine: {command: [x]}, codex: {args: [y]}}\n";
    let user = |text: &str| Layer::file(Precedence::User, "/u/config.yaml", text);
    let config = resolved(vec![user(mine), project("agent: mine\ntree: {steps: {a: {runner: mine}}}")]).config;
    assert_eq!(config.agent, Some(AgentRef::Named("mine".into())));
    assert_eq!(config.agent_of(None), Ok(AgentChoice::Command(vec!["x".into()])));
    assert_eq!(config.tree.steps["a"].runner, config.agent);
    assert_eq!(Config::from_recorded(config.recordable()).unwrap().agent, config.agent);
    let recorded = Resolved::resume(&config.recordable(), &resolved(vec![]), flag("agent", "mine")).unwrap();
    assert_eq!(recorded.config.agent, config.agent, "the record has what the name stands for");
    let errors = resolve(vec![user("agent: mien\n"), project(mine), flag("agent", "codex")]).unwrap_err();
    insta::assert_snapshot!(shown(&errors), @r#"
    /u/config.yaml:1:8: there is no agent `mien`, did you mean `mine`?
     1 | agent: mien
       |        ^^^^
    Agents: builtin, simulation, claude, codex, gemini, opencode, mine, acp:COMMAND, command:COMMAND.
    "#);
    let idle = resolve(vec![user("agents: {mine: {model: m}}"), flag("agent", "mine")]).unwrap_err();
    insta::assert_snapshot!(shown(&idle), @r#"
    --agent: `agents.mine` has neither `runner` nor `command`
    Give it one of them, or name another agent here.
    "#);
}

#[test]
fn every_mistake_of_every_layer_is_reported_with_its_place() {
    let text = "agnet: claude
tree:
  max_retries: many
  isolation: pahse
  commit_logs: \"yes\"
tools: make
workspace:
  repos:
    a/b: {path: .}
    ok: {path: [x], pth: y}
api_key: sk-ant-REDACT-THIS-0123456789
worktrees: {base: ~/wt}
";
    let text = text.replace("REDACT-THIS", "abcdefghijklmnop");
    let errors = resolve(vec![
        project(&text),
        Layer::file(Precedence::User, "/u/config.yaml", "agent: cluade\nbudget: {usd: -1}\n"),
        Layer::environment(&env(&[("PLEACH_TREE__EARLY_STOP", "maybe"), ("PLEACH_TREE", "x")]), "/"),
        flag("merge.historie", "linear"),
    ])
    .unwrap_err();
    insta::assert_snapshot!(shown(&errors), @r#"
    /u/config.yaml:1:8: there is no agent `cluade`, did you mean `claude`?
     1 | agent: cluade
       |        ^^^^^^
    Agents: builtin, simulation, claude, codex, gemini, opencode, acp:COMMAND, command:COMMAND.

    /u/config.yaml:2:15: `budget.usd` takes a number from 0, not `-1`
     2 | budget: {usd: -1}
       |               ^^

    /p/pleach.yaml:1:1: unknown key `agnet`
     1 | agnet: claude
       | ^^^^^
    Did you mean `agent`?

    /p/pleach.yaml:3:16: `tree.max_retries` takes a whole number, not text
     3 |   max_retries: many
       |                ^^^^

    /p/pleach.yaml:4:14: `tree.isolation` cannot be `pahse`
     4 |   isolation: pahse
       |              ^^^^^
    Did you mean `phase`?

    /p/pleach.yaml:5:16: `tree.commit_logs` cannot be `yes`
     5 |   commit_logs: "yes"
       |                ^^^^^
    It is one of: auto, true, false.

    /p/pleach.yaml:6:8: `tools` takes a list, not text
     6 | tools: make
       |        ^^^^

    /p/pleach.yaml:9:5: `a/b` is not a valid repository name: not empty, without `/`, `:` and control characters
     9 |     a/b: {path: .}
       |     ^^^

    /p/pleach.yaml:10:16: `workspace.repos.ok.path` takes text, not a list
     10 |     ok: {path: [x], pth: y}
        |                ^

    /p/pleach.yaml:10:21: unknown key `workspace.repos.ok.pth`
     10 |     ok: {path: [x], pth: y}
        |                     ^^^
    Did you mean `path`?

    /p/pleach.yaml:11:1: unknown key `api_key`
     11 | api_key: [redacted:api_key]
        | ^^^^^^^
    Keys do not belong in configuration files: set the provider's variable (such as ANTHROPIC_API_KEY), or `api_key_command`.

    /p/pleach.yaml:12:19: `worktrees.base`: `~` is not expanded, write the path out
     12 | worktrees: {base: ~/wt}
        |                   ^^^^

    PLEACH_TREE__EARLY_STOP: `tree.early_stop` takes true or false, not text

    --merge.historie: unknown key `merge.historie`
    Did you mean `history`?
    "#);
}

#[test]
fn unknown_variables_are_ignored_with_a_warning() {
    let pairs = [("PLEACH_BUGDET__USD", "1"), ("PLEACH_BUDGET__TOKEN", "5"), ("PLEACH_TREE__MAX_RETRIES", "4")];
    let resolved = resolved(vec![Layer::environment(&env(&pairs), "/")]);
    assert_eq!(resolved.config.tree.max_retries, 4);
    insta::assert_snapshot!(shown(&resolved.warnings), @r"
    PLEACH_BUDGET__TOKEN: unknown variable, ignored
    Did you mean PLEACH_BUDGET__TOKENS?

    PLEACH_BUGDET__USD: unknown variable, ignored
    Did you mean PLEACH_BUDGET__USD?
    ");
}

#[test]
fn unsupported_arborist_features_are_named_in_one_warning() {
    let warnings = |file: &str| {
        let resolved = resolved(vec![Layer::file(Precedence::Arborist, "/p/.arborist/config.json", file)]);
        resolved.warnings.iter().map(|warning| warning.message.clone()).collect::<Vec<_>>()
    };
    let both = r#"{"defaults": {"container_mode": "enabled"}, "hooks": {"enabled": true, "injections": {}}}"#;
    let [warning] = &warnings(both)[..] else { panic!("one warning") };
    let containers = "pleach runs agents in its own sandbox, without containers";
    assert_eq!(
        *warning,
        format!("`defaults.container_mode`, `hooks.enabled` ignored: {containers}; pleach does not run Arborist hooks")
    );
    let off = r#"{"defaults": {"container_mode": "auto"}, "hooks": {"enabled": false, "injections": {}}}"#;
    assert_eq!(warnings(off), [""; 0]);
}

#[test]
fn mistakes_of_syntax_have_their_place() {
    let texts = [
        "agent: a\nagent: b\n",
        "tree: [1\nb: 2",
        "agent: a: b",
        "a: 1\n---\nb: 2\n",
        "just text",
        "- a\n",
        "agent: \"open\n",
        "[a]: 1\n",
        "tree: {\n\t\"a\": @}\n",
    ];
    let all: Vec<String> =
        texts.iter().map(|text| shown(&parse_project(text, Path::new("pleach.yaml")).unwrap_err())).collect();
    insta::assert_snapshot!(all.join("\n---\n"), @r#"
    pleach.yaml:2:1: the key `agent` is given twice
     2 | agent: b
       | ^
    ---
    pleach.yaml:2:2: illegal placement of ':' indicator
     2 | b: 2
       |  ^
    ---
    pleach.yaml:1:9: mapping values are not allowed in this context
     1 | agent: a: b
       |         ^
    ---
    pleach.yaml:3:1: more than one YAML document in the file
     3 | b: 2
       | ^
    ---
    pleach.yaml:1:1: a configuration file is a list of `key: value` lines
     1 | just text
       | ^^^^^^^^^
    ---
    pleach.yaml:1:1: a configuration file is a list of `key: value` lines
     1 | - a
       | ^
    ---
    pleach.yaml:2:1: invalid indentation in multiline quoted scalar
    ---
    pleach.yaml:1:1: expected string scalar
     1 | [a]: 1
       | ^
    ---
    pleach.yaml:2:2: tabs disallowed within this context (block indentation) (YAML is indented with spaces, not tabs)
     2 |  "a": @}
       |  ^
    "#);
}

#[test]
fn tool_names_must_work_for_every_agent() {
    let repos = "workspace: {repos: {a.b: {path: a}, a_b: {path: b}, LONG: {path: c}}, tools: {a.b: {t: {command: c}, 'x y': {command: c}}}}";
    let tools = "tools: [{name: git, command: c}, {name: a:b, command: c}, {name: a_b__t, command: c}]";
    let yaml = format!("{tools}\n{repos}").replace("LONG", &"r".repeat(53));
    let errors = resolve(vec![project(&yaml)]).unwrap_err();
    let found: Vec<String> = errors.iter().map(|error| error.to_string().lines().next().unwrap().to_owned()).collect();
    for expected in [
        "the tool `git` would hide a program that agents need",
        "`a:b` is not a valid tool name",
        "the tools `a_b__t` and `a.b:t` would be the same command",
        "`a.b:x y` is not a valid tool name",
        "the tools of `a.b` and `a_b` would have the same names",
        "is too long for the names of its tools: at most 52 characters",
    ] {
        assert_eq!(found.iter().filter(|found| found.contains(expected)).count(), 1, "{expected}: {found:#?}");
    }
    assert_eq!(found.len(), 6, "{found:#?}");
}

#[test]
fn what_cannot_work_together_is_reported() {
    let errors = resolve(vec![project(
        "agents: {a: {runner: 'acp:'}}
tools:
  - {name: x, command: y}
  - {name: x}
  - {command: z}
workspace:
  repos:
    a: {branch_prefix: '-x', clone_depth: 0}
  tools: {b: {t: {description: d}}}
record: {repo: c}
tree: {max_retries: 0, test_timeout: 0}
providers: {openai: {settings: {api_base: example.com}}}
",
    )])
    .unwrap_err();
    insta::assert_snapshot!(shown(&errors), @r#"
    /p/pleach.yaml:1:22: this agent has no program
     1 | agents: {a: {runner: 'acp:'}}
       |                      ^^^^^^
    Write `agent: command:PROGRAM ARGS`, or name an agent such as claude.

    /p/pleach.yaml:4:5: the tool `x` has no `command`
     4 |   - {name: x}
       |     ^

    /p/pleach.yaml:4:5: two tools are named `x`
     4 |   - {name: x}
       |     ^

    /p/pleach.yaml:5:5: this tool has no `name`
     5 |   - {command: z}
       |     ^

    /p/pleach.yaml:8:8: the repository `a` has no `path`
     8 |     a: {branch_prefix: '-x', clone_depth: 0}
       |        ^

    /p/pleach.yaml:8:24: `-x` is not a valid branch prefix
     8 |     a: {branch_prefix: '-x', clone_depth: 0}
       |                        ^^^^
    Write something like `pleach/`.

    /p/pleach.yaml:8:43: a clone takes at least one commit
     8 |     a: {branch_prefix: '-x', clone_depth: 0}
       |                                           ^

    /p/pleach.yaml:9:14: `workspace.repos` has no repository `b`
     9 |   tools: {b: {t: {description: d}}}
       |              ^

    /p/pleach.yaml:9:18: the tool `b:t` has no `command`
     9 |   tools: {b: {t: {description: d}}}
       |                  ^

    /p/pleach.yaml:10:16: `workspace.repos` has no repository `c`
     10 | record: {repo: c}
        |                ^

    /p/pleach.yaml:11:21: a task needs at least one attempt
     11 | tree: {max_retries: 0, test_timeout: 0}
        |                     ^
    Give a number from 1 up.

    /p/pleach.yaml:11:38: a test needs at least one second
     11 | tree: {max_retries: 0, test_timeout: 0}
        |                                      ^

    /p/pleach.yaml:12:43: an `api_base` must begin with http:// or https://
     12 | providers: {openai: {settings: {api_base: example.com}}}
        |                                           ^^^^^^^^^^^
    "#);
}

#[test]
fn a_record_holds_nothing_of_the_machine() {
    let local =
        resolved(vec![project(&ALL_KEYS.replace("https://git.example/b.git", "https://me:pw@git.example/b.git"))]);
    let recorded = local.config.recordable();
    let text = recorded.to_string();
    for machine in ["/p", "/abs", "me:pw", "a.example", "pass show", "localhost:1\"", "/tmp"] {
        assert!(!text.contains(machine), "{machine} in {text}");
    }
    assert_eq!(recorded["tree"]["log_dir"], "spec/l");
    assert_eq!(
        recorded["machine"],
        json!(["agents.reviewer.persona", "agents.reviewer.personality", "workspace.repos.backend.remote"])
    );
    assert_eq!(Config::from_recorded(recorded.clone()).unwrap().tree.log_dir, Some("spec/l".into()));

    // The same project on the same machine: nothing changes.
    let same = Resolved::resume(&recorded, &local, Layer::flags([], "/cwd")).unwrap();
    assert_eq!(same.config, local.config);
    assert_eq!(same.kept_from_start(&local), [""; 0]);

    // Another clone, whose own settings have changed since: only what is the machine's counts, and flags.
    let there = resolved(vec![
        Layer::file(
            Precedence::Project,
            "/q/pleach.yaml",
            "agent: gemini\nagents: {reviewer: {role: new.yaml}, extra: {model: x}}\n",
        ),
        Layer::file(
            Precedence::User,
            "/u/c.yaml",
            "worktrees: {base: /fast}\nproviders: {openai: {settings: {api_base: \"https://proxy\"}}}\nagents: {reviewer: {persona: /u/me.yaml}}",
        ),
    ]);
    let resumed = Resolved::resume(&recorded, &there, flag("tree.max_retries", "9")).unwrap();
    let config = &resumed.config;
    assert_eq!(config.agent, Some(AgentChoice::Claude.into()));
    assert_eq!(config.tree.max_retries, 9);
    assert_eq!(config.tree.pipeline, Some("/q/p.dot".into()));
    assert_eq!(config.workspace.repos.values().next().unwrap().path, Some("/q/backend".into()));
    assert_eq!(config.worktrees.base, Some("/fast".into()));
    assert_eq!(config.providers.servers[&ProviderName::OPENAI].settings.api_base.as_deref(), Some("https://proxy"));
    assert_eq!(config.agents["reviewer"].role, Some("/q/roles/r.yaml".into()));
    assert_eq!(config.agents["reviewer"].persona, Some("/u/me.yaml".into()));
    assert_eq!(config.agents.len(), 1);
    let kept = resumed.kept_from_start(&there);
    assert!(["agent", "agents.reviewer.role"].iter().all(|key| kept.iter().any(|kept| kept == key)), "{kept:?}");
    assert!(!kept.iter().any(|key| key == "tree.max_retries"), "a flag gives it: {kept:?}");
    assert_eq!(resumed.source("worktrees.base").level, Precedence::User);
    assert_eq!(resumed.source("agent").level, Precedence::Recorded);
    assert_eq!(resumed.source("tree.max_retries").level, Precedence::Flag);
}

#[test]
fn pleachs_own_words_are_not_redacted() {
    let text = "agent: 'command:./own.sh linear'\nattribution: assisted-by\nmerge: {history: linear}\n\
                agents: {linear: {runner: 'acp:linear x', env: {A: linear}, persona: /x/me.yaml}, b: {runner: builtin}}\n\
                tree: {steps: {review: {runner: linear, model: linear}, test: {runner: claude}}}\n";
    let local = resolved(vec![project(text)]);
    let recorded = local.config.recordable();
    let mut redacted = recorded.clone();
    Config::each_recorded_text(&mut redacted, &mut |text| *text = text.replace("linear", "[redacted:X]"));
    let at = |path: &str| path.split('/').fold(&redacted, |value, key| &value[key]).clone();
    assert_eq!(at("agent"), "command:./own.sh [redacted:X]");
    assert_eq!(at("agents/linear/runner"), "acp:[redacted:X] x");
    assert_eq!(at("agents/linear/env/A"), "[redacted:X]");
    assert_eq!(at("tree/steps/review/model"), "[redacted:X]");
    assert_eq!(at("machine"), json!(["agents.linear.persona"]));
    let resumed = Resolved::resume(&redacted, &local, Layer::flags([], "/cwd")).unwrap().config;
    assert_eq!((resumed.merge, resumed.attribution), (local.config.merge, local.config.attribution));
    assert_eq!(resumed.tree.steps["review"].runner, Some(AgentRef::Named("linear".into())));
    // What a setting of a fixed list has is never asked about, nor the word before a command.
    let mut asked = Vec::new();
    Config::each_recorded_text(&mut recorded.clone(), &mut |text| asked.push(text.clone()));
    for own in ["assisted-by", "command:./own.sh linear", "builtin", "claude", "gateway", "steps", "auto"] {
        assert!(!asked.contains(&own.to_owned()), "{own} in {asked:?}");
    }
}

#[test]
fn a_record_of_a_newer_pleach_is_refused() {
    let mut recorded = Config::default().recordable();
    recorded["tree"]["teleport"] = json!(true);
    let local = resolved(vec![project("")]);
    let errors = Resolved::resume(&recorded, &local, Layer::flags([], "/")).unwrap_err();
    assert!(errors[0].message.contains("unknown key `tree.teleport`"), "{}", shown(&errors));
}

#[test]
fn settings_of_repositories_and_users_are_distinguished() {
    let dotenv = parse_dotenv(
        "ANTHROPIC_BASE_URL=https://evil\nGIT_SSH_COMMAND=x\nDB_PASSWORD=pw\nPLEACH_AGENT=command:evil",
        Path::new("/p/.env"),
    )
    .unwrap();
    let environment = env(&[("OPENAI_BASE_URL", "https://mine")])
        .with_dotenv(dotenv.iter().map(|entry| (entry.name.clone(), entry.value.clone())));
    let local = resolved(vec![
        project(ALL_KEYS),
        Layer::dotenv(Path::new("/p/.env"), &dotenv),
        Layer::file(Precedence::User, "/u/c.yaml", "sandbox: {mode: auto}"),
        Layer::flags([("--setup".into(), "worktrees.setup".into(), "mine".into())], "/"),
    ]);
    let lines = |items: Vec<Supplied>| -> String {
        items.iter().map(|item| format!("{} {} ({}): {}\n", item.kind, item.key, item.source, item.text)).collect()
    };
    insta::assert_snapshot!(lines(supplied(&local, &environment)), @r#"
    command agent (/p/.env:4): evil
    command agents.reviewer.command (/p/pleach.yaml:13): codex exec '{prompt_file}'
    command agents.reviewer.args (/p/pleach.yaml:13): --x
    variable agents.reviewer.env.A (/p/pleach.yaml:13): b
    sandbox agents.reviewer.permission_mode (/p/pleach.yaml:13): yolo
    sandbox agents.reviewer.turns (/p/pleach.yaml:13): hooks
    command tree.steps.implement.runner (/p/.env:4): evil
    command tools[0].command (/p/pleach.yaml:14): make test
    command workspace.tools.backend.run-tests.command (/p/pleach.yaml:18): make
    command test_command (/p/pleach.yaml:29): k
    command tree.test_command (/p/pleach.yaml:20): t
    command merge.test_command (/p/pleach.yaml:22): t
    command workspace.test_command (/p/pleach.yaml:19): j
    command merge.derived[0].command (/p/pleach.yaml:22): cargo update
    command providers.anthropic.settings.api_key_command (/p/pleach.yaml:7): pass show key
    address for keys providers.anthropic.settings.api_base (/p/pleach.yaml:7): https://a.example
    address for keys providers.anthropic.settings.proxy (/p/pleach.yaml:7): http://proxy:3128
    address for keys providers.compatible.settings.api_base (/p/pleach.yaml:10): http://localhost:1
    address for keys providers.mine.base_url (/p/pleach.yaml:11): https://m.example/x?v=1
    secret providers.mine.api_key (/p/pleach.yaml:11): MINE_KEY is sent as its key
    address for keys providers.mine.headers.X-Team (/p/pleach.yaml:11): a
    remote workspace.repos.backend.remote (/p/pleach.yaml:17): https://git.example/b.git
    address for records record.cxdb (/p/pleach.yaml:24): localhost:9009
    sandbox sandbox.mode (/p/pleach.yaml:25): off
    sandbox sandbox.network (/p/pleach.yaml:25): open
    sandbox sandbox.rw (/p/pleach.yaml:25): /tmp
    sandbox sandbox.hide (/p/pleach.yaml:25): ~/.aws can be read
    ~/.gnupg can be read
    ~/.config/gh can be read
    ~/.config/glab-cli can be read
    ~/.git-credentials can be read
    ~/.config/git/credentials can be read
    ~/.netrc can be read
    ~/.npmrc can be read
    ~/.pypirc can be read
    ~/.cargo/credentials can be read
    ~/.cargo/credentials.toml can be read
    ~/.gem/credentials can be read
    ~/.docker/config.json can be read
    ~/.config/containers/auth.json can be read
    ~/.kube can be read
    ~/.config/gcloud can be read
    ~/.azure can be read
    ~/.terraform.d/credentials.tfrc.json can be read
    ~/.vault-token can be read
    ~/.pgpass can be read
    ~/.password-store can be read
    ~/.local/share/keyrings can be read
    ~/.bash_history can be read
    ~/.zsh_history can be read
    ~/.zhistory can be read
    ~/.histfile can be read
    ~/.sh_history can be read
    ~/.local/share/fish/fish_history can be read
    ~/.python_history can be read
    ~/.node_repl_history can be read
    ~/.psql_history can be read
    ~/.mysql_history can be read
    ~/.claude.json can be read
    ~/.claude/.claude.json can be read
    ~/.claude/.credentials.json can be read
    ~/.codex/auth.json can be read
    ~/.codex/.credentials.json can be read
    ~/.codex/.env can be read
    ~/.gemini/oauth_creds.json can be read
    ~/.gemini/google_accounts.json can be read
    ~/.gemini/gemini-credentials.json can be read
    ~/.gemini/mcp-oauth-tokens.json can be read
    ~/.gemini/.env can be read
    ~/.local/share/opencode/auth.json can be read
    ~/.local/share/opencode/mcp-auth.json can be read
    ~/.mozilla can be read
    ~/.config/mozilla can be read
    ~/.config/google-chrome can be read
    ~/.config/chromium can be read
    ~/.config/BraveSoftware can be read
    ~/.config/microsoft-edge can be read
    ~/.config/opera can be read
    ~/.config/vivaldi can be read
    ~/snap/chromium can be read
    ~/snap/firefox can be read
    ~/.var/app/com.google.Chrome can be read
    ~/.var/app/org.chromium.Chromium can be read
    ~/.var/app/org.mozilla.firefox can be read
    ~/.local/state/pleach can be read
    sandbox sandbox.show (/p/pleach.yaml:25): ~/.npmrc can be read
    secret env.pass (/p/pleach.yaml:26): NPM_TOKEN
    DATABASE_URL
    address for keys ANTHROPIC_BASE_URL (ANTHROPIC_BASE_URL in .env): https://evil
    variable GIT_SSH_COMMAND (GIT_SSH_COMMAND in .env): x
    "#);

    let user = resolved(vec![Layer::file(Precedence::User, "/u/c.yaml", ALL_KEYS)]);
    assert_eq!(supplied(&user, &env(&[("ANTHROPIC_BASE_URL", "x"), ("PATH", "/bin")])), []);

    // A record is not more to be trusted than the file it was made from.
    let plain = resolved(vec![project("")]);
    let resumed = Resolved::resume(&user.config.recordable(), &plain, flag("tree.pipeline", "x.dot"));
    let items = supplied(&resumed.unwrap(), &env(&[]));
    assert!(items.iter().any(|item| item.key == "worktrees.setup" && item.source.level == Precedence::Recorded));
}

#[test]
fn a_repository_cannot_unbind_an_agent_without_approval() {
    let asked = |users: &str, theirs: &str| -> Vec<String> {
        let layers = vec![Layer::file(Precedence::User, "/u/c.yaml", users), project(theirs)];
        let items = supplied(&resolved(layers), &env(&[]));
        items.iter().map(|item| format!("{} {}: {}", item.kind, item.key, item.text)).collect()
    };
    for turns in ["node", "stream", "hooks"] {
        let found = asked("", &format!("agents: {{claude: {{turns: {turns}}}}}"));
        assert_eq!(found, [format!("sandbox agents.claude.turns: {turns}")]);
        assert_eq!(asked(&format!("agents: {{claude: {{turns: {turns}}}}}"), "").len(), 0, "the user said so");
    }
    assert_eq!(asked("", "agents: {claude: {turns: gateway}}").len(), 0);
    assert_eq!(asked("sandbox: {mode: required}", "sandbox: {mode: auto}"), ["sandbox sandbox.mode: auto"]);
    for (users, theirs) in [("required", "required"), ("auto", "auto"), ("off", "auto"), ("auto", "required")] {
        let mode = |mode: &str| format!("sandbox: {{mode: {mode}}}");
        assert_eq!(asked(&mode(users), &mode(theirs)).len(), 0, "{users} {theirs}");
    }
    assert_eq!(asked("", "sandbox: {mode: auto}").len(), 0, "it is the default");

    let usual: Vec<String> = SandboxSettings::default().hide.iter().map(ToString::to_string).collect();
    let hide = |paths: &[String]| format!("sandbox: {{hide: [{}]}}", paths.join(", "));
    assert_eq!(asked("", &hide(&usual[1..])), ["sandbox sandbox.hide: ~/.ssh can be read"]);
    let more = [usual.as_slice(), &["~/.keys".to_owned()]].concat();
    assert_eq!(asked("", &hide(&more)).len(), 0, "more is hidden, and nothing less");
    assert_eq!(asked(&hide(&more), &hide(&usual)), ["sandbox sandbox.hide: ~/.keys can be read"]);
    let mine = ["~/.keys".to_owned()];
    assert_eq!(asked(&hide(&mine), &hide(&mine)).len(), 0);
    assert_eq!(asked(&hide(&mine), "").len(), 0, "the user said so");
    assert_eq!(
        asked("sandbox: {hide_from: all}", "sandbox: {hide_from: agents}"),
        ["sandbox sandbox.hide_from: agents"]
    );
    assert_eq!(asked("", "sandbox: {hide_from: agents}").len(), 0, "it is the default");
    assert_eq!(asked("", "sandbox: {hide_from: all}").len(), 0);
    assert_eq!(asked("", "env: {pass: [NPM_TOKEN]}"), ["secret env.pass: NPM_TOKEN"]);
    assert_eq!(asked("env: {pass: [NPM_TOKEN]}", "").len(), 0, "the user said so");
}

#[test]
fn a_repository_cannot_lift_the_users_limits_unasked() {
    let asked = |users: &str, theirs: &str| -> Vec<String> {
        let layers = vec![Layer::file(Precedence::User, "/u/c.yaml", users), project(theirs)];
        let items = supplied(&resolved(layers), &env(&[]));
        items.iter().map(|item| format!("{} {}: {}", item.kind, item.key, item.text)).collect()
    };
    let found = asked(
        "budget: {usd: 1, per_day_tokens: 500, tokens: 9}",
        "budget: {usd: 1000, per_day_tokens: 0, tokens: 8, per_task_usd: 3, on_exceeded: warn}",
    );
    assert_eq!(
        found,
        [
            "spending budget.usd: 1000, where your own limit is 1",
            "spending budget.per_day_tokens: 0, where your own limit is 500",
            "spending budget.on_exceeded: warn, where your own is stop",
        ]
    );
    for (users, theirs) in [
        ("", "budget: {usd: 1000, on_exceeded: warn}"),
        ("budget: {usd: 2}", "budget: {usd: 1, on_exceeded: pause}"),
        ("budget: {usd: 2, on_exceeded: warn}", "budget: {usd: 2, on_exceeded: warn}"),
        ("budget: {usd: 0}", "budget: {usd: 5}"),
    ] {
        assert_eq!(asked(users, &format!("{theirs}\n")).len(), 0, "{users} {theirs}");
    }
    let prices = |price: &str| format!("providers: {{anthropic: {{prices: {{m-1.5: {price}}}}}}}\n");
    let limit = "budget: {per_day_usd: 2}\n";
    let cheap = prices("{input: 0, output: 15}");
    let found = asked(limit, &cheap);
    assert!(found[0].ends_with("the whole price is input 0, output 15"), "{found:?}");
    assert_eq!(asked("budget: {tokens: 2}", &cheap).len(), 0, "no limit is in dollars");
    let own = format!("{limit}{}", prices("{input: 3, output: 15}"));
    assert_eq!(asked(&own, &prices("{input: 4, output: 15}")).len(), 0, "it is not cheaper");
    assert_eq!(asked(&own, &prices("{cache_read: 1}")).len(), 1);
    assert_eq!(asked(&own, "").len(), 0);
}

#[test]
fn variables_are_asked_about_unless_they_are_plainly_harmless() {
    let asked = [
        "ANTHROPIC_CUSTOM_HEADERS",
        "ANTHROPIC_UNIX_SOCKET",
        "CC",
        "CLAUDE_CODE_CUSTOM_OAUTH_URL",
        "CLAUDE_CODE_SHELL_PREFIX",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CONFIG_DIR",
        "DATABASE_URL",
        "DOCKER_HOST",
        "GIT_ASKPASS",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOPROXY",
        "LD_PRELOAD",
        "LESSOPEN",
        "PATH",
        "PIP_INDEX_URL",
        "PLEACH_SANDBOX_BY",
        "RESTIC_PASSWORD_COMMAND",
        "SSH_AUTH_SOCK",
        "XDG_CONFIG_HOME",
        "lang",
        "ld_library_path",
    ];
    let harmless = [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CI",
        "DB_PASSWORD",
        "GH_TOKEN",
        "LANG",
        "LC_ALL",
        "NO_COLOR",
        "PLEACH_TREE__MAX_RETRIES",
        "TZ",
    ];
    let environment = env(&[]).with_dotenv(asked.iter().chain(&harmless).map(|name| (*name, "x")));
    let items = supplied(&resolved(Vec::new()), &environment);
    let names: Vec<&str> = items.iter().map(|item| item.key.as_str()).collect();
    assert_eq!(names, asked);
}

#[test]
fn a_limit_is_raised_by_setting_it_and_resuming() {
    let begun = resolved(vec![project("budget: {usd: 2, tokens: 5, on_exceeded: pause}")]);
    let recorded = begun.config.recordable();
    let resume = |local: &Resolved, flags| Resolved::resume(&recorded, local, flags).unwrap().config.budget;
    let none = || Layer::flags([], "/cwd");
    let elsewhere = resume(&resolved(Vec::new()), none());
    assert_eq!(elsewhere, begun.config.budget, "a limit nobody sets stays");
    let raised = resume(&resolved(vec![project("budget: {usd: 9, tokens: 0}")]), none());
    assert_eq!((raised.usd, raised.tokens, raised.on_exceeded), (9.0, 0, OnExceeded::Pause));
    let flagged = resume(&resolved(vec![project("budget: {usd: 9}")]), flag("budget.usd", "7"));
    assert_eq!((flagged.usd, flagged.tokens), (7.0, 5));
}

const PAGE: &str = include_str!("../../../../docs/configuration.md");
const SETTINGS: &str = include_str!("../../../../docs/settings.md");

#[test]
fn the_page_lists_every_key_with_its_default() {
    let keys = keys();
    // A provider pleach knows has a row of its own only for what others do not take.
    let is_shared = |key: &SettingKey| {
        let [section, _, rest] = key.path.splitn(3, '.').collect::<Vec<_>>()[..] else { return false };
        let path = format!("{section}.*.{rest}");
        path != key.path && keys.iter().any(|shared| *shared == SettingKey { path: path.clone(), ..key.clone() })
    };
    let table: String = keys
        .iter()
        .filter(|key| !is_shared(key))
        .map(|key| {
            let none = key.default.is_null() || key.default == "";
            let default = if none { String::new() } else { format!("`{}`", key.default) };
            let cell = |text: &str| text.replace('|', "\\|");
            format!("| `{}` | {} | {} | {} |\n", key.path, cell(&key.takes), default.replace('"', ""), cell(&key.about))
        })
        .collect();
    let table = format!("| key | takes | default | meaning |\n|---|---|---|---|\n{table}");
    let (_, shown) = SETTINGS.split_once("takes a file and prices only.\n\n").unwrap();
    assert!(shown == table, "the end of docs/settings.md must be:\n\n{table}");
}

#[test]
fn what_the_page_shows_is_right() {
    let blocks: Vec<&str> = PAGE.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 3);
    for text in blocks {
        resolved(vec![project(text)]);
    }
    let errors = parse_project("agnet: claude\ntree: {max_retries: many}\n", Path::new("pleach.yaml")).unwrap_err();
    for error in errors {
        assert!(PAGE.contains(&error.to_string()), "docs/configuration.md does not show\n{error}");
    }
    for (variable, _) in arborist::VARIABLES.iter().filter(|(name, _)| !name.contains("_STEP_")) {
        assert!(PAGE.contains(&format!("`{variable}`")), "{variable}");
    }
}

/// A setting as it can be at three places: in a file, in a variable, on the command line.
fn settings() -> impl Strategy<Value = Vec<(usize, usize, u32)>> {
    proptest::collection::vec((0..5usize, 0..KEYS.len(), 1..100u32), 0..20)
}

const KEYS: [&str; 5] =
    ["tree.max_retries", "tree.test_timeout", "merge.interval_secs", "worktrees.pool", "record.push_interval"];
const LEVELS: [Precedence; 5] =
    [Precedence::User, Precedence::Arborist, Precedence::Project, Precedence::Env, Precedence::Flag];

proptest! {
    #[test]
    fn the_strongest_layer_wins_each_key(settings in settings()) {
        let mut given = std::collections::BTreeMap::new();
        for (level, key, value) in settings {
            // `.arborist/config.json` has its own words; it takes part with the two keys it knows.
            if LEVELS[level] != Precedence::Arborist || key < 2 {
                given.insert((key, level), value);
            }
        }
        let at_level = |level: usize| given.iter().filter(move |((_, at), _)| *at == level).map(|((key, _), value)| (KEYS[*key], *value));
        let yaml = |level: usize| at_level(level).map(|(key, value)| {
            let (section, name) = key.split_once('.').unwrap();
            (section, format!("{name}: {value}"))
        }).fold(std::collections::BTreeMap::<_, Vec<_>>::new(), |mut all, (section, line)| { all.entry(section).or_default().push(line); all })
            .into_iter().map(|(section, lines)| format!("{section}: {{{}}}\n", lines.join(", "))).collect::<String>();
        let arborist = at_level(1).map(|(key, value)| if key == KEYS[0] { format!("\"defaults\": {{\"max_retries\": {value}}}") } else { format!("\"test\": {{\"timeout\": {value}}}") }).collect::<Vec<_>>();
        let variables = at_level(3).map(|(key, value)| (format!("PLEACH_{}", key.replace('.', "__").to_uppercase()), value.to_string()));
        let resolved = resolve(vec![
            Layer::file(Precedence::User, "/u/config.yaml", yaml(0)),
            Layer::file(Precedence::Arborist, "/p/.arborist/config.json", format!("{{{}}}", arborist.join(", "))),
            Layer::file(Precedence::Project, "/p/pleach.yaml", yaml(2)),
            Layer::environment(&Environment::from_pairs(variables), "/cwd"),
            Layer::flags(at_level(4).map(|(key, value)| (key.to_owned(), key.to_owned(), value.to_string())), "/cwd"),
        ]).unwrap();
        let all = resolved.settings();
        for (index, key) in KEYS.iter().enumerate() {
            let (_, value, source) = all.iter().find(|(path, ..)| path == key).unwrap();
            match given.iter().rev().find(|((at, _), _)| *at == index) {
                Some(((_, level), expected)) => {
                    prop_assert_eq!(value, &json!(expected));
                    prop_assert_eq!(source.level, LEVELS[*level]);
                }
                None => prop_assert_eq!(source, &Source::DEFAULT),
            }
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "([a-z]{1,9}|agent|tree|tools|workspace|[:{}\\[\\],&*!|>'\"%@`~\n \t-]|: |\n  ){0,40}") {
        if let Ok(partial) = parse_project(&text, Path::new("pleach.yaml")) {
            let _ = partial.keys();
        }
    }
}

#[test]
fn excerpts_show_no_secrets() {
    for (text, shown) in [
        (
            "agents: {a: {env: {CORP_API_TOKEN: hunter2, MODE: fast}}}",
            "env: {CORP_API_TOKEN: [redacted:CORP_API_TOKEN], MODE: fast}}}",
        ),
        ("agents: {a: {env: {\"CORP_API_TOKEN\": 'hun,ter2'}}}", "{\"CORP_API_TOKEN\": [redacted:CORP_API_TOKEN]}}}"),
        (
            "agents:\n  a:\n    env:\n      CORP_API_TOKEN: hunter2, and more",
            "4 |       CORP_API_TOKEN: [redacted:CORP_API_TOKEN]\n",
        ),
        ("api_key: hunter2", "1 | api_key: [redacted:api_key]\n"),
    ] {
        let layer = Layer::file(Precedence::Project, "/p/pleach.yaml", text.to_owned());
        let errors = resolve(vec![layer]).unwrap_err();
        let said: String = errors.iter().map(|error| error.to_string()).collect();
        assert!(said.contains(shown) && !said.contains("hunter2") && !said.contains("ter2"), "{said}");
    }
}

#[test]
fn sections_override_the_test_of_all_work() {
    let tests = |text: &str| {
        let config = resolved(vec![project(text)]).config;
        let commands = [config.test_of_work(), config.test_of_all_merges(), config.test_of_other_merges()];
        commands.map(|command| command.unwrap_or("-").to_owned()).join(" ")
    };
    for (text, expected) in [
        ("agent: claude", "- - -"),
        ("test_command: a", "a - a"),
        ("tree: {test_command: t}", "t - -"),
        ("test_command: a\ntree: {test_command: t}", "t - a"),
        ("test_command: a\nmerge: {test_command: m}", "a m m"),
        ("test_command: a\nmerge: {test_command: ''}", "a - -"),
        ("test_command: a\ntree: {test_command: ' '}", "- - a"),
    ] {
        assert_eq!(tests(text), expected, "{text}");
    }
}
