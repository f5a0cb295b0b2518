//! What keeps a task.

use std::collections::BTreeSet;

use super::graph::Schedule;
use super::standing::{Level, Standing};
use super::{Wait, Why};
use crate::ids::TaskId;

impl Schedule<'_> {
    /// What a task waits for that is not there.
    pub(super) fn waits_of(&self, leaf: usize) -> Vec<Wait> {
        let item = &self.items[leaf];
        if let Standing::Elsewhere { phase } = &item.standing {
            return vec![Wait { on: item.id.clone(), why: Why::Elsewhere(phase.clone()) }];
        }
        let mut waits = Vec::new();
        let mut seen = BTreeSet::new();
        let gathers = self.items[item.phase].gathers;
        let leaves = if gathers { self.tree.leaves_below(self.items[item.phase].id) } else { vec![item.id] };
        // Its own dependencies come first, then what its phase waits for on behalf of others.
        let is_to_do = |leaf: &&TaskId| !self.items[self.index[*leaf]].standing.is_done();
        for other in [item.id].into_iter().chain(leaves.into_iter().filter(is_to_do)) {
            for dependency in self.tree.dependencies(other) {
                let dependency = self.index[dependency];
                let inside = self.items[dependency].phase == item.phase;
                if inside && other != item.id || !seen.insert(dependency) {
                    continue;
                }
                let Some(level) = self.level(item.phase, dependency) else { continue };
                let on = self.items[dependency].id;
                waits.extend(self.why(dependency, level).map(|why| Wait { on: on.clone(), why }));
            }
        }
        waits
    }

    /// Why a dependency is not met; none when it is.
    fn why(&self, node: usize, level: Level) -> Option<Why> {
        let item = &self.items[node];
        let [landed, _] = item.missing;
        if item.missing[level as usize] == 0 {
            return None;
        }
        if item.is_leaf {
            return Some(match &item.standing {
                Standing::Failed { .. } => Why::Failed,
                Standing::Waiting { .. } => Why::NotLanded,
                Standing::Elsewhere { phase } => Why::Elsewhere(phase.clone()),
                Standing::Complete { .. } => Why::NotMerged,
                Standing::Open { .. } if item.position.is_none() => Why::LeftOut,
                Standing::Open { .. } => Why::NotDone,
            });
        }
        let leaves = self.tree.leaves_below(item.id);
        let standing = |leaf: &TaskId| &self.items[self.index[leaf]].standing;
        let elsewhere = leaves.iter().find_map(|leaf| match standing(leaf) {
            Standing::Elsewhere { phase } => Some(phase),
            _ => None,
        });
        Some(match (item.gate, elsewhere) {
            _ if leaves.is_empty() => Why::LeftOut,
            _ if leaves.iter().any(|leaf| standing(leaf).has_failed()) => Why::Failed,
            _ if landed == 0 => Why::NotMerged,
            (_, Some(phase)) if leaves.iter().all(|leaf| standing(leaf).is_done()) => Why::Elsewhere(phase.clone()),
            (Some(gate), _) if landed == 1 && gate.red && !gate.green => Why::GateRed,
            (Some(gate), _) if landed == 1 && !gate.green => Why::GateNotRun,
            _ => Why::NotDone,
        })
    }
}
