//! Hidden paths: unreadable although everything around them is readable.

use std::path::{Path, PathBuf};

/// Resolves paths as far as they exist: files that appear later are hidden as well.
pub(super) fn real(paths: &[PathBuf]) -> Vec<PathBuf> {
    let real = paths.iter().filter(|path| path.is_absolute()).map(|path| {
        let there = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
        there.map_or_else(
            || path.clone(),
            |(above, real)| match path.strip_prefix(above) {
                Ok(below) if !below.as_os_str().is_empty() => real.join(below),
                _ => real,
            },
        )
    });
    real.collect()
}

/// The relation of a path to the hidden ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HiddenRelation {
    /// It is hidden.
    In,
    /// It contains a hidden path.
    Around,
    /// It contains no hidden path.
    Beside,
}

impl HiddenRelation {
    /// Both must be resolved, without links.
    pub fn of(path: &Path, hidden: &[PathBuf]) -> Self {
        match () {
            () if hidden.iter().any(|hidden| path.starts_with(hidden)) => Self::In,
            () if hidden.iter().any(|hidden| hidden.starts_with(path)) => Self::Around,
            () => Self::Beside,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_hide_their_targets_and_missing_paths_are_hidden_too() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("disk/keys")).unwrap();
        symlink("disk/keys", root.join("keys")).unwrap();
        let paths = ["keys", "keys/none/below", "disk", "none"].map(|path| root.join(path));
        let expected = ["disk/keys", "disk/keys/none/below", "disk", "none"].map(|path| root.join(path));
        assert_eq!(real(&paths), expected);
        assert_eq!(real(&["relative".into()]), Vec::<PathBuf>::new());
    }

    #[test]
    fn what_lies_beside_is_told_from_what_lies_around() {
        let hidden = ["/h/.ssh".into(), "/h/.config/gh".into()];
        for (path, lies) in [
            ("/", HiddenRelation::Around),
            ("/h/.config", HiddenRelation::Around),
            ("/h/.ssh", HiddenRelation::In),
            ("/h/.ssh/id", HiddenRelation::In),
            ("/h/.sshd", HiddenRelation::Beside),
            ("/h/.config/git", HiddenRelation::Beside),
        ] {
            assert_eq!(HiddenRelation::of(Path::new(path), &hidden), lies, "{path}");
        }
    }
}
