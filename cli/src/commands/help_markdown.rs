//! `pleach __help-markdown`: the help of every command as one Markdown page, from which `docs/cli.md` is made.

use std::fmt::Write as _;

use clap::builder::Resettable;
use clap::{Args, Command};

use super::help_groups::arranged;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::render::Out;

/// Print the help of every command as Markdown.
#[derive(Debug, Args)]
pub struct HelpMarkdownArgs {}

pub fn run(_globals: &Globals, _args: HelpMarkdownArgs, cli: Command) -> Result<Exit, Failure> {
    Out::new().bytes(page(cli).as_bytes())?;
    Ok(Exit::Done)
}

/// The page.
pub fn page(cli: Command) -> String {
    // It must not depend on the terminal it was made in.
    let mut root = arranged(cli).term_width(100);
    root.build();
    let mut page = String::from(
        "# The command line\n\nMade from the program's own help by `cargo xtask docs`; edit the doc comments in `cli/src/commands/`.\n",
    );
    write_section(&mut page, &root, "pleach");
    write_children(&mut page, &root, "pleach");
    page
}

fn write_children(page: &mut String, parent: &clap::Command, path: &str) {
    for child in parent.get_subcommands().filter(|child| !child.is_hide_set()) {
        let path = format!("{path} {}", child.get_name());
        // What every command takes is told once, at the top.
        let own = child.clone().after_help(Resettable::Reset).mut_args(|arg| {
            let shared = arg.is_global_set() || arg.get_id() == "help";
            arg.hide(shared)
        });
        write_section(page, &own, &path);
        write_children(page, child, &path);
    }
}

fn write_section(page: &mut String, command: &clap::Command, path: &str) {
    let help = command.clone().render_long_help().to_string();
    let lines: Vec<&str> = help.trim().lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## {path}\n\n```text\n{}\n```\n", lines.join("\n"));
}
