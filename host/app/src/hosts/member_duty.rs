//! Makes the hub run the keys of the shards that this host has, and only those.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_core::{Duties, HeldShards, Hub, Offer, Relinquish, Shard};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, interval};
use tracing::info;

use super::duty::DutyParts;
use super::member::{MemberLink, MemberOrder, ShardChange};
use super::{GRACE, LOOK, or_never};
use crate::shared::Cause;

/// The time between two looks at which plugins there are.
const OFFER_PERIOD: Duration = Duration::from_secs(1);

/// See the module's documentation.
pub struct MemberDuty {
    parts: Arc<DutyParts>,
    orders: mpsc::UnboundedSender<MemberOrder>,
    changes: Mutex<mpsc::UnboundedReceiver<ShardChange>>,
}

/// What this host runs, and what it gives up.
#[derive(Default)]
struct Held {
    shards: BTreeSet<Shard>,
    /// Shards of which something may still run, and by when that is halted.
    ending: BTreeMap<Shard, Instant>,
    offer: Offer,
}

impl MemberDuty {
    pub(super) fn new(member: MemberLink, parts: Arc<DutyParts>) -> Self {
        Self {
            parts,
            orders: member.orders,
            changes: Mutex::new(member.changes),
        }
    }

    /// Follows what the member gains and loses, for ever.
    pub(super) async fn keep(&self) {
        let mut changes = self.changes.lock().await;
        let mut held = Held::default();
        let mut looks = interval(LOOK);
        let mut offers = interval(OFFER_PERIOD);
        let mut taking_over = None;
        loop {
            tokio::select! {
                change = changes.recv() => {
                    let Some(change) = change else {
                        // The member has ended, and with it the host.
                        return std::future::pending().await;
                    };
                    if self.change(&mut held, change) {
                        // Anew: what was asked before the gain proves nothing for it.
                        taking_over = Some(Box::pin(self.parts.takeover.complete()));
                    }
                }
                _ = looks.tick(), if !held.ending.is_empty() => self.release(&mut held),
                _ = offers.tick() => self.offer(&mut held),
                () = or_never(&mut taking_over) => taking_over = None,
            }
        }
    }

    /// Returns whether something was gained.
    fn change(&self, held: &mut Held, change: ShardChange) -> bool {
        let (how, gained) = match change {
            ShardChange::Gained(shard) => {
                self.tell(&shard, "runs");
                held.shards.insert(shard);
                (Relinquish::Finish, true)
            }
            ShardChange::Finish(shard) => {
                self.tell(&shard, "gives up");
                held.shards.remove(&shard);
                held.ending.entry(shard).or_insert(Instant::now() + GRACE);
                (Relinquish::Finish, false)
            }
            ShardChange::Stop(shard) => {
                self.tell(&shard, "has lost");
                held.shards.remove(&shard);
                held.ending.insert(shard, Instant::now());
                (Relinquish::Stop, false)
            }
        };
        self.set(held, how);
        gained
    }

    /// Says in the log and by an Event who runs a shard from now on.
    fn tell(&self, shard: &Shard, what: &str) {
        info!(%shard, "this host {what} a shard");
        let note = format!("{} {what} {shard}", self.parts.identity);
        self.parts.events.tell("Sharing", note);
    }

    fn set(&self, held: &Held, how: Relinquish) {
        let mut duties: BTreeMap<String, HeldShards> = BTreeMap::new();
        for shard in &held.shards {
            let of_plugin = duties
                .entry(shard.plugin.to_string())
                .or_insert_with(|| HeldShards::none(shard.of));
            of_plugin.held.insert(shard.index);
        }
        self.parts.set(Duties::Shards(duties), how);
    }

    /// Reports the shards of which nothing runs any more.
    fn release(&self, held: &mut Held) {
        let now = Instant::now();
        let ending = held.ending.keys();
        let unfinished: BTreeSet<Shard> = self.parts.shared.read(Cause::Status, |hub| {
            let unfinished = ending.filter(|shard| hub.is_unfinished(shard));
            unfinished.cloned().collect()
        });
        let late = |(shard, by): (&Shard, &Instant)| *by <= now && unfinished.contains(shard);
        if held.ending.iter().any(late) {
            self.set(held, Relinquish::Stop);
        }
        let ended: Vec<Shard> = held
            .ending
            .keys()
            .filter(|shard| !unfinished.contains(shard))
            .cloned()
            .collect();
        for shard in ended {
            held.ending.remove(&shard);
            self.order(MemberOrder::Released(shard));
        }
    }

    /// Says which plugins this host has, if that has changed.
    fn offer(&self, held: &mut Held) {
        let offer = self.parts.shared.read(Cause::Status, Hub::offer);
        if offer != held.offer {
            held.offer = offer.clone();
            self.order(MemberOrder::Offered(offer));
        }
    }

    fn order(&self, order: MemberOrder) {
        // The member has ended, and with it the host.
        let _ = self.orders.send(order);
    }
}
