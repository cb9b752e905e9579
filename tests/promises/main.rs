//! What the README promises: a module for each promise, held against the real binary, real guests
//! and a real API server.

mod actions;
mod bad_input;
mod cluster;
mod commands;
mod compile;
mod confirm;
mod contained;
mod contract;
mod daemonset;
mod drift;
mod endpoints;
mod events_aside;
mod guests;
mod hostile;
mod informers;
mod kinds;
mod languages;
mod links;
mod many;
mod metrics;
mod optional;
mod own_project;
mod patterns;
mod plugin_cases;
mod plugins;
mod pure;
mod purge;
mod remember;
mod schema;
mod selectors;
mod sharing;
mod stages;
mod stranger;
