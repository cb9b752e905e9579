//! The rows of upstream's `utils_test.go` about times.

use super::*;

const MINUTE: Millis = 60 * SECOND;
const HOUR: Millis = 60 * MINUTE;
const DAY: Millis = 24 * HOUR;

/// 2016-05-19T10:00:00Z, a Thursday.
const TOP: Millis = 1_463_652_000_000;

fn schedule(text: &str) -> Schedule {
    Schedule::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn history(last: Millis, deadline: Option<Millis>) -> History {
    History { last, deadline }
}

/// `TestMostRecentScheduleTime`, all times from the top of the hour. (Its deadlines do not count,
/// but in the last row, which is in the test after this one.)
#[test]
fn the_latest_run_that_is_due_is_found_however_many_were_missed() {
    use Missed::{Few, Many, None as No};
    let half = 30 * MINUTE;
    let week = 7 * DAY;
    let rows = [
        (0, "0 * * * *", 30 * SECOND, None, No),
        (0, "0 * * * *", 61 * MINUTE, Some(HOUR), No),
        (10 * SECOND, "0 * * * *", 301 * MINUTE, Some(5 * HOUR), Few),
        (
            half,
            "30 6-16/4 * * 1-5",
            DAY + 31 * MINUTE,
            Some(DAY + half),
            Few,
        ),
        (
            half,
            "30 10,11,12 * * 1-5",
            DAY + 6 * HOUR + half,
            None,
            Few,
        ),
        (
            half,
            "30 6-16/4 * * 1-5",
            4 * DAY + 31 * MINUTE,
            Some(4 * DAY + half),
            Few,
        ),
        (
            0,
            "30 6-16/4 * * 1-5",
            DAY + 31 * MINUTE,
            Some(DAY + half),
            Few,
        ),
        (MINUTE, "@every 1h", week, Some(week - HOUR + MINUTE), Many),
        (0, "0 * * * *", 30 * SECOND, None, No),
        (half, "*/5 * * * *", 31 * MINUTE, None, No),
    ];
    for (last, text, now, time, missed) in rows {
        let found = recent(TOP + last, TOP + now, &schedule(text));
        let wanted = Recent {
            earliest: TOP + last,
            time: time.map(|time| TOP + time),
            missed,
        };
        assert_eq!(found, Ok(wanted), "{text} at {now}");
    }
}

#[test]
fn what_is_before_the_deadline_is_not_due() {
    let five = schedule("*/5 * * * *");
    let last = TOP + 30 * MINUTE;
    let now = TOP + 36 * MINUTE;
    let due = |deadline| history(last, deadline).due(now, &five);
    assert_eq!(due(None), Ok(Some((TOP + 35 * MINUTE, false))));
    assert_eq!(due(Some(30 * SECOND)), Ok(None));
    assert_eq!(due(Some(2 * MINUTE)), Ok(Some((TOP + 35 * MINUTE, false))));
    assert_eq!(due(Some(Millis::MAX)), Ok(Some((TOP + 35 * MINUTE, false))));
}

/// `TestNextScheduleTime`.
#[test]
fn a_run_is_due_from_its_time_on() {
    let hourly = schedule("0 * * * ?");
    let due = |last: Millis, now: Millis, deadline| {
        let due = history(TOP + last, deadline).due(TOP + now, &hourly);
        due.map(|due| due.map(|(time, is_many)| (time - TOP, is_many)))
    };
    let before = -10 * MINUTE;
    assert_eq!(due(before, -7 * MINUTE, None), Ok(None));
    assert_eq!(due(before, 2 * SECOND, None), Ok(Some((0, false))));
    assert_eq!(due(0, 2 * MINUTE, None), Ok(None));
    assert_eq!(due(0, HOUR + 5 * MINUTE, None), Ok(Some((HOUR, false))));
    assert_eq!(due(-HOUR, HOUR + 5 * MINUTE, None), Ok(Some((HOUR, false))));
    let late = HOUR + 10 * DAY;
    assert_eq!(due(-HOUR, late, None), Ok(Some((late, true))));
    assert_eq!(due(-HOUR, late, Some(2 * HOUR)), Ok(Some((late, false))));
}

/// More than a hundred is many: a hundred is not.
#[test]
fn many_are_more_than_a_hundred() {
    let minutely = schedule("* * * * *");
    let missed = |count: i64| recent(TOP, TOP + count * MINUTE, &minutely).map(|it| it.missed);
    assert_eq!(missed(100), Ok(Missed::Few));
    assert_eq!(missed(101), Ok(Missed::Many));
}

/// The "rogue cronjob" of both tests.
#[test]
fn a_schedule_without_times_is_an_error() {
    let rogue = schedule("59 23 31 2 *");
    let due = history(TOP + 10 * SECOND, None).due(TOP + HOUR, &rogue);
    assert_eq!(due, Err(NO_TIMES.to_owned()));
    assert_eq!(history(TOP, None).until_next(TOP, &rogue), None);
}

/// `TestNextScheduleTimeDuration`.
#[test]
fn the_next_run_is_waited_for_a_tenth_of_a_second_longer() {
    let half = 30 * MINUTE;
    let rows = [
        (
            half,
            "30 6-16/4 * * 1-5",
            DAY + 31 * MINUTE,
            3 * HOUR + 59 * MINUTE,
        ),
        (
            half,
            "30 10,11,12 * * 1-5",
            DAY + 6 * HOUR + half,
            66 * HOUR,
        ),
        (
            2 * HOUR,
            "0 12 * * 4",
            19 * DAY + HOUR + half,
            48 * HOUR + half,
        ),
        (0, "0 12 * * 5", 6 * HOUR, 20 * HOUR),
    ];
    for (last, text, now, wait) in rows {
        let wait = u64::try_from(wait + 100).map(Duration::from_millis).ok();
        let found = history(TOP + last, None).until_next(TOP + now, &schedule(text));
        assert_eq!(found, wait, "{text} at {now}");
    }
}

#[test]
fn a_clock_that_was_put_back_waits_for_the_run_after_the_last() {
    let hourly = schedule("0 * * * *");
    let wait = history(TOP, None).until_next(TOP - 5 * HOUR, &hourly);
    assert_eq!(wait, Some(Duration::from_millis(6 * 3_600_000 + 100)));
}
