//! Every line of made histories, and what is said of it.

use std::io::Write as _;
use std::path::Path;

use git::{EntryKind, Repo, TreeEdit};
use history::why::{CommitKind, FileStart, FileWhy, LineRange, Origin, WhyGround, WhyOptions, why_commit, why_file};
use pleach_core::config::Environment;
use pleach_core::ids::{CommitId, RepoName, RepoPath};

use crate::authored_history::{Author, AuthoredHistory, WAYS, Way};
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

impl Score {
    fn add(&mut self, other: Self) {
        self.of_agents += other.of_agents;
        self.on_turn += other.on_turn;
        self.squashed += other.squashed;
        self.squashed_on_turn += other.squashed_on_turn;
        self.wrong.extend(other.wrong);
        self.missed.extend(other.missed);
    }

    fn told(&self) -> String {
        let Self { of_agents, on_turn, squashed, squashed_on_turn, wrong, .. } = self;
        format!(
            "{on_turn} of {of_agents} lines on their turn, {squashed_on_turn} of {squashed} in squashes without a hint, {} wrong",
            wrong.len()
        )
    }
}

/// Compares what is said of each line with who wrote it.
fn score(made: &AuthoredHistory, all: &[FileWhy]) -> Score {
    let mut score = Score::default();
    for (why, (file, lines)) in all.iter().zip(&made.files) {
        assert_eq!(why.lines.iter().map(|line| line.last - line.first + 1).sum::<u32>() as usize, lines.len());
        for (of, number) in why.lines.iter().flat_map(|of| (of.first..=of.last).map(move |number| (of, number))) {
            let line = lines[number as usize - 1];
            let (text, author) = &made.lines[line];
            let told = format!("{file}:{number} `{}` {author:?} is said to be {of:?}", text.trim());
            let (all, right) = if made.squashed.contains(&line) {
                (&mut score.squashed, &mut score.squashed_on_turn)
            } else {
                (&mut score.of_agents, &mut score.on_turn)
            };
            match (author, &of.turn) {
                (Author::Anybody, _) | (Author::Person, None) => {}
                (Author::Turn(turn), Some(told)) if turn == told => (*all, *right) = (*all + 1, *right + 1),
                (Author::Turn(_), None) => {
                    *all += 1;
                    score.missed.push(told);
                }
                (Author::Person | Author::Turn(_), Some(_)) => score.wrong.push(told),
            }
        }
    }
    score
}

/// The answer for each file of the newest commit.
fn all_files(made: &AuthoredHistory) -> Vec<FileWhy> {
    let files = made.files.keys().map(|file| why(made, file, &WhyOptions::default()));
    files.collect()
}

fn why(made: &AuthoredHistory, file: &str, options: &WhyOptions) -> FileWhy {
    let ground = WhyGround::new(made.repo.clone(), RepoName::new("made").unwrap(), made.repo.clone());
    let start = FileStart::at(&made.repo, made.tip, RepoPath::from(file)).unwrap();
    why_file(&ground, &start, options).unwrap()
}

fn made(dir: &Path, seed: u64) -> AuthoredHistory {
    AuthoredHistory::begin(empty(dir), "made", seed, &[("a.rs", 30), ("src/b.rs", 30), ("src/c.rs", 30)])
}

/// Three small histories; with `PLEACH_WHY_SESSIONS=100` one with as many runs as that.
#[test]
#[expect(clippy::disallowed_methods, reason = "the tests are asked for more, not the program")]
fn every_line_of_a_generated_history() {
    let sessions = std::env::var("PLEACH_WHY_SESSIONS").ok().and_then(|count| count.parse::<usize>().ok());
    let seeds = if sessions.is_some() { 1..2 } else { 1..4 };
    let mut all = Score::default();
    for seed in seeds {
        let dir = tempfile::tempdir().unwrap();
        let mut made = made(dir.path(), 0x9e37_79b9 * seed);
        for number in 0..sessions.unwrap_or(WAYS.len()) {
            made.run(WAYS[number % WAYS.len()], 4, 2);
            if number % 3 == 0 {
                made.person();
            }
        }
        all.add(score(&made, &all_files(&made)));
    }
    let told = all.told();
    if sessions.is_some() {
        writeln!(std::io::stderr(), "{told}").unwrap();
    }
    let share = |part: usize, of: usize| part as f64 / of.max(1) as f64;
    assert!(all.wrong.is_empty(), "{told}: {:#?}", all.wrong);
    assert!(all.of_agents > 100 && all.squashed > 5, "too few lines: {told}");
    assert!(share(all.on_turn, all.of_agents) >= 0.995, "{told}: {:#?}", all.missed);
    assert!(share(all.squashed_on_turn, all.squashed) >= 0.9, "{told}: {:#?}", all.missed);
}

