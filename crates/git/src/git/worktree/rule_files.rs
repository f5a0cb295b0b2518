//! The files git reads by name: `.gitattributes`, `.gitignore`, `.gitmodules`.

use rustix::fs::FileType;

/// The files of a worktree that git reads for what they say about others.
pub(super) const RULES: [&[u8]; 3] = [b".gitattributes", b".gitignore", b".gitmodules"];

/// No rules are longer, and git itself reads none that are.
pub(super) const LONGEST: u64 = 100 << 20;

/// Whether something has a name git reads, and to read it would wait or take all the memory there is.
pub(super) fn blocks_reading(name: &[u8], kind: FileType, size: impl FnOnce() -> u64) -> bool {
    RULES.contains(&name) && is_endless(kind, size)
}

pub(super) fn is_endless(kind: FileType, size: impl FnOnce() -> u64) -> bool {
    is_special(kind) || kind == FileType::RegularFile && size() > LONGEST
}

fn is_special(kind: FileType) -> bool {
    matches!(kind, FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice)
}

/// Whether a path is that of a file that says what is ignored.
pub fn are_ignore_rules(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next() == Some(b".gitignore")
}
