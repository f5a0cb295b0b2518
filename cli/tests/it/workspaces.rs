//! A session over several repositories: branches, commits, snapshots and worktrees of each, and what every command says
//! of them.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::mirror::MirroredEnv;
use crate::parallel::fan;
use crate::sessions::{Gate, Story, graph, tool};
use crate::support::{Checkout, TestEnv};

mod crash;
mod ephemeral;
mod land;
mod page;

/// The settings of a workspace of two: `app`, which is the test's usual repository and holds the records, and `web`.
pub const TWO: &str = "workspace: {repos: {app: {path: repo}, web: {path: web, branch_prefix: orchestra/}}}\n";

impl TestEnv {
    /// A world with a workspace of two repositories.
    pub fn with_two_repos() -> Self {
        let env = Self::with_repo();
        env.repo_at("web");
        env.configure(TWO);
        env
    }

    /// The second repository of the workspace.
    pub fn web(&self) -> PathBuf {
        self.root().join("web")
    }

    /// The session branch of a repository.
    #[track_caller]
    pub fn branch_in(&self, repo: &str) -> String {
        self.story().first("PipelineStarted")["branches"][repo].as_str().expect("a branch").to_owned()
    }

    /// A file of the session branch of `web`.
    #[track_caller]
    pub fn committed_in_web(&self, path: &str) -> String {
        self.git_in(&self.web(), &["show", &format!("{}:{path}", self.branch_in("web"))])
    }

    /// The commit of a branch of `web`.
    #[track_caller]
    pub fn web_at(&self, branch: &str) -> String {
        self.git_in(&self.web(), &["rev-parse", branch])
    }
}

/// The paths of the linked worktrees of `web`.
fn linked_in_web(env: &TestEnv) -> Vec<String> {
    let listed = env.git_in(&env.web(), &["worktree", "list", "--porcelain"]);
    listed.lines().filter_map(|line| line.strip_prefix("worktree ")).skip(1).map(str::to_owned).collect()
}

#[test]
fn multi_repo_branches() {
    let env = TestEnv::with_two_repos();
    env.git_in(&env.web(), &["checkout", "--quiet", "-b", "next"]);
    env.git_in(&env.web(), &["commit", "--quiet", "--allow-empty", "-m", "Next"]);
    let heads = [env.git(&["rev-parse", "HEAD"]), env.web_at("HEAD")];
    let before = [Checkout::of(&env, &env.repo_path()), Checkout::of(&env, &env.web())];
    let body = tool("work", "ls; echo 1 > app/one; echo 2 > web/two") + "start -> work -> exit";
    let ran = env.run(&graph("both", &body), &[]).expect(0);
    let sid = env.session();
    let started = env.story().first("PipelineStarted");
    assert_eq!(started["base"], json!({"app": heads[0], "web": heads[1]}));
    assert_eq!(started["targets"], json!({"app": "main", "web": "next"}));
    let branches = json!({"app": format!("pleach/both/{sid}"), "web": format!("orchestra/both/{sid}")});
    assert_eq!(started["branches"], branches);
    assert_eq!([env.committed("one"), env.committed_in_web("two")], ["1", "2"]);
    assert_eq!(env.story().all("SessionBranchCreated").len(), 2);
    // Agents start above the worktrees, which lie side by side.
    let root = env.root().join("state/pleach/worktrees");
    let base = fs::read_dir(root).unwrap().next().unwrap().unwrap().path();
    let place = base.join(&sid).join("main");
    assert_eq!(linked_in_web(&env), [place.join("web").display().to_string()]);
    assert!(place.join("app/.git").is_file());
    assert!(ran.stdout.contains(&format!("branch:  orchestra/both/{sid} in web")), "{ran}");
    for (checkout, repo) in before.iter().zip([env.repo_path(), env.web()]) {
        checkout.assert_unchanged(&env, &repo);
    }
}

