//! `pleach show`

mod step;
mod turn_text;

use clap::Args;
use engine::view::{AnswerView, Deed, Moment, TurnView, View, find_turn};
use git::{Repo, record};
use pleach_core::event::Usage;
use pleach_core::ids::{CommitId, RepoName, RunId, SessionId, TurnId};
use pleach_core::trailer::{CommitMessage, TurnFacts};
use serde_json::{Value, json};

use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_engine, of_git};
use crate::place::Place;
use crate::render::patch::shown_patch;
use crate::render::{Out, Pages, UNKNOWN, duration, session as show, tokens};
use crate::sessions::{self, SessionFilter, SessionGround};
use turn_text::TurnText;

/// Show a turn: its messages, tools, changes and cost.
///
/// A turn is named as SESSION/main.3, or main.3 or just 3 for the newest session; or by its commit. The commit of a
/// task's step shows the step and its turns. What was answered at gates right before and after the turn is told with it. Long texts are cut unless -v is given.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The turn, or a commit of one, or of a step.
    #[arg(value_name = "TURN|COMMIT")]
    what: String,
}

/// A turn with all that is known of it.
struct TurnPage {
    session: SessionId,
    /// None when only the commit is left.
    turn: Option<TurnText>,
    /// What was answered at gates since the turn before it, and until the next one.
    answers: [Vec<AnswerView>; 2],
    commits: Vec<ShownCommit>,
}

/// A commit, what its trailers say, and what it changed.
struct ShownCommit {
    /// The repository, where the session works in several.
    repo: Option<RepoName>,
    commit: CommitId,
    /// The facts of a turn from its trailers.
    facts: Option<TurnFacts>,
    patch: String,
}

pub fn run(globals: &Globals, args: ShowArgs) -> Result<Exit, Failure> {
    let ground = SessionGround::find(globals)?;
    let whole = globals.verbosity > 0;
    let (document, text) = match named_turn(&ground.place.repo, &args.what)? {
        Some((session, turn)) => of_turn(&ground, session, &turn)?.both(whole),
        None => of_commit(&ground, &args.what, whole)?,
    };
    if globals.json {
        Out::new().json(&document)?;
    } else {
        Pages::new(globals)?.text(&text)?;
    }
    Ok(Exit::Done)
}

/// The turn a text names, unless it can only be a revision.
fn named_turn(repo: &Repo, text: &str) -> Result<Option<(RunId, TurnId)>, Failure> {
    let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
    let is_turn = |text: &str| text.parse::<TurnId>().is_ok() || number(text).is_some();
    let of_run = |run: RunId, text: &str| match text.parse::<TurnId>() {
        Ok(turn) => (RunId::of_context(&run.session, &turn.context), turn),
        Err(_) => {
            let turn = TurnId { context: run.root.clone(), number: number(text).unwrap_or_default() };
            (run, turn)
        }
    };
    if let Some((session, rest)) = text.rsplit_once(['/', ':']) {
        // A branch may look like this, too.
        if !is_turn(rest) || repo.resolve(text).is_ok() {
            return Ok(None);
        }
        return Ok(Some(of_run(sessions::resolve(repo, session)?, rest)));
    }
    // The beginning of a commit's id can be all digits; no session has so many turns.
    if !is_turn(text) || text.len() >= 7 && repo.resolve(text).is_ok() {
        return Ok(None);
    }
    Ok(Some(of_run(sessions::newest(repo, SessionFilter::Any)?.run, text)))
}

fn of_turn(ground: &SessionGround, session: RunId, id: &TurnId) -> Result<TurnPage, Failure> {
    let repo = &ground.place.repo;
    sessions::check_run(repo, &session)?;
    let view = View::load(repo, &session).map_err(|error| of_engine(&error))?;
    let inherited = || {
        let (_, found) = find_turn(&ground.repos(&view.summary.started), &session, &id.to_string()).ok()??;
        view.turn(&found).filter(|turn| turn.inherited)
    };
    let Some(turn) = view.turn(id).or_else(inherited) else {
        let message = format!("session {session} has no turn {id}; it has {}", view.summary.turns);
        return Err(Failure::new(Code::NoSuchTurn, message).hint(format!("`pleach turns {session}` lists them")));
    };
    let started = &view.summary.started;
    let repos = ground.repos(started);
    let mut commits = Vec::new();
    for (name, commit) in turn.commit.iter().flatten() {
        if let Some(repo) = repos.get(name) {
            let shown = ShownCommit::read(repo, *commit)?;
            commits.push(ShownCommit { repo: started.has_several_repos().then(|| name.clone()), ..shown });
        }
    }
    let answers = answers_around(&view, &turn);
    Ok(TurnPage { session: session.session, turn: Some(TurnText::read(repo, &view, turn)?), answers, commits })
}

