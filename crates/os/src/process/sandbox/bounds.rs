//! The sandbox of a command, and the system features that enforce it.

use std::io;
use std::path::PathBuf;

/// The first Landlock version under which programs can move files between directories.
pub(super) const MOVES: u32 = 2;

/// The first Landlock version that restricts truncating files.
pub(super) const TRUNCATES: u32 = 3;

/// The first Landlock version that restricts the network.
pub(super) const CONNECTS: u32 = 4;

/// The first Landlock version that restricts signals.
pub(super) const SIGNALS: u32 = 6;

/// Devices that every program needs to write.
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

/// The sandbox of a command. Paths that do not exist when the command starts are ignored, and so are those inside
/// directories that the command may write: a link there would lead elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// What can enforce it. A command whose sandbox cannot be enforced is not started.
    pub by: Availability,
    /// Writable files and directories, including everything in them.
    pub write: Vec<PathBuf>,
    /// Object directories of repositories: loose objects may be added, but none removed, and nothing else may be
    /// written that git would trust.
    pub add: Vec<PathBuf>,
    /// Readable paths in addition to the writable ones; everything if `None`.
    pub read: Option<Vec<PathBuf>>,
    /// Exceptions from the readable paths. Writable paths inside them stay readable.
    pub hide: Vec<PathBuf>,
    /// Paths that are always readable, even inside hidden ones.
    pub show: Vec<PathBuf>,
    /// Allowed connections.
    pub connect: Connect,
}

/// The connections a command may make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Connect {
    /// Anywhere.
    #[default]
    Anywhere,
    /// TCP ports on any host; an empty list allows none.
    Ports(Vec<u16>),
}

/// The available enforcement features.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Availability {
    /// The version of the kernel's Landlock, if it is present and enabled.
    pub landlock_abi: Option<u32>,
    /// The bubblewrap program, if installed. It may still not be usable, which `bubblewrap_works` checks.
    pub bubblewrap: Option<PathBuf>,
    /// Whether system calls can be filtered. Without that the network cannot be closed, and other processes can be
    /// slowed down.
    pub filters: bool,
}

/// What enforces a sandbox.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wall<'a> {
    Landlock(u32),
    Bubblewrap(&'a PathBuf),
}

impl Availability {
    /// These features limited to the given ones: `landlock:3`, `bubblewrap`, `seccomp`, several separated by commas, or
    /// none.
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

    /// The best enforcement for these connections: Landlock, or bubblewrap if the kernel's Landlock is too old for the
    /// request.
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

    /// Whether connections can be restricted to these.
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
    /// The sandbox for an agent that reaches its model through this local port. An open network stays open.
    pub fn through(&self, port: u16) -> Self {
        let connect = match &self.connect {
            Connect::Anywhere => Connect::Anywhere,
            Connect::Ports(ports) => Connect::Ports(ports.iter().copied().chain([port]).collect()),
        };
        Self { connect, ..self.clone() }
    }

    /// The sandbox for an agent that calls its model itself, and so needs the network.
    pub fn with_network(&self) -> Self {
        Self { connect: Connect::Anywhere, ..self.clone() }
    }

    /// The sandbox with more writable paths.
    pub fn with_write(&self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let write = self.write.iter().cloned().chain(paths).collect();
        Self { write, ..self.clone() }
    }

    /// The sandbox with more readable paths, if reading is restricted.
    pub fn with_read(&self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let show = self.show.iter().cloned().chain(paths).collect();
        Self { show, ..self.clone() }
    }

    /// Whether the sandbox restricts connections. If the kernel cannot do that, the network is open.
    pub fn limits_connections(&self) -> bool {
        self.connect != Connect::Anywhere && self.by.can_limit(&self.connect)
    }
}

/// Why a command was not started in its sandbox.
#[derive(Debug)]
pub(in crate::process) enum NotStarted {
    /// The sandbox could not be applied.
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
