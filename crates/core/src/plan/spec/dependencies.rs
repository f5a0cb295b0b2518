//! What waits for what, as the dependencies of a spec say it.

use std::collections::{BTreeMap, BTreeSet};

use super::dependency_line::Dependency;
use super::location::SpecLocation;
use super::outline::Outline;

/// What each node waits for, in the order it was said, and the line that says so.
pub(super) type DependencyMap = BTreeMap<usize, Vec<(usize, SpecLocation)>>;

/// Finds the nodes the links are about, and reports those that are nowhere, and of what looks like a link and is none.
/// What is finished neither waits nor is waited for.
pub(super) fn resolve(outline: &Outline) -> (DependencyMap, Vec<(SpecLocation, String)>) {
    let mut waits = DependencyMap::new();
    let mut seen = BTreeSet::new();
    let mut unknown = BTreeSet::new();
    for Dependency { place, before, after } in &outline.links {
        let ids = [before, after].map(|id| {
            let used = outline.ids.get(id);
            if used.is_none() {
                unknown.insert((*place, id.clone()));
            }
            used.and_then(|used| used.node)
        });
        if let [Some(before), Some(after)] = ids
            && seen.insert((before, after))
        {
            waits.entry(after).or_default().push((before, *place));
        }
    }
    let unresolved =
        unknown.into_iter().map(|(place, id)| (place, format!("the spec has no task, phase or group `{id}`")));
    // Of a line that names nothing of the spec nobody can say that it was meant so.
    let is_known = |link: &Dependency| outline.ids.contains_key(&link.before) || outline.ids.contains_key(&link.after);
    let cut_off = outline.cut_off.iter().filter_map(|(links, message)| {
        let link = links.iter().find(|link| is_known(link))?;
        Some((link.place, message.clone()))
    });
    (waits, unresolved.chain(cut_off).collect())
}
