//! `pleach __help-markdown`: the help of every command as one Markdown page, from which `docs/cli.md` is made.

use std::fmt::Write as _;

use clap::{Args, CommandFactory};

use crate::commands::{Cli, Globals};
use crate::exit::{Exit, Failure};
use crate::render::Out;

/// Print the help of every command as Markdown.
#[derive(Debug, Args)]
pub struct HelpMarkdownArgs {}

pub fn run(_globals: &Globals, _args: HelpMarkdownArgs) -> Result<Exit, Failure> {
    // The page must not depend on the terminal it was made in.
    let mut root = Cli::command().term_width(100).disable_help_subcommand(true);
    root.build();
    let mut page = String::from(
        "# The command line\n\nMade from the program's own help by `cargo xtask docs`; edit the doc comments in `cli/src/commands/`.\n",
    );
    write_command(&mut page, &mut root, "pleach");
    Out::new().bytes(page.as_bytes())?;
    Ok(Exit::Done)
}

fn write_command(page: &mut String, command: &mut clap::Command, path: &str) {
    let help: Vec<String> = command.render_long_help().to_string().lines().map(|line| line.trim_end().into()).collect();
    let _ = write!(page, "\n## {path}\n\n```text\n{}\n```\n", help.join("\n").trim());
    for child in command.get_subcommands_mut().filter(|child| !child.is_hide_set()) {
        let path = format!("{path} {}", child.get_name());
        write_command(page, child, &path);
    }
}
