//! Killed anywhere while it goes back, or while it begins another run, a session comes to the same end.

use crate::sessions::Story;
use crate::support::TestEnv;

use super::branches::failed;

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Travel {
    Return,
    Replay,
}

impl Travel {
    fn begin(self) -> &'static [&'static str] {
        match self {
            Self::Return => &["resume", "--turn", "a.1"],
            Self::Replay => &["replay", "--turn", "a.1", "--prompt-append", "Please."],
        }
    }

    /// The root of the run that goes on.
    fn root(self) -> &'static str {
        if self == Self::Return { "main" } else { "r1" }
    }

    /// Whether it has happened: from then on it goes on by itself.
    fn has_begun(self, env: &TestEnv) -> bool {
        match self {
            Self::Return => env.story().all("Resumed").iter().any(|resumed| resumed["turn"] == "a.1"),
            Self::Replay => env.own_refs().contains_key(&format!("refs/pleach/sessions/{}/r1", env.session())),
        }
    }
}

/// What it comes to, as far as it must be the same however often it was killed.
#[derive(Debug, PartialEq)]
struct Result {
    tree: String,
    turns: Vec<Vec<String>>,
    returns: Vec<usize>,
    path: Vec<String>,
    worktrees: usize,
}

fn result(env: &TestEnv, travel: Travel) -> Result {
    // How far the other branch was when `a` took its turn is a matter of chance.
    let contexts = if travel == Travel::Return { ["main", "a"] } else { ["r1", "r1-a"] };
    let there =
        |context: &&&str| env.own_refs().contains_key(&format!("refs/pleach/sessions/{}/{context}", env.session()));
    let contexts: Vec<&&str> = contexts.iter().filter(there).collect();
    let story = |context: &str| Story::in_context(env, &env.repo_path(), &env.session(), context);
    let back = |context: &&&str| story(context).all("Resumed").iter().filter(|one| one["turn"] == "a.1").count();
    let branch = if travel == Travel::Return { env.branch() } else { format!("{}--r1", env.branch()) };
    let nodes = story(travel.root());
    let path = nodes.all("NodeExecution").iter().map(|node| node["node_id"].as_str().unwrap().to_owned()).collect();
    Result {
        tree: env.git(&["rev-parse", &format!("{branch}^{{tree}}")]),
        turns: contexts.iter().map(|context| env.turns_of(context)).collect(),
        returns: contexts.iter().map(back).collect(),
        path,
        worktrees: env.git(&["worktree", "list"]).lines().count(),
    }
}

/// The arguments of a command about the only session.
fn about(env: &TestEnv, words: &[&str], run: &str) -> Vec<String> {
    let session = if run == "main" { env.session() } else { format!("{}/{run}", env.session()) };
    let mut args = vec!["-y".to_owned(), words[0].to_owned(), session];
    args.extend(words[1..].iter().map(|word| (*word).to_owned()));
    args
}

fn pleach(env: &TestEnv, args: &[String]) -> crate::support::Ran {
    env.pleach(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

fn expected(travel: Travel) -> Result {
    let env = failed();
    pleach(&env, &about(&env, travel.begin(), "main")).expect(0);
    result(&env, travel)
}

/// Dies at a crash point, and goes on. Returns whether it died.
fn crash_at(travel: Travel, point: &str, expected: &Result) -> bool {
    let env = failed();
    let begin = about(&env, travel.begin(), "main");
    let begin: Vec<&str> = begin.iter().map(String::as_str).collect();
    let ran = env.command(&begin).env("PLEACH_CRASH", point).output().expect("pleach starts");
    if ran.status.success() {
        return false;
    }
    for _ in 0..3 {
        env.assert_no_process_left();
        let is_over = travel.has_begun(&env)
            && Story::in_context(&env, &env.repo_path(), &env.session(), travel.root()).kinds().last()
                == Some(&"PipelineCompleted");
        if is_over {
            break;
        }
        let again = if travel.has_begun(&env) {
            about(&env, &["resume"], travel.root())
        } else {
            about(&env, travel.begin(), "main")
        };
        pleach(&env, &again).expect(0);
    }
    assert_eq!(&result(&env, travel), expected, "after dying at {point}");
    env.assert_no_process_left();
    assert_eq!(env.git(&["fsck", "--strict", "--no-dangling"]), "", "after dying at {point}");
    true
}

fn some_points(travel: Travel) {
    let expected = expected(travel);
    for point in
        ["object-write:after:3", "ref-swap:before:1", "ref-swap:after:1", "ref-swap:after:2", "ref-swap:before:4"]
    {
        assert!(crash_at(travel, point, &expected), "it never came to {point}");
    }
}

#[test]
fn a_return_survives_every_kind_of_crash() {
    some_points(Travel::Return);
}

#[test]
fn options_of_a_replay_survive_every_crash() {
    some_points(Travel::Replay);
}

fn sweep(travel: Travel) {
    let expected = expected(travel);
    let env = failed();
    let trace = env.root().join("trace");
    let begin = about(&env, travel.begin(), "main");
    let begin: Vec<&str> = begin.iter().map(String::as_str).collect();
    let run = env.command(&begin).env("PLEACH_CRASH_TRACE", &trace).output().expect("pleach starts");
    assert!(run.status.success());
    let total = env.read("trace").lines().count();
    let mut died = 0;
    for number in 1..=total {
        died += usize::from(crash_at(travel, &format!("any:{number}"), &expected));
        if number % 25 == 0 {
            println!("{number} of {total} points");
        }
    }
    println!("survived {died} of {total} points");
    assert!(died > total * 9 / 10, "too few points were reached: {died} of {total}");
}

/// Dies at every point of a return. Run by `cargo xtask crash-sweep return`.
#[test]
#[ignore = "takes minutes: every crash point of a return, one run and one resume each"]
fn sweep_of_a_return() {
    sweep(Travel::Return);
}

/// Dies at every point of a replay. Run by `cargo xtask crash-sweep replay`.
#[test]
#[ignore = "takes minutes: every crash point of a replay, one run and one resume each"]
fn sweep_of_a_replay() {
    sweep(Travel::Replay);
}
