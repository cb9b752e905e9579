//! The roles are enough, and no more: the host works with them, and each verb that is taken away
//! breaks a thing that the table below names.

mod rig;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pilothouse_tests::Host;
use serde_json::Value;

use rig::Rig;

/// What is seen when a verb is missing.
#[derive(Debug)]
enum Breaks {
    /// The plugin `actions` is in this state, for a reason with this text.
    State(&'static str, &'static str),
    /// The last error of the plugin `actions` contains this.
    LastError(&'static str),
    /// This metric is no longer zero for these labels.
    Metric(&'static str, &'static str),
    /// The host logs that an Event of its own was not written, and the Event is not there.
    OwnEvent,
    /// The host logs this.
    Says(&'static str),
    /// Nothing that a test on this server can see, for this reason.
    Nothing(&'static str),
}
use Breaks::{LastError, Metric, Nothing, OwnEvent, Says, State};

/// A role, a resource and a verb of one of its rules, and what breaks without it.
type Row = (&'static str, &'static str, &'static str, Breaks);

const PLUGINS: &str = "pilothouse:plugins";

/// What the host needs by itself, and for its own plugins' reads and Events.
const HOST: [Row; 11] = [
    ("pilothouse", "events", "create", OwnEvent),
    ("pilothouse", "events", "patch", OwnEvent),
    ("pilothouse", "leases", "create", ELECTION),
    ("pilothouse", "leases", "get", ELECTION),
    ("pilothouse", "leases", "update", ELECTION),
    (
        "pilothouse",
        "leases",
        "watch",
        Says("cannot watch the Leases; a take-over takes a few seconds longer"),
    ),
    (PLUGINS, "events", "create", UNWRITTEN),
    (PLUGINS, "events", "patch", UNWRITTEN),
    (PLUGINS, MAPS, "list", State("waiting", "may not list")),
    (PLUGINS, MAPS, "watch", State("running", "may not watch")),
    (PLUGINS, MAPS, "get", REFUSED_GET),
];

/// What writes as the plugin needs: in the host's role, or in that of the plugin's account.
const fn writes(role: &'static str) -> [Row; 5] {
    [
        (role, MAPS, "create", LastError("cannot create")),
        (role, MAPS, "update", LastError("cannot update")),
        (role, MAPS, "patch", LastError("cannot patch")),
        (role, MAPS, "delete", LastError("cannot delete")),
        (role, "configmaps/finalizers", "update", NOT_ENFORCED),
    ]
}

/// What an account of the plugin's own needs besides, and the host for it.
const ACCOUNT: [Row; 4] = [
    ("actions", MAPS, "list", State("waiting", "may not")),
    ("actions", MAPS, "watch", State("waiting", "may not")),
    (
        PLUGINS,
        "serviceaccounts",
        "impersonate",
        LastError("cannot impersonate"),
    ),
    (
        PLUGINS,
        "subjectaccessreviews",
        "create",
        State("waiting", "may not"),
    ),
];

const MAPS: &str = "configmaps";

const REFUSED_GET: Breaks = Metric("rest_client_requests_total", r#"code="403",method="GET""#);

const NOT_ENFORCED: Breaks =
    Nothing("the test API server has no admission plugin OwnerReferencesPermissionEnforcement");

const ELECTION: Breaks = State("standby", "no leader can be elected");

const UNWRITTEN: Breaks = Metric(
    "pilothouse_unwritten_events_total",
    r#"controller="actions",reason="forbidden""#,
);

/// How often is looked, at intervals of [`STEP`].
const LOOKS: usize = 240;

const STEP: Duration = Duration::from_millis(250);

/// The requests that the server has refused to the host.
const REFUSED: &str = r#"code="403""#;

#[tokio::test]
async fn the_roles_are_enough_for_the_host_and_its_plugins() -> Result<()> {
    for has_identity in [false, true] {
        let rig = Rig::new(has_identity).await?;
        works(&rig).await?;
    }
    Ok(())
}

/// Runs a host until all is done, and sees that no request was refused.
async fn works(rig: &Rig) -> Result<()> {
    let host = rig.host().await?;
    rig.give_work().await?;
    let mut round = 0;
    while !rig.is_done().await? {
        round += 1;
        ensure!(round < LOOKS, "not all is done: {}", host.log());
        if round % 4 == 0 {
            rig.repeat_events(&host, round).await?;
        }
        tokio::time::sleep(STEP).await;
    }
    let refused = host.metric("rest_client_requests_total", REFUSED).await?;
    assert!(
        refused.abs() < 0.5,
        "{refused} requests were refused: {}",
        host.log()
    );
    Ok(())
}

/// Whether it is seen that a verb is missing.
async fn is_broken(rig: &Rig, host: &Host, breaks: &Breaks) -> Result<bool> {
    let actions = async || -> Result<Value> {
        let all = host.plugins().await?;
        let found = all.into_iter().find(|one| one["file"] == "actions.wasm");
        Ok(found.unwrap_or_default())
    };
    let has = |value: &Value, text: &str| value.as_str().is_some_and(|found| found.contains(text));
    match breaks {
        State(state, reason) => {
            let found = actions().await?;
            Ok(found["state"] == *state && has(&found["reason"], reason))
        }
        LastError(text) => Ok(has(&actions().await?["lastError"]["message"], text)),
        Metric(name, labels) => Ok(host.metric(name, labels).await? > 0.5),
        OwnEvent => {
            let lines = host.log_lines();
            let is_said = |line: &Value| line["message"] == "an Event was not written";
            let is_there = rig.is_repeated("pilothouse", "PluginQuarantined").await?;
            Ok(lines.iter().any(is_said) && !is_there)
        }
        Says(message) => {
            let lines = host.log_lines();
            Ok(lines.iter().any(|line| line["message"] == *message))
        }
        Nothing(_) => Ok(true),
    }
}

/// Runs a host without a verb until that is seen.
async fn breaks_without(rig: &Rig, row: &Row) -> Result<()> {
    let (role, resource, verb, breaks) = row;
    rig.take(role, resource, verb).await?;
    let host = rig.host().await?;
    rig.give_work().await?;
    let mut round = 0;
    while !is_broken(rig, &host, breaks).await? {
        round += 1;
        ensure!(round < LOOKS, "nothing breaks: {}", host.log());
        if round % 4 == 0 {
            rig.repeat_events(&host, round).await?;
        }
        tokio::time::sleep(STEP).await;
    }
    host.terminate().await?;
    rig.clear().await?;
    rig.give_back(role, resource, verb).await
}

#[tokio::test]
async fn each_verb_that_is_taken_away_breaks_what_the_table_says() -> Result<()> {
    let rig = Rig::new(false).await?;
    let table: Vec<Row> = HOST.into_iter().chain(writes(PLUGINS)).collect();
    each_breaks(&rig, &table, &table).await
}

#[tokio::test]
async fn each_verb_of_a_plugins_own_account_and_for_it_does_so_too() -> Result<()> {
    let rig = Rig::new(true).await?;
    let own: Vec<Row> = ACCOUNT.into_iter().chain(writes("actions")).collect();
    let table: Vec<Row> = HOST
        .into_iter()
        .chain(ACCOUNT)
        .chain(writes("actions"))
        .collect();
    each_breaks(&rig, &table, &own).await
}

/// Checks that `table` names every verb of the roles, and takes away those of `rows`.
async fn each_breaks(rig: &Rig, table: &[Row], rows: &[Row]) -> Result<()> {
    let mut listed: Vec<_> = table.iter().map(|row| (row.0, row.1, row.2)).collect();
    listed.sort_unstable();
    assert_eq!(listed, verbs_of(&rig.roles), "the table names every verb");
    for row in rows {
        if let Nothing(reason) = row.3 {
            println!("{} {} is not taken away: {reason}", row.2, row.1);
            continue;
        }
        let broken = breaks_without(rig, row).await;
        broken.with_context(|| format!("{row:?}"))?;
    }
    Ok(())
}

/// Each verb of each rule, with its role and its resource.
fn verbs_of(roles: &[Value]) -> Vec<(&str, &str, &str)> {
    let mut verbs = Vec::new();
    for role in roles {
        for rule in role["rules"].as_array().into_iter().flatten() {
            for verb in rule["verbs"].as_array().into_iter().flatten() {
                verbs.push((
                    role["metadata"]["name"].as_str().unwrap_or_default(),
                    rule["resources"][0].as_str().unwrap_or_default(),
                    verb.as_str().unwrap_or_default(),
                ));
            }
        }
    }
    verbs.sort_unstable();
    verbs
}
