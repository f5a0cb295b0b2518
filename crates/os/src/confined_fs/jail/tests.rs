use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A worktree with an `outside` beside it that nobody may see or change.
struct Site {
    dir: TempDir,
    jail: Jail,
}

impl Site {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let root = dir.path().join("work");
        for directory in ["work/sub/deep", "outside"] {
            fs::create_dir_all(dir.path().join(directory)).unwrap();
        }
        fs::write(dir.path().join("outside/secret"), "secret").unwrap();
        fs::write(root.join("in.txt"), "inside").unwrap();
        fs::write(root.join(".git"), "gitdir: elsewhere\n").unwrap();
        let jail = Jail::new(&root, &root, Some(&dir.path().join("status.json"))).unwrap();
        Self { dir, jail }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.root().join(name)).unwrap();
    }

    fn read(&self, path: &str) -> Result<String, JailError> {
        self.jail.read(path, 1 << 20).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    fn write(&self, path: &str) -> Result<Option<PathBuf>, JailError> {
        self.jail.write(path, b"written")
    }

    fn refused(&self, path: &str) {
        let read = self.read(path);
        assert!(matches!(read, Err(JailError::Outside(_))), "read {path}: {read:?}");
        let written = self.write(path);
        assert!(matches!(written, Err(JailError::Outside(_))), "write {path}: {written:?}");
        let located = self.jail.locate(path);
        assert!(matches!(located, Err(JailError::Outside(_))), "locate {path}: {located:?}");
        self.unharmed();
    }

    fn unharmed(&self) {
        assert_eq!(fs::read_to_string(self.dir.path().join("outside/secret")).unwrap(), "secret");
        let names: Vec<_> =
            fs::read_dir(self.dir.path().join("outside")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["secret"], "nothing new outside");
        assert_eq!(fs::read_to_string(self.root().join(".git")).unwrap(), "gitdir: elsewhere\n");
    }
}

#[test]
fn paths_inside_work_in_every_spelling() {
    let site = Site::new();
    let absolute = site.root().join("in.txt");
    for path in ["in.txt", "./in.txt", "sub/../in.txt", "sub/deep/../../in.txt", absolute.to_str().unwrap()] {
        assert_eq!(site.read(path).unwrap(), "inside", "{path}");
    }
    assert_eq!(site.write("a/b/c.txt").unwrap(), Some("a/b/c.txt".into()));
    assert_eq!(site.read("a/b/c.txt").unwrap(), "written");
    assert_eq!(site.jail.locate(".").unwrap(), PathBuf::new());
    assert_eq!(site.jail.locate("sub/").unwrap(), PathBuf::from("sub"));
}

#[test]
fn dots_and_absolute_paths_do_not_leave() {
    let site = Site::new();
    let secret = site.dir.path().join("outside/secret");
    let sneaky = site.root().join("../outside/secret");
    for path in ["..", "../outside/secret", "sub/../../outside/secret", "/etc/passwd", "/"] {
        site.refused(path);
    }
    site.refused(secret.to_str().unwrap());
    site.refused(sneaky.to_str().unwrap());
    site.refused(&format!("{}x/secret", site.root().display()));
}

#[test]
fn links_that_stay_are_followed() {
    let site = Site::new();
    site.link("in.txt", "file");
    site.link("sub/deep", "dir");
    site.link("../../in.txt", "sub/deep/up");
    site.link(site.root().canonicalize().unwrap().join("in.txt"), "absolute");
    site.link("new.txt", "dangling");
    for path in ["file", "dir/up", "absolute", "dir/../../in.txt"] {
        assert_eq!(site.read(path).unwrap(), "inside", "{path}");
    }
    assert_eq!(site.write("dir/new").unwrap(), Some("sub/deep/new".into()), "the real place is told");
    assert_eq!(site.write("dangling").unwrap(), Some("new.txt".into()));
    assert_eq!(site.write("file").unwrap(), Some("in.txt".into()));
    assert!(fs::symlink_metadata(site.root().join("file")).unwrap().is_symlink(), "the link itself stays");
    assert_eq!(site.read("in.txt").unwrap(), "written");
}