#[test]
fn multi_repo_pipeline() {
    let env = TestEnv::with_two_repos();
    env.write(
        "script.yaml",
        r#"
model: scripted-1
scripts:
  - name: code
    when: {node: code}
    steps:
      - text: Write both sides.
        tools:
          - write_file: {file_path: app/api.py, content: "api = 1\n"}
          - write_file: {file_path: web/page.js, content: "page = 1\n"}
      - text: Polish the page.
        tools: [{write_file: {file_path: web/page.js, content: "page = 2\n"}}]
      - text: Done.
"#,
    );
    env.configure(&format!("{TWO}agent: builtin\nproviders: {{script: {{file: script.yaml}}}}\n"));
    env.run(&graph("feature", "code [prompt=\"Add it\"]\nstart -> code -> exit"), &[]).expect(0);
    let story = env.story();
    // A turn that writes in two repositories is one record, with a commit in each.
    let turns = story.all("AgentTurn");
    let first = &turns[0]["git_sha"];
    let (app, web) = (first["app"].as_str().unwrap(), first["web"].as_str().unwrap());
    assert_eq!(turns[0]["files_written"], json!({"app": ["api.py"], "web": ["page.js"]}));
    assert_eq!(env.commits(), [app]);
    let of_web = env.git_in(&env.web(), &["rev-list", "--reverse", &format!("main..{}", env.branch_in("web"))]);
    assert_eq!(of_web.lines().collect::<Vec<_>>(), [web, turns[1]["git_sha"]["web"].as_str().unwrap()]);
    assert_eq!(turns[1]["git_sha"].as_object().unwrap().len(), 1, "only `web` has changed");
    assert_eq!(turns[2]["git_sha"], Value::Null);
    // Each names those made before it.
    let with = |dir: &PathBuf, commit: &str| {
        env.git_in(dir, &["show", "--no-patch", "--format=%(trailers:key=Pleach-With,valueonly)", commit])
    };
    assert_eq!(with(&env.repo_path(), app), "");
    assert_eq!(with(&env.web(), web).trim(), format!("app@{app}"));
    // The snapshot of a checkpoint has both, and so has the end.
    let tips = json!({"app": app, "web": env.web_at(&env.branch_in("web"))});
    let of_code = story.all("Checkpoint").into_iter().find(|at| at["current_node"] == "code").unwrap().clone();
    assert_eq!(of_code["workspace_snapshot"], tips);
    assert_eq!(story.last("PipelineCompleted")["workspace_snapshot"], tips);
}

#[test]
fn resume_at_node_restores_multiple_repos() {
    let env = MirroredEnv::of(TestEnv::with_two_repos());
    let gate = Gate::new(&env, "second");
    let body = tool("first", "echo 1 > app/one; echo 1 > web/one")
        + &tool("second", &format!("({}); cat app/one > web/two; cat web/one > app/two", gate.command()))
        + "start -> first -> second -> exit";
    let mut run = env.start(&graph("two", &body), &[]);
    let held = gate.reached(&mut run);
    let tips = [env.git(&["rev-parse", &env.branch_in("app")]), env.web_at(&env.branch_in("web"))];
    // Half a turn in both, which no record has.
    let place = PathBuf::from(&linked_in_web(&env)[0]);
    fs::write(place.join("one"), "dirty\n").unwrap();
    fs::write(place.with_file_name("app").join("half"), "dirty\n").unwrap();
    run.kill(held);
    gate.stay_open();
    env.resume(&[]).expect(0);
    assert_eq!([env.committed("two"), env.committed_in_web("two")], ["1", "1"]);
    assert_eq!(env.committed_in_web("one"), "1");
    assert_eq!(env.files(), ["README.md", "one", "two"]);
    assert_eq!(env.git(&["rev-parse", &format!("{}^", env.branch_in("app"))]), tips[0]);
    assert_eq!(env.web_at(&format!("{}^", env.branch_in("web"))), tips[1]);
    // What was half done is kept where it was done.
    let keep = format!("refs/pleach/keep/{}-1", env.session());
    assert_eq!(env.git(&["show", &format!("{keep}:half")]), "dirty");
    assert_eq!(env.git_in(&env.web(), &["show", &format!("{keep}:one")]), "dirty");
    env.pleach(&["record", "verify"]).expect(0);
}

