//! A made history in which it is known of every line who wrote it: runs that landed in every way there is, with people's
//! commits among them.

use std::collections::{BTreeMap, BTreeSet};

use git::record::entries::{entry_ref, write_state};
use git::record::{Batch, Recorder};
use git::{CommitSpec, Durability, EntryKind, Person, RefUpdate, Repo, TreeEdit};
use jiff::Timestamp;
use pleach_core::event::Recorded;
use pleach_core::ids::{BASE32, BranchName, CROCKFORD, CommitId, ContextId, EntryId, RepoName, RepoPath, SessionId};
use pleach_core::queue::{EntryLanding, EntryState, QueueEntry};
use pleach_core::redact::Redactor;
use pleach_core::trailer::{CommitMessage, TurnFacts};
use serde_json::{Value, json};

/// Who wrote a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Author {
    /// A turn, as `SESSION/main.3`.
    Turn(String),
    /// A person.
    Person,
    /// Many lines say the same, so no diff can tell them apart.
    Anybody,
}

/// How a run lands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Forward,
    Merge,
    Copies,
    Steps,
    Resolved,
    ResolvedCopies,
    NamedSquash,
    ForgeSquash,
    Squash,
    FanIn,
    Return,
    Restart,
    Undo,
    OwnCommits,
    Rename,
}

pub const WAYS: [Way; 15] = [
    Way::Forward,
    Way::Merge,
    Way::Copies,
    Way::Steps,
    Way::Resolved,
    Way::ResolvedCopies,
    Way::NamedSquash,
    Way::ForgeSquash,
    Way::Squash,
    Way::FanIn,
    Way::Return,
    Way::Restart,
    Way::Undo,
    Way::OwnCommits,
    Way::Rename,
];

/// Files by name, each with its lines by number.
pub type Files = BTreeMap<String, Vec<usize>>;

/// A change that can be made to other files as well.
#[derive(Debug, Clone)]
struct Edit {
    file: String,
    after: Option<usize>,
    removed: Vec<usize>,
    inserted: Vec<usize>,
}

/// The history.
pub struct AuthoredHistory {
    pub repo: Repo,
    /// The files of the newest commit.
    pub files: Files,
    /// The newest commit.
    pub tip: CommitId,
    /// What each line says, and who wrote it.
    pub lines: Vec<(String, Author)>,
    /// The lines that came by a squash that names no run.
    pub squashed: BTreeSet<usize>,
    name: RepoName,
    random: u64,
    seconds: i64,
    sessions: u64,
    entries: u64,
}

/// A run at work.
struct Run {
    session: SessionId,
    base: CommitId,
    started: Files,
    files: Files,
    tip: CommitId,
    edits: Vec<Edit>,
    turns: u64,
    /// Its turns' commits with the files then.
    made: Vec<(CommitId, Files)>,
    /// The commits that are on its branch.
    branch: Vec<(CommitMessage, Person, Vec<Edit>, i64)>,
    recorder: Recorder,
}

