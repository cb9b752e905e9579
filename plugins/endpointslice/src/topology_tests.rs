//! The tests of upstream's `topologycache/utils_test.go`.

use pilothouse_sdk::ObjectRef;
use services::slice::EndpointConditions;

use super::*;

fn by_zone<N: Copy>(numbers: &[(&str, N)]) -> ByZone<N> {
    let numbers = numbers
        .iter()
        .map(|(zone, number)| ((*zone).to_owned(), *number));
    numbers.collect()
}

/// An endpoint in a zone, for the zone of its hint if it has one.
fn endpoint(zone: &str, hint: Option<&str>, ready: Option<bool>) -> Endpoint {
    Endpoint {
        zone: Some(zone.to_owned()),
        hints: hint.map(for_zone),
        conditions: EndpointConditions {
            ready,
            ..EndpointConditions::default()
        },
        ..Endpoint::default()
    }
}

fn slice(endpoints: Vec<Endpoint>) -> Slice {
    let service = ObjectRef::new("v1/Service", "ns", "svc");
    let mut slice = Slice::new(&service, "uid", "IPv4", Vec::new());
    slice.endpoints = endpoints;
    slice
}

/// The hints of so many endpoints of `zone-a` after an exchange.
fn redistributed(count: usize, giving: &[(&str, i64)], receiving: &[(&str, i64)]) -> Vec<String> {
    let endpoints = vec![endpoint("zone-a", Some("zone-a"), Some(true)); count];
    let mut changes = Changes {
        update: vec![slice(endpoints)],
        ..Changes::default()
    };
    redistribute(&mut changes, by_zone(giving), by_zone(receiving));
    let endpoints = changes.update[0].endpoints.iter();
    let hints = endpoints.map(|one| one.hints.clone().unwrap_or_default().for_zones);
    hints.flatten().map(|zone| zone.name).collect()
}

/// `Test_redistributeHints`.
#[test]
fn endpoints_are_given_from_one_zone_to_others() {
    assert!(redistributed(0, &[], &[]).is_empty());
    let one = redistributed(1, &[("zone-a", 1)], &[("zone-b", 1)]);
    assert_eq!(one, ["zone-b"]);
    let two = redistributed(3, &[("zone-a", 2)], &[("zone-b", 1), ("zone-c", 1)]);
    assert_eq!(two, ["zone-b", "zone-c", "zone-a"]);
    let none = redistributed(2, &[("zone-c", 1)], &[("zone-b", 1)]);
    assert_eq!(none, ["zone-a", "zone-a"]);
}

/// What is given and received if zones should have and have so many.
fn exchanged(desired: &[(&str, f64)], hinted: &[(&str, i64)]) -> (ByZone<i64>, ByZone<i64>) {
    let allocations = desired.iter().map(|(zone, desired)| {
        let allocation = Allocation {
            maximum: 0,
            desired: *desired,
        };
        ((*zone).to_owned(), allocation)
    });
    exchange(&allocations.collect(), &by_zone(hinted))
}

/// `Test_getGivingAndReceivingZones`.
#[test]
fn the_zone_with_most_gives_to_the_one_that_needs_most() {
    let (a, b, c) = ("zone-a", "zone-b", "zone-c");
    type Row = (
        &'static str,
        [f64; 3],
        [i64; 3],
        &'static [(&'static str, i64)],
        &'static [(&'static str, i64)],
    );
    let rows: [Row; 8] = [
        ("no need", [1.2, 1.1, 1.0], [1, 1, 1], &[], &[]),
        (
            "the own zone first",
            [5.1, 5.1, 5.8],
            [16, 0, 0],
            &[("zone-a", 10)],
            &[("zone-b", 5), ("zone-c", 5)],
        ),
        (
            "to the zone that needs it most",
            [5.0, 5.6, 5.4],
            [16, 0, 0],
            &[("zone-a", 11)],
            &[("zone-b", 6), ("zone-c", 5)],
        ),
        (
            "from the zone that has most",
            [5.0, 5.6, 5.4],
            [0, 8, 8],
            &[("zone-b", 2), ("zone-c", 3)],
            &[("zone-a", 5)],
        ),
        ("more than there are", [5.0, 5.0, 5.0], [6, 6, 6], &[], &[]),
        ("negative wishes", [-5.0, -5.0, -5.0], [6, 6, 6], &[], &[]),
        ("negative counts", [5.0, 5.0, 5.0], [-4, -3, -2], &[], &[]),
        (
            "one negative count",
            [5.0, 5.0, 5.0],
            [-40, 20, 20],
            &[("zone-b", 15), ("zone-c", 15)],
            &[("zone-a", 30)],
        ),
    ];
    assert_eq!(exchanged(&[], &[]), (by_zone(&[]), by_zone(&[])));
    for (name, desired, hinted, giving, receiving) in rows {
        let desired = [(a, desired[0]), (b, desired[1]), (c, desired[2])];
        let hinted = [(a, hinted[0]), (b, hinted[1]), (c, hinted[2])];
        let expected = (by_zone(giving), by_zone(receiving));
        assert_eq!(exchanged(&desired, &hinted), expected, "{name}");
    }
}