/// What was answered right before a turn, and right after it.
fn answers_around(view: &View, turn: &TurnView) -> [Vec<AnswerView>; 2] {
    let (mut before, mut after, mut is_past) = (Vec::new(), Vec::new(), false);
    for moment in view.timeline() {
        match moment {
            Moment::Turn(other) if other.turn == turn.turn => is_past = true,
            Moment::Turn(_) if is_past => break,
            Moment::Turn(_) => before.clear(),
            Moment::Answer(answer) if is_past => after.push(answer),
            Moment::Answer(answer) => before.push(answer),
            Moment::Failure(_) | Moment::Checkpoint(_) => {}
        }
    }
    [before, after]
}

/// A commit as JSON and as text.
fn of_commit(ground: &SessionGround, text: &str, whole: bool) -> Result<(Value, String), Failure> {
    let record = &ground.place.repo;
    let in_record = record.resolve(text);
    let elsewhere = || {
        let found = |place: Place| Some((place.repo.resolve(text).ok()?, place.repo));
        ground.others().into_iter().find_map(found)
    };
    let (id, repo) = match in_record {
        Ok(id) => (id, record.clone()),
        Err(error) => elsewhere().ok_or_else(|| match sessions::resolve(record, text) {
            Ok(session) => Failure::new(Code::NoSuchTurn, format!("`{text}` is a session, not a turn"))
                .hint(format!("`pleach turns {session}` lists its turns")),
            Err(_) => of_git(&error),
        })?,
    };
    let shown = ShownCommit::read(&repo, id)?;
    let Some(facts) = &shown.facts else {
        if let Some(step) = step::StepView::read(&repo, id, &shown.patch)? {
            return Ok((step.json(), step.text(whole)));
        }
        return Err(Failure::new(Code::NoSuchTurn, format!("commit {} is not a turn of a session", id.short()))
            .hint(format!("`git show {}` shows it", id.short())));
    };
    match View::load(record, &facts.session) {
        Ok(_) => {
            let mut page = of_turn(ground, facts.session.clone().into(), &facts.turn)?;
            // A copy of the turn's commit shows its own change.
            if !page.commits.iter().any(|of_turn| of_turn.commit == shown.commit) {
                page.commits = vec![shown];
            }
            Ok(page.both(whole))
        }
        // The commit outlives its record: it may have been removed, or never been fetched.
        Err(engine::env::Error::Record(record::Error::Missing { .. })) => {
            let session = facts.session.clone();
            Ok(TurnPage { session, turn: None, answers: Default::default(), commits: vec![shown] }.both(whole))
        }
        Err(error) => Err(of_engine(&error)),
    }
}

impl ShownCommit {
    fn read(repo: &Repo, id: CommitId) -> Result<Self, Failure> {
        let read = || {
            let commit = repo.commit(id)?;
            let patch = match repo.tree_before(&commit)? {
                Some(before) => git::diff::patch(repo, before, commit.tree, &[])?,
                None => {
                    if !commit.parents.is_empty() {
                        warning!(ShallowClone, "shallow clone: what {} changed is unknown; {UNSHALLOW}", id.short());
                    }
                    String::new()
                }
            };
            let facts = TurnFacts::read(&CommitMessage::read(&commit.text()));
            Ok(Self { repo: None, commit: id, facts, patch })
        };
        read().map_err(|error| of_git(&error))
    }
}

/// The hint to unshallow a clone.
const UNSHALLOW: &str = "`git fetch --unshallow` fetches the rest";

impl TurnPage {
    /// For programs and for people.
    fn both(&self, whole: bool) -> (Value, String) {
        (self.json(), self.text(whole))
    }

