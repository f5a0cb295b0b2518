//! Standard output, through the user's pager where a terminal shows it.

use std::io::{IsTerminal as _, Write as _};

use anstream::{AutoStream, ColorChoice};
use os::process::Pager;

use super::{Out, closed};
use crate::code::Code;
use crate::failure::Failure;
use crate::globals::Globals;

/// Where long results go, line by line.
#[derive(Debug)]
pub struct Pages {
    /// With the choice of colours the terminal would have had.
    pager: Option<(Pager, ColorChoice)>,
}

/// The pagers that only pass on what they get.
const NONE: [&str; 2] = ["", "cat"];

impl Pages {
    /// With a pager if a person sees it, and one is set.
    pub fn new(globals: &Globals) -> Result<Self, Failure> {
        if globals.json || !std::io::stdout().is_terminal() {
            return Ok(Self { pager: None });
        }
        let command = git::pager(&globals.environment).map_err(|error| crate::lib_errors::of_git(&error))?;
        if NONE.contains(&command.as_str()) {
            return Ok(Self { pager: None });
        }
        let choice = AutoStream::choice(&std::io::stdout());
        let pager = Pager::start(&command, &globals.environment).map_err(|error| {
            Failure::new(Code::ProgramFailed, format!("the pager `{command}` cannot be started"))
                .because(&error)
                .hint("set another with GIT_PAGER, or GIT_PAGER=cat for none")
        })?;
        Ok(Self { pager: Some((pager, choice)) })
    }

    /// Writes one line.
    pub fn line(&mut self, text: &str) -> Result<(), Failure> {
        match &mut self.pager {
            None => Out::new().line(text),
            Some((pager, ColorChoice::Never)) => {
                writeln!(pager, "{}", anstream::adapter::strip_str(text)).map_err(closed)
            }
            Some((pager, _)) => writeln!(pager, "{text}").map_err(closed),
        }
    }
}

/// The columns lines may take: those of the terminal, and 80 where there is none.
pub fn columns() -> usize {
    console::Term::stdout().size_checked().map_or(80, |(_, columns)| usize::from(columns))
}
