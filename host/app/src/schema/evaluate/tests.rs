use super::*;
use serde_json::json;

const STRICT: &str = r#"{
    "type": "object",
    "properties": {
        "greeting": {"type": "string", "pattern": "^[a-z]+$"},
        "retries": {"type": "integer", "minimum": 0},
        "servers": {"type": "array", "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"enum": ["front", "back"]}}
        }},
        "log level": {"type": "string"}
    },
    "additionalProperties": false
}"#;

fn judged(schema: &str, config: &Value) -> Result<(), Fault> {
    evaluate(schema, Some(&config.to_string()))
}

fn faults(schema: &str, config: &Value) -> String {
    match judged(schema, config) {
        Err(Fault::Config(faults)) => faults,
        other => panic!("{other:?}"),
    }
}

fn no_schema(schema: &Value) -> String {
    match evaluate(&schema.to_string(), None) {
        Err(Fault::Schema(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_configuration_as_the_schema_wants_it_is_taken() {
    let good = json!({"greeting": "hello", "retries": 3, "servers": [{"name": "front"}]});
    assert_eq!(judged(STRICT, &good), Ok(()));
    assert_eq!(judged(STRICT, &json!({})), Ok(()));
    assert_eq!(evaluate(STRICT, None), Ok(()));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (config, wanted) in [
        (
            json!({"greeting": 5}),
            r#"config.greeting: 5 is not of type "string""#,
        ),
        (
            json!({"retries": -1}),
            "config.retries: -1 is less than the minimum of 0",
        ),
        (
            json!({"greting": "hello"}),
            "config: Additional properties are not allowed ('greting' was unexpected)",
        ),
        (
            json!({"servers": [{"name": "front"}, {}]}),
            r#"config.servers[1]: "name" is a required property"#,
        ),
        (
            json!({"servers": [{"name": "side"}]}),
            r#"config.servers[0].name: it is not one of "front" or "back""#,
        ),
        (
            json!({"log level": true}),
            r#"config."log level": true is not of type "string""#,
        ),
    ] {
        assert_eq!(faults(STRICT, &config), wanted);
    }
}

#[test]
fn a_text_that_does_not_fit_is_not_repeated() {
    let text = faults(STRICT, &json!({"greeting": "hunter2"}));
    assert_eq!(text, r#"config.greeting: it does not match "^[a-z]+$""#);
    let text = faults(STRICT, &json!({"retries": "hunter2", "servers": "hunter2"}));
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn of_many_faults_three_are_named() {
    let many: Vec<Value> = (0..1000).map(|_| json!({})).collect();
    let text = faults(STRICT, &json!({"servers": many}));
    assert_eq!(text.matches("required").count(), 3, "{text}");
    assert!(text.ends_with("; and more"), "{text}");
}

#[test]
fn what_is_no_schema_is_said_with_its_place() {
    let text = no_schema(&json!({"properties": {"greeting": {"type": "strin"}}}));
    assert!(text.starts_with("at /properties/greeting/type: "), "{text}");
    let text = no_schema(&json!({"$ref": "#/$defs/missing"}));
    assert!(text.contains("/$defs/missing"), "{text}");
}

#[test]
fn nothing_outside_of_the_schema_is_fetched() {
    // The error texts of a library that cannot fetch anything. A library that does would report
    // what it found, or that nothing answered.
    let words = [
        "Retrieval is disabled",
        "No base URI is available",
        "Unknown meta-schema",
        "Retrieving external resources is not supported",
    ];
    for place in ["http://127.0.0.1:9/a", "file:///etc/passwd", "other.json"] {
        for schema in [
            json!({"$ref": place}),
            json!({"$schema": place}),
            json!({"$id": place, "$ref": "further"}),
            json!({"properties": {"a": {"$dynamicRef": place}}}),
        ] {
            let text = no_schema(&schema);
            let is_offline = words.iter().any(|words| text.contains(words));
            assert!(is_offline, "{schema}: {text}");
        }
    }
}

#[test]
fn a_pattern_that_others_need_ages_for_is_matched_at_once() {
    let schema = json!({"properties": {"a": {"pattern": "^(a+)+$"}, "b": {"pattern": "(x+x+)+y"}}});
    let config = json!({"a": format!("{}!", "a".repeat(50_000)), "b": "x".repeat(50_000)});
    let text = faults(&schema.to_string(), &config);
    assert!(
        text.contains("config.a") && text.contains("config.b"),
        "{text}"
    );
}

#[test]
fn a_pattern_that_is_large_or_looks_around_is_refused() {
    for pattern in [r"(\pL{1000}){1000}", "a(?=b)", r"(a)\1"] {
        let text = no_schema(&json!({"pattern": pattern}));
        assert!(text.contains("pattern"), "{text}");
    }
}
