//! `pleach help`: the commands by what they are for, and the guides.

use std::fmt::Write as _;

use clap::{Arg, Args, Command};

use super::help_markdown;
use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::guides::{COMMAND_LINE, GUIDES, Guide};
use crate::render::{Out, Pages};

/// The commands as `pleach --help` lists them.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start here", &["demo", "init", "doctor", "help"]),
    ("Run", &["run", "resume", "replay", "pause", "cancel"]),
    ("Look", &["status", "turns", "show", "diff", "log", "search", "why", "cost", "compare", "export"]),
    ("Tasks and trees", &["task", "build", "gardener", "garden", "inspect", "logs", "reports", "skip", "reset"]),
    ("Land", &["land", "merge", "forecast", "push", "pr"]),
    ("Clean up", &["cleanup", "rm", "worktree"]),
    ("Set up", &["config", "trust", "validate", "graph", "record", "completions"]),
];

/// The word that lists the guides.
const TOPICS: &str = "topics";

/// Show the help of a command, or a guide.
///
/// `pleach help topics` lists the guides. Where a command and a guide have the same name, both are shown.
#[derive(Debug, Args)]
pub struct HelpArgs {
    /// A command, with its subcommand where it has one; or the topic of a guide.
    #[arg(value_name = "COMMAND|TOPIC")]
    words: Vec<String>,
}

pub fn run(globals: &Globals, args: &HelpArgs, cli: Command) -> Result<Exit, Failure> {
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    let text = match words[..] {
        [] => return Out::new().text(&arranged(cli).render_help().ansi().to_string()).map(|()| Exit::Done),
        [TOPICS] => return topics().map(|()| Exit::Done),
        _ => text(cli, &words)?,
    };
    let mut pages = Pages::new(globals)?;
    text.trim_end().lines().try_for_each(|line| pages.line(line))?;
    Ok(Exit::Done)
}

/// The help of a command and the guide of that name, as far as there are such.
fn text(cli: Command, words: &[&str]) -> Result<String, Failure> {
    let guide = match words {
        // As links between the guides have it.
        [topic] => topic_text(&cli, topic.trim_start_matches("docs/").trim_end_matches(".md")),
        _ => None,
    };
    let parts = [command_text(arranged(cli), words), guide];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
    if text.is_empty() {
        let message = format!("there is no command and no guide `{}`", words.join(" "));
        let hint = "`pleach --help` lists the commands, `pleach help topics` the guides";
        return Err(Failure::new(Code::CommandLine, message).hint(hint));
    }
    Ok(text)
}

fn command_text(mut root: Command, words: &[&str]) -> Option<String> {
    root.build();
    let mut command = &mut root;
    for word in words {
        command = command.find_subcommand_mut(word)?;
    }
    Some(command.render_long_help().ansi().to_string().trim_end().to_owned())
}

fn topic_text(cli: &Command, topic: &str) -> Option<String> {
    if topic == COMMAND_LINE {
        return Some(help_markdown::page(cli.clone()));
    }
    Guide::find(topic).map(|guide| guide.text.to_owned())
}

fn topics() -> Result<(), Failure> {
    let mut all: Vec<(&str, &str)> = GUIDES.iter().map(|guide| (guide.topic, guide.title())).collect();
    all.push((COMMAND_LINE, "The command line"));
    all.sort_unstable();
    let width = all.iter().map(|(topic, _)| topic.len()).max().unwrap_or_default();
    all.iter().try_for_each(|(topic, title)| Out::new().line(format!("{topic:width$}  {title}")))?;
    Out::new().line("\n`pleach help TOPIC` shows one.")
}

/// The command line with its help in order: commands in groups, and the global options there alone.
pub fn arranged(cli: Command) -> Command {
    let shared: Vec<Arg> = cli.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    let template = template(&cli);
    cli.help_template(template).mut_subcommands(|command| without_globals(command, &shared))
}

/// A command that takes the global options and does not list them.
fn without_globals(command: Command, shared: &[Arg]) -> Command {
    let hidden = shared.iter().cloned().map(|arg| arg.hide(true));
    let command = command.args(hidden).mut_subcommands(|command| without_globals(command, shared));
    command.after_help("Global options such as -C, --json, -y and -q: `pleach --help`.")
}

fn template(cli: &Command) -> String {
    let styles = cli.get_styles();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or_default();
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n\n");
    for (heading, names) in GROUPS {
        let _ = writeln!(text, "{header}{heading}:{header:#}");
        for name in *names {
            let about = cli.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            let _ = writeln!(text, "  {literal}{name:width$}{literal:#}  {}", about.unwrap_or_default());
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{header}Global options:{header:#}\n{{options}}\n");
    text.push_str(
        "`pleach COMMAND --help` explains a command. `pleach help TOPIC` shows a guide,\n\
         such as `running` or `exit-codes`; `pleach help topics` lists them.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;
    use crate::commands::Cli;

    /// How wide a terminal is at least.
    const NARROW: usize = 80;

    #[test]
    fn every_command_is_in_one_group() {
        let cli = Cli::command();
        let named: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let commands = cli.get_subcommands().filter(|command| !command.is_hide_set());
        let commands: BTreeSet<&str> = commands.map(Command::get_name).collect();
        assert_eq!(named.iter().copied().collect::<BTreeSet<_>>(), commands);
        assert_eq!(named.len(), commands.len(), "a command is in two groups");
    }

    #[test]
    fn the_list_of_commands_fits_a_narrow_terminal() {
        let help = arranged(Cli::command()).term_width(NARROW).render_help().to_string();
        let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > NARROW).collect();
        assert!(wide.is_empty(), "{wide:#?}");
        assert!(help.lines().count() <= NARROW, "{help}");
    }

    #[test]
    fn global_options_are_listed_once() {
        let mut root = arranged(Cli::command());
        assert!(root.render_help().to_string().contains("--config <FILE>"));
        root.build();
        for command in root.get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            assert!(!help.contains("--config <FILE>"), "{help}");
        }
    }

    #[test]
    fn a_name_shows_its_command_and_its_guide() {
        let shown = |words: &[&str]| text(Cli::command(), words).expect("there is such a name");
        let both = shown(&["why"]);
        assert!(both.contains("Usage:") && both.ends_with(Guide::find("why").expect("a guide").text), "{both}");
        assert!(shown(&["merge", "enqueue"]).contains("pleach merge enqueue"));
        assert_eq!(shown(&["docs/tasks.md"]), Guide::find("tasks").expect("a guide").text);
        assert!(shown(&["cli"]).contains("## pleach run"));
        let unknown = text(Cli::command(), &["nothing"]).expect_err("there is no such name");
        assert_eq!(unknown.message, "there is no command and no guide `nothing`");
    }
}
