//! Which shape of error the caller's client reads.

use crate::Dialect;
use http::{header::CONTENT_TYPE, request::Parts};

/// The shape of a refusal. As a request extension it is obeyed; absent, it is told from the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalFormat {
    /// `{"error":{"message","type","param","code"}}`
    OpenAi,
    /// `{"type":"error","error":{"type","message","details":{"error_code"}}}`
    Anthropic,
    /// Trailers-only, with the code also in `ai-error-code`.
    Grpc,
    /// RFC 9457 `application/problem+json`, with the code as member `error`.
    Problem,
}

impl RefusalFormat {
    /// The shape for this request: its own extension, else a gRPC content type, else what tells an Anthropic client
    /// (header `anthropic-version`, or a path that ends in `/messages`), else a path under `/v1/` for OpenAI clients,
    /// else problem+json.
    pub fn of(parts: &Parts) -> Self {
        if let Some(format) = parts.extensions.get::<Self>() {
            return *format;
        }
        let path = parts.uri.path();
        let content_type = parts
            .headers
            .get(CONTENT_TYPE)
            .map_or(&b""[..], |value| value.as_bytes());
        if content_type.starts_with(b"application/grpc") {
            Self::Grpc
        } else if parts.headers.contains_key("anthropic-version") || path.ends_with("/messages") {
            Self::Anthropic
        } else if path.starts_with("/v1/") {
            Self::OpenAi
        } else {
            Self::Problem
        }
    }

    /// The dialect whose clients read this shape.
    pub const fn dialect(self) -> Option<Dialect> {
        match self {
            Self::OpenAi => Some(Dialect::OpenAi),
            Self::Anthropic => Some(Dialect::Anthropic),
            Self::Grpc | Self::Problem => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn of(path: &str, header: (&str, &str)) -> RefusalFormat {
        let request = Request::post(path).header(header.0, header.1).body(()).unwrap();
        RefusalFormat::of(&request.into_parts().0)
    }

    #[test]
    fn the_shape_follows_the_request() {
        let json = ("content-type", "application/json");
        assert_eq!(of("/v1/chat/completions", json), RefusalFormat::OpenAi);
        assert_eq!(of("/v1/messages", json), RefusalFormat::Anthropic);
        assert_eq!(
            of("/v1/models", ("anthropic-version", "2023-06-01")),
            RefusalFormat::Anthropic
        );
        assert_eq!(of("/api/ai/summarize", json), RefusalFormat::Problem);
        assert_eq!(
            of("/v1/a.B/Call", ("content-type", "application/grpc+proto")),
            RefusalFormat::Grpc
        );
    }

    #[test]
    fn an_extension_overrides_it() {
        let mut request = Request::post("/v1/messages").body(()).unwrap();
        request.extensions_mut().insert(RefusalFormat::Problem);
        assert_eq!(RefusalFormat::of(&request.into_parts().0), RefusalFormat::Problem);
    }
}