#[test]
fn a_node_with_a_repo_works_in_that_one() {
    let env = TestEnv::with_two_repos();
    env.unbound();
    let in_web = "pwd > where; echo 1 > page; echo stray > ../app/stray; echo more >> ../app/README.md";
    let node = tool("page", in_web).replace("tool_command", "repo=web, tool_command");
    let ran = env.run(&graph("page", &(node + "start -> page -> exit")), &[]).expect(0);
    assert!(env.committed_in_web("where").ends_with("/main/web"));
    assert_eq!(env.committed_in_web("page"), "1");
    // The others are only read: what is written there is undone and kept.
    ran.warns("read-only-undone").naming("`README.md`").naming("`stray`");
    assert_eq!(env.git(&["rev-parse", &env.branch_in("app")]), env.git(&["rev-parse", "main"]));
    assert_eq!(env.git(&["show", &format!("refs/pleach/keep/{}-1:stray", env.session())]), "stray");

    let unknown = tool("page", "true").replace("tool_command", "repo=nowhere, tool_command");
    let ran = env.run(&graph("page", &(unknown + "start -> page -> exit")), &[]).expect(2);
    ran.fails_with("no-such-repo").naming("`page` works in the repository `nowhere`").naming("`app`, `web`");
}

#[test]
fn branches_run_at_once_in_several_repos() {
    let env = TestEnv::with_two_repos();
    let body =
        tool("a", "pwd > app/a; echo 1 > web/a") + &tool("b", "echo 2 > app/b; echo 2 > web/b") + " join -> exit";
    let dot = fan("wide", "", &["a", "b"], &body);
    env.run(&dot, &[]).expect(0);
    assert_eq!(env.files(), ["README.md", "a", "b"]);
    assert!(env.committed("a").ends_with("/a"), "a directory per context");
    assert_eq!([env.committed_in_web("a"), env.committed_in_web("b")], ["1", "2"]);
    let merged = env.story().all("WorktreeMerged").iter().map(|merged| merged["repo"].clone()).collect::<Vec<_>>();
    assert_eq!(merged, ["app", "app", "web", "web"]);
    let result = &env.story().last("ContextJoined")["result"];
    assert_eq!(result["web"], env.web_at(&env.branch_in("web")));
    // The worktrees of the branches are gone, in both.
    assert_eq!(linked_in_web(&env).len(), 1);
    let branch = env.branch_in("web");
    assert_eq!(env.web_at(&format!("{branch}--a")).len(), 40);
}

#[test]
fn a_conflict_names_its_repo() {
    let env = TestEnv::with_two_repos();
    let body = tool("a", "echo 1 > app/x; echo 1 > web/same")
        + &tool("b", "echo 2 > app/y; echo 2 > web/same")
        + &tool("mend", "cat web/same > app/seen; echo 3 > web/same")
        + " join -> mend -> exit";
    env.run(&fan("clash", "", &["a", "b"], &body), &[]).expect(0);
    let conflict = env.story().last("WorktreeMergeConflict");
    assert_eq!((&conflict["repo"], &conflict["paths"][0]["path"]), (&json!("web"), &json!("same")));
    assert!(env.committed("seen").contains("<<<<<<<"), "the files show it marked");
    assert_eq!(env.committed_in_web("same"), "3");
    assert_eq!([env.committed("x"), env.committed("y")], ["1", "2"]);
}

