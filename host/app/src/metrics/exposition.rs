//! The two text formats that a scraper may ask for, and the choice between them.
//!
//! prometheus-client writes OpenMetrics. The older format has the same lines, except for the names
//! of counters, the unit and the end marker.

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The format that Prometheus asks for.
    OpenMetrics,
    /// The format that all other scrapers can read: 0.0.4.
    Classic,
}

impl Format {
    /// OpenMetrics for a scraper that accepts it by name, as Go's promhttp does.
    pub fn accepted(accept: &str) -> Self {
        let accepts_open_metrics = accept.split(',').any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let is_open_metrics = parts
                .next()
                .is_some_and(|name| name.eq_ignore_ascii_case("application/openmetrics-text"));
            let is_refused = parts.any(|part| {
                let quality = part.strip_prefix("q=").map(str::parse::<f32>);
                quality.is_some_and(|quality| quality == Ok(0.0))
            });
            is_open_metrics && !is_refused
        });
        if accepts_open_metrics {
            Self::OpenMetrics
        } else {
            Self::Classic
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Converts OpenMetrics to the older format, in which a counter's family has the name of its
/// samples.
pub fn to_classic(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    // The line with a family's help comes before the one with its type.
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(of) = line.strip_prefix("# HELP ") {
            help = Some(of);
            continue;
        }
        if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.rsplit_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((_, help)) = help.take().and_then(|help| help.split_once(' ')) {
                text += &format!("# HELP {name}{suffix} {help}\n");
            }
            text += &format!("# TYPE {name}{suffix} {kind}\n");
        } else if !line.starts_with("# ") {
            text += line;
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_is_for_whoever_accepts_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        for accept in [prometheus, "text/html, Application/OpenMetrics-Text"] {
            assert_eq!(Format::accepted(accept), Format::OpenMetrics);
        }
        for accept in [
            "",
            "*/*",
            "text/plain",
            "application/json",
            "application/openmetrics-text;q=0, */*",
        ] {
            assert_eq!(Format::accepted(accept), Format::Classic, "{accept}");
        }
    }

    #[test]
    fn the_older_format_names_a_counter_by_its_samples() {
        let open_metrics = "# HELP a_b How many a b.\n# TYPE a_b counter\na_b_total{x=\"# TYPE\"} 1\n# HELP g_seconds G.\n# TYPE g_seconds gauge\n# UNIT g_seconds seconds\ng_seconds 2\n# EOF\n";
        let classic = "# HELP a_b_total How many a b.\n# TYPE a_b_total counter\na_b_total{x=\"# TYPE\"} 1\n# HELP g_seconds G.\n# TYPE g_seconds gauge\ng_seconds 2\n";
        assert_eq!(to_classic(open_metrics), classic);
    }
}
