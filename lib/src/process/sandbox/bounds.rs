//! The bounds of a command, and the means of the system to enforce them.

use std::io;
use std::path::PathBuf;

/// The oldest Landlock under which programs can move files from one directory to another.
pub(super) const MOVES: u32 = 2;

/// The oldest Landlock that keeps files from being cut short.
pub(super) const TRUNCATES: u32 = 3;

/// The oldest Landlock that knows the network.
pub(super) const CONNECTS: u32 = 4;

/// The oldest Landlock that knows signals.
pub(super) const SIGNALS: u32 = 6;

/// What every program needs to write, whatever it works on.
pub(super) const DEVICES: [&str; 9] = [
    "/dev/full",
    "/dev/null",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/random",
    "/dev/shm",
    "/dev/tty",
    "/dev/urandom",
    "/dev/zero",
];

/// The bounds of a command. Paths that do not exist are left out when the command starts, and so are those that lie where
/// the command may write anyhow: a link there would lead on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// What can set the bounds. A command whose bounds nothing can set is not started.
    pub by: Availability,
    /// Files and directories that may be written, with all in them.
    pub write: Vec<PathBuf>,
    /// Directories of objects, of repositories: single objects may be added, while none may be removed, and nothing else
    /// may be written that git would believe.
    pub add: Vec<PathBuf>,
    /// What may be read beside what may be written; everything if not given.
    pub read: Option<Vec<PathBuf>>,
    /// Of that, what may not be read all the same. What may be written there may be read.
    pub hide: Vec<PathBuf>,
    /// What may be read in any case, also where all around it is hidden.
    pub show: Vec<PathBuf>,
    /// Where it may connect to.
    pub connect: Connect,
}

/// Where a command may connect to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Connect {
    /// Anywhere.
    #[default]
    Anywhere,
    /// TCP ports, on whatever host; none at all when the list is empty.
    Ports(Vec<u16>),
}

/// What there is to set bounds with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Availability {
    /// The version of the kernel's Landlock, if it has one and it is switched on.
    pub landlock_abi: Option<u32>,
    /// The program bubblewrap, if it is installed. That it is there does not say that it may be used:
    /// `bubblewrap_works` tries.
    pub bubblewrap: Option<PathBuf>,
    /// Whether system calls can be filtered, without which no network is closed and other processes can be slowed down.
    pub filters: bool,
}

/// What sets the bounds of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wall<'a> {
    Landlock(u32),
    Bubblewrap(&'a PathBuf),
}

impl Availability {
    /// What is left of it when there were no more than this: `landlock:3`, `bubblewrap`, `seccomp`, some of
    /// them with commas, or none.
    pub fn at_most(&self, words: &str) -> Self {
        let words = || words.split(',').map(str::trim);
        let abi = words().find_map(|word| word.strip_prefix("landlock:")?.parse::<u32>().ok());
        Self {
            landlock_abi: self.landlock_abi.zip(abi).map(|(has, most)| has.min(most)),
            bubblewrap: self.bubblewrap.clone().filter(|_| words().any(|word| word == "bubblewrap")),
            filters: self.filters && words().any(|word| word == "seccomp"),
        }
    }

    pub(super) fn abi(&self) -> u32 {
        self.landlock_abi.unwrap_or_default()
    }

    /// The best wall there is for these connections. Landlock comes first; bubblewrap, where the kernel's is too old
    /// for all that is asked.
    pub(super) fn wall(&self, connect: &Connect) -> Option<Wall<'_>> {
        let abi = self.abi();
        let closed = matches!(connect, Connect::Ports(ports) if ports.is_empty());
        let enough = if closed { CONNECTS } else { TRUNCATES };
        match &self.bubblewrap {
            _ if abi >= enough => Some(Wall::Landlock(abi)),
            Some(program) => Some(Wall::Bubblewrap(program)),
            None if abi >= MOVES => Some(Wall::Landlock(abi)),
            None => None,
        }
    }

    /// Whether connections can be kept to these.
    pub(super) fn can_limit(&self, connect: &Connect) -> bool {
        match (self.wall(connect), connect) {
            (_, Connect::Anywhere) => true,
            (Some(Wall::Landlock(abi)), Connect::Ports(_)) => abi >= CONNECTS && self.filters,
            (Some(Wall::Bubblewrap(_)), Connect::Ports(ports)) => ports.is_empty() && self.filters,
            (None, Connect::Ports(_)) => false,
        }
    }
}

