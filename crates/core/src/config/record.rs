//! The configuration in a session's record, and back from it.
//!
//! A session is resumed with the settings it was started with, also in another clone on another machine. So the
//! record holds every setting, defaults included, but nothing that belongs to one machine:
//!
//! - never where keys come from or go to (`base_url`, `api_key`, `headers`, `api_base`, `api_key_command`, `proxy`),
//!   `worktrees.base`, `record.cxdb`, and the paths of the sandbox: these are always the resuming machine's;
//! - the budget and the limits on commits that are set where the session continues: a limit is raised by setting it
//!   and resuming; the same holds for the models of a provider, and for the paths and remotes of repositories;
//! - paths below the project's directory are recorded relative to it, and start from the resuming project's directory;
//! - other paths, and remotes with a password in them, are left out and listed under `machine`: on resume the local
//!   configuration must give them.

use std::path::PathBuf;

use serde_json::Value;

use super::error::{ConfigError, Precedence, Source};
use super::home_path::HomePath;
use super::layer::{Layer, MergedLayers, Resolved};
use super::model::Config;
use super::read::Setting;
use crate::redact::address_secret;

/// The key of the list of settings that were left out because they belong to the machine.
const MACHINE: &str = "machine";

/// A recorded configuration this version cannot read.
#[derive(Debug, thiserror::Error)]
#[error("the recorded configuration cannot be read: {0}")]
pub struct RecordedConfigError(#[from] serde_json::Error);

impl Config {
    /// The settings as a session records them: nothing secret, nothing that belongs to this machine.
    pub fn recordable(&self) -> Value {
        let mut config = self.clone();
        let mut machine = Vec::new();
        config.forget_machine();
        config.each_path(|key, setting| {
            if let Some(path) = setting.take() {
                match path.strip_prefix(&self.root) {
                    Ok(below) if below.as_os_str().is_empty() => *setting = Some(PathBuf::from(".")),
                    Ok(below) => *setting = Some(below.to_owned()),
                    Err(_) => machine.push(key.join(".")),
                }
            }
        });
        for (name, repo) in &mut config.workspace.repos {
            if repo.remote.as_deref().and_then(address_secret).is_some() {
                repo.remote = None;
                machine.push(format!("workspace.repos.{name}.remote"));
            }
        }
        let mut value = config.to_value();
        if let (Value::Object(map), false) = (&mut value, machine.is_empty()) {
            map.insert(MACHINE.to_owned(), machine.into());
        }
        value
    }

    /// Calls `visit` with every free text of a recorded configuration. The rest are keys, names and words of pleach's
    /// own, needed to read it back.
    pub fn each_recorded_text(recorded: &mut Value, visit: &mut dyn FnMut(&mut String)) {
        let machine = match recorded {
            Value::Object(map) => map.shift_remove(MACHINE),
            _ => None,
        };
        Self::each_text(recorded, visit);
        if let (Value::Object(map), Some(machine)) = (recorded, machine) {
            map.insert(MACHINE.to_owned(), machine);
        }
    }

    /// A recorded configuration as it is in the record: relative paths stay relative, what was left out is default. For
    /// looking at; a run that continues uses [`Resolved::resume`].
    pub fn from_recorded(mut value: Value) -> Result<Self, RecordedConfigError> {
        take_machine(&mut value);
        Ok(serde_json::from_value(value)?)
    }

    /// All settings as JSON, without the ones that are not set. Paths that are not UTF-8 lose what is not.
    pub(super) fn to_value(&self) -> Value {
        let mut config = self.clone();
        let lossy = |path: &mut PathBuf| *path = PathBuf::from(path.to_string_lossy().into_owned());
        config.each_path(|_, path| path.iter_mut().for_each(lossy));
        config.worktrees.base.iter_mut().for_each(lossy);
        config.sandbox.rw.iter_mut().chain(&mut config.sandbox.ro).for_each(lossy);
        config.sandbox.hide.iter_mut().chain(&mut config.sandbox.show).for_each(HomePath::make_lossy);
        let mut value = serde_json::to_value(config).expect("settings are text, numbers and UTF-8 paths");
        drop_nulls(&mut value);
        value
    }

    /// Calls `visit` with every setting that is a path of the project, and its key.
    fn each_path(&mut self, mut visit: impl FnMut(&[&str], &mut Option<PathBuf>)) {
        visit(&["providers", "script", "file"], &mut self.providers.script.file);
        for (name, agent) in &mut self.agents {
            visit(&["agents", name, "role"], &mut agent.role);
            visit(&["agents", name, "persona"], &mut agent.persona);
            visit(&["agents", name, "personality"], &mut agent.personality);
            visit(&["agents", name, "task"], &mut agent.task);
        }
        for (name, repo) in &mut self.workspace.repos {
            visit(&["workspace", "repos", name.as_str(), "path"], &mut repo.path);
        }
        visit(&["tree", "report_dir"], &mut self.tree.report_dir);
        visit(&["tree", "log_dir"], &mut self.tree.log_dir);
        visit(&["tree", "pipeline"], &mut self.tree.pipeline);
    }

    /// Takes out the settings that are always the machine's own.
    fn forget_machine(&mut self) {
        for provider in self.providers.servers.values_mut() {
            provider.base_url = None;
            provider.api_key = None;
            provider.headers.clear();
            provider.settings.api_base = None;
            provider.settings.api_key_command = None;
            provider.settings.proxy = None;
        }
        self.record.cxdb = None;
        self.worktrees.base = None;
        self.sandbox.rw.clear();
        self.sandbox.ro.clear();
        self.sandbox.hide.clear();
        self.sandbox.show.clear();
    }
}

impl Resolved {
    /// The configuration a session continues with: the recorded one, the machine's own settings out of the local one,
    /// and over both the flags given now.
    pub fn resume(recorded: &Value, local: &Resolved, flags: Layer) -> Result<Resolved, Vec<ConfigError>> {
        let mut value = recorded.clone();
        let left_out = take_machine(&mut value);
        let text = serde_json::to_string_pretty(&value).expect("a JSON value prints as JSON");
        let mut merged = MergedLayers::read(vec![Layer::recorded(text, &local.config.root), flags])?;
        let mine = local.config.recordable();
        for (key, source) in merged.provenance.iter_mut().filter(|(_, source)| source.level == Precedence::Recorded) {
            // What is set here in the same way comes from here: nobody has to approve it because a record has it too.
            *source = match (at(&value, key), at(&mine, key)) {
                (Some(recorded), Some(set)) if recorded == set => local.source(key).clone(),
                _ => Source { level: Precedence::Recorded, file: None, name: None, line: None },
            };
        }
        merged.config.root.clone_from(&local.config.root);
        merged.users.clone_from(&local.users);
        merged.fill_in(local, &left_out);
        merged.check()
    }
}

impl Resolved {
    /// The settings of the project that a resumed session does without, because it keeps its recorded ones. `self` is what it
    /// continues with, `local` what is configured today.
    pub fn kept_from_start(&self, local: &Resolved) -> Vec<String> {
        let (kept, today) = (self.config.recordable(), local.config.recordable());
        let project = local.provenance.iter().filter(|(_, source)| source.level == Precedence::Project);
        let is_given = |key: &String| self.provenance.get(key).is_some_and(|source| source.level == Precedence::Flag);
        let differs = |(key, _): &(&String, &Source)| !is_given(key) && at(&kept, key) != at(&today, key);
        project.filter(differs).map(|(key, _)| key.clone()).collect()
    }
}

/// The value of a setting.
fn at<'v>(settings: &'v Value, key: &str) -> Option<&'v Value> {
    key.split('.').try_fold(settings, |section, name| section.get(name))
}

