//! For each ConfigMap labelled `misbehave`: does what its name says, or else applies `<name>-done`.

use pilothouse_sdk::{
    Action, Apply, Controller, Failure, Host, Manifest, Outcome, Request, Selection, Verb,
};
use serde_json::{Value, json};

struct Misbehaving;

const CONFIG_MAP: &str = "v1/ConfigMap";

fn object(kind: &str, namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": namespace, "name": name}})
}

impl Controller for Misbehaving {
    fn manifest() -> Manifest {
        let selection = Selection::of(CONFIG_MAP).labels("misbehave");
        Manifest::new("misbehaving", "1.0.0", selection)
            .reads(CONFIG_MAP, [".data"])
            .writes(CONFIG_MAP, [Verb::Apply])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let (namespace, name) = (
            request.key().namespace.as_str(),
            request.key().name.as_str(),
        );
        let apply = |object: Value| Ok(Outcome::done().with(Apply::new(&object)?));
        if request.object.is_none() {
            return Ok(Outcome::done());
        }
        match name {
            "trap" => panic!("told to"),
            "loop" => loop {
                std::hint::black_box(());
            },
            "memory" => {
                let hoard: Vec<Vec<u8>> = (0..1_000_000).map(|_| vec![1; 1 << 20]).collect();
                Err(Failure::retry(hoard.len().to_string()))
            }
            "recursion" => Err(Failure::retry(recurse(1).to_string())),
            "invalid-json" => {
                let broken = Apply {
                    object: "{".to_owned(),
                    subresource: None,
                    force: false,
                };
                Ok(Outcome::done().with(Action::Apply(broken)))
            }
            "other-kind" => apply(object("Secret", namespace, "stolen")),
            "escape" => apply(object("ConfigMap", "x/../kube-system", "escaped")),
            "terminal" => Err(Failure::terminal("told to")),
            "reads-secrets" => host
                .list::<Value>("v1/Secret", None, &pilothouse_sdk::Filter::Everything)
                .map(|_| Outcome::done()),
            well => apply(object("ConfigMap", namespace, &format!("{well}-done"))),
        }
    }
}

/// Uses up the stack. The compiler cannot know that the end is never reached, and cannot turn the
/// recursion into a loop.
fn recurse(depth: u64) -> u64 {
    if std::hint::black_box(depth) == u64::MAX {
        return 0;
    }
    std::hint::black_box(depth) + recurse(depth + 1)
}

pilothouse_sdk::register!(Misbehaving);
