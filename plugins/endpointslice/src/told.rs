//! Events about a Service.

use pilothouse_sdk::{Effect, EffectVerb, Event, ObjectRef};
use services::failures;

use crate::topology::Told;

/// Why the last writes have failed, as one text. `None`: they have not. Of several only the first
/// is told, as upstream stops there.
pub fn failure(service: &ObjectRef, previous: &[Effect]) -> Option<String> {
    let ObjectRef {
        namespace, name, ..
    } = service;
    let mut failed = previous.iter().filter_map(|effect| {
        let reason = failures::reason(effect)?;
        let slice = &effect.object.name;
        let what = match effect.verb {
            _ if failures::is_of_ending_namespace(effect) => return None,
            EffectVerb::Create => "create".to_owned(),
            EffectVerb::Update => format!("update {slice}"),
            EffectVerb::Delete => format!("delete {slice}"),
            _ => return None,
        };
        let slice = "EndpointSlice for Service";
        Some(format!(
            "failed to {what} {slice} {namespace}/{name}: {reason}"
        ))
    });
    failed.next()
}

/// That pods were left out, because there are no such nodes. `None`: there are none.
pub fn without_node(service: &ObjectRef, pods: &[(String, String)]) -> Option<String> {
    let ObjectRef {
        namespace, name, ..
    } = service;
    let mut texts: Vec<String> = Vec::new();
    for (pod, node) in pods {
        let service = format!("for Service {namespace}/{name}");
        let text = format!("skipping Pod {pod} {service}: Node {node} Not Found");
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.len() {
        0 => None,
        1 => texts.pop(),
        _ => Some(format!("[{}]", texts.join(", "))),
    }
}

/// The Event about what went wrong.
pub fn not_updated(service: &ObjectRef, reason: &str) -> Event {
    let ObjectRef {
        namespace, name, ..
    } = service;
    let note = format!("Error updating Endpoint Slices for Service {namespace}/{name}: {reason}");
    Event::warning(service, "FailedToUpdateEndpointSlices", "Update", &note)
}

/// What was asked for by annotation is not asked for any more.
pub fn no_hints_wanted() -> Told {
    Told::Disabled("Topology Aware Hints has been disabled".to_owned())
}

/// The Event about hints for endpoints of this address type.
pub fn about_hints(service: &ObjectRef, told: &Told, address_type: &str) -> Event {
    let note = |text: &str| format!("{text}, addressType: {address_type}");
    match told {
        Told::Enabled => {
            let note = note("Topology Aware Hints has been enabled");
            Event::normal(service, "TopologyAwareHintsEnabled", "Hint", &note)
        }
        Told::Disabled(reason) => {
            let note = note(reason);
            Event::warning(service, "TopologyAwareHintsDisabled", "Hint", &note)
        }
    }
}
