//! Amounts of resources by their names, as `spec.hard` of a quota and `requests` of a container.

use std::collections::BTreeMap;

use pilothouse_sdk::Quantity;

pub type Resources = BTreeMap<String, Quantity>;

/// Adds other amounts to these.
pub fn add(to: &mut Resources, other: &Resources) {
    for (name, amount) in other {
        match to.get_mut(name) {
            Some(sum) => *sum += *amount,
            None => drop(to.insert(name.clone(), *amount)),
        }
    }
}

/// Raises these amounts to others that are more.
pub fn raise(to: &mut Resources, other: &Resources) {
    for (name, amount) in other {
        to.entry(name.clone())
            .and_modify(|most| *most = if amount > most { *amount } else { *most })
            .or_insert(*amount);
    }
}

/// The amounts of which the condition holds.
pub fn filtered(from: &Resources, is_wanted: impl Fn(&str) -> bool) -> Resources {
    let wanted = from.iter().filter(|(name, _)| is_wanted(name));
    wanted
        .map(|(name, amount)| (name.clone(), *amount))
        .collect()
}

/// True for the name of a resource that Kubernetes itself defines.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(amounts: &[(&str, &str)]) -> Resources {
        let amounts = amounts.iter();
        amounts
            .map(|(name, amount)| (name.to_string(), amount.parse().unwrap_or_default()))
            .collect()
    }

    #[test]
    fn amounts_are_added_and_raised_by_name() {
        let mut sum = of(&[("cpu", "1"), ("memory", "1Gi")]);
        add(&mut sum, &of(&[("cpu", "500m"), ("pods", "2")]));
        assert_eq!(
            sum,
            of(&[("cpu", "1500m"), ("memory", "1Gi"), ("pods", "2")])
        );
        raise(&mut sum, &of(&[("cpu", "1"), ("pods", "3"), ("x", "1")]));
        let raised = of(&[
            ("cpu", "1500m"),
            ("memory", "1Gi"),
            ("pods", "3"),
            ("x", "1"),
        ]);
        assert_eq!(sum, raised);
    }

    #[test]
    fn resources_of_vendors_have_a_domain() {
        assert!(is_native("cpu") && is_native("kubernetes.io/batteries"));
        assert!(!is_native("example.com/gpu"));
    }
}
