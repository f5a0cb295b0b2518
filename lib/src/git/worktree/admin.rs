//! Making, opening, listing and removing worktrees.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::add_failure::{AddFailure, room_at};
use super::cache::Cache;
use super::head::{nonsense, standing};
use super::known_content::NewContent;
use super::listed::{claimed, git_dirs, stands_at};
use super::metadata::Notes;
use super::registration::Origin;
use super::repair::{Making, is_free, is_whole};
use super::restore::remove_directory;
use super::rules::Rules;
use super::{Worktree, sanitize};
use crate::confined_fs::{self, ConfinedDir, FEW_LINES};
use crate::git::crash::{self, Kind, When};
use crate::git::error::{Error, IoContext as _, LibraryContext as _};
use crate::git::head::Head;
use crate::git::id::TreeId;
use crate::git::open::open_with;
use crate::git::program::{Finished, Program};
use crate::git::progress::{Doing, Meter, updated};
use crate::git::repo::Repo;
use crate::ids::CommitId;
use crate::process::sink;

/// How long others are waited for who make a worktree of the same repository: a large one takes its time.
const PATIENCE: Duration = Duration::from_secs(600);

/// How often that is looked at.
const POLL: Duration = Duration::from_millis(10);

impl Worktree {
    /// Makes a new worktree at `path` with the files of `commit` and a detached HEAD.
    pub fn add(repo: &Repo, path: &Path, commit: CommitId) -> Result<Self, Error> {
        Self::add_sparse(repo, path, commit, &[])
    }

