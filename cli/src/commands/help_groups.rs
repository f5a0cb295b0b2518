//! The help of the program: its commands in groups, each in a line.

use std::fmt::Write as _;

use clap::{Arg, Command};

/// The commands as `pleach --help` lists them.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start here", &["demo", "init", "doctor", "help"]),
    ("Run", &["run", "resume", "replay", "pause", "cancel"]),
    ("Look", &["status", "turns", "show", "diff", "log", "search", "why", "cost", "compare", "export"]),
    ("Tasks and trees", &["task", "build", "gardener", "garden", "inspect", "logs", "reports", "skip", "reset"]),
    ("Land", &["land", "undo", "merge", "forecast", "push", "pr"]),
    ("Clean up", &["cleanup", "rm", "worktree"]),
    ("Set up", &["config", "trust", "validate", "graph", "record", "completions"]),
];

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
}
