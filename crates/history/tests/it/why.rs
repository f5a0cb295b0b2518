//! Every line of made histories, and what is said of it.

use std::io::Write as _;
use std::path::Path;

use git::Repo;
use history::why::{FileStart, Origin, WhyGround, WhyOptions, why_file};
use pleach_core::config::Environment;
use pleach_core::ids::{RepoName, RepoPath};

use crate::authored_history::{Author, AuthoredHistory, WAYS};
use crate::real_git;

/// A repository with an empty commit.
fn empty(dir: &Path) -> Repo {
    git(dir, &["init", "-q", "-b", "main"]);
    git(dir, &["commit", "-q", "--allow-empty", "-m", "Begin"]);
    git::discover(dir, &Environment::from_pairs([("HOME", dir.to_str().unwrap()), ("PATH", &path())])).unwrap()
}

/// What git prints.
fn git(dir: &Path, args: &[&str]) -> String {
    let name = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
    let done = real_git::command().args(name).args(args).current_dir(dir).env("HOME", dir).output().unwrap();
    assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the one variable the tests take over: where git is")]
fn path() -> String {
    std::env::var("PATH").unwrap()
}

/// How many lines of agents there are, how many are said to be of their turn, and which are said to be of another.
#[derive(Debug, Default)]
struct Score {
    of_agents: usize,
    on_turn: usize,
    squashed: usize,
    squashed_on_turn: usize,
    wrong: Vec<String>,
    missed: Vec<String>,
}

fn score(made: &AuthoredHistory) -> Score {
    let name = RepoName::new("made").unwrap();
    let ground = WhyGround::new(made.repo.clone(), name, made.repo.clone());
    let mut score = Score::default();
    for (file, lines) in &made.files {
        let start = FileStart::at(&made.repo, made.tip, RepoPath::from(file.as_str())).unwrap();
        let why = why_file(&ground, &start, &WhyOptions::default()).unwrap();
        assert!(why.unread.is_empty(), "{:?}", why.unread);
        assert_eq!(why.lines.iter().map(|line| line.last - line.first + 1).sum::<u32>() as usize, lines.len());
        for of in &why.lines {
            for number in of.first..=of.last {
                let line = lines[number as usize - 1];
                let (text, author) = &made.lines[line];
                let told = format!("{file}:{number} `{}` {author:?} is said to be {of:?}", text.trim());
                let is_squashed = made.squashed.contains(&line);
                match author {
                    Author::Anybody => {}
                    Author::Person if of.turn.is_some() => score.wrong.push(told),
                    Author::Person => {}
                    Author::Turn(_) if of.turn.is_none() => {
                        score.of_agents += usize::from(!is_squashed);
                        score.squashed += usize::from(is_squashed);
                        score.missed.push(told);
                    }
                    Author::Turn(turn) if of.turn.as_ref() != Some(turn) || of.origin != Origin::Turn => {
                        score.wrong.push(told);
                    }
                    Author::Turn(_) if is_squashed => {
                        (score.squashed, score.squashed_on_turn) = (score.squashed + 1, score.squashed_on_turn + 1);
                    }
                    Author::Turn(_) => (score.of_agents, score.on_turn) = (score.of_agents + 1, score.on_turn + 1),
                }
            }
        }
    }
    score
}

/// With `PLEACH_WHY_SESSIONS=100` as many runs as that.
#[test]
#[expect(clippy::disallowed_methods, reason = "the tests are asked for more, not the program")]
fn every_line_of_a_generated_history() {
    let sessions = std::env::var("PLEACH_WHY_SESSIONS").ok().and_then(|count| count.parse().ok());
    let dir = tempfile::tempdir().unwrap();
    let mut made = AuthoredHistory::begin(empty(dir.path()), "made", 0x9e37_79b9, 90);
    for number in 0..sessions.unwrap_or(WAYS.len()) {
        made.run(WAYS[number % WAYS.len()], 4, 2);
        if number % 3 == 0 {
            made.person();
        }
    }
    let score = score(&made);
    let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
    let told = format!(
        "{} of {} lines on their turn, {} of {} in squashes without a hint, {} wrong",
        score.on_turn,
        score.of_agents,
        score.squashed_on_turn,
        score.squashed,
        score.wrong.len()
    );
    if sessions.is_some() {
        writeln!(std::io::stderr(), "{told}").unwrap();
    }
    assert!(score.wrong.is_empty(), "{told}: {:#?}", score.wrong);
    assert!(score.of_agents > 100 && score.squashed > 5, "too few lines: {told}");
    assert!(share(score.on_turn, score.of_agents) >= 0.995, "{told}: {:#?}", score.missed);
    assert!(share(score.squashed_on_turn, score.squashed) >= 0.9, "{told}: {:#?}", score.missed);
}
