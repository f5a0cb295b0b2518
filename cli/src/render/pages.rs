//! Standard output, through the user's pager where a terminal shows it.

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};

use agents::agent::find_program;
use anstream::{AutoStream, ColorChoice};
use os::process::Pager;

use super::unwritable;
use crate::code::Code;
use crate::failure::Failure;
use crate::globals::Globals;

/// Where long results go. What goes to a person's terminal goes through their pager, which is the one of git and leaves
/// by itself what fits on a screen.
#[derive(Debug)]
pub struct Pages {
    /// With the choice of colours the terminal would have had.
    pager: Option<(Pager, ColorChoice)>,
}

/// The pagers that only pass on what they get.
const NONE: [&str; 2] = ["", "cat"];

impl Pages {
    /// Without one in any case.
    pub fn without_pager() -> Self {
        Self { pager: None }
    }

    /// With a pager if a person sees it, and one is set.
    pub fn new(globals: &Globals) -> Result<Self, Failure> {
        if globals.json || !std::io::stdout().is_terminal() {
            return Ok(Self::without_pager());
        }
        let command = git::pager(&globals.environment).map_err(|error| crate::lib_errors::of_git(&error))?;
        // git names one also where none is installed.
        let is_name = command.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        if NONE.contains(&command.as_str()) || is_name && find_program(&command, &globals.environment).is_none() {
            return Ok(Self::without_pager());
        }
        let choice = AutoStream::choice(&std::io::stdout());
        let pager = Pager::start(&command, &globals.environment).map_err(|error| {
            Failure::new(Code::ProgramFailed, format!("the pager `{command}` cannot be started"))
                .because(&error)
                .hint("set another with GIT_PAGER, or GIT_PAGER=cat for none")
        })?;
        Ok(Self { pager: Some((pager, choice)) })
    }

    /// Writes one line of many. A reader that has seen enough ends the command quietly.
    pub fn line(&mut self, text: impl Display) -> Result<(), Failure> {
        self.write(&format!("{text}\n")).map_err(|error| match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::output_closed(),
            _ => unwritable(&error),
        })
    }

    /// Writes all there is to show, which ends its own lines. A reader who has seen enough changes nothing.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        super::unless_closed(self.write(text))
    }

    fn write(&mut self, text: &str) -> std::io::Result<()> {
        match &mut self.pager {
            None => {
                let mut out = anstream::stdout().lock();
                out.write_all(text.as_bytes()).and_then(|()| out.flush())
            }
            Some((pager, ColorChoice::Never)) => write!(pager, "{}", anstream::adapter::strip_str(text)),
            Some((pager, _)) => pager.write_all(text.as_bytes()),
        }
    }
}
