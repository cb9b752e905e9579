use super::*;

/// Parses an endpoint: `"1.2.3.4"` or `"1.2.3.4/uid"`. A leading `!` means that it is not ready.
fn endpoint(text: &str, port: i32) -> Endpoint {
    let (is_ready, text) = text
        .strip_prefix('!')
        .map_or((true, text), |text| (false, text));
    let (ip, uid) = text
        .split_once('/')
        .map_or((text, None), |(ip, uid)| (ip, Some(uid)));
    Endpoint {
        address: address(ip, uid),
        is_ready,
        port: Some(port_of(port)),
    }
}

fn address(ip: &str, uid: Option<&str>) -> Address {
    Address {
        ip: ip.to_owned(),
        target_ref: uid.map(|uid| TargetRef {
            kind: "Pod".to_owned(),
            uid: uid.to_owned(),
            ..TargetRef::default()
        }),
        ..Address::default()
    }
}

fn port_of(port: i32) -> Port {
    Port {
        name: String::new(),
        protocol: "TCP".to_owned(),
        port,
        app_protocol: None,
    }
}

fn subset(addresses: &[&str], ports: &[i32]) -> Subset {
    let of = |is_ready| {
        let chosen = addresses
            .iter()
            .map(|text| endpoint(text, 0))
            .filter(move |endpoint| endpoint.is_ready == is_ready);
        chosen.map(|endpoint| endpoint.address).collect()
    };
    Subset {
        addresses: of(true),
        not_ready_addresses: of(false),
        ports: ports.iter().copied().map(port_of).collect(),
    }
}

/// The behaviour that upstream's `TestPackSubsets` tests (pkg/api/v1/endpoints/util_test.go).
#[test]
fn subsets_are_packed_as_upstream_packs_them() {
    type Row = (
        &'static str,
        &'static [(&'static str, i32)],
        &'static [(&'static [&'static str], &'static [i32])],
    );
    let rows: &[Row] = &[
        ("nothing", &[], &[]),
        ("one", &[("1.2.3.4", 111)], &[(&["1.2.3.4"], &[111])]),
        (
            "one not ready",
            &[("!1.2.3.4", 111)],
            &[(&["!1.2.3.4"], &[111])],
        ),
        (
            "IPv6",
            &[("beef::1", 111), ("beef::1", 111)],
            &[(&["beef::1"], &[111])],
        ),
        (
            "two addresses",
            &[("5.6.7.8", 111), ("1.2.3.4", 111)],
            &[(&["1.2.3.4", "5.6.7.8"], &[111])],
        ),
        (
            "mixed",
            &[("1.2.3.4", 111), ("!5.6.7.8", 111)],
            &[(&["1.2.3.4", "!5.6.7.8"], &[111])],
        ),
        (
            "not ready wins",
            &[("!1.2.3.4", 111), ("1.2.3.4", 111)],
            &[(&["!1.2.3.4"], &[111])],
        ),
        (
            "not ready wins, later",
            &[("1.2.3.4", 111), ("!1.2.3.4", 111)],
            &[(&["!1.2.3.4"], &[111])],
        ),
        (
            "duplicate ports",
            &[("1.2.3.4", 111), ("1.2.3.4", 111)],
            &[(&["1.2.3.4"], &[111])],
        ),
        (
            "two ports",
            &[("1.2.3.4", 222), ("1.2.3.4", 111)],
            &[(&["1.2.3.4"], &[111, 222])],
        ),
        (
            "two pods with one IP",
            &[
                ("1.2.3.4/uid-2", 111),
                ("1.2.3.4/uid-1", 111),
                ("1.2.3.4", 111),
            ],
            &[(&["1.2.3.4", "1.2.3.4/uid-1", "1.2.3.4/uid-2"], &[111])],
        ),
        (
            "ready at one port only",
            &[("1.2.3.4/uid-1", 111), ("!1.2.3.4/uid-1", 222)],
            &[(&["1.2.3.4/uid-1"], &[111]), (&["!1.2.3.4/uid-1"], &[222])],
        ),
        (
            "four sets, three addresses, three ports",
            &[
                ("1.2.3.4", 111),
                ("1.2.3.5", 222),
                ("1.2.3.6", 111),
                ("1.2.3.5", 333),
            ],
            &[
                (&["1.2.3.4", "1.2.3.6"], &[111]),
                (&["1.2.3.5"], &[222, 333]),
            ],
        ),
    ];
    for (name, given, expected) in rows {
        let packed = pack(given.iter().map(|(text, port)| endpoint(text, *port)));
        let expected: Vec<_> = expected
            .iter()
            .map(|(addresses, ports)| subset(addresses, ports))
            .collect();
        assert_eq!(packed, expected, "{name}");
    }
}

#[test]
fn of_two_equal_addresses_the_first_is_kept() {
    let named = |name: &str| {
        let mut endpoint = endpoint("1.2.3.4", 111);
        endpoint.address.hostname = name.to_owned();
        endpoint
    };
    let packed = pack([named("foo"), named("bar")].into_iter());
    assert_eq!(packed[0].addresses.len(), 1);
    assert_eq!(packed[0].addresses[0].hostname, "foo");
}

#[test]
fn addresses_without_ports_are_kept() {
    let mut portless = endpoint("1.2.3.4", 0);
    portless.port = None;
    assert_eq!(pack([portless].into_iter()), [subset(&["1.2.3.4"], &[])]);
}

#[test]
fn another_writers_order_is_no_difference() {
    let packed = vec![
        subset(&["1.2.3.4", "5.6.7.8"], &[111, 222]),
        subset(&["!1.2.3.4"], &[333]),
    ];
    let shuffled = vec![
        subset(&["!1.2.3.4"], &[333]),
        subset(&["5.6.7.8", "1.2.3.4"], &[222, 111]),
    ];
    assert_ne!(shuffled, packed);
    assert_eq!(sorted(shuffled), packed);
}
