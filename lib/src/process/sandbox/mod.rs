//! What a command may touch: the files it may write and read, and where it may connect to. Everything it starts is
//! bound by the same.

use std::path::PathBuf;

/// The bounds of a command. Paths that do not exist are left out when the command starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Files and directories that may be written, with all in them.
    pub write: Vec<PathBuf>,
    /// Directories in which files may be made, while none may be removed: the objects of a repository.
    pub add: Vec<PathBuf>,
    /// What may be read beside what may be written; everything if not given.
    pub read: Option<Vec<PathBuf>>,
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_opens_its_own_port_and_no_other() {
        let closed = Sandbox { connect: Connect::Ports(Vec::new()), ..Sandbox::default() };
        assert_eq!(closed.through(4000).connect, Connect::Ports(vec![4000]));
        assert_eq!(closed.with_network().connect, Connect::Anywhere);
        assert_eq!(Sandbox::default().through(4000).connect, Connect::Anywhere, "what is open stays open");
        let more = closed.with_write(["/home/agent".into()]);
        assert_eq!((more.write, more.connect), (vec!["/home/agent".into()], closed.connect));
    }
}
