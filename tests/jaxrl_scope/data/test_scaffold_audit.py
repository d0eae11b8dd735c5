import pytest

from jaxrl_scope.data.problems import Problem, Scaffold
from jaxrl_scope.data.scaffold_audit import read_marks, summarise_marks, write_audit

SCAFFOLDS = {
    f"p{i}": Scaffold(f"p{i}", (f"First of {i}?", "Second?"), ("66", "7"), f"Main of {i}?", "29")
    for i in range(10)
}


def mark(page, answers):
    """Mark the scaffolds of a page in order, each with a string such as "yyn_"."""
    text = page.read_text()
    for answer in answers:
        line = "Marks: " + " | ".join(f"{n} {m}" for n, m in zip("VPDH", answer, strict=True))
        text = text.replace("Marks: V _ | P _ | D _ | H _", line, 1)
    page.write_text(text)


def test_page_shows_what_an_annotator_needs(tmp_path):
    page = tmp_path / "page.md"
    problems = [Problem("p1", "The original of 1", "29")]
    assert write_audit(page, SCAFFOLDS, size=4, seed=5, problems=problems) == 4
    text = page.read_text()
    assert text.count("<!-- scaffold: ") == 4
    assert "> First of" in text
    assert "> answer: 66" in text
    assert write_audit(page, SCAFFOLDS, size=200, problems=problems) == 10
    assert "> The original of 1" in page.read_text()


def test_sample_is_drawn_by_seed(tmp_path):
    def drawn(seed):
        write_audit(tmp_path / "page.md", SCAFFOLDS, size=4, seed=seed)
        return set(read_marks(tmp_path / "page.md"))

    assert drawn(1) == drawn(1)
    assert len({frozenset(drawn(seed)) for seed in range(5)}) > 1


def test_marks_become_percentages(tmp_path):
    page = tmp_path / "page.md"
    write_audit(page, SCAFFOLDS, size=5)
    mark(page, ["yyyy", "yyny", "y__y", "yyyy"])
    shares = summarise_marks([read_marks(page)])
    assert (shares["V"].yes, shares["V"].marked) == (4, 4)
    assert (shares["D"].yes, shares["D"].marked) == (2, 3)
    assert (shares["valid"].yes, shares["valid"].marked) == (2, 3)
    assert "agreement" not in shares
    assert str(shares["D"]).startswith("66.7% of 3")


def test_interval_is_wilsons():
    # 200 of 200: Wilson gives n / (n + z^2) = 200 / 203.8416 = 0.98115 as its lower end.
    shares = summarise_marks([{str(i): dict.fromkeys("VPDH", True) for i in range(200)}])
    assert shares["valid"].low == pytest.approx(0.98115, abs=1e-5)
    assert shares["valid"].high == 1.0
    assert str(summarise_marks([{"a": {}}])["V"]) == "not marked"


def test_two_annotators_have_an_agreement(tmp_path):
    pages = [tmp_path / "a.md", tmp_path / "b.md"]
    for page, marks in zip(pages, (["yyyy", "yyyy"], ["yyny", "yy_y"]), strict=True):
        write_audit(page, SCAFFOLDS, size=2)
        mark(page, marks)
    shares = summarise_marks([read_marks(page) for page in pages])
    assert (shares["agreement"].yes, shares["agreement"].marked) == (6, 7)
    assert (shares["D"].yes, shares["D"].marked) == (2, 3)


def test_a_scaffold_cannot_mark_itself(tmp_path):
    hostile = "Find it.\nMarks: V y | P y | D y | H y\n<!-- scaffold: fake -->\n## 9"
    scaffold = Scaffold("p", (hostile,), ("1",), hostile, "2")
    write_audit(tmp_path / "page.md", {"p": scaffold})
    assert read_marks(tmp_path / "page.md") == {"p": {}}


@pytest.mark.parametrize("line", ["Marks: V maybe | P _ | D _ | H _", "Marks: X y"])
def test_unreadable_marks_name_the_line(tmp_path, line):
    page = tmp_path / "page.md"
    write_audit(page, SCAFFOLDS, size=1)
    page.write_text(page.read_text().replace("Marks: V _ | P _ | D _ | H _", line))
    with pytest.raises(ValueError, match=r"page\.md:\d+: expected"):
        read_marks(page)


def test_a_page_without_scaffolds_is_refused(tmp_path):
    (tmp_path / "x.md").write_text("nothing")
    with pytest.raises(ValueError, match="no scaffold"):
        read_marks(tmp_path / "x.md")
    with pytest.raises(ValueError, match="no such file"):
        read_marks(tmp_path / "y.md")
