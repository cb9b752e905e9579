//! What the host does when the API server, or the way to it, fails: a module for each kind of
//! fault.

mod kinds;
mod lists;
mod proxy;
mod random;
mod requests;
mod rest;
mod server;
mod watch;
mod watch_events;
