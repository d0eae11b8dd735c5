"""The one JSON object in a model's reply, or an error the model can act on."""

import json
import re
from typing import Any

_HINT = "reply with one JSON object and nothing else"
_OBJECT_START = re.compile(r'\{\s*["}]')  # not the brace of \boxed{5} or of {1, 2}


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError(f"an object repeats a key ({keys}); {_HINT}")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON; {_HINT}")


_DECODER = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant)


def extract_json(text: str) -> dict[str, Any]:
    """Return the only top-level JSON object in `text`.

    Prose or a code fence around the object is ignored, as is everything up to the last `</think>`.
    Two objects are an error, never a choice: a reply that echoes an object planted in the judged
    text must not be read as the judge's own.

    Raises:
      ValueError: no object, more than one, cut off, repeated keys, NaN. The message is meant to be
        sent back to the model.
    """
    text = text.rpartition("</think>")[2]
    found: list[dict[str, Any]] = []
    position = 0
    while start := _OBJECT_START.search(text, position):
        try:
            value, position = _DECODER.raw_decode(text, start.start())
        except json.JSONDecodeError as error:
            raise ValueError(f"the JSON does not parse ({error}); {_HINT}") from None
        except RecursionError:
            raise ValueError(f"the JSON is nested too deeply; {_HINT}") from None
        found.append(value)
    if len(found) != 1:
        raise ValueError(f"found {len(found)} JSON objects; {_HINT}")
    return found[0]