/// What is counted of a slice, if zones have so many hints of other slices, and so many at most.
fn counted(
    endpoints: Vec<Endpoint>,
    hinted: &[(&str, i64)],
    maxima: &[(&str, i64)],
) -> Option<ByZone<i64>> {
    let allocations = maxima.iter().map(|(zone, maximum)| {
        let allocation = Allocation {
            maximum: *maximum,
            desired: 0.0,
        };
        ((*zone).to_owned(), allocation)
    });
    good_hints(&slice(endpoints), &by_zone(hinted), &allocations.collect())
}

/// `Test_getHintsByZone`.
#[test]
fn hints_of_a_slice_are_good_while_no_zone_has_too_many() {
    let (a, b, c) = ("zone-a", "zone-b", "zone-c");
    let in_a = |hint| endpoint(a, hint, Some(true));
    assert_eq!(counted(Vec::new(), &[], &[]), Some(by_zone(&[])));
    let one = counted(vec![in_a(Some(a))], &[(a, 1)], &[(a, 3)]);
    assert_eq!(one, Some(by_zone(&[(a, 1)])));

    let not_ready = [Some(false), None].map(|ready| endpoint(a, Some(a), ready));
    let endpoints = [in_a(Some(a))].into_iter().chain(not_ready).collect();
    let only_ready = counted(endpoints, &[(a, 1)], &[(a, 3)]);
    assert_eq!(only_ready, Some(by_zone(&[(a, 1)])));

    let several = vec![
        in_a(Some(a)),
        in_a(Some(b)),
        endpoint(b, Some(b), Some(true)),
    ];
    let several = counted(
        several,
        &[(a, 1), (b, 1), (c, 1)],
        &[(a, 3), (b, 3), (c, 3)],
    );
    assert_eq!(several, Some(by_zone(&[(a, 1), (b, 2)])));

    assert_eq!(
        counted(vec![in_a(Some("gone"))], &[(a, 1)], &[(a, 3)]),
        None
    );
    assert_eq!(counted(vec![in_a(None)], &[], &[(a, 3)]), None);
    let mut empty = in_a(None);
    empty.hints = Some(Hints::default());
    assert_eq!(counted(vec![empty], &[], &[(a, 3)]), None);
    let too_many = vec![in_a(Some(a)), in_a(Some(a))];
    assert_eq!(counted(too_many, &[(a, 1)], &[(a, 2)]), None);
}

/// A number below `end`: the next one of a sequence that is the same each time.
fn next(state: &mut u64, end: u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % end
}

/// What hints become of these slices. An update that changes nothing is not sent.
fn hinted_once(zones: &Zones, slices: &[Slice], are_known: &mut bool) -> Vec<Slice> {
    let mut changes = Changes {
        unchanged: slices.to_vec(),
        ..Changes::default()
    };
    zones.hint(&mut changes, are_known);
    let mut slices: Vec<Slice> = changes.left().cloned().collect();
    slices.sort_by(|a, b| a.name().cmp(b.name()));
    slices
}

/// A write of a Service runs it again, so its hints must come to rest by themselves.
#[test]
fn hints_come_to_rest() {
    let mut state = 1;
    let mut hinted = 0;
    for round in 0..2_000 {
        let count = 2 + next(&mut state, 4);
        let cpus: Vec<u64> = (0..count).map(|_| 1 + next(&mut state, 9)).collect();
        let total: u64 = cpus.iter().sum();
        let zone = |number: u64| format!("zone-{number}");
        let share = |cpu: u64| float(cpu.cast_signed()) / float(total.cast_signed());
        let shares = (0..count).zip(cpus);
        let shares = shares.map(|(number, cpu)| (zone(number), share(cpu)));
        let zones = Zones(Some(shares.collect()));
        // Some endpoints have hints already, good ones or not.
        let slices = (0..1 + next(&mut state, 4)).map(|number| {
            let endpoints = (0..1 + next(&mut state, 12)).map(|_| {
                let hint = next(&mut state, count + 1);
                let hint = (hint < count).then(|| zone(hint));
                endpoint(&zone(next(&mut state, count)), hint.as_deref(), Some(true))
            });
            let mut slice = slice(endpoints.collect());
            slice.set_name(&format!("slice-{number}"));
            slice
        });
        let mut slices: Vec<Slice> = slices.collect();
        let mut are_known = false;
        let mut runs = 0;
        loop {
            let now = hinted_once(&zones, &slices, &mut are_known);
            if now == slices {
                break;
            }
            runs += 1;
            assert!(runs < 10, "round {round} does not come to rest");
            slices = now;
        }
        hinted += u32::from(are_known);
    }
    assert!(hinted > 500, "only {hinted} have hints in the end");
}
