"""Feedback sessions in a collection: every mark is stored, for several authors and after kills."""

import random
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from damage import change_rows
from lookalike import Collection, Crop, Filter, feedback
from lookalike.errors import DamagedError, InputError
from lookalike.images.demo import draw_folder
from lookalike.store.directory import Store
from lookalike.store.sessions import ExternalExample
from reference.session_log import PlainLog
from waiting import TIMEOUT_S

pytestmark = pytest.mark.usefixtures("read_here")

HERE = Path(__file__).parent
CLICKER = HERE / "clicker.py"


@pytest.fixture
def own(shared, tmp_path):
    """A writable collection of the generated pictures, with a colour space."""
    with Collection(shutil.copytree(shared("color"), tmp_path / "own")) as collection:
        yield collection


def ids_of(collection, kind):
    return sorted(item.id for item in collection.items(Filter(path=f"{kind}/*.jpg")))


def test_warming_up_stores_nothing(own, monkeypatch):
    played = []
    monkeypatch.setattr(
        feedback, "run_round", lambda *args, run=feedback.run_round, **options: played.append(run(*args, **options))
    )
    before = {path: path.stat().st_mtime_ns for path in own.path.rglob("*") if path.is_file()}
    own.warm_up()
    assert len(played[0].best) == len(played[0].questions) == 1
    assert own.sessions() == []
    assert {path: path.stat().st_mtime_ns for path in own.path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("pictures", [0, 1])
def test_warming_up_does_nothing_with_fewer_than_two_pictures(tmp_path, pictures):
    draw_folder(tmp_path / "pictures", pictures) if pictures else (tmp_path / "pictures").mkdir()
    with Collection(tmp_path / "few", create=True) as few:
        few.add(tmp_path / "pictures", recipes=["color"])
        few.warm_up()
        assert few.sessions() == []


# The log


@pytest.fixture
def log(tmp_path):
    store = Store(tmp_path / "store", create=True)
    yield store.judgements.sessions
    store.close()


def test_the_last_mark_that_was_not_undone_counts(log):
    session = log.start("deep", author="anna", name=None, marks={1: "relevant"})
    log.mark(session, {2: "relevant", 3: "irrelevant"}, author="anna")
    log.mark(session, {2: "irrelevant"}, author="anna")
    log.mark(session, {1: "skip"}, author="anna")
    assert log.marks(session) == {3: "irrelevant", 2: "irrelevant", 1: "skip"}
    assert log.undo(session, author="anna") == {1: "skip"}
    assert log.undo(session, author="anna") == {2: "irrelevant"}
    assert log.marks(session) == {1: "relevant", 2: "relevant", 3: "irrelevant"}
    assert log.undo(session, author="anna") == {2: "relevant", 3: "irrelevant"}
    assert log.undo(session, author="anna") == {}  # the initial marks cannot be undone
    assert log.marks(session) == {1: "relevant"}
    log.mark(session, {2: "skip"}, author="anna")
    assert log.marks(session) == {1: "relevant", 2: "skip"}


AUTHORS = st.sampled_from(["anna", "ben"])
ANSWERS = st.dictionaries(
    st.integers(0, 5), st.sampled_from(["relevant", "irrelevant", "skip"]), min_size=1, max_size=3
)
DEEDS = st.one_of(
    st.tuples(st.just("mark"), AUTHORS, ANSWERS),
    st.tuples(st.just("undo"), AUTHORS),
    st.tuples(st.just("show"), AUTHORS, st.lists(st.integers(0, 5), max_size=3, unique=True)),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(ANSWERS, st.lists(DEEDS, max_size=14))
def test_the_log_equals_a_plain_list_of_steps(log, first, deeds):
    session, plain = log.start("deep", author="anna", name=None, marks=first), PlainLog(first)
    for deed, author, *what in deeds:
        if deed == "mark":
            log.mark(session, what[0], author=author)
            plain.mark(author, what[0])
        elif deed == "undo":
            assert log.undo(session, author=author) == plain.undo(author)
        else:
            log.show(session, what[0], author=author)
        assert list(log.marks(session).items()) == list(plain.marks().items())
    summary = log.get(session)
    assert summary.relevant + summary.irrelevant + summary.skipped == len(plain.marks())


def test_the_log_keeps_every_event(log):
    session = log.start("deep", author="anna", name="x", marks={1: "relevant"})
    assert log.show(session, [7, 8, 9], author="anna") == 1
    log.mark(session, {8: "relevant"}, author="anna")
    assert log.show(session, [7], author="anna") == 2
    log.mark(session, {7: "irrelevant", 30: "skip"}, author="ben")
    log.undo(session, author="anna")
    events = log.log(session)
    assert [(e.kind, e.item, e.round, e.position, e.author, e.undone) for e in events] == [
        ("relevant", 1, 0, None, "anna", False),
        ("shown", 7, 1, 0, "anna", False),
        ("shown", 8, 1, 1, "anna", False),
        ("shown", 9, 1, 2, "anna", False),
        ("relevant", 8, 1, 1, "anna", True),
        ("shown", 7, 2, 0, "anna", False),
        ("irrelevant", 7, 2, 0, "ben", False),
        ("skip", 30, 2, None, "ben", False),
        ("undo", 8, 1, 1, "anna", False),
    ]
    assert [e.at for e in events] == sorted(e.at for e in events)
    (summary,) = log.all()
    assert (summary.rounds, summary.relevant, summary.irrelevant, summary.skipped) == (2, 1, 1, 1)


def test_each_author_undoes_only_their_own_marks(log):
    session = log.start("deep", author="anna", name=None, marks={1: "relevant"})
    log.mark(session, {2: "relevant"}, author="anna")
    log.mark(session, {3: "relevant"}, author="ben")
    assert log.undo(session, author="anna") == {2: "relevant"}
    assert log.undo(session, author="anna") == {}
    assert log.marks(session) == {1: "relevant", 3: "relevant"}


def test_sessions_are_independent(log):
    one, other = (log.start("deep", author="anna", name="same", marks={1: "relevant"}) for _ in range(2))
    log.mark(one, {2: "relevant"}, author="anna")
    log.mark(other, {2: "irrelevant"}, author="anna")
    assert (log.marks(one)[2], log.marks(other)[2]) == ("relevant", "irrelevant")
    assert [summary.id for summary in log.all()] == [other, one]
    assert log.undo(one, author="anna") == {2: "relevant"}
    assert log.marks(other)[2] == "irrelevant"


def test_external_examples_are_restored_unchanged(log):
    vectors = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)
    given = [
        ExternalExample(True, vectors[0], "color()", 2**63 - 1, "/größe/\udcff.jpg"),
        ExternalExample(False, vectors[1], None),
    ]
    session = log.start("deep", author="猫", name="größe \udcff", marks={}, external_examples=given)
    for before, after in zip(given, log.external_examples(session), strict=True):
        assert before.vector.tobytes() == after.vector.tobytes()
        assert (before.positive, before.feature, before.item) == (after.positive, after.feature, after.item)
        assert before.origin == after.origin
    assert (log.get(session).name, log.get(session).author) == ("größe \udcff", "猫")


@pytest.mark.parametrize("name", ["", " \n", "x" * 1_001, "\ud800"])
def test_invalid_names_are_rejected(log, name):
    with pytest.raises(InputError, match="ame"):
        log.start("deep", author="anna", name=name, marks={1: "relevant"})
    assert log.all() == []


def test_a_collection_of_the_first_format_accepts_sessions(tmp_path):
    shutil.copytree(HERE / "golden" / "v1", tmp_path / "c")
    store = Store(tmp_path / "c")
    session = store.judgements.sessions.start("small", author="anna", name=None, marks={3: "relevant"})
    assert store.judgements.finish(session, "größe") == 1
    assert store.judgements.labels([3, 2**63 - 1]) == {3: ["cat", "größe"], 2**63 - 1: ["größe"]}
    assert store.verify() == []
    store.close()


def test_golden_judgements_v2(tmp_path):
    shutil.copytree(HERE / "golden" / "v2", tmp_path / "c")
    store = Store(tmp_path / "c")
    log = store.judgements.sessions
    open_, finished = (next(s for s in log.all() if s.state == state) for state in ("open", "finished"))
    assert (finished.name, finished.author, finished.space) == ("größe \udcff", "anna", "small")
    assert log.marks(finished.id) == {3: "relevant", 141: "irrelevant", 2**63 - 1: "relevant"}
    assert log.negatives("größe \udcff") == [141]
    assert log.marks(open_.id) == {2**63 - 1: "skip"}
    (outsider,) = log.external_examples(open_.id)
    assert (outsider.positive, outsider.feature, outsider.item, outsider.origin) == (True, "color()", 7, "/x.jpg")
    assert outsider.vector.tolist() == [0.0, 0.125, 0.25]
    assert [event.kind for event in log.log(open_.id)] == ["shown", "relevant", "undo", "skip"]
    assert log.undo(open_.id, author="ben") == {2**63 - 1: "skip"}  # the file is writable
    assert store.judgements.labels([3]) == {3: ["größe \udcff"]}
    store.close()


# In a collection


def test_a_session_asks_learns_and_remembers(own, pictures):
    fish = ids_of(own, "fish")
    session = own.session(pictures / "fish" / "fish-000.jpg", name="fish", author="anna")
    asked = set()
    for number in (1, 2, 3):
        found = session.round(k=10, window=4)
        assert found.number == number
        assert len(found.best) == 10
        assert all(Path(result.path).is_file() for result in found.best)
        questions = {item.id for item in found.questions}
        assert len(questions) == 4
        assert not questions & (asked | set(session.marks))
        asked |= questions
        session.mark(relevant=questions & set(fish), irrelevant=questions - set(fish))
        assert found.found == 1 + len(asked & set(fish)) - len(questions & set(fish))
    assert [(event.kind, event.position) for event in session.log if event.kind == "shown"] == [
        ("shown", place) for _ in range(3) for place in range(4)
    ]
    assert session.best(k=5) == own.session(id=session.id).best(k=5)
    assert session.summary.rounds == 3  # a ranking is not a round


def test_resuming_repeats_the_questions_of_the_last_round_and_is_not_a_round(own, pictures):
    session = own.session(pictures / "fish" / "fish-000.jpg")
    first = session.resume(k=10, window=4)  # a new session: the first round
    assert (first.number, len(first.questions)) == (1, 4)
    session.mark(irrelevant=first.questions[1].id)
    again = own.session(id=session.id).resume(k=10, window=6)
    assert (again.number, again.questions) == (1, first.questions)
    assert first.questions[1].id not in [result.id for result in again.best]  # the ranking is current
    assert session.summary.rounds == 1
    assert session.resume(filter=Filter(path="*")).questions == first.questions
    house = session.resume(window=2, filter=Filter(path="*/house/*"))  # the old questions do not pass the filter
    assert house.number == 2
    own.remove(*[item.id for item in house.questions[:1]])
    assert session.resume().questions == house.questions[1:]
    own.remove(*[item.id for item in house.questions[1:]])
    assert session.resume().number == 3
    session.finish("fish")
    with pytest.raises(InputError, match="finished"):
        session.resume()


def test_a_session_lists_the_examples_that_it_started_from(own, pictures, tmp_path):
    draw_folder(tmp_path / "more", per_kind=1, random_state=9)
    outside = tmp_path / "more" / "fish" / "fish-000.jpg"
    fish, house = ids_of(own, "fish")[0], ids_of(own, "house")[0]
    session = own.session([fish, outside, own.vectors()[1][3]], without=house)
    session.mark(irrelevant=fish)
    assert [(one.positive, one.name) for one in session.examples] == [
        (True, None), (True, str(outside)), (True, None), (False, None)
    ]  # fmt: skip
    assert [session.examples[place].id for place in (0, 2, 3)] == [fish, None, house]


def test_a_session_starts_from_many_kinds_of_examples(own, pictures, tmp_path):
    draw_folder(tmp_path / "more", per_kind=1, random_state=9)
    outside = tmp_path / "more" / "fish" / "fish-000.jpg"
    inside = ids_of(own, "fish")
    X = own.vectors()[1]
    session = own.session(
        [inside[0], outside, Crop(inside[1], (0.1, 0.1, 0.9, 0.9)), X[3]],
        without=[pictures / "house" / "house-000.jpg", (tmp_path / "more/house/house-000.jpg").read_bytes()],
    )
    assert sorted(session.marks.values()) == ["irrelevant", "relevant"]
    first = session.round(k=6)
    shutil.rmtree(tmp_path / "more")  # a session does not need the files of its examples
    again = own.session(id=session.id)
    assert [result.id for result in again.best(k=6)] == [result.id for result in first.best]
    assert not any("left out" in note for note in again.round().notes)


def test_an_external_example_that_is_added_becomes_a_mark(own, tmp_path):
    draw_folder(tmp_path / "more", per_kind=1, random_state=9)
    outside = tmp_path / "more" / "fish" / "fish-000.jpg"
    session = own.session(outside)
    assert session.round().found == 0
    own.add(outside)
    found = session.round(window=60)
    assert found.found == 1
    assert str(outside) not in [path for item in found.questions for path in item.paths]


def test_an_external_example_survives_a_refit(own, tmp_path):
    draw_folder(tmp_path / "more", per_kind=1, random_state=9)
    outside = tmp_path / "more" / "fish" / "fish-000.jpg"
    own.fit("small = color() | pca(dim=6)")
    others = [*ids_of(own, "house"), *ids_of(own, "night")]  # enough negatives, so no random ones are added
    session = own.session(outside, without=others, space="small")
    before = session.best(k=5)
    own.remove(*ids_of(own, "stripes"))
    own.fit("small")
    after = session.best(k=5)
    assert after == own.session(outside, without=others, space="small").best(k=5)  # as in a session started now
    assert after != before


def test_a_vector_of_another_dimension_is_skipped_and_reported(own):
    fish = ids_of(own, "fish")
    own.fit("small = color() | pca(dim=6)")
    vector = own.vectors("small")[1][0]
    session = own.session([fish[0], vector], space="small")
    assert session.round().found == 1
    own.remove_space("small")
    with pytest.raises(InputError, match="'small' was removed"):
        session.round()
    own.fit("small = color() | pca(dim=7)")
    assert any("it has 6 dimensions, but the space has 7" in note for note in session.round().notes)


def test_a_session_can_start_from_a_label_with_the_negatives_of_its_sessions(own, pictures):
    fish, house = ids_of(own, "fish"), ids_of(own, "house")
    session = own.session(fish[0], author="anna")
    session.mark(relevant=fish[1:3], irrelevant=house[:2], skip=house[2])
    done = session.finish("Fische 魚")
    assert (done.labelled, done.relevant, done.irrelevant, done.contradicted) == (3, 3, 2, [])
    assert own.label_counts() == {"Fische 魚": 3}
    next_one = own.session(label="Fische 魚", author="ben")
    assert next_one.marks == dict.fromkeys(fish[:3], "relevant") | dict.fromkeys(house[:2], "irrelevant")
    corrected = own.session(house[0], label="Fische 魚")  # explicit examples take precedence
    assert corrected.marks[house[0]] == "relevant"
    with pytest.raises(InputError, match=r"No label named 'Fisch'\. Known: Fische 魚\. Did you mean"):
        own.session(label="Fisch")


def test_labels_record_author_and_time(own):
    import sqlite3

    fish = ids_of(own, "fish")
    session = own.session(fish[0], author="anna")
    own.session(id=session.id, author="ben").mark(relevant=fish[1])
    session.finish("fish")
    with sqlite3.connect(own.path / "judgements.sqlite") as db:
        rows = db.execute("SELECT item, author, source, at FROM labels ORDER BY at").fetchall()
    db.close()
    assert [row[:3] for row in rows] == [(fish[0], "anna", "session"), (fish[1], "ben", "session")]
    assert [row[3] for row in rows] == [event.at for event in session.log]


def test_finishing_again_is_allowed_but_not_under_another_name(own):
    fish = ids_of(own, "fish")
    session = own.session(fish[:2])
    with pytest.raises(InputError, match="needs a name"):
        session.finish()
    assert session.finish("fish").labelled == 2
    assert session.finish("fish").labelled == session.finish().labelled == 0
    with pytest.raises(InputError, match="was already finished as 'fish'"):
        session.finish("birds")
    for more in (lambda: session.mark(relevant=fish[2]), session.undo, session.round):
        with pytest.raises(InputError, match=r"was finished as 'fish'.* lookalike feedback --label fish"):
            more()
    assert own.label_counts() == {"fish": 2}
    assert len(session.best(k=4)) == 4


def test_a_finished_session_ranks_new_pictures(own, tmp_path):
    fish = ids_of(own, "fish")
    session = own.session(fish[0])
    session.finish("fish")
    draw_folder(tmp_path / "more", per_kind=1, random_state=9)
    own.add(tmp_path / "more")
    found = {result.path for result in session.best(k=len(own))}
    assert str(tmp_path / "more" / "fish" / "fish-000.jpg") in found


def test_a_label_by_another_author_is_kept_and_reported(own):
    fish, house = ids_of(own, "fish"), ids_of(own, "house")
    own._store.judgements.add_labels([(house[0], "fish")], author="csv", source="csv")
    session = own.session(fish[0], without=house[0])
    assert session.finish("fish").contradicted == [house[0]]


def test_finishing_requires_a_positive_picture(own, tmp_path):
    draw_folder(tmp_path / "more", per_kind=1, random_state=9)
    session = own.session(tmp_path / "more" / "fish" / "fish-000.jpg", name="fish")
    with pytest.raises(InputError, match="no positive picture to label"):
        session.finish()
    assert session.summary.state == "open"


def test_contradictions_in_one_call_are_rejected_and_later_marks_replace_earlier_ones(own):
    fish = ids_of(own, "fish")
    with pytest.raises(InputError, match="given both as positive and as negative"):
        own.session(fish[0], without=fish[0])
    session = own.session(fish[:2])
    with pytest.raises(InputError, match="given both as positive and as skipped"):
        session.mark(relevant=fish[2], skip=fish[2])
    assert len(session.marks) == 2
    session.mark(irrelevant=fish[1])
    session.mark(relevant=fish[1])
    assert session.marks == {fish[0]: "relevant", fish[1]: "relevant"}
    session.mark(irrelevant=fish[:2])
    with pytest.raises(InputError, match="no positive example"):
        session.round()
    session.undo()
    assert session.round().found == 2


def test_the_marks_of_a_removed_picture_are_kept_until_it_returns(own, pictures):
    fish = ids_of(own, "fish")
    session = own.session(fish[0])
    shown = next(item.id for item in session.round(window=3).questions if item.id != fish[1])
    session.mark(relevant=[fish[1]])
    own.remove(fish[1], shown)
    session.mark(irrelevant=shown)  # it was shown, so its mark is kept
    found = session.round(window=60)
    assert found.found == 1
    assert found.notes[0] == "2 of the marked pictures are no longer in the collection; their marks are kept."
    assert re.fullmatch(r"Few negative examples so far; \d random pictures serve as negatives\.", found.notes[1])
    assert fish[1] not in [result.id for result in found.best]
    with pytest.raises(InputError, match="No item with the id 0000000000003039"):
        session.mark(relevant=0x3039)
    own.add(pictures)
    assert not any("wait" in note for note in session.round(window=60).notes)
    assert session.round().found == 2


def test_skipped_pictures_are_ranked_but_not_asked_about_again(own):
    fish = ids_of(own, "fish")
    session = own.session(fish[0])
    asked = session.round(window=5).questions
    session.mark(skip=[item.id for item in asked])
    again = session.round(k=len(own), window=len(own))
    assert not {item.id for item in again.questions} & {item.id for item in asked}
    assert {item.id for item in asked} <= {result.id for result in again.best}


def test_filters_apply_inside_the_round(own):
    session = own.session(ids_of(own, "fish")[0])
    found = session.round(k=9, window=3, filter=Filter(path="house/*.jpg"))
    assert {Path(result.path).parent.name for result in found.best} == {"house"}
    assert {Path(item.paths[0]).parent.name for item in found.questions} == {"house"}
    assert len(found.questions) == 3


def test_three_pictures_are_enough(pictures, tmp_path):
    with Collection(tmp_path / "tiny", create=True) as collection:
        with pytest.raises(InputError, match="empty"):
            collection.session(pictures / "fish" / "fish-000.jpg")
        collection.add(*sorted((pictures / "fish").iterdir())[:3], recipes=["color"])
        session = collection.session(pictures / "fish" / "fish-000.jpg")
        found = session.round(k=50, window=9)  # k > n
        assert len(found.best) == 3
        assert len(found.questions) == 2
        session.mark(relevant=found.questions[0].id, irrelevant=found.questions[1].id)
        last = session.round()
        assert last.questions == []
        assert last.stop
        assert last.number == 1


@pytest.mark.parametrize("bad", [{"k": 0}, {"window": 0}])
def test_invalid_numbers_are_rejected(own, bad):
    session = own.session(ids_of(own, "fish")[0])
    with pytest.raises(InputError, match=f"{next(iter(bad))} must be .*at least 1"):
        session.round(**bad)


def test_invalid_sessions_are_rejected(own):
    with pytest.raises(InputError, match="at least one positive example"):
        own.session()
    with pytest.raises(InputError, match="at least one positive example"):
        own.session(without=ids_of(own, "fish")[0])
    for unknown in ("00000000", "größe", "\ud800", ""):
        with pytest.raises(InputError, match=r"No session with the id .* lookalike sessions"):
            own.session(id=unknown)
    session = own.session(ids_of(own, "fish")[0])
    with pytest.raises(InputError, match="Give only its id"):
        own.session(ids_of(own, "fish")[0], id=session.id)
    for part in (Crop(ids_of(own, "fish")[0], (0, 0, 0.5, 0.5)), np.zeros(4, np.float32)):
        with pytest.raises(InputError, match="Only pictures in the collection can be marked"):
            session.mark(relevant=[part])
    assert len(own.sessions()) == 1


def test_a_session_survives_the_loss_of_its_catalogue(own, pictures):
    fish = ids_of(own, "fish")
    session = own.session(fish[0], author="anna", name="größe")
    session.mark(relevant=fish[1])
    path = own.path
    own.close()
    (path / "catalogue.sqlite").unlink()
    shutil.rmtree(path / "vectors")
    with Collection(path, create=True) as anew:
        anew.add(pictures, recipes=["color"])
        (found,) = anew.sessions()
        assert (found.name, found.author, found.relevant) == ("größe", "anna", 2)
        assert anew.session(id=session.id).round().found == 2


# Processes


def click(where, session, author, first, last):
    words = [sys.executable, str(CLICKER), str(where), session, author, str(first), str(last)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_a_killed_client_loses_no_mark(own):
    items = sorted(item.id for item in own.items())
    session = own.session(items[0], author="anna")
    done, chance = 1, random.Random(0)
    for _ in range(3):
        with click(own.path, session.id, "anna", done, done + len(items) // 4) as process:  # three of four quarters
            for _ in range(chance.randint(1, 4)):
                done = int(process.stdout.readline()) + 1
            process.kill()
            done = max([done, *(int(line) + 1 for line in process.stdout)])  # marks printed before the kill
        kinds = ["relevant" if number % 2 == 0 else "irrelevant" for number in range(len(items))]
        marks = own.session(id=session.id).marks
        assert len(marks) in (done, done + 1)  # the kill can come after the commit and before the output
        assert marks == dict(zip(items[: len(marks)], kinds, strict=False))
        done = len(marks)
    assert own.session(id=session.id).round(window=3).number == 1
    assert own.verify() == []


def test_two_authors_can_mark_at_the_same_time(own):
    items = sorted(item.id for item in own.items())
    session = own.session(items[0], author="anna")
    people = [click(own.path, session.id, author, first, first + 15) for author, first in (("anna", 1), ("ben", 16))]
    for process in people:
        said, _ = process.communicate(timeout=TIMEOUT_S)
        assert len(said.split()) == 15
    assert set(session.marks) == set(items[:31])
    by = {event.item: event.author for event in session.log}
    assert [by[item] for item in items[1:31]] == ["anna"] * 15 + ["ben"] * 15
    assert session.undo() == {items[15]: "irrelevant"}  # anna's last mark


# Invalid use


def test_an_example_cannot_be_both_positive_and_negative(own, pictures, tmp_path):
    outside = tmp_path / "outside.png"
    Image.new("RGB", (40, 30), "red").save(outside)
    with pytest.raises(InputError, match="as positive and as negative"):
        own.session(outside, without=outside)
    row = np.full(512, 0.5)
    with pytest.raises(InputError, match="as positive and as negative"):
        own.session(row, without=row)
    with pytest.raises(InputError, match="at most 1e"):
        own.session(np.full(512, 1e30))
    assert own.sessions() == []


def test_having_nothing_to_rank_is_reported(own, pictures, tmp_path):
    session = own.session(ids_of(own, "fish")[0])
    with pytest.raises(InputError, match="No picture passes the filter"):
        session.round(filter=Filter(path="*nowhere*"))
    for k in (0, 2.5, "5"):
        with pytest.raises(InputError, match="k must be a whole number of at least 1"):
            session.round(k=k)
    own.remove_space("color")
    with pytest.raises(InputError, match=r"'color' was removed\. Existing spaces: none"):
        session.round()
    with Collection(tmp_path / "empty", create=True) as empty:
        (tmp_path / "nothing").mkdir()
        empty.add(tmp_path / "nothing", recipes=["color"])
        with pytest.raises(InputError, match="The collection is empty"):
            empty.session(pictures / "fish" / "fish-000.jpg")


@pytest.mark.parametrize(
    "harm",
    [
        "DROP TABLE outsiders",
        "DROP VIEW marks",
        "UPDATE outsiders SET vector = x'0102'",
        "UPDATE events SET item = 'abc'",
        "PRAGMA user_version = 1",
    ],
)
def test_a_damaged_log_is_found_and_reported(own, harm):
    session = own.session(ids_of(own, "fish")[0], without=np.full(512, 0.1))
    own.close()
    if "UPDATE" in harm:
        change_rows(own.path / "judgements.sqlite", harm)
    else:
        with closing(sqlite3.connect(own.path / "judgements.sqlite")) as db:
            db.execute(harm)
    if "PRAGMA" in harm:
        with pytest.raises(DamagedError, match="does not match its format version"), Collection(own.path) as again:
            again.sessions()
        return
    with Collection(own.path) as again:
        assert re.search("missing|does not match its digest", " ".join(again.verify()))
        if "abc" not in harm:
            with pytest.raises(DamagedError):
                again.session(id=session.id).round()
