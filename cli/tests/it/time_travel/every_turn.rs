//! Every turn of a session over three repositories: gone back to, and replayed from, in fresh clones of all three.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::sessions::{Story, graph, tool};
use crate::support::TestEnv;

const REPOS: [&str; 3] = ["app", "web", "api"];

const WORKSPACE: &str = "workspace: {repos: {app: {path: app}, web: {path: web}, api: {path: api}}}\n\
                         agent: builtin\nproviders: {script: {file: script.yaml}}\n";

/// How many turns the agents take: with those of the two commands they are forty.
const AGENTS: [(&str, usize); 4] = [("plan", 9), ("a", 8), ("b", 8), ("code", 13)];

/// A model that writes into one repository after the other, looks at a file at every fourth turn, and answers.
fn script() -> String {
    let mut text = "scripts:\n".to_owned();
    for (node, turns) in AGENTS {
        write!(text, "  - name: {node}\n    when: {{node: {node}}}\n    steps:\n").expect("a String takes all");
        for turn in 1..turns {
            let repo = REPOS[turn % REPOS.len()];
            let tool = match turn % 4 {
                0 => "read_file: {file_path: app/README.md}".to_owned(),
                _ => format!("write_file: {{file_path: {repo}/{node}-{turn}.txt, content: \"{node} {turn}\\n\"}}"),
            };
            writeln!(text, "      - {{text: {node} {turn}., tools: [{{{tool}}}]}}").expect("a String takes all");
        }
        writeln!(text, "      - {{text: Done.}}").expect("a String takes all");
    }
    text
}

/// A session of forty turns that has failed at the last of them, which passes from now on.
fn failed() -> TestEnv {
    let env = TestEnv::with_repo();
    fs::rename(env.repo_path(), env.root().join("app")).expect("the repository is there");
    env.repo_at("web");
    env.repo_at("api");
    env.write("script.yaml", script());
    env.configure(WORKSPACE);
    let flag = env.root().join("fixed");
    let body = format!(
        "plan [prompt=\"Plan\"] fork [shape=component] a [prompt=\"A\"] b [prompt=\"B\"] join [shape=tripleoctagon] \
         {} code [prompt=\"Code\"] {} start -> plan -> fork fork -> a -> join fork -> b -> join join -> check -> code \
         code -> last last -> exit [condition=\"outcome=success\"]",
        tool("check", "cat app/*.txt > api/check.txt"),
        tool("last", &format!("test -e {}", flag.display())),
    );
    env.pipeline(&graph("p", &body));
    env.pleach(&["-C", "api", "-y", "run", "../pipeline.dot"]).expect(1);
    env.write("fixed", "");
    env
}

/// Clones the three repositories into a directory of their own, with all that is recorded.
fn cloned(env: &TestEnv, name: &str) {
    for repo in REPOS {
        let (from, to) = (env.root().join(repo), env.root().join(name).join(repo));
        env.git_in(env.root(), &["clone", "--quiet", from.to_str().unwrap(), to.to_str().unwrap()]);
        let all = ["refs/heads/pleach/*:refs/heads/pleach/*", "refs/pleach/*:refs/pleach/*"];
        env.git_in(&to, &["fetch", "--quiet", "origin", all[0], all[1]]);
    }
    env.write(format!("{name}/pleach.yaml"), WORKSPACE);
    env.write(format!("{name}/script.yaml"), script());
}

/// The trees of some commits, or of the branches of a run.
fn trees(env: &TestEnv, dir: &Path, commits: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let tree = |(repo, commit): (&String, &String)| {
        (repo.clone(), env.git_in(&dir.join(repo), &["rev-parse", &format!("{commit}^{{tree}}")]))
    };
    commits.iter().map(tree).collect()
}

fn of_branches(env: &TestEnv, dir: &Path, session: &str, run: &str) -> BTreeMap<String, String> {
    trees(env, dir, &REPOS.map(|repo| (repo.to_owned(), format!("pleach/p/{session}{run}"))).into())
}

fn snapshot(value: &Value) -> BTreeMap<String, String> {
    let commits = value.as_object().expect("a snapshot").iter();
    commits.map(|(repo, commit)| (repo.clone(), commit.as_str().expect("a commit").to_owned())).collect()
}

/// The turns of the root in their order, with the code after each.
fn code_after_turns(story: &Story) -> Vec<(String, BTreeMap<String, String>)> {
    let mut code = snapshot(&story.first("PipelineStarted")["base"]);
    let mut turns: Vec<(String, BTreeMap<String, String>)> = Vec::new();
    for (kind, data) in story.events() {
        match kind {
            "AgentTurn" | "ToolExecution" => turns.push((data["turn"].as_str().unwrap().to_owned(), code.clone())),
            "TurnCommitted" | "WorktreeMerged" => {
                code.insert(data["repo"].as_str().unwrap().to_owned(), data["git_sha"].as_str().unwrap().to_owned());
                if kind == "TurnCommitted" {
                    turns.last_mut().expect("a turn is recorded before its commit").1.clone_from(&code);
                }
            }
            _ => {}
        }
    }
    turns
}

#[test]
#[ignore = "takes minutes: every turn of forty, in two fresh clones of three repositories each"]
fn every_turn_in_fresh_clones() {
    let env = failed();
    let root = env.root().to_owned();
    let refs = env.git_in(&root.join("api"), &["for-each-ref", "--format=%(refname)", "refs/pleach/sessions"]);
    let session = refs.lines().next().and_then(|name| name.split('/').nth(3)).expect("a session").to_owned();
    let told = env.pleach(&["-C", "api", "turns", "--json", &session]).expect(0).json();
    let turns = told["turns"].as_array().expect("turns").iter();
    let turns: Vec<String> = turns.map(|turn| turn["turn"].as_str().expect("a turn").to_owned()).collect();
    assert_eq!(turns.len(), 40);
    let code = code_after_turns(&Story::of(&env, &root.join("api"), &session));
    cloned(&env, "whole");
    env.pleach(&["-C", "whole/api", "-y", "resume", &session]).expect(0);
    let expected = of_branches(&env, &root.join("whole"), &session, "");
    assert_eq!(code.len(), 24, "the turns of the root");
    for (number, turn) in turns.iter().enumerate() {
        for (command, run, event) in [("resume", "", "Resumed"), ("replay", "--r1", "ContextForked")] {
            // Its last turn is that of the command that failed, which a resume repeats.
            cloned(&env, "clone");
            let dir = root.join("clone");
            let ran = env.pleach(&["-C", "clone/api", "-y", command, &session, "--turn", turn]);
            if number + 1 == turns.len() {
                ran.expect(2).fails_with("turn-is-end");
            } else {
                ran.expect(0);
                assert_eq!(of_branches(&env, &dir, &session, run), expected, "{command} at {turn}");
                if let Some((_, code)) = code.iter().find(|(of, _)| of == turn) {
                    let context = run.trim_start_matches("--");
                    let context = if context.is_empty() { "main" } else { context };
                    let story = Story::in_context(&env, &dir.join("api"), &session, context);
                    let begun = story.all(event).into_iter().rfind(|data| data["turn"] == turn.as_str());
                    let begun = begun.or_else(|| story.all(event).into_iter().next()).expect("where it goes on");
                    let at = if command == "resume" { &begun["work"] } else { &begun["base"] };
                    assert_eq!(trees(&env, &dir, &snapshot(at)), trees(&env, &root, code), "{command} at {turn}");
                }
            }
            fs::remove_dir_all(dir).expect("the clone is there");
        }
        println!("{turn}");
    }
}
