//! Single rules, shown on one host.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::server::Server;
use crate::leadership::ElectionSettings;
use crate::model::division::Division;
use crate::queue::Time;
use crate::sharing::Sharing;
use crate::sharing::event::{SharingEffect, SharingEvent, SharingNotice};
use crate::sharing::records::{MemberId, MemberRecord, Offer, Record, Shard};
use crate::sharing::requests::{SharingAnswer, SharingCall, SharingRequest};

const SECOND: Duration = Duration::from_secs(1);

/// One host and its server, between which this test carries the messages.
struct Pair {
    sharing: Sharing,
    server: Server,
    now: Time,
    sent: VecDeque<SharingRequest>,
    effects: Vec<SharingEffect>,
}

impl Pair {
    /// A host that runs its only shard.
    fn new() -> Self {
        let sharing = Sharing::new(ElectionSettings::default(), "a", 1).expect("good settings");
        let mut pair = Self {
            sharing,
            server: Server::default(),
            now: SECOND,
            sent: VecDeque::new(),
            effects: Vec::new(),
        };
        pair.handle(SharingEvent::Offered(offer()));
        pair.serve();
        assert!(pair.effects.contains(&SharingEffect::Gained(shard())));
        pair.effects.clear();
        pair
    }

    fn handle(&mut self, event: SharingEvent) {
        for effect in self.sharing.handle(event, self.now) {
            match effect {
                SharingEffect::Send(request) => self.sent.push_back(request),
                other => self.effects.push(other),
            }
        }
    }

    fn answer(&mut self, request: &SharingRequest, answer: SharingAnswer) {
        let request = request.id;
        self.handle(SharingEvent::Answered { request, answer });
    }

    /// Carries out all requests, until there are none.
    fn serve(&mut self) {
        while let Some(request) = self.sent.pop_front() {
            let answer = self.server.execute(&request.call);
            self.answer(&request, answer);
        }
    }

    /// Lets time pass, and takes the request out that is sent then and fits.
    fn wait_for(&mut self, time: Time, fits: impl Fn(&SharingCall) -> bool) -> SharingRequest {
        self.now = time;
        self.handle(SharingEvent::Tick);
        let place = self.sent.iter().position(|request| fits(&request.call));
        self.sent
            .remove(place.expect("it is sent"))
            .expect("it is there")
    }
}

fn shard() -> Shard {
    Shard::new("p", 0, Division::into(1))
}

fn offer() -> Offer {
    Offer::from([("p".into(), Division::into(1))])
}

fn is_renewal(call: &SharingCall) -> bool {
    matches!(call, SharingCall::Update(Record::Member(_), _))
}

fn is_assignment(call: &SharingCall) -> bool {
    matches!(call, SharingCall::Update(Record::Assignment(_), _))
}

fn is_list(call: &SharingCall) -> bool {
    matches!(call, SharingCall::List)
}

#[test]
fn the_right_counts_from_the_sending_of_a_renewal() {
    let mut pair = Pair::new();
    assert_eq!(pair.sharing.right(), Some(SECOND * 11));
    let renewal = pair.wait_for(SECOND * 3, is_renewal);
    pair.now = SECOND * 7;
    let answer = pair.server.execute(&renewal.call);
    pair.answer(&renewal, answer);
    assert_eq!(pair.sharing.right(), Some(SECOND * 13));
}

#[test]
fn after_a_lapse_a_shard_is_gained_only_when_it_was_released_and_read_again() {
    let mut pair = Pair::new();
    let renewal = pair.wait_for(SECOND * 9, is_renewal);
    pair.sent.clear();
    pair.now = SECOND * 11;
    pair.handle(SharingEvent::Tick);
    let member = MemberId::new("a-1");
    let lapsed = SharingEffect::Tell(SharingNotice::Lapsed(member));
    assert_eq!(pair.effects, [lapsed, SharingEffect::Stop(shard())]);
    pair.effects.clear();

    // The renewal was sent two seconds before the lapse, so its answer gives eight more.
    let answer = pair.server.execute(&renewal.call);
    pair.answer(&renewal, answer);
    assert_eq!(pair.sharing.right(), None, "the shard may still be running");
    pair.handle(SharingEvent::Released(shard()));
    assert_eq!(pair.sharing.right(), Some(SECOND * 19));
    assert_eq!(pair.effects, [], "nothing is gained before a read");
    // The list from before the lapse is still under way.
    let answer = pair.server.execute(&SharingCall::List);
    let request = renewal.id + 1;
    pair.handle(SharingEvent::Answered { request, answer });
    assert_eq!(
        pair.effects,
        [],
        "nothing is gained from a read before the lapse"
    );
    pair.serve();
    assert_eq!(pair.effects, [SharingEffect::Gained(shard())]);
}

