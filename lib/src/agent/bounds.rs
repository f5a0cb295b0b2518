//! What an agent is told about the bounds it works in.

use crate::process::{Connect, Sandbox};

/// The bounds in words for the agent, so that it does not waste its time at them.
pub(super) fn told(sandbox: &Sandbox) -> String {
    let reading = if sandbox.read.is_some() { " Reading is limited as well." } else { "" };
    let git = match sandbox.can_commit() {
        true => {
            "In git you can add and commit; complaints about `tmp_obj` or `packed-refs.lock` mean nothing. Branches, \
             tags, stash, configuration and hooks cannot be changed."
        }
        false => "In git nothing can be changed but your files: do not add or commit.",
    };
    let network = match &sandbox.connect {
        _ if !sandbox.limits_connections() => "",
        Connect::Ports(ports) if !ports.is_empty() => " The network reaches your model and nothing else.",
        _ => " There is no network.",
    };
    format!(
        "You run in a sandbox: files can be written in the working directory, in `$TMPDIR` and in the caches of package \
         managers, and nowhere else, `/tmp` included.{reading} {git}{network} \"Permission denied\" there is meant; do \
         not look for a way around it. If the task cannot be done within these bounds, say what is missing."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::sandbox::Availability;

    #[test]
    fn an_agent_is_told_what_it_cannot_do() {
        let by = Availability { landlock_abi: Some(7), bubblewrap: None, filters: true };
        let open = Sandbox { by, add: vec!["/g/objects".into()], ..Sandbox::default() };
        assert!(told(&open).contains("add and commit") && !told(&open).contains("network"), "{}", told(&open));
        let closed = Sandbox { connect: Connect::Ports(Vec::new()), ..open.clone() };
        assert!(told(&closed).contains("There is no network."));
        assert!(told(&closed.through(80)).contains("your model and nothing else"));
        let limited = Sandbox { read: Some(Vec::new()), add: Vec::new(), ..open };
        assert!(told(&limited).contains("Reading is limited") && told(&limited).contains("do not add or commit"));
    }
}
