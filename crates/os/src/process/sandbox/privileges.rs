//! Capabilities that root keeps in a sandbox. A sandbox restricts files and connections, and some capabilities bypass
//! it: reading the memory of outside processes, typing on terminals, raw network access. Only those needed to work on
//! files and to switch users are kept, as in a container.

#[cfg(target_os = "linux")]
use rustix::thread::CapabilitySet;

/// The kept capabilities, with their bubblewrap names.
#[cfg(target_os = "linux")]
const KEPT: [(CapabilitySet, &str); 8] = [
    (CapabilitySet::CHOWN, "CAP_CHOWN"),
    (CapabilitySet::DAC_OVERRIDE, "CAP_DAC_OVERRIDE"),
    (CapabilitySet::FOWNER, "CAP_FOWNER"),
    (CapabilitySet::FSETID, "CAP_FSETID"),
    (CapabilitySet::KILL, "CAP_KILL"),
    (CapabilitySet::NET_BIND_SERVICE, "CAP_NET_BIND_SERVICE"),
    (CapabilitySet::SETGID, "CAP_SETGID"),
    (CapabilitySet::SETUID, "CAP_SETUID"),
];

/// Drops all other capabilities of this thread and its children.
#[cfg(target_os = "linux")]
pub(super) fn give_up() -> std::io::Result<()> {
    use rustix::io::Errno;
    use rustix::thread::{
        CapabilitySets, capabilities, clear_ambient_capability_set, remove_capability_from_bounding_set,
        set_capabilities,
    };

    let has = capabilities(None)?;
    let kept = KEPT.iter().fold(CapabilitySet::empty(), |all, (one, _)| all | *one);
    // A thread that may not do this has nothing to gain either: a sandboxed thread never gets new privileges.
    if has.effective.contains(CapabilitySet::SETPCAP) {
        let each = (0..u64::BITS).map(|number| CapabilitySet::from_bits_retain(1 << number));
        for capability in each.filter(|capability| !kept.contains(*capability)) {
            match remove_capability_from_bounding_set(capability) {
                // The kernel has no further capabilities.
                Err(Errno::INVAL) => break,
                removed => removed?,
            }
        }
    }
    clear_ambient_capability_set()?;
    let inheritable = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets { effective: has.effective & kept, permitted: has.permitted & kept, inheritable },
    )?;
    Ok(())
}

/// The kept capabilities of this process by name; `None` if there is nothing to drop.
#[cfg(target_os = "linux")]
pub(super) fn kept() -> Option<Vec<&'static str>> {
    let has = rustix::thread::capabilities(None).ok()?.permitted;
    let kept = KEPT.iter().filter(|(one, _)| has.contains(*one)).map(|(_, name)| *name).collect();
    (rustix::process::getuid().is_root() && !has.is_empty()).then_some(kept)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn kept() -> Option<Vec<&'static str>> {
    None
}
