//! Sparse checkout rules: those of the user's own sparse checkout, and those pleach adds. Both are in git's own file.
//! An agent can write there, so the rules are noted as well and read from the note. Marks in an index only tell which
//! left-out files exist anyway.

use std::path::Path;

use gix::bstr::{BString, ByteSlice as _};
use gix::glob::pattern::Case;
use gix::index::State;
use gix::index::entry::{Flags, Mode};

use super::Notes;
use super::metadata::LONGEST;
use crate::git::error::{Error, IoContext as _, LibraryContext as _};
use crate::git::repo::Repo;
use os::confined_fs::{ConfinedDir, FEW_LINES};

/// The file in a worktree's git directory that has the rules.
const FILE: &str = "info/sparse-checkout";

/// The note of them.
pub(super) const NOTE: &str = "sparse-checkout";

/// The note of what git makes of them.
const KIND: &str = "sparse-kind";

/// The line between the repository's own rules and those that pleach adds.
const ADDED: &[u8] = b"# pleach leaves out\n";

/// The mark of a file that is left out; git writes it only with the second flag.
pub(super) const LEFT_OUT: Flags = Flags::SKIP_WORKTREE.union(Flags::EXTENDED);

/// The rules of one worktree.
#[derive(Debug, Clone, Default)]
pub(super) struct SparseRules {
    /// Those of the user's own sparse checkout, if there is one, and whether it is by directories.
    pub(super) own: Option<(BString, bool)>,
    /// Those that pleach adds, a line each.
    pub(super) added: BString,
    pub(super) ignore_case: bool,
}

impl SparseRules {
    /// The rules as they are noted, or as git has them where nothing is.
    pub fn read(repo: &Repo, git_dir: &Path, notes: Option<&Notes>, ignore_case: bool) -> Result<Self, Error> {
        let noted = notes.map(|notes| notes.read(NOTE, LONGEST)).transpose()?.flatten();
        let kept = noted.map_or_else(|| of_git(git_dir), |noted| Ok(Some(noted)))?;
        let Some(text) = kept.filter(|text| !text.is_empty()) else {
            return Ok(Self { ignore_case, ..Self::default() });
        };
        let (own, added) = split(&text);
        let is_cone = match notes.map(|notes| notes.read(KIND, FEW_LINES)).transpose()?.flatten() {
            Some(kind) => (kind != NONE).then(|| kind == CONE),
            // The user's own checkout, or one that somebody has made with git.
            None => inherited_kind(repo, git_dir)?,
        };
        let own = is_cone.map(|is_cone| (own.into(), is_cone));
        Ok(Self { own, added: added.into(), ignore_case })
    }

    /// Writes the first rules of a worktree that is being made. A repository with a sparse checkout of its own has its rules
    /// there already.
    pub fn begin(git_dir: &Path, rules: &[String]) -> Result<(), Error> {
        let text = of_git(git_dir)?;
        if rules.is_empty() && text.as_deref().is_none_or(|text| split(text).1.is_empty()) {
            return Ok(());
        }
        let own = text.map(|text| split(&text).0.to_vec()).filter(|own| !own.is_empty());
        let rules = Self { own: own.map(|own| (own.into(), false)), added: lines(rules), ignore_case: false };
        rules.write(git_dir)
    }

    /// Notes the rules of a worktree git has just made, before any agent works there.
    pub fn note(repo: &Repo, git_dir: &Path, notes: &Notes) -> Result<(), Error> {
        let text = of_git(git_dir)?.unwrap_or_default();
        let kind = if text.is_empty() { None } else { inherited_kind(repo, git_dir)? };
        notes.write(KIND, kind.map_or(NONE, |is_cone| if is_cone { CONE } else { PATTERNS }))?;
        notes.write(NOTE, &text)
    }

    pub fn write(&self, git_dir: &Path) -> Result<(), Error> {
        let (file, dir) = (git_dir.join(FILE), ConfinedDir::at(git_dir).at("open", git_dir)?);
        if self.is_empty() {
            dir.remove(FILE).at("remove", &file)
        } else {
            dir.write(FILE, &self.text()).at("write", &file)
        }
    }

    /// Whether all files belong into the worktree.
    pub fn is_empty(&self) -> bool {
        self.own.is_none() && self.added.is_empty()
    }

