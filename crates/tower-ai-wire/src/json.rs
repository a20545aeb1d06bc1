//! JSON seen as spans of its source.
//!
//! Splices need to know where a value stands, duplicate keys must not fail (the last wins, as in most parsers), strings
//! with half a surrogate pair occur in streams, and hostile nesting must not reach the stack. So values stay raw slices
//! that serde_json has checked, and each level is opened only when somebody looks into it: serde_json skips what it does
//! not open in a loop, not by recursion.

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt, ops::Range};

/// This text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A JSON value: its source, checked and without white space around it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'a>(&'a str);

impl<'a> Value<'a> {
    /// The value that `text` is, white space around it aside.
    pub(crate) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<&RawValue>(text).map(|raw| Self(raw.get()))
    }

    /// The value that `text` starts with, whatever follows it.
    pub(crate) fn at_start_of(text: &'a str) -> Option<Self> {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
        values.next()?.ok().map(|raw| Self(raw.get()))
    }

    /// The source.
    pub(crate) fn raw(self) -> &'a str {
        self.0
    }

    pub(crate) fn is_null(self) -> bool {
        self.0 == "null"
    }

    pub(crate) fn is_string(self) -> bool {
        self.0.starts_with('"')
    }

    pub(crate) fn is_array(self) -> bool {
        self.0.starts_with('[')
    }

    /// An empty string, array or object.
    pub(crate) fn is_empty(self) -> bool {
        let inner = self.0.get(1..self.0.len() - 1).unwrap_or_default();
        matches!(self.0.as_bytes()[0], b'"' | b'[' | b'{') && inner.trim_ascii().is_empty()
    }

    pub(crate) fn bool(self) -> Option<bool> {
        self.0.parse().ok()
    }

    /// A whole number that is not negative; a provider that writes `12.0` means 12.
    pub(crate) fn count(self) -> Option<u64> {
        self.0.parse().ok().or_else(|| {
            let number: f64 = self.number()?;
            // The cast saturates, and sums of counts do too.
            (number.is_finite() && number >= 0.0).then_some(number as u64)
        })
    }

    pub(crate) fn number(self) -> Option<f64> {
        self.0.parse().ok()
    }

    /// The text of a string. Half a surrogate pair leaves the escapes as they are.
    pub(crate) fn string(self) -> Option<Cow<'a, str>> {
        let inner = self.inner()?;
        if !inner.contains('\\') {
            return Some(Cow::Borrowed(inner));
        }
        Some(serde_json::from_str(self.0).map_or(Cow::Borrowed(inner), Cow::Owned))
    }

    /// The text of a string that is not empty.
    pub(crate) fn non_empty(self) -> Option<Cow<'a, str>> {
        self.string().filter(|text| !text.is_empty())
    }

    /// What stands between the quotes of a string, escapes unread.
    pub(crate) fn inner(self) -> Option<&'a str> {
        self.0.strip_prefix('"')?.strip_suffix('"')
    }

    /// Bytes between the quotes of a string, escapes unread; 0 for anything else.
    pub(crate) fn text_len(self) -> u64 {
        self.inner().map_or(0, |inner| inner.len() as u64)
    }

    pub(crate) fn object(self) -> Option<Object<'a>> {
        Object::parse(self.0).ok()
    }

    /// The elements of an array; none for anything else.
    pub(crate) fn elements(self) -> Vec<Value<'a>> {
        if !self.is_array() {
            return Vec::new();
        }
        serde_json::Deserializer::from_str(self.0)
            .deserialize_seq(Elements)
            .unwrap_or_default()
    }
}

/// A member of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    key: Value<'a>,
    pub(crate) value: Value<'a>,
}