    /// The same, but files that these rules of a sparse checkout leave out are not there, and stay what they are in every
    /// tree. Without rules, all are there.
    pub fn add_sparse(repo: &Repo, path: &Path, commit: CommitId, rules: &[String]) -> Result<Self, Error> {
        if !is_free(path) {
            return Err(Error::PlaceTaken { path: path.to_owned() });
        }
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).at("create", parent)?;
        }
        let making = Making::begin(path)?;
        let made = register(repo, path, commit).and_then(|made| Self::fill(repo, path, &made, rules, making));
        if made.is_err() {
            // As git does where it cannot make one. Why it cannot is what counts.
            let _ = Self::remove(repo, path);
        }
        made
    }

    /// Gives a worktree that is being made its files, as far as they are not there.
    fn fill(repo: &Repo, path: &Path, made: &Path, rules: &[String], making: Making) -> Result<Self, Error> {
        check_out(repo, path, made, rules, &making)?;
        crash::point(Kind::HeadUpdate, When::After);
        // Files and index are equally new, so git would read them all at every status until this is done once.
        refresh(repo, path)?;
        let notes = Notes::of(repo.common_dir(), made);
        Rules::note(repo, made, &notes)?;
        let index = made.join("index");
        notes.wrote_index(&index.metadata().at("read", &index)?)?;
        making.end()?;
        Self::open(repo, path)
    }

    /// Finishes a worktree whose making was cut short; none where git had not come to its files, or made it for another
    /// commit. What it has checked out is not written again.
    pub(super) fn finish(repo: &Repo, path: &Path, commit: CommitId, rules: &[String]) -> Result<Option<Self>, Error> {
        // A git that is still at it goes on to its end.
        let making = Making::take_up(path)?;
        let (Some(made), Ok(root)) = (admin_dir(repo, path)?, path.canonicalize()) else { return Ok(None) };
        let is_noted = Origin::of(repo.common_dir(), &made)?.is_some_and(|origin| origin.root == root);
        let is_tied = linked_git_dir(path).is_ok_and(|named| named.is_some_and(|named| same_file(&named, &made)));
        if !is_noted || !is_tied || !stands_at(&made, commit) {
            return Ok(None);
        }
        Self::fill(repo, path, &made, rules, making).map(Some)
    }

    /// Opens a worktree that exists. Its files are compared with the commit it stands at, until another tree is
    /// [accepted](Worktree::accept).
    pub fn open(repo: &Repo, path: &Path) -> Result<Self, Error> {
        let root = path.canonicalize().at("open the worktree", path)?;
        let git_dir = own_git_dir(repo, &root)?;
        let git_dir = match git_dir.canonicalize() {
            // The repository was made anew, or somebody removed what it knew of this worktree.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::LinkReplaced { path: root });
            }
            found => found.at("open the git directory", &git_dir)?,
        };
        let is_agents = is_admin(repo, &git_dir) && !repo.workdir().is_some_and(|own| same_file(own, &root));
        let mut cleared = if is_agents { sanitize::clear(&git_dir)? } else { Vec::new() };
        if is_agents {
            cleared.extend(sanitize::unlock(&root)?);
        }
        let origin = if is_agents { Origin::of(repo.common_dir(), &git_dir)? } else { None };
        if let Some(origin) = &origin {
            cleared.extend(origin.put_settings_back(&git_dir)?);
        }
        tie(repo, &root, &git_dir)?;
        put_head(repo, &git_dir)?;
        let handle = open_with(&git_dir, repo.shared.config.clone())?;
        let mut handle = handle.to_thread_local();
        repo.shared.pool.recent.serve(&mut handle);
        if handle.workdir().is_none() {
            // Its git directory lies elsewhere and does not tell.
            handle.set_workdir(root.clone()).doing("open the worktree")?;
        }
        if same_file(handle.common_dir(), repo.common_dir()) {
            let head = match standing(repo, &handle, is_agents) {
                Ok(Some(head)) => head,
                // An agent was about to begin a history of its own.
                Ok(None) => repo.head()?,
                Err(_) if is_agents => {
                    cleared.push(nonsense(&git_dir.join("HEAD")));
                    write_head(repo, &git_dir)?
                }
                Err(error) => return Err(error),
            };
            let notes = Notes::of(repo.common_dir(), &git_dir);
            let (begun, ignored) = Self::read_begun(&notes)?;
            let mut worktree = Self {
                repo: repo.clone(),
                cache: Cache::empty(&handle),
                tree: repo.tree_of(head.commit)?,
                handle,
                root,
                begun,
                ignored,
                git_dir,
                notes,
                staged: None,
                new_content: NewContent::default(),
                excluded: Vec::new(),
                put_aside: Vec::new(),
                rules: Rules::default(),
                is_agents,
                origin,
                cleared: cleared.into(),
                access: std::cell::Cell::default(),
                stands: std::cell::RefCell::default(),
            };
            worktree.load(worktree.tree)?;
            Ok(worktree)
        } else {
            Err(Error::LinkReplaced { path: root })
        }
    }

    /// Reads the stats of the worktree's own index for the files of `tree`.
    pub(super) fn load(&mut self, tree: TreeId) -> Result<(), Error> {
        let (index, notes) = (self.git_dir.join("index"), self.is_agents.then_some(&self.notes));
        self.rules = Rules::read(&self.repo, &self.git_dir, notes, self.ignores_case()?)?;
        let trusted = notes.is_none_or(|notes| notes.is_own_index(&index));
        self.repo.fetch_trees(tree)?;
        self.cache = Cache::read(&self.handle, tree, &index, trusted, &self.rules)?;
        // What says of other files how they are read is read itself, also where it is left out of the checkout.
        self.repo.fetch_missing(self.cache.rule_files())?;
        self.tree = tree;
        self.staged = None;
        Ok(())
    }

    /// Removes a worktree with all its files, whatever state it is in. Save what is in it first.
    pub fn remove(repo: &Repo, path: &Path) -> Result<(), Error> {
        let mut admin = admin_dir(repo, path)?;
        if path.symlink_metadata().is_ok() {
            remove_directory(path)?;
        }
        while let Some(found) = admin {
            remove_admin(repo, &found)?;
            admin = admin_dir(repo, path)?;
        }
        Making::forget(path)
    }

    /// Lets git forget worktrees whose files are gone.
    pub fn prune(repo: &Repo) -> Result<(), Error> {
        sanitize::clear_pipes(repo.common_dir())?;
        repo.shared.program.run(repo.common_dir(), ["worktree", "prune"])?.success().map(drop)
    }
}

