//! Reading requests of HTTP/1.1: heads, bodies with a length, chunked bodies.

use super::{log::Entry, plan::Reading};
use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use std::{io, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::sleep,
};

/// The longest head it reads.
const HEAD_BYTES: usize = 1024 * 1024;
/// How much it reads at a time, unless slowly.
const READ_BYTES: usize = 64 * 1024;

/// Reads from `stream` through a buffer that is kept from request to request.
pub(super) struct Reader<'a, S> {
    stream: &'a mut S,
    buffer: &'a mut BytesMut,
    /// How many bytes to read at a time, and how long to wait in between.
    pace: Option<(usize, Duration)>,
}

impl<'a, S: AsyncRead + Unpin> Reader<'a, S> {
    pub(super) fn new(stream: &'a mut S, buffer: &'a mut BytesMut) -> Self {
        Self {
            stream,
            buffer,
            pace: None,
        }
    }

    /// Reads a request as far as told, and notes what it reads.
    pub(super) async fn request(mut self, reading: Reading, entry: &Entry) -> io::Result<()> {
        if reading != Reading::Nothing {
            let headers = self.head(entry).await?;
            match reading {
                Reading::Slowly { bytes, every } => {
                    self.pace = Some((bytes, every));
                    self.body(&headers, entry).await?;
                }
                Reading::Whole => self.body(&headers, entry).await?,
                Reading::Head | Reading::Nothing => {}
            }
        }
        entry.note(|request| request.is_read = true);
        Ok(())
    }

    async fn head(&mut self, entry: &Entry) -> io::Result<HeaderMap> {
        let first = self.line().await?;
        let mut words = first.split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let method: Method = method.parse().map_err(|_| malformed("no method"))?;
        let headers = self.fields().await?;
        entry.note(|request| {
            (request.method, request.path) = (method, path.to_owned());
            request.headers = headers.clone();
        });
        Ok(headers)
    }

    async fn fields(&mut self) -> io::Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                return Ok(headers);
            }
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| malformed("a header has no colon"))?;
            let name: HeaderName = name.parse().map_err(|_| malformed("not a header's name"))?;
            let value = HeaderValue::from_str(value.trim()).map_err(|_| malformed("not a header's value"))?;
            headers.append(name, value);
        }
    }

    /// Reads the body, and notes what came of it also when it breaks off.
    async fn body(&mut self, headers: &HeaderMap, entry: &Entry) -> io::Result<()> {
        let mut read = BytesMut::new();
        let outcome = if headers
            .get(header::TRANSFER_ENCODING)
            .is_some_and(|encoding| encoding == "chunked")
        {
            self.chunks(&mut read, entry).await
        } else {
            let length = headers
                .get(header::CONTENT_LENGTH)
                .and_then(|length| length.to_str().ok()?.parse().ok());
            self.data(length.unwrap_or(0), &mut read, entry).await
        };
        entry.note(|request| request.body = read.freeze());
        outcome
    }

    async fn chunks(&mut self, read: &mut BytesMut, entry: &Entry) -> io::Result<()> {
        loop {
            let size = self.line().await?;
            let size = usize::from_str_radix(&size, 16).map_err(|_| malformed("not a chunk's size"))?;
            if size == 0 {
                self.fields().await?;
                return Ok(());
            }
            self.data(size, read, entry).await?;
            self.line().await?;
        }
    }

    async fn data(&mut self, length: usize, read: &mut BytesMut, entry: &Entry) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            if self.buffer.is_empty() {
                self.fill().await?;
            }
            let most = self.pace.map_or(usize::MAX, |(bytes, _)| bytes);
            let taken = self.buffer.split_to(left.min(self.buffer.len()).min(most));
            left -= taken.len();
            read.extend_from_slice(&taken);
            entry.note(|request| request.body_bytes = read.len());
            if let Some((_, every)) = self.pace {
                sleep(every).await;
            }
        }
        Ok(())
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                let line = self.buffer.split_to(end + 2);
                return String::from_utf8(line[..end].to_vec()).map_err(|_| malformed("a line is not UTF-8"));
            }
            if self.buffer.len() > HEAD_BYTES {
                return Err(malformed("a line is too long"));
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> io::Result<()> {
        self.buffer
            .reserve(self.pace.map_or(READ_BYTES, |(bytes, _)| bytes));
        match self.stream.read_buf(self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
