//! `pleach search`

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use clap::{Args, ValueEnum};
use history::journal::{SearchFilter, SearchPart, SearchPattern, search};
use jiff::Timestamp;
use pleach_core::ids::TaskId;
use serde_json::json;

use super::log::when;
use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_git;
use crate::render::{Out, Pages, columns, journal};
use crate::sessions::{self, resolve_scope};

/// Search what was said: prompts, answers, tool calls and output.
///
/// Newest run first. Each message that has TEXT is shown once, by the first line with it. Without capitals in TEXT, any case is meant. Secrets
/// were taken out before anything was recorded, so they are not found.
#[derive(Debug, Args)]
pub struct SearchArgs {
    /// What to look for, as it is written.
    #[arg(value_name = "TEXT")]
    text: String,
    /// TEXT is a regular expression. ^ and $ are the ends of lines.
    #[arg(long)]
    regex: bool,
    /// Only in what agents are told, what they say, the tools they call, or what tools and commands print. May be repeated.
    #[arg(long = "in", value_enum, value_name = "PART")]
    parts: Vec<SaidPart>,
    /// Only this session, or the beginning of its id; SESSION/r1 is one of its replays.
    #[arg(long, value_name = "RUN")]
    session: Option<String>,
    /// Only sessions on this task.
    #[arg(long, value_name = "TASK")]
    task: Option<TaskId>,
    /// Nothing before: a day, a time, or how long ago, as in 2026-11-15, 2026-11-15T01:02:03Z, 2d, 3h.
    #[arg(long, value_name = "WHEN", value_parser = when)]
    since: Option<Timestamp>,
    /// So many messages at most.
    #[arg(short = 'n', value_name = "N", default_value = "20")]
    most: NonZeroUsize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SaidPart {
    /// What agents are told.
    Prompt,
    /// What they say, their thoughts included.
    Answer,
    /// The tools they call, and what they give them.
    Tool,
    /// What tools and commands print.
    Output,
}

impl From<SaidPart> for SearchPart {
    fn from(part: SaidPart) -> Self {
        match part {
            SaidPart::Prompt => Self::Prompt,
            SaidPart::Answer => Self::Answer,
            SaidPart::Tool => Self::Tool,
            SaidPart::Output => Self::Output,
        }
    }
}

pub fn run(globals: &Globals, args: SearchArgs) -> Result<Exit, Failure> {
    if args.text.is_empty() {
        return Err(Failure::new(Code::CommandLine, "an empty text is in every message").hint("give a word of it"));
    }
    let repo = sessions::repository(globals)?;
    let run = args.session.as_deref().map(|given| resolve_scope(&repo, given)).transpose();
    let filter = SearchFilter {
        run: run.map_err(|error| sessions::no_session(&error))?,
        task: args.task,
        since: args.since,
        parts: args.parts.into_iter().map(SearchPart::from).collect(),
    };
    let pattern = SearchPattern::new(&args.text, args.regex).map_err(|error| {
        let failure = Failure::new(Code::RegexInvalid, error.to_string());
        failure.because(&error).hint("leave --regex out to look for the text as it is written")
    })?;
    let (mut shown, mut failed) = (0, None);
    let (columns, mut pages) = (columns(), None);
    let mut show = |found| -> Result<(), Failure> {
        match found {
            Ok(hit) => {
                shown += 1;
                let pages = match &mut pages {
                    Some(pages) => pages,
                    none => none.insert(Pages::new(globals)?),
                };
                if globals.json { pages.line(json!(hit)) } else { pages.line(journal::hit(&hit, columns)) }
            }
            Err(error) => {
                let error: history::journal::SearchError = error;
                let why = Failure::new(Code::RecordDamaged, error.to_string()).because(&error).sentence();
                warning!(SessionUnreadable, "{why}");
                Ok(())
            }
        }?;
        if shown >= args.most.get() { Err(Failure::output_closed()) } else { Ok(()) }
    };
    let found = search(&repo, &pattern, &filter, |found| match show(found) {
        Ok(()) => ControlFlow::Continue(()),
        Err(failure) => {
            failed = Some(failure);
            ControlFlow::Break(())
        }
    });
    found.map_err(|error| of_git(&error))?;
    if let Some(failure) = failed {
        return if failure.code == Code::OutputClosed { Ok(Exit::Done) } else { Err(failure) };
    }
    if shown == 0 && !globals.json {
        Out::new().line("Nobody said that.")?;
    }
    Ok(Exit::Done)
}
