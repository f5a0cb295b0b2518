//! Trees that are checked or decided about, without working them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::tree::ad_hoc::TaskStore;
use engine::tree::progress::ProgressReader;
use engine::tree::{Marking, TreeRepo, as_merged_now};
use git::workspace::{Lock, LockHolder, target_lock};
use pleach_core::ids::{BranchName, RepoName, TaskId};
use pleach_core::plan::ad_hoc::AdHocTask;
use pleach_core::plan::tree::{TaskNode, TaskTree};
use pleach_core::progress::{Progress, TaskState};
use pleach_core::schedule::{NextAction, ScheduleOptions};
use pleach_core::step::TreeName;
use pleach_core::text::{closest, listed};

use super::find::{HOW_TO_HAVE_ONE, NAME, TreeFile, read, usual};
pub(super) use super::plan::{limits, target};
use super::repos::{TreePlaces, first_next};
use crate::code::Code;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::{of_store, of_tree};
use crate::place::Place;
use crate::settings::{self, Settings};

/// The branch whose trees are meant, and how they are read.
#[derive(Debug)]
pub struct TreeContext {
    pub settings: Settings,
    /// The repository.
    pub place: Place,
    /// The branch that is checked out.
    pub target: BranchName,
    /// Attempts, gates and branches.
    pub limits: ScheduleOptions,
    base: Option<BranchName>,
    dir: PathBuf,
    /// The ad-hoc task that is meant, which has no file.
    ad_hoc: Option<AdHocTask>,
}

/// A tree and what happened to it.
#[derive(Debug)]
pub struct TreeWithProgress {
    pub file: TreeFile,
    /// What happened to it, as seen from the repository that is looked at.
    pub progress: Progress,
    /// Its repositories, if its tasks are in several.
    pub places: Option<TreePlaces>,
    /// What each of those has by itself.
    each: BTreeMap<RepoName, Progress>,
}

/// The history of a tree, from its commits, also where its file cannot be read.
#[derive(Debug)]
pub struct TreeHistory {
    progress: Progress,
    file: Option<TreeFile>,
    /// Its repositories, if its tasks are in several.
    places: Option<TreePlaces>,
    /// Why its file cannot be read, where that is known.
    pub broken: Option<BrokenTree>,
}

/// A tree that was worked or is in its usual place, and cannot be shown.
#[derive(Debug)]
pub struct BrokenTree {
    /// Its file, from the root of the repository.
    pub path: String,
    /// Why not.
    pub why: String,
    /// Its file is there, and is no valid tree.
    pub invalid: bool,
}

impl TreeContext {
    /// The repository around the directory pleach works in, and the branch that is checked out there.
    pub fn find(globals: &Globals) -> Result<Self, Failure> {
        Self::with(globals, settings::load_for(globals, &globals.dir)?)
    }

    fn with(globals: &Globals, settings: Settings) -> Result<Self, Failure> {
        let place = Place::find(&globals.dir, None, &settings)?;
        let target = target(&place)?;
        Ok(Self::on(globals, settings, place, target))
    }

    /// As [`TreeContext::find`], with what is known already.
    pub fn on(globals: &Globals, settings: Settings, place: Place, target: BranchName) -> Self {
        let config = &settings.resolved.config;
        let (limits, base) = (limits(config), config.tree.base_branch.clone());
        Self { settings, place, target, limits, base, dir: globals.dir.clone(), ad_hoc: None }
    }

    /// As [`TreeContext::find`], for a task: an ad-hoc task is looked at on its own target.
    pub fn for_task(globals: &Globals, task: Option<&TaskId>) -> Result<Self, Failure> {
        Self::of_task(globals, settings::load_for(globals, &globals.dir)?, task)
    }

    /// As [`TreeContext::for_task`], for a command that decides about the task, or only shows what it would write.
    pub fn to_decide(globals: &Globals, task: &TaskId, dry_run: bool) -> Result<Self, Failure> {
        let settings = settings::load_for(globals, &globals.dir)?.deepening(!dry_run);
        Self::of_task(globals, settings, Some(task))
    }

