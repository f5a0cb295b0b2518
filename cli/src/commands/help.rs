//! `pleach help`: the help of a command, and the guides.

use clap::{Args, Command};

use super::help_groups::arranged;
use super::help_markdown;
use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::guides::{COMMAND_LINE, GUIDES, Guide};
use crate::render::{Out, Pages};

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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::commands::Cli;

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
