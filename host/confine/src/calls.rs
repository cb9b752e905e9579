//! The system calls that a confined process may make (seccomp): to compute, and to use the pipes it
//! already has. It cannot open, connect to, start or inspect anything, whatever code it is made to
//! run.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

/// Any other call fails with EPERM, so that the process can still report what it tried.
const ALLOWED: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Limits the calls of this thread, and of all threads and processes it starts, permanently. A
/// program it executes gets no more privileges than it has itself (`no_new_privs`). If the kernel
/// does not support such filters, only the other limits apply.
pub(super) fn limit() -> io::Result<()> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(());
    };
    let filter = program(arch).map_err(io::Error::other)?;
    match apply_filter(&filter) {
        Err(Error::Seccomp(error))
            if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) =>
        {
            Ok(())
        }
        applied => applied.map_err(io::Error::other),
    }
}

fn program(arch: TargetArch) -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    // A process that aborts sends itself a signal. It may not send signals to other processes.
    let own = SeccompCondition::new(
        0,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Eq,
        u64::from(std::process::id()),
    )?;
    rules.insert(libc::SYS_tgkill, vec![SeccompRule::new(vec![own])?]);
    let refusal = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(rules, refusal, SeccompAction::Allow, arch)?.try_into()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{ErrorKind, Read, Write};
    use std::net::UdpSocket;
    use std::process::Command;
    use std::thread;

    use super::*;

    /// Runs `work` confined, in a thread of its own so that the other tests stay unlimited.
    fn confined<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = thread::spawn(|| {
            limit().unwrap();
            work()
        });
        thread.join().unwrap()
    }

    #[test]
    fn what_is_confined_opens_connects_and_starts_nothing() {
        let refused = confined(|| {
            [
                File::open("/proc/self/status").map(drop),
                UdpSocket::bind("127.0.0.1:0").map(drop),
                Command::new("/proc/self/exe").spawn().map(drop),
                thread::Builder::new().spawn(|| ()).map(drop),
            ]
            .map(|done| done.err().map(|error| error.kind()))
        });
        assert_eq!(refused, [Some(ErrorKind::PermissionDenied); 4]);
    }

    #[test]
    fn what_is_confined_computes_and_uses_the_pipes_it_has() {
        let (mut input, mut feed) = io::pipe().unwrap();
        let (mut output, mut result) = io::pipe().unwrap();
        feed.write_all(b"41").unwrap();
        drop(feed);
        confined(move || {
            let mut text = String::new();
            input.read_to_string(&mut text).unwrap();
            // Large enough that the allocator has to request memory from the kernel and to return
            // it.
            let large: Vec<u64> = (0..4_000_000).collect();
            assert_eq!(large.iter().max(), Some(&3_999_999));
            let number: u32 = text.parse().unwrap();
            write!(result, "{}", number + 1).unwrap();
        });
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "42");
    }
}