    fn of_task(globals: &Globals, settings: Settings, task: Option<&TaskId>) -> Result<Self, Failure> {
        let Some(task) = task.filter(|task| task.is_ad_hoc()) else { return Self::with(globals, settings) };
        let place = Place::find(&globals.dir, None, &settings)?;
        let Some(found) = TaskStore::new(&place.repo).get(task).map_err(|error| of_store(&error))? else {
            return Self::with(globals, settings);
        };
        let target = found.task.target.clone();
        Ok(Self { ad_hoc: Some(found.task), ..Self::on(globals, settings, place, target) })
    }

    /// A reader of what happened to trees.
    pub fn reader(&self) -> ProgressReader {
        ProgressReader::new(&self.place.repo, &self.target, &self.place.branch_prefix, self.base.as_ref())
    }

    /// The handle that skips or resets tasks of a tree.
    pub fn marking<'a>(&'a self, file: &'a TreeFile) -> Marking<'a> {
        Marking {
            repo: &self.place.repo,
            repo_name: &self.place.name,
            tree: &file.tree,
            name: &file.name,
            target: &self.target,
            branch_prefix: &self.place.branch_prefix,
            base_branch: self.base.as_ref(),
        }
    }

    /// The process that works the tasks of the branch now.
    pub fn holder(&self) -> Option<LockHolder> {
        Lock::holder(self.place.repo.common_dir(), &target_lock(&self.target))
    }

    /// The tree that was asked for; without one, all that lie where trees usually are or were worked on the branch.
    pub fn trees(
        &self,
        asked: Option<&Path>,
        reader: &mut ProgressReader,
    ) -> Result<(Vec<TreeWithProgress>, Vec<BrokenTree>), Failure> {
        let repo = &self.place.repo;
        let file = match (asked, &self.ad_hoc) {
            (Some(asked), _) => Some(read(&self.dir.join(asked), repo)?),
            (None, Some(task)) => Some(TreeFile::of_task(task)?),
            (None, None) => None,
        };
        if let Some(file) = file {
            return Ok((vec![self.with_progress(file, reader)?], Vec::new()));
        }
        let root = repo.workdir().unwrap_or(&self.dir).to_owned();
        let mut places = usual(&root);
        let worked = reader.trees().map_err(|error| of_tree(&error.into()))?.into_iter().map(|tree| root.join(tree));
        let mut more: Vec<PathBuf> = worked.filter(|place| !places.contains(place)).collect();
        more.sort();
        places.extend(more);
        let (mut trees, mut broken) = (Vec::new(), Vec::new());
        for place in places {
            let path = place.strip_prefix(&root).unwrap_or(&place).display().to_string();
            if !place.is_file() {
                // Of one outside nothing but its name is known.
                let what = if path.contains('/') {
                    "the file is gone"
                } else {
                    "it is outside the repository or gone; name it with --tree"
                };
                broken.push(BrokenTree { path, why: format!("it was worked here, and {what}"), invalid: false });
                continue;
            }
            match read(&place, repo).and_then(|file| self.places(&file).map(|_| file)) {
                Ok(file) => trees.push(self.with_progress(file, reader)?),
                Err(failure) => broken.push(BrokenTree { path, why: failure.sentence(), invalid: true }),
            }
        }
        Ok((trees, broken))
    }

    fn places(&self, file: &TreeFile) -> Result<Option<TreePlaces>, Failure> {
        TreePlaces::find(&file.tree, &self.place, &self.settings)
    }

    fn with_progress(&self, file: TreeFile, reader: &mut ProgressReader) -> Result<TreeWithProgress, Failure> {
        let progress = reader.read(&file.name).map_err(|error| of_tree(&error.into()))?.of(&file.tree);
        let (repo, prefix) = (&self.place.repo, &self.place.branch_prefix);
        let progress = as_merged_now(repo, &file.tree, &self.limits, &self.target, prefix, progress);
        let progress = progress.map_err(|error| of_tree(&error))?;
        let Some(places) = self.places(&file)? else {
            return Ok(TreeWithProgress { file, progress, places: None, each: BTreeMap::new() });
        };
        let mut each = places.repos.read(&file.tree, &file.name).map_err(|error| of_tree(&error.into()))?;
        each.insert(self.place.name.clone(), progress.clone());
        let progress = progress.with_outside(&file.tree, &self.place.name, &places.repos.nodes, &each);
        Ok(TreeWithProgress { file, progress, places: Some(places), each })
    }