impl AuthoredHistory {
    /// Begins with some files of a person's, on the only commit of a repository.
    pub fn begin(repo: Repo, name: &str, seed: u64, files: &[(&str, usize)]) -> Self {
        let mut made = Self {
            repo: repo.with_durability(Durability::None),
            files: Files::new(),
            tip: CommitId::from_bytes([0; 20]),
            lines: Vec::new(),
            squashed: BTreeSet::new(),
            name: RepoName::new(name).unwrap(),
            random: seed | 1,
            seconds: 1_760_000_000,
            sessions: 0,
            entries: 0,
        };
        for (file, lines) in files {
            let all = (0..*lines).map(|_| made.line(Author::Person)).collect();
            made.files.insert((*file).to_owned(), all);
        }
        let files = made.files.clone();
        let first = made.repo.head().unwrap().commit;
        made.tip = made.commit(&files, &[first], &ada(), "Begin\n");
        made.move_main(Some(first));
        made
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % bound as u64) as usize
    }

    fn line(&mut self, author: Author) -> usize {
        let number = self.lines.len();
        if self.below(12) == 0 {
            let text = ["}", "", "    return x;"][self.below(3)].to_owned();
            self.lines.push((text, Author::Anybody));
        } else {
            self.lines.push((format!("    let value_{number} = {};", number * 7), author));
        }
        number
    }

    pub fn text(&self, lines: &[usize]) -> String {
        lines.iter().map(|line| format!("{}\n", self.lines[*line].0)).collect()
    }

    fn commit(&mut self, files: &Files, parents: &[CommitId], author: &Person, message: &str) -> CommitId {
        self.seconds += 60;
        self.commit_at(files, parents, author, message, self.seconds)
    }

    fn commit_at(&mut self, files: &Files, parents: &[CommitId], author: &Person, message: &str, at: i64) -> CommitId {
        let mut writer = self.repo.writer();
        let mut edits = Vec::new();
        for (name, lines) in files {
            let blob = writer.blob(self.text(lines).as_bytes()).unwrap();
            edits.push(TreeEdit::Put(RepoPath::from(name.as_str()), EntryKind::File, blob));
        }
        let tree = writer.tree(None, &edits).unwrap();
        let commit = writer.commit(&CommitSpec {
            tree,
            parents: parents.to_vec(),
            author: author.clone(),
            committer: Person::pleach(),
            at: Timestamp::from_second(at).unwrap(),
            message: message.as_bytes().to_vec(),
        });
        writer.flush().unwrap();
        commit.unwrap()
    }

    fn move_main(&self, old: Option<CommitId>) {
        let new = Some(self.tip);
        let update = RefUpdate { name: "refs/heads/main".into(), old, new };
        self.repo.refs().swap_all(&[update], "made").unwrap();
    }

    fn land(&mut self, commit: CommitId, files: Files) {
        let old = self.tip;
        (self.tip, self.files) = (commit, files);
        self.move_main(Some(old));
    }

    /// A few changes of somebody's to some files.
    fn edits(&mut self, files: &Files, author: &Author, most: usize) -> Vec<Edit> {
        let count = 1 + self.below(most);
        let names: Vec<String> = files.keys().cloned().collect();
        let mut edits = Vec::new();
        for _ in 0..count {
            let file = names[self.below(names.len())].clone();
            let lines = &files[&file];
            let at = self.below(lines.len().max(1));
            let removed = lines.get(at + 1..(at + 1 + self.below(3)).min(lines.len())).unwrap_or_default().to_vec();
            let inserted = (0..1 + self.below(6)).map(|_| self.line(author.clone())).collect();
            edits.push(Edit { file, after: lines.get(at).copied(), removed, inserted });
        }
        edits
    }

    /// A commit of a person on the newest one.
    pub fn person(&mut self) {
        let files = self.files.clone();
        let edits = self.edits(&files, &Author::Person, 2);
        let files = applied(&files, &edits);
        let commit = self.commit(&files, &[self.tip], &ada(), "Tidy up\n");
        self.land(commit, files);
    }

    /// A person gives a file another name.
    fn rename(&mut self) {
        let mut files = self.files.clone();
        let names: Vec<String> = files.keys().cloned().collect();
        let old = &names[self.below(names.len())];
        let lines = files.remove(old).unwrap();
        files.insert(format!("moved/m{}.rs", self.lines.len()), lines);
        let commit = self.commit(&files, &[self.tip], &ada(), "Move a file\n");
        self.land(commit, files);
    }

    fn start(&mut self, base: CommitId, files: &Files) -> Run {
        self.sessions += 1;
        let session = id(self.sessions, BASE32, 8).parse::<SessionId>().unwrap();
        let redactor = Redactor::new([("", ""); 0]);
        let mut recorder = Recorder::create(self.repo.clone(), session.clone(), ContextId::main(), redactor);
        let started = json!({
            "name": "made", "goal": "", "dot": "", "dot_path": "", "files": {}, "inputs": {}, "config": {},
            "base": {self.name.as_str(): base}, "branches": {self.name.as_str(): format!("pleach/made/{session}")},
        });
        let node = self.node(base);
        self.record(&mut recorder, &[("PipelineStarted", started), ("NodeStarted", node)], &[]);
        let (started, files) = (files.clone(), files.clone());
        Run {
            session,
            base,
            started,
            files,
            tip: base,
            edits: Vec::new(),
            turns: 0,
            made: Vec::new(),
            branch: Vec::new(),
            recorder,
        }
    }

    fn node(&self, base: CommitId) -> Value {
        let base = json!({self.name.as_str(): base});
        json!({"node_id": "work", "visit": 1, "attempt": 1, "handler": "codergen", "base": base})
    }

    fn record(&self, recorder: &mut Recorder, events: &[(&str, Value)], work: &[CommitId]) {
        let at = Timestamp::from_second(self.seconds).unwrap();
        let event = |(kind, data): &(&str, Value)| {
            let kind = format!("dev.orchestra.{kind}");
            Recorded::from_json(json!({"type": kind, "version": 1, "at": at.to_string(), "data": data})).unwrap()
        };
        let events = events.iter().map(event).collect();
        let batch = Batch { summary: "made".into(), events, work: work.to_vec(), ..Batch::default() };
        recorder.append(self.repo.writer(), &batch).unwrap();
    }

    fn turn(&mut self, run: &mut Run, context: &str, most: usize) {
        run.turns += 1;
        let turn = format!("{context}.{}", run.turns);
        let author = Author::Turn(format!("{}/{turn}", run.session));
        let edits = self.edits(&run.files, &author, most);
        self.turn_of(run, &turn, edits);
    }

    fn turn_of(&mut self, run: &mut Run, turn: &str, edits: Vec<Edit>) {
        self.turn_with(run, turn, edits, None);
    }

    /// A turn in which the agent makes commits itself, the last change uncommitted.
    fn turn_with_own_commits(&mut self, run: &mut Run, most: usize) {
        run.turns += 1;
        let turn = format!("main.{}", run.turns);
        let author = Author::Turn(format!("{}/{turn}", run.session));
        let (mut own, mut files, mut all) = (run.tip, run.files.clone(), Vec::new());
        for _ in 0..2 {
            let edits = self.edits(&files, &author, most);
            files = applied(&files, &edits);
            own = self.commit(
                &files.clone(),
                &[own],
                &ada(),
                "My own\n\nCo-authored-by: Claude <noreply@anthropic.com>\n",
            );
            all.extend(edits);
        }
        all.extend(self.edits(&files, &author, most));
        self.turn_with(run, &turn, all, Some(own));
    }

    fn turn_with(&mut self, run: &mut Run, turn: &str, edits: Vec<Edit>, own: Option<CommitId>) {
        run.files = applied(&run.files, &edits);
        let facts = TurnFacts {
            model: "m".into(),
            provider: "p".into(),
            node: "work".parse().unwrap(),
            pipeline: "made".parse().unwrap(),
            session: run.session.clone(),
            turn: turn.parse().unwrap(),
        };
        let message = CommitMessage {
            subject: format!("Do {turn}"),
            body: "As it was asked.".into(),
            trailers: facts.trailers(),
        };
        let author = Person::new("work (m)", "orchestra@local");
        let parents: Vec<CommitId> = [run.tip].into_iter().chain(own).collect();
        run.tip = self.commit(&run.files.clone(), &parents, &author, &message.write());
        run.edits.extend(edits.clone());
        run.made.push((run.tip, run.files.clone()));
        run.branch.push((message, author, edits, self.seconds));
        let data = json!({
            "turn": turn, "turn_number": run.turns, "node_id": "work", "visit": 1, "attempt": 1, "agent": "builtin",
            "model": "m", "provider": "p", "messages": null, "tool_calls": [], "files_written": {},
            "token_usage": {"input": 1, "cache_read": 0, "cache_write": 0, "output": 1, "reasoning": 0},
            "cost_usd": null, "git_sha": {self.name.as_str(): run.tip}, "commit_message": null, "boundary": "exact",
            "agent_state_ref": null,
        });
        self.record(&mut run.recorder, &[("AgentTurn", data)], &[run.tip]);
    }

    /// The commits of a branch once more, on the newest commit.
    fn copied(&mut self, run: &Run) -> (CommitId, Files) {
        let (mut tip, mut files) = (self.tip, self.files.clone());
        for (message, author, edits, at) in &run.branch {
            files = applied(&files, edits);
            tip = self.commit_at(&files.clone(), &[tip], author, &message.write(), *at);
        }
        (tip, files)
    }

    fn entry(&mut self, run: &Run, edit: impl Fn(&mut QueueEntry)) -> EntryId {
        self.entries += 1;
        let id = EntryId::new(id(self.entries, CROCKFORD, 26)).unwrap();
        let at = Timestamp::from_second(self.seconds).unwrap();
        let mut entry = QueueEntry::new(id.clone(), run.tip, main(), self.name.clone(), at);
        entry.session = Some(run.session.clone());
        entry.state = EntryState::Landed;
        edit(&mut entry);
        let mut writer = self.repo.writer();
        let at = write_state(&mut writer, &entry, None, None, std::iter::empty()).unwrap();
        writer.flush().unwrap();
        let update = RefUpdate { name: entry_ref(&main(), &id), old: None, new: Some(at) };
        self.repo.refs().swap_all(&[update], "made").unwrap();
        id
    }

    /// The step of a task: what its turns have done since the last, as one commit.
    pub fn step(&mut self, run_of: &mut TaskRun, turns: usize, most: usize) {
        let run = &mut run_of.run;
        let (before, edits) = (run_of.step, run.edits.len());
        let node = self.node(before);
        self.record(&mut run.recorder, &[("NodeStarted", node)], &[]);
        for _ in 0..turns {
            self.turn(run, "main", most);
        }
        let edits = run.edits[edits..].to_vec();
        let subject = format!("task(main@T{}@implement-pass): implement \"Part\"", self.sessions);
        let trailers =
            [("Arborist-Step", "implement"), ("Arborist-Result", "pass"), ("Pleach-Session", run.session.as_str())];
        let trailers: Vec<(String, String)> = trailers.map(|(key, value)| (key.into(), value.into())).into();
        let message = CommitMessage { subject, body: format!("Said {}.", run.turns), trailers };
        let step = self.commit(&run.files.clone(), &[before], &Person::pleach(), &message.write());
        let tree = self.repo.tree_of(step).unwrap().to_string();
        let data = json!({
            "repo": self.name, "task": "T1", "step": "implement", "status": "implement-pass", "attempt": 0,
            "parent": before, "tree": tree, "subject": message.subject, "body": message.body,
            "trailers": message.trailers, "date": Timestamp::from_second(self.seconds).unwrap().to_string(),
            "git_sha": step, "code": tree,
        });
        self.record(&mut run.recorder, &[("StepFinished", data)], &[step]);
        run_of.step = step;
        run_of.steps.push((message, Person::pleach(), edits, self.seconds));
        // The next turns go on from the step.
        run.tip = step;
    }

    pub fn task(&mut self) -> TaskRun {
        let (tip, files) = (self.tip, self.files.clone());
        let run = self.start(tip, &files);
        TaskRun { step: tip, run, steps: Vec::new() }
    }

    /// The steps of a task land: as they are, or as copies where the target has moved.
    pub fn land_steps(&mut self, mut task: TaskRun) {
        task.run.branch = std::mem::take(&mut task.steps);
        let is_current = self.tip == task.run.base;
        let (commit, files) = if is_current { (task.step, task.run.files.clone()) } else { self.copied(&task.run) };
        self.land(commit, files);
    }

    /// A run of some turns that lands in some way.
    pub fn run(&mut self, way: Way, turns: usize, most: usize) {
        if way == Way::Rename {
            return self.rename();
        }
        if way == Way::Steps {
            let mut task = self.task();
            for _ in 0..2 {
                self.step(&mut task, turns.div_ceil(2), most);
            }
            if self.below(2) == 0 {
                self.person();
            }
            return self.land_steps(task);
        }
        let (base, files) = (self.tip, self.files.clone());
        let mut run = self.start(base, &files);
        for number in 0..turns {
            self.turn(&mut run, "main", most);
            match way {
                Way::OwnCommits if number == 1 => self.turn_with_own_commits(&mut run, most),
                Way::FanIn if number == 0 => self.fan_in(&mut run, most),
                Way::Return if number == 2 => self.back(&mut run, true),
                Way::Restart if number == 2 => self.back(&mut run, false),
                _ => {}
            }
        }
        self.land_run(way, run);
    }

    /// Two runs that have come to the same, and a squash of one of them: nobody knows which.
    pub fn twins(&mut self) {
        let (base, files) = (self.tip, self.files.clone());
        let edits = self.edits(&files, &Author::Person, 3);
        let mut runs = [self.start(base, &files), self.start(base, &files)];
        for run in &mut runs {
            run.turns += 1;
            self.turn_of(run, "main.1", edits.clone());
        }
        let files = applied(&files, &edits);
        let commit = self.commit(&files, &[base], &ada(), "One of them\n");
        self.land(commit, files);
    }

    /// Two runs that change the same line, merged word by word: the number of that line in its file, and both turns.
    pub fn merged_word_by_word(&mut self) -> (String, usize, [String; 2]) {
        let (base, files) = (self.tip, self.files.clone());
        let (file, lines) = files.iter().next().map(|(file, lines)| (file.clone(), lines.clone())).unwrap();
        let change = |removed, inserted| Edit { file: file.clone(), after: Some(lines[0]), removed, inserted };
        let mut runs = [self.start(base, &files), self.start(base, &files)];
        for run in &mut runs {
            run.turns += 1;
            self.lines.push((format!("    one of {}", run.session), Author::Anybody));
            self.turn_of(run, "main.1", vec![change(vec![lines[1]], vec![self.lines.len() - 1])]);
        }
        self.lines.push(("    of both".to_owned(), Author::Anybody));
        let (both, ours) = (self.lines.len() - 1, runs[0].edits[0].inserted.clone());
        let merged = applied(&runs[0].files, &[change(ours, vec![both])]);
        self.land(runs[0].tip, runs[0].files.clone());
        let id = self.entry(&runs[1], |_| {});
        let text = format!("merge: made\n\nPleach-Merge: {id}\nPleach-Tier: tokens\n");
        let commit = self.commit(&merged, &[runs[0].tip, runs[1].tip], &Person::pleach(), &text);
        self.land(commit, merged);
        let at = self.files[&file].iter().position(|line| *line == both).unwrap();
        (file, at + 1, runs.map(|run| format!("{}/main.1", run.session)))
    }

    /// Goes back to an earlier turn, or to where the node began.
    fn back(&mut self, run: &mut Run, returns: bool) {
        let (to, files) = if returns { run.made[0].clone() } else { (run.base, run.started.clone()) };
        let session = ("Orchestra-Session".to_owned(), run.session.to_string());
        let trailers = [session].into_iter().chain(returns.then(|| ("Pleach-Returns".to_owned(), "main.1".to_owned())));
        let subject =
            if returns { "Return to main.1".to_owned() } else { "Restore the files `work` began with".to_owned() };
        let message = CommitMessage { subject, body: String::new(), trailers: trailers.collect() };
        // Older ones have one parent.
        let with_second = returns && self.below(2) == 0;
        let parents: Vec<CommitId> = [run.tip].into_iter().chain(with_second.then_some(to)).collect();
        run.tip = self.commit(&files, &parents, &Person::pleach(), &message.write());
        run.edits.truncate(if returns { run.branch[0].2.len() } else { 0 });
        run.branch.truncate(usize::from(returns));
        run.files = files;
    }

    /// Two branches of a run, joined.
    fn fan_in(&mut self, run: &mut Run, most: usize) {
        let (fork, forked) = (run.tip, run.files.clone());
        let from = run.recorder.tip().unwrap();
        let (turns, mut tips) = (run.turns, Vec::new());
        for name in ["left", "right"] {
            let context: ContextId = name.parse().unwrap();
            let forked_recorder = run.recorder.fork(context, from, 0);
            let recorder = std::mem::replace(&mut run.recorder, forked_recorder);
            (run.tip, run.files, run.turns) = (fork, forked.clone(), 0);
            let edits = run.edits.len();
            self.turn(run, name, most);
            tips.push((run.tip, run.edits[edits..].to_vec()));
            run.recorder = recorder;
        }
        (run.tip, run.files, run.turns) = (fork, forked, turns);
        for (number, (tip, edits)) in tips.into_iter().enumerate() {
            run.files = applied(&run.files, &edits);
            if number == 0 {
                run.tip = tip;
                continue;
            }
            let trailers = [
                ("Orchestra-Node", "join"),
                ("Orchestra-Pipeline", "made"),
                ("Orchestra-Session", run.session.as_str()),
            ];
            let trailers = trailers.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
            let message = CommitMessage { subject: "Merge branch right".into(), body: String::new(), trailers };
            run.tip = self.commit(&run.files.clone(), &[run.tip, tip], &Person::pleach(), &message.write());
            let data = json!({"repo": self.name, "context": "right", "git_sha": run.tip});
            self.record(&mut run.recorder, &[("WorktreeMerged", data)], &[run.tip]);
        }
        run.made.push((run.tip, run.files.clone()));
    }

    fn land_run(&mut self, way: Way, mut run: Run) {
        let moved = match way {
            Way::Forward => false,
            // A file that others have changed as well is that of no run.
            Way::Squash => self.below(12) == 0,
            _ => self.below(3) > 0,
        };
        if moved {
            self.person();
        }
        let (from, files) = (self.tip, applied(&self.files, &run.edits));
        let merge = |id: &EntryId, tier: &str, act: &str| {
            CommitMessage {
                subject: format!("{act}: made"),
                body: String::new(),
                trailers: vec![("Pleach-Merge".into(), id.to_string()), ("Pleach-Tier".into(), tier.into())],
            }
            .write()
        };
        match way {
            Way::Copies => {
                let (tip, files) = self.copied(&run);
                self.land(tip, files);
            }
            Way::NamedSquash | Way::ForgeSquash => {
                let mut text = String::from("All of it\n\n");
                for (message, ..) in &run.branch {
                    let indent = if way == Way::NamedSquash { "    " } else { "" };
                    text.push_str(&message.write().lines().map(|line| format!("{indent}{line}\n")).collect::<String>());
                    text.push('\n');
                }
                let extra = self.edits(&files, &Author::Person, 1);
                let files = applied(&files, &extra);
                let commit = self.commit(&files, &[from], &ada(), &text);
                self.land(commit, files);
            }
            Way::Squash => {
                let own = run.edits.iter().flat_map(|edit| edit.inserted.iter().copied());
                self.squashed.extend(own.collect::<Vec<_>>());
                let commit = self.commit(&files, &[from], &ada(), "Make it so (#7)\n");
                self.land(commit, files);
            }
            Way::Resolved | Way::ResolvedCopies => {
                // Somebody resolves a conflict: an agent, in a session of its own.
                let marked = self.commit(&files, &[from], &Person::pleach(), "conflict\n");
                let mut resolver = self.start(marked, &files);
                self.turn(&mut resolver, "main", 2);
                let (session, base) = (resolver.session.clone(), run.base);
                let is_copy = way == Way::ResolvedCopies;
                let id = self.entry(&run, |entry| {
                    entry.resolver = Some(session.clone());
                    entry.base = is_copy.then_some(base);
                });
                let text = merge(&id, "agent", if is_copy { "resolve" } else { "merge" });
                let parents = if is_copy { vec![from] } else { vec![from, run.tip] };
                let commit = self.commit(&resolver.files, &parents, &Person::pleach(), &text);
                self.land(commit, resolver.files);
            }
            Way::Undo => {
                let to = self.commit(&files, &[from, run.tip], &Person::pleach(), "merge: made\n");
                let landing = EntryLanding { from, to };
                let id = self.entry(&run, |entry| entry.landing = Some(landing));
                let before = self.files.clone();
                self.land(to, files);
                let text = format!("Revert \"made\"\n\nPleach-Undoes: {id}\n");
                let commit = self.commit(&before, &[to], &Person::pleach(), &text);
                self.land(commit, before);
            }
            _ if self.tip == run.base => {
                let (tip, files) = (run.tip, std::mem::take(&mut run.files));
                self.land(tip, files);
            }
            _ => {
                let id = self.entry(&run, |_| {});
                let commit = self.commit(&files, &[from, run.tip], &Person::pleach(), &merge(&id, "clean", "merge"));
                self.land(commit, files);
            }
        }
    }
}

