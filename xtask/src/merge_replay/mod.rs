//! Replays the merge commits of a repository through the tiers that need no agent, and compares the results with what
//! people have committed.

mod borrowed;
mod compare;
mod generate;
mod random;
mod replay;
mod report;
mod scenario;

use std::path::Path;
use std::process::ExitCode;

use engine::merging::{RecordedResolutions, StructuralMerge, TierOptions};
use pleach_core::config::{DerivedFiles, DerivedRules, Environment, Structural};

use crate::usage::{Done, USAGE};
use borrowed::BorrowedRepo;

/// Reads the arguments and does what they say.
pub fn run(args: &[&str]) -> Done {
    match args {
        ["--generate", dir, count] => generated(dir, count, "1"),
        ["--generate", dir, count, "--seed", seed] => generated(dir, count, seed),
        [repo, rest @ ..] if !repo.starts_with("--") => replayed(Path::new(repo), rest),
        _ => Err(USAGE.into()),
    }
}

fn generated(dir: &str, count: &str, seed: &str) -> Done {
    let (count, seed) = (count.parse()?, seed.parse()?);
    generate::generate(Path::new(dir), count, seed)?;
    println!("{dir} has {count} merges with conflicts; replay them with `cargo xtask merge-replay {dir}`");
    Ok(ExitCode::SUCCESS)
}

fn replayed(repo: &Path, mut args: &[&str]) -> Done {
    let (mut limit, mut derived) = (None, Vec::new());
    while let [name, value, rest @ ..] = args {
        match *name {
            "--limit" => limit = Some(value.parse()?),
            "--derived" => derived.push((*value).to_owned()),
            _ => break,
        }
        args = rest;
    }
    if !args.is_empty() {
        return Err(USAGE.into());
    }
    let borrowed = BorrowedRepo::new(repo)?;
    let options = options(&borrowed, derived)?;
    println!("{}", replay::replay(&borrowed, limit, options)?);
    Ok(ExitCode::SUCCESS)
}

/// All tiers without an agent. What was resolved before is learned on the way.
fn options(borrowed: &BorrowedRepo, derived: Vec<String>) -> Result<TierOptions, Box<dyn std::error::Error>> {
    let rules =
        Some(DerivedFiles { paths: derived, command: "made again".into() }).filter(|rule| !rule.paths.is_empty());
    Ok(TierOptions {
        derived: DerivedRules::new(rules.as_slice())?,
        structural: StructuralMerge::find(Structural::Auto, &Environment::capture(), &borrowed.state_dir()),
        resolutions: Some(RecordedResolutions::default()),
        ..TierOptions::default()
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use pleach_core::event::ConflictKind;
    use pleach_core::merge::Tier;
    use tempfile::TempDir;

    use super::*;
    use report::Report;

    const COUNT: usize = 60;

    fn history() -> (TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("history");
        generate::generate(&repo, COUNT, 7).unwrap();
        (dir, repo)
    }

    fn report(repo: &Path, limit: Option<usize>) -> Report {
        let borrowed = BorrowedRepo::new(repo).unwrap();
        let mut options = options(&borrowed, vec!["*.lock".into()]).unwrap();
        // Whatever is installed on the machine of the test.
        options.structural = None;
        replay::replay(&borrowed, limit, options).unwrap()
    }

    fn git(dir: &Path, args: &[&str]) -> String {
        borrowed::git(dir, args).unwrap()
    }

    #[test]
    fn merges_of_every_kind_are_replayed_and_nothing_is_written() {
        let (_dir, repo) = history();
        let seen = || (git(&repo, &["for-each-ref"]), git(&repo, &["count-objects", "-v"]));
        let before = seen();
        let report = report(&repo, None);
        assert_eq!(seen(), before, "refs and objects");
        assert_eq!((report.conflicting, report.refused), (COUNT, 0));
        assert!(report.clean_as_committed > 0 && report.clean_changed > 0);
        use ConflictKind::{
            AddAdd, Binary, Content, DirectoryRename, FileDirectory, Mode, ModifyDelete, RenameDelete, RenameRename,
            Submodule,
        };
        let kinds = [
            Content,
            AddAdd,
            ModifyDelete,
            RenameRename,
            RenameDelete,
            DirectoryRename,
            FileDirectory,
            Binary,
            Submodule,
            Mode,
        ];
        assert_eq!(report.kinds.keys().copied().collect::<Vec<_>>(), kinds);
        for tier in [Tier::Recorded, Tier::Tokens, Tier::Derived] {
            assert!(report.tiers[&tier].hunks > 0 && !report.tiers[&tier].spent.is_zero(), "{tier}");
        }
        let candidates = report.candidates();
        assert!((COUNT / 4..COUNT).contains(&candidates), "{candidates}");
        assert_eq!(report.alarms_on_clean, 0);
        let text = report.to_string();
        assert!(text.contains("| recorded |") && text.contains("| content |") && !text.contains("shallow"), "{text}");
        assert_eq!(self::report(&repo, Some(5)).merges, 5);
    }

    #[test]
    fn a_generated_history_follows_from_its_seed() {
        let (_one, first) = history();
        let (_two, second) = history();
        let tip = |repo: &Path| git(repo, &["rev-parse", "main"]);
        assert_eq!(tip(&first), tip(&second));
        assert!(generate::generate(&first, 1, 1).is_err(), "nothing is written where something is");
    }

    #[test]
    fn histories_that_were_cut_off_are_said() {
        let (dir, repo) = history();
        let url = format!("file://{}", repo.display());
        git(dir.path(), &["clone", "-q", "--depth", "6", &url, "shallow"]);
        let shallow = report(&dir.path().join("shallow"), None);
        assert!(shallow.is_shallow && shallow.to_string().contains("shallow"), "{shallow}");
        assert!(shallow.merges < report(&repo, None).merges);
        git(&repo, &["config", "uploadpack.allowFilter", "true"]);
        git(dir.path(), &["clone", "-q", "--bare", "--filter=blob:none", &url, "partial"]);
        let partial = report(&dir.path().join("partial"), None);
        assert!(partial.is_partial && partial.incomplete > 0 && partial.to_string().contains("partial"), "{partial}");
    }
}