/// Removes the git directory of a worktree with what is noted of it. The next worktree may get its name at once.
pub(super) fn remove_admin(repo: &Repo, admin: &Path) -> Result<(), Error> {
    let _alone = one_at_a_time(repo.common_dir())?;
    remove_directory(admin)?;
    Notes::of(repo.common_dir(), admin).forget()
}

/// Waits until no other pleach makes a worktree of this repository: two gits that do trip over each other's halves. Holds
/// until it is dropped, or its process ends.
fn one_at_a_time(common: &Path) -> Result<File, Error> {
    let dir = common.join("pleach");
    std::fs::create_dir_all(&dir).at("create", &dir)?;
    let path = dir.join("worktrees.lock");
    let file = File::options().create(true).append(true).open(&path).at("open", &path)?;
    hold(&file, &path)?;
    Ok(file)
}

/// Waits until nobody else holds a file.
pub(super) fn hold(file: &File, path: &Path) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        match rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if begun.elapsed() < PATIENCE => std::thread::sleep(POLL),
            // An agent can hold it as well: it need only be able to read it.
            Err(Errno::WOULDBLOCK) => {
                let detail = format!("another process holds `{}`; end it and run again", path.display());
                return Err(Error::Library { doing: "make or remove a worktree".into(), detail });
            }
            Err(error) => return Err(std::io::Error::from(error)).at("lock", path),
        }
    }
}

/// Has git make a worktree without files, and takes note of it. Returns its git directory.
fn register(repo: &Repo, path: &Path, commit: CommitId) -> Result<PathBuf, Error> {
    let (common, id, named) = (repo.common_dir(), commit.to_string(), named_place(path));
    // Forced, so that a place git still knows, but whose files are gone, can be used again.
    let args = ["worktree", "add", "--quiet", "--force", "--detach", "--no-guess-remote", "--no-checkout"];
    let args = args.map(OsStr::new).into_iter().chain([named.as_os_str(), OsStr::new(&id)]);
    let _alone = one_at_a_time(common)?;
    sanitize::clear_pipes(common)?;
    crash::point(Kind::HeadUpdate, When::Before);
    made_by(path, repo.shared.program.run(common, args)?)?;
    repo.shared.whole.add(commit);
    std::fs::rename(&named, path).at("move the worktree to", path)?;
    // Nobody else has written to what git has just made.
    let made = linked_git_dir(path)?.ok_or_else(|| Error::NotARepository { path: path.to_owned() })?;
    let root = path.canonicalize().at("open the worktree", path)?;
    tie(repo, &root, &made)?;
    Notes::sweep(common)?;
    // A worktree before it may have had its name.
    Notes::of(common, &made).forget()?;
    Origin::take(common, &made, &root)?;
    Ok(made)
}

/// Where git makes a worktree that belongs at `path`. It names it after its directory, and one of many that are called
/// `main` says nothing to who sees it in `.git/worktrees`: this one has the name of the directory above in it.
pub(super) fn named_place(path: &Path) -> PathBuf {
    let above = path.parent().and_then(Path::file_name).unwrap_or_default();
    let mut name = above.to_owned();
    name.push("-");
    name.push(path.file_name().unwrap_or_default());
    path.with_file_name(name)
}

/// Checks out what the rules of a sparse checkout leave, but for what is there already. The setting goes to these commands
/// alone: the repository's own settings are the user's, and what is left out is known by the index from here on.
fn check_out(repo: &Repo, path: &Path, git_dir: &Path, rules: &[String], making: &Making) -> Result<(), Error> {
    let program = in_worktree(repo, path);
    // Nobody holds it who makes this worktree.
    let lock = git_dir.join("index.lock");
    match std::fs::remove_file(&lock) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).at("remove", &lock),
        _ => {}
    }
    Rules::begin(git_dir, rules)?;
    let mut files = std::fs::read_dir(path).at("list", path)?.filter_map(Result::ok);
    if files.any(|found| found.file_name() != ".git") {
        if !git_dir.join("index").exists() {
            program.run(path, ["read-tree", "HEAD"])?.success()?;
        }
        // By this git knows those that are as they should be.
        refresh(repo, path)?;
    }
    let sparse: &[&str] = match rules.is_empty() {
        true => &[],
        false => &["-c", "core.sparseCheckout=true", "-c", "core.sparseCheckoutCone=false"],
    };
    let settings = ["-c", "checkout.workers=0", "-c", "submodule.recurse=false"];
    let args = settings.iter().chain(sparse).chain(&["read-tree", "--reset", "-u", "-v", "HEAD"]);
    let told = Arc::new(sink().at("write", git_dir)?);
    let count = told.clone();
    let _meter = Meter::start(repo.listening(), Doing::CheckOut, move || updated(&last_bytes(&count)));
    made_by(path, program.run_long(path, args, making.lock(), told)?)
}

