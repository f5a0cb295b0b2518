//! The last part of the demo: three branches that are fine each for itself go through the merge queue.

use std::time::Instant;

use engine::landing::{QueueOutcome, Submission, enqueue};
use jiff::SignedDuration;
use pleach_core::clock;
use pleach_core::ids::BranchName;
use pleach_core::queue::{EntryState, QueueEntry};
use pleach_core::text::counted;
use serde_json::json;

use super::repository::DemoRepository;
use crate::code::Code;
use crate::commands::merge::ground::{MergeGround, entry_json};
use crate::commands::merge::process_trusted;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lib_errors::of_queue;
use crate::render::{Out, duration};
use git::record::{entry_history, read_entry};

/// What the queue is shown with, as it is on the target.
pub const FILES: [(&str, &str); 3] = [
    ("lib.sh", include_str!("../../../demo/merge/lib.sh")),
    ("home.page.sh", include_str!("../../../demo/merge/home.page.sh")),
    ("check.sh", include_str!("../../../demo/merge/check.sh")),
];

/// A branch: its name, what it is about, and the files it writes.
type DemoBranch = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// The second changes the line the first has changed, the third calls what the first has renamed.
const BRANCHES: [DemoBranch; 3] = [
    (
        "rename",
        "Call it welcome",
        &[
            ("lib.sh", "# What the pages are made with.\nwelcome() { echo \"Welcome, $1.\"; }\n"),
            ("home.page.sh", ". ./lib.sh\nwelcome Ada\n"),
        ],
    ),
    ("shout", "Greet louder", &[("lib.sh", "# What the pages are made with.\ngreet() { echo \"HELLO, $1!\"; }\n")]),
    ("page", "A page about us", &[("about.page.sh", ". ./lib.sh\ngreet 'Ada and all of us'\n")]),
];

/// Makes the branches, queues them, has the queue worked, and shows what became of each.
pub fn merge_branches(demo: &DemoRepository<'_>) -> Result<Exit, Failure> {
    let globals = demo.commands("merge");
    let mut out = Out::new();
    if !globals.json {
        out.line("\nAnd now the merge queue, with three branches that are fine each for itself:\n")?;
    }
    let ground = MergeGround::find(&globals)?;
    let target = ground.target(None)?;
    let begun = Instant::now();
    for (name, subject, files) in BRANCHES {
        demo.git(&["switch", "--quiet", "--create", name, target.as_str()])?;
        demo.commit(subject, files)?;
        demo.git(&["switch", "--quiet", target.as_str()])?;
    }
    queue_branches(&ground, &target)?;
    let (outcome, exit) = process_trusted(&ground, &target)?;
    if globals.json {
        let entries = |entries: &[QueueEntry]| entries.iter().map(entry_json).collect::<Vec<_>>();
        out.json(&json!({"landed": entries(&outcome.landed), "open": entries(&outcome.open)}))?;
        return Ok(exit);
    }
    print_outcome(&mut out, &ground, &outcome)?;
    let (landed, tests) = (outcome.landed.len(), counted(outcome.tests as u64, "test run"));
    let all = landed + outcome.open.len();
    out.line(format!("\nlanded {landed} of {all} in {}, {tests}", duration(begun.elapsed())))?;
    Ok(exit)
}

fn queue_branches(ground: &MergeGround<'_>, target: &BranchName) -> Result<(), Failure> {
    let (place, now) = (&ground.place, clock::now());
    for (nth, (name, ..)) in (0..).zip(BRANCHES) {
        let branch = BranchName::new(name).map_err(|error| Failure::new(Code::NameInvalid, error.to_string()))?;
        let submission = Submission::branch(&place.repo, place.name.clone(), branch, target.clone());
        let submission = submission.map_err(|error| of_queue(&error))?;
        // What is queued within a millisecond would come in any order.
        let completed_at = now + SignedDuration::from_millis(nth);
        let submission = Submission { completed_at, ..submission };
        enqueue(&place.repo, submission, &ground.settings.redactor()).map_err(|error| of_queue(&error))?;
    }
    Ok(())
}

/// The states of each entry, oldest first, that say something.
fn print_outcome(out: &mut Out, ground: &MergeGround<'_>, outcome: &QueueOutcome) -> Result<(), Failure> {
    for entry in outcome.landed.iter().chain(&outcome.open) {
        out.line(format!("{}: {}", entry.name(), entry.title))?;
        let stored =
            read_entry(&ground.place.repo, &entry.target, &entry.id).map_err(|error| of_queue(&error.into()))?;
        let Some(stored) = stored else { continue };
        let history = entry_history(&ground.place.repo, &stored).map_err(|error| of_queue(&error.into()))?;
        let mut printed = None;
        for (_, state) in history.iter().rev() {
            let says = state.why.as_ref().filter(|why| !state.state.is_closed() && printed != Some(*why));
            if let Some(why) = says {
                out.line(format!("├─ {why}"))?;
                printed = Some(why);
            }
        }
        let tier = entry.tier.map(|tier| format!(" ({tier})")).unwrap_or_default();
        let commit = entry.landing.as_ref().map(|landing| format!(" {}", landing.to.short())).unwrap_or_default();
        let commit = if stored.entry.state == EntryState::Landed { commit } else { String::new() };
        out.line(format!("└─ {}{commit}{tier}", stored.entry.state))?;
    }
    Ok(())
}
