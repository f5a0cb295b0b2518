//! What a command is kept from by a filter of its system calls where its connections are limited. Landlock looks at
//! connections of TCP alone; whatever else carries data off the machine must not be made at all. Everything is refused
//! with the error Landlock has.

use std::fs::File;
use std::io;

/// Whether the kernel takes filters from this process.
#[cfg(target_os = "linux")]
pub(super) fn available() -> bool {
    // A thread of its own is filtered, and ends with it.
    std::thread::Builder::new().spawn(|| apply().is_ok()).is_ok_and(|tried| tried.join().unwrap_or_default())
}

/// Filters the system calls of this thread and of all it starts.
#[cfg(target_os = "linux")]
pub(super) fn apply() -> io::Result<()> {
    seccompiler::apply_filter(&linux::program()?).map_err(linux::failed)
}

/// The filter as a file that is open in programs that are started, for one that sets it itself.
#[cfg(target_os = "linux")]
pub(super) fn file() -> io::Result<File> {
    use std::io::{Seek as _, Write as _};

    let mut file = File::from(rustix::fs::memfd_create("filter", rustix::fs::MemfdFlags::empty())?);
    for seccompiler::sock_filter { code, jt, jf, k } in linux::program()? {
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
pub(super) fn apply() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn file() -> io::Result<File> {
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

    /// Makes a socket the one of a protocol laid over TCP, which Landlock does not take for TCP.
    const TCP_ULP: i32 = 31;
    /// The kind of a socket is in these bits, how it is opened in others.
    const SOCKET_KIND: i32 = 0xf;
    /// System calls of x86 programs with short pointers have these numbers, and do the same.
    #[cfg(target_arch = "x86_64")]
    const SHORT_POINTERS: u32 = 0x4000_0000;

    pub(super) fn failed(error: impl std::fmt::Display) -> io::Error {
        io::Error::other(format!("system calls cannot be filtered: {error}"))
    }

    /// Refuses what is listed and lets everything else pass. Programs of another architecture than this one are ended:
    /// their calls have other numbers, and one that gets nothing but errors may not even end by itself.
    pub(super) fn program() -> io::Result<BpfProgram> {
        let target = TargetArch::try_from(std::env::consts::ARCH).map_err(failed)?;
        let refused = SeccompAction::Errno(libc::EACCES as u32);
        let filter =
            SeccompFilter::new(refused_calls().map_err(failed)?, SeccompAction::Allow, refused.clone(), target);
        let program = BpfProgram::try_from(filter.map_err(failed)?).map_err(failed)?;
        #[cfg(target_arch = "x86_64")]
        let program = without_short_pointers(program, refused.into());
        Ok(program)
    }

    /// The same program, which refuses first what programs with short pointers call.
    #[cfg(target_arch = "x86_64")]
    fn without_short_pointers(mut program: BpfProgram, refused: u32) -> BpfProgram {
        let step = |code: u32, jf: u8, k: u32| seccompiler::sock_filter { code: code as u16, jt: 0, jf, k };
        let number = step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0);
        let short = step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, SHORT_POINTERS);
        let refuse = step(libc::BPF_RET | libc::BPF_K, 0, refused);
        // After the three steps that look at the architecture.
        program.splice(3..3, [number, short, refuse]);
        program
    }

    type Rules = Vec<SeccompRule>;

    /// The calls that are refused, each with the arguments that make it so.
    fn refused_calls() -> Result<BTreeMap<i64, Rules>, seccompiler::BackendError> {
        let is = |argument: u8, value: i32| condition(argument, SeccompCmpOp::Eq, value);
        let is_not = |argument: u8, value: i32| condition(argument, SeccompCmpOp::Ne, value);
        let has = |argument: u8, bits: i32| condition(argument, SeccompCmpOp::MaskedEq(bits as u64), bits);
        let lacks = |argument: u8, bits: i32| condition(argument, SeccompCmpOp::MaskedEq(bits as u64), 0);
        let rule = |conditions: Vec<Result<SeccompCondition, _>>| {
            SeccompRule::new(conditions.into_iter().collect::<Result<_, _>>()?)
        };

        // Of the families that leave the machine only these two, and of them TCP alone. The others that stay speak to
        // processes here and to the kernel.
        let kept = [libc::AF_UNIX, libc::AF_NETLINK, libc::AF_INET, libc::AF_INET6];
        let mut socket = vec![rule(kept.map(|family| is_not(0, family)).into())?];
        for family in [libc::AF_INET, libc::AF_INET6] {
            socket.push(rule(vec![is(0, family), is_not(2, 0), is_not(2, libc::IPPROTO_TCP)])?);
            // Any kind but a stream, bit by bit.
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
            // What is asked for through a ring is seen by no filter.
            (libc::SYS_io_uring_setup, Vec::new()),
        ]))
    }

    /// The kernel takes these arguments as 32 bits, whatever the others are.
    fn condition(
        argument: u8,
        operator: SeccompCmpOp,
        value: i32,
    ) -> Result<SeccompCondition, seccompiler::BackendError> {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value as u64)
    }
}
