//! What a chunk has, found without opening it.
//!
//! Within strings quotes are escaped, so a quoted name that is found is a key or a whole string; only a key has a colon
//! behind it. A key spelt with escapes is missed, which no provider writes.

use crate::json::Value;
use memchr::memmem::Finder;

/// What a member is, at whatever depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Not there.
    Absent,
    /// There, and null wherever it is.
    Null,
    /// There, with a value.
    Value,
}

/// Looks for a member by its quoted name.
pub(super) fn look(data: &str, quoted_name: &Finder<'_>) -> Look {
    let mut found = Look::Absent;
    for value in sources_of(data, quoted_name) {
        if !value.starts_with("null") {
            return Look::Value;
        }
        found = Look::Null;
    }
    found
}

/// The values of the members with this quoted name.
pub(super) fn values_of<'a>(data: &'a str, quoted_name: &Finder<'_>) -> impl Iterator<Item = Value<'a>> {
    sources_of(data, quoted_name).filter_map(Value::at_start_of)
}

/// What follows the colon behind each key of this quoted name.
fn sources_of<'a>(data: &'a str, quoted_name: &Finder<'_>) -> impl Iterator<Item = &'a str> {
    let len = quoted_name.needle().len();
    let keys = quoted_name.find_iter(data.as_bytes());
    keys.filter_map(move |at| {
        let behind = data[at + len..].trim_ascii_start();
        behind.strip_prefix(':').map(str::trim_ascii_start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_for_usage(data: &str) -> Look {
        look(data, &Finder::new("\"usage\""))
    }

    #[test]
    fn members_are_found_whatever_the_spacing() {
        assert_eq!(look_for_usage(r#"{"usage":{}}"#), Look::Value);
        assert_eq!(look_for_usage(r#"{"a":[{"usage" : 1}]}"#), Look::Value);
        assert_eq!(look_for_usage(r#"{"usage": null}"#), Look::Null);
        assert_eq!(look_for_usage(r#"{"usage":null,"a":{"usage":0}}"#), Look::Value);
        assert_eq!(look_for_usage("{}"), Look::Absent);
    }

    #[test]
    fn text_is_no_member() {
        assert_eq!(look_for_usage(r#"{"content":"usage"}"#), Look::Absent);
        assert_eq!(look_for_usage(r#"{"content":"{\"usage\":{}}"}"#), Look::Absent);
    }
}