    fn json(&self) -> Value {
        let mut document = match &self.turn {
            Some(spoken) => spoken.json(),
            None => json!({"messages": null}),
        };
        document["session"] = json!(self.session);
        let [before, after] = &self.answers;
        (document["answered_before"], document["answered_after"]) = (json!(before), json!(after));
        let of_repo = |shown: &ShownCommit| json!({"repo": shown.repo, "commit": shown.commit, "patch": shown.patch});
        document["commits"] = self.commits.iter().map(of_repo).collect();
        if let Some(shown) = self.commits.first() {
            document["shown_commit"] = json!(shown.commit);
            document["patch"] = json!(shown.patch);
            if let (None, Some(facts)) = (&self.turn, &shown.facts) {
                document["turn"] = json!(facts.turn);
                document["node"] = json!(facts.node);
                document["model"] = json!(facts.model);
                document["provider"] = json!(facts.provider);
            }
        }
        document
    }

    fn text(&self, whole: bool) -> String {
        let mut text = show::fields(&self.fields());
        text.push('\n');
        text.extend(self.turn.iter().map(|spoken| spoken.text(whole)));
        for shown in self.commits.iter().filter(|shown| !shown.patch.is_empty()) {
            let at = shown.repo.as_ref().map(|repo| format!(" in {repo}")).unwrap_or_default();
            text.push_str(&format!("\n{}\n", show::heading(&format!("diff{at}"))));
            text.push_str(&shown_patch(&shown.patch));
        }
        text
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = Vec::new();
        match (&self.turn, self.commits.first().and_then(|shown| shown.facts.as_ref())) {
            (Some(spoken), _) => {
                turn_fields(&self.session, &spoken.turn, &mut fields);
                let [before, after] = &self.answers;
                fields.extend(before.iter().map(|answer| ("before", show::answer_line(answer))));
                fields.extend(after.iter().map(|answer| ("after", show::answer_line(answer))));
            }
            (None, Some(facts)) => {
                fields
                    .push(("turn", format!("{}/{} (its record is not in this repository)", self.session, facts.turn)));
                fields.push(("node", facts.node.to_string()));
                fields.push(("model", format!("{} ({})", facts.model, facts.provider)));
            }
            (None, _) => {}
        }
        for shown in &self.commits {
            let prefix = shown.repo.as_ref().map(|repo| format!("{repo} ")).unwrap_or_default();
            fields.push(("commit", format!("{prefix}{}", shown.commit)));
        }
        fields
    }
}

fn turn_fields(session: &SessionId, turn: &TurnView, fields: &mut Vec<(&'static str, String)>) {
    fields.push(("turn", format!("{session}/{}", turn.turn)));
    fields.push(("node", show::node(turn)));
    match &turn.deed {
        Deed::Agent { agent, model, provider, tokens: usage, cost_usd, unbilled, .. } => {
            fields.push(("agent", format!("{agent}, {model} ({provider})")));
            fields.push(("tokens", spent(usage, *cost_usd, *unbilled)));
        }
        Deed::Tool { command, exit, duration_ms } => {
            fields.push(("command", command.clone()));
            let took = duration(std::time::Duration::from_millis(*duration_ms));
            fields.push(("ended", format!("{exit} after {took}")));
        }
    }
    fields.extend(turn.failure.as_ref().map(|failure| ("failed", failure.in_words())));
    fields.push(("at", turn.at.to_string()));
    let files: Vec<String> = show::files(&turn.files);
    if !files.is_empty() {
        fields.push(("files", files.join("\n")));
    }
    if let Some(message) = &turn.message {
        fields.push(("message", message.trim().to_owned()));
    }
}

fn spent(usage: &Usage, cost_usd: Option<f64>, unbilled: bool) -> String {
    let cost = match cost_usd {
        _ if unbilled => ", not billed".to_owned(),
        Some(cost) => format!(", ${cost:.4}"),
        None => String::new(),
    };
    let cached = match usage.cache_read + usage.cache_write {
        0 => String::new(),
        cached => format!(", {} cached", tokens(cached)),
    };
    if usage.total() == 0 {
        return format!("{UNKNOWN}{cost}");
    }
    format!("{} ({} in{cached}, {} out{cost})", tokens(usage.total()), tokens(usage.input), tokens(usage.output))
}