/// That git has made the worktree, or why not.
fn made_by(path: &Path, git: Finished) -> Result<(), Error> {
    match git.code {
        Some(0) => Ok(()),
        Some(_) if git.held_lock().is_none() => {
            // While what git could write is still there.
            let room = room_at(path);
            Err(Box::new(AddFailure::new(path.to_owned(), &git.stderr, room)).into())
        }
        _ => Err(git.failure()),
    }
}

/// Lets git see which files are as its index has them. It reports those that differ by its exit code; a scan shows them
/// anyway.
fn refresh(repo: &Repo, path: &Path) -> Result<(), Error> {
    in_worktree(repo, path).run(path, ["update-index", "-q", "--refresh"]).map(drop)
}

/// Calls in a worktree of pleach's own, also where its repository is somebody else's.
fn in_worktree(repo: &Repo, path: &Path) -> Program {
    repo.shared.program.clone().trusting([path.canonicalize().unwrap_or_else(|_| path.to_owned())])
}

/// The end of what was written to a file.
fn last_bytes(file: &File) -> Vec<u8> {
    let length = file.metadata().map_or(0, |data| data.len());
    let mut bytes = [0; 200];
    let read = file.read_at(&mut bytes, length.saturating_sub(200)).unwrap_or_default();
    bytes[..read].to_vec()
}

/// Puts back what ties a worktree of this repository to it, where an agent has removed it or made it lead elsewhere, so
/// that git finds the repository again.
pub(super) fn tie(repo: &Repo, root: &Path, git_dir: &Path) -> Result<(), Error> {
    if !is_admin(repo, git_dir) {
        return Ok(());
    }
    let common = repo.common_dir();
    // A repository that is gone is not made again by this.
    if common.join("HEAD").exists() {
        std::fs::create_dir_all(git_dir).at("create", git_dir)?;
    }
    let beneath = ConfinedDir::at(git_dir).at("open", git_dir)?;
    let read = |name: &str| beneath.read(name, FEW_LINES).ok().flatten().map(|line| path_of(&line));
    let write =
        |name: &str, content: &[u8]| beneath.write(name, &[content, b"\n"].concat()).at("write", &git_dir.join(name));
    // What git writes is known by its words. Anything else may lead one process here and another one elsewhere: by way of
    // links, and of `/proc/self/cwd`.
    if read("commondir").as_deref() != Some(Path::new("../..")) {
        write("commondir", b"../..")?;
    }
    let link = root.join(".git");
    if read("gitdir").is_none_or(|found| spelled_out(&git_dir.join(found)) != link) {
        write("gitdir", link.as_os_str().as_bytes())?;
    }
    Ok(())
}