/// A task at work.
pub struct TaskRun {
    run: Run,
    step: CommitId,
    steps: Vec<(CommitMessage, Person, Vec<Edit>, i64)>,
}

fn ada() -> Person {
    Person::new("Ada", "ada@example.org")
}

fn main() -> BranchName {
    BranchName::new("main").unwrap()
}

/// A number as an id.
fn id(number: u64, alphabet: &[u8], length: usize) -> String {
    let (mut text, mut rest) = (vec![alphabet[0]; length], number);
    for place in text.iter_mut().rev() {
        *place = alphabet[(rest % 32) as usize];
        rest /= 32;
    }
    String::from_utf8(text).unwrap()
}

/// Files with some changes made. What was there to begin with may be in another file by now, or gone.
fn applied(files: &Files, edits: &[Edit]) -> Files {
    let mut files = files.clone();
    for edit in edits {
        let known = edit
            .after
            .iter()
            .chain(&edit.removed)
            .find_map(|line| files.iter().find(|(_, lines)| lines.contains(line)).map(|(name, _)| name.clone()));
        let name = known.unwrap_or_else(|| edit.file.clone());
        let lines = files.entry(name).or_default();
        lines.retain(|line| !edit.removed.contains(line));
        let at = edit.after.and_then(|after| lines.iter().position(|line| *line == after));
        let at = at.map_or(lines.len(), |at| at + 1);
        lines.splice(at..at, edit.inserted.iter().copied());
    }
    files
}
