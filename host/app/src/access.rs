//! Checks who can write to a file or directory that the host trusts.

use rustix::fs::{Mode, Stat};
use rustix::process::geteuid;

/// Owner and mode.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    owner: u32,
    mode: u32,
}

impl Access {
    pub fn of(stat: &Stat) -> Self {
        Self {
            owner: stat.st_uid,
            mode: stat.st_mode,
        }
    }

    /// Why another user may have written to it, and how to fix that. Root as owner is accepted,
    /// because root can control the host without any file.
    pub fn fault(self) -> Option<String> {
        self.fault_for(geteuid().as_raw())
    }

    fn fault_for(self, own: u32) -> Option<String> {
        let Self { owner, .. } = self;
        if self.has(Mode::WOTH) {
            return Some("everybody may write to it; run chmod o-w on it".to_owned());
        }
        (owner != 0 && owner != own).then(|| {
            format!(
                "it belongs to another user ({owner}), who may write to it; run chown {own} on it"
            )
        })
    }

    /// True if the group may write. That is no fault: the operator may trust the group's members,
    /// as with volumes that have an `fsGroup`.
    pub fn is_open_to_group(self) -> bool {
        self.has(Mode::WGRP)
    }

    fn has(self, bit: Mode) -> bool {
        Mode::from_raw_mode(self.mode).contains(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_user_or_everybody_may_write_is_not_believed() {
        let fault = |owner, mode| Access { owner, mode }.fault_for(1000);
        assert_eq!(fault(1000, 0o100644), None);
        assert_eq!(fault(0, 0o100664), None, "its group is another matter");
        let other = fault(1001, 0o100644).expect("it is another user's");
        assert!(other.contains("another user (1001)"), "{other}");
        assert!(other.ends_with("run chown 1000 on it"), "{other}");
        let open = fault(1000, 0o100646).expect("it is open to all");
        assert!(open.contains("chmod o-w"), "{open}");
    }

    #[test]
    fn a_group_that_may_write_is_known() {
        let is_open = |mode| Access { owner: 0, mode }.is_open_to_group();
        assert!(is_open(0o100664) && !is_open(0o100644));
    }
}
