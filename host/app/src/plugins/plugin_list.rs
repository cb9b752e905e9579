//! The list of plugins: what is known of every file of the plugin directory, for status and
//! commands.

use parking_lot::Mutex;
use pilothouse_core::PluginEntry;

/// All files of the plugin directory in the order of their names, then the draining plugins. A
/// draining plugin's file may already be listed again.
#[derive(Default)]
pub struct PluginList(Mutex<Vec<PluginEntry>>);

impl PluginList {
    pub fn entries(&self) -> Vec<PluginEntry> {
        self.0.lock().clone()
    }

    pub fn set(&self, entries: Vec<PluginEntry>) {
        *self.0.lock() = entries;
    }
}
