//! The thread that keeps the Lease: it asks what [`Election`] wants to ask, and publishes what
//! follows from the answers.

use std::pin::Pin;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use parking_lot::Mutex;
use pilothouse_cluster::client::WriteRight;
use pilothouse_cluster::leases::{
    LeaseChange, LeaseError, LeaseSelection, LeaseWatch, Leases, record, time_of_day, with_record,
};
use pilothouse_core::{
    Attempt, Election, ElectionNews, ElectionRequest, LeaseAnswer, LeaseRecord, Time,
};
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;
use tracing::{info, warn};

use super::standing::{Standing, StandingState};
use super::{
    HostsParts, Opening, REMINDER, WATCH_PAUSE, WatchOpener, clock, open, or_never, random, spawn,
};
use crate::metrics::HostsMetrics;

/// The running elector.
pub struct Elector {
    standing: Standing,
    right: Arc<WriteRight>,
    release: Mutex<Option<oneshot::Sender<()>>>,
    /// Closed when the thread ends.
    ended: watch::Receiver<()>,
}

impl Elector {
    /// Starts the thread. It competes until it is released.
    pub(super) fn start(parts: HostsParts) -> anyhow::Result<Self> {
        let right = Arc::new(WriteRight::none(parts.settings.slack(), clock::now));
        let (told, standing) = Standing::new(right.clone());
        let (release, released) = oneshot::channel();
        let (end, ended) = watch::channel(());
        let its_right = right.clone();
        spawn("elector", move || async move {
            // Dropped however the thread ends.
            let _end: watch::Sender<()> = end;
            let leases = open(&parts).await;
            let keeping = Keeping::new(parts, leases, its_right, told);
            keeping.run(released).await;
        })?;
        Ok(Self {
            standing,
            right,
            release: Mutex::new(Some(release)),
            ended,
        })
    }

    /// Whether this host leads.
    pub(super) fn standing(&self) -> Standing {
        self.standing.clone()
    }

    /// Until when this host may write.
    pub(super) fn right(&self) -> Arc<WriteRight> {
        self.right.clone()
    }

    /// Waits until the thread ends, which happens only by a fault before it is released.
    pub(super) async fn failed(&self) -> anyhow::Error {
        self.ended().await;
        if self.release.lock().is_none() {
            // It was told to.
            std::future::pending::<()>().await;
        }
        anyhow::anyhow!("the elector has died; see the panic above")
    }

    async fn ended(&self) {
        while self.ended.clone().changed().await.is_ok() {}
    }

    /// Gives the Lease back, if this host holds it. Nothing may be written any more.
    pub(super) async fn release(&self) {
        self.right.set(None);
        if let Some(release) = self.release.lock().take() {
            // The thread may have ended already.
            let _ = release.send(());
        }
        self.ended().await;
    }
}

type UnderWay = Pin<Box<dyn Future<Output = Result<Lease, LeaseError>> + Send>>;

/// The work of the thread.
struct Keeping {
    election: Election,
    leases: Leases,
    name: String,
    identity: String,
    right: Arc<WriteRight>,
    told: watch::Sender<StandingState>,
    metrics: HostsMetrics,
    /// The Lease as last read or written; updates are made to this state.
    base: Option<Lease>,
    under_way: Option<UnderWay>,
    /// When a problem was last logged.
    said: Option<Time>,
}

impl Keeping {
    fn new(
        parts: HostsParts,
        leases: Leases,
        right: Arc<WriteRight>,
        told: watch::Sender<StandingState>,
    ) -> Self {
        let namespace = leases.namespace().to_owned();
        info!(lease = %format_args!("{namespace}/{}", parts.name), identity = parts.identity, "taking part in the leader election");
        Self {
            election: Election::new(&parts.identity, parts.settings, random()),
            leases,
            name: parts.name,
            identity: parts.identity,
            right,
            told,
            metrics: parts.metrics,
            base: None,
            under_way: None,
            said: None,
        }
    }

