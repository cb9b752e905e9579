use super::*;

fn of(min: u64, max: u64) -> Bounds {
    Bounds {
        min,
        max,
        names: &[],
    }
}

fn bits(values: &[u64]) -> Bits {
    values.iter().map(|value| 1 << value).sum()
}

/// Robfig/cron's `TestRange`.
#[test]
fn a_range_has_a_beginning_an_end_and_a_step() {
    let rows: [(&str, u64, u64, &[u64], bool); 10] = [
        ("5", 0, 7, &[5], false),
        ("0", 0, 7, &[0], false),
        ("7", 0, 7, &[7], false),
        ("5-5", 0, 7, &[5], false),
        ("5-6", 0, 7, &[5, 6], false),
        ("5-7/2", 0, 7, &[5, 7], false),
        ("5-7/1", 0, 7, &[5, 6, 7], false),
        ("5/2", 0, 8, &[5, 7], false),
        ("*", 1, 3, &[1, 2, 3], true),
        ("*/2", 1, 3, &[1, 3], false),
    ];
    for (text, min, max, values, is_star) in rows {
        assert_eq!(
            range(text, &of(min, max)),
            Ok((bits(values), is_star)),
            "{text}"
        );
    }
}

#[test]
fn a_range_that_is_none_is_refused() {
    let rows = [
        ("5--5", 0, 0, "too many hyphens: 5--5"),
        (
            "jan-x",
            0,
            0,
            "failed to parse int from jan: strconv.Atoi: parsing \"jan\": invalid syntax",
        ),
        (
            "2-x",
            1,
            5,
            "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            "2-",
            1,
            5,
            "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax",
        ),
        ("*/-12", 0, 0, "negative number (-12) not allowed: -12"),
        ("*//2", 0, 0, "too many slashes: *//2"),
        ("1", 3, 5, "beginning of range (1) below minimum (3): 1"),
        ("6", 3, 5, "end of range (6) above maximum (5): 6"),
        (
            "5-3",
            3,
            5,
            "beginning of range (5) beyond end of range (3): 5-3",
        ),
        (
            "*/0",
            0,
            0,
            "step of range should be a positive number: */0",
        ),
        (
            "9223372036854775808",
            0,
            9,
            "failed to parse int from 9223372036854775808: strconv.Atoi: \
             parsing \"9223372036854775808\": value out of range",
        ),
    ];
    for (text, min, max, wanted) in rows {
        assert_eq!(range(text, &of(min, max)), Err(wanted.to_owned()), "{text}");
    }
}

/// Robfig/cron's `TestField`, and what its code takes besides.
#[test]
fn a_field_is_a_list_of_ranges() {
    let field = |text: &str| field(text, &of(1, 7)).map(|(found, _)| found);
    assert_eq!(field("5"), Ok(bits(&[5])));
    assert_eq!(field("5,6"), Ok(bits(&[5, 6])));
    assert_eq!(field("5,6,7"), Ok(bits(&[5, 6, 7])));
    assert_eq!(field("1,5-7/2,3"), Ok(bits(&[1, 3, 5, 7])));
    assert_eq!(field(",5,,6,"), Ok(bits(&[5, 6])));
    assert_eq!(field(","), Ok(0));
    assert_eq!(field("+5"), Ok(bits(&[5])));
    assert_eq!(field("*-9"), Ok(bits(&[1, 2, 3, 4, 5, 6, 7])));
    assert_eq!(field("5/9223372036854775807"), Ok(bits(&[5])));
}

/// Robfig/cron's `TestAll`, and its names.
#[test]
fn stars_and_names_stand_for_values() {
    let all = Fields::parse("* ? * * ?").unwrap_or_else(|error| panic!("{error}"));
    let wanted = Fields {
        minutes: 0xfff_ffff_ffff_ffff,
        hours: 0xff_ffff,
        days: 0xffff_fffe,
        months: 0x1ffe,
        weekdays: 0x7f,
        is_any_day: true,
    };
    assert_eq!(all, wanted);
    let named = Fields::parse("1 2 3 JAN,dec Sun-tue,SAT");
    let numbered = Fields::parse("1\t2  3 1,12 0-2,6 ");
    assert_eq!(named, numbered);
    assert!(named.is_ok_and(|named| !named.is_any_day));
}
