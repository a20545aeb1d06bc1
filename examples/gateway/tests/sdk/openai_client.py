"""openai_client.py BASE_URL KEY MODEL complete|stream|stream-with-usage|models [MAX_TOKENS]"""

import sys

from recorded import http_client, report  # first: it takes the place of time.sleep

import openai

base_url, key, model, what = sys.argv[1:5]
bound = {"max_tokens": int(sys.argv[5])} if len(sys.argv) > 5 else {}
client = openai.OpenAI(base_url=f"{base_url}/v1", api_key=key, timeout=10, http_client=http_client(openai))
messages = [{"role": "user", "content": "Say something."}]


def complete(out):
    answer = client.chat.completions.create(model=model, messages=messages, **bound)
    out["text"] = answer.choices[0].message.content
    out["model"] = answer.model
    out["output_tokens"] = answer.usage.completion_tokens
    out["request_id"] = answer._request_id


def stream(out, **options):
    out["chunks"] = []
    out["text"] = ""
    for chunk in client.chat.completions.create(model=model, messages=messages, stream=True, **options, **bound):
        out["chunks"].append(chunk.model_dump(exclude_unset=True))
        out["text"] += "".join(choice.delta.content or "" for choice in chunk.choices)


calls = {
    "complete": complete,
    "stream": stream,
    "stream-with-usage": lambda out: stream(out, stream_options={"include_usage": True}),
    "models": lambda out: out.update(models=[model.id for model in client.models.list()]),
}
report(calls[what])
