//! The headings, tasks and dependencies of all files, before they are made a tree.

use std::collections::BTreeMap;

use super::dependency_line::{self, Dependency};
use super::lines::{self, LineKind, SpecLines, TaskLine};
use super::location::SpecLocation;
use super::title_dependency::TitleDependency;
use crate::ids::TaskId;

/// A phase, a group or an open task.
pub(super) struct OutlineNode {
    pub place: SpecLocation,
    pub is_task: bool,
    pub id: String,
    pub name: String,
    pub description: String,
    pub parent: Option<usize>,
}

/// What an id stands for.
pub(super) struct Used {
    pub place: SpecLocation,
    /// None for a finished task.
    pub node: Option<usize>,
}

#[derive(Default)]
pub(super) struct Outline {
    pub nodes: Vec<OutlineNode>,
    pub ids: BTreeMap<String, Used>,
    pub links: Vec<Dependency>,
    /// What looks like a dependency and is none, because a heading has ended those; with what to do about it.
    pub cut_off: Vec<(Vec<Dependency>, String)>,
    pub errors: Vec<(SpecLocation, String)>,
    /// What may not be read as it was meant.
    pub warnings: Vec<(SpecLocation, String)>,
    /// The ids of tasks that are written without one, finished ones included, in order.
    pub given: Vec<(SpecLocation, TaskId)>,
    files: Vec<String>,
    groups: usize,
    /// The ids that tasks are written with.
    written: BTreeMap<TaskId, SpecLocation>,
    /// The number of the last id that was given.
    number: u32,
    /// Titles that speak of what their task depends on.
    in_titles: Vec<TitleDependency>,
}

/// Where in a file the reader is.
#[derive(Default)]
struct OutlineCursor {
    /// The open headings: their levels and nodes.
    headings: Vec<(usize, usize)>,
    in_dependencies: bool,
    /// A heading of the first level that has ended the dependencies, until one of the second follows. It may have been meant as
    /// a comment.
    ended_by: Option<(u64, String)>,
    /// The tasks whose descriptions may continue, each below the one before it: their nodes, and how far their lines
    /// are indented. What belongs to one without a node, a finished one, is skipped.
    tasks: Vec<(Option<usize>, usize)>,
    /// The first line with `→`.
    arrow: Option<SpecLocation>,
    /// The first line with `->`, and what says the same with `→`.
    ascii_arrow: Option<(SpecLocation, String, String)>,
}

impl OutlineCursor {
    fn node(&self) -> Option<usize> {
        self.headings.last().map(|(_, node)| *node)
    }

    /// Ends the descriptions no line that is so far indented belongs to. Says whether there was one.
    fn leave(&mut self, indent: usize) -> bool {
        let before = self.tasks.len();
        self.tasks.retain(|(_, task)| *task < indent);
        self.tasks.len() < before
    }
}

impl Outline {
    /// Reads files, which are given by name and text.
    pub fn read(files: &[&(String, String)]) -> Self {
        let mut outline = Self { files: files.iter().map(|(name, _)| name.clone()).collect(), ..Self::default() };
        for (file, (_, text)) in files.iter().enumerate() {
            outline.find_ids(file, text);
        }
        for (file, (_, text)) in files.iter().enumerate() {
            outline.file(file, text);
        }
        outline.read_titles();
        outline
    }

    /// Notes the ids that tasks are written with: those that are given are others.
    fn find_ids(&mut self, file: usize, text: &str) {
        for line in SpecLines::new(text).filter(|line| line.kind == LineKind::Text) {
            let place = SpecLocation { file, line: line.number };
            let id = lines::task(line.text).and_then(|task| task.id);
            id.into_iter().for_each(|id| {
                self.written.entry(id).or_insert(place);
            });
        }
    }

    /// The id of a task that is written without one: the next that no task has.
    fn give_id(&mut self, place: SpecLocation) -> TaskId {
        loop {
            self.number += 1;
            let id = TaskId::new(format!("T{:03}", self.number)).expect("letters and digits are an id");
            if !self.written.contains_key(&id) {
                self.given.push((place, id.clone()));
                return id;
            }
        }
    }

    /// Reads what titles say their tasks depend on, now that all ids are known.
    fn read_titles(&mut self) {
        for said in std::mem::take(&mut self.in_titles) {
            match said.read(|id| self.ids.contains_key(id), &self.links) {
                Ok(links) => self.links.extend(links),
                Err(warning) => self.warnings.extend(warning.map(|warning| (said.place, warning))),
            }
        }
    }