    /// The repository a task of a tree is worked in, and the tree as seen from there. None if that is this one.
    pub fn at_task(&self, tree: &TreeWithProgress, task: &TaskId) -> Option<(Self, TreeWithProgress)> {
        let places = tree.places.as_ref()?;
        let tree_repo = places.of(task).filter(|tree_repo| tree_repo.name != self.place.name)?;
        let own = tree.each.get(&tree_repo.name).cloned().unwrap_or_default();
        let progress = own.with_outside(&tree.file.tree, &tree_repo.name, &places.repos.nodes, &tree.each);
        let place = Place {
            repo: tree_repo.repo.clone(),
            name: tree_repo.name.clone(),
            branch_prefix: tree_repo.branch_prefix.clone(),
        };
        let context = Self {
            settings: self.settings.clone(),
            place,
            target: tree_repo.target.clone(),
            limits: self.limits.clone(),
            base: tree_repo.base_branch.clone(),
            dir: self.dir.clone(),
            ad_hoc: None,
        };
        let (file, each) = (tree.file.clone(), tree.each.clone());
        Some((context, TreeWithProgress { file, progress, places: Some(places.clone()), each }))
    }

    /// The histories of the named tree, of those that have the task, or of all of the branch.
    pub fn worked(&self, asked: Option<&Path>, task: Option<&TaskId>) -> Result<Vec<TreeHistory>, Failure> {
        let mut reader = self.reader();
        let (trees, broken) = self.trees(asked, &mut reader)?;
        // What other programs did names no tree, so any name finds it.
        let unnamed = (trees.is_empty() && broken.is_empty()).then_some(None);
        let history = |TreeWithProgress { progress, file, places, .. }: TreeWithProgress| TreeHistory {
            progress,
            file: Some(file),
            places,
            broken: None,
        };
        let mut worked: Vec<TreeHistory> = trees.into_iter().map(history).collect();
        if asked.is_none() && self.ad_hoc.is_none() {
            let progress = reader.read(&TreeName::Tasks).map_err(|error| of_tree(&error.into()))?;
            let any = progress.tasks().next().is_some();
            worked.extend(any.then_some(TreeHistory { progress, file: None, places: None, broken: None }));
        }
        for broken in broken.into_iter().map(Some).chain(unnamed) {
            let path = broken.as_ref().map_or(NAME, |tree| tree.path.as_str());
            let progress = reader.read(&TreeName::File(path.to_owned())).map_err(|error| of_tree(&error.into()))?;
            worked.push(TreeHistory { progress, file: None, places: None, broken });
        }
        if let Some(task) = task {
            let with_task = || worked.iter().filter(|worked| worked.has(task));
            if with_task().next().is_none() || with_task().filter(|worked| worked.file.is_some()).count() > 1 {
                let files: Vec<&TreeFile> = worked.iter().filter_map(|worked| worked.file.as_ref()).collect();
                return Err(no_single_tree(task, &files, worked.iter().find_map(|worked| worked.broken.as_ref())));
            }
            worked.retain(|worked| worked.has(task));
        }
        Ok(worked)
    }

    /// The one tree that was asked for, or that has the task.
    pub fn tree_of(&self, asked: Option<&Path>, task: &TaskId) -> Result<TreeWithProgress, Failure> {
        let (trees, broken) = self.trees(asked, &mut self.reader())?;
        let (mut with_task, others): (Vec<TreeWithProgress>, Vec<TreeWithProgress>) =
            trees.into_iter().partition(|tree| tree.file.tree.node(task).is_some());
        if with_task.len() == 1 {
            return Ok(with_task.remove(0));
        }
        let files: Vec<&TreeFile> = with_task.iter().chain(&others).map(|tree| &tree.file).collect();
        Err(no_single_tree(task, &files, broken.first()))
    }
}

