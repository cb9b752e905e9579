//! The annotations that a Deployment and its ReplicaSets share, and those in which the controller
//! keeps revisions and sizes.

use std::collections::BTreeMap;

pub type Annotations = BTreeMap<String, String>;

/// The number of a rollout, on a ReplicaSet and on the Deployment that it belongs to.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// The revisions that a ReplicaSet had before, separated by commas.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The Deployment's replicas when the ReplicaSet was last scaled.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// The same with the Deployment's surge.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// The revision to return to. What is left of a field of `extensions/v1beta1`.
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// What is not copied from a Deployment to its ReplicaSets, nor back.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    ROLLBACK_TO,
];

/// Most bytes of a history of revisions.
const MAX_HISTORY: usize = 2_000;

fn is_copied(name: &str) -> bool {
    !NOT_COPIED.contains(&name)
}

/// The revision of a ReplicaSet: 0 if it has none, `None` if what it has is no number.
pub fn revision(annotations: &Annotations) -> Option<i64> {
    match annotations.get(REVISION) {
        Some(text) => text.parse().ok(),
        None => Some(0),
    }
}

/// The second highest of these revisions, 0 if there is none.
pub fn last_revision(revisions: impl Iterator<Item = i64>) -> i64 {
    let (mut highest, mut second) = (0, 0);
    for revision in revisions {
        if revision >= highest {
            (highest, second) = (revision, highest);
        } else if revision > second {
            second = revision;
        }
    }
    second
}

/// A number of replicas that the controller has noted. `None`: there is no such note, or somebody
/// has made something else of it.
pub fn noted(annotations: &Annotations, name: &str) -> Option<i64> {
    let digits = annotations.get(name)?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: i32 = digits.parse().ok().filter(|_| is_number)?;
    Some(number.into())
}

/// The annotations of a Deployment's new ReplicaSet: those of the Deployment, and the revision, if
/// that is higher than the one it has. `None`: nothing changes, or its revision is no number.
pub fn of_new_set(
    deployment: &Annotations,
    set: &Annotations,
    revision: i64,
) -> Option<Annotations> {
    let mut new = set.clone();
    let copied = deployment.iter().filter(|(name, _)| is_copied(name));
    new.extend(copied.map(|(name, value)| (name.clone(), value.clone())));

    let before = set.get(REVISION).map(String::as_str);
    let number: i64 = match before {
        None | Some("") => 0,
        Some(text) => text.parse().ok()?,
    };
    if number < revision {
        new.insert(REVISION.to_owned(), revision.to_string());
        if let Some(before) = before {
            let history = set.get(REVISION_HISTORY).map_or("", String::as_str);
            if let Some(history) = with_revision(history, before, MAX_HISTORY) {
                new.insert(REVISION_HISTORY.to_owned(), history);
            }
        }
    }
    (new != *set).then_some(new)
}

/// A history with one more revision at its end, from which the oldest are dropped as far as it
/// would have too many bytes. `None`: this one revision alone has.
fn with_revision(history: &str, revision: &str, most: usize) -> Option<String> {
    let mut revisions: Vec<&str> = history.split(',').collect();
    if revisions[0].is_empty() {
        return Some(revision.to_owned());
    }
    let mut length = history.len() + revision.len() + 1;
    let mut dropped = 0;
    while length > most && dropped < revisions.len() {
        length -= revisions[dropped].len() + 1;
        dropped += 1;
    }
    revisions.drain(..dropped);
    revisions.push(revision);
    (length <= most).then(|| revisions.join(","))
}

