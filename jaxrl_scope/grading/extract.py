r"""Where the answer stands in a response.

Policy (README, "What counts as correct", points 1 to 3):

* Only text after the last `</think>` is read; a think block left open has no answer.
* The last complete, non-empty `\boxed{}` is the answer. Boxes joined by one list phrase
  ("\boxed{1} and \boxed{2}") are one list. A box still open at the end is no answer at all: the
  response was cut, or never settled.
* A label (`[SUB-2 ANSWER]`, `[MAIN ANSWER]`) beats position; a repeated label takes its last box;
  a missing label never takes the box of another label.

Every scan here is linear in the length of the response.
"""

import dataclasses
import re

MAX_BOX_DEPTH = 200  # boxes inside boxes; nothing real goes beyond two

_THINK = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])\s*")
_BARE = re.compile(r"\\[a-zA-Z]+|-?\d+(?:\.\d+)?|[A-Za-z]")
_BRACES = re.compile(r"\\[{}\\]|[{}]")
_PLACEHOLDER = re.compile(r"(?:\s|\\[a-z]?dots|[.…_?~])*")
_GAP_FILLER = re.compile(r"\s|\$|\\[()\[\],;:! ]|\\q?quad(?![a-z])")
_LIST_GAP = re.compile(r",|;|,?(?:and|or|&)|,?\\(?:text|mbox|textrm)\{,?(?:and|or)\}")
_MAX_GAP = 40
_SUFFIX = re.compile(r"\s*(\\?%|\^\s*\\circ(?![a-zA-Z])|\^\s*\{\s*\\circ\s*\}|°)")
_NAME = r"(?:(SUB)[\s\-_–—#]{0,3}(\d{1,4})|(MAIN))[\s\-_]{0,3}ANSWER[\s*_]{0,4}"
# In brackets anywhere; without them at the start of a line and before a colon.
_LABEL = re.compile(
    rf"\[[\s*_]{{0,4}}{_NAME}(?:\\?\]|:)|^[\s*_#>\-]{{0,8}}{_NAME}:", re.IGNORECASE | re.MULTILINE
)


@dataclasses.dataclass(frozen=True)
class Box:
    """One complete box: `text` is its content, `text[start:end]` of the response spans it."""

    text: str
    start: int
    end: int


def after_think(response: str) -> str | None:
    """Return the part of a response that is graded, or None where a think block is left open."""
    start = 0
    is_open = False
    for tag in _THINK.finditer(response):
        is_open = not tag[1]
        if tag[1]:
            start = tag.end()
    return None if is_open else response[start:]


def find_boxes(text: str) -> list[Box]:
    """Return the outermost complete boxes of a text in order, empty ones left out.

    An open box after the last complete one gives an empty list: such a text has no answer.
    """
    opens = {match.end(): match.start() for match in _BOX.finditer(text)}
    if not opens:
        return []
    boxes: list[Box] = []
    stack: list[int | None] = []  # per open brace: where its box starts, None for other braces
    depth = 0
    for brace in _BRACES.finditer(text, min(opens.values())):
        if brace[0] == "{":
            start = opens.pop(brace.start(), None)
            stack.append(start)
            depth += start is not None
            if depth > MAX_BOX_DEPTH:
                return []
        elif brace[0] == "}" and stack:
            start = stack.pop()
            if start is not None:
                depth -= 1
                while boxes and boxes[-1].start > start:  # those inside this one
                    boxes.pop()
                body = text[start : brace.start()]
                boxes.append(Box(body[body.index("{") + 1 :], start, brace.end()))
    unbraced = [_bare_box(text, end, start) for end, start in opens.items()]
    boxes = sorted([*boxes, *filter(None, unbraced)], key=lambda box: box.start)
    last_open = max((start for start in stack if start is not None), default=-1)
    if boxes and last_open > boxes[-1].start:
        return []
    return [box for box in boxes if not _PLACEHOLDER.fullmatch(box.text)]


def _bare_box(text: str, end: int, start: int) -> Box | None:
    r"""Read `\boxed 2`: the next token is the argument, a numeral as a whole."""
    token = _BARE.match(text, end)
    return Box(token[0], start, token.end()) if token else None


def join_boxes(text: str, boxes: list[Box]) -> str | None:
    """Return the answer that a run of boxes states: the last one, or the list phrase it ends."""
    if not boxes:
        return None
    first = len(boxes) - 1
    while first and _is_list_gap(text[boxes[first - 1].end : boxes[first].start]):
        first -= 1
    suffix = _SUFFIX.match(text, boxes[-1].end)
    return ", ".join(box.text for box in boxes[first:]) + (suffix[1] if suffix else "")


def _is_list_gap(gap: str) -> bool:
    return len(gap) <= _MAX_GAP and bool(_LIST_GAP.fullmatch(_GAP_FILLER.sub("", gap)))


def boxed_answer(text: str) -> str | None:
    """Return the final boxed answer of a text, or None."""
    return join_boxes(text, find_boxes(text))


def canonical_label(label: str) -> str:
    """Fold a label's spelling: "[main answer]", "MAIN" → "MAIN"; "sub_2" → "SUB-2".

    Raises:
      ValueError: it is neither a main nor a sub label.
    """
    match = re.fullmatch(r"\W*(?:(SUB)\W*_?(\d{1,4})|(MAIN))(?:\W*ANSWER)?\W*", label.strip(), re.I)
    if not match:
        raise ValueError(f"unknown answer label {label!r}: expected 'MAIN' or 'SUB-<i>'")
    return "MAIN" if match[3] else f"SUB-{int(match[2])}"


def labelled_answers(text: str) -> dict[str, str | None]:
    """Return the boxed answer under every label of a scaffolded response.

    The last box under a label wins, and the last occurrence that has a box wins. Where "MAIN" is
    never written, an unlabelled box that follows the last label's own box is the main answer.
    """
    boxes = find_boxes(text)
    marks = [
        (match.start(), f"SUB-{int(match[2] or match[5])}" if match[1] or match[4] else "MAIN")
        for match in _LABEL.finditer(text)
    ]
    if not marks:
        return {"MAIN": join_boxes(text, boxes)}
    has_main = any(name == "MAIN" for _, name in marks)
    answers: dict[str, str | None] = {}
    ends = [start for start, _ in marks[1:]] + [len(text)]
    for (start, name), end in zip(marks, ends, strict=True):
        own = [box for box in boxes if start <= box.start < end]
        if end == len(text) and not has_main and len(own) > 1:
            answers["MAIN"] = join_boxes(text, own[1:])
            own = own[:1]
        if own:
            answers[name] = join_boxes(text, own)
    return answers


def final_answer(response: str, label: str | None = None) -> str | None:
    """Return the text of the answer that a response gives, or None where it gives none."""
    text = after_think(response)
    if text is None:
        return None
    if label is None:
        return boxed_answer(text)
    return labelled_answers(text).get(canonical_label(label))


_STATED = re.compile(
    r"(?:answer|result)s?\b[*_\s]*(?:is|are|:|=)[:\s]*(?P<value>[^\n]{1,200})|####\s*(?P<hash>[^\n]{1,200})",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"\.(?=\s|$)|\*\*|;|, (?:which|so|since|because)\b")


def stated_answer(response: str) -> str | None:
    """Return the last unboxed statement ("The answer is 72.", "#### 72"); for evaluation only."""
    text = after_think(response)
    statements = list(_STATED.finditer(text or ""))
    if not statements:
        return None
    value = _SENTENCE_END.split((statements[-1]["value"] or statements[-1]["hash"]).strip(" *"))[0]
    return value.strip() or None
