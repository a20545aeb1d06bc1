//! Spans of time in headers and messages.

use super::usable_seconds;
use std::time::Duration;

/// The span that `text` is: `34.4s`, `6m0s`, `1h2m3s`, `644ms`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let (seconds, rest) = leading_span(text.trim())?;
    rest.is_empty().then(|| usable_seconds(seconds)).flatten()
}

/// The span that a message (in lower case) asks to wait: "try again in 9m38.016s", "retry after 26 seconds".
pub(crate) fn in_message(text: &str) -> Option<Duration> {
    const ASKS: [&str; 4] = ["try again in ", "retry after ", "retry in ", "try again after "];
    ASKS.iter()
        .flat_map(|ask| text.match_indices(ask).map(|(at, ask)| &text[at + ask.len()..]))
        .find_map(|behind| usable_seconds(leading_span(behind)?.0))
}

/// Numbers with units, without a gap between them, as far as they go; in seconds.
fn leading_span(text: &str) -> Option<(f64, &str)> {
    let mut rest = text;
    let mut seconds = 0.0;
    while let Some((part, behind)) = leading_part(rest) {
        seconds += part;
        rest = behind;
    }
    (rest.len() < text.len()).then_some((seconds, rest))
}

fn leading_part(text: &str) -> Option<(f64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim_start_matches(' ');
    let len = unit.find(|c: char| !c.is_alphabetic()).unwrap_or(unit.len());
    let unit_seconds = match &unit[..len] {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" | "millisecond" | "milliseconds" => 1e-3,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    };
    Some((number * unit_seconds, &unit[len..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(wait: Option<Duration>) -> Option<u128> {
        wait.map(|wait| wait.as_micros().div_ceil(1000))
    }

    #[test]
    fn spans_are_read_in_every_unit() {
        assert_eq!(millis(duration("34.4s")), Some(34_400));
        assert_eq!(millis(duration("6m0s")), Some(360_000));
        assert_eq!(millis(duration("1h2m3s")), Some(3_723_000));
        assert_eq!(millis(duration("26ms")), Some(26));
        assert_eq!(duration("0s"), None);
        assert_eq!(duration("7"), None);
        assert_eq!(duration("5 apples"), None);
        assert_eq!(duration(".s"), None);
    }

    #[test]
    fn messages_tell_the_wait_in_words() {
        assert_eq!(
            millis(in_message("please try again in 9m38.016s. need more?")),
            Some(578_016)
        );
        assert_eq!(millis(in_message("please retry after 26 seconds.")), Some(26_000));
        assert_eq!(
            millis(in_message("retry after a while, or try again in 644ms")),
            Some(644)
        );
        assert_eq!(millis(in_message("try again in 2 minutes")), Some(120_000));
        assert_eq!(in_message("try again in a few minutes"), None);
        assert_eq!(in_message("try again in "), None);
    }
}