#[test]
fn commands_name_the_repo() {
    let env = TestEnv::with_two_repos();
    let body = tool("work", "echo 1 > app/one; echo 2 > web/two") + "start -> work -> exit";
    env.run(&graph("both", &body), &[]).expect(0);
    let sid = env.session();
    let (app, web) = (env.git(&["rev-parse", &env.branch()]), env.web_at(&env.branch_in("web")));
    let status = env.pleach(&["status", "--json", &sid]).expect(0).json();
    assert_eq!(status["repos"][1]["repo"], "web");
    assert_eq!(status["repos"][1]["branch_at"], json!(web));
    assert_eq!(status["worktrees"].as_array().unwrap().len(), 2);
    let text = env.pleach(&["status", &sid]).expect(0).stdout;
    assert!(text.contains(&format!("web: orchestra/both/{sid} at {}", &web[..10])), "{text}");
    assert!(text.contains(&format!("land {sid}")), "{text}");
    let turns = env.pleach(&["turns", &sid]).expect(0).stdout;
    assert!(turns.contains(&format!("app@{} web@{}", &app[..10], &web[..10])), "{turns}");
    // The turn, by its number and by its commit in either repository.
    for named in ["1", &app, &web] {
        let shown = env.pleach(&["show", "--json", named]).expect(0).json();
        assert_eq!(shown["turn"], "main.1", "{named}");
        assert_eq!(shown["commits"][0]["repo"], "app", "{named}");
        assert!(shown["commits"][1]["patch"].as_str().unwrap().contains("+++ b/two"), "{named}");
    }
    let diff = env.pleach(&["diff", &sid]).expect(0).stdout;
    let [of_app, of_web] = [diff.find("── app").unwrap(), diff.find("── web").unwrap()];
    assert!(of_app < diff.find("b/one").unwrap() && of_web < diff.find("b/two").unwrap(), "{diff}");
    let diff = env.pleach(&["diff", "--json", "--stat", &sid]).expect(0).json();
    assert_eq!(diff["repos"][1]["files"][0]["path"], "two");
    env.pleach(&["export", &sid, "../out"]).expect(0);
    let manifest: Value = serde_json::from_str(&env.read("out/manifest.json")).unwrap();
    assert_eq!(manifest["repos"][1]["commit"], json!(web));
    let worktrees = env.pleach(&["worktree", "list", "--json"]).expect(0).json();
    let owners: Vec<&str> =
        worktrees["worktrees"].as_array().unwrap().iter().map(|of| of["owner"].as_str().unwrap()).collect();
    assert_eq!(owners, [format!("{sid}/main/app"), format!("{sid}/main/web")]);
    // From within the other repository the same is seen.
    let mut command = env.command(&["status", "--json"]);
    let listed = env.finish(command.current_dir(env.web()).output().unwrap()).expect(0).json();
    assert_eq!(listed["sessions"][0]["session"], json!(sid));
}

#[test]
fn rm_removes_a_session_from_every_repo() {
    let env = TestEnv::with_two_repos();
    let body = tool("work", "echo 2 > web/two") + "start -> work -> exit";
    env.run(&graph("both", &body), &[]).expect(0);
    let (sid, branch) = (env.session(), env.branch_in("web"));
    fs::write(PathBuf::from(&linked_in_web(&env)[0]).join("left"), "over\n").unwrap();
    let refused = env.pleach(&["rm", &sid]).expect(1);
    refused.fails_with("removal-refused").naming(format!("branch `{branch}` is not merged"));
    let removed = env.pleach(&["rm", "--force", "--json", &sid]).expect(0).json();
    let steps = removed["sessions"][0]["steps"].as_array().unwrap();
    assert!(steps.iter().any(|step| step["step"] == "remove_branch" && step["repo"] == "web"), "{steps:?}");
    assert_eq!(env.git_in(&env.web(), &["branch", "--list", "orchestra/*"]), "");
    assert_eq!(linked_in_web(&env), Vec::<String>::new());
    assert_eq!(env.git(&["for-each-ref", "refs/pleach/sessions", "refs/heads/pleach"]), "");
    assert_eq!(env.git_in(&env.web(), &["show", &format!("refs/pleach/keep/{sid}-1:left")]), "over");
    let bases = fs::read_dir(env.root().join("state/pleach/worktrees")).unwrap();
    let left: usize = bases.map(|base| fs::read_dir(base.unwrap().path()).unwrap().count()).sum();
    assert_eq!(left, 0, "no directory of the session is left");
}

#[test]
fn doctor_knows_all_repos_and_whose_worktrees_they_have() {
    let env = TestEnv::with_two_repos();
    let body = tool("work", "echo 1 > web/one")
        + "gate [shape=hexagon, label=\"Go on?\"]\nstart -> work -> gate\n gate -> exit [label=\"[Y] Yes\"]";
    env.run(&graph("ask", &body), &[]).expect(4);
    let worktrees = || env.git_in(&env.web(), &["worktree", "list"]).lines().count();
    let before = worktrees();
    for dir in [env.root(), &env.repo_path(), &env.web()] {
        let ran = env.finish(env.command(&["doctor", "--fix", "--json"]).current_dir(dir).output().unwrap());
        let findings = ran.json()["findings"].as_array().unwrap().clone();
        let of = |what: &str| findings.iter().filter(|found| found["what"] == what).cloned().collect::<Vec<_>>();
        let shown: Vec<_> = of("repository").iter().map(|found| found["level"].clone()).collect();
        assert_eq!(shown, ["ok", "ok"], "{ran}");
        assert!(of("leftovers").iter().all(|found| found["message"] == "none"), "{ran}");
    }
    assert_eq!((worktrees(), before), (2, 2), "the session's worktree is there");
}

