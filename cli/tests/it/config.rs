//! `pleach config`, and how configuration is found.

use crate::sessions::{graph, tool};
use crate::support::TestEnv;

#[test]
fn settings_are_shown_with_their_place() {
    let env = TestEnv::new();
    env.repo();
    env.write("repo/pleach.yaml", "agent: builtin\ntree:\n  max_retries: 2\ntools: [{name: t, command: make}]\n");
    env.write("repo/.arborist/config.json", r#"{"defaults": {"base_branch": "dev"}}"#);
    env.write("config/pleach/config.yaml", "budget: {usd: 3}\nagent: claude\n");
    let mut command = env.command(&["config"]);
    command.env("PLEACH_MERGE__ENABLED", "false");
    insta::assert_snapshot!(env.finish(command.output().unwrap()).expect(0), @r#"
    exit: 0
    --- stdout
    setting                                        value                                             from
    agent                                          builtin                                           pleach.yaml:1
    model                                          (not set)                                         default
    test_command                                   (not set)                                         default
    attribution                                    none                                              default
    attribution_notes                              none                                              default
    commits                                        steps                                             default
    commit.max_file_mb                             50                                                default
    commit.max_new_files                           5000                                              default
    providers.default                              (not set)                                         default
    providers.anthropic.kind                       (not set)                                         default
    providers.anthropic.base_url                   (not set)                                         default
    providers.anthropic.api_key                    (not set)                                         default
    providers.anthropic.settings.max_tokens        (not set)                                         default
    providers.anthropic.settings.api_base          (not set)                                         default
    providers.anthropic.settings.api_key_command   (not set)                                         default
    providers.anthropic.settings.timeout           300                                               default
    providers.anthropic.settings.retries           7                                                 default
    providers.anthropic.settings.max_wait          300                                               default
    providers.anthropic.settings.proxy             (not set)                                         default
    providers.openai.kind                          (not set)                                         default
    providers.openai.base_url                      (not set)                                         default
    providers.openai.api_key                       (not set)                                         default
    providers.openai.settings.max_tokens           (not set)                                         default
    providers.openai.settings.api_base             (not set)                                         default
    providers.openai.settings.api_key_command      (not set)                                         default
    providers.openai.settings.timeout              300                                               default
    providers.openai.settings.retries              7                                                 default
    providers.openai.settings.max_wait             300                                               default
    providers.openai.settings.proxy                (not set)                                         default
    providers.gemini.kind                          (not set)                                         default
    providers.gemini.base_url                      (not set)                                         default
    providers.gemini.api_key                       (not set)                                         default
    providers.gemini.settings.max_tokens           (not set)                                         default
    providers.gemini.settings.api_base             (not set)                                         default
    providers.gemini.settings.api_key_command      (not set)                                         default
    providers.gemini.settings.timeout              300                                               default
    providers.gemini.settings.retries              7                                                 default
    providers.gemini.settings.max_wait             300                                               default
    providers.gemini.settings.proxy                (not set)                                         default
    providers.openrouter.kind                      (not set)                                         default
    providers.openrouter.base_url                  (not set)                                         default
    providers.openrouter.api_key                   (not set)                                         default
    providers.openrouter.settings.max_tokens       (not set)                                         default
    providers.openrouter.settings.api_base         (not set)                                         default
    providers.openrouter.settings.api_key_command  (not set)                                         default
    providers.openrouter.settings.timeout          300                                               default
    providers.openrouter.settings.retries          7                                                 default
    providers.openrouter.settings.max_wait         300                                               default
    providers.openrouter.settings.proxy            (not set)                                         default
    providers.compatible.kind                      (not set)                                         default
    providers.compatible.base_url                  (not set)                                         default
    providers.compatible.api_key                   (not set)                                         default
    providers.compatible.settings.max_tokens       (not set)                                         default
    providers.compatible.settings.api_base         (not set)                                         default
    providers.compatible.settings.api_key_command  (not set)                                         default
    providers.compatible.settings.timeout          300                                               default
    providers.compatible.settings.retries          7                                                 default
    providers.compatible.settings.max_wait         300                                               default
    providers.compatible.settings.proxy            (not set)                                         default
    providers.script.file                          (not set)                                         default
    tools                                          [{"name":"t","command":"make","description":""}]  pleach.yaml:4
    workspace.test_command                         (not set)                                         default
    tree.test_command                              (not set)                                         default
    tree.test_timeout                              300                                               default
    tree.runner_timeout                            (not set)                                         default
    tree.max_retries                               2                                                 pleach.yaml:3
    tree.base_branch                               dev                                               .arborist/config.json:1
    tree.report_dir                                (not set)                                         default
    tree.log_dir                                   (not set)                                         default
    tree.commit_logs                               auto                                              default
    tree.isolation                                 none                                              default
    tree.jobs                                      4                                                 default
    tree.pipeline                                  (not set)                                         default
    tree.early_stop                                true                                              default
    tree.delete_branches                           true                                              default
    worktrees.base                                 (not set)                                         default
    worktrees.setup                                (not set)                                         default
    worktrees.exclude                              [".claude/"]                                      default
    worktrees.include_ignored                      []                                                default
    worktrees.delete_branches                      false                                             default
    worktrees.pool                                 4                                                 default
    merge.enabled                                  false                                             PLEACH_MERGE__ENABLED
    merge.auto_merge_clean                         true                                              default
    merge.target                                   (not set)                                         default
    merge.test_command                             (not set)                                         default
    merge.test_timeout                             300                                               default
    merge.interval_secs                            60                                                default
    merge.max_conflict_retries                     2                                                 default
    merge.resolvers                                2                                                 default
    merge.agent                                    (not set)                                         default
    merge.history                                  linear                                            default
    merge.batch                                    16                                                default
    merge.slots                                    (not set)                                         default
    merge.derived                                  []                                                default
    merge.structural                               auto                                              default
    merge.untested_files                           escalate                                          default
    context.output_chars                           8000                                              default
    budget.tokens                                  0                                                 default
    budget.usd                                     3.0                                               [TEMP]/config/pleach/config.yaml:1
    budget.per_task_tokens                         0                                                 default
    budget.per_task_usd                            0.0                                               default
    budget.per_day_tokens                          0                                                 default
    budget.per_day_usd                             0.0                                               default
    budget.on_exceeded                             stop                                              default
    record.repo                                    (not set)                                         default
    record.push                                    auto                                              default
    record.push_interval                           10                                                default
    record.cxdb                                    (not set)                                         default
    sandbox.mode                                   auto                                              default
    sandbox.network                                gateway                                           default
    sandbox.rw                                     []                                                default
    sandbox.ro                                     []                                                default
    sandbox.hide                                   ["~/.ssh", "~/.aws", "~/.gnupg" and 57 more]      default
    sandbox.show                                   []                                                default
    sandbox.hide_from                              agents                                            default
    env.pass                                       []                                                default
    "#);
}

#[test]
fn one_setting_is_explained() {
    let env = TestEnv::new();
    env.repo();
    env.write("repo/pleach.yaml", "agent: builtin\n");
    env.write("config/pleach/config.yaml", "agent: claude\n");
    insta::assert_snapshot!(env.pleach(&["config", "--explain", "agent"]).expect(0), @r#"
    exit: 0
    --- stdout
    agent = builtin
      from: pleach.yaml:1
      wins over: [TEMP]/config/pleach/config.yaml:1
      The agent for nodes that name none; without one, pipelines and prompts use the only one that is installed.
      takes: builtin | simulation | claude | codex | gemini | opencode | acp:COMMAND | command:COMMAND | a name of `agents`
    "#);
    insta::assert_snapshot!(env.pleach(&["config", "--explain", "tree.max_retrys"]).expect(2), @r#"
    exit: 2
    --- stderr
    error[no-such-setting]: there is no setting `tree.max_retrys`
    hint: did you mean `tree.max_retries`?
    "#);
    insta::assert_snapshot!(env.pleach(&["config", "--explain", "agents.x.model"]).expect(0), @r#"
    exit: 0
    --- stdout
    agents.x.model = (not set)
      from: default
      The agent's model.
      takes: text
    "#);
    insta::assert_snapshot!(env.pleach(&["config", "--explain", "tree.steps"]).expect(0), @r#"
    exit: 0
    --- stdout
    tree.steps.*.runner = (not set)
      from: default
      The agent of this step.
      takes: builtin | simulation | claude | codex | gemini | opencode | acp:COMMAND | command:COMMAND | a name of `agents`

    tree.steps.*.model = (not set)
      from: default
      The model of this step.
      takes: text
    "#);
    let sandbox = env.pleach(&["config", "--explain", "sandbox"]).expect(0).stdout;
    assert!(sandbox.contains("sandbox.mode = auto") && sandbox.contains("sandbox.rw = []"), "{sandbox}");
    assert!(sandbox.contains("~/.local/state/pleach"), "a long list is whole here: {sandbox}");
}

#[test]
fn json_has_values_and_places() {
    let env = TestEnv::new();
    env.repo();
    env.write("repo/pleach.yaml", "tree: {max_retries: 2}\n");
    let json = env.pleach(&["config", "--json"]).expect(0).json();
    assert_eq!(json["settings"]["tree.max_retries"]["value"], 2);
    assert_eq!(json["settings"]["tree.max_retries"]["from"]["level"], "project");
    assert_eq!(json["settings"]["tree.max_retries"]["from"]["place"], "pleach.yaml:1");
    assert_eq!(json["settings"]["agent"]["value"], serde_json::Value::Null);
    assert_eq!(json["files"], serde_json::json!([env.repo_path().join("pleach.yaml")]));
    let one = env.pleach(&["config", "--json", "--explain", "worktrees.pool"]).expect(0).json();
    assert_eq!(one["worktrees.pool"]["value"], 4);
}

#[test]
fn the_nearest_file_upward_counts() {
    let env = TestEnv::new();
    let agent = |dir: &str| {
        let dir = env.root().join(dir);
        let json = env.pleach(&["-C", dir.to_str().unwrap(), "config", "--json"]).expect(0).json();
        json["settings"]["agent"]["value"].as_str().unwrap_or("none").to_owned()
    };
    env.write("w/a/b/file", "");
    assert_eq!(agent("w/a/b"), "none");
    env.write("w/orchestra.yaml", "backend: direct\n");
    assert_eq!(agent("w/a/b"), "builtin");
    env.write("w/pleach.yaml", "agent: codex\n");
    assert_eq!(agent("w/a/b"), "codex");
    env.write("w/a/orchestra.yaml", "backend: simulation\n");
    assert_eq!(agent("w/a/b"), "simulation");
    assert_eq!(agent("w"), "codex");
}

#[test]
fn a_named_file_is_read_instead() {
    let env = TestEnv::new();
    env.repo();
    env.write("repo/pleach.yaml", "agent: codex\n");
    env.write("other/my.yaml", "agent: gemini\ntree: {pipeline: p.dot}\n");
    let json = env.pleach(&["--config", "../other/my.yaml", "config", "--json"]).expect(0).json();
    assert_eq!(json["settings"]["agent"]["value"], "gemini");
    assert_eq!(json["settings"]["tree.pipeline"]["value"], env.root().join("other/p.dot").to_str().unwrap());
    insta::assert_snapshot!(env.pleach(&["--config", "none.yaml", "config"]).expect(2), @r#"
    exit: 2
    --- stderr
    error[settings-missing]: there is no configuration file [TEMP]/repo/none.yaml
    hint: --config takes a file that exists; without it pleach.yaml is searched upward
    "#);
}

#[test]
fn all_errors_are_reported_at_once() {
    let env = TestEnv::new();
    env.repo();
    env.write("repo/pleach.yaml", "agnet: x\ntree: {max_retries: no}\n");
    env.write("config/pleach/config.yaml", "budget: 3\n");
    env.write("repo/.env", "OK=1\nmy-secret-line\n");
    let ran = env.pleach(&["config"]).expect(2);
    insta::assert_snapshot!(ran, @r#"
    exit: 2
    --- stderr
    error[settings-invalid]: 4 errors in the configuration
    .env:2: this line has no `=`
    A line is NAME=VALUE; comments begin with #.
    [TEMP]/config/pleach/config.yaml:1:9: `budget` takes a section, not a number
     1 | budget: 3
       |         ^
    pleach.yaml:1:1: unknown key `agnet`
     1 | agnet: x
       | ^^^^^
    Did you mean `agent`?
    pleach.yaml:2:21: `tree.max_retries` takes a whole number, not text
     2 | tree: {max_retries: no}
       |                     ^^
    hint: `pleach help settings` says what every setting takes
    "#);
    assert!(env.pleach(&["config", "--json"]).expect(2).json()["error"]["message"].as_str().unwrap().contains("agnet"));
}

#[test]
fn errors_of_all_kinds_are_reported() {
    let env = TestEnv::new();
    env.repo();
    let values = "tree: {max_retries: 0, test_timeout: 0, runner_timeout: 0, foo: 1,\n  base_branch: a..b}\n";
    env.write("repo/pleach.yaml", values);
    env.write("repo/.arborist/config.json", r#"{"defaults": {"base_branch": 5}, "steps": [], "timeouts": 5}"#);
    insta::assert_snapshot!(env.pleach(&["config"]).expect(2), @r#"
    exit: 2
    --- stderr
    error[settings-invalid]: 8 errors in the configuration
    .arborist/config.json:1:30: `defaults.base_branch` takes text, not a number
     1 | {"defaults": {"base_branch": 5}, "steps": [], "timeouts": 5}
       |                              ^
    .arborist/config.json:1:43: `steps` takes a section, not a list
     1 | {"defaults": {"base_branch": 5}, "steps": [], "timeouts": 5}
       |                                           ^
    .arborist/config.json:1:59: `timeouts` takes a section, not a number
     1 | {"defaults": {"base_branch": 5}, "steps": [], "timeouts": 5}
       |                                                           ^
    pleach.yaml:1:21: a task needs at least one attempt
     1 | tree: {max_retries: 0, test_timeout: 0, runner_timeout: 0, foo: 1,
       |                     ^
    Give a number from 1 up.
    pleach.yaml:1:38: a test needs at least one second
     1 | tree: {max_retries: 0, test_timeout: 0, runner_timeout: 0, foo: 1,
       |                                      ^
    pleach.yaml:1:57: an agent needs at least one second
     1 | tree: {max_retries: 0, test_timeout: 0, runner_timeout: 0, foo: 1,
       |                                                         ^
    pleach.yaml:1:60: unknown key `tree.foo`
     1 | tree: {max_retries: 0, test_timeout: 0, runner_timeout: 0, foo: 1,
       |                                                            ^^^
    Known here: test_command, test_timeout, runner_timeout, max_retries, base_branch, report_dir, log_dir, commit_logs, isolation, jobs, pipeline, early_stop, delete_branches, steps.
    pleach.yaml:2:16: `a..b` is not a valid branch name: a name `git check-ref-format --branch` accepts
     2 |   base_branch: a..b}
       |                ^^^^
    hint: `pleach help settings` says what every setting takes
    "#);
    for command in [&["status"][..], &["gardener"]] {
        let ran = env.pleach(command).expect(2);
        ran.fails_with("settings-invalid").naming("pleach.yaml:2:16").naming("`a..b`");
    }
    env.write("repo/pleach.yaml", "");
    for (text, told) in [
        ("not json", "config.json:1:1: settings of Arborist are a JSON object"),
        (r#"{"defaults": 5}"#, "config.json:1:14: `defaults` takes a section, not a number"),
        (r#"{"timeouts": {"runner_timeout": 0}}"#, "config.json:1:33: an agent needs at least one second"),
    ] {
        env.write("repo/.arborist/config.json", text);
        let ran = env.pleach(&["config"]).expect(2);
        assert!(ran.stderr.contains(told), "{ran}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let env = TestEnv::new();
    env.repo();
    let text = "tree: {test_command: 'curl -H Zq8xT4vB1nM6 x'}\nworkspace: {repos: {a: {path: ., remote: 'https://me:Zz9-very-secret@git.example/a'}}}\n";
    env.write("repo/pleach.yaml", text);
    env.write("repo/.env", "SERVICE=Zq8xT4vB1nM6\nPLEACH_TREE__MAX_RETRIES=3\n");
    for args in [&["config"][..], &["config", "--json"], &["config", "--explain", "tree"]] {
        let shown = env.pleach(args).expect(0).stdout;
        assert!(!shown.contains("Zq8xT4vB1nM6") && !shown.contains("Zz9-very-secret"), "{shown}");
        assert!(shown.contains("[redacted:SERVICE]"), "{shown}");
        assert!(shown.contains(".env:2"), "{shown}");
    }
}

#[test]
fn without_a_home_it_says_so() {
    let env = TestEnv::new();
    let mut command = env.command(&["config"]);
    command.env_remove("HOME").env("XDG_STATE_HOME", "relative/does/not/count");
    insta::assert_snapshot!(env.finish(command.output().unwrap()).expect(7), @r#"
    exit: 7
    --- stderr
    error[no-state-directory]: there is no directory for pleach's state
    hint: set HOME, or XDG_STATE_HOME to an absolute path
    "#);
}

#[test]
fn a_variable_that_names_no_setting_is_warned_about() {
    let env = TestEnv::with_repo();
    let with = |name: &str| {
        let mut command = env.command(&["config"]);
        command.env(name, "2");
        env.finish(command.output().unwrap())
    };
    for (name, hint) in [
        ("PLEACH_TREE_MAX_RETRIES", "Did you mean PLEACH_TREE__MAX_RETRIES?"),
        ("PLEACH_TREE_MAXRETRIES", "Did you mean PLEACH_TREE__MAX_RETRIES?"),
        ("PLEACH_BUGDET__USD", "Did you mean PLEACH_BUDGET__USD?"),
        ("PLEACH_NOSUCH", "`pleach config` lists them"),
    ] {
        let ran = with(name).expect(0);
        ran.warns("setting-ignored").naming(name);
        assert!(ran.stderr.contains(hint), "{ran}");
    }
    env.write("repo/pleach.yaml", "agent: simulation\n");
    env.write("repo/.env", "\nPLEACH_NOSUCH=1\n");
    let ran = env.pleach(&["config"]).expect(0);
    ran.warns("setting-ignored").naming(".env:2").naming("`PLEACH_NOSUCH`");
    env.write("repo/.env", "");
    // pleach may be run by an agent of its own.
    for own in ["PLEACH_NODE", "PLEACH_SESSION", "PLEACH_VISIT", "PLEACH_STATUS_FILE", "PLEACH_GATEWAY_KEY"] {
        with(own).expect(0);
    }
    env.run(
        &graph(
            "inner",
            &(tool("look", &format!("'{}' config", env!("CARGO_BIN_EXE_pleach"))) + "start -> look -> exit"),
        ),
        &[],
    )
    .expect(0);
}

#[test]
fn ignored_paths_outside_the_repository_are_refused() {
    let env = TestEnv::new();
    env.repo();
    for path in ["/etc/passwd", "../x", "a/../../x", "./.env"] {
        env.write("repo/pleach.yaml", format!("worktrees: {{include_ignored: [.env, {path}]}}\n"));
        let stderr = env.pleach(&["config"]).expect(2).stderr;
        assert!(stderr.contains(&format!("`{path}` is not a path relative to the repository root")), "{stderr}");
    }
    env.write("repo/pleach.yaml", "worktrees: {include_ignored: [.env, node_modules/]}\n");
    env.pleach(&["config"]).expect(0);
}
