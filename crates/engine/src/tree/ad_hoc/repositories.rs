//! The repositories with ad-hoc tasks, remembered for commands that look at all of them. The list is a cache in the
//! state directory: without it, only the repository around a command is known.

use std::fs;
use std::path::{Path, PathBuf};

/// The file, below the state directory: a path per line.
const FILE: &str = "repositories";

/// Remembers a repository. Where that cannot be written, it is just not remembered.
pub fn note_repository(state_dir: &Path, repository: &Path) {
    let Ok(repository) = repository.canonicalize() else { return };
    let mut known = known_repositories(state_dir);
    // A line is a path; one with a line break is two others.
    let is_line = repository.to_str().is_some_and(|path| !path.contains('\n'));
    if known.contains(&repository) || !is_line {
        return;
    }
    known.push(repository);
    known.sort();
    let text: String = known.iter().map(|path| format!("{}\n", path.display())).collect();
    let (file, beside) = (state_dir.join(FILE), state_dir.join(format!("{FILE}.{}", std::process::id())));
    let written = fs::create_dir_all(state_dir).and_then(|()| fs::write(&beside, text));
    if written.and_then(|()| fs::rename(&beside, &file)).is_err() {
        let _ = fs::remove_file(&beside);
    }
}

/// The repositories that are remembered and still there.
pub fn known_repositories(state_dir: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(state_dir.join(FILE)).unwrap_or_default();
    text.lines().map(PathBuf::from).filter(|path| path.is_absolute() && path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_remembered_once_and_forgotten_when_gone() {
        let dir = tempfile::tempdir().unwrap();
        let (state, one, two) = (dir.path().join("state"), dir.path().join("one"), dir.path().join("two"));
        assert_eq!(known_repositories(&state), Vec::<PathBuf>::new());
        fs::create_dir_all(&one).unwrap();
        fs::create_dir_all(&two).unwrap();
        for path in [&two, &one, &two] {
            note_repository(&state, path);
        }
        let real = |path: &Path| path.canonicalize().unwrap();
        assert_eq!(known_repositories(&state), [real(&one), real(&two)]);
        fs::remove_dir(&one).unwrap();
        assert_eq!(known_repositories(&state), [real(&two)]);
    }

    #[test]
    fn a_list_that_cannot_be_written_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("state"), "in the way").unwrap();
        note_repository(&dir.path().join("state"), dir.path());
        assert_eq!(known_repositories(&dir.path().join("state")), Vec::<PathBuf>::new());
    }
}
