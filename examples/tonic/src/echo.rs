//! `example.Echo/Echo`: what `tonic-build` would generate for one unary method whose message is plain bytes.

use bytes::{Buf, BufMut, Bytes};
use std::{
    convert::Infallible,
    future::{Ready, ready},
    pin::Pin,
    task::{Context, Poll},
};
use tonic::{
    Request, Response, Status,
    body::Body,
    client::{Grpc, GrpcService},
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::StdError,
    server::{self, NamedService, UnaryService},
};
use tower::Service;

/// The server.
#[derive(Clone, Default)]
pub(crate) struct EchoServer;

impl NamedService for EchoServer {
    const NAME: &'static str = "example.Echo";
}

impl Service<http::Request<Body>> for EchoServer {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move { Ok(server::Grpc::new(BytesCodec).unary(SendBack, request).await) })
    }
}

struct SendBack;

impl UnaryService<Bytes> for SendBack {
    type Response = Bytes;
    type Future = Ready<Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}

/// The client, over any transport.
pub(crate) struct EchoClient<T>(Grpc<T>);

/// What a client asks of its transport.
pub(crate) trait Transport:
    GrpcService<Body, Error: Into<StdError>, ResponseBody: AnswerBody>
{
}

impl<T: GrpcService<Body, Error: Into<StdError>, ResponseBody: AnswerBody>> Transport for T {}

/// What tonic decodes an answer from.
pub(crate) trait AnswerBody:
    http_body::Body<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static
{
}

impl<B: http_body::Body<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static> AnswerBody for B {}

impl<T: Transport> EchoClient<T> {
    pub(crate) fn new(transport: T) -> Self {
        Self(Grpc::new(transport))
    }

    /// Sends a text and returns what came back.
    pub(crate) async fn echo(&mut self, text: &str) -> Result<String, Status> {
        self.0
            .ready()
            .await
            .map_err(|error| Status::unavailable(error.into().to_string()))?;
        let path = http::uri::PathAndQuery::from_static("/example.Echo/Echo");
        let request = Request::new(Bytes::copy_from_slice(text.as_bytes()));
        let answer = self.0.unary(request, path, BytesCodec).await?.into_inner();
        String::from_utf8(answer.to_vec()).map_err(|error| Status::internal(error.to_string()))
    }
}

/// Bytes as they are.
#[derive(Clone, Copy, Default)]
struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