/// A path without its `..`, by its words alone.
fn spelled_out(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// Whether a directory is where the repository keeps what belongs to one of its worktrees.
pub(super) fn is_admin(repo: &Repo, git_dir: &Path) -> bool {
    let all = repo.common_dir().join("worktrees");
    git_dir.parent() == Some(&all) || all.canonicalize().is_ok_and(|all| git_dir.parent() == Some(&all))
}

/// Whether a git directory says that it is this worktree's.
pub(super) fn leads_to(git_dir: &Path, root: &Path) -> bool {
    let Ok(Some(line)) = confined_fs::read(&git_dir.join("gitdir"), FEW_LINES) else { return false };
    let found = path_of(&line);
    found == root.join(".git") || git_dir.join(found).parent().is_some_and(|above| same_file(above, root))
}

/// Gives a worktree whose HEAD is gone or says nothing another one, so that it can be opened.
fn put_head(repo: &Repo, git_dir: &Path) -> Result<(), Error> {
    if has_head(git_dir) { Ok(()) } else { write_head(repo, git_dir).map(drop) }
}

/// Writes a HEAD that stands where the repository's own does.
fn write_head(repo: &Repo, git_dir: &Path) -> Result<Head, Error> {
    let head = Head { branch: None, ..repo.head()? };
    let line = format!("{}\n", head.commit);
    let written = ConfinedDir::at(git_dir).and_then(|dir| dir.write("HEAD", line.as_bytes()));
    written.at("write", &git_dir.join("HEAD"))?;
    Ok(head)
}

/// Whether a git directory has a HEAD of the form git gives it.
pub(super) fn has_head(git_dir: &Path) -> bool {
    let Ok(Some(text)) = confined_fs::read(&git_dir.join("HEAD"), FEW_LINES) else { return false };
    let text = text.trim_ascii_end();
    text.starts_with(b"ref: refs/") || gix::ObjectId::from_hex(text).is_ok()
}

/// The git directory the worktree's `.git` file names, none if it has no such file.
pub(in crate::git) fn linked_git_dir(root: &Path) -> Result<Option<PathBuf>, Error> {
    let link = root.join(".git");
    if link.is_dir() {
        return Ok(Some(link));
    }
    match confined_fs::read(&link, FEW_LINES) {
        Ok(None) => Ok(None),
        bytes => {
            let bytes = bytes.at("read", &link)?.unwrap_or_default();
            let target = bytes.strip_prefix(b"gitdir: ").ok_or(Error::LinkReplaced { path: link })?;
            Ok(Some(root.join(path_of(target))))
        }
    }
}

/// The git directory of a worktree, as the repository knows it. What lies in the worktree is the agent's to write: a link
/// in it must not lead to the git directory of the user's checkout, or of anybody else's.
pub(super) fn own_git_dir(repo: &Repo, root: &Path) -> Result<PathBuf, Error> {
    if repo.workdir().is_some_and(|own| same_file(own, root)) {
        return Ok(repo.git_dir().to_owned());
    }
    if let Some(admin) = admin_dir(repo, root)? {
        return Ok(admin);
    }
    let link = root.join(".git");
    let is_main = repo.common_dir() == link && link.symlink_metadata().is_ok_and(|link| link.is_dir());
    match linked_git_dir(root)? {
        None => Err(Error::NotARepository { path: root.to_owned() }),
        Some(_) if is_main => Ok(link),
        Some(_) => Err(Error::LinkReplaced { path: root.to_owned() }),
    }
}

/// The directory in which the repository keeps what belongs to the worktree at `path`. Of pleach's own worktrees it knows
/// by notes; what others say of theirs counts only where there is none, or where its worktree was moved away.
pub(super) fn admin_dir(repo: &Repo, path: &Path) -> Result<Option<PathBuf>, Error> {
    let common = repo.common_dir();
    let is_there = |root: &Path| root == path || same_file(root, path);
    let (mut noted, mut others) = (Vec::new(), Vec::new());
    for git_dir in git_dirs(common)? {
        match Origin::of(common, &git_dir)? {
            Some(origin) if is_there(&origin.root) => noted.push(git_dir),
            Some(origin) if origin.root.symlink_metadata().is_ok() => {}
            _ => others.push(git_dir),
        }
    }
    // Who was killed while one took the place of another has left both.
    let whole = noted.iter().position(|git_dir| is_whole(git_dir)).unwrap_or_default();
    let mut noted = noted.into_iter().skip(whole);
    let claims = |git_dir: &PathBuf| claimed(git_dir).is_some_and(|root| is_there(&root));
    Ok(noted.next().or_else(|| others.into_iter().find(claims)))
}

pub(super) fn path_of(line: &[u8]) -> PathBuf {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    PathBuf::from(std::ffi::OsString::from_vec(line.to_vec()))
}

pub(super) fn same_file(one: &Path, two: &Path) -> bool {
    matches!((one.canonicalize(), two.canonicalize()), (Ok(one), Ok(two)) if one == two)
}
