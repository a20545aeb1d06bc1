//! Dates in headers, as seconds since 1970.

/// An HTTP date: `Sun, 06 Nov 1994 08:49:37 GMT`, the one form that is still sent.
pub(super) fn http_date(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (_, date) = text.split_once(", ")?;
    let mut fields = date.split(' ');
    let day = fields.next()?.parse().ok()?;
    let name = fields.next()?;
    let month = MONTHS.iter().position(|month| *month == name)? + 1;
    let year = fields.next()?.parse().ok()?;
    let time = fields.next()?;
    if fields.next() != Some("GMT") || fields.next().is_some() {
        return None;
    }
    seconds(year, month as i64, day, time_of_day(time)?)
}

/// RFC 3339: `2025-06-23T10:26:53Z`, fractions dropped, offsets counted.
pub(super) fn rfc3339(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let mut fields = date.split('-');
    let year = fields.next()?.parse().ok()?;
    let month = fields.next()?.parse().ok()?;
    let day = fields.next()?.parse().ok()?;
    if fields.next().is_some() {
        return None;
    }
    let (time, offset) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => return None,
    };
    let time = time.split_once('.').map_or(time, |(whole, _)| whole);
    Some(seconds(year, month, day, time_of_day(time)?)? - offset_seconds(offset)?)
}

fn offset_seconds(offset: &str) -> Option<i64> {
    if matches!(offset, "Z" | "z") {
        return Some(0);
    }
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let (hours, minutes) = (in_range(hours, 0..24)?, in_range(minutes, 0..60)?);
    Some(sign * (hours * 3600 + minutes * 60))
}

fn time_of_day(text: &str) -> Option<i64> {
    let mut fields = text.split(':');
    let hours = in_range(fields.next()?, 0..24)?;
    let minutes = in_range(fields.next()?, 0..60)?;
    // A leap second.
    let seconds = in_range(fields.next()?, 0..61)?;
    fields
        .next()
        .is_none()
        .then_some(hours * 3600 + minutes * 60 + seconds)
}

fn in_range(digits: &str, range: std::ops::Range<i64>) -> Option<i64> {
    let number = digits.parse().ok()?;
    range.contains(&number).then_some(number)
}

/// Days from the civil date (years start in March, so that the leap day is the last), by Howard Hinnant's formula.
fn seconds(year: i64, month: i64, day: i64, time: i64) -> Option<i64> {
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some((era * 146_097 + day_of_era - 719_468) * 86_400 + time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_name_the_same_second() {
        assert_eq!(http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(http_date("Thu, 29 Feb 2024 23:59:59 GMT"), Some(1_709_251_199));
        assert_eq!(rfc3339("1994-11-06T08:49:37Z"), Some(784_111_777));
        assert_eq!(rfc3339("1994-11-06T10:49:37.250+02:00"), Some(784_111_777));
        assert_eq!(rfc3339("1994-11-06T03:19:37-05:30"), Some(784_111_777));
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "soon",
            "Sun, 06 Nov 1994",
            "Sun, 99 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 CET",
        ] {
            assert_eq!(http_date(text), None, "{text}");
        }
        for text in [
            "",
            "T",
            "1994-11-06",
            "1994-11-06T08:49:37",
            "1994-13-06T08:49:37Z",
            "1994-11-06T08:49:37+é",
        ] {
            assert_eq!(rfc3339(text), None, "{text}");
        }
    }
}