    async fn run(mut self, mut released: oneshot::Receiver<()>) {
        let mut changes = Changes::new(self.leases.clone(), &self.name);
        let mut is_releasing = false;
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
                seen = changes.next() => self.election.observed(seen, clock::now()),
                () = sleep(pause.min(REMINDER)) => {}
                _ = &mut released, if !is_releasing => {
                    is_releasing = true;
                    self.told.send_modify(|state| state.is_leaving = true);
                    self.election.release(clock::now());
                }
            }
        }
        self.publish();
    }

    fn send(&mut self, request: ElectionRequest) {
        let (leases, name) = (self.leases.clone(), self.name.clone());
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

    fn take(&mut self, answer: Result<Lease, LeaseError>) {
        self.under_way = None;
        let problem = match &answer {
            Ok(_) | Err(LeaseError::Conflict) => None,
            // It is created next.
            Err(LeaseError::Absent) if self.base.is_none() => None,
            Err(error) => Some(self.remedy(error)),
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

    /// What is wrong, and what helps.
    fn remedy(&self, error: &LeaseError) -> String {
        let namespace = self.leases.namespace();
        match error {
            LeaseError::Refused(refused) if refused.code() == Some(403) => format!(
                "{refused}; the host needs create, get, update and watch of leases in {namespace} (see pilothouse rbac)"
            ),
            LeaseError::Absent => format!(
                "there is no namespace {namespace} for the Lease; name one with --leader-elect-resource-namespace"
            ),
            error => error.to_string(),
        }
    }

    /// Logs a problem now and then, and publishes it.
    fn say(&mut self, problem: Option<String>) {
        let now = clock::now();
        match &problem {
            Some(reason) if self.said.is_none_or(|said| said + REMINDER <= now) => {
                self.said = Some(now);
                let lease = &self.name;
                warn!(lease, reason, "cannot acquire or renew the Lease");
            }
            Some(_) => {}
            None => self.said = None,
        }
        self.told.send_if_modified(|state| {
            let is_news = state.problem != problem;
            state.problem = problem;
            is_news
        });
    }

    /// Passes on what has changed. The right comes first when it ends, and last when it begins.
    fn publish(&mut self) {
        let news = self.election.news(clock::now());
        let right = self.election.right();
        self.right.set(right);
        self.metrics
            .set(right.is_some(), self.election.slow_renewals());
        let holder = self.election.holder();
        self.told.send_if_modified(|state| {
            let before = state.clone();
            state.term += u64::from(news.contains(&ElectionNews::Leads));
            state.leads = right.is_some();
            state.holder = holder.to_owned();
            *state != before
        });
        for news in news {
            match news {
                ElectionNews::Leads => info!(identity = self.identity, "this host leads"),
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

/// The changes of the Lease, as a watch reports them. Without the watch an election works as well,
/// only a few seconds slower.
struct Changes {
    leases: Leases,
    selection: LeaseSelection,
    opener: WatchOpener,
    opening: Option<Opening>,
    watch: Option<LeaseWatch>,
}

impl Changes {
    fn new(leases: Leases, name: &str) -> Self {
        Self {
            leases,
            selection: LeaseSelection::Named(name.to_owned()),
            opener: WatchOpener::default(),
            opening: None,
            watch: None,
        }
    }

    /// The next state of the Lease; the empty record if it is gone. May be dropped and called
    /// again at any time.
    async fn next(&mut self) -> LeaseRecord {
        loop {
            let Some(open) = &mut self.watch else {
                let (leases, selection) = (&self.leases, &self.selection);
                let open = || self.opener.open(leases.clone(), selection.clone());
                self.watch = self.opening.get_or_insert_with(open).await;
                self.opening = None;
                continue;
            };
            match open.next().await {
                Some(LeaseChange::Is(lease)) => return record(&lease),
                Some(LeaseChange::Gone(_)) => return LeaseRecord::default(),
                None => {
                    self.watch = None;
                    sleep(WATCH_PAUSE).await;
                }
            }
        }
    }
}
