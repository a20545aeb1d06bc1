//! How an answer's body is cut into events.

use http::{
    HeaderMap,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};

/// How an answer's body is cut into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Framing {
    /// `text/event-stream`.
    Sse,
    /// One JSON document.
    Json,
}

impl Framing {
    /// By the content type; `None` when it is neither, or when the body has a content encoding (it cannot be read).
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let plain = headers
            .get_all(CONTENT_ENCODING)
            .iter()
            .all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity"));
        if !plain {
            return None;
        }
        let content_type = headers.get(CONTENT_TYPE)?.to_str().ok()?;
        let essence = content_type.split(';').next()?.trim().to_ascii_lowercase();
        match essence.as_str() {
            "text/event-stream" => Some(Self::Sse),
            "application/json" => Some(Self::Json),
            other if other.ends_with("+json") => Some(Self::Json),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn of(headers: &[(http::HeaderName, &'static str)]) -> Option<Framing> {
        let map = headers
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
        Framing::of(&map.collect())
    }

    #[test]
    fn the_content_type_decides() {
        assert_eq!(
            of(&[(CONTENT_TYPE, "text/event-stream; charset=utf-8")]),
            Some(Framing::Sse)
        );
        assert_eq!(of(&[(CONTENT_TYPE, "Application/JSON")]), Some(Framing::Json));
        assert_eq!(
            of(&[(CONTENT_TYPE, "application/problem+json")]),
            Some(Framing::Json)
        );
        assert_eq!(of(&[(CONTENT_TYPE, "text/html")]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn an_encoded_body_cannot_be_read() {
        let json = (CONTENT_TYPE, "application/json");
        assert_eq!(of(&[json.clone(), (CONTENT_ENCODING, "gzip")]), None);
        assert_eq!(of(&[json, (CONTENT_ENCODING, "identity")]), Some(Framing::Json));
    }
}
