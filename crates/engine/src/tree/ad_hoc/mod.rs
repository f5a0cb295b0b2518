//! Ad-hoc tasks: `store` keeps them in refs, `status` reads what became of them from their step commits, `repositories`
//! remembers where there are some. They are worked as a tree is ([`super`]), each a tree of its own.

mod repositories;
mod status;
mod store;

pub use repositories::{known_repositories, note_repository};
pub use status::{AdHocStatus, Blocker, TaskView, feedback_of, spent_on, view_tasks};
pub use store::{NoAdHocTask, StoreError, StoredTask, TASKS, TaskStore};
