"""`lookalike feedback` and `lookalike sessions`."""

import io
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from PIL import Image

import lookalike
from lookalike import cli
from lookalike.cli.feedback import draw_in_terminal
from waiting import TIMEOUT_S, until

PROGRAM = [sys.executable, "-m", "lookalike"]


@pytest.fixture(scope="module")
def filled(shared, pictures, tmp_path_factory):
    where = shutil.copytree(shared("color"), tmp_path_factory.mktemp("filled") / "collection")
    with lookalike.Collection(where) as collection:
        collection.import_labels(pictures)
    return where


@pytest.fixture
def own(filled, tmp_path, monkeypatch):
    """A writable copy; contact sheets are written next to it."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(filled, tmp_path / "own"))


@pytest.fixture
def call(own, capsys, monkeypatch):
    """A function that runs a command line with answers on stdin; it returns the exit code, stdout and stderr."""

    def run(*words, answers=""):
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", io.StringIO(answers))
        code = cli.run(["-c", str(own), *(str(word) for word in words)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def fish(pictures):
    return pictures / "fish" / "fish-000.jpg"


def session_in(text):
    return re.search(r"--resume ([0-9a-f]{8})", text).group(1)


def test_answers_from_a_pipe_are_marks_and_its_end_leaves_the_session(call, own, fish):
    code, out, err = call("feedback", fish, "--window", 4, answers="y\nNo\n\ns\n")
    assert code == 0
    assert re.search(r"Round 1: found 1.*, in \d+ ms\.", out)
    assert "1 relevant" not in out
    assert "2 positive, 1 negative, 1 skipped." in out
    assert err.rstrip().endswith(f"lookalike -c {own} feedback --resume {session_in(err)}")
    with lookalike.Collection(own) as collection:
        session = collection.session(id=session_in(err))
        assert list(session.marks.values()) == ["relevant", "relevant", "irrelevant", "skip"]
        shown = [event.item for event in session.log if event.kind == "shown"]
        assert list(session.marks)[1:] == shown[:3]


def test_several_keys_on_a_line_are_several_answers(call, own, fish):
    _, _, err = call("feedback", fish, "--window", 3, "--rounds", 2, answers="yN u\nskip\nn\nyn\n\nyes\n")
    assert err.count("Undone:") == 1
    with lookalike.Collection(own) as collection:
        session = collection.session(id=session_in(err))
        assert list(session.marks.values()) == [
            "relevant",
            "relevant",
            "skip",
            "irrelevant",
            "relevant",
            "irrelevant",
            "relevant",
        ]


@pytest.mark.parametrize("line", ["maybe", "x", "yNx u", "skip n", "yes no"])
def test_a_line_from_a_pipe_that_is_no_answer_is_an_error_and_stores_no_mark(call, own, fish, line):
    code, _, err = call("feedback", fish, "--window", 4, answers=f"n\n\n{line}\ny\n")
    assert code == 2
    assert f"Line 3 of the input is not an answer: {line!r}. Allowed: one of the words yes, no, skip" in err
    with lookalike.Collection(own) as collection:
        session = collection.session(id=session_in(err))
        assert list(session.marks.values()) == ["relevant", "irrelevant"]


def test_a_round_writes_a_contact_sheet(call, fish, tmp_path):
    code, out, err = call("feedback", fish, "-k", 5, "--window", 3)
    sheet = Path(re.search(r"Contact sheet: (.*)", out).group(1))
    assert sheet.name == f"feedback-{session_in(err)}.png"
    with Image.open(tmp_path / sheet) as drawn:
        assert drawn.width > 500
    assert code == 0
    for place in ("no/where.png", "sheet.txt"):  # fails before the first question
        assert call("feedback", fish, "--sheet", place)[0] == 2
    session = session_in(err)
    (tmp_path / f"feedback-{session}.png").unlink()
    (tmp_path / f"feedback-{session}.png").mkdir()
    code, out, err = call("feedback", "--resume", session, "--rounds", 1, answers="y\n" * 9)
    assert code == 0  # a sheet that was not requested is only a warning
    assert f"feedback-{session}.png. Choose another file." in err


def test_a_session_can_be_resumed(call, own, fish):
    _, out, err = call("feedback", fish, "--window", 3, "--rounds", 1, answers="y\nn\nn\n")
    session = session_in(err)
    code, out, err = call("feedback", "--resume", session, "--window", 3, answers="n\nq\n")
    assert code == 0
    assert "Round 2: found 2" in out
    assert "2 positive, 3 negative, 0 skipped." in out
    assert session_in(err) == session
    code, again, err = call("feedback", "--resume", session, "--window", 5, answers="q\n")
    assert "Round 2: found 2" in again  # the same round, without the answered question
    assert re.findall(r"  \d/\d  .*", again)[0].split()[1:] == re.findall(r"  \d/\d  .*", out)[1].split()[1:]
    for more in ([fish], ["--label", "fish"], ["--not", fish], ["--space", "color"]):
        assert call("feedback", "--resume", session, *more)[0] == 2
    code, _, err = call("feedback", "--resume", "00000000")
    told = f"lookalike: No session with the id '00000000'. List them with: lookalike -c {own} sessions\n"
    assert (code, err) == (2, told)


def test_undo_asks_again_and_reaches_the_previous_round(call, own, fish):
    _, _, err = call("feedback", fish, "--window", 2, answers="u\ny\nu\nn\ny\nu\nu\nq\n")
    assert "Nothing to undo." in err
    assert err.count("Undone:") == 3
    with lookalike.Collection(own) as collection:
        session = collection.session(id=session_in(err))
        clicks = [(event.kind, event.undone) for event in session.log if event.kind != "shown" and event.round]
        assert clicks == [
            ("relevant", True),
            ("undo", False),
            ("irrelevant", True),
            ("relevant", True),
            ("undo", False),
            ("undo", False),
        ]
        assert list(session.marks.values()) == ["relevant"]


def test_finishing_gives_labels(call, own, fish):
    code, out, _ = call("feedback", fish, "--window", 2, answers="y\nf\nGröße 魚\n")
    assert code == 0
    assert "Name of the class:" in out
    assert "Added the label “Größe 魚” to 2 pictures." in out
    with lookalike.Collection(own) as collection:
        assert collection.label_counts()["Größe 魚"] == 2
        (session,) = collection.sessions()
    assert (session.state, session.name) == ("finished", "Größe 魚")
    code, out, err = call("feedback", "--resume", session.id, "-k", 3)  # a finished session still has its ranking
    assert code == 0
    assert len(re.findall(r"\.jpg$", out, re.MULTILINE)) == 3
    code, _, err = call("feedback", "--resume", session.id, "--finish", "--name", "other")
    assert (code, "was already finished as 'Größe 魚'" in err) == (2, True)
    _, out, _ = call("feedback", "--label", "Größe 魚", "--rounds", 1, "--finish", "--name", "more", answers="s\n" * 9)
    assert "Added the label “more” to 2 pictures." in out
    code, _, err = call("feedback", fish, answers="f\n")
    assert (code, "A class name is required" in err) == (2, True)


def test_json_is_one_line_per_round(call, fish):
    code, out, err = call("feedback", fish, "--window", 2, "--rounds", 2, "--json", "--name", "f", answers="y\nn\n" * 2)
    assert (code, err) == (0, "")
    first, second, ranking, end = map(json.loads, out.splitlines())
    assert [first["round"], second["round"], second["session"]] == [1, 2, first["session"]]
    assert [list(question) for question in first["questions"]] == [["id", "path"]] * 2
    assert first["found"] == 1
    assert second["found"] == 2
    assert first["sheet"] is None
    assert list(ranking) == ["session", "best"]
    assert (end["relevant"], end["irrelevant"], end["name"], end["state"]) == (3, 2, "f", "open")
    code, out, _ = call("feedback", "--resume", end["id"], "--rounds", 0, "--finish", "--json", "-k", 4)
    ranking, end = map(json.loads, out.splitlines())
    assert len(ranking["best"]) == 4
    assert (end["state"], end["finished"]["labelled"]) == ("finished", 3)
    code, out, err = call("feedback", "--resume", "nothing", "--json")
    assert (code, json.loads(err)["error"]["kind"]) == (2, "InputError")


def test_filters_boxes_and_negatives_reach_the_session(call, own, pictures, fish):
    house = pictures / "house"
    words = [
        "--path",
        "house/*.jpg",
        "--box",
        "0.1,0.1,0.8,0.8",
        "--not",
        house / "house-000.jpg",
        "--without",
        house / "house-001.jpg",
    ]
    code, out, _ = call("feedback", fish, *words, "--json")
    first = json.loads(out.splitlines()[0])
    assert code == 0
    assert {Path(row["path"]).parent.name for row in first["best"] + first["questions"]} == {"house"}
    assert len(first["questions"]) == 2
    with lookalike.Collection(own) as collection:
        assert list(collection.session(id=first["session"]).marks.values()) == ["irrelevant"] * 2
    assert call("feedback", fish, fish, "--box", "0,0,1,1")[0] == 2
    assert call("feedback")[0] == 2


def test_sessions_are_listed(call, own, fish):
    assert call("sessions")[2] == f"No sessions yet. Start one: lookalike -c {own} feedback IMAGE\n"
    _, _, err = call("feedback", fish, "--name", "größe", "--author", "anna", answers="y\nn\n")
    code, out, _ = call("sessions")
    assert code == 0
    assert re.fullmatch(
        rf"{session_in(err)}  open +2 positive +1 negative +0 skipped +1 round  [-\d]+ [:\d]+  anna  größe\n",
        out,
    )
    (row,) = json.loads(call("sessions", "--json")[1])
    assert (row["id"], row["state"], row["relevant"], row["name"]) == (session_in(err), "open", 2, "größe")


def test_open_sessions_are_deleted_all_or_none(call, fish):
    one, other, done = (session_in(call("feedback", fish, "--name", "x", answers="y\n")[2]) for _ in range(3))
    call("feedback", "--resume", done, "--rounds", 0, "--finish")
    for wrong, why in ((done, "the class 'x' depends on it"), ("00000000", "No session with the id '00000000'")):
        code, out, err = call("sessions", "delete", one, wrong)
        assert (code, out, why in err) == (2, "", True)
    assert call("sessions", "delete", one)[:2] == (0, "Deleted 1 session with 2 answers.\n")
    assert json.loads(call("sessions", "delete", other, other, "--json")[1]) == {"deleted": [other]}
    assert [row["id"] for row in json.loads(call("sessions", "--json")[1])] == [done]
    assert call("sessions", "delete")[0] == 2


def test_a_simulated_user_measures_the_precision(call, own, fish, pictures, tmp_path):
    code, out, _ = call("feedback", fish, "--simulate", "labels", "--rounds", 4, "--window", 5, "--json")
    rows = json.loads(out)
    assert code == 0
    assert [row["round"] for row in rows] == list(range(5))
    assert [row["marked"] for row in rows] == [1, 6, 11, 16, 21]
    assert rows[-1]["precision"] >= rows[0]["precision"]
    assert 0.25 <= rows[0]["precision"] <= 1
    assert rows[-1]["found"] >= rows[0]["found"] == 1
    table = call("feedback", fish, "--simulate", "labels", "--rounds", 4, "--window", 5)[1].splitlines()
    assert table[0].split()[:2] == ["round", "precision"]
    assert [float(line.split()[1]) for line in table[1:]] == [round(row["precision"], 3) for row in rows]
    by_folder = call("feedback", fish, "--simulate", pictures, "--rounds", 4, "--window", 5, "--json")
    file = tmp_path / "labels.csv"
    file.write_text("path,label\n" + "".join(f"{p},swims\n" for p in sorted((pictures / "fish").iterdir())))
    by_file = call("feedback", fish, "--simulate", file, "--rounds", 4, "--window", 5, "--json")
    for other in (by_folder, by_file):
        assert [row["precision"] for row in json.loads(other[1])] == [row["precision"] for row in rows]
    named = json.loads(call("feedback", "--simulate", file, "--label", "swims", "--rounds", 1, "--json")[1])
    assert len(named) == 2
    with lookalike.Collection(own) as collection:
        assert collection.sessions() == []  # nothing is stored


def test_a_simulation_says_why_it_ended_and_that_unlabelled_pictures_count_as_no(call, fish):
    simulate = ["feedback", fish, "--simulate", "labels", "--window", 40]
    limited = call(*simulate, "--rounds", 1)[2].splitlines()
    assert limited[0] == "The simulation ended after 1 round, the limit set by --rounds."
    assert limited[-1] == "Pictures without the label count as “no”, including those that have no label at all."
    notes = call(*simulate, "--rounds", 50)[2]
    rows = json.loads(call(*simulate, "--rounds", 50, "--json")[1])
    first = next(row for row in rows if row["stop"])
    assert len(rows) < 51
    assert rows[-1]["stop"] == "No questions are left: every picture is marked or skipped."
    assert f"The simulation ended after {len(rows) - 1} rounds. {rows[-1]['stop']}\n" in notes
    assert first["round"] < rows[-1]["round"]
    assert "nearly all" in first["stop"]
    assert f"First recommendation to stop: after {first['round']} round" in notes
    assert first["stop"] in notes


def test_a_simulation_needs_one_known_label(call, own, fish, tmp_path):
    with lookalike.Collection(own) as collection:
        first = next(iter(collection.items()))
        collection._store.judgements.add_labels([(first.id, "second")], author="a", source="hand")
    code, _, err = call("feedback", first.paths[0], "--simulate", "labels")
    assert (code, ", second" in err) == (2, True)
    code, _, err = call("feedback", "--simulate", "labels")
    assert (code, "Got no example" in err) == (2, True)
    code, _, err = call("feedback", fish, "--simulate", "labels", "--label", "fisk")
    assert (code, "Did you mean 'fish'?" in err) == (2, True)
    code, _, err = call("feedback", fish, "--simulate", tmp_path / "nothing")
    assert (code, "nothing does not exist. Give a file of labels" in err) == (2, True)


def test_a_session_interrupted_by_ctrl_c_can_be_resumed(own, fish, tmp_path):
    process = subprocess.Popen(
        [*PROGRAM, "-c", str(own), "feedback", str(fish), "--window", "3"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert process.stdin
    process.stdin.write("y\n")
    process.stdin.flush()
    with lookalike.Collection(own) as collection:
        until(lambda: collection.sessions() and collection.sessions()[0].relevant == 2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 130
        assert "Stopped. Every answer is saved. To resume: lookalike" in err
        assert "the same command" not in err
        assert collection.session(id=session_in(err)).summary.relevant == 2


def test_on_a_terminal_one_key_is_an_answer(own, fish, tmp_path):
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, "-c", str(own), "feedback", str(fish), "--window", "3"],
        stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    os.close(terminal)
    assert process.stdout

    def waits_for_a_key():
        return not termios.tcgetattr(controller)[3] & termios.ICANON

    while "y yes" not in (line := process.stdout.readline()):
        assert line, "the process ended"
    process.stdout.readline()  # the first question, which has no line end
    until(waits_for_a_key)
    os.write(controller, b"Y")
    assert process.stdout.readline().lstrip().startswith("2/3")
    until(waits_for_a_key)
    os.write(controller, b"\x04")
    out, _ = process.communicate(timeout=TIMEOUT_S)
    os.close(controller)
    assert process.returncode == 0
    assert "2 positive, 0 negative" in out


@pytest.mark.parametrize(
    ("variables", "begins"),
    [
        ({"KITTY_WINDOW_ID": "1"}, "\033_Ga=T,f=100,m="),
        ({"TERM_PROGRAM": "iTerm.app"}, "\033]1337;File=inline=1:"),
        ({}, ""),
    ],
)
def test_the_sheet_is_shown_in_terminals_that_support_pictures(variables, begins, tmp_path, monkeypatch, capsys):
    for name in ("KITTY_WINDOW_ID", "TERM_PROGRAM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    Image.effect_noise((90, 90), 50).save(tmp_path / "x.png")
    draw_in_terminal(str(tmp_path / "x.png"))
    out = capsys.readouterr().out
    assert out.startswith(begins)
    assert bool(out) == bool(begins)
    assert out.count("m=0;") == ("KITTY_WINDOW_ID" in variables)


def test_undo_and_finish_work_without_remaining_questions(call, fish):
    code, out, _ = call("feedback", fish, "--path", "*fish*", answers="y\ny\ny\nu\nn\nf\nfishes\n")
    assert code == 0
    assert "u undo · f finish · q quit" in out
    assert "Added the label “fishes” to" in out


def test_options_that_simulate_ignores_are_refused(call, fish):
    for words in (["--resume", "x"], ["--finish"], ["--name", "x"], ["-k", 3]):
        code, _, err = call("feedback", fish, "--simulate", "labels", *words)
        assert code == 2
        assert f"Leave out {words[0]}." in err


def test_a_name_is_needed_to_finish(call, fish):
    code, out, err = call("feedback", fish, "--rounds", 1, "--finish", answers="y\nn\nn\nn\nn\nn\nn\nn\nn\n")
    assert code == 2
    assert f"--resume {session_in(out + err)} --rounds 0 --finish --name NAME" in err