#[test]
fn no_turn_is_ever_guessed() {
    let dir = tempfile::tempdir().unwrap();
    let mut made = made(dir.path(), 77);
    made.twins();
    let of_twins = score(&made, &all_files(&made));
    assert!(of_twins.wrong.is_empty(), "{:#?}", of_twins.wrong);
    // What would tell is gone: the squashes are somebody's, the steps are steps, and what is missing is said.
    for way in [Way::Squash, Way::NamedSquash, Way::Steps, Way::ResolvedCopies] {
        made.run(way, 4, 2);
    }
    let records = git(dir.path(), &["for-each-ref", "--format=delete %(refname)", "refs/pleach/"]);
    for record in records.lines() {
        git(dir.path(), &["update-ref", "-d", record.trim_start_matches("delete ")]);
    }
    let all = all_files(&made);
    let without = score(&made, &all);
    assert!(without.wrong.is_empty() && without.on_turn == 0, "{:#?}", without.wrong);
    let has = |origin| all.iter().flat_map(|why| &why.lines).any(|line| line.origin == origin);
    assert!([Origin::Step, Origin::Merge, Origin::Person].into_iter().all(has));
    assert!(all.iter().any(|why| !why.unread.is_empty()));
}

#[test]
fn why_agrees_with_git_blame_without_pleach() {
    let dir = tempfile::tempdir().unwrap();
    let mut made = made(dir.path(), 5);
    for number in 0..12 {
        made.person();
        if number == 6 {
            made.run(Way::Rename, 1, 1);
        }
    }
    for why in all_files(&made) {
        let path = why.file.to_string();
        let said = git(dir.path(), &["blame", "--porcelain", &made.tip.to_string(), "--", &path]);
        let is_head = |line: &&str| line.split(' ').next().is_some_and(|id| id.len() == 40 && !line.starts_with('\t'));
        let said: Vec<(String, u32)> = said
            .lines()
            .filter(is_head)
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .filter(|words| words[0].parse::<CommitId>().is_ok())
            .map(|words| (words[0].to_owned(), words[1].parse().unwrap()))
            .collect();
        let told = why.lines.iter().flat_map(|line| {
            assert_eq!(line.origin, Origin::Person);
            (line.first..=line.last).map(|at| (line.commit.unwrap().to_string(), line.line + at - line.first))
        });
        assert_eq!(told.collect::<Vec<_>>(), said, "{path}");
    }
}

#[test]
fn the_memo_may_be_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let mut made = made(dir.path(), 21);
    for way in [Way::Steps, Way::ResolvedCopies, Way::NamedSquash, Way::Steps] {
        made.run(way, 4, 3);
    }
    let memo = made.repo.common_dir().join("pleach/cache/why");
    let kept = || std::fs::read_dir(&memo).unwrap().map(|file| file.unwrap().path()).collect::<Vec<_>>();
    let first = all_files(&made);
    assert!(!kept().is_empty());
    assert_eq!(all_files(&made), first, "with the memo");
    for file in kept() {
        std::fs::write(file, "not what was kept").unwrap();
    }
    assert_eq!(all_files(&made), first, "what cannot be read is found again");
    std::fs::remove_dir_all(&memo).unwrap();
    assert_eq!(all_files(&made), first, "without it");
    // It answers nothing that the records would not.
    let records = git(dir.path(), &["for-each-ref", "--format=%(refname)", "refs/pleach/sessions/"]);
    for record in records.lines() {
        git(dir.path(), &["update-ref", "-d", record]);
    }
    let with = all_files(&made);
    std::fs::remove_dir_all(&memo).unwrap();
    assert_eq!(all_files(&made), with);
    assert_ne!(with, first);
}

