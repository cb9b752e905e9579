//! glibc's allocator, told to keep less memory that nobody uses. Other C libraries are left as they
//! are.

/// Lets glibc have one arena for each core, where its default is eight. What one thread frees stays
/// with its arena, so that each further plugin, which is loaded by whatever thread is free, would
/// take more than it needs. `MALLOC_ARENA_MAX` and `GLIBC_TUNABLES` in the environment take
/// precedence. Call this before the first thread starts: an arena that exists is kept.
pub fn limit_arenas() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let is_tuned = ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"]
            .iter()
            .any(|name| std::env::var_os(name).is_some());
        if !is_tuned {
            set_arenas(std::thread::available_parallelism().map_or(1, usize::from));
        }
    }
}

/// Gives back to the system what is free. glibc keeps what lies between pieces that are in use,
/// such as a cache that has been replaced by a smaller one. Takes some milliseconds, longer if much
/// is free.
#[allow(unsafe_code, reason = "a call of C that has no safe wrapper")]
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim takes an integer, and may be called at any time on any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "a call of C that has no safe wrapper")]
fn set_arenas(count: usize) {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    // SAFETY: mallopt takes two integers, may be called at any time, and ignores a value that it
    // cannot use.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, count) };
}
