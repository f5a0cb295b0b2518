//! How a command ends: the documented exit codes.
//!
//! `docs/exit-codes.md` is the user's page; a test keeps it in step with [`Exit::ALL`].

use std::process::ExitCode;

/// How a command ended. The numbers are an interface: they never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked for was done.
    Done = 0,
    /// The work itself failed.
    WorkFailed = 1,
    /// The command or its input is wrong.
    Usage = 2,
    /// The run was interrupted and can be resumed.
    Paused = 3,
    /// The run waits for a person's answer or trust.
    WaitsForPerson = 4,
    /// Finished work could not land.
    LandingRefused = 5,
    /// Another process holds the session.
    Locked = 6,
    /// git, an agent, the sandbox or the disk is missing or broken.
    Environment = 7,
}

impl Exit {
    /// Every code, in order.
    #[cfg(test)]
    pub const ALL: [Self; 8] = [
        Self::Done,
        Self::WorkFailed,
        Self::Usage,
        Self::Paused,
        Self::WaitsForPerson,
        Self::LandingRefused,
        Self::Locked,
        Self::Environment,
    ];

    /// The number the shell sees.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The meaning of the number, as the page has it.
    #[cfg(test)]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::WorkFailed => "the work failed",
            Self::Usage => "usage or invalid input",
            Self::Paused => "paused; `pleach resume` continues",
            Self::WaitsForPerson => "waits for a person",
            Self::LandingRefused => "landing refused",
            Self::Locked => "locked by another process",
            Self::Environment => "environment: git, agent, sandbox or disk",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_count_up_from_zero() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(codes, (0..8).collect::<Vec<u8>>());
    }

    #[test]
    fn the_page_of_exit_codes_lists_every_code() {
        let page = include_str!("../../docs/exit-codes.md");
        for exit in Exit::ALL {
            let row = format!("| {} | {} |", exit.code(), exit.meaning());
            assert!(page.contains(&row), "docs/exit-codes.md lacks `{row}`");
        }
    }
}
