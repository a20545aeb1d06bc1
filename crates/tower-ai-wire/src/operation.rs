//! Which operation of a provider a request is.

use http::Method;
use tower_ai_core::Operation;

/// The operation of a request, told by its method and the end of its path; `None` for every other call.
///
/// Any base may precede the operation's own path (`/v1`, `/openai/deployments/x`, none), as with the SDKs' `base_url`.
pub fn operation(method: &Method, path: &str) -> Option<Operation> {
    let known = [Operation::ChatCompletions, Operation::Messages];
    known
        .into_iter()
        .find(|operation| method == Method::POST && path.ends_with(operation.path()))
}
