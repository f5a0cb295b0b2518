//! Filters system calls that neither Landlock nor bubblewrap restricts.
//!
//! Always: calls that change how other processes run. A command that cannot signal its supervisor could still starve it
//! by changing its limits and priorities. It may change its own. Refused with the kernel's error for processes of other
//! users.
//!
//! With restricted connections: Landlock only restricts TCP, so any other way to send data off the machine is refused,
//! with Landlock's error.

use std::fs::File;
use std::io;

/// Whether the kernel accepts filters from this process.
#[cfg(target_os = "linux")]
pub(super) fn available() -> bool {
    // Filters a separate thread, which ends afterwards.
    std::thread::Builder::new().spawn(|| apply(true).is_ok()).is_ok_and(|tried| tried.join().unwrap_or_default())
}

/// Filters the system calls of this thread and its children, including connections if `limited`.
#[cfg(target_os = "linux")]
pub(super) fn apply(limited: bool) -> io::Result<()> {
    seccompiler::apply_filter(&linux::program(limited)?).map_err(linux::failed)
}

/// The filter as a file that child processes inherit, for a program that applies it itself.
#[cfg(target_os = "linux")]
pub(super) fn file(limited: bool) -> io::Result<File> {
    use std::io::{Seek as _, Write as _};

    let mut file = File::from(rustix::fs::memfd_create("filter", rustix::fs::MemfdFlags::empty())?);
    for seccompiler::sock_filter { code, jt, jf, k } in linux::program(limited)? {
        file.write_all(&code.to_ne_bytes())?;
        file.write_all(&[jt, jf])?;
        file.write_all(&k.to_ne_bytes())?;
    }
    file.rewind()?;
    Ok(file)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn available() -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
pub(super) fn apply(_limited: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn file(_limited: bool) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;
    use std::io;

    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
        TargetArch,
    };

    /// Turns a socket into one of a protocol on top of TCP, which Landlock does not treat as TCP.
    const TCP_ULP: i32 = 31;
    /// These bits hold the kind of a socket; the others hold its flags.
    const SOCKET_KIND: i32 = 0xf;
    /// The same system calls in the x32 ABI have this bit set.
    #[cfg(target_arch = "x86_64")]
    const SHORT_POINTERS: u32 = 0x4000_0000;

    /// All processes of a user, in calls that set priorities.
    const PRIO_USER: i32 = 2;
    const IOPRIO_WHO_USER: i32 = 3;

    pub(super) fn failed(error: impl std::fmt::Display) -> io::Error {
        io::Error::other(format!("system calls cannot be filtered: {error}"))
    }

    /// Number of steps that check the architecture; the last one kills a program of another architecture.
    const ARCHITECTURE: usize = 3;

    /// The numbers of the calls by which one process changes how another runs.
    #[derive(Clone, Copy)]
    struct Others {
        prlimit: i64,
        setpriority: i64,
        sched_setscheduler: i64,
        sched_setattr: i64,
        ioprio_set: i64,
    }

    const OTHERS: Others = Others {
        prlimit: libc::SYS_prlimit64,
        setpriority: libc::SYS_setpriority,
        sched_setscheduler: libc::SYS_sched_setscheduler,
        sched_setattr: libc::SYS_sched_setattr,
        ioprio_set: libc::SYS_ioprio_set,
    };

    /// The same numbers for the 32-bit architecture that also runs here, if there is one.
    #[cfg(target_arch = "x86_64")]
    const SHORT_OTHERS: Option<Others> =
        Some(Others { prlimit: 340, setpriority: 97, sched_setscheduler: 156, sched_setattr: 351, ioprio_set: 289 });
    #[cfg(target_arch = "aarch64")]
    const SHORT_OTHERS: Option<Others> =
        Some(Others { prlimit: 369, setpriority: 97, sched_setscheduler: 156, sched_setattr: 380, ioprio_set: 314 });
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    const SHORT_OTHERS: Option<Others> = None;

    /// Refuses the listed calls and allows all others. With restricted connections, programs of another architecture
    /// are killed: their calls have other numbers, and a program that gets nothing but errors may not even exit.
    pub(super) fn program(limited: bool) -> io::Result<BpfProgram> {
        let mut program = compile(of_others(OTHERS), libc::EPERM)?;
        #[cfg(target_arch = "x86_64")]
        refuse_short_pointers(&mut program);
        if limited {
            // Calls not refused fall through to the next filter. No call is in both.
            program.pop();
            program.extend(compile(of_connections(), libc::EACCES)?);
        } else if let Some(others) = SHORT_OTHERS {
            // Another architecture is not killed, but jumps to its own steps after these.
            let away = u32::try_from(program.len() - ARCHITECTURE).map_err(failed)?;
            program[ARCHITECTURE - 1] = step(libc::BPF_JMP | libc::BPF_JA, 0, away);
            program.extend(compile(of_others(others), libc::EPERM)?.split_off(ARCHITECTURE));
        }
        Ok(program)
    }

    type SyscallRules = Vec<SeccompRule>;
    type Calls = Result<BTreeMap<i64, SyscallRules>, seccompiler::BackendError>;

    /// The program that refuses these calls with an error.
    fn compile(calls: Calls, error: i32) -> io::Result<BpfProgram> {
        let target = TargetArch::try_from(std::env::consts::ARCH).map_err(failed)?;
        let refused = SeccompAction::Errno(error.unsigned_abs());
        let filter = SeccompFilter::new(calls.map_err(failed)?, SeccompAction::Allow, refused, target);
        BpfProgram::try_from(filter.map_err(failed)?).map_err(failed)
    }

    fn step(code: u32, jf: u8, k: u32) -> seccompiler::sock_filter {
        seccompiler::sock_filter { code: code as u16, jt: 0, jf, k }
    }

    /// Makes the program first refuse calls of the x32 ABI.
    #[cfg(target_arch = "x86_64")]
    fn refuse_short_pointers(program: &mut BpfProgram) {
        let number = step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0);
        let short = step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, SHORT_POINTERS);
        let refused = SeccompAction::Errno(libc::EACCES.unsigned_abs());
        let refuse = step(libc::BPF_RET | libc::BPF_K, 0, refused.into());
        program.splice(ARCHITECTURE..ARCHITECTURE, [number, short, refuse]);
    }

    fn is(argument: u8, value: i32) -> SyscallCondition {
        condition(argument, SeccompCmpOp::Eq, value)
    }

    fn is_not(argument: u8, value: i32) -> SyscallCondition {
        condition(argument, SeccompCmpOp::Ne, value)
    }

    fn rule(conditions: Vec<SyscallCondition>) -> Result<SeccompRule, seccompiler::BackendError> {
        SeccompRule::new(conditions.into_iter().collect::<Result<_, _>>()?)
    }

    /// The calls that change how another process runs, if they name one or all of a user's. A filter cannot know a
    /// process's own threads, so calls that programs use on those and that hardly affect others stay allowed, such as
    /// choosing processors. Access to the memory or descriptors of outside processes is prevented like debugging.
    fn of_others(calls: Others) -> Calls {
        // Reading limits is harmless. The new limits are behind a pointer, as wide as the machine's.
        let given = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
        // The kind of processes, and which of that kind; zero is the caller.
        let kinds = |user: i32| Ok(vec![rule(vec![is_not(1, 0)])?, rule(vec![is(0, user)])?]);
        Ok(BTreeMap::from([
            (calls.prlimit, vec![rule(vec![is_not(0, 0), given])?]),
            (calls.setpriority, kinds(PRIO_USER)?),
            (calls.ioprio_set, kinds(IOPRIO_WHO_USER)?),
            // Priorities cannot be raised without privileges. A thread set to the normal policy does not starve.
            (calls.sched_setscheduler, vec![rule(vec![is_not(0, 0), is_not(1, libc::SCHED_OTHER)])?]),
            (calls.sched_setattr, vec![rule(vec![is_not(0, 0)])?]),
        ]))
    }

    /// The calls that make connections past the limits, each with the arguments that do so.
    fn of_connections() -> Calls {
        let has = |argument: u8, bits: i32| condition(argument, SeccompCmpOp::MaskedEq(bits as u64), bits);
        let lacks = |argument: u8, bits: i32| condition(argument, SeccompCmpOp::MaskedEq(bits as u64), 0);
        // Of the families that leave the machine, only these two, and only TCP. The other two talk to local processes
        // and to the kernel.
        let kept = [libc::AF_UNIX, libc::AF_NETLINK, libc::AF_INET, libc::AF_INET6];
        let mut socket = vec![rule(kept.map(|family| is_not(0, family)).into())?];
        for family in [libc::AF_INET, libc::AF_INET6] {
            socket.push(rule(vec![is(0, family), is_not(2, 0), is_not(2, libc::IPPROTO_TCP)])?);
            // Any kind except a stream, bit by bit.
            socket.push(rule(vec![is(0, family), lacks(1, libc::SOCK_STREAM)])?);
            for bit in (0..4).map(|bit| 1 << bit).filter(|bit| SOCKET_KIND & !libc::SOCK_STREAM & bit != 0) {
                socket.push(rule(vec![is(0, family), has(1, bit)])?);
            }
        }
        let pair = vec![rule(vec![is_not(0, libc::AF_UNIX)])?];
        // Connects and sends at once, unseen by Landlock.
        let sends = |argument: u8| Ok(vec![rule(vec![has(argument, libc::MSG_FASTOPEN)])?]);
        let option = vec![rule(vec![is(1, libc::IPPROTO_TCP), is(2, TCP_ULP)])?];
        Ok(BTreeMap::from([
            (libc::SYS_socket, socket),
            (libc::SYS_socketpair, pair),
            (libc::SYS_sendto, sends(3)?),
            (libc::SYS_sendmsg, sends(2)?),
            (libc::SYS_sendmmsg, sends(3)?),
            (libc::SYS_setsockopt, option),
            // No filter sees requests made through io_uring.
            (libc::SYS_io_uring_setup, Vec::new()),
        ]))
    }

    type SyscallCondition = Result<SeccompCondition, seccompiler::BackendError>;

    /// The kernel reads these arguments as 32 bits, whatever the upper bits are.
    fn condition(argument: u8, operator: SeccompCmpOp, value: i32) -> SyscallCondition {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value as u64)
    }
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;

    const HERE: u32 = 0xc000_003e;
    const SHORT_WORDS: u32 = 0x4000_0003;
    const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;
    const ENDED: u32 = libc::SECCOMP_RET_KILL_PROCESS;
    const REFUSED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    const NO_WAY_OUT: u32 = libc::SECCOMP_RET_ERRNO | libc::EACCES as u32;

    /// The kernel's answer to a call.
    fn answer(limited: bool, arch: u32, call: u32, arguments: &[u64]) -> u32 {
        let program = linux::program(limited).unwrap();
        let mut data = [call.to_le_bytes(), arch.to_le_bytes(), [0; 4], [0; 4]].concat();
        data.extend(arguments.iter().flat_map(|argument| argument.to_le_bytes()));
        data.resize(64, 0);
        let (mut at, mut word) = (0, 0);
        loop {
            let seccompiler::sock_filter { code, jt, jf, k } = program[at];
            let code = u32::from(code);
            at += 1;
            let mut jump = |holds: bool| at += usize::from(if holds { jt } else { jf });
            match (code & 0x07, code & 0xf0) {
                (libc::BPF_LD, _) => word = u32::from_le_bytes(data[k as usize..][..4].try_into().unwrap()),
                (libc::BPF_ALU, libc::BPF_AND) => word &= k,
                (libc::BPF_JMP, libc::BPF_JA) => at += k as usize,
                (libc::BPF_JMP, libc::BPF_JEQ) => jump(word == k),
                (libc::BPF_JMP, libc::BPF_JGE) => jump(word >= k),
                (libc::BPF_JMP, libc::BPF_JGT) => jump(word > k),
                (libc::BPF_RET, _) => return k,
                _ => panic!("what is {code:#x}?"),
            }
        }
    }

    #[test]
    fn a_process_changes_how_it_runs_itself_and_nobody_else() {
        // The numbers of a call, native and 32-bit.
        let (prlimit, setpriority, scheduler) = ((302, 340), (141, 97), (144, 156));
        let (attributes, ioprio, unlisted) = ((314, 351), (251, 289), (39, 20));
        let table: [((u32, u32), &[u64], u32); 16] = [
            (prlimit, &[0, 7, 0x1000, 0], ALLOWED),
            (prlimit, &[5, 7, 0, 0x1000], ALLOWED),
            (prlimit, &[5, 7, 0x1000, 0], REFUSED),
            (prlimit, &[5, 7, 0x1_0000_0000, 0], REFUSED),
            (prlimit, &[0xffff_ffff_0000_0000, 7, 0x1000, 0], ALLOWED),
            (setpriority, &[0, 0, 19], ALLOWED),
            (setpriority, &[1, 0, 19], ALLOWED),
            (setpriority, &[0, 5, 19], REFUSED),
            (setpriority, &[2, 0, 19], REFUSED),
            (scheduler, &[0, 5], ALLOWED),
            (scheduler, &[5, 0], ALLOWED),
            (scheduler, &[5, 5], REFUSED),
            (attributes, &[5], REFUSED),
            (ioprio, &[1, 0], ALLOWED),
            (ioprio, &[3, 0], REFUSED),
            (unlisted, &[5, 5, 5], ALLOWED),
        ];
        for ((here, short), arguments, expected) in table {
            for limited in [false, true] {
                assert_eq!(answer(limited, HERE, here, arguments), expected, "{here} {arguments:?}");
                assert_eq!(answer(limited, HERE, here | 0x4000_0000, arguments), NO_WAY_OUT, "{here} {arguments:?}");
            }
            assert_eq!(answer(false, SHORT_WORDS, short, arguments), expected, "{short} {arguments:?}");
            assert_eq!(answer(true, SHORT_WORDS, short, arguments), ENDED, "{short} {arguments:?}");
        }
        let datagrams = [libc::AF_INET as u64, libc::SOCK_DGRAM as u64];
        assert_eq!(answer(true, HERE, 41, &datagrams), NO_WAY_OUT);
        assert_eq!(answer(false, HERE, 41, &datagrams), ALLOWED);
    }
}
