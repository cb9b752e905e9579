//! The flags of leader election: those of Kubernetes' own components.

use std::time::Duration;

use anyhow::Context;
use clap::{ArgAction, Args};
use pilothouse_core::{ElectionSettings, is_dns_label};

use crate::settings::duration;

#[derive(Clone, Debug, Args)]
pub struct ElectionArgs {
    /// Take part in a leader election: of several hosts one runs the plugins, the others stand by.
    ///
    /// A standby has all plugins loaded and all caches full. A host that is alone leads at once.
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value = "true",
        action = ArgAction::Set
    )]
    pub leader_elect: bool,

    /// Share the work: every host runs a part of the plugins, and of the keys of those with shards.
    ///
    /// All hosts of a group must have it, or none.
    #[arg(long)]
    pub share: bool,

    /// How long a standby waits after the last renewal that it has seen before it takes over.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "15s")]
    pub leader_elect_lease_duration: Duration,

    /// How long after its last successful renewal a leader goes on.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s")]
    pub leader_elect_renew_deadline: Duration,

    /// The time between two attempts to acquire or to renew.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2s")]
    pub leader_elect_retry_period: Duration,

    /// The name of the Lease. Hosts with the same name in the same namespace compete.
    #[arg(long, value_name = "NAME", value_parser = lease_name, default_value = "pilothouse")]
    pub leader_elect_resource_name: String,

    /// The namespace of the Lease [default: $POD_NAMESPACE, the pod's, or that of the kubeconfig's
    /// context].
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace)]
    pub leader_elect_resource_namespace: Option<String>,
}

impl ElectionArgs {
    /// The times of the election; an error if two hosts could lead at once with them.
    pub fn settings(&self) -> anyhow::Result<ElectionSettings> {
        let settings = ElectionSettings {
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
        };
        if self.share && !self.leader_elect {
            anyhow::bail!("--share needs the Leases that --leader-elect=false switches off");
        }
        settings.check().context(
            "--leader-elect-lease-duration, --leader-elect-renew-deadline, --leader-elect-retry-period",
        )?;
        Ok(settings)
    }
}

fn lease_name(text: &str) -> Result<String, String> {
    let is_name = text.len() <= 253 && text.split('.').all(is_dns_label);
    let name = is_name.then(|| text.to_owned());
    name.ok_or_else(|| {
        format!("{text:?} is not a Lease's name; write lower-case letters, digits, '-' and '.'")
    })
}

fn namespace(text: &str) -> Result<String, String> {
    let name = is_dns_label(text).then(|| text.to_owned());
    name.ok_or_else(|| {
        format!("{text:?} is not a namespace; write lower-case letters, digits and '-'")
    })
}