impl Member<'_> {
    pub(crate) fn is(&self, name: &str) -> bool {
        // An escaped key is the same key.
        self.key.string().is_some_and(|key| key == name)
    }

    /// From the key's first byte to the value's last, in `source`, which this member was parsed from.
    pub(crate) fn span(&self, source: &str) -> Range<usize> {
        offset(source, self.key.0)..offset(source, self.value.0) + self.value.0.len()
    }

    /// The value's bytes in `source`, which this member was parsed from.
    pub(crate) fn value_span(&self, source: &str) -> Range<usize> {
        let start = offset(source, self.value.0);
        start..start + self.value.0.len()
    }
}

/// Where `part`, a slice of `source`, starts in it.
fn offset(source: &str, part: &str) -> usize {
    part.as_ptr() as usize - source.as_ptr() as usize
}

/// The members of a JSON object in their order, duplicates kept.
#[derive(Debug)]
pub(crate) struct Object<'a>(Vec<Member<'a>>);

impl<'a> Object<'a> {
    /// The object that `text` is; an error for any other value, and for anything after it.
    pub(crate) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        let mut source = serde_json::Deserializer::from_str(text);
        let members = source.deserialize_map(Members)?;
        source.end()?;
        Ok(Self(members))
    }

    pub(crate) fn members(&self) -> &[Member<'a>] {
        &self.0
    }

    /// The value of this name that is not null; of several, the last.
    pub(crate) fn get(&self, name: &str) -> Option<Value<'a>> {
        self.last(name).filter(|value| !value.is_null())
    }

    /// The last value of this name, null or not.
    pub(crate) fn last(&self, name: &str) -> Option<Value<'a>> {
        self.0
            .iter()
            .rev()
            .find(|member| member.is(name))
            .map(|member| member.value)
    }

    pub(crate) fn object(&self, name: &str) -> Option<Object<'a>> {
        self.get(name)?.object()
    }

    pub(crate) fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name)?.non_empty()
    }

    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        self.get(name)?.count()
    }

    pub(crate) fn elements(&self, name: &str) -> Vec<Value<'a>> {
        self.get(name).map(Value::elements).unwrap_or_default()
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<Member<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            members.push(Member {
                key: Value(key.get()),
                value: Value(value.get()),
            });
        }
        Ok(members)
    }
}

struct Elements;

impl<'de> Visitor<'de> for Elements {
    type Value = Vec<Value<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element::<&RawValue>()? {
            elements.push(Value(element.get()));
        }
        Ok(elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_duplicate_keys_the_last_wins() {
        let object = Object::parse(r#"{"a":1, "\u0061" : 2}"#).unwrap();
        assert_eq!(object.count("a"), Some(2));
        assert_eq!(object.members().len(), 2);
    }

    #[test]
    fn spans_name_the_bytes_of_a_member() {
        let source = " {\"a\" : [1, 2] , \"b\":{} } ";
        let object = Object::parse(source).unwrap();
        assert_eq!(&source[object.members()[0].span(source)], "\"a\" : [1, 2]");
        assert_eq!(&source[object.members()[0].value_span(source)], "[1, 2]");
        assert_eq!(&source[object.members()[1].span(source)], "\"b\":{}");
    }

    #[test]
    fn nesting_does_not_reach_the_stack() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(Object::parse(&deep).unwrap().elements("a").len(), 1);
    }

    #[test]
    fn half_a_surrogate_pair_is_no_error() {
        let object = Object::parse(r#"{"a":"\ud83d","b":1}"#).unwrap();
        assert_eq!(object.string("a").unwrap(), r"\ud83d");
        assert_eq!(object.count("b"), Some(1));
    }

    #[test]
    fn what_follows_the_object_is_an_error() {
        assert!(Object::parse("{} {}").is_err());
        assert!(Object::parse("[]").is_err());
        assert!(Object::parse("{} ").is_ok());
    }

    #[test]
    fn counts_are_whole_and_not_negative() {
        let count = |text| Value::parse(text).unwrap().count();
        assert_eq!(count("12"), Some(12));
        assert_eq!(count("12.0"), Some(12));
        assert_eq!(count("-1"), None);
        assert_eq!(count("\"12\""), None);
        assert_eq!(count("1e300"), Some(u64::MAX));
    }
}
