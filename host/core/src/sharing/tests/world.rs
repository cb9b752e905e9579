//! Hosts, a server and a network between them, in one time: the server's, in milliseconds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::counts::Counts;
use super::host::{Acting, Host, Message, overlapping};
use super::rng::Rng;
use super::server::Server;
use crate::leadership::ElectionSettings;
use crate::sharing::Sharing;
use crate::sharing::event::{SharingEffect, SharingEvent, SharingNotice};
use crate::sharing::records::{Offer, Record, Shard, StoredRecord};
use crate::sharing::requests::{SharingAnswer, SharingCall, SharingRequest};

/// What is wrong with the network, in percent of messages.
#[derive(Clone, Copy, Default)]
pub struct Network {
    pub lost: u64,
    pub late: u64,
    pub failed: u64,
}

enum Happening {
    Execute(usize, SharingRequest, u64),
    Deliver(usize, Message),
    Resume(usize),
}

struct Scheduled(u64, u64, Happening);

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

pub struct World {
    pub now: u64,
    pub rng: Rng,
    pub server: Server,
    pub hosts: Vec<Host>,
    pub network: Network,
    pub counts: Counts,
    /// How many entries of the assignment have got another owner.
    pub moves: u64,
    pub violation: Option<String>,
    /// For how many milliseconds work goes on at most after it was told to end.
    pub work: u64,
    queue: BinaryHeap<Reverse<Scheduled>>,
    sequence: u64,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            now: 0,
            rng: Rng::new(seed),
            server: Server::default(),
            hosts: Vec::new(),
            network: Network::default(),
            counts: Counts::default(),
            moves: 0,
            violation: None,
            work: 4_000,
            queue: BinaryHeap::new(),
            sequence: 0,
        }
    }

    pub fn start(&mut self, offer: Offer, watches: bool, rate: u64) -> usize {
        let name = format!("host{}", self.hosts.len());
        let settings = ElectionSettings::default();
        let sharing =
            Sharing::new(settings, &name, self.rng.below(1 << 32)).expect("good settings");
        self.hosts.push(Host {
            sharing,
            name,
            started: self.now,
            rate,
            is_alive: true,
            is_paused: false,
            has_left: false,
            is_leaving: false,
            offer: offer.clone(),
            watches,
            cut_until: 0,
            cut_is_one_way: false,
            open: BTreeSet::new(),
            inbox: Vec::new(),
            acting: BTreeMap::new(),
            ticks: 0,
            requests: 0,
        });
        let host = self.hosts.len() - 1;
        self.handle(host, SharingEvent::Watching(watches));
        self.handle(host, SharingEvent::Offered(offer));
        host
    }

    pub fn leave(&mut self, host: usize) {
        self.hosts[host].is_leaving = true;
        self.deliver(host, Message::Event(SharingEvent::Leave));
    }

    pub fn offer(&mut self, host: usize, offer: Offer) {
        self.hosts[host].offer = offer.clone();
        self.deliver(host, Message::Event(SharingEvent::Offered(offer)));
    }

    pub fn crash(&mut self, host: usize) {
        self.hosts[host].is_alive = false;
        self.counts.crashes += 1;
    }

    pub fn pause(&mut self, host: usize, millis: u64) {
        if !self.hosts[host].is_paused {
            self.counts.pauses += 1;
            self.hosts[host].is_paused = true;
            self.at(millis, Happening::Resume(host));
        }
    }

    /// Ends a pause. What has come meanwhile comes in any order.
    pub fn resume(&mut self, host: usize) {
        if !std::mem::take(&mut self.hosts[host].is_paused) {
            return;
        }
        let mut inbox = std::mem::take(&mut self.hosts[host].inbox);
        while !inbox.is_empty() {
            let next = self.rng.below(inbox.len() as u64) as usize;
            self.deliver(host, inbox.swap_remove(next));
        }
    }

    pub fn run_until(&mut self, end: u64) {
        while self.violation.is_none() {
            if self.queue.peek().is_none_or(|Reverse(next)| next.0 > end) {
                break;
            }
            if let Some(Reverse(Scheduled(time, _, happening))) = self.queue.pop() {
                self.now = time;
                match happening {
                    Happening::Execute(host, request, timeout) => {
                        self.execute(host, &request, timeout);
                    }
                    Happening::Deliver(host, message) => self.deliver(host, message),
                    Happening::Resume(host) => self.resume(host),
                }
            }
        }
        self.now = self.now.max(end);
    }

    fn at(&mut self, delay: u64, happening: Happening) {
        self.sequence += 1;
        let scheduled = Scheduled(self.now + delay, self.sequence, happening);
        self.queue.push(Reverse(scheduled));
    }

    /// How long a message takes; `None` if it is lost.
    fn delay(&mut self) -> Option<u64> {
        let kind = self.rng.below(100);
        if kind < self.network.lost {
            None
        } else if kind < self.network.lost + self.network.late {
            Some(self.rng.between(100, 30_000))
        } else {
            Some(self.rng.between(1, 30))
        }
    }

    fn send(&mut self, host: usize, request: SharingRequest) {
        let is_cut = self.now < self.hosts[host].cut_until;
        let timeout = request.timeout.as_micros() as u64 / self.hosts[host].rate;
        self.hosts[host].open.insert(request.id);
        self.hosts[host].requests += 1;
        assert!(
            self.hosts[host].open.len() <= 2,
            "too many requests at once"
        );
        let deadline = self.now + timeout;
        self.at(
            timeout,
            Happening::Deliver(host, Message::Timeout(request.id)),
        );
        if self.rng.chance(self.network.failed) {
            let failed = Message::Answer(request.id, SharingAnswer::Failed);
            self.at(1, Happening::Deliver(host, failed));
        } else if (!is_cut || self.hosts[host].cut_is_one_way)
            && let Some(delay) = self.delay()
        {
            self.at(delay, Happening::Execute(host, request, deadline));
        }
    }

    fn execute(&mut self, host: usize, request: &SharingRequest, deadline: u64) {
        let before = self.server.assignment.clone();
        let answer = self.server.execute(&request.call);
        let has_changed = matches!(answer, SharingAnswer::Written(_) | SharingAnswer::Deleted);
        if self.now > deadline {
            self.counts.late_executions += 1;
            self.counts.late_changes += u64::from(has_changed);
        }
        self.counts.conflicts += u64::from(answer == SharingAnswer::Conflict);
        if has_changed {
            self.count_moves(before.as_ref());
            self.show(request, &answer);
        }
        if self.now >= self.hosts[host].cut_until
            && let Some(delay) = self.delay()
        {
            let answer = Message::Answer(request.id, answer);
            self.at(delay, Happening::Deliver(host, answer));
        }
    }

    fn count_moves(&mut self, before: Option<&StoredRecord>) {
        let owners = |stored: Option<&StoredRecord>| match stored.map(|stored| &stored.record) {
            Some(Record::Assignment(record)) => record.owners.clone(),
            _ => BTreeMap::new(),
        };
        let after = owners(self.server.assignment.as_ref());
        for (shard, owner) in owners(before) {
            let has_moved = after.get(&shard).is_some_and(|new| *new != owner);
            self.moves += u64::from(has_moved);
        }
    }

    /// Shows a change to those that watch.
    fn show(&mut self, request: &SharingRequest, answer: &SharingAnswer) {
        let event = match (&request.call, answer) {
            (SharingCall::Delete(..), _) => SharingEvent::ObservedDeletion,
            (_, SharingAnswer::Written(stored)) => SharingEvent::Observed(stored.clone()),
            _ => return,
        };
        for host in 0..self.hosts.len() {
            let is_cut = self.now < self.hosts[host].cut_until;
            // A lost event is not the rule of a watch, but no harm may come of it.
            if self.hosts[host].watches
                && !is_cut
                && let Some(delay) = self.delay()
            {
                let event = Message::Event(event.clone());
                self.at(delay, Happening::Deliver(host, event));
            }
        }
    }

    fn deliver(&mut self, host: usize, message: Message) {
        let state = &mut self.hosts[host];
        if !state.is_alive {
            return;
        }
        if state.is_paused {
            return state.inbox.push(message);
        }
        let event = match message {
            Message::Tick(tick) if tick == state.ticks => SharingEvent::Tick,
            Message::Tick(_) => return,
            Message::Answer(request, answer) if state.open.remove(&request) => {
                SharingEvent::Answered { request, answer }
            }
            Message::Timeout(request) if state.open.remove(&request) => {
                self.counts.unknown += 1;
                SharingEvent::Answered {
                    request,
                    answer: SharingAnswer::Unknown,
                }
            }
            Message::Answer(..) | Message::Timeout(_) => return,
            Message::Event(SharingEvent::Released(shard)) => {
                state.acting.remove(&shard);
                SharingEvent::Released(shard)
            }
            // Of several that came during a pause the last one counts: no network is in between.
            Message::Event(SharingEvent::Offered(_)) => SharingEvent::Offered(state.offer.clone()),
            Message::Event(event) => event,
        };
        self.handle(host, event);
    }

    fn handle(&mut self, host: usize, event: SharingEvent) {
        let local = self.hosts[host].local(self.now);
        let had_right = self.hosts[host].has_right(self.now);
        let effects = self.hosts[host].sharing.handle(event, local);
        let mut has_gained = false;
        for effect in effects {
            match effect {
                SharingEffect::Send(request) => self.send(host, request),
                SharingEffect::Gained(shard) => {
                    has_gained = true;
                    self.gained(host, shard);
                }
                SharingEffect::Finish(shard) => {
                    self.counts.finished += 1;
                    self.release_later(host, &shard);
                }
                SharingEffect::Stop(shard) => {
                    self.counts.stopped += 1;
                    self.release_later(host, &shard);
                }
                SharingEffect::Tell(notice) => self.told(host, &notice),
            }
        }
        if has_gained || (!had_right && self.hosts[host].has_right(self.now)) {
            self.check_alone(host);
        }
        self.schedule_tick(host);
    }

    fn schedule_tick(&mut self, host: usize) {
        let state = &mut self.hosts[host];
        state.ticks += 1;
        let tick = Message::Tick(state.ticks);
        if let Some(due) = state.sharing.next_due(state.local(self.now)) {
            let delay = state.global(due) - self.now;
            self.at(delay, Happening::Deliver(host, tick));
        }
    }

    fn told(&mut self, host: usize, notice: &SharingNotice) {
        match notice {
            SharingNotice::Joined(_) => {}
            SharingNotice::Lapsed(_) => self.counts.lapsed += 1,
            SharingNotice::Lost(_) => self.counts.lost += 1,
            SharingNotice::Removed(_) => self.counts.removed += 1,
            SharingNotice::Left => {
                self.counts.left += 1;
                self.hosts[host].has_left = true;
                self.hosts[host].is_alive = false;
            }
        }
    }

    /// Work ends some time after it was told to.
    fn release_later(&mut self, host: usize, shard: &Shard) {
        let delay = match self.rng.below(3) {
            0 => 0,
            1 => self.rng.below(20.min(self.work + 1)),
            _ => self.rng.below(self.work + 1),
        };
        let acting = self.hosts[host].acting.get_mut(shard);
        let acting = acting.expect("what was not gained is not given up");
        if !std::mem::replace(&mut acting.release_is_due, true) {
            let released = SharingEvent::Released(shard.clone());
            self.at(delay, Happening::Deliver(host, Message::Event(released)));
        }
    }

    fn gained(&mut self, host: usize, shard: Shard) {
        self.counts.gained += 1;
        self.check_assent(host, &shard);
        let member = self.hosts[host].sharing.id().clone();
        let lease = self.server.members.get(&member);
        let acting = Acting {
            uid: lease.map(|stored| stored.version.uid.clone()),
            member,
            release_is_due: false,
        };
        let before = self.hosts[host].acting.insert(shard, acting);
        assert!(before.is_none(), "gained what is not released yet");
    }

    /// No shard is gained before its previous owner's assent, or the deletion of its Lease.
    fn check_assent(&mut self, host: usize, shard: &Shard) {
        for (other, state) in self.hosts.iter().enumerate() {
            for (_, acting) in overlapping(state, shard) {
                let lease = self.server.members.get(&acting.member);
                let lives =
                    lease.is_some_and(|lease| Some(&lease.version.uid) == acting.uid.as_ref());
                self.counts.taken_over += u64::from(other != host);
                if other != host && lives {
                    self.violation = Some(format!(
                        "{} has gained {shard}, which {} runs, whose Lease is there",
                        self.hosts[host].name, state.name
                    ));
                }
            }
        }
    }

    /// Nobody else has the duty for what this host has, and a right that lasts.
    fn check_alone(&mut self, host: usize) {
        if !self.hosts[host].has_right(self.now) {
            return;
        }
        let others = self.hosts.iter().enumerate();
        for (_, other) in others.filter(|(at, other)| *at != host && other.has_right(self.now)) {
            for shard in self.hosts[host].acting.keys() {
                if let Some((theirs, _)) = overlapping(other, shard).next() {
                    self.violation = Some(format!(
                        "at {} ms {} runs {shard} and {} runs {theirs}, and both may write",
                        self.now, self.hosts[host].name, other.name
                    ));
                    return;
                }
            }
        }
    }
}
