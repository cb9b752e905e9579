//! What has happened in a schedule.

/// What has happened, to show that it does.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    pub gained: u64,
    pub finished: u64,
    pub stopped: u64,
    pub lapsed: u64,
    pub lost: u64,
    pub removed: u64,
    pub taken_over: u64,
    pub left: u64,
    pub pauses: u64,
    pub crashes: u64,
    pub unknown: u64,
    pub late_executions: u64,
    pub late_changes: u64,
    pub conflicts: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        self.gained += other.gained;
        self.finished += other.finished;
        self.stopped += other.stopped;
        self.lapsed += other.lapsed;
        self.lost += other.lost;
        self.removed += other.removed;
        self.taken_over += other.taken_over;
        self.left += other.left;
        self.pauses += other.pauses;
        self.crashes += other.crashes;
        self.unknown += other.unknown;
        self.late_executions += other.late_executions;
        self.late_changes += other.late_changes;
        self.conflicts += other.conflicts;
    }
}
