//! The standard streams of a command.

/// The standard input of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Empty.
    #[default]
    Null,
    /// These bytes, then the end. A command need not read all of them.
    Bytes(Vec<u8>),
}

/// An output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}
