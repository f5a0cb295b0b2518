//! What git could not merge, tried file by file without an agent: made again by a command, resolved as before, merged word
//! by word, merged by structure. What is left is shown between markers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use super::resolutions::RecordedResolutions;
use super::structural::StructuralMerge;
use git::{Conflict, ConflictSide, ConflictedFile, EntryKind, Repo, TreeEdit, TreeId, Writer, workspace};
use pleach_core::config::{BadPattern, DerivedRules, Environment, MergeSettings};
use pleach_core::ids::RepoPath;
use pleach_core::merge::{
    ConflictLabels, ResolvedHunk, TextMerge, Tier, has_records, is_generated, keeps_lines, keeps_words, learn,
    marked_text, with_resolved,
};

/// What may be tried.
#[derive(Debug, Clone)]
pub struct TierOptions {
    /// The highest tier; with [`Tier::Clean`] conflicts are only marked.
    pub limit: Tier,
    /// The files that are made by commands.
    pub derived: DerivedRules,
    /// The program that merges by structure.
    pub structural: Option<StructuralMerge>,
    /// What was resolved before, where that is not what the repository has recorded.
    pub resolutions: Option<RecordedResolutions>,
    /// What the sides are called where they are left in conflict.
    pub labels: ConflictLabels,
}

impl Default for TierOptions {
    fn default() -> Self {
        Self {
            limit: Tier::Derived,
            derived: DerivedRules::default(),
            structural: None,
            resolutions: None,
            labels: ConflictLabels::default(),
        }
    }
}

impl TierOptions {
    /// What the settings of the merge queue allow. Temporary files are noted in the state directory.
    pub fn from_settings(
        settings: &MergeSettings,
        environment: &Environment,
        state_dir: &Path,
    ) -> Result<Self, BadPattern> {
        Ok(Self {
            derived: DerivedRules::new(&settings.derived)?,
            structural: StructuralMerge::find(settings.structural, environment, state_dir),
            ..Self::default()
        })
    }
}

/// What became of a conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierResult {
    /// The merged files: what was resolved is in, what is left is marked.
    pub tree: TreeId,
    /// The highest tier that was needed.
    pub tier: Tier,
    /// What was resolved, and how.
    pub resolved: Vec<ResolvedHunk>,
    /// What must be run in the merged files, before anything else looks at them.
    pub derived: Vec<DerivedRun>,
    /// The files that are still in conflict.
    pub remaining: Vec<ConflictedFile>,
    /// How long each tier took.
    pub spent: BTreeMap<Tier, Duration>,
}

/// A command that makes files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedRun {
    /// The files that were in conflict.
    pub paths: Vec<RepoPath>,
    /// The command.
    pub command: String,
}

/// Resolves what can be resolved of the conflict that merging the changes from `base` to `theirs` into `ours` has.
pub fn resolve_conflict(
    repo: &Repo,
    base: TreeId,
    ours: TreeId,
    theirs: TreeId,
    conflict: &Conflict,
    options: &TierOptions,
) -> Result<TierResult, workspace::Error> {
    let loaded = match &options.resolutions {
        Some(_) => None,
        None => Some(RecordedResolutions::load(repo)?),
    };
    let recorded = options.resolutions.as_ref().or(loaded.as_ref()).filter(|_| options.limit >= Tier::Recorded);
    let mut run = TierRun {
        repo,
        options,
        attributes: Attributes { tree: ours, conflict, generated: None },
        recorded,
        writer: repo.writer(),
        edits: Vec::new(),
        result: TierResult {
            tree: conflict.marked,
            tier: Tier::Clean,
            resolved: Vec::new(),
            derived: Vec::new(),
            remaining: Vec::new(),
            spent: BTreeMap::new(),
        },
    };
    for file in &conflict.files {
        if run.derive(file) || run.take_same(file, [base, ours, theirs])? || run.merge_lines(file, conflict.marked)? {
            continue;
        }
        run.result.remaining.push(file.clone());
    }
    let TierRun { mut writer, edits, mut result, .. } = run;
    if !edits.is_empty() {
        result.tree = writer.tree(Some(conflict.marked), &edits)?;
        writer.flush()?;
    }
    Ok(result)
}

/// The texts of both sides, and how each hunk in conflict was resolved so far.
struct OpenFile {
    path: RepoPath,
    texts: [Vec<u8>; 3],
    merge: TextMerge,
    chosen: Vec<Option<(Tier, Vec<u8>)>>,
}

impl OpenFile {
    fn is_open(&self) -> bool {
        self.chosen.iter().any(Option::is_none)
    }

