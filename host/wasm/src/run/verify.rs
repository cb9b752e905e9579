//! The double-run check: the same request on the same snapshot must give the same answer. A guest
//! in a fresh instance has no means to answer differently (see `imports::wasi`). The check
//! therefore finds guests that carry state from one call to the next, and defects of the host.

use std::time::Duration;

use pilothouse_core::{Action, FollowUp, Outcome, RunError, SubjectKey};

type Answer = Result<Outcome, RunError>;

/// True if this run is one of the fraction that is checked. This depends only on plugin, key and
/// attempt, so it is repeatable, too.
pub(super) fn is_chosen(fraction: f64, plugin: &str, key: &SubjectKey, attempt: u32) -> bool {
    if fraction <= 0.0 {
        return false;
    }
    // FNV-1a, followed by a mixing step, because the upper bits of the hash hardly depend on the
    // last bytes.
    let parts = [
        plugin.as_bytes(),
        key.kind.as_ref().map_or(&[], |kind| kind.kind.as_bytes()),
        key.object.namespace.as_bytes(),
        key.object.name.as_bytes(),
    ];
    let bytes = parts.iter().flat_map(|part| part.iter().chain(b"/"));
    let hash = bytes
        .chain(&attempt.to_be_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let spread = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    #[allow(clippy::cast_precision_loss, reason = "of 32 bits there is none")]
    let place = spread as f64 / f64::from(u32::MAX);
    place < fraction || fraction >= 1.0
}

/// True if an answer can be compared with another one. Timeouts depend on the machine, and errors
/// of the host are not the guest's.
pub(super) fn is_comparable(answer: &Answer) -> bool {
    !matches!(
        answer,
        Err(RunError::Timeout(_) | RunError::Host(_) | RunError::HostPanic(_))
    )
}

/// Describes the first difference between two answers or, if `fuel` is given, between the fuel that
/// two runs used.
pub(super) fn difference(
    first: &Answer,
    second: &Answer,
    fuel: Option<(u64, u64)>,
) -> Option<String> {
    let differs = match (first, second) {
        (Ok(first), Ok(second)) => of_outcomes(first, second),
        (Err(first), Err(second)) => {
            let (first, second) = (constant_text(first), constant_text(second));
            (first != second).then(|| format!("failed with {first:?}, then with {second:?}"))
        }
        (Ok(_), Err(error)) => Some(format!(
            "succeeded, then failed with {:?}",
            error.to_string()
        )),
        (Err(error), Ok(_)) => Some(format!(
            "failed with {:?}, then succeeded",
            error.to_string()
        )),
    };
    differs.or_else(|| {
        let (first, second) = fuel?;
        (first != second).then(|| format!("used {first} of fuel, then {second}"))
    })
}

/// The text of an error without the time it took, which varies.
fn constant_text(error: &RunError) -> String {
    match error {
        RunError::OutOfFuel { fuel, .. } => RunError::OutOfFuel {
            fuel: *fuel,
            took: Duration::ZERO,
        }
        .to_string(),
        _ => error.to_string(),
    }
}

fn of_outcomes(first: &Outcome, second: &Outcome) -> Option<String> {
    let actions = |outcome: &Outcome| -> Vec<Action> {
        let stages = outcome.stages.iter();
        stages.flat_map(|stage| stage.actions.clone()).collect()
    };
    let (ones, others) = (actions(first), actions(second));
    let mut pairs = ones.iter().zip(&others).enumerate();
    if let Some((index, (one, other))) = pairs.find(|(_, (one, other))| one != other) {
        let number = index + 1;
        return Some(match differing_byte(one, other) {
            Some(byte) => format!("action {number} differs at byte {byte}"),
            None => format!("action {number} differs"),
        });
    }
    let (one, other) = (ones.len(), others.len());
    if one != other {
        return Some(format!("{one} actions, then {other}"));
    }
    if first.stages != second.stages {
        return Some("the same actions in other stages".to_owned());
    }
    if first.confirm != second.confirm {
        return Some("other questions to confirm".to_owned());
    }
    of_follow_ups(&first.follow_up, &second.follow_up)
}

fn of_follow_ups(first: &FollowUp, second: &FollowUp) -> Option<String> {
    if first.next != second.next {
        let (one, other) = (&first.next, &second.next);
        return Some(format!("next: {one:?}, then {other:?}"));
    }
    if first.not_before != second.not_before {
        let (one, other) = (first.not_before, second.not_before);
        return Some(format!("not before: {one:?}, then {other:?}"));
    }
    if first.is_settled != second.is_settled {
        let (one, other) = (first.is_settled, second.is_settled);
        return Some(format!("settled: {one}, then {other}"));
    }
    (first.memo != second.memo).then(|| "another memo".to_owned())
}

/// The first byte at which the texts of two actions of the same type differ.
fn differing_byte(one: &Action, other: &Action) -> Option<usize> {
    if std::mem::discriminant(one) != std::mem::discriminant(other) {
        return None;
    }
    let (one, other) = (text(one)?, text(other)?);
    let same = one
        .bytes()
        .zip(other.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    (one != other).then_some(same)
}

fn text(action: &Action) -> Option<&str> {
    match action {
        Action::Apply { object, .. }
        | Action::Create { object, .. }
        | Action::Update { object, .. } => Some(object),
        Action::Patch { body, .. } => Some(body),
        Action::Event(event) => Some(&event.note),
        Action::Delete(_)
        | Action::DeleteAll(_)
        | Action::Finalizer { .. }
        | Action::Children { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_core::{NextRun, ObjectKey};

    use super::*;

    fn key(name: &str) -> SubjectKey {
        SubjectKey {
            object: ObjectKey::new("ns", name),
            ..SubjectKey::singleton()
        }
    }

    fn applying(object: &str) -> Answer {
        let object = object.to_owned();
        let apply = Action::Apply {
            object,
            subresource: None,
            force: false,
        };
        Ok(Outcome::of(vec![apply]))
    }

    fn said(first: &Answer, second: &Answer, fuel: Option<(u64, u64)>) -> String {
        difference(first, second, fuel).unwrap_or_default()
    }

    #[test]
    fn answers_that_differ_are_told_apart_by_the_first_difference() {
        let (one, two) = (applying("{\"a\":1}"), applying("{\"a\":2}"));
        assert_eq!(said(&one, &two, Some((1, 2))), "action 1 differs at byte 5");
        assert_eq!(
            said(&one, &applying("{"), None),
            "action 1 differs at byte 1"
        );
        let nothing = Ok(Outcome::default());
        assert_eq!(said(&one, &nothing, None), "1 actions, then 0");
        let later = Ok(Outcome {
            follow_up: NextRun::After(Duration::from_secs(1)).into(),
            ..Outcome::default()
        });
        assert_eq!(
            said(&nothing, &later, None),
            "next: OnChange, then After(1s)"
        );
        let remembers = |memo: &str| {
            Ok(Outcome {
                follow_up: FollowUp {
                    memo: Some(memo.into()),
                    ..FollowUp::default()
                },
                ..Outcome::default()
            })
        };
        assert_eq!(said(&remembers("a"), &remembers("b"), None), "another memo");
        let no_stage = Ok(Outcome::default());
        let empty_stage = Ok(Outcome::of(vec![]));
        assert_eq!(
            said(&no_stage, &empty_stage, None),
            "the same actions in other stages"
        );
        let trap = Err(RunError::Trap("x".into()));
        assert_eq!(
            said(&nothing, &trap, None),
            "succeeded, then failed with \"trap: x\""
        );
        let out_of_fuel = |ms| {
            let took = Duration::from_millis(ms);
            Err(RunError::OutOfFuel { fuel: 5, took })
        };
        assert_eq!(difference(&out_of_fuel(1), &out_of_fuel(2), None), None);
        assert_eq!(
            said(&one, &applying("{\"a\":1}"), Some((7, 8))),
            "used 7 of fuel, then 8"
        );
        assert_eq!(difference(&one, &applying("{\"a\":1}"), Some((7, 7))), None);
    }

    #[test]
    fn about_the_fraction_is_chosen_and_always_the_same() {
        let chosen = |fraction| {
            let keys = (0..10_000).map(|number| key(&format!("pod-{number}")));
            keys.filter(|key| is_chosen(fraction, "plugin", key, 1))
                .count()
        };
        assert_eq!((chosen(0.0), chosen(1.0)), (0, 10_000));
        assert!((900..1100).contains(&chosen(0.1)), "{}", chosen(0.1));
        assert_eq!(chosen(0.1), chosen(0.1));
        let key = key("a");
        let attempts = (1..1_000).filter(|attempt| is_chosen(0.5, "plugin", &key, *attempt));
        assert!((400..600).contains(&attempts.count()));
    }
}
