//! The roles are enough, and no more: the host works with them, and each verb that is taken away
//! breaks a thing that the table below names.

mod rig;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pilothouse_tests::Host;
use serde_json::Value;

use rig::{Rig, Setup};

/// What is seen when a verb is missing.
#[derive(Clone, Debug)]
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
    /// The host logs that it may not do this with the group's Leases, and the plugin `actions`
    /// stands by for this reason.
    Unshared(&'static str, &'static str),
    /// The Lease of a member that was killed stays, and the host logs that it may not delete it.
    Leftover,
    /// Nothing that a test on this server can see, for this reason.
    Nothing(&'static str),
}
use Breaks::{LastError, Leftover, Metric, Nothing, OwnEvent, Says, State, Unshared};

/// A role, a resource and a verb of one of its rules, and what breaks without it.
type Row = (&'static str, &'static str, &'static str, Breaks);

const PLUGINS: &str = "pilothouse:plugins";

/// What the host needs by itself, and for its own plugins' reads and Events.
const HOST: [Row; 7] = [
    ("pilothouse", "events", "create", OwnEvent),
    ("pilothouse", "events", "patch", OwnEvent),
    (PLUGINS, "events", "create", UNWRITTEN),
    (PLUGINS, "events", "patch", UNWRITTEN),
    (PLUGINS, MAPS, "list", State("waiting", "may not list")),
    (PLUGINS, MAPS, "watch", State("running", "may not watch")),
    (PLUGINS, MAPS, "get", REFUSED_GET),
];

/// What it needs where one host leads.
const LEADER: [Row; 4] = [
    ("pilothouse", LEASES, "create", ELECTION),
    ("pilothouse", LEASES, "get", ELECTION),
    ("pilothouse", LEASES, "update", ELECTION),
    ("pilothouse", LEASES, "watch", UNWATCHED),
];

/// What it needs where hosts share.
const MEMBER: [Row; 5] = [
    (
        "pilothouse",
        LEASES,
        "create",
        Unshared(
            "create",
            "it is no member of the group yet: leases.coordination.k8s.io is forbidden",
        ),
    ),
    (
        "pilothouse",
        LEASES,
        "list",
        Unshared("list", "no host runs it yet"),
    ),
    (
        "pilothouse",
        LEASES,
        "update",
        Says("the Lease was not renewed in time; everything stops"),
    ),
    ("pilothouse", LEASES, "watch", UNWATCHED),
    ("pilothouse", LEASES, "delete", Leftover),
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

const LEASES: &str = "leases";

const REFUSED_GET: Breaks = Metric("rest_client_requests_total", r#"code="403",method="GET""#);

const NOT_ENFORCED: Breaks =
    Nothing("the test API server has no admission plugin OwnerReferencesPermissionEnforcement");

const ELECTION: Breaks = State("standby", "no leader can be elected");

const UNWATCHED: Breaks = Says("cannot watch the Leases; a take-over takes a few seconds longer");

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
    for setup in [Setup::Usual, Setup::OwnAccount] {
        let rig = Rig::new(setup).await?;
        let host = rig.host().await?;
        works(&rig, &host).await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_role_of_hosts_that_share_is_enough_to_join_to_remove_and_to_leave() -> Result<()> {
    let rig = Rig::new(Setup::Shares).await?;
    let host = rig.host_after_a_killed_one().await?;
    works(&rig, &host).await?;
    let (status, log) = host.terminate().await?;
    ensure!(status.success(), "it ended with {status}: {log}");
    let left = rig.member_leases().await?;
    ensure!(left.is_empty(), "{left:?} are left: {log}");
    Ok(())
}

/// Waits until the host has done all, and sees that no request was refused.
async fn works(rig: &Rig, host: &Host) -> Result<()> {
    rig.give_work().await?;
    let mut round = 0;
    while !rig.is_done().await? {
        round += 1;
        ensure!(round < LOOKS, "not all is done: {}", host.log());
        if round % 4 == 0 {
            rig.repeat_events(host, round).await?;
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
        Unshared(verb, reason) => {
            let found = actions().await?;
            let stands_by = found["state"] == "standby" && has(&found["reason"], reason);
            Ok(stands_by && is_refused(host, verb))
        }
        Leftover => Ok(is_refused(host, "delete") && rig.member_leases().await?.len() == 2),
        Nothing(_) => Ok(true),
    }
}

/// Whether the host logs that it may not do this with Leases.
fn is_refused(host: &Host, verb: &str) -> bool {
    let refusal = format!("cannot {verb} resource \"leases\"");
    let is_said = |line: &Value| {
        let reason = line["reason"].as_str().unwrap_or_default();
        line["message"] == "a request about the group's Leases was refused"
            && reason.contains(&refusal)
    };
    host.log_lines().iter().any(is_said)
}

/// Runs a host without a verb until that is seen.
async fn breaks_without(rig: &Rig, row: &Row) -> Result<()> {
    let (role, resource, verb, breaks) = row;
    rig.take(role, resource, verb).await?;
    let mut host = match breaks {
        Leftover => rig.host_after_a_killed_one().await?,
        _ => rig.host().await?,
    };
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
    host.kill().await?;
    rig.clear().await?;
    rig.give_back(role, resource, verb).await
}

#[tokio::test]
async fn each_verb_that_is_taken_away_breaks_what_the_table_says() -> Result<()> {
    let rig = Rig::new(Setup::Usual).await?;
    let table = all(&[&HOST, &LEADER, &writes(PLUGINS)]);
    each_breaks(&rig, &table, &table).await
}

#[tokio::test]
async fn each_verb_of_a_plugins_own_account_and_for_it_does_so_too() -> Result<()> {
    let rig = Rig::new(Setup::OwnAccount).await?;
    let own = all(&[&ACCOUNT, &writes("actions")]);
    let table = all(&[&HOST, &LEADER, &own]);
    each_breaks(&rig, &table, &own).await
}

#[tokio::test]
async fn each_verb_that_hosts_need_to_share_does_so_too() -> Result<()> {
    let rig = Rig::new(Setup::Shares).await?;
    let table = all(&[&HOST, &MEMBER, &writes(PLUGINS)]);
    each_breaks(&rig, &table, &MEMBER).await
}

fn all(tables: &[&[Row]]) -> Vec<Row> {
    tables.concat()
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