#[test]
fn an_update_of_unknown_outcome_is_voided_before_its_shard_runs_again() {
    let mut pair = Pair::new();
    // A member that can run more, so that the only shard goes to it when this host cannot.
    let other = Record::Member(Arc::new(MemberRecord {
        id: MemberId::new("b-1"),
        offer: Arc::new(offer()),
        leaving: false,
        lease_duration: SECOND * 15,
        writes: 1,
    }));
    pair.server.execute(&SharingCall::Create(other));
    let list = pair.wait_for(SECOND * 3, is_list);
    let answer = pair.server.execute(&list.call);
    pair.answer(&list, answer);
    pair.serve();
    pair.handle(SharingEvent::Offered(Offer::new()));
    assert_eq!(pair.effects, [SharingEffect::Finish(shard())]);
    pair.effects.clear();
    pair.serve();
    pair.handle(SharingEvent::Released(shard()));
    let lost = pair.wait_for(pair.now, is_assignment);

    // Nobody knows whether that was done; meanwhile the other is gone and the plugin is back.
    pair.server.delete(&MemberId::new("b-1"));
    pair.handle(SharingEvent::Offered(offer()));
    pair.now = SECOND * 8;
    pair.answer(&lost, SharingAnswer::Unknown);
    let list = pair.wait_for(pair.now, is_list);
    let answer = pair.server.execute(&list.call);
    pair.answer(&list, answer);
    assert_eq!(pair.effects, [], "the update may still give it away");
    let voiding = pair.wait_for(pair.now, is_assignment);
    let answer = pair.server.execute(&voiding.call);
    pair.answer(&voiding, answer);
    assert_eq!(pair.effects, [SharingEffect::Gained(shard())]);
    assert_eq!(pair.server.execute(&lost.call), SharingAnswer::Conflict);
}

#[test]
fn a_renewal_that_is_refused_since_the_lease_is_gone_stops_everything() {
    let mut pair = Pair::new();
    let renewal = pair.wait_for(SECOND * 3, is_renewal);
    pair.answer(&renewal, SharingAnswer::NotFound);
    assert!(pair.effects.contains(&SharingEffect::Stop(shard())));
    assert_eq!(pair.sharing.right(), None);
    assert_eq!(
        pair.sharing.id().as_str(),
        "a-2",
        "it joins again as another"
    );
}

#[test]
fn a_lease_that_a_person_has_edited_is_renewed_as_it_is() {
    let mut pair = Pair::new();
    let renewal = pair.wait_for(SECOND * 3, is_renewal);
    pair.server.execute(&renewal.call);
    pair.answer(&renewal, SharingAnswer::Conflict);
    pair.serve();
    assert_eq!(pair.sharing.right(), Some(SECOND * 13));
    assert_eq!(pair.effects, []);
}

#[test]
fn a_name_is_not_used_again_once_a_lease_of_it_may_have_been_deleted() {
    let mut pair = Pair {
        sharing: Sharing::new(ElectionSettings::default(), "a", 1).expect("good settings"),
        server: Server::default(),
        now: SECOND,
        sent: VecDeque::new(),
        effects: Vec::new(),
    };
    pair.handle(SharingEvent::Offered(offer()));
    let create = pair.sent.pop_front().expect("it asks for a Lease");
    pair.answer(&create, SharingAnswer::Unknown);
    // It was done; the others have given it shards, and have deleted its Lease since.
    pair.serve();
    assert_eq!(pair.sharing.id().as_str(), "a-2");
    assert!(!pair.sharing.is_member());
    pair.now = SECOND * 10;
    pair.handle(SharingEvent::Tick);
    pair.serve();
    assert!(pair.sharing.is_member());
    assert_eq!(pair.sharing.id().as_str(), "a-2");
}

#[test]
fn a_host_whose_name_another_has_takes_another_name() {
    let mut pair = Pair::new();
    let mut twin = Sharing::new(ElectionSettings::default(), "a", 2).expect("good settings");
    let effects = twin.handle(SharingEvent::Tick, SECOND);
    let [SharingEffect::Send(create)] = &effects[..] else {
        panic!("{effects:?}");
    };
    let answer = pair.server.execute(&create.call);
    assert_eq!(answer, SharingAnswer::AlreadyExists);
    let request = create.id;
    twin.handle(SharingEvent::Answered { request, answer }, SECOND);
    assert!(!twin.is_member());
    assert_eq!(twin.id().as_str(), "a-2");
}
