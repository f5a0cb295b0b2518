//! Who wrote each line of a file, as `git blame` says.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use super::error::Error;
use super::repo::Repo;
use pleach_core::ids::{CommitId, RepoPath};
use pleach_core::text::unquoted_path;

/// What is asked of a file.
#[derive(Debug, Clone, Default)]
pub struct BlameRequest<'a> {
    /// Whose lines are asked for; without one the files of the checkout.
    pub tip: Option<CommitId>,
    /// Commits that this one has are not looked into.
    pub below: Option<CommitId>,
    /// A file with the content that is asked for, in place of that of `tip`.
    pub contents: Option<&'a Path>,
    /// The lines, counted from 1; all where none are named.
    pub lines: Vec<RangeInclusive<u32>>,
    /// Changes of blanks do not count.
    pub ignores_blanks: bool,
    /// The user's list of commits to ignore does not count, so that the answer is the same for everybody.
    pub ignores_none: bool,
}

/// Lines that follow each other, of one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlamedLines {
    /// The commit; none for what is not committed.
    pub commit: Option<CommitId>,
    /// The file there.
    pub path: RepoPath,
    /// The first of them there, counted from 1.
    pub line: u32,
    /// The first of them in the file that was asked about.
    pub at: u32,
    /// How many they are.
    pub count: u32,
    /// The file as it was before that commit.
    pub previous: Option<(CommitId, RepoPath)>,
    /// They are older than what was looked into.
    pub is_below: bool,
}

/// The lines of a file, in their order.
pub fn blame(repo: &Repo, path: &RepoPath, request: &BlameRequest<'_>) -> Result<Vec<BlamedLines>, Error> {
    let dir = repo.workdir().unwrap_or_else(|| repo.git_dir());
    let mut args: Vec<OsString> = ["blame", "--incremental", "--no-textconv", "--root"].map(OsString::from).to_vec();
    args.extend(request.ignores_blanks.then(|| "-w".into()));
    args.extend(request.ignores_none.then(|| "--ignore-revs-file=".into()));
    args.extend(request.lines.iter().map(|lines| format!("-L{},{}", lines.start(), lines.end()).into()));
    if let Some(contents) = request.contents {
        args.extend(["--contents".into(), contents.into()]);
    }
    args.extend(request.tip.map(|tip| tip.to_string().into()));
    args.extend(request.below.map(|base| format!("^{base}").into()));
    args.extend(["--".into(), OsString::from_vec(path.as_bytes().to_vec())]);
    let said = repo.shared.program.run(dir, args)?.success()?;
    let unread = || Error::Library { doing: "read what `git blame` says".into(), detail: "it is cut short".into() };
    read(&said).ok_or_else(unread)
}

/// The oldest git that lays a file over a commit.
const CONTENTS: (u32, u32) = (2, 41);

/// Whether this git can be asked about other content than that of a commit.
pub fn takes_contents(repo: &Repo) -> bool {
    super::program::parse_version(repo.git_version()).is_some_and(|version| version >= CONTENTS)
}

/// The lines of the incremental format. A commit is only told to be older than what was looked into where it comes first.
fn read(said: &[u8]) -> Option<Vec<BlamedLines>> {
    let (mut found, mut older): (Vec<BlamedLines>, BTreeMap<CommitId, bool>) = (Vec::new(), BTreeMap::new());
    let mut open: Option<BlamedLines> = None;
    for line in said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let (key, value) = line.split_at(line.iter().position(|byte| *byte == b' ').unwrap_or(line.len()));
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match (&mut open, key) {
            (None, _) => {
                let mut numbers = std::str::from_utf8(value).ok()?.split(' ').map(|number| number.parse::<u32>().ok());
                let commit: CommitId = std::str::from_utf8(key).ok()?.parse().ok()?;
                open = Some(BlamedLines {
                    commit: (commit.as_bytes() != &[0; 20]).then_some(commit),
                    path: RepoPath::new([]),
                    line: numbers.next()??,
                    at: numbers.next()??,
                    count: numbers.next()??,
                    previous: None,
                    is_below: older.get(&commit).copied().unwrap_or_default(),
                });
            }
            (Some(lines), b"boundary") => {
                lines.is_below = true;
                older.extend(lines.commit.map(|commit| (commit, true)));
            }
            (Some(lines), b"previous") => {
                let (commit, path) = value.split_at_checked(40)?;
                let commit = std::str::from_utf8(commit).ok()?.parse().ok()?;
                lines.previous = Some((commit, RepoPath::new(unquoted_path(path.strip_prefix(b" ")?)?)));
            }
            (Some(lines), b"filename") => {
                lines.path = RepoPath::new(unquoted_path(value)?);
                found.extend(open.take());
            }
            _ => {}
        }
    }
    found.sort_by_key(|lines| lines.at);
    open.is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_says_is_read_in_the_order_of_lines() {
        let (one, two, none) = ["1", "2", "0"].map(|digit| digit.repeat(40)).into();
        let said = format!(
            "{one} 3 4 2\nauthor A\nsummary filename x\nboundary\nprevious {two} \"a\\tb\"\nfilename a b\n\
             {none} 1 1 3\nauthor Not Committed Yet\nfilename \"\\303\\244\"\n{one} 9 6 1\nfilename a b\n"
        );
        let found = read(said.as_bytes()).unwrap();
        let shown: Vec<_> = found.iter().map(|lines| (lines.at, lines.line, lines.count, lines.is_below)).collect();
        assert_eq!(shown, [(1, 1, 3, false), (4, 3, 2, true), (6, 9, 1, true)]);
        assert_eq!((found[0].commit, found[0].path.as_bytes()), (None, "\u{e4}".as_bytes()));
        assert_eq!(found[1].previous, Some((two.parse().unwrap(), RepoPath::from("a\tb"))));
        assert_eq!(read(format!("{one} 3 4 2\nauthor A\n").as_bytes()), None);
    }
}
