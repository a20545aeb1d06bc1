"""What both clients share: no real waiting, every request counted, one JSON document as the result."""

import json
import sys
import time

sleeps = []  # what the SDK would have waited between its attempts
time.sleep = sleeps.append
requests = []  # one entry for each request that really went out


def http_client(sdk):
    hooks = {"request": [lambda request: requests.append(request.url.path)]}
    return sdk.DefaultHttpxClient(event_hooks=hooks)


def report(call):
    """Runs `call(out)`, which notes what it sees in `out`, and prints that with the exception it ended in, if any."""
    out = {"error": None}
    try:
        call(out)
    except Exception as error:  # whatever an application would get to see
        out["error"] = {
            "class": type(error).__name__,
            "bases": [base.__name__ for base in type(error).__mro__],
            "status": getattr(error, "status_code", None),
            "code": getattr(error, "code", None),
            "type": getattr(error, "type", None),
            "request_id": getattr(error, "request_id", None),
            "body": getattr(error, "body", None),
            "message": str(error),
        }
    out["requests"] = len(requests)
    out["sleeps"] = sleeps
    json.dump(out, sys.stdout, default=str)