#[test]
fn records_in_another_repo_are_told() {
    let env = TestEnv::with_two_repos();
    env.configure(&format!("{TWO}record: {{repo: web}}\n"));
    env.run(&graph("one", &(tool("work", "echo 1 > app/one") + "start -> work -> exit")), &[]).expect(0);
    env.configure(TWO);
    env.pleach(&["status"]).expect(0).warns("records-elsewhere").naming("`record.repo: web`");
}

#[test]
fn the_record_is_where_the_settings_say() {
    let env = TestEnv::with_two_repos();
    env.configure(&format!("{TWO}record: {{repo: web}}\n"));
    let body = tool("work", "echo 1 > app/one") + "start -> work -> exit";
    env.run(&graph("both", &body), &[]).expect(0);
    assert_eq!(env.git(&["for-each-ref", "refs/pleach"]), "");
    let named = env.git_in(&env.web(), &["for-each-ref", "--format=%(refname)", "refs/pleach/sessions"]);
    let sid = named.split('/').nth(3).unwrap();
    let story = Story::of(&env, &env.web(), sid);
    assert_eq!(story.first("PipelineStarted")["record_repo"], "web");
    assert_eq!(env.git(&["show", &format!("pleach/both/{sid}:one")]), "1");
    assert_eq!(env.pleach(&["status", "--json", sid]).expect(0).json()["repos"][0]["repo"], "app");
    env.pleach(&["rm", "--force", sid]).expect(0);
    assert_eq!(env.git(&["branch", "--list", "pleach/*"]), "");
}

#[test]
fn a_workspace_that_cannot_be_used_is_refused() {
    let env = TestEnv::with_two_repos();
    let dot = graph("both", &(tool("work", "true") + "start -> work -> exit"));
    let with = |settings: &str| {
        env.configure(settings);
        env.run(&dot, &[]).expect(2)
    };
    let ran = with("workspace: {repos: {app: {path: repo}, same: {path: repo/.git/..}}}\n");
    ran.fails_with("repo-twice").naming("`app` and `same`");
    let ran = with("workspace: {repos: {app: {path: repo}, '..': {path: web}}}\n");
    ran.fails_with("settings-invalid").naming("`..` is not a valid repository name");
    assert!(env.sessions().is_empty(), "nothing has begun");
    // A session over two cannot go on with one.
    env.configure(TWO);
    let fails = graph("both", &(tool("work", "test -e go") + "start -> work -> exit"));
    env.run(&fails, &[]).expect(1);
    fs::rename(env.web(), env.root().join("moved")).unwrap();
    env.resume(&[]).expect(2).fails_with("not-a-directory").naming("web`");
    // The settings of today say where it is now.
    env.configure("workspace: {repos: {app: {path: repo}, web: {path: moved}}}\n");
    env.resume(&[]).expect(1);
}

#[test]
fn kept_work_is_named_with_its_repository() {
    let env = TestEnv::with_two_repos();
    let body = tool("work", "echo 1 > app/one; echo 2 > web/two")
        + "gate [shape=hexagon, label=\"Go on?\"]\n start -> work -> gate\n gate -> exit [label=\"[Y] Yes\"]";
    env.run(&graph("both", &body), &[]).expect(4);
    let linked = env.git(&["worktree", "list", "--porcelain"]);
    let app = linked.lines().filter_map(|line| line.strip_prefix("worktree ")).nth(1).expect("a worktree").to_owned();
    for (worktree, file) in [(&app, "one"), (&linked_in_web(&env)[0], "two")] {
        fs::write(PathBuf::from(worktree).join(file), "by hand\n").unwrap();
    }
    let ran = env.resume(&["--answer", "gate=Y"]).expect(0);
    let kept = format!("refs/pleach/keep/{}-1", env.session());
    ran.warns("work-kept").naming(format!("{kept} of `app`")).naming(format!("{kept} of `web`"));
}
