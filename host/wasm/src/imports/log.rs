//! The import `log`: the plugin's own log lines.

use wasmtime::component::LinkerInstance;

use super::fuel;
use crate::bindings::log::Level;
use crate::log;
use crate::run::state::StoreState;

type Line = (Level, String, Vec<(String, String)>);

/// Defines the function by hand, because generated bindings have no access to the fuel.
pub(super) fn define(instance: &mut LinkerInstance<'_, StoreState>) -> wasmtime::Result<()> {
    fuel::define(instance, "log", |mut cx, (level, message, fields): Line| {
        let bytes = fields.iter().map(|(name, value)| name.len() + value.len());
        fuel::take(&mut cx, message.len() + bytes.sum::<usize>())?;
        let level = match level {
            Level::Debug => log::Level::Debug,
            Level::Info => log::Level::Info,
            Level::Warn => log::Level::Warn,
            Level::Error => log::Level::Error,
        };
        let state = cx.data_mut();
        state.last_words.logged(level, &fields);
        state.log.line(level, &message, &fields);
        Ok(())
    })
}
