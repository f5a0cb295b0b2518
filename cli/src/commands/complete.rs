//! `pleach __complete`: the ids that could be next on a command line, for the scripts of `pleach completions`.

use clap::{Arg, Args, Command};
use engine::view::View;

use crate::commands::task::TaskGround;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_engine;
use crate::render::Out;
use crate::render::session::title;
use crate::sessions::{self, SessionFilter};
use crate::tree::overview::TreeContext;

/// Print the ids that fit next, each with a tab and what it is.
#[derive(Debug, Args)]
pub struct CompleteArgs {
    /// The words before the one that is completed, without the program.
    #[arg(last = true)]
    words: Vec<String>,
}

/// The ids to complete, and where.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    command: String,
    dir: Option<String>,
    sessions: bool,
    tasks: bool,
    /// Those that have no tree.
    ad_hoc: bool,
}

pub fn run(globals: &Globals, args: CompleteArgs, cli: &Command) -> Result<Exit, Failure> {
    let wanted = wanted(cli, &args.words);
    let dir = wanted.dir.as_ref().map_or_else(|| globals.dir.clone(), |dir| globals.dir.join(dir));
    let globals = Globals { dir, ..globals.clone() };
    let mut out = Out::new();
    if wanted.sessions {
        let fit = match wanted.command.as_str() {
            "resume" => SessionFilter::Resumable,
            "cancel" | "pause" => SessionFilter::Open,
            _ => SessionFilter::Any,
        };
        let (all, _) = View::open(&sessions::repository(&globals)?).map_err(|error| of_engine(&error))?;
        for (id, summary) in all {
            match summary {
                Ok(summary) if fit.takes(&summary) => {
                    out.line(format!("{id}\t{}, {}", title(&summary), summary.standing().word()))?;
                }
                _ => {}
            }
        }
    }
    if wanted.ad_hoc {
        for view in TaskGround::find(&globals, None)?.views()?.iter().filter(|view| view.status.is_open()) {
            let name = pleach_core::step::shown_name(&view.task.name);
            out.line(format!("{}\t{name}, {}", view.task.id, view.status))?;
        }
    }
    if wanted.tasks {
        let context = TreeContext::find(&globals)?;
        let (trees, _) = context.trees(None, &mut context.reader())?;
        for with_progress in &trees {
            let (tree, progress) = (&with_progress.file.tree, &with_progress.progress);
            for task in tree.order() {
                let name = tree.node(task).map(|node| pleach_core::step::shown_name(&node.name)).unwrap_or_default();
                out.line(format!("{task}\t{name}, {}", progress.task(task).status.as_str()))?;
            }
        }
    }
    Ok(Exit::Done)
}

/// The ids that could follow these words.
fn wanted(cli: &Command, words: &[String]) -> Wanted {
    let mut wanted = Wanted::default();
    let mut command = cli;
    let mut behind: Option<&Arg> = None;
    let mut positionals = 0;
    for word in words {
        if let Some(option) = behind.take() {
            if option.get_id() == "dir" {
                wanted.dir = Some(word.clone());
            }
        } else if word.starts_with('-') && word.len() > 1 {
            behind = takes_value(cli, command, word);
        } else if wanted.command.is_empty() {
            let Some(found) = cli.find_subcommand(word) else { return wanted };
            (wanted.command, command) = (found.get_name().to_owned(), found);
        } else if let Some(found) = command.find_subcommand(word).filter(|_| positionals == 0) {
            (wanted.command, command) = (format!("{} {}", wanted.command, found.get_name()), found);
        } else {
            positionals += 1;
        }
    }
    let next = behind.or_else(|| {
        let all: Vec<&Arg> = command.get_positionals().collect();
        all.get(positionals).or(all.last().filter(|last| is_list(last))).copied()
    });
    if let Some(arg) = next.filter(|_| !wanted.command.is_empty()) {
        let id = arg.get_id().as_str();
        wanted.sessions = ["session", "sessions", "id", "other", "runs"].contains(&id);
        let is_own = wanted.command.starts_with("task ");
        wanted.tasks = ["task", "id"].contains(&id) && !is_own;
        wanted.ad_hoc =
            wanted.tasks && wanted.command != "garden" || is_own && ["task", "tasks", "depends"].contains(&id);
    }
    wanted
}

fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), clap::ArgAction::Append)
}

/// The option a word names, where its value comes in the next word.
fn takes_value<'a>(cli: &'a Command, command: &'a Command, word: &str) -> Option<&'a Arg> {
    let named = |arg: &&Arg| match word.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => word.chars().next_back() == arg.get_short(),
    };
    let mut options = command.get_arguments().chain(cli.get_arguments());
    options.find(named).filter(|arg| arg.get_action().takes_values())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::commands::Cli;

    fn wanted_behind(line: &str) -> Wanted {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        wanted(&Cli::command(), &words)
    }

    #[test]
    fn ids_are_wanted_where_commands_take_them() {
        for (line, sessions, tasks) in [
            ("", false, false),
            ("resume", true, false),
            ("-C there diff --stat", true, false),
            ("diff abcdefgh", true, false),
            ("diff abcdefgh ijklmnop", false, false),
            ("compare abcdefgh", true, false),
            ("rm abcdefgh", true, false),
            ("export", true, false),
            ("inspect", false, true),
            ("garden --task", false, true),
            ("garden", false, false),
            ("status", true, true),
            ("logs", false, true),
            ("log", true, true),
            ("log --task", false, true),
            ("search --session", true, false),
            ("search", false, false),
            ("cancel --grace", false, false),
            ("nowhere", false, false),
        ] {
            let wanted = wanted_behind(line);
            assert_eq!((wanted.sessions, wanted.tasks), (sessions, tasks), "{line}");
        }
        for line in ["task show", "task start", "task start task-abcdef", "task new x --depends", "inspect", "status"] {
            assert!(wanted_behind(line).ad_hoc, "{line}");
        }
        for line in ["task new", "task list", "garden --task", "worktree list", "task show task-abcdef"] {
            assert!(!wanted_behind(line).ad_hoc, "{line}");
        }
        assert_eq!(wanted_behind("-C there diff").dir.as_deref(), Some("there"));
    }
}
