//! Checks whether a version that could run is also trusted. It is not if the settings name another
//! file, or if it asks for more than was accepted.

use pilothouse_core::{Granted, Wants};
use tracing::{info, warn};

use super::{Entrance, Installer, Operator};
use crate::plugins::loading::LoadedVersion;
use crate::plugins::plugin_file::PluginFile;
use crate::settings::{HostDefaults, SettingsFile};
use crate::trust::{self, Asked, Objection, Verdict};

impl Installer {
    /// Returns whether a version may run. A new version with an objection has to wait. A running
    /// version goes on in any case; it is only logged if the settings name other digests.
    pub(super) fn is_trusted(
        &self,
        file: &str,
        slot: &mut PluginFile,
        version: &LoadedVersion,
        entrance: Entrance,
        settings: &SettingsFile,
        host: &HostDefaults,
    ) -> bool {
        if entrance == Entrance::Again {
            let reason = trust::unpinned(settings, file, &version.digest);
            if slot.pinned(reason.clone()) {
                let plugin = slot.name();
                warn!(plugin, file, reason, "keeping the running version");
            }
        }
        let objection = match entrance {
            Entrance::New => self.objection(file, version, settings, host),
            // `bars_return` has checked a version that is rolled back to.
            Entrance::Again | Entrance::Back => None,
        };
        let Some(objection) = objection else {
            return true;
        };
        slot.not_accepted = objection.more().to_vec();
        self.wait(file, slot, version, &objection.to_string());
        false
    }

    /// The objection to a version, if there is one.
    fn objection(
        &self,
        file: &str,
        version: &LoadedVersion,
        settings: &SettingsFile,
        host: &HostDefaults,
    ) -> Option<Objection> {
        let name = settings.name_of(&version.manifest);
        trust::objection(settings, host, &self.accepted, asked(file, &name, version))
    }

    /// Why the running version is not given all that it asks for, although new settings would do so
    /// and the earlier ones did not.
    pub(super) fn widened(
        &self,
        file: &str,
        slot: &mut PluginFile,
        version: &LoadedVersion,
        settings: &SettingsFile,
        host: &HostDefaults,
    ) -> Option<String> {
        let running = slot.running.as_ref()?;
        let name = settings.name_of(&version.manifest);
        let is_given = running.settings.grants.what == Granted::AsRequested;
        let is_as_before = is_given && running.name() == name;
        let is_pinned = trust::is_pinned(settings, &version.digest);
        if !trust::is_by_acceptance(settings, host) || is_as_before || is_pinned {
            return None;
        }
        let asked = asked(file, &name, version);
        let objection = trust::not_accepted(&self.accepted, asked)?;
        slot.not_accepted = objection.more().to_vec();
        Some(objection.to_string())
    }

    /// Why the previous version may not come back, if so.
    pub fn bars_return(
        &self,
        file: &str,
        slot: &PluginFile,
        operator: Option<Operator<'_>>,
    ) -> Option<String> {
        let operator = operator?;
        let settings = slot.settings.or(operator.defaults);
        let objection = self.objection(file, slot.previous.as_ref()?, &settings, operator.host)?;
        Some(objection.to_string())
    }

    /// Accepts what a version asks for: that of the candidate if it waits for this, or else that of
    /// the running version. If a digest is given, only a version with that digest. Returns which
    /// version was accepted, or why there is nothing to accept.
    pub fn accept(
        &mut self,
        file: &str,
        slot: &PluginFile,
        operator: Option<Operator<'_>>,
        digest: Option<&str>,
    ) -> Result<String, String> {
        let nothing = || "nothing of it waits to be accepted".to_owned();
        let operator = operator.ok_or_else(nothing)?;
        let settings = slot.settings.or(operator.defaults);
        let running = slot.running.as_ref().map(|running| &running.version);
        let mut versions = slot.candidate.iter().chain(running);
        let objected = versions.find_map(|version| {
            let objection = self.objection(file, version, &settings, operator.host)?;
            Some((version, objection))
        });
        let (version, more) = match objected {
            None => return Err(nothing()),
            Some((_, Objection::Unpinned(reason))) => return Err(reason),
            Some((version, Objection::NotAccepted { more, .. })) => (version, more),
        };
        if digest.is_some_and(|digest| digest != &*version.digest) {
            let found = &version.digest;
            return Err(format!(
                "what waits is another file, with the digest {found}; look at it first (pilothouse check)"
            ));
        }
        let name = settings.name_of(&version.manifest);
        let asked = asked(file, &name, version);
        self.accepted.accept(asked, &Wants::of(&version.manifest));
        let (digest, more) = (&*version.digest, more.join(", "));
        let version = &version.manifest.version;
        info!(
            plugin = name,
            version, file, digest, more, "accepted by command"
        );
        Ok(format!("version {version} ({digest}) is accepted"))
    }

    /// Records what a version asks for that has been installed. Later versions are compared with
    /// it.
    pub(super) fn remember(
        &mut self,
        file: &str,
        name: &str,
        version: &LoadedVersion,
        is_pinned: bool,
    ) {
        let (asked, wants) = (asked(file, name, version), Wants::of(&version.manifest));
        match self.accepted.judge(asked, &wants) {
            Verdict::First => info!(
                plugin = name,
                version = version.manifest.version,
                file,
                digest = &*version.digest,
                "accepted what the plugin asks for, as the first of its name (pilothouse check shows it); a version that asks for more will wait"
            ),
            Verdict::Accepted => {}
            // The operator has named this file. It stays accepted when its digest is taken out of
            // the settings.
            Verdict::More(_) | Verdict::Unreadable(_) if is_pinned => {}
            Verdict::More(_) | Verdict::Unreadable(_) => return,
        }
        self.accepted.accept(asked, &wants);
    }
}

fn asked<'a>(file: &'a str, name: &'a str, version: &'a LoadedVersion) -> Asked<'a> {
    Asked {
        file,
        name,
        digest: &version.digest,
        manifest: &version.manifest,
    }
}