    /// Which nodes are open tasks or hold any.
    pub fn with_open_tasks(&self) -> Vec<bool> {
        let mut kept: Vec<bool> = self.nodes.iter().map(|node| node.is_task).collect();
        // A parent comes before its parts.
        for (at, node) in self.nodes.iter().enumerate().rev() {
            if let Some(parent) = node.parent.filter(|_| kept[at]) {
                kept[parent] = true;
            }
        }
        kept
    }

    fn file(&mut self, file: usize, text: &str) {
        let mut position = OutlineCursor::default();
        let mut lines = SpecLines::new(text);
        for line in lines.by_ref() {
            let place = SpecLocation { file, line: line.number };
            match line.kind {
                LineKind::Comment => {}
                LineKind::Code if position.in_dependencies => self.dependency(place, &mut position, line.text),
                LineKind::Opens => {
                    // Beside all tasks it ends none.
                    let indent = lines::indent(line.text);
                    if position.tasks.first().is_some_and(|(_, task)| *task < indent) {
                        position.leave(indent);
                    }
                    self.describe(&position, line.text);
                }
                LineKind::Code | LineKind::Closes => {
                    self.describe(&position, line.text);
                    self.suspect(place, &position, line.text);
                }
                LineKind::Text => {
                    if let Some((level, title)) = lines::heading(line.text) {
                        self.heading(place, &mut position, level, title);
                    } else if position.in_dependencies {
                        self.dependency(place, &mut position, line.text);
                    } else {
                        self.text(place, &mut position, line.text);
                    }
                }
            }
        }
        if let Some((line, message)) = lines.never_closed() {
            self.errors.push((SpecLocation { file, line }, message));
        }
        self.warn_of_arrows(position);
    }

    fn heading(&mut self, place: SpecLocation, position: &mut OutlineCursor, level: usize, title: &str) {
        self.warn_of_heading(place, position, level, title);
        position.tasks.clear();
        position.headings.retain(|(open, _)| *open < level);
        if level <= 2 {
            if level == 2 {
                position.ended_by = None;
            } else if position.in_dependencies {
                position.ended_by = Some((place.line, title.to_owned()));
            }
            position.in_dependencies = level == 2 && lines::is_dependencies(title);
            if let Some((number, name)) = lines::phase(title).filter(|_| level == 2) {
                let name = if name.is_empty() { title } else { name };
                let node = self.add(place, format!("phase{number}"), name, None, false);
                position.headings.extend(node.map(|node| (level, node)));
            }
        } else if !position.in_dependencies {
            // Every heading counts, with tasks or without: ticking one off must not rename the groups after it.
            self.groups += 1;
            let id = format!("group{}", self.groups);
            let node = self.add(place, id, title, position.node(), false);
            position.headings.extend(node.map(|node| (level, node)));
        }
    }

    /// Warns of a heading that looks like a phase or the dependencies and is not.
    fn warn_of_heading(&mut self, place: SpecLocation, position: &OutlineCursor, level: usize, title: &str) {
        let is_read = level == 2 && (lines::phase(title).is_some() || lines::is_dependencies(title));
        // Below the dependencies, deeper headings order them for the eye.
        if is_read || level > 2 && position.in_dependencies {
            return;
        }
        let (what, form) = match (lines::is_like_dependencies(title), lines::is_like_phase(title)) {
            (true, _) => ("the dependencies", "## Dependencies"),
            (false, true) => ("a phase", "## Phase N: Title"),
            (false, false) => return,
        };
        let heading = format!("{} {title}", "#".repeat(level));
        self.warnings.push((place, format!("`{heading}` is not read as {what}; write `{form}` to make it one")));
    }

    /// Warns of a file in which an arrow may be read the wrong way round.
    fn warn_of_arrows(&mut self, position: OutlineCursor) {
        let Some((place, text, turned)) = position.ascii_arrow else { return };
        let message = match position.arrow {
            Some(SpecLocation { line, .. }) => format!(
                "`{text}` lets its left side depend on its right side, and `→` in line {line} means the opposite; write \
                 `{turned}`"
            ),
            None => format!("`{text}` lets its left side depend on its right side; `{turned}` says the same"),
        };
        self.warnings.push((place, message));
    }

