//! How many pods a rolling update may add and take away: maxSurge and maxUnavailable.

use pilothouse_sdk::{Failure, IntOrString, InvalidPercentage};

use crate::objects::DeploymentSpec;

/// The limits of a Deployment, as numbers of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many pods there may be above the Deployment's replicas. 0 unless it is a rolling update.
    pub max_surge: i64,
    /// How many of the Deployment's replicas may be unavailable, at most all of them. 0 unless it
    /// is a rolling update.
    pub max_unavailable: i64,
}

impl Limits {
    /// Surge is rounded up and unavailability down. If both are zero, nothing could ever be
    /// replaced, and one pod may be unavailable: surge might fail because of a quota.
    ///
    /// # Errors
    ///
    /// One of the two is neither a number nor a percentage.
    pub fn of(spec: &DeploymentSpec) -> Result<Self, Failure> {
        if !spec.strategy.is_rolling_update() {
            return Ok(Self {
                max_surge: 0,
                max_unavailable: 0,
            });
        }
        let rolling = &spec.strategy.rolling_update;
        let total = i32::try_from(spec.replicas).unwrap_or(i32::MAX);
        let max_surge = amount(rolling.max_surge.as_ref(), "maxSurge", |amount| {
            amount.scaled_up(total)
        })?;
        let max_unavailable = amount(
            rolling.max_unavailable.as_ref(),
            "maxUnavailable",
            |amount| amount.scaled_down(total),
        )?;
        let max_unavailable = match (max_surge, max_unavailable) {
            (0, 0) => 1,
            (_, max_unavailable) => max_unavailable,
        };
        Ok(Self {
            max_surge,
            max_unavailable: max_unavailable.min(spec.replicas),
        })
    }
}

/// An amount in pods. Upstream takes one that is missing as 0. (The API server fills in 25%.)
fn amount(
    amount: Option<&IntOrString>,
    field: &str,
    scaled: impl FnOnce(&IntOrString) -> Result<i32, InvalidPercentage>,
) -> Result<i64, Failure> {
    let amount = amount.map(scaled).transpose();
    let amount = amount.map_err(|error| {
        Failure::terminal(format!("spec.strategy.rollingUpdate.{field}: {error}"))
    })?;
    Ok(amount.unwrap_or(0).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn limits(replicas: i64, surge: &str, unavailable: &str) -> Result<(i64, i64), Failure> {
        let amount = |text: &str| match text.parse::<i64>() {
            Ok(pods) => json!(pods),
            Err(_) => json!(text),
        };
        let spec = json!({
            "replicas": replicas, "template": {},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {
                "maxSurge": amount(surge), "maxUnavailable": amount(unavailable),
            }},
        });
        let spec: DeploymentSpec = serde_json::from_value(spec).unwrap();
        Limits::of(&spec).map(|limits| (limits.max_surge, limits.max_unavailable))
    }

    /// `TestResolveFenceposts`, `TestMaxUnavailable` and the comment of `ResolveFenceposts` in
    /// deployment_util(_test).go.
    #[test]
    fn surge_is_rounded_up_and_unavailability_down_and_one_of_them_is_not_zero() {
        for (replicas, surge, unavailable, wanted) in [
            (0, "0%", "0%", (0, 0)),
            (10, "39%", "39%", (4, 3)),
            (10, "0", "39%", (0, 3)),
            (10, "39%", "0", (4, 0)),
            (10, "0", "0", (0, 1)),
            (2, "0%", "1%", (0, 1)),
            (1, "0%", "1%", (0, 1)),
            (2, "1%", "25%", (1, 0)),
            (1, "1%", "25%", (1, 0)),
            (10, "1", "5", (1, 5)),
            (10, "1", "10", (1, 10)),
            (5, "1", "10", (1, 5)),
            (0, "1", "10", (1, 0)),
            (10, "1", "50%", (1, 5)),
            (10, "1", "100%", (1, 10)),
            (5, "1", "100%", (1, 5)),
            (
                2_147_483_647,
                "100%",
                "100%",
                (2_147_483_647, 2_147_483_647),
            ),
        ] {
            let found = limits(replicas, surge, unavailable);
            assert_eq!(found, Ok(wanted), "{replicas} {surge} {unavailable}");
        }
    }

    #[test]
    fn an_amount_that_is_none_is_refused_with_its_name() {
        for (surge, unavailable, field) in [
            ("oops", "39%", "maxSurge"),
            ("55%", "urg", "maxUnavailable"),
        ] {
            let Err(Failure::Terminal(text)) = limits(10, surge, unavailable) else {
                panic!("{surge} and {unavailable} are taken");
            };
            assert!(text.contains(field), "{text}");
        }
    }

    #[test]
    fn without_a_rolling_update_no_pod_is_added_or_unavailable() {
        let spec = json!({"replicas": 10, "template": {}, "strategy": {"type": "Recreate"}});
        let spec: DeploymentSpec = serde_json::from_value(spec).unwrap();
        let limits = Limits::of(&spec).unwrap();
        assert_eq!((limits.max_surge, limits.max_unavailable), (0, 0));
    }
}