/// The notes about sizes that a ReplicaSet is to have.
pub fn sizes(replicas: i64, max_surge: i64) -> [(&'static str, String); 2] {
    let most = replicas + max_surge;
    [
        (DESIRED_REPLICAS, replicas.to_string()),
        (MAX_REPLICAS, most.to_string()),
    ]
}

/// The annotations of a Deployment that returns to the template of this ReplicaSet: its own would
/// be copied to that, though they say why the other was made.
pub fn rolled_back(deployment: &Annotations, set: &Annotations) -> Annotations {
    let own = deployment.iter().filter(|(name, _)| !is_copied(name));
    let sets = set.iter().filter(|(name, _)| is_copied(name));
    let all = own.chain(sets);
    all.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(members: &[(&str, &str)]) -> Annotations {
        let members = members.iter();
        members
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    /// `TestAnnotationUtils` in deployment_util_test.go: a history of at most 5 bytes.
    #[test]
    fn the_oldest_revisions_are_dropped_from_a_history_that_is_full() {
        let mut history = String::new();
        for revision in 11..20_i64 {
            let before = revision.to_string();
            history = with_revision(&history, &before, 5).unwrap_or(history);
            let wanted = match revision {
                11 => "11".to_owned(),
                _ => format!("{},{}", revision - 1, revision),
            };
            assert_eq!(history, wanted);
        }
        assert_eq!(with_revision("11,12", "1234567", 5), None);
    }

    #[test]
    fn annotations_of_the_deployment_are_copied_but_for_those_of_the_controller() {
        let deployment = annotations(&[
            ("a", "new"),
            ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
            (REVISION, "9"),
            (REVISION_HISTORY, "8"),
            (DESIRED_REPLICAS, "7"),
            (MAX_REPLICAS, "8"),
            (ROLLBACK_TO, "6"),
        ]);
        let set = annotations(&[("a", "old"), ("b", "own"), (REVISION, "1")]);
        let new = of_new_set(&deployment, &set, 1);
        let wanted = annotations(&[("a", "new"), ("b", "own"), (REVISION, "1")]);
        assert_eq!(new, Some(wanted.clone()));
        assert_eq!(of_new_set(&deployment, &wanted, 1), None);
    }

    #[test]
    fn a_revision_only_grows_and_the_one_before_is_remembered() {
        let none = Annotations::new();
        let set = annotations(&[(REVISION, "3"), (REVISION_HISTORY, "1")]);
        let grown = annotations(&[(REVISION, "5"), (REVISION_HISTORY, "1,3")]);
        assert_eq!(of_new_set(&none, &set, 5), Some(grown));
        assert_eq!(of_new_set(&none, &set, 2), None);
        let first = annotations(&[(REVISION, "1")]);
        assert_eq!(of_new_set(&none, &none, 1), Some(first));
        let odd = annotations(&[(REVISION, "three")]);
        assert_eq!(of_new_set(&annotations(&[("a", "b")]), &odd, 5), None);
    }

    /// `TestGetNonNegativeInt32FromAnnotation` in deployment_util_test.go.
    #[test]
    fn a_noted_number_is_one_that_the_controller_could_have_written() {
        for (value, wanted) in [
            (None, None),
            (Some("invalid"), None),
            (Some("-1"), None),
            (Some("+1"), None),
            (Some(""), None),
            (Some("0"), Some(0)),
            (Some("13"), Some(13)),
            (Some("2147483647"), Some(2_147_483_647)),
            (Some("2147483648"), None),
            (Some("4294967296"), None),
        ] {
            let all = value.map(|value| annotations(&[("test", value), ("foo", "2")]));
            assert_eq!(noted(&all.unwrap_or_default(), "test"), wanted, "{value:?}");
        }
    }

    #[test]
    fn the_last_revision_is_the_second_highest() {
        assert_eq!(last_revision([].into_iter()), 0);
        assert_eq!(last_revision([4].into_iter()), 0);
        assert_eq!(last_revision([1, 4, 3].into_iter()), 3);
        assert_eq!(last_revision([4, 4].into_iter()), 4);
    }

    #[test]
    fn a_rollback_takes_the_annotations_of_the_old_template() {
        let deployment = annotations(&[("why", "edit"), (REVISION, "2"), ("only", "here")]);
        let set = annotations(&[("why", "create"), (REVISION, "1"), (MAX_REPLICAS, "3")]);
        let wanted = annotations(&[("why", "create"), (REVISION, "2")]);
        assert_eq!(rolled_back(&deployment, &set), wanted);
    }
}