    /// The merge with what was chosen.
    fn merged(&self) -> TextMerge {
        let mut chosen = self.chosen.iter();
        self.merge.clone().resolved(|_| chosen.next().and_then(|chosen| Some(chosen.as_ref()?.1.clone())))
    }

    /// The texts of all sides with what was chosen.
    fn with_chosen(&self) -> [Vec<u8>; 3] {
        let chosen: Vec<_> = self.chosen.iter().map(|chosen| Some(chosen.as_ref()?.1.as_slice())).collect();
        with_resolved(self.texts.each_ref().map(Vec::as_slice), &chosen)
    }
}

/// The attributes of the files in conflict, asked for once, for the first file that is about to be merged by its text.
struct Attributes<'a> {
    /// The target's files.
    tree: TreeId,
    conflict: &'a Conflict,
    generated: Option<BTreeSet<RepoPath>>,
}

impl Attributes<'_> {
    fn say_generated(&mut self, repo: &Repo, path: &RepoPath) -> Result<bool, git::Error> {
        if self.generated.is_none() {
            let paths = self.conflict.files.iter().map(|file| &file.path).collect();
            let values = git::attribute(repo, self.tree, "linguist-generated", &paths)?;
            let is_said = |value: &[u8]| matches!(value, b"set" | b"true");
            self.generated =
                Some(values.into_iter().filter(|(_, value)| is_said(value)).map(|(path, _)| path).collect());
        }
        Ok(self.generated.as_ref().is_some_and(|generated| generated.contains(path)))
    }
}

struct TierRun<'a> {
    repo: &'a Repo,
    options: &'a TierOptions,
    attributes: Attributes<'a>,
    recorded: Option<&'a RecordedResolutions>,
    writer: Writer,
    edits: Vec<TreeEdit>,
    result: TierResult,
}

