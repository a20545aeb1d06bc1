"""anthropic_client.py BASE_URL KEY MODEL complete|stream|models [MAX_TOKENS]"""

import sys

from recorded import http_client, report  # first: it takes the place of time.sleep

import anthropic

base_url, key, model, what = sys.argv[1:5]
max_tokens = int(sys.argv[5]) if len(sys.argv) > 5 else 100
client = anthropic.Anthropic(base_url=base_url, api_key=key, timeout=10, http_client=http_client(anthropic))
messages = [{"role": "user", "content": "Say something."}]


def complete(out):
    answer = client.messages.create(model=model, messages=messages, max_tokens=max_tokens)
    out["text"] = answer.content[0].text
    out["model"] = answer.model
    out["output_tokens"] = answer.usage.output_tokens
    out["request_id"] = answer._request_id


def stream(out):
    out["chunks"] = []
    out["text"] = ""
    for event in client.messages.create(model=model, messages=messages, max_tokens=max_tokens, stream=True):
        out["chunks"].append(event.model_dump(exclude_unset=True))
        if event.type == "content_block_delta":
            out["text"] += event.delta.text


calls = {
    "complete": complete,
    "stream": stream,
    "models": lambda out: out.update(models=[model.id for model in client.models.list()]),
}
report(calls[what])
