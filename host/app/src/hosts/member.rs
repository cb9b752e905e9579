//! Keeps this host's membership in a group that shares: sends what [`Sharing`] wants to send, and
//! passes on what follows from the answers.

use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use pilothouse_core::{
    Offer, Shard, Sharing, SharingAnswer, SharingEffect, SharingEvent, SharingGroup, SharingNotice,
    SharingRequest, Time,
};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

use super::keeper::{Keeper, Publisher};
use super::leases_of_group::GroupLeases;
use super::standing::SharingState;
use super::{HostsParts, clock, random};
use crate::metrics::HostsMetrics;

/// The longest sleep, in case a time was missed.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// What the rest of the host tells the member.
#[derive(Debug)]
pub(super) enum MemberOrder {
    /// The plugins that this host has now.
    Offered(Offer),
    /// Nothing of this shard runs here any more.
    Released(Shard),
}

/// What the rest of the host is to do.
#[derive(Debug)]
pub(super) enum ShardChange {
    Gained(Shard),
    /// Begin nothing more of it, let end what runs, and release it.
    Finish(Shard),
    /// Halt what runs of it, and release it.
    Stop(Shard),
}

/// How the rest of the host and the member talk to each other.
pub(super) struct MemberLink {
    pub orders: mpsc::UnboundedSender<MemberOrder>,
    pub changes: mpsc::UnboundedReceiver<ShardChange>,
}

/// Starts the thread. It is a member until it is told to leave.
pub(super) fn start(parts: HostsParts) -> anyhow::Result<(Keeper, MemberLink)> {
    let sharing = Sharing::new(parts.settings, &host_name(&parts.identity), random())?;
    let (orders, given) = mpsc::unbounded_channel();
    let (passed, changes) = mpsc::unbounded_channel();
    let keeper = Keeper::start("member", parts, |parts, leases, publisher| async move {
        let group = match SharingGroup::new(&parts.name, leases.namespace()) {
            Ok(group) => group,
            Err(error) => return error!(%error, "this host cannot share"),
        };
        let keeping = Keeping {
            sharing,
            leases: GroupLeases::new(leases, group),
            publisher,
            passed,
            metrics: parts.metrics,
            under_way: FuturesUnordered::new(),
            has_left: false,
        };
        keeping.run(given).await;
    })?;
    Ok((keeper, MemberLink { orders, changes }))
}

/// The identity as a part of a Lease's name: at most 100 letters, digits and `-`.
fn host_name(identity: &str) -> String {
    let lower = identity.to_ascii_lowercase();
    let plain: String = lower
        .chars()
        .map(|char| {
            if char.is_ascii_alphanumeric() {
                char
            } else {
                '-'
            }
        })
        .collect();
    // The random part is at the end.
    let start = plain.len().saturating_sub(90);
    plain[start..].trim_matches('-').to_owned()
}

type UnderWay = BoxFuture<'static, (u64, SharingAnswer)>;

/// The work of the thread.
struct Keeping {
    sharing: Sharing,
    leases: GroupLeases,
    publisher: Publisher,
    passed: mpsc::UnboundedSender<ShardChange>,
    metrics: HostsMetrics,
    under_way: FuturesUnordered<UnderWay>,
    has_left: bool,
}

impl Keeping {
    async fn run(mut self, mut given: mpsc::UnboundedReceiver<MemberOrder>) {
        let mut changes = self.leases.changes();
        self.handle(SharingEvent::Tick, clock::now());
        while !self.has_left {
            let now = clock::now();
            let due = self.sharing.next_due(now).unwrap_or(Time::MAX);
            let pause = due.saturating_sub(now).min(LONGEST_SLEEP);
            let event = tokio::select! {
                Some((request, answer)) = self.under_way.next() => {
                    SharingEvent::Answered { request, answer }
                }
                seen = changes.next() => self.leases.event(seen).unwrap_or(SharingEvent::Tick),
                Some(order) = given.recv() => match order {
                    MemberOrder::Offered(offer) => SharingEvent::Offered(offer),
                    MemberOrder::Released(shard) => SharingEvent::Released(shard),
                },
                () = self.publisher.leaving() => SharingEvent::Leave,
                () = sleep(pause) => SharingEvent::Tick,
            };
            self.handle(event, clock::now());
        }
        self.publish();
    }

    fn handle(&mut self, event: SharingEvent, now: Time) {
        for effect in self.sharing.handle(event, now) {
            match effect {
                SharingEffect::Send(request) => self.send(request),
                SharingEffect::Gained(shard) => self.pass(ShardChange::Gained(shard)),
                SharingEffect::Finish(shard) => self.pass(ShardChange::Finish(shard)),
                SharingEffect::Stop(shard) => self.pass(ShardChange::Stop(shard)),
                SharingEffect::Tell(notice) => self.tell(&notice),
            }
        }
        self.publish();
    }

    fn send(&mut self, request: SharingRequest) {
        let leases = self.leases.clone();
        self.under_way.push(Box::pin(async move {
            let answer = timeout(request.timeout, leases.call(request.call)).await;
            (request.id, answer.unwrap_or(SharingAnswer::Unknown))
        }));
    }

    fn pass(&self, change: ShardChange) {
        self.metrics.changed_shards();
        // Nobody follows any more: the host is ending.
        let _ = self.passed.send(change);
    }

    fn tell(&mut self, notice: &SharingNotice) {
        match notice {
            SharingNotice::Joined(member) => info!(%member, "this host is a member"),
            SharingNotice::Lapsed(member) => {
                warn!(%member, "the Lease was not renewed in time; everything stops");
            }
            SharingNotice::Lost(member) => {
                warn!(%member, "the Lease is gone; this host joins again as another member");
            }
            SharingNotice::Removed(member) => {
                warn!(%member, "a member is gone; its shards are free");
            }
            SharingNotice::Left => {
                info!("this host has left");
                self.has_left = true;
            }
        }
    }

    /// What was stopped has no right: [`Sharing::right`] is `None` until it is released. So the
    /// right may be published before the hub has stopped it.
    fn publish(&mut self) {
        self.publisher.set_right(self.sharing.right());
        let owners = self.sharing.owners().cloned().unwrap_or_default();
        let state = SharingState {
            member: self.sharing.id().clone(),
            is_member: self.sharing.is_member(),
            members: self.sharing.others().count() + usize::from(self.sharing.is_member()),
            owners,
        };
        self.metrics.set_members(state.members, state.own().count());
        let problem = self.leases.problem().filter(|_| !state.is_member);
        self.publisher.tell(|told| {
            told.sharing = Some(state);
            told.problem = problem;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_host_fits_into_that_of_a_lease_and_keeps_its_random_part() {
        assert_eq!(host_name("Web.Example_1f"), "web-example-1f");
        let long = format!("{}_0123456789abcdef", "x".repeat(200));
        let name = host_name(&long);
        assert!(
            name.len() <= 90 && name.ends_with("-0123456789abcdef"),
            "{name}"
        );
    }
}