/// Why a task is not that of one tree: there is no tree, none has it, or several have it.
fn no_single_tree(task: &TaskId, files: &[&TreeFile], broken: Option<&BrokenTree>) -> Failure {
    if files.is_empty() {
        let hint = broken.map_or_else(|| HOW_TO_HAVE_ONE.to_owned(), BrokenTree::cannot_be_used);
        return Failure::new(Code::NoTree, format!("there is no task `{task}`: no tree was found")).hint(hint);
    }
    let paths = |files: &[&TreeFile]| listed(files.iter().map(|file| file.name.to_string()), 5);
    let with_task: Vec<&TreeFile> = files.iter().copied().filter(|file| file.tree.node(task).is_some()).collect();
    if !with_task.is_empty() {
        let message = format!("several trees have a task `{task}`: {}", paths(&with_task));
        return Failure::new(Code::TaskAmbiguous, message).hint("name one with --tree");
    }
    let ids = files.iter().flat_map(|file| file.tree.nodes()).map(|node| node.id.as_str());
    let hint = match closest(task.as_str(), ids) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "`pleach status -v` lists the tasks".to_owned(),
    };
    Failure::new(Code::NoSuchTask, format!("there is no task `{task}` in {}", paths(files))).hint(hint)
}

impl BrokenTree {
    /// Why none of its tasks is known.
    pub fn cannot_be_used(&self) -> String {
        format!("`{}` cannot be used: {}", self.path, self.why)
    }
}

impl TreeHistory {
    /// The tasks of the tree that have steps; all that have some where the tree is unknown.
    pub fn tasks(&self) -> impl Iterator<Item = (&TaskId, &TaskState)> {
        self.progress
            .tasks_anywhere()
            .filter(|(id, _)| self.file.as_ref().is_none_or(|file| file.tree.node(id).is_some()))
    }

    /// The repository a task is worked in, if it is one of several.
    pub fn repo_of(&self, task: &TaskId) -> Option<&TreeRepo> {
        self.places.as_ref()?.of(task)
    }

    /// Whether steps may be missing, because a shallow clone has left a part of the history behind.
    pub fn is_cut_off(&self) -> bool {
        self.progress.cut_off
    }

    fn has(&self, task: &TaskId) -> bool {
        match &self.file {
            Some(file) => file.tree.node(task).is_some(),
            None => self.tasks().any(|(id, _)| id == task),
        }
    }
}

impl TreeWithProgress {
    /// What would be done first in any of its repositories, by what `next` says of one.
    pub fn next(&self, next: impl Fn(&Arc<TaskTree>, &Progress) -> NextAction) -> NextAction {
        let tree = &self.file.tree;
        let Some(places) = &self.places else { return next(tree, &self.progress) };
        let seen = places.used.iter().map(|place| {
            let own = self.each.get(&place.name).cloned().unwrap_or_default();
            let seen = own.with_outside(tree, &place.name, &places.repos.nodes, &self.each);
            next(tree, &seen)
        });
        first_next(tree, seen)
    }

    /// The name of the repository a node is worked in, if its tree has several.
    pub fn repo_of(&self, node: &TaskId) -> Option<&RepoName> {
        Some(self.places.as_ref()?.repos.nodes.of(node))
    }

    /// The branches its tasks land on, each with its repository, if its tree has several.
    pub fn targets(&self) -> Vec<&TreeRepo> {
        self.places.iter().flat_map(|places| places.repos.used(&self.file.tree)).collect()
    }

    /// Whether a run over it was started anywhere.
    pub fn is_begun(&self) -> bool {
        let tree = &self.file.tree;
        self.progress.is_begun(tree) || self.each.values().any(|own| own.is_begun(tree))
    }

    /// A node that is known to be in the tree.
    pub fn node(&self, task: &TaskId) -> &TaskNode {
        self.file.tree.node(task).expect("the tree was chosen because it has the task")
    }
}
