//! Quantities are read, written, added and compared as Kubernetes does.

use std::cmp::Ordering;

use pilothouse_sdk::{InvalidQuantity, Quantity};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

/// What `resource.Quantity` of apimachinery 0.37 makes of texts.
#[derive(Deserialize)]
struct Cases {
    parsed: Vec<Parsed>,
    pairs: Vec<Pair>,
}

#[derive(Deserialize)]
struct Parsed {
    text: String,
    /// `None`: it is refused.
    canonical: Option<String>,
    /// `None`: it does not fit, or Kubernetes rounds it otherwise than its negative.
    value: Option<i64>,
    milli: Option<i64>,
}

#[derive(Deserialize)]
struct Pair {
    a: String,
    b: String,
    sum: String,
    difference: String,
    order: i8,
}

fn cases() -> Cases {
    serde_json::from_str(include_str!("../../cases/quantities.json")).expect("the cases are JSON")
}

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_text_is_read_and_written_as_kubernetes_does() {
    for case in cases().parsed {
        let Parsed {
            text,
            canonical,
            value,
            milli,
        } = case;
        let parsed = text.parse::<Quantity>();
        let written = parsed.clone().map(|quantity| quantity.to_string());
        assert_eq!(written.ok(), canonical, "{text:?}");
        if let (Some(value), Ok(parsed)) = (value, &parsed) {
            assert_eq!(parsed.value(), value, "{text:?}");
        }
        if let (Some(milli), Ok(parsed)) = (milli, &parsed) {
            assert_eq!(parsed.milli_value(), milli, "{text:?}");
        }
    }
}

#[test]
fn quantities_are_added_subtracted_and_compared_as_kubernetes_does() {
    for Pair {
        a,
        b,
        sum,
        difference,
        order,
    } in cases().pairs
    {
        let (one, other) = (quantity(&a), quantity(&b));
        assert_eq!((one + other).to_string(), sum, "{a} + {b}");
        assert_eq!((one - other).to_string(), difference, "{a} - {b}");
        assert_eq!(one.cmp(&other), order.cmp(&0), "{a} and {b}");
        let (mut added, mut taken) = (one, one);
        added += other;
        taken -= other;
        assert_eq!((added, taken), (one + other, one - other));
    }
}

#[test]
fn a_text_that_is_no_quantity_is_refused_by_its_name() {
    let error = "1 Gi"
        .parse::<Quantity>()
        .map_err(|error| error.to_string());
    let wanted = "\"1 Gi\" is not a quantity; write 100m, 1.5Gi or 2e3";
    assert_eq!(error, Err(wanted.to_owned()));
    let too_much = ["1e30", "200000000000E", "1e999999", "1e99999999999"];
    for text in too_much {
        assert!(text.parse::<Quantity>().is_err(), "{text}");
    }
    assert_eq!(quantity("170000000000E").to_string(), "170000000000E");
    assert_eq!(quantity("0e999999"), Quantity::default());
    assert_eq!(quantity("9e-999999").to_string(), "1e-9");
}

#[test]
fn a_quantity_is_made_of_numbers() {
    assert_eq!(Quantity::from(1_500).to_string(), "1500");
    assert_eq!(Quantity::milli(1_500).to_string(), "1500m");
    assert_eq!(Quantity::bytes(1_536).to_string(), "1536");
    assert_eq!(Quantity::bytes(1_000).to_string(), "1k");
    assert_eq!(Quantity::bytes(3 << 20).to_string(), "3Mi");
    assert_eq!(Quantity::from(i64::MIN).value(), i64::MIN);
    assert_eq!(quantity("100E").value(), i64::MAX);
    assert_eq!(quantity("-100E").milli_value(), i64::MIN);
    assert!(Quantity::default().is_zero() && !Quantity::milli(-1).is_zero());
    assert_eq!(-Quantity::milli(5), Quantity::milli(-5));
}

#[test]
fn an_amount_of_nothing_takes_the_format_of_what_is_added() {
    let sum: Quantity = ["1Ki", "1Ki"].map(quantity).into_iter().sum();
    assert_eq!(sum.to_string(), "2Ki");
    // Less than one has no binary format any more.
    let sum = quantity("0.00048828125Ki") + quantity("1023.5");
    assert_eq!(sum.to_string(), "1024");
    let requests: Result<Quantity, InvalidQuantity> =
        ["1", "x"].iter().map(|text| text.parse()).sum();
    assert!(requests.is_err());
}

#[test]
fn a_quantity_in_json_is_a_text_or_a_number() {
    for (json, text) in [
        (json!("1.5Gi"), "1536Mi"),
        (json!(" 1 "), "1"),
        (json!(2), "2"),
        (json!(-2), "-2"),
        (json!(u64::MAX), "18446744073709551615"),
        (json!(0.1), "100m"),
    ] {
        let read: Quantity = serde_json::from_value(json).expect("it is a quantity");
        assert_eq!(json!(read), json!(text));
    }
    let error =
        serde_json::from_value::<Quantity>(json!("much")).map_err(|error| error.to_string());
    assert!(error.is_err_and(|error| error.contains("\"much\" is not a quantity")));
    assert!(serde_json::from_value::<Quantity>(json!(true)).is_err());
}

fn any_quantity() -> impl Strategy<Value = Quantity> {
    let suffix = prop::sample::select(vec!["n", "u", "m", "", "k", "M", "Ki", "Mi", "e3", "e-6"]);
    (any::<i32>(), 0..1_000u32, suffix)
        .prop_map(|(whole, fraction, suffix)| quantity(&format!("{whole}.{fraction:03}{suffix}")))
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_the_same(one in any_quantity()) {
        let again = quantity(&one.to_string());
        prop_assert_eq!(again, one);
        prop_assert_eq!(again.to_string(), one.to_string());
    }

    #[test]
    fn a_whole_number_is_as_much_as_with_a_fraction_of_nothing(
        whole: u64, cut in 0..64_u32,
        suffix in prop::sample::select(vec![
            "n", "u", "m", "", "k", "E", "Ki", "Ti", "Ei", "e3", "e-6", "e-9", "e-12", "e9", "e30",
        ]),
    ) {
        let whole = whole >> cut;
        let parsed = |text: String| text.parse::<Quantity>().ok();
        let one = parsed(format!("{whole}{suffix}"));
        prop_assert_eq!(one, parsed(format!("{whole}.0{suffix}")));
    }

    #[test]
    fn a_difference_undoes_a_sum(one in any_quantity(), other in any_quantity()) {
        prop_assert_eq!(one + other, other + one);
        prop_assert_eq!(one + other - other, one);
        prop_assert_eq!(one - other, -(other - one));
        prop_assert_eq!(one.cmp(&other), (one - other).cmp(&Quantity::default()));
        prop_assert_eq!(one == other, one.cmp(&other) == Ordering::Equal);
    }

    #[test]
    fn a_canonical_form_has_no_fraction_and_the_largest_suffix(one in any_quantity()) {
        let text = one.to_string();
        prop_assert!(!text.contains('.'), "{}", text);
        let digits = text.trim_start_matches('-').trim_end_matches(|c: char| !c.is_ascii_digit());
        let is_decimal = !text.contains('e') && !text.ends_with('i');
        prop_assert!(!is_decimal || !digits.ends_with("000"), "{}", text);
    }
}
