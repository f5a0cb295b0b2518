//! How a command ended.

use std::fmt;
use std::time::Duration;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal, which did not come from a limit or a cancel.
    Signal(i32),
    /// It was killed at a timeout.
    TimedOut(Timeout),
    /// It was killed on request.
    Cancelled,
}

impl Exit {
    /// Whether it ended by itself with code 0.
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }

    /// The exit code, if it ended by itself.
    pub fn code(self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(code),
            _ => None,
        }
    }

    /// How it ended, after a subject: `ended with exit 1`, `timed out after 5s`.
    pub fn sentence(&self) -> String {
        match self {
            Self::Code(_) | Self::Signal(_) => format!("ended with {self}"),
            Self::TimedOut(_) => self.to_string(),
            Self::Cancelled => format!("was {self}"),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::TimedOut(Timeout::Wall(limit)) => write!(f, "timed out after {limit:?}"),
            Self::TimedOut(Timeout::Idle(limit)) => write!(f, "timed out after {limit:?} without a sign of life"),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

/// The limit a command exceeded, with its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    /// It ran too long.
    Wall(Duration),
    /// It produced no output for too long.
    Idle(Duration),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_read_as_people_say_them() {
        let five = Duration::from_secs(5);
        let texts = [
            (Exit::Code(0), "exit 0"),
            (Exit::Signal(9), "signal 9"),
            (Exit::TimedOut(Timeout::Wall(five)), "timed out after 5s"),
            (Exit::TimedOut(Timeout::Idle(five)), "timed out after 5s without a sign of life"),
            (Exit::Cancelled, "cancelled"),
        ];
        for (exit, text) in texts {
            assert_eq!(exit.to_string(), text);
        }
        assert!(Exit::Code(0).success() && !Exit::Code(1).success() && !Exit::Cancelled.success());
    }
}
