use super::*;

/// The numbers of upstream's `TestTruncateEndpoints`.
#[test]
fn what_does_not_fit_is_cut_in_proportion() {
    type Row = ([usize; 5], [usize; 5], [usize; 5], [usize; 5]);
    let rows: [Row; 4] = [
        (
            [50, 100, 100, 100, 100],
            [50, 100, 100, 100, 100],
            [50, 100, 100, 100, 100],
            [50, 100, 100, 100, 100],
        ),
        ([100; 5], [100; 5], [100; 5], [100; 5]),
        (
            [90, 110, 50, 10, 20],
            [101, 200, 200, 201, 298],
            [90, 110, 50, 10, 20],
            [73, 144, 144, 145, 214],
        ),
        (
            [205, 400, 402, 400, 693],
            [100, 200, 200, 200, 300],
            [98, 191, 192, 191, 328],
            [0; 5],
        ),
    ];
    for (ready, not_ready, expected_ready, expected_not_ready) in rows {
        let mut subsets: Vec<_> = (0..5)
            .map(|i| Subset {
                addresses: vec![Address::default(); ready[i]],
                not_ready_addresses: vec![Address::default(); not_ready[i]],
                ports: Vec::new(),
            })
            .collect();
        let total: usize = ready.iter().chain(&not_ready).sum();
        assert_eq!(truncate(&mut subsets), total > CAPACITY);
        let lengths = |of: fn(&Subset) -> usize| subsets.iter().map(of).collect::<Vec<_>>();
        assert_eq!(lengths(|subset| subset.addresses.len()), expected_ready);
        assert_eq!(
            lengths(|subset| subset.not_ready_addresses.len()),
            expected_not_ready
        );
    }
}

#[test]
fn a_subset_with_nothing_left_is_dropped() {
    let full = Subset {
        addresses: vec![Address::default(); CAPACITY + 1],
        ..Subset::default()
    };
    let not_ready = Subset {
        not_ready_addresses: vec![Address::default()],
        ..Subset::default()
    };
    let mut subsets = vec![full, not_ready];
    assert!(truncate(&mut subsets));
    assert_eq!(subsets.len(), 1);
    assert_eq!(subsets[0].addresses.len(), CAPACITY);
}