#[test]
fn notes_of_others_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut made = made(dir.path(), 8);
    made.person();
    let tip = made.tip.to_string();
    let of_tip =
        |why: &FileWhy| why.lines.iter().filter(|line| line.commit == Some(made.tip)).cloned().collect::<Vec<_>>();
    let before: Vec<FileWhy> = all_files(&made).into_iter().filter(|why| !of_tip(why).is_empty()).collect();
    let line = &of_tip(&before[0])[0];
    let note = format!(
        "{}\n  s_0123456789abcd::t_0123456789abcd {}\n---\n{{\"sessions\":{{\"s_0123456789abcd\":{{\"agent_id\":\
         {{\"tool\":\"cursor\",\"model\":\"m\"}}}}}}}}\n",
        line.path, line.line
    );
    let noted = |made: &AuthoredHistory| {
        let told = why(made, &before[0].file.to_string(), &WhyOptions::default());
        let at = told.lines.iter().find(|told| told.first == line.first).unwrap().clone();
        (at.first, at.last, at.origin, at.agent)
    };
    git(dir.path(), &["notes", "--ref=ai", "add", "-m", &note, &tip]);
    let expected = (line.first, line.first, Origin::OtherAgent, Some("cursor (m)".to_owned()));
    assert_eq!(noted(&made), expected);
    // Where there are many notes git spreads them over directories.
    let spread = format!("{}/{}/{}", &tip[..2], &tip[2..4], &tip[4..]);
    let blob = git(dir.path(), &["rev-parse", &format!("refs/notes/ai:{tip}")]);
    let (mut writer, head) = (made.repo.writer(), made.tip);
    let put = TreeEdit::Put(RepoPath::from(spread.as_str()), EntryKind::File, blob.trim().parse().unwrap());
    let tree = writer.tree(None, &[put]).unwrap();
    writer.flush().unwrap();
    let notes = git(dir.path(), &["commit-tree", "-m", "notes", &tree.to_string()]);
    git(dir.path(), &["update-ref", "refs/notes/ai", notes.trim()]);
    assert_eq!((noted(&made), head), (expected, made.tip));
}

#[test]
fn both_sides_of_a_merged_line_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut made = made(dir.path(), 11);
    let (file, at, turns) = made.merged_word_by_word();
    let lines = Some(LineRange { first: at as u32, last: at as u32 });
    let told = why(&made, &file, &WhyOptions { lines, reasons: true, ..WhyOptions::default() });
    let [line] = &told.lines[..] else { panic!("{told:?}") };
    assert_eq!((line.origin, &line.turn, &line.sides[..]), (Origin::Merge, &None, &turns[..]));
    let merge = told.commits[&line.commit.unwrap()].merge.clone().unwrap();
    assert_eq!(merge.tier.as_deref(), Some("tokens"));
}

#[test]
fn a_commit_tells_whose_lines_it_brought() {
    let dir = tempfile::tempdir().unwrap();
    let mut made = made(dir.path(), 13);
    let mut task = made.task();
    made.step(&mut task, 3, 2);
    made.person();
    made.land_steps(task);
    let ground = WhyGround::new(made.repo.clone(), RepoName::new("made").unwrap(), made.repo.clone());
    let told = why_commit(&ground, made.tip, false).unwrap();
    assert_eq!((told.what.kind, told.turns.len()), (CommitKind::Step, 3));
    assert!(told.lines.iter().all(|lines| lines.origin == Origin::Turn), "{:#?}", told.lines);
    for lines in &told.lines {
        let text = &made.files[&lines.file.to_string()];
        for number in lines.ranges.iter().flat_map(|(first, last)| *first..=*last) {
            let author = &made.lines[text[number as usize - 1]].1;
            assert!(*author == Author::Anybody || *author == Author::Turn(lines.turn.clone().unwrap()), "{lines:?}");
        }
    }
}
