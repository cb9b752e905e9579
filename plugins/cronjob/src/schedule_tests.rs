use super::*;
use crate::due::{millis, time};

fn at(text: &str) -> Millis {
    let time: pilothouse_sdk::Time = text.parse().unwrap_or_else(|error| panic!("{error}"));
    millis(time.0)
}

fn parsed(text: &str) -> Schedule {
    Schedule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> String {
    Schedule::parse(text).err().unwrap_or_default()
}

/// The next time, as objects have it, or nothing.
fn next(text: &str, after: &str) -> String {
    let next = parsed(text).next(at(after));
    next.map_or_else(String::new, |next| time(next).to_string())
}

/// Robfig/cron's `TestActivation`: whether a schedule is of this minute.
#[test]
fn a_schedule_is_of_the_minutes_that_match() {
    let rows = [
        ("2012-07-09T15:00:00Z", "0/15 * * * *", true),
        ("2012-07-09T15:45:00Z", "0/15 * * * *", true),
        ("2012-07-09T15:40:00Z", "0/15 * * * *", false),
        ("2012-07-09T15:05:00Z", "5/15 * * * *", true),
        ("2012-07-09T15:20:00Z", "5/15 * * * *", true),
        ("2012-07-09T15:50:00Z", "5/15 * * * *", true),
        ("2012-07-15T15:00:00Z", "0/15 * * Jul *", true),
        ("2012-07-15T15:00:00Z", "0/15 * * Jun *", false),
        ("2012-07-15T08:30:00Z", "30 08 ? Jul Sun", true),
        ("2012-07-15T08:30:00Z", "30 08 15 Jul ?", true),
        ("2012-07-16T08:30:00Z", "30 08 ? Jul Sun", false),
        ("2012-07-16T08:30:00Z", "30 08 15 Jul ?", false),
        ("2012-07-09T15:00:00Z", "@hourly", true),
        ("2012-07-09T15:04:00Z", "@hourly", false),
        ("2012-07-09T15:00:00Z", "@daily", false),
        ("2012-07-09T00:00:00Z", "@daily", true),
        ("2012-07-09T00:00:00Z", "@midnight", true),
        ("2012-07-09T00:00:00Z", "@weekly", false),
        ("2012-07-08T00:00:00Z", "@weekly", true),
        ("2012-07-08T01:00:00Z", "@weekly", false),
        ("2012-07-08T00:00:00Z", "@monthly", false),
        ("2012-07-01T00:00:00Z", "@monthly", true),
        ("2012-07-01T00:00:00Z", "@yearly", false),
        ("2012-01-01T00:00:00Z", "@yearly", true),
        ("2012-01-01T00:00:00Z", "@annually", true),
        // Of two days that are given, one is enough.
        ("2012-07-15T00:00:00Z", "* * 1,15 * Sun", true),
        ("2012-06-15T00:00:00Z", "* * 1,15 * Sun", true),
        ("2012-08-01T00:00:00Z", "* * 1,15 * Sun", true),
        ("2012-07-15T00:00:00Z", "* * */10 * Sun", true),
        // A star among them, and both must match.
        ("2012-07-15T00:00:00Z", "* * * * Mon", false),
        ("2012-07-09T00:00:00Z", "* * 1,15 * *", false),
        ("2012-07-15T00:00:00Z", "* * 1,15 * *", true),
        ("2012-07-15T00:00:00Z", "* * */2 * Sun", true),
    ];
    for (time, schedule, is_of) in rows {
        let next = parsed(schedule).next(at(time) - SECOND);
        assert_eq!(next == Some(at(time)), is_of, "{schedule} at {time}");
    }
}

/// Robfig/cron's `TestNext`, as far as it has no seconds, and `TestNextWithTz`.
#[test]
fn the_next_time_wraps_around_hours_days_months_and_years() {
    let rows = [
        (
            "2012-07-09T14:45:00Z",
            "0/15 * * * *",
            "2012-07-09T15:00:00Z",
        ),
        (
            "2012-07-09T14:59:00Z",
            "0/15 * * * *",
            "2012-07-09T15:00:00Z",
        ),
        (
            "2012-07-09T14:59:59Z",
            "0/15 * * * *",
            "2012-07-09T15:00:00Z",
        ),
        (
            "2012-07-09T15:45:00Z",
            "20-35/15 * * * *",
            "2012-07-09T16:20:00Z",
        ),
        (
            "2012-07-09T23:46:00Z",
            "*/15 * * * *",
            "2012-07-10T00:00:00Z",
        ),
        (
            "2012-07-09T23:45:00Z",
            "20-35/15 * * * *",
            "2012-07-10T00:20:00Z",
        ),
        (
            "2012-07-09T23:35:00Z",
            "0 0 9 Apr-Oct ?",
            "2012-08-09T00:00:00Z",
        ),
        (
            "2012-07-09T23:35:00Z",
            "0 0 */5 Apr,Aug,Oct Mon",
            "2012-08-01T00:00:00Z",
        ),
        (
            "2012-07-09T23:35:00Z",
            "0 0 */5 Oct Mon",
            "2012-10-01T00:00:00Z",
        ),
        (
            "2012-07-09T23:35:00Z",
            "0 0 * Feb Mon",
            "2013-02-04T00:00:00Z",
        ),
        (
            "2012-07-09T23:35:00Z",
            "0 0 * Feb Mon/2",
            "2013-02-01T00:00:00Z",
        ),
        ("2012-12-31T23:59:45Z", "* * * * *", "2013-01-01T00:00:00Z"),
        (
            "2012-07-09T23:35:00Z",
            "0 0 29 Feb ?",
            "2016-02-29T00:00:00Z",
        ),
        ("2012-07-09T23:35:00Z", "0 0 30 Feb ?", ""),
        ("2012-07-09T23:35:00Z", "0 0 31 Apr ?", ""),
        (
            "2016-01-03T13:09:03+05:30",
            "TZ=Asia/Kolkata 14 14 * * *",
            "2016-01-03T08:44:00Z",
        ),
        (
            "2016-01-03T04:09:03+05:30",
            "TZ=Asia/Kolkata 14 14 * * ?",
            "2016-01-03T08:44:00Z",
        ),
    ];
    for (after, schedule, wanted) in rows {
        assert_eq!(next(schedule, after), wanted, "{schedule} after {after}");
    }
}

/// Robfig/cron's `TestConstantDelayNext`.
#[test]
fn a_period_is_of_whole_seconds() {
    let rows = [
        (
            "2012-07-09T14:45:00Z",
            "@every 15m50ns",
            "2012-07-09T15:00:00Z",
        ),
        ("2012-07-09T14:59:00Z", "@every 15m", "2012-07-09T15:14:00Z"),
        ("2012-07-09T14:59:59Z", "@every 15m", "2012-07-09T15:14:59Z"),
        ("2012-07-09T15:45:00Z", "@every 35m", "2012-07-09T16:20:00Z"),
        ("2012-07-09T23:46:00Z", "@every 14m", "2012-07-10T00:00:00Z"),
        ("2012-07-09T23:45:00Z", "@every 35m", "2012-07-10T00:20:00Z"),
        (
            "2012-07-09T23:35:51Z",
            "@every 44m24s",
            "2012-07-10T00:20:15Z",
        ),
        (
            "2012-07-09T23:35:51Z",
            "@every 25h44m24s",
            "2012-07-11T01:20:15Z",
        ),
        (
            "2012-07-09T23:35:00Z",
            "@every 2184h25m",
            "2012-10-09T00:00:00Z",
        ),
        ("2012-12-31T23:59:45Z", "@every 15s", "2013-01-01T00:00:00Z"),
        (
            "2012-07-09T14:45:00Z",
            "@every 15ms",
            "2012-07-09T14:45:01Z",
        ),
        (
            "2012-07-09T14:45:00.005Z",
            "@every 15m",
            "2012-07-09T15:00:00Z",
        ),
        (
            "2012-07-09T14:45:00.005Z",
            "TZ=UTC @every 15m50ns",
            "2012-07-09T15:00:00Z",
        ),
        (
            "2012-07-09T14:45:00Z",
            "@every -15m",
            "2012-07-09T14:45:01Z",
        ),
    ];
    for (after, schedule, wanted) in rows {
        assert_eq!(next(schedule, after), wanted, "{schedule} after {after}");
    }
}

/// Robfig/cron's `TestParseScheduleErrors` and `TestErrors`, and Kubernetes'
/// `TestParseCronSchedule` and `TestParseCronSchedulePanicRecovery`.
#[test]
fn what_is_no_schedule_is_refused_in_the_words_of_robfig_cron() {
    let rows = [
        ("", "empty spec string"),
        (
            "5 j * * *",
            "failed to parse int from j: strconv.Atoi: parsing \"j\": invalid syntax",
        ),
        (
            "@every Xm",
            "failed to parse duration @every Xm: time: invalid duration \"Xm\"",
        ),
        ("@unrecognized", "unrecognized descriptor: @unrecognized"),
        ("@every", "unrecognized descriptor: @every"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("TZ=UTC ", "expected exactly 5 fields, found 0: []"),
        ("xyz", "expected exactly 5 fields, found 1: [xyz]"),
        ("60 0 * * *", "end of range (60) above maximum (59): 60"),
        ("0 60 * * *", "end of range (60) above maximum (23): 60"),
        (
            "0 0 * * XYZ",
            "failed to parse int from XYZ: strconv.Atoi: parsing \"XYZ\": invalid syntax",
        ),
        (
            "TZ=America/New_York 15/0 * * * *",
            "step of range should be a positive number: 15/0",
        ),
        (
            "TZ=Invalid/Timezone * * * * *",
            "provided bad location Invalid/Timezone: unknown time zone Invalid/Timezone",
        ),
    ];
    for (schedule, wanted) in rows {
        assert_eq!(refused(schedule), wanted, "{schedule}");
    }
    for schedule in ["TZ=0", "TZ=", "CRON_TZ=UTC", "TZ=Invalid/Timezone"] {
        let error = refused(schedule);
        assert!(error.starts_with("invalid schedule format"), "{error}");
    }
}

#[test]
fn a_list_without_entries_is_never_due() {
    for schedule in [", * * * *", "* , * * *", "* * , * ,", "* * * , *"] {
        assert_eq!(next(schedule, "2016-05-19T10:00:00Z"), "", "{schedule}");
    }
}

#[test]
fn the_end_of_the_calendar_is_reached() {
    assert_eq!(next("* * * * *", "9999-12-31T23:59:59Z"), "");
}
