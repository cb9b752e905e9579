//! For each ConfigMap labelled `remember`: the sum of the numbers in its `data.numbers`, in the
//! ConfigMap `NAME-sum`. A sum that it has computed before it takes from its memo. After a run it
//! rests for `data.rest` seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use pilothouse_sdk::{
    Apply, Controller, Failure, Host, Manifest, Outcome, Request, Selection, Verb,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

const CONFIG_MAP: &str = "v1/ConfigMap";

#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

/// What is remembered of the run before.
#[derive(Serialize, Deserialize)]
struct Memo {
    numbers: String,
    sum: u64,
}

struct Remember;

impl Controller for Remember {
    fn manifest() -> Manifest {
        let selection = Selection::of(CONFIG_MAP).labels("remember");
        Manifest::new("remember", "1.0.0", selection)
            .reads(CONFIG_MAP, [".data"])
            .writes(CONFIG_MAP, [Verb::Apply])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(ConfigMap { data }) = request.object()? else {
            return Ok(Outcome::done());
        };
        let text = |name: &str| data.get(name).cloned().unwrap_or_default();
        let numbers = text("numbers");
        let memo = request.memo::<Memo>();
        let known = memo.filter(|memo| memo.numbers == numbers);
        let how = if known.is_some() {
            "remembered"
        } else {
            "computed"
        };
        host.info("the sum is known", &[("how", how)]);
        let sum = known.map_or_else(|| sum(&numbers), |memo| memo.sum);
        let key = request.key();
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": key.namespace, "name": format!("{}-sum", key.name)},
            "data": {"sum": sum.to_string()},
        });
        let rest = Duration::from_secs(text("rest").parse().unwrap_or(0));
        let outcome = Outcome::done().with(Apply::new(&object)?).not_before(rest);
        Ok(outcome.remember(&Memo { numbers, sum })?)
    }
}

pilothouse_sdk::register!(Remember);

fn sum(numbers: &str) -> u64 {
    let numbers = numbers.split(' ').map(str::parse::<u64>);
    numbers.filter_map(Result::ok).sum()
}
