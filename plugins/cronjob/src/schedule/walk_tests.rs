use crate::due::{millis, time};
use crate::schedule::{Millis, SECOND, Schedule};

fn at(text: &str) -> Millis {
    let time: pilothouse_sdk::Time = text.parse().unwrap_or_else(|error| panic!("{error}"));
    millis(time.0)
}

fn parsed(text: &str) -> Schedule {
    Schedule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The next time, as objects have it, or nothing.
fn next(text: &str, after: &str) -> String {
    let next = parsed(text).next(at(after));
    next.map_or_else(String::new, |next| time(next).to_string())
}

/// The rest of `TestNext`: New York's clocks skip from 2 to 3 in March, and repeat 1 to 2 in
/// November; Sao Paulo's skip midnight.
#[test]
fn a_skipped_hour_is_left_out_and_a_repeated_one_counts_twice() {
    let rows = [
        (
            "2012-03-11T00:00:00-05:00",
            "30 2 11 Mar ?",
            "2013-03-11T02:30:00-04:00",
        ),
        (
            "2012-03-11T00:00:00-05:00",
            "0 * * * ?",
            "2012-03-11T01:00:00-05:00",
        ),
        (
            "2012-03-11T01:00:00-05:00",
            "0 * * * ?",
            "2012-03-11T03:00:00-04:00",
        ),
        (
            "2012-03-11T03:00:00-04:00",
            "0 * * * ?",
            "2012-03-11T04:00:00-04:00",
        ),
        (
            "2012-03-11T04:00:00-04:00",
            "0 * * * ?",
            "2012-03-11T05:00:00-04:00",
        ),
        (
            "2012-03-11T00:00:00-05:00",
            "0 1 * * ?",
            "2012-03-11T01:00:00-05:00",
        ),
        (
            "2012-03-11T01:00:00-05:00",
            "0 1 * * ?",
            "2012-03-12T01:00:00-04:00",
        ),
        (
            "2012-03-11T00:00:00-05:00",
            "0 2 * * ?",
            "2012-03-12T02:00:00-04:00",
        ),
        (
            "2012-11-04T00:00:00-04:00",
            "30 2 04 Nov ?",
            "2012-11-04T02:30:00-05:00",
        ),
        (
            "2012-11-04T01:45:00-04:00",
            "30 1 04 Nov ?",
            "2012-11-04T01:30:00-05:00",
        ),
        (
            "2012-11-04T00:00:00-04:00",
            "0 * * * ?",
            "2012-11-04T01:00:00-04:00",
        ),
        (
            "2012-11-04T01:00:00-04:00",
            "0 * * * ?",
            "2012-11-04T01:00:00-05:00",
        ),
        (
            "2012-11-04T01:00:00-05:00",
            "0 * * * ?",
            "2012-11-04T02:00:00-05:00",
        ),
        (
            "2012-11-04T00:00:00-04:00",
            "0 1 * * ?",
            "2012-11-04T01:00:00-04:00",
        ),
        (
            "2012-11-04T01:00:00-04:00",
            "0 1 * * ?",
            "2012-11-04T01:00:00-05:00",
        ),
        (
            "2012-11-04T01:00:00-05:00",
            "0 1 * * ?",
            "2012-11-05T01:00:00-05:00",
        ),
        (
            "2012-11-04T00:00:00-04:00",
            "0 2 * * ?",
            "2012-11-04T02:00:00-05:00",
        ),
        (
            "2012-11-04T02:00:00-05:00",
            "0 2 * * ?",
            "2012-11-05T02:00:00-05:00",
        ),
        (
            "2012-11-04T00:00:00-04:00",
            "0 3 * * ?",
            "2012-11-04T03:00:00-05:00",
        ),
        (
            "2012-11-04T03:00:00-05:00",
            "0 3 * * ?",
            "2012-11-05T03:00:00-05:00",
        ),
        (
            "2012-11-04T00:00:00-04:00",
            "0 3 3 * ?",
            "2012-12-03T03:00:00-05:00",
        ),
    ];
    for zone in ["TZ=America/New_York", "CRON_TZ=America/New_York"] {
        for (after, schedule, wanted) in rows {
            let schedule = format!("{zone} {schedule}");
            let next = parsed(&schedule).next(at(after));
            assert_eq!(next, Some(at(wanted)), "{schedule} after {after}");
        }
    }
    let sao_paulo =
        |schedule: &str, after: &str| next(&format!("TZ=America/Sao_Paulo {schedule}"), after);
    let november = sao_paulo("0 9 10 * ?", "2018-10-17T09:00:00Z");
    assert_eq!(november, "2018-11-10T11:00:00Z");
    let february = sao_paulo("0 9 22 * ?", "2018-02-14T10:00:00Z");
    assert_eq!(february, "2018-02-22T12:00:00Z");
}

/// Four hundred schedules at random, of twenty time zones, half of them near a change of the
/// clocks, with what robfig/cron v3.0.1 says about them: the schedule, a second since 1970, and the
/// next one.
#[test]
fn schedules_at_random_come_out_as_in_robfig_cron() {
    let mut count = 0;
    for line in include_str!("robfig.tsv").lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [schedule, after, wanted] = columns[..] else {
            panic!("{line} has no three columns");
        };
        let found = match (Schedule::parse(schedule), after.parse::<Millis>()) {
            (Err(error), _) => format!("error: {error}"),
            (Ok(schedule), Ok(after)) => match schedule.next(after * SECOND) {
                Some(next) => (next / SECOND).to_string(),
                None => "none".to_owned(),
            },
            (Ok(_), Err(_)) => "a schedule".to_owned(),
        };
        assert_eq!(found, wanted, "{schedule} after {after}");
        count += 1;
    }
    assert_eq!(count, 400);
}
