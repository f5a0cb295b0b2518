//! `pleach __help-markdown`: the help of every command as one Markdown page, from which `docs/cli.md` is made.

use std::fmt::Write as _;

use clap::builder::Resettable;
use clap::{Arg, Args, Command};

use super::help_groups::arranged;
use crate::answers::AnswerArgs;
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
    let mut gates = AnswerArgs::augment_args(Command::new("gates").disable_help_flag(true));
    gates = gates.term_width(100).help_template("{options}");
    gates.build();
    write_section(&mut page, &gates, GATES);
    write_children(&mut page, &root, "pleach", &gates);
    page
}

/// The heading of the options that answer gates.
const GATES: &str = "Options of gates";

/// Writes the commands below another. Options that every command takes, and those that answer gates, are written once,
/// above.
fn write_children(page: &mut String, parent: &Command, path: &str, gates: &Command) {
    for child in parent.get_subcommands().filter(|child| !child.is_hide_set()) {
        let path = format!("{path} {}", child.get_name());
        let is_of_gates = |arg: &Arg| gates.get_arguments().any(|of_gates| of_gates.get_id() == arg.get_id());
        let has_gates = child.get_arguments().any(is_of_gates);
        let own = child.clone().after_help(Resettable::Reset).mut_args(|arg| {
            let is_shared = arg.is_global_set() || arg.get_id() == "help" || is_of_gates(&arg);
            arg.hide(is_shared)
        });
        write_section(page, &own, &path);
        if has_gates {
            let _ = writeln!(page, "\nIt takes the [options of gates](#options-of-gates) as well.");
        }
        write_children(page, child, &path, gates);
    }
}

fn write_section(page: &mut String, command: &Command, path: &str) {
    let help = command.clone().render_long_help().to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## {path}\n\n```text\n{}\n```\n", lines.join("\n"));
}