impl MergedLayers {
    /// Puts the machine's own settings and those that were left out of the record in place, unless a flag gives them.
    fn fill_in(&mut self, local: &Resolved, left_out: &[String]) {
        let provenance = &mut self.provenance;
        // Whether the local value counts; if so it keeps the source it has here.
        let mut mine = |key: &str| {
            let flag = provenance.get(key).is_some_and(|source| source.level == Precedence::Flag);
            if flag {
                return false;
            }
            match local.provenance.get(key) {
                Some(source) => provenance.insert(key.to_owned(), source.clone()),
                None => provenance.remove(key),
            };
            true
        };
        let mut own = local.config.clone();
        for (name, own) in &mut own.providers.servers {
            // One that is new here may be named by what is new here, such as an agent's `provider`.
            let theirs = self.config.providers.servers.entry(name.clone()).or_default();
            if !name.is_known() && theirs.kind.is_none() && mine(&format!("providers.{name}.kind")) {
                theirs.kind = own.kind;
            }
            if mine(&format!("providers.{name}.base_url")) {
                theirs.base_url = own.base_url.take();
            }
            if mine(&format!("providers.{name}.api_key")) {
                theirs.api_key = own.api_key.take();
            }
            for (header, value) in std::mem::take(&mut own.headers) {
                if mine(&format!("providers.{name}.headers.{header}")) {
                    theirs.headers.insert(header, value);
                }
            }
            if mine(&format!("providers.{name}.settings.api_base")) {
                theirs.settings.api_base = own.settings.api_base.take();
            }
            if mine(&format!("providers.{name}.settings.api_key_command")) {
                theirs.settings.api_key_command = own.settings.api_key_command.take();
            }
            if mine(&format!("providers.{name}.settings.proxy")) {
                theirs.settings.proxy = own.settings.proxy.take();
            }
            // What a provider calls its models is learned by asking it.
            for (alias, model) in std::mem::take(&mut own.models) {
                if mine(&format!("providers.{name}.models.{alias}")) {
                    theirs.models.insert(alias, model);
                }
            }
        }
        // A limit nobody sets here stays what it was.
        let set = |key: &str| local.provenance.contains_key(key);
        let (theirs, budget) = (&mut self.config.budget, &local.config.budget);
        if set("budget.tokens") && mine("budget.tokens") {
            theirs.tokens = budget.tokens;
        }
        if set("budget.usd") && mine("budget.usd") {
            theirs.usd = budget.usd;
        }
        if set("budget.per_task_tokens") && mine("budget.per_task_tokens") {
            theirs.per_task_tokens = budget.per_task_tokens;
        }
        if set("budget.per_task_usd") && mine("budget.per_task_usd") {
            theirs.per_task_usd = budget.per_task_usd;
        }
        if set("budget.per_day_tokens") && mine("budget.per_day_tokens") {
            theirs.per_day_tokens = budget.per_day_tokens;
        }
        if set("budget.per_day_usd") && mine("budget.per_day_usd") {
            theirs.per_day_usd = budget.per_day_usd;
        }
        if set("budget.on_exceeded") && mine("budget.on_exceeded") {
            theirs.on_exceeded = budget.on_exceeded;
        }
        if set("commit.max_file_mb") && mine("commit.max_file_mb") {
            self.config.commit.max_file_mb = local.config.commit.max_file_mb;
        }
        if set("commit.max_new_files") && mine("commit.max_new_files") {
            self.config.commit.max_new_files = local.config.commit.max_new_files;
        }
        if mine("record.cxdb") {
            self.config.record.cxdb = own.record.cxdb.take();
        }
        if mine("worktrees.base") {
            self.config.worktrees.base = own.worktrees.base.take();
        }
        if mine("sandbox.rw") {
            self.config.sandbox.rw = std::mem::take(&mut own.sandbox.rw);
        }
        if mine("sandbox.ro") {
            self.config.sandbox.ro = std::mem::take(&mut own.sandbox.ro);
        }
        if mine("sandbox.hide") {
            self.config.sandbox.hide = std::mem::take(&mut own.sandbox.hide);
        }
        if mine("sandbox.show") {
            self.config.sandbox.show = std::mem::take(&mut own.sandbox.show);
        }
        // Where a repository is, only this machine can know.
        for (name, theirs) in &mut self.config.workspace.repos {
            let Some(own) = own.workspace.repos.get(name) else { continue };
            let [path, remote] = ["path", "remote"].map(|key| format!("workspace.repos.{name}.{key}"));
            if set(&path) && mine(&path) {
                theirs.path.clone_from(&own.path);
            }
            if set(&remote) && mine(&remote) {
                theirs.remote.clone_from(&own.remote);
            }
        }
        let mut paths = std::collections::BTreeMap::new();
        own.each_path(|key, path| paths.extend(path.take().map(|path| (key.join("."), path))));
        let mut wanted = |key: &str| left_out.iter().any(|left| left == key) && mine(key);
        self.config.each_path(|key, path| {
            let key = key.join(".");
            if wanted(&key) {
                *path = paths.remove(&key);
            }
        });
        for (name, repo) in &mut self.config.workspace.repos {
            if wanted(&format!("workspace.repos.{name}.remote")) {
                repo.remote = own.workspace.repos.get_mut(name).and_then(|own| own.remote.take());
            }
        }
    }
}

/// Takes the list of left-out settings off a recorded configuration, and brings what older versions have recorded up to date.
fn take_machine(value: &mut Value) -> Vec<String> {
    if let Some(record) = value.get_mut("record").and_then(Value::as_object_mut) {
        record.shift_remove("cxdb");
    }
    if let Some(logs) = value.pointer_mut("/tree/commit_logs")
        && let Some(are_committed) = logs.as_bool()
    {
        *logs = are_committed.to_string().into();
    }
    let list = match value {
        Value::Object(map) => map.shift_remove(MACHINE),
        _ => None,
    };
    match list {
        Some(Value::Array(keys)) => keys.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

fn drop_nulls(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, below| !below.is_null());
        map.values_mut().for_each(drop_nulls);
    }
}