#[test]
fn links_that_leave_are_refused() {
    let site = Site::new();
    let outside = site.dir.path().join("outside");
    site.link(outside.join("secret"), "file");
    site.link("../outside/secret", "relative");
    site.link(&outside, "dir");
    site.link(outside.join("new"), "dangling");
    site.link("../outside/new", "sub/../dangling2");
    site.link("dir", "chain");
    site.link("..", "up");
    site.link("/proc/self/cwd", "magic");
    for path in ["file", "relative", "dir/secret", "dir/new", "dangling", "dangling2", "chain/secret", "chain/x/y"] {
        site.refused(path);
    }
    for path in ["up/outside/secret", "sub/../up/outside/secret", "magic/x", "up"] {
        site.refused(path);
    }
}

#[test]
fn circles_of_links_end() {
    let site = Site::new();
    site.link("b", "a");
    site.link("a", "b");
    assert!(matches!(site.read("a/x"), Err(JailError::Io { .. })));
}

#[test]
fn git_is_read_and_not_written() {
    let site = Site::new();
    fs::create_dir_all(site.root().join("vendor/.git")).unwrap();
    fs::write(site.root().join("vendor/.git/config"), "old").unwrap();
    site.link(".git", "alias");
    site.link("vendor/.git", "dir");
    for path in
        [".git", ".git/config", ".GIT/hooks/x", "vendor/.git/config", "alias", "dir/config", "dir/new", "new/.git/x"]
    {
        assert!(matches!(site.write(path), Err(JailError::Git(_))), "{path}: {:?}", site.write(path));
    }
    assert_eq!(fs::read_to_string(site.root().join("vendor/.git/config")).unwrap(), "old");
    assert!(!site.root().join("vendor/.git/new").exists() && !site.root().join("new/.git").exists());
    assert_eq!(site.read("vendor/.git/config").unwrap(), "old");
    assert!(site.write(".gitignore").is_ok() && site.write(".github/x").is_ok());
    site.unharmed();
}

#[test]
fn files_of_one_directory_outside_are_only_read() {
    let mut site = Site::new();
    site.jail = site.jail.with_reads(Some(&site.dir.path().join("outside")));
    let inside = |name: &str| format!("{}/outside/{name}", site.dir.path().display());
    assert_eq!(site.read(&inside("secret")).unwrap(), "secret");
    assert!(matches!(site.write(&inside("secret")), Err(JailError::Outside(_))));
    fs::create_dir(inside("deeper")).unwrap();
    let deeper = site.read(&inside("deeper/x"));
    assert!(matches!(deeper, Err(JailError::Outside(_))), "{deeper:?}");
    symlink("/etc/passwd", inside("link")).unwrap();
    assert!(site.read(&inside("link")).is_err());
}

#[test]
fn the_one_file_outside_is_the_status_file() {
    let site = Site::new();
    let status = site.dir.path().join("status.json");
    assert_eq!(site.write(status.to_str().unwrap()).unwrap(), None);
    assert_eq!(fs::read_to_string(&status).unwrap(), "written");
    assert_eq!(site.read(&format!("{}/./status.json", site.dir.path().display())).unwrap(), "written");
    site.refused(&format!("{}/status.json2", site.dir.path().display()));
    fs::remove_file(&status).unwrap();
    symlink(site.dir.path().join("outside/secret"), &status).unwrap();
    assert!(site.write(status.to_str().unwrap()).is_err(), "a link in its place is not followed");
    site.unharmed();
}

