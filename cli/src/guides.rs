//! The guides: the pages of `docs/`, in the program itself, so that every hint leads to one that is there.

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guide {
    /// What `pleach help` knows it by: its file's name without the ending.
    pub topic: &'static str,
    /// The page.
    pub text: &'static str,
}

macro_rules! guides {
    ($($topic:literal)+) => {
        /// Every page but that of the command line, which is made from the program's own help.
        pub const GUIDES: &[Guide] =
            &[$(Guide { topic: $topic, text: include_str!(concat!("../../docs/", $topic, ".md")) },)+];
    };
}

guides! {
    "acp"
    "agents"
    "agents-reference"
    "budgets"
    "cleanup"
    "codes"
    "compare"
    "configuration"
    "coverage"
    "cxdb"
    "exit-codes"
    "first-week"
    "gateway"
    "graph"
    "history"
    "init-and-doctor"
    "merge-queue"
    "parallel"
    "performance"
    "pipelines"
    "pull-requests"
    "records"
    "remotes"
    "running"
    "sandbox"
    "scripted-provider"
    "security"
    "sessions"
    "settings"
    "step-commits"
    "task-trees"
    "task-trees-reference"
    "tasks"
    "time-travel"
    "why"
    "workspaces"
    "worktrees"
}

/// The topic of the page that is made from the program's own help.
pub const COMMAND_LINE: &str = "cli";

impl Guide {
    /// The guide of a topic.
    pub fn find(topic: &str) -> Option<Self> {
        GUIDES.iter().find(|guide| guide.topic == topic).copied()
    }

    /// Its heading.
    pub fn title(self) -> &'static str {
        self.text.lines().next().unwrap_or_default().trim_start_matches(['#', ' '])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_page_is_a_topic() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let names = std::fs::read_dir(docs).expect("the pages").map(|entry| entry.expect("a page").file_name());
        let pages: BTreeSet<String> =
            names.filter_map(|name| name.to_str()?.strip_suffix(".md").map(str::to_owned)).collect();
        let topics = GUIDES.iter().map(|guide| guide.topic).chain([COMMAND_LINE]).map(str::to_owned).collect();
        assert_eq!(pages, topics);
        assert!(GUIDES.iter().all(|guide| !guide.title().is_empty() && guide.text.starts_with("# ")));
    }
}