    /// A line that is a task, belongs to one above, or is prose.
    fn text(&mut self, place: SpecLocation, position: &mut OutlineCursor, line: &str) {
        if line.trim().is_empty() {
            // Whose text continues after it is not known yet. Around a description it is left out.
            position
                .tasks
                .iter()
                .filter_map(|(node, _)| *node)
                .for_each(|node| self.nodes[node].description.push('\n'));
            return;
        }
        let indent = lines::indent(line);
        let beside = position.leave(indent);
        let described = position.tasks.last().is_some_and(|(node, _)| node.is_some());
        // A box below a task is a note about it.
        let is_task = beside || !described;
        match lines::task(line) {
            Some(TaskLine { id: Some(id), done: true, .. }) => {
                self.claim(place, id.as_str(), None);
                position.tasks.push((None, indent));
            }
            Some(TaskLine { id: Some(id), title, .. }) => self.task(place, position, indent, id, title),
            Some(TaskLine { id: None, done, title, .. }) if is_task && self.gives_ids(position) => {
                let id = self.give_id(place);
                if done {
                    self.claim(place, id.as_str(), None);
                    position.tasks.push((None, indent));
                } else {
                    self.task(place, position, indent, id, title);
                }
            }
            other => {
                if let Some(TaskLine { id: None, done: false, title, .. }) = other.filter(|_| is_task) {
                    self.warn_of_checklist(place, title);
                }
                self.describe(position, line);
                self.suspect(place, position, line);
            }
        }
    }

    /// Whether a box without an id is a task. Outside of all phases and groups, where others have ids, it is somebody's
    /// checklist.
    fn gives_ids(&self, position: &OutlineCursor) -> bool {
        position.node().is_some() || self.written.is_empty()
    }

    fn task(&mut self, place: SpecLocation, position: &mut OutlineCursor, indent: usize, id: TaskId, title: &str) {
        self.in_titles.extend(TitleDependency::find(place, &id, title));
        let node = self.add(place, id.into(), title, position.node(), true);
        position.tasks.push((node, indent));
    }

    fn warn_of_checklist(&mut self, place: SpecLocation, title: &str) {
        let Some((id, first)) = self.written.first_key_value() else { return };
        let (file, line) = (&self.files[first.file], first.line);
        let message = format!(
            "`{title}` is not read as a task: it has no id and is in no phase, and others have one (`{id}` at \
             {file}:{line}); write an id before it to make it one"
        );
        self.warnings.push((place, message));
    }

    /// Notes a line that would be a dependency if no heading had ended those. What describes a task is none.
    fn suspect(&mut self, place: SpecLocation, position: &OutlineCursor, line: &str) {
        let Some((ended, title)) = position.ended_by.as_ref().filter(|_| position.tasks.is_empty()) else { return };
        if let Ok(links) = dependency_line::read(place, line)
            && !links.is_empty()
        {
            let [one, three] = ["#", "###"].map(|marks| format!("{marks} {title}").trim_end().to_owned());
            let message = format!(
                "the heading `{one}` in line {ended} ends the dependencies, so this is not read as one; write the \
                 heading as `{three}`, or put this below its own `## Dependencies`"
            );
            self.cut_off.push((links, message));
        }
    }

    /// Adds a line to the description of the innermost task, if it is indented below it.
    fn describe(&mut self, position: &OutlineCursor, line: &str) {
        if let Some((Some(node), indent)) = position.tasks.last()
            && (line.trim().is_empty() || lines::indent(line) > *indent)
        {
            let description = &mut self.nodes[*node].description;
            description.push_str(line);
            description.push('\n');
        }
    }

    fn dependency(&mut self, place: SpecLocation, position: &mut OutlineCursor, line: &str) {
        match dependency_line::read(place, line) {
            Ok(links) => {
                match dependency_line::ascii_arrow(line) {
                    Some((text, turned)) => {
                        position.ascii_arrow.get_or_insert((place, text, turned));
                    }
                    None if !links.is_empty() => {
                        position.arrow.get_or_insert(place);
                    }
                    None => {}
                }
                self.links.extend(links);
            }
            Err(message) => self.errors.push((place, message)),
        }
    }

    /// Adds a node; none when its id is taken, which is reported.
    fn add(
        &mut self,
        place: SpecLocation,
        id: String,
        name: &str,
        parent: Option<usize>,
        is_task: bool,
    ) -> Option<usize> {
        let node = self.nodes.len();
        self.claim(place, &id, Some(node)).then(|| {
            self.nodes.push(OutlineNode {
                place,
                is_task,
                id,
                name: name.to_owned(),
                description: String::new(),
                parent,
            });
            node
        })
    }

    fn claim(&mut self, place: SpecLocation, id: &str, node: Option<usize>) -> bool {
        if let Some(first) = self.ids.get(id) {
            let (file, line) = (&self.files[first.place.file], first.place.line);
            let message = format!("`{id}` is already defined at {file}:{line}; give one of them another id");
            self.errors.push((place, message));
            return false;
        }
        self.ids.insert(id.to_owned(), Used { place, node });
        true
    }
}