#[test]
fn a_path_that_is_not_a_file_is_reported() {
    let site = Site::new();
    assert!(matches!(site.read(""), Err(JailError::Empty)));
    assert!(matches!(site.read("sub"), Err(JailError::Directory(_))));
    assert!(matches!(site.write("sub"), Err(JailError::Directory(_))));
    assert!(matches!(site.write("."), Err(JailError::Directory(_))));
    assert!(matches!(site.read("none/x"), Err(JailError::Missing(_))));
    assert!(matches!(site.read("in.txt/x"), Err(JailError::NotDirectory(_))));
    assert!(matches!(site.write("in.txt/x"), Err(JailError::NotDirectory(_))));
    assert!(matches!(site.read("a\0b"), Err(JailError::Io { .. })));
    rustix::fs::mkfifoat(rustix::fs::CWD, site.root().join("pipe"), Mode::from_raw_mode(0o600)).unwrap();
    assert!(matches!(site.read("pipe"), Err(JailError::Special(_))), "and nobody waits for a writer");
    assert!(matches!(site.write("pipe"), Err(JailError::Special(_))));
    assert!(matches!(site.write("none/../x"), Err(JailError::Missing(_))));
    assert!(!site.root().join("none").exists());
}

#[test]
fn another_name_of_a_file_elsewhere_keeps_its_content() {
    let site = Site::new();
    fs::hard_link(site.dir.path().join("outside/secret"), site.root().join("shared")).unwrap();
    fs::set_permissions(site.root().join("shared"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(site.write("shared").unwrap(), Some("shared".into()));
    assert_eq!(site.read("shared").unwrap(), "written");
    assert_eq!(fs::metadata(site.root().join("shared")).unwrap().mode() & 0o777, 0o755, "still executable");
    site.unharmed();
}

#[test]
fn modes_and_the_file_itself_stay() {
    let site = Site::new();
    let path = site.root().join("in.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let before = fs::metadata(&path).unwrap();
    site.write("in.txt").unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_eq!((before.ino(), before.mode()), (after.ino(), after.mode()));
}

#[test]
fn relative_paths_reach_up_to_the_root_only() {
    let site = Site::new();
    let jail = Jail::new(&site.root(), &site.root().join("sub"), None).unwrap();
    assert_eq!(jail.read("../in.txt", 100).unwrap(), b"inside");
    assert!(matches!(jail.read("../../outside/secret", 100), Err(JailError::Outside(_))));
    assert_eq!(jail.shown(Path::new("sub/deep/x")), Path::new("deep/x"));
    assert_eq!(jail.shown(Path::new("in.txt")), Path::new("../in.txt"));
    assert_eq!(jail.directories_to_start(), [PathBuf::new(), PathBuf::from("sub")]);
    assert!(Jail::new(&site.root(), &site.dir.path().join("outside"), None).is_err());
}

/// A directory that changes places with a link to the outside, as fast as it can, while it is written to.
#[test]
fn a_directory_swapped_for_a_link_lets_nothing_out() {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let site = Site::new();
    let (dir, link) = (site.root().join("d"), site.root().join("l"));
    fs::create_dir(&dir).unwrap();
    symlink(site.dir.path().join("outside"), &link).unwrap();
    let done = AtomicBool::new(false);
    let mut leaked = false;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let (mut written, mut refused) = (0, 0);
        while written < 500 || refused < 500 {
            match site.write(&format!("d/{}", written % 7)) {
                Ok(_) => written += 1,
                Err(_) => refused += 1,
            }
            leaked |= matches!(site.read("d/secret"), Ok(text) if text == "secret");
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(!leaked);
    site.unharmed();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_path_gets_out(parts in prop::collection::vec(prop_oneof![
        Just(".."), Just("."), Just("sub"), Just("deep"), Just("dir"), Just("up"), Just("self"), Just("outside"),
        Just("secret"), Just("in.txt"), Just(".git"), Just("new"), Just(""),
    ], 1..8), absolute: bool) {
        let site = Site::new();
        site.link(site.dir.path().join("outside"), "dir");
        site.link("..", "up");
        site.link(".", "self");
        let mut path = parts.join("/");
        if absolute {
            path = format!("{}/{path}", site.root().display());
        }
        prop_assert!(!matches!(site.read(&path), Ok(text) if text == "secret"), "{path}");
        let _ = site.write(&path);
        site.unharmed();
    }
}