    /// All rules; the last one that fits a path counts.
    pub fn text(&self) -> Vec<u8> {
        let own = self.own.as_ref().map_or(&b"/*\n"[..], |(own, _)| own);
        if self.added.is_empty() { own.to_owned() } else { [own, ADDED, &self.added].concat() }
    }

    /// Marks what is left out of an index without such marks.
    pub fn mark(&self, index: &mut State) -> Result<(), Error> {
        if self.is_empty() {
            return Ok(());
        }
        let is_cone = self.own.as_ref().is_some_and(|(_, is_cone)| *is_cone);
        let case = if self.ignore_case { Case::Fold } else { Case::Sensitive };
        gix::worktree::sparse::apply_patterns(index, &self.text(), Path::new(FILE), is_cone, case)
            .doing("read the rules of a sparse checkout")
    }

    /// Of some paths, those that are left out.
    pub fn leave_out(&self, paths: &[(BString, Mode)]) -> Result<Vec<BString>, Error> {
        let mut index = State::new(gix::hash::Kind::Sha1);
        for (path, mode) in paths {
            let id = gix::ObjectId::null(index.object_hash());
            index.dangerously_push_entry(Default::default(), id, Flags::empty(), *mode, path.as_bstr());
        }
        index.sort_entries();
        self.mark(&mut index)?;
        let left_out = index.entries().iter().filter(|entry| entry.flags.contains(Flags::SKIP_WORKTREE));
        Ok(left_out.map(|entry| entry.path(&index).to_owned()).collect())
    }
}

/// The rules as git has them.
fn of_git(git_dir: &Path) -> Result<Option<Vec<u8>>, Error> {
    ConfinedDir::at(git_dir).and_then(|dir| dir.read(FILE, LONGEST)).at("read", &git_dir.join(FILE))
}

/// The rules of the repository, and those that pleach has added.
fn split(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_once_str(ADDED).unwrap_or((text, b""))
}

pub(super) fn lines(rules: &[String]) -> BString {
    rules.iter().map(|rule| format!("{rule}\n")).collect::<String>().into()
}

/// What there can be in the note of the kind.
const NONE: &[u8] = b"none";

const CONE: &[u8] = b"cone";

const PATTERNS: &[u8] = b"patterns";

/// Whether git takes its rules for a sparse checkout here, and if so, whether by directories. Asked of git where no agent
/// has written: such settings may be the worktree's own.
fn inherited_kind(repo: &Repo, git_dir: &Path) -> Result<Option<bool>, Error> {
    let args = ["config", "--type=bool", "--get-regexp", "^core\\.sparsecheckout(cone)?$"];
    let found = repo.shared.program.run(git_dir, args)?.stdout;
    let found = String::from_utf8_lossy(&found).into_owned();
    // The last setting counts.
    let setting = |name: &str| found.lines().rev().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let is_sparse = setting("core.sparsecheckout") == Some("true");
    Ok(is_sparse.then(|| setting("core.sparsecheckoutcone") != Some("false")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_matching_rule_counts_and_added_rules_stay_separate() {
        let added = lines(&["!/.claude/".to_owned(), "!/old".to_owned()]);
        let own = "/*\n!/*/\n/src/\n/.claude/\n";
        let all = |path: &str| (BString::from(path), Mode::FILE);
        let paths = [".claude/a", "a", "deep/old/b", "old/c", "src/.claude/d", "src/e"].map(all);
        for (own, is_cone, expected) in [
            (None, false, vec![".claude/a", "old/c"]),
            (Some(own), false, vec![".claude/a", "deep/old/b", "old/c"]),
            (Some(own), true, vec![".claude/a", "deep/old/b", "old/c"]),
        ] {
            let own = own.map(|own| (own.into(), is_cone));
            let rules = SparseRules { own, added: added.clone(), ignore_case: false };
            assert_eq!(rules.leave_out(&paths).unwrap(), expected);
            assert_eq!(split(&rules.text()).1, added);
        }
        assert!(SparseRules::default().leave_out(&paths).unwrap().is_empty());
        assert_eq!(split(b"/*\n"), (&b"/*\n"[..], &b""[..]));
    }
}
