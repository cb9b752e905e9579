//! Keeps the Lease of a leader: asks what [`Election`] wants to ask, and publishes what follows
//! from the answers.

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use pilothouse_cluster::leases::{
    LeaseError, LeaseSelection, Leases, record, time_of_day, with_record,
};
use pilothouse_core::{Attempt, Election, ElectionNews, ElectionRequest, LeaseAnswer, LeaseRecord};
use tokio::time::sleep;
use tracing::{info, warn};

use super::keeper::{Keeper, Publisher};
use super::lease_changes::{LeaseChanges, Seen};
use super::problems::{Needs, REMINDER, Reminder, remedy};
use super::{HostsParts, clock, or_never, random};

const NEEDS: Needs = Needs {
    verbs: "create, get, update and watch",
    command: "pilothouse rbac",
};

/// Starts the thread. It competes until it is told to leave.
pub(super) fn start(parts: HostsParts) -> anyhow::Result<Keeper> {
    Keeper::start("elector", parts, |parts, leases, publisher| {
        Keeping::new(parts, leases, publisher).run()
    })
}

/// The work of the thread.
struct Keeping {
    election: Election,
    leases: Leases,
    parts: HostsParts,
    publisher: Publisher,
    /// The Lease as last read, written or taken from the watch; updates are made to this state.
    base: Option<Lease>,
    under_way: Option<BoxFuture<'static, Result<Lease, LeaseError>>>,
    reminder: Reminder,
}

impl Keeping {
    fn new(parts: HostsParts, leases: Leases, publisher: Publisher) -> Self {
        let namespace = leases.namespace().to_owned();
        info!(lease = %format_args!("{namespace}/{}", parts.name), identity = parts.identity, "taking part in the leader election");
        Self {
            election: Election::new(&parts.identity, parts.settings, random()),
            leases,
            parts,
            publisher,
            base: None,
            under_way: None,
            reminder: Reminder::default(),
        }
    }

    async fn run(mut self) {
        let lease = LeaseSelection::Named(self.parts.name.clone());
        let mut changes = LeaseChanges::new(self.leases.clone(), lease);
        loop {
            let due = match self.election.poll(clock::now(), &wall()) {
                Attempt::Send(request) => {
                    self.send(request);
                    continue;
                }
                Attempt::Wait(due) => due,
                Attempt::Released => break,
            };
            self.publish();
            let pause = due.saturating_sub(clock::now());
            tokio::select! {
                answer = or_never(&mut self.under_way) => self.take(answer),
                seen = changes.next() => self.see(seen),
                () = sleep(pause.min(REMINDER)) => {}
                () = self.publisher.leaving() => self.election.release(clock::now()),
            }
        }
        self.publish();
    }

    fn send(&mut self, request: ElectionRequest) {
        let (leases, name) = (self.leases.clone(), self.parts.name.clone());
        let base = self.base.clone();
        self.under_way = Some(Box::pin(async move {
            match request {
                ElectionRequest::Get => leases.get(&name).await,
                ElectionRequest::Create(record) => {
                    leases.create(&with_record(None, &name, &record)).await
                }
                ElectionRequest::Update(record) => {
                    leases.update(&with_record(base, &name, &record)).await
                }
            }
        }));
    }

    fn see(&mut self, seen: Seen) {
        let now = clock::now();
        match seen {
            Seen::Is(lease) => {
                if self.election.observed(record(&lease), now) {
                    self.base = Some(*lease);
                }
            }
            Seen::Gone => {
                self.election.observed(LeaseRecord::default(), now);
            }
            Seen::Began | Seen::Ended => {}
        }
    }

    fn take(&mut self, answer: Result<Lease, LeaseError>) {
        self.under_way = None;
        let problem = match &answer {
            Ok(_) | Err(LeaseError::Conflict) => None,
            // It is created next.
            Err(LeaseError::Absent) if self.base.is_none() => None,
            Err(error) => Some(remedy(error, &NEEDS, self.leases.namespace())),
        };
        self.say(problem);
        let answer = match answer {
            Ok(lease) => {
                let record = record(&lease);
                self.base = Some(lease);
                LeaseAnswer::Is(record)
            }
            Err(LeaseError::Absent) => {
                self.base = None;
                LeaseAnswer::Absent
            }
            Err(LeaseError::Conflict) => LeaseAnswer::Conflict,
            Err(LeaseError::Refused(_) | LeaseError::Unknown(_)) => LeaseAnswer::Failed,
        };
        if let Some(next) = self.election.answered(answer, clock::now(), &wall()) {
            self.send(next);
        }
    }

    /// Logs a problem now and then, and publishes it.
    fn say(&mut self, problem: Option<String>) {
        match &problem {
            Some(reason) if self.reminder.is_due() => {
                let lease = &self.parts.name;
                warn!(lease, reason, "cannot acquire or renew the Lease");
            }
            Some(_) => {}
            None => self.reminder.forget(),
        }
        self.publisher.tell(|state| state.problem = problem);
    }

    /// Passes on what has changed. The right comes first when it ends, and last when it begins.
    fn publish(&mut self) {
        let news = self.election.news(clock::now());
        let right = self.election.right();
        self.publisher.set_right(right);
        self.parts
            .metrics
            .set(right.is_some(), self.election.slow_renewals());
        let holder = self.election.holder();
        self.publisher.tell(|state| {
            state.term += u64::from(news.contains(&ElectionNews::Leads));
            state.leads = right.is_some();
            holder.clone_into(&mut state.holder);
        });
        for news in news {
            match news {
                ElectionNews::Leads => info!(identity = self.parts.identity, "this host leads"),
                ElectionNews::Stopped => {}
                ElectionNews::NewLeader(leader) => info!(leader, "another host leads"),
            }
        }
    }
}

/// The time of day for a Lease. Information only.
fn wall() -> String {
    time_of_day(Timestamp::now())
}
