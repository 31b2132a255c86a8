"""The page of drift holds what was found, and nothing that could run."""

from tanager import BayesNetClassifier
from tanager.report import write_drift


def test_names_from_tables_cannot_run(tmp_path):
    bad = "<script>alert(1)</script>"
    X = {"<img src=x onerror=y>": [bad, "b"] * 30}
    clf = BayesNetClassifier("naive", "laplace").fit(X, [0, 1] * 30)
    name = next(iter(X))
    write_drift(clf.drift({name: ["b"] * 50}), tmp_path / "p.html", title=bad)
    page = (tmp_path / "p.html").read_text()
    assert "<script" not in page
    assert "<img" not in page
    assert "default-src 'none'" in page
    assert "&lt;script&gt;" in page


def test_a_quiet_page_says_so(tmp_path):
    clf = BayesNetClassifier("naive", "laplace").fit([["a"], ["b"]] * 30, [0, 1] * 30)
    write_drift(clf.drift([["a"], ["b"]] * 20, [0, 1] * 20), tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text()
    assert "no drift found" in page
    assert page.count("<svg") == 1
