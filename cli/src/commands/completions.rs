//! `pleach completions`

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::render::Out;

/// Print a script that completes pleach's commands in your shell.
///
/// For bash, put `source <(pleach completions bash)` into ~/.bashrc; the other shells have a directory for such
/// scripts. In bash, zsh and fish the ids of sessions and tasks are completed too.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell to write for.
    shell: Shell,
}

pub fn run(_globals: &Globals, args: CompletionsArgs, mut cli: Command) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli, "pleach", &mut script);
    let script = with_ids(args.shell, String::from_utf8_lossy(&script).into_owned());
    Out::new().bytes(script.as_bytes())?;
    Ok(Exit::Done)
}

/// The script with what asks pleach for the ids that could be next. What it says to standard error is of no use there.
fn with_ids(shell: Shell, script: String) -> String {
    match shell {
        Shell::Bash => script + BASH,
        // The script calls its own function when it is loaded from a directory of functions.
        Shell::Zsh => script.replacen("_pleach() {\n", &format!("{ZSH}_pleach_words() {{\n"), 1),
        Shell::Fish => script + FISH,
        _ => script,
    }
}

const BASH: &str = r#"
_pleach_with_ids() {
    _pleach "$@"
    local ids
    ids=$("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null | cut -f1)
    COMPREPLY+=($(compgen -W "$ids" -- "${COMP_WORDS[COMP_CWORD]}"))
}

complete -F _pleach_with_ids -o bashdefault -o default pleach
"#;

const ZSH: &str = r#"_pleach() {
    local -a ids
    ids=("${(@f)$(${words[1]} __complete -- "${(@)words[2,CURRENT-1]}" 2>/dev/null)}")
    ids=("${(@)${(@)ids//:/\\:}/$'\t'/:}")
    [[ -n "${ids[1]}" ]] && _describe id ids
    _pleach_words "$@"
}

"#;

const FISH: &str = r#"
complete -c pleach -a '(pleach __complete -- (commandline -opc)[2..-1] 2>/dev/null)'
"#;