impl Sandbox {
    /// The same for an agent that reaches its model through this port of this machine. Where the network is open, it
    /// stays open.
    pub fn through(&self, port: u16) -> Self {
        let connect = match &self.connect {
            Connect::Anywhere => Connect::Anywhere,
            Connect::Ports(ports) => Connect::Ports(ports.iter().copied().chain([port]).collect()),
        };
        Self { connect, ..self.clone() }
    }

    /// The same for an agent that speaks to its model by itself, and so needs the network.
    pub fn with_network(&self) -> Self {
        Self { connect: Connect::Anywhere, ..self.clone() }
    }

    /// The same with more that may be written.
    pub fn with_write(&self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let write = self.write.iter().cloned().chain(paths).collect();
        Self { write, ..self.clone() }
    }

    /// The same with more that may be read, where reading is limited.
    pub fn with_read(&self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let show = self.show.iter().cloned().chain(paths).collect();
        Self { show, ..self.clone() }
    }

    /// Whether its bounds keep it from connecting wherever it wants. Where the kernel cannot, the network is open.
    pub fn limits_connections(&self) -> bool {
        self.connect != Connect::Anywhere && self.by.can_limit(&self.connect)
    }
}

/// Why a command was not started in its bounds.
#[derive(Debug)]
pub(in crate::process) enum NotStarted {
    /// The bounds could not be set.
    Unbound(io::Error),
    /// The command itself could not be started.
    Program(io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(abi: u32, bubblewrap: bool) -> Availability {
        let bubblewrap = bubblewrap.then(|| PathBuf::from("/usr/bin/bwrap"));
        Availability { landlock_abi: Some(abi).filter(|abi| *abi > 0), bubblewrap, filters: true }
    }

    #[test]
    fn a_gateway_opens_its_own_port_and_no_other() {
        let closed = Sandbox { connect: Connect::Ports(Vec::new()), ..Sandbox::default() };
        assert_eq!(closed.through(4000).connect, Connect::Ports(vec![4000]));
        assert_eq!(closed.with_network().connect, Connect::Anywhere);
        assert_eq!(Sandbox::default().through(4000).connect, Connect::Anywhere, "what is open stays open");
        let more = closed.with_write(["/home/agent".into()]);
        assert_eq!((more.write, more.connect), (vec!["/home/agent".into()], closed.connect));
    }

    #[test]
    fn less_can_be_pretended_and_never_more() {
        assert_eq!(by(7, true).at_most("landlock:3,seccomp"), by(3, false));
        assert_eq!(by(2, true).at_most("bubblewrap, landlock:9, seccomp"), by(2, true));
        assert_eq!(by(7, false).at_most("bubblewrap,seccomp"), by(0, false));
        assert_eq!(by(7, true).at_most(""), Availability::default());
        let unfiltered = |by: Availability| Availability { filters: false, ..by };
        assert_eq!(by(7, true).at_most("landlock:4"), unfiltered(by(4, false)));
        assert_eq!(unfiltered(by(7, false)).at_most("landlock:4,seccomp"), unfiltered(by(4, false)));
    }

    #[test]
    fn landlock_is_preferred_where_it_suffices() {
        let (open, closed, port) = (Connect::Anywhere, Connect::Ports(Vec::new()), Connect::Ports(vec![80]));
        let wall = |abi, bubblewrap, connect: &Connect| match by(abi, bubblewrap).wall(connect) {
            Some(Wall::Landlock(_)) => "landlock",
            Some(Wall::Bubblewrap(_)) => "bubblewrap",
            None => "none",
        };
        for (abi, bubblewrap, connect, expected) in [
            (7, true, &closed, "landlock"),
            (3, true, &open, "landlock"),
            (3, true, &closed, "bubblewrap"),
            (3, true, &port, "landlock"),
            (3, false, &closed, "landlock"),
            (2, true, &open, "bubblewrap"),
            (2, false, &open, "landlock"),
            (1, false, &open, "none"),
            (0, true, &port, "bubblewrap"),
            (0, false, &open, "none"),
        ] {
            assert_eq!(wall(abi, bubblewrap, connect), expected, "{abi} {bubblewrap} {connect:?}");
        }
        assert!(by(4, false).can_limit(&port) && !by(3, true).can_limit(&port) && by(3, true).can_limit(&closed));
        let unfiltered = |abi, bubblewrap| Availability { filters: false, ..by(abi, bubblewrap) };
        assert!(!unfiltered(7, false).can_limit(&port) && !unfiltered(3, true).can_limit(&closed));
        assert!(unfiltered(7, false).can_limit(&open));
        assert!(!by(3, false).can_limit(&closed) && !by(0, false).can_limit(&closed) && by(0, false).can_limit(&open));
    }
}
