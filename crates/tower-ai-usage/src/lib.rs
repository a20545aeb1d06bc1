//! Tower layers that estimate a model call before it is sent and read its usage from the answer
