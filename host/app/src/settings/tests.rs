use super::*;
use pilothouse_core::{Limits, ObjectKey, Verb};
use proptest::prelude::*;

const ALL: &str = r#"
name = "twin"
field-manager = "kube-controller-manager"
reporting-controller = "job-controller"
paused = true
namespaces = ["web", "shop"]
secret-values = true
weight = 4
concurrency = 2
resync = "12h"
reuse-instances = true
verify = 0.5
forget-memos = true
log-lines = 7

[grants]
reads = ["Pod", { kind = "apps/v1/Deployment", namespaces = ["web"] }]
writes = [{ kind = "Endpoints", verbs = ["apply"], names = ["front"] }]

[limits]
memory = "128Mi"
fuel = 2_000_000
timeout = "500ms"

[config]
greeting = "hello"
retries = 3
since = 2026-01-01
"#;

fn hub_settings(text: &str) -> ControllerSettings {
    let defaults = HostDefaults::of_run();
    parse(text).unwrap().for_hub(&defaults, 16, BTreeSet::new())
}

#[test]
fn every_setting_reaches_the_plugin() {
    let settings = hub_settings(ALL);
    assert!(settings.is_paused && settings.secret_values);
    assert_eq!((settings.weight, settings.concurrency), (4, 2));
    let author = settings.author("twin");
    assert_eq!(author.field_manager, "kube-controller-manager");
    assert_eq!(
        author.reporting_controller.as_deref(),
        Some("job-controller")
    );
    assert_eq!(settings.resync, Some(Duration::from_secs(12 * 3600)));
    assert_eq!(
        settings.config,
        r#"{"greeting":"hello","retries":3,"since":"2026-01-01"}"#
    );
    assert_eq!(settings.grants.namespaces.len(), 2);
    let allows = |verb, name| {
        let kind = Kind::new("", "v1", "Endpoints");
        let key = ObjectKey::new("web", name);
        settings.grants.allows_write(verb, &kind, None, &key)
    };
    assert!(allows(Verb::Apply, "front"));
    assert!(!allows(Verb::Delete, "front") && !allows(Verb::Apply, "back"));
    let sandbox = parse(ALL).unwrap().for_sandbox();
    let limits = sandbox.policy.grant(&Limits::default());
    assert_eq!(limits.memory_bytes, 128 << 20);
    assert_eq!(limits.fuel, 2_000_000);
    assert_eq!(limits.timeout, Duration::from_millis(500));
    assert!(sandbox.options.reuse && sandbox.options.forget_memos);
    assert_eq!(
        (sandbox.options.verify, sandbox.options.log_lines),
        (0.5, 7)
    );
}

#[test]
fn without_settings_a_plugin_is_granted_what_the_host_grants_by_default() {
    let settings = hub_settings("");
    assert_eq!(settings.grants.what, Granted::OwnKind);
    assert_eq!(settings.concurrency, 16);
    assert_eq!(settings.config, "{}");
    let all = hub_settings("grants = \"as-requested\"");
    assert_eq!(all.grants.what, Granted::AsRequested);
}

#[test]
fn a_pattern_is_granted_as_a_manifest_writes_it() {
    let granted = |text: &str| {
        let settings = hub_settings(&format!("[grants]\nreads = [{text:?}]"));
        match settings.grants.what {
            Granted::Listed { reads, .. } => reads[0].kind.to_string(),
            other => panic!("{other:?}"),
        }
    };
    for text in ["*", "apps/*", "v1/*", "Pod", "apps/Deployment"] {
        assert_eq!(granted(text), text);
    }
    let error = parse("[grants]\nreads = [\"apps/v1/*\"]").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("or a pattern: *, apps/* or v1/*"),
        "{error}"
    );
}