impl TierRun<'_> {
    /// Takes the target's file, if a command makes it again.
    fn derive(&mut self, file: &ConflictedFile) -> bool {
        let begun = Instant::now();
        let command = self.options.derived.command_of(&file.path).filter(|_| self.options.limit >= Tier::Derived);
        let Some(command) = command.map(str::to_owned) else { return false };
        let path = file.path.clone();
        self.edits.push(match file.ours {
            Some(ConflictSide { mode, id }) => TreeEdit::Put(path.clone(), mode, id),
            None => TreeEdit::Remove(path.clone()),
        });
        match self.result.derived.iter_mut().find(|run| run.command == command) {
            Some(run) => run.paths.push(path.clone()),
            None => self.result.derived.push(DerivedRun { paths: vec![path.clone()], command }),
        }
        self.resolved(path, 0, Tier::Derived);
        self.spent(Tier::Derived, begun);
        true
    }

    /// Takes what both sides have made of a file, if that is the same.
    fn take_same(&mut self, file: &ConflictedFile, trees: [TreeId; 3]) -> Result<bool, git::Error> {
        let mut found = Vec::new();
        for tree in trees {
            found.push(self.repo.tree_entry(tree, &file.path)?.map(|entry| (entry.kind, entry.id)));
        }
        let is_same = found[1] == found[2] && found[1] != found[0];
        let Some((kind, id)) = found[1].filter(|_| is_same) else { return Ok(false) };
        self.edits.push(TreeEdit::Put(file.path.clone(), kind, id));
        Ok(true)
    }

    /// Merges a file both sides have lines of. False if something of it is left in conflict.
    fn merge_lines(&mut self, file: &ConflictedFile, marked: TreeId) -> Result<bool, workspace::Error> {
        let Some(mut open) = self.open(file)? else { return Ok(false) };
        let limit = self.limit_of(&open)?;
        // git's lines are in conflict where ours are not, and nothing may be made of that.
        let is_by_lines = open.chosen.is_empty();
        if is_by_lines && limit < Tier::Tokens {
            return Ok(false);
        }
        self.choose(&mut open, limit)?;
        let text = if open.is_open() { self.by_structure(&mut open, limit)? } else { open.merged().clean() };
        let kind = self.repo.tree_entry(marked, &file.path)?.map_or(EntryKind::File, |entry| entry.kind);
        let shown = text.as_ref().map_or_else(|| marked_text(&open.merged(), &self.options.labels), Clone::clone);
        let blob = self.writer.blob(&shown)?;
        self.edits.push(TreeEdit::Put(file.path.clone(), kind, blob));
        if is_by_lines {
            self.resolved(open.path.clone(), 0, Tier::Tokens);
        }
        for (at, chosen) in open.chosen.iter().enumerate() {
            if let Some((source, _)) = chosen {
                self.resolved(open.path.clone(), at + 1, *source);
            }
        }
        Ok(text.is_some())
    }

    /// The texts of a file that has lines on both sides.
    fn open(&self, file: &ConflictedFile) -> Result<Option<OpenFile>, git::Error> {
        let is_text = |side: ConflictSide| matches!(side.mode, EntryKind::File | EntryKind::Executable);
        let sides = [file.base, file.ours, file.theirs];
        let has_both = file.ours.is_some() && file.theirs.is_some();
        if !file.kind.is_of_lines() || !has_both || !sides.into_iter().flatten().all(is_text) {
            return Ok(None);
        }
        let mut texts = [const { Vec::new() }; 3];
        for (text, side) in texts.iter_mut().zip(sides) {
            if let Some(side) = side {
                *text = self.repo.blob(side.id)?;
            }
        }
        let merge = TextMerge::lines(&texts[0], &texts[1], &texts[2]);
        let chosen = vec![None; merge.conflicts().count()];
        Ok(Some(OpenFile { path: file.path.clone(), texts, merge, chosen }))
    }

    /// The highest tier that may be tried with a file: one that is made as a whole is not merged by its text.
    fn limit_of(&mut self, open: &OpenFile) -> Result<Tier, git::Error> {
        let limit = self.options.limit;
        let is_made = limit >= Tier::Tokens
            && (self.options.derived.command_of(&open.path).is_some()
                || has_records(&open.path)
                || is_generated(&open.path, open.texts.each_ref().map(Vec::as_slice))
                || self.attributes.say_generated(self.repo, &open.path)?);
        Ok(if is_made { Tier::Recorded } else { limit })
    }

    /// Resolves each hunk as it was before, or word by word.
    fn choose(&mut self, open: &mut OpenFile, limit: Tier) -> Result<(), git::Error> {
        let begun = Instant::now();
        for (hunk, chosen) in open.merge.conflicts().zip(&mut open.chosen) {
            if let Some(recorded) = self.recorded {
                *chosen = recorded.find(self.repo, &open.path, hunk)?.map(|text| (Tier::Recorded, text));
            }
        }
        self.spent(Tier::Recorded, begun);
        if limit < Tier::Tokens {
            return Ok(());
        }
        let begun = Instant::now();
        for (hunk, chosen) in open.merge.conflicts().zip(&mut open.chosen) {
            if chosen.is_none() {
                *chosen = hunk.by_tokens().map(|text| (Tier::Tokens, text));
            }
        }
        self.spent(Tier::Tokens, begun);
        Ok(())
    }

    /// Merges the whole file by its structure, with what was chosen for hunks in all sides alike. The program's file is the
    /// result or nothing of it: what is gone from a hunk there may have moved to other lines. It may have changed the hunks
    /// alone, if it kept the words of both sides, and other lines as well, if it kept all of them.
    fn by_structure(&mut self, open: &mut OpenFile, limit: Tier) -> Result<Option<Vec<u8>>, workspace::Error> {
        let Some(program) = self.options.structural.as_ref().filter(|_| limit >= Tier::Structural) else {
            return Ok(None);
        };
        let begun = Instant::now();
        let texts = open.with_chosen();
        let [base, ours, theirs] = texts.each_ref().map(Vec::as_slice);
        let merged = program.merge(&open.path, [base, ours, theirs])?;
        self.spent(Tier::Structural, begun);
        let Some(merged) = merged else { return Ok(None) };
        let frame = open.merged();
        let found = learn(&frame, &merged);
        let is_of_hunks = frame.is_made_of(&found, &merged);
        let keeps = if is_of_hunks { keeps_words } else { keeps_lines };
        if !keeps(base, ours, theirs, &merged) {
            return Ok(None);
        }
        if is_of_hunks {
            let left = open.chosen.iter_mut().filter(|chosen| chosen.is_none());
            left.zip(found).for_each(|(chosen, (_, text))| *chosen = Some((Tier::Structural, text)));
        } else {
            self.resolved(open.path.clone(), 0, Tier::Structural)
        }
        Ok(Some(merged))
    }

    fn resolved(&mut self, path: RepoPath, hunk: usize, source: Tier) {
        self.result.tier = self.result.tier.max(source);
        self.result.resolved.push(ResolvedHunk { path, hunk, source });
    }

    fn spent(&mut self, tier: Tier, since: Instant) {
        *self.result.spent.entry(tier).or_default() += since.elapsed();
    }
}
