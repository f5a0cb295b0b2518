//! How the merge queue works, by the settings.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use engine::landing::{QueueSettings, ResolverSettings};
use pleach_core::config::{AgentChoice, InvalidAgent};
use pleach_core::queue::{EntryTest, MergeTests};

use crate::place::Place;
use crate::settings::Settings;
use crate::survey::known_agents::default_agent;

/// The most tests that run at once unless the settings say otherwise.
const USUAL_SLOTS: usize = 4;

/// How the merge queue of a repository works.
pub fn queue_settings(settings: &Settings, place: &Place) -> QueueSettings {
    let config = &settings.resolved.config;
    let (merge, tree) = (&config.merge, &config.tree);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let slots = merge.slots.map_or_else(|| cores.min(USUAL_SLOTS), |slots| slots as usize);
    let test = |command: Option<&str>| {
        command.map(|command| EntryTest { command: command.to_owned(), timeout: merge.test_timeout })
    };
    let own = |dir: Option<&PathBuf>, usual: &str| {
        dir.map_or_else(|| format!("spec/{usual}"), |dir| dir.display().to_string())
    };
    QueueSettings {
        tests: MergeTests { always: test(config.test_of_all_merges()), usual: test(config.test_of_other_merges()) },
        joint_test: test(config.test_of_joint_landings()),
        command_limit: Duration::from_secs(merge.test_timeout),
        batch: merge.batch as usize,
        slots,
        auto_merge_clean: merge.auto_merge_clean,
        history: merge.history,
        logs: own(tree.log_dir.as_ref(), "logs"),
        reports: own(tree.report_dir.as_ref(), "reports"),
        resolver: resolver(settings, place),
        approved_tests: BTreeSet::new(),
        tiers: settings.merge_tiers(merge),
        untested_files: merge.untested_files,
    }
}

/// The agent that resolves conflicts, found as that of prompts. Without one a person does: nobody resolves a conflict by
/// pretending.
fn resolver(settings: &Settings, place: &Place) -> Option<ResolverSettings> {
    let config = &settings.resolved.config;
    let named = config.merge.agent.as_ref().map(ToString::to_string);
    let agent = match config.agent_of(named.as_deref()) {
        Ok(AgentChoice::Simulation) => return None,
        // A name that only has settings speaks of the agent of the run, which these settings do not have.
        Err(InvalidAgent::Unset) if named.is_some() => return None,
        Err(InvalidAgent::Unset) => Some(default_agent(settings).ok()?.to_owned()),
        // One that is mistaken is named once it is to work.
        Ok(_) | Err(_) => named,
    };
    (config.merge.max_conflict_retries > 0).then(|| ResolverSettings {
        agent,
        attempts: config.merge.max_conflict_retries,
        at_once: config.merge.resolvers as usize,
        branch_prefix: place.branch_prefix.clone(),
        config: config.recordable(),
    })
}
