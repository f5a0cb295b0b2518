//! The description of the sandbox in an agent's prompt.

use os::process::{Connect, Sandbox};

/// The one sentence about commits for agents of every kind. They could commit, yet the sentence must not differ from
/// prompt to prompt.
pub(super) const COMMITS: &str = "What you change is committed for you, so do not commit, and do not switch branches.";

/// The bounds in words for the agent, so that it does not waste its time at them.
pub(super) fn describe(sandbox: &Sandbox) -> String {
    let reading = match sandbox.read {
        Some(_) => " Reading is limited as well.",
        None if !sandbox.hide.is_empty() => " The user's keys and logins cannot be read.",
        None => "",
    };
    let network = match &sandbox.connect {
        _ if !sandbox.limits_connections() => "",
        Connect::Ports(ports) if !ports.is_empty() => " The network reaches your model and nothing else.",
        _ => " There is no network.",
    };
    format!(
        "You run in a sandbox: files can be written in the working directory, in `$TMPDIR` and in the caches of package \
         managers, and nowhere else, `/tmp` included.{reading} In git, branches, tags, stash, configuration and hooks \
         cannot be changed.{network} \"Permission denied\" there is meant; do not look for a way around it. If the task cannot be done within these bounds, say what is missing."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::process::sandbox::Availability;

    #[test]
    fn an_agent_is_told_what_it_cannot_do() {
        let by = Availability { landlock_abi: Some(7), bubblewrap: None, filters: true };
        let open = Sandbox { by, ..Sandbox::default() };
        assert!(
            describe(&open).contains("hooks cannot be changed") && !describe(&open).contains("network"),
            "{}",
            describe(&open)
        );
        assert!(!describe(&open).contains("commit"), "that is said once, by [`COMMITS`]: {}", describe(&open));
        let closed = Sandbox { connect: Connect::Ports(Vec::new()), ..open.clone() };
        assert!(describe(&closed).contains("There is no network."));
        assert!(describe(&closed.through(80)).contains("your model and nothing else"));
        let hidden = Sandbox { hide: vec!["/h/.ssh".into()], ..open.clone() };
        assert!(
            describe(&hidden).contains("keys and logins cannot be read") && !describe(&open).contains("cannot be read")
        );
        assert!(describe(&Sandbox { read: Some(Vec::new()), ..open }).contains("Reading is limited"));
    }
}
