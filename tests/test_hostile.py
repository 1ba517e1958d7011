"""Adding a folder of good pictures with hundreds of hostile files among them."""

import psutil

from hostile import write_corpus
from test_workers import children


def test_all_good_files_are_added_and_every_bad_one_is_reported(collection, tmp_path):
    folder = tmp_path / "corpus"
    good, bad = write_corpus(folder)
    assert len(bad) >= 200
    before = psutil.Process().memory_info().rss
    report = collection.add(folder, recipes=["color"], workers=2)
    indexed = {path for item in collection.items() for path in item.paths}
    assert indexed == {str(path) for path in good}
    assert set(report.skipped) == {str(path) for path in bad}
    assert all(len(reason) > 4 for reason in report.skipped.values())
    assert psutil.Process().memory_info().rss < before + 1e9
    assert collection.verify() == []
    assert children() == []