#[test]
fn a_plugins_own_settings_go_before_those_for_all() {
    let all = parse("weight = 2\npaused = true\n[config]\na = 1\nb = 2").unwrap();
    let own = parse("paused = false\n[config]\nb = 3").unwrap();
    let both = own.or(&all);
    assert_eq!((both.weight, both.paused), (Some(2), Some(false)));
    assert_eq!(config_json(&both.config), r#"{"a":1,"b":3}"#);
}

#[test]
fn what_tells_plugins_apart_is_not_for_all_of_them() {
    let digest = "a".repeat(64);
    for (key, value) in [
        ("name", "a"),
        ("field-manager", "a"),
        ("reporting-controller", "a"),
        ("sha256", &digest),
    ] {
        let error = parse_defaults(&format!("{key} = \"{value}\"")).unwrap_err();
        assert!(
            error.starts_with(&format!("`{key}` cannot be the same for all")),
            "{error}"
        );
    }
    assert!(parse_defaults("weight = 2").is_ok());
}

#[test]
fn values_of_secrets_are_for_one_plugin_at_a_time() {
    let error = parse_defaults("secret-values = true").unwrap_err();
    assert!(error.contains("write it into the settings of one, NAME.toml"));
    assert!(parse_defaults("secret-values = false").is_ok());
    assert!(hub_settings("secret-values = true").secret_values);
}

#[test]
fn that_settings_are_required_is_said_of_all_plugins() {
    let defaults = parse_defaults("require-settings = true").unwrap();
    let both = parse("").unwrap().or(&defaults);
    assert_eq!(both.require_settings, Some(true));
    let error = parse("require-settings = true").unwrap_err();
    assert!(error.ends_with("write it into pilothouse.toml"), "{error}");
}

#[test]
fn a_plugin_writes_as_a_manager_and_a_user_of_its_own() {
    let plain = hub_settings("").author("web");
    assert_eq!(
        (plain.plugin, plain.field_manager),
        ("web".into(), "pilothouse.dev/web".into())
    );
    assert_eq!(plain.user, None);
    let text = "field-manager = \"helm\"\nidentity = \"serviceaccount:a/b\"";
    let own = hub_settings(text).author("web");
    assert_eq!(
        (own.plugin, own.field_manager),
        ("web".into(), "helm".into())
    );
    assert_eq!(own.user.as_deref(), Some("system:serviceaccount:a:b"));
}

#[test]
fn a_digest_is_one_text_or_a_list_of_some() {
    let (one, two) = ("0123456789abcdef".repeat(4), "F".repeat(64));
    let pinned = |value: &str| parse(&format!("sha256 = {value}")).map(|found| found.sha256);
    let set = |digests: &[&str]| Some(digests.iter().map(|text| (*text).to_owned()).collect());
    assert_eq!(pinned(&format!("\"{one}\"")), Ok(set(&[&one])));
    let both = format!("[\"{one}\", \"{two}\"]");
    let lower = two.to_lowercase();
    assert_eq!(pinned(&both), Ok(set(&[&one, &lower])));
    assert_eq!(parse("").unwrap().sha256, None);
    for (value, wanted) in [
        (
            "\"abc\"",
            "line 1: \"abc\" is not a digest: 64 hexadecimal digits",
        ),
        (&format!("\"sha256:{one}\""), "is not a digest"),
        (&format!("[\"{}\"]", "g".repeat(64)), "is not a digest"),
        ("[]", "an empty list is not a digest"),
        ("3", "integer is not a digest"),
    ] {
        let error = pinned(value).unwrap_err();
        assert!(error.contains(wanted), "{value}: {error}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_line_and_what_was_meant() {
    for (text, wanted) in [
        ("\nconcurency = 2", "line 2: unknown field `concurency`"),
        ("concurency = 2", "did you mean `concurrency`?"),
        ("grants = \"as-request\"", "did you mean `as-requested`?"),
        ("[grants]\nread = []", "did you mean `reads`?"),
        ("[limits]\nmemroy = \"1Mi\"", "did you mean `memory`?"),
        (
            "[grants]\nwrites = [{ kind = \"Pod\", verbs = [\"aply\"] }]",
            "did you mean `apply`?",
        ),
        ("[grants]\nreads = [\"pods\"]", "\"pods\" is not a kind"),
        (
            "weight = 0",
            "line 1: invalid value: integer `0`, expected a whole number of 1 or more",
        ),
        (
            "shards = 0",
            "integer `0`, expected a number of shards from 1 to 1024",
        ),
        ("shards = 1025", "a number of shards from 1 to 1024"),
        ("shards = -1", "integer `-1`"),
        (
            "shard-by = \"kind\"",
            "unknown variant `kind`, expected `name` or `namespace`",
        ),
        (
            "identity = \"web/x\"",
            "write serviceaccount:NAMESPACE/NAME",
        ),
        ("name = \"Web\"", "line 1: name \"Web\" is not a DNS label"),
        ("name = \"\"", "name \"\" is not a DNS label"),
        (
            "field-manager = \"a b\"",
            "\"a b\" is not a field manager: 1 to 128 visible ASCII characters",
        ),
        (
            "reporting-controller = \"job controller\"",
            "\"job controller\" is not a controller's name for Events",
        ),
        ("resync = \"soon\"", "\"soon\" is not a duration"),
        ("verify = 1.5", "a fraction from 0.0 to 1.0"),
        ("[limits]\ntimeout = \"0\"", "more than 0"),
        ("[limits]\nmemory = \"4GB\"", "not an amount of memory"),
        (
            "paused = \"yes\"",
            "invalid type: string \"yes\", expected a boolean",
        ),
        ("paused = ", "line 1:"),
        ("grants = 3", "\"own-kind\", \"as-requested\" or a table"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(wanted), "{text:?}: {error}");
        assert!(!error.contains('\n'), "{error:?}");
    }
}

#[test]
fn shards_are_those_of_the_settings_and_one_without() {
    let shards = |text| {
        let settings = parse(text).unwrap();
        settings
            .for_hub(&HostDefaults::of_run(), 16, BTreeSet::new())
            .division
            .to_string()
    };
    assert_eq!((shards(""), shards("shards = 8")), ("1".into(), "8".into()));
    let by_namespace = "shards = 8\nshard-by = \"namespace\"";
    assert_eq!(shards(by_namespace), "8-by-namespace");
    assert_eq!(shards("shards = 8\nshard-by = \"name\""), "8");
    let all = parse_defaults("shards = 4").unwrap();
    assert_eq!(
        parse("weight = 2")
            .unwrap()
            .or(&all)
            .shards
            .map(NonZeroU32::get),
        Some(4)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_text_makes_the_parser_panic(text in ".{0,200}") {
        let _ = parse(&text);
    }

    /// Valid settings with a piece cut out, repeated or replaced.
    #[test]
    fn no_damage_makes_the_parser_panic(at in 0..ALL.len(), length in 0..40usize, with in ".{0,8}") {
        let (start, end) = (at, (at + length).min(ALL.len()));
        let _ = parse(&format!("{}{with}{}", &ALL[..start], &ALL[end..]));
        let _ = parse(&format!("{}{}", &ALL[..end], &ALL[start..]));
    }
}
